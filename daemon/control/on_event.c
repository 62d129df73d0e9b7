/*
 * Requests about events: those of one process, IPC events, and the descriptors that tell of
 * records.
 */
#include "daemon/core/call.h"

#include <string.h>

#include "acl/acl_base.h"
#include "daemon/core/event.h"
#include "daemon/control/event_fd.h"
#include "daemon/control/fetch.h"
#include "daemon/core/refuse.h"
#include "daemon/core/ipc_event.h"
#include "daemon/core/ipc_record.h"
#include "daemon/core/ipc_search.h"
#include "daemon/core/release.h"
#include "daemon/core/server.h"
#include "daemon/core/session.h"
#include "proto/shm/arena.h"
#include "proto/wire/packet.h"

/* --- events --- */

static void read_fences(Npud__Fence **in, size_t n, struct fence *out)
{
    for (size_t i = 0; i < n; i++)
        out[i] = (struct fence){.stream = in[i]->stream, .position = in[i]->position};
}

static int32_t too_many_fences(struct call *call)
{
    call->fault = true;
    return refuse_with_error(call, ACL_ERROR_RT_PARAM_INVALID, "more than %u fences", FENCES_MAX);
}

int32_t on_create_event(struct call *call)
{
    const Npud__CreateEvent *in = call->request->create_event;
    Npud__CreateEventReply *out;
    struct event_obj *event;
    enum cause cause = event_obj_new(call->session, in->flags, in->device, &event, &call->fd);

    if (cause != CAUSE_NONE)
        return refuse(call, cause, "no event");
    out = CALL_REPLY(call, create_event, CREATE_EVENT);
    out->slot = event->slot.number;
    out->generation = slot_generation(event);
    out->new_segment = call->fd >= 0;
    return 0;
}

int32_t on_destroy_event(struct call *call)
{
    const Npud__DestroyEvent *in = call->request->destroy_event;
    struct fence fences[FENCES_MAX];
    enum cause cause;

    if (in->n_fences > FENCES_MAX)
        return too_many_fences(call);
    read_fences(in->fences, in->n_fences, fences);
    cause = release_event(call->session, call->of.event, fences, in->n_fences, in->all_streams);
    if (cause != CAUSE_NONE)
        return refuse(call, cause, "the event is not destroyed");
    if (in->new_segment)
        session_arena_file_resend(&call->session->event_files, in->slot / ARENA_EVENTS);
    return 0;
}

/* --- IPC events --- */

static void reply_ipc_event(struct call *call, struct ipc_open *open)
{
    Npud__IpcEventReply *out;

    out = CALL_REPLY(call, ipc_event, IPC_EVENT);
    out->slot = open->slot.number;
    out->generation = slot_generation(open);
    out->opener = open->opener->slot.number;
    out->event = open->event->id;
    call->fd = open->event->fd;
}

int32_t on_create_ipc_event(struct call *call)
{
    struct ipc_open *open;
    enum cause cause = ipc_event_new(call->session, call->request->create_ipc_event->device, &open);

    if (cause != CAUSE_NONE)
        return refuse(call, cause, "no IPC event");
    reply_ipc_event(call, open);
    return 0;
}

int32_t on_export_ipc_event(struct call *call)
{
    struct ipc_open *open = call->of.ipc;
    Npud__ExportIpcEventReply *out;
    enum cause cause = ipc_event_export(open);

    if (cause != CAUSE_NONE)
        return refuse(call, cause, "the event is not exported");
    out = CALL_REPLY(call, export_ipc_event, EXPORT_IPC_EVENT);
    out->handle.data = (uint8_t *)&open->event->handle;
    out->handle.len = sizeof(open->event->handle);
    return 0;
}

/* False: these are not the bytes of a handle. */
static bool read_handle(ProtobufCBinaryData bytes, struct ipc_handle *handle)
{
    if (bytes.len != sizeof(*handle))
        return false;
    memcpy(handle, bytes.data, sizeof(*handle));
    return true;
}

int32_t on_open_ipc_event(struct call *call)
{
    const Npud__OpenIpcEvent *in = call->request->open_ipc_event;
    struct ipc_handle handle;
    struct ipc_open *open;
    enum cause cause = read_handle(in->handle, &handle)
                           ? ipc_event_open(call->session, &handle, &open)
                           : CAUSE_IPC_HANDLE;

    if (cause != CAUSE_NONE)
        return refuse_plainly(call, cause);
    reply_ipc_event(call, open);
    return 0;
}

int32_t on_close_ipc_event(struct call *call)
{
    const Npud__CloseIpcEvent *in = call->request->close_ipc_event;
    struct fence fences[FENCES_MAX];

    if (in->n_fences > FENCES_MAX)
        return too_many_fences(call);
    read_fences(in->fences, in->n_fences, fences);
    return refuse(call, release_ipc_event(call->of.ipc, fences, in->n_fences, in->all_streams),
                  "the event is not destroyed");
}

int32_t on_explain_record(struct call *call)
{
    const Npud__ExplainRecord *in = call->request->explain_record;
    struct ipc_open *open = call->of.ipc;
    Npud__ExplainRecordReply *out;
    bool over;
    int32_t error;

    out = CALL_REPLY(call, explain_record, EXPLAIN_RECORD);
    over = ipc_record_outcome(open->event, in->number, &error, &out->pid);
    out->failed = over && error != 0;
    if (!over || out->failed)
        out->unsubmitted = ipc_record_unsubmitted(open->event, in->number, &out->pid);
    out->failed |= out->unsubmitted;
    out->missing = !over && !out->failed && ipc_search_misses(open->event, in->number);
    if (in->search && (!over || out->failed)) /* others may be as this one */
        ipc_search_begin(open->event, call->session, in->number);
    return 0;
}

int32_t on_ipc_event_info(struct call *call)
{
    const Npud__IpcEventInfo *in = call->request->ipc_event_info;
    Npud__IpcEventInfoReply *out;
    struct ipc_handle handle;
    struct ipc_event_info info;
    enum cause cause = read_handle(in->handle, &handle)
                           ? ipc_event_info(call->session, &handle, &info)
                           : CAUSE_IPC_HANDLE;

    if (cause != CAUSE_NONE)
        return refuse_plainly(call, cause);
    out = CALL_REPLY(call, ipc_event_info, IPC_EVENT_INFO);
    out->device = info.device;
    out->pid = info.pid;
    out->alive = info.alive;
    return 0;
}

/* --- event descriptors --- */

int32_t on_notify_fd(struct call *call)
{
    const Npud__NotifyFd *in = call->request->notify_fd;
    struct captured captured = {.stream = in->slot, .target = in->target};

    if (in->number >= EVENT_FDS_MAX) {
        call->fault = true;
        return refuse_with_error(call, ACL_ERROR_RT_PARAM_INVALID, "no such number");
    }
    if (in->ipc) {
        captured.open = fetch_ipc_event(call->session, in->slot);
        if (!captured.open || slot_generation(captured.open) != in->generation)
            return refuse(call, CAUSE_NO_OBJECT, "no such event");
    }
    return refuse(call, event_fd_watch(call->session, in->number, &captured),
                  "descriptor to be written for an event");
}
