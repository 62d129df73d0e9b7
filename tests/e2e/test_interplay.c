/*
 * Where the parts of the engine and of the library meet: each test takes at least two of them.
 *
 * Skipped under TSan: the test asks one call after the other; the threads of npud and of the
 * library meet in the same ways in test_ipc_order, test_queue, the model and the soak.
 * Runs long: 18 s.
 */
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gate.h"
#include "tests/common/harness.h"
#include "tests/common/moment.h"
#include "proto/wire/npud.pb-c.h"

#define GUARD_MS 300000
#define CODE     ACL_ERROR_RT_AICORE_EXCEPTION

static aclrtStream stream, other, probe;

static void open_device(void)
{
    streams_open(&stream, &other);
    OK(aclrtCreateStream(&probe));
}

/* A stream has both worked and waited: what one has left is not in the way of the other. */
START_TEST(test_notify_wait_after_copy)
{
    aclrtNotify notify;
    void *a, *b;

    open_device();
    OK(aclrtMalloc(&a, 4096, ACL_MEM_MALLOC_HUGE_FIRST));
    OK(aclrtMalloc(&b, 4096, ACL_MEM_MALLOC_HUGE_FIRST));
    OK(aclrtCreateNotify(&notify, ACL_NOTIFY_DEFAULT));
    OK(aclrtMemcpyAsync(a, 4096, b, 4096, ACL_MEMCPY_DEVICE_TO_DEVICE, stream));
    OK(aclrtWaitAndResetNotify(notify, stream, 0));
    engine_turn(probe);
    ck_assert(!idle(stream));
    OK(aclrtRecordNotify(notify, other));
    OK(aclrtSynchronizeStream(stream));
}
END_TEST

/* --- event descriptors --- */

static int notify_fd(aclrtEvent event)
{
    int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);

    ck_assert_int_ge(fd, 0);
    OK(aclnpudEventNotifyFd(event, fd));
    return fd;
}

static void expect_written(int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};

    ck_assert_msg(poll(&p, 1, GUARD_MS) == 1, "never written");
}

static aclrtEvent record_behind_failure(void)
{
    aclrtEvent event;

    OK(aclrtCreateEvent(&event));
    OK(aclnpudLaunchDelay(0, CODE, stream));
    OK(aclrtRecordEvent(event, stream));
    return event;
}

/*
 * What a stopped stream has queued is not going to be: no later than that the descriptor says so.
 */
START_TEST(test_fd_of_stopped_stream)
{
    aclrtEvent event, gate;
    int before, after;

    open_device();
    OK(aclrtSetStreamFailureMode(stream, ACL_STOP_ON_FAILURE));
    gate = stream_hold(stream);
    event = record_behind_failure();
    before = notify_fd(event);
    stream_let_go(gate);
    ck_assert_int_eq(aclrtSynchronizeStream(stream), CODE);
    expect_written(before);
    after = notify_fd(event);
    expect_written(after);
}
END_TEST

static void end_by_abort(void)
{
    OK(aclrtStreamAbort(stream));
}

static void end_by_task_abort(void)
{
    OK(aclrtDeviceTaskAbort(0, 0));
}

static void end_by_loss(void)
{
    npuctl_says("inject lose-device --device 0", 0, "");
}

static void end_by_destruction(void)
{
    OK(aclrtDestroyStreamForce(stream));
}

static void (*const ends[])(void) = {end_by_abort, end_by_task_abort, end_by_loss,
                                     end_by_destruction};
#define ENDS ((int)(sizeof(ends) / sizeof(ends[0])))

