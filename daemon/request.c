#include "daemon/request.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>
#include <linux/sockios.h>

#include "acl/acl_base.h"
#include "daemon/closer.h"
#include "daemon/event.h"
#include "daemon/event_fd.h"
#include "daemon/failure.h"
#include "daemon/ipc_event.h"
#include "daemon/log.h"
#include "daemon/memory.h"
#include "daemon/notify.h"
#include "daemon/release.h"
#include "daemon/server.h"
#include "daemon/session.h"
#include "daemon/stream.h"
#include "proto/arena.h"
#include "proto/npud.pb-c.h"
#include "proto/packet.h"

#define FDS_UNREAD_MAX 16

/* One request and its answer, while it is handled. */
struct call {
    struct session *session;
    const Npud__Request *request;
    Npud__Reply reply;
    char message[256];
    int in_fd;     /* came with the request; -1: none, or taken */
    int fd;        /* goes with the reply; -1: none */
    bool close_fd; /* ours: closed after it was sent */
    bool fault;    /* end the session */
};

static int32_t fail(struct call *call, int32_t error, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

static int32_t fail(struct call *call, int32_t error, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(call->message, sizeof(call->message), fmt, ap);
    va_end(ap);
    return error;
}

static unsigned long long limit(struct call *call, enum resource r)
{
    return call->session->server->users.limit[r];
}

/* As fail(), when the user or the machine has no more of something. Told once: it may be what a client is after. */
#define fail_limit(call, error, ...) tell_limit(call, fail(call, error, __VA_ARGS__))

static int32_t tell_limit(struct call *call, int32_t error)
{
    log_client_limit(call->session, "at a limit: %s", call->message);
    return error;
}

/* --- session and devices --- */

static int32_t on_hello(struct call *call)
{
    const Npud__Hello *hello = call->request->hello;
    struct devices *devices = &call->session->server->devices;
    static Npud__HelloReply out;
    static Npud__Device device[DEVICES_MAX];
    static Npud__Device *list[DEVICES_MAX];
    int32_t error;

    if (call->session->hello) {
        call->fault = true;
        return fail(call, ACL_ERROR_REPEAT_INITIALIZE, "Hello a second time");
    }
    if (hello->protocol != PROTOCOL)
        return fail(
            call, ACL_ERROR_API_NOT_SUPPORT,
            "this npud speaks protocol %u, the client library speaks %u: install matching versions",
            PROTOCOL, hello->protocol);
    error = session_hello(call->session, hello->program, &call->fd);
    if (error != 0)
        return fail(call, error, "npud has no memory or descriptors for another session");
    call->close_fd = true;
    out = (Npud__HelloReply)NPUD__HELLO_REPLY__INIT;
    out.session = call->session->id;
    out.ring_depth = session_ring_depth(call->session);
    out.epoch_ns = devices->epoch_ns;
    out.pid = call->session->pid;
    out.backend = (char *)devices->backend->name;
    out.n_devices = devices->n;
    out.devices = list;
    for (uint32_t i = 0; i < devices->n; i++) {
        device[i] = (Npud__Device)NPUD__DEVICE__INIT;
        device[i].soc_name = (char *)devices->device[i].info.soc_name;
        device[i].memory = devices->device[i].info.memory;
        device[i].uuid.data = devices->device[i].uuid;
        device[i].uuid.len = sizeof(devices->device[i].uuid);
        list[i] = &device[i];
    }
    call->reply.hello = &out;
    call->reply.body_case = NPUD__REPLY__BODY_HELLO;
    return 0;
}

static int32_t no_device(struct call *call, uint32_t device)
{
    return fail(call, ACL_ERROR_RT_INVALID_DEVICEID, "there is no device %u (npud has %u)", device,
                call->session->server->devices.n);
}

/* The attachment that a request needs, or NULL with *error set. */
static struct attach *need_device(struct call *call, uint32_t device, int32_t *error)
{
    struct attach *a = session_attach(call->session, device);

    if (a)
        return a;
    if (!devices_get(&call->session->server->devices, device))
        *error = no_device(call, device);
    else
        *error = fail(call, ACL_ERROR_RT_DEV_SETUP_ERROR, "device %u was not opened", device);
    return NULL;
}

static int32_t on_open_device(struct call *call)
{
    uint32_t device = call->request->open_device->device;
    int32_t error = session_open_device(call->session, device, &call->fd);

    if (error == ACL_ERROR_RT_INVALID_DEVICEID)
        return no_device(call, device);
    if (error != 0)
        return fail_limit(call, error, "npud has no memory or descriptors to open device %u",
                          device);
    return 0;
}

/* --- streams --- */

static int32_t on_create_stream(struct call *call)
{
    const Npud__CreateStream *in = call->request->create_stream;
    static Npud__CreateStreamReply out;
    struct stream *stream;
    int32_t error;
    struct attach *attach = need_device(call, in->device, &error);

    if (!attach)
        return error;
    error = atomic_load(&attach->device->lost);
    if (error != 0)
        return fail(call, error, "device %u is lost", in->device);
    error =
        stream_new(call->session, attach, in->context, in->priority, in->flags, &stream, &call->fd);
    if (error != 0)
        return fail_limit(
            call, error,
            "no stream: this session has %u (at most %u), its user may have %llu, or npud "
            "is out of memory",
            call->session->streams.live, SESSION_STREAMS_MAX, limit(call, RESOURCE_STREAMS));
    call->close_fd = true;
    out = (Npud__CreateStreamReply)NPUD__CREATE_STREAM_REPLY__INIT;
    out.slot = stream->slot.number;
    out.stream_id = stream_id(stream);
    out.position = atomic_load_explicit(&stream->done, memory_order_relaxed);
    out.new_segment = call->fd >= 0;
    call->reply.create_stream = &out;
    call->reply.body_case = NPUD__REPLY__BODY_CREATE_STREAM;
    return 0;
}

static int32_t on_destroy_stream(struct call *call)
{
    struct stream *stream = slots_get(&call->session->streams, call->request->destroy_stream->slot);

    if (!stream)
        return fail(call, ACL_ERROR_RT_INVALID_HANDLE, "no such stream");
    /* For clients that have not done so, or waited until it was empty, like honest ones. */
    stream_abort(stream, 0);
    stream_free(stream);
    return 0;
}

static int32_t on_abort_stream(struct call *call)
{
    const Npud__AbortStream *in = call->request->abort_stream;
    struct stream *stream = slots_get(&call->session->streams, in->slot);

    if (!stream)
        return fail(call, ACL_ERROR_RT_INVALID_HANDLE, "no such stream");
    stream_abort(stream, in->told);
    return 0;
}

static int32_t on_set_failure_mode(struct call *call)
{
    struct stream *stream =
        slots_get(&call->session->streams, call->request->set_failure_mode->slot);

    if (!stream)
        return fail(call, ACL_ERROR_RT_INVALID_HANDLE, "no such stream");
    context_set_stop(stream);
    return 0;
}

static int32_t on_stop_task(struct call *call)
{
    struct stream *stream = slots_get(&call->session->streams, call->request->stop_task->slot);

    if (!stream)
        return fail(call, ACL_ERROR_RT_INVALID_HANDLE, "no such stream");
    failure_stop_task(stream);
    return 0;
}

static int32_t on_set_stream_priority(struct call *call)
{
    const Npud__SetStreamPriority *in = call->request->set_stream_priority;
    struct stream *stream = slots_get(&call->session->streams, in->slot);

    if (!stream)
        return fail(call, ACL_ERROR_RT_INVALID_HANDLE, "no such stream");
    stream->priority = in->priority;
    return 0;
}

static int32_t on_streams_left(struct call *call)
{
    static Npud__StreamsLeftReply out;
    int32_t error;
    struct attach *attach = need_device(call, call->request->streams_left->device, &error);

    if (!attach)
        return error;
    out = (Npud__StreamsLeftReply)NPUD__STREAMS_LEFT_REPLY__INIT;
    out.streams = streams_left(call->session, attach);
    call->reply.streams_left = &out;
    call->reply.body_case = NPUD__REPLY__BODY_STREAMS_LEFT;
    return 0;
}

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
        return fail(call, ACL_ERROR_RT_PARAM_INVALID, "more than %u fences", FENCES_MAX);
    }
    return fail_limit(call, ACL_ERROR_RT_RESOURCE_ALLOC_FAIL,
                      "too many destroyed events wait for their streams to pass them");
}

