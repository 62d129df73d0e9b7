/*
 * Beginning and end: aclInit and aclFinalize, acl.json, sentences and the last-error record, no
 * npud at first, npud lost and found again, and forked children.
 */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "device_bytes.h"
#include "tests/common/harness.h"
#include "tests/common/moment.h"
#include "proto/shm/task.h"

/*
 * The address sanitizer's allocator stays locked in a child when another thread was in it at the
 * fork, and the thread sanitizer allows no new threads in a child of a process with several.
 */
#ifdef __SANITIZE_ADDRESS__
#define FORK_FROM_BUSY_THREADS false
#else
#define FORK_FROM_BUSY_THREADS true
#endif
#ifdef __SANITIZE_THREAD__
#define FORK false
#else
#define FORK true
#endif

#define LIMIT_MS 300000 /* against hanging */
#define UNBOUND  ACL_ERROR_RT_CONTEXT_NULL
#define LOST     ACL_ERROR_RT_SOCKET_CLOSE
#define FORKED   ACL_ERROR_UNINITIALIZE

/* --- helpers --- */

static aclrtStream stream;

static void open_device(void)
{
    OK(aclrtSetDevice(0));
    OK(aclrtCreateStream(&stream));
}

static void complete_delay(void)
{
    OK(aclnpudLaunchDelay(10, 0, stream));
    OK(aclrtSynchronizeStreamWithTimeout(stream, LIMIT_MS));
}

static char config_path[64];

/* A configuration file with this content, removed when the test ends. */
static const char *write_config(const char *text)
{
    FILE *f;

    snprintf(config_path, sizeof(config_path), "/tmp/npud-test-acl.%d.json", (int)getpid());
    f = fopen(config_path, "w");
    ck_assert_ptr_nonnull(f);
    fputs(text, f);
    fclose(f);
    return config_path;
}

static void remove_config(void)
{
    if (config_path[0])
        unlink(config_path);
}

static bool sentence_has(const char *word)
{
    const char *sentence = aclGetRecentErrMsg();

    return sentence && strstr(sentence, word);
}

/* --- counting; no npud needed --- */

START_TEST(init_counts)
{
    uint64_t n = 77;

    OK(aclInit(NULL));
    ck_assert_int_eq(aclInit(NULL), ACL_ERROR_REPEAT_INITIALIZE);
    ck_assert_int_eq(aclInit("/nonexistent: not even looked at"), ACL_ERROR_REPEAT_INITIALIZE);
    OK(aclFinalizeReference(&n));
    ck_assert_uint_eq(n, 2);
    OK(aclFinalizeReference(NULL));
    OK(aclFinalizeReference(&n));
    ck_assert_uint_eq(n, 0);
    n = 77;
    FAILS(ACL_ERROR_REPEAT_FINALIZE, aclFinalizeReference(&n));
    ck_assert_uint_eq(n, 0);
}
END_TEST

START_TEST(repeated_init_has_a_sentence)
{
    OK(aclInit(NULL));
    FAILS(ACL_ERROR_REPEAT_INITIALIZE, aclInit(NULL));
}
END_TEST

START_TEST(finalize_undoes_every_init)
{
    uint64_t n;

    for (int i = 0; i < 3; i++)
        aclInit(NULL);
    OK(aclFinalize());
    FAILS(ACL_ERROR_REPEAT_FINALIZE, aclFinalize());
    FAILS(ACL_ERROR_REPEAT_FINALIZE, aclFinalizeReference(&n));
    OK(aclInit(NULL));
    OK(aclFinalize());
}
END_TEST

START_TEST(very_first_finalize)
{
    OK(aclFinalize());
    FAILS(ACL_ERROR_REPEAT_FINALIZE, aclFinalize());
    OK(aclInit(""));
    OK(aclFinalize());
}
END_TEST

static void *init_once(void *arg)
{
    aclError error = aclInit(NULL);

    ck_assert(error == 0 || error == ACL_ERROR_REPEAT_INITIALIZE);
    if (error == 0)
        __atomic_add_fetch((int *)arg, 1, __ATOMIC_SEQ_CST);
    return NULL;
}

START_TEST(one_of_many_threads_is_first)
{
    enum { N = 16 };
    pthread_t threads[N];
    int first = 0;
    uint64_t n;

    for (int i = 0; i < N; i++)
        pthread_create(&threads[i], NULL, init_once, &first);
    for (int i = 0; i < N; i++)
        pthread_join(threads[i], NULL);
    ck_assert_int_eq(first, 1);
    OK(aclFinalizeReference(&n));
    ck_assert_uint_eq(n, N - 1);
}
END_TEST

START_TEST(needs_neither_init_nor_npud)
{
    int32_t major = 0, minor = 0, patch = -1, pid;
    aclrtRunMode mode = ACL_DEVICE;

    OK(aclrtGetVersion(&major, &minor, &patch));
    ck_assert_int_eq(major, ACL_MAJOR_VERSION);
    ck_assert_int_eq(minor, ACL_MINOR_VERSION);
    ck_assert_int_eq(patch, ACL_PATCH_VERSION);
    OK(aclrtGetRunMode(&mode));
    ck_assert_int_eq(mode, ACL_HOST);
    OK(aclrtDeviceGetBareTgid(&pid));
    ck_assert_int_eq(pid, getpid());
    ck_assert_ptr_null(aclGetRecentErrMsg());
}
END_TEST

/* --- acl.json: what aclInit says of it --- */

