/* Queues whose sessions, peers and rings end or change at an awkward moment. */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "acl/acl_tdt_queue.h"
#include "queue_kit.h"

#define MANAGE 1u
#define TAKE   2u
#define PUT    4u
#define ALL    7u

static struct shared {
    uint32_t q;
    _Atomic uint32_t stop;
} * shared;

static void set_up_test(void)
{
    npud_setup();
    shared = child_share(sizeof(*shared));
    turns_init();
}

static void finish_test(void)
{
    await_buffers(0);
    OK(aclFinalize());
    npud_expect_empty();
    npud_teardown();
}

/* A thread in one call without limit. */
struct sleeper {
    pthread_t thread;
    uint32_t q, rights; /* rights 0: it attaches */
    acltdtBuf buf;
    aclError result;
    char text[512];
};

static void *sleep_there(void *arg)
{
    struct sleeper *z = arg;
    const char *text;

    if (z->rights == 0)
        z->result = acltdtAttachQueue(z->q, -1, &z->rights);
    else if (z->rights == PUT)
        z->result = acltdtEnqueue(z->q, z->buf, -1);
    else
        z->result = acltdtDequeue(z->q, &z->buf, -1);
    text = aclGetRecentErrMsg();
    snprintf(z->text, sizeof(z->text), "%s", text ? text : "");
    return NULL;
}

static void sleeper_begin(struct sleeper *z, uint32_t q, uint32_t rights)
{
    acltdtBuf buf = z->buf;

    *z = (struct sleeper){.q = q, .rights = rights, .buf = buf};
    ck_assert_int_eq(pthread_create(&z->thread, NULL, sleep_there, z), 0);
}

static aclError sleeper_end(struct sleeper *z)
{
    pthread_join(z->thread, NULL);
    return z->result;
}

/* --- the end of a session with threads asleep --- */

/* What they sleep on stays: aclFinalize does not wait for them, nor take it away. */
START_TEST(finalize_with_sleepers)
{
    struct sleeper taker = {0}, putter = {0};
    uint32_t q[2];

    OK(aclInit(NULL));
    q[0] = create_queue(2);
    q[1] = create_queue(2);
    OK(acltdtEnqueue(q[1], buffer_of(1), 0));
    OK(acltdtEnqueue(q[1], buffer_of(2), 0));
    putter.buf = buffer_of(3);
    sleeper_begin(&taker, q[0], TAKE);
    sleeper_begin(&putter, q[1], PUT);
    await_asleep(getpid(), 2);
    OK(aclFinalize());
    await_asleep(getpid(), 2);
    OK(aclInit(NULL));
    ck_assert_uint_eq(take_value(q[1], 0), 1);
    ck_assert_int_eq(sleeper_end(&putter), 0);
    OK(acltdtEnqueue(q[0], buffer_of(4), 0));
    ck_assert_int_eq(sleeper_end(&taker), 0);
    ck_assert_uint_eq(buffer_value(taker.buf), 4);
    OK(acltdtFreeBuf(taker.buf));
    OK(acltdtDestroyQueue(q[0]));
    OK(acltdtDestroyQueue(q[1]));
    finish_test();
}
END_TEST

static int finalizes_while_it_attaches(void *arg)
{
    struct sleeper z = {0};

    (void)arg;
    OK(aclInit(NULL));
    turn_await(&to_child);
    sleeper_begin(&z, shared->q, 0);
    await_asleep(getpid(), 1);
    OK(aclFinalize());
    turn_tell(&to_parent);
    ck_assert_int_eq(sleeper_end(&z), 0);
    ck_assert_uint_eq(z.rights, TAKE);
    OK(aclInit(NULL));
    ck_assert_uint_eq(take_value(shared->q, -1), 5);
    OK(aclFinalize());
    return 0;
}

START_TEST(finalize_while_a_thread_attaches)
{
    pid_t pid = child_start(finalizes_while_it_attaches, NULL);

    OK(aclInit(NULL));
    shared->q = create_queue(2);
    turn_tell(&to_child);
    turn_await(&to_parent);
    OK(acltdtGrantQueue(shared->q, pid, TAKE, 0));
    OK(acltdtEnqueue(shared->q, buffer_of(5), 0));
    child_expect_ok(pid);
    OK(acltdtDestroyQueue(shared->q));
    finish_test();
}
END_TEST

/* --- processes that could serve --- */

static int waits_to_be_killed(void *arg)
{
    (void)arg;
    while (!shared->stop)
        pause();
    return 0;
}

