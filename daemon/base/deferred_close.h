/*
 * Closing what may take long to close, on threads of its own, which sleep when there is nothing to
 * close: one frees memory that is much, the other closes what a client can watch.
 *
 * The kernel calls each watch (of epoll, poll, io_uring) of a socket when its other end is written
 * to, shut or closed, and each watch of an eventfd when it is closed: in the thread that does so,
 * about a microsecond for each. A client may have hundreds of thousands, also of a descriptor that
 * it has closed itself, as long as npud has the other copy of it.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct job;

/** Start the threads. 0 or -errno. */
int deferred_close_start(void);
/** Close what is left and end the threads. */
void deferred_close_stop(void);

/**
 * More memory than this takes its time to be freed: more than any request should. 2 MiB, which
 * programs allocate most, with what the library adds to them: about 100 us.
 */
#define DEFERRED_CLOSE_MUCH (((size_t)2 << 20) + 4096)

/**
 * Unmap (map may be NULL) and close a memfd of so many bytes, of which map_bytes are mapped; by
 * that thread when it is much, because the last unmap frees its pages. Then users take turns: what
 * one of them has is not freed after all that another has. user: whose it is, or NULL; only
 * compared.
 *
 * No hole is made in it: the kernel takes the file's lock for that, which a client that can write
 * the file can keep for good. What a client keeps mapped stays memory until it lets go of it.
 */
void deferred_close_free_memory(const void *user, int fd, void *map, size_t map_bytes,
                                uint64_t bytes);

/** Close a descriptor that a client has, too. user: as above. */
void deferred_close_watched(const void *user, int fd);

/**
 * Of a client's socket: send a packet without waiting, shut it down, and at last close it, which
 * client_socket_close() does. In this order, as long as the user is the same; user: NULL if it is
 * not known.
 */
void deferred_close_say(const void *user, int socket, const void *packet, size_t size);
void deferred_close_shut(const void *user, int socket);
void deferred_close_socket(const void *user, int socket, bool takes_fds);

/** How many files these threads have closed. Read before an attempt to get what they take. */
uint64_t deferred_close_count(void);

enum deferred {
    DEFERRED_NONE,   /* nothing is to be closed any more of what was there */
    DEFERRED_CLOSED, /* something has been closed since the attempt began */
    DEFERRED_LATER,  /* the job is sent when the next file has been closed */
};

/**
 * An attempt that began when deferred_close_count() was `closed` has failed, and a file that is
 * still to be closed may be what it lacks. *last: the last file that it may wait for; 0: the last
 * one there is, which is written there. So it does not wait for what others free after it for ever.
 * job: NULL if it was given before, and has not run since. There is one such job.
 */
enum deferred deferred_close_await(uint64_t closed, uint64_t *last, struct job *job);

/** The job is not sent any more. It may have been: job_cancel(). */
void deferred_close_forget(void);
