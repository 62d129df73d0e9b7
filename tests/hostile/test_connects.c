/*
 * Processes of a second user that connect and close, over and over: each connection of another user
 * waits for a turn of its own, and not behind all of theirs in the queue of the listening socket.
 *
 * Skipped under ASan and TSan, which make steps long by themselves.
 * Runs long: 5 s.
 */
#include "tests/common/harness.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "proto/util/clock.h"
#include "proto/wire/npud.pb-c.h"
#include "tests/common/effort.h"
#include "tests/common/need.h"
#include "tests/common/raw.h"
#include "tests/common/second_user.h"
#include "tests/hostile/attack.h"
#include "tests/hostile/row.h"

#define PROCESSES  2
#define TIMES_MAX  20000
#define OTHERS_MAX 512

static __attribute__((noreturn)) int connect_and_close(void *arg)
{
    (void)arg;
    alarm(0);
    second_user_become();
    state_stands();
    for (;;) {
        int socket = raw_connect();

        if (socket >= 0) {
            close(socket);
            turn_done();
        }
    }
}

/* Of connections: in ns, and how many others have connected meanwhile. */
static uint64_t times[TIMES_MAX], others[TIMES_MAX];

static int compare_times(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return x < y ? -1 : x > y;
}

/* A session from connect to the end, again and again. The 99th percentile of connect and Hello. */
static uint64_t open_sessions(uint32_t ms, uint64_t *n)
{
    uint64_t end = now_ns() + ms * NSEC_PER_MSEC;
    static struct raw raw;

    for (*n = 0; now_ns() < end && *n < TIMES_MAX; ++*n) {
        uint64_t start = now_ns(), before = attack_turns();

        raw = (struct raw){.socket = -1};
        ck_assert(raw_open(&raw));
        times[*n] = now_ns() - start;
        others[*n] = attack_turns() - before;
        raw_close(&raw);
    }
    qsort(times, *n, sizeof(times[0]), compare_times);
    qsort(others, *n, sizeof(others[0]), compare_times);
    return times[*n * 99 / 100];
}

/* False: once more. */
static bool bear_connections(unsigned attempt)
{
    struct row row = {.name = "connect and close", .attackers = PROCESSES};
    uint32_t ms = choose_effort(1000, 4000);
    pid_t pid[PROCESSES];
    uint64_t n;
    bool good;

    npud_start_shared(NULL);
    attack_begin();
    row.p99_compared = open_sessions(ms / 4, &n);
    for (int i = 0; i < PROCESSES; i++)
        pid[i] = child_start(connect_and_close, NULL);
    EVENTUALLY(attacks_standing() == PROCESSES, "they do not start");
    row.p99 = open_sessions(ms, &row.honest);
    good = row_finish(&row, attempt);
    ck_assert_uint_gt(attack_turns(), 0);
    /* The queue of the listening socket, once to get into it, and once in it. */
    ck_assert_msg(others[row.honest / 2] <= OTHERS_MAX, "half of them come behind %llu others",
                  (unsigned long long)others[row.honest / 2]);
    for (int i = 0; i < PROCESSES; i++)
        child_kill(pid[i]);
    npud_expect_empty();
    npud_teardown();
    return good;
}

START_TEST(others_connect_meanwhile)
{
    if (need_root(__func__))
        for (unsigned attempt = 0; !bear_connections(attempt);)
            attempt++;
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("connects");
    TCase *t = suite_case(suite, "connects", 120, NULL, NULL);

    tcase_add_test(t, others_connect_meanwhile);
    return run_suite(suite);
}
