/* daemon/waitlist: each waiter is told once, by the first thread that reaches it. */
#include "daemon/base/waitlist.h"

#include <signal.h>
#include <stdalign.h>
#include <string.h>

#include "unit.h"

struct probe {
    struct waiter waiter; /* first: fire() gets this */
    _Atomic unsigned fired;
    unsigned order;
};

static struct waitlist list;
static unsigned order;

static void on_fire(struct waiter *waiter)
{
    struct probe *p = (struct probe *)waiter;

    CHECK(!waiter->list);
    p->order = ++order;
    atomic_fetch_add(&p->fired, 1);
}

static void init_list(void)
{
    waitlist_init(&list);
}

static void deinit_list(void)
{
    ck_assert_uint_eq(atomic_load(&list.n), 0);
    waitlist_deinit(&list);
}

static void add_probe(struct probe *p, uint64_t target)
{
    p->waiter.fire = on_fire;
    waitlist_add(&list, &p->waiter, target);
    ck_assert_ptr_eq(p->waiter.list, &list);
    ck_assert_uint_eq(p->waiter.target, target);
}

START_TEST(range_includes_both_ends)
{
    static const uint64_t targets[] = {0, 4, 5, 6, 9, 10, 11, UINT64_MAX};
    enum { N = sizeof(targets) / sizeof(targets[0]) };
    struct probe probes[N] = {0};

    for (unsigned i = 0; i < N; i++)
        add_probe(&probes[i], targets[i]);
    ck_assert_uint_eq(atomic_load(&list.n), N);
    waitlist_fire(&list, 5, 10, 0, 0);
    for (unsigned i = 0; i < N; i++) {
        bool in = targets[i] >= 5 && targets[i] <= 10;

        ck_assert_uint_eq(probes[i].fired, in);
        ck_assert_ptr_eq(probes[i].waiter.list, in ? NULL : &list);
    }
    ck_assert_uint_eq(atomic_load(&list.n), 4);
    waitlist_fire(&list, 5, 10, 0, 0);
    ck_assert_uint_eq(atomic_load(&list.n), 4);
    waitlist_fire(&list, 0, UINT64_MAX, 0, 0);
    for (unsigned i = 0; i < N; i++)
        ck_assert_uint_eq(probes[i].fired, 1);
}
END_TEST

START_TEST(empty_range_and_empty_list)
{
    struct probe p = {0};

    waitlist_fire(&list, 0, UINT64_MAX, 0, 0);
    add_probe(&p, 7);
    waitlist_fire(&list, 8, 6, 0, 0);
    waitlist_fire(&list, 0, 6, 0, 0);
    waitlist_fire(&list, 8, UINT64_MAX, 0, 0);
    ck_assert_uint_eq(p.fired, 0);
    waitlist_fire(&list, 7, 7, 0, 0);
    ck_assert_uint_eq(p.fired, 1);
}
END_TEST

START_TEST(who_fires_says_how_it_ended)
{
    struct probe good = {0}, bad = {0};

    add_probe(&good, 1);
    add_probe(&bad, 2);
    waitlist_fire(&list, 2, 2, 507899, 4711);
    ck_assert_int_eq(bad.waiter.result, 507899);
    ck_assert_int_eq(bad.waiter.pid, 4711);
    ck_assert_int_eq(good.waiter.result, 0);
    /* The next wait knows nothing of it. */
    add_probe(&bad, 3);
    ck_assert_int_eq(bad.waiter.result, 0);
    ck_assert_int_eq(bad.waiter.pid, 0);
    waitlist_fire(&list, 0, 3, 0, 0);
    ck_assert_int_eq(bad.waiter.result, 0);
}
END_TEST

