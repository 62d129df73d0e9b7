/*
 * Segments of shared buffers (proto/shm/mbuf_shm.h) as npud has them: the geometry that it gave
 * out, its own mapping, and the sessions that map them. Control thread.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "daemon/base/hash.h"
#include "daemon/core/user.h"
#include "daemon/core/batch_job.h"
#include "daemon/core/cause.h"
#include "daemon/kept/kept.h"
#include "proto/shm/mbuf_shm.h"

struct pool;
struct route;
struct segment_map;
struct server;
struct session;
struct peer;

/* Bytes of data in a segment of more than one buffer. */
#define SEGMENT_DATA_MAX   (UINT64_C(64) << 20)
#define SEGMENT_N_DATA_MAX 16384u
#define SEGMENT_REFS_MIN   1024u

/* Mostly one queue allows a segment, and those of a pair. */
#define SEGMENT_ALLOWED_BY 8u

/** How far a look at a segment is (segment_use.h). All zero: none is under way. */
struct segment_look {
    uint32_t slot; /* the next one */
    bool begun;
    bool closing; /* the last pass; view.news->closing says so to clients */
};

struct segment {
    /* first: what the table points to. Without data: npud never touches it */
    struct segment_view view;
    struct pool *pool;
    int fd;      /* memfd */
    int news_fd; /* of view.news, also for writing: clients have others, read-only */
    struct kept kept;
    uint64_t *wanted; /* in the record: what view.news->slot_wanted is, or was last */
    bool wants;
    size_t mapped; /* bytes of npud's mapping: up to the data */
    uint64_t size; /* of the memfd */
    struct charge charge;
    struct charge charge_fd;
    struct batch_charge charge_batch_job;
    struct segment_map *maps; /* sessions that map it, its owner included */
    uint32_t n_maps;
    /* Serials of the queues that allow it; n_allowed_by above that: of more, the first ones. */
    uint64_t allowed_by[SEGMENT_ALLOWED_BY];
    uint32_t n_allowed_by;
    uint32_t n_lost; /* of these, sessions that should not see new data */
    uint32_t n_left; /* of these, processes whose session has ended (survivor.h) */
    /* a hostile peer has changed its counts: npud frees nothing there any more */
    bool damaged;
    /*
     * A session has lost a right after it had passed the segment on: its readers have theirs from a
     * session that the owner trusts no more. No new data for good.
     */
    bool spoiled;
    struct segment_look look;
    bool look_asked;             /* pool_look_at() */
    struct route *slot_waiters;  /* route.c: they need a slot of it, and there was none */
    struct segment *prev, *next; /* pool->segments */
};

/** A session that maps a segment. */
struct segment_map {
    struct peer *peer;
    struct segment *segment;
    uint32_t id; /* of the segment: key in peer->maps */
    /*
     * Queues from which its session may take, and that allow the segment. Not counted for the
     * owner, which needs no right.
     */
    uint32_t n_rights;
    bool lost;            /* the right to see new data */
    bool passed_on;       /* its session let readers of some queue map the segment */
    bool left;            /* its session has ended, its process lives on */
    struct charge charge; /* of the session's user: for this object */
    struct kept kept;
    struct segment_map *prev, *next; /* segment->maps */
    UT_hash_handle hh;               /* peer->maps */
};

/** The segment with this id (upper half of a ref), or NULL. */
struct segment *segment_find(struct server *server, uint32_t id);

/** Views of all segments, for mbuf_at(): heads mapped, data not. */
struct segment_table *segments_table(struct server *server);

/** The session's mapping of the segment, or NULL. */
struct segment_map *segment_find_map(const struct session *session, const struct segment *segment);

/** Was the session given the segment, and has it still? */
bool segment_maps(struct session *session, struct segment *segment);

/**
 * Sizes of a segment for `count` buffers of `stride` bytes: what npud makes of the wish, into v.
 * False: size 0 or above MBUF_SIZE_MAX, or none at all.
 */
bool segment_shape(struct segment_view *v, uint64_t stride, uint32_t count);

/**
 * A segment for the pool of a live session, which maps it from now on: *segmentp, the pool's. It
 * has fewer buffers than `count` if the limits of the user or its job have no room for all.
 */
enum cause segment_new(struct pool *pool, uint64_t stride, uint32_t count,
                       struct segment **segmentp);

/**
 * It goes, for all that map it; nothing in it is in use. Its memory is given back even if processes
 * still have it mapped.
 */
void segment_free(struct segment *segment);

/**
 * The next slots from *from on of which something was ever written: [*from, *to). False: none. The
 * others are no memory, and FREE; to look at them would make them some.
 */
bool segment_touched(const struct segment *segment, uint32_t *from, uint32_t *to);

/**
 * The peer's session maps the segment from now on. Safe to repeat. False: no memory, or no more for
 * the user: session_cause_of_object().
 */
bool segment_map(struct peer *peer, struct segment *segment);

/** It has lost, or got back, the right to see new data there. */
void segment_map_set_lost(struct segment_map *map, bool lost);

/** Is it to get no new data? */
static inline bool segment_drains(const struct segment *segment)
{
    return segment->n_lost != 0 || segment->spoiled;
}

/** It is to get no new data for good: `spoiled`. */
void segment_spoil(struct segment *segment);

/**
 * The peer's session has ended, its process lives on and has its segments mapped: those of others
 * get no new data while it does, and are given back if nothing but the process's own is in them.
 * One of these segments, by the position of its sweep, which has not begun. True: there was none
 * left.
 */
bool segments_left(struct peer *peer);

/** Does the process of a session that has ended under this number live, with the segment mapped? */
bool segment_left(const struct segment *segment, uint32_t number);

/** The session has gone, with all its mappings. */
void segment_unmap(struct segment_map *map);

/** npud's router has found no slot without data there: clients tell npud when one is free. */
void segment_want_slot(struct segment *segment);

/** No client need tell npud of free slots without data any more. True: npud's router wanted one. */
bool segment_slot_came(struct segment *segment);

/** No look is under way any more; clients may claim slots there again. */
void segment_look_ends(struct segment *segment);

/** Something in it has become free: the modules of npud that wait for that are told. */
void segment_freed(struct segment *segment);

/** A hostile peer has changed its counts: nothing is freed there any more. */
void segment_damage(struct segment *segment);
/**
 * All is there: rights are counted, clients are told what npud says of the segments, and those that
 * the npud before has begun to give back are.
 */
void segments_finish_restoring(struct pool *pool);
