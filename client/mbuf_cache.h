/*
 * What each thread keeps of the session's pool (pool.h): free slots, which it takes again without a locked instruction.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "client/mbuf.h"
#include "client/session.h"

#define MBUF_CACHED      32                   /* classes that are kept in caches */
#define MBUF_CACHED_SIZE (UINT64_C(64) << 10) /* the largest of them */
#define MBUF_CACHE_SLOTS 30
#define POOL_KEPT        (UINT64_C(1) << 20) /* a pool up to here is not worth giving back */

/**
 * Of one thread. Every slot in it is CACHED, and has been through mbuf_prepare() since others last had a reference to its data. All zero:
 * empty, of no session.
 */
struct mbuf_cache {
    uint64_t session; /* serial; slots of another are not ours */
    int64_t used;     /* buffers that this thread has allocated and not freed, more or less */
    struct mbuf_stack {
        uint16_t n, max;
        uint16_t fetch; /* slots to bring when there are none: more each time */
        uint16_t unused;
        uint32_t ref[MBUF_CACHE_SLOTS];
    } stack[MBUF_CACHED];
};

/** The calling thread's; one that fits no session as long as it has none. */
extern __thread struct mbuf_cache *mbuf_cache_mine;

/** The calling thread's, emptied if it is of another session. NULL: no memory for one. */
struct mbuf_cache *mbuf_cache_get(struct session *s);

/** The calling thread has got a slot of this segment, but not from its cache. */
void mbuf_cache_took(struct session *s, const struct segment *segment);

/** The long ways of mbuf_cache_take(), as mbuf_alloc(), and of mbuf_cache_put(). */
int mbuf_cache_fetch(const char *function, struct session *s, uint64_t size, struct mbuf_ref *out);
void mbuf_cache_drop(struct session *s, const struct mbuf_ref *m);

/**
 * The thread has freed its last buffer, and the pool is large: whether what it keeps should go back. Then it has, and the buffer is to go the same
 * way.
 */
bool mbuf_cache_leave(struct session *s, struct mbuf_cache *cache, struct segment *segment)
    __attribute__((cold));

static inline bool mbuf_cache_keeps(struct session *s, struct mbuf_cache *cache,
                                    struct segment *segment)
{
    return __builtin_expect(cache->used > 1 ||
                                atomic_load_explicit(&s->pool.size, memory_order_relaxed) <=
                                    POOL_KEPT,
                            1) ||
           !mbuf_cache_leave(s, cache, segment);
}

/** A buffer from what the thread has kept. False: by the long way, then. No locked instruction. */
static inline bool mbuf_cache_take(struct session *s, uint64_t size, struct mbuf_ref *out)
{
    struct mbuf_cache *cache = mbuf_cache_mine;
    struct segment_view *view;
    struct mbuf_stack *stack;
    struct mbuf *m;
    uint32_t class, ref;

    if (size - 1 >= MBUF_CACHED_SIZE || cache->session != s->serial)
        return false;
    class = pool_class(size);
    stack = &cache->stack[class];
    if (stack->n == 0)
        return false;
    ref = stack->ref[stack->n - 1];
    view = segment_get(segments(), ref);
    if (!view || segment_of(view)->cached != class || !segment_usable(view))
        return false;
    stack->n--;
    cache->used++;
    m = &view->mbufs[ref & 0xffff];
    mbuf_renew(m, size);
    KILL_POINT(MBUF_PREPARED);
    *out = (struct mbuf_ref){.view = view, .mbuf = m, .ref = ref, .word = mbuf_hold(m, s->share)};
    KILL_POINT(MBUF_HOLDS);
    return true;
}

/** Keep the slot of a buffer that this session owns. False: by the long way. No locked instruction. */
static inline bool mbuf_cache_put(struct session *s, const struct mbuf_ref *m)
{
    struct mbuf_cache *cache = mbuf_cache_mine;
    struct segment *g = segment_of(m->view);
    struct mbuf_stack *stack;

    if (g->cached == SEGMENT_NO_CLASS || cache->session != s->serial)
        return false;
    stack = &cache->stack[g->cached];
    if (stack->n == stack->max || !mbuf_unshared(m->view, m->ref & 0xffff) ||
        !segment_usable(m->view) || !mbuf_cache_keeps(s, cache, g))
        return false;
    atomic_store_explicit(&m->mbuf->word,
                          mbuf_word(mbuf_generation(m->word), MBUF_CACHED, s->share, 0),
                          memory_order_release);
    KILL_POINT(MBUF_CACHING);
    stack->ref[stack->n++] = m->ref;
    cache->used--;
    return true;
}

/** What a thread kept goes back to the pool, at its end. NULL: nothing. */
void mbuf_cache_free(struct mbuf_cache *cache);
