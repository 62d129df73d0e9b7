/*
 * Shared buffers (mbufs) in shared memory.
 *
 * A pool belongs to one session and consists of segments. A segment is one sealed memfd, mapped
 * read-write by its owner and by every session that attached a queue which the segment feeds, and
 * by npud:
 *
 *   struct segment_page   flags, and one hint bit per slot
 *   struct mbuf           n_data slots that have data of `stride` bytes each, then n_refs slots without, for references
 *   data                  page aligned, stride * n_data bytes
 *
 * A buffer's name is its ref: segment id << 16 | slot. Ids are npud's, unique at any moment, never
 * 0.
 *
 * Who owns a slot is in its word, and nowhere else: lists and hints may be wrong, the word decides,
 * and every change of hands is one compare-and-swap of it (or one store of the only one who may).
 *
 *   FREE                 nobody's
 *   CACHED  session      set aside by a session that allocates; its thread caches know the slot
 *   HELD    session      a head: the session has a handle of it
 *   SENDING session, q   on its way through queue q: being put there by the session, or in the ring, or taken and not settled (queue_shm.h)
 *   MEMBER  ref          of the chain with this head; owned by whoever owns the head. Links only
 *           tell the order.
 *   BLOCK                its own head is gone, but references to its data are not
 *
 * The generation goes up whenever a slot gets a new holder, so that a handle made for an earlier
 * one is recognised. Sessions are named by their peer id (HelloReply.share); npud itself is 0.
 *
 * References. Data belongs to slot `block` of the same segment (a slot's own, unless it is a
 * reference), whose word `refs` counts the heads that have it. A count cannot tell who raised it
 * before he was killed, so the word also names the slot for which it was changed last, and a
 * sequence number; and that slot's `op` says of which block, and with which number, it means to
 * change the count. Changing refs:
 *   1. settle the last change: move op of that slot from TAKING to HAS, or DROPPING to HAS_NOT, if
 *      it has this block and number;
 *   2. store the own op with the next number;
 *   3. compare-and-swap refs to the new count, the own slot, the next number;
 *   4. settle the own op.
 * Killed between 2 and 4: it happened exactly if refs names the slot and the number, or the op is
 * settled already, since nobody changes refs again without settling it first (mbuf_ref_resolve()).
 * Whoever settles for another may be delayed for as long as one likes: numbers of a block never
 * come again, so what he then finds is either the change that he means or none of his business.
 * Which block a slot has is in its op, and not beside it: else who dies between the two stores
 * would have dropped another's data.
 *
 * Who writes what: whoever maps the segment could write anything, and damages the buffers that were
 * shared with him. Honest sessions write as above. npud and receivers check what they read: numbers
 * against the geometry that npud told them, never against what is written here.
 */
#pragma once

#include <assert.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "proto/util/kill_point.h"

#define MBUF_USER      96u                 /* bytes of user data */
#define MBUF_CHAIN_MAX 128u                /* buffers in a chain, with its head */
#define MBUF_SIZE_MAX  (UINT64_C(4) << 30) /* bytes of data */
#define SEGMENT_SLOTS  65536u              /* at most, with data and without */
#define SEGMENT_IDS    65536u
#define SEGMENT_TRIES  4096u /* of a loop that others can disturb, before it is their intention */
#define POOL_KEPT      (UINT64_C(1) << 20) /* a pool up to here is not worth giving back */
#define PEER_NPUD      0u                  /* npud's peer id */
#define PEER_MAX       65535u

/* --- the word --- */

enum mbuf_state {
    MBUF_FREE = 0,
    MBUF_CACHED,
    MBUF_HELD,
    MBUF_SENDING,
    MBUF_MEMBER,
    MBUF_BLOCK,
};

/*
 * 28 bits: as many as a handle has beside its mark and the ref. The word has no more to spare than
 * one bit of the state.
 */
#define MBUF_GENERATION 0xfffffffu

static inline uint64_t mbuf_word(uint32_t generation, enum mbuf_state state, uint32_t a, uint32_t b)
{
    return (uint64_t)(generation & MBUF_GENERATION) << 36 | (uint64_t)state << 32 |
           (uint64_t)(a & 0xffff) << 16 | (b & 0xffff);
}

static inline uint32_t mbuf_generation(uint64_t word)
{
    return (uint32_t)(word >> 36);
}

