/* daemon/base/wake_cost: what counts as a costly call, and when the client must go. */
#include "daemon/base/wake_cost.h"

#include "proto/util/clock.h"
#include "unit.h"

#define COSTLY (4 * WAKE_MAX_NS)

static struct wake_cost cost;

static uint64_t run_for(uint64_t ns)
{
    uint64_t end = clock_cpu_ns() + ns;

    wake_cost_begin();
    while (clock_cpu_ns() < end)
        ;
    return wake_cost_end(&cost);
}

static uint64_t sleep_for(uint64_t ns)
{
    wake_cost_begin();
    clock_sleep_until(clock_ns() + ns);
    return wake_cost_end(&cost);
}

START_TEST(costly_calls_are_counted)
{
    uint64_t took = run_for(COSTLY);

    ck_assert_uint_gt(took, WAKE_MAX_NS);
    for (unsigned i = 1; i < WAKES_COSTLY; i++) {
        ck_assert(!wake_cost_proven(&cost));
        ck_assert_uint_gt(run_for(COSTLY), WAKE_MAX_NS);
    }
    ck_assert(wake_cost_proven(&cost));
}
END_TEST

/* The process was not running: that is nobody's fault. */
START_TEST(time_of_others_does_not_count)
{
    for (unsigned i = 0; i < 2 * WAKES_COSTLY; i++)
        ck_assert_uint_eq(sleep_for(COSTLY), 0);
    ck_assert(!wake_cost_proven(&cost));
}
END_TEST

/* What the thread did before the calls does not count either. */
START_TEST(work_before_does_not_count)
{
    sleep_for(0);
    for (uint64_t end = clock_cpu_ns() + COSTLY; clock_cpu_ns() < end;)
        ;
    ck_assert_uint_eq(sleep_for(COSTLY), 0);
}
END_TEST

/* A long call may be the machine's doing. */
START_TEST(a_cheap_call_ends_the_row)
{
    for (unsigned i = 0; i < 4 * WAKES_COSTLY; i++) {
        run_for(COSTLY);
        if (i % 2)
            sleep_for(0);
        ck_assert(!wake_cost_proven(&cost));
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("wake cost");
    TCase *t = suite_case(suite, "calls", 30, NULL, NULL);

    tcase_add_test(t, costly_calls_are_counted);
    tcase_add_test(t, time_of_others_does_not_count);
    tcase_add_test(t, work_before_does_not_count);
    tcase_add_test(t, a_cheap_call_ends_the_row);
    return run_suite(suite);
}
