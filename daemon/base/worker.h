/*
 * A thread that does what other threads must not wait for: each piece of work in its turn, outside
 * of all locks. It sleeps while there is none. Several workers and not one, because the work of
 * some may never come to an end: a file of a client, a reader of the log that stalls.
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>

/** A piece of work: the first member of what is to be worked on. */
struct errand {
    struct errand *prev, *next; /* worker->first */
};

/** What becomes of it after its turn. */
enum errand_end {
    ERRAND_DONE,  /* it is freed: free(), when the worker has forgotten it */
    ERRAND_AGAIN, /* it has another turn, after all others that wait */
    ERRAND_GONE,  /* it belongs to another thread, or is freed, already */
};

struct worker {
    const char *name; /* of the thread: at most 15 characters */
    enum errand_end (*run)(struct errand *errand);
    bool lazy; /* starts with the first errand; if it cannot, then with the next */

    pthread_t thread;
    pthread_mutex_t lock; /* of what follows; never held while it works */
    pthread_cond_t more;  /* or the thread is to end, or has ended */
    struct errand *first; /* has its turn next */
    struct errand *at;    /* its turn is now; NULL: none has */
    bool started, stop;
};

#define WORKER_INIT(name_, run_, lazy_)                                                            \
    {                                                                                              \
        .name = (name_), .run = (run_), .lazy = (lazy_), .lock = PTHREAD_MUTEX_INITIALIZER,        \
        .more = PTHREAD_COND_INITIALIZER                                                           \
    }
#define WORKER(name, run)      WORKER_INIT(name, run, false)
#define WORKER_LAZY(name, run) WORKER_INIT(name, run, true)

/**
 * Starts the thread, if it is not there, with all signals blocked but those of a crash. 0 or
 * -errno.
 */
int worker_start(struct worker *worker);

/**
 * Takes the work over. Any thread. False: there is no thread, or it is about to end, and the work
 * is still the caller's; not if it is lazy.
 */
bool worker_put(struct worker *worker, struct errand *errand);

/** Has it nothing to do? Any thread. */
bool worker_is_idle(struct worker *worker);

/** Does what is left and ends the thread, which may be started again. Safe if it is not there. */
void worker_stop(struct worker *worker);

/**
 * The same, but at most for so long. False: what it does has not come to an end. The worker, and
 * what was put, then stay for the end of the process.
 */
bool worker_stop_within(struct worker *worker, unsigned patience_ms);
