/* daemon/timers: the heap always knows the earliest deadline. */
#include "daemon/base/timers.h"

#include <stdlib.h>

#include "unit.h"

#define TIMERS 300

static struct timers timers;
static struct timer timer[TIMERS];

static void deinit_timers(void)
{
    timers_deinit(&timers);
    timers_deinit(&timers);
}

static void set_timer(unsigned i, uint64_t deadline)
{
    CHECK(timers_set(&timers, &timer[i], deadline) == 0);
}

/* Take everything out, in order. Returns how many there were. */
static unsigned drain_timers(void)
{
    uint64_t last = 0;
    struct timer *s;
    unsigned n = 0;

    while ((s = timers_first(&timers))) {
        CHECK(s->deadline >= last);
        last = s->deadline;
        timers_clear(&timers, s);
        CHECK(s->place == 0);
        n++;
    }
    return n;
}

START_TEST(empty)
{
    ck_assert_ptr_null(timers_first(&timers));
    timers_clear(&timers, &timer[0]);
    ck_assert_ptr_null(timers_first(&timers));
    ck_assert_uint_eq(timer[0].place, 0);
}
END_TEST

START_TEST(one_timer_set_moved_and_cleared)
{
    set_timer(0, 100);
    ck_assert_ptr_eq(timers_first(&timers), &timer[0]);
    ck_assert_uint_eq(timer[0].deadline, 100);
    set_timer(0, 50);
    set_timer(0, UINT64_MAX);
    ck_assert_uint_eq(timers.n, 1);
    ck_assert_uint_eq(timer[0].deadline, UINT64_MAX);
    timers_clear(&timers, &timer[0]);
    ck_assert_ptr_null(timers_first(&timers));
    timers_clear(&timers, &timer[0]);
    set_timer(0, 0);
    ck_assert_ptr_eq(timers_first(&timers), &timer[0]);
}
END_TEST

START_TEST(moving_changes_who_is_first)
{
    set_timer(0, 10);
    set_timer(1, 20);
    set_timer(2, 30);
    ck_assert_ptr_eq(timers_first(&timers), &timer[0]);
    set_timer(0, 40);
    ck_assert_ptr_eq(timers_first(&timers), &timer[1]);
    set_timer(2, 5);
    ck_assert_ptr_eq(timers_first(&timers), &timer[2]);
    timers_clear(&timers, &timer[2]);
    ck_assert_ptr_eq(timers_first(&timers), &timer[1]);
    timers_clear(&timers, &timer[1]);
    ck_assert_ptr_eq(timers_first(&timers), &timer[0]);
}
END_TEST

START_TEST(sorts_what_came_in_any_order)
{
    for (unsigned i = 0; i < TIMERS; i++)
        set_timer(i, i);
    ck_assert_uint_eq(drain_timers(), TIMERS);
    for (unsigned i = 0; i < TIMERS; i++)
        set_timer(i, TIMERS - i);
    ck_assert_uint_eq(drain_timers(), TIMERS);
    for (unsigned i = 0; i < TIMERS; i++)
        set_timer(i, 7);
    ck_assert_uint_eq(drain_timers(), TIMERS);
}
END_TEST

/* Clearing from the middle moves the last entry up or down: both must happen. */
START_TEST(clearing_any_entry_keeps_the_order)
{
    for (unsigned victim = 0; victim < 40; victim++)
        for (uint64_t seed = 1; seed <= 20; seed++) {
            uint64_t rng = seed;

            for (unsigned i = 0; i < 40; i++)
                set_timer(i, random_below(&rng, 30));
            timers_clear(&timers, timers.heap[victim]);
            CHECK(drain_timers() == 39);
        }
}
END_TEST

/* --- against a model --- */

static uint64_t model[TIMERS]; /* 1 + deadline, or 0 */

static void check_against_model(void)
{
    struct timer *first = timers_first(&timers);
    uint64_t least = UINT64_MAX;
    unsigned n = 0;

    for (unsigned i = 0; i < TIMERS; i++) {
        CHECK((timer[i].place != 0) == (model[i] != 0));
        if (model[i] == 0)
            continue;
        n++;
        CHECK(timer[i].deadline == model[i] - 1);
        CHECK(timers.heap[timer[i].place - 1] == &timer[i]);
        if (model[i] - 1 < least)
            least = model[i] - 1;
    }
    CHECK(timers.n == n);
    CHECK((first != NULL) == (n != 0));
    CHECK(!first || first->deadline == least);
}

START_TEST(random_operations_agree_with_a_model)
{
    for (uint64_t seed = 1; seed <= 5; seed++) {
        uint64_t rng = seed;
        /* Few distinct deadlines with some seeds: many are equal. */
        uint32_t range = seed % 2 ? 20 : 1000000;

        for (unsigned round = 0; round < 5000; round++) {
            unsigned i = random_below(&rng, TIMERS);
            /* A tide: mostly setting, then mostly clearing. */
            bool fill = random_below(&rng, 100) < (round / 700 % 2 ? 20 : 75);
            struct timer *first = timers_first(&timers);

            if (fill) {
                uint64_t deadline = random_below(&rng, range);

                set_timer(i, deadline);
                model[i] = deadline + 1;
            } else if (first && random_below(&rng, 2)) {
                model[first - timer] = 0;
                timers_clear(&timers, first);
            } else {
                model[i] = 0;
                timers_clear(&timers, &timer[i]);
            }
            check_against_model();
        }
        drain_timers();
        for (unsigned i = 0; i < TIMERS; i++)
            model[i] = 0;
        check_against_model();
    }
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("timers");
    TCase *t = suite_case(s, "heap", 60, NULL, deinit_timers);

    tcase_add_test(t, empty);
    tcase_add_test(t, one_timer_set_moved_and_cleared);
    tcase_add_test(t, moving_changes_who_is_first);
    tcase_add_test(t, sorts_what_came_in_any_order);
    tcase_add_test(t, clearing_any_entry_keeps_the_order);
    tcase_add_test(t, random_operations_agree_with_a_model);
    return s;
}

int main(void)
{
    return run_suite(make_suite());
}
