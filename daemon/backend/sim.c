/* The simulated NPU: memory is host memory, the DMA engine is memcpy, a kernel is a delay. */
#include <assert.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "daemon/backend/window.h"
#include "daemon/base/config.h"
#include "daemon/base/deferred_close.h"
#include "daemon/base/filled.h"
#include "daemon/base/memfd.h"
#include "daemon/core/backend.h"
#include "daemon/kept/device_record.h"
#include "proto/shm/doorbell.h"
#include "proto/util/clock.h"
#include "proto/util/copy_large.h"
#include "proto/util/reduce_apply.h"

/* About 3 us of memcpy: long enough to stream, short enough that no other session on the device
 * notices. */
#define SLICE (32 * 1024)
/* The same of a large copy, whose bytes are faster: what is between two slices counts more. */
#define LARGE_SLICE (64 * 1024)
/* The same for numbers that have to be unpacked one by one. */
#define REDUCE_SLICE 2048
static_assert(REDUCE_SLICE <= DEVICE_SLICE_MAX, "a slice that is kept");

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
        .strict = config->strict,
        .latency_ns = config->latency_us * NSEC_PER_USEC,
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
    *info = (struct backend_device_info){
        .soc_name = sim->soc_name, .memory = sim->memory, .strict = sim->strict};
}

/* --- memory: a memfd, which npud maps when work first needs it --- */

struct backend_memory {
    int fd;
    bool counted; /* pages that npud fills are: filled.h */
    uint64_t size;
    _Atomic(unsigned char *) map; /* NULL: not mapped so far */
};

static struct backend_memory *make_memory(int fd, uint64_t size, bool counted)
{
    struct backend_memory *m = calloc(1, sizeof(*m));

    if (m)
        *m = (struct backend_memory){.fd = fd, .size = size, .counted = counted};
    return m;
}

static int sim_memory_new(void *state, uint32_t device, uint64_t size,
                          struct backend_memory **memory)
{
    const struct sim *sim = state;
    int fd = memfd_new("npud-device-memory", size);

    (void)device;
    if (fd < 0)
        return fd;
    /* Strict: no client can get the pages, so it is not for them to do. */
    *memory = make_memory(fd, size, !sim->strict);
    if (*memory)
        return 0;
    close(fd);
    return -ENOMEM;
}

static struct backend_memory *sim_memory_attach(void *state, uint32_t device, int fd, uint64_t size,
                                                bool device_memory)
{
    const struct sim *sim = state;

    (void)device;
    return make_memory(fd, size, !(device_memory && sim->strict));
}

