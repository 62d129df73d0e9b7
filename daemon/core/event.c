#include "daemon/core/event.h"

#include "daemon/base/kill_here.h"
#include "daemon/core/device.h"
#include "daemon/core/server.h"
#include "daemon/core/session.h"
#include "daemon/core/stream.h"
#include "proto/shm/arena.h"
#include "proto/util/clock.h"
#include "proto/shm/task.h"

static enum cause take_resources(struct event_obj *ev, struct session *session, void **map,
                                 int *file_fd)
{
    enum cause cause;

    if (user_charge_more(&session->charge_events, session->user, RESOURCE_EVENTS, 1) < 0)
        return CAUSE_USER_EVENTS;
    cause = session_arena_file(session, &session->event_files, ev->slot.number,
                               arena_event_file_size(), map, file_fd);
    if (cause != CAUSE_NONE)
        user_uncharge_part(&session->charge_events, 1);
    return cause;
}

enum cause event_obj_new(struct session *session, uint32_t flags, uint32_t device,
                         struct event_obj **eventp, int *file_fd)
{
    enum cause cause;
    struct event_obj *ev =
        session_take_slot(session, &session->events, CAUSE_EVENTS_OF_SESSION, &cause);
    void *map;

    if (!ev)
        return cause;
    cause = take_resources(ev, session, &map, file_fd);
    if (cause != CAUSE_NONE) {
        slots_put(&session->events, ev);
        return cause;
    }
    ev->flags = (uint16_t)flags;
    ev->device = (uint8_t)device;
    ev->shm = arena_event(map, ev->slot.number);
    ev->live =
        arena_kept_at(session->event_files.file[ev->slot.number / ARENA_EVENTS], ev->slot.number);
    *ev->live = (struct event_kept){0};
    atomic_store_explicit(&ev->dropped_code, 0, memory_order_relaxed);
    ev->closing = false;
    waitlist_init(&ev->raised);
    atomic_store_explicit(&ev->shm->level, 0, memory_order_relaxed);
    atomic_store_explicit(&ev->shm->level_waiters, 0, memory_order_relaxed);
    atomic_store_explicit(&ev->shm->time_number, 0, memory_order_relaxed);
    atomic_store_explicit(&ev->shm->records, 0, memory_order_relaxed);
    KILL_HERE(EVENT_CLEARED);
    kept_set(&ev->live->is, event_is(slot_generation(ev), ev->device, ev->flags));
    slots_publish(ev);
    *eventp = ev;
    return CAUSE_NONE;
}

void event_obj_free(struct session *session, struct event_obj *ev)
{
    session_lock(session);
    slots_unpublish(ev);
    waitlist_fire(&ev->raised, 0, UINT64_MAX, 0, 0);
    waitlist_deinit(&ev->raised);
    kept_set(&ev->live->is, 0);
    session_unlock(session);
    KILL_HERE(EVENT_FREED);
    user_uncharge_part(&session->charge_events, 1);
    session_put_slot(session, &session->events, ev);
}

void event_obj_set_closing(struct event_obj *ev, bool closing)
{
    ev->closing = closing;
    kept_set(&ev->live->is, event_is(slot_generation(ev), ev->device, ev->flags) |
                                (closing ? EVENT_IS_CLOSING : 0));
}

static bool restore_event(struct session *session, void *map, uint32_t number, struct event_kept *k)
{
    uint64_t is = atomic_load_explicit(&k->is, memory_order_relaxed);
    struct event_obj *ev = slots_restore(&session->events, number, event_is_generation(is));

    if (!ev)
        return false;
    ev->flags = event_is_flags(is);
    ev->device = event_is_device(is);
    ev->closing = (is & EVENT_IS_CLOSING) != 0;
    ev->live = k;
    ev->shm = arena_event(map, number);
    atomic_store_explicit(&ev->dropped, k->dropped, memory_order_relaxed);
    atomic_store_explicit(&ev->dropped_code, k->dropped_code, memory_order_relaxed);
    waitlist_init(&ev->raised);
    user_charge_again(&session->charge_events, session->user, RESOURCE_EVENTS, 1, false);
    return true;
}

bool events_restore(struct server *server, struct kept_cell *cell)
{
    struct arena_file *file;
    struct event_kept *k;

    if (!session_arena_file_restore(server, cell, KEPT_EVENTS, &file))
        return false;
    if (!file)
        return true;
    k = arena_kept_at(file, 0);
    for (uint32_t i = 0; i < file->slots; i++)
        if (atomic_load_explicit(&k[i].is, memory_order_relaxed) != 0 &&
            !restore_event(file->session, file->map, file->index * ARENA_EVENTS + i, &k[i]))
            return false;
    return true;
}

/*
 * Streams that parked before the latest raise go on; those that came after it, and after a reset,
 * stay.
 */
static void wake_level(struct event_obj *ev)
{
    uint64_t level = atomic_load_explicit(&ev->shm->level, memory_order_seq_cst);
    uint64_t count = event_level_count(level);

    if (level & EVENT_LEVEL_UP)
        waitlist_fire(&ev->raised, 0, UINT64_MAX, 0, 0);
    else if (count > 0)
        waitlist_fire(&ev->raised, 0, count - 1, 0, 0);
    /*
     * Let the client raise the level by itself again. Under the lock: a stream that parks meanwhile
     * stores level_waiters after it has joined the list, so either it is seen there or its store
     * comes after this one.
     */
    waitlist_lock(&ev->raised);
    if (atomic_load_explicit(&ev->raised.n, memory_order_relaxed) == 0)
        atomic_store_explicit(&ev->shm->level_waiters, 0, memory_order_relaxed);
    waitlist_unlock(&ev->raised);
}

