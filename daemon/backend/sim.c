/* The simulated NPU: memory is host memory, the DMA engine is memcpy, a kernel is a delay. */
#include <assert.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/backend/copiers.h"
#include "daemon/backend/mapped.h"
#include "daemon/backend/window.h"
#include "daemon/base/config.h"
#include "daemon/base/memfd.h"
#include "daemon/core/backend.h"
#include "daemon/core/device.h"
#include "daemon/core/engine.h"
#include "daemon/core/server.h"
#include "proto/shm/doorbell.h"
#include "proto/util/clock.h"

/* Addresses of strict devices: up to 24 TiB for all of them, where programs expect these. Each
 * session has its own. */
#define WINDOW_FROM  (UINT64_C(16) << 40)
#define WINDOW_BYTES (UINT64_C(512) << 30)
static_assert(DEVICES_MAX * WINDOW_BYTES <= UINT64_C(8) << 40, "a window for each device");

struct sim {
    uint32_t devices;
    uint64_t memory;
    char *soc_name;
    bool strict;
    uint64_t latency_ns;   /* of work that moves bytes */
    _Atomic uint64_t turn; /* of latency_of(); any engine writes it, and any value will do */
    struct copiers *copiers;
};

static void sim_close(void *state)
{
    struct sim *sim = state;

    if (!sim)
        return;
    copiers_free(sim->copiers);
    free(sim->soc_name);
    free(sim);
}

static int watch_wake(void *server, uint32_t device, int fd)
{
    return engine_watch_wake(((struct server *)server)->devices->device[device].engine, fd);
}

static int sim_open(struct server *server, void **state)
{
    const struct config *config = server->config;
    struct sim *sim = malloc(sizeof(*sim));

    if (!sim)
        return -ENOMEM;
    *sim = (struct sim){
        .devices = config->devices,
        .memory = config->device_memory,
        .soc_name = strdup(config->soc_name),
        .strict = config->strict,
        .latency_ns = config->latency_us * NSEC_PER_USEC,
    };
    sim->copiers = copiers_new(config->copiers, sim->devices, watch_wake, server);
    if (!sim->soc_name || !sim->copiers) {
        sim_close(sim);
        return -ENOMEM;
    }
    *state = sim;
    return (int)sim->devices;
}

static void sim_device_info(void *state, uint32_t device, struct backend_device_info *info)
{
    struct sim *sim = state;

    (void)device;
    *info = (struct backend_device_info){
        .soc_name = sim->soc_name, .memory = sim->memory, .strict = sim->strict};
}

/* --- memory: files that npud maps --- */

struct backend_memory {
    struct mapped pages; /* its only member */
};

static struct backend_memory *make_memory(int fd, uint64_t size, bool counted)
{
    return (struct backend_memory *)mapped_new(fd, size, counted);
}

static int sim_memory_new(void *state, struct backend_space *space, uint32_t device, uint64_t size,
                          struct backend_memory **memory, int *fd)
{
    const struct sim *sim = state;

    (void)space;
    (void)device;
    *fd = memfd_new("npud-device-memory", size);
    if (*fd < 0)
        return *fd;
    /* Strict: no client can get the pages, so it is not for them to do. */
    *memory = make_memory(*fd, size, !sim->strict);
    if (*memory)
        return 0;
    close(*fd);
    return -ENOMEM;
}

static struct backend_memory *sim_memory_attach(void *state, struct backend_space *space,
                                                uint32_t device, int fd, uint64_t size,
                                                bool device_memory)
{
    const struct sim *sim = state;

    (void)space;
    (void)device;
    return make_memory(fd, size, !(device_memory && sim->strict));
}

static int sim_memory_share(void *state, struct backend_space *space, uint32_t device,
                            struct backend_memory *m, struct backend_memory **shared)
{
    (void)state;
    (void)space;
    (void)device;
    m->pages.holders++;
    *shared = m;
    return 0;
}

static void sim_memory_free(void *state, struct backend_memory *m, const struct user *user)
{
    (void)state;
    mapped_leave(&m->pages, user);
}

/* --- addresses: of strict devices, where clients map nothing --- */

struct backend_space {
    struct windows *windows; /* one for each device */
};

static bool make_space(const struct sim *sim, struct backend_space **space)
{
    if (*space)
        return true;
    *space = malloc(sizeof(**space));
    if (!*space)
        return false;
    (*space)->windows = windows_new(sim->devices, WINDOW_FROM, WINDOW_BYTES);
    if ((*space)->windows)
        return true;
    free(*space);
    *space = NULL;
    return false;
}

static uint64_t sim_address_bytes(void *state)
{
    const struct sim *sim = state;

    return sim->strict ? window_range_bytes() : 0;
}

static uint64_t sim_space_bytes(void *state)
{
    const struct sim *sim = state;

    return sim->strict ? sizeof(struct backend_space) + windows_bytes(sim->devices) : 0;
}

