/*
 * Rules of captures and models that a plain run does not show: what must be joined, which calls a
 * capture refuses to whom, in which order executions, exchanges and calls of the program come, and
 * what stays as long as it is used.
 * Skipped under TSan: that a kernel comes before what the program does after it is told by npud,
 * another process, and TSan sees one.
 */
#include <malloc.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "acl/acl_npud_kernel.h"
#include "gate.h"
#include "tests/common/harness.h"
#include "tests/common/moment.h"

#define WORDS 32u

enum { SUM, ONE, GATE, CONDITION }; /* words */

static aclrtStream stream, other, third;
static uint64_t *words; /* device memory */
static aclrtEvent events[4];

static void set(unsigned i, uint64_t value)
{
    OK(aclrtMemcpy(&words[i], sizeof(value), &value, sizeof(value), ACL_MEMCPY_HOST_TO_DEVICE));
}

static uint64_t get(unsigned i)
{
    uint64_t value;

    OK(aclrtMemcpy(&value, sizeof(value), &words[i], sizeof(value), ACL_MEMCPY_DEVICE_TO_HOST));
    return value;
}

static void begin(void)
{
    npud_setup();
    streams_open(&stream, &other);
    OK(aclrtCreateStream(&third));
    OK(aclrtMalloc((void **)&words, WORDS * sizeof(*words), ACL_MEM_MALLOC_HUGE_FIRST));
    for (unsigned i = 0; i < WORDS; i++)
        set(i, i == ONE);
    for (unsigned i = 0; i < 4; i++)
        OK(aclrtCreateEventExWithFlag(&events[i], ACL_EVENT_SYNC));
}

static void end(void)
{
    for (unsigned i = 0; i < 4; i++)
        OK(aclrtDestroyEvent(events[i]));
    OK(aclrtFree(words));
    OK(aclrtDestroyStream(stream));
    OK(aclrtDestroyStream(other));
    OK(aclrtDestroyStream(third));
    session_close();
    npud_expect_empty();
    npud_teardown();
}

/* word += 1 */
static void count(unsigned word, aclrtStream s)
{
    OK(aclrtReduceAsync(&words[word], &words[ONE], sizeof(uint64_t),
                        ACL_RT_MEMCPY_SDMA_AUTOMATIC_SUM, ACL_INT32, s, NULL));
}

static void capture_begin(void)
{
    OK(aclmdlRICaptureBegin(stream, ACL_MODEL_RI_CAPTURE_MODE_RELAXED));
}

static aclmdlRI capture_end(void)
{
    aclmdlRI model;

    OK(aclmdlRICaptureEnd(stream, &model));
    return model;
}

static void run(aclmdlRI model)
{
    OK(aclmdlRIExecuteAsync(model, stream));
    OK(aclrtSynchronizeStream(stream));
}

/* --- what must be joined --- */

/* `to` waits for what `from` was given; i: of events. */
static void follow(unsigned i, aclrtStream from, aclrtStream to)
{
    OK(aclrtRecordEvent(events[i], from));
    OK(aclrtStreamWaitEvent(to, events[i]));
}

static void join(void)
{
    count(SUM, other);
    follow(1, other, stream);
}

static void join_by_another(void)
{
    count(SUM, other);
    follow(1, other, third);
    follow(2, third, stream);
}

static void join_after_work_of_both(void)
{
    count(SUM, stream);
    join();
    count(SUM, stream);
}

static void leave_without_a_record(void)
{
}

static void leave_a_record_alone(void)
{
    count(SUM, other);
    OK(aclrtRecordEvent(events[1], other));
}

static void work_behind_the_record(void)
{
    count(SUM, other);
    OK(aclrtRecordEvent(events[1], other));
    count(SUM, other);
    OK(aclrtStreamWaitEvent(stream, events[1]));
}

static void work_behind_the_join(void)
{
    join();
    count(SUM, other);
}

static void join_another_alone(void)
{
    count(SUM, other);
    follow(1, other, third);
}

