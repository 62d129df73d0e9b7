#include "client/buffers/transfer.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "acl/acl.h"
#include "acl/acl_npud.h"
#include "acl/acl_tdt_queue.h"
#include "client/check/checked.h"
#include "client/core/error.h"
#include "client/core/thread.h"
#include "client/core/wait.h"
#include "client/runtime/session.h"
#include "proto/util/clock.h"
#include "proto/util/futex.h"

#define ATTEMPTS 4096 /* without having slept, until the time is looked at */

/* The side of its ring that the transfer is on. */
static const struct ring_side *own_side(const struct transfer *t)
{
    return &t->ring->side[t->putting];
}

/* Has the ring been destroyed, or moved? */
static bool has_ended(const struct transfer *t)
{
    return atomic_load(&t->ring->view.news->state) != QUEUE_LIVE;
}

/* npud takes messages from here for a route: then programs do not. */
static bool is_taken_by_router(const struct transfer *t)
{
    return !t->putting && atomic_load(&own_side(t)->news->routed) != 0;
}

/* --- segments that a message needs --- */

/* The buffer is not the caller's any more: 107000. */
static int error_stale(const struct transfer *t)
{
    return error_set(ACL_ERROR_RT_PARAM_INVALID,
                     "%s: buf was freed or given away by another thread during the call",
                     t->function);
}

/* False: no memory. */
static bool note_map_allowed(struct ring *ring, uint32_t id, uint64_t number)
{
    _Atomic(struct allowed_chunk *) *where = &ring->allowed[id / ALLOWED_CHUNK];
    struct allowed_chunk *chunk = atomic_load_explicit(where, memory_order_acquire), *mine;

    if (!chunk) {
        mine = calloc(1, sizeof(*mine));
        if (!mine)
            return false;
        if (atomic_compare_exchange_strong(where, &chunk, mine))
            chunk = mine;
        else
            free(mine);
    }
    atomic_store_explicit(&chunk->number[id % ALLOWED_CHUNK], number, memory_order_release);
    return true;
}

/*
 * Map the segment of t->needed. 0: also when npud refuses, as the segment was never allowed or is
 * gone: then what we have seen is no message that we can take, and is noted as refused.
 */
static int map_needed(struct transfer *t)
{
    struct error_saved saved;
    int error;

    error_save(&saved);
    error = segment_need(t->function, t->session, t->needed);
    error_save_end(&saved);
    if (error == 0)
        return 0;
    if (error != ACL_ERROR_RT_NO_PERMISSION && error != ACL_ERROR_RT_PARAM_INVALID)
        return error_tell(&saved, error);
    /* A message needs two at most. More are needed only if a hostile peer changes the ring. */
    if (t->n_refused == sizeof(t->refused) / sizeof(t->refused[0])) {
        t->refused[0] = t->refused[1];
        t->n_refused--;
    }
    t->refused[t->n_refused++] = t->needed;
    return 0;
}

/* Tell npud that readers of the queue may map the segment of t->needed. 0, or an ACL error. */
static int allow_map_needed(struct transfer *t)
{
    REQUEST(allow_map, ALLOW_MAP, .number = t->ring->view.number, .segment = t->needed >> 16);
    const struct segment_view *view = segment_get(&segment_table, t->needed);
    struct error_saved saved;
    uint64_t number;
    int error;

    /* Another thread has freed the buffer, and npud has taken the segment back. */
    if (!view)
        return error_stale(t);
    number = view->number;
    error_save(&saved);
    error = session_command(t->session, t->function, &request);
    error_save_end(&saved);
    if (error != 0)
        return has_ended(t) ? 0 : error_tell(&saved, error);
    return note_map_allowed(t->ring, in.segment, number) ? 0 : error_no_memory(t->function);
}

/* --- waiting for room, or for a message --- */

void transfer_wake(const struct ring *ring, bool putting)
{
    const struct queue_view *v = &ring->view;

    if (putting) {
        queue_change(&v->put->wake);
        KILL_POINT(PUT_WAKE);
        futex_wake_one(&v->put->wake);
    } else {
        queue_change(&v->take->wake);
        KILL_POINT(TAKE_WAKE);
        futex_wake_one(&v->take->wake);
    }
}