static void sim_memory_free(void *state, struct backend_memory *m, const struct user *user)
{
    (void)state;
    deferred_close_free_memory(user, m->fd, atomic_load_explicit(&m->map, memory_order_relaxed),
                               m->size, m->size);
    free(m);
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
                           uint64_t size, uint64_t *address)
{
    const struct sim *sim = state;

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

static int sim_memory_file(const struct backend_memory *m)
{
    return m->fd;
}

/* Engines of two devices may come here at the same time. */
static unsigned char *map_once(struct backend_memory *m)
{
    unsigned char *map = mmap(NULL, m->size, PROT_READ | PROT_WRITE, MAP_SHARED, m->fd, 0);
    unsigned char *other = NULL;

    if (map == MAP_FAILED)
        return NULL;
    if (m->counted)
        filled_watch(map, m->size);
    /* Release: a reader of the address finds the mapping registered. */
    if (atomic_compare_exchange_strong_explicit(&m->map, &other, map, memory_order_acq_rel,
                                                memory_order_acquire))
        return map;
    munmap(map, m->size);
    return other;
}

static bool sim_memory_usable(struct backend_memory *m)
{
    return atomic_load_explicit(&m->map, memory_order_acquire) || map_once(m);
}

/* The one place where a handle becomes an address. */
static inline unsigned char *address_of(struct work_place at)
{
    unsigned char *map = atomic_load_explicit(&at.memory->map, memory_order_relaxed);

    assert(map && at.offset <= at.memory->size);
    return map + at.offset;
}

/* --- work --- */

static void reduce_slice(const struct work *w, uint64_t n)
{
    memcpy(w->slice, address_of(w->dst) + w->progress, n);
    reduce_apply(w->slice, address_of(w->src) + w->progress, n, w->reduce, w->type);
}

static bool is_large_copy(const struct work *w)
{
    return w->kind == WORK_COPY && w->size >= COPY_LARGE;
}

static uint64_t slice_most(const struct work *w)
{
    if (w->kind == WORK_REDUCE)
        return REDUCE_SLICE;
    return is_large_copy(w) ? LARGE_SLICE : SLICE;
}

static void move_bytes(const struct work *w, uint64_t n)
{
    if (w->kind == WORK_SET)
        memset(address_of(w->dst) + w->progress, w->value, n);
    else if (w->kind == WORK_REDUCE)
        reduce_slice(w, n);
    else if (is_large_copy(w))
        copy_large(address_of(w->dst) + w->progress, address_of(w->src) + w->progress, n);
    else
        /* memmove: overlapping ranges are unspecified for programs, but must not be undefined for
         * npud */
        memmove(address_of(w->dst) + w->progress, address_of(w->src) + w->progress, n);
}

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

/* Its progress is when it ends, so that this stays as it is when npud ends before. */
static enum work_state wait_delay(struct work *w, uint64_t now, uint64_t *deadline, int32_t *result)
{
    if (w->progress == 0)
        w->progress = now + w->delay_ns;
    *deadline = w->progress;
    *result = w->result;
    return now >= w->progress ? WORK_DONE : WORK_PENDING;
}

static enum work_state sim_step(void *state, uint32_t device, struct work *w, uint64_t now,
                                uint64_t *deadline, int32_t *result)
{
    struct sim *sim = state;
    uint64_t n = w->size - w->progress;
    uint64_t most = slice_most(w);

    (void)device;
    if (w->kind == WORK_DELAY)
        return wait_delay(w, now, deadline, result);
    *result = 0;
    if (sim->latency_ns != 0 && !is_ready(sim, w, now)) {
        *deadline = w->ready_ns;
        return WORK_PENDING;
    }
    if (n > most)
        n = most;
    move_bytes(w, n);
    w->progress += n;
    return w->progress == w->size ? WORK_DONE : WORK_MORE;
}

/* --- words --- */

static _Atomic uint64_t *word_at(struct work_place at)
{
    return (_Atomic uint64_t *)(void *)address_of(at);
}

static uint64_t sim_word_read(struct work_place at)
{
    return atomic_load_explicit(word_at(at), memory_order_acquire);
}

static void sim_word_write(struct work_place at, uint64_t value)
{
    atomic_store_explicit(word_at(at), value, memory_order_release);
}

static bool sim_word_holds(struct work_place at, enum word_condition condition, uint64_t v)
{
    uint64_t p = sim_word_read(at);

    switch (condition) {
    case WORD_GEQ:
        return (int64_t)(p - v) >= 0;
    case WORD_EQ:
        return p == v;
    case WORD_AND:
        return (p & v) != 0;
    default:
        return ~(p | v) != 0;
    }
}

static void sim_words_read(struct work_place at, uint64_t *to, unsigned words)
{
    const _Atomic uint64_t *word = word_at(at);

    for (unsigned i = 0; i < words; i++)
        to[i] = atomic_load_explicit(&word[i], memory_order_relaxed);
}

static void sim_slice_put(struct work_place at, const void *slice, uint64_t size)
{
    memcpy(address_of(at), slice, size);
}

const struct backend backend_sim = {
    .name = "sim",
    .open = sim_open,
    .close = sim_close,
    .device_info = sim_device_info,
    .memory_new = sim_memory_new,
    .memory_attach = sim_memory_attach,
    .memory_free = sim_memory_free,
    .address_bytes = sim_address_bytes,
    .space_bytes = sim_space_bytes,
    .address_new = sim_address_new,
    .address_free = sim_address_free,
    .address_note = sim_address_note,
    .space_free = sim_space_free,
    .memory_file = sim_memory_file,
    .memory_usable = sim_memory_usable,
    .step = sim_step,
    .word_read = sim_word_read,
    .word_write = sim_word_write,
    .word_holds = sim_word_holds,
    .words_read = sim_words_read,
    .slice_put = sim_slice_put,
};

const struct backend *backend_find(const char *name)
{
    static const struct backend *const all[] = {&backend_sim};

    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        if (strcmp(all[i]->name, name) == 0)
            return all[i];
    return NULL;
}
