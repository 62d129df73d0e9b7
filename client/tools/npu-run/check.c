#include "client/tools/npu-run/check.h"

#include <dirent.h>
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/tools/npu-run/program.h"
#include "proto/util/beside.h"

/* Statuses of npu-check. */
#define JUDGED_NOTHING  0
#define JUDGED_FINDINGS 86

/* --- options --- */

static bool exit_code_read(struct check *c, const char *value)
{
    char *end;
    long n = strtol(value, &end, 10);

    if (end == value || *end || n < 0 || n > 255) {
        warnx("--check-exitcode=%s: it is a number from 0 to 255", value);
        return false;
    }
    c->exit_code = (int)n;
    return true;
}

static bool suppressions_add(struct check *c, const char *value, int argc)
{
    if (!c->suppressions)
        c->suppressions = calloc((size_t)argc, sizeof(*c->suppressions));
    if (!c->suppressions) {
        warn("options");
        return false;
    }
    c->suppressions[c->n_suppressions++] = value;
    return true;
}

bool check_read_option(struct check *c, int option, const char *value, int argc)
{
    c->wanted = true;
    switch (option) {
    case CHECK_OPTION_CHECK:
        c->kinds = value;
        return true;
    case CHECK_OPTION_HOST:
        c->host = value;
        return true;
    case CHECK_OPTION_REPORT:
        c->report = value;
        return true;
    case CHECK_OPTION_SUPPRESSIONS:
        return suppressions_add(c, value, argc);
    case CHECK_OPTION_WRITE_SUPPRESSIONS:
        c->write_suppressions = value;
        return true;
    case CHECK_OPTION_EXIT_CODE:
        return exit_code_read(c, value);
    default:
        c->keep = value;
        return true;
    }
}

/* --- the directory --- */

static bool directory_is_empty(const char *path)
{
    DIR *dir = opendir(path);
    struct dirent *entry = NULL;
    size_t n = 0;

    if (!dir)
        return false;
    errno = 0;
    while ((entry = readdir(dir)))
        n += strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
    closedir(dir);
    if (n)
        errno = ENOTEMPTY;
    return n == 0 && errno == 0;
}

/* Of files of another run, npu-check would tell as well. */
static bool directory_keep(struct check *c)
{
    if ((mkdir(c->keep, 0700) == 0 || errno == EEXIST) && directory_is_empty(c->keep) &&
        realpath(c->keep, c->directory))
        return true;
    warn("--check-keep=%s", c->keep);
    return false;
}

static bool directory_make(struct check *c)
{
    const char *parents[] = {secure_getenv("TMPDIR"), "/tmp"};

    if (c->keep)
        return directory_keep(c);
    for (size_t i = 0; i < sizeof(parents) / sizeof(parents[0]); i++) {
        if (!parents[i] || parents[i][0] != '/' ||
            (size_t)snprintf(c->directory, sizeof(c->directory), "%s/npu-check-XXXXXX",
                             parents[i]) >= sizeof(c->directory))
            continue;
        if (mkdtemp(c->directory))
            return true;
    }
    warn("%s", c->directory);
    return false;
}

/* Processes that the command has left behind may still write: what they make later stays. */
static void directory_remove(struct check *c)
{
    DIR *dir = c->keep ? NULL : opendir(c->directory);
    struct dirent *entry;

    if (!dir)
        return;
    while ((entry = readdir(dir)))
        unlinkat(dirfd(dir), entry->d_name, 0);
    closedir(dir);
    if (rmdir(c->directory) < 0)
        warn("%s cannot be removed", c->directory);
}

void check_set_environment(const struct check *c)
{
    if (c->wanted)
        setenv("NPUD_CHECK", c->directory, 1);
    else
        unsetenv("NPUD_CHECK"); /* of an npu-run around this one */
}

/* --- npu-check --- */

static void argument_add(char **argv, size_t *n, const char *option, const char *value)
{
    if (!value)
        return;
    argv[(*n)++] = (char *)option;
    argv[(*n)++] = (char *)value;
}