void transfer_wake_stopped(struct queue *queue)
{
    struct ring_guard *guard = thread_guard();
    struct ring *ring;

    if (!guard)
        return;
    /*
     * Either the flag is seen by a thread that sleeps on a later ring than the one found here, or
     * this finds that ring.
     */
    atomic_thread_fence(memory_order_seq_cst);
    ring = queue_enter_ring(guard, queue);
    for (unsigned i = 0; ring && i < 2; i++) {
        const struct ring_side *side = &ring->side[i];

        /* The word is written by the other side: no more than npud has let this process have. */
        if (!(ring->rights & ring->side[!i].right))
            continue;
        queue_change(side->word);
        futex_wake_all(side->word);
    }
    queue_leave_ring(guard);
}

static const struct ring_side *other_side(const struct transfer *t)
{
    return &t->ring->side[!t->putting];
}

/*
 * Every process that could end our wait is gone, and none is still to come. Threads of this process
 * that have put or taken before still can end it. So can npud, if it works on the other side: it
 * takes for a route where we put, or puts where we take.
 */
static bool is_deserted(const struct transfer *t)
{
    const struct ring_side *other = other_side(t);
    const struct queue_party_news *news = other->news;
    uint32_t self = (t->ring->rights & other->right) != 0;

    if (__builtin_expect(atomic_load(&news->gone) == 0, 1))
        return false;
    return atomic_load(&news->n) <= self && atomic_load(&news->routed) == 0 &&
           (self == 0 || atomic_load(&t->queue->used[!t->putting]) != t->life);
}

static bool can_go_on(const struct transfer *t)
{
    const struct queue_view *v = &t->ring->view;
    uint64_t position, old;
    struct queue_front front;

    return t->putting ? queue_place(v, &position, &old) != QUEUE_FULL
                      : queue_front(v, &front) != QUEUE_EMPTY;
}

static bool is_stopped(const struct transfer *t)
{
    return t->stopped && atomic_load(t->stopped);
}

struct nap {
    struct transfer *t;
    bool armed;
    uint32_t generation;
};

/* Armed once, and again when npud has forgotten all waiters because one of them has died. */
static bool is_nap_over(void *arg, uint64_t target)
{
    struct nap *n = arg;
    const struct ring_side *side = own_side(n->t);
    uint32_t seen;

    (void)target;
    if (!n->armed || (uint32_t)(atomic_load(side->waiting) >> 32) != n->generation) {
        /* What counts is what wait_queue() saw, before this. */
        n->generation = queue_arm(side->waiting, side->word, &seen);
        n->armed = true;
    }
    return can_go_on(n->t) || has_ended(n->t) || is_deserted(n->t) || is_taken_by_router(n->t) ||
           is_stopped(n->t) ||
           atomic_load(&n->t->session->idle); /* then npud has to hear that it is not */
}

static void say_full(char *text, size_t size, const char *function, uint32_t id, uint32_t depth)
{
    snprintf(text, size, "%s: queue %u is full: it holds %u messages", function, id, depth);
}

static void say_empty(char *text, size_t size, const char *function, uint32_t id, uint32_t depth)
{
    (void)depth;
    snprintf(text, size, "%s: queue %u is empty", function, id);
}

int transfer_error_empty(const char *function, uint32_t id)
{
    return error_defer(ACL_ERROR_RT_QUEUE_EMPTY, say_empty, function, id, 0);
}

/* What a transfer waits for, on the side that it is on. */
static const struct want {
    uint32_t kind; /* of the sleep */
    const char *state, *needs;
} wants[] = {
    [false] = {WAIT_MESSAGE, "empty", "enqueue"},
    [true] = {WAIT_ROOM, "full", "dequeue"},
};

/* 507014 or 507013: the queue is still full, or empty. */
static int error_time_up(const struct transfer *t)
{
    if (!t->putting)
        return transfer_error_empty(t->function, t->queue->id);
    return error_defer(ACL_ERROR_RT_QUEUE_FULL, say_full, t->function, t->queue->id,
                       t->ring->view.depth);
}

