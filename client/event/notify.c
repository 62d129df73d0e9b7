/*
 * Notifies and count notifies, the library's side: names of what npud has. Their state is npud's
 * own; what the library does is to check, to ask and to submit tasks.
 */
#include <string.h>

#include "acl/acl.h"
#include "client/check/checked.h"
#include "client/runtime/context.h"
#include "client/core/error.h"
#include "client/core/handle_error.h"
#include "client/core/handle.h"
#include "client/runtime/importer_pids.h"
#include "client/runtime/stream.h"
#include "proto/util/clock.h"

#define KEY_SIZE 65 /* characters of a key, and its NUL */

struct notify {
    /* in session->notifies: the handle. Not npud's slot. Constant while it lives */
    struct slot slot;
    struct session *session;
    enum handle_kind kind; /* HANDLE_NOTIFY, HANDLE_COUNT_NOTIFY */
    uint32_t device;
    uint32_t remote;
    uint32_t remote_generation;
    uint32_t id;
};

/* --- finding --- */

static int bad_notify(const char *function, enum handle_kind kind, const void *handle)
{
    return handle_error(ACL_ERROR_RT_INVALID_HANDLE, function, kind, handle);
}

/*
 * A copy, since another thread may destroy it and make another one meanwhile: what is copied is of
 * the notify that was meant if the tag is the same afterwards.
 */
static bool copy_of(struct session *s, enum handle_kind kind, void *handle, struct notify *copy)
{
    struct notify *n;

    pthread_mutex_lock(&s->lock);
    n = handle_get(&s->notifies, kind, handle);
    if (n && n->kind == kind)
        *copy = *n;
    else
        n = NULL;
    pthread_mutex_unlock(&s->lock);
    return n != NULL;
}

/* A copy of the notify that handle names. Needs a context. */
static int get_notify(const char *function, enum handle_kind kind, void *handle,
                      struct notify *copy)
{
    struct session *s = session_peek();
    struct context *c;
    int error = process_enter();

    *copy = (struct notify){.kind = kind};
    if (error != 0)
        return error;
    if (!s || !copy_of(s, kind, handle, copy))
        return ERROR_NOT_ZERO(s && session_lost(s) ? session_error_lost(function)
                                                   : bad_notify(function, kind, handle));
    c = context_get(function, &error);
    return c ? 0 : error;
}

/* The same in all processes, as long as it lives. */
static void note_named(enum check_kind kind, const struct notify *n, bool imported)
{
    if (checked_runs())
        checked_notify(kind, n->remote, n->remote_generation,
                       ((uint64_t)n->device + 1) << 32 | n->id, n->kind == HANDLE_COUNT_NOTIFY,
                       imported);
}

/* --- create, destroy --- */

/* Send the request that gives a notify, and make its local object. */
static int obtain_notify(struct session *s, const char *function, enum handle_kind kind,
                         Npud__Request *request, void **handle, uint32_t *device)
{
    Npud__Reply *reply = NULL;
    struct notify *n;
    int error;

    pthread_mutex_lock(&s->lock);
    n = slots_take(&s->notifies);
    pthread_mutex_unlock(&s->lock);
    if (!n)
        return error_set(ACL_ERROR_RT_NO_NOTIFY_RESOURCE, "%s: a process can have %u notifies",
                         function, SESSION_NOTIFIES_MAX);
    error = session_request(s, function, request, &reply, NULL);
    pthread_mutex_lock(&s->lock);
    if (error == 0) {
        n->session = s;
        n->kind = kind;
        n->device = reply->notify->device;
        n->remote = reply->notify->slot;
        n->remote_generation = reply->notify->generation;
        n->id = reply->notify->notify_id;
        note_named(CHECK_NOTIFY, n, request->body_case == NPUD__REQUEST__BODY_IMPORT_NOTIFY);
        slots_publish(n);
        *handle = handle_of(kind, n);
        if (device)
            *device = n->device;
    } else {
        slots_put(&s->notifies, n);
    }
    pthread_mutex_unlock(&s->lock);
    session_reply_free(reply);
    return error;
}

static int create_notify(const char *function, enum handle_kind kind, void **handle)
{
    struct context *c = FIND_OR_RETURN(context_get, function);
    REQUEST(create_notify, CREATE_NOTIFY, .device = c->device,
            .counts = kind == HANDLE_COUNT_NOTIFY);

    return obtain_notify(c->session, function, kind, &request, handle, NULL);
}

