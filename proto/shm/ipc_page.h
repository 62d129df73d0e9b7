/*
 * Shared memory of an IPC event: one memfd, mapped by npud and by every session that has the event
 * open.
 *
 * Records are numbered from 1, over all processes. `latest` names the newest record, its opener
 * and, when the record was complete at the call, that fact. Number n has its state in slot[n %
 * IPC_SLOTS] until n + IPC_SLOTS is taken, which is allowed only when n is no longer pending (a
 * full window makes the recorder wait).
 *
 * Writers: every process that has the event open writes `latest` and the slots; npud completes
 * the records that its engines execute, fails those of dead sessions and writes `failed`. Openers
 * trust each other with this one event: they could signal falsely by recording anyway. npud trusts
 * none of it: it decides by slot contents only what to do with this event, reads each word once,
 * and its loops are bounded by IPC_SLOTS.
 *
 * Taking a number, so that a kill at any store leaves no record without owner:
 *   1. help: if slot[latest.n] does not carry latest.n yet, install {n, opener, state} from
 * `latest` there;
 *   2. check that slot[(n + 1) % IPC_SLOTS] is not pending;
 *   3. compare-and-swap latest from (n, opener, state) to (n + 1, me, state of the new record).
 * Step 3 is the record. Killed before it: nothing happened. Killed after it: number and owner are
 * in `latest`, and stay known because no opener takes n + 2 before it has installed n + 1.
 * npud's sweep after a death does step 1 as well and then finds every record of the dead opener in
 * the slots.
 *
 * A record on a stream with nothing outstanding is taken as IPC_DONE: it was never pending, so
 * no thread can sleep on it. Sleepers on a pending record set IPC_WAITERS in its slot, and sleep on
 * wake_seq; the process that completes the record swaps the state, sees the bit, bumps
 * wake_seq and wakes.
 * Same word, so neither can miss the other.
 *
 * A process may outlive its session, or be late with a record of an event that it has closed. So
 * npud fails the pending records of an opener that leaves in two steps: it sets the opener's bit in
 * `gone`, then it sweeps. A waiter sees a pending record, and then looks at `gone` before it
 * sleeps. Whatever the order, either the sweep finds the record, or the waiter finds the bit; then
 * the waiter asks npud, which fails the record. The bit stays until the number is given out again,
 * and that is not before the process has exited (daemon/core/survivor.h).
 */
#pragma once

#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "proto/util/kill_point.h"

#ifndef IPC_SLOTS       /* a model of this page takes fewer */
#define IPC_SLOTS 1024u /* records in flight per event; the 1025th recorder waits */
#endif
#define IPC_OPENERS_MAX 4095u /* sessions with the event open at the same time */

enum ipc_state {
    IPC_NONE = 0,    /* never recorded */
    IPC_PENDING = 1, /* recorded, not executed */
    IPC_DONE = 2,    /* executed */
    IPC_FAILED = 3,  /* its process died, or discarded it, before it executed */
};
#define IPC_STATE_MASK 3u
#define IPC_WAITERS    4u /* slot only: a thread sleeps on this record */

struct ipc_page {
    alignas(64) _Atomic uint64_t latest; /* number << 14 | opener << 2 | state */
    alignas(64) _Atomic uint32_t wake_seq;
    /* npud: newest number that failed. If its slot was taken over, a waiter asks npud if its number
     * is not above this. */
    _Atomic uint64_t failed;
    alignas(64) _Atomic uint64_t
        slot[IPC_SLOTS]; /* low 32 bits of number << 32 | opener << 16 | waiters | state */
    /* npud: a bit for each opener that it does not know any more. */
    alignas(64) _Atomic uint64_t gone[(IPC_OPENERS_MAX + 63) / 64];
};

static inline uint64_t ipc_latest_make(uint64_t number, uint32_t opener, uint32_t state)
{
    return number << 14 | (uint64_t)opener << 2 | state;
}

static inline uint64_t ipc_latest_number(uint64_t latest)
{
    return latest >> 14;
}