static int32_t on_create_event(struct call *call)
{
    const Npud__CreateEvent *in = call->request->create_event;
    static Npud__CreateEventReply out;
    struct event_obj *event;
    int32_t error = event_obj_new(call->session, in->flags, in->device, &event, &call->fd);

    if (error != 0)
        return fail_limit(
            call, error,
            "no event: this session has %u (at most %u), its user may have %llu, or npud "
            "is out of memory",
            call->session->events.live, SESSION_EVENTS_MAX, limit(call, RESOURCE_EVENTS));
    call->close_fd = true;
    out = (Npud__CreateEventReply)NPUD__CREATE_EVENT_REPLY__INIT;
    out.slot = event->slot.number;
    out.generation = slot_generation(event);
    out.new_segment = call->fd >= 0;
    call->reply.create_event = &out;
    call->reply.body_case = NPUD__REPLY__BODY_CREATE_EVENT;
    return 0;
}

static int32_t on_destroy_event(struct call *call)
{
    const Npud__DestroyEvent *in = call->request->destroy_event;
    struct event_obj *event = slots_get(&call->session->events, in->slot);
    struct fence fences[FENCES_MAX];

    if (!event || event->closing)
        return fail(call, ACL_ERROR_RT_INVALID_HANDLE, "no such event");
    if (in->n_fences > FENCES_MAX)
        return too_many_fences(call, in->n_fences);
    read_fences(in->fences, in->n_fences, fences);
    if (!session_destroy_event(call->session, event, fences, in->n_fences, in->all_streams))
        return too_many_fences(call, 0);
    return 0;
}

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
    return fail_limit(
        call, error,
        "no IPC event: the user may have %llu open, an event at most %u openers, or npud "
        "is out of memory or descriptors",
        limit(call, RESOURCE_IPC_EVENTS), IPC_OPENERS_MAX);
}

