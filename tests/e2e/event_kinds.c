#include "event_kinds.h"

#include <string.h>

static aclError create_default(aclrtEvent *event, uint32_t flag)
{
    (void)flag;
    return aclrtCreateEvent(event);
}

const struct event_kind event_kinds[KINDS] = {
    [A] = {"a", create_default, 0},
    [B_SYNC] = {"b-sync", aclrtCreateEventWithFlag, ACL_EVENT_SYNC | ACL_EVENT_TIME_LINE},
    [B_MARK] = {"b-mark", aclrtCreateEventWithFlag, ACL_EVENT_TIME_LINE},
    [B_EXT] = {"b-ext", aclrtCreateEventWithFlag, ACL_EVENT_EXTERNAL},
    [B_DEV] = {"b-dev", aclrtCreateEventWithFlag, ACL_EVENT_DEVICE_USE_ONLY},
    [C_SYNC] = {"c-sync", aclrtCreateEventExWithFlag, ACL_EVENT_SYNC | ACL_EVENT_TIME_LINE},
    [C_MARK] = {"c-mark", aclrtCreateEventExWithFlag, ACL_EVENT_TIME_LINE},
    [IPC] = {"ipc", aclrtCreateEventExWithFlag, ACL_EVENT_IPC},
};

const char *const moment_names[ANY] = {
    [FRESH] = "not recorded", [PENDING] = "pending", [EXECUTED] = "executed"};

aclrtEvent event_of_kind(enum kind kind)
{
    aclrtEvent event;

    OK(event_kinds[kind].create(&event, event_kinds[kind].flag));
    return event;
}

/* --- the calls --- */

static aclError call_record_flag(aclrtEvent e, aclrtStream s)
{
    return aclrtRecordEventWithFlag(e, s, ACL_EVENT_RECORD_DEFAULT);
}

/* No graphs here: what may be recorded for one is refused because the stream does not capture. */
static aclError call_record_external(aclrtEvent e, aclrtStream s)
{
    return aclrtRecordEventWithFlag(e, s, ACL_EVENT_RECORD_EXTERNAL);
}

static aclError call_query(aclrtEvent e, aclrtStream s)
{
    aclrtEventStatus status = ACL_EVENT_STATUS_RESERVED;
    aclError error = aclrtQueryEvent(e, &status);

    (void)s;
    ck_assert_int_eq(status == ACL_EVENT_STATUS_RESERVED, error != 0);
    return error;
}

static aclError call_query_status(aclrtEvent e, aclrtStream s)
{
    aclrtEventRecordedStatus status = (aclrtEventRecordedStatus)-1;
    aclError error = aclrtQueryEventStatus(e, &status);

    (void)s;
    ck_assert_int_eq((int)status == -1, error != 0);
    return error;
}

static aclError call_query_wait(aclrtEvent e, aclrtStream s)
{
    aclrtEventWaitStatus status = ACL_EVENT_WAIT_STATUS_RESERVED;
    aclError error = aclrtQueryEventWaitStatus(e, &status);

    (void)s;
    /* No stream waits. */
    ck_assert_int_eq(status,
                     error == 0 ? ACL_EVENT_WAIT_STATUS_COMPLETE : ACL_EVENT_WAIT_STATUS_RESERVED);
    return error;
}

static aclError call_synchronize(aclrtEvent e, aclrtStream s)
{
    (void)s;
    return aclrtSynchronizeEvent(e);
}

static aclError call_synchronize_long(aclrtEvent e, aclrtStream s)
{
    (void)s;
    return aclrtSynchronizeEventWithTimeout(e, LIMIT_MS);
}

static aclError call_synchronize_short(aclrtEvent e, aclrtStream s)
{
    (void)s;
    return aclrtSynchronizeEventWithTimeout(e, BLOCKED_MS);
}

static aclError call_wait(aclrtEvent e, aclrtStream s)
{
    return wait_by(WAIT_PLAIN, s, e, 0);
}

static aclError call_wait_timeout(aclrtEvent e, aclrtStream s)
{
    return wait_by(WAIT_TIMEOUT, s, e, LIMIT_S);
}

static aclError call_wait_flag(aclrtEvent e, aclrtStream s)
{
    return wait_by(WAIT_FLAG, s, e, LIMIT_S);
}

