/*
 * The soak test: see round.h.
 *
 * usage: test_soak [--seed S] [--seconds N] [--rounds N] [--kills yes|no] [--verbose]
 * also by the environment: SOAK_SEED, SOAK_SECONDS, SOAK_ROUNDS
 * Runs the programs of the seeds S, S + 1, ... for N seconds, each of so many rounds with an npud
 * and processes of its own. Of 24 rounds the last twelve have deaths among them, unless --kills no.
 * On a failure it prints seed and round, the operations that led to the wrong answer, and how far
 * everybody was;
 * with --verbose, all of that round.
 *
 * Runs long: 6 s.
 */
#include <errno.h>
#include <getopt.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "proto/util/clock.h"
#include "proto/util/futex.h"
#include "tests/common/actor.h"
#include "tests/common/proc.h"
#include "tests/common/harness.h"
#include "tests/common/single.h"
#include "tests/soak/plan.h"

#define HANG_MS (GUARD_MS + 20000) /* the processes' own guards come first and know more */

static struct {
    uint64_t seed, seconds, rounds;
    bool kills;
    bool verbose;
    uint64_t passed;
    uint64_t ops, deaths, edges;
    uint64_t did[WHATS];
    uint64_t not_ready, complete, lost, failures, expired;
} run = {.seed = 1, .seconds = 6, .rounds = 80, .kills = true};

static struct {
    struct common *common;
    struct actor actor[PROCESSES];
    struct plan plan;
    unsigned fds; /* of npud, before the first process */
    bool failed;
} world;

/* --- the world --- */

static int process_main(int fd, void *arg)
{
    alarm(0); /* the test has a limit of its own for each round */
    return worker_run(world.common, (unsigned)(uintptr_t)arg, fd);
}

static void process_start(unsigned p)
{
    actor_start(&world.actor[p], process_main, (void *)(uintptr_t)p);
}

static void world_start(void)
{
    static const char *const args[] = {"--devices=4", NULL};

    npud_start(args);
    plan_init(&world.plan);
    memset(world.common->progress, 0, sizeof(world.common->progress));
    npud_await_sessions(0);
    world.fds = proc_usage(npud.pid).fds;
    for (unsigned p = 0; p < PROCESSES; p++)
        process_start(p);
}

static void world_kill(void)
{
    for (unsigned p = 0; p < PROCESSES; p++)
        if (world.actor[p].pid != 0)
            actor_kill(&world.actor[p]);
    npud_kill();
}

/* npud closes what is left of connections in its own time: asking is how to wait for that. */
static void expect_fds_as_before(void)
{
    uint64_t give_up = now_ns() + 20 * NSEC_PER_SEC;
    unsigned fds;

    while ((fds = proc_usage(npud.pid).fds) > world.fds && now_ns() < give_up)
        npud_ledger();
    ck_assert_uint_le(fds, world.fds);
}

static void world_stop(void)
{
    for (unsigned p = 0; p < PROCESSES; p++)
        ck_assert(actor_tell(&world.actor[p], "q", 1));
    for (unsigned p = 0; p < PROCESSES; p++)
        actor_end(&world.actor[p]);
    npud_expect_empty();
    expect_fds_as_before();
    npud_teardown();
}

/* --- failures --- */

static void print_progress(const struct round *r)
{
    printf("\nHow far everybody was:\n");
    for (unsigned p = 0; p < PROCESSES; p++) {
        uint32_t done = atomic_load(&world.common->progress[p].done);

        printf("  p%u (process %d): %u of %u", p, (int)world.actor[p].pid, done, r->own[p]);
        for (unsigned i = 1; i < r->n; i++)
            if (r->op[i].process == p && r->op[i].number == done) {
                printf(", at %u  ", i);
                op_print(stdout, &r->op[i]);
            }
        printf("\n");
    }
}

static void print_waits(void)
{
    const char *dir = getenv("NPUD_BINDIR");
    char command[256];

    printf("\nnpuctl waits:\n");
    fflush(stdout);
    snprintf(command, sizeof(command), "%s/npuctl waits", dir ? dir : "build");
    if (system(command) != 0)
        printf("(npuctl failed)\n");
}

__attribute__((format(printf, 3, 4))) static void failed(const struct round *r, unsigned op,
                                                         const char *format, ...)
{
    va_list args;

    if (world.failed)
        return;
    world.failed = true;
    printf("Seed %llu, round %u", (unsigned long long)r->seed, r->number);
    if (r->victim >= 0)
        printf(" (p%d dies at %u)", r->victim, r->death);
    printf(": ");
    va_start(args, format);
    vprintf(format, args);
    va_end(args);
    printf("\n");
    fflush(stdout);
    if (op != 0) {
        printf("\nWhat led there (of p0 to p7; s0 to s7 are two streams on each of devices 0 to "
               "3):\n");
        round_print(stdout, r, op);
    }
    print_progress(r);
    print_waits();
    if (run.verbose) {
        printf("\nAll of the round:\n");
        round_print_all(stdout, r);
    }
    printf("\nAgain: NPUD_BINDIR=build build/tests/soak/test_soak --seed %llu --rounds %u "
           "--seconds 0\n",
           (unsigned long long)r->seed, r->number + 1);
    fflush(stdout);
}

