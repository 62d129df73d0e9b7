/* Executing tasks: what each op of the ring does. Engine threads only, under the lock of the
 * stream's engine. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "daemon/engine/run.h"

struct stream;
struct waitlist;

/** Start stream->live->task, or go on with it. now: CLOCK_MONOTONIC nanoseconds. */
enum run_result execute_task(struct stream *stream, uint64_t now);

/** The stream's current task is a callback: has it returned? */
bool execute_callback_done(const struct stream *stream);

/**
 * Is the stream at work that its client runs (callback_word_is_work()), or will run? The ordinal of
 * that; 0: at something else. The engine is locked out.
 */
uint64_t execute_work(struct stream *stream);

/**
 * Let stream->live->task fail with code, begun or not, in place of going on with it. It does
 * nothing more, except that no stream or process is left waiting for it: a failed record ends the
 * waits for it, those for a record of an IPC event with an error of their own (507057). The stream
 * is on no list.
 */
enum run_result execute_fail(struct stream *stream, int32_t code);

/**
 * The current task is ended before it began, while a rule of fault injection holds it: do for it
 * what a failed task does for those that wait for it. Nothing to do for a task that has begun. The
 * engine is locked out.
 */
void execute_abandon(struct stream *stream);

/**
 * Park the stream on list before it begins with its task, until the list is fired; then it begins.
 */
enum run_result execute_hold(struct stream *stream, struct waitlist *list);
