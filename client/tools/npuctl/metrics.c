#include "client/tools/npuctl/metrics.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/tools/npuctl/ask.h"
#include "client/tools/npuctl/field.h"
#include "client/tools/npuctl/http_server.h"
#include "client/tools/npuctl/metrics_text.h"
#include "client/tools/npuctl/print.h"
#include "client/tools/npuctl/socket.h"
#include "proto/util/clock.h"

/* In the order of their Content-Type, below. */
enum metrics_form { METRICS_OPEN, METRICS_TEXT };

/*
 * No label has a text that a program chooses: its values would be without number, and could not be
 * told from npud's own words.
 */
struct answers {
    Npud__Report *status, *devices, *executors, *streams, *limits, *queues, *waits;
};

static void begin_family(FILE *f, const char *name, const char *type, const char *help)
{
    fprintf(f, "# TYPE %s %s\n# HELP %s %s\n", name, type, name, help);
}

static void print_gauge(FILE *f, const char *name, const char *help, uint64_t value)
{
    begin_family(f, name, "gauge", help);
    fprintf(f, "%s %" PRIu64 "\n", name, value);
}

/* Of npud: versions and names of devices may still hold any byte. */
static void print_label(FILE *f, const char *name, const char *value)
{
    fprintf(f, "%s=\"", name);
    for (; *value; value++) {
        if (*value == '\\' || *value == '"')
            fputc('\\', f);
        fputc((unsigned char)*value < ' ' || (unsigned char)*value > '~' ? '?' : *value, f);
    }
    fputc('"', f);
}

static void print_status(FILE *f, const Npud__StatusRow *r)
{
    begin_family(f, "npud", "info", "The npud that serves.");
    fputs("npud_info{", f);
    print_label(f, "version", r->version);
    fputc(',', f);
    print_label(f, "backend", r->backend);
    fputs("} 1\n", f);
    print_gauge(f, "npud_uptime_seconds", "Time since this npud was started.", r->uptime_s);
    print_gauge(f, "npud_sessions", "Connected processes.", r->sessions);
    begin_family(f, "npud_sessions_opened", "counter", "Sessions since the start.");
    fprintf(f, "npud_sessions_opened_total %" PRIu64 "\n", r->sessions_total);
    begin_family(f, "npud_deaths", "counter",
                 "Sessions that ended with their process, unforeseen.");
    fprintf(f, "npud_deaths_total %" PRIu64 "\n", r->deaths);
    begin_family(f, "npud_restarts", "counter", "How often a server process has taken over.");
    fprintf(f, "npud_restarts_total %" PRIu64 "\n", r->restarts);
    print_gauge(f, "npud_events", "Plain and IPC events that are open.", r->events);
    print_gauge(f, "npud_lingering_events", "IPC events closed everywhere and still openable.",
                r->lingering_events);
    print_gauge(f, "npud_notifies", "Notifies that are open.", r->notifies);
    print_gauge(f, "npud_pools", "Pools of shared buffers.", r->pools);
    print_gauge(f, "npud_buffer_bytes", "Memory of all pools of shared buffers.", r->buffer_bytes);
    print_gauge(f, "npud_open_descriptors", "Descriptors that npud has open.", r->fds);
    begin_family(f, "npud_executors_started", "counter",
                 "Processes for device work, started since this server process began.");
    fprintf(f, "npud_executors_started_total %" PRIu64 "\n", r->executors_started);
    begin_family(f, "npud_executors_failed", "counter",
                 "Of these and earlier ones, ended although they were needed.");
    fprintf(f, "npud_executors_failed_total %" PRIu64 "\n", r->executors_failed);
    begin_family(f, "npud_longest_step_seconds", "gauge", "CPU time of the longest step.");
    fprintf(f,
            "npud_longest_step_seconds{thread=\"control\"} %.6f\n"
            "npud_longest_step_seconds{thread=\"engine\"} %.6f\n",
            (double)r->longest_step_us / 1e6, (double)r->longest_engine_step_us / 1e6);
}

