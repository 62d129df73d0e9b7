#include "tests/common/nested.h"

#include <check.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "proto/wire/npud.pb-c.h"
#include "tests/common/harness.h"

static struct {
    pid_t pid, starter;
    char dir[160];
} inner;

/* Options of npud. */
static struct {
    char library[PATH_MAX + 32], environment[4096], executor[64];
} told;

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

static bool backend_is(const char *name)
{
    const char *backend = getenv("NPUD_TEST_BACKEND");

    return backend && strcmp(backend, name) == 0;
}

bool nested_is_on(void)
{
    return backend_is("acl") || backend_is("cuda");
}

/* --- npud in npud: the inner one --- */

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

static void add_words(const char **argv, int *n, int most, const char *words)
{
    char *copy = words ? strdup(words) : NULL, *rest = NULL;

    if (!copy)
        return;
    for (char *word = strtok_r(copy, " ", &rest); word && *n < most;
         word = strtok_r(NULL, " ", &rest))
        argv[(*n)++] = word;
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
    add_words(argv, &n, 31, getenv("NPUD_TEST_INNER"));
    snprintf(path, sizeof(path), "%s/npud", bin_dir);
    execv(path, (char **)argv);
    perror(path);
    _exit(127);
}

static void start_inner(const char *const *args)
{
    int fds[2];
    char c;

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

void nested_begin(const char *dir, const char *const *args)
{
    if (!backend_is("acl"))
        return;
    nested_end();
    snprintf(inner.dir, sizeof(inner.dir), "%s.inner", dir);
    start_inner(args);
}

void nested_end(void)
{
    if (inner.pid == 0 || inner.starter != getpid())
        return;
    kill(inner.pid, SIGTERM);
    waitpid(inner.pid, NULL, 0);
    inner.pid = 0;
}

pid_t nested_pid(void)
{
    return inner.pid;
}

const char *nested_dir(void)
{
    return inner.dir;
}

/* It could not clean up after itself. */
void nested_kill(void)
{
    static const char *const left[] = {"npud.sock", "npud.sock.lock", "admin.sock",
                                       "admin.sock.lock"};
    char path[192];

    ck_assert_int_ne(inner.pid, 0);
    kill(inner.pid, SIGKILL);
    waitpid(inner.pid, NULL, 0);
    inner.pid = 0;
    for (size_t i = 0; i < sizeof(left) / sizeof(left[0]); i++) {
        snprintf(path, sizeof(path), "%s/%s", inner.dir, left[i]);
        unlink(path);
    }
    rmdir(inner.dir);
}

void nested_restart(void)
{
    ck_assert_int_eq(inner.pid, 0);
    start_inner(NULL);
}

static char outer_admin[128];

void nested_enter(void)
{
    char path[256];

    snprintf(outer_admin, sizeof(outer_admin), "%s", getenv("NPUD_ADMIN_SOCKET"));
    snprintf(path, sizeof(path), "%s/admin.sock", inner.dir);
    setenv("NPUD_ADMIN_SOCKET", path, 1);
}

void nested_leave(void)
{
    setenv("NPUD_ADMIN_SOCKET", outer_admin, 1);
}

void nested_says(const char *arguments)
{
    nested_enter();
    npuctl_says(arguments, 0, "");
    nested_leave();
}

unsigned nested_executors(pid_t *pids, unsigned most)
{
    Npud__Report *report = npud_report(NPUD__ADMIN_REQUEST__TOPIC__EXECUTORS);
    unsigned n = 0;

    for (size_t i = 0; i < report->n_executors; i++)
        if (n < most && strcmp(report->executors[i]->state, "ready") == 0)
            pids[n++] = report->executors[i]->pid;
    npud__report__free_unpacked(report, NULL);
    return n;
}

/* Of its first thread, which starts executors: also those that have ended and are not reaped. */
static bool has_children(pid_t pid)
{
    char path[64];
    FILE *f;
    int c;

    snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int)pid, (int)pid);
    f = fopen(path, "re");
    c = f ? getc(f) : EOF;
    if (f)
        fclose(f);
    return c != EOF;
}

void nested_settle(void)
{
    pid_t server;

    if (nested_is_on())
        EVENTUALLY((server = npud_server_pid()) != 0 && !has_children(server),
                   "an executor of the begin is left");
}

static void add_inner(const char **argv, int *n)
{
    snprintf(told.library, sizeof(told.library), "--set=vendor.library=%s/libaclclient.so.1",
             bin_dir);
    snprintf(told.environment, sizeof(told.environment),
             "--set=vendor.environment=NPUD_SOCKET=%s/npud.sock", inner.dir);
    argv[(*n)++] = "--set=npud.backend=acl";
    argv[(*n)++] = told.library;
    argv[(*n)++] = told.environment;
}

