/*
 * Clients that watch what npud writes to, very often: the kernel calls each watch (of epoll) when
 * npud answers at a socket, shuts or closes it, or closes the last copy of a doorbell. A process of
 * the second user has WATCHES of them, beside the well-behaved pair (victims.c).
 *
 * What npud does in other threads must not make a step long. An answer must be made by the control
 * thread: there it is judged that the user gets few of them, because it rests, and that the session
 * ends.
 *
 * Skipped under ASan and TSan, which make steps long by themselves.
 * Runs long: 10 s.
 */
#include "tests/common/harness.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "proto/util/clock.h"
#include "proto/wire/npud.pb-c.h"
#include "tests/common/effort.h"
#include "tests/common/need.h"
#include "tests/common/raw_share.h"
#include "tests/common/second_user.h"
#include "tests/hostile/attack.h"
#include "tests/hostile/row.h"
#include "tests/hostile/victims.h"

#define POLLS      400
#define COPIES     400
#define FEW_COPIES 40 /* an answer takes a few milliseconds */

/* --- the hostile process --- */

static int copies[COPIES], polls[POLLS];

/* The watches last as long as the file of fd, and the polls. */
static void watch_often(int fd, int n)
{
    for (int i = 0; i < COPIES; i++)
        copies[i] = -1;
    for (int i = 0; i < n; i++)
        must((copies[i] = dup(fd)) >= 0, "copy");
    for (int p = 0; p < POLLS; p++) {
        struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET};

        must((polls[p] = epoll_create1(EPOLL_CLOEXEC)) >= 0, "epoll");
        for (int i = 0; i < n; i++)
            must(epoll_ctl(polls[p], EPOLL_CTL_ADD, copies[i], &event) == 0, "watch");
    }
}

static void close_copies(void)
{
    for (int i = 0; i < COPIES && copies[i] >= 0; i++)
        close(copies[i]);
}

static void close_polls(void)
{
    for (int p = 0; p < POLLS; p++)
        close(polls[p]);
}

static bool ask_for_memory(struct raw *raw)
{
    Npud__Request request = NPUD__REQUEST__INIT;
    Npud__MemInfo in = NPUD__MEM_INFO__INIT;
    Npud__Reply *reply;

    request.mem_info = &in;
    request.body_case = NPUD__REQUEST__BODY_MEM_INFO;
    reply = raw_ask(raw, &request, NULL);
    if (reply)
        npud__reply__free_unpacked(reply, NULL);
    return reply != NULL;
}

/* A turn is an answer. */
static void ask_at_a_watched_socket(void)
{
    struct raw *raw = session_new(0);

    watch_often(raw->socket, COPIES);
    state_stands();
    while (ask_for_memory(raw))
        turn_done();
    for (;;)
        pause();
}

/* A turn is a session that npud has ended for it. */
static void ask_until_the_end(void)
{
    state_stands();
    for (;;) {
        struct raw *raw = session_new(0);

        watch_often(raw->socket, FEW_COPIES);
        while (ask_for_memory(raw))
            ;
        turn_done();
        close_copies();
        close_polls();
        session_free(raw);
    }
}

/* The session ends; its process has the socket, and the watches. */
static void leave_a_watched_socket(void)
{
    char c;

    state_stands();
    for (;;) {
        struct raw *raw = session_new(0);

        watch_often(raw->socket, COPIES);
        must(shutdown(raw->socket, SHUT_WR) == 0, "end");
        while (recv(raw->socket, &c, sizeof(c), 0) > 0)
            ;
        turn_done();
        close_copies();
        close_polls();
        session_free(raw);
    }
}

/* npud has the last copy of the doorbell. */
static void leave_a_watched_doorbell(void)
{
    state_stands();
    for (;;) {
        struct raw *raw = session_new(0);

        watch_often(raw->bell[0], COPIES);
        close(raw->bell[0]);
        raw->bell[0] = -1;
        close_copies();
        session_free(raw);
        turn_done();
        close_polls();
    }
}

/* Until the session is ended for it. */
static void ring_with_a_watched_socket(void)
{
    char c;

    state_stands();
    for (;;) {
        struct raw *raw = session_new(1);

        watch_often(raw->socket, COPIES);
        while (recv(raw->socket, &c, sizeof(c), MSG_DONTWAIT) < 0)
            eventfd_write(raw->bell[0], 1);
        turn_done();
        close_copies();
        close_polls();
        session_free(raw);
    }
}

/* --- the table --- */

static const struct attack {
    const char *name;
    void (*run)(void);
    bool answers;   /* npud must do it in a step */
    uint64_t turns; /* then: at most so many, in all of the test */
} attacks[] = {
    {"answers at a socket with 160,000 watches", ask_at_a_watched_socket, true, 3},
    {"answers at sockets with 16,000 watches", ask_until_the_end, true, 100},
    {"ends of sockets with 160,000 watches", leave_a_watched_socket, false, 0},
    {"ends of doorbells with 160,000 watches", leave_a_watched_doorbell, false, 0},
    {"rings for nothing, and 160,000 watches", ring_with_a_watched_socket, false, 0},
};
#define ATTACKS ((int)(sizeof(attacks) / sizeof(attacks[0])))

static int run_attack(void *arg)
{
    const struct attack *attack = arg;

    alarm(0);
    second_user_become();
    attack->run();
    return 1;
}

/* The third costly answer ends the session; after each, the user rests 128 times as long. */
static bool few_answers(const struct attack *attack)
{
    struct row row = {.name = attack->name, .attackers = 1};
    Npud__Report *report = npud_report(NPUD__ADMIN_REQUEST__TOPIC__STATUS);

    for (unsigned k = 0; k < MEASURED_KINDS; k++)
        row.honest += victims_count(PHASE_HOSTILE, k);
    row.p99 = victims_time(PHASE_HOSTILE, MEASURED_REQUEST, 990);
    row.p99_compared = victims_time(PHASE_COMPARED, MEASURED_REQUEST, 990);
    row_print(&row, report->status[0]);
    ck_assert_msg(attack_turns() <= attack->turns, "%llu of them",
                  (unsigned long long)attack_turns());
    npud__report__free_unpacked(report, NULL);
    return true;
}

/* False: once more. */
static bool bear_attack(const struct attack *attack, unsigned attempt)
{
    uint32_t ms = choose_effort(1000, 6000);
    aclrtIpcEventHandle spoiled;
    bool good;
    pid_t pid;

    npud_start_shared(NULL);
    victims_start(&spoiled);
    victims_phase(PHASE_COMPARED);
    victims_work(ms / 3);
    victims_phase(PHASE_HOSTILE);
    attack_begin();
    pid = child_start(run_attack, (void *)attack);
    EVENTUALLY((victims_work(1), attacks_standing() == 1), "the state is not built");
    victims_work(ms);
    EVENTUALLY((victims_work(1), attack_turns() > 0), "nothing was done");
    child_expect_none_failed();
    victims_phase(PHASE_NONE);
    good = attack->answers ? few_answers(attack) : row_finish_victims(attack->name, 1, 1, attempt);
    child_kill(pid);
    npud_await_sessions(2);
    victims_end();
    npud_expect_empty();
    npud_teardown();
    return good;
}

START_TEST(beside_many_watches)
{
    const struct attack *attack = &attacks[_i];

    if (need_root(attack->name) && need_own_fds(attack->name, 8192))
        for (unsigned attempt = 0; !bear_attack(attack, attempt);)
            attempt++;
}
END_TEST

int main(void)
{
    return run_suite(row_suite("watches", beside_many_watches, ATTACKS));
}
