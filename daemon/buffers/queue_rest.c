#include "daemon/buffers/queue_rest.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <utlist.h>

#include "daemon/base/kill_here.h"
#include "daemon/base/schedule.h"
#include "daemon/buffers/chain.h"
#include "daemon/buffers/pool.h"
#include "daemon/buffers/queue.h"
#include "daemon/buffers/segment.h"
#include "daemon/core/server.h"
#include "daemon/kept/fds.h"
#include "proto/util/futex.h"

#define MOVED_AT_ONCE 16 /* a few microseconds, of which pages take most */
#define FREED_AT_ONCE 4  /* each is up to MBUF_CHAIN_MAX buffers */
/*
 * Sleepers at one end of a ring. The kernel wakes the threads first that have slept longest, so
 * after SLEEPERS_MAX all that slept when the ring ended are awake, whatever hostile threads do.
 */
#define WOKEN_AT_ONCE 32
#define SLEEPERS_MAX  (1u << 20)

struct queue_rest {
    struct server *server;
    struct user *user;
    struct queue *queue; /* whose messages are moved; NULL: they are freed, or all moved */
    struct charge charge;
    struct job job;
    struct kept kept;
    struct queue_rest_record *live; /* its position, and what was noted */
    uint32_t number;                /* of the ring that has ended */
    uint32_t n, at;                 /* messages that were noted; the next one */
    uint64_t to;                    /* its position in the new ring */
    bool again;                     /* the npud before may have begun with the next one */
    bool noted;                     /* else the ring is still to be ended */
    struct queue_ring ring;         /* until all of its sleepers are awake */
    uint32_t woken;                 /* of these */
    struct queue_rest *prev, *next; /* queues->rests */
};

/*
 * The buffer of a message in a ring that has ended becomes npud's, or what state and number make of
 * it. False: it is none, or its sender has it back.
 */
static bool take_out(struct server *server, uint32_t ring, uint32_t ref, enum mbuf_state state,
                     uint32_t number)
{
    struct mbuf *m = mbuf_at(segments_table(server), ref);
    uint64_t w;

    if (!m)
        return false;
    w = atomic_load(&m->word);
    return mbuf_state(w) == MBUF_SENDING && mbuf_queue(w) == ring &&
           atomic_compare_exchange_strong(
               &m->word, &w, mbuf_word(mbuf_generation(w) + 1, state, PEER_NPUD, number));
}

static void free_message(struct server *server, uint32_t ring, uint32_t ref)
{
    if (take_out(server, ring, ref, MBUF_HELD, 0))
        chain_free(server, ref);
}

/*
 * A message on its way. npud may end between any two of its stores; the next one knows by the
 * position in the record and by the word of the buffer how far this one was:
 *
 *     position   word of the buffer        slot of the new ring    the next npud
 *     before it  SENDING, old ring         empty                   takes it out, and goes on below
 *     before it  SENDING, new ring, npud   empty, or the message   puts it (was_taken_out())
 *     before it  HELD, npud: to be freed   -                       finds it so (sweep_npud())
 *     before it  anything else             empty                   passes over it: not taken out
 *     behind it  any                       the message             goes on with the next message
 */
static bool was_taken_out(struct queue_rest *rest, uint32_t ref, uint32_t number)
{
    struct mbuf *m = rest->again ? mbuf_at(segments_table(rest->server), ref) : NULL;
    uint64_t w = m ? atomic_load(&m->word) : 0;

    return mbuf_state(w) == MBUF_SENDING && mbuf_queue(w) == number && mbuf_session(w) == PEER_NPUD;
}

/* More messages than the depth were put by a hostile peer. */
static void move_message(struct queue_rest *rest, uint32_t ref)
{
    struct queue_view *new = &rest->queue->ring.view;

    if (rest->to == new->depth) {
        free_message(rest->server, rest->number, ref);
    } else if (take_out(rest->server, rest->number, ref, MBUF_SENDING, new->number) ||
               was_taken_out(rest, ref, new->number)) {
        KILL_HERE(REST_TAKEN_OUT);
        atomic_store(&new->put->slot[rest->to & new->mask].word, queue_slot_word(rest->to, ref));
        rest->to++;
    }
}

