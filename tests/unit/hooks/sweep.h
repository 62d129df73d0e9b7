/*
 * daemon/buffers/sweep.c for test_mbuf_steps: each atomic access calls mbuf_step() before, and its
 * functions have names of their own, beside npud's.
 */
#pragma once

#include <stdatomic.h>

/*
 * Who reads or writes one of these words gives the others their chance first: every access names an
 * order, or is made to.
 */
void mbuf_step(void);
#define ORDERED(order)       (mbuf_step(), (memory_order)(order))
#define memory_order_relaxed ORDERED(__ATOMIC_RELAXED)
#define memory_order_acquire ORDERED(__ATOMIC_ACQUIRE)
#define memory_order_release ORDERED(__ATOMIC_RELEASE)
#define memory_order_acq_rel ORDERED(__ATOMIC_ACQ_REL)
#define memory_order_seq_cst ORDERED(__ATOMIC_SEQ_CST)
#undef atomic_load
#define atomic_load(p) atomic_load_explicit(p, memory_order_seq_cst)
#undef atomic_store
#define atomic_store(p, v) atomic_store_explicit(p, v, memory_order_seq_cst)
#undef atomic_compare_exchange_strong
#define atomic_compare_exchange_strong(p, old, v)                                                  \
    atomic_compare_exchange_strong_explicit(p, old, v, memory_order_seq_cst, __ATOMIC_SEQ_CST)
#undef atomic_exchange
#define atomic_exchange(p, v) atomic_exchange_explicit(p, v, memory_order_seq_cst)

/* npud's, once more, in steps. */
#define peer_sweep      stepped_share_sweep
#define mbuf_free_chain stepped_mbuf_free_chain
#define segment_touched stepped_segment_touched
#define segment_unused  stepped_segment_unused
