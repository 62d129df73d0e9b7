// A process that loads batches and one that consumes them: they create the channel by its name.
#include "expect.h"

#include <acl/acl_tdt.h>

#include <cstring>
#include <vector>

constexpr int batches = 60;

static uint8_t byte_of(int batch, size_t i)
{
    return static_cast<uint8_t>(batch * 131 + i * 7 + (i >> 8));
}

static size_t size_of(int batch)
{
    return batch % 10 == 9 ? 3000000 + batch : 1 + batch * 97;
}

static acltdtChannelHandle *join()
{
    CALL(aclInit(nullptr));
    CALL(aclrtSetDevice(1));
    acltdtChannelHandle *channel = acltdtCreateChannelWithCapacity(1, "batches", 4);
    EXPECT(channel != nullptr);
    return channel;
}

static void send(acltdtChannelHandle *channel, acltdtTensorType kind, int64_t number,
                 std::vector<uint8_t> &data)
{
    const int64_t dims[] = {static_cast<int64_t>(data.size())};
    const bool tensor = kind == ACL_TENSOR_DATA_TENSOR;
    acltdtDataset *dataset = acltdtCreateDataset();
    acltdtDataItem *items[2] = {
        acltdtCreateDataItem(kind, tensor ? dims : nullptr, tensor, ACL_UINT8, data.data(),
                             data.size()),
        acltdtCreateDataItem(ACL_TENSOR_DATA_TENSOR, nullptr, 0, ACL_INT64, &number,
                             sizeof(number)),
    };

    for (int i = 0; i < 1 + tensor; i++)
        CALL(acltdtAddDataItem(dataset, items[i]));
    CALL(acltdtSendTensor(channel, dataset, -1));
    CALL(acltdtDestroyDataset(dataset));
    for (acltdtDataItem *item : items)
        CALL(acltdtDestroyDataItem(item));
}

static void load(int in, int)
{
    acltdtChannelHandle *channel = join();
    std::vector<uint8_t> data;
    char go;

    for (int batch = 0; batch < batches; batch++) {
        data.resize(size_of(batch));
        for (size_t i = 0; i < data.size(); i++)
            data[i] = byte_of(batch, i);
        send(channel, ACL_TENSOR_DATA_TENSOR, batch, data);
    }
    data.clear();
    send(channel, ACL_TENSOR_DATA_END_OF_SEQUENCE, 0, data);
    CALL(acltdtStopChannel(channel));
    TAKE(in, go);
    CALL(acltdtDestroyChannel(channel));
    CALL(aclrtResetDevice(1));
}

int main()
{
    int in, out, batch = 0;
    const char go = 1;
    const pid_t child = start_child(load, &in, &out);
    acltdtChannelHandle *channel = join();
    acltdtDataset *dataset = acltdtCreateDataset();

    for (;; batch++) {
        CALL(acltdtReceiveTensor(channel, dataset, -1));
        const acltdtDataItem *item = acltdtGetDataItem(dataset, 0);
        if (acltdtGetTensorTypeFromItem(item) == ACL_TENSOR_DATA_END_OF_SEQUENCE)
            break;
        const auto *data = static_cast<const uint8_t *>(acltdtGetDataAddrFromItem(item));
        EXPECT(acltdtGetDataSizeFromItem(item) == size_of(batch));
        for (size_t i = 0; i < size_of(batch); i++)
            EXPECT(data[i] == byte_of(batch, i));
        int64_t number;
        memcpy(&number, acltdtGetDataAddrFromItem(acltdtGetDataItem(dataset, 1)), sizeof(number));
        EXPECT(number == batch);
    }
    EXPECT(batch == batches);
    GIVE(out, go);
    EXPECT(ended_well(child));
    // The last other process has left it.
    FAILS(ACL_ERROR_RT_DRV_INTERNAL_ERROR, acltdtReceiveTensor(channel, dataset, -1));
    CALL(acltdtDestroyDataset(dataset));
    CALL(acltdtDestroyChannel(channel));
    CALL(aclrtResetDevice(1));
    return aclFinalize();
}
