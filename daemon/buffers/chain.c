#include "daemon/buffers/chain.h"

#include <string.h>

#include "daemon/base/kill_here.h"
#include "daemon/buffers/segment.h"
#include "daemon/core/server.h"
#include "proto/shm/mbuf_chain.h"
#include "proto/shm/mbuf_ref.h"

bool chain_find_held(struct server *server, uint32_t ref, struct mbuf_ref *m)
{
    return mbuf_chain_find(segments_table(server), ref, m) && mbuf_state(m->word) == MBUF_HELD &&
           mbuf_session(m->word) == PEER_NPUD;
}

static void add_member(struct chain *chain, const struct mbuf_ref *m)
{
    chain->member[chain->n++] = (struct chain_member){
        .view = m->view, .mbuf = m->mbuf, .segment = (struct segment *)m->view, .ref = m->ref};
    chain->bytes += m->view->stride;
}

bool chain_read(struct server *server, uint32_t head, struct chain *chain)
{
    struct segment_table *table = segments_table(server);
    struct mbuf_ref at;
    uint32_t n = 0;

    chain->n = 0;
    chain->bytes = 0;
    if (!chain_find_held(server, head, &at))
        return false;
    do
        add_member(chain, &at);
    while (mbuf_chain_next(table, head, &at, &n));
    return true;
}

/* --- freeing --- */

void chain_drop_slot(struct segment *s, struct mbuf *m)
{
    bool full = false;

    if (s->damaged)
        return;
    mbuf_ref_resolve(&s->view, m);
    if (!mbuf_drop(&s->view, m, &full))
        segment_damage(s);
    if (full || s->n_maps == 0)
        segment_freed(s);
}

/*
 * The members that can be reached, of any segment, then the head: a member without a head would
 * never be freed.
 */
void chain_drop(struct server *server, struct segment *s, struct mbuf *head)
{
    uint32_t ref = mbuf_ref(&s->view, head);
    uint32_t next = atomic_load_explicit(&head->next, memory_order_relaxed);
    struct mbuf_ref m;

    /* Not mbuf_chain_next(): whether the next is a member counts after this one was dropped. */
    for (uint32_t i = 1; i < MBUF_CHAIN_MAX && next != 0; i++) {
        if (!mbuf_chain_find(segments_table(server), next, &m) || !mbuf_chain_has(&m, ref))
            break;
        next = atomic_load_explicit(&m.mbuf->next, memory_order_relaxed);
        chain_drop_slot((struct segment *)m.view, m.mbuf);
    }
    KILL_HERE(CHAIN_DROPPED);
    chain_drop_slot(s, head);
}

void chain_free(struct server *server, uint32_t ref)
{
    struct mbuf_ref m;

    if (chain_find_held(server, ref, &m))
        chain_drop(server, (struct segment *)m.view, m.mbuf);
}

/* --- references --- */

static uint32_t take_slot(struct segment_view *v)
{
    return segment_claim(v, v->n_data, segment_slots(v), PEER_NPUD);
}

/*
 * A free slot without data, or 0. If there is none, the client that frees the next one is to tell
 * npud: npud sets `slot_wanted` and looks once more, the client frees the slot and then reads
 * `slot_wanted`.
 */
static uint32_t claim_slot(struct segment_view *v)
{
    uint32_t slot = take_slot(v);

    if (slot != segment_slots(v))
        return slot;
    segment_want_slot((struct segment *)v);
    atomic_thread_fence(memory_order_seq_cst);
    slot = take_slot(v);
    return slot != segment_slots(v) ? slot : 0;
}

/* A reference to the data of member `from`, set aside for npud. */
static enum chain_result copy_member(const struct chain_member *from, struct chain_member *to)
{
    struct mbuf *old = from->mbuf, *m;
    uint32_t slot = claim_slot(from->view);
    uint32_t user_set;

