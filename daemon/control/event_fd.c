#include "daemon/control/event_fd.h"

#include <stddef.h>
#include <stdlib.h>
#include <utlist.h>

#include "daemon/base/kill_here.h"
#include "daemon/core/ipc_event.h"
#include "daemon/core/ipc_record.h"
#include "daemon/core/server.h"
#include "daemon/core/session.h"
#include "daemon/core/stream.h"
#include "daemon/kept/record.h"
#include "daemon/kept/release_record.h"
#include "proto/util/futex.h"

struct event_fd {
    struct waiter waiter; /* on the list of a stream or an IPC event */
    struct job job;       /* to tell the client */
    struct session *session;
    struct ipc_open *open; /* keeps it from being freed; NULL: a stream's position */
    uint32_t number;
    uint32_t stream; /* slot in the session */
    uint64_t target; /* number of a record, or position */
    struct kept kept;
    struct charge charge;
    struct event_fd *prev, *next; /* session->event_fds */
};

#define EVENT_FD_MEMBERS(DO)                                                                       \
    DO##FIND(session, session, id, session_by_id(r->session));                                     \
    DO##SAME(target, target);                                                                      \
    DO##SAME(number, number);                                                                      \
    DO##DERIVED(ipc, o->open != NULL);                                                             \
    DO##DERIVED(slot, o->open ? o->open->slot.number : o->stream);                                 \
    DO##DERIVED(generation, o->open ? slot_generation(o->open) : 0);

RECORD(static, event_fd, EVENT_FD, struct event_fd, kept, struct event_fd_record, EVENT_FD_MEMBERS)

static void fd_free(struct event_fd *e)
{
    kept_drop(&e->kept);
    DL_DELETE(e->session->event_fds, e);
    e->session->n_event_fds--;
    user_uncharge(&e->charge);
    if (e->open)
        ipc_open_unpin(e->open);
    free(e);
}

/* The client's thread loads `told`, then the bits, and then sleeps while `told` is the same. */
static void tell_client(struct event_fd *e)
{
    struct session_page *page = e->session->page;

    atomic_fetch_or_explicit(&page->written[e->number / 64], UINT64_C(1) << e->number % 64,
                             memory_order_release);
    atomic_fetch_add_explicit(&page->told, 1, memory_order_release);
    futex_wake_one(&page->told);
    KILL_HERE(EVENT_FD_TOLD);
    fd_free(e);
}

static bool run_tell(struct job *job)
{
    struct event_fd *e = (struct event_fd *)((char *)job - offsetof(struct event_fd, job));

    /* The end of a session fires what waits for its streams: nothing has come. */
    if (e->session->halted)
        fd_free(e);
    else
        tell_client(e);
    return false;
}

static void on_fire(struct waiter *w)
{
    struct event_fd *e = (struct event_fd *)w;

    job_send(&e->job);
}

static bool record_over(const struct event_fd *e)
{
    int32_t error, pid;

    return ipc_record_outcome(e->open->event, e->target, &error, &pid);
}

/* True: what it waits for has come. Else it is on the list, or already fired from there. */
static bool await_record(struct event_fd *e)
{
    struct waitlist *list = &e->open->event->completed;

    if (record_over(e))
        return true;
    waitlist_add(list, &e->waiter, e->target);
    return record_over(e) && waitlist_remove(list, &e->waiter);
}

/* A stopped stream passes nothing more: what it has not passed has failed. */
static bool position_over(struct stream *s, uint64_t position)
{
    return atomic_load(&s->live->done) >= position || atomic_load(&s->stopped) != 0;
}

static bool await_position(struct event_fd *e)
{
    struct stream *s = slots_get(&e->session->streams, e->stream);

    if (!s || position_over(s, e->target))
        return true;
    waitlist_add(&s->passed, &e->waiter, e->target);
    return position_over(s, e->target) && waitlist_remove(&s->passed, &e->waiter);
}

/*
 * What the client says cannot be later than what it has submitted; beyond that it would never come.
 */
static uint64_t bounded_position(const struct session *session, const struct captured *captured)
{
    const struct stream *s = slots_get(&session->streams, captured->stream);

    return s && captured->target > stream_end(s) ? stream_end(s) : captured->target;
}

/* At once, if what it waits for has come. */
static void begin_wait(struct event_fd *e)
{
    if (e->open ? await_record(e) : await_position(e))
        tell_client(e);
}

static struct event_fd *fd_new(struct session *session, enum cause *cause)
{
    struct event_fd *e = calloc(1, sizeof(*e));

    if (e && user_charge(&e->charge, session->user, RESOURCE_TABLE_MEMORY, sizeof(*e)) == 0 &&
        event_fd_keep(e))
        return e;
    if (e)
        user_uncharge(&e->charge);
    free(e);
    *cause = session_cause_of_object(session);
    return NULL;
}

static void fd_list(struct event_fd *e, struct session *session)
{
    e->waiter.fire = on_fire;
    e->job = (struct job){run_tell, "event descriptor", &session->owner};
    e->session = session;
    DL_APPEND(session->event_fds, e);
    session->n_event_fds++;
}

enum cause event_fd_watch(struct session *session, uint32_t number, const struct captured *captured)
{
    enum cause cause = CAUSE_NONE;
    struct event_fd *e;

    if (session->n_event_fds == EVENT_FDS_MAX)
        return CAUSE_EVENT_FDS_OF_SESSION;
    e = fd_new(session, &cause);
    if (!e)
        return cause;
    e->open = captured->open;
    e->number = number;
    e->stream = captured->stream;
    e->target = e->open ? captured->target : bounded_position(session, captured);
    if (e->open)
        ipc_open_pin(e->open);
    fd_list(e, session);
    begin_wait(e);
    return CAUSE_NONE;
}

bool event_fd_restore(struct server *server, struct kept_cell *cell)
{
    struct event_fd *e = calloc(1, sizeof(*e));
    struct event_fd_record r;
    struct session *session;

    kept_read(cell, &r, sizeof(r));
    if (!e || r.number >= EVENT_FDS_MAX || !event_fd_back(server, e, cell, &r))
        /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): npud ends if it cannot restore */
        return false;
    session = e->session;
    e->open = r.ipc ? slots_get_generation(&session->ipc, r.slot, r.generation) : NULL;
    if (r.ipc && !e->open)
        return false;
    e->stream = r.slot;
    /* In any state of it, and so not ipc_open_pin(). */
    if (e->open)
        e->open->pins++;
    user_charge_again(&e->charge, session->user, RESOURCE_TABLE_MEMORY, sizeof(*e), false);
    fd_list(e, session);
    return true;
}

void event_fds_finish_restoring(struct server *server)
{
    struct event_fd *e, *next;
    struct session *session;

    /* For one that ends, nothing has come. */
    DL_FOREACH (server->sessions, session)
        if (session->state < SESSION_DYING)
            DL_FOREACH_SAFE (session->event_fds, e, next) {
                begin_wait(e);
                KILL_HERE(EVENT_FD_AGAIN);
            }
}

bool event_fd_drop(struct session *session)
{
    struct event_fd *e = session->event_fds;

    if (!e)
        return true;
    /*
     * Streams have fired all that waited for them, and their lists are gone. An event is there
     * while it is pinned.
     */
    if (e->open)
        waitlist_remove(&e->open->event->completed, &e->waiter);
    job_cancel(&e->job);
    fd_free(e);
    return false;
}
