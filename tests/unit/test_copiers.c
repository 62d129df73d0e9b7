/*
 * daemon/backend/copiers: what is lent comes back, is told of once and to its own device, and no
 * engine sleeps through it. The test is the engines.
 */
#include "daemon/backend/copiers.h"

#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "daemon/backend/mapped.h"
#include "daemon/base/filled.h"
#include "daemon/base/memfd.h"
#include "tests/common/need.h"
#include "tests/unit/unit.h"

#define SIZE  (UINT64_C(10) << 20) /* COPY_LARGE, and more than is lent at once */
#define LARGE (UINT64_C(64) << 10) /* a slice */

static struct copiers *copiers;
static int wake[2];
static struct mapped *from, *to;
static unsigned n_over;
static struct work *over;

static int watch(void *arg, uint32_t device, int fd)
{
    ck_assert_ptr_null(arg);
    wake[device] = fd;
    return 0;
}

static struct mapped *memory_new(bool counted)
{
    int fd = memfd_new("test", SIZE);
    struct mapped *m = mapped_new(fd, SIZE, counted);

    ck_assert_ptr_nonnull(m);
    ck_assert(mapped_usable(m));
    return m;
}

static unsigned char byte_at(uint64_t i)
{
    return (unsigned char)(i * 7 + (i >> 12));
}

static void begin(unsigned n)
{
    copiers = copiers_new(n, 2, watch, NULL);
    ck_assert_ptr_nonnull(copiers);
    from = memory_new(false);
    to = memory_new(false);
    for (uint64_t i = 0; i < SIZE; i++)
        *mapped_at(from, i) = byte_at(i);
}

static void set_up(void)
{
    begin(2);
}

static void tear_down(void)
{
    copiers_free(copiers);
}

static struct work copy_work(uint64_t size)
{
    return (struct work){.kind = WORK_COPY, .size = size};
}

static void note_over(struct work *work)
{
    over = work;
    n_over++;
}

static unsigned poll_device(uint32_t device)
{
    n_over = 0;
    copiers_poll(copiers, device, note_over);
    return n_over;
}

static bool is_written(uint32_t device)
{
    struct pollfd p = {.fd = wake[device], .events = POLLIN};
    uint64_t count;

    return poll(&p, 1, 0) == 1 && read(wake[device], &count, sizeof(count)) == sizeof(count);
}

/* It looks, but does not go to sleep. */
static bool may_sleep(uint32_t device)
{
    bool may = copiers_sleep(copiers, device, true);

    copiers_sleep(copiers, device, false);
    return may;
}

static bool is_copied(uint64_t size)
{
    for (uint64_t i = 0; i < SIZE; i++)
        if (*mapped_at(to, i) != (i < size ? byte_at(i) : 0))
            return false;
    return true;
}

/* In parts, each with its end; what is not lent stays as it was. */
START_TEST(what_is_lent_comes_back_done)
{
    struct work w = copy_work(SIZE - 5);
    unsigned loans = 0;

    for (; w.progress < w.size; loans++) {
        uint64_t before = w.progress;

        ck_assert(copiers_lend(copiers, 0, &w, to, from));
        AWAIT(copiers_recall(copiers, 0, &w, false));
        ck_assert_uint_gt(w.progress, before);
        ck_assert(is_copied(w.progress));
        ck_assert(copiers_recall(copiers, 0, &w, false)); /* it is not lent */
    }
    ck_assert_uint_eq(w.progress, w.size);
    ck_assert_uint_eq(loans, 3);
}
END_TEST

START_TEST(there_are_so_many)
{
    struct work w[3];

    for (unsigned i = 0; i < 3; i++) {
        w[i] = copy_work(SIZE / 3);
        w[i].dst.offset = i * (SIZE / 3);
    }
    ck_assert(copiers_lend(copiers, 0, &w[0], to, from));
    ck_assert(copiers_lend(copiers, 1, &w[1], to, from));
    ck_assert(!copiers_lend(copiers, 0, &w[2], to, from));
    AWAIT(copiers_recall(copiers, 1, &w[1], false));
    ck_assert(copiers_lend(copiers, 0, &w[2], to, from));
    ck_assert(copiers_recall(copiers, 0, &w[0], true));
    ck_assert(copiers_recall(copiers, 0, &w[2], true));
}
END_TEST

