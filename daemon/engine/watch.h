/*
 * Which sessions and streams an engine looks at, and which of them only their doorbell brings back.
 * Engine thread.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct attach;
struct engine;
struct epoll_event;
struct stream;

#define WATCH_EVENTS 64 /* of epoll, at a time */

/** Look at the session's streams and doorbell in every turn from now on. */
void watch_attach(struct engine *e, struct attach *a, uint64_t now);

/** Take streams from the session's doorbell. True: there were some. */
bool watch_collect(struct engine *e, struct attach *a, uint64_t now);

/** What epoll has reported. */
void watch_handle_doorbells(struct engine *e, const struct epoll_event *events, int n,
                            uint64_t now);

/** Doorbells of sessions that are not watched show up only here while the engine is awake. */
void watch_poll(struct engine *e, uint64_t now);

/** Stop looking at the ring of a stream. False: a task has come in between. */
bool watch_drop_stream(struct stream *s);
/** Stop looking at a session. False: there is something to do in it. */
bool watch_drop_attach(struct engine *e, struct attach *a, uint64_t now);
