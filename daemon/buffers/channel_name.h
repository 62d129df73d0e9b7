/*
 * How the sessions of a user find its channels (channel.h): by device and name. Control thread
 * only.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct user;

/** Part of a queue. */
struct channel_name {
    uint32_t device;  /* its number + 1; 0: the queue is no channel */
    bool listed;      /* it is found */
    const char *text; /* of the queue */
};

/** What the user has listed like it, or NULL. */
struct channel_name *channel_name_find(const struct user *user, const struct channel_name *key);

/** From now on it is found, there being none like it. False: no memory. */
bool channel_name_list(struct user *user, struct channel_name *name);

/** It is found no more. Safe if it is not. */
void channel_name_unlist(struct user *user, struct channel_name *name);
