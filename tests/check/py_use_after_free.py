# check: use-after-free
"""A task names memory that was freed."""
import acl
from pair import SIZE, WRONG, end_device, end_streams, ok, start_device

start_device()
stream = ok(acl.rt.create_stream())
memory = ok(acl.rt.malloc(SIZE, 0))

if WRONG:
    ok(acl.rt.free(memory))  # check: freed by
acl.rt.memset_async(memory, SIZE, 1, SIZE, stream)  # check: (written|used|given) by
end_streams(stream)
if not WRONG:
    ok(acl.rt.free(memory))
end_device()
