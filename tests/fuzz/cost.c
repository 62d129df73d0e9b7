#include "cost.h"

#include "daemon/base/step_meter.h"
#include "proto/util/clock.h"

static struct step longest;     /* of the run */
static struct step longest_all; /* of all inputs that were no findings */

/* clang-format off */
void __real_step_meter_judge(struct step_meter *meter, uint64_t now, const char *what,
                             uint32_t detail, uid_t uid);
void __wrap_step_meter_judge(struct step_meter *meter, uint64_t now, const char *what,
                             uint32_t detail, uid_t uid);
void __real_step_meter_read(struct step_meter *meter, uint64_t now);
void __wrap_step_meter_read(struct step_meter *meter, uint64_t now);
/* clang-format on */

/*
 * Read at each beginning, because one thread is all of npud here: what an engine has done meanwhile
 * is no part of a step of the control thread.
 */
void __wrap_step_meter_read(struct step_meter *meter, uint64_t now)
{
    __real_step_meter_read(meter, now);
    meter->read = 0;
}

/* A step of any length by the clock, so that only its CPU time counts; and all steps are judged. */
void __wrap_step_meter_judge(struct step_meter *meter, uint64_t now, const char *what,
                             uint32_t detail, uid_t uid)
{
    (void)now;
    __real_step_meter_judge(meter, meter->begun + NSEC_PER_SEC, what, detail, uid);
    if (meter->longest_ns > longest.ns)
        longest = meter->longest;
    meter->longest_ns = 0;
    meter->read = 0;
}

static void print_step(const char *begin, const struct step *step)
{
    dprintf(2, "%s %llu us: \"%s\" (%u) of uid %u\n", begin,
            (unsigned long long)(step->ns / NSEC_PER_USEC), step->what, (unsigned)step->detail,
            (unsigned)step->uid);
}

__attribute__((destructor)) static void print_longest(void)
{
    if (longest_all.what)
        print_step("longest step:", &longest_all);
}

int cost_judge(void (*run)(struct input *in), const uint8_t *data, size_t size)
{
    struct step least = {0};

    for (unsigned tries = 0; tries < COST_TRIES; tries++) {
        struct input in = {data, size};

        longest = (struct step){0};
        run(&in);
        if (tries == 0 || longest.ns < least.ns)
            least = longest;
        if (least.ns <= COST_MAX_NS)
            break;
    }
    if (least.ns > COST_MAX_NS) {
        print_step("does not hold: a step of 2000 us at most; in each run at least", &least);
        abort();
    }
    if (least.ns > longest_all.ns)
        longest_all = least;
    return 0;
}
