/*
 * What is left of a queue that has ended: its ring, with thousands of messages, each of many
 * buffers. They are freed in steps of the queue's user. Until the last one is, the ring has its
 * number, which stands in the words of these buffers. Control thread.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "daemon/base/schedule.h"
#include "daemon/base/user.h"
#include "daemon/buffers/queue_ring.h"
#include "proto/shm/mbuf_shm.h"

struct queue;
struct queues;

struct queue_rest {
    struct server *server;
    struct user *user;
    struct queue_ring ring;
    struct charge charge_fds, charge_memory;
    uint64_t position; /* of the next message */
    uint32_t left;     /* that may still be there */
    struct job job;
    struct queue_rest *prev, *next; /* queues->rests */
};

/** The queue ends: its ring does, and its messages are freed. It has no ring from then on. */
void queue_rest_begin(struct queue *queue);

/** npud ends: free all that is left of any queue. */
void queue_rests_deinit(struct queues *queues);

/**
 * The buffer of a message in a ring that has ended becomes npud's, or what state and number make of
 * it. False: it is none, or its sender has it back.
 */
bool queue_take_out(struct server *server, const struct queue_view *ring, uint32_t ref,
                    enum mbuf_state state, uint32_t number);
