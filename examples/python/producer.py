"""
Process A: makes an IPC event, hands it to process B, and gets it back recorded by B.
usage: producer.py DIR
"""
import sys

import acl
import acl.rt
from example import IPC, check, expect_complete, handle_write, say, signal_send, signal_wait

NAME = "producer.py"


def main(directory):
    check(acl.init())
    check(acl.rt.set_device(0))
    stream = check(acl.rt.create_stream())
    say(NAME, "using device 0")

    event = check(acl.rt.create_event_ex_with_flag(IPC))
    check(acl.rt.record_event(event, stream))
    check(acl.rt.synchronize_event(event))
    expect_complete(NAME, event, "event recorded and synchronised")

    handle_write(directory, check(acl.rt.ipc_get_event_handle(event)))
    signal_send(directory, "exported")
    say(NAME, "handle exported, waiting for the consumer")
    signal_wait(directory, "done")
    expect_complete(NAME, event, "the consumer has recorded the event")

    check(acl.rt.destroy_event(event))
    check(acl.rt.destroy_stream(stream))
    check(acl.rt.reset_device(0))
    check(acl.finalize())
    say(NAME, "cleaned up")


main(sys.argv[1])
