#include "daemon/admin/report.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utlist.h>

#include "daemon/core/engine.h"
#include "daemon/core/event.h"
#include "daemon/engine/inject.h"
#include "daemon/memory/allocation.h"
#include "daemon/buffers/grant.h"
#include "daemon/core/notify.h"
#include "daemon/buffers/pool.h"
#include "daemon/buffers/segment.h"
#include "daemon/buffers/queue.h"
#include "daemon/buffers/router.h"
#include "daemon/buffers/peer.h"
#include "daemon/core/server.h"
#include "daemon/core/session.h"
#include "daemon/core/stream.h"
#include "daemon/core/device.h"
#include "daemon/core/ipc_event.h"
#include "daemon/core/ipc_record.h"
#include "daemon/admin/waits.h"
#include "proto/util/clock.h"
#include "proto/wire/npud.pb-c.h"

#define SLICE (500 * NSEC_PER_USEC) /* of making a report, before clients have their turn */

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

static void report_status(struct server *server, struct rows *rows)
{
    struct session *session;
    ADD_ROW(rows, Npud__StatusRow, NPUD__STATUS_ROW__INIT, r, return );

    r->version = (char *)NPUD_VERSION;
    r->pid = getpid();
    r->backend = (char *)server->devices->backend->name;
    r->uptime_s = seconds_since(server->since_ns);
    r->devices = server->devices->n;
    r->sessions = server->n_sessions;
    r->sessions_total = server->last_session;
    r->lingering_events = server->ipc->lingering;
    r->fds = count_fds();
    DL_FOREACH (server->sessions, session) {
        r->streams += session->streams.live;
        r->events += session->events.live + session->ipc.live;
        r->notifies += session->notifies.live;
        r->memory_bytes += session->memory;
    }
    report_buffers(server, r);
}

static void report_devices(struct server *server, struct rows *rows)
{
    for (uint32_t i = 0; i < server->devices->n; i++) {
        struct device *d = &server->devices->device[i];
        struct engine_stats stats;
        ADD_ROW(rows, Npud__DeviceRow, NPUD__DEVICE_ROW__INIT, r, return );

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
    }
}

static void report_sessions(struct server *server, struct rows *rows)
{
    struct progress *p = rows->progress;
    struct session *session;

    for (session = report_rows_session_from(server, p->session); session && session->id <= p->last;
         session = session->next) {
        p->session = session->id;
        if (report_rows_slice_over(rows))
            return;
        ADD_ROW(rows, Npud__SessionRow, NPUD__SESSION_ROW__INIT, r, return );

        r->session = session->id;
        r->pid = session->pid;
        r->uid = session->uid;
        r->program = session->program;
        r->streams = session->streams.live;
        r->events = session->events.live + session->ipc.live;
        r->memory_bytes = session->memory;
        r->requests = session->requests;
        r->age_s = seconds_since(session->since_ns);
    }
}

/* Under the engine's lock. */
static const char *stream_state(const struct stream *s, uint64_t submitted)
{
    if (s->run == RUN_PARKED && inject_holder(s->session->server->inject, s->waiting_on))
        return "stalled";
    if (atomic_load(&s->stopped) != 0)
        return "stopped";
    if (s->run == RUN_PARKED)
        return "waiting";
    return submitted != s->head ? "running" : "idle";
}

/* Under the engine's lock. */
static void describe_parked(const struct stream *s, char *buf, size_t size)
{
    struct blocked b;

    if (s->stuck)
        snprintf(buf, size, "its process to take exceptions");
    else if (blocked_of_stream(s, &b))
        blocked_describe(&b, buf, size);
    else if (s->run == RUN_PARKED && s->task.op == TASK_DELAY)
        snprintf(buf, size, "a delay of %llu us",
                 (unsigned long long)(s->task.delay.ns / NSEC_PER_USEC));
}