static int32_t on_create_ipc_event(struct call *call)
{
    struct ipc_open *open;
    int32_t error = ipc_event_new(call->session, call->request->create_ipc_event->device, &open);

    if (error != 0)
        return no_ipc_event(call, error);
    reply_ipc_event(call, open);
    return 0;
}

/* The session's open event in slot, or NULL. */
static struct ipc_open *get_open(struct call *call, uint32_t slot)
{
    struct ipc_open *open = slots_get(&call->session->ipc, slot);

    return open && !open->closing ? open : NULL;
}

static int32_t on_export_ipc_event(struct call *call)
{
    struct ipc_open *open = get_open(call, call->request->export_ipc_event->slot);
    static Npud__ExportIpcEventReply out;
    int32_t error;

    if (!open)
        return fail(call, ACL_ERROR_RT_INVALID_HANDLE, "no such event");
    error = ipc_event_export(open);
    if (error != 0)
        return fail(call, error, "npud is out of memory");
    out = (Npud__ExportIpcEventReply)NPUD__EXPORT_IPC_EVENT_REPLY__INIT;
    out.handle.data = (uint8_t *)&open->event->handle;
    out.handle.len = sizeof(open->event->handle);
    call->reply.export_ipc_event = &out;
    call->reply.body_case = NPUD__REPLY__BODY_EXPORT_IPC_EVENT;
    return 0;
}

