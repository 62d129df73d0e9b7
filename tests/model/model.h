/*
 * A sequential model of events as the headers and docs/programming.md describe them: what every
 * call returns and how far every stream gets, for programs of a small language. It calls nothing of
 * ACL and knows nothing of how npud works.
 *
 * Streams run by themselves, so the model looks at a program only where nothing moves any more:
 * after each step, or after a group of hasty steps, all streams stand at a gate, at a wait that
 * cannot be satisfied yet, or at their end. Up to there the order in which streams move does not
 * matter, with one exception: resets of levels. Steps whose outcome would depend on that order are
 * refused, as are those that the reference leaves undefined.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PROCESSES 3
#define STREAMS   4 /* of a process: the default stream and one more, of device 0 and of device 1 */
#define DEVICES   2
#define VARS      5  /* event variables of a process */
#define QUEUE     24 /* tasks of a stream that have not run */
#define GATES     4  /* of which gates */
#define RECORDS   192
#define OBJECTS   64
#define ANSWERS   5

static inline unsigned device_of(unsigned stream)
{
    return stream / 2;
}

/* --- the language --- */

enum op {
    OP_CREATE,  /* var = event of a kind */
    OP_EXPORT,  /* the 64 bytes of an IPC event */
    OP_OPEN,    /* var = open(the bytes of other_var of other_process) */
    OP_DESTROY, /* the variable keeps its stale handle */
    OP_RECORD,
    OP_WAIT, /* variant: which of the functions, and with a limit that never passes or without */
    /*
     * a wait with the shortest limit, 1 s, that cannot be satisfied; the step lasts until it has
     * passed
     */
    OP_WAIT_EXPIRE,
    OP_RESET,
    OP_DELAY,  /* arg: microseconds; result: 0, or what it fails with */
    OP_GATE,   /* the stream stops here ... */
    OP_UNGATE, /* ... until this step opens its oldest closed gate */
    OP_QUERY,  /* everything that can be asked of an event without blocking */
    OP_QUERY_STREAM,
    OP_ELAPSED, /* from var to other_var of the same process */
    OP_SYNC_EVENT,
    OP_SYNC_STREAM,
    OP_SYNC_DEVICE,
    OP_RENEW, /* destroy the stream and make another */
    OP_SLEEP, /* a second thread calls aclrtSynchronizeEvent; the process goes on */
    /*
     * end of program only: record var on a stream of the harness, to let waits for its level go on
     */
    OP_RESCUE,
    OPS
};

enum kind {
    KIND_A,
    KIND_B_SYNC,
    KIND_B_SYNC_TIME,
    KIND_B_MARK,
    KIND_B_MARK_TIME,
    KIND_B_EXT,
    KIND_B_DEV,
    KIND_C_SYNC,
    KIND_C_SYNC_TIME,
    KIND_C_MARK,
    KIND_C_MARK_TIME,
    KIND_IPC,
    KINDS
};

enum maker { MAKE_DEFAULT, MAKE_WITH_FLAG, MAKE_EX_WITH_FLAG };

struct kind_info {
    const char *name;
    enum maker maker;
    uint32_t flags;
    unsigned column; /* of the table in model.c */
};
extern const struct kind_info kind_info[KINDS];

struct step {
    uint8_t op;
    uint8_t process;
    uint8_t stream; /* or, for create and open, a stream of the device */
    uint8_t var;
    uint8_t other_process;
    uint8_t other_var;
    uint8_t kind;
    uint8_t variant;
    /* the next step of this process follows without waiting for what this one sets in motion */
    bool hasty;
    int32_t arg;
    int32_t result;
};

/* --- predictions --- */

struct expected {
    int code;
    int alt;    /* another code that the reference allows, or code */
    bool check; /* with code 0: value, or milliseconds between min and max */
    int value;
    float min, max;
};

/** Answers of one step, one per ACL call that it makes. */
struct expect {
    unsigned n;
    bool blocks; /* a synchronise that cannot succeed: to be called with a short limit */
    struct expected answer[ANSWERS];
};

enum sleeper { SLEEPER_ANY, SLEEPER_BLOCKED, SLEEPER_RETURNS };

/** What a process can see of itself when nothing moves. */
struct view {
    uint16_t submitted[STREAMS];
    uint16_t executed[STREAMS];
    uint8_t sleeper;              /* SLEEPER_ANY also when there is none */
    struct expected status[VARS]; /* of aclrtQueryEventStatus; unchecked where there is no event */
};

