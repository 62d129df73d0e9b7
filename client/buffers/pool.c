#include "client/buffers/pool.h"

#include <utlist.h>

#include "acl/acl.h"
#include "client/core/error.h"
#include "client/core/lock_order.h"
#include "client/runtime/session.h"

#define SEGMENT_FIRST ((uint64_t)64 << 10) /* bytes of data of a class's first segment */
#define SEGMENT_LAST  ((uint64_t)4 << 20)  /* and at most */
#define SEGMENT_DATA  16384u               /* slots with data that npud allows */
#define GROW_MAX      4u  /* segments that one call asks for: the first one has free buffers */
#define LOOK_AT       8u  /* segments that a search looks at */
#define START_AGAIN   64u /* claims, until one looks at the first segments before the last one */

uint8_t pool_small[POOL_SMALL / POOL_STEP];
_Atomic uint64_t pool_size;

static __attribute__((constructor)) void fill_table(void)
{
    for (uint32_t i = 0; i < POOL_SMALL / POOL_STEP; i++)
        pool_small[i] = (uint8_t)pool_class((i + 1) * POOL_STEP);
}

static void init(struct session *s, uint32_t seed)
{
    (void)seed;
    lock_init(&s->pool.lock, LOCK_POOL);
    /* A session that has ended changes it no more: segment_gone(). */
    atomic_store_explicit(&pool_size, 0, memory_order_relaxed);
}

const struct part pool_part = {.session_init = init};

uint32_t pool_class(uint64_t size)
{
    uint64_t last = size - 1;
    unsigned k;

    if (last < 512)
        return (uint32_t)(last / POOL_STEP);
    k = 63 - (unsigned)__builtin_clzll(last);
    if (k < 20)
        return 4 + (k - 9) * 4 + (uint32_t)(last >> (k - 2) & 3);
    return 48 + (k - 20) * 8 + (uint32_t)(last >> (k - 3) & 7);
}

uint64_t pool_class_size(uint32_t class)
{
    if (class < 4)
        return (class + 1) * UINT64_C(128);
    if (class < 48)
        return (5 + (uint64_t)(class % 4)) << (class / 4 + 6);
    return (9 + (uint64_t)(class % 8)) << ((class - 48) / 8 + 17);
}

/* Caller holds pool->lock. npud has taken the segment back. */
static void take_out_segment(struct session *s, struct pool_class *c, struct segment *g)
{
    if (c->last == g)
        c->last = NULL;
    if (c->next == g)
        c->next = g->class_next;
    DL_DELETE2(c->segments, g, class_prev, class_next);
    c->n--;
    atomic_fetch_sub_explicit(&pool_size, g->size, memory_order_relaxed);
    segment_retire(s, g);
}

void pool_let_go(struct session *s)
{
    struct segment *g, *next;

    pthread_mutex_lock(&s->pool.lock);
    for (uint32_t i = 0; i < POOL_CLASSES; i++)
        DL_FOREACH_SAFE2 (s->pool.class[i].segments, g, next, class_next)
            if (segment_gone(s, g))
                take_out_segment(s, &s->pool.class[i], g);
    pthread_mutex_unlock(&s->pool.lock);
}

/* Caller holds pool->lock. Up to n slots of the segment, one if threads may not keep them. */
static uint32_t claim_in(struct session *s, struct segment *g, uint32_t n, uint32_t *refs)
{
    uint32_t most = g->view.cached == SEGMENT_NO_CLASS ? 1 : n, taken = 0;
    bool full = false;

    while (taken < most && segment_usable(&g->view)) {
        uint32_t from = atomic_load_explicit(&g->free_from, memory_order_relaxed);
        uint32_t slot = segment_claim_data(&g->view, from, s->peer_id, &full);

        if (slot == g->view.n_data)
            break;
        atomic_store_explicit(&g->free_from, slot + 1, memory_order_relaxed);
        refs[taken++] = g->view.id << 16 | slot;
    }
    if (full)
        segment_freed(s, &g->view);
    return taken;
}

/*
 * Caller holds pool->lock. As claim_in(), of the first one with free slots of `most` segments from
 * *at on, which goes round. Segments that npud has taken back are no more in the class afterwards.
 */
