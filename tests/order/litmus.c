/*
 * The explorer itself: it finds the weak outcomes of the classic programs, and never those that C11
 * forbids.
 */
#include "tests/order/atomics.h"
#include "tests/order/scenarios.h"

static _Atomic uint32_t a, b;
static unsigned r[4];
static unsigned data;
static unsigned outcomes; /* bit: r[0] | r[1] << 1 | r[2] << 2 | r[3] << 3, or what finish() says */

static void reset_variables(void)
{
    a = b = 0;
    r[0] = r[1] = r[2] = r[3] = 0;
}

static void note_outcome(void)
{
    outcomes |= 1u << ((r[0] & 1) | (r[1] & 1) << 1 | (r[2] & 1) << 2 | (r[3] & 1) << 3);
}

static void explore_outcomes(void (*t0)(void), void (*t1)(void), void (*t2)(void), void (*t3)(void))
{
    struct order_scenario s = {"litmus", reset_variables, {t0, t1, t2, t3}, note_outcome, 4, 200};

    outcomes = 0;
    expect_right(&s);
}

#define SEEN(n)  ck_assert_msg(outcomes & 1u << (n), "outcome %u was not found", n)
#define NEVER(n) ck_assert_msg(!(outcomes & 1u << (n)), "outcome %u is forbidden", n)

/* Store buffering: both read the old value, unless both have a fence, or all is seq_cst. */
#define SB(name, before, after, store, load)                                                       \
    static void name##_0(void)                                                                     \
    {                                                                                              \
        store(&a, 1);                                                                              \
        before;                                                                                    \
        r[0] = load(&b);                                                                           \
    }                                                                                              \
    static void name##_1(void)                                                                     \
    {                                                                                              \
        store(&b, 1);                                                                              \
        after;                                                                                     \
        r[1] = load(&a);                                                                           \
    }
#define RELAXED_STORE(p, v) atomic_store_explicit(p, v, memory_order_relaxed)
#define RELEASE_STORE(p, v) atomic_store_explicit(p, v, memory_order_release)
#define RELAXED_LOAD(p)     atomic_load_explicit(p, memory_order_relaxed)
#define ACQUIRE_LOAD(p)     atomic_load_explicit(p, memory_order_acquire)
#define SC_ADD(p, v)        atomic_fetch_add(p, v)
#define FULL_FENCE          atomic_thread_fence(memory_order_seq_cst)
#define NO_FENCE            (void)0
SB(sb_relaxed, NO_FENCE, NO_FENCE, RELAXED_STORE, RELAXED_LOAD)
SB(sb_release, NO_FENCE, NO_FENCE, RELEASE_STORE, ACQUIRE_LOAD)
SB(sb_fences, FULL_FENCE, FULL_FENCE, RELAXED_STORE, RELAXED_LOAD)
SB(sb_one_fence, FULL_FENCE, NO_FENCE, RELAXED_STORE, RELAXED_LOAD)
SB(sb_sc, NO_FENCE, NO_FENCE, atomic_store, atomic_load)
SB(sb_add, NO_FENCE, NO_FENCE, SC_ADD, atomic_load)
SB(sb_add_relaxed, NO_FENCE, NO_FENCE, SC_ADD, RELAXED_LOAD)
SB(sb_sc_and_fence, NO_FENCE, FULL_FENCE, atomic_store, atomic_load)

/* A relaxed store, which its own thread loads back before it looks at the other location. */
#define FORWARDED_STORE(p, v) (RELAXED_STORE(p, v), (void)atomic_load(p))
SB(sb_forwarded, NO_FENCE, NO_FENCE, FORWARDED_STORE, atomic_load)