static inline enum mbuf_state mbuf_state(uint64_t word)
{
    return (enum mbuf_state)(word >> 32 & 0xf);
}

/** CACHED, HELD, SENDING: peer id of the session. */
static inline uint32_t mbuf_session(uint64_t word)
{
    return (uint32_t)word >> 16;
}

/** SENDING: number of the queue. */
static inline uint32_t mbuf_queue(uint64_t word)
{
    return (uint32_t)word & 0xffff;
}

/** MEMBER: ref of the head. */
static inline uint32_t mbuf_head(uint64_t word)
{
    return (uint32_t)word;
}

static inline uint64_t mbuf_word_held(uint32_t generation, uint32_t session)
{
    return mbuf_word(generation, MBUF_HELD, session, 0);
}

static inline uint64_t mbuf_word_member(uint32_t generation, uint32_t head)
{
    return mbuf_word(generation, MBUF_MEMBER, head >> 16, head);
}

/* --- layout --- */

enum mbuf_op { /* of a slot on the count of its block */
               MBUF_HAS_NOT = 0,
               MBUF_HAS,
               MBUF_TAKING,
               MBUF_DROPPING,
};

struct mbuf {
    alignas(64) _Atomic uint64_t word;
    _Atomic uint64_t refs;     /* of the data of this slot: count << 48 | slot << 32 | number */
    _Atomic uint64_t op;       /* enum mbuf_op << 48 | block << 32 | number */
    _Atomic uint64_t length;   /* of the data, as set by the program */
    _Atomic uint64_t room;     /* bytes that were asked for */
    _Atomic uint32_t block;    /* slot whose data this is; while it is somebody's, that of op */
    _Atomic uint32_t next;     /* ref of the next in the chain; 0: none */
    _Atomic uint32_t tail;     /* head: ref of the last in the chain */
    _Atomic uint32_t count;    /* head: buffers in the chain */
    _Atomic uint32_t user_set; /* 0: the user data counts as zero */
    alignas(64) unsigned char user[MBUF_USER];
};
static_assert(sizeof(struct mbuf) == 192,
              "what a hand-over touches is one cache line; user data two more");

struct segment_page {
    /* npud; hints for clients, as everything here is writable for all members */
    _Atomic uint32_t dead;    /* given back: this mapping is of no use any more. This page stays */
    _Atomic uint32_t closing; /* npud is looking whether everything is free: segment_claim() */
    /* not to be allocated from: somebody maps it who should not see more */
    _Atomic uint32_t draining;
    _Atomic uint32_t orphan; /* its session is gone: tell npud when everything in it is free */
    _Atomic uint32_t armed;  /* npud is going to look whether it is free: no need to tell */
    /* npud's router waits for a slot without data: tell it, see segment_wanted() */
    _Atomic uint32_t wanted;
    alignas(64) _Atomic uint64_t hint[SEGMENT_SLOTS / 64]; /* bit: the slot may be free */
};

/** A segment as one process has it mapped; private to it. Written before it is found by others. */
struct segment_view {
    struct segment_page *page;
    struct mbuf *mbufs;
    unsigned char *data; /* NULL: not mapped here (npud) */
    uint64_t stride;     /* multiple of 64 */
    /* of the segment, in all of npud's life: an id that is used again names another number */
    uint64_t number;
    uint32_t n_data;
    uint32_t n_refs;
    uint32_t id;
};

#define SEGMENT_PAGE ((size_t)4096)

static inline size_t segment_mbufs_offset(void)
{
    return (sizeof(struct segment_page) + SEGMENT_PAGE - 1) & ~(SEGMENT_PAGE - 1);
}

static inline size_t segment_data_offset(uint32_t slots)
{
    return (segment_mbufs_offset() + slots * sizeof(struct mbuf) + SEGMENT_PAGE - 1) &
           ~(SEGMENT_PAGE - 1);
}

/** Size of the memfd. */
static inline uint64_t segment_size(uint32_t n_data, uint32_t n_refs, uint64_t stride)
{
    return segment_data_offset(n_data + n_refs) +
           ((n_data * stride + SEGMENT_PAGE - 1) & ~(uint64_t)(SEGMENT_PAGE - 1));
}

/**
 * Fill the addresses of a view, from where its memfd is mapped: all of it, or only up to the data.
 */
