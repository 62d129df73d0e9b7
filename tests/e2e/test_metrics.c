/*
 * npuctl metrics: held by the parser of prometheus_client (tests/run/metrics.py), and as a server
 * by tests/run/scrape.py.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/common/harness.h"
#include "proto/wire/npud.pb-c.h"

static bool one_waits(void)
{
    Npud__Report *r = npud_report(NPUD__ADMIN_REQUEST__TOPIC__WAITS);
    bool met = r->n_waits == 1;

    npud__report__free_unpacked(r, NULL);
    return met;
}

START_TEST(metrics_are_open_metrics)
{
    const char *dir = getenv("NPUD_BINDIR");
    aclrtStream stream, other;
    aclrtEvent gate;
    char command[256];
    void *memory;

    streams_open(&stream, &other);
    OK(aclrtMalloc(&memory, 4096, ACL_MEM_MALLOC_NORMAL_ONLY));
    gate = stream_hold(stream);
    EVENTUALLY(one_waits(), "no stream waits");
    snprintf(command, sizeof(command),
             "%s/npuctl metrics | /usr/bin/python3 tests/run/metrics.py "
             "examples/grafana/npud.json",
             dir ? dir : "build");
    ck_assert_int_eq(system(command), 0);
    npuctl_says("metrics", 0, "\n# EOF\n");
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

int main(void)
{
    Suite *suite = suite_create("metrics");
    TCase *tc = suite_case(suite, "metrics", 60, npud_setup, npud_teardown);

    tcase_add_test(tc, metrics_are_open_metrics);
    tcase_add_test(tc, metrics_are_served);
    tcase_add_test(tc, server_outlives_npud);
    return run_suite(suite);
}
