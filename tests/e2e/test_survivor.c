/*
 * Processes that live on after their session was ended for them: what they held belongs to no other
 * process before they exit, since they may be between any two stores of a call, or write to the
 * data of a buffer at any time.
 */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "acl/acl_tdt_queue.h"
#include "proto/wire/npud.pb-c.h"
#include "queue_kit.h"
#include "tests/common/effort.h"

#define MANAGE 1u
#define TAKE   2u
#define PUT    4u

#define GUARD_NS UINT64_C(300000000000) /* against hanging only */

static struct shared {
    uint32_t q;
    _Atomic uint32_t ended;
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

static void open_here(void)
{
    OK(aclInit(NULL));
    OK(acltdtCreateQueue(NULL, &shared->q));
}

static void let_attach(pid_t pid)
{
    OK(acltdtGrantQueue(shared->q, pid, TAKE, 0));
    turn_tell(&to_child);
    turn_await(&to_parent);
}

static void attach_as_granted(void)
{
    uint32_t rights;

    turn_await(&to_child);
    OK(aclInit(NULL));
    OK(acltdtAttachQueue(shared->q, -1, &rights));
    turn_tell(&to_parent);
}

/* `npuctl kill` for the session of a process. Returns when the session has gone. */
static void end_session_of(pid_t pid)
{
    uint64_t give_up = now_ns() + GUARD_NS;
    char text[40];

    snprintf(text, sizeof(text), "kill %llu", (unsigned long long)npud_session_of(pid));
    npuctl_says(text, 0, "");
    while (npud_session_of(pid) != 0)
        ck_assert_uint_lt(now_ns(), give_up);
}

/* --- one buffer --- */

/* Takes a buffer and keeps it. */
static int keeps_one(void *arg)
{
    acltdtBuf buf;

    (void)arg;
    attach_as_granted();
    turn_await(&to_child);
    OK(acltdtDequeue(shared->q, &buf, -1));
    turn_tell(&to_parent);
    for (;;)
        pause();
}

#define MANY 3000 /* buffers: more than the segment has in which the first one is */

/* How many of MANY buffers have this address. */
static unsigned count_at(const void *data)
{
    static acltdtBuf buf[MANY];
    unsigned n = 0;

    for (unsigned i = 0; i < MANY; i++) {
        buf[i] = buffer_of(i);
        n += buffer_data(buf[i]) == data;
    }
    for (unsigned i = 0; i < MANY; i++)
        OK(acltdtFreeBuf(buf[i]));
    return n;
}

/* The data of `buf`, which is put and taken. Another buffer keeps its segment. */
static const void *hand_over(acltdtBuf *other)
{
    acltdtBuf buf = buffer_of(1);
    const void *data = buffer_data(buf);

    *other = buffer_of(2);
    OK(acltdtEnqueue(shared->q, buf, 0));
    turn_tell(&to_child);
    turn_await(&to_parent);
    return data;
}

/*
 * Guards against freeing the slots of an ended session while its process lives: the process writes
 * to the buffer of another then.
 */
START_TEST(buffer_of_ended_session_is_no_others_before_its_process_exits)
{
    pid_t pid = child_start(keeps_one, NULL);
    uint64_t give_up;
    acltdtBuf other;
    const void *data;

    open_here();
    let_attach(pid);
    data = hand_over(&other);
    end_session_of(pid);
    ck_assert_uint_eq(count_at(data), 0);
    ck_assert_uint_eq(count_at(data), 0);
    ck_assert_uint_eq(npud_buffers(), 2);
    child_kill(pid);
    /* Now it is free again. */
    await_buffers(1);
    give_up = now_ns() + GUARD_NS;
    while (count_at(data) == 0)
        ck_assert_uint_lt(now_ns(), give_up);
    OK(acltdtFreeBuf(other));
    finish_test();
}
END_TEST

static int takes_one_and_leaves(void *arg)
{
    acltdtBuf buf;

    (void)arg;
    attach_as_granted();
    turn_await(&to_child);
    OK(acltdtDequeue(shared->q, &buf, -1));
    OK(aclFinalize());
    turn_tell(&to_parent);
    for (;;)
        pause();
}

/* aclFinalize is an end in order: what the process had is free at once, though it lives. */
START_TEST(buffer_of_finalized_process_is_free_while_it_lives)
{
    pid_t pid = child_start(takes_one_and_leaves, NULL);
    acltdtBuf other;

    open_here();
    let_attach(pid);
    hand_over(&other);
    await_buffers(1);
    OK(acltdtFreeBuf(other));
    child_kill(pid);
    finish_test();
}
END_TEST

/*
 * A survivor counts as a session of its user, and has one descriptor, until it exits: else a
 * program could collect them.
 */
START_TEST(survivor_is_charged)
{
    pid_t pid = child_start(keeps_one, NULL);
    uint32_t fds;
    acltdtBuf other;

    open_here();
    let_attach(pid);
    hand_over(&other);
    end_session_of(pid);
    npuctl_says("limits", 0, "sessions");
    fds = npud_ledger().fds;
    child_kill(pid);
    npud_await_fds(fds - 1);
    OK(acltdtFreeBuf(other));
    finish_test();
}
END_TEST

/* --- many, while others work beside it --- */

static void *takes_and_frees(void *arg)
{
    acltdtBuf buf, copy;

    (void)arg;
    while (acltdtDequeue(shared->q, &buf, -1) == ACL_SUCCESS) {
        bool copied = acltdtCopyBufRef(buf, &copy) == ACL_SUCCESS;

        acltdtFreeBuf(buf);
        if (copied)
            acltdtFreeBuf(copy);
    }
    return NULL;
}

static int takes_until_ended(void *arg)
{
    pthread_t thread[2];

    (void)arg;
    attach_as_granted();
    for (int i = 0; i < 2; i++)
        pthread_create(&thread[i], NULL, takes_and_frees, NULL);
    for (;;)
        pause();
    return 0;
}

static _Atomic bool stop;

static void *puts_messages(void *arg)
{
    uint64_t n = 0;

    (void)arg;
    while (!atomic_load(&stop)) {
        acltdtBuf buf = buffer_of(++n);

        if (acltdtEnqueue(shared->q, buf, 10) != ACL_SUCCESS)
            OK(acltdtFreeBuf(buf));
    }
    return NULL;
}

#define HELD 48

/* Buffers and references of this process's own, which no other process may touch. */
static void *holds_buffers(void *arg)
{
    acltdtBuf buf[HELD], copy[HELD];

    (void)arg;
    while (!atomic_load(&stop)) {
        for (unsigned i = 0; i < HELD; i++) {
            buf[i] = buffer_of(i);
            OK(acltdtCopyBufRef(buf[i], &copy[i]));
        }
        for (unsigned i = 0; i < HELD; i++) {
            ck_assert_uint_eq(*buffer_data(buf[i]), i);
            ck_assert_uint_eq(*buffer_data(copy[i]), i);
            OK(acltdtFreeBuf(buf[i]));
            OK(acltdtFreeBuf(copy[i]));
        }
    }
    return NULL;
}

/*
 * Guards against a consumer's store into a slot that npud has freed for it, and that is another's:
 * a thread of it was inside acltdtFreeBuf.
 */
START_TEST(bystanders_keep_their_buffers_when_consumers_are_ended)
{
    enum { ROUNDS_MAX = 200 };
    static pid_t pid[ROUNDS_MAX];
    unsigned rounds = choose_effort(6, ROUNDS_MAX);
    pthread_t thread[3];

    for (unsigned i = 0; i < rounds; i++)
        pid[i] = child_start(takes_until_ended, NULL);
    open_here();
    pthread_create(&thread[0], NULL, puts_messages, NULL);
    pthread_create(&thread[1], NULL, holds_buffers, NULL);
    pthread_create(&thread[2], NULL, holds_buffers, NULL);
    /* All of them wait for their grant. */
    for (unsigned i = 0; i < rounds; i++)
        turn_tell(&to_child);
    for (unsigned i = 0; i < rounds; i++) {
        OK(acltdtGrantQueue(shared->q, pid[i], TAKE, 0));
        turn_await(&to_parent);
        end_session_of(pid[i]);
    }
    atomic_store(&stop, true);
    for (unsigned i = 0; i < 3; i++)
        pthread_join(thread[i], NULL);
    OK(acltdtDestroyQueue(shared->q));
    for (unsigned i = 0; i < rounds; i++)
        child_kill(pid[i]);
    finish_test();
}
END_TEST

int main(void)
{
    Suite *s = suite_create("survivors");
    TCase *tc = suite_case(s, "processes that outlive their session", 60, set_up_test, NULL);

    tcase_add_test(tc, buffer_of_ended_session_is_no_others_before_its_process_exits);
    tcase_add_test(tc, buffer_of_finalized_process_is_free_while_it_lives);
    tcase_add_test(tc, survivor_is_charged);
    tcase_add_test(tc, bystanders_keep_their_buffers_when_consumers_are_ended);
    return run_suite(s);
}
