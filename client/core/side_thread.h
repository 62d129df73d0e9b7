/*
 * A thread of the library that serves a session beside the calls. It ends by itself when npud is
 * gone, or aclFinalize ends it: whichever of the two comes first decides which side frees it.
 *
 *     NONE -> RUNS -> ASKED   aclFinalize was first, and joins it
 *                  -> ALONE   it was first, and is detached
 *
 * NONE becomes ALONE where a thread that could not be started is not tried again.
 */
#pragma once

#include <stdatomic.h>

#include "client/core/thread.h"

enum side_thread_state { SIDE_THREAD_NONE, SIDE_THREAD_RUNS, SIDE_THREAD_ASKED, SIDE_THREAD_ALONE };

/** All zero: not started. */
struct side_thread {
    pthread_t id;
    _Atomic int state; /* enum side_thread_state */
};

static inline bool side_thread_change(struct side_thread *t, int from, int to)
{
    return atomic_compare_exchange_strong(&t->state, &from, to);
}

/** Start it unless it was started before. 0, or an error number: then the state is NONE again. */
static inline int side_thread_start(struct side_thread *t, void *(*main)(void *arg), void *arg,
                                    const char *name, size_t stack)
{
    int r;

    if (!side_thread_change(t, SIDE_THREAD_NONE, SIDE_THREAD_RUNS))
        return 0;
    r = thread_start(&t->id, main, arg, name, stack);
    if (r != 0)
        atomic_store(&t->state, SIDE_THREAD_NONE);
    return r;
}

/** The thread itself: is it to end? */
static inline bool side_thread_asked(const struct side_thread *t)
{
    return atomic_load(&t->state) == SIDE_THREAD_ASKED;
}

/** The thread itself, which ends because npud is gone. False: aclFinalize was first. */
static inline bool side_thread_leave(struct side_thread *t)
{
    if (!side_thread_change(t, SIDE_THREAD_RUNS, SIDE_THREAD_ALONE))
        return false;
    pthread_detach(pthread_self());
    return true;
}

/** aclFinalize. True: wake it, and join t->id. False: it does not run, or ends by itself. */
static inline bool side_thread_ask(struct side_thread *t)
{
    return side_thread_change(t, SIDE_THREAD_RUNS, SIDE_THREAD_ASKED);
}
