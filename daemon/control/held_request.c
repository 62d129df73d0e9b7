#include "daemon/control/held_request.h"

#include <stddef.h>
#include <stdlib.h>
#include <utlist.h>

#include "daemon/base/deferred_close.h"
#include "daemon/buffers/peer.h"
#include "daemon/control/listener.h"
#include "daemon/control/session_hear.h"
#include "daemon/core/call.h"
#include "daemon/core/refuse.h"
#include "daemon/core/server.h"
#include "daemon/core/session.h"

static void wake(struct server *server, struct held_request *held)
{
    DL_DELETE(server->asleep, held);
    held->asleep = false;
    session_hear_again(held->session);
}

/* All of them: one file may be what each of them lacks, and those that still do sleep again. */
static bool run_freed(struct job *job)
{
    struct server *server = (struct server *)((char *)job - offsetof(struct server, freed));

    server->freed_awaited = false;
    listener_wake(server->clients);
    listener_wake(server->admins);
    while (server->asleep) {
        wake(server, server->asleep);
        if (schedule_step_over(&server->schedule))
            break;
    }
    return server->asleep != NULL;
}

void held_requests_init(struct server *server)
{
    server->freed = (struct job){run_freed, "requests that wait", &server->schedule.own};
}

void held_requests_deinit(struct server *server)
{
    deferred_close_forget();
    job_cancel(&server->freed);
}

void request_device_told(struct backend_space **space)
{
    struct session *session = (struct session *)((char *)space - offsetof(struct session, space));

    if (session->held && session->held->asleep)
        wake(session->server, session->held);
}

bool request_hold(struct session *session, Npud__Request *request, const struct room_wait *wait)
{
    struct held_request *held = session->held;

    if (!held)
        held = session->held = calloc(1, sizeof(*held));
    if (!held)
        return false;
    held->session = session;
    held->request = request;
    held->wait = *wait;
    return true;
}

Npud__Request *request_release(struct session *session)
{
    struct held_request *held = session->held;
    Npud__Request *request;

    if (!held)
        return NULL;
    request = held->request;
    if (held->asleep)
        DL_DELETE(session->server->asleep, held);
    session->held = NULL;
    free(held);
    return request;
}

void request_sleep(struct session *session)
{
    struct held_request *held = session->held;

    if (!held->asleep)
        DL_APPEND(session->server->asleep, held);
    held->asleep = true;
}

/* What a user lacks by its limits is there as soon as it is free, and not when it is closed. */
static enum try_again await_freed(struct server *server, struct room_wait *wait, uint64_t closed)
{
    struct job *job = server->freed_awaited ? NULL : &server->freed;

    switch (deferred_close_await(closed, &wait->last, job)) {
    case DEFERRED_CLOSED:
        return TRY_NEXT_TURN;
    case DEFERRED_LATER:
        server->freed_awaited = true;
        return TRY_WOKEN;
    default:
        return TRY_NEVER;
    }
}

enum try_again room_try_again(struct server *server, struct room_wait *wait, struct pool *own,
                              const struct user *payer, uint64_t closed)
{
    switch (pools_search_room(server->pools, &wait->search, own, payer)) {
    case ROOM_FOUND:
        return TRY_NOW;
    case ROOM_MORE:
        return TRY_NEXT_TURN;
    default:
        return payer ? TRY_NEVER : await_freed(server, wait, closed);
    }
}

enum try_again request_try_again(const struct call *call, struct room_wait *wait, uint64_t closed)
{
    const struct session *session = call->session;
    const struct user *payer;

    /* npud is at it, in other turns or in this request's. */
    if (call->cause == CAUSE_QUEUE_MOVING || call->cause == CAUSE_QUEUE_ENDING ||
        call->cause == CAUSE_QUEUE_REVOKING || call->cause == CAUSE_ROUTES_GO_ON ||
        call->cause == CAUSE_IDLE_GOES_ON)
        return TRY_NEXT_TURN;
    if (call->cause == CAUSE_DEVICE_AT_IT)
        return TRY_WOKEN;
    if (!refuse_lacks_buffers(call, &payer))
        return TRY_NEVER;
    return room_try_again(session->server, wait, session->peer ? session->peer->pool : NULL, payer,
                          closed);
}
