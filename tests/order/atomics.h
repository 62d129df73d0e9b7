/*
 * The operations of <stdatomic.h>, as calls of the explorer. Included before the headers of proto/,
 * which include <stdatomic.h> again to no effect.
 */
#pragma once

#include <stdatomic.h>

#include "tests/order/explore.h"

#undef atomic_load
#undef atomic_load_explicit
#undef atomic_store
#undef atomic_store_explicit
#undef atomic_exchange
#undef atomic_exchange_explicit
#undef atomic_fetch_add
#undef atomic_fetch_add_explicit
#undef atomic_fetch_sub
#undef atomic_fetch_sub_explicit
#undef atomic_fetch_or
#undef atomic_fetch_or_explicit
#undef atomic_fetch_and
#undef atomic_fetch_and_explicit
#undef atomic_compare_exchange_strong
#undef atomic_compare_exchange_strong_explicit
#undef atomic_compare_exchange_weak
#undef atomic_compare_exchange_weak_explicit
#undef atomic_thread_fence

/* The type of *p without its qualifiers. */
#define ORDER_TYPE(p)  __typeof__((void)0, *(p))
#define ORDER_VALUE(v) ((uint64_t)(uintptr_t)(v))
#define ORDER_RMW(p, what, v, order)                                                               \
    __extension__({                                                                                \
        ORDER_TYPE(p)                                                                              \
        order_old_ =                                                                               \
            (ORDER_TYPE(p))order_rmw(p, sizeof(*(p)), what, ORDER_VALUE(v), order, ORDER_AT);      \
        order_old_;                                                                                \
    })
#define ORDER_CAS(p, e, v, yes, no)                                                                \
    __extension__({                                                                                \
        __typeof__(e) order_e_ = (e);                                                              \
        uint64_t order_old_ = ORDER_VALUE(*order_e_);                                              \
        bool order_ok_ =                                                                           \
            order_exchange(p, sizeof(*(p)), &order_old_, ORDER_VALUE(v), yes, no, ORDER_AT);       \
        if (!order_ok_)                                                                            \
            *order_e_ = (__typeof__(*order_e_))order_old_;                                         \
        order_ok_;                                                                                 \
    })

#define atomic_load_explicit(p, order) ((ORDER_TYPE(p))order_load(p, sizeof(*(p)), order, ORDER_AT))
#define atomic_load(p)                 atomic_load_explicit(p, memory_order_seq_cst)
#define atomic_store_explicit(p, v, order)                                                         \
    order_store(p, sizeof(*(p)), ORDER_VALUE(v), order, ORDER_AT)
#define atomic_exchange_explicit(p, v, order)                     ORDER_RMW(p, ORDER_SWAP, v, order)
#define atomic_fetch_add_explicit(p, v, order)                    ORDER_RMW(p, ORDER_ADD, v, order)
#define atomic_fetch_sub_explicit(p, v, order)                    ORDER_RMW(p, ORDER_SUB, v, order)
#define atomic_fetch_or_explicit(p, v, order)                     ORDER_RMW(p, ORDER_OR, v, order)
#define atomic_fetch_and_explicit(p, v, order)                    ORDER_RMW(p, ORDER_AND, v, order)
#define atomic_compare_exchange_strong_explicit(p, e, v, yes, no) ORDER_CAS(p, e, v, yes, no)
#define atomic_compare_exchange_weak_explicit(p, e, v, yes, no)   ORDER_CAS(p, e, v, yes, no)
#define atomic_compare_exchange_strong(p, e, v)                                                    \
    ORDER_CAS(p, e, v, memory_order_seq_cst, memory_order_seq_cst)
#define atomic_compare_exchange_weak(p, e, v)                                                      \
    ORDER_CAS(p, e, v, memory_order_seq_cst, memory_order_seq_cst)
#define atomic_thread_fence(order) order_fence(order, ORDER_AT)

/* Without a named order. */
#define atomic_store(p, v)     atomic_store_explicit(p, v, memory_order_seq_cst)
#define atomic_exchange(p, v)  atomic_exchange_explicit(p, v, memory_order_seq_cst)
#define atomic_fetch_add(p, v) atomic_fetch_add_explicit(p, v, memory_order_seq_cst)
#define atomic_fetch_sub(p, v) atomic_fetch_sub_explicit(p, v, memory_order_seq_cst)
#define atomic_fetch_or(p, v)  atomic_fetch_or_explicit(p, v, memory_order_seq_cst)
#define atomic_fetch_and(p, v) atomic_fetch_and_explicit(p, v, memory_order_seq_cst)
