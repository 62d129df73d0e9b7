/*
 * Locks that are biased to their first thread (client/core/biased_lock.h): revocation in each
 * state, threads that end, fork, kernels without membarrier(2), and many threads at once.
 * tests/order/bias.c has what other processors than this one may do.
 */
#include "client/core/biased_lock.h"

#include <linux/membarrier.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/core/ring_guard.h"
#include "tests/common/effort.h"
#include "unit.h"

/* In place of client/core/ring_guard.c: a kernel that refuses when it is told to. */
static bool registered, refused;
static _Atomic unsigned barriers;

bool ring_guard_registered(void)
{
    return registered;
}

bool ring_guard_barrier(void)
{
    atomic_fetch_add(&barriers, 1);
    return !refused && syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0) == 0;
}

#ifdef __SANITIZE_THREAD__
static const bool biases = false; /* no lock is biased there */
#else
static const bool biases = true;
#endif

static struct biased_lock lock;

static bool try_lock(void)
{
    struct timespec past = {0};

    return biased_lock_take_until(&lock, &past);
}

static uint64_t owner_of(struct biased_lock *l)
{
    return atomic_load(&l->owner);
}

static bool is_revoked(struct biased_lock *l)
{
    return owner_of(l) & BIASED_REVOKED;
}

static void expect_free(struct biased_lock *l, uint64_t owner)
{
    CHECK(owner_of(l) == owner);
    CHECK(atomic_load(&l->held) == 0);
    CHECK(atomic_load(&l->word) == 0);
}

static void expect_plain(struct biased_lock *l)
{
    CHECK(is_revoked(l));
    expect_free(l, owner_of(l));
}

static void run_thread(void *(*run)(void *arg), void *arg)
{
    thread_join(start_thread(run, arg));
}

/* Protected by the lock. */
static unsigned inside;
static uint64_t uses;

static void *use_lock(void *arg)
{
    struct biased_lock *l = arg;

    biased_lock_take(l);
    CHECK(inside++ == 0);
    uses++;
    CHECK(inside-- == 1);
    biased_lock_give(l);
    return NULL;
}

/* --- states --- */

START_TEST(the_first_thread_is_the_owner)
{
    for (unsigned i = 0; i < 3; i++) {
        biased_lock_take(&lock);
        ck_assert_uint_eq(owner_of(&lock), biased_lock_self);
        ck_assert_uint_gt(biased_lock_self, BIASED_STRANGER);
        ck_assert_uint_eq(atomic_load(&lock.held), 1);
        ck_assert_uint_eq(atomic_load(&lock.word), 0);
        biased_lock_give(&lock);
        expect_free(&lock, biased_lock_self);
    }
    ck_assert_uint_eq(barriers, 0);
}
END_TEST

START_TEST(another_thread_takes_the_bias_away_once)
{
    use_lock(&lock);
    run_thread(use_lock, &lock);
    expect_plain(&lock);
    use_lock(&lock);
    run_thread(use_lock, &lock);
    expect_plain(&lock);
    ck_assert_uint_eq(barriers, 1);
}
END_TEST

/* Both revokers wait until the owner is out, however long they have to. */
START_TEST(revokers_wait_for_the_owner)
{
    pthread_t thread[2];

    for (unsigned round = 0; round < choose_effort(1000, 20000); round++) {
        lock = (struct biased_lock){.owner = BIASED_NOT_YET};
        biased_lock_take(&lock);
        inside++;
        for (unsigned i = 0; i < 2; i++)
            thread[i] = start_thread(use_lock, &lock);
        AWAIT(is_revoked(&lock));
        if (round % 2)
            sched_yield();
        CHECK(atomic_load(&lock.word) != 0 && atomic_load(&lock.held) == 1);
        inside--;
        biased_lock_give(&lock);
        if (round % 4 > 1)
            use_lock(&lock);
        for (unsigned i = 0; i < 2; i++)
            thread_join(thread[i]);
        expect_plain(&lock);
    }
}
END_TEST

static void *try_in_vain(void *arg)
{
    CHECK(!try_lock());
    return arg;
}

/* The thread behind one that gives up waits for the owner as well. */
START_TEST(a_revoker_may_give_up)
{
    biased_lock_take(&lock);
    run_thread(try_in_vain, NULL);
    ck_assert(is_revoked(&lock));
    ck_assert_uint_eq(atomic_load(&lock.word), 0);
    run_thread(try_in_vain, NULL);
    biased_lock_give(&lock);
    expect_plain(&lock);
    ck_assert(try_lock());
    run_thread(try_in_vain, NULL);
    biased_lock_give(&lock);
    run_thread(use_lock, &lock);
    expect_plain(&lock);
}
END_TEST

START_TEST(the_owner_does_not_take_it_twice)
{
    biased_lock_take(&lock);
    ck_assert(!try_lock());
    biased_lock_give(&lock);
    ck_assert(try_lock());
    ck_assert(!try_lock());
    biased_lock_give(&lock);
    expect_plain(&lock);
}
END_TEST

