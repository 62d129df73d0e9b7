#include "tests/common/nested.h"

#include <check.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/common/harness.h"

static struct {
    pid_t pid, starter;
    char dir[160];
    char library[320], environment[320], executor[64];
} inner;

/*
 * Where npud was built: read at the begin, as a test may run a copy of npud that has neither an
 * executor nor the library beside it.
 */
static char bin_dir[256];

__attribute__((constructor)) static void read_bin_dir(void)
{
    const char *named = getenv("NPUD_BINDIR");

    if (!realpath(named ? named : "build", bin_dir))
        snprintf(bin_dir, sizeof(bin_dir), "build");
}

bool nested_is_on(void)
{
    const char *backend = getenv("NPUD_TEST_BACKEND");

    return backend && strcmp(backend, "acl") == 0;
}

/* Of the simulated devices, in one word; or `-d N`, in two: then true. */
static bool is_about_devices(const char *option, bool *two)
{
    *two = strcmp(option, "--devices") == 0 || strcmp(option, "-d") == 0;
    return *two || strncmp(option, "--set=sim.", 10) == 0 || strncmp(option, "--devices=", 10) == 0;
}

static void add_options(const char **argv, int *n, int most, const char *const *args)
{
    bool two;

    for (; args && *args && *n < most - 1; args++) {
        if (!is_about_devices(*args, &two))
            continue;
        argv[(*n)++] = *args;
        if (two && args[1])
            argv[(*n)++] = *++args;
    }
}

static void exec_inner(int ready, const char *const *args)
{
    const char *argv[32] = {"npud", "--quiet", "--die-with-parent", "--config=/dev/null",
                            "--set=sim.strict=yes"};
    const char *latency_us = getenv("NPUD_LATENCY_US");
    char path[320], fd[32], dir[192], latency[64];
    int n = 5;

    snprintf(fd, sizeof(fd), "--ready-fd=%d", ready);
    snprintf(dir, sizeof(dir), "--runtime-dir=%s", inner.dir);
    argv[n++] = fd;
    argv[n++] = dir;
    if (latency_us) {
        snprintf(latency, sizeof(latency), "--set=sim.latency_us=%s", latency_us);
        argv[n++] = latency;
    }
    add_options(argv, &n, 31, args);
    snprintf(path, sizeof(path), "%s/npud", bin_dir);
    execv(path, (char **)argv);
    perror(path);
    _exit(127);
}

void nested_begin(const char *dir, const char *const *args)
{
    int fds[2];
    char c;

    if (!nested_is_on())
        return;
    nested_end();
    snprintf(inner.dir, sizeof(inner.dir), "%s.inner", dir);
    ck_assert_int_eq(pipe(fds), 0);
    inner.starter = getpid();
    inner.pid = fork();
    ck_assert_int_ge(inner.pid, 0);
    if (inner.pid == 0) {
        close(fds[0]);
        exec_inner(fds[1], args);
    }
    close(fds[1]);
    ck_assert_msg(read(fds[0], &c, 1) == 1, "the inner npud did not start");
    close(fds[0]);
}

void nested_options(const char **argv, int *n)
{
    const char *executor = getenv("NPUD_TEST_EXECUTOR");
    char program[320];

    if (!nested_is_on())
        return;
    snprintf(program, sizeof(program), "%s/npud-executor", bin_dir);
    setenv("NPUD_EXECUTOR", program, 0);
    snprintf(inner.library, sizeof(inner.library), "--set=vendor.library=%s/libaclclient.so.1",
             bin_dir);
    snprintf(inner.environment, sizeof(inner.environment),
             "--set=vendor.environment=NPUD_SOCKET=%s/npud.sock", inner.dir);
    snprintf(inner.executor, sizeof(inner.executor), "--set=vendor.executor=%s",
             executor ? executor : "");
    argv[(*n)++] = "--set=npud.backend=acl";
    argv[(*n)++] = "--set=vendor.nesting=yes";
    argv[(*n)++] = "--set=limits.executors=4096"; /* a test has many processes */
    argv[(*n)++] = inner.library;
    argv[(*n)++] = inner.environment;
    argv[(*n)++] = inner.executor;
}

void nested_end(void)
{
    if (inner.pid == 0 || inner.starter != getpid())
        return;
    kill(inner.pid, SIGTERM);
    waitpid(inner.pid, NULL, 0);
    inner.pid = 0;
}
