/*
 * What modules of the rooms above keep in the session. Runtime does not look inside.
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "client/core/side_thread.h"
#include "proto/util/slots.h"

struct graph;
struct graph_chunk;
struct graph_label;
struct label_list;
struct segment;
struct stream;

/* --- client/callback/stream_work.c --- */

/** Kernels of a session, and the threads that run them: client/callback/kernel_lane.c. */
struct kernel_lane {
    /* Under process->callback_lock. */
    struct stream *streams; /* whose next work is a kernel */
    struct stream *running;
    uint32_t threads;
    uint32_t idle; /* those of them that wait for a turn to watch */
    bool watched;  /* a thread is about to look at `streams`, or sleeps until npud wakes it */
    bool ending;   /* no thread watches any more */
    pthread_cond_t turns; /* the idle ones sleep on it */
};

/** Of a session. */
struct stream_works {
    struct side_thread thread; /* runs all but kernels; started by the first one */
    struct kernel_lane kernels;
    /* Under process->callback_lock. */
    struct stream *streams; /* that have some, but for those that are in `waiting` */
    struct stream *waiting; /* the first of which runs again after a while */
    struct stream *graphs;  /* the first of which is an execution of a graph, see graph_calls.h */
    bool runs;
    uint64_t done;                      /* counts what has returned */
    uint64_t written;                   /* counts calls of stream_work_written() */
    uint64_t aborts_begun, aborts_over; /* of devices */
    _Atomic uint32_t waits;             /* works with a word to wait for; read without the lock */
};

/* --- client/capture/capture.c --- */

/** Of a session. */
struct captures {
    pthread_mutex_t lock;
    _Atomic uint32_t active;    /* captures that are under way: any thread reads it */
    struct graph *list;         /* these */
    struct slots graphs;        /* handles of graphs */
    struct graph_chunk *chunks; /* client/graph/graph_list.c */
    pthread_mutex_t run_lock;   /* held while an execution is submitted */
    struct graph_label *labels; /* client/graph/graph_label.c */
    struct label_list *label_lists;
    uint32_t n_labels;
    uint64_t ids; /* given out so far */
};

/* --- client/event/event_fd.c --- */

/** Of a session. */
struct event_fds {
    pthread_mutex_t lock;      /* taken last, never held during a request */
    int *copy;                 /* EVENT_FDS_MAX of them, by number: -1 free; NULL: never used */
    unsigned long aio;         /* an aio_context_t, by which they are written; 0: none */
    struct side_thread thread; /* writes them; started by the first one */
};

/* --- client/buffers/segment.c --- */

/** All segments of a session; part of it. All zero but the lock: none. */
struct segments {
    pthread_mutex_t lock;
    struct segment *live;      /* in the table */
    struct segment *retired;   /* not any more */
    bool forgotten;            /* nothing is added any more */
    void *by_address;          /* range_map of struct segment */
    _Atomic bool mapped;       /* there were some: what pageable memory is looked up for */
    pthread_rwlock_t map_lock; /* of by_address; inside lock */
};

/* --- client/buffers/pool.c --- */

#define POOL_CLASSES 144

/** Segments whose buffers have the same room. */
struct pool_class {
    struct segment *segments; /* oldest, so smallest, first */
    struct segment *last;     /* the last slot came from it; NULL: it is gone */
    struct segment *next; /* the search before the class grows goes on here; NULL: at the first */
    uint32_t n;           /* segments */
    uint16_t claims;      /* counts those that were tried */
    bool look_at_all;     /* it could not grow when it should */
};

/** Part of the session. All zero but the lock: nothing. */
struct pool {
    pthread_mutex_t lock; /* of class; before segments.lock */
    struct pool_class class[POOL_CLASSES];
};