static inline uint32_t ipc_latest_state(uint64_t latest)
{
    return (uint32_t)latest & IPC_STATE_MASK;
}

static inline uint64_t ipc_slot_of_latest(uint64_t latest)
{
    return (uint64_t)(uint32_t)ipc_latest_number(latest) << 32 | ((latest >> 2) & 0xfff) << 16 |
           ipc_latest_state(latest);
}

static inline uint32_t ipc_slot_tag(uint64_t slot)
{
    return (uint32_t)(slot >> 32);
}

static inline uint32_t ipc_slot_opener(uint64_t slot)
{
    return (uint32_t)(slot >> 16) & 0xfff;
}

static inline uint32_t ipc_slot_state(uint64_t slot)
{
    return (uint32_t)slot & IPC_STATE_MASK;
}

/** Install the state of the newest record in its slot, if no opener has yet. */
static inline void ipc_help(struct ipc_page *p, uint64_t latest)
{
    uint64_t n = ipc_latest_number(latest);
    _Atomic uint64_t *slot = &p->slot[n % IPC_SLOTS];
    uint64_t old = atomic_load_explicit(slot, memory_order_acquire);

    /*
     * If the slot changes under us, another opener has installed n, or n was overtaken already: the
     * swap fails, as it must. An equal value cannot come back: tags differ for 2^32 records. Zero:
     * the slot was never used.
     */
    if (n != 0 && (old == 0 || ipc_slot_tag(old) == (uint32_t)(n - IPC_SLOTS))) {
        KILL_POINT(RECORD_HELP);
        atomic_compare_exchange_strong_explicit(slot, &old, ipc_slot_of_latest(latest),
                                                memory_order_acq_rel, memory_order_relaxed);
        KILL_POINT(RECORD_HELPED);
    }
}

/** What the page has of record number, in the form of a slot. 0: nothing (any more). */
static inline uint64_t ipc_word_of(struct ipc_page *p, uint64_t number)
{
    uint64_t latest = atomic_load_explicit(&p->latest, memory_order_acquire);
    uint64_t slot;

    if (number == 0)
        return 0;
    if (ipc_latest_number(latest) == number) {
        if (ipc_latest_state(latest) != IPC_PENDING)
            return ipc_slot_of_latest(latest);
        ipc_help(p, latest);
    }
    slot = atomic_load_explicit(&p->slot[number % IPC_SLOTS], memory_order_acquire);
    return ipc_slot_tag(slot) == (uint32_t)number ? slot : 0;
}

/**
 * State of record number. IPC_NONE: nothing was ever recorded (number 0), or the slot was taken
 * over by a later record and so this one is not pending any more; then it has failed if npud
 * remembers so (possible only up to `failed`), else it is done.
 */
static inline enum ipc_state ipc_state_of(struct ipc_page *p, uint64_t number)
{
    return (enum ipc_state)ipc_slot_state(ipc_word_of(p, number));
}

/** Is the newest record done, at first look? False: ipc_state_of() knows. */
static inline bool ipc_is_done(const struct ipc_page *p)
{
    uint64_t latest = atomic_load_explicit(&p->latest, memory_order_acquire);
    uint64_t n = ipc_latest_number(latest), slot;

    if (ipc_latest_state(latest) == IPC_DONE)
        return true;
    slot = atomic_load_explicit(&p->slot[n % IPC_SLOTS], memory_order_acquire);
    return ipc_slot_tag(slot) == (uint32_t)n && ipc_slot_state(slot) == IPC_DONE;
}

/** npud: the opener is not known any more. Before the sweep that fails its pending records. */
static inline void ipc_set_gone(struct ipc_page *p, uint32_t opener)
{
    atomic_fetch_or_explicit(&p->gone[opener / 64 % 64], UINT64_C(1) << opener % 64,
                             memory_order_relaxed);
    /* Pairs with the fence in ipc_orphaned(): the bit first, then the look at the records. */
    atomic_thread_fence(memory_order_seq_cst);
}

/** npud: the number is given out again. No process is left that records with it. */
static inline void ipc_clear_gone(struct ipc_page *p, uint32_t opener)
{
    atomic_fetch_and_explicit(&p->gone[opener / 64 % 64], ~(UINT64_C(1) << opener % 64),
                              memory_order_relaxed);
}

