/*
 * References between buffers (mbuf_shm.h): how a slot begins and ends to have the data of another.
 *
 * Data belongs to slot `block` of the same segment (a slot's own, unless it is a reference). The
 * word `refs` of that slot counts the heads that have the data. A count alone does not tell which
 * process raised it before it was killed. So the word also names the slot for which it was changed
 * last, and a sequence number; and that slot's `op` says of which block, and with which number, the
 * slot means to change the count. Changing refs:
 *   1. commit the last change: move op of that slot from TAKING to HAS, or DROPPING to HAS_NOT, if
 *      it has this block and number;
 *   2. store the own op with the next number;
 *   3. compare-and-swap refs to the new count, the own slot, the next number;
 *   4. commit the own op.
 * A process is killed between 2 and 4: the change has happened exactly if refs names the slot and
 * the number, or if the op is committed already, because no process changes refs again without
 * committing the last change first (mbuf_ref_resolve()).
 *
 * A process that commits for another may be delayed for any time. That is harmless, because the
 * numbers of a block never come again: the op that it finds then is that of the change, or has
 * another number.
 *
 * Which block a slot has is in its op, and not beside it: a process that dies between two stores
 * would have dropped the data of another slot.
 */
#pragma once

#include "proto/shm/mbuf_shm.h"

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

static inline enum mbuf_op mbuf_op_committed(enum mbuf_op op)
{
    return op == MBUF_TAKING ? MBUF_HAS : op == MBUF_DROPPING ? MBUF_HAS_NOT : op;
}

/** Step 1: the change that made `refs` of slot `block` what it is has happened. */
static inline void mbuf_ref_commit(struct segment_view *v, uint32_t block, uint64_t refs)
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
            &m->op, &op, mbuf_op(mbuf_op_committed(mbuf_op_of(op)), block, (uint32_t)refs),
            memory_order_acq_rel, memory_order_relaxed);
}

/** Of mbuf_ref_change(): no change. */
#define MBUF_REF_NONE (-1) /* the count is at its end, or the block is none */
#define MBUF_REF_LOST (-2) /* others change it all the time: a hostile peer */

/**
 * Slot m, the caller's, begins (MBUF_TAKING) or ends (MBUF_DROPPING) to have the data of slot
 * `block`, which the caller has at this moment, or another slot has on its behalf. Returns the
 * count that results, or MBUF_REF_*.
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
        mbuf_ref_commit(v, block, refs);
        KILL_POINT(REF_COMMITTED);
        atomic_store_explicit(&m->op, mbuf_op(op, block, number), memory_order_release);
        KILL_POINT(REF_ANNOUNCED);
        /*
         * A process that sees the new word sees steps 1 and 2, too; sequentially consistent for
         * mbuf_block_release().
         */
        if (atomic_compare_exchange_strong(&b->refs, &refs, mbuf_refs(count, slot, number))) {
            KILL_POINT(REF_CHANGED);
            atomic_store_explicit(&m->op, mbuf_op(mbuf_op_committed(op), block, number),
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
    /* The holder of an earlier life may have died before it cleared the op. */
    atomic_store_explicit(&m->op, 0, memory_order_relaxed);
    atomic_store_explicit(&m->block, block, memory_order_relaxed);
    return mbuf_ref_change(v, m, block, MBUF_TAKING);
}

/** The process of slot m is dead: does the slot have its data? Commits its op. */
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
            mbuf_ref_commit(v, block, refs);
        /* After refs: had it been changed since ours, ours would be committed by now. */
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
 * The block in slot `block` may have lost its last reference, and its own head before: the process
 * that sees both frees it.
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
 * The caller's slot, one with data, has data that no other slot ever had: the last change of its
 * count is mbuf_prepare().
 */
static inline bool mbuf_unshared(struct mbuf *m, uint32_t slot)
{
    uint64_t refs = atomic_load_explicit(&m->refs, memory_order_acquire);

    return atomic_load_explicit(&m->op, memory_order_relaxed) == refs &&
           refs >> 32 == mbuf_refs(1, slot, 0) >> 32;
}
static_assert(MBUF_HAS == 1, "op of a slot with its own data reads as a count of 1");

/**
 * The caller owns slot m (in whatever state but FREE): it goes, and its data with it unless others
 * have it. *full is set when segment_hint() said so, or when a slot without data has become free
 * and npud's router may be waiting for one (segment_slot_wanted()). The slot is one buffer: of a
 * chain, the caller drops each. False: a hostile peer changes the count of its data, which stays.
 */
static inline bool mbuf_drop(struct segment_view *v, struct mbuf *m, bool *full)
{
    uint32_t slot = (uint32_t)(m - v->mbufs);
    uint64_t op = atomic_load_explicit(&m->op, memory_order_relaxed);
    bool ok = true;
    uint64_t w;

    if (slot < v->n_data && mbuf_unshared(m, slot)) {
        if (mbuf_release(v, m))
            *full = true;
        return true;
    }
    if (mbuf_op_of(op) == MBUF_HAS)
        ok = mbuf_ref_change(v, m, mbuf_op_block(op), MBUF_DROPPING) != MBUF_REF_LOST;
    if (slot < v->n_data) {
        /*
         * Sequentially consistent, as in mbuf_block_release(): the process that drops the last
         * reference lowers the count and then looks at the word; we change the word and then look
         * at the count. One of the two sees both.
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
    if (__builtin_expect(atomic_load_explicit(&v->news->slot_wanted, memory_order_relaxed) != 0, 0))
        *full = true;
    if (mbuf_op_block(op) < v->n_data)
        mbuf_block_release(v, mbuf_op_block(op), full);
    return ok;
}

/* --- heads --- */

/**
 * A slot that the caller has set aside, and whose data no other slot has, becomes a buffer of size
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
     * The process that made the last change to the count in an earlier life may be dead and not
     * swept yet: the sweep must not take the change for undone.
     */
    if (mbuf_refs_slot(refs) != slot)
        mbuf_ref_commit(v, slot, refs);
    /*
     * In this order, because the caller may be killed in between. With the count and without op,
     * the count would have no slot and never go down again; with op and without the count, the
     * block without references is freed by its op.
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
