#include "daemon/event.h"

#include "acl/error_codes/rt_error_codes.h"
#include "daemon/session.h"
#include "proto/arena.h"
#include "proto/clock.h"

int32_t event_obj_new(struct session *session, uint32_t flags, uint32_t device,
                      struct event_obj **eventp, int *segment_fd)
{
    struct event_obj *ev = slots_take(&session->events);
    void *segment;

    if (!ev)
        return ACL_ERROR_RT_NO_EVENT_RESOURCE;
    if (charge_init(&ev->charge, session_users(session), session->user, RESOURCE_EVENTS, 1) < 0) {
        slots_put(&session->events, ev);
        return ACL_ERROR_RT_NO_EVENT_RESOURCE;
    }
    segment = session_segment(session, &session->event_segments, ev->slot.number / ARENA_EVENTS,
                              arena_event_segment_size(), segment_fd);
    if (!segment) {
        charge_deinit(&ev->charge);
        slots_put(&session->events, ev);
        return ACL_ERROR_RT_RESOURCE_ALLOC_FAIL;
    }
    ev->session = session;
    ev->flags = flags;
    ev->device = device;
    ev->shm = arena_event(segment, ev->slot.number);
    ev->time_number = 0;
    ev->closing = false;
    waitlist_init(&ev->raised);
    atomic_store_explicit(&ev->shm->flag, 0, memory_order_relaxed);
    atomic_store_explicit(&ev->shm->flag_waiters, 0, memory_order_relaxed);
    atomic_store_explicit(&ev->shm->time_number, 0, memory_order_relaxed);
    slots_publish(ev);
    *eventp = ev;
    return 0;
}

void event_obj_free(struct event_obj *ev)
{
    session_lock(ev->session);
    slots_unpublish(ev);
    waitlist_fire(&ev->raised, 0, UINT64_MAX, 0, 0);
    waitlist_deinit(&ev->raised);
    session_unlock(ev->session);
    charge_deinit(&ev->charge);
    slots_put(&ev->session->events, ev);
}

static void raise_flag(struct event_obj *ev)
{
    atomic_store_explicit(&ev->shm->flag, 1, memory_order_release);
    waitlist_fire(&ev->raised, 0, UINT64_MAX, 0, 0);
    /*
     * Let the client raise the flag by itself again. Under the lock: a stream that parks meanwhile
     * stores flag_waiters after it has joined the list, so either we see it there or its store
     * comes after ours.
     */
    pthread_mutex_lock(&ev->raised.lock);
    if (atomic_load_explicit(&ev->raised.n, memory_order_relaxed) == 0)
        atomic_store_explicit(&ev->shm->flag_waiters, 0, memory_order_relaxed);
    pthread_mutex_unlock(&ev->raised.lock);
}

void event_obj_record(struct event_obj *ev, uint64_t number, bool time, bool flag)
{
    if (time) {
        uint64_t now = clock_ns();

        /* Two streams may finish records of one event in either order: the newer record's time
         * stays. */
        pthread_mutex_lock(&ev->raised.lock);
        if (number > ev->time_number) {
            ev->time_number = number;
            event_slot_set_time(ev->shm, number, now);
        }
        pthread_mutex_unlock(&ev->raised.lock);
    }
    if (flag)
        raise_flag(ev);
}
