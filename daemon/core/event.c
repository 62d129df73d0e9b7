#include "daemon/core/event.h"

#include "daemon/core/session.h"
#include "proto/shm/arena.h"
#include "proto/util/clock.h"
#include "proto/shm/task.h"

static enum cause take_resources(struct event_obj *ev, struct session *session, void **segment,
                                 int *segment_fd)
{
    if (user_charge(&ev->charge, session->user, RESOURCE_EVENTS, 1) < 0)
        return CAUSE_USER_EVENTS;
    return session_segment(session, &session->event_segments, ev->slot.number / ARENA_EVENTS,
                           arena_event_segment_size(), segment, segment_fd);
}

enum cause event_obj_new(struct session *session, uint32_t flags, uint32_t device,
                         struct event_obj **eventp, int *segment_fd)
{
    enum cause cause;
    struct event_obj *ev =
        session_take_slot(session, &session->events, CAUSE_EVENTS_OF_SESSION, &cause);
    void *segment;

    if (!ev)
        return cause;
    cause = take_resources(ev, session, &segment, segment_fd);
    if (cause != CAUSE_NONE) {
        user_uncharge(&ev->charge);
        slots_put(&session->events, ev);
        return cause;
    }
    ev->flags = (uint16_t)flags;
    ev->device = (uint8_t)device;
    ev->shm = arena_event(segment, ev->slot.number);
    ev->time_number = 0;
    atomic_store_explicit(&ev->dropped_code, 0, memory_order_relaxed);
    ev->closing = false;
    waitlist_init(&ev->raised);
    atomic_store_explicit(&ev->shm->level, 0, memory_order_relaxed);
    atomic_store_explicit(&ev->shm->level_waiters, 0, memory_order_relaxed);
    atomic_store_explicit(&ev->shm->time_number, 0, memory_order_relaxed);
    atomic_store_explicit(&ev->shm->records, 0, memory_order_relaxed);
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
    session_unlock(session);
    user_uncharge(&ev->charge);
    session_put_slot(session, &session->events, ev);
}

/*
 * Streams that parked before the latest raise go on; those that came after it, and after a reset,
 * stay.
 */
static void wake_level(struct event_obj *ev)
{
    uint64_t level = atomic_load_explicit(&ev->shm->level, memory_order_seq_cst);
    uint64_t count = level >> 1;

    if (level & EVENT_LEVEL_UP)
        waitlist_fire(&ev->raised, 0, UINT64_MAX, 0, 0);
    else if (count > 0)
        waitlist_fire(&ev->raised, 0, count - 1, 0, 0);
    /*
     * Let the client raise the level by itself again. Under the lock: a stream that parks meanwhile
     * stores level_waiters after it has joined the list, so either it is seen there or its store
     * comes after this one.
     */
    pthread_mutex_lock(&ev->raised.lock);
    if (atomic_load_explicit(&ev->raised.n, memory_order_relaxed) == 0)
        atomic_store_explicit(&ev->shm->level_waiters, 0, memory_order_relaxed);
    pthread_mutex_unlock(&ev->raised.lock);
}

static void store_time(struct event_obj *ev, uint64_t number)
{
    uint64_t now = clock_ns();

    /*
     * Two streams may finish records of one event in either order: the newer record's time stays.
     */
    pthread_mutex_lock(&ev->raised.lock);
    if (number > ev->time_number) {
        ev->time_number = number;
        event_slot_set_time(ev->shm, number, now);
    }
    pthread_mutex_unlock(&ev->raised.lock);
}

void event_obj_record(struct event_obj *ev, uint64_t number, unsigned flags)
{
    if (flags & TASK_RECORD_TIME)
        store_time(ev, number);
    if (flags & TASK_RECORD_LEVEL)
        event_slot_raise(ev->shm);
    if (flags & (TASK_RECORD_LEVEL | TASK_RECORD_WAKE))
        wake_level(ev);
}

void event_obj_drop(struct event_obj *ev, uint64_t number, int32_t code)
{
    /* Of two engines that pass over records of one event, either may be the last. */
    pthread_mutex_lock(&ev->raised.lock);
    if (atomic_load(&ev->dropped_code) == 0 ||
        (int32_t)((uint32_t)number - atomic_load(&ev->dropped)) > 0)
        atomic_store(&ev->dropped, (uint32_t)number);
    atomic_store(&ev->dropped_code, code);
    pthread_mutex_unlock(&ev->raised.lock);
    waitlist_fire(&ev->raised, 0, UINT64_MAX, EVENT_LOOK_AGAIN, 0);
}

int32_t event_obj_dropped(const struct event_obj *ev, uint64_t number)
{
    int32_t code = atomic_load(&ev->dropped_code);

    if (code == 0 || number == 0)
        return 0;
    return (int32_t)((uint32_t)number - atomic_load(&ev->dropped)) > 0 ? 0 : code;
}
