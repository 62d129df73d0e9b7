#include "client/buffers/transfer.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "acl/acl.h"
#include "acl/acl_npud.h"
#include "acl/acl_tdt_queue.h"
#include "client/core/error.h"
#include "client/runtime/session.h"
#include "client/core/thread.h"
#include "client/core/wait.h"
#include "proto/util/clock.h"
#include "proto/util/futex.h"

#define ATTEMPTS 4096 /* without having slept, until the time is looked at */

/* Of an attempt. */
enum outcome {
    DONE,
    AGAIN,   /* nothing to do first */
    WAIT,    /* full, or empty */
    ENDED,   /* the ring has: destroyed or moved */
    MAP,     /* segment of `needed` first */
    FEED,    /* npud must be told first that segment of `needed` feeds the ring */
    REFUSED, /* `error` is what the call returns */
};

/* --- waking who sleeps --- */

/*
 * One is enough: each message, and each place that becomes free, wakes one. Who leaves without it
 * wakes the next (pass_on()).
 */
static void wake(const struct transfer *t)
{
    const struct queue_view *v = &t->ring->view;

    if (t->putting) {
        queue_change(&v->put->wake);
        KILL_POINT(PUT_WAKE);
        futex_wake_one(&v->put->wake);
    } else {
        queue_change(&v->take->wake);
        KILL_POINT(TAKE_WAKE);
        futex_wake_one(&v->take->wake);
    }
}

/* --- sleeping --- */

static struct queue_news *news_of(const struct transfer *t)
{
    return t->putting ? &t->ring->view.put->news : &t->ring->view.take->news;
}

static bool ended(const struct transfer *t)
{
    return atomic_load(&news_of(t)->state) != QUEUE_LIVE;
}

/* npud works on the other side: it takes for a route where we put, or puts where we take. */
static bool served_by_router(const struct transfer *t)
{
    const struct queue_view *v = &t->ring->view;

    return atomic_load(t->putting ? &v->take->news.routed : &v->put->news.routed) != 0;
}

/*
 * Whoever could end our wait is gone, and so is everybody who ever could: threads of this process
 * that have done so before still can.
 */
static bool deserted(const struct transfer *t)
{
    struct queue_news *news = news_of(t);
    uint32_t self = (t->ring->rights & (t->putting ? QUEUE_TAKE : QUEUE_PUT)) != 0;
    bool serves_itself =
        atomic_load(t->putting ? &t->queue->has_taken : &t->queue->has_put) == t->life && self != 0;

    return atomic_load(&news->gone) != 0 && atomic_load(&news->others) <= self && !serves_itself &&
           !served_by_router(t);
}

/* npud takes from here for a route: that is no place for programs. */
static bool taken_by_router(const struct transfer *t)
{
    return !t->putting && atomic_load(&t->ring->view.take->news.routed) != 0;
}

static bool could_go_on(const struct transfer *t)
{
    const struct queue_view *v = &t->ring->view;
    uint64_t position, old;
    struct queue_front front;

    return t->putting ? queue_place(v, &position, &old) != QUEUE_FULL
                      : queue_front(v, &front) != QUEUE_EMPTY;
}

struct nap {
    struct transfer *t;
    bool armed;
    uint32_t generation;
};

static _Atomic uint64_t *waiting_of(const struct transfer *t)
{
    return t->putting ? &t->ring->view.put->waiting : &t->ring->view.take->waiting;
}

/* What the other side changes to wake us. */
static _Atomic uint32_t *word_of(const struct transfer *t)
{
    return t->putting ? &t->ring->view.take->wake : &t->ring->view.put->wake;
}

