/* Requests about notifies. */
#include "daemon/core/call.h"

#include <string.h>

#include "acl/acl_base.h"
#include "daemon/core/device.h"
#include "daemon/core/notify.h"
#include "daemon/core/server.h"
#include "daemon/core/session.h"
#include "proto/shm/arena.h"

static void reply_notify(struct call *call, const struct notify_open *open)
{
    static Npud__NotifyReply out;

    out = (Npud__NotifyReply)NPUD__NOTIFY_REPLY__INIT;
    out.slot = open->slot.number;
    out.generation = slot_generation(open);
    out.notify_id = open->notify->id->slot.number;
    out.device = open->notify->device->index;
    call->reply.notify = &out;
    call->reply.body_case = NPUD__REPLY__BODY_NOTIFY;
}

static int32_t too_many_notifies(struct call *call, int32_t error)
{
    return call_fail_limit(
        call, error,
        "no notify: this session has %u (at most %u), its user may have %llu, or the "
        "device has no id left",
        call->session->notifies.live, SESSION_NOTIFIES_MAX, call_limit(call, RESOURCE_NOTIFIES));
}

int32_t on_create_notify(struct call *call)
{
    const Npud__CreateNotify *in = call->request->create_notify;
    struct device *device = devices_get(call->session->server->devices, in->device);
    struct notify_open *open;
    int32_t error;

    if (!device)
        return call_no_device(call, in->device);
    error = notify_new(call->session, device, in->counts, &open);
    if (error != 0)
        return too_many_notifies(call, error);
    reply_notify(call, open);
    return 0;
}

int32_t on_destroy_notify(struct call *call)
{
    notify_open_free(call->of.notify);
    return 0;
}

int32_t on_reset_notify(struct call *call)
{
    int32_t error = notify_reset(call->of.notify);

    return error == 0 ? 0
                      : call_fail(call, error,
                                  "the notify has been exported: only a notify that no other "
                                  "process uses can be reset");
}

int32_t on_export_notify(struct call *call)
{
    const Npud__ExportNotify *in = call->request->export_notify;
    struct notify_open *open = call->of.notify;
    static Npud__ExportNotifyReply out;
    static char key[NOTIFY_KEY_TEXT + 1];
    int32_t error;

    error = notify_export(open, in->any_pid);
    if (error != 0)
        return call_fail(call, error,
                         "a notify can be exported once, by the process that has created it");
    notify_key_encode(&open->notify->key, key);
    out = (Npud__ExportNotifyReply)NPUD__EXPORT_NOTIFY_REPLY__INIT;
    out.key = key;
    call->reply.export_notify = &out;
    call->reply.body_case = NPUD__REPLY__BODY_EXPORT_NOTIFY;
    return 0;
}

int32_t on_allow_notify(struct call *call)
{
    const Npud__AllowNotify *in = call->request->allow_notify;
    struct notify_open *open = call->of.notify;
    int32_t error;

    error = notify_allow(open, in->pids, in->n_pids);
    if (error == ACL_ERROR_RT_PARAM_INVALID)
        return call_fail(call, error,
                         notify_can_allow(open) ? "a pid is not positive"
                                                : "this process has not exported the notify: call "
                                                  "aclrtNotifyGetExportKey first");
    return error == 0
               ? 0
               : call_fail_limit(call, error,
                                 "the list of importers of a notify has at most %u processes",
                                 NOTIFY_PIDS_MAX);
}

static int32_t explain_import_error(struct call *call, int32_t error)
{
    switch (error) {
    case ACL_ERROR_RT_PARAM_INVALID:
        return call_fail(call, error,
                         "this text is not the key of a notify that this npud gave out");
    case ACL_ERROR_RT_INVALID_HANDLE:
        return call_fail(call, error,
                         "the notify is gone: its creator has destroyed it, or has ended");
    case ACL_ERROR_RT_NO_PERMISSION:
        return call_fail(call, error,
                         "process %d of user %u is not on the list of processes that may import "
                         "(aclrtNotifySetImportPid), or the notify is another user's",
                         (int)call->session->pid, (unsigned)call->session->uid);
    default:
        return too_many_notifies(call, error);
    }
}

int32_t on_import_notify(struct call *call)
{
    const char *key = call->request->import_notify->key;
    struct notify_open *open;
    int32_t error = notify_import(call->session, key, strlen(key), &open);

    if (error != 0)
        return explain_import_error(call, error);
    reply_notify(call, open);
    return 0;
}
