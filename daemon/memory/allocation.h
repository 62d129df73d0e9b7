/* Allocations: device memory and pinned host memory, each a memfd shared by one session and npud.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "daemon/base/user.h"
#include "daemon/base/waitlist.h"
#include "daemon/core/cause.h"
#include "daemon/kept/kept.h"
#include "daemon/memory/filled.h"
#include "proto/util/slots.h"

struct server;
struct session;
struct device;

enum mem_kind {
    MEM_DEVICE,
    MEM_HOST,
};

struct mem {
    struct slot slot; /* in session->mems */
    struct session *session;
    struct device *device;
    enum mem_kind kind;
    uint64_t size;
    int fd;
    struct kept kept;
    _Atomic(void *) map;    /* npud's mapping, made when a task first needs it */
    struct waitlist values; /* streams that wait for words of it: value.h */
    struct charge charge;
    struct charge charge_fd;
    _Atomic uint64_t filled; /* bytes that npud has filled: filled.h */
};

/** Allocate size bytes (rounded up to pages) on an opened device. Control thread. */
enum cause allocation_new(struct session *session, struct device *device, enum mem_kind kind,
                          uint64_t size, struct mem **memp);
/**
 * Free it. Tasks that come to use it later fail, and so do streams that wait for a word of it.
 * Control thread; takes the locks of the session's engines.
 */
void allocation_free(struct mem *mem);

/** An allocation is there again. A row of recovery. */
bool allocation_restore(struct server *server, struct kept_cell *cell);

/** The session's allocation in slot, or NULL. Engines, under their lock, and the control thread. */
struct mem *allocation_get(struct session *session, uint32_t slot, uint32_t generation);

/**
 * Address in npud of `size` bytes at offset of m. NULL: m is, or the range leaves it, or it cannot
 * be mapped. Engines, under their lock, which keeps the mapping alive until they let go of it.
 */
void *allocation_range(struct mem *m, uint64_t offset, uint64_t size);

/** allocation_filled() of a user who has such pages. */
bool allocation_charge_filled(struct mem *m);

/**
 * Charge the user with the pages that this thread had to get for m since it was asked last. False:
 * m has such pages, and the user has more than it may have: the log is told, and tasks do not use m
 * until some memory of the user is freed. Before and after each use: so a use may go beyond the
 * limit by the pages that it touches. Any thread that keeps m from being freed.
 */
static inline bool allocation_filled(struct mem *m)
{
    if (!filled_any() &&
        __builtin_expect(atomic_load_explicit(&m->filled, memory_order_relaxed) == 0, 1))
        return true;
    return allocation_charge_filled(m);
}
