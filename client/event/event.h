/*
 * Events, the library's side. What a record captures is a stream and a position: the event is
 * complete when `done` of that stream has reached it. IPC events capture a record number instead
 * (ipc_event.c).
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "acl/acl.h"
#include "client/core/biased_lock.h"
#include "client/core/handle.h"
#include "client/capture/capture.h"
#include "client/runtime/point.h"
#include "client/runtime/session.h"
#include "client/runtime/stream.h"
#include "proto/shm/event_shm.h"
#include "proto/shm/ipc_page.h"
#include "proto/util/slots.h"

struct context;
struct stream;

/** Kinds of events: by the function that makes them, and its flags. */
enum event_kind {
    EVENT_DEFAULT,  /* aclrtCreateEvent */
    EVENT_SYNC,     /* aclrtCreateEventWithFlag, ACL_EVENT_SYNC: a level, see event_has_level() */
    EVENT_MARK,     /* the same without ACL_EVENT_SYNC */
    EVENT_EXTERNAL, /* the same with ACL_EVENT_EXTERNAL */
    EVENT_DEVICE,   /* the same with ACL_EVENT_DEVICE_USE_ONLY */
    EVENT_EX_SYNC,  /* aclrtCreateEventExWithFlag, ACL_EVENT_SYNC */
    EVENT_EX_MARK,  /* the same without ACL_EVENT_SYNC */
    /* EVENT_EX_SYNC that was once used with ACL_EVENT_RECORD_EXTERNAL or ACL_EVENT_WAIT_EXTERNAL */
    EVENT_EX_EXTERNAL,
    EVENT_IPC, /* the same with ACL_EVENT_IPC */
    EVENT_KINDS
};

/** What a function does with an event: columns of the table of kinds in event.c. */
enum use_of_event {
    USE_RECORD,
    USE_RESET,
    USE_QUERY,
    USE_QUERY_STATUS,
    USE_QUERY_WAIT,
    USE_SYNCHRONIZE,
    USE_WAIT,
    USE_TIMING,
    USE_COUNT
};

/**
 * As many are in the event itself: small pieces of hundreds of thousands of events would leave a
 * heap full of holes.
 */
#define USES_FEW 2u

struct event {
    struct slot slot; /* in session->events: the handle */
    struct session *session;
    struct context *context; /* may be gone; NULL: opened on a device without one */
    enum event_kind kind;
    uint32_t flags;
    uint32_t device;
    uint32_t remote; /* npud's slot and generation */
    uint32_t remote_generation;

    /*
     * Writers. Never initialised anew: another thread may be late with a destroyed handle, and
     * zeroed memory is a lock that no thread has taken. Taken after a stream's lock, and never held
     * while waiting for room.
     */
    struct biased_lock lock;
    /*
     * The latest record, for readers without the lock: they read it whole between two equal values
     * of sequence (event_read_record()). What is counted here:
     *
     *   sequence         changes of the record; odd while it changes. It never comes back to a
     *                    value as long as a thread can use the event: see event_changed()
     *   complete         a sequence: its record was seen complete by a query. If it is another
     *                    than sequence, nothing is known of the latest record. Any thread stores
     *                    here (event_note_complete()); all others are stored under lock
     *   record_position  tasks of the stream record_ctrl: the record is complete when `done` passes
     *   record_number    records of this event, for npud; 0: there was none
     *   reset_number     a record_number: that record is undone where `resets` take effect
     *   record_ns        no count: when it was recorded, if it was complete at the call; else 0
     */
    _Atomic uint64_t sequence;
    _Atomic uint64_t complete;
    _Atomic(struct stream_ctrl *) record_ctrl;
    _Atomic uint64_t record_position;
    _Atomic uint64_t record_number;
    _Atomic uint64_t record_ns;

    uint32_t record_stream; /* npud's slot of the stream of the latest record; under lock */
    /*
     * Default events: where resets take effect, one place per stream; the first that is reached
     * undoes the record. Under lock.
     */
    struct point *resets;
    uint32_t n_resets;
    uint32_t resets_size;
    _Atomic uint64_t reset_number; /* the record they undo; 0: none */
    _Atomic uint64_t capture; /* of which it was part last: client/capture/capture.h; 0: none */
    _Atomic bool by_model;    /* the latest record is one of a model that is built by hand */
    int8_t record_flag;       /* first flag used with RecordEventWithFlag: -1 none yet */
    int8_t wait_flag;

    /*
     * All kinds but IPC. It stays when the event is destroyed, and is mapped as long as the session
     * is: a thread that is late with a destroyed handle reads there.
     */
    struct event_slot *shm;
    /*
     * IPC. The address range is this object's until the memory of the object goes back: a destroyed
     * event's page is replaced by empty memory, so that a thread that is late finds an event
     * without records and not a hole.
     */
    struct ipc_page *page;
    uint32_t opener;
    uint64_t ipc_id;

