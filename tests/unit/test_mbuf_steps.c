/*
 * References to shared buffers, one step after the other: processes and npud as coroutines that may
 * be held, or die, before each atomic access of proto/shm/mbuf_shm.h and of npud's sweep, and
 * another goes on. All ways of two preemptions, and many random ones of more. The result must be
 * exact: a live process has what it had, and nothing else is left.
 *
 * Skipped under TSan: one thread, on many stacks.
 */
#include "tests/unit/hooks/sweep.h"

#include "daemon/buffers/pool.h"
#include "daemon/buffers/segment.h"
#include "daemon/buffers/segment_use.h"
#include "daemon/buffers/sweep.h"
#include "proto/shm/mbuf_ref.h"
#include "npud.h"

#include <setjmp.h>
#include <sys/mman.h>
#include <ucontext.h>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#define FORGET_STACK(p, n) ASAN_UNPOISON_MEMORY_REGION(p, n)
#else
#define FORGET_STACK(p, n) ((void)(p), (void)(n))
#endif

#define ACTORS  3 /* processes */
#define HAS_MAX 8
#define DATA    2u /* slots in play */
#define REFS    3u
#define STACK   (64u << 10)

enum act { ACT_ALLOC, ACT_REFER, ACT_DROP, ACT_GIVE, ACTS };

/* What a live process has, by what its calls have told it. */
struct has {
    uint32_t slot, block;
};

struct actor {
    jmp_buf context;
    unsigned char *stack;
    void (*main)(void);
    bool fresh; /* main is to be called yet */
    struct session *session;
    bool done, dead, swept;
    uint64_t rng;
    unsigned acts; /* left to be done */
    struct has has[HAS_MAX];
    uint32_t n_has;
};

static struct {
    struct actor actor[ACTORS + 1]; /* the last one is npud */
    unsigned n;                     /* processes in this run */
    struct actor *running;
    jmp_buf scheduler;
    struct segment *segment;
    struct segment_view view; /* as the processes have it */
    bool asks;                /* npud looks whether the segment can go */
    bool gone;                /* it can */
} w;

#define NPUD (&w.actor[ACTORS])

/* --- coroutines --- */

/* Not swapcontext(), which asks the kernel for the signal mask each time. */
void mbuf_step(void)
{
    if (w.running && _setjmp(w.running->context) == 0)
        _longjmp(w.scheduler, 1);
}

/* Run without steps. */
#define QUIETLY(statement)                                                                         \
    do {                                                                                           \
        struct actor *me_ = w.running;                                                             \
        w.running = NULL;                                                                          \
        statement;                                                                                 \
        w.running = me_;                                                                           \
    } while (0)

static void process_main(void);
static void npud_main(void);

static void start_actor(struct actor *a, void (*main)(void))
{
    FORGET_STACK(a->stack, STACK);
    a->main = main;
    a->fresh = true;
    a->done = a->dead = a->swept = false;
    a->n_has = 0;
}

static void on_own_stack(void)
{
    w.running->main();
    w.running->done = true;
    _longjmp(w.scheduler, 1);
}

static void enter_actor(struct actor *a)
{
    ucontext_t context;

    if (!a->fresh)
        _longjmp(a->context, 1);
    a->fresh = false;
    getcontext(&context);
    context.uc_stack.ss_sp = a->stack;
    context.uc_stack.ss_size = STACK;
    context.uc_link = NULL;
    makecontext(&context, on_own_stack, 0);
    setcontext(&context);
}

/* One access of the actor, and what comes before the next. */
static void advance_actor(struct actor *a)
{
    w.running = a;
    if (_setjmp(w.scheduler) == 0)
        enter_actor(a);
    w.running = NULL;
}

/* --- processes --- */

static void add_buffer(struct actor *a, uint32_t slot, uint32_t block)
{
    a->has[a->n_has++] = (struct has){slot, block};
}

static struct has remove_buffer(struct actor *a, uint32_t i)
{
    struct has h = a->has[i];

    a->has[i] = a->has[--a->n_has];
    return h;
}

static bool anybody_has(uint32_t block)
{
    for (unsigned i = 0; i < w.n; i++)
        for (uint32_t j = 0; j < w.actor[i].n_has; j++)
            if (!w.actor[i].dead && w.actor[i].has[j].block == block)
                return true;
    return false;
}

static void act_alloc(struct actor *a)
{
    uint32_t slot = segment_claim(&w.view, 0, DATA, a->session->peer_id);

    if (slot == DATA)
        return;
    CHECK(!w.gone);
    CHECK(!anybody_has(slot));
    mbuf_prepare(&w.view, slot, 100);
    mbuf_hold(&w.view.mbufs[slot], a->session->peer_id);
    CHECK(!anybody_has(slot));
    add_buffer(a, slot, slot);
}

