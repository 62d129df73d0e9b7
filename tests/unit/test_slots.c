/* proto/slots: numbered objects with generations, at addresses that never change. */
#include "proto/util/slots.h"

#include <stdalign.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "unit.h"

struct object {
    struct slot slot;
    _Atomic uint64_t value;
    unsigned char fill[20];
};

static struct slots table;

static void init_table(void)
{
    slots_init(&table, sizeof(struct object), 4096, 100);
}

static void deinit_table(void)
{
    slots_deinit(&table);
}

static struct object *take_object(void)
{
    struct object *o = slots_take(&table);

    ck_assert_ptr_nonnull(o);
    return o;
}

static struct object *take_live(void)
{
    struct object *o = take_object();

    slots_publish(o);
    return o;
}

START_TEST(taken_is_not_live_until_published)
{
    struct object *o = take_object();

    ck_assert_uint_eq(o->slot.number, 0);
    ck_assert(!slot_live(o));
    ck_assert_ptr_null(slots_get(&table, 0));
    ck_assert_ptr_eq(slots_at(&table, 0), o);
    slots_publish(o);
    ck_assert(slot_live(o));
    ck_assert_ptr_eq(slots_get(&table, 0), o);
    ck_assert_ptr_eq(slots_get_generation(&table, 0, slot_generation(o)), o);
    ck_assert_uint_eq(table.live, 1);
}
END_TEST

START_TEST(first_owner_finds_zeros_and_the_next_what_he_left)
{
    static const struct object zero;
    struct object *o = take_object();

    ck_assert_mem_eq((char *)o + sizeof(o->slot), (const char *)&zero + sizeof(zero.slot),
                     sizeof(*o) - sizeof(o->slot));
    atomic_store(&o->value, 42);
    slots_put(&table, o);
    ck_assert_ptr_eq(take_object(), o);
    ck_assert_uint_eq(atomic_load(&o->value), 42);
}
END_TEST

/* Each number has a place of its own, which 24 bits hold; all other places are of no slot. */
START_TEST(a_place_is_of_one_slot)
{
    struct slots small;
    uint32_t numbers = 0;

    for (uint32_t place = 0; place < 1u << 24; place++) {
        uint32_t number = slots_number(place);

        if (number == SLOTS_NONE) {
            CHECK(slots_at_place(&table, place) == NULL);
            continue;
        }
        CHECK(slots_place(number) == place);
        numbers++;
    }
    ck_assert_uint_eq(numbers, (SLOTS_FIRST << SLOTS_CHUNKS) - SLOTS_FIRST);
    slots_init(&small, sizeof(struct object), 1000, 1);
    ck_assert_ptr_null(slots_at_place(&small, slots_place(0)));
    for (uint32_t i = 0; i < 1000; i++)
        ck_assert_ptr_eq(slots_take(&small), slots_at_place(&small, slots_place(i)));
    for (uint32_t i = 0; i < 1000; i++)
        CHECK(slots_at_place(&small, slots_place(i)) == slots_at(&small, i));
    /* Behind the last one there may be memory, but nothing lives in it. */
    for (uint32_t i = 1000; i < 3000; i++) {
        void *object = slots_at_place(&small, slots_place(i));

        CHECK(!object || !slot_live(object));
    }
    slots_deinit(&small);
}
END_TEST

START_TEST(put_makes_the_number_stale)
{
    struct object *o = take_live();
    uint32_t generation = slot_generation(o);

    ck_assert_uint_eq(generation, 100);
    slots_put(&table, o);
    ck_assert_ptr_null(slots_get(&table, 0));
    ck_assert_ptr_null(slots_get_generation(&table, 0, generation));
    ck_assert_uint_eq(table.live, 0);
    ck_assert_ptr_eq(take_live(), o);
    ck_assert_uint_eq(o->slot.number, 0);
    ck_assert_uint_eq(slot_generation(o), 101);
    ck_assert_ptr_null(slots_get_generation(&table, 0, generation));
    ck_assert_ptr_eq(slots_get_generation(&table, 0, 101), o);
    ck_assert_ptr_null(slots_get_generation(&table, 0, 102));
}
END_TEST

