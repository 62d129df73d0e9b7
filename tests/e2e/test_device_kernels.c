/*
 * Kernels that a program loads from a file: on simulated devices, whose kernels run in the program,
 * and on devices that are away, whose library gets the file as it is. Those are of npud over npud
 * (tests/common/nested.h), and of a fake of CUDA's driver (tests/gpu).
 *
 * Skipped under chaos: what is not done twice is looked at here, with an npud of its own.
 *
 * Skipped under TSan: it holds back the signals by which kernels are ended.
 */
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/common/chaos.h"
#include "tests/common/effort.h"
#include "tests/common/harness.h"
#include "tests/common/proc.h"
#include "tests/common/raw.h"
#include "proto/wire/executor_message.h"
#include "proto/wire/npud.pb-c.h"
#include "proto/shm/executor_shm.h"

#define LONG_NAME                                                                                  \
    "a_kernel_whose_name_is_longer_than_any_that_a_programmer_would_write_and_shorter_than_some_"  \
    "that_compilers_make_of_templates_with_many_arguments"

static void start_nested(void)
{
    setenv("NPUD_TEST_BACKEND", "acl", 1);
    npud_setup();
}

static void start_nested_restartable(void)
{
    const char *args[] = {"--devices=2", NULL};

    setenv("NPUD_TEST_BACKEND", "acl", 1);
    npud_start_restartable(args);
}

static void start_restartable(void)
{
    const char *args[] = {"--devices=2", NULL};

    npud_start_restartable(args);
}

/* --- files --- */

static char *built(const char *name, char *path, size_t size)
{
    const char *dir = getenv("NPUD_BINDIR");
    char whole[512];

    ck_assert_ptr_nonnull(realpath(dir ? dir : "build", whole));
    snprintf(path, size, "%s/%s", whole, name);
    return path;
}

struct file {
    unsigned char *bytes;
    size_t size;
};

static struct file read_file(const char *path)
{
    struct file file;
    struct stat st;
    FILE *f = fopen(path, "r");

    ck_assert_msg(f && fstat(fileno(f), &st) == 0, "%s", path);
    file.size = (size_t)st.st_size;
    file.bytes = malloc(file.size);
    ck_assert_uint_eq(fread(file.bytes, 1, file.size, f), file.size);
    fclose(f);
    return file;
}

static aclrtBinHandle load(void)
{
    char path[600];
    struct file file = read_file(built("tests/executor/kernels.so", path, sizeof(path)));
    aclrtBinHandle binary;

    OK(aclrtBinaryLoadFromData(file.bytes, file.size, NULL, &binary));
    memset(file.bytes, 0, file.size);
    free(file.bytes);
    return binary;
}

static aclrtFuncHandle look_up(aclrtBinHandle binary, const char *name)
{
    aclrtFuncHandle function;

    OK(aclrtBinaryGetFunction(binary, name, &function));
    return function;
}

/* --- a session with a stream, and words on the device --- */

#define WORDS 64

static struct kit {
    aclrtStream stream, other;
    uint64_t *words; /* on the device: an address, or a number */
    uint64_t *host;
    aclrtBinHandle binary;
} k;

static void open_kit(void)
{
    streams_open(&k.stream, &k.other);
    OK(aclrtMalloc((void **)&k.words, WORDS * 8, ACL_MEM_MALLOC_HUGE_FIRST));
    OK(aclrtMallocHost((void **)&k.host, WORDS * 8));
    OK(aclrtMemset(k.words, WORDS * 8, 0, WORDS * 8));
    k.binary = load();
}

static void close_kit(void)
{
    OK(aclrtFree(k.words));
    OK(aclrtFreeHost(k.host));
    session_close();
    npud_expect_empty();
}

static uint64_t word(unsigned i)
{
    uint64_t value;

    OK(aclrtMemcpy(&value, 8, k.words + i, 8, ACL_MEMCPY_DEVICE_TO_HOST));
    return value;
}

static uint64_t address(unsigned i)
{
    return (uint64_t)(uintptr_t)(k.words + i);
}

static void launch(aclrtFuncHandle f, uint32_t blocks, aclrtStream s, const void *args, size_t size)
{
    OK(aclrtLaunchKernelWithHostArgs(f, blocks, s, NULL, (void *)(uintptr_t)args, size, NULL, 0));
}

#define LAUNCH(f, blocks, s, ...)                                                                  \
    launch(f, blocks, s, (uint64_t[]){__VA_ARGS__}, sizeof((uint64_t[]){__VA_ARGS__}))

/* --- what is right --- */

START_TEST(each_block_runs_once)
{
    open_kit();
    LAUNCH(look_up(k.binary, "add"), 1, k.stream, address(0), 5);
    LAUNCH(look_up(k.binary, "add"), 40, k.stream, address(1), 3);
    LAUNCH(look_up(k.binary, LONG_NAME), 1, k.stream, address(2), 7);
    OK(aclrtSynchronizeStream(k.stream));
    ck_assert_uint_eq(word(0), 5);
    ck_assert_uint_eq(word(1), 120);
    ck_assert_uint_eq(word(2), 7);
    OK(aclrtBinaryUnLoad(k.binary));
    close_kit();
}
END_TEST

/* Many, of which the device has several at once. */
START_TEST(a_stream_has_copies_and_kernels_in_order)
{
    const unsigned rounds = 200;
    aclrtFuncHandle f;

    open_kit();
    f = look_up(k.binary, "add_word");
    for (unsigned i = 0; i < rounds; i++) {
        k.host[0] = i;
        OK(aclrtMemcpyAsync(k.words + 1, 8, k.host, 8, ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE, k.stream));
        LAUNCH(f, 1, k.stream, address(0), address(1));
    }
    OK(aclrtMemcpyAsync(k.host + 1, 8, k.words, 8, ACL_MEMCPY_DEVICE_TO_HOST, k.stream));
    OK(aclrtSynchronizeStream(k.stream));
    ck_assert_uint_eq(k.host[1], rounds * (rounds - 1) / 2);
    OK(aclrtBinaryUnLoad(k.binary));
    close_kit();
}
END_TEST

