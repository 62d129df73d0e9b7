#include "client/channel/message.h"

#include <string.h>

#include "acl/acl.h"

/* --- writing --- */

/* The sum, or false if it is beyond MESSAGE_MAX. */
static bool add_bytes(uint64_t *sum, uint64_t bytes)
{
    if (bytes > MESSAGE_MAX || *sum > MESSAGE_MAX - bytes)
        return false;
    *sum += bytes;
    return true;
}

bool message_plan(const struct acltdtDataset *d, uint64_t part, struct message_plan *plan)
{
    uint64_t end;

    if (d->n > UINT32_MAX)
        return false;
    plan->n_dims = 0;
    for (size_t i = 0; i < d->n; i++)
        plan->n_dims += dataset_item(d, i)->dim_num;
    end = sizeof(struct message_head) + d->n * sizeof(struct message_entry) +
          plan->n_dims * sizeof(int64_t);
    plan->control = end;
    for (size_t i = 0; i < d->n; i++) {
        if (dataset_item(d, i)->size == 0)
            continue;
        end = message_align(end);
        if (!add_bytes(&end, dataset_item(d, i)->size))
            return false;
    }
    plan->total = end;
    while (part < MBUF_SIZE_MAX && part * MBUF_CHAIN_MAX < end)
        part *= 2;
    plan->part = part < MBUF_SIZE_MAX ? part : MBUF_SIZE_MAX;
    return end <= plan->part * MBUF_CHAIN_MAX && plan->control <= plan->part;
}

void message_write_control(const struct acltdtDataset *d, const struct message_plan *plan,
                           unsigned char *to)
{
    struct message_head head = {
        .magic = MESSAGE_MAGIC, .n = (uint32_t)d->n, .n_dims = plan->n_dims};
    unsigned char *dims = to + sizeof(head) + d->n * sizeof(struct message_entry);

    memcpy(to, &head, sizeof(head));
    to += sizeof(head);
    for (size_t i = 0; i < d->n; i++) {
        const struct acltdtDataItem *item = dataset_item(d, i);
        struct message_entry entry = {.kind = item->kind,
                                      .data_type = item->data_type,
                                      .dim_num = (uint32_t)item->dim_num,
                                      .size = item->size};

        memcpy(to, &entry, sizeof(entry));
        to += sizeof(entry);
        if (item->dim_num > 0)
            memcpy(dims, item->dims, item->dim_num * sizeof(int64_t));
        dims += item->dim_num * sizeof(int64_t);
    }
}

/* --- reading --- */

/* A message that is read. What has been copied of it is in the dataset. */
struct reading {
    struct acltdtDataset *d;
    const struct message_part *parts;
    uint32_t n_parts;
    uint64_t total; /* bytes in all parts */
    struct message_head head;
    uint64_t control;
    /* The part that `position` is in, and where that begins. */
    uint32_t at;
    uint64_t at_start;
};

/* Head and dimensions are copied, and there is room for the items. 0, or the ACL error. */
static int read_head(struct reading *r, const char **reason)
{
    uint64_t room = r->parts[0].size;

    *reason = "it is too short";
    if (room < sizeof(r->head))
        return ACL_ERROR_FAILURE;
    memcpy(&r->head, r->parts[0].data, sizeof(r->head));
    room -= sizeof(r->head);
    if (r->head.magic != MESSAGE_MAGIC) {
        *reason = "no dataset of this library's layout was sent";
        return ACL_ERROR_FAILURE;
    }
    if (r->head.n == 0 || r->head.n > room / sizeof(struct message_entry))
        return ACL_ERROR_FAILURE;
    room -= r->head.n * sizeof(struct message_entry);
    if (r->head.n_dims > room / sizeof(int64_t))
        return ACL_ERROR_FAILURE;
    r->control = r->parts[0].size - room + r->head.n_dims * sizeof(int64_t);
    *reason = "there is no memory for its items";
    if (!dataset_reserve(r->d, r->head.n, r->head.n_dims))
        return ACL_ERROR_BAD_ALLOC;
    if (r->head.n_dims > 0)
        memcpy(r->d->dims, r->parts[0].data + r->control - r->head.n_dims * sizeof(int64_t),
               r->head.n_dims * sizeof(int64_t));
    return 0;
}