static aclError call_wait_external(aclrtEvent e, aclrtStream s)
{
    return aclrtStreamWaitEventWithFlag(s, e, 0, ACL_EVENT_WAIT_EXTERNAL);
}

static aclError query_elapsed(aclrtEvent start, aclrtEvent end)
{
    float ms = -1;
    aclError error = aclrtEventElapsedTime(&ms, start, end);

    ck_assert_msg(error == 0 ? ms != -1 : ms == -1, "%d with ms %f", error, (double)ms);
    return error;
}

static aclError call_elapsed_itself(aclrtEvent e, aclrtStream s)
{
    (void)s;
    return query_elapsed(e, e);
}

/* The other event is all right: its partner decides, in either place. */
static aclError call_elapsed_from(aclrtEvent e, aclrtStream s)
{
    aclrtEvent good = event_of_kind(A);
    aclError error;

    (void)s;
    OK(aclrtRecordEvent(good, NULL));
    error = query_elapsed(e, good);
    OK(aclrtDestroyEvent(good));
    return error;
}

static aclError call_elapsed_to(aclrtEvent e, aclrtStream s)
{
    aclrtEvent good = event_of_kind(A);
    aclError error;

    (void)s;
    OK(aclrtRecordEvent(good, NULL));
    error = query_elapsed(good, e);
    OK(aclrtDestroyEvent(good));
    return error;
}

static aclError call_timestamp(aclrtEvent e, aclrtStream s)
{
    uint64_t us = UINT64_MAX;
    aclError error = aclrtEventGetTimestamp(e, &us);

    (void)s;
    ck_assert_int_eq(us == UINT64_MAX, error != 0);
    return error;
}

static aclError call_id(aclrtEvent e, aclrtStream s)
{
    uint32_t id = UINT32_MAX;
    aclError error = aclrtGetEventId(e, &id);

    (void)s;
    ck_assert_int_eq(id == UINT32_MAX, error != 0);
    return error;
}

static aclError call_export(aclrtEvent e, aclrtStream s)
{
    aclrtIpcEventHandle handle, untouched;
    aclError error;

    (void)s;
    memset(&handle, 0x5a, sizeof(handle));
    untouched = handle;
    error = aclrtIpcGetEventHandle(e, &handle);
    ck_assert_int_eq(memcmp(&handle, &untouched, sizeof(handle)) == 0, error != 0);
    return error;
}

static aclError call_destroy(aclrtEvent e, aclrtStream s)
{
    (void)s;
    return aclrtDestroyEvent(e);
}

/*
 * (b-dev) cannot be recorded, so it is always FRESH. EXTERNAL needs kind (c) with the flag exactly
 * ACL_EVENT_SYNC. The event of kind (c) here has TIME_LINE, so all kinds refuse EXTERNAL.
 */
