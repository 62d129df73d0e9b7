"""Events and synchronisation: every required function has a test that fails if the function did
nothing."""
import ctypes
import os
import select
import subprocess
import sys

import acl
import acl.rt
from support import (EVENT_SYNC_TIMEOUT, INVALID_HANDLE, IPC, KERNEL_FAILED, STREAM_SYNC_TIMEOUT,
                     SYNC, TIME_LINE, DeviceTest, c_library, main)

NEVER_RECORDED, NO_TIMESTAMP = 507000, 107006
NO_CONTEXT = 107002
RING = 1024  # tasks in a stream


class Events(DeviceTest):
    def test_create_event(self):
        first = self.ok(acl.rt.create_event())
        second = self.ok(acl.rt.create_event())
        self.assertNotIn(0, (first, second))
        self.assertNotEqual(first, second)
        self.ok(acl.rt.record_event(first, self.stream))
        self.ok(acl.rt.synchronize_event(first))

    def test_destroy_event(self):
        event = self.ok(acl.rt.create_event())
        self.ok(acl.rt.destroy_event(event))
        self.assertEqual(acl.rt.record_event(event, self.stream), INVALID_HANDLE)
        self.assertEqual(acl.rt.destroy_event(event), INVALID_HANDLE)

    def test_record_and_query_event(self):
        event = self.ok(acl.rt.create_event())
        gate = self.gate()
        self.assertEqual(acl.rt.query_event(event), (0, 0))  # never recorded
        self.ok(acl.rt.record_event(event, self.stream))
        self.assertEqual(acl.rt.query_event(event), (1, 0))
        self.assertEqual(acl.rt.query_event_status(event), (0, 0))
        self.open_gate(gate)
        self.ok(acl.rt.synchronize_stream(self.stream))
        self.assertEqual(acl.rt.query_event(event), (0, 0))
        self.assertEqual(acl.rt.query_event_status(event), (1, 0))

    def test_record_in_default_stream(self):
        event = self.event()
        gate = self.gate(0)
        self.ok(acl.npud.launch_delay(20000, 0, 0))
        self.ok(acl.rt.record_event(event, 0))
        self.assertEqual(acl.rt.query_event_status(event), (0, 0))
        self.open_gate(gate)
        self.ok(acl.rt.synchronize_stream(0))
        self.assertEqual(acl.rt.query_event_status(event), (1, 0))

    def test_synchronize_event(self):
        event = self.event()
        gate = self.gate()
        self.ok(acl.npud.launch_delay(20000, 0, self.stream))
        self.ok(acl.rt.record_event(event, self.stream))
        self.assertEqual(acl.rt.query_event_status(event), (0, 0))
        self.open_gate(gate)
        self.ok(acl.rt.synchronize_event(event))
        self.assertEqual(acl.rt.query_event_status(event), (1, 0))

    def test_stream_wait_event(self):
        done, after = self.event(), self.event()
        gate = self.gate()
        self.ok(acl.rt.record_event(done, self.stream))
        third = self.ok(acl.rt.create_stream())
        self.ok(acl.rt.stream_wait_event(third, done))
        self.ok(acl.rt.record_event(after, third))
        self.assertEqual(acl.rt.synchronize_event_with_timeout(after, 20), EVENT_SYNC_TIMEOUT)
        self.assertEqual(acl.rt.query_event_status(after), (0, 0))
        self.open_gate(gate)
        self.ok(acl.rt.synchronize_event(after))
        self.assertEqual(acl.rt.query_event_status(done), (1, 0))

    def test_reset_event(self):
        event = self.ok(acl.rt.create_event_with_flag(SYNC))
        self.ok(acl.rt.record_event(event, self.other))
        self.ok(acl.rt.stream_wait_event(self.stream, event))
        self.ok(acl.rt.reset_event(event, self.stream))
        self.ok(acl.rt.synchronize_stream(self.stream))
        # Not reset, the event would let this pass.
        self.ok(acl.rt.stream_wait_event(self.stream, event))
        self.assertEqual(acl.rt.synchronize_stream_with_timeout(self.stream, 20),
                         STREAM_SYNC_TIMEOUT)
        self.assertEqual(acl.rt.query_event_wait_status(event), (1, 0))
        self.ok(acl.rt.record_event(event, self.other))
        self.ok(acl.rt.synchronize_stream(self.stream))
        self.assertEqual(acl.rt.query_event_wait_status(event), (0, 0))

    def test_canonical_order_on_a_plain_event(self):
        event = self.ok(acl.rt.create_event())
        for _ in range(3):
            self.ok(acl.rt.record_event(event, self.other))
            self.ok(acl.rt.stream_wait_event(self.stream, event))
            self.ok(acl.rt.reset_event(event, self.stream))
            self.ok(acl.rt.synchronize_stream(self.stream))
        self.ok(acl.rt.destroy_event(event))

    def test_event_elapsed_time(self):
        start, end = self.ok(acl.rt.create_event()), self.ok(acl.rt.create_event())
        self.assertEqual(acl.rt.event_elapsed_time(start, end)[1], NEVER_RECORDED)
        gate = self.gate()
        self.ok(acl.rt.record_event(start, self.stream))
        self.ok(acl.npud.launch_delay(20000, 0, self.stream))
        self.ok(acl.rt.record_event(end, self.stream))
        self.assertEqual(acl.rt.event_elapsed_time(start, end)[1], NO_TIMESTAMP)
        self.open_gate(gate)
        self.ok(acl.rt.synchronize_event(end))
        ms = self.ok(acl.rt.event_elapsed_time(start, end))
        self.assertIs(type(ms), float)
        self.assertGreaterEqual(ms, 20)
        self.assertLess(ms, 20000)
        self.assertEqual(ctypes.c_float(ms).value, ms)
        times = [self.ok(acl.rt.event_get_timestamp(e)) for e in (start, end)]
        self.assertAlmostEqual((times[1] - times[0]) / 1000, ms, delta=0.01)

    def test_synchronize_stream(self):
        event = self.event()
        gate = self.gate()
        self.ok(acl.npud.launch_delay(20000, 0, self.stream))
        self.ok(acl.rt.record_event(event, self.stream))
        self.assertEqual(acl.rt.stream_query(self.stream), (1, 0))
        self.open_gate(gate)
        self.ok(acl.rt.synchronize_stream(self.stream))
        self.assertEqual(acl.rt.query_event_status(event), (1, 0))
        self.assertEqual(acl.rt.stream_query(self.stream), (0, 0))

    def test_synchronize_stream_tells_of_a_failed_task(self):
        self.ok(acl.npud.launch_delay(0, KERNEL_FAILED, self.stream))
        self.assertEqual(acl.rt.synchronize_stream(self.stream), KERNEL_FAILED)
        self.assertEqual(acl.rt.peek_at_last_error(0), KERNEL_FAILED)
        self.assertEqual(acl.rt.get_last_error(0), KERNEL_FAILED)
        self.assertEqual(acl.rt.get_last_error(0), 0)
        self.ok(acl.rt.synchronize_stream(self.stream))

    def test_synchronize_device(self):
        events = [self.event(), self.event()]
        streams = (self.stream, self.other)
        gates = [self.gate(stream) for stream in streams]
        for event, stream in zip(events, streams):
            self.ok(acl.npud.launch_delay(20000, 0, stream))
            self.ok(acl.rt.record_event(event, stream))
            self.assertEqual(acl.rt.query_event_status(event), (0, 0))
        self.assertEqual(acl.rt.synchronize_device_with_timeout(1), STREAM_SYNC_TIMEOUT)
        for gate in gates:
            self.open_gate(gate, 0)
        self.ok(acl.rt.synchronize_device())
        for event in events:
            self.assertEqual(acl.rt.query_event_status(event), (1, 0))

    def test_a_stream_wait_that_takes_too_long(self):
        self.addCleanup(acl.rt.set_op_wait_timeout, 0)
        self.ok(acl.rt.set_op_wait_timeout(1))
        self.gate()
        self.assertEqual(acl.rt.synchronize_stream(self.stream), 107020)

    def test_ids_and_counts(self):
        count = self.ok(acl.rt.get_event_avail_num())
        event = self.ok(acl.rt.create_event_with_flag(SYNC))
        self.assertEqual(acl.rt.get_event_avail_num(), (count - 1, 0))
        self.assertEqual(acl.rt.get_event_id(event)[1], 0)

    def test_contexts_are_those_of_a_thread(self):
        context = self.ok(acl.rt.create_context(1))
        self.assertEqual(acl.rt.get_context(), (context, 0))
        self.assertEqual(acl.rt.get_device(), (1, 0))
        self.assertEqual(self.while_in(lambda: acl.rt.get_context(), lambda: None),
                         (self.context, 0))
        self.ok(acl.rt.set_context(self.context))
        self.ok(acl.rt.destroy_context(context))
        self.assertNotEqual(acl.rt.set_context(context), 0)

    def test_a_new_thread_has_no_context(self):
        result = []
        tid = self.ok(acl.util.start_thread(lambda: result.append(acl.rt.create_event()), None))
        self.ok(acl.util.stop_thread(tid))
        self.assertEqual(result, [(0, NO_CONTEXT)])

    def test_priorities(self):
        self.assertEqual(acl.rt.device_get_stream_priority_range(), (7, 0, 0))
        stream = self.ok(acl.rt.create_stream_with_config(3, 1))
        priority = ctypes.c_uint32()
        self.assertEqual(
            c_library().aclrtStreamGetPriority(ctypes.c_void_p(stream), ctypes.byref(priority)), 0)
        self.assertEqual(priority.value, 3)
        self.ok(acl.rt.destroy_stream(stream))