/* Only reasons that there were: npud has some hundred. */
static void print_refusals(FILE *f, const Npud__Report *report)
{
    begin_family(f, "npud_refusals", "counter", "Requests that npud has refused, by reason.");
    for (size_t i = 0; i < report->n_refusals; i++) {
        fputs("npud_refusals_total{", f);
        print_label(f, "reason", report->refusals[i]->reason);
        fprintf(f, "} %" PRIu64 "\n", report->refusals[i]->refusals);
    }
}

/* One family with a sample for each device. */
#define PRINT_DEVICES(f, report, name, sample, type, help, value)                                  \
    do {                                                                                           \
        begin_family(f, name, type, help);                                                         \
        for (size_t i = 0; i < (report)->n_devices; i++) {                                         \
            const Npud__DeviceRow *r = (report)->devices[i];                                       \
                                                                                                   \
            fprintf(f, sample "{device=\"%u\"} %" PRIu64 "\n", r->device, (uint64_t)(value));      \
        }                                                                                          \
    } while (0)
#define PRINT_DEVICE_GAUGE(f, report, name, help, value)                                           \
    PRINT_DEVICES(f, report, name, name, "gauge", help, value)
#define PRINT_DEVICE_COUNTER(f, report, name, help, value)                                         \
    PRINT_DEVICES(f, report, name, name "_total", "counter", help, value)

static void print_devices(FILE *f, const Npud__Report *d)
{
    PRINT_DEVICE_GAUGE(f, d, "npud_device_up", "1: up; 0: lost.", strcmp(r->state, "up") == 0);
    PRINT_DEVICE_GAUGE(f, d, "npud_device_memory_bytes", "Memory in use.", r->memory_used);
    PRINT_DEVICE_GAUGE(f, d, "npud_device_memory_size_bytes", "Memory of the device.",
                       r->memory_total);
    PRINT_DEVICE_GAUGE(f, d, "npud_device_sessions", "Processes that use the device.", r->sessions);
    PRINT_DEVICE_GAUGE(f, d, "npud_device_streams", "Streams on the device.", r->streams);
    PRINT_DEVICE_GAUGE(f, d, "npud_device_busy_percent", "How busy the device is.",
                       r->busy_percent);
    PRINT_DEVICE_COUNTER(f, d, "npud_device_tasks",
                         "Tasks retired since this server process began.", r->tasks);
    PRINT_DEVICE_COUNTER(f, d, "npud_device_wakeups",
                         "How often the engine was woken since this server process began.",
                         r->wakeups);
}

/* Only of devices that say so. */
static void print_health(FILE *f, const Npud__Report *report)
{
    Npud__HardwareRow *const *rows = report->hardware;
    const size_t n = report->n_hardware;

    begin_family(f, "npud_device_temperature_celsius", "gauge", "What the device says of it.");
    for (size_t i = 0; i < n; i++)
        if (rows[i]->temperature != INT32_MIN)
            fprintf(f, "npud_device_temperature_celsius{device=\"%u\"} %" PRId32 "\n",
                    rows[i]->device, rows[i]->temperature);
    begin_family(f, "npud_device_power_watts", "gauge", "What the device says of it.");
    for (size_t i = 0; i < n; i++)
        if (rows[i]->power_mw != INT32_MIN)
            fprintf(f, "npud_device_power_watts{device=\"%u\"} %.3f\n", rows[i]->device,
                    (double)rows[i]->power_mw / 1e3);
    begin_family(f, "npud_device_memory_errors", "gauge", "Uncorrected ones, as the device says.");
    for (size_t i = 0; i < n; i++)
        if (rows[i]->health[0])
            fprintf(f, "npud_device_memory_errors{device=\"%u\"} %" PRIu32 "\n", rows[i]->device,
                    rows[i]->memory_errors);
}

static void print_executors(FILE *f, const Npud__Report *report)
{
    static const char *const states[] = {"starting", "resuming", "ready", "ended"};

    begin_family(f, "npud_executors", "gauge", "Processes for device work, by what they do.");
    for (size_t k = 0; k < sizeof(states) / sizeof(states[0]); k++) {
        uint64_t n = 0;

        for (size_t i = 0; i < report->n_executors; i++)
            n += strcmp(report->executors[i]->state, states[k]) == 0;
        fprintf(f, "npud_executors{state=\"%s\"} %" PRIu64 "\n", states[k], n);
    }
}

