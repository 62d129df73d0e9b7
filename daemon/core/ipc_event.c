#include "daemon/core/ipc_event.h"

#include <assert.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <utlist.h>

#include "acl/error_codes/rt_error_codes.h"
#include "daemon/base/log.h"
#include "daemon/base/memfd.h"
#include "daemon/core/release.h"
#include "daemon/core/server.h"
#include "daemon/core/session.h"
#include "daemon/core/stream.h"
#include "daemon/core/survivor.h"
#include "daemon/base/heap_trim.h"
#include "proto/shm/arena.h"
#include "proto/util/futex.h"
#include "proto/util/random.h"

#define IPC_FAILURES_FIRST 16
#define IPC_FAILURES_MAX   (4 * IPC_SLOTS)

/* --- openers that have left, and whose process lives on --- */

static void sweep_opener(struct ipc_event *ev, struct ipc_opener *opener);

static void left_free(struct ipc_left *left)
{
    struct ipc_event *ev = left->event;

    DL_DELETE(ev->left, left);
    survivor_remove(&left->part);
    ev->n_left--;
    slots_put(&ev->openers, left->opener);
    free(left);
}

static void left_exited(struct survivor_part *part)
{
    struct ipc_left *left = (struct ipc_left *)((char *)part - offsetof(struct ipc_left, part));

    sweep_opener(left->event, left->opener);
    left_free(left);
}

/* False: there is no survivor to wait for, or no memory to remember the number. */
static bool left_new(struct ipc_event *ev, struct ipc_opener *opener, struct session *session)
{
    struct ipc_left *left = calloc(1, sizeof(*left));
    struct survivor *survivor = left ? survivor_of(session) : NULL;

    if (!survivor) {
        free(left);
        return false;
    }
    left->opener = opener;
    left->event = ev;
    DL_APPEND(ev->left, left);
    survivor_add(survivor, &left->part, left_exited);
    ev->n_left++;
    return true;
}

/* The number is not given out again while the session's process can still record with it. */
static void opener_leave(struct ipc_event *ev, struct ipc_opener *opener, struct session *session)
{
    bool stays = ev->opens || ev->exports;

    if (!stays || !session->halted || !left_new(ev, opener, session))
        slots_put(&ev->openers, opener);
}

/* --- life of the event --- */

static void ipc_event_free(struct ipc_event *ev)
{
    assert(!ev->opens && !ev->exports && !ev->lingers);
    while (ev->left)
        left_free(ev->left);
    if (ev->hh.tbl)
        HASH_DEL(ev->all->by_id, ev);
    waitlist_deinit(&ev->completed);
    slots_deinit(&ev->openers);
    if (ev->page)
        munmap(ev->page, sizeof(*ev->page));
    if (ev->fd >= 0)
        close(ev->fd);
    free(ev->failures);
    user_unref(ev->users, ev->user);
    free(ev);
    heap_trim_count();
}

static void linger_stop(struct ipc_event *ev)
{
    if (!ev->lingers)
        return;
    DL_DELETE2(ev->user->linger, ev, linger_prev, linger_next);
    ev->user->n_linger--;
    ev->all->lingering--;
    ev->lingers = false;
    charge_deinit(&ev->linger_charge);
    charge_deinit(&ev->linger_charge_fd);
}

static void export_free(struct ipc_export *export)
{
    export->event->last_exporter = export->session->pid;
    LL_DELETE(export->event->exports, export);
    LL_DELETE2(export->session->exports, export, session_next);
    free(export);
    heap_trim_count();
}

static void evict(struct ipc_event *ev)
{
    struct ipc_export *export, *tmp;

    LL_FOREACH_SAFE (ev->exports, export, tmp)
        export_free(export);
    linger_stop(ev);
    ipc_event_free(ev);
}

/* Nobody has it open any more. It lives on as long as a session that exported it does, within
 * bounds. */