/* Armed once, and again when npud has forgotten all who wait because one of them has died. */
static bool nap_over(void *arg, uint64_t target)
{
    struct nap *n = arg;
    _Atomic uint64_t *waiting = waiting_of(n->t);
    uint32_t seen;

    (void)target;
    if (!n->armed || (uint32_t)(atomic_load(waiting) >> 32) != n->generation) {
        /* What counts is what wait_queue() saw, before this. */
        n->generation = queue_arm(waiting, word_of(n->t), &seen);
        n->armed = true;
    }
    return could_go_on(n->t) || ended(n->t) || deserted(n->t) || taken_by_router(n->t);
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

static int error_time_up(const struct transfer *t)
{
    return error_defer(t->putting ? ACL_ERROR_RT_QUEUE_FULL : ACL_ERROR_RT_QUEUE_EMPTY,
                       t->putting ? say_full : say_empty, t->function, t->queue->id,
                       t->ring->view.depth);
}

static int error_deserted(const struct transfer *t)
{
    if (!queue_still_served(t->session))
        return session_error_lost(t->function);
    return error_set(
        ACL_ERROR_RT_DRV_INTERNAL_ERROR,
        "%s: queue %u is %s, and nobody is left who could %s: process %d, the last one, "
        "has died or lost the right",
        t->function, t->queue->id, t->putting ? "full" : "empty",
        t->putting ? "dequeue" : "enqueue", (int)atomic_load(&news_of(t)->pid));
}

/* Sleep until there may be something to do: 0, or what the call returns. */
static int sleep_a_while(struct transfer *t)
{
    const struct queue_view *v = &t->ring->view;
    struct nap nap = {.t = t};
    int r;

    if (deserted(t) && !could_go_on(t) && !ended(t))
        return error_deserted(t);
    t->slept = true;
    r = wait_queue(&t->session->waits, t->function, t->putting ? WAIT_ROOM : WAIT_MESSAGE,
                   v->number, word_of(t), nap_over, &nap, t->deadline);
    queue_disarm(waiting_of(t), nap.generation);
    KILL_POINT(QUEUE_DISARMED);
    if (r == -EINTR)
        return ACLNPUD_ERROR_INTERRUPTED;
    return r == 0 ? 0 : r == -EPIPE ? session_error_lost(t->function) : error_time_up(t);
}

/*
 * The wake-up of what we leave there may have been ours alone. The word need not change: who is not
 * asleep yet has either read it before it changed for that, or has looked since.
 */
static void pass_on(const struct transfer *t)
{
    if (t->slept)
        futex_wake_one(word_of(t));
}

void transfer_give_up(struct transfer *t)
{
    struct ring_guard *guard = t->slept ? thread_guard() : NULL;

    if (!guard)
        return;
    /* A ring that has ended meanwhile has woken all. */
    t->ring = ring_enter(guard, t->queue);
    if (t->ring && t->ring->life == t->life)
        pass_on(t);
    t->ring = NULL;
    ring_leave(guard);
}

/* --- segments --- */

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
    if (__builtin_expect(segment_get(segments(), ref) || is_refused(t, ref), 1))
        return true;
    t->needed = ref;
    return false;
}

/*
 * npud may refuse what was never fed, or is gone: then what we have seen is no message that we can
 * take.
 */
static int map_needed(struct transfer *t)
{
    int error;

    error_mute(true);
    error = segment_need(t->function, t->session, t->needed);
    error_mute(false);
    if (error == 0)
        return 0;
    if (error != ACL_ERROR_RT_NO_PERMISSION && error != ACL_ERROR_RT_PARAM_INVALID)
        return segment_need(t->function, t->session, t->needed);
    /* A message needs two at most. More are needed only if somebody changes what is in the ring. */
    if (t->n_refused == sizeof(t->refused) / sizeof(t->refused[0])) {
        t->refused[0] = t->refused[1];
        t->n_refused--;
    }
    t->refused[t->n_refused++] = t->needed;
    return 0;
}

static bool is_fed(const struct ring *ring, uint32_t ref)
{
    const struct segment_view *v = segment_get(segments(), ref);
    uint32_t id = ref >> 16;
    struct fed_chunk *chunk =
        atomic_load_explicit(&ring->fed[id / FED_CHUNK], memory_order_acquire);

    return v && chunk &&
           atomic_load_explicit(&chunk->number[id % FED_CHUNK], memory_order_acquire) == v->number;
}

/* False: no memory. */
static bool note_fed(struct ring *ring, uint32_t id, uint64_t number)
{
    _Atomic(struct fed_chunk *) *where = &ring->fed[id / FED_CHUNK];
    struct fed_chunk *chunk = atomic_load_explicit(where, memory_order_acquire), *mine;

    if (!chunk) {
        mine = calloc(1, sizeof(*mine));
        if (!mine)
            return false;
        if (atomic_compare_exchange_strong(where, &chunk, mine))
            chunk = mine;
        else
            free(mine);
    }
    atomic_store_explicit(&chunk->number[id % FED_CHUNK], number, memory_order_release);
    return true;
}