/* --- a round --- */

static void all_done(unsigned p, const struct round *r)
{
    struct progress *progress = &world.common->progress[p];

    atomic_store(&progress->done, r->own[p] + 1);
    futex_wake_all(&progress->done);
}

static bool in_trouble(unsigned p)
{
    return world.common->trouble[p].text[0] != 0;
}

static void tell_trouble(unsigned p, const struct round *r)
{
    failed(r, world.common->trouble[p].op, "p%u: %u: %s", p, world.common->trouble[p].op,
           world.common->trouble[p].text);
}

/* The victim goes on doing things until it has done so many. */
static void kill_wild(const struct round *r)
{
    unsigned p = (unsigned)r->victim;
    _Atomic uint32_t *steps = &world.common->wild_steps;
    uint64_t limit = now_ns() + (uint64_t)GUARD_MS * 1000000;
    struct timespec deadline = {.tv_sec = (time_t)(limit / NSEC_PER_SEC)};
    uint32_t seen;

    while ((seen = atomic_load(steps)) < (uint32_t)r->op[r->death].arg && !in_trouble(p))
        if (futex_wait_until(steps, seen, &deadline) == -ETIMEDOUT) {
            failed(r, 0, "p%u is stuck in what it does before it is killed", p);
            return;
        }
    if (in_trouble(p))
        tell_trouble(p, r);
    else
        kill(world.actor[p].pid, SIGKILL);
}

/* A process has died: as it should? */
static void on_end(unsigned p, const struct round *r)
{
    actor_kill(&world.actor[p]);
    if ((int)p != r->victim ||
        atomic_load(&world.common->progress[p].done) != r->op[r->death].number) {
        failed(r, 0, "p%u ended", p);
        return;
    }
    all_done(p, r);
}

/* Returns whether the process has finished the round, alive or as it should. */
static bool on_message(unsigned p, const struct round *r)
{
    char c = 0;
    ssize_t n = recv(world.actor[p].fd, &c, 1, 0);

    if (n <= 0) {
        on_end(p, r);
        return true;
    }
    if (c == 'w') {
        kill_wild(r);
        return false;
    }
    if (c != '.')
        tell_trouble(p, r);
    return true;
}

static void order_round(unsigned which)
{
    char order = (char)('0' + which);

    for (unsigned p = 0; p < PROCESSES; p++)
        atomic_store(&world.common->progress[p].done, 0);
    memset(world.common->stamp, 0, sizeof(world.common->stamp));
    atomic_store(&world.common->wild_steps, 0);
    for (unsigned p = 0; p < PROCESSES; p++)
        if (!actor_tell(&world.actor[p], &order, 1))
            failed(&world.common->round[which], 0, "p%u is gone", p);
}

static void await_round(const struct round *r)
{
    struct pollfd polls[PROCESSES];
    unsigned missing = PROCESSES;

    for (unsigned p = 0; p < PROCESSES; p++)
        polls[p] = (struct pollfd){.fd = world.actor[p].fd, .events = POLLIN};
    while (missing > 0 && !world.failed) {
        int n = poll(polls, PROCESSES, HANG_MS);

        if (n == 0)
            failed(r, 0, "nothing happens any more");
        for (unsigned p = 0; p < PROCESSES && n > 0 && !world.failed; p++)
            if (polls[p].revents && on_message(p, r)) {
                polls[p].fd = -1;
                missing--;
            }
    }
}

/* Times across processes: devices share a clock here. */
static void check_edges(const struct round *r)
{
    for (unsigned i = 0; i < r->n_edges; i++) {
        const struct edge *e = &r->edge[i];
        uint64_t from = world.common->stamp[e->from_process][e->from_var - VAR_STAMP];
        uint64_t to = world.common->stamp[e->to_process][e->to_var - VAR_STAMP];

        if (from > to)
            failed(r, e->op, "p%u got past this wait at %llu us, p%u recorded at %llu us",
                   e->to_process, (unsigned long long)to, e->from_process,
                   (unsigned long long)from);
    }
}