START_TEST(put_of_what_was_never_published_counts_as_well)
{
    struct object *o = take_object();

    slots_put(&table, o);
    ck_assert_ptr_eq(take_object(), o);
    ck_assert_uint_eq(slot_generation(o), 101);
    ck_assert(!slot_live(o));
}
END_TEST

START_TEST(unpublished_is_hidden_but_taken)
{
    struct object *o = take_live();

    slots_unpublish(o);
    ck_assert_ptr_null(slots_get(&table, 0));
    ck_assert_ptr_null(slots_get_generation(&table, 0, 100));
    ck_assert_uint_eq(table.live, 1);
    ck_assert_uint_eq(take_object()->slot.number, 1);
    slots_put(&table, o);
    ck_assert_uint_eq(table.live, 1);
    ck_assert_uint_eq(take_object()->slot.number, 0);
    ck_assert_uint_eq(slot_generation(o), 101);
}
END_TEST

START_TEST(generation_wraps)
{
    struct object *o;

    slots_deinit(&table);
    slots_init(&table, sizeof(struct object), 16, UINT32_MAX);
    o = take_live();
    ck_assert_uint_eq(slot_generation(o), 0x7fffffff);
    ck_assert_ptr_eq(slots_get_generation(&table, 0, 0x7fffffff), o);
    slots_put(&table, o);
    ck_assert(!slot_live(o));
    ck_assert_ptr_eq(take_live(), o);
    ck_assert_uint_eq(slot_generation(o), 0);
    ck_assert_ptr_eq(slots_get_generation(&table, 0, 0), o);
}
END_TEST

/* Chunk k ends before this number. */
#define END_OF(k) (SLOTS_FIRST * ((2u << (k)) - 1))

/* Objects on both sides of where a chunk ends are where they belong and do not overlap. */
START_TEST(objects_do_not_overlap_at_chunk_boundaries)
{
    static struct object *all[1008];

    for (uint32_t i = 0; i < 1008; i++) {
        all[i] = take_object();
        ck_assert_uint_eq(all[i]->slot.number, i);
        memset(all[i]->fill, (int)(i % 251), sizeof(all[i]->fill));
        atomic_store(&all[i]->value, i);
        slots_publish(all[i]);
    }
    for (uint32_t i = 0; i < 1008; i++) {
        ck_assert_ptr_eq(slots_get(&table, i), all[i]);
        ck_assert_uint_eq(all[i]->slot.number, i);
        ck_assert_uint_eq(atomic_load(&all[i]->value), i);
        ck_assert_uint_eq(slot_generation(all[i]), 100);
        for (size_t b = 0; b < sizeof(all[i]->fill); b++)
            ck_assert_uint_eq(all[i]->fill[b], i % 251);
    }
    /* Neighbours in a chunk are neighbours in memory, and only there. */
    ck_assert_ptr_eq(all[END_OF(0) - 2] + 1, all[END_OF(0) - 1]);
    for (unsigned k = 1; k < 6; k++)
        ck_assert_ptr_eq(all[END_OF(k - 1)] + (SLOTS_FIRST << k) - 1, all[END_OF(k) - 1]);
}
END_TEST

START_TEST(numbers_that_were_never_used_are_not_found)
{
    static const uint32_t numbers[] = {1,    END_OF(0) - 1, END_OF(0), END_OF(1) - 1, END_OF(1),
                                       4095, 4096,          4097,      1u << 20,      UINT32_MAX};

    take_live();
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        ck_assert_ptr_null(slots_get(&table, numbers[i]));
        ck_assert_ptr_null(slots_get_generation(&table, numbers[i], 100));
        ck_assert_ptr_null(slots_get_generation(&table, numbers[i], 0));
    }
    /* No chunk, or no such number at all. */
    ck_assert_ptr_null(slots_at(&table, END_OF(0)));
    ck_assert_ptr_null(slots_at(&table, 4096));
    ck_assert_ptr_null(slots_at(&table, UINT32_MAX));
}
END_TEST

