/* tests/common/child.h: a child that fails ends the waits of its test at once. */
#include <check.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>

#include "tests/common/child.h"
#include "tests/common/suite.h"

#define LIMIT_S 20 /* thirty of them (tests/run-all.sh) are less than the guard of a turn */

static struct turn turn;

static int fail_at_once(void *arg)
{
    (void)arg;
    return 1;
}

static int tell_once(void *arg)
{
    (void)arg;
    turn_tell(&turn);
    return 0;
}

static int return_at_once(void *arg)
{
    (void)arg;
    return 0;
}

static int wait_for_nothing(void *arg)
{
    turn_await(arg);
    return 0;
}

static void make_turn(void)
{
    turn_init(&turn);
}

/* --- these fail, and must do so within LIMIT_S --- */

START_TEST(a_turn_of_a_child_that_has_failed)
{
    child_start(wait_for_nothing, &turn);
    child_start(fail_at_once, NULL);
    turn_await(&turn);
    exit(0);
}
END_TEST

START_TEST(a_turn_that_no_child_is_left_to_tell)
{
    child_start(return_at_once, NULL);
    turn_await(&turn);
    exit(0);
}
END_TEST

START_TEST(the_end_of_a_child_that_waits_for_one_that_has_failed)
{
    pid_t waits = child_start(wait_for_nothing, &turn);

    child_start(fail_at_once, NULL);
    child_expect_ok(waits);
    exit(0);
}
END_TEST

START_TEST(to_kill_a_child_that_has_failed)
{
    pid_t pid = child_start(fail_at_once, NULL);
    siginfo_t info;

    ck_assert_int_eq(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
    child_kill(pid);
    exit(0);
}
END_TEST

/* --- these do not --- */

START_TEST(a_turn_that_an_ended_child_has_left)
{
    pid_t pid = child_start(tell_once, NULL);

    child_expect_ok(pid);
    turn_await(&turn);
    pid = child_start(tell_once, NULL);
    turn_await(&turn);
    child_expect_ok(pid);
}
END_TEST

START_TEST(a_child_that_the_test_has_killed)
{
    struct turn none;
    pid_t killed, tells;

    turn_init(&none);
    killed = child_start(wait_for_nothing, &none);
    ck_assert_int_eq(kill(killed, SIGKILL), 0);
    tells = child_start(tell_once, NULL);
    turn_await(&turn);
    child_expect_ok(tells);
    child_reap(killed);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("children");
    TCase *t = suite_case(suite, "fail at once", LIMIT_S, make_turn, NULL);

    tcase_add_exit_test(t, a_turn_of_a_child_that_has_failed, 1);
    tcase_add_exit_test(t, a_turn_that_no_child_is_left_to_tell, 1);
    tcase_add_exit_test(t, the_end_of_a_child_that_waits_for_one_that_has_failed, 1);
    tcase_add_exit_test(t, to_kill_a_child_that_has_failed, 1);
    t = suite_case(suite, "go on", LIMIT_S, make_turn, NULL);
    tcase_add_test(t, a_turn_that_an_ended_child_has_left);
    tcase_add_test(t, a_child_that_the_test_has_killed);
    return run_suite(suite);
}
