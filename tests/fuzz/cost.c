#include "tests/fuzz/snapshot/kept.h"

#include "cost.h"

#include <time.h>

#include "daemon/base/schedule.h"
#include "daemon/base/step_meter.h"
#include "proto/util/clock.h"
#include "surroundings.h"

static struct step longest;     /* of the run */
static struct step longest_all; /* of all inputs that were no findings */
static uint64_t executions;
static clockid_t step_clock = CLOCK_MONOTONIC; /* CLOCK_THREAD_CPUTIME_ID: the run is judged */
static struct {
    uint64_t now;    /* of the input */
    uint64_t cpu;    /* by step_clock */
} begun;             /* the step that runs; now is 0 before the first */
static uint64_t own; /* time that the fuzzer has taken for itself */

/* clang-format off */
void __real_step_meter_judge(struct step_meter *meter, uint64_t now, const struct step *step);
void __wrap_step_meter_judge(struct step_meter *meter, uint64_t now, const struct step *step);
void __wrap_step_meter_read(struct step_meter *meter, uint64_t now);
int __real_clock_gettime(clockid_t id, struct timespec *ts);
/* clang-format on */

/* The machine's. */
static uint64_t read_clock(clockid_t id)
{
    struct timespec ts;

    MUST(__real_clock_gettime(id, &ts) == 0);
    return (uint64_t)ts.tv_sec * NSEC_PER_SEC + (uint64_t)ts.tv_nsec;
}

static uint64_t read_step_clock(void)
{
    return read_clock(step_clock) - own;
}

/*
 * Read at each beginning, because one thread is all of npud here: what an engine has done meanwhile
 * is no part of a step of the control thread.
 */
void __wrap_step_meter_read(struct step_meter *meter, uint64_t now)
{
    (void)now;
    meter->cpu = read_step_clock();
    meter->read = 0;
    begun.now = surroundings.now;
    begun.cpu = meter->cpu;
}

uint64_t cost_own_begin(void)
{
    return read_clock(step_clock);
}

void cost_own_end(uint64_t since)
{
    own += read_clock(step_clock) - since;
}

uint64_t cost_clock(uint64_t now)
{
    uint64_t true_now;

    if (step_clock != CLOCK_THREAD_CPUTIME_ID || begun.now == 0)
        return now;
    true_now = begun.now + (read_step_clock() - begun.cpu);
    return now > true_now ? now : true_now;
}

/* npud notes a step that is long by the clock of the input; the oracle judges all. */
void __wrap_step_meter_judge(struct step_meter *meter, uint64_t now, const struct step *judged)
{
    struct step step = *judged;

    step.ns = read_step_clock() - meter->cpu;
    if (step.ns > longest.ns)
        longest = step;
    __real_step_meter_judge(meter, now, judged);
    meter->longest.ns = meter->look_ns = 0;
    meter->read = 0;
}

static void print_step(const char *begin, const struct step *step)
{
    dprintf(2, "%s %llu us: \"%s\" (%u) of uid %u\n", begin,
            (unsigned long long)(step->ns / NSEC_PER_USEC), step->what, (unsigned)step->detail,
            (unsigned)step->uid);
}

__attribute__((destructor)) static void print_totals(void)
{
    uint64_t cpu = read_clock(CLOCK_PROCESS_CPUTIME_ID);

    if (executions > 0)
        dprintf(2, "executions: %llu in %llu ms of CPU time, %llu per second\n",
                (unsigned long long)executions, (unsigned long long)(cpu / 1000000),
                (unsigned long long)(executions * NSEC_PER_SEC / (cpu + 1)));
    if (longest_all.what)
        print_step("longest step:", &longest_all);
}

/*
 * Its longest step is to be judged exactly. By this clock, it is never shorter than by CPU time.
 * Steps that npud's own limit allows are noted as they are: to judge all that seem the longest so
 * far would cost a tenth of the rate.
 */
static bool run_seems_long(void (*run)(struct input *in), struct input in)
{
    uint64_t cpu = read_clock(CLOCK_THREAD_CPUTIME_ID), wall = read_clock(CLOCK_MONOTONIC);
    uint64_t most, lost;

    step_clock = CLOCK_MONOTONIC;
    longest = (struct step){0};
    run(&in);
    wall = read_clock(CLOCK_MONOTONIC) - wall;
    cpu = read_clock(CLOCK_THREAD_CPUTIME_ID) - cpu;
    most = longest.ns < cpu ? longest.ns : cpu;
    lost = wall > cpu ? wall - cpu : 0;
    longest.ns = longest.ns > lost ? longest.ns - lost : 0;
    if (most > COST_MAX_NS)
        return true;
    if (longest.ns <= longest_all.ns)
        return false;
    if (longest.ns > STEP_MAX_NS)
        return true;
    longest_all = longest;
    return false;
}

static struct step run_exactly(void (*run)(struct input *in), struct input in)
{
    step_clock = CLOCK_THREAD_CPUTIME_ID;
    begun.now = 0;
    longest = (struct step){0};
    run(&in);
    return longest;
}

int cost_judge(void (*run)(struct input *in), const uint8_t *data, size_t size)
{
    struct input in = {data, size};
    struct step least = {.ns = UINT64_MAX};

    executions++;
    if (!run_seems_long(run, in))
        return 0;
    for (unsigned tries = 0; tries < COST_TRIES && least.ns > COST_MAX_NS; tries++) {
        struct step step = run_exactly(run, in);

        if (step.ns < least.ns)
            least = step;
    }
    if (least.ns > COST_MAX_NS) {
        print_step("does not hold: a step of 2000 us at most; in each run at least", &least);
        abort();
    }
    if (least.ns > longest_all.ns)
        longest_all = least;
    return 0;
}
