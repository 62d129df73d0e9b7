#include "daemon/base/step_meter.h"

#include "proto/util/clock.h"

void step_meter_init(struct step_meter *meter)
{
    *meter = (struct step_meter){0};
    pthread_mutex_init(&meter->lock, NULL);
}

void step_meter_deinit(struct step_meter *meter)
{
    pthread_mutex_destroy(&meter->lock);
}

void step_meter_read(struct step_meter *meter, uint64_t now)
{
    meter->read = now;
    meter->cpu = clock_cpu_ns();
}

void step_meter_judge(struct step_meter *meter, uint64_t now, const char *what, uint32_t detail,
                      uid_t uid)
{
    struct step step = {.ns = now - meter->begun, .what = what, .detail = detail, .uid = uid};
    uint64_t before = meter->cpu;

    step_meter_read(meter, now);
    if (step.ns > meter->cpu - before)
        step.ns = meter->cpu - before;
    if (step.ns <= meter->longest_ns)
        return;
    meter->longest_ns = step.ns;
    pthread_mutex_lock(&meter->lock);
    meter->longest = step;
    pthread_mutex_unlock(&meter->lock);
}

void step_meter_longest(struct step_meter *meter, struct step *step)
{
    pthread_mutex_lock(&meter->lock);
    *step = meter->longest;
    pthread_mutex_unlock(&meter->lock);
}
