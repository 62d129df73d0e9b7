#include "tests/common/harness.h"
#include "tests/common/nested.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "client/tools/npuctl/trace_rows.h"
#include "proto/wire/npud.pb-c.h"
#include "proto/wire/packet.h"
#include "tests/common/chaos.h"
#include "tests/common/proc.h"

struct npud npud;
int npud_stderr = -1;

static const char *bin_dir(void)
{
    const char *dir = getenv("NPUD_BINDIR");

    return dir ? dir : "build";
}

uint64_t now_ns(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/* --- npud --- */

bool npud_is_strict(void)
{
    return getenv("NPUD_STRICT") != NULL || nested_is_on();
}

/* NPUD_TEST_VERBOSE=1: what sessions come and go, for whoever looks into a failure. */
static const char *log_option(void)
{
    return getenv("NPUD_TEST_VERBOSE") ? "--verbose" : "--quiet";
}

/* With what the environment says, if it does. */
static void add_setting(const char **argv, int *n, const char *variable, const char *key,
                        char option[64])
{
    const char *value = getenv(variable);

    if (!value)
        return;
    snprintf(option, 64, "--set=%s=%s", key, value);
    argv[(*n)++] = option;
}

static void exec_npud(int ready, const char *const *options, const char *const *args)
{
    const char *argv[48] = {"npud", log_option(), "--die-with-parent", "--config=/dev/null"};
    char path[256], fd[32], latency[64], copiers[64];
    int n = 4;

    snprintf(fd, sizeof(fd), "--ready-fd=%d", ready);
    argv[n++] = fd;
    if (npud_is_strict())
        argv[n++] = "--set=sim.strict=yes";
    add_setting(argv, &n, "NPUD_LATENCY_US", "sim.latency_us", latency);
    add_setting(argv, &n, "NPUD_COPIERS", "sim.copiers", copiers);
    nested_options(argv, &n, args);
    if (npud.restartable)
        argv[n++] = "--restartable";
    for (; *options; options++)
        argv[n++] = *options;
    for (; args && *args && n < 47; args++)
        argv[n++] = *args;
    if (npud_stderr >= 0)
        dup2(npud_stderr, STDERR_FILENO);
    snprintf(path, sizeof(path), "%s/npud", bin_dir());
    execv(path, (char **)argv);
    perror(path);
    _exit(127);
}

/* Where npud and its sockets will be: for it, for the library, and for npuctl. */
static void choose_directory(void)
{
    static unsigned counter;
    char path[128];

    snprintf(npud.dir, sizeof(npud.dir), "/tmp/npud-test.%d.%u.%llx", (int)getpid(), counter++,
             (unsigned long long)now_ns());
    snprintf(path, sizeof(path), "%s/npud.sock", npud.dir);
    setenv("NPUD_SOCKET", path, 1);
    snprintf(path, sizeof(path), "%s/admin.sock", npud.dir);
    setenv("NPUD_ADMIN_SOCKET", path, 1);
}

static void start_in_directory(const char *const *options, const char *const *args)
{
    int fds[2];
    char c;

    nested_begin(npud.dir, args);
    ck_assert_int_eq(pipe(fds), 0);
    npud.restartable = npud.restartable || getenv("NPUD_RESTARTABLE") || chaos_is_on();
    npud.pid = fork();
    ck_assert_int_ge(npud.pid, 0);
    if (npud.pid == 0) {
        close(fds[0]);
        exec_npud(fds[1], options, args);
    }
    close(fds[1]);
    ck_assert_msg(read(fds[0], &c, 1) == 1, "npud did not start");
    close(fds[0]);
    nested_settle();
    chaos_begin(npud.pid);
}

void npud_start(const char *const *args)
{
    choose_directory();
    start_in_directory((const char *const[]){"--runtime-dir", npud.dir, NULL}, args);
}

void npud_start_restartable(const char *const *args)
{
    npud.restartable = true;
    npud_start(args);
}

void npud_start_shared(const char *const *args)
{
    choose_directory();
    ck_assert_int_eq(mkdir(npud.dir, 0755), 0);
    start_in_directory(
        (const char *const[]){"-S", getenv("NPUD_SOCKET"), "-A", getenv("NPUD_ADMIN_SOCKET"),
                              "--set=npud.admin_group=", "--set=npud.access_group=*", NULL},
        args);
}

void npud_setup(void)
{
    npud_start(NULL);
}

void npud_teardown(void)
{
    int status;

    if (npud.pid == 0)
        return;
    chaos_end();
    kill(npud.pid, SIGTERM);
    ck_assert_int_eq(waitpid(npud.pid, &status, 0), npud.pid);
    npud.pid = 0;
    nested_end();
    ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 0, "npud ended with status 0x%x",
                  status);
    rmdir(npud.dir); /* that of a shared one; npud has removed a private one */
}

