#include "daemon/control/session_life.h"

#include <assert.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
#include <utlist.h>

#include "daemon/base/deferred_close.h"
#include "daemon/base/heap_trim.h"
#include "daemon/base/log.h"
#include "daemon/buffers/buffers.h"
#include "daemon/control/answer.h"
#include "daemon/control/event_fd.h"
#include "daemon/control/listener.h"
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
#include "daemon/memory/allocation.h"

/*
 * All streams at once: one that goes on because another of the session has been cleared away would
 * do, and tell other processes, what was to be done after it.
 */
void session_halt(struct session *session)
{
    struct stream *stream;

    /* First: the client must know of the end before it can meet a change that comes of it. */
    if (session->page)
        session_announce_end(session->page);
    session_lock(session);
    slots_foreach (&session->streams, i, stream)
        engine_forget(stream->attach->device->engine, stream);
    for (unsigned i = 0; i < DEVICES_MAX; i++)
        if (session->attach[i])
            engine_detach(session->attach[i]->device->engine, session->attach[i]);
    session_unlock(session);
    session->halted = true;
}

/*
 * Streams first: after that no engine knows the session, and what they would have done is failed by
 * the rest. Devices next: then nothing of the rest has to keep an engine out. Exports before open
 * events: an event that only this session has must not linger, because it would push out events
 * that others have.
 */
static void empty_ledger(struct session *session)
{
    struct stream *stream;
    struct event_obj *event;
    struct ipc_open *open;
    struct mem *mem;
    struct notify_open *notify;

    session_halt(session);
    if (session->notifies.live > 0)
        slots_foreach (&session->streams, i, stream)
            stream_drop_notifies(stream);
    slots_foreach (&session->streams, i, stream)
        stream_free(stream);
    event_fds_drop(session);
    releases_flush(session);
    session_close_devices(session);
    ipc_exports_drop(session);
    slots_foreach (&session->ipc, i, open)
        ipc_open_free(open);
    slots_foreach (&session->events, i, event)
        event_obj_free(event);
    slots_foreach (&session->notifies, i, notify)
        notify_open_free(notify);
    slots_foreach (&session->mems, i, mem)
        allocation_free(mem);
    assert(session->streams.live == 0 && session->events.live == 0 && session->ipc.live == 0);
    assert(session->notifies.live == 0 && session->mems.live == 0 && session->memory == 0);
    assert(!session->exports && session->n_event_fds == 0 && session->n_fences == 0);
}

void session_free(struct session *session)
{
    struct server *server = session->server;

    if (session->page)
        log_line(LOG_DEBUG, &session->log, "gone");
    empty_ledger(session);
    buffers_session_end(session);
    session_free_segments(&session->stream_segments);
    session_free_segments(&session->event_segments);
    if (session->page)
        munmap(session->page, sizeof(*session->page));
    stream_forget_discards(session);
    slots_deinit(&session->streams);
    slots_deinit(&session->events);
    slots_deinit(&session->ipc);
    slots_deinit(&session->mems);
    slots_deinit(&session->notifies);
    job_cancel(&session->serve);
    job_cancel(&session->end);
    if (session->on_socket)
        event_free(session->on_socket);
    if (session->on_death)
        event_free(session->on_death);
    if (!answer_leave(session)) {
        if (session->sends_fds)
            deferred_close_slow(session->socket);
        else
            deferred_close(session->socket);
    }
    survivor_watch(session);
    if (session->pidfd >= 0)
        close(session->pidfd);
    user_uncharge(&session->charge);
    user_uncharge(&session->charge_fds);
    user_uncharge(&session->charge_tables);
    user_uncharge(&session->charge_maps);
    user_unref(session->user);
    DL_DELETE(server->sessions, session);
    server->n_sessions--;
    free(session);
    heap_trim_count();
    /* A descriptor is free again: the next exhaustion is logged. */
    server->clients->exhausted = false;
}