/* --- CUDA: its library --- */

/* What a test asks of the simulated devices, as the fake is told it (tests/gpu/fake.h). */
static const struct asked_of_sim {
    const char *option, *variable, *otherwise;
} asked_of_sim[] = {
    {"--set=sim.devices=", "FAKE_CUDA_DEVICES", "2"},
    {"--set=sim.memory=", "FAKE_CUDA_MEMORY", "8G"},
    {"--set=sim.latency_us=", "FAKE_CUDA_LATENCY_US", "0"},
};

/* The last one counts. `-d N` and `--devices N` are other words for the first row. */
static const char *find_asked(const struct asked_of_sim *row, const char *const *args)
{
    const char *value = row->otherwise;
    size_t length = strlen(row->option);
    bool of_devices = row == asked_of_sim;

    for (; args && *args; args++) {
        if (strncmp(*args, row->option, length) == 0)
            value = *args + length;
        else if (of_devices && strncmp(*args, "--devices=", 10) == 0)
            value = *args + 10;
        else if (of_devices && args[1] &&
                 (strcmp(*args, "--devices") == 0 || strcmp(*args, "-d") == 0))
            value = args[1];
    }
    return value;
}

/* As npud reads it in its configuration. */
static unsigned long long read_number(const char *value)
{
    char *end;
    unsigned long long n = strtoull(value, &end, 10);

    return *end == 'G' ? n << 30 : *end == 'M' ? n << 20 : *end == 'K' ? n << 10 : n;
}

static unsigned long long limit_devices(unsigned long long n)
{
    const char *most = getenv("NPUD_TEST_DEVICES");

    return most && strtoull(most, NULL, 10) < n ? strtoull(most, NULL, 10) : n;
}

/*
 * What an executor finds in its environment, which has nothing of this one. All of the fake's own
 * script counts for more than what the test asks of the simulated devices. Where programs have
 * brought their libraries, the executor finds its own there, too (tests/gpu/run.sh).
 */
static void describe_environment(char *text, size_t size, const char *const *args)
{
    const char *latency = getenv("NPUD_LATENCY_US");
    size_t at = (size_t)snprintf(text, size, "--set=vendor.environment=");

    for (size_t i = 0; i < sizeof(asked_of_sim) / sizeof(asked_of_sim[0]); i++) {
        unsigned long long n = read_number(find_asked(&asked_of_sim[i], args));

        if (i == 0)
            n = limit_devices(n);
        if (i == 2 && latency)
            n = read_number(latency);
        if (!getenv(asked_of_sim[i].variable))
            at += (size_t)snprintf(text + at, size - at, "%s=%llu ", asked_of_sim[i].variable, n);
    }
    for (char **e = environ; *e; e++)
        if ((strncmp(*e, "FAKE_CUDA_", 10) == 0 || strncmp(*e, "LD_LIBRARY_PATH=", 16) == 0) &&
            at < size)
            at += (size_t)snprintf(text + at, size - at, "%s ", *e);
}

/* Of anyone: the fake is whose who has built it. */
static void add_cuda(const char **argv, int *n, const char *const *args)
{
    const char *library = getenv("NPUD_TEST_CUDA");
    char path[PATH_MAX];

    describe_environment(told.environment, sizeof(told.environment), args);
    argv[(*n)++] = "--set=npud.backend=cuda";
    argv[(*n)++] = told.environment;
    if (!library || !realpath(library, path))
        return;
    snprintf(told.library, sizeof(told.library), "--set=vendor.library=%s", path);
    argv[(*n)++] = told.library;
}

void nested_options(const char **argv, int *n, const char *const *args)
{
    const char *executor = getenv("NPUD_TEST_EXECUTOR");
    char program[320];

    if (!nested_is_on())
        return;
    snprintf(program, sizeof(program), "%s/npud-executor", bin_dir);
    setenv("NPUD_EXECUTOR", program, 0);
    snprintf(told.executor, sizeof(told.executor), "--set=vendor.executor=%s",
             executor ? executor : "");
    argv[(*n)++] = "--set=vendor.nesting=yes";
    argv[(*n)++] = "--set=limits.executors=4096"; /* a test has many processes */
    argv[(*n)++] = told.executor;
    if (backend_is("acl"))
        add_inner(argv, n);
    else
        add_cuda(argv, n, args);
}
