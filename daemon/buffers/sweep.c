#include "daemon/buffers/sweep.h"

#include <stdbool.h>
#include <utlist.h>

#include "daemon/base/kill_here.h"
#include "daemon/buffers/chain.h"
#include "daemon/buffers/peer.h"
#include "daemon/buffers/pool.h"
#include "daemon/buffers/queue.h"
#include "daemon/buffers/queue_rest.h"
#include "daemon/buffers/queue_sweep.h"
#include "daemon/buffers/segment.h"
#include "daemon/core/server.h"
#include "proto/shm/mbuf_chain.h"
#include "proto/shm/mbuf_ref.h"

/* Of a segment, in one go: some ten microseconds, if npud has nothing to do there. */
#define PIECE_SLOTS  1024u
#define COST_OF_HOLE 64u /* system calls: where does memory begin again? */

struct sweep {
    struct server *server;
    uint32_t dead;                       /* peer number */
    bool *members;                       /* there are members of chains somewhere */
    bool waits;                          /* for the end of a move, to know what is in the ring */
    bool (*is_of_message)(uint32_t ref); /* of npud: not this head; NULL: of a session */
};

typedef void visit_fn(struct sweep *sweep, struct segment *s, struct mbuf *m, uint64_t word);

/* May a visit take long? A pass over a ring, or a chain of buffers to be dropped. */
static bool is_long(uint64_t word)
{
    return mbuf_state(word) == MBUF_SENDING || mbuf_state(word) == MBUF_HELD;
}

/* Some slots from *from on. True: there are no more. */
static bool visit_slots(struct sweep *sweep, struct segment *s, uint32_t *from, visit_fn *visit)
{
    uint32_t cost = 0;

    for (uint32_t to; segment_touched(s, from, &to); cost += COST_OF_HOLE)
        while (*from < to) {
            struct mbuf *m = &s->view.mbufs[*from];
            uint64_t word = atomic_load_explicit(&m->word, memory_order_acquire);

            if (cost++ >= PIECE_SLOTS)
                return false;
            visit(sweep, s, m, word);
            if (sweep->waits)
                return false;
            ++*from;
            if (is_long(word) && schedule_late(&sweep->server->schedule))
                return false;
        }
    return true;
}

/* It was on its way, and in no ring: not put. It is dropped with what the session holds. */
static void take_back(struct sweep *sweep, struct segment *s, struct mbuf *m, uint64_t word)
{
    struct queue *queue = queue_by_number(sweep->server, mbuf_queue(word));

    sweep->waits = queue_moves_from(sweep->server->queues, mbuf_queue(word));
    if (sweep->waits) {
        /* What npud has put is among what is moved. */
        sweep->waits = !sweep->is_of_message;
        return;
    }
    if (!queue || !queue_sweep_has(queue, mbuf_ref(&s->view, m), sweep->dead))
        atomic_compare_exchange_strong(&m->word, &word,
                                       mbuf_word_held(mbuf_generation(word) + 1, sweep->dead));
    KILL_HERE(SLOT_TAKEN_BACK);
}

