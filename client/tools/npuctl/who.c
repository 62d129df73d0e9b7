#include "client/tools/npuctl/who.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/tools/npuctl/ask.h"
#include "client/tools/npuctl/print.h"

/* What was asked, and what it becomes. */
struct asked {
    struct who who;
    Npud__Report *sessions, *devices, *events, *streams, *memory, *grants, *queues, *waits;
    Npud__Report *out;
    bool found;  /* such an object is there, used or not */
    bool failed; /* no memory */
};

/* --- rows --- */

/* The row of the session for this object; it is made with the first use. NULL: no memory. */
static Npud__UserRow *user_row(struct asked *a, uint64_t session, int32_t pid, const char *object)
{
    Npud__UserRow *row, **all;

    for (size_t i = 0; i < a->out->n_who; i++) {
        row = a->out->who[i];
        if (row->session == session && row->pid == pid && strcmp(row->object, object) == 0)
            return row;
    }
    all = realloc(a->out->who, (a->out->n_who + 1) * sizeof(Npud__UserRow *));
    if (!all)
        return NULL;
    a->out->who = all;
    row = malloc(sizeof(*row));
    if (!row)
        return NULL;
    npud__user_row__init(row);
    row->session = session;
    row->pid = pid;
    row->object = strdup(object);
    row->program = strdup("");
    row->uses = strdup("");
    row->job = strdup("");
    a->out->who[a->out->n_who++] = row;
    return row;
}

/* One more use, behind those that are there. */
__attribute__((format(printf, 3, 4))) static void add_use(struct asked *a, Npud__UserRow *row,
                                                          const char *format, ...)
{
    char text[256], *uses;
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    if (!row || asprintf(&uses, "%s%s%s", row->uses, row->uses[0] ? ", " : "", text) < 0) {
        a->failed = true;
        return;
    }
    free(row->uses);
    row->uses = uses;
}

static void name_users(struct asked *a)
{
    for (size_t i = 0; i < a->out->n_who; i++) {
        Npud__UserRow *row = a->out->who[i];

        for (size_t k = 0; k < a->sessions->n_sessions; k++) {
            const Npud__SessionRow *session = a->sessions->sessions[k];

            if (session->session != row->session)
                continue;
            row->uid = session->uid;
            free(row->program);
            row->program = strdup(session->program);
            free(row->job);
            row->job = strdup(session->job);
        }
    }
}

/* --- a device --- */

/* What of a device one session has. */
struct share {
    uint64_t session;
    int32_t pid;
    uint64_t streams, allocations, bytes;
};

static int compare_share(const void *pa, const void *pb)
{
    const struct share *a = pa, *b = pb;

    return a->session != b->session ? (a->session > b->session) - (a->session < b->session) : 0;
}

static void tell_share(struct asked *a, const struct share *share)
{
    char object[32];
    Npud__UserRow *row;

    snprintf(object, sizeof(object), "device %" PRIu64, a->who.number);
    row = user_row(a, share->session, share->pid, object);
    if (share->streams > 0)
        add_use(a, row, "%" PRIu64 " stream%s", share->streams, share->streams == 1 ? "" : "s");
    if (share->allocations > 0)
        add_use(a, row, "%" PRIu64 " bytes in %" PRIu64 " allocation%s", share->bytes,
                share->allocations, share->allocations == 1 ? "" : "s");
}

static void tell_device(struct asked *a)
{
    size_t max = a->streams->n_streams + a->memory->n_memory, n = 0, k;
    struct share *share = calloc(max + 1, sizeof(*share));

    a->failed = !share;
    for (size_t i = 0; i < a->devices->n_devices; i++)
        a->found |= a->devices->devices[i]->device == a->who.number;
    for (size_t i = 0; share && i < a->streams->n_streams; i++) {
        const Npud__StreamRow *row = a->streams->streams[i];

        if (row->device == a->who.number)
            share[n++] = (struct share){row->session, row->pid, .streams = 1};
    }
    for (size_t i = 0; share && i < a->memory->n_memory; i++) {
        const Npud__MemoryRow *row = a->memory->memory[i];

        if (row->device == a->who.number && strcmp(row->kind, "device") == 0)
            share[n++] = (struct share){row->session, row->pid, 0, 1, row->size};
    }
    if (share)
        qsort(share, n, sizeof(*share), compare_share);
    for (size_t i = 0; i < n; i = k) {
        for (k = i + 1; k < n && share[k].session == share[i].session; k++) {
            share[i].streams += share[k].streams;
            share[i].allocations += share[k].allocations;
            share[i].bytes += share[k].bytes;
        }
        tell_share(a, &share[i]);
    }
    free(share);
}

