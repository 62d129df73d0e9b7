/*
 * What is kept of a stream, in the record of its arena segment (arena_record.h): a live part, one
 * per slot.
 *
 * Writers: the stream's engine, under its lock, or the control thread while the engine is locked
 * out. Each word is valid by itself after each store, in the order of the program.
 *
 * A task retires by one store, that of `position`. What is known of the task at the head is
 * therefore stored together with a mark of that task, 1 + its position (head_mark()): first x, then
 * the mark into the word beside x (head_note()). If another mark is there, x is of an earlier task,
 * and means nothing (head_has()). So words need not be cleared for the next task.
 *
 *   mark             x                   of the task at the head is known
 *   task.sequence    task                what the client has submitted: the copy is complete
 *   begun_at                             execute_task() was called
 *   wait_at          target, deadline    what it waits for, and how long
 *   outcome_at       outcome             how its wait ended
 *   effect_at        effect, ticket      what it changes, which may have happened already
 *   callback_at      callbacks           which callback was handed over: the mark is stored first
 *   rules_at         verdict             what the rules of fault injection have said
 *   stop_at          last_request        which request of the client has ended it
 *   failure_at       failure             how it has failed
 *   told_at          failures, ...       the client knows of the exception: it is counted
 *
 * While the stream executes a graph (TASK_GRAPH), `position` stays that of the graph, and the tasks
 * of its list are at the head one after the other, each with a mark of its own: graph_at, which is
 * stored to retire one of them. The stream does so as long as graph_for is the mark of the
 * position: the store of `position` that retires the graph also ends this.
 */
#pragma once

#include <assert.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/kept/arena_record.h"
#include "daemon/kept/kept.h"
#include "proto/shm/task.h"

/** A failure of a task, or how a wait ended. */
struct failure {
    int32_t code; /* 0: none */
    int32_t pid;  /* the process to blame; 0: none */
};

/* How far the control thread is with an abort: stream_hold(). */
enum stream_held {
    STREAM_FREE,     /* its engine executes it */
    STREAM_DROPPING, /* held; the records among the tasks that are discarded fail, one by one */
    STREAM_HELD,     /* held; from held_from to position, its tasks are discarded */
};

/** In stream_kept.verdict: a rule holds the task; the other bits are the id of the rule. */
#define VERDICT_HELD (UINT64_C(1) << 63)

struct stream_kept {
    /* --- of every task --- */
    alignas(64) uint64_t position; /* of the next task to execute */
    _Atomic uint64_t done;         /* tasks retired; what was published to the client */
    uint64_t begun_at;
    uint64_t failure_at;
    struct failure failure; /* of the task, until it retires */
    uint64_t outcome_at;
    struct failure outcome; /* of its wait, which is over */
    uint32_t implicit;      /* as the tasks so far say, but not modulo 2^16 */
    uint32_t held;          /* enum stream_held */
    /* The copy of the entry in the ring. */
    alignas(64) struct task task;
    /* --- of some tasks --- */
    uint64_t wait_at;
    uint64_t deadline; /* of the wait; 0: none. Of one for a word: its age (engine/value.c) */
    uint64_t target;   /* in numbers of what is waited for, if they are npud's own */
    uint64_t progress; /* work.progress: of a task that has begun */
    uint64_t effect_at;
    uint64_t effect; /* what tells whether the task's change was made: see the task's function */
    uint64_t callback_at;
    uint64_t callbacks; /* ordinal of the latest callback that was handed over */
    /* --- of aborts, failures and rules --- */
    uint64_t held_from;  /* while held: the tasks from here to head are discarded */
    uint64_t dropped_to; /* while STREAM_DROPPING: the tasks before this one are dropped */
    _Atomic uint64_t told_at;
    _Atomic uint64_t failures;
    _Atomic uint64_t failed_task; /* the last failure: its id, and its thread in the upper half */
    _Atomic uint64_t failed_code;
    _Atomic uint64_t rules_at;
    _Atomic uint64_t verdict; /* the code that the task fails with; or VERDICT_HELD, .. */
    /* --- the stream --- */
    _Atomic uint64_t is; /* stream_is(): changes with the commit of a step; 0: the slot is free */
    uint32_t flags;
    uint32_t priority;
    uint32_t context; /* its number */
    uint32_t device;
    uint64_t ordinal;              /* how many streams its session had made before */
    uint64_t first;                /* its first position */
    uint64_t notify[3];            /* for the tasks of notifies */
    _Atomic uint64_t last_request; /* the id of the client's last one that has moved `position` */
    _Atomic uint64_t stop_at;
    _Atomic uint64_t errors;  /* ordinal of the last one in the control block */
    uint64_t callback_report; /* of the callback `callbacks`: word of the session page */
    uint64_t drop_end;        /* while STREAM_DROPPING: the tasks from here on stay */
    uint64_t graph_for;       /* 1 + position of the graph that is under way, ... */
    uint64_t graph_at;        /* ... and where it is: GRAPH_AT_* */
    /*
     * Of work that was given to a device; 0: none. effect_at is the mark of the task whose work has
     * this ticket, and `effect` how many tasks have one from this on; but with TICKET_DROPPED it is
     * of work that the stream has dropped, and they are of something else.
     */
    uint64_t ticket;
};

