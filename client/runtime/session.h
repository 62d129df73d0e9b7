/*
 * The session: this process's connection to npud and everything that hangs on it. Made by the first
 * call that needs a device.
 *
 * Locks: in the order of client/core/lock_order.h. A stream's lock may be held while its ring is
 * full: no thread waits for one while it holds session->lock.
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "client/runtime/arena_pages.h"
#include "client/core/lifecycle.h"
#include "client/core/process.h"
#include "client/core/side_thread.h"
#include "client/core/trace_writer.h"
#include "client/core/wait.h"
#include "client/runtime/session_parts.h"
#include "proto/shm/arena.h"
#include "proto/shm/doorbell.h"
#include "proto/wire/npud.pb-c.h"
#include "proto/util/slots.h"

struct allocator_entry;
struct context;
struct queues;
struct callback_workers;
struct staging;

#define RES_LIMITS 2 /* kinds of cores: aclrtDevResLimitType */

/** ASCEND_RT_VISIBLE_DEVICES: which of npud's devices the program is to see. */
struct visible {
    bool set; /* the variable is; else all devices are visible */
    uint32_t n;
    uint32_t device[DEVICES_MAX]; /* npud's numbers, ascending */
};

enum device_area {
    DEVICE_AREA_OVERFLOW, /* aclrtCtxGetFloatOverflowAddr */
    DEVICE_AREA_SYNC,     /* aclrtGetHardwareSyncAddr */
    DEVICE_AREAS
};

struct device_state {
    bool open;               /* OpenDevice was answered */
    _Atomic uint32_t opened; /* ... so often: each time but the first, after the device was lost */
    int doorbell;
    uint32_t set_count;
    uint32_t contexts; /* explicit ones */
    struct context *primary;
    struct context *copier;         /* context_lock_copier(); NULL: not used so far */
    _Atomic uint32_t copier_id;     /* of its stream, and 1 more; any thread reads it */
    uint32_t peer_devices;          /* bit p: this device may reach device p */
    uint32_t res_limit[RES_LIMITS]; /* by aclrtDevResLimitType; 0: not set */
    void *areas[DEVICE_AREAS];      /* client/memory/device_area.h; NULL: not asked for */
};

struct session {
    uint64_t serial;                 /* no two sessions of this process have the same */
    _Atomic uint64_t memory_changes; /* written under memory_lock */
    int socket;
    pthread_mutex_t request_lock;
    uint64_t last_request;
    _Atomic bool lost;          /* npud is gone, or has ended the session, or closed */
    _Atomic bool closed;        /* by aclFinalize; stored before lost */
    _Atomic bool aborted;       /* by session_lose(): sleepers are woken */
    pthread_mutex_t idle_lock;  /* held while npud is told that it is idle, or not */
    _Atomic bool idle;          /* written under idle_lock: see session_tell_idle() */
    bool closing;               /* under lock: aclFinalize has begun, no context is made */
    struct side_thread watcher; /* sees the end of the connection */

    uint64_t id;
    int32_t pid;      /* of this process, as npud's host has it */
    uint32_t uid;     /* the same */
    uint32_t peer_id; /* our name in shared buffers (proto/shm/mbuf_shm.h) */
    uint32_t ring_depth;
    uint64_t epoch_ns;
    uint32_t n_devices;
    struct {
        char soc_name[64];
        uint64_t memory;
        uint8_t uuid[16];
        bool strict; /* programs cannot read its memory, but for kernels */
        bool away;   /* nobody can map it */
    } device_info[DEVICES_MAX];
    struct visible visible;
    struct session_page *page;

    pthread_mutex_t lock;
    struct device_state devices[DEVICES_MAX];
    struct slots contexts;
    struct slots streams;
    pthread_cond_t stream_gone; /* under lock: a stream that was being destroyed is gone */
    struct slots events;
    /* of client/core/api_call.h: condemned events go when no thread uses older ones; 0: none are */
    uint64_t events_epoch;
    struct slots notifies;
    void *stream_files[SESSION_STREAMS_MAX / ARENA_STREAMS];
    void *event_files[SESSION_EVENTS_MAX / ARENA_EVENTS];
    struct arena_pages arena; /* under lock */

