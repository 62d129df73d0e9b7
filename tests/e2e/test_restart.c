/*
 * An npud that comes back: whichever of its processes is killed, clients connect anew, and nothing
 * is left behind.
 *
 * Skipped under chaos: the test itself kills npud, and asserts what that leaves.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "acl/acl_tdt_queue.h"
#include "tests/common/effort.h"
#include "tests/common/harness.h"
#include "tests/common/proc.h"
#include "tests/common/queue_steps.h"

#define KILLS      20  /* in make check */
#define KILLS_LONG 200 /* in make check-long */

static void start(void)
{
    npud_start_restartable(NULL);
}

static int work_once(void *arg)
{
    aclrtStream stream;
    aclrtEvent event;

    (void)arg;
    session_open();
    OK(aclrtCreateStream(&stream));
    OK(aclrtCreateEvent(&event));
    OK(aclrtRecordEvent(event, stream));
    OK(aclrtSynchronizeEvent(event));
    OK(aclrtDestroyEvent(event));
    OK(aclrtDestroyStream(stream));
    session_close();
    return 0;
}

static void expect_service(void)
{
    child_expect_ok(child_start(work_once, NULL));
}

/* Descriptors of the processes that stay. */
struct standing {
    unsigned supervisor, keeper;
};

static struct standing standing_now(void)
{
    return (struct standing){proc_usage(npud.pid).fds, proc_usage(npud_keeper_pid()).fds};
}

/* The last session may still have been there. */
static void await_standing(struct standing as_before)
{
    struct standing now;

    EVENTUALLY((now = standing_now()).supervisor <= as_before.supervisor &&
                   now.keeper <= as_before.keeper,
               "descriptors: the supervisor has %u, before %u; the keeper has %u, before %u",
               now.supervisor, as_before.supervisor, now.keeper, as_before.keeper);
}

static void kill_again_and_again(void (*kill_one)(void))
{
    struct standing before;

    npud_kill_standby(); /* there is one, and all that comes with it */
    expect_service();
    npud_await_sessions(0);
    before = standing_now();
    for (unsigned i = choose_effort(KILLS, KILLS_LONG); i > 0; i--) {
        kill_one();
        expect_service();
    }
    EVENTUALLY(npud_standby_pid() != 0, "there is no standby");
    await_standing(before);
    npud_teardown();
}

START_TEST(the_server_is_killed)
{
    kill_again_and_again(npud_kill_server);
}
END_TEST

START_TEST(the_standby_is_killed)
{
    kill_again_and_again(npud_kill_standby);
}
END_TEST

START_TEST(the_keeper_is_killed)
{
    kill_again_and_again(npud_kill_keeper);
}
END_TEST

/* Everybody but the supervisor, in any order. */
static void kill_all(void)
{
    pid_t of_it[] = {npud_standby_pid(), npud_keeper_pid(), npud_server_pid()};

    for (size_t i = 0; i < sizeof(of_it) / sizeof(of_it[0]); i++)
        if (of_it[i])
            kill(of_it[i], SIGKILL);
}

/* Without the keeper, the next server has made the sockets anew. */
static void expect_service_again(void)
{
    npud_await_sessions(0);
    expect_service();
}

START_TEST(all_of_its_children_are_killed)
{
    for (unsigned i = choose_effort(KILLS, KILLS_LONG); i > 0; i--) {
        kill_all();
        expect_service_again();
    }
    npud_teardown();
}
END_TEST

START_TEST(the_supervisor_is_killed)
{
    for (unsigned i = choose_effort(KILLS, KILLS_LONG); i > 0; i--) {
        expect_service();
        npud_kill_supervisor();
        npud_start_restartable(NULL);
    }
    expect_service();
    npud_teardown();
}
END_TEST

/* By somebody who tidies up. */
START_TEST(the_next_server_makes_a_socket_that_was_removed)
{
    char path[128];

    snprintf(path, sizeof(path), "%s/npud.sock", npud.dir);
    ck_assert_int_eq(unlink(path), 0);
    npud_kill_server();
    expect_service();
    npud_kill_server();
    expect_service();
    npud_teardown();
}
END_TEST

/* --- its end --- */