static void linger(struct ipc_event *ev)
{
    if (!ev->exports || ev->all->linger_max == 0 ||
        charge_init(&ev->linger_charge, ev->users, ev->user, RESOURCE_IPC_EVENTS, 1) < 0 ||
        charge_init(&ev->linger_charge_fd, ev->users, ev->user, RESOURCE_FDS, 1) < 0) {
        charge_deinit(&ev->linger_charge);
        evict(ev);
        return;
    }
    if (ev->user->n_linger >= ev->all->linger_max)
        evict(ev->user->linger);
    /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): evict() unlinks before it frees */
    DL_APPEND2(ev->user->linger, ev, linger_prev, linger_next);
    ev->user->n_linger++;
    ev->all->lingering++;
    ev->lingers = true;
}

static struct ipc_event *ipc_event_make(struct session *session, uint32_t device)
{
    struct ipc_events *all = session->server->ipc;
    struct ipc_event *ev = calloc(1, sizeof(*ev));
    void *map;

    if (!ev)
        return NULL;
    if (memfd_map_new("npud-ipc-event", sizeof(struct ipc_page), &ev->fd, &map) < 0) {
        free(ev);
        return NULL;
    }
    ev->page = map;
    ev->all = all;
    ev->users = session_users(session);
    ev->user = user_ref(ev->users, session->uid); /* exists: the session holds it */
    ev->device = device;
    ev->id = ++all->last_id;
    waitlist_init(&ev->completed);
    slots_init(&ev->openers, sizeof(struct ipc_opener), IPC_OPENERS_MAX, 0);
    ev->handle = (struct ipc_handle){
        .magic = IPC_HANDLE_MAGIC,
        .version = IPC_HANDLE_VERSION,
        .kind = IPC_HANDLE_EVENT,
        .device = device,
        .object = ev->id,
        .instance = all->instance,
    };
    if (random_fill(ev->handle.secret, sizeof(ev->handle.secret))) {
        ev->handle.check = ipc_handle_check(&ev->handle);
        HASH_ADD(hh, all->by_id, id, sizeof(ev->id), ev);
        if (ev->hh.tbl)
            return ev;
    }
    ipc_event_free(ev);
    return NULL;
}

/* --- open handles --- */

static int32_t charge_open(struct session *session, struct ipc_open *open)
{
    struct users *users = session_users(session);

    /* What only lingers gives way to what is used. */
    while (charge_init(&open->charge, users, session->user, RESOURCE_IPC_EVENTS, 1) < 0) {
        if (!session->user->linger)
            return ACL_ERROR_RT_NO_EVENT_RESOURCE;
        evict(session->user->linger);
    }
    if (charge_init(&open->charge_fd, users, session->user, RESOURCE_FDS, 1) < 0) {
        charge_deinit(&open->charge);
        return ACL_ERROR_RT_NO_EVENT_RESOURCE;
    }
    return 0;
}

static int32_t open_new(struct session *session, struct ipc_event *ev, struct ipc_open *open)
{
    open->opener = slots_take(&ev->openers);
    if (!open->opener)
        return ACL_ERROR_RT_NO_EVENT_RESOURCE;
    open->opener->open = open;
    /* What the last one with this number has recorded late, after its end, is nobody's. */
    if (atomic_load_explicit(&open->opener->pid, memory_order_relaxed) != 0)
        sweep_opener(ev, open->opener);
    ipc_clear_gone(ev->page, open->opener->slot.number);
    atomic_store_explicit(&open->opener->pid, session->pid, memory_order_relaxed);
    open->session = session;
    open->event = ev;
    open->closing = open->released = false;
    open->pins = 0;
    DL_APPEND(ev->opens, open);
    linger_stop(ev);
    slots_publish(open->opener);
    slots_publish(open);
    return 0;
}

static struct ipc_open *open_prepare(struct session *session, int32_t *error)
{
    struct ipc_open *open = slots_take(&session->ipc);

    *error = ACL_ERROR_RT_NO_EVENT_RESOURCE;
    if (!open)
        return NULL;
    *error = charge_open(session, open);
    if (*error == 0)
        return open;
    slots_put(&session->ipc, open);
    return NULL;
}

static void open_abandon(struct ipc_open *open, struct session *session)
{
    charge_deinit(&open->charge);
    charge_deinit(&open->charge_fd);
    slots_put(&session->ipc, open);
}

