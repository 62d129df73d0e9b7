#include "client/tools/npuctl/http_accept.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define QUALITY_MAX 1000 /* three digits behind the point */
#define BLANKS      " \t"

/* What a field says of one type: what names it more exactly counts. */
struct said {
    int exact; /* 1: any type, 2: of this kind, 3: this type; 0: nothing so far */
    int quality;
};

/* 0.5 is 500. What is no number is 1. */
static int read_quality(const char *text)
{
    int quality = *text == '0' ? 0 : QUALITY_MAX, digit = QUALITY_MAX;

    if (*text == '0' && text[1] == '.')
        for (text += 2; *text >= '0' && *text <= '9' && digit > 1; text++)
            quality += (*text - '0') * (digit /= 10);
    return quality;
}

/* Of one element, up to its end: the parameter q. */
static int find_quality(const char *element, size_t n)
{
    for (const char *at = element; (at = memchr(at, ';', n - (size_t)(at - element))); at++) {
        const char *name = at + 1 + strspn(at + 1, BLANKS);

        if (name + 2 < element + n && (*name == 'q' || *name == 'Q') && name[1] == '=')
            return read_quality(name + 2);
    }
    return QUALITY_MAX;
}

/* How exactly a range (audio/ *, for one) names a type; 0: it does not. */
static int match_range(const char *range, size_t n, const char *type)
{
    size_t size = strcspn(type, ";"), kind = strcspn(type, "/") + 1;

    if (n == 3 && memcmp(range, "*/*", 3) == 0)
        return 1;
    if (n == kind + 1 && range[kind] == '*' && strncasecmp(range, type, kind) == 0)
        return 2;
    return n == size && strncasecmp(range, type, size) == 0 ? 3 : 0;
}

static void read_field(const char *value, const char *type, struct said *said)
{
    size_t end = strcspn(value, "\r\n");

    while (end > 0) {
        size_t skip = strspn(value, BLANKS ","), n;
        int exact;

        if (skip > end)
            return;
        value += skip;
        end -= skip;
        n = strcspn(value, ",\r\n");
        exact = match_range(value, strcspn(value, "; \t,\r\n"), type);
        if (exact > said->exact)
            *said = (struct said){exact, find_quality(value, n)};
        else if (exact != 0 && exact == said->exact && find_quality(value, n) > said->quality)
            said->quality = find_quality(value, n); /* another version of the same */
        value += n;
        end -= n;
    }
}

unsigned http_accept(const char *fields, const char *const *types)
{
    unsigned best = 0;
    int quality = 0;

    for (unsigned i = 0; types[i]; i++) {
        struct said said = {0, 0};
        const char *line = fields;

        for (; strncmp(line, "\r\n", 2) != 0; line = strstr(line, "\r\n") + 2)
            if (strncasecmp(line, "accept:", 7) == 0)
                read_field(line + 7, types[i], &said);
        if (said.quality > quality) {
            best = i;
            quality = said.quality;
        }
    }
    return best;
}
