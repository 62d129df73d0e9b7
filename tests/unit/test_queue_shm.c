/*
 * Rings of proto/shm/queue_shm.h between threads and between processes that run at the same time,
 * that are held up at the places where they could be killed, or are killed there; and rings in
 * which a hostile peer has written nonsense. Every message comes exactly once, in the order of its
 * sender.
 */
#define NPUD_KILL_POINTS
#include "unit.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "proto/util/futex.h"
#include "proto/shm/mbuf_ref.h"
#include "proto/shm/queue_shm.h"
#include "tests/common/child.h"

#define BUFFERS  256u
#define DEPTH    3u
#define SENDERS  4096u /* peer ids of one test */
#define EACH_MAX 4096u /* messages of one sender */
#define NOBODY   0xffffu

/* --- what all share --- */

static struct world {
    alignas(4096) unsigned char put[4096];
    alignas(4096) unsigned char take[4096];
    struct segment_page page;
    struct segment_news news;
    struct queue_news ring_news;
    struct mbuf mbufs[BUFFERS];
    _Atomic uint32_t seen[SENDERS][EACH_MAX / 32]; /* messages that have come, a bit each */
    _Atomic uint32_t sent[SENDERS];                /* messages that a sender knows it has sent */
    _Atomic uint64_t came;
    _Atomic uint32_t closed;   /* takers end when nothing is left */
    _Atomic uint64_t progress; /* for peers that are held up */
    _Atomic uint32_t wrong;    /* line of the first thing that was */
} * world;

static struct segment_table table;
static struct segment_view segment;
static struct queue_view ring;

/* The peer that runs. */
static __thread struct {
    uint32_t peer_id;
    uint64_t rng;
    uint32_t lives; /* kill points to pass before the process ends itself; 0: it does not */
    bool held_up;   /* now and then, for a long time */
} me;

#define RIGHT(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            uint32_t none_ = 0;                                                                    \
            atomic_compare_exchange_strong(&world->wrong, &none_, __LINE__);                       \
        }                                                                                          \
    } while (0)

/* Until the others have got on, by some laps at most, or do not any more. */
static void hold_up(void)
{
    uint64_t until = atomic_load(&world->progress) + random_below(&me.rng, 8 * DEPTH);

    for (int i = 0; i < 100 && atomic_load(&world->progress) < until; i++)
        sched_yield();
}

void kill_point(enum kill_point point)
{
    (void)point;
    if (me.lives > 0 && --me.lives == 0)
        kill(getpid(), SIGKILL);
    if (me.held_up && random_below(&me.rng, 128) == 0)
        hold_up();
}

/* Of the process. */
static _Atomic uint64_t head_seen;

