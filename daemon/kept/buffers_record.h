/*
 * What is kept of shared buffers: pools and their segments, queues and their rings, routes and the
 * messages that npud carries. Sessions, and processes that outlive theirs, are named by their peer
 * id.
 */
#pragma once

#include <stdatomic.h>
#include <stdint.h>

/** A peer whose session has ended and whose process lives on. */
struct peer_record {
    uint64_t survivor; /* its session that was */
    uint32_t number;
    uint32_t unused;
};

struct pool_record {
    uint64_t number;
    uint64_t session_id; /* also of an orphan */
    uint32_t owner;      /* peer id; 0: an orphan */
    uint32_t uid;        /* this user is charged */
    int32_t pid;
    uint32_t unused;
    /* Appended after 0.9.0 */
    uint64_t job; /* the job that is charged; 0: none */
};

struct segment_record {
    /* kept */
    uint64_t pool;
    uint64_t number;
    uint64_t stride;
    uint64_t key, news_key;
    uint32_t id;
    uint32_t n_data, n_refs;
    uint8_t damaged, spoiled;
    uint8_t unused[2];
    /* live */
    uint64_t wanted; /* what slot_wanted is, or was last */
};

struct segment_map_record {
    uint64_t segment; /* number */
    uint32_t id;      /* of the segment */
    uint32_t peer;
    uint8_t passed_on;
    uint8_t left;
    uint8_t lost;
    uint8_t unused[5];
};

/** The files of a ring. */
struct ring_record {
    uint64_t put_key, take_key, news_key;
    uint32_t number;
    uint32_t depth;
};

struct queue_record {
    uint64_t serial;
    uint64_t before;
    struct ring_record ring;
    uint32_t id;
    uint32_t uid;
    uint32_t creator; /* peer id; 0: not attached any more */
    uint32_t puts_gone, takes_gone;
    int32_t puts_pid, takes_pid;
    uint8_t ends;         /* queue_finish_some() has begun */
    uint8_t ends_in_turn; /* and goes on by itself */
    uint16_t ended_by;    /* peer id of the session that does it; 0: none */
    char name[128];
    /* Appended after 0.9.0 */
    uint32_t channel; /* its device + 1; 0: it is no channel */
    uint32_t unused;
};

struct queue_attach_record {
    uint64_t serial; /* of the queue */
    uint32_t peer;
    uint32_t id; /* as the session names the queue */
    uint32_t rights;
    uint32_t counted; /* words of the map below, of segments to which its rights are counted */
    uint8_t spoils;
    uint8_t leaving;
    uint8_t idle;
    uint8_t unused[5];
    /* Appended after 0.9.0 */
    uint64_t bell_key; /* 0: none */
};

struct grant_record {
    uint64_t serial; /* of the queue */
    uint64_t pidfd_key;
    int32_t pid;
    uint32_t rights;
};

/** Which segments the readers of a queue may map. */
struct queue_map_record {
    /* kept */
    uint64_t serial; /* of the queue */
    /* live: bits only after `newest`, and the bits of segments that are gone before it */
    struct map_word {
        uint64_t bits; /* of 64 ids of segments */
        /* Segments with a later number have got their ids since: a bit is not about them. */
        uint64_t newest;
    } word[];
};

/** A ring that has ended, or is about to: queue_rest.h. */
struct queue_rest_record {
    /* kept */
    uint64_t serial;         /* of the queue whose messages are moved; 0: they are freed */
    struct ring_record ring; /* its files, until its messages are noted and its sleepers awake */
    uint32_t uid;            /* is charged for `bytes` */
    uint32_t n;              /* messages that were noted */
    uint64_t bytes;
    uint64_t noted; /* 0: the ring is still to be ended, and its messages are still to be noted */
    /* live */
    _Atomic uint64_t position; /* the next message << 32 | its position in the new ring */
    uint32_t ref[];
};

/** As 0.9.0 has written it: a ring that has ended, and whose sleepers are not all awake. */
struct queue_sleepers_record {
    uint64_t put_key, take_key; /* of its files; 0: all that slept there are awake */
};

/** A queue that is the source or the destination of a route. */
struct relay_record {
    /* kept */
    uint64_t serial;   /* of the queue */
    uint64_t bell_key; /* that of all sessions, as 0.9.0 has made it; 0: none */
    int32_t gone;
    uint8_t parting;
    uint8_t unused[3];
    /* live */
    struct relay_live {
        /*
         * The message that npud takes, or has taken and has not given to all of its routes, as its
         * buffer is before: ref | generation << 32; 0: none. And its number, of all from here:
         * changed while there is none.
         */
        _Atomic uint64_t taken;
        _Atomic uint64_t sequence;
    } live;
};

struct route_record {
    /* kept */
    uint64_t number;
    uint64_t source, destination; /* serials of the queues; `source` also when it has gone */
    uint64_t end;                 /* messages from there on are not for it; 0: it is bound */
    uint32_t uid;
    uint32_t source_id, destination_id; /* its name */
    uint32_t binder;                    /* peer id; 0: it has ended */
    uint8_t state;                      /* enum route_state */
    uint8_t has_source, has_destination;
    uint8_t unused[5];
    /* live */
    struct route_live {
        /* The message that is delivered next, by its number, or one before it. */
        _Atomic uint64_t next;
        /*
         * The buffer that npud puts, or has put, for the message `next`, as it is before: ref |
         * generation << 32 | the low bits of next << 60; those of another message: none.
         */
        _Atomic uint64_t put;
        _Atomic uint64_t messages; /* delivered */
    } live;
};

/** A message that npud has taken from a source, and that waits in backlogs. */
struct message_record {
    uint64_t source;   /* serial of the queue; 0: there is no message yet, or it is in no backlog */
    uint64_t sequence; /* number, of all from there */
    uint32_t ref;      /* of the head */
    uint32_t generation;
};

/** Messages that a route does not get: it was not bound meanwhile, and had some to deliver. */
struct route_gap_record {
    uint64_t route;    /* number */
    uint64_t from, to; /* numbers of messages */
};
