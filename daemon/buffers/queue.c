#include "daemon/buffers/queue.h"

#include <assert.h>
#include <errno.h>
#include <search.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "daemon/base/kill_here.h"
#include "daemon/buffers/chain.h"
#include "daemon/buffers/grant.h"
#include "daemon/buffers/peer.h"
#include "daemon/buffers/pool.h"
#include "daemon/buffers/queue_rest.h"
#include "daemon/buffers/segment.h"
#include "daemon/core/server.h"
#include "daemon/core/session.h"
#include "daemon/core/trace.h"

int queues_init(struct queues *queues, struct job_owner *owner)
{
    *queues = (struct queues){0};
    /* Half a megabyte of which only the pages with queues in them are ever touched. */
    queues->by_number = calloc(QUEUE_NUMBERS, sizeof(struct queue *));
    grants_init(queues, owner);
    return queues->by_number ? 0 : -ENOMEM;
}

void queues_deinit(struct queues *queues)
{
    grants_deinit(queues);
    queue_rests_finish(queues);
    free(queues->by_number);
    queues->by_number = NULL;
}

static struct queues *queues_of(const struct queue *queue)
{
    return queue->server->queues;
}

/*
 * A number that no ring has; used again as late as possible: a sender that stops in mid-enqueue has
 * it in a buffer's word. 0: all are in use.
 */
static uint32_t find_number(struct server *server)
{
    for (uint32_t i = 1; i < QUEUE_NUMBERS; i++) {
        server->last->ring = server->last->ring % (QUEUE_NUMBERS - 1) + 1;
        if (!server->queues->by_number[server->last->ring])
            return (uint32_t)server->last->ring;
    }
    return 0;
}

int queue_make_ring(struct queue *queue, uint32_t depth, struct queue_ring *ring)
{
    uint32_t number = find_number(queue->server);

    if (number != 0)
        trace_forget_queue(queue->server->trace, number);
    return number == 0 ? -ENOSPC : queue_ring_new(ring, queue->user, number, depth);
}

/* Why there is no ring: of a failed queue_make_ring(). */
static enum cause cause_of_ring(int r)
{
    if (r == -ENOSPC)
        return CAUSE_QUEUE_RINGS;
    return cause_of_errno(r);
}

static void wake_sleepers_of(struct queue *queue)
{
    queue_ring_wake(&queue->ring.view);
    if (queues_of(queue)->on_stirred)
        queues_of(queue)->on_stirred(queue);
}

/* --- parties --- */

static void tell_party(struct queue_party_news *news, const struct queue_party *party)
{
    atomic_store_explicit(&news->pid, party->pid, memory_order_relaxed);
    atomic_store_explicit(&news->gone, party->gone, memory_order_relaxed);
    atomic_store_explicit(&news->n, party->n, memory_order_release);
}

static void publish_parties(struct queue *queue)
{
    struct queue_news *news = queue->ring.view.news;

    tell_party(&news->takes, &queue->takes);
    tell_party(&news->puts, &queue->puts);
    atomic_store_explicit(&news->takes.routed, queue->routes_from > 0, memory_order_relaxed);
    atomic_store_explicit(&news->puts.routed, queue->routes_to > 0, memory_order_relaxed);
}

static void count_parties(struct queue *queue)
{
    struct queue_attach *attach;
    struct grant *grant;

    queue->puts.n = queue->routes_to > 0;
    queue->takes.n = queue->routes_from > 0;
    DL_FOREACH2 (queue->attached, attach, qnext) {
        bool counts = queue_attach_counts(attach);

        queue->puts.n += counts && attach->rights & QUEUE_PUT;
        queue->takes.n += counts && attach->rights & QUEUE_TAKE;
    }
    DL_FOREACH (queue->grants, grant) {
        queue->puts.n += (grant->rights & QUEUE_PUT) != 0;
        queue->takes.n += (grant->rights & QUEUE_TAKE) != 0;
    }
}

void queue_tell_parties(struct queue *queue)
{
    count_parties(queue);
    publish_parties(queue);
}

void queue_party_came(struct queue *queue, uint32_t rights)
{
    if (rights & QUEUE_PUT)
        queue->puts.gone = 0;
    if (rights & QUEUE_TAKE)
        queue->takes.gone = 0;
    kept_touch(&queue->kept);
    queue_tell_parties(queue);
}

