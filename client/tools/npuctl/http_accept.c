#include "client/tools/npuctl/http_accept.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define BLANKS " \t"

/* How exactly a range (audio/ *, for one) names a type. */
static int match_range(const char *range, const char *type)
{
    size_t n = strlen(range);

    if (strcmp(range, "*/*") == 0)
        return 1;
    if (n > 2 && strcmp(range + n - 2, "/*") == 0 && strncasecmp(range, type, n - 1) == 0)
        return 2;
    return n == strcspn(type, ";") && strncasecmp(range, type, n) == 0 ? 3 : 0;
}

static void read_range(char *text, const char *const types[2], struct http_accept accept[2])
{
    char *range = strsep(&text, ";"), *parameter;
    double quality = 1;

    range += strspn(range, BLANKS);
    range[strcspn(range, BLANKS)] = '\0';
    while ((parameter = strsep(&text, ";"))) {
        parameter += strspn(parameter, BLANKS);
        if (strncasecmp(parameter, "q=", 2) == 0)
            quality = strtod(parameter + 2, NULL);
    }
    for (int i = 0; i < 2; i++) {
        int exact = match_range(range, types[i]);
        bool better = exact == accept[i].exact && quality > accept[i].quality;

        if (exact > 0 && (exact > accept[i].exact || better))
            accept[i] = (struct http_accept){exact, quality};
    }
}

void http_accept_read(const char *value, const char *const types[2], struct http_accept accept[2])
{
    char *copy = strdup(value), *rest = copy;

    while (rest)
        read_range(strsep(&rest, ","), types, accept);
    free(copy);
}
