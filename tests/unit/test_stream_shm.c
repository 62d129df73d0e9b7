/*
 * proto/stream_shm: how an engine publishes positions, and how waiters sleep until they are
 * reached.
 */
#include "proto/shm/stream_shm.h"

#include <errno.h>
#include <limits.h>

#include "proto/util/futex.h"
#include "unit.h"

static struct stream_ctrl ctrl;

static void reset_ctrl(void)
{
    atomic_store(&ctrl.wake_at, STREAM_WAKE_NONE);
}

static bool store_done(uint64_t done)
{
    stream_store_done(&ctrl, done);
    return stream_wake_due(&ctrl, done);
}

/* Publish; the result must be what is expected, and wake_seq must say the same. */
static void publish_done(uint64_t done, bool wakes)
{
    uint32_t seq = atomic_load(&ctrl.wake_seq);

    ck_assert_int_eq(store_done(done), wakes);
    ck_assert_uint_eq(atomic_load(&ctrl.done), done);
    ck_assert_uint_eq(atomic_load(&ctrl.wake_seq), seq + wakes);
    if (wakes)
        ck_assert_uint_eq(atomic_load(&ctrl.wake_at), STREAM_WAKE_NONE);
}

START_TEST(nobody_is_woken_when_nobody_waits)
{
    for (uint64_t done = 0; done < 100; done++)
        publish_done(done, false);
    publish_done(UINT64_MAX - 1, false);
}
END_TEST

START_TEST(woken_once_when_the_target_is_reached)
{
    stream_arm(&ctrl, 5);
    publish_done(3, false);
    publish_done(4, false);
    publish_done(5, true);
    publish_done(6, false);
    stream_arm(&ctrl, 7);
    publish_done(6, false);
    publish_done(9, true); /* past it in one step */
    publish_done(10, false);
}
END_TEST

START_TEST(target_in_the_past_is_woken_by_the_next_publication)
{
    publish_done(10, false);
    stream_arm(&ctrl, 5);
    publish_done(11, true);
}
END_TEST

START_TEST(nearest_target_counts)
{
    stream_arm(&ctrl, 5);
    stream_arm(&ctrl, 9);
    ck_assert_uint_eq(atomic_load(&ctrl.wake_at), 5);
    stream_arm(&ctrl, 3);
    stream_arm(&ctrl, 3);
    ck_assert_uint_eq(atomic_load(&ctrl.wake_at), 3);
    publish_done(2, false);
    publish_done(4, true);
    /* A woken waiter arms again. */
    stream_arm(&ctrl, 9);
    stream_arm(&ctrl, 5);
    publish_done(5, true);
}
END_TEST

START_TEST(error_word_holds_code_and_pid)
{
    static const int32_t codes[] = {0, 1, -1, 107000, INT32_MIN, INT32_MAX};

    for (unsigned i = 0; i < sizeof(codes) / sizeof(codes[0]); i++)
        for (int64_t pid = 0; pid < (int64_t)STREAM_ERROR_PIDS; pid = pid * 255 + 1) {
            uint64_t word = stream_error_make(codes[i], (int32_t)pid);

            ck_assert_int_eq(stream_error_pid(word), pid);
            ck_assert_int_eq(stream_error_code(word), codes[i]);
            word = stream_error_numbered(codes[i], (int32_t)pid, pid + 1500);
            ck_assert_int_eq(stream_error_pid(word), pid);
            ck_assert_int_eq(stream_error_code(word), codes[i]);
            ck_assert(stream_error_has_number(word, pid + 1500));
            ck_assert(!stream_error_has_number(word, pid + 1501));
        }
}
END_TEST

/* --- arming while the engine publishes --- */

static uint64_t goal, seen_done;
static uint32_t seq_before;
static bool woke;

static void prepare_unarmed(void)
{
    goal = atomic_load(&ctrl.done) + 1;
}

static void publish_target(void)
{
    woke = store_done(goal);
}

static void arm_target(void)
{
    stream_arm(&ctrl, goal);
    seen_done = atomic_load_explicit(&ctrl.done, memory_order_relaxed);
}

static void judge_target(void)
{
    CHECK(woke || seen_done >= goal);
    atomic_store(&ctrl.wake_at, STREAM_WAKE_NONE); /* if it was too late to wake */
}

START_TEST(waiter_sees_done_or_engine_sees_waiter)
{
    static const struct duel d = {prepare_unarmed, arm_target, publish_target, judge_target};

    duel_run(&d, 200);
}
END_TEST

/*
 * Another waiter has armed a lower target, and is being woken: the one of this waiter must not go
 * with it.
 */
static void prepare_armed(void)
{
    goal = atomic_load(&ctrl.done) + 2;
    seq_before = atomic_load(&ctrl.wake_seq);
    stream_arm(&ctrl, goal - 1);
}

static void publish_both(void)
{
    CHECK(store_done(goal - 1));
    /* Time for the other thread to see wake_seq, and to arm before the next. */
    for (volatile int i = 0; i < 100; i++)
        ;
    woke = store_done(goal);
}

