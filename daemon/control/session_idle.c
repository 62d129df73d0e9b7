#include "daemon/control/session_idle.h"

#include <stddef.h>
#include <stdlib.h>
#include <utlist.h>

#include "daemon/base/kill_here.h"
#include "daemon/buffers/peer.h"
#include "daemon/buffers/queue.h"
#include "daemon/core/notify.h"
#include "daemon/core/server.h"
#include "daemon/core/session.h"
#include "daemon/core/stream.h"
#include "daemon/memory/allocation.h"

/* How far npud is. */
struct session_idle {
    struct session *session;
    struct job job;
    struct waiter waiter;     /* on the stream that has not done all */
    struct waitlist *waiting; /* where it was put; NULL: nowhere */
    unsigned part;
    uint32_t at; /* in the table of this part */
    bool ends;   /* the program goes on */
};

/* --- parts, an object at a time. False: there is no other one --- */

static bool set_attachment(struct session_idle *idle)
{
    struct peer *peer = idle->session->peer;
    struct queue_attach *attach = NULL;

    if (peer)
        DL_FOREACH (peer->attached, attach)
            if (attach->idle == idle->ends)
                break;
    if (attach)
        queue_attach_set_idle(attach, !idle->ends);
    return attach != NULL;
}

/* Its streams may have something to do: that one that could write has ended is noted. */
static bool note_memory(struct session_idle *idle)
{
    struct mem *m = slots_next(&idle->session->mems, &idle->at);

    if (m && !idle->ends)
        pages_end_use(m->pages, m, false);
    return m != NULL;
}

static bool has_passed(struct stream *s, uint64_t position)
{
    return atomic_load(&s->live->done) >= position || atomic_load(&s->stopped) != 0;
}

/* It waits on the first one that has something to do: then there is a waiter. */
static bool await_stream(struct session_idle *idle)
{
    struct stream *s = idle->ends ? NULL : slots_next(&idle->session->streams, &idle->at);
    uint64_t end = s ? stream_end(s) : 0;

    if (!s || has_passed(s, end))
        return s != NULL;
    idle->waiting = &s->passed;
    waitlist_add(&s->passed, &idle->waiter, end);
    if (has_passed(s, end) && waitlist_remove(&s->passed, &idle->waiter))
        idle->waiting = NULL;
    return true;
}

static bool set_memory(struct session_idle *idle)
{
    struct mem *m = slots_next(&idle->session->mems, &idle->at);

    if (m && idle->ends)
        pages_begin_use_again(m);
    else if (m)
        pages_end_use(m->pages, m, true);
    return m != NULL;
}

static bool set_notify(struct session_idle *idle)
{
    struct notify_open *open = slots_next(&idle->session->notifies, &idle->at);

    if (open)
        notify_open_set_over(open, !idle->ends);
    return open != NULL;
}

static bool (*const parts[])(struct session_idle *idle) = {
    set_attachment, note_memory, await_stream, set_memory, set_notify,
};
#define PARTS      (sizeof(parts) / sizeof(parts[0]))
#define PART_NOTED 2 /* from here on, all that has to be done but once is done */

static void set_state(struct session *session, enum session_idle_state state)
{
    session->idle_state = (uint8_t)state & 3;
    kept_touch(&session->kept);
}

/* False: the step is over, or a stream has something to do. */
static bool go_on(struct session_idle *idle)
{
    struct session *session = idle->session;

    while (idle->part < PARTS) {
        if (idle->part == PART_NOTED && session->idle_state == IDLE_BEGUN && !idle->ends)
            set_state(session, IDLE_NOTED);
        if (!parts[idle->part](idle)) {
            idle->part++;
            idle->at = 0;
        }
        kept_commit();
        KILL_HERE(IDLE_PIECE);
        if (idle->waiting || (idle->part < PARTS && schedule_late(&session->server->schedule)))
            return false;
    }
    return true;
}

/* --- beginning --- */

/* Any thread, under the lock of a stream's waitlist: only hand it on. */
static void stream_passed(struct waiter *w)
{
    struct session_idle *idle =
        (struct session_idle *)((char *)w - offsetof(struct session_idle, waiter));

    job_send(&idle->job);
}

static bool run_idle(struct job *job)
{
    struct session_idle *idle =
        (struct session_idle *)((char *)job - offsetof(struct session_idle, job));

    idle->waiting = NULL;
    if (idle->session->halted)
        return false;
    if (!go_on(idle))
        return !idle->waiting;
    set_state(idle->session, IDLE_DONE);
    return false;
}

static void rest(struct session_idle *idle)
{
    if (idle->waiting)
        waitlist_remove(idle->waiting, &idle->waiter);
    idle->waiting = NULL;
    job_cancel(&idle->job);
    idle->part = 0;
    idle->at = 0;
}

static bool make_idle(struct session *session)
{
    struct session_idle *idle = calloc(1, sizeof(*idle));

    if (!idle)
        return false;
    idle->session = session;
    idle->job = (struct job){run_idle, "session idle", &session->owner};
    idle->waiter.fire = stream_passed;
    session->idle = idle;
    return true;
}

enum cause session_idle_begin(struct session *session)
{
    if (!session->idle && !make_idle(session))
        return CAUSE_MEMORY;
    rest(session->idle);
    session->idle->ends = false;
    set_state(session, IDLE_BEGUN);
    job_list(&session->idle->job);
    return CAUSE_NONE;
}

/* --- ending --- */

bool session_idle_end(struct session *session)
{
    struct session_idle *idle = session->idle;

    if (!idle)
        return true;
    if (!idle->ends) {
        rest(idle);
        set_state(session, IDLE_DONE);
    }
    idle->ends = true;
    if (!go_on(idle))
        return false;
    set_state(session, IDLE_NOT);
    session_idle_forget(session);
    return true;
}

void session_idle_forget(struct session *session)
{
    if (!session->idle)
        return;
    rest(session->idle);
    free(session->idle);
    session->idle = NULL;
}

/* --- again --- */

void sessions_idle_finish_restoring(struct server *server)
{
    struct session *session;

    DL_FOREACH (server->sessions, session) {
        if (session->idle_state == IDLE_NOT || session->state != SESSION_OPEN)
            continue;
        if (!make_idle(session))
            continue; /* it counts as one that goes on */
        if (session->idle_state == IDLE_DONE)
            continue;
        session->idle->part = session->idle_state == IDLE_NOTED ? PART_NOTED : 0;
        job_list(&session->idle->job);
    }
}
