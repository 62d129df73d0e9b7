#include "client/tools/npuctl/explain.h"

#include <errno.h>
#include <inttypes.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/tools/npuctl/ask.h"
#include "client/tools/npuctl/wait_chain.h"
#include "client/tools/npuctl/print.h"
#include "client/tools/npuctl/text.h"

#define SENTENCE_MAX 8704 /* a deadlock spells out its members */

/* What was asked, one report after the other: an object of one may have gone in the next. */
struct findings {
    Npud__Report *waits, *sessions, *queues; /* own: the first one alone */
    bool own;                                /* the waits of this user: it is no administrator */
    struct chains chains;
};

static const char *const kinds[] = {
    [CHAIN_DEVICE] = "device",
    [CHAIN_DEADLOCK] = "deadlock",
    [CHAIN_CIRCLE] = "circle",
    [CHAIN_QUEUE_FULL] = "queue-full",
    [CHAIN_QUEUE_EMPTY] = "queue-empty",
    [CHAIN_CALLBACK] = "callback",
    [CHAIN_WORD] = "word",
    [CHAIN_STALL] = "stall",
    [CHAIN_NO_PROCESS] = "no-process",
    [CHAIN_FOREIGN] = "other-user",
    [CHAIN_GONE] = "gone",
};
static const char *const process_kinds[] = {
    [PROCESS_SLEEPS] = "sleeps", [PROCESS_COMPUTES] = "computes", [PROCESS_STOPPED] = "stopped",
    [PROCESS_TRACED] = "traced", [PROCESS_HIDDEN] = "hidden",
};
static const char *const process_states[] = {
    [PROCESS_SLEEPS] = "sleeps outside of the library: for input, a lock, a timer, a child",
    [PROCESS_COMPUTES] = "computes",
    [PROCESS_STOPPED] = "is stopped by a signal (state T)",
    [PROCESS_TRACED] = "is held by a debugger (state t)",
    [PROCESS_HIDDEN] = "cannot be seen in /proc from here",
};

/* The program of the process that blocks this wait: valid until the next call. */
static const char *blocker_program(const struct findings *f, const Npud__WaitRow *row)
{
    static char name[32];

    for (size_t i = 0; !f->own && i < f->sessions->n_sessions; i++)
        if (f->sessions->sessions[i]->session == row->blocker_session)
            return f->sessions->sessions[i]->program;
    name[0] = '\0';
    if (f->own && row->blocker_session != 0)
        process_name(row->blocker_pid, name, sizeof(name));
    return name;
}

static const char *kind_of(const struct chain_end *end)
{
    return end->cause == CHAIN_PROCESS ? process_kinds[end->state] : kinds[end->cause];
}

/* --- what it is --- */

static void say_process(const struct findings *f, const struct chain_end *end, char *buf,
                        size_t size)
{
    const Npud__WaitRow *last = end->last;

    snprintf(buf, size, "process %d (%s) %s; %s waits for %s: %s", (int)last->blocker_pid,
             blocker_program(f, last), process_states[end->state], last->waiter, last->waits_for,
             last->blocker);
}

static const Npud__QueueRow *find_queue(const struct findings *f, uint64_t number)
{
    for (size_t i = 0; !f->own && i < f->queues->n_queues; i++)
        if (f->queues->queues[i]->number == number)
            return f->queues->queues[i];
    return NULL;
}

static void say_queue(const struct findings *f, const struct chain_end *end, char *buf, size_t size)
{
    bool full = end->cause == CHAIN_QUEUE_FULL;
    const Npud__WaitRow *last = end->last;
    const Npud__QueueRow *queue = find_queue(f, last->object);
    const char *verb = full ? "dequeue" : "enqueue";
    char more[64] = "", name[64] = "the queue";

    if (queue)
        snprintf(name, sizeof(name), "queue %u of user %u holds %u of %u messages", queue->queue,
                 queue->uid, queue->fill, queue->depth);
    if (last->blockers > 1)
        snprintf(more, sizeof(more), ", as may %u more", last->blockers - 1);
    if (wait_chain_has_peer(last))
        snprintf(buf, size, "%s, and process %d (%s), which may %s%s, does not: it %s", name,
                 (int)last->blocker_pid, blocker_program(f, last), verb, more,
                 process_states[end->state]);
    else if (queue && (full ? queue->routes_from : queue->routes_to) > 0)
        snprintf(buf, size, "%s, and only a route of npud may %s", name, verb);
    else
        snprintf(buf, size, "%s, and no other process that is attached may %s", name, verb);
}

