/*
 * Messages of sessions that the test plays itself, in npud's own mappings of segments and rings.
 */
#pragma once

#include "daemon/buffers/pool.h"
#include "daemon/buffers/segment.h"
#include "proto/shm/mbuf_ref.h"
#include "proto/shm/queue_shm.h"
#include "tests/unit/npud.h"

static inline struct segment *make_segment(struct session *session)
{
    struct segment *segment;

    ck_assert_int_eq(segment_new(pool_get(session), 64, 64, &segment), 0);
    return segment;
}

/** A buffer of the session's. Returns its ref. */
static inline uint32_t make_buffer(struct session *session, struct segment *segment)
{
    struct segment_view *v = &segment->view;
    uint32_t slot = segment_claim(v, 0, v->n_data, session->peer_id);

    ck_assert_uint_lt(slot, v->n_data);
    mbuf_prepare(v, slot, 64);
    mbuf_hold(&v->mbufs[slot], session->peer_id);
    return mbuf_ref(v, &v->mbufs[slot]);
}

static inline struct mbuf *find_buffer(uint32_t ref)
{
    return mbuf_at(segments_table(&server), ref);
}

static inline enum queue_result put_message(const struct queue_view *v, struct session *session,
                                            uint32_t ref)
{
    return queue_enqueue(v, find_buffer(ref), ref, find_buffer(ref)->word, session->peer_id);
}

/** The ref of the message, or 0. */
static inline uint32_t take_message(const struct queue_view *v, struct session *session)
{
    struct queue_front f;
    uint64_t held;

    if (queue_front(v, &f) != QUEUE_OK)
        return 0;
    queue_commit(v, f.head, segments_table(&server));
    return queue_dequeue(v, &f, find_buffer(f.ref), session->peer_id, segments_table(&server),
                         &held) == QUEUE_OK
               ? f.ref
               : 0;
}
