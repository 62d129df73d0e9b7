/*
 * A ring of trace events: what a process, an engine or npud itself did, while a trace runs. When it
 * is full, the oldest are overwritten, and readers count what is missing.
 *
 * Two kinds of rings. Those of npud are its own memory, each with one writer. That of a session is
 * a memfd of npud's that threads of the client write, and npud reads as it reads all that clients
 * write: it believes nothing, and copies once. Rings of both kinds live on when npud ends, and the
 * npud that comes, which may be a later build, reads and writes on: kinds and words keep their
 * numbers and places, and kinds are appended.
 *
 * A ring is as large as the trace asks for, and never smaller than the sizes below: that of a
 * session is as large as its file, which is sealed; npud's own say it themselves.
 *
 * An event is whole when its sequence is its number and 1 more. Threads that write at the same time
 * claim an entry first: a writer that finds it claimed by a writer that is a lap behind drops its
 * own event. A process that is killed while it writes leaves a claimed entry, which is lost for the
 * ring and counts as lost in each lap. One that an npud leaves is written again in the next lap.
 */
#pragma once

#include <assert.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Entries of a session's ring, and of npud's own, at least: powers of two. */
#define TRACE_CLIENT_ENTRIES (UINT64_C(1) << 15)
#define TRACE_OWN_ENTRIES    (UINT64_C(1) << 17)
#define TRACE_ENTRIES_MAX    (UINT64_C(1) << 26) /* 4 GiB */

/**
 * Bits of the word of the session page that says which trace runs (doorbell.h), not 0: calls are
 * told, too.
 */
#define TRACE_RUNS  UINT32_C(1)
#define TRACE_CALLS UINT32_C(2)

enum trace_kind {
    TRACE_NONE,
    /* npud */
    TRACE_TASK,    /* a task has retired */
    TRACE_PARKED,  /* a task has begun and waits: if it ends, a TRACE_TASK tells it, too */
    TRACE_RELEASE, /* a task has let a stream go on that waited */
    TRACE_FAULT,   /* a rule of `npuctl inject` has hit a task */
    TRACE_SLEEP,   /* an engine has slept */
    TRACE_CONNECTED,
    TRACE_DISCONNECTED,
    /* clients */
    TRACE_SUBMITTED, /* a task is in its stream's ring: the engine may have begun with it */
    TRACE_CALLBACK,  /* a callback has run */
    TRACE_WAIT,      /* a thread has slept */
    TRACE_ENQUEUE,   /* a buffer was put into a queue ... */
    TRACE_DEQUEUE,   /* ... and taken out of it */
    TRACE_RANGE,     /* of the program's own, with text */
    TRACE_MARK,
    TRACE_TEXT, /* goes on with the text of the event before */
    /* npud again */
    TRACE_RESTARTED,  /* npud has come back, and goes on with the trace */
    TRACE_CARRY_TAKE, /* a route has taken a buffer out of its source ... */
    TRACE_CARRY_PUT,  /* ... and put it, or a reference to it, into its destination */
    /* clients again */
    TRACE_KERNEL, /* a kernel has run; its name is the text */
    TRACE_CALL,   /* a function of the library has returned; its name is the text */
    TRACE_KINDS
};

#define TRACE_TEXT_FIRST 32 /* bytes of text in the event itself, */
#define TRACE_NAME_FIRST 24 /* in a call, */
#define TRACE_TEXT_NEXT  48 /* and in each that goes on with it, */
#define TRACE_TEXT_AT    8  /* from this byte of its words on */
#define TRACE_TEXT_MAX   (TRACE_TEXT_FIRST + 2 * TRACE_TEXT_NEXT)

/** How many bytes of the text of an event stand in it; 0: the kind has no text. */
static inline size_t trace_text_first(unsigned kind)
{
    return kind == TRACE_CALL                                                  ? TRACE_NAME_FIRST
           : kind == TRACE_RANGE || kind == TRACE_MARK || kind == TRACE_KERNEL ? TRACE_TEXT_FIRST
                                                                               : 0;
}