START_TEST(max_is_exact)
{
    static const uint32_t max[] = {
        1,         END_OF(0) - 1, END_OF(0), END_OF(0) + 1, END_OF(1) - 1,
        END_OF(1), END_OF(1) + 1, END_OF(4), END_OF(4) + 1};

    for (size_t i = 0; i < sizeof(max) / sizeof(max[0]); i++) {
        void *last = NULL;

        slots_deinit(&table);
        slots_init(&table, sizeof(struct object), max[i], 0);
        for (uint32_t n = 0; n < max[i]; n++)
            last = take_live();
        ck_assert_ptr_null(slots_take(&table));
        ck_assert_uint_eq(table.live, max[i]);
        ck_assert_ptr_eq(slots_get(&table, max[i] - 1), last);
        ck_assert_ptr_null(slots_at(&table, max[i]));
        slots_put(&table, last);
        ck_assert_ptr_eq(slots_take(&table), last);
        ck_assert_ptr_null(slots_take(&table));
    }
}
END_TEST

START_TEST(empty_tables_give_nothing)
{
    struct slots zero = {0};

    slots_deinit(&zero);
    slots_deinit(&zero);
    slots_deinit(&table);
    slots_init(&table, sizeof(struct object), 0, 0);
    ck_assert_ptr_null(slots_take(&table));
    ck_assert_ptr_null(slots_get(&table, 0));
}
END_TEST

/* All chunks, and then no more, whatever max says. */
START_TEST(capacity_ends_with_the_last_chunk)
{
    uint32_t n = 0;
    struct slot *s, *last = NULL;

    slots_deinit(&table);
    slots_init(&table, sizeof(struct slot), UINT32_MAX, 0);
    for (; (s = slots_take(&table)); n++) {
        CHECK(s->number == n);
        last = s;
    }
    ck_assert_uint_eq(n, END_OF(SLOTS_CHUNKS - 1));
    ck_assert_uint_ge(n, 500000);
    ck_assert_ptr_eq(slots_at(&table, n - 1), last);
    slots_put(&table, last);
    ck_assert_ptr_eq(slots_take(&table), last);
}
END_TEST

START_TEST(objects_keep_their_alignment)
{
    struct line {
        struct slot slot;
        alignas(64) char text[64];
    };

    slots_deinit(&table);
    slots_init(&table, sizeof(struct line), 200, 0);
    for (unsigned i = 0; i < 200; i++)
        ck_assert_uint_eq((uintptr_t)slots_take(&table) % 64, 0);
}
END_TEST

START_TEST(foreach_visits_the_live_in_order)
{
    struct object *all[60], *o;
    uint32_t expected = 0, visits = 0;

    for (unsigned i = 0; i < 60; i++)
        all[i] = take_object();
    for (unsigned i = 0; i < 60; i += 2)
        slots_publish(all[i]);
    slots_put(&table, all[1]);
    slots_foreach (&table, i, o) {
        ck_assert_uint_eq(o->slot.number, expected);
        ck_assert_uint_eq(i, expected + 1);
        expected += 2;
        visits++;
        slots_put(&table, o); /* as session_free() does */
    }
    ck_assert_uint_eq(visits, 30);
    slots_foreach (&table, i, o)
        ck_abort_msg("slot %u is live", i - 1);
    ck_assert_uint_eq(table.live, 29);
}
END_TEST

/*
 * Against a model: takes and puts in random order keep numbers unique, addresses fixed and
 * generations growing.
 */
START_TEST(random_takes_and_puts_agree_with_a_model)
{
    enum { MAX = 500 };
    static struct object *taken[MAX], *address[MAX];
    static uint32_t generation[MAX];
    uint64_t rng = 7;
    uint32_t n = 0;

    slots_deinit(&table);
    slots_init(&table, sizeof(struct object), MAX, 0);
    memset(generation, 0xff, sizeof(generation));
    for (unsigned round = 0; round < 50000; round++) {
        /* A tide, so that the table runs empty and full. */
        if (random_below(&rng, 100) < (round / 1000 % 2 ? 70 : 30)) {
            struct object *o = slots_take(&table);
            uint32_t i;

            CHECK((o != NULL) == (n < MAX));
            if (!o)
                continue;
            i = o->slot.number;
            CHECK(i < MAX);
            CHECK(!address[i] || address[i] == o);
            address[i] = o;
            CHECK(!slot_live(o));
            CHECK(slot_generation(o) == generation[i] + 1);
            generation[i]++;
            slots_publish(o);
            taken[n++] = o;
        } else if (n > 0) {
            uint32_t i = random_below(&rng, n);

            CHECK(slots_get(&table, taken[i]->slot.number) == taken[i]);
            slots_put(&table, taken[i]);
            CHECK(!slots_get(&table, taken[i]->slot.number));
            taken[i] = taken[--n];
        }
        CHECK(table.live == n);
    }
}
END_TEST

