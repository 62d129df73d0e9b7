/*
 * The tasks that the backend does: copies, sets, reductions and delays. Engine threads only, under
 * the lock of the stream's engine.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "daemon/engine/run.h"

struct stream;

enum run_result work_run_copy(struct stream *s, uint64_t now);
enum run_result work_run_set(struct stream *s, uint64_t now);
enum run_result work_run_delay(struct stream *s, uint64_t now);
enum run_result work_run_reduce(struct stream *s, uint64_t now);

/* More of their rows: task_row.h. Memory that work has used can go when it is given up. */
bool work_give_up(struct stream *s);
void work_drop(struct stream *s);
/* If npud has ended in the work of the task at the head, this still has its memory. */
void work_restore_copy(struct stream *s);
void work_restore_set(struct stream *s);
void work_restore_reduce(struct stream *s);
