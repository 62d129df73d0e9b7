#include "daemon/memory/export.h"

#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "daemon/base/kill_here.h"
#include "daemon/core/capability.h"
#include "daemon/core/device.h"
#include "daemon/kept/record.h"
#include "daemon/core/server.h"
#include "daemon/core/session.h"
#include "daemon/kept/session_record.h"
#include "daemon/memory/allocation.h"
#include "daemon/memory/pages.h"
#include "proto/shm/arena.h"
#include "proto/util/random.h"

static struct mem *find_memory(uint64_t session_id, uint32_t slot)
{
    struct session *session = session_by_id(session_id);

    return session ? slots_get(&session->mems, slot) : NULL;
}

#define EXPORT_MEMBERS(DO)                                                                         \
    DO##DERIVED(session, o->mem->session->id);                                                     \
    DO##FIND(slot, mem, slot.number, find_memory(r->session, r->slot));                            \
    DO##SAME(number, number);                                                                      \
    DO##SAME(size, size);                                                                          \
    DO##SAME(any_pid, importers.any_pid);                                                          \
    DO##SAME(by_number, by_number);                                                                \
    DO##BYTES(key, key);

RECORD(static, memory_export, MEMORY_EXPORT, struct memory_export, kept,
       struct memory_export_record, EXPORT_MEMBERS)

/* Into the tables. False: no memory. */
static bool add_export(struct memory_export *export)
{
    struct mem *m = export->mem;
    struct memory_exports *all = m->session->server->memory_exports;

    export->importers.uid = m->session->uid;
    export->importers.object = export->number;
    HASH_ADD(hh, all->by_number, number, sizeof(export->number), export);
    if (!export->hh.tbl)
        return false;
    DL_APPEND(m->exports, export);
    m->n_exports++;
    return true;
}

void memory_export_free(struct memory_export *export)
{
    struct memory_exports *all = export->mem->session->server->memory_exports;

    HASH_DEL(all->by_number, export);
    DL_DELETE(export->mem->exports, export);
    export->mem->n_exports--;
    importers_deinit(&export->importers);
    kept_drop(&export->kept);
    user_uncharge(&export->charge);
    free(export);
}

static struct memory_export *find_number(struct memory_exports *all, uint64_t number)
{
    struct memory_export *export;

    HASH_FIND(hh, all->by_number, &number, sizeof(number), export);
    return export;
}

/* A number that no other has, and a key with it. */
static enum cause name_export(struct memory_export *export, struct session *session,
                              uint32_t device)
{
    do {
        if (!random_fill(&export->number, sizeof(export->number)))
            return CAUSE_RANDOM;
    } while (export->number == 0 || find_number(session->server->memory_exports, export->number));
    if (export->by_number)
        return CAUSE_NONE;
    export->key = (struct export_key){.magic = EXPORT_KEY_MEMORY,
                                      .version = EXPORT_KEY_VERSION,
                                      .device = (uint8_t)device,
                                      .number = export->number,
                                      .instance = session->server->instance};
    if (!random_fill(export->key.secret, sizeof(export->key.secret)))
        return CAUSE_RANDOM;
    export_key_seal(&export->key);
    return CAUSE_NONE;
}

/* Charged, named, in the tables and kept. */
static enum cause begin_export(struct memory_export *export)
{
    struct mem *m = export->mem;
    struct session *session = m->session;
    enum cause cause;

    if (user_charge(&export->charge, session->user, RESOURCE_MEMORY_EXPORTS, 1) < 0)
        return CAUSE_USER_MEMORY_EXPORTS;
    cause = name_export(export, session, m->pages->device->index);
    if (cause != CAUSE_NONE)
        return cause;
    if (!pages_enlist(m->pages, session->server->memory_exports) || !memory_export_keep(export))
        return CAUSE_MEMORY;
    if (add_export(export))
        return CAUSE_NONE;
    kept_drop(&export->kept);
    return CAUSE_MEMORY;
}

enum cause memory_export_new(struct mem *m, uint64_t size, bool any_pid, bool by_number,
                             struct memory_export **exportp)
{
    struct memory_export *export;
    enum cause cause;

