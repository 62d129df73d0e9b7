#include "client/tools/npuctl/top.h"

#include <assert.h>
#include <cjson/cJSON.h>
#include <inttypes.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>

#include "client/tools/npuctl/ask.h"
#include "client/tools/npuctl/print.h"
#include "client/tools/npuctl/socket.h"
#include "client/tools/npuctl/text.h"
#include "client/tools/npuctl/top_screen.h"
#include "proto/util/clock.h"

/* What npud has answered at one time. */
struct look {
    Npud__Report *status, *devices, *sessions, *streams, *queues;
    uint64_t at;
};

struct session_line {
    const Npud__SessionRow *row;
    uint64_t blocked;
    double rate;
};

struct top {
    struct look before, now;
    struct session_line *sessions; /* by the number of the session, until they are printed */
    size_t n_sessions;
};

/* --- asking --- */

static void free_look(struct look *look)
{
    npud__report__free_unpacked(look->status, NULL);
    npud__report__free_unpacked(look->devices, NULL);
    npud__report__free_unpacked(look->sessions, NULL);
    npud__report__free_unpacked(look->streams, NULL);
    npud__report__free_unpacked(look->queues, NULL);
    *look = (struct look){0};
}

static int compare_streams(const void *pa, const void *pb)
{
    const Npud__StreamRow *a = *(Npud__StreamRow *const *)pa, *b = *(Npud__StreamRow *const *)pb;

    if (a->session != b->session)
        return a->session < b->session ? -1 : 1;
    return (a->stream > b->stream) - (a->stream < b->stream);
}

static enum status ask_look(struct look *look, const char *path)
{
    const struct question questions[] = {
        {NPUD__ADMIN_REQUEST__TOPIC__STATUS, &look->status},
        {NPUD__ADMIN_REQUEST__TOPIC__DEVICES, &look->devices},
        {NPUD__ADMIN_REQUEST__TOPIC__SESSIONS, &look->sessions},
        {NPUD__ADMIN_REQUEST__TOPIC__STREAMS, &look->streams},
        {NPUD__ADMIN_REQUEST__TOPIC__QUEUES, &look->queues},
    };
    enum status status = ask_reports_at(path, questions, sizeof(questions) / sizeof(questions[0]));

    if (status != STATUS_OK)
        return status;
    look->at = clock_ns();
    if (look->streams->n_streams > 0)
        qsort(look->streams->streams, look->streams->n_streams, sizeof(void *), compare_streams);
    return STATUS_OK;
}

/* --- what happened in between --- */

static double rate_between(const struct top *top, uint64_t before, uint64_t after)
{
    uint64_t ns = top->now.at - top->before.at;

    return top->before.at != 0 && ns > 0 && after > before
               ? (double)(after - before) * (double)NSEC_PER_SEC / (double)ns
               : 0;
}

static double stream_rate(const struct top *top, Npud__StreamRow *row)
{
    const Npud__Report *before = top->before.streams;
    Npud__StreamRow **found = NULL;

    if (before && before->n_streams > 0)
        found = bsearch(&row, before->streams, before->n_streams, sizeof(void *), compare_streams);
    return found ? rate_between(top, (*found)->done, row->done) : 0;
}

static double device_rate(const struct top *top, const Npud__DeviceRow *row)
{
    const Npud__Report *before = top->before.devices;

    for (size_t i = 0; before && i < before->n_devices; i++)
        if (before->devices[i]->device == row->device)
            return rate_between(top, before->devices[i]->tasks, row->tasks);
    return 0;
}

static double queue_rate(const struct top *top, const Npud__QueueRow *row)
{
    const Npud__Report *before = top->before.queues;

    for (size_t i = 0; before && i < before->n_queues; i++)
        if (before->queues[i]->number == row->number)
            return rate_between(top, before->queues[i]->messages, row->messages);
    return 0;
}

static int compare_sessions(const void *pa, const void *pb)
{
    const struct session_line *a = pa, *b = pb;

    return (a->row->session > b->row->session) - (a->row->session < b->row->session);
}

static void add_streams(struct top *top)
{
    const Npud__Report *streams = top->now.streams;

    for (size_t i = 0; i < streams->n_streams; i++) {
        Npud__StreamRow *r = streams->streams[i];
        Npud__SessionRow key = {.session = r->session};
        struct session_line wanted = {.row = &key};
        struct session_line *s = top->n_sessions == 0
                                     ? NULL
                                     : bsearch(&wanted, top->sessions, top->n_sessions,
                                               sizeof(wanted), compare_sessions);

        if (!s)
            continue; /* it came between the two answers */
        s->blocked += r->blocked;
        s->rate += stream_rate(top, r);
    }
}

