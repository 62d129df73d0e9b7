"""What the tests share: a device that is set and reset, streams that are held, and threads. What
hangs is ended after LIMIT seconds, with the stacks of all threads."""
import _thread
import ctypes
import faulthandler
import os
import sys
import unittest

import acl

SYNC, TIME_LINE, IPC = 0x1, 0x8, 0x40  # flags of events
HOST, TO_DEVICE, TO_HOST, DEFAULT = 0, 1, 2, 4  # kinds of copies
LIMIT = 600  # seconds: a guard against hanging; nothing is expected to take that long

# Whether npud runs with sim.strict=yes: tests/run/mode.sh.
STRICT = "NPUD_STRICT" in os.environ
readable = unittest.skipIf(STRICT, "device memory cannot be read in place")

EVENT_SYNC_TIMEOUT = 507047
STREAM_SYNC_TIMEOUT = 507046
INVALID_HANDLE = 107017

# What acl.h calls a failed kernel.
KERNEL_FAILED = 507015


def ok(test, result):
    """The value of a call that must succeed: of ret, or of (value, ret)."""
    if not isinstance(result, tuple):
        test.assertEqual(result, 0, acl.get_recent_err_msg())
        return None
    test.assertEqual(result[-1], 0, acl.get_recent_err_msg())
    return result[0] if len(result) == 2 else result[:-1]


class DeviceTest(unittest.TestCase):
    """Device 0 is set, and self.stream and self.other are streams of its context."""

    def setUp(self):
        self.ok(acl.rt.set_device(0))
        self.addCleanup(acl.rt.reset_device_force, 0)
        self.context = self.ok(acl.rt.get_context())
        self.stream = self.ok(acl.rt.create_stream())
        self.other = self.ok(acl.rt.create_stream())
        # What a failed test has left in them would keep the reset waiting.
        for stream in (self.stream, self.other):
            self.addCleanup(acl.rt.destroy_stream_force, stream)

    def ok(self, result):
        return ok(self, result)

    def get(self, address, size):
        """The bytes at any address."""
        data = ctypes.create_string_buffer(size)
        self.ok(acl.rt.memcpy(ctypes.addressof(data), size, address, size, DEFAULT))
        return data.raw

    def put(self, address, data):
        self.ok(acl.rt.memcpy(address, len(data), acl.util.bytes_to_ptr(data), len(data), DEFAULT))

    def event(self, flags=SYNC | TIME_LINE):
        event = self.ok(acl.rt.create_event_ex_with_flag(flags))
        self.addCleanup(acl.rt.destroy_event, event)
        return event

    def gate(self, stream=None):
        """Holds a stream, or else self.stream, until open_gate(): what is queued behind it is not
        executed."""
        gate = self.ok(acl.rt.create_event_with_flag(SYNC))
        self.addCleanup(acl.rt.destroy_event, gate)
        self.ok(acl.rt.stream_wait_event(self.stream if stream is None else stream, gate))
        return gate

    def open_gate(self, gate, stream=None):
        """From a stream that is not held itself, or else from self.other."""
        self.ok(acl.rt.record_event(gate, self.other if stream is None else stream))

    def while_in(self, call, then):
        """
        Runs call() in a thread and then() in this one, while the other is in a part of call() that
        has given the GIL away; joins, and returns what call() did. No thread is made to give it
        away otherwise: the switch interval is an hour. A call() that blocks with the GIL held hangs
        all threads.
        """
        begun, ended, result = _thread.allocate_lock(), _thread.allocate_lock(), []
        begun.acquire()
        ended.acquire()

        def run():
            try:
                context = acl.rt.set_context(self.context)
                begun.release()
                result.append(call() if context == 0 else context)
            finally:
                ended.release()

        interval = sys.getswitchinterval()
        sys.setswitchinterval(3600)
        try:
            _thread.start_new_thread(run, ())
            begun.acquire()
            then()
        finally:
            sys.setswitchinterval(interval)
        ended.acquire()
        return result[0]


def c_library():
    """libaclclient, for what Python has no name for."""
    return ctypes.CDLL("libaclclient.so.1")


# A part of the library that is not there yet: its tests are skipped, and run as soon as it is.
HAS_EXCEPTIONS = c_library().aclrtSetExceptionInfoCallback(None) == 0
HAS_NOTIFIES = c_library().aclrtDestroyNotify(None) != 207000


def main():
    """Runs the tests of the file that calls this, one line per test, as tests/run-all.sh counts
    them."""

    class Result(unittest.TestResult):
        def addSuccess(self, test):
            print("ok", test.id(), flush=True)

        def addSkip(self, test, reason):
            print("skipped", test.id(), reason, flush=True)

        def addSubTest(self, test, subtest, error):
            super().addSubTest(test, subtest, error)
            if error is not None:
                self.say(subtest, self.failures + self.errors)

        def addFailure(self, test, error):
            super().addFailure(test, error)
            self.say(test, self.failures)

        def addError(self, test, error):
            super().addError(test, error)
            self.say(test, self.errors)

        def say(self, test, results):
            print("not ok", test.id(), flush=True)
            print(results[-1][1], flush=True)

    faulthandler.dump_traceback_later(LIMIT, exit=True)
    suite = unittest.defaultTestLoader.loadTestsFromModule(sys.modules["__main__"])
    if len(sys.argv) > 1:
        suite = unittest.defaultTestLoader.loadTestsFromNames(sys.argv[1:], sys.modules["__main__"])
    result = Result()
    suite.run(result)
    sys.exit(0 if result.wasSuccessful() else 1)


def bindir():
    return os.environ["NPUD_BINDIR"]
