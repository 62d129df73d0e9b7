#include "client/channel/dataset.h"

#include <stdlib.h>
#include <string.h>

#include "acl/acl.h"
#include "client/core/error.h"
#include "client/core/process.h"
#include "client/memory/place.h"
#include "client/runtime/session.h"

#define JOINED_ALIGN 64u
#define ROOM_FIRST   4u

/* --- items --- */

/* NULL, or why there can be no such item. */
static const char *find_item_fault(acltdtTensorType kind, const int64_t *dims, size_t dim_num)
{
    if ((dims == NULL) != (dim_num == 0))
        return dims ? "dims is not NULL, and dimNum is 0" : "dims is NULL, and dimNum is not 0";
    if (dim_num > ITEM_DIMS_MAX)
        return "a tensor has at most 128 dimensions";
    if (kind != ACL_TENSOR_DATA_TENSOR && dims)
        return "only items of type ACL_TENSOR_DATA_TENSOR have dimensions";
    return NULL;
}

acltdtDataItem *acltdtCreateDataItem(acltdtTensorType tdtType, const int64_t *dims, size_t dimNum,
                                     aclDataType dataType, void *data, size_t size)
{
    CALL_SCOPE;
    const char *fault = find_item_fault(tdtType, dims, dimNum);
    bool tensor = tdtType == ACL_TENSOR_DATA_TENSOR;
    acltdtDataItem *item;

    if (process_enter() != 0)
        return NULL;
    if (fault) {
        error_store(ACL_ERROR_INVALID_PARAM, "%s: %s", __func__, fault);
        return NULL;
    }
    item = malloc(sizeof(*item) + dimNum * sizeof(*dims));
    if (!item) {
        error_store(ACL_ERROR_BAD_ALLOC, "%s: out of memory", __func__);
        return NULL;
    }
    *item = (acltdtDataItem){.kind = tdtType,
                             .data_type = tensor ? dataType : ACL_DT_UNDEFINED,
                             .dim_num = dimNum,
                             .dims = (const int64_t *)(item + 1),
                             .data = tensor ? data : NULL,
                             .size = tensor ? size : 0};
    if (dimNum > 0)
        memcpy(item + 1, dims, dimNum * sizeof(*dims));
    return item;
}

aclError acltdtDestroyDataItem(acltdtDataItem *dataItem)
{
    CALL_SCOPE;

    REQUIRE(dataItem);
    free(dataItem);
    return 0;
}

acltdtTensorType acltdtGetTensorTypeFromItem(const acltdtDataItem *dataItem)
{
    return dataItem ? dataItem->kind : ACL_TENSOR_DATA_UNDEFINED;
}

aclDataType acltdtGetDataTypeFromItem(const acltdtDataItem *dataItem)
{
    return dataItem ? dataItem->data_type : ACL_DT_UNDEFINED;
}

void *acltdtGetDataAddrFromItem(const acltdtDataItem *dataItem)
{
    return dataItem ? dataItem->data : NULL;
}

size_t acltdtGetDataSizeFromItem(const acltdtDataItem *dataItem)
{
    return dataItem ? dataItem->size : 0;
}

size_t acltdtGetDimNumFromItem(const acltdtDataItem *dataItem)
{
    return dataItem ? dataItem->dim_num : 0;
}

aclError acltdtGetDimsFromItem(const acltdtDataItem *dataItem, int64_t *dims, size_t dimNum)
{
    CALL_SCOPE;

    REQUIRE(dataItem);
    if ((dims == NULL) != (dimNum == 0))
        return error_set(ACL_ERROR_INVALID_PARAM, "%s: dims is %s and dimNum %zu", __func__,
                         dims ? "not NULL" : "NULL", dimNum);
    if (dimNum < dataItem->dim_num)
        return error_set(ACL_ERROR_INVALID_PARAM,
                         "%s: dimNum is %zu: the item has %zu dimensions (acltdtGetDimNumFromItem)",
                         __func__, dimNum, dataItem->dim_num);
    if (dataItem->dim_num > 0)
        memcpy(dims, dataItem->dims, dataItem->dim_num * sizeof(*dims));
    return 0;
}

aclError acltdtGetSliceInfoFromItem(const acltdtDataItem *dataItem, size_t *sliceNum,
                                    size_t *sliceId)
{
    CALL_SCOPE;

    REQUIRE(dataItem);
    REQUIRE(sliceNum);
    REQUIRE(sliceId);
    *sliceNum = *sliceId = 0;
    return 0;
}

/* --- datasets of the program --- */

acltdtDataset *acltdtCreateDataset(void)
{
    CALL_SCOPE;
    acltdtDataset *d;

    if (process_enter() != 0)
        return NULL;
    d = calloc(1, sizeof(*d));
    if (!d)
        error_store(ACL_ERROR_BAD_ALLOC, "%s: out of memory", __func__);
    return d;
}