int32_t ipc_event_new(struct session *session, uint32_t device, struct ipc_open **openp)
{
    int32_t error;
    struct ipc_open *open = open_prepare(session, &error);
    struct ipc_event *ev;

    if (!open)
        return error;
    ev = ipc_event_make(session, device);
    if (!ev) {
        open_abandon(open, session);
        return ACL_ERROR_RT_RESOURCE_ALLOC_FAIL;
    }
    error = open_new(session, ev, open);
    if (error != 0) {
        ipc_event_free(ev);
        open_abandon(open, session);
        return error;
    }
    *openp = open;
    return 0;
}

/* Constant time: how many bytes of a guess were right must not be measurable. */
static bool secret_equal(const uint8_t *a, const uint8_t *b)
{
    unsigned diff = 0;

    for (unsigned i = 0; i < sizeof(((struct ipc_handle *)0)->secret); i++)
        diff |= a[i] ^ b[i];
    return diff == 0;
}

static int32_t find(struct session *session, const struct ipc_handle *handle,
                    struct ipc_event **evp)
{
    struct ipc_events *all = session->server->ipc;
    struct ipc_event *ev;

    if (!ipc_handle_valid(handle, IPC_HANDLE_EVENT))
        return ACL_ERROR_RT_PARAM_INVALID;
    if (handle->instance != all->instance)
        return ACL_ERROR_RT_PARAM_INVALID; /* of an npud at another socket, or one that has ended */
    if (handle->object == 0 || handle->object > all->last_id)
        return ACL_ERROR_RT_PARAM_INVALID;
    HASH_FIND(hh, all->by_id, &handle->object, sizeof(handle->object), ev);
    if (!ev)
        return ACL_ERROR_RT_INVALID_HANDLE;
    /*
     * All of it, the reserved bytes too: what we did not give out is no handle. The secret first.
     */
    if (!secret_equal(handle->secret, ev->handle.secret) ||
        memcmp(handle, &ev->handle, sizeof(*handle)) != 0)
        return ACL_ERROR_RT_PARAM_INVALID;
    if (!all->any_uid && ev->user->uid != session->uid)
        return ACL_ERROR_RT_NO_PERMISSION;
    *evp = ev;
    return 0;
}

int32_t ipc_event_open(struct session *session, const struct ipc_handle *handle,
                       struct ipc_open **openp)
{
    struct ipc_event *ev;
    struct ipc_open *open;
    int32_t error = find(session, handle, &ev);

    if (error != 0)
        return error;
    /* Only an export tells the secret, so this handle was good: who gave it out has left. */
    if (!ev->exports)
        return ACL_ERROR_RT_INVALID_HANDLE;
    /* Charging may evict what lingers, and this event may be just that: not while it is being
     * opened. */
    linger_stop(ev);
    open = open_prepare(session, &error);
    if (open) {
        error = open_new(session, ev, open);
        if (error != 0)
            open_abandon(open, session);
    }
    if (!ev->opens)
        linger(ev);
    *openp = open;
    return error;
}

int32_t ipc_event_export(struct ipc_open *open)
{
    struct ipc_export *export;

    LL_FOREACH (open->event->exports, export)
        if (export->session == open->session)
            return 0;
    export = malloc(sizeof(*export));
    if (!export)
        return ACL_ERROR_RT_MEMORY_ALLOCATION;
    export->session = open->session;
    export->event = open->event;
    LL_PREPEND(open->event->exports, export);
    LL_PREPEND2(open->session->exports, export, session_next);
    return 0;
}

int32_t ipc_event_info(struct session *session, const struct ipc_handle *handle,
                       struct ipc_event_info *info)
{
    struct ipc_event *ev;
    struct ipc_export *export;
    int32_t error = find(session, handle, &ev);

    if (error != 0)
        return error;
    *info = (struct ipc_event_info){.device = ev->device, .pid = ev->last_exporter};
    /* From the newest to the oldest: the oldest that lives counts, or else the oldest. */
    LL_FOREACH (ev->exports, export) {
        bool alive = session_alive(export->session);

        if (alive || !info->alive) {
            info->pid = export->session->pid;
            info->alive = alive;
        }
    }
    return 0;
}

