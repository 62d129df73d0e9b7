#include "daemon/control/dispatch.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>

#include "acl/acl_base.h"
#include "daemon/base/deferred_close.h"
#include "daemon/control/answer.h"
#include "daemon/control/fetch.h"
#include "daemon/control/kept_request.h"
#include "daemon/core/call.h"
#include "daemon/core/device.h"
#include "daemon/core/refuse.h"
#include "daemon/base/log.h"
#include "daemon/kept/kept.h"
#include "daemon/core/server.h"
#include "daemon/core/session.h"
#include "proto/wire/npud.pb-c.h"
#include "proto/wire/envelope.h"
#include "proto/wire/packet.h"

/* --- session and devices --- */

static int32_t on_hello(struct call *call)
{
    const Npud__Hello *hello = call->request->hello;
    struct devices *devices = call->session->server->devices;
    Npud__HelloReply *out;
    enum cause cause;

    if (call->session->state != SESSION_CONNECTED) {
        call->fault = true;
        return refuse_with_error(call, ACL_ERROR_REPEAT_INITIALIZE, "Hello a second time");
    }
    if (!protocol_is_served(hello->protocol))
        return refuse_with_error(
            call, ACL_ERROR_API_NOT_SUPPORT,
            PROTOCOL < hello->protocol
                ? "this npud speaks protocols %u to %u, the client library speaks %u: npud is the "
                  "older one; replace it by the version that is installed (npuctl upgrade, or "
                  "systemctl restart npud)"
                : "this npud speaks protocols %u to %u, the client library speaks %u: the program "
                  "runs with the older one; restart the program, so that it loads the library that "
                  "is installed",
            PROTOCOL_OLDEST, PROTOCOL, hello->protocol);
    call->session->protocol = hello->protocol;
    cause = session_hello(call->session, hello->program);
    if (cause != CAUSE_NONE)
        return refuse(call, cause, "no session");
    call->fd = call->session->page_fd;
    out = CALL_REPLY(call, hello, HELLO);
    out->session = call->session->id;
    out->ring_depth = call->session->ring_depth;
    out->epoch_ns = devices->epoch_ns;
    out->pid = call->session->pid;
    out->uid = call->session->uid;
    out->page_bytes = sizeof(struct session_page);
    out->peer = call->session->peer_id;
    out->backend = (char *)devices->backend->name;
    out->n_devices = devices->n;
    out->devices = call->body->parts.devices.list;
    for (uint32_t i = 0; i < devices->n; i++) {
        Npud__Device *device = out->devices[i] = &call->body->parts.devices.row[i];

        *device = (Npud__Device)NPUD__DEVICE__INIT;
        device->soc_name = (char *)devices->device[i].info.soc_name;
        device->memory = devices->device[i].info.memory;
        device->strict = devices->device[i].info.strict;
        device->uuid.data = devices->device[i].uuid;
        device->uuid.len = sizeof(devices->device[i].uuid);
    }
    return 0;
}

static int32_t on_open_device(struct call *call)
{
    uint32_t device = call->request->open_device->device;

    return refuse(call, session_open_device(call->session, device, &call->fd), "device %u", device);
}

static int32_t on_leave_session(struct call *call)
{
    call->session->left = true;
    kept_touch(&call->session->record);
    return 0;
}

int32_t (*dispatch_own_waits)(struct call *call);
void (*dispatch_drop_own_waits)(struct session *session);

static int32_t on_own_waits(struct call *call)
{
    return dispatch_own_waits(call);
}

/* --- dispatch --- */

/* What a kind of request needs, and its handler. Dispatch fetches the object that it is about. */
struct row {
    int32_t (*handle)(struct call *call);
    size_t at; /* offset of the number of what it needs, in the body of the request */
    enum need need;
    bool before_hello;
    bool answers_fds; /* its answer may carry descriptors */
};

#define ABOUT(handler, NEED, Type, field)                                                          \
    .handle = handler, .need = NEED_##NEED, .at = offsetof(Npud__##Type, field)

