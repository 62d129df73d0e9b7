/*
 * daemon/supervisor as a state machine: what it does when its processes say something or end. They
 * are this test program, executed again: as a server that says what its argument tells it to.
 *
 * Skipped under the emulator: the kernel executes no program of another machine.
 * Skipped under TSan: one thread.
 * Runs long: 13 s.
 */
#include "daemon/supervisor/supervisor.h"

#include "daemon/supervisor/again.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "daemon/base/log.h"
#include "daemon/base/supervisor_message.h"
#include "unit.h"

/* What the supervisor has goes with its process, which here is that of a test. */
int __lsan_is_turned_off(void);
int __lsan_is_turned_off(void)
{
    return 1;
}

/* --- a server --- */

static int supervisor_fd = CHILD_FD, life = -1;

static void say(enum supervisor_operation operation, uint32_t value, const char *text)
{
    supervisor_message_send(supervisor_fd, operation, value, text, NULL, 0);
}

/* Until it is to do something: what the supervisor has said, or exit at its end. */
static bool serving;

static struct supervisor_message hear(int *fds, size_t *n)
{
    struct supervisor_message m;

    while (supervisor_message_receive(supervisor_fd, &m, fds, SUPERVISOR_FDS, n, 0) != 1) {
        if (!serving || supervisor_fd == life)
            _exit(0);
        supervisor_fd = life; /* as a server does whose supervisor has died */
    }
    return m;
}

/* Words of the program's arguments: what goes wrong. */
static bool told(char *const *argv, const char *word)
{
    for (; *argv; argv++)
        if (strcmp(*argv, word) == 0)
            return true;
    return false;
}

/* By the name of its file. */
static bool is_bad_program(void)
{
    char path[256] = "";

    return readlink("/proc/self/exe", path, sizeof(path) - 1) > 0 && strstr(path, "test-bad");
}

static int be_server(char *const *argv)
{
    struct supervisor_message m = {.operation = 0};
    int fds[SUPERVISOR_FDS];
    uint32_t lease = 0;
    size_t n;

    if (told(argv, "ends-at-once"))
        return 5;
    if (hear(fds, &n).operation != SUPERVISOR_START || fcntl(CHILD_FD + 1, F_GETFD) < 0)
        return 6;
    life = CHILD_FD + 2; /* behind the lease */
    if (told(argv, "finds-no-keeper"))
        say(SUPERVISOR_LOST, 0, NULL);
    if (told(argv, "--can-read"))
        say(SUPERVISOR_CAN_READ, !told(argv, "cannot-read"), "these are other tables");
    say(told(argv, "cannot-serve") ? SUPERVISOR_CANNOT : SUPERVISOR_PREPARED, 0, NULL);
    while (m.operation != SUPERVISOR_GO)
        m = hear(fds, &n);
    if (told(argv, "cannot-serve"))
        return 1;
    if ((told(argv, "cannot-recover") || is_bad_program()) && m.value != SUPERVISOR_FIRST &&
        !(m.value & SUPERVISOR_CLEAN))
        abort();
    if (told(argv, "cannot-begin") || (told(argv, "cannot-come-back") && m.value != 0))
        abort();
    if (told(argv, "ends-when-it-comes-back") && m.value != 0)
        return 1;
    say(SUPERVISOR_SERVING, 0, NULL);
    serving = true;
    for (;;) {
        m = hear(fds, &n);
        if (m.operation == SUPERVISOR_LEASE)
            lease = m.value;
        if (m.operation == (told(argv, "keeps-late") ? SUPERVISOR_PING : SUPERVISOR_LEASE))
            say(SUPERVISOR_KEPT, lease, NULL);
        if (m.operation == SUPERVISOR_PING)
            say(SUPERVISOR_ALIVE, 0, NULL);
        if (m.operation == SUPERVISOR_END)
            return 0;
    }
}

/* As --lease-fd=3: until the last copy of the other end is closed. */
static int be_keeper(void)
{
    char c;

    if (getenv("KEEPER_CRASHES"))
        abort();
    while (read(CHILD_FD, &c, 1) > 0)
        ;
    return 0;
}

/* --- a supervisor --- */

static struct supervisor s;
static char *server_argv[16];
static char itself[256];

/* Why an upgrade was refused last. */
static char refused[SUPERVISOR_TEXT];

/* So many servers are killed before they are told to start. */
static unsigned kill_before_start;

/* No server can be told to start. */
static bool no_start;

int __real_supervisor_message_send(int socket, enum supervisor_operation operation, uint32_t value,
                                   const char *text, const int *fds, size_t n);
int __wrap_supervisor_message_send(int socket, enum supervisor_operation operation, uint32_t value,
                                   const char *text, const int *fds, size_t n);
int __wrap_supervisor_message_send(int socket, enum supervisor_operation operation, uint32_t value,
                                   const char *text, const int *fds, size_t n)
{
    siginfo_t info;

    if (operation == SUPERVISOR_REFUSED)
        snprintf(refused, sizeof(refused), "%s", text);
    if (operation == SUPERVISOR_START && kill_before_start > 0) {
        kill_before_start--;
        kill(s.standby.pid, SIGKILL);
        waitid(P_PID, (id_t)s.standby.pid, &info, WEXITED | WNOWAIT);
    }
    if (operation == SUPERVISOR_START && no_start)
        return -EMFILE;
    return __real_supervisor_message_send(socket, operation, value, text, fds, n);
}

/* So many processes cannot be started, by EAGAIN. */
static unsigned failing_forks;

pid_t __real_fork(void);
pid_t __wrap_fork(void);
pid_t __wrap_fork(void)
{
    if (failing_forks == 0)
        return __real_fork();
    failing_forks--;
    errno = EAGAIN;
    return -1;
}

/* So often has the service manager heard that the start is over. */
static unsigned ready;

void __wrap_service_manager_tell(const char *fmt, ...);
void __wrap_service_manager_tell(const char *fmt, ...)
{
    if (strncmp(fmt, "READY=1", strlen("READY=1")) == 0)
        ready++;
}

static void set_word(const char *word)
{
    server_argv[4] = (char *)word;
}

