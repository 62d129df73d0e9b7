"""Python functions in streams, and for failed tasks."""
import _thread
import contextlib
import ctypes
import gc
import os
import sys
import threading
import unittest
import weakref

import acl
import acl.rt
import acl.util
from support import HAS_EXCEPTIONS, KERNEL_FAILED, STREAM_SYNC_TIMEOUT, DeviceTest, c_library, main

NO_BLOCK, BLOCK = 0, 1
NOT_SUBSCRIBED, NOT_THIS_THREAD, NO_THREAD = 107011, 107012, 107015
NOTHING_CAME = 507012


@contextlib.contextmanager
def unraisable():
    """What sys.unraisablehook is told."""
    told = []

    def hook(what):
        told.append((what.exc_type, what.object))

    old, sys.unraisablehook = sys.unraisablehook, hook
    try:
        yield told
    finally:
        sys.unraisablehook = old


class Worker:
    """A thread that processes reports until it is told to end."""

    def __init__(self, test):
        self.test = test
        self.runs = True
        self.results = set()
        self.id = test.ok(acl.util.start_thread(self.loop, [test.context, 50]))
        test.addCleanup(self.stop)

    def loop(self, arguments):
        acl.rt.set_context(arguments[0])
        while self.runs:
            self.results.add(acl.rt.process_report(arguments[1]))

    def stop(self):
        if self.id:
            self.runs = False
            self.test.ok(acl.util.stop_thread(self.id))
            self.id = None


