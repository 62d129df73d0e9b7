/*
 * Memory and mappings that are given back: rings of queues that were destroyed, segments of pools
 * in which others have freed the last buffer, and segments that drain after a right was revoked.
 * And what must stay: buffers that a program has.
 */
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "acl/acl_tdt_queue.h"
#include "proto/shm/mbuf_shm.h"
#include "proto/shm/queue_shm.h"
#include "queue_kit.h"
#include "tests/common/effort.h"

#define TAKE 2u

#define GUARD_NS UINT64_C(300000000000) /* against hanging only */
#define QUEUES   32u

static struct shared {
    uint32_t q[QUEUES];
    uint32_t messages;
} * shared;
static struct turn to_other;

static void share_memory(void)
{
    shared = child_share(sizeof(*shared));
    turns_init();
    turn_init(&to_other);
}

static void set_up_test(void)
{
    npud_setup();
    share_memory();
}

static void setup_with_10_mib(void)
{
    const char *const args[] = {"--set", "limits.mbuf_memory=10M", NULL};

    npud_start(args);
    share_memory();
}

static void finish_test(void)
{
    await_buffers(0);
    OK(aclFinalize());
    npud_expect_empty();
    npud_teardown();
}

struct mapped {
    unsigned n;
    unsigned long kib; /* present */
};

/* What a process has mapped of npud's files of this name. */
static struct mapped count_mapped(pid_t pid, const char *name)
{
    struct mapped m = {0};
    char line[512], path[40], rights[5];
    unsigned long kib;
    bool counts = false;
    FILE *f;

    snprintf(path, sizeof(path), "/proc/%d/smaps", (int)pid);
    f = fopen(path, "re");
    ck_assert_ptr_nonnull(f);
    while (fgets(line, sizeof(line), f)) {
        /* The line that a mapping begins with has its addresses first. */
        if (sscanf(line, "%*x-%*x %4s", rights) == 1) {
            counts = strstr(line, name) != NULL;
            m.n += counts;
        }
        if (counts && sscanf(line, "Rss: %lu", &kib) == 1)
            m.kib += kib;
    }
    fclose(f);
    return m;
}

static void await_mapped_at_most(pid_t pid, const char *name, unsigned n)
{
    EVENTUALLY(count_mapped(pid, name).n <= n, "%u mappings, not %u", count_mapped(pid, name).n, n);
}

static void await_mapped(pid_t pid, const char *name, unsigned n)
{
    await_mapped_at_most(pid, name, n);
    ck_assert_uint_eq(count_mapped(pid, name).n, n);
}

/* --- rings --- */

static int attaches_all(void *arg)
{
    uint32_t rights;

    (void)arg;
    turn_await(&to_child);
    OK(aclInit(NULL));
    for (unsigned i = 0; i < QUEUES; i++)
        OK(acltdtAttachQueue(shared->q[i], -1, &rights));
    turn_tell(&to_parent);
    turn_await(&to_child);
    FAILS(ACL_ERROR_RT_DRV_INTERNAL_ERROR, acltdtAttachQueue(shared->q[0], 0, &rights));
    OK(aclFinalize());
    return 0;
}

static void create_all(pid_t pid)
{
    OK(aclInit(NULL));
    for (unsigned i = 0; i < QUEUES; i++) {
        shared->q[i] = create_queue(QUEUE_DEPTH_MAX);
        OK(acltdtGrantQueue(shared->q[i], pid, TAKE, 0));
    }
    turn_tell(&to_child);
    turn_await(&to_parent);
    ck_assert_uint_eq(count_mapped(pid, "npud-queue").n, QUEUE_FILES * QUEUES);
}

/* Guards against rings that stay mapped in a peer that calls nothing any more. */
START_TEST(idle_peer_lets_go_of_destroyed_queues)
{
    pid_t pid = child_start(attaches_all, NULL);

    create_all(pid);
    for (unsigned i = 0; i < QUEUES; i++)
        OK(acltdtDestroyQueue(shared->q[i]));
    await_mapped(pid, "npud-queue", 0);
    await_mapped(getpid(), "npud-queue", 0);
    turn_tell(&to_child);
    child_expect_ok(pid);
    finish_test();
}
END_TEST

/* The same for queues that the peer may not use any more, and that live on. */
START_TEST(idle_peer_lets_go_of_revoked_queues)
{
    pid_t pid = child_start(attaches_all, NULL);

    create_all(pid);
    for (unsigned i = 0; i < QUEUES; i++)
        OK(acltdtGrantQueue(shared->q[i], pid, 0, 0));
    await_mapped(pid, "npud-queue", 0);
    for (unsigned i = 0; i < QUEUES; i++)
        OK(acltdtDestroyQueue(shared->q[i]));
    turn_tell(&to_child);
    child_expect_ok(pid);
    finish_test();
}
END_TEST

