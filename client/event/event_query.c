/* Events seen from the host: query, synchronise, timing, ids. */
#include <errno.h>

#include "acl/acl.h"
#include "acl/acl_npud.h"
#include "client/runtime/context.h"
#include "client/runtime/device.h"
#include "client/core/error.h"
#include "client/event/event.h"
#include "client/callback/exception.h"
#include "client/runtime/stream.h"
#include "client/core/wait.h"
#include "proto/util/clock.h"

/* --- query and synchronise --- */

/* What the first look does not know. */
static __attribute__((noinline)) int query_status(const char *function, aclrtEvent event,
                                                  aclrtEventRecordedStatus *status)
{
    int error = 0;
    struct record r;
    bool complete, passed;
    struct event *e = FIND_OR_RETURN(event_find, function, event);

    if (__builtin_expect(session_lost(e->session), 0))
        return session_error_lost(function);
    if (e->kind == EVENT_IPC) {
        RETURN_IF_ERROR(ipc_event_query(e, function, &complete));
    } else {
        RETURN_IF_ERROR(event_check_use(e, function, USE_QUERY_STATUS));
        RETURN_IF_ERROR(event_check_captured(e, function));
        passed = event_record_now(e, &r);
        /*
         * Before the first record, events of aclrtCreateEventExWithFlag are complete, others not.
         */
        if (!passed && (error = event_stopped(&r, function)) != 0)
            return error;
        complete = passed && (r.number != 0 || e->kind >= EVENT_EX_SYNC);
        if (complete)
            event_note_complete(e, &r, event);
        if (complete && checked_runs())
            event_note_seen(e, r.number, false);
    }
    *status = complete ? ACL_EVENT_RECORDED_STATUS_COMPLETE : ACL_EVENT_RECORDED_STATUS_NOT_READY;
    return 0;
}

aclError aclrtQueryEventStatus(aclrtEvent event, aclrtEventRecordedStatus *status)
{
    CALL_SCOPE;
    struct session *s = session_peek();
    struct event *e = s ? handle_get(&s->events, HANDLE_EVENT, event) : NULL;

    if (__builtin_expect(e && status && !session_lost(s), 1) && !checked_runs() &&
        (event_is_complete(e) || (e->kind == EVENT_IPC && ipc_is_done(e->page)))) {
        *status = ACL_EVENT_RECORDED_STATUS_COMPLETE;
        return 0;
    }
    REQUIRE(event);
    REQUIRE(status);
    return query_status(__func__, event, status);
}

/* Checks that the remaining calls share: alive, right kind, npud there. NULL with *error set. */
static struct event *find_for(const char *function, aclrtEvent event, enum use_of_event use,
                              int *error)
{
    struct event *e = event_find(function, event, error);

    if (!e)
        return NULL;
    *error = event_check_use(e, function, use);
    if (*error == 0)
        *error = event_check_captured(e, function);
    if (*error == 0 && session_lost(e->session))
        *error = session_error_lost(function);
    return *error == 0 ? e : NULL;
}

aclError aclrtQueryEvent(aclrtEvent event, aclrtEventStatus *status)
{
    CALL_SCOPE;
    REQUIRE(event);
    REQUIRE(status);
    struct record r;
    bool passed;
    struct event *e = FIND_OR_RETURN(find_for, __func__, event, USE_QUERY);

    passed = event_record_now(e, &r);
    RETURN_IF_ERROR(passed ? 0 : event_stopped(&r, __func__));
    if (passed && checked_runs())
        event_note_seen(e, r.number, false);
    *status = passed ? ACL_EVENT_STATUS_COMPLETE : ACL_EVENT_STATUS_NOT_READY;
    return 0;
}

aclError aclrtQueryEventWaitStatus(aclrtEvent event, aclrtEventWaitStatus *status)
{
    CALL_SCOPE;
    REQUIRE(event);
    REQUIRE(status);
    struct event *e = FIND_OR_RETURN(find_for, __func__, event, USE_QUERY_WAIT);

    *status = ACL_EVENT_WAIT_STATUS_COMPLETE;
    biased_lock_take(&e->lock);
    for (uint32_t i = 0; i < e->uses_size; i++)
        if ((e->uses[i].how & USE_WAITS) && !point_passed(&e->uses[i].point))
            *status = ACL_EVENT_WAIT_STATUS_NOT_READY;
    biased_lock_give(&e->lock);
    return 0;
}

static int synchronize_event(const char *function, aclrtEvent event, int32_t timeout)
{
    int error, r;
    struct event *e = find_for(function, event, USE_SYNCHRONIZE, &error);
    struct record record_now;
    uint64_t deadline = wait_deadline(timeout);
    struct session *session;
    uint32_t device;
    int32_t discarded;

    if (!e)
        return error;
    RETURN_IF_ERROR(context_refuse_kernel(function));
    if (atomic_load_explicit(&e->by_model, memory_order_relaxed))
        return error_set(ACL_ERROR_RT_PARAM_INVALID,
                         "%s: a model that was built by hand records the event: synchronise the "
                         "stream that executes the model",
                         function);
    session = e->session;
    device = e->device;
    RETURN_IF_ERROR(device_check_lost(session, function, device));
    if (e->kind == EVENT_IPC)
        return ipc_event_synchronize(e, function, timeout);
    event_record_now(e, &record_now);
    if (point_passed(&record_now.point)) {
        if (checked_runs())
            event_note_seen(e, record_now.number, true);
        return 0;
    }
    /* The event may be destroyed meanwhile, and its memory gone. */
    r = wait_position(&session->waits, function, record_now.point.ctrl, record_now.point.position,
                      deadline, &discarded);
    if (r == -ETIMEDOUT)
        return error_set(ACL_ERROR_RT_EVENT_SYNC_TIMEOUT,
                         "%s: the event was not complete after %d ms; its tasks go on", function,
                         timeout);
    if (r == -EPIPE)
        error = session_error_lost(function);
    else if (r == -EINTR)
        return ACLNPUD_ERROR_INTERRUPTED;
    else if ((error = event_stopped(&record_now, function)) == 0 && discarded != 0)
        error = stream_error_aborted(function, discarded);
    if (error == 0)
        error = device_check_lost(session, function, device);
    if (error != 0)
        exception_drain(session);
    else if (checked_runs())
        checked_event_use(CHECK_SYNC_EVENT, CHECK_NO_STREAM, (uintptr_t)event, record_now.number);
    return error;
}

