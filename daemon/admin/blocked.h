/*
 * A stream or client thread that waits, for what, and for which process: one entry of a report on
 * waits, and its words. Control thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/shm/wait_slot.h"

struct session;
struct stream;
struct wait_process;

enum wait_on {
    ON_POSITION, /* a stream of the same session has to retire `target` tasks */
    ON_RECORD,   /* record `target` of an IPC event */
    ON_LEVEL,    /* a plain event has to be recorded */
    ON_CALLBACK, /* a stream: the thread of callback word `object` has to run callback `target` */
    ON_WORK,     /* a stream: the library's thread for registered memory has to execute its task */
    ON_HOST_VALUE, /* the same thread looks at the word of registered memory at address `target` */
    ON_CALLBACK_WORD, /* a thread: something has to tell it of a callback */
    ON_EXCEPTIONS, /* a stream: its process has to take exceptions, so that its failure has room */
    ON_RULE,       /* an administrator has to clear rule `target` (inject.h) */
    ON_NOTIFY,     /* a session that has it open has to record a notify or count notify */
    ON_VALUE,      /* the word at `target` of an allocation has to be written */
    ON_MESSAGE,    /* a thread: a session with the right has to put a message into ring `object` */
    ON_ROOM,       /* a thread: a session with the right has to take one from there */
    ON_GRANT, /* a thread: a session with the right has to grant queue `object` to its process */
};

/** A stream as people name it: ids are of each device. */
struct stream_name {
    int32_t id; /* -1: none */
    uint32_t device;
};

/** A stream or thread that waits. */
struct blocked {
    struct wait_process *process; /* whose it is */
    uint32_t group;               /* 1 + the one that it leads to; 0: none */
    int32_t stream;               /* id; -1: a thread */
    uint32_t device;              /* of the stream */
    uint32_t slot;        /* of the stream in its session, or of the thread in the session page */
    uint32_t thread;      /* tid as the client says; 0: a stream */
    char call[WAIT_CALL]; /* what the thread called */
    uint64_t since_ns;
    bool timed; /* it will end by itself */
    enum wait_on on;
    uint32_t object; /* in the session: stream, open IPC event, plain event, notify, allocation */
    uint32_t generation;
    uint64_t target;
    uint64_t value; /* ON_VALUE, ON_HOST_VALUE: what the word is compared with */
    uint8_t condition;

    /* has to do something first; NULL: none, it goes on at this moment */
    struct wait_process *blocker;
    /* where the record is queued or the position is; id -1: not submitted */
    struct stream_name blocker_stream;
    /* ON_MESSAGE, ON_ROOM, ON_GRANT: processes that could do it, the blocker's included */
    uint32_t blockers;
    uint32_t
        blocker_thread; /* ON_CALLBACK, ON_WORK: tid, as the client says; 0: it has not come yet */
    bool runs;          /* ON_CALLBACK: that thread runs a callback, as the client says */
    uint32_t deadlock;  /* 1 + index of the deadlock that keeps it; 0: none */
    bool member;        /* of that deadlock; else it only waits behind it */
};

/**
 * Is the stream parked on something else than the clock? Fills b, but for its process and its
 * blocker. Under the lock of its engine.
 */
bool blocked_of_stream(const struct stream *s, struct blocked *b);

/** Does the thread with that slot of the session page sleep in the library? Fills b as above. */
bool blocked_of_thread(struct session *session, uint32_t slot, struct blocked *b);

/** Is it a thread of the library that has nothing to do? That is no wait: nobody misses it. */
bool blocked_is_idle(const struct blocked *b);

/** What it waits for, in a word, as in WaitRow of npud.proto. */
const char *blocked_kind(const struct blocked *b);
/** Which one of those, by a number that no other in npud has; 0: the kind has none. */
uint64_t blocked_object(const struct blocked *b);
/** What it waits for, and what blocks it, in words. */
void blocked_describe(const struct blocked *b, char *buf, size_t size);
void blocked_describe_blocker(const struct blocked *b, char *buf, size_t size);
/** What ends the wait, and is not seen from outside of the process; "": nothing is known. */
void blocked_advise(const struct blocked *b, char *buf, size_t size);
/** Its name: "stream 3" or "thread 1234 in aclrtSynchronizeEvent". */
void blocked_name(const struct blocked *b, char *buf, size_t size);
