"""How every function takes its arguments and shapes its result: one table for all of them."""
import re
import sys
import types
import unittest

import acl
import acl.rt
import acl.tdt
import acl.util
from support import main

# Kinds. None: a value that the function must refuse with the TypeError of the
# conventions.
BAD = {
    "P": [1.5, None, b"x", "1", [], object()],
    "I": [1.5, None, b"x", "1", 2**31, -(2**31) - 1, 2**70],
    "U": [1.5, None, b"x", "1", []],
    "M": [1.5, None, -1, 2**32, "1"],
    "S": [1, None, b"x", "a\0b", "\udc80"],
    "O": [],
    "F": [],
    "B": [],
    "L": [],
    "D": [],
    "G": [],
    "C": [],
}
GOOD = {"P": 0, "I": 0, "U": 0, "M": 0, "S": "", "O": None, "F": print, "B": bytes(64), "L": [],
        "D": {}, "G": [], "C": None}

# Name: kinds of the arguments. Required functions first.
TAKES = {
    "acl.rt.create_event": "",
    "acl.rt.destroy_event": "P",
    "acl.rt.record_event": "PP",
    "acl.rt.reset_event": "PP",
    "acl.rt.query_event": "P",
    "acl.rt.synchronize_event": "P",
    "acl.rt.event_elapsed_time": "PP",
    "acl.rt.stream_wait_event": "PP",
    "acl.rt.synchronize_device": "",
    "acl.rt.synchronize_stream": "P",
    "acl.rt.subscribe_report": "PP",
    "acl.rt.launch_callback": "FOIP",
    "acl.rt.process_report": "I",
    "acl.rt.unsubscribe_report": "PP",
    "acl.rt.get_task_id_from_exception_info": "P",
    "acl.rt.get_stream_id_from_exception_info": "P",
    "acl.rt.get_thread_id_from_exception_info": "P",
    "acl.rt.get_device_id_from_exception_info": "P",
    "acl.rt.get_error_code_from_exception_info": "P",
    "acl.finalize_reference": "",
    "acl.get_recent_err_msg": "",
    "acl.get_soc_name": "",
    "acl.get_version": "",
    "acl.app_log": "IS",
    "acl.rt.set_device": "I",
    "acl.rt.reset_device": "I",
    "acl.rt.reset_device_force": "I",
    "acl.rt.get_device": "",
    "acl.rt.get_device_count": "",
    "acl.rt.get_run_mode": "",
    "acl.rt.query_device_status": "I",
    "acl.rt.device_get_stream_priority_range": "",
    "acl.rt.device_can_access_peer": "II",
    "acl.rt.device_enable_peer_access": "IU",
    "acl.rt.device_disable_peer_access": "I",
    "acl.rt.device_get_bare_tgid": "",
    "acl.rt.peek_at_last_error": "I",
    "acl.rt.get_last_error": "I",
    "acl.rt.create_context": "I",
    "acl.rt.destroy_context": "P",
    "acl.rt.set_context": "P",
    "acl.rt.get_context": "",
    "acl.rt.create_stream": "",
    "acl.rt.create_stream_with_config": "UU",
    "acl.rt.destroy_stream": "P",
    "acl.rt.destroy_stream_force": "P",
    "acl.rt.synchronize_stream_with_timeout": "PI",
    "acl.rt.stream_query": "P",
    "acl.rt.create_event_with_flag": "U",
    "acl.rt.create_event_ex_with_flag": "U",
    "acl.rt.query_event_status": "P",
    "acl.rt.query_event_wait_status": "P",
    "acl.rt.synchronize_event_with_timeout": "PI",
    "acl.rt.event_get_timestamp": "P",
    "acl.rt.get_event_id": "P",
    "acl.rt.get_event_avail_num": "",
    "acl.rt.set_op_wait_timeout": "U",
    "acl.rt.synchronize_device_with_timeout": "I",
    "acl.rt.ipc_get_event_handle": "P",
    "acl.rt.ipc_open_event_handle": "B",
    "acl.rt.malloc": "PI",
    "acl.rt.free": "P",
    "acl.rt.malloc_host": "P",
    "acl.rt.free_host": "P",
    "acl.rt.memcpy": "PPPPI",
    "acl.rt.memcpy_async": "PPPPIP",
    "acl.rt.memset": "PPIP",
    "acl.rt.memset_async": "PPIPP",
    "acl.rt.get_mem_info": "I",
    "acl.rt.malloc_align32": "PI",
    "acl.rt.malloc_cached": "PI",
    "acl.rt.mem_flush": "PP",
    "acl.rt.mem_invalidate": "PP",
    "acl.rt.memcpy2d": "PPPPPPI",
    "acl.rt.memcpy2d_async": "PPPPPPIP",
    "acl.rt.pointer_get_attributes": "P",
    "acl.rt.host_register": "PPI",
    "acl.rt.host_unregister": "P",
    "acl.rt.ipc_mem_get_export_key": "PPPP",
    "acl.rt.ipc_mem_set_import_pid": "SL",
    "acl.rt.ipc_mem_import_by_key": "SP",
    "acl.rt.ipc_mem_close": "S",
    "acl.rt.create_notify": "P",
    "acl.rt.destroy_notify": "P",
    "acl.rt.record_notify": "PP",
    "acl.rt.wait_and_reset_notify": "PPM",
    "acl.rt.get_notify_id": "P",
    "acl.rt.notify_batch_reset": "L",
    "acl.rt.notify_get_export_key": "PPP",
    "acl.rt.notify_set_import_pid": "PL",
    "acl.rt.notify_import_by_key": "SP",
    "acl.get_device_capability": "UI",
    "acl.sys_get_cann_version": "I",
    "acl.sys_get_version_str": "S",
    "acl.sys_get_version_num": "S",
    "acl.rt.device_peer_access_status": "II",
    "acl.rt.get_device_info": "UI",
    "acl.rt.get_device_capability": "II",
    "acl.rt.get_device_utilization_rate": "I",
    "acl.rt.get_devices_topo": "UU",
    "acl.rt.device_get_uuid": "I",
    "acl.rt.device_get_pci_bus_id": "I",
    "acl.rt.device_get_by_pci_bus_id": "S",
    "acl.rt.check_arch_compatibility": "S",
    "acl.rt.device_set_limit": "IP",
    "acl.rt.device_get_limit": "I",
    "acl.rt.get_logic_dev_id_by_user_dev_id": "I",
    "acl.rt.get_user_dev_id_by_logic_dev_id": "I",
    "acl.rt.get_logic_dev_id_by_phy_dev_id": "I",
    "acl.rt.get_phy_dev_id_by_logic_dev_id": "I",
    "acl.rt.get_user_dev_id_by_phy_dev_id": "I",
    "acl.rt.get_phy_dev_id_by_user_dev_id": "I",
    "acl.rt.malloc_with_cfg": "PIC",
    "acl.rt.malloc_host_with_cfg": "PC",
    "acl.rt.malloc_for_task_scheduler": "PIC",
    "acl.rt.free_with_dev_sync": "P",
    "acl.rt.free_host_with_dev_sync": "P",
    "acl.rt.memset_d32": "PPUP",
    "acl.rt.memset_d32_async": "PPUPP",
    "acl.rt.memcpy_async_with_condition": "PPPPIP",
    "acl.rt.memcpy_async_with_offset": "PPPPPPIP",
    "acl.rt.get_memcpy_desc_size": "I",
    "acl.rt.set_memcpy_desc": "PIPPPP",
    "acl.rt.memcpy_async_with_desc": "PIP",
    "acl.rt.memcpy_batch": "LLLLGL",
    "acl.rt.memcpy_batch_async": "LLLLGLP",
    "acl.rt.memcpy_batch_v2": "LLLLGL",
    "acl.rt.memcpy_batch_async_v2": "LLLLGLP",
    "acl.rt.get_mem_usage_info": "I",
    "acl.rt.mem_get_address_range": "P",
    "acl.rt.check_mem_type": "LU",
    "acl.rt.mem_p2p_map": "PPIP",
    "acl.rt.host_register_v2": "PPU",
    "acl.rt.host_get_device_pointer": "PU",
    "acl.rt.host_mem_map_capabilities": "UI",
    "acl.rt.mem_alloc_managed": "PU",
    "acl.rt.mem_managed_advise": "PPID",
    "acl.rt.mem_managed_get_attr": "IPP",
    "acl.rt.mem_managed_prefetch_async": "PPDUP",
    "acl.rt.mem_managed_prefetch_batch_async": "LLGLPP",
    "acl.rt.reserve_mem_address": "PPPP",
    "acl.rt.release_mem_address": "P",
    "acl.rt.mem_get_allocation_granularity": "DI",
    "acl.rt.malloc_physical": "PDP",
    "acl.rt.free_physical": "P",
    "acl.rt.mem_retain_allocation_handle": "P",
    "acl.rt.mem_get_allocation_properties_from_handle": "P",
    "acl.rt.map_mem": "PPPPP",
    "acl.rt.mem_map_no_access": "PPPPP",
    "acl.rt.unmap_mem": "P",
    "acl.rt.mem_set_access": "PPG",
    "acl.rt.mem_get_access": "PD",
    "acl.rt.mem_export_to_shareable_handle": "PIP",
    "acl.rt.mem_set_pid_to_shareable_handle": "PL",
    "acl.rt.mem_import_from_shareable_handle": "PI",
    "acl.rt.alloc_buf": "P",
    "acl.rt.free_buf": "P",
    "acl.rt.get_buf_data": "P",
    "acl.rt.set_buf_data_len": "PP",
    "acl.rt.get_buf_data_len": "P",
    "acl.rt.set_buf_user_data": "PPPP",
    "acl.rt.get_buf_user_data": "PPPP",
    "acl.rt.copy_buf_ref": "P",
    "acl.rt.append_buf_chain": "PP",
    "acl.rt.get_buf_chain_num": "P",
    "acl.rt.get_buf_from_chain": "PU",
    "acl.tdt.alloc_buf": "PU",
    "acl.tdt.free_buf": "P",
    "acl.tdt.get_buf_data": "P",
    "acl.tdt.set_buf_data_len": "PP",
    "acl.tdt.get_buf_data_len": "P",
    "acl.tdt.set_buf_user_data": "PPPP",
    "acl.tdt.get_buf_user_data": "PPPP",
    "acl.tdt.copy_buf_ref": "P",
    "acl.tdt.append_buf_chain": "PP",
    "acl.tdt.get_buf_chain_num": "P",
    "acl.tdt.get_buf_from_chain": "PU",
    "acl.tdt.create_queue_attr": "",
    "acl.tdt.destroy_queue_attr": "P",
    "acl.tdt.set_queue_attr": "PIO",
    "acl.tdt.get_queue_attr": "PI",
    "acl.tdt.create_queue": "P",
    "acl.tdt.destroy_queue": "U",
    "acl.tdt.grant_queue": "UIUI",
    "acl.tdt.attach_queue": "UI",
    "acl.tdt.enqueue": "UPI",
    "acl.tdt.dequeue": "UI",
    "acl.tdt.enqueue_data": "UPPPPIU",
    "acl.tdt.dequeue_data": "UPPPPI",
    "acl.tdt.create_queue_route": "UU",
    "acl.tdt.destroy_queue_route": "P",
    "acl.tdt.get_queue_route_param": "PI",
    "acl.tdt.create_queue_route_list": "",
    "acl.tdt.destroy_queue_route_list": "P",
    "acl.tdt.add_queue_route": "PP",
    "acl.tdt.get_queue_route": "PPP",
    "acl.tdt.get_queue_route_num": "P",
    "acl.tdt.create_queue_route_query_info": "",
    "acl.tdt.destroy_queue_route_query_info": "P",
    "acl.tdt.set_queue_route_query_info": "PIU",
    "acl.tdt.bind_queue_routes": "P",
    "acl.tdt.unbind_queue_routes": "P",
    "acl.tdt.query_queue_routes": "PP",
    "acl.tdt.create_data_item": "ILIPP",
    "acl.tdt.destroy_data_item": "P",
    "acl.tdt.get_tensor_type_from_item": "P",
    "acl.tdt.get_data_type_from_item": "P",
    "acl.tdt.get_data_addr_from_item": "P",
    "acl.tdt.get_data_size_from_item": "P",
    "acl.tdt.get_dim_num_from_item": "P",
    "acl.tdt.get_dims_from_item": "P",
    "acl.tdt.get_slice_info_from_item": "P",
    "acl.tdt.create_dataset": "",
    "acl.tdt.destroy_dataset": "P",
    "acl.tdt.add_data_item": "PP",
    "acl.tdt.get_data_item": "PP",
    "acl.tdt.get_dataset_size": "P",
    "acl.tdt.get_dataset_name": "P",
    "acl.tdt.create_channel": "US",
    "acl.tdt.create_channel_with_capacity": "USP",
    "acl.tdt.stop_channel": "P",
    "acl.tdt.destroy_channel": "P",
    "acl.tdt.clean_channel": "P",
    "acl.tdt.query_channel_size": "P",
    "acl.tdt.send_tensor": "PPI",
    "acl.tdt.receive_tensor": "PPI",
    "acl.npud.attach_queue_of_user": "UUI",
    "acl.npud.mem_export_fd": "PPP",
    "acl.npud.mem_import_fd": "IP",
    "acl.npud.mem_close_fd": "I",
    "acl.npud.trace_mark": "S",
    "acl.npud.trace_range_begin": "S",
    "acl.npud.trace_range_end": "",
    "acl.npud.view": "PP",
    "acl.rt.reduce_async": "PPPIIPP",
    "acl.rt.mem_pool_create": "D",
    "acl.rt.mem_pool_destroy": "P",
    "acl.rt.mem_pool_set_attr": "PIP",
    "acl.rt.mem_pool_get_attr": "PI",
    "acl.rt.mem_pool_malloc_async": "PPP",
    "acl.rt.mem_pool_free_async": "PP",
    "acl.rt.mem_pool_trim_to": "PP",
    "acl.rt.random_num_async": "DPP",
    "acl.rt.cmo_async": "PPIP",
    "acl.rt.cmo_async_with_barrier": "PPIUP",
    "acl.rt.cmo_wait_barrier": "PPU",
    "acl.rt.cmo_get_desc_size": "",
    "acl.rt.cmo_set_desc": "PPP",
    "acl.rt.cmo_async_with_desc": "PIPP",
    "acl.rt.value_write": "PPUP",
    "acl.rt.value_wait": "PPUP",
    "acl.util.bytes_to_ptr": "B",
    "acl.util.ptr_to_bytes": "PP",
    "acl.util.numpy_to_ptr": "O",
    "acl.util.numpy_contiguous_to_ptr": "O",
    "acl.util.ptr_to_numpy": "POI",
    "acl.util.start_thread": "FO",
    "acl.util.stop_thread": "P",
    "acl.npud.launch_delay": "PIP",
    "acl.npud.ipc_open_event_on_device": "BI",
    "acl.npud.ipc_open_event_in_context": "BP",
    "acl.npud.event_notify_fd": "PI",
    "acl.npud.event_future": "P",
}
# Tested by themselves: their one argument may be missing.
OPTIONAL = {"acl.init", "acl.finalize", "acl.rt.set_exception_info_callback"}