static void record_another_event(void)
{
    join();
    OK(aclrtRecordEvent(events[2], other));
}

static const struct {
    void (*captured)(void);
    aclError code;
} joins[] = {
    {join, 0},
    {join_by_another, 0},
    {join_after_work_of_both, 0},
    {leave_without_a_record, ACL_ERROR_RT_STREAM_UNJOINED},
    {leave_a_record_alone, ACL_ERROR_RT_STREAM_UNJOINED},
    {work_behind_the_record, ACL_ERROR_RT_STREAM_UNJOINED},
    {work_behind_the_join, ACL_ERROR_RT_STREAM_UNJOINED},
    {join_another_alone, ACL_ERROR_RT_STREAM_UNJOINED},
    {record_another_event, ACL_ERROR_RT_STREAM_UNJOINED},
};

/* All that other streams were given comes back to the first one. */
START_TEST(streams_join_with_their_last_record)
{
    aclmdlRI model = (void *)1;

    capture_begin();
    follow(0, stream, other);
    joins[_i].captured();
    if (joins[_i].code != 0) {
        FAILS(joins[_i].code, aclmdlRICaptureEnd(stream, &model));
        ck_assert_ptr_null(model);
        return;
    }
    OK(aclmdlRICaptureEnd(stream, &model));
    run(model);
    ck_assert_uint_ge(get(SUM), 1);
    OK(aclmdlRIDestroy(model));
}
END_TEST

/* --- what a capture refuses --- */

static aclrtContext context;
static aclError of_another;

static void *copy_in_thread(void *arg)
{
    uint64_t value = 3;

    (void)arg;
    OK(aclrtSetCurrentContext(context));
    of_another = aclrtMemcpy(&words[SUM], 8, &value, 8, ACL_MEMCPY_HOST_TO_DEVICE);
    return NULL;
}

static const struct {
    aclmdlRICaptureMode mode;
    aclError own, another;
} modes[] = {
    {ACL_MODEL_RI_CAPTURE_MODE_GLOBAL, ACL_ERROR_RT_CAPTURE_MODE_NOT_SUPPORT,
     ACL_ERROR_RT_CAPTURE_MODE_NOT_SUPPORT},
    {ACL_MODEL_RI_CAPTURE_MODE_THREAD_LOCAL, ACL_ERROR_RT_CAPTURE_MODE_NOT_SUPPORT, 0},
    {ACL_MODEL_RI_CAPTURE_MODE_RELAXED, 0, 0},
};

START_TEST(a_mode_says_whose_calls_are_refused)
{
    aclmdlRI model;

    OK(aclrtGetCurrentContext(&context));
    OK(aclmdlRICaptureBegin(stream, modes[_i].mode));
    ck_assert_int_eq(aclrtMemset(&words[SUM], 8, 0, 8), modes[_i].own);
    thread_call(copy_in_thread, NULL);
    ck_assert_int_eq(of_another, modes[_i].another);
    OK(aclmdlRICaptureEnd(stream, &model));
    OK(aclmdlRIDestroy(model));
}
END_TEST

/* --- executions --- */

/* Counts, and then waits for the gate. */
static aclmdlRI capture_gate(void)
{
    capture_begin();
    count(SUM, stream);
    OK(aclrtValueWait(&words[GATE], 1, ACL_STREAM_WAIT_VALUE_EQ, stream));
    return capture_end();
}

START_TEST(executions_do_not_overlap)
{
    aclmdlRI model = capture_gate();

    OK(aclmdlRIExecuteAsync(model, stream));
    OK(aclmdlRIExecuteAsync(model, other));
    engine_turn(third);
    ck_assert_uint_eq(get(SUM), 1);
    OK(aclrtValueWrite(&words[GATE], 1, 0, third));
    OK(aclrtSynchronizeStream(other));
    ck_assert_uint_eq(get(SUM), 2);
    OK(aclmdlRIDestroy(model));
}
END_TEST

