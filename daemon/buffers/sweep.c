#include "daemon/buffers/sweep.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "daemon/buffers/pool.h"
#include "daemon/buffers/queue.h"
#include "daemon/buffers/router.h"
#include "daemon/buffers/segment.h"
#include "daemon/buffers/peer.h"
#include "daemon/core/server.h"
#include "daemon/core/session.h"
#include "proto/shm/mbuf_chain.h"
#include "proto/shm/mbuf_ref.h"

bool segment_touched(const struct segment *segment, uint32_t *from, uint32_t *to)
{
    const off_t heads = (off_t)segment_mbufs_offset(), size = sizeof(struct mbuf);
    uint32_t slots = segment_slots(&segment->view);
    off_t data, hole;

    if (*from >= slots)
        return false;
    data = lseek(segment->fd, heads + (off_t)*from * size, SEEK_DATA);
    if (data < 0 && errno == ENXIO)
        return false;
    hole = data < 0 ? -1 : lseek(segment->fd, data, SEEK_HOLE);
    *to = slots;
    if (hole < 0)
        return true;
    /* Words count, which are where their slot begins. */
    *from = data > heads ? (uint32_t)((data - heads + size - 1) / size) : 0;
    if ((hole - heads + size - 1) / size < slots)
        *to = (uint32_t)((hole - heads + size - 1) / size);
    return *from < slots;
}

/* --- freeing --- */

/* One slot, of whose word the caller has seen that it may. */
static void drop(struct segment *s, struct mbuf *m)
{
    bool full = false;

    if (s->damaged)
        return;
    mbuf_ref_resolve(&s->view, m);
    if (!mbuf_drop(&s->view, m, &full))
        s->damaged = true;
    if (full || s->n_maps == 0)
        segment_freed(s);
}

/*
 * The members that can be reached, of any segment, then the head: a member without head would be
 * nobody's.
 */
static void drop_chain(struct server *server, struct segment *s, struct mbuf *head)
{
    uint32_t ref = mbuf_ref(&s->view, head);
    uint32_t next = atomic_load_explicit(&head->next, memory_order_relaxed);
    struct mbuf_ref m;

    /* Not mbuf_chain_next(): whether the next is a member counts after this one was dropped. */
    for (uint32_t i = 1; i < MBUF_CHAIN_MAX && next != 0; i++) {
        if (!mbuf_chain_find(segments_table(server), next, &m) || !mbuf_chain_has(&m, ref))
            break;
        next = atomic_load_explicit(&m.mbuf->next, memory_order_relaxed);
        drop((struct segment *)m.view, m.mbuf);
    }
    drop(s, head);
}

void mbuf_free_chain(struct server *server, uint32_t ref)
{
    struct mbuf_ref m;

    if (mbuf_chain_find(segments_table(server), ref, &m) && mbuf_state(m.word) == MBUF_HELD &&
        mbuf_session(m.word) == PEER_NPUD)
        drop_chain(server, (struct segment *)m.view, m.mbuf);
}

/* --- sweeping --- */

struct sweep {
    struct server *server;
    uint32_t dead; /* peer number */
    bool members;  /* there are members of chains somewhere */
};

typedef void visit_fn(struct sweep *sweep, struct segment *s, struct mbuf *m, uint64_t word);

static void visit_slots(struct sweep *sweep, struct segment *s, visit_fn *visit)
{
    struct mbuf *m;

    for (uint32_t from = 0, to; segment_touched(s, &from, &to); from = to)
        for (; from < to; from++) {
            m = &s->view.mbufs[from];
            visit(sweep, s, m, atomic_load_explicit(&m->word, memory_order_acquire));
        }
}

/* It was on its way, and in no ring: not put. It is dropped with what the session holds. */
static void take_back(struct sweep *sweep, struct segment *s, struct mbuf *m, uint64_t word)
{
    struct queue *queue = queue_by_number(sweep->server, mbuf_queue(word));

    if (!queue || !queue_has(queue, mbuf_ref(&s->view, m)))
        atomic_compare_exchange_strong(&m->word, &word,
                                       mbuf_word_held(mbuf_generation(word) + 1, sweep->dead));
}

