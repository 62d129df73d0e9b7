/* Executors that hang. */
#include <event2/event.h>
#include <stddef.h>
#include <unistd.h>
#include <utlist.h>

#include "daemon/backend/executors.h"
#include "daemon/base/config.h"
#include "daemon/base/log.h"
#include "daemon/core/server.h"

/*
 * By looks, not by the clock: an npud that was stopped itself has the answers to read first. The
 * first look may be at once.
 */
#define LOOKS_MAX 5u

static bool hangs_in_lane(struct executor *x, unsigned lane)
{
    uint64_t issued = atomic_load_explicit(&x->ring->bell[lane].issued, memory_order_relaxed);
    uint64_t done = atomic_load_explicit(&x->page->lane[lane].done, memory_order_relaxed);

    if (done >= issued || done != x->watched[lane].done)
        x->watched[lane].looks = 0;
    x->watched[lane].done = done;
    return done < issued && ++x->watched[lane].looks >= LOOKS_MAX;
}

static void look_at(struct executor *x)
{
    unsigned seconds = x->all->server->config->vendor_hang_s;
    struct asked *a;

    DL_FOREACH (x->asked, a)
        if (++a->looks >= LOOKS_MAX) {
            executor_end(x, "it has not answered for %u seconds", seconds);
            return;
        }
    /* It may have ended work, and not have said so. */
    if (atomic_load(&x->leased) != 0)
        executor_wake_engines(x);
    for (unsigned lane = 0; lane < EXECUTOR_LANES; lane++)
        if (hangs_in_lane(x, lane)) {
            executor_end(x, "it has worked for %u seconds without an end of any work", seconds);
            return;
        }
}

/* What is told of one may end another: the list is looked at from its begin then. */
static bool look_at_one(struct executors *all, unsigned turn)
{
    struct executor *x;

    DL_FOREACH (all->list, x)
        if (x->state != EXECUTOR_ENDED && x->looked != turn) {
            x->looked = turn;
            executor_use(x);
            look_at(x);
            executor_leave(x);
            return true;
        }
    return false;
}

static bool is_busy(const struct executor *x)
{
    if (x->state == EXECUTOR_ENDED)
        return false;
    for (unsigned lane = 0; lane < EXECUTOR_LANES; lane++)
        if (atomic_load_explicit(&x->ring->bell[lane].issued, memory_order_relaxed) !=
            atomic_load_explicit(&x->page->lane[lane].done, memory_order_relaxed))
            return true;
    return x->asked != NULL;
}

static bool is_any_busy(const struct executors *all)
{
    const struct executor *x;

    DL_FOREACH (all->list, x)
        if (is_busy(x))
            return true;
    return false;
}

/* Nobody wakes npud for executors that do nothing. */
static void stop_watch(struct executors *all)
{
    event_del(all->on_watch);
    atomic_store(&all->watched, false);
    atomic_thread_fence(memory_order_seq_cst); /* with that of executors_busy() */
    /* Work that was given meanwhile has found the watch there. */
    if (is_any_busy(all))
        executors_watch(all);
}

static void on_watch(evutil_socket_t fd, short what, void *arg)
{
    struct executors *all = arg;
    static unsigned turn;

    (void)fd;
    (void)what;
    schedule_begin(&all->server->schedule);
    turn++;
    while (look_at_one(all, turn))
        continue;
    if (!is_any_busy(all))
        stop_watch(all);
    schedule_end(&all->server->schedule, "executors that hang", geteuid());
}

void executors_watch(struct executors *all)
{
    uint64_t us = (uint64_t)all->server->config->vendor_hang_s * 1000000 / (LOOKS_MAX - 1);
    struct timeval period = {(time_t)(us / 1000000), (suseconds_t)(us % 1000000)};

    if (us == 0)
        return;
    atomic_store(&all->watched, true);
    if (!all->on_watch)
        all->on_watch = event_new(all->server->base, -1, EV_PERSIST, on_watch, all);
    if (!all->on_watch ||
        (!event_pending(all->on_watch, EV_TIMEOUT, NULL) && event_add(all->on_watch, &period) < 0))
        log_warning("no memory to watch executors for hanging");
}

/* Sent by an engine: executors_busy(). */
bool executors_run_watch(struct job *job)
{
    executors_watch((struct executors *)((char *)job - offsetof(struct executors, watch)));
    return false;
}

void executors_watch_end(struct executors *all)
{
    job_cancel(&all->watch);
    if (all->on_watch)
        event_free(all->on_watch);
    all->on_watch = NULL;
}
