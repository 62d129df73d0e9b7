/*
 * Threads inside calls (client/core/api_call.h): which of them may still use a session, or a view
 * of a segment; and which calls are told of.
 */
#include "client/core/api_call.h"
#include "client/core/lifecycle.h"
#include "client/core/npud_clock.h"
#include "client/core/process.h"
#include "client/core/ring_guard.h"
#include "client/core/thread.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>

#include "unit.h"

/* What client/core/api_call.c needs of the rest of the library. */
__thread struct thread *thread_current;

struct thread *thread_new(void)
{
    return thread_current = calloc(1, sizeof(struct thread));
}

bool ring_guard_barrier(void)
{
    return true;
}

union process_page process_page;

pid_t process_id(void)
{
    return 1;
}

/* What was told, in order. */
static struct told {
    char function[32];
    uint64_t begin_ns, end_ns;
    const struct thread *thread;
} told[64];
static unsigned n_told;

static void note_call(const char *function, uint64_t begin_ns, uint64_t end_ns)
{
    ck_assert_uint_lt(n_told, 64);
    told[n_told] = (struct told){.begin_ns = begin_ns, .end_ns = end_ns, .thread = thread_current};
    strncpy(told[n_told++].function, function, sizeof(told[0].function) - 1);
}

static const struct upcalls noting = {.profile_call = note_call};
const struct upcalls *upcalls = &noting;

/* --- another thread, which does one thing after the other --- */

static sem_t go, done;

static void hand_over_turn(void)
{
    sem_post(&done);
    sem_wait(&go);
}

/* Does the next thing, up to its next hand_over_turn(). */
static void let_it(void)
{
    sem_post(&go);
    sem_wait(&done);
}

static void rest_in_call(void)
{
    api_call_rest();
    hand_over_turn();
    api_call_resume();
    hand_over_turn();
}

static void enter_nested_call(void)
{
    CALL_SCOPE;

    ck_assert(CALL_IS_NESTED);
    rest_in_call();
}

static void first_call(void)
{
    CALL_SCOPE;

    ck_assert(!CALL_IS_NESTED);
    hand_over_turn();
    rest_in_call();
    enter_nested_call();
}

static void second_call(void)
{
    CALL_SCOPE;

    hand_over_turn();
}

static void *run_calls(void *arg)
{
    sem_wait(&go);
    first_call();
    hand_over_turn();
    second_call();
    api_call_part.thread_exit(thread_current);
    free(thread_current);
    sem_post(&done);
    return arg;
}

static void expect_left(uint64_t epoch, bool left, bool left_views)
{
    ck_assert_int_eq(api_call_all_left(epoch), left);
    ck_assert_int_eq(api_call_all_left_views(epoch), left_views);
}

/*
 * A thread counts from the beginning of its outer call to its end; for views not while it sleeps.
 * _i: also if its calls are told of.
 */
START_TEST(a_thread_counts_until_it_leaves)
{
    pthread_t thread;
    uint64_t epoch;

    if (_i == 1)
        api_call_watch(API_CALL_PROFILE, true);
    sem_init(&go, 0, 0);
    sem_init(&done, 0, 0);
    ck_assert_int_eq(pthread_create(&thread, NULL, run_calls, NULL), 0);
    expect_left(api_call_new_epoch(), true, true);
    let_it(); /* has begun */
    epoch = api_call_new_epoch();
    expect_left(epoch, false, false);
    let_it(); /* sleeps */
    expect_left(epoch, false, true);
    let_it(); /* has woken */
    expect_left(epoch, false, false);
    let_it(); /* sleeps in a call inside the call */
    expect_left(epoch, false, true);
    let_it(); /* has woken there */
    expect_left(epoch, false, false);
    let_it(); /* has left */
    expect_left(epoch, true, true);
    let_it(); /* is in its next call, which has begun after the epoch */
    expect_left(epoch, true, true);
    expect_left(api_call_new_epoch(), false, false);
    let_it(); /* has ended */
    expect_left(api_call_new_epoch(), true, true);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
}
END_TEST

static void expect_inside(void)
{
    CALL_SCOPE;

    expect_left(api_call_new_epoch(), true, false);
}

/*
 * aclFinalize does not wait for itself. A call that has found a view may still use it when it lets
 * go of others.
 */
START_TEST(the_calling_thread_counts_for_views_only)
{
    expect_inside();
    expect_left(api_call_new_epoch(), true, true);
}
END_TEST

/* Without the kernel's barrier it cannot be told which threads are inside. */
START_TEST(without_an_epoch_none_has_left)
{
    expect_left(0, false, false);
}
END_TEST

/* --- calls that are told of --- */

static void expect_told(unsigned i, const char *function)
{
    ck_assert_uint_lt(i, n_told);
    ck_assert_str_eq(told[i].function, function);
    ck_assert_uint_le(told[i].begin_ns, told[i].end_ns);
}

static void inner(void)
{
    CALL_SCOPE;

    ck_assert(CALL_IS_NESTED);
    ck_assert(api_call_inside());
}

static void outer(void)
{
    CALL_SCOPE;

    ck_assert(!CALL_IS_NESTED);
    ck_assert(api_call_inside());
    inner();
    ck_assert(!CALL_IS_NESTED);
    inner();
}

static void long_way(const char *function)
{
    CALL_SCOPE_OF(function);
}

static void of_the_library(void)
{
    CALL_SCOPE_OF(NULL);

    inner();
}

