#include "client/buffers/mbuf_cache.h"

#include <assert.h>
#include <stdlib.h>

#include "acl/acl.h"
#include "client/check/checked.h"
#include "client/core/api_call.h"
#include "client/core/error.h"
#include "client/core/process.h"
#include "client/core/thread.h"

#define CACHE_BYTES ((uint64_t)64 << 10) /* per class */
#define LIMIT_TRIES 3                    /* at a limit of memory, after the first */

static struct mbuf_cache none = {.session = UINT64_MAX}; /* no serial, and not 0 */
__thread struct mbuf_cache *mbuf_cache_mine = &none;

static void cache_reset(struct mbuf_cache *cache, const struct session *s)
{
    cache->session = s->serial;
    cache->held = mbuf_word_held(0, s->peer_id);
    cache->cached = mbuf_word(0, MBUF_CACHED, s->peer_id, 0);
    for (uint32_t i = 0; i < SEGMENT_CLASSES; i++) {
        uint64_t max = CACHE_BYTES / pool_class_size(i);

        cache->top[i] = cache->bottom[i] = cache->slot[i];
        cache->end[i] = cache->slot[i] + (max < MBUF_CACHE_SLOTS ? max : MBUF_CACHE_SLOTS);
        cache->fetched[i] = 0;
        cache->fetch[i] = 0;
    }
}

static uint32_t half_of(const struct mbuf_cache *cache, uint32_t class)
{
    return (uint32_t)(cache->end[class] - cache->bottom[class]) / 2;
}

struct mbuf_cache *mbuf_cache_get(struct session *s)
{
    struct thread *t = thread_self();

    if (__builtin_expect(!t->buffers, 0)) {
        /* Out of memory: all such threads share one. A checked process goes the long ways. */
        if (t != thread_current || checked_runs())
            return NULL;
        t->buffers = calloc(1, sizeof(*t->buffers));
        if (!t->buffers)
            return NULL;
    }
    if (__builtin_expect(t->buffers->session != s->serial, 0))
        cache_reset(t->buffers, s);
    return mbuf_cache_mine = t->buffers;
}

/*
 * The segment of a slot that the thread has kept. NULL: it is gone. No honest session could make
 * npud take it back, but a peer that shares it can write that the slot is free.
 */
static struct segment_view *kept_in(uint32_t class, uint32_t ref)
{
    struct segment_view *view = segment_get(&segment_table, ref);

    return view && view->cached == class && (ref & 0xffff) < view->n_data ? view : NULL;
}

/* All but n go back to where every thread finds them. */
static void give_back(struct session *s, struct mbuf_cache *cache, uint32_t class, uint32_t n)
{
    while (mbuf_cache_count(cache, class) > n) {
        uint32_t ref = mbuf_cache_ref(*cache->top[class]--);
        struct segment_view *view = kept_in(class, ref);
        bool full;

        cache->fetched[class]--;
        if (!view)
            continue;
        full = mbuf_release(view, &view->mbufs[ref & 0xffff]);
        segment_note_free(view, ref & 0xffff);
        if (full)
            segment_freed(s, view);
    }
}

static void flush_stacks(struct session *s, struct mbuf_cache *cache)
{
    for (uint32_t i = 0; i < SEGMENT_CLASSES; i++) {
        give_back(s, cache, i, 0);
        cache->fetch[i] = 0;
    }
}

/* The thread has none, or such as nothing may be allocated from any more. */
static int fetch_slots(const char *function, struct session *s, struct mbuf_cache *cache,
                       uint32_t class, uint32_t *ref)
{
    uint32_t *fetch = &cache->fetch[class];
    uint32_t refs[1 + MBUF_CACHE_SLOTS], n;

    give_back(s, cache, class, 0);
    assert(*fetch < MBUF_CACHE_SLOTS); /* refs has room */
    /*
     * In a large pool the thread brings no slots in advance. If others free its buffers and it
     * never allocates again, no thread could take these slots from it, and each would keep a
     * segment from being given back.
     */
    RETURN_IF_ERROR(pool_take(function, s, class, pool_is_large() ? 1 : 1 + *fetch, refs, &n));
    *ref = refs[0];
    /* One of a large segment goes back there without coming to the stack. */
    if (kept_in(class, refs[0]))
        cache->fetched[class] += n;
    while (n-- > 1) {
        struct segment_view *view = kept_in(class, refs[n]);
        uint64_t word;

        if (!view) {
            cache->fetched[class]--;
            continue;
        }
        mbuf_prepare(view, refs[n] & 0xffff, 0);
        word = atomic_load_explicit(&view->mbufs[refs[n] & 0xffff].word, memory_order_relaxed);
        *++cache->top[class] = mbuf_cache_slot(word, refs[n]);
    }
    *fetch = 2 * *fetch + 1;
    if (*fetch > half_of(cache, class))
        *fetch = half_of(cache, class);
    return 0;
}

