/* The admin socket: reports for npuctl. Control thread. */
#pragma once

struct server;

/** Take over an accepted socket: answer its requests until it hangs up. Root and the admin group
 * only. */
void admin_accept(struct server *server, int socket);
