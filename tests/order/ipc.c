/* The page of an IPC event: records, and the threads that wait for them. */
#include "tests/order/atomics.h"

#include <string.h>

#include "proto/shm/ipc_page.h"
#include "tests/common/effort.h"
#include "tests/order/scenarios.h"

static struct ipc_page page;
static unsigned data[3]; /* what stands behind the record of this number: plain */
static uint64_t number[ORDER_THREADS];

static void reset_page(void)
{
    memset(&page, 0, sizeof(page));
    memset(number, 0, sizeof(number));
}

static void begin_pending(void)
{
    reset_page();
    number[0] = ipc_take(&page, 1, IPC_PENDING, &(uint64_t){0});
}

static void complete_record(uint64_t n)
{
    bool waiters;

    PLAIN_WRITE(&data[n]);
    SURE(ipc_complete(&page, n, 1, IPC_DONE, &waiters));
    if (waiters) {
        atomic_fetch_add_explicit(&page.wake_seq, 1, memory_order_release);
        FUTEX_WAKE_ALL(&page.wake_seq);
    }
}
static void complete_1(void)
{
    complete_record(1);
}

static void await_record(uint64_t n)
{
    uint32_t seen;

    for (;;) {
        seen = atomic_load_explicit(&page.wake_seq, memory_order_acquire);
        if (!ipc_arm(&page, n))
            break;
        FUTEX_WAIT_ON(&page.wake_seq, seen);
    }
    SURE(ipc_state_of(&page, n) == IPC_DONE);
    PLAIN_READ(&data[n]);
}
static void await_1(void)
{
    await_record(1);
}

/* A thread that waits for a record is woken, and sees what was done before the record. */
START_TEST(a_record_wakes_its_waiters)
{
    struct order_scenario one = {
        "record", begin_pending, {complete_1, await_1}, NULL, 4, choose_effort(2000, 100000)};
    struct order_scenario two = {"two waiters", begin_pending,       {complete_1, await_1, await_1},
                                 NULL,          choose_effort(2, 3), choose_effort(12000, 200000)};

    expect_right(&one);
    expect_right(&two);
}
END_TEST

static void record_event(void)
{
    unsigned self = order_self();

    number[self] = ipc_take(&page, 1, IPC_PENDING, &(uint64_t){0});
    SURE(number[self] == 1 || number[self] == 2);
    complete_record(number[self]);
}

static void read_latest(void)
{
    uint64_t latest = atomic_load_explicit(&page.latest, memory_order_acquire);

    if (ipc_latest_number(latest) != 0)
        await_record(ipc_latest_number(latest));
}

static void end_records(void)
{
    SURE(number[0] != number[1]);
    SURE(ipc_state_of(&page, 1) == IPC_DONE && ipc_state_of(&page, 2) == IPC_DONE);
}

/*
 * Two processes record at the same time, a third waits for the latest: no number twice, no state
 * lost.
 */
START_TEST(two_recorders)
{
    struct order_scenario two = {
        "two recorders", reset_page,          {record_event, record_event},
        end_records,     choose_effort(3, 4), choose_effort(12000, 200000)};
    struct order_scenario latest = {
        "latest",    reset_page,          {record_event, record_event, read_latest},
        end_records, choose_effort(1, 2), choose_effort(12000, 200000)};

    expect_right(&two);
    expect_right(&latest);
}
END_TEST

static void record_done(void)
{
    PLAIN_WRITE(&data[1]);
    ipc_take(&page, 1, IPC_DONE, &(uint64_t){0});
}

static void query_event(void)
{
    if (ipc_state_of(&page, 1) == IPC_DONE)
        PLAIN_READ(&data[1]);
}

static void query_latest(void)
{
    uint64_t latest = atomic_load_explicit(&page.latest, memory_order_acquire);

    if (ipc_latest_number(latest) == 1 && ipc_latest_state(latest) == IPC_DONE)
        PLAIN_READ(&data[1]);
}

/* A record that is complete at the call shows what its process did before. */
START_TEST(a_record_that_is_complete)
{
    struct order_scenario s = {
        "complete at once",         reset_page, {record_done, query_event, query_latest}, NULL, 3,
        choose_effort(1000, 100000)};

    expect_right(&s);
}
END_TEST

void ipc_case(Suite *suite)
{
    TCase *t = suite_case(suite, "IPC events", 1800, NULL, NULL);

    tcase_add_test(t, a_record_wakes_its_waiters);
    tcase_add_test(t, two_recorders);
    tcase_add_test(t, a_record_that_is_complete);
}
