/*
 * Failures of tasks: which clients and streams are told, and what stops.
 *
 * A task that fails tells the client's exception ring (proto/shm/exception_shm.h), if it is wanted,
 * then the control block of its stream, for the next synchronise call. In failure mode "stop" the
 * streams of its context end with it: they go through what is queued without executing it, `done`
 * stays where it is, and every stream and thread that waits for more is woken with the code.
 */
#pragma once

#include <stdbool.h>

#include "daemon/engine/run.h"

struct attach;
struct stream;

/**
 * Engine: the current task of stream has failed, as stream->failure says: tell the client and the
 * streams that wait. False: the client has no room for the exception; call again when
 * engine_unpark() was called for the stream.
 */
bool failure_tell(struct stream *stream);

/** Engine: the stream has parked on that: let it wait for room, behind the others. */
void failure_wait(struct stream *stream);

/**
 * Engine: the stream was stopped: pass over its current task. Streams that wait for what it would
 * have done get the code.
 */
enum run_result failure_pass_over(struct stream *stream);

/**
 * Engine: have as many streams of the attachment try again as there is room for exceptions. True:
 * there was one.
 */
bool failure_retry(struct attach *attach);
/** Is there room that streams of the attachment wait for? Any thread, under the engine's lock. */
bool failure_can_retry(const struct attach *attach);
/**
 * The device is lost: tell the client, without naming a task, as soon as there is room. Under the
 * engine's lock.
 */
void failure_device_lost(struct attach *attach);
/** Recovery: what was to be told of the attachment is told (once more). */
void failure_restore(struct attach *attach);
/** Take stream off the list of those that wait for room. Under the engine's lock. */
void failure_forget(struct stream *stream);

/**
 * End the task that stream is at, as failed with ACL_ERROR_RT_STREAM_ABORT. Takes the locks of the
 * session's engines. request: as in stream_abort(). position: of the task, counted from 1, if no
 * other one is to end; or 0. Returns 0; or, with tell_work, for work that the client runs its
 * ordinal: it fails so when the client has acknowledged it, which is the client's to hurry. A
 * client that does not ask for that does not hurry: its work is dropped.
 */
uint64_t failure_stop_task(struct stream *stream, uint64_t request, uint64_t position,
                           bool tell_work);
/**
 * Is the task that stream is at to end so? At recovery: the request comes again, and ends it then;
 * but for work that the client runs.
 */
bool failure_stop_has_begun(const struct stream *stream);
