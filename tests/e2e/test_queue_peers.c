/*
 * Queues between processes: grants, rights, messages, and what the end of a peer, of a queue or of
 * npud does to a sleeping process.
 *
 * Skipped under TSan: the peers end one after the other, for minutes; the threads of npud and of
 * the library meet in the same ways in test_queue, test_queue_ends and the soak.
 */
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "acl/acl_tdt_queue.h"
#include "tests/common/effort.h"
#include "tests/common/moment.h"
#include "queue_kit.h"

#define MANAGE 1u
#define TAKE   2u
#define PUT    4u
#define ALL    7u

static struct shared {
    uint32_t q[2]; /* as the parent has made them */
    int32_t rights;
    _Atomic uint64_t sent, received;
    _Atomic uint32_t stop;
} * shared;
static struct turn go;

static void set_up_test(void)
{
    npud_setup();
    shared = child_share(sizeof(*shared));
    turns_init();
    turn_init(&go);
}

/* --- both sides --- */

/* Parent: begin, with two queues for the children that were forked before. */
static void open_queues(uint32_t depth)
{
    OK(aclInit(NULL));
    shared->q[0] = create_queue(depth);
    shared->q[1] = create_queue(depth);
}

static void close_queues(void)
{
    OK(acltdtDestroyQueue(shared->q[0]));
    OK(acltdtDestroyQueue(shared->q[1]));
    await_buffers(0);
    OK(aclFinalize());
    npud_expect_empty();
    npud_teardown();
}

static void grant_rights(uint32_t qid, pid_t pid, uint32_t rights)
{
    OK(acltdtGrantQueue(qid, pid, rights, 0));
}

/* Child: begin, when the parent has made the queues and granted them. */
static void child_open(void)
{
    OK(aclInit(NULL));
    turn_await(&to_child);
}

static void attach_queue(uint32_t qid, uint32_t rights)
{
    uint32_t got = 99;

    OK(acltdtAttachQueue(qid, 20000, &got));
    ck_assert_uint_eq(got, rights);
}

static void one_cpu(void)
{
    cpu_set_t set;

    CPU_ZERO(&set);
    CPU_SET(0, &set);
    ck_assert_int_eq(sched_setaffinity(0, sizeof(set), &set), 0);
}

/* --- grants --- */

static int waits_for_grant(void *arg)
{
    uint32_t rights = 99;
    uint64_t begun;

    (void)arg;
    child_open();
    FAILS(ACL_ERROR_RT_NO_PERMISSION, acltdtAttachQueue(shared->q[0], 0, &rights));
    begun = now_ns();
    FAILS(ACL_ERROR_RT_NO_PERMISSION, acltdtAttachQueue(shared->q[0], 50, &rights));
    ck_assert_uint_ge(now_ns() - begun, 50000000);
    ck_assert_uint_eq(rights, 99);
    turn_tell(&to_parent);
    OK(acltdtAttachQueue(shared->q[0], -1, &rights));
    ck_assert_uint_eq(rights, TAKE);
    attach_queue(shared->q[0], TAKE);
    attach_queue(shared->q[0], TAKE);
    ck_assert_uint_eq(take_value(shared->q[0], 0), 42);
    return 0;
}

START_TEST(attach_waits_for_grant)
{
    pid_t pid = child_start(waits_for_grant, NULL);

    open_queues(8);
    OK(acltdtEnqueue(shared->q[0], buffer_of(42), 0));
    turn_tell(&to_child);
    turn_await(&to_parent);
    await_asleep(pid, 1);
    /* What it waits for is this queue. */
    grant_rights(shared->q[1], pid, ALL);
    await_asleep(pid, 1);
    grant_rights(shared->q[0], pid, TAKE);
    child_expect_ok(pid);
    close_queues();
}
END_TEST

