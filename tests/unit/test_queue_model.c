/*
 * The protocol of proto/shm/queue_shm.h, one interleaving after the other: senders, takers and
 * npud. npud moves and destroys rings, relays messages, and sweeps after a sender or a taker was
 * killed between any two steps. Rings have two or three places, so a handful of messages goes round
 * them.
 *
 *   - no message is lost, or received twice
 *   - the messages of one sender are received in the order in which they were sent
 *   - no actor sleeps beside a ring that has what it waits for
 *   - each buffer is free in the end, or held by a session that lives
 *
 * test_queue_shm.c runs the same code in threads and processes, on several CPUs.
 *
 * Skipped under TSan: one thread, on many stacks.
 * Runs long: 7 s.
 */
#include <stdlib.h>

#include "tests/common/effort.h"
#include "interleave.h"

/* From here on each atomic operation is a step. */
#include "proto/shm/mbuf_ref.h"
#include "proto/shm/queue_shm.h"

#define MESSAGES 16 /* buffers; those from N on are free */
#define DEPTH    2  /* of a ring, unless its scenario says otherwise */

struct scenario {
    const char *name;
    unsigned n;
    struct {
        void (*run)(void);
        unsigned count; /* messages */
    } actor[ACTORS_MAX];
    uint64_t start; /* first position of the ring */
    bool starves;   /* without a death, too, some may find nothing left to take, or no room */
    bool kills;     /* the victim is any of the first n - 1 actors; the last one, npud, sweeps */
    uint32_t depth; /* 0: DEPTH */
    /*
     * npud takes from ring 0 and puts into ring 1; takers take from ring 1, or from ring 0 when the
     * route was unbound.
     */
    bool routed;
};

/* --- the world --- */

/* What the protocol knows of an actor. */
struct peer {
    uint32_t peer_id;
    unsigned count;                /* messages to be put or taken */
    unsigned base;                 /* first of its messages */
    _Atomic uint64_t head_seen[2]; /* its own, of each ring */
    const uint32_t *asleep;        /* on this word, while it is ... */
    uint32_t seen;
};

#define LEFT                                                                                       \
    3 /* in place of a ring: what npud had not taken for the route, and so after what it had */

struct received {
    unsigned message;
    unsigned ring;
    uint64_t position;
};

static struct world {
    struct peer peer[ACTORS_MAX];
    uint32_t ring; /* npud's newest one */
    bool destroyed;
    uint32_t death;           /* 1: the victim is dead */
    bool filled;              /* and never empty from here on */
    bool swept;               /* npud knows that */
    uint32_t unbound;         /* 1: the router has nothing to do with ring 0 any more */
    int pending;              /* of the router: taken, and there is no room for it; -1: none */
    unsigned owner[MESSAGES]; /* 1 + the actor that has received it */
    uint64_t known[MESSAGES]; /* word of the buffer, as it was received last */
    unsigned sent[MESSAGES];  /* into a ring */
    unsigned got[MESSAGES];   /* out of a ring, by a live actor, or found with it */
    struct received log[64];
    unsigned n_log;
} w;

static const struct scenario *scenario;

static struct segment_table table;
static struct segment_view segment;
static struct segment_page page;
static struct segment_news news;
static struct mbuf mbufs[MESSAGES];
static struct queue_view ring[2];
static alignas(4096) unsigned char files[2][2][4096];
static struct queue_news ring_news[2];

static const char *interleave_describe(void)
{
    return scenario->name;
}

static uint32_t ref_of(unsigned message)
{
    return segment.id << 16 | message;
}

static uint32_t get_depth(void)
{
    return scenario->depth ? scenario->depth : DEPTH;
}

static void make_ring(unsigned i, uint64_t start)
{
    struct queue_view *q = &ring[i];

    memset(files[i], 0, sizeof(files[i]));
    memset(&ring_news[i], 0, sizeof(ring_news[i]));
    *q = (struct queue_view){.put = (struct queue_put *)files[i][0],
                             .take = (struct queue_take *)files[i][1],
                             .news = &ring_news[i],
                             .depth = get_depth(),
                             .mask = queue_slots(get_depth()) - 1,
                             .number = 7 + i};
    q->put->tail = start;
    q->take->head = start << 16;
    q->take->committed = start;
    for (uint64_t p = start; start > 0 && p <= start + q->mask; p++)
        q->put->slot[p & q->mask].word = queue_slot_word(p - q->mask - 1, 0xdead);
}

