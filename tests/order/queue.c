/* Queues: what travels through a ring, the threads that sleep beside it, and its end. */
#include "tests/order/atomics.h"

#include <string.h>

#include "proto/shm/mbuf_shm.h"
#include "proto/shm/queue_shm.h"
#include "tests/common/effort.h"
#include "tests/order/scenarios.h"

#define DEPTH    2u
#define MESSAGES 4u
#define NUMBER   7u

static struct segment_table table;
static struct segment_view segment;
static struct segment_page page;
static struct segment_news news;
static struct mbuf mbufs[MESSAGES];
static unsigned data[MESSAGES]; /* of the buffers: plain */
static alignas(4096) unsigned char files[2][4096];
static struct queue_news ring_news;
static struct queue_view q;
static unsigned got[MESSAGES];  /* how often the message arrived */
static unsigned kept[MESSAGES]; /* or is still its sender's */

static void reset_queue(void)
{
    memset(files, 0, sizeof(files));
    memset(&ring_news, 0, sizeof(ring_news));
    q = (struct queue_view){.put = (struct queue_put *)files[0],
                            .take = (struct queue_take *)files[1],
                            .news = &ring_news,
                            .depth = DEPTH,
                            .mask = queue_slots(DEPTH) - 1,
                            .number = NUMBER};
    segment = (struct segment_view){
        .page = &page, .news = &news, .mbufs = mbufs, .n_data = MESSAGES, .id = 1};
    table.view[1] = &segment;
    memset(mbufs, 0, sizeof(mbufs));
    for (unsigned i = 0; i < MESSAGES; i++)
        mbufs[i].word = mbuf_word_held(1, 1 + i);
    memset(got, 0, sizeof(got));
    memset(kept, 0, sizeof(kept));
}

static void wake_waiter(_Atomic uint64_t *waiting, _Atomic uint32_t *word)
{
    if (queue_waiting(waiting) != 0) {
        queue_change(word);
        FUTEX_WAKE_ONE(word);
    }
}

static void put_message(unsigned message)
{
    uint32_t seen, generation, ref = 1u << 16 | message;
    uint64_t held = atomic_load_explicit(&mbufs[message].word, memory_order_relaxed);
    enum queue_result r;

    PLAIN_WRITE(&data[message]);
    while ((r = queue_enqueue(&q, &mbufs[message], ref, held, 1 + message)) == QUEUE_FULL) {
        generation = queue_arm(&q.put->waiting, &q.take->wake, &seen);
        r = queue_enqueue(&q, &mbufs[message], ref, held, 1 + message);
        if (r == QUEUE_FULL)
            FUTEX_WAIT_ON(&q.take->wake, seen);
        queue_disarm(&q.put->waiting, generation);
        if (r != QUEUE_FULL)
            break;
    }
    SURE(r == QUEUE_OK || r == QUEUE_ENDED);
    if (r == QUEUE_OK)
        wake_waiter(&q.take->waiting, &q.put->wake);
    else
        kept[message]++;
}

/* False: there was none, and the caller does not wait; or the ring has ended. */
static bool take_message(bool wait)
{
    uint32_t seen, generation, ref, me = 100 + order_self();
    struct queue_front f;
    enum queue_result r;
    uint64_t held;

    for (;;) {
        r = queue_front(&q, &f);
        if (r == QUEUE_EMPTY && wait) {
            generation = queue_arm(&q.take->waiting, &q.put->wake, &seen);
            r = queue_front(&q, &f);
            if (r == QUEUE_EMPTY)
                FUTEX_WAIT_ON(&q.put->wake, seen);
            queue_disarm(&q.take->waiting, generation);
        }
        if (r == QUEUE_ENDED || (r == QUEUE_EMPTY && !wait))
            return false;
        if (r != QUEUE_OK)
            continue;
        if (queue_find_uncommitted(&q, f.head, &ref))
            queue_commit(&q, f.head, &table);
        r = queue_dequeue(&q, &f, mbuf_at(&table, f.ref), me, &table, &held);
        if (r != QUEUE_OK)
            continue;
        SURE((f.ref & 0xffff) < MESSAGES);
        SURE(atomic_load_explicit(&mbufs[f.ref & 0xffff].word, memory_order_relaxed) == held);
        /*
         * The consumer owns it alone: what the sender has written is there, and no other thread
         * reads what the consumer writes.
         */
        PLAIN_READ(&data[f.ref & 0xffff]);
        PLAIN_WRITE(&data[f.ref & 0xffff]);
        got[f.ref & 0xffff]++;
        wake_waiter(&q.put->waiting, &q.take->wake);
        return true;
    }
}

static void put_0(void)
{
    put_message(0);
}
static void put_1(void)
{
    put_message(1);
}
static void put_0_1_2(void)
{
    put_message(0);
    put_message(1);
    put_message(2);
}
static void put_0_1(void)
{
    put_message(0);
    put_message(1);
}
static void take_1(void)
{
    take_message(true);
}
static void take_2(void)
{
    take_message(true);
    take_message(true);
}
static void take_3(void)
{
    take_2();
    take_1();
}

static void check_messages(void)
{
    unsigned n = 0;

    for (unsigned i = 0; i < MESSAGES; i++) {
        SURE(got[i] + kept[i] <= 1);
        n += got[i];
    }
    SURE(n == queue_head_position(q.take->head));
    SURE(q.take->committed == queue_head_position(q.take->head));
    SURE((uint32_t)q.take->waiting == 0 && (uint32_t)q.put->waiting == 0);
}

/*
 * Each message arrives once, with what its sender has written, and no thread sleeps while there is
 * a message or room for it.
 */
