/*
 * How a thread of a client that runs callbacks learns of them: one word per thread, in the session
 * page.
 *
 * What is to be run never leaves the client: it keeps function and argument of each callback in a
 * list of the stream, in launch order, and submits a task that has the callback's ordinal. The
 * engine that gets to the task
 *     ctrl->callbacks = ordinal   release: a reader that acquires it sees the stream's work
 *     seq += 1                    seq_cst
 *     if (sleeping) FUTEX_WAKE(seq)
 * and the thread that runs them
 *     sleeping = 1                seq_cst, before ctrl->callbacks of its streams is looked at
 *     if (nothing to run) FUTEX_WAIT on the seq that was read before
 * One of the two sees the other, and an engine without waiters makes no system call.
 *
 * A stream that has nothing else to do has got to the callback when it is launched: then the client
 * tells its thread by itself, and the task says so. That saves the thread the way over the engine.
 *
 * A callback that blocks its stream: the engine parks the stream, with its look at the doorbell
 * still to come; the client stores ctrl->callbacks_done when the function has returned, and then
 * raises the stream's doorbell bit. A callback that will never run, because no thread is left to
 * run it, is one that has returned, for npud.
 *
 * Writers: npud writes `seq` (so does the client, to wake a thread of its own), the client
 * the rest. A client killed at any of these stores leaves a stream parked, which goes with its
 * session.
 */
#pragma once

#include <assert.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "proto/util/kill_point.h"

#define CALLBACK_WORD_THREADS 1024u /* threads of the program that run callbacks */
/*
 * From there on: threads of the library, one per context. The last two are for work of the library
 * in stream order, which may fail: kernels, and copies.
 */
#define CALLBACK_WORDS       2048u
#define CALLBACK_WORD_WORK   (CALLBACK_WORDS - 1)
#define CALLBACK_WORD_KERNEL (CALLBACK_WORDS - 2)

/** Is this word that of work which tells how it has ended (stream_work_result())? */
static inline bool callback_word_is_work(uint32_t word)
{
    return word == CALLBACK_WORD_WORK || word == CALLBACK_WORD_KERNEL;
}

/** What such a task is, as the client says. */
enum stream_work_kind {
    STREAM_WORK_MEMORY,     /* a copy, set, reduction or value write */
    STREAM_WORK_VALUE_WAIT, /* of a word of memory that the program has registered */
    STREAM_WORK_KERNEL      /* of CALLBACK_WORD_KERNEL */
};

struct callback_word {
    alignas(64) _Atomic uint32_t seq; /* futex */
    _Atomic uint32_t sleeping;
    _Atomic uint32_t thread; /* tid, for npud's report "waits" alone; 0: not known yet */
    /* the same, while it runs a callback; 0: it does not, or the library is that of 0.9.0 */
    _Atomic uint32_t runs;
};

static_assert(sizeof(struct callback_word) == 64, "one cache line per thread");

/** Engine: there is a callback to run. True: the caller wakes the sleepers on seq. */
static inline bool callback_word_post(struct callback_word *r)
{
    atomic_fetch_add(&r->seq, 1);
    return atomic_load(&r->sleeping) != 0;
}

/** Client: about to sleep. Look for callbacks after this. */
static inline void callback_word_arm(struct callback_word *r)
{
    atomic_store(&r->sleeping, 1);
    KILL_POINT(CALLBACK_WORD_ARMED);
    /* The next loads must not move above that. */
    atomic_thread_fence(memory_order_seq_cst);
}
