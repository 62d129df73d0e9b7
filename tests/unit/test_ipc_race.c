/*
 * proto/ipc_page with many threads on one event: one outcome for every record, and no wake-up lost.
 */
#include "proto/shm/ipc_page.h"

#include <errno.h>

#include "proto/util/futex.h"
#include "unit.h"

#define ME    7u
#define OTHER 4094u

static struct ipc_page the_page, *const page = &the_page;

static uint64_t take_record(uint32_t opener, enum ipc_state state)
{
    uint64_t blocker, taken = ipc_take(page, opener, state, &blocker);

    CHECK(taken != 0);
    return taken;
}

/* --- two at the same instant --- */

static uint64_t contested, newest_before, left_number, right_number, latest_seen;
static bool armed, left_won, right_won, left_waiters, right_waiters;

/* Half of the records are known from `latest` only, half from their slot. */
static void prepare_pending(void)
{
    contested = take_record(ME, IPC_PENDING);
    latest_seen = atomic_load(&page->latest);
    if (contested % 2)
        ipc_help(page, latest_seen);
    left_won = right_won = left_waiters = right_waiters = false;
}

static void left_arms(void)
{
    armed = ipc_arm(page, contested);
}

static void left_completes(void)
{
    left_won = ipc_complete(page, contested, ME, IPC_DONE, &left_waiters);
}

static void right_completes(void)
{
    right_won = ipc_complete(page, contested, ME, IPC_FAILED, &right_waiters);
}

static void judge_sleeper(void)
{
    CHECK(right_won);
    CHECK(right_waiters == armed);
    CHECK(ipc_state_of(page, contested) == IPC_FAILED);
}

static void judge_winner(void)
{
    CHECK(left_won != right_won);
    CHECK(ipc_state_of(page, contested) == (left_won ? IPC_DONE : IPC_FAILED));
}

START_TEST(sleeper_is_seen_or_sees)
{
    static const struct duel d = {prepare_pending, left_arms, right_completes, judge_sleeper};

    duel_run(&d, 150);
}
END_TEST

START_TEST(one_of_two_completes)
{
    static const struct duel d = {prepare_pending, left_completes, right_completes, judge_winner};

    duel_run(&d, 150);
}
END_TEST

static void left_helps(void)
{
    ipc_help(page, latest_seen);
}

static void judge_help(void)
{
    CHECK(right_won);
    CHECK(ipc_state_of(page, contested) == IPC_FAILED);
}

START_TEST(help_does_not_undo_a_completion)
{
    static const struct duel d = {prepare_pending, left_helps, right_completes, judge_help};

    duel_run(&d, 150);
}
END_TEST

static void prepare_takers(void)
{
    bool waiters;

    /* Completes what the round before left. */
    ipc_complete(page, left_number, ME, IPC_DONE, &waiters);
    ipc_complete(page, right_number, OTHER, IPC_DONE, &waiters);
    newest_before = ipc_latest_number(atomic_load(&page->latest));
}

static void left_takes(void)
{
    left_number = take_record(ME, IPC_PENDING);
}

static void right_takes(void)
{
    right_number = take_record(OTHER, IPC_PENDING);
}

static void judge_takers(void)
{
    CHECK(left_number != right_number);
    CHECK(left_number + right_number == 2 * newest_before + 3);
    CHECK(ipc_state_of(page, left_number) == IPC_PENDING);
    CHECK(ipc_state_of(page, right_number) == IPC_PENDING);
    CHECK(ipc_slot_opener(atomic_load(&page->slot[left_number % IPC_SLOTS])) == ME);
    CHECK(ipc_slot_opener(atomic_load(&page->slot[right_number % IPC_SLOTS])) == OTHER);
}

START_TEST(two_recorders_get_two_numbers)
{
    static const struct duel d = {prepare_takers, left_takes, right_takes, judge_takers};

    duel_run(&d, 150);
}
END_TEST

/* --- many at once --- */

