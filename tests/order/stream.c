/* Streams: submission and doorbell, publishing positions, reports of callbacks, time stamps. */
#include "tests/order/atomics.h"

#include <string.h>

#include "proto/shm/doorbell.h"
#include "proto/shm/event_shm.h"
#include "proto/shm/stream_shm.h"
#include "tests/common/effort.h"
#include "tests/order/scenarios.h"

#define DEPTH 4u
#define TASKS 2u

static struct stream_ctrl ctrl;
static struct task ring[DEPTH];
static struct doorbell bell;
static struct callback_word word;
static struct event_slot slot;
static unsigned result; /* what a task has computed: plain data */
static unsigned eventfd;
static unsigned executed;

static void reset_stream(void)
{
    memset(&ctrl, 0, sizeof(ctrl));
    memset(ring, 0, sizeof(ring));
    memset(&bell, 0, sizeof(bell));
    memset(&word, 0, sizeof(word));
    memset(&slot, 0, sizeof(slot));
    ctrl.wake_at = STREAM_WAKE_NONE;
    executed = 0;
}

/* --- submission --- */

static void submit_one(uint64_t position)
{
    struct task *entry = &ring[position % DEPTH];

    PLAIN_WRITE(entry);
    if (stream_publish_entry(&ctrl, entry, position + 1) && doorbell_raise(&bell, 3))
        order_post(&eventfd);
}

static void submit_tasks(void)
{
    for (uint64_t p = 0; p < TASKS; p++)
        submit_one(p);
}

static bool execute_ready(void)
{
    bool any = false;

    while (executed < TASKS && atomic_load_explicit(&ring[executed % DEPTH].sequence,
                                                    memory_order_acquire) == executed + 1) {
        PLAIN_READ(&ring[executed % DEPTH]);
        executed++;
        any = true;
    }
    return any;
}

/*
 * The engine: looks at the stream while it is watched, then at the bits of the session, then sleeps
 * on the eventfd.
 */
static bool engine_collect(void)
{
    uint64_t words = atomic_exchange(&bell.summary, 0);

    return words != 0 && (atomic_exchange(&bell.word[0], 0) & 1u << 3) != 0;
}

static void run_engine(void)
{
    bool stream = true, session = true;

    atomic_store_explicit(&bell.watched, 1, memory_order_relaxed);
    atomic_store_explicit(&ctrl.watched, 1, memory_order_relaxed);
    while (executed < TASKS) {
        if (session && engine_collect() && !stream) {
            atomic_store_explicit(&ctrl.watched, 1, memory_order_relaxed);
            stream = true;
        }
        if (stream && !execute_ready() && stream_unwatch(&ctrl, &ring[executed % DEPTH], executed))
            stream = false;
        if (stream)
            continue;
        if (session && !doorbell_unwatch(&bell)) {
            atomic_store(&bell.watched, 1);
            continue;
        }
        order_wait_post(&eventfd);
        session = true;
        atomic_store(&bell.watched, 1);
    }
}

/*
 * Each task that was submitted is executed once, with the entry that was written, however the
 * engine falls asleep.
 */
START_TEST(every_task_reaches_the_engine)
{
    struct order_scenario s = {"submission", reset_stream,        {submit_tasks, run_engine},
                               NULL,         choose_effort(3, 4), choose_effort(12000, 200000)};

    expect_right(&s);
}
END_TEST

/* --- positions --- */

static void await_position(uint64_t target)
{
    uint32_t seen;

    for (;;) {
        seen = atomic_load_explicit(&ctrl.wake_seq, memory_order_acquire);
        stream_arm(&ctrl, target);
        if (atomic_load_explicit(&ctrl.done, memory_order_acquire) >= target)
            return;
        FUTEX_WAIT_ON(&ctrl.wake_seq, seen);
    }
}

static bool store_done(uint64_t done)
{
    stream_store_done(&ctrl, done);
    return stream_wake_due(&ctrl, done);
}

static void publish_both(void)
{
    for (uint64_t p = 1; p <= TASKS; p++)
        if (store_done(p))
            FUTEX_WAKE_ALL(&ctrl.wake_seq);
}

static void wait_1(void)
{
    await_position(1);
}

static void wait_2(void)
{
    await_position(2);
}

static void retire_once(void)
{
    PLAIN_WRITE(&result);
    if (store_done(1))
        FUTEX_WAKE_ALL(&ctrl.wake_seq);
}

static void wait_and_read(void)
{
    await_position(1);
    PLAIN_READ(&result);
}

/* A waiter for a position is woken, and sees what the task has written. */
START_TEST(a_position_wakes_its_waiter)
{
    struct order_scenario one = {"position", reset_stream,        {retire_once, wait_and_read},
                                 NULL,       choose_effort(4, 6), choose_effort(2000, 100000)};

    expect_right(&one);
}
END_TEST

/*
 * Two waiters with different targets share wake_at and wake_seq; neither takes the other's wake-up.
 */
START_TEST(two_targets)
{
    struct order_scenario s = {"two targets", reset_stream,        {publish_both, wait_1, wait_2},
                               NULL,          choose_effort(2, 3), choose_effort(12000, 200000)};

    expect_right(&s);
}
END_TEST

/* --- reports of callbacks --- */

static void post_callback(void)
{
    PLAIN_WRITE(&result);
    atomic_store_explicit(&ctrl.callbacks, 1, memory_order_release);
    if (callback_word_post(&word))
        FUTEX_WAKE_ALL(&word.seq);
}

static void run_callback(void)
{
    uint32_t seen;

    for (;;) {
        seen = atomic_load_explicit(&word.seq, memory_order_acquire);
        callback_word_arm(&word);
        if (atomic_load_explicit(&ctrl.callbacks, memory_order_acquire) >= 1)
            break;
        FUTEX_WAIT_ON(&word.seq, seen);
    }
    PLAIN_READ(&result);
    atomic_store(&word.sleeping, 0);
}

/* The thread that runs callbacks learns of one, and sees what the stream did before. */
START_TEST(a_callback_wakes_its_thread)
{
    struct order_scenario s = {"report",
                               reset_stream,
                               {post_callback, run_callback},
                               NULL,
                               4,
                               choose_effort(2000, 100000)};

    expect_right(&s);
}
END_TEST

/* --- time stamps --- */

static void set_times(void)
{
    event_slot_set_time(&slot, 1, 100);
    event_slot_set_time(&slot, 2, 200);
}

static void get_times(void)
{
    uint64_t ns;

    for (uint64_t n = 1; n <= 2; n++)
        if (event_slot_get_time(&slot, n, &ns))
            SURE(ns == n * 100);
}

/* A reader never gets the time of another record. */
START_TEST(times_are_not_torn)
{
    struct order_scenario s = {
        "time stamp", reset_stream, {set_times, get_times}, NULL, 4, choose_effort(2000, 100000)};

    expect_right(&s);
}
END_TEST

void stream_case(Suite *suite)
{
    TCase *t = suite_case(suite, "streams", 1800, NULL, NULL);

    tcase_add_test(t, every_task_reaches_the_engine);
    tcase_add_test(t, a_position_wakes_its_waiter);
    tcase_add_test(t, two_targets);
    tcase_add_test(t, a_callback_wakes_its_thread);
    tcase_add_test(t, times_are_not_torn);
}