/* Nearest target first; of equal targets, the waiter that came first. */
START_TEST(told_in_the_order_of_targets)
{
    static const uint64_t targets[] = {5, 3, 9, 3, 1, 5, 9, 0, 3};
    static const unsigned expected[] = {6, 5, 8, 3, 2, 7, 9, 1, 4};
    enum { N = sizeof(targets) / sizeof(targets[0]) };
    struct probe probes[N] = {0};

    for (unsigned i = 0; i < N; i++)
        add_probe(&probes[i], targets[i]);
    /* Out and in again: the last of its equals now. */
    ck_assert(waitlist_remove(&list, &probes[1].waiter));
    add_probe(&probes[1], 3);
    waitlist_fire(&list, 0, 100, 0, 0);
    for (unsigned i = 0; i < N; i++)
        ck_assert_uint_eq(probes[i].order, expected[i]);
}
END_TEST

START_TEST(random_operations_agree_with_a_model)
{
    enum { N = 200 };
    static struct probe probes[N];
    static struct {
        bool waits;
        uint64_t target;
        unsigned fired;
    } model[N];
    uint64_t rng = 23;

    for (unsigned round = 0; round < 20000; round++) {
        unsigned i = random_below(&rng, N), n = 0;

        switch (random_below(&rng, 8)) {
        case 0: {
            uint64_t first = random_below(&rng, 50), last = first + random_below(&rng, 6);

            waitlist_fire(&list, first, last, 0, 0);
            for (unsigned k = 0; k < N; k++)
                if (model[k].waits && model[k].target >= first && model[k].target <= last) {
                    model[k].waits = false;
                    model[k].fired++;
                }
            break;
        }
        case 1:
            CHECK(waitlist_remove(&list, &probes[i].waiter) == model[i].waits);
            model[i].waits = false;
            break;
        default:
            if (model[i].waits)
                break;
            model[i].waits = true;
            model[i].target = random_below(&rng, 50);
            probes[i].waiter.fire = on_fire;
            waitlist_add(&list, &probes[i].waiter, model[i].target);
        }
        for (unsigned k = 0; k < N; k++) {
            CHECK(atomic_load(&probes[k].fired) == model[k].fired);
            CHECK((probes[k].waiter.list == &list) == model[k].waits);
            n += model[k].waits;
        }
        CHECK(atomic_load(&list.n) == n);
    }
    waitlist_fire(&list, 0, UINT64_MAX, 0, 0);
}
END_TEST

/* Thousands, in orders that a client might choose; looked through without being fired. */
START_TEST(any_order_of_many)
{
    enum { N = 4096 };
    static struct probe probes[N];
    uint64_t target, expected = 0;

    for (unsigned i = 0; i < N; i++)
        add_probe(&probes[i], _i == 0   ? N - i
                              : _i == 1 ? i + 1
                                        : (i * UINT64_C(2654435761)) % N + 1);
    for (uint64_t from = 0; waitlist_next(&list, from, &target); from = target + 1)
        ck_assert_uint_eq(target, ++expected);
    ck_assert_uint_eq(expected, N);
    waitlist_fire(&list, N / 2, UINT64_MAX, 0, 0);
    ck_assert(!waitlist_next(&list, N / 2, &target));
    waitlist_fire(&list, 0, UINT64_MAX, 0, 0);
}
END_TEST

static bool is_even(const struct waiter *w)
{
    return w->target % 2 == 0;
}

/* In portions, each from where the one before ended. A waiter that is not fired stays. */
START_TEST(some_at_a_time)
{
    enum { N = 200 };
    static struct probe probes[N];
    uint64_t next = 10;
    unsigned calls = 1;

    for (unsigned i = 0; i < N; i++)
        add_probe(&probes[i], (i * 77) % N);
    while (!waitlist_fire_some(&list, &next, 149, 7, is_even))
        calls++;
    ck_assert_uint_eq(calls, 140 / 7 + 1);
    for (unsigned i = 0; i < N; i++) {
        uint64_t t = (i * 77) % N;

        ck_assert_uint_eq(atomic_load(&probes[i].fired), t % 2 == 0 && t >= 10 && t <= 149);
    }
    ck_assert_uint_eq(atomic_load(&list.n), N - 70);
    next = 150;
    ck_assert(!waitlist_fire_some(&list, &next, UINT64_MAX, 0, is_even));
    ck_assert_uint_eq(next, 150);
    waitlist_fire(&list, 0, UINT64_MAX, 0, 0);
    next = 0;
    ck_assert(waitlist_fire_some(&list, &next, UINT64_MAX, 1, is_even));
}
END_TEST

