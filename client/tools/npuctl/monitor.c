#include "client/tools/npuctl/monitor.h"

#include <errno.h>
#include <inttypes.h>
#include <locale.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "client/tools/npuctl/ask.h"
#include "client/tools/npuctl/print.h"
#include "client/tools/npuctl/socket.h"
#include "client/tools/npuctl/text.h"
#include "proto/util/clock.h"

#define LOOK_S 5 /* from one look for deadlocks to the next: npud finds them only if it is asked */

struct listening {
    const struct task *task;
    struct connection npud;
    uint64_t next_look;  /* CLOCK_MONOTONIC */
    Npud__Report *waits; /* of the last look; NULL: none so far */
    bool failed;         /* the output cannot be written */
};

/* --- printing --- */

static bool print_text(const Npud__Happening *h)
{
    time_t seconds = (time_t)(h->at_ns / NSEC_PER_SEC);
    char when[32] = "", *text, *kind;
    struct tm local;
    int width;

    if (localtime_r(&seconds, &local))
        strftime(when, sizeof(when), "%F %T", &local);
    text = text_escape(h->text, false, &width);
    kind = text_escape(h->kind, true, &width);
    if (text && kind) {
        printf("%s.%03u  %-14s  ", when, (unsigned)(h->at_ns / NSEC_PER_MSEC % 1000), kind);
        if (h->session != 0)
            printf("session %" PRIu64 " (pid %" PRId32 ", uid %" PRIu32 "): ", h->session, h->pid,
                   h->uid);
        if (h->lost > 0)
            printf("%" PRIu64 " events lost: ", h->lost);
        puts(text);
    }
    free(kind);
    free(text);
    return text && kind;
}

/* At once: a reader at the other end of a pipe waits for it. */
static void print_happening(struct listening *l, const Npud__Happening *h)
{
    cJSON *row = l->task->json ? print_make_row(&h->base) : NULL;
    bool ok = l->task->json ? row && print_document(row) : print_text(h);

    l->failed = print_end(ok) != STATUS_OK;
}

/* What npuctl sees itself. */
static void print_own(struct listening *l, const char *kind, const char *text)
{
    Npud__Happening h = NPUD__HAPPENING__INIT;
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    h.at_ns = (uint64_t)now.tv_sec * NSEC_PER_SEC + (uint64_t)now.tv_nsec;
    h.kind = (char *)kind;
    h.text = (char *)text;
    print_happening(l, &h);
}

/* --- deadlocks --- */

static bool has_deadlock(const Npud__Report *report, const char *members)
{
    for (size_t i = 0; report && i < report->n_deadlocks; i++)
        if (strcmp(report->deadlocks[i]->members, members) == 0)
            return true;
    return false;
}

/* Those of `of` that `other` has not. */
static void print_deadlocks(struct listening *l, const Npud__Report *of, const Npud__Report *other,
                            const char *kind)
{
    for (size_t i = 0; of && !l->failed && i < of->n_deadlocks; i++) {
        const Npud__DeadlockRow *row = of->deadlocks[i];
        char *text;

        if (has_deadlock(other, row->members))
            continue;
        l->failed = asprintf(&text, "%s, of %u processes: %s", row->certainty, row->processes,
                             row->members) < 0;
        if (l->failed)
            return;
        print_own(l, kind, text);
        free(text);
    }
}

static void look_for_deadlocks(struct listening *l)
{
    Npud__Report *now = NULL;
    const struct question question = {NPUD__ADMIN_REQUEST__TOPIC__WAITS, &now};

    if (ask_reports_at(l->task->path, &question, 1) == STATUS_OK) {
        print_deadlocks(l, l->waits, now, "deadlock-end");
        print_deadlocks(l, now, l->waits, "deadlock");
        npud__report__free_unpacked(l->waits, NULL);
        l->waits = now;
    }
    l->next_look = clock_ns() + task_interval_ns(l->task, LOOK_S);
}

/* --- npud --- */

static enum status judge_reply(const Npud__AdminReply *reply)
{
    if (reply->error != 0)
        return socket_explain_refusal(reply->message, reply->error);
    if (reply->size == 0)
        return STATUS_OK;
    fputs("npuctl: this npud is older than npuctl and tells no monitor: systemctl restart npud\n",
          stderr);
    return STATUS_ERROR;
}

/* Connects to the npud that listens, or will listen, at the socket. */
static enum status begin(struct listening *l)
{
    static struct packet packet;
    Npud__AdminRequest request = NPUD__ADMIN_REQUEST__INIT;
    enum status status = STATUS_UNREACHABLE;
    Npud__AdminReply *reply;
    int r;

    l->npud = (struct connection){.path = l->task->path, .limit = ANSWER_LIMIT_S};
    r = connection_open(&l->npud);
    if (r < 0)
        return socket_explain_unreachable(l->task->path, -r);
    request.id = 1;
    request.protocol = PROTOCOL_ADMIN;
    request.monitor = true;
    reply = connection_ask(&l->npud, &request.base, &npud__admin_reply__descriptor, &packet);
    if (reply) {
        status = judge_reply(reply);
        npud__admin_reply__free_unpacked(reply, NULL);
    }
    packet_deinit(&packet);
    return status;
}

/* The next one is connected to, which may take as long as it takes to start it. */
static enum status begin_again(struct listening *l)
{
    enum status status;

    connection_close(&l->npud);
    print_own(l, "restart", "npud has ended: connecting anew");
    if (l->failed)
        return STATUS_ERROR;
    status = begin(l);
    if (status == STATUS_OK)
        print_own(l, "connected", "npud serves again: what happened meanwhile is not told");
    return l->failed ? STATUS_ERROR : status;
}

/* What there is to read. */
static enum status read_happening(struct listening *l)
{
    static struct packet packet;
    Npud__Happening *h = NULL;
    int r = packet_recv(l->npud.fd, &packet, 0);

    if (r == 0 || r == -ECONNRESET || r == -EPIPE)
        return begin_again(l);
    if (r > 0)
        h = npud__happening__unpack(NULL, packet.size, packet.data);
    packet_deinit(&packet);
    if (!h) {
        fprintf(stderr, "npuctl: npud at %s sends what is no event: %s\n", l->task->path,
                strerror(r < 0 ? -r : EPROTO));
        return STATUS_ERROR;
    }
    print_happening(l, h);
    npud__happening__free_unpacked(h, NULL);
    return l->failed ? STATUS_ERROR : STATUS_OK;
}

/* Sleeps until something is to be read, or until the next look. */
static enum status listen_once(struct listening *l)
{
    struct pollfd p = {.fd = l->npud.fd, .events = POLLIN};
    uint64_t now = clock_ns();
    uint64_t ms = l->next_look > now ? (l->next_look - now) / NSEC_PER_MSEC + 1 : 0;

    if (poll(&p, 1, (int)ms) > 0)
        return read_happening(l);
    if (clock_ns() >= l->next_look)
        look_for_deadlocks(l);
    return l->failed ? STATUS_ERROR : STATUS_OK;
}

enum status monitor_run(const struct task *task)
{
    struct listening l = {.task = task, .next_look = clock_ns()};
    enum status status;

    setlocale(LC_CTYPE, task->json ? "C.UTF-8" : "");
    status = begin(&l);
    if (status == STATUS_OK)
        print_own(&l, "connected", "npud tells what happens from now on");
    while (status == STATUS_OK)
        status = l.failed ? STATUS_ERROR : listen_once(&l);
    connection_close(&l.npud);
    npud__report__free_unpacked(l.waits, NULL);
    return status;
}
