#include "client/tools/npuctl/draw.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "client/tools/npuctl/ask.h"
#include "client/tools/npuctl/helper.h"
#include "client/tools/npuctl/print.h"
#include "client/tools/npuctl/text.h"
#include "proto/util/lift_fd.h"

/* What it is drawn from. */
struct picture {
    FILE *file;
    Npud__Report *sessions, *queues, *grants, *events, *waits;
    bool failed; /* no memory */
};

/* --- the language --- */

/*
 * A text of a program's between quotes. Within them a quote ends the text, and a backslash begins
 * an escape of dot's, as \N for the name of the node, and "&" an entity; control characters are not
 * for pictures.
 */
static void write_text(struct picture *p, const char *text)
{
    char *clean = text_clean(text);

    p->failed |= clean == NULL;
    for (const char *c = clean; c && *c; c++) {
        if (*c == '"' || *c == '\\')
            fputc('\\', p->file);
        fputc((unsigned char)*c < ' ' ? '?' : *c, p->file);
        if (*c == '&')
            fputs("amp;", p->file);
    }
    free(clean);
}

/* An attribute: its text is made as printf() does, and escaped; "\n" begins a new line. */
__attribute__((format(printf, 3, 4))) static void write_attribute(struct picture *p,
                                                                  const char *name,
                                                                  const char *format, ...)
{
    char *text = NULL, *line, *next;
    va_list args;

    va_start(args, format);
    p->failed |= vasprintf(&text, format, args) < 0;
    va_end(args);
    if (p->failed)
        return;
    fprintf(p->file, " %s=\"", name);
    for (line = text; line; line = next) {
        next = strchr(line, '\n');
        if (next)
            *next++ = '\0';
        write_text(p, line);
        fputs(next ? "\\n" : "\"", p->file);
    }
    free(text);
}

/* Names of nodes: a letter for the kind, and a number of npud's. */
#define PROCESS 's'
#define QUEUE   'q'
#define EVENT   'e'

static void begin_node(struct picture *p, char kind, uint64_t number)
{
    fprintf(p->file, "  %c%" PRIu64 " [", kind, number);
}

static void begin_edge(struct picture *p, char from, uint64_t number, char to, uint64_t other)
{
    fprintf(p->file, "  %c%" PRIu64 " -> %c%" PRIu64 " [", from, number, to, other);
}

static void end_line(struct picture *p)
{
    fputs("];\n", p->file);
}

/* --- nodes --- */

static void draw_processes(struct picture *p)
{
    for (size_t i = 0; i < p->sessions->n_sessions; i++) {
        const Npud__SessionRow *row = p->sessions->sessions[i];

        begin_node(p, PROCESS, row->session);
        write_attribute(p, "label", "%.64s\nprocess %d, user %u\nsession %" PRIu64, row->program,
                        row->pid, row->uid, row->session);
        fputs(" shape=box style=rounded", p->file);
        end_line(p);
    }
}

static void draw_queues(struct picture *p)
{
    for (size_t i = 0; i < p->queues->n_queues; i++) {
        const Npud__QueueRow *row = p->queues->queues[i];

        begin_node(p, QUEUE, row->number);
        write_attribute(p, "label", "queue %u of user %u\n%s\n%u of %u", row->queue, row->uid,
                        row->name, row->fill, row->depth);
        fputs(" shape=cds", p->file);
        end_line(p);
    }
}

static bool is_ipc(const Npud__EventRow *row)
{
    return strncmp(row->kind, "ipc", 3) == 0;
}

/* An event has a row for each session that has it open. */
static bool is_first_of_event(const Npud__Report *events, size_t i)
{
    for (size_t k = 0; k < i; k++)
        if (is_ipc(events->events[k]) && events->events[k]->event == events->events[i]->event)
            return false;
    return true;
}

static void draw_events(struct picture *p)
{
    for (size_t i = 0; i < p->events->n_events; i++) {
        const Npud__EventRow *row = p->events->events[i];

        if (!is_ipc(row) || !is_first_of_event(p->events, i))
            continue;
        begin_node(p, EVENT, row->event);
        write_attribute(p, "label", "IPC event %" PRIu64 "\nrecord %" PRIu64 " %s", row->event,
                        row->records, row->status);
        fputs(" shape=ellipse", p->file);
        end_line(p);
    }
}

/* --- edges --- */

static bool has_session(const struct picture *p, uint64_t session)
{
    for (size_t i = 0; session != 0 && i < p->sessions->n_sessions; i++)
        if (p->sessions->sessions[i]->session == session)
            return true;
    return false;
}

static bool has_queue(const struct picture *p, uint64_t number)
{
    for (size_t i = 0; i < p->queues->n_queues; i++)
        if (p->queues->queues[i]->number == number)
            return true;
    return false;
}

static bool has_event(const struct picture *p, uint64_t number)
{
    for (size_t i = 0; i < p->events->n_events; i++)
        if (is_ipc(p->events->events[i]) && p->events->events[i]->event == number)
            return true;
    return false;
}

/* As messages go: into the queue from one that may enqueue, out of it to one that may dequeue. */
static void draw_grants(struct picture *p)
{
    for (size_t i = 0; i < p->grants->n_grants; i++) {
        const Npud__GrantRow *row = p->grants->grants[i];

        if (!row->attached || !has_session(p, row->session) || !has_queue(p, row->number))
            continue;
        if (strstr(row->rights, "enqueue")) {
            begin_edge(p, PROCESS, row->session, QUEUE, row->number);
            end_line(p);
        }
        if (strstr(row->rights, "dequeue")) {
            begin_edge(p, QUEUE, row->number, PROCESS, row->session);
            end_line(p);
        }
    }
}

