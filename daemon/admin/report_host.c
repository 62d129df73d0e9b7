/* Reports on npud itself: its devices, executors, sessions, limits and rules. */
#include "daemon/admin/report_topics.h"

#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utlist.h>

#include "daemon/buffers/pool.h"
#include "daemon/buffers/segment.h"
#include "daemon/core/device.h"
#include "daemon/core/ipc_event.h"
#include "daemon/core/refuse.h"
#include "daemon/core/server.h"
#include "daemon/core/session.h"
#include "daemon/core/engine.h"
#include "daemon/engine/inject.h"
#include "daemon/memory/pages.h"
#include "proto/util/clock.h"
#include "proto/wire/npud.pb-c.h"

static uint64_t seconds_since(uint64_t ns)
{
    return (clock_ns() - ns) / NSEC_PER_SEC;
}

/*
 * Since Linux 6.2 the size of the directory is their number; before, it is 0, and all names have to
 * be read.
 */
static uint32_t count_fds(void)
{
    struct stat st;
    DIR *dir;
    uint32_t n = 0;

    if (stat("/proc/self/fd", &st) == 0 && st.st_size > 0)
        return (uint32_t)st.st_size;
    dir = opendir("/proc/self/fd");
    if (!dir)
        return 0;
    while (readdir(dir))
        n++;
    closedir(dir);
    return n - 3; /* ".", "..", and the directory itself */
}

static void report_buffers(struct server *server, Npud__StatusRow *r)
{
    struct segment *segment;
    struct pool *pool;

    DL_FOREACH (server->pools->list, pool) {
        r->pools++;
        DL_FOREACH (pool->segments, segment)
            r->buffer_bytes += segment->size;
    }
}

/* Which request or report it was. NULL: `what` says all. */
static const char *name_detail(const struct step *step)
{
    const ProtobufCFieldDescriptor *request;
    const ProtobufCEnumValue *topic;

    if (strcmp(step->what, "request") == 0) {
        request = protobuf_c_message_descriptor_get_field(&npud__request__descriptor, step->detail);
        return request ? request->name : NULL;
    }
    if (strcmp(step->what, "report") == 0) {
        topic = protobuf_c_enum_descriptor_get_value(&npud__admin_request__topic__descriptor,
                                                     (int)step->detail);
        return topic ? topic->name : NULL;
    }
    return NULL;
}

static char *describe_step(struct rows *rows, const struct step *step)
{
    const char *name;
    char text[64];

    if (!step->what)
        return (char *)"";
    /* The client has hung up, or has sent what is no request. */
    if (strcmp(step->what, "request") == 0 && step->detail == NPUD__REQUEST__BODY__NOT_SET)
        return (char *)"session end";
    name = name_detail(step);
    if (!name)
        return (char *)step->what;
    snprintf(text, sizeof(text), "%s %s", step->what, name);
    for (char *p = text; *p; p++)
        *p = (char)(*p == '_' ? '-' : tolower((unsigned char)*p));
    return report_rows_copy_text(rows, text);
}

static void report_held_up(struct rows *rows, const struct step *control, const struct step *engine,
                           Npud__StatusRow *r)
{
    r->longest_wait_us = control->ns / NSEC_PER_USEC;
    r->longest_wait = describe_step(rows, control);
    r->longest_wait_uid = control->uid;
    r->longest_wait_session = control->session;
    r->longest_engine_wait_us = engine->ns / NSEC_PER_USEC;
    r->longest_engine_wait = describe_step(rows, engine);
    r->longest_engine_wait_uid = engine->uid;
    r->longest_engine_wait_session = engine->session;
}

static void report_steps(struct server *server, struct rows *rows, Npud__StatusRow *r)
{
    struct step step, longest = {0}, waited = {0};

    step_meter_longest(&server->schedule.meter, &step);
    r->longest_step_us = step.ns / NSEC_PER_USEC;
    r->longest_step = describe_step(rows, &step);
    r->longest_step_uid = step.uid;
    r->longest_step_session = step.session;
    for (uint32_t i = 0; i < server->devices->n; i++) {
        struct engine_stats stats;

        engine_get_stats(server->devices->device[i].engine, &stats);
        if (stats.longest.ns > longest.ns)
            longest = stats.longest;
        if (stats.waited.ns > waited.ns)
            waited = stats.waited;
    }
    r->longest_engine_step_us = longest.ns / NSEC_PER_USEC;
    r->longest_engine_step = describe_step(rows, &longest);
    r->longest_engine_step_uid = longest.uid;
    r->longest_engine_step_session = longest.session;
    step_meter_waited(&server->schedule.meter, &step);
    report_held_up(rows, &step, &waited, r);
}

static void count_executors(struct server *server, Npud__StatusRow *r)
{
    const struct devices *ds = server->devices;
    struct backend_executors count = {0};

    if (ds->backend->executors)
        ds->backend->executors(ds->backend_state, &count);
    r->executors_started = count.started;
    r->executors_failed = count.failed;
}

