/*
 * What a session shares with others: its pool of buffers, the segments of others that it maps, the
 * queues that it is attached to. Made when it first uses any of these. Control thread.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "daemon/base/hash.h"
#include "daemon/base/schedule.h"
#include "daemon/core/survivor.h"
#include "daemon/kept/kept.h"

struct pool;
struct queue_attach;
struct route;
struct segment_map;
struct server;
struct session;
struct survivor;

/** How far the sweep of its segments is (sweep.h). All zero: not begun. */
struct sweep_position {
    uint8_t visit;           /* which one */
    bool begun;              /* this visit */
    bool members;            /* there are members of chains somewhere */
    struct segment_map *map; /* the next piece is of this segment, from ... */
    uint32_t slot;           /* ... this slot on */
};

/* While its process outlives the session (survivor.h), only the first six are of use. */
struct peer {
    struct server *server;
    struct session *session;       /* NULL: it has ended, and its process lives on */
    struct survivor_part left;     /* of the session's process that lives on */
    uint32_t number;               /* session->peer_id */
    struct kept kept;              /* once its session ends */
    struct pool *pool;             /* its own; NULL: none so far. pool.h */
    struct segment_map *maps;      /* segments that it maps, its own and others'. segment.h */
    struct queue_attach *attached; /* queue.h */
    void *by_id, *by_queue;        /* these, by id, and by the serial of the queue: tsearch(3) */
    struct route *routes;          /* that it has bound. router.h */
    /* grant.h: in queues->askers, by the pid of its session */
    bool asks;
    pid_t pid;
    UT_hash_handle asker;
    /* peer_tell_retired(): in peers->to_tell */
    bool to_be_told;
    struct peer *told_prev, *told_next;

    /* its end */
    uint8_t end_part; /* what is being given up: buffers.c */
    bool swept;
    struct survivor *survivor; /* its process lives on; NULL: it does not */
    bool puts_ended;           /* queue_sweep_puts_end() was called */
    struct sweep_position sweep;
};

/*
 * What has a peer number: a session, or the peer of one that has ended and whose process lives on.
 * Neither: the number is free.
 */
struct peer_slot {
    struct session *session;
    struct peer *left;
    uint64_t ended_at; /* queue_sweep.c: since when the last session of this number puts nothing */
};

struct peers {
    struct peer_slot *by_number; /* PEER_MAX + 1 */
    struct peer *to_tell;        /* peer_tell_retired() */
    struct job tell;
};

/** 0 or -ENOMEM. What is done later is the owner's. */
int peers_init(struct peers *peers, struct job_owner *owner);
void peers_deinit(struct peers *peers);

/**
 * Give the session a number that is no other's. There are more numbers than sessions can have
 * descriptors: false only out of numbers.
 */
bool peer_give_id(struct session *session);

/** The session has this number again, from before a restart. */
void peer_restore_id(struct session *session, uint32_t number);

/** The session that has this number, or NULL. */
struct session *peer_session(struct server *server, uint32_t number);

/** The peer with this number whose session has ended and whose process lives on, or NULL. */
struct peer *peer_left(struct server *server, uint32_t number);

/**
 * As session_tell_retired(), for one of many: soon, because each of them costs a system call, and
 * often a page. The peer that goes calls peer_tell_no_more().
 */
void peer_tell_retired(struct peer *peer);
void peer_tell_no_more(struct peer *peer);

/** What the session shares, made if need be. NULL: no memory. */
struct peer *peer_get(struct session *session);

/** Its session ends, and `survivor` is set: it outlives npud by itself. False: no memory. */
bool peer_keep(struct peer *peer);

/**
 * A peer that a survivor has is there again; exited: as for survivor_add(). The restorer of
 * buffers.c calls it.
 */
bool peer_restore(struct server *server, struct kept_cell *cell,
                  bool (*exited)(struct survivor_part *part));
/** While npud restores: the peer with this number, made if need be, or NULL. */
struct peer *peer_restored(struct server *server, uint32_t number);
