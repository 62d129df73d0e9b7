/*
 * Row 14: what a call costs in Python, beside the same call in C.
 *
 * Python's side is a process of its own, a client of the same npud. It is told by a line how often
 * to call what, and answers with the nanoseconds; its loop is part of what is measured, as any
 * program in Python has one.
 */
#include "tests/bench/bench.h"
#include "tests/common/process.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <signal.h>
#include <unistd.h>

#define BURST 400 /* calls: fewer than fit into a ring of 1024 tasks */

static const char program[] =
    "import acl, acl.rt, itertools, sys, time\n"
    "def must(result):\n"
    "    assert result[-1] == 0\n"
    "    return result[0]\n"
    "assert acl.init() == 0 and acl.rt.set_device(0) == 0\n"
    "stream = must(acl.rt.create_stream())\n"
    "event = must(acl.rt.create_event_ex_with_flag(1))\n"
    "assert acl.rt.record_event(event, stream) == 0 and acl.rt.synchronize_event(event) == 0\n"
    "now = time.perf_counter_ns\n"
    "def query(n):\n"
    "    f = acl.rt.query_event_status\n"
    "    start = now()\n"
    "    for _ in itertools.repeat(None, n):\n"
    "        f(event)\n"
    "    return now() - start\n"
    "def record(n):\n"
    "    f = acl.rt.record_event\n"
    "    start = now()\n"
    "    for _ in itertools.repeat(None, n):\n"
    "        f(event, stream)\n"
    "    start = now() - start\n"
    "    assert acl.rt.synchronize_stream(stream) == 0\n"
    "    return start\n"
    "calls = {'query': query, 'record': record}\n"
    "for line in sys.stdin:\n"
    "    name, n = line.split()\n"
    "    print(calls[name](int(n)), flush=True)\n";

struct python {
    struct piped process;
    const char *name; /* of the call that is measured */
    aclrtStream stream;
    aclrtEvent event;
};

/* In the child. Returns if there is no such Python. */
static void exec_python(void *arg)
{
    char path[PATH_MAX];

    (void)arg;
    snprintf(path, sizeof(path), "%s/python3/dist-packages", options.bindir);
    setenv("PYTHONPATH", path, 1);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    execl("/usr/bin/python3", "python3", "-c", program, NULL);
}

static double python_side(void *arg, unsigned n)
{
    struct python *p = arg;
    unsigned long long ns;

    if (fprintf(p->process.to, "%s %u\n", p->name, n) < 0 || fflush(p->process.to) != 0 ||
        fscanf(p->process.from, "%llu", &ns) != 1)
        die("python does not answer");
    return (double)ns / n;
}

static double query_side(void *arg, unsigned n)
{
    struct python *p = arg;
    aclrtEventRecordedStatus status;
    aclError error = ACL_SUCCESS;
    uint64_t start = now_ns();

    for (unsigned i = 0; i < n; i++)
        error |= aclrtQueryEventStatus(p->event, &status);
    start = now_ns() - start;
    check_acl(error, "aclrtQueryEventStatus");
    return (double)start / n;
}

static double record_side(void *arg, unsigned n)
{
    struct python *p = arg;
    aclError error = ACL_SUCCESS;
    uint64_t start = now_ns();

    for (unsigned i = 0; i < n; i++)
        error |= aclrtRecordEvent(p->event, p->stream);
    start = now_ns() - start;
    check_acl(error, "aclrtRecordEvent");
    CHECK(aclrtSynchronizeStream(p->stream));
    return (double)start / n;
}

static void python_contest(struct python *p, const char *name, const char *row_name,
                           const char *what, side_fn baseline)
{
    struct row row = {.name = row_name, .what = what, .budget = BUDGET_NONE};
    struct contest contest = {
        .value = python_side,
        .baseline = baseline,
        .arg = p,
        .n_value = BURST,
        .n_baseline = BURST,
        .rounds = count_of(2000, 20),
    };
    struct result result;

    p->name = name;
    result = contest_run(&row, &contest);
    snprintf(result.note, sizeof(result.note), "Python adds %.0f ns",
             result.value_ns - result.baseline_ns);
    result_emit(&result);
}

void rows_python(void)
{
    struct python p = {0};

    if (!piped_start(&p.process, exec_python, NULL))
        die("python: %m");
    CHECK(aclInit(NULL));
    CHECK(aclrtSetDevice(0));
    CHECK(aclrtCreateStream(&p.stream));
    CHECK(aclrtCreateEventExWithFlag(&p.event, ACL_EVENT_SYNC));
    CHECK(aclrtRecordEvent(p.event, p.stream));
    CHECK(aclrtSynchronizeEvent(p.event));
    python_contest(&p, "query", "14-query", "acl.rt.query_event_status, beside C", query_side);
    python_contest(&p, "record", "14-record", "acl.rt.record_event, beside C", record_side);
    CHECK(aclrtResetDevice(0));
    CHECK(aclFinalize());
    expect_success("python", piped_end(&p.process));
}
