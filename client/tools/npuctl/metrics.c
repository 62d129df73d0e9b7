#include "client/tools/npuctl/metrics.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/tools/npuctl/ask.h"
#include "client/tools/npuctl/print.h"

/*
 * No label has a text that a program chooses: its values would be without number, and could not be
 * told from npud's own words.
 */
struct answers {
    Npud__Report *status, *devices, *streams, *limits, *queues, *waits;
};

static void begin_family(const char *name, const char *type, const char *help)
{
    printf("# TYPE %s %s\n# HELP %s %s\n", name, type, name, help);
}

static void print_gauge(const char *name, const char *help, uint64_t value)
{
    begin_family(name, "gauge", help);
    printf("%s %" PRIu64 "\n", name, value);
}

/* Of npud: versions and names of devices may still hold any byte. */
static void print_label(const char *name, const char *value)
{
    printf("%s=\"", name);
    for (; *value; value++) {
        if (*value == '\\' || *value == '"')
            putchar('\\');
        putchar((unsigned char)*value < ' ' || (unsigned char)*value > '~' ? '?' : *value);
    }
    putchar('"');
}

static void print_status(const Npud__StatusRow *r)
{
    begin_family("npud", "info", "The npud that serves.");
    fputs("npud_info{", stdout);
    print_label("version", r->version);
    putchar(',');
    print_label("backend", r->backend);
    puts("} 1");
    print_gauge("npud_uptime_seconds", "Time since this npud was started.", r->uptime_s);
    print_gauge("npud_sessions", "Connected processes.", r->sessions);
    begin_family("npud_sessions_opened", "counter", "Sessions since the start.");
    printf("npud_sessions_opened_total %" PRIu64 "\n", r->sessions_total);
    print_gauge("npud_events", "Plain and IPC events that are open.", r->events);
    print_gauge("npud_lingering_events", "IPC events closed everywhere and still openable.",
                r->lingering_events);
    print_gauge("npud_notifies", "Notifies that are open.", r->notifies);
    print_gauge("npud_pools", "Pools of shared buffers.", r->pools);
    print_gauge("npud_buffer_bytes", "Memory of all pools of shared buffers.", r->buffer_bytes);
    print_gauge("npud_open_descriptors", "Descriptors that npud has open.", r->fds);
    begin_family("npud_longest_step_seconds", "gauge", "CPU time of the longest step.");
    printf("npud_longest_step_seconds{thread=\"control\"} %.6f\n"
           "npud_longest_step_seconds{thread=\"engine\"} %.6f\n",
           (double)r->longest_step_us / 1e6, (double)r->longest_engine_step_us / 1e6);
}

/* One family with a sample for each device. */
#define PRINT_DEVICES(report, name, sample, type, help, value)                                     \
    do {                                                                                           \
        begin_family(name, type, help);                                                            \
        for (size_t i = 0; i < (report)->n_devices; i++) {                                         \
            const Npud__DeviceRow *r = (report)->devices[i];                                       \
                                                                                                   \
            printf(sample "{device=\"%u\"} %" PRIu64 "\n", r->device, (uint64_t)(value));          \
        }                                                                                          \
    } while (0)
#define PRINT_DEVICE_GAUGE(report, name, help, value)                                              \
    PRINT_DEVICES(report, name, name, "gauge", help, value)
#define PRINT_DEVICE_COUNTER(report, name, help, value)                                            \
    PRINT_DEVICES(report, name, name "_total", "counter", help, value)

static void print_devices(const Npud__Report *d)
{
    PRINT_DEVICE_GAUGE(d, "npud_device_up", "1: up; 0: lost.", strcmp(r->state, "up") == 0);
    PRINT_DEVICE_GAUGE(d, "npud_device_memory_bytes", "Memory in use.", r->memory_used);
    PRINT_DEVICE_GAUGE(d, "npud_device_memory_size_bytes", "Memory of the device.",
                       r->memory_total);
    PRINT_DEVICE_GAUGE(d, "npud_device_sessions", "Processes that use the device.", r->sessions);
    PRINT_DEVICE_GAUGE(d, "npud_device_streams", "Streams on the device.", r->streams);
    PRINT_DEVICE_COUNTER(d, "npud_device_tasks", "Tasks retired since the start.", r->tasks);
    PRINT_DEVICE_COUNTER(d, "npud_device_wakeups", "How often the engine was woken.", r->wakeups);
}

/* npud has further states; they count as other, so that the sum is right. */
static void print_streams(const Npud__Report *report)
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
    begin_family("npud_streams", "gauge", "Streams by what they do.");
    for (size_t k = 0; k <= known; k++)
        printf("npud_streams{state=\"%s\"} %" PRIu64 "\n", k < known ? states[k] : "other",
               count[k]);
}