static void note_left(struct queue_party *party, int32_t pid)
{
    party->gone++;
    party->pid = pid;
}

void queue_party_left(struct queue *queue, uint32_t rights, int32_t pid)
{
    if (rights & QUEUE_PUT)
        note_left(&queue->puts, pid);
    if (rights & QUEUE_TAKE)
        note_left(&queue->takes, pid);
    kept_touch(&queue->kept);
    queue_tell_parties(queue);
    if (rights & (QUEUE_PUT | QUEUE_TAKE))
        wake_sleepers_of(queue);
}

void queue_routed(struct queue *queue)
{
    queue_tell_parties(queue);
    wake_sleepers_of(queue);
}

/* --- attachments --- */

static int compare_ids(const void *a, const void *b)
{
    const struct queue_attach *x = a, *y = b;

    return x->id < y->id ? -1 : x->id > y->id;
}

static int compare_serials(const void *a, const void *b)
{
    const struct queue_attach *x = a, *y = b;

    return x->serial < y->serial ? -1 : x->serial > y->serial;
}

/* False: no memory. */
static bool list_attach(struct peer *peer, struct queue_attach *attach)
{
    struct queue_attach **node = tsearch(attach, &peer->by_id, compare_ids);

    assert(!node || *node == attach);
    if (!node)
        return false;
    node = tsearch(attach, &peer->by_queue, compare_serials);
    assert(!node || *node == attach);
    if (!node)
        tdelete(attach, &peer->by_id, compare_ids);
    return node != NULL;
}

struct queue_attach *queue_attach_make(struct peer *peer, struct queue *queue, uint32_t id,
                                       uint32_t rights)
{
    struct queue_attach *attach = calloc(1, sizeof(*attach));

    if (!attach)
        return NULL;
    *attach = (struct queue_attach){
        .id = id, .serial = queue->serial, .peer = peer, .queue = queue, .rights = rights};
    if (!list_attach(peer, attach)) {
        free(attach);
        return NULL;
    }
    DL_APPEND(peer->attached, attach);
    DL_APPEND2(queue->attached, attach, qprev, qnext);
    return attach;
}

struct queue_attach *queue_attach_new(struct session *session, struct queue *queue, uint32_t id,
                                      uint32_t rights)
{
    struct peer *peer = peer_get(session);
    struct queue_attach *attach = peer ? queue_attach_make(peer, queue, id, rights) : NULL;

    if (!attach)
        return NULL;
    if (user_charge(&attach->charge, session->user, RESOURCE_TABLE_MEMORY, sizeof(*attach)) < 0 ||
        !queue_attach_keep(attach)) {
        queue_attach_free(attach);
        return NULL;
    }
    queue_party_came(queue, rights);
    if (rights & QUEUE_TAKE)
        queue_take_came(attach);
    return attach;
}

void queue_attach_free(struct queue_attach *attach)
{
    if (attach->queue->creator == attach->peer->session) {
        attach->queue->creator = NULL;
        kept_touch(&attach->queue->kept);
    }
    if (attach->queue->ended_by == attach->peer->session) {
        attach->queue->ended_by = NULL;
        kept_touch(&attach->queue->kept);
    }
    if (attach->bell)
        queues_of(attach->queue)->on_leaving(attach);
    kept_drop(&attach->kept);
    job_cancel(&attach->count);
    tdelete(attach, &attach->peer->by_id, compare_ids);
    tdelete(attach, &attach->peer->by_queue, compare_serials);
    DL_DELETE(attach->peer->attached, attach);
    DL_DELETE2(attach->queue->attached, attach, qprev, qnext);
    user_uncharge(&attach->charge);
    free(attach);
}

struct queue_attach *queue_attached(const struct session *session, uint32_t id)
{
    const struct queue_attach key = {.id = id};
    struct queue_attach **node =
        session->peer ? tfind(&key, &session->peer->by_id, compare_ids) : NULL;

    return node ? *node : NULL;
}

struct queue_attach *queue_attachment_to(const struct session *session, uint64_t serial)
{
    const struct queue_attach key = {.serial = serial};
    struct queue_attach **node =
        session->peer ? tfind(&key, &session->peer->by_queue, compare_serials) : NULL;

    return node ? *node : NULL;
}

struct queue_attach *queue_attachment(const struct session *session, const struct queue *queue)
{
    return queue ? queue_attachment_to(session, queue->serial) : NULL;
}