/* --- after a peak --- */

static uint64_t value_of(uint32_t number, uint32_t generation)
{
    return (uint64_t)number << 32 | generation;
}

#define CROWD 30000u

static struct object *crowd[CROWD];
static uint32_t crowd_generation[CROWD];

static void make_crowd(void)
{
    slots_deinit(&table);
    slots_init(&table, sizeof(struct object), CROWD, 0x7fffff00);
    for (uint32_t i = 0; i < CROWD; i++) {
        crowd[i] = take_live();
        CHECK(crowd[i]->slot.number == i);
        crowd_generation[i] = slot_generation(crowd[i]);
        atomic_store(&crowd[i]->value, i);
    }
}

/*
 * Pages of the objects, as the kernel knows them; those at the ends belong to neighbours as well.
 */
static size_t pages_of(uint32_t first, uint32_t n)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    uintptr_t from = (uintptr_t)slots_at(&table, first) & ~(page - 1);
    uintptr_t to = (uintptr_t)slots_at(&table, first + n - 1) + sizeof(struct object);
    static unsigned char there[1024];
    size_t found = 0, size = (to - from + page - 1) / page;

    ck_assert_uint_le(size, sizeof(there));
    ck_assert_int_eq(mincore((void *)from, to - from, there), 0);
    for (size_t i = 0; i < size; i++)
        found += there[i] & 1;
    return found;
}

static void expect_stale(uint32_t number)
{
    CHECK(!slots_get(&table, number));
    CHECK(!slots_get_generation(&table, number, crowd_generation[number]));
}

START_TEST(memory_goes_back_after_a_peak)
{
    make_crowd();
    ck_assert_uint_gt(pages_of(END_OF(11), 8192), 50);
    for (uint32_t i = 100; i < CROWD; i++)
        slots_put(&table, crowd[i]);
    ck_assert_uint_gt(pages_of(END_OF(11), 8192), 50);
    slots_release(&table, 0, NULL);
    ck_assert_uint_le(pages_of(END_OF(11), 8192), 1);
    ck_assert_uint_eq(table.live, 100);
    ck_assert_uint_lt(table.end, 2048);
    for (uint32_t i = 0; i < 100; i++)
        CHECK(slots_get_generation(&table, i, crowd_generation[i]) == crowd[i] &&
              atomic_load(&crowd[i]->value) == i);
}
END_TEST

/*
 * A number and generation from before the release never match again, even if the slot has a new
 * owner.
 */
START_TEST(released_slots_keep_no_old_generation)
{
    make_crowd();
    for (uint32_t i = 0; i < CROWD; i++) {
        /* Some slots had more owners than others of their block. */
        for (uint32_t n = i % 512 == 300 ? 1000 : 0; n > 0; n--) {
            slots_put(&table, crowd[i]);
            CHECK(take_live() == crowd[i]);
        }
        crowd_generation[i] = slot_generation(crowd[i]);
    }
    for (uint32_t i = 0; i < CROWD; i++)
        slots_put(&table, crowd[i]);
    slots_release(&table, 0, NULL);
    for (uint32_t i = 0; i < CROWD; i++)
        expect_stale(i);
    for (uint32_t i = 0; i < CROWD; i++)
        CHECK(take_live());
    for (uint32_t i = 0; i < CROWD; i++) {
        uint32_t ahead = slot_generation(crowd[i]) - crowd_generation[i];

        CHECK(slots_at(&table, i) == crowd[i] && crowd[i]->slot.number == i);
        CHECK(!slots_get_generation(&table, i, crowd_generation[i]));
        CHECK((ahead & 0x7fffffff) - 1 < 2000);
    }
}
END_TEST

START_TEST(released_slots_hold_zeros_or_what_their_owner_left)
{
    make_crowd();
    for (uint32_t i = 0; i < CROWD; i++)
        slots_put(&table, crowd[i]);
    slots_release(&table, 0, NULL);
    for (uint32_t i = 0; i < CROWD; i++) {
        struct object *o = take_object();
        uint64_t value = atomic_load(&o->value);

        CHECK(value == 0 || value == o->slot.number);
    }
}
END_TEST