/* A gauge histogram: of what waits now, and not of all waits that there were. */
static void print_waits(const Npud__Report *report)
{
    static const char *const bounds[] = {"0.001", "0.01", "0.1",   "1.0",
                                         "10.0",  "60.0", "600.0", "3600.0"};
    uint64_t sum_ms = 0, n = 0, count;

    begin_family("npud_wait_age_seconds", "gaugehistogram",
                 "How long streams and threads have waited that wait now.");
    for (size_t b = 0; b < sizeof(bounds) / sizeof(bounds[0]); b++) {
        count = 0;
        for (size_t i = 0; i < report->n_waits; i++)
            count += (double)report->waits[i]->for_ms / 1e3 <= strtod(bounds[b], NULL);
        printf("npud_wait_age_seconds_bucket{le=\"%s\"} %" PRIu64 "\n", bounds[b], count);
    }
    for (size_t i = 0; i < report->n_waits; i++, n++)
        sum_ms += report->waits[i]->for_ms;
    printf("npud_wait_age_seconds_bucket{le=\"+Inf\"} %" PRIu64 "\n"
           "npud_wait_age_seconds_gcount %" PRIu64 "\n"
           "npud_wait_age_seconds_gsum %" PRIu64 ".%03" PRIu64 "\n",
           n, n, sum_ms / 1000, sum_ms % 1000);
    print_gauge("npud_deadlocks", "Circles of waits, certain or suspected.", report->n_deadlocks);
}

/* Of each user: resources that are memory, or those that are not; what is used, or the limits. */
static void print_limits(const Npud__Report *report, const char *name, const char *help,
                         bool memory, bool limit)
{
    begin_family(name, "gauge", help);
    for (size_t i = 0; i < report->n_limits; i++) {
        const Npud__LimitRow *r = report->limits[i];

        if ((strstr(r->resource, "memory") != NULL) != memory)
            continue;
        printf("%s{uid=\"%u\",", name, r->uid);
        print_label("resource", r->resource);
        printf("} %" PRIu64 "\n", limit ? r->limit : r->used);
    }
}

static void print_users(const Npud__Report *report)
{
    print_limits(report, "npud_user_memory_bytes", "Memory that a user has.", true, false);
    print_limits(report, "npud_user_memory_limit_bytes", "Memory that a user may have.", true,
                 true);
    print_limits(report, "npud_user_objects", "Objects that a user has.", false, false);
    print_limits(report, "npud_user_objects_limit", "Objects that a user may have.", false, true);
}

static void print_queues(const Npud__Report *report)
{
    uint64_t full = 0, messages = 0, waiting = 0;

    for (size_t i = 0; i < report->n_queues; i++) {
        full += report->queues[i]->fill >= report->queues[i]->depth;
        messages += report->queues[i]->fill;
        waiting += report->queues[i]->waiting;
    }
    print_gauge("npud_queues", "Shared queues.", report->n_queues);
    print_gauge("npud_queues_full", "Queues without room.", full);
    print_gauge("npud_queue_messages", "Messages in all queues.", messages);
    print_gauge("npud_queue_waiting_threads", "Threads that sleep on a queue.", waiting);
}

static enum status print_answers(const struct answers *a)
{
    if (a->status->n_status > 0)
        print_status(a->status->status[0]);
    print_devices(a->devices);
    print_streams(a->streams);
    print_waits(a->waits);
    print_users(a->limits);
    print_queues(a->queues);
    puts("# EOF");
    return print_end(true);
}

enum status metrics_run(const struct task *task)
{
    struct connection c = {.path = task->path, .limit = ANSWER_LIMIT_S};
    struct answers a = {0};
    Npud__Report **const report[] = {&a.status, &a.devices, &a.streams,
                                     &a.limits, &a.queues,  &a.waits};
    static const Npud__AdminRequest__Topic topic[] = {
        NPUD__ADMIN_REQUEST__TOPIC__STATUS,  NPUD__ADMIN_REQUEST__TOPIC__DEVICES,
        NPUD__ADMIN_REQUEST__TOPIC__STREAMS, NPUD__ADMIN_REQUEST__TOPIC__LIMITS,
        NPUD__ADMIN_REQUEST__TOPIC__QUEUES,  NPUD__ADMIN_REQUEST__TOPIC__WAITS};
    const size_t n = sizeof(topic) / sizeof(topic[0]);
    enum status status = STATUS_OK;
    int r = connection_open(&c);

    if (r < 0)
        return socket_explain_unreachable(task->path, -r);
    for (size_t i = 0; status == STATUS_OK && i < n; i++)
        status = ask_report(&c, topic[i], report[i]);
    connection_close(&c);
    if (status == STATUS_OK)
        status = print_answers(&a);
    for (size_t i = 0; i < n; i++)
        npud__report__free_unpacked(*report[i], NULL);
    return status;
}