/* Each set of rights, in all calls. */
static int uses_rights(void *arg)
{
    uint32_t rights = (uint32_t)shared->rights, q = shared->q[0];
    acltdtBuf buf;
    size_t n;
    char c;

    (void)arg;
    child_open();
    rights = (uint32_t)shared->rights;
    q = shared->q[0];
    attach_queue(q, rights);
    buf = buffer_of(2);
    if (rights & PUT) {
        OK(acltdtEnqueue(q, buf, 0));
        OK(acltdtEnqueueData(q, "x", 1, NULL, 0, 0, 0));
    } else {
        FAILS_SAYING(ACL_ERROR_RT_NO_PERMISSION, "right to put", acltdtEnqueue(q, buf, -1));
        OK(acltdtFreeBuf(buf));
        FAILS(ACL_ERROR_RT_NO_PERMISSION, acltdtEnqueueData(q, "x", 1, NULL, 0, -1, 0));
    }
    if (rights & TAKE) {
        ck_assert_uint_eq(take_value(q, 0), 1);
    } else {
        FAILS_SAYING(ACL_ERROR_RT_NO_PERMISSION, "right to take", acltdtDequeue(q, &buf, -1));
        FAILS(ACL_ERROR_RT_NO_PERMISSION, acltdtDequeueData(q, &c, 1, &n, NULL, 0, -1));
    }
    if (rights & MANAGE) {
        OK(acltdtGrantQueue(q, getppid(), ALL, 0));
        OK(acltdtDestroyQueue(q));
    } else {
        FAILS(ACL_ERROR_RT_NO_PERMISSION, acltdtGrantQueue(q, getpid(), ALL, 0));
        FAILS(ACL_ERROR_RT_NO_PERMISSION, acltdtDestroyQueue(q));
    }
    return 0;
}

START_TEST(each_set_of_rights)
{
    pid_t pid = child_start(uses_rights, NULL);

    OK(aclInit(NULL));
    shared->q[0] = create_queue(4);
    shared->rights = _i;
    OK(acltdtEnqueue(shared->q[0], buffer_of(1), 0));
    grant_rights(shared->q[0], pid, (uint32_t)_i);
    turn_tell(&to_child);
    child_expect_ok(pid);
    if (_i & MANAGE)
        FAILS(ACL_ERROR_RT_DRV_INTERNAL_ERROR, acltdtDestroyQueue(shared->q[0]));
    else
        OK(acltdtDestroyQueue(shared->q[0]));
    OK(aclFinalize());
    npud_expect_empty();
    npud_teardown();
}
END_TEST

/* --- messages --- */

/*
 * Where both poll, no wake-up can be lost, and on a busy machine each hand-over takes until the
 * other side has the CPU.
 */
static unsigned rounds_of(bool poll)
{
    return poll ? choose_effort(500, 10000) : 10000;
}

static int32_t choose_timeout(unsigned i, bool poll)
{
    return poll ? 0 : i % 2 ? -1 : 60000;
}

static acltdtBuf take_buffer(uint32_t qid, unsigned i, bool poll)
{
    acltdtBuf buf = NULL;
    aclError error;

    while ((error = acltdtDequeue(qid, &buf, choose_timeout(i, poll))) ==
               ACL_ERROR_RT_QUEUE_EMPTY &&
           poll)
        wait_a_moment();
    OK(error);
    return buf;
}

static int answer_messages(void *arg)
{
    bool poll = *(int *)arg == 2;

    if (*(int *)arg == 1)
        one_cpu();
    child_open();
    attach_queue(shared->q[0], TAKE);
    attach_queue(shared->q[1], PUT);
    for (unsigned i = 0; i < rounds_of(poll); i++) {
        acltdtBuf buf = take_buffer(shared->q[0], i, poll);

        ck_assert_uint_eq(*buffer_data(buf), i);
        *buffer_data(buf) = i + 1;
        OK(acltdtEnqueue(shared->q[1], buf, choose_timeout(i, poll)));
    }
    return 0;
}

/*
 * One buffer there and back: both asleep, both asleep on one CPU, both polling. A wake-up that is
 * lost once hangs it.
 */
START_TEST(there_and_back)
{
    int how = _i;
    pid_t pid = child_start(answer_messages, &how);
    acltdtBuf buf;

    if (how == 1)
        one_cpu();
    open_queues(8);
    grant_rights(shared->q[0], pid, TAKE);
    grant_rights(shared->q[1], pid, PUT);
    turn_tell(&to_child);
    buf = buffer_of(0);
    for (unsigned i = 0; i < rounds_of(how == 2); i++) {
        OK(acltdtEnqueue(shared->q[0], buf, choose_timeout(i, how == 2)));
        buf = take_buffer(shared->q[1], i, how == 2);
        ck_assert_uint_eq(*buffer_data(buf), i + 1);
    }
    OK(acltdtFreeBuf(buf));
    child_expect_ok(pid);
    close_queues();
}
END_TEST

