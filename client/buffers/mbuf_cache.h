/*
 * What each thread keeps of the session's pool (pool.h): free slots, which it takes again without a
 * locked instruction.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "client/buffers/mbuf.h"
#include "client/buffers/pool.h"
#include "client/runtime/session.h"
#include "proto/shm/mbuf_ref.h"

#define MBUF_CACHE_CLASSES 32 /* classes that are kept in caches */
#define MBUF_CACHE_SLOTS   126

/**
 * Of one thread. Every slot in it is CACHED, and has been through mbuf_prepare() since others last
 * had a reference to its data. All zero: empty, of no session.
 */
struct mbuf_cache {
    uint64_t session; /* serial; slots of another are not ours */
    uint64_t held;    /* the word of a buffer that the session holds, without generation */
    struct mbuf_stack {
        uint8_t n, max;
        uint8_t fetch; /* slots to bring when there are none: more each time */
        /*
         * in all, less those that were given back: more than n when the thread has buffers of this
         * class
         */
        int32_t fetched;
        uint32_t ref[MBUF_CACHE_SLOTS];
    } stack[MBUF_CACHE_CLASSES];
};
static_assert(sizeof(struct mbuf_stack) == 512, "found by a shift");

/** The calling thread's; one that fits no session as long as it has none. */
extern __thread struct mbuf_cache *mbuf_cache_mine;

/** The calling thread's, emptied if it is of another session. NULL: no memory for one. */
struct mbuf_cache *mbuf_cache_get(struct session *s);

/** The long ways of mbuf_cache_take(), as mbuf_alloc(), and of mbuf_cache_put(). */
int mbuf_cache_fetch(const char *function, struct session *s, uint64_t size, struct mbuf_ref *out);
void mbuf_cache_drop(struct session *s, const struct mbuf_ref *m);

/** The calling thread has slots of the session at hand. Only then they are used. */
static inline bool mbuf_cache_is_live(const struct mbuf_cache *cache)
{
    return cache->session == atomic_load_explicit(&process->live, memory_order_relaxed);
}

/**
 * The thread frees its last buffer of a class, while the pool is large: it should rather give back
 * what it keeps of the class, and the buffer. A thread that allocates and frees one buffer after
 * the other while others have made the pool large pays locked instructions each time: what it kept
 * would hold segments, and it may never come again.
 */
static inline bool mbuf_cache_should_leave(const struct mbuf_stack *stack)
{
    return pool_is_large() && stack->fetched <= stack->n + 1;
}

#define MBUF_GENERATION_1 (UINT64_C(1) << 36) /* one up, in a word */

/** The generation of word, and CACHED by the session that `held` is of. */
static inline uint64_t mbuf_word_cached(uint64_t word, uint64_t held)
{
    return (word & -MBUF_GENERATION_1) | (held ^ (MBUF_HELD ^ MBUF_CACHED) * (UINT64_C(1) << 32));
}

/** A buffer from what the thread has kept. False: by the long way, then. No locked instruction. */
static inline __attribute__((always_inline)) bool mbuf_cache_take(uint64_t size,
                                                                  struct mbuf_ref *out)
{
    struct mbuf_cache *cache = mbuf_cache_mine;
    struct segment_view *view;
    struct mbuf_stack *stack;
    struct mbuf *m;
    uint32_t class, ref;
    uint64_t word;

    if (size - 1 >= POOL_SMALL || !mbuf_cache_is_live(cache))
        return false;
    class = pool_small_class(size);
    stack = &cache->stack[class];
    if (stack->n == 0)
        return false;
    ref = stack->ref[stack->n - 1];
    view = segment_known(ref);
    if (!view || view->cached != class || !segment_usable(view))
        return false;
    stack->n--;
    m = &view->mbufs[ref & 0xffff];
    mbuf_renew(m, size);
    KILL_POINT(MBUF_PREPARED);
    /* as mbuf_hold() */
    word = atomic_load_explicit(&m->word, memory_order_relaxed);
    word = ((word & -MBUF_GENERATION_1) + MBUF_GENERATION_1) | cache->held;
    atomic_store_explicit(&m->word, word, memory_order_release);
    KILL_POINT(MBUF_HOLDS);
    *out = (struct mbuf_ref){.view = view, .mbuf = m, .ref = ref, .word = word};
    return true;
}

/* The slot of a buffer that the live session owns. */
static inline __attribute__((always_inline)) bool mbuf_cache_keep(struct mbuf_cache *cache,
                                                                  const struct mbuf_ref *m)
{
    struct mbuf_stack *stack;

    if (m->view->cached == SEGMENT_NO_CLASS)
        return false;
    stack = &cache->stack[m->view->cached];
    if (stack->n == stack->max || !mbuf_unshared(m->view, m->ref & 0xffff) ||
        !segment_usable(m->view) || mbuf_cache_should_leave(stack))
        return false;
    atomic_store_explicit(&m->mbuf->word, mbuf_word_cached(m->word, cache->held),
                          memory_order_release);
    KILL_POINT(MBUF_CACHING);
    stack->ref[stack->n++] = m->ref;
    return true;
}

/**
 * Keep the slot of a buffer that this session owns. False: by the long way. No locked instruction.
 */
static inline __attribute__((always_inline)) bool mbuf_cache_put(const struct mbuf_ref *m)
{
    struct mbuf_cache *cache = mbuf_cache_mine;

    return mbuf_cache_is_live(cache) && mbuf_cache_keep(cache, m);
}

/**
 * mbuf_cache_put() by the handle of a single buffer. False: by the long way, which looks at
 * everything again.
 */
static inline __attribute__((always_inline)) bool mbuf_cache_free(acltdtBuf buf)
{
    struct mbuf_cache *cache = mbuf_cache_mine;
    uint64_t handle = (uint64_t)(uintptr_t)buf;
    struct mbuf_ref m = {.ref = (uint32_t)handle};
    uint32_t slot = m.ref & 0xffff;

    /* First: a forked child has the table, but not the segments. */
    if (!mbuf_cache_is_live(cache) || !mbuf_is_handle(buf))
        return false;
    m.view = segment_known(m.ref);
    if (!m.view || slot >= m.view->n_data)
        return false;
    m.mbuf = &m.view->mbufs[slot];
    m.word = atomic_load_explicit(&m.mbuf->word, memory_order_acquire);
    /* The generation is the handle's, the rest says that the session holds it. */
    return m.word == ((handle << 4 & -MBUF_GENERATION_1) | cache->held) &&
           atomic_load_explicit(&m.mbuf->next, memory_order_relaxed) == 0 &&
           mbuf_cache_keep(cache, &m);
}
