/*
 * The pool of this session (proto/mbuf_shm.h), and what each thread keeps of it.
 *
 * Buffers come in classes of size. A class has segments, each twice as large as the one before, up to a limit. Free slots of the first
 * few, the small ones, go into the cache of the thread that freed them: taking them again costs no locked instruction. Slots of larger
 * segments always go back where every thread finds them, so that a segment that is not used is seen to be, and given back.
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/segment.h"

struct session;

#define MBUF_CLASSES     144
#define MBUF_CACHED      32 /* classes that are kept in caches: up to 64 KiB */
#define MBUF_CACHE_SLOTS 32

/** Part of the session. All zero but the lock: nothing. */
struct pool {
    pthread_mutex_t lock;                /* of class; before segments.lock */
    struct segment *class[MBUF_CLASSES]; /* oldest, so smallest, first */
    _Atomic uint64_t size;               /* of its segments, as far as their end was noticed */
};

void pool_init(struct pool *pool);

/** Of one thread. All zero: empty, of no session. */
struct mbuf_cache {
    uint64_t session; /* serial; slots of another are not ours */
    int64_t held;     /* buffers that this thread has allocated and not freed, more or less */
    struct mbuf_stack {
        uint16_t n, max;
        uint16_t fetch; /* slots to bring when there are none: more each time */
        uint32_t ref[MBUF_CACHE_SLOTS];
    } stack[MBUF_CACHED];
};

/** The class whose buffers have room for size bytes (1 to MBUF_SIZE_MAX), and how much they have. */
static inline uint32_t mbuf_class(uint64_t size)
{
    uint64_t last = size - 1;
    unsigned k;

    if (last < 512)
        return (uint32_t)(last >> 7);
    k = 63 - (unsigned)__builtin_clzll(last);
    if (k < 20)
        return 4 + (k - 9) * 4 + (uint32_t)(last >> (k - 2) & 3);
    return 48 + (k - 20) * 8 + (uint32_t)(last >> (k - 3) & 7);
}
uint64_t mbuf_class_size(uint32_t class);

/** A slot of the class, set aside for this session; the calling thread keeps some more. 0; 207001, 207005, 507010. */
int pool_take(const char *function, struct session *s, uint32_t class, struct segment_view **view,
              uint32_t *slot);

/** A slot without data in the segment, for a reference: false when all are in use. */
bool pool_take_ref(struct session *s, struct segment_view *view, uint32_t *slot);

/** The calling thread's, emptied if it is of another session. NULL: no memory for one. */
struct mbuf_cache *mbuf_cache_get(struct session *s);

/** The calling thread has got a slot of this segment without mbuf_alloc(). */
static inline void mbuf_cache_took(struct session *s, struct segment_view *view)
{
    struct mbuf_cache *cache = segment_of(view)->own ? mbuf_cache_get(s) : NULL;

    if (cache)
        cache->held++;
}

/** A free slot that the thread has kept, or 0. class < MBUF_CACHED. */
uint32_t mbuf_cache_pop(struct session *s, struct mbuf_cache *cache, uint32_t class);

/** The slot, which nobody else has a reference to and whose segment has `cached`, is kept. */
void mbuf_cache_push(struct session *s, struct mbuf_cache *cache, struct segment *segment,
                     struct mbuf *m);

/**
 * The thread frees a buffer of the pool, in this segment: true when it was its last, and what the thread keeps should rather go back to a pool which
 * is large. That has been done; the buffer is to go the same way, and then segment_trim().
 */
bool mbuf_cache_leave(struct session *s, struct mbuf_cache *cache, struct segment *segment);

/** What a thread kept goes back to the pool, at its end. NULL: nothing. */
void mbuf_cache_free(struct mbuf_cache *cache);
