/* The connection of a session to npud: made, and watched until it ends. */
#pragma once

struct session;

/** Connect, say hello, and map the session page. 0, or the ACL error. */
int connection_open(struct session *s, const char *function);

/** Start the thread that sees the end of the connection. 0 or an error number. */
int connection_watch(struct session *s);
