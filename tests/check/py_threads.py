# check: race
"""A thread writes by a stream; the main thread reads when the thread has ended."""
import threading

import acl
from pair import SIZE, TO_HOST, WRONG, end_device, end_streams, ok, start_device


def produce(memory, stream):
    ok(acl.rt.set_device(0))
    ok(acl.rt.memset_async(memory, SIZE, 1, SIZE, stream))  # check: written by
    if not WRONG:
        ok(acl.rt.synchronize_stream(stream))


start_device()
stream = ok(acl.rt.create_stream())
memory, host = ok(acl.rt.malloc(SIZE, 0)), ok(acl.rt.malloc_host(SIZE))
ok(acl.rt.memset(memory, SIZE, 0, SIZE))

thread = threading.Thread(target=produce, args=(memory, stream))
thread.start()
thread.join()
ok(acl.rt.memcpy(host, SIZE, memory, SIZE, TO_HOST))  # check: read by
# check: missing must synchronise
end_streams(stream)
ok(acl.rt.free(memory))
ok(acl.rt.free_host(host))
end_device()
