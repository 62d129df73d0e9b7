/*
 * Memory goes back after a peak, while the session goes on or when its process dies: rings of
 * streams, events on both sides, and npud's heap. What is measured is what the kernel says of the
 * process: pages of its own, and shared ones that it has touched.
 *
 * Runs long: 7 s.
 * Skipped under chaos: figures of the process that serves.
 * Skipped under TSan: what memory it has of its own is the most of it.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "queue_kit.h"
#include "tests/common/effort.h"
#include "tests/common/proc.h"
#include "tests/common/need.h"

#define GUARD_NS UINT64_C(300000000000) /* against hanging only */
#define STREAMS  400u
#define EVENTS   20000u
#define MIB      (UINT64_C(1) << 20)
#define PAGE     UINT64_C(4096)
#define RING     (1024 * UINT64_C(64)) /* bytes of a ring of the default depth */
#define SEGMENT  1024u                 /* events in a segment of the arena */

/* Their allocators keep what is freed, and have pages of their own. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED true
#else
#define SANITIZED false
#endif

static aclrtStream streams[STREAMS];
static aclrtEvent events[EVENTS];

static uint64_t npud_bytes(void)
{
    struct proc_usage u = proc_usage(npud.pid);

    return u.anon + u.shmem;
}

static uint64_t own_bytes(void)
{
    struct proc_usage u = proc_usage(getpid());

    return u.anon + u.shmem;
}

static void expect_less(uint64_t bytes, uint64_t limit)
{
    if (!SANITIZED)
        ck_assert_uint_lt(bytes, limit);
}

/*
 * Until npud has at most so much. Its control thread has no part in it but for small things that
 * happen to come then: a step that gave back what clients had would be as long as they like.
 */
static void await_npud_bytes(uint64_t most)
{
    uint64_t cpu;

    EVENTUALLY(proc_sleeps(npud.pid), "npud still runs");
    cpu = proc_main_cpu_ns(npud.pid);
    EVENTUALLY(SANITIZED || npud_bytes() <= most, "npud has %llu bytes, more than %llu",
               (unsigned long long)npud_bytes(), (unsigned long long)most);
    if (!SANITIZED)
        ck_assert_uint_le(proc_main_cpu_ns(npud.pid), cpu + UINT64_C(200000));
}

static void finish_test(void)
{
    session_close();
    npud_expect_empty();
    npud_teardown();
}

/* --- streams --- */

static void create_streams(void)
{
    for (unsigned i = 0; i < STREAMS; i++)
        OK(aclrtCreateStream(&streams[i]));
}

static void destroy_streams(void)
{
    for (unsigned i = 0; i < STREAMS; i++)
        OK(aclrtDestroyStream(streams[i]));
}

/*
 * What is kept of streams that are gone: some rings, and what npud and the library know of a slot.
 */
#define KEPT_OF_STREAMS (MIB + STREAMS * UINT64_C(1536))

START_TEST(streams_without_tasks_take_no_rings)
{
    uint64_t shmem;

    session_open();
    create_streams();
    shmem = proc_usage(npud.pid).shmem;
    destroy_streams();
    ck_assert_uint_lt(proc_usage(npud.pid).shmem, shmem + STREAMS * PAGE / 8);
    create_streams();
    for (unsigned i = 0; i < STREAMS; i++)
        OK(aclrtDestroyStreamForce(streams[i]));
    ck_assert_uint_lt(proc_usage(npud.pid).shmem, shmem + STREAMS * PAGE / 8);
    finish_test();
}
END_TEST

START_TEST(rings_go_with_their_streams)
{
    uint64_t npud_before, own_before;

    session_open();
    npud_before = npud_bytes();
    own_before = own_bytes();
    create_streams();
    for (unsigned i = 0; i < STREAMS; i++)
        for (unsigned n = 0; n < (i % 8 == 0 ? 1024 : 1); n++)
            OK(aclnpudLaunchDelay(0, 0, streams[i]));
    OK(aclrtSynchronizeDevice());
    ck_assert_uint_gt(own_bytes(), own_before + STREAMS / 8 * RING);
    ck_assert_uint_gt(npud_bytes(), npud_before + STREAMS / 8 * RING);
    destroy_streams();
    expect_less(own_bytes(), own_before + KEPT_OF_STREAMS);
    expect_less(npud_bytes(), npud_before + KEPT_OF_STREAMS);
    finish_test();
}
END_TEST

#define LANES  4u
#define ROUNDS choose_effort(100, 5000)

/*
 * Streams come and go beside each other in the same slots of npud, while rings around them are
 * punched.
 */
