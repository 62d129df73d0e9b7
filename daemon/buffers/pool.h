/*
 * Pools of shared buffers (proto/shm/mbuf_shm.h): the segments of one session. A pool whose session
 * has ended is an orphan: it stays as long as a process has a buffer of it. Control thread.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "daemon/base/schedule.h"
#include "daemon/kept/kept.h"
#include "proto/shm/mbuf_shm.h"

struct batch_job;
struct event;
struct segment;
struct segment_map;
struct server;
struct session;
struct peer;
struct user;

/* A session that ends has them all swept. */
#define POOL_SEGMENTS_MAX 8192u

/*
 * Was something freed since the last look began? Only then do clients not tell npud again (look_due
 * in the segment page).
 *   NONE -> DUE    a client tells npud, and the pool is large enough to give something back, or a
 *                  segment of it drains
 *   NONE -> SMALL  the same, and it is not
 *   SMALL -> DUE   it has grown; or something is freed, and a segment of it drains
 *   DUE -> NONE    the look begins; it goes on in slices, see next_look. Clients of a segment tell
 *                  npud again from where the look begins with this segment, unless another one is
 *                  due by then
 *   any -> NONE    its session ends: a look begins at once
 */
enum pool_look {
    POOL_LOOK_NONE,
    POOL_LOOK_SMALL,
    POOL_LOOK_DUE,
};

struct pool {
    struct server *server;
    struct session *session;     /* NULL: an orphan */
    struct user *user;           /* this user is charged */
    struct batch_job *batch_job; /* and this job of a scheduler; NULL: none */
    uint64_t number;             /* of all that ever were */
    uint64_t session_id;         /* also of an orphan, for npuctl and messages */
    pid_t pid;
    struct kept kept;
    struct segment *segments;
    uint32_t n_segments;
    uint64_t bytes; /* in all segments */
    enum pool_look look;
    struct event *on_look;     /* the time has come for a look */
    struct job job;            /* looks which segments are not needed any more */
    uint64_t looked_ns;        /* when it did last */
    struct segment *next_look; /* it is at it, and goes on with this one */
    struct segment *next_told; /* of segments with look_due, the first one without; NULL: none */
    uint64_t round; /* it looks at all: the last search when it began with that; 0: it does not */
    uint64_t round_done;                    /* the same of the last such round that is over */
    struct pool *prev, *next;               /* server->pools->list */
    struct pool *orphan_prev, *orphan_next; /* server->pools->orphans */
};

/** What modules above this one know of the buffers in a segment, and want to know. */
struct pools_above {
    /* a slot has become free in a segment where the router has said that it wants one */
    void (*freed)(struct segment *segment);
    /* a session maps the segment from now on: count its rights */
    void (*mapped)(struct segment_map *map);
    /*
     * is the buffer in the ring with this number, from where clients may map the segment? sender:
     * whose word says so, a session that has ended or npud
     */
    bool (*sent)(const struct segment *segment, uint32_t number, uint32_t ref, uint32_t sender);
    /* has the router the head of a message from the segment with this id? */
    bool (*holds)(struct server *server, uint32_t segment);
};

struct pools {
    struct segment_table *table;
    struct pool *list;               /* oldest first */
    uint64_t last_search;            /* for room */
    uint64_t room_at;                /* number of the pool where the next one begins */
    struct pool *orphans;            /* the next one for pools_look_at_orphans() first */
    uint32_t n_orphans, orphans_due; /* due: from the first on */
    struct job look_at_orphans;      /* the rest of these */
    const struct pools_above *above;
};

/** 0 or -ENOMEM. What is done later for all pools is the owner's. */
int pools_init(struct pools *pools, struct job_owner *owner, const struct pools_above *above);
/** All sessions are gone: free what orphans are left. */
void pools_deinit(struct pools *pools);

/** The session's pool, made if need be. NULL: no memory. */
struct pool *pool_get(struct session *session);
/** While npud restores: the pool with this number, or NULL. */
struct pool *pool_restored(uint64_t number);
/** All is there: each segment is looked at, because the npud before may have been told of it. */
void pools_finish_restoring(struct server *server);

/**
 * There may be a segment in which everything is free: look after LOOK_DELAY, and give back the
 * memory of all such segments. The delay is there because a process that has just freed everything
 * may be about to begin again. The owner of an orphan has gone, so an orphan is looked at without
 * it. The last POOL_KEPT of a pool whose owner lives stays, unless a limit is met, but for segments
 * that drain.
 */
void pool_look_soon(struct pool *pool);

/**
 * Something has gone for which buffers of the dead were kept, by their own account: look whether
 * there is anything left. Some at once, and the rest soon: there may be thousands.
 */
void pools_look_at_orphans(struct pools *pools);

/** The pool's job looks at this segment next, and gives it back if nothing in it is in use. */
void pool_look_at(struct segment *segment);

/** The segment leaves its place in the list: what goes along the list goes on behind it. */
void pool_pass_over(struct segment *segment);

/** The pool has one more segment. */
void pool_grown(struct pool *pool);

/** Buffers of a pool by what they are, at this moment: states of slots. FREE: those with data. */
struct pool_census {
    uint32_t slots[MBUF_BLOCK + 1];
    uint64_t bytes;
    uint32_t others; /* that map the segment with the most */
    bool draining;
};

/** How far the count of a pool is, which is made in slices. {0}: not begun. */
struct pool_count {
    uint64_t pool, segment; /* numbers: both come and go between slices */
    uint32_t slot;          /* of that segment: the next one to look at */
    struct pool_census census;
};

/**
 * Go on until clock_ns() is `until`, or begin, if the count is of another pool. True: the census is
 * complete.
 */
bool pool_count(struct pool *pool, struct pool_count *count, uint64_t until);

/** The pool with this number, or the next newer one, or NULL. */
struct pool *pool_from(struct pools *pools, uint64_t number);

/** How far a search for room is. {0}: not begun. */
struct room_search {
    uint64_t number;    /* of all searches */
    uint64_t first, at; /* numbers of pools: where it began, and where it goes on */
    bool wrapped;       /* it has come to the newest pool, and goes on with the oldest one */
};

enum room {
    ROOM_NONE,  /* the search is over, and this step of it has found nothing */
    ROOM_MORE,  /* nothing so far */
    ROOM_FOUND, /* something was given back: it may do, and if not, the search may go on */
};

/**
 * A request is about to be refused for lack of memory, descriptors or mappings: give back what is
 * free of this pool (or NULL), and then of the other pools of this user, of all users if payer is
 * NULL. A step of that. In the end each segment was looked at that was there when the search
 * began. Memory that is much goes back a little later (deferred_close.h), but of each segment at
 * least one descriptor at once.
 */
enum room pools_search_room(struct pools *pools, struct room_search *search, struct pool *own,
                            const struct user *payer);

/** The session ends, and has been swept: what others have of its pool stays, as an orphan. */
void pool_leave(struct peer *peer);
