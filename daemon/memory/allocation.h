/*
 * Allocations: device memory and pinned host memory, by the names that the sessions have for them.
 * What is there are pages (pages.h), which several sessions may have.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "daemon/core/backend.h"
#include "daemon/core/cause.h"
#include "daemon/kept/kept.h"
#include "daemon/base/filled.h"
#include "daemon/memory/pages.h"
#include "proto/util/slots.h"

struct server;
struct session;
struct device;
struct memory_export;
struct sharer;

/*
 * An allocation that its session frees goes at once, unless work that the backend has begun uses
 * it: a device that moves bytes by itself cannot be called back. Then no new work finds it any
 * more, what has begun comes to its end, and the memory goes after that. Until then it is charged.
 */
struct mem {
    struct slot slot; /* in session->mems */
    struct session *session;
    struct pages *pages;
    struct backend_memory *memory; /* the pages, as its session works with them */
    uint64_t imported;             /* bytes that were exported; 0: it was allocated here */
    struct memory_export *exports;
    uint32_t n_exports;
    struct sharer *sharer; /* of the pages: its session */
    uint64_t address; /* the device's, for this session; 0: it maps the memory where it likes */
    struct kept kept;
    struct charge charge_fd, charge_address;
    _Atomic uint64_t filled; /* bytes that npud has filled: filled.h */
    /*
     * Tasks that have begun and use it. Of several engines, and so atomic; ordered by their locks.
     */
    _Atomic uint32_t works;
    bool freed;              /* goes with the last of these. Under the locks of these engines */
    struct job free;         /* that was the last one */
    struct mem *prev, *next; /* pages->holders */
};

/** Allocate size bytes (rounded up to pages) on an opened device. Control thread. */
enum cause allocation_new(struct session *session, struct device *device, enum mem_kind kind,
                          uint64_t size, struct mem **memp);
/**
 * Load a file of so many bytes, at the begin of pinned memory of the session, as a binary with
 * kernels for the device: it is an allocation that only launches name, and that no pointer is in.
 * Control thread.
 */
enum cause allocation_load(struct session *session, struct device *device,
                           const struct binary_file *file, struct mem **memp);
/** What is in that slot is freed if it is a binary that is not. */
void allocation_free_binary(struct session *session, uint32_t slot);
/** A function of a binary has this number in launches from now on. */
enum cause allocation_name_function(struct mem *binary, const char *name, uint32_t number);
/** The session gets pages that another has exported: so many bytes of them. Control thread. */
enum cause allocation_import(struct session *session, struct pages *pages, uint64_t size,
                             struct mem **memp);
/**
 * Free it, and what was exported of it. Tasks that come to use it later fail, and so do streams of
 * its session that wait for a word of it. Control thread; takes the locks of the session's engines.
 */
void allocation_free(struct mem *mem);
/** All memory is there, and no wait is rejoined: who shares it with whom is counted again. */
void allocations_count_sharers(struct server *server);
/** Streams are there: what was freed, and no work uses any more, goes. */
void allocations_finish_restoring(struct server *server);

/**
 * The session's allocation in slot, or NULL, also if it is freed. Engines, under their lock, and
 * the control thread.
 */
struct mem *allocation_get(struct session *session, uint32_t slot, uint32_t generation);
/** The same for a binary, which allocation_get() does not find. */
struct mem *allocation_get_binary(struct session *session, uint32_t slot, uint32_t generation);
/** Both, for work that has begun, which has it also if it is freed. While npud restores. */
struct mem *allocation_get_begun(struct session *session, uint32_t slot, uint32_t generation);

/** Work that uses m has begun, and is not done. Under the lock of the engine that does it. */
void allocation_begin_work(struct mem *m);
/** It is done, or dropped. */
void allocation_end_work(struct mem *m);

/**
 * The descriptor by which the client maps it, which stays the memory's; -1: it may not. Control
 * thread.
 */
int allocation_file(const struct mem *mem);

/**
 * Where `size` bytes at offset of m are, for work. The place has no memory if m is NULL, if the
 * range leaves it, or if npud has not the means. What it has is there until the engine that asks
 * lets go of its lock. Engines.
 */
struct work_place allocation_place(const struct mem *m, uint64_t offset, uint64_t size);

/** allocation_filled() of a user that has such pages. */
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
