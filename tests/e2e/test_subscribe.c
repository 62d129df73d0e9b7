/*
 * Subscriptions to models (include/acl/acl_prof.h): whatever the reader of the pipe does, streams
 * go on, records are whole and in order, and what is lost is told.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "acl/acl_npud_kernel.h"
#include "acl/acl_prof.h"
#include "tests/common/effort.h"
#include "tests/common/harness.h"

#define LIMIT_MS 300000 /* against hanging */
#define RECORD   512
#define KERNELS  30
#define RUNS     20 /* together more records than a pipe has room for */

static aclrtStream stream, other;
static aclmdlRI model;
static uint32_t id;
static int fds[2];
static aclprofSubscribeConfig *config;

static void nothing(uint64_t word)
{
    (void)word;
}

static void launch(const char *name, void (*function)(uint64_t word), uint64_t word, aclrtStream s)
{
    const aclnpudKernel k = {.size = sizeof(k),
                             .kind = ACL_KERNEL_TYPE_AICORE,
                             .name = name,
                             .function = (const void *)(uintptr_t)function};

    OK(aclnpudLaunchKernel(&k, 1, &word, sizeof(word), s));
}

static aclmdlRI capture(unsigned kernels)
{
    aclmdlRI made;

    OK(aclmdlRICaptureBegin(stream, ACL_MODEL_RI_CAPTURE_MODE_GLOBAL));
    for (unsigned i = 0; i < kernels; i++)
        launch("nothing", nothing, 0, stream);
    OK(aclmdlRICaptureEnd(stream, &made));
    return made;
}

static void set_up_session(void)
{
    streams_open(&stream, &other);
    model = capture(KERNELS);
    OK(aclmdlRIGetId(model, &id));
    ck_assert_int_eq(pipe2(fds, O_CLOEXEC), 0);
    config = aclprofCreateSubscribeConfig(1, ACL_AICORE_NONE, &fds[1]);
    ck_assert_ptr_nonnull(config);
}

static void set_up(void)
{
    npud_setup();
    set_up_session();
}

static void set_up_restartable(void)
{
    npud_start_restartable(NULL);
    set_up_session();
}

static void execute(unsigned times)
{
    for (unsigned i = 0; i < times; i++)
        OK(aclmdlRIExecuteAsync(model, stream));
    OK(aclrtSynchronizeStreamWithTimeout(stream, LIMIT_MS));
}

/* The next record is that of this operator. Returns its end. */
static uint64_t expect_record(const char *name, unsigned place, uint64_t after)
{
    char record[RECORD], text[ACL_PROF_MAX_OP_NAME_LEN], wanted[32];

    ck_assert_int_eq(read(fds[0], record, RECORD), RECORD);
    OK(aclprofGetOpName(record, RECORD, 0, text, sizeof(text)));
    snprintf(wanted, sizeof(wanted), "%s_%u", name, place);
    ck_assert_str_eq(text, wanted);
    ck_assert_uint_ge(aclprofGetOpStart(record, RECORD, 0), after);
    return aclprofGetOpEnd(record, RECORD, 0);
}

/* The next records of the pipe are those of whole executions. */
static void expect_records(unsigned executions)
{
    uint64_t end = 0;

    for (unsigned i = 0; i < executions * KERNELS; i++)
        end = expect_record("nothing", i % KERNELS, end);
}

static void expect_end(void)
{
    char byte;

    close(fds[1]);
    ck_assert_int_eq(read(fds[0], &byte, 1), 0);
}

/* --- readers --- */

START_TEST(a_full_pipe_holds_up_no_stream)
{
    OK(aclprofModelSubscribe(id, config));
    execute(RUNS);
    expect_records(RUNS);
    execute(1);
    expect_records(1);
    OK(aclprofModelUnSubscribe(id));
    expect_end();
}
END_TEST

