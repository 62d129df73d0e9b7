/*
 * The trace: what all streams, engines and processes do, from `npuctl trace start` to `stop`. It is
 * kept until the next one begins. The npud that comes after this one goes on with it: rings are
 * files that the keeper has, and records name them (trace_record.c).
 *
 * That rings outlive npud is a promise (docs/administration.md), and no matter of time: no record
 * is on the way of an event. It takes about 150 lines, of trace_record.[ch]; without it the trace
 * of a crash would be lost by the crash.
 *
 * Writers: each engine writes a ring of its own, under its lock; the control thread another; each
 * traced process one of its own (proto/shm/trace_ring.h), which it asks for when it sees that a
 * trace runs. A ring lives as long as its session, and its events until the next trace: so rings of
 * sessions that have ended are kept, up to TRACE_CLIENTS_MAX in all. The user of the process is
 * charged for its ring as long as that is kept (RESOURCE_TABLE_MEMORY, RESOURCE_FDS). The ring of a
 * session that has ended makes room for a new one, and a process without a ring loses its events.
 *
 * While a trace runs, devices are in mode STRICT (proto/shm/doorbell.h): what would be complete at
 * the call is a task, and is seen. Engines execute tasks through detour_execute() then; at other
 * times device->detour is all they look at (engine/detour.h).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "daemon/base/schedule.h"
#include "daemon/core/user.h"
#include "daemon/core/cause.h"
#include "daemon/kept/kept.h"
#include "proto/shm/doorbell.h"
#include "proto/shm/trace_ring.h"

struct server;
struct session;
struct stream;

#define TRACE_CLIENTS_MAX 128

/** The ring of a process, and whose it is. */
struct trace_client {
    uint64_t session;
    int32_t pid;
    struct user *user; /* pays for it */
    struct charge charge_file, charge_memory;
    char program[64];
    bool ended;              /* its session is no more */
    int fd;                  /* of the ring */
    uint64_t from;           /* its first event of this trace */
    uint64_t entries;        /* that the ring has */
    struct trace_ring *ring; /* shared, hostile */
    /*
     * By number of a queue's ring two bits, may put and may take: what it tells of other queues is
     * not believed. NULL: of none. Not kept: the next npud knows what sessions have then.
     */
    uint64_t *queues;
    struct trace_client *prev, *next; /* trace->clients, in the order of their sessions' numbers */
    struct kept kept;
};

/** A ring of npud's own: from the first trace on, for all that come. */
struct trace_own {
    struct trace_ring *ring; /* NULL: there was no trace yet */
    int fd;
    uint64_t from; /* its first event of this trace */
};

#define TRACE_CONTROL 0 /* place of the control thread's ring; behind it those of the engines */
#define TRACE_OWN_MAX (1 + DEVICES_MAX)

struct trace {
    bool on;
    /* Random, with TRACE_RUNS: tells the client one trace from the next, also of another npud. */
    uint32_t number;
    uint64_t entries;            /* that each ring of this trace has at least */
    uint64_t begun_ns, ended_ns; /* CLOCK_MONOTONIC; begun 0: there was none */
    struct trace_own own[TRACE_OWN_MAX];
    struct trace_client *clients;
    uint32_t n_clients;
    uint32_t refused; /* processes of which there is no ring, or no more */
    struct kept kept;

    /*
     * Devices and sessions hear that a trace has begun or ended in steps: a device a step, and then
     * sessions. The clients of a device have a thousand pages, and so have sessions.
     */
    struct server *server;
    struct job tell;
    uint32_t next_device;
    struct session *next_session;           /* NULL: none is left */
    void (*on_told)(struct server *server); /* all have heard */
};

/** How far a reader has been told of a ring. */
struct trace_cursor {
    uint64_t session; /* 0: npud's own */
    int32_t device;   /* of the engine; -1: of none */
    uint64_t next;    /* number of the event that it wants next */
};

/** How far a report is: rings are told one after the other. */
struct trace_progress {
    /* Of a reader that follows the trace: the reader is told what comes behind these. */
    bool follows;
    struct trace_cursor *after; /* freed with the report */
    size_t n_after;
    unsigned ring;    /* 0: npud's own; 1 and on: of the engines; DEVICES_MAX + 1: of processes */
    uint64_t session; /* of processes: of the one of this session, or of the next later one */
    bool begun;       /* with this ring: the next words are set */
    uint64_t first, next, end; /* numbers of events */
    uint64_t told;
    size_t memory_from, memory_to; /* of the ring's file: this is memory, as it was looked at */
};

/* Control thread: */

void trace_init(struct server *server);
void trace_deinit(struct server *server);

/**
 * Begin a trace; what the one before has written is forgotten. Devices and sessions hear of it in
 * the steps that follow, and then trace->on_told is called. size: bytes of each ring, if that is
 * more than they have anyway. calls: those of the library are told, too.
 */
enum cause trace_start(struct server *server, uint64_t size, bool calls);
/** It ends: the same. CAUSE_TRACE_NONE: none runs. */
enum cause trace_stop(struct server *server);

/**
 * The descriptor of the session's ring, which is made if need be; it stays the trace's. -1: no
 * trace runs, or npud or the session's user may have no further ring.
 */
int trace_ring_of(struct session *session);
/**
 * Rings of sessions that have ended, and of which the reader has all: they make room for others.
 */
void trace_forget_read(struct trace *trace, const struct trace_cursor *after, size_t n);
/** The session is there: it hears whether a trace runs. */
void trace_note_session(struct session *session);
/** It hears that once more: npud has come back. */
void trace_tell_session(struct session *session);
/** It is about to be freed. */
void trace_forget_session(struct session *session);

/** The session has the queue with this ring, and may put or take there. */
void trace_note_queue(struct session *session, uint32_t number, bool put, bool take);
/** The number is another ring's from now on. */
void trace_forget_queue(struct trace *trace, uint32_t number);
/** Had the session of the ring the right to that (TRACE_ENQUEUE or TRACE_DEQUEUE)? */
bool trace_may_tell(const struct trace_client *client, enum trace_kind kind, uint64_t number);

/** A route is about to take or put a buffer: the time, for trace_carried(). 0: no trace runs. */
uint64_t trace_carry(const struct trace *trace);
/** It has: kind TRACE_CARRY_TAKE or TRACE_CARRY_PUT. queue: number of the ring. */
void trace_carried(struct trace *trace, enum trace_kind kind, uint64_t begin_ns, uint64_t queue,
                   uint32_t buffer, uint32_t taken);

/* --- between trace.c and trace_record.c --- */

/** Make their records. False: no memory. */
bool trace_keep(struct trace *trace);
bool trace_client_keep(struct trace_client *client);
/** One of this user, which is charged for nothing yet. NULL: no memory. */
struct trace_client *trace_client_new(struct user *user);
/** Not listed, and without a ring: give back what it is charged for, and free it. */
void trace_client_free(struct trace_client *client);
/** The device hears whether a trace runs. Takes the lock of its engine. */
void trace_tell_device(struct server *server, uint32_t index);
/** In its place among the clients. */
void trace_list_client(struct trace *trace, struct trace_client *client);
/** What is no event of a session, at this moment, into the control thread's ring. */
void trace_put_moment(struct trace *trace, enum trace_kind kind);

/** Under the lock of the engine of that device: */
static inline void trace_sleep(struct trace_ring *ring, uint64_t begin_ns, uint64_t end_ns)
{
    struct trace_event event = {.kind = TRACE_SLEEP, .begin_ns = begin_ns, .end_ns = end_ns};

    trace_put(ring, &event);
}
