#include "client/tools/npuctl/metrics_text.h"

#include <stddef.h>
#include <string.h>

/* Types that the older format does not have are written as others, and families as samples. */
static const struct type {
    const char *name, *as, *suffix; /* of the samples, which the older format says of the family */
} types[] = {
    {"gauge", "gauge", ""},
    {"counter", "counter", "_total"},
    {"info", "gauge", "_info"},
    {"gaugehistogram", "histogram", ""},
};
static const size_t n_types = sizeof(types) / sizeof(types[0]);

static const struct type *find_type(const char *name)
{
    for (size_t i = 0; i + 1 < n_types; i++)
        if (strcmp(types[i].name, name) == 0)
            return &types[i];
    return &types[n_types - 1];
}

/* Number and sum of a gauge histogram are gauges of their own: they may fall. */
static void print_sample(FILE *f, const char *line)
{
    static const char *const parts[] = {"_gcount ", "_gsum "};

    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        const char *part = strstr(line, parts[i]);

        if (part) {
            int n = (int)(part - line + (ptrdiff_t)strlen(parts[i]) - 1);

            fprintf(f, "# HELP %.*s %s\n# TYPE %.*s gauge\n", n, line,
                    i == 0 ? "How many are in the histogram." : "The sum of what is in it.", n,
                    line);
        }
    }
    fprintf(f, "%s\n", line);
}

void metrics_print_as_text(FILE *f, char *openmetrics)
{
    const struct type *type = &types[0];
    char *line, *family, *rest;

    while ((line = strsep(&openmetrics, "\n"))) {
        if (strncmp(line, "# EOF", 5) == 0)
            return;
        if (*line != '#') {
            print_sample(f, line);
            continue;
        }
        family = line + strlen("# TYPE "); /* or HELP, which comes after it */
        rest = strchr(family, ' ');
        *rest++ = '\0';
        if (line[2] == 'T') {
            type = find_type(rest);
            rest = (char *)type->as;
        }
        fprintf(f, "%.7s%s%s %s\n", line, family, type->suffix, rest);
    }
}
