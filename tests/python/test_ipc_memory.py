"""Memory that two processes share: by keys, by descriptors, and by shareable handles."""
import os
import subprocess
import sys

import acl
import acl.rt
from support import DeviceTest, main

KEY_SIZE = 65
NO_PID_CHECK = 1
SIZE = 5000
LARGE = 2 << 20
PROP = {"memAttr": 4, "location": {"id": 0, "type": 1}}

# Is told how to import, says its pid and the code of the import, and answers what it finds with
# the same bytes in reverse order.
CHILD = """
import acl, acl.rt, ctypes, os, sys
own = acl.npud.own
assert acl.init() == 0 and acl.rt.set_device(0) == 0
print(acl.rt.device_get_bare_tgid()[0], flush=True)
kind, what = sys.stdin.readline().split()
try:
    if kind == "key":
        imported = own(acl.rt.ipc_mem_import_by_key, what, 0)
    elif kind == "fd":
        imported = own(acl.npud.mem_import_fd, int(what), 0)
    else:
        handle = own(acl.rt.mem_import_from_shareable_handle, int(what), 0)
        address = own(acl.rt.reserve_mem_address, 2 << 20, 0, 0, 0)
        imported = own(acl.rt.map_mem, address, 2 << 20, 0, handle, 0)
except acl.npud.Error as e:
    print(e.ret)
    sys.exit()
def turn_in_place():
    with memoryview(imported) as view:
        view[:4] = bytes(view[:4])[::-1]
        try:
            imported.close()
        except BufferError:
            pass
        else:
            sys.exit("closed under a view")

def turn_by_copies():
    word = ctypes.create_string_buffer(4)
    at = ctypes.addressof(word)
    assert acl.rt.memcpy(at, 4, imported, 4, 2) == 0
    word.raw = word.raw[::-1]
    assert acl.rt.memcpy(imported, 4, at, 4, 1) == 0

with imported:
    turn_by_copies() if "NPUD_STRICT" in os.environ else turn_in_place()
if kind == "shareable":
    address.close()
    handle.close()
print(0)
assert acl.rt.reset_device(0) == 0 and acl.finalize() == 0
"""


class Imports(DeviceTest):
    def child(self, kind, what, allow=None, descriptors=()):
        """Starts one that imports; allow(pid) comes before. The code of its import."""
        with subprocess.Popen([sys.executable, "-c", CHILD], stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE, text=True, pass_fds=descriptors) as child:
            pid = int(child.stdout.readline())
            if allow:
                self.ok(allow(pid))
            child.stdin.write(f"{kind} {what}\n")
            child.stdin.flush()
            ret = int(child.stdout.readline())
        self.assertEqual(child.returncode, 0)
        return ret

    def shared(self, memory, kind, what, **more):
        self.put(memory, b"1234")
        self.assertEqual(self.child(kind, what, **more), 0)
        self.assertEqual(self.get(memory, 4), b"4321")

    def test_keys(self):
        with acl.npud.own(acl.rt.malloc, SIZE, 0) as memory:
            key = self.ok(acl.rt.ipc_mem_get_export_key(memory, SIZE, KEY_SIZE, NO_PID_CHECK))
            self.assertEqual((type(key), len(key)), (str, KEY_SIZE - 1))
            self.shared(memory, "key", key)
            self.ok(acl.rt.ipc_mem_close(key))
            self.assertNotEqual(acl.rt.ipc_mem_close(key), 0)
            self.assertNotEqual(self.child("key", key), 0)

    def test_pids_that_may_import(self):
        with acl.npud.own(acl.rt.malloc, SIZE, 0) as memory:
            key = self.ok(acl.rt.ipc_mem_get_export_key(memory, SIZE, KEY_SIZE, 0))
            self.assertEqual(self.child("key", key), 207006)
            self.shared(memory, "key", key,
                        allow=lambda pid: acl.rt.ipc_mem_set_import_pid(key, [1, pid]))
            self.ok(acl.rt.ipc_mem_close(key))

    def test_bad_keys(self):
        with acl.npud.own(acl.rt.malloc, SIZE, 0) as memory:
            self.assertRaises(ValueError, acl.rt.ipc_mem_get_export_key, memory, SIZE, 1024, 0)
            self.assertNotEqual(acl.rt.ipc_mem_get_export_key(memory, SIZE, 64, 0)[1], 0)
        self.assertEqual(acl.rt.ipc_mem_get_export_key(0, SIZE, KEY_SIZE, 0)[0], "")
        for key in ("", "x" * 64, "x" * 1000):
            self.assertNotEqual(acl.rt.ipc_mem_import_by_key(key, 0)[1], 0)
            self.assertNotEqual(acl.rt.ipc_mem_set_import_pid(key, [1]), 0)
            self.assertNotEqual(acl.rt.ipc_mem_close(key), 0)

    def test_descriptors(self):
        with acl.npud.own(acl.rt.malloc, SIZE, 0) as memory:
            fd = self.ok(acl.npud.mem_export_fd(memory, SIZE, NO_PID_CHECK))
            self.assertFalse(os.get_inheritable(fd))
            self.shared(memory, "fd", fd, descriptors=(fd,))
            self.ok(acl.npud.mem_close_fd(fd))
            os.close(fd)
            self.assertEqual(acl.npud.mem_import_fd(-1, 0)[1], 107000)
            self.assertEqual(acl.npud.mem_close_fd(-1), 107000)
            self.assertNotEqual(acl.npud.mem_export_fd(0, SIZE, 0)[1], 0)

    def test_shareable_handles(self):
        own = acl.npud.own
        with own(acl.rt.malloc_physical, LARGE, PROP, 0) as handle, \
             own(acl.rt.reserve_mem_address, LARGE, 0, 0, 0) as address, \
             own(acl.rt.map_mem, address, LARGE, 0, handle, 0) as mapping:
            shareable = self.ok(acl.rt.mem_export_to_shareable_handle(handle, 0, 0))
            self.assertEqual(self.child("shareable", shareable), 207006)
            self.shared(mapping, "shareable", shareable,
                        allow=lambda pid: acl.rt.mem_set_pid_to_shareable_handle(shareable, [pid]))
        self.assertEqual(acl.rt.mem_export_to_shareable_handle(0, 0, 0), (0, 100000))
        self.assertNotEqual(acl.rt.mem_import_from_shareable_handle(77, 0)[1], 0)
        self.assertNotEqual(acl.rt.mem_set_pid_to_shareable_handle(77, [1]), 0)


if __name__ == "__main__":
    main()
