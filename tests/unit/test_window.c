/*
 * Device addresses: none overlaps another, what was given back comes again late and in any size,
 * and what is free is what is not in use.
 *
 * Skipped under TSan: one thread.
 */
#include <stdlib.h>
#include <string.h>

#include "daemon/backend/window.h"
#include "tests/common/chance.h"
#include "tests/common/suite.h"

#define FROM    (UINT64_C(16) << 40)
#define BYTES   (UINT64_C(1) << 30)
#define TO      (FROM + BYTES)
#define PAGE    UINT64_C(4096)
#define WINDOWS 3

static struct windows *windows;

static void begin(void)
{
    windows = windows_new(WINDOWS, FROM, BYTES);
    ck_assert_ptr_nonnull(windows);
}

static void end(void)
{
    windows_free(windows);
}

static uint64_t take(uint64_t size)
{
    return window_take(windows, 0, size);
}

START_TEST(a_page_is_behind_each)
{
    static const uint64_t sizes[] = {1, PAGE, PAGE + 1, 3 * PAGE, 1 << 20, (1 << 20) + 1, 1};
    uint64_t address, last = 0;

    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        address = take(sizes[i]);
        ck_assert_uint_ge(address, FROM);
        ck_assert_uint_le(address + sizes[i], TO);
        ck_assert_uint_eq(address % PAGE, 0);
        ck_assert_uint_ge(address, last);
        last = address + sizes[i] + PAGE;
    }
}
END_TEST

START_TEST(windows_do_not_overlap)
{
    for (uint32_t i = 0; i < WINDOWS; i++) {
        uint64_t address = window_take(windows, i, BYTES - 2 * PAGE);

        ck_assert_uint_eq(address, FROM + i * BYTES);
        ck_assert_uint_eq(window_take(windows, i, 2 * PAGE), 0);
    }
}
END_TEST

static bool comes_again(uint64_t address, const uint64_t last[256])
{
    for (unsigned k = 0; k < 256; k++)
        if (last[k] == address)
            return true;
    return false;
}

/* Each is given back at once: none comes again within as many as the library keeps apart. */
START_TEST(a_number_comes_again_late)
{
    static uint64_t last[256];
    uint64_t highest = 0;

    for (unsigned i = 0; i < 5000; i++) {
        uint64_t address = take(PAGE);

        ck_assert_uint_ne(address, 0);
        ck_assert(!comes_again(address, last));
        last[i % 256] = address;
        highest = address > highest ? address : highest;
        window_put(windows, 0, address);
    }
    ck_assert_uint_lt(highest, FROM + 300 * 2 * PAGE);
}
END_TEST

/* Of a full window only what was given back is there, however early. */
START_TEST(a_full_window)
{
    uint64_t half = BYTES / 2 - PAGE;
    uint64_t one = take(half), two = take(half);

    ck_assert_uint_ne(one, 0);
    ck_assert_uint_ne(two, 0);
    ck_assert_uint_eq(take(half), 0);
    ck_assert_uint_eq(take(1), 0);
    ck_assert_uint_eq(take(UINT64_C(1) << 45), 0);
    ck_assert_uint_eq(take(UINT64_MAX), 0);
    window_put(windows, 0, two);
    ck_assert_uint_eq(take(half), two);
}
END_TEST

/* One size after the other uses all of it: what is given back joins, and serves each size. */
START_TEST(free_ranges_join)
{
    static uint64_t taken[BYTES / PAGE / 2 + 1]; /* and a 0 */

    for (uint64_t size = PAGE; size < BYTES / 2; size *= 2) {
        size_t n = 0;

        while ((taken[n] = window_take(windows, 0, size)) != 0)
            n++;
        ck_assert_uint_eq(n, BYTES / (size + PAGE));
        /* Not in the order of their addresses */
        for (size_t i = 0; i < n; i += 2)
            window_put(windows, 0, taken[i]);
        for (size_t i = 1; i < n; i += 2)
            window_put(windows, 0, taken[i]);
    }
    ck_assert_uint_eq(take(BYTES - 2 * PAGE), FROM);
}
END_TEST

