/*
 * Graphs beside what goes wrong: processes that die with them, memory and events that go, limits of
 * users, and thousands of graphs.
 */
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gate.h"
#include "tests/common/effort.h"
#include "tests/common/harness.h"

#define BYTES 4096u

static aclrtStream stream, other;
static void *memory;

static void begin(void)
{
    npud_setup();
    streams_open(&stream, &other);
    OK(aclrtMalloc(&memory, BYTES, ACL_MEM_MALLOC_HUGE_FIRST));
}

static void end(void)
{
    OK(aclrtFree(memory));
    OK(aclrtDestroyStream(stream));
    OK(aclrtDestroyStream(other));
    session_close();
    npud_expect_empty();
    npud_teardown();
}

static aclmdlRI capture_fill(aclrtStream s, int value)
{
    aclmdlRI model;

    OK(aclmdlRICaptureBegin(s, ACL_MODEL_RI_CAPTURE_MODE_RELAXED));
    OK(aclrtMemsetAsync(memory, BYTES, value, BYTES, s));
    OK(aclmdlRICaptureEnd(s, &model));
    return model;
}

static unsigned char first_byte(void)
{
    unsigned char byte;

    OK(aclrtMemcpy(&byte, 1, memory, 1, ACL_MEMCPY_DEVICE_TO_HOST));
    return byte;
}

/* --- what a graph names goes --- */

START_TEST(freed_memory_fails_its_task)
{
    aclmdlRI model;
    void *other_memory;

    OK(aclrtMalloc(&other_memory, BYTES, ACL_MEM_MALLOC_HUGE_FIRST));
    OK(aclmdlRICaptureBegin(stream, ACL_MODEL_RI_CAPTURE_MODE_RELAXED));
    OK(aclrtMemsetAsync(memory, BYTES, 1, BYTES, stream));
    OK(aclrtMemsetAsync(other_memory, BYTES, 2, BYTES, stream));
    OK(aclrtMemsetAsync(memory, BYTES, 3, BYTES, stream));
    OK(aclmdlRICaptureEnd(stream, &model));
    OK(aclrtFree(other_memory));
    for (int i = 0; i < 3; i++) {
        OK(aclmdlRIExecuteAsync(model, stream));
        FAILS(ACL_ERROR_RT_SYS_DMA, aclrtSynchronizeStream(stream));
        ck_assert_uint_eq(first_byte(), 1);
    }
    OK(aclmdlRIDestroy(model));
}
END_TEST

START_TEST(destroyed_events_fail_their_wait)
{
    aclmdlRI model;
    aclrtEvent event;

    OK(aclrtCreateEventWithFlag(&event, ACL_EVENT_EXTERNAL));
    OK(aclmdlRICaptureBegin(stream, ACL_MODEL_RI_CAPTURE_MODE_RELAXED));
    OK(aclrtRecordEvent(event, stream));
    OK(aclrtStreamWaitEvent(stream, event));
    OK(aclrtMemsetAsync(memory, BYTES, 3, BYTES, stream));
    OK(aclmdlRICaptureEnd(stream, &model));
    OK(aclmdlRIExecuteAsync(model, stream));
    OK(aclrtSynchronizeStream(stream));
    OK(aclrtDestroyEvent(event));
    OK(aclmdlRIExecuteAsync(model, stream));
    FAILS(ACL_ERROR_RT_PARAM_INVALID, aclrtSynchronizeStream(stream));
    OK(aclmdlRIDestroy(model));
}
END_TEST

/* What the rest of an execution would have recorded: those that wait for it fail. */
START_TEST(a_failure_lets_waits_for_the_rest_fail)
{
    aclmdlRI model;
    aclrtNotify notify;

    OK(aclrtCreateNotify(&notify, 0));
    OK(aclmdlRICaptureBegin(stream, ACL_MODEL_RI_CAPTURE_MODE_RELAXED));
    OK(aclnpudLaunchDelay(0, ACL_ERROR_RT_AICORE_EXCEPTION, stream));
    OK(aclrtRecordNotify(notify, stream));
    OK(aclmdlRICaptureEnd(stream, &model));
    for (int i = 0; i < 3; i++) {
        OK(aclrtWaitAndResetNotify(notify, other, 0));
        OK(aclmdlRIExecuteAsync(model, stream));
        FAILS(ACL_ERROR_RT_AICORE_EXCEPTION, aclrtSynchronizeStream(stream));
        FAILS(ACL_ERROR_RT_SUSPECT_REMOTE_ERROR, aclrtSynchronizeStream(other));
    }
    OK(aclmdlRIDestroy(model));
    OK(aclrtDestroyNotify(notify));
}
END_TEST

