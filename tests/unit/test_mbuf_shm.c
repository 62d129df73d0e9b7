/*
 * Shared buffers between threads and between processes, at full speed: references come and go,
 * slots are used again and again, processes are killed wherever they are; npud's sweep makes the
 * count exact. Step by step: test_mbuf_steps.c.
 */
#include "npud.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>

#include "daemon/buffers/pool.h"
#include "daemon/buffers/segment.h"
#include "daemon/buffers/segment_use.h"
#include "daemon/buffers/sweep.h"
#include "proto/shm/mbuf_ref.h"
#include "tests/common/child.h"

#define WORKERS     4u
#define DATA        16u /* buffers in play */
#define BOARD       64u /* places where references are handed on */
#define HAS_MAX     32u
#define KILLS       300u
#define THREAD_ACTS 1000000

/*
 * A place: the ref's slot + 1 of a buffer that only the place owns (CACHED by session `board`, so
 * no sweep of a worker's takes it).
 */
static struct board {
    _Atomic uint32_t place[BOARD];
    _Atomic uint64_t rounds;
} * board;

static struct {
    struct session *session[WORKERS];
    struct session *keeper; /* of what is on the board */
    struct segment *segment;
    struct segment_view view;
    void *map;
} w;

/* --- a worker, thread or process --- */

struct worker {
    uint32_t number; /* share */
    uint64_t rng;
    uint32_t has[HAS_MAX], n;
};

static void hold_buffer(struct worker *a, uint32_t slot)
{
    mbuf_hold(&w.view.mbufs[slot], a->number);
    a->has[a->n++] = slot;
}

static uint32_t take_any(struct worker *a)
{
    uint32_t i = random_below(&a->rng, a->n), slot = a->has[i];

    a->has[i] = a->has[--a->n];
    return slot;
}

static void do_alloc(struct worker *a)
{
    uint32_t slot = segment_claim(&w.view, 0, DATA, a->number);
    unsigned char *data;

    if (slot == DATA)
        return;
    mbuf_prepare(&w.view, slot, 128);
    /*
     * No worker writes to data to which another worker has a reference: the stamp stays as long as
     * there is a reference.
     */
    data = w.view.data + slot * w.view.stride;
    memset(data, (int)random_below(&a->rng, 256), 128);
    hold_buffer(a, slot);
}

static void check_data(uint32_t slot)
{
    uint32_t block = atomic_load_explicit(&w.view.mbufs[slot].block, memory_order_relaxed);
    const unsigned char *data = w.view.data + block * w.view.stride;

    for (int i = 1; i < 128; i++)
        CHECK(data[i] == data[0]);
}

static void do_refer(struct worker *a)
{
    uint32_t of = a->has[random_below(&a->rng, a->n)], slot;

    slot = segment_claim(&w.view, DATA, segment_slots(&w.view), a->number);
    if (slot == segment_slots(&w.view))
        return;
    CHECK(mbuf_refer(&w.view, &w.view.mbufs[slot],
                     atomic_load_explicit(&w.view.mbufs[of].block, memory_order_relaxed)) > 1);
    hold_buffer(a, slot);
}

static void do_drop(struct worker *a)
{
    uint32_t slot = take_any(a);
    bool full;

    check_data(slot);
    CHECK(mbuf_drop(&w.view, &w.view.mbufs[slot], &full));
}

/*
 * The word is written first: a worker that is killed in between has put nothing. The keeper lives
 * and owns the buffer, which no worker finds until the end.
 */
static void do_put(struct worker *a)
{
    _Atomic uint32_t *place = &board->place[random_below(&a->rng, BOARD)];
    uint32_t none = 0, slot;

    if (atomic_load_explicit(place, memory_order_relaxed) != 0)
        return;
    slot = take_any(a);
    check_data(slot);
    mbuf_hold(&w.view.mbufs[slot], w.keeper->peer_id);
    if (!atomic_compare_exchange_strong(place, &none, slot + 1))
        hold_buffer(a, slot);
}

static void do_take(struct worker *a)
{
    uint32_t slot = atomic_exchange(&board->place[random_below(&a->rng, BOARD)], 0);

    if (slot != 0)
        hold_buffer(a, slot - 1);
}

