#include "client/tools/npuctl/trace_dump.h"

#include <inttypes.h>
#include <locale.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/tools/npuctl/print.h"
#include "client/tools/npuctl/text.h"
#include "client/tools/npuctl/trace_findings.h"
#include "client/tools/npuctl/trace_follow.h"
#include "client/tools/npuctl/trace_json.h"
#include "client/tools/npuctl/trace_stats.h"

/*
 * In Chrome's format a process is a number, and so is a thread in it. A session is a process, by
 * its number, because a pid comes back; npud is process 0. Streams are threads behind all that a
 * kernel gives numbers to, and so are the ranges of each thread: a range may begin in one call and
 * end in another, and Perfetto drops slices of a thread that overlap.
 */
#define CONTROL_TID 1
#define ROUTER_TID  2
#define ENGINE_TID  10
#define RANGES_TID  UINT64_C(100000000)
#define STREAM_TID  UINT64_C(1000000000)
#define DEVICE_TIDS UINT64_C(1000000) /* of the streams of one device */

/* The page, in two parts: the events go between them. */
extern const char trace_page_head[], trace_page_tail[];
__asm__(".section .rodata\n"
        ".globl trace_page_head, trace_page_tail\n"
        "trace_page_head: .incbin \"client/tools/npuctl/trace_head.html\"\n .byte 0\n"
        "trace_page_tail: .incbin \"client/tools/npuctl/trace_tail.html\"\n .byte 0\n"
        ".previous\n");

/* --- rows, in the order in which they are looked up --- */

static const Npud__TraceRow **tasks; /* tasks, parked and submitted ones, by place */
static size_t n_tasks;
static const Npud__TraceRow **handovers; /* enqueue and dequeue, by buffer and time */
static size_t n_handovers;
static const Npud__TraceRow **carried; /* what routes have taken, by buffer and time */
static size_t n_carried;
static uint64_t begun_ns, ended_ns;
static uint64_t events, lost;
static bool calls; /* there are some: tasks have arrows from them */

static int compare_numbers(uint64_t a, uint64_t b)
{
    return (a > b) - (a < b);
}

static int compare_places(const Npud__TraceRow *a, const Npud__TraceRow *b)
{
    int order = compare_numbers(a->session, b->session);

    if (order == 0)
        order = compare_numbers(a->slot, b->slot);
    return order != 0 ? order : compare_numbers(a->position, b->position);
}

/* What is told of one task: how it ended before how it began, before that it was submitted. */
static int rank_kind(const Npud__TraceRow *row)
{
    return strcmp(row->kind, "task") == 0 ? 0 : strcmp(row->kind, "parked") == 0 ? 1 : 2;
}

static int compare_tasks(const void *pa, const void *pb)
{
    const Npud__TraceRow *a = *(const Npud__TraceRow *const *)pa;
    const Npud__TraceRow *b = *(const Npud__TraceRow *const *)pb;
    int order = compare_places(a, b);

    if (order == 0)
        order = rank_kind(a) - rank_kind(b);
    return order != 0 || rank_kind(a) > 0 ? order : compare_numbers(a->end_ns, b->end_ns);
}