/* _i: behind which task it is aborted: in the model, or in the stream before it. */
START_TEST(an_abort_drops_executions)
{
    aclmdlRI model;
    aclrtNotify notify;

    OK(aclrtCreateNotify(&notify, 0));
    OK(aclmdlRICaptureBegin(stream, ACL_MODEL_RI_CAPTURE_MODE_RELAXED));
    OK(aclrtMemsetAsync(memory, BYTES, 1, BYTES, stream));
    OK(aclnpudLaunchDelay(_i ? 0 : 60000000, 0, stream));
    OK(aclrtMemsetAsync(memory, BYTES, 2, BYTES, stream));
    OK(aclrtRecordNotify(notify, stream));
    OK(aclmdlRICaptureEnd(stream, &model));
    OK(aclrtMemset(memory, BYTES, 0, BYTES));
    OK(aclrtWaitAndResetNotify(notify, other, 0));
    if (_i)
        OK(aclnpudLaunchDelay(60000000, 0, stream));
    for (int i = 0; i < 3; i++)
        OK(aclmdlRIExecuteAsync(model, stream));
    OK(aclrtStreamAbort(stream));
    OK(aclrtSynchronizeStream(stream));
    FAILS(ACL_ERROR_RT_SUSPECT_REMOTE_ERROR, aclrtSynchronizeStream(other));
    ck_assert_uint_ne(first_byte(), 2);
    if (_i) {
        OK(aclmdlRIExecuteAsync(model, stream));
        OK(aclrtSynchronizeStream(stream));
        ck_assert_uint_eq(first_byte(), 2);
    }
    OK(aclmdlRIDestroy(model));
    OK(aclrtDestroyNotify(notify));
}
END_TEST

static _Atomic int calls;

static void count_call(void *arg)
{
    (void)arg;
    atomic_fetch_add(&calls, 1);
}

/* Functions of executions that are dropped never run, and those behind them do. */
START_TEST(an_abort_drops_their_functions)
{
    aclmdlRI model;

    atomic_store(&calls, 0);
    OK(aclmdlRICaptureBegin(stream, ACL_MODEL_RI_CAPTURE_MODE_RELAXED));
    OK(aclrtLaunchHostFunc(stream, count_call, NULL));
    OK(aclrtLaunchHostFunc(stream, count_call, NULL));
    OK(aclmdlRICaptureEnd(stream, &model));
    for (int round = 1; round <= 20; round++) {
        OK(aclnpudLaunchDelay(60000000, 0, stream));
        for (int i = 0; i < 3; i++)
            OK(aclmdlRIExecuteAsync(model, stream));
        OK(aclrtLaunchHostFunc(stream, count_call, NULL));
        OK(aclrtStreamAbort(stream));
        OK(aclmdlRIExecuteAsync(model, stream));
        OK(aclrtLaunchHostFunc(stream, count_call, NULL));
        OK(aclrtSynchronizeStream(stream));
        ck_assert_int_eq(atomic_load(&calls), 3 * round);
    }
    OK(aclmdlRIDestroy(model));
}
END_TEST

/* --- deaths --- */

static struct shared {
    _Atomic int ready;
    char key[65];
} * shared;

static int hold_notify(void *arg)
{
    aclrtNotify notify;

    (void)arg;
    OK(aclInit(NULL));
    OK(aclrtSetDevice(0));
    OK(aclrtCreateNotify(&notify, 0));
    OK(aclrtNotifyGetExportKey(notify, shared->key, 65,
                               ACL_RT_NOTIFY_EXPORT_FLAG_DISABLE_PID_VALIDATION));
    atomic_store(&shared->ready, 1);
    pause();
    return 0;
}

/* A model waits for the notify of a process that dies: an answer, at each execution. */
START_TEST(the_death_of_a_peer_is_an_answer)
{
    aclrtNotify notify;
    aclmdlRI model;
    pid_t pid;

    shared = child_share(sizeof(*shared));
    pid = child_start(hold_notify, NULL);
    EVENTUALLY(atomic_load(&shared->ready), "the child makes no notify");
    OK(aclrtNotifyImportByKey(&notify, shared->key, 0));
    OK(aclmdlRICaptureBegin(stream, ACL_MODEL_RI_CAPTURE_MODE_RELAXED));
    OK(aclrtWaitAndResetNotify(notify, stream, 0));
    OK(aclrtMemsetAsync(memory, BYTES, 5, BYTES, stream));
    OK(aclmdlRICaptureEnd(stream, &model));
    OK(aclmdlRIExecuteAsync(model, stream));
    engine_turn(other); /* the wait has begun: one that begins later waits for this process */
    child_kill(pid);
    FAILS(ACL_ERROR_RT_SUSPECT_REMOTE_ERROR, aclrtSynchronizeStream(stream));
    OK(aclmdlRIDestroy(model));
    OK(aclrtDestroyNotify(notify));
}
END_TEST

