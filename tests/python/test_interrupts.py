"""Signals while the main thread is in the library: programs of their own, which get the signal
while they wait."""
import os
import signal
import subprocess
import sys
import tempfile
import unittest

import acl
import acl.rt
import acl.util
from support import LIMIT, main

ROUNDS = 3 if not os.environ.get("NPUD_TEST_LONG") else 50

FUTEX = {"x86_64": "202", "aarch64": "98"}[os.uname().machine]

PRELUDE = """
import acl, acl.rt, acl.tdt, acl.util, os, signal, sys, threading
def must(result):
    ret = result[-1] if isinstance(result, tuple) else result
    assert ret == 0, (ret, acl.get_recent_err_msg())
    return result[0] if isinstance(result, tuple) else None
def say(word):
    os.write(1, word.encode() + b"\\n")
must(acl.init())
must(acl.rt.set_device(0))
context = must(acl.rt.get_context())
stream, other = must(acl.rt.create_stream()), must(acl.rt.create_stream())
held = must(acl.rt.create_event_with_flag(1))
me = threading.get_ident()
def hold(stream):
    must(acl.rt.stream_wait_event(stream, held))
def prepare():
    pass
def rounds(call, n):
    global made
    for _ in range(n):
        made = prepare()
        try:
            say("waits")
            result = call()
        except KeyboardInterrupt:
            say("caught")
        else:
            say(f"returned {result}: {acl.get_recent_err_msg()}")
"""

# What is to be ready before, and the call that waits. Streams of it are held for ever. What
# each call needs anew is made in prepare(), before the program says that it waits: a sleep in
# Python is one on a word of memory as well, and an interrupt that ends the preparation leaves half
# of it to the next round.
WAITS = {
    "synchronize_stream": ("hold(stream)", "acl.rt.synchronize_stream(stream)"),
    "synchronize_stream_with_timeout": ("hold(stream)",
                                        "acl.rt.synchronize_stream_with_timeout(stream, 600000)"),
    "synchronize_device": ("hold(stream)", "acl.rt.synchronize_device()"),
    "synchronize_event": ("""
hold(stream)
late = must(acl.rt.create_event_ex_with_flag(1))
must(acl.rt.record_event(late, stream))
""", "acl.rt.synchronize_event(late)"),
    "synchronize_ipc_event": ("""
hold(stream)
late = must(acl.rt.create_event_ex_with_flag(0x40))
must(acl.rt.record_event(late, stream))
""", "acl.rt.synchronize_event(late)"),
    "process_report": ("must(acl.rt.subscribe_report(me, stream))", "acl.rt.process_report(-1)"),
    "a_full_stream": ("""
hold(stream)
def fill():
    while True:
        must(acl.npud.launch_delay(0, 0, stream))
""", "fill()"),
    "a_full_stream_of_callbacks": ("""
hold(stream)
must(acl.rt.subscribe_report(me, stream))
def fill():
    while True:
        must(acl.rt.launch_callback(print, None, 0, stream))
""", "fill()"),
    "a_stream_in_which_another_thread_waits_for_room": ("""
hold(stream)
def fill(done):
    acl.rt.set_context(context)
    while True:
        acl.npud.launch_delay(0, 0, stream)
        done.append(1)
filled = []
must(acl.util.start_thread(fill, filled))
while len(filled) < 1023:
    pass
""", "acl.rt.record_event(held, stream)"),
    "destroy_stream": ("""
def prepare():
    s = must(acl.rt.create_stream())
    hold(s)
    return s
""", "acl.rt.destroy_stream(made)"),
    "destroy_stream_beside_a_callback": ("""
go = threading.Event()
def work(subscribed):
    acl.rt.set_context(context)
    subscribed.wait()
    acl.rt.process_report(-1)
def prepare():
    s = must(acl.rt.create_stream())
    subscribed, begun = threading.Event(), threading.Event()
    must(acl.rt.subscribe_report(must(acl.util.start_thread(work, subscribed)), s))
    subscribed.set()
    must(acl.rt.launch_callback(lambda _: (begun.set(), go.wait()), None, 1, s))
    begun.wait()
    return s
""", "acl.rt.destroy_stream(made)"),
    "destroy_context": ("""
def prepare():
    c = must(acl.rt.create_context(0))
    hold(must(acl.rt.create_stream()))
    return c
""", "acl.rt.destroy_context(made)"),
    "reset_device": ("""
def prepare():
    must(acl.rt.set_device(1))
    hold(0)
""", "acl.rt.reset_device_force(1)"),
    "dequeue": ("queue = must(acl.tdt.create_queue(0))", "acl.tdt.dequeue(queue, -1)"),
    "enqueue": ("""
queue = must(acl.tdt.create_queue(0))
for _ in range(8):
    must(acl.tdt.enqueue(queue, must(acl.tdt.alloc_buf(1, 0)), 0))
more = must(acl.tdt.alloc_buf(1, 0))
""", "acl.tdt.enqueue(queue, more, -1)"),
    "receive_tensor": ("""
channel = acl.tdt.create_channel_with_capacity(0, "name", 2)
dataset = acl.tdt.create_dataset()
""", "acl.tdt.receive_tensor(channel, dataset, -1)"),
    "receive_tensor_of_the_older_kind": ("""
channel = acl.tdt.create_channel(0, "TF_RECEIVE_name")
dataset = acl.tdt.create_dataset()
""", "acl.tdt.receive_tensor(channel, dataset, -1)"),
    "an_owner": ("""
def prepare():
    s = acl.npud.own(acl.rt.create_stream)
    hold(s)
    return s
""", "made.close()"),
    "free_with_dev_sync": ("hold(stream)\nmemory = must(acl.rt.malloc(1, 0))",
                           "acl.rt.free_with_dev_sync(memory)"),
    "stop_thread": ("tid = must(acl.util.start_thread(threading.Event().wait, None))",
                    "acl.util.stop_thread(tid)"),
}


