/*
 * Closing descriptors that came from clients. The last close of a file can sleep in the kernel for
 * as long as its owner likes (a socket with SO_LINGER, a file on a remote or user-space file
 * system), and the last close of a socket closes what is still queued in it. Where the kernel
 * cannot keep clients from sending descriptors at all (SO_PASSRIGHTS, Linux 6.16), a thread of its
 * own does the closing. It sleeps when there is nothing to close.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct user;

/** Start the threads. 0 or -errno. */
int deferred_close_start(void);
/** Close what is left and end the threads. */
void deferred_close_stop(void);

/** Ask the kernel to refuse descriptors on this socket. Call before anything can arrive. */
void deferred_close_refuse_fds(int socket);

/**
 * From now on this client may send descriptors: its socket, and what came, is to be closed by
 * deferred_close_slow().
 */
void deferred_close_accept_fds(int socket);

/**
 * Close a client's socket without ever waiting for that: at once when nothing can be in it that
 * makes it wait.
 */
void deferred_close(int fd);
/** The same for what came from a client, or for a socket in which something may have come. */
void deferred_close_slow(int fd);

/** More memory than this takes its time to be freed: more than any request should. */
#define DEFERRED_CLOSE_MUCH ((size_t)1 << 20)

/**
 * Unmap (map may be NULL) and close a memfd of so many bytes, of which map_bytes are mapped; by
 * that thread when it is much, because the last unmap frees its pages. Then users take turns: what
 * one of them has is not freed after all that another has. user: whose it is; only compared.
 *
 * No hole is made in it: the kernel takes the file's lock for that, which a client that can write
 * the file can keep for good. What a client keeps mapped stays memory until it lets go of it.
 */
void deferred_close_free_memory(const struct user *user, int fd, void *map, size_t map_bytes,
                                uint64_t bytes);
