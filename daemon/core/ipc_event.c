#include "daemon/core/ipc_event.h"

#include <assert.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <utlist.h>

#include "acl/error_codes/rt_error_codes.h"
#include "daemon/base/kill_here.h"
#include "daemon/base/log.h"
#include "daemon/base/memfd.h"
#include "daemon/core/capability.h"
#include "daemon/core/ipc_record.h"
#include "daemon/core/server.h"
#include "daemon/core/session.h"
#include "daemon/core/stream.h"
#include "daemon/core/survivor.h"
#include "daemon/kept/fds.h"
#include "proto/shm/arena.h"
#include "proto/util/random.h"

/* --- openers that have left, and whose process lives on --- */

uint64_t ipc_left_bytes(void)
{
    return sizeof(struct ipc_left) + sizeof(struct ipc_left_record) + sizeof(struct ipc_opener) +
           sizeof(struct ipc_opener_record);
}

static void left_free(struct ipc_left *left)
{
    struct ipc_event *ev = left->event;

    DL_DELETE(ev->left, left);
    survivor_remove(&left->part);
    ev->n_left--;
    left->opener->set_aside = false;
    slots_put(&ev->openers, left->opener);
    kept_drop(&left->kept);
    user_uncharge(&left->charge);
    free(left);
}

bool ipc_left_exited(struct survivor_part *part)
{
    struct ipc_left *left = (struct ipc_left *)((char *)part - offsetof(struct ipc_left, part));

    ipc_records_sweep(left->event, left->opener);
    KILL_HERE(IPC_SWEPT);
    left_free(left);
    return true;
}

/* False: there is no survivor to wait for, or no memory to remember the number. */
static bool left_new(struct ipc_event *ev, struct ipc_open *open, struct session *session)
{
    struct ipc_opener *opener = open->opener;
    struct ipc_left *left = calloc(1, sizeof(*left));
    struct survivor *survivor = left ? survivor_of(session) : NULL;

    if (!survivor) {
        free(left);
        return false;
    }
    left->opener = opener;
    left->event = ev;
    survivor_add(survivor, &left->part, ipc_left_exited);
    if (!ipc_left_keep(left)) {
        survivor_remove(&left->part);
        free(left);
        return false;
    }
    left->charge = open->charge_left;
    open->charge_left = (struct charge){0};
    DL_APPEND(ev->left, left);
    ev->n_left++;
    opener->set_aside = true;
    return true;
}

/* The number is not given out again while the session's process can still record with it. */
static void opener_leave(struct ipc_event *ev, struct ipc_open *open, struct session *session)
{
    bool stays = ev->opens || ev->exports;

    if (!stays || !session->halted || !left_new(ev, open, session))
        slots_put(&ev->openers, open->opener);
}

/* --- life of the event --- */

/* Also those that no process has now. */
static void drop_opener_records(struct ipc_event *ev)
{
    for (uint32_t i = 0; i < ev->openers.end; i++) {
        struct ipc_opener *opener = slots_at(&ev->openers, i);

        if (opener)
            kept_drop(&opener->kept);
    }
}

static void ipc_event_free(struct ipc_event *ev)
{
    assert(!ev->opens && !ev->exports && !ev->lingers);
    while (ev->left)
        left_free(ev->left);
    drop_opener_records(ev);
    if (ev->hh.tbl)
        HASH_DEL(ev->all->by_id, ev);
    job_cancel(&ev->settle); /* no engine finds the event any more */
    if (ev->search)
        ev->search_free(ev);
    waitlist_deinit(&ev->completed);
    slots_deinit(&ev->openers);
    if (ev->page)
        munmap(ev->page, sizeof(*ev->page));
    kept_close(ev->fd);
    kept_drop(&ev->failures_kept);
    kept_drop(&ev->kept);
    user_unref(ev->user);
    free(ev);
}

static void linger_stop(struct ipc_event *ev)
{
    if (!ev->lingers)
        return;
    DL_DELETE2(ev->user->linger, ev, linger_prev, linger_next);
    ev->user->n_linger--;
    ev->all->lingering--;
    ev->lingers = false;
    kept_touch(&ev->kept);
    user_uncharge(&ev->linger_charge);
    user_uncharge(&ev->linger_charge_fd);
}

static void export_free(struct ipc_export *export)
{
    export->event->last_exporter = export->session->pid;
    kept_touch(&export->event->kept);
    kept_drop(&export->kept);
    DL_DELETE(export->event->exports, export);
    HASH_DEL(export->session->exports, export);
    free(export);
}

