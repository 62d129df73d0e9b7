/*
 * daemon/control/answer: descriptors that clients do not read, and answers that the kernel does not
 * take. The clients are the test itself, at the other end of a socket.
 */
#include "npud.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include "acl/acl_base.h"
#include "daemon/base/subuid.h"
#include "daemon/control/session_hear.h"
#include "proto/wire/npud.pb-c.h"
#include "proto/wire/packet.h"
#include "tests/common/need.h"
#include "tests/unit/requester.h"

#define USER  7001u
#define OTHER 7002u
#define MANY  32
#define TIGHT 80 /* descriptors: of a process that has too many in sockets */

/*
 * The kernel counts descriptors in sockets for all processes of a user, and compares the sum with
 * what the sender may have open. Other processes of the user take less than the hard limit.
 */
static void limit_fds(bool tight)
{
    struct rlimit limit;

    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = tight ? TIGHT : limit.rlim_max;
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

static void allow_fds(void)
{
    limit_fds(false);
}

static void ask_device(int fd)
{
    Npud__Request q = NPUD__REQUEST__INIT;
    Npud__OpenDevice in = NPUD__OPEN_DEVICE__INIT;

    q.open_device = &in;
    q.body_case = NPUD__REQUEST__BODY_OPEN_DEVICE;
    send_request(fd, &q);
}

/* The one request that needs no Hello and has a descriptor for an answer. */
static void ask_own_waits(int fd)
{
    Npud__Request q = NPUD__REQUEST__INIT;
    Npud__OwnWaits in = NPUD__OWN_WAITS__INIT;

    q.own_waits = &in;
    q.body_case = NPUD__REQUEST__BODY_OWN_WAITS;
    send_request(fd, &q);
}

static uint64_t unread_of(uid_t uid)
{
    struct user *user = user_find(&server.users, uid);

    return user ? user->used[RESOURCE_UNREAD_FDS] : 0;
}

START_TEST(what_was_read_is_not_charged)
{
    int fd[MANY];
    size_t n;

    npud_start((const char *const[]){"limits.unread_fds=4", NULL});
    for (int i = 0; i < MANY; i++)
        fd[i] = open_as(USER);
    for (int i = 0; i < 8 * MANY; i++) {
        ask_device(fd[i % MANY]);
        ck_assert_int_eq(read_answer(fd[i % MANY], &n), 0);
        ck_assert_uint_eq(n, 1);
        ck_assert_uint_le(unread_of(USER), 4);
    }
    close_all(fd, MANY);
    npud_stop();
}
END_TEST

/* The user that leaves them unread is refused, with a name for it; another user notices nothing. */
START_TEST(a_user_that_does_not_read_is_refused)
{
    int fd[MANY], honest, i;
    size_t n;

    npud_start((const char *const[]){"limits.unread_fds=20", NULL});
    honest = open_as(OTHER);
    for (i = 0; i < MANY; i++)
        fd[i] = open_as(USER);
    for (i = 0; i < MANY; i++)
        ask_device(fd[i]);
    ck_assert_uint_le(unread_of(USER), 20);
    ck_assert_uint_ge(unread_of(USER), 18);
    ask_device(honest);
    ck_assert_int_eq(read_answer(honest, &n), 0);
    ck_assert_uint_eq(n, 1);
    for (i = 0; i < MANY; i++) {
        int32_t error = read_answer(fd[i], &n);

        ck_assert_int_eq(error, i < 18 ? 0 : ACL_ERROR_RT_RESOURCE_ALLOC_FAIL);
        ck_assert_uint_eq(n, i < 18 ? 1 : 0);
    }
    /* All was read: there is room again, in each session. */
    for (i = 0; i < MANY; i++) {
        ask_device(fd[i]);
        ck_assert_int_eq(read_answer(fd[i], &n), 0);
        ck_assert_uint_eq(n, 1);
    }
    close(honest);
    close_all(fd, MANY);
    npud_stop();
}
END_TEST

/*
 * To leave a session, or to be ended, gives nothing back: the descriptors lie with the client until
 * it reads, or closes its socket.
 */
START_TEST(they_are_charged_beyond_the_session)
{
    int fd[MANY];
    uint32_t n_sessions;
    size_t n;

    npud_start(NULL);
    for (int i = 0; i < MANY; i++) {
        fd[i] = open_as(USER);
        for (int k = 0; k < 40; k++)
            if (server.n_sessions > 0)
                ask_device(fd[i]);
        ck_assert_uint_eq(server.n_sessions, 0); /* ended */
        ck_assert_uint_eq(unread_of(USER), 16 * ((uint64_t)i + 1));
    }
    /* One reads, one closes, the others do both. */
    while (read_answer(fd[0], &n) == 0)
        ;
    npud_turn();
    ck_assert_uint_eq(unread_of(USER), 16 * (MANY - 1));
    close(fd[1]);
    npud_turn();
    ck_assert_uint_eq(unread_of(USER), 16 * (MANY - 2));
    ck_assert_int_eq(read_answer(fd[2], &n), 0);
    npud_turn();
    ck_assert_uint_eq(unread_of(USER), 16 * (MANY - 2));
    n_sessions = server.n_sessions;
    ck_assert_uint_eq(n_sessions, 0);
    for (int i = 2; i < MANY; i++) {
        close(fd[i]);
        npud_turn();
    }
    ck_assert_uint_eq(unread_of(USER), 0);
    close(fd[0]);
    npud_stop();
}
END_TEST

/* npud ends while clients have not read. */
START_TEST(an_end_with_unread_descriptors)
{
    int one, two;

    npud_start(NULL);
    one = open_as(USER);
    two = open_as(USER);
    ask_device(one);
    for (int i = 0; i < 20; i++)
        if (server.n_sessions > 1)
            ask_device(two);
    ck_assert_uint_eq(server.n_sessions, 1);
    server_end(&server);
    ck_assert_uint_eq(HASH_COUNT(server.users.by_uid), 0);
    config_deinit(&config);
    close(one);
    close(two);
    ck_assert_uint_eq(count_fds(), npud_fds);
}
END_TEST

/* --- when the kernel takes none --- */

/*
 * As a user of its own, without rights: the kernel counts descriptors in sockets per user, and has
 * no bound for root.
 */
static void become_someone(void)
{
    uid_t uid = 100000 + (uid_t)getpid();

    if (geteuid() == 0)
        ck_assert_int_eq(setresuid(uid, uid, uid), 0);
    prctl(PR_SET_DUMPABLE, 1); /* or /proc/self/fd is root's */
}

/*
 * Descriptors that lie in a socket which no process of npud's or of its clients has to do with:
 * more than this process may have from now on, whatever other processes of the user take back.
 */
static void fill_kernel(const int pair[2])
{
    int fds[PACKET_FDS_MAX];

    for (int i = 0; i < PACKET_FDS_MAX; i++)
        fds[i] = pair[0];
    limit_fds(false);
    for (int n = 0; n <= TIGHT; n += PACKET_FDS_MAX)
        ck_assert_int_eq(packet_send(pair[0], "x", 1, fds, PACKET_FDS_MAX, MSG_DONTWAIT), 0);
    limit_fds(true);
}

static void empty_kernel(const int pair[2])
{
    while (packet_recv(pair[1], &packet, MSG_DONTWAIT) > 0)
        packet_deinit(&packet);
}

static int new_pair(int pair[2])
{
    int size = 1 << 20;

    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, pair), 0);
    return setsockopt(pair[0], SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
}