    pthread_rwlock_t memory_lock; /* for a change: memory_lock_to_change() counts it */
    void *memory;                 /* range_map of struct memory */
    struct memory *allocations;   /* the same, as a list */
    struct import *imports;       /* those of them that were imported by key, by it */
    uint32_t kernels_open;        /* client/memory/kernel_access.c */
    uint64_t managed_bytes;       /* of those of them that are managed memory */
    /* Device memory in it by device, and the most that there was. */
    uint64_t memory_used[DEVICES_MAX], memory_peak[DEVICES_MAX];
    /* What was freed last: all under memory_lock. */
    void *freed_map;
    struct memory *freed;           /* the same, longest ago first */
    uintptr_t freed_from, freed_to; /* it lies between these */
    size_t freed_count;
    uint64_t freed_bytes;
    void *reservations;     /* range_map of struct reservation: client/memory/virtual.c */
    struct slots physicals; /* client/memory/physical.c: handles, under lock */

    /* Host memory that the program has registered; under memory_lock. */
    void *registered_map;   /* range_map: ranges on the heap */
    _Atomic bool registers; /* there were some: what pageable memory is looked up for */
    _Atomic bool reserves;  /* the same of reservations */
    /* futex: threads that have waited for memory_lock alone for long: memory_lock.h */
    _Atomic uint32_t memory_wanted;

    pthread_mutex_t staging_lock;
    struct staging *staging;      /* buffers of copies that take their source at the call */
    struct staging *staging_open; /* those of them that may have room, by stream */
    size_t staging_bytes;         /* in all of them */

    pthread_mutex_t memory_pool_lock;
    struct slots memory_pools;     /* client/memory/memory_pool.c */
    struct pool_index *pool_index; /* of their idle blocks; NULL: there was no pool */

    pthread_mutex_t allocator_lock;
    struct allocator_entry *allocators; /* client/memory/allocator.c: by stream */

    struct trace_writer trace;
    struct waits waits;               /* threads of this process that sleep */
    struct callback_workers *workers; /* under process->callback_lock; NULL: no callbacks so far */
    struct stream_works works;
    struct captures captures;
    struct event_fds event_fds;
    pthread_mutex_t abort_lock; /* held to discard tasks; before the stream's lock */
    struct {
        struct side_thread thread;
        _Atomic uint32_t devices; /* bit d: device d is open */
        uint32_t lost_device;     /* next one to be told of as lost */
    } exceptions;
    struct segments segments; /* shared buffers: what is mapped */
    struct pool pool;
    _Atomic(struct queues *) queues; /* client/buffers/queue.c; NULL: none so far */
    struct side_thread retire;       /* client/buffers/retire.h */
    struct slots channels;           /* client/channel/channel.c: handles, under channel_lock */
    pthread_mutex_t channel_lock;    /* held while a channel is opened or closed; over requests */
    uint32_t contexts_made;
    struct session *forgotten_next;
    /* closed: of client/core/api_call.h, the first one in which no call can find it */
    uint64_t left_epoch;
};

/**
 * The session, connecting if need be. NULL with *error set and the sentence stored: forked child,
 * no npud to be found (ACL_ERROR_RT_NO_DEVICE), or npud has gone (ACL_ERROR_RT_SOCKET_CLOSE).
 */
struct session *session_get(const char *function, int *error);

/** The session if there is one, else NULL without an error: then no handle can be valid. */
static inline struct session *session_peek(void)
{
    return atomic_load_explicit(&process->session, memory_order_acquire);
}

/** Does anything record in this process? See client/capture/capture.h. */
static inline bool capture_runs(const struct session *s)
{
    return __builtin_expect(atomic_load_explicit(&s->captures.active, memory_order_relaxed) != 0,
                            0);
}

static inline bool session_lost(const struct session *s)
{
    return __builtin_expect(atomic_load_explicit(&s->lost, memory_order_acquire), 0);
}

/** npud is gone: threads that wait for it see that. Any thread, with any lock. */
void session_lose(struct session *s);