/* With the lock file beside it. */
static void remove_socket(const char *path)
{
    char lock[128];

    snprintf(lock, sizeof(lock), "%s.lock", path);
    unlink(lock);
    unlink(path);
}

void npud_kill(void)
{
    if (npud.restartable) {
        npud_kill_supervisor();
        return;
    }
    kill(npud.pid, SIGKILL);
    waitpid(npud.pid, NULL, 0);
    npud_was_killed();
}

void npud_was_killed(void)
{
    npud.pid = 0;
    nested_end();
    /* It could not clean up after itself. */
    remove_socket(getenv("NPUD_SOCKET"));
    remove_socket(getenv("NPUD_ADMIN_SOCKET"));
    rmdir(npud.dir);
}

int npud_connect_admin(void)
{
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

    snprintf(addr.sun_path, sizeof(addr.sun_path), "%s", getenv("NPUD_ADMIN_SOCKET"));
    if (connect(fd, (struct sockaddr *)&addr, sizeof(addr)) == 0)
        return fd;
    ck_assert_msg(npud.restartable, "%s: %s", addr.sun_path, strerror(errno));
    ck_assert_msg(npud.pid == 0 || !proc_is_zombie(npud.pid), "npud has ended by itself");
    close(fd);
    return -1;
}

void write_text_file(const char *path, const char *text)
{
    FILE *f = fopen(path, "we");

    ck_assert_ptr_nonnull(f);
    ck_assert_int_ge(fputs(text, f), 0);
    ck_assert_int_eq(fclose(f), 0);
}

/* NULL: npud, which comes back, has ended before it answered. */
static struct Npud__Report *report_try(int topic)
{
    Npud__AdminRequest request = NPUD__ADMIN_REQUEST__INIT;
    static struct packet packet;
    Npud__AdminReply *reply;
    Npud__Report *report;
    void *map;
    int fd = npud_connect_admin(), report_fd;

    request.id = 1;
    request.protocol = PROTOCOL;
    request.topic = (Npud__AdminRequest__Topic)topic;
    if (fd < 0)
        return NULL;
    if (packet_send_message(fd, &request.base, NULL, 0, 0) != 0 ||
        packet_recv(fd, &packet, 0) != 1) {
        close(fd);
        return NULL;
    }
    reply = npud__admin_reply__unpack(NULL, packet.size, packet.data);
    ck_assert(reply && reply->error == 0);
    report_fd = packet_take_fd(&packet, 0);
    map = mmap(NULL, reply->size + 1, PROT_READ, MAP_SHARED, report_fd, 0);
    report = npud__report__unpack(NULL, reply->size, map);
    ck_assert(report && trace_rows_expand(report));
    munmap(map, reply->size + 1);
    npud__admin_reply__free_unpacked(reply, NULL);
    close(report_fd);
    close(fd);
    return report;
}

/* If npud comes back, the next server is asked. */
struct Npud__Report *npud_report(int topic)
{
    struct Npud__Report *report = NULL;

    EVENTUALLY((report = report_try(topic)) || !npud.restartable, "npud does not answer");
    ck_assert_ptr_nonnull(report);
    return report;
}

struct ledger npud_ledger(void)
{
    Npud__Report *report = npud_report(NPUD__ADMIN_REQUEST__TOPIC__STATUS);
    struct ledger l;

    ck_assert_uint_eq(report->n_status, 1);
    l = (struct ledger){
        .sessions = report->status[0]->sessions,
        .streams = report->status[0]->streams,
        .events = report->status[0]->events,
        .lingering = report->status[0]->lingering_events,
        .fds = report->status[0]->fds,
        .memory = report->status[0]->memory_bytes,
        .notifies = report->status[0]->notifies,
        .pools = report->status[0]->pools,
        .buffers = report->status[0]->buffer_bytes,
    };
    npud__report__free_unpacked(report, NULL);
    return l;
}

uint64_t npud_used(const char *resource)
{
    Npud__Report *report = npud_report(NPUD__ADMIN_REQUEST__TOPIC__LIMITS);
    uint64_t used = 0;

    for (size_t i = 0; i < report->n_limits; i++)
        if (strcmp(report->limits[i]->resource, resource) == 0)
            used += report->limits[i]->used;
    npud__report__free_unpacked(report, NULL);
    return used;
}