static enum outcome refuse_stale(struct transfer *t)
{
    t->error =
        error_set(ACL_ERROR_RT_PARAM_INVALID,
                  "%s: buf was freed or given away by another thread during the call", t->function);
    return REFUSED;
}

static int error_memory(const struct transfer *t)
{
    return error_set(ACL_ERROR_RT_MEMORY_ALLOCATION, "%s: out of memory", t->function);
}

static int feed_needed(struct transfer *t)
{
    Npud__Request request = NPUD__REQUEST__INIT;
    Npud__FeedQueue in = NPUD__FEED_QUEUE__INIT;
    uint32_t id = t->needed >> 16;
    const struct segment_view *view = segment_get(segments(), t->needed);
    uint64_t number = view ? view->number : 0;
    int error;

    /* The caller has a buffer of it: that it is gone is what somebody has written there. */
    if (!view) {
        refuse_stale(t);
        return t->error;
    }
    in.number = t->ring->view.number;
    in.segment = id;
    request.feed_queue = &in;
    request.body_case = NPUD__REQUEST__BODY_FEED_QUEUE;
    error_mute(true);
    error = session_command(t->session, t->function, &request);
    error_mute(false);
    if (error != 0 && ended(t))
        return 0;
    if (error != 0)
        return session_command(t->session, t->function, &request);
    return note_fed(t->ring, id, number) ? 0 : error_memory(t);
}

/* --- the loop --- */

static enum outcome refuse_right(struct transfer *t)
{
    t->error = error_set(ACL_ERROR_RT_NO_PERMISSION,
                         "%s: this process has not been granted the right to %s queue %u",
                         t->function, t->putting ? "put into" : "take from", t->queue->id);
    return REFUSED;
}

static enum outcome refuse_destroyed(struct transfer *t)
{
    t->error = error_set(ACL_ERROR_RT_DRV_INTERNAL_ERROR, "%s: queue %u has been destroyed",
                         t->function, t->queue->id);
    return REFUSED;
}

/* The queue has no ring. */
static enum outcome refuse_unknown(struct transfer *t)
{
    if (t->life == 0) {
        t->error = queue_error_unknown(t->function, t->queue->id);
        return REFUSED;
    }
    return atomic_load(&t->queue->lost_right) ? refuse_right(t) : refuse_destroyed(t);
}

/* Is this, which is guarded, the ring to try? Or why not. */
static enum outcome look(struct transfer *t, struct ring *ring)
{
    t->ring = ring;
    if (__builtin_expect(!ring || (t->life != 0 && t->life != ring->life), 0)) {
        t->ring = NULL;
        return ring ? refuse_destroyed(t) : refuse_unknown(t);
    }
    t->life = ring->life;
    if (__builtin_expect(ended(t), 0))
        return ENDED;
    return __builtin_expect(ring->rights & (t->putting ? QUEUE_PUT : QUEUE_TAKE), 1)
               ? DONE
               : refuse_right(t);
}

/*
 * Others may be faster a few times. Thousands of times means that one of them plays with the ring,
 * and that must not cost more than the time asked for.
 */
static bool out_of_time(struct transfer *t)
{
    return ++t->attempts % ATTEMPTS == 0 && t->deadline != WAIT_FOREVER &&
           clock_ns() >= t->deadline;
}

/* What an attempt that was not DONE asks for. 0: try again. */
static int prepare(struct transfer *t, enum outcome outcome)
{
    switch (outcome) {
    case WAIT:
        return sleep_a_while(t);
    case ENDED:
        return queue_follow(t->session, t->function, t->queue, t->ring);
    case MAP:
        return map_needed(t);
    case FEED:
        return feed_needed(t);
    case REFUSED:
        return t->error;
    default:
        return 0;
    }
}

typedef enum outcome attempt_fn(struct transfer *t);

