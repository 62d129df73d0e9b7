/*
 * The pool of this session (proto/shm/mbuf_shm.h): where its new buffers come from.
 *
 * Buffers come in classes of size. A class has segments, each twice as large as the one before, up
 * to a limit. Free slots of the first few, the small ones, may stay with a thread (mbuf_cache.h).
 * Slots of larger segments always go back where every thread finds them, so that a segment that is
 * not used is seen to be, and given back.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "client/buffers/segment.h"
#include "client/runtime/session_parts.h"

struct session;

/**
 * The class whose buffers have room for size bytes, 1 to MBUF_SIZE_MAX: powers of two in 4 steps of
 * at least 128, above 1 MiB in 8.
 */
uint32_t pool_class(uint64_t size);

#define POOL_STEP 128u /* bytes by which the smallest classes differ */
/* bytes of the largest class that threads keep buffers of */
#define POOL_SMALL (UINT64_C(64) << 10)

/*
 * The class of a size, by steps: counting bits takes longer than all the rest of an allocation.
 * Written when the library is loaded.
 */
extern uint8_t pool_small[POOL_SMALL / POOL_STEP];
/*
 * Bytes of the segments of the session at hand, as far as their end was noticed. Of the process: it
 * is read by what looks for no session.
 */
extern _Atomic uint64_t pool_size;

/** The same for 1 to POOL_SMALL. */
static inline uint32_t pool_small_class(uint64_t size)
{
    return pool_small[(size - 1) / POOL_STEP];
}

static inline bool pool_is_large(void)
{
    return __builtin_expect(atomic_load_explicit(&pool_size, memory_order_relaxed) > POOL_KEPT, 0);
}

uint64_t pool_class_size(uint32_t class);

/**
 * Slots with data, set aside for this session: at least one, and at most n as long as that costs no
 * new segment. refs tell them, *taken how many. 0; 207001, 207005, 507010.
 */
int pool_take(const char *function, struct session *s, uint32_t class, uint32_t n, uint32_t *refs,
              uint32_t *taken);

/** Segments of the pool that npud has taken back are no more in it. */
void pool_let_go(struct session *s);

/** A slot without data in the segment, for a reference: false when all are in use. */
bool pool_take_ref(struct session *s, struct segment_view *view, uint32_t *slot);