aclError acltdtDestroyDataset(acltdtDataset *dataset)
{
    CALL_SCOPE;

    REQUIRE(dataset);
    dataset_drop_message(dataset);
    free(dataset->items);
    free(dataset->received);
    free(dataset->dims);
    free(dataset->joined);
    free(dataset);
    return 0;
}

/* On which side the data is; neither, if both reach it or there is none. */
static void find_side(const acltdtDataItem *item, bool *host, bool *device)
{
    struct session *s = session_peek();
    struct place at = {.kind = PLACE_PAGEABLE};
    struct error_saved ignored;

    *host = *device = false;
    if (item->size == 0 || !item->data)
        return;
    /* What is wrong with the memory is said when it is sent. */
    error_save(&ignored);
    if (s && !session_lost(s))
        place_find(s, __func__, item->data, item->size, "data", &at);
    error_save_end(&ignored);
    *host = place_row(&at)->host && !place_row(&at)->device;
    *device = place_row(&at)->device && !place_row(&at)->host;
}

/* False: no memory. */
static bool add_item(acltdtDataset *d, acltdtDataItem *item)
{
    size_t room = d->items_room ? 2 * d->items_room : ROOM_FIRST;
    struct acltdtDataItem **items = d->items;

    if (d->n == d->items_room) {
        items = reallocarray(items, room, sizeof(struct acltdtDataItem *));
        if (!items)
            return false;
        d->items = items;
        d->items_room = room;
    }
    d->items[d->n++] = item;
    d->state = DATASET_FILLED;
    return true;
}

aclError acltdtAddDataItem(acltdtDataset *dataset, acltdtDataItem *dataItem)
{
    CALL_SCOPE;
    bool host, device;

    REQUIRE(dataset);
    REQUIRE(dataItem);
    if (dataset->state == DATASET_RECEIVED)
        return error_set(ACL_ERROR_FEATURE_UNSUPPORTED,
                         "%s: the dataset was filled by acltdtReceiveTensor: take a new one",
                         __func__);
    find_side(dataItem, &host, &device);
    if ((host && dataset->device) || (device && dataset->host))
        return error_set(ACL_ERROR_INVALID_PARAM,
                         "%s: the item is in %s memory, and others of the dataset are in %s memory",
                         __func__, host ? "host" : "device", host ? "device" : "host");
    if (!add_item(dataset, dataItem))
        return error_set(ACL_ERROR_BAD_ALLOC, "%s: out of memory for more than %zu items", __func__,
                         dataset->n);
    dataset->host |= host;
    dataset->device |= device;
    return 0;
}

acltdtDataItem *acltdtGetDataItem(const acltdtDataset *dataset, size_t index)
{
    if (!dataset || index >= dataset->n)
        return NULL;
    return dataset->state == DATASET_RECEIVED ? &dataset->received[index] : dataset->items[index];
}

size_t acltdtGetDatasetSize(const acltdtDataset *dataset)
{
    return dataset ? dataset->n : 0;
}

const char *acltdtGetDatasetName(const acltdtDataset *dataset)
{
    return dataset ? "" : NULL;
}

/* --- datasets that are received into --- */

/* Room for n objects, whose old content may go. False: no memory. */
static bool reserve(void *array, size_t *room, size_t n, size_t size)
{
    void *old, *larger;

    if (n <= *room)
        return true;
    n = n > 2 * *room ? n : 2 * *room;
    larger = calloc(n, size);
    if (!larger)
        return false;
    memcpy(&old, array, sizeof(old));
    free(old);
    memcpy(array, &larger, sizeof(larger));
    *room = n;
    return true;
}

bool dataset_reserve(struct acltdtDataset *d, size_t n, size_t n_dims)
{
    return reserve(&d->received, &d->received_room, n, sizeof(*d->received)) &&
           reserve(&d->dims, &d->dims_room, n_dims, sizeof(*d->dims));
}

bool dataset_reserve_joined(struct acltdtDataset *d, size_t bytes)
{
    if (bytes <= d->joined_room)
        return true;
    free(d->joined);
    d->joined_room = 0;
    d->joined =
        aligned_alloc(JOINED_ALIGN, (bytes + JOINED_ALIGN - 1) & ~(size_t)(JOINED_ALIGN - 1));
    if (!d->joined)
        return false;
    d->joined_room = bytes;
    return true;
}

void dataset_drop_message(struct acltdtDataset *d)
{
    struct session *s = session_peek();
    struct mbuf_ref head;

    if (d->state != DATASET_RECEIVED)
        return;
    d->n = 0;
    /* What a session has held goes with it. */
    if (d->message && s && !session_lost(s) && s->serial == d->session &&
        mbuf_check_held(s, d->message, &head))
        mbuf_free(s, &head);
    d->message = NULL;
}

void dataset_take_message(struct acltdtDataset *d, struct session *s, const struct mbuf_ref *head)
{
    dataset_drop_message(d);
    d->state = DATASET_RECEIVED;
    d->session = s->serial;
    d->message = mbuf_handle(head->word, head->ref);
}
