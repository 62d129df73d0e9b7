/*
 * Shared memory of a stream: a control block and a ring of tasks, in a segment of the session's
 * arena. Shared by exactly one session and npud.
 *
 * Positions are 64-bit counts of tasks and never wrap. Entry of position p is ring[p & (depth -
 * 1)]. They go on when a slot is given to a new stream, so that an event that captured a position
 * of the old stream reads as complete and needs no generation.
 *
 * Writers: the client writes `tail`, `wake_at`, `callbacks_done`, `work_result`, the names and the
 * ring, both write `error`; npud writes the rest, and in the ring the times that the client asks
 * for (TASK_NOP_TIME), each in the entry of its task before `done` passes it. npud keeps its own
 * head and never reads back what it published. It takes an entry when its sequence says that it is
 * there; tail is for the client's own threads, and for npud when it discards what is queued (where
 * an impossible tail is replaced).
 *
 * Submission (client, under its own per-stream mutex):
 *     ring[tail & mask] = task          plain stores, but for its sequence
 *     tail = tail + 1                   release
 *     ring[...].sequence = tail + 1     seq_cst: publishes the entry, before the next load
 *     if (!watched) ring the doorbell   see doorbell.h
 * Retirement (engine):
 *     done = position                   release: a reader that acquires done sees the results
 *     seq_cst fence
 *     if (done >= wake_at) { wake_at = NONE; wake_seq += 1; FUTEX_WAKE(wake_seq) }
 * Waiting (client):
 *     wake_at = min(wake_at, target)    seq_cst, before done is tested
 *     if (done < target) FUTEX_WAIT on the wake_seq that was read before arming
 * Either the engine sees the armed wake_at, or the waiter sees the new done: no wake-up is lost,
 * and an engine without waiters makes no system call.
 *
 * Callbacks (callback_shm.h): npud stores in `callbacks` which one the client may run; the client
 * stores in `callbacks_done` which one has returned, and rings the doorbell if that one blocked the
 * stream.
 *
 * A client killed at any of these stores leaves: an entry of which npud was not told (ignored), or
 * a tail that the engine may or may not have acted on (the session's death drops the stream either
 * way).
 */
#pragma once

#include <assert.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "proto/util/kill_point.h"
#include "proto/shm/task.h"

#define STREAM_WAKE_NONE UINT64_MAX

struct stream_ctrl {
    /* client */
    alignas(64) _Atomic uint64_t tail;
    /* Callbacks up to this one have returned or will never run. Never goes back. */
    _Atomic uint64_t callbacks_done;
    /* Of work (callback_word_is_work()): see stream_work_result(). Stored before that. */
    _Atomic uint64_t work_result;
    /* npud: changes with every batch of tasks */
    alignas(64) _Atomic uint64_t done;
    /*
     * npud, but for wake_at: changes rarely, and is read at every submission; so it must not share
     * a line with done
     */
    alignas(64) _Atomic uint32_t
        watched; /* the engine looks at the ring by itself: no doorbell needed */
    /*
     * Not 0: a task of the stream's context has failed, in failure mode "stop", and nothing that is
     * not done will be. As `error`. Stored before sleepers on wake_seq are woken.
     */
    _Atomic uint64_t stopped;
    /*
     * The client, before it sleeps; set to NONE by the engine when it wakes. It changes rarely,
     * too: beside `tail` the engine would take that line from the submitter to read this with each
     * batch.
     */
    _Atomic uint64_t wake_at;
    /* The client, for itself: no other stream, or context, of the process ever has this name */
    _Atomic uint64_t stream_name, context_name;
    /*
     * The latest failure: ACL error code in the lower half, 0 once it was reported; above it the
     * pid that is to blame (0: none), and which of the stream's failures it is, modulo 2^10. In one
     * word, so that a reader never gets the code of one failure and the pid of another. npud stores
     * it, over an unreported one if need be, as the API has it; the client takes it, and leaves the
     * ordinal: an npud that comes back tells no failure twice.
     */
    alignas(64) _Atomic uint64_t error;
    _Atomic uint32_t wake_seq; /* futex */
    /* npud's slot of the stream: the same for every stream that is ever here */
    _Atomic uint32_t number;
    /* npud: callbacks up to this one may run: what was submitted before is done. */
    _Atomic uint64_t callbacks;
};

static_assert(sizeof(struct stream_ctrl) == 256, "four cache lines");

/**
 * How work of the library has ended which npud has as a callback: the task fails with code, or 0.
 * With the ordinal, modulo 2^32, as what is there may be of work before: a library of before stores
 * nothing, and one that drops work has none. A client killed between this and `callbacks_done`
 * leaves a word that is of no task.
 */
static inline uint64_t stream_work_result(uint64_t ordinal, int32_t code)
{
    return ordinal << 32 | (uint32_t)code;
}

/** What the word says of the work with this ordinal; 0: nothing. */
static inline int32_t stream_work_code(uint64_t result, uint64_t ordinal)
{
    return result >> 32 == (ordinal & UINT32_MAX) ? (int32_t)(uint32_t)result : 0;
}