static const Npud__DeadlockRow *find_deadlock(const struct findings *f, uint32_t number)
{
    for (size_t i = 0; i < f->waits->n_deadlocks; i++)
        if (f->waits->deadlocks[i]->deadlock == number)
            return f->waits->deadlocks[i];
    return NULL;
}

static void say_deadlock(const struct findings *f, const struct chain_end *end, char *buf,
                         size_t size)
{
    const Npud__DeadlockRow *row = find_deadlock(f, end->last->deadlock);

    if (!row)
        snprintf(buf, size, "a deadlock");
    else
        snprintf(buf, size, "a deadlock (%s) of %u process%s: %s", row->certainty, row->processes,
                 row->processes == 1 ? "" : "es", row->members);
}

static void say_cause(const struct findings *f, const struct chain_end *end, char *buf, size_t size)
{
    const Npud__WaitRow *last = end->last;

    switch (end->cause) {
    case CHAIN_PROCESS:
        say_process(f, end, buf, size);
        break;
    case CHAIN_CALLBACK:
    case CHAIN_WORD:
        snprintf(buf, size, "%s waits for %s: %s (%s)", last->waiter, last->waits_for,
                 last->blocker, blocker_program(f, last));
        break;
    case CHAIN_DEVICE:
        snprintf(buf, size, "device %u works on stream %d of process %d (%s)", last->blocker_device,
                 last->blocker_stream, (int)last->blocker_pid, blocker_program(f, last));
        break;
    case CHAIN_DEADLOCK:
        say_deadlock(f, end, buf, size);
        break;
    case CHAIN_CIRCLE:
        snprintf(buf, size,
                 "the waits lead back to themselves; npud has not found that they are "
                 "stuck, and something else may still end them");
        break;
    case CHAIN_QUEUE_FULL:
    case CHAIN_QUEUE_EMPTY:
        say_queue(f, end, buf, size);
        break;
    case CHAIN_STALL:
        snprintf(buf, size, "rule %" PRIu64 " of npuctl inject holds %s of process %d (%s)",
                 last->object, last->waiter, (int)last->pid, last->program);
        break;
    case CHAIN_FOREIGN:
        snprintf(buf, size,
                 "process %d is of another user, or hidden from this one, and what it waits for is "
                 "told to administrators alone; %s waits for %s",
                 (int)last->blocker_pid, last->waiter, last->waits_for);
        break;
    case CHAIN_NO_PROCESS:
        snprintf(buf, size, "no process that is here can end the wait for %s", last->waits_for);
        break;
    default:
        snprintf(buf, size, "nothing blocks the wait for %s any more", last->waits_for);
        break;
    }
}

/* --- what to do --- */

/* How this user ends a session of its own, or an administrator any. */
static void say_how_to_end(bool own, pid_t pid, uint64_t session, char *buf, size_t size)
{
    if (own)
        snprintf(buf, size, "kill %d", (int)pid);
    else
        snprintf(buf, size, "npuctl kill %" PRIu64, session);
}

static void advise_process(const Npud__WaitRow *last, enum process_state state, bool own, char *buf,
                           size_t size)
{
    int pid = (int)last->blocker_pid;
    char act[128], end[64];

    if (state == PROCESS_STOPPED)
        snprintf(act, sizeof(act), "let it go on: kill -CONT %d", pid);
    else if (state == PROCESS_TRACED)
        snprintf(act, sizeof(act), "let it go on in its debugger: grep TracerPid /proc/%d/status",
                 pid);
    else if (state == PROCESS_HIDDEN)
        snprintf(act, sizeof(act), "look again as root, and where npud runs");
    else
        snprintf(act, sizeof(act), "see where it is: gdb -batch -p %d -ex 'thread apply all bt'",
                 pid);
    say_how_to_end(own, pid, last->blocker_session, end, sizeof(end));
    snprintf(buf, size, "%s; or end its session: %s", act, end);
}

/* npud has said what the process is to do. */
static void advise_callback(const Npud__WaitRow *last, bool own, char *buf, size_t size)
{
    char end[64];

    say_how_to_end(own, last->blocker_pid, last->blocker_session, end, sizeof(end));
    snprintf(buf, size, "%s; or, if it never will, end its session: %s", last->advice, end);
}

static void advise_queue(const struct chain_end *end, bool own, char *buf, size_t size)
{
    const Npud__WaitRow *last = end->last;
    char how[64];

    say_how_to_end(own, last->pid, last->session, how, sizeof(how));
    if (wait_chain_has_peer(last))
        advise_process(last, end->state, own, buf, size);
    else
        snprintf(buf, size,
                 "start or attach a process that may %s, or end the session that waits: %s",
                 end->cause == CHAIN_QUEUE_FULL ? "dequeue" : "enqueue", how);
}

