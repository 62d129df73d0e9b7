/*
 * What outlives a supervisor, in systemd's store of descriptors: the lease, the pidfd of the
 * server, and its life line. After `systemctl restart`, or when the supervisor has died, the next
 * supervisor gets them with the sockets. At a `systemctl stop` systemd lets go of them, and so the
 * life line hangs up.
 */
#pragma once

#include <stdbool.h>

/* What systemd has passed; -1: not passed. The caller owns all of it. */
struct passed_fds {
    int control, admin;
    int lease, server, life;
};

/** Takes what was passed, close-on-exec. 0, or -errno after a line in the log. */
int fd_store_take(struct passed_fds *passed);

/** Stores a copy of fd in place of what has this name. Waits for systemd, if its socket is full. */
void fd_store_put(const char *name, int fd);