static int32_t explain_open_error(struct call *call, int32_t error)
{
    switch (error) {
    case ACL_ERROR_RT_PARAM_INVALID:
        return fail(call, error, "these 64 bytes are not an event handle that this npud gave out");
    case ACL_ERROR_RT_INVALID_HANDLE:
        return fail(call, error,
                    "the event is gone: it was destroyed everywhere, and who exported it has left");
    case ACL_ERROR_RT_NO_PERMISSION:
        return fail(call, error, "the event belongs to another user ([ipc] scope = uid)");
    default:
        return no_ipc_event(call, error);
    }
}

static int32_t on_open_ipc_event(struct call *call)
{
    const Npud__OpenIpcEvent *in = call->request->open_ipc_event;
    struct ipc_handle handle;
    struct ipc_open *open;
    int32_t error = ACL_ERROR_RT_PARAM_INVALID;

    if (in->handle.len == sizeof(handle)) {
        memcpy(&handle, in->handle.data, sizeof(handle));
        error = ipc_event_open(call->session, &handle, &open);
    }
    if (error != 0)
        return explain_open_error(call, error);
    reply_ipc_event(call, open);
    return 0;
}

static int32_t on_close_ipc_event(struct call *call)
{
    const Npud__CloseIpcEvent *in = call->request->close_ipc_event;
    struct ipc_open *open = get_open(call, in->slot);
    struct fence fences[FENCES_MAX];

    if (!open)
        return fail(call, ACL_ERROR_RT_INVALID_HANDLE, "no such event");
    if (in->n_fences > FENCES_MAX)
        return too_many_fences(call, in->n_fences);
    read_fences(in->fences, in->n_fences, fences);
    if (!session_close_ipc(call->session, open, fences, in->n_fences, in->all_streams))
        return too_many_fences(call, 0);
    return 0;
}

static int32_t on_explain_record(struct call *call)
{
    const Npud__ExplainRecord *in = call->request->explain_record;
    struct ipc_open *open = get_open(call, in->slot);
    static Npud__ExplainRecordReply out;

    if (!open)
        return fail(call, ACL_ERROR_RT_INVALID_HANDLE, "no such event");
    out = (Npud__ExplainRecordReply)NPUD__EXPLAIN_RECORD_REPLY__INIT;
    out.failed = ipc_event_failed(open->event, in->number, &out.pid);
    call->reply.explain_record = &out;
    call->reply.body_case = NPUD__REPLY__BODY_EXPLAIN_RECORD;
    return 0;
}

/* --- memory --- */

static int32_t on_malloc(struct call *call)
{
    const Npud__Malloc *in = call->request->malloc;
    static Npud__MallocReply out;
    struct mem *mem;
    int32_t error;
    struct attach *attach = need_device(call, in->device, &error);
    bool host = in->kind == NPUD__MALLOC__KIND__HOST;

    if (!attach)
        return error;
    error = mem_new(call->session, attach->device, host ? MEM_HOST : MEM_DEVICE, in->size, &mem);
    if (error != 0 && host)
        return fail_limit(call, error,
                          "no pinned host memory: %llu bytes asked, the user may have %llu",
                          (unsigned long long)in->size, limit(call, RESOURCE_HOST_MEMORY));
    if (error != 0)
        return fail_limit(
            call, error,
            "no memory on device %u: %llu bytes asked, %llu free, the user may have %llu",
            in->device, (unsigned long long)in->size,
            (unsigned long long)(attach->device->info.memory - attach->device->memory_used),
            limit(call, RESOURCE_DEVICE_MEMORY));
    call->fd = mem->fd;
    out = (Npud__MallocReply)NPUD__MALLOC_REPLY__INIT;
    out.slot = mem->slot.number;
    out.generation = slot_generation(mem);
    out.size = mem->size;
    call->reply.malloc = &out;
    call->reply.body_case = NPUD__REPLY__BODY_MALLOC;
    return 0;
}