START_TEST(the_last_of_all_numbers_is_one)
{
    struct probe p = {0};
    uint64_t target;

    add_probe(&p, UINT64_MAX);
    ck_assert(waitlist_next(&list, 0, &target));
    ck_assert_uint_eq(target, UINT64_MAX);
    ck_assert(waitlist_next(&list, UINT64_MAX, &target));
    waitlist_fire(&list, UINT64_MAX, UINT64_MAX, 0, 0);
    ck_assert(!waitlist_next(&list, 0, &target));
}
END_TEST

START_TEST(remove_says_if_it_was_in_time)
{
    struct probe removed = {0}, fired = {0}, never = {0};

    ck_assert(!waitlist_remove(&list, &never.waiter));
    add_probe(&removed, 1);
    add_probe(&fired, 1);
    ck_assert(waitlist_remove(&list, &removed.waiter));
    ck_assert_ptr_null(removed.waiter.list);
    ck_assert(!waitlist_remove(&list, &removed.waiter));
    waitlist_fire(&list, 1, 1, 0, 0);
    ck_assert_uint_eq(removed.fired, 0);
    ck_assert_uint_eq(fired.fired, 1);
    ck_assert(!waitlist_remove(&list, &fired.waiter));
}
END_TEST

START_TEST(remove_from_another_list_does_nothing)
{
    struct waitlist other;
    struct probe p = {0};

    waitlist_init(&other);
    add_probe(&p, 1);
    ck_assert(!waitlist_remove(&other, &p.waiter));
    ck_assert_ptr_eq(p.waiter.list, &list);
    waitlist_deinit(&other);
    ck_assert(waitlist_remove(&list, &p.waiter));
}
END_TEST

START_TEST(ending_a_list_with_waiters_is_a_bug)
{
    static struct probe p;

    add_probe(&p, 1);
    waitlist_deinit(&list);
}
END_TEST

/* --- races --- */

static struct probe shared;
/*
 * In a line of its own, which the waiting side owns when a round begins: the other's store then
 * takes its time.
 */
static struct {
    alignas(64) _Atomic uint64_t position;
    uint64_t claims;
} line;
static alignas(64) uint64_t target;
static unsigned fired_before, fired_seen;
static bool in_time;

static void prepare_waiting(void)
{
    shared.waiter.fire = on_fire;
    fired_before = atomic_load(&shared.fired);
    waitlist_add(&list, &shared.waiter, ++target);
}

static void remove_shared(void)
{
    in_time = waitlist_remove(&list, &shared.waiter);
    /* Now, not later: false means that fire() has returned. */
    fired_seen = atomic_load(&shared.fired);
    CHECK(in_time || shared.waiter.result == (int32_t)target);
}

static void fire_target(void)
{
    waitlist_fire(&list, target, target, (int32_t)target, 0);
}

static void judge_winner(void)
{
    CHECK(fired_seen == fired_before + !in_time);
    CHECK(atomic_load(&shared.fired) == fired_seen);
    CHECK(atomic_load(&list.n) == 0);
}

START_TEST(fire_and_remove_exactly_one_wins)
{
    static const struct duel d = {prepare_waiting, remove_shared, fire_target, judge_winner};

    duel_run(&d, 300);
}
END_TEST

static void prepare_position(void)
{
    shared.waiter.fire = on_fire;
    fired_before = atomic_load(&shared.fired);
    target = atomic_load(&line.position) + 1;
    line.claims++;
}

static void add_and_test(void)
{
    waitlist_add(&list, &shared.waiter, target);
    in_time = atomic_load_explicit(&line.position, memory_order_relaxed) >= target;
}

/* As stream_publish() does. */
static void advance_and_fire(void)
{
    atomic_store_explicit(&line.position, target, memory_order_release);
    waitlist_fire(&list, 0, target, 0, 0);
}

