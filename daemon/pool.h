/*
 * Pools of shared buffers (proto/mbuf_shm.h): the segments of one session. A pool whose session has ended stays, as an orphan, as long as somebody has a
 * buffer of it. Control thread.
 */
#pragma once

#include <event2/event.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct segment;
struct segment_table;
struct server;
struct session;
struct share;
struct user;

/* A session that ends has them all swept, in one go. */
#define POOL_SEGMENTS_MAX 8192u

struct pool {
    struct server *server;
    struct session *session; /* NULL: an orphan */
    struct user *user;       /* who is charged */
    uint64_t session_id;     /* also of an orphan, for npuctl and messages */
    pid_t pid;
    struct segment *segments;
    uint32_t n_segments;
    struct event *on_look;    /* looks which segments nobody needs any more */
    bool looks;               /* it is going to */
    uint64_t looked_ns;       /* when it did last */
    struct pool *prev, *next; /* server->pools.list */
};

struct pools {
    struct segment_table *table;
    struct pool *list; /* oldest first */
    uint32_t last_id;  /* of a segment */
    uint64_t last_number;
};

/** 0 or -ENOMEM. */
int pools_init(struct pools *pools);
/** All sessions are gone: free what orphans are left. */
void pools_deinit(struct pools *pools);

/** The session's pool, made if need be. NULL: no memory. */
struct pool *pool_get(struct session *session);

/** Somebody thinks that there is a segment in which everything is free: look, in a moment, and give back its memory. */
void pool_look_soon(struct pool *pool);

/** The session ends, and has been swept: what others have of its pool stays, as an orphan. */
void pool_leave(struct share *share);