/* --- against a model: a byte for each page --- */

#define MODEL_PAGES 1024u
#define ALIVE       128u
#define STEPS       4000u

struct piece {
    uint64_t address, size;
};

static unsigned char pages[MODEL_PAGES];
static struct piece alive[ALIVE];
static unsigned n_alive;

static void mark(const struct piece *p, unsigned char from, unsigned char to)
{
    size_t first = (p->address - FROM) / PAGE, n = (p->size + PAGE - 1) / PAGE + 1;
    bool sound = p->address >= FROM && first + n <= MODEL_PAGES;

    for (size_t i = first; sound && i < first + n; i++) {
        sound = pages[i] == from;
        pages[i] = to;
    }
    ck_assert(sound);
}

/* Are so many pages free beside each other? */
static bool model_has(size_t n)
{
    size_t free_pages = 0;

    for (size_t i = 0; i < MODEL_PAGES; i++) {
        free_pages = pages[i] ? 0 : free_pages + 1;
        if (free_pages >= n)
            return true;
    }
    return false;
}

/* It is there if there is room for it anywhere: what waits goes when it is needed. */
static void take_piece(uint64_t *c)
{
    struct piece p = {.size = 1 + draw_below(c, (draw_below(c, 4) ? 8 : 300) * (unsigned)PAGE)};

    if (n_alive == ALIVE)
        return;
    p.address = take(p.size);
    ck_assert_int_eq(p.address != 0, model_has((p.size + PAGE - 1) / PAGE + 1));
    if (p.address == 0)
        return;
    mark(&p, 0, 1);
    alive[n_alive++] = p;
}

static void put_piece(uint64_t *c)
{
    unsigned i = draw_below(c, n_alive);

    mark(&alive[i], 1, 0);
    window_put(windows, 0, alive[i].address);
    alive[i] = alive[--n_alive];
}

/* The next npud has what is in use, in any order, and all else is free. */
static void begin_again(void)
{
    windows_free(windows);
    windows = windows_new(WINDOWS, FROM, MODEL_PAGES * PAGE);
    for (unsigned i = 0; i < n_alive; i++)
        ck_assert(window_note(windows, 0, alive[i].address, alive[i].size));
}

START_TEST(as_the_model)
{
    uint64_t c = (uint64_t)_i + 1;

    begin_again();
    for (unsigned i = 0; i < STEPS; i++) {
        if (n_alive == 0 || draw_below(&c, 100) < 52)
            take_piece(&c);
        else
            put_piece(&c);
        if (draw_below(&c, 500) == 0)
            begin_again();
    }
    while (n_alive > 0)
        put_piece(&c);
    ck_assert_uint_eq(take((MODEL_PAGES - 2) * PAGE), FROM);
}
END_TEST

START_TEST(what_was_given_out_before)
{
    ck_assert(window_note(windows, 0, FROM + (1 << 20), PAGE));
    ck_assert(window_note(windows, 0, FROM, PAGE));
    ck_assert(!window_note(windows, 0, FROM + PAGE, PAGE)); /* two have it */
    ck_assert(window_note(windows, 0, TO, PAGE));           /* of other windows */
    ck_assert_uint_eq(take(PAGE), FROM + 2 * PAGE);
    ck_assert_uint_eq(take((1 << 20) - 5 * PAGE), FROM + 4 * PAGE);
    ck_assert_uint_eq(take(1), FROM + (1 << 20) + 2 * PAGE);
    window_put(windows, 0, TO);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("window");
    TCase *t = suite_case(s, "addresses", 0, begin, end);

    tcase_add_test(t, a_page_is_behind_each);
    tcase_add_test(t, windows_do_not_overlap);
    tcase_add_test(t, a_number_comes_again_late);
    tcase_add_test(t, a_full_window);
    tcase_add_test(t, free_ranges_join);
    tcase_add_loop_test(t, as_the_model, 0, 8);
    tcase_add_test(t, what_was_given_out_before);
    return run_suite(s);
}
