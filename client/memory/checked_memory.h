/*
 * What a checked process writes down of memory (client/check): what there is, and what calls read
 * and write. Tasks of the ring are written down where they are submitted
 * (client/runtime/stream.c); here is the rest: what the calling thread does itself, and what a
 * thread of the library does in the order of a stream. Callers look at checked_runs() first.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "client/check/checked.h"

struct memory;
struct place;
struct session;
struct stream;

/** It is in the table of allocations, which the caller has locked. key: of an import, or NULL. */
void checked_added(const struct memory *m, const char *key) __attribute__((cold));

/** It is about to leave the table. */
void checked_removed(const struct memory *m) __attribute__((cold));

/** An allocation without an address; identity: of the export that was imported, or 0. */
void checked_physical(enum check_kind kind, uint32_t slot, uint32_t generation, uint64_t size,
                      uint32_t device, bool host, uint64_t identity) __attribute__((cold));

/** Others may import it by this identity. */
void checked_export(uint32_t slot, uint32_t generation, uint64_t size, uint64_t identity)
    __attribute__((cold));

/** POOL_ALLOC, POOL_FREE: in the order of the stream. */
void checked_pool(enum check_kind kind, const struct stream *s, const struct memory *m)
    __attribute__((cold));

/**
 * `count` bytes are written at `to` and read at `from`; either may be NULL, and pageable memory is
 * left out. s: in the order of this stream; NULL: by the calling thread, which has done it.
 */
void checked_access(struct session *session, const struct stream *s, const struct place *to,
                    const struct place *from, uint64_t count) __attribute__((cold));

/** A reduction, which also reads at `to`. */
void checked_reduce(const struct stream *s, const struct place *to, const struct place *from,
                    uint64_t count) __attribute__((cold));

/** A wait for a word, or a write of one (op: TASK_VALUE_WAIT, TASK_VALUE_WRITE). */
void checked_word(const struct stream *s, enum task_op op, const struct place *at, uint64_t value,
                  uint32_t condition) __attribute__((cold));

/** place_find() refuses `count` bytes at address. */
void checked_refusal(enum check_refusal why, const void *address, uint64_t count,
                     const struct memory *m) __attribute__((cold));