/*
 * Recorders take numbers, complete at the call or pending; completers ("engines") finish pending
 * ones in random order, some of them twice and some as failed; sleepers wait for whatever is
 * newest. One record is held back again and again until a recorder sleeps because the window is
 * full, so that recorders sleep as well.
 */
#define RECORDERS  3
#define COMPLETERS 2
#define SLEEPERS   2
#define NUMBERS    (1u << 22)
#define BAG        512

static _Atomic uint8_t taken[NUMBERS + 1];   /* 1 + state at the call; a second taker would show */
static _Atomic uint8_t outcome[NUMBERS + 1]; /* how often it was completed << 4 | state it got */
static struct {
    pthread_mutex_t lock;
    struct job {
        uint64_t number;
        uint32_t opener;
    } jobs[BAG];
    unsigned n;
} bag = {.lock = PTHREAD_MUTEX_INITIALIZER};
static _Atomic uint64_t stress_end;
static _Atomic unsigned recording, blocked, window_sleeps, sleeps;
static _Atomic uint64_t hostage; /* number << 1 | 1: held back */

static bool bag_put(struct job job)
{
    bool room;

    pthread_mutex_lock(&bag.lock);
    room = bag.n < BAG;
    if (room)
        bag.jobs[bag.n++] = job;
    pthread_mutex_unlock(&bag.lock);
    return room;
}

static bool bag_get(uint64_t *rng, struct job *job)
{
    bool any;

    pthread_mutex_lock(&bag.lock);
    any = bag.n > 0;
    if (any) {
        unsigned i = random_below(rng, bag.n);

        *job = bag.jobs[i];
        bag.jobs[i] = bag.jobs[--bag.n];
    }
    pthread_mutex_unlock(&bag.lock);
    return any;
}

/*
 * As client/core/wait.c does. Fails if no completer wakes this thread although the record is
 * complete.
 */
static void wait_record(uint64_t number, _Atomic unsigned *count)
{
    uint64_t deadline = clock_ns() + GUARD_NS;
    struct timespec ts = timespec_from_ns(deadline);

    for (;;) {
        uint32_t seen = atomic_load_explicit(&page->wake_seq, memory_order_acquire);

        if (!ipc_arm(page, number))
            return;
        atomic_fetch_add_explicit(count, 1, memory_order_relaxed);
        if (futex_wait_until(&page->wake_seq, seen, &ts) == -ETIMEDOUT)
            ck_abort_msg("record %llu: %s", (unsigned long long)number,
                         ipc_state_of(page, number) == IPC_PENDING ? "nobody completed it"
                                                                   : "wake-up lost");
    }
}

static void finish_job(struct job job, enum ipc_state state)
{
    bool waiters;

    if (!ipc_complete(page, job.number, job.opener, state, &waiters))
        return;
    CHECK(atomic_fetch_add(&outcome[job.number], (uint8_t)(1 << 4 | state)) == 0);
    if (waiters) {
        atomic_fetch_add_explicit(&page->wake_seq, 1, memory_order_release);
        futex_wake_all(&page->wake_seq);
    }
}

static bool stress_over(void)
{
    return clock_ns() >= atomic_load(&stress_end) ||
           ipc_latest_number(atomic_load(&page->latest)) > NUMBERS - 2 * RECORDERS;
}

static void *run_recorder(void *arg)
{
    uint32_t opener = (uint32_t)(uintptr_t)arg;
    uint64_t rng = opener + 17, blocker;

    while (!stress_over()) {
        enum ipc_state state = random_below(&rng, 3) ? IPC_PENDING : IPC_DONE;
        uint64_t number = ipc_take(page, opener, state, &blocker);
        struct job job = {.number = number, .opener = opener};

        if (number == 0) {
            atomic_fetch_add(&blocked, 1);
            wait_record(blocker, &window_sleeps);
            atomic_fetch_sub(&blocked, 1);
            continue;
        }
        CHECK(atomic_exchange(&taken[number], (uint8_t)(1 + state)) == 0);
        if (state == IPC_PENDING) {
            uint64_t none = 0;

            /*
             * The opener that completes it need not be the thread that took it: openers are
             * processes.
             */
            if (opener == 0 && atomic_compare_exchange_strong(&hostage, &none, number << 1 | 1))
                continue;
            if (!bag_put(job))
                finish_job(job, IPC_DONE);
            else if (random_below(&rng, 16) == 0)
                bag_put(job); /* two will try */
        }
        burn_time(&rng, 50);
    }
    atomic_fetch_sub(&recording, 1);
    return NULL;
}

