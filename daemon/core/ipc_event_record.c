/* What is kept of IPC events, and how they come back. */
#include <stdlib.h>
#include <sys/mman.h>
#include <utlist.h>

#include "daemon/base/kill_here.h"
#include "daemon/base/waker.h"
#include "daemon/core/ipc_event.h"
#include "daemon/core/ipc_failures.h"
#include "daemon/core/ipc_record.h"
#include "daemon/core/server.h"
#include "daemon/core/session.h"
#include "daemon/kept/record.h"

/* --- records --- */

static struct ipc_event *find_event(struct server *server, uint64_t id)
{
    struct ipc_event *ev;

    HASH_FIND(hh, server->ipc->by_id, &id, sizeof(id), ev);
    return ev;
}

#define EVENT_MEMBERS(DO)                                                                          \
    DO##DERIVED(id, o->id);                                                                        \
    DO##FD(page_key, fd);                                                                          \
    DO##DERIVED(linger_order, o->lingers ? o->linger_order : 0);                                   \
    DO##FIND(uid, user, uid, user_ref(&server->users, r->uid));                                    \
    DO##SAME(device, device);                                                                      \
    DO##SAME(last_exporter, last_exporter);                                                        \
    DO##BYTES(handle, handle);

RECORD_LIVE(, ipc_event, IPC_EVENT, struct ipc_event, kept, struct ipc_event_record, EVENT_MEMBERS,
            live)

/* The pid is read by other threads. */
#define OPENER_MEMBERS(DO)                                                                         \
    DO##FIND(event, event, id, find_event(server, r->event));                                      \
    DO##DERIVED(number, o->slot.number);                                                           \
    DO##DERIVED(pid, atomic_load_explicit(&o->pid, memory_order_relaxed));

RECORD(, ipc_opener, IPC_OPENER, struct ipc_opener, kept, struct ipc_opener_record, OPENER_MEMBERS)

#define OPEN_MEMBERS(DO)                                                                           \
    DO##FIND(session, session, id, session_by_id(r->session));                                     \
    DO##FIND(event, event, id, find_event(server, r->event));                                      \
    DO##DERIVED(slot, o->slot.number);                                                             \
    DO##DERIVED(generation, slot_generation(o));                                                   \
    DO##FIND(opener, opener, slot.number, slots_get(&o->event->openers, r->opener));               \
    DO##SAME(state, state);

RECORD(, ipc_open, IPC_OPEN, struct ipc_open, kept, struct ipc_open_record, OPEN_MEMBERS)

#define EXPORT_MEMBERS(DO)                                                                         \
    DO##FIND(session, session, id, session_by_id(r->session));                                     \
    DO##SAME(event, id);

RECORD(, ipc_export, IPC_EXPORT, struct ipc_export, kept, struct ipc_export_record, EXPORT_MEMBERS)

#define LEFT_MEMBERS(DO)                                                                           \
    DO##FIND(event, event, id, find_event(server, r->event));                                      \
    DO##DERIVED(survivor, o->part.survivor->session_id);                                           \
    DO##FIND(opener, opener, slot.number, slots_get(&o->event->openers, (uint32_t)r->opener));

RECORD(, ipc_left, IPC_LEFT, struct ipc_left, kept, struct ipc_left_record, LEFT_MEMBERS)

/* --- restoring --- */

static bool map_page(struct ipc_event *ev)
{
    void *map = mmap(NULL, sizeof(*ev->page), PROT_READ | PROT_WRITE, MAP_SHARED, ev->fd, 0);

    if (map == MAP_FAILED)
        return false;
    ev->page = map;
    return true;
}

/* In the order of records, for now. */
static void linger_again(struct ipc_event *ev, uint64_t order)
{
    user_charge_again(&ev->linger_charge, ev->user, RESOURCE_IPC_EVENTS, 1, false);
    user_charge_again(&ev->linger_charge_fd, ev->user, RESOURCE_FDS, 1, true);
    DL_APPEND2(ev->user->linger, ev, linger_prev, linger_next);
    ev->user->n_linger++;
    ev->all->lingering++;
    ev->lingers = true;
    ev->linger_order = order;
    if (order > ev->all->lingered)
        ev->all->lingered = order;
}

bool ipc_event_restore(struct server *server, struct kept_cell *cell)
{
    struct ipc_event *ev = calloc(1, sizeof(*ev));
    struct ipc_event_record r;

    kept_read(cell, &r, sizeof(r));
    if (!ev || !ipc_event_back(server, ev, cell, &r) || !map_page(ev))
        /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): npud ends if it cannot restore */
        return false;
    ipc_event_begin(ev, server->ipc, r.id);
    HASH_ADD(hh, ev->all->by_id, id, sizeof(ev->id), ev);
    if (r.linger_order != 0)
        linger_again(ev, r.linger_order);
    return ev->hh.tbl != NULL;
}

