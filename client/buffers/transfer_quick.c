/*
 * The calls that put or take one buffer. If all is well, nothing but the ring and the buffer is
 * touched: no struct transfer, no time, no wait. What is not well is found out before anything is
 * done, or has left everything as it was, and the call begins again with a transfer, which does
 * what is needed. Row 7 is 75 ns above a spinning round trip, and 120 ns with transfers alone; its
 * budget is 90 (AMD EPYC, 2 CPUs near, 2026-11-27).
 */
#include "acl/acl.h"
#include "acl/acl_tdt_queue.h"
#include "client/buffers/transfer.h"
#include "client/check/checked.h"
#include "client/core/error.h"
#include "client/core/thread.h"
#include "client/runtime/session.h"

#define FAST(condition) __builtin_expect((condition), 1)
#define INLINE          inline __attribute__((always_inline))

struct quick {
    struct session *session;
    struct queue *queue;
    struct ring_guard *guard;
    struct ring *ring; /* guarded */
};

/* False: by the long way, and no ring is guarded. */
static INLINE bool enter_queue(struct quick *q, uint32_t id)
{
    struct thread *t = thread_current;
    struct queues *queues;

    q->session = session_peek();
    /* A trace is written by the long way, and so is what a checked process does. */
    if (!FAST(q->session && !session_lost(q->session) && t && t->guard && id < QUEUE_LOCAL_IDS &&
              !trace_runs(&q->session->trace) && !checked_runs()))
        return false;
    queues = atomic_load_explicit(&q->session->queues, memory_order_acquire);
    q->queue = queues ? atomic_load_explicit(&queues->queue[id], memory_order_acquire) : NULL;
    if (!FAST(q->queue != NULL))
        return false;
    q->guard = t->guard;
    q->ring = queue_enter_ring(q->guard, q->queue);
    if (FAST(q->ring && atomic_load(&q->ring->view.news->state) == QUEUE_LIVE))
        return true;
    queue_leave_ring(q->guard);
    return false;
}

/* A thread sleeps on the other side, or the router does. Leaves the ring. */
static __attribute__((noinline, cold)) void wake_and_leave(const struct quick *q, bool putting,
                                                           uint32_t woken)
{
    struct ring *ring = q->ring;

    if (woken & ~QUEUE_ROUTER)
        transfer_wake(ring, putting);
    if (woken & QUEUE_ROUTER)
        queue_use_ring(ring);
    queue_leave_ring(q->guard);
    if (woken & QUEUE_ROUTER) {
        queue_bell_ring(q->session, &ring->bell, ring->view.number);
        queue_drop_ring(ring);
    }
}

/* Something was put, or taken. */
static INLINE void leave_queue(const struct quick *q, bool putting)
{
    const struct queue_view *v = &q->ring->view;
    uint32_t woken = queue_waiting(putting ? &v->take->waiting : &v->put->waiting);

    transfer_note_life(&q->queue->used[putting], q->ring->life);
    if (FAST(woken == 0))
        queue_leave_ring(q->guard);
    else
        wake_and_leave(q, putting, woken);
}

/* --- putting --- */

static __attribute__((noinline)) int enqueue_long(uint32_t qid, acltdtBuf buf, int32_t timeout)
{
    static const char name[] = "acltdtEnqueue";
    CALL_SCOPE_OF(name);
    struct mbuf_ref buffer;
    struct transfer t;

    if (!buf)
        return error_null(name, "buf");
    RETURN_IF_ERROR(transfer_begin(&t, name, qid, timeout, true, &buffer));
    RETURN_IF_ERROR(mbuf_check_head(name, t.session, buf, &buffer));
    return transfer_put(&t);
}

CHECKED_LONG_WAY(enqueue_long, acltdtEnqueue);

static INLINE bool put_quickly(uint32_t qid, acltdtBuf buf)
{
    struct mbuf_ref m;
    struct quick q;

    if (!enter_queue(&q, qid))
        return false;
    if (!FAST((q.ring->rights & QUEUE_PUT) && mbuf_check_held(q.session, buf, &m) &&
              atomic_load_explicit(&m.mbuf->count, memory_order_relaxed) <= 1 &&
              transfer_is_map_allowed(q.ring, m.ref) &&
              queue_enqueue(&q.ring->view, m.mbuf, m.ref, m.word, q.session->peer_id) ==
                  QUEUE_OK)) {
        queue_leave_ring(q.guard);
        return false;
    }
    leave_queue(&q, true);
    return true;
}

