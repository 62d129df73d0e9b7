"""Tensors on their way against numpy: through a channel, and into files of dumps. NPUD_SEED and
NPUD_ROUNDS make others, or more."""
import contextlib
import ctypes
import glob
import json
import os
import shutil
import tempfile
import threading

import acl
import numpy
from support import TO_DEVICE, TO_HOST, DeviceTest, c_library, main

SEED = int(os.environ.get("NPUD_SEED", "1"))
ROUNDS = int(os.environ.get("NPUD_ROUNDS", "40"))
TENSOR, END = 0, 1
# Numbers of types, and how they are stored: those that numpy has not, as bytes.
STORED = {0: "f4", 1: "f2", 2: "i1", 3: "i4", 4: "u1", 6: "i2", 7: "u2", 8: "u4", 9: "i8", 10: "u8",
          11: "f8", 12: "?", 16: "c8", 17: "c16", 27: "V2", 33: "V4", 34: "V1"}
PLAIN, BY_POINTER = 0, 1  # kinds of addresses
DIMS_MAX, SHAPE_MAX = 128, 25
own = acl.npud.own

FOLDER = tempfile.mkdtemp()


class TensorInfo(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int), ("size", ctypes.c_size_t), ("format", ctypes.c_int32),
                ("data_type", ctypes.c_int32), ("address", ctypes.c_void_p),
                ("address_type", ctypes.c_int), ("placement", ctypes.c_int),
                ("args_offset", ctypes.c_uint32), ("shape_num", ctypes.c_uint32),
                ("origin_num", ctypes.c_uint32), ("shape", ctypes.c_int64 * SHAPE_MAX),
                ("origin", ctypes.c_int64 * SHAPE_MAX)]


def parts_of(path):
    """Of a dump: pairs of what the line says, and the bytes."""
    with open(path, "rb") as file:
        while line := file.readline():
            head = json.loads(line)
            data = file.read(head["bytes"])
            assert len(data) == head["bytes"] and file.read(1) == b"\n", path
            yield head, data