#define NEST5       "{\"a\":{\"a\":{\"a\":{\"a\":{\"a\":"
#define NEST5_END   "}}}}}"
#define MIX4        "{\"a\":[{\"a\":["
#define MIX4_END    "]}]}"
#define DEVICE(x)   "{\"defaultDevice\":{\"default_device\":" x "}}"
#define BAD_JSON    ACL_ERROR_PARSE_FILE
#define BAD_SWITCH  ACL_ERROR_INVALID_PARAM
#define BAD_SETTING ACL_ERROR_FAILURE

static const struct {
    const char *text;
    aclError expected;
} configs[] = {
    {"{}", 0},
    {"{\"unknown\": [1, 2, {\"x\": null}], \"dump\": {}}", 0},
    {" \n{ \"err_msg_mode\" : \"0\" }\n", 0},
    {"", 0},
    {" ", 0},
    {"\n\t\r\n", 0},
    {"{", BAD_JSON},
    {"{]", BAD_JSON},
    {"{\"a\":}", BAD_JSON},
    {"{\"a\":1,}", BAD_JSON},
    {"{a:1}", BAD_JSON},
    {"{} trailing", BAD_JSON},
    {"{}{}", BAD_JSON},
    {"[]", BAD_JSON},
    {"7", BAD_JSON},
    {"\"text\"", BAD_JSON},
    {"null", BAD_JSON},
    /* depth: 10 is allowed, 11 is not, in whatever mixture */
    {NEST5 NEST5 "1" NEST5_END NEST5_END, 0},
    {NEST5 NEST5 "{}" NEST5_END NEST5_END, BAD_JSON},
    {NEST5 NEST5 "[]" NEST5_END NEST5_END, BAD_JSON},
    {MIX4 MIX4 "[[1]]" MIX4_END MIX4_END, 0},
    {MIX4 MIX4 "[[[]]]" MIX4_END MIX4_END, BAD_JSON},
    /* brackets in strings are text */
    {"{\"a\":\"{{{{{{{{{{{{[[[[[[[[[[[[\"}", 0},
    {"{\"err_msg_mode\":\"1\"}", 0},
    {"{\"err_msg_mode\":\"2\"}", BAD_SWITCH},
    {"{\"err_msg_mode\":\"\"}", BAD_SWITCH},
    {"{\"err_msg_mode\":\"01\"}", BAD_SWITCH},
    {"{\"err_msg_mode\":1}", BAD_SWITCH},
    {"{\"err_msg_mode\":null}", BAD_SWITCH},
    {"{\"acl_graph\":{}}", 0},
    {"{\"acl_graph\":{\"event_mode\":\"0\"}}", 0},
    {"{\"acl_graph\":{\"event_mode\":\"1\"}}", 0},
    {"{\"acl_graph\":{\"event_mode\":\"x\"}}", BAD_SWITCH},
    {"{\"acl_graph\":{\"event_mode\":0}}", BAD_SWITCH},
    {"{\"defaultDevice\":{}}", 0}, /* the inner key is missing: ignored */
    {DEVICE("\"0\""), 0},
    {DEVICE("\"1\""), 0},
    {DEVICE("0"), BAD_SETTING},
    {DEVICE("\"00\""), BAD_SETTING},
    {DEVICE("\"01\""), BAD_SETTING},
    {DEVICE("\"-1\""), BAD_SETTING},
    {DEVICE("\"+1\""), BAD_SETTING},
    {DEVICE("\" 1\""), BAD_SETTING},
    {DEVICE("\"1 \""), BAD_SETTING},
    {DEVICE("\"x\""), BAD_SETTING},
    {DEVICE("\"\""), BAD_SETTING},
    {DEVICE("null"), BAD_SETTING},
    {DEVICE("{}"), BAD_SETTING},
    {DEVICE("\"2\""), ACL_ERROR_RT_INVALID_DEVICEID},
    {DEVICE("\"9999\""), ACL_ERROR_RT_INVALID_DEVICEID},
    {"{\"StackSize\":{\"aicore_stack_size\":32768}}", 0},
    {"{\"StackSize\":{\"aicore_stack_size\":\"32768\"}}", BAD_SETTING},
    {"{\"simd_printf_fifo_size_per_core\":32768,\"simt_printf_fifo_size\":2097152}", 0},
    {"{\"simd_printf_fifo_size_per_core\":1023}", BAD_SETTING},
    {"{\"simd_printf_fifo_size_per_core\":67108865}", BAD_SETTING},
    {"{\"simt_printf_fifo_size\":1048575}", BAD_SETTING},
    {"{\"simt_printf_fifo_size\":67108865}", BAD_SETTING},
    {"{\"simt_printf_fifo_size\":\"x\"}", BAD_SETTING},
};
#define CONFIGS (int)(sizeof(configs) / sizeof(configs[0]))

START_TEST(configuration)
{
    const char *path = write_config(configs[_i].text);
    aclError error = aclInit(path);
    uint64_t n = 77;

    ck_assert_msg(error == configs[_i].expected, "%s: %d, expected %d", configs[_i].text, error,
                  configs[_i].expected);
    ck_assert_int_eq(aclGetRecentErrMsg() != NULL, error != 0);
    /* After a failure the counter is 0 and a retry is allowed, with any text. */
    if (error != 0) {
        FAILS(ACL_ERROR_REPEAT_FINALIZE, aclFinalizeReference(&n));
        ck_assert_uint_eq(n, 0);
        OK(aclInit(write_config("{\"a\":1}")));
    }
    OK(aclFinalize());
}
END_TEST

START_TEST(files_that_are_none)
{
    char path[80];

    FAILS(ACL_ERROR_INVALID_FILE, aclInit("/nonexistent/acl.json"));
    FAILS(ACL_ERROR_INVALID_FILE, aclInit("/tmp"));
    FAILS(ACL_ERROR_INVALID_FILE, aclInit("/dev/null"));
    snprintf(path, sizeof(path), "/tmp/npud-test-fifo.%d", (int)getpid());
    ck_assert_int_eq(mkfifo(path, 0600), 0);
    FAILS(ACL_ERROR_INVALID_FILE, aclInit(path)); /* and does not wait for a writer */
    unlink(path);
    OK(aclInit(NULL));
}
END_TEST

