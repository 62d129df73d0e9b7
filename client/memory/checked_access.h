/*
 * What a checked process reads and writes, written down (client/check). Tasks of the ring are
 * written down where they are submitted (client/runtime/stream.c); here is the rest: what the
 * calling thread does itself, and what a thread of the library does in the order of a stream.
 * Callers look at checked_runs() first. What a thread does itself is told to a trace, too:
 * process_tells_accesses() is looked at before that.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "client/check/checked.h"

struct place;
struct session;
struct stream;

/**
 * `count` bytes are written at `to` and read at `from`; either may be NULL, and pageable memory is
 * left out. s: in the order of this stream; NULL: by the calling thread, which has done it.
 */
void checked_access(struct session *session, const struct stream *s, const struct place *to,
                    const struct place *from, uint64_t count) __attribute__((cold));

/** A reduction, which also reads at `to`. */
void checked_reduce(const struct stream *s, const struct place *to, const struct place *from,
                    uint64_t count) __attribute__((cold));

/**
 * A kernel is launched with these words among its arguments. It may read and write what they point
 * to, up to the end of the allocation; which bytes it does is not known.
 */
void checked_kernel(const struct stream *s, const uint64_t *words, size_t n) __attribute__((cold));

/**
 * The same of a kernel of a graph: each execution writes the list down. NULL: nothing is known of
 * what it points to.
 */
struct graph_check *checked_graph_kernel(struct session *session, const uint64_t *words, size_t n)
    __attribute__((cold));

/** A wait for a word, or a write of one (op: TASK_VALUE_WAIT, TASK_VALUE_WRITE). */
void checked_word(const struct stream *s, enum task_op op, const struct place *at, uint64_t value,
                  uint32_t condition) __attribute__((cold));
