# check: race
"""A callback tells the thread of the work before it. It is launched before the write."""
import threading

import acl
from pair import SIZE, TO_HOST, WRONG, end_device, end_streams, ok, start_device

NO_BLOCK = 0

start_device()
stream, me = ok(acl.rt.create_stream()), threading.get_ident()
memory, host = ok(acl.rt.malloc(SIZE, 0)), ok(acl.rt.malloc_host(SIZE))
ok(acl.rt.memset(memory, SIZE, 0, SIZE))

ok(acl.rt.subscribe_report(me, stream))
if WRONG:
    ok(acl.rt.launch_callback(print, "called", NO_BLOCK, stream))
ok(acl.rt.memset_async(memory, SIZE, 1, SIZE, stream))  # check: written by
if not WRONG:
    ok(acl.rt.launch_callback(print, "called", NO_BLOCK, stream))
ok(acl.rt.process_report(-1))
ok(acl.rt.memcpy(host, SIZE, memory, SIZE, TO_HOST))  # check: read by
# check: missing must synchronise
ok(acl.rt.synchronize_stream(stream))
ok(acl.rt.unsubscribe_report(me, stream))
end_streams(stream)
ok(acl.rt.free(memory))
ok(acl.rt.free_host(host))
end_device()
