/*
 * Explores small concurrent programs under C11's memory orders, also those that the machine's own
 * processor never shows.
 *
 * Threads are coroutines. Each atomic operation of a scenario goes through explore.c (atomics.h
 * redefines the macros of <stdatomic.h>, so that the real headers of proto/ take part). The model
 * is operational:
 *
 *   - A location keeps all its messages (stores) in modification order. Each thread has a view: the
 *     newest message of each location that it must know. A load may read any message that is not
 *     older than the view. So a load may be stale, as with store buffers, and a store may be placed
 *     before other threads' stores.
 *   - A release store puts the thread's view into the message; an acquire load joins it. Release
 *     and acquire fences do the same for relaxed operations around them. A read-modify-write is
 *     adjacent to the message that it reads, and carries that message's view too.
 *   - A seq_cst fence joins the thread's view with a global view, in both directions. A seq_cst
 *     operation is bounded by the global view of its own location only: as on ARMv8, it does not
 *     order relaxed operations around it. A seq_cst load tells the global view nothing: the
 *     processor may have it from its own store buffer.
 *   - A load never reads a store that comes later (no load buffering).
 *   - Plain data has clocks: two accesses, one of them a write, that nothing orders are a data
 *     race.
 *   - A futex wait is one step: a seq_cst fence, a load, sleep when the value is the expected one.
 *     A futex wake is a seq_cst fence and the sleepers. When no thread can go on and one sleeps, a
 *     wake-up was lost.
 *
 * A run is its choices: which thread goes on, which message is read, where a store is placed. The
 * default goes on with the same thread and reads the newest message. Each other choice is a
 * deviation. All runs with at most `deviations` of them are explored, and then `random` runs with
 * more. When a run fails, ORDER_TRACE=1 in the environment prints its steps.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ORDER_THREADS 4

struct order_scenario {
    const char *name;
    void (*begin)(void);                 /* sets the memory; not modelled */
    void (*thread[ORDER_THREADS])(void); /* up to the first NULL */
    void (*end)(void);                   /* all threads have ended: checks the newest values */
    unsigned deviations;
    unsigned random;
};

/** Explores all runs. NULL: each was right; otherwise what went wrong first. */
const char *order_explore(const struct order_scenario *scenario);

/** Number of runs of the last exploration. */
unsigned long order_runs(void);

/** The calling thread's number. */
unsigned order_self(void);

/** Ends the run as a failure. */
void order_fail(const char *what, const char *at) __attribute__((noreturn));

#define ORDER_STRING_(x) #x
#define ORDER_STRING(x)  ORDER_STRING_(x)
#define ORDER_AT         __FILE__ ":" ORDER_STRING(__LINE__)
#define SURE(condition)  ((condition) ? (void)0 : order_fail(#condition, ORDER_AT))

/* One access of plain data at `data`, which is only a name here. */
void order_plain_read(const void *data, const char *at);
void order_plain_write(const void *data, const char *at);
#define PLAIN_READ(data)  order_plain_read(data, ORDER_AT)
#define PLAIN_WRITE(data) order_plain_write(data, ORDER_AT)

/* Futexes. */
void order_futex_wait(const _Atomic uint32_t *word, uint32_t expected, const char *at);
void order_futex_wake(const _Atomic uint32_t *word, unsigned n, const char *at);
#define FUTEX_WAIT_ON(word, seen) order_futex_wait(word, seen, ORDER_AT)
#define FUTEX_WAKE_ALL(word)      order_futex_wake(word, UINT32_MAX, ORDER_AT)
#define FUTEX_WAKE_ONE(word)      order_futex_wake(word, 1, ORDER_AT)

/*
 * A lock: only its address counts. Also what an eventfd or a socket orders: bytes in the kernel
 * under a lock.
 */
void order_lock(const void *lock);
void order_unlock(const void *lock);

/**
 * Sleeps until another thread has called order_post(object); consumes all the calls. The kernel's
 * lock orders the two.
 */
void order_wait_post(const void *object);
void order_post(const void *object);

/**
 * Ends the other threads' use of this process' processors' reordering: membarrier(2). Each thread
 * of the scenario executes a seq_cst fence.
 */
void order_membarrier(void);

/* What atomics.h uses. */
uint64_t order_load(const volatile void *p, size_t size, int order, const char *at);
void order_store(volatile void *p, size_t size, uint64_t value, int order, const char *at);
enum order_rmw { ORDER_ADD, ORDER_SUB, ORDER_OR, ORDER_AND, ORDER_SWAP };
uint64_t order_rmw(volatile void *p, size_t size, enum order_rmw what, uint64_t value, int order,
                   const char *at);
bool order_exchange(volatile void *p, size_t size, uint64_t *expected, uint64_t value, int yes,
                    int no, const char *at);
void order_fence(int order, const char *at);
