/*
 * Handles of channels (docs/channels.md): which queue a handle names, and how calls on it behave.
 * All handles of a process for one channel share its queue, which is closed with the last of them.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "acl/acl_tdt.h"
#include "client/buffers/queue.h"
#include "proto/util/slots.h"

struct session;
struct transfer;

struct channel {
    struct slot slot; /* in session->channels: the handle */
    /* Constant while it lives. */
    struct session *session;
    struct queue *queue;
    uint64_t life;        /* of the queue */
    bool legacy;          /* made by acltdtCreateChannel */
    bool receives;        /* tensors may be received from it */
    _Atomic bool stopped; /* calls on this handle do not wait */
};

/**
 * The live channel that the handle names. NULL with *error set: 107000, 100001 in a forked child,
 * or 507901.
 */
struct channel *channel_find(const char *function, const acltdtChannelHandle *handle, int *error);