START_TEST(arguments_of_all_sizes)
{
    static uint64_t args[EXECUTOR_ARGUMENTS / 8 + 1];
    const size_t data = 4 * 8;
    aclrtPlaceHolderInfo place = {.addrOffset = 8, .dataOffset = 4 * 8};
    aclrtArgsHandle list;
    aclrtParamHandle param;
    aclrtFuncHandle f;
    void *device;

    open_kit();
    f = look_up(k.binary, "add_bytes");
    memset(args, 1, sizeof(args));
    args[0] = address(0);
    args[2] = EXECUTOR_ARGUMENTS - data;
    OK(aclrtLaunchKernelWithHostArgs(f, 1, k.stream, NULL, args, EXECUTOR_ARGUMENTS, &place, 1));
    memset(args, 0, sizeof(args)); /* it was taken */
    OK(aclrtSynchronizeStream(k.stream));
    ck_assert_uint_eq(word(0), EXECUTOR_ARGUMENTS - data);

    f = look_up(k.binary, "add");
    OK(aclrtKernelArgsInit(f, &list));
    for (uint64_t i = 0; i < 2; i++)
        OK(aclrtKernelArgsAppend(list, i == 0 ? (uint64_t[]){address(1)} : (uint64_t[]){9}, 8,
                                 &param));
    OK(aclrtKernelArgsFinalize(list));
    OK(aclrtLaunchKernelWithConfig(f, 2, k.stream, NULL, list, NULL));

    args[0] = address(2);
    args[1] = 11;
    OK(aclrtMalloc(&device, 16, ACL_MEM_MALLOC_HUGE_FIRST));
    OK(aclrtMemcpy(device, 16, args, 16, ACL_MEMCPY_HOST_TO_DEVICE));
    OK(aclrtLaunchKernel(f, 3, device, 16, k.stream));
    OK(aclrtSynchronizeStream(k.stream));
    ck_assert_uint_eq(word(1), 18);
    ck_assert_uint_eq(word(2), 33);
    OK(aclrtFree(device));
    OK(aclrtBinaryUnLoad(k.binary));
    close_kit();
}
END_TEST

/* A kernel may write anywhere: nobody tells npud where. Simulated devices have no such waits. */
START_TEST(a_stream_waits_for_what_a_kernel_writes)
{
    const unsigned rounds = 100;
    aclrtFuncHandle f;

    open_kit();
    f = look_up(k.binary, "add");
    for (unsigned i = 1; i <= rounds; i++) {
        OK(aclrtValueWait(k.words + 3, i, ACL_STREAM_WAIT_VALUE_GEQ, k.other));
        OK(aclrtMemcpyAsync(k.host, 8, k.words + 3, 8, ACL_MEMCPY_DEVICE_TO_HOST, k.other));
        if (i % 2) /* it is asleep, or about to look */
            EVENTUALLY(aclrtSynchronizeStreamWithTimeout(k.other, 1) ==
                           ACL_ERROR_RT_STREAM_SYNC_TIMEOUT,
                       "the stream does not wait");
        LAUNCH(f, 1, k.stream, address(2 + i % 2), 1);
        LAUNCH(f, 1, k.stream, address(3), i % 2 ? 0 : 1);
        OK(aclrtSynchronizeStream(k.other));
        ck_assert_uint_eq(*k.host, i);
    }
    OK(aclrtBinaryUnLoad(k.binary));
    close_kit();
}
END_TEST

/* --- unloading --- */

START_TEST(what_was_launched_runs_after_an_unload)
{
    aclrtFuncHandle wait, add;

    open_kit();
    wait = look_up(k.binary, "wait_for");
    add = look_up(k.binary, "add");
    LAUNCH(wait, 1, k.stream, address(0), 1, address(1));
    for (unsigned i = 0; i < 100; i++)
        LAUNCH(add, 1, k.stream, address(1), 1);
    OK(aclrtBinaryUnLoad(k.binary));
    FAILS(ACL_ERROR_RT_INVALID_HANDLE, aclrtBinaryUnLoad(k.binary));
    FAILS(ACL_ERROR_RT_INVALID_HANDLE,
          aclrtLaunchKernelWithHostArgs(add, 1, k.stream, NULL, (uint64_t[2]){0}, 16, NULL, 0));
    FAILS(ACL_ERROR_RT_INVALID_HANDLE, aclrtBinaryGetFunction(k.binary, "add", &add));
    *k.host = 1;
    OK(aclrtMemcpyAsync(k.words, 8, k.host, 8, ACL_MEMCPY_HOST_TO_DEVICE, k.other));
    OK(aclrtSynchronizeStream(k.stream));
    ck_assert_uint_eq(word(1), 101);
    ck_assert_uint_eq(npud_used("binaries"), 0);
    close_kit();
}
END_TEST

/* --- failures --- */

START_TEST(a_kernel_that_fails_has_its_code_and_no_other_has)
{
    aclrtFuncHandle fault, add;

    open_kit();
    fault = look_up(k.binary, "fault");
    add = look_up(k.binary, "add");
    LAUNCH(add, 1, k.stream, address(0), 1);
    LAUNCH(fault, 1, k.stream, 8);
    LAUNCH(add, 1, k.stream, address(0), 1);
    LAUNCH(add, 1, k.other, address(1), 1);
    FAILS(ACL_ERROR_RT_AICORE_EXCEPTION, aclrtSynchronizeStream(k.stream));
    OK(aclrtSynchronizeStream(k.stream));
    OK(aclrtSynchronizeStream(k.other));
    ck_assert_uint_eq(word(0), 2);
    ck_assert_uint_eq(word(1), 1);
    OK(aclrtBinaryUnLoad(k.binary));
    close_kit();
}
END_TEST