static int error_deserted(const struct transfer *t)
{
    return error_set(ACL_ERROR_RT_DRV_INTERNAL_ERROR,
                     "%s: queue %u is %s, and no process is left that could %s: process %d, the "
                     "last one, has died, finalized or lost the right",
                     t->function, t->queue->id, wants[t->putting].state, wants[t->putting].needs,
                     (int)atomic_load(&other_side(t)->news->pid));
}

static int error_stopped(const struct transfer *t)
{
    return error_set(
        ACL_ERROR_FAILURE,
        "%s: queue %u is %s, and the channel was stopped: no call on this handle waits "
        "any more (acltdtStopChannel)",
        t->function, t->queue->id, wants[t->putting].state);
}

/* Sleep until there may be something to do: 0, or what the call returns. */
static int sleep_for_other_side(struct transfer *t)
{
    const struct ring_side *side = own_side(t);
    struct nap nap = {.t = t};
    int r;

    session_use_again(t->session);
    if (is_deserted(t) && !can_go_on(t) && !has_ended(t))
        return error_deserted(t);
    if (is_stopped(t) && !can_go_on(t) && !has_ended(t))
        return error_stopped(t);
    t->slept = true;
    r = wait_queue(&t->session->waits, t->function, wants[t->putting].kind, t->ring->view.number,
                   side->word, is_nap_over, &nap, t->deadline);
    queue_disarm(side->waiting, nap.generation);
    KILL_POINT(QUEUE_DISARMED);
    if (r == -EINTR)
        return ACLNPUD_ERROR_INTERRUPTED;
    return r == 0 ? 0 : r == -EPIPE ? session_error_lost(t->function) : error_time_up(t);
}

/* The wake-up of what the transfer leaves there may have been its alone: wake the next one. */
static void pass_wake_on(const struct transfer *t)
{
    /*
     * The word need not change: a thread that is not asleep yet has either read it before it
     * changed for that wake-up, or has looked at the ring since.
     */
    if (t->slept)
        futex_wake_one(own_side(t)->word);
}

void transfer_give_up(struct transfer *t)
{
    struct ring_guard *guard = t->slept ? thread_guard() : NULL;

    if (!guard)
        return;
    /* A ring that has ended meanwhile has woken all. */
    t->ring = queue_enter_ring(guard, t->queue);
    if (t->ring && t->ring->life == t->life)
        pass_wake_on(t);
    t->ring = NULL;
    queue_leave_ring(guard);
}

/* --- attempts --- */

/* Of an attempt. */
enum outcome {
    DONE,
    AGAIN,     /* nothing to do first */
    WAIT,      /* full, or empty */
    ENDED,     /* the ring has: destroyed or moved */
    MAP,       /* segment of `needed` first */
    ALLOW_MAP, /* npud must be told first that readers of the ring may map segment of `needed` */
    REFUSED,   /* `error` is what the call returns */
};

static bool is_refused(const struct transfer *t, uint32_t ref)
{
    for (uint32_t i = 0; i < t->n_refused; i++)
        if (t->refused[i] == ref)
            return true;
    return false;
}

/* Is there nothing more to be done about the segment of ref? */
static inline __attribute__((always_inline)) bool is_known(struct transfer *t, uint32_t ref)
{
    if (__builtin_expect(segment_get(&segment_table, ref) || is_refused(t, ref), 1))
        return true;
    t->needed = ref;
    return false;
}

static enum outcome refuse_transfer(struct transfer *t, int error)
{
    t->error = error;
    return REFUSED;
}

/* --- the loop --- */

static __attribute__((cold)) int error_right(const struct transfer *t)
{
    return error_set(ACL_ERROR_RT_NO_PERMISSION,
                     "%s: this process has not been granted the right to %s queue %u", t->function,
                     t->putting ? "put into" : "take from", t->queue->id);
}

/* The queue has no ring, or one of another life. */
static __attribute__((cold)) int error_no_ring(const struct transfer *t, const struct ring *ring)
{
    if (!ring && t->life == 0)
        return queue_error_unknown(t->function, t->queue->id);
    return !ring && atomic_load(&t->queue->lost_right)
               ? error_right(t)
               : queue_error_destroyed(t->function, t->queue->id);
}