void ipc_exports_drop(struct session *session)
{
    struct ipc_export *export, *tmp;

    LL_FOREACH_SAFE2 (session->exports, export, tmp, session_next) {
        struct ipc_event *ev = export->event;

        export_free(export);
        if (!ev->opens && !ev->exports) {
            linger_stop(ev);
            ipc_event_free(ev);
        }
    }
}

/* --- records --- */

static void wake_sleepers(struct ipc_event *ev)
{
    atomic_fetch_add_explicit(&ev->page->wake_seq, 1, memory_order_release);
    futex_wake_all(&ev->page->wake_seq);
}

void ipc_event_complete(struct ipc_open *open, uint64_t number)
{
    struct ipc_event *ev = open->event;
    bool waiters;

    if (!ipc_complete(ev->page, number, open->opener->slot.number, IPC_DONE, &waiters))
        return;
    if (waiters)
        wake_sleepers(ev);
    waitlist_fire(&ev->completed, number, number, 0, 0);
}

bool ipc_event_failed(struct ipc_event *ev, uint64_t number, int32_t *pid)
{
    bool found = false;

    *pid = 0;
    pthread_mutex_lock(&ev->completed.lock);
    if (ev->failures && number != 0) {
        const struct ipc_failure *f = &ev->failures[number % ev->failures_size];

        found = f->number == number;
        if (found)
            *pid = f->pid;
    }
    /* What is forgotten may have failed, and a failed record never reads as done. */
    found |= number != 0 && number <= ev->forgotten;
    pthread_mutex_unlock(&ev->completed.lock);
    return found;
}

/*
 * Most events fail a few records or none: the table begins small. False: it is as big as it gets.
 */
static bool grow_failures(struct ipc_event *ev)
{
    uint32_t size = ev->failures_size ? 4 * ev->failures_size : IPC_FAILURES_FIRST;
    struct ipc_failure *table = size <= IPC_FAILURES_MAX ? calloc(size, sizeof(*table)) : NULL;

    if (!table)
        return false;
    /* Who had a place of his own has one in a table that is a multiple of the old one. */
    for (uint32_t i = 0; ev->failures && i < ev->failures_size; i++)
        if (ev->failures[i].number != 0)
            table[ev->failures[i].number % size] = ev->failures[i];
    free(ev->failures);
    ev->failures = table;
    ev->failures_size = size;
    return true;
}

static void forget_failure(struct ipc_event *ev, uint64_t number)
{
    if (number > ev->forgotten)
        ev->forgotten = number;
}

/*
 * By number, so that finding one is no work. Of two that fall on the same place in the biggest
 * table, the older is forgotten.
 */
static void remember_failure(struct ipc_event *ev, uint64_t number, int32_t pid)
{
    struct ipc_failure *f = NULL;

    pthread_mutex_lock(&ev->completed.lock);
    while (!ev->failures ||
           ((f = &ev->failures[number % ev->failures_size])->number != 0 && f->number != number))
        if (!grow_failures(ev))
            break;
    if (!ev->failures) {
        forget_failure(ev, number);
    } else if ((f = &ev->failures[number % ev->failures_size])->number != number) {
        /*
         * The first to remember it knew whose it was; since then the opener's number may be
         * another's.
         */
        if (f->number != 0)
            forget_failure(ev, f->number);
        *f = (struct ipc_failure){.number = number, .pid = pid};
    }
    /* Under the lock: records may fail in several engines at once. */
    if (number > ev->newest_failed) {
        ev->newest_failed = number;
        atomic_store_explicit(&ev->page->failed, number, memory_order_release);
    }
    pthread_mutex_unlock(&ev->completed.lock);
}

/* False: it is not pending, or somebody wrote nonsense. */
static bool fail_record(struct ipc_event *ev, uint64_t number, uint32_t opener, int32_t pid,
                        bool *waiters)
{
    /* Remembered before it can be seen, so that who sees IPC_FAILED finds the reason. */
    remember_failure(ev, number, pid);
    if (!ipc_complete(ev->page, number, opener, IPC_FAILED, waiters))
        return false;
    waitlist_fire(&ev->completed, number, number, ACL_ERROR_RT_SUSPECT_REMOTE_ERROR, pid);
    return true;
}