static struct {
    _Atomic unsigned calls;
    uint32_t task, code;
} excepted;

static void note_exception(aclrtExceptionInfo *info)
{
    excepted.task = aclrtGetTaskIdFromExceptionInfo(info);
    excepted.code = aclrtGetErrorCodeFromExceptionInfo(info);
    excepted.calls++;
}

START_TEST(an_exception_names_the_task)
{
    aclrtFuncHandle fault, add;
    uint32_t task;

    open_kit();
    OK(aclrtSetExceptionInfoCallback(note_exception));
    fault = look_up(k.binary, "fault");
    add = look_up(k.binary, "add");
    LAUNCH(add, 1, k.stream, address(0), 1);
    LAUNCH(fault, 1, k.stream, 8);
    OK(aclrtGetThreadLastTaskId(&task));
    LAUNCH(add, 1, k.stream, address(0), 1);
    FAILS(ACL_ERROR_RT_AICORE_EXCEPTION, aclrtSynchronizeStream(k.stream));
    EVENTUALLY(excepted.calls == 1, "the callback is not called");
    ck_assert_uint_eq(excepted.task, task);
    ck_assert_uint_eq(excepted.code, ACL_ERROR_RT_AICORE_EXCEPTION);
    OK(aclrtSetExceptionInfoCallback(NULL));
    OK(aclrtBinaryUnLoad(k.binary));
    close_kit();
}
END_TEST

START_TEST(a_kernel_ends_at_its_time_limit)
{
    aclrtLaunchKernelAttr attr = {.id = ACL_RT_LAUNCH_KERNEL_ATTR_TIMEOUT_US,
                                  .value.timeoutUs = {20000, 0}};
    aclrtLaunchKernelCfg cfg = {&attr, 1};
    uint64_t none = 0;

    open_kit();
    OK(aclrtLaunchKernelWithHostArgs(look_up(k.binary, "spin"), 1, k.stream, &cfg, &none, 8, NULL,
                                     0));
    FAILS(ACL_ERROR_RT_AICORE_TIMEOUT, aclrtSynchronizeStream(k.stream));
    OK(aclrtBinaryUnLoad(k.binary));
    close_kit();
}
END_TEST

START_TEST(what_is_not_there_is_refused)
{
    aclrtContext context;
    aclrtFuncHandle f;

    open_kit();
    FAILS(ACL_ERROR_RT_PARAM_INVALID, aclrtBinaryGetFunction(k.binary, "no_such_kernel", &f));
    f = look_up(k.binary, "add");
    ck_assert_ptr_eq(f, look_up(k.binary, "add"));
    OK(aclrtGetCurrentContext(&context));
    OK(aclrtSetDevice(1));
    FAILS(ACL_ERROR_RT_INVALID_HANDLE,
          aclrtLaunchKernelWithHostArgs(f, 1, NULL, NULL, (uint64_t[2]){0}, 16, NULL, 0));
    ck_assert_ptr_eq(f, look_up(k.binary, "add"));
    OK(aclrtResetDevice(1));
    OK(aclrtSetCurrentContext(context));
    OK(aclrtBinaryUnLoad(k.binary));
    close_kit();
}
END_TEST

/* It is a task like others to an administrator. */
START_TEST(a_rule_fails_a_launch)
{
    aclrtFuncHandle f;

    open_kit();
    f = look_up(k.binary, "add");
    npuctl_says("inject fail --kind launch --nth 2 --code 507034", 0, "1");
    for (unsigned i = 0; i < 3; i++)
        LAUNCH(f, 1, k.stream, address(0), UINT64_C(1) << i);
    FAILS(ACL_ERROR_RT_VECTOR_CORE_TIMEOUT, aclrtSynchronizeStream(k.stream));
    OK(aclrtSynchronizeStream(k.stream));
    ck_assert_uint_eq(word(0), 5);
    npuctl_says("inject clear", 0, "");
    OK(aclrtBinaryUnLoad(k.binary));
    close_kit();
}
END_TEST

/* What is queued behind a failure is not executed where the context stops then. */
START_TEST(launches_behind_a_failure_are_passed_over)
{
    aclrtContext context, first;
    aclrtStream stream;
    aclrtFuncHandle f;

    open_kit();
    OK(aclrtGetCurrentContext(&first));
    OK(aclrtCreateContext(&context, 0));
    OK(aclrtCreateStream(&stream));
    OK(aclrtSetStreamFailureMode(stream, ACL_STOP_ON_FAILURE));
    f = look_up(k.binary, "add");
    LAUNCH(f, 1, stream, address(0), 1);
    LAUNCH(look_up(k.binary, "fault"), 1, stream, 8);
    if (aclrtLaunchKernelWithHostArgs(f, 1, stream, NULL, (uint64_t[]){address(0), 2}, 16, NULL,
                                      0) == 0)
        FAILS(ACL_ERROR_RT_AICORE_EXCEPTION, aclrtSynchronizeStream(stream));
    OK(aclrtDestroyContext(context));
    OK(aclrtSetCurrentContext(first));
    ck_assert_uint_eq(word(0), 1);
    OK(aclrtBinaryUnLoad(k.binary));
    close_kit();
}
END_TEST