static int returns_chains(void *arg)
{
    acltdtBuf head, copy;

    (void)arg;
    child_open();
    attach_queue(shared->q[0], TAKE);
    attach_queue(shared->q[1], PUT);
    OK(acltdtDequeue(shared->q[0], &head, -1));
    expect_chain(head, 100, 50);
    /* In reverse: the tail of ours is what came. */
    copy = chain_of(70, 30);
    OK(acltdtAppendBufChain(copy, head));
    expect_chain(copy, 70, 80);
    OK(acltdtEnqueue(shared->q[1], copy, -1));
    /* The one that the parent has kept a reference to. */
    OK(acltdtDequeue(shared->q[0], &head, -1));
    ck_assert_uint_eq(*buffer_data(head), 7);
    *buffer_data(head) = 8;
    OK(acltdtSetBufUserData(head, "new", 3, 90));
    OK(acltdtEnqueue(shared->q[1], head, -1));
    turn_await(&to_child);
    return 0;
}

/* Chains of buffers of two pools, user data, and data that is the same memory for both. */
START_TEST(chains_and_references)
{
    pid_t pid = child_start(returns_chains, NULL);
    acltdtBuf buf, copy, head;
    char user[4];

    open_queues(8);
    grant_rights(shared->q[0], pid, TAKE);
    grant_rights(shared->q[1], pid, PUT);
    OK(acltdtEnqueue(shared->q[0], chain_of(100, 50), -1));
    buf = buffer_of(7);
    OK(acltdtCopyBufRef(buf, &copy));
    OK(acltdtEnqueue(shared->q[0], buf, -1));
    turn_tell(&to_child);
    OK(acltdtDequeue(shared->q[1], &head, -1));
    expect_chain(head, 70, 80);
    OK(acltdtDequeue(shared->q[1], &buf, -1));
    ck_assert_ptr_eq(buffer_data(buf), buffer_data(copy));
    ck_assert_uint_eq(*buffer_data(copy), 8);
    OK(acltdtGetBufUserData(buf, user, 4, 90));
    ck_assert_mem_eq(user, "new", 4);
    OK(acltdtGetBufUserData(copy, user, 4, 90));
    ck_assert_mem_eq(user, "\0\0\0", 4);
    /* Its sender's end takes nothing from us. */
    turn_tell(&to_child);
    child_expect_ok(pid);
    npud_await_sessions(1);
    expect_chain(head, 70, 80);
    OK(acltdtFreeBuf(head));
    OK(acltdtFreeBuf(buf));
    OK(acltdtFreeBuf(copy));
    close_queues();
}
END_TEST

/* --- many --- */

#define PRODUCERS 3
#define CONSUMERS 3
#define EACH      2000
#define OVER      UINT64_MAX

static int run_producer(void *arg)
{
    uint64_t who = (uintptr_t)arg;

    child_open();
    attach_queue(shared->q[0], PUT);
    for (uint64_t i = 0; i < EACH; i++) {
        OK(acltdtEnqueue(shared->q[0], buffer_of(who << 32 | i), -1));
        atomic_fetch_add(&shared->sent, 1);
    }
    return 0;
}

static int run_consumer(void *arg)
{
    int64_t last[PRODUCERS];
    uint64_t value;

    (void)arg;
    child_open();
    attach_queue(shared->q[0], TAKE);
    memset(last, -1, sizeof(last));
    while ((value = take_value(shared->q[0], -1)) != OVER) {
        uint32_t who = (uint32_t)(value >> 32);

        ck_assert_uint_lt(who, PRODUCERS);
        ck_assert_int_gt((int64_t)(uint32_t)value, last[who]);
        last[who] = (uint32_t)value;
        atomic_fetch_add(&shared->received, 1);
    }
    return 0;
}