RAISE = {"acl.tdt.set_queue_attr", "acl.npud.view", "acl.npud.event_future"}

# Number of results, ret included, when no context is there. Others have one: ret, or a bare value.
GIVES = {
    2: """acl.finalize_reference acl.rt.get_device acl.rt.get_device_count acl.rt.get_run_mode
        acl.rt.query_device_status acl.rt.device_can_access_peer acl.rt.device_get_bare_tgid
        acl.rt.create_context acl.rt.get_context acl.rt.create_stream
        acl.rt.create_stream_with_config
        acl.rt.stream_query acl.rt.create_event acl.rt.create_event_with_flag
        acl.rt.create_event_ex_with_flag acl.rt.query_event acl.rt.query_event_status
        acl.rt.query_event_wait_status acl.rt.event_elapsed_time acl.rt.event_get_timestamp
        acl.rt.get_event_id acl.rt.get_event_avail_num acl.rt.ipc_get_event_handle
        acl.rt.malloc acl.rt.malloc_host acl.rt.malloc_align32 acl.rt.malloc_cached
        acl.rt.pointer_get_attributes acl.rt.host_register acl.rt.ipc_mem_get_export_key
        acl.rt.ipc_mem_import_by_key
        acl.rt.create_notify acl.rt.get_notify_id acl.rt.notify_get_export_key
        acl.rt.notify_import_by_key acl.util.start_thread
        acl.get_device_capability acl.sys_get_cann_version acl.sys_get_version_str
        acl.sys_get_version_num acl.rt.device_peer_access_status acl.rt.get_device_info
        acl.rt.get_device_capability acl.rt.get_device_utilization_rate
        acl.rt.get_devices_topo acl.rt.device_get_uuid acl.rt.device_get_pci_bus_id
        acl.rt.device_get_by_pci_bus_id acl.rt.check_arch_compatibility
        acl.rt.device_get_limit acl.rt.get_logic_dev_id_by_user_dev_id
        acl.rt.get_user_dev_id_by_logic_dev_id acl.rt.get_logic_dev_id_by_phy_dev_id
        acl.rt.get_phy_dev_id_by_logic_dev_id acl.rt.get_user_dev_id_by_phy_dev_id
        acl.rt.get_phy_dev_id_by_user_dev_id acl.rt.malloc_with_cfg
        acl.rt.malloc_host_with_cfg acl.rt.malloc_for_task_scheduler
        acl.rt.get_memcpy_desc_size acl.rt.memcpy_batch acl.rt.memcpy_batch_async
        acl.rt.get_mem_usage_info acl.rt.check_mem_type acl.rt.host_get_device_pointer
        acl.rt.host_mem_map_capabilities acl.rt.mem_alloc_managed
        acl.rt.mem_managed_get_attr acl.rt.reserve_mem_address
        acl.rt.mem_get_allocation_granularity acl.rt.malloc_physical
        acl.rt.mem_retain_allocation_handle
        acl.rt.mem_get_allocation_properties_from_handle acl.rt.mem_get_access
        acl.rt.mem_export_to_shareable_handle acl.rt.mem_import_from_shareable_handle
        acl.rt.alloc_buf acl.rt.get_buf_data_len acl.rt.copy_buf_ref
        acl.rt.get_buf_chain_num acl.rt.get_buf_from_chain acl.tdt.alloc_buf
        acl.tdt.get_buf_data_len acl.tdt.copy_buf_ref acl.tdt.get_buf_chain_num
        acl.tdt.get_buf_from_chain acl.tdt.get_queue_attr acl.tdt.create_queue
        acl.tdt.attach_queue acl.tdt.dequeue acl.tdt.dequeue_data
        acl.tdt.get_dims_from_item acl.tdt.query_channel_size
        acl.rt.mem_pool_create acl.rt.mem_pool_get_attr acl.rt.mem_pool_malloc_async
        acl.rt.cmo_get_desc_size
        acl.tdt.get_queue_route_param acl.npud.mem_export_fd acl.npud.mem_import_fd""",
    3: """acl.rt.get_mem_info acl.rt.device_get_stream_priority_range
        acl.rt.mem_get_address_range acl.rt.get_buf_data acl.tdt.get_buf_data
        acl.npud.attach_queue_of_user acl.tdt.get_slice_info_from_item""",
    4: "acl.get_version",
}


