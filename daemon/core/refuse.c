#include "daemon/core/refuse.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "acl/acl_base.h"
#include "daemon/base/log.h"
#include "daemon/core/call.h"
#include "daemon/core/device.h"
#include "daemon/core/ipc_event.h"
#include "daemon/core/notify.h"
#include "daemon/core/server.h"
#include "daemon/core/session.h"
#include "proto/shm/arena.h"
#include "proto/shm/queue_shm.h"
#include "proto/wire/packet.h"

enum kind {
    KIND_FAULT, /* of the request */
    KIND_LIMIT, /* npud has no more */
    KIND_USER,  /* the user has no more of `resource`; the sentence says how much there is */
};

/* Rows of the table: the ACL error, and the sentence with its numbers. */
#define FAULT(error, ...)                                                                          \
    {                                                                                              \
        error, KIND_FAULT, 0, __VA_ARGS__                                                          \
    }
#define LIMIT(error, ...)                                                                          \
    {                                                                                              \
        error, KIND_LIMIT, 0, __VA_ARGS__                                                          \
    }
#define USER(error, resource, unit)                                                                \
    {                                                                                              \
        error, KIND_USER, resource, unit                                                           \
    }

#define NO_MEMORY "npud has no memory; try again when other programs have freed some"
#define NO_DESCRIPTORS                                                                             \
    "npud has no descriptors left; try again when other programs have ended, or raise "            \
    "LimitNOFILE of npud.service"

/*
 * Each sentence goes on after the name of what is refused, and ends with what to do. A # in it
 * stands for the next of `number`. KIND_USER: `why` is what the user has too many of.
 */
