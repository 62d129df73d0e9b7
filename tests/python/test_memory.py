"""Device and host memory, and acl.util's addresses and arrays."""
import subprocess
import sys
import unittest
import warnings

import acl
import acl.rt
from acl.util import bytes_to_ptr, ptr_to_bytes
from support import HOST, TO_DEVICE, TO_HOST, DeviceTest, main

SIZE = 100000


class Memory(DeviceTest):
    def setUp(self):
        super().setUp()
        self.device = self.ok(acl.rt.malloc(SIZE, 0))
        self.host = self.ok(acl.rt.malloc_host(SIZE))
        self.addCleanup(acl.rt.free_host, self.host)
        self.data = bytes(i * 7 % 256 for i in range(SIZE))

    def test_memcpy(self):
        self.assertEqual(self.host % 64, 0)
        self.ok(acl.rt.memcpy(self.device, SIZE, bytes_to_ptr(self.data), SIZE, TO_DEVICE))
        self.ok(acl.rt.memcpy(self.host, SIZE, self.device, SIZE, TO_HOST))
        self.assertEqual(ptr_to_bytes(self.host, SIZE), self.data)
        self.assertNotEqual(acl.rt.memcpy(self.device, 1, self.host, 2, TO_DEVICE), 0)

    def test_other_threads_run_while_much_is_copied(self):
        """How far the copy has come then is for the scheduler to say: once it has not ended is
        enough."""
        size = 32 << 20
        source = self.ok(acl.rt.malloc_host(size))
        self.addCleanup(acl.rt.free_host, source)
        for _ in range(100):
            ended, before = [], []
            self.while_in(lambda: ended.append(len(ptr_to_bytes(source, size))) or 0,
                          lambda: before.append(not ended))
            self.assertEqual(ended, [size])
            if before[0]:
                return
        self.fail("never")

    def test_memcpy_async(self):
        self.ok(acl.rt.memcpy_async(self.device, SIZE, bytes_to_ptr(self.data), SIZE, TO_DEVICE,
                                    self.stream))
        self.ok(acl.rt.memcpy_async(self.host, SIZE, self.device, SIZE, TO_HOST, self.stream))
        self.ok(acl.rt.synchronize_stream(self.stream))
        self.assertEqual(ptr_to_bytes(self.host, SIZE), self.data)

    def test_memset(self):
        self.ok(acl.rt.memset(self.device, SIZE, 0x1AB, SIZE))
        self.ok(acl.rt.memset_async(self.device, SIZE, 0xCD, 10, self.stream))
        self.ok(acl.rt.memcpy_async(self.host, SIZE, self.device, SIZE, TO_HOST, self.stream))
        self.ok(acl.rt.synchronize_stream(self.stream))
        self.assertEqual(ptr_to_bytes(self.host, 12), b"\xcd" * 10 + b"\xab" * 2)

    def test_malloc_and_free(self):
        self.assertEqual(acl.rt.malloc(0, 0)[0], 0)
        self.assertNotEqual(acl.rt.malloc(0, 0)[1], 0)
        self.ok(acl.rt.free(self.device))
        self.assertNotEqual(acl.rt.free(self.device), 0)

    def test_get_mem_info(self):
        free, total = self.ok(acl.rt.get_mem_info(1))
        more = self.ok(acl.rt.malloc(2**24, 2))
        self.assertLessEqual(acl.rt.get_mem_info(1)[0], free - 2**24)
        self.assertLess(free, total)
        self.ok(acl.rt.free(more))

    def test_pointer_get_attributes(self):
        device = self.ok(acl.rt.pointer_get_attributes(self.device + 5))
        self.assertEqual(device["location"], {"id": 0, "type": 1})
        self.assertGreater(device["page_size"], 0)
        self.assertEqual(device["rsv"], [0] * 4)
        self.assertEqual(self.ok(acl.rt.pointer_get_attributes(self.host))["location"]["type"], 0)


class Bytes(unittest.TestCase):
    def test_bytes_to_ptr(self):
        data = b"payload"
        before = sys.getrefcount(data)
        address = bytes_to_ptr(data)
        self.assertEqual(sys.getrefcount(data), before)
        self.assertEqual(ptr_to_bytes(address, len(data)), data)
        self.assertEqual(ptr_to_bytes(address + 3, 2), b"lo")

    def test_ptr_to_bytes(self):
        self.assertEqual(ptr_to_bytes(0, 0), b"")
        self.assertRaises(ValueError, ptr_to_bytes, 0, 1)
        self.assertRaises(MemoryError, ptr_to_bytes, 4096, -1)
        self.assertIsNot(ptr_to_bytes(bytes_to_ptr(b"copy"), 4), b"copy")