START_TEST(store_buffering)
{
    explore_outcomes(sb_relaxed_0, sb_relaxed_1, NULL, NULL);
    SEEN(0), SEEN(1), SEEN(2), SEEN(3);
    explore_outcomes(sb_release_0, sb_release_1, NULL, NULL);
    SEEN(0);
    explore_outcomes(sb_one_fence_0, sb_one_fence_1, NULL, NULL);
    SEEN(0);
    explore_outcomes(sb_fences_0, sb_fences_1, NULL, NULL);
    NEVER(0), SEEN(1), SEEN(2), SEEN(3);
    explore_outcomes(sb_sc_0, sb_sc_1, NULL, NULL);
    NEVER(0), SEEN(3);
    explore_outcomes(sb_add_0, sb_add_1, NULL, NULL);
    NEVER(0);
    /* A seq_cst read-modify-write is no fence for a relaxed load. */
    explore_outcomes(sb_add_relaxed_0, sb_add_relaxed_1, NULL, NULL);
    SEEN(0);
    explore_outcomes(sb_forwarded_0, sb_forwarded_1, NULL, NULL);
    SEEN(0);
    explore_outcomes(sb_forwarded_0, sb_sc_1, NULL, NULL);
    SEEN(0);
    /* seq_cst accesses on one side, a fence on the other. */
    explore_outcomes(sb_sc_and_fence_0, sb_sc_and_fence_1, NULL, NULL);
    NEVER(0);
    explore_outcomes(sb_sc_0, sb_fences_1, NULL, NULL);
    NEVER(0);
}
END_TEST

/* Message passing: the flag without the data. */
#define MP(name, before, store, load, after)                                                       \
    static void name##_0(void)                                                                     \
    {                                                                                              \
        RELAXED_STORE(&a, 1);                                                                      \
        before;                                                                                    \
        store(&b, 1);                                                                              \
    }                                                                                              \
    static void name##_1(void)                                                                     \
    {                                                                                              \
        r[0] = load(&b);                                                                           \
        after;                                                                                     \
        r[1] = RELAXED_LOAD(&a);                                                                   \
    }
#define RELEASE_FENCE atomic_thread_fence(memory_order_release)
#define ACQUIRE_FENCE atomic_thread_fence(memory_order_acquire)
MP(mp_relaxed, NO_FENCE, RELAXED_STORE, RELAXED_LOAD, NO_FENCE)
MP(mp_half, NO_FENCE, RELEASE_STORE, RELAXED_LOAD, NO_FENCE)
MP(mp_other_half, NO_FENCE, RELAXED_STORE, ACQUIRE_LOAD, NO_FENCE)
MP(mp_right, NO_FENCE, RELEASE_STORE, ACQUIRE_LOAD, NO_FENCE)
MP(mp_fences, RELEASE_FENCE, RELAXED_STORE, RELAXED_LOAD, ACQUIRE_FENCE)

START_TEST(message_passing)
{
    explore_outcomes(mp_relaxed_0, mp_relaxed_1, NULL, NULL);
    SEEN(1);
    explore_outcomes(mp_half_0, mp_half_1, NULL, NULL);
    SEEN(1);
    explore_outcomes(mp_other_half_0, mp_other_half_1, NULL, NULL);
    SEEN(1);
    explore_outcomes(mp_right_0, mp_right_1, NULL, NULL);
    NEVER(1), SEEN(0), SEEN(2), SEEN(3);
    explore_outcomes(mp_fences_0, mp_fences_1, NULL, NULL);
    NEVER(1), SEEN(0), SEEN(3);
}
END_TEST

