/*
 * npuctl monitor: what happens is told as it happens, a monitor that does not read delays nobody
 * and is told how much it has missed, and it goes on with the next npud.
 *
 * Skipped under chaos: what is told would depend on when npud was killed.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/common/harness.h"
#include "tests/common/nested.h"
#include "proto/wire/npud.pb-c.h"
#include "proto/wire/packet.h"

#define MONITORS_MAX 64   /* daemon/admin/monitor.c */
#define MANY         1500 /* happenings: more than a socket holds */

static struct packet packet;

/* --- as npuctl asks --- */

static void send_request(int fd)
{
    Npud__AdminRequest request = NPUD__ADMIN_REQUEST__INIT;

    request.id = 1;
    request.protocol = PROTOCOL_ADMIN;
    request.monitor = true;
    ck_assert_int_eq(packet_send_message(fd, &request.base, NULL, 0, 0), 0);
}

/* What npud answers: its error, or -1 if it has hung up. */
static int32_t read_reply(int fd)
{
    Npud__AdminReply *reply;
    int32_t error;

    if (packet_recv(fd, &packet, 0) <= 0)
        return -1;
    reply = npud__admin_reply__unpack(NULL, packet.size, packet.data);
    ck_assert_ptr_nonnull(reply);
    error = reply->error;
    npud__admin_reply__free_unpacked(reply, NULL);
    return error;
}

static int monitor_open(void)
{
    int fd = npud_connect_admin();

    send_request(fd);
    ck_assert_int_eq(read_reply(fd), 0);
    return fd;
}

static unsigned executors; /* that have been told of: they come in their own time */

static Npud__Happening *next(int fd)
{
    Npud__Happening *h;

    ck_assert_int_eq(packet_recv(fd, &packet, 0), 1);
    h = npud__happening__unpack(NULL, packet.size, packet.data);
    ck_assert_ptr_nonnull(h);
    if (strcmp(h->kind, "executor-start") != 0)
        return h;
    executors++;
    npud__happening__free_unpacked(h, NULL);
    return next(fd);
}

/* The next one is of this kind, of this process (0: of none), and says these words. */
static void expect_next(int fd, const char *kind, pid_t pid, const char *words)
{
    Npud__Happening *h = next(fd);

    ck_assert_msg(strcmp(h->kind, kind) == 0 && h->pid == pid && strstr(h->text, words),
                  "%s of %d: %s; and not %s of %d: %s", h->kind, h->pid, h->text, kind, (int)pid,
                  words);
    ck_assert_uint_eq(h->lost, 0);
    ck_assert_uint_gt(h->at_ns, 0);
    ck_assert((h->session != 0) == (pid != 0));
    npud__happening__free_unpacked(h, NULL);
}

/* --- what is told --- */

static int use_and_die(void *arg)
{
    aclrtStream stream;

    (void)arg;
    session_open();
    ck_assert_int_ne(aclrtCreateStream(&stream), ACL_SUCCESS);
    ck_assert_int_ne(aclrtCreateStream(&stream), ACL_SUCCESS);
    raise(SIGKILL);
    return 0;
}

static int leave_in_order(void *arg)
{
    (void)arg;
    session_open();
    session_close();
    return 0;
}

static void setup_without_streams(void)
{
    static const char *const args[] = {"--set=limits.streams=1", NULL};

    npud_start(args);
}

START_TEST(sessions_deaths_refusals_and_devices_are_told)
{
    int fd = monitor_open();
    pid_t pid = child_start(use_and_die, NULL);

    ck_assert(WIFSIGNALED(child_reap(pid)));
    expect_next(fd, "session-begin", pid, "test_monitor begins");
    /* The log has one line for both. */
    expect_next(fd, "refusal", pid, "at a limit: no stream on device 0");
    expect_next(fd, "refusal", pid, "at a limit: no stream on device 0");
    expect_next(fd, "death", pid, "test_monitor has died");
    expect_next(fd, "session-end", pid, "test_monitor has ended");
    pid = child_start(leave_in_order, NULL);
    child_expect_ok(pid);
    expect_next(fd, "session-begin", pid, "begins");
    expect_next(fd, "session-end", pid, "has ended");
    npuctl_says("inject lose-device --device=1", 0, "1\n");
    expect_next(fd, "device-lost", 0, "device 1 is lost");
    expect_next(fd, "rule", 0, "rule 1 set");
    npuctl_says("inject clear 1", 0, "");
    expect_next(fd, "device-back", 0, "device 1 is back");
    expect_next(fd, "rule", 0, "rule 1 cleared");
    ck_assert_int_eq(executors > 0, nested_is_on());
    close(fd);
}
END_TEST