START_TEST(many_processes)
{
    pid_t producer[PRODUCERS], consumer[CONSUMERS];

    if (_i & 1)
        one_cpu();
    for (uintptr_t i = 0; i < PRODUCERS; i++)
        producer[i] = child_start(run_producer, (void *)i);
    for (uintptr_t i = 0; i < CONSUMERS; i++)
        consumer[i] = child_start(run_consumer, NULL);
    open_queues(_i & 2 ? 64 : 2);
    for (unsigned i = 0; i < PRODUCERS; i++)
        grant_rights(shared->q[0], producer[i], PUT);
    for (unsigned i = 0; i < CONSUMERS; i++)
        grant_rights(shared->q[0], consumer[i], TAKE);
    for (unsigned i = 0; i < PRODUCERS + CONSUMERS; i++)
        turn_tell(&to_child);
    for (unsigned i = 0; i < PRODUCERS; i++)
        child_expect_ok(producer[i]);
    for (unsigned i = 0; i < CONSUMERS; i++)
        OK(acltdtEnqueue(shared->q[0], buffer_of(OVER), -1));
    for (unsigned i = 0; i < CONSUMERS; i++)
        child_expect_ok(consumer[i]);
    ck_assert_uint_eq(shared->received, (uint64_t)PRODUCERS * EACH);
    close_queues();
}
END_TEST

/* --- rights that are taken away --- */

static int produces_until_stopped(void *arg)
{
    uint64_t i = 0;

    (void)arg;
    child_open();
    attach_queue(shared->q[0], PUT);
    while (!shared->stop)
        OK(acltdtEnqueue(shared->q[0], buffer_of(i++), -1));
    shared->sent = i;
    OK(acltdtEnqueue(shared->q[0], buffer_of(OVER), -1));
    return 0;
}

static int consumes_all(void *arg)
{
    uint64_t value;

    (void)arg;
    child_open();
    attach_queue(shared->q[0], TAKE);
    while ((value = take_value(shared->q[0], -1)) != OVER)
        ck_assert_uint_eq(value, shared->received++);
    return 0;
}

static int comes_and_goes(void *arg)
{
    acltdtBuf buf;
    aclError error;

    (void)arg;
    OK(aclInit(NULL));
    for (;;) {
        turn_await(&to_child);
        if (shared->stop)
            return 0;
        attach_queue(shared->q[0], MANAGE | TAKE);
        turn_tell(&to_parent);
        turn_await(&to_child);
        error = acltdtDequeue(shared->q[0], &buf, -1);
        ck_assert_msg(error == ACL_ERROR_RT_NO_PERMISSION ||
                          error == ACL_ERROR_RT_DRV_INTERNAL_ERROR,
                      "%d", error);
        turn_tell(&to_parent);
    }
}

/*
 * The ring moves each time the right to take is taken away, while processes use it: no message is
 * lost, doubled or overtaken.
 */
START_TEST(ring_moves_under_traffic)
{
    pid_t guest = child_start(comes_and_goes, NULL), producer, consumer;
    struct turn guest_turn = to_child;

    turn_init(&to_child);
    producer = child_start(produces_until_stopped, NULL);
    consumer = child_start(consumes_all, NULL);
    open_queues(_i ? 100 : 2);
    grant_rights(shared->q[0], producer, PUT);
    grant_rights(shared->q[0], consumer, TAKE);
    turn_tell(&to_child);
    turn_tell(&to_child);
    for (unsigned i = 0; i < 200; i++) {
        grant_rights(shared->q[0], guest, MANAGE | TAKE);
        turn_tell(&guest_turn);
        turn_await(&to_parent);
        grant_rights(shared->q[0], guest, 0);
        turn_tell(&guest_turn);
        turn_await(&to_parent);
    }
    shared->stop = 1;
    turn_tell(&guest_turn);
    child_expect_ok(guest);
    child_expect_ok(producer);
    child_expect_ok(consumer);
    ck_assert_uint_eq(shared->sent, shared->received);
    ck_assert_uint_gt(shared->sent, 0);
    close_queues();
}
END_TEST

static int loses_right_asleep(void *arg)
{
    bool put = *(int *)arg != 0;
    acltdtBuf buf;

    child_open();
    attach_queue(shared->q[0], put ? PUT : TAKE);
    if (put) {
        buf = buffer_of(9);
        FAILS(ACL_ERROR_RT_NO_PERMISSION, acltdtEnqueue(shared->q[0], buf, -1));
        ck_assert_uint_eq(buffer_value(buf), 9);
    } else {
        FAILS(ACL_ERROR_RT_NO_PERMISSION, acltdtDequeue(shared->q[0], &buf, -1));
    }
    return 0;
}

