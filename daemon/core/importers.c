#include "daemon/core/importers.h"

#include <stdlib.h>

#include "daemon/base/pidfd.h"
#include "daemon/core/capability.h"
#include "daemon/core/session.h"
#include "proto/wire/packet.h"

void importers_deinit(struct importers *i)
{
    kept_drop(&i->kept);
    free(i->list);
    i->list = NULL;
    i->n = 0;
}

/* --- the record --- */

static size_t bytes_of_list(size_t n)
{
    const struct importers_record *r = NULL;

    return sizeof(*r) + n * sizeof(r->pid[0]);
}

static size_t write_list(const struct kept *kept, void *record)
{
    const struct importers *importers =
        (const struct importers *)((const char *)kept - offsetof(struct importers, kept));
    struct importers_record *r = record;

    r->object = importers->object;
    r->n = importers->n;
    for (uint32_t i = 0; i < importers->n; i++) {
        r->pid[i].process = importers->list[i].process;
        r->pid[i].pid = importers->list[i].pid;
        r->pid[i].unused = 0;
    }
    return bytes_of_list(importers->n);
}

/* In a few sizes: a record has no more room than it was made with. */
static uint32_t room_for(uint32_t n)
{
    return n <= 16 ? 16 : n <= 64 ? 64 : IMPORTERS_MAX;
}

/* The list has changed, or there is to be room for so many in its record. */
static bool keep_list(struct importers *i, enum kept_kind kind, uint32_t wanted)
{
    struct kept larger;

    if (i->kept.cell && wanted <= i->room) {
        kept_touch(&i->kept);
        return true;
    }
    if (!kept_make(&larger, kind, bytes_of_list(room_for(wanted)), write_list))
        return false;
    kept_drop(&i->kept);
    kept_move(&i->kept, &larger);
    i->room = room_for(wanted);
    return true;
}

bool importers_restore(struct importers *importers, struct kept_cell *cell)
{
    const struct importers_record *r = (const struct importers_record *)cell->record;

    if (importers->list || r->n > IMPORTERS_MAX || cell_bytes(cell) < bytes_of_list(r->n))
        return false;
    importers->list = calloc(r->n, sizeof(*importers->list));
    if (r->n > 0 && !importers->list)
        return false;
    importers->n = (uint32_t)r->n;
    for (uint32_t i = 0; i < importers->n; i++)
        importers->list[i] = (struct importer){.pid = r->pid[i].pid, .process = r->pid[i].process};
    importers->room =
        (uint32_t)((cell_bytes(cell) - bytes_of_list(0)) / (bytes_of_list(1) - bytes_of_list(0)));
    return kept_bind(&importers->kept, cell, cell_bytes(cell), write_list);
}

/* --- the list --- */

static struct importer *find_pid(struct importers *importers, int32_t pid)
{
    for (uint32_t i = 0; i < importers->n; i++)
        if (importers->list[i].pid == pid)
            return &importers->list[i];
    return NULL;
}

static enum cause allow_pid(struct importers *i, enum kept_kind kind, int32_t pid)
{
    struct importer *entry = find_pid(i, pid);

    if (!entry) {
        if (i->n == IMPORTERS_MAX)
            return CAUSE_IMPORTERS;
        if (!keep_list(i, kind, i->n + 1))
            return CAUSE_MEMORY;
        entry = reallocarray(i->list, i->n + 1, sizeof(*entry));
        if (!entry)
            return CAUSE_MEMORY;
        i->list = entry;
        entry += i->n++;
    }
    *entry = (struct importer){.pid = pid, .process = pidfd_now(pid)};
    kept_touch(&i->kept);
    return CAUSE_NONE;
}

enum cause importers_allow(struct importers *importers, enum kept_kind kind, const int32_t *pids,
                           size_t n)
{
    enum cause cause = CAUSE_NONE;

    if (n > NOTIFY_PIDS_REQUEST)
        return CAUSE_IMPORTERS_REQUEST;
    for (size_t i = 0; i < n; i++)
        if (pids[i] <= 0)
            return CAUSE_IMPORTER_PID;
    for (size_t i = 0; i < n && cause == CAUSE_NONE; i++)
        cause = allow_pid(importers, kind, pids[i]);
    return cause;
}

enum importers_answer importers_ask(struct importers *importers, const struct session *session)
{
    struct importer *entry;
    uint64_t process;

    if (importers->any_pid)
        return capability_in_scope(session, importers->uid) ? IMPORTERS_MAY : IMPORTERS_OTHER_USER;
    entry = find_pid(importers, session->pid);
    if (!entry)
        return IMPORTERS_NOT_LISTED;
    process = pidfd_of(session->pid, session->pidfd);
    if (entry->process == 0) {
        entry->process = process;
        kept_touch(&importers->kept);
    }
    return entry->process == process ? IMPORTERS_MAY : IMPORTERS_NOT_LISTED;
}
