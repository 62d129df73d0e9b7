"""The operators of libopapi against numpy: random types, shapes, views and numbers. All of the
storage is compared, with what lies between the elements. NPUD_SEED and NPUD_ROUNDS make other
cases, or more."""
import contextlib
import ctypes
import os

import acl
import numpy
from support import TO_DEVICE, TO_HOST, DeviceTest, bindir, main

SEED = int(os.environ.get("NPUD_SEED", "1"))
ROUNDS = int(os.environ.get("NPUD_ROUNDS", "120"))
FLOAT, HALF, INT8, INT32, UINT8, INT16, INT64, DOUBLE, BOOL, BF16 = 0, 1, 2, 3, 4, 6, 9, 11, 12, 27
ND = 2  # a format
INVALID = 161002

# How the elements of each type are stored: those of BF16 as their bits.
STORED = {FLOAT: "f4", HALF: "f2", INT8: "i1", INT32: "i4", UINT8: "u1", INT16: "i2", INT64: "i8",
          DOUBLE: "f8", BOOL: "?", BF16: "u2"}
FLOATING = (FLOAT, HALF, DOUBLE, BF16)
NUMBERS = (0, 1, -1, 0.5, 3, 1 / 3, 127, 128, 255, 32767, 65504, 65519.99, 65520, 2**24 + 1,
           2**31 - 1, 2**53 + 1, 2**62 + 2**54 + 1, 2**60 + 2**36 + 1, 3e38, 3.4e38, 1e-38, 1e-45,
           6e-8, 2.9e-8, 1 + 2**-11 + 2**-40, 1 + 2**-8 + 2**-40, 1.7e308, 5e-324, -0.0)
CREATE = [ctypes.c_void_p, ctypes.c_uint64, ctypes.c_int, ctypes.c_void_p, ctypes.c_int64,
          ctypes.c_int, ctypes.c_void_p, ctypes.c_uint64, ctypes.c_void_p]

library = ctypes.CDLL(os.path.join(bindir(), "toolkit", "libopapi.so"))
library.aclCreateTensor.argtypes = CREATE
library.aclCreateTensor.restype = library.aclCreateScalar.restype = ctypes.c_void_p
numpy.seterr(all="ignore")


def floating(kind):
    return kind in FLOATING


def numbers_of(kind, stored):
    """As double, or as int64: what each is exactly."""
    if kind == BF16:
        bits = numpy.left_shift(stored, 16, dtype="u4", casting="unsafe")
        return numpy.asarray(bits, "u4").reshape(-1).view("f4").reshape(stored.shape).astype("f8")
    return stored.astype("f8" if floating(kind) else "i8")


def stored_as(kind, numbers):
    """Doubles or int64 become elements, rounded once."""
    if kind != BF16:
        return numbers.astype(STORED[kind])
    if numbers.dtype == "i8":  # what is below bit 32 of a large one matters only as not 0
        sticky = (numbers >> 32 | (numbers & 0xffffffff != 0)) << 32
        numbers = numpy.where((numbers >> 48) + 1 >> 1, sticky, numbers).astype("f8")
    # Likewise, for a double: round to odd, and then to even.
    near = numbers.astype("f4")
    bits = near.view("u4").astype("i8")
    below = bits - (abs(near.astype("f8")) > abs(numbers)) | 1
    bits = numpy.where((near == numbers) | numpy.isnan(near), bits, below)
    return numpy.where(numpy.isnan(near), 0x7fc0,
                       bits + 0x7fff + (bits >> 16 & 1) >> 16).astype("u2")


def converted(kind, numbers):
    """What the numbers are when they have become numbers of this type."""
    return numbers_of(kind, stored_as(kind, numbers))


def promoted(a, b):
    def rank(kind):
        return (2 if floating(kind) else kind != BOOL, numpy.dtype(STORED[kind]).itemsize)

    if a != b and rank(a) == rank(b):
        return FLOAT if floating(a) else INT16
    return max(a, b, key=rank)


def promoted_by_scalar(tensor, scalar):
    classes = [2 if floating(kind) else kind != BOOL for kind in (tensor, scalar)]
    return tensor if classes[1] <= classes[0] else FLOAT if floating(scalar) else scalar


def converts(a, b):
    return floating(b) or (not floating(a) and (a == BOOL or b != BOOL))


