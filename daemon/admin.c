#include "daemon/admin.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utlist.h>

#include "acl/acl_base.h"
#include "daemon/closer.h"
#include "daemon/engine.h"
#include "daemon/event.h"
#include "daemon/inject.h"
#include "daemon/log.h"
#include "daemon/memory.h"
#include "daemon/notify.h"
#include "daemon/server.h"
#include "daemon/session.h"
#include "daemon/stream.h"
#include "daemon/waits.h"
#include "proto/clock.h"
#include "proto/npud.pb-c.h"
#include "proto/packet.h"

#define SLICE      (500 * NSEC_PER_USEC) /* of making a report, before clients have their turn */
#define SLICE_ROWS 16                    /* between two looks at the clock */

/*
 * How far a report is that is made in slices. Objects come and go between them: so it is numbers that say where to go on, and sessions that came
 * after the question are left out.
 */
struct progress {
    uint64_t last;    /* newest session to report */
    uint64_t session; /* the next object is of this one, or of a later one ... */
    unsigned table;   /* ... in this table, if a report is of more than one kind of objects ... */
    uint32_t slot;    /* ... from this slot on */
};

/* A connected npuctl. While its report is made, no further request of it is read. */
struct admin {
    struct server *server;
    int socket;
    struct event *on_socket;
    struct event *on_slice;
    uint64_t request; /* the report that is being made: its request, ... */
    unsigned topic;
    int report; /* ... its memfd; -1: none, ... */
    uint64_t size;
    uint64_t rule; /* that the request being answered has set */
    struct progress progress;
    struct admin *prev, *next; /* server->admin_list */
};

/*
 * Rows of one slice of a report. Everything is allocated from one list of blocks and freed at once, so filling
 * code reads like assignments. Out of memory: the row is left out.
 */
struct rows {
    struct progress *progress;
    uint64_t until; /* when this slice is over */
    bool more;      /* it ended before the report was complete */
    void **row;
    size_t n;
    size_t size;
    struct block {
        struct block *next;
    } * blocks;
};

static void *take(struct rows *rows, size_t size)
{
    struct block *b = calloc(1, sizeof(*b) + size);

    if (!b)
        return NULL;
    b->next = rows->blocks;
    rows->blocks = b;
    return b + 1;
}

static void *add_row(struct rows *rows, size_t size)
{
    void *row = take(rows, size);

    if (!row)
        return NULL;
    if (rows->n == rows->size) {
        size_t bigger = rows->size ? 2 * rows->size : 64;
        void **p = reallocarray(rows->row, bigger, sizeof(*p));

        if (!p)
            return NULL;
        rows->row = p;
        rows->size = bigger;
    }
    return rows->row[rows->n++] = row;
}

/* A row of the protobuf type, initialised; leaves the function or loop with `otherwise` when memory
 * is out. */
#define ADD_ROW(rows, type, init, var, otherwise)                                                  \
    type *var = add_row(rows, sizeof(type));                                                       \
    if (!var)                                                                                      \
        otherwise;                                                                                 \
    *var = (type)init

static char *copy_text(struct rows *rows, const char *text)
{
    char *p = take(rows, strlen(text) + 1);

    return p ? strcpy(p, text) : (char *)"";
}

static void rows_deinit(struct rows *rows)
{
    struct block *b, *next;

    for (b = rows->blocks; b; b = next) {
        next = b->next;
        free(b);
    }
    free(rows->row);
}

static struct session *session_from(struct server *server, uint64_t id)
{
    struct session *s = server->sessions;

    while (s && s->id < id)
        s = s->next;
    return s;
}

static bool slice_over(struct rows *rows)
{
    if (rows->n % SLICE_ROWS == SLICE_ROWS - 1 && clock_ns() >= rows->until)
        rows->more = true;
    return rows->more;
}

/*
 * The next object to report of *sessionp, or of a session after it, in tables[]: offsets in struct session. Begin with *sessionp NULL. NULL when there
 * is none, and when the slice is over.
 */
static void *next_object(struct server *server, struct rows *rows, const size_t *tables,
                         unsigned n_tables, struct session **sessionp)
{
    struct progress *p = rows->progress;
    struct session *s = *sessionp ? *sessionp : session_from(server, p->session);
    void *object;

    if (slice_over(rows))
        return NULL;
    for (; s && s->id <= p->last; s = s->next) {
        if (s->id != p->session)
            *p = (struct progress){.last = p->last, .session = s->id};
        for (; p->table < n_tables; p->table++, p->slot = 0) {
            object = slots_next((struct slots *)((char *)s + tables[p->table]), &p->slot);
            if (!object)
                continue;
            *sessionp = s;
            return object;
        }
    }
    return NULL;
}

static uint64_t seconds_since(uint64_t ns)
{
    return (clock_ns() - ns) / NSEC_PER_SEC;
}