/* What the device has of it, it does, or finds that its arguments are not what they were. */
START_TEST(an_abort_leaves_other_launches_right)
{
    aclrtFuncHandle add, wait;

    open_kit();
    add = look_up(k.binary, "add");
    wait = look_up(k.binary, "wait_for");
    LAUNCH(wait, 1, k.stream, address(0), 1, address(1));
    for (unsigned i = 0; i < 50; i++)
        LAUNCH(add, 1, k.stream, address(2), 1);
    OK(aclrtStreamAbort(k.stream));
    *k.host = 1;
    OK(aclrtMemcpyAsync(k.words, 8, k.host, 8, ACL_MEMCPY_HOST_TO_DEVICE, k.other));
    for (unsigned i = 0; i < 200; i++)
        LAUNCH(add, 1, i % 2 ? k.stream : k.other, address(3), 1);
    OK(aclrtSynchronizeStream(k.other));
    OK(aclrtSynchronizeStream(k.stream));
    ck_assert_uint_eq(word(3), 200);
    OK(aclrtBinaryUnLoad(k.binary));
    close_kit();
}
END_TEST

/* --- npud is killed --- */

START_TEST(each_launch_is_done_once_when_npud_is_killed)
{
    const unsigned kills = choose_effort(5, 20), launches = 300;
    uint64_t sum = 0;
    aclrtFuncHandle f;

    open_kit();
    f = look_up(k.binary, "add");
    for (unsigned i = 0; i < kills; i++) {
        for (unsigned n = 0; n < launches; n++) {
            LAUNCH(f, 1, n % 3 ? k.stream : k.other, address(0), i + 1);
            sum += i + 1;
            if (n == launches / 2)
                npud_kill_server();
        }
        f = look_up(k.binary, "add");
    }
    npud_kill_server();
    OK(aclrtSynchronizeStream(k.stream));
    OK(aclrtSynchronizeStream(k.other));
    ck_assert_uint_eq(word(0), sum);
    OK(aclrtBinaryUnLoad(k.binary));
    npud_kill_server();
    ck_assert_uint_eq(npud_used("binaries"), 0);
    close_kit();
}
END_TEST

/* What waits for streams before it is unloaded still does. */
START_TEST(an_unload_waits_over_a_restart)
{
    open_kit();
    LAUNCH(look_up(k.binary, "wait_for"), 1, k.stream, address(0), 1, address(1));
    LAUNCH(look_up(k.binary, "add"), 1, k.stream, address(1), 1);
    OK(aclrtBinaryUnLoad(k.binary));
    npud_kill_server();
    *k.host = 1;
    OK(aclrtMemcpyAsync(k.words, 8, k.host, 8, ACL_MEMCPY_HOST_TO_DEVICE, k.other));
    OK(aclrtSynchronizeStream(k.stream));
    ck_assert_uint_eq(word(1), 2);
    EVENTUALLY(npud_used("binaries") == 0, "the binary is left");
    close_kit();
}
END_TEST

/* --- a GPU: npud over a fake of CUDA's driver, whose kernels do what their names say --- */

static const char ptx[] = ".version 6.0\n.target sm_50\n.address_size 64\n"
                          ".visible .entry store(.param .u64 address, .param .u64 value)\n{ret;}\n"
                          ".visible .entry nothing()\n{ret;}\n"
                          ".visible .entry spin(.param .u64 ns)\n{ret;}\n"
                          ".visible .entry fault()\n{ret;}\n";

static void start_cuda_with(bool restartable, const char *more)
{
    char path[600], library[700], executor[600];
    /* nesting: the fake may lie where others than root can write */
    const char *args[] = {"--set=npud.backend=cuda",
                          "--set=vendor.executor=session",
                          "--set=vendor.nesting=yes",
                          library,
                          more,
                          NULL};

    unsetenv("NPUD_TEST_BACKEND");
    built("tests/gpu/libfake_cuda.so", path, sizeof(path));
    snprintf(library, sizeof(library), "--set=vendor.library=%s", path);
    setenv("NPUD_EXECUTOR", built("npud-executor", executor, sizeof(executor)), 1);
    if (restartable)
        npud_start_restartable(args);
    else
        npud_start(args);
}

static void start_cuda(void)
{
    start_cuda_with(false, NULL);
}

static void start_cuda_restartable(void)
{
    start_cuda_with(true, NULL);
}

static void start_cuda_with_two(void)
{
    start_cuda_with(false, "--set=limits.binaries=2");
}

static void start_cuda_with_bytes(void)
{
    start_cuda_with(false, "--set=limits.binary_memory=8K");
}

static aclrtBinHandle load_ptx(void)
{
    aclrtBinHandle binary;

    OK(aclrtBinaryLoadFromData(ptx, sizeof(ptx) - 1, NULL, &binary));
    return binary;
}

static void open_cuda(void)
{
    streams_open(&k.stream, &k.other);
    OK(aclrtMalloc((void **)&k.words, WORDS * 8, ACL_MEM_MALLOC_HUGE_FIRST));
    OK(aclrtMallocHost((void **)&k.host, WORDS * 8));
    k.binary = load_ptx();
}

/* The library asks npud what devices there are when a file is no kernel of the host. */
START_TEST(a_file_may_be_loaded_before_a_device_is_set)
{
    aclrtFuncHandle f;

    OK(aclInit(NULL));
    k.binary = load_ptx();
    FAILS(ACL_ERROR_RT_PARAM_INVALID, aclrtBinaryGetFunction(k.binary, "store", &f));
    OK(aclFinalize());
    open_cuda();
    LAUNCH(look_up(k.binary, "store"), 1, k.stream, address(0), 3);
    OK(aclrtSynchronizeStream(k.stream));
    ck_assert_uint_eq(word(0), 3);
    close_kit();
}
END_TEST

