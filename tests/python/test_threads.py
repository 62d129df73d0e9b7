"""acl.util.start_thread and stop_thread; what the end of a process does to threads and
callbacks."""
import _thread
import contextlib
import errno
import io
import os
import subprocess
import sys
import tempfile
import threading
import unittest

import acl
import acl.rt
import acl.util
from support import HAS_EXCEPTIONS, LIMIT, main, ok


class Threads(unittest.TestCase):
    def run_in_thread(self, fn, arguments):
        tid = ok(self, acl.util.start_thread(fn, arguments))
        return tid, acl.util.stop_thread(tid)

    def test_the_list_is_the_one_argument(self):
        seen, arguments = [], [1, 2]
        tid, ret = self.run_in_thread(lambda a: seen.append((a, threading.get_ident())), arguments)
        self.assertEqual(ret, 0)
        self.assertIs(seen[0][0], arguments)
        self.assertEqual(seen[0][1], tid)

    def test_none_is_no_argument(self):
        seen = []
        self.assertEqual(self.run_in_thread(lambda *a: seen.append(a), None)[1], 0)
        self.assertEqual(seen, [()])

    def test_bound_method(self):
        class Worker:
            def work(self, arguments):
                arguments.append(self)

        worker, arguments = Worker(), []
        self.assertEqual(self.run_in_thread(worker.work, arguments)[1], 0)
        self.assertEqual(arguments, [worker])

    def test_stop_waits_for_the_end(self):
        go = _thread.allocate_lock()
        go.acquire()
        seen = []

        def work():
            go.acquire()
            seen.append("done")

        tid = ok(self, acl.util.start_thread(work, None))
        self.assertEqual(seen, [])
        go.release()
        self.assertEqual(acl.util.stop_thread(tid), 0)
        self.assertEqual(seen, ["done"])

    def test_no_such_thread(self):
        tid, ret = self.run_in_thread(lambda: None, None)
        self.assertEqual(ret, 0)
        self.assertEqual(acl.util.stop_thread(tid), errno.ESRCH)
        self.assertEqual(acl.util.stop_thread(12345), errno.ESRCH)
        self.assertEqual(acl.util.stop_thread(threading.get_ident()), errno.ESRCH)

    def test_two_who_wait_and_one_who_waits_for_itself(self):
        go = _thread.allocate_lock()
        go.acquire()
        told = []

        def work():
            go.acquire()
            told.append(acl.util.stop_thread(threading.get_ident()))

        tid = ok(self, acl.util.start_thread(work, None))
        # Started with the GIL in hand, it gets to its join before we go on (see support.while_in).
        interval = sys.getswitchinterval()
        sys.setswitchinterval(3600)
        begun, result = _thread.allocate_lock(), []
        begun.acquire()
        joined = _thread.allocate_lock()
        joined.acquire()

        def first():
            begun.release()
            result.append(acl.util.stop_thread(tid))
            joined.release()

        _thread.start_new_thread(first, ())
        begun.acquire()
        second = acl.util.stop_thread(tid)
        sys.setswitchinterval(interval)
        self.assertEqual(second, errno.EINVAL)
        go.release()
        joined.acquire()
        self.assertEqual(result, [0])
        self.assertEqual(told, [errno.EDEADLK])

    def test_exception(self):
        def work():
            return 1 // 0

        with contextlib.redirect_stderr(io.StringIO()) as err:
            tid = ok(self, acl.util.start_thread(work, None))
            with self.assertRaises(RuntimeError) as caught:
                acl.util.stop_thread(tid)
        self.assertIn("ZeroDivisionError", str(caught.exception))
        self.assertIn("ZeroDivisionError", err.getvalue())
        self.assertIn("Traceback", err.getvalue())
        self.assertEqual(acl.util.stop_thread(tid), errno.ESRCH)

    def test_exit_in_a_thread_ends_that_thread(self):
        self.assertEqual(self.run_in_thread(sys.exit, 3)[1], 0)

    def test_references(self):
        class Work:
            def __call__(self, arguments):
                pass

        fn, arguments = Work(), []
        before = sys.getrefcount(fn), sys.getrefcount(arguments)
        for _ in range(200):
            self.assertEqual(self.run_in_thread(fn, arguments)[1], 0)
        self.assertEqual((sys.getrefcount(fn), sys.getrefcount(arguments)), before)

    def test_many_at_once(self):
        seen = []
        tids = [ok(self, acl.util.start_thread(seen.append, i)) for i in range(64)]
        self.assertEqual([acl.util.stop_thread(t) for t in reversed(tids)], [0] * 64)
        self.assertEqual(sorted(seen), list(range(64)))

    def test_a_forked_child_has_no_threads(self):
        ok(self, acl.rt.get_device_count())  # in use: the child must say acl.init() first
        go = _thread.allocate_lock()
        go.acquire()
        tid = ok(self, acl.util.start_thread(lambda: go.acquire(), None))
        pid = os.fork()
        if pid == 0:
            try:
                good = acl.util.stop_thread(tid) == errno.ESRCH
                own, ret = acl.util.start_thread(lambda: None, None)
                good = good and ret == 0 and acl.util.stop_thread(own) == 0
                good = good and acl.rt.set_device(0) != 0 and acl.init() == 0
                good = good and acl.rt.set_device(0) == 0
                os._exit(0 if good else 1)
            except BaseException:
                os._exit(2)
        self.assertEqual(os.waitpid(pid, 0)[1], 0)
        go.release()
        self.assertEqual(acl.util.stop_thread(tid), 0)