START_TEST(what_nobody_reads_is_lost_and_told)
{
    static const char sentence[] = "[500005] aclprofModelUnSubscribe: %u records were lost";
    uint64_t before;
    unsigned lost;
    int left;

    OK(aclprofModelSubscribe(id, config));
    execute(RUNS);
    before = now_ns();
    ck_assert_int_eq(aclprofModelUnSubscribe(id), ACL_ERROR_PROFILING_FAILURE);
    ck_assert_uint_lt(now_ns() - before, UINT64_C(30000000000));
    ck_assert_int_eq(sscanf(aclGetRecentErrMsg(), sentence, &lost), 1);
    ck_assert_int_eq(ioctl(fds[0], FIONREAD, &left), 0);
    ck_assert_uint_eq(lost + (unsigned)left / RECORD, RUNS * KERNELS);
    FAILS(ACL_ERROR_INVALID_MODEL_ID, aclprofModelUnSubscribe(id));
}
END_TEST

static void *read_late(void *arg)
{
    (void)arg;
    expect_records(RUNS);
    return NULL;
}

/* What was told before the end comes out of the pipe, while its reader goes on. */
START_TEST(an_end_waits_for_the_reader)
{
    pthread_t reader;

    OK(aclprofModelSubscribe(id, config));
    execute(RUNS);
    ck_assert_int_eq(pthread_create(&reader, NULL, read_late, NULL), 0);
    OK(aclprofModelUnSubscribe(id));
    pthread_join(reader, NULL);
    expect_end();
}
END_TEST

/* SIGPIPE would end this process. */
START_TEST(a_reader_may_leave)
{
    OK(aclprofModelSubscribe(id, config));
    close(fds[0]);
    execute(RUNS);
    OK(aclprofModelUnSubscribe(id));
}
END_TEST

/* Its number may be that of another file by then. */
START_TEST(a_descriptor_may_be_closed)
{
    int number = fds[1];

    OK(aclprofModelSubscribe(id, config));
    close(number);
    ck_assert_int_eq(dup2(STDERR_FILENO, number), number);
    execute(2);
    expect_records(2);
    OK(aclprofModelUnSubscribe(id));
    expect_end();
}
END_TEST

START_TEST(without_times_there_are_none)
{
    aclprofSubscribeConfig *metrics =
        aclprofCreateSubscribeConfig(0, ACL_AICORE_PIPE_UTILIZATION, &fds[1]);
    char record[RECORD];

    OK(aclprofModelSubscribe(id, metrics));
    OK(aclprofDestroySubscribeConfig(metrics)); /* it was read */
    execute(1);
    ck_assert_int_eq(read(fds[0], record, RECORD), RECORD);
    ck_assert_uint_eq(aclprofGetModelId(record, RECORD, 0), id);
    ck_assert_uint_eq(aclprofGetOpStart(record, RECORD, 0), 0);
    ck_assert_uint_eq(aclprofGetOpEnd(record, RECORD, 0), 0);
    OK(aclprofModelUnSubscribe(id));
}
END_TEST

/* A program may pass on what it likes. */
START_TEST(other_bytes_are_no_records)
{
    char record[2 * RECORD + 1], text[ACL_PROF_MAX_OP_NAME_LEN];
    uint32_t n;

    OK(aclprofModelSubscribe(id, config));
    execute(1);
    OK(aclprofModelUnSubscribe(id));
    ck_assert_int_eq(read(fds[0], record + 1, 2 * RECORD), 2 * RECORD); /* at an odd address */
    OK(aclprofGetOpNum(record + 1, 2 * RECORD, &n));
    ck_assert_uint_eq(n, 2);
    FAILS(ACL_ERROR_INVALID_PARAM, aclprofGetOpNum(record + 1, 2 * RECORD - 1, &n));
    FAILS(ACL_ERROR_INVALID_PARAM, aclprofGetOpNum(record + 1, 0, &n));
    FAILS(ACL_ERROR_INVALID_PARAM, aclprofGetOpNum(NULL, RECORD, &n));
    FAILS(ACL_ERROR_INVALID_PARAM, aclprofGetOpNum(record, 2 * RECORD, &n));
    ck_assert_ptr_null(aclprofGetOpAttriValue(record + 1, RECORD, 0, ACL_SUBSCRIBE_ATTRI_NONE));
    memset(record + 1 + RECORD + 100, 'x', RECORD - 100); /* a name without an end */
    FAILS(ACL_ERROR_INVALID_PARAM, aclprofGetOpNum(record + 1, 2 * RECORD, &n));
    FAILS(ACL_ERROR_INVALID_PARAM, aclprofGetOpName(record + 1, 2 * RECORD, 1, text, sizeof(text)));
    OK(aclprofGetOpName(record + 1, 2 * RECORD, 0, text, sizeof(text)));
    FAILS(ACL_ERROR_INVALID_PARAM, aclprofGetOpName(record + 1, RECORD, 1, text, sizeof(text)));
    ck_assert_int_eq(aclprofGetOpFlag(record + 1, RECORD, 1), ACL_SUBSCRIBE_NONE);
    ck_assert_uint_eq(aclprofGetModelId(record + 1, RECORD, 1), ACL_ERROR_INVALID_PARAM);
}
END_TEST

