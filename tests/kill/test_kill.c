/*
 * Death at every numbered kill point (proto/util/kill_point.h).
 *
 * A role is one operation of the API. The victim performs it once unharmed, which tells which
 * points it passes and how often; then once for each of those, and dies there. Two other processes
 * wait for records that the victim has queued and never executes, in streams and in synchronise
 * calls, and keep an event of their own that the victim may wait for. What must hold each time:
 *   - every waiter gets ACL_ERROR_RT_SUSPECT_REMOTE_ERROR within 100 ms of the death, with a
 *     sentence that names the dead pid
 *   - no process sees a record as complete that was not executed
 *   - the events work as before for the processes that are left
 *   - afterwards npud's ledger is zero, and it has as many descriptors as before
 * Operations that sleep are killed in their sleep, too. NPUD_TEST_TABLE=1 prints the table, point
 * by role.
 *
 * Skipped under TSan: each process that dies is single-threaded there; the same code runs in
 * test_ipc_order and the soak.
 * Runs long: 10 s.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "proto/wire/npud.pb-c.h"
#include "tests/kill/kill_case.h"
#include "tests/kill/points.h"
#include "tests/common/chaos.h"
#include "tests/common/need.h"
#include "tests/common/nested.h"

#define GUARD_NS UINT64_C(300000000000)
#define PASSES   3 /* of one point by one operation that are tried */
/* a doorbell is rung only if the engine sleeps, and which pass finds it so is not ours to say */
#define TRIES 5

struct shared *shared;
static uint64_t slowest_ns; /* wake-up of the role so far */

/* --- watching npud --- */

/* All threads of the observers sleep, waiting for the victim or for a stream that does. */
static void await_observers(void)
{
    uint64_t give_up = now_ns() + GUARD_NS;
    size_t n;

    do {
        Npud__Report *r = npud_report(NPUD__ADMIN_REQUEST__TOPIC__WAITS);

        n = 0;
        for (size_t i = 0; i < r->n_waits; i++)
            n += r->waits[i]->thread != 0;
        npud__report__free_unpacked(r, NULL);
        ck_assert_msg(now_ns() < give_up, "%zu of the observers' threads wait", n);
    } while (n < OBSERVERS * WAITERS);
}

/* --- one case --- */

static bool victim_sleeps(const struct kill_case *c, pid_t pid)
{
    return c->role->sleeps_in && atomic_load(&shared->kill.hits[KILL_SLEEP_BEGIN]) > 0 &&
           npud_lists_sleeper(pid, c->role->sleeps_in);
}

/* It dies, or says that it is through, or sleeps where it should. */
static enum end await_end(const struct kill_case *c, struct actor *victim, uint32_t point,
                          uint32_t pass)
{
    uint64_t give_up = now_ns() + GUARD_NS;
    enum end end = DIED;
    int status;

    while (!actor_reap_if_ended(victim, &status)) {
        if (actor_answered(victim, c->role->sleeps_in ? 0 : 30000) ||
            victim_sleeps(c, victim->pid)) {
            status = actor_kill(victim);
            end = FINISHED;
            break;
        }
        ck_assert_msg(now_ns() < give_up, "%s: the victim hangs", c->role->name);
    }
    atomic_store(&shared->death_ns, now_ns());
    /* Seen asleep or through, when it was about to die at the point. */
    if (point > 0 && atomic_load(&shared->kill.hits[point - 1]) >= pass)
        end = DIED;
    ck_assert_msg(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL, "victim: status 0x%x",
                  status);
    return end;
}

static enum end run_case(const struct kill_case *c, uint32_t point, uint32_t pass)
{
    struct kill_case of[OBSERVERS] = {*c, *c};
    struct actor victim, observer[OBSERVERS];
    enum end end;