static const struct {
    int32_t error;
    enum kind kind;
    enum resource resource;
    const char *why;
    uint32_t number[2];
} rows[] = {
    [CAUSE_MEMORY] = LIMIT(ACL_ERROR_RT_RESOURCE_ALLOC_FAIL, NO_MEMORY),
    [CAUSE_DESCRIPTORS] = LIMIT(ACL_ERROR_RT_RESOURCE_ALLOC_FAIL, NO_DESCRIPTORS),
    [CAUSE_RANDOM] = LIMIT(ACL_ERROR_RT_RESOURCE_ALLOC_FAIL,
                           "npud gets no random numbers from the kernel; try again later"),
    [CAUSE_FILE_MEMORY] = LIMIT(ACL_ERROR_RT_MEMORY_ALLOCATION, NO_MEMORY),
    [CAUSE_FILE_DESCRIPTORS] = LIMIT(ACL_ERROR_RT_MEMORY_ALLOCATION, NO_DESCRIPTORS),

    [CAUSE_USER_SESSIONS] = USER(ACL_ERROR_RT_OVER_LIMIT, RESOURCE_SESSIONS, "sessions"),
    [CAUSE_USER_SESSION_DESCRIPTORS] = USER(ACL_ERROR_RT_OVER_LIMIT, RESOURCE_FDS, "descriptors"),
    [CAUSE_USER_DESCRIPTORS] = USER(ACL_ERROR_RT_RESOURCE_ALLOC_FAIL, RESOURCE_FDS, "descriptors"),
    [CAUSE_USER_STREAMS] = USER(ACL_ERROR_RT_NO_STREAM_RESOURCE, RESOURCE_STREAMS, "streams"),
    [CAUSE_USER_EVENTS] = USER(ACL_ERROR_RT_NO_EVENT_RESOURCE, RESOURCE_EVENTS, "events"),
    [CAUSE_USER_IPC_EVENTS] =
        USER(ACL_ERROR_RT_NO_EVENT_RESOURCE, RESOURCE_IPC_EVENTS, "open IPC events"),
    [CAUSE_USER_IPC_EVENT_DESCRIPTORS] =
        USER(ACL_ERROR_RT_NO_EVENT_RESOURCE, RESOURCE_FDS, "descriptors"),
    [CAUSE_USER_NOTIFIES] = USER(ACL_ERROR_RT_NO_NOTIFY_RESOURCE, RESOURCE_NOTIFIES, "notifies"),
    [CAUSE_USER_DEVICE_MEMORY] =
        USER(ACL_ERROR_RT_MEMORY_ALLOCATION, RESOURCE_DEVICE_MEMORY, "bytes of device memory"),
    [CAUSE_USER_HOST_MEMORY] =
        USER(ACL_ERROR_RT_MEMORY_ALLOCATION, RESOURCE_HOST_MEMORY, "bytes of pinned host memory"),
    [CAUSE_USER_BUFFERS] =
        USER(ACL_ERROR_RT_MEMORY_ALLOCATION, RESOURCE_MBUF_MEMORY, "bytes of shared buffers"),
    [CAUSE_USER_QUEUES] = USER(ACL_ERROR_RT_OVER_LIMIT, RESOURCE_QUEUES, "queues"),
    [CAUSE_USER_ROUTES] = USER(ACL_ERROR_RT_RESOURCE_ALLOC_FAIL, RESOURCE_ROUTES, "routes"),

    [CAUSE_SESSION_NUMBERS] =
        LIMIT(ACL_ERROR_RT_RESOURCE_ALLOC_FAIL,
              "npud has as many sessions as it can number; try again when other "
              "programs have ended"),
    [CAUSE_DEVICE_NONE] =
        FAULT(ACL_ERROR_RT_INVALID_DEVICEID,
              "there is no such device; npuctl devices lists those that there are"),
    [CAUSE_DEVICE_NOT_OPEN] =
        FAULT(ACL_ERROR_RT_DEV_SETUP_ERROR, "it was not opened; call aclrtSetDevice first"),
    [CAUSE_NO_OBJECT] =
        FAULT(ACL_ERROR_RT_INVALID_HANDLE,
              "this process has no such object: it was destroyed, or never was one"),

    [CAUSE_STREAMS_OF_SESSION] =
        LIMIT(ACL_ERROR_RT_NO_STREAM_RESOURCE,
              "this process has # streams, as many as one may have; destroy "
              "one first",
              {SESSION_STREAMS_MAX}),
    [CAUSE_STREAM_IDS] =
        LIMIT(ACL_ERROR_RT_NO_STREAM_RESOURCE,
              "the device has # streams, as many as it can number; destroy one first",
              {DEVICE_STREAMS_MAX}),
    [CAUSE_EVENTS_OF_SESSION] =
        LIMIT(ACL_ERROR_RT_NO_EVENT_RESOURCE,
              "this process has # events, as many as one may have; destroy one "
              "first",
              {SESSION_EVENTS_MAX}),
    [CAUSE_FENCES] =
        LIMIT(ACL_ERROR_RT_RESOURCE_ALLOC_FAIL,
              "too many destroyed events wait for streams that still use them; synchronise "
              "these streams first"),

    [CAUSE_IPC_EVENTS_OF_SESSION] = LIMIT(ACL_ERROR_RT_NO_EVENT_RESOURCE,
                                          "this process has # IPC events open, as many as one may "
                                          "have; destroy one first",
                                          {SESSION_IPC_EVENTS_MAX}),
    [CAUSE_IPC_EVENT_OPENERS] =
        LIMIT(ACL_ERROR_RT_NO_EVENT_RESOURCE,
              "# handles of this event are open, as many as an event may have; "
              "destroy one first",
              {IPC_OPENERS_MAX}),
    [CAUSE_IPC_HANDLE] =
        FAULT(ACL_ERROR_RT_PARAM_INVALID,
              "these 64 bytes are not an event handle that this npud gave out: pass "
              "all 64 bytes of aclrtIpcGetEventHandle unchanged"),
    [CAUSE_IPC_HANDLE_OF_OTHER_NPUD] = FAULT(
        ACL_ERROR_RT_PARAM_INVALID, "another npud gave out this handle: one at another socket, "
                                    "or one that has ended; export the event again"),
    [CAUSE_IPC_EVENT_GONE] =
        FAULT(ACL_ERROR_RT_INVALID_HANDLE,
              "the event no longer exists: all handles are closed and its exporter "
              "has exited; export it again"),
    [CAUSE_IPC_EVENT_OF_OTHER_USER] = FAULT(
        ACL_ERROR_RT_NO_PERMISSION, "the event belongs to another user, and npud lets only the "
                                    "same user open it ([ipc] scope = uid in npud.conf)"),

    [CAUSE_NOTIFIES_OF_SESSION] =
        LIMIT(ACL_ERROR_RT_NO_NOTIFY_RESOURCE,
              "this process has # notifies, as many as one may have; destroy "
              "one first",
              {SESSION_NOTIFIES_MAX}),
    [CAUSE_NOTIFY_IDS] =
        LIMIT(ACL_ERROR_RT_NO_NOTIFY_RESOURCE,
              "the device has # notifies, as many as it can number; destroy one first",
              {DEVICE_NOTIFIES_MAX}),
    [CAUSE_NOTIFY_COUNTS] = FAULT(ACL_ERROR_RT_PARAM_INVALID,
                                  "it is a count notify, which only its own process can use"),
    [CAUSE_NOTIFY_NOT_CREATED] =
        FAULT(ACL_ERROR_RT_INTERNAL_ERROR, "only the process that has created it can do that"),
    [CAUSE_NOTIFY_EXPORTED_BEFORE] =
        FAULT(ACL_ERROR_RT_INTERNAL_ERROR, "this was done before; use the key of that call"),
    [CAUSE_NOTIFY_NOT_EXPORTED] =
        FAULT(ACL_ERROR_RT_PARAM_INVALID, "this process has not exported the notify; call "
                                          "aclrtNotifyGetExportKey first"),
    [CAUSE_NOTIFY_EXPORTED] = FAULT(ACL_ERROR_RT_TASK_TYPE_NOT_SUPPORT,
                                    "it has been exported, and only a notify that no other process "
                                    "uses can be reset"),
    [CAUSE_NOTIFY_PID] = FAULT(ACL_ERROR_RT_PARAM_INVALID, "a pid is not positive"),
    [CAUSE_NOTIFY_PIDS] =
        LIMIT(ACL_ERROR_RT_RESOURCE_ALLOC_FAIL,
              "it has # processes already, as many as it may have", {NOTIFY_PIDS_MAX}),
    [CAUSE_NOTIFY_KEY] = FAULT(ACL_ERROR_RT_PARAM_INVALID,
                               "this text is not the key of a notify that this npud gave out"),
    [CAUSE_NOTIFY_OF_OTHER_NPUD] =
        FAULT(ACL_ERROR_RT_INVALID_HANDLE,
              "another npud gave out this key: one at another socket, or one "
              "that has ended; export the notify again"),
    [CAUSE_NOTIFY_GONE] = FAULT(ACL_ERROR_RT_INVALID_HANDLE,
                                "the notify is gone: its creator has destroyed it, or has ended"),
    [CAUSE_NOTIFY_NOT_LISTED] =
        FAULT(ACL_ERROR_RT_NO_PERMISSION, "it is not on the notify's list of importers "
                                          "(aclrtNotifySetImportPid)"),
    [CAUSE_NOTIFY_OF_OTHER_USER] = FAULT(
        ACL_ERROR_RT_NO_PERMISSION, "the notify belongs to another user, and npud lets only the "
                                    "same user import it ([ipc] scope = uid in npud.conf)"),

    [CAUSE_ALLOCATION_SIZE] = FAULT(ACL_ERROR_INVALID_PARAM, "an allocation has 1 byte or more"),
    [CAUSE_ALLOCATION_RANGE] = FAULT(ACL_ERROR_RT_PARAM_INVALID, "they leave the allocation"),
    [CAUSE_ALLOCATIONS_OF_SESSION] =
        LIMIT(ACL_ERROR_RT_MEMORY_ALLOCATION,
              "this process has # allocations, as many as one may have; "
              "free one first",
              {SESSION_MEMS_MAX}),
    [CAUSE_DEVICE_MEMORY] =
        LIMIT(ACL_ERROR_RT_MEMORY_ALLOCATION,
              "the device has less; free some, or try again when other programs "
              "have"),

    [CAUSE_RULE_NONE] =
        FAULT(ACL_ERROR_RT_PARAM_INVALID, "there is no such rule; npuctl inject list names them"),
    [CAUSE_RULE_ACTION] = FAULT(ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
                                "this npud does not know this kind of rule; restart npud with the "
                                "version that is installed"),
    [CAUSE_RULE_KIND] = FAULT(ACL_ERROR_RT_PARAM_INVALID, "there are no such tasks; there are"),
    [CAUSE_RULE_CODE] =
        FAULT(ACL_ERROR_RT_PARAM_INVALID, "this is no ACL error: these are numbers of six digits"),
    [CAUSE_RULE_PROBABILITY] =
        FAULT(ACL_ERROR_RT_PARAM_INVALID, "a probability is above 0 and at most 1"),
    [CAUSE_RULE_NO_TASKS] = FAULT(ACL_ERROR_RT_PARAM_INVALID,
                                  "lose-device needs --device, or another option that names tasks"),
    [CAUSE_RULE_LOST] =
        FAULT(ACL_ERROR_RT_PARAM_INVALID, "it is lost already; npuctl inject clear brings it back"),
    [CAUSE_RULES] =
        LIMIT(ACL_ERROR_RT_OVER_LIMIT,
              "npud has as many rules as it may have; clear some (npuctl inject clear RULE)"),

    [CAUSE_SEGMENT_NONE] = FAULT(ACL_ERROR_RT_PARAM_INVALID, "there is no such segment (any more)"),
    [CAUSE_SEGMENT_NOT_SENT] =
        FAULT(ACL_ERROR_RT_NO_PERMISSION, "no buffer of it was sent through a queue that this "
                                          "process may dequeue from"),
    [CAUSE_SEGMENT_SIZE] = FAULT(ACL_ERROR_INVALID_PARAM, "a buffer has 1 byte to 4 GiB"),
    [CAUSE_SEGMENT_MEMORY] = LIMIT(ACL_ERROR_RT_MEMORY_ALLOCATION,
                                   "npud has no memory for them; try again when some are freed"),
    [CAUSE_SEGMENTS_OF_POOL] =
        LIMIT(ACL_ERROR_RT_RESOURCE_ALLOC_FAIL,
              "this process has as many segments of buffers as one may have; "
              "free buffers first"),
    [CAUSE_SEGMENT_IDS] =
        LIMIT(ACL_ERROR_RT_RESOURCE_ALLOC_FAIL,
              "the processes of this host have all segments of buffers that there "
              "are; free buffers first"),

    [CAUSE_QUEUE_ID] =
        FAULT(ACL_ERROR_RT_PARAM_INVALID, "ids of queues are 0 to #", {QUEUE_IDS - 1}),
    [CAUSE_QUEUE_NONE] = FAULT(ACL_ERROR_RT_DRV_INTERNAL_ERROR, "there is no such queue"),
    [CAUSE_QUEUE_RIGHTS] =
        FAULT(ACL_ERROR_RT_PARAM_INVALID, "there are MANAGE 1, DEQUEUE 2 and ENQUEUE 4"),
    [CAUSE_QUEUE_NOT_GRANTED] =
        FAULT(ACL_ERROR_RT_NO_PERMISSION, "this process was not granted it, or the grant was taken "
                                          "back (acltdtGrantQueue)"),
    [CAUSE_QUEUE_NOT_ENQUEUE] =
        FAULT(ACL_ERROR_RT_NO_PERMISSION, "this process may not enqueue to it; its creator can "
                                          "grant ENQUEUE (acltdtGrantQueue)"),
    [CAUSE_QUEUE_DEPTH] = FAULT(ACL_ERROR_RT_PARAM_INVALID, "a queue has a depth from # to #",
                                {QUEUE_DEPTH_MIN, QUEUE_DEPTH_MAX}),
    [CAUSE_QUEUE_NAME] = FAULT(ACL_ERROR_RT_PARAM_INVALID, "its name is too long: at most # bytes",
                               {QUEUE_NAME - 1}),
    [CAUSE_QUEUE_IDS] = LIMIT(ACL_ERROR_RT_OVER_LIMIT,
                              "this user has a queue with every id from 0 to #; destroy one first",
                              {QUEUE_IDS - 1}),
    [CAUSE_QUEUE_RINGS] =
        LIMIT(ACL_ERROR_RT_RESOURCE_ALLOC_FAIL,
              "this host has as many queues as npud can number; destroy one first"),
    [CAUSE_QUEUE_RING_ENDED] = FAULT(ACL_ERROR_RT_DRV_INTERNAL_ERROR,
                                     "the ring has ended; the queue may have another one"),
    [CAUSE_QUEUE_NOT_ATTACHED] =
        FAULT(ACL_ERROR_RT_DRV_INTERNAL_ERROR,
              "this process is not attached to it: it was not created here, "
              "was destroyed, or acltdtAttachQueue was not called"),
    [CAUSE_QUEUE_NOT_MANAGED] = FAULT(
        ACL_ERROR_RT_NO_PERMISSION, "this process may not manage it; its creator can grant MANAGE "
                                    "(acltdtGrantQueue)"),
    [CAUSE_QUEUE_ROUTED] = FAULT(
        ACL_ERROR_FAILURE, "it is part of a route; unbind it first (acltdtUnbindQueueRoutes)"),
    [CAUSE_QUEUE_NOT_ROUTED] = FAULT(ACL_ERROR_RT_DRV_INTERNAL_ERROR,
                                     "it is no queue of this process that has a part in a route"),

    [CAUSE_GRANT_PID] = FAULT(ACL_ERROR_RT_PARAM_INVALID, "this is no pid: pids begin at 1"),
    [CAUSE_GRANT_NO_PROCESS] = FAULT(ACL_ERROR_RT_INTERNAL_ERROR, "there is no such process"),
    [CAUSE_GRANTS_OF_QUEUE] =
        LIMIT(ACL_ERROR_RT_RESOURCE_ALLOC_FAIL,
              "as many processes as npud remembers for a queue have a grant and have "
              "not attached yet; let them attach, or take grants back"),

    [CAUSE_NOT_AN_EVENTFD] =
        FAULT(ACL_ERROR_RT_PARAM_INVALID, "it is no eventfd; make one by eventfd(2)"),
    [CAUSE_EVENT_FD_NUMBER] =
        FAULT(ACL_ERROR_RT_PARAM_INVALID, "its number is beyond those of a session"),
    [CAUSE_EVENT_FDS_OF_SESSION] =
        LIMIT(ACL_ERROR_RT_RESOURCE_ALLOC_FAIL,
              "this process has as many that wait for a record as one may "
              "have; let some be written first"),
    [CAUSE_EVENT_FD_KERNEL] = FAULT(ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
                                    "npud cannot use io_submit() on this kernel, or not now"),

    [CAUSE_ROUTES_OF_REQUEST] =
        FAULT(ACL_ERROR_INVALID_PARAM, "one request names at most # routes", {ROUTES_MAX}),
    [CAUSE_ROUTE_BROKEN] =
        FAULT(ACL_ERROR_FAILURE, "it has lost a queue and does not heal; unbind it first"),
    [CAUSE_ROUTE_TO_ITSELF] = FAULT(ACL_ERROR_FAILURE, "a queue cannot be routed to itself"),
    [CAUSE_ROUTE_FROM_DESTINATION] =
        FAULT(ACL_ERROR_FAILURE, "it is the destination of a route, and so cannot be a "
                                 "source: routes are not chained"),
    [CAUSE_ROUTE_TO_SOURCE] =
        FAULT(ACL_ERROR_FAILURE, "it is the source of a route, and so cannot be a destination: "
                                 "routes are not chained"),
    [CAUSE_ROUTE_OF_OTHERS] = FAULT(ACL_ERROR_RT_NO_PERMISSION,
                                    "this process has not bound it, and may manage neither queue"),
};