static inline void segment_view_place(struct segment_view *v, void *map, bool with_data)
{
    v->page = (struct segment_page *)map;
    v->mbufs = (struct mbuf *)((unsigned char *)map + segment_mbufs_offset());
    v->data = with_data ? (unsigned char *)map + segment_data_offset(v->n_data + v->n_refs) : NULL;
}

static inline uint32_t segment_slots(const struct segment_view *v)
{
    return v->n_data + v->n_refs;
}

/** The segments that a process knows, by id. All zero: none. */
struct segment_table {
    _Atomic(struct segment_view *) view[SEGMENT_IDS];
};

/**
 * The segment of ref, or NULL: not known here, or given back meanwhile, and the id may be
 * another's. That says nothing about whether the words there are FREE: who takes a dead segment for
 * the one that is meant finds every buffer in it free.
 */
static inline struct segment_view *segment_get(struct segment_table *t, uint32_t ref)
{
    struct segment_view *v = atomic_load_explicit(&t->view[ref >> 16], memory_order_acquire);

    /* npud itself, which has no data mapped, has it from nobody's page. */
    return v && (!v->data || atomic_load_explicit(&v->page->dead, memory_order_relaxed) == 0)
               ? v
               : NULL;
}

/** The slot that ref names, or NULL: unknown here, or none of its segment. */
static inline struct mbuf *mbuf_at(struct segment_table *t, uint32_t ref)
{
    struct segment_view *v = segment_get(t, ref);

    return v && (ref & 0xffff) < segment_slots(v) ? &v->mbufs[ref & 0xffff] : NULL;
}

static inline uint32_t mbuf_ref(const struct segment_view *v, const struct mbuf *m)
{
    return v->id << 16 | (uint32_t)(m - v->mbufs);
}

/* --- free slots --- */

/**
 * Put the hint of a slot that was made FREE. True: the slots that share its hint word are all free,
 * as far as hints go.
 */
static inline bool segment_hint(struct segment_view *v, uint32_t slot)
{
    uint64_t bit = UINT64_C(1) << slot % 64;

    return (atomic_fetch_or_explicit(&v->page->hint[slot / 64], bit, memory_order_release) | bit) ==
           UINT64_MAX;
}

/**
 * mbuf_drop() said *full: is that because npud's router waits for a slot here? Then the caller, the
 * only one who is told so, tells npud (TrimSegment).
 */
static inline bool segment_wanted(struct segment_view *v)
{
    return atomic_load_explicit(&v->page->wanted, memory_order_relaxed) != 0 &&
           atomic_exchange(&v->page->wanted, 0) != 0;
}

/** Set aside a slot for session, if it is free. */
static inline bool mbuf_claim(struct mbuf *m, uint32_t session)
{
    uint64_t w = atomic_load_explicit(&m->word, memory_order_relaxed);

    /* acquire: what its last holder stored is over before ours begins */
    return mbuf_state(w) == MBUF_FREE &&
           atomic_compare_exchange_strong_explicit(
               &m->word, &w, mbuf_word(mbuf_generation(w), MBUF_CACHED, session, 0),
               memory_order_acquire, memory_order_relaxed);
}

/**
 * The caller owns the slot, and nothing refers to its data: give it back. Returns what
 * segment_hint() does.
 */
static inline bool mbuf_release(struct segment_view *v, struct mbuf *m)
{
    uint64_t w = atomic_load_explicit(&m->word, memory_order_relaxed);

    atomic_store_explicit(&m->word, mbuf_word(mbuf_generation(w) + 1, MBUF_FREE, 0, 0),
                          memory_order_release);
    KILL_POINT(MBUF_RELEASED);
    return segment_hint(v, (uint32_t)(m - v->mbufs));
}

/**
 * Giving a segment back. npud says that it is closing and then looks at all words; who has claimed
 * a slot with data looks whether it is closing. One of us sees both, so who takes the hint of a
 * slot and is delayed does not get a slot of a segment that is gone. A slot without data is claimed
 * by who has a reference already: then there is a slot with data that is not free.
 */
static inline bool segment_closing(struct segment_view *v, uint32_t slot)
{
    if (slot >= v->n_data)
        return false;
    atomic_thread_fence(memory_order_seq_cst);
    return atomic_load_explicit(&v->page->closing, memory_order_relaxed) != 0;
}

/**
 * Set aside the first free slot in [from, to), or return `to`: also when the segment is about to
 * go. Takes hints away from slots that turn out not to be free.
 */
