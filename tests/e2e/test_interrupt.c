/*
 * aclnpudSetInterruptCheck(): what becomes of calls that a check or a signal ends. Python's use of
 * it: tests/python/test_interrupts.py.
 */
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "tests/common/harness.h"

static aclrtStream stream, other;

/* What the check was asked, and what it answers from the nth question on. */
static struct {
    _Atomic int asked[3];
    int answer_from;
} told;

static int32_t check_interrupt(void *arg, aclnpudInterruptMoment moment)
{
    ck_assert_ptr_eq(arg, &told);
    return atomic_fetch_add(&told.asked[moment], 1) + 1 >= told.answer_from;
}

static void answer_from(int n)
{
    for (int i = 0; i < 3; i++)
        atomic_store(&told.asked[i], 0);
    told.answer_from = n;
}

static void open_device(void)
{
    streams_open(&stream, &other);
    OK(aclnpudSetInterruptCheck(check_interrupt, &told));
}

static void no_sentence(void)
{
    ck_assert_ptr_null(aclGetRecentErrMsg());
}

START_TEST(a_wait_ends_and_can_be_made_again)
{
    aclrtEvent gate;

    open_device();
    gate = stream_hold(stream);
    answer_from(2);
    ck_assert_int_eq(aclrtSynchronizeStream(stream), ACLNPUD_ERROR_INTERRUPTED);
    ck_assert_int_eq(atomic_load(&told.asked[ACLNPUD_INTERRUPT_SLEEP]), 2);
    no_sentence();
    answer_from(3);
    ck_assert_int_eq(aclrtSynchronizeDevice(), ACLNPUD_ERROR_INTERRUPTED);
    /* The time limit is kept while the check lets it go on. */
    answer_from(100);
    FAILS(ACL_ERROR_RT_STREAM_SYNC_TIMEOUT, aclrtSynchronizeStreamWithTimeout(stream, 250));
    stream_let_go(gate);
    OK(aclrtSynchronizeStream(stream));
}
END_TEST

START_TEST(a_submission_ends_without_a_task)
{
    aclrtEvent gate;
    int error, n = 0;

    open_device();
    gate = stream_hold(stream);
    answer_from(2);
    do {
        error = aclnpudLaunchDelay(0, 0, stream);
        n += error == 0;
    } while (error == 0);
    ck_assert_int_eq(error, ACLNPUD_ERROR_INTERRUPTED);
    ck_assert_int_eq(n, 1023); /* and the wait */
    ck_assert_int_eq(atomic_load(&told.asked[ACLNPUD_INTERRUPT_SLEEP]), 0);
    ck_assert_int_eq(atomic_load(&told.asked[ACLNPUD_INTERRUPT_LOCKED]), 2);
    no_sentence();
    answer_from(100);
    stream_let_go(gate);
    OK(aclnpudLaunchDelay(0, 0, stream));
    OK(aclrtSynchronizeStream(stream));
}
END_TEST

static void ignore_signal(int number)
{
    (void)number;
}

/*
 * Again and again, because a signal may come before the thread sleeps, which ends nothing. The
 * pause only leaves the CPU to that thread.
 */
static void *keep_signalling(void *arg)
{
    struct timespec pause = {.tv_nsec = 1000000};

    while (!atomic_load(&told.asked[ACLNPUD_INTERRUPT_SLEEP])) {
        pthread_kill(*(pthread_t *)arg, SIGUSR1);
        nanosleep(&pause, NULL);
    }
    return NULL;
}

/* Asked at once, not at the end of a slice: the time limit is shorter than one. */
START_TEST(a_signal_has_the_check_asked)
{
    struct sigaction action = {.sa_handler = ignore_signal};
    pthread_t me = pthread_self(), thread;
    aclrtEvent gate;

    open_device();
    gate = stream_hold(stream);
    sigaction(SIGUSR1, &action, NULL);
    answer_from(1);
    ck_assert_int_eq(pthread_create(&thread, NULL, keep_signalling, &me), 0);
    ck_assert_int_eq(aclrtSynchronizeStreamWithTimeout(stream, 90), ACLNPUD_ERROR_INTERRUPTED);
    pthread_join(thread, NULL);
    stream_let_go(gate);
}
END_TEST

