/*
 * Idle blocks of a pool (client/memory/pool_index.h), beside a plain list of them: random sizes,
 * streams and progress.
 */
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "client/memory/pool_blocks.h"

#include "unit.h"

#define BLOCKS  300u
#define STREAMS 100u /* more than are asked in a call */
#define SIZES   24u
#define STEPS   200000u

static struct stream_ctrl ctrls[STREAMS];
static uint64_t tails[STREAMS];
static struct memory memories[BLOCKS];
static struct pool_block blocks[BLOCKS];
static bool idle[BLOCKS];
static struct pool_index pool;
static struct memory_pool pools[3];
static uint64_t rng;

static void begin(void)
{
    rng = 7;
    pool = (struct pool_index){0};
    memset(pools, 0, sizeof(pools));
    for (unsigned i = 0; i < STREAMS; i++)
        atomic_store(&ctrls[i].done, 0);
    for (unsigned i = 0; i < BLOCKS; i++) {
        memories[i].mapped.size = 4096u * (1 + random_below(&rng, SIZES));
        blocks[i] = (struct pool_block){.memory = &memories[i], .pool = &pools[i % 3]};
        idle[i] = false;
    }
}

static void add_block(unsigned i)
{
    unsigned s = random_below(&rng, STREAMS);

    tails[s] += random_below(&rng, 2);
    blocks[i].freed = (struct point){.ctrl = &ctrls[s], .position = tails[s]};
    ck_assert(pool_index_add(&pool, &blocks[i]));
    idle[i] = true;
}

static void remove_block(unsigned i)
{
    pool_index_remove(&pool, &blocks[i]);
    idle[i] = false;
}

static uint64_t size_of(const struct pool_block *b)
{
    return b->memory->mapped.size;
}

/* Which may be taken: on this stream, or, with `any`, of those that are known to be ready, too. */
static uint64_t best_size(const struct memory_pool *of, const struct stream_ctrl *ctrl,
                          uint64_t bytes, bool any)
{
    uint64_t best = UINT64_MAX;

    for (unsigned i = 0; i < BLOCKS; i++)
        if (idle[i] && blocks[i].pool == of && size_of(&blocks[i]) >= bytes &&
            size_of(&blocks[i]) < best &&
            (blocks[i].freed.ctrl == ctrl || (any && blocks[i].ready)))
            best = size_of(&blocks[i]);
    return best;
}

static void find_one(void)
{
    const struct stream_ctrl *ctrl = &ctrls[random_below(&rng, STREAMS)];
    uint64_t bytes = 4096u * (1 + random_below(&rng, SIZES + 1)), best;
    bool any = random_below(&rng, 2);
    struct memory_pool *of = &pools[random_below(&rng, 3)];
    struct pool_block *b = pool_index_find(&pool, of, ctrl, bytes, any);

    best = best_size(of, ctrl, bytes, any);
    CHECK(b ? size_of(b) == best : best == UINT64_MAX);
    if (b) {
        CHECK(b->freed.ctrl == ctrl || (any && point_passed(&b->freed)));
        remove_block((unsigned)(b - blocks));
    }
}

static void move_on(void)
{
    unsigned s = random_below(&rng, STREAMS);
    uint64_t done = atomic_load(&ctrls[s].done);

    if (done < tails[s])
        atomic_store(&ctrls[s].done, done + 1);
}

static void check_ready(void)
{
    unsigned passed = 0, ready = 0;
    struct pool_block *b;

    pool_index_look(&pool, POOL_INDEX_ALL);
    for (unsigned i = 0; i < BLOCKS; i++)
        passed += idle[i] && point_passed(&blocks[i].freed);
    for (unsigned i = 0; i < 3; i++)
        DL_FOREACH (pools[i].ready, b)
            ready += b->ready && b->pool == &pools[i] && point_passed(&b->freed);
    CHECK(ready == passed);
}

START_TEST(as_a_list_would_have_it)
{
    unsigned i;

    for (unsigned step = 0; step < STEPS; step++) {
        i = random_below(&rng, BLOCKS);
        switch (random_below(&rng, 5)) {
        case 0:
        case 1:
            if (!idle[i])
                add_block(i);
            break;
        case 2:
            find_one();
            break;
        case 3:
            move_on();
            break;
        default:
            if (random_below(&rng, 4) == 0)
                check_ready();
            else if (idle[i])
                remove_block(i);
        }
    }
    for (i = 0; i < BLOCKS; i++)
        if (idle[i])
            remove_block(i);
    for (i = 0; i < 3; i++) {
        ck_assert_ptr_null(pool_index_any(&pools[i]));
        ck_assert_ptr_null(pools[i].by_size);
    }
    ck_assert_ptr_null(pool.streams);
    ck_assert_uint_eq(pool.n_waiting, 0);
}
END_TEST

/* Each call asks some streams, and after a few calls all were asked. */
START_TEST(streams_have_turns)
{
    struct pool_block *b = &blocks[STREAMS - 1];

    for (unsigned i = 0; i < STREAMS; i++) {
        blocks[i].freed = (struct point){.ctrl = &ctrls[i], .position = ++tails[i]};
        ck_assert(pool_index_add(&pool, &blocks[i]));
    }
    pool_index_look(&pool, POOL_INDEX_ALL);
    ck_assert_ptr_null(pool_index_next(&pool));
    atomic_store(&b->freed.ctrl->done, b->freed.position);
    for (unsigned calls = 0; calls < STREAMS / POOL_INDEX_FEW && !b->ready; calls++)
        pool_index_look(&pool, POOL_INDEX_FEW);
    ck_assert(b->ready);
    ck_assert_ptr_eq(pool_index_next(&pool), b->pool);
    ck_assert_ptr_null(pool_index_next(&pool)); /* it is told once */
    ck_assert_ptr_eq(pool_index_any(b->pool), b);
    for (unsigned i = 0; i < STREAMS; i++)
        pool_index_remove(&pool, &blocks[i]);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("pool index");
    TCase *t = suite_case(suite, "index", 60, begin, NULL);

    tcase_add_test(t, as_a_list_would_have_it);
    tcase_add_test(t, streams_have_turns);
    return run_suite(suite);
}