static void report_refusals(struct rows *rows)
{
    for (enum cause cause = CAUSE_NONE; cause < CAUSE_COUNT; cause++) {
        char name[64];

        if (refuse_counted(cause) == 0)
            continue;
        ADD_ROW(rows, Npud__RefusalRow, NPUD__REFUSAL_ROW__INIT, r);
        snprintf(name, sizeof(name), "%s", refuse_name(cause) + sizeof("CAUSE"));
        for (char *p = name; *p; p++)
            *p = (char)tolower(*p);
        r->reason = report_rows_copy_text(rows, name);
        r->refusals = refuse_counted(cause);
    }
}

void report_status(struct server *server, struct rows *rows)
{
    struct session *session;
    ADD_ROW(rows, Npud__StatusRow, NPUD__STATUS_ROW__INIT, r);

    r->version = (char *)NPUD_VERSION;
    r->pid = getpid();
    r->backend = (char *)server->devices->backend->name;
    r->uptime_s = seconds_since(server->since_ns);
    r->devices = server->devices->n;
    r->sessions = server->n_sessions;
    r->sessions_total = server->last->session;
    r->lingering_events = server->ipc->lingering;
    r->fds = count_fds();
    DL_FOREACH (server->sessions, session) {
        r->streams += session->streams.live;
        r->events += session->events.live + session->ipc.live;
        r->notifies += session->notifies.live;
        r->memory_bytes += session->memory;
    }
    report_buffers(server, r);
    count_executors(server, r);
    r->deaths = server->deaths;
    r->restarts = server->restarts;
    report_steps(server, rows, r);
    report_refusals(&rows[1]);
}

static char *give_text(const char *text)
{
    return (char *)(text ? text : "");
}

/* What the device says. */
static void describe_told(const struct backend_health *health, char *text, size_t size)
{
    size_t used = 0;

    if (health->temperature != INT32_MIN)
        used += (size_t)snprintf(text, size, "%d C, ", health->temperature);
    if (health->power != INT32_MIN)
        used +=
            (size_t)snprintf(text + used, size - used, "%.1f W, ", (double)health->power / 1000);
    snprintf(text + used, size - used, "%u memory errors", health->errors);
}

static void describe_health(struct rows *rows, const struct backend_health *health,
                            Npud__HardwareRow *r)
{
    char told[96] = "", text[160];

    if (health->told)
        describe_told(health, told, sizeof(told));
    snprintf(text, sizeof(text), "unwell: process %d was killed and does not end%s%s",
             health->unwell, health->told ? ", " : "", told);
    r->health = report_rows_copy_text(rows, health->unwell != 0 ? text : told);
    if (!health->told)
        return;
    r->temperature = health->temperature;
    r->power_mw = health->power;
    r->memory_errors = health->errors;
}

static void report_hardware(struct rows *rows, const struct device *d)
{
    struct backend_health health;
    ADD_ROW(rows, Npud__HardwareRow, NPUD__HARDWARE_ROW__INIT, r);

    r->device = d->index;
    r->bus = give_text(d->info.bus);
    r->can = give_text(d->info.can);
    r->version = give_text(d->info.version);
    r->temperature = r->power_mw = INT32_MIN;
    if (d->backend->device_health && d->backend->device_health(d->backend_state, d->index, &health))
        describe_health(rows, &health, r);
}

void report_devices(struct server *server, struct rows *rows)
{
    for (uint32_t i = 0; i < server->devices->n; i++) {
        struct device *d = &server->devices->device[i];
        struct engine_stats stats;
        ADD_ROW(rows, Npud__DeviceRow, NPUD__DEVICE_ROW__INIT, r);

        engine_get_stats(d->engine, &stats);
        r->device = i;
        r->soc_name = (char *)d->info.soc_name;
        r->memory_total = d->info.memory;
        r->memory_used = d->memory_used;
        r->sessions = d->sessions;
        r->streams = d->stream_ids.live;
        r->tasks = stats.tasks;
        r->wakeups = stats.wakeups;
        r->asleep = stats.asleep;
        r->state = (char *)(atomic_load(&d->lost) ? "lost" : "up");
        r->busy_percent = engine_busy_percent(d->engine);
        if (d->info.away)
            report_hardware(&rows[1], d);
    }
}

/* "0,2" */
static char *list_devices(struct rows *rows, uint32_t devices)
{
    char text[DEVICES_MAX * 3 + 1] = "";
    size_t used = 0;

    for (uint32_t d = 0; d < DEVICES_MAX; d++)
        if (devices & 1u << d)
            used += (size_t)snprintf(text + used, sizeof(text) - used, used > 0 ? ",%u" : "%u", d);
    return report_rows_copy_text(rows, text);
}

static void report_executor(struct rows *rows, const struct backend_executor *x)
{
    char serves[32];
    ADD_ROW(rows, Npud__ExecutorRow, NPUD__EXECUTOR_ROW__INIT, r);

    snprintf(serves, sizeof(serves), "session %llu", (unsigned long long)x->session);
    r->pid = x->pid;
    r->uid = x->uid;
    r->runs_as = x->runs_as;
    r->serves = x->session ? report_rows_copy_text(rows, serves) : (char *)"all of the user";
    r->state = (char *)x->state;
    r->devices = list_devices(rows, x->devices);
    r->memory_bytes = x->memory;
    r->lanes = x->lanes;
    r->age_s = seconds_since(x->since_ns);
    r->why = (char *)x->why;
    r->session = x->session;
    r->number = x->number;
}