/*
 * A stopped peer lets go of nothing until it goes on. npud holds nothing of the rings meanwhile: it
 * makes no holes in a file that a client can lock (tests/hostile/test_locks.c).
 */
START_TEST(stopped_peer_lets_go_of_destroyed_queues_later)
{
    pid_t pid = child_start(attaches_all, NULL);

    create_all(pid);
    child_stop(pid); /* from here on it unmaps nothing */
    for (unsigned i = 0; i < QUEUES; i++)
        OK(acltdtDestroyQueue(shared->q[i]));
    await_mapped(npud.pid, "npud-queue", 0);
    ck_assert_uint_eq(count_mapped(pid, "npud-queue").n, QUEUE_FILES * QUEUES);
    kill(pid, SIGCONT);
    await_mapped(pid, "npud-queue", 0);
    turn_tell(&to_child);
    child_expect_ok(pid);
    finish_test();
}
END_TEST

/* --- pools --- */

#define MESSAGES 2000u

/* Of many classes: their segments are small ones, of which threads keep slots. */
static size_t size_of(unsigned i)
{
    return 100 + i % 30 * 128;
}

static int takes_all_and_frees(void *arg)
{
    static acltdtBuf buf[MESSAGES];
    uint32_t rights;

    (void)arg;
    turn_await(&to_child);
    OK(aclInit(NULL));
    OK(acltdtAttachQueue(shared->q[0], -1, &rights));
    for (unsigned i = 0; i < shared->messages; i++)
        OK(acltdtDequeue(shared->q[0], &buf[i], -1));
    turn_tell(&to_parent);
    turn_await(&to_child);
    for (unsigned i = 0; i < shared->messages; i++)
        OK(acltdtFreeBuf(buf[i]));
    turn_tell(&to_parent);
    turn_await(&to_child);
    OK(aclFinalize());
    return 0;
}

/* The pool of this process is large, and all of it is with the child. */
static void give_all_to(pid_t pid, uint32_t messages)
{
    acltdtBuf buf;

    shared->messages = messages;
    OK(aclInit(NULL));
    shared->q[0] = create_queue(MESSAGES);
    for (unsigned i = 0; i < messages; i++) {
        OK(acltdtAllocBuf(size_of(i), ACL_TDT_NORMAL_MEM, &buf));
        OK(acltdtEnqueue(shared->q[0], buf, 0));
    }
    OK(acltdtGrantQueue(shared->q[0], pid, TAKE, 0));
    turn_tell(&to_child);
    turn_await(&to_parent);
    ck_assert_uint_gt(npud_ledger().buffers, 2 * POOL_KEPT);
}

/* Guards against pools that stay large when only other processes free, and the owner is idle. */
START_TEST(pool_shrinks_when_others_free_it)
{
    pid_t pid = child_start(takes_all_and_frees, NULL);
    uint64_t give_up = now_ns() + GUARD_NS;

    give_all_to(pid, MESSAGES);
    turn_tell(&to_child);
    turn_await(&to_parent);
    while (npud_ledger().buffers > POOL_KEPT)
        ck_assert_msg(now_ns() < give_up, "%llu bytes", (unsigned long long)npud_ledger().buffers);
    turn_tell(&to_child);
    child_expect_ok(pid);
    finish_test();
}
END_TEST

/* The same when the thread that has allocated all frees all: it keeps no slots of a large pool. */
START_TEST(pool_shrinks_when_its_owner_frees_it)
{
    static acltdtBuf buf[MESSAGES];
    uint64_t give_up = now_ns() + GUARD_NS;

    OK(aclInit(NULL));
    for (unsigned i = 0; i < MESSAGES; i++)
        OK(acltdtAllocBuf(size_of(i), ACL_TDT_NORMAL_MEM, &buf[i]));
    ck_assert_uint_gt(npud_ledger().buffers, 2 * POOL_KEPT);
    for (unsigned i = 0; i < MESSAGES; i++)
        OK(acltdtFreeBuf(buf[i]));
    while (npud_ledger().buffers > POOL_KEPT)
        ck_assert_msg(now_ns() < give_up, "%llu bytes", (unsigned long long)npud_ledger().buffers);
    finish_test();
}
END_TEST

