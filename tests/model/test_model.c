/*
 * Random programs against a model of the reference: see model.h.
 *
 * usage: test_model [--seed S] [--count N] [--verbose]      also MODEL_SEED, MODEL_COUNT
 * Runs the programs of the seeds S, S + 1, ... On a failure it prints the smallest program it can
 * find that still fails, what the model said and what npud did.
 *
 * Runs long: 9 s.
 */
#include <getopt.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/common/effort.h"
#include "tests/common/actor.h"
#include "tests/common/harness.h"
#include "tests/common/single.h"
#include "tests/model/program.h"
#include "tests/model/worker.h"

#define GUARD_MS        300000 /* against hanging only */
#define GUARD_SHRINK_MS 1000
#define SHRINK_NS       UINT64_C(60000000000)
#define LEDGER_EVERY    200 /* programs between two looks at npud's ledger */
#define EXPIRE_EVERY                                                                               \
    997 /* programs of which one holds a wait that runs out of time, which takes a second */

static struct {
    uint64_t seed, count;
    bool verbose;
    uint64_t passed;
    uint64_t steps;
    struct counters counters;
} run = {.seed = 1};

/* --- the world: npud and the processes --- */

static struct {
    struct actor actor[PROCESSES];
    uint32_t events; /* that npud counts between programs */
    int32_t guard_ms;
    aclrtIpcEventHandle handle[OBJECTS];
    bool exported[OBJECTS];
    struct view last[PROCESSES]; /* as last settled */
} world = {.guard_ms = GUARD_MS};

static int process_main(int fd, void *arg)
{
    alarm(0); /* the test has a limit of its own for each answer */
    return worker_run((unsigned)(uintptr_t)arg, fd);
}

static void world_start(void)
{
    npud_start(NULL);
    for (unsigned p = 0; p < PROCESSES; p++)
        actor_start(&world.actor[p], process_main, (void *)(uintptr_t)p);
    world.events = 0;
}

/* Whatever state it is in. */
static void world_kill(void)
{
    for (unsigned p = 0; p < PROCESSES; p++)
        actor_kill(&world.actor[p]);
    npud_kill();
}

static void world_stop(void)
{
    for (unsigned p = 0; p < PROCESSES; p++)
        actor_end(&world.actor[p]);
    npud_expect_empty();
    npud_teardown();
}

/* --- failures --- */

struct failure {
    bool failed;
    int at; /* step of the trace; -1: between programs */
    char text[1024];
};

__attribute__((format(printf, 3, 4))) static void disagree(struct failure *f, int at,
                                                           const char *format, ...)
{
    va_list args;

    if (f->failed)
        return;
    f->failed = true;
    f->at = at;
    va_start(args, format);
    vsnprintf(f->text, sizeof(f->text), format, args);
    va_end(args);
}

/* --- talking to the processes --- */

static void send_orders(unsigned p, const struct order *orders, unsigned n, struct failure *f,
                        int at)
{
    if (!actor_tell(&world.actor[p], orders, n * sizeof(*orders)))
        disagree(f, at, "process p%u is gone", p);
}

/* Number of reports. */
static unsigned receive_reports(unsigned p, struct report *reports, struct failure *f, int at)
{
    struct pollfd poll_fd = {.fd = world.actor[p].fd, .events = POLLIN};
    ssize_t size;

    if (poll(&poll_fd, 1, BATCH * (world.guard_ms + 2000)) != 1) {
        disagree(f, at, "process p%u does not answer", p);
        return 0;
    }
    size = recv(world.actor[p].fd, reports, BATCH * sizeof(*reports), 0);
    if (size <= 0)
        disagree(f, at, "process p%u ended, or a call of it did not return", p);
    return size <= 0 ? 0 : (unsigned)((size_t)size / sizeof(*reports));
}

/* --- comparing --- */

static const char *answer_name(const struct step *s, unsigned i)
{
    static const char *const query[ANSWERS] = {"aclrtQueryEvent", "aclrtQueryEventStatus",
                                               "aclrtQueryEventWaitStatus", "aclrtGetEventId",
                                               "aclrtEventGetTimestamp"};

    if (s->op == OP_QUERY)
        return query[i];
    return i == 0 ? "the call" : "the second call";
}