static void look_at(struct sweep *sweep, struct segment *s, struct mbuf *m, uint64_t word)
{
    bool full = false;

    switch (mbuf_state(word)) {
    case MBUF_SENDING:
        if (mbuf_session(word) == sweep->dead)
            take_back(sweep, s, m, word);
        break;
    case MBUF_MEMBER:
        sweep->members = true;
        break;
    case MBUF_BLOCK:
        mbuf_block_release(&s->view, (uint32_t)(m - s->view.mbufs), &full);
        break;
    default:
        break;
    }
    if (full)
        segment_freed(s);
}

/* Also those that no link leads to. */
static void drop_member(struct sweep *sweep, struct segment *s, struct mbuf *m, uint64_t word)
{
    struct mbuf_ref head;

    if (mbuf_state(word) != MBUF_MEMBER)
        return;
    if (mbuf_chain_find(segments_table(sweep->server), mbuf_head(word), &head) &&
        mbuf_state(head.word) == MBUF_HELD && mbuf_session(head.word) == sweep->dead)
        drop(s, m);
}

static void drop_own(struct sweep *sweep, struct segment *s, struct mbuf *m, uint64_t word)
{
    if (mbuf_session(word) != sweep->dead)
        return;
    if (mbuf_state(word) == MBUF_HELD)
        drop_chain(sweep->server, s, m);
    else if (mbuf_state(word) == MBUF_CACHED)
        drop(s, m);
}

/*
 * Free slots whose hint was taken by who did not get to take the slot, or who freed it and did not
 * get to say so. A hint too many does no harm: there are those who are between the two at this
 * moment and alive.
 */
static void restore_hints(struct segment *s)
{
    uint32_t slots = segment_slots(&s->view);
    bool full = false;

    for (uint32_t w = 0; w < (slots + 63) / 64; w++) {
        uint64_t none = ~atomic_load_explicit(&s->view.page->hint[w], memory_order_relaxed);

        for (; none != 0; none &= none - 1) {
            uint32_t slot = w * 64 + (uint32_t)__builtin_ctzll(none);

            if (slot >= slots || mbuf_state(atomic_load_explicit(
                                     &s->view.mbufs[slot].word, memory_order_acquire)) == MBUF_FREE)
                full |= segment_hint(&s->view, slot);
        }
    }
    if (full)
        segment_freed(s);
}

static void visit_segments(struct sweep *sweep, struct peer *peer, visit_fn *visit)
{
    for (struct segment_map *map = peer->maps, *next; map; map = next) {
        next = map->hh.next;
        visit_slots(sweep, map->segment, visit);
    }
}

void peer_sweep(struct peer *peer)
{
    struct sweep sweep = {.server = peer->server, .dead = peer->number};

    /*
     * In this order: who is head of a chain must be known before members are asked, and members
     * need their head to be found.
     */
    visit_segments(&sweep, peer, look_at);
    if (sweep.members)
        visit_segments(&sweep, peer, drop_member);
    visit_segments(&sweep, peer, drop_own);
    for (struct segment_map *map = peer->maps; map; map = map->hh.next)
        restore_hints(map->segment);
}

/* --- is it needed --- */

/* Segments of which the router has something at this moment, once somebody has asked. */
static struct {
    bool known;
    uint64_t bits[SEGMENT_IDS / 64];
} routed;

/*
 * Does the router have this head, or one from the same segment? Words say so to whoever writes
 * them.
 */
static bool router_may_have(struct server *server, uint32_t ref)
{
    uint32_t id = ref >> 16;

    if (!routed.known) {
        memset(routed.bits, 0, sizeof(routed.bits));
        router_holdings(server, routed.bits);
        routed.known = true;
    }
    return routed.bits[id / 64] >> id % 64 & 1;
}

