/* aclAppLog(): which messages are written where. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/common/harness.h"

static const struct {
    const char *level, *print; /* NULL: not in the environment */
    unsigned first;            /* of the levels that are written; 4: none */
    int to;
} settings[] = {
    {NULL, NULL, ACL_ERROR, STDERR_FILENO}, {NULL, "1", ACL_ERROR, STDOUT_FILENO},
    {NULL, "0", ACL_ERROR, STDERR_FILENO},  {"0", "1", ACL_DEBUG, STDOUT_FILENO},
    {"1", NULL, ACL_INFO, STDERR_FILENO},   {"2", "1", ACL_WARNING, STDOUT_FILENO},
    {"3", "yes", ACL_ERROR, STDERR_FILENO}, {"4", "1", 4, STDOUT_FILENO},
    {"5", "1", ACL_ERROR, STDOUT_FILENO},   {"", "", ACL_ERROR, STDERR_FILENO},
    {"1 ", "1", ACL_ERROR, STDOUT_FILENO},
};

static void set(const char *name, const char *value)
{
    if (value)
        setenv(name, value, 1);
    else
        unsetenv(name);
}

/* A file in the place of one of the standard ones. */
static int replace(int standard, int *file)
{
    int before = fcntl(standard, F_DUPFD_CLOEXEC, 3);

    *file = memfd_create("log", MFD_CLOEXEC);
    ck_assert_int_ge(before, 0);
    ck_assert_int_ge(*file, 0);
    ck_assert_int_eq(dup2(*file, standard), standard);
    return before;
}

static void read_back(int file, char *text, size_t size)
{
    ssize_t n = pread(file, text, size - 1, 0);

    ck_assert_int_ge(n, 0);
    text[n] = '\0';
    close(file);
}

START_TEST(messages_are_written_as_the_environment_says)
{
    char text[3][512], expected[512] = "";
    int file[3], out, err;

    set("ASCEND_GLOBAL_LOG_LEVEL", settings[_i].level);
    set("ASCEND_SLOG_PRINT_TO_STDOUT", settings[_i].print);
    fflush(stdout);
    out = replace(STDOUT_FILENO, &file[STDOUT_FILENO]);
    err = replace(STDERR_FILENO, &file[STDERR_FILENO]);
    for (int level = ACL_DEBUG; level <= ACL_ERROR; level++)
        aclAppLog((aclLogLevel)level, "function", "file", 7, "level %d", level);
    dup2(out, STDOUT_FILENO);
    dup2(err, STDERR_FILENO);
    read_back(file[STDOUT_FILENO], text[STDOUT_FILENO], sizeof(text[0]));
    read_back(file[STDERR_FILENO], text[STDERR_FILENO], sizeof(text[0]));
    for (unsigned level = settings[_i].first; level <= ACL_ERROR; level++)
        snprintf(expected + strlen(expected), sizeof(expected) - strlen(expected),
                 "%s function file:7 level %u\n",
                 (const char *const[]){"DEBUG", "INFO", "WARNING", "ERROR"}[level], level);
    ck_assert_str_eq(text[settings[_i].to], expected);
    ck_assert_str_eq(text[STDOUT_FILENO + STDERR_FILENO - settings[_i].to], "");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("messages of programs");
    TCase *t = suite_case(suite, "log", 10, NULL, NULL);

    tcase_add_loop_test(t, messages_are_written_as_the_environment_says, 0,
                        sizeof(settings) / sizeof(settings[0]));
    return run_suite(suite);
}