static void evict_event(struct ipc_event *ev)
{
    struct ipc_export *export, *tmp;

    DL_FOREACH_SAFE (ev->exports, export, tmp)
        export_free(export);
    linger_stop(ev);
    ipc_event_free(ev);
}

/* No session has it open any more. It lives on as long as a session that exported it does, within
 * bounds. */
static void let_linger(struct ipc_event *ev, uint32_t max)
{
    if (!ev->exports || max == 0 ||
        user_charge(&ev->linger_charge, ev->user, RESOURCE_IPC_EVENTS, 1) < 0 ||
        user_charge_files(&ev->linger_charge_fd, ev->user, 1) < 0) {
        user_uncharge(&ev->linger_charge);
        evict_event(ev);
        return;
    }
    if (ev->user->n_linger >= max)
        evict_event(ev->user->linger);
    /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): evict_event() unlinks before it frees */
    DL_APPEND2(ev->user->linger, ev, linger_prev, linger_next);
    ev->user->n_linger++;
    ev->all->lingering++;
    ev->lingers = true;
    ev->linger_order = ++ev->all->lingered;
    kept_touch(&ev->kept);
}

/* Give it its secret, and have handles find it. */
static enum cause ipc_event_name(struct ipc_event *ev)
{
    if (!random_fill(ev->handle.secret, sizeof(ev->handle.secret)))
        return CAUSE_RANDOM;
    ev->handle.check = ipc_handle_check(&ev->handle);
    HASH_ADD(hh, ev->all->by_id, id, sizeof(ev->id), ev);
    return ev->hh.tbl ? CAUSE_NONE : CAUSE_MEMORY;
}

void ipc_event_begin(struct ipc_event *ev, struct ipc_events *all, uint64_t id)
{
    ev->all = all;
    ev->id = id;
    waitlist_init(&ev->completed);
    ev->settle = (struct job){ipc_records_settle, "streams that wait for IPC records",
                              &ev->user->payer->schedule.leftovers};
    slots_init(&ev->openers, sizeof(struct ipc_opener), IPC_OPENERS_MAX, 0);
}

static enum cause ipc_event_make(struct session *session, uint32_t device, struct ipc_event **evp)
{
    struct ipc_events *all = session->server->ipc;
    struct ipc_event *ev = calloc(1, sizeof(*ev));
    enum cause cause;
    void *map;
    int r;

    if (!ev)
        return CAUSE_MEMORY;
    r = memfd_map_new("npud-ipc-event", sizeof(struct ipc_page), &ev->fd, &map);
    if (r < 0) {
        free(ev);
        return cause_of_errno(r);
    }
    ev->page = map;
    kept_fd(ev->fd);
    ev->user = user_hold(session->user);
    ev->device = device;
    ipc_event_begin(ev, all, ++session->server->last->ipc_event);
    ev->handle = (struct ipc_handle){
        .magic = IPC_HANDLE_MAGIC,
        .version = IPC_HANDLE_VERSION,
        .kind = IPC_HANDLE_EVENT,
        .device = device,
        .object = ev->id,
        .instance = session->server->instance,
    };
    cause = ipc_event_keep(ev) ? ipc_event_name(ev) : CAUSE_MEMORY;
    if (cause != CAUSE_NONE)
        ipc_event_free(ev);
    *evp = ev;
    return cause;
}

/* --- open handles --- */

/*
 * May an opener of this session have what the event is charged for while it lingers? That is no
 * more for the payer, and so not refused to one that is above its limit by now.
 */
static bool inherits_charge(const struct session *session, const struct ipc_event *ev)
{
    return ev && ev->lingers && ev->linger_charge.user == session->user->payer;
}

static enum cause charge_open(struct session *session, struct ipc_open *open)
{
    /* What only lingers gives way to what is used. */
    while (user_charge(&open->charge, session->user, RESOURCE_IPC_EVENTS, 1) < 0) {
        if (!session->user->linger)
            return CAUSE_USER_IPC_EVENTS;
        evict_event(session->user->linger);
    }
    return cause_of_files(user_charge_files(&open->charge_fd, session->user, 1),
                          CAUSE_USER_IPC_EVENT_DESCRIPTORS);
}

/* The records of an open handle. False: no memory. */
static bool keep_open(struct ipc_open *open)
{
    struct ipc_opener *opener = open->opener;

    opener->open = open;
    opener->event = open->event;
    return (opener->kept.cell || ipc_opener_keep(opener)) && ipc_open_keep(open);
}