PRELUDE = """
import _thread, acl, acl.rt, acl.util, os, sys, threading
def must(result):
    ret = result[-1] if isinstance(result, tuple) else result
    assert ret == 0, (ret, acl.get_recent_err_msg())
    return result[0] if isinstance(result, tuple) else None
must(acl.init())
must(acl.rt.set_device(0))
context = must(acl.rt.get_context())
stream = must(acl.rt.create_stream())
held = must(acl.rt.create_event_with_flag(1))
begun = _thread.allocate_lock()
begun.acquire()
"""


class Endings(unittest.TestCase):
    """Programs that end in the middle of something: with the status that they chose, and without a
    word."""

    def program(self, code, status=0, **environment):
        ended = subprocess.run([sys.executable, "-X", "dev", "-c", PRELUDE + code],
                               timeout=LIMIT / 2, capture_output=True, text=True,
                               env=dict(os.environ, **environment))
        self.assertEqual((ended.returncode, ended.stderr), (status, ""))
        return ended.stdout

    def test_with_a_thread_that_sleeps_in_the_library(self):
        self.program("""
def work():
    acl.rt.set_context(context)
    begun.release()
    acl.rt.synchronize_stream(stream)
must(acl.rt.stream_wait_event(stream, held))
acl.util.start_thread(work, None)
begun.acquire()
sys.exit(7)
""", 7)

    def test_with_a_thread_that_runs_python(self):
        self.program("""
def work():
    begun.release()
    while True:
        acl.rt.get_device()
acl.util.start_thread(work, None)
begun.acquire()
""")

    def test_with_threads_of_threading_in_the_library(self):
        self.program("""
def work():
    acl.rt.set_context(context)
    begun.release()
    acl.rt.synchronize_stream(stream)
must(acl.rt.stream_wait_event(stream, held))
threading.Thread(target=work, daemon=True).start()
begun.acquire()
""")

    def test_with_callbacks_pending(self):
        self.program("""
def work():
    acl.rt.set_context(context)
    begun.release()
    while True:
        acl.rt.process_report(-1)
tid = must(acl.util.start_thread(work, None))
begun.acquire()
must(acl.rt.subscribe_report(tid, stream))
must(acl.rt.stream_wait_event(stream, held))
for i in range(500):
    must(acl.rt.launch_callback(print, ["never"], i % 2, stream))
sys.exit(7)
""", 7)

    def test_in_the_middle_of_callbacks(self):
        """They come as fast as they can; the interpreter ends while some are run and more are asked
        for."""
        for _ in range(5):
            self.program("""
count = [0]
def fn(argument):
    count[0] += 1
    if count[0] == 100:
        begun.release()
def work():
    acl.rt.set_context(context)
    while True:
        acl.rt.process_report(10)
def launch():
    acl.rt.set_context(context)
    while True:
        acl.rt.launch_callback(fn, None, 0, stream)
tid = must(acl.util.start_thread(work, None))
must(acl.rt.subscribe_report(tid, stream))
must(acl.util.start_thread(launch, None))
begun.acquire()
""")

    def test_in_a_callback_that_does_not_return(self):
        self.program("""
import time
def work():
    acl.rt.set_context(context)
    while True:
        acl.rt.process_report(10)
def fn(argument):
    begun.release()
    while True:
        time.time()
tid = must(acl.util.start_thread(work, None))
must(acl.rt.subscribe_report(tid, stream))
must(acl.rt.launch_callback(fn, None, 1, stream))
begun.acquire()
""")

    def test_a_callback_that_is_dropped_by_the_end_of_the_session(self):
        self.assertEqual(self.program("""
class Argument:
    def __del__(self):
        print("let go of")
must(acl.rt.subscribe_report(threading.get_ident(), stream))
must(acl.rt.stream_wait_event(stream, held))
must(acl.rt.launch_callback(print, Argument(), 1, stream))
must(acl.rt.destroy_stream_force(stream))
"""), "let go of\n")

    @unittest.skipUnless(HAS_EXCEPTIONS, "not in the library yet")
    def test_with_an_exception_callback(self):
        for _ in range(5):
            self.program("""
count = [0]
def told(info):
    count[0] += 1
    if count[0] == 20:
        begun.release()
must(acl.rt.set_exception_info_callback(told))
def fail():
    acl.rt.set_context(context)
    while True:
        acl.npud.launch_delay(0, 507015, stream)
must(acl.util.start_thread(fail, None))
begun.acquire()
""")

    @unittest.skipUnless(HAS_EXCEPTIONS, "not in the library yet")
    def test_with_a_thread_on_its_way_in(self):
        """The interpreter is gone while the library's thread asks for it. Slowed down: that takes
        the fraction of a microsecond otherwise."""
        with tempfile.TemporaryDirectory() as folder:
            slow = folder + "/slow.so"
            source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "slow_entry.c")
            subprocess.run(os.environ.get("CC", "cc").split()
                           + ["-D_GNU_SOURCE", "-shared", "-fPIC", "-o", slow, source], check=True)
            for _ in range(3):
                self.program("""
told = lambda info: begun.locked() and begun.release()
must(acl.rt.set_exception_info_callback(told))
def fail():
    acl.rt.set_context(context)
    while True:
        acl.npud.launch_delay(0, 507015, stream)
must(acl.util.start_thread(fail, None))
begun.acquire()
""", LD_PRELOAD=slow)

    def test_a_callback_that_returns_soon_is_waited_for(self):
        self.assertEqual(self.program("""
def work():
    acl.rt.set_context(context)
    while True:
        acl.rt.process_report(10)
def fn(argument):
    begun.release()
    threading.main_thread().join()
    print("to its end", flush=True)
tid = must(acl.util.start_thread(work, None))
must(acl.rt.subscribe_report(tid, stream))
must(acl.rt.launch_callback(fn, None, 1, stream))
begun.acquire()
"""), "to its end\n")

    def test_forked_with_callbacks_pending(self):
        self.assertEqual(self.program("""
import warnings
warnings.filterwarnings("ignore", "This process .* is multi-threaded") # of Python 3.12
must(acl.rt.subscribe_report(threading.get_ident(), stream))
must(acl.rt.launch_callback(lambda a: a.append(1), [], 1, stream))
if os.fork() == 0:
    must(acl.init())
    must(acl.rt.set_device(0))
    own = must(acl.rt.create_stream())
    must(acl.rt.subscribe_report(threading.get_ident(), own))
    must(acl.rt.launch_callback(lambda a: print(a[0], flush=True), ["child"], 1, own))
    must(acl.rt.process_report(-1))
    must(acl.rt.synchronize_stream(own))
    sys.exit(0)
assert os.wait()[1] == 0
must(acl.rt.process_report(-1))
must(acl.rt.synchronize_stream(stream))
"""), "child\n")


if __name__ == "__main__":
    main()
