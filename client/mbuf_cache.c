#include "client/mbuf_cache.h"

#include <stdlib.h>

#include "acl/acl.h"
#include "client/error.h"
#include "client/process.h"
#include "client/session.h"
#include "client/thread.h"

#define SEGMENT_FIRST ((uint64_t)64 << 10) /* bytes of data of a class's first segment */
#define SEGMENT_LAST  ((uint64_t)4 << 20)  /* and at most */
#define SEGMENT_DATA  16384u               /* slots with data that npud allows */
#define CACHE_BYTES   ((uint64_t)64 << 10) /* per class */
#define KEPT_FEW      4                    /* slots of a class that are not worth a look */
#define POOL_KEPT     ((uint64_t)1 << 20)  /* a pool up to here is not worth giving back */

void pool_init(struct pool *pool)
{
    pthread_mutex_init(&pool->lock, NULL);
}

uint64_t mbuf_class_size(uint32_t class)
{
    if (class < 4)
        return (class + 1) * UINT64_C(128);
    if (class < 48)
        return (5 + (uint64_t)(class % 4)) << (class / 4 + 6);
    return (9 + (uint64_t)(class % 8)) << ((class - 48) / 8 + 17);
}

/* --- the pool --- */

/* Caller holds pool->lock. Segments that npud has taken back are no more in any class. */
static void drop_dead(struct session *s, struct segment **at)
{
    struct segment *g;

    while ((g = *at)) {
        if (atomic_load_explicit(&g->view.page->dead, memory_order_acquire) == 0) {
            at = &g->class_next;
            continue;
        }
        *at = g->class_next;
        atomic_fetch_sub_explicit(&s->pool.size, g->size, memory_order_relaxed);
        segment_retire(s, g);
    }
}

/* Caller holds pool->lock. */
static bool claim(struct session *s, uint32_t class, struct segment_view **view, uint32_t *slot)
{
    for (struct segment *g = s->pool.class[class]; g; g = g->class_next) {
        if (!segment_usable(&g->view))
            continue;
        *slot = segment_claim(&g->view, 0, g->view.n_data, s->share);
        *view = &g->view;
        if (*slot < g->view.n_data)
            return true;
    }
    return false;
}

/* Caller holds pool->lock. One more segment, twice as large as the last of its class. */
static int grow(const char *function, struct session *s, uint32_t class)
{
    uint64_t stride = mbuf_class_size(class), bytes = SEGMENT_FIRST, count;
    struct segment *g, **at = &s->pool.class[class];
    int error;

    for (; *at; at = &(*at)->class_next)
        bytes = bytes < SEGMENT_LAST ? 2 * bytes : bytes;
    count = bytes / stride;
    count = count == 0 ? 1 : count < SEGMENT_DATA ? count : SEGMENT_DATA;
    error = segment_create(function, s, stride, (uint32_t)count, &g);
    if (error != 0)
        return error;
    if (class < MBUF_CACHED && !segment_large(g))
        g->cached = class;
    *at = g;
    atomic_fetch_add_explicit(&s->pool.size, g->size, memory_order_relaxed);
    return 0;
}

/* More of the class for the calling thread's cache, while they are at hand. Caller holds pool->lock. */
static void refill(struct session *s, struct segment_view *view, uint32_t class)
{
    struct mbuf_cache *cache = mbuf_cache_get(s);
    struct mbuf_stack *stack;

    if (!cache || segment_of(view)->cached == SEGMENT_NO_CLASS)
        return;
    stack = &cache->stack[class];
    for (uint32_t n = stack->fetch; n > 0; n--) {
        uint32_t slot = segment_claim(view, 0, view->n_data, s->share);

        if (slot == view->n_data)
            return;
        stack->ref[stack->n++] = view->id << 16 | slot;
    }
    stack->fetch = 2 * stack->fetch + 1;
    if (stack->fetch > stack->max / 2)
        stack->fetch = stack->max / 2;
}

int pool_take(const char *function, struct session *s, uint32_t class, struct segment_view **view,
              uint32_t *slot)
{
    int error = 0;
    bool found;

    pthread_mutex_lock(&s->pool.lock);
    drop_dead(s, &s->pool.class[class]);
    while (!(found = claim(s, class, view, slot)) && error == 0)
        error = grow(function, s, class);
    if (found)
        refill(s, *view, class);
    pthread_mutex_unlock(&s->pool.lock);
    return found ? 0 : error;
}

bool pool_take_ref(struct session *s, struct segment_view *view, uint32_t *slot)
{
    struct segment *g = segment_of(view);
    uint32_t slots = segment_slots(view);
    uint32_t from = atomic_load_explicit(&g->cursor, memory_order_relaxed);

    *slot = segment_claim(view, from, slots, s->share);
    if (*slot == slots) {
        *slot = segment_claim(view, view->n_data, from, s->share);
        if (*slot == from)
            return false;
    }
    atomic_store_explicit(&g->cursor, *slot, memory_order_relaxed);
    return true;
}