/* --- actors --- */

static struct peer *get_self(void)
{
    return &w.peer[cast.current];
}

static bool is_npud(unsigned i);

static void interleave_died(unsigned actor)
{
    (void)actor;
    w.death = 1;
}

void interleave_swapped(const void *word, uint64_t value)
{
    (void)word;
    (void)value;
}

/* npud hears of a death, whatever it waits for. */
static bool is_awake(void *arg)
{
    const struct peer *p = arg;

    return *p->asleep != p->seen || (is_npud((unsigned)(p - w.peer)) && w.death && !w.swept);
}

static void sleep_on(const _Atomic uint32_t *word, uint32_t seen)
{
    struct peer *p = get_self();

    p->asleep = (const uint32_t *)word;
    p->seen = seen;
    actor_await(is_awake, p);
    p->asleep = NULL;
}

/* The ring as this actor has it mapped. */
static struct queue_view view_ring(unsigned r)
{
    struct queue_view v = ring[r];

    v.seen = &get_self()->head_seen[r];
    return v;
}

static void wake_waiters(_Atomic uint64_t *waiting, _Atomic uint32_t *word)
{
    if (queue_waiting(waiting) != 0)
        atomic_fetch_add(word, 1);
}

/* As a peer that has attached again: npud answers when it is through. */
static unsigned next_ring(unsigned r)
{
    sleep_on((_Atomic uint32_t *)&w.ring, r);
    return w.ring;
}

static bool put_message(unsigned message)
{
    struct mbuf *m = &mbufs[message];
    uint32_t me = get_self()->peer_id, generation, seen;
    uint64_t held = m->word;
    unsigned r = w.ring;

    for (;;) {
        struct queue_view of_ring = view_ring(r), *q = &of_ring;
        enum queue_result result = queue_enqueue(q, m, ref_of(message), held, me);

        if (result == QUEUE_FULL) {
            generation = queue_arm(&q->put->waiting, &q->take->wake, &seen);
            result = queue_enqueue(q, m, ref_of(message), held, me);
            if (result == QUEUE_FULL)
                sleep_on(&q->take->wake, seen);
            queue_disarm(&q->put->waiting, generation);
        }
        SURE(result != QUEUE_DAMAGED && result != QUEUE_STALE);
        if (result == QUEUE_OK) {
            w.sent[message]++;
            wake_waiters(&q->take->waiting, &q->put->wake);
            return true;
        }
        if (result == QUEUE_ENDED && w.destroyed) {
            SURE(m->word == held);
            return false;
        }
        if (result == QUEUE_ENDED)
            r = next_ring(r);
    }
}

static void receive_message(unsigned message, unsigned r, uint64_t position)
{
    w.got[message]++;
    w.known[message] = mbufs[message].word;
    w.owner[message] = cast.current + 1;
    w.log[w.n_log++] = (struct received){message, r, position};
}

/*
 * The message of ring r, or a later one; or -1: the ring has ended, or it is empty and we shall not
 * wait.
 */
static int take_from(unsigned r, bool wait)
{
    uint32_t me = get_self()->peer_id, generation, seen, ref = 0;

    for (;;) {
        struct queue_view of_ring = view_ring(r), *q = &of_ring;
        struct queue_front f;
        enum queue_result result = queue_front(q, &f);
        uint64_t held;

        if (result == QUEUE_EMPTY && wait) {
            generation = queue_arm(&q->take->waiting, &q->put->wake, &seen);
            result = queue_front(q, &f);
            if (result == QUEUE_EMPTY)
                sleep_on(&q->put->wake, seen);
            queue_disarm(&q->take->waiting, generation);
        }
        if (result == QUEUE_OK) {
            if (queue_find_uncommitted(q, f.head, &ref))
                queue_commit(q, f.head, &table);
            result = queue_dequeue(q, &f, mbuf_at(&table, f.ref), me, &table, &held);
            if (result == QUEUE_OK) {
                unsigned message = f.ref & 0xffff;

                SURE(mbufs[message].word == held);
                receive_message(message, scenario->routed && r == 0 ? LEFT : r,
                                queue_head_position(f.head));
                wake_waiters(&q->put->waiting, &q->take->wake);
                return (int)message;
            }
            if (result == QUEUE_NOTHING)
                SURE(q->news->state != QUEUE_LIVE);
            continue;
        }
        if (result == QUEUE_ENDED && w.destroyed)
            return -1;
        if (result == QUEUE_ENDED)
            r = next_ring(r);
        else if (!wait)
            return -1;
    }
}