/* Sessions that read are not ended: their answers come when there is room. */
START_TEST(an_answer_waits_for_the_kernel)
{
    int fd[8], pair[2];
    size_t n;

    become_someone();
    npud_start(NULL);
    new_pair(pair);
    for (int i = 0; i < 8; i++)
        fd[i] = open_as(USER + (uid_t)i);
    fill_kernel(pair);
    for (int i = 0; i < 8; i++) {
        ask_device(fd[i]);
        ask_device(fd[i]); /* not read before the first was answered */
        ck_assert_int_eq(read_answer(fd[i], &n), -1);
    }
    ck_assert_uint_eq(server.n_sessions, 8);
    /* One leaves meanwhile. */
    close(fd[7]);
    empty_kernel(pair);
    /* The timer only says that it is time. */
    AWAIT((event_base_loop(server.base, EVLOOP_NONBLOCK | EVLOOP_ONCE), server.retry.listed));
    for (int i = 0; i < 7; i++)
        ck_assert_int_eq(read_answer(fd[i], &n), -1);
    for (int i = 0; i < 7; i++)
        for (int k = 0; k < 2; k++) {
            ck_assert_int_eq(await_answer(fd[i], &n), 0);
            ck_assert_uint_eq(n, 1);
        }
    ck_assert_ptr_null(server.answers);
    close(pair[0]);
    close(pair[1]);
    close_all(fd, 7);
    npud_stop();
}
END_TEST

