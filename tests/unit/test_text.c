/* Text of programs, made fit for JSON and for a terminal: every sequence of up to 4 bytes. */
#include <locale.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "client/tools/npuctl/text.h"
#include "tests/common/suite.h"

/* The table of well-formed byte sequences of the Unicode standard. */
static const struct {
    unsigned char from[4], to[4];
} forms[] = {
    {{0x01}, {0x7f}},
    {{0xc2, 0x80}, {0xdf, 0xbf}},
    {{0xe0, 0xa0, 0x80}, {0xe0, 0xbf, 0xbf}},
    {{0xe1, 0x80, 0x80}, {0xec, 0xbf, 0xbf}},
    {{0xed, 0x80, 0x80}, {0xed, 0x9f, 0xbf}},
    {{0xee, 0x80, 0x80}, {0xef, 0xbf, 0xbf}},
    {{0xf0, 0x90, 0x80, 0x80}, {0xf0, 0xbf, 0xbf, 0xbf}},
    {{0xf1, 0x80, 0x80, 0x80}, {0xf3, 0xbf, 0xbf, 0xbf}},
    {{0xf4, 0x80, 0x80, 0x80}, {0xf4, 0x8f, 0xbf, 0xbf}},
};

/* Of the form at s; 0: none. */
static size_t match_form(const unsigned char *s, unsigned form)
{
    size_t n = 0;

    while (n < 4 && forms[form].from[n] != 0) {
        if (s[n] < forms[form].from[n] || s[n] > forms[form].to[n])
            return 0;
        n++;
    }
    return n;
}

static bool is_utf8(const char *text)
{
    const unsigned char *s = (const unsigned char *)text;

    while (*s) {
        size_t n = 0;

        for (unsigned i = 0; i < sizeof(forms) / sizeof(forms[0]) && n == 0; i++)
            n = match_form(s, i);
        if (n == 0)
            return false;
        s += n;
    }
    return true;
}

/* DEL, or a control character above ASCII. */
static bool has_control(const char *s)
{
    for (; *s; s++)
        if (*s == 0x7f || (s[0] == '\xc2' && (s[1] & 0xe0) == 0x80))
            return true;
    return false;
}

static void judge(const char *s)
{
    char *clean = text_clean(s), *shown;
    int width;

    ck_assert_ptr_nonnull(clean);
    ck_assert_msg(is_utf8(clean), "%02hhx %02hhx %02hhx %02hhx", s[0], s[1], s[2], s[3]);
    if (is_utf8(s) && !has_control(s))
        ck_assert_str_eq(clean, s);
    shown = text_escape(s, true, &width);
    ck_assert_ptr_nonnull(shown);
    ck_assert(is_utf8(shown));
    free(shown);
    free(clean);
}

/* The bytes at borders of the table, at each place: 23^4 sequences. */
START_TEST(every_border)
{
    static const unsigned char b[] = {0x01, 0x41, 0x5c, 0x7f, 0x80, 0x8f, 0x90, 0x9f,
                                      0xa0, 0xbf, 0xc0, 0xc1, 0xc2, 0xdf, 0xe0, 0xe1,
                                      0xed, 0xef, 0xf0, 0xf4, 0xf5, 0xf8, 0xff};
    enum { N = sizeof(b) };

    setlocale(LC_CTYPE, _i ? "C" : "C.UTF-8");
    for (unsigned n = 1, sequences = N; n <= 4; n++, sequences *= N)
        for (unsigned i = 0; i < sequences; i++) {
            char s[5] = {(char)b[i % N], (char)b[i / N % N], (char)b[i / N / N % N],
                         (char)b[i / N / N / N], 0};

            s[n] = '\0';
            judge(s);
        }
}
END_TEST

START_TEST(what_is_none_is_replaced)
{
    static const char *const none[] = {"\xf4\x90\x80\x80",
                                       "\xf5\x80\x80\x80",
                                       "\xf8\x88\x80\x80\x80",
                                       "\xed\xa0\x80",
                                       "\xfc\x84\x80\x80\x80\x80",
                                       "\xed\xbf\xbf",
                                       "\xc0\xaf",
                                       "\xe0\x80\xaf",
                                       "\xf0\x80\x80\xaf",
                                       "\xf7\xbf\xbf\xbf",
                                       "\xe2\x82",
                                       "\xff"};
    char *clean;

    setlocale(LC_CTYPE, "C.UTF-8");
    for (unsigned i = 0; i < sizeof(none) / sizeof(none[0]); i++) {
        clean = text_clean(none[i]);
        ck_assert_uint_eq(strlen(clean), 3 * strlen(none[i]));
        for (size_t at = 0; at < strlen(none[i]); at++)
            ck_assert_int_eq(memcmp(clean + 3 * at, "\xef\xbf\xbd", 3), 0);
        free(clean);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("text");
    TCase *tc = suite_case(suite, "text", 60, NULL, NULL);

    tcase_add_loop_test(tc, every_border, 0, 2);
    tcase_add_test(tc, what_is_none_is_replaced);
    return run_suite(suite);
}
