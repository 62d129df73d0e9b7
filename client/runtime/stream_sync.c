/* Waiting for streams and devices, and what of their tasks failed. */
#include <errno.h>
#include <stdlib.h>

#include "acl/acl.h"
#include "acl/acl_npud.h"
#include "client/core/error.h"
#include "client/core/handle.h"
#include "client/runtime/context.h"
#include "client/runtime/device.h"
#include "client/runtime/stream.h"
#include "client/core/upcall.h"

/* Streams that hosts neither submit to nor wait for. */
#define FLAGS_NO_WAIT (ACL_STREAM_PERSISTENT | ACL_STREAM_CPU_SCHEDULE | ACL_STREAM_DEVICE_USE_ONLY)

/*
 * A stream and what it had been given when the synchronise call began. The control block is
 * remembered beside the object, which may stand for another stream of npud's by the time it is
 * waited for; positions of a control block never go back.
 */
struct target {
    struct stream *stream;
    struct stream_ctrl *ctrl;
    uint32_t tag;
    uint32_t device;
    int32_t id;
    uint64_t position;
    uint64_t since; /* checked_since() */
};

static struct target target_of(struct stream *s)
{
    /* The tag first: what is read behind it may be of a later stream, and the caller looks. */
    uint32_t tag = atomic_load_explicit(&s->slot.tag, memory_order_acquire);

    return (struct target){
        .stream = s,
        .ctrl = s->ctrl,
        .tag = tag,
        .device = s->device,
        .id = s->id,
        .position = atomic_load_explicit(&s->ctrl->tail, memory_order_acquire),
        .since = checked_since(),
    };
}

static int wait_until(struct session *session, const struct target *t, const char *function,
                      uint64_t deadline)
{
    struct stream_ctrl *ctrl = t->ctrl;
    int32_t discarded;
    int r = wait_position(&session->waits, function, ctrl, t->position, deadline, &discarded);
    uint64_t stopped = atomic_load_explicit(&ctrl->stopped, memory_order_acquire);

    if (r == -ETIMEDOUT)
        return error_set(ACL_ERROR_RT_STREAM_SYNC_TIMEOUT,
                         "%s: the tasks were not finished within the time limit; they go on",
                         function);
    if (r == -EPIPE)
        return session_error_lost(function);
    if (r == -EINTR)
        return ACLNPUD_ERROR_INTERRUPTED;
    if (checked_runs() && stream_is(t->stream, t->tag))
        checked_sync(stream_checked_name(t->stream), t->since);
    if (stopped != 0 && stream_is(t->stream, t->tag))
        return stream_error_stopped_by(ctrl, stopped, function);
    return discarded == 0 ? 0 : stream_error_aborted(function, discarded);
}

/*
 * The failure that no synchronising call has reported yet, or 0. Reports it: the next call gets 0
 * unless another task fails. Continue-on-failure mode.
 *
 * Under session->lock no stream ends: what is taken is a failure of the stream that was meant, and
 * not of the next one with its control block.
 */
static int take_error(struct session *session, const struct target *t, const char *function)
{
    uint64_t error = atomic_load_explicit(&t->ctrl->error, memory_order_relaxed);

    if (stream_error_code(error) != 0) {
        pthread_mutex_lock(&session->lock);
        /* Of two threads that synchronise, one reports. */
        error = stream_is(t->stream, t->tag) ? stream_take_error(t->ctrl) : 0;
        if (checked_runs() && stream_error_code(error) != 0)
            checked_failure(CHECK_FAILED, stream_checked_name(t->stream), stream_error_code(error));
        pthread_mutex_unlock(&session->lock);
    }
    /* Until it is back, whatever its streams had to report. */
    RETURN_IF_ERROR(device_check_lost(session, function, t->device));
    return stream_error_code(error) == 0 ? 0 : stream_error_failed(t->ctrl, t->id, function, error);
}

static int check_timeout(const char *function, int32_t timeout)
{
    if (timeout > 0 || timeout == -1)
        return 0;
    return error_set(ACL_ERROR_RT_PARAM_INVALID, "%s: timeout is %d ms, must be positive or -1",
                     function, timeout);
}

/* Is t the stream that handle names in the calling thread, still? */
static bool is_target(const struct target *t, struct session *session, void *handle)
{
    struct context *c;

    if (handle)
        return handle_get(&session->streams, HANDLE_STREAM, handle) == t->stream;
    c = context_peek(thread_self());
    return c && c->default_stream == t->stream;
}