    if (m->imported)
        return CAUSE_MEMORY_IMPORTED;
    if (size == 0 || size > m->pages->size)
        return CAUSE_ALLOCATION_RANGE;
    if (by_number && m->exports)
        return CAUSE_MEMORY_EXPORTED_BEFORE;
    if (m->n_exports == MEM_EXPORTS_MAX)
        return CAUSE_MEMORY_EXPORTS;
    export = calloc(1, sizeof(*export));
    if (!export)
        return CAUSE_MEMORY;
    export->mem = m;
    export->size = size;
    export->by_number = by_number;
    export->importers.any_pid = any_pid;
    cause = begin_export(export);
    if (cause != CAUSE_NONE) {
        user_uncharge(&export->charge);
        free(export);
        return cause;
    }
    pages_expect(m->pages);
    KILL_HERE(MEMORY_SHARED);
    *exportp = export;
    return CAUSE_NONE;
}

/* --- names --- */

static enum cause find_by_key(struct server *server, const char *text,
                              struct memory_export **export)
{
    struct export_key key;

    if (!export_key_decode(&key, EXPORT_KEY_MEMORY, text, strlen(text)))
        return CAUSE_MEMORY_KEY;
    if (key.instance != server->instance)
        return CAUSE_MEMORY_OF_OTHER_NPUD;
    *export = find_number(server->memory_exports, key.number);
    if (!*export)
        return CAUSE_MEMORY_GONE;
    if ((*export)->by_number || !capability_equal(&key, &(*export)->key, sizeof(key)))
        return CAUSE_MEMORY_KEY;
    return CAUSE_NONE;
}

static enum cause find_share(struct server *server, struct export_name name,
                             struct memory_export **export)
{
    if (name.key)
        return find_by_key(server, name.key, export);
    *export = find_number(server->memory_exports, name.number);
    return *export && (*export)->by_number ? CAUSE_NONE : CAUSE_MEMORY_GONE;
}

enum cause memory_export_find_own(struct session *session, struct export_name name,
                                  struct memory_export **export)
{
    enum cause cause = find_share(session->server, name, export);

    if (cause == CAUSE_NONE && (*export)->mem->session != session)
        cause = CAUSE_MEMORY_NOT_EXPORTED;
    return cause;
}

enum cause memory_export_allow(struct memory_export *export, const int32_t *pids, size_t n)
{
    if (export->importers.any_pid)
        return CAUSE_MEMORY_ANY_PID;
    pages_expect(export->mem->pages);
    return importers_allow(&export->importers, KEPT_MEMORY_PIDS, pids, n);
}

/* --- importing --- */

static enum cause may_import(struct memory_export *export, const struct session *session)
{
    static const enum cause causes[] = {
        [IMPORTERS_MAY] = CAUSE_NONE,
        [IMPORTERS_NOT_LISTED] = CAUSE_MEMORY_NOT_LISTED,
        [IMPORTERS_OTHER_USER] = CAUSE_MEMORY_OF_OTHER_USER,
    };

    if (export->mem->session == session)
        return CAUSE_NONE;
    return causes[importers_ask(&export->importers, session)];
}

enum cause memory_export_import(struct session *session, struct export_name name, struct mem **mem)
{
    struct memory_export *export;
    enum cause cause = find_share(session->server, name, &export);

    if (cause == CAUSE_NONE)
        cause = may_import(export, session);
    if (cause == CAUSE_NONE)
        cause = allocation_import(session, export->mem->pages, export->size, mem);
    if (cause == CAUSE_NONE)
        KILL_HERE(MEMORY_IMPORTED);
    return cause;
}

/* --- restoring --- */

bool memory_export_restore(struct server *server, struct kept_cell *cell)
{
    struct memory_export *export = calloc(1, sizeof(*export));
    struct memory_export_record r;

    kept_read(cell, &r, sizeof(r));
    if (!export || !memory_export_back(server, export, cell, &r))
        /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): npud ends if it cannot restore */
        return false;
    user_charge_again(&export->charge, export->mem->session->user, RESOURCE_MEMORY_EXPORTS, 1,
                      false);
    return add_export(export);
}

bool memory_export_restore_pids(struct server *server, struct kept_cell *cell)
{
    const struct importers_record *r = (const struct importers_record *)cell->record;
    struct memory_export *export = find_number(server->memory_exports, r->object);

    return export && importers_restore(&export->importers, cell);
}