/* All rights, or only the one that it uses. */
START_TEST(right_is_taken_from_who_sleeps)
{
    int put = _i & 1;
    pid_t pid = child_start(loses_right_asleep, &put);

    open_queues(2);
    if (put) {
        OK(acltdtEnqueue(shared->q[0], buffer_of(1), 0));
        OK(acltdtEnqueue(shared->q[0], buffer_of(2), 0));
    }
    grant_rights(shared->q[0], pid, put ? PUT : TAKE);
    turn_tell(&to_child);
    await_asleep(pid, 1);
    grant_rights(shared->q[0], pid, _i & 2 ? 0 : MANAGE);
    child_expect_ok(pid);
    if (put) {
        ck_assert_uint_eq(take_value(shared->q[0], 0), 1);
        ck_assert_uint_eq(take_value(shared->q[0], 0), 2);
    }
    close_queues();
}
END_TEST

/* --- destroyed --- */

static int sleeps_until_destroyed(void *arg)
{
    acltdtBuf buf;

    (void)arg;
    child_open();
    attach_queue(shared->q[0], PUT);
    buf = buffer_of(5);
    FAILS_SAYING(ACL_ERROR_RT_DRV_INTERNAL_ERROR, "destroyed",
                 acltdtEnqueue(shared->q[0], buf, -1));
    ck_assert_uint_eq(buffer_value(buf), 5);
    turn_tell(&to_parent);
    attach_queue(shared->q[1], TAKE);
    FAILS_SAYING(ACL_ERROR_RT_DRV_INTERNAL_ERROR, "destroyed",
                 acltdtDequeue(shared->q[1], &buf, 60000));
    FAILS(ACL_ERROR_RT_DRV_INTERNAL_ERROR, acltdtDequeue(shared->q[1], &buf, -1));
    return 0;
}

START_TEST(destroy_with_sleepers)
{
    pid_t pid = child_start(sleeps_until_destroyed, NULL);

    open_queues(2);
    OK(acltdtEnqueue(shared->q[0], buffer_of(1), 0));
    OK(acltdtEnqueue(shared->q[0], buffer_of(2), 0));
    grant_rights(shared->q[0], pid, PUT);
    grant_rights(shared->q[1], pid, TAKE);
    turn_tell(&to_child);
    await_asleep(pid, 1);
    OK(acltdtDestroyQueue(shared->q[0]));
    turn_await(&to_parent);
    await_asleep(pid, 1);
    OK(acltdtDestroyQueue(shared->q[1]));
    child_expect_ok(pid);
    OK(aclFinalize());
    npud_expect_empty();
    npud_teardown();
}
END_TEST

/* --- no process left --- */

static int attaches_and_stays(void *arg)
{
    uint32_t rights = *(uint32_t *)arg;

    child_open();
    attach_queue(shared->q[0], rights);
    turn_tell(&to_parent);
    turn_await(&go);
    if (rights & PUT)
        OK(acltdtEnqueue(shared->q[0], buffer_of(11), 0));
    else
        ck_assert_uint_eq(take_value(shared->q[0], 0), 1);
    turn_tell(&to_parent);
    for (;;)
        pause();
}

struct sleeper {
    pthread_t thread;
    bool put;
    acltdtBuf buf;
    aclError result;
    char text[512];
};

static void *sleep_there(void *arg)
{
    struct sleeper *z = arg;
    const char *text;

    z->result =
        z->put ? acltdtEnqueue(shared->q[0], z->buf, -1) : acltdtDequeue(shared->q[0], &z->buf, -1);
    text = aclGetRecentErrMsg();
    snprintf(z->text, sizeof(z->text), "%s", text ? text : "");
    return NULL;
}

static void sleeper_begin(struct sleeper *z, bool put)
{
    *z = (struct sleeper){.put = put};
    if (put)
        z->buf = buffer_of(3);
    pthread_create(&z->thread, NULL, sleep_there, z);
    await_asleep(getpid(), 1);
}

static aclError sleeper_end(struct sleeper *z)
{
    pthread_join(z->thread, NULL);
    return z->result;
}