/* What would end the circle: a callback of a member that no thread runs. NULL: nothing is known. */
static const char *member_advice(const struct findings *f, uint32_t deadlock)
{
    for (size_t i = 0; i < f->waits->n_waits; i++) {
        const Npud__WaitRow *row = f->waits->waits[i];

        if (row->deadlock == deadlock && wait_chain_is_member(row) && row->advice[0] != '\0')
            return row->advice;
    }
    return NULL;
}

static void advise_deadlock(const struct findings *f, const Npud__WaitRow *last, char *buf,
                            size_t size)
{
    const char *advice = member_advice(f, last->deadlock);
    char how[64];

    say_how_to_end(f->own, last->pid, last->session, how, sizeof(how));
    snprintf(buf, size, "%s%send the session of a member: %s", advice ? advice : "",
             advice ? "; or " : "", how);
}

static void advise(const struct findings *f, const struct chain_end *end, char *buf, size_t size)
{
    const Npud__WaitRow *last = end->last;
    bool own = f->own;

    switch (end->cause) {
    case CHAIN_PROCESS:
        advise_process(last, end->state, own, buf, size);
        break;
    case CHAIN_CALLBACK:
    case CHAIN_WORD:
        advise_callback(last, own, buf, size);
        break;
    case CHAIN_DEVICE:
        snprintf(buf, size, "ask %snpuctl streams twice: DONE grows, or one task takes long",
                 own ? "an administrator for " : "");
        break;
    case CHAIN_DEADLOCK:
        advise_deadlock(f, last, buf, size);
        break;
    case CHAIN_QUEUE_FULL:
    case CHAIN_QUEUE_EMPTY:
        advise_queue(end, own, buf, size);
        break;
    case CHAIN_STALL:
        snprintf(buf, size, "%sclear the rule: npuctl inject clear %" PRIu64,
                 own ? "have an administrator " : "", last->object);
        break;
    case CHAIN_FOREIGN:
        snprintf(buf, size,
                 "ask an administrator for what npuctl explain says of the wait of process %d",
                 (int)last->pid);
        break;
    case CHAIN_NO_PROCESS:
        snprintf(buf, size, "start the process that grants it");
        break;
    default:
        snprintf(buf, size, "ask again: npuctl explain");
        break;
    }
}

/* --- as rows of a report --- */

/* The process to blame: of the blocker, or of the last wait itself. */
static void name_culprit(const struct findings *f, const struct chain_end *end, Npud__CauseRow *row)
{
    const Npud__WaitRow *last = end->last;
    bool itself = end->cause == CHAIN_STALL || end->cause == CHAIN_DEADLOCK;

    row->session = itself ? last->session : last->blocker_session;
    row->pid = itself ? last->pid : last->blocker_pid;
    row->program = strdup(itself ? last->program : blocker_program(f, last));
}

static Npud__CauseRow *make_cause(const struct findings *f, size_t i)
{
    const struct chain_end *end = &f->chains.end[i];
    Npud__CauseRow *row = malloc(sizeof(*row));
    char text[SENTENCE_MAX];

    if (!row)
        return NULL;
    npud__cause_row__init(row);
    row->cause = (uint32_t)i + 1;
    row->waits = (uint32_t)end->waits;
    row->longest_ms = end->longest->for_ms;
    row->kind = strdup(kind_of(end));
    name_culprit(f, end, row);
    say_cause(f, end, text, sizeof(text));
    row->says = strdup(text);
    advise(f, end, text, sizeof(text));
    row->advice = strdup(text);
    return row;
}

static Npud__LinkRow *make_link(const Npud__WaitRow *wait, size_t cause, size_t link)
{
    Npud__LinkRow *row = malloc(sizeof(*row));

    if (!row)
        return NULL;
    npud__link_row__init(row);
    row->cause = (uint32_t)cause + 1;
    row->link = (uint32_t)link + 1;
    row->session = wait->session;
    row->pid = wait->pid;
    row->program = strdup(wait->program);
    row->waiter = strdup(wait->waiter);
    row->waits_for = strdup(wait->waits_for);
    row->for_ms = wait->for_ms;
    return row;
}

static size_t links_told(const struct chain_end *end)
{
    return end->links < CHAIN_LINKS_MAX ? end->links : CHAIN_LINKS_MAX;
}