void queue_carried(struct queue *queue)
{
    queue->carried_at = ++queues_of(queue)->moment;
}

/* --- life --- */

static void queue_free(struct queue *queue)
{
    struct queues *queues = queues_of(queue);

    assert(!queue->attached && !queue->grants && !queue->route);
    if (queue->ring.view.number != 0)
        queues->by_number[queue->ring.view.number] = NULL;
    channel_name_unlist(queue->user, &queue->channel);
    queue_ring_free(&queue->ring, queue->user);
    kept_drop(&queue->kept);
    kept_drop(&queue->map_kept);
    job_cancel(&queue->end);
    DL_DELETE(queues->all, queue);
    queues->n--;
    queue->user->queues[queue->id] = NULL;
    user_uncharge(&queue->charge);
    user_uncharge(&queue->charge_fds);
    user_uncharge(&queue->charge_memory);
    user_unref(queue->user);
    free(queue->swept);
    free(queue);
}

struct queue *queue_of_user(const struct user *user, uint32_t id)
{
    assert(id < QUEUE_IDS);
    return user->queues ? user->queues[id] : NULL;
}

/* Used again as late as possible. QUEUE_IDS: the user has them all. */
static uint32_t find_id(struct user *user)
{
    for (uint32_t i = 0; i < QUEUE_IDS; i++) {
        uint32_t id = user->next_queue;

        user->next_queue = (id + 1) % QUEUE_IDS;
        if (!queue_of_user(user, id))
            return id;
    }
    return QUEUE_IDS;
}

/* Of its ring, and of what npud may note of it: segments that are allowed, what is in the ring. */
uint64_t queue_table_bytes(uint32_t depth)
{
    return queue_put_size(depth) + queue_take_size() + QUEUE_NEWS_SIZE + sizeof(struct queue) +
           SEGMENT_IDS / 64 * sizeof(struct map_word) + queue_slots(depth) * sizeof(uint64_t);
}

static bool run_end(struct job *job);

struct queue *queue_make(struct server *server, struct user *user, uint32_t id, uint64_t serial)
{
    struct queue *queue;

    if (!user->queues)
        user->queues = calloc(QUEUE_IDS, sizeof(struct queue *));
    queue = user->queues ? calloc(1, sizeof(*queue)) : NULL;
    if (!queue)
        return NULL;
    queue->server = server;
    queue->serial = serial;
    queue->id = id;
    queue->user = user;
    queue->ring = QUEUE_RING_NONE;
    queue->channel.text = queue->name;
    queue->end = (struct job){run_end, "end of a queue", &user->payer->schedule.leftovers};
    DL_APPEND(server->queues->all, queue);
    server->queues->n++;
    user->queues[id] = queue;
    return queue;
}

/* channel: the number of its device + 1; 0: it is none. */
static enum cause make_queue(struct session *session, uint32_t channel, const char *name,
                             uint32_t depth, struct queue **queuep)
{
    struct queues *queues = session->server->queues;
    struct user *user = session->user;
    uint32_t id = user->used[RESOURCE_QUEUES] < QUEUE_IDS ? find_id(user) : QUEUE_IDS;
    struct queue *queue;
    int r;

    if (id == QUEUE_IDS)
        return CAUSE_QUEUE_IDS;
    queue = queue_make(session->server, user, id, ++session->server->last->queue);
    if (!queue)
        return CAUSE_MEMORY;
    user_hold(user);
    queue->channel.device = channel;
    if (name[0])
        snprintf(queue->name, sizeof(queue->name), "%s", name);
    else
        snprintf(queue->name, sizeof(queue->name), "queue-%u", id);
    *queuep = queue;
    if (user_charge(&queue->charge, user, RESOURCE_QUEUES, 1) < 0)
        return CAUSE_USER_QUEUES;
    r = user_charge_files(&queue->charge_fds, user, QUEUE_FILES);
    if (r < 0)
        return cause_of_files(r, CAUSE_USER_DESCRIPTORS);
    if (user_charge(&queue->charge_memory, user, RESOURCE_TABLE_MEMORY, queue_table_bytes(depth)) <
        0)
        return CAUSE_USER_TABLE_MEMORY;
    r = queue_make_ring(queue, depth, &queue->ring);
    if (r < 0)
        return cause_of_ring(r);
    queues->by_number[queue->ring.view.number] = queue;
    if (channel != 0 && !channel_name_list(user, &queue->channel))
        return CAUSE_MEMORY;
    return queue_keep(queue) ? CAUSE_NONE : CAUSE_MEMORY;
}

