/*
 * Requests about events: those of one process, IPC events, and the descriptors that tell of
 * records.
 */
#include "daemon/core/call.h"

#include <string.h>

#include "acl/acl_base.h"
#include "daemon/base/deferred_close.h"
#include "daemon/core/event.h"
#include "daemon/control/event_fd.h"
#include "daemon/control/fetch.h"
#include "daemon/core/refuse.h"
#include "daemon/core/ipc_event.h"
#include "daemon/core/ipc_record.h"
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

static int32_t too_many_fences(struct call *call, size_t n)
{
    if (n > FENCES_MAX) {
        call->fault = true;
        return call_fail(call, ACL_ERROR_RT_PARAM_INVALID, "more than %u fences", FENCES_MAX);
    }
    return call_fail_limit(call, ACL_ERROR_RT_RESOURCE_ALLOC_FAIL,
                           "too many destroyed events wait for streams that still use them: "
                           "synchronise these streams first");
}

int32_t on_create_event(struct call *call)
{
    const Npud__CreateEvent *in = call->request->create_event;
    static Npud__CreateEventReply out;
    struct event_obj *event;
    int32_t error = event_obj_new(call->session, in->flags, in->device, &event, &call->fd);

    if (error != 0)
        return call_fail_limit(
            call, error,
            "no event: this session has %u (at most %u), its user may have %llu, or npud "
            "is out of memory",
            call->session->events.live, SESSION_EVENTS_MAX, call_limit(call, RESOURCE_EVENTS));
    call->close_fd = true;
    out = (Npud__CreateEventReply)NPUD__CREATE_EVENT_REPLY__INIT;
    out.slot = event->slot.number;
    out.generation = slot_generation(event);
    out.new_segment = call->fd >= 0;
    call->reply.create_event = &out;
    call->reply.body_case = NPUD__REPLY__BODY_CREATE_EVENT;
    return 0;
}

int32_t on_destroy_event(struct call *call)
{
    const Npud__DestroyEvent *in = call->request->destroy_event;
    struct event_obj *event = call->of.event;
    struct fence fences[FENCES_MAX];

    if (in->n_fences > FENCES_MAX)
        return too_many_fences(call, in->n_fences);
    read_fences(in->fences, in->n_fences, fences);
    if (!event_obj_destroy(event, fences, in->n_fences, in->all_streams))
        return too_many_fences(call, 0);
    if (in->new_segment)
        session_segment_resend(&call->session->event_segments, in->slot / ARENA_EVENTS);
    return 0;
}

/* --- IPC events --- */

static void reply_ipc_event(struct call *call, struct ipc_open *open)
{
    static Npud__IpcEventReply out;

    out = (Npud__IpcEventReply)NPUD__IPC_EVENT_REPLY__INIT;
    out.slot = open->slot.number;
    out.generation = slot_generation(open);
    out.opener = open->opener->slot.number;
    out.event = open->event->id;
    call->fd = open->event->fd;
    call->reply.ipc_event = &out;
    call->reply.body_case = NPUD__REPLY__BODY_IPC_EVENT;
}

static int32_t no_ipc_event(struct call *call, int32_t error)
{
    return call_fail_limit(
        call, error,
        "no IPC event: the user may have %llu open, an event at most %u openers, or npud "
        "is out of memory or descriptors",
        call_limit(call, RESOURCE_IPC_EVENTS), IPC_OPENERS_MAX);
}

int32_t on_create_ipc_event(struct call *call)
{
    struct ipc_open *open;
    int32_t error = ipc_event_new(call->session, call->request->create_ipc_event->device, &open);

    if (error != 0)
        return no_ipc_event(call, error);
    reply_ipc_event(call, open);
    return 0;
}

int32_t on_export_ipc_event(struct call *call)
{
    struct ipc_open *open = call->of.ipc;
    static Npud__ExportIpcEventReply out;
    int32_t error;

    error = ipc_event_export(open);
    if (error != 0)
        return call_fail(call, error, "npud is out of memory");
    out = (Npud__ExportIpcEventReply)NPUD__EXPORT_IPC_EVENT_REPLY__INIT;
    out.handle.data = (uint8_t *)&open->event->handle;
    out.handle.len = sizeof(open->event->handle);
    call->reply.export_ipc_event = &out;
    call->reply.body_case = NPUD__REPLY__BODY_EXPORT_IPC_EVENT;
    return 0;
}

