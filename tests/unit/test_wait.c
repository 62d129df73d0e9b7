/*
 * Threads that sleep on a record of an IPC event (client/core/wait.h) and go to ask npud for it
 * from time to time: one timer wakes them all, each at its time.
 */
#include "client/core/wait.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>

#include "client/core/api_call.h"
#include "client/core/interrupt.h"
#include "client/core/lifecycle.h"
#include "client/core/process.h"
#include "client/core/ring_guard.h"
#include "client/core/thread.h"
#include "proto/shm/doorbell.h"
#include "proto/shm/ipc_page.h"
#include "unit.h"

/* What client/core/wait.c needs of the rest of the library. */
__thread struct thread *thread_current;
__thread aclnpudInterruptCheck interrupt_check;

struct thread *thread_new(void)
{
    return thread_current = calloc(1, sizeof(struct thread));
}

uint64_t interrupt_slice(uint64_t deadline)
{
    return deadline;
}

bool interrupt_asked(bool locked)
{
    (void)locked;
    return false;
}

bool ring_guard_barrier(void)
{
    return true;
}

union process_page process_page;
const struct upcalls *upcalls;

pid_t process_id(void)
{
    return 1;
}

/* waits.lock is a plain lock then. */
bool ring_guard_registered(void)
{
    return false;
}

/* --- the world: record 1 is pending, and stays so --- */

#define OPENER 3

static struct ipc_page page;
static struct session_page *session_page;
static struct waits waits;
static _Atomic bool lost;

static void set_up(void)
{
    uint64_t latest = ipc_latest_make(1, OPENER, IPC_PENDING);

    atomic_store(&page.latest, latest);
    atomic_store(&page.slot[1], ipc_slot_of_latest(latest));
    session_page = calloc(1, sizeof(*session_page));
    wait_init(&waits, NULL, &lost);
    waits.page = session_page;
    ck_assert_int_eq(wait_open_timer(&waits), 0);
}

static void tear_down(void)
{
    ck_assert_ptr_null(waits.first);
    wait_deinit(&waits);
    free(session_page);
}

struct sleeper {
    pthread_t thread;
    struct record_wait wait;
    int result;
    uint64_t ended;
};

static void *sleep_main(void *arg)
{
    struct sleeper *s = arg;

    s->result = wait_record(&waits, &s->wait);
    s->ended = clock_ns();
    wait_record_end(&waits, &s->wait);
    free(thread_current);
    return NULL;
}

/* ask_ms, end_ms: from start on; 0: never. */
static void begin_sleep(struct sleeper *s, uint64_t start, unsigned ask_ms, unsigned end_ms)
{
    *s = (struct sleeper){
        .wait = {.function = "test",
                 .page = &page,
                 .number = 1,
                 .known = true,
                 .ask_at = ask_ms ? start + ask_ms * NSEC_PER_MSEC : WAIT_FOREVER,
                 .deadline = end_ms ? start + end_ms * NSEC_PER_MSEC : WAIT_FOREVER},
    };
    ck_assert_int_eq(pthread_create(&s->thread, NULL, sleep_main, s), 0);
}

static void end_sleep(struct sleeper *s)
{
    pthread_join(s->thread, NULL);
}

static unsigned sleepers(void)
{
    unsigned n = 0;

    biased_lock_take(&waits.lock);
    for (unsigned i = 0; i < WAIT_SLOTS; i++)
        n += waits.slots[i / 64] >> i % 64 & 1;
    biased_lock_give(&waits.lock);
    return n;
}

static void await_sleepers(unsigned n)
{
    while (sleepers() != n)
        sched_yield();
}

static uint64_t timer_at(void)
{
    uint64_t at;

    biased_lock_take(&waits.lock);
    at = waits.timer_at;
    biased_lock_give(&waits.lock);
    return at;
}

/* As the watcher does. */
static void watch_once(void)
{
    struct pollfd p = {.fd = waits.timer, .events = POLLIN};

    ck_assert_int_eq(poll(&p, 1, (int)(GUARD_NS / NSEC_PER_MSEC)), 1);
    wait_wake_due(&waits);
}

/* --- tests --- */

