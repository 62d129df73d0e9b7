/*
 * Queues (proto/shm/queue_shm.h): their ids and rights, the attached sessions, the segments that
 * their readers may map. npud carries no message, but for the routes; it makes the rings, and puts
 * right what a dead session has left in them.
 *
 * A queue has an id, which programs pass around: 0 to 4095, one series per uid. An id alone means a
 * queue of the session's own user. A session that wants another user's queue must name that user:
 * else any user could make queues with the ids that a program expects, and grant them to it. What
 * is in shared memory is its ring, which has a number: 1 to 65535, one series for all, since it
 * stands in the words of buffers. When a session loses a right and still maps the ring, the queue
 * gets a new one (QUEUE_MOVED), with the messages of the old one.
 *
 * Rights: of an attachment, or of a grant (grant.h) for a process that has not attached yet. The
 * creator is attached from the beginning, with all of them. A queue lives as long as it has an
 * attachment or a grant. Messages stay in it when their sender has gone; the sessions that take
 * them may map their segments, because the queue allows it (queue_allow_map()).
 *
 * Control thread only.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "daemon/core/user.h"
#include "daemon/buffers/channel_name.h"
#include "daemon/buffers/queue_ring.h"
#include "daemon/core/cause.h"
#include "daemon/kept/buffers_record.h"
#include "daemon/kept/kept.h"

/* Of the sessions that have a channel (channel.h). */
#define CHANNEL_RIGHTS (QUEUE_TAKE | QUEUE_PUT)

struct grant;
struct queue;
struct queue_rest;
struct relay;
struct route_bell;
struct segment;
struct segment_map;
struct server;
struct session;
struct peer;

/**
 * A session's use of a queue. It has no two with the same id, and no two of the same queue.
 */
struct queue_attach {
    /* As the session names the queue: a queue of its own user by the queue's id; another user's by
     * one from QUEUE_IDS on, that the session has chosen. */
    uint32_t id;
    uint64_t serial; /* of the queue */
    struct peer *peer;
    struct queue *queue;
    uint32_t rights;
    struct charge charge; /* of the session's user: for this object */
    struct kept kept;
    bool told;    /* leaving, and the others know */
    bool leaving; /* its session ends: it counts no more */
    bool idle;    /* its process has finalized, and may come back */
    /*
     * queue_maps.c: its right to take is counted for the segments that map_allowed has before this
     * word; from there on that is still to be done. And what is done when it is lost.
     */
    uint32_t counted;
    bool spoils;
    struct job count;
    struct route_bell *bell;            /* route_bell.h; NULL: the session has not asked for one */
    struct queue_attach *prev, *next;   /* peer->attached */
    struct queue_attach *qprev, *qnext; /* queue->attached */
};

/** What the other side is told about one side: the senders, or the takers. */
struct queue_party {
    uint32_t n;    /* attachments and grants with that right, and the router */
    uint32_t gone; /* that died or lost the right since one came */
    int32_t pid;   /* of the last of these */
};

struct queue {
    struct server *server;
    uint64_t serial; /* in all of npud */
    uint32_t id;
    struct user *user;       /* its id is one of this user's, which pays for it */
    struct session *creator; /* NULL: is not attached any more */
    char name[QUEUE_NAME];
    struct channel_name channel;
    struct queue_ring ring;
    struct queue_rest *rest; /* messages that are still coming from another ring; or NULL */
    struct charge charge, charge_fds, charge_memory;
    struct kept kept;
    struct queue_attach *attached;
    struct grant *grants; /* not attached yet */
    uint32_t n_grants;
    bool ends;                /* queue_finish_some() has begun: no session gets it any more */
    struct session *ended_by; /* its attachment goes last; NULL: none, or it has gone */
    struct job end;           /* of one without attachments */
    struct queue_party puts, takes;
    struct kept map_kept;
    struct map_word *map_allowed; /* in it: segments that readers may map, by id / 64; or NULL */
    uint64_t before;              /* messages that were taken from earlier rings */

    /* router: routes that have it as source, as destination. queue_routed() after a change. */
    uint32_t routes_from, routes_to;
    struct relay *route; /* the router's own */
    uint32_t n_bells;    /* of its attachments */
    bool bell_lost;      /* while npud restores: one has a bell that npud does not hear any more */

    /*
     * queue_sweep.c: the messages in the ring, ref << 32 | slot, sorted, as they were at a moment;
     * 0: none are remembered. And the moment when npud put a message last.
     */
    uint64_t *swept;
    uint32_t n_swept;
    uint64_t swept_at, carried_at;

