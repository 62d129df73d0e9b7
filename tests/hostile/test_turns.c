/*
 * One user with many sessions, all of them busy with requests, beside a well-behaved pair of
 * another user (victims.c): users take turns, so the pair is served as if there were one session.
 *
 * The times of the pair are compared with those beside the same clients that ask a server of the
 * test, of which npud knows nothing: the same foreign load. The 99th percentile may not double. It
 * is always printed; a machine that does other things as well cannot judge it, so make check-long
 * and NPUD_HOSTILE_STRICT do.
 *
 * No step of npud may be long (row.h), also when a session with thousands of objects ends.
 *
 * Skipped under ASan and TSan: they make a step ten times as long.
 * Runs long: 12 s.
 */
#include "tests/common/harness.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "proto/util/clock.h"
#include "proto/wire/npud.pb-c.h"
#include "proto/wire/packet.h"
#include "tests/common/effort.h"
#include "tests/common/need.h"
#include "tests/common/raw.h"
#include "tests/common/second_user.h"
#include "tests/hostile/row.h"
#include "tests/hostile/victims.h"

#define PROCESSES    4
#define SESSIONS_MAX 1000
#define SLICES       3
#define ATTEMPTS     5
#define RATIO_MAX    2.0
#define FLOOR_NS     (200 * NSEC_PER_USEC) /* less than that is no delay, whatever it was before */
#define ANSWER_NS    (5 * NSEC_PER_USEC)   /* about what a request costs npud */
#define GUARD_NS     (300 * NSEC_PER_SEC)

static const unsigned crowds[] = {1, 100, SESSIONS_MAX};

/* Shared with all hostile processes. */
static struct shared {
    _Atomic uint32_t sessions; /* that are there */
    _Atomic uint64_t answers;
    unsigned wanted; /* sessions of each process */
    bool elsewhere;  /* they ask the other server */
    char elsewhere_path[108];
} * shared;

/* --- hostile processes --- */

/* A request that npud has to do something for, and that needs no answer to be made. */
static void fill_request(Npud__Request *request, uint64_t n)
{
    static Npud__CreateIpcEvent create = NPUD__CREATE_IPC_EVENT__INIT;
    static Npud__CloseIpcEvent close_event = NPUD__CLOSE_IPC_EVENT__INIT;
    static Npud__MemInfo info = NPUD__MEM_INFO__INIT;

    *request = (Npud__Request)NPUD__REQUEST__INIT;
    request->id = n + 1;
    switch (n % 4) {
    case 0:
        request->create_ipc_event = &create;
        request->body_case = NPUD__REQUEST__BODY_CREATE_IPC_EVENT;
        break;
    case 2:
        request->close_ipc_event = &close_event; /* slot 0 */
        request->body_case = NPUD__REQUEST__BODY_CLOSE_IPC_EVENT;
        break;
    default:
        request->mem_info = &info;
        request->body_case = NPUD__REQUEST__BODY_MEM_INFO;
    }
}

static void ask(int socket, uint64_t n)
{
    Npud__Request request;

    fill_request(&request, n);
    must(packet_send_message(socket, &request.base, NULL, 0, 0) == 0, "send");
}

static bool take_answer(int socket)
{
    static struct packet packet;
    int r = packet_recv(socket, &packet, MSG_DONTWAIT);

    if (r == -EAGAIN)
        return false;
    must(r > 0, "npud has ended the session");
    packet_deinit(&packet);
    return true;
}

static int connect_to(const char *path)
{
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

    memcpy(addr.sun_path, path, strlen(path));
    must(fd >= 0 && connect(fd, (struct sockaddr *)&addr, sizeof(addr)) == 0, "connect");
    return fd;
}

static void say_hello(int socket)
{
    static struct packet packet;
    Npud__Hello hello = NPUD__HELLO__INIT;
    Npud__Request request = NPUD__REQUEST__INIT;

    hello.protocol = PROTOCOL;
    hello.program = (char *)"crowd";
    request.id = 1;
    request.hello = &hello;
    request.body_case = NPUD__REQUEST__BODY_HELLO;
    must(packet_send_message(socket, &request.base, NULL, 0, 0) == 0, "Hello");
    must(packet_recv(socket, &packet, 0) > 0, "no answer to Hello");
    packet_deinit(&packet);
}

/* Each session always has a request under way. */
static int run_hostile(void *arg)
{
    static uint64_t asked[SESSIONS_MAX];
    static int sockets[SESSIONS_MAX];
    struct epoll_event events[64];
    int epoll = epoll_create1(EPOLL_CLOEXEC), n;

    (void)arg;
    alarm(0);
    second_user_become();
    for (unsigned i = 0; i < shared->wanted; i++) {
        struct epoll_event ev = {.events = EPOLLIN, .data.u32 = i};

        sockets[i] = connect_to(shared->elsewhere ? shared->elsewhere_path : getenv("NPUD_SOCKET"));
        if (!shared->elsewhere)
            say_hello(sockets[i]);
        must(epoll_ctl(epoll, EPOLL_CTL_ADD, sockets[i], &ev) == 0, "epoll");
        ask(sockets[i], asked[i] = i);
        atomic_fetch_add(&shared->sessions, 1);
    }
    while ((n = epoll_wait(epoll, events, 64, -1)) >= 0)
        for (int e = 0; e < n; e++) {
            unsigned i = events[e].data.u32;

            if (!take_answer(sockets[i]))
                continue;
            atomic_fetch_add(&shared->answers, 1);
            ask(sockets[i], ++asked[i]);
        }
    return 1;
}