/* 10 MiB are allowed, one more byte is not. */
START_TEST(size_of_the_file)
{
    const char *path = write_config("{}");
    size_t limit = 10 * 1024 * 1024;
    char *blanks = malloc(limit);
    FILE *f = fopen(path, "a");

    memset(blanks, ' ', limit);
    ck_assert_uint_eq(fwrite(blanks, 1, limit - 1, f), limit - 1);
    fclose(f);
    FAILS(ACL_ERROR_INVALID_FILE, aclInit(path));
    ck_assert_int_eq(truncate(path, (off_t)limit), 0);
    OK(aclInit(path));
    free(blanks);
}
END_TEST

START_TEST(configuration_must_stay_the_same)
{
    static const char *const text[] = {NULL, "{\"a\":1}"};
    bool with = _i;

    OK(aclInit(with ? write_config(text[1]) : NULL));
    OK(aclFinalize());
    FAILS(ACL_ERROR_INVALID_PARAM, aclInit(write_config("{\"a\":2}")));
    if (with)
        FAILS(ACL_ERROR_INVALID_PARAM, aclInit(NULL));
    else
        OK(aclInit(""));
    aclFinalize();
    OK(aclInit(with ? write_config(text[1]) : NULL));
    ck_assert_int_eq(aclInit(write_config("{\"a\":3}")), ACL_ERROR_REPEAT_INITIALIZE);
}
END_TEST

static void *unknown_level(void *arg)
{
    (void)arg;
    ck_assert_int_eq(aclrtGetLastError(5), ACL_ERROR_INVALID_PARAM);
    return NULL;
}

START_TEST(sentences_of_the_whole_process)
{
    OK(aclInit(write_config("{\"err_msg_mode\":\"1\"}")));
    thread_call(unknown_level, NULL);
    ck_assert(sentence_has("aclrtGetLastError"));
    ck_assert_ptr_null(aclGetRecentErrMsg());
}
END_TEST

START_TEST(sentences_of_threads)
{
    if (_i)
        OK(aclInit(write_config("{\"err_msg_mode\":\"0\"}")));
    thread_call(unknown_level, NULL);
    ck_assert_ptr_null(aclGetRecentErrMsg());
}
END_TEST

/* --- default device --- */

static void *unbound_thread(void *arg)
{
    int32_t device = -1;
    aclrtContext context;
    aclrtStream s;

    (void)arg;
    OK(aclrtGetDevice(&device));
    ck_assert_int_eq(device, 1);
    FAILS(UNBOUND, aclrtGetCurrentContext(&context)); /* does not trigger it */
    OK(aclrtCreateStream(&s));
    OK(aclrtGetCurrentContext(&context));
    OK(aclnpudLaunchDelay(10, 0, s));
    OK(aclrtSynchronizeStream(s));
    OK(aclrtDestroyStream(s));
    return NULL;
}

static void *explicit_device(void *arg)
{
    int32_t device = -1;

    (void)arg;
    OK(aclrtSetDevice(0));
    OK(aclrtGetDevice(&device));
    ck_assert_int_eq(device, 0);
    OK(aclrtResetDevice(0));
    return NULL;
}

/* That there is no npud is no failure of aclInit, so it leaves no trace of one. */
START_TEST(default_device_without_npud)
{
    setenv("NPUD_SOCKET", "/nonexistent/npud.sock", 1);
    OK(aclInit(write_config(DEVICE("\"0\""))));
    ck_assert_ptr_null(aclGetRecentErrMsg());
    ck_assert_int_eq(aclrtGetLastError(ACL_RT_THREAD_LEVEL), 0);
    FAILS(ACL_ERROR_RT_NO_DEVICE, aclrtCreateStream(&stream));
    ck_assert_int_eq(aclrtGetLastError(ACL_RT_THREAD_LEVEL), ACL_ERROR_RT_NO_DEVICE);
}
END_TEST

START_TEST(default_device)
{
    int32_t device = -1;

    OK(aclInit(write_config(DEVICE("\"1\""))));
    OK(aclrtGetDevice(&device));
    ck_assert_int_eq(device, 1);
    ck_assert_uint_eq(npud_ledger().streams, 0); /* nothing was opened for that */
    thread_call(unbound_thread, NULL);
    thread_call(explicit_device, NULL);
    OK(aclrtSynchronizeDevice());
    OK(aclrtResetDeviceForce(1));
    OK(aclFinalize());
    FAILS(UNBOUND, aclrtGetDevice(&device));
    FAILS(UNBOUND, aclrtCreateStream(&stream));
}
END_TEST

/* --- sentences and codes of errors --- */

static void *other_thread_fails(void *arg)
{
    (void)arg;
    aclrtSetCurrentContext(NULL);
    aclrtSynchronizeStreamWithTimeout(NULL, 0);
    ck_assert_int_eq(aclrtPeekAtLastError(ACL_RT_THREAD_LEVEL), ACL_ERROR_RT_PARAM_INVALID);
    return NULL;
}

