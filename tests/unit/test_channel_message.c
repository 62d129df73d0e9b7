/*
 * The layout of messages in channels (client/channel/message.h): datasets that are written in parts
 * of any size and read again, and messages of a hostile peer. All memory is as large as it must be,
 * so that a sanitizer sees a step beyond it.
 */
#include "client/channel/message.h"

#include <stdlib.h>
#include <string.h>

#include "acl/acl.h"
#include "tests/common/chance.h"
#include "tests/common/effort.h"
#include "unit.h"

#define ITEMS_MAX 12u
#define DATA_MAX  300u

/* --- what the module needs of datasets --- */

bool dataset_reserve(struct acltdtDataset *d, size_t n, size_t n_dims)
{
    free(d->received);
    free(d->dims);
    d->received = calloc(n, sizeof(*d->received));
    d->dims = calloc(n_dims, sizeof(*d->dims));
    return true;
}

static bool no_memory;

bool dataset_reserve_joined(struct acltdtDataset *d, size_t bytes)
{
    free(d->joined);
    d->joined = malloc(bytes);
    d->joined_room = bytes;
    return !no_memory;
}

/* --- datasets --- */

/* Bytes that are data of the items, and dimensions. */
static unsigned char bytes[ITEMS_MAX][DATA_MAX];
static int64_t dims[ITEM_DIMS_MAX];

static struct acltdtDataItem items[ITEMS_MAX];
static struct acltdtDataItem *pointers[ITEMS_MAX];

static void draw_item(struct acltdtDataItem *item, unsigned char *data, uint64_t *seed)
{
    *item = (struct acltdtDataItem){.kind = draw_below(seed, 3), .data_type = ACL_DT_UNDEFINED};
    if (item->kind != ACL_TENSOR_DATA_TENSOR)
        return;
    item->data_type = (aclDataType)draw_below(seed, 30);
    item->dim_num = draw_chance(seed, 5) ? ITEM_DIMS_MAX : draw_below(seed, 6);
    item->dims = dims;
    item->size = draw_chance(seed, 20) ? 0 : 1 + draw_below(seed, DATA_MAX);
    item->data = item->size > 0 ? data : NULL;
}

static struct acltdtDataset draw_dataset(uint64_t *seed)
{
    struct acltdtDataset d = {
        .state = DATASET_FILLED, .n = 1 + draw_below(seed, ITEMS_MAX), .items = pointers};

    for (unsigned i = 0; i < ITEM_DIMS_MAX; i++)
        dims[i] = (int64_t)draw_random(seed);
    for (size_t i = 0; i < d.n; i++) {
        for (unsigned k = 0; k < DATA_MAX; k++)
            bytes[i][k] = (unsigned char)draw_random(seed);
        draw_item(&items[i], bytes[i], seed);
        pointers[i] = &items[i];
    }
    return d;
}

/* The stream in one piece, of plan->total bytes. */
static unsigned char *write_stream(const struct acltdtDataset *d, const struct message_plan *plan)
{
    unsigned char *stream = malloc(plan->total);
    uint64_t position = plan->control;

    memset(stream, 0xee, plan->total);
    message_write_control(d, plan, stream);
    for (size_t i = 0; i < d->n; i++) {
        if (d->items[i]->size == 0)
            continue;
        position = message_align(position);
        memcpy(stream + position, d->items[i]->data, d->items[i]->size);
        position += d->items[i]->size;
    }
    ck_assert_uint_eq(position, plan->total);
    return stream;
}

/* Parts of these sizes at most, the first of which has `first` bytes. Returns how many. */
static uint32_t cut_stream(const unsigned char *stream, uint64_t total, uint64_t first,
                           uint64_t most, uint64_t *seed, struct message_part *parts)
{
    uint32_t n = 0;

    for (uint64_t at = 0; at < total; n++) {
        uint64_t size = n == 0 ? first : most == 0 ? total : 1 + draw_below(seed, (unsigned)most);

        if (size > total - at || n + 1 == MBUF_CHAIN_MAX)
            size = total - at;
        parts[n] = (struct message_part){malloc(size), size};
        memcpy(parts[n].data, stream + at, size);
        at += size;
    }
    return n;
}