static const struct row table[] = {
    [NPUD__REQUEST__BODY_HELLO] = {.handle = on_hello, .before_hello = true, .answers_fds = true},
    [NPUD__REQUEST__BODY_OPEN_DEVICE] = {.handle = on_open_device, .answers_fds = true},
    [NPUD__REQUEST__BODY_CREATE_STREAM] = {ABOUT(on_create_stream, DEVICE, CreateStream, device),
                                           .answers_fds = true},
    [NPUD__REQUEST__BODY_DESTROY_STREAM] = {ABOUT(on_destroy_stream, STREAM, DestroyStream, slot)},
    [NPUD__REQUEST__BODY_ABORT_STREAM] = {ABOUT(on_abort_stream, STREAM, AbortStream, slot)},
    [NPUD__REQUEST__BODY_CREATE_EVENT] = {.handle = on_create_event, .answers_fds = true},
    [NPUD__REQUEST__BODY_DESTROY_EVENT] = {ABOUT(on_destroy_event, EVENT, DestroyEvent, slot)},
    [NPUD__REQUEST__BODY_CREATE_IPC_EVENT] = {.handle = on_create_ipc_event, .answers_fds = true},
    [NPUD__REQUEST__BODY_EXPORT_IPC_EVENT] = {ABOUT(on_export_ipc_event, IPC_EVENT, ExportIpcEvent,
                                                    slot)},
    [NPUD__REQUEST__BODY_OPEN_IPC_EVENT] = {.handle = on_open_ipc_event, .answers_fds = true},
    [NPUD__REQUEST__BODY_CLOSE_IPC_EVENT] = {ABOUT(on_close_ipc_event, IPC_EVENT, CloseIpcEvent,
                                                   slot)},
    [NPUD__REQUEST__BODY_EXPLAIN_RECORD] = {ABOUT(on_explain_record, IPC_EVENT, ExplainRecord,
                                                  slot)},
    [NPUD__REQUEST__BODY_MALLOC] = {ABOUT(on_malloc, DEVICE, Malloc, device), .answers_fds = true},
    [NPUD__REQUEST__BODY_FREE] = {ABOUT(on_free, MEMORY, Free, slot)},
    [NPUD__REQUEST__BODY_MEM_INFO] = {.handle = on_mem_info},
    [NPUD__REQUEST__BODY_EXPORT_MEMORY] = {ABOUT(on_export_memory, MEMORY, ExportMemory, slot)},
    [NPUD__REQUEST__BODY_ALLOW_MEMORY] = {.handle = on_allow_memory},
    [NPUD__REQUEST__BODY_UNEXPORT_MEMORY] = {.handle = on_unexport_memory},
    [NPUD__REQUEST__BODY_IMPORT_MEMORY] = {.handle = on_import_memory, .answers_fds = true},
    [NPUD__REQUEST__BODY_FETCH_MEMORY] = {ABOUT(on_fetch_memory, MEMORY, FetchMemory, slot),
                                          .answers_fds = true},
    [NPUD__REQUEST__BODY_NOTIFY_FD] = {.handle = on_notify_fd},
    [NPUD__REQUEST__BODY_IPC_EVENT_INFO] = {.handle = on_ipc_event_info},
    [NPUD__REQUEST__BODY_CREATE_NOTIFY] = {.handle = on_create_notify},
    [NPUD__REQUEST__BODY_DESTROY_NOTIFY] = {ABOUT(on_destroy_notify, NOTIFY, DestroyNotify, slot)},
    [NPUD__REQUEST__BODY_RESET_NOTIFY] = {ABOUT(on_reset_notify, NOTIFY, ResetNotify, slot)},
    [NPUD__REQUEST__BODY_EXPORT_NOTIFY] = {ABOUT(on_export_notify, NOTIFY, ExportNotify, slot)},
    [NPUD__REQUEST__BODY_ALLOW_NOTIFY] = {ABOUT(on_allow_notify, NOTIFY, AllowNotify, slot)},
    [NPUD__REQUEST__BODY_IMPORT_NOTIFY] = {.handle = on_import_notify},
    [NPUD__REQUEST__BODY_SET_STREAM_PRIORITY] = {ABOUT(on_set_stream_priority, STREAM,
                                                       SetStreamPriority, slot)},
    [NPUD__REQUEST__BODY_STREAMS_LEFT] = {ABOUT(on_streams_left, DEVICE, StreamsLeft, device)},
    [NPUD__REQUEST__BODY_MEMORY_WRITTEN] = {.handle = on_memory_written},
    [NPUD__REQUEST__BODY_SET_FAILURE_MODE] = {ABOUT(on_set_failure_mode, STREAM, SetFailureMode,
                                                    slot)},
    [NPUD__REQUEST__BODY_STOP_TASK] = {ABOUT(on_stop_task, STREAM, StopTask, slot)},
    [NPUD__REQUEST__BODY_CREATE_SEGMENT] = {.handle = on_create_segment, .answers_fds = true},
    [NPUD__REQUEST__BODY_MAP_SEGMENT] = {.handle = on_map_segment, .answers_fds = true},
    [NPUD__REQUEST__BODY_TRIM_SEGMENT] = {.handle = on_trim_segment},
    [NPUD__REQUEST__BODY_CREATE_QUEUE] = {.handle = on_create_queue, .answers_fds = true},
    [NPUD__REQUEST__BODY_DESTROY_QUEUE] = {ABOUT(on_destroy_queue, QUEUE, DestroyQueue, queue)},
    [NPUD__REQUEST__BODY_GRANT_QUEUE] = {ABOUT(on_grant_queue, QUEUE, GrantQueue, queue)},
    [NPUD__REQUEST__BODY_ATTACH_QUEUE] = {.handle = on_attach_queue, .answers_fds = true},
    [NPUD__REQUEST__BODY_ALLOW_MAP] = {.handle = on_allow_map},
    [NPUD__REQUEST__BODY_QUEUE_BELL] = {.handle = on_queue_bell, .answers_fds = true},
    [NPUD__REQUEST__BODY_BIND_ROUTES] = {.handle = on_bind_routes},
    [NPUD__REQUEST__BODY_UNBIND_ROUTES] = {.handle = on_unbind_routes},
    [NPUD__REQUEST__BODY_QUERY_ROUTES] = {.handle = on_query_routes},
    [NPUD__REQUEST__BODY_LEAVE_SESSION] = {.handle = on_leave_session},
    [NPUD__REQUEST__BODY_GET_TRACE_RING] = {.handle = on_get_trace_ring, .answers_fds = true},
    [NPUD__REQUEST__BODY_OWN_WAITS] = {.handle = on_own_waits,
                                       .before_hello = true,
                                       .answers_fds = true},
};

