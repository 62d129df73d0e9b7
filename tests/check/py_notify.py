# check: race
"""A notify that is recorded before the write."""
import acl
from pair import SIZE, TO_HOST, WRONG, end_device, end_streams, ok, start_device

start_device()
producer, consumer = ok(acl.rt.create_stream()), ok(acl.rt.create_stream())
notify = ok(acl.rt.create_notify(0))
memory, host = ok(acl.rt.malloc(SIZE, 0)), ok(acl.rt.malloc_host(SIZE))
ok(acl.rt.memset(memory, SIZE, 0, SIZE))

ok(acl.rt.wait_and_reset_notify(notify, consumer, 0))
if WRONG:
    ok(acl.rt.record_notify(notify, producer))
ok(acl.rt.memset_async(memory, SIZE, 1, SIZE, producer))  # check: written by
if not WRONG:
    ok(acl.rt.record_notify(notify, producer))
ok(acl.rt.memcpy_async(host, SIZE, memory, SIZE, TO_HOST, consumer))  # check: read by
# check: missing must wait for
end_streams(producer, consumer)
ok(acl.rt.free(memory))
ok(acl.rt.free_host(host))
ok(acl.rt.destroy_notify(notify))
end_device()
