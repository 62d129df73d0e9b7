"""Allocation with attributes, batch copies, fills with words, managed and virtual memory, pools,
random numbers, cache hints, and the information about devices and memory: every function once good
and once bad."""
import ctypes
import os
import struct
import subprocess
import sys
import tempfile

import acl
import acl.rt
from support import INVALID_HANDLE, TO_DEVICE, TO_HOST, DeviceTest, main, readable

INNER = 6  # kind of a copy by a descriptor
SIZE = 4096
LARGE = 2 << 20
HOST, DEVICE = {"id": 0, "type": 0}, {"id": 0, "type": 1}  # locations
PROP = {"memAttr": 4, "location": DEVICE}
PINNED = 0x10000000
READWRITE = 3
SUM, INT32 = 10, 3  # a kind of reduction and a type
MODULE_ID, DEVICE_ID = 1, 2  # attributes of an allocation
OPPORTUNISTIC, THRESHOLD, RESERVED, USED, USED_HIGH = 2, 4, 5, 7, 8  # attributes of a pool
FLOAT, UINT64 = 0, 10  # types of numbers
DROPOUT, UNIFORM, NORMAL = 0, 1, 2  # kinds of random numbers
PREFETCH, FLUSH = 0, 3  # kinds of cache hints
own = acl.npud.own


