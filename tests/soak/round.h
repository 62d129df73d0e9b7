/*
 * The soak test: eight processes with eight streams each, on four devices, for as long as one
 * likes.
 *
 * How it differs from tests/model, which has random programs, too. There, one process at a time
 * makes a step, streams come to rest after it, every answer has one right value, and a program of
 * some dozen steps begins and ends with nothing. It finds out what the rules are. Here all
 * processes submit at the same time, streams and events live on from round to round, and the
 * operations are all that streams have: events of every kind that streams can wait for, within a
 * process and between processes, levels and resets, notifies, copies and sets, callbacks, tasks
 * that fail and their exceptions, aborts, and deaths. It finds out whether the rules hold under
 * load.
 *
 * A round is a program: one list of operations for all processes. Each process runs its own in
 * order, at the same time as the others. What can be said of a round in which nearly everything
 * happens at once follows from three things that plan.h keeps while the list is made:
 *   - what certainly happened before what: a clock for each stream and for each host thread, as
 *     race detectors have them. What is in the clock of the asking thread is COMPLETE, an access to
 *     memory that is not in the clock of a stream is not made, and contents are known;
 *   - which gates are closed: a stream that waits at one, or for what waits at one, is NOT_READY
 *     until the process that opens it has been told that all processes have looked;
 *   - which calls must follow one another: records and waits of an IPC event, which tell the same
 *     story to all in any order of events only if the calls have one.
 * A call that must come after a call of another process says so (op.need), and waits for that
 * process to have got there. Every wait of a stream and every call that blocks needs only what
 * comes before it in the list: nothing can deadlock unless npud is wrong.
 *
 * A round ends when all streams have been synchronised with the error that was due, all memory has
 * been compared and all events have been asked; then the next one begins with the same processes,
 * streams and events.
 *
 * In rounds with a death one process is killed: at a point of its list, or at any instruction while
 * it does things that concern other processes only through two events that all processes record and
 * wait for as they like.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "acl/acl.h"

#define PROCESSES 8
#define DEVICES   4
#define OWN       8 /* streams of a process, two on each device */
#define STREAMS   (PROCESSES * OWN)

#define SHARED 14 /* IPC events that all processes know; a process may have one open */
#define ORDERLY                                                                                    \
    12 /* of them; the others are recorded and waited for without any order among processes */

/* Event variables of a process. Those up to VAR_SHARED are its own; device: var % DEVICES. */
#define VAR_ANY         0  /* any kind */
#define VAR_LEVEL       8  /* raised in a stream, awaited and lowered in the other of its device */
#define VAR_ACK         12 /* recorded when the level is down again */
#define VAR_BEGIN       16 /* time at the beginning ... */
#define VAR_END         20 /* ... and end of a delay */
#define VAR_STAMP       24 /* time of what comes before or after something in another process */
#define VAR_SHARED      32
#define VARS            (VAR_SHARED + SHARED)
#define NO_VAR          255
#define LEVEL_GATES     4 /* gates that are levels: of device 0 .. 3 */
#define CALLBACK_GATE   4 /* one that is a callback of stream 7 which does not return */
#define NOTIFY_GATE     5 /* a notify that is recorded by the process itself ... */
#define IPC_NOTIFY_GATE 6 /* ... or by another one */
#define GATES           7

/* Notifies and count notifies of a process. */
#define LATCH_LOCAL    0 /* one on each device */
#define LATCH_COUNT    4 /* of devices 0 and 1 */
#define LATCH_GATE     6
#define LATCH_IPC_GATE 7 /* from here on all processes have them */
#define LATCH_IPC      8 /* of devices 0 and 1 */
#define LATCHES        10
#define LATCH_SHARED   LATCH_IPC_GATE
#define LATCHES_SHARED (LATCHES - LATCH_SHARED)
#define LATCH_LISTED   2 /* of the shared ones: with a list of processes that may import it */

#define CELLS        22 /* pieces of memory: four on each device, the rest pinned host memory */
#define CELLS_PINNED 16
#define CELL_SMALL   256u
#define CELL_BIG     (192u << 10)
#define WORDS_OF(c)  (cell_size(c) / sizeof(uint64_t))
#define SURE_CODES   4
#define OPS_MAX      4096
#define BURST        1500 /* tasks: more than a ring holds */
#define ERRORS_MAX   32
#define WILD_FIRST   ORDERLY
#define WILD_STREAM  6 /* of each process: it waits for nothing but wild records */
#define BLOCKED_MS   1 /* a call that must not succeed gets so long */
#define GUARD_MS     300000

static inline unsigned cell_size(unsigned cell)
{
    return cell % 4 == 3 || cell == CELLS_PINNED + 4 || cell == CELLS_PINNED + 5 ? CELL_BIG
                                                                                 : CELL_SMALL;
}

/** Of a stream of a process. */
static inline unsigned device_of(unsigned stream)
{
    return stream % OWN / 2;
}

/**
 * Device of the context in which process p makes or opens a variable. Records go to streams of that
 * device.
 */
static inline unsigned device_of_var(unsigned p, unsigned var)
{
    if (var >= VAR_SHARED + WILD_FIRST)
        return device_of(WILD_STREAM);
    return var >= VAR_SHARED ? (p + var) % DEVICES : var % DEVICES;
}