static int take_slot(const char *function, struct session *s, struct mbuf_cache *cache,
                     uint32_t class, uint32_t *ref)
{
    uint32_t n;

    if (cache && class < SEGMENT_CLASSES)
        return fetch_slots(function, s, cache, class, ref);
    return pool_take(function, s, class, 1, ref, &n);
}

/*
 * At a limit npud gives back what of the pool it finds free in a short time, so it is worth asking
 * again; and slots of other classes that the thread keeps may be what keeps segments from being
 * free.
 */
static int take_patiently(const char *function, struct session *s, struct mbuf_cache *cache,
                          uint32_t class, uint32_t *ref)
{
    struct error_saved saved;
    int error;

    error_save(&saved);
    error = take_slot(function, s, cache, class, ref);
    for (int tries = 0; error == ACL_ERROR_RT_MEMORY_ALLOCATION && tries < LIMIT_TRIES; tries++) {
        if (cache)
            flush_stacks(s, cache);
        error = take_slot(function, s, cache, class, ref);
    }
    error_save_end(&saved);
    return error == 0 ? 0 : error_tell(&saved, error);
}

int mbuf_cache_fetch(const char *function, struct session *s, uint64_t size, struct mbuf_ref *out)
{
    struct mbuf_cache *cache = mbuf_cache_get(s);
    uint32_t class = pool_class(size), ref;

    if (cache && mbuf_cache_take(size, out) != NULL)
        return 0;
    RETURN_IF_ERROR(take_patiently(function, s, cache, class, &ref));
    /*
     * Its segment was there a moment ago, and npud has not taken it back: we have a buffer of it.
     */
    if (!mbuf_find(ref, out))
        return error_set(
            ACL_ERROR_RT_DRV_INTERNAL_ERROR,
            "%s: segment %u of shared buffers is damaged: a process that shares it has "
            "written there",
            function, ref >> 16);
    mbuf_prepare(out->view, ref & 0xffff, size);
    KILL_POINT(MBUF_PREPARED);
    out->word = mbuf_hold(out->mbuf, s->peer_id);
    KILL_POINT(MBUF_HOLDS);
    return 0;
}

void mbuf_cache_drop(struct session *s, const struct mbuf_ref *m)
{
    uint32_t class = m->view->cached;
    struct mbuf_cache *cache = class != SEGMENT_NO_CLASS ? mbuf_cache_get(s) : NULL;
    bool full = false;

    if (cache && cache->top[class] == cache->end[class]) {
        /* Half of it at once: a thread that allocates and frees at the edge seldom comes here. */
        give_back(s, cache, class, half_of(cache, class));
        if (mbuf_cache_put(m))
            return;
    }
    if (cache && mbuf_cache_should_leave(cache, class)) {
        give_back(s, cache, class, 0);
        cache->fetch[class] = 0;
    }
    if (cache && (m->ref & 0xffff) < m->view->n_data)
        cache->fetched[class]--;
    mbuf_drop(m->view, m->mbuf, &full);
    segment_note_free(m->view, m->ref & 0xffff);
    if (full)
        segment_freed(s, m->view);
}

static void leave_session(struct mbuf_cache *cache)
{
    CALL_SCOPE_OF(NULL);
    struct session *s;

    /*
     * Not while the session goes: the thread that ends it waits here for us, and we find none when
     * it has gone.
     */
    pthread_mutex_lock(&process->threads_lock);
    s = session_peek();
    if (s && s->serial == cache->session && !session_lost(s))
        flush_stacks(s, cache);
    pthread_mutex_unlock(&process->threads_lock);
}

/* What the thread kept goes back to the pool. */
static void thread_exit(struct thread *t)
{
    if (!t->buffers)
        return;
    mbuf_cache_mine = &none;
    leave_session(t->buffers);
    free(t->buffers);
    t->buffers = NULL;
}

const struct part mbuf_cache_part = {.thread_exit = thread_exit};
