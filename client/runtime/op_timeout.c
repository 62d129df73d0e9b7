/* How long a kernel may run; and aclnpudLaunchDelay(), the stand-in for a kernel. */
#include "acl/acl.h"
#include "acl/acl_npud.h"
#include "client/runtime/context.h"
#include "client/runtime/op_limit.h"
#include "client/core/error.h"
#include "client/runtime/stream.h"
#include "proto/util/clock.h"

/* A TASK_DELAY, the stand-in for a kernel: cut off at the limit in force, and then it fails. */
static void apply_limit(struct task *delay)
{
    uint64_t limit = op_limit_ns();

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
        op_limit_set((uint64_t)timeout * 1000000);
    return error;
}

aclError aclrtSetOpExecuteTimeOutWithMs(uint32_t timeout)
{
    CALL_SCOPE;
    int error = process_enter();

    if (error == 0)
        op_limit_set((uint64_t)timeout * 1000);
    return error;
}

aclError aclrtSetOpExecuteTimeOutV2(uint64_t timeout, uint64_t *actualTimeout)
{
    CALL_SCOPE;
    int error;

    REQUIRE(actualTimeout);
    if (!context_get(__func__, &error))
        return error;
    *actualTimeout = op_limit_set(timeout);
    return 0;
}

aclError aclrtGetOpTimeOutInterval(uint64_t *interval)
{
    CALL_SCOPE;
    int error;

    REQUIRE(interval);
    if (!context_get(__func__, &error))
        return error;
    *interval = OP_LIMIT_STEP_US;
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
    limit = op_limit_ns();
    *timeoutMs = limit == 0 ? UINT32_MAX : (uint32_t)(limit / NSEC_PER_MSEC);
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
