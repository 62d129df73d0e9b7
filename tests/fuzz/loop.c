/*
 * In place of libevent: the loop of npud's control thread, by the clock of the input. When npud
 * waits for a timer, that time has come. What is ready is told of in the order of adding.
 */
#include <event2/event.h>
#include <poll.h>
#include <utlist.h>

#include "fuzz.h"
#include "kernel.h"
#include "proto/util/clock.h"
#include "surroundings.h"

struct event {
    struct event_base *base;
    int fd; /* -1: none */
    short what;
    event_callback_fn call;
    void *arg;
    uint64_t seen; /* of an edge: changes of the file */
    bool added;
    uint64_t interval, deadline; /* 0: no timer */
    short active;                /* what the callback is to be told; 0: it is not listed */
    struct event *prev, *next;   /* base->added */
    struct event *active_prev, *active_next;
};

struct event_base {
    struct event *added, *active;
};

/* --- events --- */

struct event_base *event_base_new(void)
{
    return calloc(1, sizeof(struct event_base));
}

void event_base_free(struct event_base *base)
{
    MUST(!base->added && !base->active);
    free(base);
}

struct event *event_new(struct event_base *base, evutil_socket_t fd, short what,
                        event_callback_fn call, void *arg)
{
    struct event *e = calloc(1, sizeof(*e));

    if (e)
        *e = (struct event){.base = base, .fd = fd, .what = what, .call = call, .arg = arg};
    return e;
}

int event_add(struct event *e, const struct timeval *after)
{
    if (!e->added)
        DL_APPEND(e->base->added, e);
    if (!e->added && e->fd >= 0)
        e->seen = kernel_file(e->fd)->changes - 1;
    e->added = true;
    if (after) {
        e->interval = (uint64_t)after->tv_sec * NSEC_PER_SEC + //
                      (uint64_t)after->tv_usec * NSEC_PER_USEC;
        e->deadline = surroundings.now + e->interval;
    }
    return 0;
}

static void unlist_active(struct event *e)
{
    if (e->active)
        DL_DELETE2(e->base->active, e, active_prev, active_next);
    e->active = 0;
}

int event_del(struct event *e)
{
    unlist_active(e);
    if (e->added)
        DL_DELETE(e->base->added, e);
    e->added = false;
    e->interval = e->deadline = 0;
    return 0;
}

void event_free(struct event *e)
{
    event_del(e);
    free(e);
}

void event_active(struct event *e, int what, short calls)
{
    (void)calls;
    if (!e->active)
        DL_APPEND2(e->base->active, e, active_prev, active_next);
    e->active |= (short)what;
}

/* --- the loop --- */

static void look_at_descriptors(struct event_base *base)
{
    struct event *e;

    DL_FOREACH (base->added, e) {
        const struct file *file = e->fd < 0 ? NULL : kernel_file(e->fd);
        short is = file ? kernel_ready(file) : 0;
        short what = (short)((is & POLLIN ? EV_READ : 0) | (is & POLLOUT ? EV_WRITE : 0));

        MUST(e->fd < 0 || file); /* closed, and still in the loop */
        if (!(what & e->what) || ((e->what & EV_ET) && e->seen == file->changes))
            continue;
        e->seen = file->changes;
        event_active(e, what & e->what, 0);
    }
}

static void look_at_timers(struct event_base *base)
{
    struct event *e;

    DL_FOREACH (base->added, e)
        if (e->deadline != 0 && e->deadline <= surroundings.now)
            event_active(e, EV_TIMEOUT, 0);
}

static void wait_for_timer(struct event_base *base)
{
    uint64_t first = 0;
    struct event *e;

    DL_FOREACH (base->added, e)
        if (e->deadline != 0 && (first == 0 || e->deadline < first))
            first = e->deadline;
    MUST(first != 0); /* npud would wait for ever */
    if (first > surroundings.now)
        surroundings.now = first;
    look_at_timers(base);
}

static void call_event(struct event *e)
{
    short what = e->active;

    unlist_active(e);
    if (!(e->what & EV_PERSIST))
        event_del(e);
    else if (e->interval != 0)
        e->deadline = surroundings.now + e->interval;
    e->call(e->fd, what, e->arg);
}

int event_base_loop(struct event_base *base, int flags)
{
    look_at_descriptors(base);
    look_at_timers(base);
    if (!base->active && !(flags & EVLOOP_NONBLOCK))
        wait_for_timer(base);
    while (base->active)
        call_event(base->active);
    return 0;
}

int event_base_got_break(struct event_base *base)
{
    (void)base;
    return 0;
}
