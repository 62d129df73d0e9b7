/* Failures of tasks, seen from the host: abort, and the ids of tasks. */
#include "client/event/failure.h"

#include <stdlib.h>

#include "acl/acl.h"
#include "client/callback/callback_table.h"
#include "client/callback/stream_work.h"
#include "client/runtime/abort.h"
#include "client/runtime/context.h"
#include "client/runtime/device.h"
#include "client/core/error.h"
#include "client/event/event.h"
#include "client/runtime/stream.h"
#include "client/core/wait.h"
#include "proto/util/clock.h"

/* --- ids --- */

aclError aclrtGetThreadLastTaskId(uint32_t *taskId)
{
    CALL_SCOPE;

    REQUIRE(taskId);
    RETURN_IF_ERROR(process_enter());
    *taskId = (uint32_t)thread_self()->last_task;
    return 0;
}

/* --- one stream --- */

/*
 * The stream that handle names in the current context, not locked, and its tag; NULL handle: its
 * default stream.
 */
static struct stream *own_stream(const char *function, void *handle, uint32_t *tag, int *error)
{
    struct context *c = context_get(function, error);
    struct stream *s = c ? stream_find_tag(function, handle, tag, error) : NULL;

    if (!s || s->context == c)
        return s;
    *error = stream_error_foreign(s, c, function);
    return NULL;
}

aclError aclrtStreamAbort(aclrtStream stream)
{
    CALL_SCOPE;
    uint32_t tag;
    int error;
    struct stream *s = own_stream(__func__, stream, &tag, &error);

    return s ? abort_stream(s, tag, __func__, ACL_ERROR_RT_STREAM_ABORT) : error;
}

static int request_stop(struct stream *s, const char *function, uint64_t position, uint64_t *work)
{
    REQUEST(stop_task, STOP_TASK, .slot = s->remote, .tell_work = true, .position = position);
    Npud__Reply *reply = NULL;

    if (stream_stopped(s))
        return 0;
    RETURN_IF_ERROR(session_request(s->session, function, &request, &reply, NULL));
    *work = reply->stop_task->work;
    session_reply_free(reply);
    return 0;
}

int failure_stop_stream(const char *function, aclrtStream stream, uint64_t position)
{
    struct session *session = FIND_OR_RETURN(context_get, function)->session;
    uint64_t work = 0;
    uint32_t tag = 0;
    struct stream *s;
    int error;

    /* Meanwhile no other stream gets its slot at npud, which would be stopped in its place. */
    pthread_mutex_lock(&session->abort_lock);
    s = own_stream(function, stream, &tag, &error);
    if (s)
        error = request_stop(s, function, position, &work);
    pthread_mutex_unlock(&session->abort_lock);
    if (work != 0)
        stream_work_stop(s, tag, work);
    return error;
}

aclError aclrtStreamStop(aclrtStream stream)
{
    CALL_SCOPE;

    REQUIRE_OR(ACL_ERROR_RT_PARAM_INVALID, stream);
    return failure_stop_stream(__func__, stream, 0);
}

/* --- a device --- */

#define ABORT_TIMEOUT_MAX 2160000u /* ms */

static struct callback_table callbacks = CALLBACK_TABLE(CALLBACK_SORTED);

static void forget_inherited(void)
{
    callback_table_forget(&callbacks);
}

const struct part failure_part = {.fork_child = forget_inherited};

aclError aclrtSetDeviceTaskAbortCallback(const char *regName, aclrtDeviceTaskAbortCallback callback,
                                         void *args)
{
    CALL_SCOPE;

    RETURN_IF_ERROR(process_enter());
    REQUIRE(regName);
    return callback_table_set(&callbacks, __func__, regName, (callback_table_fn *)callback, args);
}

/* What is left of the caller's time, for callbacks: 0 is "no limit". */
static uint32_t left_ms(uint64_t deadline)
{
    uint64_t now = clock_ns();

    if (deadline == WAIT_FOREVER)
        return 0;
    return now >= deadline ? 1 : (uint32_t)((deadline - now) / NSEC_PER_MSEC) + 1;
}

/*
 * On a copy of the table: callbacks may change it. 0, the code of one that refuses, or no memory.
 */
static int call_all(int32_t device, aclrtDeviceTaskAbortStage stage, uint64_t deadline)
{
    struct callback_entry *copy;
    size_t n;
    int error = 0;

    pthread_mutex_lock(&callbacks.lock);
    copy = callback_table_copy(&callbacks, &n);
    pthread_mutex_unlock(&callbacks.lock);
    if (!copy)
        return error_no_memory("aclrtDeviceTaskAbort");
    for (size_t i = 0; i < n && error == 0; i++) {
        aclrtDeviceTaskAbortCallback callback = (aclrtDeviceTaskAbortCallback)copy[i].fn;

        error = callback(device, stage, left_ms(deadline), copy[i].args);
    }
    free(copy);
    return error;
}

aclError aclrtDeviceTaskAbort(int32_t deviceId, uint32_t timeout)
{
    CALL_SCOPE;
    uint64_t deadline = wait_deadline(timeout == 0 ? -1 : (int64_t)timeout);
    struct session *session;
    struct device_abort *abort;
    int error, after;
    uint32_t device;

    if (timeout > ABORT_TIMEOUT_MAX)
        return error_set(ACL_ERROR_RT_PARAM_INVALID,
                         "aclrtDeviceTaskAbort: timeout is %u ms, more than 36 minutes", timeout);
    RETURN_IF_ERROR(context_refuse_kernel(__func__));
    RETURN_IF_ERROR(device_get(__func__, deviceId, &session, &device));
    abort = abort_device_begin(session, device);
    if (!abort)
        return error_no_memory(__func__);
    error = call_all(deviceId, ACL_RT_DEVICE_TASK_ABORT_PRE, deadline);
    if (error == 0)
        error = abort_device_run(abort, __func__, deadline);
    after = error == 0 ? call_all(deviceId, ACL_RT_DEVICE_TASK_ABORT_POST, deadline) : 0;
    abort_device_end(abort);
    return error != 0 ? error : after;
}
