/*
 * Finding buffers (mbuf_shm.h) by their refs, and walking along a chain: for clients and npud, each
 * with its own table of segments.
 */
#pragma once

#include "proto/shm/mbuf_shm.h"

/** A buffer as it was at some moment. */
struct mbuf_ref {
    struct segment_view *view;
    struct mbuf *mbuf;
    uint32_t ref;
    uint64_t word; /* as it was found, or made */
};

/**
 * The slot that ref names. False: its segment is not in the table, or has no such slot. A segment
 * that was given back is found as long as it is in the table: everything in it is FREE. The word is
 * read with acquire.
 */
static inline __attribute__((always_inline)) bool mbuf_chain_find(struct segment_table *t,
                                                                  uint32_t ref,
                                                                  struct mbuf_ref *out)
{
    struct segment_view *view = atomic_load_explicit(&t->view[ref >> 16], memory_order_acquire);

    if (!view || (ref & 0xffff) >= segment_slots(view))
        return false;
    *out = (struct mbuf_ref){.view = view, .mbuf = &view->mbufs[ref & 0xffff], .ref = ref};
    out->word = atomic_load_explicit(&out->mbuf->word, memory_order_acquire);
    return true;
}

/** Is m, as it was found, a member of the chain of head (its ref)? Links only tell the order. */
static inline bool mbuf_chain_has(const struct mbuf_ref *m, uint32_t head)
{
    return mbuf_state(m->word) == MBUF_MEMBER && mbuf_head(m->word) == head;
}

/**
 * From a buffer of the chain of head to the next: false at its end, after MBUF_CHAIN_MAX, where the
 * next is no member of this chain, or is not in the table. *n, which the caller sets to 0 first,
 * counts the steps, so a circle ends, too. A chain that is changed on the way must be stepped ahead
 * of.
 */
static inline bool mbuf_chain_next(struct segment_table *t, uint32_t head, struct mbuf_ref *at,
                                   uint32_t *n)
{
    uint32_t next = atomic_load_explicit(&at->mbuf->next, memory_order_relaxed);

    return next != 0 && ++*n < MBUF_CHAIN_MAX && mbuf_chain_find(t, next, at) &&
           mbuf_chain_has(at, head);
}
