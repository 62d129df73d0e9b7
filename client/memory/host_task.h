/*
 * Tasks that name memory of the program which is registered (registration.h). npud's engine does
 * not reach it, so a thread of the library executes them when the stream gets there
 * (client/callback/stream_work.c).
 *
 * What a task names was found at the call, piece by piece, and is the same in its turn, by npud's
 * number and generation and by its addresses; else the task fails with 507013, as one of an engine
 * does. While the thread is at it, it is not unmapped (hold.h). Of the program's own memory the
 * library knows nothing: it must be there until the stream has passed the task.
 *
 * The stream is locked in all of these. Each returns 0, or an ACL error.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "proto/shm/stream_shm.h"

struct place;
struct stream;

/** Copy; one of the places at least is PLACE_REGISTERED, and engines reach the other, or it is. */
int host_task_copy(struct stream *s, const char *function, const struct place *to,
                   const struct place *from, uint64_t count);

/** Copy to PLACE_REGISTERED what is taken now, of a place that the calling thread reaches. */
int host_task_copy_taken(struct stream *s, const char *function, const struct place *to,
                         const struct place *from, uint64_t count);

/** Fill `count` bytes at PLACE_REGISTERED with a word: the byte of a fill with bytes four times. */
int host_task_set(struct stream *s, const char *function, const struct place *at, uint32_t word,
                  uint64_t count);

/** As TASK_REDUCE; one of the places at least is PLACE_REGISTERED. */
int host_task_reduce(struct stream *s, const char *function, const struct place *to,
                     const struct place *from, uint64_t count, uint32_t kind, uint32_t type);

/**
 * As TASK_VALUE_WRITE and TASK_VALUE_WAIT, at host memory of any kind that is registered. A wait
 * fails with 507013 when the memory is not registered any more. Stores of the program are seen
 * within milliseconds, what the library writes at once.
 */
int host_task_value_write(struct stream *s, const char *function, const struct place *at,
                          uint64_t value);
int host_task_value_wait(struct stream *s, const char *function, const struct place *at,
                         uint64_t value, uint32_t condition);