/*
 * One attempt. What it calls for is done with a use of the ring; a caller who does not wait for
 * what is full or empty gets his answer at once. Inlined, as run() is, so that the attempts are.
 */
static inline __attribute__((always_inline)) enum outcome try(struct transfer *t,
                                                              attempt_fn *attempt)
{
    struct ring_guard *guard = thread_guard();
    enum outcome outcome;
    bool bell;

    if (__builtin_expect(!guard, 0)) {
        t->ring = NULL;
        t->error = error_memory(t);
        return REFUSED;
    }
    t->woken = 0;
    outcome = look(t, ring_enter(guard, t->queue));
    if (__builtin_expect(outcome == DONE, 1))
        outcome = attempt(t);
    if (t->woken & ~QUEUE_ROUTER)
        wake(t);
    if (outcome == WAIT && t->deadline == 0) {
        t->error = error_time_up(t);
        t->ring = NULL;
        outcome = REFUSED;
    }
    bell = t->ring && (t->woken & QUEUE_ROUTER);
    if (__builtin_expect(bell || (outcome != DONE && t->ring), 0))
        ring_use(t->ring);
    ring_leave(guard);
    if (__builtin_expect(bell, 0)) {
        queue_bell_ring(t->session, &t->ring->bell, t->ring->view.number);
        if (outcome == DONE)
            ring_drop(t->ring);
    }
    return outcome;
}

static inline __attribute__((always_inline)) int run(struct transfer *t, attempt_fn *attempt)
{
    for (;;) {
        enum outcome outcome = try(t, attempt);
        int error;

        if (__builtin_expect(outcome == DONE, 1))
            return 0;
        error = prepare(t, outcome);
        if (error == 0 && t->ring && out_of_time(t))
            error = error_time_up(t);
        if (error != 0 && t->ring)
            pass_on(t);
        if (t->ring)
            ring_drop(t->ring);
        if (error != 0)
            return error;
    }
}

bool transfer_begin(struct transfer *t, const char *function, uint32_t id, int32_t timeout,
                    bool putting, struct mbuf_ref *buffer, int *error)
{
    t->function = function;
    t->session = session_get(function, error);
    if (!t->session)
        return false;
    t->queue = queue_find(t->session, function, id, error);
    if (!t->queue)
        return false;
    t->buffer = buffer;
    t->deadline = timeout == 0 ? 0 : wait_deadline(timeout);
    t->putting = putting;
    t->slept = false;
    t->attempts = 0;
    t->ring = NULL;
    t->life = 0;
    t->position = 0;
    t->number = 0;
    t->n_refused = 0;
    return true;
}

/* In this life of the queue threads of this process do that. */
static void note(_Atomic uint64_t *last, uint64_t life)
{
    if (__builtin_expect(atomic_load_explicit(last, memory_order_relaxed) != life, 0))
        atomic_store(last, life);
}

static enum outcome refuse_damaged(struct transfer *t)
{
    t->error = error_set(ACL_ERROR_RT_DRV_INTERNAL_ERROR,
                         "%s: queue %u is damaged: a process with a right to it has written there",
                         t->function, t->queue->id);
    return REFUSED;
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

static enum outcome put(struct transfer *t)
{
    const struct queue_view *v = &t->ring->view;
    const struct mbuf_ref *b = t->buffer;

    if (__builtin_expect(t->slept, 0) && !mbuf_still_there(t->buffer))
        return refuse_stale(t);
    for (uint32_t i = 0; i < t->n_refs; i++)
        if (__builtin_expect(!is_fed(t->ring, t->refs[i]), 0)) {
            t->needed = t->refs[i];
            return FEED;
        }
    switch (queue_enqueue(v, b->mbuf, b->ref, b->word, t->session->peer_id)) {
    case QUEUE_OK:
        t->woken = queue_waiting(&v->take->waiting);
        note(&t->queue->has_put, t->life);
        return DONE;
    case QUEUE_FULL:
        return WAIT;
    case QUEUE_ENDED:
        return ENDED;
    case QUEUE_STALE:
        return refuse_stale(t);
    default:
        return refuse_damaged(t);
    }
}

/* Whether there is room, before anything is copied. */
static enum outcome find_room(struct transfer *t)
{
    uint64_t position, old;