    memset(shared, 0, sizeof(*shared));
    atomic_store(&shared->slowest_ns, slowest_ns);
    atomic_store(&shared->kill.point, point);
    atomic_store(&shared->kill.pass, pass);
    actor_start(&victim, victim_main, (void *)c);
    atomic_store(&shared->victim, victim.pid);
    for (int i = 0; i < OBSERVERS; i++) {
        of[i].observer = i;
        actor_start(&observer[i], observer_main, &of[i]);
    }
    actor_await_step(&observer[0]); /* it has made its events */
    actor_next_step(&victim);
    actor_await_step(&victim); /* it has its own */
    for (int i = 0; i < OBSERVERS; i++)
        actor_next_step(&observer[i]);
    if (!c->role->alone)
        await_observers();
    actor_next_step(&victim);
    end = await_end(c, &victim, point, pass);
    for (int i = 0; i < OBSERVERS; i++)
        actor_next_step(&observer[i]);
    for (int i = 0; i < OBSERVERS; i++)
        actor_await_step(&observer[i]); /* it saw the death as it should */
    /* The end of a session goes in steps: from here on, what the victim had queued is gone. */
    npud_await_sessions(OBSERVERS);
    for (int i = 0; i < OBSERVERS; i++) {
        actor_next_step(&observer[i]); /* and goes on, one after the other */
        actor_await_step(&observer[i]);
    }
    for (int i = 0; i < OBSERVERS; i++)
        actor_end(&observer[i]);
    npud_expect_empty();
    slowest_ns = atomic_load(&shared->slowest_ns);
    return end;
}

/* --- all points of a role --- */

static int run_point(const struct kill_case *c, uint32_t point, uint32_t pass)
{
    for (int i = 0; i < TRIES; i++)
        if (run_case(c, point + 1, pass) == DIED)
            return 1;
    /*
     * Later passes may fall together, and under chaos any of them with the death of npud. The first
     * one is there, or the point is not on this way.
     */
    ck_assert_msg(pass > 1 || c->role->varies || chaos_is_on(), "%s: never came by %s again",
                  c->role->name, points[point].name);
    return 0;
}

static void run_role(const struct kill_case *c)
{
    uint32_t hits[KILL_POINT_COUNT], fds = npud_ledger().fds;
    const char *maker = c->victim_creates ? "victim's event" : "other's event";
    bool table = getenv("NPUD_TEST_TABLE") != NULL;
    int died = 0, ways = 0;

    run_case(c, 0, 0);
    for (uint32_t p = 0; p < KILL_POINT_COUNT; p++)
        hits[p] = atomic_load(&shared->kill.hits[p]);
    for (uint32_t p = 0; p < KILL_POINT_COUNT; p++) {
        int n = 0;

        for (uint32_t pass = 1; pass <= hits[p] && pass <= PASSES; pass++)
            n += run_point(c, p, pass);
        died += n;
        ways += n > 0;
        if (table && n > 0)
            printf("kill | %-26s | %-14s | %-17s | %-45s | %d passed\n", c->role->name, maker,
                   points[p].name, points[p].what, n);
    }
    npud_await_fds(fds);
    ck_assert_msg(ways > 0, "%s passes no point", c->role->name);
    if (table)
        printf("kill | %-26s | %-14s | %2d points, %2d deaths%s: passed; slowest wake-up %llu us\n",
               c->role->name, maker, ways, died, c->role->sleeps_in ? ", and asleep" : "",
               (unsigned long long)slowest_ns / 1000);
    fflush(stdout);
}

START_TEST(every_point)
{
    struct kill_case c = {.role = &roles[_i / 2], .victim_creates = _i % 2};

    if (!c.role->shares && c.victim_creates)
        return;
    if (c.role->launches && nested_is_on()) {
        need_lacks(c.role->name, "simulated devices: it launches a kernel of the host");
        return;
    }
    shared = child_share(sizeof(*shared));
    run_role(&c);
}
END_TEST

/* Engines that never spin: so a sleeping one is found by every first submission. */
static void start_npud_asleep(void)
{
    static const char *const args[] = {"--set=engine.spin_us=0", NULL};

    npud_start(args);
}

int main(void)
{
    Suite *suite = suite_create("kill");
    TCase *tc = suite_case(suite, "kill", 240, start_npud_asleep, npud_teardown);

    tcase_add_loop_test(tc, every_point, 0, (int)(2 * n_roles));
    return run_suite(suite);
}
