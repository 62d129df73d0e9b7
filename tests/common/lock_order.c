#include "tests/common/lock_order.h"

#include <execinfo.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* Locks that are known, by address. One that goes leaves its entry behind. */
#define KNOWN_LOG2 14 /* 384 KiB: tests measure what a peak of events leaves behind */
#define KNOWN      (1u << KNOWN_LOG2)
#define PROBES     64 /* a lock that finds no place among so many is not checked */
static struct known {
    _Atomic(const void *) lock;
    _Atomic int rank;
    _Atomic(const char *) name;
} known[KNOWN];

/* Of the calling thread, in the order in which it has taken them. */
#define HELD_MAX 16
static __thread struct {
    pid_t pid; /* a child holds nothing of what its parent held */
    unsigned n;
    struct {
        const void *lock;
        const struct known *known; /* NULL: it is not */
    } lock[HELD_MAX];
} held;

static uint32_t place_of(const void *lock)
{
    return (uint32_t)((uint64_t)(uintptr_t)lock * UINT64_C(0x9e3779b97f4a7c15) >>
                      (64 - KNOWN_LOG2));
}

void lock_order_know_as(const void *lock, int rank, const char *name)
{
    for (uint32_t i = 0; i < PROBES; i++) {
        struct known *k = &known[(place_of(lock) + i) % KNOWN];
        const void *there = NULL;

        if (!atomic_compare_exchange_strong(&k->lock, &there, lock) && there != lock)
            continue;
        atomic_store(&k->name, name);
        atomic_store(&k->rank, rank);
        return;
    }
}

static const struct known *find(const void *lock)
{
    for (uint32_t i = 0; i < PROBES; i++) {
        const struct known *k = &known[(place_of(lock) + i) % KNOWN];
        const void *there = atomic_load(&k->lock);

        if (there == lock)
            return k;
        if (!there)
            break;
    }
    return NULL;
}

/* The calling thread, which is to wait for this lock, must hold none of its rank or one inside. */
static void check(const struct known *k, bool same, const char *what)
{
    void *frames[32];

    for (unsigned i = 0; k && i < held.n; i++) {
        const struct known *h = held.lock[i].known;

        if (!h || h->rank < k->rank || (h->rank == k->rank && !same))
            continue;
        dprintf(STDERR_FILENO, "lock order: a thread %s %s, and holds %s\n", what, k->name,
                h->name);
        backtrace_symbols_fd(frames, backtrace(frames, 32), STDERR_FILENO);
        abort();
    }
}

static void begin(void)
{
    if (held.pid == getpid())
        return;
    held.pid = getpid();
    held.n = 0;
}

void lock_order_has(const void *lock)
{
    begin();
    if (held.n == HELD_MAX)
        abort();
    held.lock[held.n].lock = lock;
    held.lock[held.n++].known = find(lock);
}

void lock_order_take(const void *lock)
{
    begin();
    check(find(lock), true, "waits for");
    lock_order_has(lock);
}

void lock_order_give(const void *lock)
{
    begin();
    for (unsigned i = held.n; i-- > 0;)
        if (held.lock[i].lock == lock) {
            for (held.n--; i < held.n; i++)
                held.lock[i] = held.lock[i + 1];
            return;
        }
}

void lock_order_sleep(const void *mutex)
{
    begin();
    check(find(mutex), false, "sleeps, to take again");
}