static enum cause new_queue(struct session *session, uint32_t channel, const char *name,
                            uint32_t depth, struct queue_attach **attach)
{
    struct queue *queue = NULL;
    enum cause cause;

    if (depth < QUEUE_DEPTH_MIN || depth > QUEUE_DEPTH_MAX)
        return CAUSE_QUEUE_DEPTH;
    if (strlen(name) >= QUEUE_NAME)
        return CAUSE_QUEUE_NAME;
    cause = make_queue(session, channel, name, depth, &queue);
    if (cause == CAUSE_NONE) {
        *attach = queue_attach_new(session, queue, queue->id,
                                   channel != 0 ? CHANNEL_RIGHTS : QUEUE_RIGHTS);
        if (!*attach)
            cause = session_cause_of_object(session);
        else
            queue->creator = session;
    }
    if (cause != CAUSE_NONE && queue)
        queue_free(queue);
    return cause;
}

enum cause queue_new(struct session *session, const char *name, uint32_t depth,
                     struct queue_attach **attach)
{
    return new_queue(session, 0, name, depth, attach);
}

enum cause queue_new_channel(struct session *session, uint32_t device, const char *name,
                             uint32_t depth, struct queue_attach **attach)
{
    return new_queue(session, device + 1, name, depth, attach);
}

/* The creator has its right from no other session. False: it goes on losing its rights. */
static bool lose_take(struct queue_attach *attach)
{
    attach->rights &= ~(uint32_t)QUEUE_TAKE;
    return queue_take_gone(attach, attach->peer->session != attach->queue->creator);
}

static bool end_attachment(struct queue_attach *attach)
{
    struct session *session = attach->peer->session;

    if (!lose_take(attach))
        return false;
    queue_attach_free(attach);
    session_tell_retired(session);
    KILL_HERE(ATTACHMENT_ENDED);
    return true;
}

void queue_destroy(struct queue *queue)
{
    struct server *server = queue->server;

    if (queues_of(queue)->on_gone)
        queues_of(queue)->on_gone(queue);
    queue_rest_begin(queue);
    KILL_HERE(QUEUE_RESTS);
    while (queue->grants)
        grant_free(queue->grants);
    while (queue->attached)
        end_attachment(queue->attached);
    queue_free(queue);
    /* Threads that wait for a grant of this queue need not wait any more. */
    grant_tell_all(server->queues);
}

/* A grant, or an attachment that is not the last one. False: there is none. */
static bool finish_one(struct queue *queue, const struct queue_attach *last)
{
    struct queue_attach *attach = queue->attached;

    if (queue->grants) {
        grant_free(queue->grants);
        return true;
    }
    if (attach && attach == last)
        attach = attach->qnext;
    if (attach)
        end_attachment(attach); /* or some of it */
    return attach != NULL;
}

bool queue_finish_some(struct queue *queue, struct queue_attach *last)
{
    if (last && queue->ended_by && queue->ended_by != last->peer->session)
        return false;
    /* Certain before anything of it is done: each part of it may be done again. */
    if (!queue->ends) {
        queue->ends = true;
        channel_name_unlist(queue->user, &queue->channel);
        queue->ended_by = last ? last->peer->session : NULL;
        kept_touch(&queue->kept);
        kept_commit();
        KILL_HERE(QUEUE_ENDS);
    }
    if (queues_of(queue)->on_ending && !queues_of(queue)->on_ending(queue))
        return false;
    /* First: a session that is told of the end of its attachment looks at the ring once. */
    queue_rest_end_ring(queue);
    while (finish_one(queue, last))
        if (schedule_late(&queue->server->schedule))
            return false;
    /* A session that ends maps nothing any more. */
    return !last || last->leaving || lose_take(last);
}

static bool run_end(struct job *job)
{
    struct queue *queue = (struct queue *)((char *)job - offsetof(struct queue, end));

    if (!queue_finish_some(queue, NULL))
        return true;
    queue_destroy(queue);
    return false;
}

