# check: race
"""Memory is freed while a task uses it."""
import acl
from pair import SIZE, WRONG, end_device, ok, start_device

start_device()
stream = ok(acl.rt.create_stream())
memory = ok(acl.rt.malloc(SIZE, 0))  # check: memory allocated

ok(acl.rt.memset_async(memory, SIZE, 1, SIZE, stream))  # check: written by
if not WRONG:
    ok(acl.rt.synchronize_stream(stream))
ok(acl.rt.free(memory))  # check: freed by
# check: missing must synchronise
acl.rt.synchronize_stream(stream)  # it may have failed
ok(acl.rt.destroy_stream(stream))
end_device()