static int take_message(bool wait)
{
    return take_from(scenario->routed ? 1 : w.ring, wait);
}

static void run_sender(void)
{
    struct peer *a = get_self();

    for (unsigned i = 0; i < a->count; i++)
        if (!put_message(a->base + i))
            return;
}

static void run_taker(void)
{
    struct peer *a = get_self();
    int message;

    for (unsigned i = 0; i < a->count; i++) {
        message = take_message(true);
        if (message < 0)
            return;
        mbuf_drop(&segment, &mbufs[message], &(bool){false});
    }
}

/*
 * A lap moves on under an actor that looks at the ring: so many are taken, and then so many others
 * put.
 */
static void run_trader(void)
{
    run_taker();
    run_sender();
}

/* From the first message on, the ring is never empty: what is taken is not the only one. */
static void run_churner(void)
{
    struct peer *a = get_self();

    put_message(a->base);
    w.filled = true;
    for (unsigned i = 1; i < a->count; i++) {
        put_message(a->base + i);
        mbuf_drop(&segment, &mbufs[take_message(true)], &(bool){false});
    }
}

/* Would be told that the queue is empty. */
static void run_prober(void)
{
    struct peer *a = get_self();
    struct queue_front front;

    for (unsigned i = 0; i < a->count; i++) {
        interleave_step();
        if (w.filled)
            SURE(queue_front(&ring[0], &front) == QUEUE_OK);
    }
}

/* Puts back what it takes, once: the same buffer is on its way a second time. */
static void run_returner(void)
{
    struct peer *a = get_self();

    for (unsigned i = 0; i < a->count; i++) {
        int message = take_message(true);

        if (message < 0)
            return;
        put_message((unsigned)message);
    }
}

static void wake_all(unsigned r)
{
    queue_disarm_all(&ring[r].take->waiting);
    atomic_fetch_add(&ring[r].put->wake, 1);
    queue_disarm_all(&ring[r].put->waiting);
    atomic_fetch_add(&ring[r].take->wake, 1);
}

/* As the queue_move() of npud. */
static void run_mover(void)
{
    uint64_t position = queue_end(&ring[0], QUEUE_MOVED, &table), to = 0;
    uint32_t ref;

    while ((ref = queue_next(&ring[0], &position)) != 0) {
        struct mbuf *m = mbuf_at(&table, ref);
        uint64_t word = atomic_load(&m->word);

        if (mbuf_state(word) != MBUF_SENDING || mbuf_queue(word) != ring[0].number ||
            !atomic_compare_exchange_strong(
                &m->word, &word,
                mbuf_word(mbuf_generation(word) + 1, MBUF_SENDING, 0, ring[1].number)))
            continue;
        SURE(to < get_depth());
        ring[1].put->slot[to & ring[1].mask].word = queue_slot_word(to, ref);
        to++;
    }
    ring[1].put->tail = to;
    w.ring = 1;
    wake_all(0);
}

/* Of the newest ring. */
static void run_destroyer(void)
{
    unsigned r = w.ring;
    uint64_t position;
    uint32_t ref;

    w.destroyed = true;
    position = queue_end(&ring[r], QUEUE_DEAD, &table);
    while ((ref = queue_next(&ring[r], &position)) != 0) {
        struct mbuf *m = mbuf_at(&table, ref);
        uint64_t word = atomic_load(&m->word);

        if (mbuf_state(word) == MBUF_SENDING && mbuf_queue(word) == ring[r].number &&
            atomic_compare_exchange_strong(&m->word, &word,
                                           mbuf_word_held(mbuf_generation(word) + 1, PEER_NPUD))) {
            receive_message(ref & 0xffff, r, position - 1);
            mbuf_drop(&segment, m, &(bool){false});
        }
    }
    wake_all(r);
}

/* The ring with this number, as npud knows it, or NULL: it has ended. */
static const struct queue_view *ring_by_number(uint32_t number)
{
    for (unsigned r = 0; r < 2; r++)
        if (ring[r].number == number && (scenario->routed || r == w.ring))
            return w.destroyed ? NULL : &ring[r];
    return NULL;
}

