/* proto/event_shm: the level and the timestamp of a plain event. */
#include "proto/shm/event_shm.h"

#include "unit.h"

static struct event_slot slot;

static uint64_t time_of(uint64_t number)
{
    return number * 1000003;
}

START_TEST(time_is_found_by_its_number)
{
    uint64_t ns = 5;

    ck_assert(!event_slot_get_time(&slot, 0, &ns)); /* nothing was recorded: there is no time */
    ck_assert(!event_slot_get_time(&slot, 1, &ns));
    event_slot_set_time(&slot, 1, 77);
    ck_assert(event_slot_get_time(&slot, 1, &ns));
    ck_assert_uint_eq(ns, 77);
    event_slot_set_time(&slot, 4, 99);
    ns = 5;
    ck_assert(!event_slot_get_time(&slot, 1, &ns));
    ck_assert(!event_slot_get_time(&slot, 3, &ns));
    ck_assert(!event_slot_get_time(&slot, 5, &ns));
    ck_assert_uint_eq(ns, 5);
    ck_assert(event_slot_get_time(&slot, 4, &ns));
    ck_assert_uint_eq(ns, 99);
}
END_TEST

START_TEST(raises_are_counted_and_lowering_keeps_the_count)
{
    event_slot_lower(&slot);
    ck_assert_uint_eq(atomic_load(&slot.level), 0);
    for (uint64_t n = 1; n <= 5; n++) {
        event_slot_raise(&slot);
        ck_assert_uint_eq(atomic_load(&slot.level), 2 * n + EVENT_LEVEL_UP);
        if (n % 2) {
            event_slot_lower(&slot);
            event_slot_lower(&slot);
            ck_assert_uint_eq(atomic_load(&slot.level), 2 * n);
        }
    }
    ck_assert_uint_eq(atomic_load(&slot.level_waiters), 0);
    ck_assert_uint_eq(atomic_load(&slot.time_number), 0);
}
END_TEST

/* --- two threads --- */

static uint64_t number, got;
static bool found, found_old, passed;
static uint64_t count_before;

static void prepare_time(void)
{
    number++;
}

static void set_time(void)
{
    event_slot_set_time(&slot, number, time_of(number));
}

static void get_times(void)
{
    uint64_t old;

    found_old = event_slot_get_time(&slot, number - 1, &old);
    CHECK(!found_old || old == time_of(number - 1));
    found = event_slot_get_time(&slot, number, &got);
}

static void judge_time(void)
{
    CHECK(!found || got == time_of(number));
    CHECK(event_slot_get_time(&slot, number, &got) && got == time_of(number));
}

START_TEST(times_are_never_torn)
{
    static const struct duel d = {prepare_time, get_times, set_time, judge_time};

    duel_run(&d, 200);
}
END_TEST

static void prepare_level(void)
{
    event_slot_lower(&slot);
    count_before = atomic_load(&slot.level) >> 1;
    atomic_store(&slot.level_waiters, 0);
}

/* As a stream that parks (daemon/engine/execute.c): announce, then look. */
static void park_stream(void)
{
    uint64_t level;

    atomic_store(&slot.level_waiters, 1);
    level = atomic_load(&slot.level);
    passed = (level & EVENT_LEVEL_UP) || level >> 1 != count_before;
}

/* As a client that records at the call, and another that resets at once. */
static void raise_and_lower(void)
{
    event_slot_raise(&slot);
    found = atomic_load(&slot.level_waiters);
    event_slot_lower(&slot);
}

static void judge_level(void)
{
    CHECK(passed || found);
    CHECK(atomic_load(&slot.level) >> 1 == count_before + 1);
}

START_TEST(parking_stream_sees_the_raise_or_is_seen)
{
    static const struct duel d = {prepare_level, park_stream, raise_and_lower, judge_level};

    duel_run(&d, 200);
}
END_TEST

static uint64_t level_seen;

static void look_at_level(void)
{
    level_seen = atomic_load(&slot.level);
}

static void raise_level(void)
{
    event_slot_raise(&slot);
}

static void judge_raise(void)
{
    CHECK(level_seen == 2 * count_before || level_seen == 2 * (count_before + 1) + EVENT_LEVEL_UP);
}

/*
 * Guards against a raise in two steps: between them the level was up and not counted, or counted
 * and not up, and a reset that came there left the count moved for streams that parked after that
 * reset.
 */
START_TEST(a_raise_is_one_step)
{
    static const struct duel d = {prepare_level, look_at_level, raise_level, judge_raise};

    duel_run(&d, 200);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("event_shm");
    TCase *one = suite_case(s, "one thread", 0, NULL, NULL);
    TCase *duels = suite_case(s, "duels", 60, NULL, NULL);

    tcase_add_test(one, time_is_found_by_its_number);
    tcase_add_test(one, raises_are_counted_and_lowering_keeps_the_count);
    tcase_add_test(duels, times_are_never_torn);
    tcase_add_test(duels, a_raise_is_one_step);
    tcase_add_test(duels, parking_stream_sees_the_raise_or_is_seen);
    return s;
}

int main(void)
{
    return run_suite(make_suite());
}