static void world_make(uint64_t start)
{
    world = mmap(NULL, sizeof(*world), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(world, MAP_FAILED);
    segment = (struct segment_view){.page = &world->page,
                                    .news = &world->news,
                                    .mbufs = world->mbufs,
                                    .stride = 64,
                                    .number = 1,
                                    .n_data = BUFFERS,
                                    .id = 1};
    memset(world->page.hint, 0xff, BUFFERS / 8);
    table.view[1] = &segment;
    ring = (struct queue_view){.put = (struct queue_put *)world->put,
                               .take = (struct queue_take *)world->take,
                               .news = &world->ring_news,
                               .depth = DEPTH,
                               .mask = queue_slots(DEPTH) - 1,
                               .number = 77,
                               .seen = &head_seen};
    atomic_store(&head_seen, start);
    ck_assert_uint_le(queue_put_size(DEPTH), sizeof(world->put));
    atomic_store(&ring.put->tail, start);
    atomic_store(&ring.take->head, start << 16);
    atomic_store(&ring.take->committed, start);
    for (uint64_t p = start; start > 0 && p <= start + ring.mask; p++)
        atomic_store(&ring.put->slot[p & ring.mask].word, queue_slot_word(p - ring.mask - 1, 1));
}

static void world_end(void)
{
    for (uint32_t i = 0; i < BUFFERS; i++)
        ck_assert_uint_eq(mbuf_state(atomic_load(&world->mbufs[i].word)), MBUF_FREE);
    munmap(world, sizeof(*world));
}

/* --- clients --- */

/* What is in a buffer. */
struct content {
    uint32_t sender, number, check;
};

static struct content *content_of(struct mbuf *m)
{
    return (struct content *)(void *)m->user;
}

static void wake_waiters(_Atomic uint64_t *waiting, _Atomic uint32_t *word)
{
    if (queue_waiting(waiting) == 0)
        return;
    atomic_fetch_add(word, 1);
    futex_wake_all(word);
}

static void sleep_on_word(_Atomic uint32_t *word, uint32_t seen)
{
    struct timespec guard = timespec_from_ns(clock_ns() + GUARD_NS);

    if (futex_wait_until(word, seen, &guard) == -ETIMEDOUT)
        RIGHT(!"woken");
}

static uint32_t alloc_buffer(void)
{
    uint32_t slot;

    while ((slot = segment_claim(&segment, 0, BUFFERS, me.peer_id)) == BUFFERS)
        sched_yield();
    mbuf_prepare(&segment, slot, 64);
    return slot;
}

static void send_message(uint32_t number)
{
    uint32_t slot = alloc_buffer(), ref = segment.id << 16 | slot, generation, seen;
    struct mbuf *m = &segment.mbufs[slot];
    uint64_t held;
    enum queue_result r;

    *content_of(m) = (struct content){me.peer_id, number, me.peer_id * 31 + number};
    held = mbuf_hold(m, me.peer_id);
    while ((r = queue_enqueue(&ring, m, ref, held, me.peer_id)) == QUEUE_FULL) {
        generation = queue_arm(&ring.put->waiting, &ring.take->wake, &seen);
        r = queue_enqueue(&ring, m, ref, held, me.peer_id);
        if (r == QUEUE_FULL)
            sleep_on_word(&ring.take->wake, seen);
        queue_disarm(&ring.put->waiting, generation);
        if (r != QUEUE_FULL)
            break;
    }
    RIGHT(r == QUEUE_OK);
    atomic_store(&world->sent[me.peer_id], number + 1);
    atomic_fetch_add(&world->progress, 1);
    wake_waiters(&ring.take->waiting, &ring.put->wake);
}

/* Has come now; false: had come before. */
static bool note_message(const struct content *c)
{
    uint32_t bit = UINT32_C(1) << c->number % 32;

    if (c->sender >= SENDERS || c->number >= EACH_MAX)
        return false;
    return !(atomic_fetch_or(&world->seen[c->sender][c->number / 32], bit) & bit);
}

static void consume_message(struct mbuf *m, uint32_t *next)
{
    struct content c = *content_of(m);

    RIGHT(c.check == c.sender * 31 + c.number);
    RIGHT(note_message(&c));
    RIGHT(c.sender < SENDERS && c.number >= next[c.sender]);
    if (c.sender < SENDERS)
        next[c.sender] = c.number + 1;
    mbuf_drop(&segment, m, &(bool){false});
    atomic_fetch_add(&world->came, 1);
    atomic_fetch_add(&world->progress, 1);
    wake_waiters(&ring.put->waiting, &ring.take->wake);
}

/* False: the queue is empty, and closed. */
static bool take_message(uint32_t *next)
{
    struct queue_front f;
    enum queue_result r = queue_front(&ring, &f);
    uint32_t generation, seen, ref;
    uint64_t held;

    if (r == QUEUE_EMPTY) {
        generation = queue_arm(&ring.take->waiting, &ring.put->wake, &seen);
        r = queue_front(&ring, &f);
        if (r == QUEUE_EMPTY && atomic_load(&world->closed))
            return false;
        if (r == QUEUE_EMPTY)
            sleep_on_word(&ring.put->wake, seen);
        queue_disarm(&ring.take->waiting, generation);
    }
    if (r != QUEUE_OK)
        return true;
    if (queue_find_uncommitted(&ring, f.head, &ref))
        queue_commit(&ring, f.head, &table);
    r = queue_dequeue(&ring, &f, mbuf_at(&table, f.ref), me.peer_id, &table, &held);
    RIGHT(r != QUEUE_NOTHING);
    if (r == QUEUE_OK)
        consume_message(&segment.mbufs[f.ref & 0xffff], next);
    return true;
}

static void close_queue(void)
{
    atomic_store(&world->closed, 1);
    atomic_fetch_add(&ring.put->wake, 1);
    futex_wake_all(&ring.put->wake);
}

static void become_peer(uint32_t peer_id, bool held_up)
{
    me.peer_id = peer_id;
    me.rng = peer_id * UINT64_C(0x9e3779b97f4a7c15) + 1;
    me.held_up = held_up;
    me.lives = 0;
}

static void run_sender(uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        send_message(i);
}

static void run_taker(void)
{
    uint32_t *next = calloc(SENDERS, sizeof(*next));

    while (take_message(next) && !atomic_load(&world->wrong))
        ;
    free(next);
}

static void check_all_came(uint32_t from, uint32_t to, uint32_t each)
{
    ck_assert_uint_eq(atomic_load(&world->wrong), 0);
    for (uint32_t s = from; s < to; s++)
        for (uint32_t i = 0; i < each; i++)
            CHECK(atomic_load(&world->seen[s][i / 32]) >> i % 32 & 1);
    ck_assert_uint_eq(atomic_load(&ring.take->committed),
                      queue_head_position(atomic_load(&ring.take->head)));
}

/* --- threads --- */

#define SIDE 3
#define EACH 2000u

static bool hold_threads_up;

static void *sender_thread(void *arg)
{
    become_peer((uint32_t)(uintptr_t)arg, hold_threads_up);
    run_sender(EACH);
    return NULL;
}

static void *taker_thread(void *arg)
{
    become_peer((uint32_t)(uintptr_t)arg, hold_threads_up);
    run_taker();
    return NULL;
}

static void run_threads(uint64_t start)
{
    pthread_t sender[SIDE], taker[SIDE];

    world_make(start);
    for (uintptr_t i = 0; i < SIDE; i++) {
        taker[i] = start_thread(taker_thread, (void *)(100 + i));
        sender[i] = start_thread(sender_thread, (void *)(1 + i));
    }
    for (int i = 0; i < SIDE; i++)
        thread_join(sender[i]);
    close_queue();
    for (int i = 0; i < SIDE; i++)
        thread_join(taker[i]);
    check_all_came(1, 1 + SIDE, EACH);
    world_end();
}

START_TEST(threads)
{
    static const uint64_t start[] = {0, 5, UINT32_MAX - 1000, UINT32_MAX - 1};

    hold_threads_up = _i % 2;
    run_threads(start[_i / 2]);
}
END_TEST

/* --- processes --- */

struct life {
    uint32_t peer, lives;
};

static void begin_life(const struct life *life)
{
    alarm(0); /* the test has a limit of its own */
    become_peer(life->peer, life->peer % 2);
    me.lives = life->lives;
}

static int run_sender_process(void *arg)
{
    const struct life *life = arg;

    begin_life(life);
    run_sender(life->lives ? 200 : EACH);
    return 0;
}

static int run_taker_process(void *arg)
{
    uint32_t *next = calloc(SENDERS, sizeof(*next));

    begin_life(arg);
    while (take_message(next) && !atomic_load(&world->wrong))
        ;
    return 0;
}

START_TEST(processes)
{
    pid_t sender[SIDE], taker[SIDE];

    world_make(_i ? UINT32_MAX - 500 : 0);
    for (uint32_t i = 0; i < SIDE; i++) {
        taker[i] = child_start(run_taker_process, &(struct life){100 + i, 0});
        sender[i] = child_start(run_sender_process, &(struct life){1 + i, 0});
    }
    for (int i = 0; i < SIDE; i++)
        child_expect_ok(sender[i]);
    close_queue();
    for (int i = 0; i < SIDE; i++)
        child_expect_ok(taker[i]);
    check_all_came(1, 1 + SIDE, EACH);
    world_end();
}
END_TEST

/* --- deaths --- */

static bool in_ring(uint32_t ref)
{
    uint64_t position = atomic_load(&ring.take->committed);
    uint32_t r;

    while ((r = queue_next(&ring, &position)) != 0)
        if (r == ref)
            return true;
    return false;
}

/* What the dead one holds goes; a message that it had taken has come. */
static void release_buffer(uint32_t slot, uint32_t dead)
{
    struct mbuf *m = &segment.mbufs[slot];
    uint64_t word = atomic_load(&m->word);

    if (mbuf_state(word) == MBUF_SENDING && mbuf_session(word) == dead) {
        uint64_t held = mbuf_word_held(mbuf_generation(word) + 1, dead);

        if (in_ring(segment.id << 16 | slot) ||
            !atomic_compare_exchange_strong(&m->word, &word, held))
            return;
        word = held;
    }
    if ((mbuf_state(word) != MBUF_HELD && mbuf_state(word) != MBUF_CACHED) ||
        mbuf_session(word) != dead)
        return;
    if (mbuf_state(word) == MBUF_HELD && content_of(m)->sender != dead)
        note_message(content_of(m));
    mbuf_release(&segment, m);
}

/* As npud does it. */
static void sweep_peer(uint32_t dead)
{
    queue_commit(&ring, atomic_load(&ring.take->head), &table);
    queue_disarm_all(&ring.take->waiting);
    atomic_fetch_add(&ring.put->wake, 1);
    futex_wake_all(&ring.put->wake);
    queue_disarm_all(&ring.put->waiting);
    atomic_fetch_add(&ring.take->wake, 1);
    futex_wake_all(&ring.take->wake);
    for (uint32_t i = 0; i < BUFFERS; i++) {
        release_buffer(i, dead);
        if (mbuf_state(atomic_load(&segment.mbufs[i].word)) == MBUF_FREE)
            segment_hint(&segment, i);
    }
}

struct party {
    pid_t pid;
    uint32_t peer_id;
    bool sends;
};

static void party_start(struct party *p, uint32_t peer_id, uint32_t lives)
{
    p->peer_id = peer_id;
    p->pid = child_start(p->sends ? run_sender_process : run_taker_process,
                         &(struct life){peer_id, lives});
}

/* Waits for the end of any. Returns which, and whether it was killed. */
static struct party *party_await(struct party *p, unsigned n, bool *killed)
{
    int status;
    pid_t pid = wait(&status);
    unsigned i = 0;

    ck_assert_int_gt(pid, 0);
    *killed = WIFSIGNALED(status);
    ck_assert(*killed ? WTERMSIG(status) == SIGKILL : WEXITSTATUS(status) == 0);
    while (i < n && p[i].pid != pid)
        i++;
    ck_assert_uint_lt(i, n);
    return &p[i];
}

#define PARTIES 5
#define DEATHS  400u

START_TEST(every_message_comes_once_however_many_die)
{
    struct party party[PARTIES] = {{.sends = true}, {.sends = true}, {.sends = true}};
    uint64_t rng = 1 + (uint64_t)_i;
    uint32_t peer_id = 1, deaths = 0, left = PARTIES;
    uint32_t *next = calloc(SENDERS, sizeof(*next));

    world_make(_i ? UINT32_MAX - 3000 : 0);
    for (unsigned i = 0; i < PARTIES; i++)
        party_start(&party[i], peer_id++, 1 + random_below(&rng, 300));
    while (left > 0) {
        bool killed, over;
        struct party *p = party_await(party, PARTIES, &killed);

        sweep_peer(p->peer_id);
        deaths += killed;
        over = deaths >= DEATHS || atomic_load(&world->wrong) || peer_id >= SENDERS - PARTIES;
        /* Senders end by themselves then, takers when nothing is left. */
        if (over && p->sends)
            left--;
        else if (over && !killed)
            left--;
        else
            party_start(p, peer_id++, over ? 0 : 1 + random_below(&rng, 300));
        if (over && left <= 2)
            close_queue();
    }
    become_peer(SENDERS - 1, false);
    while (take_message(next))
        ;
    ck_assert_uint_eq(atomic_load(&world->wrong), 0);
    for (uint32_t s = 1; s < peer_id; s++)
        check_all_came(s, s + 1, atomic_load(&world->sent[s]));
    free(next);
    world_end();
}
END_TEST

/* --- nonsense --- */

static uint64_t draw_nonsense(uint64_t *rng)
{
    uint64_t n = random_next(rng);

    switch (random_below(rng, 4)) {
    case 0:
        return n;
    case 1:
        return n & 0xf;
    case 2:
        return (n & 0xf) << 16 | (n >> 60);
    default:
        return queue_slot_word(n & 7, 1u << 16 | (uint32_t)(n >> 56));
    }
}

/* All calls come to an end, and touch nothing outside: the sanitizers see to that. */
START_TEST(nonsense_in_a_ring_harms_nobody_else)
{
    uint64_t rng = 7, position, held;
    struct queue_front f;
    uint32_t ref, seen;

    world_make(0);
    ring.put = aligned_alloc(64, sizeof(*ring.put) + (ring.mask + 1) * sizeof(struct queue_slot));
    ring.take = aligned_alloc(64, sizeof(*ring.take));
    become_peer(1, false);
    for (int round = 0; round < 20000; round++) {
        uint64_t *words = (uint64_t *)ring.put;

        for (size_t i = 0;
             i < (sizeof(*ring.put) + (ring.mask + 1) * sizeof(struct queue_slot)) / 8; i++)
            words[i] = draw_nonsense(&rng);
        ring.news->state = QUEUE_LIVE;
        words = (uint64_t *)ring.take;
        for (size_t i = 0; i < sizeof(*ring.take) / 8; i++)
            words[i] = draw_nonsense(&rng);
        for (uint32_t i = 0; i < BUFFERS; i++)
            atomic_store(&segment.mbufs[i].word, draw_nonsense(&rng));
        if (round % 64 == 0)
            queue_enqueue(&ring, &segment.mbufs[0], 1u << 16, segment.mbufs[0].word, 1);
        if (queue_front(&ring, &f) == QUEUE_OK) {
            queue_find_uncommitted(&ring, f.head, &ref);
            queue_commit(&ring, f.head, &table);
            queue_dequeue(&ring, &f, mbuf_at(&table, f.ref), 1, &table, &held);
        }
        queue_disarm(&ring.put->waiting, queue_arm(&ring.put->waiting, &ring.take->wake, &seen));
        queue_disarm_all(&ring.take->waiting);
        ck_assert_uint_le(queue_fill(&ring), DEPTH);
        position = queue_end(&ring, QUEUE_DEAD, &table);
        for (uint32_t i = 0; i <= ring.mask && queue_next(&ring, &position); i++)
            ;
    }
    free(ring.put);
    free(ring.take);
    munmap(world, sizeof(*world));
}
END_TEST

#ifdef __SANITIZE_THREAD__
#define UNDER_TSAN 1
#else
#define UNDER_TSAN 0
#endif

int main(void)
{
    Suite *suite = suite_create("queue_shm");
    TCase *tc = suite_case(suite, "rings", 300, NULL, NULL);

    tcase_add_loop_test(tc, threads, 0, 8);
    /* The thread sanitizer sees one process. */
    tcase_add_loop_test(tc, processes, 0, UNDER_TSAN ? 0 : 2);
    tcase_add_loop_test(tc, every_message_comes_once_however_many_die, 0, UNDER_TSAN ? 0 : 2);
    tcase_add_test(tc, nonsense_in_a_ring_harms_nobody_else);
    return run_suite(suite);
}
