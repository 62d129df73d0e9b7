"""
Process B: opens the event of process A, works after A's record, and records the event back.
usage: consumer.py DIR
"""
import sys

import acl
import acl.rt
from example import TO_DEVICE, TO_HOST, check, expect_complete, handle_read, say
from example import signal_send, signal_wait

NAME = "consumer.py"
SIZE = 1 << 20


def work(stream):
    """To the device and back, in the order of the stream. What is allocated ends with the block."""
    own = acl.npud.own
    with own(acl.rt.malloc, SIZE, 0) as device, own(acl.rt.malloc_host, SIZE) as host, \
         own(acl.rt.malloc_host, SIZE) as back, \
         memoryview(host) as sent, memoryview(back) as received:
        sent[:] = b"b" * SIZE
        check(acl.rt.memcpy_async(device, SIZE, host, SIZE, TO_DEVICE, stream))
        check(acl.rt.memcpy_async(back, SIZE, device, SIZE, TO_HOST, stream))
        check(acl.rt.synchronize_stream(stream))
        if received != sent:
            sys.exit(f"{NAME}: what came back from the device is not what was sent")
    say(NAME, f"work done: {SIZE} bytes to the device and back")


def main(directory):
    check(acl.init())
    # Another one than the producer's, if there is more than one.
    device = check(acl.rt.get_device_count()) - 1
    check(acl.rt.set_device(device))
    stream = check(acl.rt.create_stream())
    say(NAME, f"using device {device}")

    signal_wait(directory, "exported")
    event = check(acl.rt.ipc_open_event_handle(handle_read(directory)))
    check(acl.rt.stream_wait_event(stream, event))
    check(acl.rt.synchronize_stream(stream))
    say(NAME, "stream has waited for the producer's record")
    work(stream)

    check(acl.rt.record_event(event, stream))
    check(acl.rt.synchronize_event(event))
    expect_complete(NAME, event, "event recorded back and synchronised")

    check(acl.rt.destroy_event(event))
    check(acl.rt.destroy_stream(stream))
    check(acl.rt.reset_device(device))
    check(acl.finalize())
    say(NAME, "cleaned up")
    signal_send(directory, "done")


main(sys.argv[1])
