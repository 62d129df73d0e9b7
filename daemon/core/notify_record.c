/* What is kept of notifies, and how they come back. */
#include <assert.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "daemon/core/device.h"
#include "daemon/core/notify.h"
#include "daemon/core/server.h"
#include "daemon/core/session.h"
#include "daemon/kept/restored.h"

/* While npud restores: its notifies, by number. */
static struct restored restored;

/* --- records --- */

static size_t write_notify(const struct kept *kept, void *record)
{
    const struct notify *n =
        (const struct notify *)((const char *)kept - offsetof(struct notify, record));
    struct notify_record *r = record;

    static_assert(sizeof(r->key) == sizeof(n->key), "as it was given out");
    *r = (struct notify_record){.number = n->number,
                                .uid = n->importers.uid,
                                .device = n->device->index,
                                .id = n->id->slot.number,
                                .counts = n->counts,
                                .exported = n->exported,
                                .any_pid = n->importers.any_pid};
    memcpy(r->key, &n->key, sizeof(r->key));
    return offsetof(struct notify_record, live);
}

static size_t write_open(const struct kept *kept, void *record)
{
    const struct notify_open *open =
        (const struct notify_open *)((const char *)kept - offsetof(struct notify_open, record));

    *(struct notify_open_record *)record =
        (struct notify_open_record){.session = open->session->id,
                                    .notify = open->notify->number,
                                    .slot = open->slot.number,
                                    .generation = slot_generation(open),
                                    .creator = open->notify->creator == open};
    return sizeof(struct notify_open_record);
}

static void use_record(struct notify *n)
{
    n->live = &((struct notify_record *)kept_record(&n->record))->live;
}

bool notify_keep(struct notify *n)
{
    if (!kept_make(&n->record, KEPT_NOTIFY, sizeof(struct notify_record), write_notify))
        return false;
    use_record(n);
    return true;
}

bool notify_open_keep(struct notify_open *open)
{
    return kept_make(&open->record, KEPT_NOTIFY_OPEN, sizeof(struct notify_open_record),
                     write_open);
}

/* --- restoring --- */

static bool restore_key(struct notify *n, const struct notify_record *r)
{
    if (!r->exported)
        return true;
    memcpy(&n->key, r->key, sizeof(n->key));
    n->exported = true;
    n->importers.any_pid = r->any_pid;
    HASH_ADD(hh, n->all->by_number, number, sizeof(n->number), n);
    return n->hh.tbl != NULL;
}

bool notify_restore(struct server *server, struct kept_cell *cell)
{
    struct notify *n = calloc(1, sizeof(*n));
    struct notify_record r;

    kept_read(cell, &r, sizeof(r));
    if (!n || !devices_get(server->devices, r.device))
        /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): npud ends if it cannot restore */
        return false;
    notify_begin(n, server->notifies, devices_get(server->devices, r.device), r.counts);
    n->number = r.number;
    n->importers.uid = r.uid;
    n->importers.object = r.number;
    n->id = slots_restore(&n->device->notify_ids, r.id, 1);
    if (!n->id || !restored_add(&restored, n->number, n) ||
        !kept_bind(&n->record, cell, sizeof(r), write_notify))
        return false;
    use_record(n);
    return restore_key(n, &r);
}

bool notify_pids_restore(struct server *server, struct kept_cell *cell)
{
    const struct importers_record *r = (const struct importers_record *)cell->record;
    struct notify *n = restored_find(&restored, r->object);

    (void)server;
    return n && importers_restore(&n->importers, cell);
}

bool notify_open_restore(struct server *server, struct kept_cell *cell)
{
    struct notify_open_record r;
    struct notify_open *open;
    struct session *session;
    struct notify *n;

    (void)server;
    kept_read(cell, &r, sizeof(r));
    session = session_by_id(r.session);
    n = restored_find(&restored, r.notify);
    open = session && n ? slots_restore(&session->notifies, r.slot, r.generation) : NULL;
    if (!open || !kept_bind(&open->record, cell, sizeof(r), write_open))
        return false;
    notify_join(n, open, session);
    if (r.creator)
        n->creator = open;
    user_charge_again(&open->charge, session->user, RESOURCE_NOTIFIES, 1, false);
    return true;
}

void notifies_finish_restoring(struct server *server)
{
    for (uint32_t i = 0; i < server->devices->n; i++)
        slots_restored(&server->devices->device[i].notify_ids);
    for (size_t i = 0; i < restored.n; i++)
        notify_go_on(restored.row[i].object);
    restored_forget(&restored);
}
