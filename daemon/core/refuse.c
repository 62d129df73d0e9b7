#include "daemon/core/refuse.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>

#include "acl/acl_base.h"
#include "daemon/core/call.h"
#include "daemon/core/server.h"
#include "daemon/core/session.h"

enum kind {
    KIND_FAULT, /* of the request */
    KIND_LIMIT, /* npud has no more */
    KIND_USER,  /* the user has no more of `resource`; the sentence says how much there is */
};

/* Each sentence goes on after the name of what is refused, and ends with what to do. */
static const struct {
    int32_t error;
    enum kind kind;
    enum resource resource;
    const char *why;
} rows[] = {
    [CAUSE_MEMORY] = {ACL_ERROR_RT_RESOURCE_ALLOC_FAIL, KIND_LIMIT, 0,
                      "npud has no memory; try again when other programs have freed some"},
    [CAUSE_DESCRIPTORS] =
        {ACL_ERROR_RT_RESOURCE_ALLOC_FAIL, KIND_LIMIT, 0,
         "npud has no descriptors left; try again when other programs have ended"},
    [CAUSE_USER_DESCRIPTORS] = {ACL_ERROR_RT_RESOURCE_ALLOC_FAIL, KIND_USER, RESOURCE_FDS,
                                "descriptors"},
    [CAUSE_USER_BUFFERS] = {ACL_ERROR_RT_MEMORY_ALLOCATION, KIND_USER, RESOURCE_MBUF_MEMORY,
                            "bytes of shared buffers"},
    [CAUSE_USER_QUEUES] = {ACL_ERROR_RT_OVER_LIMIT, KIND_USER, RESOURCE_QUEUES, "queues"},
    [CAUSE_USER_ROUTES] = {ACL_ERROR_RT_RESOURCE_ALLOC_FAIL, KIND_USER, RESOURCE_ROUTES, "routes"},

    [CAUSE_SEGMENT_SIZE] = {ACL_ERROR_INVALID_PARAM, KIND_FAULT, 0, "a buffer has 1 byte to 4 GiB"},
    [CAUSE_SEGMENT_MEMORY] = {ACL_ERROR_RT_MEMORY_ALLOCATION, KIND_LIMIT, 0,
                              "npud has no memory for them; try again when some are freed"},
    [CAUSE_SEGMENTS_OF_POOL] = {ACL_ERROR_RT_RESOURCE_ALLOC_FAIL, KIND_LIMIT, 0,
                                "this process has as many segments of buffers as one may have; "
                                "free buffers first"},
    [CAUSE_SEGMENT_IDS] = {ACL_ERROR_RT_RESOURCE_ALLOC_FAIL, KIND_LIMIT, 0,
                           "the processes of this host have all segments of buffers that there "
                           "are; free buffers first"},

    [CAUSE_QUEUE_DEPTH] = {ACL_ERROR_RT_PARAM_INVALID, KIND_FAULT, 0,
                           "a queue has a depth from 2 to 8192"},
    [CAUSE_QUEUE_NAME] = {ACL_ERROR_RT_PARAM_INVALID, KIND_FAULT, 0,
                          "its name is too long: at most 127 bytes"},
    [CAUSE_QUEUE_IDS] = {ACL_ERROR_RT_OVER_LIMIT, KIND_LIMIT, 0,
                         "this user has a queue with every id from 0 to 4095; destroy one first"},
    [CAUSE_QUEUE_RINGS] = {ACL_ERROR_RT_RESOURCE_ALLOC_FAIL, KIND_LIMIT, 0,
                           "this host has as many queues as npud can number; destroy one first"},
    [CAUSE_QUEUE_NOT_ATTACHED] = {ACL_ERROR_RT_DRV_INTERNAL_ERROR, KIND_FAULT, 0,
                                  "this process is not attached to it: it was not created here, "
                                  "was destroyed, or acltdtAttachQueue was not called"},
    [CAUSE_QUEUE_NOT_MANAGED] = {ACL_ERROR_RT_NO_PERMISSION, KIND_FAULT, 0,
                                 "this process may not manage it; its creator can grant MANAGE "
                                 "(acltdtGrantQueue)"},
    [CAUSE_QUEUE_ROUTED] = {ACL_ERROR_FAILURE, KIND_FAULT, 0,
                            "it is part of a route; unbind it first (acltdtUnbindQueueRoutes)"},
    [CAUSE_QUEUE_NOT_ROUTED] = {ACL_ERROR_RT_DRV_INTERNAL_ERROR, KIND_FAULT, 0,
                                "it is no queue of this process that has a part in a route"},

    [CAUSE_GRANT_PID] = {ACL_ERROR_RT_PARAM_INVALID, KIND_FAULT, 0,
                         "this is no pid: pids begin at 1"},
    [CAUSE_GRANT_NO_PROCESS] = {ACL_ERROR_RT_INTERNAL_ERROR, KIND_FAULT, 0,
                                "there is no such process"},
    [CAUSE_GRANTS_OF_QUEUE] = {ACL_ERROR_RT_RESOURCE_ALLOC_FAIL, KIND_LIMIT, 0,
                               "1024 processes that have not attached to the queue have a grant "
                               "already; let them attach, or take grants back"},

    [CAUSE_NOT_AN_EVENTFD] = {ACL_ERROR_RT_PARAM_INVALID, KIND_FAULT, 0,
                              "it is no eventfd; make one by eventfd(2)"},
    [CAUSE_EVENT_FD_NUMBER] = {ACL_ERROR_RT_PARAM_INVALID, KIND_FAULT, 0,
                               "its number is beyond those of a session"},
    [CAUSE_EVENT_FDS_OF_SESSION] = {ACL_ERROR_RT_RESOURCE_ALLOC_FAIL, KIND_LIMIT, 0,
                                    "this process has as many that wait for a record as one may "
                                    "have; let some be written first"},
    [CAUSE_EVENT_FD_KERNEL] = {ACL_ERROR_RT_FEATURE_NOT_SUPPORT, KIND_FAULT, 0,
                               "npud cannot use io_submit() on this kernel, or not now"},

    [CAUSE_ROUTE_BROKEN] = {ACL_ERROR_FAILURE, KIND_FAULT, 0,
                            "it has lost a queue and does not heal; unbind it first"},
    [CAUSE_ROUTE_TO_ITSELF] = {ACL_ERROR_FAILURE, KIND_FAULT, 0,
                               "a queue cannot be routed to itself"},
    [CAUSE_ROUTE_FROM_DESTINATION] = {ACL_ERROR_FAILURE, KIND_FAULT, 0,
                                      "it is the destination of a route, and so cannot be a "
                                      "source: routes are not chained"},
    [CAUSE_ROUTE_TO_SOURCE] = {ACL_ERROR_FAILURE, KIND_FAULT, 0,
                               "it is the source of a route, and so cannot be a destination: "
                               "routes are not chained"},
    [CAUSE_ROUTE_OF_OTHERS] = {ACL_ERROR_RT_NO_PERMISSION, KIND_FAULT, 0,
                               "this process has not bound it, and may manage neither queue"},
};

