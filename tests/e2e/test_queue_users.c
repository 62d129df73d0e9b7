/*
 * Queues of two users. Guards that an id means a queue of the process's own user: another user can
 * make queues with the ids that a program expects, and grant them to it, but it gets none of the
 * program's messages. A process of a second user takes part, so the test needs root.
 */
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

#include "acl/acl_npud.h"
#include "acl/acl_tdt_queue.h"
#include "queue_kit.h"
#include "tests/common/need.h"
#include "tests/common/second_user.h"

#define TAKE   ACL_TDT_QUEUE_PERMISSION_DEQUEUE
#define PUT    ACL_TDT_QUEUE_PERMISSION_ENQUEUE
#define MANAGE ACL_TDT_QUEUE_PERMISSION_MANAGE
#define ALL    7u
#define LOCAL  4096u /* the first id for another user's queue */
#define IDS    8

static struct shared {
    uint32_t own, second; /* the queue of each user */
    pid_t pid;            /* of this test */
} * shared;
static struct turn to_second, to_first, to_third;
static pid_t second;

static void begin_with_second_user(int (*fn)(void *))
{
    shared = child_share(sizeof(*shared));
    shared->pid = getpid();
    turn_init(&to_second);
    turn_init(&to_first);
    turn_init(&to_third);
    npud_setup();
    second_user_let_in();
    second = child_start(fn, NULL);
}

static void end_with_second_user(void)
{
    turn_tell(&to_second);
    child_expect_ok(second);
    await_buffers(0);
    OK(aclFinalize());
    npud_expect_empty();
    npud_teardown();
}

/* --- queues with the ids that a program expects --- */

static int offers_all_ids(void *arg)
{
    (void)arg;
    second_user_become();
    OK(aclInit(NULL));
    for (uint32_t i = 0; i < IDS; i++) {
        ck_assert_uint_eq(create_queue(4), i);
        OK(acltdtGrantQueue(i, shared->pid, ALL, 0));
        OK(acltdtEnqueue(i, buffer_of(666), 0));
    }
    turn_tell(&to_first);
    turn_await(&to_second);
    for (uint32_t i = 0; i < IDS; i++) {
        ck_assert_uint_eq(take_value(i, 0), 666);
        FAILS(ACL_ERROR_RT_QUEUE_EMPTY, acltdtDequeue(i, &(acltdtBuf){0}, 0));
        OK(acltdtDestroyQueue(i));
    }
    OK(aclFinalize());
    return 0;
}

/* Attaches before its user has a queue with that id, then to the one that its user has. */
START_TEST(an_id_is_not_another_users_queue)
{
    uint32_t rights = 0;

    if (!need_root(__func__))
        return;
    begin_with_second_user(offers_all_ids);
    OK(aclInit(NULL));
    turn_await(&to_first);
    for (uint32_t i = 0; i < IDS; i++) {
        FAILS(ACL_ERROR_RT_DRV_INTERNAL_ERROR, acltdtAttachQueue(i, 0, &rights));
        FAILS(ACL_ERROR_RT_DRV_INTERNAL_ERROR, acltdtDequeue(i, &(acltdtBuf){0}, 0));
    }
    shared->own = create_queue(4);
    ck_assert_uint_lt(shared->own, IDS);
    OK(acltdtAttachQueue(shared->own, 0, &rights));
    ck_assert_uint_eq(rights, ALL);
    OK(acltdtEnqueue(shared->own, buffer_of(42), 0));
    ck_assert_uint_eq(take_value(shared->own, 0), 42);
    OK(acltdtDestroyQueue(shared->own));
    end_with_second_user();
}
END_TEST

/* --- with consent --- */

static void *say_when_asleep(void *arg)
{
    await_asleep(getpid(), 1);
    turn_tell(&to_second);
    return arg;
}

/* Creates the queue when the other process waits for it, and speaks through it. */
static int lends_a_queue(void *arg)
{
    (void)arg;
    second_user_become();
    OK(aclInit(NULL));
    turn_await(&to_second);
    ck_assert_uint_eq(create_queue(4), 0);
    OK(acltdtGrantQueue(0, shared->pid, TAKE | PUT, 0));
    turn_await(&to_second);
    OK(acltdtEnqueue(0, buffer_of(1), 0));
    ck_assert_uint_eq(take_value(0, -1), 1);
    OK(acltdtEnqueue(0, buffer_of(2), 0));
    turn_tell(&to_first);
    turn_await(&to_second);
    /* Taken away and given back: the other process goes on under the same id. */
    OK(acltdtGrantQueue(0, shared->pid, 0, 0));
    turn_tell(&to_first);
    turn_await(&to_second);
    OK(acltdtGrantQueue(0, shared->pid, PUT | MANAGE, 0));
    turn_tell(&to_first);
    turn_await(&to_second);
    ck_assert_uint_eq(take_value(0, -1), 3);
    OK(acltdtDestroyQueue(0));
    turn_tell(&to_first);
    turn_await(&to_second);
    OK(aclFinalize());
    return 0;
}