/* A block with a single object in use stays, with its neighbours' halves of its pages. */
START_TEST(what_is_in_use_stays)
{
    make_crowd();
    for (uint32_t i = 0; i < CROWD; i++)
        if (i % 3000 != 0)
            slots_put(&table, crowd[i]);
    slots_release(&table, 0, NULL);
    for (uint32_t i = 0; i < CROWD; i++)
        if (i % 3000 == 0)
            CHECK(slots_get_generation(&table, i, crowd_generation[i]) == crowd[i] &&
                  atomic_load(&crowd[i]->value) == i);
        else
            expect_stale(i);
}
END_TEST

struct large {
    struct slot slot;
    unsigned char fill[620];
};

/* The same where a block does not end with a page. */
START_TEST(neighbours_keep_their_part_of_a_page)
{
    static struct large *all[4000];

    slots_deinit(&table);
    slots_init(&table, sizeof(struct large), 4000, 1);
    for (uint32_t i = 0; i < 4000; i++) {
        all[i] = slots_take(&table);
        ck_assert_ptr_nonnull(all[i]);
        memset(all[i]->fill, (int)(i % 251) + 1, sizeof(all[i]->fill));
    }
    /* Of four blocks one stays, with its first and last object. */
    for (uint32_t i = 0; i < 4000; i++)
        if ((i + SLOTS_FIRST) / 64 % 4 != 0)
            slots_put(&table, all[i]);
    slots_release(&table, 0, NULL);
    for (uint32_t i = 0; i < 4000; i++)
        for (size_t b = 0; (i + SLOTS_FIRST) / 64 % 4 == 0 && b < sizeof(all[i]->fill); b++)
            CHECK(all[i]->fill[b] == i % 251 + 1);
}
END_TEST

START_TEST(few_idle_blocks_are_kept)
{
    make_crowd();
    for (uint32_t i = 0; i < CROWD; i++)
        slots_put(&table, crowd[i]);
    ck_assert_uint_gt(table.idle, 4);
    slots_release(&table, 3, NULL);
    ck_assert_uint_eq(table.idle, 3);
    /* The lowest ones, as the next owners come there first. */
    ck_assert_uint_gt(pages_of(1050, 900), 8);
    ck_assert_uint_le(pages_of(END_OF(11), 8192), 1);
    slots_release(&table, 3, NULL);
    ck_assert_uint_eq(table.idle, 3);
}
END_TEST

static unsigned forgotten;

static void forget_object(void *object)
{
    struct object *o = object;

    CHECK(!slot_live(o) && o->slot.number >= 1000);
    CHECK(atomic_exchange(&o->value, UINT64_MAX) == o->slot.number);
    forgotten++;
}

START_TEST(each_released_object_is_forgotten_once)
{
    uint32_t first;

    make_crowd();
    for (uint32_t i = 0; i < CROWD; i++)
        slots_put(&table, crowd[i]);
    slots_release(&table, 0, forget_object);
    first = table.end; /* the first block stays */
    ck_assert_uint_eq(forgotten, CROWD - first);
}
END_TEST

START_TEST(a_condemned_block_stays_when_a_slot_was_taken)
{
    uint32_t idle;

    make_crowd();
    for (uint32_t i = 3000; i < CROWD; i++)
        slots_put(&table, crowd[i]);
    idle = table.idle;
    ck_assert(!slots_condemn(&table, idle));
    ck_assert(slots_condemn(&table, 0));
    for (uint32_t i = 3000; i < 8000; i++)
        crowd[i] = take_live();
    for (uint32_t i = 3000; i < 8000; i++)
        slots_put(&table, crowd[i]);
    ck_assert_uint_eq(table.idle, idle);
    slots_release_condemned(&table, NULL);
    ck_assert_uint_gt(table.idle, 2);
    ck_assert_uint_lt(table.idle, 6);
    ck_assert_uint_gt(pages_of(5000, 2000), 18);
    ck_assert_uint_le(pages_of(END_OF(11), 8192), 1);
    ck_assert(slots_condemn(&table, 0));
    slots_release_condemned(&table, NULL);
    ck_assert_uint_eq(table.idle, 0);
    ck_assert_uint_le(pages_of(5000, 2000), 2);
}
END_TEST

