/* Rows 1 and 2: what a call costs its caller, in units of one system call. */
#include "tests/bench/bench.h"

#include "acl/acl_npud.h"

#define BURST 400 /* calls: fewer than fit into a ring of 1024 tasks */

static aclrtEvent new_event(uint32_t flags)
{
    aclrtEvent event;

    CHECK(aclrtCreateEventExWithFlag(&event, flags));
    return event;
}

static aclrtStream new_stream(void)
{
    aclrtStream stream;

    CHECK(aclrtCreateStream(&stream));
    return stream;
}

/* --- row 1 --- */

static double query_event(void *arg, unsigned n)
{
    aclrtEventRecordedStatus status = ACL_EVENT_RECORDED_STATUS_COMPLETE;
    unsigned missing = 0;
    uint64_t start = now_ns();

    for (unsigned i = 0; i < n; i++) {
        missing += aclrtQueryEventStatus(arg, &status) != ACL_SUCCESS;
        missing += status != ACL_EVENT_RECORDED_STATUS_COMPLETE;
    }
    start = now_ns() - start;
    if (missing)
        die("aclrtQueryEventStatus: %u answers were wrong", missing);
    return (double)start / n;
}

static struct result query_contest(const char *name, const char *what, aclrtEvent event,
                                   aclrtStream stream)
{
    struct row row = {.name = name, .what = what, .budget = BUDGET_NONE};
    struct contest contest = {
        .value = query_event,
        .baseline = side_getppid,
        .arg = event,
        .n_value = 10000,
        .n_baseline = 500,
        .rounds = count_of(1000, 20),
    };

    /* Behind a task: the record is one that the engine retired, as an ordinary program's are. */
    CHECK(aclnpudLaunchDelay(0, ACL_SUCCESS, stream));
    CHECK(aclrtRecordEvent(event, stream));
    CHECK(aclrtSynchronizeEvent(event));
    return contest_run(&row, &contest);
}

void rows_query(void)
{
    struct result results[4];
    aclrtStream stream;
    aclrtEvent plain;

    CHECK(aclInit(NULL));
    CHECK(aclrtSetDevice(0));
    stream = new_stream();
    CHECK(aclrtCreateEvent(&plain));
    results[0] =
        query_contest("1-sync", "query event, SYNC (c)", new_event(ACL_EVENT_SYNC), stream);
    results[1] = query_contest("1-time", "query event, SYNC|TIME_LINE (c)",
                               new_event(ACL_EVENT_SYNC | ACL_EVENT_TIME_LINE), stream);
    results[2] = query_contest("1-default", "query event, aclrtCreateEvent (a)", plain, stream);
    results[3] = query_contest("1-ipc", "query event, IPC", new_event(ACL_EVENT_IPC), stream);
    results_emit_worst("1", results, 4);
    CHECK(aclrtResetDevice(0));
    CHECK(aclFinalize());
}

/* --- row 2 --- */

/*
 * `open` runs: its tasks keep the engine awake, and it opens the gate. `held` queues: its first
 * task of a burst waits for the gate, so that the engine runs nothing of what follows. `other`
 * takes the waits for what is pending in `held`.
 */
struct calls {
    aclrtStream open, held, other;
    aclrtEvent gate;
    aclrtEvent event; /* what the burst records or waits for */
    aclError (*burst)(struct calls *c, unsigned n);
};

static void keep_awake(struct calls *c)
{
    aclrtStreamStatus status = ACL_STREAM_STATUS_NOT_READY;

    CHECK(aclnpudLaunchDelay(0, ACL_SUCCESS, c->open));
    while (status != ACL_STREAM_STATUS_COMPLETE)
        CHECK(aclrtStreamQuery(c->open, &status));
}

static void hold_stream(struct calls *c)
{
    CHECK(aclrtStreamWaitEvent(c->held, c->gate));
    CHECK(aclrtResetEvent(c->gate, c->held));
}

static void release_stream(struct calls *c)
{
    CHECK(aclrtRecordEvent(c->gate, c->open));
    CHECK(aclrtSynchronizeStream(c->held));
    CHECK(aclrtSynchronizeStream(c->open));
}

static double timed_burst(struct calls *c, unsigned n)
{
    uint64_t start;
    aclError error;

    keep_awake(c);
    start = now_ns();
    error = c->burst(c, n);
    start = now_ns() - start;
    check_acl(error, "burst");
    return (double)start / n;
}

static double idle_side(void *arg, unsigned n)
{
    struct calls *c = arg;
    double ns = timed_burst(c, n);

    CHECK(aclrtSynchronizeStream(c->open));
    return ns;
}

static double held_side(void *arg, unsigned n)
{
    struct calls *c = arg;
    double ns;

    hold_stream(c);
    ns = timed_burst(c, n);
    release_stream(c);
    return ns;
}

/* The event has a record pending in `held`, and `other` waits for it. */
static double pending_side(void *arg, unsigned n)
{
    struct calls *c = arg;
    double ns;

    hold_stream(c);
    CHECK(aclrtRecordEvent(c->event, c->held));
    ns = timed_burst(c, n);
    release_stream(c);
    CHECK(aclrtSynchronizeStream(c->other));
    return ns;
}

static aclError burst_record_open(struct calls *c, unsigned n)
{
    aclError error = ACL_SUCCESS;

    for (unsigned i = 0; i < n; i++)
        error |= aclrtRecordEvent(c->event, c->open);
    return error;
}

