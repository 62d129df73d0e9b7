/*
 * What engines write into the trace of what their streams do. Engine threads, under the lock of the
 * stream's engine, while device->trace is set.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "daemon/engine/run.h"

struct stream;
struct waiter;

/**
 * The stream that the calling thread, an engine, runs: from trace_note_begin() to
 * trace_note_write(). NULL: it runs none, or not for a trace. A stream behind it may be gone.
 */
extern __thread const struct stream *trace_note_running;

/**
 * A glance of the idle engine has found the current task of stream, a quick one, which begins at
 * now. early: that is from before the glance. A look at the clock after it would be more exact, but
 * the client would wait for it: it costs a tenth of the time from submission to completion.
 */
void trace_note_quick(struct stream *stream, uint64_t now, bool early);
/** The calling engine is about to run the current task of stream. */
void trace_note_begin(struct stream *stream);
/** It has: noted, and written with the next one, or by trace_note_write(). */
void trace_note_result(struct stream *stream, enum run_result result);
/**
 * The calling engine has run tasks of a stream, and the client has been told of them: what was
 * noted of the last one has time now.
 */
void trace_note_write(void);

/** The waiter of stream, which waits, has been fired by trace_note_running. */
void trace_note_release(const struct stream *stream, const struct waiter *waiter)
    __attribute__((cold));

/** A rule has hit the current task, which fails with code, or is held: 0. */
void trace_note_fault(const struct stream *stream, uint64_t rule, int32_t code);