static int32_t on_free(struct call *call)
{
    struct mem *mem = slots_get(&call->session->mems, call->request->free->slot);

    if (!mem)
        return fail(call, ACL_ERROR_RT_INVALID_HANDLE, "no such allocation");
    mem_free(mem);
    return 0;
}

static int32_t on_memory_written(struct call *call)
{
    const Npud__MemoryWritten *in = call->request->memory_written;
    struct mem *mem = mem_get(call->session, in->slot, in->generation);

    if (!mem)
        return 0;
    if (in->offset > mem->size || in->size > mem->size - in->offset)
        return fail(call, ACL_ERROR_RT_PARAM_INVALID, "more than the allocation");
    values_written(mem, in->offset, in->size);
    return 0;
}

static int32_t on_mem_info(struct call *call)
{
    uint32_t index = call->request->mem_info->device;
    struct device *device = devices_get(&call->session->server->devices, index);
    static Npud__MemInfoReply out;

    if (!device)
        return no_device(call, index);
    out = (Npud__MemInfoReply)NPUD__MEM_INFO_REPLY__INIT;
    out.total = device->info.memory;
    out.free = device->info.memory - device->memory_used;
    call->reply.mem_info = &out;
    call->reply.body_case = NPUD__REPLY__BODY_MEM_INFO;
    return 0;
}

/* --- event descriptors --- */

static int32_t on_send_descriptors(struct call *call)
{
    if (!call->session->sends_fds)
        closer_accept_fds(call->session->socket);
    call->session->sends_fds = true;
    return 0;
}

static int32_t explain_watch_error(struct call *call, int32_t error)
{
    switch (error) {
    case 0:
        return 0;
    case ACL_ERROR_RT_PARAM_INVALID:
        return fail(call, error, "the descriptor is not an eventfd");
    case ACL_ERROR_RT_FEATURE_NOT_SUPPORT:
        return fail(call, error, "npud cannot use io_submit() on this kernel, or not now");
    default:
        return fail_limit(call, error,
                          "no event descriptor: a process may have %u unwritten, its user %llu "
                          "descriptors, or npud is out of memory",
                          EVENT_FDS_MAX, limit(call, RESOURCE_FDS));
    }
}

static int32_t on_notify_fd(struct call *call)
{
    const Npud__NotifyFd *in = call->request->notify_fd;
    struct captured captured = {.stream = in->slot, .target = in->target};
    int fd = call->in_fd;

    if (in->number >= EVENT_FDS_MAX) {
        call->fault = true;
        return fail(call, ACL_ERROR_RT_PARAM_INVALID, "no such number");
    }
    if (fd < 0)
        return fail_limit(call, ACL_ERROR_RT_RESOURCE_ALLOC_FAIL,
                          "npud has no descriptor left for the eventfd");
    if (in->ipc) {
        captured.open = get_open(call, in->slot);
        if (!captured.open || slot_generation(captured.open) != in->generation)
            return fail(call, ACL_ERROR_RT_INVALID_HANDLE, "no such event");
    }
    call->in_fd = -1;
    return explain_watch_error(call, event_fd_watch(call->session, fd, in->number, &captured));
}

static int32_t on_ipc_event_info(struct call *call)
{
    const Npud__IpcEventInfo *in = call->request->ipc_event_info;
    static Npud__IpcEventInfoReply out;
    struct ipc_handle handle;
    struct ipc_event_info info;
    int32_t error = ACL_ERROR_RT_PARAM_INVALID;

    if (in->handle.len == sizeof(handle)) {
        memcpy(&handle, in->handle.data, sizeof(handle));
        error = ipc_event_info(call->session, &handle, &info);
    }
    if (error != 0)
        return explain_open_error(call, error);
    out = (Npud__IpcEventInfoReply)NPUD__IPC_EVENT_INFO_REPLY__INIT;
    out.device = info.device;
    out.pid = info.pid;
    out.alive = info.alive;
    call->reply.ipc_event_info = &out;
    call->reply.body_case = NPUD__REPLY__BODY_IPC_EVENT_INFO;
    return 0;
}

