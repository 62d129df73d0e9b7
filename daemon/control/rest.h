/*
 * Users that rest: their sessions are not heard for a while, because to answer one of them has kept
 * npud from all others (daemon/base/wake_cost.h). Each time a user costs npud so much, its next
 * request waits for REST_FACTOR times as long. So what it takes stays below one percent of npud's
 * time, however many sessions it has, and whatever becomes of them. Control thread.
 */
#pragma once

#include <stdbool.h>

struct server;
struct session;

#define REST_FACTOR 128

/**
 * After calls that have woken the client, which wake_cost_begin() has preceded: if they were
 * costly, the user of the session rests. False: the session must go, and the log says why.
 */
bool rest_after_wake(struct session *session);

/**
 * If the user of the session rests, the session is not heard any more before that is over, and true
 * is returned.
 */
bool rest_takes(struct session *session);

/** The session ends. Safe if it does not wait. */
void rest_leave(struct session *session);

/** npud ends, and has no session any more. */
void rests_deinit(struct server *server);
