/*
 * proto/util/copy_large: every byte, none beside them, ranges that overlap.
 *
 * Skipped under TSan: one thread.
 */

#include <string.h>

#include "proto/util/copy_large.h"
#include "tests/unit/unit.h"

#define ROOM (5 * 4096u * 4)
#define MOST (ROOM - 512)

static unsigned char source[ROOM], target[ROOM], expected[ROOM];

static void set_up_test(void)
{
    for (unsigned i = 0; i < ROOM; i++)
        source[i] = (unsigned char)(i * 2654435761u >> 24);
}

static void check_copy(size_t to, size_t from, size_t n)
{
    memset(target, 0xee, ROOM);
    memset(expected, 0xee, ROOM);
    memcpy(expected + to, source + from, n);
    copy_large(target + to, source + from, n);
    ck_assert_msg(memcmp(target, expected, ROOM) == 0, "to %zu from %zu: %zu bytes", to, from, n);
}

/* As both ends lie in lines of the cache, in numbers of bytes around what is copied at once. */
START_TEST(all_bytes_and_no_others)
{
    static const size_t sizes[] = {0,     1,     63,    64,    65,    127,   128,   129,   4096,
                                   16383, 16384, 16385, 16447, 16448, 32768, 65536, 65537, MOST};

    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
        for (size_t to = 0; to < 130; to += 1 + to % 3)
            for (size_t from = 0; from < 66; from += 1 + from % 7)
                check_copy(to, from, sizes[i]);
}
END_TEST

/* Unspecified for programs, but as memmove() here. */
START_TEST(ranges_may_overlap)
{
    for (size_t by = 1; by < 2 * 16384; by = by * 3 + 1)
        for (int up = 0; up < 2; up++) {
            size_t n = ROOM - by, to = up ? by : 0, from = by - to;

            memcpy(target, source, ROOM);
            memcpy(expected, source, ROOM);
            memmove(expected + to, expected + from, n);
            copy_large(target + to, target + from, n);
            ck_assert_msg(memcmp(target, expected, ROOM) == 0, "%zu to %zu", from, to);
        }
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("copy_large");
    TCase *t = suite_case(s, "bytes", 30, set_up_test, NULL);

    tcase_add_test(t, all_bytes_and_no_others);
    tcase_add_test(t, ranges_may_overlap);
    return s;
}

int main(void)
{
    return run_suite(make_suite());
}