/* The same when the process that has the buffers is killed. */
START_TEST(pool_shrinks_when_the_holder_is_killed)
{
    pid_t pid = child_start(takes_all_and_frees, NULL);
    uint64_t give_up = now_ns() + GUARD_NS;

    give_all_to(pid, MESSAGES);
    child_kill(pid);
    while (npud_ledger().buffers > POOL_KEPT)
        ck_assert_msg(now_ns() < give_up, "%llu bytes", (unsigned long long)npud_ledger().buffers);
    finish_test();
}
END_TEST

static int allocates_8_mib(void *arg)
{
    acltdtBuf buf;

    (void)arg;
    turn_await(&to_other);
    OK(aclInit(NULL));
    OK(acltdtAllocBuf(8u << 20, ACL_TDT_NORMAL_MEM, &buf));
    OK(acltdtFreeBuf(buf));
    OK(aclFinalize());
    return 0;
}

/*
 * At the limit of a user, what is free in the pools of other processes is given back at once.
 * Guards against 207001 with nothing held.
 */
START_TEST(free_memory_of_others_makes_room)
{
    pid_t holder = child_start(takes_all_and_frees, NULL);
    pid_t other = child_start(allocates_8_mib, NULL);

    give_all_to(holder, MESSAGES / 4);
    turn_tell(&to_child);
    turn_await(&to_parent);
    turn_tell(&to_other);
    child_expect_ok(other);
    turn_tell(&to_child);
    child_expect_ok(holder);
    finish_test();
}
END_TEST

/* --- revoking --- */

/* For as long as the others grant and revoke: a thread inside a call. */
static void *waits_for_a_message(void *arg)
{
    uint32_t rights;
    acltdtBuf buf;

    (void)arg;
    OK(acltdtAttachQueue(shared->q[1], -1, &rights));
    OK(acltdtDequeue(shared->q[1], &buf, -1));
    OK(acltdtFreeBuf(buf));
    return NULL;
}

static int takes_one_each_time(void *arg)
{
    unsigned rounds = *(unsigned *)arg;
    pthread_t waiter;
    uint32_t rights;

    turn_await(&to_child);
    OK(aclInit(NULL));
    ck_assert_int_eq(pthread_create(&waiter, NULL, waits_for_a_message, NULL), 0);
    await_asleep(getpid(), 1);
    for (unsigned i = 0; i < rounds; i++) {
        acltdtBuf buf;

        OK(acltdtAttachQueue(shared->q[0], -1, &rights));
        OK(acltdtDequeue(shared->q[0], &buf, -1));
        OK(acltdtFreeBuf(buf));
        turn_tell(&to_parent);
        turn_await(&to_child);
    }
    turn_tell(&to_parent);
    ck_assert_int_eq(pthread_join(waiter, NULL), 0);
    turn_await(&to_child);
    OK(aclFinalize());
    return 0;
}

/*
 * Guards against an owner that collects a new, ever larger segment for each process that has lost
 * its right; and against mappings of segments that were given back, which stay in both processes,
 * or until a thread that waits for a message gets one.
 */
START_TEST(granting_and_revoking_costs_no_memory)
{
    unsigned rounds = choose_effort(150, 5000);
    pid_t pid = child_start(takes_one_each_time, &rounds);
    acltdtBuf last;

    OK(aclInit(NULL));
    shared->q[0] = create_queue(8);
    shared->q[1] = create_queue(8);
    OK(acltdtGrantQueue(shared->q[1], pid, TAKE, 0));
    turn_tell(&to_child);
    for (unsigned i = 0; i < rounds; i++) {
        acltdtBuf buf;

        OK(acltdtAllocBuf(100, ACL_TDT_NORMAL_MEM, &buf));
        OK(acltdtEnqueue(shared->q[0], buf, 0));
        OK(acltdtGrantQueue(shared->q[0], pid, TAKE, 0));
        turn_await(&to_parent);
        OK(acltdtGrantQueue(shared->q[0], pid, 0, 0));
        turn_tell(&to_child);
        ck_assert_uint_lt(npud_ledger().buffers, 4u << 20);
    }
    turn_await(&to_parent);
    /* Of the last one this thread may keep slots. */
    await_mapped_at_most(pid, "npud-buffers", 1);
    await_mapped_at_most(getpid(), "npud-buffers", 2);
    OK(acltdtAllocBuf(100, ACL_TDT_NORMAL_MEM, &last));
    OK(acltdtEnqueue(shared->q[1], last, 0));
    turn_tell(&to_child);
    child_expect_ok(pid);
    finish_test();
}
END_TEST