static void set_up(const char *word)
{
    if (readlink("/proc/self/exe", itself, sizeof(itself) - 1) < 0)
        abort();
    memcpy(server_argv,
           (char *[]){"npud", "--server", "--server", "--supervisor-fd=3", NULL, NULL, NULL},
           7 * sizeof(char *));
    set_word(word);
    s = (struct supervisor){.npud = itself,
                            .keeper_path = itself,
                            .self = itself,
                            .server_argv = server_argv,
                            .ready_fd = -1,
                            .signals = -1,
                            .control = -1,
                            .admin = -1,
                            .keeper = CHILD_NULL,
                            .server = CHILD_NULL,
                            .standby = CHILD_NULL,
                            .candidate = CHILD_NULL,
                            .lease = -1};
}

static void begin(const char *word)
{
    set_up(word);
    ck_assert_int_eq(executable_open(&s.program, itself), 0);
    supervisor_open_lease(&s);
    supervisor_advance(&s);
}

/* Until it has come to this. Every wait is for something that a process does. */
#define STEP_UNTIL(condition)                                                                      \
    do {                                                                                           \
        for (unsigned steps_ = 0; !(condition); steps_++) {                                        \
            if (steps_ > 200)                                                                      \
                ck_abort_msg("never came: %s", #condition);                                        \
            supervisor_step(&s);                                                                   \
        }                                                                                          \
    } while (0)

#define IS_WHOLE (s.server.state == CHILD_SERVING && s.standby.state == CHILD_PREPARED)

static pid_t begin_and_serve(const char *word)
{
    begin(word);
    STEP_UNTIL(IS_WHOLE);
    return s.server.pid;
}

static void end_all(void)
{
    child_discard(&s.server);
    child_discard(&s.standby);
    child_discard(&s.candidate);
    child_discard(&s.keeper);
}

START_TEST(a_standby_waits_beside_the_server)
{
    pid_t server = begin_and_serve(NULL);

    ck_assert_int_ne(s.standby.pid, server);
    ck_assert_uint_eq(s.server.deadline_ns | s.standby.deadline_ns, 0); /* nothing wakes it */
    ck_assert_ptr_eq(s.good_program, s.program);
}
END_TEST

START_TEST(the_standby_follows)
{
    pid_t standby;

    begin_and_serve(NULL);
    for (int i = 0; i < 5; i++) {
        standby = s.standby.pid;
        kill(s.server.pid, SIGKILL);
        STEP_UNTIL(s.server.pid == standby);
        ck_assert_uint_eq(s.cause, SUPERVISOR_KILLED);
        STEP_UNTIL(IS_WHOLE);
    }
    kill(s.server.pid, SIGSEGV);
    STEP_UNTIL(s.server.state == CHILD_GOING);
    ck_assert_uint_eq(s.cause, SUPERVISOR_CRASHED);
    STEP_UNTIL(IS_WHOLE);
    ck_assert(!s.over);
}
END_TEST

/* The next one learns why the last one that served has ended. */
START_TEST(a_cause_outlives_a_kill)
{
    begin_and_serve(NULL);
    kill(s.standby.pid, SIGSTOP); /* so that it does not come to serve */
    kill(s.server.pid, SIGSEGV);
    STEP_UNTIL(s.server.state == CHILD_GOING);
    kill(s.server.pid, SIGKILL);
    STEP_UNTIL(s.server.state != CHILD_GOING);
    ck_assert_uint_eq(s.cause, SUPERVISOR_CRASHED);
    STEP_UNTIL(IS_WHOLE);
}
END_TEST

/* What it lacks is no fault of what the one before had in hand. */
START_TEST(a_recovery_that_fails_leaves_the_cause)
{
    begin_and_serve("cannot-recover");
    kill(s.server.pid, SIGKILL);
    STEP_UNTIL(s.recoveries.failed_ns[0] != 0);
    ck_assert_uint_eq(s.cause, SUPERVISOR_KILLED);
}
END_TEST

START_TEST(the_standby_is_replaced)
{
    pid_t server = begin_and_serve(NULL), standby;

    for (int i = 0; i < 5; i++) {
        standby = s.standby.pid;
        kill(standby, SIGKILL);
        STEP_UNTIL(s.standby.pid != standby);
        STEP_UNTIL(IS_WHOLE);
    }
    ck_assert_int_eq(s.server.pid, server);
}
END_TEST

/* Both at once: the dead standby is let go, and found dead. */
START_TEST(both_are_replaced)
{
    begin_and_serve(NULL);
    for (int i = 0; i < 5; i++) {
        pid_t both[] = {s.server.pid, s.standby.pid};

        kill(both[i % 2], SIGKILL);
        kill(both[!(i % 2)], SIGKILL);
        STEP_UNTIL(s.server.pid != both[0] && s.server.pid != both[1] && IS_WHOLE);
    }
}
END_TEST

START_TEST(three_failed_recoveries_start_anew)
{
    pid_t server = begin_and_serve("cannot-recover");

    kill(server, SIGKILL);
    STEP_UNTIL(s.cause & SUPERVISOR_CLEAN);
    STEP_UNTIL(IS_WHOLE);
    ck_assert_uint_eq(s.cause, SUPERVISOR_KILLED);
    kill(s.server.pid, SIGKILL); /* and again */
    STEP_UNTIL(s.cause & SUPERVISOR_CLEAN);
    STEP_UNTIL(IS_WHOLE);
}
END_TEST

/* By a fault, or because they lack something. */
START_TEST(five_failed_beginnings_end_npud)
{
    static const char *const how[] = {"cannot-come-back", "ends-when-it-comes-back"};
    unsigned most = 0;

    begin_and_serve(how[_i]);
    kill(s.server.pid, SIGKILL);
    for (unsigned steps = 0; !s.over && steps < 500; steps++) {
        supervisor_step(&s);
        if (s.anew_failed > most)
            most = s.anew_failed;
    }
    ck_assert(s.over);
    ck_assert_int_eq(s.status, 1);
    ck_assert_uint_eq(most, 5);
}
END_TEST

START_TEST(failed_beginnings_count_in_a_row)
{
    pid_t server = begin_and_serve("cannot-recover");

    s.cause |= SUPERVISOR_CLEAN;
    s.anew_failed = 4;
    kill(server, SIGKILL);
    STEP_UNTIL(s.server.pid != server && IS_WHOLE);
    ck_assert_uint_eq(s.anew_failed, 0);
    /* Deaths from outside are no failures. */
    s.cause |= SUPERVISOR_CLEAN;
    for (unsigned i = 0; i < 10; i++) {
        server = s.server.pid;
        kill(server, SIGKILL);
        STEP_UNTIL(s.server.pid != server && s.server.pid != 0);
    }
    STEP_UNTIL(IS_WHOLE);
    ck_assert_uint_eq(s.anew_failed, 0);
}
END_TEST

/* A client that waits at systemd's socket would start npud again at once. */
START_TEST(what_fails_hangs_up_on_clients_that_wait)
{
    struct sockaddr_un addr = {.sun_family = AF_UNIX, .sun_path = ""};
    socklen_t size = sizeof(sa_family_t);
    int client = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    char c;

    set_up("cannot-begin");
    ck_assert_int_eq(executable_open(&s.program, itself), 0);
    s.control = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    ck_assert_int_eq(bind(s.control, (struct sockaddr *)&addr, size), 0); /* a name of its own */
    ck_assert_int_eq(listen(s.control, 8), 0);
    size = sizeof(addr);
    ck_assert_int_eq(getsockname(s.control, (struct sockaddr *)&addr, &size), 0);
    ck_assert_int_eq(connect(client, (struct sockaddr *)&addr, size), 0);
    ck_assert_int_eq(supervisor_run(&s), 1);
    ck_assert_int_eq(read(client, &c, 1), 0);
    close(client);
    close(s.control);
}
END_TEST

START_TEST(what_ends_at_its_start_ends_all)
{
    begin("ends-at-once");
    STEP_UNTIL(s.over);
    ck_assert_int_eq(s.status, 5);
    end_all();
    begin("cannot-serve");
    STEP_UNTIL(s.over);
    ck_assert_int_eq(s.status, 1);
}
END_TEST

/* A kill that comes before START: as one that comes after it. */
START_TEST(what_is_dead_before_it_is_told_to_start_is_replaced)
{
    pid_t server = begin_and_serve(NULL);

    child_discard(&s.standby);
    kill_before_start = 3;
    kill(server, SIGKILL);
    STEP_UNTIL(IS_WHOLE);
    ck_assert_uint_eq(kill_before_start, 0);
    ck_assert(!s.over);
}
END_TEST

/* A server goes on that has no standby; without both, npud ends. */
START_TEST(a_standby_that_cannot_start_is_not_tried_for_ever)
{
    pid_t server;

    begin(NULL);
    STEP_UNTIL(s.server.state == CHILD_GOING);
    server = s.server.pid;
    set_word("ends-at-once");
    STEP_UNTIL(s.no_standby);
    ck_assert_int_eq(s.server.pid, server);
    ck_assert(!s.over);
    kill(server, SIGKILL);
    STEP_UNTIL(s.over);
    ck_assert_int_eq(s.status, 5);
}
END_TEST

/* Its end is the next thing that the supervisor sees. */
static void end_server(void)
{
    siginfo_t info;

    kill(s.server.pid, SIGKILL);
    ck_assert_int_eq(waitid(P_PID, (id_t)s.server.pid, &info, WEXITED | WNOWAIT), 0);
}

/* Processes are short for a moment, while none serves that could go on. */
START_TEST(a_standby_that_cannot_be_forked_is_tried_again)
{
    begin_and_serve(NULL);
    child_discard(&s.standby);
    failing_forks = 2;
    end_server();
    STEP_UNTIL((ck_assert(!s.over), IS_WHOLE));
    ck_assert_uint_eq(failing_forks, 0);
    ck_assert_uint_eq(s.standby_at_ns, 0); /* nothing wakes it */
}
END_TEST

/* Tries have a limit, and what failed beside a server does not count after its end. */
START_TEST(a_standby_that_cannot_be_forked_is_not_tried_for_ever)
{
    begin_and_serve(NULL);
    attempts_failed(&s.standbys, clock_ns());
    attempts_failed(&s.standbys, clock_ns());
    child_discard(&s.standby);
    failing_forks = 4;
    end_server();
    STEP_UNTIL(s.over);
    ck_assert_uint_eq(failing_forks, 1);
    ck_assert_int_eq(s.status, 1);
}
END_TEST

/* A server goes on that has no standby. */
START_TEST(a_standby_that_cannot_be_forked_beside_a_server_is_tried_again)
{
    pid_t server = begin_and_serve(NULL);

    failing_forks = 2;
    kill(s.standby.pid, SIGKILL);
    STEP_UNTIL(failing_forks == 0);
    STEP_UNTIL(IS_WHOLE);
    ck_assert_int_eq(s.server.pid, server);
    ck_assert(!s.no_standby);
    s.standbys = (struct attempts){{0}};
    failing_forks = 3;
    kill(s.standby.pid, SIGKILL);
    STEP_UNTIL(s.no_standby);
    ck_assert_uint_eq(failing_forks, 0);
    ck_assert_int_eq(s.server.pid, server);
    ck_assert(!s.over);
}
END_TEST

/* There is nothing to try again for. */
START_TEST(a_first_server_that_cannot_be_forked_ends_all)
{
    set_up(NULL);
    ck_assert_int_eq(executable_open(&s.program, itself), 0);
    failing_forks = 2; /* the keeper, too */
    ck_assert_int_eq(supervisor_run(&s), 1);
    ck_assert_uint_eq(failing_forks, 0);
}
END_TEST

START_TEST(a_signal_ends_the_server_in_order)
{
    begin_and_serve(NULL);
    on_signal(&s, SIGTERM);
    STEP_UNTIL(s.over);
    ck_assert_int_eq(s.status, 0);
}
END_TEST

/* Whatever has come of the server and the standby by then. */
START_TEST(a_server_that_is_dead_at_the_end_is_followed)
{
    for (unsigned i = 0; i < 8; i++) {
        pid_t server = begin_and_serve(NULL);

        if (i & 1)
            kill(s.standby.pid, SIGKILL);
        kill(server, SIGKILL);
        if (i & 2)
            STEP_UNTIL(s.server.pid != server);
        on_signal(&s, SIGTERM);
        if (i & 4)
            STEP_UNTIL(s.server.state == CHILD_GOING);
        if (s.server.state == CHILD_GOING)
            kill(s.server.pid, SIGKILL); /* and the next one, if it has not ended yet */
        STEP_UNTIL(s.over);
        ck_assert_int_eq(s.server.state, CHILD_NONE);
        ck_assert_int_eq(s.status, 0);
        end_all();
    }
}
END_TEST

START_TEST(a_server_that_crashes_at_the_end_is_not_followed)
{
    begin_and_serve(NULL);
    on_signal(&s, SIGTERM);
    kill(s.server.pid, SIGSTOP);
    kill(s.server.pid, SIGSEGV);
    kill(s.server.pid, SIGCONT);
    STEP_UNTIL(s.over);
    ck_assert_int_eq(s.server.state, CHILD_NONE);
}
END_TEST

/* It may have made its sockets. */
START_TEST(a_first_server_that_is_killed_is_not_the_first_any_more)
{
    begin(NULL);
    STEP_UNTIL(s.standby.state == CHILD_PREPARED || s.server.state == CHILD_GOING);
    STEP_UNTIL(s.server.state == CHILD_GOING);
    kill(s.server.pid, SIGSTOP);
    kill(s.server.pid, SIGKILL);
    STEP_UNTIL(s.server.state != CHILD_GOING);
    ck_assert_uint_eq(s.cause, SUPERVISOR_KILLED);
    STEP_UNTIL(IS_WHOLE);
}
END_TEST

START_TEST(what_has_let_no_server_go_ends_at_once)
{
    begin(NULL);
    on_signal(&s, SIGTERM);
    STEP_UNTIL(s.over);
    ck_assert_int_eq(s.status, 0);
}
END_TEST

/* As a service: it lives on. */
START_TEST(with_a_store_the_server_is_left_alone)
{
    pid_t server = begin_and_serve(NULL);

    s.fd_store = true;
    on_signal(&s, SIGTERM);
    ck_assert(s.over);
    ck_assert_int_eq(kill(server, 0), 0);
}
END_TEST

/* The server is of an earlier supervisor, and what has stayed of that is its life line. */
static void become_another(void)
{
    child_discard(&s.standby);
    s.server.pid = 0;
    close(s.server.socket);
    s.server.socket = fcntl(s.server.life, F_DUPFD_CLOEXEC, 0);
    s.replace = true;
}

START_TEST(a_server_of_an_earlier_supervisor_is_replaced)
{
    pid_t server = begin_and_serve(NULL);
    int status;

    become_another();
    supervisor_advance(&s);
    ck_assert_int_eq(waitpid(server, &status, WNOHANG), 0); /* it serves until then */
    STEP_UNTIL(IS_WHOLE && s.server.pid != 0);
    ck_assert_int_eq(waitpid(server, &status, 0), server);
    ck_assert_int_eq(status, SIGKILL);
}
END_TEST

/* Until something that can serve is there. */
START_TEST(a_server_of_an_earlier_supervisor_goes_on)
{
    pid_t server = begin_and_serve(NULL);

    child_discard(&s.standby);
    s.replace = true;
    set_word("cannot-serve");
    supervisor_advance(&s);
    STEP_UNTIL(s.standby.state == CHILD_CANNOT);
    ck_assert_int_eq(s.server.pid, server);
    ck_assert(!s.server.killed);
    set_word(NULL);
    on_signal(&s, SIGHUP);
    STEP_UNTIL(s.server.pid != server && IS_WHOLE);
}
END_TEST

START_TEST(a_reload_renews_the_standby)
{
    pid_t server = begin_and_serve(NULL), standby = s.standby.pid;

    on_signal(&s, SIGHUP);
    STEP_UNTIL(s.standby.pid != standby);
    ck_assert_int_eq(s.server.pid, server);
    ck_assert_int_lt(kill(standby, 0), 0);
    /* Not for one that cannot serve. */
    standby = s.standby.pid;
    set_word("cannot-serve");
    on_signal(&s, SIGHUP);
    STEP_UNTIL(s.candidate.state == CHILD_NONE);
    ck_assert_int_eq(s.standby.pid, standby);
    ck_assert_int_eq(s.standby.state, CHILD_PREPARED);
}
END_TEST

/* --- keeper and watchdog --- */

START_TEST(a_new_keeper_follows)
{
    pid_t server = begin_and_serve(NULL), keeper;

    for (uint32_t i = 1; i <= 5; i++) {
        keeper = s.keeper.pid;
        kill(keeper, SIGKILL);
        STEP_UNTIL(s.server.lease == 1 + i); /* the first one came with START */
        ck_assert_int_ne(s.keeper.pid, keeper);
        ck_assert_uint_eq(s.standby.lease, 1 + i);
    }
    ck_assert_int_eq(s.server.pid, server);
}
END_TEST

/* Processes are short for a moment: the server gives all to the one that comes after that. */
START_TEST(a_keeper_that_cannot_be_forked_is_tried_again)
{
    pid_t server = begin_and_serve(NULL);

    failing_forks = 2;
    kill(s.keeper.pid, SIGKILL);
    STEP_UNTIL(s.lease < 0);
    ck_assert_uint_ne(s.keeper_at_ns, 0);
    STEP_UNTIL(s.lease >= 0 && s.server.kept == s.lease_number);
    ck_assert_int_eq(s.server.pid, server);
    STEP_UNTIL(IS_WHOLE);
    ck_assert_uint_eq(s.keeper_at_ns, 0); /* nothing wakes it */
}
END_TEST

/* It is not tried for ever, and again after a reload. */
START_TEST(a_keeper_that_cannot_be_executed_is_done_without)
{
    set_up(NULL);
    ck_assert_int_eq(executable_open(&s.program, itself), 0);
    s.keeper_path = "/etc/passwd";
    supervisor_open_lease(&s);
    supervisor_advance(&s);
    STEP_UNTIL(s.lease < 0);
    ck_assert_int_eq(s.keeper.pid, 0);
    STEP_UNTIL(IS_WHOLE);
    s.keeper_path = itself;
    on_signal(&s, SIGHUP);
    ck_assert_int_ge(s.lease, 0);
    STEP_UNTIL(s.server.kept == s.lease_number);
    STEP_UNTIL(IS_WHOLE);
}
END_TEST

/* As one whose library or processor is broken. A kill is no failure of its own. */
START_TEST(a_keeper_that_crashes_is_done_without)
{
    set_up(NULL);
    ck_assert_int_eq(executable_open(&s.program, itself), 0);
    setenv("KEEPER_CRASHES", "1", 1);
    supervisor_open_lease(&s);
    supervisor_advance(&s);
    STEP_UNTIL(s.lease < 0);
    ck_assert_int_eq(s.keeper.pid, 0);
    unsetenv("KEEPER_CRASHES");
    STEP_UNTIL(IS_WHOLE);
    on_signal(&s, SIGHUP);
    STEP_UNTIL(s.server.kept == s.lease_number);
    STEP_UNTIL(IS_WHOLE);
}
END_TEST

/* A supervisor that finds server and keeper of before, and the keeper dead. */
START_TEST(a_new_keeper_follows_for_a_server_of_before)
{
    pid_t server = begin_and_serve("keeps-late"), keeper = s.keeper.pid;
    uint32_t lease;
    int status;

    become_another();
    kill(keeper, SIGKILL);
    STEP_UNTIL((lease = s.server.lease) != 0);
    STEP_UNTIL(s.standby.state == CHILD_PREPARED);
    /* Its death would be that of its sessions: the keeper does not have all yet. */
    ck_assert_int_eq(waitpid(server, &status, WNOHANG), 0);
    ck_assert(!s.server.killed);
    on_watchdog(&s);
    s.next_watchdog_ns = 0;
    STEP_UNTIL(s.server.kept == lease);
    STEP_UNTIL(IS_WHOLE && s.server.pid != 0);
    ck_assert_int_eq(waitpid(server, &status, 0), server);
    ck_assert_int_eq(status, SIGKILL);
}
END_TEST

/* The keeper dies as that supervisor begins, and the standby sees it first. */
START_TEST(a_keeper_that_does_not_answer_the_standby_is_followed)
{
    pid_t server = begin_and_serve("keeps-late"), keeper = s.keeper.pid;
    int status;

    become_another();
    set_word("finds-no-keeper");
    supervisor_advance(&s);
    STEP_UNTIL(s.standby.state == CHILD_PREPARED);
    ck_assert_int_ne(s.keeper.pid, keeper);
    ck_assert_uint_ne(s.server.lease, 0);
    ck_assert_int_eq(waitpid(server, &status, WNOHANG), 0);
    ck_assert(!s.server.killed); /* the new keeper has nothing yet */
    on_watchdog(&s);
    s.next_watchdog_ns = 0;
    STEP_UNTIL(IS_WHOLE && s.server.pid != 0);
    ck_assert_int_eq(waitpid(server, &status, 0), server);
    ck_assert_int_eq(status, SIGKILL);
}
END_TEST

/* Nobody has what its sessions need: it goes on until a reload finds a keeper, which gets all. */
START_TEST(a_server_of_an_earlier_supervisor_goes_on_without_a_keeper)
{
    pid_t server = begin_and_serve(NULL);
    int status;

    become_another();
    ready = 0;
    s.keeper_path = "/no/such/program";
    kill(s.keeper.pid, SIGKILL);
    STEP_UNTIL(s.standby.state == CHILD_PREPARED);
    ck_assert_int_lt(s.lease, 0);
    ck_assert_int_eq(waitpid(server, &status, WNOHANG), 0);
    ck_assert(!s.server.killed);
    ck_assert_uint_eq(ready, 1);
    s.keeper_path = itself;
    on_signal(&s, SIGHUP);
    STEP_UNTIL(IS_WHOLE && s.server.pid != 0);
    ck_assert_int_eq(waitpid(server, &status, 0), server);
    ck_assert_int_eq(status, SIGKILL);
}
END_TEST

START_TEST(a_server_that_answers_is_left_alone)
{
    pid_t server = begin_and_serve(NULL);

    for (int i = 0; i < 10; i++) {
        on_watchdog(&s);
        s.next_watchdog_ns = 0;
        STEP_UNTIL(s.server.unanswered == 0);
    }
    ck_assert_int_eq(s.server.pid, server);
}
END_TEST

START_TEST(a_server_that_does_not_answer_is_killed)
{
    pid_t server = begin_and_serve(NULL);

    kill(server, SIGSTOP);
    on_watchdog(&s);
    on_watchdog(&s);
    ck_assert(!s.server.killed);
    on_watchdog(&s);
    s.next_watchdog_ns = 0;
    STEP_UNTIL(s.server.pid != server && s.server.state == CHILD_GOING);
    ck_assert_uint_eq(s.cause, SUPERVISOR_HUNG);
    STEP_UNTIL(IS_WHOLE);
}
END_TEST

/* Killed for the next one, it takes its time to be gone: no fault of what it had in hand. */
START_TEST(a_server_that_was_killed_and_is_not_gone_does_not_hang)
{
    pid_t server = begin_and_serve(NULL);

    s.server.killed = true; /* as if the kernel had not come to its end */
    for (int i = 0; i < 10; i++)
        on_watchdog(&s);
    s.next_watchdog_ns = 0;
    ck_assert(!s.server.hung);
    kill(server, SIGKILL);
    STEP_UNTIL(s.server.pid != server && s.server.state == CHILD_GOING);
    ck_assert_uint_eq(s.cause, SUPERVISOR_KILLED);
    STEP_UNTIL(IS_WHOLE);
}
END_TEST

START_TEST(a_server_that_hangs_as_it_starts_is_killed)
{
    pid_t standby;

    begin(NULL);
    standby = s.standby.pid;
    kill(standby, SIGSTOP);
    on_deadline(&s.standby);
    STEP_UNTIL(s.standby.pid != standby || s.over);
    ck_assert(s.over); /* the first one: npud does not start */
}
END_TEST

/* --- upgrades --- */

/* A request of the server. */
static void ask_for_upgrade(void)
{
    int pair[2], was = s.server.socket;

    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    ck_assert_int_eq(supervisor_message_send(pair[1], SUPERVISOR_UPGRADE, 0, NULL, NULL, 0), 0);
    s.server.socket = pair[0];
    on_message(&s, &s.server);
    s.server.socket = was;
    close(pair[0]);
    close(pair[1]);
}

START_TEST(an_upgrade_replaces_the_server)
{
    pid_t server = begin_and_serve(NULL);
    int program = executable_fd(s.program);

    ask_for_upgrade();
    STEP_UNTIL(s.again);
    ck_assert_int_ne(s.server.pid, server);
    ck_assert_int_ne(executable_fd(s.program), program);
    ck_assert_ptr_eq(s.good_program, s.program);
    ck_assert_int_lt(fcntl(program, F_GETFD), 0);
    STEP_UNTIL(IS_WHOLE);
}
END_TEST

START_TEST(an_upgrade_is_refused)
{
    static const char *const why[] = {"cannot-read", "cannot-serve", "ends-at-once"};
    pid_t server = begin_and_serve(NULL), standby = s.standby.pid;
    unsigned fds = count_fds();

    for (size_t i = 0; i < sizeof(why) / sizeof(why[0]); i++) {
        set_word(why[i]);
        ask_for_upgrade();
        STEP_UNTIL(s.candidate.state == CHILD_NONE);
        ck_assert_int_eq(s.server.pid, server);
        ck_assert_int_eq(s.standby.pid, standby);
        ck_assert(!s.again && !s.upgrading && !s.replace);
        ck_assert_uint_eq(count_fds(), fds);
    }
    s.npud = "/no/such/program";
    ask_for_upgrade();
    ck_assert_int_eq(s.candidate.state, CHILD_NONE);
    ck_assert_uint_eq(count_fds(), fds);
}
END_TEST

/* What cannot be executed says nothing itself: its file and errno are told. */
START_TEST(an_upgrade_that_cannot_be_executed_is_refused_with_its_errno)
{
    static const char why[] = "/etc/passwd cannot be executed: Permission denied";
    pid_t server = begin_and_serve(NULL);

    s.npud = "/etc/passwd";
    ask_for_upgrade();
    STEP_UNTIL(s.candidate.state == CHILD_NONE);
    ck_assert_str_eq(refused, why);
    ck_assert_int_eq(s.server.pid, server);
}
END_TEST

/*
 * npuctl asks again when the server dies that it has asked. So another program may be the standby's
 * while the one that was asked for first recovers. Neither is closed that is in use, and in the end
 * all are closed but one.
 */
START_TEST(an_upgrade_that_is_asked_for_twice_leaves_a_program_to_start)
{
    pid_t server = begin_and_serve(NULL), first;
    unsigned fds = count_fds();

    ask_for_upgrade();
    STEP_UNTIL(s.replace);
    first = s.standby.pid;
    kill(first, SIGSTOP);
    STEP_UNTIL(s.server.pid == first);
    ask_for_upgrade();
    STEP_UNTIL(s.candidate.state == CHILD_NONE);
    ck_assert_int_ne(s.server.pid, server);
    ck_assert_ptr_ne(s.server.program, s.standby.program);
    kill(first, SIGCONT);
    STEP_UNTIL(s.again);
    ck_assert_int_ne(s.server.pid, first);
    STEP_UNTIL(IS_WHOLE);
    ck_assert_int_ge(fcntl(executable_fd(s.program), F_GETFD), 0);
    ck_assert_ptr_eq(s.server.program, s.program);
    ck_assert_ptr_eq(s.good_program, s.program);
    ck_assert_uint_eq(count_fds(), fds);
}
END_TEST

/* The server that has asked dies, and the next one asks again. It is not told of a refusal. */
START_TEST(an_upgrade_that_is_asked_for_again_as_it_starts_is_not_refused)
{
    pid_t candidate;

    begin_and_serve(NULL);
    refused[0] = '\0';
    ask_for_upgrade();
    candidate = s.candidate.pid;
    ask_for_upgrade();
    ck_assert_int_ne(s.candidate.pid, candidate);
    STEP_UNTIL(s.again);
    ck_assert_str_eq(refused, "");
}
END_TEST

/* It is the standby, and waits until a new keeper has what the server has. */
static pid_t begin_an_upgrade_that_waits(void)
{
    pid_t server = begin_and_serve("keeps-late");

    kill(s.keeper.pid, SIGKILL);
    STEP_UNTIL(s.server.lease != 0);
    STEP_UNTIL(IS_WHOLE);
    refused[0] = '\0';
    ask_for_upgrade();
    STEP_UNTIL(s.upgrading && IS_WHOLE);
    ck_assert_ptr_ne(s.standby.program, s.good_program);
    return server;
}

static void check_upgrade_is_given_up(pid_t server)
{
    ck_assert_str_ne(refused, "");
    ck_assert(!s.upgrading && !s.replace);
    ck_assert_ptr_eq(s.program, s.good_program);
    STEP_UNTIL(IS_WHOLE);
    ck_assert_ptr_eq(s.standby.program, s.good_program);
    ck_assert_int_eq(s.server.pid, server);
    ck_assert(!s.server.killed);
}

/* The server hears why, and the next `npuctl upgrade` is not one that waits for nothing. */
START_TEST(an_upgrade_that_loses_the_keeper_is_refused)
{
    /* The one cannot be opened, the other one fails three times. */
    static const char *const keepers[] = {"/no/such/program", "/etc/passwd"};
    pid_t server = begin_an_upgrade_that_waits();

    s.keeper_path = keepers[_i];
    kill(s.keeper.pid, SIGKILL);
    STEP_UNTIL(s.lease < 0);
    check_upgrade_is_given_up(server);
}
END_TEST

START_TEST(an_upgrade_that_can_be_started_once_is_refused)
{
    pid_t server = begin_an_upgrade_that_waits();

    no_start = _i == 1;
    set_word("ends-at-once");
    kill(s.standby.pid, SIGKILL);
    STEP_UNTIL(!s.upgrading || s.no_standby);
    no_start = false;
    set_word(NULL);
    on_watchdog(&s); /* something happens */
    s.next_watchdog_ns = 0;
    check_upgrade_is_given_up(server);
}
END_TEST

/* The supervisor is to be that of the program that was asked for, and not of one of before. */
START_TEST(a_server_that_follows_while_an_upgrade_is_made_ready_is_not_the_upgrade)
{
    pid_t server = begin_and_serve(NULL), standby = s.standby.pid;

    kill(standby, SIGSTOP);
    kill(server, SIGKILL);
    STEP_UNTIL(s.server.pid == standby);
    ask_for_upgrade();
    STEP_UNTIL(s.standby.state == CHILD_PREPARED); /* the candidate */
    kill(standby, SIGCONT);
    STEP_UNTIL(s.server.state == CHILD_SERVING);
    ck_assert_int_eq(s.server.pid, standby);
    ck_assert(!s.again && s.upgrading);
    STEP_UNTIL(s.again);
    ck_assert_int_ne(s.server.pid, standby);
}
END_TEST

/* What a supervisor does that was executed again: its server and its keeper are there. */
static int be_supervisor_again(void)
{
    pid_t server, keeper;

    alarm(300);
    signal(SIGPIPE, SIG_IGN);
    set_up(NULL);
    if (!supervisor_is_again(&s) || getenv("NPUD_SUPERVISOR_STATE"))
        return 2;
    executable_set(&s.program, s.server.program);
    executable_set(&s.good_program, s.server.program);
    server = s.server.pid;
    keeper = s.keeper.pid;
    supervisor_advance(&s);
    while (s.standby.state != CHILD_PREPARED)
        supervisor_step(&s);
    if (s.server.pid != server)
        return 3;
    kill(keeper, SIGKILL);
    while (s.server.lease == 0)
        supervisor_step(&s);
    kill(server, SIGKILL);
    while (s.server.pid == server || !IS_WHOLE)
        supervisor_step(&s);
    on_signal(&s, SIGTERM);
    while (!s.over)
        supervisor_step(&s);
    end_all();
    return s.status;
}

START_TEST(the_supervisor_follows_the_upgrade)
{
    int status;
    pid_t pid = fork();

    if (pid == 0) {
        char *argv[] = {"npud-supervisor", "--again", NULL};

        begin_and_serve(NULL);
        ask_for_upgrade();
        STEP_UNTIL(s.again);
        STEP_UNTIL(s.server.state == CHILD_SERVING);
        s.argv = argv;
        supervisor_execute_again(&s);
        _exit(1);
    }
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_int_eq(status, 0);
}
END_TEST

/*
 * Ends are handled first: that the upgrade serves is among the last words of a server that is dead.
 * A supervisor that is executed again then would wait for a server that is not there.
 */
START_TEST(the_supervisor_follows_an_upgrade_when_it_has_a_server)
{
    pid_t server = begin_and_serve(NULL), standby;
    struct pollfd p = {.events = POLLIN};
    char *argv[] = {"npud-supervisor", NULL};
    siginfo_t info;

    ask_for_upgrade();
    STEP_UNTIL(s.server.pid != server && s.server.state == CHILD_GOING);
    p.fd = s.server.socket;
    ck_assert_int_eq(poll(&p, 1, -1), 1); /* it serves */
    kill(s.server.pid, SIGKILL);
    ck_assert_int_eq(waitid(P_PID, (id_t)s.server.pid, &info, WEXITED | WNOWAIT), 0);
    STEP_UNTIL(s.again);
    ck_assert_int_eq(s.server.state, CHILD_NONE);
    standby = s.standby.pid;
    s.self = "/no/such/program";
    s.argv = argv;
    supervisor_execute_again(&s);
    ck_assert_int_eq(s.standby.pid, standby);
    STEP_UNTIL(s.server.state == CHILD_SERVING);
    s.server.killed = true; /* for the next upgrade */
    supervisor_execute_again(&s);
    ck_assert(s.again);
    s.server.killed = false;
    supervisor_execute_again(&s);
    ck_assert(!s.again);
}
END_TEST

/* As the supervisor of npud 0.9.0 has left it that was executed again without a server. */
START_TEST(a_supervisor_that_is_left_no_server_starts_one)
{
    set_up(NULL);
    setenv("NPUD_SUPERVISOR_STATE",
           "lease -1 keeper 0 -1 server 0 -1 -1 -1 program -1 control -1 admin -1 number 0", 1);
    ck_assert(supervisor_is_again(&s));
    ck_assert_ptr_null(s.server.program);
    ck_assert_int_eq(s.server.state, CHILD_NONE);
    ck_assert_int_eq(executable_open(&s.program, itself), 0);
    supervisor_open_lease(&s);
    supervisor_advance(&s);
    STEP_UNTIL(IS_WHOLE);
}
END_TEST

START_TEST(a_supervisor_that_is_not_there_stays)
{
    pid_t server = begin_and_serve(NULL);
    char *argv[] = {"npud-supervisor", NULL};

    s.self = "/no/such/program";
    s.argv = argv;
    supervisor_execute_again(&s);
    ck_assert_ptr_null(getenv("NPUD_SUPERVISOR_STATE"));
    ck_assert_int_eq(fcntl(s.server.socket, F_GETFD), FD_CLOEXEC);
    ck_assert_int_eq(s.standby.state, CHILD_STARTED); /* nothing else may happen for long */
    STEP_UNTIL(IS_WHOLE);
    ck_assert_int_eq(s.server.pid, server);
}
END_TEST

/*
 * The program that cannot recover is a file of its own. As often as somebody asks for it: none of
 * that is a failure of the program that serves, which would begin anew at the third.
 */
START_TEST(what_does_not_recover_is_rolled_back)
{
    static char bad[] = "/tmp/npud-test-bad-XXXXXX"; /* s keeps it */
    char command[1024];
    struct executable *good;
    int fd;

    begin_and_serve(NULL);
    good = s.good_program;
    fd = mkstemp(bad);
    ck_assert_int_ge(fd, 0);
    close(fd);
    snprintf(command, sizeof(command), "cp '%s' '%s' && chmod 700 '%s'", itself, bad, bad);
    ck_assert_int_eq(system(command), 0);
    s.npud = bad;
    for (int i = 0; i < 4; i++) {
        pid_t server = s.server.pid;

        ask_for_upgrade();
        STEP_UNTIL(s.server.pid != server && s.server.state == CHILD_GOING);
        ck_assert_ptr_ne(s.program, s.good_program);
        if (i == 3)
            unlink(bad); /* as if it was replaced once more */
        STEP_UNTIL((ck_assert(!(s.cause & SUPERVISOR_CLEAN)), IS_WHOLE));
        ck_assert_ptr_eq(s.program, good);
        ck_assert_ptr_eq(s.good_program, good);
        ck_assert(!s.again && !s.upgrading);
    }
}
END_TEST

/* --- attempts --- */

START_TEST(the_third_within_a_minute_counts)
{
    const uint64_t minute = 60 * NSEC_PER_SEC;
    struct attempts a = {{0}};

    ck_assert(!attempts_failed(&a, minute));
    ck_assert(!attempts_failed(&a, minute + 1));
    ck_assert(attempts_failed(&a, 2 * minute));
    ck_assert(!attempts_failed(&a, 2 * minute + 1));
    ck_assert(!attempts_failed(&a, 2 * minute + 2));
    ck_assert(!attempts_failed(&a, 3 * minute + 2));
    ck_assert(!attempts_failed(&a, 4 * minute));
    ck_assert(attempts_failed(&a, 4 * minute + 1));
}
END_TEST

int main(int argc, char **argv)
{
    Suite *suite = suite_create("supervisor");
    TCase *t;

    if (argc > 1)
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* a test that fails leaves nothing */
    if (argc > 1 && strcmp(argv[1], "--server") == 0)
        return be_server(argv);
    if (argc > 1 && strcmp(argv[1], "--lease-fd=3") == 0)
        return be_keeper();
    log_setup(LOG_ALERT);
    if (argc > 1 && strcmp(argv[1], "--again") == 0)
        return be_supervisor_again();
    signal(SIGPIPE, SIG_IGN);
    t = suite_case(suite, "servers", 60, NULL, end_all);
    tcase_add_test(t, a_standby_waits_beside_the_server);
    tcase_add_test(t, the_standby_follows);
    tcase_add_test(t, a_cause_outlives_a_kill);
    tcase_add_test(t, a_recovery_that_fails_leaves_the_cause);
    tcase_add_test(t, the_standby_is_replaced);
    tcase_add_test(t, both_are_replaced);
    tcase_add_test(t, three_failed_recoveries_start_anew);
    tcase_add_loop_test(t, five_failed_beginnings_end_npud, 0, 2);
    tcase_add_test(t, failed_beginnings_count_in_a_row);
    tcase_add_test(t, what_fails_hangs_up_on_clients_that_wait);
    tcase_add_test(t, what_ends_at_its_start_ends_all);
    tcase_add_test(t, what_is_dead_before_it_is_told_to_start_is_replaced);
    tcase_add_test(t, a_standby_that_cannot_start_is_not_tried_for_ever);
    tcase_add_test(t, a_standby_that_cannot_be_forked_is_tried_again);
    tcase_add_test(t, a_standby_that_cannot_be_forked_is_not_tried_for_ever);
    tcase_add_test(t, a_standby_that_cannot_be_forked_beside_a_server_is_tried_again);
    tcase_add_test(t, a_first_server_that_cannot_be_forked_ends_all);
    tcase_add_test(t, a_signal_ends_the_server_in_order);
    tcase_add_test(t, a_server_that_is_dead_at_the_end_is_followed);
    tcase_add_test(t, a_server_that_crashes_at_the_end_is_not_followed);
    tcase_add_test(t, a_first_server_that_is_killed_is_not_the_first_any_more);
    tcase_add_test(t, what_has_let_no_server_go_ends_at_once);
    tcase_add_test(t, with_a_store_the_server_is_left_alone);
    tcase_add_test(t, a_server_of_an_earlier_supervisor_is_replaced);
    tcase_add_test(t, a_server_of_an_earlier_supervisor_goes_on);
    tcase_add_test(t, a_reload_renews_the_standby);
    t = suite_case(suite, "keeper, watchdog", 60, NULL, end_all);
    tcase_add_test(t, a_new_keeper_follows);
    tcase_add_test(t, a_keeper_that_cannot_be_forked_is_tried_again);
    tcase_add_test(t, a_keeper_that_cannot_be_executed_is_done_without);
    tcase_add_test(t, a_keeper_that_crashes_is_done_without);
    tcase_add_test(t, a_new_keeper_follows_for_a_server_of_before);
    tcase_add_test(t, a_keeper_that_does_not_answer_the_standby_is_followed);
    tcase_add_test(t, a_server_of_an_earlier_supervisor_goes_on_without_a_keeper);
    tcase_add_test(t, a_server_that_answers_is_left_alone);
    tcase_add_test(t, a_server_that_does_not_answer_is_killed);
    tcase_add_test(t, a_server_that_was_killed_and_is_not_gone_does_not_hang);
    tcase_add_test(t, a_server_that_hangs_as_it_starts_is_killed);
    t = suite_case(suite, "upgrade", 60, NULL, end_all);
    tcase_add_test(t, an_upgrade_replaces_the_server);
    tcase_add_test(t, an_upgrade_is_refused);
    tcase_add_test(t, an_upgrade_that_cannot_be_executed_is_refused_with_its_errno);
    tcase_add_test(t, an_upgrade_that_is_asked_for_twice_leaves_a_program_to_start);
    tcase_add_test(t, an_upgrade_that_is_asked_for_again_as_it_starts_is_not_refused);
    tcase_add_loop_test(t, an_upgrade_that_loses_the_keeper_is_refused, 0, 2);
    tcase_add_loop_test(t, an_upgrade_that_can_be_started_once_is_refused, 0, 2);
    tcase_add_test(t, a_server_that_follows_while_an_upgrade_is_made_ready_is_not_the_upgrade);
    tcase_add_test(t, the_supervisor_follows_the_upgrade);
    tcase_add_test(t, the_supervisor_follows_an_upgrade_when_it_has_a_server);
    tcase_add_test(t, a_supervisor_that_is_left_no_server_starts_one);
    tcase_add_test(t, a_supervisor_that_is_not_there_stays);
    tcase_add_test(t, what_does_not_recover_is_rolled_back);
    t = suite_case(suite, "attempts", 0, NULL, NULL);
    tcase_add_test(t, the_third_within_a_minute_counts);
    return run_suite(suite);
}
