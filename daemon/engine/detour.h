/*
 * Tasks that do not run straight on: while rules of `npuctl inject` may be for them, or a trace
 * runs.
 */
#pragma once

#include <stdint.h>

#include "daemon/engine/run.h"

struct stream;

/** Engine, in place of execute_task() while device->detour is set. */
enum run_result detour_execute(struct stream *stream, uint64_t now) __attribute__((cold));