/* What owners charge before they take a slot is what the table has then, and it never goes. */
START_TEST(growth_is_told_before)
{
    bool mapped;
    uint64_t bytes = 0;

    for (uint32_t i = 0; i < 4096; i++) {
        bool grows = slots_at(&table, i) == NULL;
        size_t size = slots_growth(&table, &mapped);

        ck_assert_int_eq(size > 0, grows);
        ck_assert_uint_ge(size, grows ? sizeof(struct object) : 0);
        ck_assert_int_eq(mapped, size >= 32768);
        bytes += size;
        take_live();
    }
    ck_assert_uint_ge(bytes, 4096 * sizeof(struct object));
    ck_assert_uint_eq(slots_growth(&table, &mapped), 0); /* full */
    for (uint32_t i = 0; i < 4096; i++)
        slots_put(&table, slots_at(&table, i));
    slots_release(&table, 0, NULL);
    for (uint32_t i = 0; i < 4096; i++) {
        ck_assert_uint_eq(slots_growth(&table, &mapped), 0);
        take_live();
    }
}
END_TEST

/* Against a model: whatever is released when, no number has a generation that it had before. */
START_TEST(random_releases_agree_with_a_model)
{
    uint64_t rng = 11;
    uint32_t n = 0;

    slots_deinit(&table);
    slots_init(&table, sizeof(struct object), CROWD, 0x7ffffff0);
    memset(crowd_generation, 0, sizeof(crowd_generation));
    for (uint32_t round = 0; round < 400; round++) {
        uint32_t few = random_below(&rng, CROWD / 4), kept = random_below(&rng, 3);
        bool grow = round % 8 < 4;

        for (uint32_t i = 0; i < few && (grow ? n < CROWD : n > 0); i++) {
            uint32_t at = n > 0 ? random_below(&rng, n) : 0;
            struct object *o = grow ? take_live() : crowd[at];
            uint32_t number = o->slot.number, generation = slot_generation(o);

            if (grow) {
                CHECK((generation - crowd_generation[number] - 0x7ffffff0) % 0x80000000 < 1u << 20);
                atomic_store(&o->value, value_of(number, generation));
                crowd[n++] = o;
            } else {
                CHECK(atomic_load(&o->value) == value_of(number, generation));
                slots_put(&table, o);
                /* The least generation that the next owner may have, from the seed. */
                crowd_generation[number] = (generation + 1 - 0x7ffffff0) & 0x7fffffff;
                crowd[at] = crowd[--n];
            }
        }
        if (random_below(&rng, 2))
            slots_release(&table, kept, NULL);
        else if (slots_condemn(&table, kept))
            slots_release_condemned(&table, NULL);
        CHECK(table.live == n && table.idle <= kept);
    }
}
END_TEST

/* --- readers beside the owner --- */

#define SHARED  300
#define READERS 3

static _Atomic(uint64_t) current[SHARED]; /* generation << 32 | 1 of the latest owner of a slot */
static _Atomic(void *) seen_at[SHARED];
static _Atomic bool stop;
static _Atomic uint64_t hits, stale;

static void check_object(struct object *o, uint32_t number)
{
    void *first = NULL;

    if (!atomic_compare_exchange_strong(&seen_at[number], &first, o))
        CHECK(first == o);
}

static void *read_slots(void *arg)
{
    uint64_t rng = 1000 + (uintptr_t)arg, n_hits = 0, n_stale = 0;

    while (!atomic_load_explicit(&stop, memory_order_relaxed)) {
        uint32_t number = random_below(&rng, SHARED + 100);
        uint64_t c = number < SHARED ? atomic_load(&current[number]) : 0;
        struct object *o;
        uint64_t value;

        o = slots_get(&table, number);
        if (o) {
            CHECK(number < SHARED);
            check_object(o, number);
        }
        if (c == 0)
            continue;
        o = slots_get_generation(&table, number, (uint32_t)(c >> 32));
        if (!o) {
            n_stale++;
            continue;
        }
        check_object(o, number);
        value = atomic_load_explicit(&o->value, memory_order_acquire);
        /* Still the same owner afterwards: then that was its value. */
        if (slots_get_generation(&table, number, (uint32_t)(c >> 32)) != o) {
            n_stale++;
            continue;
        }
        CHECK(value == value_of(number, (uint32_t)(c >> 32)));
        n_hits++;
    }
    atomic_fetch_add(&hits, n_hits);
    atomic_fetch_add(&stale, n_stale);
    return NULL;
}