class Memory(DeviceTest):
    def setUp(self):
        super().setUp()
        self.device, self.host = own(acl.rt.malloc, SIZE, 0), own(acl.rt.malloc_host, SIZE)
        self.addCleanup(self.device.close)
        self.addCleanup(self.host.close)
        with memoryview(self.host) as view:
            view[:] = bytes(i % 253 for i in range(SIZE))

    def read(self, offset, size):
        """Of the device."""
        with own(acl.rt.malloc_host, size) as back, memoryview(back) as view:
            self.ok(acl.rt.memcpy(back, size, int(self.device) + offset, size, TO_HOST))
            return bytes(view)

    def test_attributes(self):
        for function, more in ((acl.rt.malloc_with_cfg, (0,)), (acl.rt.malloc_host_with_cfg, ()),
                               (acl.rt.malloc_for_task_scheduler, (0,))):
            for cfg in (None, [{"attr": MODULE_ID, "value": 3}]):
                own(function, SIZE, *more, cfg).close()
            self.assertEqual(function(SIZE, *more, [{"attr": 99}]), (0, 107000))
            self.assertNotEqual(function(0, *more, None)[1], 0)
        own(acl.rt.malloc_with_cfg, SIZE, 0, [{"attr": DEVICE_ID, "value": 0}]).close()
        self.assertEqual(acl.rt.malloc_with_cfg(SIZE, 0, [{"attr": DEVICE_ID, "value": 1}]),
                         (0, 107000))

    def test_free_with_dev_sync(self):
        gate = self.gate()
        memory = self.ok(acl.rt.malloc(SIZE, 0))
        self.ok(acl.rt.memset_async(memory, SIZE, 1, SIZE, self.stream))
        self.assertEqual(self.while_in(lambda: acl.rt.free_with_dev_sync(memory),
                                       lambda: self.open_gate(gate)), 0)
        host = self.ok(acl.rt.malloc_host(SIZE))
        self.ok(acl.rt.free_host_with_dev_sync(host))
        self.assertNotEqual(acl.rt.free_with_dev_sync(0), 0)
        self.assertNotEqual(acl.rt.free_host_with_dev_sync(host), 0)

    def test_words(self):
        self.ok(acl.rt.memset_d32(self.device, SIZE, 0x04030201, 2))
        self.ok(acl.rt.memset_d32_async(int(self.device) + 8, SIZE - 8, 0x08070605, 1, self.stream))
        self.ok(acl.rt.synchronize_stream(self.stream))
        self.assertEqual(self.read(0, 12), b"\1\2\3\4\1\2\3\4\5\6\7\10")
        self.assertNotEqual(acl.rt.memset_d32(self.device, 8, 1, 3), 0)
        self.assertNotEqual(acl.rt.memset_d32_async(0, 8, 1, 1, self.stream), 0)

    def batch(self, function, *stream):
        """Two pieces to the device, and one back, with attributes of their own."""
        host, device = int(self.host), int(self.device)
        up, down = {"dstLoc": DEVICE, "srcLoc": HOST}, {"dstLoc": HOST, "srcLoc": DEVICE}
        self.ok(acl.rt.memset(device, SIZE, 0xEE, SIZE))
        result = function([device, device + 100, host + 2000], [10, 20, 30],
                          [host + 1, host + 50, device + 1000], [10, 20, 30], [up, down], [0, 2],
                          *stream)
        if stream:
            self.ok(acl.rt.synchronize_stream(*stream))
        self.assertEqual(self.read(0, 10), bytes(range(1, 11)))
        self.assertEqual(self.read(100, 20), bytes(range(50, 70)))
        self.assertEqual(acl.util.ptr_to_bytes(host + 2000, 30), b"\xee" * 30)
        bad = function([device, device], [10, 5], [host, host], [10, 6], [up], [0], *stream)
        return result, bad

    def test_batches(self):
        none = 2**64 - 1
        self.assertEqual(self.batch(acl.rt.memcpy_batch), ((none, 0), (1, 100000)))
        self.assertEqual(self.batch(acl.rt.memcpy_batch_async, self.stream),
                         ((none, 0), (1, 100000)))
        self.assertEqual(self.batch(acl.rt.memcpy_batch_v2), (0, 100000))
        self.assertEqual(self.batch(acl.rt.memcpy_batch_async_v2, self.stream), (0, 100000))

    def test_two_dimensions(self):
        host, device = int(self.host), int(self.device)
        self.ok(acl.rt.memcpy2d(device, 16, host, 32, 8, 3, TO_DEVICE))
        self.assertEqual(self.read(32, 8), bytes(range(64, 72)))
        self.ok(acl.rt.memcpy2d_async(device, 16, host, 64, 8, 2, TO_DEVICE, self.stream))
        self.ok(acl.rt.synchronize_stream(self.stream))
        self.assertEqual(self.read(16, 8), bytes(range(64, 72)))
        self.assertNotEqual(acl.rt.memcpy2d(device, 4, host, 32, 8, 3, TO_DEVICE), 0)
        self.assertNotEqual(acl.rt.memcpy2d_async(device, 4, host, 32, 8, 3, TO_DEVICE, 0), 0)

    def test_rare_copies(self):
        host, device = int(self.host), int(self.device)
        self.ok(acl.rt.memcpy_async_with_condition(device, 9, host, 9, TO_DEVICE, self.stream))
        self.ok(acl.rt.synchronize_stream(self.stream))
        self.assertEqual(self.read(0, 9), bytes(range(9)))
        pageable = bytes(9)
        self.assertEqual(acl.rt.memcpy_async_with_condition(
            device, 9, acl.util.bytes_to_ptr(pageable), 9, TO_DEVICE, self.stream), 107000)
        size = self.ok(acl.rt.get_memcpy_desc_size(INNER))
        with own(acl.rt.malloc, size, 0) as desc:
            self.ok(acl.rt.set_memcpy_desc(desc, INNER, device, device + 100, 9, 0))
            self.ok(acl.rt.memcpy_async_with_desc(desc, INNER, self.stream))
            self.ok(acl.rt.synchronize_stream(self.stream))
            self.assertEqual(self.read(100, 9), bytes(range(9)))
            self.assertEqual(acl.rt.set_memcpy_desc(desc, 0, device, device, 9, 0), 207000)
        self.assertEqual(acl.rt.get_memcpy_desc_size(0), (0, 207000))
        self.assertNotEqual(acl.rt.memcpy_async_with_desc(0, INNER, self.stream), 0)
        pointer = ctypes.c_void_p(device)
        at = ctypes.addressof(pointer)
        self.ok(acl.rt.memcpy_async_with_offset(at, 300, 200, at, 9, 100, INNER, self.stream))
        self.ok(acl.rt.synchronize_stream(self.stream))
        self.assertEqual(self.read(200, 9), bytes(range(9)))
        for to, source in ((0, at), (at, 0)):
            self.assertEqual(acl.rt.memcpy_async_with_offset(to, 9, 0, source, 9, 0, INNER,
                                                             self.stream), 100000)

    def test_words_in_streams(self):
        device = int(self.device)
        self.ok(acl.rt.memset(device, SIZE, 0, SIZE))
        self.ok(acl.rt.value_wait(device, 2**40, 1, self.stream))
        self.ok(acl.rt.value_write(device + 8, 2**63 + 5, 0, self.stream))
        self.ok(acl.rt.value_write(device, 2**40, 0, self.other))
        self.ok(acl.rt.synchronize_stream(self.stream))
        self.assertEqual(self.read(8, 8), (2**63 + 5).to_bytes(8, "little"))
        self.assertEqual(acl.rt.value_write(device, 1, 1, self.stream), 107000)
        self.assertEqual(acl.rt.value_wait(device, 1, 4, self.stream), 107000)

    def test_reduction(self):
        device = int(self.device)
        self.ok(acl.rt.memset_d32(device, SIZE, 40, 4))
        self.ok(acl.rt.memset_d32(device + 64, SIZE - 64, 2, 4))
        self.ok(acl.rt.reduce_async(device, device + 64, 16, SUM, INT32, self.stream, 0))
        self.ok(acl.rt.synchronize_stream(self.stream))
        self.assertEqual(self.read(0, 16), (42).to_bytes(4, "little") * 4)
        self.assertEqual(acl.rt.reduce_async(device, device, 16, SUM, 99, self.stream, 0), 100000)

    def random(self, count, kind, **parameters):
        """A task: numbers of 4 bytes, from the first of seed 42 on."""
        return {"dataType": FLOAT, "randomNumFuncParaInfo": {"funcType": kind, **parameters},
                "randomResultAddr": self.device, "randomSeed": {"valueOrAddr": 42, "size": 1},
                "randomNum": {"valueOrAddr": count, "size": 8}}

    def drawn(self, task, size):
        self.ok(acl.rt.memset(self.device, SIZE, 0xEE, SIZE))
        self.ok(acl.rt.random_num_async(task, self.stream, 0))
        self.ok(acl.rt.synchronize_stream(self.stream))
        self.assertEqual(self.read(size, 4), b"\xEE" * 4)
        return self.read(0, size)

    def test_random_numbers(self):
        low, high = ({"valueOrAddr": struct.pack("<f", x), "size": 4} for x in (5, 7))
        task = self.random(1000, UNIFORM, uniformDisInfo={"min": low, "max": high})
        numbers = struct.unpack("<1000f", self.drawn(task, 4000))
        self.assertTrue(all(5 <= x < 7 for x in numbers))
        self.assertAlmostEqual(sum(numbers) / 1000, 6, delta=0.2)
        self.assertEqual(struct.unpack("<1000f", self.drawn(task, 4000)), numbers)
        with own(acl.rt.malloc, 8, 0) as at:
            number = (100).to_bytes(8, "little")
            self.ok(acl.rt.memcpy(at, 8, acl.util.bytes_to_ptr(number), 8, TO_DEVICE))
            task["randomNum"] = {"isAddr": 1, "valueOrAddr": int(at), "size": 8}
            self.assertEqual(struct.unpack("<100f", self.drawn(task, 400)), numbers[:100])
        mean, stddev = ({"valueOrAddr": struct.pack("<f", x), "size": 4} for x in (-3, 0.5))
        task = self.random(1000, NORMAL, normalDisInfo={"mean": mean, "stddev": stddev})
        numbers = struct.unpack("<1000f", self.drawn(task, 4000))
        self.assertAlmostEqual(sum(numbers) / 1000, -3, delta=0.1)
        ratio = {"valueOrAddr": struct.pack("<f", 0.25), "size": 4}
        bits = self.drawn(self.random(8000, DROPOUT, dropoutBitmaskInfo={"dropoutRation": ratio}),
                          1000)
        self.assertAlmostEqual(sum(b.bit_count() for b in bits), 6000, delta=300)

    def test_random_numbers_that_are_refused(self):
        one = {"valueOrAddr": b"\0\0\x80\x3f", "size": 4}
        task = self.random(4, UNIFORM, uniformDisInfo={"min": one, "max": one})
        for key, value in (("size", 3), ("isAddr", 2), ("valueOrAddr", b"\0" * 4)):
            bad = self.random(4, UNIFORM, uniformDisInfo={"min": one, "max": one | {key: value}})
            self.assertEqual(acl.rt.random_num_async(bad, self.stream, 0), 107000)
        self.assertEqual(acl.rt.random_num_async(task, self.stream, 1), 100000)
        self.assertEqual(acl.rt.random_num_async({}, self.stream, 0), 100000)
        task["randomSeed"] = {"valueOrAddr": bytes(9)}
        self.assertRaisesRegex(ValueError, "a dict with fields of aclrtRandomNumTaskInfo",
                               acl.rt.random_num_async, task, self.stream, 0)

    def test_cache_hints(self):
        device = int(self.device)
        for kind in (PREFETCH, FLUSH):
            self.ok(acl.rt.cmo_async(device, SIZE, kind, self.stream))
            self.ok(acl.rt.cmo_async_with_barrier(device, SIZE, kind, 5, self.stream))
        self.ok(acl.rt.cmo_wait_barrier(device, self.stream, 0))
        size = self.ok(acl.rt.cmo_get_desc_size())
        with own(acl.rt.malloc, size, 0) as desc:
            self.ok(acl.rt.cmo_set_desc(desc, device, SIZE))
            self.ok(acl.rt.cmo_async_with_desc(desc, PREFETCH, self.stream, 0))
            self.ok(acl.rt.synchronize_stream(self.stream))
            self.assertEqual(acl.rt.cmo_async_with_desc(desc, PREFETCH, self.stream, 1), 100000)
        self.assertEqual(acl.rt.cmo_async(device, SIZE, 4, self.stream), 100000)
        self.assertEqual(acl.rt.cmo_async(device, SIZE + 2**30, 0, self.stream), 107000)
        self.assertEqual(acl.rt.cmo_async_with_barrier(0, 1, 0, 0, self.stream), 100000)
        self.assertEqual(acl.rt.cmo_wait_barrier(device, self.stream, 1), 100000)
        self.assertEqual(acl.rt.cmo_set_desc(0, device, SIZE), 100000)

    def test_pools(self):
        pool = self.ok(acl.rt.mem_pool_create({"location": DEVICE, "maxSize": LARGE}))
        self.ok(acl.rt.mem_pool_set_attr(pool, THRESHOLD, 2**40))
        self.assertEqual(acl.rt.mem_pool_get_attr(pool, THRESHOLD), (2**40, 0))
        self.assertEqual(acl.rt.mem_pool_get_attr(pool, OPPORTUNISTIC), (1, 0))
        self.ok(acl.rt.mem_pool_set_attr(pool, OPPORTUNISTIC, 0))
        self.assertEqual(acl.rt.mem_pool_get_attr(pool, OPPORTUNISTIC), (0, 0))
        memory = self.ok(acl.rt.mem_pool_malloc_async(SIZE, pool, self.stream))
        self.assertGreaterEqual(self.ok(acl.rt.mem_pool_get_attr(pool, USED)), SIZE)
        self.ok(acl.rt.memcpy_async(memory, SIZE, self.host, SIZE, TO_DEVICE, self.stream))
        self.ok(acl.rt.memcpy_async(self.device, SIZE, memory, SIZE, 3, self.stream))
        self.assertEqual(acl.rt.mem_pool_malloc_async(LARGE, pool, self.stream), (0, 207001))
        self.ok(acl.rt.mem_pool_free_async(memory, self.stream))
        self.assertEqual(acl.rt.mem_pool_free_async(memory, self.stream), 107000)
        self.ok(acl.rt.synchronize_stream(self.stream))
        with memoryview(self.host) as view:
            self.assertEqual(self.read(0, SIZE), bytes(view))
        self.assertEqual(acl.rt.mem_pool_get_attr(pool, USED), (0, 0))
        self.assertGreaterEqual(self.ok(acl.rt.mem_pool_get_attr(pool, USED_HIGH)), SIZE)
        self.assertGreaterEqual(self.ok(acl.rt.mem_pool_get_attr(pool, RESERVED)), SIZE)
        self.ok(acl.rt.mem_pool_trim_to(pool, 0))
        self.assertEqual(acl.rt.mem_pool_get_attr(pool, RESERVED), (0, 0))
        self.ok(acl.rt.mem_pool_destroy(pool))
        self.assertEqual(acl.rt.mem_pool_destroy(pool), INVALID_HANDLE)
        self.assertEqual(acl.rt.mem_pool_trim_to(pool, 0), INVALID_HANDLE)
        self.assertEqual(acl.rt.mem_pool_set_attr(pool, THRESHOLD, 0), INVALID_HANDLE)
        self.assertEqual(acl.rt.mem_pool_create({"location": HOST}), (0, 100000))

    @readable
    def test_memory_of_a_pool_stays_while_it_is_viewed(self):
        with own(acl.rt.mem_pool_create, {"location": DEVICE}) as pool:
            memory = self.ok(acl.rt.mem_pool_malloc_async(SIZE, pool, self.stream))
            with acl.npud.view(memory, SIZE) as view:
                view[:3] = b"abc"
                self.assertRaises(BufferError, acl.rt.mem_pool_free_async, memory, self.stream)
            self.ok(acl.rt.mem_pool_free_async(memory, self.stream))

    def test_what_is_known_of_addresses(self):
        base, size = self.ok(acl.rt.mem_get_address_range(int(self.device) + 7))
        self.assertLessEqual(base, int(self.device))
        self.assertGreaterEqual(base + size, int(self.device) + SIZE)
        self.assertEqual(acl.rt.mem_get_address_range(77), (0, 0, 107000))
        self.assertEqual(self.ok(acl.rt.check_mem_type([self.device], 2)), 1)
        self.assertEqual(self.ok(acl.rt.check_mem_type([self.device, self.host], 2)), 0)
        self.assertEqual(acl.rt.check_mem_type([], 2), (0, 107000))
        self.assertEqual(acl.rt.mem_p2p_map(0, SIZE, 1, 0), 100000)
        self.ok(acl.rt.mem_p2p_map(self.device, SIZE, 0, 0))

    def test_users(self):
        users = self.ok(acl.rt.get_mem_usage_info(0))
        self.assertEqual(sorted(user["name"] for user in users), ["APP", "OTHERS"])
        mine = next(user for user in users if user["name"] == "APP")
        self.assertGreaterEqual(mine["curMemSize"], SIZE)
        self.assertGreaterEqual(mine["memPeakSize"], mine["curMemSize"])
        self.assertEqual(acl.rt.get_mem_usage_info(99), ([], 107001))

    def test_registration(self):
        self.assertEqual(acl.rt.host_register_v2(0, SIZE, PINNED), 100000)
        self.assertEqual(acl.rt.host_register_v2(self.host, SIZE, 0), 107000)
        self.assertEqual(acl.rt.host_get_device_pointer(0, 0), (0, 100000))
        self.assertEqual(acl.rt.host_get_device_pointer(self.host, 1), (0, 100000))
        self.assertEqual(acl.rt.host_unregister(0), 100000)
        self.ok(acl.rt.host_mem_map_capabilities(0, 0))
        self.assertNotEqual(acl.rt.host_mem_map_capabilities(99, 0)[1], 0)

    def test_managed_memory(self):
        device, host = {"type": 1, "id": 0}, {"type": 2, "id": 0}
        with own(acl.rt.mem_alloc_managed, SIZE, 1) as memory:
            location = self.ok(acl.rt.pointer_get_attributes(memory))["location"]
            self.assertEqual(location["type"], 3)
            self.assertEqual(self.ok(acl.rt.mem_managed_get_attr(1, memory, SIZE)), 0)
            self.ok(acl.rt.mem_managed_advise(memory, SIZE, 0, device))
            self.assertEqual(self.ok(acl.rt.mem_managed_get_attr(1, memory, SIZE)), 1)
            self.ok(acl.rt.mem_managed_advise(memory, SIZE, 2, host))
            self.assertEqual(self.ok(acl.rt.mem_managed_get_attr(2, memory, SIZE)), -1)
            self.ok(acl.rt.mem_managed_prefetch_async(memory, SIZE, device, 0, self.stream))
            self.ok(acl.rt.mem_managed_prefetch_batch_async([memory], [SIZE], [host], [0], 0,
                                                            self.stream))
            self.ok(acl.rt.synchronize_stream(self.stream))
        self.assertEqual(acl.rt.mem_alloc_managed(SIZE, 0), (0, 100000))
        self.assertEqual(acl.rt.mem_managed_advise(self.host, SIZE, 0, device), 107000)
        self.assertEqual(acl.rt.mem_managed_get_attr(1, self.host, SIZE), (0, 107000))
        self.assertNotEqual(
            acl.rt.mem_managed_prefetch_async(self.host, SIZE, device, 0, self.stream), 0)
        self.assertNotEqual(acl.rt.mem_managed_prefetch_batch_async([], [], [], [], 0, 0), 0)

    def test_virtual_memory(self):
        for option in (0, 1):
            self.assertEqual(self.ok(acl.rt.mem_get_allocation_granularity(PROP, option)), LARGE)
        self.assertEqual(acl.rt.mem_get_allocation_granularity({"memAttr": 99}, 0), (0, 100000))
        self.assertEqual(acl.rt.malloc_physical(1, PROP, 0), (0, 107000))
        self.assertEqual(acl.rt.reserve_mem_address(0, 0, 0, 0), (0, 100000))
        with own(acl.rt.malloc_physical, LARGE, PROP, 0) as handle, \
             own(acl.rt.reserve_mem_address, LARGE, 0, 0, 0) as address:
            self.ok(acl.rt.mem_map_no_access(address, LARGE, 0, handle, 0))
            self.ok(acl.rt.unmap_mem(address))
            with own(acl.rt.map_mem, address, LARGE, 0, handle, 0):
                self.assertNotEqual(acl.rt.map_mem(address, LARGE, 0, handle, 0), 0)
                self.assertNotEqual(acl.rt.release_mem_address(address), 0)
                self.assertEqual(self.ok(acl.rt.mem_get_access(address, DEVICE)), READWRITE)
                self.ok(acl.rt.mem_set_access(address, LARGE, [
                    {"flags": READWRITE, "location": {"id": 1, "type": 1}}]))
                self.assertEqual(
                    self.ok(acl.rt.mem_get_access(address, {"id": 1, "type": 1})), READWRITE)
                self.assertEqual(acl.rt.mem_set_access(address, LARGE, []), 107000)
        self.assertEqual(acl.rt.free_physical(0), 100000)
        self.assertNotEqual(acl.rt.unmap_mem(0), 0)
        self.assertNotEqual(acl.rt.mem_retain_allocation_handle(self.host)[1], 0)
        self.assertNotEqual(acl.rt.mem_get_allocation_properties_from_handle(77)[1], 0)