static void *uses_streams(void *arg)
{
    uint64_t *sum = arg;
    aclrtStream s[8];

    OK(aclrtSetDevice(0));
    for (unsigned round = 0; round < ROUNDS; round++) {
        for (unsigned i = 0; i < 8; i++) {
            OK(aclrtCreateStream(&s[i]));
            /* All pages of the rings, so that some are always too many to be kept. */
            for (unsigned n = 0; n < 1024; n++)
                OK(aclnpudLaunchDelay(0, 0, s[i]));
        }
        for (unsigned i = 0; i < 8; i++) {
            OK(aclrtSynchronizeStreamWithTimeout(s[i], GUARD_NS / 1000000));
            OK(aclrtDestroyStream(s[i]));
            ++*sum;
        }
    }
    OK(aclrtResetDevice(0));
    return NULL;
}

/*
 * Guards against a ring that is punched when its slot has its next stream already, whose tasks
 * would be lost.
 */
START_TEST(no_ring_of_the_next_stream_goes)
{
    pthread_t thread[LANES];
    uint64_t sum[LANES] = {0};

    session_open();
    for (unsigned i = 0; i < LANES; i++)
        ck_assert_int_eq(pthread_create(&thread[i], NULL, uses_streams, &sum[i]), 0);
    for (unsigned i = 0; i < LANES; i++) {
        pthread_join(thread[i], NULL);
        ck_assert_uint_eq(sum[i], ROUNDS * 8);
    }
    finish_test();
}
END_TEST

/* --- events --- */

static void create_events(void)
{
    for (unsigned i = 0; i < EVENTS; i++)
        OK(i % 2 == 0 ? aclrtCreateEvent(&events[i])
                      : aclrtCreateEventWithFlag(&events[i], ACL_EVENT_SYNC | ACL_EVENT_TIME_LINE));
}

/* In a stream that is busy, so that the engine writes to them. */
static void record_events(void)
{
    aclrtStream s;

    OK(aclrtCreateStream(&s));
    for (unsigned i = 0; i < EVENTS; i++) {
        if (i % 64 == 0)
            OK(aclnpudLaunchDelay(1, 0, s));
        OK(aclrtRecordEvent(events[i], s));
    }
    OK(aclrtDestroyStream(s));
}

static void destroy_events(void)
{
    for (unsigned i = 0; i < EVENTS; i++)
        OK(aclrtDestroyEvent(events[i]));
}

/* What is kept for new events, on both sides: blocks of each table, two segments. */
#define KEPT_OF_EVENTS (MIB * 3 / 4)
/* npud: the records of a segment's events are there as long as the segment. */
#define RECORDS_OF_EVENTS (EVENTS * UINT64_C(32))

static void peak_of_events(void)
{
    uint64_t npud_before = npud_bytes(), own_before = own_bytes();

    create_events();
    record_events();
    ck_assert_uint_gt(own_bytes(), own_before + 2 * MIB);
    ck_assert_uint_gt(npud_bytes(), npud_before + 3 * MIB / 2);
    destroy_events();
    expect_less(own_bytes(), own_before + KEPT_OF_EVENTS);
    expect_less(npud_bytes(), npud_before + KEPT_OF_EVENTS + RECORDS_OF_EVENTS);
}

static int by_value(const void *a, const void *b)
{
    uintptr_t x = *(const uintptr_t *)a, y = *(const uintptr_t *)b;

    return x < y ? -1 : x > y;
}

/* All handles of all rounds differ, and those of events that are gone are refused. */
START_TEST(events_go_and_stale_handles_stay_stale)
{
    static aclrtEvent all[3 * EVENTS];
    aclrtEventRecordedStatus status;

    session_open();
    peak_of_events();
    memcpy(all, events, sizeof(events));
    peak_of_events();
    memcpy(all + EVENTS, events, sizeof(events));
    for (unsigned i = 0; i < 2 * EVENTS; i += 97)
        FAILS(ACL_ERROR_RT_INVALID_HANDLE, aclrtQueryEventStatus(all[i], &status));
    create_events();
    memcpy(all + 2 * EVENTS, events, sizeof(events));
    for (unsigned i = 0; i < 2 * EVENTS; i += 97)
        FAILS(ACL_ERROR_RT_INVALID_HANDLE, aclrtDestroyEvent(all[i]));
    for (unsigned i = 0; i < EVENTS; i++) {
        OK(aclrtQueryEventStatus(events[i], &status));
        ck_assert_int_eq(status, ACL_EVENT_RECORDED_STATUS_NOT_READY);
    }
    destroy_events();
    qsort(all, 3 * EVENTS, sizeof(all[0]), by_value);
    for (unsigned i = 1; i < 3 * EVENTS; i++)
        ck_assert_ptr_ne(all[i - 1], all[i]);
    finish_test();
}
END_TEST

static aclrtStream held;
static uint32_t queue;

static void *waits_for_a_message(void *arg)
{
    (void)arg;
    ck_assert_uint_eq(take_value(queue, -1), 7);
    return NULL;
}

