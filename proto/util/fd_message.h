/*
 * Messages with descriptors over Unix sockets of type SOCK_SEQPACKET. Those between npud's own
 * processes (server, supervisor, keeper), which trust each other, are sent and received so; those
 * between npud and clients are sent so, and received by proto/wire/packet.h.
 */
#pragma once

#include <stddef.h>
#include <sys/types.h>

/** What the kernel takes in one message (SCM_MAX_FD). */
#define FD_MESSAGE_FDS 253

/** Sends one message with n descriptors, which stay the caller's. flags as in sendmsg(2). 0 or
 * -errno. */
int fd_message_send(int socket, const void *data, size_t size, const int *fds, size_t n, int flags);

/**
 * Receives one message. fds has room for FD_MESSAGE_FDS; *n of them are the caller's now,
 * close-on-exec. Returns the bytes, 0 at the end, or -errno; -EBADMSG: the message was longer than
 * `size` (nothing is left to close).
 */
ssize_t fd_message_receive(int socket, void *data, size_t size, int *fds, size_t *n, int flags);
