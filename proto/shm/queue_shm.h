/*
 * A queue in shared memory: a ring of buffers (mbuf_shm.h) between any number of sessions that put
 * and any number that take.
 *
 * Three files, so that the kernel enforces the rights: struct queue_put is writable for sessions
 * that may enqueue, struct queue_take for those that may dequeue, and each is read-only for the
 * others. struct queue_news is npud's: no session can write there.
 *
 * Position p is in slot[p & mask]: low 32 bits of p + 1, and the ref of the buffer. There are more
 * slots than `depth`, so that the slot of the message taken last is not written to before the next
 * one is taken.
 *
 * Putting:
 *   1. word of the buffer HELD -> SENDING: it is on its way, and still the sender's should the
 *      sender die
 *   2. slot: what was there -> (p + 1, ref), one compare-and-swap: that is the enqueue
 *   3. tail, a hint: p + 1, a plain store: it may be behind, even behind head, but every position
 *      below it was put
 *   4. wake a session that waits for messages
 * Taking:
 *   1. commit the message that was taken last, whichever session took it
 *   2. head: (p, last taker) -> (p + 1, me), one compare-and-swap: that is the dequeue
 *   3. commit it: word of the buffer SENDING -> HELD by its taker; then committed: p -> p + 1
 *   4. wake a session that waits for room
 * A session can be killed at any place. If a buffer is SENDING by a dead session and in no slot
 * from `committed` on, then it was not put, and is freed (others go on meanwhile:
 * queue_slot_since() says how npud looks for it). If a message was taken and not committed, it is
 * the last one, and head names its taker. npud's sweep commits it, frees what the dead session
 * holds, and wakes both sides, because a wake-up may have died with it.
 *
 * The word of the buffer decides in every race: if the word does not say that the message is in
 * this queue, then it is none, and is passed over.
 *
 * A session that commits a message for another must know its buffer (queue_find_uncommitted()). If
 * a session that does not map the segment moved `committed` on, then the word would stay SENDING,
 * and the taker would find that the message is none.
 *
 * Sleeping. A taker that waits for messages loads put->wake, adds itself to take->waiting, looks
 * once more, and sleeps while put->wake is what it was; a sender changes put->wake. The same holds
 * the other way round. Both sides order their store before their load, sequentially consistent. The
 * count of waiters has a generation: when a waiter has died, npud sets the count to 0 under a new
 * generation and wakes the others, which add themselves again. The wake word is loaded before the
 * count, because a waiter that is not counted and has seen the new wake word would sleep for ever.
 *
 * State. npud ends a ring (queue_end()) by storing QUEUE_DEAD (destroyed) or QUEUE_MOVED (there is
 * a new one, because a session has lost a right and still maps this one) in its news. Then npud
 * moves head out of reach, which ends the taking in one step: had it stayed, one message could be
 * taken here while those before it are in the new ring already. Then npud takes out what is in it
 * by changing the words. A sender looks at the state after it has put a message: if the ring has
 * ended, either the sender gets its word back from SENDING to HELD, or npud has taken the message
 * out and it is where npud has put it.
 *
 * Positions are of 48 bits in `head`: a ring that passes ten million messages per second comes to
 * their end after 325 days.
 *
 * Everything here is hostile for npud and for the other side: numbers are checked, loops are
 * bounded.
 */
#pragma once

#include <assert.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "proto/util/kill_point.h"
#include "proto/shm/mbuf_shm.h"

#define QUEUE_DEPTH_MIN 2u
#define QUEUE_DEPTH_MAX 8192u /* messages; a queue of depth n holds n */
#define QUEUE_IDS       4096u /* per user */
#define QUEUE_LOCAL_IDS 8192u /* of a session: from QUEUE_IDS on, queues of other users */
#define QUEUE_NAME      128u
#define QUEUE_NUMBERS   65536u

/* Rights, as in the API. */
#define QUEUE_MANAGE 1u
#define QUEUE_TAKE   2u
#define QUEUE_PUT    4u
#define QUEUE_RIGHTS 7u

enum queue_state {
    QUEUE_LIVE = 0,
    QUEUE_DEAD,
    QUEUE_MOVED,
};