static enum cause open_new(struct session *session, struct ipc_event *ev, struct ipc_open *open)
{
    open->opener = slots_take(&ev->openers);
    if (!open->opener)
        return slots_full(&ev->openers) ? CAUSE_IPC_EVENT_OPENERS : CAUSE_MEMORY;
    open->session = session;
    open->event = ev;
    if (!keep_open(open)) {
        slots_put(&ev->openers, open->opener);
        return CAUSE_MEMORY;
    }
    /* Records that the last opener with this number has made after its end fail. */
    if (atomic_load_explicit(&open->opener->pid, memory_order_relaxed) != 0)
        ipc_records_sweep(ev, open->opener);
    ipc_clear_gone(ev->page, open->opener->slot.number);
    atomic_store_explicit(&open->opener->pid, session->pid, memory_order_relaxed);
    kept_touch(&open->opener->kept);
    KILL_HERE(IPC_NUMBERED);
    open->state = IPC_OPEN_USED;
    open->pins = 0;
    DL_APPEND(ev->opens, open);
    if (inherits_charge(session, ev)) {
        open->charge = ev->linger_charge;
        open->charge_fd = ev->linger_charge_fd;
        ev->linger_charge = ev->linger_charge_fd = (struct charge){0};
    }
    linger_stop(ev);
    slots_publish(open->opener);
    slots_publish(open);
    return CAUSE_NONE;
}

/* Give its charges back, and its slot. */
static void open_give_back(struct ipc_open *open, struct session *session)
{
    user_uncharge(&open->charge);
    user_uncharge(&open->charge_fd);
    user_uncharge(&open->charge_left);
    kept_drop(&open->kept);
    session_put_slot(session, &session->ipc, open);
}

/* ev: the event to be opened, which goes on to linger. NULL: it is to be made. */
static enum cause open_prepare(struct session *session, const struct ipc_event *ev,
                               struct ipc_open **openp)
{
    enum cause cause;
    struct ipc_open *open =
        session_take_slot(session, &session->ipc, CAUSE_IPC_EVENTS_OF_SESSION, &cause);

    if (!open)
        return cause;
    cause = inherits_charge(session, ev) ? CAUSE_NONE : charge_open(session, open);
    if (cause == CAUSE_NONE &&
        user_charge(&open->charge_left, session->user, RESOURCE_TABLE_MEMORY, ipc_left_bytes()) < 0)
        cause = CAUSE_USER_TABLE_MEMORY;
    if (cause != CAUSE_NONE)
        open_give_back(open, session);
    *openp = open;
    return cause;
}

enum cause ipc_event_new(struct session *session, uint32_t device, struct ipc_open **openp)
{
    struct ipc_event *ev;
    enum cause cause = open_prepare(session, NULL, openp);

    if (cause != CAUSE_NONE)
        return cause;
    cause = ipc_event_make(session, device, &ev);
    if (cause == CAUSE_NONE) {
        cause = open_new(session, ev, *openp);
        if (cause != CAUSE_NONE)
            ipc_event_free(ev);
    }
    if (cause != CAUSE_NONE)
        open_give_back(*openp, session);
    return cause;
}

static enum cause find_by_handle(struct session *session, const struct ipc_handle *handle,
                                 struct ipc_event **evp)
{
    struct ipc_events *all = session->server->ipc;
    struct ipc_event *ev;

    if (!ipc_handle_valid(handle, IPC_HANDLE_EVENT))
        return CAUSE_IPC_HANDLE;
    if (handle->instance != session->server->instance)
        return CAUSE_IPC_HANDLE_OF_OTHER_NPUD;
    if (handle->object == 0 || handle->object > session->server->last->ipc_event)
        return CAUSE_IPC_HANDLE;
    HASH_FIND(hh, all->by_id, &handle->object, sizeof(handle->object), ev);
    if (!ev)
        return CAUSE_IPC_EVENT_GONE;
    /* All of it, the reserved bytes too: what npud did not give out is no handle. */
    if (!capability_equal(handle, &ev->handle, sizeof(*handle)))
        return CAUSE_IPC_HANDLE;
    if (!capability_in_scope(session, ev->user->uid))
        return CAUSE_IPC_EVENT_OF_OTHER_USER;
    *evp = ev;
    return CAUSE_NONE;
}

enum cause ipc_event_open(struct session *session, const struct ipc_handle *handle,
                          struct ipc_open **openp)
{
    struct ipc_event *ev;
    enum cause cause = find_by_handle(session, handle, &ev);