class Gil(DeviceTest):
    """Python goes on while a thread is in one of these. What ends the call is done in the
    meantime."""

    def held_event(self):
        gate, event = self.gate(), self.event()
        self.ok(acl.rt.record_event(event, self.stream))
        return event, lambda: self.open_gate(gate)

    def test_synchronize_stream(self):
        _, go = self.held_event()
        self.assertEqual(self.while_in(lambda: acl.rt.synchronize_stream(self.stream), go), 0)

    def test_synchronize_stream_on_a_long_delay(self):
        self.ok(acl.npud.launch_delay(3600000000, 0, self.stream))
        # The stream is thrown away, delay and all, by the thread that runs meanwhile.
        other = lambda: self.ok(acl.rt.destroy_stream_force(self.stream))
        self.assertIn(
            self.while_in(lambda: acl.rt.synchronize_stream_with_timeout(self.stream, 30000),
                          other),
            (0, INVALID_HANDLE))

    def test_synchronize_stream_with_timeout(self):
        _, go = self.held_event()
        self.assertEqual(
            self.while_in(lambda: acl.rt.synchronize_stream_with_timeout(self.stream, -1), go), 0)

    def test_synchronize_event(self):
        event, go = self.held_event()
        self.assertEqual(self.while_in(lambda: acl.rt.synchronize_event(event), go), 0)

    def test_synchronize_event_with_timeout(self):
        event, go = self.held_event()
        self.assertEqual(
            self.while_in(lambda: acl.rt.synchronize_event_with_timeout(event, -1), go), 0)

    def test_synchronize_device(self):
        _, go = self.held_event()
        self.assertEqual(self.while_in(acl.rt.synchronize_device, go), 0)

    def test_synchronize_device_with_timeout(self):
        _, go = self.held_event()
        self.assertEqual(self.while_in(lambda: acl.rt.synchronize_device_with_timeout(-1), go), 0)

    def test_destroy_stream(self):
        _, go = self.held_event()
        self.assertEqual(self.while_in(lambda: acl.rt.destroy_stream(self.stream), go), 0)

    def full(self, call):
        """Calls until the stream is full, and then some more."""
        gate = self.gate()

        def calls():
            return {call() for _ in range(RING + 10)}

        return self.while_in(calls, lambda: self.open_gate(gate))

    def test_record_event_in_a_full_stream(self):
        event = self.event()
        self.assertEqual(self.full(lambda: acl.rt.record_event(event, self.stream)), {0})

    def test_stream_wait_event_in_a_full_stream(self):
        event = self.event()
        self.ok(acl.npud.launch_delay(100000, 0, self.other))
        self.ok(acl.rt.record_event(event, self.other))
        self.assertEqual(self.full(lambda: acl.rt.stream_wait_event(self.stream, event)), {0})

    def test_stop_thread(self):
        go = __import__("_thread").allocate_lock()
        go.acquire()
        tid = self.ok(acl.util.start_thread(lambda: go.acquire(), None))
        self.assertEqual(self.while_in(lambda: acl.util.stop_thread(tid), go.release), 0)


