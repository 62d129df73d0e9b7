/*
 * The order of the library's locks, outermost first: a thread that holds one waits only for those
 * below it, and for no other of its rank, whatever session they are of. Builds with sanitizers or
 * kill points check that (tests/common/lock_order.h); in others nothing of it is left.
 */
#pragma once

#include <pthread.h>

enum lock_rank {
    LOCK_PROCESS,      /* process->lock */
    LOCK_PROFILE,      /* client/profile/profile.c */
    LOCK_DUMP,         /* client/dump/dump.c */
    LOCK_THREADS,      /* process->threads_lock */
    LOCK_CHANNELS,     /* session->channel_lock */
    LOCK_CALLING,      /* exceptions.calling */
    LOCK_REGISTERED,   /* exceptions.registered.lock */
    LOCK_TAKING,       /* exceptions.taking */
    LOCK_ABORT,        /* session->abort_lock */
    LOCK_STREAM,       /* stream->lock */
    LOCK_COPIER,       /* the same, of a device's copier: context_lock_copier() */
    LOCK_SESSION,      /* session->lock */
    LOCK_FOLLOW,       /* queue->follow_lock */
    LOCK_GRAPHS,       /* session->captures.run_lock */
    LOCK_EVENT,        /* event->lock */
    LOCK_CALLBACK,     /* process->callback_lock */
    LOCK_CAPTURES,     /* session->captures.lock */
    LOCK_MEMORY_POOLS, /* session->memory_pool_lock */
    LOCK_MEMORY,       /* session->memory_lock */
    LOCK_STAGING,      /* session->staging_lock */
    LOCK_ALLOCATORS,   /* session->allocator_lock */
    LOCK_POOL,         /* pool.lock */
    LOCK_SEGMENTS,     /* segments.lock */
    LOCK_SEGMENT_MAP,  /* segments.map_lock */
    LOCK_NAMES,        /* queues->name_lock */
    LOCK_RETIRED,      /* queues->retired_lock */
    LOCK_IDLE,         /* session->idle_lock */
    LOCK_REQUEST,      /* session->request_lock */
    LOCK_WAITS,        /* waits.lock */
    LOCK_EVENT_FDS,    /* event_fds.lock */
    LOCK_STAMPS,       /* client/profile/stamp.c */
    LOCK_PROFILE_FILE, /* of client/profile/profile_file.h */
    LOCK_DOORS,        /* process->door_lock */
    LOCK_SENTENCES,    /* process->store_lock */
};

#ifndef LOCK_ORDER
/** What tests/common/lock_order.h says. */
#define lock_order_know(lock, rank) ((void)0)
#define lock_order_take(lock)       ((void)0)
#define lock_order_has(lock)        ((void)0)
#define lock_order_give(lock)       ((void)0)
#endif

#define lock_init(mutex, rank)       (pthread_mutex_init(mutex, NULL), lock_order_know(mutex, rank))
#define lock_init_shared(lock, rank) (pthread_rwlock_init(lock, NULL), lock_order_know(lock, rank))
