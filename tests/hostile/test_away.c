/*
 * Clients that write all that they may while npud is away: its supervisor is stopped, its server is
 * killed, and only then each word that they have mapped writable becomes garbage, of a kind that
 * the seed chooses. The next server recovers from it, in half of the rounds while some of the words
 * go on changing; in some it is killed as it recovers. Else it must be the standby, and serve to
 * the end: no recovery fails, and no server ends by itself.
 *
 * Beside them are honest clients of another user, if there is one: the well-behaved pair
 * (victims.h), which never stops, and a pair that does a bit of everything that npud keeps
 * (tests/common/workload.h), and goes on with it afterwards. They get what is right. When the
 * hostile ones have been killed nothing of theirs is left.
 *
 * AWAY_SEED=N AWAY_ROUNDS=1 repeats the round with that seed; NPUD_TEST_TABLE=1 names each round.
 *
 * Skipped under TSan: shared memory is written that is read meanwhile.
 * Skipped under chaos: the test kills npud, and asserts which server follows.
 * Runs long: 10 s.
 */
#include "tests/common/harness.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tests/common/actor.h"
#include "tests/common/chance.h"
#include "tests/common/effort.h"
#include "tests/common/proc.h"
#include "tests/common/second_user.h"
#include "tests/common/workload.h"
#include "tests/hostile/garbage.h"
#include "tests/hostile/own_all.h"
#include "tests/hostile/victims.h"

#define ROUNDS      20
#define ROUNDS_LONG 400

/* --- two processes that do the same steps in turn --- */

struct pair {
    struct actor first, second;
    struct workload *shared;
    unsigned steps; /* done by both */
};

static int hostile_first(int fd, void *arg)
{
    second_user_become();
    return first_main(fd, arg);
}

static int hostile_second(int fd, void *arg)
{
    second_user_become();
    return second_main(fd, arg);
}

static void pair_start(struct pair *p, int (*first)(int, void *), int (*second)(int, void *))
{
    *p = (struct pair){.shared = child_share(sizeof(*p->shared))};
    workload = p->shared;
    actor_start(&p->first, first, NULL);
    actor_start(&p->second, second, NULL);
    workload->second = p->second.pid;
}

static void do_step(struct actor *a)
{
    actor_next_step(a);
    actor_await_step(a);
}

static void pair_go_to(struct pair *p, unsigned steps)
{
    for (; p->steps < steps; p->steps++) {
        do_step(&p->first);
        do_step(&p->second);
    }
}

static void pair_forget(struct pair *p)
{
    munmap(p->shared, sizeof(*p->shared));
}

/* --- the hostile ones --- */

#define HOSTILE 3

static struct {
    struct pair pair;
    struct actor owner;
    aclrtIpcEventHandle spoiled;
    struct garbage garbage[HOSTILE];
    enum garbage_kind kind;
    uint64_t seed;
    pid_t writer; /* 0: none */
} hostile;

static void hostile_start(uint64_t *rng)
{
    unsigned steps = 1 + draw_below(rng, WORKLOAD_STEPS - 2);

    pair_start(&hostile.pair, hostile_first, hostile_second);
    actor_start(&hostile.owner, own_all_main, &hostile.spoiled);
    pair_go_to(&hostile.pair, steps);
    if (draw_chance(rng, 50))
        do_step(&hostile.pair.first); /* what it gives is not taken yet */
    do_step(&hostile.owner);
}

static void hostile_stop(void)
{
    struct actor *all[HOSTILE] = {&hostile.owner, &hostile.pair.first, &hostile.pair.second};

    for (unsigned i = 0; i < HOSTILE; i++) {
        child_stop(all[i]->pid);
        garbage_open(&hostile.garbage[i], all[i]->pid);
    }
}

static int write_on(void *arg)
{
    uint64_t rng = ~hostile.seed;

    (void)arg;
    for (;;)
        garbage_write_some(&hostile.garbage[draw_below(&rng, HOSTILE)], hostile.kind, &rng);
    return 0;
}

static void hostile_write(bool on)
{
    for (unsigned i = 0; i < HOSTILE; i++)
        garbage_write(&hostile.garbage[i], hostile.kind, hostile.seed + i);
    hostile.writer = on ? child_start(write_on, NULL) : 0;
}

static void hostile_end(void)
{
    if (hostile.writer != 0)
        child_kill(hostile.writer);
    for (unsigned i = 0; i < HOSTILE; i++)
        garbage_close(&hostile.garbage[i]);
    actor_kill(&hostile.owner);
    actor_kill(&hostile.pair.first);
    actor_kill(&hostile.pair.second);
    pair_forget(&hostile.pair);
}

/* --- npud, away --- */

/* None of its threads runs any more when this returns, and the supervisor does not know yet. */
static void kill_server(pid_t pid)
{
    struct pollfd p = {.fd = (int)syscall(SYS_pidfd_open, pid, 0), .events = POLLIN};

    ck_assert_int_ge(p.fd, 0);
    child_stop(npud.pid);
    ck_assert_int_eq(kill(pid, SIGKILL), 0);
    ck_assert_int_eq(poll(&p, 1, -1), 1);
    close(p.fd);
}

#define AGAIN_US 4000 /* a recovery takes about as long */

