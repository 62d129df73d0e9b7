/* daemon/base/worker: errands in their turns, and the end of the thread. */
#include "daemon/base/worker.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "tests/unit/unit.h"

struct counted {
    struct errand errand;
    unsigned number, turns; /* turns that it asks for */
};

static unsigned order[16];
static _Atomic unsigned n_run;
static _Atomic bool stalled; /* the first errand does not come to an end */
static sigset_t blocked;

static enum errand_end count(struct errand *errand)
{
    struct counted *c = (struct counted *)errand;

    AWAIT(!atomic_load(&stalled));
    pthread_sigmask(SIG_SETMASK, NULL, &blocked);
    order[atomic_load(&n_run)] = c->number;
    atomic_fetch_add(&n_run, 1);
    return --c->turns > 0 ? ERRAND_AGAIN : ERRAND_DONE;
}

static struct worker worker = WORKER("counter", count), lazy = WORKER_LAZY("lazy", count);

static struct errand *counted_new(unsigned number, unsigned turns)
{
    struct counted *c = malloc(sizeof(*c));

    ck_assert_ptr_nonnull(c);
    *c = (struct counted){.number = number, .turns = turns};
    return &c->errand;
}

START_TEST(errands_take_turns_and_what_is_left_is_done)
{
    const unsigned expected[] = {1, 2, 3, 2};

    ck_assert_int_eq(worker_start(&worker), 0);
    ck_assert_int_eq(worker_start(&worker), 0);
    atomic_store(&stalled, true);
    ck_assert(worker_put(&worker, counted_new(1, 1)));
    ck_assert(worker_put(&worker, counted_new(2, 2)));
    ck_assert(worker_put(&worker, counted_new(3, 1)));
    ck_assert(!worker_is_idle(&worker));
    atomic_store(&stalled, false);
    worker_stop(&worker);
    ck_assert(worker_is_idle(&worker));
    ck_assert_uint_eq(atomic_load(&n_run), 4);
    for (unsigned i = 0; i < 4; i++)
        ck_assert_uint_eq(order[i], expected[i]);
    ck_assert_int_eq(sigismember(&blocked, SIGTERM), 1);
    ck_assert_int_eq(sigismember(&blocked, SIGSEGV), 0); /* a crash in it is told, too */
    worker_stop(&worker);
}
END_TEST

START_TEST(without_its_thread_it_takes_nothing)
{
    struct errand *errand = counted_new(1, 1);

    ck_assert(!worker_put(&worker, errand));
    ck_assert_int_eq(worker_start(&worker), 0);
    worker_stop(&worker);
    ck_assert(!worker_put(&worker, errand));
    ck_assert_int_eq(worker_start(&worker), 0);
    ck_assert(worker_put(&worker, errand));
    worker_stop(&worker);
    ck_assert_uint_eq(atomic_load(&n_run), 1);
}
END_TEST

START_TEST(a_lazy_one_starts_with_the_first_errand)
{
    ck_assert(!lazy.started);
    ck_assert(worker_put(&lazy, counted_new(7, 1)));
    AWAIT(worker_is_idle(&lazy));
    ck_assert_uint_eq(order[0], 7);
    worker_stop(&lazy);
}
END_TEST

START_TEST(one_that_stalls_is_left_behind)
{
    ck_assert_int_eq(worker_start(&worker), 0);
    atomic_store(&stalled, true);
    ck_assert(worker_put(&worker, counted_new(1, 1)));
    ck_assert(!worker_stop_within(&worker, 1));
    ck_assert(!worker_put(&worker, NULL));
    atomic_store(&stalled, false);
    AWAIT(worker_is_idle(&worker));
}
END_TEST

START_TEST(one_that_comes_to_its_end_is_not)
{
    ck_assert_int_eq(worker_start(&worker), 0);
    ck_assert(worker_put(&worker, counted_new(1, 3)));
    ck_assert(worker_stop_within(&worker, 60000));
    ck_assert_uint_eq(atomic_load(&n_run), 3);
    ck_assert(worker_stop_within(&worker, 60000));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("worker");
    TCase *c = suite_case(suite, "all", 60, NULL, NULL);

    tcase_add_test(c, errands_take_turns_and_what_is_left_is_done);
    tcase_add_test(c, without_its_thread_it_takes_nothing);
    tcase_add_test(c, a_lazy_one_starts_with_the_first_errand);
    tcase_add_test(c, one_that_stalls_is_left_behind);
    tcase_add_test(c, one_that_comes_to_its_end_is_not);
    return run_suite(suite);
}