/* Also of an IPC event, and when it is asked for afterwards. */
START_TEST(test_fd_of_ended_stream)
{
    aclrtEvent event, shared;
    int fd[2];

    open_device();
    OK(aclrtCreateEventExWithFlag(&shared, ACL_EVENT_IPC));
    stream_hold(stream);
    event = record_behind_failure();
    OK(aclrtRecordEvent(shared, stream));
    fd[0] = notify_fd(event);
    fd[1] = notify_fd(shared);
    ends[_i]();
    for (int i = 0; i < 2; i++)
        expect_written(fd[i]);
    expect_written(notify_fd(event));
    expect_written(notify_fd(shared));
}
END_TEST

/* --- callbacks of a stream that is aborted --- */

#define ROUNDS 200

static _Atomic unsigned n_run, n_dropped, last_run;
static _Atomic bool finished;
static sem_t begun, go_on;
static aclrtContext context;

static void run_slowly(void *arg)
{
    (void)arg;
    n_run++;
    sem_post(&begun);
    sem_wait(&go_on);
}

static void run_in_order(void *arg)
{
    unsigned number = (unsigned)(uintptr_t)arg;

    ck_assert_uint_gt(number, last_run);
    last_run = number;
    n_run++;
}

static void count_drop(void *arg)
{
    (void)arg;
    n_dropped++;
}

static void *process_reports(void *arg)
{
    (void)arg;
    OK(aclrtSetCurrentContext(context));
    while (!finished)
        aclrtProcessReport(10000);
    return NULL;
}

static void launch_callback(aclrtCallback fn, unsigned number)
{
    OK(aclnpudLaunchCallbackWithDrop(fn, count_drop, (void *)(uintptr_t)number,
                                     number % 2 ? ACL_CALLBACK_BLOCK : ACL_CALLBACK_NO_BLOCK,
                                     stream));
}

/* Each runs once or is dropped once, and none of the new ones before the one that was running. */
START_TEST(test_callbacks_of_aborted_stream)
{
    unsigned n = 0, launched = 0;
    pthread_t thread;

    open_device();
    sem_init(&begun, 0, 0);
    sem_init(&go_on, 0, 0);
    OK(aclrtGetCurrentContext(&context));
    pthread_create(&thread, NULL, process_reports, NULL);
    OK(aclrtSubscribeReport((uint64_t)thread, stream));
    for (int round = 0; round < ROUNDS; round++) {
        launch_callback(run_slowly, 1 + round % 2);
        for (int i = 0; i < 6; i++)
            launch_callback(run_in_order, ++n);
        launched += 7;
        sem_wait(&begun);
        OK(aclrtStreamAbort(stream));
        ck_assert(idle(stream));
        ck_assert_uint_eq(n_run + n_dropped, launched);
        /* New ones, while an old one runs. */
        for (int i = 0; i < 3; i++)
            launch_callback(run_in_order, ++n);
        launched += 3;
        engine_turn(probe);
        ck_assert_uint_eq(n_run + n_dropped, launched - 3);
        sem_post(&go_on);
        OK(aclrtSynchronizeStreamWithTimeout(stream, GUARD_MS));
        while (n_run + n_dropped < launched)
            wait_a_moment();
    }
    ck_assert_uint_eq(n_run, 4 * ROUNDS);
    finished = true;
    OK(aclrtUnSubscribeReport((uint64_t)thread, stream));
    pthread_join(thread, NULL);
}
END_TEST

/* --- whatever a stream is held by, it can be ended --- */

#define HOUR UINT64_C(3600000000) /* us */

static aclrtStream third;
static aclrtNotify notify;
static aclrtCntNotify counter;
static aclrtEvent gate, ipc;
static uint64_t *word;
static sem_t let_return;
static _Atomic bool returns; /* host functions and exception callbacks do not wait */
static _Atomic unsigned n_exceptions;

static void hold_here(void *arg)
{
    (void)arg;
    while (!returns)
        sem_wait(&let_return);
    sem_post(&let_return);
}

static void on_exception(aclrtExceptionInfo *info)
{
    (void)info;
    n_exceptions++;
    hold_here(NULL);
}

static void never_called(void *arg)
{
    (void)arg;
    ck_abort_msg("nobody processes reports");
}