/* Is this, which is guarded, the ring to try? Or why not. */
static enum outcome choose_ring(struct transfer *t, struct ring *ring)
{
    t->ring = ring;
    if (__builtin_expect(!ring || (t->life != 0 && t->life != ring->life), 0)) {
        t->ring = NULL;
        return refuse_transfer(t, error_no_ring(t, ring));
    }
    t->life = ring->life;
    if (__builtin_expect(has_ended(t), 0))
        return ENDED;
    return __builtin_expect(ring->rights & (t->putting ? QUEUE_PUT : QUEUE_TAKE), 1)
               ? DONE
               : refuse_transfer(t, error_right(t));
}

/*
 * Lost races are rare; thousands in a row mean a hostile peer. Retries are bounded by the caller's
 * deadline.
 */
static bool is_out_of_time(struct transfer *t)
{
    return ++t->attempts % ATTEMPTS == 0 && t->deadline != WAIT_FOREVER &&
           clock_ns() >= t->deadline;
}

/* What an attempt that was not DONE asks for. 0: try again. */
static int do_what_is_needed(struct transfer *t, enum outcome outcome)
{
    switch (outcome) {
    case WAIT:
        return sleep_for_other_side(t);
    case ENDED:
        return queue_follow(t->session, t->function, t->queue, t->ring);
    case MAP:
        return map_needed(t);
    case ALLOW_MAP:
        return allow_map_needed(t);
    case REFUSED:
        return t->error;
    default:
        return 0;
    }
}

typedef enum outcome attempt_fn(struct transfer *t);

/*
 * One attempt. What it calls for is done with a use of the ring; a caller that does not wait for
 * a full or empty queue gets its answer at once. Inlined, as run_attempts() is, so that the
 * attempts are.
 */
static inline __attribute__((always_inline)) enum outcome attempt_once(struct transfer *t,
                                                                       attempt_fn *attempt)
{
    struct ring_guard *guard = thread_guard();
    enum outcome outcome;
    bool bell;

    if (__builtin_expect(!guard, 0)) {
        t->ring = NULL;
        return refuse_transfer(t, error_no_memory(t->function));
    }
    t->woken = 0;
    outcome = choose_ring(t, queue_enter_ring(guard, t->queue));
    if (__builtin_expect(outcome == DONE, 1))
        outcome = attempt(t);
    if (t->woken & ~QUEUE_ROUTER)
        transfer_wake(t->ring, t->putting);
    if (outcome == WAIT && t->deadline == 0) {
        outcome = refuse_transfer(t, error_time_up(t));
        t->ring = NULL;
    }
    bell = t->ring && (t->woken & QUEUE_ROUTER);
    if (__builtin_expect(bell || (outcome != DONE && t->ring), 0))
        queue_use_ring(t->ring);
    queue_leave_ring(guard);
    if (__builtin_expect(bell, 0)) {
        queue_bell_ring(t->session, &t->ring->bell, t->ring->view.number);
        if (outcome == DONE)
            queue_drop_ring(t->ring);
    }
    return outcome;
}

static inline __attribute__((always_inline)) int run_attempts(struct transfer *t,
                                                              attempt_fn *attempt)
{
    for (;;) {
        enum outcome outcome = attempt_once(t, attempt);
        int error;

        if (__builtin_expect(outcome == DONE, 1))
            return 0;
        error = do_what_is_needed(t, outcome);
        if (error == 0 && t->ring && is_out_of_time(t))
            error = error_time_up(t);
        if (error != 0 && t->ring)
            pass_wake_on(t);
        if (t->ring)
            queue_drop_ring(t->ring);
        if (error != 0)
            return error;
    }
}

