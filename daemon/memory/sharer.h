/*
 * Sharers: the sessions that hold pages (pages.h), each once, under however many names it has them.
 *
 * Streams wait for words of the pages (engine/value.h), and another sharer is to write them. When
 * one leaves, when one can write no more, and when a wait begins, npud asks whether one is left
 * that could: sharers_deserted(). That is answered by counts, so that it takes as long for
 * thousands: how many sharers there are, how many of them wait, and how many have come since one
 * has ended.
 *
 * A sharer that waits is not taken for one that could write, even if its own streams or threads
 * might. So it is said of no pages before a sharer has ended, or the last but one has left: else
 * two that wait for each other for a moment would be told. And one that comes later begins anew: it
 * may be there for the one that has ended.
 *
 * Control thread, unless said otherwise. Engines read the counts: they change under the lock of
 * pages->values.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "daemon/base/hash.h"
#include "daemon/core/user.h"
#include "daemon/base/waitlist.h"
#include "daemon/core/cause.h"

struct session;
struct sharers;

struct sharer {
    struct sharer_key {
        struct sharers *all;
        struct session *session;
    } key;
    uint32_t names; /* allocations of the session: mem->sharer */
    uint32_t since; /* how many had ended when it came. In the records of its allocations */
    bool over;      /* its program has finalized, and its streams are done: it writes nothing */
    bool counted;   /* while npud restores: sharers_restored() has seen it */
    struct waiter_group waiting; /* its streams on pages->values; and 1, if it is over */
    struct charge charge;
    UT_hash_handle hh; /* *more, unless it is the first */
};

/** All of some pages. */
struct sharers {
    const struct waitlist *values; /* of the pages */
    struct sharer **more;          /* the table for all but the first; NULL: there can be none */
    struct sharer first; /* the only one of most pages: no memory of its own. names 0: none */
    uint32_t n;
    uint32_t over;            /* of them */
    uint32_t newcomers;       /* those that have come since one has ended */
    _Atomic uint32_t waiting; /* those with streams on pages->values, or over */
    /*
     * How many have ended, or left the others alone; and the pid of the last one, unless their
     * maker has said since that it goes on alone. In the record of the first holder.
     */
    _Atomic uint64_t left;
};

/** There is none so far, and only one can come: all->more. */
void sharers_init(struct sharers *all, const struct waitlist *values);

/** The session has the pages, by one more name. */
enum cause sharer_join(struct sharers *all, struct session *session, struct sharer **sharer);
/** The same while npud restores: as it was, by the record of a name. False: no memory. */
bool sharer_join_again(struct sharers *all, struct session *session, uint32_t since, bool over,
                       struct sharer **sharer);
/** All names of the pages are there; called for the sharer of each of them. */
void sharer_restored(struct sharer *sharer);

/** It has one name less. True: it had no other, and is no sharer any more. */
bool sharer_leave(struct sharer *sharer);

/**
 * A sharer has left, or is over. ended: its process, or what it does; else it has given the pages
 * up, which counts if it leaves another one alone. The caller asks sharers_deserted() then. True:
 * `left` has changed.
 */
bool sharers_note_end(struct sharers *all, int32_t pid, bool ended);
/** The maker of the pages expects others, or goes on alone. True: `left` has changed. */
bool sharers_expect(struct sharers *all);

/** It writes nothing any more, or may again. */
void sharer_set_over(struct sharer *sharer, bool over);
/** It may, as one that has just come. */
void sharer_come_again(struct sharer *sharer);

/**
 * Is no sharer left that could write a word for which a stream waits now? pid: of the last that
 * could have. Memory that one session has had alone is not deserted. Any thread, under the lock of
 * pages->values, which it holds until it has acted on the answer.
 */
bool sharers_deserted(const struct sharers *all, int32_t *pid);