/* As queue_sweep_has() of npud: one look at each ring, for all buffers. */
static bool found[2][MESSAGES];

static void look_into(unsigned r)
{
    const struct queue_view *q = &ring[r];
    uint64_t since = atomic_load(&q->take->committed);

    for (unsigned i = 0; i < MESSAGES; i++)
        found[r][i] = false;
    for (uint32_t i = 0; i <= q->mask; i++) {
        uint32_t ref = queue_slot_since(q, i, since);

        if (ref != 0 && (ref & 0xffff) < MESSAGES)
            found[r][ref & 0xffff] = true;
    }
}

/* Has messages of its own. */
static bool is_sender(unsigned i)
{
    void (*run)(void) = scenario->actor[i].run;

    return run == run_sender || run == run_trader || run == run_churner;
}

static unsigned sender_of(unsigned message)
{
    unsigned i = 0;

    while (!is_sender(i) || message >= w.peer[i].base + w.peer[i].count)
        i++;
    return i;
}

/* A buffer, when its session is dead. */
static void sweep_buffer(unsigned i, const struct peer *v)
{
    uint64_t word = atomic_load(&mbufs[i].word), held;
    bool not_put = false;

    if (mbuf_state(word) == MBUF_SENDING && mbuf_session(word) == v->peer_id) {
        const struct queue_view *q = ring_by_number(mbuf_queue(word));

        held = mbuf_word_held(mbuf_generation(word) + 1, v->peer_id);
        not_put = (!q || !found[q - ring][i]) &&
                  atomic_compare_exchange_strong(&mbufs[i].word, &word, held);
        if (not_put)
            word = held;
    }
    if (mbuf_state(word) != MBUF_HELD || mbuf_session(word) != v->peer_id)
        return;
    /* Taken, and not yet its taker's word: as if the taker had had it. */
    if (!not_put && sender_of(i) != (unsigned)plan.victim && w.known[i] != word)
        w.got[i]++;
    mbuf_drop(&segment, &mbufs[i], &(bool){false});
}

/* npud, when it hears of the victim's end. */
static void sweep_victim(void)
{
    for (unsigned r = 0; r < 2; r++)
        if (ring_by_number(ring[r].number)) {
            queue_commit(&ring[r], atomic_load(&ring[r].take->head), &table);
            wake_all(r);
        }
    for (unsigned r = 0; r < 2; r++)
        look_into(r);
    for (unsigned i = 0; i < MESSAGES; i++)
        sweep_buffer(i, &w.peer[plan.victim]);
    w.swept = true;
}

static void run_sweeper(void)
{
    sleep_on((_Atomic uint32_t *)&w.death, 0);
    sweep_victim();
}

/* A session loses a right, and npud hears of a death only after that. */
static void run_mover_and_sweeper(void)
{
    run_mover();
    run_sweeper();
}

static void run_destroyer_and_sweeper(void)
{
    run_destroyer();
    run_sweeper();
}

static void run_sweeper_and_destroyer(void)
{
    run_sweeper();
    run_destroyer();
}

/* npud takes from ring 0 and puts into ring 1, and is interrupted by a death. */
static void sleep_of_router(_Atomic uint64_t *waiting, _Atomic uint32_t *word, bool full,
                            int message)
{
    uint32_t seen, generation = queue_arm(waiting, word, &seen);
    struct queue_front front;
    uint64_t position, old;

    if (full ? queue_place(&ring[1], &position, &old) == QUEUE_FULL
             : queue_front(&ring[0], &front) == QUEUE_EMPTY) {
        w.pending = message;
        sleep_on(word, seen);
    }
    queue_disarm(waiting, generation);
    if (w.death && !w.swept)
        sweep_victim();
}

static void relay_message(int message)
{
    struct mbuf *m = &mbufs[message];
    uint64_t held = m->word;

    while (queue_enqueue(&ring[1], m, ref_of((unsigned)message), held, PEER_NPUD) != QUEUE_OK)
        sleep_of_router(&ring[1].put->waiting, &ring[1].take->wake, true, message);
    w.pending = -1;
    wake_waiters(&ring[1].take->waiting, &ring[1].put->wake);
}

