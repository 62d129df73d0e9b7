/* Requests to npud, and their answers. */
#include <assert.h>
#include <errno.h>
#include <sys/socket.h>

#include "acl/acl.h"
#include "client/core/error.h"
#include "client/runtime/reply.h"
#include "client/runtime/session.h"
#include "proto/wire/envelope.h"
#include "proto/wire/packet.h"

void session_reply_free(Npud__Reply *reply)
{
    if (reply)
        envelope_free(&reply->base);
}

/*
 * An npud that is killed between sending an answer and taking the request from the socket leaves
 * both, and the next npud answers that request again. The bound is for a server that sends answers
 * without end: each repetition of an honest one costs the life of an npud.
 */
#define REPEATED_MAX 64

/* An answer to a request that was answered before. */
static bool is_repeated(const Npud__Reply *reply, const Npud__Request *request)
{
    return reply && reply->id != 0 && reply->id < request->id;
}

/*
 * 0 with *replyp, NULL if the packet is no message; -EMFILE when the answer's descriptors found no
 * place in this process, *replyp as well; -EPIPE when npud is gone, -EBADMSG with *fault.
 */
static int receive_packet(struct session *s, struct packet *packet, Npud__Reply **replyp,
                          const char **fault)
{
    int r = packet_recv(s->socket, packet, 0);

    if (r == -EBADMSG)
        *fault = "it is no packet";
    if (r <= 0 && r != -EMFILE)
        return r == -EBADMSG ? r : -EPIPE;
    *replyp = (Npud__Reply *)envelope_unpack(&npud__reply__descriptor, packet->data, packet->size);
    return r == -EMFILE ? r : 0;
}

/* The same for the answer to this request: repeated ones before it are dropped. */
static int receive_answer(struct session *s, const Npud__Request *request, struct packet *packet,
                          Npud__Reply **replyp, const char **fault)
{
    for (unsigned repeated = 0; repeated <= REPEATED_MAX; repeated++) {
        int r = receive_packet(s, packet, replyp, fault);

        if ((r != 0 && r != -EMFILE) || !is_repeated(*replyp, request))
            return r;
        session_reply_free(*replyp);
        *replyp = NULL;
        packet_deinit(packet);
    }
    *fault = "earlier answers come again and again";
    return -EBADMSG;
}

/*
 * Send and receive, the socket being ours alone. 0 with *replyp, -EMFILE with it when the answer's
 * descriptors found no place in this process, -EPIPE when npud is gone, -EBADMSG with *fault when
 * its answer is not as it must be: nothing of it is used. -EBADF with *replyp and *fault: that is
 * so for a descriptor of it alone.
 */
static int exchange_packets(struct session *s, Npud__Request *request, struct packet *packet,
                            Npud__Reply **replyp, const char **fault)
{
    bool odd = false;
    int r;

    request->id = ++s->last_request;
    KILL_POINT(REQUEST_BEGIN);
    r = packet_send_message(s->socket, &request->base, NULL, 0, 0);
    KILL_POINT(REQUEST_SENT);
    assert(r != -EMSGSIZE); /* every request fits, by its bounds */
    /* A refusal may have been sent before npud closed: read what there is even if our packet could
     * not be sent. */
    if (r < 0 && r != -EPIPE && r != -ECONNRESET)
        return -EPIPE;
    r = receive_answer(s, request, packet, replyp, fault);
    KILL_POINT(REPLY_READ);
    if (r == 0 || r == -EMFILE)
        *fault = reply_fault(s, request, *replyp, r == 0 ? packet->fds : NULL, packet->n_fds, &odd);
    if (!*fault)
        return r;
    if (odd) {
        packet_deinit(packet);
        return -EBADF;
    }
    session_reply_free(*replyp);
    *replyp = NULL;
    packet_deinit(packet);
    return -EBADMSG;
}

/* Send a request that has no descriptors either way, and drop its answer. */
static void exchange_quietly(struct session *s, Npud__Request *request, struct packet *packet)
{
    Npud__Reply *reply = NULL;
    const char *fault = NULL;

    if (exchange_packets(s, request, packet, &reply, &fault) == 0)
        packet_deinit(packet);
    session_reply_free(reply);
}

/*
 * Take back what a request of this kind made. Some make nothing, or nothing that the same request
 * would not give once more (OpenDevice, AttachQueue, MapSegment, QueueBell); what Hello made goes
 * with the connection.
 */
static void undo_request(struct session *s, Npud__Request__BodyCase kind, const Npud__Reply *made,
                         struct packet *packet)
{
    switch (kind) {
    case NPUD__REQUEST__BODY_CREATE_STREAM: {
        REQUEST(destroy_stream, DESTROY_STREAM, .slot = made->create_stream->slot,
                .new_segment = made->create_stream->new_segment);
        exchange_quietly(s, &request, packet);
        break;
    }
    case NPUD__REQUEST__BODY_CREATE_EVENT: {
        REQUEST(destroy_event, DESTROY_EVENT, .slot = made->create_event->slot,
                .new_segment = made->create_event->new_segment);
        exchange_quietly(s, &request, packet);
        break;
    }
    case NPUD__REQUEST__BODY_CREATE_IPC_EVENT:
    case NPUD__REQUEST__BODY_OPEN_IPC_EVENT: {
        REQUEST(close_ipc_event, CLOSE_IPC_EVENT, .slot = made->ipc_event->slot);
        exchange_quietly(s, &request, packet);
        break;
    }
    case NPUD__REQUEST__BODY_MALLOC: {
        REQUEST(free, FREE, .slot = made->malloc->slot);
        exchange_quietly(s, &request, packet);
        break;
    }
    case NPUD__REQUEST__BODY_CREATE_SEGMENT: {
        REQUEST(trim_segment, TRIM_SEGMENT, .segment = made->segment->id);
        exchange_quietly(s, &request, packet);
        break;
    }
    case NPUD__REQUEST__BODY_CREATE_QUEUE: {
        REQUEST(destroy_queue, DESTROY_QUEUE, .queue = made->queue->queue);
        exchange_quietly(s, &request, packet);
        break;
    }
    default:
        break;
    }
}

