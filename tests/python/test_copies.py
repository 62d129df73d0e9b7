"""Copies, fills and reductions against numpy: a random program on one stream, over memory of every
kind, and a model of the memory in arrays. NPUD_SEED and NPUD_ROUNDS make other programs, or more.
"""
import mmap
import os

import acl
import numpy
from support import DEFAULT, TO_HOST, DeviceTest, main

SEED = int(os.environ.get("NPUD_SEED", "1"))
ROUNDS = int(os.environ.get("NPUD_ROUNDS", "60"))
SIZE = 3 << 20
SUM, MAX, MIN, EQUAL = 10, 11, 12, 13
FLOAT, HALF, INT8, INT32, UINT8, INT16, UINT16, UINT32, BF16, INT4 = 0, 1, 2, 3, 4, 6, 7, 8, 27, 29
STORED = {FLOAT: "f4", HALF: "f2", INT8: "i1", INT32: "i4", UINT8: "u1", INT16: "i2", UINT16: "u2",
          UINT32: "u4"}
numpy.seterr(all="ignore")


def reduced(kind, a, b):
    if kind == SUM:
        return a + b
    if kind == EQUAL:
        return (a == b).astype(a.dtype)
    # Of two zeros, either: which one is no part of the promise.
    return numpy.maximum(a, b) if kind == MAX else numpy.minimum(a, b)


def single_of(bits):
    return (bits.astype("u4") << 16).view("f4")


def reduced_bf16(kind, a, b):
    """Both are bits. A sum in single precision is one step from the sum: bits + half - 1 + odd."""
    bits = reduced(kind, single_of(a), single_of(b)).view("u4").astype("u8")
    nan = bits & 0x7fffffff > 0x7f800000
    return numpy.where(nan, 0x7fc0, bits + 0x7fff + (bits >> 16 & 1) >> 16).astype("u2")


def reduced_int4(kind, a, b):
    """Both are bytes."""
    def number(half):
        return (half.astype("i2") & 15 ^ 8) - 8

    low, high = (reduced(kind, number(a >> s), number(b >> s)) & 15 for s in (0, 4))
    return (low | high << 4).astype("u1")


class Ground:
    """Memory, and what should be there."""

    def __init__(self, name, address, reach):
        self.name, self.address, self.reach = name, address, reach
        self.model = numpy.zeros(SIZE, "u1")