/* True when the record has failed and somebody sleeps on it. */
static bool fail_own(struct ipc_open *open, uint64_t number)
{
    struct ipc_event *ev = open->event;
    uint32_t opener = open->opener->slot.number;
    uint64_t slot;
    bool waiters;

    /*
     * The ring is the client's to write: nothing is remembered of records that are not pending, or
     * another's.
     */
    if (ipc_state_of(ev->page, number) != IPC_PENDING)
        return false;
    slot = atomic_load_explicit(&ev->page->slot[number % IPC_SLOTS], memory_order_relaxed);
    return ipc_slot_opener(slot) == opener &&
           fail_record(ev, number, opener, open->session->pid, &waiters) && waiters;
}

void ipc_event_fail(struct ipc_open *open, uint64_t number)
{
    if (fail_own(open, number))
        wake_sleepers(open->event);
}

void ipc_event_drop(struct ipc_open *open, uint64_t number)
{
    struct ipc_event *ev = open->event;

    if (!fail_own(open, number) || ev->to_wake)
        return;
    ev->to_wake = true;
    LL_PREPEND2(ev->all->to_wake, ev, to_wake_next);
}

void ipc_events_wake(struct ipc_events *all)
{
    struct ipc_event *ev, *tmp;

    LL_FOREACH_SAFE2 (all->to_wake, ev, tmp, to_wake_next) {
        ev->to_wake = false;
        wake_sleepers(ev);
    }
    all->to_wake = NULL;
}

static bool is_open(const struct ipc_event *ev, uint32_t opener)
{
    return slots_get(&ev->openers, opener) != NULL;
}

/* Whose number it is, or was last. 0: nobody has ever had it. */
static int32_t opener_pid(const struct ipc_event *ev, uint32_t opener)
{
    const struct ipc_opener *o = slots_at(&ev->openers, opener);

    return o ? atomic_load_explicit(&o->pid, memory_order_relaxed) : 0;
}

bool ipc_event_over(struct ipc_event *ev, uint64_t number)
{
    uint64_t word = ipc_word_of(ev->page, number);

    if (ipc_slot_state(word) != IPC_PENDING)
        return true;
    /* As ipc_orphaned() with npud's own word in place of the page's: pairs with ipc_set_gone(). */
    atomic_thread_fence(memory_order_seq_cst);
    return !is_open(ev, ipc_slot_opener(word));
}

/* A pending record whose opener is not there: it was recorded after the end of its session. */
static void fail_orphan(struct ipc_event *ev, uint64_t number)
{
    uint64_t word = ipc_word_of(ev->page, number);
    uint32_t opener = ipc_slot_opener(word);
    bool waiters;

    if (ipc_slot_state(word) == IPC_PENDING && !is_open(ev, opener) &&
        fail_record(ev, number, opener, opener_pid(ev, opener), &waiters) && waiters)
        wake_sleepers(ev);
}

bool ipc_event_settled(struct ipc_event *ev, uint64_t number, int32_t *error, int32_t *pid)
{
    enum ipc_state state;

    *error = *pid = 0;
    if (!ipc_event_over(ev, number))
        return false;
    fail_orphan(ev, number);
    state = ipc_state_of(ev->page, number);
    if (state == IPC_DONE || number == 0)
        return true;
    /* Also if npud does not remember it, and if an opener keeps writing "pending" there. */
    if (ipc_event_failed(ev, number, pid) || state != IPC_NONE)
        *error = ACL_ERROR_RT_SUSPECT_REMOTE_ERROR;
    return true;
}

/*
 * Streams that wait for a record which somebody has completed in the page without telling us go on
 * now at the latest. (The page is the openers' to spoil, but a death must not leave anybody
 * waiting.)
 */
static void fire_settled(struct ipc_event *ev)
{
    uint64_t from = 0, target;
    int32_t error, pid;

    while (waitlist_next(&ev->completed, from, &target)) {
        if (ipc_event_settled(ev, target, &error, &pid))
            waitlist_fire(&ev->completed, target, target, error, pid);
        if (target == UINT64_MAX)
            break;
        from = target + 1;
    }
}

/*
 * Does a slot hold what nobody can have recorded? Number n is in slot n % IPC_SLOTS, and every slot
 * has the latest number that belongs there, up to what is recorded while we look.
 */
