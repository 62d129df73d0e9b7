#include "client/buffers/transfer_wait.h"

#include <errno.h>
#include <stdio.h>

#include "acl/acl.h"
#include "acl/acl_npud.h"
#include "client/core/error.h"
#include "client/core/thread.h"
#include "client/core/wait.h"
#include "proto/util/futex.h"

void transfer_wait_wake(const struct ring *ring, bool putting)
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

struct nap {
    struct transfer *t;
    bool armed;
    uint32_t generation;
};

/* Armed once, and again when npud has forgotten all waiters because one of them has died. */
static bool is_nap_over(void *arg, uint64_t target)
{
    struct nap *n = arg;
    const struct ring_side *side = transfer_side(n->t);
    uint32_t seen;

    (void)target;
    if (!n->armed || (uint32_t)(atomic_load(side->waiting) >> 32) != n->generation) {
        /* What counts is what wait_queue() saw, before this. */
        n->generation = queue_arm(side->waiting, side->word, &seen);
        n->armed = true;
    }
    return can_go_on(n->t) || transfer_ended(n->t) || is_deserted(n->t) ||
           transfer_taken_by_router(n->t);
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

/* What a transfer waits for, on the side that it is on. */
static const struct want {
    uint32_t kind; /* of the sleep */
    int time_up;
    error_render_fn *say;
    const char *state, *needs;
} wants[] = {
    [false] = {WAIT_MESSAGE, ACL_ERROR_RT_QUEUE_EMPTY, say_empty, "empty", "enqueue"},
    [true] = {WAIT_ROOM, ACL_ERROR_RT_QUEUE_FULL, say_full, "full", "dequeue"},
};

int transfer_wait_error_time_up(const struct transfer *t)
{
    const struct want *want = &wants[t->putting];

    return error_defer(want->time_up, want->say, t->function, t->queue->id, t->ring->view.depth);
}

static int error_deserted(const struct transfer *t)
{
    return error_set(ACL_ERROR_RT_DRV_INTERNAL_ERROR,
                     "%s: queue %u is %s, and no process is left that could %s: process %d, the "
                     "last one, has died, finalized or lost the right",
                     t->function, t->queue->id, wants[t->putting].state, wants[t->putting].needs,
                     (int)atomic_load(&other_side(t)->news->pid));
}

int transfer_wait_sleep(struct transfer *t)
{
    const struct ring_side *side = transfer_side(t);
    struct nap nap = {.t = t};
    int r;

    session_use_again(t->session);
    if (is_deserted(t) && !can_go_on(t) && !transfer_ended(t))
        return error_deserted(t);
    t->slept = true;
    r = wait_queue(&t->session->waits, t->function, wants[t->putting].kind, t->ring->view.number,
                   side->word, is_nap_over, &nap, t->deadline);
    queue_disarm(side->waiting, nap.generation);
    KILL_POINT(QUEUE_DISARMED);
    if (r == -EINTR)
        return ACLNPUD_ERROR_INTERRUPTED;
    return r == 0        ? 0
           : r == -EPIPE ? session_error_lost(t->function)
                         : transfer_wait_error_time_up(t);
}

void transfer_wait_pass_on(const struct transfer *t)
{
    /*
     * The word need not change: a thread that is not asleep yet has either read it before it
     * changed for that wake-up, or has looked at the ring since.
     */
    if (t->slept)
        futex_wake_one(transfer_side(t)->word);
}

void transfer_give_up(struct transfer *t)
{
    struct ring_guard *guard = t->slept ? thread_guard() : NULL;

    if (!guard)
        return;
    /* A ring that has ended meanwhile has woken all. */
    t->ring = queue_enter_ring(guard, t->queue);
    if (t->ring && t->ring->life == t->life)
        transfer_wait_pass_on(t);
    t->ring = NULL;
    queue_leave_ring(guard);
}
