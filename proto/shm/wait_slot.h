/*
 * The sleeping threads of a process, and what they sleep on: one slot in the session page per
 * thread that is asleep in the library. For npud's report "waits" alone; nothing else depends on
 * it.
 *
 * Writers: the client writes all of it, npud only reads. A slot is taken lowest first, so
 * that npud has few to look at and unused ones cost no memory. `since_ns` is written last on the
 * way in and first on the way out; npud reads it before and after the rest, and leaves the slot out
 * when it has changed. Killed at any store: the session goes, and its page with it. A client that
 * writes nonsense here tells lies about itself: what it names is looked up in its own tables.
 */
#pragma once

#include <assert.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "proto/util/kill_point.h"

#define WAIT_SLOTS      1024u /* threads asleep at the same time; more are not shown */
#define WAIT_CALL       36u   /* bytes of the function's name, and its NUL */
#define LIBRARY_THREADS 1     /* of a client: its watcher, which never submits anything */

enum wait_kind {
    WAIT_POSITION = 1, /* until stream `object` has retired `target` tasks */
    WAIT_RECORD = 2,   /* until record `target` of open IPC event `object` is not pending */
    WAIT_CALLBACK = 3, /* until callback word `object` tells of a callback */
    WAIT_MESSAGE = 4,  /* until the ring with number `object` has a message for us */
    WAIT_ROOM = 5,     /* until the ring with number `object` has room */
    /* until we are granted queue `object` of our user; or, if `target` is not 0, of the user with
     * uid `target` - 1 */
    WAIT_GRANT = 6,
};
#define WAIT_KIND_MASK 15u
#define WAIT_TIMED     16u /* the call has a time limit */

struct wait_slot {
    /*
     * CLOCK_MONOTONIC of npud, some milliseconds early at most; 0: the slot is free. Each sleep has
     * another one.
     */
    alignas(64) _Atomic uint64_t since_ns;
    _Atomic uint64_t target;
    _Atomic uint32_t thread;
    _Atomic uint32_t object; /* npud's number in the session */
    _Atomic uint32_t what;   /* kind | WAIT_TIMED */
    _Atomic uint32_t call[WAIT_CALL / sizeof(uint32_t)];
};

static_assert(sizeof(struct wait_slot) == 64, "one cache line per sleeping thread");

/** A copy of a slot, in plain words. */
struct wait_info {
    uint64_t since_ns;
    uint64_t target;
    uint32_t thread;
    uint32_t object;
    uint32_t what;
    char call[WAIT_CALL];
};

/** Client: the thread described by info goes to sleep. The slot is the caller's. */
static inline void wait_slot_fill(struct wait_slot *slot, const struct wait_info *info)
{
    uint32_t words[WAIT_CALL / sizeof(uint32_t)];

    memcpy(words, info->call, sizeof(words));
    for (unsigned i = 0; i < WAIT_CALL / sizeof(uint32_t); i++)
        atomic_store_explicit(&slot->call[i], words[i], memory_order_relaxed);
    atomic_store_explicit(&slot->target, info->target, memory_order_relaxed);
    KILL_POINT(SLEEP_SLOT);
    atomic_store_explicit(&slot->thread, info->thread, memory_order_relaxed);
    atomic_store_explicit(&slot->object, info->object, memory_order_relaxed);
    atomic_store_explicit(&slot->what, info->what, memory_order_relaxed);
    atomic_store_explicit(&slot->since_ns, info->since_ns, memory_order_release);
}

/** Client: it is awake again. */
static inline void wait_slot_clear(struct wait_slot *slot)
{
    atomic_store_explicit(&slot->since_ns, 0, memory_order_relaxed);
    /* The next user's words must not be seen under the old time. */
    atomic_thread_fence(memory_order_release);
}

/** npud: copy a slot. False: no thread sleeps there, or it changed meanwhile. */
static inline bool wait_slot_read(struct wait_slot *slot, struct wait_info *info)
{
    uint32_t words[WAIT_CALL / sizeof(uint32_t)];

    info->since_ns = atomic_load_explicit(&slot->since_ns, memory_order_acquire);
    for (unsigned i = 0; i < WAIT_CALL / sizeof(uint32_t); i++)
        words[i] = atomic_load_explicit(&slot->call[i], memory_order_relaxed);
    info->target = atomic_load_explicit(&slot->target, memory_order_relaxed);
    info->thread = atomic_load_explicit(&slot->thread, memory_order_relaxed);
    info->object = atomic_load_explicit(&slot->object, memory_order_relaxed);
    info->what = atomic_load_explicit(&slot->what, memory_order_relaxed);
    memcpy(info->call, words, sizeof(words));
    info->call[WAIT_CALL - 1] = '\0';
    atomic_thread_fence(memory_order_acquire);
    return info->since_ns != 0 &&
           atomic_load_explicit(&slot->since_ns, memory_order_relaxed) == info->since_ns;
}
