/*
 * npuctl metrics: held by the parser of prometheus_client (tests/run/metrics.py), and as a server
 * by tests/run/scrape.py.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "acl/acl_tdt_queue.h"
#include "tests/common/harness.h"
#include "tests/common/raw.h"
#include "proto/wire/npud.pb-c.h"

static bool one_waits(void)
{
    Npud__Report *r = npud_report(NPUD__ADMIN_REQUEST__TOPIC__WAITS);
    bool met = r->n_waits == 1;

    npud__report__free_unpacked(r, NULL);
    return met;
}

static int be_killed(void *arg)
{
    (void)arg;
    session_open();
    turn_tell(&to_parent);
    pause();
    return 1;
}

static int leave_in_order(void *arg)
{
    (void)arg;
    session_open();
    session_close();
    return 0;
}

static pid_t start_session(void)
{
    pid_t pid = child_start(be_killed, NULL);

    turn_await(&to_parent);
    return pid;
}

static void end_by_npuctl(pid_t pid)
{
    char command[32];

    snprintf(command, sizeof(command), "kill %llu", (unsigned long long)npud_session_of(pid));
    npuctl_says(command, 0, "");
    child_kill(pid);
}

/* It comes and goes, and is no program. */
static void connect_only(void)
{
    int socket = raw_connect();

    ck_assert_int_ge(socket, 0);
    npud_await_sessions(1);
    close(socket);
}

/* One session that dies, and others that end without: only that is a death. */
static void run_sessions(void)
{
    turns_init();
    child_kill(start_session());
    npud_await_sessions(0);
    end_by_npuctl(start_session());
    child_expect_ok(child_start(leave_in_order, NULL));
    npud_await_sessions(0);
    connect_only();
    npud_await_sessions(0);
}

/* A queue with a message, in it for good. */
static void put_message(void)
{
    aclrtMbuf buffer;
    uint32_t queue;

    OK(acltdtCreateQueue(NULL, &queue));
    OK(aclrtAllocBuf(&buffer, 64));
    OK(acltdtEnqueue(queue, buffer, 0));
}

START_TEST(metrics_are_open_metrics)
{
    const char *dir = getenv("NPUD_BINDIR");
    aclrtStream stream, other;
    aclrtEvent gate;
    char command[512];
    void *memory, *none = NULL;

    run_sessions();
    streams_open(&stream, &other);
    OK(aclrtMalloc(&memory, 4096, ACL_MEM_MALLOC_NORMAL_ONLY));
    ck_assert_int_ne(aclrtMalloc(&none, (size_t)1 << 50, ACL_MEM_MALLOC_NORMAL_ONLY), 0);
    put_message();
    gate = stream_hold(stream);
    EVENTUALLY(one_waits(), "no stream waits");
    dir = dir ? dir : "build";
    snprintf(command, sizeof(command),
             "%s/npuctl metrics | /usr/bin/python3 tests/run/metrics.py "
             "examples/grafana/npud.json %s/npuctl",
             dir, dir);
    ck_assert_int_eq(system(command), 0);
    npuctl_says("metrics", 0, "\n# EOF\n");
    npuctl_says("status", 0, "\nREASON ");
    npuctl_says("metrics --text", 0, "# TYPE npud_info gauge\n");
    npuctl_says("metrics --text --listen", 2, "--text goes with metrics, without --listen");
    npuctl_says("status --text", 2, "--text goes with metrics");
    npuctl_says("--json metrics", 2, "metrics are text, and do not go with \"--json\"");
    stream_let_go(gate);
    OK(aclrtFree(memory));
    session_close();
}
END_TEST

static void run_scrape(const char *what, const char *about, int value)
{
    char command[512];

    snprintf(command, sizeof(command), "/usr/bin/python3 tests/run/scrape.py %s '%s' %d", what,
             about, value);
    ck_assert_int_eq(system(command), 0);
}

START_TEST(metrics_are_served)
{
    const char *dir = getenv("NPUD_BINDIR");
    char program[256];

    snprintf(program, sizeof(program), "%s/npuctl", dir ? dir : "build");
    run_scrape("serve", program, 0);
}
END_TEST

START_TEST(server_outlives_npud)
{
    const char *dir = getenv("NPUD_BINDIR");
    char command[512], path[128], admin[128], line[256];
    pid_t pid;
    FILE *server;

    /* Each npud of a test has a folder of its own: this name is for the one that serves. */
    snprintf(admin, sizeof(admin), "/tmp/npud-metrics-%d.admin", getpid());
    snprintf(path, sizeof(path), "/tmp/npud-metrics-%d.sock", getpid());
    ck_assert_int_eq(symlink(getenv("NPUD_ADMIN_SOCKET"), admin), 0);
    snprintf(command, sizeof(command), "echo $$; exec %s/npuctl -s %s metrics --listen %s",
             dir ? dir : "build", admin, path);
    server = popen(command, "r");
    ck_assert_ptr_nonnull(server);
    ck_assert_ptr_nonnull(fgets(line, sizeof(line), server));
    pid = (pid_t)strtol(line, NULL, 10);
    ck_assert_int_gt(pid, 0);
    ck_assert_ptr_nonnull(fgets(line, sizeof(line), server));
    ck_assert_ptr_nonnull(strstr(line, path));
    run_scrape("await", path, 1);
    ck_assert_int_eq(kill(npud.pid, SIGSTOP), 0); /* it hangs, and then it is dead */
    run_scrape("await", path, 0);
    npud_kill();
    run_scrape("await", path, 0);
    npud_start(NULL);
    ck_assert_int_eq(unlink(admin), 0);
    ck_assert_int_eq(symlink(getenv("NPUD_ADMIN_SOCKET"), admin), 0);
    run_scrape("await", path, 1);
    ck_assert_int_eq(unlink(admin), 0);
    ck_assert_int_eq(kill(pid, SIGTERM), 0);
    ck_assert_int_eq(pclose(server), 0);
}
END_TEST

START_TEST(restarts_are_counted)
{
    Npud__Report *r;

    npud_start_restartable(NULL);
    npud_kill_server();
    npud_kill_server();
    r = npud_report(NPUD__ADMIN_REQUEST__TOPIC__STATUS);
    ck_assert_uint_eq(r->status[0]->restarts, 2);
    npud__report__free_unpacked(r, NULL);
    npuctl_says("metrics", 0, "\nnpud_restarts_total 2\n");
    npud_teardown();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("metrics");
    TCase *tc = suite_case(suite, "metrics", 60, npud_setup, npud_teardown);

    tcase_add_test(tc, metrics_are_open_metrics);
    tcase_add_test(tc, metrics_are_served);
    tcase_add_test(tc, server_outlives_npud);
    tc = suite_case(suite, "restarts", 60, NULL, NULL);
    tcase_add_test(tc, restarts_are_counted);
    return run_suite(suite);
}
