/* Device addresses: none overlaps another, and what was given back comes again late. */
#include <stdlib.h>

#include "daemon/backend/window.h"
#include "tests/common/suite.h"

#define FROM (UINT64_C(16) << 40)
#define TO   (FROM + (UINT64_C(1) << 30))
#define PAGE 4096u

static struct window window;

static void begin(void)
{
    window_init(&window, FROM, TO);
}

static void end(void)
{
    window_deinit(&window);
}

START_TEST(a_page_is_behind_each)
{
    static const uint64_t sizes[] = {1, PAGE, PAGE + 1, 3 * PAGE, 1 << 20, (1 << 20) + 1, 1};
    uint64_t address, last = 0;

    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        address = window_take(&window, sizes[i]);
        ck_assert_uint_ge(address, FROM);
        ck_assert_uint_le(address + sizes[i], TO);
        ck_assert_uint_eq(address % PAGE, 0);
        ck_assert_uint_ge(address, last);
        last = address + sizes[i] + PAGE;
    }
}
END_TEST

/* Each is given back at once: none comes again within as many as the library keeps apart. */
START_TEST(a_number_comes_again_late)
{
    static uint64_t last[256];

    for (unsigned i = 0; i < 2000; i++) {
        uint64_t address = window_take(&window, PAGE);

        ck_assert_uint_ne(address, 0);
        for (unsigned k = 0; k < 256; k++)
            ck_assert_uint_ne(address, last[k]);
        last[i % 256] = address;
        window_put(&window, address, PAGE);
    }
    ck_assert_uint_lt(window.next, FROM + UINT64_C(300) * 2 * PAGE);
}
END_TEST

/* Of a full window only what was given back is there, however early. */
START_TEST(a_full_window)
{
    uint64_t half = (TO - FROM) / 2 - PAGE;
    uint64_t one = window_take(&window, half), two = window_take(&window, half);

    ck_assert_uint_ne(one, 0);
    ck_assert_uint_ne(two, 0);
    ck_assert_uint_eq(window_take(&window, half), 0);
    ck_assert_uint_eq(window_take(&window, 1), 0);
    ck_assert_uint_eq(window_take(&window, UINT64_C(1) << 45), 0);
    window_put(&window, two, half);
    ck_assert_uint_eq(window_take(&window, half), two);
}
END_TEST

START_TEST(what_was_given_out_before)
{
    window_note(&window, FROM + (1 << 20), PAGE);
    window_note(&window, FROM, PAGE);
    ck_assert_uint_ge(window_take(&window, PAGE), FROM + (1 << 20) + PAGE);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("window");
    TCase *t = suite_case(s, "addresses", 0, begin, end);

    tcase_add_test(t, a_page_is_behind_each);
    tcase_add_test(t, a_number_comes_again_late);
    tcase_add_test(t, a_full_window);
    tcase_add_test(t, what_was_given_out_before);
    return run_suite(s);
}
