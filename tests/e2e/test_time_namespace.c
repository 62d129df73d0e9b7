/*
 * A client in a time namespace of its own, whose clock is ahead of npud's or behind it: times that
 * npud and others read are npud's.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "proto/util/clock.h"
#include "proto/wire/npud.pb-c.h"
#include "tests/common/harness.h"
#include "tests/common/need.h"

#ifndef CLONE_NEWTIME
#define CLONE_NEWTIME 0x00000080
#endif

#define LITTLE_MS 60000 /* what a test takes at most; the clocks are much further apart */

/* Seconds that the client is ahead: it cannot be before the start of the machine. */
static int64_t ahead(int i)
{
    int64_t now = (int64_t)(clock_ns() / NSEC_PER_SEC);

    return i == 0 ? 1000000 : now > 400 ? -300 : 3000;
}

/* For the children of this process. False: not allowed, or the kernel has none. */
static bool enter_namespace(int64_t seconds)
{
    char text[64];
    int fd, n = snprintf(text, sizeof(text), "monotonic %" PRId64 " 0\n", seconds);
    bool ok;

    if (unshare(CLONE_NEWTIME) < 0)
        return false;
    fd = open("/proc/self/timens_offsets", O_WRONLY | O_CLOEXEC);
    ok = fd >= 0 && write(fd, text, (size_t)n) == n;
    if (fd >= 0)
        close(fd);
    return ok;
}

/* One stamp is the client's, as nothing is outstanding, and one the engine's. */
static void expect_elapsed(aclrtStream stream)
{
    aclrtEvent at_call, in_stream, after;
    float ms;

    OK(aclrtCreateEventWithFlag(&at_call, ACL_EVENT_TIME_LINE));
    OK(aclrtCreateEventWithFlag(&in_stream, ACL_EVENT_TIME_LINE));
    OK(aclrtCreateEventWithFlag(&after, ACL_EVENT_TIME_LINE));
    OK(aclrtRecordEvent(at_call, stream));
    OK(aclnpudLaunchDelay(20000, 0, stream));
    OK(aclrtRecordEvent(in_stream, stream));
    OK(aclrtSynchronizeStream(stream));
    OK(aclrtRecordEvent(after, stream));
    OK(aclrtSynchronizeStream(stream));
    OK(aclrtEventElapsedTime(&ms, at_call, in_stream));
    ck_assert_msg(ms >= 20 && ms < LITTLE_MS, "%f ms", (double)ms);
    OK(aclrtEventElapsedTime(&ms, in_stream, after));
    ck_assert_msg(ms >= 0 && ms < LITTLE_MS, "%f ms", (double)ms);
}

static int client(void *arg)
{
    aclrtStream stream, other;
    aclrtEvent gate;
    uint64_t begun = now_ns();

    (void)arg;
    streams_open(&stream, &other);
    expect_elapsed(stream);
    turn_tell(&to_parent);
    turn_await(&to_child);
    OK(aclnpudTraceMark("here"));
    OK(aclrtCreateEventWithFlag(&gate, ACL_EVENT_SYNC));
    OK(aclrtStreamWaitEvent(stream, gate));
    /* Limits are in the own clock. */
    FAILS(ACL_ERROR_RT_STREAM_SYNC_TIMEOUT, aclrtSynchronizeStreamWithTimeout(stream, 50));
    ck_assert_uint_lt(now_ns() - begun, LITTLE_MS * NSEC_PER_MSEC);
    turn_tell(&to_parent);
    OK(aclrtSynchronizeStream(stream));
    return 0;
}

/* The trace is over: the mark stands between its beginning and its end. */
static void expect_mark(uint64_t began, uint64_t ended)
{
    Npud__Report *r = npud_report(NPUD__ADMIN_REQUEST__TOPIC__TRACE);
    bool found = false;

    for (size_t i = 0; i < r->n_trace; i++)
        if (strcmp(r->trace[i]->kind, "mark") == 0) {
            found = true;
            ck_assert_uint_ge(r->trace[i]->begin_ns, began);
            ck_assert_uint_le(r->trace[i]->begin_ns, ended);
        }
    ck_assert(found);
    npud__report__free_unpacked(r, NULL);
}

static void expect_sleeps(pid_t pid)
{
    Npud__Report *r = npud_report(NPUD__ADMIN_REQUEST__TOPIC__WAITS);
    unsigned n = 0;

    for (size_t i = 0; i < r->n_waits; i++)
        if (r->waits[i]->pid == pid) {
            n++;
            ck_assert_msg(r->waits[i]->for_ms >= 100 && r->waits[i]->for_ms < LITTLE_MS,
                          "%s for %" PRIu64 " ms", r->waits[i]->waiter, r->waits[i]->for_ms);
        }
    ck_assert_uint_eq(n, 2);
    npud__report__free_unpacked(r, NULL);
}

START_TEST(times_are_those_of_npud)
{
    uint64_t began, slept;
    pid_t pid;

    npud_setup();
    turns_init();
    if (!enter_namespace(ahead(_i))) {
        need_lacks(__func__, "to make a time namespace (root, CONFIG_TIME_NS)");
        npud_teardown();
        return;
    }
    began = clock_ns();
    pid = child_start(client, NULL);
    turn_await(&to_parent);
    npuctl_says("trace start", 0, ""); /* from here on each record is a task */
    turn_tell(&to_child);
    turn_await(&to_parent);
    EVENTUALLY(npud_lists_sleeper(pid, "aclrtSynchronizeStream"), "the client does not wait");
    slept = clock_ns();
    while (clock_ns() < slept + 150 * NSEC_PER_MSEC)
        clock_sleep_until(slept + 150 * NSEC_PER_MSEC);
    expect_sleeps(pid);
    expect_mark(began, clock_ns());
    child_kill(pid);
    npud_await_sessions(0);
    npud_teardown();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("time_namespace");
    TCase *tc = suite_case(suite, "time_namespace", 60, NULL, NULL);

    tcase_add_loop_test(tc, times_are_those_of_npud, 0, 2);
    return run_suite(suite);
}
