/* Reports on the objects of sessions: streams, events, memory, notifies. */
#include "daemon/admin/report_topics.h"

#include <stdio.h>

#include "daemon/admin/blocked.h"
#include "daemon/admin/wait_graph.h"
#include "daemon/core/device.h"
#include "daemon/core/event.h"
#include "daemon/core/ipc_event.h"
#include "daemon/core/ipc_record.h"
#include "daemon/core/notify.h"
#include "daemon/core/server.h"
#include "daemon/core/session.h"
#include "daemon/core/stream.h"
#include "daemon/core/engine.h"
#include "daemon/engine/inject.h"
#include "daemon/memory/allocation.h"
#include "proto/util/clock.h"
#include "proto/wire/npud.pb-c.h"

/* Under the engine's lock. */
static const char *stream_state(const struct stream *s, uint64_t submitted)
{
    if (stream_is_parked(s) && inject_holder(s->session->server->inject, s->waiting_on))
        return "stalled";
    if (atomic_load(&s->stopped) != 0)
        return "stopped";
    if (stream_is_parked(s))
        return "waiting";
    return submitted != s->live->position ? "running" : "idle";
}

/* True: what it waits for is not its device, which works. Under the engine's lock. */
static bool describe_parked(const struct stream *s, char *buf, size_t size)
{
    struct wait_process process = {.session = s->session};
    struct blocked b;

    if (blocked_of_stream(s, &b)) {
        b.process = &process;
        blocked_describe(&b, buf, size);
        return true;
    }
    if (stream_is_parked(s) && s->live->task.op == TASK_DELAY)
        snprintf(buf, size, "a delay of %llu us",
                 (unsigned long long)(s->live->task.delay.ns / NSEC_PER_USEC));
    else if (stream_is_parked(s) && !s->waiting_on)
        snprintf(buf, size, "its device");
    return false;
}

static void report_stream(struct rows *rows, struct stream *s)
{
    char waits[128] = "";
    ADD_ROW(rows, Npud__StreamRow, NPUD__STREAM_ROW__INIT, r);

    r->session = s->session->id;
    r->pid = s->session->pid;
    r->device = s->attach->device->index;
    r->stream = stream_id(s);
    r->priority = s->live->priority;
    engine_lock(s->attach->device->engine);
    r->submitted = atomic_load_explicit(&s->ctrl->tail, memory_order_relaxed);
    r->done = atomic_load(&s->live->done);
    r->failures = s->live->failures;
    r->failed_task = (uint32_t)s->live->failed_task;
    r->failed_thread = (uint32_t)(s->live->failed_task >> 32);
    r->failed_code = (int32_t)(uint32_t)s->live->failed_code;
    r->state = (char *)stream_state(s, r->submitted);
    r->blocked = describe_parked(s, waits, sizeof(waits));
    engine_unlock(s->attach->device->engine);
    r->waits_for = report_rows_copy_text(rows, waits);
}

void report_streams(struct server *server, struct rows *rows)
{
    static const size_t tables[] = {offsetof(struct session, streams)};
    struct session *session = NULL;
    struct stream *s;

    while ((s = report_rows_next_object(server, rows, tables, 1, &session)))
        report_stream(rows, s);
}

static void report_ipc_event(struct rows *rows, struct ipc_event *ev, struct session *session)
{
    static const char *const states[] = {"none", "pending", "done", "failed"};
    uint64_t latest = atomic_load(&ev->page->latest);
    int32_t error, pid;
    bool committed = ipc_record_outcome(ev, ipc_latest_number(latest), &error, &pid);
    enum ipc_state state =
        committed && error != 0 ? IPC_FAILED : ipc_state_of(ev->page, ipc_latest_number(latest));
    ADD_ROW(rows, Npud__EventRow, NPUD__EVENT_ROW__INIT, r);

    r->session = session ? session->id : 0;
    r->pid = session ? session->pid : 0;
    r->kind = session ? "ipc" : "ipc (lingering)";
    r->device = ev->device;
    r->event = ev->id;
    r->records = ipc_latest_number(latest);
    r->status = (char *)states[state];
    r->openers = ev->openers.live - ev->n_left;
}

static void report_event(struct rows *rows, struct event_obj *event, struct session *session)
{
    ADD_ROW(rows, Npud__EventRow, NPUD__EVENT_ROW__INIT, r);

    r->session = session->id;
    r->pid = session->pid;
    r->kind = (char *)"plain";
    r->device = event->device;
    r->event = event->slot.number;
    r->records = atomic_load_explicit(&event->shm->records, memory_order_relaxed);
    r->openers = 1;
}

void report_events(struct server *server, struct rows *rows)
{
    static const size_t tables[] = {offsetof(struct session, ipc),
                                    offsetof(struct session, events)};
    struct session *session = NULL;
    struct ipc_event *ev, *tmp;
    void *object;

    while ((object = report_rows_next_object(server, rows, tables, 2, &session))) {
        if (rows->progress->table == 0)
            report_ipc_event(rows, ((struct ipc_open *)object)->event, session);
        else
            report_event(rows, object, session);
    }
    if (rows->more)
        return;
    HASH_ITER (hh, server->ipc->by_id, ev, tmp)
        if (ev->lingers)
            report_ipc_event(rows, ev, NULL);
}

static const char *memory_role(const struct mem *mem)
{
    if (mem->freed)
        return "freed";
    if (mem->imported)
        return "imported";
    return mem->exports || mem->pages->n_holders > 1 ? "exported" : "own";
}

void report_memory(struct server *server, struct rows *rows)
{
    static char *const kinds[] = {
        [MEM_DEVICE] = "device", [MEM_HOST] = "host", [MEM_BINARY] = "binary"};
    static const size_t tables[] = {offsetof(struct session, mems)};
    struct session *session = NULL;
    struct mem *mem;

    while ((mem = report_rows_next_object(server, rows, tables, 1, &session))) {
        ADD_ROW(rows, Npud__MemoryRow, NPUD__MEMORY_ROW__INIT, r);

        r->session = session->id;
        r->pid = session->pid;
        r->kind = kinds[mem->pages->kind];
        r->device = mem->pages->device->index;
        r->size = mem->pages->size;
        r->role = (char *)memory_role(mem);
        r->pages = mem->pages->number;
        r->holders = mem->pages->n_holders;
        r->maker_pid = mem->pages->maker_pid;
        r->maker = pages_maker(mem->pages) ? "holds" : "left";
    }
}

static const char *notify_kind(const struct notify_open *open)
{
    const struct notify *n = open->notify;

    if (n->counts)
        return "count";
    if (!n->exported)
        return "local";
    return n->creator == open ? "exported" : "imported";
}

void report_notifies(struct server *server, struct rows *rows)
{
    static const size_t tables[] = {offsetof(struct session, notifies)};
    struct session *session = NULL;
    struct notify_open *open;

    while ((open = report_rows_next_object(server, rows, tables, 1, &session))) {
        struct notify *n = open->notify;
        ADD_ROW(rows, Npud__NotifyRow, NPUD__NOTIFY_ROW__INIT, r);

        r->session = session->id;
        r->pid = session->pid;
        r->kind = (char *)notify_kind(open);
        r->device = n->device->index;
        r->notify = n->id->number;
        r->value = notify_value(n);
        r->waiting = atomic_load_explicit(&n->waiting.n, memory_order_relaxed);
        r->openers = n->n_opens;
        r->allowed = n->importers.n;
    }
}