def exported():
    """Qualified name: function, of everything that the module has."""
    found = {}
    for module in (acl, acl.rt, acl.tdt, acl.util, acl.npud):
        for name, value in vars(module).items():
            if isinstance(value, types.BuiltinFunctionType) and not name.startswith("_"):
                found[module.__name__ + "." + name] = value
    return found


def for_each(test):
    """A test of one function: of each that the module has."""

    def test_all(self):
        for name, function in exported().items():
            if name in TAKES:
                with self.subTest(name):
                    test(self, name, function, TAKES[name])

    return test_all


def with_one(kinds, i, value):
    """Good arguments, but for one."""
    arguments = [GOOD[k] for k in kinds]
    arguments[i] = value
    return arguments


class Arguments(unittest.TestCase):
    def refused(self, name, function, arguments):
        with self.assertRaises(TypeError) as caught:
            function(*arguments)
        self.assertRegex(str(caught.exception), re.escape(name)
                         + r" args parse failed: .*; usage: .*" + re.escape(name) + r"\(.*\)$")

    def test_every_function_is_in_the_table(self):
        self.assertEqual(set(exported()) - set(TAKES) - OPTIONAL, set())

    @for_each
    def test_too_few(self, name, function, kinds):
        for n in range(len(kinds)):
            self.refused(name, function, [GOOD[k] for k in kinds[:n]])

    @for_each
    def test_too_many(self, name, function, kinds):
        if kinds:
            self.refused(name, function, [GOOD[k] for k in kinds] + [0])

    @for_each
    def test_surplus_of_functions_without_arguments_is_ignored(self, name, function, kinds):
        if not kinds and name != "acl.finalize_reference":
            function(1, None, "three")

    @for_each
    def test_wrong_type(self, name, function, kinds):
        for i, kind in enumerate(kinds):
            for bad in BAD[kind]:
                self.refused(name, function, with_one(kinds, i, bad))

    def test_sentences(self):
        usage = "; usage: ret = acl.rt.memcpy(dst, dest_max, src, count, kind)"
        begin = "acl.rt.memcpy args parse failed: "
        for kind, arguments, sentence in (
            (TypeError, (0, 1, b"x", 1, 1),
             "argument 3 (src) must be an int, and this bytes is not"),
            (TypeError, (0, 1, 0, 1, 2**31),
             "argument 5 (kind) must be an int from -2147483648 to 2147483647, "
             "and this int is not"),
            (TypeError, (0, 1), "it takes 5 arguments, and not 2"),
        ):
            with self.assertRaises(kind) as caught:
                acl.rt.memcpy(*arguments)
            self.assertEqual(str(caught.exception), begin + sentence + usage)
        for kind, call, sentence in (
            (TypeError, lambda: acl.init(1),
             "argument 1 (config_path) must be a str without NUL and surrogates, "
             "and this int is not"),
            (TypeError, lambda: acl.init("a", "b"), "it takes at most 1 arguments, and not 2"),
            (TypeError, lambda: acl.rt.launch_callback(5, 0, 0, 0),
             "argument 1 (fn) must be callable, and this int is not"),
            (ValueError, lambda: acl.util.bytes_to_ptr("x"),
             "argument 1 (data) must be a bytes object, and this str is not"),
        ):
            with self.assertRaises(kind) as caught:
                call()
            self.assertIn(" args parse failed: " + sentence + "; usage: ", str(caught.exception))

    @for_each
    def test_keywords(self, _name, function, _kinds):
        self.assertRaises(TypeError, function, size=1)

    @for_each
    def test_not_callable(self, _name, function, kinds):
        if "F" in kinds:
            self.assertRaises(TypeError, function, *with_one(kinds, kinds.index("F"), 5))

    @for_each
    def test_containers(self, name, function, kinds):
        for i, kind in enumerate(kinds):
            if kind == "L":
                self.assertRaises(ValueError, function, *with_one(kinds, i, (1, 2)))
                self.refused(name, function, with_one(kinds, i, [1, 2.5]))
            if kind == "D":
                for bad in ([], 5, None, (), {"no such field": 1}, {1: 2}, {"type": "x"},
                            {"type": None}, {"location": 5}, {"location": {"x": 1}}):
                    self.assertRaises(ValueError, function, *with_one(kinds, i, bad))
            if kind in "GC":
                for bad in ((), {}, 5, [5], [{}, None], [{"no such field": 1}], [[]],
                            [{"srcLoc": 1}], [{"attr": 1.5}]):
                    self.assertRaises(ValueError, function, *with_one(kinds, i, bad))
            if kind == "B":
                for bad in (bytearray(64), memoryview(bytes(64)), "x", 5, None):
                    self.assertRaises(ValueError, function, *with_one(kinds, i, bad))

    @for_each
    def test_shape_of_results(self, name, function, kinds):
        expected = {name: n for n, names in GIVES.items() for name in names.split()}
        # Those in RAISE do so for these: they have tests of their own.
        if name.startswith("acl.util") or set(kinds) & set("FB") or name in RAISE:
            return
        result = function(*[GOOD[k] for k in kinds])
        n = len(result) if isinstance(result, tuple) else 1
        self.assertEqual(n, expected.get(name, 1), result)
        if isinstance(result, tuple):
            self.assertIs(type(result[-1]), int)

    def test_index_is_accepted_and_its_errors_kept(self):
        class Number:
            def __index__(self):
                return 2**64 + 77  # not a handle, modulo 2^64

        class Broken:
            def __index__(self):
                raise KeyError("mine")

        self.assertEqual(acl.rt.free(Number()), acl.rt.free(77))
        self.assertRaises(KeyError, acl.rt.free, Broken())
        self.assertRaises(KeyError, acl.rt.set_device, Broken())

    def test_lists_of_one_length(self):
        usage = r"argument 2 \(dest_maxs\) must be a list of ints, as long as the list before it"
        with self.assertRaisesRegex(ValueError, usage):
            acl.rt.memcpy_batch([1], [1, 2], [1], [1], [{}], [0])
        for bad in (([1], [1], [], [1], [{}], [0]), ([1], [1], [1], [1, 2], [{}], [0]),
                    ([1], [1], [1], [1], [{}], [0, 1]), ([1], [1], [1], [1], [{}, {}], [0])):
            self.assertRaises(ValueError, acl.rt.memcpy_batch, *bad)

    def test_errors_of_a_program_in_a_dict_are_kept(self):
        class Broken:
            def __index__(self):
                raise KeyError("mine")

        self.assertRaises(KeyError, acl.rt.mem_get_access, 0, {"id": Broken()})
        self.assertRaises(KeyError, acl.rt.mem_set_access, 0, 0, [{"flags": Broken()}])

    def test_modulo(self):
        data = b"modulo"
        address = acl.util.bytes_to_ptr(data)
        self.assertEqual(acl.util.ptr_to_bytes(address - 2**64, len(data) + 2**64), data)
        # What 2^32 cuts off makes no difference.
        self.assertEqual(acl.rt.set_op_wait_timeout(2**32), 0)

    def test_bool_and_subclasses(self):
        class Int(int):
            pass

        self.assertEqual(acl.rt.set_device(Int(0)), 0)
        self.assertEqual(acl.rt.reset_device(False), 0)

    @for_each
    def test_references_of_arguments(self, name, function, kinds):
        if not kinds or set(kinds) & set("FLBODGC"):
            return
        objects = [object() for _ in kinds]
        before = [sys.getrefcount(o) for o in objects]
        for _ in range(20):
            self.assertRaises(TypeError, function, *objects)
        self.assertEqual([sys.getrefcount(o) for o in objects], before)


