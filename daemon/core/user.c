#include "daemon/core/user.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "daemon/base/subuid.h"

const char *const resource_names[RESOURCE_COUNT] = {
#define RESOURCE(NAME, name, def, help) #name,
#include "daemon/base/resources.inc"
#undef RESOURCE
};

void users_divide(struct users *users)
{
    users->divided = true;
}

void users_tell_of_memory(struct users *users)
{
    struct job *job = users->awaits_memory;

    users->awaits_memory = NULL;
    if (job)
        job_list(job);
}

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

static struct user *user_new(struct users *users, uid_t uid)
{
    struct user *user = calloc(1, sizeof(*user));

    if (!user)
        return NULL;
    user->users = users;
    user->uid = uid;
    user->payer = user;
    schedule_user_init(&user->schedule, users->schedule, uid);
    HASH_ADD(hh, users->by_uid, uid, sizeof(uid), user);
    if (user->hh.tbl)
        return user;
    free(user);
    return NULL;
}

/* The owner may have an owner, by a file that was read since: the user found there pays. */
static bool find_payer(struct user *user)
{
    struct users *users = user->users;
    uid_t uid = users->subuids ? subuids_owner(users->subuids, user->uid) : user->uid;
    struct user *owner;

    if (uid == user->uid)
        return true;
    owner = user_ref(users, uid);
    if (!owner)
        return false;
    user->payer = user_hold(owner->payer);
    user_unref(owner);
    return true;
}

struct user *user_ref(struct users *users, uid_t uid)
{
    struct user *user = user_find(users, uid);

    if (user)
        return user_hold(user);
    user = user_new(users, uid);
    if (!user)
        return NULL;
    user_hold(user);
    if (find_payer(user))
        return user;
    user_unref(user);
    return NULL;
}

void user_unref(struct user *user)
{
    if (!user || --user->refs > 0)
        return;
    for (int i = 0; i < RESOURCE_COUNT; i++)
        assert(user->used[i] == 0);
    assert(atomic_load(&user->filled) == 0);
    schedule_user_deinit(&user->schedule);
    HASH_DEL(user->users->by_uid, user);
    if (user->payer != user)
        user_unref(user->payer);
    free(user->queues);
    free(user);
}

uint64_t user_limit(const struct user *user, enum resource resource)
{
    const struct users *users = user->users;
    uint64_t limit = users->limit[resource], total = users->total[resource];
    uint64_t others = users->used[resource] - user_used(user, resource);

    if (total == 0)
        return limit;
    total = total > others ? total - others : 0;
    if (users->divided)
        total /= 2;
    return limit < total ? limit : total;
}

/* A user may have more than the limit: others have come, or the configuration was read again. */
static bool has_room(const struct user *user, enum resource resource, uint64_t amount)
{
    uint64_t limit = user_limit(user, resource), used = user_used(user, resource);

    return amount == 0 || (used <= limit && amount <= limit - used);
}

static void add_used(struct user *payer, enum resource resource, uint64_t amount)
{
    payer->used[resource] += amount;
    payer->users->used[resource] += amount;
}

static void take_used(struct user *payer, enum resource resource, uint64_t amount)
{
    assert(payer->used[resource] >= amount && payer->users->used[resource] >= amount);
    payer->used[resource] -= amount;
    payer->users->used[resource] -= amount;
}

int user_charge(struct charge *charge, struct user *user, enum resource resource, uint64_t amount)
{
    if (amount > CHARGE_MAX || !has_room(user, resource, amount))
        return -EDQUOT;
    add_used(user->payer, resource, amount);
    *charge = (struct charge){.user = user->payer, .resource = resource, .amount = amount};
    return 0;
}

int user_charge_files(struct charge *charge, struct user *user, uint64_t n)
{
    int r;

    if (!has_room(user, RESOURCE_MAPPINGS, n))
        return -ENOSPC;
    r = user_charge(charge, user, RESOURCE_FDS, n);
    if (r < 0)
        return r;
    add_used(user->payer, RESOURCE_MAPPINGS, n);
    charge->mapped = true;
    return 0;
}

int user_charge_more(struct charge *charge, struct user *user, enum resource resource,
                     uint64_t amount)
{
    struct charge more;
    int r =
        amount > CHARGE_MAX - charge->amount ? -EDQUOT : user_charge(&more, user, resource, amount);

    if (r < 0)
        return r;
    assert(!charge->user || (charge->user == user->payer && charge->resource == resource));
    more.amount += charge->amount;
    *charge = more;
    return 0;
}

void user_charge_again(struct charge *charge, struct user *user, enum resource resource,
                       uint64_t amount, bool mapped)
{
    assert(!charge->user || (charge->user == user->payer && charge->resource == resource));
    add_used(user->payer, resource, amount);
    if (mapped)
        add_used(user->payer, RESOURCE_MAPPINGS, amount);
    *charge = (struct charge){.user = user->payer,
                              .resource = resource,
                              .mapped = mapped,
                              .amount = charge->amount + amount};
}

void user_uncharge_part(struct charge *charge, uint64_t amount)
{
    assert(charge->user && charge->amount >= amount && !charge->mapped);
    take_used(charge->user, (enum resource)charge->resource, amount);
    charge->amount -= amount;
}

void user_uncharge(struct charge *charge)
{
    if (!charge->user)
        return;
    take_used(charge->user, (enum resource)charge->resource, charge->amount);
    if (charge->mapped)
        take_used(charge->user, RESOURCE_MAPPINGS, charge->amount);
    if (charge->resource == RESOURCE_TABLE_MEMORY)
        users_tell_of_memory(charge->user->users);
    *charge = (struct charge){0};
}

void user_fill(struct user *user, uint64_t bytes)
{
    atomic_fetch_add(&user->payer->filled, bytes);
}

void user_unfill(struct user *user, uint64_t bytes)
{
    atomic_fetch_sub(&user->payer->filled, bytes);
}

bool user_may_fill(const struct user *user)
{
    return atomic_load(&user->payer->filled) <= atomic_load(&user->users->filled_max);
}