static void expect_errors(void)
{
    uint32_t rights = 9, local = 9;

    FAILS(ACL_ERROR_INVALID_PARAM, aclnpudAttachQueueOfUser(SECOND_USER, 0, 0, NULL, &rights));
    FAILS(ACL_ERROR_INVALID_PARAM, aclnpudAttachQueueOfUser(SECOND_USER, 0, 0, &local, NULL));
    FAILS(ACL_ERROR_RT_PARAM_INVALID,
          aclnpudAttachQueueOfUser(SECOND_USER, LOCAL, 0, &local, &rights));
    FAILS(ACL_ERROR_RT_PARAM_INVALID,
          aclnpudAttachQueueOfUser(SECOND_USER, 0, -2, &local, &rights));
    ck_assert_int_eq(aclnpudAttachQueueOfUser(SECOND_USER, 0, 0, &local, &rights),
                     ACL_ERROR_RT_NO_PERMISSION);
    ck_assert_ptr_nonnull(strstr(aclGetRecentErrMsg(), "queue 0 of user 65534"));
    FAILS(ACL_ERROR_RT_NO_PERMISSION, aclnpudAttachQueueOfUser(77, 0, 1, &local, &rights));
    FAILS(ACL_ERROR_RT_PARAM_INVALID, acltdtAttachQueue(2 * LOCAL - 1, 0, &rights));
    FAILS(ACL_ERROR_RT_PARAM_INVALID, acltdtAttachQueue(2 * LOCAL, 0, &rights));
    ck_assert_uint_eq(rights, 9);
    ck_assert_uint_eq(local, 9);
}

static void expect_no_route(uint32_t source, uint32_t destination)
{
    acltdtQueueRouteList *list = acltdtCreateQueueRouteList();
    acltdtQueueRoute *route = acltdtCreateQueueRoute(source, destination);

    OK(acltdtAddQueueRoute(list, route));
    ck_assert_int_ne(acltdtBindQueueRoutes(list), 0);
    ck_assert_ptr_nonnull(strstr(aclGetRecentErrMsg(), "another user's"));
    OK(acltdtDestroyQueueRoute(route));
    OK(acltdtDestroyQueueRouteList(list));
}

START_TEST(a_queue_of_a_user_who_is_named)
{
    uint32_t rights, local, again, own;
    pthread_t thread;
    acltdtBuf buf;

    if (!need_root(__func__))
        return;
    begin_with_second_user(lends_a_queue);
    OK(aclInit(NULL));
    expect_errors();
    own = create_queue(4);
    ck_assert_uint_eq(own, 0);
    OK(aclnpudAttachQueueOfUser(getuid(), own, 0, &again, &rights));
    ck_assert_uint_eq(again, own);

    ck_assert_int_eq(pthread_create(&thread, NULL, say_when_asleep, NULL), 0);
    OK(aclnpudAttachQueueOfUser(SECOND_USER, 0, -1, &local, &rights));
    pthread_join(thread, NULL);
    ck_assert_uint_ge(local, LOCAL);
    ck_assert_uint_eq(rights, TAKE | PUT);
    OK(aclnpudAttachQueueOfUser(SECOND_USER, 0, 0, &again, &rights));
    ck_assert_uint_eq(again, local);
    OK(acltdtAttachQueue(local, 0, &rights));
    ck_assert_uint_eq(rights, TAKE | PUT);
    turn_tell(&to_second);
    turn_await(&to_first);
    ck_assert_uint_eq(take_value(local, 0), 2);
    FAILS(ACL_ERROR_RT_QUEUE_EMPTY, acltdtDequeue(own, &(acltdtBuf){0}, 0));

    turn_tell(&to_second);
    turn_await(&to_first);
    FAILS(ACL_ERROR_RT_NO_PERMISSION, acltdtAttachQueue(local, 0, &rights));
    turn_tell(&to_second);
    turn_await(&to_first);
    OK(acltdtAttachQueue(local, 0, &rights));
    ck_assert_uint_eq(rights, PUT | MANAGE);
    expect_no_route(own, local);
    expect_no_route(local, own);
    OK(acltdtEnqueue(local, buffer_of(3), 0));
    turn_tell(&to_second);
    turn_await(&to_first);
    buf = buffer_of(4);
    FAILS(ACL_ERROR_RT_DRV_INTERNAL_ERROR, acltdtEnqueue(local, buf, 0));
    OK(acltdtFreeBuf(buf));
    OK(acltdtDestroyQueue(own));
    end_with_second_user();
}
END_TEST

int main(void)
{
    Suite *s = suite_create("queue_users");
    TCase *t = suite_case(s, "users", 60, NULL, NULL);

    tcase_add_test(t, an_id_is_not_another_users_queue);
    tcase_add_test(t, a_queue_of_a_user_who_is_named);
    return run_suite(s);
}