static void report_stream(struct rows *rows, struct stream *s)
{
    char waits[128] = "";
    ADD_ROW(rows, Npud__StreamRow, NPUD__STREAM_ROW__INIT, r, return );

    r->session = s->session->id;
    r->pid = s->session->pid;
    r->device = s->attach->device->index;
    r->stream = stream_id(s);
    r->priority = s->priority;
    engine_lock(s->attach->device->engine);
    r->submitted = atomic_load_explicit(&s->ctrl->tail, memory_order_relaxed);
    r->done = atomic_load(&s->done);
    r->failures = s->failures;
    r->failed_task = s->failed.task;
    r->failed_thread = s->failed.thread;
    r->failed_code = s->failed.code;
    r->state = (char *)stream_state(s, r->submitted);
    describe_parked(s, waits, sizeof(waits));
    engine_unlock(s->attach->device->engine);
    r->waits_for = report_rows_copy_text(rows, waits);
}

static void report_streams(struct server *server, struct rows *rows)
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
    bool settled = ipc_record_outcome(ev, ipc_latest_number(latest), &error, &pid);
    enum ipc_state state =
        settled && error != 0 ? IPC_FAILED : ipc_state_of(ev->page, ipc_latest_number(latest));
    ADD_ROW(rows, Npud__EventRow, NPUD__EVENT_ROW__INIT, r, return );

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
    ADD_ROW(rows, Npud__EventRow, NPUD__EVENT_ROW__INIT, r, return );

    r->session = session->id;
    r->pid = session->pid;
    r->kind = (char *)"plain";
    r->device = event->device;
    r->event = event->slot.number;
    r->records = atomic_load_explicit(&event->shm->records, memory_order_relaxed);
    r->openers = 1;
}

static void report_events(struct server *server, struct rows *rows)
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

