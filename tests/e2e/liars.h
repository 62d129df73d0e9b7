/*
 * npud with executors of the test's own (tests/executor/liar.c), which tell one lie each.
 */
#pragma once

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/common/harness.h"
#include "tests/e2e/device_kit.h"
#include "proto/wire/npud.pb-c.h"

#define BLOCK     KIT_BLOCK
#define LOSS      KIT_LOSS
#define NOT_BEGUN KIT_NOT_BEGUN

static char lies_path[64], library[64];

/* --- npud with such executors --- */

/* more: options. npud_stderr: /dev/null, if it is none. */
static inline void start_with(bool restartable, const char *const *more)
{
    char path[512], environment[128], named[128];
    const char *dir = getenv("NPUD_BINDIR");
    const char *args[16] = {"--set=npud.backend=acl", named, environment, "--set=vendor.hang_s=4",
                            "--set=vendor.executor=session"};

    for (unsigned n = 5; more && *more; n++)
        args[n] = *more++;

    snprintf(lies_path, sizeof(lies_path), "/tmp/npud-lies.%d", (int)getpid());
    snprintf(library, sizeof(library), "/no/library/of/%d", (int)getpid());
    ck_assert_ptr_nonnull(realpath(dir ? dir : "build", path));
    strcat(path, "/tests/executor/npud-liar");
    setenv("NPUD_EXECUTOR", path, 1);
    unsetenv("NPUD_TEST_BACKEND");
    unlink(lies_path);
    snprintf(named, sizeof(named), "--set=vendor.library=%s", library);
    snprintf(environment, sizeof(environment), "--set=vendor.environment=NPUD_LIES=%s", lies_path);
    if (npud_stderr < 0)
        npud_stderr = open("/dev/null", O_WRONLY | O_CLOEXEC);
    if (getenv("NPUD_TEST_VERBOSE"))
        npud_stderr = -1;
    turns_init();
    if (restartable)
        npud_start_restartable(args);
    else
        npud_start(args);
}

/* The next executor takes it. */
static inline void tell_lie(const char *name)
{
    char path[80];

    snprintf(path, sizeof(path), "%s.new", lies_path);
    write_text_file(path, name);
    ck_assert_int_eq(rename(path, lies_path), 0);
}

static inline bool is_executor(pid_t pid)
{
    char path[64], text[512];
    int fd;
    ssize_t n, at = 0;

    snprintf(path, sizeof(path), "/proc/%d/cmdline", (int)pid);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    n = fd < 0 ? 0 : read(fd, text, sizeof(text) - 1);
    if (fd >= 0)
        close(fd);
    if (n <= 0)
        return false;
    text[n] = '\0';
    for (; at < n; at += (ssize_t)strlen(text + at) + 1)
        if (strcmp(text + at, library) == 0 && strcmp(text, "npud-executor") == 0)
            return true;
    return false;
}

/* Of this npud, with what they have forked. At most `most`. */
static inline unsigned executors(pid_t *pids, unsigned most)
{
    DIR *dir = opendir("/proc");
    unsigned n = 0;

    for (struct dirent *e; (e = readdir(dir));) {
        pid_t pid = (pid_t)strtol(e->d_name, NULL, 10);

        if (pid > 0 && n < most && is_executor(pid))
            pids[n++] = pid;
    }
    closedir(dir);
    return n;
}

static inline unsigned n_executors(void)
{
    pid_t pids[64];

    return executors(pids, 64);
}

static inline void expect_nothing_left(void)
{
    npud_expect_empty();
    EVENTUALLY(n_executors() == 0, "%u executors are left", n_executors());
    npud_teardown();
    unlink(lies_path);
}
