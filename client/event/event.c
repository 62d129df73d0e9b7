#include "client/event/event.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "acl/acl.h"
#include "client/runtime/context.h"
#include "client/core/error.h"
#include "client/core/handle_error.h"
#include "client/core/handle.h"
#include "client/runtime/stream.h"
#include "proto/wire/packet.h"

#define UNSUPPORTED ACL_ERROR_RT_FEATURE_NOT_SUPPORT
#define REFUSED     ACL_ERROR_RT_PARAM_INVALID

/* Which function accepts which kind. 0: accepted. */
static const struct {
    const char *name;
    int error[USE_COUNT];
} kinds[EVENT_KINDS] = {
    /* in the order of enum use_of_event: record, reset, query, status, wait status, synchronise,
     * stream wait, timing */
    [EVENT_DEFAULT] = {"a default event", {0, 0, 0, 0, 0, 0, 0, 0}},
    [EVENT_SYNC] = {"an ACL_EVENT_SYNC event", {0, 0, 0, 0, 0, 0, 0, 0}},
    [EVENT_MARK] = {"an event without ACL_EVENT_SYNC",
                    {0, UNSUPPORTED, 0, 0, 0, 0, UNSUPPORTED, 0}},
    [EVENT_EXTERNAL] = {"an ACL_EVENT_EXTERNAL event",
                        {0, 0, UNSUPPORTED, UNSUPPORTED, UNSUPPORTED, UNSUPPORTED, 0, UNSUPPORTED}},
    [EVENT_DEVICE] = {"an ACL_EVENT_DEVICE_USE_ONLY event",
                      {REFUSED, REFUSED, 0, 0, 0, 0, REFUSED, 0}},
    [EVENT_EX_SYNC] = {"an event of aclrtCreateEventExWithFlag",
                       {0, UNSUPPORTED, UNSUPPORTED, 0, UNSUPPORTED, 0, 0, 0}},
    [EVENT_EX_MARK] = {"an event of aclrtCreateEventExWithFlag without ACL_EVENT_SYNC",
                       {0, UNSUPPORTED, UNSUPPORTED, 0, UNSUPPORTED, 0, UNSUPPORTED, 0}},
    [EVENT_EX_EXTERNAL] = {"an event of aclrtCreateEventExWithFlag",
                           {0, UNSUPPORTED, UNSUPPORTED, 0, UNSUPPORTED, 0, 0, 0}},
    [EVENT_IPC] = {"an IPC event",
                   {0, UNSUPPORTED, UNSUPPORTED, 0, UNSUPPORTED, 0, 0, UNSUPPORTED}},
};

int event_check_use(struct event *e, const char *function, enum use_of_event use)
{
    int error = kinds[e->kind].error[use];

    if (__builtin_expect(error == 0, 1))
        return 0;
    return error_set(error, "%s: cannot be used with %s, but with one of aclrtCreateEvent",
                     function, kinds[e->kind].name);
}

/* --- finding --- */

int event_error_unknown(const char *function, const void *handle)
{
    return handle_error(ACL_ERROR_RT_INVALID_HANDLE, function, HANDLE_EVENT, handle);
}

struct event *event_find_slow(const char *function, const void *handle, int *error)
{
    *error = process_enter();
    if (*error == 0)
        *error = event_error_unknown(function, handle);
    return NULL;
}

/* --- life --- */

struct event *event_new(struct session *s, struct context *c, uint32_t device, const char *function,
                        enum event_kind kind, uint32_t flags, int *error)
{
    struct event *e;