/* --- reports --- */

/* Since Linux 6.2 the size of the directory is their number; before, it is 0, and all names have to be read. */
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

static void report_status(struct server *server, struct rows *rows)
{
    struct session *session;
    ADD_ROW(rows, Npud__StatusRow, NPUD__STATUS_ROW__INIT, r, return );

    r->version = (char *)NPUD_VERSION;
    r->pid = getpid();
    r->backend = (char *)server->devices.backend->name;
    r->uptime_s = seconds_since(server->since_ns);
    r->devices = server->devices.n;
    r->sessions = server->n_sessions;
    r->sessions_total = server->last_session;
    r->lingering_events = server->ipc.lingering;
    r->fds = count_fds();
    DL_FOREACH (server->sessions, session) {
        r->streams += session->streams.live;
        r->events += session->events.live + session->ipc.live;
        r->notifies += session->notifies.live;
        r->memory_bytes += session->memory;
    }
}

static void report_devices(struct server *server, struct rows *rows)
{
    for (uint32_t i = 0; i < server->devices.n; i++) {
        struct device *d = &server->devices.device[i];
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

    for (session = session_from(server, p->session); session && session->id <= p->last;
         session = session->next) {
        p->session = session->id;
        if (slice_over(rows))
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
    if (s->run == RUN_PARKED && inject_holder(&s->session->server->inject, s->waiting_on))
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
    r->waits_for = copy_text(rows, waits);
}

static void report_streams(struct server *server, struct rows *rows)
{
    static const size_t tables[] = {offsetof(struct session, streams)};
    struct session *session = NULL;
    struct stream *s;

    while ((s = next_object(server, rows, tables, 1, &session)))
        report_stream(rows, s);
}

static void report_ipc_event(struct rows *rows, struct ipc_event *ev, struct session *session)
{
    static const char *const states[] = {"none", "pending", "done", "failed"};
    uint64_t latest = atomic_load(&ev->page->latest);
    enum ipc_state state = ipc_state_of(ev->page, ipc_latest_number(latest));
    ADD_ROW(rows, Npud__EventRow, NPUD__EVENT_ROW__INIT, r, return );

    r->session = session ? session->id : 0;
    r->pid = session ? session->pid : 0;
    r->kind = session ? "ipc" : "ipc (lingering)";
    r->device = ev->device;
    r->event = ev->id;
    r->records = ipc_latest_number(latest);
    r->status = (char *)states[state];
    r->openers = ev->openers.live;
}

static void report_event(struct rows *rows, struct event_obj *event, struct session *session)
{
    ADD_ROW(rows, Npud__EventRow, NPUD__EVENT_ROW__INIT, r, return );

    r->session = session->id;
    r->pid = session->pid;
    r->kind = (char *)"plain";
    r->device = event->device;
    r->event = event->slot.number;
    r->records = event->time_number;
    r->openers = 1;
}

static void report_events(struct server *server, struct rows *rows)
{
    static const size_t tables[] = {offsetof(struct session, ipc),
                                    offsetof(struct session, events)};
    struct session *session = NULL;
    struct ipc_event *ev, *tmp;
    void *object;

    while ((object = next_object(server, rows, tables, 2, &session))) {
        if (rows->progress->table == 0)
            report_ipc_event(rows, ((struct ipc_open *)object)->event, session);
        else
            report_event(rows, object, session);
    }
    if (rows->more)
        return;
    HASH_ITER (hh, server->ipc.by_id, ev, tmp)
        if (ev->lingers)
            report_ipc_event(rows, ev, NULL);
}

static void report_memory(struct server *server, struct rows *rows)
{
    static const size_t tables[] = {offsetof(struct session, mems)};
    struct session *session = NULL;
    struct mem *mem;

    while ((mem = next_object(server, rows, tables, 1, &session))) {
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

    while ((open = next_object(server, rows, tables, 1, &session))) {
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
    r->who = copy_text(rows, text);
    blocked_describe(b, text, sizeof(text));
    r->waits_for = copy_text(rows, text);
    blocked_describe_owner(b, text, sizeof(text));
    r->owed_by = copy_text(rows, text);
    describe_state(waits, b, text, sizeof(text));
    r->state = copy_text(rows, text);
    r->for_ms = now > b->since_ns ? (now - b->since_ns) / NSEC_PER_MSEC : 0;
    r->stream = b->stream;
    r->thread = b->thread;
    r->call = copy_text(rows, b->call);
    r->owner_session = b->owner ? b->owner->id : 0;
    r->owner_pid = b->owner ? b->owner->pid : 0;
    r->owner_stream = b->owner_stream;
    r->owner_thread = b->owner_thread;
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
    r->members = copy_text(rows, text);
}

static void report_waits(struct server *server, struct rows *rows)
{
    struct waits waits;

    if (waits_init(&waits, server) == 0) {
        for (size_t i = 0; i < waits.n; i++)
            report_blocked(&rows[0], &waits, &waits.blocked[i]);
        for (size_t i = 0; i < waits.n_deadlocks; i++)
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
    r->tasks = copy_text(rows, text);
    inject_describe_which(rule, text, sizeof(text));
    r->which = copy_text(rows, text);
    inject_describe_effect(rule, text, sizeof(text));
    r->effect = copy_text(rows, text);
    inject_describe_state(rule, text, sizeof(text));
    r->state = copy_text(rows, text);
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
    struct inject *in = &server->inject;

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
    [NPUD__ADMIN_REQUEST__TOPIC__WAITS] = {report_waits, {LIST(waits), LIST(deadlocks)}},
};

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
static int append_rows(struct admin *admin, struct rows *rows)
{
    Npud__Report report = NPUD__REPORT__INIT;
    size_t size;
    uint8_t *packed;
    int r = -ENOMEM;

    for (unsigned i = 0; i < TOPIC_LISTS && topics[admin->topic].lists[i].list != 0; i++) {
        *(size_t *)((char *)&report + topics[admin->topic].lists[i].n) = rows[i].n;
        *(void ***)((char *)&report + topics[admin->topic].lists[i].list) = rows[i].row;
    }
    size = npud__report__get_packed_size(&report);
    packed = malloc(size + 1);
    if (packed)
        r = append(admin->report, packed, npud__report__pack(&report, packed));
    free(packed);
    admin->size += size;
    return r;
}

/* 1 when there is more to come, 0 when the report is complete, or -errno. */
static int make_slice(struct admin *admin)
{
    struct rows rows[TOPIC_LISTS] = {{.progress = &admin->progress, .until = clock_ns() + SLICE}};
    bool more;
    int r;

    topics[admin->topic].fill(admin->server, rows);
    more = rows[0].more;
    r = append_rows(admin, rows);
    for (unsigned i = 0; i < TOPIC_LISTS; i++)
        rows_deinit(&rows[i]);
    return r < 0 ? r : more;
}

/* --- connection --- */

static void report_close(struct admin *admin)
{
    if (admin->report >= 0)
        close(admin->report);
    admin->report = -1;
}

static void admin_free(struct admin *admin)
{
    DL_DELETE(admin->server->admin_list, admin);
    if (admin->on_socket)
        event_free(admin->on_socket);
    if (admin->on_slice)
        event_free(admin->on_slice);
    report_close(admin);
    closer_close(admin->socket);
    free(admin);
}

static struct session *session_numbered(struct server *server, uint64_t id)
{
    struct session *session;

    DL_FOREACH (server->sessions, session)
        if (session->id == id)
            return session;
    return NULL;
}

static int32_t end_session(struct server *server, uint64_t id, char *message, size_t size)
{
    struct session *session = session_numbered(server, id);

    if (!session) {
        snprintf(message, size, "there is no session %llu", (unsigned long long)id);
        return ACL_ERROR_RT_PARAM_INVALID;
    }
    log_line(LOG_NOTICE, session, "ended on an administrator's request");
    session_end(session);
    return 0;
}

static int reply(struct admin *admin, uint64_t id, int32_t error, const char *message)
{
    Npud__AdminReply out = NPUD__ADMIN_REPLY__INIT;

    out.id = id;
    out.error = error;
    out.message = (char *)message;
    out.size = admin->size;
    out.rule = admin->rule;
    return packet_send_message(admin->socket, &out.base, &admin->report, admin->report >= 0,
                               MSG_DONTWAIT);
}

/* Without pages nothing can be mapped; and nobody maps what can still shrink. */
static int report_seal(struct admin *admin)
{
    if (admin->size == 0 && ftruncate(admin->report, 1) < 0)
        return -errno;
    return fcntl(admin->report, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0 ? -errno
                                                                                            : 0;
}

/* A timer of zero: after this slice the loop looks at all descriptors, then comes the next. */
static void on_slice(evutil_socket_t fd, short what, void *arg)
{
    struct admin *admin = arg;
    struct timeval now = {0};
    int r = make_slice(admin);

    (void)fd;
    (void)what;
    if (r > 0) {
        event_add(admin->on_slice, &now);
        return;
    }
    if (r == 0)
        r = report_seal(admin);
    if (r < 0) {
        report_close(admin);
        admin->size = 0;
    }
    r = reply(admin, admin->request, r < 0 ? ACL_ERROR_RT_MEMORY_ALLOCATION : 0, "");
    report_close(admin);
    if (r < 0 || event_add(admin->on_socket, NULL) < 0)
        admin_free(admin);
}

static int report_begin(struct admin *admin, uint64_t request, unsigned topic)
{
    admin->request = request;
    admin->topic = topic;
    admin->size = 0;
    admin->progress = (struct progress){.last = admin->server->last_session};
    admin->report = memfd_create("npud-report", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (admin->report < 0)
        return reply(admin, request, ACL_ERROR_RT_MEMORY_ALLOCATION, "");
    event_del(admin->on_socket);
    on_slice(-1, 0, admin);
    return 0;
}

static int answer(struct admin *admin, const Npud__AdminRequest *request)
{
    char message[256] = "";
    int32_t error;

    admin->size = admin->rule = 0;
    if (request->protocol != PROTOCOL) {
        snprintf(message, sizeof(message), "this npud speaks protocol %u, npuctl speaks %u",
                 PROTOCOL, request->protocol);
        return reply(admin, request->id, ACL_ERROR_API_NOT_SUPPORT, message);
    }
    if ((unsigned)request->topic >= sizeof(topics) / sizeof(topics[0]) ||
        !topics[request->topic].fill)
        return reply(admin, request->id, ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
                     "this npud has no such report");
    if (request->end_session != 0) {
        error = end_session(admin->server, request->end_session, message, sizeof(message));
        return reply(admin, request->id, error, message);
    }
    if (request->inject) {
        error = inject_set(admin->server, request->inject, &admin->rule, message, sizeof(message));
        return reply(admin, request->id, error, message);
    }
    if (request->clear_rule != 0 || request->clear_rules) {
        error = inject_clear(admin->server, request->clear_rules ? 0 : request->clear_rule, message,
                             sizeof(message));
        return reply(admin, request->id, error, message);
    }
    return report_begin(admin, request->id, (unsigned)request->topic);
}

static void on_socket(evutil_socket_t fd, short what, void *arg)
{
    static struct packet packet;
    struct admin *admin = arg;
    Npud__AdminRequest *request = NULL;
    int r = packet_recv(fd, &packet, MSG_DONTWAIT);

    (void)what;
    if (r == -EAGAIN)
        return;
    if (r > 0) {
        request = npud__admin_request__unpack(NULL, packet.size, packet.data);
        packet_deinit(&packet);
    }
    r = request ? answer(admin, request) : -EBADMSG;
    if (request)
        npud__admin_request__free_unpacked(request, NULL);
    if (r < 0)
        admin_free(admin);
}

static bool in_group(int socket, gid_t gid)
{
    gid_t *groups = NULL;
    socklen_t size = 0;
    bool found = false;

    /* The first call fails and tells how much room the groups need. */
    getsockopt(socket, SOL_SOCKET, SO_PEERGROUPS, NULL, &size);
    if (size > 0)
        groups = malloc(size);
    if (groups && getsockopt(socket, SOL_SOCKET, SO_PEERGROUPS, groups, &size) == 0)
        for (size_t n = size / sizeof(gid_t); n > 0 && !found; n--)
            found = groups[n - 1] == gid;
    free(groups);
    return found;
}

/* The socket's mode decides who can connect; this decides it for sockets that were passed to us,
 * too. */
static bool allowed(struct server *server, int socket)
{
    struct ucred cred;
    socklen_t len = sizeof(cred);
    struct group *g = NULL;

    if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &cred, &len) < 0)
        return false;
    if (cred.uid == 0 || cred.uid == geteuid())
        return true;
    if (server->config->admin_group[0])
        g = getgrnam(server->config->admin_group);
    return g && (cred.gid == g->gr_gid || in_group(socket, g->gr_gid));
}

void admin_accept(struct server *server, int socket)
{
    Npud__AdminReply reply = NPUD__ADMIN_REPLY__INIT;
    struct admin *admin;

    if (!allowed(server, socket)) {
        reply.id = 1;
        reply.error = ACL_ERROR_RT_NO_PERMISSION;
        reply.message = (char *)"only root and the admin group of npud may ask";
        packet_send_message(socket, &reply.base, NULL, 0, MSG_DONTWAIT);
        close(socket);
        return;
    }
    admin = calloc(1, sizeof(*admin));
    if (!admin) {
        close(socket);
        return;
    }
    admin->server = server;
    admin->socket = socket;
    admin->report = -1;
    DL_APPEND(server->admin_list, admin);
    admin->on_socket = event_new(server->base, socket, EV_READ | EV_PERSIST, on_socket, admin);
    admin->on_slice = event_new(server->base, -1, 0, on_slice, admin);
    if (!admin->on_socket || !admin->on_slice || event_add(admin->on_socket, NULL) < 0)
        admin_free(admin);
}

void admin_end_all(struct server *server)
{
    struct admin *admin, *tmp;

    DL_FOREACH_SAFE (server->admin_list, admin, tmp) {
        admin_free(admin);
    }
}