#define STREAM_ERROR_PIDS  (UINT64_C(1) << 22) /* the kernel's PID_MAX_LIMIT */
#define STREAM_ERROR_SHIFT 54                  /* of the ordinal */

static inline uint64_t stream_error_make(int32_t code, int32_t pid)
{
    return ((uint64_t)(uint32_t)pid % STREAM_ERROR_PIDS) << 32 | (uint32_t)code;
}

/** The stream's failure number `ordinal`. */
static inline uint64_t stream_error_numbered(int32_t code, int32_t pid, uint64_t ordinal)
{
    return ordinal << STREAM_ERROR_SHIFT | stream_error_make(code, pid);
}

static inline int32_t stream_error_pid(uint64_t error)
{
    return (int32_t)((error >> 32) % STREAM_ERROR_PIDS);
}

static inline int32_t stream_error_code(uint64_t error)
{
    return (int32_t)(uint32_t)error;
}

/** The ordinal, modulo 2^10, of the failure that npud stores after this one. */
static inline uint64_t stream_error_next(uint64_t error)
{
    return ((error >> STREAM_ERROR_SHIFT) + 1) % (UINT64_C(1) << (64 - STREAM_ERROR_SHIFT));
}

/** Is `error` of failure number `ordinal`, reported or not? */
static inline bool stream_error_has_number(uint64_t error, uint64_t ordinal)
{
    return error >> STREAM_ERROR_SHIFT == (ordinal << STREAM_ERROR_SHIFT) >> STREAM_ERROR_SHIFT;
}

/**
 * Client: take the failure that was not reported, of which the caller reports code and pid. Code 0:
 * there is none. A client that another writer keeps from it takes none.
 */
static inline uint64_t stream_take_error(struct stream_ctrl *c)
{
    uint64_t error = atomic_load_explicit(&c->error, memory_order_relaxed);

    for (unsigned tries = 0; tries < 1000 && stream_error_code(error) != 0; tries++) {
        uint64_t taken = error >> STREAM_ERROR_SHIFT << STREAM_ERROR_SHIFT;

        if (atomic_compare_exchange_weak_explicit(&c->error, &error, taken, memory_order_acquire,
                                                  memory_order_relaxed))
            return error;
    }
    return 0;
}

/**
 * Client: publish the entry that was written, which makes `tail` the new tail. True: the engine
 * does not look at the ring, and the caller rings the doorbell.
 */
static inline bool stream_publish_entry(struct stream_ctrl *c, struct task *entry, uint64_t tail)
{
    atomic_store_explicit(&c->tail, tail, memory_order_release);
    KILL_POINT(SUBMIT_TAIL);
    /* Publishes the entry. seq_cst: it comes before the load of watched, see stream_unwatch(). */
    atomic_store_explicit(&entry->sequence, tail, memory_order_seq_cst);
    KILL_POINT(SUBMIT_PUBLISHED);
    return atomic_load_explicit(&c->watched, memory_order_seq_cst) == 0;
}

/**
 * Engine: stop to look at the ring, whose next entry is that of `position`. False: the entry came
 * in between, and the engine still looks. Dekker with stream_publish_entry(): each side stores and
 * then loads, all seq_cst, so one of the two sees the other.
 */
static inline bool stream_unwatch(struct stream_ctrl *c, const struct task *entry,
                                  uint64_t position)
{
    atomic_store(&c->watched, 0);
    if (atomic_load(&entry->sequence) != position + 1)
        return true;
    atomic_store_explicit(&c->watched, 1, memory_order_relaxed);
    return false;
}

/** Engine: publish `done`, and with it the results. Waiters are woken by stream_wake_due(). */
static inline void stream_store_done(struct stream_ctrl *c, uint64_t done)
{
    atomic_store_explicit(&c->done, done, memory_order_release);
}

/**
 * Engine: `done` was stored. True: the caller wakes those that sleep on wake_seq.
 * What the caller loads afterwards comes behind what it stored before.
 */
static inline bool stream_wake_due(struct stream_ctrl *c, uint64_t done)
{
    /* Dekker with stream_arm(): the store of done must not sink below the load of wake_at. */
    atomic_thread_fence(memory_order_seq_cst);
    if (done < atomic_load_explicit(&c->wake_at, memory_order_relaxed))
        return false;
    /*
     * Before the increment: a waiter that is woken, or sees the new sequence, arms anew if its own
     * target is further away.
     */
    atomic_store_explicit(&c->wake_at, STREAM_WAKE_NONE, memory_order_relaxed);
    atomic_fetch_add_explicit(&c->wake_seq, 1, memory_order_release);
    return true;
}

/** Client: ask to be woken when done reaches target. Test done after this and before sleeping. */
static inline void stream_arm(struct stream_ctrl *c, uint64_t target)
{
    uint64_t cur = atomic_load_explicit(&c->wake_at, memory_order_relaxed);

    while (target < cur)
        if (atomic_compare_exchange_weak_explicit(&c->wake_at, &cur, target, memory_order_seq_cst,
                                                  memory_order_relaxed))
            break;
    KILL_POINT(POSITION_ARMED);
    /* Also when another thread had armed a lower target: our next load of done must not move above
     * that. */
    atomic_thread_fence(memory_order_seq_cst);
}