START_TEST(sentences_are_read_once_newest_first)
{
    const char *text, *older, *newer;

    ck_assert_ptr_null(aclGetRecentErrMsg());
    aclrtSetCurrentContext(NULL);
    aclrtGetDevice(NULL);
    text = aclGetRecentErrMsg();
    newer = strstr(text, "aclrtGetDevice");
    older = strstr(text, "aclrtSetCurrentContext");
    ck_assert(newer && older && newer < older);
    /*
     * The text stays as it is until the next call of the function, whatever fails meanwhile and
     * wherever.
     */
    aclrtDestroyStream(NULL);
    thread_call(other_thread_fails, NULL);
    ck_assert_ptr_eq(strstr(text, "aclrtGetDevice"), newer);
    ck_assert_ptr_eq(strstr(text, "aclrtSetCurrentContext"), older);
    ck_assert_ptr_null(strstr(text, "aclrtDestroyStream"));
    text = aclGetRecentErrMsg();
    ck_assert_ptr_nonnull(strstr(text, "aclrtDestroyStream"));
    ck_assert_ptr_null(strstr(text, "aclrtGetDevice"));
    ck_assert_ptr_null(aclGetRecentErrMsg());
}
END_TEST

START_TEST(success_leaves_the_sentences)
{
    aclrtRunMode mode;

    aclrtGetDevice(NULL);
    OK(aclrtGetRunMode(&mode));
    ck_assert(sentence_has("aclrtGetDevice"));
}
END_TEST

/* However many there are: the newest is complete. */
START_TEST(many_sentences)
{
    const char *text;

    for (int i = 0; i < 5000; i++)
        aclrtSynchronizeDeviceWithTimeout(-2 - i);
    text = aclGetRecentErrMsg();
    ck_assert_ptr_nonnull(strstr(text, "-5001"));
    ck_assert_uint_lt(strlen(text), 1 << 20);
    ck_assert_ptr_null(aclGetRecentErrMsg());
}
END_TEST

static aclError peek_error(void)
{
    return aclrtPeekAtLastError(ACL_RT_THREAD_LEVEL);
}

START_TEST(last_error_is_kept_until_read)
{
    aclrtRunMode mode;
    int32_t device;

    ck_assert_int_eq(peek_error(), 0);
    aclrtSynchronizeStreamWithTimeout(NULL, 0);
    ck_assert_int_eq(peek_error(), ACL_ERROR_RT_PARAM_INVALID);
    OK(aclrtGetRunMode(&mode));
    aclrtGetDevice(NULL);                    /* of the outer layer: not recorded */
    FAILS(UNBOUND, aclrtGetDevice(&device)); /* excepted */
    ck_assert_int_eq(peek_error(), ACL_ERROR_RT_PARAM_INVALID);
    FAILS(UNBOUND, aclrtCreateStream(&stream));
    ck_assert_int_eq(peek_error(), UNBOUND);
    ck_assert_int_eq(aclrtGetLastError(ACL_RT_THREAD_LEVEL), UNBOUND);
    ck_assert_int_eq(aclrtGetLastError(ACL_RT_THREAD_LEVEL), 0);
    thread_call(other_thread_fails, NULL);
    ck_assert_int_eq(peek_error(), 0);
}
END_TEST

START_TEST(what_is_not_recorded)
{
    static const aclError soft[] = {
        ACL_ERROR_RT_END_OF_SEQUENCE,  ACL_ERROR_RT_MODEL_ABORT_NORMAL,
        ACL_ERROR_RT_AICORE_OVER_FLOW, ACL_ERROR_RT_AIVEC_OVER_FLOW,
        ACL_ERROR_RT_OVER_FLOW,
    };
    aclrtContext context;
    aclrtStreamStatus status;

    FAILS(UNBOUND, aclrtGetCurrentContext(&context));
    FAILS(ACL_ERROR_RT_CONTEXT_RELEASE_ERROR, aclrtResetDeviceForce(0));
    open_device();
    OK(aclnpudLaunchDelay(20000, 0, stream));
    OK(aclrtStreamQuery(stream, &status));
    ck_assert_int_eq(peek_error(), 0);
    for (size_t i = 0; i < sizeof(soft) / sizeof(soft[0]); i++) {
        OK(aclnpudLaunchDelay(0, soft[i], stream));
        FAILS(soft[i], aclrtSynchronizeStream(stream));
        OK(aclnpudLaunchDelay(0, soft[i], stream));
        FAILS(soft[i], aclrtSynchronizeDevice());
        ck_assert_msg(peek_error() == 0, "%d was recorded as %d", soft[i], peek_error());
    }
    OK(aclnpudLaunchDelay(0, ACL_ERROR_RT_AICORE_EXCEPTION, stream));
    FAILS(ACL_ERROR_RT_AICORE_EXCEPTION, aclrtSynchronizeStream(stream));
    ck_assert_int_eq(peek_error(), ACL_ERROR_RT_AICORE_EXCEPTION);
}
END_TEST

/* --- init, work, finalize --- */

START_TEST(works_before_init_and_after_finalize)
{
    open_device();
    complete_delay();
    OK(aclInit(NULL));
    complete_delay();
    OK(aclFinalize()); /* resets no device */
    complete_delay();
    OK(aclrtResetDevice(0));
    OK(aclInit(NULL));
    OK(aclFinalize());
    npud_expect_empty();
}
END_TEST

START_TEST(cycles_leave_nothing_behind)
{
    uint32_t fds = npud_ledger().fds;

    for (int i = 0; i < 50; i++) {
        OK(aclInit(NULL));
        open_device();
        complete_delay();
        OK(aclrtDestroyStream(stream));
        OK(aclrtResetDevice(0));
        OK(aclFinalize());
    }
    npud_expect_empty();
    /* A thread of npud closes sockets. */
    EVENTUALLY(npud_ledger().fds == fds, "%u descriptors, and not %u", npud_ledger().fds, fds);
}
END_TEST