/* --- what is subscribed to --- */

START_TEST(a_model_is_complete)
{
    uint32_t begun, zero = 0;
    aclmdlRI captured;

    OK(aclmdlRICaptureBegin(other, ACL_MODEL_RI_CAPTURE_MODE_GLOBAL));
    OK(aclmdlRICaptureGetInfo(other, NULL, &captured));
    OK(aclmdlRIGetId(captured, &begun));
    FAILS(ACL_ERROR_INVALID_MODEL_ID, aclprofModelSubscribe(begun, config));
    OK(aclmdlRICaptureEnd(other, &captured));
    OK(aclprofModelSubscribe(begun, config));
    OK(aclprofModelUnSubscribe(begun));
    FAILS(ACL_ERROR_INVALID_MODEL_ID, aclprofModelSubscribe(zero, config));
    OK(aclmdlRIDestroy(captured));
    FAILS(ACL_ERROR_INVALID_MODEL_ID, aclprofModelSubscribe(begun, config));
}
END_TEST

static void count_down(uint64_t word)
{
    --*(uint64_t *)(uintptr_t)word;
}

/* A kernel, a loop of two that runs three times, and a kernel. */
static aclmdlRI capture_loop(uint32_t *nested_id)
{
    aclmdlRICondTaskParams loop = {.type = ACL_MODEL_RI_COND_TYPE_WHILE, .size = 1};
    aclmdlRI made, nested;
    uint64_t *word;

    OK(aclmdlRICaptureBegin(stream, ACL_MODEL_RI_CAPTURE_MODE_RELAXED));
    launch("first", nothing, 0, stream);
    OK(aclmdlRICaptureGetInfo(stream, NULL, &made));
    OK(aclmdlRICondHandleCreate(made, 3, ACL_MODEL_RI_COND_HANDLE_ASSIGN_DEFAULT, &loop.handle));
    OK(aclmdlRICondHandleGetCondPtr(loop.handle, &word));
    loop.modelRIArray = &nested;
    OK(aclmdlRIAddCondTask(loop, stream, 0));
    OK(aclmdlRICaptureToModelRIBegin(other, nested, ACL_MODEL_RI_CAPTURE_MODE_RELAXED));
    launch("body", nothing, 0, other);
    launch("count_down", count_down, (uintptr_t)word, other);
    OK(aclmdlRICaptureEnd(other, NULL));
    OK(aclmdlRIGetId(nested, nested_id));
    launch("last", nothing, 0, stream);
    OK(aclmdlRICaptureEnd(stream, &made));
    return made;
}

/* Nested models go with the whole one, and each run of a kernel is told. */
START_TEST(a_loop_tells_each_run)
{
    uint32_t nested_id;
    uint64_t end;

    model = capture_loop(&nested_id);
    OK(aclmdlRIGetId(model, &id));
    FAILS(ACL_ERROR_INVALID_MODEL_ID, aclprofModelSubscribe(nested_id, config));
    OK(aclprofModelSubscribe(id, config));
    execute(2);
    OK(aclprofModelUnSubscribe(id));
    for (int i = 0; i < 2; i++) {
        end = expect_record("first", 0, 0);
        for (int k = 0; k < 3; k++) {
            end = expect_record("body", 2, end);
            end = expect_record("count_down", 3, end);
        }
        expect_record("last", 1, end);
    }
    expect_end();
}
END_TEST

