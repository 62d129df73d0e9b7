/*
 * The trace, as rows: the events of one ring after the other, the oldest first. Rings go on being
 * written meanwhile: what was there when the ring's turn came is told, and what has been
 * overwritten since is lost like what was overwritten before.
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
#include "daemon/engine/task_row.h"
#include "proto/shm/wait_slot.h"
#include "proto/util/clock.h"
#include "proto/wire/npud.pb-c.h"

#define PAGE ((size_t)4096)

/* Which words of an event a kind has, and which side may write it. */
enum words {
    WORDS_NONE,
    WORDS_TASK,
    WORDS_RELEASE,
    WORDS_PROCESS,
    WORDS_HANDOVER,
    WORDS_TEXT,
    WORDS_CALL
};

static const struct {
    const char *name;
    enum words words;
    bool by_client;
    bool named_task; /* op is that of a task */
} kinds[TRACE_KINDS] = {
    [TRACE_TASK] = {"task", WORDS_TASK, false, true},
    [TRACE_PARKED] = {"parked", WORDS_TASK, false, true},
    [TRACE_RELEASE] = {"release", WORDS_RELEASE, false, true},
    [TRACE_FAULT] = {"fault", WORDS_TASK, false, true},
    [TRACE_SLEEP] = {"sleep", WORDS_NONE, false, false},
    [TRACE_CONNECTED] = {"connected", WORDS_PROCESS, false, false},
    [TRACE_DISCONNECTED] = {"disconnected", WORDS_PROCESS, false, false},
    /* As those of processes are called: they are the same, of session 0. */
    [TRACE_CARRY_TAKE] = {"dequeue", WORDS_HANDOVER, false, false},
    [TRACE_CARRY_PUT] = {"enqueue", WORDS_HANDOVER, false, false},
    [TRACE_RESTARTED] = {"restarted", WORDS_NONE, false, false},
    [TRACE_SUBMITTED] = {"submitted", WORDS_TASK, true, true},
    [TRACE_CALLBACK] = {"callback", WORDS_NONE, true, false},
    [TRACE_WAIT] = {"wait", WORDS_NONE, true, false},
    [TRACE_ENQUEUE] = {"enqueue", WORDS_HANDOVER, true, false},
    [TRACE_DEQUEUE] = {"dequeue", WORDS_HANDOVER, true, false},
    [TRACE_RANGE] = {"range", WORDS_TEXT, true, false},
    [TRACE_MARK] = {"mark", WORDS_TEXT, true, false},
    [TRACE_KERNEL] = {"kernel", WORDS_TEXT, true, false},
    [TRACE_CALL] = {"call", WORDS_CALL, true, false},
};

static const char *const ways[TRACE_WAYS] = {
    [TRACE_WAY_NONE] = "",
    [TRACE_HOST_TO_HOST] = "host to host",
    [TRACE_HOST_TO_DEVICE] = "host to device",
    [TRACE_DEVICE_TO_HOST] = "device to host",
    [TRACE_DEVICE_TO_DEVICE] = "device to device",
    [TRACE_TO_HOST] = "to host",
    [TRACE_TO_DEVICE] = "to device",
};