START_TEST(handles_do_not_outlive_the_session)
{
    aclrtStream old_stream;
    aclrtEvent old_event;

    OK(aclInit(NULL));
    open_device();
    old_stream = stream;
    OK(aclrtCreateEvent(&old_event));
    OK(aclrtResetDevice(0));
    OK(aclFinalize());
    FAILS(ACL_ERROR_RT_INVALID_HANDLE, aclrtSynchronizeEvent(old_event));
    OK(aclInit(NULL));
    FAILS(UNBOUND, aclrtCreateStream(&stream));
    open_device();
    FAILS(ACL_ERROR_RT_INVALID_HANDLE, aclrtSynchronizeStream(old_stream));
    FAILS(ACL_ERROR_RT_INVALID_HANDLE, aclrtSynchronizeEvent(old_event));
    complete_delay();
}
END_TEST

START_TEST(reference_counted_end)
{
    uint64_t n;

    OK(aclInit(NULL));
    ck_assert_int_eq(aclInit(NULL), ACL_ERROR_REPEAT_INITIALIZE);
    open_device();
    OK(aclFinalizeReference(&n));
    ck_assert_uint_eq(n, 1);
    complete_delay();
    OK(aclrtResetDevice(0));
    ck_assert_uint_eq(npud_ledger().sessions, 1);
    OK(aclFinalizeReference(&n));
    npud_expect_empty();
}
END_TEST

/* --- no npud, and npud lost --- */

START_TEST(no_npud_at_first)
{
    const char *text;
    uint32_t count = 77;

    setenv("NPUD_SOCKET", "/tmp/npud-test-nobody.sock", 1);
    OK(aclInit(NULL));
    for (int i = 0; i < 2; i++) {
        FAILS(ACL_ERROR_RT_NO_DEVICE, aclrtSetDevice(0));
        aclrtSetDevice(0);
        text = aclGetRecentErrMsg();
        ck_assert_msg(strstr(text, "/tmp/npud-test-nobody.sock, where NPUD_SOCKET says") &&
                          strstr(text, "npu-run"),
                      "%s", text);
    }
    FAILS(ACL_ERROR_RT_NO_DEVICE, aclrtGetDeviceCount(&count));
    ck_assert_uint_eq(count, 77);
    ck_assert_ptr_null(aclrtGetSocName());
    FAILS(UNBOUND, aclrtCreateStream(&stream));
    npud_setup();
    open_device();
    complete_delay();
    ck_assert_ptr_nonnull(aclrtGetSocName());
}
END_TEST

START_TEST(lost_and_found_again)
{
    aclrtStream old_stream;
    aclrtEvent old_event;
    void *memory;

    npud_setup();
    OK(aclInit(NULL));
    for (int i = 0; i < 3; i++) {
        open_device();
        complete_delay();
        OK(aclrtCreateEventExWithFlag(&old_event, ACL_EVENT_IPC));
        OK(aclrtMalloc(&memory, 4096, ACL_MEM_MALLOC_HUGE_FIRST));
        old_stream = stream;
        npud_kill();
        FAILS(LOST, aclrtCreateStream(&stream));
        npud_setup();
        FAILS(LOST, aclrtSetDevice(0)); /* not without being asked */
        FAILS(LOST, aclrtSynchronizeEvent(old_event));
        OK(aclFinalize());
        OK(aclInit(NULL));
        FAILS(UNBOUND, aclrtCreateStream(&stream));
        open_device();
        FAILS(ACL_ERROR_RT_INVALID_HANDLE, aclrtSynchronizeStream(old_stream));
        FAILS(ACL_ERROR_RT_INVALID_HANDLE, aclrtDestroyEvent(old_event));
        FAILS(ACL_ERROR_RT_PARAM_INVALID, aclrtFree(memory));
        complete_delay();
    }
}
END_TEST

static _Atomic int blocked;

static void *block_in_call(void *arg)
{
    (void)arg;
    OK(aclrtSetDevice(0));
    blocked = 1;
    FAILS(LOST, aclrtSynchronizeStream(stream));
    return NULL;
}

START_TEST(lost_while_a_thread_waits)
{
    pthread_t thread;

    npud_setup();
    OK(aclInit(NULL));
    open_device();
    OK(aclnpudLaunchDelay(60000000, 0, stream));
    pthread_create(&thread, NULL, block_in_call, NULL);
    while (!blocked)
        wait_a_moment();
    npud_kill();
    pthread_join(thread, NULL);
    OK(aclFinalize());
    OK(aclInit(NULL));
    npud_setup();
    open_device();
    complete_delay();
}
END_TEST

/* Ended in order, not killed: the same. */
START_TEST(npud_ended_in_order)
{
    npud_setup();
    OK(aclInit(NULL));
    open_device();
    npud_teardown();
    FAILS(LOST, aclrtCreateStream(&stream));
    FAILS(LOST, aclrtSetDevice(0));
    aclFinalize();
    OK(aclInit(NULL));
    FAILS(ACL_ERROR_RT_NO_DEVICE, aclrtSetDevice(0));
}
END_TEST

/* --- fork --- */

static aclrtEvent event;
static aclrtContext context;
static void *memory;
static aclrtIpcEventHandle ipc_handle;

