# check: race
# check: options --check-host=seen
"""A queue of npud is an order between threads; a queue of Python is none that is seen."""
import ctypes
import queue
import threading

import acl
from pair import SIZE, TO_HOST, WRONG, end_device, end_streams, ok, start_device

own = queue.Queue()


def produce(stream):
    ok(acl.rt.set_device(0))
    memory = ok(acl.rt.malloc(SIZE, 0))
    ok(acl.rt.memset_async(memory, SIZE, 1, SIZE, stream))  # check: written by
    ok(acl.rt.synchronize_stream(stream))
    if WRONG:
        own.put(memory)
    else:
        word = ctypes.c_uint64(memory)
        ok(acl.tdt.enqueue_data(passed, ctypes.addressof(word), 8, 0, 0, -1, 0))


def take():
    if WRONG:
        return own.get()
    word = ctypes.c_uint64()
    ok(acl.tdt.dequeue_data(passed, ctypes.addressof(word), 8, 0, 0, -1))
    return word.value


start_device()
passed = ok(acl.tdt.create_queue(0))
stream = ok(acl.rt.create_stream())
host = ok(acl.rt.malloc_host(SIZE))
thread = threading.Thread(target=produce, args=(stream,))
thread.start()
memory = take()
ok(acl.rt.memcpy(host, SIZE, memory, SIZE, TO_HOST))  # check: read by
# check: missing
thread.join()
end_streams(stream)
ok(acl.rt.free(memory))
ok(acl.rt.free_host(host))
ok(acl.tdt.destroy_queue(passed))
end_device()