static void expect_deserted(struct sleeper *z, const char *what, pid_t pid)
{
    char number[32];

    snprintf(number, sizeof(number), "process %d,", (int)pid);
    ck_assert_int_eq(sleeper_end(z), ACL_ERROR_RT_DRV_INTERNAL_ERROR);
    ck_assert_msg(strstr(z->text, what) && strstr(z->text, number), "%s", z->text);
}

START_TEST(nobody_left_who_could_enqueue)
{
    uint32_t rights = PUT;
    pid_t one = child_start(attaches_and_stays, &rights);
    pid_t two = child_start(attaches_and_stays, &rights);
    struct sleeper z;
    acltdtBuf buf;

    open_queues(2);
    grant_rights(shared->q[0], one, PUT);
    grant_rights(shared->q[0], two, PUT);
    turn_tell(&to_child);
    turn_await(&to_parent);
    turn_tell(&to_child);
    turn_await(&to_parent);
    sleeper_begin(&z, false);
    child_kill(one);
    npud_await_sessions(2);
    await_asleep(getpid(), 1);
    turn_tell(&go);
    turn_await(&to_parent);
    ck_assert_int_eq(sleeper_end(&z), 0);
    ck_assert_uint_eq(buffer_value(z.buf), 11);
    OK(acltdtFreeBuf(z.buf));
    sleeper_begin(&z, false);
    child_kill(two);
    expect_deserted(&z, "no process is left that could enqueue", two);
    /* A caller that asks without waiting is told what there is. */
    FAILS(ACL_ERROR_RT_QUEUE_EMPTY, acltdtDequeue(shared->q[0], &buf, 0));
    FAILS_SAYING(ACL_ERROR_RT_DRV_INTERNAL_ERROR, "no process is left",
                 acltdtDequeue(shared->q[0], &buf, 1000));
    /* A process that serves itself. */
    OK(acltdtEnqueue(shared->q[0], buffer_of(1), 0));
    ck_assert_uint_eq(take_value(shared->q[0], -1), 1);
    FAILS(ACL_ERROR_RT_QUEUE_EMPTY, acltdtDequeue(shared->q[0], &buf, 10));
    close_queues();
}
END_TEST

START_TEST(nobody_left_who_could_dequeue)
{
    uint32_t rights = TAKE;
    pid_t one = child_start(attaches_and_stays, &rights), two;
    struct turn first = to_child;
    struct sleeper z;

    turn_init(&to_child);
    two = child_start(attaches_and_stays, &rights);
    open_queues(2);
    OK(acltdtEnqueue(shared->q[0], buffer_of(1), 0));
    OK(acltdtEnqueue(shared->q[0], buffer_of(2), 0));
    grant_rights(shared->q[0], one, TAKE);
    turn_tell(&first);
    turn_await(&to_parent);
    sleeper_begin(&z, true);
    child_kill(one);
    expect_deserted(&z, "no process is left that could dequeue", one);
    FAILS(ACL_ERROR_RT_QUEUE_FULL, acltdtEnqueue(shared->q[0], z.buf, 0));
    /* A new consumer has come: there is a reason to wait again. */
    grant_rights(shared->q[0], two, TAKE);
    {
        acltdtBuf kept = z.buf;

        sleeper_begin(&z, true);
        turn_tell(&to_child);
        turn_await(&to_parent);
        turn_tell(&go);
        turn_await(&to_parent);
        ck_assert_int_eq(sleeper_end(&z), 0);
        OK(acltdtFreeBuf(kept));
    }
    child_kill(two);
    ck_assert_uint_eq(take_value(shared->q[0], 0), 2);
    ck_assert_uint_eq(take_value(shared->q[0], 0), 3);
    close_queues();
}
END_TEST

/* --- the last one leaves in order --- */

enum leave_how {
    FINALIZES_WITH_DEVICE, /* its session stays */
    FINALIZES,
    EXITS,
    COMES_BACK, /* and finalizes with a device before */
    LEAVE_HOWS
};

struct leaver {
    enum leave_how how;
    uint32_t rights;
};

static int leaves(void *arg)
{
    const struct leaver *l = arg;

    child_open();
    OK(aclrtSetDevice(0));
    attach_queue(shared->q[0], l->rights);
    turn_tell(&to_parent);
    turn_await(&go);
    if (l->how == EXITS)
        return 0;
    if (l->how == FINALIZES)
        OK(aclrtResetDevice(0));
    OK(aclFinalize());
    turn_await(&go);
    if (l->how == COMES_BACK) {
        OK(aclInit(NULL));
        turn_tell(&to_parent);
        turn_await(&go);
        if (l->rights & PUT)
            OK(acltdtEnqueue(shared->q[0], buffer_of(11), 0));
        else
            ck_assert_uint_eq(take_value(shared->q[0], 0), 1);
        turn_await(&go);
    }
    return 0;
}

