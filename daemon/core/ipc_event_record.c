/* What is kept of IPC events, and how they come back. */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <utlist.h>

#include "daemon/base/kill_here.h"
#include "daemon/base/waker.h"
#include "daemon/core/ipc_event.h"
#include "daemon/core/ipc_failures.h"
#include "daemon/core/ipc_record.h"
#include "daemon/core/server.h"
#include "daemon/core/session.h"
#include "daemon/kept/fds.h"

/* --- records --- */

static size_t write_event(const struct kept *kept, void *record)
{
    const struct ipc_event *ev =
        (const struct ipc_event *)((const char *)kept - offsetof(struct ipc_event, record));
    struct ipc_event_record *r = record;

    *r = (struct ipc_event_record){.id = ev->id,
                                   .page_key = kept_key(ev->fd),
                                   .linger_order = ev->lingers ? ev->linger_order : 0,
                                   .uid = ev->user->uid,
                                   .device = ev->device,
                                   .last_exporter = ev->last_exporter};
    static_assert(sizeof(r->handle) == sizeof(ev->handle), "as it was given out");
    memcpy(r->handle, &ev->handle, sizeof(r->handle));
    return offsetof(struct ipc_event_record, live);
}

static size_t write_opener(const struct kept *kept, void *record)
{
    const struct ipc_opener *opener =
        (const struct ipc_opener *)((const char *)kept - offsetof(struct ipc_opener, record));

    *(struct ipc_opener_record *)record =
        (struct ipc_opener_record){.event = opener->event->id,
                                   .number = opener->slot.number,
                                   .pid = atomic_load_explicit(&opener->pid, memory_order_relaxed)};
    return sizeof(struct ipc_opener_record);
}

static size_t write_open(const struct kept *kept, void *record)
{
    const struct ipc_open *open =
        (const struct ipc_open *)((const char *)kept - offsetof(struct ipc_open, record));

    *(struct ipc_open_record *)record =
        (struct ipc_open_record){.session = open->session->id,
                                 .event = open->event->id,
                                 .slot = open->slot.number,
                                 .generation = slot_generation(open),
                                 .opener = open->opener->slot.number,
                                 .state = open->state};
    return sizeof(struct ipc_open_record);
}

static size_t write_export(const struct kept *kept, void *record)
{
    const struct ipc_export *export =
        (const struct ipc_export *)((const char *)kept - offsetof(struct ipc_export, record));

    *(struct ipc_export_record *)record =
        (struct ipc_export_record){.session = export->session->id, .event = export->id};
    return sizeof(struct ipc_export_record);
}

static size_t write_left(const struct kept *kept, void *record)
{
    const struct ipc_left *left =
        (const struct ipc_left *)((const char *)kept - offsetof(struct ipc_left, record));

    *(struct ipc_left_record *)record =
        (struct ipc_left_record){.event = left->event->id,
                                 .survivor = left->part.survivor->session_id,
                                 .opener = left->opener->slot.number};
    return sizeof(struct ipc_left_record);
}

static void use_record(struct ipc_event *ev)
{
    ev->live = &((struct ipc_event_record *)kept_record(&ev->record))->live;
}

bool ipc_event_keep(struct ipc_event *ev)
{
    if (!kept_make(&ev->record, KEPT_IPC_EVENT, sizeof(struct ipc_event_record), write_event))
        return false;
    use_record(ev);
    return true;
}

bool ipc_opener_keep(struct ipc_opener *opener)
{
    return kept_make(&opener->record, KEPT_IPC_OPENER, sizeof(struct ipc_opener_record),
                     write_opener);
}

bool ipc_open_keep(struct ipc_open *open)
{
    return kept_make(&open->record, KEPT_IPC_OPEN, sizeof(struct ipc_open_record), write_open);
}

bool ipc_export_keep(struct ipc_export *export)
{
    return kept_make(&export->record, KEPT_IPC_EXPORT, sizeof(struct ipc_export_record),
                     write_export);
}

bool ipc_left_keep(struct ipc_left *left)
{
    return kept_make(&left->record, KEPT_IPC_LEFT, sizeof(struct ipc_left_record), write_left);
}

/* --- restoring --- */

static struct ipc_event *find_event(struct server *server, uint64_t id)
{
    struct ipc_event *ev;

    HASH_FIND(hh, server->ipc->by_id, &id, sizeof(id), ev);
    return ev;
}

static bool map_page(struct ipc_event *ev, uint64_t key)
{
    void *map = MAP_FAILED;

    ev->fd = kept_fd_take(key);
    if (ev->fd >= 0)
        map = mmap(NULL, sizeof(*ev->page), PROT_READ | PROT_WRITE, MAP_SHARED, ev->fd, 0);
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
    if (!ev)
        return false;
    ev->user = user_ref(&server->users, r.uid);
    if (!ev->user || !map_page(ev, r.page_key) ||
        !kept_bind(&ev->record, cell, sizeof(r), write_event))
        /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): npud ends if it cannot restore */
        return false;
    use_record(ev);
    ipc_event_begin(ev, server->ipc, r.id);
    ev->device = r.device;
    ev->last_exporter = r.last_exporter;
    memcpy(&ev->handle, r.handle, sizeof(ev->handle));
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
    opener->event = ev;
    atomic_store_explicit(&opener->pid, r.pid, memory_order_relaxed);
    return kept_bind(&opener->record, cell, sizeof(r), write_opener);
}

bool ipc_open_restore(struct server *server, struct kept_cell *cell)
{
    struct session *session;
    struct ipc_open_record r;
    struct ipc_open *open;
    struct ipc_event *ev;

    kept_read(cell, &r, sizeof(r));
    session = session_by_id(r.session);
    ev = find_event(server, r.event);
    open = session && ev ? slots_restore(&session->ipc, r.slot, r.generation) : NULL;
    if (!open)
        return false;
    open->session = session;
    open->event = ev;
    open->state = (enum ipc_open_state)r.state;
    open->opener = slots_get(&ev->openers, r.opener);
    if (!open->opener || open->opener->open ||
        !kept_bind(&open->record, cell, sizeof(r), write_open))
        return false;
    open->opener->open = open;
    DL_APPEND(ev->opens, open);
    user_charge_again(&open->charge, session->user, RESOURCE_IPC_EVENTS, 1, false);
    user_charge_again(&open->charge_fd, session->user, RESOURCE_FDS, 1, true);
    return true;
}

bool ipc_export_restore(struct server *server, struct kept_cell *cell)
{
    struct ipc_export *export = calloc(1, sizeof(*export));
    struct ipc_export_record r;

    kept_read(cell, &r, sizeof(r));
    if (!export || !kept_bind(&export->record, cell, sizeof(r), write_export))
        return false;
    export->session = session_by_id(r.session);
    export->event = find_event(server, r.event);
    export->id = r.event;
    if (!export->session || !export->event)
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
    survivor = survivor_by_session(server, r.survivor);
    if (!left || !survivor || !kept_bind(&left->record, cell, sizeof(r), write_left))
        /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): npud ends if it cannot restore */
        return false;
    left->event = find_event(server, r.event);
    left->opener = left->event ? slots_get(&left->event->openers, (uint32_t)r.opener) : NULL;
    if (!left->opener || left->opener->open)
        return false;
    survivor_add(survivor, &left->part, ipc_left_exited);
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
