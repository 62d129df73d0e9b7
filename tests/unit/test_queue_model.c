/*
 * The protocol of proto/queue_shm.h, one interleaving after the other. Every atomic operation of the real header is a place where another
 * participant may go on, or where one is killed; participants are coroutines, so a run is what its plan says, and the same every time. All plans with two
 * switches beside those that must be, then random ones with more.
 *
 * What this cannot find is what takes two CPUs that see stores in different orders: test_queue_shm.c runs the same code in threads and processes.
 */
#include <check.h>
#include <setjmp.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

#include "unit.h"

/* Every atomic operation of the headers that follow is a step. */
static void step(void);
#undef atomic_load
#undef atomic_load_explicit
#undef atomic_store
#undef atomic_store_explicit
#undef atomic_fetch_add
#undef atomic_fetch_or_explicit
#undef atomic_fetch_and_explicit
#undef atomic_compare_exchange_strong
#undef atomic_compare_exchange_strong_explicit
#undef atomic_compare_exchange_weak
#undef atomic_compare_exchange_weak_explicit
#undef atomic_thread_fence
#define atomic_load(p)                                            (step(), *(p))
#define atomic_load_explicit(p, order)                            (step(), *(p))
#define atomic_store(p, v)                                        (step(), (void)(*(p) = (v)))
#define atomic_store_explicit(p, v, order)                        (step(), (void)(*(p) = (v)))
#define atomic_fetch_add(p, v)                                    (step(), __atomic_fetch_add(p, v, __ATOMIC_SEQ_CST))
#define atomic_fetch_or_explicit(p, v, order)                     (step(), __atomic_fetch_or(p, v, __ATOMIC_SEQ_CST))
#define atomic_fetch_and_explicit(p, v, order)                    (step(), __atomic_fetch_and(p, v, __ATOMIC_SEQ_CST))
#define atomic_compare_exchange_strong(p, e, v)                   (step(), exchange(p, e, v))
#define atomic_compare_exchange_strong_explicit(p, e, v, yes, no) (step(), exchange(p, e, v))
#define atomic_compare_exchange_weak(p, e, v)                     (step(), exchange(p, e, v))
#define atomic_compare_exchange_weak_explicit(p, e, v, yes, no)   (step(), exchange(p, e, v))
#define atomic_thread_fence(order)                                ((void)0)
#define exchange(p, e, v)                                                                          \
    __extension__({                                                                                \
        __typeof__(e) expected_ = (e);                                                             \
        bool same_ = *(p) == *expected_;                                                           \
        if (same_)                                                                                 \
            *(p) = (v);                                                                            \
        else                                                                                       \
            *expected_ = *(p);                                                                     \
        same_;                                                                                     \
    })

#include "proto/mbuf_shm.h"
#include "proto/queue_shm.h"

#define ACTORS_MAX   5
#define SWITCHES_MAX 8
#define MESSAGES     8 /* buffers; those from N on are free */
#define DEPTH        2
#define STACK        (64u << 10)
#define STEPS_MAX    100000

/* --- what a run goes by --- */

struct plan {
    unsigned n;
    struct {
        uint32_t step; /* of the run */
        unsigned to;   /* this actor goes on there, if it can */
    } at[SWITCHES_MAX];
    unsigned first; /* who is asked first when somebody must be chosen; then the others in turn */
    int victim;     /* who is killed; -1: nobody */
    uint32_t kill_step; /* of the victim's own */
};

struct scenario {
    const char *name;
    unsigned n;
    struct {
        void (*run)(void);
        unsigned count; /* messages */
    } actor[ACTORS_MAX];
    uint64_t start; /* first position of the ring */
    bool starves;   /* who puts back what he takes may find nothing left */
    bool kills;     /* the victim is any of the first n - 1 actors; the last one sweeps */
};

/* --- the world --- */

struct actor {
    ucontext_t context;
    uint32_t share;
    uint32_t steps;
    unsigned count; /* messages to be put or taken */
    unsigned base;  /* first of its messages */
    bool done, dead;
    _Atomic uint64_t head_seen[2]; /* its own, of each ring */
    const uint32_t *asleep;        /* on this word, while it is ... */
    uint32_t seen;
};

struct received {
    unsigned message;
    unsigned ring;
    uint64_t position;
};

