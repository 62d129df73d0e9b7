/*
 * What a stream does not do any more: tasks that an abort discards, and those that its session
 * leaves when it ends. Streams and processes that wait for one of them are told.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct kept_cell;
struct server;
struct session;
struct stream;

/**
 * Drop what is queued, which is from held_from to head then; IPC records among it fail. Nothing is
 * executed, and done does not move, until stream_abort(). Takes the locks of the session's engines.
 */
void stream_hold(struct stream *stream);

/**
 * stream_hold(), if it is not held, and let done pass what was dropped. told: the ACL error that
 * streams get which wait for a dropped position; 0: they go on. Takes the locks of the session's
 * engines. request: the id of the client's request, which is carried out once; 0: there is none.
 */
void stream_abort(struct stream *stream, int32_t told, uint64_t request);

/**
 * The session ends: what its stream has queued for notifies will not come. The stream is forgotten
 * by its engine.
 */
void stream_drop_notifies(struct stream *stream);

/**
 * The code for streams of the session that wait for this position of a slot, if an abort has
 * discarded it; else 0. Engine thread.
 */
int32_t stream_discarded(const struct session *session, uint32_t slot, uint64_t position);
/**
 * The session ends: forget what was discarded in its streams, at most `max` of them from *slot on,
 * where the next call goes on. True: that was all of them.
 */
bool stream_forget_discards(struct session *session, uint32_t *slot, uint32_t max);
