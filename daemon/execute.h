/* Executing tasks: what each op of the ring does. Engine threads only, under the lock of the
 * stream's engine. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct stream;

enum run_result {
    RUN_RETIRED, /* the task is finished, well or badly */
    RUN_WORKED,  /* the same, and it took a slice: let others have their turn */
    RUN_AGAIN,   /* unfinished: call again when others have had their turn */
    RUN_WAITS,   /* parked on a waitlist, a timer or both; engine_unpark() or the timer continues it
                  */
};

/** Start stream->task, or go on with it. now: CLOCK_MONOTONIC nanoseconds. */
enum run_result task_execute(struct stream *stream, uint64_t now);

/** The stream's current task is a callback: has it returned? */
bool task_callback_done(const struct stream *stream);

/** The op in words ("copy"), for messages. */
const char *task_op_name(unsigned op);