static bool slot_damaged(uint32_t i, uint64_t slot, uint64_t newest)
{
    int32_t age = (int32_t)((uint32_t)newest - ipc_slot_tag(slot));

    if (slot == 0)
        return newest > (i ? i : IPC_SLOTS);
    return ipc_slot_tag(slot) % IPC_SLOTS != i || age > (int32_t)IPC_SLOTS || age < -(1 << 20);
}

/* The newest number up to `newest` that belongs in slot i; 0: none was recorded there yet. */
static uint64_t number_in_slot(uint32_t i, uint64_t newest)
{
    uint64_t back = (newest - i) % IPC_SLOTS;

    return newest > back ? newest - back : 0;
}

/*
 * Pages of the file that nobody has touched stay so: most events are hardly used. But a page with
 * records is looked at also if it is not resident, because then it was swapped out.
 */
static bool is_damaged(struct ipc_event *ev, uint64_t newest)
{
    unsigned char resident[sizeof(struct ipc_page) / 4096 + 1];
    size_t page_size = (size_t)sysconf(_SC_PAGESIZE);

    if (mincore(ev->page, sizeof(*ev->page), resident) < 0)
        memset(resident, 1, sizeof(resident));
    for (uint32_t i = 0; i < IPC_SLOTS; i++) {
        size_t at = offsetof(struct ipc_page, slot) + i * sizeof(ev->page->slot[0]);
        uint64_t slot = 0;

        if ((resident[at / page_size] & 1) || number_in_slot(i, newest) != 0)
            slot = atomic_load_explicit(&ev->page->slot[i], memory_order_relaxed);
        if (slot_damaged(i, slot, newest))
            return true;
    }
    return false;
}

/* Is it known how record number ended, or was its slot taken over in the way that records do? */
static bool slot_tells(uint64_t slot, uint64_t number, uint64_t newest)
{
    uint32_t ahead = ipc_slot_tag(slot) - (uint32_t)number;

    if (ahead == 0)
        return ipc_slot_state(slot) == IPC_DONE || ipc_slot_state(slot) == IPC_FAILED;
    return ahead % IPC_SLOTS == 0 && ahead <= (uint32_t)(newest - number) + (1 << 20);
}

/* True: it has failed now. What is not known of a record is taken for a failure. */
static bool fail_slot(struct ipc_event *ev, uint32_t i, uint64_t newest, int32_t pid)
{
    uint64_t slot = atomic_load_explicit(&ev->page->slot[i], memory_order_relaxed);
    uint64_t number = number_in_slot(i, newest), failed = number << 32 | IPC_FAILED;

    if (number == 0) {
        failed = (slot & ~(uint64_t)(IPC_STATE_MASK | IPC_WAITERS)) | IPC_FAILED;
        if (ipc_slot_state(slot) != IPC_PENDING)
            return false;
    } else {
        if (slot_tells(slot, number, newest))
            return false;
        remember_failure(ev, number, pid);
    }
    return atomic_compare_exchange_strong(&ev->page->slot[i], &slot, failed);
}

/*
 * One of the openers has written what it liked into the page, and leaves. What waits for this event
 * may wait for something that nobody knows of: nothing stays pending, in whoever's name, and all go
 * on with an error. So it is remembered, for those that look when the slot has been taken over.
 */
static uint32_t fail_all(struct ipc_event *ev, uint64_t newest, int32_t pid)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < IPC_SLOTS; i++)
        n += fail_slot(ev, i, newest, pid);
    waitlist_fire(&ev->completed, 0, UINT64_MAX, ACL_ERROR_RT_SUSPECT_REMOTE_ERROR, pid);
    return n;
}

/*
 * Fail what the opener has recorded and no engine has executed. Its streams are gone or past, so
 * nothing of it becomes done any more. Only numbers up to the newest, read once, can be pending: an
 * event that was hardly used costs no look at all slots, and no memory for them. The same for
 * records of openers that are not there: they are late, or made up. pid: to blame if it is not
 * known whose number that was. Returns how many; *sleepers: somebody slept on one.
 */
