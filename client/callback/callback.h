/*
 * Callbacks of streams: who runs those of which stream, and what is to be run. See
 * proto/shm/callback_shm.h.
 *
 * A worker is a thread that runs callbacks: one of the program, which sits in aclrtProcessReport
 * (made by the first subscription of its id, gone with the last), or one of the library for the
 * host functions of a context. A stream has at most one.
 *
 * A callback that was launched runs once, or is dropped once: when its stream or its subscription
 * ends before it has begun. The stream goes on as if it had run.
 *
 * All of this is guarded by process->report_lock, which is taken inside any other lock but
 * waits.lock and never held while a function of the program runs. It is in the process page so that
 * a thread can come and find that there is no session any more.
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "client/core/lifecycle.h"
#include "client/core/process.h"
#include "proto/shm/callback_shm.h"

struct context;
struct reports;
struct session;
struct stream;

/** Launched, not begun. */
struct callback {
    struct callback *next;
    void (*fn)(void *data);
    void (*drop)(void *data); /* called in place of fn when that will never run; or NULL */
    void *data;
    uint64_t ordinal;
    bool block;
};

/** One that runs at this moment; on the stack of its worker's thread. */
struct callback_run {
    struct session *session;
    struct stream *stream;
    struct worker *worker;
    struct callback *callback;
    pthread_t thread;
    pid_t process;
    bool ring;   /* the stream waits for it, or for one that was dropped meanwhile */
    bool orphan; /* it has ended its own stream */
};

struct worker {
    bool used;
    bool ended;      /* host functions: its context is gone */
    uint64_t serial; /* counts its uses */
    uint64_t thread_id;
    pthread_t thread;        /* host functions */
    struct context *context; /* host functions */
    uint32_t device;         /* of its streams */
    struct stream *streams;
    uint64_t changes; /* counts streams that it has lost */
};

/** Of a session, once it needs them. */
struct reports {
    struct worker worker[REPORTS];
    uint32_t end;    /* no worker of the program from here on was ever used */
    uint32_t inside; /* threads that have to leave before this is freed */
};

/** Of a stream. */
struct callbacks {
    _Atomic(struct worker *) worker; /* NULL: nobody. A look at it needs no lock */
    struct stream *prev, *next;      /* worker->streams */
    struct callback *first, **last;
    uint64_t launched; /* ordinal of the latest one */
    uint64_t dropped;  /* ordinal of the latest one that was dropped */
    uint64_t told;     /* up to here we have told the worker by ourselves */
    uint64_t batch;    /* up to here they run in this turn of the worker */
    struct callback_run *running;
    uint64_t runs; /* counts those that have returned; never goes back */
};

/* --- for streams, contexts and the session --- */

/** A new stream: nobody, nothing. */
void callback_stream_init(struct stream *s);

/**
 * The stream is about to end: drop what has not begun, wait for what is running (unless the caller
 * is that: then the stream goes on without it). Host functions only if host_too, or if the caller
 * is their thread: they come to their end by themselves. Idempotent. Takes the lock; calls drop
 * functions.
 */
void callback_stream_end(struct stream *s, bool host_too);

/**
 * If the caller runs a callback of the stream, the stream does not wait for it any more: it counts
 * as returned. For a caller that is about to wait for the stream's end. Takes the lock.
 */
void callback_stream_go_on(struct stream *s);

/**
 * The callback of the stream that runs counts as returned: nobody waits for it any more. Takes the
 * lock.
 */
void callback_stream_disown(struct stream *s);

/**
 * Tasks of the stream were discarded: its callbacks that have not begun never run. The caller
 * disposes of them, without locks.
 */
struct callback *callback_stream_discard(struct stream *s);

/** The same for all streams of a context that threads of the program have subscribed to. */
void callback_context_leave(struct context *c);

/** The streams of the context are gone: end its thread for host functions, if it has one. */
void callback_context_end(struct context *c);

extern const struct part callback_part;

/** npud is gone: drop all that has not begun. Without process->lock. */
void callback_drop_lost(void);

/* --- between callback.c and callback_run.c. Under the lock --- */

static inline void report_lock(void)
{
    pthread_mutex_lock(&process->report_lock);
}

static inline void report_unlock(void)
{
    pthread_mutex_unlock(&process->report_lock);
}

/** The word in the session page. */
struct report *worker_report(struct session *session, const struct worker *w);

/** Wake its thread, so that it looks once more. */
void worker_wake(struct session *session, const struct worker *w);

/** The thread for host functions of the context, started if need be; NULL: no memory. */
struct worker *worker_of_context(struct context *c);

/** Tell npud that callbacks up to ordinal are done; ring: the stream waits for one of them. */
void callbacks_acknowledge(struct stream *s, uint64_t ordinal, bool ring);

/** Take all that has not begun off the stream, which goes on. Dispose of it without the lock. */
struct callback *callbacks_take(struct stream *s);
/** Those of all streams of w. */
struct callback *worker_take(struct worker *w);
/** Call the drop functions, and free. Not under the lock. */
void callbacks_dispose(struct callback *list);
