/*
 * daemon/backend/lanes: whose a lane is when npud has ended between a stream's leaving it and the
 * note of that. The ring and the page outlive npud; each one has an executor object of its own.
 */
#include "daemon/backend/executors.h"

#include <stdlib.h>
#include <string.h>

#include "daemon/backend/away.h"
#include "tests/unit/unit.h"

#define BEFORE 4 /* tasks of the first lane that were there before */

static struct executor_ring *ring;
static struct executor_page *page;
static struct executors all;
static struct executor x;

static bool is_leased(void)
{
    return atomic_load(&x.leased) & 1;
}

static void restart(void)
{
    all = (struct executors){0};
    atomic_store(&all.watched, true);
    atomic_store(&all.landed_told, true);
    memset(&x, 0, sizeof(x));
    x.all = &all;
    x.ring = ring;
    x.page = page;
}

static void set_up_test(void)
{
    ring = calloc(1, sizeof(*ring));
    page = calloc(1, sizeof(*page));
    ck_assert(ring && page);
    atomic_store(&ring->bell[0].issued, BEFORE);
    atomic_store(&page->lane[0].done, BEFORE);
    restart();
}

static void tear_down_test(void)
{
    free(ring);
    free(page);
}

/* The next lease is of the first lane. */
static uint64_t lease(void)
{
    uint64_t ticket;

    ck_assert(!is_leased());
    ticket = lane_lease(&x);
    ck_assert(is_leased());
    return ticket;
}

static void do_all(uint64_t last)
{
    lane_give(&x, last);
    atomic_store(&page->lane[0].done, atomic_load(&ring->bell[0].issued));
}

START_TEST(a_lane_that_another_has_leased)
{
    bool given = _i & 1, later_first = _i & 2, drops = _i & 4;
    uint64_t left = lease(), later;

    do_all(left);
    lane_leave(&x, left, 0, false);
    later = lease();
    if (given)
        lane_give(&x, later);
    restart();
    if (later_first)
        lane_restore(&x, later, later);
    lane_restore(&x, left, left);
    if (!later_first)
        lane_restore(&x, later, later);
    ck_assert_int_eq(lane_look(&x, left), LANE_OVER);
    lane_leave(&x, left, 1, drops);
    ck_assert(is_leased());
    ck_assert_ptr_null(all.flying[1]);
    ck_assert_int_eq(lane_look(&x, later), given ? LANE_BUSY : LANE_NOT_GIVEN);
    do_all(later);
    lane_leave(&x, later, 0, false);
    ck_assert(!is_leased());
}
END_TEST

START_TEST(a_lane_that_another_has_left)
{
    uint64_t left = lease(), later;

    do_all(left);
    lane_leave(&x, left, 0, false);
    later = lease();
    do_all(later);
    lane_leave(&x, later, 0, false);
    restart();
    lane_restore(&x, left, left);
    ck_assert(!is_leased());
    ck_assert_uint_eq(lease(), later + 1);
    lane_leave(&x, left, 0, false);
    ck_assert(is_leased());
}
END_TEST

/* npud was killed when it was noted: the stream takes another one, and whoever comes this one. */
START_TEST(a_ticket_that_was_not_given)
{
    struct backend_space space = {.executor = &x};
    uint64_t ticket = lease();

    restart();
    ck_assert(!away_resume(NULL, &space, 0, ticket, ticket + 2));
    ck_assert(!is_leased());
    ck_assert_uint_eq(lease(), ticket);
    do_all(ticket);
    restart();
    ck_assert(away_resume(NULL, &space, 0, ticket, ticket));
    ck_assert(is_leased());
}
END_TEST

START_TEST(a_lane_with_more_behind)
{
    uint64_t first = lease(), last = first + 2;

    do_all(last);
    restart();
    lane_restore(&x, first + 1, last);
    lanes_finish_restoring(&x);
    for (uint64_t ticket = first + 1; ticket <= last; ticket++) {
        ck_assert(is_leased());
        ck_assert_int_eq(lane_look(&x, ticket), LANE_OVER);
        lane_leave(&x, ticket, 0, false);
    }
    ck_assert(!is_leased());
}
END_TEST

int main(void)
{
    Suite *s = suite_create("lanes");
    TCase *t = suite_case(s, "lanes", 10, set_up_test, tear_down_test);

    tcase_add_loop_test(t, a_lane_that_another_has_leased, 0, 8);
    tcase_add_test(t, a_lane_that_another_has_left);
    tcase_add_test(t, a_ticket_that_was_not_given);
    tcase_add_test(t, a_lane_with_more_behind);
    return run_suite(s);
}
