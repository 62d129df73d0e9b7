"""Memory of the library through the buffer protocol, without a copy, and what refuses to end it."""
import ctypes
import gc
import mmap
import os
import subprocess
import sys
import tracemalloc
import unittest

import acl
import acl.rt
import acl.tdt
from support import TO_DEVICE, TO_HOST, DeviceTest, bindir, main, readable

try:
    import numpy as np
except ImportError:
    np = None

SIZE = 10000
GLOBAL = 1  # the flag of managed memory
ROUNDS = 10000
GROWTH = 1 << 20  # bytes that the process may grow by in ROUNDS


def resident():
    with open("/proc/self/statm") as f:
        return int(f.read().split()[1]) * os.sysconf("SC_PAGESIZE")


class Views(DeviceTest):
    def setUp(self):
        super().setUp()
        self.host = self.ok(acl.rt.malloc_host(SIZE))
        self.addCleanup(acl.rt.free_host, self.host)

    def check_in_place(self, address, size):
        """What is written to the view is in the memory, and the other way round."""
        with acl.npud.view(address, size) as view:
            self.assertEqual((view.nbytes, view.format, view.ndim), (size, "B", 1))
            self.assertFalse(view.readonly)
            view[:4] = b"abcd"
            self.assertEqual(acl.util.ptr_to_bytes(address, 4), b"abcd")
            ctypes.memset(address + size - 1, 0x5A, 1)
            self.assertEqual(view[size - 1], 0x5A)

    def test_host_memory(self):
        self.check_in_place(self.host, SIZE)

    def test_inside(self):
        with acl.npud.view(self.host + 5000, 7) as view:
            view[:] = b"1234567"
        self.assertEqual(acl.util.ptr_to_bytes(self.host + 5000, 7), b"1234567")

    @readable
    def test_device_memory(self):
        device = self.ok(acl.rt.malloc(SIZE, 0))
        self.check_in_place(device, SIZE)
        self.ok(acl.rt.free(device))

    def test_managed_memory(self):
        managed = self.ok(acl.rt.mem_alloc_managed(SIZE, GLOBAL))
        self.check_in_place(managed, SIZE)
        self.ok(acl.rt.free(managed))

    def test_registered_memory(self):
        with mmap.mmap(-1, 3 * 4096, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as area:
            whole = (ctypes.c_char * len(area)).from_buffer(area)
            address = ctypes.addressof(whole)
            self.assertRaises(ValueError, acl.npud.view, address, 4096)
            self.ok(acl.rt.host_register(address, 2 * 4096, 0))
            self.check_in_place(address, 2 * 4096)
            self.assertRaises(ValueError, acl.npud.view, address, 3 * 4096)
            view = acl.npud.view(address, 4096)
            self.ok(acl.rt.host_unregister(address))  # the memory is the program's, and stays
            self.assertEqual(view[0], ord("a"))
            view.release()
            del whole

    def test_shared_buffer(self):
        buf = self.ok(acl.tdt.alloc_buf(SIZE, 0))
        address, size = self.ok(acl.tdt.get_buf_data(buf))
        self.assertEqual(size, SIZE)
        self.check_in_place(address, size)
        self.ok(acl.tdt.free_buf(buf))

    @readable
    def test_mapped_memory(self):
        size = 2 << 20
        prop = {"memAttr": 4, "location": {"id": 0, "type": 1}}
        handle = self.ok(acl.rt.malloc_physical(size, prop, 0))
        address = self.ok(acl.rt.reserve_mem_address(2 * size, 0, 0, 0))
        self.assertRaises(ValueError, acl.npud.view, address, 1)
        self.ok(acl.rt.map_mem(address, size, 0, handle, 0))
        self.check_in_place(address, size)
        self.assertRaises(ValueError, acl.npud.view, address, size + 1)
        view = acl.npud.view(address + 4096, 1)
        self.refuses(acl.rt.unmap_mem, address)
        view.release()
        self.ok(acl.rt.unmap_mem(address))
        self.ok(acl.rt.release_mem_address(address))
        self.ok(acl.rt.free_physical(handle))

    def test_not_memory_of_the_library(self):
        data = b"of Python"
        freed = self.ok(acl.rt.malloc_host(4096))
        self.ok(acl.rt.free_host(freed))
        for address, size in ((0, 1), (4096, 1), (freed, 1), (acl.util.bytes_to_ptr(data), 1),
                              (self.host, 0), (self.host, 1 << 40), (self.host, 2**64 - 1),
                              (self.host - 1, 2)):
            with self.assertRaisesRegex(ValueError, "is not memory of this library"):
                acl.npud.view(address, size)
        self.ok(acl.rt.free_host(self.host))  # no view is left of them
        self.host = self.ok(acl.rt.malloc_host(SIZE))

    def test_copies_of_the_library_are_seen(self):
        device = self.ok(acl.rt.malloc(SIZE, 0))
        with acl.npud.view(self.host, SIZE) as view:
            view[:] = bytes(i % 251 for i in range(SIZE))
            self.ok(acl.rt.memcpy(device, SIZE, self.host, SIZE, TO_DEVICE))
            expected = bytes(view)
            view[:] = bytes(SIZE)
            self.ok(acl.rt.memcpy_async(self.host, SIZE, device, SIZE, TO_HOST, self.stream))
            self.ok(acl.rt.synchronize_stream(self.stream))
            self.assertEqual(view, expected)
        self.ok(acl.rt.free(device))

    def refuses(self, function, *arguments):
        sentence = r"^acl\.[a-z_.]+: there are views of memory that this call would end"
        self.assertRaisesRegex(BufferError, sentence, function, *arguments)

    def test_memory_is_not_freed_under_a_view(self):
        host = self.ok(acl.rt.malloc_host(3 * 4096))
        view = acl.npud.view(host + 2 * 4096, 10)
        part = view[2:4]
        self.refuses(acl.rt.free_host, host)
        self.refuses(acl.rt.free_host_with_dev_sync, host)
        view.release()
        self.refuses(acl.rt.free_host, host)
        part[0] = 7
        self.assertEqual(part[0], 7)
        self.ok(acl.rt.free_host(self.host))  # other memory is
        self.host = self.ok(acl.rt.malloc_host(SIZE))
        del view, part
        self.ok(acl.rt.free_host(host))

    @readable
    def test_what_ends_device_memory_is_refused(self):
        device = self.ok(acl.rt.malloc(SIZE, 0))
        view = acl.npud.view(device + 100, 10)
        for function, arguments in ((acl.rt.free, (device,)),
                                    (acl.rt.free_with_dev_sync, (device,)),
                                    (acl.rt.reset_device, (0,)), (acl.rt.reset_device_force, (0,)),
                                    (acl.rt.ipc_mem_close, ("key",)), (acl.npud.mem_close_fd, (1,)),
                                    (acl.finalize, ()), (acl.finalize_reference, ())):
            with self.subTest(function.__name__):
                self.refuses(function, *arguments)
        view.release()
        self.ok(acl.rt.free(device))

    def test_host_memory_outlives_its_device(self):
        view = acl.npud.view(self.host, 4)
        self.ok(acl.rt.reset_device_force(0))
        view[:] = b"stay"
        self.assertEqual(view, b"stay")
        self.refuses(acl.finalize)
        view.release()
        self.ok(acl.rt.set_device(0))

    def test_shared_buffers_stay(self):
        head, next_ = (self.ok(acl.tdt.alloc_buf(100, 0)) for _ in range(2))
        queue = self.ok(acl.tdt.create_queue(0))
        view = acl.npud.view(self.ok(acl.tdt.get_buf_data(next_))[0], 100)
        self.ok(acl.tdt.append_buf_chain(head, next_))
        self.refuses(acl.tdt.free_buf, head)
        self.refuses(acl.rt.free_buf, head)
        self.refuses(acl.tdt.enqueue, queue, head, 0)
        view[:4] = b"data"
        view.release()
        self.ok(acl.tdt.enqueue(queue, head, 0))
        self.ok(acl.tdt.destroy_queue(queue))

    def test_several_views_in_any_order(self):
        views = [acl.npud.view(self.host + i, 1) for i in range(5)]
        for i in (2, 0, 4, 1):
            views[i].release()
            self.refuses(acl.rt.free_host, self.host)
        views[3].release()
        self.ok(acl.rt.free_host(self.host))
        self.host = self.ok(acl.rt.malloc_host(SIZE))

    def test_files_read_into_it(self):
        with open("/dev/zero", "rb", buffering=0) as f, acl.npud.view(self.host, SIZE) as view:
            view[:] = b"x" * SIZE
            self.assertEqual(f.readinto(view), SIZE)
            self.assertEqual(bytes(view), bytes(SIZE))

    def test_other_threads_run_while_much_is_checked(self):
        size = 64 << 20
        host = self.ok(acl.rt.malloc_host(size))
        for _ in range(100):
            ended, before = [], []
            self.while_in(lambda: ended.append(acl.npud.view(host, size).nbytes) or 0,
                          lambda: before.append(not ended))
            self.assertEqual(ended, [size])
            if before[0]:
                break
        self.assertTrue(before[0])
        self.ok(acl.rt.free_host(host))

    def test_no_leaks(self):
        def rounds(n):
            for _ in range(n):
                with acl.npud.view(self.host, SIZE) as view, view[1:3]:
                    pass
                try:
                    acl.npud.view(self.host, 1 << 40)
                except ValueError:
                    pass
                with acl.npud.own(acl.rt.alloc_buf, 10) as buf, memoryview(buf):
                    pass
                try:
                    acl.rt.memcpy_batch([1], [1], [1], [1], [{"dstLoc": {"x": 1}}], [0])
                except ValueError:
                    pass
                acl.rt.pointer_get_attributes(self.host)
                acl.rt.mem_set_access(0, 0, [{"flags": 1, "location": {"id": 5}}])
                acl.rt.check_mem_type([self.host], 2)

        tracemalloc.start()
        self.addCleanup(tracemalloc.stop)
        rounds(ROUNDS // 10)
        gc.collect()
        first, before = tracemalloc.get_traced_memory()[0], resident()
        rounds(ROUNDS)
        gc.collect()
        last = tracemalloc.get_traced_memory()[0]
        self.assertLess(last - first, ROUNDS)  # less than a byte for each
        self.assertLess(resident() - before, GROWTH)


@unittest.skipUnless(np, "numpy is not installed")
class Numpy(DeviceTest):
    def test_an_array_over_it(self):
        host = self.ok(acl.rt.malloc_host(SIZE))
        array = np.frombuffer(acl.npud.view(host, SIZE), dtype=np.int32)
        self.assertFalse(array.flags.owndata)
        array[:] = np.arange(SIZE // 4)
        self.assertEqual(acl.util.ptr_to_bytes(host + 4 * 777, 4), (777).to_bytes(4, "little"))
        part = array[5:7].reshape(2, 1)
        del array
        self.assertRaises(BufferError, acl.rt.free_host, host)
        self.assertEqual(part[1, 0], 6)
        del part
        self.ok(acl.rt.free_host(host))

    def test_an_array_over_an_owner(self):
        with acl.npud.own(acl.tdt.alloc_buf, 800, 0) as buf:
            array = np.frombuffer(buf, dtype=np.float64)
            array[:] = 1.5
            self.assertEqual(array.sum(), 150)
            self.assertRaises(BufferError, buf.close)
            del array


STRICT = """
import acl
def must(result):
    assert result[-1] == 0, (result, acl.get_recent_err_msg())
    return result[0]
assert acl.init() == 0 and acl.rt.set_device(0) == 0
device = must(acl.rt.malloc(4096, 0))
try:
    acl.npud.view(device, 4096)
except ValueError as e:
    print(e)
for own, arguments in ((acl.rt.malloc_host, (4096,)), (acl.rt.mem_alloc_managed, (4096, 1)),
                       (acl.tdt.alloc_buf, (4096, 0))):
    with acl.npud.own(own, *arguments) as memory, memoryview(memory) as view:
        view[:2] = b"ok"
        print(bytes(view[:2]))
try:
    with acl.npud.own(acl.rt.malloc, 4096, 0) as memory:
        memoryview(memory)
except ValueError:
    print("no view of device memory")
assert acl.rt.free(device) == 0 and acl.rt.reset_device(0) == 0 and acl.finalize() == 0
"""


class Strict(unittest.TestCase):
    def test_memory_of_a_strict_device_cannot_be_viewed(self):
        run = subprocess.run([os.path.join(bindir(), "npu-run"), "--strict", "--", sys.executable,
                              "-c", STRICT], stdout=subprocess.PIPE, text=True, check=True)
        lines = run.stdout.splitlines()
        self.assertRegex(lines[0], r"^acl.npud.view: 4096 bytes at 0x\w+: this range cannot be "
                         r"read by this process \(its device is strict, .*\): copy it to host "
                         r"memory with acl.rt.memcpy$")
        self.assertEqual(lines[1:], ["b'ok'"] * 3 + ["no view of device memory"])


if __name__ == "__main__":
    main()