/* A sentence of the table, with its numbers in it. */
static void write_why(char *text, size_t size, enum cause cause)
{
    const uint32_t *number = rows[cause].number;
    size_t used = 0;

    text[0] = 0;
    for (const char *c = rows[cause].why; *c && used + 1 < size; c++) {
        if (*c == '#')
            snprintf(text + used, size - used, "%u", *number++);
        else
            snprintf(text + used, size - used, "%c", *c);
        used += strlen(text + used);
    }
}

static void write_user_limit(char *text, size_t size, enum cause cause, const struct user *payer)
{
    enum resource resource = rows[cause].resource;

    snprintf(text, size,
             "user %u has %llu of at most %llu %s ([limits] %s); give some back, or have an "
             "administrator raise the limit",
             (unsigned)payer->uid, (unsigned long long)payer->used[resource],
             (unsigned long long)payer->users->limit[resource], rows[cause].why,
             resource_names[resource]);
}

int32_t refuse_text(char *text, size_t size, enum cause cause, const struct user *payer,
                    const char *what)
{
    int used = what[0] ? snprintf(text, size, "%s: ", what) : 0;

    assert(cause != CAUSE_NONE && rows[cause].why);
    if ((size_t)used >= size)
        return rows[cause].error;
    if (rows[cause].kind == KIND_USER)
        write_user_limit(text + used, size - (size_t)used, cause, payer);
    else
        write_why(text + used, size - (size_t)used, cause);
    return rows[cause].error;
}