static int destroy_notify(const char *function, enum handle_kind kind, void *handle)
{
    REQUEST(destroy_notify, DESTROY_NOTIFY);
    struct notify copy, *n;
    struct session *s;
    int error;

    RETURN_IF_ERROR(get_notify(function, kind, handle, &copy));
    /* Of two threads that destroy it, one does. */
    s = copy.session;
    pthread_mutex_lock(&s->lock);
    n = handle_get(&s->notifies, kind, handle);
    if (n)
        slots_unpublish(n);
    pthread_mutex_unlock(&s->lock);
    if (!n)
        return bad_notify(function, kind, handle);
    in.slot = copy.remote;
    note_named(CHECK_NOTIFY_GONE, &copy, false);
    error = session_command(s, function, &request);
    pthread_mutex_lock(&s->lock);
    slots_put(&s->notifies, n);
    pthread_mutex_unlock(&s->lock);
    return error;
}

aclError aclrtCreateNotify(aclrtNotify *notify, uint64_t flag)
{
    CALL_SCOPE;

    REQUIRE(notify);
    if (flag != ACL_NOTIFY_DEFAULT && flag != ACL_NOTIFY_DEVICE_USE_ONLY)
        return error_set(ACL_ERROR_RT_PARAM_INVALID,
                         "aclrtCreateNotify: flag 0x%llx is not one of ACL_NOTIFY_DEFAULT (0) and "
                         "ACL_NOTIFY_DEVICE_USE_ONLY (1)",
                         (unsigned long long)flag);
    return create_notify(__func__, HANDLE_NOTIFY, notify);
}

aclError aclrtDestroyNotify(aclrtNotify notify)
{
    CALL_SCOPE;

    REQUIRE(notify);
    return destroy_notify(__func__, HANDLE_NOTIFY, notify);
}

/* --- in streams --- */

/* For a task: 0 and UINT32_MAX are no limit. */
static uint64_t timeout_ns_of(uint32_t seconds)
{
    return seconds == UINT32_MAX ? 0 : seconds * NSEC_PER_SEC;
}

/*
 * Submit a task on a notify to stream; op and parameters are set. same_device: refuse (107000) when
 * the current device is another than the notify's.
 */
static int submit_task(const char *function, enum handle_kind kind, void *handle, void *stream,
                       struct task *task, bool same_device)
{
    struct notify n;
    struct stream *s;
    int error;

    RETURN_IF_ERROR(get_notify(function, kind, handle, &n));
    s = FIND_OR_RETURN(stream_lock, function, stream);

    if (same_device && s->device != n.device) {
        error = error_set(ACL_ERROR_RT_PARAM_INVALID,
                          "%s: the notify is of device %u, and only streams of that device can "
                          "wait for it (this one: device %u)",
                          function, n.device, s->device);
    } else {
        task->object = n.remote;
        task->generation = n.remote_generation;
        error = stream_submit(s, function, task);
    }
    stream_unlock(s);
    return error;
}

aclError aclrtRecordNotify(aclrtNotify notify, aclrtStream stream)
{
    CALL_SCOPE;
    struct task task = {.op = TASK_NOTIFY_RECORD};

    REQUIRE(notify);
    return submit_task(__func__, HANDLE_NOTIFY, notify, stream, &task, false);
}

aclError aclrtWaitAndResetNotify(aclrtNotify notify, aclrtStream stream, uint32_t timeout)
{
    CALL_SCOPE;
    struct task task = {.op = TASK_NOTIFY_WAIT, .notify.timeout_ns = timeout_ns_of(timeout)};

    REQUIRE(notify);
    return submit_task(__func__, HANDLE_NOTIFY, notify, stream, &task, true);
}

/* --- from the host --- */

aclError aclrtGetNotifyId(aclrtNotify notify, uint32_t *notifyId)
{
    CALL_SCOPE;
    struct notify n;

    REQUIRE(notify);
    REQUIRE(notifyId);
    RETURN_IF_ERROR(get_notify(__func__, HANDLE_NOTIFY, notify, &n));
    *notifyId = n.id;
    return 0;
}

static int reset_notify(const char *function, aclrtNotify notify)
{
    struct notify n;

    if (!notify)
        return error_set(ACL_ERROR_RT_PARAM_INVALID, "%s: a notify of the array is NULL", function);
    RETURN_IF_ERROR(get_notify(function, HANDLE_NOTIFY, notify, &n));
    REQUEST(reset_notify, RESET_NOTIFY, .slot = n.remote);

    RETURN_IF_ERROR(session_command(n.session, function, &request));
    note_named(CHECK_NOTIFY_RESET, &n, false);
    return 0;
}

