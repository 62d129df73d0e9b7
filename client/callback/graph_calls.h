/*
 * What threads of this process run when a stream gets to it in a graph: functions of the program,
 * and work of the library.
 *
 * An execution of a graph takes a range of the stream's ordinals, and has one element in the list
 * of callbacks of the stream, if there are functions in the graph, and one in the list of its work.
 * npud hands over one ordinal of the range after the other, in whatever order the graph has them,
 * and as often as it comes to them; the ordinal tells which call it is (proto/shm/graph_shm.h). All
 * of them block the stream, so that there is at most one to run.
 *
 * An element is over when a later ordinal was handed over, or the stream has passed the execution.
 * All of this is under process->callback_lock.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "client/runtime/stream_callbacks.h"

struct graph_calls;
struct stream;

/** An execution. */
struct graph_span {
    struct graph_calls *calls; /* with a reference */
    uint64_t base, last;       /* its ordinals are above base, and up to last */
    uint64_t position;         /* behind it, in the stream */
    uint32_t task;             /* its id */
    uint64_t execution;        /* which one of the graph, from 0 */
};

/** The element for its work. */
struct graph_works {
    struct stream_work work; /* what stands in the list. `ordinal`: calls before are over */
    struct graph_span span;
    struct stream_work *instance; /* of the work that runs, or that runs again; NULL: none */
    uint64_t ordinal;             /* of that one */
    struct graph_calls *copied;   /* counts it; NULL: not counted */
};

/** Are all of its calls over? handed: callback_handed_over() */
bool graph_span_over(const struct graph_span *span, const struct stream *s, uint64_t handed);

/** The call that was handed over, if it is of the span and not before `from`; or NULL. */
const struct graph_call *graph_span_call(const struct graph_span *span, uint64_t from,
                                         uint64_t handed);

/** It has functions of the program. */
bool graph_span_has_functions(const struct graph_span *span);

/**
 * What ran, or was to run, of the element is over. Under the lock. Returns what the caller is to
 * free with graph_works_drop(), without it.
 */
struct stream_work *graph_calls_end_instance(struct graph_works *works);

/**
 * The work of calls is another one from now on: works[i] of call indexes[i]. What was there before
 * goes when nothing runs that was copied from it. Under the lock. Returns what the caller is to
 * free with graph_works_drop(), without it.
 */
struct stream_work *graph_calls_replace(struct graph_calls *calls, const uint32_t *indexes,
                                        struct stream_work *const *works, uint32_t n);
void graph_works_drop(struct stream_work *list);

/** Without locks. */
void graph_works_free(struct graph_works *works);
void graph_span_drop(struct graph_span *span);
void graph_calls_put(struct graph_calls *calls);
/** The same under the lock. */
void graph_calls_unref(struct graph_calls *calls);