class Ipc(DeviceTest):
    def test_handle(self):
        event = self.event(IPC)
        handle = self.ok(acl.rt.ipc_get_event_handle(event))
        self.assertIs(type(handle), bytes)
        self.assertEqual(len(handle), 64)
        self.assertEqual(acl.rt.ipc_get_event_handle(event), (handle, 0))
        for bad in (handle[:63], handle + b"x", bytearray(handle)):
            self.assertRaises(ValueError, acl.rt.ipc_open_event_handle, bad)
        self.assertNotEqual(acl.rt.ipc_open_event_handle(bytes(64))[1], 0)
        self.assertEqual(acl.rt.ipc_get_event_handle(self.event()), (bytes(64), 107000))

    def test_open_somewhere_else(self):
        handle = self.ok(acl.rt.ipc_get_event_handle(self.event(IPC)))
        opened = [self.ok(acl.npud.ipc_open_event_on_device(handle, 1)),
                  self.ok(acl.npud.ipc_open_event_in_context(handle, self.context))]
        self.assertEqual(acl.npud.ipc_open_event_on_device(handle, 99)[1], 107001)
        self.assertEqual(acl.npud.ipc_open_event_in_context(handle, 99)[1], 107000)
        for event in opened:
            self.ok(acl.rt.destroy_event(event))

    def test_event_notify_fd(self):
        fd = ctypes.CDLL(None).eventfd(0, 0)
        gate, event = self.gate(), self.event()
        self.ok(acl.rt.record_event(event, self.stream))
        self.ok(acl.npud.event_notify_fd(event, fd))
        self.assertEqual(select.select([fd], [], [], 0)[0], [])
        self.open_gate(gate)
        self.assertEqual(select.select([fd], [], [])[0], [fd])
        self.assertEqual(acl.rt.query_event_status(event), (1, 0))
        os.close(fd)

    def test_two_processes(self):
        event = self.event(IPC)
        handle = self.ok(acl.rt.ipc_get_event_handle(event))
        gate = self.gate()
        self.ok(acl.rt.record_event(event, self.stream))
        code = """
import acl, acl.rt, sys
assert acl.rt.set_device(1) == 0
event, ret = acl.rt.ipc_open_event_handle(bytes.fromhex(sys.argv[1]))
assert ret == 0, acl.get_recent_err_msg()
print(acl.rt.query_event_status(event), flush=True)
assert acl.rt.synchronize_event(event) == 0
print(acl.rt.query_event_status(event), flush=True)
assert acl.rt.record_event(event, 0) == 0 and acl.rt.synchronize_event(event) == 0
assert acl.rt.destroy_event(event) == 0
"""
        with subprocess.Popen([sys.executable, "-c", code, handle.hex()], stdout=subprocess.PIPE,
                              text=True, env=os.environ) as child:
            self.assertEqual(child.stdout.readline(), "(0, 0)\n")
            self.open_gate(gate)
            self.assertEqual(child.stdout.readline(), "(1, 0)\n")
        self.assertEqual(child.returncode, 0)
        self.assertEqual(acl.rt.query_event_status(event), (1, 0))


if __name__ == "__main__":
    main()