    struct queue *prev, *next; /* queues->all, by serial */
};

/** In place of a queue that has ended or moved, and whose ring still has its number. */
#define QUEUE_NUMBER_KEPT ((struct queue *)-1)

struct queues {
    struct queue **by_number; /* QUEUE_NUMBERS; or QUEUE_NUMBER_KEPT */
    struct queue_rest *rests; /* queue_rest.h */
    uint32_t n;
    struct queue *all;
    uint64_t moment; /* queue_sweep.c: goes up with all that it compares */
    /* grant.c: sessions that may wait for a grant, the one that has asked first first */
    struct peer *askers;
    uint32_t to_tell; /* of these, from the first on */
    struct job tell;  /* the rest of these */
    /*
     * router.h, when there is one. The queue ends (false: once more, before it does); is about to
     * go; has a new ring; a session died that might have had to tell the router something.
     */
    bool (*on_ending)(struct queue *queue);
    void (*on_gone)(struct queue *queue);
    void (*on_moved)(struct queue *queue);
    void (*on_stirred)(struct queue *queue);
    void (*on_leaving)(struct queue_attach *attach); /* that has a bell */
};

/** 0 or -ENOMEM. What is done later is the owner's. */
int queues_init(struct queues *queues, struct job_owner *owner);
/** All queues are gone, with their sessions. */
void queues_deinit(struct queues *queues);

/**
 * A queue to which the session is attached with all rights. name: "" for one that npud makes.
 */
enum cause queue_new(struct session *session, const char *name, uint32_t depth,
                     struct queue_attach **attach);

/** The same for a channel (channel.h): the session may put and take. */
enum cause queue_new_channel(struct session *session, uint32_t device, const char *name,
                             uint32_t depth, struct queue_attach **attach);

/** The queue ends, also for those that are attached; its messages are freed. All in one go. */
void queue_destroy(struct queue *queue);

/**
 * Some of what queue_destroy() does, because there may be thousands of each: routes, grants and
 * attachments go, but for the attachment `last`, until the step is over. False: there may be more.
 * After true, what is left for queue_destroy() is short. The caller goes on in another step; if the
 * session of `last` ends first, its end does. For another session it is false until then, and then
 * the queue is gone.
 */
bool queue_finish_some(struct queue *queue, struct queue_attach *last);

/** The session's attachment that it names so, or NULL. */
struct queue_attach *queue_attached(const struct session *session, uint32_t id);

/** The session's attachment to the queue with this serial, or NULL. */
struct queue_attach *queue_attachment_to(const struct session *session, uint64_t serial);

/** The session's attachment to the queue, or NULL; also if queue is NULL. */
struct queue_attach *queue_attachment(const struct session *session, const struct queue *queue);

/**
 * A new attachment of the session, which has none to the queue, and none that it names so. NULL: no
 * memory, or no more for the user: session_cause_of_object().
 */
struct queue_attach *queue_attach_new(struct session *session, struct queue *queue, uint32_t id,
                                      uint32_t rights);

/** The user's queue with this id, below QUEUE_IDS, or NULL. */
struct queue *queue_of_user(const struct user *user, uint32_t id);

/**
 * Other rights for an attachment; 0: it ends. A session that loses a right still maps the ring, so
 * the queue moves to a new one; if there is no memory or descriptor for that, nothing has changed.
 * CAUSE_QUEUE_REVOKING: the right to take has gone, and npud has begun to tell owners of segments;
 * the caller tries again, until they have been told.
 */
enum cause queue_attach_change(struct queue_attach *attach, uint32_t rights);

/** The attachment ends; queue_check_used() follows. */
void queue_attach_free(struct queue_attach *attach);

/** May its session write to a ring that others use? */
bool queue_attach_is_shared(const struct queue_attach *attach);

/** An empty ring for the queue, with a number that no other has. 0, or -errno and none. */
int queue_make_ring(struct queue *queue, uint32_t depth, struct queue_ring *ring);

/** The queue ends, now or in steps of its user. It may have gone when this returns. */
void queue_finish(struct queue *queue);

/** The queue ends if it has neither an attachment nor a grant. */
void queue_check_used(struct queue *queue);

/** Can its process still end waits of others? */
static inline bool queue_attach_counts(const struct queue_attach *attach)
{
    return !attach->leaving && !attach->idle;
}

