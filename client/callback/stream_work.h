/*
 * Work of the library in the order of a stream (struct stream_work): what a thread of the library
 * runs, in the process of the program. Rooms below call it through client/core/upcall.h, which
 * describes what is not described here.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "client/runtime/stream_callbacks.h"

struct context;
struct session;
struct stream;

int stream_work_launch(struct stream *s, const char *function, struct stream_work *w);
void stream_work_written(struct session *s, const void *address, uint64_t size);
void stream_work_await(struct session *s);
uint64_t stream_work_kernel_due(const struct context *c);
void stream_work_abort_begins(struct session *session);
void stream_work_abort_over(struct session *session);

/** Free what has run, or will not; NULL: nothing. Without locks. */
void stream_work_free(struct stream_work *w);

/* --- for graph_calls.c --- */

/** The thread runs from now on. 0, or an ACL error. Takes the lock. */
int stream_work_start(struct stream *s, const char *function, bool kernel);
/** An execution of a graph comes into the list; its ordinal is set. Under the lock. */
void stream_work_enlist_graph(struct stream *s, struct stream_work *w);
/** Executions that are over leave the list. Takes the lock. */
void stream_work_purge(struct stream *s);

/**
 * Tasks of the stream were discarded, or it ends: its work that has not begun never runs. Ends the
 * kernel that runs, and waits for what runs, so that the program may free the memory that it uses.
 */
void stream_work_discard(struct stream *s);

/**
 * The work with this ordinal was stopped. If the stream is at it still, it fails with
 * ACL_ERROR_RT_STREAM_ABORT: a kernel is ended, other work comes to its end, and both are waited
 * for; what does not run at this moment never does. What is behind it goes on. tag: as the stream
 * had it when it was stopped; if it has ended since, so has its work. Takes the lock.
 */
void stream_work_stop(struct stream *s, uint32_t tag, uint64_t ordinal);

/* --- between stream_work.c and kernel_lane.c. Under process->callback_lock --- */

/** After work was asked to end: until it may have, or is to be asked again. */
void stream_work_await_end(void);

/** Put the stream at the end of this list of session->works; NULL: of none. */
void stream_work_list(struct stream *s, struct stream **list);

/** A stream whose first work is an execution of a graph with something to run now; or NULL. */
struct stream *stream_work_find_graph(const struct session *session, bool kernels);
/** May one of these come to a kernel? */
bool stream_work_awaits_kernel(const struct session *session);

/**
 * What is to run of the first work of the stream; NULL: no memory for it. *over: to be freed
 * without the lock.
 */
struct stream_work *stream_work_begin(struct stream *s, struct stream_work **over);

/**
 * Shall `run`, what is to run of the first work of the stream, begin, or begin anew? 0; or the code
 * that it ends with instead: there was no memory for it; or it was stopped, or its whole stream; or
 * its device is lost, or was: npud has passed it, and told the program so, which may take back the
 * memory that it would use.
 */
int stream_work_refusal(const struct stream *s, const struct stream_work *run);

/** What runs of the first work of the stream; NULL: there was no memory for it. */
struct stream_work *stream_work_running(const struct stream *s);
/** It shall end soon, with this code, if it is a kernel. */
void stream_work_end(struct stream *s, int code);

/**
 * The first work of the stream, which ran, has ended with this code: tell npud, and go on to the
 * next one. Returns it, and what it was copied from if nothing else was: it is the caller's to free
 * with stream_works_free(), without the lock.
 */
struct stream_work *stream_work_retire(struct stream *s, int error);
void stream_works_free(struct stream_work *list);
