/*
 * Death at every numbered kill point (proto/util/kill_point.h), of sessions that share buffers and
 * queues.
 *
 * A role is one operation of the API. The victim performs it once unharmed, which tells which
 * points it passes and how often; then once for each of those, and dies there. Beside it are a
 * manager, which makes the queues and has references to what the victim has; a peer, which sleeps
 * until the victim does something, or is itself stopped in the midst of an operation, so that the
 * victim has to help; and, in some roles, the owner of the buffers, which is dead already. What
 * must hold each time:
 *   - what was put is received, by one, once, whole, and in order: exactly those messages that the
 *     kill points say are in the queue
 *   - a sleeper is woken when there is something for it. If no process is left that could serve it,
 *     it is told which process has died
 *   - messages and references of the others are what they were, also when new buffers have been
 *     written to
 *   - the queues work for the processes that are left
 *   - npud's ledger says that nothing is left: no buffer, no pool of the dead, no queue, no
 *     descriptor
 * make check takes one of the passes of a point by an operation, the first or the second in turn;
 * make check-long takes both. NPUD_TEST_TABLE=1 prints the table, point by role. NPUD_KILL_ROLE=n:
 * only this role.
 *
 * Skipped under TSan: each process that dies is single-threaded there; the same code runs in
 * test_queue and the soak.
 * Runs long: 29 s.
 */
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/common/chaos.h"
#include "tests/common/effort.h"
#include "tests/kill/share/case.h"
#include "tests/kill/points.h"

#define GUARD_NS UINT64_C(300000000000)
#define PASSES   2 /* of one point by one operation that are tried */
#define TRIES    3
#define CHURN    100 /* buffers that are written to in search of one that is given twice */

struct switches *switches;

/* --- orders --- */

/* Role a, with points that count. */
static aclError order_act(const struct order *o, int64_t *value)
{
    aclError r;

    aclnpudKillSwitch = &switches->kill;
    atomic_store(&switches->kill.on, 1);
    r = roles[o->a].act(o, value);
    atomic_store(&switches->kill.on, 0);
    return r;
}

/* What role c lets the peer do when it is stopped; a: LINE, b as for that order. */
static aclError order_act_stopped(const struct order *o, int64_t *value)
{
    aclError r;

    aclnpudKillSwitch = &switches->stop;
    atomic_store(&switches->stop.on, 1);
    r = roles[o->c].stopped(&(struct order){.a = o->a, .b = o->b}, value);
    atomic_store(&switches->stop.on, 0);
    return r;
}

/* A further reference to what is kept goes into queue a. */
static aclError order_put_copy(const struct order *o, int64_t *value)
{
    acltdtBuf copy;
    uint32_t number;

    OK(acltdtCopyBufRef(kept_newest(), &copy));
    number = message_renumber(copy);
    *value = number;
    return message_put(o->a, copy, number, 0);
}

/* --- before the act --- */

static bool has_right(const struct role *role, uint32_t right)
{
    return role->rights == 0 || (role->rights & right);
}

static void join_queue(int queue, int maker, int who, uint32_t rights)
{
    member_does(maker, (struct order){order_grant, queue, member_pid(who), rights});
    ck_assert_int_eq(member_does(who, (struct order){order_attach, queue, 0, 0}), rights);
}

static void make_queues(const struct role *role)
{
    int maker = role->rights ? VICTIM : MANAGER;

    member_does(maker, (struct order){order_create, LINE, DEPTH, 0});
    if (maker == VICTIM)
        join_queue(LINE, VICTIM, MANAGER, role->rights);
    else if (role->joining == JOINED)
        join_queue(LINE, MANAGER, VICTIM, ALL_RIGHTS);
    else if (role->joining == GRANTED)
        member_does(MANAGER, (struct order){order_grant, LINE, member_pid(VICTIM), ALL_RIGHTS});
    join_queue(LINE, maker, PEER, role->rights ? role->rights : ALL_RIGHTS);
    member_does(MANAGER, (struct order){order_create, FEED, DEPTH, 0});
    join_queue(FEED, MANAGER, VICTIM, ALL_RIGHTS);
    join_queue(FEED, MANAGER, PEER, ALL_RIGHTS);
    if (role->orphans)
        join_queue(FEED, MANAGER, OWNER, ALL_RIGHTS);
}