#define HELD 7u /* buffers that the child keeps, each of a segment of its own */

static int keeps_what_it_took(void *arg)
{
    acltdtBuf buf[HELD];
    uint64_t *data[HELD];
    uint32_t rights;

    (void)arg;
    turn_await(&to_child);
    OK(aclInit(NULL));
    for (unsigned i = 0; i < HELD; i++) {
        OK(acltdtAttachQueue(shared->q[0], -1, &rights));
        OK(acltdtDequeue(shared->q[0], &buf[i], -1));
        data[i] = buffer_data(buf[i]);
        turn_tell(&to_parent);
        turn_await(&to_child);
    }
    for (unsigned i = HELD; i-- > 0;) {
        for (unsigned j = 0; j <= i; j++)
            ck_assert_uint_eq(*data[j], j);
        OK(acltdtFreeBuf(buf[i]));
        turn_tell(&to_parent);
        turn_await(&to_child);
    }
    OK(aclFinalize());
    return 0;
}

/*
 * The address of a buffer is good until it is freed, whatever right is gone. Then it goes without
 * another call.
 */
START_TEST(what_is_held_stays_mapped_after_revoking)
{
    pid_t pid = child_start(keeps_what_it_took, NULL);

    OK(aclInit(NULL));
    shared->q[0] = create_queue(8);
    for (unsigned i = 0; i < HELD; i++) {
        OK(acltdtEnqueue(shared->q[0], buffer_of(i), 0));
        OK(acltdtGrantQueue(shared->q[0], pid, TAKE, 0));
        turn_tell(&to_child);
        turn_await(&to_parent);
        OK(acltdtGrantQueue(shared->q[0], pid, 0, 0));
    }
    await_mapped(pid, "npud-queue", 0);
    ck_assert_uint_eq(count_mapped(pid, "npud-buffers").n, HELD);
    for (unsigned left = HELD; left-- > 0;) {
        turn_tell(&to_child);
        turn_await(&to_parent);
        await_mapped(pid, "npud-buffers", left);
    }
    await_mapped_at_most(getpid(), "npud-buffers", 1);
    turn_tell(&to_child);
    child_expect_ok(pid);
    finish_test();
}
END_TEST

/* --- a small pool, which npud does not look at by itself --- */

/* So large that few of them share a segment, and two segments are a small pool. */
#define BUFFER 4000u

static int takes_two(void *arg)
{
    uint32_t rights;
    acltdtBuf buf;

    (void)arg;
    turn_await(&to_child);
    OK(aclInit(NULL));
    for (unsigned i = 0; i < 2; i++) {
        OK(acltdtAttachQueue(shared->q[i], -1, &rights));
        OK(acltdtDequeue(shared->q[i], &buf, -1));
        if (i == 1) {
            turn_tell(&to_parent);
            turn_await(&to_child);
        }
        OK(acltdtFreeBuf(buf));
        turn_tell(&to_parent);
        turn_await(&to_child);
    }
    OK(aclFinalize());
    return 0;
}

static acltdtBuf big_buffer(void)
{
    acltdtBuf buf;

    OK(acltdtAllocBuf(BUFFER, ACL_TDT_NORMAL_MEM, &buf));
    return buf;
}

enum last { A_BUFFER, A_REFERENCE, A_KEPT_SLOT };

/*
 * The thread that frees the last slot of a draining segment tells npud, although npud has said that
 * it need not be told of segments of this pool. It is a thread of the consumer of a buffer, of the
 * holder of the last reference to its data, or of the owner, if that thread had kept a slot.
 */
START_TEST(last_of_a_draining_segment_is_told)
{
    pid_t pid = child_start(takes_two, NULL);
    acltdtBuf sent, copy, next = NULL;

    OK(aclInit(NULL));
    for (unsigned i = 0; i < 2; i++) {
        shared->q[i] = create_queue(8);
        OK(acltdtGrantQueue(shared->q[i], pid, TAKE, 0));
    }
    /* The first one is freed: npud is told, and is not interested. */
    OK(acltdtEnqueue(shared->q[0], big_buffer(), 0));
    turn_tell(&to_child);
    turn_await(&to_parent);
    /* With the second one, this thread gets slots that it keeps. */
    sent = big_buffer();
    if (_i == A_REFERENCE) {
        OK(acltdtCopyBufRef(sent, &copy));
        OK(acltdtFreeBuf(sent));
        sent = copy;
    }
    OK(acltdtEnqueue(shared->q[1], sent, 0));
    turn_tell(&to_child);
    turn_await(&to_parent);
    for (unsigned i = 0; i < 2; i++)
        OK(acltdtGrantQueue(shared->q[i], pid, 0, 0));
    ck_assert_uint_lt(npud_ledger().buffers, POOL_KEPT / 2);
    if (_i != A_KEPT_SLOT)
        next = big_buffer();
    ck_assert_uint_eq(count_mapped(pid, "npud-buffers").n, 1);
    turn_tell(&to_child);
    turn_await(&to_parent);
    if (_i == A_KEPT_SLOT)
        next = big_buffer();
    await_mapped(pid, "npud-buffers", 0);
    await_mapped(getpid(), "npud-buffers", 1);
    ck_assert_uint_lt(npud_ledger().buffers, POOL_KEPT / 2);
    OK(acltdtFreeBuf(next));
    turn_tell(&to_child);
    child_expect_ok(pid);
    finish_test();
}
END_TEST

