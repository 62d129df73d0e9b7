/* Buffers: claiming and releasing slots, references to data, segments that are given back. */
#include "tests/order/atomics.h"

#include <string.h>

#include "proto/shm/mbuf_ref.h"
#include "tests/common/effort.h"
#include "tests/order/scenarios.h"

#define SLOTS 4u /* 0, 1: with data; 2, 3: without */

static struct segment_view segment;
static struct segment_page page;
static struct segment_news news;
static struct mbuf mbufs[SLOTS];
static unsigned data; /* of slot 0: plain */
static unsigned claimed, gone;

static void begin_empty(void)
{
    memset(&page, 0, sizeof(page));
    memset(&news, 0, sizeof(news));
    memset(mbufs, 0, sizeof(mbufs));
    segment = (struct segment_view){
        .page = &page, .news = &news, .mbufs = mbufs, .n_data = 2, .n_refs = 2, .id = 1};
    claimed = gone = 0;
}

/* Slot 0 is a buffer. */
static void begin_one(void)
{
    begin_empty();
    mbufs[0].word = mbuf_word(1, MBUF_CACHED, 1, 0);
    mbuf_prepare(&segment, 0, 10);
    mbuf_hold(&mbufs[0], 1);
}

/* Slots 2 and, where n is 2, 3 refer to its data as well. */
static void begin_refs(unsigned n)
{
    begin_one();
    for (unsigned i = 2; i < 2 + n; i++) {
        mbufs[i].word = mbuf_word(1, MBUF_CACHED, 1, 0);
        mbuf_refer(&segment, &mbufs[i], 0);
        mbuf_hold(&mbufs[i], 1);
    }
}
static void begin_ref(void)
{
    begin_refs(1);
}
static void begin_two_refs(void)
{
    begin_refs(2);
}

/* --- claim and release --- */

static void drop_slot(unsigned slot)
{
    bool full = false;

    PLAIN_READ(&data);
    SURE(mbuf_drop(&segment, &mbufs[slot], &full));
}
static void write_and_drop(void)
{
    PLAIN_WRITE(&data);
    drop_slot(0);
}
static void drop_0(void)
{
    drop_slot(0);
}
static void drop_2(void)
{
    drop_slot(2);
}
static void drop_3(void)
{
    drop_slot(3);
}

static void claim_slot(void)
{
    uint32_t slot = segment_claim(&segment, 0, 2, 5);

    if (slot == 2)
        return;
    SURE(slot == 0);
    claimed++;
    PLAIN_WRITE(&data);
    mbuf_prepare(&segment, slot, 20);
    mbuf_hold(&mbufs[slot], 5);
}

static void end_claim(void)
{
    SURE(claimed <= 1);
    SURE(mbuf_state(mbufs[0].word) == (claimed ? MBUF_HELD : MBUF_FREE));
}

/* One of two gets a slot that is given back, and nothing of its last holder happens after that. */
START_TEST(a_slot_changes_hands)
{
    struct order_scenario s = {"claim",   begin_one, {write_and_drop, claim_slot, claim_slot},
                               end_claim, 3,         choose_effort(12000, 200000)};

    expect_right(&s);
}
END_TEST

/* A hint may be wrong: then nothing but the word orders the two holders. */
static void begin_hinted(void)
{
    begin_one();
    page.hint[0] = 1;
}

START_TEST(a_hint_came_early)
{
    struct order_scenario s = {"hint",
                               begin_hinted,
                               {write_and_drop, claim_slot},
                               end_claim,
                               4,
                               choose_effort(12000, 200000)};

    expect_right(&s);
}
END_TEST

/* --- references --- */

static void end_free(void)
{
    for (unsigned i = 0; i < SLOTS; i++)
        SURE(mbuf_state(mbufs[i].word) == MBUF_FREE);
    SURE(page.hint[0] & 1);
}

static void end_free_or_claimed(void)
{
    SURE(mbuf_state(mbufs[2].word) == MBUF_FREE);
    end_claim();
}

