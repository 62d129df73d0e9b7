#include "daemon/control/dispatch.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>

#include "acl/acl_base.h"
#include "daemon/base/deferred_close.h"
#include "daemon/control/answer.h"
#include "daemon/control/fetch.h"
#include "daemon/control/held_request.h"
#include "daemon/control/rest.h"
#include "daemon/core/call.h"
#include "daemon/core/device.h"
#include "daemon/core/refuse.h"
#include "daemon/base/log.h"
#include "daemon/control/session_hear.h"
#include "daemon/kept/kept.h"
#include "daemon/core/server.h"
#include "daemon/core/session.h"
#include "proto/shm/queue_shm.h"
#include "proto/wire/npud.pb-c.h"
#include "proto/wire/envelope.h"
#include "proto/wire/packet.h"

/* --- dispatch --- */

/* What a kind of request needs, and its handler. Dispatch fetches the object that it is about. */
struct row {
    int32_t (*handle)(struct call *call);
    size_t at; /* offset of the number of what it needs, in the body of the request */
    enum need need;
    bool before_hello;
    bool answers_fds; /* its answer may carry descriptors */
};

#define ABOUT(NEED, Type, field) .need = NEED_##NEED, .at = offsetof(Npud__##Type, field)
#define NOTHING                  .need = NEED_NOTHING
#define ANY_TIME                 true
#define IN_SESSION               false

static const struct row table[] = {
#define ROW(NAME, handler, about, when, reply, fds_min, fds_max, check)                            \
    [NPUD__REQUEST__BODY_##NAME] = {                                                               \
        .handle = on_##handler, about, .before_hello = (when), .answers_fds = (fds_max) > 0},
#include "proto/wire/requests.inc"
#undef ROW
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

static int32_t handle_once(struct call *call, const struct row *row)
{
    int32_t error = 0;

    if (row->need != NEED_NOTHING)
        error = fetch_object(call, row->need, number_of(call->request, row->at));
    return error != 0 ? error : row->handle(call);
}

/*
 * A handler that refuses leaves nothing behind, so it may be called again: call->again says when.
 *
 *   TRY_NEVER      it is answered, or refused for good
 *   TRY_NOW        memory was found for it: called again here, once, before others take that
 *   TRY_NEXT_TURN  npud goes on in this session's next turn, and calls it then
 *   TRY_WOKEN      called when something that is being freed was closed
 */
static int32_t handle_row(struct call *call, const struct row *row)
{
    uint64_t closed = deferred_close_count();
    int32_t error = handle_once(call, row);

    call->again = error != 0 ? request_try_again(call, call->wait, closed) : TRY_NEVER;
    if (call->again != TRY_NOW)
        return error;
    begin_reply(call);
    error = handle_once(call, row);
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

void dispatch_drop_held(struct session *session)
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
    if (call.again != TRY_NEVER && request_hold(session, request, &wait))
        return keep_waiting(session, call.again);
    r = send_reply(&call);
    request_release(session);
    envelope_free(&request->base);
    if (call.fault)
        log_client_fault(&session->log, "broke the protocol (%s): session ended", body.message);
    return r < 0 || call.fault ? DISPATCH_ENDED : DISPATCH_HANDLED;
}

/* An npuctl that was sent to this socket. Its answer has the same first fields. */
static bool refuse_npuctl(const struct session *session, const struct packet *packet)
{
    Npud__AdminRequest *request = npud__admin_request__unpack(NULL, packet->size, packet->data);
    bool is_one = request && request->id != 0 && request->protocol != 0;

    if (is_one)
        dispatch_refuse(session_payer(session), session->socket, ACL_ERROR_RT_PARAM_INVALID,
                        "this is npud's socket for programs; npuctl asks its admin socket: name "
                        "that with --socket or NPUD_ADMIN_SOCKET");
    if (request)
        npud__admin_request__free_unpacked(request, NULL);
    return is_one;
}

/* In hand meanwhile (kept/blame.h), in each turn of a request that has several. */
static enum dispatched take_turn_in_hand(struct session *session, Npud__Request *request,
                                         struct room_wait wait)
{
    struct kept_in_hand *in_hand = kept_in_hand_of(KEPT_CONTROL);
    enum dispatched r;

    kept_in_hand(in_hand, session->id, request->body_case);
    r = take_turn(session, request, wait);
    kept_in_hand(in_hand, 0, 0);
    /* A request that goes on has yet to show that npud outlives it. */
    if (r == DISPATCH_HANDLED)
        session_forgive(session);
    return r;
}

static enum dispatched handle_packet(struct session *session, const struct packet *packet)
{
    struct kept_in_hand *in_hand = kept_in_hand_of(KEPT_CONTROL);
    Npud__Request *request;

    kept_in_hand(in_hand, session->id, 0);
    request =
        (Npud__Request *)envelope_unpack(&npud__request__descriptor, packet->data, packet->size);
    if (request && request->id != 0) {
        ++*session_requests(session);
        return take_turn_in_hand(session, request, (struct room_wait){0});
    }
    if (request || !refuse_npuctl(session, packet))
        log_client_fault(&session->log, "sent a malformed packet: session ended");
    if (request)
        envelope_free(&request->base);
    kept_in_hand(in_hand, 0, 0);
    return DISPATCH_ENDED;
}

/*
 * Where npud may be followed by another, the request stays in the socket until it is answered: the
 * next npud finds it there.
 */
static int take_packet(struct session *session, struct packet *packet)
{
    int flags = MSG_DONTWAIT | (kept_outlives() ? MSG_PEEK : 0), r;

    wake_cost_begin();
    r = packet_recv_without_fds(session->socket, packet, session->takes_fds, flags);
    return kept_outlives() || rest_after_wake(session) ? r : -EPIPE;
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
    struct held_request *held = session->held;
    enum dispatched r =
        held ? take_turn_in_hand(session, held->request, held->wait) : receive(session);

    if (r == DISPATCH_ENDED)
        session_end(session);
    return r;
}

void dispatch_refuse(const struct user *user, int socket, int32_t error, const char *message)
{
    Npud__Reply reply = NPUD__REPLY__INIT;
    uint8_t packet[1024];
    size_t size;

    reply.id = 1;
    reply.error = error;
    reply.message = (char *)message;
    size = envelope_pack(&reply.base, packet, sizeof(packet));
    if (size <= sizeof(packet))
        deferred_close_say(user, socket, packet, size);
}