/*
 * While a pool is small, other processes do not tell npud what they free: npud looks when the pool
 * grows.
 */
START_TEST(what_was_free_goes_when_the_pool_grows)
{
    pid_t pid = child_start(takes_two, NULL);
    uint64_t small, give_up;
    acltdtBuf buf, large;

    OK(aclInit(NULL));
    for (unsigned i = 0; i < 2; i++) {
        shared->q[i] = create_queue(8);
        OK(acltdtGrantQueue(shared->q[i], pid, TAKE, 0));
        OK(acltdtAllocBuf(BUFFER << i, ACL_TDT_NORMAL_MEM, &buf));
        OK(acltdtEnqueue(shared->q[i], buf, 0));
    }
    turn_tell(&to_child);
    for (unsigned i = 0; i < 3; i++) {
        turn_await(&to_parent);
        if (i < 2)
            turn_tell(&to_child);
    }
    small = npud_ledger().buffers;
    ck_assert_uint_lt(small, POOL_KEPT);
    OK(acltdtAllocBuf(2 * POOL_KEPT, ACL_TDT_NORMAL_MEM, &large));
    give_up = now_ns() + GUARD_NS;
    while (npud_ledger().buffers > 2 * POOL_KEPT + small / 2)
        ck_assert_msg(now_ns() < give_up, "%llu bytes", (unsigned long long)npud_ledger().buffers);
    OK(acltdtFreeBuf(large));
    turn_tell(&to_child);
    child_expect_ok(pid);
    finish_test();
}
END_TEST

/* --- lies --- */

/* What npud says of segments is mapped, and no mapping of it can be written. */
START_TEST(what_npud_says_is_read_only)
{
    unsigned n = 0;
    acltdtBuf buf;
    char line[512];
    FILE *f;

    OK(aclInit(NULL));
    buf = buffer_of(77);
    f = fopen("/proc/self/maps", "re");
    ck_assert_ptr_nonnull(f);
    while (fgets(line, sizeof(line), f))
        if (strstr(line, "npud-pool-news")) {
            n++;
            ck_assert_ptr_nonnull(strstr(line, " r--s "));
        }
    fclose(f);
    ck_assert_uint_gt(n, 0);
    OK(acltdtFreeBuf(buf));
    finish_test();
}
END_TEST

int main(void)
{
    Suite *s = suite_create("giving back");
    TCase *tc = suite_case(s, "rings", 60, set_up_test, NULL);

    tcase_add_test(tc, idle_peer_lets_go_of_destroyed_queues);
    tcase_add_test(tc, idle_peer_lets_go_of_revoked_queues);
    tcase_add_test(tc, stopped_peer_lets_go_of_destroyed_queues_later);
    tc = suite_case(s, "pools", 60, set_up_test, NULL);
    tcase_add_test(tc, pool_shrinks_when_others_free_it);
    tcase_add_test(tc, pool_shrinks_when_its_owner_frees_it);
    tcase_add_test(tc, pool_shrinks_when_the_holder_is_killed);
    tcase_add_test(tc, granting_and_revoking_costs_no_memory);
    tcase_add_test(tc, what_is_held_stays_mapped_after_revoking);
    tcase_add_loop_test(tc, last_of_a_draining_segment_is_told, 0, A_KEPT_SLOT + 1);
    tcase_add_test(tc, what_was_free_goes_when_the_pool_grows);
    tcase_add_test(tc, what_npud_says_is_read_only);
    tc = suite_case(s, "a limit", 60, setup_with_10_mib, NULL);
    tcase_add_test(tc, free_memory_of_others_makes_room);
    return run_suite(s);
}
