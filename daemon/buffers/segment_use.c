#include "daemon/buffers/segment_use.h"

#include "daemon/buffers/peer.h"
#include "daemon/buffers/pool.h"
#include "daemon/buffers/segment.h"
#include "daemon/core/server.h"
#include "proto/shm/mbuf_chain.h"
#include "proto/shm/mbuf_ref.h"

/*
 * Does the router have this head, or one from the same segment? The word alone does not count:
 * clients can write it.
 */
static bool router_may_have(struct server *server, uint32_t ref)
{
    return server->pools->above->holds(server, ref >> 16);
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

/* On its way to a ring, or in a ring that allows to map the segment. */
static bool is_sent(const struct segment *s, uint32_t ref, uint64_t word)
{
    return may_have(s, mbuf_session(word)) ||
           s->pool->server->pools->above->sent(s, mbuf_queue(word), ref, mbuf_session(word));
}

/*
 * A session that has the head has the members: so it maps their segments, or the queue that carries
 * them allows its readers to map them.
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

static bool is_in_use(struct segment *s, const struct mbuf *m, uint64_t word)
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
         * A slot that is in use has a reference to it, but that slot may change hands while npud
         * looks.
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

/* The word is read again at the end: if it has changed, a client is at work there. */
static bool slot_unused(struct segment *s, const struct mbuf *m, uint64_t word)
{
    if (mbuf_state(word) == MBUF_FREE)
        return true;
    if (s->pool->session ? !is_left(s, m, word) : is_in_use(s, m, word))
        return false;
    return atomic_load(&m->word) == word;
}

/* --- a look --- */

#define PIECE_SLOTS   2048u /* FREE ones: some twenty microseconds */
#define PIECES        2     /* of a look that is made at once, whatever the time is */
#define COST_OF_OWNED 16u   /* tables are asked about it */
#define COST_OF_HOLE  64u   /* system calls: where does memory begin again? */

/* About a buffer on its way npud may have to pass over a ring: then each counts as a piece. */
static uint32_t cost_of(uint64_t word, uint32_t piece)
{
    switch (mbuf_state(word)) {
    case MBUF_FREE:
        return 1;
    case MBUF_SENDING:
    case MBUF_MEMBER:
        return piece;
    default:
        return COST_OF_OWNED;
    }
}

enum segment_use segment_look_at_slots(struct segment *s, uint32_t *from, uint32_t piece)
{
    const struct schedule *schedule = &s->pool->server->schedule;
    uint32_t cost = 0;

    for (uint32_t to; segment_touched(s, from, &to); cost += COST_OF_HOLE)
        while (*from < to) {
            const struct mbuf *m = &s->view.mbufs[*from];
            uint64_t word = atomic_load(&m->word);

            if (cost >= piece) {
                if (schedule_step_over(schedule))
                    return SEGMENT_MORE;
                cost = 0;
            }
            if (!slot_unused(s, m, word))
                return SEGMENT_USED;
            cost += cost_of(word, piece);
            ++*from;
        }
    return SEGMENT_GONE;
}

/* Mostly right, and quickly told. A segment whose hints are wrong is looked at slot by slot. */
static bool hints_say_free(const struct segment *s)
{
    const struct segment_view *v = &s->view;

    for (uint32_t w = 0; w < (segment_slots(v) + 63) / 64; w++)
        if (atomic_load_explicit(&v->page->hint[w], memory_order_relaxed) != UINT64_MAX)
            return false;
    return true;
}

/* From here on segment_claim() refuses new slots. */
static void close_segment(struct segment *s)
{
    s->look.slot = 0;
    s->look.closing = true;
    atomic_store(&s->view.news->closing, 1);
    atomic_thread_fence(memory_order_seq_cst);
}

enum segment_use segment_look(struct segment *s)
{
    struct segment_look *look = &s->look;
    enum segment_use use;

    if (!look->begun && hints_say_free(s))
        close_segment(s);
    look->begun = true;
    for (;;) {
        use = segment_look_at_slots(s, &look->slot, PIECE_SLOTS);
        if (use == SEGMENT_USED)
            segment_look_ends(s);
        if (use != SEGMENT_GONE)
            return use;
        if (look->closing)
            break;
        close_segment(s);
    }
    segment_free(s);
    return SEGMENT_GONE;
}

bool segment_give_back(struct segment *s)
{
    const struct schedule *schedule = &s->pool->server->schedule;

    for (unsigned n = 0; n < PIECES && !schedule_late(schedule); n++) {
        enum segment_use use = segment_look(s);

        if (use != SEGMENT_MORE)
            return use == SEGMENT_GONE;
    }
    pool_look_at(s);
    return false;
}