aclError aclrtSynchronizeEvent(aclrtEvent event)
{
    CALL_SCOPE;

    REQUIRE(event);
    return synchronize_event(__func__, event, -1);
}

aclError aclrtSynchronizeEventWithTimeout(aclrtEvent event, int32_t timeout)
{
    CALL_SCOPE;

    if (timeout < -1 || (timeout == 0 && event))
        return error_set(
            ACL_ERROR_RT_PARAM_INVALID,
            "aclrtSynchronizeEventWithTimeout: timeout is %d ms, must be positive or -1", timeout);
    REQUIRE(event);
    return synchronize_event(__func__, event, timeout);
}

/* --- timing --- */

static int read_record_time(struct event *e, const char *function, uint64_t *ns)
{
    struct record r;

    event_record_now(e, &r);
    if (r.number == 0)
        return error_set(ACL_ERROR_RT_INTERNAL_ERROR,
                         "%s: the event was never recorded: call aclrtRecordEvent first", function);
    if (!event_has_time(e))
        return error_set(ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID,
                         "%s: the event was made without ACL_EVENT_TIME_LINE: make it by "
                         "aclrtCreateEvent, or with that flag",
                         function);
    if (event_stopped(&r, function) != 0)
        return stream_error_stopped(r.point.ctrl, function);
    if (!point_passed(&r.point))
        return error_set(ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID,
                         "%s: the record is not complete: synchronise its stream first", function);
    if (r.ns != 0)
        *ns = r.ns;
    else if (!event_slot_get_time(e->shm, r.number, ns))
        return error_set(
            ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID,
            "%s: no timestamp: the event was recorded anew, or its stream was destroyed", function);
    if (checked_runs())
        event_note_seen(e, r.number, false);
    return 0;
}

/* The time is the event's if handle still names it: the next one in its place has other times. */
static int read_timestamp(struct event *e, const char *function, const void *handle, uint64_t *ns)
{
    RETURN_IF_ERROR(read_record_time(e, function, ns));
    return handle_names(handle, e) ? 0 : event_error_unknown(function, handle);
}

aclError aclrtEventElapsedTime(float *ms, aclrtEvent startEvent, aclrtEvent endEvent)
{
    CALL_SCOPE;
    int error;
    struct event *start, *end;
    uint64_t from = 0, to = 0;

    REQUIRE(ms);
    REQUIRE(startEvent);
    REQUIRE(endEvent);
    start = find_for(__func__, startEvent, USE_TIMING, &error);
    end = start ? find_for(__func__, endEvent, USE_TIMING, &error) : NULL;
    if (!end)
        return error;
    error = read_timestamp(start, __func__, startEvent, &from);
    if (error == 0)
        error = read_timestamp(end, __func__, endEvent, &to);
    if (error == 0)
        *ms = (float)((double)(int64_t)(to - from) / 1e6);
    return error;
}

aclError aclrtEventGetTimestamp(aclrtEvent event, uint64_t *timestamp_us)
{
    CALL_SCOPE;
    REQUIRE(event);
    REQUIRE(timestamp_us);
    int error;
    uint64_t ns = 0;
    struct event *e = FIND_OR_RETURN(find_for, __func__, event, USE_TIMING);

    error = read_timestamp(e, __func__, event, &ns);
    if (error == 0)
        *timestamp_us = (ns - e->session->epoch_ns) / NSEC_PER_USEC;
    return error;
}

/* --- ids --- */

/*
 * Ids as the vendor's devices hand them out do not exist here; programs print them. Kinds that hold
 * one while a record is outstanding show npud's slot number under the same conditions.
 */
aclError aclrtGetEventId(aclrtEvent event, uint32_t *eventId)
{
    CALL_SCOPE;
    REQUIRE(event);
    REQUIRE(eventId);
    struct record r;
    bool has = true;
    struct event *e = FIND_OR_RETURN(event_find, __func__, event);

    if (e->kind == EVENT_IPC)
        return error_set(ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
                         "aclrtGetEventId: not possible with an IPC event");
    event_record_now(e, &r);
    if (e->kind == EVENT_MARK || e->kind == EVENT_EX_MARK)
        has = false;
    else if (e->kind == EVENT_DEFAULT)
        has = r.number != 0;
    else if (e->kind == EVENT_EX_SYNC)
        has = !point_passed(&r.point);
    if (!has)
        return error_set(ACL_ERROR_RT_INTERNAL_ERROR,
                         "aclrtGetEventId: the event has no id at the moment");
    *eventId = e->remote;
    return 0;
}

aclError aclrtGetEventAvailNum(uint32_t *eventCount)
{
    CALL_SCOPE;
    REQUIRE(eventCount);
    struct context *c = FIND_OR_RETURN(context_get, __func__);

    pthread_mutex_lock(&c->session->lock);
    *eventCount = SESSION_EVENTS_MAX - c->session->events.live;
    pthread_mutex_unlock(&c->session->lock);
    return 0;
}
