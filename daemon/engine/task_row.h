/*
 * What each op of the ring is, in one row: how it runs, what it is for those that wait for it, and
 * what reports say of it. The rows are in execute.c.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "daemon/engine/run.h"
#include "proto/shm/task.h"

struct stream;

/** What a stream waits for that is parked in a task. */
enum task_waits_for {
    WAITS_FOR_NOTHING,
    WAITS_FOR_LEVEL,
    WAITS_FOR_POSITION,
    WAITS_FOR_RECORD,
    WAITS_FOR_NOTIFY,
    WAITS_FOR_VALUE,
};

struct task_row {
    const char *name; /* in words, for messages: "copy" */

    /* engine threads, under the lock of the stream's engine */
    enum run_result (*run)(struct stream *s, uint64_t now);
    /*
     * It fails without being executed: what has to be done for streams and processes that wait for
     * it. NULL: none can.
     */
    void (*fail)(struct stream *s);
    /* The same for one that has not begun, and whose stream was stopped before. */
    void (*pass_over)(struct stream *s);

    /* of an entry, which is only what a client says */
    uint64_t (*timeout_ns)(const struct task *task); /* of a wait, 0: no limit; NULL: it has none */
    uint64_t (*target)(const struct task *task);     /* what it waits for, in its kind's numbers */
    /* Is it a record that others may wait for? *number: which one; 0 if any will do. */
    bool (*completes)(const struct task *task, uint64_t *number);
    /* The bytes of its destination that it changes; NULL: it changes no memory. */
    void (*writes)(const struct task *task, uint64_t *offset, uint64_t *size);

    enum task_waits_for waits_for;
    bool brief;      /* it takes no time: no task that is "being executed" */
    bool event_wait; /* over its limit it is no exception: the API excepts waits for events */
};

/** The row of an op, also of one that there is not. */
const struct task_row *task_row(unsigned op);