/* --- caches of threads --- */

static void cache_reset(struct mbuf_cache *cache, uint64_t session)
{
    cache->session = session;
    cache->held = 0;
    for (uint32_t i = 0; i < MBUF_CACHED; i++) {
        uint64_t max = CACHE_BYTES / mbuf_class_size(i);

        cache->stack[i].n = cache->stack[i].fetch = 0;
        cache->stack[i].max = max < MBUF_CACHE_SLOTS ? (uint16_t)max : MBUF_CACHE_SLOTS;
    }
}

struct mbuf_cache *mbuf_cache_get(struct session *s)
{
    struct thread *t = thread_self();

    if (__builtin_expect(!t->buffers, 0)) {
        if (t != thread_current) /* out of memory: all such threads share one */
            return NULL;
        t->buffers = calloc(1, sizeof(*t->buffers));
        if (!t->buffers)
            return NULL;
    }
    if (__builtin_expect(t->buffers->session != s->serial, 0))
        cache_reset(t->buffers, s->serial);
    return t->buffers;
}

/*
 * The segment of a slot that the thread has kept. NULL: it is gone. No honest session could make npud take it back, but whoever shares it can
 * write that the slot is free.
 */
static struct segment_view *kept_in(uint32_t class, uint32_t ref)
{
    struct segment_view *view = segment_get(segments(), ref);

    return view && segment_of(view)->cached == class && (ref & 0xffff) < view->n_data ? view : NULL;
}

/* Back to where every thread finds it. */
static void give_back(struct session *s, uint32_t class, uint32_t ref)
{
    struct segment_view *view = kept_in(class, ref);

    if (view && mbuf_release(view, &view->mbufs[ref & 0xffff]))
        segment_freed(s, view);
}

static void flush(struct session *s, struct mbuf_cache *cache)
{
    for (uint32_t i = 0; i < MBUF_CACHED; i++) {
        cache->stack[i].fetch = 0;
        while (cache->stack[i].n > 0)
            give_back(s, i, cache->stack[i].ref[--cache->stack[i].n]);
    }
}

uint32_t mbuf_cache_pop(struct session *s, struct mbuf_cache *cache, uint32_t class)
{
    struct mbuf_stack *stack = &cache->stack[class];

    while (stack->n > 0) {
        uint32_t ref = stack->ref[--stack->n];

        struct segment_view *view = kept_in(class, ref);

        if (__builtin_expect(view && segment_usable(view), 1))
            return ref;
        give_back(s, class, ref);
    }
    return 0;
}

/*
 * Who allocates and frees one buffer after the other, while others have made the pool large, comes here each time: he keeps his few, which are
 * seen to about once a second, when npud is not going to look anyway.
 */
static bool leave(struct session *s, struct mbuf_cache *cache, struct segment *g)
{
    bool armed = atomic_load_explicit(&g->view.page->armed, memory_order_relaxed) != 0;

    if (armed && (g->cached == SEGMENT_NO_CLASS || cache->stack[g->cached].n <= KEPT_FEW))
        return false;
    flush(s, cache);
    return true;
}

bool mbuf_cache_leave(struct session *s, struct mbuf_cache *cache, struct segment *g)
{
    return __builtin_expect(--cache->held <= 0 &&
                                atomic_load_explicit(&s->pool.size, memory_order_relaxed) >
                                    POOL_KEPT,
                            0) &&
           leave(s, cache, g);
}

void mbuf_cache_push(struct session *s, struct mbuf_cache *cache, struct segment *g, struct mbuf *m)
{
    struct mbuf_stack *stack = &cache->stack[g->cached];
    uint64_t w = atomic_load_explicit(&m->word, memory_order_relaxed);

    /* Half of it at once: so who allocates and frees at the edge does not come here each time. */
    if (__builtin_expect(stack->n == stack->max, 0))
        while (stack->n > stack->max / 2)
            give_back(s, g->cached, stack->ref[--stack->n]);
    atomic_store_explicit(&m->word, mbuf_word(mbuf_generation(w), MBUF_CACHED, s->share, 0),
                          memory_order_release);
    KILL_POINT(MBUF_CACHING);
    stack->ref[stack->n++] = mbuf_ref(&g->view, m);
}

void mbuf_cache_free(struct mbuf_cache *cache)
{
    struct session *s;

    if (!cache)
        return;
    /* Not while the session goes: whoever ends it waits here for us, and we find none when it has gone. */
    pthread_mutex_lock(&process->threads_lock);
    s = session_peek();
    if (s && s->serial == cache->session && !session_lost(s))
        flush(s, cache);
    pthread_mutex_unlock(&process->threads_lock);
    free(cache);
}