/* npud has further states; they count as other, so that the sum is right. */
static void print_streams(FILE *f, const Npud__Report *report)
{
    static const char *const states[] = {"idle", "running", "waiting", "stalled", "stopped"};
    const size_t known = sizeof(states) / sizeof(states[0]);
    uint64_t count[sizeof(states) / sizeof(states[0]) + 1] = {0};

    for (size_t i = 0; i < report->n_streams; i++) {
        size_t k = 0;

        while (k < known && strcmp(report->streams[i]->state, states[k]) != 0)
            k++;
        count[k]++;
    }
    begin_family(f, "npud_streams", "gauge", "Streams by what they do.");
    for (size_t k = 0; k <= known; k++)
        fprintf(f, "npud_streams{state=\"%s\"} %" PRIu64 "\n", k < known ? states[k] : "other",
                count[k]);
}

/* A gauge histogram: of what waits now, and not of all waits that there were. */
static void print_waits(FILE *f, const Npud__Report *report)
{
    static const char *const bounds[] = {"0.001", "0.01", "0.1",   "1.0",
                                         "10.0",  "60.0", "600.0", "3600.0"};
    uint64_t sum_ms = 0, n = 0, count;

    begin_family(f, "npud_wait_age_seconds", "gaugehistogram",
                 "How long streams and threads have waited that wait now.");
    for (size_t b = 0; b < sizeof(bounds) / sizeof(bounds[0]); b++) {
        count = 0;
        for (size_t i = 0; i < report->n_waits; i++)
            count += (double)report->waits[i]->for_ms / 1e3 <= strtod(bounds[b], NULL);
        fprintf(f, "npud_wait_age_seconds_bucket{le=\"%s\"} %" PRIu64 "\n", bounds[b], count);
    }
    for (size_t i = 0; i < report->n_waits; i++, n++)
        sum_ms += report->waits[i]->for_ms;
    fprintf(f,
            "npud_wait_age_seconds_bucket{le=\"+Inf\"} %" PRIu64 "\n"
            "npud_wait_age_seconds_gcount %" PRIu64 "\n"
            "npud_wait_age_seconds_gsum %" PRIu64 ".%03" PRIu64 "\n",
            n, n, sum_ms / 1000, sum_ms % 1000);
    print_gauge(f, "npud_deadlocks", "Circles of waits, certain or suspected.",
                report->n_deadlocks);
}

/* Of each user: resources that are memory, or those that are not; what is used, or the limits. */
static void print_limits(FILE *f, const Npud__Report *report, const char *name, const char *help,
                         bool memory, bool limit)
{
    begin_family(f, name, "gauge", help);
    for (size_t i = 0; i < report->n_limits; i++) {
        const Npud__LimitRow *r = report->limits[i];

        if (r->job[0] || field_limit_is_memory(r->resource) != memory)
            continue;
        fprintf(f, "%s{uid=\"%u\",", name, r->uid);
        print_label(f, "resource", r->resource);
        fprintf(f, "} %" PRIu64 "\n", limit ? r->limit : r->used);
    }
}

static void print_jobs(FILE *f, const Npud__Report *report, const char *name, const char *help,
                       bool limit)
{
    begin_family(f, name, "gauge", help);
    for (size_t i = 0; i < report->n_limits; i++) {
        const Npud__LimitRow *r = report->limits[i];

        if (!r->job[0])
            continue;
        fprintf(f, "%s{uid=\"%u\",", name, r->uid);
        print_label(f, "job", r->job);
        fprintf(f, "} %" PRIu64 "\n", limit ? r->limit : r->used);
    }
}