static void compare_answer(const struct expected *e, const struct seen *seen, const char *what,
                           int at, struct failure *f)
{
    if (seen->code != e->code && seen->code != e->alt)
        disagree(f, at, "%s: the model says it returns %d, npud returned %d", what, e->code,
                 seen->code);
    else if (e->check && seen->code == 0 && e->min == 0 && e->max == 0 && seen->value != e->value)
        disagree(f, at, "%s: the model says value %d, npud gave %d", what, e->value, seen->value);
    else if (e->check && seen->code == 0 && (e->min != 0 || e->max != 0) &&
             !(seen->ms >= e->min && seen->ms <= e->max))
        disagree(f, at, "%s: the model says %g to %g ms, npud gave %g ms", what, (double)e->min,
                 (double)e->max, (double)seen->ms);
}

static void compare_handle(const struct traced *t, const struct report *r, int at,
                           struct failure *f)
{
    aclrtIpcEventHandle *known = &world.handle[t->object];

    if (world.exported[t->object] && memcmp(known, &r->handle, sizeof(*known)) != 0)
        disagree(f, at, "the event was exported before with other bytes");
    world.exported[t->object] = true;
    *known = r->handle;
}

static void compare_trouble(unsigned p, const struct report *r, const struct view *v, int at,
                            struct failure *f)
{
    switch (r->trouble) {
    case TROUBLE_STUCK:
        disagree(f, at,
                 "p%u: the model says s%u gets past %u of its %u tasks, npud did not bring it "
                 "there in %d ms (%d)",
                 p, r->where, v->executed[r->where], v->submitted[r->where], world.guard_ms,
                 r->code);
        break;
    case TROUBLE_AHEAD:
        disagree(f, at, "p%u: the model says s%u stays after %u of its %u tasks, npud let it go on",
                 p, r->where, v->executed[r->where], v->submitted[r->where]);
        break;
    case TROUBLE_STATUS:
        disagree(f, at,
                 "p%u: aclrtStreamQuery(s%u): the model says %s, npud said the opposite, or an "
                 "error (%d)",
                 p, r->where,
                 v->executed[r->where] == v->submitted[r->where] ? "COMPLETE" : "NOT_READY",
                 r->code);
        break;
    case TROUBLE_ASLEEP:
        disagree(f, at, "p%u: the model says the second thread's synchronise returns, it did not",
                 p);
        break;
    case TROUBLE_AWAKE:
        disagree(f, at, "p%u: the model says the second thread sleeps, its synchronise returned %d",
                 p, r->code);
        break;
    case TROUBLE_SLEEP_CODE:
        disagree(f, at,
                 "p%u: the model says the second thread's synchronise returns 0, it returned %d", p,
                 r->code);
        break;
    default:
        break;
    }
}

static void compare_settled(unsigned p, const struct report *r, const struct view *v, bool looked,
                            int at, struct failure *f)
{
    char what[64];

    compare_trouble(p, r, v, at, f);
    for (unsigned i = 0; i < VARS && looked; i++) {
        snprintf(what, sizeof(what), "p%u: aclrtQueryEventStatus(e%u)", p, i);
        compare_answer(&v->status[i], &r->status[i], what, at, f);
    }
    world.last[p] = *v;
}

static bool concerns_process(const struct traced *t, unsigned p)
{
    return t->view[p].sleeper == SLEEPER_RETURNS ||
           memcmp(t->view[p].executed, world.last[p].executed, sizeof(t->view[p].executed)) != 0;
}

static bool concerns_others(const struct traced *t)
{
    for (unsigned p = 0; p < PROCESSES; p++)
        if (p != t->step.process && concerns_process(t, p))
            return true;
    return false;
}

/* What others have set in motion must have come to rest before one can look at IPC events. */
static bool can_look_at_events(const struct traced *t)
{
    return t->settle && !concerns_others(t);
}

static void compare_step(const struct traced *t, const struct report *r, int at, struct failure *f)
{
    if (r->n != t->expect.n) /* the harness itself is wrong */
        disagree(f, at, "%u answers where the model has %u", r->n, t->expect.n);
    for (unsigned i = 0; i < t->expect.n; i++)
        compare_answer(&t->expect.answer[i], &r->answer[i], answer_name(&t->step, i), at, f);
    if (t->step.op == OP_EXPORT && r->answer[0].code == 0)
        compare_handle(t, r, at, f);
    if (t->settle)
        compare_settled(t->step.process, r, &t->view[t->step.process], can_look_at_events(t), at,
                        f);
}

/* --- running a program --- */

/*
 * How many steps from `first` on one process can do without the others having to see what they did.
 */