static void act_refer(struct actor *a)
{
    uint32_t slot = segment_claim(&w.view, DATA, DATA + REFS, a->session->peer_id);
    struct mbuf *m = &w.view.mbufs[slot];
    struct has of;
    int count;

    if (slot == DATA + REFS)
        return;
    of = a->has[random_below(&a->rng, a->n_has)];
    count = mbuf_refer(&w.view, m, of.block);
    CHECK(count >= 2);
    mbuf_hold(m, a->session->peer_id);
    add_buffer(a, slot, of.block);
}

static void act_drop(struct actor *a)
{
    struct has h = remove_buffer(a, random_below(&a->rng, a->n_has));
    bool full;

    CHECK(mbuf_drop(&w.view, &w.view.mbufs[h.slot], &full));
}

/* One compare-and-swap, as by a queue. */
static void act_give(struct actor *a)
{
    struct actor *to = &w.actor[random_below(&a->rng, w.n)];
    struct has h;
    uint64_t word;

    if (to == a || to->dead || to->done || to->n_has == HAS_MAX)
        return;
    QUIETLY({
        h = remove_buffer(a, random_below(&a->rng, a->n_has));
        word = atomic_load(&w.view.mbufs[h.slot].word);
        atomic_store(&w.view.mbufs[h.slot].word,
                     mbuf_word_held(mbuf_generation(word) + 1, to->session->peer_id));
        add_buffer(to, h.slot, h.block);
    });
}

static void do_random_act(struct actor *a)
{
    static void (*const acts[ACTS])(struct actor *) = {act_alloc, act_refer, act_drop, act_give};
    enum act what = (enum act)random_below(&a->rng, ACTS);

    if (a->n_has == 0)
        what = ACT_ALLOC;
    if (a->n_has == HAS_MAX)
        what = ACT_DROP;
    acts[what](a);
}

/* What it still has in the end stays for the judge. */
static void process_main(void)
{
    struct actor *a = w.running;

    for (; a->acts > 0; a->acts--)
        do_random_act(a);
}

/* --- npud --- */

static struct actor *to_sweep(void)
{
    for (unsigned i = 0; i < w.n; i++)
        if (w.actor[i].dead && !w.actor[i].swept)
            return &w.actor[i];
    return NULL;
}

static void sweep_the_dead(void)
{
    struct actor *a;

    while ((a = to_sweep())) {
        sweep_peer(a->session->peer);
        a->swept = true;
    }
}

/* In pieces of a slot, and npud does something else between them. */
static bool all_slots_are_unused(void)
{
    enum segment_use use;
    uint32_t from = 0;

    while ((use = segment_look_at_slots(w.segment, &from, 1)) == SEGMENT_MORE)
        sweep_the_dead();
    return use == SEGMENT_GONE;
}

/* As segment_look(). */
static void look_whether_free(void)
{
    if (!all_slots_are_unused())
        return;
    atomic_store(&w.segment->view.news->closing, 1);
    atomic_thread_fence(memory_order_seq_cst);
    w.gone = all_slots_are_unused();
    if (!w.gone)
        atomic_store(&w.segment->view.news->closing, 0);
}

static void npud_main(void)
{
    sweep_the_dead();
    if (w.asks && !w.gone)
        look_whether_free();
    w.asks = false;
    sweep_the_dead();
}

static void call_npud(void)
{
    if (NPUD->done)
        start_actor(NPUD, npud_main);
}

/* --- a run --- */

static void reset_world(unsigned processes, uint64_t seed)
{
    struct segment_view *v = &w.segment->view;
    uint32_t last = DATA + REFS;

    w.n = processes;
    w.gone = w.asks = false;
    w.segment->damaged = false;
    memset(v->page, 0, sizeof(*v->page));
    memset(v->news, 0, sizeof(*v->news));
    memset(v->mbufs, 0, last * sizeof(struct mbuf));
    for (uint32_t i = 0; i < (segment_slots(v) + 63) / 64; i++)
        atomic_store(&v->page->hint[i], UINT64_MAX);
    for (unsigned i = 0; i < processes; i++) {
        start_actor(&w.actor[i], process_main);
        w.actor[i].rng = seed * 2654435761u + i + 1;
        w.actor[i].acts = 1 + random_below(&w.actor[i].rng, 6);
    }
    NPUD->done = true;
}

