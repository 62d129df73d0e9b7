/*
 * What npud has named by handles: memory of devices, pages of the host, binaries.
 *
 * The table holds a reference to each object, and a lane to those that it works with. The last one
 * to leave frees it: so work that has begun comes to its end when npud frees what it uses. A handle
 * has a number in its high half with which no other has its slot, so one that is too old finds
 * nothing.
 *
 * The control thread adds and drops, any thread uses.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/executor/host_pages.h"
#include "daemon/executor/vendor.h"

enum object_kind { OBJECT_MEMORY, OBJECT_PAGES, OBJECT_BINARY };

struct object {
    enum object_kind kind;
    uint32_t users;  /* with the table. Under its lock */
    uint32_t device; /* not of pages */
    union {
        struct {
            struct vendor_memory memory;
            struct vendor_token token; /* what it was exported as. Control thread */
        };
        struct host_pages pages;
        struct {
            void *binary;
            void **functions; /* by npud's numbers, NULL where there is none. Under the lock */
            uint32_t n_functions;
        };
    };
};

/** One of zeros, which the caller fills and adds, or frees. NULL, and vendor_text(): no memory. */
struct object *object_new(enum object_kind kind, uint32_t device);

/**
 * It has this handle from now on, and is the table's. What had the same place by another number
 * goes: the npud that has asked for it has died before it knew, and no other one has heard of it.
 * An ACL error: the handle is none, or taken; the object is the caller's.
 */
int32_t object_add(uint64_t handle, struct object *object);
/** Its handle means nothing any more. Nothing, if it does not now. */
void object_drop(uint64_t handle);
/** All of a device. */
void object_drop_all(uint32_t device);

/** The object of that kind, until object_leave(). NULL, and vendor_text(): there is none. */
struct object *object_use(uint64_t handle, enum object_kind kind);
/** Memory or pages. */
struct object *object_use_bytes(uint64_t handle);
/** May free it, by the library. NULL: nothing. */
void object_leave(struct object *object);

/** Bytes of memory or pages. */
uint64_t object_size(const struct object *object);

/** A function of a binary gets a number, or has it. 0 or an ACL error. */
int32_t object_add_function(struct object *binary, uint32_t number, void *function);
/** NULL: none has this number. */
void *object_function(struct object *binary, uint64_t number);

/** At most max handles from slot *at on, which moves behind them: how many. Control thread. */
uint32_t object_list(uint32_t *at, uint64_t *handles, uint32_t max);