static inline uint32_t segment_claim(struct segment_view *v, uint32_t from, uint32_t to,
                                     uint32_t session)
{
    for (uint32_t w = from / 64; w <= (to - 1) / 64 && from < to; w++) {
        uint64_t bits = atomic_load_explicit(&v->page->hint[w], memory_order_acquire);

        while (bits != 0) {
            uint32_t slot = w * 64 + (uint32_t)__builtin_ctzll(bits);
            uint64_t bit = bits & -bits;

            bits &= ~bit;
            if (slot < from || slot >= to)
                continue;
            if (!(atomic_fetch_and_explicit(&v->page->hint[w], ~bit, memory_order_acq_rel) & bit))
                continue;
            KILL_POINT(MBUF_HINT_TAKEN);
            if (!mbuf_claim(&v->mbufs[slot], session))
                continue;
            KILL_POINT(MBUF_CLAIMED);
            if (!__builtin_expect(segment_closing(v, slot), 0))
                return slot;
            mbuf_release(v, &v->mbufs[slot]);
            return to;
        }
    }
    return to;
}

/* --- references --- */

static inline uint64_t mbuf_refs(uint32_t count, uint32_t slot, uint32_t number)
{
    return (uint64_t)count << 48 | (uint64_t)(slot & 0xffff) << 32 | number;
}

static inline uint32_t mbuf_refs_count(uint64_t refs)
{
    return (uint32_t)(refs >> 48);
}

static inline uint32_t mbuf_refs_slot(uint64_t refs)
{
    return (uint32_t)(refs >> 32) & 0xffff;
}

static inline uint64_t mbuf_op(enum mbuf_op op, uint32_t block, uint32_t number)
{
    return (uint64_t)op << 48 | (uint64_t)(block & 0xffff) << 32 | number;
}

static inline enum mbuf_op mbuf_op_of(uint64_t op)
{
    return (enum mbuf_op)(op >> 48 & 3);
}

static inline uint32_t mbuf_op_block(uint64_t op)
{
    return (uint32_t)(op >> 32) & 0xffff;
}

static inline enum mbuf_op mbuf_op_settled(enum mbuf_op op)
{
    return op == MBUF_TAKING ? MBUF_HAS : op == MBUF_DROPPING ? MBUF_HAS_NOT : op;
}

/** Step 1: the change that made `refs` of slot `block` what it is has happened. */
static inline void mbuf_ref_settle(struct segment_view *v, uint32_t block, uint64_t refs)
{
    uint32_t slot = mbuf_refs_slot(refs);
    struct mbuf *m;
    uint64_t op;

    if (slot >= segment_slots(v))
        return;
    m = &v->mbufs[slot];
    op = atomic_load_explicit(&m->op, memory_order_acquire);
    if (op == mbuf_op(MBUF_TAKING, block, (uint32_t)refs) ||
        op == mbuf_op(MBUF_DROPPING, block, (uint32_t)refs))
        atomic_compare_exchange_strong_explicit(
            &m->op, &op, mbuf_op(mbuf_op_settled(mbuf_op_of(op)), block, (uint32_t)refs),
            memory_order_acq_rel, memory_order_relaxed);
}

/** Of mbuf_ref_change(): no change. */
#define MBUF_REF_NONE (-1) /* the count is at its end, or the block is none */
#define MBUF_REF_LOST (-2) /* others change it all the time: somebody plays with it */

/**
 * Slot m, the caller's, begins (MBUF_TAKING) or ends (MBUF_DROPPING) to have the data of slot
 * `block`, which somebody has at this moment, the caller or for him. Returns the count that
 * results, or MBUF_REF_*.
 */
static inline int mbuf_ref_change(struct segment_view *v, struct mbuf *m, uint32_t block,
                                  enum mbuf_op op)
{
    uint32_t slot = (uint32_t)(m - v->mbufs);
    struct mbuf *b;

