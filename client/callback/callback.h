/*
 * Callbacks of streams: which thread runs those of which stream, and what is to be run. See
 * proto/shm/callback_shm.h.
 *
 * A worker is a thread that runs callbacks: one of the program, which sits in aclrtProcessReport
 * (made by the first subscription of its id, gone with the last), or one of the library for the
 * host functions of a context. A stream has at most one.
 *
 * A callback that was launched runs once, or is dropped once: when its stream or its subscription
 * ends before it has begun. The stream goes on as if it had run.
 *
 * All of this is guarded by process->callback_lock, which is taken inside any other lock but
 * waits.lock and never held while a function of the program runs. It is in the process page so that
 * a thread can come and find that there is no session any more.
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "client/callback/graph_calls.h"
#include "client/core/process.h"
#include "client/runtime/stream_callbacks.h"
#include "proto/shm/callback_shm.h"

struct context;
struct callback_workers;
struct session;
struct stream;

/** Launched, not begun. */
struct callback {
    struct callback *next;
    void (*fn)(void *data);
    void (*drop)(void *data); /* called in place of fn when that will never run; or NULL */
    void *data;
    uint64_t ordinal; /* for a graph: calls before are over */
    bool block;
    /* It stands for the functions of an execution of a graph; else calls is NULL. fn is not set. */
    struct graph_span graph;
};

/** One that runs at this moment; on the stack of its worker's thread. */
struct callback_run {
    struct session *session;
    struct stream *stream;
    struct worker *worker;
    struct callback *callback;
    struct callback instance; /* of a graph: callback points there */
    pthread_t thread;
    pid_t process;
    uint64_t begun_ns;     /* 0: no trace ran */
    bool ring;             /* the stream waits for it, or for one that was dropped meanwhile */
    bool disowned;         /* it has ended its own stream */
    uint64_t check_stream; /* stream_checked_name() */
};

/*
 * FREE -> SERVES -> FREE          of the program, when its last stream goes
 *                -> ENDS -> FREE  of host functions, when its context goes, and then its thread
 *
 * If npud is gone, the thread for host functions ends by itself: its worker becomes FREE, or if it
 * has streams, stays what it is until the session is freed.
 */
enum worker_state { WORKER_FREE, WORKER_SERVES, WORKER_ENDS };

struct worker {
    enum worker_state state;
    uint64_t serial; /* counts its uses */
    uint64_t thread_id;
    pthread_t thread;        /* host functions */
    struct context *context; /* host functions */
    uint32_t device;         /* of its streams */
    struct stream *streams;
    /* Those of them with callbacks that have not begun: most streams have none. */
    struct stream *pending; /* not known to be ready, the one that has waited longest first */
    struct stream *ready;   /* with some that run in this turn */
};

/** Of a session, once it needs them. */
struct callback_workers {
    struct worker worker[CALLBACK_WORDS];
    uint32_t end;    /* no worker of the program from here on was ever used */
    uint32_t inside; /* threads that have to leave before this is freed */
};

/* --- between callback.c and callback_run.c. Under the lock --- */

static inline void callback_lock(void)
{
    pthread_mutex_lock(&process->callback_lock);
}

static inline void callback_unlock(void)
{
    pthread_mutex_unlock(&process->callback_lock);
}

/** Move the stream to the end of this list of its worker; NULL: to none. */
void callback_list_stream(struct stream *s, struct stream **list);

/** The word in the session page. */
struct callback_word *callback_worker_word(struct session *session, const struct worker *w);

/** Wake its thread, so that it looks once more. */
void callback_worker_wake(struct session *session, const struct worker *w);

/** Up to here, the callbacks and the work of the stream may run. */
uint64_t callback_handed_over(const struct stream *s);

/** The thread for host functions of the context, started if need be; NULL: no memory. */
struct worker *callback_worker_of_context(struct context *c);

/**
 * Tell npud that callbacks up to ordinal are done, as far as no work of the library is before them;
 * ring: the stream waits for one of them.
 */
void callback_acknowledge(struct stream *s, uint64_t ordinal, bool ring);

/** Executions of graphs whose calls are over leave the list. Any thread; takes the lock. */
void callback_purge(struct stream *s);

/** The first in the list that is not such an execution; or NULL. */
struct callback *callback_first_open(const struct stream *s, uint64_t handed);

/** The same for the first ones, under the lock, by the thread that runs them. */
void callback_drop_over(struct stream *s, uint64_t handed);

/**
 * An execution of a graph comes into the list, with the functions of `span`. *word: where its
 * worker sleeps. Under the lock.
 */
int callback_enlist_graph(const char *function, struct stream *s, struct callback *c,
                          const struct graph_span *span, bool host, uint32_t *word);

/**
 * Take all that has not begun off the streams of w, which go on. Dispose of it without the lock.
 */
struct callback *callback_worker_take(struct worker *w);

/* --- what rooms below call through client/core/upcall.h, which describes it --- */

void callback_stream_init(struct stream *s);
void callback_stream_end(struct stream *s, bool host_too);
void callback_stream_disown(struct stream *s, bool own_only);
struct callback *callback_stream_discard(struct stream *s);
void callback_context_leave(struct context *c);
void callback_context_end(struct context *c);
void callback_drop_lost(void);
struct callback *callback_join(struct callback *list, struct callback *more);
void callback_dispose(struct callback *list);