/* The number of what the request is about, at that offset of its body. */
static uint32_t number_of(const Npud__Request *request, size_t at)
{
    const void *body;
    uint32_t number;

    memcpy(&body, &request->hello, sizeof(body)); /* a pointer, whatever the kind */
    memcpy(&number, (const char *)body + at, sizeof(number));
    return number;
}

static void begin_reply(struct call *call)
{
    call->reply = (Npud__Reply)NPUD__REPLY__INIT;
    call->reply.id = call->request->id;
    call->body->message[0] = '\0';
    call->fd = call->more_fd[0] = call->more_fd[1] = -1;
    for (unsigned i = 0; i < 3; i++)
        call->source[i] = (struct call_source){.file = -1};
    call->cause = CAUSE_NONE;
}

/* A handler that refuses leaves nothing behind: so it may be called again. */
static int32_t handle_row(struct call *call, const struct row *row)
{
    uint64_t closed = deferred_close_count();
    int32_t error = 0;

    if (row->need != NEED_NOTHING)
        error = fetch_object(call, row->need, number_of(call->request, row->at));
    if (error == 0)
        error = row->handle(call);
    call->again = error != 0 ? request_try_again(call, call->wait, closed) : TRY_NEVER;
    if (call->again != TRY_NOW)
        return error;
    begin_reply(call);
    error = row->handle(call);
    call->again = error != 0 ? TRY_NEXT_TURN : TRY_NEVER;
    return error;
}

