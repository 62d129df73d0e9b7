#include "tests/bench/growth.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/bench/bench.h"

#define ROUNDS  3
#define SAMPLES 5 /* per size and round */

/* --- what is alive --- */

static void grow_to(struct field *f, const struct operation *o, unsigned n)
{
    for (; f->n < n; f->n++)
        o->kind->add(f, &f->things[f->n]);
}

static void remove_all(struct field *f, const struct operation *o)
{
    while (f->n > 0)
        o->kind->remove(f, &f->things[--f->n]);
}

/* --- one round: all sizes, so that what else the machine does meets all of them --- */

static double sample_ns(struct field *f, const struct operation *o)
{
    unsigned acts = count_of(o->acts, 2);
    uint64_t start = now_ns();

    for (unsigned i = 0; i < acts; i++)
        o->act(f);
    return (double)(now_ns() - start) / acts / (o->per_thing ? f->n : 1);
}

static unsigned size_of_step(const struct operation *o, unsigned k)
{
    return count_of(o->sizes[k], o->sizes[k] / 50 + k + 1);
}

static void run_round(struct field *f, const struct operation *o, double ns[GROWTH_SIZES])
{
    double samples[SAMPLES], ignored;

    for (unsigned k = 0; k < GROWTH_SIZES; k++) {
        grow_to(f, o, size_of_step(o, k));
        o->act(f); /* what the first one does alone, is not of the size */
        for (unsigned i = 0; i < SAMPLES; i++)
            samples[i] = sample_ns(f, o);
        /* The best: what has slept once, or was disturbed, says nothing of the size. */
        samples_spread(samples, SAMPLES, 0, &ns[k], &ignored, &ignored);
    }
}

/* The slope of the line through the points, by least squares. */
static double exponent_of(const struct operation *o, const double ns[GROWTH_SIZES])
{
    double x, y, n = GROWTH_SIZES, sx = 0, sy = 0, sxx = 0, sxy = 0;

    for (unsigned k = 0; k < GROWTH_SIZES; k++) {
        x = log(size_of_step(o, k));
        y = log(ns[k]);
        sx += x;
        sy += y;
        sxx += x * x;
        sxy += x * y;
    }
    return (n * sxy - sx * sy) / (n * sxx - sx * sx);
}

/* --- the row --- */

static void emit_growth(const struct operation *o, double ns[GROWTH_SIZES][ROUNDS],
                        double exponents[ROUNDS])
{
    struct result r = {.budget = GROWTH_MAX};
    double median[GROWTH_SIZES], ignored;

    snprintf(r.row, sizeof(r.row), "%s", o->name);
    snprintf(r.what, sizeof(r.what), "%s", o->what);
    for (unsigned k = 0; k < GROWTH_SIZES; k++)
        samples_spread(ns[k], ROUNDS, 0, &ignored, &median[k], &ignored);
    samples_spread(exponents, ROUNDS, 0, &r.low, &ignored, &r.high);
    r.baseline_ns = r.baseline_low = r.baseline_high = median[0];
    r.value_ns = r.value_low = r.value_high = median[GROWTH_SIZES - 1];
    r.ratio = exponent_of(o, median);
    r.ok = r.ratio <= GROWTH_MAX;
    snprintf(r.note, sizeof(r.note), "exponent; %u, %u, %u alive: %.0f, %.0f, %.0f ns",
             size_of_step(o, 0), size_of_step(o, 1), size_of_step(o, 2), median[0], median[1],
             median[2]);
    result_emit(&r);
}

void growth_run(const struct operation *o)
{
    double ns[GROWTH_SIZES][ROUNDS], round[GROWTH_SIZES], exponents[ROUNDS];
    struct field *f = calloc(1, sizeof(*f));

    if (!f)
        die("out of memory");
    f->things = calloc(o->sizes[GROWTH_SIZES - 1], sizeof(*f->things));
    if (!f->things)
        die("out of memory");
    for (unsigned i = 0; i < ROUNDS; i++) {
        if (o->kind->set_up)
            o->kind->set_up(f);
        run_round(f, o, round);
        remove_all(f, o);
        if (o->kind->tear_down)
            o->kind->tear_down(f);
        for (unsigned k = 0; k < GROWTH_SIZES; k++)
            ns[k][i] = round[k];
        exponents[i] = exponent_of(o, round);
    }
    emit_growth(o, ns, exponents);
    free(f->things);
    free(f);
}