aclError aclrtNotifyBatchReset(aclrtNotify *notifies, size_t num)
{
    CALL_SCOPE;
    uint32_t n = (uint32_t)num; /* as the API documentation has it */
    int error = 0;

    REQUIRE(notifies);
    if (n == 0)
        return error_set(ACL_ERROR_RT_PARAM_INVALID, "aclrtNotifyBatchReset: num is 0");
    if (!context_get(__func__, &error))
        return error;
    for (uint32_t i = 0; i < n && error == 0; i++)
        error = reset_notify(__func__, notifies[i]);
    return error;
}

/* --- between processes --- */

aclError aclrtNotifyGetExportKey(aclrtNotify notify, char *key, size_t len, uint64_t flags)
{
    CALL_SCOPE;
    Npud__Reply *reply = NULL;
    struct notify n;

    REQUIRE(notify);
    REQUIRE(key);
    if (len < KEY_SIZE)
        return error_set(ACL_ERROR_RT_PARAM_INVALID,
                         "aclrtNotifyGetExportKey: a key takes %d bytes, len is %zu", KEY_SIZE,
                         len);
    if (flags & ~ACL_RT_NOTIFY_EXPORT_FLAG_DISABLE_PID_VALIDATION)
        return error_set(ACL_ERROR_RT_PARAM_INVALID,
                         "aclrtNotifyGetExportKey: flags 0x%llx: 0 or "
                         "ACL_RT_NOTIFY_EXPORT_FLAG_DISABLE_PID_VALIDATION",
                         (unsigned long long)flags);
    RETURN_IF_ERROR(get_notify(__func__, HANDLE_NOTIFY, notify, &n));
    REQUEST(export_notify, EXPORT_NOTIFY, .slot = n.remote, .any_pid = flags != 0);

    RETURN_IF_ERROR(session_request(n.session, __func__, &request, &reply, NULL));
    strncpy(key, reply->export_notify->key, KEY_SIZE - 1);
    key[KEY_SIZE - 1] = '\0';
    session_reply_free(reply);
    return 0;
}

static int send_pids(void *context, int32_t *pids, size_t count)
{
    const struct notify *n = context;
    REQUEST(allow_notify, ALLOW_NOTIFY, .slot = n->remote, .pids = pids, .n_pids = count);

    return session_command(n->session, "aclrtNotifySetImportPid", &request);
}

aclError aclrtNotifySetImportPid(aclrtNotify notify, int32_t *pid, size_t num)
{
    CALL_SCOPE;
    struct notify n;

    REQUIRE(notify);
    REQUIRE(pid);
    if (num == 0 || num > INT32_MAX)
        return error_set(ACL_ERROR_RT_PARAM_INVALID, "aclrtNotifySetImportPid: num is %zu", num);
    RETURN_IF_ERROR(get_notify(__func__, HANDLE_NOTIFY, notify, &n));
    return importer_pids_send(__func__, pid, num, send_pids, &n);
}

aclError aclrtNotifySetImportPidInterServer(aclrtNotify notify, aclrtServerPid *serverPids,
                                            size_t num)
{
    CALL_SCOPE;
    struct notify n;

    if (!notify || !serverPids || num == 0)
        return error_set(ACL_ERROR_RT_PARAM_INVALID, "%s: an argument is NULL or 0", __func__);
    for (size_t i = 0; i < num; i++)
        if (!serverPids[i].pid || serverPids[i].num != 1)
            return error_set(ACL_ERROR_RT_PARAM_INVALID,
                             "%s: entry %zu must have one pid, and has %s", __func__, i,
                             serverPids[i].pid ? "another number" : "NULL");
    RETURN_IF_ERROR(get_notify(__func__, HANDLE_NOTIFY, notify, &n));
    return error_set(ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
                     "%s: these devices have no fabric to other servers", __func__);
}

#define IMPORT_FLAGS 3u

aclError aclrtNotifyImportByKey(aclrtNotify *notify, const char *key, uint64_t flags)
{
    CALL_SCOPE;
    char text[KEY_SIZE + 1] = "";
    REQUEST(import_notify, IMPORT_NOTIFY, .key = text);
    struct context *c;
    uint32_t device;
    int error;

    REQUIRE(notify);
    REQUIRE(key);
    if ((uint32_t)flags & ~IMPORT_FLAGS)
        return error_set(ACL_ERROR_RT_PARAM_INVALID,
                         "aclrtNotifyImportByKey: flags 0x%llx: allowed are the bits 0x1 and 0x2",
                         (unsigned long long)flags);
    c = FIND_OR_RETURN(context_get, __func__);
    /*
     * One more than a key has is enough to see that it is none. What is no ASCII cannot be in a
     * message.
     */
    for (size_t i = 0; i < KEY_SIZE && key[i]; i++)
        text[i] = key[i] & (char)0x80 ? '?' : key[i];
    error = obtain_notify(c->session, __func__, HANDLE_NOTIFY, &request, notify, &device);
    if (error == 0 && (flags & ACL_RT_NOTIFY_IMPORT_FLAG_ENABLE_PEER_ACCESS))
        context_enable_peer_device(c, device);
    return error;
}

