# check: race
"""The event is recorded before the work that it stands for; both are in functions."""
import acl
from pair import SIZE, SYNC, TO_HOST, WRONG, end_device, end_streams, ok, start_device


def produce(memory, event, stream):
    if WRONG:
        ok(acl.rt.record_event(event, stream))  # check: missing names
    ok(acl.rt.memset_async(memory, SIZE, 1, SIZE, stream))  # check: written by
    if not WRONG:
        ok(acl.rt.record_event(event, stream))


def consume(host, memory, event, stream):
    ok(acl.rt.stream_wait_event(stream, event))  # check: missing names
    ok(acl.rt.memcpy_async(host, SIZE, memory, SIZE, TO_HOST, stream))  # check: read by
    # check: missing must wait for an event that is recorded after the write


def main():
    start_device()
    producer, consumer = ok(acl.rt.create_stream()), ok(acl.rt.create_stream())
    written = ok(acl.rt.create_event_ex_with_flag(SYNC))
    memory, host = ok(acl.rt.malloc(SIZE, 0)), ok(acl.rt.malloc_host(SIZE))
    ok(acl.rt.memset(memory, SIZE, 0, SIZE))
    produce(memory, written, producer)
    consume(host, memory, written, consumer)
    end_streams(producer, consumer)
    ok(acl.rt.free(memory))
    ok(acl.rt.free_host(host))
    ok(acl.rt.destroy_event(written))
    end_device()


main()