static int hold_and_be_told(void *arg)
{
    aclrtStream stream;
    aclrtEvent gate;

    (void)arg;
    session_open();
    OK(aclrtCreateStream(&stream));
    gate = stream_hold(stream);
    (void)gate;
    turn_tell(&to_parent);
    FAILS(ACL_ERROR_RT_SOCKET_CLOSE, aclrtSynchronizeStream(stream));
    return 0;
}

static pid_t start_holding(void)
{
    pid_t child;

    turns_init();
    child = child_start(hold_and_be_told, NULL);
    turn_await(&to_parent);
    return child;
}

static void expect_end(pid_t holding)
{
    struct stat st;
    int status;

    child_expect_ok(holding);
    ck_assert_int_eq(waitpid(npud.pid, &status, 0), npud.pid);
    npud.pid = 0;
    ck_assert_int_eq(status, 0);
    ck_assert_int_lt(lstat(npud.dir, &st), 0);
}

static void end_by(pid_t (*which)(void), int number)
{
    pid_t child, all[] = {npud_server_pid(), npud_standby_pid(), npud_keeper_pid()};

    child = start_holding();
    ck_assert_int_eq(kill(which(), number), 0);
    expect_end(child);
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        ck_assert_msg(all[i] == 0 || kill(all[i], 0) < 0, "process %d is left", (int)all[i]);
}

static pid_t supervisor_pid(void)
{
    return npud.pid;
}

START_TEST(sigterm_ends_all_of_it)
{
    end_by(supervisor_pid, SIGTERM);
}
END_TEST

START_TEST(sigint_ends_all_of_it)
{
    end_by(supervisor_pid, SIGINT);
}
END_TEST

/* An administrator who has found the wrong process. */
START_TEST(a_server_that_ends_in_order_ends_all_of_it)
{
    end_by(npud_server_pid, SIGTERM);
}
END_TEST

/* After a death as before. */
START_TEST(the_next_server_ends_in_order)
{
    npud_kill_server();
    npud_kill_keeper();
    npud_kill_server();
    end_by(supervisor_pid, SIGTERM);
}
END_TEST

/* So much later. Not asleep: that would be longer than most of what happens meanwhile. */
static void let_pass(unsigned us)
{
    uint64_t end = now_ns() + us * UINT64_C(1000);

    while (now_ns() < end)
        ;
}

/* The supervisor is to end, and its server dies a moment before that or after it. */
static void end_with_killed(unsigned us, bool killed_first, bool standby)
{
    pid_t server = npud_server_pid(), waits = npud_standby_pid(), child = start_holding();

    if (!killed_first)
        kill(npud.pid, SIGTERM);
    if (!killed_first)
        let_pass(us);
    kill(server, SIGKILL);
    if (standby && waits != 0)
        kill(waits, SIGKILL);
    if (killed_first)
        let_pass(us);
    if (killed_first)
        kill(npud.pid, SIGTERM);
    expect_end(child);
}

#define MOMENTS   16 /* from none to 7.5 ms: the next server serves after some of them */
#define MOMENT_US 500

START_TEST(a_server_killed_at_the_end_is_followed_by_one_that_ends_in_order)
{
    for (unsigned i = choose_effort(2 * MOMENTS, 20 * MOMENTS); i > 0; i--) {
        end_with_killed(i % MOMENTS * MOMENT_US, i / MOMENTS % 2 == 0, i % 3 == 0);
        npud_start_restartable(NULL);
    }
}
END_TEST

/* Then no server is left when the supervisor learns that it is to end. */
START_TEST(what_has_no_server_at_the_end_starts_one)
{
    for (unsigned i = choose_effort(KILLS / 2, KILLS_LONG); i > 0; i--) {
        pid_t child = start_holding(), standby;

        EVENTUALLY((standby = npud_standby_pid()) != 0, "there is no standby");
        child_stop(npud.pid);
        kill(npud_server_pid(), SIGKILL);
        kill(standby, SIGKILL);
        kill(npud.pid, SIGTERM);
        kill(npud.pid, SIGCONT);
        expect_end(child);
        npud_start_restartable(NULL);
    }
}
END_TEST

