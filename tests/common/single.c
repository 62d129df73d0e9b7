#include "tests/common/single.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

uint64_t number_of(const char *text)
{
    char *end;
    uint64_t n = strtoull(text, &end, 0);

    if (end == text || *end) {
        fprintf(stderr, "not a number: %s\n", text);
        exit(2);
    }
    return n;
}

uint64_t number_from_env(const char *name, uint64_t fallback)
{
    const char *text = getenv(name);

    return text && *text ? number_of(text) : fallback;
}

static void print_reason(SRunner *runner)
{
    TestResult **results = srunner_failures(runner);

    printf("%s\n", tr_msg(results[0]));
    free(results);
}

int single_run(const char *name, const TTest *test, const uint64_t *passed)
{
    Suite *suite = suite_create(name);
    TCase *tcase = tcase_create(name);
    SRunner *runner;
    bool failed;

    tcase_add_test(tcase, test);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_set_fork_status(runner, CK_NOFORK);
    srunner_run_all(runner, CK_SILENT);
    failed = srunner_ntests_failed(runner) != 0;
    if (failed)
        print_reason(runner);
    srunner_free(runner);
    printf("100%%: Checks: %llu, Failures: %d, Errors: 0\n", (unsigned long long)*passed + failed,
           failed);
    return failed;
}