/** What npud says about all producers, or all consumers. */
struct queue_party_news {
    _Atomic uint32_t n;      /* sessions, and granted processes that are still to come */
    _Atomic uint32_t gone;   /* how many of these died or lost the right since one came */
    _Atomic int32_t pid;     /* of the last one that did */
    _Atomic uint32_t routed; /* npud is one of them, for a route */
};

/**
 * What npud says about a ring. Written by npud alone: the file has no descriptor for writing. The
 * state goes from QUEUE_LIVE to one of the others, once.
 */
struct queue_news {
    _Atomic uint32_t state; /* enum queue_state */
    struct queue_party_news puts, takes;
};

#define QUEUE_NEWS_SIZE ((size_t)4096)
#define QUEUE_FILES     3 /* of a ring: put, take, news */

struct queue_slot {
    alignas(64) _Atomic uint64_t word; /* low 32 bits of position + 1, << 32 | ref */
};

/** Written by sessions that may enqueue, and npud. */
struct queue_put {
    alignas(64) _Atomic uint64_t tail;    /* hint: every position below it was put */
    alignas(64) _Atomic uint64_t waiting; /* for room: generation << 32 | QUEUE_ROUTER | count */
    alignas(64) _Atomic uint32_t wake;    /* futex of takers that wait */
    struct queue_slot slot[];
};

/** Written by sessions that may dequeue, and npud. */
struct queue_take {
    alignas(64) _Atomic uint64_t head; /* position to be taken next << 16 | last taker's peer id */
    _Atomic uint64_t committed;        /* every position below it is committed */
    alignas(64) _Atomic uint64_t waiting; /* for messages: as above */
    alignas(64) _Atomic uint32_t wake;    /* futex of senders that wait */
};

/* in `waiting`: npud's router sleeps, and wants its eventfd written */
#define QUEUE_ROUTER 0x80000000u

/** A ring as one process has it mapped; private to it. */
struct queue_view {
    struct queue_put *put;
    struct queue_take *take;
    struct queue_news *news; /* read-only for clients */
    uint32_t depth;
    uint32_t mask;   /* slots - 1 */
    uint32_t number; /* of the ring, in words of buffers */
    /* a position of head that was, so that a sender need not look each time; NULL: it does */
    _Atomic uint64_t *seen;
};

static inline uint32_t queue_slots(uint32_t depth)
{
    return 1u << (32 - __builtin_clz(depth));
}
static_assert(QUEUE_DEPTH_MAX * 2 <= 1u << 31, "positions are compared by their low 32 bits");

static inline size_t queue_put_size(uint32_t depth)
{
    return (sizeof(struct queue_put) + queue_slots(depth) * sizeof(struct queue_slot) + 4095) &
           ~(size_t)4095;
}

static inline size_t queue_take_size(void)
{
    return (sizeof(struct queue_take) + 4095) & ~(size_t)4095;
}

static inline uint64_t queue_slot_word(uint64_t position, uint32_t ref)
{
    return (uint64_t)(uint32_t)(position + 1) << 32 | ref;
}

/** Is the message of position in the slot? */
static inline bool queue_slot_has(uint64_t word, uint64_t position)
{
    return word >> 32 == (uint32_t)(position + 1);
}

static inline uint64_t queue_head_position(uint64_t head)
{
    return head >> 16;
}

/*
 * How far npud moves the head of a ring that has ended. Much more than the depth; and in the low 32
 * bits, by which slots are recognised, as far from every position in it as can be.
 */
#define QUEUE_END (UINT64_C(1) << 40 | UINT64_C(1) << 31)

/** Messages in the queue, as far as one can tell. */
static inline uint32_t queue_fill(const struct queue_view *q)
{
    uint64_t head = queue_head_position(atomic_load_explicit(&q->take->head, memory_order_acquire));
    uint64_t t = atomic_load_explicit(&q->put->tail, memory_order_acquire);

    if (t - head > q->depth)
        t = head;
    while (t - head < q->depth &&
           queue_slot_has(
               atomic_load_explicit(&q->put->slot[t & q->mask].word, memory_order_acquire), t))
        t++;
    return (uint32_t)(t - head);
}

/* --- putting --- */