    /* A hash table: `few`, or on the heap; NULL: none so far. Places without a ctrl are free. */
    struct use *uses;
    struct use few[USES_FEW];
    uint32_t n_uses;    /* places with a ctrl, also of what was passed */
    uint32_t uses_size; /* places: a power of two */
};

/** A consistent copy of the latest record. */
struct record {
    struct point point;
    uint64_t number;
    uint64_t ns;
    uint64_t sequence; /* when it was read; 0: it was undone */
};

static inline void event_read_record(const struct event *e, struct record *r)
{
    uint64_t before;

    do {
        before = atomic_load_explicit(&e->sequence, memory_order_acquire);
        r->point.ctrl = atomic_load_explicit(&e->record_ctrl, memory_order_relaxed);
        r->point.position = atomic_load_explicit(&e->record_position, memory_order_relaxed);
        r->number = atomic_load_explicit(&e->record_number, memory_order_relaxed);
        r->ns = atomic_load_explicit(&e->record_ns, memory_order_relaxed);
        atomic_thread_fence(memory_order_acquire);
    } while ((before & 1) || atomic_load_explicit(&e->sequence, memory_order_relaxed) != before);
    r->sequence = before;
}

/**
 * What was seen of the latest record before does not hold any more: the event is another one, or a
 * reset will undo the record. Locked, or not published yet. release: after what has changed, so
 * that a thread that reads the new value of sequence sees that, too.
 */
static inline void event_changed(struct event *e)
{
    uint64_t sequence = atomic_load_explicit(&e->sequence, memory_order_relaxed);

    atomic_store_explicit(&e->sequence, sequence + 2, memory_order_release);
}

/** Has a query seen the latest record complete? A query needs to look no further. */
static inline bool event_is_complete(const struct event *e)
{
    /* acquire: what the tasks before the record have done. And the later load comes second. */
    uint64_t complete = atomic_load_explicit(&e->complete, memory_order_acquire);

    return complete == atomic_load_explicit(&e->sequence, memory_order_relaxed);
}

/**
 * The caller has seen the record complete, of the event that it found by handle. It is not noted if
 * a reset may undo it, nor if the slot has another event by now, of which the caller may have read
 * something. The caller has read r->sequence before these two looks: what happens after them
 * changes sequence once more, and then the note is an old one.
 */
static inline void event_note_complete(struct event *e, const struct record *r, const void *handle)
{
    if (r->number != atomic_load_explicit(&e->reset_number, memory_order_relaxed) &&
        handle_names(handle, e))
        /* release: pairs with event_is_complete(). */
        atomic_store_explicit(&e->complete, r->sequence, memory_order_release);
}

/**
 * Locked: a reset of a default event was given to s. The latest record is undone when the stream
 * gets there, unless it is followed by another one before or after that. ACL error code.
 */
int event_reset_in(struct event *e, const struct stream *s, const char *function);

/**
 * 0, or the code of the failure for which the latest record of an event will never be executed,
 * with its sentence: its context has stopped before.
 */
static inline int event_stopped(const struct record *r, const char *function)
{
    if (__builtin_expect(point_passed(&r->point) ||
                             atomic_load_explicit(&r->point.ctrl->stopped, memory_order_acquire) ==
                                 0 ||
                             point_passed(&r->point),
                         1))
        return 0;
    return stream_error_stopped(r->point.ctrl, function);
}

/** The latest record, or none (number 0) if a reset has undone it and has taken effect. Locked. */
void event_record_locked(struct event *e, struct record *r);
/**
 * event_record_locked() for a default event that was reset, by a caller that does not hold the
 * lock.
 */
void event_record_slow(struct event *e, struct record *r) __attribute__((cold));

/**
 * The same for callers without the lock, which only a default event that was reset needs. Returns
 * whether the record's position has passed.
 *
 * `done` first, with acquire: an abort undoes the records that it discards before `done` passes
 * them, so a record that looks passed and is not undone has been executed.
 */
static inline bool event_record_now(struct event *e, struct record *r)
{
    bool passed;

    event_read_record(e, r);
    passed = point_passed(&r->point);
    if (__builtin_expect(r->number == 0 || r->number != atomic_load_explicit(&e->reset_number,
                                                                             memory_order_relaxed),
                         1))
        return passed;
    event_record_slow(e, r);
    return point_passed(&r->point);
}

/** The handle is of no event that is there: its code, with its sentence. */
int event_error_unknown(const char *function, const void *handle) __attribute__((cold));
struct event *event_find_slow(const char *function, const void *handle, int *error)
    __attribute__((cold));