/** What bytes were moved from, and to. */
enum trace_way {
    TRACE_WAY_NONE,
    TRACE_HOST_TO_HOST,
    TRACE_HOST_TO_DEVICE,
    TRACE_DEVICE_TO_HOST,
    TRACE_DEVICE_TO_DEVICE,
    TRACE_TO_HOST, /* set */
    TRACE_TO_DEVICE,
    TRACE_WAYS
};

static inline enum trace_way trace_way_of(bool from_host, bool to_host)
{
    return from_host ? (to_host ? TRACE_HOST_TO_HOST : TRACE_HOST_TO_DEVICE)
                     : (to_host ? TRACE_DEVICE_TO_HOST : TRACE_DEVICE_TO_DEVICE);
}

/** The place of a task: npud's slot of its stream in its session, and its position. */
struct trace_place {
    uint64_t position;
    uint32_t slot;
};

struct trace_event {
    _Atomic uint64_t sequence; /* number + 1; with TRACE_BUSY while it is written */
    union {
        uint64_t words[7];
        struct {
            uint8_t kind; /* enum trace_kind */
            /* of tasks and faults: enum task_op; of waits: enum wait_kind; of calls: trace_way */
            uint8_t op;
            union {
                uint16_t size; /* of text, in this entry and those that go on with it */
                uint16_t way;  /* TASK: enum trace_way */
            };
            union {
                uint32_t thread;     /* of clients: the thread's id, as the process sees it */
                uint32_t bytes_high; /* TASK: of the bytes that it has moved, the upper half */
                struct {
                    uint16_t from_slot, slot; /* RELEASE: streams */
                };
            };
            uint64_t
                begin_ns; /* CLOCK_MONOTONIC of npud; of what takes no time: the same as the end */
            uint64_t end_ns;
            union {
                struct { /* TASK, PARKED, FAULT; SUBMITTED: slot and position alone */
                    uint64_t session;
                    uint64_t position;
                    uint32_t slot;
                    int32_t stream; /* its id */
                    int32_t code;   /* that it failed with; of FAULT: of the rule */
                    union {
                        uint32_t rule;      /* FAULT */
                        uint32_t bytes_low; /* TASK */
                    };
                } task;
                struct { /* RELEASE: by which task, and which it let go */
                    uint64_t from_session, from_position;
                    uint64_t session, position;
                } release;
                struct {
                    uint64_t queue;  /* number of the ring */
                    uint64_t buffer; /* its name, the same for producer and consumer */
                    uint64_t taken;  /* CARRY_PUT: the buffer of the CARRY_TAKE that it is of */
                } handover;
                struct {
                    uint64_t session;
                    int32_t pid;
                    uint32_t uid;
                    char program[16];
                } process;
                struct {
                    uint64_t object;
                } wait;
                char text[TRACE_TEXT_FIRST];
                struct {
                    union {
                        uint64_t bytes; /* that it has moved itself, op says which way; */
                        /* without a way: so many calls in a row, from the begin of the first to the
                         * end of the last, and none did anything that is told; 0: one */
                        uint64_t times;
                    };
                    char name[TRACE_NAME_FIRST];
                } call;
            };
        };
    };
};

static_assert(sizeof(struct trace_event) == 64, "one cache line");
static_assert(sizeof(((struct trace_event *)0)->words) == 56, "all but the sequence");

struct trace_ring {
    _Atomic uint64_t next; /* how many events were begun; relaxed: entries tell what is there */
    uint64_t mask;         /* npud's own: entries - 1 */
    alignas(64) struct trace_event entry[];
};

#define TRACE_BUSY (UINT64_C(1) << 63)

static inline size_t trace_ring_bytes(uint64_t entries)
{
    return sizeof(struct trace_ring) + entries * sizeof(struct trace_event);
}