enum queue_result {
    QUEUE_OK = 0,
    QUEUE_FULL,
    QUEUE_EMPTY,
    QUEUE_STALE,   /* put: the word of the buffer is not what the caller believes */
    QUEUE_NOTHING, /* take: the message was none, and is passed over */
    QUEUE_ENDED,   /* the ring has: see the state; a buffer to be put is still the caller's */
    QUEUE_DAMAGED, /* a hostile peer with a right to this queue has written there */
};

/*
 * Every position below `position` was put: tail says so from now on, unless it is further already.
 * A sender that is delayed before the store may set tail back: then queue_place() only has to look
 * further.
 */
static inline void queue_reached(const struct queue_view *q, uint64_t position)
{
    if ((int64_t)(position - atomic_load_explicit(&q->put->tail, memory_order_relaxed)) > 0)
        atomic_store_explicit(&q->put->tail, position, memory_order_release);
}

/*
 * Where to look for the first free slot: where tail says, but never before head, below which every
 * position was put. *head is that of now, or one that was: then there is at least the room that it
 * leaves. That will do unless `now`.
 */
static inline enum queue_result queue_search(const struct queue_view *q, bool now, uint64_t *t,
                                             uint64_t *head)
{
    *t = atomic_load_explicit(&q->put->tail, memory_order_acquire);
    if (q->seen && !now) {
        *head = atomic_load_explicit(q->seen, memory_order_acquire);
        if (*t - *head < q->depth)
            return QUEUE_OK;
    }
    /*
     * acquire: a head that is out of reach comes with the state that was stored before it. The slot
     * needs no order from here: it changes by compare-and-swap, and a taker has read it with
     * acquire before it moves head.
     */
    *head = queue_head_position(atomic_load_explicit(&q->take->head, memory_order_acquire));
    if (*t - *head > q->depth) {
        /*
         * tail is behind, or nonsense, unless the ring has ended: the state changes before head
         * does. relaxed: head was read with acquire.
         */
        if (atomic_load_explicit(&q->news->state, memory_order_relaxed) != QUEUE_LIVE)
            return QUEUE_ENDED;
        *t = *head;
    }
    if (q->seen)
        atomic_store_explicit(q->seen, *head, memory_order_release);
    return *t - *head == q->depth ? QUEUE_FULL : QUEUE_OK;
}

/**
 * Room for one more, or a reason why not: QUEUE_OK, QUEUE_FULL, QUEUE_ENDED, QUEUE_DAMAGED. On OK
 * where it would go, and what is there.
 */
static inline enum queue_result queue_place(const struct queue_view *q, uint64_t *position,
                                            uint64_t *old)
{
    uint64_t t, head, w;

    /*
     * The second time by what head is now: what was believed of it, and tail, may be laps behind.
     */
    for (uint32_t tries = 0; tries < SEGMENT_TRIES + 4 * q->depth; tries++) {
        enum queue_result r = queue_search(q, tries > 0, &t, &head);

        if (r != QUEUE_OK)
            return r;
        w = atomic_load_explicit(&q->put->slot[t & q->mask].word, memory_order_acquire);
        /* Others may have put there and not have come to say so. */
        for (; queue_slot_has(w, t) && t - head < q->depth; tries++)
            w = atomic_load_explicit(&q->put->slot[++t & q->mask].word, memory_order_acquire);
        if (t - head == q->depth) {
            if (head ==
                queue_head_position(atomic_load_explicit(&q->take->head, memory_order_acquire)))
                return QUEUE_FULL;
            queue_reached(q, t);
            continue;
        }
        /*
         * The slot must be that of the lap before, or never used. Else we are late, or a hostile
         * peer has written there.
         */
        if (!(w == 0 ? t <= q->mask : queue_slot_has(w, t - q->mask - 1)))
            continue;
        *position = t;
        *old = w;
        return QUEUE_OK;
    }
    return QUEUE_DAMAGED;
}

/**
 * Put buffer m, named ref, whose word is `held` (the caller's, HELD), as session me. QUEUE_OK: it
 * is the queue's, and the caller looks whether to wake (queue_waiting()). Else it is still the
 * caller's, under the same word. No other thread uses the buffer meanwhile.
 */
