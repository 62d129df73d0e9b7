#include "daemon/control/session_life.h"

#include <assert.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
#include <utlist.h>

#include "daemon/base/deferred_close.h"
#include "daemon/base/kill_here.h"
#include "daemon/base/log.h"
#include "daemon/base/message_id.h"
#include "daemon/buffers/buffers.h"
#include "daemon/control/answer.h"
#include "daemon/control/batch_job_lookup.h"
#include "daemon/control/dispatch.h"
#include "daemon/control/event_fd.h"
#include "daemon/control/listener.h"
#include "daemon/control/session_idle.h"
#include "daemon/control/rest.h"
#include "daemon/core/device.h"
#include "daemon/core/engine.h"
#include "daemon/core/event.h"
#include "daemon/core/ipc_event.h"
#include "daemon/core/notify.h"
#include "daemon/core/release.h"
#include "daemon/core/server.h"
#include "daemon/core/session.h"
#include "daemon/core/stream.h"
#include "daemon/core/stream_abort.h"
#include "daemon/core/survivor.h"
#include "daemon/core/trace.h"
#include "daemon/engine/value.h"
#include "daemon/kept/fds.h"
#include "daemon/memory/allocation.h"

#define FORGET_AT_ONCE   32 /* streams, while the engines are kept out */
#define DISCARDS_AT_ONCE 64

/*
 * All streams at once: one that goes on because another of the session has been cleared away would
 * do, and tell other processes, what was to be done after it. An engine that does not know the
 * session's use of its device executes nothing of it: so the streams themselves can be cleared away
 * later, some at a time.
 */
void session_halt(struct session *session)
{
    if (session->halted)
        return;
    /* First: the client must know of the end before it can meet a change that comes of it. */
    if (session->page)
        session_announce_end(session->page);
    KILL_HERE(END_ANNOUNCED);
    session_lock(session);
    for (unsigned i = 0; i < DEVICES_MAX; i++)
        if (session->attach[i])
            engine_detach(session->attach[i]->device->engine, session->attach[i]);
    session->halted = true;
    session_unlock(session);
    KILL_HERE(SESSION_HALTED);
}

/* --- the parts, an object at a time; true: nothing of this kind is left --- */

/* The next object of the table, or NULL. Objects that are gone are not looked at again. */
static void *next_object(struct session *session, struct slots *table)
{
    return table->live > 0 ? slots_next(table, &session->end_slot) : NULL;
}

static bool halt_streams(struct session *session)
{
    struct stream *stream = NULL;

    session_halt(session);
    session_lock(session);
    for (unsigned n = 0; n < FORGET_AT_ONCE; n++) {
        stream = next_object(session, &session->streams);
        if (!stream)
            break;
        engine_forget(stream->attach->device->engine, stream);
        engine_leave_work(stream);
    }
    session_unlock(session);
    session->forgotten = !stream;
    return session->forgotten;
}

static bool drop_notifies(struct session *session)
{
    struct stream *stream =
        session->notifies.live > 0 ? next_object(session, &session->streams) : NULL;

    if (stream)
        stream_drop_notifies(stream);
    return !stream;
}

/* name(): the next object of a table is freed. */
#define FREE_NEXT(name, Type, table, free_object)                                                  \
    static bool name(struct session *session)                                                      \
    {                                                                                              \
        Type *o = next_object(session, &session->table);                                           \
                                                                                                   \
        if (o)                                                                                     \
            free_object;                                                                           \
        return !o;                                                                                 \
    }

FREE_NEXT(free_stream, struct stream, streams, stream_free(o))
FREE_NEXT(free_ipc_event, struct ipc_open, ipc, ipc_open_free(o))
FREE_NEXT(free_event, struct event_obj, events, event_obj_free(session, o))
FREE_NEXT(free_notify, struct notify_open, notifies, notify_open_free(o))
FREE_NEXT(free_allocation, struct mem, mems, allocation_free(o))

static bool forget_idle(struct session *session)
{
    session_idle_forget(session);
    return true;
}

static bool close_devices(struct session *session)
{
    session_close_devices(session);
    return true;
}

static bool unmap_stream_segment(struct session *session)
{
    return session_free_arena_file(&session->stream_files);
}

static bool unmap_event_segment(struct session *session)
{
    return session_free_arena_file(&session->event_files);
}

static bool forget_discards(struct session *session)
{
    return stream_forget_discards(session, &session->end_slot, DISCARDS_AT_ONCE);
}

/* Their memory: a table that was large takes a while. */
static bool free_table(struct session *session)
{
    assert(session->table[session->end_slot].live == 0);
    slots_deinit(&session->table[session->end_slot]);
    return ++session->end_slot == SESSION_TABLE_COUNT;
}

/*
 * Streams first: after that no engine knows the session, and what they would have done is failed by
 * the rest. Devices next: then nothing of the rest has to keep an engine out. Exports before open
 * events: an event that only this session has must not linger, because it would push out events
 * that others have.
 */
static bool (*const parts[])(struct session *session) = {
    halt_streams,        drop_notifies,        free_stream,         forget_idle,
    event_fd_drop,       release_flush,        close_devices,       ipc_export_drop,
    free_ipc_event,      free_event,           free_notify,         free_allocation,
    buffers_session_end, unmap_stream_segment, unmap_event_segment, forget_discards,
    free_table,
};
#define PARTS (sizeof(parts) / sizeof(parts[0]))

/* Everything that the client ever got is gone. */
static void free_empty(struct session *session)
{
    struct server *server = session->server;

    assert(session->memory == 0 && !session->exports && session->n_event_fds == 0);
    assert(session->n_fences == 0);
    if (session->page) {
        log_event(MESSAGE_SESSION_GONE, LOG_DEBUG, &session->log, "%s has ended", session->program);
        munmap(session->page, sizeof(*session->page));
        kept_close(session->page_fd);
    }
    server->devices->backend->space_free(session->space);
    value_forget_rests(session);
    if (session->own_waits)
        dispatch_drop_own_waits(session);
    dispatch_drop_held(session);
    rest_leave(session);
    job_cancel(&session->serve);
    job_cancel(&session->end);
    if (session->on_socket)
        event_free(session->on_socket);
    if (session->on_death)
        event_free(session->on_death);
    kept_fd_leave(session->socket);
    KILL_HERE(CONNECTION_SHUT);
    if (!answer_leave(session))
        deferred_close_socket(session_payer(session), session->socket, session->takes_fds);
    survivor_watch(session);
    kept_close(session->pidfd);
    kept_drop(&session->kept);
    user_uncharge(&session->charge);
    user_uncharge(&session->charge_fds);
    user_uncharge(&session->charge_tables);
    user_uncharge(&session->charge_maps);
    user_unref(session->user);
    batch_job_lookup_leave(session);
    batch_job_unref(session->batch_job);
    trace_forget_session(session);
    DL_DELETE(server->sessions, session);
    server->n_sessions--;
    server->sessions_gone++;
    free(session);
    /* A descriptor is free again: the next exhaustion is logged. */
    server->clients->exhausted = false;
}

static bool free_some(struct session *session, bool all)
{
    while (session->end_part < PARTS) {
        if (parts[session->end_part](session)) {
            session->end_part++;
            session->end_slot = 0;
        }
        /* Each object by itself: what a step may change at once is bounded. */
        kept_commit();
        KILL_HERE(END_PIECE_CERTAIN);
        if (!all && schedule_step_over(&session->server->schedule))
            return false;
    }
    free_empty(session);
    return true;
}

bool session_free_some(struct session *session)
{
    return free_some(session, false);
}

void session_free(struct session *session)
{
    free_some(session, true);
}