/* The victim gets its buffers, to which the manager has references, and the peer, if asked. */
static void give_buffers(const struct role *role)
{
    int from = role->orphans ? OWNER : MANAGER;

    for (unsigned i = 0; i < role->fed; i++)
        member_does(from, (struct order){order_put_keep, FEED, 2, 0});
    if (role->prepare)
        member_does(VICTIM, (struct order){role->prepare, LINE, 0, 0});
    if (role->orphans) {
        member_does(OWNER, (struct order){order_put_copy, FEED, 0, 0});
        member_does(MANAGER, (struct order){order_take, FEED, 0, 0});
        member_kill(OWNER);
        npud_await_sessions(3);
    }
    if (role->shared) {
        member_does(MANAGER, (struct order){order_put_copy, FEED, 0, 0});
        member_does(PEER, (struct order){order_take, FEED, 0, 0});
    }
    for (unsigned i = 0; i < role->filled; i++)
        member_does(has_right(role, 4) ? MANAGER : VICTIM,
                    (struct order){order_put_keep, LINE, 1 + i % 2, 0});
}

static void stop_peer(const struct role *role)
{
    uint64_t give_up = now_ns() + GUARD_NS;
    int status;

    atomic_store(&switches->stop.point, role->stop_at);
    atomic_store(&switches->stop.pass, 1);
    atomic_store(&switches->stop.stops, 1);
    member_tell(PEER,
                (struct order){order_act_stopped, LINE, role->stopped == order_put, role - roles});
    while (waitpid(member_pid(PEER), &status, WUNTRACED | WNOHANG) == 0) {
        ck_assert_msg(!member_answered(PEER, 0), "%s: the peer is not stopped", role->name);
        ck_assert(now_ns() < give_up);
    }
    ck_assert(WIFSTOPPED(status));
}

static void begin_meanwhile(const struct role *role)
{
    if (role->stop_at > 0)
        stop_peer(role);
    if (role->meanwhile == PEER_TAKES) {
        member_tell(PEER, (struct order){order_take, LINE, -1, 0});
        member_await_sleep(PEER, "acltdtDequeue");
    }
    if (role->meanwhile == PEER_PUTS) {
        member_tell(PEER, (struct order){order_put_keep, LINE, 1, -1});
        member_await_sleep(PEER, "acltdtEnqueue");
    }
}

/* --- the act --- */

static void serve_victim(const struct role *role)
{
    if (role->serve)
        member_does(MANAGER, (struct order){role->serve, LINE, 1, 0});
    else
        member_does(MANAGER, (struct order){order_grant, LINE, member_pid(VICTIM), ALL_RIGHTS});
}

static bool is_dead(int pidfd, int ms)
{
    struct pollfd p = {.fd = pidfd, .events = POLLIN};

    return poll(&p, 1, ms) == 1;
}

/* It dies, or says that it is through, or sleeps where it should. */
static enum end await_end(const struct role *role, uint32_t point, uint32_t pass)
{
    int pidfd = (int)syscall(SYS_pidfd_open, member_pid(VICTIM), 0);
    uint64_t give_up = now_ns() + GUARD_NS;
    bool served = !role->served_in, polls = role->sleeps_in || role->served_in;
    enum end end = DIED;

    while (!is_dead(pidfd, polls ? 0 : 1)) {
        if (member_answered(VICTIM, 0) ||
            (role->sleeps_in && member_sleeps(VICTIM, role->sleeps_in))) {
            kill(member_pid(VICTIM), SIGKILL);
            end = FINISHED;
            break;
        }
        if (!served && member_sleeps(VICTIM, role->served_in)) {
            serve_victim(role);
            served = true;
        }
        ck_assert_msg(now_ns() < give_up, "%s: the victim hangs", role->name);
    }
    close(pidfd);
    member_reap(VICTIM);
    /* Seen asleep or through, when it was about to die at the point. */
    if (point > 0 && atomic_load(&switches->kill.hits[point - 1]) >= pass)
        end = DIED;
    return end;
}

/* --- afterwards --- */

/*
 * What the peer was told before has come to its end by the death, or comes to it by what the
 * manager does.
 */
static void end_meanwhile(const struct role *role, pid_t victim)
{
    bool takes = role->meanwhile == PEER_TAKES;
    const char *call = takes ? "acltdtDequeue" : "acltdtEnqueue";
    uint64_t give_up = now_ns() + GUARD_NS;
    struct answer a;
    char words[32];

    if (role->stop_at > 0)
        kill(member_pid(PEER), SIGCONT);
    if (role->meanwhile == NOBODY_WAITS && role->stop_at == 0)
        return;
    while (role->stop_at == 0 && !member_answered(PEER, 0) && now_ns() < give_up) {
        if (!member_sleeps(PEER, call))
            continue;
        ck_assert_msg(has_right(role, takes ? 4 : 2), "%s: the peer sleeps, and nobody is left",
                      role->name);
        /* It sleeps in spite of the death: rightly, if there is nothing for it. */
        if (takes && has_right(role, 2))
            member_fails(MANAGER, ACL_ERROR_RT_QUEUE_EMPTY, (struct order){order_take, LINE, 0, 0});
        if (takes)
            member_does(MANAGER, (struct order){order_put, LINE, 1, 0});
        if (!takes && has_right(role, 4))
            member_fails(MANAGER, ACL_ERROR_RT_QUEUE_FULL, (struct order){order_put, LINE, 1, 0});
        if (!takes)
            member_does(MANAGER, (struct order){order_take_free, LINE, 0, 0});
        break;
    }
    a = member_answer(PEER);
    snprintf(words, sizeof(words), "process %d,", (int)victim);
    ck_assert_msg(a.code == 0 || (a.code == ACL_ERROR_RT_DRV_INTERNAL_ERROR &&
                                  (role->ends ||
                                   (!has_right(role, takes ? 4 : 2) && strstr(a.sentence, words)))),
                  "%s: the peer gets %d: %s", role->name, a.code, a.sentence);
}