char *npuctl(const char *arguments, int *status)
{
    char command[512], *out = calloc(1, 65536);
    FILE *f;

    snprintf(command, sizeof(command), "%s/npuctl %s 2>&1", bin_dir(), arguments);
    f = popen(command, "re");
    ck_assert_ptr_nonnull(f);
    ck_assert_ptr_nonnull(out);
    ck_assert_int_eq(fread(out, 1, 65535, f) == 65535, 0);
    *status = pclose(f);
    *status = WIFEXITED(*status) ? WEXITSTATUS(*status) : -1;
    return out;
}

void npuctl_says(const char *arguments, int status, const char *words)
{
    int got;
    char *out = npuctl(arguments, &got);

    ck_assert_msg(got == status, "npuctl %s: status %d\n%s", arguments, got, out);
    ck_assert_msg(strstr(out, words), "npuctl %s does not say \"%s\":\n%s", arguments, words, out);
    free(out);
}

/* Each answer comes from npud's control thread: asking is how to wait for it to have done what came
 * before. */
void npud_await_sessions(uint32_t n)
{
    EVENTUALLY(npud_ledger().sessions == n, "%u sessions, not %u", npud_ledger().sessions, n);
}

void npud_await_fds(uint32_t n)
{
    EVENTUALLY(npud_ledger().fds == n, "%u descriptors, not %u", npud_ledger().fds, n);
}

static void npud_await_no_pools(void)
{
    EVENTUALLY(npud_ledger().pools == 0, "%u pools are left", npud_ledger().pools);
}

uint64_t npud_session_of(pid_t pid)
{
    Npud__Report *r = npud_report(NPUD__ADMIN_REQUEST__TOPIC__SESSIONS);
    uint64_t session = 0;

    for (size_t i = 0; i < r->n_sessions; i++)
        if (r->sessions[i]->pid == pid)
            session = r->sessions[i]->session;
    npud__report__free_unpacked(r, NULL);
    return session;
}

bool npud_lists_sleeper(pid_t pid, const char *call)
{
    Npud__Report *r = npud_report(NPUD__ADMIN_REQUEST__TOPIC__WAITS);
    bool found = false;

    for (size_t i = 0; i < r->n_waits; i++)
        found |= r->waits[i]->pid == pid && strcmp(r->waits[i]->call, call) == 0;
    npud__report__free_unpacked(r, NULL);
    return found;
}

uint32_t npud_buffers(void)
{
    Npud__Report *report = npud_report(NPUD__ADMIN_REQUEST__TOPIC__POOLS);
    uint32_t n = 0;

    for (size_t i = 0; i < report->n_pools; i++) {
        const Npud__PoolRow *row = report->pools[i];

        n += row->held + row->sending + row->member + row->shared;
    }
    npud__report__free_unpacked(report, NULL);
    return n;
}

void npud_expect_empty(void)
{
    struct ledger l;

    npud_await_sessions(0);
    l = npud_ledger();
    ck_assert_uint_eq(l.streams, 0);
    ck_assert_uint_eq(l.events, 0);
    ck_assert_uint_eq(l.lingering, 0);
    ck_assert_uint_eq(l.memory, 0);
    ck_assert_uint_eq(l.notifies, 0);
    npud_await_no_pools();
}

void session_open(void)
{
    OK(aclInit(NULL));
    OK(aclrtSetDevice(0));
}

void session_close(void)
{
    OK(aclrtResetDevice(0));
    OK(aclFinalize());
}

/* --- streams and threads --- */

void streams_open(aclrtStream *one, aclrtStream *two)
{
    session_open();
    OK(aclrtCreateStream(one));
    OK(aclrtCreateStream(two));
}

aclrtEvent stream_hold(aclrtStream stream)
{
    aclrtEvent gate;

    OK(aclrtCreateEventWithFlag(&gate, ACL_EVENT_SYNC));
    OK(aclrtStreamWaitEvent(stream, gate));
    return gate;
}

void stream_let_go(aclrtEvent gate)
{
    OK(aclrtRecordEvent(gate, NULL));
}

void thread_call(void *(*fn)(void *arg), void *arg)
{
    pthread_t thread;

    ck_assert_int_eq(pthread_create(&thread, NULL, fn, arg), 0);
    pthread_join(thread, NULL);
}

/* --- measuring --- */

uint64_t context_switches(pid_t pid)
{
    uint64_t n = proc_switches(pid);

    ck_assert_uint_gt(n, 0);
    return n;
}

uint64_t cpu_wait_ns(pid_t pid)
{
    return proc_cpu_wait_ns(pid);
}