/*
 * Of an orphan: the session lives and may have it; if not, then what the word says is a leftover,
 * or a lie.
 */
static bool may_have(const struct segment *s, uint32_t number)
{
    struct session *session = peer_session(s->pool->server, number);

    return session && segment_maps(session, (struct segment *)s);
}

static bool is_held(const struct segment *s, uint32_t ref, uint64_t word)
{
    return mbuf_session(word) == PEER_NPUD ? router_may_have(s->pool->server, ref)
                                           : may_have(s, mbuf_session(word));
}

/* On its way to a ring, or in one that the segment feeds. */
static bool is_sent(const struct segment *s, uint32_t ref, uint64_t word)
{
    struct queue *queue = queue_by_number(s->pool->server, mbuf_queue(word));

    return may_have(s, mbuf_session(word)) ||
           (queue && queue_fed(queue, s) && queue_has(queue, ref));
}

/*
 * Whoever has the head has the members: so he has their segments mapped, or what carries them is
 * fed by these.
 */
static bool has_head(struct segment *s, uint64_t word)
{
    struct mbuf_ref head;

    if (!mbuf_chain_find(segments_table(s->pool->server), mbuf_head(word), &head))
        return false;
    if (mbuf_state(head.word) == MBUF_HELD
            ? is_held(s, head.ref, head.word)
            : mbuf_state(head.word) == MBUF_SENDING && is_sent(s, head.ref, head.word))
        return true;
    /*
     * A head that changes hands while npud looks has an owner, and its members have not heard of
     * that yet.
     */
    return atomic_load(&head.mbuf->word) != head.word;
}

static bool somebodys(struct segment *s, const struct mbuf *m, uint64_t word)
{
    switch (mbuf_state(word)) {
    case MBUF_CACHED:
        return may_have(s, mbuf_session(word));
    case MBUF_HELD:
        return is_held(s, mbuf_ref(&s->view, m), word);
    case MBUF_SENDING:
        return is_sent(s, mbuf_ref(&s->view, m), word);
    case MBUF_MEMBER:
        return has_head(s, word);
    case MBUF_BLOCK:
        /*
         * Who has a reference to it is a slot that is somebody's: but that may change hands while
         * we look.
         */
        return s->n_maps > s->n_left && mbuf_refs_count(atomic_load(&m->refs)) > 0;
    default:
        return false;
    }
}

/*
 * What a process holds whose session has ended must not be another's while it lives, but that keeps
 * only the slot from being used again, and not the segment from being given back: the memory of a
 * segment is never used for another. Messages that others may still take do keep it.
 */
static bool is_left(struct segment *s, const struct mbuf *m, uint64_t word)
{
    struct mbuf_ref head;

    if (s->n_left == 0)
        return false;
    switch (mbuf_state(word)) {
    case MBUF_CACHED:
    case MBUF_HELD:
        return segment_left(s, mbuf_session(word));
    case MBUF_SENDING:
        return segment_left(s, mbuf_session(word)) && !is_sent(s, mbuf_ref(&s->view, m), word);
    case MBUF_MEMBER:
        return mbuf_chain_find(segments_table(s->pool->server), mbuf_head(word), &head) &&
               mbuf_state(head.word) == MBUF_HELD &&
               segment_left((struct segment *)head.view, mbuf_session(head.word));
    default:
        return false;
    }
}

/* The word again, at last: if it has changed then somebody is at work there. */
static bool slot_unused(struct segment *s, const struct mbuf *m)
{
    uint64_t word = atomic_load(&m->word);

    if (mbuf_state(word) == MBUF_FREE)
        return true;
    if (s->pool->session ? !is_left(s, m, word) : somebodys(s, m, word))
        return false;
    return atomic_load(&m->word) == word;
}

bool segment_unused(struct segment *s)
{
    routed.known = false;
    for (uint32_t from = 0, to; segment_touched(s, &from, &to); from = to)
        for (; from < to; from++)
            if (!slot_unused(s, &s->view.mbufs[from]))
                return false;
    return true;
}