static void *waits_for_a_stream(void *arg)
{
    (void)arg;
    OK(aclrtSetDevice(0));
    OK(aclrtSynchronizeStream(held));
    OK(aclrtResetDevice(0));
    return NULL;
}

static void *waits_for_an_event(void *arg)
{
    OK(aclrtSynchronizeEvent(arg));
    return NULL;
}

/*
 * Guards against memory that stays because another thread sleeps in the library, as some do for
 * hours.
 */
START_TEST(sleeping_threads_keep_no_events)
{
    acltdtQueueAttr *attr = acltdtCreateQueueAttr();
    aclrtEvent gate, recorded;
    pthread_t thread[3];

    session_open();
    OK(acltdtCreateQueue(attr, &queue));
    OK(acltdtDestroyQueueAttr(attr));
    OK(aclrtCreateStream(&held));
    OK(aclrtCreateEvent(&recorded));
    gate = stream_hold(held);
    OK(aclrtRecordEvent(recorded, held));
    ck_assert_int_eq(pthread_create(&thread[0], NULL, waits_for_a_message, NULL), 0);
    ck_assert_int_eq(pthread_create(&thread[1], NULL, waits_for_a_stream, NULL), 0);
    ck_assert_int_eq(pthread_create(&thread[2], NULL, waits_for_an_event, recorded), 0);
    await_asleep(getpid(), 3);
    peak_of_events();
    stream_let_go(gate);
    OK(acltdtEnqueue(queue, buffer_of(7), 0));
    for (unsigned i = 0; i < 3; i++)
        pthread_join(thread[i], NULL);
    OK(aclrtDestroyEvent(gate));
    OK(aclrtDestroyEvent(recorded));
    OK(aclrtDestroyStream(held));
    OK(acltdtDestroyQueue(queue));
    finish_test();
}
END_TEST

static void *waits_for_a_record(void *arg)
{
    aclrtSynchronizeEvent(
        arg); /* destroyed meanwhile: how it ends is not promised, that it ends is */
    return NULL;
}

/* Guards against memory that goes while a thread is inside a call that goes on with the event. */
START_TEST(a_late_thread_keeps_its_event)
{
    aclrtStream one, two;
    aclrtEvent gate, late;
    pthread_t thread;
    uint64_t before;

    streams_open(&one, &two);
    gate = stream_hold(one);
    before = own_bytes();
    for (unsigned i = 0; i < EVENTS / 2; i++)
        OK(aclrtCreateEvent(&events[i]));
    OK(aclrtCreateEventExWithFlag(&late, ACL_EVENT_IPC));
    for (unsigned i = EVENTS / 2; i < EVENTS; i++)
        OK(aclrtCreateEvent(&events[i]));
    OK(aclrtRecordEvent(late, one));
    ck_assert_int_eq(pthread_create(&thread, NULL, waits_for_a_record, late), 0);
    await_asleep(getpid(), 1);
    OK(aclrtDestroyEvent(late));
    destroy_events();
    stream_let_go(gate);
    pthread_join(thread, NULL);
    /* No thread is inside a call any more: what it kept goes at the next occasion. */
    create_events();
    destroy_events();
    expect_less(own_bytes(), before + KEPT_OF_EVENTS);
    OK(aclrtDestroyEvent(gate));
    OK(aclrtDestroyStream(one));
    OK(aclrtDestroyStream(two));
    finish_test();
}
END_TEST

/*
 * n levels, which are up, in a segment in which nothing lives once they and `events` are destroyed.
 */
static void create_levels(aclrtEvent *level, unsigned n, aclrtStream idle)
{
    for (unsigned i = 0; i < SEGMENT; i++)
        OK(aclrtCreateEvent(&events[i]));
    for (unsigned i = 0; i < n; i++) {
        OK(aclrtCreateEventWithFlag(&level[i], ACL_EVENT_SYNC));
        OK(aclrtRecordEvent(level[i], idle));
    }
    for (unsigned i = SEGMENT; i < 6 * SEGMENT; i++)
        OK(aclrtCreateEvent(&events[i]));
}

static void destroy_neighbours(void)
{
    for (unsigned i = 0; i < 6 * SEGMENT; i++)
        OK(aclrtDestroyEvent(events[i]));
}

/* Guards against a level that is lost with its page while a stream is still to look at it. */
START_TEST(a_level_stays_until_its_streams_have_passed)
{
    aclrtStream one, two;
    aclrtEvent gate, level;

    streams_open(&one, &two);
    gate = stream_hold(one);
    create_levels(&level, 1, two);
    OK(aclrtStreamWaitEvent(one, level));
    OK(aclrtDestroyEvent(level));
    destroy_neighbours();
    stream_let_go(gate);
    OK(aclrtSynchronizeStreamWithTimeout(one, GUARD_NS / 1000000));
    OK(aclrtDestroyEvent(gate));
    OK(aclrtDestroyStream(one));
    OK(aclrtDestroyStream(two));
    finish_test();
}
END_TEST