/* --- its options --- */

static int status_of(const char *const *argv)
{
    char path[256];
    const char *dir = getenv("NPUD_BINDIR");
    int status;
    pid_t pid = fork();

    if (pid == 0) {
        if (!freopen("/dev/null", "w", stderr))
            _exit(99);
        snprintf(path, sizeof(path), "%s/npud", dir ? dir : "build");
        execv(path, (char **)argv);
        _exit(99);
    }
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

START_TEST(what_cannot_start_says_so_by_its_status)
{
    ck_assert_int_eq(status_of((const char *[]){"npud", "--restartable", "--config=/dev/null",
                                                "--set=sim.devices=none", NULL}),
                     1);
    ck_assert_int_eq(status_of((const char *[]){"npud", "--restartable", "--config=/dev/null",
                                                "--runtime-dir=/proc/no", NULL}),
                     1);
    ck_assert_int_eq(status_of((const char *[]){"npud", "--restartable", "--no-such-option", NULL}),
                     2);
    ck_assert_int_eq(status_of((const char *[]){"npud", "--server", NULL}), 2);
    ck_assert_int_eq(
        status_of((const char *[]){"npud", "--restartable", "--check-config", "--config=/dev/null",
                                   "--set=npud.access_group=", "--set=npud.admin_group=", NULL}),
        0);
    ck_assert_int_eq(status_of((const char *[]){"npud", "--restartable", "--version", NULL}), 0);
}
END_TEST

/* At once: a standby may be about to read it. */
static void write_config(const char *path, const char *text)
{
    char whole[160];

    snprintf(whole, sizeof(whole), "%s.new", path);
    write_text_file(whole, text);
    ck_assert_int_eq(rename(whole, path), 0);
}

static void reload_config(const char *path, const char *text)
{
    pid_t standby;

    EVENTUALLY((standby = npud_standby_pid()) != 0, "there is no standby");
    write_config(path, text);
    ck_assert_int_eq(kill(npud.pid, SIGHUP), 0);
    EVENTUALLY(kill(standby, 0) < 0, "the old standby does not go");
}

static bool has_limit(const char *value)
{
    int status;
    char *said = npuctl("limits", &status);
    bool has = strstr(said, value);

    ck_assert_int_eq(status, 0);
    free(said);
    return has;
}

/* A standby has the configuration that was read last. */
START_TEST(the_next_server_has_the_configuration_of_the_last_reload)
{
    char path[128], set[160];

    snprintf(path, sizeof(path), "%s.conf", npud.dir);
    npud_teardown();
    write_config(path, "[limits]\nstreams = 1000\n");
    snprintf(set, sizeof(set), "--config=%s", path);
    npud_start_restartable((const char *const[]){set, NULL});
    reload_config(path, "[limits]\nstreams = 2000\n");
    npud_kill_server();
    ck_assert(has_limit("2000"));
    /* A wrong one: no server has read from the file what the last one serves with. */
    reload_config(path, "[limits]\nstreams = 3000\n");
    EVENTUALLY(has_limit("3000"), "the configuration is not read");
    write_config(path, "[limits]\nstreams = many\n");
    ck_assert_int_eq(kill(npud.pid, SIGHUP), 0);
    npud_kill_standby();
    for (int i = 0; i < 3; i++) {
        npud_kill_server();
        ck_assert(has_limit("3000"));
    }
    npud_kill_keeper();
    npud_kill_server();
    ck_assert(has_limit("3000"));
    expect_service();
    unlink(path);
    npud_teardown();
}
END_TEST

/* --- upgrades --- */

static char installed[64]; /* a folder of programs, as a package has installed them */

static void run_shell(const char *command)
{
    ck_assert_msg(system(command) == 0, "%s", command);
}

static const char *build_dir(void)
{
    const char *dir = getenv("NPUD_BINDIR");

    return dir ? dir : "build";
}

/* New files of these programs, renamed over the old ones. */
static void install_again(void)
{
    run_shell("for f in npud npud-supervisor npud-keeper npuctl; do"
              " cp \"$BUILT/$f\" \"$INSTALLED/new\" && mv \"$INSTALLED/new\" \"$INSTALLED/$f\" ||"
              " exit 1; done");
}

static bool runs_installed(pid_t pid, const char *name)
{
    char path[64], exe[128] = "", wanted[128];

    snprintf(path, sizeof(path), "/proc/%d/exe", (int)pid);
    snprintf(wanted, sizeof(wanted), "%s/%s", installed, name);
    return readlink(path, exe, sizeof(exe) - 1) > 0 && strcmp(exe, wanted) == 0;
}

static void install_first(void)
{
    char *built = realpath(build_dir(), NULL);

    ck_assert_ptr_nonnull(built);
    snprintf(installed, sizeof(installed), "/tmp/npud-test-installed-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(installed));
    setenv("INSTALLED", installed, 1);
    setenv("BUILT", built, 1);
    free(built);
    install_again();
    setenv("NPUD_BINDIR", installed, 1);
}

static void start_installed(void)
{
    install_first();
    npud_start_restartable(NULL);
}

START_TEST(npuctl_upgrade_follows_a_rename)
{
    pid_t server;

    start_installed();
    server = npud_server_pid();
    for (int i = 0; i < 3; i++) {
        install_again();
        ck_assert(!runs_installed(server, "npud"));
        npuctl_says("upgrade", 0, "serves");
        EVENTUALLY(runs_installed(npud.pid, "npud-supervisor"), "the supervisor is an old one");
        EVENTUALLY(runs_installed(npud_server_pid(), "npud"), "the server is an old one");
        ck_assert_int_ne(npud_server_pid(), server);
        server = npud_server_pid();
        npud_kill_server();
        server = npud_server_pid();
    }
    run_shell("cp /bin/false \"$INSTALLED/new\" && mv \"$INSTALLED/new\" \"$INSTALLED/npud\"");
    npuctl_says("upgrade", 1, "ends at its start");
    ck_assert_int_eq(npud_server_pid(), server);
    npud_kill_server(); /* the program that has served last */
    expect_service();
    npud_teardown();
    run_shell("rm -r \"$INSTALLED\"");
}
END_TEST

/* What executes each program, renames another file over it before that can look where it is. */
static const char replaced_at_once[] =
    "for f in npud npud-supervisor; do"
    " printf '%s\\n' '#!/bin/sh' 'cd \"$INSTALLED\" && cp \"$BUILT/'$f'\" new && exec 9<new &&"
    " mv new '$f' && cp \"$BUILT/'$f'\" new && mv new '$f' && exec /proc/self/fd/9 \"$@\"'"
    " >\"$INSTALLED/$f\" && chmod 755 \"$INSTALLED/$f\" || exit 1; done";

START_TEST(an_install_at_the_start_is_followed)
{
    install_first();
    run_shell(replaced_at_once);
    npud_start_restartable(NULL);
    ck_assert(!runs_installed(npud.pid, "npud-supervisor"));
    npuctl_says("upgrade", 0, "serves");
    EVENTUALLY(runs_installed(npud.pid, "npud-supervisor"), "the supervisor is an old one");
    EVENTUALLY(runs_installed(npud_server_pid(), "npud"), "the server is an old one");
    expect_service();
    npud_teardown();
    run_shell("rm -r \"$INSTALLED\"");
}
END_TEST

/* --- without a standby --- */

static int wait_for_stream(void *arg)
{
    aclrtStream stream, other;

    (void)arg;
    streams_open(&stream, &other);
    stream_hold(stream);
    FAILS(ACL_ERROR_RT_SOCKET_CLOSE, aclrtSynchronizeStream(stream));
    return 0;
}

static int wait_for_message(void *arg)
{
    acltdtBuf buf;
    uint32_t queue;

    (void)arg;
    session_open();
    queue = create_queue(2);
    FAILS(ACL_ERROR_RT_SOCKET_CLOSE, acltdtDequeue(queue, &buf, -1));
    return 0;
}

/* It makes requests all the time. */
static int ask_on_and_on(void *arg)
{
    aclrtStream stream;
    aclError r;

    (void)arg;
    session_open();
    do {
        r = aclrtCreateStream(&stream);
        if (r == 0)
            r = aclrtDestroyStream(stream);
    } while (r == 0);
    ck_assert_int_eq(r, ACL_ERROR_RT_SOCKET_CLOSE);
    return 0;
}

static int connect_on_and_on(void *arg)
{
    aclError r;

    (void)arg;
    do {
        r = aclInit(NULL);
        if (r == 0)
            r = aclrtSetDevice(0);
        if (r == 0)
            r = aclrtResetDevice(0);
        if (r == 0)
            r = aclFinalize();
    } while (r == 0);
    return 0;
}

static bool log_says(const char *words)
{
    char log[16384];
    ssize_t n = pread(npud_stderr, log, sizeof(log) - 1, 0);

    ck_assert_int_ge(n, 0);
    log[n] = '\0';
    return strstr(log, words);
}

/* No client waits for what will not come: npud ends after three attempts that say why they fail. */
START_TEST(an_npud_that_has_no_standby_ends_with_its_sessions)
{
    int (*const clients[])(void *) = {wait_for_stream, wait_for_message, ask_on_and_on,
                                      connect_on_and_on};
    pid_t pid[sizeof(clients) / sizeof(clients[0])];
    char words[128];
    int status;

    npud_stderr = memfd_create("log of npud", MFD_CLOEXEC);
    ck_assert_int_ge(npud_stderr, 0);
    start_installed();
    snprintf(words, sizeof(words), "%s/npud cannot be executed: Permission denied", installed);
    for (size_t i = 0; i < sizeof(clients) / sizeof(clients[0]); i++)
        pid[i] = child_start(clients[i], NULL);
    EVENTUALLY(npud_lists_sleeper(pid[0], "aclrtSynchronizeStream") &&
                   npud_lists_sleeper(pid[1], "acltdtDequeue") && npud_session_of(pid[2]) != 0,
               "the clients do not wait");
    EVENTUALLY(npud_standby_pid() != 0, "there is no standby");
    run_shell("chmod 0 \"$INSTALLED/npud\"");
    ck_assert_int_eq(kill(npud_standby_pid(), SIGKILL), 0);
    EVENTUALLY(log_says(words), "npud does not say why it has no standby");
    expect_service(); /* the server goes on */
    ck_assert_int_eq(kill(npud_server_pid(), SIGKILL), 0);
    ck_assert_int_eq(waitpid(npud.pid, &status, 0), npud.pid);
    npud_was_killed();
    ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 1);
    for (size_t i = 0; i < sizeof(clients) / sizeof(clients[0]); i++)
        child_expect_ok(pid[i]);
    run_shell("rm -r \"$INSTALLED\"");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("restart");
    TCase *t = suite_case(suite, "deaths", 300, start, npud_teardown);

    tcase_add_test(t, the_server_is_killed);
    tcase_add_test(t, the_standby_is_killed);
    tcase_add_test(t, the_keeper_is_killed);
    tcase_add_test(t, all_of_its_children_are_killed);
    tcase_add_test(t, the_supervisor_is_killed);
    tcase_add_test(t, the_next_server_makes_a_socket_that_was_removed);
    t = suite_case(suite, "end", 60, start, npud_teardown);
    tcase_add_test(t, sigterm_ends_all_of_it);
    tcase_add_test(t, sigint_ends_all_of_it);
    tcase_add_test(t, a_server_that_ends_in_order_ends_all_of_it);
    tcase_add_test(t, the_next_server_ends_in_order);
    tcase_add_test(t, a_server_killed_at_the_end_is_followed_by_one_that_ends_in_order);
    tcase_add_test(t, what_has_no_server_at_the_end_starts_one);
    t = suite_case(suite, "options", 60, start, npud_teardown);
    tcase_add_test(t, what_cannot_start_says_so_by_its_status);
    tcase_add_test(t, the_next_server_has_the_configuration_of_the_last_reload);
    t = suite_case(suite, "upgrade", 120, NULL, npud_teardown);
    tcase_add_test(t, npuctl_upgrade_follows_a_rename);
    tcase_add_test(t, an_install_at_the_start_is_followed);
    tcase_add_test(t, an_npud_that_has_no_standby_ends_with_its_sessions);
    return run_suite(suite);
}
