/*
 * daemon/server_role: a standby asks its keeper before it says that it is ready, and a server that
 * cannot take over says why. The supervisor is the test, and so is the keeper.
 */
#include "daemon/server_role.h"

#include <errno.h>
#include <event2/event.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/base/keeper_link.h"
#include "daemon/base/keeper_message.h"
#include "daemon/base/log.h"
#include "daemon/base/memfd.h"
#include "daemon/base/options.h"
#include "daemon/core/server.h"
#include "daemon/kept/kept.h"
#include "unit.h"

static int supervisor = -1; /* the test's end */
static int log_file = -1;

static void pair_new(int pair[2])
{
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
}

/* --- the keeper --- */

/* Answers each question with what it has: nothing. */
static void *be_keeper(void *arg)
{
    int lease = *(int *)arg, fds[FD_MESSAGE_FDS];
    struct keeper_message m;
    size_t n;

    while (fd_message_receive(lease, &m, sizeof(m), fds, &n, 0) > 0) {
        if (m.operation == KEEPER_FETCH) {
            m = (struct keeper_message){.operation = KEEPER_END, .version = KEEPER_VERSION};
            fd_message_send(fds[0], &m, KEEPER_HEADER, NULL, 0, 0);
        }
        while (n > 0)
            close(fds[--n]);
    }
    return NULL;
}

/* The lease to one that lives as long as the test, or until npud leaves it. */
static int keeper_start(void)
{
    static int its_end[2];
    static unsigned n;
    int pair[2];

    pair_new(pair);
    its_end[n] = pair[1];
    pthread_detach(start_thread(be_keeper, &its_end[n++]));
    return pair[0];
}

static int keeper_dead(void)
{
    int pair[2];

    pair_new(pair);
    close(pair[1]);
    return pair[0];
}

/* --- the supervisor --- */

static void say(enum supervisor_operation operation, uint32_t value, const int *fds, size_t n)
{
    ck_assert_int_eq(supervisor_message_send(supervisor, operation, value, NULL, fds, n), 0);
}

static void expect_message(enum supervisor_operation operation, uint32_t value)
{
    struct supervisor_message m;
    size_t n;

    ck_assert_int_eq(supervisor_message_receive(supervisor, &m, NULL, 0, &n, MSG_DONTWAIT), 1);
    ck_assert_uint_eq(m.operation, operation);
    ck_assert_uint_eq(m.value, value);
}

/* A standby that has this lease, and no line in the log yet. */
static void begin(int lease)
{
    struct options options = {.server = true};
    int pair[2], life[2];

    pair_new(pair);
    pair_new(life);
    supervisor = pair[0];
    options.supervisor_fd = pair[1];
    say(SUPERVISOR_START, SUPERVISOR_FD_LEASE | SUPERVISOR_FD_LIFE, (int[]){lease, life[1]}, 2);
    ck_assert_int_eq(server_role_begin(&options), 0);
    close(lease); /* the supervisor's own */
    log_file = memfd_new_empty("log");
    ck_assert_int_ge(dup2(log_file, STDERR_FILENO), 0);
    log_setup(LOG_ERR);
}

/* One line, which has these words; NULL: none. */
static void expect_line(const char *words)
{
    char text[4096];
    ssize_t n = pread(log_file, text, sizeof(text) - 1, 0);

    text[n < 0 ? 0 : n] = '\0';
    if (!words) {
        ck_assert_str_eq(text, "");
        return;
    }
    ck_assert_msg(strstr(text, words), "not \"%s\" in: %s", words, text);
    ck_assert_ptr_eq(strchr(text, '\n'), text + n - 1);
}

START_TEST(a_keeper_that_lives_is_not_mentioned)
{
    bool restore;

    begin(keeper_start());
    say(SUPERVISOR_GO, SUPERVISOR_FIRST, NULL, 0);
    ck_assert_int_eq(server_role_await_go(true), 1);
    expect_message(SUPERVISOR_PREPARED, 0);
    ck_assert_int_eq(server_role_begin_tables(&restore), 0);
    ck_assert(!restore);
    expect_line(NULL);
    kept_end();
}
END_TEST

/* PREPARED may be the end of the server that serves: another keeper must have all before that. */
START_TEST(a_keeper_that_has_died_is_reported_first)
{
    const int lease = keeper_start();

    begin(keeper_dead());
    say(SUPERVISOR_LEASE, 7, &lease, 1);
    say(SUPERVISOR_GO, SUPERVISOR_KILLED, NULL, 0);
    ck_assert_int_eq(server_role_await_go(false), 1);
    expect_message(SUPERVISOR_LOST, 0);
    expect_message(SUPERVISOR_CANNOT, 0);
    expect_line(NULL);
}
END_TEST

static int lease_before;

static void keeper_follows(void *arg)
{
    *(unsigned *)arg += 1;
    ck_assert_int_eq(keeper_link_fd(), lease_before); /* the next one has nothing yet */
}

/* What npud has closed is to be over before another keeper gets what it has open. */
START_TEST(npud_hears_of_another_keeper_first)
{
    unsigned heard = 0;
    const struct server_role_calls calls = {.keeper_follows = keeper_follows, .arg = &heard};
    struct server server = {.base = event_base_new()};
    const int lease = keeper_start();

    begin(keeper_start());
    lease_before = keeper_link_fd();
    ck_assert_int_eq(server_role_attach(&server, &calls), 0);
    say(SUPERVISOR_LEASE, 7, &lease, 1);
    ck_assert_int_eq(event_base_loop(server.base, EVLOOP_ONCE), 0);
    ck_assert_uint_eq(heard, 1);
    expect_message(SUPERVISOR_KEPT, 7);
    event_base_free(server.base);
}
END_TEST

START_TEST(what_is_not_needed_ends_without_a_word)
{
    begin(keeper_start());
    shutdown(supervisor, SHUT_WR);
    ck_assert_int_eq(server_role_await_go(true), 0);
    expect_line(NULL);
}
END_TEST

/* Nobody else could say why it has ended. */
START_TEST(a_keeper_that_dies_is_the_reason)
{
    bool restore;

    begin(keeper_dead());
    say(SUPERVISOR_GO, SUPERVISOR_KILLED, NULL, 0);
    if (_i == 0) {
        ck_assert_int_eq(server_role_await_go(true), -EPIPE);
        expect_line("the keeper does not say whether there was a server before this one");
        return;
    }
    ck_assert_int_eq(server_role_begin_tables(&restore), -EPIPE);
    expect_line("descriptors of the npud before cannot be fetched from the keeper: Broken pipe");
}
END_TEST

START_TEST(a_keeper_without_tables_is_the_end_of_sessions)
{
    bool restore;

    begin(keeper_start());
    say(SUPERVISOR_GO, SUPERVISOR_KILLED, NULL, 0);
    ck_assert_int_eq(server_role_await_go(true), 1);
    ck_assert_int_eq(server_role_begin_tables(&restore), 0);
    ck_assert(!restore);
    expect_line("the keeper does not have the tables of the npud before");
    kept_end();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("server role");
    TCase *t = suite_case(suite, "keeper", 0, NULL, NULL);

    tcase_add_test(t, a_keeper_that_lives_is_not_mentioned);
    tcase_add_test(t, a_keeper_that_has_died_is_reported_first);
    tcase_add_test(t, npud_hears_of_another_keeper_first);
    tcase_add_test(t, what_is_not_needed_ends_without_a_word);
    tcase_add_loop_test(t, a_keeper_that_dies_is_the_reason, 0, 2);
    tcase_add_test(t, a_keeper_without_tables_is_the_end_of_sessions);
    return run_suite(suite);
}
