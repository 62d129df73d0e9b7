#include "daemon/base/user.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

const char *const resource_names[RESOURCE_COUNT] = {
    [RESOURCE_SESSIONS] = "sessions",
    [RESOURCE_STREAMS] = "streams",
    [RESOURCE_EVENTS] = "events",
    [RESOURCE_IPC_EVENTS] = "ipc_events",
    [RESOURCE_DEVICE_MEMORY] = "device_memory",
    [RESOURCE_HOST_MEMORY] = "host_memory",
    [RESOURCE_FDS] = "fds",
    [RESOURCE_NOTIFIES] = "notifies",
    [RESOURCE_MBUF_MEMORY] = "mbuf_memory",
    [RESOURCE_QUEUES] = "queues",
    [RESOURCE_ROUTES] = "routes",
};

struct user *user_hold(struct user *user)
{
    user->refs++;
    return user;
}

struct user *user_find(struct users *users, uid_t uid)
{
    struct user *user;

    HASH_FIND(hh, users->by_uid, &uid, sizeof(uid), user);
    return user;
}

struct user *user_ref(struct users *users, uid_t uid)
{
    struct user *user = user_find(users, uid);

    if (!user) {
        user = calloc(1, sizeof(*user));
        if (!user)
            return NULL;
        user->users = users;
        user->uid = uid;
        HASH_ADD(hh, users->by_uid, uid, sizeof(uid), user);
        if (!user->hh.tbl) {
            free(user);
            return NULL;
        }
    }
    return user_hold(user);
}

void user_unref(struct user *user)
{
    if (!user || --user->refs > 0)
        return;
    for (int i = 0; i < RESOURCE_COUNT; i++)
        assert(user->used[i] == 0);
    HASH_DEL(user->users->by_uid, user);
    free(user->queues);
    free(user);
}

int user_charge(struct charge *charge, struct user *user, enum resource resource, uint64_t amount)
{
    /* used <= limit always holds: the subtraction cannot wrap, the comparison cannot overflow */
    if (amount > CHARGE_MAX || amount > user->users->limit[resource] - user->used[resource])
        return -EDQUOT;
    user->used[resource] += amount;
    *charge = (struct charge){.user = user, .resource = resource, .amount = amount};
    return 0;
}

void user_uncharge(struct charge *charge)
{
    if (!charge->user)
        return;
    assert(charge->user->used[charge->resource] >= charge->amount);
    charge->user->used[charge->resource] -= charge->amount;
    *charge = (struct charge){0};
}