static struct world {
    struct actor actor[ACTORS_MAX];
    unsigned n;
    unsigned current;
    uint32_t steps;
    unsigned next_switch;
    uint32_t ring; /* npud's newest one */
    bool destroyed;
    uint32_t death;           /* 1: the victim is dead */
    unsigned owner[MESSAGES]; /* 1 + who has received it */
    unsigned sent[MESSAGES];  /* into a ring */
    unsigned got[MESSAGES];   /* out of a ring, by somebody who lives, or was found with him */
    struct received log[64];
    unsigned n_log;
} w;

static const struct scenario *scenario;
static struct plan plan;
static ucontext_t scheduler;
static char *stacks;
static bool running;

static struct segment_table table;
static struct segment_view segment;
static struct segment_page page;
static struct mbuf mbufs[MESSAGES];
static struct queue_view ring[2];
static alignas(4096) unsigned char files[2][2][4096];

static char *describe(void)
{
    static char text[512];
    int used = snprintf(text, sizeof(text), "%s: first %u, victim %d at %u, switches",
                        scenario->name, plan.first, plan.victim, plan.kill_step);

    for (unsigned i = 0; i < plan.n; i++)
        used += snprintf(text + used, sizeof(text) - (size_t)used, " %u->%u", plan.at[i].step,
                         plan.at[i].to);
    return text;
}

