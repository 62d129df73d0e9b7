/*
 * What each op of the ring is, in one row: how it runs, and what it is for those that wait for it.
 * The rows are in execute.c; what reports call it is task_name() of proto/shm/task.h.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/engine/run.h"
#include "proto/shm/task.h"

/** What a stream waits for that is parked in a task. */
enum task_waits_for {
    WAITS_FOR_NOTHING,
    WAITS_FOR_LEVEL,
    WAITS_FOR_POSITION,
    WAITS_FOR_RECORD,
    WAITS_FOR_NOTIFY,
    WAITS_FOR_VALUE,
};

/** Which word of an entry a member is, from 1. */
#define TASK_WORD(member)                                                                          \
    (uint8_t)((offsetof(struct task, member) - offsetof(struct task, words)) / sizeof(uint64_t) + 1)

/** The value of such a word; 0 if there is none. */
static inline uint64_t task_word(const struct task *task, uint8_t word)
{
    return word != 0 ? task->words[word - 1] : 0;
}

/*
 * All of a kind of task. Where a function is NULL there is nothing to do. What quick tasks need is
 * in the first cache line.
 */
struct task_row {
    /*
     * Engine threads, under the lock of the stream's engine, like all up to `give_up`. The task
     * begins; or, if stream_has_begun(), it goes on.
     */
    _Alignas(64) enum run_result (*run)(struct stream *s, uint64_t now);

    /* Words of an entry: TASK_WORD(), or 0 for none. A client wrote them: they may be anything. */
    uint8_t timeout; /* time limit of a wait, in nanoseconds; its value 0: no limit */
    uint8_t target;  /* what the wait is for: a position, or a number of a record */
    uint8_t number;  /* number of the record that the task makes; none: records have no numbers */
    uint8_t writes;  /* offset of the first byte that it writes; none: it writes no memory */
    uint8_t size;    /* how many bytes it writes; none, but `writes` is there: 8 at most */

    enum task_waits_for waits_for;
    bool completes;    /* it is a record that others may wait for ... */
    uint8_t only_with; /* ... if it has one of these flags; 0: always */
    bool brief;        /* it takes no time: no task that is "being executed" */
    bool event_wait;   /* over its limit it is no exception: the API excepts waits for events */
    bool wakes_thread; /* each time: it is not quick */

    /*
     * Before it goes on: those that wait for what its last step has changed are told. False: not
     * all of them; it is called again when other streams have had their turn.
     */
    bool (*tell)(struct stream *s);
    /*
     * It fails without being executed: what has to be done for streams and processes that wait for
     * it.
     */
    void (*fail)(struct stream *s);
    /* The same for one that has not begun, and whose stream was stopped before. */
    void (*pass_over)(struct stream *s);
    /*
     * It does not go on, because it has failed or its stream was stopped. No stream is left waiting
     * for what it has changed, and it gives back what it uses. False: to be called again.
     */
    bool (*give_up)(struct stream *s);

    /* Control thread, the engine is locked out. As `give_up`; what is long is done in steps. */
    void (*drop)(struct stream *s);

    /* Recovery, before an engine runs. It takes again what it has used; also on a held stream. */
    void (*restore)(struct stream *s);
    /*
     * Recovery, later: it has not failed, and nothing holds it. True: it is parked in its wait
     * again. False: its engine is to look at it.
     */
    bool (*rejoin)(struct stream *s);
};

/** The row of an op, also of one that there is not. */
const struct task_row *task_row(unsigned op);

/* Bytes that are moved in no more time than any other task takes. */
#define WORK_SMALL 4096
/* The same, in less time than two looks at the clock take. */
#define WORK_TINY 256

/** Does the task take no longer than most, and does it wait for nothing? */
static inline bool task_is_quick(const struct task_row *row, const struct task *task)
{
    return row->waits_for == WAITS_FOR_NOTHING && task_word(task, row->size) <= WORK_SMALL &&
           !row->wakes_thread;
}