static inline unsigned device_of_latch(unsigned latch)
{
    return latch % DEVICES;
}

enum what {
    DO_CREATE,
    DO_DESTROY,
    DO_EXPORT,
    DO_EXPORT_AGAIN, /* another process has */
    DO_OPEN,
    DO_RECORD,
    DO_WAIT,
    DO_LOWER, /* reset */
    DO_QUERY,
    DO_SYNC_EVENT,
    DO_SLEEP, /* a second thread synchronises with the event */
    DO_PEEK,  /* and sleeps */
    DO_JOIN,  /* and has returned */
    DO_DELAY,
    DO_BURST,
    DO_CLOSE_GATE,
    DO_GATE,
    DO_OPEN_GATE,
    DO_COPY,
    DO_COPY_FREED, /* of memory that is freed before the stream gets there */
    DO_SET,
    DO_FILL,  /* the host writes pinned memory */
    DO_CHECK, /* the host compares */
    DO_ELAPSED,
    DO_STAMP, /* the host reads the time of a record */
    DO_SYNC_STREAM,
    DO_SYNC_DEVICE,
    DO_QUERY_STREAM,
    DO_ABORT,
    DO_RENEW_STREAM,
    DO_CALLBACK,
    DO_AWAIT_CALLBACKS, /* all of them have run */
    DO_LATCH_RECORD,
    DO_LATCH_WAIT,
    DO_EXPORT_KEYS,
    DO_ADMIT,
    DO_IMPORT,
    DO_IMPORT_REFUSED, /* not admitted yet */
    DO_MEET,           /* only waits for the others */
    DO_DIE,
    DO_RUN_WILD, /* whatever, until killed */
    WHATS
};

enum kind { KIND_A, KIND_SYNC, KIND_SYNC_TIME, KIND_C, KIND_C_TIME, KIND_C_MARK, KIND_IPC, KINDS };

/* What a callback does. */
enum action {
    CALL_NOTHING,
    CALL_CHECK,  /* compare a cell */
    CALL_FILL,   /* write a pinned one */
    CALL_STAND,  /* until the gate is opened */
    CALL_REFUSED /* it is not launched: the wrong function for its stream */
};

enum status { STATUS_ANY, STATUS_COMPLETE, STATUS_NOT_READY };

struct op {
    uint8_t what;
    uint8_t process;
    uint8_t stream; /* of the process */
    uint8_t var;    /* or gate */
    uint8_t kind;
    uint8_t variant; /* which of several calls that do the same */
    uint8_t cell;
    uint8_t from;   /* cell, or process that made a notify */
    uint8_t action; /* of a callback */
    bool block;
    bool service; /* of a notify: in the default stream */
    int32_t
        fails;   /* what the exception of its task will say; negative: perhaps; 0: there is none */
    int32_t arg; /* microseconds; limit in ms; a byte */
    int32_t result;      /* of a delay */
    uint64_t base, step; /* content of the cell: word i is base + i * step */

    /* expected */
    int32_t code[SURE_CODES]; /* any of these */
    uint8_t codes;
    uint8_t status;
    float at_least; /* milliseconds */

    uint16_t number;          /* which of the operations of its process */
    uint16_t need[PROCESSES]; /* how many operations of the others must have returned before */
    uint16_t cause[6],
        causes; /* operations that it follows from; for telling what led to a failure */
};

struct edge {
    uint8_t from_process, from_var, to_process, to_var; /* stamps: from is not later than to */
    uint16_t op;
};

struct round {
    uint64_t seed;
    uint32_t number;
    unsigned n;
    struct op op[OPS_MAX]; /* [0] is none */
    unsigned n_edges;
    struct edge edge[64];
    int victim;     /* -1: none */
    uint16_t death; /* DO_DIE or DO_RUN_WILD */
    unsigned own[PROCESSES];
};

struct progress {
    _Alignas(64) _Atomic uint32_t done; /* operations of this round that have returned; futex */
    _Atomic uint32_t waiters;
};

/* What driver and processes share. */
struct common {
    struct round round[2];
    struct progress progress[PROCESSES];
    _Atomic uint32_t wild_steps; /* of the victim */
    aclrtIpcEventHandle handle[SHARED];
    uint64_t stamp[PROCESSES][8];            /* 0: none */
    char key[PROCESSES][LATCHES_SHARED][80]; /* of notifies */
    int32_t pid[PROCESSES];                  /* as npud sees them */
    struct {
        uint16_t op;
        char text[512];
    } trouble[PROCESSES];
};

/**
 * What runs in process p. Orders come through fd, one byte each: which of the rounds; 'q': end.
 * Returns the exit status.
 */
int worker_run(struct common *common, unsigned p, int fd);

/** What an operation does, with %x for its operands. */
const char *op_name(unsigned what);
void op_print(FILE *f, const struct op *op);
/**
 * The operations from which this one follows, and itself, in their order; the nearest when there
 * are many.
 */
void round_print(FILE *f, const struct round *r, unsigned op);
/** All of them. */
void round_print_all(FILE *f, const struct round *r);