/* The one that is due first comes last, and the timer is set anew for it. */
START_TEST(each_thread_wakes_when_it_is_due)
{
    static const unsigned due[] = {60, 30, 5};
    struct sleeper s[3];
    uint64_t start = clock_ns();

    for (unsigned i = 0; i < 3; i++) {
        begin_sleep(&s[i], start, due[i], 0);
        await_sleepers(i + 1);
    }
    while (sleepers() > 0) {
        watch_once();
        if (timer_at() == WAIT_FOREVER)
            break;
    }
    for (unsigned i = 0; i < 3; i++) {
        end_sleep(&s[i]);
        ck_assert_int_eq(s[i].result, -EAGAIN);
        ck_assert_uint_ge(s[i].ended, start + due[i] * NSEC_PER_MSEC);
    }
    ck_assert_uint_eq(timer_at(), WAIT_FOREVER);
}
END_TEST

/* Threads that sleep again and again: the timer that is set already does for them. */
START_TEST(the_timer_is_set_for_the_first_one_only)
{
    struct sleeper first, second;
    uint64_t start = clock_ns(), at;

    begin_sleep(&first, start, 3600000, 0);
    await_sleepers(1);
    at = timer_at();
    ck_assert_uint_eq(at, first.wait.ask_at);
    begin_sleep(&second, start, 3600001, 0);
    await_sleepers(2);
    ck_assert_uint_eq(timer_at(), at);
    atomic_store(&page.slot[1], ipc_slot_of_latest(ipc_latest_make(1, OPENER, IPC_DONE)));
    atomic_store(&page.latest, ipc_latest_make(1, OPENER, IPC_DONE));
    wait_wake_all(&waits);
    end_sleep(&first);
    end_sleep(&second);
    ck_assert_int_eq(first.result, 0);
    ck_assert_int_eq(second.result, 0);
}
END_TEST

START_TEST(a_deadline_before_that_needs_no_timer)
{
    struct sleeper s;

    begin_sleep(&s, clock_ns(), 3600000, 10);
    end_sleep(&s);
    ck_assert_int_eq(s.result, -ETIMEDOUT);
    ck_assert_uint_eq(timer_at(), WAIT_FOREVER);
}
END_TEST

/* The timer has fired, and meanwhile the thread is gone. */
START_TEST(a_timer_that_nobody_needs_is_not_set_again)
{
    struct sleeper s;

    begin_sleep(&s, clock_ns(), 1, 0);
    watch_once();
    end_sleep(&s);
    ck_assert_int_eq(s.result, -EAGAIN);
    wait_wake_due(&waits);
    ck_assert_uint_eq(timer_at(), WAIT_FOREVER);
}
END_TEST

/* A sleep that is over at once. When it is said to have begun. */
static uint64_t begin_and_end(void)
{
    struct record_wait w = {.function = "test",
                            .page = &page,
                            .number = 1,
                            .known = true,
                            .ask_at = WAIT_FOREVER,
                            .deadline = 1};

    ck_assert_int_eq(wait_record(&waits, &w), -ETIMEDOUT);
    wait_record_end(&waits, &w);
    return w.since_ns;
}

#define COUNTED (UINT64_C(1) << 21) /* sleeps, until the count begins anew */

/* npud tells sleeps apart by their times, also those that begin in the same moment. */
START_TEST(no_two_sleeps_have_the_same_time)
{
    uint64_t last = 0, since;

    waits.begun = COUNTED - 500;
    for (unsigned i = 0; i < 1000; i++, last = since) {
        since = begin_and_end();
        ck_assert_uint_ne(since, last);
    }
}
END_TEST

/* A deadlock with a sleep that is still to come would look too young to be told. */
START_TEST(a_sleep_begins_a_moment_ago)
{
    uint64_t end = clock_ns() + 50 * NSEC_PER_MSEC, since, before;

    do {
        waits.begun = COUNTED - 1;
        before = clock_ns();
        since = begin_and_end();
        ck_assert_uint_le(since, clock_ns());
        ck_assert_uint_ge(since + NSEC_PER_SEC, before);
    } while (before < end);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("waits");
    TCase *tc = suite_case(s, "waits", 0, set_up, tear_down);

    tcase_add_test(tc, each_thread_wakes_when_it_is_due);
    tcase_add_test(tc, the_timer_is_set_for_the_first_one_only);
    tcase_add_test(tc, a_deadline_before_that_needs_no_timer);
    tcase_add_test(tc, a_timer_that_nobody_needs_is_not_set_again);
    tcase_add_test(tc, no_two_sleeps_have_the_same_time);
    tcase_add_test(tc, a_sleep_begins_a_moment_ago);
    return run_suite(s);
}
