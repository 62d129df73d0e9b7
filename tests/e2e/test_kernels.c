/*
 * Kernels: host code that the process runs itself, in the order of a stream (docs/kernels.md): what
 * they see, what ends them, and what their end does to the program, its streams and npud.
 *
 * Skipped under TSan: that a kernel comes before what the program does after it is told by npud,
 * another process, and TSan sees one.
 * Runs long: 30 s.
 */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "acl/acl_npud_kernel.h"
#include "device_bytes.h"
#include "gate.h"
#include "tests/common/harness.h"
#include "tests/common/need.h"
#include "tests/common/stream_end.h"

#define WORDS 64
#define CUBE  ACL_KERNEL_TYPE_AICORE
#define VEC   ACL_KERNEL_TYPE_VECTOR
#define CPU   ACL_KERNEL_TYPE_AICPU

static const char *const strict[] = {"--set=sim.strict=yes", NULL};
static const char *const ordinary[] = {NULL};
static aclrtStream stream, other;

static void set_up(const char *const *args)
{
    npud_start(args);
    streams_open(&stream, &other);
}

static void set_up_ordinary(void)
{
    set_up(ordinary);
}

static bool is_strict;

static void set_up_strict(void)
{
    is_strict = true;
    set_up(strict);
}

typedef void kernel_fn(uint64_t a, uint64_t b, uint64_t c);

static aclError launch(const char *name, kernel_fn *fn, aclrtKernelType kind, uint32_t blocks,
                       aclrtStream s, uint64_t a, uint64_t b, uint64_t c)
{
    const uint64_t args[] = {a, b, c};
    const aclnpudKernel k = {
        .size = sizeof(k), .kind = kind, .name = name, .function = (const void *)(uintptr_t)fn};

    return aclnpudLaunchKernel(&k, blocks, args, sizeof(args), s);
}

