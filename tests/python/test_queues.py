"""Shared buffers and queues, in one process and between two."""
import ctypes
import subprocess
import sys
import unittest

import acl
import acl.rt
import acl.tdt
from support import DeviceTest, main

NAME, DEPTH = 0, 1  # attributes of queues
MANAGE, DEQUEUE, ENQUEUE = 1, 2, 4  # rights
EMPTY, FULL = 207013, 207014
SRC, DST, STATUS = 0, 1, 2  # parameters of routes
BOUND = 1
FOREVER = -1
own = acl.npud.own


def address(data):
    """Of a bytearray; the array of ctypes keeps it."""
    return ctypes.addressof((ctypes.c_char * len(data)).from_buffer(data))


class Buffers(DeviceTest):
    def check(self, module, *more):
        with own(module.alloc_buf, 1000, *more) as buf:
            data, size = self.ok(module.get_buf_data(buf))
            self.assertEqual(size, 1000)
            self.assertEqual(self.ok(module.get_buf_data_len(buf)), 0)
            self.ok(module.set_buf_data_len(buf, 77))
            self.assertEqual(module.set_buf_data_len(buf, 1001), 107000)
            self.assertEqual(self.ok(module.get_buf_data_len(buf)), 77)
            user, back = bytearray(b"user data"), bytearray(9)
            self.ok(module.set_buf_user_data(buf, address(user), 9, 80))
            self.ok(module.get_buf_user_data(buf, address(back), 9, 80))
            self.assertEqual(back, user)
            self.assertEqual(module.set_buf_user_data(buf, address(user), 9, 90), 100000)
            with own(module.copy_buf_ref, buf) as ref, memoryview(ref) as one:
                one[:3] = b"abc"
                self.assertEqual(acl.util.ptr_to_bytes(data, 3), b"abc")

    def test_buffers(self):
        self.check(acl.tdt, 0)
        self.check(acl.rt)

    def test_chains(self):
        for module, more in ((acl.tdt, (0,)), (acl.rt, ())):
            bufs = [self.ok(module.alloc_buf(10, *more)) for _ in range(3)]
            for buf in bufs[1:]:
                self.ok(module.append_buf_chain(bufs[0], buf))
            self.assertEqual(self.ok(module.get_buf_chain_num(bufs[0])), 3)
            self.assertEqual([self.ok(module.get_buf_from_chain(bufs[0], i)) for i in range(3)],
                             bufs)
            self.assertEqual(module.get_buf_from_chain(bufs[0], 3), (0, 507899))
            self.assertEqual(module.free_buf(bufs[1]), 107000)
            self.ok(module.free_buf(bufs[0]))
            self.assertEqual(module.get_buf_chain_num(bufs[0]), (0, 107000))

    def test_errors(self):
        self.assertEqual(acl.tdt.alloc_buf(0, 0), (0, 107000))
        self.assertEqual(acl.tdt.alloc_buf(1, 9), (0, 100000))
        self.assertEqual(acl.rt.alloc_buf(0), (0, 100000))
        for module in (acl.tdt, acl.rt):
            for function in (module.free_buf, module.get_buf_data, module.get_buf_data_len,
                             module.copy_buf_ref, module.get_buf_chain_num):
                for handle, error in ((0, 100000), (12345, 107000)):
                    result = function(handle)
                    self.assertEqual(result[-1] if isinstance(result, tuple) else result, error)


