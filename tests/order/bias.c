/*
 * Locks that are biased to a thread: client/core/biased_lock.c, compiled with
 * tests/order/hooks/biased_lock.h.
 */
#include "tests/order/atomics.h"

#include "client/core/biased_lock.h"
#include "tests/common/effort.h"
#include "tests/order/scenarios.h"

static struct biased_lock lock;
static unsigned data; /* plain */

static uint64_t id_of(unsigned thread)
{
    return BIASED_STRANGER + 1 + thread;
}

static void reset_lock(void)
{
    lock = (struct biased_lock){.owner = BIASED_NOT_YET};
}

/* The first thread of the scenario has had it before. */
static void reset_biased(void)
{
    lock = (struct biased_lock){.owner = id_of(0)};
}

static void use_lock(void)
{
    uint64_t self = id_of(order_self());

    SURE(biased_lock_take_as(&lock, self, NULL));
    PLAIN_WRITE(&data);
    biased_lock_give_as(&lock, self);
}

static void use_twice(void)
{
    use_lock();
    use_lock();
}

static void check_free(void)
{
    SURE(lock.held == 0 && lock.word == 0);
    SURE(lock.owner & BIASED_REVOKED);
}

/* One thread at a time has the lock, sees what the others did, and none sleeps for ever. */
START_TEST(one_thread_at_a_time)
{
    struct order_scenario first = {"who comes first", reset_lock, {use_twice, use_twice},
                                   check_free,        4,          choose_effort(3000, 200000)};
    struct order_scenario revoke = {"revocation",
                                    reset_biased,
                                    {use_twice, use_twice},
                                    check_free,
                                    4,
                                    choose_effort(3000, 200000)};
    struct order_scenario first_of_three = {
        "the first of three", reset_lock,          {use_lock, use_lock, use_lock},
        check_free,           choose_effort(2, 3), choose_effort(6000, 400000)};
    struct order_scenario two_revoke = {
        "two revocations", reset_biased,        {use_twice, use_lock, use_lock},
        check_free,        choose_effort(3, 3), choose_effort(20000, 1000000)};

    expect_right(&first);
    expect_right(&revoke);
    expect_right(&first_of_three);
    expect_right(&two_revoke);
}
END_TEST

void bias_case(Suite *suite)
{
    TCase *t = suite_case(suite, "biased locks", 1800, NULL, NULL);

    tcase_add_test(t, one_thread_at_a_time);
}
