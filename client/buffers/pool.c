#include "client/buffers/pool.h"

#include "acl/acl.h"
#include "client/core/error.h"
#include "client/runtime/session.h"

#define SEGMENT_FIRST ((uint64_t)64 << 10) /* bytes of data of a class's first segment */
#define SEGMENT_LAST  ((uint64_t)4 << 20)  /* and at most */
#define SEGMENT_DATA  16384u               /* slots with data that npud allows */
#define GROW_MAX      4u /* segments that one call asks for: the first one has free buffers */
#define SMALL_CLASSES                                                                              \
    32 /* classes whose segments may be small enough for threads to keep slots of them */

static void init(struct session *s, uint32_t seed)
{
    struct pool *pool = &s->pool;

    (void)seed;
    pthread_mutex_init(&pool->lock, NULL);
    for (uint32_t i = 0; i < POOL_SMALL / POOL_STEP; i++)
        pool->small[i] = (uint8_t)pool_class((i + 1) * POOL_STEP);
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

/*
 * Caller holds pool->lock. Of the segments from *at on those that npud has taken back are out of
 * the class, up to the first one that it has not.
 */
static void take_out_retired(struct session *s, struct segment **at)
{
    struct segment *g;

    while ((g = *at) && segment_gone(s, g)) {
        *at = g->class_next;
        atomic_fetch_sub_explicit(&s->pool.size, g->size, memory_order_relaxed);
        segment_retire(s, g);
    }
}

void pool_let_go(struct session *s)
{
    pthread_mutex_lock(&s->pool.lock);
    for (uint32_t i = 0; i < POOL_CLASSES; i++) {
        struct segment **at = &s->pool.class[i];

        take_out_retired(s, at);
        while (*at) {
            at = &(*at)->class_next;
            take_out_retired(s, at);
        }
    }
    pthread_mutex_unlock(&s->pool.lock);
}

/*
 * Caller holds pool->lock. Up to n slots of one segment, one if threads may not keep them. Segments
 * that npud has taken back are no more in the class afterwards.
 */
static uint32_t claim_slots(struct session *s, uint32_t class, uint32_t n, uint32_t *refs)
{
    struct segment *g, **at = &s->pool.class[class];
    uint32_t slot, taken = 0;

    while (taken == 0) {
        bool full = false;

        take_out_retired(s, at);
        g = *at;
        if (!g)
            break;
        at = &g->class_next;
        while (segment_usable(&g->view) && taken < (g->view.cached == SEGMENT_NO_CLASS ? 1 : n) &&
               (slot = segment_claim_data(&g->view, s->peer_id, &full)) < g->view.n_data)
            refs[taken++] = g->view.id << 16 | slot;
        if (full)
            segment_freed(s, &g->view);
    }
    return taken;
}

/*
 * Caller holds pool->lock. One more segment, twice as large as the last of its class. Those that
 * drain do not count: each of them would make the next one larger, though the class has no more
 * buffers.
 */
static int grow_class(const char *function, struct session *s, uint32_t class)
{
    uint64_t stride = pool_class_size(class), bytes = SEGMENT_FIRST, count;
    struct segment *g, **at = &s->pool.class[class];

    for (; *at; at = &(*at)->class_next)
        if (segment_usable(&(*at)->view) && bytes < SEGMENT_LAST)
            bytes *= 2;
    count = bytes / stride;
    count = count == 0 ? 1 : count < SEGMENT_DATA ? count : SEGMENT_DATA;
    RETURN_IF_ERROR(segment_create(function, s, stride, (uint32_t)count, &g));
    if (class < SMALL_CLASSES && !segment_large(g))
        g->view.cached = class;
    *at = g;
    atomic_fetch_add_explicit(&s->pool.size, g->size, memory_order_relaxed);
    return 0;
}

int pool_take(const char *function, struct session *s, uint32_t class, uint32_t n, uint32_t *refs,
              uint32_t *taken)
{
    uint32_t grown = 0;
    int error = 0;

    pthread_mutex_lock(&s->pool.lock);
    while ((*taken = claim_slots(s, class, n, refs)) == 0 && error == 0)
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