enum status top_refresh(struct top **topp, const char *path)
{
    struct look look = {0};
    enum status status = ask_look(&look, path);
    const Npud__Report *sessions = look.sessions;
    struct session_line *lines;
    struct top *top = *topp;

    if (status != STATUS_OK)
        return status;
    assert(sessions); /* of a question that was answered with STATUS_OK */
    lines = calloc(sessions->n_sessions + 1, sizeof(*lines));
    if (!top)
        top = *topp = calloc(1, sizeof(*top));
    if (!lines || !top) {
        fputs("npuctl: no memory\n", stderr);
        free(lines);
        free_look(&look);
        return STATUS_ERROR;
    }
    free_look(&top->before);
    top->before = top->now;
    top->now = look;
    free(top->sessions);
    top->sessions = lines;
    top->n_sessions = sessions->n_sessions;
    for (size_t i = 0; i < top->n_sessions; i++)
        lines[i].row = sessions->sessions[i];
    qsort(lines, top->n_sessions, sizeof(*lines), compare_sessions);
    add_streams(top);
    return STATUS_OK;
}

void top_free(struct top *top)
{
    if (!top)
        return;
    free_look(&top->before);
    free_look(&top->now);
    free(top->sessions);
    free(top);
}

/* --- as text --- */

static int compare_lines(const void *pa, const void *pb, void *arg)
{
    const struct session_line *a = pa, *b = pb;
    double x = 0, y = 0;

    switch (*(const enum top_order *)arg) {
    case TOP_BY_RATE:
        x = a->rate;
        y = b->rate;
        break;
    case TOP_BY_BLOCKED:
        x = (double)a->blocked;
        y = (double)b->blocked;
        break;
    case TOP_BY_MEMORY:
        x = (double)a->row->memory_bytes;
        y = (double)b->row->memory_bytes;
        break;
    case TOP_BY_SESSION:
        break;
    }
    return x != y ? (x < y) - (x > y) : compare_sessions(a, b);
}

/* What programs choose, as one word that a terminal can take. */
static void print_name(FILE *f, const char *name)
{
    int width;
    char *text = text_escape(name, true, &width);

    fprintf(f, "%s\n", text ? text : "?");
    free(text);
}

static const Npud__SessionRow *find_session(const struct top *top, uint64_t session)
{
    for (size_t i = 0; i < top->n_sessions; i++)
        if (top->sessions[i].row->session == session)
            return top->sessions[i].row;
    return NULL;
}

static void print_top_devices(FILE *f, const struct top *top)
{
    const Npud__Report *report = top->now.devices;

    fputs("\nDEVICE  STATE  BUSY%  MEMORY%  SESSIONS  STREAMS     TASKS/S\n", f);
    for (size_t i = 0; i < report->n_devices; i++) {
        const Npud__DeviceRow *r = report->devices[i];

        fprintf(f, "%6u  %-5s  %5u  %7.1f  %8u  %7u  %10.1f\n", r->device, r->state,
                r->busy_percent,
                r->memory_total > 0 ? 100.0 * (double)r->memory_used / (double)r->memory_total : 0,
                r->sessions, r->streams, device_rate(top, r));
    }
}

static void print_top_sessions(FILE *f, struct top *top, enum top_order order, const char *filter)
{
    qsort_r(top->sessions, top->n_sessions, sizeof(top->sessions[0]), compare_lines, &order);
    fputs("\nSESSION      PID      UID  STREAMS  BLOCKED     TASKS/S  MEMORY-MIB  PROGRAM\n", f);
    for (size_t i = 0; i < top->n_sessions; i++) {
        const struct session_line *s = &top->sessions[i];
        const Npud__SessionRow *r = s->row;

        if (!strstr(r->program, filter))
            continue;
        fprintf(f, "%7" PRIu64 "  %7d  %7u  %7u  %7" PRIu64 "  %10.1f  %10.1f  ", r->session,
                r->pid, r->uid, r->streams, s->blocked, s->rate,
                (double)r->memory_bytes / (1 << 20));
        print_name(f, r->program);
    }
}

