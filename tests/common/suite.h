/* Suites of libcheck: what every test program does in its main(). */
#pragma once

#include <check.h>

/**
 * A new case of a suite, with its time limit in seconds (0: the one that check has for all) and
 * what is done before and after each of its tests (NULL: nothing).
 */
static inline TCase *suite_case(Suite *suite, const char *name, double seconds,
                                void (*before)(void), void (*after)(void))
{
    TCase *t = tcase_create(name);

    if (seconds > 0)
        tcase_set_timeout(t, seconds);
    tcase_add_checked_fixture(t, before, after);
    suite_add_tcase(suite, t);
    return t;
}

/** Run a suite. Returns the exit status of the program. */
static inline int run_suite(Suite *suite)
{
    SRunner *runner = srunner_create(suite);
    int failed;

    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
