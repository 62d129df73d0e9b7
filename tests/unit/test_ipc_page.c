/*
 * proto/ipc_page: numbered records that processes share, and that survive the death of any of them.
 */
#include "proto/shm/ipc_page.h"
#include "tests/common/child.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "unit.h"

#define ME    7u
#define OTHER 4094u /* the highest opener that npud gives out */

static struct ipc_page *page;

static void map_page(void)
{
    page = mmap(NULL, sizeof(*page), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(page, MAP_FAILED);
}

static void unmap_page(void)
{
    munmap(page, sizeof(*page));
}

static uint64_t take_record(uint32_t opener, enum ipc_state state)
{
    uint64_t blocker, taken = ipc_take(page, opener, state, &blocker);

    CHECK(taken != 0);
    return taken;
}

/* Take and, when pending, complete at once, n times. */
static void record_many(uint32_t opener, unsigned n)
{
    bool waiters;

    for (unsigned i = 0; i < n; i++) {
        enum ipc_state state = i % 2 ? IPC_DONE : IPC_PENDING;
        uint64_t number = take_record(opener, state);

        if (state == IPC_PENDING)
            ck_assert(ipc_complete(page, number, opener, IPC_DONE, &waiters));
    }
}

static bool complete_record(uint64_t number, uint32_t opener, enum ipc_state state)
{
    bool waiters = true, done = ipc_complete(page, number, opener, state, &waiters);

    if (done)
        ck_assert(!waiters);
    return done;
}

static uint64_t slot_of(uint64_t number)
{
    return atomic_load(&page->slot[number % IPC_SLOTS]);
}

/*
 * What npud does for an opener that is gone, as in daemon/core/ipc_event.c. Returns how many
 * records failed.
 */
static unsigned sweep_opener(uint32_t opener)
{
    uint64_t latest = atomic_load(&page->latest), newest = ipc_latest_number(latest);
    unsigned n = 0;
    bool waiters;

    ipc_help(page, latest);
    for (unsigned i = 0; i < IPC_SLOTS; i++) {
        uint64_t slot = atomic_load(&page->slot[i]);
        uint64_t number = newest - (uint32_t)((uint32_t)newest - ipc_slot_tag(slot));

        if (ipc_slot_state(slot) == IPC_PENDING && ipc_slot_opener(slot) == opener)
            n += ipc_complete(page, number, opener, IPC_FAILED, &waiters);
    }
    return n;
}

/* --- numbers and states --- */

START_TEST(nothing_recorded)
{
    ck_assert_int_eq(ipc_state_of(page, 0), IPC_NONE);
    ck_assert_int_eq(ipc_state_of(page, 1), IPC_NONE);
    ck_assert_int_eq(ipc_state_of(page, IPC_SLOTS), IPC_NONE);
    ck_assert(!ipc_arm(page, 0));
    ck_assert(!ipc_arm(page, 1));
    ck_assert(!complete_record(0, 0, IPC_DONE));
    ck_assert(!complete_record(1, 0, IPC_DONE));
    ipc_help(page, 0);
    for (uint64_t i = 0; i < IPC_SLOTS; i++)
        ck_assert_uint_eq(slot_of(i), 0);
}
END_TEST

START_TEST(numbers_begin_with_1_and_have_no_gaps)
{
    for (uint64_t n = 1; n <= 3 * IPC_SLOTS; n++) {
        ck_assert_uint_eq(take_record(n % 100, IPC_DONE), n);
        ck_assert_uint_eq(ipc_latest_number(atomic_load(&page->latest)), n);
        ck_assert_int_eq(ipc_state_of(page, n), IPC_DONE);
        ck_assert_int_eq(ipc_state_of(page, n + 1), IPC_NONE);
    }
}
END_TEST

START_TEST(words_carry_what_is_put_into_them)
{
    static const uint64_t numbers[] = {
        1, 1023, 1024, UINT32_MAX, UINT64_C(1) << 32, (UINT64_C(1) << 50) - 1};
    static const uint32_t openers[] = {0, 1, ME, OTHER, IPC_OPENERS_MAX};

    for (unsigned n = 0; n < sizeof(numbers) / sizeof(numbers[0]); n++)
        for (unsigned o = 0; o < sizeof(openers) / sizeof(openers[0]); o++)
            for (uint32_t state = IPC_NONE; state <= IPC_FAILED; state++) {
                uint64_t latest = ipc_latest_make(numbers[n], openers[o], state);
                uint64_t slot = ipc_slot_of_latest(latest);

                ck_assert_uint_eq(ipc_latest_number(latest), numbers[n]);
                ck_assert_uint_eq(ipc_latest_state(latest), state);
                ck_assert_uint_eq(ipc_slot_tag(slot), (uint32_t)numbers[n]);
                ck_assert_uint_eq(ipc_slot_opener(slot), openers[o]);
                ck_assert_uint_eq(ipc_slot_state(slot), state);
                ck_assert_uint_eq(slot & IPC_WAITERS, 0);
                ck_assert_uint_eq(ipc_slot_state(slot | IPC_WAITERS), state);
            }
}
END_TEST

START_TEST(pending_becomes_done_or_failed_once)
{
    uint64_t first = take_record(ME, IPC_PENDING), second = take_record(OTHER, IPC_PENDING);

    ck_assert_int_eq(ipc_state_of(page, first), IPC_PENDING);
    ck_assert_int_eq(ipc_state_of(page, second), IPC_PENDING);
    /* Out of order. */
    ck_assert(complete_record(second, OTHER, IPC_FAILED));
    ck_assert_int_eq(ipc_state_of(page, first), IPC_PENDING);
    ck_assert_int_eq(ipc_state_of(page, second), IPC_FAILED);
    ck_assert(complete_record(first, ME, IPC_DONE));
    ck_assert_int_eq(ipc_state_of(page, first), IPC_DONE);
    ck_assert(!complete_record(first, ME, IPC_FAILED));
    ck_assert(!complete_record(second, OTHER, IPC_DONE));
    ck_assert_int_eq(ipc_state_of(page, first), IPC_DONE);
    ck_assert_int_eq(ipc_state_of(page, second), IPC_FAILED);
}
END_TEST

START_TEST(done_at_the_call_was_never_pending)
{
    uint64_t number = take_record(ME, IPC_DONE);

    ck_assert(!ipc_arm(page, number));
    ck_assert(!complete_record(number, ME, IPC_FAILED));
    take_record(OTHER, IPC_PENDING);
    ck_assert_int_eq(ipc_state_of(page, number), IPC_DONE);
    ck_assert(!ipc_arm(page, number));
    ck_assert(!complete_record(number, ME, IPC_FAILED));
}
END_TEST

START_TEST(only_the_opener_completes_its_record)
{
    uint64_t number = take_record(ME, IPC_PENDING);

    /* Once while it is known from latest only, once from its slot. */
    for (int i = 0; i < 2; i++) {
        ck_assert(!complete_record(number, OTHER, IPC_DONE));
        ck_assert(!complete_record(number, 0, IPC_FAILED));
        ck_assert(!complete_record(number, ME + 4096, IPC_DONE));
        ck_assert(!complete_record(number - 1, ME, IPC_DONE));
        ck_assert(!complete_record(number + 1, ME, IPC_DONE));
        ck_assert(!complete_record(number + IPC_SLOTS, ME, IPC_DONE));
        ck_assert(!complete_record(number - IPC_SLOTS, ME, IPC_DONE));
        ck_assert_int_eq(ipc_state_of(page, number), IPC_PENDING);
        take_record(OTHER, IPC_DONE);
    }
    ck_assert(complete_record(number, ME, IPC_DONE));
}
END_TEST

START_TEST(sleepers_are_announced_once)
{
    uint64_t number = take_record(ME, IPC_PENDING);
    bool waiters = false;

    ck_assert(ipc_arm(page, number));
    ck_assert(ipc_arm(page, number));
    ck_assert_uint_eq(slot_of(number) & IPC_WAITERS, IPC_WAITERS);
    ck_assert_int_eq(ipc_state_of(page, number), IPC_PENDING);
    ck_assert_uint_eq(ipc_slot_opener(slot_of(number)), ME);
    take_record(OTHER, IPC_PENDING);
    ck_assert_uint_eq(slot_of(number) & IPC_WAITERS, IPC_WAITERS);
    ck_assert(ipc_complete(page, number, ME, IPC_DONE, &waiters));
    ck_assert(waiters);
    ck_assert_uint_eq(slot_of(number) & IPC_WAITERS, 0);
    ck_assert_int_eq(ipc_state_of(page, number), IPC_DONE);
    ck_assert(!ipc_arm(page, number));
    /* The other record has a bit of its own. */
    ck_assert(complete_record(number + 1, OTHER, IPC_FAILED));
}
END_TEST

START_TEST(armed_record_in_a_full_window)
{
    uint64_t blocker;
    bool waiters;

    for (unsigned i = 0; i < IPC_SLOTS; i++)
        take_record(ME, IPC_PENDING);
    ck_assert_uint_eq(ipc_take(page, OTHER, IPC_PENDING, &blocker), 0);
    ck_assert(ipc_arm(page, blocker));
    ck_assert_uint_eq(ipc_take(page, OTHER, IPC_PENDING, &blocker), 0);
    ck_assert(ipc_complete(page, blocker, ME, IPC_DONE, &waiters));
    ck_assert(waiters);
    ck_assert_uint_eq(take_record(OTHER, IPC_PENDING), IPC_SLOTS + 1);
    /* The bit did not pass on to the new record in that slot. */
    ck_assert(complete_record(IPC_SLOTS + 1, OTHER, IPC_DONE));
}
END_TEST

START_TEST(full_window_makes_the_recorder_wait)
{
    uint64_t blocker = 0;

    for (uint64_t n = 1; n <= IPC_SLOTS; n++)
        ck_assert_uint_eq(take_record(ME, IPC_PENDING), n);
    for (int i = 0; i < 2; i++) {
        ck_assert_uint_eq(ipc_take(page, OTHER, i ? IPC_DONE : IPC_PENDING, &blocker), 0);
        ck_assert_uint_eq(blocker, 1);
    }
    /* Later ones do not make room, only the oldest does, and for one. */
    ck_assert(complete_record(3, ME, IPC_DONE));
    ck_assert_uint_eq(ipc_take(page, OTHER, IPC_PENDING, &blocker), 0);
    ck_assert(complete_record(1, ME, IPC_FAILED));
    ck_assert_uint_eq(take_record(OTHER, IPC_PENDING), IPC_SLOTS + 1);
    ck_assert_uint_eq(ipc_take(page, OTHER, IPC_PENDING, &blocker), 0);
    ck_assert_uint_eq(blocker, 2);
    /* No record of any opener was touched meanwhile. */
    for (uint64_t n = 2; n <= IPC_SLOTS; n++)
        ck_assert_int_eq(ipc_state_of(page, n), n == 3 ? IPC_DONE : IPC_PENDING);
    ck_assert(complete_record(2, ME, IPC_DONE));
    ck_assert_uint_eq(take_record(OTHER, IPC_DONE), IPC_SLOTS + 2);
    ck_assert_uint_eq(take_record(OTHER, IPC_DONE), IPC_SLOTS + 3);
    ck_assert_uint_eq(ipc_take(page, OTHER, IPC_DONE, &blocker), 0);
    ck_assert_uint_eq(blocker, 4);
}
END_TEST

START_TEST(overtaken_records_are_not_pending_any_more)
{
    uint64_t done = take_record(ME, IPC_PENDING), failed = take_record(ME, IPC_PENDING);

    ck_assert(complete_record(done, ME, IPC_DONE));
    ck_assert(complete_record(failed, ME, IPC_FAILED));
    record_many(OTHER, IPC_SLOTS - 2);
    /* The last moment at which both are known. */
    ck_assert_int_eq(ipc_state_of(page, done), IPC_DONE);
    ck_assert_int_eq(ipc_state_of(page, failed), IPC_FAILED);
    record_many(OTHER, 3);
    for (uint64_t n = done; n <= failed; n++) {
        ck_assert_int_eq(ipc_state_of(page, n), IPC_NONE);
        ck_assert(!ipc_arm(page, n));
        ck_assert(!complete_record(n, ME, IPC_DONE));
        ck_assert(!complete_record(n, OTHER, IPC_DONE));
    }
}
END_TEST

START_TEST(numbers_go_on_beyond_32_bits)
{
    uint64_t start = (UINT64_C(1) << 32) - 2 * IPC_SLOTS - 5;

    atomic_store(&page->latest, ipc_latest_make(start, OTHER, IPC_DONE));
    for (uint64_t n = start + 1; n <= start + 5 * IPC_SLOTS; n++) {
        ck_assert_uint_eq(take_record((uint32_t)n % 50, IPC_PENDING), n);
        ck_assert_int_eq(ipc_state_of(page, n), IPC_PENDING);
        ck_assert(ipc_arm(page, n));
        ck_assert_uint_eq(ipc_slot_tag(slot_of(n)), (uint32_t)n);
        if (n >= start + 100) {
            bool waiters = false;

            ck_assert(ipc_complete(page, n - 99, (uint32_t)(n - 99) % 50, IPC_DONE, &waiters));
            ck_assert(waiters);
            ck_assert_int_eq(ipc_state_of(page, n - 99), IPC_DONE);
        }
    }
    for (uint32_t opener = 0; opener < 50; opener++)
        sweep_opener(opener);
    for (uint64_t n = start + 4 * IPC_SLOTS + 1; n <= start + 5 * IPC_SLOTS; n++)
        ck_assert_int_eq(ipc_state_of(page, n),
                         n + 98 < start + 5 * IPC_SLOTS ? IPC_DONE : IPC_FAILED);
}
END_TEST

/* --- death between two stores --- */

/*
 * After step 3 of taking a number there is nothing but `latest` that knows the record: that is
 * where a kill leaves it.
 */
START_TEST(killed_right_after_the_swap_of_latest)
{
    for (unsigned i = 0; i < 3 * IPC_SLOTS; i++) {
        uint64_t number = take_record(ME, IPC_PENDING), next;

        ck_assert_uint_ne(ipc_slot_tag(slot_of(number)), (uint32_t)number);
        /* The next caller makes it known, whatever its call is. */
        switch (i % 4) {
        case 0:
            next = take_record(OTHER, IPC_DONE);
            ck_assert_uint_eq(next, number + 1);
            break;
        case 1:
            ck_assert_int_eq(ipc_state_of(page, number), IPC_PENDING);
            break;
        case 2:
            ck_assert(ipc_arm(page, number));
            break;
        case 3:
            ck_assert(!complete_record(number, OTHER, IPC_DONE));
            break;
        }
        ck_assert_uint_eq(ipc_slot_tag(slot_of(number)), (uint32_t)number);
        ck_assert_uint_eq(ipc_slot_opener(slot_of(number)), ME);
        ck_assert_uint_eq(ipc_slot_state(slot_of(number)), IPC_PENDING);
        ck_assert_uint_eq(sweep_opener(OTHER), 0);
        ck_assert_uint_eq(sweep_opener(ME), 1);
        ck_assert_int_eq(ipc_state_of(page, number), IPC_FAILED);
    }
}
END_TEST

START_TEST(sweep_alone_finds_the_last_record)
{
    uint64_t number = take_record(ME, IPC_PENDING);

    ck_assert_uint_eq(sweep_opener(ME), 1);
    ck_assert_int_eq(ipc_state_of(page, number), IPC_FAILED);
    ck_assert_uint_eq(take_record(OTHER, IPC_PENDING), number + 1);
    ck_assert_uint_eq(sweep_opener(ME), 0);
}
END_TEST

START_TEST(killed_before_the_swap_nothing_has_happened)
{
    uint64_t first = take_record(ME, IPC_PENDING);

    ipc_help(page, atomic_load(&page->latest)); /* step 1, then the kill */
    ck_assert_uint_eq(take_record(OTHER, IPC_PENDING), first + 1);
    ck_assert_int_eq(ipc_state_of(page, first), IPC_PENDING);
    ck_assert_uint_eq(sweep_opener(OTHER), 1);
    ck_assert_uint_eq(sweep_opener(ME), 1);
}
END_TEST

/* A helper that was stopped for long must not bring back what it saw. */
START_TEST(late_help_changes_nothing)
{
    uint64_t number = take_record(ME, IPC_PENDING), seen = atomic_load(&page->latest), before;

    ck_assert(complete_record(number, ME, IPC_DONE));
    before = slot_of(number);
    ipc_help(page, seen);
    ck_assert_uint_eq(slot_of(number), before);
    for (unsigned i = 0; i < 3 * IPC_SLOTS; i++) {
        record_many(OTHER, 1);
        before = slot_of(number);
        ipc_help(page, seen);
        ck_assert_uint_eq(slot_of(number), before);
    }
}
END_TEST

START_TEST(help_keeps_announced_sleepers)
{
    uint64_t number = take_record(ME, IPC_PENDING), seen = atomic_load(&page->latest);
    bool waiters = false;

    ck_assert(ipc_arm(page, number));
    ipc_help(page, seen);
    ck_assert(ipc_complete(page, number, ME, IPC_DONE, &waiters));
    ck_assert(waiters);
}
END_TEST

/* --- real deaths --- */

#define BROOD 3

static int record_until_killed(void *arg)
{
    uint32_t opener = *(const uint32_t *)arg;
    uint64_t rng = opener + 1, blocker, mine[64];
    unsigned n = 0;
    bool waiters;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (;;) {
        enum ipc_state state = random_below(&rng, 2) ? IPC_DONE : IPC_PENDING;
        uint64_t number = n < 64 ? ipc_take(page, opener, state, &blocker) : 0;

        if (number != 0 && state == IPC_PENDING)
            mine[n++] = number;
        if (number == 0 && n > 0) {
            uint32_t i = random_below(&rng, n);

            ipc_complete(page, mine[i], opener, IPC_DONE, &waiters);
            mine[i] = mine[--n];
        }
    }
    return 0;
}

static pid_t start_child(uint32_t opener)
{
    return child_start(record_until_killed, &opener);
}

/* Every number in the window is accounted for, and none is pending of an opener that is gone. */
static void check_window(const bool *dead)
{
    uint64_t newest = ipc_latest_number(atomic_load(&page->latest));

    for (uint64_t n = newest > IPC_SLOTS ? newest - IPC_SLOTS + 1 : 1; n <= newest; n++) {
        enum ipc_state state = ipc_state_of(page, n);
        uint64_t slot = slot_of(n);

        CHECK(state != IPC_NONE);
        if (ipc_slot_tag(slot) != (uint32_t)n)
            CHECK(state != IPC_PENDING); /* newest, complete at the call */
        else if (state == IPC_PENDING)
            CHECK(ipc_slot_opener(slot) < BROOD && !dead[ipc_slot_opener(slot)]);
    }
}

/*
 * SIGKILL at arbitrary instructions, while others go on. The survivors are stopped for the look at
 * the page only.
 */
START_TEST(killed_anywhere)
{
    uint64_t rng = 5, end = clock_ns() + 800 * NSEC_PER_MSEC;
    bool dead[BROOD] = {false};
    pid_t child[BROOD];
    unsigned failed = 0;

    for (uint32_t i = 0; i < BROOD; i++)
        child[i] = start_child(i);
    for (unsigned round = 0; round < 2 || clock_ns() < end; round++) {
        uint32_t victim = random_below(&rng, BROOD);
        uint64_t goal = ipc_latest_number(atomic_load(&page->latest)) + random_below(&rng, 5000);

        AWAIT(ipc_latest_number(atomic_load(&page->latest)) >= goal);
        child_kill(child[victim]);
        failed += sweep_opener(victim);
        for (uint32_t i = 0; i < BROOD; i++)
            if (i != victim) {
                ck_assert_int_eq(kill(child[i], SIGSTOP), 0);
                ck_assert_int_eq(waitpid(child[i], NULL, WUNTRACED), child[i]);
            }
        dead[victim] = true;
        check_window(dead);
        dead[victim] = false;
        for (uint32_t i = 0; i < BROOD; i++)
            if (i != victim)
                ck_assert_int_eq(kill(child[i], SIGCONT), 0);
        child[victim] = start_child(victim);
    }
    for (uint32_t i = 0; i < BROOD; i++) {
        child_kill(child[i]);
        sweep_opener(i);
        dead[i] = true;
    }
    check_window(dead);
    ck_assert_uint_gt(failed, 0);
}
END_TEST

/* --- garbage --- */

/* Everything that npud or a client may do on the page. It may say anything, but it returns. */
static void call_everything(uint64_t number, uint32_t opener)
{
    uint64_t blocker = UINT64_MAX, taken;
    bool waiters;

    CHECK(ipc_state_of(page, number) <= IPC_FAILED);
    ipc_help(page, atomic_load(&page->latest));
    ipc_help(page, number);
    taken = ipc_take(page, opener, number % 2 ? IPC_PENDING : IPC_DONE, &blocker);
    CHECK(taken != 0 || blocker != UINT64_MAX);
    ipc_complete(page, number, opener, IPC_DONE, &waiters);
    ipc_arm(page, number);
    ipc_complete(page, taken, opener, IPC_FAILED, &waiters);
    sweep_opener(opener);
    CHECK(sweep_opener(opener) == 0);
}

static void fill_page(uint64_t *rng, bool plausible)
{
    uint32_t newest = random_below(rng, 4 * IPC_SLOTS);

    atomic_store(&page->latest,
                 plausible ? ipc_latest_make(newest, random_below(rng, 8), random_below(rng, 4))
                           : random_next(rng));
    for (unsigned i = 0; i < IPC_SLOTS; i++)
        atomic_store(&page->slot[i], plausible
                                         ? (uint64_t)random_below(rng, 4 * IPC_SLOTS) << 32 |
                                               random_below(rng, 8) << 16 | random_below(rng, 8)
                                         : random_next(rng));
}

START_TEST(garbage_in_the_page)
{
    uint64_t rng = 4711, end = clock_ns() + 300 * NSEC_PER_MSEC;

    for (unsigned round = 0; round < 20 || clock_ns() < end; round++) {
        bool plausible = round % 2;

        fill_page(&rng, plausible);
        for (unsigned i = 0; i < 8; i++)
            call_everything(plausible ? random_below(&rng, 4 * IPC_SLOTS) : random_next(&rng),
                            plausible ? random_below(&rng, 8) : (uint32_t)random_next(&rng));
    }
}
END_TEST

START_TEST(extreme_words)
{
    static const uint64_t words[] = {0, 1, UINT64_MAX, UINT64_C(1) << 63, 0x3fff, UINT32_MAX};
    enum { N = sizeof(words) / sizeof(words[0]) };

    for (unsigned l = 0; l < N; l++)
        for (unsigned s = 0; s < N; s++)
            for (unsigned n = 0; n < N; n++) {
                atomic_store(&page->latest, words[l]);
                for (unsigned i = 0; i < IPC_SLOTS; i++)
                    atomic_store(&page->slot[i], words[s]);
                call_everything(words[n], (uint32_t)words[s]);
            }
}
END_TEST

static _Atomic bool stop;

static void *scribble_on_page(void *arg)
{
    uint64_t rng = (uintptr_t)arg, n = 0;

    while (!atomic_load_explicit(&stop, memory_order_relaxed)) {
        uint64_t number = atomic_load(&page->latest) >> 14;
        _Atomic uint64_t *slot = &page->slot[number % IPC_SLOTS];

        /*
         * Mostly values that make a compare-and-swap of another thread fail and still look as if
         * the compare-and-swap should be tried again.
         */
        if (random_below(&rng, 100) == 0)
            atomic_store(&page->latest, random_next(&rng));
        else
            atomic_fetch_xor(slot, random_below(&rng, 2) ? IPC_WAITERS : 0xf000);
        n++;
    }
    return (void *)(uintptr_t)n;
}

START_TEST(garbage_that_changes_all_the_time)
{
    uint64_t rng = 815, end = clock_ns() + 300 * NSEC_PER_MSEC;
    pthread_t threads[2];

    for (uintptr_t i = 0; i < 2; i++)
        threads[i] = start_thread(scribble_on_page, (void *)(i + 1));
    while (clock_ns() < end) {
        uint32_t opener = random_below(&rng, 8);
        uint64_t blocker,
            latest = ipc_latest_make(random_below(&rng, 100) + 1, opener, IPC_PENDING);
        bool waiters;

        atomic_store(&page->latest, latest);
        ipc_help(page, latest);
        ipc_arm(page, ipc_latest_number(latest));
        ipc_take(page, opener, IPC_PENDING, &blocker);
        ipc_complete(page, ipc_latest_number(latest), opener, IPC_DONE, &waiters);
        sweep_opener(opener);
    }
    atomic_store(&stop, true);
    thread_join(threads[0]);
    thread_join(threads[1]);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("ipc_page");
    TCase *numbers = suite_case(s, "numbers and states", 0, map_page, unmap_page);
    TCase *death = suite_case(s, "death", 60, map_page, unmap_page);
    TCase *garbage = suite_case(s, "garbage", 60, map_page, unmap_page);

    tcase_add_test(numbers, nothing_recorded);
    tcase_add_test(numbers, numbers_begin_with_1_and_have_no_gaps);
    tcase_add_test(numbers, words_carry_what_is_put_into_them);
    tcase_add_test(numbers, pending_becomes_done_or_failed_once);
    tcase_add_test(numbers, done_at_the_call_was_never_pending);
    tcase_add_test(numbers, only_the_opener_completes_its_record);
    tcase_add_test(numbers, sleepers_are_announced_once);
    tcase_add_test(numbers, armed_record_in_a_full_window);
    tcase_add_test(numbers, full_window_makes_the_recorder_wait);
    tcase_add_test(numbers, overtaken_records_are_not_pending_any_more);
    tcase_add_test(numbers, numbers_go_on_beyond_32_bits);
    tcase_add_test(death, killed_right_after_the_swap_of_latest);
    tcase_add_test(death, sweep_alone_finds_the_last_record);
    tcase_add_test(death, killed_before_the_swap_nothing_has_happened);
    tcase_add_test(death, late_help_changes_nothing);
    tcase_add_test(death, help_keeps_announced_sleepers);
    tcase_add_test(death, killed_anywhere);
    tcase_add_test(garbage, garbage_in_the_page);
    tcase_add_test(garbage, extreme_words);
    tcase_add_test(garbage, garbage_that_changes_all_the_time);
    return s;
}

int main(void)
{
    return run_suite(make_suite());
}
