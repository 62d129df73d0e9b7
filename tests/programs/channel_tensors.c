/* Tensors of all kinds through a channel whose both ends are in this process. */
#include "expect.h"

#include <acl/acl_tdt.h>
#include <string.h>

static void send_items(acltdtChannelHandle *channel, acltdtDataItem **items, size_t n)
{
    acltdtDataset *dataset = acltdtCreateDataset();

    for (size_t i = 0; i < n; i++)
        CALL(acltdtAddDataItem(dataset, items[i]));
    EXPECT(acltdtGetDatasetSize(dataset) == n);
    CALL(acltdtSendTensor(channel, dataset, -1));
    CALL(acltdtDestroyDataset(dataset));
    for (size_t i = 0; i < n; i++)
        CALL(acltdtDestroyDataItem(items[i]));
}

static void expect_tensor(const acltdtDataset *dataset, size_t index, aclDataType type,
                          const int64_t *dims, size_t n_dims, const void *data, size_t size)
{
    const acltdtDataItem *item = acltdtGetDataItem(dataset, index);
    int64_t got[8];

    EXPECT(acltdtGetTensorTypeFromItem(item) == ACL_TENSOR_DATA_TENSOR);
    EXPECT(acltdtGetDataTypeFromItem(item) == type);
    EXPECT(acltdtGetDimNumFromItem(item) == n_dims);
    CALL(acltdtGetDimsFromItem(item, n_dims ? got : NULL, n_dims ? 8 : 0));
    EXPECT(memcmp(got, dims, n_dims * sizeof(*dims)) == 0);
    EXPECT(acltdtGetDataSizeFromItem(item) == size);
    EXPECT(size == 0 || memcmp(acltdtGetDataAddrFromItem(item), data, size) == 0);
}

int main(void)
{
    static float matrix[2][3] = {{1, 2, 3}, {4, 5, 6}};
    static const int64_t shape[] = {2, 3}, empty[] = {0, 7};
    acltdtChannelHandle *channel;
    acltdtDataItem *items[3];
    acltdtDataset *dataset;
    int32_t scalar = 42;
    size_t size, slices, slice;

    CALL(aclInit(NULL));
    CALL(aclrtSetDevice(0));
    channel = acltdtCreateChannelWithCapacity(0, "tensors", 4);
    EXPECT(channel != NULL);

    items[0] =
        acltdtCreateDataItem(ACL_TENSOR_DATA_TENSOR, shape, 2, ACL_FLOAT, matrix, sizeof(matrix));
    items[1] =
        acltdtCreateDataItem(ACL_TENSOR_DATA_TENSOR, NULL, 0, ACL_INT32, &scalar, sizeof(scalar));
    items[2] = acltdtCreateDataItem(ACL_TENSOR_DATA_TENSOR, empty, 2, ACL_UINT8, NULL, 0);
    send_items(channel, items, 3);
    items[0] = acltdtCreateDataItem(ACL_TENSOR_DATA_END_OF_SEQUENCE, NULL, 0, ACL_FLOAT, NULL, 0);
    send_items(channel, items, 1);
    items[0] = acltdtCreateDataItem(ACL_TENSOR_DATA_ABNORMAL, NULL, 0, ACL_FLOAT, NULL, 0);
    send_items(channel, items, 1);
    CALL(acltdtQueryChannelSize(channel, &size));
    EXPECT(size == 3);

    dataset = acltdtCreateDataset();
    EXPECT(strcmp(acltdtGetDatasetName(dataset), "") == 0);
    CALL(acltdtReceiveTensor(channel, dataset, 1000));
    EXPECT(acltdtGetDatasetSize(dataset) == 3);
    expect_tensor(dataset, 0, ACL_FLOAT, shape, 2, matrix, sizeof(matrix));
    expect_tensor(dataset, 1, ACL_INT32, NULL, 0, &scalar, sizeof(scalar));
    expect_tensor(dataset, 2, ACL_UINT8, empty, 2, NULL, 0);
    EXPECT(acltdtGetDataItem(dataset, 3) == NULL);
    CALL(acltdtGetSliceInfoFromItem(acltdtGetDataItem(dataset, 0), &slices, &slice));
    EXPECT(slices == 0 && slice == 0);
    /* It was filled by a receive: it takes what comes next, and nothing of the program. */
    items[0] = acltdtCreateDataItem(ACL_TENSOR_DATA_TENSOR, NULL, 0, ACL_INT32, &scalar, 4);
    FAILS(ACL_ERROR_FEATURE_UNSUPPORTED, acltdtAddDataItem(dataset, items[0]));
    CALL(acltdtDestroyDataItem(items[0]));
    CALL(acltdtReceiveTensor(channel, dataset, 0));
    EXPECT(acltdtGetDatasetSize(dataset) == 1);
    EXPECT(acltdtGetTensorTypeFromItem(acltdtGetDataItem(dataset, 0)) ==
           ACL_TENSOR_DATA_END_OF_SEQUENCE);
    CALL(acltdtReceiveTensor(channel, dataset, -1));
    EXPECT(acltdtGetTensorTypeFromItem(acltdtGetDataItem(dataset, 0)) == ACL_TENSOR_DATA_ABNORMAL);
    FAILS(ACL_ERROR_RT_QUEUE_EMPTY, acltdtReceiveTensor(channel, dataset, 0));
    FAILS(ACL_ERROR_RT_QUEUE_EMPTY, acltdtReceiveTensor(channel, dataset, 1));
    /* An empty channel leaves it as it was. */
    EXPECT(acltdtGetDatasetSize(dataset) == 1);
    CALL(acltdtDestroyDataset(dataset));
    CALL(acltdtStopChannel(channel));
    CALL(acltdtDestroyChannel(channel));
    CALL(aclrtResetDevice(0));
    return aclFinalize();
}
