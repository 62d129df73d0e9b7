/*
 * memory_lock of a session. Threads that look have it together, and come first: where many look all
 * the time, one always has it, and a change would wait for seconds (16 threads that copy: up to
 * 26 s, 2 CPUs, 2026-11-27). If changes came first, it would be the other way round (10 s). So what
 * has waited for long says so, and others let it pass: once, and no longer than a moment.
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

#include "client/runtime/session.h"

/** Take memory_lock for oneself: not kept waiting for ever by threads that look all the time. */
void memory_lock_alone(struct session *s);

/** Some thread has waited for memory_lock for long: let it come first, for a moment. */
void memory_let_pass(struct session *s) __attribute__((cold));

/** Take memory_lock together with others that look. */
static inline void memory_lock_to_look(struct session *s)
{
    if (__builtin_expect(atomic_load_explicit(&s->memory_wanted, memory_order_relaxed) != 0, 0))
        memory_let_pass(s);
    pthread_rwlock_rdlock(&s->memory_lock);
}

/**
 * Take memory_lock, to change what it guards: what threads have kept of it (recent.h) holds no
 * longer.
 */
static inline void memory_lock_to_change(struct session *s)
{
    uint64_t n;

    memory_lock_alone(s);
    n = atomic_load_explicit(&s->memory_changes, memory_order_relaxed);
    atomic_store_explicit(&s->memory_changes, n + 1, memory_order_relaxed);
}
