#include "daemon/admin/monitor.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <utlist.h>

#include "daemon/base/log.h"
#include "daemon/base/message_id.h"
#include "daemon/core/server.h"
#include "proto/util/clock.h"
#include "proto/wire/npud.pb-c.h"
#include "proto/wire/packet.h"

#define HAPPENINGS_MAX 256 /* that wait for the control thread */
#define MONITORS_MAX   64  /* each happening is told to all in one step */

/* The word for each event of the log: npuctl(1) has them, and programs rely on them. */
static const struct {
    const char *message_id, *kind;
} kinds[] = {
    {MESSAGE_SESSION_BEGAN, "session-begin"},
    {MESSAGE_SESSION_GONE, "session-end"},
    {MESSAGE_SESSION_DIED, "death"},
    {MESSAGE_SESSION_ENDED, "kill"},
    {MESSAGE_SESSION_GIVEN_UP, "kill"},
    {MESSAGE_SESSIONS_LOST, "kill"},
    {MESSAGE_CLIENT_FAULT, "fault"},
    {MESSAGE_CLIENT_LIMIT, "refusal"},
    {MESSAGE_PROTOCOL, "refusal"},
    {MESSAGE_FDS_EXHAUSTED, "refusal"},
    {MESSAGE_UPGRADE_REFUSED, "refusal"},
    {MESSAGE_DEVICE_LOST, "device-lost"},
    {MESSAGE_DEVICE_BACK, "device-back"},
    {MESSAGE_INJECTION, "rule"},
    {MESSAGE_EXECUTOR_STARTED, "executor-start"},
    {MESSAGE_EXECUTOR_ENDED, "executor-end"},
    {MESSAGE_CONFIG_READ, "configuration"},
    {MESSAGE_CONFIG_WRONG, "configuration"},
    {MESSAGE_ENDING, "ending"},
};

struct happening {
    uint64_t at_ns; /* CLOCK_REALTIME */
    const char *kind;
    struct log_client client; /* all zero: none */
    char text[320];           /* a refusal's sentence has at most 255 */
};

static struct {
    pthread_mutex_t lock; /* of what follows, up to the job */
    struct happening queue[HAPPENINGS_MAX];
    unsigned first, n;
    uint64_t lost; /* for which the queue had no place, since the last one that it had one for */
    bool sent;     /* the job: it is sent, listed or running */
    struct job deliver;
    struct monitor *monitors; /* the rest is the control thread's */
    unsigned n_monitors;
} all = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* --- in the thread that says it --- */

static const char *kind_of(const struct log_told *told)
{
    for (size_t i = 0; told->message_id && i < sizeof(kinds) / sizeof(kinds[0]); i++)
        if (strcmp(kinds[i].message_id, told->message_id) == 0)
            return kinds[i].kind;
    return told->priority <= LOG_ERR ? "error" : told->priority == LOG_WARNING ? "warning" : "news";
}

static void note(struct happening *h, const struct log_told *told)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    *h = (struct happening){.at_ns = (uint64_t)now.tv_sec * NSEC_PER_SEC + (uint64_t)now.tv_nsec,
                            .kind = kind_of(told)};
    if (told->client) {
        h->client.session = told->client->session;
        h->client.pid = told->client->pid;
        h->client.uid = told->client->uid;
    }
    snprintf(h->text, sizeof(h->text), "%s", told->text);
}

static void hear(const struct log_told *told)
{
    pthread_mutex_lock(&all.lock);
    if (all.n < HAPPENINGS_MAX)
        note(&all.queue[(all.first + all.n++) % HAPPENINGS_MAX], told);
    else
        all.lost++;
    if (!all.sent) {
        all.sent = true;
        job_send(&all.deliver);
    }
    pthread_mutex_unlock(&all.lock);
}

/* --- control thread --- */

/* False: there is no room for it. A socket that fails otherwise is heard of by its owner. */
static bool send_happening(struct monitor *m, const struct happening *h, uint64_t lost)
{
    Npud__Happening out = NPUD__HAPPENING__INIT;

    out.at_ns = h->at_ns;
    out.kind = (char *)h->kind;
    out.session = h->client.session;
    out.pid = h->client.pid;
    out.uid = h->client.uid;
    out.text = (char *)h->text;
    out.lost = lost;
    if (packet_send_message(m->socket, &out.base, NULL, 0, MSG_DONTWAIT) != -EAGAIN)
        return true;
    event_add(m->on_room, NULL);
    return false;
}

/* What is missing before what comes next. */
static bool tell_lost(struct monitor *m)
{
    struct happening h;

    if (m->unsaid == 0)
        return true;
    note(&h, &(struct log_told){.text = "the monitor did not keep up"});
    h.kind = "lost";
    if (!send_happening(m, &h, m->unsaid))
        return false;
    m->unsaid = 0;
    return true;
}

static void on_room(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    tell_lost(arg);
}

/* The next one. False: there is none, and the job is to be sent again. */
static bool take(struct happening *h, uint64_t *lost)
{
    bool found;

    pthread_mutex_lock(&all.lock);
    found = all.n > 0;
    *lost = all.lost;
    all.lost = 0;
    if (found) {
        *h = all.queue[all.first];
        all.first = (all.first + 1) % HAPPENINGS_MAX;
        all.n--;
    }
    all.sent = found;
    pthread_mutex_unlock(&all.lock);
    return found;
}

static bool run_deliver(struct job *job)
{
    struct monitor *m;
    struct happening h;
    uint64_t lost;

    (void)job;
    if (!take(&h, &lost))
        return false;
    DL_FOREACH (all.monitors, m) {
        m->unsaid += lost;
        if (!tell_lost(m) || !send_happening(m, &h, 0))
            m->unsaid++;
    }
    return true;
}

int monitor_begin(struct monitor *monitor, struct server *server, int socket)
{
    if (all.n_monitors == MONITORS_MAX)
        return -EUSERS;
    *monitor = (struct monitor){.socket = socket};
    monitor->on_room = event_new(server->base, socket, EV_WRITE, on_room, monitor);
    if (!monitor->on_room)
        return -ENOMEM;
    DL_APPEND(all.monitors, monitor);
    if (all.n_monitors++ > 0)
        return 0;
    pthread_mutex_lock(&all.lock);
    if (!all.sent) { /* else the last monitor has left it under way */
        all.deliver = (struct job){run_deliver, "monitor", &server->schedule.own};
        all.first = all.n = 0;
        all.lost = 0;
    }
    pthread_mutex_unlock(&all.lock);
    log_listen(hear);
    return 0;
}

void monitor_end(struct monitor *monitor)
{
    if (!monitor->on_room)
        return;
    event_free(monitor->on_room);
    monitor->on_room = NULL;
    DL_DELETE(all.monitors, monitor);
    if (--all.n_monitors == 0)
        log_listen(NULL);
}