/* A process that needs the victim is told that it is gone, once nothing of it is left to take. */
static void expect_deserted(const struct role *role, pid_t victim)
{
    struct answer a;
    char words[32];

    if (has_right(role, 4) && has_right(role, 2))
        return;
    snprintf(words, sizeof(words), "process %d,", (int)victim);
    do {
        a = member_do(PEER, has_right(role, 2) ? (struct order){order_take_free, LINE, -1, 0}
                                               : (struct order){order_put, LINE, 1, -1});
    } while (a.code == 0);
    ck_assert_msg(a.code == ACL_ERROR_RT_DRV_INTERNAL_ERROR && strstr(a.sentence, words),
                  "%s: %d: %s", role->name, a.code, a.sentence);
}

/* Does the queue still exist for the processes that are left? */
static bool line_lives(const struct role *role)
{
    struct answer a;

    if (!role->ends)
        return true;
    a = member_do(MANAGER, (struct order){order_attach, LINE, 0, 0});
    ck_assert_msg(a.code == 0 || a.code == ACL_ERROR_RT_DRV_INTERNAL_ERROR, "%d: %s", a.code,
                  a.sentence);
    return a.code == 0;
}

static void drain_queues(const struct role *role)
{
    if (has_right(role, 2) && line_lives(role))
        member_does(MANAGER, (struct order){order_drain, LINE, 0, 0});
    member_does(MANAGER, (struct order){order_drain, FEED, 0, 0});
}

/*
 * The kill points tell how far the victim has got. puts, takes: messages that it had put and taken
 * before its points counted.
 */
static void account_messages(const struct role *role, uint32_t puts, uint32_t takes)
{
    _Atomic uint32_t *hits = switches->kill.hits;
    int32_t from = atomic_load(&cast->taking[VICTIM]);
    uint32_t lost = hits[KILL_TAKE_HEAD] - (cast->takes[VICTIM] - takes), missing = 0;
    uint32_t in_ring = hits[KILL_PUT_DONE] - (cast->puts[VICTIM] - puts), arrived = 0;

    if (role->loses || !has_right(role, 2) || !line_lives(role))
        return;
    for (uint32_t i = 1; i <= atomic_load(&cast->next); i++) {
        struct cast_message *m = &cast->message[i];
        int32_t queue = atomic_load(&m->queue);

        if (queue != LINE + 1 && queue != FEED + 1)
            continue;
        if (m->put && !m->got) {
            ck_assert_msg(queue == from, "%s: message %u is lost", role->name, i);
            missing++;
        }
        if (!m->put) {
            ck_assert_int_eq(m->sender, VICTIM);
            arrived += m->got;
        }
    }
    ck_assert_msg(missing == lost, "%s: %u messages are lost, %u were taken", role->name, missing,
                  lost);
    ck_assert_msg(arrived == in_ring, "%s: %u messages have arrived, %u were put", role->name,
                  arrived, in_ring);
}

/* The queue works as before, for more messages than it holds, in either direction. */
static void exchange_messages(const struct role *role)
{
    if (role->ends && !line_lives(role))
        return;
    if (!has_right(role, 4) || !has_right(role, 2))
        return;
    /* The victim may have died having taken rights away, and not given back. */
    if (member_does(PEER, (struct order){order_attach, LINE, 0, 0}) != ALL_RIGHTS)
        return;
    for (int i = 0; i < 2 * DEPTH + 3; i++) {
        int to = i % 2 ? MANAGER : PEER, from = i % 2 ? PEER : MANAGER;

        member_tell(to, (struct order){order_take_free, LINE, -1, 0});
        member_does(from, (struct order){order_put, LINE, 1 + i % 3, 0});
        ck_assert_int_eq(member_answer(to).code, 0);
    }
}

/* A queue that the victim has granted outlives it, with what is in it. */
static void drain_granted(void)
{
    struct answer a = member_do(PEER, (struct order){order_attach, EXTRA, 0, 0});

    if (a.code == 0)
        member_does(PEER, (struct order){order_drain, EXTRA, 0, 0});
}