static void free_all(struct message_part *parts, uint32_t n, struct acltdtDataset *d)
{
    for (uint32_t i = 0; i < n; i++)
        free(parts[i].data);
    free(d->received);
    free(d->dims);
    free(d->joined);
}

static bool holds(const void *base, size_t size, const struct acltdtDataItem *item)
{
    uintptr_t from = (uintptr_t)base, at = (uintptr_t)item->data;

    return base && at >= from && item->size <= size && at - from <= size - item->size;
}

/* Whatever was sent, the items are within the message. */
static void expect_inside(const struct acltdtDataset *d, const struct message_part *parts,
                          uint32_t n)
{
    for (size_t i = 0; i < d->n; i++) {
        const struct acltdtDataItem *item = &d->received[i];
        bool inside = item->size == 0 || holds(d->joined, d->joined_room, item);

        for (uint32_t k = 0; k < n; k++)
            inside |= holds(parts[k].data, parts[k].size, item);
        ck_assert(inside);
        ck_assert_uint_le(item->dim_num, ITEM_DIMS_MAX);
    }
}

static void expect_same(const struct acltdtDataset *sent, const struct acltdtDataset *d)
{
    ck_assert_uint_eq(d->n, sent->n);
    for (size_t i = 0; i < d->n; i++) {
        const struct acltdtDataItem *a = sent->items[i], *b = &d->received[i];

        ck_assert_int_eq(a->kind, b->kind);
        ck_assert_int_eq(a->data_type, b->data_type);
        ck_assert_uint_eq(a->dim_num, b->dim_num);
        ck_assert(a->dim_num == 0 || memcmp(a->dims, b->dims, a->dim_num * 8) == 0);
        ck_assert_uint_eq(a->size, b->size);
        ck_assert(a->size == 0 ? b->data == NULL : memcmp(a->data, b->data, a->size) == 0);
    }
}

START_TEST(what_is_written_is_read)
{
    uint64_t seed = 34;

    for (unsigned round = choose_effort(3000, 100000); round > 0; round--) {
        struct acltdtDataset sent = draw_dataset(&seed), got = {.state = DATASET_RECEIVED};
        struct message_part parts[MBUF_CHAIN_MAX];
        struct message_plan plan;
        unsigned char *stream;
        const char *reason;
        uint64_t first;
        uint32_t n;

        ck_assert(message_plan(&sent, MESSAGE_PART, &plan));
        stream = write_stream(&sent, &plan);
        first = plan.control + draw_below(&seed, 200);
        n = cut_stream(stream, plan.total, first, draw_chance(&seed, 30) ? 0 : 400, &seed, parts);
        ck_assert_int_eq(message_read(&got, parts, n, &reason), 0);
        expect_same(&sent, &got);
        expect_inside(&got, parts, n);
        free(stream);
        free_all(parts, n, &got);
    }
}
END_TEST

/* Bytes of the head and of the entries are changed, or the message is shorter or longer. */
static void damage(unsigned char *stream, uint64_t *total, const struct message_plan *plan,
                   uint64_t *seed)
{
    static const uint64_t values[] = {
        0, 1, 127, 129, INT32_MAX, UINT32_MAX, UINT64_MAX >> 1, UINT64_MAX};
    uint64_t value = values[draw_below(seed, 8)];
    unsigned width = draw_chance(seed, 50) ? 4 : 8;

    if (draw_chance(seed, 20))
        *total = draw_below(seed, (unsigned)*total) + 1;
    else if (draw_chance(seed, 60))
        memcpy(stream + 4 * draw_below(seed, (unsigned)(plan->control - width) / 4 + 1), &value,
               width);
    else
        stream[draw_below(seed, (unsigned)plan->control)] ^=
            (unsigned char)(1 + draw_below(seed, 255));
}

