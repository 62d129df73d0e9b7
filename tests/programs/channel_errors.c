/* What the functions of tensor channels refuse. */
#include "expect.h"

#include <acl/acl_tdt.h>
#include <stdint.h>
#include <string.h>

static void refuse_items(void)
{
    static const int64_t dims[129] = {1};
    static char data[4];
    acltdtDataItem *item;
    int64_t got[128];
    size_t n;

    EXPECT(!acltdtCreateDataItem(ACL_TENSOR_DATA_TENSOR, NULL, 1, ACL_INT8, data, 1));
    EXPECT(!acltdtCreateDataItem(ACL_TENSOR_DATA_TENSOR, dims, 0, ACL_INT8, data, 1));
    EXPECT(!acltdtCreateDataItem(ACL_TENSOR_DATA_TENSOR, dims, 129, ACL_INT8, data, 1));
    EXPECT(!acltdtCreateDataItem(ACL_TENSOR_DATA_TENSOR, dims, SIZE_MAX, ACL_INT8, data, 1));
    EXPECT(!acltdtCreateDataItem(ACL_TENSOR_DATA_END_OF_SEQUENCE, dims, 1, ACL_INT8, data, 1));
    EXPECT(acltdtGetTensorTypeFromItem(NULL) == ACL_TENSOR_DATA_UNDEFINED);
    EXPECT(acltdtGetDataTypeFromItem(NULL) == ACL_DT_UNDEFINED);
    EXPECT(acltdtGetDataAddrFromItem(NULL) == NULL);
    EXPECT(acltdtGetDataSizeFromItem(NULL) == 0);
    EXPECT(acltdtGetDimNumFromItem(NULL) == 0);
    FAILS(ACL_ERROR_INVALID_PARAM, acltdtDestroyDataItem(NULL));

    item = acltdtCreateDataItem(ACL_TENSOR_DATA_TENSOR, dims, 128, ACL_INT8, data, 4);
    EXPECT(item && acltdtGetDimNumFromItem(item) == 128);
    FAILS(ACL_ERROR_INVALID_PARAM, acltdtGetDimsFromItem(NULL, got, 128));
    FAILS(ACL_ERROR_INVALID_PARAM, acltdtGetDimsFromItem(item, NULL, 128));
    FAILS(ACL_ERROR_INVALID_PARAM, acltdtGetDimsFromItem(item, got, 0));
    FAILS(ACL_ERROR_INVALID_PARAM, acltdtGetDimsFromItem(item, got, 127));
    FAILS(ACL_ERROR_INVALID_PARAM, acltdtGetDimsFromItem(item, NULL, 0));
    CALL(acltdtGetDimsFromItem(item, got, 128));
    EXPECT(memcmp(got, dims, sizeof(got)) == 0);
    FAILS(ACL_ERROR_INVALID_PARAM, acltdtGetSliceInfoFromItem(NULL, &n, &n));
    FAILS(ACL_ERROR_INVALID_PARAM, acltdtGetSliceInfoFromItem(item, NULL, &n));
    FAILS(ACL_ERROR_INVALID_PARAM, acltdtGetSliceInfoFromItem(item, &n, NULL));
    CALL(acltdtDestroyDataItem(item));

    /* What an item that is no tensor is given besides its type means nothing. */
    item = acltdtCreateDataItem(ACL_TENSOR_DATA_ABNORMAL, NULL, 0, ACL_INT8, data, 4);
    EXPECT(acltdtGetDataTypeFromItem(item) == ACL_DT_UNDEFINED);
    EXPECT(acltdtGetDataAddrFromItem(item) == NULL && acltdtGetDataSizeFromItem(item) == 0);
    CALL(acltdtGetDimsFromItem(item, NULL, 0));
    CALL(acltdtDestroyDataItem(item));
}

static void refuse_datasets(void)
{
    acltdtDataset *dataset = acltdtCreateDataset();

    FAILS(ACL_ERROR_INVALID_PARAM, acltdtDestroyDataset(NULL));
    FAILS(ACL_ERROR_INVALID_PARAM, acltdtAddDataItem(dataset, NULL));
    EXPECT(acltdtGetDataItem(NULL, 0) == NULL);
    EXPECT(acltdtGetDataItem(dataset, 0) == NULL);
    EXPECT(acltdtGetDatasetSize(NULL) == 0);
    EXPECT(acltdtGetDatasetName(NULL) == NULL);
    CALL(acltdtDestroyDataset(dataset));
}

static void refuse_channels(void)
{
    char name[129];

    memset(name, 'n', sizeof(name));
    name[128] = '\0';
    EXPECT(!acltdtCreateChannel(0, NULL));
    EXPECT(!acltdtCreateChannel(0, ""));
    EXPECT(!acltdtCreateChannel(0, name));
    EXPECT(!acltdtCreateChannel(99, "name"));
    EXPECT(!acltdtCreateChannelWithCapacity(0, NULL, 2));
    EXPECT(!acltdtCreateChannelWithCapacity(0, "", 2));
    EXPECT(!acltdtCreateChannelWithCapacity(0, name, 2));
    EXPECT(!acltdtCreateChannelWithCapacity(UINT32_MAX, "name", 2));
    EXPECT(!acltdtCreateChannelWithCapacity(0, "name", 0));
    EXPECT(!acltdtCreateChannelWithCapacity(0, "name", 1));
    EXPECT(!acltdtCreateChannelWithCapacity(0, "name", 8193));
    EXPECT(!acltdtCreateChannelWithCapacity(0, "name", (UINT64_C(1) << 32) + 2));
    EXPECT(strstr(aclGetRecentErrMsg(), "capacity") != NULL);
    FAILS(ACL_ERROR_INVALID_PARAM, acltdtStopChannel(NULL));
    FAILS(ACL_ERROR_INVALID_PARAM, acltdtDestroyChannel(NULL));
    FAILS(ACL_ERROR_INVALID_PARAM, acltdtCleanChannel(NULL));
}