/* --- count notifies: a counter in place of a notify's bit, within one process --- */

aclError aclrtCntNotifyCreate(aclrtCntNotify *cntNotify, uint64_t flag)
{
    CALL_SCOPE;

    REQUIRE_OR(ACL_ERROR_RT_PARAM_INVALID, cntNotify);
    if (flag != 0)
        return error_set(ACL_ERROR_RT_PARAM_INVALID, "aclrtCntNotifyCreate: flag must be 0");
    return create_notify(__func__, HANDLE_COUNT_NOTIFY, cntNotify);
}

aclError aclrtCntNotifyDestroy(aclrtCntNotify cntNotify)
{
    CALL_SCOPE;

    REQUIRE_OR(ACL_ERROR_RT_PARAM_INVALID, cntNotify);
    return destroy_notify(__func__, HANDLE_COUNT_NOTIFY, cntNotify);
}

static int bad_mode(const char *function, int mode)
{
    return error_set(ACL_ERROR_RT_PARAM_INVALID, "%s: there is no mode %d", function, mode);
}

aclError aclrtCntNotifyRecord(aclrtCntNotify cntNotify, aclrtStream stream,
                              aclrtCntNotifyRecordInfo *info)
{
    CALL_SCOPE;
    struct task task = {.op = TASK_COUNT_RECORD};
    unsigned mode;

    REQUIRE_OR(ACL_ERROR_RT_PARAM_INVALID, cntNotify);
    REQUIRE(info);
    mode = (unsigned)info->mode;
    if (mode > ACL_RT_CNT_NOTIFY_RECORD_BIT_AND_MODE || mode == 3)
        return bad_mode(__func__, (int)mode);
    task.notify.mode = (uint8_t)mode;
    task.notify.value = info->value;
    return submit_task(__func__, HANDLE_COUNT_NOTIFY, cntNotify, stream, &task, false);
}

aclError aclrtCntNotifyWaitWithTimeout(aclrtCntNotify cntNotify, aclrtStream stream,
                                       aclrtCntNotifyWaitInfo *info)
{
    CALL_SCOPE;
    struct task task = {.op = TASK_COUNT_WAIT};
    unsigned mode;

    REQUIRE_OR(ACL_ERROR_RT_PARAM_INVALID, cntNotify);
    REQUIRE(info);
    mode = (unsigned)info->mode;
    if (mode > ACL_RT_CNT_NOTIFY_WAIT_EQUAL_WITH_BITMASK_MODE)
        return bad_mode(__func__, (int)mode);
    task.notify.mode = (uint8_t)mode;
    task.notify.value = info->value;
    task.notify.clear = info->isClear != 0;
    task.notify.timeout_ns = timeout_ns_of(info->timeout);
    return submit_task(__func__, HANDLE_COUNT_NOTIFY, cntNotify, stream, &task, false);
}

aclError aclrtCntNotifyReset(aclrtCntNotify cntNotify, aclrtStream stream)
{
    CALL_SCOPE;
    struct task task = {.op = TASK_COUNT_RECORD,
                        .notify.mode = ACL_RT_CNT_NOTIFY_RECORD_SET_VALUE_MODE};

    REQUIRE_OR(ACL_ERROR_RT_PARAM_INVALID, cntNotify);
    return submit_task(__func__, HANDLE_COUNT_NOTIFY, cntNotify, stream, &task, false);
}

aclError aclrtCntNotifyGetId(aclrtCntNotify cntNotify, uint32_t *notifyId)
{
    CALL_SCOPE;
    struct notify n;

    REQUIRE_OR(ACL_ERROR_RT_PARAM_INVALID, cntNotify);
    REQUIRE_OR(ACL_ERROR_RT_PARAM_INVALID, notifyId);
    RETURN_IF_ERROR(get_notify(__func__, HANDLE_COUNT_NOTIFY, cntNotify, &n));
    *notifyId = n.id;
    return 0;
}

static void init(struct session *s, uint32_t seed)
{
    slots_init(&s->notifies, sizeof(struct notify), SESSION_NOTIFIES_MAX, seed);
}

const struct part notify_part = {.session_init = init};