/* NULL, or what is wrong with an entry, of which n_dims dimensions are left. */
static const char *find_entry_fault(const struct message_entry *entry, uint64_t n_dims)
{
    if (entry->dim_num > ITEM_DIMS_MAX || entry->dim_num > n_dims)
        return "an item has more dimensions than there are";
    if (entry->kind != ACL_TENSOR_DATA_TENSOR && (entry->size != 0 || entry->dim_num != 0))
        return "an item that is no tensor has data";
    return NULL;
}

/* The items, as yet without their data. 0, or the ACL error. */
static int read_entries(struct reading *r, const char **reason)
{
    const unsigned char *from = r->parts[0].data + sizeof(r->head);
    uint64_t end = r->control, n_dims = r->head.n_dims;
    const int64_t *dims = r->d->dims;
    struct message_entry entry;

    for (uint32_t i = 0; i < r->head.n; i++, from += sizeof(entry)) {
        memcpy(&entry, from, sizeof(entry));
        if (entry.kind < ACL_TENSOR_DATA_TENSOR || entry.kind > ACL_TENSOR_DATA_ABNORMAL) {
            *reason = "an item of it has a type that this library does not know";
            return ACL_ERROR_UNSUPPORTED_DATA_TYPE;
        }
        *reason = find_entry_fault(&entry, n_dims);
        if (*reason)
            return ACL_ERROR_FAILURE;
        if (entry.size > 0)
            end = message_align(end);
        *reason = "an item leaves it";
        if (end > r->total || entry.size > r->total - end)
            return ACL_ERROR_FAILURE;
        end += entry.size;
        r->d->received[i] = (struct acltdtDataItem){.kind = (acltdtTensorType)entry.kind,
                                                    .data_type = (aclDataType)entry.data_type,
                                                    .dim_num = entry.dim_num,
                                                    .dims = dims,
                                                    .size = entry.size};
        dims += entry.dim_num;
        n_dims -= entry.dim_num;
    }
    *reason = "it is longer than its items";
    return end == r->total && n_dims == 0 ? 0 : ACL_ERROR_FAILURE;
}

/* Go to the part that has this byte, which is not before those of the last call. */
static void go_to(struct reading *r, uint64_t position)
{
    while (position - r->at_start >= r->parts[r->at].size)
        r->at_start += r->parts[r->at++].size;
}

/* Is the item in one part? Then its data is there. */
static bool is_whole(struct reading *r, struct acltdtDataItem *item, uint64_t position)
{
    go_to(r, position);
    if (item->size > r->parts[r->at].size - (position - r->at_start))
        return false;
    item->data = r->parts[r->at].data + (position - r->at_start);
    return true;
}

static void copy_parts(struct reading *r, unsigned char *to, uint64_t position, uint64_t size)
{
    while (size > 0) {
        uint64_t offset, count;

        go_to(r, position);
        offset = position - r->at_start;
        count = r->parts[r->at].size - offset;
        count = count < size ? count : size;
        memcpy(to, r->parts[r->at].data + offset, count);
        to += count;
        position += count;
        size -= count;
    }
}

/* Where the data of the items is; those that are cut are copied if `join`. Bytes of these. */
static uint64_t find_data(struct reading *r, bool join)
{
    uint64_t position = r->control, bytes = 0;

    r->at = 0;
    r->at_start = 0;
    for (uint32_t i = 0; i < r->head.n; i++) {
        struct acltdtDataItem *item = &r->d->received[i];

        if (item->size == 0)
            continue;
        position = message_align(position);
        if (!is_whole(r, item, position)) {
            if (join) {
                item->data = r->d->joined + bytes;
                copy_parts(r, item->data, position, item->size);
            }
            bytes += message_align(item->size);
        }
        position += item->size;
    }
    return bytes;
}

int message_read(struct acltdtDataset *d, const struct message_part *parts, uint32_t n,
                 const char **reason)
{
    struct reading r = {.d = d, .parts = parts, .n_parts = n};
    uint64_t bytes;
    int error;

    for (uint32_t i = 0; i < n; i++)
        r.total += parts[i].size;
    error = read_head(&r, reason);
    if (error == 0)
        error = read_entries(&r, reason);
    if (error != 0)
        return error;
    bytes = find_data(&r, false);
    *reason = "there is no memory to join its parts";
    if (bytes > 0 && !dataset_reserve_joined(d, bytes))
        return ACL_ERROR_BAD_ALLOC;
    if (bytes > 0)
        find_data(&r, true);
    d->n = r.head.n;
    return 0;
}