START_TEST(a_gpu_runs_kernels)
{
    aclrtFuncHandle store;
    aclrtArgsHandle list;

    open_cuda();
    store = look_up(k.binary, "store");
    for (uint64_t i = 0; i < 200; i++) {
        LAUNCH(store, 1, k.stream, address(i % WORDS), i);
        OK(aclrtMemcpyAsync(k.host + i % WORDS, 8, k.words + i % WORDS, 8,
                            ACL_MEMCPY_DEVICE_TO_HOST, k.stream));
    }
    OK(aclrtSynchronizeStream(k.stream));
    for (uint64_t i = 0; i < WORDS; i++)
        ck_assert_uint_eq(k.host[i], i + (i < 200 % WORDS ? 3 : 2) * WORDS);
    OK(aclrtKernelArgsInit(look_up(k.binary, "nothing"), &list)); /* no arguments at all */
    OK(aclrtKernelArgsFinalize(list));
    OK(aclrtLaunchKernelWithConfig(look_up(k.binary, "nothing"), 5, k.stream, NULL, list, NULL));
    OK(aclrtLaunchSIMTKernelWithHostArgs(store, (dim3){2, 3, 4}, (dim3){32, 2, 1}, 1024, k.stream,
                                         NULL, (uint64_t[]){address(1), 9}, 16, NULL, 0));
    OK(aclrtSynchronizeStream(k.stream));
    ck_assert_uint_eq(word(1), 9);
    OK(aclrtBinaryUnLoad(k.binary));
    close_kit();
}
END_TEST

/* By the library's words, and with what is to be done. */
START_TEST(a_gpu_refuses_what_it_does_not_know)
{
    aclrtPlaceHolderInfo place = {.addrOffset = 0, .dataOffset = 8};
    aclrtLaunchKernelAttr attr = {.id = ACL_RT_LAUNCH_KERNEL_ATTR_TIMEOUT, .value.timeout = 1};
    aclrtLaunchKernelCfg cfg = {&attr, 1};
    uint64_t args[2] = {0};
    aclrtBinHandle other;
    aclrtFuncHandle f;

    open_cuda();
    OK(aclrtBinaryLoadFromData("no PTX", 6, NULL, &other));
    FAILS_SAYING(ACL_ERROR_RT_PARAM_INVALID, "no .version", aclrtBinaryGetFunction(other, "a", &f));
    FAILS_SAYING(ACL_ERROR_RT_PARAM_INVALID, "PTX, a cubin",
                 aclrtBinaryGetFunction(other, "a", &f));
    OK(aclrtBinaryUnLoad(other));
    other = load();
    FAILS(ACL_ERROR_RT_PARAM_INVALID, aclrtBinaryGetFunction(other, "add", &f));
    OK(aclrtBinaryUnLoad(other));
    FAILS_SAYING(ACL_ERROR_RT_PARAM_INVALID, "mangled",
                 aclrtBinaryGetFunction(k.binary, "none", &f));
    f = look_up(k.binary, "store");
    OK(aclrtLaunchKernelWithHostArgs(f, 1, k.stream, NULL, args, 16, &place, 1));
    FAILS(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, aclrtSynchronizeStream(k.stream));
    OK(aclrtLaunchKernelWithHostArgs(f, 1, k.stream, &cfg, args, 16, NULL, 0));
    FAILS(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, aclrtSynchronizeStream(k.stream));
    FAILS(
        ACL_ERROR_RT_PARAM_INVALID,
        aclrtLaunchKernelWithHostArgs(f, 1, k.stream, NULL, args, EXECUTOR_ARGUMENTS + 1, NULL, 0));
    LAUNCH(f, 1, k.stream, address(0), 5);
    OK(aclrtSynchronizeStream(k.stream));
    ck_assert_uint_eq(word(0), 5);
    OK(aclrtBinaryUnLoad(k.binary));
    close_kit();
}
END_TEST

START_TEST(a_graph_has_no_kernel_of_a_device)
{
    aclrtFuncHandle f;
    aclmdlRI model;

    open_cuda();
    f = look_up(k.binary, "store");
    OK(aclmdlRICaptureBegin(k.stream, ACL_MODEL_RI_CAPTURE_MODE_GLOBAL));
    FAILS_SAYING(
        ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "graph",
        aclrtLaunchKernelWithHostArgs(f, 1, k.stream, NULL, (uint64_t[2]){0}, 16, NULL, 0));
    OK(aclmdlRICaptureEnd(k.stream, &model));
    OK(aclmdlRIDestroy(model));
    OK(aclrtBinaryUnLoad(k.binary));
    close_kit();
}
END_TEST

/* --- limits --- */

START_TEST(a_user_has_no_more_binaries_than_it_may)
{
    aclrtBinHandle second, third;
    aclrtFuncHandle f;

    open_cuda();
    second = load_ptx();
    third = load_ptx();
    look_up(k.binary, "store");
    ck_assert_uint_eq(npud_used("binaries"), 1);
    look_up(second, "store");
    ck_assert_uint_eq(npud_used("binaries"), 2);
    ck_assert_uint_eq(npud_used("binary_memory"), 8192);
    FAILS_SAYING(ACL_ERROR_RT_RESOURCE_ALLOC_FAIL, "[limits] binaries",
                 aclrtBinaryGetFunction(third, "store", &f));
    OK(aclrtBinaryUnLoad(second));
    look_up(third, "store");
    OK(aclrtBinaryUnLoad(third));
    OK(aclrtBinaryUnLoad(k.binary));
    ck_assert_uint_eq(npud_used("binaries"), 0);
    ck_assert_uint_eq(npud_used("binary_memory"), 0);
    close_kit();
}
END_TEST

START_TEST(a_user_has_no_more_bytes_of_them_than_it_may)
{
    static char large[8193];
    aclrtBinHandle binary;
    aclrtFuncHandle f;

    open_cuda();
    memset(large, ' ', sizeof(large));
    memcpy(large, ptx, sizeof(ptx) - 1);
    OK(aclrtBinaryLoadFromData(large, sizeof(large), NULL, &binary));
    FAILS_SAYING(ACL_ERROR_RT_MEMORY_ALLOCATION, "[limits] binary_memory",
                 aclrtBinaryGetFunction(binary, "store", &f));
    OK(aclrtBinaryUnLoad(binary));
    ck_assert_uint_eq(npud_used("host_memory"), 4096); /* its file is not left */
    look_up(k.binary, "store");
    close_kit();
}
END_TEST

