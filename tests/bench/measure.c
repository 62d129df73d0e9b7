/* Clock, contests, medians. */
#include "tests/bench/bench.h"
#include "tests/bench/ab.h"
#include "tests/common/process.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

struct options options;

uint64_t now_ns(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

unsigned count_of(unsigned full, unsigned smoke)
{
    return options.smoke ? smoke : full;
}

void die(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    fprintf(stderr, "bench: ");
    vfprintf(stderr, format, args);
    fprintf(stderr, "\n");
    va_end(args);
    exit(1);
}

pid_t start_process(int (*fn)(void *arg), void *arg)
{
    pid_t pid = process_start(fn, arg);

    if (pid < 0)
        die("fork: %m");
    return pid;
}

void expect_success(const char *name, int status)
{
    if (status != 0)
        die("%s ended with status %#x", name, status);
}

void check_acl(aclError error, const char *call)
{
    const char *message;

    if (error == ACL_SUCCESS)
        return;
    message = aclGetRecentErrMsg();
    die("%s: %d %s", call, error, message ? message : "");
}

void watchdog_start(unsigned seconds)
{
    alarm(seconds);
}

double side_getppid(void *arg, unsigned n)
{
    uint64_t start = now_ns();

    (void)arg;
    for (unsigned i = 0; i < n; i++)
        syscall(SYS_getppid);
    return (double)(now_ns() - start) / n;
}

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

void samples_spread(double *samples, unsigned n, unsigned tail, double *low, double *median,
                    double *high)
{
    size_t cut = (size_t)(n - 1) * tail / 100;

    qsort(samples, n, sizeof(*samples), compare_doubles);
    *low = samples[cut];
    *median = samples[(n - 1) / 2];
    *high = samples[n - 1 - cut];
}

/* All three arrays are sorted by this. */
static struct result summarise_row(const struct row *row, double *values, double *baselines,
                                   double *ratios, unsigned n, unsigned tail)
{
    struct result r = {.budget = row->budget, .at_least = row->at_least};

    snprintf(r.row, sizeof(r.row), "%s", row->name);
    snprintf(r.what, sizeof(r.what), "%s", row->what);
    samples_spread(values, n, tail, &r.value_low, &r.value_ns, &r.value_high);
    samples_spread(baselines, n, tail, &r.baseline_low, &r.baseline_ns, &r.baseline_high);
    samples_spread(ratios, n, tail, &r.low, &r.ratio, &r.high);
    r.ok =
        row->budget == BUDGET_NONE || (row->at_least ? r.ratio >= r.budget : r.ratio <= r.budget);
    return r;
}

static double *new_samples(unsigned n)
{
    double *samples = calloc(n, sizeof(*samples));

    if (!samples)
        die("out of memory");
    return samples;
}

struct result result_of_pairs(const struct row *row, double *values, double *baselines, unsigned n,
                              unsigned tail)
{
    double *ratios = new_samples(n);
    struct result result;

    for (unsigned i = 0; i < n; i++)
        ratios[i] = row->at_least ? baselines[i] / values[i] : values[i] / baselines[i];
    result = summarise_row(row, values, baselines, ratios, n, tail);
    free(ratios);
    return result;
}

struct result contest_run(const struct row *row, const struct contest *c)
{
    double *values, *baselines;
    struct result result;

    if (options.ab)
        return ab_run(row, c);
    values = new_samples(c->rounds);
    baselines = new_samples(c->rounds);
    for (unsigned i = 0; i < c->rounds; i++) {
        /* The two sides begin in turn, so that neither side always inherits the other's caches. */
        if (i % 2)
            baselines[i] = c->baseline(c->arg, c->n_baseline);
        values[i] = c->value(c->arg, c->n_value);
        if (i % 2 == 0)
            baselines[i] = c->baseline(c->arg, c->n_baseline);
    }
    result = result_of_pairs(row, values, baselines, c->rounds, 10);
    free(values);
    free(baselines);
    return result;
}

struct result result_of_samples(const struct row *row, double *samples, unsigned n,
                                double baseline_ns)
{
    double *baselines = new_samples(n);
    struct result result;

    for (unsigned i = 0; i < n; i++)
        baselines[i] = baseline_ns;
    result = result_of_pairs(row, samples, baselines, n, 10);
    free(baselines);
    return result;
}

void result_emit(const struct result *result)
{
    struct result r = *result;
    FILE *f;

    if (options.ab && !ab_is_new())
        return;
    r.spin_ns = options.spin_ns;
    f = fopen(options.results, "ab");
    if (!f || fwrite(&r, sizeof(r), 1, f) != 1 || fclose(f) != 0)
        die("%s: %m", options.results);
}

static bool is_worse(const struct result *a, const struct result *b)
{
    return a->at_least ? a->ratio < b->ratio : a->ratio > b->ratio;
}

void results_emit_worst(const char *name, const struct result *results, unsigned n)
{
    struct result worst = results[0];

    for (unsigned i = 1; i < n; i++)
        if (is_worse(&results[i], &worst))
            worst = results[i];
    snprintf(worst.note, sizeof(worst.note), "worst of those below: %s", worst.row);
    snprintf(worst.row, sizeof(worst.row), "%s", name);
    if (!options.ab)
        result_emit(&worst);
    for (unsigned i = 0; i < n; i++)
        result_emit(&results[i]);
}
