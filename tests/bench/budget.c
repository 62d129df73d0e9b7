#include "tests/bench/budget.h"

#include <string.h>

#include "tests/bench/placement.h"

enum measure {
    NS,     /* the value */
    ABOVE,  /* ns that it is above its baseline */
    TIMES,  /* the ratio */
    RATE,   /* the ratio, of rates: at least so much */
    GROWTH, /* the ratio, an exponent */
};

struct limit {
    enum measure measure;
    double value;
};

#define BOTH(measure, value)                                                                       \
    {                                                                                              \
        {measure, value},                                                                          \
        {                                                                                          \
            measure, value                                                                         \
        }                                                                                          \
    }

static const struct budget {
    const char *what, *row;
    struct limit limit[PLACES];
    bool spins; /* the row's baseline is a spinning round trip: it says where its own rounds were */
} budgets[] = {
    {"query an event", "1", BOTH(NS, 3)},
    {"record without a task", "2-rec-idle", BOTH(NS, 20)},
    {"launch, queued", "2-launch-held", BOTH(NS, 20)},
    {"record with a time, queued", "2-rec-held-t", BOTH(NS, 25)},
    {"wait for a pending event, queued", "2-wait-pend", BOTH(NS, 25)},
    {"record an IPC event, queued", "2-rec-held-i", BOTH(NS, 45)},
    {"submit a task, see it done", "3", {{ABOVE, 40}, {TIMES, 1.1}}, true},
    {"a buffer", "6", BOTH(NS, 7)},
    {"a buffer, 100 at once", "6-100", BOTH(NS, 9)},
    {"a buffer, 400,000 alive", "19-buffer", BOTH(GROWTH, 0.2)},
    {"a buffer of 3 MB, 3,840 alive", "19-buffer-3m", BOTH(GROWTH, 0.2)},
    {"queue there and back", "7", {{ABOVE, 90}, {TIMES, 1.25}}, true},
    {"the same, asleep", "8", BOTH(TIMES, 1.05)},
    {"copy 64 MiB", "9", BOTH(RATE, 1.25)},
    {"control request", "10", BOTH(TIMES, 1.2)},
    {"event ping-pong asleep, beside three", "4-relay", BOTH(TIMES, 1.1)},
    {"ten sleepers on one event", "4s", BOTH(TIMES, 1.1)},
    {"wait call, 3,840 streams wait", "19-wait", BOTH(GROWTH, 0.2)},
    {"submit a task, see it done, checked", "21-task", BOTH(TIMES, 4)},
    {"launch, queued, checked", "21-launch", BOTH(NS, 250)},
    {"npu-check, per call", "21-read", BOTH(NS, 500)},
    {"an empty kernel, there and back", "22-awake", BOTH(NS, 1500)},
    {"null library: the way to it", "28", BOTH(TIMES, 1.2), true},
    {"the same, 64 tasks at once", "28-batch", BOTH(NS, 100)},
    {"the same, asleep", "28-asleep", BOTH(TIMES, 1.3)},
    {"nested, asleep", "28-nested", BOTH(TIMES, 4)},
    {"nested, 64 MiB of pinned memory", "28-copy", BOTH(RATE, 0.9)},
};

#define N_BUDGETS (sizeof(budgets) / sizeof(budgets[0]))

/* --- judging --- */

static const struct result *find_result(const struct budget *b, const struct result *results,
                                        unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        if (strcmp(results[i].row, b->row) == 0)
            return &results[i];
    return NULL;
}

/* Was it seen there? With one processor it is seen nowhere. */
static bool is_seen(const struct budget *b, const struct result *r, enum place place)
{
    return r->spin_ns > 0 && placement_of(b->spins ? r->baseline_ns : r->spin_ns) == place;
}

static double measured_by(const struct limit *limit, const struct result *r)
{
    switch (limit->measure) {
    case NS:
        return r->value_ns;
    case ABOVE:
        return r->value_ns - r->baseline_ns;
    case TIMES:
    case RATE:
    case GROWTH:
        break;
    }
    return r->ratio;
}

static bool is_met(const struct limit *limit, double value)
{
    return limit->measure == RATE ? value >= limit->value : value <= limit->value;
}

/* --- the table --- */

static const struct wording {
    const char *before, *after;
    int digits;
} wordings[] = {
    [NS] = {"", " ns of", 1},           [ABOVE] = {"spin + ", " ns of", 0},
    [TIMES] = {"", " x of", 2},         [RATE] = {"", " x, at least", 2},
    [GROWTH] = {"exponent ", " of", 2},
};

static void print_cell(const struct budget *b, const struct result *r, enum place place)
{
    const struct limit *limit = &b->limit[place];
    double value = measured_by(limit, r);
    const struct wording *w = &wordings[limit->measure];
    char text[64] = "not seen";

    if (is_seen(b, r, place))
        snprintf(text, sizeof(text), "%s%.*f%s %g %s", w->before, w->digits, value, w->after,
                 limit->value, is_met(limit, value) ? "yes" : "NO");
    if (place == NEAR)
        printf("  %-28s", text);
    else
        printf("  %s\n", text);
}

void budgets_print(const struct result *results, unsigned n)
{
    bool any = false;

    for (size_t i = 0; i < N_BUDGETS; i++) {
        const struct result *r = find_result(&budgets[i], results, n);

        if (!r)
            continue;
        if (!any)
            printf("\n%-13s %-38s  %-28s  %s\n", "row", "budget", "near", "far");
        any = true;
        printf("%-13s %-38s", budgets[i].row, budgets[i].what);
        for (enum place place = NEAR; place < PLACES; place++)
            print_cell(&budgets[i], r, place);
    }
}

/* --- JSON --- */

void budgets_write(FILE *f, const struct result *results, unsigned n)
{
    const char *comma = "";

    for (size_t i = 0; i < N_BUDGETS; i++) {
        const struct result *r = find_result(&budgets[i], results, n);

        for (enum place place = NEAR; r && place < PLACES; place++) {
            const struct limit *limit = &budgets[i].limit[place];
            double value = measured_by(limit, r);

            if (!is_seen(&budgets[i], r, place))
                continue;
            fprintf(f, "%s\n  {\"row\": \"%s\", \"what\": \"%s\", \"place\": \"%s\", ", comma,
                    budgets[i].row, budgets[i].what, place == NEAR ? "near" : "far");
            fprintf(f, "\"value\": %.4f, \"limit\": %g, \"ok\": %s}", value, limit->value,
                    is_met(limit, value) ? "true" : "false");
            comma = ",";
        }
    }
}