START_TEST(configurations_of_a_device_are_equal)
{
    aclprofSubscribeConfig *metrics =
        aclprofCreateSubscribeConfig(1, ACL_AICORE_PIPE_UTILIZATION, &fds[1]);
    int reader = fds[0], closed = 1000;
    aclprofSubscribeConfig *wrong = aclprofCreateSubscribeConfig(1, ACL_AICORE_NONE, &reader);
    aclprofSubscribeConfig *none = aclprofCreateSubscribeConfig(1, ACL_AICORE_NONE, &closed);
    aclmdlRI second = capture(1);
    uint32_t second_id;
    char records[3 * RECORD];

    OK(aclmdlRIGetId(second, &second_id));
    FAILS(ACL_ERROR_INVALID_PARAM, aclprofModelSubscribe(id, wrong));
    FAILS(ACL_ERROR_INVALID_PARAM, aclprofModelSubscribe(id, none));
    OK(aclprofModelSubscribe(id, config));
    FAILS(ACL_ERROR_PROF_REPEAT_SUBSCRIBE, aclprofModelSubscribe(id, config));
    FAILS(ACL_ERROR_INVALID_PROFILING_CONFIG, aclprofModelSubscribe(second_id, metrics));
    OK(aclprofModelSubscribe(second_id, config));
    OK(aclprofModelUnSubscribe(id));
    OK(aclmdlRIExecuteAsync(model, stream)); /* no more of this one */
    OK(aclmdlRIExecuteAsync(second, stream));
    OK(aclrtSynchronizeStream(stream));
    OK(aclprofModelUnSubscribe(second_id));
    close(fds[1]);
    ck_assert_int_eq(read(fds[0], records, sizeof(records)), RECORD);
    ck_assert_uint_eq(aclprofGetModelId(records, RECORD, 0), second_id);
}
END_TEST

/* One of them at a time. */
START_TEST(sessions_and_subscriptions_exclude_each_other)
{
    char output[] = "/tmp/subscribe_XXXXXX", command[64];

    ck_assert_ptr_nonnull(mkdtemp(output));
    OK(aclprofInit(output, strlen(output)));
    FAILS(ACL_ERROR_PROF_API_CONFLICT, aclprofModelSubscribe(id, config));
    OK(aclprofFinalize());
    OK(aclprofModelSubscribe(id, config));
    FAILS(ACL_ERROR_PROF_API_CONFLICT, aclprofInit(output, strlen(output)));
    FAILS(ACL_ERROR_PROF_API_CONFLICT, aclprofStart(NULL));
    FAILS(ACL_ERROR_PROF_API_CONFLICT, aclprofStop(NULL));
    OK(aclprofFinalize());
    OK(aclprofModelUnSubscribe(id));
    OK(aclprofInit(output, strlen(output)));
    OK(aclprofFinalize());
    snprintf(command, sizeof(command), "rm -rf %s", output);
    ck_assert_int_eq(system(command), 0);
}
END_TEST

/* --- ends --- */

/* Its subscription lasts, and what it did comes out. */
START_TEST(a_model_may_be_destroyed)
{
    OK(aclprofModelSubscribe(id, config));
    OK(aclmdlRIExecuteAsync(model, stream));
    OK(aclmdlRIDestroy(model));
    OK(aclrtSynchronizeStream(stream));
    OK(aclprofModelUnSubscribe(id));
    expect_records(1);
    expect_end();
}
END_TEST

START_TEST(a_subscription_ends_with_the_session)
{
    OK(aclprofModelSubscribe(id, config));
    execute(2);
    session_close();
    expect_records(2);
    expect_end();
    streams_open(&stream, &other);
    FAILS(ACL_ERROR_INVALID_MODEL_ID, aclprofModelUnSubscribe(id));
    model = capture(1); /* the same id, for another model */
    execute(1);
}
END_TEST

/* A child has none, and does not keep the pipe open. */
START_TEST(a_forked_child_has_no_subscription)
{
    pid_t child;

#ifdef __SANITIZE_THREAD__
    return; /* gcc 12's gives the threads of a child ids that it has given already */
#endif
    turns_init();
    OK(aclprofModelSubscribe(id, config));
    execute(1);
    child = fork_when_quiet();
    if (child == 0) {
        close(fds[1]);
        OK(aclInit(NULL));
        FAILS(ACL_ERROR_INVALID_MODEL_ID, aclprofModelUnSubscribe(id));
        turn_await(&to_child);
        OK(aclFinalize());
        _exit(0);
    }
    expect_records(1);
    execute(1);
    expect_records(1);
    OK(aclprofModelUnSubscribe(id));
    expect_end();
    turn_tell(&to_child);
    child_expect_ok(child);
}
END_TEST

