/*
 * Bytes that the calling thread moves by itself. Memory of a strict device it cannot reach: its
 * address is a number, at which nothing is mapped. Then a stream of the library's own moves them,
 * through staging buffers if the other side is out of an engine's reach, and the call waits for it.
 *
 * What a thread reads or writes by itself is not unmapped meanwhile (hold.h). What was freed or
 * unmapped after it was found is refused: 107000.
 *
 * direct.c is the one file of the library that reads or writes at an address that may be device
 * memory (make lint).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "client/memory/place.h"
#include "client/runtime/stream.h"

/** Copy now. Ranges may overlap. 0, or an ACL error. */
int direct_copy(struct session *s, const char *function, const struct place *to,
                const struct place *from, uint64_t count);

/**
 * The same for a task of the library's thread, in its turn: pieces that were found at the call, and
 * cross no border. As of an engine, 507013 if one of them is not what it was then.
 */
int direct_copy_in_turn(struct session *s, const char *function, const struct place *to,
                        const struct place *from, uint64_t count);

/** Memory of the library's own: no place_find(), which finds anything that the library has. */
static inline struct place direct_own(const void *address)
{
    return (struct place){.kind = PLACE_PAGEABLE, .address = (void *)(uintptr_t)address};
}

/** direct_copy() from, or to, memory of the library's own. */
int direct_read(struct session *s, const char *function, const struct place *from, void *to,
                uint64_t count);
int direct_write(struct session *s, const char *function, const struct place *to, const void *from,
                 uint64_t count);

/** Copy now, on a locked stream of which nothing is outstanding. 0, or an ACL error. */
int direct_copy_on(struct stream *s, const char *function, const struct place *to,
                   const struct place *from, uint64_t count);

/** Fill with bytes now. 0, or an ACL error. */
int direct_set(struct session *s, const char *function, const struct place *at, uint8_t value,
               uint64_t count);

/** Can the calling thread reach it? */
static inline bool direct_reaches(const struct place *at)
{
    return at->kind != PLACE_DEVICE || !at->memory.opaque;
}

/* At places that the calling thread reaches. 0, or an ACL error. */

/** Fill with `count` words. */
int direct_set_words(struct session *s, const char *function, const struct place *at, uint32_t word,
                     uint64_t count);
/** reduce_apply() of `count` bytes. */
int direct_reduce(struct session *s, const char *function, const struct place *to,
                  const struct place *from, uint64_t count, uint32_t kind, uint32_t type);
int direct_word_read(struct session *s, const char *function, const struct place *at,
                     uint64_t *value);
int direct_word_write(struct session *s, const char *function, const struct place *at,
                      uint64_t value);

/** Submit tasks to a locked stream. 0, or an ACL error. */
typedef int direct_submit_fn(struct stream *s, void *context);

/**
 * Have a stream of the library's own on this device do what submit() gives it, and wait for it. 0,
 * or an ACL error: also that of a task.
 */
int direct_run(struct session *s, const char *function, uint32_t device, direct_submit_fn *submit,
               void *context);
