/*
 * Data items and datasets (acl/acl_tdt.h): what programs send, and what they have received. They
 * are for one thread at a time.
 *
 * A dataset is filled by the program, which then owns the items; or by a receive. Then the items
 * are its own, and it owns the message that they point into, a chain of shared buffers, until the
 * next receive or its end.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "acl/acl_tdt.h"
#include "client/buffers/mbuf.h"

#define ITEM_DIMS_MAX 128u

struct acltdtDataItem {
    acltdtTensorType kind;
    aclDataType data_type;
    size_t dim_num;
    const int64_t *dims; /* behind the item, or in the dataset that has received it */
    void *data;          /* of the program, or in the message */
    size_t size;
};

enum dataset_state {
    DATASET_EMPTY,
    DATASET_FILLED,   /* by the program: items */
    DATASET_RECEIVED, /* received */
};

struct acltdtDataset {
    enum dataset_state state;
    size_t n; /* items */
    struct acltdtDataItem **items;
    size_t items_room;
    bool host, device; /* there are items in memory of that side alone */

    struct acltdtDataItem *received;
    size_t received_room;
    int64_t *dims;
    size_t dims_room;
    unsigned char *joined; /* copies of items that are cut in the message */
    size_t joined_room;
    uint64_t session;  /* serial, of the session that holds `message` */
    acltdtBuf message; /* NULL: none */
};

/** Item `index`, which there is. */
static inline const struct acltdtDataItem *dataset_item(const struct acltdtDataset *d, size_t index)
{
    return d->state == DATASET_RECEIVED ? &d->received[index] : d->items[index];
}

/** Room for n received items and n_dims dimensions. False: no memory. */
bool dataset_reserve(struct acltdtDataset *d, size_t n, size_t n_dims);

/** Room for `bytes` of copies, at a multiple of 64. False: no memory. */
bool dataset_reserve_joined(struct acltdtDataset *d, size_t bytes);

/** What was received before goes; then the dataset owns the message, and has no items yet. */
void dataset_take_message(struct acltdtDataset *d, struct session *s, const struct mbuf_ref *head);

/** Free what was received: the dataset has no items any more. */
void dataset_drop_message(struct acltdtDataset *d);