class Tensor:
    """A view of a storage, here (`view` of `storage`) and on the device."""

    def __init__(self, test, kind, shape, values=None, distinct=True):
        self.test, self.kind, self.shape = test, kind, tuple(shape)
        self.lay_out(test.rng, distinct)
        self.storage = test.random_numbers(kind, self.size) if values is None else values(self.size)
        self.address = test.ok(acl.rt.malloc(self.storage.nbytes, 0))
        test.stack.callback(acl.rt.free, self.address)
        test.ok(acl.rt.memcpy(self.address, self.storage.nbytes, self.storage.ctypes.data,
                              self.storage.nbytes, TO_DEVICE))
        self.view = self.view_of(self.storage)
        self.handle = self.make()

    def lay_out(self, rng, distinct):
        """Dimensions in any order, with gaps; or some of them repeated."""
        self.offset, step = int(rng.integers(0, 4)), 1
        self.strides = [0] * len(self.shape)
        plain = rng.random() < 0.3
        order = range(len(self.shape))[::-1] if plain else rng.permutation(len(self.shape))
        for i in order:
            step *= 1 if plain else int(rng.choice([1, 1, 1, 2, 3]))
            self.strides[i] = step
            if not distinct and rng.random() < 0.2:
                self.strides[i] = int(rng.choice([0, 1]))
            step *= max(self.shape[i], 1)
        self.size = self.offset + 1 + sum((n - 1) * s for n, s in zip(self.shape, self.strides)
                                          if n > 0) + int(rng.integers(0, 3))

    def view_of(self, storage):
        bytes_of = [s * storage.itemsize for s in self.strides]
        return numpy.lib.stride_tricks.as_strided(storage[self.offset:], self.shape, bytes_of)

    def make(self):
        def array(*n):
            return (ctypes.c_int64 * len(n))(*n)

        handle = library.aclCreateTensor(array(*self.shape), len(self.shape), self.kind,
                                         array(*self.strides), self.offset, ND, array(self.size), 1,
                                         self.address)
        self.test.assertTrue(handle, acl.get_recent_err_msg())
        self.test.stack.callback(library.aclDestroyTensor, ctypes.c_void_p(handle))
        return ctypes.c_void_p(handle)

    def numbers(self):
        return numbers_of(self.kind, self.view)

    def storage_now(self):
        now = self.storage.copy()
        self.test.ok(acl.rt.memcpy(now.ctypes.data, now.nbytes, self.address, now.nbytes, TO_HOST))
        return now

    def expect_near(self, numbers, more=0):
        """The same, within a step of the type, and `more`."""
        bits, least = {FLOAT: (23, -149), HALF: (10, -24), BF16: (7, -133),
                       DOUBLE: (42, -1074)}[self.kind]
        self.expect(numbers, numpy.ldexp(abs(numbers), -bits) + 2.0**least + more)

    def expect(self, numbers, tolerance=None):
        """That the elements are these, and that the rest is as it was."""
        now, then = self.storage_now(), self.storage.copy()
        result = numbers_of(self.kind, self.view_of(now))
        wanted = numpy.broadcast_to(numbers_of(self.kind, stored_as(self.kind, numbers)),
                                    self.shape)
        same = (result == wanted) & (numpy.signbit(result) == numpy.signbit(wanted))
        if tolerance is not None:
            same |= abs(result - wanted) <= tolerance
        same |= numpy.isnan(result) & numpy.isnan(wanted)
        if not same.all():
            at = tuple(numpy.argwhere(~same)[0])
            self.test.fail(f"at {at} is {result[at]!r}, not {wanted[at]!r}")
        self.view_of(now)[...] = self.view_of(then)[...]
        self.test.assertEqual(now.tobytes(), then.tobytes(), "beside the elements")