static void store_time(struct event_obj *ev, uint64_t number)
{
    struct event_kept *k = ev->live;

    /*
     * Two streams may finish records of one event in either order: the newer record's time stays.
     */
    waitlist_lock(&ev->raised);
    if (number > k->time_number) {
        k->time_ns = clock_ns();
        kept_order();
        k->time_number = number;
        KILL_HERE(TIME_KEPT);
        event_slot_set_time(ev->shm, number, k->time_ns);
        KILL_HERE(TIME_TOLD);
    } else if (number == k->time_number && atomic_load(&ev->shm->time_number) != number) {
        /* The npud before has ended in between: the first time stays. */
        event_slot_set_time(ev->shm, number, k->time_ns);
    }
    waitlist_unlock(&ev->raised);
}

/* --- changes of the level --- */

/*
 * If npud ends behind a change and before its task retires, the next npud must know that the change
 * was made. The word itself says so: the tag names the engine whose change was the last one, and
 * that change, by its number. Before an engine changes a level with the tag of another engine, it
 * notes that one's change as made, in the record of its device. Only the latest change of an engine
 * can be in doubt. A client that forges tags deceives npud about changes of its own session alone.
 */
#define TAG_NUMBER_BITS 27

static uint32_t tag_of(uint32_t engine, uint64_t change)
{
    return engine << TAG_NUMBER_BITS | (uint32_t)(change & ((1u << TAG_NUMBER_BITS) - 1));
}

static void note_overwritten(const struct stream *s, uint32_t tag)
{
    struct device *d = devices_get(s->session->server->devices, tag >> TAG_NUMBER_BITS);
    uint64_t last, seen;

    if (!d || d == s->attach->device)
        return;
    last = atomic_load_explicit(&d->live->last_change, memory_order_acquire);
    if (tag != tag_of(d->index, last) ||
        atomic_load_explicit(&d->live->change_session, memory_order_relaxed) != s->session->id)
        return;
    seen = atomic_load_explicit(&d->live->overwritten, memory_order_relaxed);
    while (seen < last && !atomic_compare_exchange_weak(&d->live->overwritten, &seen, last))
        ;
}

/* A number for the change that the current task makes; the one that it had, if it has one. */
static uint64_t number_change(struct stream *s)
{
    struct device_kept *d = s->attach->device->live;
    struct stream_kept *k = s->live;

    if (head_has(k, k->effect_at))
        return k->effect;
    head_note_no_ticket(k);
    k->effect = atomic_load_explicit(&d->last_change, memory_order_relaxed) + 1;
    if (tag_of(0, k->effect) == 0) /* looks like no tag */
        k->effect++;
    atomic_store_explicit(&d->change_session, s->session->id, memory_order_relaxed);
    atomic_store_explicit(&d->last_change, k->effect, memory_order_release);
    head_note(k, &k->effect_at);
    return k->effect;
}

static void change_level(struct event_obj *ev, struct stream *s, uint64_t (*changed)(uint64_t))
{
    const struct device *d = s->attach->device;
    bool again = head_has(s->live, s->live->effect_at);
    uint64_t change = number_change(s);
    uint32_t tag = tag_of(d->index, change);
    uint64_t old = atomic_load_explicit(&ev->shm->level, memory_order_relaxed);

    KILL_HERE(LEVEL_NOTED);
    if (again && (event_level_tag(old) == tag ||
                  atomic_load_explicit(&d->live->overwritten, memory_order_relaxed) >= change))
        return;
    /* As in event_slot_raise(). */
    for (unsigned tries = 0; tries < EVENT_RAISE_TRIES; tries++) {
        note_overwritten(s, event_level_tag(old));
        KILL_HERE(LEVEL_OVERWRITES);
        if (atomic_compare_exchange_weak(&ev->shm->level, &old,
                                         event_level_with_tag(changed(old), tag)))
            break;
    }
    KILL_HERE(LEVEL_CHANGED);
}

void event_obj_reset(struct event_obj *ev, struct stream *s)
{
    change_level(ev, s, event_level_lowered);
}

void event_obj_record(struct event_obj *ev, struct stream *s, uint64_t number, unsigned flags)
{
    if (flags & TASK_RECORD_TIME)
        store_time(ev, number);
    if (flags & TASK_RECORD_LEVEL)
        change_level(ev, s, event_level_raised);
    if (flags & (TASK_RECORD_LEVEL | TASK_RECORD_WAKE))
        wake_level(ev);
}

void event_obj_drop(struct event_obj *ev, uint64_t number, int32_t code)
{
    /* Of two engines that pass over records of one event, either may be the last. */
    waitlist_lock(&ev->raised);
    if (atomic_load(&ev->dropped_code) == 0 ||
        (int32_t)((uint32_t)number - atomic_load(&ev->dropped)) > 0)
        atomic_store(&ev->dropped, (uint32_t)number);
    atomic_store(&ev->dropped_code, code);
    ev->live->dropped = atomic_load(&ev->dropped);
    kept_order();
    ev->live->dropped_code = code;
    waitlist_unlock(&ev->raised);
    waitlist_fire(&ev->raised, 0, UINT64_MAX, EVENT_LOOK_AGAIN, 0);
}

int32_t event_obj_dropped(const struct event_obj *ev, uint64_t number)
{
    int32_t code = atomic_load(&ev->dropped_code);

    if (code == 0 || number == 0)
        return 0;
    return (int32_t)((uint32_t)number - atomic_load(&ev->dropped)) > 0 ? 0 : code;
}