/* --- notifies --- */

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

static int32_t no_notify(struct call *call)
{
    return fail(call, ACL_ERROR_RT_INVALID_HANDLE, "no such notify");
}

static int32_t too_many_notifies(struct call *call, int32_t error)
{
    return fail_limit(call, error,
                      "no notify: this session has %u (at most %u), its user may have %llu, or the "
                      "device has no id left",
                      call->session->notifies.live, SESSION_NOTIFIES_MAX,
                      limit(call, RESOURCE_NOTIFIES));
}

static int32_t on_create_notify(struct call *call)
{
    const Npud__CreateNotify *in = call->request->create_notify;
    struct device *device = devices_get(&call->session->server->devices, in->device);
    struct notify_open *open;
    int32_t error;

    if (!device)
        return no_device(call, in->device);
    error = notify_new(call->session, device, in->counts, &open);
    if (error != 0)
        return too_many_notifies(call, error);
    reply_notify(call, open);
    return 0;
}

static int32_t on_destroy_notify(struct call *call)
{
    struct notify_open *open =
        slots_get(&call->session->notifies, call->request->destroy_notify->slot);

    if (!open)
        return no_notify(call);
    notify_open_free(open);
    return 0;
}

static int32_t on_reset_notify(struct call *call)
{
    struct notify_open *open =
        slots_get(&call->session->notifies, call->request->reset_notify->slot);
    int32_t error;

    if (!open)
        return no_notify(call);
    error = notify_reset(open);
    return error == 0 ? 0 : fail(call, error, "the notify has been exported, and others use it");
}

static int32_t on_export_notify(struct call *call)
{
    const Npud__ExportNotify *in = call->request->export_notify;
    struct notify_open *open = slots_get(&call->session->notifies, in->slot);
    static Npud__ExportNotifyReply out;
    static char key[NOTIFY_KEY_TEXT + 1];
    int32_t error;

    if (!open)
        return no_notify(call);
    error = notify_export(open, in->any_pid);
    if (error != 0)
        return fail(call, error,
                    "a notify can be exported once, by the process that has created it");
    notify_key_encode(&open->notify->key, key);
    out = (Npud__ExportNotifyReply)NPUD__EXPORT_NOTIFY_REPLY__INIT;
    out.key = key;
    call->reply.export_notify = &out;
    call->reply.body_case = NPUD__REPLY__BODY_EXPORT_NOTIFY;
    return 0;
}

static int32_t on_allow_notify(struct call *call)
{
    const Npud__AllowNotify *in = call->request->allow_notify;
    struct notify_open *open = slots_get(&call->session->notifies, in->slot);
    int32_t error;

    if (!open)
        return no_notify(call);
    error = notify_allow(open, in->pids, in->n_pids);
    if (error == ACL_ERROR_RT_PARAM_INVALID)
        return fail(call, error,
                    "this process has not exported the notify, or a pid is not positive");
    return error == 0 ? 0
                      : fail_limit(call, error, "at most %u processes can be allowed to import",
                                   NOTIFY_PIDS_MAX);
}

static int32_t explain_import_error(struct call *call, int32_t error)
{
    switch (error) {
    case ACL_ERROR_RT_PARAM_INVALID:
        return fail(call, error, "this text is not the key of a notify that this npud gave out");
    case ACL_ERROR_RT_INVALID_HANDLE:
        return fail(call, error, "the notify is gone: its creator has destroyed it, or has ended");
    case ACL_ERROR_RT_NO_PERMISSION:
        return fail(call, error,
                    "process %d of user %u is not on the list of who may import "
                    "(aclrtNotifySetImportPid), or the notify is another user's",
                    (int)call->session->pid, (unsigned)call->session->uid);
    default:
        return too_many_notifies(call, error);
    }
}

