/*
 * The trace: the events of one ring after the other, the oldest first, as they stand there. Rings
 * go on being written meanwhile: what was there when the ring's turn came is told, and what has
 * been overwritten since is lost like what was overwritten before.
 */
#include "daemon/admin/report_topics.h"

#include <stddef.h>
#include <string.h>
#include <utlist.h>

#include "daemon/base/file_pages.h"
#include "daemon/core/device.h"
#include "daemon/core/engine.h"
#include "daemon/core/server.h"
#include "daemon/core/trace.h"
#include "proto/util/clock.h"
#include "proto/wire/npud.pb-c.h"

#define PAGE ((size_t)4096)

#define RAW_BYTES (256 * sizeof(struct trace_event)) /* of events in one row, at most */

/* Which side may write a kind; TRACE_TEXT goes with the event before. */
enum writer { WRITER_NONE, WRITER_NPUD, WRITER_CLIENT };
static const uint8_t writers[TRACE_KINDS] = {
    [TRACE_TASK] = WRITER_NPUD,         [TRACE_PARKED] = WRITER_NPUD,
    [TRACE_RELEASE] = WRITER_NPUD,      [TRACE_FAULT] = WRITER_NPUD,
    [TRACE_SLEEP] = WRITER_NPUD,        [TRACE_CONNECTED] = WRITER_NPUD,
    [TRACE_DISCONNECTED] = WRITER_NPUD, [TRACE_CARRY_TAKE] = WRITER_NPUD,
    [TRACE_CARRY_PUT] = WRITER_NPUD,    [TRACE_RESTARTED] = WRITER_NPUD,
    [TRACE_SUBMITTED] = WRITER_CLIENT,  [TRACE_CALLBACK] = WRITER_CLIENT,
    [TRACE_WAIT] = WRITER_CLIENT,       [TRACE_ENQUEUE] = WRITER_CLIENT,
    [TRACE_DEQUEUE] = WRITER_CLIENT,    [TRACE_RANGE] = WRITER_CLIENT,
    [TRACE_MARK] = WRITER_CLIENT,       [TRACE_KERNEL] = WRITER_CLIENT,
    [TRACE_CALL] = WRITER_CLIENT,
};

/* A ring while it is told. */
struct source {
    const struct trace_ring *ring;
    uint64_t entries;
    uint64_t from;                     /* its first event of this trace */
    int32_t device;                    /* -1: of no engine */
    const struct trace_client *client; /* NULL: npud's own */
};

static uint64_t session_of(const struct source *source)
{
    return source->client ? source->client->session : 0;
}

/* The ring that is next, from progress on; false: there is none. */
static bool find_source(const struct trace *trace, struct trace_progress *p, struct source *source)
{
    struct trace_client *client;

    for (; p->ring < TRACE_OWN_MAX; p->ring++) {
        const struct trace_own *own = &trace->own[p->ring];

        if (own->ring) {
            *source = (struct source){.ring = own->ring,
                                      .entries = own->ring->mask + 1,
                                      .from = own->from,
                                      .device = (int32_t)p->ring - 1};
            return true;
        }
    }
    DL_FOREACH (trace->clients, client)
        if (client->session >= p->session) {
            if (client->session > p->session)
                p->begun = false; /* the one that was being told is gone */
            p->session = client->session;
            *source = (struct source){.ring = client->ring,
                                      .entries = client->entries,
                                      .from = client->from,
                                      .device = -1,
                                      .client = client};
            return true;
        }
    return false;
}

/* An engine writes down what it has done a moment after it is done: under its lock, it has. */
static uint64_t count_events(struct server *server, const struct source *source)
{
    struct engine *engine =
        source->device >= 0 ? server->devices->device[source->device].engine : NULL;
    uint64_t next;

    if (engine)
        engine_lock(engine);
    next = atomic_load_explicit(&source->ring->next, memory_order_relaxed);
    if (engine)
        engine_unlock(engine);
    return next;
}