/** The session gets the ring: what it then tells a trace of the queue is believed. */
void queue_attach_trace(const struct queue_attach *attach);

/** Its process has finalized, and stays attached; or uses the queue again. */
void queue_attach_set_idle(struct queue_attach *attach, bool idle);

/**
 * A session or grant got, or lost, these rights: recount, tell both sides. After a loss, threads
 * that sleep on the ring look again.
 */
void queue_party_came(struct queue *queue, uint32_t rights);
void queue_party_left(struct queue *queue, uint32_t rights, int32_t pid);

/** router: routes_from or routes_to has changed. */
void queue_routed(struct queue *queue);

/** The queue with this ring, or NULL. */
struct queue *queue_by_number(struct server *server, uint32_t number);

/** The queue of serial, or the next newer one, or NULL. */
struct queue *queue_from(struct server *server, uint64_t serial);

/** The memory that queue_allow_map() needs. False: none. */
bool queue_allow_map_prepare(struct queue *queue);

/** From now on a session that may take from the queue may map the segment. False: no memory. */
bool queue_allow_map(struct queue *queue, struct segment *segment);

/** May a session that may take from the queue map the segment? */
bool queue_allows_map(const struct queue *queue, const struct segment *segment);

/**
 * May the session let others map the segment: is it the session's own, or has the session a right
 * to it now? To map it still is not enough, because a session that has lost its right could get it
 * back through a queue of its own. If so, it is noted that the session has done so.
 */
bool queue_pass_on(struct session *session, struct segment *segment);

/**
 * The session of the attachment has got the right to take: owners of segments that it maps, and
 * that the queue allows, may put new data there. Soon, if there are thousands.
 */
void queue_take_came(struct queue_attach *attach);

/**
 * The session of the attachment had the right to take, and has it no more. Owners of segments that
 * the session maps without any right put nothing new there. In steps; false: there are more, which
 * npud goes on with, or the next call. After true, the attachment may go.
 *
 * spoils: what the session has passed on of the segments that the queue allows is spoiled. Neither
 * the session nor those that have it from the session shall see new data there, also when they have
 * a right through queues of their own.
 */
bool queue_take_gone(struct queue_attach *attach, bool spoils);

/**
 * The session of the peer ends. A segment that it has passed on is spoiled, as when it loses a
 * right: once it has ended, no owner can take the right away from it, nor from the sessions that
 * have the segment from it. Does one segment, that at the position of the peer's sweep, which has
 * not begun. True: no segment was left.
 */
bool queue_reader_ended(struct peer *peer);

/** May the session map the segment: does a queue allow it from which the session may take? */
bool queue_session_may_map(struct session *session, struct segment *segment);

/** The session maps the segment from now on, and its rights to it are counted. */
void queue_segment_mapped(struct segment_map *map);

/** npud has put messages there: what queue_sweep.c remembers of the ring does not say which. */
void queue_carried(struct queue *queue);

/** Counting its rights goes on. */
void queue_count_again(struct queue_attach *attach);

/** Messages that were ever taken from it. */
uint64_t queue_messages(const struct queue *queue);

/** npud ends: so do queues that are in the middle of it, and that no session has. */
void queues_finish(struct queues *queues);

/* --- over the end of npud: queue_record.c --- */

/** Make the record of a new queue, or attachment. False: no memory. */
bool queue_keep(struct queue *queue);
bool queue_attach_keep(struct queue_attach *attach);
/** While npud restores: the queue with this serial, or NULL. */
struct queue *queue_restored(uint64_t serial);
/**
 * All is there: clients are told what npud says of the queues, and those that sleep look again. A
 * queue that ends by itself goes on with that.
 */
void queues_finish_restoring(struct server *server);

/** For these: a queue without a ring, charged for nothing, of this user, whose reference it has. */
struct queue *queue_make(struct server *server, struct user *user, uint32_t id, uint64_t serial);
/** What it is charged for beside its files. */
uint64_t queue_table_bytes(uint32_t depth);
/** An attachment, charged for nothing. NULL: no memory. */
struct queue_attach *queue_attach_make(struct peer *peer, struct queue *queue, uint32_t id,
                                       uint32_t rights);
/** Sessions and grants of the queue were restored: count them, and tell both sides. */
void queue_tell_parties(struct queue *queue);

/**
 * Does the session have rings that others would have to leave if it ended and its process went on?
 */
bool queues_shared(const struct peer *peer);
