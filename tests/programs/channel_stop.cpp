// Calls that wait, and what ends that: a message, room, the time, a stop.
#include "expect.h"

#include <acl/acl_tdt.h>

#include <cstring>
#include <thread>
#include <vector>

static int32_t number = 7;
static acltdtDataItem *item;
static acltdtDataset *message;

static acltdtChannelHandle *create(const char *name, size_t capacity)
{
    acltdtChannelHandle *channel = capacity > 0 ? acltdtCreateChannelWithCapacity(0, name, capacity)
                                                : acltdtCreateChannel(0, name);
    EXPECT(channel != nullptr);
    return channel;
}

static void receive_until_stopped(acltdtChannelHandle *channel)
{
    acltdtDataset *dataset = acltdtCreateDataset();

    FAILS(ACL_ERROR_FAILURE, acltdtReceiveTensor(channel, dataset, -1));
    EXPECT(strstr(aclGetRecentErrMsg(), "stopped") != nullptr);
    EXPECT(acltdtGetDatasetSize(dataset) == 0);
    CALL(acltdtDestroyDataset(dataset));
}

static void stop_receivers(const char *name, size_t capacity)
{
    acltdtChannelHandle *channel = create(name, capacity), *other = create(name, capacity);
    std::vector<std::thread> threads;
    acltdtDataset *dataset = acltdtCreateDataset();

    for (int i = 0; i < 3; i++)
        threads.emplace_back(receive_until_stopped, channel);
    CALL(acltdtStopChannel(channel));
    for (std::thread &thread : threads)
        thread.join();
    // What need not wait works, and the other handle of the channel goes on.
    receive_until_stopped(channel);
    CALL(acltdtSendTensor(channel, message, -1));
    CALL(acltdtReceiveTensor(channel, dataset, -1));
    std::thread receiver([other] {
        acltdtDataset *mine = acltdtCreateDataset();
        CALL(acltdtReceiveTensor(other, mine, -1));
        EXPECT(acltdtGetDatasetSize(mine) == 1);
        CALL(acltdtDestroyDataset(mine));
    });
    CALL(acltdtStopChannel(channel));
    CALL(acltdtSendTensor(channel, message, -1));
    receiver.join();
    CALL(acltdtDestroyDataset(dataset));
    CALL(acltdtDestroyChannel(channel));
    CALL(acltdtDestroyChannel(other));
}

static void stop_senders(const char *name)
{
    acltdtChannelHandle *channel = create(name, 2);
    std::vector<std::thread> threads;
    size_t size;

    for (int i = 0; i < 2; i++)
        CALL(acltdtSendTensor(channel, message, 0));
    FAILS(ACL_ERROR_RT_QUEUE_FULL, acltdtSendTensor(channel, message, 0));
    FAILS(ACL_ERROR_RT_QUEUE_FULL, acltdtSendTensor(channel, message, 1));
    for (int i = 0; i < 3; i++)
        threads.emplace_back(
            [channel] { FAILS(ACL_ERROR_FAILURE, acltdtSendTensor(channel, message, -1)); });
    CALL(acltdtStopChannel(channel));
    for (std::thread &thread : threads)
        thread.join();
    FAILS(ACL_ERROR_RT_QUEUE_FULL, acltdtSendTensor(channel, message, 0));
    CALL(acltdtQueryChannelSize(channel, &size));
    EXPECT(size == 2);
    CALL(acltdtCleanChannel(channel));
    CALL(acltdtCleanChannel(channel));
    CALL(acltdtQueryChannelSize(channel, &size));
    EXPECT(size == 0);
    CALL(acltdtDestroyChannel(channel));
}

// The older kind: it waits for ever, and receives under certain names.
static void use_legacy()
{
    acltdtChannelHandle *sender = create("legacy", 0), *receiver = create("legacy", 8);
    acltdtDataset *dataset = acltdtCreateDataset();
    size_t size;

    for (int32_t timeout : {0, 1, 1000, -2})
        FAILS(ACL_ERROR_INVALID_PARAM, acltdtSendTensor(sender, message, timeout));
    FAILS(ACL_ERROR_INVALID_PARAM, acltdtReceiveTensor(sender, dataset, -1));
    FAILS(ACL_ERROR_FEATURE_UNSUPPORTED, acltdtCleanChannel(sender));
    FAILS(ACL_ERROR_FEATURE_UNSUPPORTED, acltdtQueryChannelSize(sender, &size));
    CALL(acltdtSendTensor(sender, message, -1));
    // Both kinds share the names.
    CALL(acltdtReceiveTensor(receiver, dataset, 1000));
    EXPECT(*static_cast<int32_t *>(acltdtGetDataAddrFromItem(acltdtGetDataItem(dataset, 0))) ==
           number);
    CALL(acltdtDestroyChannel(sender));
    CALL(acltdtDestroyChannel(receiver));

    receiver = create("TF_RECEIVE_legacy", 0);
    CALL(acltdtSendTensor(receiver, message, -1));
    FAILS(ACL_ERROR_INVALID_PARAM, acltdtReceiveTensor(receiver, dataset, -1));
    CALL(acltdtDestroyDataset(dataset));
    dataset = acltdtCreateDataset();
    FAILS(ACL_ERROR_INVALID_PARAM, acltdtReceiveTensor(receiver, dataset, 1000));
    CALL(acltdtReceiveTensor(receiver, dataset, -1));
    CALL(acltdtDestroyDataset(dataset));
    CALL(acltdtDestroyChannel(receiver));
}

int main()
{
    CALL(aclInit(nullptr));
    CALL(aclrtSetDevice(0));
    item = acltdtCreateDataItem(ACL_TENSOR_DATA_TENSOR, nullptr, 0, ACL_INT32, &number,
                                sizeof(number));
    message = acltdtCreateDataset();
    CALL(acltdtAddDataItem(message, item));
    stop_receivers("receivers", 4);
    stop_receivers("TF_RECEIVE_receivers", 0);
    stop_senders("senders");
    use_legacy();
    CALL(acltdtDestroyDataset(message));
    CALL(acltdtDestroyDataItem(item));
    CALL(aclrtResetDevice(0));
    return aclFinalize();
}