    if (cause != CAUSE_NONE)
        return cause;
    /* Only an export tells the secret, so this handle was good: its exporter has left. */
    if (!ev->exports)
        return CAUSE_IPC_EVENT_GONE;
    /*
     * Charging may evict what lingers of the session's user, and not this event: of that user, it
     * brings its charges along.
     */
    cause = open_prepare(session, ev, openp);
    if (cause == CAUSE_NONE) {
        cause = open_new(session, ev, *openp);
        if (cause != CAUSE_NONE)
            open_give_back(*openp, session);
    }
    return cause;
}

enum cause ipc_event_export(struct ipc_open *open)
{
    struct session *session = open->session;
    struct ipc_export *export;

    HASH_FIND(hh, session->exports, &open->event->id, sizeof(open->event->id), export);
    if (export)
        return CAUSE_NONE;
    export = calloc(1, sizeof(*export));
    if (!export)
        return CAUSE_MEMORY;
    export->session = session;
    export->event = open->event;
    export->id = open->event->id;
    HASH_ADD(hh, session->exports, id, sizeof(export->id), export);
    if (!export->hh.tbl || !ipc_export_keep(export)) {
        if (export->hh.tbl)
            HASH_DEL(session->exports, export);
        free(export);
        return CAUSE_MEMORY;
    }
    DL_APPEND(open->event->exports, export);
    return CAUSE_NONE;
}

enum cause ipc_event_info(struct session *session, const struct ipc_handle *handle,
                          struct ipc_event_info *info)
{
    struct ipc_event *ev;
    struct ipc_export *export;
    enum cause cause = find_by_handle(session, handle, &ev);

    if (cause != CAUSE_NONE)
        return cause;
    *info = (struct ipc_event_info){.device = ev->device, .pid = ev->last_exporter};
    if (ev->exports)
        info->pid = ev->exports->session->pid;
    /*
     * The oldest that lives counts, or else the oldest. One system call for each that has died and
     * that npud has not heard of yet.
     */
    DL_FOREACH (ev->exports, export) {
        if (!session_alive(export->session))
            continue;
        info->pid = export->session->pid;
        info->alive = true;
        break;
    }
    return CAUSE_NONE;
}

bool ipc_export_drop(struct session *session)
{
    struct ipc_export *export = session->exports;
    struct ipc_event *ev = export ? export->event : NULL;

    if (!export)
        return true;
    export_free(export);
    if (!ev->opens && !ev->exports) {
        linger_stop(ev);
        ipc_event_free(ev);
    }
    return false;
}

/* --- closing --- */

void ipc_open_free(struct ipc_open *open)
{
    struct ipc_event *ev = open->event;
    struct session *session = open->session;
    uint32_t failed;

    assert(open->pins == 0);
    session_lock(session);
    slots_unpublish(open);
    /*
     * A client that closes an event which its streams still wait for has not said so (no honest one
     * does): they go on with an error, since nothing may wait on an event that can be gone.
     */
    stream_evict_waiters(session, &ev->completed, open->slot.number, ACL_ERROR_RT_INVALID_HANDLE);
    session_unlock(session);
    /* In this order: a record that the sweep does not find is seen with its opener gone. */
    slots_unpublish(open->opener);
    ipc_set_gone(ev->page, open->opener->slot.number);
    KILL_HERE(IPC_GONE);
    failed = ipc_records_fail_pending(ev, open->opener->slot.number, session->pid);
    if (failed)
        log_line(LOG_INFO, &session->log, "IPC event %llu: %u pending record(s) failed",
                 (unsigned long long)ev->id, failed);
    DL_DELETE(ev->opens, open);
    opener_leave(ev, open, session);
    KILL_HERE(IPC_LEFT);
    open_give_back(open, session);
    if (!ev->opens)
        let_linger(ev, session->server->linger_max);
}

void ipc_open_release(struct ipc_open *open)
{
    open->state = IPC_OPEN_PASSED;
    kept_touch(&open->kept);
    if (open->pins == 0)
        ipc_open_free(open);
}

void ipc_open_pin(struct ipc_open *open)
{
    assert(open->state == IPC_OPEN_USED);
    open->pins++;
}

void ipc_open_unpin(struct ipc_open *open)
{
    assert(open->pins > 0);
    if (--open->pins == 0 && open->state == IPC_OPEN_PASSED)
        ipc_open_free(open);
}
