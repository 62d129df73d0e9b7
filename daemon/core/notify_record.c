/* What is kept of notifies, and how they come back. */
#include <stdlib.h>
#include <utlist.h>

#include "daemon/core/device.h"
#include "daemon/core/notify.h"
#include "daemon/core/server.h"
#include "daemon/core/session.h"
#include "daemon/kept/record.h"
#include "daemon/kept/restored.h"

/* While npud restores: its notifies, by number. */
static struct restored restored;

/* --- records --- */

#define NOTIFY_MEMBERS(DO)                                                                         \
    DO##SAME(number, number);                                                                      \
    DO##SAME(uid, importers.uid);                                                                  \
    DO##DERIVED(device, o->device->index);                                                         \
    DO##DERIVED(id, o->id->number);                                                                \
    DO##SAME(counts, counts);                                                                      \
    DO##SAME(exported, exported);                                                                  \
    DO##SAME(any_pid, importers.any_pid);                                                          \
    DO##BYTES(key, key);

RECORD_LIVE(, notify, NOTIFY, struct notify, kept, struct notify_record, NOTIFY_MEMBERS, live)

#define OPEN_MEMBERS(DO)                                                                           \
    DO##DERIVED(session, o->session->id);                                                          \
    DO##DERIVED(notify, o->notify->number);                                                        \
    DO##DERIVED(slot, o->slot.number);                                                             \
    DO##DERIVED(generation, slot_generation(o));                                                   \
    DO##SAME(over, over);                                                                          \
    DO##DERIVED(creator, o->notify->creator == o);

RECORD(, notify_open, NOTIFY_OPEN, struct notify_open, kept, struct notify_open_record,
       OPEN_MEMBERS)

/* --- restoring --- */

/* False: no memory. */
static bool list_exported(struct notify *n)
{
    if (!n->exported)
        return true;
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
    n->importers.object = r.number;
    n->id = slots_restore(&n->device->notify_ids, r.id, 1);
    return n->id && notify_back(server, n, cell, &r) && restored_add(&restored, n->number, n) &&
           list_exported(n);
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

    kept_read(cell, &r, sizeof(r));
    session = session_by_id(r.session);
    n = restored_find(&restored, r.notify);
    open = session && n ? slots_restore(&session->notifies, r.slot, r.generation) : NULL;
    if (!open || !notify_open_back(server, open, cell, &r))
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