/* An execution that is aborted is over for the next one, and no failure of that. */
START_TEST(the_end_of_an_execution_is_enough)
{
    aclmdlRI model = capture_gate();

    OK(aclmdlRIExecuteAsync(model, stream));
    OK(aclmdlRIExecuteAsync(model, other));
    engine_turn(third);
    OK(aclrtStreamAbort(stream));
    OK(aclrtValueWrite(&words[GATE], 1, 0, third));
    OK(aclrtSynchronizeStream(other));
    ck_assert_uint_eq(get(SUM), 2);
    OK(aclmdlRIDestroy(model));
}
END_TEST

START_TEST(a_model_is_destroyed_when_it_is_over)
{
    aclmdlRI model;

    capture_begin();
    OK(aclnpudLaunchDelay(50000, 0, stream));
    count(SUM, stream);
    model = capture_end();
    OK(aclmdlRIExecuteAsync(model, stream));
    OK(aclmdlRIDestroy(model));
    ck_assert_uint_eq(get(SUM), 1);
}
END_TEST

/* --- conditions --- */

static aclmdlRICondHandle make_condition(aclrtStream s, uint32_t value, unsigned flag)
{
    aclmdlRICondHandle handle;
    aclmdlRI model;

    OK(aclmdlRICaptureGetInfo(s, NULL, &model));
    OK(aclmdlRICondHandleCreate(model, value, (aclmdlRICondHandleFlag)flag, &handle));
    return handle;
}

static aclmdlRICondTaskParams params_of(aclmdlRICondHandle handle, aclmdlRI *nested)
{
    return (aclmdlRICondTaskParams){
        .handle = handle, .type = ACL_MODEL_RI_COND_TYPE_IF, .size = 1, .modelRIArray = nested};
}

/* if (word of the handle) on s: what is captured into `inside` from here on */
static uint64_t *begin_if(aclmdlRICondHandle handle, aclrtStream s, aclrtStream inside)
{
    aclmdlRI nested;
    uint64_t *word;

    OK(aclmdlRICondHandleGetCondPtr(handle, &word));
    OK(aclmdlRIAddCondTask(params_of(handle, &nested), s, 0));
    OK(aclmdlRICaptureToModelRIBegin(inside, nested, ACL_MODEL_RI_CAPTURE_MODE_RELAXED));
    return word;
}

static void end_if(aclrtStream inside)
{
    OK(aclmdlRICaptureEnd(inside, NULL));
}

/* Words of conditions, also of those in nested models, begin anew if that was asked for. _i: not */
START_TEST(conditions_begin_with_their_defaults)
{
    unsigned flag = _i ? 0 : ACL_MODEL_RI_COND_HANDLE_ASSIGN_DEFAULT;
    uint64_t *outer, *inner;
    aclmdlRI model;

    capture_begin();
    outer =
        begin_if(make_condition(stream, 1, ACL_MODEL_RI_COND_HANDLE_ASSIGN_DEFAULT), stream, other);
    count(SUM, other);
    inner = begin_if(make_condition(other, 1, flag), other, third);
    count(CONDITION, third);
    OK(aclrtMemsetAsync(inner, 8, 0, 8, third));
    end_if(third);
    OK(aclrtMemsetAsync(outer, 8, 0, 8, other));
    end_if(other);
    model = capture_end();
    for (int i = 0; i < 3; i++)
        run(model);
    ck_assert_uint_eq(get(SUM), 3);
    ck_assert_uint_eq(get(CONDITION), _i ? 0 : 3);
    OK(aclmdlRIDestroy(model));
}
END_TEST

