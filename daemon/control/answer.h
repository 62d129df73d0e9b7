/*
 * Answers on their way to clients.
 *
 * Descriptors that npud has sent and no client has received yet count as npud's in the kernel,
 * which has one bound for all of them (RLIMIT_NOFILE): a client that does not read could have all
 * others go without. So they are charged to the user (RESOURCE_UNREAD_FDS) until the client is seen
 * to have read its answers. A session that leaves more than a few unread is ended. That alone frees
 * nothing: what was sent lies with the client until it reads or closes its socket. So npud keeps
 * the socket of such a session, and the charge, until then. A user with as many as it may have is
 * refused what comes with descriptors.
 *
 * Other processes of npud's own user count for the same bound, and npud cannot charge them. When
 * the kernel refuses to send for that reason, npud keeps the answer, reads no further request of
 * that session, and tries again: no session ends because of what others do.
 *
 * Control thread.
 */
#pragma once

#include <stdbool.h>

#include "daemon/core/cause.h"

struct call;
struct kept_cell;
struct server;
struct session;

/** 0 or -ENOMEM. */
int answers_init(struct server *server);
/** All sessions are freed. */
void answers_deinit(struct server *server);

/** May a request be handled whose answer may carry descriptors? */
enum cause answer_prepare(struct session *session);

/**
 * Make certain what the request has changed, with the answer; send the reply of the call, with its
 * descriptors; then take the request, which until then is in the socket, out of it, where npud may
 * be followed by another. 0, or negative: the session must end.
 */
int answer_send(struct call *call);

/**
 * The session is being freed, and its events are: drop what is kept for it. True: its socket is
 * kept here, because the client has not read all descriptors.
 */
bool answer_leave(struct session *session);
