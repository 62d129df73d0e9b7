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