class Callbacks(DeviceTest):
    def setUp(self):
        super().setUp()
        self.worker = Worker(self)
        self.ok(acl.rt.subscribe_report(self.worker.id, self.stream))

    def launch(self, fn, argument=None, block=BLOCK):
        self.ok(acl.rt.launch_callback(fn, argument, block, self.stream))

    def test_standard_sequence(self):
        run, seen = [True], []

        def work(arguments):
            acl.rt.set_context(arguments[0])
            while run[0]:
                acl.rt.process_report(arguments[1])

        tid = self.ok(acl.util.start_thread(work, [self.context, 100]))
        self.ok(acl.rt.subscribe_report(tid, self.other))
        payload = ["payload"]
        self.ok(acl.rt.launch_callback(lambda a: seen.append((a, threading.get_ident())), payload,
                                       1, self.other))
        self.ok(acl.rt.synchronize_stream(self.other))
        self.assertIs(seen[0][0], payload)
        self.assertEqual(seen[0][1], tid)
        self.ok(acl.rt.unsubscribe_report(tid, self.other))
        run[0] = False
        self.ok(acl.util.stop_thread(tid))

    def test_launch_callback(self):
        class Holder:
            def method(self, argument):
                seen.append((self, argument))

        seen, holder = [], Holder()
        self.launch(seen.append, None)
        self.launch(holder.method, holder)
        self.launch(ctypes.CFUNCTYPE(None, ctypes.py_object)(lambda a: seen.append(a)), "ctypes")
        self.ok(acl.rt.synchronize_stream(self.stream))
        self.assertEqual(seen, [None, (holder, holder), "ctypes"])
        self.assertEqual(acl.rt.launch_callback(print, [], 2, self.stream), 100000)
        self.assertEqual(acl.rt.launch_callback(print, [], BLOCK, self.other), NO_THREAD)
        self.assertIn("aclrtLaunchCallback: no thread is subscribed", acl.get_recent_err_msg())

    def test_exact_order(self):
        seen = []
        for i in range(500):
            self.launch(seen.append, i, i % 2)
        self.launch(seen.append, "last", BLOCK)
        self.ok(acl.rt.synchronize_stream(self.stream))
        self.assertEqual(seen, list(range(500)) + ["last"])

    def test_block_and_no_block(self):
        go, event = threading.Event(), self.event()
        self.launch(lambda _: go.wait(), None, BLOCK)
        self.ok(acl.rt.record_event(event, self.stream))
        self.assertEqual(acl.rt.synchronize_stream_with_timeout(self.stream, 20),
                         STREAM_SYNC_TIMEOUT)
        self.assertEqual(acl.rt.query_event_status(event), (0, 0))
        go.set()
        self.ok(acl.rt.synchronize_event(event))
        go.clear()
        begun = threading.Event()
        self.launch(lambda _: (begun.set(), go.wait()), None, NO_BLOCK)
        self.ok(acl.rt.synchronize_stream(self.stream))
        begun.wait()
        go.set()

    def test_subscribe_report(self):
        self.assertEqual(acl.rt.launch_callback(print, [], BLOCK, self.other), NO_THREAD)
        self.ok(acl.rt.subscribe_report(self.worker.id, self.other))
        self.assertEqual(acl.rt.subscribe_report(self.worker.id, self.other), NOT_SUBSCRIBED)
        self.ok(acl.rt.launch_callback(lambda _: None, [], BLOCK, self.other))
        self.ok(acl.rt.synchronize_stream(self.other))

    def test_unsubscribe_report(self):
        self.assertEqual(acl.rt.unsubscribe_report(self.worker.id + 1, self.stream),
                         NOT_THIS_THREAD)
        self.ok(acl.rt.unsubscribe_report(self.worker.id, self.stream))
        self.assertEqual(acl.rt.unsubscribe_report(self.worker.id, self.stream), NOT_SUBSCRIBED)
        self.assertEqual(acl.rt.launch_callback(print, [], BLOCK, self.stream), NO_THREAD)

    def test_unsubscribe_when_the_thread_has_ended(self):
        tid = self.worker.id
        self.worker.stop()
        self.ok(acl.rt.unsubscribe_report(tid, self.stream))

    def test_process_report(self):
        self.assertEqual(acl.rt.process_report(1), NOT_THIS_THREAD)
        self.ok(acl.rt.subscribe_report(threading.get_ident(), self.other))
        self.assertEqual(acl.rt.process_report(1), NOTHING_CAME)
        self.assertEqual(acl.rt.process_report(0), 100000)
        self.assertEqual(acl.rt.process_report(-2), 100000)
        seen = []
        self.ok(acl.rt.launch_callback(seen.append, threading.get_ident(), BLOCK, self.other))
        while not seen:
            self.ok(acl.rt.process_report(-1))
        self.assertEqual(seen, [threading.get_ident()])
        self.ok(acl.rt.unsubscribe_report(threading.get_ident(), self.other))

    def test_threads_of_threading_and_the_default_stream(self):
        seen, run = [], [True]

        def work():
            acl.rt.set_context(self.context)
            while run[0]:
                acl.rt.process_report(50)

        thread = threading.Thread(target=work)
        thread.start()
        self.ok(acl.rt.subscribe_report(thread.ident, 0))
        local = threading.local()
        local.value = "mine"  # of this thread only

        def fn(_):
            seen.append((threading.current_thread(), hasattr(local, "value")))

        self.ok(acl.rt.launch_callback(fn, [], BLOCK, 0))
        self.ok(acl.rt.synchronize_stream(0))
        self.ok(acl.rt.unsubscribe_report(thread.ident, 0))
        run[0] = False
        thread.join()
        self.assertEqual(seen, [(thread, False)])

    def test_an_exception_is_reported_and_nothing_else(self):
        seen = []

        def fails(_):
            raise ZeroDivisionError

        with unraisable() as told:
            self.launch(fails)
            self.launch(sys.exit, 3)
            self.launch(seen.append, "after")
            self.ok(acl.rt.synchronize_stream(self.stream))
        self.assertEqual(told, [(ZeroDivisionError, fails), (SystemExit, sys.exit)])
        self.assertEqual(seen, ["after"])

    def test_references_over_10000_launches(self):
        class Argument:
            pass

        def fn(_):
            pass

        argument = Argument()
        before = sys.getrefcount(fn), sys.getrefcount(argument)
        for i in range(10000):
            self.launch(fn, argument, i % 2)
        self.launch(fn, argument)
        self.ok(acl.rt.synchronize_stream(self.stream))
        self.worker.stop()
        self.assertEqual((sys.getrefcount(fn), sys.getrefcount(argument)), before)
        for _ in range(1000):
            acl.rt.launch_callback(fn, argument, BLOCK, self.other)
        self.assertEqual((sys.getrefcount(fn), sys.getrefcount(argument)), before)

    def test_held_until_run_and_not_longer(self):
        class Argument:
            pass

        argument = Argument()
        gone = weakref.ref(argument)
        gate = self.gate()
        self.launch(lambda _: None, argument)
        del argument
        gc.collect()
        self.assertIsNotNone(gone())
        self.open_gate(gate)
        self.ok(acl.rt.synchronize_stream(self.stream))
        self.worker.stop()
        self.assertIsNone(gone())

    def dropped(self, end):
        """Callbacks that are pending when end() is called: let go of by then, never run."""

        class Argument:
            def __del__(self):
                acl.rt.get_device()  # whatever a destructor does

        seen, arguments = [], [Argument() for _ in range(100)]
        gone = [weakref.ref(a) for a in arguments]
        self.gate()
        self.addCleanup(acl.rt.destroy_stream_force, self.stream)
        for argument in arguments:
            self.launch(seen.append, argument)
        del arguments, argument
        self.assertTrue(all(g() for g in gone))
        self.ok(end())
        self.assertEqual(sum(g() is not None for g in gone), 0)
        self.assertEqual(seen, [])

    def test_dropped_by_unsubscribing(self):
        self.dropped(lambda: acl.rt.unsubscribe_report(self.worker.id, self.stream))

    def test_dropped_by_destroying_the_stream(self):
        self.dropped(lambda: acl.rt.destroy_stream_force(self.stream))

    def test_a_callback_runs_while_another_thread_synchronizes(self):
        # The callback needs the GIL, and the thread in synchronize_stream, in which nothing ends
        # it, must not have it.
        interval = sys.getswitchinterval()
        sys.setswitchinterval(3600)
        try:
            self.launch(lambda _: None)
            self.ok(acl.rt.synchronize_stream(self.stream))
        finally:
            sys.setswitchinterval(interval)

    def test_a_full_stream_of_callbacks(self):
        seen = []
        gate = self.gate()

        def launch():
            for i in range(3000):
                self.launch(seen.append, i, i % 2)
            return acl.rt.synchronize_stream(self.stream)

        self.assertEqual(self.while_in(launch, lambda: self.open_gate(gate)), 0)
        self.worker.stop()
        self.assertEqual(seen, list(range(3000)))

    def test_process_report_gives_the_gil_away(self):
        seen, id_known = [], _thread.allocate_lock()
        id_known.acquire()
        ids = []

        def process():
            ids.append(threading.get_ident())
            id_known.release()
            return acl.rt.process_report(-1)

        # Subscribed before it is in process_report: what it did would be 107012 otherwise.
        def work():
            return acl.rt.subscribe_report(threading.get_ident(), self.other) or process()

        def launch():
            id_known.acquire()
            self.ok(acl.rt.launch_callback(seen.append, 1, BLOCK, self.other))
            self.ok(acl.rt.synchronize_stream(self.other))

        self.assertEqual(self.while_in(work, launch), 0)
        self.assertEqual(seen, [1])


