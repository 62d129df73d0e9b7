/* Recovery: streams are there again, and go on where the npud before ended. No engine runs yet. */
#include <utlist.h>

#include "daemon/base/kill_here.h"
#include "daemon/base/waker.h"
#include "daemon/core/device.h"
#include "daemon/core/engine.h"
#include "daemon/core/server.h"
#include "daemon/core/session.h"
#include "daemon/core/stream.h"
#include "daemon/engine/engine.h"
#include "daemon/engine/execute.h"
#include "daemon/engine/failure.h"
#include "daemon/engine/graph.h"
#include "daemon/engine/inject.h"
#include "daemon/engine/notify_tasks.h"
#include "daemon/engine/task_row.h"
#include "daemon/engine/work.h"

/*
 * What is done is told once more, and all sleepers look again: the npud before may have ended
 * between any two steps of that.
 */
static void publish_again(struct stream *s)
{
    struct stream_kept *k = s->live;

    if (k->held == STREAM_FREE && atomic_load(&s->stopped) == 0)
        stream_publish(s, k->position);
    else
        atomic_store(&s->ctrl->done, atomic_load(&k->done));
    atomic_store(&s->ctrl->wake_at, STREAM_WAKE_NONE);
    atomic_fetch_add(&s->ctrl->wake_seq, 1);
    waker_wake(&s->ctrl->wake_seq);
}

/* The latest callback was handed over, and its thread may not have been woken. */
static void post_callback_again(struct stream *s)
{
    struct stream_kept *k = s->live;
    struct callback_word *word;

    if (atomic_load(&s->ctrl->callbacks) < k->callbacks || k->callback_report >= CALLBACK_WORDS ||
        atomic_load(&s->ctrl->callbacks_done) >= k->callbacks)
        return;
    word = &s->session->page->callback_word[k->callback_report];
    callback_word_post(word);
    waker_wake(&word->seq);
    KILL_HERE(CALLBACK_AGAIN);
}

/*
 * A task that came later: its submitter has found the stream watched; or it rang, and the bit was
 * taken from the doorbell, but then the tail tells. A ring that is not used is not looked at, which
 * would make the kernel give it memory.
 */
static bool has_entry(struct stream *s)
{
    struct stream_kept *k = s->live;
    /* Dekker with the submitter, which stores the sequence and then loads watched. */
    bool watched = atomic_exchange(&s->ctrl->watched, 0) != 0;

    if (!watched && stream_ring_end(s) == k->position)
        return false;
    return atomic_load(&s->ring[k->position & (s->depth - 1)].sequence) == k->position + 1;
}

/* --- the task at the head --- */

static void restore_task(struct stream *s)
{
    struct stream_kept *k = s->live;
    const struct task_row *row = task_row(k->task.op);

    graph_restore_under_way(s);
    work_restore_ticket(s);
    if (!stream_has_read(s))
        return;
    stream_count_implicit(k);
    if (row->restore)
        row->restore(s);
    if (row->waits_for == WAITS_FOR_NOTHING || stream_has_failed(s))
        return;
    if (stream_has_waited(s) && stream_is_let_go(s)) {
        stream_begin_task(s);
        s->waiter.result = k->outcome.code;
        s->waiter.pid = k->outcome.pid;
    } else {
        k->begun_at = 0; /* it waits again */
    }
}

static bool rejoin(struct stream *s)
{
    const struct task_row *row = task_row(s->live->task.op);

    return row->rejoin && stream_has_read(s) && !stream_has_failed(s) && row->rejoin(s);
}

/* --- streams --- */

static void restore_stream(struct stream *s)
{
    bool stops, work;

    publish_again(s);
    KILL_HERE(DONE_AGAIN);
    restore_task(s);
    KILL_HERE(TASK_AGAIN);
    post_callback_again(s);
    if (s->live->held != STREAM_FREE) {
        s->run = RUN_HELD;
        s->held_watched = true;
        return;
    }
    stops = failure_stop_has_begun(s);
    work = stops && execute_work(s) != 0;
    if ((!work && inject_restore(s->session->server->inject, s)) || rejoin(s))
        return;
    if (!has_entry(s) && !stream_has_read(s)) {
        engine_leave_work(s); /* the client may have taken back what was given of it */
        return;
    }
    atomic_store_explicit(&s->ctrl->watched, 1, memory_order_relaxed);
    /* A task that would be over by itself before that would not be told as ended. */
    if (stops && !work) {
        s->run = RUN_HELD;
        s->held_watched = true;
        return;
    }
    s->run = RUN_PARKED;
    engine_unpark(s);
}

/* The npud before may have taken the summary, and not looked at the words. */
static void restore_doorbell(struct attach *a)
{
    uint64_t words = 0;

    for (unsigned w = 0; w < SESSION_STREAMS_MAX / 64; w++)
        if (atomic_load(&a->bell->word[w]) != 0)
            words |= UINT64_C(1) << w;
    if (words == 0)
        return;
    atomic_fetch_or(&a->bell->summary, words);
    watch_attach(a->device->engine, a, clock_ns());
}

static void restore_session(struct session *session)
{
    struct stream *s;

    slots_foreach (&session->streams, i, s)
        restore_stream(s);
    for (unsigned i = 0; i < DEVICES_MAX; i++)
        if (session->attach[i]) {
            restore_doorbell(session->attach[i]);
            KILL_HERE(BELL_AGAIN);
            failure_restore(session->attach[i]);
            KILL_HERE(FAILURE_AGAIN);
        }
}

void engines_finish_restoring(struct server *server)
{
    struct session *session;

    for (uint32_t i = 0; i < server->devices->n; i++)
        slots_restored(&server->devices->device[i].stream_ids);
    DL_FOREACH (server->sessions, session)
        restore_session(session);
}