START_TEST(conditions_have_rules)
{
    aclmdlRICondHandle handle;
    aclmdlRICondTaskParams p;
    aclmdlRI model, nested[3];
    uint64_t *word;

    capture_begin();
    OK(aclmdlRICaptureGetInfo(stream, NULL, &model));
    FAILS(ACL_ERROR_RT_PARAM_INVALID, aclmdlRICondHandleCreate(model, 0, 2, &handle));
    FAILS(ACL_ERROR_INVALID_PARAM, aclmdlRICondHandleCreate(model, 0, 0, NULL));
    FAILS(ACL_ERROR_INVALID_PARAM, aclmdlRICondHandleCreate(NULL, 0, 0, &handle));
    FAILS(ACL_ERROR_RT_PARAM_INVALID, aclmdlRICondHandleGetCondPtr(&word, &word));
    handle = make_condition(stream, 0, 0);
    p = params_of(handle, nested);
    FAILS(ACL_ERROR_INVALID_PARAM, aclmdlRIAddCondTask(p, NULL, 0));
    FAILS(ACL_ERROR_RT_PARAM_INVALID, aclmdlRIAddCondTask(p, stream, 1));
    FAILS(ACL_ERROR_RT_STREAM_NOT_CAPTURED, aclmdlRIAddCondTask(p, other, 0));
    p.size = 3;
    FAILS(ACL_ERROR_RT_PARAM_INVALID, aclmdlRIAddCondTask(p, stream, 0));
    p.size = 2;
    p.type = ACL_MODEL_RI_COND_TYPE_WHILE;
    FAILS(ACL_ERROR_RT_PARAM_INVALID, aclmdlRIAddCondTask(p, stream, 0));
    p.type = ACL_MODEL_RI_COND_TYPE_SWITCH + 1;
    FAILS(ACL_ERROR_RT_PARAM_INVALID, aclmdlRIAddCondTask(p, stream, 0));
    FAILS(ACL_ERROR_RT_PARAM_INVALID, aclmdlRIAddCondTask(params_of(NULL, nested), stream, 0));
    FAILS(ACL_ERROR_RT_PARAM_INVALID, aclmdlRIAddCondTask(params_of(handle, NULL), stream, 0));
    OK(aclmdlRIAddCondTask(params_of(handle, nested), stream, 0));
    FAILS(ACL_ERROR_RT_PARAM_INVALID, aclmdlRIAddCondTask(params_of(handle, nested), stream, 0));
    FAILS(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, aclmdlRIExecuteAsync(nested[0], other));
    FAILS(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, aclmdlRIDestroy(nested[0]));
    FAILS(ACL_ERROR_RT_PARAM_INVALID, aclmdlRICaptureToModelRIBegin(other, model, 0));
    OK(aclmdlRICaptureToModelRIBegin(other, nested[0], 0));
    FAILS(ACL_ERROR_RT_PARAM_INVALID,
          aclmdlRIAddCondTask(params_of(make_condition(stream, 0, 0), nested), other, 0));
    FAILS(ACL_ERROR_RT_SUB_ACLGRAPH_IS_CAPTURING, aclmdlRICaptureEnd(stream, &model));
    ck_assert_ptr_null(model);
    FAILS(ACL_ERROR_RT_PARAM_INVALID, aclmdlRICondHandleGetCondPtr(handle, &word));
}
END_TEST

/* --- calls of the program --- */

static char order[64];

static void note(void *letter)
{
    strncat(order, letter, 1);
}

static void call(const char *letter, aclrtStream s)
{
    OK(aclrtLaunchHostFunc(s, note, (void *)(uintptr_t)letter));
}

/* The calls of a nested model stand between those of the model that it is in. */
START_TEST(calls_run_in_the_order_of_the_model)
{
    aclmdlRI model;

    capture_begin();
    call("a", stream);
    begin_if(make_condition(stream, 1, ACL_MODEL_RI_COND_HANDLE_ASSIGN_DEFAULT), stream, other);
    call("b", other);
    begin_if(make_condition(other, 1, ACL_MODEL_RI_COND_HANDLE_ASSIGN_DEFAULT), other, third);
    call("c", third);
    end_if(third);
    call("d", other);
    end_if(other);
    call("e", stream);
    model = capture_end();
    for (int i = 0; i < 3; i++)
        run(model);
    ck_assert_str_eq(order, "abcdeabcdeabcde");
    OK(aclmdlRIDestroy(model));
}
END_TEST

static void set_sum(const void *function, const void *args)
{
    const struct {
        uint64_t *word, value;
    } *a = args;

    (void)function;
    *a->word = a->value;
}