aclError acltdtEnqueue(uint32_t qid, acltdtBuf buf, int32_t timeout)
{
    struct api_call_mark *mark = api_call_mark_at_door();
    bool done;

    if (!FAST(api_call_try(mark)))
        return enqueue_long(qid, buf, timeout);
    done = put_quickly(qid, buf);
    api_call_end(mark);
    return FAST(done) ? 0 : enqueue_long(qid, buf, timeout);
}

/* --- taking --- */

#define LONG_WAY (-1)

static const char dequeue_name[] = "acltdtDequeue";

static __attribute__((noinline)) int dequeue_long(uint32_t qid, acltdtBuf *buf, int32_t timeout)
{
    CALL_SCOPE_OF(dequeue_name);
    struct mbuf_ref buffer;
    struct transfer t;

    if (!buf)
        return error_null(dequeue_name, "buf");
    RETURN_IF_ERROR(transfer_begin(&t, dequeue_name, qid, timeout, false, &buffer));
    RETURN_IF_ERROR(transfer_take(&t));
    *buf = mbuf_handle(buffer.word, buffer.ref);
    return 0;
}

CHECKED_LONG_WAY(dequeue_long, acltdtDequeue);

/*
 * The message at the front can be taken as it is: the one before is committed, and it is one buffer
 * of a segment that is mapped here. NULL: by the long way.
 */
static INLINE struct mbuf *single_message(const struct quick *q, const struct queue_front *front)
{
    uint64_t position = queue_head_position(front->head);
    struct mbuf *m = mbuf_at(&segment_table, front->ref);

    return FAST(m &&
                atomic_load_explicit(&q->ring->view.take->committed, memory_order_acquire) >=
                    position &&
                atomic_load_explicit(&m->count, memory_order_relaxed) <= 1)
               ? m
               : NULL;
}

/*
 * 0, the ACL error, or LONG_WAY. An empty queue is answered here, because programs poll: that takes
 * 12 ns in place of 30, and what is put meanwhile is seen so much the earlier.
 */
static INLINE int take_quickly(uint32_t qid, acltdtBuf *buf, int32_t timeout)
{
    enum queue_result r = QUEUE_NOTHING;
    struct queue_front front;
    struct mbuf *m = NULL;
    struct quick q;
    uint64_t held;

    if (!enter_queue(&q, qid))
        return LONG_WAY;
    if (FAST((q.ring->rights & QUEUE_TAKE) && atomic_load(&q.ring->view.news->takes.routed) == 0))
        r = queue_front(&q.ring->view, &front);
    if (FAST(r == QUEUE_OK))
        m = single_message(&q, &front);
    if (FAST(m != NULL))
        r = queue_dequeue(&q.ring->view, &front, m, q.session->peer_id, &segment_table, &held);
    if (!FAST(m && r != QUEUE_EMPTY)) {
        queue_leave_ring(q.guard);
        /* With a message at hand it is another taker that was quicker, and there may be more. */
        return !m && r == QUEUE_EMPTY && timeout == 0 ? transfer_error_empty(dequeue_name, qid)
                                                      : LONG_WAY;
    }
    /* Also a message that was passed over leaves room. */
    leave_queue(&q, false);
    if (!FAST(r == QUEUE_OK))
        return LONG_WAY;
    *buf = mbuf_handle(held, front.ref);
    return 0;
}

aclError acltdtDequeue(uint32_t qid, acltdtBuf *buf, int32_t timeout)
{
    struct api_call_mark *mark = api_call_mark_at_door();
    int error;

    if (!FAST(buf && api_call_try(mark)))
        return dequeue_long(qid, buf, timeout);
    error = take_quickly(qid, buf, timeout);
    api_call_end(mark);
    return FAST(error != LONG_WAY) ? error : dequeue_long(qid, buf, timeout);
}