/* Ending one beside executions takes whole records, in order. */
static void *execute_beside(void *arg)
{
    (void)arg;
    OK(aclrtSetDevice(0));
    execute(RUNS);
    OK(aclrtResetDevice(0));
    return NULL;
}

START_TEST(an_end_beside_executions)
{
    char record[RECORD];
    pthread_t thread;
    uint32_t n;
    ssize_t r;

    /* There is room for all, so that no end waits. */
    ck_assert_int_ge(fcntl(fds[1], F_SETPIPE_SZ, 1 << 20), RUNS * KERNELS * RECORD);
    for (int i = 0; i < 50; i++) {
        OK(aclprofModelSubscribe(id, config));
        ck_assert_int_eq(pthread_create(&thread, NULL, execute_beside, NULL), 0);
        for (int k = 0; k < i; k++)
            ck_assert_int_eq(read(fds[0], record, RECORD), RECORD);
        aclprofModelUnSubscribe(id);
        pthread_join(thread, NULL);
        ck_assert_int_eq(fcntl(fds[0], F_SETFL, O_NONBLOCK), 0);
        while ((r = read(fds[0], record, RECORD)) > 0) {
            ck_assert_int_eq(r, RECORD);
            OK(aclprofGetOpNum(record, RECORD, &n));
        }
        ck_assert_int_eq(fcntl(fds[0], F_SETFL, 0), 0);
    }
}
END_TEST

static void *read_all(void *executions)
{
    expect_records(*(unsigned *)executions);
    return NULL;
}

/* Each kernel runs once, and is told once, whatever npud does meanwhile. */
START_TEST(records_outlive_npud)
{
    unsigned deaths = choose_effort(5, 50), executions = (deaths + 1) * RUNS;
    pthread_t reader;

    OK(aclprofModelSubscribe(id, config));
    ck_assert_int_eq(pthread_create(&reader, NULL, read_all, &executions), 0);
    for (unsigned i = 0; i <= deaths; i++) {
        for (unsigned k = 0; k < RUNS; k++)
            OK(aclmdlRIExecuteAsync(model, stream));
        if (i < deaths)
            npud_kill_server();
        OK(aclrtSynchronizeStreamWithTimeout(stream, LIMIT_MS));
    }
    OK(aclprofModelUnSubscribe(id));
    pthread_join(reader, NULL);
    expect_end();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("subscriptions");
    TCase *c = suite_case(suite, "readers", 60, set_up, npud_teardown);

    tcase_add_test(c, a_full_pipe_holds_up_no_stream);
    tcase_add_test(c, what_nobody_reads_is_lost_and_told);
    tcase_add_test(c, an_end_waits_for_the_reader);
    tcase_add_test(c, a_reader_may_leave);
    tcase_add_test(c, a_descriptor_may_be_closed);
    tcase_add_test(c, without_times_there_are_none);
    tcase_add_test(c, other_bytes_are_no_records);
    c = suite_case(suite, "models", 60, set_up, npud_teardown);
    tcase_add_test(c, a_model_is_complete);
    tcase_add_test(c, a_loop_tells_each_run);
    tcase_add_test(c, configurations_of_a_device_are_equal);
    tcase_add_test(c, sessions_and_subscriptions_exclude_each_other);
    c = suite_case(suite, "ends", 60, set_up, npud_teardown);
    tcase_add_test(c, a_model_may_be_destroyed);
    tcase_add_test(c, a_subscription_ends_with_the_session);
    tcase_add_test(c, a_forked_child_has_no_subscription);
    tcase_add_test(c, an_end_beside_executions);
    c = suite_case(suite, "restarts", 120, set_up_restartable, npud_teardown);
    tcase_add_test(c, records_outlive_npud);
    return run_suite(suite);
}
