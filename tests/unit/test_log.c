/* daemon/base/log: lines of a user are bounded, a reader that stalls stalls nobody, nothing is lost
 * in a crash. */
#include "daemon/base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "unit.h"

#define LINES_BURST 20 /* of a uid at once, and one more each second */

static int reader; /* of what is written to stderr */

static void take_stderr(void)
{
    int pair[2];

    ck_assert_int_eq(pipe(pair), 0);
    reader = pair[0];
    ck_assert_int_ge(dup2(pair[1], STDERR_FILENO), 0);
    close(pair[1]);
}

static unsigned count_words(const char *text, const char *words)
{
    unsigned n = 0;

    for (const char *at = text; (at = strstr(at, words)); at += strlen(words))
        n++;
    return n;
}

/* Until all writers have gone. */
static char *read_all(void)
{
    static char text[1 << 18];
    size_t size = 0;
    ssize_t n;

    while ((n = read(reader, text + size, sizeof(text) - 1 - size)) > 0)
        size += (size_t)n;
    text[size] = '\0';
    return text;
}

static void end_child(pid_t pid, int signal)
{
    int status;

    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_int_eq(signal ? WTERMSIG(status) : status, signal);
}

static void write_lines(void)
{
    struct log_client client = {.session = 1, .uid = 4321}, other = {.session = 2, .uid = 1234};
    struct log_client talker = {.session = 3, .uid = 4322};

    log_setup(LOG_DEBUG);
    for (unsigned i = 0; i < 1000; i++) {
        client.session++;
        log_line(LOG_INFO, &client, "info %u", i);
        log_line(LOG_ERR, &client, "error %u", i);
        log_client_fault(&client, "fault %u", i);
        client.fault_told = false;
    }
    for (unsigned i = 0; i < 1000; i++)
        log_line(LOG_INFO, &talker, "talk %u", i);
    for (unsigned i = 0; i < LINES_BURST / 2; i++)
        log_line(LOG_WARNING, &talker, "a warning");
    log_line(LOG_INFO, &other, "of another");
    log_line(LOG_NOTICE, &client, "a notice");
}

START_TEST(lines_of_a_user_are_bounded)
{
    char *text;
    pid_t pid;

    take_stderr();
    pid = fork();
    if (pid == 0) {
        write_lines();
        _exit(0);
    }
    close(STDERR_FILENO);
    text = read_all();
    end_child(pid, 0);
    ck_assert_uint_ge(count_words(text, "uid 4321"), LINES_BURST);
    ck_assert_uint_le(count_words(text, "uid 4321"), LINES_BURST + 10);
    ck_assert_uint_eq(count_words(text, "of another"), 1);
    ck_assert_uint_ge(count_words(text, "talk "), LINES_BURST / 2);
    ck_assert_uint_le(count_words(text, "talk "), LINES_BURST / 2 + 10);
    ck_assert_uint_eq(count_words(text, "a warning"), LINES_BURST / 2);
    ck_assert_uint_eq(count_words(text, "a notice"), 1);
}
END_TEST

/* Over standard error journald knows the unit also of a process that has ended since. */
START_TEST(errors_reach_the_journal_over_stderr)
{
    char name[64], *text;
    struct stat st;
    pid_t pid;

    take_stderr();
    ck_assert_int_eq(fstat(STDERR_FILENO, &st), 0);
    snprintf(name, sizeof(name), "%llu:%llu", (unsigned long long)st.st_dev,
             (unsigned long long)st.st_ino);
    pid = fork();
    if (pid == 0) {
        setenv("JOURNAL_STREAM", name, 1);
        log_setup(LOG_INFO);
        log_error("the last words");
        _exit(1);
    }
    close(STDERR_FILENO);
    text = read_all();
    ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
    ck_assert_str_eq(text, "<3>the last words\n");
}
END_TEST

/* All that the pipe holds is there, and nobody reads. */
START_TEST(a_reader_that_stalls_is_not_waited_for)
{
    char *text;
    pid_t pid;

    take_stderr();
    pid = fork();
    if (pid == 0) {
        log_setup(LOG_INFO);
        if (log_start() != 0)
            _exit(1);
        for (unsigned i = 0; i < 20000; i++)
            log_info("line %u", i);
        log_stop();
        _exit(0);
    }
    end_child(pid, 0); /* before anything was read */
    close(STDERR_FILENO);
    text = read_all();
    ck_assert_ptr_nonnull(strstr(text, "line 0\n"));
    ck_assert_uint_lt(count_words(text, "line "), 20000);
}
END_TEST

/* The sanitizers take crashes for themselves. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define CRASHES 0
#else
#define CRASHES 10
#endif

START_TEST(lines_are_written_in_a_crash)
{
    char *text;
    pid_t pid;

    take_stderr();
    pid = fork();
    if (pid == 0) {
        setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
        log_setup(LOG_INFO);
        if (log_start() != 0)
            _exit(1);
        log_flush_on_crash(NULL);
        for (unsigned i = 0; i < 100; i++)
            log_info("line %u of 100", i);
        raise(_i % 2 ? SIGSEGV : SIGABRT);
        _exit(1);
    }
    close(STDERR_FILENO);
    text = read_all();
    end_child(pid, _i % 2 ? SIGSEGV : SIGABRT);
    for (unsigned i = 0; i < 100; i++) {
        char line[32];

        snprintf(line, sizeof(line), "line %u of 100\n", i);
        ck_assert_msg(strstr(text, line) != NULL, "line %u is lost", i);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("log");
    TCase *t = suite_case(suite, "lines", 20, NULL, NULL);

    tcase_add_test(t, lines_of_a_user_are_bounded);
    tcase_add_test(t, errors_reach_the_journal_over_stderr);
    tcase_add_test(t, a_reader_that_stalls_is_not_waited_for);
    tcase_add_loop_test(t, lines_are_written_in_a_crash, 0, CRASHES);
    return run_suite(suite);
}
