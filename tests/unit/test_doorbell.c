/* proto/doorbell: how an engine that does not look, or sleeps, learns of new tasks. */
#include "proto/shm/doorbell.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "unit.h"
#include "tests/common/need.h"

static struct session_page page;
static struct doorbell *const bell = &page.doorbell[3];

static uint64_t make_bit(unsigned n)
{
    return UINT64_C(1) << n;
}

static void expect_words(uint64_t summary)
{
    ck_assert_uint_eq(atomic_load(&bell->summary), summary);
    for (unsigned w = 0; w < 64; w++)
        ck_assert_int_eq(atomic_load(&bell->word[w]) != 0, (summary & make_bit(w)) != 0);
}

START_TEST(raise_sets_the_bit_and_asks_for_a_ring)
{
    static const uint32_t slots[] = {0, 1, 63, 64, 65, 127, 2048, 4032, 4095};
    uint64_t summary = 0;

    for (unsigned i = 0; i < sizeof(slots) / sizeof(slots[0]); i++) {
        uint64_t before = atomic_load(&bell->word[slots[i] / 64]);

        ck_assert(doorbell_raise(bell, slots[i]));
        ck_assert_uint_eq(atomic_load(&bell->word[slots[i] / 64]),
                          before | make_bit(slots[i] % 64));
        summary |= make_bit(slots[i] / 64);
        expect_words(summary);
    }
    /* The bells of other devices did not ring. */
    for (unsigned d = 0; d < DEVICES_MAX; d++)
        if (&page.doorbell[d] != bell)
            ck_assert_uint_eq(atomic_load(&page.doorbell[d].summary), 0);
}
END_TEST

START_TEST(every_slot_has_a_bit_of_its_own)
{
    for (uint32_t slot = 0; slot < SESSION_STREAMS_MAX; slot++)
        CHECK(doorbell_raise(bell, slot));
    for (unsigned w = 0; w < 64; w++)
        CHECK(atomic_load(&bell->word[w]) == UINT64_MAX);
    ck_assert_uint_eq(atomic_load(&bell->summary), UINT64_MAX);
    ck_assert_uint_eq(atomic_load(&bell->watched), 0);
}
END_TEST

START_TEST(burst_rings_once)
{
    ck_assert(doorbell_raise(bell, 70));
    for (int i = 0; i < 10; i++)
        ck_assert(!doorbell_raise(bell, 70));
    expect_words(make_bit(1));
    /* Another stream does not rely on that ring. */
    ck_assert(doorbell_raise(bell, 71));
    ck_assert(!doorbell_raise(bell, 71));
}
END_TEST

START_TEST(watched_bell_is_not_rung_but_set)
{
    atomic_store(&bell->watched, 1);
    ck_assert(!doorbell_raise(bell, 130));
    ck_assert_uint_eq(atomic_load(&bell->word[2]), make_bit(2));
    expect_words(make_bit(2));
    ck_assert_uint_eq(atomic_load(&bell->watched), 1);
}
END_TEST

START_TEST(after_the_engine_has_looked_it_rings_again)
{
    ck_assert(doorbell_raise(bell, 5));
    ck_assert_uint_eq(atomic_exchange(&bell->summary, 0), make_bit(0));
    ck_assert_uint_eq(atomic_exchange(&bell->word[0], 0), make_bit(5));
    ck_assert(doorbell_raise(bell, 5));
    expect_words(make_bit(0));
}
END_TEST

/* The engine has taken the summary and is about to take the word. */
START_TEST(raise_between_the_two_looks_of_the_engine)
{
    ck_assert(doorbell_raise(bell, 5));
    atomic_exchange(&bell->summary, 0);
    /* The same stream: the engine gets it from the word. */
    ck_assert(!doorbell_raise(bell, 5));
    ck_assert_uint_eq(atomic_load(&bell->summary), 0);
    /*
     * Another one: summary is up again, so it does not matter that the engine may get it now
     * already.
     */
    ck_assert(doorbell_raise(bell, 6));
    ck_assert_uint_eq(atomic_exchange(&bell->word[0], 0), make_bit(5) | make_bit(6));
    ck_assert_uint_eq(atomic_load(&bell->summary), make_bit(0));
}
END_TEST

/* --- raising while the engine looks --- */

static bool raised, unseen;
static uint64_t found;

static void prepare_watched(void)
{
    atomic_store(&bell->summary, 0);
    atomic_store(&bell->word[1], 0);
    atomic_store(&bell->watched, 1);
    found = 0;
}

static void raise_70(void)
{
    raised = doorbell_raise(bell, 70);
}

/* As demote_attach() of daemon/engine/engine.c. */
static void stop_watching(void)
{
    atomic_store(&bell->watched, 0);
    unseen = atomic_load(&bell->summary) == 0;
}