static void do_random_act(struct worker *a)
{
    static void (*const acts[])(struct worker *) = {do_alloc, do_refer, do_refer, do_drop,
                                                    do_drop,  do_put,   do_take};
    uint32_t i = random_below(&a->rng, sizeof(acts) / sizeof(acts[0]));

    if (a->n == 0)
        i = random_below(&a->rng, 2) ? 0 : 6;
    if (a->n == HAS_MAX)
        i = 3;
    acts[i](a);
}

static void *work_thread(void *arg)
{
    struct worker *a = arg;

    for (int i = 0; i < THREAD_ACTS; i++)
        do_random_act(a);
    while (a->n > 0)
        do_drop(a);
    return NULL;
}

/* --- the end --- */

static void drop_held_by(const struct session *session)
{
    bool full;

    for (uint32_t slot = 0; slot < segment_slots(&w.view); slot++) {
        uint64_t word = atomic_load(&w.view.mbufs[slot].word);

        if (mbuf_state(word) == MBUF_HELD && mbuf_session(word) == session->peer_id)
            CHECK(mbuf_drop(&w.view, &w.view.mbufs[slot], &full));
    }
}

static void check_nothing_left(void)
{
    uint32_t from = 0;

    CHECK(!w.segment->damaged);
    for (uint32_t slot = 0; slot < segment_slots(&w.view); slot++) {
        CHECK(mbuf_state(atomic_load(&w.view.mbufs[slot].word)) == MBUF_FREE);
        CHECK(atomic_load(&w.view.page->hint[slot / 64]) >> slot % 64 & 1);
        CHECK(mbuf_refs_count(atomic_load(&w.view.mbufs[slot].refs)) == 0 ||
              (slot < w.view.n_data && mbuf_unshared(&w.view.mbufs[slot], slot)));
    }
    CHECK(segment_look_at_slots(w.segment, &from, UINT32_MAX) == SEGMENT_GONE);
}

/* References by block, as their slots have them, are what the counts say. */
static void check_counts(void)
{
    uint32_t count[DATA] = {0};

    for (uint32_t slot = 0; slot < segment_slots(&w.view); slot++) {
        const struct mbuf *m = &w.view.mbufs[slot];
        uint64_t op = atomic_load(&m->op);

        if (mbuf_state(atomic_load(&m->word)) == MBUF_HELD) {
            CHECK(mbuf_op_of(op) == MBUF_HAS);
            count[mbuf_op_block(op)]++;
        }
    }
    for (uint32_t slot = 0; slot < DATA; slot++)
        if (count[slot] > 0)
            CHECK(mbuf_refs_count(atomic_load(&w.view.mbufs[slot].refs)) == count[slot]);
}

static void start_world(void)
{
    npud_start(NULL);
    w.keeper = npud_session(getpid());
    ck_assert_int_eq(segment_new(pool_get(w.keeper), 128, DATA, &w.segment), 0);
    for (uint32_t i = 0; i < WORKERS; i++) {
        w.session[i] = npud_session(getpid());
        ck_assert(segment_map(peer_get(w.session[i]), w.segment));
    }
    w.view = w.segment->view;
    w.map = mmap(NULL, w.segment->size, PROT_READ | PROT_WRITE, MAP_SHARED, w.segment->fd, 0);
    ck_assert_ptr_ne(w.map, MAP_FAILED);
    segment_view_place(&w.view, w.map, true);
    board = mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(board, MAP_FAILED);
}

static void stop_world(void)
{
    munmap(board, sizeof(*board));
    munmap(w.map, w.segment->size);
    for (uint32_t i = 0; i < WORKERS; i++)
        session_free(w.session[i]);
    session_free(w.keeper);
    npud_stop();
}

/* --- tests --- */

START_TEST(threads_share_buffers)
{
    struct worker worker[WORKERS];
    pthread_t thread[WORKERS];

    for (uint32_t i = 0; i < WORKERS; i++) {
        worker[i] = (struct worker){.number = w.session[i]->peer_id, .rng = i + 1};
        thread[i] = start_thread(work_thread, &worker[i]);
    }
    for (uint32_t i = 0; i < WORKERS; i++)
        thread_join(thread[i]);
    check_counts();
    drop_held_by(w.keeper);
    check_nothing_left();
}
END_TEST

static int act_until_killed(void *arg)
{
    struct worker *a = arg;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (;;) {
        do_random_act(a);
        if (random_below(&a->rng, 64) == 0)
            atomic_fetch_add_explicit(&board->rounds, 1, memory_order_relaxed);
    }
    return 0;
}