/* The command's output may be read by others: what npu-check tells goes to stderr. */
static void __attribute__((noreturn)) judge_exec(char **argv, const sigset_t *mask, bool quiet)
{
    int null = quiet ? open("/dev/null", O_WRONLY | O_CLOEXEC) : -1;

    sigprocmask(SIG_SETMASK, mask, NULL);
    program_pass_fd(null >= 0 ? null : STDERR_FILENO, STDOUT_FILENO);
    execvp(argv[0], argv);
    warn("%s", argv[0]);
    _exit(STATUS_OWN_FAILURE);
}

static int judge_start(char **argv, const sigset_t *mask, bool quiet)
{
    struct program npu_check = PROGRAM_NULL;
    pid_t pid = program_fork(&npu_check, "npu-check");

    if (pid == 0)
        judge_exec(argv, mask, quiet);
    return pid > 0 ? program_reap(&npu_check) : STATUS_OWN_FAILURE;
}

/* `trial`: of options only. It writes no file: one that is written may be one that is read. */
static int judge_run(struct check *c, const sigset_t *mask, bool trial)
{
    char path[BESIDE_PATH];
    /* Seven options, and the directory. */
    char **argv = calloc(2 * (c->n_suppressions + 7) + 4, sizeof(char *));
    size_t n = 0;
    int status;

    if (!argv)
        return STATUS_OWN_FAILURE;
    argv[n++] = (char *)beside_find("npu-check", path);
    argument_add(argv, &n, "--kinds", c->kinds);
    argument_add(argv, &n, "--host", c->host);
    argument_add(argv, &n, "--report", trial ? NULL : c->report);
    argument_add(argv, &n, "--report", trial || !c->findings[0] ? NULL : c->findings);
    argument_add(argv, &n, "--write-suppressions", trial ? NULL : c->write_suppressions);
    for (unsigned i = 0; i < c->n_suppressions; i++)
        argument_add(argv, &n, "--suppressions", c->suppressions[i]);
    if (c->verbose)
        argv[n++] = (char *)"--verbose";
    argv[n++] = (char *)"--";
    argv[n++] = c->directory;
    status = judge_start(argv, mask, trial);
    free(argv);
    return status;
}

static bool file_can_write(const char *path)
{
    int fd = path ? open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666) : -1;

    if (path && fd < 0) {
        warn("%s", path);
        return false;
    }
    if (fd >= 0)
        close(fd);
    return true;
}

bool check_begin(struct check *c, const sigset_t *mask)
{
    if (!c->wanted)
        return true;
    if (!directory_make(c)) {
        c->wanted = false;
        return false;
    }
    if (file_can_write(c->report) && file_can_write(c->write_suppressions) &&
        judge_run(c, mask, true) == JUDGED_NOTHING)
        return true;
    directory_remove(c);
    c->wanted = false;
    return false;
}

void check_judge(struct check *c, const sigset_t *mask, bool for_trace)
{
    if (!c->wanted)
        return;
    if (for_trace)
        snprintf(c->findings, sizeof(c->findings), "%s/.findings", c->directory);
    c->judged = judge_run(c, mask, false);
}

const char *check_findings(const struct check *c)
{
    return c->wanted && c->findings[0] && c->judged == JUDGED_FINDINGS ? c->findings : NULL;
}

int check_end(struct check *c, int status)
{
    int judged = c->judged;

    if (!c->wanted)
        return status;
    if (c->findings[0])
        unlink(c->findings);
    directory_remove(c);
    if (judged != JUDGED_NOTHING && judged != JUDGED_FINDINGS)
        warnx("npu-check failed (status %d): what it has not told is not known", judged);
    if (status != 0 || judged == JUDGED_NOTHING)
        return status;
    return judged == JUDGED_FINDINGS ? c->exit_code : STATUS_OWN_FAILURE;
}

int check_give_up(struct check *c, int status)
{
    if (c->wanted)
        directory_remove(c);
    return status;
}

void check_free(struct check *c)
{
    free(c->suppressions);
}
