/*
 * The tasks that the backend does: copies, sets, reductions and delays. Engine threads only, under
 * the lock of the stream's engine.
 */
#pragma once

#include <stdint.h>

#include "daemon/engine/run.h"

struct stream;

enum run_result work_run_copy(struct stream *s, uint64_t now);
enum run_result work_run_set(struct stream *s, uint64_t now);
enum run_result work_run_delay(struct stream *s, uint64_t now);
enum run_result work_run_reduce(struct stream *s, uint64_t now);

/**
 * The task at the head is over, or dropped: memory that it has used can go. Also the control thread
 * while the engine is locked out.
 */
void work_end(struct stream *s);

/** Recovery: if npud has ended in the work of the task at the head, this still has its memory. */
void work_restore(struct stream *s);