static void await_service(bool put)
{
    struct sleeper z;

    turn_tell(&go);
    turn_await(&to_parent);
    sleeper_begin(&z, put);
    turn_tell(&go);
    ck_assert_int_eq(sleeper_end(&z), 0);
    if (!put)
        OK(acltdtFreeBuf(z.buf));
}

START_TEST(the_last_one_leaves_in_order)
{
    struct leaver l = {(enum leave_how)(_i / 2), _i % 2 ? PUT : TAKE};
    bool put = l.rights == TAKE;
    pid_t pid = child_start(leaves, &l);
    struct sleeper z;

    open_queues(2);
    for (int i = 1; i <= 2 && put; i++)
        OK(acltdtEnqueue(shared->q[0], buffer_of(i), 0));
    grant_rights(shared->q[0], pid, l.rights);
    turn_tell(&to_child);
    turn_await(&to_parent);
    sleeper_begin(&z, put);
    turn_tell(&go);
    expect_deserted(&z, put ? "could dequeue" : "could enqueue", pid);
    if (put)
        OK(acltdtFreeBuf(z.buf));
    if (l.how == COMES_BACK)
        await_service(put);
    turn_tell(&go);
    child_expect_ok(pid);
    close_queues();
}
END_TEST

static int puts_and_dies(void *arg)
{
    (void)arg;
    child_open();
    attach_queue(shared->q[0], PUT);
    OK(acltdtEnqueue(shared->q[0], buffer_of(1), 0));
    OK(acltdtEnqueue(shared->q[0], chain_of(10, 20), 0));
    OK(acltdtEnqueueData(shared->q[0], "abc", 4, NULL, 0, 0, 0));
    turn_tell(&to_parent);
    for (;;)
        pause();
}

START_TEST(messages_outlive_their_sender)
{
    pid_t pid = child_start(puts_and_dies, NULL);
    acltdtBuf buf;
    char got[4];
    size_t n;

    open_queues(8);
    grant_rights(shared->q[0], pid, PUT);
    turn_tell(&to_child);
    turn_await(&to_parent);
    child_kill(pid);
    npud_await_sessions(1);
    ck_assert_uint_eq(take_value(shared->q[0], -1), 1);
    OK(acltdtDequeue(shared->q[0], &buf, -1));
    expect_chain(buf, 10, 20);
    OK(acltdtFreeBuf(buf));
    OK(acltdtDequeueData(shared->q[0], got, 4, &n, NULL, 0, -1));
    ck_assert_str_eq(got, "abc");
    FAILS_SAYING(ACL_ERROR_RT_DRV_INTERNAL_ERROR, "no process is left",
                 acltdtDequeue(shared->q[0], &buf, -1));
    close_queues();
}
END_TEST

/* --- npud gone --- */

enum { TAKING, PUTTING, ATTACHING, ROLES };

/* Asleep on words that it cannot write. */
static int sleeps_until_npud_ends(void *arg)
{
    uint32_t rights;
    acltdtBuf buf;

    child_open();
    switch (*(int *)arg) {
    case TAKING:
        attach_queue(shared->q[0], TAKE);
        FAILS(ACL_ERROR_RT_SOCKET_CLOSE, acltdtDequeue(shared->q[0], &buf, -1));
        FAILS(ACL_ERROR_RT_SOCKET_CLOSE, acltdtDequeue(shared->q[0], &buf, 0));
        break;
    case PUTTING:
        attach_queue(shared->q[1], PUT);
        buf = buffer_of(1);
        FAILS(ACL_ERROR_RT_SOCKET_CLOSE, acltdtEnqueue(shared->q[1], buf, -1));
        FAILS(ACL_ERROR_RT_SOCKET_CLOSE, acltdtEnqueue(shared->q[1], buf, 0));
        break;
    default:
        FAILS(ACL_ERROR_RT_SOCKET_CLOSE, acltdtAttachQueue(shared->q[1], 60000, &rights));
        break;
    }
    return 0;
}