static void count_round(const struct round *r)
{
    run.ops += r->n - 1;
    run.edges += r->n_edges;
    run.deaths += r->victim >= 0;
    for (unsigned i = 1; i < r->n; i++) {
        const struct op *op = &r->op[i];

        run.did[op->what]++;
        run.not_ready += op->status == STATUS_NOT_READY;
        run.complete += op->status == STATUS_COMPLETE;
        run.lost += op->codes == 1 && op->code[0] == ACL_ERROR_RT_SUSPECT_REMOTE_ERROR;
        run.failures += op->codes == 1 && op->what == DO_SYNC_STREAM && op->code[0] != 0;
        run.expired += op->arg == BLOCKED_MS && op->what == DO_SYNC_EVENT;
    }
}

static void make_round(uint64_t seed, uint32_t number)
{
    bool death = run.kills && number % 24 >= 12 && number % 3 == 2;

    generate(&world.plan, &world.common->round[number % 2], seed, number, death);
}

static void finish_round(const struct round *r)
{
    if (!world.failed)
        check_edges(r);
    if (world.failed)
        return;
    count_round(r);
    run.passed++;
    if (r->victim < 0)
        return;
    npud_await_sessions(PROCESSES - 1);
    process_start((unsigned)r->victim);
}

/* The list of the next round is made while this one runs. */
static void run_rounds(uint64_t seed, uint64_t deadline)
{
    make_round(seed, 0);
    for (uint32_t i = 0; !world.failed; i++) {
        const struct round *r = &world.common->round[i % 2];
        bool last = i + 1 >= run.rounds || (run.seconds != 0 && now_ns() >= deadline);

        order_round(i % 2);
        if (!last)
            make_round(seed, i + 1);
        if (!world.failed)
            await_round(r);
        finish_round(r);
        if (last)
            break;
    }
}

/* --- the run --- */

static void print_counters(void)
{
    printf("%llu rounds, %llu operations, %llu deaths\n", (unsigned long long)run.passed,
           (unsigned long long)run.ops, (unsigned long long)run.deaths);
    printf("%llu not ready, %llu complete, %llu lost, %llu failures of streams, %llu expired, %llu "
           "orders in time\n",
           (unsigned long long)run.not_ready, (unsigned long long)run.complete,
           (unsigned long long)run.lost, (unsigned long long)run.failures,
           (unsigned long long)run.expired, (unsigned long long)run.edges);
    for (unsigned i = 0; i < WHATS; i++)
        printf("%10llu %s\n", (unsigned long long)run.did[i], op_name(i));
}

/* A run of some length that never meets a situation proves nothing about it. */
static void expect_all_met(void)
{
    for (unsigned i = 0; i < WHATS; i++)
        ck_assert_msg(run.did[i] > 0, "no round had \"%s\"", op_name(i));
    ck_assert_uint_gt(run.not_ready, 0);
    ck_assert_uint_gt(run.complete, 0);
    ck_assert_uint_gt(run.lost, 0);
    ck_assert_uint_gt(run.failures, 0);
    ck_assert_uint_gt(run.expired, 0);
    ck_assert_uint_gt(run.edges, 0);
}

START_TEST(soak)
{
    uint64_t deadline = now_ns() + run.seconds * NSEC_PER_SEC, seed = run.seed;

    world.common = mmap(NULL, sizeof(*world.common), PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(world.common, MAP_FAILED);
    do {
        world_start();
        run_rounds(seed, deadline);
        if (world.failed) {
            world_kill();
            ck_abort_msg("seed %llu failed", (unsigned long long)seed);
        }
        world_stop();
        seed++;
    } while (now_ns() < deadline);
    if (run.verbose)
        print_counters();
    if (run.passed >= 160 && run.kills)
        expect_all_met();
}
END_TEST

static void parse_arguments(int argc, char **argv)
{
    static const struct option options[] = {
        {"seed", required_argument, NULL, 's'},   {"seconds", required_argument, NULL, 't'},
        {"rounds", required_argument, NULL, 'r'}, {"kills", required_argument, NULL, 'k'},
        {"verbose", no_argument, NULL, 'v'},      {0},
    };
    int c;

    run.seed = number_from_env("SOAK_SEED", run.seed);
    run.seconds = number_from_env("SOAK_SECONDS", run.seconds);
    run.rounds = number_from_env("SOAK_ROUNDS", run.rounds);
    while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
        if (c == 's')
            run.seed = number_of(optarg);
        else if (c == 't')
            run.seconds = number_of(optarg);
        else if (c == 'r')
            run.rounds = number_of(optarg);
        else if (c == 'k')
            run.kills = strcmp(optarg, "yes") == 0;
        else if (c == 'v')
            run.verbose = true;
        else
            exit(2);
    }
}

int main(int argc, char **argv)
{
    parse_arguments(argc, argv);
    return single_run("soak", soak, &run.passed);
}