static void print_users(FILE *f, const Npud__Report *report)
{
    print_limits(f, report, "npud_user_memory_bytes", "Memory that a user has.", true, false);
    print_limits(f, report, "npud_user_memory_limit_bytes", "Memory that a user may have.", true,
                 true);
    print_limits(f, report, "npud_user_objects", "Objects that a user has.", false, false);
    print_limits(f, report, "npud_user_objects_limit", "Objects that a user may have.", false,
                 true);
    print_jobs(f, report, "npud_job_memory_bytes", "Memory that a job of a scheduler has.", false);
    print_jobs(f, report, "npud_job_memory_limit_bytes",
               "Memory that a job of a scheduler may have.", true);
}

static int compare_uids(const void *pa, const void *pb)
{
    const Npud__QueueRow *a = *(Npud__QueueRow *const *)pa, *b = *(Npud__QueueRow *const *)pb;

    return (a->uid > b->uid) - (a->uid < b->uid);
}

enum queue_sum { SUM_QUEUES, SUM_FULL, SUM_MESSAGES };

/* Rows are sorted by user. */
static void print_user_queues(FILE *f, const Npud__Report *report, const char *name,
                              const char *help, enum queue_sum what)
{
    uint64_t sum = 0;

    begin_family(f, name, "gauge", help);
    for (size_t i = 0; i < report->n_queues; i++) {
        const Npud__QueueRow *r = report->queues[i];

        sum += what == SUM_QUEUES ? 1 : what == SUM_FULL ? r->fill >= r->depth : r->fill;
        if (i + 1 < report->n_queues && report->queues[i + 1]->uid == r->uid)
            continue;
        fprintf(f, "%s{uid=\"%u\"} %" PRIu64 "\n", name, r->uid, sum);
        sum = 0;
    }
}

static void print_queues(FILE *f, const Npud__Report *report)
{
    uint64_t full = 0, messages = 0, waiting = 0;

    for (size_t i = 0; i < report->n_queues; i++) {
        full += report->queues[i]->fill >= report->queues[i]->depth;
        messages += report->queues[i]->fill;
        waiting += report->queues[i]->waiting;
    }
    print_gauge(f, "npud_queues", "Shared queues.", report->n_queues);
    print_gauge(f, "npud_queues_full", "Queues without room.", full);
    print_gauge(f, "npud_queue_messages", "Messages in all queues.", messages);
    print_gauge(f, "npud_queue_waiting_threads", "Threads that sleep on a queue.", waiting);
    if (report->n_queues > 0)
        qsort(report->queues, report->n_queues, sizeof(void *), compare_uids);
    print_user_queues(f, report, "npud_user_queues", "Shared queues of a user.", SUM_QUEUES);
    print_user_queues(f, report, "npud_user_queues_full", "Of these, without room.", SUM_FULL);
    print_user_queues(f, report, "npud_user_queue_messages", "Messages in them.", SUM_MESSAGES);
}

static void print_up(FILE *f, bool up)
{
    print_gauge(f, "npud_up", "1: npud answers; 0: it does not, and nothing else is told.", up);
}

static void print_answers(FILE *f, const struct answers *a)
{
    print_up(f, true);
    if (a->status->n_status > 0)
        print_status(f, a->status->status[0]);
    print_refusals(f, a->status);
    print_devices(f, a->devices);
    print_health(f, a->devices);
    print_executors(f, a->executors);
    print_streams(f, a->streams);
    print_waits(f, a->waits);
    print_users(f, a->limits);
    print_queues(f, a->queues);
    fputs("# EOF\n", f);
}

/* In the form that is asked for. False: no memory. */
static bool print_form(FILE *f, enum metrics_form form, const struct answers *a)
{
    char *text = NULL;
    size_t size;
    FILE *made;

    if (form == METRICS_OPEN) {
        print_answers(f, a);
        return true;
    }
    made = open_memstream(&text, &size);
    if (!made)
        return false;
    print_answers(made, a);
    if (fclose(made) == 0)
        metrics_print_as_text(f, text);
    free(text);
    return true;
}

