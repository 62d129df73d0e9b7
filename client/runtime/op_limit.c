#include "client/runtime/op_limit.h"

#include <stdatomic.h>

#include "client/core/lifecycle.h"
#include "proto/util/clock.h"

#define STEPS 254
#define NEVER UINT64_MAX

static _Atomic uint64_t limit_us = NEVER; /* until a program sets one */

static uint64_t round_up(uint64_t us)
{
    if (us == 0 || us > STEPS * OP_LIMIT_STEP_US)
        return STEPS * OP_LIMIT_STEP_US;
    return (us + OP_LIMIT_STEP_US - 1) / OP_LIMIT_STEP_US * OP_LIMIT_STEP_US;
}

uint64_t op_limit_set(uint64_t us)
{
    uint64_t limit = round_up(us);

    atomic_store_explicit(&limit_us, limit, memory_order_relaxed);
    return limit;
}

uint64_t op_limit_ns(void)
{
    uint64_t limit = atomic_load_explicit(&limit_us, memory_order_relaxed);

    return limit == NEVER ? 0 : limit * NSEC_PER_USEC;
}

uint64_t op_limit_or_longest_ns(void)
{
    uint64_t limit = op_limit_ns();

    return limit != 0 ? limit : STEPS * OP_LIMIT_STEP_US * NSEC_PER_USEC;
}

static void forget_limit(void)
{
    atomic_store_explicit(&limit_us, NEVER, memory_order_relaxed);
}

const struct part op_limit_part = {.fork_child = forget_limit};
