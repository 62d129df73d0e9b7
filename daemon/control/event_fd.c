#include "daemon/control/event_fd.h"

#include <stddef.h>
#include <stdlib.h>
#include <utlist.h>

#include "daemon/core/ipc_event.h"
#include "daemon/core/ipc_record.h"
#include "daemon/core/session.h"
#include "daemon/core/stream.h"
#include "proto/util/futex.h"

struct event_fd {
    struct waiter waiter; /* on the list of a stream or an IPC event */
    struct job job;       /* to tell the client */
    struct session *session;
    struct ipc_open *open; /* keeps it from being freed; NULL: a stream's position */
    uint32_t number;
    struct charge charge;
    struct event_fd *prev, *next; /* session->event_fds */
};

static void fd_free(struct event_fd *e)
{
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

static bool record_over(const struct event_fd *e, uint64_t number)
{
    int32_t error, pid;

    return ipc_record_outcome(e->open->event, number, &error, &pid);
}

/* True: what it waits for has come. Else it is on the list, or already fired from there. */
static bool await_record(struct event_fd *e, uint64_t number)
{
    struct waitlist *list = &e->open->event->completed;

    if (record_over(e, number))
        return true;
    waitlist_add(list, &e->waiter, number);
    return record_over(e, number) && waitlist_remove(list, &e->waiter);
}

/* A stopped stream passes nothing more: what it has not passed has failed. */
static bool position_over(struct stream *s, uint64_t position)
{
    return atomic_load(&s->kept->done) >= position || atomic_load(&s->stopped) != 0;
}

static bool await_position(struct event_fd *e, uint32_t slot, uint64_t position)
{
    struct stream *s = slots_get(&e->session->streams, slot);

    if (!s)
        return true;
    /*
     * What the client says cannot be later than what it has submitted; beyond that it would never
     * come.
     */
    if (position > stream_end(s))
        position = stream_end(s);
    if (position_over(s, position))
        return true;
    waitlist_add(&s->passed, &e->waiter, position);
    return position_over(s, position) && waitlist_remove(&s->passed, &e->waiter);
}

static struct event_fd *fd_new(struct session *session, enum cause *cause)
{
    struct event_fd *e = calloc(1, sizeof(*e));

    if (e && user_charge(&e->charge, session->user, RESOURCE_TABLE_MEMORY, sizeof(*e)) == 0)
        return e;
    free(e);
    *cause = session_cause_of_object(session);
    return NULL;
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
    e->waiter.fire = on_fire;
    e->job = (struct job){run_tell, "event descriptor", &session->owner};
    e->session = session;
    e->open = captured->open;
    e->number = number;
    if (e->open)
        ipc_open_pin(e->open);
    DL_APPEND(session->event_fds, e);
    session->n_event_fds++;
    if (e->open ? await_record(e, captured->target)
                : await_position(e, captured->stream, captured->target))
        tell_client(e);
    return CAUSE_NONE;
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
