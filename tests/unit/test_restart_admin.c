/*
 * Commands of administrators across restarts: npuctl sends one again when npud was killed before it
 * had answered, and it is carried out once.
 *
 * Skipped under TSan: an npud that is killed leaves its locks as they are.
 */
#include "restart.h"

#include <sys/socket.h>

#include "daemon/admin/admin.h"
#include "daemon/admin/commands.h"
#include "daemon/engine/inject.h"
#include "proto/wire/npud.pb-c.h"
#include "proto/wire/packet.h"
#include "requester.h"

static const char *const settings[] = {"sim.devices=1", NULL};

static void begin(void)
{
    restart_start(settings);
}

static int connect_npuctl(void)
{
    int pair[2];

    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, pair), 0);
    admin_accept(&server, pair[1]);
    return pair[0];
}

static Npud__AdminRequest command(uint64_t token)
{
    Npud__AdminRequest request = NPUD__ADMIN_REQUEST__INIT;

    request.id = 1;
    request.protocol = PROTOCOL;
    request.token = token;
    return request;
}

static void send_command(int fd, Npud__AdminRequest *request)
{
    ck_assert_int_eq(packet_send_message(fd, &request->base, NULL, 0, 0), 0);
    npud_turn();
}

/* What it answers: freed with the next one. NULL: nothing. */
static const Npud__AdminReply *read_reply(int fd)
{
    static Npud__AdminReply *reply;

    if (reply)
        npud__admin_reply__free_unpacked(reply, NULL);
    reply = packet_recv(fd, &packet, MSG_DONTWAIT) == 1
                ? npud__admin_reply__unpack(NULL, packet.size, packet.data)
                : NULL;
    packet_deinit(&packet);
    return reply;
}

/* Of a npuctl of its own. */
static const Npud__AdminReply *tell(Npud__AdminRequest *request)
{
    int fd = connect_npuctl();
    const Npud__AdminReply *reply;

    send_command(fd, request);
    reply = read_reply(fd);
    close(fd);
    npud_turn();
    ck_assert_ptr_nonnull(reply);
    return reply;
}

static void end(void)
{
    Npud__AdminRequest all = command(1);

    all.clear_rules = true;
    tell(&all);
    restart_stop();
}

static Npud__AdminRequest rule_command(uint64_t token)
{
    static Npud__Inject rule = NPUD__INJECT__INIT;
    Npud__AdminRequest request = command(token);

    rule.device = rule.stream = -1;
    rule.code = 507000;
    request.inject = &rule;
    return request;
}

/* --- once --- */

START_TEST(a_rule_is_set_once)
{
    Npud__AdminRequest first = rule_command(71), other = rule_command(72);
    uint64_t rule = tell(&first)->rule;
    uint32_t n;

    ck_assert_uint_ne(rule, 0);
    ck_assert_uint_eq(server.inject->n, 1);
    ck_assert_uint_eq(tell(&first)->rule, rule);
    ck_assert_uint_eq(server.inject->n, 1);
    restart_npud();
    n = server.inject->n;
    ck_assert_uint_eq(tell(&first)->rule, rule);
    ck_assert_uint_eq(server.inject->n, n);
    ck_assert_uint_gt(tell(&other)->rule, rule);
    ck_assert_uint_eq(server.inject->n, n + 1);
}
END_TEST

START_TEST(a_rule_is_cleared_once)
{
    Npud__AdminRequest set = rule_command(81), clear = command(82), again = command(83);

    clear.clear_rule = again.clear_rule = tell(&set)->rule;
    ck_assert_int_eq(tell(&clear)->error, 0);
    ck_assert_uint_eq(server.inject->n, 0);
    restart_npud();
    ck_assert_int_eq(tell(&clear)->error, 0);
    ck_assert_int_ne(tell(&again)->error, 0);
}
END_TEST

/* A rule that was set after the command is not for it. */
START_TEST(all_rules_are_cleared_once)
{
    Npud__AdminRequest clear = command(91), set = rule_command(92);

    clear.clear_rules = true;
    ck_assert_int_eq(tell(&clear)->error, 0);
    restart_npud();
    tell(&set);
    ck_assert_int_eq(tell(&clear)->error, 0);
    ck_assert_uint_eq(server.inject->n, 1);
}
END_TEST

START_TEST(a_session_is_killed_once)
{
    struct session *session = npud_session(1);
    Npud__AdminRequest first = command(101), other = command(102);

    first.end_session = other.end_session = session->id;
    ck_assert_int_eq(tell(&first)->error, 0);
    npud_turn();
    ck_assert_uint_eq(server.n_sessions, 0);
    ck_assert_int_eq(tell(&first)->error, 0);
    ck_assert_int_ne(tell(&other)->error, 0);
    restart_npud();
    ck_assert_int_eq(tell(&first)->error, 0);
    ck_assert_int_ne(tell(&other)->error, 0);
}
END_TEST

/* One that was refused has changed nothing: it may succeed when it is sent again. */
START_TEST(what_was_refused_is_not_remembered)
{
    Npud__AdminRequest kill = command(111);
    struct session *session;

    kill.end_session = server.last->session + 1;
    ck_assert_int_ne(tell(&kill)->error, 0);
    session = npud_session(1);
    ck_assert_uint_eq(session->id, kill.end_session);
    ck_assert_int_eq(tell(&kill)->error, 0);
    npud_turn();
    ck_assert_uint_eq(server.n_sessions, 0);
}
END_TEST

START_TEST(a_command_without_token_is_carried_out_each_time)
{
    Npud__AdminRequest set = rule_command(0);

    tell(&set);
    tell(&set);
    ck_assert_uint_eq(server.inject->n, 2);
}
END_TEST