/* Once for each loan, to the device that has lent it; and that one does not sleep before. */
START_TEST(its_device_is_told_once)
{
    struct work w = copy_work(SIZE);

    for (uint32_t device = 0; device < 2; device++) {
        for (unsigned i = 0; i < 2; i++) {
            ck_assert(copiers_lend(copiers, device, &w, to, from));
            AWAIT(!may_sleep(device));
            ck_assert(may_sleep(!device));
            ck_assert_uint_eq(poll_device(!device), 0);
            ck_assert_uint_eq(poll_device(device), 1);
            ck_assert_ptr_eq(over, &w);
            ck_assert_uint_eq(poll_device(device), 0);
            ck_assert(may_sleep(device));
            ck_assert(copiers_recall(copiers, device, &w, false));
            ck_assert_uint_eq(poll_device(device), 0);
            w.progress = 0;
        }
    }
}
END_TEST

/* Also while another device's copier is through. */
START_TEST(other_devices_are_not_told)
{
    struct work a = copy_work(SIZE), b = copy_work(LARGE);

    ck_assert(copiers_lend(copiers, 1, &b, to, from));
    AWAIT(!may_sleep(1));
    ck_assert(copiers_lend(copiers, 0, &a, to, from));
    AWAIT(!may_sleep(0));
    ck_assert_uint_eq(poll_device(0), 1);
    ck_assert_ptr_eq(over, &a);
    ck_assert(copiers_recall(copiers, 0, &a, false));
    ck_assert_uint_eq(poll_device(1), 1);
    ck_assert_ptr_eq(over, &b);
    ck_assert(copiers_recall(copiers, 1, &b, false));
}
END_TEST

START_TEST(an_engine_that_sleeps_is_woken)
{
    struct work w = copy_work(SIZE);

    for (uint32_t device = 0; device < 2; device++) {
        ck_assert(copiers_lend(copiers, device, &w, to, from));
        if (copiers_sleep(copiers, device, true))
            AWAIT(is_written(device));
        ck_assert_uint_eq(poll_device(device), 1);
        copiers_sleep(copiers, device, false);
        ck_assert(copiers_recall(copiers, device, &w, false));
        w.progress = 0;
    }
}
END_TEST

/* From then on nothing is written, and what was is counted. */
START_TEST(what_is_cut_short_stops)
{
    uint64_t chance = 5;

    for (unsigned i = 0; i < 200; i++) {
        struct work w = {.kind = WORK_SET, .size = SIZE, .value = 1};

        ck_assert(copiers_lend(copiers, 0, &w, to, NULL));
        burn_time(&chance, 100000);
        ck_assert(copiers_recall(copiers, 0, &w, true));
        for (uint64_t k = 0; k < SIZE; k += 64)
            ck_assert_int_eq(*mapped_at(to, k), k < w.progress);
        memset(mapped_at(to, 0), 0, w.progress);
        ck_assert_uint_eq(poll_device(0), 0);
    }
}
END_TEST

/* It comes back with them, so that they are charged before there are more. */
START_TEST(pages_that_it_fills_are_told)
{
    struct work w = {.kind = WORK_SET, .size = SIZE, .value = 1};
    static struct mapped *m; /* kept, as `from` and `to` are */

    filled_init();
    m = memory_new(true);
    *mapped_at(m, SIZE - 1) = 1;
    if (filled_take() == 0) {
        need_lacks(__func__, "userfaultfd(2)");
        return;
    }
    for (unsigned i = 0; i < 2; i++) {
        uint64_t before = w.progress;

        ck_assert(copiers_lend(copiers, 0, &w, m, NULL));
        if (i == 0)
            AWAIT(copiers_recall(copiers, 0, &w, false));
        else
            ck_assert(copiers_recall(copiers, 0, &w, true));
        ck_assert_uint_gt(w.progress, before);
        ck_assert_uint_le(w.progress, before + LARGE);
        ck_assert(filled_any());
        ck_assert_uint_eq(filled_take(), w.progress - before);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("copiers");
    TCase *c = suite_case(suite, "all", 60, set_up, tear_down);

    tcase_add_test(c, what_is_lent_comes_back_done);
    tcase_add_test(c, there_are_so_many);
    tcase_add_test(c, its_device_is_told_once);
    tcase_add_test(c, other_devices_are_not_told);
    tcase_add_test(c, an_engine_that_sleeps_is_woken);
    tcase_add_test(c, what_is_cut_short_stops);
    tcase_add_test(c, pages_that_it_fills_are_told);
    return run_suite(suite);
}
