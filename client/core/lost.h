/*
 * Has npud ended the session? What core/error asks about a session, which it does not know:
 * client/runtime/session.c implements it.
 */
#pragma once

#include <stdbool.h>

struct session;

/**
 * Whether npud has ended the session; asked after a refusal. Known before the watcher has noticed
 * the end of the connection.
 */
bool session_ended(struct session *s) __attribute__((cold));

/**
 * The session is lost, and not because aclFinalize has closed it: then calls of other threads that
 * have found it end as they do when there is none.
 */
bool session_npud_gone(const struct session *s);

#define ERROR_LOST_SENTENCE                                                                        \
    "%s: npud has ended or closed the connection. Call aclFinalize and aclInit to connect anew. "  \
    "If it happens again, an administrator can see why: journalctl -u npud; under npu-run, add "   \
    "--verbose"

/** ACL_ERROR_RT_SOCKET_CLOSE, with its sentence. */
int session_error_lost(const char *function) __attribute__((cold));