#define SURE(condition)                                                                            \
    do {                                                                                           \
        if (!(condition))                                                                          \
            ck_abort_msg("%s; plan: %s", #condition, describe());                                  \
    } while (0)

static uint32_t ref_of(unsigned message)
{
    return segment.id << 16 | message;
}

static void make_ring(unsigned i, uint64_t start)
{
    struct queue_view *q = &ring[i];

    memset(files[i], 0, sizeof(files[i]));
    *q = (struct queue_view){(struct queue_put *)files[i][0], (struct queue_take *)files[i][1],
                             DEPTH, queue_slots(DEPTH) - 1, 7 + i};
    q->put->tail = start;
    q->take->head = start << 16;
    q->take->settled = start;
    for (uint64_t p = start; start > 0 && p <= start + q->mask; p++)
        q->put->slot[p & q->mask].word = queue_slot_word(p - q->mask - 1, 0xdead);
}

static bool can_go_on(const struct actor *a)
{
    return !a->done && !a->dead && (!a->asleep || *a->asleep != a->seen);
}

static void switch_to(unsigned to)
{
    unsigned from = w.current;

    if (to == from)
        return;
    w.current = to;
    swapcontext(&w.actor[from].context, &w.actor[to].context);
}

/* Somebody must go on in place of the current one. */
static void switch_away(void)
{
    for (unsigned i = 0; i < w.n; i++) {
        unsigned to = (plan.first + i) % w.n;

        if (can_go_on(&w.actor[to])) {
            switch_to(to);
            return;
        }
    }
    swapcontext(&w.actor[w.current].context, &scheduler);
}

static void step(void)
{
    struct actor *a = &w.actor[w.current];

    if (!running)
        return;
    SURE(++w.steps < STEPS_MAX);
    if ((int)w.current == plan.victim && ++a->steps == plan.kill_step) {
        a->dead = true;
        w.death = 1;
        switch_away();
    }
    if (w.next_switch < plan.n && w.steps >= plan.at[w.next_switch].step) {
        unsigned to = plan.at[w.next_switch++].to;

        if (to < w.n && can_go_on(&w.actor[to]))
            switch_to(to);
    }
}

/* --- actors --- */

static struct actor *self(void)
{
    return &w.actor[w.current];
}

static void sleep_on(const _Atomic uint32_t *word, uint32_t seen)
{
    struct actor *a = self();

    step();
    a->asleep = (const uint32_t *)word;
    a->seen = seen;
    if (!can_go_on(a))
        switch_away();
    a->asleep = NULL;
}

/* The ring as this actor has it mapped. */
static struct queue_view view(unsigned r)
{
    struct queue_view v = ring[r];

    v.seen = &self()->head_seen[r];
    return v;
}

static void wake(_Atomic uint64_t *waiting, _Atomic uint32_t *word)
{
    if (queue_waiting(waiting) != 0)
        atomic_fetch_add(word, 1);
}

/* As who has attached again: npud answers when it is through. */
static unsigned next_ring(unsigned r)
{
    sleep_on((_Atomic uint32_t *)&w.ring, r);
    return w.ring;
}

static bool put(unsigned message)
{
    struct mbuf *m = &mbufs[message];
    uint32_t me = self()->share, generation, seen;
    uint64_t held = m->word;
    unsigned r = w.ring;

    for (;;) {
        struct queue_view of_ring = view(r), *q = &of_ring;
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
            wake(&q->take->waiting, &q->put->wake);
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

static void receive(unsigned message, unsigned r, uint64_t position)
{
    w.got[message]++;
    w.owner[message] = w.current + 1;
    w.log[w.n_log++] = (struct received){message, r, position};
}

/* The message, or -1: the ring has ended, or it is empty and we shall not wait. */
static int take(bool wait)
{
    uint32_t me = self()->share, generation, seen, ref = 0;
    unsigned r = w.ring;

    for (;;) {
        struct queue_view of_ring = view(r), *q = &of_ring;
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
            if (queue_unsettled(q, f.head, &ref))
                queue_settle(q, f.head, &table);
            result = queue_dequeue(q, &f, mbuf_at(&table, f.ref), me, &table, &held);
            if (result == QUEUE_OK) {
                unsigned message = f.ref & 0xffff;

                SURE(mbufs[message].word == held);
                receive(message, r, queue_head_position(f.head));
                wake(&q->put->waiting, &q->take->wake);
                return (int)message;
            }
            if (result == QUEUE_NOTHING)
                SURE(q->put->news.state != QUEUE_LIVE);
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

static void run_sender(void)
{
    struct actor *a = self();

    for (unsigned i = 0; i < a->count; i++)
        if (!put(a->base + i))
            return;
}

static void run_taker(void)
{
    struct actor *a = self();
    int message;

    for (unsigned i = 0; i < a->count; i++) {
        message = take(true);
        if (message < 0)
            return;
        mbuf_drop(&segment, &mbufs[message], &(bool){false});
    }
}

/* Puts back what it takes, once: the same buffer is on its way a second time. */
static void run_returner(void)
{
    struct actor *a = self();

    for (unsigned i = 0; i < a->count; i++) {
        int message = take(true);

        if (message < 0)
            return;
        put((unsigned)message);
    }
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
        SURE(to < DEPTH);
        ring[1].put->slot[to & ring[1].mask].word = queue_slot_word(to, ref);
        to++;
    }
    ring[1].put->tail = to;
    w.ring = 1;
    queue_disarm_all(&ring[0].take->waiting);
    atomic_fetch_add(&ring[0].put->wake, 1);
    queue_disarm_all(&ring[0].put->waiting);
    atomic_fetch_add(&ring[0].take->wake, 1);
}

static void run_destroyer(void)
{
    uint64_t position;
    uint32_t ref;

    w.destroyed = true;
    position = queue_end(&ring[0], QUEUE_DEAD, &table);
    while ((ref = queue_next(&ring[0], &position)) != 0) {
        struct mbuf *m = mbuf_at(&table, ref);
        uint64_t word = atomic_load(&m->word);

        if (mbuf_state(word) == MBUF_SENDING && mbuf_queue(word) == ring[0].number &&
            atomic_compare_exchange_strong(&m->word, &word,
                                           mbuf_word_held(mbuf_generation(word) + 1, SHARE_NPUD))) {
            receive(ref & 0xffff, 0, position - 1);
            mbuf_drop(&segment, m, &(bool){false});
        }
    }
    queue_disarm_all(&ring[0].take->waiting);
    atomic_fetch_add(&ring[0].put->wake, 1);
    queue_disarm_all(&ring[0].put->waiting);
    atomic_fetch_add(&ring[0].take->wake, 1);
}

static bool in_ring(const struct queue_view *q, uint32_t ref)
{
    uint64_t position = atomic_load(&q->take->settled);
    uint32_t r;

    while ((r = queue_next(q, &position)) != 0)
        if (r == ref)
            return true;
    return false;
}

/* npud, when it hears of the victim's end. */
static void run_sweeper(void)
{
    struct queue_view *q = &ring[0];
    const struct actor *v;
    bool has[MESSAGES];

    sleep_on((_Atomic uint32_t *)&w.death, 0);
    v = &w.actor[plan.victim];
    queue_settle(q, atomic_load(&q->take->head), &table);
    queue_disarm_all(&q->take->waiting);
    atomic_fetch_add(&q->put->wake, 1);
    queue_disarm_all(&q->put->waiting);
    atomic_fetch_add(&q->take->wake, 1);
    for (unsigned i = 0; i < MESSAGES; i++)
        has[i] = in_ring(q, ref_of(i));
    for (unsigned i = 0; i < MESSAGES; i++) {
        uint64_t word = atomic_load(&mbufs[i].word);

        if (mbuf_state(word) == MBUF_SENDING && mbuf_session(word) == v->share &&
            mbuf_queue(word) == q->number && !has[i]) {
            uint64_t held = mbuf_word_held(mbuf_generation(word) + 1, v->share);

            if (atomic_compare_exchange_strong(&mbufs[i].word, &word, held))
                word = held;
        }
        if (mbuf_state(word) != MBUF_HELD || mbuf_session(word) != v->share)
            continue;
        /* Taken, and not yet its taker's word: as if he had had it. */
        if (scenario->actor[plan.victim].run == run_taker &&
            w.owner[i] != (unsigned)plan.victim + 1)
            w.got[i]++;
        mbuf_drop(&segment, &mbufs[i], &(bool){false});
    }
}

/* --- runs --- */

static void main_of_actor(void)
{
    unsigned me = w.current;

    scenario->actor[me].run();
    w.actor[me].done = true;
    switch_away();
    abort();
}

static void prepare_actor(unsigned i, unsigned *message)
{
    struct actor *a = &w.actor[i];

    a->share = 100 + i;
    a->head_seen[0] = scenario->start;
    a->count = scenario->actor[i].count;
    a->base = *message;
    for (unsigned k = 0; scenario->actor[i].run == run_sender && k < a->count; k++) {
        mbuf_prepare(&segment, *message, 1);
        mbuf_hold(&mbufs[(*message)++], a->share);
    }
    getcontext(&a->context);
    a->context.uc_stack.ss_sp = stacks + i * STACK;
    a->context.uc_stack.ss_size = STACK;
    makecontext(&a->context, main_of_actor, 0);
}

static void prepare(void)
{
    unsigned message = 0;

    memset(&w, 0, sizeof(w));
    memset(&page, 0, sizeof(page));
    memset(mbufs, 0, sizeof(mbufs));
    segment = (struct segment_view){
        .page = &page, .mbufs = mbufs, .stride = 64, .number = 1, .n_data = MESSAGES, .id = 1};
    table.view[1] = &segment;
    make_ring(0, scenario->start);
    make_ring(1, 0);
    w.n = scenario->n;
    for (unsigned i = 0; i < w.n; i++)
        prepare_actor(i, &message);
}

static unsigned sender_of(unsigned message)
{
    unsigned i = 0;

    while (scenario->actor[i].run != run_sender || message >= w.actor[i].base + w.actor[i].count)
        i++;
    return i;
}

/* Of one sender, in the order in which he has sent; over all takers. Not for what was put back. */
static void check_order(void)
{
    for (unsigned i = 0; i < w.n_log; i++)
        for (unsigned k = 0; k < w.n_log; k++) {
            const struct received *a = &w.log[i], *b = &w.log[k];

            if (a->message < b->message && sender_of(a->message) == sender_of(b->message) &&
                w.sent[a->message] == 1 && w.sent[b->message] == 1)
                SURE(a->ring < b->ring || (a->ring == b->ring && a->position < b->position));
        }
}

static void judge(void)
{
    const struct actor *victim = plan.victim >= 0 ? &w.actor[plan.victim] : NULL;

    for (unsigned i = 0; i < w.n; i++) {
        const struct actor *a = &w.actor[i];
        bool may_sleep = (victim && victim->dead) || w.destroyed;

        if (a->done || a->dead || scenario->actor[i].run == run_sweeper)
            continue;
        /* Without the dead one there is no more to take, or nobody else who takes. */
        SURE(may_sleep || (scenario->starves && scenario->actor[i].run != run_sender));
        SURE(queue_fill(&ring[w.ring]) == (scenario->actor[i].run == run_sender ? DEPTH : 0));
    }
    /* What is left in the newest ring. */
    w.current = w.n - 1;
    if (!w.destroyed)
        for (int m; (m = take(false)) >= 0;)
            mbuf_drop(&segment, &mbufs[m], &(bool){false});
    for (unsigned i = 0; i < MESSAGES; i++) {
        uint64_t word = mbufs[i].word;
        bool kept = mbuf_state(word) == MBUF_HELD;

        SURE(mbuf_state(word) == MBUF_FREE || kept);
        if (kept)
            SURE(mbuf_session(word) == w.actor[sender_of(i)].share &&
                 (w.destroyed || !w.actor[sender_of(i)].done));
        /* The dead one may have sent one message more, or taken one, than he could tell. */
        if (victim && victim->dead)
            SURE(w.got[i] >= w.sent[i] && w.got[i] <= w.sent[i] + 1);
        else
            SURE(w.got[i] == w.sent[i]);
    }
    check_order();
}

/* Returns how many steps it took. */
static uint32_t run(void)
{
    prepare();
    running = true;
    w.current = plan.first % w.n;
    swapcontext(&scheduler, &w.actor[w.current].context);
    running = false;
    judge();
    return w.steps;
}

static uint64_t budget_ns(void)
{
    const char *text = getenv("QUEUE_MODEL_MS");

    return (text ? strtoull(text, NULL, 10) : 400) * NSEC_PER_MSEC;
}

/* All plans with two switches, as far as the time goes in strides; with kills, one switch and the place of the death. */
static uint64_t run_all(uint64_t end)
{
    uint64_t runs = 0;

    for (plan.first = 0; plan.first < scenario->n; plan.first++)
        for (plan.at[0].to = 0; plan.at[0].to < scenario->n; plan.at[0].to++)
            for (plan.at[1].to = 0; plan.at[1].to < scenario->n; plan.at[1].to++) {
                uint32_t length;

                plan.n = 0;
                length = run();
                plan.n = 2;
                for (plan.at[0].step = 1; plan.at[0].step < length; plan.at[0].step++) {
                    for (plan.at[1].step = plan.at[0].step + 1; plan.at[1].step < length;
                         plan.at[1].step++, runs++)
                        run();
                    if (clock_ns() > end)
                        return runs;
                }
            }
    return runs;
}

static uint64_t run_random(uint64_t end)
{
    uint64_t rng = 88172645463325252u, runs = 0;
    uint32_t length;

    plan = (struct plan){.victim = -1};
    length = run();
    for (; runs % 256 != 0 || clock_ns() < end; runs++) {
        uint32_t at = 0;

        plan.first = random_below(&rng, scenario->n);
        plan.n = 1 + random_below(&rng, SWITCHES_MAX);
        for (unsigned i = 0; i < plan.n; i++) {
            at += 1 + random_below(&rng, 2 * length / plan.n);
            plan.at[i].step = at;
            plan.at[i].to = random_below(&rng, scenario->n);
        }
        plan.victim = scenario->kills ? (int)random_below(&rng, scenario->n - 1) : -1;
        plan.kill_step = 1 + random_below(&rng, length);
        run();
    }
    return runs;
}

/* Each place of each victim's death, with one switch anywhere. */
static uint64_t run_kills(uint64_t end)
{
    uint64_t runs = 0;
    uint32_t length;

    plan = (struct plan){.victim = -1};
    length = run();
    plan.n = 1;
    for (plan.victim = 0; plan.victim < (int)scenario->n - 1; plan.victim++)
        for (plan.kill_step = 1;; plan.kill_step++) {
            bool died = false;

            for (plan.at[0].to = 0; plan.at[0].to < scenario->n; plan.at[0].to++)
                for (plan.at[0].step = 1; plan.at[0].step < length; plan.at[0].step++, runs++) {
                    plan.first = plan.at[0].step % scenario->n;
                    run();
                    died |= w.actor[plan.victim].dead;
                }
            if (!died || clock_ns() > end)
                break;
        }
    return runs;
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
};

START_TEST(no_interleaving_loses_or_doubles_a_message)
{
    uint64_t start = clock_ns(), budget = budget_ns(), runs;

    scenario = &scenarios[_i];
    stacks =
        mmap(NULL, ACTORS_MAX * STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(stacks, MAP_FAILED);
    plan = (struct plan){.victim = -1};
    runs = scenario->kills ? run_kills(start + budget / 2) : run_all(start + budget / 2);
    runs += run_random(start + budget);
    ck_assert_uint_gt(runs, 100);
    if (getenv("QUEUE_MODEL_MS"))
        fprintf(stderr, "%s: %llu runs\n", scenario->name, (unsigned long long)runs);
    munmap(stacks, ACTORS_MAX * STACK);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("queue_model");
    TCase *tc = tcase_create("interleavings");

    tcase_set_timeout(tc, 600);
    tcase_add_loop_test(tc, no_interleaving_loses_or_doubles_a_message, 0,
                        sizeof(scenarios) / sizeof(scenarios[0]));
    suite_add_tcase(suite, tc);
    return run_suite(suite);
}