/** Is the record pending and its opener gone? Then npud fails it when it is asked. */
static inline bool ipc_orphaned(struct ipc_page *p, uint64_t number)
{
    uint64_t word = ipc_word_of(p, number);
    uint32_t opener = ipc_slot_opener(word);

    if (ipc_slot_state(word) != IPC_PENDING)
        return false;
    atomic_thread_fence(memory_order_seq_cst);
    return atomic_load_explicit(&p->gone[opener / 64 % 64], memory_order_relaxed) >> opener % 64 &
           1;
}

/**
 * Record: take the next number for opener, with state IPC_PENDING or IPC_DONE. Returns the number,
 * or 0 when the window is full; *blocker is then the pending record that must complete first.
 */
static inline uint64_t ipc_take(struct ipc_page *p, uint32_t opener, enum ipc_state state,
                                uint64_t *blocker)
{
    uint64_t latest = atomic_load_explicit(&p->latest, memory_order_acquire);
    uint64_t next, n;

    do {
        ipc_help(p, latest);
        n = ipc_latest_number(latest) + 1;
        if (n > IPC_SLOTS && ipc_state_of(p, n - IPC_SLOTS) == IPC_PENDING) {
            *blocker = n - IPC_SLOTS;
            return 0;
        }
        next = ipc_latest_make(n, opener, state);
        /* acq_rel: what this process did before the record is visible to a reader of the record */
    } while (!atomic_compare_exchange_weak_explicit(&p->latest, &latest, next, memory_order_acq_rel,
                                                    memory_order_acquire));
    KILL_POINT(RECORD_TAKEN);
    return n;
}

/**
 * Move a pending record of opener to IPC_DONE or IPC_FAILED. False when there is no such record: it
 * was complete already, or a hostile opener wrote here. True with *waiters set: the caller calls
 * ipc_wake().
 */
static inline bool ipc_complete(struct ipc_page *p, uint64_t number, uint32_t opener,
                                enum ipc_state state, bool *waiters)
{
    _Atomic uint64_t *slot = &p->slot[number % IPC_SLOTS];
    uint64_t latest = atomic_load_explicit(&p->latest, memory_order_acquire);
    uint64_t old;
    unsigned tries = 0;

    if (ipc_latest_number(latest) == number)
        ipc_help(p, latest);
    old = atomic_load_explicit(slot, memory_order_relaxed);
    do {
        /*
         * An honest slot changes a few times in its life; one that keeps changing is played with.
         */
        if (tries++ == IPC_SLOTS)
            return false;
        if (ipc_slot_tag(old) != (uint32_t)number || ipc_slot_opener(old) != opener ||
            ipc_slot_state(old) != IPC_PENDING)
            return false;
    } while (!atomic_compare_exchange_weak_explicit(
        slot, &old, (old & ~(uint64_t)(IPC_STATE_MASK | IPC_WAITERS)) | state, memory_order_acq_rel,
        memory_order_relaxed));
    *waiters = old & IPC_WAITERS;
    return true;
}

/**
 * Announce a sleeper on record number. False: the record is not pending (any more). True: the
 * caller looks at ipc_orphaned() before it sleeps.
 */
static inline bool ipc_arm(struct ipc_page *p, uint64_t number)
{
    _Atomic uint64_t *slot = &p->slot[number % IPC_SLOTS];
    uint64_t old;

    if (ipc_state_of(p, number) != IPC_PENDING)
        return false;
    old = atomic_load_explicit(slot, memory_order_relaxed);
    do {
        if (ipc_slot_tag(old) != (uint32_t)number || ipc_slot_state(old) != IPC_PENDING)
            return false;
    } while (!(old & IPC_WAITERS) &&
             !atomic_compare_exchange_weak_explicit(slot, &old, old | IPC_WAITERS,
                                                    memory_order_acq_rel, memory_order_relaxed));
    KILL_POINT(RECORD_ARMED);
    return true;
}