static void arm_as_soon_as_woken(void)
{
    for (unsigned spins = 0; atomic_load(&ctrl.wake_seq) == seq_before; spins++)
        if (spins % 1024 == 1023)
            sched_yield();
    arm_target();
}

START_TEST(who_arms_after_a_wakeup_is_not_forgotten)
{
    static const struct duel d = {prepare_armed, arm_as_soon_as_woken, publish_both, judge_target};

    duel_run(&d, 200);
}
END_TEST

/* --- engine and waiters --- */

/*
 * The engine publishes positions in laps. Every waiter has a target in each lap, and the engine
 * begins the next only when all have seen theirs: a wake-up that is lost is not made good by a
 * later one.
 */
#define LAP     8
#define WAITERS 4

static _Atomic bool over;
static _Atomic uint64_t arms, sleeps, finished;

/* As client/core/wait.c does. */
static void wait_position(uint64_t target)
{
    struct timespec ts = timespec_from_ns(clock_ns() + GUARD_NS);

    while (atomic_load_explicit(&ctrl.done, memory_order_acquire) < target) {
        uint32_t seen = atomic_load_explicit(&ctrl.wake_seq, memory_order_acquire);

        stream_arm(&ctrl, target);
        atomic_fetch_add_explicit(&arms, 1, memory_order_relaxed);
        if (atomic_load_explicit(&ctrl.done, memory_order_acquire) >= target)
            return;
        atomic_fetch_add_explicit(&sleeps, 1, memory_order_relaxed);
        if (futex_wait_until(&ctrl.wake_seq, seen, &ts) == -ETIMEDOUT)
            ck_abort_msg("wake-up lost: target %llu, done %llu, wake_at %llu",
                         (unsigned long long)target, (unsigned long long)atomic_load(&ctrl.done),
                         (unsigned long long)atomic_load(&ctrl.wake_at));
    }
}

static void *run_waiter(void *arg)
{
    uint64_t rng = (uintptr_t)arg + 1;

    for (uint64_t lap = 0; !atomic_load(&over); lap++) {
        burn_time(&rng, 200);
        wait_position(lap * LAP + 1 + random_below(&rng, LAP));
        atomic_fetch_add(&finished, 1);
        /* Not before the lap is over: the end is announced together with a lap's last position. */
        wait_position((lap + 1) * LAP);
        atomic_fetch_add(&finished, 1);
    }
    return NULL;
}

static void run_laps(unsigned waiters)
{
    uint64_t rng = 31, wakes = 0, end = clock_ns() + 500 * NSEC_PER_MSEC;
    pthread_t threads[WAITERS];

    for (uintptr_t i = 0; i < waiters; i++)
        threads[i] = start_thread(run_waiter, (void *)i);
    for (uint64_t lap = 0; !atomic_load(&over); lap++) {
        for (uint64_t i = 1; i <= LAP; i++) {
            burn_time(&rng, 100);
            if (i == LAP && clock_ns() >= end)
                atomic_store(&over, true);
            if (store_done(lap * LAP + i)) {
                wakes++;
                futex_wake_all(&ctrl.wake_seq);
            }
        }
        AWAIT(atomic_load(&finished) == 2 * waiters * (lap + 1));
    }
    for (unsigned i = 0; i < waiters; i++)
        thread_join(threads[i]);
    ck_assert_uint_eq(atomic_load(&ctrl.wake_seq), (uint32_t)wakes);
    ck_assert_uint_le(wakes, atomic_load(&arms)); /* never without a waiter that asked */
    ck_assert_uint_gt(atomic_load(&sleeps), 0);
    ck_assert_uint_gt(wakes, 0);
}

START_TEST(no_wakeup_is_lost_with_one_waiter)
{
    run_laps(1);
}
END_TEST

START_TEST(no_wakeup_is_lost_with_many_waiters)
{
    run_laps(WAITERS);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("stream_shm");
    TCase *one = suite_case(s, "one thread", 0, reset_ctrl, NULL);
    TCase *duels = suite_case(s, "duels", 60, reset_ctrl, NULL);
    TCase *many = suite_case(s, "engine and waiters", 60, reset_ctrl, NULL);

    tcase_add_test(one, nobody_is_woken_when_nobody_waits);
    tcase_add_test(one, woken_once_when_the_target_is_reached);
    tcase_add_test(one, target_in_the_past_is_woken_by_the_next_publication);
    tcase_add_test(one, nearest_target_counts);
    tcase_add_test(one, error_word_holds_code_and_pid);
    tcase_add_test(duels, waiter_sees_done_or_engine_sees_waiter);
    tcase_add_test(duels, who_arms_after_a_wakeup_is_not_forgotten);
    tcase_add_test(many, no_wakeup_is_lost_with_one_waiter);
    tcase_add_test(many, no_wakeup_is_lost_with_many_waiters);
    return s;
}

int main(void)
{
    return run_suite(make_suite());
}