/* What a child gets from every call that needs the session, whatever its arguments are good for. */
static void expect_forked(void)
{
    aclrtEventRecordedStatus status;
    aclrtIpcEventHandle exported;
    aclrtStreamStatus stream_status;
    aclrtStream s;
    uint32_t n;
    int32_t id;
    void *p;
    size_t size;

    FAILS(FORKED, aclrtSetDevice(0));
    FAILS(FORKED, aclrtResetDevice(0));
    FAILS(FORKED, aclrtGetDevice(&id));
    FAILS(FORKED, aclrtGetDeviceCount(&n));
    FAILS(FORKED, aclrtGetCurrentContext(&p));
    FAILS(FORKED, aclrtSetCurrentContext(context));
    FAILS(FORKED, aclrtCreateContext(&p, 0));
    FAILS(FORKED, aclrtDestroyContext(context));
    FAILS(FORKED, aclrtCreateStream(&s));
    FAILS(FORKED, aclrtDestroyStream(stream));
    FAILS(FORKED, aclrtSynchronizeStream(stream));
    FAILS(FORKED, aclrtSynchronizeStream(NULL));
    FAILS(FORKED, aclrtSynchronizeDevice());
    FAILS(FORKED, aclrtStreamQuery(stream, &stream_status));
    FAILS(FORKED, aclrtStreamGetId(stream, &id));
    FAILS(FORKED, aclrtCreateEvent(&p));
    FAILS(FORKED, aclrtCreateEventExWithFlag(&p, ACL_EVENT_IPC));
    FAILS(FORKED, aclrtDestroyEvent(event));
    FAILS(FORKED, aclrtRecordEvent(event, stream));
    FAILS(FORKED, aclrtStreamWaitEvent(stream, event));
    FAILS(FORKED, aclrtResetEvent(event, stream));
    FAILS(FORKED, aclrtQueryEventStatus(event, &status));
    FAILS(FORKED, aclrtSynchronizeEvent(event));
    FAILS(FORKED, aclrtIpcGetEventHandle(event, &exported));
    FAILS(FORKED, aclrtIpcOpenEventHandle(ipc_handle, &p));
    FAILS(FORKED, aclrtMalloc(&p, 64, ACL_MEM_MALLOC_HUGE_FIRST));
    FAILS(FORKED, aclrtMallocHost(&p, 64));
    FAILS(FORKED, aclrtFree(memory));
    FAILS(FORKED, aclrtMemcpy(memory, 64, &size, 8, ACL_MEMCPY_HOST_TO_DEVICE));
    FAILS(FORKED, aclrtMemsetAsync(memory, 64, 0, 64, stream));
    FAILS(FORKED, aclrtGetMemInfo(ACL_HBM_MEM, &size, &size));
    FAILS(FORKED, aclnpudLaunchDelay(0, 0, stream));
    FAILS(FORKED, aclFinalize());
}

/* After its own aclInit: nothing of the parent's is there, and everything of one's own works. */
static void work_as_own_process(void)
{
    aclrtEvent mine, opened;

    OK(aclInit(NULL));
    FAILS(UNBOUND, aclrtSynchronizeStream(stream));
    FAILS(ACL_ERROR_RT_INVALID_HANDLE, aclrtSynchronizeEvent(event));
    FAILS(ACL_ERROR_RT_PARAM_INVALID, aclrtSetCurrentContext(context));
    FAILS(ACL_ERROR_RT_PARAM_INVALID, aclrtFree(memory));
    OK(aclrtSetDevice(0));
    FAILS(ACL_ERROR_RT_INVALID_HANDLE, aclrtSynchronizeStream(stream));
    OK(aclrtIpcOpenEventHandle(ipc_handle, &opened)); /* the two are ordinary peers now */
    OK(aclrtCreateStream(&stream));
    OK(aclrtCreateEvent(&mine));
    complete_delay();
    OK(aclrtRecordEvent(mine, stream));
    OK(aclrtRecordEvent(opened, stream));
    OK(aclrtSynchronizeEvent(mine));
    OK(aclrtSynchronizeEvent(opened));
}

static void leave_npud(void)
{
    OK(aclrtResetDevice(0));
    OK(aclFinalize());
}

static void make_objects(void)
{
    open_device();
    OK(aclrtGetCurrentContext(&context));
    OK(aclrtCreateEventExWithFlag(&event, ACL_EVENT_IPC));
    OK(aclrtIpcGetEventHandle(event, &ipc_handle));
    OK(aclrtMalloc(&memory, 4096, ACL_MEM_MALLOC_HUGE_FIRST));
}

static void make_parent(void)
{
    OK(aclInit(NULL));
    make_objects();
}

static int child_of_parent(void *arg)
{
    (void)arg;
    expect_forked();
    work_as_own_process();
    leave_npud();
    return 0;
}

START_TEST(forked_child_begins_anew)
{
    make_parent();
    OK(aclnpudLaunchDelay(50000, 0, stream));
    child_expect_ok(child_start(child_of_parent, NULL));
    OK(aclrtSynchronizeStream(stream));
    OK(aclrtSynchronizeEvent(event));
    complete_delay();
    OK(aclrtMemset(memory, 4096, 1, 4096));
    while (npud_ledger().sessions != 1)
        wait_a_moment();
    OK(aclrtFree(memory));
    leave_npud();
}
END_TEST

static int child_that_just_ends(void *arg)
{
    (void)arg;
    return 0;
}

static int child_that_only_fails(void *arg)
{
    (void)arg;
    expect_forked();
    return 0;
}

/*
 * A child that never calls anything, or only calls that fail: the parent's session does not end
 * with it.
 */
START_TEST(child_that_does_nothing)
{
    make_parent();
    for (int i = 0; i < 3; i++)
        child_expect_ok(child_start(i % 2 ? child_that_only_fails : child_that_just_ends, NULL));
    complete_delay();
    ck_assert_uint_eq(npud_ledger().sessions, 1);
}
END_TEST

/* Through exit(), with destructors and exit handlers. */
START_TEST(child_that_exits)
{
    pid_t pid;
    int status;

    make_parent();
    pid = fork_when_quiet();
    if (pid == 0) {
        alarm(300);
        expect_forked();
        work_as_own_process();
        exit(0);
    }
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_int_eq(status, 0);
    complete_delay();
}
END_TEST

