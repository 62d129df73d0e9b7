/*
 * Clients that come when there is no descriptor for them (daemon/control/listener, session_life):
 * they wait until npud has looked at all that may be free, and are refused only then. The clients
 * are the test itself.
 */
#include "lack.h"
#include "npud.h"

#include <fcntl.h>
#include <sys/un.h>

#include "acl/acl_base.h"
#include "daemon/base/subuid.h"
#include "daemon/control/arrival.h"
#include "daemon/control/listener.h"
#include "daemon/control/session_hear.h"
#include "requester.h"

#define USER  7001u
#define OTHER 7002u

enum last { LAST_IS_FREE, LAST_IS_USED };

/* A session of a user whose segments take long to look at. */
static struct session *begin_with_segments(enum last last)
{
    struct session *keeper;

    npud_start(NULL);
    keeper = npud_session_of(USER, 1);
    add_used_segments(keeper);
    /* A session takes three descriptors, and a segment has two. */
    for (int i = 0; i < 2; i++) {
        struct segment *s = add_segment(keeper, STRIDE, COUNT);

        if (last == LAST_IS_USED)
            use_last_slot(s, keeper);
    }
    return keeper;
}

static void end_with_segments(struct session *keeper)
{
    npud_turn();
    session_free(keeper);
    npud_turn();
    npud_stop();
}

/* --- the user has none left --- */

/* Guards against a refusal after as much of a look as fits in one step. */
START_TEST(a_session_waits_for_descriptors_of_its_user)
{
    struct session *keeper = begin_with_segments((enum last)_i);
    unsigned rounds, other_rounds;
    uint64_t used;
    int comes, other;

    other = open_as(OTHER);
    config.limit[RESOURCE_FDS] = used = user_used(keeper->user, RESOURCE_FDS);
    comes = connect_as(USER);
    ck_assert_uint_eq(server.n_sessions, 3);
    ask_mem_info(other);
    put_hello(comes);
    ck_assert_int_eq(count_rounds(other, &other_rounds), 0);
    ck_assert_int_eq(count_rounds(comes, &rounds),
                     _i == LAST_IS_USED ? ACL_ERROR_RT_OVER_LIMIT : 0);
    ck_assert_uint_gt(rounds, other_rounds);
    ck_assert_uint_le(user_used(keeper->user, RESOURCE_FDS), used);
    npud_turn();
    ck_assert_uint_eq(server.n_sessions, _i == LAST_IS_USED ? 2u : 3u);
    close(comes);
    close(other);
    end_with_segments(keeper);
}
END_TEST

START_TEST(a_client_leaves_while_it_waits)
{
    struct session *keeper = begin_with_segments(LAST_IS_USED);
    int comes;

    config.limit[RESOURCE_FDS] = user_used(keeper->user, RESOURCE_FDS);
    comes = connect_as(USER);
    ck_assert_ptr_nonnull(server.sessions->next->held);
    session_end(server.sessions->next);
    npud_turn();
    ck_assert_uint_eq(server.n_sessions, 1);
    close(comes);
    end_with_segments(keeper);
}
END_TEST

/* --- npud has none left --- */

static struct sockaddr_un address;
static int client[2]; /* sockets, not connected yet */

static void accept_one(struct server *of, int socket)
{
    session_new(of, socket);
}

