/*
 * Users (uids) and what they may hold. A charge is a member of the object that it pays for: taken
 * when the object is made, given back by its destructor. user_unref() asserts that a user that is
 * gone holds nothing.
 *
 * Control thread only.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "daemon/base/hash.h"

enum resource {
    RESOURCE_SESSIONS,
    RESOURCE_STREAMS,
    RESOURCE_EVENTS,
    RESOURCE_IPC_EVENTS,
    RESOURCE_DEVICE_MEMORY,
    RESOURCE_HOST_MEMORY,
    RESOURCE_FDS,
    RESOURCE_NOTIFIES,
    RESOURCE_MBUF_MEMORY,
    RESOURCE_QUEUES,
    RESOURCE_ROUTES,
    RESOURCE_COUNT
};

/** Key names in [limits], and in `npuctl limits`. */
extern const char *const resource_names[RESOURCE_COUNT];

struct ipc_event;
struct queue;
struct users;

struct user {
    struct users *users;
    uid_t uid;
    uint32_t refs;
    uint64_t used[RESOURCE_COUNT];
    /* Destroyed but still openable events of this user, oldest first (ipc_event.c). */
    struct ipc_event *linger;
    uint32_t n_linger;
    struct queue **queues; /* by id; NULL: it has made none so far (daemon/buffers/queue.c) */
    uint32_t next_queue;   /* id of the next queue, unless it is taken */
    bool refused;          /* a session was refused, and that was logged */
    uint64_t report_ns;    /* its next report of its own waits is made from then on */
    UT_hash_handle hh;
};

struct users {
    struct user *by_uid;
    const uint64_t *limit; /* RESOURCE_COUNT entries, borrowed from the configuration */
};

/* In 16 bytes: there is one in every event. */
struct charge {
    struct user *user;
    uint64_t resource : 8; /* enum resource */
    uint64_t amount : 56;
};
#define CHARGE_MAX ((UINT64_C(1) << 56) - 1)

/** A reference to the user with this uid, made if new. NULL: no memory. */
struct user *user_ref(struct users *users, uid_t uid);
/** The user with this uid, or NULL: npud holds nothing for it. */
struct user *user_find(struct users *users, uid_t uid);
/** One more reference. */
struct user *user_hold(struct user *user);
/** Safe on NULL. */
void user_unref(struct user *user);

/** Charge amount. -EDQUOT when that exceeds the limit of the user, with nothing changed. */
int user_charge(struct charge *charge, struct user *user, enum resource resource, uint64_t amount);
/** Give it back. Safe on a zeroed charge, and to repeat. */
void user_uncharge(struct charge *charge);
