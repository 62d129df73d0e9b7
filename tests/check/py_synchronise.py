# check: race
"""A copy without a stream waits for no stream."""
import acl
from pair import SIZE, TO_HOST, WRONG, end_device, end_streams, ok, start_device

start_device()
stream = ok(acl.rt.create_stream())
memory, host = ok(acl.rt.malloc(SIZE, 0)), ok(acl.rt.malloc_host(SIZE))
ok(acl.rt.memset(memory, SIZE, 0, SIZE))

ok(acl.rt.memset_async(memory, SIZE, 1, SIZE, stream))  # check: written by
if not WRONG:
    ok(acl.rt.synchronize_stream(stream))
ok(acl.rt.memcpy(host, SIZE, memory, SIZE, TO_HOST))  # check: read by
# check: missing must synchronise
end_streams(stream)
ok(acl.rt.free(memory))
ok(acl.rt.free_host(host))
end_device()