void queue_finish(struct queue *queue)
{
    if (queue->server->ending || queue_finish_some(queue, NULL))
        queue_destroy(queue);
    else {
        job_list(&queue->end);
        kept_touch(&queue->kept);
    }
}

void queue_check_used(struct queue *queue)
{
    if (!queue->attached && !queue->grants)
        queue_finish(queue);
}

void queues_finish(struct queues *queues)
{
    struct queue *queue, *next;

    DL_FOREACH_SAFE (queues->all, queue, next)
        if (queue->end.listed)
            queue_destroy(queue);
}

/*
 * In this order, because an npud that ends, and a session that dies, may be anywhere in it:
 *
 *     what is done                                     if that is not possible
 *     1. put or take is lost: the queue moves          nothing has changed, and the cause why
 *     2. take is lost: the attachment has it no more
 *     3. without take: owners of segments are told     CAUSE_QUEUE_REVOKING; the caller calls
 *        that the session maps                         again, until all of them are told
 *     4. the attachment has the new rights, and owners
 *        of segments are told of a new right to take
 *     5. without any right the attachment goes
 *     6. both sides are told: those that came, then those that have left
 *     7. the queue ends if no session and no grant has a right to it
 */
enum cause queue_attach_change(struct queue_attach *attach, uint32_t rights)
{
    struct queue *queue = attach->queue;
    struct session *session = attach->peer->session;
    uint32_t old = attach->rights, lost = old & ~rights;

    if (lost & (QUEUE_PUT | QUEUE_TAKE)) {
        int r = queue_move(queue);

        if (r < 0)
            return cause_of_ring(r);
    }
    attach->rights &= ~(lost & QUEUE_TAKE);
    kept_touch(&attach->kept);
    if (!(rights & QUEUE_TAKE) && !queue_take_gone(attach, true)) {
        if (lost & QUEUE_TAKE)
            queue_party_left(queue, QUEUE_TAKE, session->pid);
        return CAUSE_QUEUE_REVOKING;
    }
    attach->rights = rights;
    kept_touch(&attach->kept);
    if (rights & ~old & QUEUE_TAKE)
        queue_take_came(attach);
    if (rights == 0) {
        queue_attach_free(attach);
        session_tell_retired(session);
    }
    queue_party_came(queue, rights & ~old);
    if (lost)
        queue_party_left(queue, lost, session->pid);
    queue_check_used(queue);
    return CAUSE_NONE;
}

void queue_attach_trace(const struct queue_attach *attach)
{
    trace_note_queue(attach->peer->session, attach->queue->ring.view.number,
                     attach->rights & QUEUE_PUT, attach->rights & QUEUE_TAKE);
}

void queue_attach_set_idle(struct queue_attach *attach, bool idle)
{
    if (attach->idle == idle)
        return;
    attach->idle = idle;
    kept_touch(&attach->kept);
    if (idle)
        queue_party_left(attach->queue, attach->rights, attach->peer->session->pid);
    else
        queue_party_came(attach->queue, attach->rights);
}

/* --- finding --- */

struct queue *queue_by_number(struct server *server, uint32_t number)
{
    struct queue *queue = number < QUEUE_NUMBERS ? server->queues->by_number[number] : NULL;

    return queue != QUEUE_NUMBER_KEPT ? queue : NULL;
}

struct queue *queue_from(struct server *server, uint64_t serial)
{
    struct queue *queue;

    DL_FOREACH (server->queues->all, queue)
        if (queue->serial >= serial)
            return queue;
    return NULL;
}

uint64_t queue_messages(const struct queue *queue)
{
    return queue->before + queue_head_position(atomic_load_explicit(&queue->ring.view.take->head,
                                                                    memory_order_relaxed));
}

bool queue_attach_is_shared(const struct queue_attach *mine)
{
    const struct queue *queue = mine->queue;
    const struct queue_attach *attach;

    if (!(mine->rights & (QUEUE_PUT | QUEUE_TAKE)) || queue->server->ending)
        return false;
    if (queue->grants || queue->routes_from || queue->routes_to)
        return true;
    DL_FOREACH2 (queue->attached, attach, qnext)
        if (attach != mine && !attach->leaving)
            return true;
    return false;
}

bool queues_shared(const struct peer *peer)
{
    const struct queue_attach *attach;

    DL_FOREACH (peer->attached, attach)
        if (queue_attach_is_shared(attach))
            return true;
    return false;
}
