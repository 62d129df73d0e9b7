/*
 * Exports of memory: what one session has allocated, and others may import. Named by a text key, or
 * by a number of 64 random bits (shareable handles); either is a capability, and a list of
 * processes goes with it unless it is for any that has the name (core/importers.h).
 *
 * An export belongs to the allocation from which it was made and goes with it, or before. Who has
 * imported by then keeps the pages (pages.h).
 *
 * Control thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/base/hash.h"
#include "daemon/core/user.h"
#include "daemon/core/cause.h"
#include "daemon/core/export_key.h"
#include "daemon/core/importers.h"
#include "daemon/kept/kept.h"

struct mem;
struct pages;
struct server;
struct session;
struct sharer;

struct memory_export {
    uint64_t number; /* random */
    struct mem *mem; /* whose it is */
    uint64_t size;   /* of what is exported, from the first byte on */
    bool by_number;  /* named by that */
    struct export_key key;
    struct importers importers;
    struct kept kept;
    struct charge charge;
    struct memory_export *prev, *next; /* mem->exports */
    UT_hash_handle hh;
};

/** All of npud. */
struct memory_exports {
    struct memory_export *by_number;
    struct pages *pages;    /* that have a number, by it */
    struct sharer *sharers; /* of all pages that have more than one, by both */
};

/** How a client names an export. */
struct export_name {
    const char *key; /* NULL: by its number */
    uint64_t number;
};

/** Export `size` bytes of the allocation of the session that has made it. */
enum cause memory_export_new(struct mem *mem, uint64_t size, bool any_pid, bool by_number,
                             struct memory_export **export);
void memory_export_free(struct memory_export *export);

/** The export that the session has made under this name. */
enum cause memory_export_find_own(struct session *session, struct export_name name,
                                  struct memory_export **export);

/** Put pids on its list: importers_allow(). */
enum cause memory_export_allow(struct memory_export *export, const int32_t *pids, size_t n);

/** The session gets an allocation that has the same pages, of export->size bytes. */
enum cause memory_export_import(struct session *session, struct export_name name, struct mem **mem);