/*
 * A buffer and references to its data go at the same time: the last one frees the data, exactly one
 * does.
 */
START_TEST(the_last_reference_frees)
{
    struct order_scenario two = {"two drop", begin_ref,           {drop_0, drop_2},
                                 end_free,   choose_effort(3, 5), choose_effort(12000, 200000)};
    struct order_scenario three = {"three drop", begin_two_refs,      {drop_0, drop_2, drop_3},
                                   end_free,     choose_effort(2, 3), choose_effort(12000, 200000)};
    /* The next owner of the slot writes its data: both others have finished with it. */
    struct order_scenario claimed_next = {
        "drop and claim",    begin_ref,           {drop_0, drop_2, claim_slot},
        end_free_or_claimed, choose_effort(2, 3), choose_effort(12000, 200000)};

    expect_right(&two);
    expect_right(&three);
    expect_right(&claimed_next);
}
END_TEST

static void refer_and_drop(void)
{
    mbufs[3].word = mbuf_word(1, MBUF_CACHED, 1, 0);
    SURE(mbuf_refer(&segment, &mbufs[3], 0) > 0);
    mbuf_hold(&mbufs[3], 1);
    drop_slot(2);
    drop_slot(3);
}

/* The owner of a reference makes another one while the buffer itself goes. */
START_TEST(references_are_made)
{
    struct order_scenario s = {"refer",  begin_ref,           {refer_and_drop, drop_0},
                               end_free, choose_effort(2, 4), choose_effort(12000, 200000)};

    expect_right(&s);
}
END_TEST

/* --- giving a segment back --- */

static void close_segment(void)
{
    bool all_free = true;

    atomic_store(&news.closing, 1);
    atomic_thread_fence(memory_order_seq_cst);
    for (unsigned i = 0; i < SLOTS; i++)
        all_free &= mbuf_state(atomic_load(&mbufs[i].word)) == MBUF_FREE;
    gone = all_free;
}

static void begin_free(void)
{
    begin_empty();
    page.hint[0] = 1;
}

static void end_closed(void)
{
    SURE(!(gone && claimed));
}

/* npud does not give a segment back in which a client has just got a slot. */
START_TEST(a_segment_goes)
{
    struct order_scenario s = {"closing",  begin_free, {claim_slot, close_segment},
                               end_closed, 4,          choose_effort(1000, 100000)};

    expect_right(&s);
}
END_TEST

static unsigned told, found;

static void begin_wanted(void)
{
    begin_ref();
    told = found = 0;
}

static void drop_and_tell(void)
{
    bool full = false;

    mbuf_drop(&segment, &mbufs[2], &full);
    if (full && segment_slot_wanted(&segment))
        told++;
}

/* As npud's router, which has found no slot. */
static void want_slot(void)
{
    atomic_store(&news.slot_wanted, 1);
    atomic_thread_fence(memory_order_seq_cst);
    found = mbuf_state(atomic_load_explicit(&mbufs[2].word, memory_order_acquire)) == MBUF_FREE;
}

static void end_wanted(void)
{
    SURE(told || found);
}

/* npud's router waits for a slot without data, and one becomes free: it sees it, or is told. */
START_TEST(the_router_is_told)
{
    struct order_scenario s = {"wanted",
                               begin_wanted,
                               {drop_and_tell, want_slot},
                               end_wanted,
                               4,
                               choose_effort(1000, 100000)};

    expect_right(&s);
}
END_TEST

void mbuf_case(Suite *suite)
{
    TCase *t = suite_case(suite, "buffers", 1800, NULL, NULL);

    tcase_add_test(t, a_slot_changes_hands);
    tcase_add_test(t, a_hint_came_early);
    tcase_add_test(t, the_last_reference_frees);
    tcase_add_test(t, references_are_made);
    tcase_add_test(t, a_segment_goes);
    tcase_add_test(t, the_router_is_told);
}