/* --- the executor dies --- */

static void kill_executor(void)
{
    Npud__Report *report = npud_report(NPUD__ADMIN_REQUEST__TOPIC__EXECUTORS);

    ck_assert_uint_eq(report->n_executors, 1);
    ck_assert_int_eq(kill(report->executors[0]->pid, SIGKILL), 0);
    npud__report__free_unpacked(report, NULL);
}

/* With work, or only a binary there. */
START_TEST(a_binary_is_lost_with_its_executor)
{
    uint64_t second = 1000000000;
    aclrtFuncHandle f, nothing;
    void *memory_of;

    open_cuda();
    f = look_up(k.binary, "store");
    nothing = look_up(k.binary, "nothing");
    if (_i == 0)
        LAUNCH(look_up(k.binary, "spin"), 1, k.stream, 100 * second);
    kill_executor();
    if (_i == 0)
        FAILS(ACL_ERROR_RT_LOST_HEARTBEAT, aclrtSynchronizeStream(k.stream));
    else
        EVENTUALLY(aclrtMalloc(&memory_of, 8, ACL_MEM_MALLOC_HUGE_FIRST) != 0, "nothing is lost");
    FAILS(ACL_ERROR_RT_LOST_HEARTBEAT, aclrtBinaryGetFunction(k.binary, "fault", &f));
    FAILS(ACL_ERROR_RT_LOST_HEARTBEAT,
          aclrtLaunchKernelWithHostArgs(nothing, 1, k.stream, NULL, &second, 8, NULL, 0));
    aclrtResetDevice(0);
    OK(aclrtSetDevice(0));
    OK(aclrtCreateStream(&k.stream));
    OK(aclrtMalloc((void **)&k.words, WORDS * 8, ACL_MEM_MALLOC_HUGE_FIRST));
    FAILS_SAYING(ACL_ERROR_RT_INVALID_HANDLE, "look it up again",
                 aclrtLaunchKernelWithHostArgs(nothing, 1, k.stream, NULL, &second, 8, NULL, 0));
    f = look_up(k.binary, "store");
    LAUNCH(f, 1, k.stream, address(0), 77);
    OK(aclrtSynchronizeStream(k.stream));
    ck_assert_uint_eq(word(0), 77);
    FAILS(ACL_ERROR_RT_INVALID_HANDLE,
          aclrtLaunchKernelWithHostArgs(nothing, 1, k.stream, NULL, &second, 8, NULL, 0));
    ck_assert_uint_eq(npud_used("binaries"), 1);
    OK(aclrtBinaryUnLoad(k.binary));
    ck_assert_uint_eq(npud_used("binaries"), 0);
    OK(aclrtFree(k.words));
    OK(aclrtFreeHost(k.host));
    session_close();
    npud_expect_empty();
}
END_TEST

/* A session dies with binaries, and work that uses them. */
static int launch_and_wait(void *arg)
{
    (void)arg;
    open_cuda();
    LAUNCH(look_up(k.binary, "spin"), 1, k.stream, 50000000);
    LAUNCH(look_up(k.binary, "store"), 1, k.stream, address(0), 1);
    turn_tell(&to_parent);
    for (;;)
        pause();
    return 0;
}

START_TEST(a_session_leaves_no_binary)
{
    pid_t child;

    turns_init();
    child = child_start(launch_and_wait, NULL);
    turn_await(&to_parent);
    if (_i == 1)
        npud_kill_server();
    ck_assert_uint_eq(npud_used("binaries"), 1);
    child_kill(child);
    npud_expect_empty();
    ck_assert_uint_eq(npud_used("binaries"), 0);
}
END_TEST

START_TEST(each_store_is_there_when_npud_is_killed)
{
    const unsigned kills = choose_effort(5, 20);
    aclrtFuncHandle f;

    open_cuda();
    for (unsigned i = 0; i < kills; i++) {
        look_up(k.binary, i % 2 ? "store" : "nothing"); /* each npud names it */
        f = look_up(k.binary, "store");
        for (unsigned n = 0; n < WORDS; n++) {
            LAUNCH(f, 1, k.stream, address(n), i * 1000 + n);
            if (n == WORDS / 2)
                npud_kill_server();
        }
        OK(aclrtSynchronizeStream(k.stream));
        for (unsigned n = 0; n < WORDS; n++)
            ck_assert_uint_eq(word(n), i * 1000 + n);
    }
    OK(aclrtBinaryUnLoad(k.binary));
    close_kit();
}
END_TEST

/* --- hostile clients --- */

static struct raw r;
static struct raw_object file, memory;
static uint32_t binary_slot, binary_generation;

static bool ask(Npud__Request *request)
{
    Npud__Reply *reply = raw_ask(&r, request, NULL);
    bool well;

    ck_assert_msg(reply, "npud has ended the session");
    well = reply->error == 0;
    if (reply->body_case == NPUD__REPLY__BODY_LOAD_BINARY) {
        binary_slot = reply->load_binary->slot;
        binary_generation = reply->load_binary->generation;
    }
    npud__reply__free_unpacked(reply, NULL);
    return well;
}

#define ASK(name, NAME, Type, ...)                                                                 \
    ({                                                                                             \
        Npud__##Type in_ = {PROTOBUF_C_MESSAGE_INIT(&npud__##name##__descriptor), __VA_ARGS__};    \
        Npud__Request request_ = NPUD__REQUEST__INIT;                                              \
        request_.body_case = NPUD__REQUEST__BODY_##NAME;                                           \
        request_.name = &in_;                                                                      \
        ask(&request_);                                                                            \
    })

#define LOAD(slot, bytes)                                                                          \
    ASK(load_binary, LOAD_BINARY, LoadBinary, .device = 0, .file = (slot), .size = (bytes))