/* Every number is taken at first, also one that no process has. */
bool ipc_opener_restore(struct server *server, struct kept_cell *cell)
{
    struct ipc_opener_record r;
    struct ipc_opener *opener;
    struct ipc_event *ev;

    kept_read(cell, &r, sizeof(r));
    ev = find_event(server, r.event);
    opener = ev ? slots_restore(&ev->openers, r.number, 1) : NULL;
    if (!opener)
        return false;
    atomic_store_explicit(&opener->pid, r.pid, memory_order_relaxed);
    return ipc_opener_back(server, opener, cell, &r);
}

bool ipc_open_restore(struct server *server, struct kept_cell *cell)
{
    struct session *session;
    struct ipc_open_record r;
    struct ipc_open *open;

    kept_read(cell, &r, sizeof(r));
    session = session_by_id(r.session);
    open = session ? slots_restore(&session->ipc, r.slot, r.generation) : NULL;
    if (!open || !ipc_open_back(server, open, cell, &r) || open->opener->open)
        return false;
    open->opener->open = open;
    DL_APPEND(open->event->opens, open);
    user_charge_again(&open->charge, session->user, RESOURCE_IPC_EVENTS, 1, false);
    user_charge_again(&open->charge_fd, session->user, RESOURCE_FDS, 1, true);
    user_charge_again(&open->charge_left, session->user, RESOURCE_TABLE_MEMORY, ipc_left_bytes(),
                      false);
    return true;
}

bool ipc_export_restore(struct server *server, struct kept_cell *cell)
{
    struct ipc_export *export = calloc(1, sizeof(*export));
    struct ipc_export_record r;

    kept_read(cell, &r, sizeof(r));
    if (!export || !ipc_export_back(server, export, cell, &r))
        /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): npud ends if it cannot restore */
        return false;
    export->event = find_event(server, r.event);
    if (!export->event)
        return false;
    HASH_ADD(hh, export->session->exports, id, sizeof(export->id), export);
    if (!export->hh.tbl)
        return false;
    DL_APPEND(export->event->exports, export);
    return true;
}

bool ipc_left_restore(struct server *server, struct kept_cell *cell)
{
    struct ipc_left *left = calloc(1, sizeof(*left));
    struct survivor *survivor;
    struct ipc_left_record r;

    kept_read(cell, &r, sizeof(r));
    survivor = survivor_by_session(r.survivor);
    if (!left || !survivor || !ipc_left_back(server, left, cell, &r) || left->opener->open)
        /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): npud ends if it cannot restore */
        return false;
    survivor_add(survivor, &left->part, ipc_left_exited);
    user_charge_again(&left->charge, survivor->user, RESOURCE_TABLE_MEMORY, ipc_left_bytes(),
                      false);
    DL_APPEND(left->event->left, left);
    left->event->n_left++;
    left->opener->set_aside = true;
    return true;
}

/* --- when all are there --- */

/* A number that no process has: free, or set aside. */
static void leave_number(struct ipc_event *ev, struct ipc_opener *opener)
{
    ipc_set_gone(ev->page, opener->slot.number);
    if (opener->set_aside)
        slots_unpublish(opener);
    else
        slots_put(&ev->openers, opener);
}

/* The lowest one that is free is the next to be given out. */
static void give_numbers(struct ipc_event *ev)
{
    slots_restored(&ev->openers);
    for (uint32_t i = ev->openers.end; i-- > 0;) {
        struct ipc_opener *opener = slots_at(&ev->openers, i);

        if (!opener || !opener->event)
            continue;
        if (opener->open)
            ipc_clear_gone(ev->page, i);
        else
            leave_number(ev, opener);
    }
}

static int compare_linger(const struct ipc_event *a, const struct ipc_event *b)
{
    return a->linger_order < b->linger_order ? -1 : a->linger_order > b->linger_order;
}

/*
 * npud may have ended between a change of the page and its wake-up, and what it has changed without
 * a commit is changed back: all look again.
 */
static void wake_all(struct ipc_event *ev)
{
    atomic_fetch_add_explicit(&ev->page->wake_seq, 1, memory_order_release);
    waker_wake(&ev->page->wake_seq);
}

void ipc_events_finish_restoring(struct server *server)
{
    struct ipc_event *ev, *next;
    struct user *user, *other;

    HASH_ITER (hh, server->ipc->by_id, ev, next) {
        give_numbers(ev);
        KILL_HERE(OPENERS_AGAIN);
        ipc_failures_finish_restoring(ev);
        ipc_records_finish_restoring(ev);
        KILL_HERE(FAILURES_AGAIN);
        wake_all(ev);
    }
    HASH_ITER (hh, server->users.by_uid, user, other)
        DL_SORT2(user->linger, compare_linger, linger_prev, linger_next);
}