    if (block >= v->n_data)
        return MBUF_REF_NONE;
    b = &v->mbufs[block];
    for (unsigned tries = 0; tries < SEGMENT_TRIES; tries++) {
        uint64_t refs = atomic_load_explicit(&b->refs, memory_order_acquire);
        uint32_t count = mbuf_refs_count(refs), number = (uint32_t)refs + 1;

        if (count == (op == MBUF_TAKING ? UINT16_MAX : 0))
            return MBUF_REF_NONE;
        count = op == MBUF_TAKING ? count + 1 : count - 1;
        mbuf_ref_settle(v, block, refs);
        KILL_POINT(REF_SETTLED);
        atomic_store_explicit(&m->op, mbuf_op(op, block, number), memory_order_release);
        KILL_POINT(REF_ANNOUNCED);
        /*
         * Steps 1 and 2 are before it for whoever sees the new word; sequentially consistent for
         * mbuf_block_release().
         */
        if (atomic_compare_exchange_strong(&b->refs, &refs, mbuf_refs(count, slot, number))) {
            KILL_POINT(REF_CHANGED);
            atomic_store_explicit(&m->op, mbuf_op(mbuf_op_settled(op), block, number),
                                  memory_order_release);
            KILL_POINT(REF_DONE);
            return (int)count;
        }
        atomic_store_explicit(&m->op,
                              mbuf_op(op == MBUF_TAKING ? MBUF_HAS_NOT : MBUF_HAS, block, number),
                              memory_order_relaxed);
    }
    return MBUF_REF_LOST;
}

/**
 * Slot m without data, which the caller has set aside, becomes one more reference to the data of
 * slot `block`, which the caller has, too. As mbuf_ref_change(); after MBUF_REF_* the slot is still
 * set aside.
 */
static inline int mbuf_refer(struct segment_view *v, struct mbuf *m, uint32_t block)
{
    /* What it had in an earlier life may have been given up in a way that did not get that far. */
    atomic_store_explicit(&m->op, 0, memory_order_relaxed);
    atomic_store_explicit(&m->block, block, memory_order_relaxed);
    return mbuf_ref_change(v, m, block, MBUF_TAKING);
}

/** Whose process is dead: does the slot have its data? Settles its op. */
static inline bool mbuf_ref_resolve(struct segment_view *v, struct mbuf *m)
{
    uint64_t op = atomic_load_explicit(&m->op, memory_order_acquire);
    uint32_t block = mbuf_op_block(op);
    uint32_t slot = (uint32_t)(m - v->mbufs);
    uint64_t refs;

    if (block >= v->n_data)
        return false;
    if (mbuf_op_of(op) == MBUF_TAKING || mbuf_op_of(op) == MBUF_DROPPING) {
        refs = atomic_load_explicit(&v->mbufs[block].refs, memory_order_acquire);
        if (mbuf_refs_slot(refs) == slot && (uint32_t)refs == (uint32_t)op)
            mbuf_ref_settle(v, block, refs);
        /* After refs: had it been changed since ours, ours would be settled by now. */
        op = atomic_load_explicit(&m->op, memory_order_acquire);
        if (mbuf_op_of(op) == MBUF_TAKING)
            atomic_store_explicit(&m->op, mbuf_op(MBUF_HAS_NOT, block, (uint32_t)op),
                                  memory_order_relaxed);
        if (mbuf_op_of(op) == MBUF_DROPPING)
            atomic_store_explicit(&m->op, mbuf_op(MBUF_HAS, block, (uint32_t)op),
                                  memory_order_relaxed);
        op = atomic_load_explicit(&m->op, memory_order_relaxed);
    }
    return mbuf_op_of(op) == MBUF_HAS;
}

/**
 * The block in slot `block` may have lost its last reference, and its own head before: whoever sees
 * both frees it.
 */
static inline void mbuf_block_release(struct segment_view *v, uint32_t block, bool *full)
{
    struct mbuf *b = &v->mbufs[block];
    uint64_t w = atomic_load(&b->word);

    if (mbuf_state(w) != MBUF_BLOCK || mbuf_refs_count(atomic_load(&b->refs)) != 0)
        return;
    KILL_POINT(BLOCK_UNUSED);
    if (atomic_compare_exchange_strong(&b->word, &w,
                                       mbuf_word(mbuf_generation(w) + 1, MBUF_FREE, 0, 0))) {
        KILL_POINT(BLOCK_FREED);
        if (segment_hint(v, block))
            *full = true;
    }
}

/**
 * The caller's slot has data that nobody else ever had: the last change of its count is
 * mbuf_prepare().
 */
static inline bool mbuf_unshared(struct segment_view *v, uint32_t slot)
{
    struct mbuf *m = &v->mbufs[slot];
    uint64_t refs = atomic_load_explicit(&m->refs, memory_order_acquire);

    return slot < v->n_data && refs == mbuf_refs(1, slot, (uint32_t)refs) &&
           atomic_load_explicit(&m->op, memory_order_relaxed) ==
               mbuf_op(MBUF_HAS, slot, (uint32_t)refs);
}

