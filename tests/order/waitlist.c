/*
 * Lists of waiters between the engines of npud: daemon/base/waitlist.c, compiled with
 * tests/order/hooks/waitlist.h.
 */
#include "tests/order/hooks/waitlist.h"

#include "daemon/base/waitlist.h"
#include "proto/shm/stream_shm.h"
#include "tests/common/effort.h"
#include "tests/order/scenarios.h"

static struct waitlist list;
static struct stream_ctrl ctrl;
static struct waiter waiters[2];
static _Atomic uint64_t done;
static unsigned result; /* plain */

static void fire_waiter(struct waiter *w)
{
    order_post(w);
}

static void reset_list(void)
{
    RB_INIT(&list.waiters);
    list.n = 0;
    for (unsigned i = 0; i < 2; i++)
        waiters[i] = (struct waiter){.fire = fire_waiter};
    done = 0;
    ctrl.wake_at = STREAM_WAKE_NONE;
}

static void advance_done(void)
{
    PLAIN_WRITE(&result);
    atomic_store_explicit(&done, 1, memory_order_release);
    waitlist_fire(&list, 0, 1, 0, 0);
}

/* As stream_publish() does it, where threads and streams wait: one fence for both. */
static void publish_position(void)
{
    PLAIN_WRITE(&result);
    atomic_store_explicit(&done, 1, memory_order_release);
    SURE(!stream_wake_due(&ctrl, 1));
    waitlist_fire_fenced(&list, 0, 1, 0, 0);
}

static void advance_twice(void)
{
    for (uint64_t n = 1; n <= 2; n++) {
        atomic_store_explicit(&done, n, memory_order_release);
        waitlist_fire(&list, 0, n, 0, 0);
    }
}

static bool is_done(const struct waiter *w)
{
    return atomic_load_explicit(&done, memory_order_relaxed) >= w->target;
}

static void advance_some(void)
{
    uint64_t next = 0;

    PLAIN_WRITE(&result);
    atomic_store_explicit(&done, 1, memory_order_release);
    while (!waitlist_fire_some(&list, &next, 1, 1, is_done))
        ;
}

static void park_waiter(struct waiter *w, uint64_t target)
{
    waitlist_add(&list, w, target);
    if (atomic_load_explicit(&done, memory_order_acquire) < target || !waitlist_remove(&list, w))
        order_wait_post(w);
}
static void park_and_read(void)
{
    park_waiter(&waiters[0], 1);
    PLAIN_READ(&result);
}
static void park_1(void)
{
    park_waiter(&waiters[0], 1);
}
static void park_2(void)
{
    park_waiter(&waiters[1], 2);
}

static void check_list(void)
{
    SURE(RB_EMPTY(&list.waiters) && list.n == 0);
}

/*
 * An engine parks a stream while another one fires the list: the stream goes on, with the results
 * that it waits for.
 */
START_TEST(nobody_stays_parked)
{
    struct order_scenario one = {"park",     reset_list, {advance_done, park_and_read},
                                 check_list, 4,          choose_effort(2000, 100000)};
    struct order_scenario some = {"fire some", reset_list, {advance_some, park_and_read},
                                  check_list,  4,          choose_effort(2000, 100000)};
    struct order_scenario position = {"publish",  reset_list, {publish_position, park_and_read},
                                      check_list, 4,          choose_effort(2000, 100000)};
    struct order_scenario two = {
        "two targets", reset_list,          {advance_twice, park_1, park_2},
        check_list,    choose_effort(2, 3), choose_effort(12000, 200000)};

    expect_right(&one);
    expect_right(&some);
    expect_right(&position);
    expect_right(&two);
}
END_TEST

void waitlist_case(Suite *suite)
{
    TCase *t = suite_case(suite, "wait lists", 1800, NULL, NULL);

    tcase_add_test(t, nobody_stays_parked);
}