class Devices(DeviceTest):
    def test_information(self):
        self.assertGreater(self.ok(acl.rt.get_device_info(0, 1)), 0)
        self.assertEqual(acl.rt.get_device_info(0, 9999)[0], 0)
        self.assertNotEqual(acl.rt.get_device_info(99, 1)[1], 0)
        self.ok(acl.rt.get_device_capability(0, 1))
        self.assertNotEqual(acl.rt.get_device_capability(99, 1)[1], 0)
        self.assertGreater(self.ok(acl.get_device_capability(0, 0)), 0)
        self.assertNotEqual(acl.get_device_capability(99, 0)[1], 0)
        rates = self.ok(acl.rt.get_device_utilization_rate(0))
        self.assertEqual(set(rates), {"cubeUtilization", "vectorUtilization", "aicpuUtilization",
                                      "memoryUtilization"})
        self.assertIn(rates["cubeUtilization"], range(101))
        self.assertEqual(rates["memoryUtilization"], -1)
        self.assertGreater(self.ok(acl.rt.get_devices_topo(0, 1)), 0)
        self.assertNotEqual(acl.rt.get_devices_topo(0, 99)[1], 0)
        self.assertIn(self.ok(acl.rt.device_peer_access_status(0, 1)), (0, 1))
        self.assertNotEqual(acl.rt.device_peer_access_status(0, 99)[1], 0)
        self.assertEqual(self.ok(acl.rt.check_arch_compatibility(acl.get_soc_name())), 1)

    def test_limits(self):
        self.ok(acl.rt.device_set_limit(2, 32768))
        self.assertGreaterEqual(self.ok(acl.rt.device_get_limit(2)), 32768)
        self.assertNotEqual(acl.rt.device_set_limit(99, 1), 0)
        self.assertNotEqual(acl.rt.device_get_limit(99)[1], 0)

    def test_names(self):
        first, second = (self.ok(acl.rt.device_get_uuid(i)) for i in (0, 1))
        self.assertEqual((type(first), len(first)), (bytes, 16))
        self.assertNotEqual(first, second)
        self.assertEqual(acl.rt.device_get_uuid(99), (bytes(16), 107001))
        bus = self.ok(acl.rt.device_get_pci_bus_id(1))
        self.assertRegex(bus, r"^[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-9a-f]$")
        self.assertEqual(self.ok(acl.rt.device_get_by_pci_bus_id(bus)), 1)
        self.assertEqual(acl.rt.device_get_pci_bus_id(99), ("", 107001))
        self.assertEqual(acl.rt.device_get_by_pci_bus_id("0000:00:00.0")[1], 107000)

    def test_numbers(self):
        for there, back in (
                (acl.rt.get_logic_dev_id_by_user_dev_id, acl.rt.get_user_dev_id_by_logic_dev_id),
                (acl.rt.get_logic_dev_id_by_phy_dev_id, acl.rt.get_phy_dev_id_by_logic_dev_id),
                (acl.rt.get_user_dev_id_by_phy_dev_id, acl.rt.get_phy_dev_id_by_user_dev_id)):
            self.assertEqual(self.ok(there(self.ok(back(1)))), 1)
            self.assertNotEqual(there(99)[1], 0)
            self.assertNotEqual(back(99)[1], 0)


class Versions(DeviceTest):
    CODE = """
import acl
print(acl.sys_get_cann_version(1))
print(acl.sys_get_version_str("runtime"), acl.sys_get_version_num("runtime"))
"""

    def test_versions_of_packages(self):
        with tempfile.TemporaryDirectory() as home:
            os.makedirs(home + "/share/info/runtime")
            with open(home + "/share/info/runtime/version.info", "w") as f:
                f.write("Version=8.5.2\n")
            said = subprocess.check_output([sys.executable, "-c", self.CODE], text=True,
                                           env=os.environ | {"ASCEND_HOME_PATH": home})
        self.assertEqual(said, "({'version': '8.5.2', 'majorVersion': '8', 'minorVersion': '5', "
                         "'releaseVersion': '2', 'patchVersion': ''}, 0)\n"
                         "('8.5.2', 0) (80502000, 0)\n")

    def test_errors(self):
        self.assertEqual(acl.sys_get_cann_version(99)[1], 100000)
        self.assertEqual(acl.sys_get_version_str("nothing"), ("", 100003))
        self.assertEqual(acl.sys_get_version_num("nothing"), (0, 100003))


if __name__ == "__main__":
    main()
