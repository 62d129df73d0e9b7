/*
 * Messages that npud has taken for a destination that is full, first in, first out. The backlogs of
 * several routes share a message: it holds one chain of buffers, whatever the number of routes. A
 * backlog knows nothing of the buffers. Control thread.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "daemon/core/user.h"
#include "daemon/kept/kept.h"

#define BACKLOG_MESSAGES 32768u                /* at most */
#define BACKLOG_BYTES    (UINT64_C(256) << 20) /* of data: then no further message */

/** A chain that npud has taken from a source, and holds until the last route has delivered it. */
struct message {
    uint32_t ref;             /* of the head; 0: its buffers are npud's no more */
    uint32_t n_routes;        /* that have not delivered it yet */
    uint32_t kib;             /* of data, rounded up */
    uint32_t generation : 31; /* of the head */
    uint32_t waits : 1;       /* in a backlog: its record names it */
    uint64_t source;          /* serial of the queue that it is from */
    uint64_t sequence;        /* its number, of all from there */
    struct kept kept;
};

/** All zero: empty. */
struct backlog {
    struct message **item; /* circular */
    uint32_t size;         /* a power of two; 0: none so far */
    uint32_t first, n;
    uint64_t kib;  /* of all */
    bool reserved; /* a message is to come: the memory for it stays, also of an empty backlog */
    struct charge charge;
};

/** Does it take no more for now? */
bool backlog_full(const struct backlog *b);

/**
 * Make sure that the next backlog_push() succeeds. False: no memory, or no more for the user, who
 * is charged for it (RESOURCE_TABLE_MEMORY), with what a message takes.
 */
bool backlog_reserve(struct backlog *b, struct user *user);

/** The same for what the npud before had there: also more than the user may have. */
bool backlog_reserve_again(struct backlog *b, struct user *user);

/** Append a message; backlog_reserve() has said yes. */
void backlog_push(struct backlog *b, struct message *message);

/** The first message, or NULL: it is empty. */
struct message *backlog_first(const struct backlog *b);

/** Take the first one away. The last one takes the memory along, if none is reserved. */
void backlog_pop(struct backlog *b);

/** It is empty, and gives back what backlog_reserve() took. */
void backlog_deinit(struct backlog *b);