static uint32_t fail_records(struct ipc_event *ev, uint64_t newest, uint32_t opener, int32_t pid,
                             bool *sleepers)
{
    uint32_t n = 0;
    bool waiters;

    for (uint64_t number = newest >= IPC_SLOTS ? newest - IPC_SLOTS + 1 : 1; number <= newest;
         number++) {
        uint64_t slot =
            atomic_load_explicit(&ev->page->slot[number % IPC_SLOTS], memory_order_relaxed);
        uint32_t owner = ipc_slot_opener(slot);
        int32_t whose = opener_pid(ev, owner);

        if (ipc_slot_tag(slot) != (uint32_t)number || ipc_slot_state(slot) != IPC_PENDING ||
            (owner != opener && is_open(ev, owner)))
            continue;
        if (!fail_record(ev, number, owner, whose != 0 ? whose : pid, &waiters))
            continue;
        *sleepers |= waiters;
        n++;
    }
    return n;
}

/* Once more, for a number that has been set aside: nobody records with it any more. */
static void sweep_opener(struct ipc_event *ev, struct ipc_opener *opener)
{
    uint64_t latest = atomic_load_explicit(&ev->page->latest, memory_order_acquire);
    bool sleepers = false;

    ipc_help(ev->page, latest);
    fail_records(ev, ipc_latest_number(latest), opener->slot.number,
                 atomic_load_explicit(&opener->pid, memory_order_relaxed), &sleepers);
    if (sleepers)
        wake_sleepers(ev);
}

/* Nobody may be left waiting for this opener, which is leaving. Returns how many records fail. */
static uint32_t fail_pending(struct ipc_event *ev, uint32_t opener, int32_t pid)
{
    uint64_t latest = atomic_load_explicit(&ev->page->latest, memory_order_acquire);
    uint64_t newest = ipc_latest_number(latest);
    bool shared = ev->opens->next != NULL, sleepers = false;
    uint32_t n;

    ipc_help(ev->page, latest);
    n = fail_records(ev, newest, opener, pid, &sleepers);
    if (shared && is_damaged(ev, newest))
        n += fail_all(ev, newest, pid);
    /*
     * Where others remain, also if no slot says that somebody sleeps: the opener could write that,
     * too.
     */
    if (shared || sleepers)
        wake_sleepers(ev);
    fire_settled(ev);
    return n;
}

void ipc_open_free(struct ipc_open *open)
{
    struct ipc_event *ev = open->event;
    struct session *session = open->session;
    uint32_t failed;

    session_lock(session);
    slots_unpublish(open);
    /*
     * A client that closes an event which its streams still wait for has not said so (no honest one
     * does): they go on with an error, since nothing may wait on an event that can be gone.
     */
    stream_evict_waiters(session, &ev->completed, open->slot.number);
    session_unlock(session);
    /* In this order: a record that the sweep does not find is seen with its opener gone. */
    slots_unpublish(open->opener);
    ipc_set_gone(ev->page, open->opener->slot.number);
    failed = fail_pending(ev, open->opener->slot.number, session->pid);
    if (failed)
        log_line(LOG_INFO, &session->log, "IPC event %llu: %u pending record(s) failed",
                 (unsigned long long)ev->id, failed);
    DL_DELETE(ev->opens, open);
    opener_leave(ev, open->opener, session);
    charge_deinit(&open->charge);
    charge_deinit(&open->charge_fd);
    slots_put(&session->ipc, open);
    session_give_back(session, &session->ipc);
    if (!ev->opens)
        linger(ev);
}

void ipc_open_release(struct ipc_open *open)
{
    open->released = true;
    if (open->pins == 0)
        ipc_open_free(open);
}

void ipc_open_pin(struct ipc_open *open)
{
    open->pins++;
}

void ipc_open_unpin(struct ipc_open *open)
{
    if (--open->pins == 0 && open->released)
        ipc_open_free(open);
}

static void release_closed(void *open)
{
    ipc_open_release(open);
}

bool ipc_open_close(struct ipc_open *open, const struct fence *fences, size_t n, bool all)
{
    open->closing = true;
    if (release_when_passed(open->session, fences, n, all, release_closed, open))
        return true;
    open->closing = false;
    return false;
}