static int32_t on_import_notify(struct call *call)
{
    const char *key = call->request->import_notify->key;
    struct notify_open *open;
    int32_t error = notify_import(call->session, key, strlen(key), &open);

    if (error != 0)
        return explain_import_error(call, error);
    reply_notify(call, open);
    return 0;
}

/* --- dispatch --- */

static const struct {
    int32_t (*handle)(struct call *call);
    bool before_hello;
} table[] = {
    [NPUD__REQUEST__BODY_HELLO] = {on_hello, true},
    [NPUD__REQUEST__BODY_OPEN_DEVICE] = {on_open_device, false},
    [NPUD__REQUEST__BODY_CREATE_STREAM] = {on_create_stream, false},
    [NPUD__REQUEST__BODY_DESTROY_STREAM] = {on_destroy_stream, false},
    [NPUD__REQUEST__BODY_ABORT_STREAM] = {on_abort_stream, false},
    [NPUD__REQUEST__BODY_CREATE_EVENT] = {on_create_event, false},
    [NPUD__REQUEST__BODY_DESTROY_EVENT] = {on_destroy_event, false},
    [NPUD__REQUEST__BODY_CREATE_IPC_EVENT] = {on_create_ipc_event, false},
    [NPUD__REQUEST__BODY_EXPORT_IPC_EVENT] = {on_export_ipc_event, false},
    [NPUD__REQUEST__BODY_OPEN_IPC_EVENT] = {on_open_ipc_event, false},
    [NPUD__REQUEST__BODY_CLOSE_IPC_EVENT] = {on_close_ipc_event, false},
    [NPUD__REQUEST__BODY_EXPLAIN_RECORD] = {on_explain_record, false},
    [NPUD__REQUEST__BODY_MALLOC] = {on_malloc, false},
    [NPUD__REQUEST__BODY_FREE] = {on_free, false},
    [NPUD__REQUEST__BODY_MEM_INFO] = {on_mem_info, false},
    [NPUD__REQUEST__BODY_SEND_DESCRIPTORS] = {on_send_descriptors, false},
    [NPUD__REQUEST__BODY_NOTIFY_FD] = {on_notify_fd, false},
    [NPUD__REQUEST__BODY_IPC_EVENT_INFO] = {on_ipc_event_info, false},
    [NPUD__REQUEST__BODY_CREATE_NOTIFY] = {on_create_notify, false},
    [NPUD__REQUEST__BODY_DESTROY_NOTIFY] = {on_destroy_notify, false},
    [NPUD__REQUEST__BODY_RESET_NOTIFY] = {on_reset_notify, false},
    [NPUD__REQUEST__BODY_EXPORT_NOTIFY] = {on_export_notify, false},
    [NPUD__REQUEST__BODY_ALLOW_NOTIFY] = {on_allow_notify, false},
    [NPUD__REQUEST__BODY_IMPORT_NOTIFY] = {on_import_notify, false},
    [NPUD__REQUEST__BODY_SET_STREAM_PRIORITY] = {on_set_stream_priority, false},
    [NPUD__REQUEST__BODY_STREAMS_LEFT] = {on_streams_left, false},
    [NPUD__REQUEST__BODY_MEMORY_WRITTEN] = {on_memory_written, false},
    [NPUD__REQUEST__BODY_SET_FAILURE_MODE] = {on_set_failure_mode, false},
    [NPUD__REQUEST__BODY_STOP_TASK] = {on_stop_task, false},
};