/* Until so many were taken, if they are counted. */
static void route_messages(bool counted)
{
    for (unsigned n = 0; !counted || n < get_self()->count;) {
        struct queue_front f;
        uint64_t held;

        if (queue_front(&ring[0], &f) != QUEUE_OK) {
            sleep_of_router(&ring[0].take->waiting, &ring[0].put->wake, false, -1);
            continue;
        }
        queue_commit(&ring[0], f.head, &table);
        SURE(queue_dequeue(&ring[0], &f, mbuf_at(&table, f.ref), PEER_NPUD, &table, &held) ==
             QUEUE_OK);
        n++;
        wake_waiters(&ring[0].put->waiting, &ring[0].take->wake);
        relay_message((int)(f.ref & 0xffff));
    }
}

static void run_router(void)
{
    route_messages(!scenario->kills);
}

/* npud hears that the route is unbound between two messages. */
static void run_unbinding_router(void)
{
    route_messages(true);
    atomic_store((_Atomic uint32_t *)&w.unbound, 1);
}

/* Takes from the source what the router has left there. */
static void run_source_taker(void)
{
    sleep_on((_Atomic uint32_t *)&w.unbound, 0);
    for (unsigned i = 0; i < get_self()->count; i++)
        mbuf_drop(&segment, &mbufs[take_from(0, true)], &(bool){false});
}

static bool is_npud(unsigned i)
{
    void (*run)(void) = scenario->actor[i].run;

    return run != run_sender && run != run_taker && run != run_trader && run != run_returner &&
           run != run_churner && run != run_prober && run != run_source_taker;
}

/* --- runs --- */

static void prepare_actor(unsigned i, unsigned *message)
{
    struct peer *a = &w.peer[i];

    actor_add(scenario->actor[i].run)->mortal = scenario->kills && i < scenario->n - 1;
    a->peer_id = is_npud(i) ? PEER_NPUD : 100 + i;
    a->head_seen[0] = scenario->start;
    a->count = scenario->actor[i].count;
    a->base = *message;
    for (unsigned k = 0; is_sender(i) && k < a->count; k++) {
        mbuf_prepare(&segment, *message, 1);
        mbuf_hold(&mbufs[(*message)++], a->peer_id);
    }
}

static void interleave_prepare(void)
{
    unsigned message = 0;

    memset(&w, 0, sizeof(w));
    w.pending = -1;
    memset(&page, 0, sizeof(page));
    memset(mbufs, 0, sizeof(mbufs));
    segment = (struct segment_view){.page = &page,
                                    .news = &news,
                                    .mbufs = mbufs,
                                    .stride = 64,
                                    .number = 1,
                                    .n_data = MESSAGES,
                                    .id = 1};
    table.view[1] = &segment;
    make_ring(0, scenario->start);
    make_ring(1, 0);
    for (unsigned i = 0; i < scenario->n; i++)
        prepare_actor(i, &message);
}

/* Of one sender, in the order in which it has sent; over all takers. Not for what was put back. */
static void check_order(void)
{
    for (unsigned i = 0; i < w.n_log; i++)
        for (unsigned k = 0; k < w.n_log; k++) {
            const struct received *a = &w.log[i], *b = &w.log[k];

            if (a->message < b->message && sender_of(a->message) == sender_of(b->message) &&
                w.sent[a->message] == 1 && w.sent[b->message] == 1 && w.got[a->message] == 1 &&
                w.got[b->message] == 1)
                SURE(a->ring < b->ring || (a->ring == b->ring && a->position < b->position));
        }
}

/* What is left in ring r is received, as out of ring `as`. */
static void drain_ring(unsigned r, unsigned as)
{
    for (int m; (m = take_from(r, false)) >= 0;) {
        w.log[w.n_log - 1].ring = as;
        mbuf_drop(&segment, &mbufs[m], &(bool){false});
    }
}

/* Beside a full ring, or an empty one. */
static bool sleeps_rightly(const struct peer *a)
{
    for (unsigned r = 0; r < 2; r++) {
        if (a->asleep == (const uint32_t *)&ring[r].take->wake)
            return queue_fill(&ring[r]) == get_depth();
        if (a->asleep == (const uint32_t *)&ring[r].put->wake)
            return queue_fill(&ring[r]) == 0;
    }
    return false;
}

/* A sender that has not got rid of its message, or that could not put back what it took. */
static bool may_hold(unsigned message, uint32_t peer_id)
{
    for (unsigned i = 0; i < cast.n; i++)
        if (w.peer[i].peer_id == peer_id && !cast.actor[i].dead)
            return (scenario->actor[i].run == run_returner || sender_of(message) == i) &&
                   (w.destroyed || !cast.actor[i].done);
    return false;
}