static int run_grandchild(void *arg)
{
    (void)arg;
    expect_forked();
    work_as_own_process();
    leave_npud();
    return 0;
}

static int child_with_child(void *arg)
{
    (void)arg;
    work_as_own_process();
    OK(aclrtGetCurrentContext(&context));
    child_expect_ok(child_start(run_grandchild, NULL));
    complete_delay();
    leave_npud();
    return 0;
}

START_TEST(generations)
{
    make_parent();
    child_expect_ok(child_start(child_with_child, NULL));
    complete_delay();
}
END_TEST

/* A parent that never used the library has nothing to pass on. */
static int first_user(void *arg)
{
    (void)arg;
    open_device(); /* without aclInit, as everywhere */
    complete_delay();
    return 0;
}

START_TEST(parent_without_session)
{
    aclrtRunMode mode;

    child_expect_ok(child_start(first_user, NULL));
    OK(aclrtGetRunMode(&mode));
    child_expect_ok(child_start(first_user, NULL));
    open_device();
    complete_delay();
}
END_TEST

/* Threads of the parent sleep in the library, and others call into it, when it forks. */
static _Atomic bool stop;

static void *keep_device_busy(void *arg)
{
    aclrtEvent e;
    aclrtStream s;

    (void)arg;
    OK(aclrtSetDevice(0));
    OK(aclrtCreateStream(&s));
    while (!stop) {
        OK(aclrtCreateEventExWithFlag(&e, ACL_EVENT_SYNC | ACL_EVENT_TIME_LINE));
        OK(aclnpudLaunchDelay(1, 0, s));
        OK(aclrtRecordEvent(e, s));
        aclrtGetDevice(NULL);
        aclGetRecentErrMsg();
        OK(aclrtSynchronizeEvent(e));
        OK(aclrtDestroyEvent(e));
    }
    return NULL;
}

static void *sleep_in_synchronize(void *s)
{
    OK(aclrtSetDevice(0));
    OK(aclrtSynchronizeStream(s));
    return NULL;
}

static void fork_while_busy(int children)
{
    pthread_t threads[3];

    make_parent();
    OK(aclnpudLaunchDelay(200000, 0, stream));
    pthread_create(&threads[0], NULL, keep_device_busy, NULL);
    pthread_create(&threads[1], NULL, keep_device_busy, NULL);
    pthread_create(&threads[2], NULL, sleep_in_synchronize, stream);
    for (int i = 0; i < children; i++)
        child_expect_ok(child_start(child_of_parent, NULL));
    stop = true;
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    complete_delay();
}

START_TEST(fork_while_threads_are_busy)
{
    fork_while_busy(10);
}
END_TEST

/* The one store of sentences must not be locked for ever in a child. */
static void *fail_repeatedly(void *arg)
{
    (void)arg;
    while (!stop)
        aclrtGetDevice(NULL);
    return NULL;
}

static int child_that_complains(void *arg)
{
    (void)arg;
    signal(SIGALRM, SIG_DFL); /* check's handler would end the test without a word */
    alarm(300);
    expect_forked();
    return 0;
}

START_TEST(fork_while_threads_complain)
{
    pthread_t threads[2];

    OK(aclInit(write_config("{\"err_msg_mode\":\"1\"}")));
    make_objects();
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, fail_repeatedly, NULL);
    for (int i = 0; i < 30; i++)
        child_expect_ok(child_start(child_that_complains, NULL));
    stop = true;
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
}
END_TEST

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/lsan_interface.h>

static int child_without_leaks(void *arg)
{
    (void)arg;
    ck_assert_ptr_null(aclGetRecentErrMsg());
    return __lsan_do_recoverable_leak_check();
}

/* What the parent has stored for its whole process is not lost memory in the child. */
START_TEST(sentences_do_not_leak_into_a_child)
{
    OK(aclInit(write_config("{\"err_msg_mode\":\"1\"}")));
    thread_call(unknown_level, NULL);
    child_expect_ok(child_start(child_without_leaks, NULL));
    ck_assert(sentence_has("aclrtGetLastError"));
}
END_TEST
#endif

/*
 * The child is another process: it may have another configuration than its parent, and has none
 * before aclInit.
 */
static int child_with_other_configuration(void *arg)
{
    int32_t device = -1;

    (void)arg;
    FAILS(FORKED, aclrtGetDevice(&device));
    OK(aclInit(NULL));
    FAILS(UNBOUND, aclrtGetDevice(&device));
    open_device();
    complete_delay();
    return 0;
}

START_TEST(child_has_its_own_configuration)
{
    OK(aclInit(write_config(DEVICE("\"1\""))));
    OK(aclrtCreateStream(&stream));
    complete_delay();
    child_expect_ok(child_start(child_with_other_configuration, NULL));
    complete_delay();
}
END_TEST

/* The ring entry of the only delay of this length: in some memory that is shared with npud. */
static const struct task *find_delay(uint64_t ns)
{
    FILE *maps = fopen("/proc/self/maps", "re");
    const struct task *found = NULL;
    char line[512];
    void *from, *to;

    ck_assert_ptr_nonnull(maps);
    while (!found && fgets(line, sizeof(line), maps)) {
        if (!strstr(line, "rw-s") || sscanf(line, "%p-%p", &from, &to) != 2)
            continue;
        for (const struct task *t = from; t + 1 <= (const struct task *)to && !found; t++)
            if (t->op == TASK_DELAY && t->delay.ns == ns)
                found = t;
    }
    fclose(maps);
    return found;
}

static int child_that_submits(void *arg)
{
    const struct task *task;

    (void)arg;
    OK(aclInit(NULL));
    open_device();
    OK(aclnpudLaunchDelay(17, 0, stream));
    task = find_delay(17000);
    ck_assert_ptr_nonnull(task);
    ck_assert_uint_eq(task->thread, (uint32_t)gettid());
    return 0;
}

