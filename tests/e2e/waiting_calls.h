/*
 * A thread in each call of the API that can wait, in one process, the waiter; and another process,
 * the peer, which owes it some of what these calls wait for.
 */
#pragma once

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "acl/acl_tdt.h"
#include "tests/common/harness.h"

#define OWED_KEY 65

/** Between both processes: the test allocates it, and sets the first ones. */
extern struct owed {
    int waiter, peer; /* pids */
    int32_t limit;    /* of calls with one, in ms */
    int column;       /* the test's ... */
    pid_t child;      /* ... and one of the peer; 0: there is none */
    /* What the peer has, of which the waiter gets its own names. */
    aclrtIpcEventHandle event;
    char memory[OWED_KEY], notify[OWED_KEY];
    uint32_t empty, full, closed; /* queues */
} * owed;

/** What a process has: both, the peer, the waiter. */
extern struct owed_mine {
    aclrtEvent gate, event;
    aclrtNotify notify;
    uint64_t *theirs;                     /* a word of the peer's memory */
    aclrtStream held;                     /* by the gate: what it does behind is owed */
    uint64_t *own;                        /* words */
    aclrtContext primary, second, keeper; /* of device 0; of device 1; of 0, to let go by */
} mine;

/* --- in the peer --- */

void owed_open(void);
/** What it owes by its stream, and at its queues. */
void owed_release_stream(void);
void owed_release_queues(void);
void owed_destroy_queues(void);

/* --- in the waiter --- */

/* clang-format off */
enum row_id {
    STREAM, STREAM_T, OTHER, DEVICE_1, DEVICE_1_T, EVENT, EVENT_T, WORD, NOTIFY, COUNT, FUNCTION,
    FILL, BEHIND, COPY, FAR, MODEL, LAUNCHED, DESTROY, CONTEXT, REPORT, RECEIVE, SEND, RECORD,
    RECORD_T, THEIR_RECORD, THEIR_WORD, THEIR_NOTIFY, TAKE, TAKE_T, PUT, PUT_T, ATTACH, ROWS
};
/* clang-format on */

/** One call, and what it has. */
struct cell {
    const struct waiting_call *row;
    pthread_t thread;
    aclrtStream stream, other;
    aclrtContext context;
    aclrtEvent event;
    aclmdlRI model;
    acltdtChannelHandle *channel;
    void *data;
    sem_t let_go;
    bool begun;
    _Atomic bool over;
    aclError code;
    char text[512];
};

extern struct cell cells[ROWS];

extern const struct waiting_call {
    const char *call;
    void (*prepare)(struct cell *c);
    aclError (*wait)(struct cell *c);
    void (*release)(struct cell *c); /* NULL: it has nothing of its own */
} waiting_calls[ROWS];

/** Does the device of this test have it? */
bool call_is_there(int row);
int calls_count(void);

/** All that the calls need, and the calls that others wait behind. Joins the peer. */
void calls_prepare(void);
/**
 * What is owed by this process comes, and what the peer would have written is written. By streams
 * that nothing has happened to, if there are any.
 */
void calls_release(void);