    pthread_mutex_lock(&s->lock);
    e = slots_take(&s->events);
    pthread_mutex_unlock(&s->lock);
    if (!e) {
        *error = error_set(
            ACL_ERROR_RT_MEMORY_ALLOCATION,
            "%s: this process has as many events as it may have, or no memory: destroy some",
            function);
        return NULL;
    }
    lock_order_know(&e->lock, LOCK_EVENT);
    e->session = s;
    e->context = c;
    e->kind = kind;
    e->flags = flags;
    e->device = device;
    e->n_uses = e->n_resets = 0;
    atomic_store_explicit(&e->reset_number, 0, memory_order_relaxed);
    atomic_store_explicit(&e->capture, 0, memory_order_relaxed);
    atomic_store_explicit(&e->by_model, false, memory_order_relaxed);
    e->record_flag = e->wait_flag = -1;
    /*
     * The position too: with fault injection a wait for an event that was never recorded is a task
     * like any other.
     */
    e->record_stream = 0;
    atomic_store_explicit(&e->record_ctrl, NULL, memory_order_relaxed);
    atomic_store_explicit(&e->record_position, 0, memory_order_relaxed);
    atomic_store_explicit(&e->record_number, 0, memory_order_relaxed);
    atomic_store_explicit(&e->record_ns, 0, memory_order_relaxed);
    event_changed(e);
    return e;
}

void event_abandon(struct event *e)
{
    struct session *s = e->session;

    pthread_mutex_lock(&s->lock);
    slots_put(&s->events, e);
    pthread_mutex_unlock(&s->lock);
}

/* Caller holds session->lock, which orders the mapping of a new file before the use of its slots
 * by other threads. */
static int create_remote(struct event *e, const char *function)
{
    struct session *s = e->session;
    REQUEST(create_event, CREATE_EVENT, .flags = e->flags, .device = e->device);
    Npud__Reply *reply = NULL;
    void **map;
    int error, fd = -1;

    RETURN_IF_ERROR(session_request(s, function, &request, &reply, &fd));
    e->remote = reply->create_event->slot;
    e->remote_generation = reply->create_event->generation;
    arena_pages_event_taken(s, e->remote);
    session_reply_free(reply);
    map = &s->event_files[e->remote / ARENA_EVENTS];
    error = session_map_file(s, function, fd, arena_event_file_size(), map);
    if (error == 0)
        e->shm = arena_event(*map, e->remote);
    return error;
}

void event_note_created(const struct event *e, bool imported)
{
    struct check_event record = {
        .r.kind = CHECK_EVENT,
        .event = (uintptr_t)handle_of(HANDLE_EVENT, e),
        .identity = e->kind == EVENT_IPC ? e->ipc_id : 0,
        .kind = e->kind == EVENT_IPC ? CHECK_EVENT_IPC
                : event_has_level(e) ? CHECK_EVENT_LEVEL
                                     : CHECK_EVENT_PLAIN,
        .imported = imported,
    };

    checked_write(&record.r, sizeof(record));
}

void event_note_seen(const struct event *e, uint64_t number, bool waited)
{
    if (number != 0 || waited)
        checked_event_use(number != 0 ? CHECK_SYNC_EVENT : CHECK_EMPTY_SYNC, CHECK_NO_STREAM,
                          (uintptr_t)handle_of(HANDLE_EVENT, e), number);
}

static int create_event(const char *function, aclrtEvent *event, enum event_kind kind,
                        uint32_t flags)
{
    int error;
    struct context *c = FIND_OR_RETURN(context_get, function);
    struct event *e = FIND_OR_RETURN(event_new, c->session, c, c->device, function, kind, flags);

    pthread_mutex_lock(&c->session->lock);
    error = create_remote(e, function);
    pthread_mutex_unlock(&c->session->lock);
    if (error != 0) {
        event_abandon(e);
        return error;
    }
    slots_publish(e);
    *event = handle_of(HANDLE_EVENT, e);
    if (checked_runs())
        event_note_created(e, false);
    return 0;
}

#define DEFAULT_FLAGS 0x0eu /* what the vendor's default event amounts to */

#define ORDINARY (ACL_EVENT_SYNC | ACL_EVENT_CAPTURE_STREAM_PROGRESS | ACL_EVENT_TIME_LINE | 0x04u)
#define ORDINARY_FLAGS                                                                             \
    "allowed are ACL_EVENT_SYNC, ACL_EVENT_CAPTURE_STREAM_PROGRESS and ACL_EVENT_TIME_LINE, also " \
    "several of them"