/* What the others have is theirs. */
static void check_buffers(const struct role *role)
{
    member_does(MANAGER, (struct order){order_churn, CHURN, 0, 0});
    member_does(PEER, (struct order){order_churn, CHURN, 0, 0});
    member_does(MANAGER, (struct order){order_check, 0, 0, 0});
    member_does(PEER, (struct order){order_check, 0, 0, 0});
    member_does(MANAGER, (struct order){order_drop, 0, 0, 0});
    member_does(PEER, (struct order){order_drop, 0, 0, 0});
    /* Except if a queue is full and no process is left to take from it. */
    if (has_right(role, 2))
        shared_await(0, 2);
}

static enum end run_case(const struct role *role, uint32_t point, uint32_t pass)
{
    uint32_t puts, takes;
    enum end end;
    pid_t victim;

    cast_begin();
    memset(switches, 0, sizeof(*switches));
    atomic_store(&switches->kill.point, point);
    atomic_store(&switches->kill.pass, pass);
    for (int who = 0; who <= VICTIM; who++)
        if (who != OWNER || role->orphans)
            member_start(who, true);
    victim = member_pid(VICTIM);
    make_queues(role);
    give_buffers(role);
    begin_meanwhile(role);
    puts = cast->puts[VICTIM];
    takes = cast->takes[VICTIM];
    member_tell(VICTIM, (struct order){order_act, role - roles, 0, 0});
    end = await_end(role, point, pass);
    npud_await_sessions(2); /* it has swept */
    end_meanwhile(role, victim);
    drain_queues(role);
    account_messages(role, puts, takes);
    expect_deserted(role, victim);
    exchange_messages(role);
    drain_granted();
    check_buffers(role);
    member_end(PEER);
    member_end(MANAGER);
    npud_expect_empty();
    shared_expect_empty();
    cast_finish();
    return end;
}

/* --- all points of a role --- */

static int run_point(const struct role *role, uint32_t point, uint32_t pass)
{
    for (int i = 0; i < TRIES; i++)
        if (run_case(role, point + 1, pass) == DIED)
            return 1;
    /*
     * Later passes may fall together, and under chaos any of them with the death of npud. The first
     * one is there, or the point is not on this way.
     */
    ck_assert_msg(pass > 1 || role->varies || chaos_is_on(), "%s: never came by %s again",
                  role->name, points[point].name);
    return 0;
}

/* How many of the passes the victim has died in. */
static int run_passes(const struct role *role, uint32_t point, uint32_t hits)
{
    uint32_t passes = hits < PASSES ? hits : PASSES, n = choose_effort(1, PASSES);
    uint32_t first = n < passes ? 1 + ((uint32_t)(role - roles) + point) % passes : 1;
    int died = 0;

    for (uint32_t pass = first; pass < first + n && pass <= passes; pass++) {
        fprintf(stderr, "%s: %s, pass %u of %u\n", role->name, points[point].name, pass, hits);
        died += run_point(role, point, pass);
    }
    /* A later pass may not come again, the first one does. */
    return died == 0 && first > 1 ? run_point(role, point, 1) : died;
}

static void run_role(const struct role *role)
{
    uint32_t hits[KILL_POINT_COUNT], fds = npud_ledger().fds;
    bool table = getenv("NPUD_TEST_TABLE") != NULL;
    int died = 0, ways = 0;

    run_case(role, 0, 0);
    for (uint32_t p = 0; p < KILL_POINT_COUNT; p++)
        hits[p] = atomic_load(&switches->kill.hits[p]);
    for (uint32_t p = 0; p < KILL_POINT_COUNT; p++) {
        int n = run_passes(role, p, hits[p]);

        died += n;
        ways += n > 0;
        if (table && n > 0)
            printf("kill | %-32s | %-17s | %-48s | %d passed\n", role->name, points[p].name,
                   points[p].what, n);
    }
    npud_await_fds(fds);
    ck_assert_msg(ways > 0, "%s passes no point", role->name);
    if (table)
        printf("kill | %-32s | %2d points, %2d deaths%s: passed\n", role->name, ways, died,
               role->sleeps_in ? ", and asleep" : "");
    fflush(stdout);
}

START_TEST(every_point)
{
    switches =
        mmap(NULL, sizeof(*switches), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(switches, MAP_FAILED);
    run_role(&roles[_i]);
}
END_TEST

int main(void)
{
    const char *only = getenv("NPUD_KILL_ROLE");
    Suite *suite = suite_create("kill share");
    TCase *tc = suite_case(suite, "kill", 240, npud_setup, npud_teardown);

    tcase_add_loop_test(tc, every_point, only ? atoi(only) : 0,
                        only ? atoi(only) + 1 : (int)n_roles);
    return run_suite(suite);
}