static unsigned batch_length(const struct trace *t, unsigned first)
{
    unsigned n = 0;

    while (first + n < t->n && n < BATCH &&
           t->at[first + n].step.process == t->at[first].step.process) {
        const struct traced *step = &t->at[first + n++];

        if (step->step.op == OP_EXPORT || (step->settle && concerns_others(step)))
            break;
    }
    return n;
}

static void make_order(const struct traced *t, struct order *o)
{
    *o = (struct order){
        .kind = ORDER_STEP,
        .settle = t->settle,
        .look = can_look_at_events(t),
        .blocks = t->expect.blocks,
        .guard_ms = world.guard_ms,
        .step = t->step,
        .view = t->view[t->step.process],
    };
    if (t->step.op == OP_OPEN)
        o->handle = world.handle[t->object];
}

static void run_batch(const struct trace *t, unsigned first, unsigned n, struct failure *f)
{
    static struct order orders[BATCH];
    static struct report reports[BATCH];
    unsigned p = t->at[first].step.process, got;

    for (unsigned i = 0; i < n; i++)
        make_order(&t->at[first + i], &orders[i]);
    send_orders(p, orders, n, f, (int)first);
    got = f->failed ? 0 : receive_reports(p, reports, f, (int)first);
    for (unsigned i = 0; i < got; i++)
        compare_step(&t->at[first + i], &reports[i], (int)(first + i), f);
}

static void settle_some(const struct traced *t, const bool *asked, bool look, int at,
                        struct failure *f)
{
    static struct report reports[BATCH];
    struct order o = {.kind = ORDER_SETTLE, .settle = 1, .look = look, .guard_ms = world.guard_ms};

    for (unsigned p = 0; p < PROCESSES && !f->failed; p++)
        if (asked[p]) {
            o.view = t->view[p];
            send_orders(p, &o, 1, f, at);
        }
    for (unsigned p = 0; p < PROCESSES && !f->failed; p++)
        if (asked[p] && receive_reports(p, reports, f, at) == 1)
            compare_settled(p, reports, &t->view[p], look, at, f);
}

/*
 * Let the processes whose streams or threads went on see that, and then all of them look; all:
 * every process.
 */
static void settle_others(const struct traced *t, bool all, int at, struct failure *f)
{
    bool asked[PROCESSES], any = false;

    for (unsigned p = 0; p < PROCESSES; p++) {
        asked[p] = all || (p != t->step.process && concerns_process(t, p));
        any |= asked[p];
    }
    if (!any)
        return;
    settle_some(t, asked, false, at, f);
    asked[t->step.process] = true;
    settle_some(t, asked, true, at, f);
}

static void begin_program(struct failure *f)
{
    static struct report reports[BATCH];
    struct order o = {.kind = ORDER_BEGIN, .guard_ms = world.guard_ms};

    memset(world.exported, 0, sizeof(world.exported));
    memset(world.last, 0, sizeof(world.last));
    for (unsigned p = 0; p < PROCESSES && !f->failed; p++)
        send_orders(p, &o, 1, f, -1);
    for (unsigned p = 0; p < PROCESSES && !f->failed; p++)
        receive_reports(p, reports, f, -1);
}

static void run_trace(const struct trace *t, struct failure *f)
{
    unsigned n;

    *f = (struct failure){0};
    begin_program(f);
    for (unsigned i = 0; i < t->n && !f->failed; i += n) {
        n = batch_length(t, i);
        run_batch(t, i, n, f);
        if (!f->failed && t->at[i + n - 1].settle)
            settle_others(&t->at[i + n - 1], i + n == t->n, (int)(i + n - 1), f);
    }
}

/* --- what npud holds between programs --- */

static void check_ledger(struct failure *f)
{
    uint64_t give_up = now_ns() + (uint64_t)GUARD_MS * 1000000;
    struct ledger l;

    /*
     * Events with tasks pending go when npud hears that these have passed: asking is how to wait
     * for that.
     */
    do {
        l = npud_ledger();
    } while (world.events != 0 && l.events != world.events && now_ns() < give_up);
    if (world.events == 0)
        world.events = l.events;
    if (l.events != world.events)
        disagree(f, -1, "npud holds %u events where it held %u before", l.events, world.events);
}

/* --- when one fails --- */

struct shrinking {
    uint64_t give_up;
    unsigned tried;
    struct failure failure; /* of the smallest program */
};

static bool still_fails(const struct program *p, void *arg)
{
    static struct trace trace;
    struct shrinking *s = arg;
    struct failure f;

    if (!program_trace(p, &trace))
        return false;
    /* Twice: what depends on timing does not fail each time. */
    for (unsigned i = 0; i < 2; i++) {
        world_start();
        run_trace(&trace, &f);
        world_kill();
        s->tried++;
        if (f.failed) {
            s->failure = f;
            return true;
        }
    }
    return false;
}