static void own_slots(uint64_t until)
{
    static struct object *taken[SHARED];
    uint64_t rng = 99;
    uint32_t n = 0, limit = 1;

    while (clock_ns() < until) {
        for (unsigned i = 0; i < 100; i++) {
            struct object *o = n < limit ? slots_take(&table) : NULL;

            if (o && random_below(&rng, 2)) {
                uint32_t number = o->slot.number, generation = slot_generation(o);

                /* Release: ordered behind the tag that slots_put() stored. */
                atomic_store_explicit(&o->value, value_of(number, generation),
                                      memory_order_release);
                slots_publish(o);
                atomic_store(&current[number], (uint64_t)generation << 32 | 1);
                taken[n++] = o;
            } else if (o) {
                slots_put(&table, o);
            }
            if (n > 0 && random_below(&rng, 2)) {
                uint32_t victim = random_below(&rng, n);

                slots_put(&table, taken[victim]);
                taken[victim] = taken[--n];
            }
        }
        /* Grow slowly, so that chunks appear while others read. */
        limit = limit < SHARED ? limit + 1 : 1;
    }
}

START_TEST(readers_beside_a_busy_owner)
{
    pthread_t readers[READERS];

    slots_deinit(&table);
    slots_init(&table, sizeof(struct object), SHARED, 0x7fffff00);
    for (uintptr_t i = 0; i < READERS; i++)
        readers[i] = start_thread(read_slots, (void *)i);
    own_slots(clock_ns() + 400 * NSEC_PER_MSEC);
    atomic_store(&stop, true);
    for (unsigned i = 0; i < READERS; i++)
        thread_join(readers[i]);
    ck_assert_uint_gt(atomic_load(&hits), 0);
    ck_assert_uint_gt(atomic_load(&stale), 0);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("slots");
    TCase *one = suite_case(s, "one thread", 60, init_table, deinit_table);
    TCase *many = suite_case(s, "readers", 60, init_table, deinit_table);

    tcase_add_test(one, taken_is_not_live_until_published);
    tcase_add_test(one, first_owner_finds_zeros_and_the_next_what_he_left);
    tcase_add_test(one, a_place_is_of_one_slot);
    tcase_add_test(one, put_makes_the_number_stale);
    tcase_add_test(one, put_of_what_was_never_published_counts_as_well);
    tcase_add_test(one, unpublished_is_hidden_but_taken);
    tcase_add_test(one, generation_wraps);
    tcase_add_test(one, objects_do_not_overlap_at_chunk_boundaries);
    tcase_add_test(one, numbers_that_were_never_used_are_not_found);
    tcase_add_test(one, max_is_exact);
    tcase_add_test(one, empty_tables_give_nothing);
    tcase_add_test(one, capacity_ends_with_the_last_chunk);
    tcase_add_test(one, objects_keep_their_alignment);
    tcase_add_test(one, foreach_visits_the_live_in_order);
    tcase_add_test(one, random_takes_and_puts_agree_with_a_model);
    tcase_add_test(one, memory_goes_back_after_a_peak);
    tcase_add_test(one, released_slots_keep_no_old_generation);
    tcase_add_test(one, released_slots_hold_zeros_or_what_their_owner_left);
    tcase_add_test(one, what_is_in_use_stays);
    tcase_add_test(one, neighbours_keep_their_part_of_a_page);
    tcase_add_test(one, few_idle_blocks_are_kept);
    tcase_add_test(one, each_released_object_is_forgotten_once);
    tcase_add_test(one, a_condemned_block_stays_when_a_slot_was_taken);
    tcase_add_test(one, growth_is_told_before);
    tcase_add_test(one, random_releases_agree_with_a_model);
    tcase_add_test(many, readers_beside_a_busy_owner);
    return s;
}

int main(void)
{
    return run_suite(make_suite());
}
