/*
 * A request of a client while it is handled: what its handler is given, and the handlers. For
 * dispatch.c and the files on_*.c, which have them by subject. Control thread.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "daemon/core/user.h"
#include "daemon/core/cause.h"
#include "daemon/core/export_key.h"
#include "proto/shm/doorbell.h"
#include "proto/wire/npud.pb-c.h"
#include "proto/wire/packet.h"

struct attach;
struct event_obj;
struct ipc_open;
struct mem;
struct notify_open;
struct queue_attach;
struct session;
struct stream;

/** The body of a reply, and what the reply points to. */
struct reply_body {
    union {
        Npud__HelloReply hello;
        Npud__CreateStreamReply create_stream;
        Npud__AbortStreamReply abort_stream;
        Npud__StopTaskReply stop_task;
        Npud__StreamsLeftReply streams_left;
        Npud__CreateEventReply create_event;
        Npud__IpcEventReply ipc_event;
        Npud__ExportIpcEventReply export_ipc_event;
        Npud__ExplainRecordReply explain_record;
        Npud__IpcEventInfoReply ipc_event_info;
        Npud__NotifyReply notify;
        Npud__ExportNotifyReply export_notify;
        Npud__MallocReply malloc;
        Npud__MemInfoReply mem_info;
        Npud__ExportMemoryReply export_memory;
        Npud__ImportMemoryReply import_memory;
        Npud__LoadBinaryReply load_binary;
        Npud__SegmentReply segment;
        Npud__QueueReply queue;
        Npud__RoutesReply routes;
        Npud__OwnWaitsReply own_waits;
    };
    union {
        struct {
            Npud__Device row[DEVICES_MAX];
            Npud__Device *list[DEVICES_MAX];
        } devices;
        struct {
            Npud__Route row[ROUTES_MAX];
            Npud__Route *list[ROUTES_MAX];
        } routes;
        char export_key[EXPORT_KEY_TEXT + 1];
    } parts;
    char message[256];
};

/** What a descriptor of an answer was made from, for an answer that is made again. */
struct call_source {
    int file;       /* -1: it is a descriptor that outlives npud itself */
    bool read_only; /* the file was opened anew, for reading */
};

/** One request and its answer. */
struct call {
    struct session *session;
    const Npud__Request *request;
    Npud__Reply reply;
    struct reply_body *body;      /* room of the caller's: until the reply is sent */
    int fd;                       /* goes with the reply; -1: none */
    int more_fd[2];               /* after fd; -1: none, and none after it */
    bool close_fd;                /* all are npud's: closed after they were sent */
    struct call_source source[3]; /* of fd and more_fd */
    bool fault;                   /* end the session */

    /* It may lack something that can be found: control/held_request.h */
    struct room_wait *wait;
    int again; /* enum try_again */

    /* Why it is refused: set by refuse.h. CAUSE_NONE: it is not, or the table has no row for it */
    enum cause cause;
    const struct user *payer; /* of what there is no more, if it is a user's */

    /*
     * The object that the request is about, as its row in proto/wire/requests.inc says;
     * control/fetch.h.
     */
    union {
        struct attach *attach;
        struct stream *stream;
        struct event_obj *event;
        struct ipc_open *ipc;
        struct notify_open *notify;
        struct queue_attach *queue;
        struct mem *mem;
    } of;
};

/** The reply has this body. The value of the expression points to it; it is empty. */
#define CALL_REPLY(call, field, NAME)                                                              \
    ((call)->body->field = (__typeof__((call)->body->field))NPUD__##NAME##_REPLY__INIT,            \
     (call)->reply.body_case = NPUD__REPLY__BODY_##NAME,                                           \
     (call)->reply.field = &(call)->body->field)

/** The key as a string, in the call. */
static inline char *call_key(struct call *call, const struct export_key *key)
{
    char *text = call->body->parts.export_key;

    export_key_encode(key, text);
    text[EXPORT_KEY_TEXT] = '\0';
    return text;
}

/*
 * Handlers, one per kind of request, in the files on_*.c by subject. Each returns 0, with the body
 * of the reply and the descriptor that goes along set in call, or an ACL error with a sentence in
 * call->body->message, and the reply has no body. What a body points to is in call->body, or lives
 * longer than the call.
 */
#define ROW(NAME, handler, about, when, reply, fds_min, fds_max, check)                            \
    int32_t on_##handler(struct call *call);
#include "proto/wire/requests.inc"
#undef ROW