/* Two readers disagree about the order of two writers. */
static void store_a(void)
{
    RELAXED_STORE(&a, 1);
}
static void store_b(void)
{
    RELAXED_STORE(&b, 1);
}
static void acquire_ab(void)
{
    r[0] = ACQUIRE_LOAD(&a);
    r[1] = ACQUIRE_LOAD(&b);
}
static void acquire_ba(void)
{
    r[2] = ACQUIRE_LOAD(&b);
    r[3] = ACQUIRE_LOAD(&a);
}
static void fenced_ab(void)
{
    r[0] = RELAXED_LOAD(&a);
    FULL_FENCE;
    r[1] = RELAXED_LOAD(&b);
}
static void fenced_ba(void)
{
    r[2] = RELAXED_LOAD(&b);
    FULL_FENCE;
    r[3] = RELAXED_LOAD(&a);
}
static void sc_store_a(void)
{
    atomic_store(&a, 1);
}
static void sc_store_b(void)
{
    atomic_store(&b, 1);
}
static void sc_ab(void)
{
    r[0] = atomic_load(&a);
    r[1] = atomic_load(&b);
}
static void sc_ba(void)
{
    r[2] = atomic_load(&b);
    r[3] = atomic_load(&a);
}

START_TEST(independent_reads)
{
    explore_outcomes(store_a, store_b, acquire_ab, acquire_ba);
    SEEN(1 | 4);
    explore_outcomes(store_a, store_b, fenced_ab, fenced_ba);
    NEVER(1 | 4);
    explore_outcomes(sc_store_a, sc_store_b, sc_ab, sc_ba);
    NEVER(1 | 4);
}
END_TEST

/* One location is coherent: no reader goes back, and two readers agree. */
static void store_1_2(void)
{
    RELAXED_STORE(&a, 1);
    RELAXED_STORE(&a, 2);
}
static void read_twice(void)
{
    unsigned first = RELAXED_LOAD(&a), second = RELAXED_LOAD(&a);

    SURE(second >= first);
}
static void store_1(void)
{
    RELAXED_STORE(&a, 1);
}
static void store_2(void)
{
    RELAXED_STORE(&a, 2);
}
static void read_0_1(void)
{
    unsigned first = RELAXED_LOAD(&a);

    r[0] = first == 1 && RELAXED_LOAD(&a) == 2;
}
static void read_2_3(void)
{
    unsigned first = RELAXED_LOAD(&a);

    r[1] = first == 2 && RELAXED_LOAD(&a) == 1;
}

START_TEST(coherence)
{
    explore_outcomes(store_1_2, read_twice, NULL, NULL);
    explore_outcomes(store_1, store_2, read_0_1, read_2_3);
    SEEN(1), SEEN(2), NEVER(3);
}
END_TEST

/* 2+2W: each of two writers' first store ends last. */
#define TWO_WRITES(name, fence)                                                                    \
    static void name##_0(void)                                                                     \
    {                                                                                              \
        RELAXED_STORE(&a, 1);                                                                      \
        fence;                                                                                     \
        RELAXED_STORE(&b, 2);                                                                      \
    }                                                                                              \
    static void name##_1(void)                                                                     \
    {                                                                                              \
        RELAXED_STORE(&b, 1);                                                                      \
        fence;                                                                                     \
        RELAXED_STORE(&a, 2);                                                                      \
    }
TWO_WRITES(writes, NO_FENCE)
TWO_WRITES(writes_fenced, FULL_FENCE)

static void end_writes(void)
{
    outcomes |= a == 1 && b == 1 ? 2 : 1;
}

START_TEST(two_writes)
{
    struct order_scenario relaxed = {"2+2W", reset_variables, {writes_0, writes_1}, end_writes, 4,
                                     200};
    struct order_scenario fenced = {
        "2+2W", reset_variables, {writes_fenced_0, writes_fenced_1}, end_writes, 4, 200};

    outcomes = 0;
    expect_right(&relaxed);
    SEEN(1);
    outcomes = 0;
    expect_right(&fenced);
    NEVER(1), SEEN(0);
}
END_TEST

/*
 * Read-modify-writes: no count is lost, whatever the order; and a chain of them carries the first
 * one's release on.
 */