/* What is true at every moment. */
static void check_those_who_live(void)
{
    for (unsigned i = 0; i < w.n; i++) {
        struct actor *a = &w.actor[i];

        for (uint32_t j = 0; j < a->n_has && !a->dead; j++) {
            struct mbuf *m = &w.view.mbufs[a->has[j].slot], *b = &w.view.mbufs[a->has[j].block];

            CHECK(atomic_load(&m->word) ==
                  mbuf_word_held(mbuf_generation(atomic_load(&m->word)), a->session->peer_id));
            CHECK(mbuf_state(atomic_load(&b->word)) != MBUF_FREE);
            CHECK(mbuf_refs_count(atomic_load(&b->refs)) > 0);
            CHECK(!w.gone);
        }
    }
}

static void kill_actor(struct actor *a)
{
    a->dead = true;
    call_npud();
}

static void finish_actor(struct actor *a)
{
    while (!a->done && !a->dead)
        advance_actor(a);
}

/*
 * All that live end, all that died are swept; what is left is what they have; and when they drop
 * it, nothing.
 */
static void check_end_state(void)
{
    bool full;

    for (unsigned i = 0; i < w.n; i++)
        finish_actor(&w.actor[i]);
    call_npud();
    finish_actor(NPUD);
    call_npud();
    finish_actor(NPUD);
    CHECK(!w.segment->damaged);
    check_those_who_live();
    for (uint32_t block = 0; block < DATA; block++) {
        uint32_t count = 0;

        for (unsigned i = 0; i < w.n; i++)
            for (uint32_t j = 0; j < w.actor[i].n_has && !w.actor[i].dead; j++)
                count += w.actor[i].has[j].block == block;
        if (count > 0)
            CHECK(mbuf_refs_count(atomic_load(&w.view.mbufs[block].refs)) == count);
    }
    for (unsigned i = 0; i < w.n; i++)
        while (w.actor[i].n_has > 0 && !w.actor[i].dead)
            CHECK(mbuf_drop(&w.view, &w.view.mbufs[remove_buffer(&w.actor[i], 0).slot], &full));
    for (uint32_t slot = 0; slot < DATA + REFS; slot++) {
        CHECK(mbuf_state(atomic_load(&w.view.mbufs[slot].word)) == MBUF_FREE);
        CHECK(atomic_load(&w.view.page->hint[0]) >> slot & 1);
    }
}

/* --- which steps --- */

static void walk_actor(struct actor *a, unsigned steps)
{
    for (; steps > 0 && !a->done && !a->dead; steps--) {
        advance_actor(a);
        check_those_who_live();
    }
}

static bool somebody_is_at_work(void)
{
    for (unsigned i = 0; i < w.n; i++)
        if (!w.actor[i].done && !w.actor[i].dead)
            return true;
    return !NPUD->done;
}

/* Random: which actor runs, for how long, which one dies, when npud is asked. */
static void run_random(uint64_t seed)
{
    static const unsigned lengths[] = {1, 1, 2, 3, 5, 8, 13, 21, 34, 1000};
    uint64_t rng = seed * 0x9e3779b97f4a7c15u + 1;
    unsigned kills = random_below(&rng, 3), n = 1 + random_below(&rng, ACTORS);

    reset_world(n, seed);
    while (somebody_is_at_work()) {
        struct actor *a = &w.actor[random_below(&rng, n + 1)];

        if (a == &w.actor[n])
            a = NPUD;
        walk_actor(a, lengths[random_below(&rng, sizeof(lengths) / sizeof(lengths[0]))]);
        if (a != NPUD && !a->done && kills > 0 && random_below(&rng, 8) == 0) {
            kill_actor(a);
            kills--;
        }
        if (random_below(&rng, 16) == 0) {
            w.asks = true;
            call_npud();
        }
    }
    check_end_state();
}

/*
 * The first is held after i steps, the second, or npud, after j; the first goes on or dies, then
 * the rest.
 */
static bool run_pair(uint64_t seed, unsigned i, unsigned j, bool dies, bool npud)
{
    struct actor *first = &w.actor[0], *second = npud ? NPUD : &w.actor[1];
    bool more;

    reset_world(2, seed);
    walk_actor(first, i);
    more = !first->done;
    if (dies && more)
        kill_actor(first);
    if (npud) {
        w.asks = true;
        call_npud();
    }
    walk_actor(second, j);
    walk_actor(first, UINT32_MAX);
    check_end_state();
    return more;
}

/* --- tests --- */