static void judge_news(void)
{
    bool fired = atomic_load(&shared.fired) != fired_before;

    CHECK(in_time || fired);
    CHECK(waitlist_remove(&list, &shared.waiter) == !fired);
}

START_TEST(waiter_sees_the_change_or_is_fired)
{
    static const struct duel d = {prepare_position, add_and_test, advance_and_fire, judge_news};

    duel_run(&d, 300);
}
END_TEST

/*
 * As a stream that parks: add, test, take back if it came true. The position stands still until all
 * have seen their target, so that news that are lost are not replaced by later ones.
 */
#define LAP     6
#define WAITERS 3

static _Atomic bool over;
static _Atomic uint64_t finished;

static void *wait_each_lap(void *arg)
{
    uint64_t rng = (uintptr_t)arg + 1;
    struct probe me = {.waiter.fire = on_fire};

    for (uint64_t lap = 0; !atomic_load(&over); lap++) {
        uint64_t mine = lap * LAP + 1 + random_below(&rng, LAP);
        unsigned before = atomic_load(&me.fired);

        burn_time(&rng, 60);
        waitlist_add(&list, &me.waiter, mine);
        if (atomic_load_explicit(&line.position, memory_order_relaxed) < mine ||
            !waitlist_remove(&list, &me.waiter)) {
            AWAIT(atomic_load(&me.fired) == before + 1);
            /* fire() was called under the lock: pass it before touching the waiter again. */
            CHECK(!waitlist_remove(&list, &me.waiter));
            CHECK(atomic_load(&line.position) >= mine);
        }
        atomic_fetch_add(&finished, 1);
        AWAIT(atomic_load(&line.position) >= (lap + 1) * LAP);
    }
    return NULL;
}

START_TEST(news_are_not_lost_between_test_and_wait)
{
    uint64_t rng = 8, end = clock_ns() + 400 * NSEC_PER_MSEC;
    pthread_t threads[WAITERS];

    for (uintptr_t i = 0; i < WAITERS; i++)
        threads[i] = start_thread(wait_each_lap, (void *)i);
    for (uint64_t lap = 0; !atomic_load(&over); lap++) {
        for (uint64_t i = 1; i <= LAP; i++) {
            burn_time(&rng, 60);
            /* The waiters go on when they see the last position: tell them first. */
            if (i == LAP && clock_ns() >= end)
                atomic_store(&over, true);
            atomic_store_explicit(&line.position, lap * LAP + i, memory_order_release);
            waitlist_fire(&list, 0, lap * LAP + i, 0, 0);
        }
        AWAIT(atomic_load(&finished) == WAITERS * (lap + 1));
    }
    for (unsigned i = 0; i < WAITERS; i++)
        thread_join(threads[i]);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("waitlist");
    TCase *one = suite_case(s, "one thread", 0, init_list, deinit_list);
    TCase *many = suite_case(s, "races", 60, init_list, deinit_list);

    tcase_add_test(one, range_includes_both_ends);
    tcase_add_test(one, empty_range_and_empty_list);
    tcase_add_test(one, who_fires_says_how_it_ended);
    tcase_add_test(one, told_in_the_order_of_targets);
    tcase_add_test(one, random_operations_agree_with_a_model);
    tcase_add_loop_test(one, any_order_of_many, 0, 3);
    tcase_add_test(one, some_at_a_time);
    tcase_add_test(one, the_last_of_all_numbers_is_one);
    tcase_add_test(one, remove_says_if_it_was_in_time);
    tcase_add_test(one, remove_from_another_list_does_nothing);
    tcase_add_test_raise_signal(one, ending_a_list_with_waiters_is_a_bug, SIGABRT);
    tcase_add_test(many, fire_and_remove_exactly_one_wins);
    tcase_add_test(many, waiter_sees_the_change_or_is_fired);
    tcase_add_test(many, news_are_not_lost_between_test_and_wait);
    return s;
}

int main(void)
{
    return run_suite(make_suite());
}