static void begin_to_listen(void)
{
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    address.sun_family = AF_UNIX;
    snprintf(address.sun_path + 1, sizeof(address.sun_path) - 1, "npud-test-arrival-%d", getpid());
    ck_assert_int_eq(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    ck_assert_int_eq(listen(fd, 8), 0);
    ck_assert_int_eq(listener_init(server.clients, &server, fd, accept_one), 0);
    for (int i = 0; i < 2; i++)
        client[i] = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
}

static void connect_client(int i)
{
    ck_assert_int_eq(connect(client[i], (struct sockaddr *)&address, sizeof(address)), 0);
}

static void end_listening(void)
{
    limit_descriptors(-1);
    listener_deinit(server.clients);
    for (int i = 0; i < 2; i++)
        close(client[i]);
}

static void come_in_vain(void)
{
    size_t n;

    connect_client(0);
    ck_assert_int_eq(await_answer(client[0], &n), ACL_ERROR_RT_RESOURCE_ALLOC_FAIL);
    ck_assert(server.clients->exhausted);
}

/* systemd makes a socket blocking that it passes once more: npud does not wait in accept4(). */
START_TEST(a_socket_that_blocks_holds_up_nothing)
{
    npud_start(NULL);
    server.clients->takes_many = true;
    begin_to_listen();
    ck_assert_int_eq(fcntl(server.clients->fd, F_SETFL, 0), 0);
    for (int i = 0; i < 2; i++) {
        connect_client(i);
        AWAIT((schedule_round(&server.schedule, server.base, false),
               server.n_sessions == (unsigned)i + 1));
    }
    end_listening();
}
END_TEST

/* Others are answered meanwhile. */
START_TEST(a_client_waits_for_descriptors_of_npud)
{
    struct session *keeper = begin_with_segments((enum last)_i);
    unsigned rounds;
    int other;

    begin_to_listen();
    other = open_as(OTHER);
    limit_descriptors(lowest_free());
    connect_client(0);
    AWAIT((schedule_round(&server.schedule, server.base, false), server.clients->search.listed));
    ask_mem_info(other);
    ck_assert_int_eq(count_rounds(other, &rounds), 0);
    ck_assert_uint_eq(server.n_sessions, 2);
    ck_assert(!server.clients->exhausted);
    AWAIT((schedule_round(&server.schedule, server.base, true),
           server.clients->exhausted || server.n_sessions == 3));
    ck_assert(server.clients->exhausted == (_i == LAST_IS_USED));
    if (_i == LAST_IS_USED)
        ck_assert_int_eq(count_rounds(client[0], &rounds), ACL_ERROR_RT_RESOURCE_ALLOC_FAIL);
    end_listening();
    close(other);
    end_with_segments(keeper);
}
END_TEST

/* One is left, for the socket: the one for the pidfd was held, and the next client finds none. */
START_TEST(a_pidfd_has_its_place)
{
    int hole;

    npud_start(NULL);
    begin_to_listen();
    hole = lowest_free();
    limit_descriptors(hole + 1);
    connect_client(1);
    AWAIT((npud_turn(), server.n_sessions == 1));
    ck_assert(!server.clients->exhausted);
    come_in_vain();
    end_listening();
    npud_turn();
    npud_stop();
}
END_TEST

/* When others have left, all is as before. */
START_TEST(a_refused_client_keeps_nobody_out)
{
    npud_start(NULL);
    begin_to_listen();
    limit_descriptors(lowest_free());
    come_in_vain();
    limit_descriptors(-1);
    connect_client(1);
    AWAIT((npud_turn(), server.n_sessions == 1));
    end_listening();
    npud_turn();
    npud_stop();
}
END_TEST

enum end { IT_IS_CLOSED, IT_IS_NO_HELP, NPUD_ENDS };

/* A client waits for what is being closed, if it was there when it came; and npud sleeps. */
START_TEST(a_client_waits_for_what_is_being_closed)
{
    npud_start(NULL);
    ck_assert_int_eq(deferred_close_start(), 0);
    begin_to_listen();
    atomic_store(&allowed, 0);
    for (int i = 0; i < 2; i++)
        free_slowly();
    limit_descriptors(_i == IT_IS_NO_HELP ? 3 : lowest_free());
    connect_client(0);
    AWAIT((npud_turn(), server.clients->asleep));
    ck_assert(!schedule_busy(&server.schedule));
    if (_i != NPUD_ENDS) {
        atomic_store(&allowed, UINT_MAX);
        AWAIT((npud_turn(), server.clients->exhausted || server.n_sessions == 1));
        ck_assert(server.clients->exhausted == (_i == IT_IS_NO_HELP));
    }
    atomic_store(&allowed, UINT_MAX);
    end_listening();
    deferred_close_stop();
    npud_turn();
    npud_stop();
}
END_TEST

/* --- not a session yet --- */

/* Its user goes with it, and the owner of that uid, which nothing else holds. */
START_TEST(npud_ends_before_a_subordinate_user_has_its_turn)
{
    struct subuid_range range = {.first = getuid(), .end = (uint64_t)getuid() + 1, .owner = OTHER};
    struct subuids subuids = {.range = &range, .n = 1};
    int ends[2];

    npud_start(NULL);
    server.users.subuids = &subuids;
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
    arrival_take(&server, ends[1]);
    ck_assert_uint_eq(server.n_sessions, 0);
    ck_assert_ptr_nonnull(server.users.by_uid);
    close(ends[0]);
    npud_stop();
    ck_assert_ptr_null(server.users.by_uid);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("arrival");
    TCase *c = suite_case(suite, "all", 60, NULL, NULL);

    tcase_add_loop_test(c, a_session_waits_for_descriptors_of_its_user, 0, LAST_IS_USED + 1);
    tcase_add_test(c, a_client_leaves_while_it_waits);
    tcase_add_test(c, a_socket_that_blocks_holds_up_nothing);
    tcase_add_loop_test(c, a_client_waits_for_descriptors_of_npud, 0, LAST_IS_USED + 1);
    tcase_add_test(c, npud_ends_before_a_subordinate_user_has_its_turn);
    tcase_add_test(c, a_pidfd_has_its_place);
    tcase_add_test(c, a_refused_client_keeps_nobody_out);
    tcase_add_loop_test(c, a_client_waits_for_what_is_being_closed, 0, NPUD_ENDS + 1);
    return run_suite(suite);
}
