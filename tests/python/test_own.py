"""acl.npud.own: what a function creates ends with a with statement."""
import ctypes
import mmap
import sys
import unittest
import warnings

import acl
import acl.rt
import acl.tdt
from support import IPC, INVALID_HANDLE, STRICT, DeviceTest, main, readable

own = acl.npud.own
MAPPED = 2  # the flag of registered memory
MAP = {"memAttr": 4, "location": {"id": 0, "type": 1}}
LARGE = 2 << 20
# Of a strict device it cannot be viewed.
ON_DEVICE = (acl.rt.malloc, acl.rt.malloc_align32, acl.rt.malloc_cached, acl.rt.malloc_with_cfg,
             acl.rt.malloc_for_task_scheduler)


class Own(DeviceTest):
    # What creates; whether it is memory; its arguments.
    KINDS = (
        (acl.rt.create_context, False, 0),
        (acl.rt.create_stream, False),
        (acl.rt.create_stream_with_config, False, 0, 0),
        (acl.rt.create_event, False),
        (acl.rt.create_event_with_flag, False, 1),
        (acl.rt.create_event_ex_with_flag, False, 8),
        (acl.rt.create_notify, False, 0),
        (acl.rt.malloc, True, 100, 0),
        (acl.rt.malloc_align32, True, 100, 0),
        (acl.rt.malloc_cached, True, 100, 0),
        (acl.rt.malloc_with_cfg, True, 100, 0, None),
        (acl.rt.malloc_for_task_scheduler, True, 100, 0, []),
        (acl.rt.malloc_host, True, 100),
        (acl.rt.malloc_host_with_cfg, True, 100, [{"attr": 3, "value": 1}]),
        (acl.rt.mem_alloc_managed, True, 100, 1),
        (acl.rt.reserve_mem_address, False, LARGE, 0, 0, 0),
        (acl.rt.malloc_physical, False, LARGE, MAP, 0),
        (acl.rt.mem_pool_create, False, {"location": {"type": 1}}),
        (acl.rt.alloc_buf, True, 100),
        (acl.tdt.alloc_buf, True, 100, 0),
        (acl.tdt.create_queue, False, 0),
        (acl.tdt.create_queue_attr, False),
        (acl.tdt.create_queue_route, False, 1, 2),
        (acl.tdt.create_queue_route_list, False),
        (acl.tdt.create_queue_route_query_info, False),
        (acl.tdt.create_data_item, False, 1, [], 0, 0, 0),
        (acl.tdt.create_dataset, False),
        (acl.tdt.create_channel, False, 0, "name"),
        (acl.tdt.create_channel_with_capacity, False, 0, "name", 2),
    )

    def test_every_kind(self):
        for function, memory, *arguments in self.KINDS:
            with self.subTest(function.__name__):
                with own(function, *arguments) as owned:
                    self.assertIs(type(int(owned)), int)
                    if memory and STRICT and function in ON_DEVICE:
                        self.assertRaisesRegex(ValueError, "its device is strict", memoryview,
                                               owned)
                    elif memory:
                        with memoryview(owned) as view:
                            self.assertEqual(len(view), 100)
                            view[:2] = b"ab"
                            self.assertRaises(BufferError, owned.close)
                    else:
                        self.assertRaisesRegex(BufferError, "is not memory", memoryview, owned)
                self.assertRaisesRegex(acl.npud.Error, "has ended", int, owned)
                self.assertRaisesRegex(BufferError, "ended|not memory", memoryview, owned)
                owned.close()
            self.ok(acl.rt.set_context(self.context))

    def test_it_has_ended(self):
        with own(acl.rt.create_stream) as stream:
            self.ok(acl.rt.synchronize_stream(stream))
            number = int(stream)
        self.assertEqual(acl.rt.synchronize_stream(number), INVALID_HANDLE)
        with own(acl.rt.malloc, 100, 0) as memory:
            number = int(memory)
        self.assertNotEqual(acl.rt.free(number), 0)

    def test_device(self):
        with own(acl.rt.set_device, 1) as device:
            self.assertEqual(int(device), 1)
            self.assertEqual(self.ok(acl.rt.get_device()), 1)
        self.assertNotEqual(acl.rt.reset_device(1), 0)
        self.ok(acl.rt.set_context(self.context))

    def test_registered_memory(self):
        with mmap.mmap(-1, 8192, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as area:
            whole = (ctypes.c_char * len(area)).from_buffer(area)
            address = ctypes.addressof(whole)
            for function, flag in ((acl.rt.host_register, 0), (acl.rt.host_register_v2, MAPPED)):
                with own(function, address, 8192, flag) as registered:
                    self.assertEqual(int(registered), address)
                    with memoryview(registered) as view:
                        view[0] = flag + 1
                        self.assertEqual(area[0], flag + 1)
                        self.assertEqual(len(view), 8192)
                    self.assertEqual(self.ok(acl.rt.host_get_device_pointer(address, 0)), address)
                self.assertNotEqual(acl.rt.host_unregister(address), 0)
            del whole

    @readable
    def test_mapped_memory(self):
        with own(acl.rt.malloc_physical, LARGE, MAP, 0) as physical, \
             own(acl.rt.reserve_mem_address, LARGE, 0, 0, 0) as address:
            with own(acl.rt.map_mem, address, LARGE, 0, physical, 0) as mapping:
                with memoryview(mapping) as view:
                    self.assertEqual(len(view), LARGE)
                    self.assertRaises(BufferError, mapping.close)
                with own(acl.rt.mem_retain_allocation_handle, address) as again:
                    prop = self.ok(acl.rt.mem_get_allocation_properties_from_handle(again))
                    self.assertEqual(prop, {"handleType": 0, "allocationType": 0, "reserve": 0,
                                            **MAP})
            self.assertNotEqual(acl.rt.unmap_mem(address), 0)

    def test_opened_event(self):
        with own(acl.rt.create_event_ex_with_flag, IPC) as event:
            handle = self.ok(acl.rt.ipc_get_event_handle(event))
            for function, *more in ((acl.rt.ipc_open_event_handle,),
                                    (acl.npud.ipc_open_event_on_device, 1),
                                    (acl.npud.ipc_open_event_in_context, self.context)):
                with own(function, handle, *more) as opened:
                    self.ok(acl.rt.query_event_status(opened))
        self.assertRaises(ValueError, own, acl.rt.ipc_open_event_handle, b"")

    def test_failures(self):
        with self.assertRaises(acl.npud.Error) as caught:
            own(acl.rt.malloc, 0, 0)
        self.assertNotEqual(caught.exception.ret, 0)
        self.assertRegex(str(caught.exception), r"^acl.rt.malloc: error \d+: \[\d+\] aclrtMalloc: ")
        self.assertIsInstance(caught.exception, RuntimeError)
        self.assertRaisesRegex(TypeError, "acl.rt.malloc args parse failed", own, acl.rt.malloc, 1)
        for bad in ((), (5,), (None,), (print,), (acl.rt.free, 1), (acl.rt.synchronize_device,),
                    (lambda: (1, 0),)):
            self.assertRaisesRegex(TypeError, "acl.npud.own args parse failed", own, *bad)
        self.assertRaises(TypeError, own, acl.rt.malloc_host, size=5)

    def test_an_end_that_fails(self):
        owned = own(acl.rt.create_stream)
        number = int(owned)
        self.ok(acl.rt.destroy_stream(number))
        with self.assertRaisesRegex(acl.npud.Error, "^acl.rt.destroy_stream: error 1") as caught:
            owned.close()
        self.assertEqual(caught.exception.ret, INVALID_HANDLE)
        self.assertEqual(int(owned), number)  # not ended
        self.assertEqual(owned.detach(), number)

    def test_an_error_in_the_block_comes_out(self):
        with self.assertRaises(KeyError):
            with own(acl.rt.create_event) as event:
                raise KeyError
        self.assertRaises(acl.npud.Error, int, event)

    def test_detach(self):
        with own(acl.rt.malloc_host, 100) as owned:
            address = owned.detach()
            self.assertRaises(acl.npud.Error, owned.detach)
        self.ok(acl.rt.free_host(address))

    def test_a_warning_for_what_is_dropped(self):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            owned = own(acl.rt.malloc_host, 100)
            address = int(owned)
            del owned
        self.assertEqual([w.category for w in caught], [ResourceWarning])
        self.assertEqual(str(caught[0].message),
                         "acl.npud.own: what acl.rt.malloc_host made was not ended")
        self.ok(acl.rt.free_host(address))

    def test_a_view_outlives_the_object(self):
        """The one that is dropped, not ended: its memory stays."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            owned = own(acl.rt.malloc_host, 100)
            address, view = int(owned), memoryview(owned)
            del owned
        view[0] = 1
        self.assertRaises(BufferError, acl.rt.free_host, address)
        view.release()
        self.ok(acl.rt.free_host(address))

    def test_the_end_gives_the_gil_away(self):
        stream = own(acl.rt.create_stream)
        gate = self.gate(stream)
        ended = []

        def close():
            stream.close()
            ended.append(True)
            return 0

        self.while_in(close, lambda: (self.assertEqual(ended, []), self.open_gate(gate)))
        self.assertEqual(ended, [True])

    def test_two_threads_end_it_once(self):
        for _ in range(100):
            owned = own(acl.rt.create_stream)
            self.while_in(lambda: owned.close() or 0, owned.close)
            self.assertRaises(acl.npud.Error, int, owned)

    def test_references(self):
        function, size = acl.rt.malloc_host, 12345678
        before = sys.getrefcount(size), sys.getrefcount(own), sys.getrefcount(function)
        for _ in range(1000):
            with own(function, size) as owned, memoryview(owned):
                pass
            try:
                own(function, "x")
            except TypeError:
                pass
            try:
                own(function, 0)
            except acl.npud.Error:
                pass
        del owned
        self.assertEqual((sys.getrefcount(size), sys.getrefcount(own),
                          sys.getrefcount(function)), before)


if __name__ == "__main__":
    main()