START_TEST(npud_ends_while_they_sleep)
{
    int role[ROLES] = {TAKING, PUTTING, ATTACHING};
    pid_t pid[ROLES];

    for (int i = 0; i < ROLES; i++)
        pid[i] = child_start(sleeps_until_npud_ends, &role[i]);
    open_queues(2);
    OK(acltdtEnqueue(shared->q[1], buffer_of(1), 0));
    OK(acltdtEnqueue(shared->q[1], buffer_of(2), 0));
    grant_rights(shared->q[0], pid[TAKING], TAKE);
    grant_rights(shared->q[1], pid[PUTTING], PUT);
    for (int i = 0; i < ROLES; i++)
        turn_tell(&to_child);
    for (int i = 0; i < ROLES; i++)
        await_asleep(pid[i], 1);
    /*
     * Killed, or in good order: then the rings end before the connections, and peers leave one
     * after the other.
     */
    if (_i % 2)
        npud_kill();
    else
        npud_teardown();
    for (int i = 0; i < ROLES; i++)
        child_expect_ok(pid[i]);
    FAILS(ACL_ERROR_RT_SOCKET_CLOSE, acltdtCreateQueue(NULL, &shared->q[0]));
}
END_TEST

/* npud ends at any moment of a traffic that sleeps and wakes all the time. */
static int passes_on(void *arg)
{
    int me = *(int *)arg;
    acltdtBuf buf;
    aclError error;

    child_open();
    attach_queue(shared->q[me], TAKE);
    attach_queue(shared->q[1 - me], PUT);
    turn_tell(&to_parent);
    do {
        error = acltdtDequeue(shared->q[me], &buf, -1);
        if (error == 0) {
            atomic_fetch_add(&shared->received, 1);
            error = acltdtEnqueue(shared->q[1 - me], buf, -1);
        }
    } while (error == 0);
    /* If npud ended before the other process put a message, that message may be missing. */
    ck_assert_msg(error == ACL_ERROR_RT_SOCKET_CLOSE, "%d: %s", error, aclGetRecentErrMsg());
    return 0;
}

START_TEST(npud_ends_in_traffic)
{
    int number[2] = {0, 1};
    pid_t pid[2];

    if (_i % 2)
        one_cpu();
    for (int i = 0; i < 2; i++)
        pid[i] = child_start(passes_on, &number[i]);
    open_queues(2);
    for (int i = 0; i < 2; i++) {
        grant_rights(shared->q[i], pid[i], TAKE);
        grant_rights(shared->q[1 - i], pid[i], PUT);
    }
    OK(acltdtEnqueue(shared->q[0], buffer_of(1), 0));
    turn_tell(&to_child);
    turn_tell(&to_child);
    turn_await(&to_parent);
    turn_await(&to_parent);
    while (atomic_load(&shared->received) < 1 + 100u * (unsigned)_i)
        wait_a_moment();
    if (_i % 3)
        npud_kill();
    else
        npud_teardown();
    for (int i = 0; i < 2; i++)
        child_expect_ok(pid[i]);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("queue_peers");
    TCase *t = suite_case(s, "processes", 90, set_up_test, NULL);

    tcase_add_test(t, attach_waits_for_grant);
    tcase_add_loop_test(t, each_set_of_rights, 1, ALL + 1);
    tcase_add_loop_test(t, there_and_back, 0, 3);
    tcase_add_test(t, chains_and_references);
    tcase_add_loop_test(t, many_processes, 0, 4);
    tcase_add_loop_test(t, ring_moves_under_traffic, 0, 2);
    tcase_add_loop_test(t, right_is_taken_from_who_sleeps, 0, 4);
    tcase_add_test(t, destroy_with_sleepers);
    tcase_add_test(t, nobody_left_who_could_enqueue);
    tcase_add_test(t, nobody_left_who_could_dequeue);
    tcase_add_loop_test(t, the_last_one_leaves_in_order, 0, 2 * LEAVE_HOWS);
    tcase_add_test(t, messages_outlive_their_sender);
    tcase_add_loop_test(t, npud_ends_while_they_sleep, 0, 4);
    tcase_add_loop_test(t, npud_ends_in_traffic, 0, 10);
    return run_suite(s);
}