/* --- a queue, an IPC event --- */

/* Streams and threads that wait for the object, under the name that it has in the report. */
static void tell_waiting(struct asked *a, uint64_t number, const char *kind, const char *other,
                         const char *object)
{
    for (size_t i = 0; i < a->waits->n_waits; i++) {
        const Npud__WaitRow *row = a->waits->waits[i];

        if (row->object == number &&
            (strcmp(row->kind, kind) == 0 || strcmp(row->kind, other) == 0))
            add_use(a, user_row(a, row->session, row->pid, object),
                    "%s has waited %" PRIu64 " ms for %s", row->waiter, row->for_ms,
                    row->waits_for);
    }
}

/* Each user has a queue of that number. */
static void tell_queue(struct asked *a)
{
    char object[64];

    for (size_t i = 0; i < a->queues->n_queues; i++) {
        const Npud__QueueRow *queue = a->queues->queues[i];

        if (queue->queue != a->who.number)
            continue;
        a->found = true;
        snprintf(object, sizeof(object), "queue %u of user %u", queue->queue, queue->uid);
        for (size_t k = 0; k < a->grants->n_grants; k++) {
            const Npud__GrantRow *row = a->grants->grants[k];

            if (row->number == queue->number)
                add_use(a, user_row(a, row->session, row->pid, object), "may %s%s", row->rights,
                        row->attached ? "" : ", not attached");
        }
        tell_waiting(a, queue->number, "message", "room", object);
    }
}

static void tell_event(struct asked *a)
{
    char object[64];

    snprintf(object, sizeof(object), "IPC event %" PRIu64, a->who.number);
    for (size_t i = 0; i < a->events->n_events; i++) {
        const Npud__EventRow *row = a->events->events[i];

        if (row->event != a->who.number || strncmp(row->kind, "ipc", 3) != 0)
            continue;
        a->found = true;
        if (row->session == 0)
            add_use(a, user_row(a, 0, row->pid, object), "has closed it; it can still be opened");
        else
            add_use(a, user_row(a, row->session, row->pid, object), "has it open, %s", row->status);
    }
    tell_waiting(a, a->who.number, "record", "record", object);
}

/* --- all of it --- */

static void free_asked(struct asked *a)
{
    Npud__Report *all[] = {a->sessions, a->devices, a->events, a->streams, a->memory,
                           a->grants,   a->queues,  a->waits,  a->out};

    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        npud__report__free_unpacked(all[i], NULL);
}

static enum status refuse_number(const struct who *who)
{
    static const char *const formats[] = {
        [WHO_DEVICE] = "npuctl: there is no device %" PRIu64 ": npuctl devices lists them\n",
        [WHO_QUEUE] = "npuctl: there is no queue %" PRIu64 ": npuctl queues lists them\n",
        [WHO_EVENT] = "npuctl: there is no IPC event %" PRIu64 ": npuctl events lists them\n"};

    fprintf(stderr, formats[who->object], who->number);
    return STATUS_ERROR;
}

static enum status tell_users(struct asked *a, bool json)
{
    static const struct command who = {.name = "who"};
    static void (*const tellers[])(struct asked *) = {
        [WHO_DEVICE] = tell_device, [WHO_QUEUE] = tell_queue, [WHO_EVENT] = tell_event};

    a->out = npud__report__unpack(NULL, 0, NULL);
    if (!a->out)
        return print_end(false);
    tellers[a->who.object](a);
    if (!a->found)
        return refuse_number(&a->who);
    name_users(a);
    return a->failed ? print_end(false) : print_report(a->out, &who, json);
}

enum status who_run(const struct task *task)
{
    struct asked a = {.who = task->who};
    const struct question questions[] = {
        {NPUD__ADMIN_REQUEST__TOPIC__SESSIONS, &a.sessions},
        {NPUD__ADMIN_REQUEST__TOPIC__DEVICES, &a.devices},
        {NPUD__ADMIN_REQUEST__TOPIC__EVENTS, &a.events},
        {NPUD__ADMIN_REQUEST__TOPIC__STREAMS, &a.streams},
        {NPUD__ADMIN_REQUEST__TOPIC__MEMORY, &a.memory},
        {NPUD__ADMIN_REQUEST__TOPIC__QUEUES, &a.queues},
        {NPUD__ADMIN_REQUEST__TOPIC__GRANTS, &a.grants},
        {NPUD__ADMIN_REQUEST__TOPIC__WAITS, &a.waits},
    };
    enum status status =
        ask_reports_at(task->path, questions, sizeof(questions) / sizeof(questions[0]));

    if (status == STATUS_OK)
        status = tell_users(&a, task->json);
    free_asked(&a);
    return status;
}