static inline enum queue_result queue_enqueue(const struct queue_view *q, struct mbuf *m,
                                              uint32_t ref, uint64_t held, uint32_t me)
{
    uint64_t sending = mbuf_word(mbuf_generation(held), MBUF_SENDING, me, q->number);
    uint64_t position, old, expected;
    unsigned lost = 0;
    enum queue_result r = queue_place(q, &position, &old);

    if (r != QUEUE_OK)
        return r;
    if (atomic_load_explicit(&m->word, memory_order_relaxed) != held)
        return QUEUE_STALE;
    /* Only its holder changes a word that is HELD. */
    atomic_store_explicit(&m->word, sending, memory_order_release);
    KILL_POINT(PUT_SENDING);
    /*
     * Sequentially consistent: before we look at the state, and for waiters. release: all of the
     * buffer, for its taker.
     */
    while (!atomic_compare_exchange_strong(&q->put->slot[position & q->mask].word, &old,
                                           queue_slot_word(position, ref))) {
        KILL_POINT(PUT_LOST);
        r = queue_place(q, &position, &old);
        if (r == QUEUE_OK && ++lost < SEGMENT_TRIES)
            continue;
        if (r == QUEUE_OK)
            r = QUEUE_DAMAGED;
        /* No taker has seen it: the word is ours to take back, unless npud thinks us dead. */
        expected = sending;
        atomic_compare_exchange_strong_explicit(&m->word, &expected, held, memory_order_acq_rel,
                                                memory_order_relaxed);
        return r;
    }
    KILL_POINT(PUT_DONE);
    queue_reached(q, position + 1);
    KILL_POINT(PUT_TAIL);
    if (__builtin_expect(atomic_load(&q->news->state) != QUEUE_LIVE, 0)) {
        expected = sending;
        if (atomic_compare_exchange_strong_explicit(&m->word, &expected, held, memory_order_acq_rel,
                                                    memory_order_relaxed))
            return QUEUE_ENDED;
    }
    return QUEUE_OK;
}

/* --- taking --- */

/** Which message would be taken next: queue_front(). */
struct queue_front {
    uint64_t head;
    uint32_t ref;
};

/**
 * QUEUE_OK, QUEUE_EMPTY, or QUEUE_ENDED. The slot of the front may belong to another lap for two
 * reasons: nothing was put there yet, or other takers have moved head on and a producer has used
 * the slot again. Only the first one means empty. So head decides: if it has not moved since before
 * the slot was read, the queue was empty at that moment. Retries are bounded, because a hostile
 * taker can move head each time.
 */
static inline enum queue_result queue_front(const struct queue_view *q, struct queue_front *f)
{
    uint64_t p, w, head = atomic_load_explicit(&q->take->head, memory_order_acquire);

    for (unsigned tries = 0; tries < SEGMENT_TRIES; tries++) {
        f->head = head;
        p = queue_head_position(head);
        w = atomic_load_explicit(&q->put->slot[p & q->mask].word, memory_order_acquire);
        f->ref = (uint32_t)w;
        if (queue_slot_has(w, p))
            return QUEUE_OK;
        head = atomic_load_explicit(&q->take->head, memory_order_acquire);
        if (head == f->head)
            break;
    }
    return atomic_load(&q->news->state) == QUEUE_LIVE ? QUEUE_EMPTY : QUEUE_ENDED;
}

/**
 * Was the message that was taken when head became `head` not committed yet? Then *ref is its buffer
 * (or 0: a hostile peer has written there). Before the caller commits it, its segment must be in
 * the caller's table and not be dead, or npud must have said that there is none that the caller may
 * map.
 */
static inline bool queue_find_uncommitted(const struct queue_view *q, uint64_t head, uint32_t *ref)
{
    uint64_t p = queue_head_position(head), w;

    if (atomic_load_explicit(&q->take->committed, memory_order_acquire) >= p)
        return false;
    w = atomic_load_explicit(&q->put->slot[(p - 1) & q->mask].word, memory_order_acquire);
    *ref = queue_slot_has(w, p - 1) ? (uint32_t)w : 0;
    return true;
}

/**
 * Commit the message that was taken when head became `head`, if it is not: the one before its
 * position, taken by the session that it names. The caller has it, or has done what
 * queue_find_uncommitted() says.
 */