/* --- the server of which npud knows nothing --- */

static void serve_packet(int socket)
{
    uint64_t until = clock_ns() + ANSWER_NS;
    char buf[256];

    if (recv(socket, buf, sizeof(buf), MSG_DONTWAIT) <= 0)
        return;
    while (clock_ns() < until)
        ;
    send(socket, buf, 16, MSG_DONTWAIT | MSG_NOSIGNAL);
}

static int run_elsewhere(void *arg)
{
    int listener = *(int *)arg, epoll = epoll_create1(EPOLL_CLOEXEC), n;
    struct epoll_event events[64], ev = {.events = EPOLLIN, .data.fd = listener};

    alarm(0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    must(epoll_ctl(epoll, EPOLL_CTL_ADD, listener, &ev) == 0, "epoll");
    while ((n = epoll_wait(epoll, events, 64, -1)) >= 0)
        for (int e = 0; e < n; e++) {
            if (events[e].data.fd != listener) {
                serve_packet(events[e].data.fd);
                continue;
            }
            ev.data.fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
            if (ev.data.fd >= 0)
                must(epoll_ctl(epoll, EPOLL_CTL_ADD, ev.data.fd, &ev) == 0, "epoll");
        }
    return 1;
}

static pid_t elsewhere_start(void)
{
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    static int listener;
    pid_t pid;

    listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    ck_assert_int_ge(listener, 0);
    unlink(shared->elsewhere_path);
    memcpy(addr.sun_path, shared->elsewhere_path, sizeof(addr.sun_path));
    ck_assert_int_eq(bind(listener, (struct sockaddr *)&addr, sizeof(addr)), 0);
    ck_assert_int_eq(chmod(shared->elsewhere_path, 0666), 0);
    ck_assert_int_eq(listen(listener, SOMAXCONN), 0);
    pid = child_start(run_elsewhere, &listener);
    close(listener);
    return pid;
}

/* --- slices --- */

struct crowd {
    pid_t process[PROCESSES];
    unsigned n;
    pid_t elsewhere; /* 0: they are sessions of npud */
};

static void await_crowd(unsigned sessions)
{
    uint64_t give_up = now_ns() + GUARD_NS;

    while (atomic_load(&shared->sessions) < sessions || atomic_load(&shared->answers) < sessions) {
        ck_assert_msg(now_ns() < give_up, "%u of %u sessions are there",
                      atomic_load(&shared->sessions), sessions);
        child_expect_none_failed();
        victims_work(1);
    }
}

static struct crowd crowd_begin(unsigned sessions, bool elsewhere)
{
    struct crowd crowd = {.n = sessions < PROCESSES ? sessions : PROCESSES};

    atomic_store(&shared->sessions, 0);
    atomic_store(&shared->answers, 0);
    shared->wanted = sessions / crowd.n;
    shared->elsewhere = elsewhere;
    if (elsewhere)
        crowd.elsewhere = elsewhere_start();
    for (unsigned i = 0; i < crowd.n; i++)
        crowd.process[i] = child_start(run_hostile, NULL);
    await_crowd(sessions);
    return crowd;
}

static void crowd_finish(struct crowd *crowd)
{
    for (unsigned i = 0; i < crowd->n; i++)
        child_kill(crowd->process[i]);
    if (crowd->elsewhere)
        child_kill(crowd->elsewhere);
}

static void run_slice(enum phase phase, unsigned sessions, uint32_t ms)
{
    struct crowd crowd = crowd_begin(sessions, phase == PHASE_COMPARED);

    victims_phase(phase);
    victims_work(ms);
    victims_phase(PHASE_NONE);
    crowd_finish(&crowd);
    npud_await_sessions(2);
}

/* --- what is judged --- */

/* They are always printed. A machine that does other things as well cannot judge them. */
static bool judges_times(void)
{
    return getenv("NPUD_HOSTILE_STRICT") || choose_effort(0, 1);
}

static double compute_ratio(enum measured kind)
{
    uint64_t hostile = victims_time(PHASE_HOSTILE, kind, 990);
    uint64_t compared = victims_time(PHASE_COMPARED, kind, 990);

    return hostile < FLOOR_NS || compared == 0 ? 0 : (double)hostile / (double)compared;
}

static bool times_are_good(void)
{
    bool good = true;

    for (unsigned k = 0; k < MEASURED_KINDS; k++)
        good &= compute_ratio(k) <= RATIO_MAX;
    return good;
}

static void print_times(unsigned sessions)
{
    static const char *const names[MEASURED_KINDS] = {"round", "copy", "request"};

    for (unsigned k = 0; k < MEASURED_KINDS; k++)
        printf("%4u sessions: p99 of a %-8s %6.0f us, beside the other server %6.0f us: %.2f\n",
               sessions, names[k], (double)victims_time(PHASE_HOSTILE, k, 990) / 1000,
               (double)victims_time(PHASE_COMPARED, k, 990) / 1000, compute_ratio(k));
}

static void start_npud(const char *const *set)
{
    npud_start(set);
    shared = child_share(sizeof(*shared));
    snprintf(shared->elsewhere_path, sizeof(shared->elsewhere_path), "%s/elsewhere", npud.dir);
    second_user_let_in();
}

static bool measure_slices(unsigned sessions, uint32_t ms)
{
    bool good = false;

    for (unsigned attempt = 0; attempt < (judges_times() ? ATTEMPTS : 1) && !good; attempt++) {
        victims_forget_times();
        for (unsigned i = 0; i < (judges_times() ? SLICES : 1); i++) {
            run_slice(PHASE_COMPARED, sessions, ms);
            run_slice(PHASE_HOSTILE, sessions, ms);
        }
        good = times_are_good();
        print_times(sessions);
        fflush(stdout);
    }
    return good;
}

/* False: once more. *good: the times are. */
static bool bear_crowd(unsigned sessions, unsigned attempt, bool *good)
{
    uint32_t ms = choose_effort(300, 1000);
    aclrtIpcEventHandle spoiled;
    char name[64];
    bool short_steps;

    start_npud(NULL);
    victims_start(&spoiled);
    victims_work(20);
    *good = measure_slices(sessions, ms);
    snprintf(name, sizeof(name), "requests of %u sessions", sessions);
    short_steps =
        row_finish_victims(name, sessions < PROCESSES ? sessions : PROCESSES, sessions, attempt);
    victims_end();
    unlink(shared->elsewhere_path);
    npud_teardown();
    return short_steps;
}

START_TEST(many_sessions_have_the_turns_of_one_user)
{
    bool good;

    if (!need_root(__func__) || !need_own_fds(__func__, 8192))
        return;
    for (unsigned attempt = 0; !bear_crowd(crowds[_i], attempt, &good);)
        attempt++;
    ck_assert_msg(good || !judges_times(),
                  "beside %u sessions of another user, the pair waits too long", crowds[_i]);
}
END_TEST

/* --- ends --- */

#define EVENTS     20000
#define IPC_EVENTS 4000
#define STREAMS    1000

static int fill_a_session(void *arg)
{
    static struct raw raw = {.socket = -1};
    struct raw_object object;

    (void)arg;
    alarm(0);
    second_user_become();
    must(raw_open(&raw) && raw_open_device(&raw, 0), "open");
    for (unsigned i = 0; i < EVENTS; i++)
        must(raw_create_event(&raw, &object), "event");
    for (unsigned i = 0; i < STREAMS; i++)
        must(raw_create_stream(&raw, 0), "stream");
    for (unsigned i = 0; i < IPC_EVENTS; i++) {
        uint8_t handle[64];

        raw.n_maps = 0; /* they stay mapped; this process does not look at them again */
        must(raw_create_ipc(&raw, &object), "IPC event");
        must(raw_export_ipc(&raw, object.slot, handle), "export");
    }
    atomic_store(&shared->sessions, 1);
    pause();
    return 1;
}

/* All in turn with the requests of the pair, whose session has nothing to do with it. */
static bool bear_end_of_many_objects(unsigned attempt)
{
    aclrtIpcEventHandle spoiled;
    bool short_steps;
    uint64_t give_up;
    pid_t pid;

    start_npud((const char *const[]){"--set=limits.events=30000", "--set=limits.ipc_events=8000",
                                     "--set=limits.fds=16000", NULL});
    victims_start(&spoiled);
    pid = child_start(fill_a_session, NULL);
    give_up = now_ns() + GUARD_NS;
    while (atomic_load(&shared->sessions) == 0) {
        ck_assert_uint_lt(now_ns(), give_up);
        child_expect_none_failed();
        victims_work(1);
    }
    victims_phase(PHASE_HOSTILE);
    child_kill(pid);
    victims_work(10);
    npud_await_sessions(2);
    victims_phase(PHASE_NONE);
    short_steps = row_finish_victims("the end of a session with 25,000 objects", 1, 1, attempt);
    victims_end();
    npud_expect_empty();
    npud_teardown();
    return short_steps;
}

START_TEST(a_session_with_many_objects_ends_in_steps)
{
    if (!need_own_fds(__func__, 16384))
        return;
    for (unsigned attempt = 0; !bear_end_of_many_objects(attempt);)
        attempt++;
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("turns");
    TCase *t = suite_case(s, "crowd", 120, NULL, NULL);

    tcase_add_loop_test(t, many_sessions_have_the_turns_of_one_user, 0,
                        sizeof(crowds) / sizeof(crowds[0]));
    t = suite_case(s, "ends", 120, NULL, NULL);
    tcase_add_test(t, a_session_with_many_objects_ends_in_steps);
    return s;
}

int main(void)
{
    return run_suite(make_suite());
}