static const char *const wait_names[WAIT_KIND_MASK + 1] = {
    [WAIT_POSITION] = "stream", [WAIT_RECORD] = "event", [WAIT_CALLBACK] = "callback",
    [WAIT_MESSAGE] = "message", [WAIT_ROOM] = "room",    [WAIT_GRANT] = "grant",
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

static void fill_task(Npud__TraceRow *row, const struct trace_event *event)
{
    row->position = event->task.position;
    row->slot = event->task.slot;
    row->stream = event->task.stream;
    row->code = event->task.code;
    if (event->kind == TRACE_FAULT)
        row->rule = event->task.rule;
    if (event->kind == TRACE_TASK && event->way < TRACE_WAYS) {
        row->bytes = (uint64_t)event->bytes_high << 32 | event->task.bytes_low;
        row->way = (char *)ways[event->way];
    }
    if (row->session == 0)
        row->session = event->task.session;
}

static void fill_release(Npud__TraceRow *row, const struct trace_event *event)
{
    row->session = event->release.session;
    row->slot = event->slot;
    row->position = event->release.position;
    row->from_session = event->release.from_session;
    row->from_slot = event->from_slot;
    row->from_position = event->release.from_position;
}

static char *copy_bytes(struct rows *rows, const char *bytes, size_t size)
{
    char text[TRACE_TEXT_MAX + 1];

    memcpy(text, bytes, size);
    text[size] = '\0';
    return report_rows_copy_text(rows, text);
}

/*
 * The text of the event with this number, as far as the entries that go on with it are there. It
 * begins there, with so many bytes.
 */
static char *read_text(struct rows *rows, const struct source *source, uint64_t number,
                       const struct trace_event *event, const char *begin, size_t first)
{
    char text[TRACE_TEXT_MAX];
    size_t size = event->size < sizeof(text) ? event->size : sizeof(text);
    size_t have = size < first ? size : first;
    struct trace_event more;

    memcpy(text, begin, have);
    for (unsigned i = 1; have < size; i++) {
        size_t part = size - have < TRACE_TEXT_NEXT ? size - have : TRACE_TEXT_NEXT;

        if (!trace_read(source->ring, source->entries, number + i, &more) ||
            more.kind != TRACE_TEXT)
            break;
        memcpy(text + have, (const char *)more.words + TRACE_TEXT_AT, part);
        have += part;
    }
    return copy_bytes(rows, text, have);
}

static void fill_words(struct rows *rows, Npud__TraceRow *row, const struct source *source,
                       uint64_t number, const struct trace_event *event)
{
    switch (kinds[event->kind].words) {
    case WORDS_TASK:
        fill_task(row, event);
        break;
    case WORDS_RELEASE:
        fill_release(row, event);
        break;
    case WORDS_PROCESS:
        row->session = event->process.session;
        row->pid = event->process.pid;
        row->uid = event->process.uid;
        row->program = copy_bytes(rows, event->process.program,
                                  strnlen(event->process.program, sizeof(event->process.program)));
        break;
    case WORDS_HANDOVER:
        row->queue = event->handover.queue;
        row->buffer = event->handover.buffer;
        if (event->kind == TRACE_CARRY_PUT)
            row->taken_buffer = event->handover.taken;
        break;
    case WORDS_TEXT:
        row->text = read_text(rows, source, number, event, event->text, TRACE_TEXT_FIRST);
        break;
    case WORDS_CALL:
        row->text = read_text(rows, source, number, event, event->call.name, TRACE_NAME_FIRST);
        row->bytes = event->call.bytes;
        row->way = (char *)ways[event->op < TRACE_WAYS ? event->op : TRACE_WAY_NONE];
        break;
    case WORDS_NONE:
        break;
    }
}

static const char *name_what(const struct trace_event *event)
{
    if (kinds[event->kind].named_task)
        return task_row(event->op)->name;
    if (event->kind == TRACE_WAIT && wait_names[event->op & WAIT_KIND_MASK])
        return wait_names[event->op & WAIT_KIND_MASK];
    return "";
}

/*
 * Is it of a kind, and of an object, that the writer of the ring has a right to? What is no event
 * is lost. Of its own streams it tells by slots, which are its own whatever it stores.
 */
static bool is_right(const struct source *source, const struct trace_event *event)
{
    if (event->kind >= TRACE_KINDS || !kinds[event->kind].name ||
        kinds[event->kind].by_client != (source->client != NULL))
        return false;
    return !source->client || kinds[event->kind].words != WORDS_HANDOVER ||
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

static void add_event(struct rows *rows, const struct source *source, uint64_t number,
                      const struct trace_event *event)
{
    ADD_ROW(rows, Npud__TraceRow, NPUD__TRACE_ROW__INIT, row);
    row->kind = (char *)kinds[event->kind].name;
    row->begin_ns = event->begin_ns;
    row->end_ns = event->end_ns;
    row->device = source->device;
    row->stream = -1;
    row->task = (char *)name_what(event);
    if (source->client) {
        row->session = source->client->session;
        row->thread = event->thread;
    }
    fill_words(rows, row, source, number, event);
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
    row->stream = -1;
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
    row->device = row->stream = -1;
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
    struct trace_event event;
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
            p->told++;
            if (source->client)
                limit_times(&event, now);
            add_event(rows, source, p->next, &event);
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