class Copies(DeviceTest):
    def setUp(self):
        super().setUp()
        self.kept = [numpy.frombuffer(mmap.mmap(-1, SIZE), "u1") for _ in "12"]
        pinned = self.ok(acl.rt.malloc_host(SIZE))
        self.addCleanup(acl.rt.free_host, pinned)
        self.grounds = [Ground("pinned", pinned, "host")]
        self.grounds.append(Ground("pageable", self.kept[0].ctypes.data, "host"))
        registered = self.kept[1].ctypes.data
        self.ok(acl.rt.host_register(registered, SIZE, 0))
        self.addCleanup(acl.rt.host_unregister, registered)
        self.grounds.append(Ground("registered", registered, "host"))
        for name in ("device", "another"):
            address = self.ok(acl.rt.malloc(SIZE, 0))
            self.addCleanup(acl.rt.free, address)
            self.grounds.append(Ground(name, address, "device"))
        for ground in self.grounds:
            self.ok(acl.rt.memset(ground.address, SIZE, 0, SIZE))

    def pick(self, *reaches):
        chosen = [g for g in self.grounds if not reaches or g.reach in reaches]
        return chosen[int(self.rng.integers(0, len(chosen)))]

    def pick_size(self):
        most = [100, 5000, 300000][int(self.rng.integers(0, 3))]
        return int(self.rng.integers(1, most))

    def pick_span(self, size, half, step=1):
        """Where `size` bytes begin, in the lower or the upper half: what is copied is apart."""
        first = int(self.rng.integers(0, SIZE // 2 - size)) // step * step
        return first + half * (SIZE // 2)

    def pick_pair(self):
        """Two grounds, one at least a device's."""
        pair = [self.pick(), self.pick("device")]
        self.rng.shuffle(pair)
        return pair

    def wait(self):
        self.ok(acl.rt.synchronize_stream(self.stream))

    def copy(self):
        to, from_ = self.pick_pair()
        n = self.pick_size()
        d, s = self.pick_span(n, 0), self.pick_span(n, 1)
        args = (to.address + d, n + int(self.rng.integers(0, 9)), from_.address + s, n, DEFAULT)
        if self.rng.random() < 0.5:
            self.ok(acl.rt.memcpy_async(*args, self.stream))
        else:
            self.wait()
            self.ok(acl.rt.memcpy(*args))
        to.model[d:d + n] = from_.model[s:s + n]

    def copy_rows(self):
        to, from_ = self.pick_pair()
        width, height = int(self.rng.integers(1, 700)), int(self.rng.integers(1, 40))
        dpitch, spitch = (width + int(x) for x in self.rng.integers(0, [9, 9]))
        d, s = self.pick_span(dpitch * height, 0), self.pick_span(spitch * height, 1)
        args = (to.address + d, dpitch, from_.address + s, spitch, width, height, DEFAULT)
        if self.rng.random() < 0.5 or to.reach == from_.reach:
            self.ok(acl.rt.memcpy2d_async(*args, self.stream))
        else:
            self.wait()
            self.ok(acl.rt.memcpy2d(*args))
        rows = [g.model[at:at + pitch * height].reshape(height, pitch)[:, :width]
                for g, at, pitch in ((to, d, dpitch), (from_, s, spitch))]
        rows[0][...] = rows[1]

    def fill(self):
        ground, n = self.pick(), self.pick_size()
        at, more = self.pick_span(n, 0), int(self.rng.integers(0, 9))
        value = int(self.rng.integers(-2**31, 2**31))
        if ground.reach == "device" and self.rng.random() < 0.5:
            self.ok(acl.rt.memset_async(ground.address + at, n + more, value, n, self.stream))
        else:
            self.wait()
            self.ok(acl.rt.memset(ground.address + at, n + more, value, n))
        ground.model[at:at + n] = value & 255

    def fill_words(self):
        ground, n = self.pick("device"), self.pick_size() // 4
        at, more = self.pick_span(n * 4, 0, 4), int(self.rng.integers(0, 9))
        value = int(self.rng.integers(0, 2**32))
        if self.rng.random() < 0.5:
            self.ok(acl.rt.memset_d32_async(ground.address + at, n * 4 + more, value, n,
                                            self.stream))
        else:
            self.wait()
            self.ok(acl.rt.memset_d32(ground.address + at, n * 4 + more, value, n))
        ground.model[at:at + n * 4] = numpy.repeat(numpy.array([value], "<u4"), n).view("u1")

    def copy_batch(self):
        """Pieces of one way. Where they go to does not overlap."""
        ways = [{"id": 0, "type": 0}, {"id": 0, "type": 1}]  # host and device
        reaches = ["host", "device"]
        if self.rng.random() < 0.5:
            ways.reverse()
            reaches.reverse()
        count, part = int(self.rng.integers(1, 30)), SIZE // 2 // 32
        pieces = []
        for i in range(count):
            n = int(self.rng.integers(1, part))
            pieces.append((self.pick(reaches[0]), i * part, self.pick(reaches[1]),
                           self.pick_span(n, 1), n))
        args = ([to.address + d for to, d, _, _, n in pieces], [p[4] for p in pieces],
                [from_.address + s for _, _, from_, s, _ in pieces], [p[4] for p in pieces],
                [{"dstLoc": ways[0], "srcLoc": ways[1]}], [0])
        if self.rng.random() < 0.5:
            self.ok(acl.rt.memcpy_batch_async(*args, self.stream))
        else:
            self.wait()
            self.ok(acl.rt.memcpy_batch(*args))
        for to, d, from_, s, n in pieces:
            to.model[d:d + n] = from_.model[s:s + n]

    def reduce(self):
        grounds = [self.grounds[int(i)] for i in self.rng.choice([2, 3, 4], 2)]
        kind = int(self.rng.choice([SUM, MAX, MIN, EQUAL]))
        kinds = [*STORED, BF16] if kind == EQUAL else [*STORED, BF16, INT4]
        element = int(self.rng.choice(kinds))
        n = (self.pick_size() + 3) // 4 * 4
        d, s = self.pick_span(n, 0, 4), self.pick_span(n, 1, 4)
        to, from_ = (g.model[at:at + n] for g, at in zip(grounds, (d, s)))
        self.random_bytes(grounds[1], s, n)
        self.random_bytes(grounds[0], d, n)
        self.ok(acl.rt.reduce_async(grounds[0].address + d, grounds[1].address + s, n, kind,
                                    element, self.stream, 0))
        if element == BF16:
            to[:] = reduced_bf16(kind, to.view("u2"), from_.view("u2")).view("u1")
        elif element == INT4:
            to[:] = reduced_int4(kind, to, from_)
        else:
            a, b = (x.view(STORED[element]) for x in (to, from_))
            to[:] = reduced(kind, a, b).view("u1")
        self.wait()
        self.settle(grounds[0], d, n, "u2" if element == BF16 else STORED.get(element, "u1"),
                    element == BF16)

    def random_bytes(self, ground, at, n):
        """Any bits, or few different ones, so that some are equal."""
        most = 256 if self.rng.random() < 0.7 else 2
        ground.model[at:at + n] = self.rng.integers(0, most, n, dtype="u1")
        self.wait()
        self.ok(acl.rt.memcpy(ground.address + at, n, ground.model.ctypes.data + at, n, DEFAULT))

    def settle(self, ground, at, n, letter, bf16):
        """NaN and zeros have several forms: the model takes over those that are there."""
        model = ground.model[at:at + n]
        now = self.now(ground)[at:at + n]
        if letter[0] == "f" or bf16:
            a, b = (single_of(x.view("u2")) if bf16 else x.view(letter) for x in (model, now))
            alike = (numpy.isnan(a) & numpy.isnan(b)) | ((a == 0) & (b == 0))
            model.view(letter)[alike] = now.view(letter)[alike]

    def now(self, ground):
        data = numpy.empty(SIZE, "u1")
        kind = TO_HOST if ground.reach == "device" else DEFAULT
        self.ok(acl.rt.memcpy(data.ctypes.data, SIZE, ground.address, SIZE, kind))
        return data

    def test_random_programs(self):
        steps = (self.copy, self.copy_rows, self.fill, self.fill_words, self.copy_batch,
                 self.reduce)
        for i in range(ROUNDS):
            self.rng = numpy.random.default_rng([SEED, i])
            done = []
            for _ in range(int(self.rng.integers(1, 12))):
                step = steps[int(self.rng.integers(0, len(steps)))]
                done.append(step.__name__)
                step()
            self.wait()
            for ground in self.grounds:
                wrong = numpy.flatnonzero(self.now(ground) != ground.model)
                self.assertEqual(wrong.size, 0,
                                 f"seed {SEED}, round {i}: {ground.name} from {wrong[:1]} on, "
                                 f"after {done}")


if __name__ == "__main__":
    main()