class Tensors(DeviceTest):
    def rounds(self, body):
        for i in range(ROUNDS):
            self.rng = numpy.random.default_rng([SEED, i, *self.id().encode()])
            with self.subTest(seed=SEED, round=i), contextlib.ExitStack() as self.stack:
                body()

    def array(self, most_dims):
        """A type and an array of it: any bits, of any shape."""
        kind = int(self.rng.choice(list(STORED)))
        dims = int(self.rng.integers(0, 6))
        shape = self.rng.integers(0 if self.rng.random() < 0.1 else 1, 7, dims).tolist()
        if self.rng.random() < 0.1:
            shape = [int(self.rng.integers(1, 400000))]
        if self.rng.random() < 0.1:
            shape += [1] * (most_dims - len(shape))
        item = numpy.dtype(STORED[kind])
        data = self.rng.bytes(int(numpy.prod(shape)) * item.itemsize)
        # numpy has 32 dimensions at most, and a shape may have more.
        return kind, shape, numpy.frombuffer(data, item)

    def on_device(self, array):
        memory = self.stack.enter_context(own(acl.rt.malloc, max(array.nbytes, 1), 0))
        if array.nbytes:
            self.ok(acl.rt.memcpy(memory, array.nbytes, array.ctypes.data, array.nbytes, TO_DEVICE))
        return int(memory)

    def bytes_at(self, address, size):
        here = numpy.empty(size, "u1")
        if size:
            self.ok(acl.rt.memcpy(here.ctypes.data, size, address, size, TO_HOST))
        return here.tobytes()

    def send(self, channel, arrays, device):
        dataset = self.stack.enter_context(own(acl.tdt.create_dataset))
        for kind, shape, array in arrays:
            address = self.on_device(array) if device else array.ctypes.data
            item = self.stack.enter_context(own(acl.tdt.create_data_item, TENSOR, shape, kind,
                                                address, array.nbytes))
            self.ok(acl.tdt.add_data_item(dataset, item))
        self.ok(acl.tdt.send_tensor(channel, dataset, -1))

    def expect_received(self, dataset, arrays):
        self.assertEqual(acl.tdt.get_dataset_size(dataset), len(arrays))
        for i, (kind, shape, array) in enumerate(arrays):
            item = acl.tdt.get_data_item(dataset, i)
            self.assertEqual(acl.tdt.get_tensor_type_from_item(item), TENSOR)
            self.assertEqual(acl.tdt.get_data_type_from_item(item), kind)
            self.assertEqual(acl.tdt.get_dims_from_item(item), (shape, 0))
            size = acl.tdt.get_data_size_from_item(item)
            self.assertEqual(size, array.nbytes)
            address = acl.tdt.get_data_addr_from_item(item)
            if size:
                self.assertEqual(acl.util.ptr_to_bytes(address, size), array.tobytes())

    def channel_round(self):
        arrays = [self.array(DIMS_MAX) for _ in range(int(self.rng.integers(1, 20)))]
        self.send(self.channel, arrays, self.rng.random() < 0.5)
        received = self.stack.enter_context(own(acl.tdt.create_dataset))
        self.ok(acl.tdt.receive_tensor(self.channel, received, -1))
        self.expect_received(received, arrays)

    def test_channel(self):
        self.channel = own(acl.tdt.create_channel_with_capacity, 0, "tensors", 2)
        self.addCleanup(self.channel.close)
        self.rounds(self.channel_round)

    def described(self, kind, shape, array):
        """What is saved of an array, which is on the device or here, perhaps by a pointer."""
        device = self.rng.random() < 0.5
        by_pointer = self.rng.random() < 0.3
        info = TensorInfo(type=int(self.rng.integers(0, 3)), size=array.nbytes, format=2,
                          data_type=kind, placement=0 if device else 1, shape_num=len(shape),
                          address_type=BY_POINTER if by_pointer else PLAIN)
        info.shape[:len(shape)] = shape
        info.address = self.on_device(array) if device else array.ctypes.data
        if by_pointer:
            word = numpy.array([info.address], "u8")
            self.words.append(word)
            info.address = self.on_device(word) if device else word.ctypes.data
        return info

    def save(self, name, infos):
        array = (TensorInfo * len(infos))(*infos)
        return self.library.acldumpSaveExceptionInfo(name, b"an \"op\"\n", array,
                                                     ctypes.c_size_t(len(infos)))

    def dump_round(self):
        self.words = []
        arrays = [self.array(SHAPE_MAX) for _ in range(int(self.rng.integers(1, 8)))]
        infos = [self.described(*a) for a in arrays]
        self.assertEqual(self.save(b"round", infos), 0, acl.get_recent_err_msg())
        path, = glob.glob(FOLDER + "/extra-info/data-dump/0/round.custom.*")
        parts = list(parts_of(path))
        os.unlink(path)
        self.assertEqual(parts.pop(0)[0], {"dump": "tensors", "operator": "an \"op\"\n",
                                           "tensors": len(arrays), "bytes": 0})
        self.assertEqual(len(parts), len(arrays))
        for i, ((head, data), (kind, shape, array)) in enumerate(zip(parts, arrays)):
            self.assertEqual((head["tensor"], head["dataType"], head["shape"], head["size"]),
                             (i, kind, shape, array.nbytes))
            self.assertEqual(head["type"], ("input", "output", "workspace")[infos[i].type])
            self.assertEqual(head["placement"], ("device", "host")[infos[i].placement])
            self.assertEqual(data, array.tobytes())

    def setUp(self):
        super().setUp()
        self.library = c_library()

    def test_dump(self):
        self.rounds(self.dump_round)

    def test_dumps_of_one_name(self):
        """In one millisecond, of several threads: each has a file."""
        infos = [TensorInfo(size=0)]
        results = []

        def save():
            results.extend(self.save(b"many", infos) for _ in range(20))

        threads = [threading.Thread(target=save) for _ in "1234"]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(results, [0] * 80)
        self.assertEqual(len(glob.glob(FOLDER + "/extra-info/data-dump/0/many.custom.*")), 80)


if __name__ == "__main__":
    os.environ["ASCEND_DUMP_SCENE"] = "aic_err_norm_dump"
    os.environ["ASCEND_WORK_PATH"] = FOLDER
    acl.init()
    try:
        main()
    finally:
        shutil.rmtree(FOLDER)
