/*
 * Freeing memory that is much, on a thread of its own. It sleeps when there is nothing to free.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct user;

/** Start the thread. 0 or -errno. */
int deferred_close_start(void);
/** Close what is left and end the thread. */
void deferred_close_stop(void);

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
