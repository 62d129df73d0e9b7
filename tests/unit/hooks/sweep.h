/*
 * The files sweep, chain and segment_use of daemon/buffers for test_mbuf_steps: each atomic access
 * calls mbuf_step() before, and their functions have names of their own, beside npud's.
 */
#pragma once

#include <stdatomic.h>

/*
 * An actor that reads or writes one of these words lets the other actors run first: every access
 * names an order, or is made to.
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
#define sweep_peer        stepped_sweep_peer
#define sweep_peer_piece  stepped_sweep_peer_piece
#define sweep_npud        stepped_sweep_npud
#define chain_find_held   stepped_chain_find_held
#define chain_read        stepped_chain_read
#define chain_drop_slot   stepped_chain_drop_slot
#define chain_drop        stepped_chain_drop
#define chain_free        stepped_chain_free
#define chain_copy        stepped_chain_copy
#define chain_has_room    stepped_chain_has_room
#define segment_give_back stepped_segment_give_back
#define segment_look      stepped_segment_look

#define segment_look_at_slots stepped_segment_look_at_slots