static void add_counts(void)
{
    atomic_fetch_add_explicit(&a, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&a, 1, memory_order_relaxed);
}
static void end_add(void)
{
    SURE(a == 6);
}
static void release_first(void)
{
    data = 1;
    PLAIN_WRITE(&data);
    atomic_store_explicit(&a, 1, memory_order_release);
}
static void add_relaxed(void)
{
    atomic_fetch_add_explicit(&a, 1, memory_order_relaxed);
}
static void read_second(void)
{
    if (atomic_load_explicit(&a, memory_order_acquire) == 2)
        PLAIN_READ(&data);
}
static void read_second_relaxed(void)
{
    if (RELAXED_LOAD(&a) == 2)
        PLAIN_READ(&data);
}

START_TEST(read_modify_write)
{
    struct order_scenario sum = {
        "sum", reset_variables, {add_counts, add_counts, add_counts}, end_add, 3, 200};
    struct order_scenario chain = {
        "chain", reset_variables, {release_first, add_relaxed, read_second}, NULL, 4, 200};
    struct order_scenario race = {
        "race", reset_variables, {release_first, add_relaxed, read_second_relaxed}, NULL, 4, 200};

    expect_right(&sum);
    expect_right(&chain);
    expect_wrong(&race, "data race");
}
END_TEST

/* A futex: the waker changes the word before it wakes, or the sleeper is never woken. */
static void sleep_while_0(void)
{
    while (RELAXED_LOAD(&a) == 0)
        FUTEX_WAIT_ON(&a, 0);
}
static void change_and_wake(void)
{
    RELAXED_STORE(&a, 1);
    FUTEX_WAKE_ALL(&a);
}
static void wake_and_change(void)
{
    FUTEX_WAKE_ALL(&a);
    RELAXED_STORE(&a, 1);
}

/* Dekker: the waker wakes only if it sees the sleeper's mark. */
#define SLEEPER(name, fence)                                                                       \
    static void name(void)                                                                         \
    {                                                                                              \
        RELAXED_STORE(&b, 1);                                                                      \
        fence;                                                                                     \
        if (RELAXED_LOAD(&a) == 0)                                                                 \
            FUTEX_WAIT_ON(&a, 0);                                                                  \
    }
#define WAKER(name, fence)                                                                         \
    static void name(void)                                                                         \
    {                                                                                              \
        RELAXED_STORE(&a, 1);                                                                      \
        fence;                                                                                     \
        if (RELAXED_LOAD(&b))                                                                      \
            FUTEX_WAKE_ALL(&a);                                                                    \
    }
SLEEPER(sleeper, NO_FENCE)
SLEEPER(sleeper_fenced, FULL_FENCE)
WAKER(waker, NO_FENCE)
WAKER(waker_fenced, FULL_FENCE)

START_TEST(sleeping)
{
    struct order_scenario right = {
        "futex", reset_variables, {sleep_while_0, change_and_wake}, NULL, 4, 200};
    struct order_scenario early = {
        "futex", reset_variables, {sleep_while_0, wake_and_change}, NULL, 4, 200};
    struct order_scenario fenced = {
        "dekker", reset_variables, {sleeper_fenced, waker_fenced}, NULL, 4, 200};
    struct order_scenario not_fenced = {"dekker", reset_variables, {sleeper_fenced, waker}, NULL, 4,
                                        200};
    /* The futex call itself is a fence, before the kernel looks at the word. */
    struct order_scenario kernel = {"dekker", reset_variables, {sleeper, waker_fenced}, NULL, 4,
                                    200};

    expect_right(&right);
    expect_wrong(&early, "sleeps for ever");
    expect_right(&fenced);
    expect_wrong(&not_fenced, "sleeps for ever");
    expect_right(&kernel);
}
END_TEST

void litmus_case(Suite *suite)
{
    TCase *t = suite_case(suite, "the explorer", 120, NULL, NULL);

    tcase_add_test(t, store_buffering);
    tcase_add_test(t, message_passing);
    tcase_add_test(t, independent_reads);
    tcase_add_test(t, coherence);
    tcase_add_test(t, two_writes);
    tcase_add_test(t, read_modify_write);
    tcase_add_test(t, sleeping);
}
