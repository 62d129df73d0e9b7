/*
 * Row 20: what npud has in memory of its own for a session that has nothing yet, for one with a
 * device (which has a default stream), and for each event and stream; and of an npud that comes
 * back, what it keeps for the next one beside that. Each has an npud of its own: what the heap has
 * kept of sessions that were there before would stand for new ones.
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
/* Bytes that the next npud needs of each; as baselines. */
#define EVENT_KEPT  32
#define STREAM_KEPT 384

/* --- processes, each with a session --- */

struct flock {
    unsigned n; /* processes */
    bool device;
    unsigned events, streams; /* of each */
    int there[2];             /* each writes a byte when its session is there, and ... */
    int make[2];              /* ... when it has made these, for which it takes a byte */
    int leave[2];             /* it leaves at its end */
};

static void fill_session(const struct flock *f)
{
    uint32_t devices;

    CHECK(aclInit(NULL));
    CHECK(aclrtGetDeviceCount(&devices)); /* connects */
    if (f->device)
        CHECK(aclrtSetDevice(0));
}

static void make_objects(const struct flock *f)
{
    aclrtStream stream;
    aclrtEvent event;

    for (unsigned i = 0; i < f->events; i++)
        CHECK(aclrtCreateEventExWithFlag(&event, ACL_EVENT_SYNC));
    for (unsigned i = 0; i < f->streams; i++)
        CHECK(aclrtCreateStream(&stream));
}

static bool tell(const struct flock *f)
{
    return write(f->there[1], "", 1) == 1;
}

static int be_member(void *arg)
{
    const struct flock *f = arg;
    char c;

    close(f->make[1]);
    close(f->leave[1]);
    fill_session(f);
    if (!tell(f))
        return 1;
    if (read(f->make[0], &c, 1) == 1) {
        make_objects(f);
        if (!tell(f))
            return 1;
    }
    (void)!read(f->leave[0], &c, 1);
    return 0;
}

static void await_members(const struct flock *f)
{
    char c;

    for (unsigned i = 0; i < f->n; i++)
        if (read(f->there[0], &c, 1) != 1)
            die("a member is gone");
}

static void flock_start(struct flock *f, pid_t *pids)
{
    if (pipe(f->there) < 0 || pipe(f->make) < 0 || pipe(f->leave) < 0)
        die("pipe: %m");
    for (unsigned i = 0; i < f->n; i++)
        pids[i] = start_process(be_member, f);
    await_members(f);
}

static void flock_make(struct flock *f)
{
    for (unsigned i = 0; i < f->n; i++)
        if (write(f->make[1], "", 1) != 1)
            die("pipe: %m");
    await_members(f);
}

static void flock_end(struct flock *f, const pid_t *pids)
{
    close(f->make[1]);
    close(f->leave[1]);
    for (unsigned i = 0; i < f->n; i++)
        expect_success("member", process_end(pids[i]));
    close(f->leave[0]);
    close(f->make[0]);
    close(f->there[0]);
    close(f->there[1]);
}

/* --- what they cost --- */

struct cost {
    double own, kept; /* bytes, of each process or object */
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
    unsigned objects = f.events + f.streams;
    double n = (double)f.n * (objects > 0 ? objects : 1);
    struct cost before, after;

    if (!pids)
        die("out of memory");
    before = bytes_now(npud);
    flock_start(&f, pids);
    if (objects > 0) {
        before = bytes_now(npud);
        flock_make(&f);
    }
    after = bytes_now(npud);
    flock_end(&f, pids);
    free(pids);
    return (struct cost){.own = (after.own - before.own) / n,
                         .kept = (after.kept - before.kept) / n};
}

static void emit_bytes(const char *name, const char *what, double bytes, double baseline,
                       double budget)
{
    struct row row = {.name = name, .what = what, .budget = budget};
    struct result r = result_of_samples(&row, &bytes, 1, baseline);

    snprintf(r.unit, sizeof(r.unit), "bytes");
    result_emit(&r);
}

#define SESSIONS 500u
#define FULL     20u /* with many things */
#define EVENTS   2000u
#define STREAMS  200u

/* --- npud does not come back: what it would keep is part of its own memory --- */

void rows_footprint_session(void)
{
    struct cost c = cost_of((struct flock){.n = count_of(SESSIONS, 5)});

    emit_bytes("20-session", "npud's own memory for an idle session", c.own, SESSION_BYTES, 1);
}

void rows_footprint_device(void)
{
    struct cost c = cost_of((struct flock){.n = count_of(SESSIONS, 5), .device = true});

    emit_bytes("20-device", "the same with a device", c.own, SESSION_BYTES + STREAM_BYTES, 1);
}

static struct cost event_cost(void)
{
    return cost_of(
        (struct flock){.n = count_of(FULL, 2), .device = true, .events = count_of(EVENTS, 10)});
}

static struct cost stream_cost(void)
{
    return cost_of(
        (struct flock){.n = count_of(FULL, 2), .device = true, .streams = count_of(STREAMS, 10)});
}

void rows_footprint_event(void)
{
    emit_bytes("20-event", "the same for an event", event_cost().own, EVENT_BYTES, 1);
}

void rows_footprint_stream(void)
{
    emit_bytes("20-stream", "the same for a stream", stream_cost().own, STREAM_BYTES + STREAM_KEPT,
               1);
}

/* --- npud comes back --- */

void rows_kept_session(void)
{
    struct cost c = cost_of((struct flock){.n = count_of(SESSIONS, 5)});

    emit_bytes("20-back", "npud that comes back: own memory, idle session", c.own, SESSION_BYTES,
               1);
    emit_bytes("20-kept", "kept tables for it", c.kept, KEPT_BYTES, 1);
}

void rows_kept_device(void)
{
    struct cost c = cost_of((struct flock){.n = count_of(SESSIONS, 5), .device = true});

    emit_bytes("20-back-dev", "own memory with a device", c.own, SESSION_BYTES + STREAM_BYTES, 1);
    emit_bytes("20-kept-dev", "kept tables for it", c.kept, KEPT_BYTES, 1);
}

void rows_kept_event(void)
{
    struct cost c = event_cost();

    emit_bytes("20-back-ev", "own memory for an event", c.own, EVENT_BYTES, 1);
    emit_bytes("20-kept-ev", "kept for it; vs its record", c.kept, EVENT_KEPT, BUDGET_NONE);
}

void rows_kept_stream(void)
{
    struct cost c = stream_cost();

    emit_bytes("20-back-str", "own memory for a stream", c.own, STREAM_BYTES, 1);
    emit_bytes("20-kept-str", "kept for it; vs its record", c.kept, STREAM_KEPT, BUDGET_NONE);
}