/** The event that handle names, or NULL with *error set. */
static inline struct event *event_find(const char *function, void *handle, int *error)
{
    struct session *s = session_peek();
    struct event *e = s ? handle_get(&s->events, HANDLE_EVENT, handle) : NULL;

    *error = 0;
    if (__builtin_expect(e != NULL, 1))
        return e;
    return event_find_slow(function, handle, error);
}

/** May the event be used so? 0, or the documented error with its sentence. */
int event_check_use(struct event *e, const char *function, enum use_of_event use);

/** 107028 if it is part of a capture, with its sentence; else 0. */
static inline int event_check_captured(const struct event *e, const char *function)
{
    return capture_runs(e->session)
               ? capture_refuse_event(
                     e->session, atomic_load_explicit(&e->capture, memory_order_relaxed), function)
               : 0;
}

/**
 * Has it a level, which records raise and resets lower? Streams wait for the level, whatever was
 * recorded when; but for EVENT_EX_EXTERNAL, for whose level graphs alone wait: it is up when the
 * latest record is complete.
 */
static inline bool event_has_level(const struct event *e)
{
    return e->kind == EVENT_SYNC || e->kind == EVENT_EXTERNAL || e->kind == EVENT_EX_EXTERNAL;
}

static inline bool event_has_time(const struct event *e)
{
    return e->flags & ACL_EVENT_TIME_LINE;
}

/** Take the lock of an event found by handle. ACL_ERROR_RT_INVALID_HANDLE when it was destroyed
 * meanwhile. */
static inline int event_lock(struct event *e, const char *function, void *handle)
{
    biased_lock_take(&e->lock);
    if (__builtin_expect(handle_names(handle, e), 1))
        return 0;
    biased_lock_give(&e->lock);
    return event_error_unknown(function, handle);
}

static inline void event_unlock(struct event *e)
{
    biased_lock_give(&e->lock);
}

/**
 * A graph that has just been submitted to s records, or resets or waits for the event, of kind
 * EVENT_EXTERNAL, or one that no longer is. The stream is locked.
 */
void event_recorded_by_graph(aclrtEvent event, struct stream *s);
void event_used_by_graph(aclrtEvent event, struct stream *s, bool waits);
/** Before that: the record that was the latest counts no more. */
void event_lower_for_graph(aclrtEvent event, struct stream *s);
/**
 * Likewise: a checked process writes down that it will do so (CHECK_RECORD, RESET, WAIT).
 * before: of the graph's records of the event, how many come first.
 */
void event_note_by_graph(aclrtEvent event, struct stream *s, enum check_kind kind, uint64_t before)
    __attribute__((cold));

/** Locked: the task just submitted to s uses the event. */
void event_used(struct event *e, struct stream *s, unsigned how);

/**
 * Make a local event object of a kind, of a device and of one of its contexts, or of none. Caller
 * publishes it. NULL with *error set.
 */
struct event *event_new(struct session *s, struct context *c, uint32_t device, const char *function,
                        enum event_kind kind, uint32_t flags, int *error);
/** Give back an object that was never published. */
void event_abandon(struct event *e);

/*
 * For a process that is checked: the event was made, or opened by a handle; its latest record, with
 * this number, was seen complete (0: there is none, and `waited` for it: a mistake).
 */
void event_note_created(const struct event *e, bool imported) __attribute__((cold));
void event_note_seen(const struct event *e, uint64_t number, bool waited) __attribute__((cold));

/** The parts of the API for IPC events. The stream is locked and has room, the event is not locked.
 */
int ipc_event_record(struct event *e, struct stream *s, const char *function, void *handle);
int ipc_event_wait(struct event *e, struct stream *s, const char *function, void *handle,
                   uint64_t timeout_ns);
/** No locks. *complete of the latest record, or the error that it ended with. */
int ipc_event_query(struct event *e, const char *function, bool *complete);
int ipc_event_synchronize(struct event *e, const char *function, int32_t timeout);
int ipc_event_create(const char *function, void **handle);
/** The event is locked. */
int ipc_event_close(struct event *e, const char *function);
/** Give the address range back, at the end of the session. */
void ipc_event_unmap(struct event *e);

/**
 * Fences of the event's unfinished uses, for the request that destroys it; or *all, when they are
 * too many. Freed by the caller with event_fences_free().
 */
Npud__Fence **event_fences(struct event *e, size_t *n, protobuf_c_boolean *all);
void event_fences_free(Npud__Fence **fences);

/** Described in client/core/upcall.h, through which runtime calls it. */
void event_forget_records(struct session *s, const struct stream_ctrl *ctrl, uint64_t from,
                          uint64_t to);