int transfer_begin(struct transfer *t, const char *function, uint32_t id, int32_t timeout,
                   bool putting, struct mbuf_ref *buffer)
{
    t->function = function;
    /* Errors go to *t: the address of a local variable would cost each call a stack guard. */
    t->session = session_get(function, &t->error);
    if (__builtin_expect(!t->session, 0))
        return ERROR_NOT_ZERO(t->error);
    t->queue = queue_find(t->session, function, id, &t->error);
    if (__builtin_expect(!t->queue, 0))
        return ERROR_NOT_ZERO(t->error);
    t->buffer = buffer;
    t->deadline = timeout == 0 ? 0 : wait_deadline(timeout);
    t->begun_ns = trace_begin(&t->session->trace);
    t->putting = putting;
    t->stopped = NULL;
    t->slept = false;
    t->lost = false;
    t->attempts = 0;
    t->ring = NULL;
    t->life = 0;
    t->position = 0;
    t->number = 0;
    t->n_refused = 0;
    return 0;
}

/* What was put is the program's no more; what was taken is. */
static __attribute__((cold, noinline)) void note_checked(const struct transfer *t, uint32_t ref)
{
    if (!t->putting)
        checked_handover(CHECK_TAKE, t->ring->view.number, ref);
    checked_object(t->putting ? CHECK_OBJECT_GONE : CHECK_OBJECT, CHECK_OBJECT_BUFFER, ref);
}

static inline void note_handover(const struct transfer *t, uint32_t ref)
{
    if (__builtin_expect(t->begun_ns != 0, 0))
        trace_handover(&t->session->trace, t->putting ? TRACE_ENQUEUE : TRACE_DEQUEUE, t->begun_ns,
                       t->ring->view.number, ref);
    if (checked_runs())
        note_checked(t, ref);
}

/* What an attempt to put that was not QUEUE_OK asks for. */
static enum outcome explain_result(struct transfer *t, enum queue_result r)
{
    switch (r) {
    case QUEUE_FULL:
        return WAIT;
    case QUEUE_ENDED:
        return ENDED;
    case QUEUE_STALE:
        return refuse_transfer(t, error_stale(t));
    default:
        return refuse_transfer(t, queue_error_damaged(t->function, t->queue->id));
    }
}

/* --- putting --- */

/* A ref into each of the segments of the chain. */
static void list_segments(struct transfer *t)
{
    struct mbuf_ref at = *t->buffer;
    uint32_t n = 0;

    t->n_refs = 1;
    t->refs[0] = at.ref;
    if (atomic_load_explicit(&at.mbuf->count, memory_order_relaxed) <= 1)
        return;
    while (mbuf_next(t->buffer->ref, &at, &n))
        if (at.ref >> 16 != t->refs[t->n_refs - 1] >> 16)
            t->refs[t->n_refs++] = at.ref;
}

static enum outcome put_message(struct transfer *t)
{
    const struct queue_view *v = &t->ring->view;
    const struct mbuf_ref *b = t->buffer;
    enum queue_result r;

    if (__builtin_expect(t->slept, 0) && !mbuf_still_there(t->buffer))
        return refuse_transfer(t, error_stale(t));
    for (uint32_t i = 0; i < t->n_refs; i++)
        if (__builtin_expect(!transfer_is_map_allowed(t->ring, t->refs[i]), 0)) {
            t->needed = t->refs[i];
            return ALLOW_MAP;
        }
    /* Before another process can take it; if there is no room, once more with the next attempt. */
    if (checked_runs())
        checked_handover(CHECK_PUT, v->number, b->ref);
    r = queue_enqueue(v, b->mbuf, b->ref, b->word, t->session->peer_id);
    if (__builtin_expect(r != QUEUE_OK, 0))
        return explain_result(t, r);
    t->woken = queue_waiting(&v->take->waiting);
    transfer_note_life(&t->queue->used[true], t->life);
    note_handover(t, b->ref);
    return DONE;
}

/* Whether there is room, before anything is copied. */
static enum outcome find_room(struct transfer *t)
{
    uint64_t position, old;
    enum queue_result r = queue_place(&t->ring->view, &position, &old);

    return r == QUEUE_OK ? DONE : explain_result(t, r);
}

int transfer_room(struct transfer *t)
{
    return run_attempts(t, find_room);
}

int transfer_put(struct transfer *t)
{
    list_segments(t);
    return run_attempts(t, put_message);
}

