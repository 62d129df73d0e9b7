/*
 * Row 21: what it costs to be checked (docs/checking.md). A process that is checked and one that is
 * not take turns: a task there and back, and a task for a stream that is held. Then npu-check reads
 * what the first has written.
 */
#include "tests/bench/bench.h"
#include "tests/bench/helper.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "acl/acl_npud.h"
#include "tests/common/process.h"

#define BURST 400 /* as in row 2 */

enum order { ORDER_POLL, ORDER_HELD, ORDER_END };

struct request {
    enum order order;
    unsigned n;
};

/* A process that measures. */
struct measurer {
    pid_t pid;
    int to, from;
    uint64_t tasks;
};

struct sides {
    struct measurer checked, plain;
    enum order order;
};

/* --- in the process --- */

struct streams {
    aclrtStream open, held;
    aclrtEvent gate;
};

static void poll_delays(struct streams *s, unsigned n)
{
    aclrtStreamStatus status;

    for (unsigned i = 0; i < n; i++) {
        CHECK(aclnpudLaunchDelay(0, ACL_SUCCESS, s->open));
        do {
            CHECK(aclrtStreamQuery(s->open, &status));
            let_other_run();
        } while (status != ACL_STREAM_STATUS_COMPLETE);
    }
}

static double time_polled(struct streams *s, unsigned n)
{
    uint64_t start;

    poll_delays(s, n / 4);
    start = now_ns();
    poll_delays(s, n);
    return (double)(now_ns() - start) / n;
}

static double time_held(struct streams *s, unsigned n)
{
    aclError error = ACL_SUCCESS;
    uint64_t start;

    CHECK(aclrtStreamWaitEvent(s->held, s->gate));
    CHECK(aclrtResetEvent(s->gate, s->held));
    start = now_ns();
    for (unsigned i = 0; i < n; i++)
        error |= aclnpudLaunchDelay(0, ACL_SUCCESS, s->held);
    start = now_ns() - start;
    check_acl(error, "aclnpudLaunchDelay");
    CHECK(aclrtRecordEvent(s->gate, s->open));
    CHECK(aclrtSynchronizeStream(s->held));
    return (double)start / n;
}

static void serve_requests(int from, int to)
{
    struct request request;
    struct streams s;
    double ns;

    CHECK(aclInit(NULL));
    CHECK(aclrtSetDevice(0));
    CHECK(aclrtCreateStream(&s.open));
    CHECK(aclrtCreateStream(&s.held));
    CHECK(aclrtCreateEventWithFlag(&s.gate, ACL_EVENT_SYNC));
    while (read(from, &request, sizeof(request)) == sizeof(request) && request.order != ORDER_END) {
        ns = request.order == ORDER_POLL ? time_polled(&s, request.n) : time_held(&s, request.n);
        if (write(to, &ns, sizeof(ns)) != sizeof(ns))
            die("write: %m");
    }
    CHECK(aclrtResetDevice(0));
    CHECK(aclFinalize());
}

/* --- in the one that directs --- */

static void measurer_start(struct measurer *m)
{
    int to[2], from[2];

    if (pipe(to) < 0 || pipe(from) < 0)
        die("pipe: %m");
    m->pid = fork();
    if (m->pid < 0)
        die("fork: %m");
    if (m->pid == 0) {
        close(to[1]);
        serve_requests(to[0], from[1]);
        exit(0);
    }
    close(to[0]);
    close(from[1]);
    m->to = to[1];
    m->from = from[0];
}

static double measurer_ask(struct measurer *m, enum order order, unsigned n)
{
    struct request request = {order, n};
    double ns = 0;

    if (write(m->to, &request, sizeof(request)) != sizeof(request))
        die("write: %m");
    if (order != ORDER_END && read(m->from, &ns, sizeof(ns)) != sizeof(ns))
        die("a measuring process has ended");
    m->tasks += n;
    return ns;
}

static void measurer_end(struct measurer *m)
{
    measurer_ask(m, ORDER_END, 0);
    expect_success("measuring process", process_end(m->pid));
    close(m->to);
    close(m->from);
}

static double checked_side(void *arg, unsigned n)
{
    struct sides *s = arg;

    return measurer_ask(&s->checked, s->order, n);
}

static double plain_side(void *arg, unsigned n)
{
    struct sides *s = arg;

    return measurer_ask(&s->plain, s->order, n);
}

static void emit_contest(struct sides *s, enum order order, const struct row *row, unsigned n)
{
    struct contest c = {
        .value = checked_side,
        .baseline = plain_side,
        .arg = s,
        .n_value = n,
        .n_baseline = n,
        .rounds = count_of(300, 10),
    };
    struct result result;

    s->order = order;
    result = contest_run(row, &c);
    result_emit(&result);
}

/* --- reading --- */

static int exec_checker(void *directory)
{
    char program[PATH_MAX];

    snprintf(program, sizeof(program), "%s/npu-check", options.bindir);
    execl(program, program, "--kinds=race,init", directory, NULL);
    die("%s: %m", program);
}

static void emit_reading(char *directory, uint64_t calls)
{
    static const struct row row = {"21-read", "npu-check, per call; vs 500 ns (2 M calls a second)",
                                   1.0};
    uint64_t start = now_ns();
    double sample;
    struct result result;

    expect_success("npu-check", process_end(start_process(exec_checker, directory)));
    sample = (double)(now_ns() - start) / (double)calls;
    result = result_of_samples(&row, &sample, 1, 500);
    result_emit(&result);
}

static void remove_files(const char *directory)
{
    char command[PATH_MAX + 16];

    snprintf(command, sizeof(command), "rm -rf '%s'", directory);
    expect_success("rm", system(command));
}

void rows_check(void)
{
    static const struct row polled = {"21-task", "a task there and back; vs not checked", 4.0};
    static const struct row held = {"21-launch", "launch, queued; vs not checked", BUDGET_NONE};
    char directory[] = "/tmp/npud-bench-XXXXXX";
    struct sides s = {0};

    if (!mkdtemp(directory))
        die("mkdtemp: %m");
    unsetenv("NPUD_CHECK");
    measurer_start(&s.plain);
    setenv("NPUD_CHECK", directory, 1);
    measurer_start(&s.checked);
    unsetenv("NPUD_CHECK");
    emit_contest(&s, ORDER_POLL, &polled, 1000);
    emit_contest(&s, ORDER_HELD, &held, BURST);
    measurer_end(&s.plain);
    measurer_end(&s.checked);
    emit_reading(directory, 3 * s.checked.tasks); /* a launch, and a query that sees it done */
    remove_files(directory);
}