START_TEST(calls_are_told_with_their_names)
{
    uint64_t before = clock_ns();

    outer();
    ck_assert_uint_eq(n_told, 0);
    api_call_watch(API_CALL_PROFILE, true);
    outer();
    ck_assert(!api_call_inside());
    long_way("short_way");
    of_the_library();
    ck_assert_uint_eq(n_told, 5);
    expect_told(0, "inner");
    expect_told(1, "inner");
    expect_told(2, "outer");
    expect_told(3, "short_way");
    expect_told(4, "inner");
    ck_assert_uint_ge(told[2].begin_ns, before);
    ck_assert_uint_le(told[2].begin_ns, told[0].begin_ns);
    ck_assert_uint_le(told[0].end_ns, told[1].begin_ns);
    ck_assert_uint_le(told[1].end_ns, told[2].end_ns);
    ck_assert_uint_le(told[2].end_ns, clock_ns());
    api_call_watch(API_CALL_PROFILE, false);
    outer();
    ck_assert_uint_eq(n_told, 5);
    ck_assert_ptr_eq(api_call_mark_at_door(), api_call_mine); /* by the quick way */
}
END_TEST

static void change_inside(bool on)
{
    CALL_SCOPE;

    api_call_watch(API_CALL_PROFILE, on);
    inner();
}

/* What has begun before, or ends after, is not told; and each thread has left what it entered. */
START_TEST(watching_begins_and_ends_inside_of_calls)
{
    for (int i = 0; i < 3; i++) {
        n_told = 0;
        change_inside(true);
        ck_assert(!api_call_inside());
        ck_assert_uint_eq(n_told, 1); /* inner */
        outer();
        ck_assert_uint_eq(n_told, 4);
        change_inside(false);
        ck_assert(!api_call_inside());
        outer();
        ck_assert_uint_eq(n_told, 4);
    }
}
END_TEST

static void nest(unsigned depth)
{
    CALL_SCOPE;

    ck_assert_int_eq(CALL_IS_NESTED, depth < 40);
    if (depth > 0)
        nest(depth - 1);
    ck_assert_int_eq(CALL_IS_NESTED, depth < 40);
}

/* Those that are too deep are not told of. */
START_TEST(calls_inside_of_calls_have_an_end)
{
    api_call_watch(API_CALL_PROFILE, true);
    nest(40);
    ck_assert_uint_eq(n_told, 16);
    ck_assert(!api_call_inside());
    outer();
    ck_assert_uint_eq(n_told, 19);
}
END_TEST

static void *call_in_turn(void *arg)
{
    sem_wait(&go);
    outer();
    hand_over_turn();
    outer();
    hand_over_turn();
    api_call_part.thread_exit(thread_current);
    free(thread_current);
    sem_post(&done);
    return arg;
}

/* Threads that were there before, that come meanwhile, and that have ended. */
START_TEST(all_threads_are_watched)
{
    pthread_t thread;

    sem_init(&go, 0, 0);
    sem_init(&done, 0, 0);
    for (int i = 0; i < 2; i++) {
        n_told = 0;
        ck_assert_int_eq(pthread_create(&thread, NULL, call_in_turn, NULL), 0);
        api_call_watch(API_CALL_PROFILE, i == 1);
        let_it();
        ck_assert_uint_eq(n_told, i == 1 ? 3 : 0);
        api_call_watch(API_CALL_PROFILE, i == 0);
        let_it();
        ck_assert_uint_eq(n_told, 3);
        ck_assert_ptr_ne(told[0].thread, thread_current);
        let_it();
        ck_assert_int_eq(pthread_join(thread, NULL), 0);
        api_call_watch(API_CALL_PROFILE, true); /* not of the one that has ended */
    }
}
END_TEST

static _Atomic bool stops;

static void *call_beside(void *arg)
{
    do {
        {
            CALL_SCOPE;
        }
        ck_assert(!api_call_inside());
    } while (!atomic_load(&stops));
    api_call_part.thread_exit(thread_current);
    free(thread_current);
    return arg;
}

static void count_call(const char *function, uint64_t begin_ns, uint64_t end_ns)
{
    ck_assert_str_eq(function, "call_beside");
    ck_assert_uint_le(begin_ns, end_ns);
}

/* For sanitizers. */
START_TEST(watching_begins_and_ends_beside_calls)
{
    static const struct upcalls counting = {.profile_call = count_call};
    pthread_t threads[2];

    upcalls = &counting;
    for (int round = 0; round < 100; round++) {
        atomic_store(&stops, false);
        for (int i = 0; i < 2; i++)
            threads[i] = start_thread(call_beside, NULL);
        for (int i = 0; i < 20; i++)
            api_call_watch(API_CALL_PROFILE, i % 2 == 0);
        atomic_store(&stops, true);
        for (int i = 0; i < 2; i++)
            thread_join(threads[i]);
    }
}
END_TEST

/* A child of a process that is watched is not. */
START_TEST(a_forked_child_is_not_watched)
{
    api_call_watch(API_CALL_PROFILE, true);
    outer();
    api_call_part.fork_child();
    outer();
    ck_assert_uint_eq(n_told, 3);
    ck_assert_ptr_eq(api_call_mark_at_door(), api_call_mine);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("calls");
    TCase *tc = suite_case(s, "calls", 0, NULL, NULL);

    tcase_add_loop_test(tc, a_thread_counts_until_it_leaves, 0, 2);
    tcase_add_test(tc, the_calling_thread_counts_for_views_only);
    tcase_add_test(tc, without_an_epoch_none_has_left);
    tc = suite_case(s, "watched", 0, NULL, NULL);
    tcase_add_test(tc, calls_are_told_with_their_names);
    tcase_add_test(tc, watching_begins_and_ends_inside_of_calls);
    tcase_add_test(tc, calls_inside_of_calls_have_an_end);
    tcase_add_test(tc, all_threads_are_watched);
    tcase_add_test(tc, watching_begins_and_ends_beside_calls);
    tcase_add_test(tc, a_forked_child_is_not_watched);
    return run_suite(s);
}