int stream_synchronize(const char *function, aclrtStream handle, int32_t timeout)
{
    uint64_t deadline = wait_deadline(timeout);
    int error;
    struct stream *s = FIND_OR_RETURN(stream_find, function, handle);
    struct session *session;
    struct target t;
    uint32_t flags;

    session = s->session;
    if (capture_runs(session))
        RETURN_IF_ERROR(upcalls->capture_refuse_stream(s, function));
    error = atomic_load_explicit(&s->aborting, memory_order_acquire);
    flags = s->flags;
    t = target_of(s);
    /* A slot changes its generation before its next stream: this one is what the handle named. */
    if (!is_target(&t, session, handle))
        return stream_error_unknown(function, handle);
    if (flags & FLAGS_NO_WAIT)
        return 0;
    if (error != 0)
        return stream_error_aborted(function, error);
    error = wait_until(session, &t, function, deadline);
    if (error == 0)
        error = take_error(session, &t, function);
    if (error != 0 && error != ACLNPUD_ERROR_INTERRUPTED)
        upcalls->exception_drain(session);
    return error;
}

aclError aclrtSynchronizeStream(aclrtStream stream)
{
    CALL_SCOPE;

    return stream_synchronize(__func__, stream, -1);
}

aclError aclrtSynchronizeStreamWithTimeout(aclrtStream stream, int32_t timeout)
{
    CALL_SCOPE;
    int error = check_timeout(__func__, timeout);

    return error != 0 ? error : stream_synchronize(__func__, stream, timeout);
}

/* All streams of this process on the device, as the API documentation has it: also those that
 * another thread is destroying. */
static size_t list_targets(struct context *c, struct target **targets)
{
    struct session *session = c->session;
    struct stream *s;
    size_t n = 0;

    pthread_mutex_lock(&session->lock);
    *targets = calloc(session->streams.live + 1, sizeof(**targets));
    if (*targets)
        for (uint32_t i = 0; (s = stream_next(session, &i));)
            if (s->device == c->device && !(s->flags & FLAGS_NO_WAIT))
                (*targets)[n++] = target_of(s);
    pthread_mutex_unlock(&session->lock);
    return n;
}

int stream_synchronize_device(const char *function, int32_t timeout)
{
    uint64_t deadline = wait_deadline(timeout);
    struct target *targets;
    int error, first = 0;
    struct context *c = FIND_OR_RETURN(context_get, function);
    size_t n;

    if (capture_runs(c->session))
        RETURN_IF_ERROR(upcalls->capture_refuse_device(c->session, c->device, function));
    n = list_targets(c, &targets);
    if (!targets)
        return error_no_memory(function);
    for (size_t i = 0; i < n; i++) {
        error = wait_until(c->session, &targets[i], function, deadline);
        if (error == 0)
            error = take_error(c->session, &targets[i], function);
        if (first == 0 || error == ACLNPUD_ERROR_INTERRUPTED)
            first = error;
        if (error == ACL_ERROR_RT_SOCKET_CLOSE || error == ACL_ERROR_RT_STREAM_SYNC_TIMEOUT ||
            error == ACLNPUD_ERROR_INTERRUPTED)
            break;
    }
    free(targets);
    if (first != 0 && first != ACLNPUD_ERROR_INTERRUPTED)
        upcalls->exception_drain(c->session);
    return first;
}

aclError aclrtSynchronizeDevice(void)
{
    CALL_SCOPE;

    return stream_synchronize_device(__func__, -1);
}

aclError aclrtSynchronizeDeviceWithTimeout(int32_t timeout)
{
    CALL_SCOPE;
    int error = check_timeout(__func__, timeout);

    return error != 0 ? error : stream_synchronize_device(__func__, timeout);
}

aclError aclrtStreamQuery(aclrtStream stream, aclrtStreamStatus *status)
{
    CALL_SCOPE;
    REQUIRE(status);
    bool done;
    uint64_t since;
    struct stream *s = FIND_OR_RETURN(stream_find, __func__, stream);

    since = checked_since();
    if (session_lost(s->session))
        return session_error_lost(__func__);
    if (capture_runs(s->session))
        RETURN_IF_ERROR(upcalls->capture_refuse_stream(s, __func__));
    if (stream_stopped(s))
        return stream_error_stopped(s->ctrl, __func__);
    done = (s->flags & FLAGS_NO_WAIT) ||
           atomic_load_explicit(&s->ctrl->done, memory_order_acquire) >=
               atomic_load_explicit(&s->ctrl->tail, memory_order_acquire);
    /* When the device is lost, all is done soon: a poll need not look at that each time. */
    if (done && stream_mode(s) > DOORBELL_STRICT)
        return device_check_lost(s->session, __func__, s->device);
    if (done && checked_runs())
        checked_sync(stream_checked_name(s), since);
    *status = done ? ACL_STREAM_STATUS_COMPLETE : ACL_STREAM_STATUS_NOT_READY;
    return 0;
}
