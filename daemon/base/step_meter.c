#include "daemon/base/step_meter.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "proto/util/clock.h"

#define READY_READING_MAX NSEC_PER_SEC
#define READY_UNKNOWN     UINT64_MAX

void step_meter_init(struct step_meter *meter)
{
    *meter = (struct step_meter){.ready_fd = -1};
    pthread_mutex_init(&meter->lock, NULL);
}

void step_meter_attach(struct step_meter *meter)
{
    meter->ready_fd = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
}

void step_meter_deinit(struct step_meter *meter)
{
    if (meter->ready_fd >= 0)
        close(meter->ready_fd);
    pthread_mutex_destroy(&meter->lock);
}

/* For how long the thread was ready, and had no CPU: the second number there. */
static uint64_t read_ready(const struct step_meter *meter)
{
    uint64_t ready = READY_UNKNOWN;
    char text[64];
    ssize_t n = pread(meter->ready_fd, text, sizeof(text) - 1, 0);

    text[n > 0 ? n : 0] = '\0';
    return sscanf(text, "%*u %" SCNu64, &ready) == 1 ? ready : READY_UNKNOWN;
}

static void read_all(struct step_meter *meter, uint64_t now)
{
    meter->ready_read = now;
    meter->ready = read_ready(meter);
}

void step_meter_read(struct step_meter *meter, uint64_t now)
{
    meter->read = now;
    meter->cpu = clock_cpu_ns();
    if (now - meter->ready_read > READY_READING_MAX)
        read_all(meter, now);
}

static void note_step(struct step_meter *meter, struct step *noted, const struct step *step,
                      uint64_t ns)
{
    uint64_t wait;

    pthread_mutex_lock(&meter->lock);
    *noted = *step;
    noted->ns = ns;
    pthread_mutex_unlock(&meter->lock);
    wait = meter->waited.ns > STEP_WAIT_MIN ? meter->waited.ns : STEP_WAIT_MIN;
    meter->look_ns = meter->longest.ns < wait ? meter->longest.ns : wait;
}

/* idle: the thread did not run for so long. How much of that it was not even ready. */
static uint64_t wait_of(struct step_meter *meter, uint64_t now, uint64_t idle)
{
    uint64_t before = meter->ready, ready;

    read_all(meter, now);
    if (before == READY_UNKNOWN || meter->ready == READY_UNKNOWN)
        return 0;
    ready = meter->ready - before;
    return idle > ready ? idle - ready : 0;
}

void step_meter_judge(struct step_meter *meter, uint64_t now, const struct step *step)
{
    uint64_t took = now - meter->begun, before = meter->cpu, used, wait;

    meter->read = now;
    meter->cpu = clock_cpu_ns();
    used = meter->cpu - before < took ? meter->cpu - before : took;
    if (used > meter->longest.ns)
        note_step(meter, &meter->longest, step, used);
    if (took - used <= STEP_WAIT_MIN || took - used <= meter->waited.ns)
        return;
    wait = wait_of(meter, now, took - used);
    if (wait > STEP_WAIT_MIN && wait > meter->waited.ns)
        note_step(meter, &meter->waited, step, wait);
}

void step_meter_longest(struct step_meter *meter, struct step *step)
{
    pthread_mutex_lock(&meter->lock);
    *step = meter->longest;
    pthread_mutex_unlock(&meter->lock);
}

void step_meter_waited(struct step_meter *meter, struct step *step)
{
    pthread_mutex_lock(&meter->lock);
    *step = meter->waited;
    pthread_mutex_unlock(&meter->lock);
}