/* Where the reader goes on; an npud of before has not told it, and the ring is another one then. */
static uint64_t first_wanted(const struct trace_progress *p, const struct source *source,
                             uint64_t next)
{
    uint64_t wanted = source->from;

    for (size_t i = 0; i < p->n_after; i++)
        if (p->after[i].session == session_of(source) && p->after[i].device == source->device &&
            p->after[i].next > wanted)
            wanted = p->after[i].next;
    return wanted < next ? wanted : next;
}

static void begin_source(struct server *server, struct trace_progress *p,
                         const struct source *source)
{
    uint64_t next = count_events(server, source);

    /*
     * A client can have stored any number there. With one of which it cannot have come, in a
     * nanosecond for each event, there is nothing to be told.
     */
    if (source->client &&
        (next < source->from || next - source->from > clock_ns() - server->trace->begun_ns))
        next = source->from;
    p->begun = true;
    p->told = 0;
    p->memory_from = p->memory_to = 0;
    p->end = next;
    p->first = first_wanted(p, source, next);
    p->next = next > source->entries ? next - source->entries : 0;
    if (p->next < p->first)
        p->next = p->first;
}

static void end_source(struct trace_progress *p, const struct source *source)
{
    p->begun = false;
    if (source->client)
        p->session++;
    else
        p->ring++;
}

/* --- rows --- */

/*
 * Is it of a kind, and of an object, that the writer of the ring has a right to? What is no event
 * is lost. Of its own streams it tells by slots, which are its own whatever it stores.
 */
static bool is_right(const struct source *source, const struct trace_event *event)
{
    if (event->kind >= TRACE_KINDS ||
        writers[event->kind] != (source->client ? WRITER_CLIENT : WRITER_NPUD))
        return false;
    return (event->kind != TRACE_ENQUEUE && event->kind != TRACE_DEQUEUE) ||
           trace_may_tell(source->client, (enum trace_kind)event->kind, event->handover.queue);
}

/*
 * A client can store any times, and one far from now would stretch the picture of all processes to
 * nothing. An event that is in the ring has ended by now.
 */
static void limit_times(struct trace_event *event, uint64_t now)
{
    if (event->end_ns > now)
        event->end_ns = now;
    if (event->begin_ns > event->end_ns)
        event->begin_ns = event->end_ns;
}

/* A row for events of this ring. */
static void begin_raw(struct rows *rows, const struct source *source, Npud__TraceRow **raw)
{
    uint8_t *data = report_rows_take(rows, RAW_BYTES);

    *raw = NULL;
    if (!data)
        return;
    ADD_ROW(rows, Npud__TraceRow, NPUD__TRACE_ROW__INIT, row);
    row->session = session_of(source);
    row->device = source->device;
    row->raw.data = data;
    *raw = row;
}

static void append_raw(Npud__TraceRow *raw, const struct trace_event *event)
{
    memcpy(raw->raw.data + raw->raw.len, event, sizeof(*event));
    raw->raw.len += sizeof(*event);
}

/*
 * What goes on with the text of the event with this number, as far as it is there. The size of the
 * text is the client's word: the row has room for as much as there can be.
 */
static void append_text(Npud__TraceRow *raw, const struct source *source, uint64_t number,
                        const struct trace_event *event)
{
    struct trace_event more = {0};
    size_t have = trace_text_first(event->kind);

    for (unsigned i = 1; have != 0 && have < event->size && have < TRACE_TEXT_MAX; i++) {
        if (!trace_read(source->ring, source->entries, number + i, &more) ||
            more.kind != TRACE_TEXT)
            return;
        append_raw(raw, &more);
        have += TRACE_TEXT_NEXT;
    }
}

/* False: no memory. */
static bool add_event(struct rows *rows, const struct source *source, uint64_t number,
                      const struct trace_event *event, Npud__TraceRow **raw)
{
    const size_t texts = (TRACE_TEXT_MAX + TRACE_TEXT_NEXT - 1) / TRACE_TEXT_NEXT;

    if (!*raw || (*raw)->raw.len + (1 + texts) * sizeof(*event) > RAW_BYTES)
        begin_raw(rows, source, raw);
    if (!*raw)
        return false;
    append_raw(*raw, event);
    append_text(*raw, source, number, event);
    return true;
}