static void do_message(struct queue_rest *rest)
{
    uint32_t ref = rest->live->ref[rest->at++];

    if (rest->queue)
        move_message(rest, ref);
    else
        free_message(rest->server, rest->number, ref);
    rest->again = false;
    KILL_HERE(REST_DONE);
    kept_order();
    atomic_store_explicit(&rest->live->position, (uint64_t)rest->at << 32 | rest->to,
                          memory_order_relaxed);
    kept_order();
    KILL_HERE(REST_NOTED);
}

/* All messages are in the new ring. Certain in one with that: others put there from now on. */
static void end_move(struct queue_rest *rest)
{
    struct queue *queue = rest->queue;
    struct queues *queues = queue->server->queues;

    atomic_store(&queue->ring.view.put->tail, rest->to);
    queue->rest = NULL;
    rest->queue = NULL;
    kept_touch(&rest->kept);
    if (queues->on_moved)
        queues->on_moved(queue);
}

/* False: there are more. */
static bool do_some(struct queue_rest *rest)
{
    unsigned n =
        rest->queue && rest->to < rest->queue->ring.view.depth ? MOVED_AT_ONCE : FREED_AT_ONCE;

    for (; n > 0 && rest->at < rest->n; n--)
        do_message(rest);
    if (rest->queue)
        queue_carried(rest->queue);
    if (rest->queue && rest->at == rest->n)
        end_move(rest);
    return rest->at == rest->n;
}

/*
 * False: there may be more sleepers. Otherwise the ring goes. A ring without descriptors cannot be
 * kept: all are woken at once.
 */
static bool wake_some(struct queue_rest *rest)
{
    unsigned n = rest->ring.put_fd < 0 ? SLEEPERS_MAX : WOKEN_AT_ONCE;
    bool awake;

    if (!rest->ring.view.put)
        return true;
    awake = queue_ring_wake_some(&rest->ring.view, n);
    KILL_HERE(SLEEPERS_WOKEN);
    rest->woken += n;
    if (!awake && rest->woken < SLEEPERS_MAX)
        return false;
    queue_ring_free(&rest->ring, rest->user);
    kept_touch(&rest->kept);
    return true;
}

static void rest_free(struct queue_rest *rest)
{
    struct server *server = rest->server;

    job_cancel(&rest->job);
    DL_DELETE(server->queues->rests, rest);
    server->queues->by_number[rest->number] = NULL;
    KILL_HERE(REST_OVER);
    kept_drop(&rest->kept);
    user_uncharge(&rest->charge);
    user_unref(rest->user);
    free(rest);
    /* Buffers that falsely claimed to be in the ring are free from now on. */
    pools_look_at_orphans(server->pools);
}

static bool run_rest(struct job *job)
{
    struct queue_rest *rest = (struct queue_rest *)((char *)job - offsetof(struct queue_rest, job));

    while (!do_some(rest) || !wake_some(rest))
        if (schedule_step_over(&rest->server->schedule))
            return true;
    rest_free(rest);
    return false;
}

static size_t bytes_of(uint32_t depth)
{
    return sizeof(struct queue_rest_record) + queue_slots(depth) * sizeof(uint32_t);
}

static size_t write_record(const struct kept *kept, void *record)
{
    const struct queue_rest *rest =
        (const struct queue_rest *)((const char *)kept - offsetof(struct queue_rest, kept));
    struct queue_rest_record *r = record;

    *r = (struct queue_rest_record){.serial = rest->queue ? rest->queue->serial : 0,
                                    .uid = rest->user->uid,
                                    .n = rest->n,
                                    .bytes = rest->charge.amount,
                                    .noted = rest->noted};
    if (rest->ring.view.put)
        r->ring = queue_ring_record(&rest->ring);
    r->ring.number = rest->number;
    return offsetof(struct queue_rest_record, position);
}

/* Takes over the reference to the user. NULL: no memory. */
static struct queue_rest *rest_make(struct server *server, struct user *user, uint32_t number)
{
    struct queue_rest *rest = calloc(1, sizeof(*rest));

    if (!rest)
        return NULL;
    *rest = (struct queue_rest){
        .server = server, .user = user, .number = number, .ring = QUEUE_RING_NONE};
    rest->job = (struct job){run_rest, "end of a ring", &user->payer->schedule.leftovers};
    DL_APPEND(server->queues->rests, rest);
    return rest;
}

