/* daemon/base/busy_meter: how much of the last second was work. */
#include "daemon/base/busy_meter.h"

#include "proto/util/clock.h"
#include "unit.h"

#define T0 (100 * NSEC_PER_SEC) /* the beginning of a tenth of a second */
#define MS NSEC_PER_MSEC

static struct busy_meter meter;

static void clear_meter(void)
{
    meter = (struct busy_meter){0};
}

START_TEST(no_work)
{
    ck_assert_uint_eq(busy_meter_percent(&meter, 0), 0);
    ck_assert_uint_eq(busy_meter_percent(&meter, 5), 0);
    ck_assert_uint_eq(busy_meter_percent(&meter, T0), 0);
}
END_TEST

/* Work from and to in ms, and what is told in ms, all from T0. */
static const struct {
    uint64_t from, to, told;
    uint32_t percent;
} pieces[] = {
    {0, 500, 1000, 50},   {0, 500, 500, 50},   {250, 750, 1000, 50}, {0, 1000, 1000, 100},
    {0, 1000, 1050, 95},  {0, 500, 1300, 20},  {0, 500, 1500, 0},    {0, 500, 9000, 0},
    {0, 5000, 5000, 100}, {0, 5000, 5500, 50}, {990, 1010, 1010, 1}, {0, 0, 1000, 0},
    {300, 300, 1000, 0},  {0, 9, 1000, 0},     {0, 10, 1000, 1},
};

START_TEST(one_piece)
{
    uint64_t from = T0 + pieces[_i].from * MS, to = T0 + pieces[_i].to * MS;
    uint64_t told = T0 + pieces[_i].told * MS;

    busy_meter_add(&meter, from, to);
    ck_assert_uint_eq(busy_meter_percent(&meter, told), pieces[_i].percent);
    clear_meter();
    busy_meter_begin(&meter, from);
    busy_meter_end(&meter, to);
    ck_assert_uint_eq(busy_meter_percent(&meter, told), pieces[_i].percent);
    clear_meter();
    for (uint64_t at = from; at < to; at += MS)
        busy_meter_add(&meter, at, at + MS);
    ck_assert_uint_eq(busy_meter_percent(&meter, told), pieces[_i].percent);
}
END_TEST

START_TEST(work_that_goes_on)
{
    busy_meter_begin(&meter, T0);
    ck_assert_uint_eq(busy_meter_percent(&meter, T0 + 100 * MS), 10);
    ck_assert_uint_eq(busy_meter_percent(&meter, T0 + 100 * MS), 10);
    ck_assert_uint_eq(busy_meter_percent(&meter, T0 + 500 * MS), 50);
    ck_assert_uint_eq(busy_meter_percent(&meter, T0 + 3600 * NSEC_PER_SEC), 100);
    busy_meter_end(&meter, T0 + 3600 * NSEC_PER_SEC);
    ck_assert_uint_eq(busy_meter_percent(&meter, T0 + 3602 * NSEC_PER_SEC), 0);
}
END_TEST

START_TEST(work_at_the_same_time_counts_once)
{
    busy_meter_begin(&meter, T0);
    busy_meter_begin(&meter, T0 + 100 * MS);
    busy_meter_add(&meter, T0 + 100 * MS, T0 + 200 * MS);
    busy_meter_end(&meter, T0 + 200 * MS);
    busy_meter_end(&meter, T0 + 300 * MS);
    busy_meter_add(&meter, T0 + 250 * MS, T0 + 400 * MS);
    ck_assert_uint_eq(busy_meter_percent(&meter, T0 + 1000 * MS), 40);
}
END_TEST

/* The clock is read at different places. */
START_TEST(ends_before_it_began)
{
    busy_meter_begin(&meter, T0 + 10 * MS);
    busy_meter_end(&meter, T0);
    busy_meter_add(&meter, T0 + 10 * MS, T0 + 5 * MS);
    ck_assert_uint_eq(busy_meter_percent(&meter, T0 + 10 * MS), 0);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("busy_meter");
    TCase *t = suite_case(s, "busy_meter", 0, clear_meter, NULL);

    tcase_add_test(t, no_work);
    tcase_add_loop_test(t, one_piece, 0, (int)(sizeof(pieces) / sizeof(pieces[0])));
    tcase_add_test(t, work_that_goes_on);
    tcase_add_test(t, work_at_the_same_time_counts_once);
    tcase_add_test(t, ends_before_it_began);
    return s;
}

int main(void)
{
    return run_suite(make_suite());
}
