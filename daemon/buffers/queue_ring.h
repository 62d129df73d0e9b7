/*
 * The ring of a queue: its files, and npud's mappings of them (proto/shm/queue_shm.h). Control
 * thread.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "proto/shm/queue_shm.h"

struct ring_record;
struct user;

struct queue_ring {
    struct queue_view view;
    int put_fd, take_fd;
    int news_fd;                    /* also for writing: clients have others, read-only */
    uint64_t left_key[QUEUE_FILES]; /* after queue_ring_close(): what the keeper has of them */
};

/** An empty ring of that user, with this number. 0, or -errno and none. */
int queue_ring_new(struct queue_ring *ring, const struct user *user, uint32_t number,
                   uint32_t depth);
/** Clients that have it mapped keep its memory until they unmap it. */
void queue_ring_free(struct queue_ring *ring, const struct user *user);

/**
 * npud's descriptors are closed: no client gets the ring any more. All else goes on, also over the
 * end of npud: the keeper has the files until the ring goes. A new ring needs no more descriptors
 * than are free then. Another keeper does not get the files: queues_end_closed().
 */
void queue_ring_close(struct queue_ring *ring);

/**
 * Wake all threads that sleep on the ring, some of them later (base/waker.h); they look again and
 * count themselves anew.
 */
void queue_ring_wake(const struct queue_view *ring);

/**
 * The same for a ring that has ended, by the caller: no thread goes to sleep there any more, ...
 */
void queue_ring_change_words(const struct queue_view *ring);
/** ... and at most n are woken at each end. False: there may be more. */
bool queue_ring_wake_some(const struct queue_view *ring, unsigned n);

/** The files outlive npud; what is kept of the ring. */
void queue_ring_keep(const struct queue_ring *ring);
struct ring_record queue_ring_record(const struct queue_ring *ring);
/** The ring is there again. False: a file is not. */
bool queue_ring_restore(struct queue_ring *ring, const struct ring_record *record);

/** What a ring without files is; queue_ring_free() leaves this. */
#define QUEUE_RING_NONE ((struct queue_ring){.put_fd = -1, .take_fd = -1, .news_fd = -1})

/** A file of a ring, for a client. */
struct queue_file {
    int fd; /* npud's */
    bool writable;
};

/** The files of the ring, as they are for these rights, in the order of QueueReply. */
void queue_ring_files(const struct queue_ring *ring, uint32_t rights,
                      struct queue_file files[QUEUE_FILES]);

/** Descriptors of these files; the caller closes them. 0, or -errno and none. */
int queue_ring_open(const struct queue_ring *ring, uint32_t rights, int fds[QUEUE_FILES]);