START_TEST(an_administrator_who_ends_a_session_is_told)
{
    int fd = monitor_open();
    char command[64];

    session_open();
    snprintf(command, sizeof(command), "kill %llu", (unsigned long long)npud_session_of(getpid()));
    npuctl_says(command, 0, "");
    expect_next(fd, "session-begin", getpid(), "");
    expect_next(fd, "kill", getpid(), "on an administrator's request");
    expect_next(fd, "session-end", getpid(), "");
    close(fd);
}
END_TEST

/* --- one that does not read --- */

/* Two happenings each time. */
static void set_and_clear_rules(unsigned times)
{
    for (unsigned i = 0; i < times; i++) {
        Npud__AdminRequest request = NPUD__ADMIN_REQUEST__INIT;
        Npud__Inject rule = NPUD__INJECT__INIT;
        int fd = npud_connect_admin();

        rule.device = rule.stream = -1;
        rule.code = 507000;
        request.id = 1;
        request.protocol = PROTOCOL_ADMIN;
        request.inject = &rule;
        ck_assert_int_eq(packet_send_message(fd, &request.base, NULL, 0, 0), 0);
        ck_assert_int_eq(read_reply(fd), 0);
        request.inject = NULL;
        request.clear_rules = true;
        ck_assert_int_eq(packet_send_message(fd, &request.base, NULL, 0, 0), 0);
        ck_assert_int_eq(read_reply(fd), 0);
        close(fd);
    }
}

START_TEST(what_a_monitor_does_not_read_is_counted)
{
    int idle = monitor_open(), other = monitor_open();
    uint64_t told = 0, lost = 0;

    set_and_clear_rules(MANY / 2);
    npuctl_says("--json sessions", 0, "{\"sessions\":[]}"); /* npud has done all that it had to */
    /* Nothing more happens: what is missing is told as soon as there is room. */
    while (told + lost < MANY) {
        Npud__Happening *h = next(idle);

        ck_assert((strcmp(h->kind, "lost") == 0) == (h->lost > 0));
        told += h->lost == 0;
        lost += h->lost;
        npud__happening__free_unpacked(h, NULL);
    }
    ck_assert_uint_eq(told + lost, MANY);
    ck_assert_uint_gt(lost, 0);
    ck_assert_uint_gt(told, 50);
    set_and_clear_rules(1);
    expect_next(idle, "rule", 0, "set");
    expect_next(idle, "rule", 0, "cleared");
    close(other); /* in the middle, with what it has not read */
    set_and_clear_rules(1);
    expect_next(idle, "rule", 0, "set");
    close(idle);
    npuctl_says("--json sessions", 0, "{\"sessions\":[]}");
}
END_TEST

/* --- wrong use --- */

static void setup_many_admins(void)
{
    static const char *const args[] = {"--set=limits.admins=100", NULL};

    npud_start(args);
}

START_TEST(there_are_so_many_monitors_and_not_more)
{
    int fd[MONITORS_MAX], more = npud_connect_admin();

    for (unsigned i = 0; i < MONITORS_MAX; i++)
        fd[i] = monitor_open();
    npuctl_says("monitor", 1, "as many monitors as npud serves");
    send_request(more);
    ck_assert_int_eq(read_reply(more), 207005);
    close(fd[0]);
    while (send_request(more), read_reply(more) != 0)
        ;
    for (unsigned i = 1; i < MONITORS_MAX; i++)
        close(fd[i]);
    close(more);
}
END_TEST

START_TEST(a_monitor_asks_nothing_else)
{
    int fd = monitor_open();

    send_request(fd);
    ck_assert_int_eq(read_reply(fd), -1);
    close(fd);
    npuctl_says("monitor now", 2, "unexpected argument");
    npuctl_says("--watch monitor", 2, "goes with reports");
    npuctl_says("--socket=/none monitor", 3, "no npud at /none");
    npuctl_says("monitor >/dev/full", 1, "");
}
END_TEST

