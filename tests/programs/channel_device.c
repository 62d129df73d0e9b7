/* Tensors from device memory, managed memory and shared buffers; received data goes back there. */
#include "expect.h"

#include <acl/acl_tdt.h>
#include <acl/acl_tdt_queue.h>
#include <string.h>

#define SIZE ((size_t)100000)

static acltdtDataItem *item_at(void *data)
{
    const int64_t dims[] = {SIZE};

    return acltdtCreateDataItem(ACL_TENSOR_DATA_TENSOR, dims, 1, ACL_UINT8, data, SIZE);
}

static void send_from(acltdtChannelHandle *channel, void *data)
{
    acltdtDataset *dataset = acltdtCreateDataset();
    acltdtDataItem *item = item_at(data);

    CALL(acltdtAddDataItem(dataset, item));
    CALL(acltdtAddDataItem(dataset, item));
    CALL(acltdtSendTensor(channel, dataset, -1));
    CALL(acltdtDestroyDataset(dataset));
    CALL(acltdtDestroyDataItem(item));
}

static void expect_received(acltdtChannelHandle *channel, const void *data)
{
    acltdtDataset *dataset = acltdtCreateDataset();

    CALL(acltdtReceiveTensor(channel, dataset, -1));
    EXPECT(acltdtGetDatasetSize(dataset) == 2);
    for (size_t i = 0; i < 2; i++)
        EXPECT(memcmp(acltdtGetDataAddrFromItem(acltdtGetDataItem(dataset, i)), data, SIZE) == 0);
    CALL(acltdtDestroyDataset(dataset));
}

static void refuse_mixed(void *host, void *device, void *managed)
{
    void *mixed[][2] = {{host, device}, {device, host}};

    for (int i = 0; i < 2; i++) {
        acltdtDataset *dataset = acltdtCreateDataset();
        acltdtDataItem *first = item_at(mixed[i][0]), *second = item_at(mixed[i][1]);
        acltdtDataItem *both = item_at(managed);

        CALL(acltdtAddDataItem(dataset, both));
        CALL(acltdtAddDataItem(dataset, first));
        FAILS(ACL_ERROR_INVALID_PARAM, acltdtAddDataItem(dataset, second));
        CALL(acltdtAddDataItem(dataset, both));
        EXPECT(acltdtGetDatasetSize(dataset) == 3);
        CALL(acltdtDestroyDataset(dataset));
        CALL(acltdtDestroyDataItem(first));
        CALL(acltdtDestroyDataItem(second));
        CALL(acltdtDestroyDataItem(both));
    }
}

int main(void)
{
    static unsigned char host[SIZE];
    acltdtChannelHandle *channel;
    void *device, *managed, *shared;
    acltdtDataset *dataset;
    acltdtBuf buffer;
    size_t room;

    for (size_t i = 0; i < SIZE; i++)
        host[i] = (unsigned char)(i * 31 + (i >> 8));
    CALL(aclInit(NULL));
    CALL(aclrtSetDevice(0));
    channel = acltdtCreateChannelWithCapacity(0, "from the device", 2);
    CALL(aclrtMalloc(&device, SIZE, ACL_MEM_MALLOC_NORMAL_ONLY));
    CALL(aclrtMemcpy(device, SIZE, host, SIZE, ACL_MEMCPY_HOST_TO_DEVICE));
    CALL(aclrtMemAllocManaged(&managed, SIZE, ACL_RT_MEM_ATTACH_GLOBAL));
    memcpy(managed, host, SIZE);
    CALL(acltdtAllocBuf(SIZE, ACL_TDT_NORMAL_MEM, &buffer));
    CALL(acltdtGetBufData(buffer, &shared, &room));
    memcpy(shared, host, SIZE);

    send_from(channel, host);
    expect_received(channel, host);
    send_from(channel, device);
    expect_received(channel, host);
    send_from(channel, managed);
    expect_received(channel, host);
    send_from(channel, shared);

    /* What was received can be copied to a device, and sent on. */
    dataset = acltdtCreateDataset();
    CALL(acltdtReceiveTensor(channel, dataset, -1));
    CALL(aclrtMemset(device, SIZE, 0, SIZE));
    CALL(aclrtMemcpy(device, SIZE, acltdtGetDataAddrFromItem(acltdtGetDataItem(dataset, 1)), SIZE,
                     ACL_MEMCPY_HOST_TO_DEVICE));
    send_from(channel, device);
    CALL(acltdtSendTensor(channel, dataset, 0));
    CALL(acltdtDestroyDataset(dataset));
    expect_received(channel, host);
    expect_received(channel, host);

    refuse_mixed(host, device, managed);
    CALL(acltdtFreeBuf(buffer));
    CALL(aclrtFree(managed));
    CALL(aclrtFree(device));
    CALL(acltdtDestroyChannel(channel));
    CALL(aclrtResetDevice(0));
    return aclFinalize();
}