static void by_callback(void)
{
    OK(aclrtSubscribeReport((uint64_t)pthread_self(), stream));
    OK(aclrtLaunchCallback(never_called, NULL, ACL_CALLBACK_BLOCK, stream));
}

static void by_host_function(void)
{
    OK(aclrtLaunchHostFunc(stream, hold_here, NULL));
    OK(aclrtLaunchHostFunc(stream, hold_here, NULL));
}

static void by_notify(void)
{
    OK(aclrtWaitAndResetNotify(notify, stream, 0));
}

static void by_notify_with_limit(void)
{
    OK(aclrtWaitAndResetNotify(notify, stream, 3000));
}

static void by_counter(void)
{
    aclrtCntNotifyWaitInfo info = {.mode = ACL_RT_CNT_NOTIFY_WAIT_EQUAL_MODE, .value = 5};

    OK(aclrtCntNotifyWaitWithTimeout(counter, stream, &info));
}

static void by_value(void)
{
    OK(aclrtValueWait(word, 1, ACL_STREAM_WAIT_VALUE_EQ, stream));
}

static void by_level(void)
{
    OK(aclrtStreamWaitEvent(stream, gate));
}

static void by_level_with_limit(void)
{
    OK(aclrtStreamWaitEventWithTimeout(stream, gate, 3000));
}

/* Of a record in the third stream, which is held by the gate. */
static void by_position(void)
{
    aclrtEvent event;

    OK(aclrtCreateEvent(&event));
    OK(aclrtStreamWaitEvent(third, gate));
    OK(aclrtRecordEvent(event, third));
    OK(aclrtStreamWaitEventWithTimeout(stream, event, 3000));
}

static void by_ipc_record(void)
{
    OK(aclrtStreamWaitEvent(third, gate));
    OK(aclrtRecordEvent(ipc, third));
    OK(aclrtStreamWaitEvent(stream, ipc));
}

static void by_delay(void)
{
    OK(aclnpudLaunchDelay(HOUR, 0, stream));
}

static void by_rule(void)
{
    npuctl_says("inject stall --kind copy --nth 1", 0, "");
    OK(aclrtMemcpyAsync(word, 64, word + 8, 64, ACL_MEMCPY_DEVICE_TO_DEVICE, stream));
}

static void by_rule_behind_notify(void)
{
    npuctl_says("inject stall --kind 'notify wait' --nth 1", 0, "");
    OK(aclrtWaitAndResetNotify(notify, stream, 0));
}

/* The client takes one: its callback does not return. */
static void fill_ring(void)
{
    for (int i = 0; i < 70; i++)
        OK(aclnpudLaunchDelay(0, CODE, third));
    while (n_exceptions == 0)
        wait_a_moment();
    engine_turn(probe);
    engine_turn(probe);
}

static void by_full_ring(void)
{
    OK(aclrtSetExceptionInfoCallback(on_exception));
    fill_ring();
    OK(aclnpudLaunchDelay(0, CODE, stream));
}

static void by_full_ring_at_record(void)
{
    OK(aclrtSetExceptionInfoCallback(on_exception));
    npuctl_says("inject fail --kind 'notify record'", 0, "");
    fill_ring();
    OK(aclrtRecordNotify(notify, stream));
}

static const struct {
    const char *name;
    void (*hold)(void);
} holds[] = {
    {"callback", by_callback},
    {"host function", by_host_function},
    {"notify", by_notify},
    {"notify with limit", by_notify_with_limit},
    {"counter", by_counter},
    {"value", by_value},
    {"level", by_level},
    {"level with limit", by_level_with_limit},
    {"position", by_position},
    {"IPC record", by_ipc_record},
    {"delay", by_delay},
    {"rule", by_rule},
    {"rule, notify", by_rule_behind_notify},
    {"full ring", by_full_ring},
    {"full ring, record", by_full_ring_at_record},
};
#define HOLDS ((int)(sizeof(holds) / sizeof(holds[0])))

