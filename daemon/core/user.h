/*
 * Users (uids) and what they may hold. A charge is a member of the object that it pays for: taken
 * when the object is made, given back by its destructor. user_unref() asserts that a user that is
 * gone holds nothing.
 *
 * Each user has the limits of the configuration. Some resources are limited for npud as a whole
 * (descriptors, mappings, ids of sessions). users_divide() keeps room in them for others: a user
 * gets more only while more is left than that user has. So one user has at most a half, and n users
 * that take all they can get have one part in n + 1 each. A user that comes later finds room. Uids
 * that are subordinate to a user (subuid.h) count for that user.
 *
 * Control thread only, but for user_fill().
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "daemon/base/hash.h"
#include "daemon/base/resource.h"
#include "daemon/base/schedule.h"
#include "proto/shm/doorbell.h"

/** Key names in [limits], and in `npuctl limits`. */
extern const char *const resource_names[RESOURCE_COUNT];

struct arrivals;
struct ipc_event;
struct queue;
struct subuids;
struct unread;
struct users;

struct user {
    struct users *users;
    struct schedule_user schedule; /* as a payer, which takes the turns of all that it pays for */
    uid_t uid;
    uint32_t refs;
    /*
     * The user that is charged for what it holds: itself, or the owner of its uid, if that is a
     * subordinate one. Its names and rights are its own. Constant while it lives.
     */
    struct user *payer;
    uint64_t used[RESOURCE_COUNT];   /* as a payer */
    _Atomic uint64_t filled;         /* as a payer: RESOURCE_FILLED_MEMORY, by engines */
    uint64_t on_device[DEVICES_MAX]; /* as a payer: of RESOURCE_DEVICE_MEMORY, on each device */
    /* Destroyed but still openable events of this user, oldest first (ipc_event.c). */
    struct ipc_event *linger;
    uint32_t n_linger;
    struct queue **queues;     /* by id; NULL: it has made none so far (daemon/buffers/queue.c) */
    uint32_t next_queue;       /* id of the next queue, unless it is taken */
    void *channels;            /* tree of those of the queues that are (daemon/buffers/channel.c) */
    struct unread *unread;     /* what its processes have not read (control/answer.c) */
    struct arrivals *arrivals; /* clients that are no sessions yet (control/arrival.c) */
    bool refused;              /* a session was refused, and that was logged */
    uint64_t report_ns;        /* of a payer: its next report of own waits is made from then on, */
    bool reporting;            /* unless one is being made */
    UT_hash_handle hh;
};

struct users {
    struct user *by_uid;
    const uint64_t *limit;          /* RESOURCE_COUNT entries, borrowed from the configuration */
    uint64_t total[RESOURCE_COUNT]; /* that npud has; 0: as much as the limits allow */
    uint64_t used[RESOURCE_COUNT];  /* by all users */
    bool divided;                   /* by users_divide() */
    uint32_t device_share;          /* percent of a device's memory that others have not: pages.h */
    const struct subuids *subuids;  /* NULL: none */
    _Atomic uint64_t filled_max;    /* limit[RESOURCE_FILLED_MEMORY], for engines */
    struct schedule *schedule;
    /* Listed when table memory is given back, and taken from here then. NULL: nothing waits. */
    struct job *awaits_memory;
};

struct charge {
    struct user *user;
    uint64_t resource : 7; /* enum resource */
    uint64_t mapped : 1;   /* by user_charge_files() */
    uint64_t amount : 56;
};
#define CHARGE_MAX ((UINT64_C(1) << 56) - 1)

/** From now on no user gets more of what npud has than is left for others. */
void users_divide(struct users *users);

/** Table memory was given back, or a user may have more of it: what waits for it tries again. */
void users_tell_of_memory(struct users *users);

/** A reference to the user with this uid, made if new. NULL: no memory. */
struct user *user_ref(struct users *users, uid_t uid);
/** The user with this uid, or NULL: npud holds nothing for it. */
struct user *user_find(struct users *users, uid_t uid);
/** One more reference. */
struct user *user_hold(struct user *user);
/** Safe on NULL. */
void user_unref(struct user *user);

/** How much of a resource the payer of the user may have at this moment, with what it has. */
uint64_t user_limit(const struct user *user, enum resource resource);
/** How much it has. */
static inline uint64_t user_used(const struct user *user, enum resource resource)
{
    return resource == RESOURCE_FILLED_MEMORY ? atomic_load(&user->payer->filled)
                                              : user->payer->used[resource];
}

/** Charge amount. -EDQUOT when that exceeds the limit of the user, with nothing changed. */
int user_charge(struct charge *charge, struct user *user, enum resource resource, uint64_t amount);
/**
 * Charge n files that npud keeps open and mapped: n descriptors and n mappings. -EDQUOT: the user
 * has no more descriptors; -ENOSPC: no more mappings. Nothing is changed then.
 */
int user_charge_files(struct charge *charge, struct user *user, uint64_t n);
/** Charge more of the same: it is zeroed, or of this user and resource. As user_charge(). */
int user_charge_more(struct charge *charge, struct user *user, enum resource resource,
                     uint64_t amount);
/**
 * Charge for what the user has already, when npud sets it up again: also beyond the limit. mapped:
 * RESOURCE_FDS are charged with as many mappings, as by user_charge_files(). With what is charged
 * there already.
 */
void user_charge_again(struct charge *charge, struct user *user, enum resource resource,
                       uint64_t amount, bool mapped);
/** Give a part of a charge back, which was of no use: nothing that waits is told of that. */
void user_uncharge_part(struct charge *charge, uint64_t amount);
/** Give it back. Safe on a zeroed charge, and to repeat. */
void user_uncharge(struct charge *charge);

/**
 * npud has filled bytes of the user's memory (RESOURCE_FILLED_MEMORY); the memory goes. Any thread,
 * while the user lives.
 */
void user_fill(struct user *user, uint64_t bytes);
void user_unfill(struct user *user, uint64_t bytes);
/** Is that no more than it may be? */
bool user_may_fill(const struct user *user);
