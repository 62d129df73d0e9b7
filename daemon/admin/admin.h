/* The admin socket: reports for npuctl. Control thread. */
#pragma once

#include <stdbool.h>

struct server;
struct session;

/** Take over an accepted socket: answer its requests until it hangs up. Root and the admin group
 * only. */
void admin_accept(struct server *server, int socket);

/** session_end() (control/session_hear.h), which daemon/npud.c hands over. */
extern void (*admin_end_session)(struct session *session);
/**
 * Asks the supervisor for the installed program in place of this one (server_role.h). False: there
 * is none. NULL is the same.
 */
extern bool (*admin_request_upgrade)(void);
/**
 * All engines have heard that a trace has begun or ended: npuctl, which asked for that, is told.
 */
void admin_trace_told(struct server *server);
/** The supervisor does not do it: the administrators that have asked are told. */
void admin_refuse_upgrade(struct server *server, const char *why);
