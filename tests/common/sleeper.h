/*
 * A second thread that calls aclrtSynchronizeEvent, so that a test can tell a call that must sleep
 * from one that must return.
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "acl/acl.h"

#define SLEEPER_NEVER (-1)

struct sleeper_thread {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    aclrtEvent event; /* NULL: nothing to do */
    int32_t limit_ms; /* of the call; SLEEPER_NEVER: that of the two functions which has none */
    bool returned;
    bool stop;
    int code; /* what the call returned */
};

#define SLEEPER_INIT                                                                               \
    {                                                                                              \
        .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER                     \
    }

/** Start the thread. False: there is none to be had. */
bool sleeper_start(struct sleeper_thread *z);
/** End it. A call under way must come to its end by itself. */
void sleeper_stop(struct sleeper_thread *z);

/** Make it call. It must have nothing to do. */
void sleeper_begin(struct sleeper_thread *z, aclrtEvent event, int32_t limit_ms);

/**
 * Has the call returned? wait_ms above 0: give it so long. code is set then. With the lock held.
 */
bool sleeper_returned(struct sleeper_thread *z, int32_t wait_ms);
