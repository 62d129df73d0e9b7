/* client/core/biased_lock.c with the atomics, the futexes and the membarrier of the explorer. */
#pragma once

#include "tests/order/atomics.h"

#include "proto/util/futex.h"

#define futex_wait_until(word, seen, deadline)                                                     \
    ((void)(deadline), order_futex_wait(word, seen, ORDER_AT), 0)
#define futex_wake_all(word) order_futex_wake(word, UINT32_MAX, ORDER_AT)
#define futex_wake_one(word) order_futex_wake(word, 1, ORDER_AT)