aclError aclrtCreateEvent(aclrtEvent *event)
{
    CALL_SCOPE;

    REQUIRE(event);
    return create_event(__func__, event, EVENT_DEFAULT, DEFAULT_FLAGS);
}

aclError aclrtCreateEventWithFlag(aclrtEvent *event, uint32_t flag)
{
    CALL_SCOPE;
    enum event_kind kind;

    REQUIRE(event);
    if (flag == ACL_EVENT_DEVICE_USE_ONLY)
        kind = EVENT_DEVICE;
    else if (flag == ACL_EVENT_EXTERNAL)
        kind = EVENT_EXTERNAL;
    else if (flag != 0 && (flag & ~ORDINARY) == 0)
        kind = flag & ACL_EVENT_SYNC ? EVENT_SYNC : EVENT_MARK;
    else
        return error_set(
            ACL_ERROR_RT_PARAM_INVALID,
            "aclrtCreateEventWithFlag: flag 0x%x is not allowed here: " ORDINARY_FLAGS
            "; or ACL_EVENT_DEVICE_USE_ONLY or ACL_EVENT_EXTERNAL alone%s",
            flag, flag & ACL_EVENT_IPC ? "; use aclrtCreateEventExWithFlag for ACL_EVENT_IPC" : "");
    return create_event(__func__, event, kind, flag);
}

aclError aclrtCreateEventExWithFlag(aclrtEvent *event, uint32_t flag)
{
    CALL_SCOPE;

    REQUIRE(event);
    if (flag == ACL_EVENT_IPC)
        return ipc_event_create(__func__, event);
    if (flag == 0 || (flag & ~ORDINARY) != 0)
        return error_set(
            ACL_ERROR_RT_PARAM_INVALID,
            "aclrtCreateEventExWithFlag: flag 0x%x is not allowed here: " ORDINARY_FLAGS
            "; or ACL_EVENT_IPC alone",
            flag);
    return create_event(__func__, event, flag & ACL_EVENT_SYNC ? EVENT_EX_SYNC : EVENT_EX_MARK,
                        flag);
}

/*
 * The places where an event is used are a hash table by stream and kind of use: thousands of
 * streams can wait for one event. A place that was passed is free, and keeps its stream until it is
 * taken: a search goes on behind it.
 */
static struct use *find_use(struct event *e, const struct stream_ctrl *ctrl, unsigned how)
{
    uint64_t hash = ((uint64_t)(uintptr_t)ctrl + how) * UINT64_C(0x9e3779b97f4a7c15);
    uint32_t at = (uint32_t)(hash >> 32);
    struct use *free_place = NULL, *u;

    for (uint32_t i = 0; i < e->uses_size; i++) {
        u = &e->uses[(at + i) & (e->uses_size - 1)];
        if (u->point.ctrl == ctrl && u->how == how)
            return u;
        if (!free_place && point_passed(&u->point))
            free_place = u;
        if (!u->point.ctrl)
            break;
    }
    return free_place;
}

/* A search ends at a place that was never taken, so a quarter of them is kept free. */
static bool uses_are_full(const struct event *e)
{
    return e->uses_size > USES_FEW ? e->n_uses >= e->uses_size / 4 * 3 : e->n_uses == e->uses_size;
}

static void put_use(struct event *e, struct use *place, const struct use *use)
{
    e->n_uses += !place->point.ctrl;
    *place = *use;
}

/* Twice the room for what has not been passed. False: no memory. */
static bool renew_uses(struct event *e)
{
    struct use *old = e->uses, *table;
    uint32_t old_size = e->uses_size, live = 0, size = USES_FEW;

    for (uint32_t i = 0; i < old_size; i++)
        live += !point_passed(&old[i].point);
    while (size < 2 * (live + 1) && old)
        size *= 2;
    table = old ? calloc(size, sizeof(*table)) : memset(e->few, 0, sizeof(e->few));
    if (!table)
        return false;
    e->uses = table;
    e->uses_size = size;
    e->n_uses = 0;
    for (uint32_t i = 0; i < old_size; i++)
        if (!point_passed(&old[i].point))
            put_use(e, find_use(e, old[i].point.ctrl, old[i].how), &old[i]);
    if (old != e->few)
        free(old);
    return true;
}

