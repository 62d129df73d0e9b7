/*
 * A dataset as one stream of bytes (docs/channels.md):
 *
 *     struct message_head
 *     struct message_entry   of each item
 *     int64_t                dimensions of the first item, the second, ...
 *     data of each item that has some, each at the next multiple of MESSAGE_ALIGN
 *
 * The stream is cut into parts, one for each buffer of a chain. Head, entries and dimensions are in
 * the first part. Where the data of an item is follows from the sizes before it, so no peer can
 * make two items overlap.
 *
 * Libraries of two releases send to each other: another layout has another magic.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/channel/dataset.h"
#include "proto/shm/mbuf_shm.h"

#define MESSAGE_MAGIC UINT32_C(0x31746474) /* "tdt1" */
#define MESSAGE_ALIGN UINT64_C(64)
/* Of a part, unless a chain of MBUF_CHAIN_MAX would be too short. */
#define MESSAGE_PART UINT64_C(268435456)
#define MESSAGE_MAX  (MBUF_CHAIN_MAX * MBUF_SIZE_MAX)

struct message_head {
    uint32_t magic;
    uint32_t n;      /* items */
    uint64_t n_dims; /* of all of them */
};

struct message_entry {
    int32_t kind;      /* acltdtTensorType */
    int32_t data_type; /* aclDataType */
    uint32_t dim_num;
    uint32_t unused; /* 0 */
    uint64_t size;   /* of the data, in bytes */
};

struct message_part {
    unsigned char *data;
    uint64_t size;
};

/** What message_plan() finds out about a dataset. */
struct message_plan {
    uint64_t n_dims;
    uint64_t control; /* bytes before the data */
    uint64_t total;
    uint64_t part; /* bytes of each part but the last one */
};

static inline uint64_t message_align(uint64_t position)
{
    return (position + MESSAGE_ALIGN - 1) & ~(MESSAGE_ALIGN - 1);
}

/**
 * How the dataset becomes a stream with parts of `part` bytes, or larger ones if it must be. False:
 * it is too large for a message.
 */
bool message_plan(const struct acltdtDataset *d, uint64_t part, struct message_plan *plan);

/** Write head, entries and dimensions: plan->control bytes. */
void message_write_control(const struct acltdtDataset *d, const struct message_plan *plan,
                           unsigned char *to);

/**
 * The items of the message that the dataset has taken, whose n parts may change at any time: what
 * is read twice is copied first. 0; ACL_ERROR_FAILURE malformed; ACL_ERROR_UNSUPPORTED_DATA_TYPE an
 * item of a kind that is unknown here; ACL_ERROR_BAD_ALLOC. After an error there are no items.
 * *reason says what is wrong.
 */
int message_read(struct acltdtDataset *d, const struct message_part *parts, uint32_t n,
                 const char **reason);