static void judge_sleep(void)
{
    CHECK(raised || !unseen);
    CHECK(atomic_load(&bell->summary) == make_bit(1));
}

START_TEST(engine_sees_the_bit_or_submitter_rings)
{
    static const struct duel d = {prepare_watched, raise_70, stop_watching, judge_sleep};

    /* Store-releases and load-acquires keep their order: an emulator may not see to it. */
    if (!need_no_emulator(__func__, "a processor, not an emulator"))
        return;
    duel_run(&d, 200);
}
END_TEST

/* As watch_collect() (daemon/engine/watch.c): what is not found is announced in the summary. */
static void look_at_bell(void)
{
    if (atomic_exchange(&bell->summary, 0) & make_bit(1))
        found = atomic_exchange(&bell->word[1], 0);
}

static void prepare_raised(void)
{
    prepare_watched();
    doorbell_raise(bell, 71);
}

static void judge_look(void)
{
    uint64_t later =
        atomic_exchange(&bell->summary, 0) & make_bit(1) ? atomic_load(&bell->word[1]) : 0;

    CHECK(found & make_bit(7));
    CHECK((found | later) == (make_bit(6) | make_bit(7)));
}

START_TEST(engine_finds_the_bit_now_or_later)
{
    static const struct duel d = {prepare_raised, raise_70, look_at_bell, judge_look};

    duel_run(&d, 200);
}
END_TEST

/* Two submitters whose streams share a word, or the summary only. */
static uint32_t neighbour = 71;
static bool raised_too;

static void prepare_asleep(void)
{
    prepare_watched();
    atomic_store(&bell->word[2], 0);
    atomic_store(&bell->watched, 0);
    neighbour = neighbour == 71 ? 130 : 71;
}

static void raise_neighbour(void)
{
    raised_too = doorbell_raise(bell, neighbour);
}

static void judge_both(void)
{
    uint64_t one = atomic_load(&bell->word[1]), two = atomic_load(&bell->word[2]);

    CHECK(raised && raised_too);
    CHECK(one == (neighbour == 71 ? make_bit(6) | make_bit(7) : make_bit(6)));
    CHECK(two == (neighbour == 71 ? 0 : make_bit(2)));
    CHECK(atomic_load(&bell->summary) ==
          (neighbour == 71 ? make_bit(1) : make_bit(1) | make_bit(2)));
}

START_TEST(neighbours_do_not_erase_each_other)
{
    static const struct duel d = {prepare_asleep, raise_70, raise_neighbour, judge_both};

    duel_run(&d, 200);
}
END_TEST

/* --- an engine that sleeps, and submitters --- */

/*
 * Both levels as in daemon/engine/engine.c: streams whose tail the engine polls, a bell that it
 * polls, and an eventfd, edge-triggered and never read, that it sleeps on. Submitters wait for each
 * burst to be seen before they submit the next, so what is lost stays lost.
 */
#define SUBMITTERS 4
#define STREAMS    3 /* each */

struct stream {
    _Atomic uint64_t tail;
    _Atomic uint32_t watched;
    uint64_t head; /* engine */
    bool active;   /* engine */
    _Atomic uint64_t done;
};

static struct stream streams[SESSION_STREAMS_MAX];
static int event_fd, epoll_fd;
static _Atomic bool over, engine_over;
static _Atomic uint64_t rings, naps, submissions;
static uint32_t active[SUBMITTERS * STREAMS];
static unsigned n_active;

/* Spread over words, and some in the same word. */
static uint32_t slot_of(unsigned submitter, unsigned i)
{
    return i == 0 ? submitter : submitter * 1000 + i * 63;
}

static void submit_task(uint32_t slot)
{
    struct stream *s = &streams[slot];

    atomic_fetch_add_explicit(&submissions, 1, memory_order_relaxed);
    atomic_store(&s->tail, atomic_load_explicit(&s->tail, memory_order_relaxed) + 1);
    if (!atomic_load(&s->watched) && doorbell_raise(bell, slot)) {
        atomic_fetch_add_explicit(&rings, 1, memory_order_relaxed);
        eventfd_write(event_fd, 1);
    }
}

static void *run_submitter(void *arg)
{
    unsigned me = (unsigned)(uintptr_t)arg;
    uint64_t rng = me + 1;

    while (!atomic_load(&over)) {
        for (uint32_t n = random_below(&rng, 4); n-- > 0;) {
            submit_task(slot_of(me, random_below(&rng, STREAMS)));
            burn_time(&rng, 30);
        }
        for (unsigned i = 0; i < STREAMS; i++) {
            struct stream *s = &streams[slot_of(me, i)];

            AWAIT(atomic_load(&s->done) == atomic_load(&s->tail));
        }
        burn_time(&rng, 300);
    }
    return NULL;
}