static void interleave_judge(void)
{
    const struct actor *victim = plan.victim >= 0 ? &cast.actor[plan.victim] : NULL;

    for (unsigned i = 0; i < cast.n; i++) {
        const struct actor *a = &cast.actor[i];
        bool may_sleep = (victim && victim->dead) || w.destroyed;

        if (a->done || a->dead || is_npud(i))
            continue;
        /* Without the dead one there is no more to take, or no other taker. */
        SURE(may_sleep || scenario->starves);
        SURE(w.destroyed || sleeps_rightly(&w.peer[i]));
    }
    SURE(!victim || !victim->dead || w.swept);
    SURE(!scenario->routed ||
         queue_fill(&ring[w.pending < 0 ? 0 : 1]) == (w.pending < 0 ? 0 : get_depth()));
    /*
     * What is left in the newest ring; of a route in the order of what its takers would have got.
     */
    cast.current = cast.n - 1;
    if (scenario->routed)
        drain_ring(1, 1);
    if (w.pending >= 0) {
        receive_message((unsigned)w.pending, 2, 0);
        mbuf_drop(&segment, &mbufs[w.pending], &(bool){false});
    }
    if (!w.destroyed)
        drain_ring(w.ring, scenario->routed ? LEFT : w.ring);
    for (unsigned i = 0; i < MESSAGES; i++) {
        uint64_t word = mbufs[i].word;
        bool kept = mbuf_state(word) == MBUF_HELD;

        SURE(mbuf_state(word) == MBUF_FREE || kept);
        if (kept)
            SURE(may_hold(i, mbuf_session(word)));
        /* The dead one may have sent one message more, or taken one, than it could tell. */
        if (victim && victim->dead)
            SURE(w.got[i] >= w.sent[i] && w.got[i] <= w.sent[i] + 1);
        else
            SURE(w.got[i] == w.sent[i]);
    }
    check_order();
}

static uint64_t budget_ns(void)
{
    const char *text = getenv("QUEUE_MODEL_MS");

    return (text ? strtoull(text, NULL, 10) : choose_effort(250, 20000)) * NSEC_PER_MSEC;
}