static void look_at_slot(struct sweep *sweep, struct segment *s, struct mbuf *m, uint64_t word)
{
    bool full = false;

    switch (mbuf_state(word)) {
    case MBUF_SENDING:
        if (mbuf_session(word) == sweep->dead)
            take_back(sweep, s, m, word);
        break;
    case MBUF_MEMBER:
        *sweep->members = true;
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

/* Of a head that is the dead one's: is it to be dropped? */
static bool is_left(const struct sweep *sweep, uint32_t head)
{
    return !sweep->is_of_message || !sweep->is_of_message(head);
}

/* Also those that no link leads to. */
static void drop_member(struct sweep *sweep, struct segment *s, struct mbuf *m, uint64_t word)
{
    struct mbuf_ref head;

    if (mbuf_state(word) != MBUF_MEMBER)
        return;
    if (mbuf_chain_find(segments_table(sweep->server), mbuf_head(word), &head) &&
        mbuf_state(head.word) == MBUF_HELD && mbuf_session(head.word) == sweep->dead &&
        is_left(sweep, head.ref))
        chain_drop_slot(s, m);
}

static void drop_own(struct sweep *sweep, struct segment *s, struct mbuf *m, uint64_t word)
{
    if (mbuf_session(word) != sweep->dead)
        return;
    if (mbuf_state(word) == MBUF_HELD && is_left(sweep, mbuf_ref(&s->view, m)))
        chain_drop(sweep->server, s, m);
    else if (mbuf_state(word) == MBUF_CACHED)
        chain_drop_slot(s, m);
}

/*
 * Restores the hint bits that a client lost by dying between clearing the bit and claiming the
 * slot, or between freeing the slot and setting the bit. A spurious bit is harmless: live clients
 * are between the two at any moment. Some from *from on; true: there are no more.
 */
static bool restore_hints(struct segment *s, uint32_t *from)
{
    uint32_t slots = segment_slots(&s->view), to = *from + PIECE_SLOTS;
    bool full = false;

    for (; *from < to && *from < slots; *from += 64) {
        uint64_t none =
            ~atomic_load_explicit(&s->view.page->hint[*from / 64], memory_order_relaxed);

        for (; none != 0; none &= none - 1) {
            uint32_t slot = *from + (uint32_t)__builtin_ctzll(none);

            if (slot >= slots || mbuf_state(atomic_load_explicit(
                                     &s->view.mbufs[slot].word, memory_order_acquire)) == MBUF_FREE)
                full |= segment_hint(&s->view, slot);
        }
    }
    if (full)
        segment_freed(s);
    return *from >= slots;
}

/*
 * In this order: the heads of chains must be known before members are asked, and members need their
 * head to be found. The last visit restores hints.
 */
static visit_fn *const visits[] = {look_at_slot, drop_member, drop_own, NULL};
#define VISITS (sizeof(visits) / sizeof(visits[0]))

static void begin_visit(struct peer *peer)
{
    struct sweep_position *at = &peer->sweep;

    at->begun = true;
    at->map = visits[at->visit] == drop_member && !at->members ? NULL : peer->maps;
    at->slot = 0;
}

/* True: that was the last piece of the segment. */
static bool visit_piece(struct peer *peer, struct segment *s)
{
    struct sweep_position *at = &peer->sweep;
    struct sweep sweep = {.server = peer->server, .dead = peer->number, .members = &at->members};

    if (visits[at->visit])
        return visit_slots(&sweep, s, &at->slot, visits[at->visit]);
    if (!restore_hints(s, &at->slot))
        return false;
    /* A client that dies between freeing a slot and telling npud has not told npud. */
    peer->server->pools->above->freed(s);
    return true;
}

bool sweep_peer_piece(struct peer *peer)
{
    struct sweep_position *at = &peer->sweep;
    struct segment_map *map;

    if (!at->begun)
        begin_visit(peer);
    map = at->map;
    if (!map) {
        at->begun = false;
        return ++at->visit == VISITS;
    }
    /* A segment that goes meanwhile has moved the position on: segment_unmap(). */
    if (visit_piece(peer, map->segment) && at->map == map) {
        at->map = map->hh.next;
        at->slot = 0;
    }
    return false;
}

void sweep_peer(struct peer *peer)
{
    peer->sweep = (struct sweep_position){0};
    while (!sweep_peer_piece(peer))
        ;
    peer->sweep = (struct sweep_position){0};
}

/* In all segments, in one go: no client is heard meanwhile. */
static void visit_all(struct sweep *sweep, visit_fn *visit)
{
    struct segment *s;
    struct pool *pool;

    DL_FOREACH (sweep->server->pools->list, pool)
        DL_FOREACH (pool->segments, s) {
            uint32_t slot = 0;

            while (visit ? !visit_slots(sweep, s, &slot, visit) : !restore_hints(s, &slot))
                ;
            KILL_HERE(SEGMENT_SWEPT);
        }
}

void sweep_npud(struct server *server, bool (*is_of_message)(uint32_t ref))
{
    bool members = false;
    struct sweep sweep = {
        .server = server, .dead = PEER_NPUD, .members = &members, .is_of_message = is_of_message};

    for (unsigned i = 0; i < VISITS; i++)
        if (visits[i] != drop_member || members)
            visit_all(&sweep, visits[i]);
}