/* It has begun to recover, and may even serve. */
static void kill_again(pid_t pid, uint64_t *rng)
{
    uint64_t end;

    EVENTUALLY(npud_server_pid() == pid, "the standby does not follow");
    end = now_ns() + draw_below(rng, AGAIN_US) * UINT64_C(1000);
    while (now_ns() < end)
        ;
    ck_assert_int_eq(kill(pid, SIGKILL), 0);
    EVENTUALLY(kill(pid, 0) < 0, "the supervisor does not notice");
}

static pid_t await_standby(void)
{
    pid_t pid;

    EVENTUALLY((pid = npud_standby_pid()) != 0, "there is no standby");
    return pid;
}

/* --- what must hold --- */

static void await_progress(void)
{
    uint32_t n = victims_count(PHASE_HOSTILE, MEASURED_ROUND);

    EVENTUALLY((victims_work(1), victims_count(PHASE_HOSTILE, MEASURED_ROUND) > n + 2),
               "the well-behaved pair does not go on");
}

/* The pair asks for a stream now and then. */
static void await_as_before(struct ledger before)
{
    struct ledger now;

    EVENTUALLY((now = npud_ledger(),
                now.sessions == before.sessions && now.streams <= before.streams &&
                    now.events == before.events && now.lingering == 0 &&
                    now.memory == before.memory && now.notifies == 0 && now.pools == 0),
               "left: %u sessions, %u streams, %u events, %u lingering, %llu bytes, %u notifies, "
               "%u pools",
               now.sessions, now.streams, now.events, now.lingering, (unsigned long long)now.memory,
               now.notifies, now.pools);
}

/* What a server says that cannot recover, and what the supervisor says of one that has ended. */
static void expect_no_fault_in_log(void)
{
    static const char *const faults[] = {
        "recover",           "hangs",     "status",       "cannot be read",
        "cannot be started", "Sanitizer", "runtime error"};
    char path[64], line[1024];
    FILE *log;

    snprintf(path, sizeof(path), "/proc/self/fd/%d", npud_stderr);
    log = fopen(path, "re");
    ck_assert_ptr_nonnull(log);
    while (fgets(line, sizeof(line), log)) {
        for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++)
            ck_assert_msg(!strstr(line, faults[i]), "%s", line);
        ck_assert_msg(!strstr(line, "by signal") || strstr(line, "by signal 9"), "%s", line);
    }
    fclose(log);
}

static void print_round(bool on, bool again)
{
    uint64_t bytes = 0;
    unsigned maps = 0;

    for (unsigned i = 0; i < HOSTILE; i++) {
        bytes += hostile.garbage[i].bytes;
        maps += hostile.garbage[i].n;
    }
    fprintf(stderr, "AWAY_SEED=%llu: %s%s%s, %u mappings, %llu KiB\n",
            (unsigned long long)hostile.seed, garbage_name(hostile.kind), on ? ", and on" : "",
            again ? ", killed again" : "", maps, (unsigned long long)(bytes >> 10));
}

static void run_round(uint64_t seed, struct ledger before)
{
    pid_t server = npud_serving_pid(), standby;
    struct pair honest;
    uint64_t rng = seed;
    bool on, again;

    hostile.seed = seed;
    hostile.kind = (enum garbage_kind)draw_below(&rng, GARBAGE_KINDS);
    on = draw_chance(&rng, 50);
    again = draw_chance(&rng, 30);
    pair_start(&honest, first_main, second_main);
    pair_go_to(&honest, draw_below(&rng, WORKLOAD_STEPS));
    hostile_start(&rng);
    hostile_stop();
    if (getenv("NPUD_TEST_TABLE"))
        print_round(on, again);
    standby = await_standby();
    kill_server(server);
    hostile_write(on);
    ck_assert_int_eq(kill(npud.pid, SIGCONT), 0);
    if (again)
        kill_again(standby, &rng);
    server = npud_serving_pid();
    ck_assert_int_eq(server == standby, !again);
    await_progress();
    pair_go_to(&honest, WORKLOAD_STEPS);
    actor_end(&honest.first);
    actor_end(&honest.second);
    pair_forget(&honest);
    hostile_end();
    await_as_before(before);
    ck_assert_int_eq(npud_serving_pid(), server);
}

static uint64_t number_from(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);

    return text ? strtoull(text, NULL, 0) : otherwise;
}

START_TEST(garbage_while_npud_is_away)
{
    uint64_t seed = number_from("AWAY_SEED", now_ns());
    uint64_t n = number_from("AWAY_ROUNDS", choose_effort(ROUNDS, ROUNDS_LONG));
    struct ledger before;

    printf("AWAY_SEED=%llu\n", (unsigned long long)seed);
    fflush(stdout);
    npud_stderr = memfd_create("log of npud", MFD_CLOEXEC);
    ck_assert_int_ge(npud_stderr, 0);
    npud.restartable = true;
    npud_start_shared((const char *const[]){"--set=ipc.scope=any", NULL});
    victims_start(&hostile.spoiled);
    before = npud_ledger();
    before.streams++;
    for (uint64_t i = 0; i < n; i++) {
        victims_phase(PHASE_NONE);
        victims_forget_times();
        victims_phase(PHASE_HOSTILE);
        run_round(seed + i, before);
    }
    victims_end();
    npud_expect_empty();
    npud_teardown();
    expect_no_fault_in_log();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("while npud is away");

    tcase_add_test(suite_case(suite, "away", choose_effort(300, 3600), NULL, NULL),
                   garbage_while_npud_is_away);
    return run_suite(suite);
}
