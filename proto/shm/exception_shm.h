/*
 * Exceptions: what npud tells a client about each of its tasks that fails, for the callbacks of
 * aclrtSetExceptionInfoCallback. One ring per device in the session page, because each device has
 * an engine of its own.
 *
 * Writers: npud writes `head`, `full` and the entries, and keeps its own head; the client
 * writes `wanted` and `tail`. npud reads these two as they are: a client that writes nonsense there
 * misses exceptions, or has its own failing streams wait.
 *
 * Failing (engine), only while `wanted`:
 *     entry[head % EXCEPTIONS] = ...    before the error itself can be seen
 *     head = head + 1                   release
 *     session page: exception_seq += 1, FUTEX_WAKE
 * Without room the stream that fails stays at its task: full = 1, then tail is looked at once more,
 * and from then on with each turn of the engine. So nothing is lost, and npud needs no memory for
 * it. Taking (client, one thread at a time):
 *     copy the entry
 *     tail = tail + 1                   seq_cst
 *     if (full && !doorbell watched) write to the doorbell's eventfd
 * Killed between any two of these: the session goes, and its ring with it.
 */
#pragma once

#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "proto/util/kill_point.h"

#define EXCEPTIONS 64u
/** In place of task, stream and thread, when it is not a task that failed but the device. */
#define EXCEPTION_NONE UINT32_MAX

/** A failure, in plain words. */
struct exception {
    uint32_t task;   /* its id, as aclrtGetThreadLastTaskId() has it */
    uint32_t stream; /* as aclrtStreamGetId() has it */
    uint32_t thread; /* kernel's id of the submitting thread, as the client says */
    int32_t code;
};

struct exception_ring {
    alignas(64) _Atomic uint64_t tail; /* client */
    _Atomic uint32_t wanted;           /* client: there is a callback */
    alignas(64) _Atomic uint64_t head; /* npud */
    _Atomic uint32_t full;             /* npud: streams wait for room */
    alignas(64) _Atomic uint64_t entry[EXCEPTIONS][2];
};

/** npud: number of free entries. A tail that cannot be leaves none. */
static inline uint64_t exception_room(const struct exception_ring *r, uint64_t head)
{
    uint64_t used = head - atomic_load(&r->tail);

    return used > EXCEPTIONS ? 0 : EXCEPTIONS - used;
}

/** npud: write the entry at `head`, which is free. No client sees it until exception_publish(). */
static inline void exception_put(struct exception_ring *r, uint64_t head, const struct exception *e)
{
    _Atomic uint64_t *entry = r->entry[head % EXCEPTIONS];

    atomic_store_explicit(&entry[0], (uint64_t)e->stream << 32 | e->task, memory_order_relaxed);
    atomic_store_explicit(&entry[1], (uint64_t)(uint32_t)e->code << 32 | e->thread,
                          memory_order_relaxed);
}

/** npud: the entries before `head` are there. */
static inline void exception_publish(struct exception_ring *r, uint64_t head)
{
    atomic_store_explicit(&r->head, head, memory_order_release);
}

/**
 * Client, one thread at a time: take the oldest entry. False: there is none. *ring: the caller
 * tells the engine that there is room.
 */
static inline bool exception_take(struct exception_ring *r, struct exception *e, bool *ring)
{
    uint64_t tail = atomic_load_explicit(&r->tail, memory_order_relaxed);
    uint64_t words[2];

    if (atomic_load_explicit(&r->head, memory_order_acquire) == tail)
        return false;
    for (unsigned i = 0; i < 2; i++)
        words[i] = atomic_load_explicit(&r->entry[tail % EXCEPTIONS][i], memory_order_relaxed);
    *e = (struct exception){.task = (uint32_t)words[0],
                            .stream = (uint32_t)(words[0] >> 32),
                            .thread = (uint32_t)words[1],
                            .code = (int32_t)(uint32_t)(words[1] >> 32)};
    KILL_POINT(EXCEPTION_READ);
    /* Dekker with the engine, which says that it is full and then looks at tail. */
    atomic_store(&r->tail, tail + 1);
    KILL_POINT(EXCEPTION_TAKEN);
    *ring = atomic_load(&r->full);
    return true;
}
