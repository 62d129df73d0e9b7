#include "daemon/admin/queued.h"

#include <stdlib.h>

#include "daemon/base/array.h"
#include "daemon/core/session.h"
#include "daemon/core/stream.h"
#include "daemon/engine/task_row.h"

static bool add_record(struct queued *q, const struct queued_record *record, uint32_t stream)
{
    struct queued_record *all = array_grow(q->record, &q->size, q->n + 1, sizeof(*all));

    if (!all)
        return false;
    q->record = all;
    q->record[q->n] = *record;
    q->record[q->n++].stream = stream;
    return true;
}

/* False: it is nothing that others wait for. */
static bool read_record(const struct task *task, struct queued_record *r)
{
    const struct task_row *row = task_row(task->op);

    *r = (struct queued_record){.op = row->writes ? TASK_VALUE_WRITE : task->op,
                                .object = task->object,
                                .generation = task->generation,
                                .number = task_word(task, row->writes ? row->writes : row->number),
                                .size = row->size ? task_word(task, row->size) : sizeof(uint64_t)};
    return row->writes || (row->completes && (row->only_with == 0 || task->flags & row->only_with));
}

/*
 * False: out of memory. Not further than the client says that it has submitted: the first look at a
 * page of a ring makes the kernel give it memory, and most streams have nothing queued.
 */
static bool scan_stream(struct queued *q, struct stream *s, size_t *budget)
{
    uint64_t head = atomic_load_explicit(&s->done, memory_order_acquire);
    uint64_t tail = atomic_load_explicit(&s->ctrl->tail, memory_order_acquire);

    for (uint64_t p = head; *budget > 0 && p != tail && p - head < s->depth; p++, --*budget) {
        struct queued_record record;
        struct task task;

        if (!stream_read_entry(s, p, &task))
            break;
        if (read_record(&task, &record) && !add_record(q, &record, s->slot.number))
            return false;
    }
    return true;
}

static int compare_records(const void *a, const void *b)
{
    const struct queued_record *x = a, *y = b;

    if (x->op != y->op)
        return x->op < y->op ? -1 : 1;
    if (x->object != y->object)
        return x->object < y->object ? -1 : 1;
    return x->number < y->number ? -1 : x->number > y->number;
}

void queued_init(struct queued *q, struct session *session, size_t *budget)
{
    struct stream *s;

    *q = (struct queued){.complete = true};
    slots_foreach (&session->streams, i, s)
        if (!scan_stream(q, s, budget) || *budget == 0)
            q->complete = false;
    if (q->n)
        qsort(q->record, q->n, sizeof(*q->record), compare_records);
}

void queued_deinit(struct queued *q)
{
    free(q->record);
    *q = (struct queued){0};
}

const struct queued_record *queued_find(const struct queued *q, unsigned op, uint32_t object,
                                        uint64_t number, size_t *n)
{
    const struct queued_record key = {
        .op = (uint8_t)op, .object = object, .number = number == QUEUED_ANY ? 0 : number};
    size_t low = array_lower_bound(q->record, q->n, sizeof(key), &key, compare_records);

    for (*n = 0; low + *n < q->n; ++*n) {
        const struct queued_record *r = &q->record[low + *n];

        if (r->op != op || r->object != object || (number != QUEUED_ANY && r->number != number))
            break;
    }
    return *n ? &q->record[low] : NULL;
}
