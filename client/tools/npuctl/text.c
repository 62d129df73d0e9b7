#include "client/tools/npuctl/text.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>
#include <wctype.h>

/* wchar_t is unsigned on arm64: compare as what it is there and here. */
#define NO_CHARACTER ((wchar_t)-1)

#define LAST_CHARACTER 0x10ffff

/*
 * The character at s in UTF-8, or NO_CHARACTER for a byte that begins none; mbrtowc() also takes
 * what is beyond the last character, and it depends on the locale. Returns its length.
 */
static size_t read_char(const char *s, wchar_t *wc)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000}; /* of so many bytes */
    const unsigned char *u = (const unsigned char *)s;
    size_t n = *u < 0x80 ? 1 : *u < 0xc0 ? 0 : *u < 0xe0 ? 2 : *u < 0xf0 ? 3 : *u < 0xf8 ? 4 : 0;
    uint32_t c = n <= 1 ? *u : *u & (0x7fu >> n);

    for (size_t i = 1; i < n; i++) {
        if ((u[i] & 0xc0) != 0x80) /* also at the end of s */
            n = 0;
        c = c << 6 | (u[i] & 0x3f);
    }
    if (n == 0 || c < least[n] || c > LAST_CHARACTER || (c >= 0xd800 && c < 0xe000)) {
        *wc = NO_CHARACTER;
        return 1;
    }
    *wc = (wchar_t)c;
    return n;
}

/* The same, if the current locale can show it. */
static size_t read_shown_char(const char *s, wchar_t *wc)
{
    size_t n = read_char(s, wc);
    mbstate_t state = {0};

    if (mbrtowc(wc, s, n, &state) == n)
        return n;
    *wc = NO_CHARACTER;
    return 1;
}

/*
 * Control characters may not reach a terminal, nor those without a width, which could reorder or
 * hide others.
 */
static int measure_char(wchar_t wc)
{
    return wc == NO_CHARACTER || wc == L'\\' ? -1 : wcwidth(wc);
}

/* A blank between two words, and no more than one: anything else could look like columns. */
static bool joins_words(const char *begin, const char *s)
{
    return *s == ' ' && s > begin && s[-1] != ' ' && s[1] != ' ' && s[1] != '\0';
}

char *text_escape(const char *s, bool one_word, int *width)
{
    const char *begin = s;
    char *out = malloc(4 * strlen(s) + 2), *p = out;
    wchar_t wc;

    *width = 0;
    if (!out)
        return NULL;
    if (!*s)
        s = "-"; /* a column must not vanish for awk */
    while (*s) {
        size_t n = read_shown_char(s, &wc);
        int w = measure_char(wc);

        if (one_word && joins_words(begin, s)) {
            *p++ = ':';
            *width += 1;
        } else if (w > 0 && !(one_word && iswspace((wint_t)wc))) {
            p = mempcpy(p, s, n);
            *width += w;
        } else {
            for (size_t i = 0; i < n; i++)
                p += sprintf(p, "\\x%02x", (unsigned char)s[i]);
            *width += 4 * (int)n;
        }
        s += n;
    }
    *p = '\0';
    return out;
}

char *text_clean(const char *s)
{
    static const char replacement[] = "\xef\xbf\xbd"; /* U+FFFD */
    char *out = malloc(3 * strlen(s) + 1), *p = out;
    wchar_t wc;

    if (!out)
        return NULL;
    while (*s) {
        size_t n = read_char(s, &wc);
        bool bad = wc == NO_CHARACTER || (wc >= (wchar_t)0x7f && wc < (wchar_t)0xa0);

        p = bad ? stpcpy(p, replacement) : mempcpy(p, s, n);
        s += n;
    }
    *p = '\0';
    return out;
}