static void launch_set(aclrtStream s, uint64_t value)
{
    static const aclnpudKernel kernel = {
        .size = sizeof(kernel), .name = "set_sum", .function = &kernel, .call = set_sum};
    const uint64_t args[] = {(uintptr_t)&words[SUM], value};

    OK(aclnpudLaunchKernel(&kernel, 1, args, sizeof(args), s));
}

/* A function behind a model that calls none: the stream goes on when it has returned. */
START_TEST(a_call_behind_a_model_returns)
{
    aclmdlRI model;

    capture_begin();
    launch_set(stream, 3);
    model = capture_end();
    for (int i = 0; i < 3; i++) {
        OK(aclmdlRIExecuteAsync(model, stream));
        call("f", stream);
        OK(aclrtSynchronizeStreamWithTimeout(stream, LIMIT_MS));
    }
    ck_assert_str_eq(order, "fff");
    OK(aclmdlRIDestroy(model));
}
END_TEST

/* --- exchanges --- */

static aclmdlRI capture_group(aclrtTaskGrp *group, void (*launch)(aclrtStream s, uint64_t value))
{
    capture_begin();
    OK(aclmdlRICaptureTaskGrpBegin(stream));
    launch(stream, 1);
    OK(aclmdlRICaptureTaskGrpEnd(stream, group));
    return capture_end();
}

static void exchange(aclrtTaskGrp group, uint64_t value)
{
    OK(aclmdlRICaptureTaskUpdateBegin(other, group));
    launch_set(other, value);
    OK(aclmdlRICaptureTaskUpdateEnd(other));
}

/* A kernel is exchanged when its stream comes to that, not at the call. */
START_TEST(an_exchange_waits_for_its_stream)
{
    aclrtTaskGrp group;
    aclmdlRI model = capture_group(&group, launch_set);
    aclrtEvent gate = stream_hold(other);

    exchange(group, 2);
    run(model);
    ck_assert_uint_eq(get(SUM), 1);
    stream_let_go(gate);
    OK(aclrtSynchronizeStream(other));
    run(model);
    ck_assert_uint_eq(get(SUM), 2);
    OK(aclmdlRIDestroy(model));
}
END_TEST

static aclmdlRITask first_task(aclmdlRI model)
{
    aclrtStream branch;
    aclmdlRITask task;
    uint32_t n = 1;

    OK(aclmdlRIGetStreams(model, &branch, &n));
    OK(aclmdlRIGetTasksByStream(branch, &task, &n));
    return task;
}

/* A task is changed when no exchange is on its way: it could take what was changed. */
START_TEST(a_change_is_refused_while_an_exchange_comes)
{
    aclrtTaskGrp group;
    aclmdlRI model = capture_group(&group, launch_set);
    aclrtEvent gate = stream_hold(other);
    aclmdlRITaskParams p;

    exchange(group, 2);
    OK(aclmdlRITaskGetParams(first_task(model), &p));
    FAILS(ACL_ERROR_RT_MODEL_UPDATE_FAILED, aclmdlRITaskSetParams(first_task(model), &p));
    FAILS(ACL_ERROR_RT_MODEL_UPDATE_FAILED, aclmdlRIUpdate(model));
    stream_let_go(gate);
    OK(aclrtSynchronizeStream(other));
    OK(aclmdlRITaskGetParams(first_task(model), &p));
    OK(aclmdlRITaskSetParams(first_task(model), &p));
    OK(aclmdlRIUpdate(model));
    run(model);
    ck_assert_uint_eq(get(SUM), 2);
    OK(aclmdlRIDestroy(model));
}
END_TEST

