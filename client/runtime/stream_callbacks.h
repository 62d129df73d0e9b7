/*
 * What streams and contexts have of callbacks: the state in each stream, and what runtime calls
 * when a stream ends or its tasks are discarded. The contract between runtime and the room above
 * it: client/callback/callback.c and client/callback/callback_run.c implement it.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct callback;
struct callback_run;
struct context;
struct stream;
struct stream_work;
struct worker;

/** Of a stream. */
struct callbacks {
    _Atomic(struct worker *) worker; /* NULL: none. May be read without the lock */
    struct stream *prev, *next;      /* worker->streams */
    /* The list of the worker that it is in, while it has callbacks that have not begun; or NULL */
    struct stream **list;
    struct stream *list_prev, *list_next;
    struct callback *first, **last;
    uint64_t launched; /* ordinal of the latest one */
    uint64_t dropped;  /* ordinal of the latest one that was dropped */
    uint64_t told;     /* up to here the library has told the worker by itself */
    uint64_t batch;    /* up to here they run in this turn of the worker */
    struct callback_run *running;
    uint64_t runs;     /* counts those that have returned; never goes back */
    uint64_t returned; /* ordinal up to which npud may know them as done, but for `work` */
    /* Work of the library, with ordinals of the same sequence: client/callback/stream_work.c */
    struct stream_work *work, **work_last; /* oldest first; the first one may run */
    bool work_runs;
    struct stream **work_list;            /* that it is in: of session->works; NULL: none */
    struct stream *work_prev, *work_next; /* there */
};

/** A new stream: no worker, and no callback. */
void callback_stream_init(struct stream *s);

/**
 * The stream is about to end: drop what has not begun, wait for what is running (unless the caller
 * is that: then the stream goes on without it). Host functions only if host_too, or if the caller
 * is their thread: they come to their end by themselves. Idempotent. Takes the lock; calls drop
 * functions.
 */
void callback_stream_end(struct stream *s, bool host_too);

/**
 * The callback of the stream that runs counts as returned: no thread waits for it any more, and the
 * stream goes on. own_only: only if the caller runs it, and is about to wait for the stream's end.
 * Takes the lock.
 */
void callback_stream_disown(struct stream *s, bool own_only);

/**
 * Tasks of the stream were discarded: its callbacks that have not begun never run. The caller
 * disposes of them, without locks.
 */
struct callback *callback_stream_discard(struct stream *s);

/** The same for all streams of a context that threads of the program have subscribed to. */
void callback_context_leave(struct context *c);

/** The streams of the context are gone: end its thread for host functions, if it has one. */
void callback_context_end(struct context *c);

/** npud is gone: drop all that has not begun. Without process->lock. */
void callback_drop_lost(void);

/** list, followed by more. */
struct callback *callback_join(struct callback *list, struct callback *more);

/** Call the drop functions, and free. Without locks. */
void callback_dispose(struct callback *list);

/**
 * Tasks of the stream were discarded, or it ends: its work that has not begun never runs. Waits for
 * what runs, so that the program may free the memory that it uses.
 */
void stream_work_discard(struct stream *s);

/**
 * An abort of a device begins, before any stream hears of it, and is over, when all have. Work that
 * it has let go in streams that it has left as they were begins anew then.
 */
void stream_work_abort_begins(struct session *session);
void stream_work_abort_over(struct session *session);