const struct event_call event_calls[] = {
    /* a, b-sync, b-mark, b-ext, b-dev, c-sync, c-mark, ipc */
    {"Record", aclrtRecordEvent, ANY, {0, 0, 0, 0, PARAM, 0, 0, 0}},
    {"RecordWithFlag", call_record_flag, ANY, {0, 0, 0, 0, PARAM, 0, 0, 0}},
    {"RecordWithFlag EXTERNAL", call_record_external, ANY, {NO, NO, NO, NO, NO, NO, NO, NO}},
    {"Reset", aclrtResetEvent, ANY, {0, 0, NO, 0, PARAM, NO, NO, NO}},
    {"Query", call_query, ANY, {0, 0, 0, NO, 0, NO, NO, NO}},
    {"QueryStatus", call_query_status, ANY, {0, 0, 0, NO, 0, 0, 0, 0}},
    {"QueryWaitStatus", call_query_wait, ANY, {0, 0, 0, NO, 0, NO, NO, NO}},
    {"Synchronize", call_synchronize, FRESH | EXECUTED, {0, 0, 0, NO, 0, 0, 0, 0}},
    {"SynchronizeWithTimeout", call_synchronize_long, FRESH | EXECUTED, {0, 0, 0, NO, 0, 0, 0, 0}},
    {"SynchronizeWithTimeout",
     call_synchronize_short,
     PENDING,
     {SYNC_TIME, SYNC_TIME, SYNC_TIME, NO, 0, SYNC_TIME, SYNC_TIME, SYNC_TIME}},
    {"StreamWait", call_wait, FRESH, {PARAM, 0, NO, 0, PARAM, 0, NO, 0}},
    {"StreamWait", call_wait, PENDING | EXECUTED, {0, 0, NO, 0, PARAM, 0, NO, 0}},
    {"StreamWaitWithTimeout", call_wait_timeout, FRESH, {PARAM, 0, NO, 0, PARAM, 0, NO, 0}},
    {"StreamWaitWithTimeout",
     call_wait_timeout,
     PENDING | EXECUTED,
     {0, 0, NO, 0, PARAM, 0, NO, 0}},
    {"StreamWaitWithFlag", call_wait_flag, FRESH, {PARAM, 0, NO, 0, PARAM, 0, NO, 0}},
    {"StreamWaitWithFlag", call_wait_flag, PENDING | EXECUTED, {0, 0, NO, 0, PARAM, 0, NO, 0}},
    {"StreamWaitWithFlag EXTERNAL", call_wait_external, ANY, {NO, NO, NO, NO, NO, NO, NO, NO}},
    {"ElapsedTime of itself",
     call_elapsed_itself,
     FRESH,
     {INTERNAL, INTERNAL, INTERNAL, NO, INTERNAL, INTERNAL, INTERNAL, NO}},
    {"ElapsedTime of itself",
     call_elapsed_itself,
     PENDING,
     {UNTIMED, UNTIMED, UNTIMED, NO, INTERNAL, UNTIMED, UNTIMED, NO}},
    {"ElapsedTime of itself", call_elapsed_itself, EXECUTED, {0, 0, 0, NO, INTERNAL, 0, 0, NO}},
    {"ElapsedTime from",
     call_elapsed_from,
     FRESH,
     {INTERNAL, INTERNAL, INTERNAL, NO, INTERNAL, INTERNAL, INTERNAL, NO}},
    {"ElapsedTime from",
     call_elapsed_from,
     PENDING,
     {UNTIMED, UNTIMED, UNTIMED, NO, INTERNAL, UNTIMED, UNTIMED, NO}},
    {"ElapsedTime from", call_elapsed_from, EXECUTED, {0, 0, 0, NO, INTERNAL, 0, 0, NO}},
    {"ElapsedTime to",
     call_elapsed_to,
     FRESH,
     {INTERNAL, INTERNAL, INTERNAL, NO, INTERNAL, INTERNAL, INTERNAL, NO}},
    {"ElapsedTime to",
     call_elapsed_to,
     PENDING,
     {UNTIMED, UNTIMED, UNTIMED, NO, INTERNAL, UNTIMED, UNTIMED, NO}},
    {"ElapsedTime to", call_elapsed_to, EXECUTED, {0, 0, 0, NO, INTERNAL, 0, 0, NO}},
    {"GetTimestamp",
     call_timestamp,
     FRESH,
     {INTERNAL, INTERNAL, INTERNAL, NO, INTERNAL, INTERNAL, INTERNAL, NO}},
    {"GetTimestamp",
     call_timestamp,
     PENDING,
     {UNTIMED, UNTIMED, UNTIMED, NO, INTERNAL, UNTIMED, UNTIMED, NO}},
    {"GetTimestamp", call_timestamp, EXECUTED, {0, 0, 0, NO, INTERNAL, 0, 0, NO}},
    {"GetEventId", call_id, FRESH, {INTERNAL, 0, INTERNAL, 0, 0, INTERNAL, INTERNAL, NO}},
    {"GetEventId", call_id, PENDING, {0, 0, INTERNAL, 0, 0, 0, INTERNAL, NO}},
    {"GetEventId", call_id, EXECUTED, {0, 0, INTERNAL, 0, 0, INTERNAL, INTERNAL, NO}},
    {"IpcGetHandle", call_export, ANY, {PARAM, PARAM, PARAM, PARAM, PARAM, PARAM, PARAM, 0}},
    {"Destroy", call_destroy, ANY, {0, 0, 0, 0, 0, 0, 0, 0}},
};
const int event_calls_n = (int)(sizeof(event_calls) / sizeof(event_calls[0]));