class Queues(DeviceTest):
    def setUp(self):
        super().setUp()
        self.queue = own(acl.tdt.create_queue, 0)
        self.addCleanup(self.queue.close)

    def message(self, text):
        buf = self.ok(acl.tdt.alloc_buf(100, 0))
        with acl.npud.view(self.ok(acl.tdt.get_buf_data(buf))[0], 100) as view:
            view[:len(text)] = text
        self.ok(acl.tdt.set_buf_data_len(buf, len(text)))
        return buf

    def text(self, buf):
        with own(acl.tdt.copy_buf_ref, buf) as ref, memoryview(ref) as view:
            return bytes(view[:self.ok(acl.tdt.get_buf_data_len(buf))])

    def test_attributes(self):
        with own(acl.tdt.create_queue_attr) as attr:
            self.assertEqual(self.ok(acl.tdt.get_queue_attr(attr, NAME)), "")
            self.assertEqual(self.ok(acl.tdt.get_queue_attr(attr, DEPTH)), 8)
            self.ok(acl.tdt.set_queue_attr(attr, NAME, "images \xe4"))
            self.ok(acl.tdt.set_queue_attr(attr, DEPTH, 2))
            self.assertEqual(self.ok(acl.tdt.get_queue_attr(attr, NAME)), "images \xe4")
            self.assertEqual(self.ok(acl.tdt.get_queue_attr(attr, DEPTH)), 2)
            self.assertEqual(acl.tdt.set_queue_attr(attr, NAME, "x" * 128), 100000)
            self.assertEqual(acl.tdt.set_queue_attr(attr, 2, 5), 100000)
            self.assertEqual(acl.tdt.get_queue_attr(attr, 2), (0, 100000))
            self.assertEqual(acl.tdt.get_queue_attr(0, NAME), (0, 100000))
            for kind, bad, sentence in ((NAME, 5, "a str without NUL"), (NAME, b"x", "a str"),
                                        (NAME, "\udc80", "a str"), (NAME, "a\0b", "a str"),
                                        (DEPTH, "5", "an int"), (DEPTH, None, "an int"),
                                        (DEPTH, 1.5, "an int")):
                with self.assertRaisesRegex(TypeError, r"argument 3 \(value\) must be " + sentence):
                    acl.tdt.set_queue_attr(attr, kind, bad)
            with own(acl.tdt.create_queue, attr) as queue:
                for _ in range(2):
                    self.ok(acl.tdt.enqueue(queue, self.message(b"x"), 0))
                last = self.message(b"x")
                self.assertEqual(acl.tdt.enqueue(queue, last, 0), FULL)
                self.ok(acl.tdt.free_buf(last))
            self.ok(acl.tdt.set_queue_attr(attr, DEPTH, 1))
            self.assertEqual(acl.tdt.create_queue(attr), (0, 107000))
        self.assertEqual(acl.tdt.destroy_queue_attr(0), 100000)

    def test_messages(self):
        sent = self.message(b"one")
        self.ok(acl.tdt.enqueue(self.queue, sent, 0))
        self.assertEqual(acl.tdt.free_buf(sent), 107000)
        with own(acl.tdt.dequeue, self.queue, FOREVER) as buf:
            self.assertEqual(self.text(buf), b"one")
            self.assertEqual(len(memoryview(buf)), 100)
        self.assertEqual(acl.tdt.dequeue(self.queue, 0), (0, EMPTY))
        self.assertEqual(acl.tdt.dequeue(self.queue, 1), (0, EMPTY))
        self.assertEqual(acl.tdt.dequeue(4095, 0), (0, 507899))
        self.assertEqual(acl.tdt.enqueue(self.queue, 0, 0), 100000)

    def test_data(self):
        data, user = bytearray(b"payload"), bytearray(b"user")
        self.ok(acl.tdt.enqueue_data(self.queue, address(data), 7, address(user), 4, 0, 0))
        back, user_back = bytearray(5), bytearray(4)
        self.assertEqual(self.ok(acl.tdt.dequeue_data(self.queue, address(back), 5,
                                                      address(user_back), 4, 0)), 7)
        self.assertEqual((back, user_back), (b"paylo", b"user"))
        self.assertEqual(acl.tdt.dequeue_data(self.queue, address(back), 5, 0, 0, 0), (0, EMPTY))
        self.assertEqual(acl.tdt.enqueue_data(self.queue, 0, 7, 0, 0, 0, 0), 100000)

    def test_the_gil_is_free_while_calls_wait(self):
        buf = self.message(b"late")
        received = self.while_in(
            lambda: acl.tdt.dequeue(self.queue, FOREVER),
            lambda: self.ok(acl.tdt.enqueue(self.queue, buf, 0)))
        self.assertEqual(self.text(self.ok(received)), b"late")
        self.ok(acl.tdt.free_buf(received[0]))
        for _ in range(8):
            self.ok(acl.tdt.enqueue(self.queue, self.message(b"full"), 0))
        self.assertEqual(self.while_in(
            lambda: acl.tdt.enqueue(self.queue, self.message(b"ninth"), FOREVER),
            lambda: self.ok(acl.tdt.free_buf(self.ok(acl.tdt.dequeue(self.queue, FOREVER))))), 0)
        back = bytearray(10)
        for _ in range(8):
            self.ok(acl.tdt.dequeue_data(self.queue, address(back), 10, 0, 0, 0))
        self.assertEqual(back[:5], b"ninth")
        again = bytearray(b"again")
        self.assertEqual(self.while_in(
            lambda: acl.tdt.dequeue_data(self.queue, address(back), 10, 0, 0, FOREVER),
            lambda: self.ok(acl.tdt.enqueue_data(self.queue, address(again), 5, 0, 0, 0, 0))),
            (5, 0))

    def test_rights(self):
        self.assertEqual(self.ok(acl.tdt.attach_queue(self.queue, 0)), MANAGE | DEQUEUE | ENQUEUE)
        self.assertEqual(acl.tdt.attach_queue(self.queue, -2), (0, 107000))
        self.assertEqual(acl.tdt.grant_queue(self.queue, 0, DEQUEUE, 0), 107000)
        self.assertEqual(acl.tdt.grant_queue(self.queue, 1, 8, 0), 107000)
        self.assertEqual(acl.npud.attach_queue_of_user(0, 4096, 0), (0, 0, 107000))

    def test_routes(self):
        with own(acl.tdt.create_queue, 0) as target, \
             own(acl.tdt.create_queue_route, self.queue, target) as route, \
             own(acl.tdt.create_queue_route_list) as routes:
            self.assertEqual([self.ok(acl.tdt.get_queue_route_param(route, which))
                              for which in (SRC, DST, STATUS)],
                             [int(self.queue), int(target), 0])
            self.assertEqual(acl.tdt.get_queue_route_param(route, 3), (0, 100000))
            self.assertEqual(acl.tdt.get_queue_route_num(routes), 0)
            self.ok(acl.tdt.add_queue_route(routes, route))
            self.assertEqual(acl.tdt.get_queue_route_num(routes), 1)
            self.ok(acl.tdt.bind_queue_routes(routes))
            self.ok(acl.tdt.get_queue_route(routes, 0, route))
            self.assertEqual(acl.tdt.get_queue_route(routes, 1, route), 100000)
            self.assertEqual(self.ok(acl.tdt.get_queue_route_param(route, STATUS)), BOUND)
            self.ok(acl.tdt.enqueue(self.queue, self.message(b"routed"), 0))
            with own(acl.tdt.dequeue, target, FOREVER) as buf:
                self.assertEqual(self.text(buf), b"routed")
            with own(acl.tdt.create_queue_route_query_info) as info:
                self.assertEqual(acl.tdt.query_queue_routes(info, routes), 100000)
                self.ok(acl.tdt.set_queue_route_query_info(info, 0, 1))  # by its destination
                self.ok(acl.tdt.set_queue_route_query_info(info, 2, int(target)))
                self.ok(acl.tdt.query_queue_routes(info, routes))
                self.assertEqual(acl.tdt.get_queue_route_num(routes), 1)
            self.ok(acl.tdt.unbind_queue_routes(routes))


