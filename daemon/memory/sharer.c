#include "daemon/memory/sharer.h"

#include <assert.h>
#include <stdlib.h>

#include "daemon/core/session.h"

/* sharers.left */
#define LEFT      UINT64_C(1) /* one has ended, and nobody is expected */
#define LEFT_ENDS 1
#define LEFT_PID  32
#define ENDS_MASK UINT32_C(0x7fffffff)

static uint32_t ends_of(const struct sharers *all)
{
    return (uint32_t)(atomic_load(&all->left) >> LEFT_ENDS) & ENDS_MASK;
}

void sharers_init(struct sharers *all, const struct waitlist *values)
{
    all->values = values;
}

/* --- who they are --- */

static struct sharer *find_sharer(struct sharers *all, struct session *session)
{
    const struct sharer_key key = {all, session};
    struct sharer *found = NULL;

    if (all->first.names > 0 && all->first.key.session == session)
        return &all->first;
    if (all->more)
        HASH_FIND(hh, *all->more, &key, sizeof(key), found);
    return found;
}

/* Beside the first one. NULL: no memory. */
static struct sharer *make_sharer(struct sharers *all, struct session *session)
{
    struct sharer *s = calloc(1, sizeof(*s));

    assert(all->more);
    if (!s)
        return NULL;
    s->key = (struct sharer_key){all, session};
    HASH_ADD(hh, *all->more, key, sizeof(s->key), s);
    if (s->hh.tbl)
        return s;
    free(s);
    return NULL;
}

/* NULL: no memory. */
static struct sharer *get_sharer(struct sharers *all, struct session *session)
{
    struct sharer *found = find_sharer(all, session);

    if (found || all->first.names > 0)
        return found ? found : make_sharer(all, session);
    all->first = (struct sharer){.key = {all, session}};
    return &all->first;
}

static void free_sharer(struct sharer *s)
{
    assert(s->waiting.n == 0);
    user_uncharge(&s->charge);
    if (s == &s->key.all->first)
        return;
    HASH_DEL(*s->key.all->more, s);
    free(s);
}

/* Under the lock. */
static void count_newcomer(struct sharer *s)
{
    s->since = ends_of(s->key.all);
    s->key.all->newcomers++;
}

static bool is_newcomer(const struct sharer *s)
{
    return s->since == ends_of(s->key.all);
}

static bool is_new(const struct sharer *s)
{
    return s->names == 0 && s != &s->key.all->first;
}

static void add_name(struct sharer *s)
{
    struct sharers *all = s->key.all;

    if (s->names++ > 0)
        return;
    s->waiting = (struct waiter_group){.groups = &all->waiting};
    waitlist_lock(all->values);
    all->n++;
    count_newcomer(s);
    waitlist_unlock(all->values);
}

enum cause sharer_join(struct sharers *all, struct session *session, struct sharer **sharer)
{
    struct sharer *s = get_sharer(all, session);

    if (!s)
        return CAUSE_FILE_MEMORY;
    if (is_new(s) &&
        user_charge(&s->charge, session->user, RESOURCE_TABLE_MEMORY, sizeof(*s)) < 0) {
        free_sharer(s);
        return CAUSE_USER_TABLE_MEMORY;
    }
    add_name(s);
    *sharer = s;
    return CAUSE_NONE;
}

bool sharer_leave(struct sharer *s)
{
    struct sharers *all = s->key.all;

    assert(s->names > 0);
    if (--s->names > 0)
        return false;
    sharer_set_over(s, false);
    waitlist_lock(all->values);
    all->n--;
    all->newcomers -= is_newcomer(s);
    waitlist_unlock(all->values);
    free_sharer(s);
    return true;
}

/* --- restoring --- */

bool sharer_join_again(struct sharers *all, struct session *session, uint32_t since, bool over,
                       struct sharer **sharer)
{
    struct sharer *s = get_sharer(all, session);

    if (!s)
        return false;
    if (is_new(s))
        user_charge_again(&s->charge, session->user, RESOURCE_TABLE_MEMORY, sizeof(*s), false);
    add_name(s);
    if (over)
        sharer_set_over(s, true);
    s->since = since;
    all->newcomers = 0; /* sharer_restored() */
    *sharer = s;
    return true;
}

void sharer_restored(struct sharer *s)
{
    if (s->counted)
        return;
    s->counted = true;
    s->key.all->newcomers += is_newcomer(s);
}

/* --- who is left --- */

static void set_left(struct sharers *all, uint64_t left, bool ended)
{
    waitlist_lock(all->values);
    atomic_store(&all->left, left);
    if (ended)
        all->newcomers = 0;
    waitlist_unlock(all->values);
}

bool sharers_note_end(struct sharers *all, int32_t pid, bool ended)
{
    uint64_t old = atomic_load(&all->left), left = (uint64_t)(uint32_t)pid << LEFT_PID | LEFT;
    uint32_t ends = ends_of(all);

    if (!ended && all->n - all->over > 1)
        return false;
    /* Nothing has changed since the last one: thousands that end together count as one. */
    if (!(old & LEFT) || all->newcomers > 0)
        ends = (ends + 1) & ENDS_MASK;
    left |= (uint64_t)ends << LEFT_ENDS;
    if (left == old)
        return false;
    set_left(all, left, true);
    return true;
}

bool sharers_expect(struct sharers *all)
{
    if (!(atomic_load(&all->left) & LEFT))
        return false;
    set_left(all, (uint64_t)ends_of(all) << LEFT_ENDS, false);
    return true;
}

void sharer_set_over(struct sharer *s, bool over)
{
    struct sharers *all = s->key.all;

    if (s->over == over)
        return;
    waitlist_lock(all->values);
    s->over = over;
    waitlist_hold_group(&s->waiting, over);
    if (over)
        all->over++;
    else
        all->over--;
    waitlist_unlock(all->values);
}

void sharer_come_again(struct sharer *s)
{
    struct sharers *all = s->key.all;

    waitlist_lock(all->values);
    all->newcomers -= is_newcomer(s);
    count_newcomer(s);
    waitlist_unlock(all->values);
    sharer_set_over(s, false);
}

bool sharers_deserted(const struct sharers *all, int32_t *pid)
{
    uint64_t left = atomic_load(&all->left);
    /* Also if it has come since: the others were over, and it had been told of no other end. */
    bool alone = all->over > 0 && all->n - all->over <= 1;

    *pid = (int32_t)(left >> LEFT_PID);
    return (left & LEFT) && (alone || all->newcomers == 0) && atomic_load(&all->waiting) >= all->n;
}