enum { STEPS = 250, STEP_US = 20000 };

static aclrtEvent steps[STEPS];

static void *await_each_step(void *unused)
{
    (void)unused;
    for (int i = 0; i < STEPS && aclrtSynchronizeEvent(steps[i]) == 0; i++)
        ;
    return NULL;
}

/* Both sleep on one word: each step of the other thread wakes this one, which sleeps again. */
START_TEST(a_wait_that_others_wake_asks_as_often)
{
    pthread_t thread;

    open_device();
    for (int i = 0; i < STEPS; i++) {
        OK(aclrtCreateEventExWithFlag(&steps[i], ACL_EVENT_SYNC));
        OK(aclnpudLaunchDelay(STEP_US, 0, stream));
        OK(aclrtRecordEvent(steps[i], stream));
    }
    answer_from(1);
    ck_assert_int_eq(pthread_create(&thread, NULL, await_each_step, NULL), 0);
    ck_assert_int_eq(aclrtSynchronizeStream(stream), ACLNPUD_ERROR_INTERRUPTED);
    OK(aclrtDestroyStreamForce(stream));
    pthread_join(thread, NULL);
}
END_TEST

static bool was_asked(void)
{
    return atomic_load(&told.asked[ACLNPUD_INTERRUPT_SLEEP]) != 0;
}

static struct {
    sem_t held, let_go; /* a callback runs, until it is let go */
    _Atomic bool over;
} one;

static sem_t ended; /* a callback of the other stream is about to */

static void hold_thread(void *unused)
{
    (void)unused;
    sem_post(&one.held);
    sem_wait(&one.let_go);
}

static void say_that_it_ends(void *unused)
{
    (void)unused;
    sem_post(&ended);
}

static void *serve_callbacks(void *arg)
{
    while (!atomic_load((_Atomic bool *)arg))
        (void)aclrtProcessReport(-1);
    return NULL;
}

/* One after the other. Returns whether the check was asked meanwhile. */
static void *have_callbacks_end(void *context)
{
    uint64_t end = now_ns() + UINT64_C(10000000000);

    OK(aclrtSetCurrentContext(context));
    while (!was_asked() && now_ns() < end) {
        OK(aclrtLaunchCallback(say_that_it_ends, NULL, ACL_CALLBACK_NO_BLOCK, other));
        sem_wait(&ended);
    }
    return was_asked() ? context : NULL;
}

static pthread_t start_server(aclrtStream served, _Atomic bool *over)
{
    pthread_t thread;

    ck_assert_int_eq(pthread_create(&thread, NULL, serve_callbacks, over), 0);
    OK(aclrtSubscribeReport((uint64_t)thread, served));
    return thread;
}

/* Every callback of the process that ends wakes the thread that waits for one. */
START_TEST(the_end_of_a_stream_asks_while_callbacks_end)
{
    pthread_t slow, quick, feeder;
    static _Atomic bool over;
    aclrtContext context;
    void *asked;

    open_device();
    sem_init(&one.held, 0, 0);
    sem_init(&one.let_go, 0, 0);
    sem_init(&ended, 0, 0);
    OK(aclrtGetCurrentContext(&context));
    slow = start_server(stream, &one.over);
    quick = start_server(other, &over);
    OK(aclrtLaunchCallback(hold_thread, NULL, ACL_CALLBACK_BLOCK, stream));
    sem_wait(&one.held);
    answer_from(1);
    ck_assert_int_eq(pthread_create(&feeder, NULL, have_callbacks_end, context), 0);
    OK(aclrtDestroyStream(stream));
    atomic_store(&one.over, true);
    sem_post(&one.let_go);
    pthread_join(slow, NULL);
    pthread_join(feeder, &asked);
    ck_assert_ptr_nonnull(asked);
    atomic_store(&over, true);
    OK(aclrtDestroyStreamForce(other));
    pthread_join(quick, NULL);
}
END_TEST