static const struct scenario scenarios[] = {
    {"one sender, one taker", 2, {{run_sender, 4}, {run_taker, 4}}, 0, false, false},
    {"two senders, one taker",
     3,
     {{run_sender, 2}, {run_sender, 2}, {run_taker, 4}},
     0,
     false,
     false},
    {"one sender, two takers",
     3,
     {{run_sender, 4}, {run_taker, 2}, {run_taker, 2}},
     0,
     false,
     false},
    {"two senders, two takers",
     4,
     {{run_sender, 2}, {run_sender, 2}, {run_taker, 2}, {run_taker, 2}},
     0,
     false,
     false},
    {"numbers at their end",
     4,
     {{run_sender, 3}, {run_sender, 2}, {run_taker, 3}, {run_taker, 2}},
     UINT32_MAX - 2,
     false,
     false},
    {"a lap behind", 3, {{run_sender, 2}, {run_sender, 6}, {run_taker, 8}}, 0, false, false},
    {"never empty",
     2,
     {{run_churner, 16}, {run_prober, 8}},
     UINT32_MAX - 5,
     false,
     false,
     .depth = 3},
    {"put back",
     4,
     {{run_sender, 3}, {run_returner, 2}, {run_taker, 2}, {run_taker, 1}},
     UINT32_MAX - 1,
     true,
     false},
    {"a new ring",
     4,
     {{run_sender, 3}, {run_taker, 2}, {run_taker, 1}, {run_mover, 0}},
     0,
     false,
     false},
    {"a new ring, two senders",
     4,
     {{run_sender, 2}, {run_sender, 2}, {run_taker, 4}, {run_mover, 0}},
     0,
     false,
     false},
    {"destroyed",
     4,
     {{run_sender, 3}, {run_sender, 1}, {run_taker, 4}, {run_destroyer, 0}},
     0,
     false,
     false},
    {"killed, one of each", 3, {{run_sender, 4}, {run_taker, 4}, {run_sweeper, 0}}, 0, false, true},
    {"killed, two takers",
     4,
     {{run_sender, 4}, {run_taker, 2}, {run_taker, 2}, {run_sweeper, 0}},
     0,
     false,
     true},
    {"killed, two senders",
     4,
     {{run_sender, 2}, {run_sender, 2}, {run_taker, 4}, {run_sweeper, 0}},
     0,
     false,
     true},
    {"killed, put back, one of each",
     3,
     {{run_sender, 2}, {run_returner, 2}, {run_sweeper, 0}},
     0,
     true,
     true},
    {"killed, and a new ring, one of each",
     3,
     {{run_sender, 2}, {run_taker, 2}, {run_mover_and_sweeper, 0}},
     0,
     false,
     true},
    {"destroyed, then killed, one of each",
     3,
     {{run_sender, 2}, {run_taker, 2}, {run_destroyer_and_sweeper, 0}},
     0,
     false,
     true},
    /* Three laps of a ring of four slots, of which one is to spare. */
    {"killed, three laps",
     4,
     {{run_sender, 3}, {run_sender, 10}, {run_taker, 13}, {run_sweeper, 0}},
     0,
     false,
     true,
     .depth = 3},
    {"killed, a lap under the sweep",
     4,
     {{run_sender, 2}, {run_sender, 2}, {run_trader, 2}, {run_sweeper, 0}},
     0,
     true,
     true,
     .depth = 3},
    {"killed, a lap under the sweep, two rings",
     5,
     {{run_sender, 2},
      {run_sender, 2},
      {run_trader, 2},
      {run_taker, 1},
      {run_mover_and_sweeper, 0}},
     UINT32_MAX - 1,
     true,
     true,
     .depth = 3},
    {"killed, three laps, numbers at their end",
     5,
     {{run_sender, 3}, {run_sender, 10}, {run_taker, 7}, {run_taker, 6}, {run_sweeper, 0}},
     UINT32_MAX - 5,
     false,
     true,
     .depth = 3},
    {"killed, three laps, put back",
     5,
     {{run_sender, 4}, {run_sender, 5}, {run_returner, 4}, {run_taker, 9}, {run_sweeper, 0}},
     0,
     true,
     true,
     .depth = 3},
    {"killed, and a new ring",
     5,
     {{run_sender, 4}, {run_sender, 8}, {run_taker, 8}, {run_taker, 4}, {run_mover_and_sweeper, 0}},
     0,
     false,
     true,
     .depth = 3},
    {"killed, then destroyed",
     4,
     {{run_sender, 4}, {run_sender, 8}, {run_taker, 12}, {run_sweeper_and_destroyer, 0}},
     0,
     false,
     true,
     .depth = 3},
    {"destroyed, then killed",
     4,
     {{run_sender, 4}, {run_sender, 8}, {run_taker, 12}, {run_destroyer_and_sweeper, 0}},
     0,
     false,
     true,
     .depth = 3},
    {"a route",
     4,
     {{run_sender, 6}, {run_sender, 6}, {run_taker, 12}, {run_router, 12}},
     0,
     false,
     false,
     .routed = true},
    {"a route, unbound",
     5,
     {{run_sender, 6},
      {run_sender, 6},
      {run_taker, 7},
      {run_source_taker, 5},
      {run_unbinding_router, 7}},
     UINT32_MAX - 5,
     false,
     false,
     .routed = true},
    {"a route, killed",
     5,
     {{run_sender, 5}, {run_sender, 8}, {run_taker, 7}, {run_taker, 6}, {run_router, 13}},
     UINT32_MAX - 5,
     false,
     true,
     .depth = 3,
     .routed = true},
};

START_TEST(no_interleaving_loses_or_doubles_a_message)
{
    uint64_t start = clock_ns(), budget = budget_ns(), runs;

    scenario = &scenarios[_i];
    runs =
        scenario->kills ? explore_kills(start + budget / 2) : explore_switches(start + budget / 2);
    runs += explore_random(start + budget);
    ck_assert_uint_ge(runs, 64); /* what is done however slow the machine is */
    if (getenv("QUEUE_MODEL_MS"))
        fprintf(stderr, "%s: %llu runs\n", scenario->name, (unsigned long long)runs);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("queue_model");
    TCase *tc = suite_case(suite, "interleavings", 600, NULL, NULL);

    tcase_add_loop_test(tc, no_interleaving_loses_or_doubles_a_message, 0,
                        sizeof(scenarios) / sizeof(scenarios[0]));
    return run_suite(suite);
}
