/*
 * The 64-byte ring entry: one task.
 *
 * Written by the client into its stream ring, copied out once by npud, validated as a copy, used as
 * a copy. Objects are named by the slot numbers that npud gave out for this session; a slot of
 * another session cannot be expressed. Generations (where given) tell a reused slot from the object
 * that the task was written for.
 */
#pragma once

#include <assert.h>
#include <stdatomic.h>
#include <stdint.h>

enum task_op {
    TASK_NOP = 0,
    TASK_RECORD,     /* event: store a timestamp, raise the level, or wake its waiters */
    TASK_RESET,      /* event: lower the level */
    TASK_WAIT_LEVEL, /* park until the level of an event is up */
    TASK_WAIT_POS,   /* park until another stream of this session has retired `wait.target` tasks */
    TASK_IPC_RECORD, /* complete record number `ipc.number` of an IPC event */
    TASK_IPC_WAIT,   /* park until that record is complete */
    TASK_COPY,       /* move bytes between two allocations of this session */
    TASK_SET,        /* fill bytes of an allocation */
    TASK_DELAY,      /* occupy the stream for a while, then succeed or fail */
    /* tell a thread of the client to run a callback; park until it has, if it blocks */
    TASK_CALLBACK,
    TASK_NOTIFY_RECORD, /* notify: set the bit */
    TASK_NOTIFY_WAIT,   /* park until the bit is set, and clear it */
    TASK_COUNT_RECORD,  /* count notify: change the counter */
    TASK_COUNT_WAIT,    /* park until the counter is as wanted */
    TASK_VALUE_WRITE,   /* store 64 bits in device memory */
    /* park until a word of device memory is as `flags` (ACL_STREAM_WAIT_VALUE_*) wants it */
    TASK_VALUE_WAIT,
    TASK_REDUCE, /* dst = dst op src, element by element (proto/util/reduce.h) */
    TASK_GRAPH,  /* execute a list of tasks: graph_shm.h */
    TASK_JUMP,   /* in such a list only: go on at another place of it, if a condition holds */
    /* a kernel of the binary `object`, which a device has, with arguments in host memory */
    TASK_LAUNCH,
    TASK_OPS
};

/** What it is called in messages and reports; also an op that there is not. */
static inline const char *task_name(unsigned op)
{
    static const char *const names[TASK_OPS + 1] = {
        [TASK_NOP] = "nop",
        [TASK_RECORD] = "record",
        [TASK_RESET] = "reset",
        [TASK_WAIT_LEVEL] = "wait",
        [TASK_WAIT_POS] = "wait",
        [TASK_IPC_RECORD] = "IPC record",
        [TASK_IPC_WAIT] = "IPC wait",
        [TASK_COPY] = "copy",
        [TASK_SET] = "set",
        [TASK_DELAY] = "delay",
        [TASK_CALLBACK] = "callback",
        [TASK_NOTIFY_RECORD] = "notify record",
        [TASK_NOTIFY_WAIT] = "notify wait",
        [TASK_COUNT_RECORD] = "count notify record",
        [TASK_COUNT_WAIT] = "count notify wait",
        [TASK_VALUE_WRITE] = "value write",
        [TASK_VALUE_WAIT] = "value wait",
        [TASK_REDUCE] = "reduce",
        [TASK_GRAPH] = "graph",
        [TASK_JUMP] = "jump",
        [TASK_LAUNCH] = "launch",
        [TASK_OPS] = "unknown",
    };

    return names[op < TASK_OPS ? op : TASK_OPS];
}

/** TASK_WAIT_POS: for the order alone. However what it waits for has ended, the wait succeeds. */
#define TASK_WAIT_ORDER 0x01u
/**
 * TASK_NOP: the time at which the stream gets there goes into the entry itself, as stamp.ns: so the
 * client learns when the task before it has ended.
 */
#define TASK_NOP_TIME 0x01u

/** TASK_RECORD: what the event wants (fixed when the event was made, repeated here for the engine).
 */
#define TASK_RECORD_TIME  0x01u
#define TASK_RECORD_LEVEL 0x02u /* raise the level */
#define TASK_RECORD_WAKE  0x04u /* the client has raised it: let parked streams go on */

/**
 * TASK_CALLBACK: the client has told its thread by itself, since the stream had nothing else to do.
 */
#define TASK_CALLBACK_TOLD 0x01u

