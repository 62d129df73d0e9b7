/*
 * In place of libevent: the loop of npud's control thread, by the clock of the input. When npud
 * waits for a timer, that time has come. What is ready is told of in the order of adding.
 */
#include <event2/event.h>
#include <poll.h>
#include <utlist.h>

#include "fuzz.h"
#include "proto/util/clock.h"
#include "surroundings.h"

#define EVENTS_MAX 4096 /* no input can add more */

struct event {
    struct event_base *base;
    int fd; /* -1: none */
    short what;
    event_callback_fn call;
    void *arg;
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

static short ready(short revents)
{
    short what = 0;

    if (revents & (POLLIN | POLLHUP | POLLERR))
        what |= EV_READ;
    if (revents & (POLLOUT | POLLHUP | POLLERR))
        what |= EV_WRITE;
    return what;
}

static void look_at_descriptors(struct event_base *base)
{
    static struct pollfd poll_fd[EVENTS_MAX];
    static struct event *event[EVENTS_MAX];
    struct event *e;
    nfds_t n = 0;

    DL_FOREACH (base->added, e) {
        short what = e->what & (EV_READ | EV_WRITE);

        if (e->fd < 0 || what == 0)
            continue;
        MUST(n < EVENTS_MAX);
        event[n] = e;
        poll_fd[n++] = (struct pollfd){
            .fd = e->fd,
            .events = (short)((what & EV_READ ? POLLIN : 0) | (what & EV_WRITE ? POLLOUT : 0)),
        };
    }
    MUST(poll(poll_fd, n, 0) >= 0);
    for (nfds_t i = 0; i < n; i++) {
        MUST(!(poll_fd[i].revents & POLLNVAL)); /* closed, and still in the loop */
        if (ready(poll_fd[i].revents) & event[i]->what)
            event_active(event[i], ready(poll_fd[i].revents) & event[i]->what, 0);
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