/* The submitter of a task is the child's thread and not the parent's. */
START_TEST(child_has_its_own_thread_id)
{
    make_parent();
    complete_delay();
    child_expect_ok(child_start(child_that_submits, NULL));
}
END_TEST

static int child_that_waits_long(void *arg)
{
    aclrtEvent gate;
    aclrtStream late;

    (void)arg;
    OK(aclInit(NULL));
    open_device();
    OK(aclrtCreateStream(&late));
    OK(aclrtCreateEventWithFlag(&gate, ACL_EVENT_SYNC));
    OK(aclrtStreamWaitEvent(stream, gate));
    OK(aclnpudLaunchDelay(1200000, 0, late));
    OK(aclrtRecordEvent(gate, late));
    OK(aclrtSynchronizeStreamWithTimeout(stream, LIMIT_MS));
    return 0;
}

START_TEST(child_has_no_time_limit_for_waits)
{
    make_parent();
    OK(aclrtSetOpWaitTimeout(1));
    child_expect_ok(child_start(child_that_waits_long, NULL));
}
END_TEST

/* Parent and child at the same time, each with its own session and its own memory. */
static int child_with_memory(void *arg)
{
    void *p;

    (void)arg;
    OK(aclInit(NULL));
    open_device();
    OK(aclrtMalloc(&p, 1 << 20, ACL_MEM_MALLOC_HUGE_FIRST));
    for (int i = 0; i < 100; i++) {
        OK(aclrtMemsetAsync(p, 1 << 20, i, 1 << 20, stream));
        OK(aclrtSynchronizeStream(stream));
        ck_assert_int_eq(device_byte((char *)p + 12345), i);
    }
    return 0;
}

START_TEST(parent_and_child_work_at_the_same_time)
{
    pid_t pid;

    make_parent();
    pid = child_start(child_with_memory, NULL);
    for (int i = 0; i < 100; i++) {
        OK(aclrtMemsetAsync(memory, 4096, 255 - i, 4096, stream));
        OK(aclrtSynchronizeStream(stream));
        ck_assert_int_eq(device_byte((char *)memory + 1234), 255 - i);
    }
    child_expect_ok(pid);
    complete_delay();
}
END_TEST

/* --- */

static TCase *add_case(Suite *s, const char *name, void (*before)(void), void (*after)(void))
{
    TCase *t = suite_case(s, name, 60, before, after);

    tcase_add_checked_fixture(t, NULL, remove_config);
    return t;
}

static void add_counting(Suite *s)
{
    TCase *t = add_case(s, "without npud", NULL, NULL);

    tcase_add_test(t, init_counts);
    tcase_add_test(t, repeated_init_has_a_sentence);
    tcase_add_test(t, finalize_undoes_every_init);
    tcase_add_test(t, very_first_finalize);
    tcase_add_test(t, one_of_many_threads_is_first);
    tcase_add_test(t, needs_neither_init_nor_npud);
    tcase_add_test(t, files_that_are_none);
    tcase_add_test(t, size_of_the_file);
    tcase_add_loop_test(t, configuration_must_stay_the_same, 0, 2);
    tcase_add_test(t, sentences_of_the_whole_process);
    tcase_add_loop_test(t, sentences_of_threads, 0, 2);
    tcase_add_test(t, default_device_without_npud);
    tcase_add_test(t, sentences_are_read_once_newest_first);
    tcase_add_test(t, success_leaves_the_sentences);
    tcase_add_test(t, many_sentences);
    tcase_add_test(t, last_error_is_kept_until_read);
}

static void add_sessions(Suite *s)
{
    TCase *t = add_case(s, "with npud", npud_setup, npud_teardown);

    tcase_add_loop_test(t, configuration, 0, CONFIGS);
    tcase_add_test(t, default_device);
    tcase_add_test(t, what_is_not_recorded);
    tcase_add_test(t, works_before_init_and_after_finalize);
    tcase_add_test(t, cycles_leave_nothing_behind);
    tcase_add_test(t, handles_do_not_outlive_the_session);
    tcase_add_test(t, reference_counted_end);
    t = add_case(s, "npud comes and goes", NULL, npud_teardown);
    tcase_add_test(t, no_npud_at_first);
    tcase_add_test(t, lost_and_found_again);
    tcase_add_test(t, lost_while_a_thread_waits);
    tcase_add_test(t, npud_ended_in_order);
}

static void add_fork(Suite *s)
{
    TCase *t = add_case(s, "fork", npud_setup, npud_teardown);

    tcase_add_test(t, forked_child_begins_anew);
    tcase_add_test(t, child_that_does_nothing);
    tcase_add_test(t, child_that_exits);
    tcase_add_test(t, generations);
    tcase_add_test(t, parent_without_session);
    if (FORK_FROM_BUSY_THREADS) {
        tcase_add_test(t, fork_while_threads_are_busy);
        tcase_add_test(t, fork_while_threads_complain);
    }
#ifdef __SANITIZE_ADDRESS__
    tcase_add_test(t, sentences_do_not_leak_into_a_child);
#endif
    tcase_add_test(t, child_has_its_own_configuration);
    tcase_add_test(t, child_has_its_own_thread_id);
    tcase_add_test(t, child_has_no_time_limit_for_waits);
    tcase_add_test(t, parent_and_child_work_at_the_same_time);
}

static Suite *make_suite(void)
{
    Suite *s = suite_create("init");

    add_counting(s);
    add_sessions(s);
    if (FORK)
        add_fork(s);
    return s;
}

int main(void)
{
    return run_suite(make_suite());
}