/**
 * The caller owns slot m (in whatever state but FREE): it goes, and its data with it unless others
 * have it. *full is set when segment_hint() said so, or when a slot without data has become free
 * and npud's router may be waiting for one (segment_wanted()). The slot is one buffer: a chain is
 * the caller's business. False: somebody plays with the count of its data, which stays.
 */
static inline bool mbuf_drop(struct segment_view *v, struct mbuf *m, bool *full)
{
    uint32_t slot = (uint32_t)(m - v->mbufs);
    uint64_t op = atomic_load_explicit(&m->op, memory_order_relaxed);
    bool ok = true;
    uint64_t w;

    if (mbuf_unshared(v, slot)) {
        if (mbuf_release(v, m))
            *full = true;
        return true;
    }
    if (mbuf_op_of(op) == MBUF_HAS)
        ok = mbuf_ref_change(v, m, mbuf_op_block(op), MBUF_DROPPING) != MBUF_REF_LOST;
    if (slot < v->n_data) {
        /*
         * Sequentially consistent, as in mbuf_block_release(): who drops the last reference lowers
         * the count and then looks at the word; we change the word and then look at the count. One
         * of us sees both.
         */
        w = atomic_load(&m->word);
        atomic_store(&m->word, mbuf_word(mbuf_generation(w) + 1, MBUF_BLOCK, 0, 0));
        KILL_POINT(BLOCK_LEFT);
        mbuf_block_release(v, slot, full);
        return ok;
    }
    if (mbuf_release(v, m))
        *full = true;
    /*
     * npud says that it wants a slot and looks for one once more; we free one and look whether one
     * is wanted. One of us sees both.
     */
    atomic_thread_fence(memory_order_seq_cst);
    if (__builtin_expect(atomic_load_explicit(&v->page->wanted, memory_order_relaxed) != 0, 0))
        *full = true;
    if (mbuf_op_block(op) < v->n_data)
        mbuf_block_release(v, mbuf_op_block(op), full);
    return ok;
}

/* --- heads --- */

/**
 * A slot that the caller has set aside, and whose data nobody but it has, becomes a buffer of size
 * bytes.
 */
static inline void mbuf_renew(struct mbuf *m, uint64_t size)
{
    atomic_store_explicit(&m->room, size, memory_order_relaxed);
    atomic_store_explicit(&m->length, 0, memory_order_relaxed);
    atomic_store_explicit(&m->next, 0, memory_order_relaxed);
    atomic_store_explicit(&m->count, 1, memory_order_relaxed);
    atomic_store_explicit(&m->user_set, 0, memory_order_relaxed);
}

/**
 * A slot with data that the caller has set aside becomes a buffer of size bytes with one reference,
 * not published yet.
 */
static inline void mbuf_prepare(struct segment_view *v, uint32_t slot, uint64_t size)
{
    struct mbuf *m = &v->mbufs[slot];
    uint64_t refs = atomic_load_explicit(&m->refs, memory_order_acquire);
    uint32_t number = (uint32_t)refs + 1;

    /*
     * Whoever made the last change to the count in an earlier life may be dead and not swept yet:
     * he must not take it for undone.
     */
    if (mbuf_refs_slot(refs) != slot)
        mbuf_ref_settle(v, slot, refs);
    /*
     * In this order also for who is killed in between: without op the count would be nobody's, and
     * never go down again; without the count op is what a block without references is freed by.
     */
    atomic_store_explicit(&m->op, mbuf_op(MBUF_HAS, slot, number), memory_order_relaxed);
    KILL_POINT(MBUF_OWNED);
    atomic_store_explicit(&m->refs, mbuf_refs(1, slot, number), memory_order_release);
    KILL_POINT(MBUF_COUNTED);
    atomic_store_explicit(&m->block, slot, memory_order_relaxed);
    mbuf_renew(m, size);
}

/** What the caller has set aside, or has prepared, is session's from here on. Returns the word. */
static inline uint64_t mbuf_hold(struct mbuf *m, uint32_t session)
{
    uint64_t w = atomic_load_explicit(&m->word, memory_order_relaxed);

    w = mbuf_word_held(mbuf_generation(w) + 1, session);
    /* release: npud must not find a head whose reference is that of an earlier life */
    atomic_store_explicit(&m->word, w, memory_order_release);
    return w;
}