@unittest.skipUnless(HAS_EXCEPTIONS, "not in the library yet")
class Exceptions(DeviceTest):
    def setUp(self):
        super().setUp()
        self.addCleanup(acl.rt.set_exception_info_callback, None)
        self.told = []

    def note(self, info):
        self.told.append((
            acl.rt.get_task_id_from_exception_info(info),
            acl.rt.get_stream_id_from_exception_info(info),
            acl.rt.get_thread_id_from_exception_info(info),
            acl.rt.get_device_id_from_exception_info(info),
            acl.rt.get_error_code_from_exception_info(info),
        ))

    def fail(self, stream=None):
        """A task that fails: what is to be told of it."""
        lib, number = c_library(), ctypes.c_uint32()
        stream = stream or self.stream
        self.ok(acl.npud.launch_delay(0, KERNEL_FAILED, stream))
        self.ok(lib.aclrtGetThreadLastTaskId(ctypes.byref(number)))
        task = number.value
        self.ok(lib.aclrtStreamGetId(ctypes.c_void_p(stream), ctypes.byref(number)))
        return task, number.value, threading.get_native_id(), 0, KERNEL_FAILED

    def test_told_once_per_failed_task(self):
        self.ok(acl.rt.set_exception_info_callback(self.note))
        expected = []
        for _ in range(5):
            expected.append(self.fail())
            self.assertEqual(acl.rt.synchronize_stream(self.stream), KERNEL_FAILED)
        expected.append(self.fail(self.other))
        self.assertEqual(acl.rt.synchronize_stream(self.other), KERNEL_FAILED)
        self.assertEqual(self.told, expected)
        self.assertEqual(len(set(expected)), 6)

    def test_the_last_one_set_is_told(self):
        others = []
        self.ok(acl.rt.set_exception_info_callback(others.append))
        self.ok(acl.rt.set_exception_info_callback(self.note))
        self.fail()
        self.assertEqual(acl.rt.synchronize_stream(self.stream), KERNEL_FAILED)
        self.assertEqual((len(self.told), others), (1, []))
        for none in ((None,), ()):
            self.ok(acl.rt.set_exception_info_callback(*none))
            self.fail()
            self.assertEqual(acl.rt.synchronize_stream(self.stream), KERNEL_FAILED)
        self.assertEqual((len(self.told), others), (1, []))

    def test_what_it_raises_is_reported_and_it_stays(self):
        def fails(_):
            self.told.append(1)
            raise KeyError

        with unraisable() as told:
            self.ok(acl.rt.set_exception_info_callback(fails))
            for _ in range(2):
                self.fail()
                self.assertEqual(acl.rt.synchronize_stream(self.stream), KERNEL_FAILED)
        self.assertEqual(told, [(KeyError, fails)] * 2)
        self.assertEqual(self.told, [1, 1])

    def test_references(self):
        def fn(_):
            pass

        before = sys.getrefcount(fn)
        for _ in range(100):
            self.ok(acl.rt.set_exception_info_callback(fn))
        self.assertEqual(sys.getrefcount(fn), before + 1)
        self.fail()
        self.assertEqual(acl.rt.synchronize_stream(self.stream), KERNEL_FAILED)
        self.ok(acl.rt.set_exception_info_callback(None))
        self.assertEqual(sys.getrefcount(fn), before)

    def test_arguments(self):
        self.assertRaises(TypeError, acl.rt.set_exception_info_callback, 5)
        self.assertRaises(TypeError, acl.rt.set_exception_info_callback, None, None)
        for name in ("task_id", "stream_id", "thread_id", "device_id", "error_code"):
            getter = getattr(acl.rt, f"get_{name}_from_exception_info")
            self.assertEqual(getter(0), 0xFFFFFFFF)


if __name__ == "__main__":
    main()