static inline void queue_commit(const struct queue_view *q, uint64_t head, struct segment_table *t)
{
    uint64_t p = queue_head_position(head), w, slot, word = 0;
    struct mbuf *m = NULL;

    /*
     * acquire, here and below: npud, which is told that it is committed, sees in the word of the
     * buffer by which session. It looks there once.
     */
    if (p == 0 || atomic_load_explicit(&q->take->committed, memory_order_acquire) >= p)
        return;
    slot = atomic_load_explicit(&q->put->slot[(p - 1) & q->mask].word, memory_order_acquire);
    if (queue_slot_has(slot, p - 1))
        m = mbuf_at(t, (uint32_t)slot);
    if (m)
        word = atomic_load_explicit(&m->word, memory_order_acquire);
    /*
     * The word first, then this: if it is not committed even now, then the buffer has not been
     * anywhere else since it was taken, and the word is that of this message, or it is committed
     * already. acquire of the word keeps the two in this order: a holder that has put the buffer
     * again has seen it committed before.
     */
    w = atomic_load_explicit(&q->take->committed, memory_order_acquire);
    if (w != p - 1)
        return;
    if (m && mbuf_state(word) == MBUF_SENDING && mbuf_queue(word) == q->number)
        atomic_compare_exchange_strong(
            &m->word, &word, mbuf_word_held(mbuf_generation(word) + 1, (uint32_t)(head & 0xffff)));
    KILL_POINT(TAKE_HELD);
    atomic_compare_exchange_strong(&q->take->committed, &w, p);
    KILL_POINT(TAKE_COMMITTED);
}

/**
 * Take the message at the front, which is buffer m, as session me. queue_commit() of f->head was
 * called, if queue_find_uncommitted() was true. QUEUE_OK: m is the caller's, under *held.
 * QUEUE_NOTHING: it was no message of this queue and is passed over. QUEUE_EMPTY: another taker
 * took it, or the ring has ended: look again with queue_front(). m NULL: pass it over; only when
 * its segment does not exist, or npud refuses it.
 */
static inline enum queue_result queue_dequeue(const struct queue_view *q,
                                              const struct queue_front *f, struct mbuf *m,
                                              uint32_t me, struct segment_table *t, uint64_t *held)
{
    uint64_t head = f->head, word = 0, p = queue_head_position(head);
    uint64_t next = (p + 1) << 16 | me;
    bool ours;

    if (m)
        word = atomic_load_explicit(&m->word, memory_order_acquire);
    /* Sequentially consistent: before we look for senders that wait for room. */
    if (!atomic_compare_exchange_strong(&q->take->head, &head, next))
        return QUEUE_EMPTY;
    KILL_POINT(TAKE_HEAD);
    if (__builtin_expect(!m || mbuf_state(word) != MBUF_SENDING || mbuf_queue(word) != q->number,
                         0)) {
        queue_commit(q, next, t);
        return QUEUE_NOTHING;
    }
    /*
     * As queue_commit() does it. Head was as it was before we looked at the word, so the word is
     * that of this message. Others may commit it for us, or the sender or npud take it back when
     * the ring has ended: so both are compared. The buffer goes nowhere before `committed` is
     * moved on.
     */
    *held = mbuf_word_held(mbuf_generation(word) + 1, me);
    ours = atomic_compare_exchange_strong(&m->word, &word, *held) || word == *held;
    KILL_POINT(TAKE_HELD);
    atomic_compare_exchange_strong(&q->take->committed, &p, p + 1);
    KILL_POINT(TAKE_COMMITTED);
    return ours ? QUEUE_OK : QUEUE_NOTHING;
}

/* --- sleeping --- */

/**
 * Count the caller as a waiter. Returns the generation, for queue_disarm(). The caller looks once
 * more, then sleeps while *wake is still *seen.
 */
static inline uint32_t queue_arm(_Atomic uint64_t *waiting, const _Atomic uint32_t *wake,
                                 uint32_t *seen)
{
    uint64_t w;

    *seen = atomic_load_explicit(wake, memory_order_acquire);
    w = atomic_fetch_add(waiting, 1);
    atomic_thread_fence(memory_order_seq_cst);
    KILL_POINT(QUEUE_ARMED);
    return (uint32_t)(w >> 32);
}