void event_used(struct event *e, struct stream *s, unsigned how)
{
    struct use use = {
        .point = {.ctrl = s->ctrl, .position = s->tail}, .stream = s->remote, .how = how};
    struct use *place = find_use(e, s->ctrl, how);

    if (!place || (!place->point.ctrl && uses_are_full(e))) {
        if (!renew_uses(e))
            return; /* npud looks up generations: this task may lose its effect, no more */
        place = find_use(e, s->ctrl, how);
    }
    put_use(e, place, &use);
}

Npud__Fence **event_fences(struct event *e, size_t *n, protobuf_c_boolean *all)
{
    Npud__Fence **list, *fence;

    *n = 0;
    *all = false;
    list = malloc(e->n_uses * (sizeof(Npud__Fence *) + sizeof(Npud__Fence)) + 1);
    fence = list ? (Npud__Fence *)(list + e->n_uses) : NULL;
    for (uint32_t i = 0; i < e->uses_size; i++) {
        if (!(e->uses[i].how & USE_FENCE) || point_passed(&e->uses[i].point))
            continue;
        if (!list || *n == FENCES_MAX) {
            *n = 0;
            *all = true;
            break;
        }
        fence[*n] = (Npud__Fence)NPUD__FENCE__INIT;
        fence[*n].stream = e->uses[i].stream;
        fence[*n].position = e->uses[i].point.position;
        list[*n] = &fence[*n];
        ++*n;
    }
    return list;
}

void event_fences_free(Npud__Fence **fences)
{
    free(fences);
}

static int destroy_remote(struct event *e, const char *function)
{
    REQUEST(destroy_event, DESTROY_EVENT, .slot = e->remote);
    int error;

    in.fences = event_fences(e, &in.n_fences, &in.all_streams);
    error = session_command(e->session, function, &request);
    event_fences_free(in.fences);
    return error;
}

static void forget_places(struct event *e)
{
    if (e->uses != e->few)
        free(e->uses);
    free(e->resets);
    e->uses = NULL;
    e->resets = NULL;
    e->n_uses = e->uses_size = e->n_resets = e->resets_size = 0;
}

static void forget_event(void *object)
{
    ipc_event_unmap(object);
    forget_places(object);
}

/*
 * Under session->lock: memory of events that were destroyed goes back, when no thread uses one any
 * more that it has found before. Callbacks call here, but no call that runs one uses an event
 * afterwards. What a thread keeps back, because it is inside a long call, goes at a later destroy.
 */
static void give_back(struct session *s)
{
    if (s->events_epoch == 0 && slots_condemn(&s->events, SLOTS_IDLE_KEPT))
        s->events_epoch = api_call_new_epoch();
    if (!api_call_events_unused(s->events_epoch))
        return;
    slots_release_condemned(&s->events, forget_event);
    s->events_epoch = 0;
}

/* Locked, and unlocks: npud was asked to destroy it. */
static void give_up(struct event *e)
{
    struct session *s = e->session;

    /*
     * Locked anew: session->lock is the outer one. A thread that is late does nothing to a dead
     * event.
     */
    event_unlock(e);
    pthread_mutex_lock(&s->lock);
    biased_lock_take(&e->lock);
    if (e->kind != EVENT_IPC)
        arena_pages_event_left(s, e->remote, e->uses, e->uses_size);
    forget_places(e);
    event_unlock(e);
    slots_put(&s->events, e);
    if (s->events.idle > SLOTS_IDLE_KEPT)
        give_back(s);
    pthread_mutex_unlock(&s->lock);
}

aclError aclrtDestroyEvent(aclrtEvent event)
{
    CALL_SCOPE;
    REQUIRE(event);
    int error;
    struct event *e = FIND_OR_RETURN(event_find, __func__, event);

    RETURN_IF_ERROR(event_lock(e, __func__, event));
    slots_unpublish(e);
    error = e->kind == EVENT_IPC ? ipc_event_close(e, __func__) : destroy_remote(e, __func__);
    /* Refused, because too many destroyed events wait for their streams: it is not destroyed. */
    if (error == ACL_ERROR_RT_RESOURCE_ALLOC_FAIL) {
        slots_publish(e);
        event_unlock(e);
    } else {
        if (checked_runs())
            checked_object(CHECK_EVENT_GONE, CHECK_OBJECT_EVENT, (uintptr_t)event);
        give_up(e);
    }
    return error;
}