static void *give_beside_late_owner(void *arg)
{
    biased_lock_take(&lock);
    atomic_store(&lock.held, 1);
    biased_lock_give(&lock);
    CHECK(atomic_load(&lock.word) == 0);
    CHECK(atomic_load(&lock.held) == 1);
    return arg;
}

/*
 * The owner was stopped after it had seen its id: it stores 1 in `held` late, while another thread
 * has the plain lock already, and that one gives it back meanwhile.
 */
START_TEST(a_late_owner_disturbs_no_thread)
{
    use_lock(&lock);
    run_thread(use_lock, &lock);
    run_thread(give_beside_late_owner, NULL);
    run_thread(try_in_vain, NULL);
    biased_lock_retreat(&lock);
    expect_plain(&lock);
    run_thread(use_lock, &lock);
}
END_TEST

/* --- threads that end --- */

static void *become_owner(void *arg)
{
    use_lock(&lock);
    return memcpy(arg, &biased_lock_self, sizeof(biased_lock_self));
}

static void *keep_lock(void *arg)
{
    biased_lock_take(&lock);
    return arg;
}

START_TEST(an_owner_that_has_ended_leaves_its_locks)
{
    uint64_t id, before = 0;

    for (unsigned i = 0; i < 200; i++) {
        lock = (struct biased_lock){.owner = BIASED_NOT_YET};
        run_thread(become_owner, &id);
        ck_assert_uint_eq(owner_of(&lock), id);
        ck_assert_uint_gt(id, before); /* no later thread is taken for it */
        before = id;
        run_thread(use_lock, &lock);
        expect_plain(&lock);
    }
}
END_TEST

START_TEST(an_owner_that_ends_with_the_lock_keeps_it)
{
    run_thread(keep_lock, NULL);
    ck_assert(!try_lock());
    ck_assert(!try_lock());
}
END_TEST

/* --- fork --- */

static int status_of(pid_t child)
{
    int status;

    ck_assert_int_eq(waitpid(child, &status, 0), child);
    return status;
}

static void in_child(bool revokes, bool free)
{
    uint64_t owner = owner_of(&lock);
    pid_t child = fork();

    if (child == 0) {
        CHECK(owner_of(&lock) == owner);
        CHECK(try_lock() == free);
        CHECK(owner_of(&lock) == (owner | (revokes ? BIASED_REVOKED : 0)));
        if (free) {
            biased_lock_give(&lock);
            run_thread(use_lock, &lock);
            expect_plain(&lock);
        }
        _exit(0);
    }
    ck_assert_int_eq(status_of(child), 0);
    ck_assert_uint_eq(owner_of(&lock), owner);
}

static sem_t go, ready;

static void *hold_lock(void *arg)
{
    biased_lock_take(&lock);
    sem_post(&ready);
    sem_wait(&go);
    biased_lock_give(&lock);
    return arg;
}

/* The thread that forks keeps its bias in the child; that of another thread can be revoked. */
START_TEST(a_child_takes_locks_of_its_parent)
{
    uint64_t id;
    pthread_t thread;

    use_lock(&lock);
    in_child(false, true);

    lock = (struct biased_lock){.owner = BIASED_NOT_YET};
    run_thread(become_owner, &id);
    in_child(true, true);

    lock = (struct biased_lock){.owner = BIASED_NOT_YET};
    sem_init(&go, 0, 0);
    sem_init(&ready, 0, 0);
    thread = start_thread(hold_lock, NULL);
    sem_wait(&ready);
    in_child(true, false);
    sem_post(&go);
    thread_join(thread);
    use_lock(&lock);
}
END_TEST

/* --- kernels that refuse --- */

START_TEST(without_membarrier_it_is_a_plain_lock)
{
    registered = false;
    for (unsigned i = 0; i < 2; i++) {
        biased_lock_take(&lock);
        ck_assert_uint_eq(owner_of(&lock), BIASED_REVOKED);
        ck_assert_uint_eq(atomic_load(&lock.word), 1);
        run_thread(try_in_vain, NULL);
        biased_lock_give(&lock);
        run_thread(use_lock, &lock);
    }
    expect_plain(&lock);
    ck_assert_uint_eq(barriers, 0);
}
END_TEST

START_TEST(membarrier_is_forbidden_later)
{
    struct biased_lock other = {.owner = BIASED_NOT_YET};
    uint64_t start;

    use_lock(&lock);
    refused = true;
    start = clock_ns();
    run_thread(use_lock, &lock);
    ck_assert_uint_ge(clock_ns() - start, REVOKE_BLIND_NS);
    expect_plain(&lock);
    use_lock(&other);
    expect_plain(&other);
    ck_assert_uint_eq(barriers, 1);
}
END_TEST

/* --- many threads --- */

#define THREADS 4

