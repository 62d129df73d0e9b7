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
#include "proto/wire/executor_message.h"
#include "proto/wire/packet.h"

enum kind {
    KIND_FAULT, /* of the request */
    KIND_LIMIT, /* npud has no more */
    KIND_USER,  /* the user has no more of `resource`; the sentence says how much there is */
};

#define NO_MEMORY "npud has no memory; try again when other programs have freed some"
#define NO_DESCRIPTORS                                                                             \
    "npud has no descriptors left; try again when other programs have ended, or raise "            \
    "LimitNOFILE of npud.service"

static const struct {
    int32_t error;
    enum kind kind;
    enum resource resource;
    const char *why;
    uint32_t number[2];
    const char *name;
} rows[] = {
#define FAULT(cause, error, why, ...) [cause] = {error, KIND_FAULT, 0, why, {__VA_ARGS__}, #cause},
#define LIMIT(cause, error, why, ...) [cause] = {error, KIND_LIMIT, 0, why, {__VA_ARGS__}, #cause},
#define USER(cause, error, resource, unit)                                                         \
    [cause] = {error, KIND_USER, resource, unit, {0}, #cause},
#include "daemon/core/causes.inc"
};

enum cause cause_of_device(int error)
{
    switch (error) {
    case 0:
        return CAUSE_NONE;
    case -EINPROGRESS:
        return CAUSE_DEVICE_AT_IT;
    case -EOWNERDEAD:
        return CAUSE_EXECUTOR_ENDED;
    case -ENOEXEC:
        return CAUSE_EXECUTOR_START;
    case -EUSERS:
        return CAUSE_EXECUTOR_UIDS;
    case -EDQUOT:
        return CAUSE_USER_EXECUTORS;
    case -ENOSPC:
        return CAUSE_USER_MAPPINGS;
    case -EMLINK:
        return CAUSE_USER_DESCRIPTORS;
    case -ENXIO:
        return CAUSE_DEVICE_REFUSED;
    case -ENODATA:
        return CAUSE_DEVICE_FULL;
    case -EOPNOTSUPP:
        return CAUSE_DEVICE_SHARES_NOT;
    default:
        return cause_of_file(error);
    }
}

/* Not kept: readers of counters know that they begin anew with the process. */
static uint64_t counts[CAUSE_COUNT];

void refuse_count(enum cause cause)
{
    counts[cause]++;
}

uint64_t refuse_counted(enum cause cause)
{
    return counts[cause];
}

const char *refuse_name(enum cause cause)
{
    return cause == CAUSE_NONE ? "CAUSE_OTHER" : rows[cause].name;
}

/* Does a segment of buffers that is given back give some of it back? */
static bool of_buffers(enum resource resource)
{
    return resource == RESOURCE_FDS || resource == RESOURCE_MAPPINGS ||
           resource == RESOURCE_MBUF_MEMORY;
}

/* A sentence of the table, with its numbers in it. */
static void write_why(char *text, size_t size, enum cause cause)
{
    const uint32_t *number = rows[cause].number;
    size_t used = 0;

    for (const char *c = rows[cause].why; *c && used + 1 < size; c++) {
        if (*c != '#') {
            text[used++] = *c;
            continue;
        }
        snprintf(text + used, size - used, "%u", *number++);
        used += strlen(text + used);
    }
    text[used] = 0;
}

static void write_user_limit(char *text, size_t size, enum cause cause, const struct user *payer)
{
    enum resource resource = rows[cause].resource;

    snprintf(text, size,
             "user %u has %llu of at most %llu %s ([limits] %s); give some back, or have an "
             "administrator raise the limit in npud.conf (systemctl reload npud)",
             (unsigned)payer->payer->uid, (unsigned long long)user_used(payer, resource),
             (unsigned long long)user_limit(payer, resource), rows[cause].why,
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
    char what[sizeof(call->body->message)];

    vsnprintf(what, sizeof(what), fmt, ap);
    return refuse_text(call->body->message, sizeof(call->body->message), cause, payer, what);
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
    call->cause = cause;
    call->payer = payer;
    va_start(ap, fmt);
    error = refuse_in_words(call, cause, payer, fmt, ap);
    va_end(ap);
    return error;
}

int32_t refuse_plainly(struct call *call, enum cause cause)
{
    call->cause = cause;
    call->payer = call->session->user;
    return refuse_text(call->body->message, sizeof(call->body->message), cause, call->payer, "");
}

/* Limits are logged: they may be what a client is after. */
void refuse_log(const struct call *call)
{
    if (call->cause != CAUSE_NONE && rows[call->cause].kind != KIND_FAULT)
        log_client_limit(&call->session->log, "at a limit: %s", call->body->message);
}

bool refuse_lacks_buffers(const struct call *call, const struct user **payer)
{
    *payer = NULL;
    switch (call->cause) {
    case CAUSE_NONE:
        return false;
    case CAUSE_DESCRIPTORS:
    case CAUSE_FILE_DESCRIPTORS:
    case CAUSE_SEGMENT_MEMORY:
    case CAUSE_SEGMENT_IDS:
        return true;
    case CAUSE_SEGMENTS_OF_POOL:
    case CAUSE_JOB_MEMORY:
        break;
    default:
        if (rows[call->cause].kind != KIND_USER || !of_buffers(rows[call->cause].resource))
            return false;
    }
    *payer = call->payer->payer;
    return true;
}

int32_t refuse_with_error(struct call *call, int32_t error, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(call->body->message, sizeof(call->body->message), fmt, ap);
    va_end(ap);
    return error;
}