static pid_t start_process(uint32_t i, uint64_t seed)
{
    struct worker a = {.number = w.session[i]->peer_id, .rng = seed};

    return child_start(act_until_killed, &a);
}

/* What a dead worker has left is the place's or gone; whatever it was doing. */
START_TEST(processes_are_killed)
{
    pid_t pid[WORKERS];
    uint64_t rng = 7, end = clock_ns() + 5 * NSEC_PER_SEC, kills;

    for (uint32_t i = 0; i < WORKERS; i++)
        pid[i] = start_process(i, i + 1);
    for (kills = 0; kills < KILLS && clock_ns() < end; kills++) {
        uint32_t i = random_below(&rng, WORKERS);
        uint64_t rounds = atomic_load(&board->rounds), guard = clock_ns() + GUARD_NS;

        /* Some work is done in between, by whomever. */
        while (atomic_load(&board->rounds) - rounds < 1 + random_below(&rng, 4)) {
            CHECK(clock_ns() < guard);
            sched_yield();
        }
        child_kill(pid[i]);
        sweep_peer(w.session[i]->peer);
        pid[i] = start_process(i, random_next(&rng) | 1);
    }
    for (uint32_t i = 0; i < WORKERS; i++) {
        child_kill(pid[i]);
        sweep_peer(w.session[i]->peer);
    }
    ck_assert_uint_gt(kills, 5);
    check_counts();
    drop_held_by(w.keeper);
    check_nothing_left();
}
END_TEST

/* The numbers go round: generations of a word, numbers of a count. */
START_TEST(numbers_wrap)
{
    struct worker a = {.number = w.session[0]->peer_id, .rng = 3};
    struct mbuf *m;
    uint64_t word;

    for (uint32_t slot = 0; slot < segment_slots(&w.view); slot++) {
        m = &w.view.mbufs[slot];
        atomic_store(&m->word, mbuf_word(MBUF_GENERATION - 2, MBUF_FREE, 0, 0));
        atomic_store(&m->refs, mbuf_refs(0, slot, UINT32_MAX - 3));
    }
    word = mbuf_word(MBUF_GENERATION + 1, MBUF_HELD, 0xffff, 0xffff);
    ck_assert_uint_eq(mbuf_generation(word), 0);
    ck_assert_int_eq(mbuf_state(word), MBUF_HELD);
    ck_assert_uint_eq(mbuf_session(word), 0xffff);
    ck_assert_uint_eq(mbuf_queue(word), 0xffff);
    for (int i = 0; i < 100000; i++)
        do_random_act(&a);
    check_counts();
    sweep_peer(w.session[0]->peer);
    drop_held_by(w.keeper);
    check_nothing_left();
    for (uint32_t slot = 0; slot < DATA; slot++)
        ck_assert_uint_lt(mbuf_generation(atomic_load(&w.view.mbufs[slot].word)), 1u << 27);
}
END_TEST

/* More references than a count can hold are refused, and nothing is lost by that. */
START_TEST(references_end)
{
    struct worker a = {.number = w.session[0]->peer_id, .rng = 3};
    uint32_t slot;

    do_alloc(&a);
    atomic_store(&w.view.mbufs[a.has[0]].refs, mbuf_refs(UINT16_MAX, a.has[0], 7));
    slot = segment_claim(&w.view, DATA, segment_slots(&w.view), a.number);
    ck_assert_int_eq(mbuf_refer(&w.view, &w.view.mbufs[slot], a.has[0]), MBUF_REF_NONE);
    ck_assert_int_eq(mbuf_refer(&w.view, &w.view.mbufs[slot], DATA), MBUF_REF_NONE);
    ck_assert_int_eq(mbuf_refer(&w.view, &w.view.mbufs[slot], UINT32_MAX), MBUF_REF_NONE);
    mbuf_release(&w.view, &w.view.mbufs[slot]);
    atomic_store(&w.view.mbufs[a.has[0]].refs, mbuf_refs(1, a.has[0], 7));
    do_drop(&a);
    check_nothing_left();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("mbuf_shm");
    TCase *t = suite_case(suite, "mbuf_shm", 60, start_world, stop_world);

    tcase_add_test(t, threads_share_buffers);
    tcase_add_test(t, processes_are_killed);
    tcase_add_test(t, numbers_wrap);
    tcase_add_test(t, references_end);
    return run_suite(suite);
}