/* --- the program --- */

static FILE *program; /* what it prints */
static pid_t program_pid;

/* npuctl with this option, which ends when the test kills it. */
static void program_start(const char *option)
{
    const char *dir = getenv("NPUD_BINDIR");
    char path[256];
    int ends[2];

    snprintf(path, sizeof(path), "%s/npuctl", dir ? dir : "build");
    ck_assert_int_eq(pipe(ends), 0);
    program_pid = fork_when_quiet();
    if (program_pid == 0) {
        dup2(ends[1], STDOUT_FILENO);
        close(ends[0]);
        close(ends[1]);
        execl(path, "npuctl", "monitor", "--interval=0.1", option, NULL);
        _exit(127);
    }
    close(ends[1]);
    program = fdopen(ends[0], "re");
    ck_assert_ptr_nonnull(program);
}

/* Reads until a line has both: they stand in one that comes, or the test has hung. */
static void program_says(const char *kind, const char *words)
{
    char line[4096] = "";

    while (!strstr(line, kind) || !strstr(line, words))
        ck_assert_msg(fgets(line, sizeof(line), program), "no line with %s and %s", kind, words);
}

static void program_end(void)
{
    fclose(program);
    child_kill(program_pid);
}

START_TEST(the_program_goes_on_with_the_next_npud)
{
    pid_t pid;

    program_start("--json");
    program_says("\"kind\":\"connected\"", "from now on");
    npud_kill_server();
    program_says("\"kind\":\"restart\"", "has ended");
    program_says("\"kind\":\"connected\"", "serves again");
    pid = child_start(leave_in_order, NULL);
    child_expect_ok(pid);
    program_says("\"kind\":\"session-begin\"", "test_monitor begins");
    program_end();
}
END_TEST

START_TEST(the_program_ends_when_no_npud_comes)
{
    int status;

    program_start("--bytes");
    program_says(" connected ", "from now on");
    npud_kill();
    program_says(" restart ", "has ended");
    ck_assert_int_eq(waitpid(program_pid, &status, 0), program_pid);
    ck_assert_int_eq(WEXITSTATUS(status), 3);
    fclose(program);
}
END_TEST

/* Its only thread waits for its stream, which waits for a record that this thread should make. */
static int wait_for_oneself(void *arg)
{
    aclrtStream one, two;
    aclrtEvent event;

    (void)arg;
    streams_open(&one, &two);
    OK(aclrtCreateEventWithFlag(&event, ACL_EVENT_SYNC));
    OK(aclrtStreamWaitEvent(one, event));
    aclrtSynchronizeStream(one);
    return 0;
}

START_TEST(deadlocks_are_told_when_they_begin_and_end)
{
    pid_t pid;

    program_start("--bytes");
    program_says(" connected ", "from now on");
    pid = child_start(wait_for_oneself, NULL);
    program_says(" deadlock ", "of 1 processes: ");
    child_kill(pid);
    program_says(" deadlock-end ", "of 1 processes: ");
    program_end();
}
END_TEST

static void setup_restartable(void)
{
    npud_start_restartable(NULL);
}

int main(void)
{
    Suite *suite = suite_create("monitors");
    TCase *tcase = suite_case(suite, "kinds", 60, setup_without_streams, npud_teardown);

    tcase_add_test(tcase, sessions_deaths_refusals_and_devices_are_told);
    tcase = suite_case(suite, "plain", 60, npud_setup, npud_teardown);
    tcase_add_test(tcase, an_administrator_who_ends_a_session_is_told);
    tcase_add_test(tcase, what_a_monitor_does_not_read_is_counted);
    tcase_add_test(tcase, a_monitor_asks_nothing_else);
    tcase_add_test(tcase, deadlocks_are_told_when_they_begin_and_end);
    tcase = suite_case(suite, "many", 60, setup_many_admins, npud_teardown);
    tcase_add_test(tcase, there_are_so_many_monitors_and_not_more);
    tcase = suite_case(suite, "restart", 60, setup_restartable, npud_teardown);
    tcase_add_test(tcase, the_program_goes_on_with_the_next_npud);
    tcase = suite_case(suite, "end", 60, npud_setup, NULL);
    tcase_add_test(tcase, the_program_ends_when_no_npud_comes);
    return run_suite(suite);
}