static void draw_openers(struct picture *p)
{
    for (size_t i = 0; i < p->events->n_events; i++) {
        const Npud__EventRow *row = p->events->events[i];

        if (!is_ipc(row) || !has_session(p, row->session))
            continue;
        begin_edge(p, PROCESS, row->session, EVENT, row->event);
        fputs("dir=none style=dotted", p->file);
        end_line(p);
    }
}

/* Where the arrow of a wait ends: at the process that blocks it, else at what it waits for. */
static bool find_blocker(const struct picture *p, const Npud__WaitRow *row, char *kind,
                         uint64_t *number)
{
    bool is_queue = strcmp(row->kind, "message") == 0 || strcmp(row->kind, "room") == 0;

    *kind = has_session(p, row->blocker_session) ? PROCESS : is_queue ? QUEUE : EVENT;
    *number = *kind == PROCESS ? row->blocker_session : row->object;
    if (*kind == PROCESS)
        return true;
    return is_queue ? has_queue(p, *number)
                    : strcmp(row->kind, "record") == 0 && has_event(p, *number);
}

static void draw_waits(struct picture *p)
{
    for (size_t i = 0; i < p->waits->n_waits; i++) {
        const Npud__WaitRow *row = p->waits->waits[i];
        uint64_t number;
        char kind;

        if (!has_session(p, row->session) || !find_blocker(p, row, &kind, &number))
            continue;
        begin_edge(p, PROCESS, row->session, kind, number);
        write_attribute(p, "label", "%s\nwaits for %s\n%" PRIu64 " ms%s%s", row->waiter,
                        row->waits_for, row->for_ms, row->deadlock ? ", " : "",
                        row->deadlock ? row->state : "");
        fputs(row->deadlock ? " color=red fontcolor=red penwidth=2" : " color=blue fontcolor=blue",
              p->file);
        end_line(p);
    }
}

static void draw(struct picture *p)
{
    fputs("digraph npud {\n  rankdir=LR;\n  node [fontname=\"sans-serif\"];\n"
          "  edge [fontname=\"sans-serif\" fontsize=10];\n",
          p->file);
    draw_processes(p);
    draw_queues(p);
    draw_events(p);
    draw_grants(p);
    draw_openers(p);
    draw_waits(p);
    fputs("}\n", p->file);
}

/* --- output --- */

static enum status explain_error(const char *what, int error)
{
    fprintf(stderr, "npuctl: %s: %s\n", what, strerror(error));
    return STATUS_ERROR;
}

/* The drawing of what is in graph, which goes to out. */
static enum status run_dot(int graph, int out)
{
    static char *const argv[] = {(char *)"dot", (char *)"-Tsvg", NULL};
    int r;

    lseek(graph, 0, SEEK_SET);
    r = helper_run(argv, graph, out);
    if (r == 0)
        return STATUS_OK;
    if (r == -ENOENT)
        fputs("npuctl: dot is not installed, which draws the picture: apt-get install graphviz, "
              "or give what npuctl graph prints to dot -Tsvg elsewhere\n",
              stderr);
    else
        fprintf(stderr, "npuctl: dot: %s\n", r < 0 ? strerror(-r) : "it has failed");
    return STATUS_ERROR;
}

/* name NULL or "-": standard output. */
static enum status copy_out(int from, const char *name)
{
    bool is_file = name && strcmp(name, "-") != 0;
    FILE *to = is_file ? fopen(name, "we") : stdout;
    char bytes[4096];
    ssize_t n;

    if (!to)
        return explain_error(name, errno);
    for (off_t at = 0; (n = pread(from, bytes, sizeof(bytes), at)) > 0; at += n)
        fwrite(bytes, 1, (size_t)n, to);
    if (!is_file)
        return print_end(n == 0);
    if ((ferror(to) | fclose(to)) != 0)
        return explain_error(name, errno);
    return STATUS_OK;
}

/* By way of memory files: a picture that cannot be made leaves no half of a file. */
static enum status write_graph(const struct task *task, struct picture *p)
{
    int graph = lift_fd(memfd_create("npuctl-graph", MFD_CLOEXEC));
    int drawing = lift_fd(memfd_create("npuctl-drawing", MFD_CLOEXEC));
    bool draws = task->given & OPTION_SVG;
    enum status status = STATUS_ERROR;

    p->file = graph >= 0 && drawing >= 0 ? fdopen(graph, "w") : NULL;
    if (!p->file)
        return explain_error("memory files", errno); /* npuctl ends */
    draw(p);
    if (fflush(p->file) == 0 && !p->failed)
        status = draws ? run_dot(graph, drawing) : STATUS_OK;
    else
        print_end(false);
    if (status == STATUS_OK)
        status = copy_out(draws ? drawing : graph, task->output);
    fclose(p->file);
    close(drawing);
    return status;
}

enum status draw_run(const struct task *task)
{
    struct picture p = {0};
    const struct question questions[] = {
        {NPUD__ADMIN_REQUEST__TOPIC__SESSIONS, &p.sessions},
        {NPUD__ADMIN_REQUEST__TOPIC__QUEUES, &p.queues},
        {NPUD__ADMIN_REQUEST__TOPIC__GRANTS, &p.grants},
        {NPUD__ADMIN_REQUEST__TOPIC__EVENTS, &p.events},
        {NPUD__ADMIN_REQUEST__TOPIC__WAITS, &p.waits},
    };
    const size_t n = sizeof(questions) / sizeof(questions[0]);
    enum status status = ask_reports_at(task->path, questions, n);

    if (status != STATUS_OK)
        return status;
    status = write_graph(task, &p);
    for (size_t i = 0; i < n; i++)
        npud__report__free_unpacked(*questions[i].report, NULL);
    return status;
}
