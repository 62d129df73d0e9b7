/*
 * Allocations that the calling thread has looked up last. Most threads copy and fill the same few
 * again and again, and to look one up takes two locked instructions and a walk of a tree.
 *
 * What is kept are copies. They hold as long as nothing was changed under memory_lock since: the
 * thread compares session->memory_changes. A change that the thread has learnt of was counted
 * before, so it reads the new number; this is one word, and so needs no order. A change at the same
 * time could as well have come after the look-up, as with the lock.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "client/core/thread.h"
#include "client/memory/alloc.h"
#include "client/runtime/session.h"

#define RECENT_MAX 4u
/* If there are as many, one in so many that are looked up takes the place of another. */
#define RECENT_TURN 8u
/*
 * A thread that uses many allocations in turn finds few of them here, and must not pay for looking.
 * After RECENT_IN_VAIN misses in a row it does not look here for as many look-ups.
 */
#define RECENT_IN_VAIN 16u
#define RECENT_REST    256u

struct recent {
    uint64_t session; /* its serial */
    uint64_t changes;
    unsigned n;         /* entries that hold */
    unsigned looked_up; /* allocations that were not found here */
    unsigned found_at;  /* what that was when one was found */
    unsigned rest;      /* how many it leaves out; then n is 0 */
    struct memory memory[RECENT_MAX];
};

static inline bool recent_holds(const struct recent *r, const struct session *s)
{
    return r->session == s->serial &&
           r->changes == atomic_load_explicit(&s->memory_changes, memory_order_relaxed);
}

/** memory_search() if the thread has the answer; false: it has not. */
static inline bool recent_find(const struct session *s, const void *address, struct memory *copy,
                               uint64_t *changes)
{
    struct recent *r = thread_self()->recent;

    if (__builtin_expect(!r || !recent_holds(r, s), 0))
        return false;
    for (unsigned i = 0; i < r->n; i++) {
        const struct memory *m = &r->memory[i];

        if ((uintptr_t)address - m->mapped.start < m->mapped.size) {
            r->found_at = r->looked_up;
            memory_copy(copy, m);
            *changes = r->changes;
            return true;
        }
    }
    return false;
}

void recent_keep(const struct session *s, const struct memory *m, uint64_t changes);

/** The thread has searched for m, which recent_find() did not find: memory_search(). */
static inline void recent_note(const struct session *s, const struct memory *m, uint64_t changes)
{
    struct recent *r = thread_self()->recent;

    if (r && r->rest > 0)
        r->rest--;
    else
        recent_keep(s, m, changes);
}
