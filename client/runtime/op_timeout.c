/*
 * How long a kernel may run: process-wide, for what is launched afterwards. And
 * aclnpudLaunchDelay(), the stand-in for a kernel.
 */
#include <stdatomic.h>

#include "acl/acl.h"
#include "acl/acl_npud.h"
#include "client/runtime/context.h"
#include "client/runtime/op_timeout.h"
#include "client/core/error.h"
#include "client/runtime/stream.h"
#include "proto/util/clock.h"

/* Of the simulated NPU: limits are whole steps, and not more than so many. */
#define STEP_US UINT64_C(100000)
#define STEPS   254

#define NEVER UINT64_MAX

static _Atomic uint64_t limit_us = NEVER; /* until a program sets one */

static uint64_t round_up(uint64_t us)
{
    if (us == 0 || us > STEPS * STEP_US)
        return STEPS * STEP_US;
    return (us + STEP_US - 1) / STEP_US * STEP_US;
}

static uint64_t set_limit(uint64_t us)
{
    uint64_t limit = round_up(us);

    atomic_store_explicit(&limit_us, limit, memory_order_relaxed);
    return limit;
}

static void forget_limit(void)
{
    atomic_store_explicit(&limit_us, NEVER, memory_order_relaxed);
}

uint64_t op_timeout_ns(void)
{
    uint64_t limit = atomic_load_explicit(&limit_us, memory_order_relaxed);

    return limit == NEVER ? 0 : limit * NSEC_PER_USEC;
}

uint64_t op_timeout_or_longest_ns(void)
{
    uint64_t limit = op_timeout_ns();

    return limit != 0 ? limit : STEPS * STEP_US * NSEC_PER_USEC;
}

/* A TASK_DELAY, the stand-in for a kernel: cut off at the limit in force, and then it fails. */
static void apply_limit(struct task *delay)
{
    uint64_t limit = op_timeout_ns();

    if (limit == 0 || delay->delay.ns <= limit)
        return;
    delay->delay.ns = limit;
    delay->delay.result = ACL_ERROR_RT_AICORE_TIMEOUT;
}

aclError aclrtSetOpExecuteTimeOut(uint32_t timeout)
{
    CALL_SCOPE;
    int error = process_enter();

    if (error == 0)
        set_limit((uint64_t)timeout * 1000000);
    return error;
}

aclError aclrtSetOpExecuteTimeOutWithMs(uint32_t timeout)
{
    CALL_SCOPE;
    int error = process_enter();

    if (error == 0)
        set_limit((uint64_t)timeout * 1000);
    return error;
}

aclError aclrtSetOpExecuteTimeOutV2(uint64_t timeout, uint64_t *actualTimeout)
{
    CALL_SCOPE;
    int error;

    REQUIRE(actualTimeout);
    if (!context_get(__func__, &error))
        return error;
    *actualTimeout = set_limit(timeout);
    return 0;
}

aclError aclrtGetOpTimeOutInterval(uint64_t *interval)
{
    CALL_SCOPE;
    int error;

    REQUIRE(interval);
    if (!context_get(__func__, &error))
        return error;
    *interval = STEP_US;
    return 0;
}

aclError aclrtGetOpExecuteTimeout(uint32_t *const timeoutMs)
{
    CALL_SCOPE;
    uint64_t limit;
    int error = process_enter();

    REQUIRE(timeoutMs);
    if (error != 0)
        return error;
    limit = atomic_load_explicit(&limit_us, memory_order_relaxed);
    *timeoutMs = limit == NEVER ? UINT32_MAX : (uint32_t)(limit / 1000);
    return 0;
}

#define DELAY_MAX_US UINT64_C(3600000000)

aclError aclnpudLaunchDelay(uint64_t microseconds, aclError result, aclrtStream stream)
{
    CALL_SCOPE;
    struct task task = {.op = TASK_DELAY};
    int error;
    struct stream *s;

    if (microseconds > DELAY_MAX_US)
        return error_set(ACL_ERROR_RT_PARAM_INVALID,
                         "aclnpudLaunchDelay: microseconds is %llu, must be at most %llu, an hour",
                         (unsigned long long)microseconds, (unsigned long long)DELAY_MAX_US);
    if (result != 0 && (result < 100000 || result > 599999))
        return error_set(ACL_ERROR_RT_PARAM_INVALID,
                         "aclnpudLaunchDelay: result is %d, must be 0 or from 100000 to 599999",
                         result);
    s = FIND_OR_RETURN(stream_lock, __func__, stream);
    task.delay.ns = microseconds * 1000;
    task.delay.result = result;
    apply_limit(&task);
    error = stream_submit(s, __func__, &task);
    stream_unlock(s);
    return error;
}

const struct part op_timeout_part = {.fork_child = forget_limit};
