/*
 * Row 20: what npud has in memory of its own for a session that has nothing yet, for one with a
 * device (which has a default stream), and for each event and stream; and of an npud that comes
 * back, what it keeps for the next one beside that.
 */
#include "tests/bench/bench.h"

#include <stdlib.h>
#include <unistd.h>

#include "tests/common/proc.h"
#include "tests/common/process.h"

/* Bytes: the budgets. */
#define SESSION_BYTES 4096
#define KEPT_BYTES    2048
#define EVENT_BYTES   120
#define STREAM_BYTES  400

/* --- processes, each with a session --- */

struct flock {
    unsigned n; /* processes */
    bool device;
    unsigned events, streams; /* of each */
    int there[2], leave[2];   /* each writes a byte when it is there, and leaves at the end */
};

static void fill_session(const struct flock *f)
{
    aclrtStream stream;
    aclrtEvent event;
    uint32_t devices;

    CHECK(aclInit(NULL));
    CHECK(aclrtGetDeviceCount(&devices)); /* connects */
    if (f->device)
        CHECK(aclrtSetDevice(0));
    for (unsigned i = 0; i < f->events; i++)
        CHECK(aclrtCreateEventExWithFlag(&event, ACL_EVENT_SYNC));
    for (unsigned i = 0; i < f->streams; i++)
        CHECK(aclrtCreateStream(&stream));
}

static int be_member(void *arg)
{
    const struct flock *f = arg;
    char c = 0;

    close(f->leave[1]);
    fill_session(f);
    if (write(f->there[1], &c, 1) != 1)
        return 1;
    (void)!read(f->leave[0], &c, 1);
    return 0;
}

static void flock_start(struct flock *f, pid_t *pids)
{
    char c;

    if (pipe(f->there) < 0 || pipe(f->leave) < 0)
        die("pipe: %m");
    for (unsigned i = 0; i < f->n; i++)
        pids[i] = start_process(be_member, f);
    for (unsigned i = 0; i < f->n; i++)
        if (read(f->there[0], &c, 1) != 1)
            die("a member is gone");
}

static void flock_end(struct flock *f, const pid_t *pids)
{
    close(f->leave[1]);
    for (unsigned i = 0; i < f->n; i++)
        expect_success("member", process_end(pids[i]));
    close(f->leave[0]);
    close(f->there[0]);
    close(f->there[1]);
}

/* --- what they cost --- */

struct cost {
    double own, kept; /* bytes, of each process */
};

static struct cost bytes_now(pid_t npud)
{
    await_quiet(npud);
    return (struct cost){.own = (double)proc_usage(npud).anon,
                         .kept = (double)proc_present(npud, "npud-kept")};
}

static struct cost cost_of(struct flock f)
{
    pid_t npud = bench_npud_pid(), *pids = calloc(f.n, sizeof(*pids));
    struct cost before, after;

    if (!pids)
        die("out of memory");
    before = bytes_now(npud);
    flock_start(&f, pids);
    after = bytes_now(npud);
    flock_end(&f, pids);
    free(pids);
    return (struct cost){.own = (after.own - before.own) / f.n,
                         .kept = (after.kept - before.kept) / f.n};
}

static void emit_bytes(const char *name, const char *what, double bytes, double budget)
{
    struct row row = {.name = name, .what = what, .budget = 1};
    struct result r = result_of_samples(&row, &bytes, 1, budget);

    snprintf(r.unit, sizeof(r.unit), "bytes");
    result_emit(&r);
}

#define SESSIONS 500u
#define FULL     20u /* with many things */
#define EVENTS   2000u
#define STREAMS  200u

static struct cost session_cost(bool device)
{
    return cost_of((struct flock){.n = count_of(SESSIONS, 5), .device = device});
}

static double event_bytes(double session)
{
    struct flock f = {.n = count_of(FULL, 2), .device = true, .events = count_of(EVENTS, 10)};

    return (cost_of(f).own - session) / f.events;
}

static double stream_bytes(double session)
{
    struct flock f = {.n = count_of(FULL, 2), .device = true, .streams = count_of(STREAMS, 10)};

    return (cost_of(f).own - session) / f.streams;
}

void rows_footprint(void)
{
    double session = session_cost(false).own, device = session_cost(true).own;

    emit_bytes("20-session", "npud's own memory for an idle session", session, SESSION_BYTES);
    emit_bytes("20-device", "the same with a device", device, SESSION_BYTES + STREAM_BYTES);
    emit_bytes("20-event", "the same for an event", event_bytes(device), EVENT_BYTES);
    emit_bytes("20-stream", "the same for a stream", stream_bytes(device), STREAM_BYTES);
}

void rows_footprint_kept(void)
{
    emit_bytes("20-kept", "kept tables for an idle session; npud that comes back",
               session_cost(false).kept, KEPT_BYTES);
    emit_bytes("20-kept-dev", "the same with a device", session_cost(true).kept, KEPT_BYTES);
}