/* A process that is killed in the middle of all leaves nothing. */
static int use_graphs(void *arg)
{
    aclmdlRI model[20];

    (void)arg;
    streams_open(&stream, &other);
    OK(aclrtMalloc(&memory, BYTES, ACL_MEM_MALLOC_HUGE_FIRST));
    for (;;) {
        for (int i = 0; i < 20; i++) {
            model[i] = capture_fill(i % 2 ? stream : other, i);
            OK(aclmdlRIExecuteAsync(model[i], i % 3 ? stream : other));
            OK(aclmdlRIExecuteAsync(model[i], stream));
            atomic_fetch_add(&shared->ready, 1);
        }
        OK(aclrtSynchronizeDevice());
        for (int i = 0; i < 20; i++)
            OK(aclmdlRIDestroy(model[i]));
    }
    return 0;
}

START_TEST(killed_processes_leave_nothing)
{
    shared = child_share(sizeof(*shared));
    for (int i = 0, n = (int)choose_effort(20, 300); i < n; i++) {
        int seen = atomic_load(&shared->ready);
        pid_t pid = child_start(use_graphs, NULL);

        EVENTUALLY(atomic_load(&shared->ready) > seen + i * 7, "the child does nothing");
        child_kill(pid);
        npud_expect_empty();
    }
}
END_TEST

/* --- many --- */

START_TEST(thousands_of_graphs)
{
    unsigned n = (unsigned)choose_effort(10000, 60000);
    aclmdlRI *model = calloc(n, sizeof(*model));
    uint32_t fds = npud_ledger().fds;

    ck_assert_ptr_nonnull(model);
    for (unsigned i = 0; i < n; i++)
        model[i] = capture_fill(stream, (int)(i % 200));
    /* Small lists share memory. */
    ck_assert_uint_le(npud_ledger().fds, fds + n * 64 / (256 << 10) + 8);
    for (unsigned i = 0; i < n; i++)
        OK(aclmdlRIExecuteAsync(model[i], stream));
    OK(aclrtSynchronizeStream(stream));
    ck_assert_uint_eq(first_byte(), (n - 1) % 200);
    for (unsigned i = 0; i < n; i++)
        OK(aclmdlRIDestroy(model[i]));
    ck_assert_uint_le(npud_ledger().fds, fds + 8);
    free(model);
}
END_TEST

START_TEST(a_graph_has_so_many_tasks)
{
    unsigned n = 100000;
    aclmdlRI model;

    OK(aclmdlRICaptureBegin(stream, ACL_MODEL_RI_CAPTURE_MODE_RELAXED));
    for (unsigned i = 0; i < n; i++)
        OK(aclrtMemsetAsync(memory, BYTES, (int)(i % 200), 64, stream));
    OK(aclmdlRICaptureEnd(stream, &model));
    OK(aclmdlRIExecuteAsync(model, stream));
    OK(aclrtSynchronizeStream(stream));
    ck_assert_uint_eq(first_byte(), (n - 1) % 200);
    OK(aclmdlRIDestroy(model));
}
END_TEST

static void begin_limited(void)
{
    npud_start((const char *const[]){"--set=limits.host_memory=1M", NULL});
    streams_open(&stream, &other);
    OK(aclrtMalloc(&memory, BYTES, ACL_MEM_MALLOC_HUGE_FIRST));
}

/* A graph that is too large for the user is refused, and what there was goes on. */
START_TEST(lists_count_for_the_limits)
{
    aclmdlRI small = capture_fill(stream, 7), model;

    OK(aclmdlRICaptureBegin(stream, ACL_MODEL_RI_CAPTURE_MODE_RELAXED));
    for (unsigned i = 0; i < 20000; i++)
        OK(aclrtMemsetAsync(memory, BYTES, 1, 64, stream));
    ck_assert_int_ne(aclmdlRICaptureEnd(stream, &model), 0);
    ck_assert_ptr_null(model);
    OK(aclmdlRIExecuteAsync(small, stream));
    OK(aclrtSynchronizeStream(stream));
    ck_assert_uint_eq(first_byte(), 7);
    OK(aclmdlRIDestroy(small));
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("graphs");
    TCase *t = suite_case(s, "graphs", 120, begin, end);

    tcase_add_test(t, freed_memory_fails_its_task);
    tcase_add_test(t, destroyed_events_fail_their_wait);
    tcase_add_test(t, a_failure_lets_waits_for_the_rest_fail);
    tcase_add_loop_test(t, an_abort_drops_executions, 0, 2);
    tcase_add_test(t, an_abort_drops_their_functions);
    tcase_add_test(t, the_death_of_a_peer_is_an_answer);
    tcase_add_test(t, thousands_of_graphs);
    tcase_add_test(t, a_graph_has_so_many_tasks);
    t = suite_case(s, "deaths", 120, npud_setup, npud_teardown);
    tcase_add_test(t, killed_processes_leave_nothing);
    t = suite_case(s, "limits", 60, begin_limited, end);
    tcase_add_test(t, lists_count_for_the_limits);
    return s;
}

int main(void)
{
    return run_suite(make_suite());
}
