/*
 * Threads inside calls (client/core/api_call.h): which of them may still use a session, or a view
 * of a segment.
 */
#include "client/core/api_call.h"
#include "client/core/lifecycle.h"
#include "client/core/ring_guard.h"
#include "client/core/thread.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>

#include "unit.h"

/* What client/core/api_call.c needs of the rest of the library. */
__thread struct thread *thread_current;

struct thread *thread_new(void)
{
    return thread_current = calloc(1, sizeof(struct thread));
}

bool ring_guard_barrier(void)
{
    return true;
}

/* --- another thread, which does one thing after the other --- */

static sem_t go, done;

static void hand_over_turn(void)
{
    sem_post(&done);
    sem_wait(&go);
}

/* Does the next thing, up to its next hand_over_turn(). */
static void let_it(void)
{
    sem_post(&go);
    sem_wait(&done);
}

static void rest_in_call(void)
{
    api_call_rest();
    hand_over_turn();
    api_call_resume();
    hand_over_turn();
}

static void enter_nested_call(void)
{
    CALL_SCOPE;

    ck_assert(CALL_IS_NESTED);
    rest_in_call();
}

static void first_call(void)
{
    CALL_SCOPE;

    ck_assert(!CALL_IS_NESTED);
    hand_over_turn();
    rest_in_call();
    enter_nested_call();
}

static void second_call(void)
{
    CALL_SCOPE;

    hand_over_turn();
}

static void *run_calls(void *arg)
{
    sem_wait(&go);
    first_call();
    hand_over_turn();
    second_call();
    api_call_part.thread_exit(thread_current);
    free(thread_current);
    sem_post(&done);
    return arg;
}

static void expect_left(uint64_t epoch, bool left, bool left_views)
{
    ck_assert_int_eq(api_call_all_left(epoch), left);
    ck_assert_int_eq(api_call_all_left_views(epoch), left_views);
}

/*
 * A thread counts from the beginning of its outer call to its end; for views not while it sleeps.
 */
START_TEST(a_thread_counts_until_it_leaves)
{
    pthread_t thread;
    uint64_t epoch;

    sem_init(&go, 0, 0);
    sem_init(&done, 0, 0);
    ck_assert_int_eq(pthread_create(&thread, NULL, run_calls, NULL), 0);
    expect_left(api_call_new_epoch(), true, true);
    let_it(); /* has begun */
    epoch = api_call_new_epoch();
    expect_left(epoch, false, false);
    let_it(); /* sleeps */
    expect_left(epoch, false, true);
    let_it(); /* has woken */
    expect_left(epoch, false, false);
    let_it(); /* sleeps in a call inside the call */
    expect_left(epoch, false, true);
    let_it(); /* has woken there */
    expect_left(epoch, false, false);
    let_it(); /* has left */
    expect_left(epoch, true, true);
    let_it(); /* is in its next call, which has begun after the epoch */
    expect_left(epoch, true, true);
    expect_left(api_call_new_epoch(), false, false);
    let_it(); /* has ended */
    expect_left(api_call_new_epoch(), true, true);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
}
END_TEST

static void expect_inside(void)
{
    CALL_SCOPE;

    expect_left(api_call_new_epoch(), true, false);
}

/*
 * aclFinalize does not wait for itself. A call that has found a view may still use it when it lets
 * go of others.
 */
START_TEST(the_calling_thread_counts_for_views_only)
{
    expect_inside();
    expect_left(api_call_new_epoch(), true, true);
}
END_TEST

/* Without the kernel's barrier it cannot be told which threads are inside. */
START_TEST(without_an_epoch_none_has_left)
{
    expect_left(0, false, false);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("calls");
    TCase *tc = suite_case(s, "calls", 0, NULL, NULL);

    tcase_add_test(tc, a_thread_counts_until_it_leaves);
    tcase_add_test(tc, the_calling_thread_counts_for_views_only);
    tcase_add_test(tc, without_an_epoch_none_has_left);
    return run_suite(s);
}
