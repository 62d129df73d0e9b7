/*
 * From each wait to what it ends in: the rows of `waits` of one report, joined where one is blocked
 * by another. A row is blocked by a stream, by a thread, or by a process, which then waits as the
 * thread of it that has waited longest.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "client/tools/npuctl/process_look.h"
#include "proto/wire/npud.pb-c.h"

/** No more processes are looked at, and no more causes told, than so many: a look takes time. */
#define CHAIN_CAUSES_MAX 64
/** Links that are told of a chain. */
#define CHAIN_LINKS_MAX 32

/** What a chain ends in. */
struct chain_end {
    enum chain_cause {
        CHAIN_PROCESS,     /* a process that does not wait in the library */
        CHAIN_CALLBACK,    /* a callback of a process: npud says what it has to do */
        CHAIN_WORD,        /* a word of memory that is no device's, which a process has to write */
        CHAIN_DEVICE,      /* a stream that the device works on */
        CHAIN_DEADLOCK,    /* a circle that npud has found */
        CHAIN_CIRCLE,      /* one that npud does not call a deadlock: it may have moved on */
        CHAIN_QUEUE_FULL,  /* no process takes from it */
        CHAIN_QUEUE_EMPTY, /* no process may put into it */
        CHAIN_STALL,       /* a rule of `npuctl inject` */
        CHAIN_NO_PROCESS,  /* none may grant the right */
        CHAIN_FOREIGN,     /* a process of another user, of whose waits the report does not tell */
        CHAIN_GONE,        /* what it waits for has come, or its process has ended */
        CHAIN_BEYOND,      /* not looked for: there are too many */
    } cause;
    enum process_state state;     /* CHAIN_PROCESS, CHAIN_QUEUE_FULL: of the process */
    const Npud__WaitRow *last;    /* the last wait before it */
    const Npud__WaitRow *longest; /* that leads there */
    /* The way with the most links: what waits longest is often the last one. */
    const Npud__WaitRow *link[CHAIN_LINKS_MAX];
    size_t links; /* all, also what link[] has no room for */
    size_t waits; /* that lead there */
};

struct chains {
    struct chain_end end[CHAIN_CAUSES_MAX]; /* that of the longest wait first */
    size_t n;
    size_t waits;  /* all that wait for something; a thread that serves callbacks does not */
    size_t beyond; /* of them, those that lead to further causes */
};

/** Has a process beside the waiting one the right to end the wait for the queue? */
bool wait_chain_has_peer(const Npud__WaitRow *row);

/** Is it in the circle of its deadlock, and not only behind it? */
bool wait_chain_is_member(const Npud__WaitRow *row);

/** Points into the report. own: it tells of processes of this user alone. -1: no memory. */
int wait_chains_find(const Npud__Report *waits, bool own, struct chains *chains);