static void refuse_items_of(acltdtChannelHandle *channel, acltdtDataItem *item, aclError wanted)
{
    acltdtDataset *dataset = acltdtCreateDataset();

    CALL(acltdtAddDataItem(dataset, item));
    FAILS(wanted, acltdtSendTensor(channel, dataset, 0));
    FAILS(ACL_ERROR_INVALID_PARAM, acltdtReceiveTensor(channel, dataset, 0));
    CALL(acltdtDestroyDataset(dataset));
    CALL(acltdtDestroyDataItem(item));
}

static void refuse_messages(acltdtChannelHandle *channel)
{
    acltdtDataset *dataset = acltdtCreateDataset();
    static const acltdtTensorType kinds[] = {
        ACL_TENSOR_DATA_UNDEFINED, ACL_TENSOR_DATA_SLICE_TENSOR, ACL_TENSOR_DATA_END_TENSOR};
    char data[1];
    size_t size;

    FAILS(ACL_ERROR_INVALID_PARAM, acltdtSendTensor(NULL, dataset, 0));
    FAILS(ACL_ERROR_INVALID_PARAM, acltdtSendTensor(channel, NULL, 0));
    FAILS(ACL_ERROR_INVALID_PARAM, acltdtReceiveTensor(NULL, dataset, 0));
    FAILS(ACL_ERROR_INVALID_PARAM, acltdtReceiveTensor(channel, NULL, 0));
    FAILS(ACL_ERROR_INVALID_PARAM, acltdtQueryChannelSize(NULL, &size));
    FAILS(ACL_ERROR_INVALID_PARAM, acltdtQueryChannelSize(channel, NULL));
    FAILS(ACL_ERROR_INVALID_PARAM, acltdtSendTensor(channel, dataset, 0));
    for (int i = 0; i < 3; i++)
        refuse_items_of(channel, acltdtCreateDataItem(kinds[i], NULL, 0, ACL_INT8, NULL, 0),
                        ACL_ERROR_INVALID_PARAM);
    refuse_items_of(channel,
                    acltdtCreateDataItem(ACL_TENSOR_DATA_TENSOR, NULL, 0, ACL_INT8, NULL, 1),
                    ACL_ERROR_INVALID_PARAM);
    refuse_items_of(channel,
                    acltdtCreateDataItem(ACL_TENSOR_DATA_TENSOR, NULL, 0, ACL_INT8, data, SIZE_MAX),
                    ACL_ERROR_INVALID_PARAM);
    CALL(acltdtQueryChannelSize(channel, &size));
    EXPECT(size == 0);
    CALL(acltdtDestroyDataset(dataset));
}

/* Handles that were good, and what never was one. */
static void refuse_handle(void *handle)
{
    acltdtDataset *dataset = acltdtCreateDataset();
    size_t size;

    FAILS(ACL_ERROR_RT_PARAM_INVALID, acltdtReceiveTensor(handle, dataset, -1));
    FAILS(ACL_ERROR_RT_PARAM_INVALID, acltdtSendTensor(handle, dataset, -1));
    FAILS(ACL_ERROR_RT_PARAM_INVALID, acltdtStopChannel(handle));
    FAILS(ACL_ERROR_RT_PARAM_INVALID, acltdtCleanChannel(handle));
    FAILS(ACL_ERROR_RT_PARAM_INVALID, acltdtQueryChannelSize(handle, &size));
    FAILS(ACL_ERROR_RT_PARAM_INVALID, acltdtDestroyChannel(handle));
    CALL(acltdtDestroyDataset(dataset));
}

int main(void)
{
    acltdtChannelHandle *channel;
    aclrtStream stream;

    refuse_items();
    refuse_datasets();
    CALL(aclInit(NULL));
    CALL(aclrtSetDevice(0));
    refuse_channels();
    channel = acltdtCreateChannelWithCapacity(0, "name", 2);
    EXPECT(channel != NULL);
    refuse_messages(channel);
    CALL(acltdtDestroyChannel(channel));
    refuse_handle(channel);
    CALL(aclrtCreateStream(&stream));
    refuse_handle(stream);
    CALL(aclrtDestroyStream(stream));
    refuse_handle(&channel);

    /* One that the session has taken with it. */
    channel = acltdtCreateChannelWithCapacity(0, "name", 2);
    EXPECT(channel != NULL);
    CALL(aclrtResetDevice(0));
    CALL(aclFinalize());
    refuse_handle(channel);
    CALL(aclInit(NULL));
    CALL(aclrtSetDevice(0));
    refuse_handle(channel);
    CALL(aclrtResetDevice(0));
    return aclFinalize();
}
