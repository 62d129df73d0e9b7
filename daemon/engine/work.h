/*
 * The tasks that the backend does: copies, sets, reductions, delays and launches. Engine threads
 * only, under the lock of the stream's engine.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "daemon/engine/run.h"

struct mem;
struct stream;

enum run_result work_run_copy(struct stream *s, uint64_t now);
enum run_result work_run_set(struct stream *s, uint64_t now);
enum run_result work_run_delay(struct stream *s, uint64_t now);
enum run_result work_run_reduce(struct stream *s, uint64_t now);
enum run_result work_run_launch(struct stream *s, uint64_t now);

/**
 * The same for words that npud cannot reach: of TASK_VALUE_WRITE; and the one at offset of m, for
 * any task, which takes the place of `waiter` meanwhile. m: NULL if that is under way (s->away).
 * RUN_RETIRED: it is read, or the task has failed.
 */
enum run_result work_write_word(struct stream *s, uint64_t now, struct mem *m);
enum run_result work_read_word(struct stream *s, uint64_t now, struct mem *m, uint64_t offset,
                               uint64_t *word);

/** The work is over, or does not go on: memory that it has used can go. */
void work_end(struct stream *s);

/**
 * Control thread: the current task alone is dropped. What was given to a device together with it,
 * behind it, keeps its places there: else it would be done twice. False: there is none, and the
 * task is to be dropped as others are.
 */
bool work_stop(struct stream *s);

/**
 * Control thread, of a stream that is held: is what it has dropped over? A device may have begun
 * it, and uses memory that the program takes back when an abort has returned. 0 or -EINPROGRESS:
 * when it is, backend_told().
 */
int work_await_dropped(struct stream *s);

/**
 * The task at the head was read for a second time: the first time, its work was given to a device
 * with that of others. If the client has changed it since, it fails, and leaves its place there.
 */
void work_check_given(struct stream *s);

/** While npud restores: places that work of the stream has with a device are its own again. */
void work_restore_ticket(struct stream *s);

/* More of their rows: task_row.h. Memory that work has used can go when it is given up. */
bool work_give_up(struct stream *s);
void work_drop(struct stream *s);
void work_pass_over(struct stream *s);
/* If npud has ended in the work of the task at the head, this still has its memory. */
void work_restore_copy(struct stream *s);
void work_restore_set(struct stream *s);
void work_restore_value_write(struct stream *s);
void work_restore_reduce(struct stream *s);
