"""Tensor channels: what is in test_channel.c and tests/programs, as far as Python adds to it."""
import threading

import acl

from support import DeviceTest, main

own = acl.npud.own
TENSOR, END = 0, 1
INT8, INT64 = 2, 9


class Channels(DeviceTest):
    def setUp(self):
        super().setUp()
        self.channel = own(acl.tdt.create_channel_with_capacity, 0, "python", 2)
        self.addCleanup(self.channel.close)

    def send(self, data, dims, kind=TENSOR, ms=0):
        memory = bytes(data)
        with own(acl.tdt.create_dataset) as dataset, \
             own(acl.tdt.create_data_item, kind, dims, INT8, acl.util.bytes_to_ptr(memory),
                 len(memory)) as item:
            self.ok(acl.tdt.add_data_item(dataset, item))
            return acl.tdt.send_tensor(self.channel, dataset, ms)

    def data(self, item):
        return acl.util.ptr_to_bytes(acl.tdt.get_data_addr_from_item(item),
                                     acl.tdt.get_data_size_from_item(item))

    def test_tensors(self):
        self.ok(self.send(b"abcdef", [2, -3]))
        self.ok(self.send(b"", [], END))
        self.assertEqual(self.send(b"x", []), 207014)
        self.assertEqual(acl.tdt.query_channel_size(self.channel), (2, 0))
        with own(acl.tdt.create_dataset) as dataset:
            self.ok(acl.tdt.receive_tensor(self.channel, dataset, -1))
            self.assertEqual(acl.tdt.get_dataset_size(dataset), 1)
            self.assertEqual(acl.tdt.get_dataset_name(dataset), "")
            item = acl.tdt.get_data_item(dataset, 0)
            self.assertEqual(acl.tdt.get_data_item(dataset, 1), 0)
            self.assertEqual(acl.tdt.get_tensor_type_from_item(item), TENSOR)
            self.assertEqual(acl.tdt.get_data_type_from_item(item), INT8)
            self.assertEqual(acl.tdt.get_dim_num_from_item(item), 2)
            self.assertEqual(acl.tdt.get_dims_from_item(item), ([2, -3], 0))
            self.assertEqual(acl.tdt.get_slice_info_from_item(item), (0, 0, 0))
            self.assertEqual(self.data(item), b"abcdef")
            self.ok(acl.tdt.receive_tensor(self.channel, dataset, 1000))
            item = acl.tdt.get_data_item(dataset, 0)
            self.assertEqual(acl.tdt.get_tensor_type_from_item(item), END)
            self.assertEqual(acl.tdt.get_dims_from_item(item), ([], 0))
            self.assertEqual(acl.tdt.receive_tensor(self.channel, dataset, 1), 207013)

    def test_nothing(self):
        self.assertEqual(acl.tdt.get_dims_from_item(0), ([], 100000))
        self.assertEqual(acl.tdt.get_slice_info_from_item(0), (0, 0, 100000))
        self.assertEqual(acl.tdt.create_data_item(END, [1], INT8, 0, 0), 0)
        self.assertEqual(acl.tdt.create_data_item(TENSOR, [1] * 129, INT8, 0, 0), 0)
        self.assertEqual(acl.tdt.create_channel_with_capacity(0, "python", 1), 0)
        self.assertIn("capacity", acl.get_recent_err_msg())
        self.assertEqual(acl.tdt.create_channel(0, ""), 0)
        self.assertEqual(acl.tdt.query_channel_size(0), (0, 100000))

    def test_other_threads_run_meanwhile(self):
        got = []

        def receive():
            with own(acl.tdt.create_dataset) as dataset:
                got.append(acl.tdt.receive_tensor(self.channel, dataset, -1))
                got.append(self.data(acl.tdt.get_data_item(dataset, 0)))

        thread = threading.Thread(target=receive)
        thread.start()
        self.ok(self.send(b"late", [4], ms=-1))
        thread.join()
        self.assertEqual(got, [0, b"late"])

    def test_stop(self):
        got = []

        def receive():
            with own(acl.tdt.create_dataset) as dataset:
                got.append(acl.tdt.receive_tensor(self.channel, dataset, -1))

        thread = threading.Thread(target=receive)
        thread.start()
        self.ok(acl.tdt.stop_channel(self.channel))
        thread.join()
        self.assertEqual(got, [500001])

    def test_clean(self):
        self.ok(self.send(b"1", [1]))
        self.ok(acl.tdt.clean_channel(self.channel))
        self.assertEqual(acl.tdt.query_channel_size(self.channel), (0, 0))


if __name__ == "__main__":
    main()
