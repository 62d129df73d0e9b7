/*
 * Inside an engine: what its files share. engine.c runs the streams, watch.c finds those that have
 * tasks, idle.c spins and sleeps, lock.c lets others in, usage.c counts. For others, core/engine.h
 * is all there is.
 */
#pragma once

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "daemon/base/busy_meter.h"
#include "daemon/base/hash.h"
#include "daemon/base/step_meter.h"
#include "daemon/base/timers.h"
#include "daemon/core/stream.h"
#include "proto/util/clock.h"
#include "proto/util/slots.h"

struct attach;
struct device;
struct epoll_event;
struct kept_in_hand;
struct stream;

/* What epoll reports: a token, not an address, because the attachment may be gone when the engine
 * holds the lock again. */
struct attach_ref {
    struct slot slot;
    struct attach *attach;
};
#define WATCH_TOKEN_WAKE UINT64_MAX

/*
 * The sessions of one user on the engine. Users take turns, and within a user's turn its sessions:
 * so a user gets no more for having many.
 */
struct engine_user {
    uid_t uid;
    uint32_t attaches;
    struct attach *watched;          /* sessions that it looks at, each with its active streams */
    struct engine_user *prev, *next; /* engine->users */
    UT_hash_handle hh;
};

struct engine {
    struct device *device;
    pthread_t thread;
    _Atomic bool stop;

    /*
     * lock is held by the engine while it is awake. A plain mutex would starve all other threads,
     * since the engine takes it again at once: another thread counts up `lock_waiters` and holds
     * `gate` until it has the lock, and the engine, which looks at `lock_waiters` once a turn,
     * passes through the gate.
     */
    pthread_mutex_t lock;
    pthread_mutex_t gate;
    _Atomic uint32_t lock_waiters;

    int epoll;
    int wake; /* eventfd: inbox, or stop */
    struct slots refs;
    struct engine_user *by_uid; /* all that have the device open */
    struct engine_user *users;  /* those with sessions that it looks at */
    struct timers timers;
    uint32_t mode; /* of the doorbells */
    uint64_t last_poll;
    uint64_t now; /* when this turn began */

    struct kept_in_hand *in_hand; /* the session whose streams it runs */
    struct step_meter meter;
    /* The step since the clock was read last: a task of this kind was its last one, if `worked`. */
    bool worked;
    bool did_work;       /* it has moved bytes: its time counts as work of the device */
    uint16_t tiny_moves; /* it has not, but between glances: so many times, few bytes each */
    bool resumed;        /* a parked stream goes on, since engine_run_quick() was called last */
    uint8_t worked_op;
    uid_t worked_uid;
    uint64_t worked_session;

    struct busy_meter busy;

    uint64_t spin_max;
    uint64_t spin; /* current, adaptive */
    uint64_t idle_since;
    bool spinning; /* counted in `spinners` */

    pthread_mutex_t inbox_lock;
    struct stream *inbox;
    _Atomic uint32_t inbox_n;
    _Atomic bool sleeping;

    _Atomic uint64_t turn_since; /* 0: asleep */
    _Atomic uint64_t tasks;
    _Atomic uint64_t wakeups;
    sem_t begun; /* posted by the thread when it opens no file any more */
};

/** lock.c: engine thread, between two turns: threads that wait for the lock get it. */
void engine_let_others_in(struct engine *e);

/** Streams go on whose work a device has done. True: there were some. Engine thread. */
bool engine_poll(struct engine *e);

/** A parked stream goes on: it is active again, and its session watched. Engine thread. */
void engine_resume(struct engine *e, struct stream *s);

/* Tasks of one stream, or of those found by glances, before the clock is looked at. */
#define TASKS_PER_TIME 16

/**
 * Run the next task of an active stream outside a full turn, if it is quick (task_is_quick()).
 * `now` may be some microseconds old. False: it is for a full turn. Engine thread.
 */
bool engine_run_quick(struct engine *e, struct stream *s, uint64_t now);

/* --- usage.c: how busy the device is. Under the lock. --- */

void usage_count_end(struct engine *e, struct stream *s, uint64_t now);

/** The stream goes on, or is forgotten: if the device worked for it, that is over. */
static inline void usage_end_work(struct engine *e, struct stream *s, uint64_t now)
{
    if (__builtin_expect(s->in_work, 0))
        usage_count_end(e, s, now);
}

/* About what a move of WORK_TINY bytes takes, with all that belongs to the task. */
#define TINY_NS UINT64_C(50)

/** The last task has moved few bytes, and the rest of the step is no work of the device. */
static inline void usage_count_tiny(struct engine *e)
{
    e->did_work = false;
    e->tiny_moves++;
}

/** The clock was read: what was done since it was read before is a step. */
static inline void usage_end_step(struct engine *e, uint64_t now)
{
    uint64_t tiny = e->tiny_moves * TINY_NS;

    if (!e->did_work && tiny == 0)
        return;
    busy_meter_add(&e->busy,
                   e->did_work || now - e->meter.begun < tiny ? e->meter.begun : now - tiny, now);
    e->did_work = false;
    e->tiny_moves = 0;
}

/* --- watch.c: which sessions and streams an engine looks at, and which of them only their doorbell
 * brings back. Engine thread. --- */

#define WATCH_EVENTS 64 /* of epoll, at a time */

/** Look at the session's streams and doorbell in every turn from now on. */
void watch_attach(struct engine *e, struct attach *a, uint64_t now);

/** Take streams from the session's doorbell. True: there were some. */
bool watch_collect(struct engine *e, struct attach *a, uint64_t now);

/** What epoll has reported. */
void watch_handle_doorbells(struct engine *e, const struct epoll_event *events, int n,
                            uint64_t now);

/** Doorbells of sessions that are not watched show up only here while the engine is awake. */
void watch_poll(struct engine *e, uint64_t now);
/** engine_unpark_all() of what the streams of one session wait for. */
void engine_unpark_attach(struct engine *e, struct attach *a, int32_t result);

/** How often a busy engine does so. */
#define WATCH_POLL_INTERVAL (3 * NSEC_PER_USEC)

static inline bool watch_poll_is_due(const struct engine *e, uint64_t now)
{
    return now - e->last_poll > WATCH_POLL_INTERVAL;
}

/** Stop looking at the ring of a stream. False: a task has come in between. */
bool watch_drop_stream(struct stream *s);
/** Stop looking at a session. False: there is something to do in it. */
bool watch_drop_attach(struct engine *e, struct attach *a, uint64_t now);

/* --- idle.c: what an engine does when there is no task: it spins for a while, then sleeps. Engine
 * thread. --- */

/** There was nothing to do in this turn. */
void idle_turn(struct engine *e, uint64_t now);

/** Give the place among the engines that spin to another. */
void idle_stop_spinning(struct engine *e);