static void report_memory(struct server *server, struct rows *rows)
{
    static const size_t tables[] = {offsetof(struct session, mems)};
    struct session *session = NULL;
    struct mem *mem;

    while ((mem = report_rows_next_object(server, rows, tables, 1, &session))) {
        ADD_ROW(rows, Npud__MemoryRow, NPUD__MEMORY_ROW__INIT, r, return );

        r->session = session->id;
        r->pid = session->pid;
        r->kind = mem->kind == MEM_DEVICE ? "device" : "host";
        r->device = mem->device->index;
        r->size = mem->size;
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

static void report_notifies(struct server *server, struct rows *rows)
{
    static const size_t tables[] = {offsetof(struct session, notifies)};
    struct session *session = NULL;
    struct notify_open *open;

    while ((open = report_rows_next_object(server, rows, tables, 1, &session))) {
        struct notify *n = open->notify;
        ADD_ROW(rows, Npud__NotifyRow, NPUD__NOTIFY_ROW__INIT, r, return );

        r->session = session->id;
        r->pid = session->pid;
        r->kind = (char *)notify_kind(open);
        r->device = n->device->index;
        r->notify = n->id->slot.number;
        r->value = notify_value(n);
        r->waiting = atomic_load_explicit(&n->waiting.n, memory_order_relaxed);
        r->openers = n->n_opens;
        r->allowed = n->n_pids;
    }
}

/* Threads that sleep on the ring. A client's word, like all that is there. */
static uint32_t queue_sleepers(const struct queue_view *v)
{
    return (queue_waiting(&v->take->waiting) & ~QUEUE_ROUTER) +
           (queue_waiting(&v->put->waiting) & ~QUEUE_ROUTER);
}

static void report_queues(struct server *server, struct rows *rows)
{
    struct queue_attach *attach;
    struct queue *queue;

    for (queue = queue_from(server, rows->progress->session); queue; queue = queue->next) {
        rows->progress->session = queue->serial;
        if (report_rows_slice_over(rows))
            return;
        ADD_ROW(rows, Npud__QueueRow, NPUD__QUEUE_ROW__INIT, r, return );

        r->queue = queue->id;
        r->uid = queue->user->uid;
        r->pid = queue->creator ? queue->creator->pid : 0;
        r->name = report_rows_copy_text(rows, queue->name);
        r->depth = queue->ring.view.depth;
        r->fill = queue_fill(&queue->ring.view);
        DL_FOREACH2 (queue->attached, attach, qnext)
            r->attached++;
        r->waiting = queue_sleepers(&queue->ring.view);
        r->messages = queue_messages(queue);
        r->number = queue->serial;
        r->ring = queue->ring.view.number;
        r->routes_from = queue->routes_from;
        r->routes_to = queue->routes_to;
    }
}

static const char *route_state(const struct route *route)
{
    switch (route->state) {
    case ROUTE_BOUND:
        return backlog_full(&route->backlog) ? "stalled"
               : route->backlog.n > 0        ? "waiting"
                                             : "bound";
    case ROUTE_ABNORMAL:
        return "abnormal";
    default:
        return "ending";
    }
}

static void report_routes(struct server *server, struct rows *rows)
{
    const struct route *route;

    DL_FOREACH (server->router->all, route) {
        if (route->number < rows->progress->session)
            continue;
        rows->progress->session = route->number;
        if (report_rows_slice_over(rows))
            return;
        ADD_ROW(rows, Npud__RouteRow, NPUD__ROUTE_ROW__INIT, r, return );

        r->uid = route->named->name.uid;
        r->source = route->named->name.source;
        r->destination = route->named->name.destination;
        r->pid = route->binder ? route->binder->session->pid : 0;
        r->state = (char *)route_state(route);
        r->backlog = route->backlog.n;
        r->backlog_bytes = route->backlog.kib << 10;
        r->messages = route->messages;
        r->number = route->number;
    }
}

static void report_grant(struct rows *rows, const struct queue *queue, pid_t pid, uint32_t rights,
                         const struct session *session)
{
    static const char *const words[] = {
        "",        "manage",         "dequeue",         "manage dequeue",
        "enqueue", "manage enqueue", "dequeue enqueue", "manage dequeue enqueue",
    };
    ADD_ROW(rows, Npud__GrantRow, NPUD__GRANT_ROW__INIT, r, return );

    r->queue = queue->id;
    r->uid = queue->user->uid;
    r->pid = pid;
    r->rights = (char *)words[rights & QUEUE_RIGHTS];
    r->attached = session != NULL;
    r->session = session ? session->id : 0;
    r->number = queue->serial;
    r->rights_bits = rights;
}

static void report_grants(struct server *server, struct rows *rows)
{
    struct queue_attach *attach;
    struct grant *grant;
    struct queue *queue;

    for (queue = queue_from(server, rows->progress->session); queue; queue = queue->next) {
        rows->progress->session = queue->serial;
        if (report_rows_slice_over(rows))
            return;
        DL_FOREACH2 (queue->attached, attach, qnext)
            report_grant(rows, queue, attach->peer->session->pid, attach->rights,
                         attach->peer->session);
        DL_FOREACH (queue->grants, grant)
            report_grant(rows, queue, grant->pid, grant->rights, NULL);
    }
}

static void report_pool(struct rows *rows, struct pool *pool)
{
    struct pool_census census;
    ADD_ROW(rows, Npud__PoolRow, NPUD__POOL_ROW__INIT, r, return );

    pool_count(pool, &census);
    r->session = pool->session_id;
    r->pid = pool->pid;
    r->uid = pool->user->uid;
    r->state = (char *)(!pool->session ? "orphan" : census.draining ? "draining" : "live");
    r->segments = pool->n_segments;
    r->bytes = census.bytes;
    r->others = census.others;
    r->free = census.slots[MBUF_FREE];
    r->cached = census.slots[MBUF_CACHED];
    r->held = census.slots[MBUF_HELD];
    r->sending = census.slots[MBUF_SENDING];
    r->member = census.slots[MBUF_MEMBER];
    r->shared = census.slots[MBUF_BLOCK];
}

/* Each may have many buffers: the time is up after any of them. */
static void report_pools(struct server *server, struct rows *rows)
{
    struct pool *pool;

    for (pool = pool_from(server, rows->progress->session); pool; pool = pool->next) {
        rows->progress->session = pool->number;
        rows->more = clock_ns() >= rows->until;
        if (rows->more)
            return;
        report_pool(rows, pool);
    }
}

static void report_limits(struct server *server, struct rows *rows)
{
    struct user *user, *tmp;

    HASH_ITER (hh, server->users.by_uid, user, tmp)
        for (int i = 0; i < RESOURCE_COUNT; i++) {
            ADD_ROW(rows, Npud__LimitRow, NPUD__LIMIT_ROW__INIT, r, return );

            r->uid = user->uid;
            r->resource = (char *)resource_names[i];
            r->used = user->used[i];
            r->limit = server->users.limit[i];
        }
}

static void describe_state(const struct waits *waits, const struct blocked *b, char *buf,
                           size_t size)
{
    bool certain = b->deadlock && waits->deadlock[b->deadlock - 1].certain;

    if (b->deadlock == 0)
        snprintf(buf, size, "%s", b->timed ? "waiting (timed)" : "waiting");
    else
        snprintf(buf, size, "%s%sdeadlock %u", b->member ? "" : "behind ",
                 certain ? "" : "suspected ", b->deadlock);
}

static void report_blocked(struct rows *rows, const struct waits *waits, const struct blocked *b)
{
    uint64_t now = clock_ns();
    char text[128];
    ADD_ROW(rows, Npud__WaitRow, NPUD__WAIT_ROW__INIT, r, return );

    r->session = b->session->id;
    r->pid = b->session->pid;
    r->program = b->session->program;
    blocked_name(b, text, sizeof(text));
    r->who = report_rows_copy_text(rows, text);
    blocked_describe(b, text, sizeof(text));
    r->waits_for = report_rows_copy_text(rows, text);
    blocked_describe_blocker(b, text, sizeof(text));
    r->owed_by = report_rows_copy_text(rows, text);
    describe_state(waits, b, text, sizeof(text));
    r->state = report_rows_copy_text(rows, text);
    r->for_ms = now > b->since_ns ? (now - b->since_ns) / NSEC_PER_MSEC : 0;
    r->stream = b->stream;
    r->thread = b->thread;
    r->call = report_rows_copy_text(rows, b->call);
    r->owner_session = b->blocker ? b->blocker->id : 0;
    r->owner_pid = b->blocker ? b->blocker->pid : 0;
    r->owner_stream = b->blocker_stream;
    r->owner_thread = b->blocker_thread;
    r->timed = b->timed;
    r->deadlock = b->deadlock;
}

static void report_deadlock(struct rows *rows, const struct waits *waits, size_t i)
{
    const struct deadlock *d = &waits->deadlock[i];
    char text[8192];
    ADD_ROW(rows, Npud__DeadlockRow, NPUD__DEADLOCK_ROW__INIT, r, return );

    deadlock_describe(d, text, sizeof(text));
    r->deadlock = (uint32_t)i + 1;
    r->certainty = d->certain ? "certain" : "suspected";
    r->processes = d->processes;
    r->members = report_rows_copy_text(rows, text);
}

static bool is_told(const struct rows *rows, const struct blocked *b)
{
    return !rows->own || b->session->uid == rows->uid;
}

/* One that a told wait is in or behind. */
static bool deadlock_is_told(const struct rows *rows, const struct waits *waits, size_t i)
{
    bool told = !rows->own;

    for (size_t k = 0; !told && k < waits->n; k++)
        told = waits->blocked[k].deadlock == i + 1 && is_told(rows, &waits->blocked[k]);
    return told;
}

static void report_waits(struct server *server, struct rows *rows)
{
    struct waits waits;

    if (waits_init(&waits, server) == 0) {
        for (size_t i = 0; i < waits.n; i++)
            if (is_told(rows, &waits.blocked[i]))
                report_blocked(&rows[0], &waits, &waits.blocked[i]);
        for (size_t i = 0; i < waits.n_deadlocks; i++)
            if (deadlock_is_told(rows, &waits, i))
                report_deadlock(&rows[1], &waits, i);
    }
    waits_deinit(&waits);
}

static void report_rule(struct rows *rows, struct inject_rule *rule)
{
    char text[128];
    ADD_ROW(rows, Npud__RuleRow, NPUD__RULE_ROW__INIT, r, return );

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
    r->matched = rule->matched;
    r->hits = rule->hits;
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

static void report_rules(struct server *server, struct rows *rows)
{
    struct inject *in = server->inject;

    pthread_mutex_lock(&in->lock);
    for (uint32_t i = 0; i < in->n; i++)
        report_rule(rows, in->order[i]);
    pthread_mutex_unlock(&in->lock);
}

/* Where a list is in Npud__Report. */
struct list {
    size_t n, list;
};
#define LIST(name)                                                                                 \
    {                                                                                              \
        offsetof(Npud__Report, n_##name), offsetof(Npud__Report, name)                             \
    }
#define TOPIC_LISTS 2

/* What fills the lists of a topic. The name of its first list is its own; few have a second. */
static const struct {
    void (*fill)(struct server *server, struct rows rows[TOPIC_LISTS]);
    struct list lists[TOPIC_LISTS];
} topics[] = {
#define TOPIC(name, NAME) [NPUD__ADMIN_REQUEST__TOPIC__##NAME] = {report_##name, {LIST(name)}}
    TOPIC(status, STATUS),
    TOPIC(devices, DEVICES),
    TOPIC(sessions, SESSIONS),
    TOPIC(streams, STREAMS),
    TOPIC(events, EVENTS),
    TOPIC(memory, MEMORY),
    TOPIC(limits, LIMITS),
    TOPIC(rules, RULES),
    TOPIC(notifies, NOTIFIES),
    TOPIC(queues, QUEUES),
    TOPIC(grants, GRANTS),
    TOPIC(routes, ROUTES),
    TOPIC(pools, POOLS),
    [NPUD__ADMIN_REQUEST__TOPIC__WAITS] = {report_waits, {LIST(waits), LIST(deadlocks)}},
};

bool report_has_topic(unsigned topic)
{
    return topic < sizeof(topics) / sizeof(topics[0]) && topics[topic].fill;
}

static int append(int fd, const uint8_t *data, size_t size)
{
    while (size > 0) {
        ssize_t n = write(fd, data, size);

        if (n < 0 && errno != EINTR)
            return -errno;
        data += n > 0 ? n : 0;
        size -= n > 0 ? (size_t)n : 0;
    }
    return 0;
}

/* Append a Report with these rows: serialised messages in a row are one, with the lists of all. */
static int append_rows(struct admin_report *report, struct rows *rows)
{
    Npud__Report out = NPUD__REPORT__INIT;
    size_t size;
    uint8_t *packed;
    int r = -ENOMEM;

    for (unsigned i = 0; i < TOPIC_LISTS && topics[report->topic].lists[i].list != 0; i++) {
        *(size_t *)((char *)&out + topics[report->topic].lists[i].n) = rows[i].n;
        *(void ***)((char *)&out + topics[report->topic].lists[i].list) = rows[i].row;
    }
    size = npud__report__get_packed_size(&out);
    packed = malloc(size + 1);
    if (packed)
        r = append(report->fd, packed, npud__report__pack(&out, packed));
    free(packed);
    report->size += size;
    return r;
}

static int append_slice(struct server *server, struct admin_report *report,
                        struct rows rows[TOPIC_LISTS])
{
    bool more;
    int r;

    topics[report->topic].fill(server, rows);
    more = rows[0].more;
    r = append_rows(report, rows);
    for (unsigned i = 0; i < TOPIC_LISTS; i++)
        report_rows_deinit(&rows[i]);
    return r < 0 ? r : more;
}

int report_append_slice(struct server *server, struct admin_report *report)
{
    struct rows rows[TOPIC_LISTS] = {{.progress = &report->progress, .until = clock_ns() + SLICE}};

    return append_slice(server, report, rows);
}

int report_open(struct server *server, struct admin_report *report, unsigned topic)
{
    *report = (struct admin_report){
        .topic = topic,
        .fd = memfd_create("npud-report", MFD_CLOEXEC | MFD_ALLOW_SEALING),
        .progress.last = server->last_session,
    };
    return report->fd < 0 ? -errno : 0;
}

/* Without pages nothing can be mapped. */
int report_seal(const struct admin_report *report)
{
    if (report->size == 0 && ftruncate(report->fd, 1) < 0)
        return -errno;
    return fcntl(report->fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0 ? -errno
                                                                                         : 0;
}

int report_own_waits(struct server *server, struct admin_report *report, uid_t uid)
{
    struct rows rows[TOPIC_LISTS] = {{.progress = &report->progress, .own = true, .uid = uid}};
    int r = report_open(server, report, NPUD__ADMIN_REQUEST__TOPIC__WAITS);

    if (r == 0)
        r = append_slice(server, report, rows);
    return r < 0 ? r : report_seal(report);
}