CHILD = """
import acl, acl.rt, acl.tdt, sys
def must(result):
    ret = result[-1] if isinstance(result, tuple) else result
    assert ret == 0, (ret, acl.get_recent_err_msg())
    return result[0] if isinstance(result, tuple) else None
own = acl.npud.own
must(acl.init())
print(must(acl.rt.device_get_bare_tgid()), flush=True)
inbound, outbound = (int(word) for word in sys.stdin.readline().split())
assert must(acl.tdt.attach_queue(inbound, -1)) == 2
assert must(acl.tdt.attach_queue(outbound, -1)) == 4
assert acl.tdt.dequeue(outbound, 0) == (0, 207006)
while True:
    with own(acl.tdt.dequeue, inbound, -1) as buf:
        with memoryview(buf) as view:
            view[:] = bytes(view)[::-1]
            last = view[0] == ord("!")
        must(acl.tdt.enqueue(outbound, buf, -1))
        buf.detach()
    if last:
        break
must(acl.finalize())
"""


class TwoProcesses(DeviceTest):
    def test_buffers_there_and_back(self):
        with own(acl.tdt.create_queue, 0) as there, own(acl.tdt.create_queue, 0) as back, \
             subprocess.Popen([sys.executable, "-c", CHILD], stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE, text=True) as child:
            pid = int(child.stdout.readline())
            self.ok(acl.tdt.grant_queue(there, pid, DEQUEUE, 0))
            self.ok(acl.tdt.grant_queue(back, pid, ENQUEUE, 0))
            child.stdin.write(f"{int(there)} {int(back)}\n")
            child.stdin.flush()
            for text in (b"first", b"second", b"last!"):
                with own(acl.tdt.alloc_buf, len(text), 0) as buf:
                    with memoryview(buf) as view:
                        view[:] = text
                    self.ok(acl.tdt.enqueue(there, buf, FOREVER))
                    buf.detach()
                with own(acl.tdt.dequeue, back, FOREVER) as buf, memoryview(buf) as view:
                    self.assertEqual(bytes(view), text[::-1])
        self.assertEqual(child.returncode, 0)


if __name__ == "__main__":
    main()