static void print_blocked(FILE *f, const struct top *top, const char *filter)
{
    const Npud__Report *report = top->now.streams;

    fputs("\nSESSION      PID   STREAM  STATE    WAITS-FOR\n", f);
    for (size_t i = 0; i < report->n_streams; i++) {
        const Npud__StreamRow *r = report->streams[i];
        const Npud__SessionRow *session;

        if (!r->blocked)
            continue;
        session = find_session(top, r->session);
        if (*filter && !(session && strstr(session->program, filter)))
            continue;
        fprintf(f, "%7" PRIu64 "  %7d  %7d  %-7s  %s\n", r->session, r->pid, r->stream, r->state,
                r->waits_for);
    }
}

static void print_top_queues(FILE *f, const struct top *top, const char *filter)
{
    const Npud__Report *report = top->now.queues;

    fputs("\n  QUEUE      UID     FILL    DEPTH  WAITING  MESSAGES/S  NAME\n", f);
    for (size_t i = 0; i < report->n_queues; i++) {
        const Npud__QueueRow *r = report->queues[i];

        if (!strstr(r->name, filter))
            continue;
        fprintf(f, "%7u  %7u  %7u  %7u  %7u  %10.1f  ", r->queue, r->uid, r->fill, r->depth,
                r->waiting, queue_rate(top, r));
        print_name(f, r->name);
    }
}

void top_print(FILE *f, struct top *top, enum top_order order, const char *filter)
{
    const Npud__Report *status = top->now.status;

    if (status->n_status > 0) {
        const Npud__StatusRow *r = status->status[0];

        fprintf(f, "npud %s, up %" PRIu64 " s: %u sessions, %u streams, %u events\n", r->version,
                r->uptime_s, r->sessions, r->streams, r->events);
    }
    print_top_devices(f, top);
    print_top_sessions(f, top, order, filter);
    print_blocked(f, top, filter);
    print_top_queues(f, top, filter);
}

/* --- as JSON --- */

static cJSON *add_row(cJSON *list, const ProtobufCMessage *message)
{
    cJSON *row = print_make_row(message);

    cJSON_AddItemToArray(list, row);
    return row;
}

static void add_devices(cJSON *list, const struct top *top)
{
    const Npud__Report *report = top->now.devices;

    for (size_t i = 0; i < report->n_devices; i++)
        cJSON_AddNumberToObject(add_row(list, &report->devices[i]->base), "tasks_per_s",
                                device_rate(top, report->devices[i]));
}

static void add_sessions(cJSON *list, const struct top *top)
{
    for (size_t i = 0; i < top->n_sessions; i++) {
        const struct session_line *s = &top->sessions[i];
        cJSON *row = add_row(list, &s->row->base);

        cJSON_AddNumberToObject(row, "blocked", (double)s->blocked);
        cJSON_AddNumberToObject(row, "tasks_per_s", s->rate);
    }
}

static void add_blocked(cJSON *list, const struct top *top)
{
    const Npud__Report *report = top->now.streams;

    for (size_t i = 0; i < report->n_streams; i++)
        if (report->streams[i]->blocked)
            add_row(list, &report->streams[i]->base);
}

static void add_queues(cJSON *list, const struct top *top)
{
    const Npud__Report *report = top->now.queues;

    for (size_t i = 0; i < report->n_queues; i++) {
        Npud__QueueRow *r = report->queues[i];
        double rate = queue_rate(top, r);

        r->rate = (uint64_t)rate;
        cJSON_AddNumberToObject(add_row(list, &r->base), "messages_per_s", rate);
    }
}

static bool print_top_json(const struct top *top)
{
    cJSON *all = cJSON_CreateObject();

    add_devices(cJSON_AddArrayToObject(all, "devices"), top);
    add_sessions(cJSON_AddArrayToObject(all, "sessions"), top);
    add_blocked(cJSON_AddArrayToObject(all, "blocked"), top);
    add_queues(cJSON_AddArrayToObject(all, "queues"), top);
    return print_document(all);
}

enum status top_run(const struct task *task)
{
    struct top *top = NULL;
    enum status status;
    bool ok = true;

    setlocale(LC_CTYPE, task->json ? "C.UTF-8" : "");
    if (!(task->given & OPTION_ONCE))
        return top_show(task->path);
    status = top_refresh(&top, task->path);
    if (status == STATUS_OK) {
        clock_sleep_until(top->now.at + task_interval_ns(task, RATES_S));
        status = top_refresh(&top, task->path);
    }
    if (status == STATUS_OK) {
        if (task->json)
            ok = print_top_json(top);
        else
            top_print(stdout, top, TOP_BY_RATE, "");
        status = print_end(ok);
    }
    top_free(top);
    return status;
}