/* The first row with the place of this one, or where it would stand. */
static size_t find_place(const Npud__TraceRow *key)
{
    size_t low = 0, high = n_tasks;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (compare_places(tasks[middle], key) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* The task with this place, or NULL if nothing is known of it. */
static const Npud__TraceRow *find_task(uint64_t session, uint32_t slot, uint64_t position)
{
    Npud__TraceRow key = {.session = session, .slot = slot, .position = position};
    size_t i = find_place(&key);

    return i < n_tasks && compare_places(tasks[i], &key) == 0 ? tasks[i] : NULL;
}

/*
 * A task that waited while npud came back has begun more than once. A graph has several tasks at
 * its place: each has its own begin.
 */
static uint64_t first_begin(const Npud__TraceRow *task)
{
    uint64_t begin = task->begin_ns;
    unsigned ended = 0;

    for (size_t i = find_place(task); i < n_tasks && compare_places(tasks[i], task) == 0; i++) {
        ended += rank_kind(tasks[i]) == 0;
        if (rank_kind(tasks[i]) <= 1 && tasks[i]->begin_ns < begin)
            begin = tasks[i]->begin_ns;
    }
    return ended > 1 ? task->begin_ns : begin;
}

/* One of which no end is told has ended when the next one of its stream begins, or not yet. */
static uint64_t last_end(const Npud__TraceRow *task)
{
    if (rank_kind(task) == 0)
        return task->end_ns;
    for (size_t i = find_place(task);
         i < n_tasks && tasks[i]->session == task->session && tasks[i]->slot == task->slot; i++)
        if (tasks[i]->position > task->position && rank_kind(tasks[i]) <= 1)
            return tasks[i]->begin_ns;
    return ended_ns;
}

static bool is_put(const Npud__TraceRow *row)
{
    return strcmp(row->kind, "enqueue") == 0;
}

/* By buffer, and then in the order in which it went through the queue. */
static int compare_handovers(const void *pa, const void *pb)
{
    const Npud__TraceRow *a = *(const Npud__TraceRow *const *)pa;
    const Npud__TraceRow *b = *(const Npud__TraceRow *const *)pb;
    int order = compare_numbers(a->queue, b->queue);

    if (order == 0)
        order = compare_numbers(a->buffer, b->buffer);
    if (order == 0)
        order = compare_numbers(is_put(a) ? a->begin_ns : a->end_ns,
                                is_put(b) ? b->begin_ns : b->end_ns);
    return order != 0 ? order : is_put(b) - is_put(a);
}

/* Session 0 is npud: for its routes. */
static bool is_carried(const Npud__TraceRow *row)
{
    return row->session == 0 && strcmp(row->kind, "dequeue") == 0;
}

static int compare_carried(const void *pa, const void *pb)
{
    const Npud__TraceRow *a = *(const Npud__TraceRow *const *)pa;
    const Npud__TraceRow *b = *(const Npud__TraceRow *const *)pb;
    int order = compare_numbers(a->buffer, b->buffer);

    return order != 0 ? order : compare_numbers(a->end_ns, b->end_ns);
}

/* When the route had taken what it has put there: the last time before. NULL: that is lost. */
static const Npud__TraceRow *find_carried(const Npud__TraceRow *put)
{
    Npud__TraceRow key = {.buffer = put->taken_buffer, .end_ns = put->begin_ns};
    const Npud__TraceRow *pointer = &key;
    size_t low = 0, high = n_carried;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (compare_carried(&carried[middle], &pointer) <= 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low > 0 && carried[low - 1]->buffer == key.buffer ? carried[low - 1] : NULL;
}

static bool index_rows(const Npud__Report *report)
{
    tasks = calloc(report->n_trace + 1, sizeof(const Npud__TraceRow *));
    handovers = calloc(report->n_trace + 1, sizeof(const Npud__TraceRow *));
    carried = calloc(report->n_trace + 1, sizeof(const Npud__TraceRow *));
    for (size_t i = 0; tasks && handovers && carried && i < report->n_trace; i++) {
        const Npud__TraceRow *row = report->trace[i];

        if (strcmp(row->kind, "task") == 0 || strcmp(row->kind, "parked") == 0 ||
            strcmp(row->kind, "submitted") == 0)
            tasks[n_tasks++] = row;
        if (is_put(row) || strcmp(row->kind, "dequeue") == 0)
            handovers[n_handovers++] = row;
        if (is_carried(row))
            carried[n_carried++] = row;
        calls = calls || strcmp(row->kind, "call") == 0;
        if (strcmp(row->kind, "ring") == 0) {
            events += row->events;
            lost += row->lost;
            begun_ns = row->begin_ns > begun_ns ? row->begin_ns : begun_ns;
            ended_ns = row->end_ns > ended_ns ? row->end_ns : ended_ns;
        }
    }
    if (!tasks || !handovers || !carried)
        return false;
    trace_json_since(begun_ns);
    qsort(tasks, n_tasks, sizeof(const Npud__TraceRow *), compare_tasks);
    qsort(handovers, n_handovers, sizeof(const Npud__TraceRow *), compare_handovers);
    qsort(carried, n_carried, sizeof(const Npud__TraceRow *), compare_carried);
    /* It still runs: it ends with the latest event. */
    for (size_t i = 0; i < report->n_trace; i++)
        if (report->trace[i]->end_ns > ended_ns && strcmp(report->trace[i]->kind, "ring") != 0)
            ended_ns = report->trace[i]->end_ns;
    return true;
}

static uint64_t stream_tid(const Npud__TraceRow *task)
{
    return STREAM_TID + DEVICE_TIDS * (uint64_t)(task->device + 1) + (uint64_t)(task->stream + 1);
}

/* --- counters: of each process, tasks that wait for their turn, and bytes that are moved --- */

struct step {
    uint64_t session, at;
    int64_t tasks, bytes;
};

static int compare_steps(const void *pa, const void *pb)
{
    const struct step *a = pa, *b = pb;
    int order = compare_numbers(a->session, b->session);

    return order != 0 ? order : compare_numbers(a->at, b->at);
}

/* When the task was submitted; 0: that event is lost, or of before the trace. */
static uint64_t find_submission(const Npud__TraceRow *task, uint32_t *thread)
{
    Npud__TraceRow key = *task;
    const Npud__TraceRow *pointer = &key, **found;

    key.kind = (char *)"submitted";
    found = bsearch(&pointer, tasks, n_tasks, sizeof(const Npud__TraceRow *), compare_tasks);
    *thread = found ? (*found)->thread : 0;
    return found ? (*found)->begin_ns : 0;
}

/* The steps of one task, at most four. */
static size_t make_steps(const Npud__TraceRow *task, struct step *step)
{
    uint32_t thread;
    uint64_t begin = first_begin(task), submitted = find_submission(task, &thread);
    size_t n = 0;

    if (submitted != 0 && submitted < begin) {
        step[n++] = (struct step){.session = task->session, .at = submitted, .tasks = 1};
        step[n++] = (struct step){.session = task->session, .at = begin, .tasks = -1};
    }
    if (task->bytes != 0 && rank_kind(task) == 0) {
        int64_t bytes = (int64_t)(task->bytes & INT64_MAX);

        step[n++] = (struct step){.session = task->session, .at = begin, .bytes = bytes};
        step[n++] = (struct step){.session = task->session, .at = task->end_ns, .bytes = -bytes};
    }
    return n;
}

static void print_steps(const struct step *steps, size_t n)
{
    uint64_t sum[2] = {0, 0}, before[2];

    for (size_t i = 0; i < n; i++) {
        const struct step *s = &steps[i];

        if (i == 0 || s[-1].session != s->session)
            sum[0] = sum[1] = 0;
        memcpy(before, sum, sizeof(before));
        /* Of one moment, all at once: none is below 0 for that long. */
        for (; i < n && steps[i].session == s->session && steps[i].at == s->at; i++) {
            sum[0] += (uint64_t)steps[i].tasks;
            sum[1] += (uint64_t)steps[i].bytes;
        }
        i--;
        if (sum[0] != before[0])
            trace_json_counter(s->session, "tasks queued", "tasks", s->at, sum[0]);
        if (sum[1] != before[1])
            trace_json_counter(s->session, "bytes in flight", "bytes", s->at, sum[1]);
    }
}

static bool print_counters(void)
{
    struct step *steps = calloc(4 * n_tasks + 1, sizeof(*steps));
    size_t n = 0;

    if (!steps)
        return false;
    for (size_t i = 0; i < n_tasks; i++)
        if (rank_kind(tasks[i]) <= 1 && (i == 0 || compare_places(tasks[i - 1], tasks[i]) != 0))
            n += make_steps(tasks[i], &steps[n]);
    qsort(steps, n, sizeof(*steps), compare_steps);
    print_steps(steps, n);
    free(steps);
    return true;
}

/* --- kinds --- */

typedef void print_fn(const Npud__TraceRow *row);

/* What was moved, behind the other arguments, or as the first of them. */
static void print_bytes(const Npud__TraceRow *row, const char *before)
{
    if (row->way[0])
        printf("%s\"bytes\":%" PRIu64 ",\"way\":\"%s\"", before, row->bytes, row->way);
}

/*
 * An end of an arrow that is a moment of its own. Perfetto lets each arrow begin in the slice that
 * has begun first, which may be the one that was waited in; and if a slice in a slice is over, it
 * takes that for the one which is around.
 */
static void print_moment(char phase, uint64_t session, uint64_t tid, const char *category,
                         uint64_t id, uint64_t at)
{
    trace_json_instant(session, tid, category, category, at);
    trace_json_end();
    trace_json_arrow(phase, session, tid, category, id, at);
}

/* From the call that has submitted the task to the task. */
static void print_submission(const Npud__TraceRow *task, uint32_t thread, uint64_t submitted,
                             uint64_t begin)
{
    uint64_t id = find_place(task) + 1;

    print_moment('s', task->session, thread, "submit", id, submitted);
    trace_json_arrow('f', task->session, stream_tid(task), "submit", id, begin);
}

static void print_task(const Npud__TraceRow *row)
{
    bool over = strcmp(row->kind, "task") == 0;
    bool first = find_task(row->session, row->slot, row->position) == row;
    uint32_t thread;
    uint64_t submitted = find_submission(row, &thread), begin = first_begin(row);

    if (!over && !first)
        return; /* it has ended, or waits once more */
    trace_json_slice(row->session, stream_tid(row), row->task, "task", begin, last_end(row));
    printf("\"position\":%" PRIu64, row->position);
    /* The thread looks at the clock when the engine has the task, and may have begun with it. */
    if (submitted > begin)
        submitted = begin;
    if (submitted != 0)
        printf(",\"submitted_us\":%.3f,\"queued_us\":%.3f,\"thread\":%" PRIu32,
               trace_json_us(submitted), trace_json_us(begin) - trace_json_us(submitted), thread);
    if (row->code != 0)
        printf(",\"code\":%" PRId32, row->code);
    if (!over)
        fputs(",\"unfinished\":true", stdout);
    print_bytes(row, ",");
    trace_json_end();
    if (submitted != 0 && calls && first)
        print_submission(row, thread, submitted, begin);
}

/* Of a task that was not begun: of the others, print_task() tells it. */
static void print_submitted(const Npud__TraceRow *row)
{
    const Npud__TraceRow *task = find_task(row->session, row->slot, row->position);

    if (task != row)
        return;
    trace_json_instant(row->session, row->thread, row->task, "queued", row->begin_ns);
    printf("\"position\":%" PRIu64 ",\"slot\":%" PRIu32, row->position, row->slot);
    trace_json_end();
}

/* Inside: at the very end, or begin, viewers take the slice that is beside this one. */
static uint64_t clamp_inside(uint64_t ns, uint64_t begin, uint64_t end)
{
    if (end < begin + 2)
        return begin;
    return ns <= begin ? begin + 1 : ns >= end ? end - 1 : ns;
}

static uint64_t clamp_time(uint64_t ns, const Npud__TraceRow *task)
{
    return clamp_inside(ns, first_begin(task), last_end(task));
}

static void print_release(const Npud__TraceRow *row)
{
    const Npud__TraceRow *from = find_task(row->from_session, row->from_slot, row->from_position);
    const Npud__TraceRow *to = find_task(row->session, row->slot, row->position);
    static uint64_t id;
    uint64_t at, end;

    if (!from || !to || rank_kind(from) > 1 || rank_kind(to) > 1)
        return; /* overwritten */
    id++;
    end = clamp_time(rank_kind(to) == 0 ? to->end_ns : row->begin_ns, to);
    /* An npud that has come back tells of it later than when the other had gone on. */
    at = clamp_time(row->begin_ns < end ? row->begin_ns : end, from);
    /* A task that took no time has no inside. */
    (at == first_begin(from) ? print_moment : trace_json_arrow)(
        's', from->session, stream_tid(from), "release", id, at);
    print_moment('f', to->session, stream_tid(to), "release", id, end);
}

/* Of a buffer that is taken out, the number of the time that it was last put in. 0: not seen. */
static uint64_t handover_id(const Npud__TraceRow *row)
{
    const Npud__TraceRow **found =
        bsearch(&row, handovers, n_handovers, sizeof(const Npud__TraceRow *), compare_handovers);
    uint64_t i = found ? (uint64_t)(found - handovers) : 0;

    if (is_put(row))
        return i + 1;
    return i > 0 && is_put(handovers[i - 1]) && handovers[i - 1]->queue == row->queue &&
                   handovers[i - 1]->buffer == row->buffer
               ? i
               : 0;
}

static void print_handover(const Npud__TraceRow *row)
{
    bool by_route = row->session == 0;
    const Npud__TraceRow *taken = by_route && is_put(row) ? find_carried(row) : NULL;
    uint64_t id = handover_id(row), tid = by_route ? ROUTER_TID : row->thread;
    static uint64_t n_arrows;

    trace_json_slice(row->session, tid, row->kind, "queue", row->begin_ns, row->end_ns);
    printf("\"queue\":%" PRIu64 ",\"buffer\":%" PRIu64, row->queue, row->buffer);
    if (taken)
        printf(",\"in_hand_us\":%.3f", trace_json_us(row->begin_ns) - trace_json_us(taken->end_ns));
    trace_json_end();
    if (id != 0 && is_put(row))
        trace_json_arrow('s', row->session, tid, "handover", id,
                         clamp_inside(row->begin_ns, row->begin_ns, row->end_ns));
    else if (id != 0)
        print_moment('f', row->session, tid, "handover", id,
                     clamp_inside(row->end_ns, row->begin_ns, row->end_ns));
    if (taken) {
        id = n_handovers + ++n_arrows; /* behind those of queues */
        trace_json_arrow('s', 0, ROUTER_TID, "handover", id,
                         clamp_inside(taken->end_ns, taken->begin_ns, taken->end_ns));
        trace_json_arrow('f', 0, ROUTER_TID, "handover", id, row->begin_ns);
    }
}

static uint64_t thread_tid(const Npud__TraceRow *row)
{
    return row->thread + (strcmp(row->kind, "range") == 0 ? RANGES_TID : 0);
}

static void print_thread_slice(const Npud__TraceRow *row)
{
    const char *name = row->text[0] ? row->text : row->kind;

    trace_json_slice(row->session, thread_tid(row), name, row->kind, row->begin_ns, row->end_ns);
    if (row->task[0]) {
        fputs("\"for\":", stdout);
        trace_json_string(row->task);
    }
    print_bytes(row, "");
    if (row->times > 0)
        printf("\"times\":%" PRIu64, row->times);
    trace_json_end();
}

static void print_mark(const Npud__TraceRow *row)
{
    trace_json_instant(row->session, row->thread, row->text, "mark", row->begin_ns);
    trace_json_end();
}

static void print_sleep(const Npud__TraceRow *row)
{
    trace_json_slice(0, ENGINE_TID + (uint64_t)(row->device + 1), "sleep", "engine", row->begin_ns,
                     row->end_ns);
    trace_json_end();
}

static void print_fault(const Npud__TraceRow *row)
{
    trace_json_instant(row->session, stream_tid(row), "fault", "fault", row->begin_ns);
    printf("\"rule\":%" PRIu64 ",\"code\":%" PRId32 ",\"position\":%" PRIu64, row->rule, row->code,
           row->position);
    trace_json_end();
}

static void print_restart(const Npud__TraceRow *row)
{
    trace_json_instant(0, CONTROL_TID, "npud restarted", "session", row->begin_ns);
    trace_json_end();
}

static void print_process(const Npud__TraceRow *row)
{
    trace_json_instant(0, CONTROL_TID, row->kind, "session", row->begin_ns);
    printf("\"session\":%" PRIu64 ",\"pid\":%" PRId32 ",\"uid\":%" PRIu32 ",\"program\":",
           row->session, row->pid, row->uid);
    trace_json_string(row->program);
    trace_json_end();
}

/* What of a ring is missing is at its beginning. */
static void print_ring(const Npud__TraceRow *row)
{
    if (row->lost == 0)
        return;
    trace_json_instant(row->session, CONTROL_TID, "lost events", "lost", begun_ns);
    printf("\"lost\":%" PRIu64 ",\"of\":%" PRIu64, row->lost, row->events);
    trace_json_end();
}

static const struct {
    const char *kind;
    print_fn *print;
} printers[] = {
    {"task", print_task},
    {"parked", print_task},
    {"submitted", print_submitted},
    {"release", print_release},
    {"fault", print_fault},
    {"sleep", print_sleep},
    {"restarted", print_restart},
    {"connected", print_process},
    {"disconnected", print_process},
    {"callback", print_thread_slice},
    {"wait", print_thread_slice},
    {"enqueue", print_handover},
    {"dequeue", print_handover},
    {"range", print_thread_slice},
    {"kernel", print_thread_slice},
    {"call", print_thread_slice},
    {"mark", print_mark},
    {"ring", print_ring},
};

/* --- names of processes and threads --- */

static void name_thing(const char *what, uint64_t pid, uint64_t tid, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
static void name_thing(const char *what, uint64_t pid, uint64_t tid, const char *format, ...)
{
    char name[160];
    va_list ap;

    va_start(ap, format);
    vsnprintf(name, sizeof(name), format, ap);
    va_end(ap);
    trace_json_begin('M', pid, tid);
    printf(",\"name\":\"%s\",\"args\":{\"name\":", what);
    trace_json_string(name);
    trace_json_end();
}

static void name_npud(const Npud__Report *report)
{
    name_thing("process_name", 0, CONTROL_TID, "npud");
    name_thing("thread_name", 0, CONTROL_TID, "sessions");
    if (n_carried > 0)
        name_thing("thread_name", 0, ROUTER_TID, "routes");
    for (size_t i = 0; i < report->n_trace; i++)
        if (strcmp(report->trace[i]->kind, "ring") == 0 && report->trace[i]->device >= 0)
            name_thing("thread_name", 0, ENGINE_TID + (uint64_t)(report->trace[i]->device + 1),
                       "engine %" PRId32, report->trace[i]->device);
}

static void name_processes(const Npud__Report *report)
{
    for (size_t i = 0; i < report->n_trace; i++) {
        const Npud__TraceRow *row = report->trace[i];

        if (strcmp(row->kind, "connected") == 0)
            name_thing("process_name", row->session, 0, "%s (pid %" PRId32 ", session %" PRIu64 ")",
                       row->program, row->pid, row->session);
    }
}

/* Rows are in the order of their streams. */
static void name_streams(void)
{
    const Npud__TraceRow *last = NULL;

    for (size_t i = 0; i < n_tasks; i++) {
        const Npud__TraceRow *row = tasks[i];

        if (rank_kind(row) > 1 ||
            (last && last->session == row->session && stream_tid(last) == stream_tid(row)))
            continue;
        name_thing("thread_name", row->session, stream_tid(row),
                   "stream %" PRId32 " on device %" PRId32, row->stream, row->device);
        last = row;
    }
}

/* --- threads of programs --- */

static int compare_threads(const void *pa, const void *pb)
{
    const Npud__TraceRow *a = *(const Npud__TraceRow *const *)pa;
    const Npud__TraceRow *b = *(const Npud__TraceRow *const *)pb;
    int order = compare_numbers(a->session, b->session);

    return order != 0 ? order : compare_numbers(thread_tid(a), thread_tid(b));
}

static bool name_threads(const Npud__Report *report)
{
    const Npud__TraceRow **rows = calloc(report->n_trace + 1, sizeof(void *));
    size_t n = 0;

    if (!rows)
        return false;
    for (size_t i = 0; i < report->n_trace; i++)
        if (report->trace[i]->thread != 0)
            rows[n++] = report->trace[i];
    qsort(rows, n, sizeof(void *), compare_threads);
    for (size_t i = 0; i < n; i++)
        if (i == 0 || compare_threads(&rows[i - 1], &rows[i]) != 0)
            name_thing("thread_name", rows[i]->session, thread_tid(rows[i]), "%sthread %" PRIu32,
                       thread_tid(rows[i]) != rows[i]->thread ? "ranges of " : "", rows[i]->thread);
    free(rows);
    return true;
}

/* --- what npu-check has found --- */

/* The latest session of a process with this pid; 0: there is none. */
static uint64_t find_session(const Npud__Report *report, int32_t pid)
{
    uint64_t session = 0;

    for (size_t i = 0; i < report->n_trace; i++)
        if (report->trace[i]->pid == pid && strcmp(report->trace[i]->kind, "connected") == 0)
            session = report->trace[i]->session;
    return session;
}

static const Npud__TraceRow *find_act(const Npud__Report *report, const struct trace_act *act)
{
    const Npud__TraceRow *task =
        act->known ? find_task(find_session(report, act->pid), act->slot, act->position) : NULL;

    return task && rank_kind(task) <= 1 ? task : NULL;
}

static void print_found_at(const Npud__TraceRow *task, const struct trace_finding *f)
{
    if (!task)
        return;
    trace_json_instant(task->session, stream_tid(task), f->title, "finding", task->begin_ns);
    printf("\"position\":%" PRIu64, task->position);
    trace_json_end();
}

/* An arrow where the wait is missing; and a mark at each of the two tasks that the trace has. */
static void print_findings(const Npud__Report *report, const struct trace_finding *list, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const Npud__TraceRow *from = find_act(report, &list[i].first);
        const Npud__TraceRow *to = find_act(report, &list[i].second);

        print_found_at(from, &list[i]);
        print_found_at(to, &list[i]);
        if (!from || !to)
            continue;
        trace_json_arrow('s', from->session, stream_tid(from), "missing", i + 1,
                         clamp_time(from->end_ns, from));
        print_moment('f', to->session, stream_tid(to), "missing", i + 1,
                     clamp_time(to->begin_ns, to));
    }
}

/* --- all of it --- */

static void print_row(const Npud__TraceRow *row)
{
    for (size_t i = 0; i < sizeof(printers) / sizeof(printers[0]); i++)
        if (strcmp(printers[i].kind, row->kind) == 0) {
            printers[i].print(row);
            return;
        }
}

static bool print_events(const Npud__Report *report, const struct trace_finding *list, size_t n)
{
    bool named;

    printf("{\"displayTimeUnit\":\"ns\",\"otherData\":{\"npuctl\":\"" NPUD_VERSION
           "\",\"events\":%" PRIu64 ",\"lost\":%" PRIu64 "},\"traceEvents\":[\n",
           events, lost);
    name_npud(report);
    name_processes(report);
    name_streams();
    named = name_threads(report);
    for (size_t i = 0; i < report->n_trace; i++)
        print_row(report->trace[i]);
    print_findings(report, list, n);
    named &= print_counters();
    fputs("\n]}\n", stdout);
    if (lost > 0)
        fprintf(stderr,
                "npuctl: %" PRIu64 " of %" PRIu64
                " events are lost: rings were full, or there was none for a process\n",
                lost, events);
    return named;
}

enum status trace_print(const Npud__Report *report, const struct task *task)
{
    bool as_page = task->given & OPTION_HTML, made;
    struct trace_finding *list = NULL;
    size_t n = 0;

    setlocale(LC_CTYPE, "C.UTF-8");
    if (report->n_trace == 0) {
        fputs("npuctl: there is no trace: npuctl trace start begins one\n", stderr);
        return STATUS_ERROR;
    }
    if (task->findings && !(list = trace_findings_read(task->findings, &n)))
        return STATUS_ERROR;
    made = index_rows(report);
    if (made) {
        if (as_page)
            fputs(trace_page_head, stdout);
        made = print_events(report, list, n);
        if (as_page)
            fputs(trace_page_tail, stdout);
    }
    free(tasks);
    free(handovers);
    free(carried);
    trace_findings_free(list, n);
    return print_end(made);
}

/* --- words --- */

const char *trace_parse(char **words, int n, struct task *task, const char **about)
{
    static const struct command dump = {
        .name = "trace", .topic = NPUD__ADMIN_REQUEST__TOPIC__TRACE, .print = trace_print};
    const char *verb = n > 0 ? words[0] : "";

    *about = n > 1 ? words[1] : NULL;
    if (strcmp(verb, "stats") == 0) {
        task->stats = n > 1 ? words[1] : NULL;
        task->run = trace_stats_run;
        *about = n > 2 ? words[2] : NULL;
        return n > 2 ? "unexpected argument" : n < 2 ? "trace stats needs a file" : NULL;
    }
    if (strcmp(verb, "stream") == 0) {
        task->run = trace_follow_run;
        return n > 1 ? "unexpected argument" : NULL;
    }
    if (strcmp(verb, "dump") == 0) {
        task->takes = OPTION_HTML | OPTION_FINDINGS | OPTION_FROM;
        if (task->given & OPTION_FROM)
            task->run = trace_follow_print;
        task->report = &dump;
        task->request.topic = dump.topic;
        return n > 1 ? "unexpected argument" : NULL;
    }
    task->request.start_trace = strcmp(verb, "start") == 0;
    if (task->request.start_trace)
        task->takes = OPTION_SIZE | OPTION_CALLS;
    task->request.stop_trace = strcmp(verb, "stop") == 0;
    if (n == 0)
        return "trace wants start, stop, dump, stream or stats";
    if (!task->request.start_trace && !task->request.stop_trace) {
        *about = verb;
        return "trace wants start, stop, dump, stream or stats, not";
    }
    return n > 1 ? "unexpected argument" : NULL;
}