    switch (queue_place(&t->ring->view, &position, &old)) {
    case QUEUE_OK:
        return DONE;
    case QUEUE_FULL:
        return WAIT;
    case QUEUE_ENDED:
        return ENDED;
    default:
        return refuse_damaged(t);
    }
}

int transfer_room(struct transfer *t)
{
    return run(t, find_room);
}

int transfer_put(struct transfer *t)
{
    list_segments(t);
    return run(t, put);
}

aclError acltdtEnqueue(uint32_t qid, acltdtBuf buf, int32_t timeout)
{
    CALL_SCOPE;
    struct mbuf_ref buffer;
    struct transfer t;
    int error;

    REQUIRE(buf);
    if (!transfer_begin(&t, __func__, qid, timeout, true, &buffer, &error))
        return error;
    error = mbuf_check_head(__func__, t.session, buf, &buffer);
    if (__builtin_expect(error != 0, 0))
        return error;
    return transfer_put(&t);
}

/* --- taking --- */

static enum outcome refuse_source(struct transfer *t)
{
    t->error = error_set(ACL_ERROR_RT_DRV_INTERNAL_ERROR,
                         "%s: queue %u is the source of a route: its messages go to the "
                         "destinations (acltdtUnbindQueueRoutes ends that)",
                         t->function, t->queue->id);
    return REFUSED;
}

/*
 * Are all segments of the message known, as far as can be? Nobody changes a chain that is in the
 * ring; if this one is not any more, taking it fails.
 */
static bool chain_known(struct transfer *t, uint32_t head)
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
 * Settle the message before, if another was killed or stopped before he could, and see that this
 * one can be taken. False: MAP.
 */
static bool message_known(struct transfer *t, const struct queue_front *front)
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
    if (__builtin_expect(queue_unsettled(v, front->head, &before), 0)) {
        if (before != 0 && !is_known(t, before))
            return false;
        queue_settle(v, front->head, segments());
    }
    return chain_known(t, front->ref);
}

static enum outcome take(struct transfer *t)
{
    const struct queue_view *v = &t->ring->view;
    struct queue_front front;
    enum queue_result r;
    struct mbuf *m;
    uint64_t held;

    if (__builtin_expect(taken_by_router(t), 0))
        return refuse_source(t);
    r = queue_front(v, &front);
    if (r != QUEUE_OK)
        return r == QUEUE_EMPTY ? WAIT : ENDED;
    /* It comes from the sender's cache, and will be written to. */
    m = mbuf_at(segments(), front.ref);
    if (m)
        __builtin_prefetch(m, 1);
    if (__builtin_expect(!message_known(t, &front), 0))
        return MAP;
    m = mbuf_at(segments(), front.ref);
    r = queue_dequeue(v, &front, m, t->session->peer_id, segments(), &held);
    if (r == QUEUE_EMPTY)
        return AGAIN;
    t->woken = queue_waiting(&v->put->waiting);
    note(&t->queue->has_taken, t->life);
    if (__builtin_expect(r != QUEUE_OK || !mbuf_find(front.ref, t->buffer), 0))
        return AGAIN;
    t->buffer->word = held;
    return DONE;
}

/*
 * The members get a new generation, as the head has: handles that somebody has of them from before
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
    return error_set(
        ACL_ERROR_RT_RESOURCE_ALLOC_FAIL,
        "%s: queue %u: a message was damaged by a process that it was shared with, and "
        "is lost: %u of its %u buffers were found",
        t->function, t->queue->id, n + 1, count);
}

int transfer_take(struct transfer *t)
{
    int error = run(t, take);

    return __builtin_expect(error == 0, 1) ? own_chain(t) : error;
}

aclError acltdtDequeue(uint32_t qid, acltdtBuf *buf, int32_t timeout)
{
    CALL_SCOPE;
    struct mbuf_ref buffer;
    struct transfer t;
    int error;

    REQUIRE(buf);
    if (!transfer_begin(&t, __func__, qid, timeout, false, &buffer, &error))
        return error;
    error = transfer_take(&t);
    if (__builtin_expect(error != 0, 0))
        return error;
    *buf = mbuf_handle(buffer.word, buffer.ref);
    return 0;
}
