/*
 * Allocations of this process, found by any address inside them. Those freed last are found as
 * well, because their addresses are not given out again yet: a call with such an address is
 * refused, where it would read or write new memory there, or fault.
 */
#pragma once

#include <assert.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "acl/acl.h"
#include "client/check/checked.h"
#include "client/core/range_map.h"
#include "client/core/upcall.h"
#include "client/memory/imports.h"
#include "client/memory/memory_lock.h"
#include "client/runtime/session.h"

struct context;
struct physical;
struct pool_block;

struct memory {
    struct address_range mapped; /* in session->memory, or in session->freed_map */
    size_t size;                 /* what the program asked for */
    bool host;                   /* pinned host memory, else device memory */
    bool managed;                /* host memory that is a device's as well: managed.c */
    /*
     * The program has freed it, and no call takes it. Either only its addresses are left, in
     * session->freed; or it is in session->memory, and what streams were given before still uses
     * it: a pool keeps it, or its device is being reset.
     */
    bool freed;
    uint32_t device;
    uint32_t remote; /* npud's slot and generation */
    uint32_t remote_generation;
    /*
     * 0, or which reserved space it is mapped into: a range goes on in the next mapping of the same
     * space. Then `size` is mapped.size.
     */
    uint64_t reservation;
    uint64_t remote_offset;    /* where in npud's allocation it begins */
    uint32_t home;             /* device whose reset frees it */
    uint32_t access;           /* bit d: device d reaches it, whatever its peers are */
    bool imported;             /* by key */
    struct physical *physical; /* that is mapped there, by aclrtMapMem(); else NULL */
    bool opaque;               /* of a strict device: mapped without access, kernel_access.h */
    bool no_access;            /* such a mapping that may not be used yet */
    bool host_access;          /* the program may, by aclrtMemSetAccess() */
    struct pool_block *block;  /* of client/memory/pool_blocks.h; NULL: none */
    uint64_t populated;        /* a bit for each part of it: memory_populate() */
    /* Not in a copy: */
    struct memory *prev, *next; /* session->allocations, or session->freed */
    struct import_entry import; /* in session->imports */
};

/**
 * What a program may use of an allocation: the API rounds sizes up, and programs copy whole blocks.
 */
static inline size_t memory_size_allocated(size_t size)
{
    return (size + 31) & ~(size_t)31;
}

/** Are these bytes the whole of an allocation, as aclrtMemGetAddressRange() tells of it? */
static inline bool memory_is_whole(const struct memory *m, const void *address, size_t size)
{
    return m->mapped.start == (uintptr_t)address && m->mapped.size == size;
}

/** The memory that holds address, or NULL. The caller holds s->memory_lock. */
struct memory *memory_at(struct session *s, const void *address);

/** A copy of what the caller found under memory_lock. The list is nothing for it. */
static inline void memory_copy(struct memory *copy, const struct memory *m)
{
    memcpy(copy, m, offsetof(struct memory, prev));
}

/** A copy of the allocation that holds address, also if it was freed; false: pageable memory. */
bool memory_look_up(struct session *s, const void *address, struct memory *copy);
/** The same. *changes: session->memory_changes, of which the copy is. */
bool memory_search(struct session *s, const void *address, struct memory *copy, uint64_t *changes);

/**
 * Is what was found there still mapped, and at the same addresses: neither given back nor unmapped,
 * nor something else in its place? What was freed in the order of a stream is still there, for what
 * the stream does before. copy: a copy of it.
 */
bool memory_is_there(struct session *s, const struct memory *copy);

#define MEMORY_PARTS     64u
#define MEMORY_PART_BITS 12u /* at least: a page */

/**
 * An allocation gets its pages in up to 64 parts. The size of one, as a power of two: each task
 * asks, and a division costs more than all the rest of the answer.
 */
static inline unsigned memory_part_bits(const struct memory *m)
{
    unsigned bits = 64 - (unsigned)__builtin_clzll(m->mapped.size - 1);

    return bits < MEMORY_PART_BITS + 6 ? MEMORY_PART_BITS : bits - 6;
}
static_assert(MEMORY_PARTS == 1u << 6, "a bit of `populated` for each");

/** The bits of the parts that these bytes, one at least, are in. */
static inline uint64_t memory_parts_of(const struct memory *m, uint64_t offset, uint64_t size)
{
    unsigned bits = memory_part_bits(m);
    uint64_t first = offset >> bits, last = (offset + size - 1) >> bits;

    return UINT64_MAX >> (MEMORY_PARTS - 1 - (last - first)) << first;
}

/** memory_populate() where pages may be missing. */
void memory_populate_parts(struct session *s, const struct memory *copy, uint64_t offset,
                           uint64_t size);

/**
 * A task will use these bytes of the allocation, of which `copy` was looked up: they get their
 * pages now, by this process. The kernel charges a page to the control group of the process that
 * touches it first, and that must not be npud.
 */