/* NULL: no memory. A list ends where memory did. */
static Npud__Report *make_report(const struct findings *f)
{
    Npud__Report *out = malloc(sizeof(*out));
    size_t n = f->chains.n;

    if (!out)
        return NULL;
    npud__report__init(out);
    out->explain = calloc(n + 1, sizeof(Npud__CauseRow *));
    out->links = calloc(n * CHAIN_LINKS_MAX + 1, sizeof(Npud__LinkRow *));
    for (size_t i = 0; out->explain && out->links && i < n; i++) {
        const struct chain_end *end = &f->chains.end[i];

        out->explain[i] = make_cause(f, i);
        if (!out->explain[i])
            break;
        out->n_explain++;
        for (size_t k = 0; k < links_told(end); k++) {
            out->links[out->n_links] = make_link(end->link[k], i, k);
            out->n_links += out->links[out->n_links] != NULL;
        }
    }
    return out;
}

/* --- for people --- */

static void print_line(const char *indent, const char *text)
{
    int width;
    char *clean = text_escape(text, false, &width);

    printf("%s%s\n", indent, clean ? clean : "");
    free(clean);
}

static void print_link(const Npud__WaitRow *row, size_t k)
{
    char text[1024];

    snprintf(
        text, sizeof(text), "%sprocess %d (%s) %s has waited %" PRIu64 ".%03" PRIu64 " s for %s%s",
        k == 0 ? "" : "blocked by ", (int)row->pid, row->program, row->waiter, row->for_ms / 1000,
        row->for_ms % 1000, row->waits_for, row->timed ? " (with a time limit)" : "");
    print_line(k == 0 ? "" : "   ", text);
}

static void print_end_of(const struct findings *f, size_t i)
{
    const struct chain_end *end = &f->chains.end[i];
    char text[SENTENCE_MAX];

    printf("%s%zu. ", i == 0 ? "" : "\n", i + 1);
    for (size_t k = 0; k < links_told(end); k++)
        print_link(end->link[k], k);
    if (end->links > CHAIN_LINKS_MAX)
        printf("   and so on, over %zu waits\n", end->links);
    say_cause(f, end, text, sizeof(text));
    printf("   cause (%s): ", kind_of(end));
    print_line("", text);
    advise(f, end, text, sizeof(text));
    print_line("   to do: ", text);
    printf("   waits for this cause: %zu, the longest %" PRIu64 ".%03" PRIu64 " s\n", end->waits,
           end->longest->for_ms / 1000, end->longest->for_ms % 1000);
}

static enum status print_people(const struct findings *f)
{
    setlocale(LC_CTYPE, "");
    if (f->chains.waits == 0)
        printf("Nothing %swaits in npud. What hangs does so outside of the library.\n",
               f->own ? "of yours " : "");
    for (size_t i = 0; i < f->chains.n; i++)
        print_end_of(f, i);
    if (f->chains.beyond > 0)
        printf("\n%zu more waits have further causes: npuctl waits\n", f->chains.beyond);
    return print_end(true);
}

/* --- all of it --- */

static enum status print_findings(const struct findings *f, bool json)
{
    static const struct command explain = {.name = "explain", .also = "links"};
    enum status status;
    Npud__Report *out;

    if (!json)
        return print_people(f);
    out = make_report(f);
    if (!out)
        return print_end(false);
    status = print_report(out, &explain, true);
    npud__report__free_unpacked(out, NULL);
    return status;
}

static void free_findings(struct findings *f)
{
    npud__report__free_unpacked(f->waits, NULL);
    npud__report__free_unpacked(f->sessions, NULL);
    npud__report__free_unpacked(f->queues, NULL);
}

static enum status ask_all(struct connection *c, struct findings *f)
{
    const struct question questions[] = {
        {NPUD__ADMIN_REQUEST__TOPIC__WAITS, &f->waits},
        {NPUD__ADMIN_REQUEST__TOPIC__SESSIONS, &f->sessions},
        {NPUD__ADMIN_REQUEST__TOPIC__QUEUES, &f->queues},
    };

    return ask_reports(c, questions, sizeof(questions) / sizeof(questions[0]));
}

static enum status ask_findings(const struct task *task, struct findings *f)
{
    struct connection c = {.path = task->path, .limit = ANSWER_LIMIT_S};
    int r = connection_open(&c);
    enum status status;

    f->own = r == -EACCES && !task->named;
    if (f->own)
        return ask_own(task->path, NPUD__ADMIN_REQUEST__TOPIC__WAITS, &f->waits);
    if (r < 0)
        return socket_explain_unreachable(task->path, -r);
    status = ask_all(&c, f);
    connection_close(&c);
    return status;
}

enum status explain_run(const struct task *task)
{
    struct findings f = {0};
    enum status status = ask_findings(task, &f);

    if (status == STATUS_OK && wait_chains_find(f.waits, f.own, &f.chains) < 0)
        status = print_end(false);
    if (status == STATUS_OK)
        status = print_findings(&f, task->json);
    free_findings(&f);
    return status;
}