static void add_ring(struct server *server, struct rows *rows, const struct source *source,
                     const struct trace_progress *p)
{
    const struct trace *trace = server->trace;

    ADD_ROW(rows, Npud__TraceRow, NPUD__TRACE_ROW__INIT, row);
    row->kind = "ring";
    row->begin_ns = trace->begun_ns;
    row->end_ns = trace->on ? 0 : trace->ended_ns;
    row->device = source->device;
    row->events = p->end - p->first;
    row->next = p->end;
    row->entries = source->entries;
    row->lost = row->events > p->told ? row->events - p->told : 0;
    if (!source->client)
        return;
    row->session = source->client->session;
    row->pid = source->client->pid;
    row->uid = source->client->user->uid;
    row->program = report_rows_copy_text(rows, source->client->program);
}

/* Of processes of which there is no ring: they are as lost as what was in it. */
static void add_refused(struct server *server, struct rows *rows)
{
    ADD_ROW(rows, Npud__TraceRow, NPUD__TRACE_ROW__INIT, row);
    row->kind = "ring";
    row->device = -1;
    row->events = row->lost = server->trace->refused;
}

static bool is_memory(const struct trace_progress *p, size_t at)
{
    return at >= p->memory_from && at < p->memory_to;
}

/*
 * A reader that follows gets an event that is being written the next time. Of one whose writer was
 * killed there is none: the reader does not wait for it if the ring is half full behind it, or if
 * none writes any more.
 */
static bool may_wait(const struct server *server, const struct trace_progress *p,
                     const struct source *source)
{
    return p->follows && server->trace->on && !(source->client && source->client->ended) &&
           p->end - p->next < source->entries / 2;
}

/*
 * Of a client's ring, pages that nothing was written to are passed over: to read them would make
 * them memory, and npud's. False: there is nothing more.
 */
static bool find_memory(const struct server *server, struct trace_progress *p,
                        const struct source *source)
{
    const size_t first = offsetof(struct trace_ring, entry);
    const size_t end = (trace_ring_bytes(source->entries) + PAGE - 1) & ~(PAGE - 1);

    while (source->client && p->next < p->end) {
        uint64_t i = p->next & (source->entries - 1), to;
        size_t at = first + i * sizeof(struct trace_event);

        if (is_memory(p, at))
            break;
        p->memory_from = at & ~(PAGE - 1);
        if (!file_pages_next(source->client->fd, source->client->ring, end, &p->memory_from,
                             &p->memory_to))
            p->memory_from = p->memory_to = end;
        if (is_memory(p, at))
            break;
        if (may_wait(server, p, source)) {
            p->end = p->next;
            break;
        }
        to = (p->memory_from - first) / sizeof(struct trace_event);
        p->next += (to < source->entries ? to : source->entries) - i;
    }
    return p->next < p->end;
}

static void tell_ring(struct server *server, struct rows *rows, const struct source *source)
{
    struct trace_progress *p = &rows->progress->trace;
    struct trace_event event = {0};
    Npud__TraceRow *raw = NULL;
    uint64_t now;

    if (!p->begun)
        begin_source(server, p, source);
    now = clock_ns(); /* after p->end was read: what is told ended before */
    for (; p->next < p->end && !report_rows_look_over(rows); p->next++) {
        if (!find_memory(server, p, source))
            break;
        if (!trace_read(source->ring, source->entries, p->next, &event)) {
            if (!may_wait(server, p, source) ||
                !trace_is_pending(source->ring, source->entries, p->next))
                continue;
            p->end = p->next;
            break;
        }
        if (event.kind == TRACE_TEXT) {
            p->told++; /* with the one that it goes on with */
        } else if (is_right(source, &event)) {
            if (source->client)
                limit_times(&event, now);
            p->told += add_event(rows, source, p->next, &event, &raw);
        }
    }
    if (p->next < p->end)
        return;
    add_ring(server, rows, source, p);
    end_source(p, source);
}

void report_trace(struct server *server, struct rows *rows)
{
    struct source source;

    if (server->trace->begun_ns == 0)
        return; /* there was none */
    while (!rows->more && find_source(server->trace, &rows->progress->trace, &source))
        tell_ring(server, rows, &source);
    if (!rows->more && server->trace->refused > 0)
        add_refused(server, rows);
}