static inline void memory_populate(struct session *s, const struct memory *copy, uint64_t offset,
                                   uint64_t size)
{
    if (size != 0 && (~copy->populated & memory_parts_of(copy, offset, size)) != 0)
        memory_populate_parts(s, copy, offset, size);
}

/** It is mapped without access while no kernel runs: kernel_access.h. */
static inline bool memory_is_closable(const struct memory *m)
{
    return m->opaque && !m->no_access && !m->freed;
}

/** It has come into the table, or may be used from now on: kernels that run may reach it. Under
 * memory_lock, for a change. */
void memory_open_to_kernels(const struct session *s, const struct memory *m);

/** Is memory of the device out of reach, but for tasks? */
static inline bool memory_is_opaque(const struct session *s, bool host, uint32_t device)
{
    return !host && s->device_info[device].strict;
}

/**
 * Map what came as fd, which is closed in any case, where the kernel likes; memory that is opaque
 * at the addresses that npud has given (m->mapped.start; 0: none), unless the program has something
 * there. 0, or an ACL error.
 */
int memory_map(struct session *s, const char *function, struct memory *m, int fd);
/**
 * Into the table: m is the session's. key: by which it was imported, or NULL. c: the current
 * context, with whose device it goes; NULL: it stays when devices are reset. 0, or an ACL error: no
 * memory, or the context ended meanwhile.
 */
int memory_add(struct session *s, const char *function, struct memory *m, const char *key,
               const struct context *c);
/**
 * What is registered there is no more: the memory goes, or m has come in the place of what was
 * there. Caller holds memory_lock, to change.
 */
void memory_forget_registered(struct session *s, const struct memory *m);
/** Out of the table: the oldest that was imported by this key. NULL: there is none. */
struct memory *memory_take_import(struct session *s, const char *key);
/** Free what was taken out of the table. 0, or an ACL error; it is gone in any case. */
int memory_drop(struct session *s, const char *function, struct memory *m);
/**
 * A copy of what begins at address, which aclrtMalloc() of this process has allocated: `size` bytes
 * at least, or in all whole pages. 0, or ACL_ERROR_RT_PARAM_INVALID.
 */
int memory_find_own(struct session *s, const char *function, const void *address, size_t size,
                    struct memory *copy);

/** A checked process writes it down: it is mapped, or (UNMAP) not any more. */
void memory_note_mapping(enum check_kind kind, const struct memory *m) __attribute__((cold));
/** The same: it is about to leave the table. */
void memory_note_gone(const struct memory *m) __attribute__((cold));

/** Bytes of a device that the session has, or has given back, and that are not in the table. */
void memory_count_use(struct session *s, uint32_t device, uint64_t bytes);
void memory_uncount_use(struct session *s, uint32_t device, uint64_t bytes);

/** It is of a pool from now on, or (NULL) not any more. */
void memory_set_block(struct session *s, struct memory *m, struct pool_block *block);

/** Memory of a pool, which the program gets with this size. */
void memory_lend(struct session *s, struct memory *m, size_t size);

/**
 * The program frees memory of a pool that begins at address: the pool has it again. NULL: there is
 * none. *again becomes true: it was freed before.
 */
struct memory *memory_return(struct session *s, const void *address, bool *again);

/** Memory of a pool goes back to npud. */
void memory_give_back(struct session *s, const char *function, struct memory *m);

/** npud allocates `bytes` for m, which says of what kind, on the device of c; m is mapped. */
int memory_allocate(struct context *c, const char *function, struct memory *m, size_t bytes);
void memory_unmap(const struct memory *m);
int memory_free_remote(struct session *s, const char *function, uint32_t slot);

/**
 * The same for m->size bytes, and m is in the table: from then on it is the table's, which gives it
 * to free(). That can be before this returns, when another thread resets the device: *address is
 * the caller's.
 */
int memory_obtain(struct context *c, const char *function, struct memory *m, void **address);

/**
 * Memory for the program, on the device of c or pinned: allocated, mapped, and found by its
 * addresses. NULL with *error set. What it returns is for callers that keep resets away, by a lock
 * of the session or of a stream of c.
 */
struct memory *memory_make(struct context *c, const char *function, size_t size, bool host,
                           void **address, int *error);

/** What aclrtFree, or aclrtFreeHost, does. 0, or an ACL error. */
int memory_free(const char *function, void *pointer, bool host);

/** May so many bytes be asked for, with this policy? 0, or why not. */
int memory_check_request(const char *function, size_t size, aclrtMemMallocPolicy policy);

/**
 * A new allocation of `size` bytes, which memory_check_request() has let pass, on the device of the
 * current context. 0, or an ACL error.
 */
int memory_new(const char *function, void **pointer, size_t size, bool host);

/* --- what runtime calls through client/core/upcall.h, which describes it --- */

struct memory_list memory_take_device(struct session *s, uint32_t device);
bool memory_has_of_device(struct session *s, uint32_t device);
void memory_release(struct session *s, const char *function, struct memory_list list);