class Modules(unittest.TestCase):
    def test_names(self):
        for module in (acl.rt, acl.tdt, acl.util, acl.npud):
            self.assertIs(sys.modules[module.__name__], module)
        from acl.util import bytes_to_ptr

        self.assertIs(bytes_to_ptr, acl.util.bytes_to_ptr)
        self.assertEqual(acl.rt.malloc.__module__, "acl.rt")

    def test_seven_helpers(self):
        names = {n for n in dir(acl.util) if not n.startswith("_")}
        self.assertEqual(
            names,
            {"numpy_to_ptr", "numpy_contiguous_to_ptr", "ptr_to_numpy", "bytes_to_ptr",
             "ptr_to_bytes", "start_thread", "stop_thread"},
        )

    def test_what_is_exported_can_work(self):
        for name, function in exported().items():
            self.assertTrue(function.__doc__.strip(), name)


class TopLevel(unittest.TestCase):
    """Runs in a process of its own: one line of test_python.sh per file."""

    def test_init_and_finalize(self):
        self.assertRaises(TypeError, acl.init, None)
        self.assertRaises(TypeError, acl.init, "", "")
        self.assertEqual(acl.init(), 0)
        self.assertEqual(acl.init(""), 100002)
        self.assertEqual(acl.finalize_reference(), (1, 0))
        self.assertEqual(acl.finalize(), 0)
        self.assertEqual(acl.finalize(), 100037)
        self.assertEqual(acl.init(""), 0)
        self.assertEqual(acl.finalize("ignored"), 0)

    def test_messages(self):
        acl.get_recent_err_msg()
        self.assertIsNone(acl.get_recent_err_msg())
        self.assertNotEqual(acl.rt.destroy_event(5), 0)
        self.assertIn("aclrtDestroyEvent", acl.get_recent_err_msg())
        self.assertIsNone(acl.get_recent_err_msg())

    def test_versions_and_chip(self):
        self.assertEqual(acl.get_version()[3], 0)
        self.assertIs(type(acl.get_soc_name()), str)
        self.assertIsNone(acl.app_log(1, "100 %s %n"))


if __name__ == "__main__":
    main()
