/* Requests about notifies. */
#include "daemon/core/call.h"

#include <string.h>

#include "daemon/core/device.h"
#include "daemon/core/notify.h"
#include "daemon/core/refuse.h"
#include "daemon/core/server.h"
#include "daemon/core/session.h"
#include "proto/shm/arena.h"

static void reply_notify(struct call *call, const struct notify_open *open)
{
    Npud__NotifyReply *out;

    out = CALL_REPLY(call, notify, NOTIFY);
    out->slot = open->slot.number;
    out->generation = slot_generation(open);
    out->notify_id = open->notify->id->number;
    out->device = open->notify->device->index;
}

int32_t on_create_notify(struct call *call)
{
    const Npud__CreateNotify *in = call->request->create_notify;
    struct device *device = devices_get(call->session->server->devices, in->device);
    struct notify_open *open;
    enum cause cause =
        device ? notify_new(call->session, device, in->counts, &open) : CAUSE_DEVICE_NONE;

    if (cause != CAUSE_NONE)
        return refuse(call, cause, "no notify on device %u", in->device);
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
    return refuse(call, notify_reset(call->of.notify, call->request->id),
                  "the notify is not reset");
}

int32_t on_export_notify(struct call *call)
{
    const Npud__ExportNotify *in = call->request->export_notify;
    struct notify_open *open = call->of.notify;
    Npud__ExportNotifyReply *out;
    enum cause cause = notify_export(open, in->any_pid);

    if (cause != CAUSE_NONE)
        return refuse(call, cause, "the notify is not exported");
    out = CALL_REPLY(call, export_notify, EXPORT_NOTIFY);
    out->key = call_key(call, &open->notify->key);
    return 0;
}

int32_t on_allow_notify(struct call *call)
{
    const Npud__AllowNotify *in = call->request->allow_notify;

    return refuse(call, notify_allow(call->of.notify, in->pids, in->n_pids),
                  "the list of importers of the notify is not changed");
}

int32_t on_import_notify(struct call *call)
{
    const char *key = call->request->import_notify->key;
    struct notify_open *open;
    enum cause cause = notify_import(call->session, key, strlen(key), &open);

    if (cause != CAUSE_NONE)
        return refuse(call, cause, "process %d of user %u cannot import the notify",
                      (int)call->session->pid, (unsigned)call->session->uid);
    reply_notify(call, open);
    return 0;
}
