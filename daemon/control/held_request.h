/*
 * A request that waits. Its queue is moving (buffers/queue_rest.h), or ends, or a session loses a
 * right to it (buffers/queue.h); or it lacks memory, descriptors or mappings, and is refused only
 * if the search for what is free (buffers/pool.h) and what is being freed (base/deferred_close.h)
 * has not helped; or a device is at it (core/backend.h). A search is made in steps: the request is
 * tried again in each turn of its session, of which no other request is read meanwhile. What is
 * being freed is waited for asleep. Control thread.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "daemon/buffers/pool.h"
#include "proto/wire/npud.pb-c.h"

struct backend_space;
struct call;
struct pool;
struct session;
struct user;

/** How far npud is with what a request lacks. {0}: it has not lacked anything so far. */
struct room_wait {
    struct room_search search;
    uint64_t last; /* deferred_close_await() */
    uint32_t done; /* of the parts of a request that has many (control/on_route.c) */
};

struct held_request {
    struct session *session;
    Npud__Request *request;
    struct room_wait wait;
    bool asleep; /* in server->asleep */
    struct held_request *prev, *next;
};

/** Before the first request. */
void held_requests_init(struct server *server);
/** No request sleeps any more. Safe without held_requests_init(). */
void held_requests_deinit(struct server *server);

/** The session's request is held, or held still: session.held. False: no memory. */
bool request_hold(struct session *session, Npud__Request *request, const struct room_wait *wait);
/** Forget it; NULL if there is none. It is not freed: the caller has it. */
Npud__Request *request_release(struct session *session);

/**
 * The handler has refused the request: may it be tried again? closed: deferred_close_count() before
 * the handler was called. TRY_NOW is returned after something was found only.
 */
enum try_again {
    TRY_NEVER,
    TRY_NOW,
    TRY_NEXT_TURN,
    TRY_WOKEN, /* when something was closed, or a device is done: request_sleep() */
};
enum try_again request_try_again(const struct call *call, struct room_wait *wait, uint64_t closed);

/**
 * The same for what is no request: it lacks what empty buffers have, of this payer, or of anybody
 * if payer is NULL. own: whose pool is looked at first, or NULL. TRY_WOKEN only without a payer:
 * the sessions that request_sleep() is called for, and listeners that are asleep, are told.
 */
enum try_again room_try_again(struct server *server, struct room_wait *wait, struct pool *own,
                              const struct user *payer, uint64_t closed);

/** backend_told() of sessions: the request that waits for a device is tried again. */
void request_device_told(struct backend_space **space);

/** The session that has a request held is listed when something was closed. */
void request_sleep(struct session *session);
