/* The simulated NPU: memory is host memory, the DMA engine is memcpy, a kernel is a delay. */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/core/backend.h"
#include "daemon/kept/device_record.h"
#include "daemon/base/config.h"
#include "daemon/base/memfd.h"
#include "daemon/backend/reduce.h"

/* About 3 us of memcpy: long enough to stream, short enough that no other session on the device
 * notices. */
#define SLICE (32 * 1024)
/* The same for numbers that have to be unpacked one by one. */
#define REDUCE_SLICE 2048
static_assert(REDUCE_SLICE <= DEVICE_SLICE_MAX, "a slice that is kept");

struct sim {
    uint32_t devices;
    uint64_t memory;
    char *soc_name;
};

static int sim_open(const struct config *config, void **state)
{
    struct sim *sim = malloc(sizeof(*sim));

    if (!sim)
        return -ENOMEM;
    *sim = (struct sim){
        .devices = config->devices,
        .memory = config->device_memory,
        .soc_name = strdup(config->soc_name),
    };
    if (!sim->soc_name) {
        free(sim);
        return -ENOMEM;
    }
    *state = sim;
    return (int)sim->devices;
}

static void sim_close(void *state)
{
    struct sim *sim = state;

    if (!sim)
        return;
    free(sim->soc_name);
    free(sim);
}

static void sim_device_info(void *state, uint32_t device, struct backend_device_info *info)
{
    struct sim *sim = state;

    (void)device;
    *info = (struct backend_device_info){.soc_name = sim->soc_name, .memory = sim->memory};
}

static int sim_memory_new(void *state, uint32_t device, uint64_t size)
{
    (void)state;
    (void)device;
    return memfd_new("npud-device-memory", size);
}

static void reduce_slice(const struct work *w, uint64_t n)
{
    memcpy(w->slice, (const char *)w->dst + w->progress, n);
    reduce_apply(w->slice, (const char *)w->src + w->progress, n, w->reduce, w->type);
}

static enum work_state sim_step(void *state, uint32_t device, struct work *w, uint64_t now,
                                uint64_t *deadline, int32_t *result)
{
    uint64_t n = w->size - w->progress;

    (void)state;
    (void)device;
    *result = 0;
    if (w->kind == WORK_DELAY) {
        if (w->progress == 0)
            w->progress = now + w->delay_ns; /* the end of the delay */
        *deadline = w->progress;
        *result = w->result;
        return now >= w->progress ? WORK_DONE : WORK_UNTIL;
    }
    if (n > (w->kind == WORK_REDUCE ? REDUCE_SLICE : SLICE))
        n = w->kind == WORK_REDUCE ? REDUCE_SLICE : SLICE;
    if (w->kind == WORK_SET)
        memset((char *)w->dst + w->progress, w->value, n);
    else if (w->kind == WORK_REDUCE)
        reduce_slice(w, n);
    else
        /* memmove: overlapping ranges are unspecified for programs, but must not be undefined for
         * npud */
        memmove((char *)w->dst + w->progress, (const char *)w->src + w->progress, n);
    w->progress += n;
    return w->progress == w->size ? WORK_DONE : WORK_MORE;
}

const struct backend backend_sim = {
    .name = "sim",
    .open = sim_open,
    .close = sim_close,
    .device_info = sim_device_info,
    .memory_new = sim_memory_new,
    .step = sim_step,
};

const struct backend *backend_find(const char *name)
{
    static const struct backend *const all[] = {&backend_sim};

    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        if (strcmp(all[i]->name, name) == 0)
            return all[i];
    return NULL;
}