START_TEST(what_a_hostile_peer_writes_is_refused)
{
    uint64_t seed = 43;
    unsigned refused = 0;

    for (unsigned round = choose_effort(20000, 1000000); round > 0; round--) {
        struct acltdtDataset sent = draw_dataset(&seed), got = {.state = DATASET_RECEIVED};
        struct message_part parts[MBUF_CHAIN_MAX];
        struct message_plan plan;
        unsigned char *stream;
        const char *reason;
        uint64_t total;
        uint32_t n;
        int error;

        ck_assert(message_plan(&sent, MESSAGE_PART, &plan));
        stream = write_stream(&sent, &plan);
        total = plan.total;
        damage(stream, &total, &plan, &seed);
        n = cut_stream(stream, total, 1 + draw_below(&seed, (unsigned)total + 100), 400, &seed,
                       parts);
        error = message_read(&got, parts, n, &reason);
        if (error == 0)
            expect_inside(&got, parts, n);
        else
            ck_assert_uint_eq(got.n, 0);
        ck_assert(error == 0 || error == ACL_ERROR_FAILURE ||
                  error == ACL_ERROR_UNSUPPORTED_DATA_TYPE);
        refused += error != 0;
        free(stream);
        free_all(parts, n, &got);
    }
    ck_assert_uint_gt(refused, 1000);
}
END_TEST

/* --- one fault each --- */

struct one {
    struct message_head head;
    struct message_entry entry;
    int64_t dim;
    unsigned char pad[16];
    unsigned char data[8];
};
_Static_assert(offsetof(struct one, data) == 64, "where the data of one item begins");

static int read_one(const struct one *one, uint64_t size)
{
    struct acltdtDataset d = {.state = DATASET_RECEIVED};
    struct message_part part = {malloc(size), size};
    const char *reason = NULL;
    int error;

    memcpy(part.data, one, size);
    error = message_read(&d, &part, 1, &reason);
    ck_assert(error == 0 || reason);
    ck_assert_uint_eq(d.n, error == 0);
    free_all(&part, 1, &d);
    return error;
}

#define ONE(member, value)                                                                         \
    ({                                                                                             \
        struct one one_ = sound;                                                                   \
        one_.member = (value);                                                                     \
        read_one(&one_, sizeof(one_));                                                             \
    })

START_TEST(each_fault_is_seen)
{
    static const struct one sound = {
        .head = {.magic = MESSAGE_MAGIC, .n = 1, .n_dims = 1},
        .entry = {.kind = ACL_TENSOR_DATA_TENSOR, .dim_num = 1, .size = 8},
        .dim = 8,
    };
    struct one two = sound;

    ck_assert_int_eq(read_one(&sound, sizeof(sound)), 0);
    for (uint64_t size = 1; size < sizeof(sound); size++)
        ck_assert_int_eq(read_one(&sound, size), ACL_ERROR_FAILURE);
    ck_assert_int_eq(ONE(head.magic, 0), ACL_ERROR_FAILURE);
    ck_assert_int_eq(ONE(head.n, 0), ACL_ERROR_FAILURE);
    ck_assert_int_eq(ONE(head.n, 2), ACL_ERROR_FAILURE);
    ck_assert_int_eq(ONE(head.n, UINT32_MAX), ACL_ERROR_FAILURE);
    ck_assert_int_eq(ONE(head.n_dims, 0), ACL_ERROR_FAILURE);
    ck_assert_int_eq(ONE(head.n_dims, 2), ACL_ERROR_FAILURE);
    ck_assert_int_eq(ONE(head.n_dims, UINT64_MAX), ACL_ERROR_FAILURE);
    ck_assert_int_eq(ONE(head.n_dims, UINT64_MAX / 8 + 2), ACL_ERROR_FAILURE);
    ck_assert_int_eq(ONE(entry.dim_num, 0), ACL_ERROR_FAILURE);
    ck_assert_int_eq(ONE(entry.dim_num, 2), ACL_ERROR_FAILURE);
    ck_assert_int_eq(ONE(entry.size, 7), ACL_ERROR_FAILURE);
    ck_assert_int_eq(ONE(entry.size, 9), ACL_ERROR_FAILURE);
    ck_assert_int_eq(ONE(entry.size, 0), ACL_ERROR_FAILURE);
    ck_assert_int_eq(ONE(entry.size, UINT64_MAX), ACL_ERROR_FAILURE);
    ck_assert_int_eq(ONE(entry.kind, ACL_TENSOR_DATA_END_OF_SEQUENCE), ACL_ERROR_FAILURE);
    ck_assert_int_eq(ONE(entry.kind, ACL_TENSOR_DATA_SLICE_TENSOR),
                     ACL_ERROR_UNSUPPORTED_DATA_TYPE);
    ck_assert_int_eq(ONE(entry.kind, -1), ACL_ERROR_UNSUPPORTED_DATA_TYPE);
    /* More dimensions than an item has: they would be there. */
    two.head.n_dims = two.entry.dim_num = 3;
    two.entry.size = 8;
    ck_assert_int_eq(read_one(&two, sizeof(two)), 0);
}
END_TEST