static void init(struct session *s, uint32_t seed)
{
    slots_init(&s->events, sizeof(struct event), SESSION_EVENTS_MAX, seed);
}

static void forget_all(struct session *s)
{
    for (uint32_t i = 0; i < s->events.end; i++)
        forget_event(slots_at(&s->events, i));
}

const struct part event_part = {.session_init = init, .session_free = forget_all};

/* --- the latest record --- */

static bool reset_passed(const struct event *e)
{
    for (uint32_t i = 0; i < e->n_resets; i++)
        if (point_passed(&e->resets[i]))
            return true;
    return false;
}

void event_record_locked(struct event *e, struct record *r)
{
    event_read_record(e, r);
    if (r->number != 0 &&
        r->number == atomic_load_explicit(&e->reset_number, memory_order_relaxed) &&
        reset_passed(e))
        *r = (struct record){0};
}

static int add_reset(struct event *e, struct point at, const char *function)
{
    struct point *grown;

    if (e->n_resets == e->resets_size) {
        grown = reallocarray(e->resets, e->resets_size + 2, sizeof(*grown));
        if (!grown)
            return error_no_memory(function);
        e->resets = grown;
        e->resets_size += 2;
    }
    e->resets[e->n_resets++] = at;
    return 0;
}

int event_reset_in(struct event *e, const struct stream *s, const char *function)
{
    uint64_t number = atomic_load_explicit(&e->record_number, memory_order_relaxed);
    int error;

    if (atomic_load_explicit(&e->reset_number, memory_order_relaxed) != number)
        e->n_resets = 0; /* they were for an earlier record */
    if (number == 0 || reset_passed(e))
        return 0;
    for (uint32_t i = 0; i < e->n_resets; i++)
        if (e->resets[i].ctrl == s->ctrl)
            return 0; /* this stream gets to the earlier one first */
    error = add_reset(e, (struct point){.ctrl = s->ctrl, .position = s->tail}, function);
    if (error == 0) {
        atomic_store_explicit(&e->reset_number, number, memory_order_relaxed);
        event_changed(e);
    }
    return error;
}

/* Without its lock. */
static void forget_record(struct event *e, const struct stream_ctrl *ctrl, uint64_t from,
                          uint64_t to)
{
    struct record r;

    /*
     * A record of this stream is not made meanwhile, so most events are told without their locks.
     */
    event_read_record(e, &r);
    if (r.point.ctrl != ctrl || r.point.position <= from || r.point.position > to)
        return;

    biased_lock_take(&e->lock);
    event_record_locked(e, &r);
    if (r.number != 0 && r.point.ctrl == ctrl && r.point.position > from &&
        r.point.position <= to) {
        if (atomic_load_explicit(&e->reset_number, memory_order_relaxed) != r.number)
            e->n_resets = 0;
        /* As a reset that has taken effect. */
        if (add_reset(e, (struct point){.ctrl = NULL}, "aclrtDeviceTaskAbort") == 0) {
            atomic_store_explicit(&e->reset_number, r.number, memory_order_relaxed);
            event_changed(e);
        }
    }
    biased_lock_give(&e->lock);
}

void event_forget_records(struct session *s, const struct stream_ctrl *ctrl, uint64_t from,
                          uint64_t to)
{
    struct event *e;

    pthread_mutex_lock(&s->lock);
    slots_foreach (&s->events, i, e)
        forget_record(e, ctrl, from, to);
    pthread_mutex_unlock(&s->lock);
}

void event_record_slow(struct event *e, struct record *r)
{
    biased_lock_take(&e->lock);
    event_record_locked(e, r);
    biased_lock_give(&e->lock);
}