/* --- taking --- */

/*
 * Are all segments of the message known, as far as can be? No session changes a chain that is in
 * the ring; if this one is not any more, taking it fails.
 */
static bool is_chain_known(struct transfer *t, uint32_t head)
{
    struct mbuf_ref at;
    uint32_t n = 0, next;

    if (!is_known(t, head))
        return false;
    if (!mbuf_find(head, &at) || atomic_load_explicit(&at.mbuf->count, memory_order_relaxed) <= 1)
        return true;
    do {
        next = atomic_load_explicit(&at.mbuf->next, memory_order_relaxed);
        if (next != 0 && !is_known(t, next))
            return false;
    } while (mbuf_next(head, &at, &n));
    return true;
}

/*
 * Commit the message before, if its taker was killed or stopped before it could, and see that this
 * one can be taken. False: MAP.
 */
static bool is_message_known(struct transfer *t, const struct queue_front *front)
{
    const struct queue_view *v = &t->ring->view;
    uint32_t before;

    /*
     * A refusal holds for this message only. Positions of a new ring begin at 0 again, and a right
     * that was lost has ended the ring.
     */
    if (queue_head_position(front->head) != t->position || v->number != t->number) {
        t->position = queue_head_position(front->head);
        t->number = v->number;
        t->n_refused = 0;
    }
    if (__builtin_expect(queue_find_uncommitted(v, front->head, &before), 0)) {
        if (before != 0 && !is_known(t, before))
            return false;
        queue_commit(v, front->head, &segment_table);
    }
    return is_chain_known(t, front->ref);
}

static enum outcome take_message(struct transfer *t)
{
    const struct queue_view *v = &t->ring->view;
    struct queue_front front;
    enum queue_result r;
    struct mbuf *m;
    uint64_t held;

    if (__builtin_expect(is_taken_by_router(t), 0))
        return refuse_transfer(
            t, error_set(ACL_ERROR_RT_DRV_INTERNAL_ERROR,
                         "%s: queue %u is the source of a route: its messages go to the "
                         "destinations (acltdtUnbindQueueRoutes ends that)",
                         t->function, t->queue->id));
    r = queue_front(v, &front);
    if (r != QUEUE_OK)
        return r == QUEUE_EMPTY ? WAIT : ENDED;
    if (__builtin_expect(!is_message_known(t, &front), 0))
        return MAP;
    m = mbuf_at(&segment_table, front.ref);
    r = queue_dequeue(v, &front, m, t->session->peer_id, &segment_table, &held);
    if (r == QUEUE_EMPTY)
        return AGAIN;
    t->woken = queue_waiting(&v->put->waiting);
    transfer_note_life(&t->queue->used[false], t->life);
    if (__builtin_expect(r != QUEUE_OK || !mbuf_find(front.ref, t->buffer), 0))
        return AGAIN;
    note_handover(t, front.ref);
    t->buffer->word = held;
    return DONE;
}

/*
 * The members get a new generation, as the head has: handles of them from before
 * are dead. 0, or the ACL error when members are missing: then the message is gone.
 */
static int own_chain(struct transfer *t)
{
    struct mbuf_ref *head = t->buffer, at = *head;
    uint32_t count = atomic_load_explicit(&head->mbuf->count, memory_order_relaxed), n = 0;

    if (__builtin_expect(count == 1, 1))
        return 0;
    while (mbuf_next(head->ref, &at, &n))
        atomic_store_explicit(&at.mbuf->word,
                              mbuf_word_member(mbuf_generation(at.word) + 1, head->ref),
                              memory_order_release);
    if (n + 1 == count)
        return 0;
    mbuf_free(t->session, head);
    t->lost = true;
    return error_set(
        ACL_ERROR_RT_RESOURCE_ALLOC_FAIL,
        "%s: queue %u: a message was damaged by a process that it was shared with, and "
        "is lost: %u of its %u buffers were found",
        t->function, t->queue->id, n + 1, count);
}

int transfer_take(struct transfer *t)
{
    int error = run_attempts(t, take_message);

    return __builtin_expect(error == 0, 1) ? own_chain(t) : error;
}