START_TEST(the_oldest_command_is_forgotten_first)
{
    Npud__AdminRequest clear = command(0);

    clear.clear_rules = true;
    for (uint64_t token = 1; token <= COMMANDS_MAX + 1; token++) {
        clear.token = token;
        tell(&clear);
    }
    restart_npud();
    ck_assert_ptr_null(commands_find(&server, geteuid(), 1));
    for (uint64_t token = 2; token <= COMMANDS_MAX + 1; token++)
        ck_assert_ptr_nonnull(commands_find(&server, geteuid(), token));
    ck_assert_ptr_null(commands_find(&server, geteuid() + 1, 2));
}
END_TEST

/* --- npud ends at each place of a command --- */

static void send_it(void *command)
{
    int fd = connect_npuctl();

    send_command(fd, command);
    close(fd);
}

/* Tokens of all passes: each is a command of its own. */
static bool end_session_at(enum kill_place place, unsigned pass)
{
    int ended = open_as(1000), other = open_as(1000);
    Npud__AdminRequest kill = command(1000 + place * 100 + pass);
    bool killed;

    kill.end_session = server.last->session - 1;
    killed = restart_kill(place, pass, send_it, &kill);
    ck_assert_msg(tell(&kill)->error == 0, "place %u, pass %u", place, pass);
    npud_turn();
    ck_assert_uint_eq(server.n_sessions, 1);
    ck_assert_uint_eq(server.sessions->id, kill.end_session + 1);
    ck_assert_int_eq(tell(&kill)->error, 0);
    close(ended);
    close(other);
    npud_turn();
    ck_assert_uint_eq(server.n_sessions, 0);
    return killed;
}

START_TEST(a_session_is_killed_once_wherever_npud_ends)
{
    unsigned deaths = 0;

    for (unsigned place = 0; place < KILL_PLACE_COUNT; place++)
        for (unsigned pass = 1; end_session_at((enum kill_place)place, pass); pass++)
            deaths++;
#ifdef NPUD_KILL_POINTS
    ck_assert_uint_ge(deaths, 8);
#endif
}
END_TEST

/* --- upgrade --- */

static unsigned asked;

static bool take_request(void)
{
    asked++;
    return true;
}

static Npud__AdminRequest upgrade(uint64_t token)
{
    Npud__AdminRequest request = command(token);

    request.upgrade = true;
    return request;
}

START_TEST(without_a_supervisor_there_is_no_upgrade)
{
    Npud__AdminRequest request = upgrade(1);

    admin_request_upgrade = NULL;
    ck_assert_ptr_nonnull(strstr(tell(&request)->message, "npud-supervisor"));
}
END_TEST

/* The next npud answers, and this one does only when it stays. */
START_TEST(the_next_npud_answers_an_upgrade)
{
    Npud__AdminRequest request = upgrade(2), other = upgrade(3);
    int fd[2];

    admin_request_upgrade = take_request;
    fd[0] = connect_npuctl();
    send_command(fd[0], &request);
    fd[1] = connect_npuctl();
    send_command(fd[1], &other);
    ck_assert_uint_eq(asked, 1);
    ck_assert_ptr_null(read_reply(fd[0]));
    ck_assert_ptr_null(read_reply(fd[1]));
    restart_npud();
    for (int i = 0; i < 2; i++) {
        const Npud__AdminReply *reply = tell(i == 0 ? &request : &other);

        ck_assert_int_eq(reply->error, 0);
        ck_assert_str_eq(reply->version, NPUD_VERSION);
        ck_assert_int_eq(reply->pid, getpid());
    }
    ck_assert_uint_eq(asked, 1);
}
END_TEST

START_TEST(all_who_asked_hear_of_a_refused_upgrade)
{
    Npud__AdminRequest request = upgrade(4);
    int fd[2];

    admin_request_upgrade = take_request;
    for (int i = 0; i < 2; i++) {
        fd[i] = connect_npuctl();
        send_command(fd[i], &request);
    }
    admin_refuse_upgrade(&server, "it is too old");
    for (int i = 0; i < 2; i++) {
        const Npud__AdminReply *reply = read_reply(fd[i]);

        ck_assert_ptr_nonnull(reply);
        ck_assert_int_eq(reply->error, 207005);
        ck_assert_ptr_nonnull(strstr(reply->message, "it is too old"));
    }
    send_command(fd[0], &request); /* and again */
    ck_assert_uint_eq(asked, 2);
    admin_refuse_upgrade(&server, "still");
    ck_assert_ptr_nonnull(strstr(read_reply(fd[0])->message, "still"));
    close(fd[0]);
    close(fd[1]);
    npud_turn();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("restart: administrators");
    TCase *tcase = suite_case(suite, "commands", 0, begin, end);

    tcase_add_test(tcase, a_rule_is_set_once);
    tcase_add_test(tcase, a_rule_is_cleared_once);
    tcase_add_test(tcase, all_rules_are_cleared_once);
    tcase_add_test(tcase, a_session_is_killed_once);
    tcase_add_test(tcase, what_was_refused_is_not_remembered);
    tcase_add_test(tcase, a_command_without_token_is_carried_out_each_time);
    tcase_add_test(tcase, the_oldest_command_is_forgotten_first);
    tcase_add_test(suite_case(suite, "places", 120, begin, end),
                   a_session_is_killed_once_wherever_npud_ends);
    tcase = suite_case(suite, "upgrade", 0, begin, end);
    tcase_add_test(tcase, without_a_supervisor_there_is_no_upgrade);
    tcase_add_test(tcase, the_next_npud_answers_an_upgrade);
    tcase_add_test(tcase, all_who_asked_hear_of_a_refused_upgrade);
    return run_suite(suite);
}
