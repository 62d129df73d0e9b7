/*
 * Sleeping in the library: on a stream's position, on a record of an IPC event, on a queue. Never a
 * poll: the engine or the other process wakes the futex, and when npud dies the watcher thread
 * does.
 *
 * A caller that has found a buffer or a segment looks it up again after a sleep (api_call_rest()).
 *
 * Each sleep is written down for npud (proto/shm/wait_slot.h), with the API function that was
 * called.
 *
 * All of these return -EINTR when the thread's interrupt check wants the call to end (interrupt.h).
 * Callers with a word to leave for hold locks.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "client/core/biased_lock.h"
#include "proto/shm/wait_slot.h"

struct ipc_page;
struct session;
struct session_page;
struct stream_ctrl;
struct trace_writer;
struct wait;

/** The threads of a session that sleep; part of the session. */
struct waits {
    /* Biased: where one thread sleeps, it pays no locked instruction for it. */
    struct biased_lock lock;
    struct wait *first;
    uint64_t begun;                  /* sleeps; under lock */
    uint64_t slots[WAIT_SLOTS / 64]; /* bits of page->waits that are taken; under lock */
    struct session_page *page;
    const _Atomic bool *lost; /* npud is gone: every sleep ends */
    int timer;                /* timerfd, readable when wait_wake_due() is to be called; or -1 */
    uint64_t timer_at;        /* when it fires; under lock */
    struct session *session;  /* for wait_hook */
    struct trace_writer *trace;
};

void wait_init(struct waits *all, struct session *session, const _Atomic bool *lost);
/** Before the first sleep. 0 or -errno. */
int wait_open_timer(struct waits *all);
/** No thread sleeps any more. */
void wait_deinit(struct waits *all);

/** The watcher: the timer has fired. Threads whose time it is to ask npud wake up. */
void wait_wake_due(struct waits *all);

/**
 * Around each sleep of the calling thread in wait_position(), wait_position_or(), wait_record() and
 * wait_queue(). end() gets what begin() returned. Set while the thread runs an exception callback
 * (client/callback/exception.c), else NULL.
 */
struct wait_hook {
    void *(*begin)(struct session *s);
    void (*end)(struct session *s, void *begun);
};
extern __thread const struct wait_hook *wait_hook;

/** Deadline for a timeout of ms milliseconds from now; -1: never. */
uint64_t wait_deadline(int64_t ms);
#define WAIT_FOREVER UINT64_MAX

/**
 * Wait until `done` of the stream reaches position. 0, -ETIMEDOUT at the deadline (CLOCK_MONOTONIC
 * ns), -ECANCELED when it never will because the stream has stopped, -EPIPE when npud is gone.
 * *discarded (or NULL) becomes the code of the abort that has discarded the position while the
 * caller waited for it, else 0. The caller must not use an event afterwards that it has found
 * before: its memory may be gone (api_call_use_no_events()).
 */
int wait_position(struct waits *all, const char *function, struct stream_ctrl *ctrl,
                  uint64_t position, uint64_t deadline, int32_t *discarded);

/**
 * The same without a deadline; also -ECANCELED when *leave is not 0. The thread that
 * sets it calls wait_leave().
 */
int wait_position_or(struct waits *all, const char *function, struct stream_ctrl *ctrl,
                     uint64_t position, _Atomic int32_t *leave);

/** *leave was set: threads that sleep with it look at it now. */
void wait_leave(struct waits *all, _Atomic int32_t *leave);

/**
 * The positions after `from`, up to `to`, are discarded, and `done` has not passed them: tell the
 * threads of this process that sleep until one of them is done.
 */
void wait_discarded(struct waits *all, const struct stream_ctrl *ctrl, uint64_t from, uint64_t to,
                    int32_t code);

/** A wait for a record of an IPC event. */
struct record_wait {
    const char *function;
    uint32_t remote; /* npud's slot of the open event */
    struct ipc_page *page;
    uint64_t number;
    uint64_t deadline;
    uint64_t ask_at;        /* the caller comes back then, to ask npud for the record */
    uint64_t since_ns;      /* 0: since now; the first call sets it */
    bool known;             /* npud has said that it knows the opener */
    _Atomic int32_t *leave; /* or NULL */
    struct wait_slot *slot; /* NULL: none yet; kept while npud is asked */
};

/**
 * Wait until the record is not pending any more, or its opener is gone (ipc_orphaned()): then npud
 * is to be asked, and if it says that it knows the opener, the caller waits again with `known`. 0,
 * -ETIMEDOUT at the deadline, -EAGAIN at ask_at if that is before the deadline, -EPIPE; -ECANCELED
 * when *leave is not 0.
 */
int wait_record(struct waits *all, struct record_wait *record);

/** The caller waits no more. Until then reports show the thread, also while it asks npud. */
void wait_record_end(struct waits *all, struct record_wait *record);

/** What a thread sleeps on: arms the wake-up, then tells whether it is over already. */
typedef bool wait_over_fn(void *object, uint64_t target);

/**
 * Wait for callbacks: until over(object, 0), looked at whenever word changes. 0, -ETIMEDOUT,
 * -EPIPE.
 */
int wait_callback_word(struct waits *all, const char *function, uint32_t number,
                       _Atomic uint32_t *word, wait_over_fn *over, void *object, uint64_t deadline);

/**
 * Wait at a queue: kind WAIT_MESSAGE or WAIT_ROOM, object the number of the ring, word of the other
 * side, which this process may be able to read only. Until over(arg, 0), looked at whenever word
 * changes. 0, -ETIMEDOUT, -EPIPE.
 */
int wait_queue(struct waits *all, const char *function, uint32_t kind, uint32_t object,
               _Atomic uint32_t *word, wait_over_fn *over, void *arg, uint64_t deadline);

/**
 * Wait until npud has granted queue id of this user, or of *owner if that is not NULL, something:
 * `grants` of the session page is not `seen` any more. 0, -ETIMEDOUT, -EPIPE.
 */
int wait_grant(struct waits *all, const char *function, uint32_t id, const uint32_t *owner,
               uint32_t seen, uint64_t deadline);

/**
 * Wake all threads that sleep, so that they see `lost`. True: call it again, because a thread that
 * was about to sleep may have missed it.
 */
bool wait_wake_all(struct waits *all);

/** Watcher: npud is gone. All threads that sleep see that. */
void wait_abort_all(struct waits *all);

/**
 * Whether a thread sleeps on something that needs no device: a queue, or a record of an IPC event.
 * A thread that sleeps on a stream's position or in aclrtProcessReport needs a device: once no
 * device is in use, its streams are gone and it is on its way out. So is one whose wait is over and
 * that has not woken yet: all are woken, and those that look and go to sleep again count. One
 * caller at a time; it takes microseconds, or up to a second when a thread does not get a CPU.
 */
bool wait_any_without_device(struct waits *all);