static struct biased_lock *locks;
static uint64_t *counts; /* plain: each under the lock of its number */
static unsigned n_locks;
static uint64_t tries[THREADS]; /* that came to nothing: of that thread */

static void count_one(unsigned i)
{
    uint64_t count = counts[i];

    atomic_signal_fence(memory_order_seq_cst);
    counts[i] = count + 1;
}

/* The owner of each lock uses it without a pause, until it has lost it. */
static void *use_until_revoked(void *arg)
{
    for (unsigned i = 0; i < n_locks; i++) {
        uint64_t n = 0;

        do {
            biased_lock_take(&locks[i]);
            count_one(i);
            biased_lock_give(&locks[i]);
            if (++n % 256 == 0) /* with one CPU, revokers get there */
                sched_yield();
        } while (!is_revoked(&locks[i]));
        *(uint64_t *)arg += n;
    }
    return NULL;
}

static void *revoke_each(void *arg)
{
    uint64_t state = (uintptr_t)arg | 1;

    for (unsigned i = 0; i < n_locks; i++) {
        while (owner_of(&locks[i]) == BIASED_NOT_YET)
            sched_yield();
        burn_time(&state, 200);
        biased_lock_take(&locks[i]);
        count_one(i);
        biased_lock_give(&locks[i]);
    }
    return NULL;
}

static void make_locks(unsigned n)
{
    n_locks = n;
    locks = calloc(n, sizeof(*locks));
    counts = calloc(n, sizeof(*counts));
    ck_assert(locks && counts);
}

static uint64_t sum_and_free(void)
{
    uint64_t sum = 0;

    for (unsigned i = 0; i < n_locks; i++) {
        sum += counts[i];
        CHECK(atomic_load(&locks[i].held) == 0 && atomic_load(&locks[i].word) == 0);
    }
    free(locks);
    free(counts);
    return sum;
}

START_TEST(revocation_at_any_moment)
{
    uint64_t used = 0;
    pthread_t thread[3];

    make_locks(choose_effort(20000, 1000000));
    thread[0] = start_thread(use_until_revoked, &used);
    thread[1] = start_thread(revoke_each, (void *)0x1234);
    thread[2] = start_thread(revoke_each, (void *)0x98765);
    for (unsigned i = 0; i < 3; i++)
        thread_join(thread[i]);
    ck_assert_uint_eq(sum_and_free(), used + 2 * (uint64_t)n_locks);
}
END_TEST

/* Each lock becomes that of any thread; some give up. */
static void *use_any(void *arg)
{
    uint64_t *vain = arg, state = (uint64_t)(vain - tries) * 77 + 5;

    for (unsigned i = 0; i < n_locks * 8; i++) {
        unsigned n = i / 8 + random_below(&state, 3);
        struct timespec end = timespec_from_ns(clock_ns() + random_below(&state, 20000));

        n = n < n_locks ? n : n_locks - 1;
        if (random_below(&state, 4) > 0) {
            biased_lock_take(&locks[n]);
        } else if (!biased_lock_take_until(&locks[n], &end)) {
            ++*vain;
            continue;
        }
        count_one(n);
        burn_time(&state, 30);
        biased_lock_give(&locks[n]);
    }
    return NULL;
}

START_TEST(many_threads)
{
    pthread_t thread[THREADS];
    uint64_t vain = 0;

    make_locks(choose_effort(5000, 300000));
    for (unsigned i = 0; i < THREADS; i++)
        thread[i] = start_thread(use_any, &tries[i]);
    for (unsigned i = 0; i < THREADS; i++) {
        thread_join(thread[i]);
        vain += tries[i];
    }
    ck_assert_uint_eq(sum_and_free() + vain, (uint64_t)THREADS * 8 * n_locks);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("biased locks");
    TCase *plain = suite_case(suite, "many threads", 600, NULL, NULL), *t;

    /* Each test is a child of this process, and inherits it. */
    registered = syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0;
    tcase_add_test(plain, without_membarrier_it_is_a_plain_lock);
    tcase_add_test(plain, many_threads);
    if (!biases)
        return run_suite(suite);
    t = suite_case(suite, "bias", 600, NULL, NULL);
    tcase_add_test(t, the_first_thread_is_the_owner);
    tcase_add_test(t, another_thread_takes_the_bias_away_once);
    tcase_add_test(t, revokers_wait_for_the_owner);
    tcase_add_test(t, a_revoker_may_give_up);
    tcase_add_test(t, the_owner_does_not_take_it_twice);
    tcase_add_test(t, a_late_owner_disturbs_no_thread);
    tcase_add_test(t, an_owner_that_has_ended_leaves_its_locks);
    tcase_add_test(t, an_owner_that_ends_with_the_lock_keeps_it);
    tcase_add_test(t, a_child_takes_locks_of_its_parent);
    tcase_add_test(t, membarrier_is_forbidden_later);
    tcase_add_test(t, revocation_at_any_moment);
    return run_suite(suite);
}