static void *run_completer(void *arg)
{
    uint64_t rng = (uintptr_t)arg + 100;
    struct job job;

    for (;;) {
        bool last = atomic_load(&recording) == 0;
        uint64_t held = atomic_load(&hostage);

        /*
         * Only once its own record is announced as blocking (or at the end) is the hostage let go.
         */
        if (held && (last || atomic_load(&blocked) > 0) &&
            atomic_compare_exchange_strong(&hostage, &held, 0))
            finish_job((struct job){.number = held >> 1, .opener = 0}, IPC_DONE);
        if (bag_get(&rng, &job))
            finish_job(job, random_below(&rng, 8) ? IPC_DONE : IPC_FAILED);
        else if (last && !held)
            return NULL;
        else
            sched_yield();
        burn_time(&rng, 50);
    }
}

static void *run_sleeper(void *arg)
{
    uint64_t rng = (uintptr_t)arg + 1000;

    while (atomic_load(&recording) > 0) {
        uint64_t newest = ipc_latest_number(atomic_load(&page->latest));
        uint32_t back = random_below(&rng, 4);

        if (newest <= back)
            continue;
        wait_record(newest - back, &sleeps);
        CHECK(ipc_state_of(page, newest - back) != IPC_PENDING);
        burn_time(&rng, 50);
    }
    return NULL;
}

START_TEST(every_record_has_one_outcome_and_no_wakeup_is_lost)
{
    pthread_t threads[RECORDERS + COMPLETERS + SLEEPERS];
    uint64_t newest;
    unsigned n = 0;

    atomic_store(&stress_end, clock_ns() + 1500 * NSEC_PER_MSEC);
    atomic_store(&recording, RECORDERS);
    for (uintptr_t i = 0; i < SLEEPERS; i++)
        threads[n++] = start_thread(run_sleeper, (void *)i);
    for (uintptr_t i = 0; i < COMPLETERS; i++)
        threads[n++] = start_thread(run_completer, (void *)i);
    for (uintptr_t i = 0; i < RECORDERS; i++)
        threads[n++] = start_thread(run_recorder, (void *)i);
    while (n > 0)
        thread_join(threads[--n]);

    newest = ipc_latest_number(atomic_load(&page->latest));
    ck_assert_uint_gt(newest, IPC_SLOTS);
    ck_assert_uint_gt(atomic_load(&sleeps), 0);
    ck_assert_uint_gt(atomic_load(&window_sleeps), 0);
    for (uint64_t i = 1; i <= newest; i++) {
        enum ipc_state state = ipc_state_of(page, i), at_call = (enum ipc_state)(taken[i] - 1);
        unsigned got = at_call == IPC_PENDING ? outcome[i] & 0xf : at_call;

        CHECK(taken[i] != 0);
        CHECK(outcome[i] >> 4 == (at_call == IPC_PENDING));
        CHECK(state != IPC_PENDING);
        CHECK(i + IPC_SLOTS <= newest || state == got);
    }
    ck_assert_uint_eq(taken[newest + 1], 0);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("ipc_race");
    TCase *duels = suite_case(s, "duels", 60, NULL, NULL);
    TCase *stress = suite_case(s, "many at once", 120, NULL, NULL);

    tcase_add_test(duels, sleeper_is_seen_or_sees);
    tcase_add_test(duels, one_of_two_completes);
    tcase_add_test(duels, help_does_not_undo_a_completion);
    tcase_add_test(duels, two_recorders_get_two_numbers);
    tcase_add_test(stress, every_record_has_one_outcome_and_no_wakeup_is_lost);
    return s;
}

int main(void)
{
    return run_suite(make_suite());
}
