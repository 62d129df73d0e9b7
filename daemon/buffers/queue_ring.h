/*
 * The ring of a queue: the two files, and npud's mappings of them (proto/shm/queue_shm.h). Control
 * thread.
 */
#pragma once

#include <stdint.h>

#include "proto/shm/queue_shm.h"

struct queue_ring {
    struct queue_view view;
    int put_fd, take_fd;
};

/** An empty ring with this number. 0, or -errno and none. */
int queue_ring_new(struct queue_ring *ring, uint32_t number, uint32_t depth);
void queue_ring_free(struct queue_ring *ring);

/** Wake all threads that sleep on the ring; they look again and count themselves anew. */
void queue_ring_wake(const struct queue_view *ring);

/**
 * Descriptors of the files, as they are for these rights; the caller closes both. 0, or -errno and
 * none.
 */
int queue_ring_open(const struct queue_ring *ring, uint32_t rights, int *put_fd, int *take_fd);
