#include "client/tools/npuctl/trace_follow.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/tools/npuctl/ask.h"
#include "client/tools/npuctl/print.h"
#include "client/tools/npuctl/trace_dump.h"
#include "client/tools/npuctl/trace_rows.h"
#include "proto/util/clock.h"

/* While no ring fills fast, npud is asked so often. */
#define PAUSE_NS (10 * NSEC_PER_MSEC)
/* A ring that has filled by this part since it was asked is read again at once. */
#define FAST_PART 32

/* --- following --- */

struct follower {
    struct connection connection;
    Npud__TraceCursor *cursor; /* one of each ring */
    Npud__TraceCursor **list;  /* of them */
    size_t n;
    uint64_t begun_ns; /* of the trace; 0: npud was not asked yet */
    bool ended;        /* the trace has */
    bool fast;         /* a ring fills fast */
};

static volatile sig_atomic_t told_to_end;

static void end_on_signal(int signal)
{
    (void)signal;
    told_to_end = 1;
}

/* npu-run starts this with SIGTERM blocked: so none comes before the handler is there. */
static void handle_signals(void)
{
    struct sigaction action = {.sa_handler = end_on_signal, .sa_flags = SA_RESTART};
    sigset_t set;

    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigprocmask(SIG_UNBLOCK, &set, NULL);
}

/* False: no memory. */
static bool add_cursor(struct follower *f, const Npud__TraceRow *ring)
{
    Npud__TraceCursor *grown = realloc(f->cursor, (f->n + 1) * sizeof(*f->cursor)), *c;

    if (!grown)
        return false;
    f->cursor = grown;
    c = &f->cursor[f->n++];
    npud__trace_cursor__init(c);
    c->session = ring->session;
    c->device = ring->device;
    c->next = ring->next;
    return true;
}

static bool is_ring(const Npud__TraceRow *row)
{
    return strcmp(row->kind, "ring") == 0;
}

/* Rings of which nothing was said are no more: a request has no room for all that ever were. */
static bool read_rings(struct follower *f, const Npud__Report *report)
{
    f->fast = f->ended = false;
    f->n = 0;
    for (size_t i = 0; i < report->n_trace; i++) {
        const Npud__TraceRow *row = report->trace[i];

        if (!is_ring(row) || row->begin_ns == 0)
            continue;
        if (!add_cursor(f, row))
            return false;
        f->fast = f->fast || row->events > row->entries / FAST_PART;
        f->ended = f->ended || row->end_ns != 0;
        f->begun_ns = row->begin_ns;
    }
    return true;
}

static bool write_all(const void *data, size_t size)
{
    return fwrite(data, 1, size, stdout) == size;
}

static bool write_answer(const uint8_t *bytes, uint64_t size)
{
    uint8_t head[8];

    for (unsigned i = 0; i < sizeof(head); i++)
        head[i] = (uint8_t)(size >> (8 * i));
    return write_all(head, sizeof(head)) && write_all(bytes, size) && fflush(stdout) == 0;
}

/* NULL: there is no trace. */
static const Npud__TraceRow *find_ring(const Npud__Report *report)
{
    for (size_t i = 0; i < report->n_trace; i++)
        if (is_ring(report->trace[i]) && report->trace[i]->begin_ns != 0)
            return report->trace[i];
    return NULL;
}

static enum status take_answer(struct follower *f, const uint8_t *bytes, uint64_t size)
{
    Npud__Report *report = npud__report__unpack(NULL, size, bytes);
    const Npud__TraceRow *ring = report ? find_ring(report) : NULL;
    enum status status = STATUS_ERROR;

    if (!report) {
        fputs("npuctl: npud's report cannot be read\n", stderr);
    } else if (!ring) {
        fputs("npuctl: there is no trace: npuctl trace start begins one\n", stderr);
    } else if (f->begun_ns != 0 && ring->begin_ns != f->begun_ns) {
        f->ended = true; /* and the next one has begun */
        status = STATUS_OK;
    } else if (!write_answer(bytes, size) || !read_rings(f, report)) {
        fprintf(stderr, "npuctl: cannot write: %s\n", strerror(errno));
    } else {
        status = STATUS_OK;
    }
    if (report)
        npud__report__free_unpacked(report, NULL);
    return status;
}

static enum status ask_more(struct follower *f)
{
    Npud__AdminRequest request = NPUD__ADMIN_REQUEST__INIT;
    uint8_t *bytes = NULL;
    uint64_t size = 0;
    enum status status = STATUS_ERROR;

    free(f->list);
    f->list = calloc(f->n + 1, sizeof(void *));
    for (size_t i = 0; f->list && i < f->n; i++)
        f->list[i] = &f->cursor[i];
    request.topic = NPUD__ADMIN_REQUEST__TOPIC__TRACE;
    request.follow_trace = true;
    request.n_trace_after = f->list ? f->n : 0;
    request.trace_after = f->list;
    if (f->list)
        status = ask_bytes(&f->connection, &request, &bytes, &size);
    if (status == STATUS_OK)
        status = take_answer(f, bytes, size);
    free(bytes);
    return status;
}

static enum status follow(struct follower *f)
{
    enum status status = STATUS_OK;
    bool last = false;

    while (status == STATUS_OK && !last) {
        /* What has come between the trace's end, or the signal, and this is told once more. */
        last = f->ended || told_to_end;
        status = ask_more(f);
        if (status == STATUS_OK && !last && !f->ended && !f->fast && !told_to_end)
            clock_sleep_until(clock_ns() + PAUSE_NS);
    }
    return status;
}

