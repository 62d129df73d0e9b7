"""Coroutines that wait for events: acl.npud.event_future."""
import asyncio
import gc
import os
import signal
import subprocess
import sys

import acl
import acl.rt
from support import IPC, DeviceTest, main

STALE, FAILED_BY_DEATH = 107017, 507057


def eventfds():
    links = []
    for fd in os.listdir("/proc/self/fd"):
        try:
            links.append(os.readlink(f"/proc/self/fd/{fd}"))
        except FileNotFoundError:  # that of the listing itself
            pass
    return sum("eventfd" in link for link in links)


class Futures(DeviceTest):
    def setUp(self):
        super().setUp()
        # A descriptor that is not closed, but dropped, is told of here.
        told = []
        hook, sys.unraisablehook = sys.unraisablehook, told.append

        def restore():
            gc.collect()
            sys.unraisablehook = hook
            self.assertEqual([str(t.exc_value) for t in told], [])

        self.addCleanup(restore)

    def expect_eventfds(self, n):
        """The library closes its own copy of a descriptor a moment after it has written it."""
        while eventfds() > n:  # the guard against hanging ends this
            os.sched_yield()

    def held(self, flags=0x9):
        """An event with a record that waits for the gate."""
        event, gate = self.event(flags), self.gate()
        self.ok(acl.rt.record_event(event, self.stream))
        return event, gate

    def test_a_coroutine_waits_and_others_go_on(self):
        event, gate = self.held()

        async def wait():
            return await acl.npud.event_future(event), acl.rt.query_event_status(event)

        async def both():
            task = asyncio.create_task(wait())
            for _ in range(5):
                await asyncio.sleep(0)
            self.assertFalse(task.done())
            self.open_gate(gate)
            return await task

        before = eventfds()
        self.assertEqual(asyncio.run(both()), (0, (1, 0)))
        self.expect_eventfds(before)

    def test_a_record_that_is_complete(self):
        event = self.event()
        self.ok(acl.rt.record_event(event, self.stream))
        self.ok(acl.rt.synchronize_event(event))

        async def wait():
            return await acl.npud.event_future(event)

        self.assertEqual(asyncio.run(wait(), debug=True), 0)

    def test_many_at_once_complete_in_the_order_of_their_stream(self):
        gate, order = self.gate(), []
        events = [self.event() for _ in range(100)]
        for event in events:
            self.ok(acl.rt.record_event(event, self.stream))

        async def wait(event):
            ret = await acl.npud.event_future(event)
            order.append(event)
            return ret

        async def all_of_them():
            tasks = [asyncio.create_task(wait(event)) for event in events]
            await asyncio.sleep(0)
            self.assertEqual(order, [])
            self.open_gate(gate)
            return await asyncio.gather(*tasks)

        before = eventfds()
        self.assertEqual(asyncio.run(all_of_them()), [0] * 100)
        self.assertEqual(sorted(order), sorted(events))
        self.expect_eventfds(before)

    def test_own(self):
        async def wait():
            with acl.npud.own(acl.rt.create_event) as event:
                self.ok(acl.rt.record_event(event, self.stream))
                return await acl.npud.event_future(event)

        self.assertEqual(asyncio.run(wait()), 0)

    def test_cancelled_and_timed_out(self):
        event, gate = self.held()

        async def wait():
            with self.assertRaises(asyncio.TimeoutError):
                await asyncio.wait_for(acl.npud.event_future(event), 0.01)
            future = acl.npud.event_future(event)
            future.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await future
            # What was cancelled does not disturb what waits for the same record.
            future = acl.npud.event_future(event)
            self.open_gate(gate)
            return await future

        before = eventfds()
        self.assertEqual(asyncio.run(wait()), 0)
        self.expect_eventfds(before)

    def test_cancelled_and_then_another_event_by_the_same_descriptor(self):
        held, _ = self.held()
        event = self.event()

        async def wait():
            future = acl.npud.event_future(held)
            future.cancel()
            await asyncio.sleep(0)
            self.ok(acl.npud.launch_delay(20000, 0, self.other))
            self.ok(acl.rt.record_event(event, self.other))
            return await asyncio.wait_for(acl.npud.event_future(event), 30)

        self.assertEqual(asyncio.run(wait()), 0)

    def test_cancelled_when_the_descriptor_is_written_already(self):
        event = self.event()

        async def wait():
            future = acl.npud.event_future(event)
            other = acl.npud.event_future(event)
            asyncio.get_running_loop().call_soon(future.cancel)
            self.assertEqual(await other, 0)
            return future.cancelled() or future.result() == 0

        self.assertTrue(asyncio.run(wait()))

    def test_errors(self):
        self.assertRaises(RuntimeError, acl.npud.event_future, self.event())
        gone = self.ok(acl.rt.create_event())
        self.ok(acl.rt.destroy_event(gone))

        async def wait(event):
            return await acl.npud.event_future(event)

        before = eventfds()
        self.assertEqual(asyncio.run(wait(gone)), STALE)
        self.assertEqual(asyncio.run(wait(0)), 100000)
        self.expect_eventfds(before)

    def test_a_loop_that_is_dropped_leaves_no_descriptor(self):
        event, gate = self.held()

        async def forget():
            acl.npud.event_future(event)

        before = eventfds()
        loop = asyncio.new_event_loop()
        loop.run_until_complete(forget())
        loop.close()
        del loop
        with self.assertWarns(ResourceWarning):  # of the file object, as for any that is dropped
            gc.collect()
        # One is the library's own copy, until the record is complete.
        self.assertLessEqual(eventfds(), before + 1)
        self.open_gate(gate)
        self.ok(acl.rt.synchronize_event(event))

    def test_the_recorder_dies(self):
        event = self.event(IPC)
        handle = self.ok(acl.rt.ipc_get_event_handle(event))
        code = """
import acl, acl.rt, sys
assert acl.rt.set_device(0) == 0
stream, ret = acl.rt.create_stream()
assert ret == 0
event, ret = acl.rt.ipc_open_event_handle(bytes.fromhex(sys.argv[1]))
assert ret == 0
assert acl.npud.launch_delay(3600000000, 0, stream) == 0
assert acl.rt.record_event(event, stream) == 0
print("recorded", flush=True)
sys.stdin.read()
"""

        async def wait():
            future = acl.npud.event_future(event)
            child.send_signal(signal.SIGKILL)
            return await future

        with subprocess.Popen([sys.executable, "-c", code, handle.hex()], stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE, text=True) as child:
            self.assertEqual(child.stdout.readline(), "recorded\n")
            self.assertEqual(asyncio.run(wait()), FAILED_BY_DEATH)
            self.assertIn(str(child.pid), acl.get_recent_err_msg())


if __name__ == "__main__":
    main()