static void start_world(void)
{
    npud_start(NULL);
    for (unsigned i = 0; i < ACTORS; i++) {
        struct actor *a = &w.actor[i];

        a->session = npud_session((pid_t)i + 1);
        if (i == 0)
            ck_assert_int_eq(segment_new(pool_get(a->session), 128, DATA, &w.segment), 0);
        ck_assert(segment_map(peer_get(a->session), w.segment));
    }
    for (unsigned i = 0; i <= ACTORS; i++)
        ck_assert_ptr_nonnull(w.actor[i].stack = malloc(STACK));
    w.view = w.segment->view;
}

static void stop_world(void)
{
    for (unsigned i = 0; i <= ACTORS; i++)
        free(w.actor[i].stack);
    for (unsigned i = 0; i < ACTORS; i++)
        session_free(w.actor[i].session);
    npud_stop();
}

/* A seed that fails is printed with the condition: STEPS_SEED runs it alone. */
static uint64_t only_seed(void)
{
    const char *text = getenv("STEPS_SEED");

    return text ? strtoull(text, NULL, 10) : 0;
}

/* How long: STEPS_SECONDS; give it more time after a change of the protocol. */
static uint64_t end_ns(void)
{
    const char *text = getenv("STEPS_SECONDS");

    return clock_ns() + (text ? strtoull(text, NULL, 10) : 2) * NSEC_PER_SEC;
}

static uint64_t now_at;

static void say_where(void)
{
    if (now_at != 0)
        fprintf(stderr, "at seed %llu\n", (unsigned long long)now_at);
}

START_TEST(random_steps)
{
    uint64_t end = end_ns(), only = only_seed();

    atexit(say_where);
    for (uint64_t seed = 1; clock_ns() < end && !only; seed++)
        run_random(now_at = seed);
    if (only)
        run_random(only);
    now_at = 0;
}
END_TEST

START_TEST(pairs_of_steps)
{
    uint64_t end = end_ns();

    atexit(say_where);
    for (uint64_t seed = 1; clock_ns() < end; seed++)
        for (unsigned i = 1, more = 1; more; i++)
            for (unsigned j = 0; j < 60; j += 1 + j / 20)
                for (unsigned how = 0; how < 4; how++) {
                    now_at = seed;
                    more = run_pair(seed, i, j, how & 1, how & 2);
                }
    now_at = 0;
}
END_TEST

static uint32_t new_head(struct actor *a)
{
    uint32_t slot = segment_claim(&w.view, 0, DATA, a->session->peer_id);

    ck_assert_uint_lt(slot, DATA);
    mbuf_prepare(&w.view, slot, 100);
    mbuf_hold(&w.view.mbufs[slot], a->session->peer_id);
    add_buffer(a, slot, slot);
    return slot;
}

static uint32_t new_reference(struct actor *a, uint32_t block)
{
    uint32_t slot = segment_claim(&w.view, DATA, DATA + REFS, a->session->peer_id);

    ck_assert_uint_lt(slot, DATA + REFS);
    ck_assert_int_ge(mbuf_refer(&w.view, &w.view.mbufs[slot], block), 2);
    mbuf_hold(&w.view.mbufs[slot], a->session->peer_id);
    add_buffer(a, slot, block);
    return slot;
}

static void refer_to_1(void)
{
    new_reference(w.running, 1);
}

/*
 * A slot that changed the count of one block last is about to change that of another, with the same
 * number, when another actor commits the first. That does not commit the second.
 */
START_TEST(same_number_of_another_block)
{
    struct actor *a = &w.actor[0], *b = &w.actor[1];
    uint32_t slot;
    bool full;

    reset_world(2, 1);
    a->done = true;
    ck_assert_uint_eq(new_head(a), 0);
    ck_assert_uint_eq(new_head(a), 1);
    new_reference(a, 1);
    slot = new_reference(b, 0);
    remove_buffer(b, 0);
    ck_assert(mbuf_drop(&w.view, &w.view.mbufs[slot], &full));
    ck_assert_uint_eq(atomic_load(&w.view.mbufs[0].refs), mbuf_refs(1, slot, 3));
    ck_assert_uint_eq((uint32_t)atomic_load(&w.view.mbufs[1].refs), 2);
    start_actor(b, refer_to_1);
    while (atomic_load(&w.view.mbufs[slot].op) != mbuf_op(MBUF_TAKING, 1, 3)) {
        CHECK(!b->done);
        advance_actor(b);
    }
    new_reference(a, 0);
    kill_actor(b);
    check_end_state();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("mbuf_steps");
    TCase *t = suite_case(suite, "steps", 0, start_world, stop_world);

    tcase_add_test(t, same_number_of_another_block);
    tcase_add_test(t, random_steps);
    tcase_add_test(t, pairs_of_steps);
    return run_suite(suite);
}