static void explain_limit(struct call *call, enum cause cause, const struct user *payer,
                          const char *what)
{
    enum resource resource = rows[cause].resource;

    call_fail(call, 0,
              "%s: user %u has %llu of at most %llu %s ([limits] %s); give some back, or have an "
              "administrator raise the limit",
              what, (unsigned)payer->uid, (unsigned long long)payer->used[resource],
              call_limit(call, resource), rows[cause].why, resource_names[resource]);
}

__attribute__((format(printf, 4, 0))) static void explain_cause(struct call *call, enum cause cause,
                                                                const struct user *payer,
                                                                const char *fmt, va_list ap)
{
    char what[sizeof(call->message)];

    assert(rows[cause].why);
    vsnprintf(what, sizeof(what), fmt, ap);
    if (rows[cause].kind == KIND_USER)
        explain_limit(call, cause, payer, what);
    else
        call_fail(call, 0, "%s: %s", what, rows[cause].why);
}

void refuse_explain(struct call *call, enum cause cause, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    explain_cause(call, cause, call->session->user, fmt, ap);
    va_end(ap);
}

static int32_t error_of(struct call *call, enum cause cause)
{
    return rows[cause].kind == KIND_FAULT ? rows[cause].error
                                          : call_tell_limit(call, rows[cause].error);
}

int32_t refuse(struct call *call, enum cause cause, const char *fmt, ...)
{
    va_list ap;

    if (cause == CAUSE_NONE)
        return 0;
    va_start(ap, fmt);
    explain_cause(call, cause, call->session->user, fmt, ap);
    va_end(ap);
    return error_of(call, cause);
}

int32_t refuse_payer(struct call *call, enum cause cause, const struct user *payer, const char *fmt,
                     ...)
{
    va_list ap;

    if (cause == CAUSE_NONE)
        return 0;
    va_start(ap, fmt);
    explain_cause(call, cause, payer, fmt, ap);
    va_end(ap);
    return error_of(call, cause);
}