static_assert(sizeof(struct stream_kept) == 384, "six cache lines");
static_assert(offsetof(struct stream_kept, task) == 64, "what changes with every task is in two");

/*
 * graph_at: which task of the list is at the head, how many steps the stream has made in graphs, so
 * that no two marks are the same, and whether the rest is passed over, because a task has failed.
 * No position is as large.
 */
#define GRAPH_AT_MARK       (UINT64_C(1) << 63)
#define GRAPH_AT_PASSES     (UINT64_C(1) << 62)
#define GRAPH_AT_INDEX_BITS 20
#define GRAPH_AT_STEP_BITS  42

static inline uint64_t graph_at_make(uint64_t step, uint32_t index, bool passes)
{
    return GRAPH_AT_MARK | (passes ? GRAPH_AT_PASSES : 0) |
           (step & ((UINT64_C(1) << GRAPH_AT_STEP_BITS) - 1)) << GRAPH_AT_INDEX_BITS | index;
}

static inline uint32_t graph_at_index(uint64_t at)
{
    return (uint32_t)(at & ((UINT64_C(1) << GRAPH_AT_INDEX_BITS) - 1));
}

static inline uint64_t graph_at_step(uint64_t at)
{
    return at >> GRAPH_AT_INDEX_BITS & ((UINT64_C(1) << GRAPH_AT_STEP_BITS) - 1);
}

#define TICKET_DROPPED (UINT64_C(1) << 63)

/** Is a graph under way, so that the task at the head is one of its list? */
static inline bool stream_kept_in_graph(const struct stream_kept *k)
{
    return k->graph_for == k->position + 1;
}

/** The mark of the task at the head. */
static inline uint64_t head_mark(const struct stream_kept *k)
{
    return stream_kept_in_graph(k) ? k->graph_at : k->position + 1;
}

/** Is this the mark of the task at the head? */
static inline bool head_has(const struct stream_kept *k, uint64_t mark)
{
    return mark == head_mark(k);
}

/** What was stored before this is of the task at the head: its word for the mark says so. */
static inline void head_note(const struct stream_kept *k, uint64_t *mark)
{
    kept_order();
    *mark = head_mark(k);
    kept_order();
}

/**
 * To come before the note of an effect that is none of work of a device. Work that was given is
 * over then: its ticket must not be taken for one of as many tasks as that effect happens to say.
 */
static inline void head_note_no_ticket(struct stream_kept *k)
{
    if (!(k->ticket & TICKET_DROPPED))
        k->ticket = 0;
    kept_order();
}

/** A live stream. generation: 31 bits, of its slot; id: on its device. */
static inline uint64_t stream_is(uint32_t generation, uint32_t id)
{
    return (uint64_t)generation << 1 | 1 | (uint64_t)id << 32;
}

static inline uint32_t stream_is_generation(uint64_t is)
{
    return (uint32_t)is >> 1;
}

static inline uint32_t stream_is_id(uint64_t is)
{
    return (uint32_t)(is >> 32);
}