__attribute__((format(printf, 4, 0))) static int32_t refuse_in_words(struct call *call,
                                                                     enum cause cause,
                                                                     const struct user *payer,
                                                                     const char *fmt, va_list ap)
{
    char what[sizeof(call->message)];

    vsnprintf(what, sizeof(what), fmt, ap);
    return refuse_text(call->message, sizeof(call->message), cause, payer, what);
}

/* Limits are logged: they may be what a client is after. */
static int32_t log_refusal(struct call *call, enum cause cause, int32_t error)
{
    if (rows[cause].kind != KIND_FAULT)
        log_client_limit(&call->session->log, "at a limit: %s", call->message);
    return error;
}

void refuse_explain(struct call *call, enum cause cause, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    refuse_in_words(call, cause, call->session->user, fmt, ap);
    va_end(ap);
}

int32_t refuse_payer(struct call *call, enum cause cause, const struct user *payer, const char *fmt,
                     ...)
{
    int32_t error;
    va_list ap;

    if (cause == CAUSE_NONE)
        return 0;
    va_start(ap, fmt);
    error = refuse_in_words(call, cause, payer, fmt, ap);
    va_end(ap);
    return log_refusal(call, cause, error);
}

int32_t refuse_plainly(struct call *call, enum cause cause)
{
    int32_t error =
        refuse_text(call->message, sizeof(call->message), cause, call->session->user, "");

    return log_refusal(call, cause, error);
}

int32_t refuse_with_error(struct call *call, int32_t error, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(call->message, sizeof(call->message), fmt, ap);
    va_end(ap);
    return error;
}
