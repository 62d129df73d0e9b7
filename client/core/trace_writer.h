/*
 * What this process does, for npud's trace: events in a ring of its own that npud reads
 * (proto/shm/trace_ring.h). npud says in the session page whether a trace runs; that word is all
 * that is looked at when none does. The ring is asked for with the first event; without one, the
 * process's events are lost. Any thread, in a call.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/shm/doorbell.h"
#include "proto/shm/trace_ring.h"

/* A mapping of the ring, and the trace for which npud was asked for it: constant. */
struct trace_map {
    uint32_t trace;
    uint64_t entries;         /* that the ring has */
    struct trace_ring *ring;  /* NULL: npud had none */
    struct trace_map *before; /* of an earlier trace: it stays, as a thread may be writing there */
};

/** Part of the session. */
struct trace_writer {
    const struct session_page *page; /* NULL: npud has not been reached yet */
    _Atomic(struct trace_map *) last;
    /* Asks npud, and stores how many entries it has. NULL: there is no ring, or no npud. */
    struct trace_ring *(*fetch)(struct trace_writer *writer, uint64_t *entries);
};

static inline bool trace_runs(const struct trace_writer *w)
{
    return __builtin_expect(atomic_load_explicit(&w->page->trace, memory_order_relaxed) != 0, 0);
}

/** The time, for an event that begins here; 0: no trace runs. */
uint64_t trace_begin_slow(void) __attribute__((cold));
static inline uint64_t trace_begin(const struct trace_writer *w)
{
    return trace_runs(w) ? trace_begin_slow() : 0;
}

/** An event that began at begin_ns and ends here, or takes no time (begin_ns 0). */
void trace_event(struct trace_writer *w, enum trace_kind kind, uint8_t op, uint64_t begin_ns)
    __attribute__((cold));

/** The same, with text: as much of it as fits. */
void trace_text(struct trace_writer *w, enum trace_kind kind, uint64_t begin_ns, const char *text)
    __attribute__((cold));

/** A task has come into the ring of npud's stream `slot`, at that position. */
void trace_submitted(struct trace_writer *w, uint8_t op, uint32_t slot, uint64_t position)
    __attribute__((cold));

/** A buffer has gone into the queue whose ring has this number, or come out of it. */
void trace_handover(struct trace_writer *w, enum trace_kind kind, uint64_t begin_ns, uint64_t queue,
                    uint64_t buffer) __attribute__((cold));

/**
 * A function of the library has been called at begin_ns, and is about to return. Calls of the same
 * function close behind each other become one event, which comes with the next event of the thread,
 * or after 10 ms of them. function: lasts for ever, and the same pointer means the same function.
 */
void trace_call(struct trace_writer *w, const char *function, uint64_t begin_ns)
    __attribute__((cold));
/** The thread ends, and calls nothing more. */
void trace_thread_ends(struct trace_writer *w) __attribute__((cold));
/** The call that the thread is in has moved so many bytes by itself. */
void trace_moved(enum trace_way way, uint64_t bytes) __attribute__((cold));

/** The session is freed: no thread writes any more. */
void trace_unmap(struct trace_writer *w);