static void hold_by_cause(int hold)
{
    void *m;

    open_device();
    OK(aclrtCreateStream(&third));
    sem_init(&let_return, 0, 0);
    OK(aclrtCreateNotify(&notify, ACL_NOTIFY_DEFAULT));
    OK(aclrtCntNotifyCreate(&counter, 0));
    OK(aclrtCreateEventWithFlag(&gate, ACL_EVENT_SYNC));
    OK(aclrtCreateEventExWithFlag(&ipc, ACL_EVENT_IPC));
    OK(aclrtMalloc(&m, 4096, ACL_MEM_MALLOC_HUGE_FIRST));
    word = m;
    OK(aclrtMemset(m, 4096, 0, 4096));
    /* Something in the place where waiters are. */
    OK(aclrtMemsetAsync(word + 8, 1024, 0xff, 1024, stream));
    OK(aclrtSynchronizeStream(stream));
    holds[hold].hold();
    /* And behind it, what others wait for. */
    OK(aclrtRecordNotify(notify, stream));
    OK(aclrtValueWrite(word, 2, 0, stream));
    engine_turn(probe);
    ck_assert_msg(!idle(stream), "not held by %s", holds[hold].name);
}

/* All that held it comes after all. */
static void let_all_go(void)
{
    aclrtCntNotifyRecordInfo info = {ACL_RT_CNT_NOTIFY_RECORD_SET_VALUE_MODE, 5};

    returns = true;
    sem_post(&let_return);
    free(npuctl("inject clear", &(int){0}));
    OK(aclrtRecordEvent(gate, other));
    OK(aclrtRecordNotify(notify, other));
    OK(aclrtCntNotifyRecord(counter, other, &info));
    OK(aclrtValueWrite(word, 1, 0, other));
    OK(aclrtSynchronizeStream(other));
}

static void expect_usable(aclrtStream s)
{
    OK(aclnpudLaunchDelay(100, 0, s));
    OK(aclrtMemsetAsync(word + 8, 1024, 0, 1024, s));
    OK(aclrtSynchronizeStreamWithTimeout(s, GUARD_MS));
}

static void expect_nothing_left(void)
{
    OK(aclrtResetDeviceForce(0));
    OK(aclFinalize());
    npud_expect_empty();
}

START_TEST(test_held_abort)
{
    hold_by_cause(_i);
    OK(aclrtStreamAbort(stream));
    ck_assert(idle(stream));
    returns = true;
    sem_post(&let_return);
    expect_usable(stream);
    let_all_go();
    aclrtSynchronizeStream(third);
    expect_usable(stream);
    expect_nothing_left();
}
END_TEST

START_TEST(test_held_stop_task)
{
    hold_by_cause(_i);
    OK(aclrtStreamStop(stream));
    let_all_go();
    aclrtSynchronizeStreamWithTimeout(stream, GUARD_MS);
    expect_usable(stream);
    expect_nothing_left();
}
END_TEST

START_TEST(test_held_device_abort)
{
    hold_by_cause(_i);
    OK(aclrtDeviceTaskAbort(0, 0));
    ck_assert(idle(stream));
    returns = true;
    sem_post(&let_return);
    expect_usable(stream);
    let_all_go();
    expect_usable(stream);
    expect_nothing_left();
}
END_TEST

START_TEST(test_held_destroy)
{
    hold_by_cause(_i);
    if (strcmp(holds[_i].name, "host function") == 0)
        let_all_go();
    OK(aclrtDestroyStreamForce(stream));
    OK(aclrtCreateStream(&stream));
    expect_usable(stream);
    let_all_go();
    expect_usable(stream);
    expect_nothing_left();
}
END_TEST