static inline void queue_disarm(_Atomic uint64_t *waiting, uint32_t generation)
{
    uint64_t w = atomic_load_explicit(waiting, memory_order_relaxed);

    while (w >> 32 == generation && (uint32_t)w << 1 != 0)
        if (atomic_compare_exchange_weak_explicit(waiting, &w, w - 1, memory_order_relaxed,
                                                  memory_order_relaxed))
            break;
}

/** npud: forget all waiters, under a new generation. The router's bit stays. */
static inline void queue_disarm_all(_Atomic uint64_t *waiting)
{
    uint64_t w = atomic_load_explicit(waiting, memory_order_relaxed);

    for (unsigned tries = 0; tries < SEGMENT_TRIES; tries++)
        if (atomic_compare_exchange_weak(waiting, &w, ((w >> 32) + 1) << 32 | (w & QUEUE_ROUTER)))
            break;
}

/** After putting (take->waiting) or taking (put->waiting): 0, QUEUE_ROUTER, a count, or both. */
static inline uint32_t queue_waiting(_Atomic uint64_t *waiting)
{
    return (uint32_t)atomic_load(waiting);
}

/**
 * Before a futex call that wakes: a thread that has looked at the ring and is about to sleep finds
 * another word, and looks again. The call only wakes threads that sleep already.
 */
static inline void queue_change(_Atomic uint32_t *wake)
{
    atomic_fetch_add(wake, 1);
}

/* --- the end of a ring --- */

/*
 * An npud that ends may have moved head already: then head is no message, or one, behind what is
 * committed, but for the distance.
 */
static inline bool queue_is_out_of_reach(const struct queue_view *q, uint64_t head)
{
    return (head & 0xffff) == PEER_NPUD &&
           queue_head_position(head) - QUEUE_END - atomic_load(&q->take->committed) <= 1;
}

/**
 * npud: end the ring. The message that was taken last is committed then, no session takes another
 * one, and a session that puts one from here on sees the state. Returns the position of the first
 * message that is left. Sleepers are not woken yet. Safe to repeat: the npud before may have begun.
 */
static inline uint64_t queue_end(const struct queue_view *q, enum queue_state why,
                                 struct segment_table *t)
{
    bool again = atomic_load(&q->news->state) != QUEUE_LIVE;
    uint64_t head = 0;

    atomic_store(&q->news->state, why);
    for (unsigned tries = 0; tries < SEGMENT_TRIES; tries++) {
        head = atomic_load(&q->take->head);
        if (again && queue_is_out_of_reach(q, head))
            return queue_head_position(head) - QUEUE_END;
        queue_commit(q, head, t);
        if (atomic_compare_exchange_strong(
                &q->take->head, &head, (queue_head_position(head) + QUEUE_END) << 16 | PEER_NPUD))
            break;
    }
    return queue_head_position(head);
}

/**
 * npud: the message at *position of a ring that has ended, or that no session takes from, or 0:
 * there is none. *position is the next one then. Not for a ring in use: its members overwrite the
 * slots behind head while the caller walks. There queue_slot_since() is right.
 */
static inline uint32_t queue_next(const struct queue_view *q, uint64_t *position)
{
    uint64_t w = atomic_load(&q->put->slot[*position & q->mask].word);

    if (!queue_slot_has(w, *position))
        return 0;
    ++*position;
    return (uint32_t)w;
}

/**
 * npud: the buffer in slot `index`, if its message is at position `since` or a later one; else 0.
 * For a ring in use.
 *
 * `since` is `committed` as it was before the caller read the first slot, and the sender of the
 * message had put it before that. Then the caller reads all slots, each once, in any order, and
 * either finds the message or finds that its slot has gone to a later lap. A slot goes to a later
 * lap only after its message was taken and committed, and to commit it changes the word of the
 * buffer. So a message that is in no slot is not in the ring, or the word of its buffer has
 * changed: a caller that acts on the former compares and swaps the word that it read.
 */
static inline uint32_t queue_slot_since(const struct queue_view *q, uint32_t index, uint64_t since)
{
    uint64_t w = atomic_load_explicit(&q->put->slot[index].word, memory_order_acquire);
    uint32_t position = (uint32_t)(w >> 32) - 1;

    return (position & q->mask) == index && position - (uint32_t)since < UINT32_C(1) << 31
               ? (uint32_t)w
               : 0;
}
