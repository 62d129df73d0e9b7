/* What the unit tests share. A header, because each test_*.c is a program of its own. */
#pragma once

#include <check.h>
#include <dirent.h>
#include <pthread.h>
#include <sched.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "proto/util/clock.h"
#include "tests/common/suite.h"

#ifndef GUARD_NS
#define GUARD_NS (300 * NSEC_PER_SEC) /* against hanging only */
#endif

/** ck_assert() for loops that race: that one makes a system call for every success, too. */
#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition))                                                                          \
            ck_abort_msg("%s", #condition);                                                        \
    } while (0)

/** Open descriptors of this process, not counting the one that looks. */
static inline unsigned count_fds(void)
{
    DIR *dir = opendir("/proc/self/fd");
    struct dirent *d;
    unsigned n = 0;

    ck_assert_ptr_nonnull(dir);
    while ((d = readdir(dir)))
        n += d->d_name[0] != '.';
    closedir(dir);
    return n - 1;
}

/** Pseudo-random numbers that are the same in every run (xorshift*); the state must not be 0. */
static inline uint64_t random_next(uint64_t *state)
{
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return *state * UINT64_C(0x2545f4914f6cdd1d);
}

/** One in [0, n). */
static inline uint32_t random_below(uint64_t *state, uint32_t n)
{
    return (uint32_t)((random_next(state) >> 32) * n >> 32);
}

/**
 * Burn a random, short while, so that threads meet at ever different places; now and then give the
 * CPU away.
 */
static inline void burn_time(uint64_t *state, uint32_t most)
{
    if (random_below(state, 64) == 0)
        sched_yield();
    for (volatile uint32_t i = random_below(state, most + 1); i > 0; i--)
        ;
}

static inline pthread_t start_thread(void *(*fn)(void *arg), void *arg)
{
    pthread_t thread;

    ck_assert_int_eq(pthread_create(&thread, NULL, fn, arg), 0);
    return thread;
}

static inline void thread_join(pthread_t thread)
{
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
}

/** Wait for a condition that another thread is about to make true; fail instead of hanging. */
#define AWAIT(condition)                                                                           \
    do {                                                                                           \
        uint64_t give_up_ = clock_ns() + GUARD_NS;                                                 \
        while (!(condition)) {                                                                     \
            if (clock_ns() >= give_up_)                                                            \
                ck_abort_msg("never came: %s", #condition);                                        \
            sched_yield();                                                                         \
        }                                                                                          \
    } while (0)

/* --- two threads at the same instant --- */

/**
 * A duel: what happens when two threads do something at the very same time, again and again with
 * ever new delays. Thorough where a test that sleeps is not: two stores that pass each other do so
 * within nanoseconds.
 */
struct duel {
    void (*prepare)(void); /* before each round, alone */
    void (*left)(void);
    void (*right)(void);
    void (*judge)(void); /* after each round, alone */
};

struct duel_run {
    const struct duel *duel;
    cpu_set_t cpus; /* of this process */
    unsigned patience;
    alignas(64) _Atomic uint64_t round; /* UINT64_MAX: over */
    alignas(64) _Atomic uint64_t finished;
};

/* A CPU for each, or else the scheduler may find it cheapest to run them one after the other. */
static inline void duel_pin(const struct duel_run *run, int side)
{
    cpu_set_t one;
    int cpu = 0;

    CPU_ZERO(&one);
    for (int left = side; !CPU_ISSET(cpu, &run->cpus) || left-- > 0; cpu++)
        ;
    CPU_SET(cpu, &one);
    pthread_setaffinity_np(pthread_self(), sizeof(one), &one);
}

static inline uint64_t duel_await(const struct duel_run *run, _Atomic uint64_t *word, uint64_t old)
{
    uint64_t value;

    for (unsigned spins = 1; (value = atomic_load(word)) == old; spins++)
        if (spins % run->patience == 0)
            sched_yield();
    return value;
}

/* Of any order of magnitude, since the time until the other CPU sees a store is unknown. */
static inline void duel_delay(uint64_t *rng)
{
    if (random_below(rng, 32) == 0)
        sched_yield();
    for (volatile uint32_t i = random_below(rng, 1u << random_below(rng, 10)); i > 0; i--)
        ;
}

static inline void *duel_right(void *arg)
{
    struct duel_run *run = arg;
    uint64_t rng = 2, round = 0;

    if (run->patience > 1)
        duel_pin(run, 1);
    while ((round = duel_await(run, &run->round, round)) != UINT64_MAX) {
        duel_delay(&rng);
        run->duel->right();
        atomic_store(&run->finished, round);
    }
    return NULL;
}

static inline void duel_run(const struct duel *duel, uint64_t ms)
{
    struct duel_run run = {.duel = duel, .patience = 1};
    uint64_t rng = 1, end = clock_ns() + ms * NSEC_PER_MSEC;
    pthread_t thread;

    ck_assert_int_eq(sched_getaffinity(0, sizeof(run.cpus), &run.cpus), 0);
    if (CPU_COUNT(&run.cpus) > 1) {
        run.patience = 10000;
        duel_pin(&run, 0);
    }
    thread = start_thread(duel_right, &run);
    for (uint64_t round = 1; round < 100 || clock_ns() < end; round++) {
        duel->prepare();
        atomic_store(&run.round, round);
        duel_delay(&rng);
        duel->left();
        duel_await(&run, &run.finished, round - 1);
        duel->judge();
    }
    atomic_store(&run.round, UINT64_MAX);
    thread_join(thread);
    sched_setaffinity(0, sizeof(run.cpus), &run.cpus);
}
