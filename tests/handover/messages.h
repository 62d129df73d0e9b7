/*
 * Messages through queues, and a board on which each of them is accounted for.
 *
 * A message gets a number when a thread is about to put it. Before and after the call its fate is
 * noted on the board, so that a kill in between leaves it unknown. The taker notes it, too.
 */
#pragma once

#include "acl/acl_tdt_queue.h"
#include "stage.h"

#define QUEUES  7u
#define PLACES  3u /* where one message may arrive: at several destinations of its queue */
#define ENTRIES (1u << 21)
#define TAKE    ACL_TDT_QUEUE_PERMISSION_DEQUEUE
#define PUT     ACL_TDT_QUEUE_PERMISSION_ENQUEUE
#define ALL     7u

enum fate {
    FATE_NONE,
    FATE_TRIED, /* the call has begun; if the thread is dead: unknown */
    FATE_PUT,   /* the call has succeeded: it must arrive */
    FATE_KEPT,  /* the call has failed: it must not */
    FATE_UNKNOWN,
};

struct entry {
    _Atomic uint32_t sent;        /* enum fate | queue << 3 | life of the sender << 8 */
    _Atomic uint16_t got[PLACES]; /* 1 + life of the receiver */
};

struct queue_note {
    _Atomic uint32_t exists;
    _Atomic uint32_t depth;
    _Atomic uint32_t source;  /* queue + 1 that it is a destination of */
    _Atomic uint32_t place;   /* which one */
    _Atomic uint32_t routes;  /* destinations that it is the source of */
    _Atomic uint32_t single;  /* one thread takes at a time: the order holds across them */
    _Atomic uint32_t loose;   /* its route is unbound and bound: not all has to arrive */
    _Atomic uint32_t in_hand; /* messages that may have been lost with threads that took them */
};

struct board {
    _Atomic uint32_t next;            /* number of the last message, from 1 */
    _Atomic uint32_t short_of_memory; /* 207001 is to be expected */
    _Atomic uint32_t taking[LIVES];   /* queue + 1 */
    _Atomic uint32_t putting[LIVES];  /* queue + 1, for a call without time limit */
    _Atomic uint32_t forever[LIVES];  /* queue + 1 that it takes from without time limit */
    struct queue_note queue[QUEUES];
    _Atomic uint32_t last[QUEUES][LIVES]; /* of queues with a single taker: number taken last */
    struct entry entry[ENTRIES];
};
extern struct board *board;

enum character {
    PUTS_FOREVER,  /* into one queue, without time limit */
    TAKES_FOREVER, /* from one queue, without time limit */
    PUTS_SMALL,    /* as fast as it can */
    TAKES_SMALL,
    MIXES, /* all there is */
    CHARACTERS,
};
extern const char *const character_name[CHARACTERS];

/** main of a process whose threads have this character, and their queue. */
struct part {
    enum character character;
    uint32_t queue;
};
extern struct part part_next;

/**
 * Buffers of few sizes. Each size has segments of its own in each process, and npud has two
 * descriptors for each segment as long as a message of it is on its way.
 */
extern bool messages_few_sizes;
int messages_main(struct player *p);

/** Take all that is in the queue, as this life. Returns how many messages. */
unsigned messages_drain(uint32_t life, uint32_t queue);

/** Messages of the queue (of a destination: those due to it) that were put and have not arrived. */
void messages_missing(uint32_t missing[QUEUES]);
/** Print so many of them, and what became of their senders. */
void messages_tell_missing(unsigned most);
/** Abort if a message has arrived whose call failed. */
void messages_check_kept(void);
/** A thread of this life is dead: note what it may have had in hand. */
void messages_bury(uint32_t life);