/* Of the ring that the queue has. */
static struct queue_rest *rest_new(struct queue *queue)
{
    struct queue_rest *rest = rest_make(queue->server, queue->user, queue->ring.view.number);

    if (!rest)
        return NULL;
    if (!kept_make(&rest->kept, KEPT_QUEUE_REST, bytes_of(queue->ring.view.depth), write_record)) {
        DL_DELETE(queue->server->queues->rests, rest);
        free(rest);
        return NULL;
    }
    rest->live = kept_record(&rest->kept);
    user_hold(rest->user);
    rest->ring = queue->ring;
    return rest;
}

/*
 * All of them in one go: a session that has lost its right to put still writes to the ring, and
 * what it puts there from now on is no message. Returns the position of the first one.
 */
static uint64_t end_ring(struct queue_rest *rest, enum queue_state why)
{
    const struct queue_view *v = &rest->ring.view;
    uint64_t first = queue_end(v, why, segments_table(rest->server)), position = first;
    uint32_t ref;

    KILL_HERE(RING_ENDED);
    for (uint32_t i = 0; i <= v->mask && (ref = queue_next(v, &position)) != 0; i++)
        rest->live->ref[rest->n++] = ref;
    rest->server->queues->by_number[rest->number] = QUEUE_NUMBER_KEPT;
    queue_ring_change_words(v);
    rest->noted = true;
    kept_touch(&rest->kept);
    wake_some(rest);
    KILL_HERE(RING_NOTED);
    return first;
}

/* The first step now: most rings are empty, or nearly so. */
static void begin_steps(struct queue_rest *rest)
{
    if (run_rest(&rest->job))
        job_list(&rest->job);
}

/* --- a queue ends --- */

/* Without memory it is done at once. */
static void free_at_once(struct queue *queue)
{
    const struct queue_view *v = &queue->ring.view;
    uint64_t position = queue_end(v, QUEUE_DEAD, segments_table(queue->server));
    uint32_t ref;

    queue_ring_change_words(v);
    queue_ring_wake_some(v, SLEEPERS_MAX);
    for (uint32_t i = 0; i <= v->mask && (ref = queue_next(v, &position)) != 0; i++)
        free_message(queue->server, v->number, ref);
    pools_look_at_orphans(queue->server->pools);
}

/* What is still to be moved is freed, too. */
static void stop_move(struct queue *queue)
{
    if (!queue->rest)
        return;
    queue->rest->queue = NULL;
    kept_touch(&queue->rest->kept);
    queue->rest = NULL;
}

void queue_rest_end_ring(struct queue *queue)
{
    stop_move(queue);
    queue_end(&queue->ring.view, QUEUE_DEAD, segments_table(queue->server));
}

void queue_rest_begin(struct queue *queue)
{
    struct queue_rest *rest;

    stop_move(queue);
    rest = rest_new(queue);
    if (!rest) {
        free_at_once(queue);
        return;
    }
    queue->ring = QUEUE_RING_NONE;
    end_ring(rest, QUEUE_DEAD);
    rest->charge = queue->charge_memory;
    queue->charge_memory = (struct charge){0};
    begin_steps(rest);
}

/* --- a queue moves --- */

/*
 * In this order: that the queue has another ring is certain before the old one ends, and what was
 * in that one before it is moved.
 */
static void begin_move(struct queue_rest *rest)
{
    struct queue *queue = rest->queue;

    kept_commit();
    KILL_HERE(RING_MOVES);
    queue->before += end_ring(rest, QUEUE_MOVED);
    kept_touch(&queue->kept);
    kept_commit();
    KILL_HERE(RING_MOVED);
}

int queue_move(struct queue *queue)
{
    struct queue_ring ring;
    struct queue_rest *rest;
    int r;

    if (queue->rest)
        return 0;
    r = queue_make_ring(queue, queue->ring.view.depth, &ring);
    if (r < 0)
        return r;
    rest = rest_new(queue);
    if (!rest) {
        queue_ring_free(&ring, queue->user);
        return -ENOMEM;
    }
    rest->queue = queue;
    queue->rest = rest;
    queue->ring = ring;
    queue->swept_at = 0;
    queue->server->queues->by_number[ring.view.number] = queue;
    queue->server->queues->by_number[rest->number] = QUEUE_NUMBER_KEPT;
    queue_ring_keep(&ring);
    queue_party_came(queue, 0); /* the new ring knows of none */
    begin_move(rest);
    begin_steps(rest);
    return 0;
}