#define LOOK_UP(in, what, as)                                                                      \
    ASK(look_up_function, LOOK_UP_FUNCTION, LookUpFunction, .slot = (in),                          \
        .name = (char *)(uintptr_t)(what), .number = (as))
#define UNLOAD(in) ASK(unload_binary, UNLOAD_BINARY, UnloadBinary, .slot = (in))

/* An honest one, in pinned memory whose pages all are there. */
static void open_hostile(void)
{
    ck_assert(raw_open(&r) && raw_open_device(&r, 0) && raw_create_stream(&r, 0));
    ck_assert(raw_malloc(&r, true, 8192, &file));
    ck_assert(raw_malloc(&r, false, 8192, &memory));
    memcpy(file.at, ptx, sizeof(ptx) - 1);
    ck_assert(LOAD(file.slot, sizeof(ptx) - 1));
    ck_assert(LOOK_UP(binary_slot, "store", 7));
}

static void close_hostile(void)
{
    raw_close(&r);
    npud_expect_empty();
    ck_assert_uint_eq(npud_used("binaries"), 0);
}

START_TEST(requests_that_cannot_be_are_refused)
{
    char name[300];

    open_hostile();
    ck_assert(!LOAD(memory.slot, 100));
    ck_assert(!LOAD(binary_slot, 100));
    ck_assert(!LOAD(4711, 100));
    ck_assert(!LOAD(UINT32_MAX, 100));
    ck_assert(!LOAD(file.slot, 0));
    ck_assert(!LOAD(file.slot, 8193));
    ck_assert(!LOAD(file.slot, UINT64_MAX));
    ck_assert(!ASK(load_binary, LOAD_BINARY, LoadBinary, .device = 9, .file = file.slot,
                   .size = sizeof(ptx) - 1));
    memset(name, 'x', sizeof(name) - 1);
    name[sizeof(name) - 1] = '\0';
    ck_assert(!LOOK_UP(binary_slot, name, 1));
    name[255] = '\0';
    ck_assert(!LOOK_UP(binary_slot, name, 1)); /* as the library says */
    ck_assert(!LOOK_UP(binary_slot, "", 1));
    ck_assert(!LOOK_UP(binary_slot, "store", EXECUTOR_FUNCTIONS));
    ck_assert(!LOOK_UP(binary_slot, "spin", 7));
    ck_assert(LOOK_UP(binary_slot, "store", 7));
    ck_assert(!LOOK_UP(memory.slot, "store", 1));
    ck_assert(!LOOK_UP(4711, "store", 1));
    /* A binary is no memory, and memory no binary. */
    ck_assert(!raw_free(&r, binary_slot));
    ck_assert(!ASK(fetch_memory, FETCH_MEMORY, FetchMemory, .slot = binary_slot, .size = 1));
    ck_assert(!ASK(export_memory, EXPORT_MEMORY, ExportMemory, .slot = binary_slot, .size = 4096));
    ck_assert(!UNLOAD(memory.slot));
    ck_assert(UNLOAD(binary_slot));
    ck_assert(!UNLOAD(binary_slot));
    ck_assert(LOAD(file.slot, sizeof(ptx) - 1));
    close_hostile();
}
END_TEST

static struct launch {
    struct executor_launch head;
    uint64_t address, value;
} * arguments;

static struct task launch_task(void)
{
    return (struct task){.op = TASK_LAUNCH,
                         .object = binary_slot,
                         .generation = binary_generation,
                         .launch = {.function = 7,
                                    .size = sizeof(*arguments),
                                    .src = file.slot,
                                    .src_generation = file.generation}};
}

static int32_t outcome(struct task task)
{
    struct raw_stream *s = &r.stream[0];

    raw_put(&r, s, &task);
    raw_ring(&r, s);
    raw_wait(s);
    return stream_error_code(atomic_exchange(&s->ctrl->error, 0));
}

/* Its stream goes on. */
static void expect_failure(struct task task)
{
    ck_assert_int_ne(outcome(task), 0);
}

static void expect_no_memory(struct task task)
{
    ck_assert_int_eq(outcome(task), ACL_ERROR_RT_SYS_DMA);
}

static void expect_success(struct task task)
{
    ck_assert_int_eq(outcome(task), 0);
}

/* What is behind the arguments is none of them. */
static uint64_t sum_of_arguments(void)
{
    const struct executor_launch *head = &arguments->head;
    size_t n = head->placeholders * sizeof(struct executor_placeholder) +
               (head->on_device ? 0 : head->bytes);

    return executor_launch_sum(head, head + 1, n < 4096 ? n : 0);
}

static void prepare_arguments(void)
{
    arguments = file.at;
    *arguments = (struct launch){{.blocks = {1, 1, 1}, .threads = {1, 1, 1}}, 4096, 1};
}