class Operators(DeviceTest):
    def rounds(self, body, share=1.0):
        """body() as often as asked, each from a seed that a failure names."""
        for i in range(int(ROUNDS * share)):
            self.rng = numpy.random.default_rng([SEED, i, *self.id().encode()])
            with self.subTest(seed=SEED, round=i), contextlib.ExitStack() as self.stack:
                body()

    def random_numbers(self, kind, n):
        rng = self.rng
        if kind == BOOL:
            return rng.random(n) < 0.5
        which = rng.random()
        if which < 0.3:  # any bits
            raw = rng.bytes(n * numpy.dtype(STORED[kind]).itemsize)
            return numpy.frombuffer(raw, STORED[kind]).copy()
        if which < 0.6:
            chosen = rng.choice(NUMBERS, n) * rng.choice([1, -1], n)
            if floating(kind):
                chosen = numpy.where(rng.random(n) < 0.1,
                                     rng.choice([numpy.inf, -numpy.inf, numpy.nan], n), chosen)
            else:
                chosen = numpy.array([int(x) & (2**63 - 1) for x in chosen], "i8")
            return stored_as(kind, chosen)
        if floating(kind):
            return stored_as(kind, rng.standard_normal(n) * 2.0**rng.integers(-4, 12))
        return rng.integers(-99, 100, n).astype(STORED[kind])

    def scalar(self, kind):
        """A handle, and the number."""
        value = self.random_numbers(kind, 1)
        handle = library.aclCreateScalar(ctypes.c_void_p(value.ctypes.data), kind)
        self.assertTrue(handle, acl.get_recent_err_msg())
        self.stack.callback(library.aclDestroyScalar, ctypes.c_void_p(handle))
        return ctypes.c_void_p(handle), numbers_of(kind, value)[0]

    def prepare(self, name, *args):
        size, executor = ctypes.c_uint64(77), ctypes.c_void_p()
        code = getattr(library, name + "GetWorkspaceSize")(*args, ctypes.byref(size),
                                                           ctypes.byref(executor))
        return code, executor

    def launch(self, name, *args):
        code, executor = self.prepare(name, *args)
        self.assertEqual(code, 0, acl.get_recent_err_msg())
        code = getattr(library, name)(None, ctypes.c_uint64(0), executor,
                                      ctypes.c_void_p(self.stream))
        self.assertEqual(code, 0, acl.get_recent_err_msg())
        self.ok(acl.rt.synchronize_stream(self.stream))

    def shape(self, most=8, empty=True):
        dims = int(self.rng.integers(0, most + 1))
        sizes = self.rng.integers(0 if empty and self.rng.random() < 0.1 else 1, 5 if dims > 4
                                  else 9, dims).tolist()
        if dims and self.rng.random() < 0.1:
            sizes[int(self.rng.integers(0, dims))] = int(self.rng.integers(500, 1100))
        while numpy.prod(sizes) > 40000:
            sizes[int(numpy.argmax(sizes))] //= 2
        return sizes

    def narrowed(self, shape):
        """A shape that is broadcast to this one."""
        cut = int(self.rng.integers(0, len(shape) + 1)) if self.rng.random() < 0.3 else 0
        return [1 if self.rng.random() < 0.2 else n for n in shape[cut:]]

    def elementwise(self):
        add, in_place, by_scalar = (self.rng.integers(0, 2, 3) == 1).tolist()
        name = "aclnn" + "Inplace" * in_place + ("Add" if add else "Mul") + "s" * by_scalar
        kinds = [int(k) for k in self.rng.choice(list(STORED), 4)]
        shape = self.shape()
        shapes = [shape if in_place or by_scalar else self.narrowed(shape), self.narrowed(shape)]
        out_shape = shapes[0] if by_scalar else numpy.broadcast_shapes(*shapes)
        kind = (promoted_by_scalar if by_scalar else promoted)(*kinds[:2])
        if in_place:
            kinds[3] = kinds[0]
        elif self.rng.random() < 0.8:  # most should be computed
            kinds[2:] = [kind if self.rng.random() < 0.5 else FLOAT if floating(kind) else kind
                         for _ in "12"]
        alike = not in_place and self.rng.random() < 0.1
        if alike:  # out is self
            kinds[3], shapes[0] = kinds[0], out_shape
        fits = (not add or converts(kinds[2], kind)) and converts(kind, kinds[3])
        first = Tensor(self, kinds[0], shapes[0], distinct=in_place or alike)
        if by_scalar:
            other, y = self.scalar(kinds[1])
        else:
            tensor = Tensor(self, kinds[1], shapes[1], distinct=False)
            other, y = tensor.handle, tensor.numbers()
        alpha, factor = self.scalar(kinds[2]) if add else (None, 1)
        out = first if in_place or alike else Tensor(self, kinds[3], out_shape)
        args = [first.handle, other] + [alpha] * bool(add) + [out.handle] * (not in_place)
        if not fits:
            code, executor = self.prepare(name, *args)
            self.assertEqual((code, executor.value), (INVALID, None))
            self.assertIn("does not convert to", acl.get_recent_err_msg())
            return
        x = first.numbers()
        if floating(kind):
            x, y = converted(kind, x), converted(kind, numpy.asarray(y))
            factor = float(factor)
        result = x + factor * y if add else x * y
        self.launch(name, *args)
        out.expect(converted(kind, result))

    def test_elementwise(self):
        self.rounds(self.elementwise)

    def test_rounded_once(self):
        """What lies just above the middle is rounded up, and not to even by way of the middle."""
        for kind, to, number, wanted in (
                (DOUBLE, HALF, 1 + 2**-11 + 2**-40, 1 + 2**-10),
                (DOUBLE, HALF, -(2**-25 + 2**-60), -2**-24),
                (DOUBLE, BF16, 1 + 2**-8 + 2**-40, 1 + 2**-7),
                (INT64, BF16, -(2**62 + 2**54 + 1), -(2**62 + 2**55)),
                (INT64, FLOAT, 2**60 + 2**36 + 1, 2**60 + 2**37)):
            self.rng = numpy.random.default_rng(SEED)
            by = to if kind == INT64 else kind
            numbers = numpy.array(number, STORED[kind])
            one = stored_as(by, numpy.ones(1))
            with self.subTest(kind=kind, to=to), contextlib.ExitStack() as self.stack:
                x = Tensor(self, kind, [3], numbers.repeat)
                y = Tensor(self, by, [3], one.repeat)
                out = Tensor(self, to, [3])
                self.launch("aclnnMul", x.handle, y.handle, out.handle)
                out.expect(numpy.array([float(wanted)] * 3))

    def softmax(self):
        kinds = [int(k) for k in self.rng.choice(FLOATING, 2)]
        shape = self.shape()
        alike = self.rng.random() < 0.2
        first = Tensor(self, kinds[0], shape, distinct=alike)
        out = first if alike else Tensor(self, kinds[1], shape)
        dim = int(self.rng.integers(-max(len(shape), 1), max(len(shape), 1)))
        x = first.numbers().astype("g")
        if shape and 0 not in shape:
            x = numpy.exp(x - x.max(axis=dim, keepdims=True))
            x /= x.sum(axis=dim, keepdims=True)
        elif not shape:
            x = numpy.where(numpy.isfinite(x), 1, numpy.nan)
        self.launch("aclnnSoftmax", first.handle, ctypes.c_int64(dim), out.handle)
        out.expect_near(x.astype("f8"))

    def test_softmax(self):
        self.rounds(self.softmax, 0.5)

    def matmul(self):
        rng = self.rng
        kind = int(rng.choice([FLOAT, HALF, BF16]))
        kinds = [kind, kind, int(rng.choice([FLOAT, HALF, BF16]))]
        if kind != BF16 and rng.random() < 0.2:
            kinds[int(rng.integers(0, 2))] = FLOAT if kind == HALF else HALF
        most = 200 if rng.random() < 0.1 else 9
        m, k, n = (int(x) for x in rng.integers(0 if rng.random() < 0.1 else 1, most, 3))
        batch = rng.integers(1, 4, int(rng.integers(0, 5)) if rng.random() < 0.5 else 0).tolist()
        shapes = [self.narrowed(batch) + [m, k], self.narrowed(batch) + [k, n]]
        for i in 0, 1:
            if rng.random() < 0.15:
                shapes[i] = [k]
        exact = rng.random() < 0.5

        def values(size):
            if exact:
                return rng.integers(-8, 9, size).astype("f8")
            return numpy.where(rng.random(size) < 0.002, rng.choice([numpy.inf, numpy.nan], size),
                               rng.standard_normal(size))

        tensors = [Tensor(self, t, s, lambda size, t=t: stored_as(t, values(size)), distinct=False)
                   for t, s in zip(kinds, shapes)]
        x, y = (t.numbers() for t in tensors)
        mode = int(rng.choice([0, 1, 2, 3]))
        refused = len(x.shape) + len(y.shape) > 2 and (
            mode == 2 and kind == BF16 or mode == 3 and FLOAT not in kinds[:2])
        if mode == 2 and kind != BF16 and len(x.shape) + len(y.shape) > 2:
            x, y = converted(HALF, x), converted(HALF, y)
        result = numpy.matmul(x, y)
        out_shape = result.shape if result.shape or rng.random() < 0.5 else (1,)
        out = Tensor(self, kinds[2], out_shape)
        args = [t.handle for t in tensors] + [out.handle, ctypes.c_int8(mode)]
        if refused:
            self.assertEqual(self.prepare("aclnnMatmul", *args)[0], INVALID)
            self.assertIn("cubeMathType", acl.get_recent_err_msg())
            return
        self.launch("aclnnMatmul", *args)
        if exact:
            out.expect(converted(FLOAT, result + 0.0))
        else:
            out.expect_near(result, (k + 1) * 2.0**-24 * numpy.matmul(abs(x), abs(y)))

    def test_matmul(self):
        self.rounds(self.matmul, 0.5)


if __name__ == "__main__":
    main()
