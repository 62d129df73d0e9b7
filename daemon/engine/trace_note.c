#include "daemon/engine/trace_note.h"

#include "daemon/core/device.h"
#include "daemon/core/session.h"
#include "daemon/core/stream.h"
#include "daemon/core/trace.h"
#include "proto/util/clock.h"

/*
 * The stream that the calling engine runs, or has run last: what it publishes when it has run a few
 * tasks lets others go on, too. Looked at only while a trace runs, and then each stream passes
 * through trace_note_begin() before it can fire anything.
 */
static __thread const struct stream *running;
/* When its last task ended: the next one has begun then, which saves a look at the clock. */
static __thread uint64_t last_end_ns;

/*
 * An event that is not written yet, and where to: the client that waits for the task does not wait
 * for the lines of the ring as well.
 */
static __thread struct trace_event noted;
static __thread struct trace_ring *noted_ring;

void trace_note_write(void)
{
    if (noted_ring)
        trace_put(noted_ring, &noted);
    noted_ring = NULL;
}

static void note_task(const struct stream *s, enum trace_kind kind, uint64_t end_ns)
{
    trace_note_write();
    noted = (struct trace_event){
        .kind = (uint8_t)kind, .op = s->kept->task.op, .begin_ns = s->traced_ns, .end_ns = end_ns};
    noted.task.session = s->session->id;
    noted.task.position = s->kept->position;
    noted.task.slot = s->slot.number;
    noted.task.stream = stream_id(s);
    noted.task.code = stream_has_failed(s) ? s->kept->failure.code : 0;
    noted_ring = s->attach->device->trace;
}

void trace_note_begin(struct stream *s, uint64_t now)
{
    running = s;
    /* One that has begun before this trace seems to begin with it. */
    if (s->traced_ns < s->attach->device->traced_from)
        s->traced_ns = now > last_end_ns ? now : last_end_ns;
}

void trace_note_result(struct stream *s, enum run_result r)
{
    if (r == RUN_AGAIN)
        return;
    if (r == RUN_WAITS) {
        note_task(s, TRACE_PARKED, s->traced_ns);
        return;
    }
    last_end_ns = clock_ns();
    note_task(s, TRACE_TASK, last_end_ns);
    s->traced_ns = 0;
}

void trace_note_release(const struct stream *s, const struct waiter *w)
{
    const struct stream *from = running;
    struct trace_event event = {.kind = TRACE_RELEASE, .op = s->kept->task.op};

    if (!from || !from->attach->device->trace)
        return; /* the control thread has: the object is gone, or its process is */
    event.begin_ns = event.end_ns = clock_ns();
    event.release.from_session = from->session->id;
    /* A waiter for a position is let go when that is published, which may be some tasks later. */
    event.release.from_position =
        s->kept->task.op == TASK_WAIT_POS && w->target != 0 ? w->target - 1 : from->kept->position;
    event.from_slot = (uint16_t)from->slot.number;
    event.release.session = s->session->id;
    event.release.position = s->kept->position;
    event.slot = (uint16_t)s->slot.number;
    trace_put(from->attach->device->trace, &event);
}

void trace_note_fault(const struct stream *s, uint64_t rule, int32_t code)
{
    struct trace_event event = {.kind = TRACE_FAULT, .op = s->kept->task.op};

    event.begin_ns = event.end_ns = clock_ns();
    event.task.session = s->session->id;
    event.task.position = s->kept->position;
    event.task.slot = s->slot.number;
    event.task.stream = stream_id(s);
    event.task.code = code;
    event.task.rule = (uint32_t)rule;
    trace_put(s->attach->device->trace, &event);
}