START_TEST(tasks_that_cannot_be_fail)
{
    struct task good, bad;

    open_hostile();
    prepare_arguments();
    ck_assert(LOOK_UP(binary_slot, "nothing", 8));
    good = launch_task();
    good.launch.function = 8;
    good.launch.sum = sum_of_arguments();
    expect_success(good);
#define BAD(what)                                                                                  \
    do {                                                                                           \
        bad = good;                                                                                \
        bad.what;                                                                                  \
        expect_failure(bad);                                                                       \
        expect_success(good);                                                                      \
    } while (0)
    BAD(object = 4711);
    BAD(object = UINT32_MAX);
    BAD(object = memory.slot);
    BAD(generation++);
    BAD(launch.function = 9);
    BAD(launch.function = UINT64_MAX);
    BAD(launch.src = 4711);
    BAD(launch.src_generation++);
    BAD(launch.src = binary_slot);
    BAD(launch.size = 0);
    BAD(launch.size = sizeof(struct executor_launch) - 1);
    BAD(launch.size = UINT64_MAX);
    BAD(launch.offset = 8192);
    BAD(launch.offset = UINT64_MAX - 8);
    bad = good; /* arguments on the device */
    bad.launch.src = memory.slot;
    bad.launch.src_generation = memory.generation;
    expect_failure(bad);
    expect_success(good);
    /* What is no memory is none for any task: no device hears of it. */
    expect_no_memory((struct task){.op = TASK_SET,
                                   .object = binary_slot,
                                   .generation = binary_generation,
                                   .set = {.size = 8}});
    expect_no_memory((struct task){
        .op = TASK_COPY,
        .object = memory.slot,
        .generation = memory.generation,
        .copy = {.src = binary_slot, .src_generation = binary_generation, .size = 8}});
    expect_no_memory((struct task){
        .op = TASK_VALUE_WRITE, .object = binary_slot, .generation = binary_generation});
    expect_no_memory((struct task){
        .op = TASK_VALUE_WAIT, .object = binary_slot, .generation = binary_generation});
    expect_success(good);
    close_hostile();
}
END_TEST

START_TEST(arguments_that_cannot_be_fail)
{
    struct task task;

    open_hostile();
    prepare_arguments();
    ck_assert(LOOK_UP(binary_slot, "nothing", 8));
    task = launch_task();
    task.launch.function = 8;
#define WRONG(member, value)                                                                       \
    do {                                                                                           \
        prepare_arguments();                                                                       \
        arguments->head.member = (value);                                                          \
        task.launch.sum = sum_of_arguments();                                                      \
        expect_failure(task);                                                                      \
        prepare_arguments();                                                                       \
        task.launch.sum = sum_of_arguments();                                                      \
        expect_success(task);                                                                      \
    } while (0)
    WRONG(bytes, EXECUTOR_ARGUMENTS + 1);
    WRONG(bytes, UINT32_MAX);
    WRONG(bytes, 8192);
    WRONG(placeholders, EXECUTOR_PLACEHOLDERS + 1);
    WRONG(placeholders, UINT32_MAX);
    WRONG(placeholders, 1);
    WRONG(blocks[0], 0);
    WRONG(shared_bytes, UINT32_MAX);
    WRONG(limit_ns, 1);
    prepare_arguments();
    arguments->head.on_device = 4096;
    arguments->head.bytes = 8;
    task.launch.sum = sum_of_arguments();
    expect_failure(task);
    prepare_arguments();
    arguments->head.blocks[1]++; /* and is not signed anew */
    expect_failure(task);
    prepare_arguments();
    task.launch.sum = sum_of_arguments();
    expect_success(task);
    task.launch.sum++;
    expect_failure(task);
    close_hostile();
}
END_TEST

/* --- */

static void add_cases(TCase *t)
{
    tcase_add_test(t, each_block_runs_once);
    tcase_add_test(t, a_stream_has_copies_and_kernels_in_order);
    tcase_add_test(t, arguments_of_all_sizes);
    tcase_add_test(t, what_was_launched_runs_after_an_unload);
    tcase_add_test(t, a_kernel_that_fails_has_its_code_and_no_other_has);
    tcase_add_test(t, an_exception_names_the_task);
    tcase_add_test(t, a_kernel_ends_at_its_time_limit);
    tcase_add_test(t, launches_behind_a_failure_are_passed_over);
    tcase_add_test(t, what_is_not_there_is_refused);
}

static void add_restarts(TCase *t)
{
    tcase_add_test(t, each_launch_is_done_once_when_npud_is_killed);
    tcase_add_test(t, an_unload_waits_over_a_restart);
}

static void add_gpu_cases(TCase *t)
{
    tcase_add_test(t, a_file_may_be_loaded_before_a_device_is_set);
    tcase_add_test(t, a_gpu_runs_kernels);
    tcase_add_test(t, a_gpu_refuses_what_it_does_not_know);
    tcase_add_test(t, a_graph_has_no_kernel_of_a_device);
    tcase_add_loop_test(t, a_binary_is_lost_with_its_executor, 0, 2);
    tcase_add_loop_test(t, a_session_leaves_no_binary, 0, 1);
    tcase_add_test(t, requests_that_cannot_be_are_refused);
    tcase_add_test(t, tasks_that_cannot_be_fail);
    tcase_add_test(t, arguments_that_cannot_be_fail);
}

int main(void)
{
    Suite *suite = suite_create("device kernels");
    TCase *t;

    if (chaos_is_on())
        return 0;
    add_cases(suite_case(suite, "simulated", 60, npud_setup, npud_teardown));
    t = suite_case(suite, "over npud", 60, start_nested, npud_teardown);
    add_cases(t);
    tcase_add_test(t, a_stream_waits_for_what_a_kernel_writes);
    tcase_add_test(t, a_rule_fails_a_launch);
    tcase_add_test(t, an_abort_leaves_other_launches_right);
    add_restarts(suite_case(suite, "restarts", 120, start_restartable, npud_teardown));
    add_restarts(
        suite_case(suite, "restarts over npud", 120, start_nested_restartable, npud_teardown));
    add_gpu_cases(suite_case(suite, "GPU", 60, start_cuda, npud_teardown));
    t = suite_case(suite, "two binaries", 60, start_cuda_with_two, npud_teardown);
    tcase_add_test(t, a_user_has_no_more_binaries_than_it_may);
    t = suite_case(suite, "8 KiB of binaries", 60, start_cuda_with_bytes, npud_teardown);
    tcase_add_test(t, a_user_has_no_more_bytes_of_them_than_it_may);
    t = suite_case(suite, "GPU, restarts", 120, start_cuda_restartable, npud_teardown);
    tcase_add_loop_test(t, a_session_leaves_no_binary, 1, 2);
    tcase_add_test(t, each_store_is_there_when_npud_is_killed);
    return run_suite(suite);
}