static void dispatch(struct call *call)
{
    size_t kind = (size_t)call->request->body_case;

    call->reply = (Npud__Reply)NPUD__REPLY__INIT;
    call->reply.id = call->request->id;
    call->fd = -1;
    if (kind >= sizeof(table) / sizeof(table[0]) || !table[kind].handle) {
        call->fault = true;
        call->reply.error = fail(call, ACL_ERROR_API_NOT_SUPPORT, "unknown request");
    } else if (!call->session->hello && !table[kind].before_hello) {
        call->fault = true;
        call->reply.error = fail(call, ACL_ERROR_UNINITIALIZE, "the first request must be Hello");
    } else {
        call->reply.error = table[kind].handle(call);
    }
    call->reply.message = call->message;
    if (call->reply.error != 0)
        call->reply.body_case = NPUD__REPLY__BODY__NOT_SET;
}

/*
 * Descriptors that were sent and not yet received count as ours in the kernel, which has one limit for all of npud's: a client
 * that leaves them lie would have the others go without. An honest one has a single request under way.
 */
static bool takes_descriptors(struct session *session)
{
    int unread = 0;

    if (ioctl(session->socket, SIOCOUTQ, &unread) < 0 || unread == 0)
        session->fds_unread = 0;
    return session->fds_unread++ < FDS_UNREAD_MAX;
}

/* 0, or negative: the session must end. */
static int answer(struct call *call)
{
    int r = -EAGAIN;

    if (call->fd < 0 || takes_descriptors(call->session))
        r = packet_send_message(call->session->socket, &call->reply.base, &call->fd,
                                call->fd >= 0 ? 1 : 0, MSG_DONTWAIT);
    if (call->fd >= 0 && call->close_fd)
        close(call->fd);
    if (r == -EAGAIN)
        log_client_fault(call->session, "does not read its replies: session ended");
    return r;
}

/* Those that a request may bring along, from a client that has said so. */
static bool descriptors_fit(const struct session *session, const struct packet *packet,
                            const Npud__Request *request)
{
    if (packet->n_fds == 0)
        return true;
    return session->sends_fds && packet->n_fds == 1 &&
           request->body_case == NPUD__REQUEST__BODY_NOTIFY_FD;
}

static int handle_packet(struct session *session, struct packet *packet)
{
    struct call call = {.session = session};
    Npud__Request *request = npud__request__unpack(NULL, packet->size, packet->data);
    int r;

    if (!request) {
        log_client_fault(session, "sent a malformed packet: session ended");
        return -EBADMSG;
    }
    if (!descriptors_fit(session, packet, request)) {
        log_client_fault(session, "sent descriptors that nobody asked for: session ended");
        npud__request__free_unpacked(request, NULL);
        return -EBADMSG;
    }
    session->requests++;
    call.request = request;
    call.in_fd = packet_take_fd(packet, 0);
    dispatch(&call);
    npud__request__free_unpacked(request, NULL);
    if (call.in_fd >= 0)
        packet_close(call.in_fd);
    r = answer(&call);
    if (call.fault) {
        log_client_fault(session, "broke the protocol (%s): session ended", call.message);
        return -EBADMSG;
    }
    return r;
}

void request_handle(struct session *session)
{
    static struct packet packet; /* one control thread, one packet at a time */
    int r = packet_recv(session->socket, &packet, MSG_DONTWAIT);

    if (r == -EAGAIN)
        return;
    if (r == -EBADMSG)
        log_client_fault(session, "sent a truncated, oversized or empty packet: session ended");
    /* Its descriptor found no place here: the request is answered without, and says so. */
    if (r > 0 || r == -EMFILE) {
        r = handle_packet(session, &packet);
        packet_deinit(&packet);
        if (r == 0)
            return;
    }
    session_end(session);
}

void request_refuse(int socket, int32_t error, const char *message)
{
    Npud__Reply reply = NPUD__REPLY__INIT;

    reply.id = 1;
    reply.error = error;
    reply.message = (char *)message;
    packet_send_message(socket, &reply.base, NULL, 0, MSG_DONTWAIT);
}
