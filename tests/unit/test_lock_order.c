/*
 * tests/common/lock_order: a thread that takes locks of the library in another order ends its
 * program.
 */
#include "tests/common/lock_order.h"

#include <check.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/core/lock_order.h"
#include "tests/common/suite.h"

static pthread_mutex_t outer, inner, unknown = PTHREAD_MUTEX_INITIALIZER;
static pthread_rwlock_t innermost;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;

static void set_up(void)
{
    lock_init(&outer, LOCK_SESSION);
    lock_init(&inner, LOCK_REQUEST);
    lock_init_shared(&innermost, LOCK_WAITS);
    /* The message of the order is what is expected here. */
    ck_assert(freopen("/dev/null", "w", stderr));
}

START_TEST(in_order)
{
    for (int i = 0; i < 100; i++) {
        pthread_mutex_lock(&outer);
        pthread_mutex_lock(&inner);
        pthread_mutex_lock(&unknown);
        pthread_rwlock_rdlock(&innermost);
        pthread_mutex_unlock(&outer);
        pthread_rwlock_unlock(&innermost);
        pthread_mutex_unlock(&unknown);
        pthread_mutex_unlock(&inner);
    }
}
END_TEST

START_TEST(a_try_waits_for_nothing)
{
    pthread_mutex_lock(&inner);
    ck_assert_int_eq(pthread_mutex_trylock(&outer), 0);
    pthread_mutex_unlock(&outer);
    pthread_mutex_unlock(&inner);
    pthread_mutex_lock(&outer);
}
END_TEST

START_TEST(what_a_try_has_counts)
{
    ck_assert_int_eq(pthread_mutex_trylock(&inner), 0);
    pthread_mutex_lock(&outer);
}
END_TEST

START_TEST(out_of_order)
{
    pthread_mutex_lock(&inner);
    pthread_mutex_lock(&outer);
}
END_TEST

START_TEST(two_of_a_rank)
{
    lock_init(&inner, LOCK_SESSION);
    pthread_mutex_lock(&inner);
    pthread_mutex_lock(&outer);
}
END_TEST

START_TEST(sleep_with_an_inner_one)
{
    pthread_mutex_lock(&outer);
    pthread_mutex_lock(&inner);
    pthread_cond_wait(&cond, &outer);
}
END_TEST

START_TEST(a_child_holds_nothing)
{
    pid_t child;
    int status;

    pthread_mutex_lock(&inner);
    child = fork();
    if (child == 0) {
        pthread_mutex_lock(&outer);
        _exit(0);
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("order of locks");
    TCase *t = suite_case(suite, "order", 0, set_up, NULL);

    tcase_add_test(t, in_order);
    tcase_add_test(t, a_try_waits_for_nothing);
    tcase_add_test(t, a_child_holds_nothing);
    tcase_add_test_raise_signal(t, what_a_try_has_counts, SIGABRT);
    tcase_add_test_raise_signal(t, out_of_order, SIGABRT);
    tcase_add_test_raise_signal(t, two_of_a_rank, SIGABRT);
    tcase_add_test_raise_signal(t, sleep_with_an_inner_one, SIGABRT);
    return run_suite(suite);
}