/*
 * To try again later would be worse for the others than the end of the queue: until then either the
 * process reads and overwrites their messages, or none of them may put or take, and they cannot
 * tell that from a peer that is slow.
 */
int queue_move_or_destroy(struct queue *queue)
{
    int r = queue_move(queue);

    if (r == 0)
        return 0;
    queue_ring_close(&queue->ring);
    r = queue_move(queue);
    if (r < 0)
        queue_finish(queue);
    return r;
}

/*
 * What npud has closed only the keeper has, and the records of such a queue name it until it has
 * ended. All at once: it is rare, and nothing may come between.
 */
void queues_end_closed(struct queues *queues)
{
    struct queue *queue, *next;

    DL_FOREACH_SAFE (queues->all, queue, next)
        if (queue->ring.view.put && queue->ring.put_fd < 0)
            queue_destroy(queue);
    kept_commit();
}

bool queue_moves_from(const struct queues *queues, uint32_t number)
{
    const struct queue_rest *rest;

    if (number >= QUEUE_NUMBERS || queues->by_number[number] != QUEUE_NUMBER_KEPT)
        return false;
    DL_FOREACH (queues->rests, rest)
        if (rest->number == number)
            return rest->queue != NULL;
    return false;
}

/* --- npud ends --- */

void queue_rests_finish(struct queues *queues)
{
    while (queues->rests) {
        struct queue_rest *rest = queues->rests;

        /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): those before it were taken out of the list */
        while (!do_some(rest) || !wake_some(rest))
            ;
        rest_free(rest);
    }
}

/* --- over the end of npud --- */

bool queue_rest_restore(struct server *server, struct kept_cell *cell)
{
    struct queue_rest_record r;
    struct queue_rest *rest;
    struct user *user;
    uint64_t position;

    kept_read(cell, &r, sizeof(r));
    user = user_ref(&server->users, r.uid);
    rest = user && r.ring.number < QUEUE_NUMBERS ? rest_make(server, user, r.ring.number) : NULL;
    if (!rest || !kept_bind(&rest->kept, cell, sizeof(r), write_record))
        return false;
    rest->live = kept_record(&rest->kept);
    rest->noted = r.noted;
    rest->n = r.n;
    rest->again = true;
    position = atomic_load_explicit(&rest->live->position, memory_order_relaxed);
    rest->at = (uint32_t)(position >> 32);
    rest->to = (uint32_t)position;
    if (r.bytes > 0)
        user_charge_again(&rest->charge, user, RESOURCE_TABLE_MEMORY, r.bytes, false);
    server->queues->by_number[rest->number] = QUEUE_NUMBER_KEPT;
    rest->queue = queue_restored(r.serial);
    if (rest->queue)
        rest->queue->rest = rest;
    if (rest->noted && r.ring.put_key == 0)
        return rest->at <= rest->n;
    return rest->at <= rest->n && queue_ring_restore(&rest->ring, &r.ring);
}

/* 0.9.0 kept the sleepers of a ring apart. key 0: it has woken them. */
static bool wake_kept(uint64_t key, size_t offset)
{
    int fd = kept_fd_take(key);
    size_t size = queue_take_size();
    char *map = fd < 0 ? MAP_FAILED : mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

    if (map != MAP_FAILED) {
        futex_wake_all((_Atomic uint32_t *)(map + offset));
        munmap(map, size);
    }
    kept_close(fd);
    return key == 0 || map != MAP_FAILED;
}

bool queue_sleepers_restore(struct server *server, struct kept_cell *cell)
{
    struct queue_sleepers_record r;

    (void)server;
    kept_read(cell, &r, sizeof(r));
    kept_discard(cell);
    return wake_kept(r.put_key, offsetof(struct queue_put, wake)) &&
           wake_kept(r.take_key, offsetof(struct queue_take, wake));
}

void queue_rests_finish_restoring(struct queues *queues)
{
    struct queue_rest *rest;

    DL_FOREACH (queues->rests, rest) {
        if (!rest->noted)
            begin_move(rest);
        /* Now: the buffer of no other message is npud's without being in a ring. */
        if (rest->at < rest->n)
            do_message(rest);
        KILL_HERE(REST_FINISHED);
        job_list(&rest->job);
    }
}
