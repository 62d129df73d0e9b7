/*
 * What the router has of a queue that is the source or the destination of a route: its routes, what
 * it has to do, and how clients wake npud for it. Control thread.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "daemon/base/schedule.h"
#include "daemon/core/user.h"
#include "daemon/core/cause.h"
#include "daemon/kept/buffers_record.h"
#include "daemon/kept/kept.h"
#include "proto/shm/queue_shm.h"

struct event;
struct message;
struct queue;
struct route;
struct router;
struct server;

/**
 * What the router knows of a queue: queue->route. It goes with its last route, or, when clients may
 * ring, with the queue.
 */
struct relay {
    struct server *server;
    struct queue *queue;
    struct route *out, *in;
    uint32_t n_out, n_in;  /* of these: ROUTE_BOUND */
    struct route *waiting; /* routes into here with a backlog, the next one to be served first */
    uint32_t n_copies;     /* that npud has put into the ring since it last had none there */
    uint64_t copies_end;   /* the position behind the last one */
    uint32_t taken_at_end; /* messages of this source, since its last session began to leave it */
    /*
     * A source goes through its routes in steps, and `at` is the next one of them. First it makes
     * room for the next message in all that are bound (backlog.reserved); at NULL: it has. Then it
     * takes the message and gives it to these routes, until none of them is left.
     */
    struct route *at;
    struct message *message; /* that it gives to its routes; NULL: it makes room for one */
    uint32_t n_reserved; /* of its routes: have room; the message is still to be given to them */
    uint32_t n_wait_in;  /* routes from or to here that wait for a slot */
    /* pid of the last process that could put into a source that has gone; 0: none has gone */
    int32_t gone;

    struct job turn;  /* listed: it may have something to do */
    bool armed;       /* QUEUE_ROUTER is set where clients will see it */
    bool awaits_room; /* armed, and nothing could be put there after that: a consumer rings */
    bool parting;     /* its queue ends, and its routes are leaving it: no message goes to them */
    bool starved;     /* in router->starved: npud has no memory */
    struct relay *starved_prev, *starved_next;

    bool rung; /* by a client, since its last turn */
    /*
     * The eventfd that an npud of 0.9.0 has given to all clients that may ring. Its counter is
     * emptied, because any of them could have filled it. -1: none.
     */
    int bell;
    struct event *on_bell;
    struct charge charge_bell;

    struct kept kept;
    struct relay_live *live; /* in the record */
};

/** The relay of the queue, made if need be. NULL: no memory. */
struct relay *relay_get(struct queue *queue);
/** Its routes are there, with what they have to deliver. */
void relay_begin_again(struct relay *relay);

/** Its queue goes: so does the relay. */
void relay_free(struct relay *relay);

/**
 * Frees the relay if no route uses it, and no client has a bell: clients would not ask again when
 * there is another route.
 */
void relay_check_used(struct relay *relay);

/** The relay may have something to do: it has a turn of its user. */
void relay_make_ready(struct relay *relay);

/**
 * Its turn begins: if clients have rung, its routes that wait for a slot try again.
 */
void relay_answer_bell(struct relay *relay);

/** A source: npud, or the user, has no memory for its next message. */
void relay_starve(struct relay *relay);

/** All relays that wait for memory try again, soon: some was given back. */
void relay_unstarve_all(struct router *router);

/** What is done later is the owner's. */
void relays_init(struct router *router, struct job_owner *owner);
void relays_deinit(struct router *router);

/** Its ring. */
struct queue_view *relay_view(struct relay *relay);

/**
 * From here on the client that puts, or takes, rings. The caller looks at the ring once more
 * afterwards.
 */
void relay_arm(struct relay *relay, _Atomic uint64_t *waiting);
void relay_disarm(struct relay *relay);

/** Wake one of the threads that sleep on the other side of the ring: one message or place more. */
void relay_wake(struct relay *relay, _Atomic uint64_t *waiting, _Atomic uint32_t *word);

/** A client has rung (route_bell.h), or may have. */
void relay_rung(struct relay *relay);

/** The ring has ended: so has the eventfd of 0.9.0. */
void relay_close_bell(struct relay *relay);

/** The number of routes has changed: tell the clients of the queue. */
void relay_tell_queue(struct relay *relay);

/**
 * After the last message of the last route into the queue: tells the clients that sleep there why
 * no message will come.
 */
void relay_check_puts(struct relay *relay);
