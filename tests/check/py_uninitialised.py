# check: uninitialised
"""A task reads memory that nothing has written."""
import acl
from pair import SIZE, TO_HOST, WRONG, end_device, end_streams, ok, start_device

start_device()
stream = ok(acl.rt.create_stream())
memory = ok(acl.rt.malloc(SIZE, 0))  # check: memory allocated
host = ok(acl.rt.malloc_host(SIZE))

if not WRONG:
    ok(acl.rt.memset_async(memory, SIZE, 1, SIZE, stream))
ok(acl.rt.memcpy_async(host, SIZE, memory, SIZE, TO_HOST, stream))  # check: read by
end_streams(stream)
ok(acl.rt.free(memory))
ok(acl.rt.free_host(host))
end_device()
