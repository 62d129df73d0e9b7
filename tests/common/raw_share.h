/*
 * Shared buffers and queues for a client without the library (raw.h): the requests, and the memory
 * bare.
 */
#pragma once

#include "proto/shm/mbuf_shm.h"
#include "proto/shm/queue_shm.h"
#include "tests/common/raw.h"

struct raw_segment {
    struct segment_view view;
    void *map;
    size_t size;
    int fd;      /* of map; open */
    int news_fd; /* of view.news; open */
};

struct raw_queue {
    struct queue_view view; /* each file mapped as the rights allow */
    uint32_t id;
    uint32_t rights;
    int fd[QUEUE_FILES]; /* as in QueueReply; open */
};

/** A segment for the own pool, or one of another session. */
bool raw_create_segment(struct raw *r, uint64_t stride, uint32_t count, struct raw_segment *s);
bool raw_map_segment(struct raw *r, uint32_t id, struct raw_segment *s);
void raw_unmap_segment(struct raw_segment *s);
bool raw_trim(struct raw *r, uint32_t id);

bool raw_create_queue(struct raw *r, uint32_t depth, struct raw_queue *q);
/** The queue `id` of user `owner`. Another user's is named QUEUE_IDS + id here. */
bool raw_attach_queue(struct raw *r, uint32_t owner, uint32_t id, struct raw_queue *q);
void raw_unmap_queue(struct raw_queue *q);
bool raw_destroy_queue(struct raw *r, uint32_t id);
bool raw_grant(struct raw *r, uint32_t id, int32_t pid, uint32_t rights);
bool raw_allow_map(struct raw *r, uint32_t number, uint32_t segment);
bool raw_bell(struct raw *r, uint32_t number, int *fd);
/** At most ROUTES_MAX of them in one request. */
bool raw_routes(struct raw *r, unsigned n, const uint32_t (*pairs)[2], bool bind);
bool raw_route(struct raw *r, uint32_t source, uint32_t destination, bool bind);
