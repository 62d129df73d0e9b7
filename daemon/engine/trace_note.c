#include "daemon/engine/trace_note.h"

#include "daemon/core/device.h"
#include "daemon/core/session.h"
#include "daemon/core/stream.h"
#include "daemon/core/trace.h"
#include "daemon/engine/task_row.h"
#include "daemon/memory/allocation.h"
#include "proto/util/clock.h"

/*
 * A glance at some hundred streams and a quick task take less. If more has passed until the task
 * was over, the engine was interrupted, most likely between its look at the clock and the glance.
 * The task may have been submitted long after that look: it is said to begin when it was over.
 */
#define GLANCE_NS NSEC_PER_USEC

__thread const struct stream *trace_note_running;
/* When the last task of the calling engine was over. */
static __thread uint64_t last_end_ns;
/* The task that is about to run begins at a time from before the glance that found it. */
static __thread bool begins_early;
/*
 * What is noted of that task, and not written yet: the client that waits for the task waits
 * neither for the lines of the ring nor for the clock.
 */
static __thread struct {
    const struct stream *stream; /* NULL: nothing is */
    enum trace_kind kind;
    uint8_t op;
    bool early;
    int32_t code;
    enum trace_way way;
    uint64_t position, begin_ns, bytes;
} noted;

static void write_noted(uint64_t end_ns)
{
    const struct stream *s = noted.stream;
    struct trace_event event = {
        .kind = (uint8_t)noted.kind, .op = noted.op, .begin_ns = noted.begin_ns};

    if (noted.early && end_ns - noted.begin_ns > GLANCE_NS)
        event.begin_ns = end_ns;
    noted.stream = NULL;
    last_end_ns = end_ns;
    event.end_ns = noted.kind == TRACE_PARKED ? noted.begin_ns : end_ns;
    event.task.session = s->session->id;
    event.task.position = noted.position;
    event.task.slot = s->slot.number;
    event.task.stream = stream_id(s);
    event.task.code = noted.code;
    if (noted.kind == TRACE_TASK) {
        event.way = (uint16_t)noted.way;
        event.bytes_high = (uint32_t)(noted.bytes >> 32);
        event.task.bytes_low = (uint32_t)noted.bytes;
    }
    trace_put(s->attach->device->trace, &event);
}

void trace_note_write(void)
{
    if (noted.stream)
        write_noted(clock_ns());
    trace_note_running = NULL;
}

void trace_note_quick(struct stream *s, uint64_t now, bool early)
{
    begins_early = early;
    s->traced_ns = now > last_end_ns ? now : last_end_ns;
}

void trace_note_begin(struct stream *s)
{
    bool over = noted.stream != NULL;

    trace_note_running = s;
    if (over)
        write_noted(clock_ns());
    /* One that has begun before this trace seems to begin with it. */
    if (s->traced_ns < s->attach->device->traced_from)
        s->traced_ns = over ? last_end_ns : clock_ns();
}

static bool is_host(const struct stream *s, uint32_t slot, uint32_t generation)
{
    const struct mem *m = allocation_get_begun(s->session, slot, generation);

    return m && m->pages->kind == MEM_HOST;
}

/* What the task has moved, if it is one that does. */
static void note_bytes(const struct stream *s, const struct task *task)
{
    bool to_host;

    noted.bytes = 0;
    noted.way = TRACE_WAY_NONE;
    if (task->op != TASK_COPY && task->op != TASK_REDUCE && task->op != TASK_SET)
        return;
    to_host = is_host(s, task->object, task->generation);
    if (task->op == TASK_COPY) {
        noted.bytes = task->copy.size;
        noted.way = trace_way_of(is_host(s, task->copy.src, task->copy.src_generation), to_host);
    } else if (task->op == TASK_REDUCE) {
        noted.bytes = task->reduce.size;
        noted.way =
            trace_way_of(is_host(s, task->reduce.src, task->reduce.src_generation), to_host);
    } else {
        noted.bytes = task->set.size;
        noted.way = to_host ? TRACE_TO_HOST : TRACE_TO_DEVICE;
    }
}

void trace_note_result(struct stream *s, enum run_result r)
{
    bool early = begins_early;

    begins_early = false;
    if (r == RUN_AGAIN)
        return;
    noted.stream = s;
    noted.early = early;
    noted.kind = r == RUN_WAITS ? TRACE_PARKED : TRACE_TASK;
    noted.op = s->live->task.op;
    noted.code = stream_has_failed(s) ? s->live->failure.code : 0;
    noted.position = s->live->position;
    note_bytes(s, &s->live->task);
    noted.begin_ns = s->traced_ns;
    if (r != RUN_WAITS)
        s->traced_ns = 0;
}

void trace_note_release(const struct stream *s, const struct waiter *w)
{
    const struct task_row *row = task_row(s->live->task.op);
    const struct stream *from = trace_note_running;
    struct trace_event event = {.kind = TRACE_RELEASE, .op = s->live->task.op};

    event.begin_ns = event.end_ns = clock_ns();
    event.release.from_session = from->session->id;
    /* A waiter for a position is let go when that is published, which may be some tasks later. */
    event.release.from_position = row->waits_for == WAITS_FOR_POSITION && w->target != 0
                                      ? w->target - 1
                                      : from->live->position;
    event.from_slot = (uint16_t)from->slot.number;
    event.release.session = s->session->id;
    event.release.position = s->live->position;
    event.slot = (uint16_t)s->slot.number;
    trace_put(from->attach->device->trace, &event);
}

void trace_note_fault(const struct stream *s, uint64_t rule, int32_t code)
{
    struct trace_event event = {.kind = TRACE_FAULT, .op = s->live->task.op};

    event.begin_ns = event.end_ns = clock_ns();
    event.task.session = s->session->id;
    event.task.position = s->live->position;
    event.task.slot = s->slot.number;
    event.task.stream = stream_id(s);
    event.task.code = code;
    event.task.rule = (uint32_t)rule;
    trace_put(s->attach->device->trace, &event);
}
