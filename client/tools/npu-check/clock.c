/* Clocks: arrays of epochs that are shared until one of their owners learns something. */
#include <string.h>

#include "client/tools/npu-check/clock.h"
#include "client/tools/npu-check/need.h"

struct clock *clock_ref(struct clock *c)
{
    if (c)
        c->refs++;
    return c;
}

void clock_unref(struct clock *c)
{
    if (c && --c->refs == 0)
        free(c);
}

/* Takes the reference *c, and returns one to a clock with room for n that nothing else uses. */
static struct clock *make_own(struct clock *c, uint32_t n)
{
    uint32_t had = c ? c->n : 0, room = n > had ? n : had;
    struct clock *own;

    if (c && c->refs == 1 && n <= had)
        return c;
    if (room > had)
        room = (room + 15) & ~15u;
    own = need_array(NULL, 1, sizeof(*own) + room * sizeof(own->epoch[0]));
    own->refs = 1;
    own->n = room;
    if (had)
        memcpy(own->epoch, c->epoch, had * sizeof(own->epoch[0]));
    memset(own->epoch + had, 0, (room - had) * sizeof(own->epoch[0]));
    clock_unref(c);
    return own;
}

/* The part of `from` that *own lacks; *own has room for it. */
static void raise_all(struct clock *own, const struct clock *from)
{
    for (uint32_t i = 0; from && i < from->n; i++)
        own->epoch[i] = own->epoch[i] > from->epoch[i] ? own->epoch[i] : from->epoch[i];
}

static bool is_in(const struct clock *part, const struct clock *whole)
{
    if (!part || part == whole)
        return true;
    for (uint32_t i = 0; i < part->n; i++)
        if (part->epoch[i] > (whole && i < whole->n ? whole->epoch[i] : 0))
            return false;
    return true;
}

static uint32_t size_for(const struct point *p)
{
    uint32_t n = p->clock ? p->clock->n : 0;

    return p->actor != ACTOR_NONE && p->actor >= n ? p->actor + 1 : n;
}

static void raise_to(struct clock *own, const struct point *p)
{
    raise_all(own, p->clock);
    if (p->actor != ACTOR_NONE && own->epoch[p->actor] < p->epoch)
        own->epoch[p->actor] = p->epoch;
}

void actor_join(struct actor *a, const struct point *p)
{
    if (p->actor == ACTOR_NONE ? is_in(p->clock, a->known) : actor_knows(a, p->actor, p->epoch))
        return;
    a->known = make_own(a->known, size_for(p));
    raise_to(a->known, p);
    a->epoch++;
}

struct point actor_point(const struct actor *a)
{
    return (struct point){.actor = a->index, .epoch = a->epoch, .clock = clock_ref(a->known)};
}

struct point point_copy(const struct point *p)
{
    clock_ref(p->clock);
    return *p;
}

void point_free(struct point *p)
{
    clock_unref(p->clock);
    *p = POINT_NOTHING;
}

void point_add(struct point *all, const struct point *p)
{
    uint32_t n, n_all;

    if (point_is_nothing(p))
        return;
    if (point_is_nothing(all) ||
        (p->actor != ACTOR_NONE && p->actor == all->actor && p->epoch >= all->epoch)) {
        struct point old = *all;

        *all = point_copy(p);
        point_free(&old);
        return;
    }
    n = size_for(p);
    n_all = size_for(all);
    all->clock = make_own(all->clock, n > n_all ? n : n_all);
    if (all->actor != ACTOR_NONE)
        raise_to(all->clock, &(struct point){.actor = all->actor, .epoch = all->epoch});
    raise_to(all->clock, p);
    all->actor = ACTOR_NONE;
    all->epoch = 0;
}