static void collect_streams(void)
{
    uint64_t summary = atomic_exchange(&bell->summary, 0);

    for (; summary; summary &= summary - 1) {
        unsigned w = (unsigned)__builtin_ctzll(summary);

        for (uint64_t bits = atomic_exchange(&bell->word[w], 0); bits; bits &= bits - 1) {
            uint32_t slot = w * 64 + (unsigned)__builtin_ctzll(bits);
            struct stream *s = &streams[slot];

            if (s->active)
                continue;
            s->active = true;
            active[n_active++] = slot;
            atomic_store_explicit(&s->watched, 1, memory_order_relaxed);
        }
    }
}

/* Look at the tails. A stream that has nothing is given up, as if its time were over. */
static void run_active(void)
{
    for (unsigned i = n_active; i-- > 0;) {
        struct stream *s = &streams[active[i]];
        uint64_t tail = atomic_load_explicit(&s->tail, memory_order_acquire);

        if (tail != s->head) {
            s->head = tail;
            atomic_store(&s->done, tail);
            continue;
        }
        atomic_store(&s->watched, 0);
        if (atomic_load(&s->tail) != s->head) {
            atomic_store_explicit(&s->watched, 1, memory_order_relaxed);
            continue;
        }
        s->active = false;
        active[i] = active[--n_active];
    }
}

static void *run_engine(void *arg)
{
    uint64_t rng = 77;
    struct epoll_event event;

    (void)arg;
    while (!atomic_load(&engine_over)) {
        int n;

        atomic_store(&bell->watched, 1);
        for (uint32_t turns = random_below(&rng, 20); turns > 0; turns--) {
            collect_streams();
            run_active();
        }
        while (n_active > 0)
            run_active();
        atomic_store(&bell->watched, 0);
        if (atomic_load(&bell->summary) != 0)
            continue;
        n = epoll_wait(epoll_fd, &event, 1, (int)(GUARD_NS / NSEC_PER_MSEC) / 2);
        CHECK(n == 1); /* a submitter is always about to submit: silence is a lost ring */
        atomic_fetch_add_explicit(&naps, 1, memory_order_relaxed);
    }
    return NULL;
}

static void run_stress(unsigned submitters)
{
    struct epoll_event event = {.events = EPOLLIN | EPOLLET};
    uint64_t end = clock_ns() + 500 * NSEC_PER_MSEC;
    pthread_t threads[SUBMITTERS + 1];

    event_fd = eventfd(0, EFD_NONBLOCK);
    epoll_fd = epoll_create1(0);
    ck_assert_int_eq(epoll_ctl(epoll_fd, EPOLL_CTL_ADD, event_fd, &event), 0);
    for (uintptr_t i = 0; i < submitters; i++)
        threads[i] = start_thread(run_submitter, (void *)i);
    threads[submitters] = start_thread(run_engine, NULL);
    while (clock_ns() < end)
        sched_yield();
    /* The engine last: it must see what is submitted until then. */
    atomic_store(&over, true);
    for (unsigned i = 0; i < submitters; i++)
        thread_join(threads[i]);
    atomic_store(&engine_over, true);
    eventfd_write(event_fd, 1);
    thread_join(threads[submitters]);
    ck_assert_uint_gt(atomic_load(&submissions), 0);
    ck_assert_uint_gt(atomic_load(&naps), 0);
    ck_assert_uint_gt(atomic_load(&rings), 0);
    close(epoll_fd);
    close(event_fd);
}

START_TEST(nothing_is_lost_with_one_submitter)
{
    run_stress(1);
}
END_TEST

START_TEST(nothing_is_lost_with_many_submitters)
{
    run_stress(SUBMITTERS);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("doorbell");
    TCase *one = suite_case(s, "one thread", 0, NULL, NULL);
    TCase *duels = suite_case(s, "duels", 60, NULL, NULL);
    TCase *many = suite_case(s, "engine and submitters", 60, NULL, NULL);

    tcase_add_test(one, raise_sets_the_bit_and_asks_for_a_ring);
    tcase_add_test(one, every_slot_has_a_bit_of_its_own);
    tcase_add_test(one, burst_rings_once);
    tcase_add_test(one, watched_bell_is_not_rung_but_set);
    tcase_add_test(one, after_the_engine_has_looked_it_rings_again);
    tcase_add_test(one, raise_between_the_two_looks_of_the_engine);
    tcase_add_test(duels, engine_sees_the_bit_or_submitter_rings);
    tcase_add_test(duels, engine_finds_the_bit_now_or_later);
    tcase_add_test(duels, neighbours_do_not_erase_each_other);
    tcase_add_test(many, nothing_is_lost_with_one_submitter);
    tcase_add_test(many, nothing_is_lost_with_many_submitters);
    return s;
}

int main(void)
{
    return run_suite(make_suite());
}