class Program:
    def __init__(self, code, **environment):
        self.process = subprocess.Popen([sys.executable, "-X", "dev", "-c", PRELUDE + code],
                                        text=True, env=os.environ | environment,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.said = []

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()
        self.process.stderr.close()

    def until(self, word):
        """Reads what it says up to that word; False when it has ended."""
        for line in self.process.stdout:
            self.said.append(line.strip())
            if self.said[-1] == word:
                return True
        return False

    def until_it_sleeps(self):
        """Its main thread sleeps on a word of memory, as it does in the library."""
        asleep = False
        while not asleep and self.process.poll() is None:
            with open(f"/proc/{self.process.pid}/syscall", encoding="ascii") as number:
                asleep = number.read().split()[0] == FUTEX

    def end(self):
        out, err = self.process.communicate(timeout=LIMIT / 2)
        return self.process.returncode, self.said + out.split("\n")[:-1], err


class Interrupts(unittest.TestCase):
    def program(self, code, **environment):
        program = Program(code, **environment)
        self.addCleanup(program.kill)
        return program

    def interrupt(self, program, number=signal.SIGINT):
        self.assertTrue(program.until("waits"), program.said)
        program.until_it_sleeps()
        program.process.send_signal(number)

    def test_each_call_that_waits(self):
        for name, (before, call) in WAITS.items():
            with self.subTest(name):
                program = self.program(f"{before}\nrounds(lambda: {call}, {ROUNDS})\nos._exit(0)")
                for i in range(ROUNDS):
                    self.interrupt(program)
                    self.assertTrue(program.until("caught"), program.said)
                    self.assertEqual(program.said, ["waits", "caught"] * (i + 1))
                self.assertEqual(program.end()[::2], (0, ""))

    def test_one_that_no_signal_brings(self):
        """As one that arrives just before the library sleeps, or in another thread: Python knows of
        it, the kernel wakes no thread."""
        for name in "synchronize_stream", "a_full_stream", "process_report":
            with self.subTest(name):
                before, call = WAITS[name]
                program = self.program(f"""
import _thread
ready = []
def work():
    while not ready:
        pass
    while True:
        with open("/proc/self/syscall") as number:
            if number.read().split()[0] == "{FUTEX}":
                break
    _thread.interrupt_main()
{before}
threading.Thread(target=work, daemon=True).start()
rounds(lambda: (ready.append(1), {call}), 1)
os._exit(0)
""")
                self.assertTrue(program.until("caught"), program.said)
                self.assertEqual(program.end()[::2], (0, ""))

    def test_each_moment_of_a_call(self):
        """
        The call in which it arrives raises, and not the next one: before it begins, around a look
        for signals, after its end.
        """
        before_call, before_look, after_look, after_call = range(1, 5)
        waits = ("synchronize_stream", "a_full_stream", "destroy_stream",
                 "destroy_stream_beside_a_callback")
        cases = [(*WAITS[name], moment) for moment in (before_call, before_look, after_look)
                 for name in waits]
        cases += [("", call, after_call) for call in ("acl.rt.synchronize_stream(stream)",
                                                      "acl.npud.launch_delay(0, 0, stream)",
                                                      "acl.rt.destroy_stream(stream)")]
        here = os.path.dirname(os.path.abspath(__file__))
        with tempfile.TemporaryDirectory() as folder:
            at = folder + "/at.so"
            subprocess.run(os.environ.get("CC", "cc").split() +
                           ["-D_GNU_SOURCE", "-shared", "-fPIC", "-I", here + "/../../include",
                            "-o", at, here + "/interrupt_at.c"], check=True)
            for before, call, moment in cases:
                with self.subTest(call=call, moment=moment):
                    program = self.program(f"""
import ctypes
interrupt_at = ctypes.CDLL(None).interrupt_at
{before}
rounds(lambda: (interrupt_at({moment}), {call}), 1)
os._exit(0)
""", LD_PRELOAD=at)
                    self.assertEqual(program.end(), (0, ["waits", "caught"], ""))

    def test_while_callbacks_arrive(self):
        """It comes in the callback, between two, or in the library."""
        rounds = 20 if ROUNDS < 20 else 150
        program = self.program(f"""
must(acl.rt.subscribe_report(me, stream))
ready = []
def launch():
    acl.rt.set_context(context)
    while True:
        # One in a hundred holds the stream: the others do not pile up while nobody runs them.
        for i in range(100):
            acl.rt.launch_callback(ready.append, 1, i == 0, stream)
must(acl.util.start_thread(launch, None))
def serve():
    while True:
        must(acl.rt.process_report(1000))
        if ready:
            say("busy")
            ready.clear()
            while True:
                must(acl.rt.process_report(1000))
rounds(serve, {rounds})
os._exit(0)
""")
        for _ in range(rounds):
            self.assertTrue(program.until("busy"), program.said)
            program.process.send_signal(signal.SIGINT)
            self.assertTrue(program.until("caught"), program.said)
        self.assertEqual(program.end()[::2], (0, ""))

    def test_between_two_callbacks(self):
        """Python runs no handler in a function of C; many such callbacks may run in one call."""
        code, said, err = self.program("""
import _thread
must(acl.rt.subscribe_report(me, stream))
ran = []
for fn, argument in ((ran.append, 1), (_thread.interrupt_main, signal.SIGINT), (ran.append, 2)):
    must(acl.rt.launch_callback(fn, argument, 0, stream))
must(acl.rt.synchronize_stream(stream))
try:
    acl.rt.process_report(-1)
except KeyboardInterrupt:
    say(str(ran))
must(acl.rt.process_report(-1))
say(str(ran))
""").end()
        self.assertEqual((code, said, err), (0, ["[1]", "[1, 2]"], ""))

    def test_what_a_callback_raises(self):
        """KeyboardInterrupt and SystemExit end the call in the main thread; the callbacks behind it
        stay for the next call."""
        code, said, err = self.program("""
must(acl.rt.subscribe_report(me, stream))
def stop(what):
    raise what
for what in KeyboardInterrupt(), SystemExit(3), "last":
    must(acl.rt.launch_callback(stop if what != "last" else say, what, 0, stream))
must(acl.rt.synchronize_stream(stream))
for _ in range(2):
    try:
        acl.rt.process_report(-1)
    except BaseException as e:
        say(type(e).__name__)
must(acl.rt.process_report(-1))
""").end()
        self.assertEqual((code, said, err), (0, ["KeyboardInterrupt", "SystemExit", "last"], ""))

    def test_unhandled(self):
        program = self.program("hold(stream)\nsay('waits')\nacl.rt.synchronize_stream(stream)")
        self.interrupt(program)
        code, _, err = program.end()
        self.assertEqual(code, -signal.SIGINT)
        self.assertIn("KeyboardInterrupt", err)

    def test_a_handler_that_exits(self):
        program = self.program("""
signal.signal(signal.SIGTERM, lambda *_: sys.exit(5))
hold(stream)
say("waits")
acl.rt.synchronize_stream(stream)
""")
        self.interrupt(program, signal.SIGTERM)
        self.assertEqual(program.end()[::2], (5, ""))

    def test_a_handler_that_returns(self):
        """It runs while the call waits, may call the library, and the call goes on: also where the
        library holds a lock."""
        for before, call in (("", "must(acl.rt.synchronize_stream(stream))"),
                             ("", "must(acl.rt.destroy_stream(stream))"),
                             ("",
                              "for _ in range(1100): must(acl.npud.launch_delay(0, 0, stream))"),
                             ("must(acl.rt.subscribe_report(me, stream))",
                              "must(acl.rt.launch_callback(say, 'x', 0, stream)); "
                              "must(acl.rt.process_report(-1))")):
            with self.subTest(call):
                program = self.program(f"""
count = []
def handler(*_):
    count.append(1)
    say("waits")
    if len(count) == 3:
        must(acl.rt.record_event(held, other))
signal.signal(signal.SIGINT, handler)
{before}
hold(stream)
say("waits")
{call}
say("done")
os._exit(len(count))
""")
                for _ in range(3):
                    self.interrupt(program)
                self.assertTrue(program.until("done"), program.said)
                self.assertEqual(program.end()[::2], (3, ""))

    def test_time_limits_hold(self):
        """Signals that are handled do not prolong a wait."""
        program = self.program("""
signal.signal(signal.SIGALRM, lambda *_: None)
signal.setitimer(signal.ITIMER_REAL, 0.01, 0.01)
hold(stream)
assert acl.rt.synchronize_stream_with_timeout(stream, 300) == 507046
os._exit(0)
""")
        self.assertEqual(program.end()[::2], (0, ""))

    def test_destroyed_by_force(self):
        """An interrupted destroy_stream has destroyed it, and what was queued is gone."""
        program = self.program("""
must(acl.rt.subscribe_report(me, stream))
hold(stream)
must(acl.rt.launch_callback(say, "never", 1, stream))
late = must(acl.rt.create_event_ex_with_flag(1))
must(acl.rt.record_event(late, stream))
rounds(lambda: acl.rt.destroy_stream(stream), 1)
assert acl.rt.destroy_stream(stream) == 107017
assert acl.rt.stream_query(stream)[1] == 107017
must(acl.rt.synchronize_event_with_timeout(late, 10000))
must(acl.rt.reset_device(0))
must(acl.finalize())
""")
        self.interrupt(program)
        self.assertEqual(program.end(), (0, ["waits", "caught"], ""))

    def test_in_a_forked_child(self):
        """The thread that forked is the main thread of the child."""
        program = self.program("""
def work():
    acl.rt.get_device()
    if os.fork() == 0:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        must(acl.init())
        must(acl.rt.set_device(0))
        own = must(acl.rt.create_stream())
        must(acl.rt.stream_wait_event(own, must(acl.rt.create_event_with_flag(1))))
        try:
            os.write(1, b"%d\\nwaits\\n" % os.getpid())
            acl.rt.synchronize_stream(own)
        except KeyboardInterrupt:
            os._exit(9)
        os._exit(1)
    say(str(os.waitstatus_to_exitcode(os.wait()[1])))
thread = threading.Thread(target=work)
thread.start()
thread.join()
os._exit(0)
""")
        self.assertTrue(program.until("waits"), program.said)
        os.kill(int(program.said[-2]), signal.SIGINT)
        self.assertEqual(program.end()[1][-1], "9")


if __name__ == "__main__":
    main()