static aclError burst_record_held(struct calls *c, unsigned n)
{
    aclError error = ACL_SUCCESS;

    for (unsigned i = 0; i < n; i++)
        error |= aclrtRecordEvent(c->event, c->held);
    return error;
}

static aclError burst_wait_other(struct calls *c, unsigned n)
{
    aclError error = ACL_SUCCESS;

    for (unsigned i = 0; i < n; i++)
        error |= aclrtStreamWaitEvent(c->other, c->event);
    return error;
}

static aclError burst_wait_open(struct calls *c, unsigned n)
{
    aclError error = ACL_SUCCESS;

    for (unsigned i = 0; i < n; i++)
        error |= aclrtStreamWaitEvent(c->open, c->event);
    return error;
}

static aclError burst_launch_open(struct calls *c, unsigned n)
{
    aclError error = ACL_SUCCESS;

    for (unsigned i = 0; i < n; i++)
        error |= aclnpudLaunchDelay(0, ACL_SUCCESS, c->open);
    return error;
}

static aclError burst_launch_held(struct calls *c, unsigned n)
{
    aclError error = ACL_SUCCESS;

    for (unsigned i = 0; i < n; i++)
        error |= aclnpudLaunchDelay(0, ACL_SUCCESS, c->held);
    return error;
}

/* Every second call is a task that only an engine can run, so that the records between find the
 * stream busy. */
static aclError burst_record_running(struct calls *c, unsigned n)
{
    aclError error = ACL_SUCCESS;

    for (unsigned i = 0; i < n; i += 2) {
        error |= aclnpudLaunchDelay(0, ACL_SUCCESS, c->open);
        error |= aclrtRecordEvent(c->event, c->open);
    }
    return error;
}

static const struct kind {
    const char *name, *what;
    uint32_t flags;
    side_fn side;
    aclError (*burst)(struct calls *c, unsigned n);
} kinds[] = {
    {"2-rec-idle", "record SYNC event, idle stream", ACL_EVENT_SYNC, idle_side, burst_record_open},
    {"2-rec-idle-t", "record SYNC|TIME_LINE event, idle stream",
     ACL_EVENT_SYNC | ACL_EVENT_TIME_LINE, idle_side, burst_record_open},
    {"2-rec-idle-i", "record IPC event, idle stream", ACL_EVENT_IPC, idle_side, burst_record_open},
    {"2-rec-run", "launch task, record SYNC|TIME_LINE: stream being drained, per call",
     ACL_EVENT_SYNC | ACL_EVENT_TIME_LINE, idle_side, burst_record_running},
    {"2-launch", "launch a task, stream being drained", ACL_EVENT_SYNC, idle_side,
     burst_launch_open},
    {"2-launch-held", "launch a task, queued behind a wait", ACL_EVENT_SYNC, held_side,
     burst_launch_held},
    {"2-rec-held", "record SYNC event, queued behind a wait", ACL_EVENT_SYNC, held_side,
     burst_record_held},
    {"2-rec-held-t", "record SYNC|TIME_LINE event, queued behind a wait",
     ACL_EVENT_SYNC | ACL_EVENT_TIME_LINE, held_side, burst_record_held},
    {"2-rec-held-i", "record IPC event, queued behind a wait", ACL_EVENT_IPC, held_side,
     burst_record_held},
    {"2-wait-done", "wait for a complete SYNC event, idle stream", ACL_EVENT_SYNC, idle_side,
     burst_wait_open},
    {"2-wait-done-i", "wait for a complete IPC event, idle stream", ACL_EVENT_IPC, idle_side,
     burst_wait_open},
    {"2-wait-pend", "wait for a pending SYNC event, queued", ACL_EVENT_SYNC, pending_side,
     burst_wait_other},
    {"2-wait-pend-i", "wait for a pending IPC event, queued", ACL_EVENT_IPC, pending_side,
     burst_wait_other},
};

#define N_KINDS (sizeof(kinds) / sizeof(kinds[0]))

static struct result call_contest(struct calls *c, const struct kind *kind)
{
    struct row row = {.name = kind->name, .what = kind->what, .budget = BUDGET_NONE};
    struct contest contest = {
        .value = kind->side,
        .baseline = side_getppid,
        .arg = c,
        .n_value = BURST,
        .n_baseline = BURST,
        .rounds = count_of(1000, 20),
    };
    struct result result;

    c->event = new_event(kind->flags);
    c->burst = kind->burst;
    CHECK(aclrtRecordEvent(c->event, c->open));
    CHECK(aclrtSynchronizeEvent(c->event));
    result = contest_run(&row, &contest);
    CHECK(aclrtDestroyEvent(c->event));
    return result;
}

void rows_record(void)
{
    struct result results[N_KINDS];
    struct calls calls;

    CHECK(aclInit(NULL));
    CHECK(aclrtSetDevice(0));
    calls.held = new_stream();
    calls.open = new_stream();
    calls.other = new_stream();
    CHECK(aclrtCreateEventWithFlag(&calls.gate, ACL_EVENT_SYNC));
    for (unsigned i = 0; i < N_KINDS; i++)
        results[i] = call_contest(&calls, &kinds[i]);
    results_emit_worst("2", results, N_KINDS);
    CHECK(aclrtResetDevice(0));
    CHECK(aclFinalize());
}
