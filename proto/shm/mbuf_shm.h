/*
 * Shared buffers (mbufs) in shared memory.
 *
 * A pool belongs to one session and consists of segments. A segment is a sealed memfd. It is mapped
 * read-write by its owner, by npud, and by every session that attached a queue whose readers may
 * map the segment:
 *
 *     struct segment_page   one hint bit per slot
 *     struct mbuf           n_data slots with data of `stride` bytes each, then n_refs slots
 *                           without, for references
 *     data                  page aligned, stride * n_data bytes
 *
 * What npud says of the segment stands in a memfd of its own, struct segment_news, which only npud
 * can write: the sessions that map the segment have it read-only.
 *
 * A buffer's name is its ref: segment id << 16 | slot. npud gives out the ids. At any moment each
 * names one segment, and none is 0.
 *
 * The word of a slot names its owner, and nothing else does: lists and hints may be wrong. Every
 * change of the owner is one compare-and-swap of the word, or one store of the only owner.
 *
 *     FREE                 no owner
 *     CACHED  session      set aside by a session that allocates; a cache of its threads knows it
 *     HELD    session      a head: the session has a handle of it
 *     SENDING session, q   on its way through queue q: being put there by the session, or in the
 *                          ring, or taken and not committed (queue_shm.h)
 *     MEMBER  ref          of the chain with this head; the owner of the head owns it. Links only
 *                          tell the order
 *     BLOCK                its own head is gone, but references to its data are not
 *
 * The generation goes up whenever a slot gets a new holder, so that a handle made for an earlier
 * one is recognised. Sessions are named by their peer id (HelloReply.peer); npud itself is 0.
 *
 * How slots share data: mbuf_ref.h.
 *
 * Trust: a process that maps a segment can write anything there, and damages the buffers that were
 * shared with it. Honest sessions write as above. npud and receivers check what they read: numbers
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
#define SEGMENT_TRIES  4096u /* of a loop that peers can disturb: more mean a hostile peer */
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

/* Of a slot on the count of its block. */
enum mbuf_op {
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
    _Atomic uint32_t block;    /* slot whose data this is; while the slot is owned, that of op */
    _Atomic uint32_t next;     /* ref of the next in the chain; 0: none */
    _Atomic uint32_t tail;     /* head: ref of the last in the chain */
    _Atomic uint32_t count;    /* head: buffers in the chain */
    _Atomic uint32_t user_set; /* 0: the user data counts as zero */
    alignas(64) unsigned char user[MBUF_USER];
};
static_assert(sizeof(struct mbuf) == 192,
              "what a hand-over touches is one cache line; user data two more");

struct segment_page {
    alignas(64) _Atomic uint64_t hint[SEGMENT_SLOTS / 64]; /* bit: the slot may be free */
};

/**
 * Written by npud alone. npud itself reads `dead` only, where segment_get() serves both sides, and
 * decides nothing by it: a segment that is dead has left npud's table before.
 */
struct segment_news {
    _Atomic uint32_t dead;    /* given back: this mapping is of no use any more */
    _Atomic uint32_t closing; /* npud is looking whether everything is free: segment_claim() */
    /* not to be allocated from: a peer maps it that should not see new data */
    _Atomic uint32_t draining;
    _Atomic uint32_t look_due; /* npud is going to look whether it is free: no need to tell */
    /*
     * Not 0: npud's router waits for a slot without data: tell it, see segment_slot_wanted().
     * Another number each time that the router has looked and found none.
     */
    _Atomic uint32_t slot_wanted;
};

/** A segment as one process has it mapped; private to it. Written before it is found by others. */
struct segment_view {
    struct segment_page *page;
    struct segment_news *news; /* npud: writable */
    struct mbuf *mbufs;
    unsigned char *data; /* NULL: not mapped here (npud) */
    uint64_t stride;     /* multiple of 64 */
    /* of the segment, in all of npud's life: an id that is used again names another number */
    uint64_t number;
    uint32_t n_data;
    uint32_t n_refs;
    uint32_t id;
    /* client: class of its buffers when threads may keep its slots. Here for the cache line */
    uint32_t cached;
    _Atomic uint32_t told; /* the last slot_wanted that this process has told npud of */
};
static_assert(offsetof(struct segment_view, told) == 64,
              "allocating and freeing read one cache line of it");

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
 * Fill the addresses of a view but that of news, from where its memfd is mapped: all of it, or only
 * up to the data.
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
 * another's. That says nothing about whether the words there are FREE: a reader that takes a dead
 * segment for the one that is meant finds every buffer in it free.
 */
static inline struct segment_view *segment_get(struct segment_table *t, uint32_t ref)
{
    struct segment_view *v = atomic_load_explicit(&t->view[ref >> 16], memory_order_acquire);

    return v && atomic_load_explicit(&v->news->dead, memory_order_relaxed) == 0 ? v : NULL;
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
 * Set the hint of a slot that was made FREE. True: the slots that share its hint word are all free,
 * as far as hints go.
 */
static inline bool segment_hint(struct segment_view *v, uint32_t slot)
{
    uint64_t bit = UINT64_C(1) << slot % 64;

    return (atomic_fetch_or_explicit(&v->page->hint[slot / 64], bit, memory_order_release) | bit) ==
           UINT64_MAX;
}

/**
 * mbuf_drop() said *full: is that because npud's router waits for a slot here? Then the caller
 * tells npud (TrimSegment); only one caller in each process gets true.
 */
static inline bool segment_slot_wanted(struct segment_view *v)
{
    uint32_t wanted = atomic_load_explicit(&v->news->slot_wanted, memory_order_relaxed);

    return wanted != 0 && atomic_exchange(&v->told, wanted) != wanted;
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
 * Giving a segment back. npud sets `closing` and then looks at all words; a process that has
 * claimed a slot with data then looks at `closing`. One of the two sees both, so a process that
 * takes the hint of a slot and is delayed gets no slot of a segment that is gone. A slot without
 * data needs no such look: its claimer has a reference already, so a slot with data is not free.
 */
static inline bool segment_closing(struct segment_view *v, uint32_t slot)
{
    if (slot >= v->n_data)
        return false;
    atomic_thread_fence(memory_order_seq_cst);
    return atomic_load_explicit(&v->news->closing, memory_order_relaxed) != 0;
}

/* segment_claim(). *full as of mbuf_drop(), if the slot goes back: npud finds the others free. */
static inline uint32_t segment_claim_or_leave(struct segment_view *v, uint32_t from, uint32_t to,
                                              uint32_t session, bool *full)
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
            if (mbuf_release(v, &v->mbufs[slot]))
                *full = true;
            return to;
        }
    }
    return to;
}

/**
 * Set aside the first free slot in [from, to), or return `to`. Takes hints away from slots that
 * turn out not to be free.
 */
static inline uint32_t segment_claim(struct segment_view *v, uint32_t from, uint32_t to,
                                     uint32_t session)
{
    bool full = false;

    return segment_claim_or_leave(v, from, to, session, &full);
}

/**
 * Set aside a free slot with data, the first one from `from` on, or else the first one of all. Or
 * return n_data: also when the segment is about to go. npud may have found the slot set aside, and
 * not give the segment back: the caller tells npud, as after mbuf_drop(), if that said *full.
 */
static inline uint32_t segment_claim_data(struct segment_view *v, uint32_t from, uint32_t session,
                                          bool *full)
{
    uint32_t slot = segment_claim_or_leave(v, from, v->n_data, session, full);

    if (slot < v->n_data)
        return slot;
    slot = segment_claim_or_leave(v, 0, from, session, full);
    return slot < from ? slot : v->n_data;
}