#define LAUNCH(fn, blocks, s, a, b, c)                                                             \
    OK(launch(#fn, fn, CUBE, blocks, s, (uint64_t)(a), (uint64_t)(b), (uint64_t)(c)))

static void await(aclrtStream s)
{
    OK(aclrtSynchronizeStreamWithTimeout(s, LIMIT_MS));
}

static uint64_t *words_new(void)
{
    void *p;

    OK(aclrtMalloc(&p, WORDS * sizeof(uint64_t), ACL_MEM_MALLOC_HUGE_FIRST));
    OK(aclrtMemset(p, WORDS * sizeof(uint64_t), 0, WORDS * sizeof(uint64_t)));
    return p;
}

static uint64_t word_of(const uint64_t *device, size_t i)
{
    uint64_t word;

    OK(aclrtMemcpy(&word, sizeof(word), device + i, sizeof(word), ACL_MEMCPY_DEVICE_TO_HOST));
    return word;
}

/* --- what a kernel is --- */

static void add_up(uint64_t to, uint64_t from, uint64_t more)
{
    const aclnpudBlock *b = aclnpudBlockSelf();

    ((uint64_t *)to)[b->index] = ((uint64_t *)from)[b->index] + more + b->num;
}

START_TEST(runs_in_the_order_of_its_stream)
{
    uint64_t *a = words_new(), *b = words_new();
    uint64_t *host;
    void *pinned;

    OK(aclrtMallocHost(&pinned, WORDS * sizeof(*host)));
    host = pinned;
    for (int i = 0; i < 200; i++) {
        for (uint64_t w = 0; w < WORDS; w++)
            host[w] = w + (uint64_t)i;
        OK(aclrtMemcpyAsync(a, WORDS * 8, host, WORDS * 8, ACL_MEMCPY_HOST_TO_DEVICE, stream));
        LAUNCH(add_up, 8, stream, b, a, 1000);
        LAUNCH(add_up, 4, stream, a, b, 5);
        OK(aclrtMemcpyAsync(host, 64, a, 64, ACL_MEMCPY_DEVICE_TO_HOST, stream));
        await(stream);
        for (uint64_t w = 0; w < 4; w++)
            ck_assert_uint_eq(host[w], w + (uint64_t)i + 1000 + 8 + 5 + 4);
        for (uint64_t w = 4; w < 8; w++)
            ck_assert_uint_eq(host[w], w + (uint64_t)i);
    }
}
END_TEST

/* What the program does to its arguments after the launch changes nothing. */
START_TEST(has_a_copy_of_its_arguments)
{
    uint64_t *out = words_new(), *in = words_new();
    uint64_t args[] = {(uint64_t)out, (uint64_t)in, 7};
    const aclnpudKernel k = {
        .size = sizeof(k), .name = "add_up", .function = (const void *)(uintptr_t)add_up};
    aclrtEvent gate = stream_hold(stream);

    OK(aclnpudLaunchKernel(&k, 1, args, sizeof(args), stream));
    memset(args, 0xff, sizeof(args));
    /* What wakes the thread for kernels does not make this one begin. */
    LAUNCH(add_up, 1, other, in + 1, in, 0);
    await(other);
    ck_assert_uint_eq(word_of(out, 0), 0);
    stream_let_go(gate);
    await(stream);
    ck_assert_uint_eq(word_of(out, 0), 8);
}
END_TEST

static void sixteen(uint64_t a0, uint64_t a1, uint64_t a2)
{
    (void)a0;
    (void)a1;
    (void)a2;
}

static void sum_up(const void *function, const void *args)
{
    const uint64_t *a = args;
    uint64_t sum = 0;

    (void)function;
    for (int i = 1; i < 16; i++)
        sum += a[i];
    *(uint64_t *)a[0] = sum;
}

START_TEST(is_called_by_its_record)
{
    uint64_t *out = words_new();
    uint64_t args[16] = {(uint64_t)out};
    const aclnpudKernel k = {.size = sizeof(k),
                             .name = "sixteen",
                             .function = (const void *)(uintptr_t)sixteen,
                             .call = sum_up};

    for (uint64_t i = 1; i < 16; i++)
        args[i] = i * i;
    OK(aclnpudLaunchKernel(&k, 1, args, sizeof(args), stream));
    await(stream);
    ck_assert_uint_eq(word_of(out, 0), 15 * 16 * 31 / 6);
}
END_TEST

static void *report(void *arg)
{
    turn_await(arg);
    while (aclrtProcessReport(1000) != ACL_ERROR_RT_THREAD_SUBSCRIBE)
        ;
    return NULL;
}

static void count_call(void *arg)
{
    ++*(int *)arg;
}

START_TEST(works_on_a_subscribed_stream)
{
    uint64_t *out = words_new(), *in = words_new();
    pthread_t thread;
    int calls = 0;

    turns_init();
    pthread_create(&thread, NULL, report, &to_child);
    OK(aclrtSubscribeReport((uint64_t)thread, stream));
    turn_tell(&to_child);
    OK(aclrtLaunchCallback(count_call, &calls, ACL_CALLBACK_BLOCK, stream));
    LAUNCH(add_up, 1, stream, out, in, 3);
    OK(aclrtLaunchCallback(count_call, &calls, ACL_CALLBACK_BLOCK, stream));
    await(stream);
    ck_assert_int_eq(calls, 2);
    ck_assert_uint_eq(word_of(out, 0), 4);
    OK(aclrtUnSubscribeReport((uint64_t)thread, stream));
    pthread_join(thread, NULL);
}
END_TEST

/* --- blocks --- */

static void come_and_wait(uint64_t p, uint64_t b, uint64_t c)
{
    _Atomic uint64_t *count = (void *)p;
    uint32_t num = aclnpudBlockSelf()->num;

    (void)b;
    for (uint64_t round = 1; round <= c; round++) {
        atomic_fetch_add(count, 1);
        aclnpudBlockSync();
        if (atomic_load(count) != num * round)
            __builtin_trap();
        aclnpudBlockSync();
    }
}

START_TEST(blocks_wait_for_each_other)
{
    static const uint32_t blocks[] = {1, 2, 7, 128};
    uint64_t *count = words_new();

    OK(aclrtMemset(count, 8, 0, 8));
    LAUNCH(come_and_wait, blocks[_i], stream, count, 0, 3);
    await(stream);
    ck_assert_uint_eq(word_of(count, 0), 3 * (uint64_t)blocks[_i]);
}
END_TEST

/* By hand: not one thread may be missing, or it never ends. */
static void come_and_look(uint64_t p, uint64_t b, uint64_t c)
{
    _Atomic uint64_t *count = (void *)p;

    (void)b;
    (void)c;
    atomic_fetch_add(count, 1);
    while (atomic_load(count) < aclnpudBlockSelf()->num)
        usleep(100);
}

START_TEST(blocks_are_all_there)
{
    uint64_t *count = words_new();

    LAUNCH(come_and_look, 128, stream, count, 0, 0);
    await(stream);
}
END_TEST

static void leave_early(uint64_t p, uint64_t b, uint64_t c)
{
    (void)p;
    (void)b;
    (void)c;
    if (aclnpudBlockSelf()->index % 2 == 0)
        aclnpudBlockSync();
}

START_TEST(a_block_that_returns_has_come)
{
    for (int i = 0; i < 100; i++)
        LAUNCH(leave_early, 16, stream, 0, 0, 0);
    await(stream);
}
END_TEST

START_TEST(too_many_to_wait_for_each_other)
{
    uint64_t *count = words_new();

    LAUNCH(come_and_wait, 129, stream, count, 0, 1);
    ck_assert_int_eq(aclrtSynchronizeStreamWithTimeout(stream, LIMIT_MS),
                     ACL_ERROR_RT_AICORE_TRAP_EXCEPTION);
}
END_TEST

static void add_index(uint64_t p, uint64_t b, uint64_t c)
{
    (void)b;
    (void)c;
    atomic_fetch_add((_Atomic uint64_t *)p, aclnpudBlockSelf()->index);
}

START_TEST(each_block_runs_once)
{
    uint64_t *sum = words_new();

    LAUNCH(add_index, 65535, stream, sum, 0, 0);
    await(stream);
    ck_assert_uint_eq(word_of(sum, 0), UINT64_C(65535) * 65534 / 2);
    ck_assert_int_eq(launch("add_index", add_index, CUBE, 0, stream, 0, 0, 0),
                     ACL_ERROR_RT_PARAM_INVALID);
    ck_assert_int_eq(launch("add_index", add_index, CUBE, 65536, stream, 0, 0, 0),
                     ACL_ERROR_RT_PARAM_INVALID);
}
END_TEST

static void use_memory(uint64_t p, uint64_t size, uint64_t c)
{
    unsigned char *bytes = aclnpudBlockMemory(size);

    (void)c;
    for (uint64_t i = 0; i < size; i++)
        if (bytes[i] != 0)
            __builtin_trap();
    if ((uintptr_t)bytes % 64 != 0)
        __builtin_trap();
    memset(bytes, 0xee, size);
    atomic_fetch_add((_Atomic uint64_t *)p, 1);
}

START_TEST(memory_of_a_block)
{
    uint64_t *count = words_new();

    LAUNCH(use_memory, 500, stream, count, 10000, 0);
    await(stream);
    ck_assert_uint_eq(word_of(count, 0), 500);
    LAUNCH(use_memory, 1, stream, count, UINT64_MAX, 0);
    ck_assert_int_eq(aclrtSynchronizeStreamWithTimeout(stream, LIMIT_MS),
                     ACL_ERROR_RT_AICORE_TRAP_EXCEPTION);
    ck_assert_ptr_null(aclnpudBlockMemory(1));
    ck_assert_uint_eq(aclnpudBlockSelf()->num, 1);
    aclnpudBlockSync();
}
END_TEST

static _Atomic uint64_t counted;

static void count_up(uint64_t p, uint64_t b, uint64_t c)
{
    (void)b;
    (void)c;
    atomic_fetch_add((_Atomic uint64_t *)p, 1);
}

static void count_and_meet(uint64_t n, uint64_t b, uint64_t c)
{
    (void)b;
    (void)c;
    atomic_fetch_add(&counted, 1);
    while (atomic_load(&counted) < n)
        usleep(10000);
}

/* Each kernel has a thread, however many there are. */
START_TEST(many_streams)
{
    enum { MANY = 500 };
    aclrtStream streams[MANY];

    for (int i = 0; i < MANY; i++) {
        OK(aclrtCreateStream(&streams[i]));
        LAUNCH(count_and_meet, 1, streams[i], MANY, 0, 0);
    }
    OK(aclrtSynchronizeDeviceWithTimeout(LIMIT_MS));
    ck_assert_uint_eq(atomic_load(&counted), MANY);
    for (int i = 0; i < MANY; i++)
        OK(aclrtDestroyStream(streams[i]));
}
END_TEST

/* --- without threads --- */

#ifndef __SANITIZE_ADDRESS__ /* which has terabytes of addresses */
/* No stack of a thread has room any more; small memory has. */
static void forbid_threads(bool forbid)
{
    struct rlimit limit = {.rlim_cur = RLIM_INFINITY, .rlim_max = RLIM_INFINITY};
    unsigned long pages = 0;
    FILE *f = fopen("/proc/self/statm", "r");

    ck_assert_ptr_nonnull(f);
    ck_assert_int_eq(fscanf(f, "%lu", &pages), 1);
    fclose(f);
    if (forbid)
        limit.rlim_cur = pages * (unsigned long)sysconf(_SC_PAGESIZE) + (1 << 20);
    ck_assert_int_eq(setrlimit(RLIMIT_AS, &limit), 0);
}

START_TEST(without_threads)
{
    if (!need_no_emulator(__func__, "limits of a process to hold"))
        return;
    forbid_threads(true);
    FAILS_SAYING(ACL_ERROR_RT_MEMORY_ALLOCATION, "a thread for kernels cannot be started",
                 launch("count_up", count_up, CUBE, 1, stream, (uint64_t)&counted, 0, 0));
    forbid_threads(false);
    LAUNCH(count_up, 1, stream, &counted, 0, 0);
    await(stream);
    forbid_threads(true);
    LAUNCH(count_up, 5, stream, &counted, 0, 0); /* one after the other */
    await(stream);
    ck_assert_uint_eq(atomic_load(&counted), 6);
    OK(aclrtSetOpExecuteTimeOut(0));
    LAUNCH(count_up, 1, stream, &counted, 0, 0);
    FAILS_SAYING(ACL_ERROR_RT_MEMORY_ALLOCATION, "kernel count_up: no thread",
                 aclrtSynchronizeStreamWithTimeout(stream, LIMIT_MS));
    forbid_threads(false);
    LAUNCH(count_up, 4, stream, &counted, 0, 0);
    await(stream);
    ck_assert_uint_eq(atomic_load(&counted), 10);
}
END_TEST
#endif

/* --- streams beside each other --- */

static void wait_for_word(uint64_t p, uint64_t value, uint64_t next)
{
    _Atomic uint64_t *word = (void *)p;

    while (atomic_load(word) != value)
        usleep(100);
    atomic_store(word, next);
}

START_TEST(kernels_of_streams_wait_for_each_other)
{
    uint64_t *word = words_new();
    aclrtStream streams[8];
    aclrtEvent gates[8];

    for (uint64_t i = 0; i < 8; i++) {
        OK(aclrtCreateStream(&streams[i]));
        gates[i] = stream_hold(streams[i]); /* no launch comes after a kernel has begun */
        LAUNCH(wait_for_word, 1, streams[i], word, 8 - i, 7 - i + 100 * (i == 7));
    }
    LAUNCH(wait_for_word, 1, stream, word, 0, 8);
    for (int i = 0; i < 8; i++)
        stream_let_go(gates[i]);
    for (int i = 0; i < 8; i++) {
        await(streams[i]);
        OK(aclrtDestroyStream(streams[i]));
    }
    await(stream);
    ck_assert_uint_eq(word_of(word, 0), 100);
}
END_TEST

/* A copy of registered memory does not wait for a kernel of another stream. */
START_TEST(a_kernel_holds_no_copy)
{
    uint64_t *word = words_new(), *to = words_new();
    void *own = aligned_alloc(4096, 4096);

    OK(aclrtHostRegisterV2(own, 4096, ACL_HOST_REG_PINNED));
    memset(own, 1, 4096);
    LAUNCH(wait_for_word, 1, stream, word, 1, 2);
    OK(aclnpudLaunchDelay(100, 0, other));
    OK(aclrtMemcpyAsync(to, 64, own, 64, ACL_MEMCPY_HOST_TO_DEVICE, other));
    await(other);
    ck_assert_uint_eq(word_of(to, 0), UINT64_C(0x0101010101010101));
    OK(aclrtMemcpyAsync(word, 8, own, 8, ACL_MEMCPY_HOST_TO_DEVICE, other));
    await(other);
    OK(aclrtMemset(word, 8, 0, 8));
    OK(aclrtValueWrite(word, 1, 0, other));
    await(stream);
    OK(aclrtHostUnregister(own));
    free(own);
}
END_TEST

/* --- what ends them --- */

/* The undefined behaviour sanitizer would say so first, and end the program. */
__attribute__((no_sanitize("undefined"))) static void do_wrong(uint64_t how, uint64_t block,
                                                               uint64_t c)
{
    volatile int zero = 0;

    (void)c;
    if (aclnpudBlockSelf()->index != block)
        return;
    switch (how) {
    case SIGSEGV:
        *(volatile int *)(uintptr_t)0x1230 = 1;
        break;
    case SIGFPE:
#ifdef __x86_64__
        zero = 5 / zero;
#else
        raise(SIGFPE); /* a division by zero is none there */
#endif
        break;
    case SIGTRAP:
        raise(SIGTRAP);
        break;
    default:
        __builtin_trap();
    }
}

static const struct {
    uint64_t how;
    aclrtKernelType kind;
    int code;
    const char *words;
} faults[] = {
    {SIGSEGV, CUBE, ACL_ERROR_RT_AICORE_EXCEPTION, "block 3 of 8: SIGSEGV at address 0x1230"},
    {SIGSEGV, VEC, ACL_ERROR_RT_VECTOR_CORE_EXCEPTION, "block 3 of 8: SIGSEGV"},
    {SIGSEGV, CPU, ACL_ERROR_RT_AICPU_EXCEPTION, "block 3 of 8: SIGSEGV"},
    {0, CUBE, ACL_ERROR_RT_AICORE_TRAP_EXCEPTION, "kernel do_wrong, block 3 of 8: SIG"},
    {0, VEC, ACL_ERROR_RT_VECTOR_CORE_TRAP_EXCEPTION, "block 3 of 8: SIG"},
#ifdef __x86_64__
    {SIGFPE, CUBE, ACL_ERROR_RT_AICORE_EXCEPTION, "block 3 of 8: SIGFPE"},
#endif
};

static struct {
    atomic_int calls;
    uint32_t task, n;
    uint64_t args[3];
} told;

static void tell_failure(aclrtExceptionInfo *info)
{
    void *args = NULL;

    OK(aclrtGetArgsFromExceptionInfo(info, &args, &told.n));
    memcpy(told.args, args, sizeof(told.args));
    told.task = aclrtGetTaskIdFromExceptionInfo(info);
    atomic_fetch_add(&told.calls, 1);
}

START_TEST(faults_fail_the_stream)
{
    uint64_t *out = words_new(), *in = words_new();
    uint32_t task;
    aclError error;

    OK(aclrtSetExceptionInfoCallback(tell_failure));
    for (int round = 0; round < 3; round++) {
        OK(launch("do_wrong", do_wrong, faults[_i].kind, 8, stream, faults[_i].how, 3, 77));
        OK(aclrtGetThreadLastTaskId(&task));
        error = aclrtSynchronizeStreamWithTimeout(stream, LIMIT_MS);
        ck_assert_int_eq(error, faults[_i].code);
        ck_assert_ptr_nonnull(strstr(aclGetRecentErrMsg(), faults[_i].words));
        ck_assert_int_eq(atomic_load(&told.calls), round + 1);
        ck_assert_uint_eq(told.task, task);
        ck_assert_uint_eq(told.n, 24);
        ck_assert_uint_eq(told.args[2], 77);
        LAUNCH(add_up, 1, stream, out, in, 1);
        await(stream);
        ck_assert_uint_eq(word_of(out, 0), 2);
    }
    OK(aclrtSetExceptionInfoCallback(NULL));
}
END_TEST

#define FAULT ACL_ERROR_RT_AICORE_EXCEPTION

static void fail_kernel(const char *name, aclrtStream s)
{
    OK(launch(name, do_wrong, CUBE, 1, s, SIGSEGV, 0, 0));
}

/* A failure of another task with the same code is not that of the kernel before. */
static void expect_no_kernel(aclrtStream s)
{
    OK(aclnpudLaunchDelay(0, FAULT, s));
    FAILS_SAYING(FAULT, "ACL_ERROR_RT_AICORE_EXCEPTION", aclrtSynchronizeStream(s));
}

START_TEST(a_failure_names_its_kernel)
{
    fail_kernel("first", stream);
    fail_kernel("second", stream);
    fail_kernel("elsewhere", other);
    FAILS_SAYING(FAULT, "kernel elsewhere,", aclrtSynchronizeStream(other));
    FAILS_SAYING(FAULT, "kernel second,", aclrtSynchronizeStream(stream));
    expect_no_kernel(stream);
    expect_no_kernel(other);
    fail_kernel("third", stream);
    FAILS_SAYING(FAULT, "kernel third,", aclrtSynchronizeStream(stream));
    /* The next stream has its place, and maybe its id. */
    OK(aclrtDestroyStream(stream));
    OK(aclrtCreateStream(&stream));
    expect_no_kernel(stream);
}
END_TEST

/* Each context that stops names its own. */
START_TEST(a_stop_names_its_kernel)
{
    aclrtContext contexts[2];
    aclrtStream streams[2];

    for (int i = 0; i < 2; i++) {
        OK(aclrtCreateContext(&contexts[i], 0));
        OK(aclrtCreateStream(&streams[i]));
        OK(aclrtSetStreamFailureMode(streams[i], 1));
        fail_kernel(i == 0 ? "one" : "two", streams[i]);
        FAILS(FAULT, aclrtSynchronizeStream(streams[i]));
    }
    OK(aclrtSetCurrentContext(contexts[0]));
    FAILS_SAYING(FAULT, "kernel one,", aclrtSynchronizeStream(streams[0]));
    FAILS_SAYING(FAULT, "kernel one,", aclrtSynchronizeStream(NULL));
}
END_TEST

static void run_for_ever(uint64_t p, uint64_t b, uint64_t c)
{
    (void)b;
    (void)c;
    atomic_fetch_add((_Atomic uint64_t *)p, 1);
    for (volatile bool ever = true; ever;)
        ;
}

static _Atomic uint64_t begun;

static void launch_endless(uint32_t blocks)
{
    atomic_store(&begun, 0);
    LAUNCH(run_for_ever, blocks, stream, &begun, 0, 0);
    EVENTUALLY(atomic_load(&begun) == blocks, "the kernel has not begun");
}

START_TEST(ends_with_its_stream)
{
    launch_endless(_i % 2 ? 5 : 1);
    stream_end((unsigned)_i / 2, &stream);
    await(stream);
    launch_endless(2);
    stream_end((unsigned)_i / 2, &stream);
}
END_TEST

/* Endless in place of the last one: the stream is at it when it is stopped. */
static void sum_for_ever(uint64_t sum, uint64_t b, uint64_t c)
{
    (void)b;
    (void)c;
    atomic_store(&begun, 1);
    for (volatile bool ever = true; ever;)
        ++*(volatile uint64_t *)sum;
}

/* The copies behind it find what it has left: none of them comes before it has ended. */
static void expect_stopped_first(uint64_t *sum, bool in_graph)
{
    uint64_t *seen = words_new();
    aclmdlRI graph = NULL;

    atomic_store(&begun, 0);
    if (in_graph)
        OK(aclmdlRICaptureBegin(stream, ACL_MODEL_RI_CAPTURE_MODE_RELAXED));
    LAUNCH(sum_for_ever, 1, stream, sum, 0, 0);
    if (in_graph) {
        OK(aclmdlRICaptureEnd(stream, &graph));
        OK(aclmdlRIExecuteAsync(graph, stream));
    }
    for (int i = 0; i < WORDS; i++)
        OK(aclrtMemcpyAsync(seen + i, 8, sum, 8, ACL_MEMCPY_DEVICE_TO_DEVICE, stream));
    EVENTUALLY(atomic_load(&begun) == 1, "the kernel has not begun");
    OK(aclrtStreamStop(stream));
    ck_assert_int_eq(aclrtSynchronizeStreamWithTimeout(stream, LIMIT_MS),
                     ACL_ERROR_RT_STREAM_ABORT);
    await(stream);
    for (size_t i = 0; i < WORDS; i++)
        ck_assert_uint_eq(word_of(seen, i), word_of(sum, 0));
    if (graph)
        OK(aclmdlRIDestroy(graph));
    OK(aclrtFree(seen));
}

START_TEST(a_stop_ends_it_before_what_is_behind)
{
    uint64_t *sum = words_new();

    for (int i = 0; i < 20; i++)
        expect_stopped_first(sum, _i);
    OK(aclrtFree(sum));
}
END_TEST

/* It is handed over when it is stopped, or was not taken from the ring: it never runs. */
START_TEST(what_a_stop_ends_runs_once_or_not)
{
    uint64_t *sum = words_new();

    for (int i = 0; i < 300; i++) {
        uint64_t before = word_of(sum, 0);

        LAUNCH(add_up, 1, stream, sum, sum, 0);
        OK(aclrtStreamStop(stream));
        LAUNCH(add_up, 1, stream, sum, sum, 0);
        aclrtSynchronizeStreamWithTimeout(stream, LIMIT_MS);
        await(stream);
        ck_assert_uint_le(word_of(sum, 0) - before, 2);
        ck_assert_uint_ge(word_of(sum, 0) - before, 1);
    }
    OK(aclrtFree(sum));
}
END_TEST

/* A word that the program has registered: the stream waits for it in vain. */
START_TEST(a_stop_ends_a_wait_for_a_word_of_the_host)
{
    static _Alignas(4096) uint64_t page[512];
    uint64_t *device = words_new();
    void *at;

    OK(aclrtHostRegister(page, sizeof(page), ACL_HOST_REGISTER_MAPPED, &at));
    for (int i = 0; i < 20; i++) {
        OK(aclrtValueWait(at, 7, ACL_STREAM_WAIT_VALUE_EQ, stream));
        OK(aclrtMemsetAsync(device, 8, i, 8, stream));
        OK(aclrtStreamStop(stream));
        ck_assert_int_eq(aclrtSynchronizeStreamWithTimeout(stream, LIMIT_MS),
                         ACL_ERROR_RT_STREAM_ABORT);
        await(stream);
        ck_assert_uint_eq(word_of(device, 0), (uint64_t)i * 0x0101010101010101);
    }
    OK(aclrtHostUnregister(page));
    OK(aclrtFree(device));
}
END_TEST

static aclrtStream no_stream; /* the default stream, which is the first to go */

/* s waits for the kernel of `stream`. */
static void await_kernel_by_event(aclrtStream s)
{
    aclrtEvent behind;

    OK(aclrtCreateEvent(&behind));
    OK(aclrtRecordEvent(behind, stream));
    OK(aclrtStreamWaitEvent(s, behind));
}

static void *destroy_stream(void *context)
{
    ck_assert_int_eq(aclrtSetCurrentContext(context), 0);
    (void)aclrtDestroyStream(stream);
    return NULL;
}

static void *destroy_other(void *context)
{
    ck_assert_int_eq(aclrtSetCurrentContext(context), 0);
    (void)aclrtDestroyStream(other);
    return NULL;
}

static void *fill_stream(void *context)
{
    int error = aclrtSetCurrentContext(context);

    while (error == 0)
        error = aclnpudLaunchDelay(0, 0, stream);
    return NULL;
}

/* What else hangs on the kernel when the device is reset. */
static const struct {
    aclrtStream *behind; /* the stream that waits for it */
    void *(*thread)(void *context);
    const char *call; /* of the thread */
} hanging[] = {
    {NULL, NULL, NULL},
    {&no_stream, NULL, NULL},
    {NULL, destroy_stream, "aclrtDestroyStream"},
    {&other, destroy_other, "aclrtDestroyStream"},
    {NULL, fill_stream, "aclnpudLaunchDelay"},
};
enum { RESET_KINDS = sizeof(hanging) / sizeof(hanging[0]) };

static void begin_thread(int kind, pthread_t *thread)
{
    aclrtContext context;

    OK(aclrtGetCurrentContext(&context));
    ck_assert_int_eq(pthread_create(thread, NULL, hanging[kind].thread, context), 0);
    EVENTUALLY(npud_lists_sleeper(getpid(), hanging[kind].call), "%s does not wait",
               hanging[kind].call);
}

static void reset_with_kernel(int kind, bool force)
{
    uint64_t begun_ns = clock_ns();
    pthread_t thread;

    if (hanging[kind].behind)
        await_kernel_by_event(*hanging[kind].behind);
    if (hanging[kind].thread)
        begin_thread(kind, &thread);
    FAILS_SAYING(ACL_ERROR_RT_AICORE_TIMEOUT, "a kernel did not come to its end",
                 force ? aclrtResetDeviceForce(0) : aclrtResetDevice(0));
    ck_assert_uint_lt(clock_ns() - begun_ns, 20 * NSEC_PER_SEC);
    if (hanging[kind].thread)
        ck_assert_int_eq(pthread_join(thread, NULL), 0);
}

/* It was launched without a limit. With force, the reset has one of its own. */
START_TEST(ends_with_its_device)
{
    bool force = _i >= RESET_KINDS;

    launch_endless(1 + 2 * (unsigned)force);
    if (!force)
        OK(aclrtSetOpExecuteTimeOutWithMs(100));
    reset_with_kernel(_i % RESET_KINDS, force);
    OK(aclrtSetOpExecuteTimeOut(0));
    OK(aclrtSetDevice(0));
    OK(aclrtCreateStream(&stream));
    LAUNCH(sixteen, 2, stream, 0, 0, 0);
    await(stream);
}
END_TEST

static _Atomic int past;

static void set_past(void *arg)
{
    (void)arg;
    atomic_store(&past, 1);
}

/* What is no kernel comes to its end, and the reset waits for it. */
START_TEST(a_reset_awaits_what_ends)
{
    OK(aclrtSetOpExecuteTimeOutWithMs(100));
    OK(aclnpudLaunchDelay(90000, 0, stream));
    OK(aclnpudLaunchDelay(90000, 0, stream));
    OK(aclrtLaunchHostFunc(stream, set_past, NULL));
    OK(aclrtResetDevice(0));
    ck_assert_int_eq(atomic_load(&past), 1);
}
END_TEST

/* The session stays, because the device is open. */
START_TEST(outlives_a_finalize)
{
    launch_endless(1);
    OK(aclFinalize());
    ck_assert_int_eq(aclrtStreamAbort(stream), 0);
    LAUNCH(sixteen, 1, stream, 0, 0, 0);
    await(stream);
}
END_TEST

START_TEST(ends_at_its_time_limit)
{
    OK(aclrtSetOpExecuteTimeOutWithMs(100));
    LAUNCH(run_for_ever, 3, stream, &begun, 0, 0);
    ck_assert_int_eq(aclrtSynchronizeStreamWithTimeout(stream, LIMIT_MS),
                     ACL_ERROR_RT_AICORE_TIMEOUT);
    ck_assert_ptr_nonnull(strstr(aclGetRecentErrMsg(), "time limit of 100000 us"));
    OK(launch("run_for_ever", run_for_ever, VEC, 1, stream, (uint64_t)&begun, 0, 0));
    ck_assert_int_eq(aclrtSynchronizeStreamWithTimeout(stream, LIMIT_MS),
                     ACL_ERROR_RT_VECTOR_CORE_TIMEOUT);
    OK(aclrtSetOpExecuteTimeOut(0)); /* the longest one, for machines that are slow */
    for (int i = 0; i < 100; i++)
        LAUNCH(sixteen, 2, stream, 0, 0, 0);
    await(stream);
}
END_TEST

static void end_thread(uint64_t a, uint64_t b, uint64_t c)
{
    (void)b;
    (void)c;
    if (aclnpudBlockSelf()->index == a)
        pthread_exit(NULL);
}

START_TEST(a_kernel_that_ends_its_thread)
{
    for (int i = 0; i < 20; i++) {
        LAUNCH(end_thread, 4, stream, i % 4, 0, 0);
        ck_assert_int_eq(aclrtSynchronizeStreamWithTimeout(stream, LIMIT_MS),
                         ACL_ERROR_RT_AICORE_EXCEPTION);
        LAUNCH(sixteen, 4, stream, 0, 0, 0);
        await(stream);
    }
}
END_TEST

/* May the program use the address? A system call tells, and no fault. */
static bool device_is_open(const void *device)
{
    int pipes[2];
    bool open;

    ck_assert_int_eq(pipe(pipes), 0);
    open = write(pipes[1], device, 1) == 1;
    close(pipes[0]);
    close(pipes[1]);
    return open;
}

/* The whole kernel is of this kind, whichever thread ends. */
START_TEST(a_thread_that_ends_is_told)
{
    uint64_t *out = words_new(), block = (uint64_t)_i;
    const char *sentence;

    OK(launch("end_thread", end_thread, VEC, 2, stream, block, 0, 0));
    ck_assert_int_eq(aclrtSynchronizeStreamWithTimeout(stream, LIMIT_MS),
                     ACL_ERROR_RT_VECTOR_CORE_EXCEPTION);
    sentence = aclGetRecentErrMsg();
    ck_assert_ptr_nonnull(strstr(sentence, "kernel end_thread, block"));
    ck_assert_ptr_nonnull(strstr(sentence, "has ended its thread"));
    ck_assert(!is_strict || !device_is_open(out));
}
END_TEST

/* --- what a kernel must not do, and what ends it where it must not be left --- */

static aclrtContext context_here;
static aclrtEvent event_behind;

static aclError call_from_kernel(uint64_t what)
{
    switch (what) {
    case 0:
        return aclrtSetCurrentContext(context_here);
    case 1:
        return aclrtSetDevice(0);
    case 2:
        return aclrtResetDevice(0);
    case 3:
        return aclrtResetDeviceForce(0);
    case 4:
        return aclrtDeviceTaskAbort(0, 0);
    case 5:
        return aclrtDestroyContext(context_here);
    case 6:
        return aclrtSynchronizeEvent(event_behind);
    case 7:
        return aclFinalize();
    case 8:
        return aclrtSynchronizeStream(stream);
    case 9:
        return aclrtDestroyStream(stream);
    case 10:
        return aclrtStreamAbort(stream);
    case 11:
        return aclrtSynchronizeDevice();
    default:
        return launch("sixteen", sixteen, CUBE, 1, stream, 0, 0, 0);
    }
}

enum { CALLS_FROM_KERNELS = 13, CALLS_WITHOUT_CONTEXT = 8 };

static void call_library(uint64_t p, uint64_t what, uint64_t c)
{
    (void)c;
    atomic_store((_Atomic int *)p, call_from_kernel(what));
}

START_TEST(a_kernel_is_refused_what_would_wait_for_it)
{
    static _Atomic int result;

    OK(aclrtGetCurrentContext(&context_here));
    OK(aclrtCreateEvent(&event_behind));
    stream_let_go(stream_hold(stream));
    /* On the thread of the lane, and on one for blocks. */
    for (uint32_t blocks = 1; blocks < 3; blocks++) {
        aclrtEvent gate = stream_hold(stream);

        atomic_store(&result, -1);
        LAUNCH(call_library, blocks, stream, &result, _i, 0);
        OK(aclrtRecordEvent(event_behind, stream));
        stream_let_go(gate);
        await(stream);
        ck_assert_int_eq(atomic_load(&result), _i < CALLS_WITHOUT_CONTEXT
                                                   ? ACL_ERROR_RT_FEATURE_NOT_SUPPORT
                                                   : ACL_ERROR_RT_CONTEXT_NULL);
    }
    OK(aclrtDestroyEvent(event_behind));
}
END_TEST

#ifndef __SANITIZE_ADDRESS__ /* whose allocator has locks that nobody knows of */
/* Small blocks come from a cache of the thread, without a lock: these do not. */
static void allocate(uint64_t p, uint64_t b, uint64_t c)
{
    void *volatile first = malloc(5000);

    (void)b;
    (void)c;
    /* It does not come to the count if the kernel before it has left the lock of its thread. */
    free(first);
    atomic_fetch_add((_Atomic uint64_t *)p, 1);
    for (size_t i = 1;; i = i * 5 % 999983) {
        void *volatile one = malloc(5000 + i % 100000);
        void *volatile two = malloc(3000);

        free(one);
        free(two);
    }
}
#endif

static void sleep_for_ever(uint64_t p, uint64_t b, uint64_t c)
{
    (void)b;
    (void)c;
    atomic_fetch_add((_Atomic uint64_t *)p, 1);
    for (volatile bool ever = true; ever;)
        pause();
}

static void call_for_ever(uint64_t p, uint64_t b, uint64_t c)
{
    atomic_fetch_add((_Atomic uint64_t *)p, 1);
    for (volatile bool ever = true; ever;) {
        aclrtSetCurrentContext((aclrtContext)b);
        for (volatile int i = 0; i < 20000; i++)
            ;
    }
    (void)c;
}

static kernel_fn *const left_at[] = {
#ifndef __SANITIZE_ADDRESS__
    allocate,
#endif
    sleep_for_ever, call_for_ever};

/* A lock that stays taken is met by the next abort or allocation. */
START_TEST(leaves_no_lock_taken)
{
    for (int i = 0; i < 200; i++) {
        void *p;

        atomic_store(&begun, 0);
        OK(launch("left", left_at[_i], CUBE, 2, stream, (uint64_t)&begun, 0, 0));
        EVENTUALLY(atomic_load(&begun) == 2, "the kernel has not begun");
        OK(aclrtStreamAbort(stream));
        OK(aclrtMalloc(&p, 100, ACL_MEM_MALLOC_HUGE_FIRST));
        OK(aclrtFree(p));
        free(malloc(100000));
    }
}
END_TEST

/* Linux does not say who has sent a signal then. */
START_TEST(ends_without_a_signal_to_spare)
{
    struct rlimit before, none;

    OK(aclrtSynchronizeStream(stream));
    ck_assert_int_eq(getrlimit(RLIMIT_SIGPENDING, &before), 0);
    none = (struct rlimit){.rlim_cur = 0, .rlim_max = before.rlim_max};
    ck_assert_int_eq(setrlimit(RLIMIT_SIGPENDING, &none), 0);
    for (int i = 0; i < 20; i++) {
        launch_endless(3);
        OK(aclrtStreamAbort(stream));
    }
    /* Without a timer libcheck takes another clock for the end of a test than for its begin. */
    ck_assert_int_eq(setrlimit(RLIMIT_SIGPENDING, &before), 0);
}
END_TEST

static void count_signal(int signal)
{
    (void)signal;
    atomic_fetch_add(&counted, 1);
}

/* The signal that ends kernels, if the program sends it: ignored, or for its handler. */
START_TEST(its_signal_is_passed_on)
{
    if (_i > 0)
        signal(SIGURG, count_signal);
    for (int i = 0; i < 3; i++) {
        launch_endless(2);
        ck_assert_int_eq(raise(SIGURG), 0);
        OK(aclrtStreamAbort(stream));
        ck_assert_int_eq(raise(SIGURG), 0);
    }
    ck_assert_uint_eq(atomic_load(&counted), 6 * (uint64_t)_i);
}
END_TEST

START_TEST(npud_dies_with_a_kernel)
{
    launch_endless(3);
    npud_kill();
    ck_assert_int_ne(aclrtSynchronizeStreamWithTimeout(stream, LIMIT_MS), 0);
    OK(aclFinalize());
}
END_TEST

/* --- what a program does with signals --- */

static int run_good_and_bad(void)
{
    OK(launch("sixteen", sixteen, CUBE, 2, stream, 0, 0, 0));
    OK(launch("do_wrong", do_wrong, CUBE, 2, stream, SIGSEGV, 1, 0));
    if (aclrtSynchronizeStreamWithTimeout(stream, LIMIT_MS) != ACL_ERROR_RT_AICORE_EXCEPTION)
        return 1;
    return 0;
}

static void exit_with_3(int signal)
{
    (void)signal;
    _exit(3);
}

static void exit_with_4(int signal, siginfo_t *info, void *context)
{
    (void)signal;
    (void)context;
    _exit(info->si_addr == (void *)0x1230 ? 4 : 5);
}

static void fault(void)
{
    *(volatile int *)(uintptr_t)0x1230 = 1;
}

/* Where the address sanitizer has the signal, its report and exit code stand for the death. */
static bool died_of(int status, int signal)
{
#ifdef __SANITIZE_ADDRESS__
    if (signal == SIGSEGV && WIFEXITED(status) && WEXITSTATUS(status) == 1)
        return true;
#endif
    return WIFSIGNALED(status) && WTERMSIG(status) == signal;
}

static int own_fault(void *arg)
{
    int how = *(int *)arg;
    struct sigaction action = {.sa_handler = exit_with_3};

    if (how == 1)
        sigaction(SIGSEGV, &action, NULL);
    action = (struct sigaction){.sa_sigaction = exit_with_4, .sa_flags = SA_SIGINFO};
    if (how == 2)
        sigaction(SIGSEGV, &action, NULL);
    streams_open(&stream, &other);
    if (run_good_and_bad() != 0)
        return 7;
    if (how == 3)
        raise(SIGTRAP);
    else
        fault();
    return 2;
}

START_TEST(faults_of_others_are_passed_on)
{
    int how = _i, status = child_reap(child_start(own_fault, &how));

    if (how == 0 || how == 3)
        ck_assert_msg(died_of(status, how == 3 ? SIGTRAP : SIGSEGV), "status %#x", status);
    else
        ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == how + 2, "status %#x", status);
    npud_expect_empty();
}
END_TEST

static volatile int handler_calls;

static void count_and_return(int signal)
{
    (void)signal;
    if (++handler_calls == 2)
        _exit(3);
}

static void count_and_fault(int signal)
{
    count_and_return(signal);
    fault();
}

/* A handler that is to be called once, by its flags: the second fault is the end. */
static int own_fault_once(void *arg)
{
    bool reset = *(int *)arg == 0;
    struct sigaction action = {.sa_handler = reset ? count_and_return : count_and_fault,
                               .sa_flags = reset ? (int)SA_RESETHAND : 0};

    sigaction(SIGSEGV, &action, NULL);
    streams_open(&stream, &other);
    if (run_good_and_bad() != 0)
        return 1;
    fault();
    return 2;
}

START_TEST(handlers_are_called_as_their_flags_say)
{
    int how = _i, status = child_reap(child_start(own_fault_once, &how));

    ck_assert_msg(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV, "status %#x", status);
    npud_expect_empty();
}
END_TEST

static int fault_for_core(void *arg)
{
    (void)arg;
    setenv("NPUD_KERNEL_FAULTS", "core", 1);
    streams_open(&stream, &other);
    launch_endless(2);
    stream_end(0, &stream); /* what others want still ends it */
    run_good_and_bad();
    return 2;
}

START_TEST(faults_dump_core_if_wanted)
{
    int status = child_reap(child_start(fault_for_core, NULL));

    ck_assert_msg(died_of(status, SIGSEGV), "status %#x", status);
    npud_expect_empty();
}
END_TEST

/* --- what a kernel does to its process --- */

static void fork_in_kernel(void)
{
    pid_t pid = fork();
    int status;

    if (pid == 0) {
        alarm(LIMIT_MS / 1000);
        aclnpudBlockSync();
        _exit(aclnpudBlockMemory(100) == NULL && aclnpudBlockSelf()->num == 1 ? 3 : 4);
    }
    if (waitpid(pid, &status, 0) != pid || !WIFEXITED(status) || WEXITSTATUS(status) != 3)
        __builtin_trap();
}

static void misbehave(uint64_t how, uint64_t b, uint64_t c)
{
    (void)b;
    (void)c;
    switch (how) {
    case 0:
        _exit(7);
    case 1:
        exit(7);
    case 2:
        kill(getpid(), SIGKILL);
        break;
    case 3: /* the child has a copy of what is here, and none of npud's; it is in no kernel */
        fork_in_kernel();
        break;
    case 4:
        for (int fd = 3; fd < 200; fd++)
            close(fd);
        break;
    default:
        abort();
    }
}

static int run_misbehaving(void *arg)
{
    uint64_t how = *(uint64_t *)arg;

    streams_open(&stream, &other);
    OK(launch("misbehave", misbehave, CUBE, 2, stream, how, 0, 0));
    if (how == 3)
        await(stream);
    else /* without its descriptors the process may not hear of anything any more */
        aclrtSynchronizeStreamWithTimeout(stream, 1000);
    return 0;
}

static int run_beside(void *arg)
{
    uint64_t *out, *in;

    (void)arg;
    streams_open(&stream, &other);
    out = words_new();
    in = words_new();
    for (uint64_t i = 0; i < 300; i++) {
        LAUNCH(add_up, 2, stream, out, in, i);
        await(stream);
        ck_assert_uint_eq(word_of(out, 1), i + 2);
    }
    session_close();
    return 0;
}

START_TEST(what_a_kernel_does_to_its_process)
{
    uint64_t how = (uint64_t)_i;
    pid_t neighbour = child_start(run_beside, NULL);

    child_reap(child_start(run_misbehaving, &how));
    child_expect_ok(neighbour);
    npud_expect_empty();
}
END_TEST

/* --- an npud that comes back --- */

static void set_up_restartable(void)
{
    npud_start_restartable(NULL);
    streams_open(&stream, &other);
}

START_TEST(each_kernel_runs_once_over_restarts)
{
    uint64_t n = 0;

    atomic_store(&begun, 0);
    for (int round = 0; round < 10; round++) {
        for (int i = 0; i < 200; i++, n++)
            LAUNCH(count_up, 1, stream, &begun, 0, 0);
        npud_kill_server();
        for (int i = 0; i < 50; i++, n++)
            LAUNCH(count_up, 1, stream, &begun, 0, 0);
    }
    await(stream);
    ck_assert_uint_eq(atomic_load(&begun), n);
}
END_TEST

/* npud comes back between the stop and the kernel's end, or before, and ends it once. */
START_TEST(a_stop_lasts_over_a_restart)
{
    uint64_t *sum = words_new();

    for (int i = 0; i < 5; i++) {
        npud_kill_server();
        expect_stopped_first(sum, false);
    }
}
END_TEST

/* --- the suite --- */

static void add_tests(Suite *s, const char *name, void (*before)(void))
{
    TCase *t = suite_case(s, name, 120, before, npud_teardown);

    tcase_add_test(t, runs_in_the_order_of_its_stream);
    tcase_add_test(t, has_a_copy_of_its_arguments);
    tcase_add_test(t, is_called_by_its_record);
    tcase_add_test(t, works_on_a_subscribed_stream);
    tcase_add_loop_test(t, blocks_wait_for_each_other, 0, 4);
    tcase_add_test(t, blocks_are_all_there);
    tcase_add_test(t, a_block_that_returns_has_come);
    tcase_add_test(t, too_many_to_wait_for_each_other);
    tcase_add_test(t, each_block_runs_once);
    tcase_add_test(t, memory_of_a_block);
    tcase_add_test(t, kernels_of_streams_wait_for_each_other);
    tcase_add_test(t, a_kernel_holds_no_copy);
    tcase_add_test(t, many_streams);
#ifndef __SANITIZE_ADDRESS__
    tcase_add_test(t, without_threads);
#endif
    tcase_add_loop_test(t, faults_fail_the_stream, 0, sizeof(faults) / sizeof(faults[0]));
    tcase_add_test(t, a_failure_names_its_kernel);
    tcase_add_test(t, a_stop_names_its_kernel);
    tcase_add_loop_test(t, ends_with_its_stream, 0, 2 * STREAM_ENDS);
    tcase_add_loop_test(t, a_stop_ends_it_before_what_is_behind, 0, 2);
    tcase_add_test(t, what_a_stop_ends_runs_once_or_not);
    tcase_add_test(t, a_stop_ends_a_wait_for_a_word_of_the_host);
    tcase_add_loop_test(t, ends_with_its_device, 0, 2 * RESET_KINDS);
    tcase_add_test(t, a_reset_awaits_what_ends);
    tcase_add_test(t, outlives_a_finalize);
    tcase_add_test(t, ends_at_its_time_limit);
    tcase_add_test(t, a_kernel_that_ends_its_thread);
    tcase_add_loop_test(t, a_thread_that_ends_is_told, 0, 2);
    tcase_add_loop_test(t, a_kernel_is_refused_what_would_wait_for_it, 0, CALLS_FROM_KERNELS);
    tcase_add_loop_test(t, leaves_no_lock_taken, 0, sizeof(left_at) / sizeof(left_at[0]));
    tcase_add_test(t, ends_without_a_signal_to_spare);
    tcase_add_loop_test(t, its_signal_is_passed_on, 0, 2);
}

int main(void)
{
    Suite *s = suite_create("kernels");
    TCase *t;

    add_tests(s, "ordinary", set_up_ordinary);
    add_tests(s, "strict", set_up_strict);
    t = suite_case(s, "death of npud", 120, set_up_ordinary, npud_teardown);
    tcase_add_test(t, npud_dies_with_a_kernel);
    t = suite_case(s, "processes", 120, npud_setup, npud_teardown);
    tcase_add_loop_test(t, faults_of_others_are_passed_on, 0, 4);
    tcase_add_loop_test(t, handlers_are_called_as_their_flags_say, 0, 2);
    tcase_add_test(t, faults_dump_core_if_wanted);
    tcase_add_loop_test(t, what_a_kernel_does_to_its_process, 0, 6);
    t = suite_case(s, "restart", 120, set_up_restartable, npud_teardown);
    tcase_add_test(t, each_kernel_runs_once_over_restarts);
    tcase_add_test(t, a_stop_lasts_over_a_restart);
    return run_suite(s);
}
