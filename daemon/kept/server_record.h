/* What is kept of npud itself: one record. */
#pragma once

#include <stdint.h>

/*
 * The numbers that npud has given out last: handles, keys, buffers and lines of the log name
 * objects by them, so none may come again too early. Live: stored before an object with the number
 * is known to anybody, and a number that was taken for nothing is no loss.
 */
struct last_numbers {
    /* each number once */
    uint64_t session;
    uint64_t ipc_event;
    uint64_t notify;
    uint64_t rule; /* of fault injection */
    uint64_t pool;
    uint64_t segment;
    uint64_t queue;
    uint64_t route;
    /* from 1 again after the last one, and used again as late as possible */
    uint64_t peer;
    uint64_t segment_id;
    uint64_t ring; /* of a queue */
    /* appended after 0.9.0 */
    uint64_t memory; /* pages that were exported: each number once */
    uint64_t unused[4];
};

struct server_record {
    /* kept */
    uint64_t instance;
    uint64_t since_ns; /* when the first npud of these tables began */
    uint64_t epoch_ns;
    uint64_t unused[4];
    /* live */
    struct last_numbers last;
    uint64_t restarts; /* how often a later npud has taken over */
};