class WithoutNumpy(unittest.TestCase):
    def test_numpy_is_imported_when_needed(self):
        code = """
import sys, acl, acl.util
acl.util.bytes_to_ptr(b"x")
assert "numpy" not in sys.modules
try:
    acl.util.numpy_to_ptr(b"x")
except ValueError:
    assert "numpy" in sys.modules
sys.modules["numpy"] = None
try:
    acl.util.ptr_to_numpy(0, (0,), 1)
except ImportError:
    print("as it should be")
"""
        self.assertEqual(subprocess.check_output([sys.executable, "-c", code]),
                         b"as it should be\n")


class Numpy(DeviceTest):
    def setUp(self):
        super().setUp()
        global np
        import numpy as np

    def warned(self, function, *arguments):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            result = function(*arguments)
        self.assertEqual({w.category for w in caught} - {Warning}, set())
        return result, len(caught)

    def test_numpy_to_ptr(self):
        array = np.arange(10, dtype=np.int32)
        before = sys.getrefcount(array)
        for _ in range(3):
            address, warnings_ = self.warned(acl.util.numpy_to_ptr, array)
            self.assertEqual((address, warnings_), (array.ctypes.data, 1))
        self.assertEqual(sys.getrefcount(array), before)
        address, warnings_ = self.warned(acl.util.numpy_to_ptr, array[::2])
        self.assertEqual((address, warnings_), (array.ctypes.data, 2))
        for bad in (b"x", [1], 5):
            self.assertRaises(ValueError, acl.util.numpy_to_ptr, bad)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            self.assertRaises(Warning, acl.util.numpy_to_ptr, array)

    def test_numpy_contiguous_to_ptr(self):
        array = np.arange(10, dtype=np.int16)
        (address, same), _ = self.warned(acl.util.numpy_contiguous_to_ptr, array)
        self.assertIs(same, array)
        self.assertEqual(address, array.ctypes.data)
        (address, copy), _ = self.warned(acl.util.numpy_contiguous_to_ptr, array[::2])
        self.assertEqual(ptr_to_bytes(address, 10), array[::2].tobytes())
        self.assertEqual(address, copy.ctypes.data)
        self.assertRaises(ValueError, acl.util.numpy_contiguous_to_ptr, "x")

    def test_ptr_to_numpy(self):
        host = self.ok(acl.rt.malloc_host(48))
        view = acl.util.ptr_to_numpy(host, (2, 6), 5)
        self.assertEqual((view.dtype, view.shape), (np.int32, (2, 6)))
        self.assertFalse(view.flags.owndata)
        view[1, 5] = 0x01020304
        self.assertEqual(ptr_to_bytes(host + 44, 4), b"\x04\x03\x02\x01")
        self.ok(acl.rt.memset(host, 48, 0, 48))
        self.assertEqual(view[1, 5], 0)
        del view
        self.ok(acl.rt.free_host(host))

    def test_types(self):
        names = {0: "bool", 1: "int8", 2: "uint8", 3: "int16", 4: "uint16", 5: "int32", 6: "uint32",
                 7: "int64", 8: "uint64", 9: "longlong", 10: "ulonglong", 11: "float32",
                 12: "float64",
                 23: "float16"}
        data = bytes(64)
        for number, name in names.items():
            array = acl.util.ptr_to_numpy(bytes_to_ptr(data), (3,), number)
            self.assertEqual(array.dtype, np.dtype(name))
            self.assertEqual(array.dtype.num, number)
        for bad in (-1, 13, 17, 24, 99):
            self.assertRaises(ValueError, acl.util.ptr_to_numpy, bytes_to_ptr(data), (3,), bad)

    def test_shapes(self):
        data = bytes(64)
        address = bytes_to_ptr(data)
        self.assertEqual(acl.util.ptr_to_numpy(address, (), 5).shape, ())
        self.assertEqual(acl.util.ptr_to_numpy(0, (3, 0), 5).shape, (3, 0))
        for bad in ([3], 3, (3.0,), (-1,), (2**62, 2**62), ("3",)):
            self.assertRaises(ValueError, acl.util.ptr_to_numpy, address, bad, 5)
        self.assertRaises(ValueError, acl.util.ptr_to_numpy, 0, (1,), 5)

    def test_array_to_device_and_back(self):
        array = np.arange(1000, dtype=np.float64)
        device = self.ok(acl.rt.malloc(array.nbytes, 0))
        back = np.zeros_like(array)
        self.ok(acl.rt.memcpy(device, array.nbytes, array.ctypes.data, array.nbytes, TO_DEVICE))
        self.ok(acl.rt.memcpy(back.ctypes.data, back.nbytes, device, back.nbytes, TO_HOST))
        self.assertTrue((array == back).all())
        self.ok(acl.rt.free(device))


if __name__ == "__main__":
    main()
