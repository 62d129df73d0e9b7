/*
 * What streams wait for: records of events, levels, notifies, counters, words. They differ in when
 * a wait goes on, what it takes with it, and what raising it does: tables by their kind.
 */
#include <utlist.h>

#include "acl/acl_rt.h"
#include "client/tools/npu-check/model.h"
#include "client/tools/npu-check/need.h"
#include "client/tools/npu-check/objects.h"

struct signal *signal_make(enum signal_kind kind, enum object_what what, uint64_t number)
{
    struct signal *g = need_zeroed(1, sizeof(*g));

    g->refs = 1;
    g->kind = kind;
    g->what = what;
    g->number = number;
    g->pending = g->all = POINT_NOTHING;
    g->latest = (struct history){.actor = ACTOR_NONE, .act = WORLD_NONE};
    return g;
}

struct signal *signal_ref(struct signal *g)
{
    g->refs++;
    return g;
}

void signal_unref(struct model *m, struct signal *g)
{
    if (!g || --g->refs > 0)
        return;
    point_free(&g->pending);
    point_free(&g->all);
    acts_unref(&m->acts, g->latest.act);
    free(g);
}

static bool is_up(const struct signal *g, const struct operation *o)
{
    (void)o;
    return g->up;
}

static bool has_count(const struct signal *g, const struct operation *o)
{
    uint32_t count = (uint32_t)g->value, wanted = (uint32_t)o->value;

    switch (o->mode) {
    case ACL_RT_CNT_NOTIFY_WAIT_LESS_MODE:
        return count < wanted;
    case ACL_RT_CNT_NOTIFY_WAIT_EQUAL_MODE:
        return count == wanted;
    case ACL_RT_CNT_NOTIFY_WAIT_BIGGER_MODE:
        return count > wanted;
    case ACL_RT_CNT_NOTIFY_WAIT_BIGGER_OR_EQUAL_MODE:
        return count >= wanted;
    default:
        return (count & wanted) == wanted;
    }
}

static bool has_value(const struct signal *g, const struct operation *o)
{
    if (!g->up)
        return false;
    switch (o->mode) {
    case ACL_STREAM_WAIT_VALUE_GEQ:
        return (int64_t)(g->value - o->value) >= 0;
    case ACL_STREAM_WAIT_VALUE_EQ:
        return g->value == o->value;
    case ACL_STREAM_WAIT_VALUE_AND:
        return (g->value & o->value) != 0;
    default:
        return ~(g->value | o->value) != 0;
    }
}

static void raise_flag(struct signal *g, const struct operation *o)
{
    (void)o;
    g->up = true;
}

static void change_count(struct signal *g, const struct operation *o)
{
    uint32_t count = (uint32_t)g->value, by = (uint32_t)o->value;

    switch (o->mode) {
    case ACL_RT_CNT_NOTIFY_RECORD_SET_VALUE_MODE:
        g->value = by;
        break;
    case ACL_RT_CNT_NOTIFY_RECORD_ADD_MODE:
        g->value = (uint32_t)(count + by);
        break;
    case ACL_RT_CNT_NOTIFY_RECORD_BIT_OR_MODE:
        g->value = count | by;
        break;
    default:
        g->value = count & by;
    }
}

static void store_value(struct signal *g, const struct operation *o)
{
    g->value = o->value;
    g->up = true;
}

static const struct {
    bool (*lets_pass)(const struct signal *, const struct operation *);
    void (*raise)(struct signal *, const struct operation *);
    bool taken; /* a wait that goes on lowers it */
} kinds[] = {
    [SIGNAL_RECORD] = {is_up, raise_flag, false},
    [SIGNAL_LEVEL] = {is_up, raise_flag, false},
    [SIGNAL_NOTIFY] = {is_up, raise_flag, true},
    [SIGNAL_COUNT] = {has_count, change_count, false},
    [SIGNAL_WORD] = {has_value, store_value, false},
};

bool signal_lets_pass(const struct signal *g, const struct operation *o)
{
    return kinds[g->kind].lets_pass(g, o);
}

struct point signal_take(struct signal *g, const struct operation *o)
{
    struct point after = point_copy(&g->pending);

    if (kinds[g->kind].taken || (g->kind == SIGNAL_COUNT && o->clear))
        signal_lower(g);
    return after;
}

void signal_lower(struct signal *g)
{
    point_free(&g->pending);
    g->up = false;
    g->value = 0;
}

static void add_cause(struct signal *g, const struct actor *a)
{
    struct point p = actor_point(a);

    point_add(&g->pending, &p);
    point_add(&g->all, &p);
    point_free(&p);
}

void signal_raise(struct model *m, struct signal *g, const struct operation *o,
                  const struct actor *a)
{
    add_cause(g, a);
    acts_ref(&m->acts, o->act);
    acts_unref(&m->acts, g->latest.act);
    g->latest = (struct history){.actor = a->index, .act = o->act, .epoch = a->epoch};
    kinds[g->kind].raise(g, o);
    signal_let_waiters_go(m, g);
}

void signal_spoil(struct signal *g, const struct actor *a)
{
    add_cause(g, a);
    g->up = false;
}

void signal_let_waiters_go(struct model *m, struct signal *g)
{
    struct stream *s, *next;

    signal_ref(g);
    for (s = g->waiters; s; s = next) {
        struct point after;

        next = s->wait_next;
        if (!signal_lets_pass(g, s->head))
            continue;
        after = signal_take(g, s->head);
        stream_pass_wait(m, s, &after);
        point_free(&after);
    }
    signal_unref(m, g);
}