START_TEST(a_group_has_one_window)
{
    aclrtTaskGrp group;
    aclmdlRI model = capture_group(&group, launch_set);

    OK(aclmdlRICaptureTaskUpdateBegin(other, group));
    FAILS(ACL_ERROR_STREAM_TASK_GROUP_STATUS, aclmdlRICaptureTaskUpdateBegin(third, group));
    launch_set(other, 2);
    OK(aclmdlRICaptureTaskUpdateEnd(other));
    OK(aclmdlRICaptureTaskUpdateBegin(third, group));
    FAILS(ACL_ERROR_RT_INTERNAL_ERROR, aclmdlRICaptureTaskUpdateEnd(third));
    OK(aclrtSynchronizeStream(other));
    run(model);
    ck_assert_uint_eq(get(SUM), 2);
    OK(aclmdlRIDestroy(model));
}
END_TEST

#define MANY ((size_t)1 << 17) /* words: memory of its own, which goes when it is freed */

static _Atomic int kernel_begun, kernel_may_end;
static _Atomic uint64_t kernel_sum;

static void sum_slowly(const void *function, const void *args)
{
    const uint64_t *values = args;
    uint64_t sum = 0;

    (void)function;
    atomic_store(&kernel_begun, 1);
    while (!atomic_load(&kernel_may_end))
        wait_a_moment();
    for (size_t i = 0; i < MANY; i++)
        sum += values[i];
    atomic_store(&kernel_sum, sum);
}

static void launch_sum(aclrtStream s, uint64_t value)
{
    static const aclnpudKernel kernel = {
        .size = sizeof(kernel), .name = "sum_slowly", .function = &kernel, .call = sum_slowly};
    uint64_t *args = calloc(MANY, sizeof(*args));

    ck_assert_ptr_nonnull(args);
    args[0] = args[MANY - 1] = value;
    OK(aclnpudLaunchKernel(&kernel, 1, args, MANY * sizeof(*args), s));
    free(args);
}

/* A kernel that runs keeps its arguments, whatever takes its place meanwhile. */
START_TEST(what_runs_stays)
{
    aclrtTaskGrp group;
    size_t before = mallinfo2().hblkhd;
    aclmdlRI model = capture_group(&group, launch_sum);

    OK(aclmdlRIExecuteAsync(model, stream));
    EVENTUALLY(atomic_load(&kernel_begun), "the kernel does not begin");
    for (uint64_t i = 2; i < 10; i++)
        exchange(group, i);
    OK(aclrtSynchronizeStream(other));
    atomic_store(&kernel_may_end, 1);
    OK(aclrtSynchronizeStream(stream));
    ck_assert_uint_eq(atomic_load(&kernel_sum), 2);
    /* And no longer than it runs. */
    EVENTUALLY(mallinfo2().hblkhd < before + MANY * sizeof(uint64_t),
               "kernels that were exchanged stay");
    run(model);
    ck_assert_uint_eq(get(SUM), 9);
    OK(aclmdlRIDestroy(model));
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("rules of graphs");
    TCase *t = suite_case(s, "captures", 60, begin, end);

    tcase_add_loop_test(t, streams_join_with_their_last_record, 0,
                        (int)(sizeof(joins) / sizeof(joins[0])));
    tcase_add_loop_test(t, a_mode_says_whose_calls_are_refused, 0,
                        (int)(sizeof(modes) / sizeof(modes[0])));
    t = suite_case(s, "executions", 60, begin, end);
    tcase_add_test(t, executions_do_not_overlap);
    tcase_add_test(t, the_end_of_an_execution_is_enough);
    tcase_add_test(t, a_model_is_destroyed_when_it_is_over);
    tcase_add_test(t, calls_run_in_the_order_of_the_model);
    tcase_add_test(t, a_call_behind_a_model_returns);
    t = suite_case(s, "conditions", 60, begin, end);
    tcase_add_loop_test(t, conditions_begin_with_their_defaults, 0, 2);
    tcase_add_test(t, conditions_have_rules);
    t = suite_case(s, "exchanges", 60, begin, end);
    tcase_add_test(t, an_exchange_waits_for_its_stream);
    tcase_add_test(t, a_change_is_refused_while_an_exchange_comes);
    tcase_add_test(t, a_group_has_one_window);
    tcase_add_test(t, what_runs_stays);
    return s;
}

int main(void)
{
    return run_suite(make_suite());
}