/* A process that was granted a right and ends without ever having said a word to npud. */
START_TEST(granted_and_gone)
{
    pid_t pid = child_start(waits_to_be_killed, NULL);
    struct sleeper z = {.buf = NULL};
    char number[32];
    uint32_t q;

    OK(aclInit(NULL));
    q = create_queue(2);
    if (_i) {
        OK(acltdtEnqueue(q, buffer_of(1), 0));
        OK(acltdtEnqueue(q, buffer_of(2), 0));
        z.buf = buffer_of(3);
    }
    OK(acltdtGrantQueue(q, pid, _i ? TAKE : PUT, 0));
    sleeper_begin(&z, q, _i ? PUT : TAKE);
    await_asleep(getpid(), 1);
    child_kill(pid);
    ck_assert_int_eq(sleeper_end(&z), ACL_ERROR_RT_DRV_INTERNAL_ERROR);
    snprintf(number, sizeof(number), "process %d,", (int)pid);
    ck_assert_msg(strstr(z.text, "no process is left") && strstr(z.text, number), "%s", z.text);
    if (_i)
        OK(acltdtFreeBuf(z.buf));
    OK(acltdtDestroyQueue(q));
    finish_test();
}
END_TEST

static int puts_when_told(void *arg)
{
    uint32_t rights;

    OK(aclInit(NULL));
    OK(acltdtAttachQueue(shared->q, -1, &rights));
    turn_tell(&to_parent);
    if (!*(bool *)arg)
        waits_to_be_killed(NULL);
    turn_await(&to_child);
    OK(acltdtEnqueue(shared->q, buffer_of(6), 0));
    return 0;
}

#define HEIRS 20

/*
 * Each of them is killed when the next one has been granted, or has attached: one process that
 * could serve is always left.
 */
START_TEST(replaced_before_it_dies)
{
    bool last[HEIRS];
    pid_t pid[HEIRS];
    struct sleeper z = {0};

    for (int i = 0; i < HEIRS; i++)
        last[i] = i == HEIRS - 1;
    OK(aclInit(NULL));
    shared->q = create_queue(2);
    for (int i = 0; i < HEIRS; i++) {
        pid[i] = child_start(puts_when_told, &last[i]);
        OK(acltdtGrantQueue(shared->q, pid[i], PUT, 0));
        if (i == 0)
            sleeper_begin(&z, shared->q, TAKE);
        if (i > 0 && i % 2)
            child_kill(pid[i - 1]);
        turn_await(&to_parent);
        if (i > 0 && i % 2 == 0)
            child_kill(pid[i - 1]);
    }
    turn_tell(&to_child);
    ck_assert_int_eq(sleeper_end(&z), 0);
    ck_assert_uint_eq(buffer_value(z.buf), 6);
    OK(acltdtFreeBuf(z.buf));
    child_expect_ok(pid[HEIRS - 1]);
    OK(acltdtDestroyQueue(shared->q));
    finish_test();
}
END_TEST

/* --- one id, two queues --- */

static int sleeps_through_a_change(void *arg)
{
    uint32_t rights;
    acltdtBuf buf;

    (void)arg;
    OK(aclInit(NULL));
    turn_await(&to_child);
    OK(acltdtAttachQueue(shared->q, -1, &rights));
    FAILS_SAYING(ACL_ERROR_RT_DRV_INTERNAL_ERROR, "destroyed", acltdtDequeue(shared->q, &buf, -1));
    OK(acltdtAttachQueue(shared->q, 0, &rights));
    ck_assert_uint_eq(take_value(shared->q, 0), 8);
    return 0;
}

/*
 * The ring moves, the queue is destroyed, and another queue gets its id. A process that is granted
 * the new queue, too, sees all of this at once.
 */
START_TEST(id_is_anothers_behind_the_back)
{
    pid_t pid = child_start(sleeps_through_a_change, NULL);
    uint32_t q;

    OK(aclInit(NULL));
    shared->q = create_queue(2);
    OK(acltdtGrantQueue(shared->q, pid, TAKE, 0));
    turn_tell(&to_child);
    await_asleep(pid, 1);
    child_stop(pid);
    OK(acltdtGrantQueue(shared->q, pid, TAKE | PUT, 0));
    OK(acltdtGrantQueue(shared->q, pid, TAKE, 0)); /* a right less: the ring moves */
    OK(acltdtDestroyQueue(shared->q));
    while ((q = create_queue(2)) != shared->q)
        OK(acltdtDestroyQueue(q));
    OK(acltdtGrantQueue(q, pid, TAKE, 0));
    OK(acltdtEnqueue(q, buffer_of(8), 0));
    ck_assert_int_eq(kill(pid, SIGCONT), 0);
    child_expect_ok(pid);
    OK(acltdtDestroyQueue(q));
    finish_test();
}
END_TEST

int main(void)
{
    Suite *s = suite_create("queue_ends");
    TCase *t = suite_case(s, "ends", 60, set_up_test, NULL);

    tcase_add_test(t, finalize_with_sleepers);
    tcase_add_test(t, finalize_while_a_thread_attaches);
    tcase_add_loop_test(t, granted_and_gone, 0, 2);
    tcase_add_test(t, replaced_before_it_dies);
    tcase_add_test(t, id_is_anothers_behind_the_back);
    return run_suite(s);
}
