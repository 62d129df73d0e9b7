/* Threads that run callbacks, for tests: aclrtProcessReport in a loop. */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "tests/common/harness.h"

struct reporter {
    pthread_t thread;
    _Atomic bool stop;
    _Atomic bool ended;         /* it has left its loop */
    _Atomic int result;         /* of the call that ended the loop */
    _Atomic uint32_t callbacks; /* calls that ran any */
    int32_t timeout_ms;         /* of each call */
};

/**
 * Start it. It calls aclrtProcessReport(timeout_ms), whether it is subscribed (yet, any more) or
 * not, until that fails otherwise or stop is set and there is nothing to run.
 */
void reporter_start(struct reporter *r, int32_t timeout_ms);

/** Wait for its end. */
void reporter_join(struct reporter *r);

/** stop, and join: one that has a time limit, or no stream any more. */
void reporter_stop(struct reporter *r);

/** End its last subscription, and it. */
void reporter_leave(struct reporter *r, aclrtStream stream);

static inline uint64_t reporter_id(const struct reporter *r)
{
    return (uint64_t)r->thread;
}

/** A point that a thread waits at until another opens it. */
struct latch {
    pthread_mutex_t lock;
    pthread_cond_t cond;
    bool open;
};
#define LATCH                                                                                      \
    {                                                                                              \
        PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, false                                 \
    }

void latch_open(struct latch *l);
/** Asserts that the day comes. */
void latch_wait(struct latch *l);
bool latch_is_open(struct latch *l);

/** Ask npud until a thread of this process sleeps in that function. */
void await_sleeper(const char *call);
/** Ask npud until stream waits for a callback. */
void await_callback(aclrtStream stream);
