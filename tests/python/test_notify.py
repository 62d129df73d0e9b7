"""Notifies in one process and between two."""
import os
import subprocess
import sys
import unittest

import acl
import acl.rt
from support import EVENT_SYNC_TIMEOUT, HAS_NOTIFIES, DeviceTest, main

NO_PID_CHECK = 2
KEY_SIZE = 65

CHILD = """
import acl, acl.rt, sys
assert acl.rt.set_device(1) == 0
pid, ret = acl.rt.device_get_bare_tgid()
assert ret == 0
print(pid, flush=True)
key = sys.stdin.readline().strip()
notify, ret = acl.rt.notify_import_by_key(key, 0)
print(ret, flush=True)
if ret == 0:
    assert acl.rt.record_notify(notify, 0) == 0 and acl.rt.synchronize_stream(0) == 0
    assert acl.rt.destroy_notify(notify) == 0
"""


@unittest.skipUnless(HAS_NOTIFIES, "not in the library yet")
class Notifies(DeviceTest):
    def setUp(self):
        super().setUp()
        self.notify = self.ok(acl.rt.create_notify(0))

    def wait(self):
        """Queue a wait; the event behind it."""
        after = self.event()
        self.ok(acl.rt.wait_and_reset_notify(self.notify, self.stream, 0))
        self.ok(acl.rt.record_event(after, self.stream))
        return after

    def test_record_and_wait(self):
        after = self.wait()
        self.assertEqual(acl.rt.synchronize_event_with_timeout(after, 20), EVENT_SYNC_TIMEOUT)
        self.ok(acl.rt.record_notify(self.notify, self.other))
        self.ok(acl.rt.synchronize_event(after))
        # Reset by the wait: the next one needs a record of its own.
        again = self.wait()
        self.assertEqual(acl.rt.synchronize_event_with_timeout(again, 20), EVENT_SYNC_TIMEOUT)
        self.ok(acl.rt.record_notify(self.notify, self.other))
        self.ok(acl.rt.synchronize_stream(self.stream))

    def test_batch_reset(self):
        self.ok(acl.rt.record_notify(self.notify, self.other))
        self.ok(acl.rt.synchronize_stream(self.other))
        self.ok(acl.rt.notify_batch_reset([self.notify]))
        after = self.wait()
        self.assertEqual(acl.rt.synchronize_event_with_timeout(after, 20), EVENT_SYNC_TIMEOUT)
        self.ok(acl.rt.record_notify(self.notify, self.other))
        self.ok(acl.rt.synchronize_event(after))

    def test_timeout(self):
        self.ok(acl.rt.wait_and_reset_notify(self.notify, self.stream, 1))
        self.assertEqual(acl.rt.synchronize_stream(self.stream), 107020)
        for bad in (-1, 2**32):
            self.assertRaises(TypeError, acl.rt.wait_and_reset_notify, self.notify, self.stream,
                              bad)

    def test_ids_and_handles(self):
        other = self.ok(acl.rt.create_notify(0))
        self.assertNotEqual(self.ok(acl.rt.get_notify_id(other)),
                            self.ok(acl.rt.get_notify_id(self.notify)))
        self.ok(acl.rt.destroy_notify(other))
        self.assertNotEqual(acl.rt.destroy_notify(other), 0)

    def test_keys(self):
        self.assertRaises(ValueError, acl.rt.notify_get_export_key, self.notify, 1024, 0)
        self.assertNotEqual(acl.rt.notify_get_export_key(self.notify, 64, 0)[1], 0)
        key = self.ok(acl.rt.notify_get_export_key(self.notify, KEY_SIZE, 0))
        self.assertIs(type(key), str)
        self.assertEqual(len(key), KEY_SIZE - 1)
        self.assertNotEqual(acl.rt.notify_import_by_key("x" * 64, 0)[1], 0)

    def export(self, flags):
        return self.ok(acl.rt.notify_get_export_key(self.notify, KEY_SIZE, flags))

    def child(self, key, allow):
        """What a child is told that imports the notify and records it."""
        with subprocess.Popen([sys.executable, "-c", CHILD], stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE,
                              text=True, env=os.environ) as child:
            pid = int(child.stdout.readline())
            self.assertEqual(pid, child.pid)
            if allow:
                self.ok(acl.rt.notify_set_import_pid(self.notify, [1, pid]))
            child.stdin.write(key + "\n")
            child.stdin.flush()
            ret = int(child.stdout.readline())
        self.assertEqual(child.returncode, 0)
        return ret

    def test_two_processes(self):
        after = self.wait()
        self.assertEqual(self.child(self.export(NO_PID_CHECK), False), 0)
        self.ok(acl.rt.synchronize_event(after))

    def test_pids_that_may_import(self):
        key = self.export(0)
        self.assertEqual(self.child(key, False), 207006)
        after = self.wait()
        self.assertEqual(self.child(key, True), 0)
        self.ok(acl.rt.synchronize_event(after))


if __name__ == "__main__":
    main()
