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

#define MBUF_CACHE_SLOTS 126

/**
 * Of one thread. Every slot in it is CACHED, and has been through mbuf_prepare() since others last
 * had a reference to its data. All zero: empty, of no session.
 */
struct mbuf_cache {
    uint64_t session; /* serial; slots of another are not ours */
    /* Words without generation: of a buffer that the session holds, and of a slot that it keeps. */
    uint64_t held, cached;
    /*
     * By class, for its stack: the slot that was kept last, what top is when there is none, and
     * what it is when the stack is full: that of SEGMENT_NO_CLASS always is.
     */
    uint64_t *top[SEGMENT_CLASSES + 1], *bottom[SEGMENT_CLASSES + 1], *end[SEGMENT_CLASSES + 1];
    /*
     * Slots in all, less those that were given back: more than the stack has when the thread has
     * buffers of this class.
     */
    int64_t fetched[SEGMENT_CLASSES + 1];
    uint32_t fetch[SEGMENT_CLASSES]; /* slots to bring when there are none: more each time */
    /* mbuf_cache_slot() of each. The first of a class is 0, which is none: no segment has id 0. */
    uint64_t slot[SEGMENT_CLASSES][1 + MBUF_CACHE_SLOTS];
};

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

static inline int64_t mbuf_cache_count(const struct mbuf_cache *cache, uint32_t class)
{
    return cache->top[class] - cache->bottom[class];
}

/**
 * The thread frees its last buffer of a class, while the pool is large: it should rather give back
 * what it keeps of the class, and the buffer. A thread that allocates and frees one buffer after
 * the other while others have made the pool large pays locked instructions each time: what it kept
 * would hold segments, and it may never come again.
 */
static inline bool mbuf_cache_should_leave(const struct mbuf_cache *cache, uint32_t class)
{
    return pool_is_large() && cache->fetched[class] <= mbuf_cache_count(cache, class) + 1;
}

#define MBUF_GENERATION_1 (UINT64_C(1) << 36) /* one up, in a word */

/**
 * How a cache knows a slot: its ref, and the generation that its word has, which no other process
 * changes. It is a handle without its mark: the generation stands where the word has it, and counts
 * up without a carry. An allocation does not read the word. A release may have stored it just
 * before, and a peer may have written there.
 */
static inline uint64_t mbuf_cache_slot(uint64_t word, uint32_t ref)
{
    return (word & -MBUF_GENERATION_1) | (uint64_t)ref << 4;
}

static inline uint32_t mbuf_cache_ref(uint64_t slot)
{
    return (uint32_t)(slot >> 4);
}

/**
 * A buffer from what the thread has kept, and its handle. NULL: by the long way, then. No locked
 * instruction.
 */
static inline __attribute__((always_inline)) acltdtBuf mbuf_cache_take(uint64_t size,
                                                                       struct mbuf_ref *out)
{
    struct mbuf_cache *cache = mbuf_cache_mine;
    struct segment_view *view;
    struct mbuf *m;
    uint32_t class, ref;
    uint64_t slot, word;

    if (size - 1 >= POOL_SMALL || !mbuf_cache_is_live(cache))
        return NULL;
    class = pool_small_class(size);
    slot = *cache->top[class];
    ref = mbuf_cache_ref(slot);
    view = segment_known(ref);
    if (!view || view->cached != class || !segment_usable(view))
        return NULL;
    cache->top[class]--;
    m = &view->mbufs[ref & 0xffff];
    mbuf_renew(m, size);
    KILL_POINT(MBUF_PREPARED);
    /* as mbuf_hold() */
    slot += MBUF_GENERATION_1;
    word = (slot & -MBUF_GENERATION_1) | cache->held;
    atomic_store_explicit(&m->word, word, memory_order_release);
    KILL_POINT(MBUF_HOLDS);
    *out = (struct mbuf_ref){.view = view, .mbuf = m, .ref = ref, .word = word};
    return (acltdtBuf)(uintptr_t)(MBUF_HANDLE | slot >> 4);
}

/* The slot of a buffer that the live session owns, one with data. */
static inline __attribute__((always_inline)) bool mbuf_cache_keep(struct mbuf_cache *cache,
                                                                  const struct mbuf_ref *m,
                                                                  uint64_t slot)
{
    uint32_t class = m->view->cached;
    uint64_t *top = cache->top[class];

    if (!segment_usable(m->view) || top == cache->end[class] ||
        mbuf_cache_should_leave(cache, class) || !mbuf_unshared(m->mbuf, m->ref & 0xffff))
        return false;
    atomic_store_explicit(&m->mbuf->word, (slot & -MBUF_GENERATION_1) | cache->cached,
                          memory_order_release);
    KILL_POINT(MBUF_CACHING);
    *++top = slot;
    cache->top[class] = top;
    return true;
}

/**
 * Keep the slot of a buffer that this session owns. False: by the long way. No locked instruction.
 */
static inline __attribute__((always_inline)) bool mbuf_cache_put(const struct mbuf_ref *m)
{
    struct mbuf_cache *cache = mbuf_cache_mine;

    return mbuf_cache_is_live(cache) && (m->ref & 0xffff) < m->view->n_data &&
           mbuf_cache_keep(cache, m, mbuf_cache_slot(m->word, m->ref));
}

/**
 * mbuf_cache_put() by the handle of a single buffer. False: by the long way, which looks at
 * everything again.
 */
static inline __attribute__((always_inline)) bool mbuf_cache_free(acltdtBuf buf)
{
    struct mbuf_cache *cache = mbuf_cache_mine;
    uint64_t handle = (uint64_t)(uintptr_t)buf, slot = handle << 4;
    struct mbuf_ref m = {.ref = (uint32_t)handle};
    uint32_t at = m.ref & 0xffff;

    /* First: a forked child has the table, but not the segments. */
    if (!mbuf_cache_is_live(cache) || !mbuf_is_handle(buf))
        return false;
    m.view = segment_known(m.ref);
    if (!m.view || at >= m.view->n_data)
        return false;
    m.mbuf = &m.view->mbufs[at];
    /* The generation is the handle's, the rest says that the session holds it. */
    return atomic_load_explicit(&m.mbuf->word, memory_order_acquire) ==
               ((slot & -MBUF_GENERATION_1) | cache->held) &&
           atomic_load_explicit(&m.mbuf->next, memory_order_relaxed) == 0 &&
           mbuf_cache_keep(cache, &m, slot);
}
