/*
 * The doorbell of a session on one device: how an engine that does not look learns of new tasks.
 *
 * One block per device in the session page, plus an eventfd that the engine of that device sleeps
 * on. Two levels, because an engine that is awake must neither poll thousands of idle streams nor
 * thousands of idle sessions:
 *
 *     watched        the engine                                the submitter
 *     the stream     polls the tail of this stream             does nothing more
 *     the doorbell   polls the summary word of this session    sets two bits
 *     neither        may sleep                                 sets two bits, writes the eventfd
 *
 * Writers: the client sets bits, npud clears them (with an exchange, before it reads the
 * tails they stand for) and writes `watched`. Bits of unknown streams are ignored. A client that
 * damages the block loses its own wake-ups only.
 *
 * Order, for both levels: the submitter stores (tail; bit) and then loads watched; the engine
 * stores watched = 0, fences and then looks at tail / summary once more. Both sequentially
 * consistent, so one of them sees the other. A client that is killed between the two stores leaves
 * work of which npud was not told; its death removes the work.
 */
#pragma once

#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/shm/exception_shm.h"
#include "proto/util/kill_point.h"
#include "proto/shm/callback_shm.h"
#include "proto/shm/wait_slot.h"

#define SESSION_STREAMS_MAX 4096 /* 64 words of 64 bits */
#define DEVICES_MAX         16
#define SESSION_MEMS_MAX    65536u /* allocations of a session */
#define EVENT_FDS_MAX       1024   /* event descriptors of a session, aclnpudEventNotifyFd() */

/*
 * How calls on streams of the device behave; npud's word, which changes with the rules of `npuctl
 * inject` only. FREE: what can be complete at the call is, and no engine hears of it. STRICT: every
 * record, reset and wait is a task, so that rules see, and count, the same tasks in every run.
 * Anything else: the device is lost; submitting and synchronising return this ACL error code.
 */
#define DOORBELL_FREE   0u
#define DOORBELL_STRICT 1u

struct doorbell {
    alignas(64) _Atomic uint32_t watched; /* npud */
    _Atomic uint32_t mode;                /* npud; the client loads it relaxed */
    alignas(64) _Atomic uint64_t summary; /* bit w: word[w] may be non-zero */
    alignas(64) _Atomic uint64_t word[SESSION_STREAMS_MAX / 64];
};

/** First segment of a session's arena: made at Hello. */
struct session_page {
    struct doorbell doorbell[DEVICES_MAX];
    alignas(64) _Atomic uint32_t waits_used; /* client: no slot from here on was ever taken */
    /*
     * client: its library's threads that do nothing by themselves, beside the watcher: they end no
     * wait. For npud's report "waits" alone. It lies in what was padding.
     */
    _Atomic uint32_t library_threads;
    struct wait_slot waits[WAIT_SLOTS];
    struct callback_word callback_word[CALLBACK_WORDS];
    /*
     * Event descriptors that are to be written, by the number that the client has given them: npud
     * sets a bit and changes `told`, the client clears the bit and writes. If npud ends, the client
     * writes the others.
     */
    alignas(64) _Atomic uint64_t written[EVENT_FDS_MAX / 64];
    /*
     * npud: streams of the session that are parked on a word of device memory. For libraries of
     * before protocol 10, which do not know `waited`.
     */
    alignas(64) _Atomic uint32_t value_waiters;
    /* futex; npud: changes when a queue has been granted to this process */
    alignas(64) _Atomic uint32_t grants;
    alignas(64) _Atomic uint32_t exception_seq; /* futex: npud has put something in a ring */
    _Atomic uint32_t told; /* futex; npud: changes after a bit of `written` was set */
    /*
     * futex; npud: changes when a queue of the session was destroyed, its last right to one is
     * gone, or a segment of shared buffers that it maps was taken back (client/buffers/retire.h)
     */
    alignas(64) _Atomic uint32_t retired;
    /*
     * npud: not 0 once the session has ended. npud stores it before it changes any other word
     * because of the end, so a client that was refused something because of such a change finds it
     * set: session_announce_end(), session_has_ended().
     */
    _Atomic uint32_t ended;
    /*
     * npud: which trace runs; 0: none. The client asks for a ring (GetTraceRing), for each trace
     * anew, and writes there what it does. It lies in what was padding: pages made before it was
     * there read as 0.
     */
    _Atomic uint32_t trace;
    struct exception_ring exceptions[DEVICES_MAX];
    /*
     * npud: a bit for each allocation of the session, by its slot: streams, of this session or of
     * another that has the same pages, may be parked on a word of it. A thread that has written
     * device memory by itself tells npud only then: stores, seq_cst fence, this load; npud sets the
     * bit before it looks at the word for the last time. Not in pages that were made before
     * protocol 10: session_page_tells_waited().
     */
    alignas(64) _Atomic uint64_t waited[SESSION_MEMS_MAX / 64];
};

/** npud: does a page of so many bytes have `waited`? */
static inline bool session_page_tells_waited(size_t bytes)
{
    return bytes >=
           offsetof(struct session_page, waited) + sizeof(((struct session_page *)NULL)->waited);
}

/** Client: is npud to be told that the calling thread has written this allocation by itself? */
static inline bool session_is_waited(const struct session_page *page, uint32_t mem)
{
    atomic_thread_fence(memory_order_seq_cst);
    return atomic_load_explicit(&page->waited[mem / 64 % (SESSION_MEMS_MAX / 64)],
                                memory_order_relaxed) >>
               (mem % 64) &
           1;
}

/** npud: before the end of the session changes the first word that the client reads. */
static inline void session_announce_end(struct session_page *page)
{
    atomic_store_explicit(&page->ended, 1, memory_order_relaxed);
    /*
     * A client that sees a later store of npud, also a relaxed one, sees this one after its own
     * fence.
     */
    atomic_thread_fence(memory_order_release);
}

/** Client: whether the refusal that the calling thread has just met may be due to the end. */
static inline bool session_has_ended(const struct session_page *page)
{
    atomic_thread_fence(memory_order_acquire);
    return atomic_load_explicit(&page->ended, memory_order_relaxed) != 0;
}

/**
 * Client: tell the engine that stream `slot` has new tasks, after their tail was stored and the
 * stream was found unwatched. True: the engine may be asleep and the caller must write to the
 * eventfd.
 *
 * When the bit was set already, the thread that set it rings or has rung, and the engine has not
 * yet looked: nothing to do. That makes a burst of submissions to a sleeping engine cost one system
 * call and not one each.
 */
static inline bool doorbell_raise(struct doorbell *d, uint32_t slot)
{
    uint64_t bit = UINT64_C(1) << (slot % 64);

    if (atomic_fetch_or(&d->word[slot / 64], bit) & bit)
        return false;
    KILL_POINT(BELL_WORD);
    atomic_fetch_or(&d->summary, UINT64_C(1) << (slot / 64));
    KILL_POINT(BELL_SUMMARY);
    return !atomic_load(&d->watched);
}

/**
 * Engine: stop to look at the summary. False: a bit was set meanwhile, and the caller goes on.
 * Dekker with doorbell_raise(): each side stores and then loads, all seq_cst, so one of the two
 * sees the other.
 */
static inline bool doorbell_unwatch(struct doorbell *d)
{
    atomic_store(&d->watched, 0);
    return atomic_load(&d->summary) == 0;
}