/* A session that has not said Hello is read again, too, when its answer could be sent. */
START_TEST(an_answer_before_hello_waits_too)
{
    int open, asks, pair[2];
    int32_t error = -1;
    size_t n;

    become_someone();
    npud_start(NULL);
    new_pair(pair);
    open = open_as(USER); /* a user with one session waits for nothing */
    asks = connect_as(USER);
    ask_own_waits(asks); /* the report is made */
    ck_assert_int_eq(await_answer(asks, &n), 0);
    ck_assert_uint_eq(n, 0);
    npud_turn();
    fill_kernel(pair);
    ask_own_waits(asks);
    ck_assert_int_eq(read_answer(asks, &n), -1);
    ck_assert_ptr_nonnull(server.answers);
    ask_own_waits(asks);
    empty_kernel(pair);
    while (server.answers)
        schedule_round(&server.schedule, server.base, true);
    ck_assert_int_eq(read_answer(asks, &n), 0);
    ck_assert_uint_eq(n, 1);
    for (uint64_t end = clock_ns() + GUARD_NS; error == -1 && clock_ns() < end;) {
        npud_turn();
        error = read_answer(asks, &n);
    }
    ck_assert_int_eq(error, 0);
    close_all((const int[]){open, asks}, 2);
    close(pair[0]);
    close(pair[1]);
    npud_stop();
}
END_TEST

/* --- reports of own waits --- */

/* Made in steps of the session, given to its next request, and not too often. */
START_TEST(own_waits_are_told_later)
{
    int open, asks;
    struct session *session;
    size_t n;

    npud_start(NULL);
    open = open_as(USER);
    asks = open_as(USER);
    session = server.sessions->next;
    ask_own_waits(asks);
    ck_assert_int_eq(await_answer(asks, &n), 0);
    ck_assert_uint_eq(n, 0);
    ck_assert_ptr_nonnull(session->own_waits);
    npud_turn();
    ck_assert(!session->user->reporting);
    ask_own_waits(asks);
    ck_assert_int_eq(await_answer(asks, &n), 0);
    ck_assert_uint_eq(n, 1);
    ck_assert_ptr_null(session->own_waits);
    ck_assert_uint_gt(session->user->report_ns, 0);
    session->user->report_ns = clock_ns() + 3600 * NSEC_PER_SEC;
    ask_own_waits(asks);
    ck_assert_int_eq(await_answer(asks, &n), 0);
    ck_assert_uint_eq(n, 0);
    ck_assert_ptr_null(session->own_waits); /* too early: none is made */
    close_all((const int[]){open, asks}, 2);
    npud_stop();
}
END_TEST

static void make_subordinate(uid_t owner, uid_t first)
{
    char path[64], text[64];
    int fd = memfd_create("subuid", 0);
    int size = snprintf(text, sizeof(text), "%u:%u:2\n", (unsigned)owner, (unsigned)first);

    ck_assert_int_eq(write(fd, text, (size_t)size), size);
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    subuids_read(&server.subuids, path);
    server.users.subuids = &server.subuids;
    close(fd);
}

