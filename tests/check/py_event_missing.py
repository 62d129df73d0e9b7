# check: race
"""The consumer's stream does not wait for the write in the producer's stream."""
import acl
from pair import SIZE, SYNC, TO_HOST, WRONG, end_device, end_streams, ok, start_device

start_device()
producer, consumer = ok(acl.rt.create_stream()), ok(acl.rt.create_stream())
written = ok(acl.rt.create_event_ex_with_flag(SYNC))
memory, host = ok(acl.rt.malloc(SIZE, 0)), ok(acl.rt.malloc_host(SIZE))
ok(acl.rt.memset(memory, SIZE, 0, SIZE))

ok(acl.rt.memset_async(memory, SIZE, 1, SIZE, producer))  # check: written by
ok(acl.rt.record_event(written, producer))
if not WRONG:
    ok(acl.rt.stream_wait_event(consumer, written))
ok(acl.rt.memcpy_async(host, SIZE, memory, SIZE, TO_HOST, consumer))  # check: read by
# check: missing must wait for an event that is recorded after the write
end_streams(producer, consumer)
ok(acl.rt.free(memory))
ok(acl.rt.free_host(host))
ok(acl.rt.destroy_event(written))
end_device()
