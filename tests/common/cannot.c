/*
 * Tests that cannot hold where they are run: the file that NPUD_TEST_CANNOT names has a line for
 * each, with the devices over which they cannot, the program, the tests with commas between them,
 * and the reason. They are left out and named as what needs something that the machine lacks
 * (need.h). The linker puts this in the place of check's function (--wrap in mk/test.mk).
 *
 * The devices are names of NPUD_TEST_BACKEND, with commas, or "one": where there is one alone.
 */
#include <check.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void __real__tcase_add_test(TCase *tc, const TTest *test, int signal, int allowed_exit_value,
                            int start, int end);
void __wrap__tcase_add_test(TCase *tc, const TTest *test, int signal, int allowed_exit_value,
                            int start, int end);

static bool is_in_list(char *names, const char *name)
{
    char *rest = NULL;

    for (char *n = strtok_r(names, ",", &rest); n; n = strtok_r(NULL, ",", &rest))
        if (strcmp(n, name) == 0)
            return true;
    return false;
}

static bool is_here(char *devices)
{
    const char *backend = getenv("NPUD_TEST_BACKEND"), *most = getenv("NPUD_TEST_DEVICES");
    char *rest = NULL;

    for (char *d = strtok_r(devices, ",", &rest); d; d = strtok_r(NULL, ",", &rest))
        if ((backend && strcmp(d, backend) == 0) ||
            (most && strcmp(most, "1") == 0 && strcmp(d, "one") == 0))
            return true;
    return false;
}

/* The reason, in `line`; NULL: the test is run. */
static const char *find_reason(FILE *list, const char *name, char *line, size_t size)
{
    while (fgets(line, (int)size, list)) {
        char *rest = NULL, *devices = strtok_r(line, " ", &rest);
        char *program = devices && devices[0] != '#' ? strtok_r(NULL, " ", &rest) : NULL;
        char *names = program ? strtok_r(NULL, " ", &rest) : NULL;

        if (names && strcmp(program, program_invocation_short_name) == 0 && is_here(devices) &&
            is_in_list(names, name))
            return rest + strspn(rest, " ");
    }
    return NULL;
}

void __wrap__tcase_add_test(TCase *tc, const TTest *test, int signal, int allowed_exit_value,
                            int start, int end)
{
    const char *path = getenv("NPUD_TEST_CANNOT"), *reason;
    FILE *list = path ? fopen(path, "re") : NULL;
    char line[1024];

    reason = list ? find_reason(list, test->name, line, sizeof(line)) : NULL;
    if (reason)
        printf("SKIPPED %s: %s", test->name, reason);
    else
        __real__tcase_add_test(tc, test, signal, allowed_exit_value, start, end);
    fflush(stdout);
    if (list)
        fclose(list);
}