static int runs;

static void count_run(void *unused)
{
    (void)unused;
    runs++;
}

START_TEST(reports_stop_after_the_callback)
{
    open_device();
    OK(aclrtSubscribeReport((uint64_t)pthread_self(), stream));
    for (int i = 0; i < 3; i++)
        OK(aclrtLaunchCallback(count_run, NULL, ACL_CALLBACK_NO_BLOCK, stream));
    OK(aclrtSynchronizeStream(stream));
    answer_from(1);
    OK(aclrtProcessReport(-1));
    ck_assert_int_eq(runs, 1);
    answer_from(100);
    OK(aclrtProcessReport(-1));
    ck_assert_int_eq(runs, 3);
    answer_from(1);
    ck_assert_int_eq(aclrtProcessReport(-1), ACLNPUD_ERROR_INTERRUPTED);
}
END_TEST

/*
 * Two streams, of which the first has to be waited for; the rest of the context ends by force with
 * it.
 */
START_TEST(what_ends_things_ends_them_by_force)
{
    aclrtContext context;
    aclrtStream more;
    aclrtEvent gate;

    open_device();
    gate = stream_hold(stream);
    answer_from(1);
    OK(aclrtDestroyStream(stream));
    ck_assert_int_eq(atomic_load(&told.asked[ACLNPUD_INTERRUPT_SLEEP]), 1);
    FAILS(ACL_ERROR_RT_INVALID_HANDLE, aclrtDestroyStream(stream));
    OK(aclrtCreateContext(&context, 0));
    OK(aclrtCreateStream(&more));
    OK(aclrtStreamWaitEvent(more, gate));
    OK(aclrtStreamWaitEvent(NULL, gate));
    answer_from(1);
    OK(aclrtDestroyContext(context));
    ck_assert_int_eq(atomic_load(&told.asked[ACLNPUD_INTERRUPT_SLEEP]), 1);
    OK(aclnpudSetInterruptCheck(NULL, NULL));
    OK(aclrtResetDeviceForce(0));
    OK(aclFinalize());
    npud_expect_empty();
}
END_TEST

static void *destroy_stream(void *arg)
{
    OK(aclrtSetCurrentContext(arg));
    OK(aclrtDestroyStream(stream));
    return NULL;
}

/* Another thread, which has no check, is destroying a stream of the device. */
START_TEST(what_another_thread_destroys_ends_by_force)
{
    aclrtContext context;
    pthread_t thread;

    open_device();
    stream_hold(stream);
    OK(aclrtGetCurrentContext(&context));
    ck_assert_int_eq(pthread_create(&thread, NULL, destroy_stream, context), 0);
    while (!npud_lists_sleeper(getpid(), "aclrtDestroyStream"))
        ;
    answer_from(1);
    OK(aclrtResetDeviceForce(0));
    pthread_join(thread, NULL);
    OK(aclFinalize());
    npud_expect_empty();
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("interrupt");
    TCase *c = suite_case(s, "interrupt", 60, npud_setup, npud_teardown);

    tcase_add_test(c, a_wait_ends_and_can_be_made_again);
    tcase_add_test(c, a_submission_ends_without_a_task);
    tcase_add_test(c, a_signal_has_the_check_asked);
    tcase_add_test(c, a_wait_that_others_wake_asks_as_often);
    tcase_add_test(c, the_end_of_a_stream_asks_while_callbacks_end);
    tcase_add_test(c, reports_stop_after_the_callback);
    tcase_add_test(c, what_ends_things_ends_them_by_force);
    tcase_add_test(c, what_another_thread_destroys_ends_by_force);
    return s;
}

int main(void)
{
    return run_suite(make_suite());
}