/* Asks, over a connection that is open, and prints if npud has answered all. */
static enum status print_metrics(FILE *f, enum metrics_form form, struct connection *c)
{
    struct answers a = {0};
    const struct question questions[] = {
        {NPUD__ADMIN_REQUEST__TOPIC__STATUS, &a.status},
        {NPUD__ADMIN_REQUEST__TOPIC__DEVICES, &a.devices},
        {NPUD__ADMIN_REQUEST__TOPIC__EXECUTORS, &a.executors},
        {NPUD__ADMIN_REQUEST__TOPIC__STREAMS, &a.streams},
        {NPUD__ADMIN_REQUEST__TOPIC__LIMITS, &a.limits},
        {NPUD__ADMIN_REQUEST__TOPIC__QUEUES, &a.queues},
        {NPUD__ADMIN_REQUEST__TOPIC__WAITS, &a.waits},
    };
    const size_t n = sizeof(questions) / sizeof(questions[0]);
    enum status status = ask_reports(c, questions, n);

    if (status != STATUS_OK)
        return status;
    if (!print_form(f, form, &a)) {
        fputs("npuctl: no memory\n", stderr);
        status = STATUS_ERROR;
    }
    for (size_t i = 0; i < n; i++)
        npud__report__free_unpacked(*questions[i].report, NULL);
    return status;
}

/* --- for a scraper --- */

#define AGE_MAX         NSEC_PER_SEC /* many scrapers cost npud as much as one */
#define ANSWER_SCRAPE_S 2            /* less than a scraper waits */

/* The newest text, and when it was made. */
struct scrape {
    const char *path;
    char *text;
    size_t size;
    uint64_t at;
    bool told; /* on stderr, that npud cannot be reached: once, not at each scrape */
};

static enum status ask_anew(FILE *f, struct scrape *s)
{
    struct connection c = {.path = s->path, .limit = ANSWER_SCRAPE_S};
    int r = connection_open(&c);
    enum status status;

    if (r < 0) {
        if (!s->told)
            socket_explain_unreachable(s->path, -r);
        s->told = true;
        return STATUS_UNREACHABLE;
    }
    status = print_metrics(f, METRICS_OPEN, &c);
    connection_close(&c);
    s->told = false;
    return status;
}

static void refresh_scrape(struct scrape *s)
{
    FILE *f;

    free(s->text);
    s->text = NULL;
    f = open_memstream(&s->text, &s->size);
    if (!f)
        return;
    if (ask_anew(f, s) != STATUS_OK) {
        print_up(f, false);
        fputs("# EOF\n", f);
    }
    fclose(f);
    s->at = clock_ns(); /* npud may have taken its time */
}

static char *make_scrape(void *data, unsigned form, size_t *size)
{
    struct scrape *s = data;
    char *copy, *text = NULL;
    FILE *f;

    if (!s->text || clock_ns() - s->at >= AGE_MAX)
        refresh_scrape(s);
    copy = s->text ? strdup(s->text) : NULL;
    *size = s->size;
    if (!copy || form == METRICS_OPEN)
        return copy;
    f = open_memstream(&text, size);
    if (f) {
        metrics_print_as_text(f, copy);
        fclose(f);
    }
    free(copy);
    return text;
}

static enum status serve_metrics(const struct task *task)
{
    struct scrape scrape = {.path = task->path};
    const struct http_page page = {
        .path = "/metrics",
        .types = {[METRICS_OPEN] = "application/openmetrics-text; version=1.0.0; charset=utf-8",
                  [METRICS_TEXT] = "text/plain; version=0.0.4; charset=utf-8"},
        .make = make_scrape,
        .data = &scrape,
    };
    enum status status = http_serve(task->listen ? task->listen : LISTEN_DEFAULT, &page);

    free(scrape.text);
    return status;
}

enum status metrics_run(const struct task *task)
{
    struct connection c = {.path = task->path, .limit = ANSWER_LIMIT_S};
    enum status status;
    int r;

    if (task->given & OPTION_LISTEN)
        return serve_metrics(task);
    r = connection_open(&c);
    if (r < 0)
        return socket_explain_unreachable(task->path, -r);
    status = print_metrics(stdout, task->given & OPTION_TEXT ? METRICS_TEXT : METRICS_OPEN, &c);
    connection_close(&c);
    return status == STATUS_OK ? print_end(true) : status;
}
