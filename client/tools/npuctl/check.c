#include "client/tools/npuctl/check.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proto/util/beside.h"

/* For processes of all users, and each has its own files there: as /tmp is. */
#define DIRECTORY_MODE 01777

/* NULL, or what is wrong. */
static const char *prepare_directory(const char *name, struct task *task)
{
    static char path[PATH_MAX];
    struct stat is;

    if (mkdir(name, 0700) == 0)
        chmod(name, DIRECTORY_MODE); /* the umask does not count */
    else if (errno != EEXIST)
        return strerror(errno);
    if (!realpath(name, path) || stat(path, &is) < 0)
        return strerror(errno);
    if (!S_ISDIR(is.st_mode))
        return strerror(ENOTDIR);
    if (!(is.st_mode & S_IWOTH))
        fprintf(stderr,
                "npuctl: %s: only some users may write there: processes of others go unchecked\n",
                path);
    task->request.check_directory = path;
    return NULL;
}

static enum status run_report(const struct task *task)
{
    char path[BESIDE_PATH];
    const char *program = beside_find("npu-check", path);

    execvp(program, task->check);
    fprintf(stderr, "npuctl: %s: %s\n", program, strerror(errno));
    return STATUS_ERROR;
}

/* What follows is npu-check's. */
static const char *parse_report(char **words, int n, struct task *task)
{
    task->run = run_report;
    task->check = calloc((size_t)n + 2, sizeof(*task->check));
    if (!task->check)
        return strerror(errno);
    task->check[0] = (char *)"npu-check";
    memcpy(&task->check[1], words, (size_t)n * sizeof(*words));
    return NULL;
}

const char *check_parse(char **words, int n, struct task *task, const char **about)
{
    const char *verb = n > 0 ? words[0] : "";

    *about = n > 1 ? words[1] : NULL;
    if (strcmp(verb, "stop") == 0) {
        task->request.stop_check = true;
        return n > 1 ? "unexpected argument" : NULL;
    }
    if (strcmp(verb, "start") != 0 && strcmp(verb, "report") != 0) {
        *about = NULL;
        return "check wants start DIRECTORY, stop, or report DIRECTORY";
    }
    if (n < 2)
        return strcmp(verb, "start") == 0 ? "check start wants a directory"
                                          : "check report wants a directory";
    if (strcmp(verb, "report") == 0)
        return parse_report(words + 1, n - 1, task);
    *about = n > 2 ? words[2] : words[1];
    return n > 2 ? "unexpected argument" : prepare_directory(words[1], task);
}