/**
 * Whether npud has ended the session; asked after a refusal. Known before the watcher has noticed
 * the end of the connection.
 */
bool session_ended(struct session *s) __attribute__((cold));

/**
 * The session is lost, and not because aclFinalize has closed it: then calls of other threads that
 * have found it end as they do when there is none.
 */
bool session_npud_gone(const struct session *s);

/** ACL_ERROR_RT_SOCKET_CLOSE, with its sentence. */
int session_error_lost(const char *function) __attribute__((cold));

/**
 * Declares `request`, and `in`, its body: a message with the given members, all others at their
 * defaults. REQUEST(destroy_stream, DESTROY_STREAM, .slot = s->remote);
 */
#define REQUEST(name, NAME, ...)                                                                   \
    __typeof__(*((Npud__Request *)0)->name) in = {                                                 \
        .base = PROTOBUF_C_MESSAGE_INIT(&npud__##name##__descriptor), __VA_ARGS__};                \
    Npud__Request request = {.base = PROTOBUF_C_MESSAGE_INIT(&npud__request__descriptor),          \
                             .body_case = NPUD__REQUEST__BODY_##NAME,                              \
                             .name = &in}

/**
 * One request and its answer. 0, or the ACL error with npud's sentence stored. *fd (when not NULL)
 * is the descriptor that came with the answer, or -1; *reply is to be freed with
 * session_reply_free().
 */
int session_request(struct session *s, const char *function, Npud__Request *request,
                    Npud__Reply **reply, int *fd);
void session_reply_free(Npud__Reply *reply);

/**
 * The first request of a connection. SESSION_UNANSWERED, without a sentence: the connection ended
 * before it was answered, and the session is not lost.
 */
#define SESSION_UNANSWERED (-1)
int session_request_first(struct session *s, const char *function, Npud__Request *request,
                          Npud__Reply **reply, int *fd);

/** The same for an answer with n descriptors: fds[i] is -1 where there is none. */
int session_request_fds(struct session *s, const char *function, Npud__Request *request,
                        Npud__Reply **reply, int *fds, size_t n);

/**
 * npud's answer to a request cannot be (client/runtime/reply.h has the rules): the session ends.
 * Returns ACL_ERROR_RT_SOCKET_CLOSE with a sentence that says what is wrong with it.
 */
int session_answer_damaged(struct session *s, const char *function, const Npud__Request *request,
                           const char *fault) __attribute__((cold));

/** A request whose answer carries nothing. */
int session_command(struct session *s, const char *function, Npud__Request *request);

/** session_command() where the program does not learn of an error. */
int session_command_unheard(struct session *s, Npud__Request *request);

/**
 * Map a file of the arena that came as fd (closed in any case) to *where. fd -1: it came before,
 * and is to be mapped already. Where *where is mapped, the new one takes its place. 0 or an ACL
 * error.
 */
int session_map_file(struct session *s, const char *function, int fd, size_t size, void **where);

/**
 * Open device at npud for this process, once; and again if it was lost, and the program has it no
 * more. Caller holds session->lock.
 */
int session_open_device(struct session *s, const char *function, uint32_t device);
/** Whether the program has set the device, or has a context there. Under session->lock. */
bool session_has_device(const struct session *s, uint32_t device);

/**
 * Leave npud, if nothing of the session is in use (aclFinalize). Caller holds process->lock. True:
 * the session is closed; call session_free_closed() after releasing the lock.
 */
bool session_close_if_unused(void);

/**
 * The session stays after aclFinalize: the process does nothing more by itself, and npud tells
 * others that wait for that. Not while a thread sleeps at a queue. Without locks.
 */
void session_tell_idle(void);
/** The process does something by itself: if npud was told otherwise, it hears of that. */
void session_use_again_slow(struct session *s) __attribute__((cold));

static inline void session_use_again(struct session *s)
{
    if (__builtin_expect(atomic_load_explicit(&s->idle, memory_order_relaxed), 0))
        session_use_again_slow(s);
}

/** Free the closed sessions once all other threads have left the calls that may use them. */
void session_free_closed(void);

/** aclInit after npud was lost: forget the old session, so that the next call connects anew. */
void session_forget_lost(void);