START_TEST(memory_is_short)
{
    uint64_t seed = 1;
    struct acltdtDataItem item = {.size = DATA_MAX, .data = bytes[0]}, *list[] = {&item};
    struct acltdtDataset sent = {.state = DATASET_FILLED, .n = 1, .items = list};
    struct acltdtDataset got = {.state = DATASET_RECEIVED};
    struct message_part parts[MBUF_CHAIN_MAX];
    struct message_plan plan;
    unsigned char *stream;
    const char *reason;
    uint32_t n;

    ck_assert(message_plan(&sent, MESSAGE_PART, &plan));
    stream = write_stream(&sent, &plan);
    n = cut_stream(stream, plan.total, 100, 10, &seed, parts);
    no_memory = true;
    ck_assert_int_eq(message_read(&got, parts, n, &reason), ACL_ERROR_BAD_ALLOC);
    ck_assert_uint_eq(got.n, 0);
    no_memory = false;
    free(stream);
    free_all(parts, n, &got);
}
END_TEST

/* --- plans --- */

static bool plan_sizes(const uint64_t *sizes, size_t n, uint64_t part, struct message_plan *plan)
{
    struct acltdtDataset d = {.state = DATASET_FILLED, .n = n, .items = pointers};

    for (size_t i = 0; i < n; i++) {
        items[i] = (struct acltdtDataItem){.size = sizes[i]};
        pointers[i] = &items[i];
    }
    return message_plan(&d, part, plan);
}

START_TEST(a_message_fits_into_a_chain)
{
    static const uint64_t sizes[] = {1,
                                     63,
                                     64,
                                     65,
                                     4096,
                                     MESSAGE_PART,
                                     MESSAGE_PART + 1,
                                     MESSAGE_PART * MBUF_CHAIN_MAX - 64,
                                     MESSAGE_PART * MBUF_CHAIN_MAX - 63,
                                     MESSAGE_PART * MBUF_CHAIN_MAX,
                                     MESSAGE_MAX / 2 + 1,
                                     MESSAGE_MAX - 64};
    static const uint64_t too_large[][2] = {{MESSAGE_MAX - 63, 0},
                                            {MESSAGE_MAX, 0},
                                            {SIZE_MAX, 0},
                                            {SIZE_MAX - 63, 0},
                                            {MESSAGE_MAX / 2, MESSAGE_MAX / 2},
                                            {SIZE_MAX, SIZE_MAX}};
    struct message_plan plan;

    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        ck_assert(plan_sizes(&sizes[i], 1, MESSAGE_PART, &plan));
        ck_assert_uint_eq(plan.control, sizeof(struct message_head) + sizeof(struct message_entry));
        ck_assert_uint_eq(plan.total, 64 + sizes[i]);
        ck_assert_uint_le(plan.part, MBUF_SIZE_MAX);
        ck_assert_uint_le((plan.total + plan.part - 1) / plan.part, MBUF_CHAIN_MAX);
        ck_assert(plan.part == MESSAGE_PART || plan.part / 2 * MBUF_CHAIN_MAX < plan.total);
    }
    for (size_t i = 0; i < sizeof(too_large) / sizeof(too_large[0]); i++)
        ck_assert(!plan_sizes(too_large[i], 2, MESSAGE_PART, &plan));
    /* What is before the data is in the first part. */
    ck_assert(!plan_sizes(sizes, 3, 64, &plan));
    ck_assert(plan_sizes(sizes, 2, 64, &plan));
}
END_TEST

int main(void)
{
    Suite *s = suite_create("channel_message");
    TCase *t = suite_case(s, "message", 300, NULL, NULL);

    tcase_add_test(t, what_is_written_is_read);
    tcase_add_test(t, what_a_hostile_peer_writes_is_refused);
    tcase_add_test(t, each_fault_is_seen);
    tcase_add_test(t, memory_is_short);
    tcase_add_test(t, a_message_fits_into_a_chain);
    return run_suite(s);
}
