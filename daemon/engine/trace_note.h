/*
 * What engines write into the trace of what their streams do. Engine threads, under the lock of the
 * stream's engine, while device->trace is set.
 */
#pragma once

#include <stdint.h>

#include "daemon/engine/run.h"

struct stream;
struct waiter;

/** The calling engine is about to run the current task of stream. */
void trace_note_begin(struct stream *stream, uint64_t now);
/** It has: noted, and written with the next one, or by trace_note_write(). */
void trace_note_result(struct stream *stream, enum run_result result);
/** The client has been told of the task: what was noted of it has time now. */
void trace_note_write(void);

/**
 * The waiter of stream, which waits, has been fired: if a task of the calling engine did it, that
 * is what the trace shows. Any thread; under the lock of an engine, or the control thread.
 */
void trace_note_release(const struct stream *stream, const struct waiter *waiter)
    __attribute__((cold));

/** A rule has hit the current task, which fails with code, or is held: 0. */
void trace_note_fault(const struct stream *stream, uint64_t rule, int32_t code);