/* All uids of a user together have a tenth of npud's time for reports: it may have 65,536. */
START_TEST(own_waits_of_subordinate_uids)
{
    struct session *session;
    struct user *payer;
    int fd[3];
    size_t n;

    npud_start(NULL);
    make_subordinate(USER, 100000);
    for (int i = 0; i < 3; i++)
        fd[i] = open_as(i < 2 ? 100000 : 100001);
    session = server.sessions->prev;
    payer = session->user->payer;
    ask_own_waits(fd[1]);
    ck_assert_int_eq(await_answer(fd[1], &n), 0);
    /* On a slow machine it was made in the rounds until the answer. */
    ck_assert(payer->reporting || payer->report_ns > 0);
    while (payer->reporting)
        npud_turn();
    payer->reporting = true;
    ask_own_waits(fd[2]);
    ck_assert_int_eq(await_answer(fd[2], &n), 0);
    ck_assert_ptr_null(session->own_waits); /* one is being made */
    payer->reporting = false;
    payer->report_ns = clock_ns() + 3600 * NSEC_PER_SEC;
    ask_own_waits(fd[2]);
    ck_assert_int_eq(await_answer(fd[2], &n), 0);
    ck_assert_uint_eq(n, 0);
    ck_assert_ptr_null(session->own_waits); /* too early */
    close_all(fd, 3);
    subuids_deinit(&server.subuids);
    npud_stop();
}
END_TEST

/* A report that is not fetched goes with its session. */
START_TEST(own_waits_that_are_not_fetched)
{
    int open, asks;
    size_t n;

    npud_start(NULL);
    open = open_as(USER);
    asks = open_as(USER);
    ask_own_waits(asks);
    ck_assert_int_eq(await_answer(asks, &n), 0);
    ck_assert_ptr_nonnull(server.sessions->next->own_waits);
    close_all((const int[]){open, asks}, 2);
    npud_stop();
}
END_TEST

/* What is kept goes with its session, and with npud. */
START_TEST(an_answer_that_is_never_sent)
{
    int one, two, pair[2];
    size_t n;

    become_someone();
    npud_start(NULL);
    new_pair(pair);
    one = open_as(USER);
    two = open_as(OTHER);
    fill_kernel(pair);
    ask_device(one);
    ask_device(two);
    ck_assert_int_eq(read_answer(one, &n), -1);
    session_end(server.sessions);
    npud_turn();
    ck_assert_uint_eq(server.n_sessions, 1);
    ck_assert_int_eq(read_answer(one, &n), -2);
    ck_assert_ptr_nonnull(server.answers);
    close(one);
    close(pair[0]);
    close(pair[1]);
    server_end(&server);
    ck_assert_ptr_null(server.answers);
    config_deinit(&config);
    close(two);
    ck_assert_uint_eq(count_fds(), npud_fds);
}
END_TEST

/* Guards against an answer without id and body: it would be an empty packet, which is the end. */
START_TEST(a_request_without_id_ends_the_session)
{
    Npud__Request q = NPUD__REQUEST__INIT;
    Npud__OpenDevice in = NPUD__OPEN_DEVICE__INIT;
    size_t n;
    int fd;

    npud_start(NULL);
    fd = open_as(USER);
    q.open_device = &in;
    q.body_case = NPUD__REQUEST__BODY_OPEN_DEVICE;
    ck_assert_int_eq(packet_send_message(fd, &q.base, NULL, 0, 0), 0);
    npud_turn();
    ck_assert_uint_eq(server.n_sessions, 0);
    ck_assert_int_eq(read_answer(fd, &n), -2);
    close_all(&fd, 1);
    npud_stop();
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("answer");
    TCase *t = suite_case(s, "unread", 0, allow_fds, NULL);

    tcase_add_test(t, what_was_read_is_not_charged);
    tcase_add_test(t, a_user_that_does_not_read_is_refused);
    tcase_add_test(t, they_are_charged_beyond_the_session);
    tcase_add_test(t, an_end_with_unread_descriptors);
    tcase_add_test(t, own_waits_are_told_later);
    tcase_add_test(t, own_waits_of_subordinate_uids);
    tcase_add_test(t, own_waits_that_are_not_fetched);
    tcase_add_test(t, a_request_without_id_ends_the_session);
    t = suite_case(s, "kernel", 0, allow_fds, NULL);
    tcase_add_test(t, an_answer_waits_for_the_kernel);
    tcase_add_test(t, an_answer_before_hello_waits_too);
    tcase_add_test(t, an_answer_that_is_never_sent);
    return s;
}

int main(void)
{
    return run_suite(make_suite());
}
