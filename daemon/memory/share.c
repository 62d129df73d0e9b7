#include "daemon/memory/share.h"

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

#define SHARE_MEMBERS(DO)                                                                          \
    DO##DERIVED(session, o->mem->session->id);                                                     \
    DO##FIND(slot, mem, slot.number, find_memory(r->session, r->slot));                            \
    DO##SAME(number, number);                                                                      \
    DO##SAME(size, size);                                                                          \
    DO##SAME(any_pid, importers.any_pid);                                                          \
    DO##SAME(by_number, by_number);                                                                \
    DO##BYTES(key, key);

RECORD(static, share, MEMORY_SHARE, struct share, record, struct memory_share_record, SHARE_MEMBERS)

/* Into the tables. False: no memory. */
static bool add_share(struct share *share)
{
    struct mem *m = share->mem;
    struct shares *all = m->session->server->shares;

    share->importers.uid = m->session->uid;
    share->importers.object = share->number;
    HASH_ADD(hh, all->by_number, number, sizeof(share->number), share);
    if (!share->hh.tbl)
        return false;
    DL_APPEND(m->shares, share);
    m->n_shares++;
    return true;
}

void share_free(struct share *share)
{
    struct shares *all = share->mem->session->server->shares;

    HASH_DEL(all->by_number, share);
    DL_DELETE(share->mem->shares, share);
    share->mem->n_shares--;
    importers_deinit(&share->importers);
    kept_drop(&share->record);
    user_uncharge(&share->charge);
    free(share);
}

static struct share *find_number(struct shares *all, uint64_t number)
{
    struct share *share;

    HASH_FIND(hh, all->by_number, &number, sizeof(number), share);
    return share;
}

/* A number that no other has, and a key with it. */
static enum cause name_share(struct share *share, struct session *session, uint32_t device)
{
    do {
        if (!random_fill(&share->number, sizeof(share->number)))
            return CAUSE_RANDOM;
    } while (share->number == 0 || find_number(session->server->shares, share->number));
    if (share->by_number)
        return CAUSE_NONE;
    share->key = (struct export_key){.magic = EXPORT_KEY_MEMORY,
                                     .version = EXPORT_KEY_VERSION,
                                     .device = (uint8_t)device,
                                     .number = share->number,
                                     .instance = session->server->instance};
    if (!random_fill(share->key.secret, sizeof(share->key.secret)))
        return CAUSE_RANDOM;
    export_key_seal(&share->key);
    return CAUSE_NONE;
}

/* Charged, named, in the tables and kept. */
static enum cause begin_share(struct share *share)
{
    struct mem *m = share->mem;
    struct session *session = m->session;
    enum cause cause;

    if (user_charge(&share->charge, session->user, RESOURCE_MEMORY_EXPORTS, 1) < 0)
        return CAUSE_USER_MEMORY_EXPORTS;
    cause = name_share(share, session, m->pages->device->index);
    if (cause != CAUSE_NONE)
        return cause;
    if (!pages_enlist(m->pages, session->server->shares) || !share_keep(share))
        return CAUSE_MEMORY;
    if (add_share(share))
        return CAUSE_NONE;
    kept_drop(&share->record);
    return CAUSE_MEMORY;
}

enum cause share_new(struct mem *m, uint64_t size, bool any_pid, bool by_number,
                     struct share **sharep)
{
    struct share *share;
    enum cause cause;

    if (m->imported)
        return CAUSE_MEMORY_IMPORTED;
    if (size == 0 || size > m->pages->size)
        return CAUSE_ALLOCATION_RANGE;
    if (by_number && m->shares)
        return CAUSE_MEMORY_EXPORTED_BEFORE;
    if (m->n_shares == MEM_EXPORTS_MAX)
        return CAUSE_MEMORY_EXPORTS;
    share = calloc(1, sizeof(*share));
    if (!share)
        return CAUSE_MEMORY;
    share->mem = m;
    share->size = size;
    share->by_number = by_number;
    share->importers.any_pid = any_pid;
    cause = begin_share(share);
    if (cause != CAUSE_NONE) {
        user_uncharge(&share->charge);
        free(share);
        return cause;
    }
    pages_expect(m->pages);
    KILL_HERE(MEMORY_SHARED);
    *sharep = share;
    return CAUSE_NONE;
}

/* --- names --- */

static enum cause find_by_key(struct server *server, const char *text, struct share **share)
{
    struct export_key key;

    if (!export_key_decode(&key, EXPORT_KEY_MEMORY, text, strlen(text)))
        return CAUSE_MEMORY_KEY;
    if (key.instance != server->instance)
        return CAUSE_MEMORY_OF_OTHER_NPUD;
    *share = find_number(server->shares, key.number);
    if (!*share)
        return CAUSE_MEMORY_GONE;
    if ((*share)->by_number || !capability_equal(&key, &(*share)->key, sizeof(key)))
        return CAUSE_MEMORY_KEY;
    return CAUSE_NONE;
}

static enum cause find_share(struct server *server, struct share_name name, struct share **share)
{
    if (name.key)
        return find_by_key(server, name.key, share);
    *share = find_number(server->shares, name.number);
    return *share && (*share)->by_number ? CAUSE_NONE : CAUSE_MEMORY_GONE;
}

enum cause share_find_own(struct session *session, struct share_name name, struct share **share)
{
    enum cause cause = find_share(session->server, name, share);

    if (cause == CAUSE_NONE && (*share)->mem->session != session)
        cause = CAUSE_MEMORY_NOT_EXPORTED;
    return cause;
}

enum cause share_allow(struct share *share, const int32_t *pids, size_t n)
{
    if (share->importers.any_pid)
        return CAUSE_MEMORY_ANY_PID;
    pages_expect(share->mem->pages);
    return importers_allow(&share->importers, KEPT_MEMORY_PIDS, pids, n);
}

/* --- importing --- */

static enum cause may_import(struct share *share, const struct session *session)
{
    static const enum cause causes[] = {
        [IMPORTERS_MAY] = CAUSE_NONE,
        [IMPORTERS_NOT_LISTED] = CAUSE_MEMORY_NOT_LISTED,
        [IMPORTERS_OTHER_USER] = CAUSE_MEMORY_OF_OTHER_USER,
    };

    if (share->mem->session == session)
        return CAUSE_NONE;
    return causes[importers_ask(&share->importers, session)];
}

enum cause share_import(struct session *session, struct share_name name, struct mem **mem)
{
    struct share *share;
    enum cause cause = find_share(session->server, name, &share);

    if (cause == CAUSE_NONE)
        cause = may_import(share, session);
    if (cause == CAUSE_NONE)
        cause = allocation_import(session, share->mem->pages, share->size, mem);
    if (cause == CAUSE_NONE)
        KILL_HERE(MEMORY_IMPORTED);
    return cause;
}

/* --- restoring --- */

bool share_restore(struct server *server, struct kept_cell *cell)
{
    struct share *share = calloc(1, sizeof(*share));
    struct memory_share_record r;

    kept_read(cell, &r, sizeof(r));
    if (!share || !share_back(server, share, cell, &r))
        /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): npud ends if it cannot restore */
        return false;
    user_charge_again(&share->charge, share->mem->session->user, RESOURCE_MEMORY_EXPORTS, 1, false);
    return add_share(share);
}

bool share_restore_pids(struct server *server, struct kept_cell *cell)
{
    const struct importers_record *r = (const struct importers_record *)cell->record;
    struct share *share = find_number(server->shares, r->object);

    return share && importers_restore(&share->importers, cell);
}
