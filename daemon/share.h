/*
 * What a session shares with others: its pool of buffers, the segments of others that it maps, the queues that it is attached to. Made when it
 * first uses any of these. Control thread.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct pool;
struct queue_attach;
struct route;
struct segment_map;
struct server;
struct session;

struct share {
    struct session *session;
    struct pool *pool;             /* its own; NULL: none so far. pool.h */
    struct segment_map *maps;      /* segments that it maps, its own and others'. segment.h */
    struct queue_attach *attached; /* queue.h */
    void *by_id;                   /* these, by the id of their queue: tsearch(3) */
    bool asked;           /* for a queue that it was not granted: threads of it may wait for that */
    struct route *routes; /* that it has bound. router.h */
};

/** Sessions by their share number. */
struct shares {
    struct session **by_number; /* SHARE_MAX + 1 */
    uint32_t last;              /* number given out last */
};

/** 0 or -ENOMEM. */
int shares_init(struct shares *shares);
void shares_deinit(struct shares *shares);

/** Give the session a number that is no other's. There are more numbers than sessions can have descriptors: false only out of numbers. */
bool share_name(struct session *session);

/** The session that has this number, or NULL. */
struct session *share_session(struct server *server, uint32_t number);

/** What the session shares, made if need be. NULL: no memory. */
struct share *share_get(struct session *session);

/**
 * The session has ended: what it holds is freed, what it has put into queues stays there, who waits for it learns that it is gone. Then its number may
 * be another's.
 */
void share_free(struct session *session);
