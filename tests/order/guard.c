/*
 * The guards of rings in a client: client/core/ring_guard.c, compiled with
 * tests/order/hooks/ring_guard.h.
 */
#include "tests/order/atomics.h"

#include "client/core/ring_guard.h"
#include "tests/common/effort.h"
#include "tests/order/scenarios.h"

struct ring {
    unsigned mapping; /* plain */
};

static struct ring ring;
static _Atomic(struct ring *) current; /* of the queue */
static struct ring_guard *guard[2];

static void reset_guards(void)
{
    for (unsigned i = 0; i < 2; i++) {
        if (!guard[i])
            guard[i] = ring_guard_new();
        SURE(guard[i]);
        guard[i]->ring = NULL;
    }
    current = &ring;
}

static void use_ring(void)
{
    struct ring *r = atomic_load_explicit(&current, memory_order_acquire);

    ring_guard_set(guard[order_self()], r);
    if (r && atomic_load_explicit(&current, memory_order_acquire) == r)
        PLAIN_READ(&r->mapping);
    ring_guard_set(guard[order_self()], NULL);
}

static void retire_ring(void)
{
    atomic_store_explicit(&current, NULL, memory_order_release);
    if (ring_guard_barrier() && !ring_guard_is_used(&ring))
        PLAIN_WRITE(&ring.mapping);
}

/*
 * A ring that was taken from its queue is unmapped only when no thread uses it, or comes to use it.
 */
START_TEST(a_ring_in_use_stays)
{
    struct order_scenario one = {
        "guard", reset_guards, {use_ring, retire_ring}, NULL, 4, choose_effort(1000, 100000)};
    struct order_scenario two = {
        "two guards", reset_guards,        {use_ring, use_ring, retire_ring},
        NULL,         choose_effort(3, 4), choose_effort(2000, 100000)};

    expect_right(&one);
    expect_right(&two);
}
END_TEST

void guard_case(Suite *suite)
{
    TCase *t = suite_case(suite, "guards of rings", 1800, NULL, NULL);

    tcase_add_test(t, a_ring_in_use_stays);
}