/** How often a run met what it is for. */
#define MODEL_COUNTERS(X)                                                                          \
    X(waits_for_other_process, "waits for a pending record of another process")                    \
    X(waits_for_other_device, "waits for a pending record of another device")                      \
    X(waits_before_newer_record, "waits whose event was recorded anew while they waited")          \
    X(other_order, "records of an IPC event finished in the other order, by two processes")        \
    X(level_waits_parked, "waits for a level that was down")                                       \
    X(level_resets, "levels lowered")                                                              \
    X(undone, "records of default events undone by a reset")                                       \
    X(destroyed_pending, "events destroyed with unfinished tasks")                                 \
    X(opened_own, "IPC events opened by a process that had them")                                  \
    X(opened_gone, "IPC events opened after their last close")                                     \
    X(closed_exporter_pending, "IPC events left by their maker with others waiting")               \
    X(event_timeouts, "event synchronise calls that ran out of time")                              \
    X(stream_timeouts, "stream and device synchronise calls that ran out of time")                 \
    X(wait_timeouts, "stream waits that expired")                                                  \
    X(task_errors, "task errors delivered")                                                        \
    X(sleepers, "threads asleep in synchronise")                                                   \
    X(refusals, "calls refused")                                                                   \
    X(stale, "calls with a stale handle")                                                          \
    X(hasty, "steps that did not wait for the one before")

struct counters {
#define X(name, text) unsigned name;
    MODEL_COUNTERS(X)
#undef X
};

/* --- state --- */

enum task_type {
    T_GATE,
    T_RECORD,
    T_LOWER,    /* reset of a level */
    T_UNRECORD, /* reset of a default event: undoes `record` if that is still the latest */
    T_WAIT_RECORD,
    T_WAIT_LEVEL,
    T_EXPIRE, /* fails after its time limit */
    T_DELAY,
};

struct model_task {
    uint8_t type;
    bool counts; /* for aclrtQueryEventWaitStatus */
    bool maybe;  /* may count: whether there was anything left to wait for depended on the moment */
    bool passed; /* the level was up while the stream stood here */
    int8_t raiser;
    int16_t object;
    int16_t record;
    int32_t arg;
    int32_t result;
};

struct model_stream {
    uint16_t submitted, executed;
    uint16_t gates, gates_open, gates_passed;
    uint16_t life; /* which stream of this place */
    uint64_t work; /* microseconds of delays executed */
    int error;     /* not delivered yet; 0: none */
    struct model_task task[QUEUE];
};

struct model_object {
    uint8_t kind;
    bool exported;
    bool level;
    bool undone_now; /* a reset has undone its record since the last settled moment */
    int8_t raiser;   /* task of this closure that raised the level; -1: none */
    uint8_t opens;
    uint8_t maker;
    int16_t latest; /* record; -1: none */
};

struct model_record {
    bool done;
    int8_t at; /* task of this closure that executed it; -1: none */
    int16_t object;
    uint8_t process, stream;
    uint16_t life;
    uint64_t work;
    uint16_t place; /* order in its stream */
};

struct model_var {
    bool live;
    bool used;
    uint8_t device;
    int16_t object; /* -1: never set */
};

struct model_sleeper {
    bool active;
    bool may_return;
    uint8_t var;
    uint8_t n;
    int16_t record[8]; /* latest at some moment since the call */
};

/** A use of a level between two settled moments, for telling whether order matters. */
struct level_use {
    int16_t object;
    uint8_t what; /* task_type */
    int8_t at;    /* task of this closure, or -1: a wait that has not passed */
    uint64_t past;
};

struct model {
    struct model_stream stream[PROCESSES][STREAMS];
    struct model_var var[PROCESSES][VARS];
    struct model_sleeper sleeper[PROCESSES];
    struct model_object object[OBJECTS];
    struct model_record record[RECORDS];
    unsigned n_objects, n_records;

    /* since the last settled moment */
    bool open; /* hasty steps came before */
    unsigned n_moved;
    uint64_t past[PROCESSES][STREAMS]; /* tasks that certainly came before the stream's next one */
    uint64_t past_of[64];              /* and before each that has moved */
    bool parked[PROCESSES][STREAMS];   /* the same task was next at the last settled moment */
    struct level_use use[64];
    unsigned n_uses;

    struct counters counters;
};

void model_init(struct model *m);

/**
 * Make one step and predict its answers. False: the step makes no sense here, or the reference
 * leaves its outcome open; the model is then spoilt (work on a copy).
 */
bool model_step(struct model *m, const struct step *s, struct expect *x);

/** Everything that can move has moved, and everybody has seen it. */
void model_settle(struct model *m);

/** What process p sees now. */
void model_view(const struct model *m, unsigned p, struct view *v);

/**
 * A step that brings the program nearer to a clean end: gates open, waits let go on, errors taken,
 * events destroyed. There may be several, of which the model refuses some: skip says which. False:
 * no more.
 */
bool model_finish(const struct model *m, unsigned skip, struct step *s);

/** Nothing queued, no error, no event: a clean end. */
bool model_finished(const struct model *m);

/**
 * Do the steps of model_finish() lead there? Not where streams that go on together would meet in a
 * reset of a level, say.
 */
bool model_can_finish(const struct model *m);

/** Are resets of levels queued? Without them model_can_finish() holds. */
bool model_has_resets(const struct model *m);
