/*
 * Channels: queues that the sessions of one user find by a device and a name (docs/channels.md).
 * The sessions have the right to put and to take, and none to manage. A channel ends with the last
 * session that has it. Control thread only.
 */
#pragma once

#include <stdint.h>

#include "daemon/core/cause.h"

struct queue;
struct queue_attach;
struct session;
struct user;

/** The user's channel with this name on this device, or NULL. */
struct queue *channel_find(const struct user *user, uint32_t device, const char *name);

/**
 * The session's attachment to the channel, made if there is none. NULL: session_cause_of_object().
 */
struct queue_attach *channel_join(struct session *session, struct queue *queue);

/**
 * The attachment ends, and with the last one the channel. CAUSE_CHANNEL_NONE: its queue is none.
 * CAUSE_QUEUE_REVOKING, CAUSE_QUEUE_ENDING: the caller tries again.
 */
enum cause channel_leave(struct queue_attach *attach);