enum status trace_follow_run(const struct task *task)
{
    struct follower f = {.connection = {.path = task->path, .limit = ANSWER_LIMIT_S}};
    enum status status;
    int r;

    if (isatty(STDOUT_FILENO)) {
        fputs("npuctl: trace stream writes what a terminal cannot show: >FILE\n", stderr);
        return STATUS_USAGE;
    }
    r = connection_open(&f.connection);
    if (r < 0)
        return socket_explain_unreachable(task->path, -r);
    handle_signals();
    status = write_all(TRACE_FILE_HEAD, strlen(TRACE_FILE_HEAD)) ? follow(&f) : STATUS_ERROR;
    connection_close(&f.connection);
    free(f.cursor);
    free(f.list);
    return status != STATUS_OK ? status : print_end(true);
}

/* --- printing --- */

/* Reports of a file, and the rows of all of them; rings are told once. */
struct recording {
    Npud__Report **report;
    size_t n;
    Npud__Report all;
    size_t n_rings; /* at the begin of all.trace, while it is filled */
};

static bool read_head(FILE *f)
{
    char head[sizeof(TRACE_FILE_HEAD) - 1];

    return fread(head, sizeof(head), 1, f) == 1 && memcmp(head, TRACE_FILE_HEAD, sizeof(head)) == 0;
}

/* NULL: there is no further one that is whole. */
static Npud__Report *read_report(FILE *f)
{
    uint8_t head[8], *data = NULL, *grown;
    uint64_t size = 0, have = 0;
    Npud__Report *report;

    if (fread(head, sizeof(head), 1, f) != 1)
        return NULL;
    for (unsigned i = 0; i < sizeof(head); i++)
        size |= (uint64_t)head[i] << (8 * i);
    /* The size is only believed as far as there are bytes. */
    do {
        uint64_t part = size - have < (1 << 20) ? size - have : 1 << 20;

        grown = realloc(data, have + part + 1);
        if (!grown || fread(grown + have, 1, part, f) != part) {
            free(grown ? grown : data);
            return NULL;
        }
        data = grown;
        have += part;
    } while (have < size);
    report = npud__report__unpack(NULL, size, data);
    free(data);
    return report;
}

static bool read_reports(struct recording *r, FILE *f)
{
    Npud__Report *report, **grown;

    while ((report = read_report(f))) {
        grown = trace_rows_expand(report) ? realloc(r->report, (r->n + 1) * sizeof(Npud__Report *))
                                          : NULL;
        if (!grown) {
            npud__report__free_unpacked(report, NULL);
            return false;
        }
        r->report = grown;
        r->report[r->n++] = report;
    }
    return true;
}

/* Processes of which there is no ring are counted anew each time: the row has no time. */
static void add_ring(struct recording *r, Npud__TraceRow *row)
{
    Npud__TraceRow *have;
    size_t i = 0;

    for (; i < r->n_rings; i++) {
        have = r->all.trace[i];
        /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): those below n_rings are set */
        if (have->session == row->session && have->device == row->device &&
            (have->begin_ns == 0) == (row->begin_ns == 0))
            break;
    }
    if (i == r->n_rings) {
        r->all.trace[r->n_rings++] = row;
        return;
    }
    have = r->all.trace[i];
    have->events = row->begin_ns == 0 ? row->events : have->events + row->events;
    have->lost = row->begin_ns == 0 ? row->lost : have->lost + row->lost;
    have->end_ns = row->end_ns;
}

static bool join_reports(struct recording *r)
{
    size_t n = 0;

    npud__report__init(&r->all);
    for (size_t i = 0; i < r->n; i++)
        n += r->report[i]->n_trace;
    r->all.trace = calloc(n + 1, sizeof(Npud__TraceRow *));
    for (size_t i = 0; r->all.trace && i < r->n; i++)
        for (size_t k = 0; k < r->report[i]->n_trace; k++)
            if (is_ring(r->report[i]->trace[k]))
                add_ring(r, r->report[i]->trace[k]);
    r->all.n_trace = r->n_rings;
    for (size_t i = 0; r->all.trace && i < r->n; i++)
        for (size_t k = 0; k < r->report[i]->n_trace; k++)
            if (!is_ring(r->report[i]->trace[k]))
                r->all.trace[r->all.n_trace++] = r->report[i]->trace[k];
    return r->all.trace != NULL;
}

static enum status print_file(FILE *f, const struct task *task)
{
    struct recording r = {0};
    enum status status = STATUS_ERROR;

    if (!read_head(f))
        fprintf(stderr, "npuctl: %s: npuctl trace stream has not written this\n", task->from);
    else if (!read_reports(&r, f) || !join_reports(&r))
        fputs("npuctl: no memory\n", stderr);
    else
        status = trace_print(&r.all, task);
    free(r.all.trace);
    for (size_t i = 0; i < r.n; i++)
        npud__report__free_unpacked(r.report[i], NULL);
    free(r.report);
    return status;
}

enum status trace_follow_print(const struct task *task)
{
    FILE *f = strcmp(task->from, "-") == 0 ? stdin : fopen(task->from, "re");
    enum status status;

    if (!f) {
        fprintf(stderr, "npuctl: %s: %s\n", task->from, strerror(errno));
        return STATUS_ERROR;
    }
    status = print_file(f, task);
    if (f != stdin)
        fclose(f);
    return status;
}