/* Of many uses in one stream the library remembers the last: the first ones pass before. */
START_TEST(levels_stay_until_the_last_of_a_stream_has_passed)
{
    enum { LEVELS = 5 };
    aclrtEvent first_gate, gate, other_gate, level[LEVELS], between;
    aclrtStream one, two;

    streams_open(&one, &two);
    OK(aclrtCreateEvent(&between));
    create_levels(level, LEVELS, two);
    first_gate = stream_hold(one);
    OK(aclrtStreamWaitEvent(one, level[0]));
    OK(aclrtRecordEvent(between, one));
    gate = stream_hold(one);
    for (unsigned i = 1; i < LEVELS - 1; i++)
        OK(aclrtStreamWaitEvent(one, level[i]));
    other_gate = stream_hold(two);
    OK(aclrtStreamWaitEvent(two, level[LEVELS - 1]));
    for (unsigned i = 0; i < LEVELS; i++)
        OK(aclrtDestroyEvent(level[i]));
    stream_let_go(first_gate);
    stream_let_go(other_gate);
    OK(aclrtSynchronizeEvent(between));
    OK(aclrtSynchronizeStreamWithTimeout(two, GUARD_NS / 1000000));
    destroy_neighbours();
    stream_let_go(gate);
    OK(aclrtSynchronizeStreamWithTimeout(one, GUARD_NS / 1000000));
    OK(aclrtDestroyEvent(first_gate));
    OK(aclrtDestroyEvent(gate));
    OK(aclrtDestroyEvent(other_gate));
    OK(aclrtDestroyEvent(between));
    OK(aclrtDestroyStream(one));
    OK(aclrtDestroyStream(two));
    finish_test();
}
END_TEST

/* --- npud --- */

#define IPC_EVENTS 2000u

static void create_ipc_events(void)
{
    for (unsigned i = 0; i < IPC_EVENTS; i++)
        OK(aclrtCreateEventExWithFlag(&events[i], ACL_EVENT_IPC));
}

START_TEST(the_heap_of_npud_goes_back)
{
    uint64_t before;

    if (!need_fds(__func__, IPC_EVENTS + 100))
        return;
    session_open();
    before = npud_bytes();
    create_ipc_events();
    ck_assert_uint_gt(npud_bytes(), before + 4 * MIB);
    for (unsigned i = 0; i < IPC_EVENTS; i++)
        OK(aclrtDestroyEvent(events[i]));
    await_npud_bytes(before + MIB);
    finish_test();
}
END_TEST

static int makes_a_peak(void *arg)
{
    (void)arg;
    session_open();
    create_ipc_events();
    create_events();
    create_streams();
    for (unsigned i = 0; i < STREAMS; i++)
        OK(aclnpudLaunchDelay(0, 0, streams[i]));
    turn_tell(&to_parent);
    pause();
    return 0;
}

START_TEST(a_killed_process_leaves_nothing)
{
    uint64_t before;
    pid_t pid;

    if (!need_fds(__func__, IPC_EVENTS + 100))
        return;
    turn_init(&to_parent);
    before = npud_bytes();
    pid = child_start(makes_a_peak, NULL);
    turn_await(&to_parent);
    ck_assert_uint_gt(npud_bytes(), before + 8 * MIB);
    child_kill(pid);
    npud_expect_empty();
    await_npud_bytes(before + MIB);
    npud_teardown();
}
END_TEST

int main(void)
{
    Suite *s = suite_create("after a peak");
    TCase *tc = suite_case(s, "streams", 60, npud_setup, NULL);

    tcase_add_test(tc, streams_without_tasks_take_no_rings);
    tcase_add_test(tc, rings_go_with_their_streams);
    tcase_add_test(tc, no_ring_of_the_next_stream_goes);
    tc = suite_case(s, "events", 60, npud_setup, NULL);
    tcase_add_test(tc, events_go_and_stale_handles_stay_stale);
    tcase_add_test(tc, sleeping_threads_keep_no_events);
#ifndef __SANITIZE_THREAD__ /* it takes the page that replaces a destroyed event's for a write */
    tcase_add_test(tc, a_late_thread_keeps_its_event);
#else
    (void)a_late_thread_keeps_its_event;
#endif
    tcase_add_test(tc, a_level_stays_until_its_streams_have_passed);
    tcase_add_test(tc, levels_stay_until_the_last_of_a_stream_has_passed);
    tc = suite_case(s, "npud", 60, npud_setup, NULL);
    tcase_add_test(tc, the_heap_of_npud_goes_back);
    tcase_add_test(tc, a_killed_process_leaves_nothing);
    return run_suite(s);
}