/*
 * npud has made something and its descriptor found no place here, or is of no use: the program does
 * not know the object. It goes before the next request of this process, as npud keeps a new segment
 * of the arena only until that one. A process that dies before this loses its session, and all that
 * it made.
 */
static void take_back(struct session *s, const Npud__Request *request, const Npud__Reply *made,
                      struct packet *packet)
{
    if (made->error == 0)
        undo_request(s, request->body_case, made, packet);
}

int session_answer_damaged(struct session *s, const char *function, const Npud__Request *request,
                           const char *fault)
{
    session_lose(s);
    shutdown(s->socket, SHUT_RDWR);
    return error_set(ACL_ERROR_RT_SOCKET_CLOSE,
                     "%s: npud's answer to %s is damaged (%s), and the session has ended. See that "
                     "the library and npud are of the same version, and what listens at npud's "
                     "socket; then call aclFinalize and aclInit to connect anew",
                     function, reply_request_name(request), fault);
}

/*
 * Others may have the same descriptor, so what is wrong with it need not be npud's fault: the
 * answer is not used, and the session goes on.
 */
static int error_odd(const char *function, const Npud__Request *request, const char *fault)
{
    return error_set(
        ACL_ERROR_RT_DRV_INTERNAL_ERROR,
        "%s: a descriptor in npud's answer to %s is damaged (%s): the call has failed, "
        "and the session goes on. See what listens at npud's socket, and which "
        "processes share the object",
        function, reply_request_name(request), fault);
}

/* What all requests share. SESSION_UNANSWERED, and no sentence: the connection has ended. */
static int ask_npud(struct session *s, const char *function, Npud__Request *request,
                    Npud__Reply **replyp, int *fds, size_t n)
{
    struct packet packet; /* not all of it: its 16 KiB are for what is received */
    const char *fault = NULL;
    Npud__Reply *reply = NULL;
    int error, r = -EPIPE;

    packet.n_fds = 0;
    pthread_mutex_lock(&s->request_lock);
    if (!session_lost(s))
        r = exchange_packets(s, request, &packet, &reply, &fault);
    if (r == -EMFILE || (r == -EBADF && request->body_case != NPUD__REQUEST__BODY_HELLO))
        take_back(s, request, reply, &packet);
    pthread_mutex_unlock(&s->request_lock);
    if (r == -EBADF)
        session_reply_free(reply);
    if (r == -EBADF && request->body_case != NPUD__REQUEST__BODY_HELLO)
        return error_odd(function, request, fault);
    if (fault)
        return session_answer_damaged(s, function, request, fault);
    if (r == -EMFILE) {
        session_reply_free(reply);
        return error_set(ACL_ERROR_RT_RESOURCE_ALLOC_FAIL,
                         "%s: this process has no file descriptor left for what npud sent",
                         function);
    }
    if (!reply)
        return SESSION_UNANSWERED;
    error = reply->error;
    if (error != 0) {
        error = error_set(error, "%s: %s", function, reply->message);
        session_reply_free(reply);
        reply = NULL;
    } else {
        for (size_t i = 0; i < n; i++)
            fds[i] = packet_take_fd(&packet, i);
    }
    packet_deinit(&packet);
    *replyp = reply;
    return error;
}

int session_request_fds(struct session *s, const char *function, Npud__Request *request,
                        Npud__Reply **replyp, int *fds, size_t n)
{
    int error = ask_npud(s, function, request, replyp, fds, n);

    if (error != SESSION_UNANSWERED)
        return error;
    session_lose(s);
    return session_error_lost(function);
}

int session_request(struct session *s, const char *function, Npud__Request *request,
                    Npud__Reply **replyp, int *fd)
{
    return session_request_fds(s, function, request, replyp, fd, fd ? 1 : 0);
}

int session_request_first(struct session *s, const char *function, Npud__Request *request,
                          Npud__Reply **replyp, int *fd)
{
    return ask_npud(s, function, request, replyp, fd, 1);
}

int session_command(struct session *s, const char *function, Npud__Request *request)
{
    Npud__Reply *reply = NULL;
    int error = session_request_fds(s, function, request, &reply, NULL, 0);

    if (error == 0)
        session_reply_free(reply);
    return error;
}

int session_command_unheard(struct session *s, Npud__Request *request)
{
    struct error_saved ignored;
    int error;

    error_save(&ignored);
    error = session_command(s, "", request);
    error_save_end(&ignored);
    return error;
}