/* handle: as far as it was given; zero if its size was wrong. */
static int32_t explain_open_error(struct call *call, const struct ipc_handle *handle, int32_t error)
{
    switch (error) {
    case ACL_ERROR_RT_PARAM_INVALID:
        if (ipc_handle_valid(handle, IPC_HANDLE_EVENT) &&
            handle->instance != call->session->server->instance)
            return call_fail(
                call, error,
                "another npud gave out this handle: one at another socket, or one that has "
                "ended; export the event again");
        return call_fail(call, error,
                         "these 64 bytes are not an event handle that this npud gave out: pass all "
                         "64 bytes of aclrtIpcGetEventHandle unchanged");
    case ACL_ERROR_RT_INVALID_HANDLE:
        return call_fail(call, error,
                         "the event no longer exists: all handles are closed and its exporter has "
                         "exited; export it again");
    case ACL_ERROR_RT_NO_PERMISSION:
        return call_fail(call, error,
                         "the event belongs to another user, and npud lets only the same user open "
                         "it ([ipc] scope = uid in npud.conf)");
    default:
        return no_ipc_event(call, error);
    }
}

int32_t on_open_ipc_event(struct call *call)
{
    const Npud__OpenIpcEvent *in = call->request->open_ipc_event;
    struct ipc_handle handle = {0};
    struct ipc_open *open;
    int32_t error = ACL_ERROR_RT_PARAM_INVALID;

    if (in->handle.len == sizeof(handle)) {
        memcpy(&handle, in->handle.data, sizeof(handle));
        error = ipc_event_open(call->session, &handle, &open);
    }
    if (error != 0)
        return explain_open_error(call, &handle, error);
    reply_ipc_event(call, open);
    return 0;
}

int32_t on_close_ipc_event(struct call *call)
{
    const Npud__CloseIpcEvent *in = call->request->close_ipc_event;
    struct ipc_open *open = call->of.ipc;
    struct fence fences[FENCES_MAX];

    if (in->n_fences > FENCES_MAX)
        return too_many_fences(call, in->n_fences);
    read_fences(in->fences, in->n_fences, fences);
    if (!ipc_open_close(open, fences, in->n_fences, in->all_streams))
        return too_many_fences(call, 0);
    return 0;
}

int32_t on_explain_record(struct call *call)
{
    const Npud__ExplainRecord *in = call->request->explain_record;
    struct ipc_open *open = call->of.ipc;
    static Npud__ExplainRecordReply out;
    int32_t error;

    out = (Npud__ExplainRecordReply)NPUD__EXPLAIN_RECORD_REPLY__INIT;
    out.failed = ipc_record_outcome(open->event, in->number, &error, &out.pid) && error != 0;
    call->reply.explain_record = &out;
    call->reply.body_case = NPUD__REPLY__BODY_EXPLAIN_RECORD;
    return 0;
}

int32_t on_ipc_event_info(struct call *call)
{
    const Npud__IpcEventInfo *in = call->request->ipc_event_info;
    static Npud__IpcEventInfoReply out;
    struct ipc_handle handle = {0};
    struct ipc_event_info info;
    int32_t error = ACL_ERROR_RT_PARAM_INVALID;

    if (in->handle.len == sizeof(handle)) {
        memcpy(&handle, in->handle.data, sizeof(handle));
        error = ipc_event_info(call->session, &handle, &info);
    }
    if (error != 0)
        return explain_open_error(call, &handle, error);
    out = (Npud__IpcEventInfoReply)NPUD__IPC_EVENT_INFO_REPLY__INIT;
    out.device = info.device;
    out.pid = info.pid;
    out.alive = info.alive;
    call->reply.ipc_event_info = &out;
    call->reply.body_case = NPUD__REPLY__BODY_IPC_EVENT_INFO;
    return 0;
}

/* --- event descriptors --- */

int32_t on_send_descriptors(struct call *call)
{
    if (!call->session->sends_fds)
        deferred_close_accept_fds(call->session->socket);
    call->session->sends_fds = true;
    return 0;
}

int32_t on_notify_fd(struct call *call)
{
    const Npud__NotifyFd *in = call->request->notify_fd;
    struct captured captured = {.stream = in->slot, .target = in->target};
    int fd = call->in_fd;

    if (in->number >= EVENT_FDS_MAX) {
        call->fault = true;
        return call_fail(call, ACL_ERROR_RT_PARAM_INVALID, "no such number");
    }
    if (fd < 0)
        return call_fail_limit(call, ACL_ERROR_RT_RESOURCE_ALLOC_FAIL,
                               "npud has no descriptor left for the eventfd: try again later, or "
                               "raise LimitNOFILE of npud.service");
    if (in->ipc) {
        captured.open = fetch_ipc_event(call->session, in->slot);
        if (!captured.open || slot_generation(captured.open) != in->generation)
            return call_fail(call, ACL_ERROR_RT_INVALID_HANDLE,
                             "the event does not exist any more");
    }
    call->in_fd = -1;
    return refuse(call, event_fd_watch(call->session, fd, in->number, &captured),
                  "descriptor to be written for an event");
}