static int sim_address_new(void *state, struct backend_space **space, uint32_t device,
                           const struct backend_memory *memory, uint64_t size, uint64_t *address)
{
    const struct sim *sim = state;

    (void)memory;
    *address = 0;
    if (!sim->strict)
        return 0;
    if (!make_space(sim, space))
        return -ENOMEM;
    *address = window_take((*space)->windows, device, size);
    return *address ? 0 : -ENOSPC;
}

static void sim_address_free(struct backend_space *space, uint32_t device, uint64_t address)
{
    if (address)
        window_put(space->windows, device, address);
}

static bool sim_address_note(void *state, struct backend_space **space, uint32_t device,
                             uint64_t address, uint64_t size)
{
    return address == 0 ||
           (make_space(state, space) && window_note((*space)->windows, device, address, size));
}

static void sim_space_free(struct backend_space *space)
{
    if (space)
        windows_free(space->windows);
    free(space);
}

/* --- work --- */

/*
 * As on hardware, work is done some time after it was begun, and not all work takes the same: so
 * streams get out of step. From half the time to one and a half of it.
 */
static uint64_t latency_of(struct sim *sim, uint64_t now)
{
    uint64_t x = (now ^ atomic_load_explicit(&sim->turn, memory_order_relaxed)) *
                 UINT64_C(0x9e3779b97f4a7c15);

    atomic_store_explicit(&sim->turn, x, memory_order_relaxed);
    return sim->latency_ns / 2 + (x >> 32) * sim->latency_ns / UINT32_MAX;
}

/* Are the bytes to be moved now? */
static bool is_ready(struct sim *sim, struct work *w, uint64_t now)
{
    if (w->ready_ns == 0)
        w->ready_ns = now + latency_of(sim, now);
    return now >= w->ready_ns;
}

static const struct mapped *source_of(const struct work *w)
{
    return w->src.memory ? &w->src.memory->pages : NULL;
}

static enum work_state sim_step(void *state, uint32_t device, struct work *w, uint64_t now,
                                uint64_t *deadline, int32_t *result)
{
    struct sim *sim = state;

    (void)device;
    if (w->kind == WORK_DELAY)
        return delay_step(w, now, deadline, result);
    *result = 0;
    if (sim->latency_ns != 0 && !is_ready(sim, w, now)) {
        *deadline = w->ready_ns;
        return WORK_PENDING;
    }
    return mapped_step(w, &w->dst.memory->pages, source_of(w));
}

static bool sim_lend(void *state, uint32_t device, struct work *w, uint64_t now)
{
    struct sim *sim = state;

    return (sim->latency_ns == 0 || is_ready(sim, w, now)) &&
           copiers_lend(sim->copiers, device, w, &w->dst.memory->pages, source_of(w));
}

static bool sim_recall(void *state, uint32_t device, struct work *w, bool cut)
{
    const struct sim *sim = state;

    return copiers_recall(sim->copiers, device, w, cut);
}

static void sim_poll(void *state, uint32_t device, void (*over)(struct work *work))
{
    const struct sim *sim = state;

    copiers_poll(sim->copiers, device, over);
}

static bool sim_sleep(void *state, uint32_t device, bool asleep)
{
    const struct sim *sim = state;

    return copiers_sleep(sim->copiers, device, asleep);
}

static bool sim_memory_usable(struct backend_memory *m)
{
    return mapped_usable(&m->pages);
}

static bool sim_word_read(struct work_place at, uint64_t *value)
{
    *value = mapped_word_read(&at.memory->pages, at.offset);
    return true;
}

static bool sim_word_write(struct work_place at, uint64_t value)
{
    mapped_word_write(&at.memory->pages, at.offset, value);
    return true;
}

static bool sim_words_read(struct work_place at, uint64_t *to, unsigned words)
{
    mapped_words_read(&at.memory->pages, at.offset, to, words);
    return true;
}

static void sim_slice_put(struct work_place at, const void *slice, uint64_t size)
{
    memcpy(mapped_at(&at.memory->pages, at.offset), slice, size);
}

const struct backend backend_sim = {
    .name = "sim",
    .open = sim_open,
    .close = sim_close,
    .device_info = sim_device_info,
    .memory_new = sim_memory_new,
    .memory_attach = sim_memory_attach,
    .memory_share = sim_memory_share,
    .memory_free = sim_memory_free,
    .address_bytes = sim_address_bytes,
    .space_bytes = sim_space_bytes,
    .address_new = sim_address_new,
    .address_free = sim_address_free,
    .address_note = sim_address_note,
    .space_free = sim_space_free,
    .memory_usable = sim_memory_usable,
    .step = sim_step,
    .lend = sim_lend,
    .recall = sim_recall,
    .poll = sim_poll,
    .sleep = sim_sleep,
    .word_read = sim_word_read,
    .word_write = sim_word_write,
    .words_read = sim_words_read,
    .slice_put = sim_slice_put,
};

void (*backend_told)(struct backend_space **space);
void (*backend_landed)(struct backend_space **space);
void (*backend_lost)(struct backend_space **space, int32_t code);

const struct backend *backend_find(const char *name)
{
    static const struct backend *const all[] = {&backend_sim, &backend_acl, &backend_cuda};

    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        if (strcmp(all[i]->name, name) == 0)
            return all[i];
    return NULL;
}