static uint32_t search_class(struct session *s, struct pool_class *c, struct segment **at,
                             uint32_t most, uint32_t n, uint32_t *refs)
{
    uint32_t taken = 0;

    if (most > c->n)
        most = c->n; /* none of them twice */
    while (taken == 0 && most-- > 0) {
        struct segment *g = *at ? *at : c->segments;

        *at = g->class_next;
        if (segment_gone(s, g)) {
            take_out_segment(s, c, g);
            continue;
        }
        taken = claim_in(s, g, n, refs);
        if (taken > 0)
            c->last = g;
    }
    return taken;
}

/*
 * Caller holds pool->lock. Up to n slots of one segment; 0: let the class grow.
 *
 * A class of many segments is not searched as a whole: it would take the longer the more buffers
 * are in use. Free slots that a search does not come to are found by later ones, so the class has
 * one segment in LOOK_AT too many at most.
 */
static uint32_t claim_slots(struct session *s, struct pool_class *c, uint32_t n, uint32_t *refs)
{
    struct segment *first = NULL;
    uint32_t taken = 0;

    /*
     * Time and again as if there had been no last one: when few buffers are in use after many, they
     * shall come from the small segments, which threads keep slots of, and the others be given
     * back.
     */
    if (c->claims++ % START_AGAIN == 0 || !c->last)
        taken = search_class(s, c, &first, LOOK_AT, n, refs);
    if (taken == 0 && c->last && !segment_gone(s, c->last))
        taken = claim_in(s, c->last, n, refs);
    if (taken == 0)
        taken = search_class(s, c, &c->next, c->look_at_all ? c->n : LOOK_AT, n, refs);
    return taken;
}

/*
 * Bytes of data of the next segment: twice as many as the last one has. Those that drain do not
 * count: each of them would make the next one larger, though the class has no more buffers.
 */
static uint64_t next_size(const struct pool_class *c)
{
    uint64_t bytes = SEGMENT_FIRST;

    for (struct segment *g = c->segments; g && bytes < SEGMENT_LAST; g = g->class_next)
        if (segment_usable(&g->view))
            bytes *= 2;
    return bytes;
}

/* Caller holds pool->lock. One more segment. */
static int grow_class(const char *function, struct session *s, uint32_t class)
{
    struct pool_class *c = &s->pool.class[class];
    uint64_t stride = pool_class_size(class), count = next_size(c) / stride;
    struct segment *g;
    int error;

    count = count == 0 ? 1 : count < SEGMENT_DATA ? count : SEGMENT_DATA;
    error = segment_create(function, s, stride, (uint32_t)count, &g);
    c->look_at_all = error != 0;
    RETURN_IF_ERROR(error);
    if (class < SEGMENT_CLASSES && !segment_large(g))
        g->view.cached = class;
    DL_APPEND2(c->segments, g, class_prev, class_next);
    c->n++;
    c->last = g;
    atomic_fetch_add_explicit(&pool_size, g->size, memory_order_relaxed);
    return 0;
}

int pool_take(const char *function, struct session *s, uint32_t class, uint32_t n, uint32_t *refs,
              uint32_t *taken)
{
    uint32_t grown = 0;
    int error = 0;

    pthread_mutex_lock(&s->pool.lock);
    /* Also after an error: all segments are looked at then. */
    while ((*taken = claim_slots(s, &s->pool.class[class], n, refs)) == 0 && error == 0)
        if (grown++ < GROW_MAX)
            error = grow_class(function, s, class);
        else
            error = error_set(ACL_ERROR_RT_MEMORY_ALLOCATION,
                              "%s: no buffer is free in %u new segments of shared buffers: npud, "
                              "or a process that shares them, has damaged them",
                              function, GROW_MAX);
    pthread_mutex_unlock(&s->pool.lock);
    return *taken > 0 ? 0 : error;
}

bool pool_take_ref(struct session *s, struct segment_view *view, uint32_t *slot)
{
    struct segment *g = segment_of(view);
    uint32_t slots = segment_slots(view);
    uint32_t from = atomic_load_explicit(&g->cursor, memory_order_relaxed);

    *slot = segment_claim(view, from, slots, s->peer_id);
    if (*slot == slots) {
        *slot = segment_claim(view, view->n_data, from, s->peer_id);
        if (*slot == from)
            return false;
    }
    atomic_store_explicit(&g->cursor, *slot, memory_order_relaxed);
    return true;
}