struct task {
    /*
     * Position + 1: says that the entry is there. Stored last by the client and polled by npud, so
     * that one cache line brings both the news and the task. Every other value, the entry of the
     * lap before among them, is "not yet".
     */
    _Atomic uint64_t sequence;
    uint8_t op;    /* enum task_op */
    uint8_t flags; /* per op */
    /*
     * How many records, resets and the like the stream was given that needed no task: modulo 2^16,
     * and never more than that many between two tasks. They have ids all the same: a task's id is
     * its position and this number, see stream_task_id().
     */
    uint16_t implicit;
    uint32_t object;     /* slot of the event, stream, IPC event, or destination allocation */
    uint32_t generation; /* of that slot, where the op checks it */
    uint32_t thread;     /* submitting thread, for reports and exceptions only */
    union {
        struct {
            /*
             * TASK_NOP_TIME: 0; npud stores CLOCK_MONOTONIC before `done` passes the task, and
             * never reads it. The client reads it before it writes the entry again.
             */
            _Atomic uint64_t ns;
        } stamp;
        struct {
            uint64_t number; /* which record of this event */
        } record;
        struct {
            /*
             * WAIT_POS: position of the other stream, 0: passed already; WAIT_LEVEL: number of the
             * latest record at the call, 0: none
             */
            uint64_t target;
            uint64_t timeout_ns; /* from the moment the stream reaches the wait; 0: no limit */
        } wait;
        struct {
            uint64_t number;
            uint64_t timeout_ns; /* IPC_WAIT only */
        } ipc;
        struct {
            uint64_t dst_offset;
            uint64_t src_offset;
            uint64_t size;
            uint32_t src;
            uint32_t src_generation;
        } copy;
        struct {
            uint64_t offset;
            uint64_t size;
            uint32_t value; /* low 8 bits */
        } set;
        struct {
            uint64_t ns;
            int32_t result; /* 0 or the ACL error the task fails with */
        } delay;
        struct {
            uint64_t ordinal; /* of the stream's callbacks, from 1: grows from each to the next */
            uint32_t word;    /* word of the session page that its thread sleeps on */
            uint32_t block;   /* 1: the stream goes on when the function has returned */
            /* Of work of the library (callback_word_is_work()), for reports only: */
            uint64_t address; /* of the word that a value wait looks at */
            uint64_t value;
            uint32_t work;      /* enum stream_work_kind */
            uint32_t condition; /* ACL_STREAM_WAIT_VALUE_* */
        } callback;
        struct {
            uint64_t timeout_ns; /* waits; 0: no limit */
            uint32_t value;      /* COUNT_RECORD, COUNT_WAIT */
            uint8_t mode;        /* the same: aclrtCntNotifyRecordMode, aclrtCntNotifyWaitMode */
            uint8_t clear;       /* COUNT_WAIT: the counter becomes 0 when the stream goes on */
        } notify;
        struct {
            uint64_t offset; /* a multiple of 8 */
            uint64_t value;
        } value;
        struct {
            uint64_t dst_offset;
            uint64_t src_offset;
            uint64_t size; /* bytes */
            uint32_t src;
            uint32_t src_generation;
            uint32_t kind; /* aclrtReduceKind */
            uint32_t type; /* aclDataType */
        } reduce;
        struct {
            uint64_t offset; /* of the list, in the allocation `object` */
            uint64_t base;   /* ordinals of its callbacks are above this one, ... */
            uint64_t last;   /* ... and up to this one */
            uint32_t count;  /* tasks in the list */
            uint32_t calls;  /* callbacks among them */
            /* word of the session page for GRAPH_WORD_OF_STREAM in the list */
            uint32_t word;
        } graph;
        struct {
            uint64_t offset; /* of the word in the allocation `object`; `flags` is the condition */
            uint64_t right;  /* what it is compared with, or where that is */
            uint32_t right_object;
            uint32_t right_generation;
            uint32_t target; /* index in the list; the number of tasks: the end */
            uint8_t wide;    /* the words have 64 bits, not 32 */
            uint8_t memory;  /* `right` is an offset in the allocation right_object */
        } jump;
        struct {
            uint64_t function; /* its number: LookUpFunction */
            uint64_t offset;   /* of struct executor_launch (executor_shm.h) ... */
            uint64_t size;     /* ... with all that is behind it */
            uint32_t src;      /* the pinned host memory that it is in */
            uint32_t src_generation;
            uint64_t sum; /* executor_launch_sum() */
        } launch;
        uint64_t words[5];
    };
};

static_assert(sizeof(struct task) == 64, "one cache line per ring entry");