void report_executors(struct server *server, struct rows *rows)
{
    const struct devices *ds = server->devices;
    struct progress *p = rows->progress;
    struct backend_executor x;

    while (ds->backend->executor_next &&
           ds->backend->executor_next(ds->backend_state, p->executor, &x)) {
        if (report_rows_slice_over(rows))
            return;
        p->executor = x.number;
        report_executor(rows, &x);
    }
}

void report_sessions(struct server *server, struct rows *rows)
{
    struct progress *p = rows->progress;
    struct session *session;

    for (session = report_rows_session_from(server, p->session); session && session->id <= p->last;
         session = session->next) {
        p->session = session->id;
        if (report_rows_look_over(rows))
            return;
        if (!report_rows_tell(rows, session->uid) ||
            (rows->own && session->state == SESSION_CONNECTED)) /* npuctl, which asks for this */
            continue;
        ADD_ROW(rows, Npud__SessionRow, NPUD__SESSION_ROW__INIT, r);

        r->session = session->id;
        r->pid = session->pid;
        r->uid = session->uid;
        r->program = session->program;
        r->streams = session->streams.live;
        r->events = session->events.live + session->ipc.live;
        r->memory_bytes = session->memory;
        r->requests = *session_requests(session);
        r->age_s = seconds_since(session->since_ns);
        r->job =
            session->batch_job ? report_rows_copy_text(rows, session->batch_job->path) : (char *)"";
    }
}

static void report_job_limits(struct server *server, struct rows *rows)
{
    struct batch_job *job, *tmp;

    HASH_ITER (by_path, server->batch_jobs.by_path, job, tmp) {
        ADD_ROW(rows, Npud__LimitRow, NPUD__LIMIT_ROW__INIT, r);

        r->uid = job->uid;
        r->resource = (char *)"job_memory";
        r->used = job->used;
        r->limit = batch_job_limit(job);
        r->job = report_rows_copy_text(rows, job->path);
    }
}

static void report_user_limits(struct rows *rows, const struct user *user)
{
    for (int i = 0; i < RESOURCE_COUNT; i++) {
        ADD_ROW(rows, Npud__LimitRow, NPUD__LIMIT_ROW__INIT, r);

        r->uid = user->uid;
        r->resource = (char *)resource_names[i];
        r->used = user_used(user, i);
        r->limit = user_limit(user, i);
    }
}

/* What a device has for the user at this moment, where others are to find some: pages.h. */
static void report_device_shares(struct server *server, struct rows *rows, const struct user *user)
{
    char resource[32];

    for (uint32_t i = 0; server->users.divided && i < server->devices->n; i++) {
        ADD_ROW(rows, Npud__LimitRow, NPUD__LIMIT_ROW__INIT, r);

        snprintf(resource, sizeof(resource), "device_share.%u", i);
        r->uid = user->uid;
        r->resource = report_rows_copy_text(rows, resource);
        r->used = user->on_device[i];
        r->limit = r->used + pages_device_remaining(user, devices_get(server->devices, i));
    }
}

void report_limits(struct server *server, struct rows *rows)
{
    struct user *user, *tmp;

    HASH_ITER (hh, server->users.by_uid, user, tmp) {
        if (user->payer != user)
            continue;
        report_user_limits(rows, user);
        report_device_shares(server, rows, user);
    }
    report_job_limits(server, rows);
}

static void report_rule(struct rows *rows, struct inject_rule *rule)
{
    char text[128];
    ADD_ROW(rows, Npud__RuleRow, NPUD__RULE_ROW__INIT, r);

    r->rule = rule->id;
    r->action = (char *)inject_action_names[rule->spec.action];
    inject_describe_tasks(rule, text, sizeof(text));
    r->tasks = report_rows_copy_text(rows, text);
    inject_describe_which(rule, text, sizeof(text));
    r->which = report_rows_copy_text(rows, text);
    inject_describe_effect(rule, text, sizeof(text));
    r->effect = report_rows_copy_text(rows, text);
    inject_describe_state(rule, text, sizeof(text));
    r->state = report_rows_copy_text(rows, text);
    r->matched = rule->live->matched;
    r->hits = rule->live->hits;
    r->held = atomic_load_explicit(&rule->held.n, memory_order_relaxed);
    r->kind = (char *)(rule->spec.kind ? rule->spec.kind : "");
    r->session = rule->spec.session;
    r->device = rule->spec.device;
    r->stream = rule->spec.stream;
    r->nth = rule->spec.nth;
    r->count = rule->spec.count;
    r->code = rule->spec.code;
    r->probability = rule->spec.probability;
    r->seed = rule->spec.seed;
}

void report_rules(struct server *server, struct rows *rows)
{
    struct inject *in = server->inject;

    pthread_mutex_lock(&in->lock);
    for (uint32_t i = 0; i < in->n; i++)
        report_rule(rows, in->order[i]);
    pthread_mutex_unlock(&in->lock);
}
