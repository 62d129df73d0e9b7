/*
 * Flags of arithmetic overflow. Nothing on a simulated device saturates: reductions of
 * floating-point numbers give infinities, and there are no kernels. So no flag is ever set, and
 * what a program reads is zeros, written in the order of its stream.
 */
#include "acl/acl.h"
#include "client/capture/capture.h"
#include "client/core/error.h"
#include "client/memory/device_area.h"
#include "client/memory/host_task.h"
#include "client/memory/place.h"
#include "client/memory/submit.h"
#include "client/runtime/stream.h"

#define STATUS_SIZE 64u /* bytes of a status, which the API has for all chips */

static int write_status(const char *function, void *output, uint64_t size, aclrtStream stream)
{
    struct stream *s;
    struct place at;
    int error;

    if (!output)
        return error_null(function, "outputAddr");
    if (size != STATUS_SIZE)
        return error_set(ACL_ERROR_RT_PARAM_INVALID, "%s: outputSize is %llu, must be %u", function,
                         (unsigned long long)size, STATUS_SIZE);
    s = FIND_OR_RETURN(stream_lock, function, stream);
    error = stream_captures(s) ? capture_refuse_stream(s, function) : 0;
    if (error == 0)
        error = place_find_device(s->session, function, s->device, "outputAddr", output, size, &at);
    if (error == 0)
        error = at.kind == PLACE_REGISTERED ? host_task_set(s, function, &at, 0, size)
                                            : submit_set(s, function, &at, 0, size);
    stream_unlock(s);
    return error;
}

/* All flags are clear already. */
static int clear_status(const char *function, aclrtStream stream)
{
    struct stream *s = FIND_OR_RETURN(stream_lock, function, stream);
    int error = stream_check(s, function);

    if (error == 0 && stream_captures(s))
        error = capture_refuse_stream(s, function);
    if (error == 0)
        stream_count_implicit(s);
    stream_unlock(s);
    return error;
}

aclError aclrtGetOverflowStatus(void *outputAddr, size_t outputSize, aclrtStream stream)
{
    CALL_SCOPE;

    return write_status(__func__, outputAddr, outputSize, stream);
}

aclError aclrtResetOverflowStatus(aclrtStream stream)
{
    CALL_SCOPE;

    return clear_status(__func__, stream);
}

aclError aclrtGetFloatOverflowStatus(void *outputAddr, uint64_t outputSize, aclrtStream stream)
{
    CALL_SCOPE;

    return write_status(__func__, outputAddr, outputSize, stream);
}

aclError aclrtResetFloatOverflowStatus(aclrtStream stream)
{
    CALL_SCOPE;

    return clear_status(__func__, stream);
}

aclError aclrtNpuGetFloatOverFlowStatus(void *outputAddr, uint64_t outputSize, uint32_t checkMode,
                                        aclrtStream stream)
{
    CALL_SCOPE;

    (void)checkMode; /* no flag is set in any mode */
    return write_status(__func__, outputAddr, outputSize, stream);
}

aclError aclrtNpuClearFloatOverFlowStatus(uint32_t checkMode, aclrtStream stream)
{
    CALL_SCOPE;

    (void)checkMode;
    return clear_status(__func__, stream);
}

aclError aclrtCtxGetFloatOverflowAddr(void **overflowAddr)
{
    CALL_SCOPE;

    REQUIRE_OR(ACL_ERROR_RT_PARAM_INVALID, overflowAddr);
    return device_area_get(__func__, DEVICE_AREA_OVERFLOW, STATUS_SIZE, overflowAddr);
}