static bool time_is_up(void *arg)
{
    const struct shrinking *s = arg;

    return now_ns() > s->give_up;
}

static void print_program(const struct program *p, const struct failure *f)
{
    static struct trace trace;
    struct step step;

    program_trace(p, &trace);
    for (unsigned i = 0; i < trace.n; i++) {
        printf("%s %3u  ", (int)i == f->at ? ">" : " ", i);
        step = trace.at[i].step;
        step.hasty = !trace.at[i].settle; /* what it amounted to */
        step_print(stdout, &step);
        if ((int)i == f->at)
            printf("\n       ^ %s", f->text);
        printf("\n");
        if ((int)i == f->at)
            break;
    }
    if (f->at < 0)
        printf("  %s\n", f->text);
}

/* The world is gone afterwards. */
static void explain_failure(const struct program *p, const struct failure *f)
{
    struct program small = *p;
    struct shrinking s = {.give_up = now_ns() + SHRINK_NS};

    printf("The program of seed %llu failed (streams s0 and s1 are the default stream and another "
           "of device 0, s2 and s3 of "
           "device 1):\n",
           (unsigned long long)p->seed);
    print_program(p, f);
    fflush(stdout);
    world_kill();
    world.guard_ms = GUARD_SHRINK_MS;
    if (f->at >= 0 && still_fails(&small, &s)) {
        program_shrink(&small, still_fails, time_is_up, &s);
        printf("\nThe smallest that still fails, after %u runs:\n", s.tried);
        print_program(&small, &s.failure);
        printf("\nAgain: test_model --seed %llu --count 1\n", (unsigned long long)p->seed);
    } else {
        printf("\nAlone it passes. Again, with all that came before: test_model --seed %llu "
               "--count %llu\n",
               (unsigned long long)run.seed, (unsigned long long)run.count);
    }
}

/* --- the run --- */

static void add_counters(const struct counters *c)
{
#define X(name, text) run.counters.name += c->name;
    MODEL_COUNTERS(X)
#undef X
}

static void print_counters(void)
{
    printf("%llu programs, %llu steps, among them:\n", (unsigned long long)run.passed,
           (unsigned long long)run.steps);
#define X(name, text) printf("%8u %s\n", run.counters.name, text);
    MODEL_COUNTERS(X)
#undef X
}

/* A run of some length that never meets a situation proves nothing about it. */
static void expect_all_met(void)
{
#define X(name, text) ck_assert_msg(run.counters.name > 0, "no program had %s", text);
    MODEL_COUNTERS(X)
#undef X
}

START_TEST(programs)
{
    static struct program program;
    static struct trace trace;
    struct failure f = {0};

    world_start();
    for (uint64_t i = 0; i < run.count; i++) {
        uint64_t seed = run.seed + i;

        program_generate(&program, seed, seed % EXPIRE_EVERY == 0);
        ck_assert_msg(program_trace(&program, &trace), "the program of seed %llu has no end",
                      (unsigned long long)seed);
        run_trace(&trace, &f);
        if (!f.failed && (i % LEDGER_EVERY == 0 || i + 1 == run.count))
            check_ledger(&f);
        if (f.failed) {
            explain_failure(&program, &f);
            ck_abort_msg("the program of seed %llu failed", (unsigned long long)seed);
        }
        run.passed++;
        run.steps += trace.n;
        add_counters(&trace.model.counters);
    }
    world_stop();
    if (run.verbose)
        print_counters();
    if (run.count >= 2000)
        expect_all_met();
}
END_TEST

static void parse_arguments(int argc, char **argv)
{
    static const struct option options[] = {
        {"seed", required_argument, NULL, 's'},
        {"count", required_argument, NULL, 'c'},
        {"verbose", no_argument, NULL, 'v'},
        {0},
    };
    int c;

    run.seed = number_from_env("MODEL_SEED", run.seed);
    run.count = number_from_env("MODEL_COUNT", choose_effort(2500, 20000));
    while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
        if (c == 's')
            run.seed = number_of(optarg);
        else if (c == 'c')
            run.count = number_of(optarg);
        else if (c == 'v')
            run.verbose = true;
        else
            exit(2);
    }
}

int main(int argc, char **argv)
{
    parse_arguments(argc, argv);
    return single_run("model", programs, &run.passed);
}
