/* Suites of libcheck: what every test program does in its main(). */
#pragma once

#include <check.h>
#include <stdlib.h>

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

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SUITE_STRIDE 6
#else
#define SUITE_STRIDE 1
#endif

/**
 * A loop test of n cases. Under a sanitizer, where each takes several times as long, every sixth of
 * them: CI runs all in the ordinary build.
 */
static inline void suite_add_cases(TCase *t, const TTest *test, int n)
{
    int stride = getenv("NPUD_TEST_LONG") ? 1 : SUITE_STRIDE;

    for (int i = 0; i < n; i += stride)
        tcase_add_loop_test(t, test, i, i + 1);
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