    if (slot == 0)
        return CHAIN_NO_SLOT;
    /* The look may have passed the slot already. */
    segment_look_ends(from->segment);
    m = &from->view->mbufs[slot];
    *to = *from;
    to->mbuf = m;
    to->ref = mbuf_ref(from->view, m);
    if (mbuf_refer(from->view, m, atomic_load_explicit(&old->block, memory_order_relaxed)) < 0) {
        mbuf_release(from->view, m);
        return CHAIN_DAMAGED;
    }
    KILL_HERE(SLOT_REFERS);
    atomic_store_explicit(&m->room, atomic_load_explicit(&old->room, memory_order_relaxed),
                          memory_order_relaxed);
    atomic_store_explicit(&m->length, atomic_load_explicit(&old->length, memory_order_relaxed),
                          memory_order_relaxed);
    user_set = atomic_load_explicit(&old->user_set, memory_order_relaxed);
    atomic_store_explicit(&m->user_set, user_set, memory_order_relaxed);
    if (user_set)
        memcpy(m->user, old->user, sizeof(m->user));
    atomic_store_explicit(&m->next, 0, memory_order_relaxed);
    return CHAIN_OK;
}

/* The head is held first, so that its members name a held head. No client knows any of them yet. */
static void link_members(struct chain *copy)
{
    struct chain_member *head = &copy->member[0];

    atomic_store_explicit(&head->mbuf->count, copy->n, memory_order_relaxed);
    atomic_store_explicit(&head->mbuf->tail, copy->member[copy->n - 1].ref, memory_order_relaxed);
    mbuf_hold(head->mbuf, PEER_NPUD);
    KILL_HERE(CHAIN_HELD);
    for (uint32_t i = 1; i < copy->n; i++) {
        struct mbuf *m = copy->member[i].mbuf;
        uint64_t w = atomic_load_explicit(&m->word, memory_order_relaxed);

        atomic_store_explicit(&m->word, mbuf_word_member(mbuf_generation(w) + 1, head->ref),
                              memory_order_release);
        atomic_store_explicit(&copy->member[i - 1].mbuf->next, copy->member[i].ref,
                              memory_order_relaxed);
    }
}

enum chain_result chain_copy(const struct chain *chain, uint32_t *ref)
{
    static struct chain copy; /* 5 KiB; one control thread */
    bool full;

    for (copy.n = 0; copy.n < chain->n; copy.n++) {
        enum chain_result r = copy_member(&chain->member[copy.n], &copy.member[copy.n]);

        if (r == CHAIN_OK)
            continue;
        *ref = chain->member[copy.n].ref;
        while (copy.n-- > 0)
            mbuf_drop(copy.member[copy.n].view, copy.member[copy.n].mbuf, &full);
        return r;
    }
    link_members(&copy);
    *ref = copy.member[0].ref;
    return CHAIN_OK;
}

/*
 * Are so many slots without data free? Stops counting when it has seen enough: mostly that is one
 * word of hints.
 */
static bool has_free_slots(const struct segment_view *v, uint64_t n)
{
    uint32_t to = segment_slots(v);
    uint64_t found = 0;

    for (uint32_t w = v->n_data / 64; w <= (to - 1) / 64 && found < n; w++) {
        uint64_t bits = atomic_load_explicit(&v->page->hint[w], memory_order_relaxed);

        if (w == v->n_data / 64)
            bits &= UINT64_MAX << v->n_data % 64;
        if (w == to / 64)
            bits &= ~(UINT64_MAX << to % 64);
        found += (uint64_t)__builtin_popcountll(bits);
    }
    return found >= n;
}

bool chain_has_room(const struct chain *chain, uint32_t copies)
{
    for (uint32_t i = 0, n; i < chain->n; i += n) {
        const struct segment_view *v = chain->member[i].view;

        for (n = 1; i + n < chain->n && chain->member[i + n].view == v; n++)
            ;
        if (!has_free_slots(v, (uint64_t)n * copies))
            return false;
    }
    return true;
}