START_TEST(test_held_lost)
{
    hold_by_cause(_i);
    npuctl_says("inject lose-device --device 0", 0, "");
    returns = true;
    sem_post(&let_return);
    ck_assert_int_eq(aclrtSynchronizeStreamWithTimeout(stream, GUARD_MS),
                     ACL_ERROR_RT_LOST_HEARTBEAT);
    npuctl_says("inject clear", 0, "");
    aclrtSynchronizeStream(stream);
    expect_usable(stream);
    let_all_go();
    expect_usable(stream);
    expect_nothing_left();
}
END_TEST

START_TEST(test_held_lost_for_a_moment)
{
    hold_by_cause(_i);
    npuctl_says("inject lose-device --device 0", 0, "");
    let_all_go();
    aclrtSynchronizeStreamWithTimeout(stream, GUARD_MS);
    aclrtStreamAbort(stream);
    aclrtSynchronizeStream(stream);
    expect_usable(stream);
    expect_nothing_left();
}
END_TEST

/* Stopped by another stream of the context. */
START_TEST(test_held_stopped)
{
    aclrtStreamStatus status;
    aclrtStream failing;

    hold_by_cause(_i);
    OK(aclrtCreateStream(&failing));
    OK(aclrtSetStreamFailureMode(failing, ACL_STOP_ON_FAILURE));
    /* Of a wait: no exception, for which there may be no room. */
    OK(aclrtStreamWaitEventWithTimeout(failing, gate, 1));
    while (aclrtStreamQuery(probe, &status) == 0)
        wait_a_moment();
    returns = true;
    sem_post(&let_return);
    ck_assert_int_eq(aclrtSynchronizeStream(stream), ACL_ERROR_RT_TASK_TIMEOUT);
    ck_assert_int_eq(aclrtSynchronizeStream(third), ACL_ERROR_RT_TASK_TIMEOUT);
    free(npuctl("inject clear", &(int){0}));
    OK(aclrtDestroyStream(stream));
    expect_nothing_left();
}
END_TEST

/* --- death --- */

static int held_main(void *arg)
{
    hold_by_cause(*(int *)arg);
    raise(SIGKILL);
    return 1;
}

START_TEST(test_held_death)
{
    pid_t child = child_start(held_main, &_i);

    waitpid(child, NULL, 0);
    npud_expect_empty();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("interplay");
    TCase *c = suite_case(suite, "interplay", 60, npud_setup, npud_teardown);

    tcase_add_test(c, test_notify_wait_after_copy);
    tcase_add_test(c, test_fd_of_stopped_stream);
    suite_add_cases(c, test_fd_of_ended_stream, ENDS);
    tcase_add_test(c, test_callbacks_of_aborted_stream);
    c = suite_case(suite, "abort", 60, npud_setup, npud_teardown);
    suite_add_cases(c, test_held_abort, HOLDS);
    c = suite_case(suite, "stop_task", 60, npud_setup, npud_teardown);
    suite_add_cases(c, test_held_stop_task, HOLDS);
    c = suite_case(suite, "device_abort", 60, npud_setup, npud_teardown);
    suite_add_cases(c, test_held_device_abort, HOLDS);
    c = suite_case(suite, "destroy", 60, npud_setup, npud_teardown);
    suite_add_cases(c, test_held_destroy, HOLDS);
    c = suite_case(suite, "lost", 60, npud_setup, npud_teardown);
    suite_add_cases(c, test_held_lost, HOLDS);
    c = suite_case(suite, "lost_for_a_moment", 60, npud_setup, npud_teardown);
    suite_add_cases(c, test_held_lost_for_a_moment, HOLDS);
    c = suite_case(suite, "stopped", 60, npud_setup, npud_teardown);
    suite_add_cases(c, test_held_stopped, HOLDS);
    c = suite_case(suite, "death", 60, npud_setup, npud_teardown);
    suite_add_cases(c, test_held_death, HOLDS);
    return run_suite(suite);
}
