#include "client/tools/npuctl/trace_rows.h"

#include <stdlib.h>
#include <string.h>

#include "proto/shm/task.h"
#include "proto/shm/trace_ring.h"
#include "proto/shm/wait_slot.h"

/* Which words of an event a kind has. */
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
    bool named_task; /* op is that of a task */
} kinds[TRACE_KINDS] = {
    [TRACE_TASK] = {"task", WORDS_TASK, true},
    [TRACE_PARKED] = {"parked", WORDS_TASK, true},
    [TRACE_RELEASE] = {"release", WORDS_RELEASE, true},
    [TRACE_FAULT] = {"fault", WORDS_TASK, true},
    [TRACE_SLEEP] = {"sleep", WORDS_NONE, false},
    [TRACE_CONNECTED] = {"connected", WORDS_PROCESS, false},
    [TRACE_DISCONNECTED] = {"disconnected", WORDS_PROCESS, false},
    /* As those of processes are called: they are the same, of session 0. */
    [TRACE_CARRY_TAKE] = {"dequeue", WORDS_HANDOVER, false},
    [TRACE_CARRY_PUT] = {"enqueue", WORDS_HANDOVER, false},
    [TRACE_RESTARTED] = {"restarted", WORDS_NONE, false},
    [TRACE_SUBMITTED] = {"submitted", WORDS_TASK, true},
    [TRACE_CALLBACK] = {"callback", WORDS_NONE, false},
    [TRACE_WAIT] = {"wait", WORDS_NONE, false},
    [TRACE_ENQUEUE] = {"enqueue", WORDS_HANDOVER, false},
    [TRACE_DEQUEUE] = {"dequeue", WORDS_HANDOVER, false},
    [TRACE_RANGE] = {"range", WORDS_TEXT, false},
    [TRACE_MARK] = {"mark", WORDS_TEXT, false},
    [TRACE_KERNEL] = {"kernel", WORDS_TEXT, false},
    [TRACE_CALL] = {"call", WORDS_CALL, false},
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

/* Raw events that are read. */
struct raw {
    const uint8_t *data;
    size_t n, next; /* in events */
    bool no_memory;
};

static bool read_next(struct raw *raw, struct trace_event *event)
{
    if (raw->next == raw->n)
        return false;
    memcpy((void *)event, raw->data + raw->next * sizeof(*event), sizeof(*event));
    raw->next++;
    return true;
}

/* Freed with the row. Of what is empty protobuf-c has its own. */
static void set_text(struct raw *raw, char **to, const char *text, size_t size)
{
    char *copy = size > 0 && text[0] ? strndup(text, size) : NULL;

    raw->no_memory |= size > 0 && text[0] && !copy;
    if (copy)
        *to = copy;
}

static void set_name(struct raw *raw, char **to, const char *name)
{
    set_text(raw, to, name, strlen(name));
}

static void set_way(struct raw *raw, Npud__TraceRow *row, unsigned way)
{
    set_name(raw, &row->way, ways[way < TRACE_WAYS ? way : TRACE_WAY_NONE]);
}

static void fill_task(struct raw *raw, Npud__TraceRow *row, const struct trace_event *event)
{
    row->position = event->task.position;
    row->slot = event->task.slot;
    row->stream = event->task.stream;
    row->code = event->task.code;
    if (event->kind == TRACE_FAULT)
        row->rule = event->task.rule;
    if (event->kind == TRACE_TASK && event->way < TRACE_WAYS) {
        row->bytes = (uint64_t)event->bytes_high << 32 | event->task.bytes_low;
        set_way(raw, row, event->way);
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

static void fill_process(struct raw *raw, Npud__TraceRow *row, const struct trace_event *event)
{
    row->session = event->process.session;
    row->pid = event->process.pid;
    row->uid = event->process.uid;
    set_text(raw, &row->program, event->process.program, sizeof(event->process.program));
}

static void fill_handover(Npud__TraceRow *row, const struct trace_event *event)
{
    row->queue = event->handover.queue;
    row->buffer = event->handover.buffer;
    if (event->kind == TRACE_CARRY_PUT)
        row->taken_buffer = event->handover.taken;
}

/* With what stands in the events that go on with it, as far as they are there. */
static void fill_text(struct raw *raw, Npud__TraceRow *row, const struct trace_event *event,
                      const char *begin)
{
    char text[TRACE_TEXT_MAX];
    size_t first = trace_text_first(event->kind);
    size_t size = event->size < sizeof(text) ? event->size : sizeof(text);
    size_t have = size < first ? size : first;
    struct trace_event more;

    memcpy(text, begin, have);
    while (have < size && read_next(raw, &more)) {
        size_t part = size - have < TRACE_TEXT_NEXT ? size - have : TRACE_TEXT_NEXT;

        if (more.kind != TRACE_TEXT) {
            raw->next--;
            break;
        }
        memcpy(text + have, (const char *)more.words + TRACE_TEXT_AT, part);
        have += part;
    }
    set_text(raw, &row->text, text, have);
}

static void fill_words(struct raw *raw, Npud__TraceRow *row, const struct trace_event *event)
{
    switch (kinds[event->kind].words) {
    case WORDS_TASK:
        fill_task(raw, row, event);
        break;
    case WORDS_RELEASE:
        fill_release(row, event);
        break;
    case WORDS_PROCESS:
        fill_process(raw, row, event);
        break;
    case WORDS_HANDOVER:
        fill_handover(row, event);
        break;
    case WORDS_TEXT:
        fill_text(raw, row, event, event->text);
        break;
    case WORDS_CALL:
        fill_text(raw, row, event, event->call.name);
        set_way(raw, row, event->op);
        if (row->way[0])
            row->bytes = event->call.bytes;
        else
            row->times = event->call.times;
        break;
    case WORDS_NONE:
        break;
    }
}

static const char *name_what(const struct trace_event *event)
{
    if (kinds[event->kind].named_task)
        return task_name(event->op);
    if (event->kind == TRACE_WAIT && wait_names[event->op & WAIT_KIND_MASK])
        return wait_names[event->op & WAIT_KIND_MASK];
    return "";
}

/* NULL: it is none, or there is no memory. */
static Npud__TraceRow *make_row(struct raw *raw, const Npud__TraceRow *from,
                                const struct trace_event *event)
{
    Npud__TraceRow *row;

    if (event->kind >= TRACE_KINDS || !kinds[event->kind].name)
        return NULL;
    row = malloc(sizeof(*row));
    if (!row) {
        raw->no_memory = true;
        return NULL;
    }
    npud__trace_row__init(row);
    set_name(raw, &row->kind, kinds[event->kind].name);
    set_name(raw, &row->task, name_what(event));
    row->begin_ns = event->begin_ns;
    row->end_ns = event->end_ns;
    row->device = from->device;
    row->stream = -1;
    row->session = from->session;
    if (from->session != 0)
        row->thread = event->thread;
    fill_words(raw, row, event);
    return row;
}

/* Returns whether there was memory for all. */
static bool expand_row(const Npud__TraceRow *from, Npud__TraceRow **to, size_t *n)
{
    struct raw raw = {.data = from->raw.data, .n = from->raw.len / sizeof(struct trace_event)};
    struct trace_event event;

    while (read_next(&raw, &event)) {
        to[*n] = make_row(&raw, from, &event);
        *n += to[*n] != NULL;
    }
    return !raw.no_memory;
}

bool trace_rows_expand(Npud__Report *report)
{
    Npud__TraceRow **rows, **old = report->trace;
    size_t room = report->n_trace, n = 0;
    bool all = true;

    for (size_t i = 0; i < report->n_trace; i++)
        room += old[i]->raw.len / sizeof(struct trace_event);
    rows = calloc(room + 1, sizeof(Npud__TraceRow *));
    if (!rows)
        return false;
    for (size_t i = 0; i < report->n_trace; i++) {
        if (old[i]->raw.len == 0) {
            rows[n++] = old[i];
            continue;
        }
        all &= expand_row(old[i], rows, &n);
        npud__trace_row__free_unpacked(old[i], NULL);
    }
    free(old);
    report->trace = rows;
    report->n_trace = n;
    return all;
}
