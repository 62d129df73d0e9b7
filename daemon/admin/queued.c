#include "daemon/admin/queued.h"

#include <stdlib.h>

#include "daemon/base/array.h"
#include "daemon/base/hash.h"
#include "daemon/core/session.h"
#include "daemon/core/stream.h"
#include "daemon/engine/task_row.h"
#include "proto/util/clock.h"

#define BUCKETS_MIN    64u
#define BUCKETS_MAX    65536u
#define LOOKS_PER_TIME 32 /* at entries, or streams, before the clock is looked at */

static uint32_t *bucket_of(const struct queued *q, unsigned op, uint32_t object, uint64_t number)
{
    const uint64_t key[2] = {(uint64_t)op << 32 | object, op == TASK_IPC_RECORD ? number : 0};

    return &q->bucket[hash_key(key, sizeof(key)) & (q->n_buckets - 1)];
}

/* A ring may have thousands of records of one object: one of them tells as much as all. */
static bool is_known(const struct queued_record *last, const struct queued_record *r)
{
    return last->stream == r->stream && last->op == r->op && last->object == r->object &&
           last->generation == r->generation && last->number == r->number && last->size == r->size;
}

static bool add_record(struct queued *q, const struct queued_record *record)
{
    uint32_t *bucket = bucket_of(q, record->op, record->object, record->number);
    struct queued_record *all;

    if (*bucket != 0 && is_known(&q->record[*bucket - 1], record))
        return true;
    all = array_grow(q->record, &q->size, q->n + 1, sizeof(*all));
    if (!all)
        return false;
    q->record = all;
    q->record[q->n] = *record;
    q->record[q->n].next = *bucket;
    *bucket = (uint32_t)++q->n;
    return true;
}

/* False: it is nothing that others wait for. */
static bool read_record(const struct task *task, struct queued_record *r)
{
    const struct task_row *row = task_row(task->op);

    *r = (struct queued_record){.op = row->writes ? TASK_VALUE_WRITE : task->op,
                                .object = task->object,
                                .generation = task->generation,
                                .size = row->size ? task_word(task, row->size) : sizeof(uint64_t)};
    /* Only these are told by their number. */
    if (row->writes || task->op == TASK_IPC_RECORD)
        r->number = task_word(task, row->writes ? row->writes : row->number);
    return row->writes || (row->completes && (row->only_with == 0 || task->flags & row->only_with));
}

/*
 * From q->position on. False: the slice is over, or the budget. Not further than the client says
 * that it has submitted: the first look at a page of a ring makes the kernel give it memory, and
 * most streams have nothing queued.
 */
static bool scan_stream(struct queued *q, struct stream *s, size_t *budget, uint64_t until)
{
    uint64_t head = atomic_load_explicit(&s->live->done, memory_order_acquire);
    uint64_t tail = atomic_load_explicit(&s->ctrl->tail, memory_order_acquire);
    uint64_t p = q->position - head < s->depth ? q->position : head;

    for (unsigned n = 0; p != tail && p - head < s->depth; p++, n++, --*budget) {
        struct queued_record record;
        struct task task;

        q->position = p;
        if (*budget == 0 || (n % LOOKS_PER_TIME == LOOKS_PER_TIME - 1 && clock_ns() >= until))
            return false;
        if (!stream_read_entry(s, p, &task))
            break;
        if (!read_record(&task, &record))
            continue;
        record.stream = s->slot.number;
        if (!add_record(q, &record))
            q->complete = false;
    }
    return true;
}

/* False: no memory. */
static bool begin_scan(struct queued *q, const struct session *session)
{
    uint32_t n = BUCKETS_MIN;

    while (n < BUCKETS_MAX && n < 16 * session->streams.live)
        n *= 2;
    q->bucket = calloc(n, sizeof(*q->bucket));
    q->n_buckets = n;
    q->complete = q->bucket != NULL;
    return q->complete;
}

bool queued_scan(struct queued *q, struct session *session, size_t *budget, uint64_t until)
{
    if (!q->bucket && !begin_scan(q, session))
        return true;
    for (unsigned n = 1; q->slot < session->streams.end; n++, q->slot++, q->position = 0) {
        struct stream *s = slots_get(&session->streams, q->slot);

        if (s && !scan_stream(q, s, budget, until)) {
            q->complete &= *budget > 0;
            return *budget == 0;
        }
        if (n % LOOKS_PER_TIME == 0 && clock_ns() >= until) {
            q->slot++;
            q->position = 0;
            return false;
        }
    }
    return true;
}

void queued_deinit(struct queued *q)
{
    free(q->record);
    free(q->bucket);
    *q = (struct queued){0};
}

const struct queued_record *queued_next(const struct queued *q, unsigned op, uint32_t object,
                                        uint64_t number, const struct queued_record *last)
{
    const struct queued_record *r;
    uint32_t at;

    if (!q->bucket)
        return NULL;
    for (at = last ? last->next : *bucket_of(q, op, object, number); at != 0; at = r->next) {
        r = &q->record[at - 1];
        if (r->op == op && r->object == object && (number == QUEUED_ANY || r->number == number))
            return r;
    }
    return NULL;
}