static void dispatch_request(struct call *call)
{
    size_t kind = (size_t)call->request->body_case;

    call->session->server->schedule.detail = (uint32_t)kind;
    begin_reply(call);
    if (kind >= sizeof(table) / sizeof(table[0]) || !table[kind].handle) {
        call->fault = true;
        call->reply.error = refuse_with_error(call, ACL_ERROR_API_NOT_SUPPORT, "unknown request");
    } else if (call->session->state == SESSION_CONNECTED && !table[kind].before_hello) {
        call->fault = true;
        call->reply.error =
            refuse_with_error(call, ACL_ERROR_UNINITIALIZE, "the first request must be Hello");
    } else if (call->session->left) {
        call->fault = true;
        call->reply.error =
            refuse_with_error(call, ACL_ERROR_UNINITIALIZE, "the session has left already");
    } else {
        enum cause cause = table[kind].answers_fds ? answer_prepare(call->session) : CAUSE_NONE;

        call->reply.error =
            cause == CAUSE_NONE ? handle_row(call, &table[kind]) : refuse_plainly(call, cause);
    }
}

static int send_reply(struct call *call)
{
    call->reply.message = call->body->message;
    if (call->reply.error != 0) {
        refuse_count(call->cause);
        refuse_log(call);
        call->reply.body_case = NPUD__REPLY__BODY__NOT_SET;
    }
    return answer_send(call);
}

/* --- packets --- */

void dispatch_drop_kept(struct session *session)
{
    Npud__Request *request = request_release(session);

    if (request)
        envelope_free(&request->base);
}

static enum dispatched keep_waiting(struct session *session, enum try_again again)
{
    if (again != TRY_WOKEN)
        return DISPATCH_WAITS;
    request_sleep(session);
    return DISPATCH_SLEEPS;
}

static enum dispatched take_turn(struct session *session, Npud__Request *request,
                                 struct room_wait wait)
{
    struct reply_body body;
    struct call call = {.session = session, .body = &body, .request = request, .wait = &wait};
    int r;

    dispatch_request(&call);
    if (call.again != TRY_NEVER && request_keep(session, request, &wait))
        return keep_waiting(session, call.again);
    r = send_reply(&call);
    request_release(session);
    envelope_free(&request->base);
    if (call.fault)
        log_client_fault(&session->log, "broke the protocol (%s): session ended", body.message);
    return r < 0 || call.fault ? DISPATCH_ENDED : DISPATCH_HANDLED;
}

static enum dispatched handle_packet(struct session *session, const struct packet *packet)
{
    Npud__Request *request =
        (Npud__Request *)envelope_unpack(&npud__request__descriptor, packet->data, packet->size);
    enum dispatched r;

    if (!request || request->id == 0) {
        log_client_fault(&session->log, "sent a malformed packet: session ended");
        if (request)
            envelope_free(&request->base);
        return DISPATCH_ENDED;
    }
    ++*session->requests;
    kept_in_hand(kept_in_hand_of(KEPT_CONTROL), session->id, request->body_case);
    r = take_turn(session, request, (struct room_wait){0});
    kept_in_hand(kept_in_hand_of(KEPT_CONTROL), 0, 0);
    return r;
}

/*
 * Where npud may be followed by another, the request stays in the socket until it is answered: the
 * next npud finds it there.
 */
static int take_packet(struct session *session, struct packet *packet)
{
    int flags = MSG_DONTWAIT | (kept_outlives() ? MSG_PEEK : 0);

    return packet_recv_without_fds(session->socket, packet, session->takes_fds, flags);
}

static enum dispatched receive(struct session *session)
{
    struct packet packet;
    int r;

    r = take_packet(session, &packet);
    if (r == -EAGAIN)
        return DISPATCH_NONE;
    if (r == 0 || r == -ECONNRESET)
        session_note_death(session);
    if (r == -EBADMSG)
        log_client_fault(&session->log, "sent an oversized packet: session ended");
    if (r == -EPERM)
        log_client_fault(&session->log, "sent descriptors, and npud takes none: session ended");
    return r > 0 ? handle_packet(session, &packet) : DISPATCH_ENDED;
}

enum dispatched dispatch_handle(struct session *session)
{
    struct kept_request *kept = session->kept;
    enum dispatched r = kept ? take_turn(session, kept->request, kept->wait) : receive(session);

    if (r == DISPATCH_ENDED)
        session_end(session);
    return r;
}

void dispatch_refuse(int socket, int32_t error, const char *message)
{
    Npud__Reply reply = NPUD__REPLY__INIT;

    reply.id = 1;
    reply.error = error;
    reply.message = (char *)message;
    packet_send_message(socket, &reply.base, NULL, 0, MSG_DONTWAIT);
}