/** How many a file of so many bytes has, down to a power of two; at least `least`, if it fits. */
static inline uint64_t trace_ring_entries(uint64_t bytes, uint64_t least)
{
    uint64_t entries = least;

    while (entries < TRACE_ENTRIES_MAX && trace_ring_bytes(2 * entries) <= bytes)
        entries *= 2;
    return entries;
}

/** What `event` says becomes entry `number`. */
static inline void trace_store(struct trace_event *entry, uint64_t number,
                               const struct trace_event *event)
{
    /* Release fence: a reader that sees a word of this event sees no sequence of before. */
    atomic_thread_fence(memory_order_release);
    for (size_t i = 0; i < sizeof(event->words) / sizeof(event->words[0]); i++)
        atomic_store_explicit((_Atomic uint64_t *)&entry->words[i], event->words[i],
                              memory_order_relaxed);
    atomic_store_explicit(&entry->sequence, number + 1, memory_order_release);
}

/** The only writer of the ring. */
static inline void trace_put(struct trace_ring *ring, const struct trace_event *event)
{
    uint64_t number = atomic_load_explicit(&ring->next, memory_order_relaxed);
    struct trace_event *entry = &ring->entry[number & ring->mask];

    atomic_store_explicit(&ring->next, number + 1, memory_order_relaxed);
    atomic_store_explicit(&entry->sequence, TRACE_BUSY, memory_order_relaxed);
    trace_store(entry, number, event);
}

/**
 * One of several writers: n events that belong together. What cannot be written is lost. The first
 * of them is stored last: a reader that finds it finds the others.
 */
static inline void trace_put_shared(struct trace_ring *ring, uint64_t entries,
                                    const struct trace_event *events, unsigned n)
{
    uint64_t first = atomic_fetch_add_explicit(&ring->next, n, memory_order_relaxed);

    for (unsigned i = n; i-- > 0;) {
        struct trace_event *entry = &ring->entry[(first + i) & (entries - 1)];
        uint64_t before = atomic_load_explicit(&entry->sequence, memory_order_relaxed);

        /* Also one that a later lap has written already is not for this event. */
        if (!(before & TRACE_BUSY) && before < first + i + 1 &&
            atomic_compare_exchange_strong_explicit(&entry->sequence, &before, TRACE_BUSY,
                                                    memory_order_relaxed, memory_order_relaxed))
            trace_store(entry, first + i, &events[i]);
    }
}

/**
 * Copy event `number`. False: it was overwritten, dropped, or is being written. The copy is what a
 * client says: anything.
 */
static inline bool trace_read(const struct trace_ring *ring, uint64_t entries, uint64_t number,
                              struct trace_event *event)
{
    const struct trace_event *entry = &ring->entry[number & (entries - 1)];

    if (atomic_load_explicit(&entry->sequence, memory_order_acquire) != number + 1)
        return false;
    for (size_t i = 0; i < sizeof(event->words) / sizeof(event->words[0]); i++)
        event->words[i] =
            atomic_load_explicit((const _Atomic uint64_t *)&entry->words[i], memory_order_relaxed);
    /* As in a seqlock: the words were read before the sequence is looked at again. */
    atomic_thread_fence(memory_order_acquire);
    return atomic_load_explicit(&entry->sequence, memory_order_relaxed) == number + 1;
}

/**
 * Is event `number`, which trace_read() has not found, one that its writer has not stored yet? For
 * ever, if that was killed; false if it was overwritten.
 */
static inline bool trace_is_pending(const struct trace_ring *ring, uint64_t entries,
                                    uint64_t number)
{
    uint64_t sequence =
        atomic_load_explicit(&ring->entry[number & (entries - 1)].sequence, memory_order_relaxed);

    return (sequence & TRACE_BUSY) != 0 || sequence < number + 1;
}