START_TEST(messages_arrive)
{
    struct order_scenario few = {"one to one",   reset_queue,         {put_0_1, take_2},
                                 check_messages, choose_effort(2, 3), choose_effort(12000, 200000)};
    struct order_scenario full = {"a full ring",       reset_queue,
                                  {put_0_1_2, take_3}, check_messages,
                                  choose_effort(1, 2), choose_effort(12000, 200000)};
    struct order_scenario room = {"room for one",      reset_queue,
                                  {put_0_1_2, take_1}, check_messages,
                                  choose_effort(3, 4), choose_effort(12000, 200000)};
    struct order_scenario two_senders = {"two senders",          reset_queue,
                                         {put_0, put_1, take_2}, check_messages,
                                         choose_effort(1, 2),    choose_effort(12000, 200000)};
    struct order_scenario two_takers = {
        "two takers",   reset_queue,         {put_0_1, take_1, take_1},
        check_messages, choose_effort(1, 2), choose_effort(12000, 200000)};

    expect_right(&few);
    expect_right(&full);
    expect_right(&room);
    expect_right(&two_senders);
    expect_right(&two_takers);
}
END_TEST

/* --- the end of a ring --- */

static void end_ring(void)
{
    uint64_t position = queue_end(&q, QUEUE_DEAD, &table);
    uint32_t ref;

    while ((ref = queue_next(&q, &position)) != 0) {
        struct mbuf *m = mbuf_at(&table, ref);
        uint64_t word = atomic_load(&m->word);

        if (mbuf_state(word) == MBUF_SENDING && mbuf_queue(word) == NUMBER &&
            atomic_compare_exchange_strong(&m->word, &word,
                                           mbuf_word_held(mbuf_generation(word) + 1, PEER_NPUD))) {
            PLAIN_READ(&data[ref & 0xffff]);
            got[ref & 0xffff]++;
        }
    }
    queue_disarm_all(&q.take->waiting);
    queue_change(&q.put->wake);
    FUTEX_WAKE_ALL(&q.put->wake);
    queue_disarm_all(&q.put->waiting);
    queue_change(&q.take->wake);
    FUTEX_WAKE_ALL(&q.take->wake);
}

static void end_with(unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        SURE(got[i] + kept[i] == 1);
}
static void end_with_1(void)
{
    end_with(1);
}
static void end_with_3(void)
{
    end_with(3);
}

/*
 * A message is put while the ring ends: exactly one of npud, a taker and its sender has it. A
 * sleeping thread goes on.
 */
START_TEST(a_ring_ends)
{
    struct order_scenario one = {"end",      reset_queue,         {put_0, end_ring},
                                 end_with_1, choose_effort(3, 4), choose_effort(12000, 200000)};
    struct order_scenario taker = {"end with a taker",        reset_queue,
                                   {put_0, end_ring, take_1}, end_with_1,
                                   choose_effort(1, 2),       choose_effort(12000, 200000)};
    struct order_scenario full = {"end of a full ring", reset_queue, {put_0_1_2, end_ring},
                                  end_with_3,           2,           choose_effort(12000, 200000)};

    expect_right(&one);
    expect_right(&taker);
    expect_right(&full);
}
END_TEST

/*
 * A producer that finds head out of reach finds that the ring has ended, too: it does not look for
 * a place there.
 */
static void look_for_room(void)
{
    uint64_t t, head;
    enum queue_result r = queue_search(&q, true, &t, &head);

    SURE(r == QUEUE_ENDED || head < QUEUE_END);
}

START_TEST(no_room_beyond_the_end)
{
    struct order_scenario s = {
        "no room beyond the end",   reset_queue, {end_ring, look_for_room}, NULL, 3,
        choose_effort(3000, 200000)};

    expect_right(&s);
}
END_TEST

/* --- a death between two steps of taking --- */

#define DEAD 99u

/* A message was put. */
static void begin_with_a_message(void)
{
    reset_queue();
    mbufs[0].word = mbuf_word(1, MBUF_SENDING, 1, NUMBER);
    q.put->slot[0].word = queue_slot_word(0, 1u << 16);
    q.put->tail = 1;
}

/* Moves head, and is killed. */
static void take_and_die(void)
{
    struct queue_front f;

    SURE(queue_front(&q, &f) == QUEUE_OK);
    SURE(atomic_compare_exchange_strong(&q.take->head, &f.head, UINT64_C(1) << 16 | DEAD));
    order_post(&q);
}

/* What the next taker does first. */
static void commit_for_the_dead(void)
{
    uint64_t head = atomic_load_explicit(&q.take->head, memory_order_acquire);
    uint32_t ref;

    if (queue_find_uncommitted(&q, head, &ref))
        queue_commit(&q, head, &table);
}

/* npud looks once at each word, so it must see there what has become of the message. */
static void sweep_the_dead(void)
{
    uint64_t word;

    order_wait_post(&q);
    queue_commit(&q, atomic_load(&q.take->head), &table);
    word = atomic_load_explicit(&mbufs[0].word, memory_order_acquire);
    SURE(word == mbuf_word_held(2, DEAD));
}

START_TEST(npud_sees_what_others_have_committed)
{
    struct order_scenario s = {"committed for a dead taker",
                               begin_with_a_message,
                               {take_and_die, commit_for_the_dead, sweep_the_dead},
                               NULL,
                               3,
                               choose_effort(12000, 200000)};

    expect_right(&s);
}
END_TEST

void queue_case(Suite *suite)
{
    TCase *t = suite_case(suite, "queues", 1800, NULL, NULL);

    tcase_add_test(t, messages_arrive);
    tcase_add_test(t, a_ring_ends);
    tcase_add_test(t, no_room_beyond_the_end);
    tcase_add_test(t, npud_sees_what_others_have_committed);
}
