#include "daemon/engine/trace_note.h"

#include "daemon/core/device.h"
#include "daemon/core/session.h"
#include "daemon/core/stream.h"
#include "daemon/core/trace.h"
#include "proto/util/clock.h"

__thread const struct stream *trace_note_running;
/*
 * What is noted of its last task, and not written yet: the client that waits for the task waits
 * neither for the lines of the ring nor for the clock.
 */
static __thread struct {
    const struct stream *stream; /* NULL: nothing is */
    enum trace_kind kind;
    uint8_t op;
    int32_t code;
    uint64_t position, begin_ns;
} noted;

static void write_noted(uint64_t end_ns)
{
    const struct stream *s = noted.stream;
    struct trace_event event = {
        .kind = (uint8_t)noted.kind, .op = noted.op, .begin_ns = noted.begin_ns};

    noted.stream = NULL;
    event.end_ns = noted.kind == TRACE_PARKED ? noted.begin_ns : end_ns;
    event.task.session = s->session->id;
    event.task.position = noted.position;
    event.task.slot = s->slot.number;
    event.task.stream = stream_id(s);
    event.task.code = noted.code;
    trace_put(s->attach->device->trace, &event);
}

void trace_note_write(void)
{
    if (noted.stream)
        write_noted(clock_ns());
    trace_note_running = NULL;
}

void trace_note_begin(struct stream *s, uint64_t now)
{
    trace_note_running = s;
    /* The task before is over now, and this one begins. */
    if (noted.stream) {
        now = clock_ns();
        write_noted(now);
    }
    /* One that has begun before this trace seems to begin with it. */
    if (s->traced_ns < s->attach->device->traced_from)
        s->traced_ns = now;
}

void trace_note_result(struct stream *s, enum run_result r)
{
    if (r == RUN_AGAIN)
        return;
    noted.stream = s;
    noted.kind = r == RUN_WAITS ? TRACE_PARKED : TRACE_TASK;
    noted.op = s->kept->task.op;
    noted.code = stream_has_failed(s) ? s->kept->failure.code : 0;
    noted.position = s->kept->position;
    noted.begin_ns = s->traced_ns;
    if (r != RUN_WAITS)
        s->traced_ns = 0;
}

void trace_note_release(const struct stream *s, const struct waiter *w)
{
    const struct stream *from = trace_note_running;
    struct trace_event event = {.kind = TRACE_RELEASE, .op = s->kept->task.op};

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
