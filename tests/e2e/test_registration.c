/*
 * Host memory that a program registers: what is refused, what an address is then, asynchronous
 * copies in the order of their stream, and that the memory stays what it was: of whatever kind it
 * is, for the kernel's I/O, for threads whose stack it is, and for a child of fork(). What other
 * tasks do with it is in test_host_tasks.c.
 *
 * Skipped under TSan: that a copy of the library's thread comes before what the program does after
 * it is told by npud, another process, and TSan sees one.
 * Runs long: 8 s.
 */
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "device_bytes.h"
#include "gate.h"
#include "tests/common/harness.h"
#include "tests/common/proc.h"
#include "tests/common/stream_end.h"

#define KIB        ((size_t)1 << 10)
#define MIB        ((size_t)1 << 20)
#define PAGE       4096u
#define PINNED     ACL_HOST_REG_PINNED
#define MAPPED     ACL_HOST_REG_MAPPED
#define READONLY   ACL_HOST_REG_READONLY
#define IOMEMORY   ACL_HOST_REG_IOMEMORY
#define NULL_ARG   ACL_ERROR_INVALID_PARAM
#define PARAM      ACL_ERROR_RT_PARAM_INVALID
#define NO         ACL_ERROR_RT_FEATURE_NOT_SUPPORT
#define NO_CONTEXT ACL_ERROR_RT_CONTEXT_NULL
#define REGISTERED ACL_ERROR_HOST_MEMORY_ALREADY_REGISTERED
#define NO_START   ACL_ERROR_HOST_MEMORY_NOT_REGISTERED

static aclrtStream stream, other;
static aclrtContext home;

static void set_up_restartable(void)
{
    npud_start_restartable(NULL);
    streams_open(&stream, &other);
}

static void set_up_test(void)
{
    npud_setup();
    streams_open(&stream, &other);
    OK(aclrtGetCurrentContext(&home));
}

/* --- helpers --- */

static char *pages_new(size_t size)
{
    char *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    ck_assert_ptr_ne(p, MAP_FAILED);
    return p;
}

/* A page in place of one that is there. */
static void page_over(char *p, int protection, int flags, int fd)
{
    ck_assert_ptr_eq(mmap(p, PAGE, protection, flags | MAP_FIXED, fd, 0), p);
}

static char *device_new(size_t size)
{
    void *p;

    OK(aclrtMalloc(&p, size, ACL_MEM_MALLOC_HUGE_FIRST));
    OK(aclrtMemset(p, size, 0, size));
    return p;
}

static void fill_pattern(char *p, size_t size, unsigned seed)
{
    for (size_t i = 0; i < size; i++)
        p[i] = (char)(i * 31 + (i >> 9) + seed);
}

static void device_fill_pattern(char *device, size_t size, unsigned seed)
{
    char *bytes = pages_new(size);

    fill_pattern(bytes, size, seed);
    device_put(device, bytes, size);
}

static bool holds_pattern(const char *p, size_t size, unsigned seed)
{
    for (size_t i = 0; i < size; i++)
        if (p[i] != (char)(i * 31 + (i >> 9) + seed))
            return false;
    return true;
}

static aclrtMemLocationType type_of(const void *p)
{
    aclrtPtrAttributes a;

    OK(aclrtPointerGetAttributes(p, &a));
    ck_assert_uint_eq(a.location.id, 0);
    return a.location.type;
}

#define expect_host(p)  ck_assert_int_eq(type_of(p), ACL_MEM_LOCATION_TYPE_HOST)
#define expect_plain(p) ck_assert_int_eq(type_of(p), ACL_MEM_LOCATION_TYPE_UNREGISTERED)

static void to_device_async(void *dst, const void *src, size_t n, aclrtStream s)
{
    OK(aclrtMemcpyAsync(dst, n, src, n, ACL_MEMCPY_HOST_TO_DEVICE, s));
}

static void to_host_async(void *dst, const void *src, size_t n, aclrtStream s)
{
    OK(aclrtMemcpyAsync(dst, n, src, n, ACL_MEMCPY_DEVICE_TO_HOST, s));
}

static void await(aclrtStream s)
{
    OK(aclrtSynchronizeStreamWithTimeout(s, LIMIT_MS));
}

static void *map_registered(void *p, size_t size)
{
    void *device = NULL;

    OK(aclrtHostRegister(p, size, ACL_HOST_REGISTER_MAPPED, &device));
    return device;
}

/* --- arguments --- */

START_TEST(arguments_of_register)
{
    static const struct {
        bool null, no_out;
        uint64_t size;
        unsigned type;
        int code;
    } rows[] = {
        {true, true, 0, 1, NULL_ARG},         {true, false, PAGE, 0, NULL_ARG},
        {false, false, 0, 1, NULL_ARG},       {false, true, PAGE, 1, NULL_ARG},
        {false, false, PAGE, 0x01, NO},       {false, false, PAGE, 0x10, NO},
        {false, false, PAGE, 0x04, NO},       {false, false, PAGE, 0x0c, NO},
        {false, false, UINT64_MAX, 0, PARAM}, {false, false, 1u << 30, 0, PARAM},
        {false, false, PAGE, 0x00, 0},        {false, false, PAGE, 0x08, 0},
        {false, false, 1, 0x00, 0},
    };
    char *p = pages_new(2 * PAGE);
    void *out;

    munmap(p + PAGE, PAGE);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        aclError error =
            aclrtHostRegister(rows[i].null ? NULL : p, rows[i].size,
                              (aclrtHostRegisterType)rows[i].type, rows[i].no_out ? NULL : &out);

        ck_assert_msg(error == rows[i].code, "row %zu: %d", i, error);
        if (error == 0)
            OK(aclrtHostUnregister(p));
    }
}
END_TEST

START_TEST(arguments_of_register_v2)
{
    static const struct {
        bool null;
        uint64_t size;
        uint32_t flag;
        int code;
    } rows[] = {
        {true, 0, 0, NULL_ARG},
        {true, PAGE, PINNED, NULL_ARG},
        {false, 0, PINNED, NULL_ARG},
        {false, PAGE, 0, PARAM},
        {false, PAGE, READONLY, PARAM},
        {false, PAGE, 1, PARAM},
        {false, PAGE, PINNED | 1, PARAM},
        {false, PAGE, MAPPED | IOMEMORY | 0x10, PARAM},
        {false, PAGE, IOMEMORY, NO},
        {false, PAGE, MAPPED | IOMEMORY, NO},
        {false, UINT64_MAX, PINNED, PARAM},
        {false, UINT64_MAX, MAPPED, PARAM},
        {false, PAGE + 1, PINNED, PARAM},
        {false, PAGE, PINNED, 0},
        {false, 1, PINNED, 0},
        {false, PAGE, PINNED | READONLY, 0},
        {false, PAGE, MAPPED, 0},
        {false, PAGE, MAPPED | READONLY, 0},
        {false, PAGE, MAPPED | PINNED, 0},
    };
    char *p = pages_new(2 * PAGE);

    munmap(p + PAGE, PAGE);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        aclError error = aclrtHostRegisterV2(rows[i].null ? NULL : p, rows[i].size, rows[i].flag);

        ck_assert_msg(error == rows[i].code, "row %zu: %d", i, error);
        if (error == 0)
            OK(aclrtHostUnregister(p));
    }
}
END_TEST

static void *without_context(void *arg)
{
    void *out;

    FAILS(NULL_ARG, aclrtHostRegister(arg, 0, ACL_HOST_REGISTER_MAPPED, &out));
    FAILS(NO, aclrtHostRegister(arg, PAGE, (aclrtHostRegisterType)1, &out));
    FAILS(NO_CONTEXT, aclrtHostRegister(arg, PAGE, ACL_HOST_REGISTER_MAPPED, &out));
    FAILS(PARAM, aclrtHostRegisterV2(arg, PAGE, 0));
    FAILS(NO_CONTEXT, aclrtHostRegisterV2(arg, PAGE, PINNED));
    FAILS(NO_CONTEXT, aclrtHostRegisterV2((char *)arg + 1, PAGE, MAPPED));
    return NULL;
}

START_TEST(registering_needs_a_context)
{
    thread_call(without_context, pages_new(PAGE));
}
END_TEST

static void *end_without_context(void *arg)
{
    void *device;

    OK(aclrtHostGetDevicePointer(arg, &device, 0));
    OK(aclrtHostUnregister(arg));
    return NULL;
}

START_TEST(unregistering_needs_none)
{
    char *p = pages_new(PAGE);

    OK(aclrtHostRegisterV2(p, PAGE, MAPPED));
    thread_call(end_without_context, p);
    expect_plain(p);
}
END_TEST

START_TEST(device_pointer)
{
    char *mapped = pages_new(2 * PAGE), *pinned = pages_new(2 * PAGE);
    void *device = NULL, *host;

    FAILS(PARAM, aclrtHostGetDevicePointer(mapped, &device, 0));
    OK(aclrtHostRegisterV2(mapped, 2 * PAGE, MAPPED));
    OK(aclrtHostRegisterV2(pinned, 2 * PAGE, PINNED));
    FAILS(NULL_ARG, aclrtHostGetDevicePointer(NULL, &device, 0));
    FAILS(NULL_ARG, aclrtHostGetDevicePointer(mapped, NULL, 0));
    FAILS(NULL_ARG, aclrtHostGetDevicePointer(mapped, &device, 1));
    FAILS(NULL_ARG, aclrtHostGetDevicePointer(pinned, &device, 1));
    FAILS(PARAM, aclrtHostGetDevicePointer(mapped + 1, &device, 0));
    FAILS(PARAM, aclrtHostGetDevicePointer(mapped + PAGE, &device, 0));
    FAILS(PARAM, aclrtHostGetDevicePointer(pinned + PAGE, &device, 0));
    ck_assert_ptr_null(device);
    OK(aclrtHostGetDevicePointer(pinned, &device, 0));
    ck_assert_ptr_eq(device, pinned);
    OK(aclrtHostGetDevicePointer(mapped, &device, 0));
    ck_assert_ptr_eq(device, mapped);
    OK(aclrtHostUnregister(mapped));
    FAILS(PARAM, aclrtHostGetDevicePointer(mapped, &device, 0));
    OK(aclrtMallocHost(&host, PAGE));
    ck_assert_ptr_eq(map_registered(host, PAGE), host);
    OK(aclrtHostGetDevicePointer(host, &device, 0));
    ck_assert_ptr_eq(device, host);
}
END_TEST

START_TEST(unregister_takes_a_start)
{
    char *p = pages_new(4 * PAGE);
    uint32_t flag = _i ? MAPPED : PINNED;

    FAILS(NULL_ARG, aclrtHostUnregister(NULL));
    FAILS(NO_START, aclrtHostUnregister(p));
    OK(aclrtHostRegisterV2(p, 2 * PAGE, flag));
    FAILS(NO_START, aclrtHostUnregister(p + 1));
    FAILS(NO_START, aclrtHostUnregister(p + PAGE));
    FAILS(NO_START, aclrtHostUnregister(p + 2 * PAGE));
    expect_host(p);
    OK(aclrtHostUnregister(p));
    FAILS(NO_START, aclrtHostUnregister(p));
    OK(aclrtHostRegisterV2(p, 4 * PAGE, flag));
    OK(aclrtHostUnregister(p));
}
END_TEST

START_TEST(ranges_do_not_overlap)
{
    static const struct {
        size_t from, to; /* pages; 2 to 4 are registered */
        int code;
    } rows[] = {
        {0, 1, 0},          {0, 2, 0},          {0, 3, REGISTERED}, {0, 6, REGISTERED},
        {2, 4, REGISTERED}, {2, 3, REGISTERED}, {3, 4, REGISTERED}, {3, 6, REGISTERED},
        {4, 6, 0},          {5, 6, 0},
    };
    const uint32_t flags[] = {PINNED, MAPPED};
    char *p = pages_new(6 * PAGE);

    for (unsigned first = 0; first < 2; first++) {
        OK(aclrtHostRegisterV2(p + 2 * PAGE, 2 * PAGE, flags[first]));
        for (size_t i = 0; i < 2 * sizeof(rows) / sizeof(rows[0]); i++) {
            const size_t from = rows[i / 2].from, to = rows[i / 2].to;
            aclError error = aclrtHostRegisterV2(p + from * PAGE, (to - from) * PAGE, flags[i % 2]);

            ck_assert_msg(error == rows[i / 2].code, "%u, row %zu: %d", first, i, error);
            if (error == 0)
                OK(aclrtHostUnregister(p + from * PAGE));
        }
        OK(aclrtHostUnregister(p + 2 * PAGE));
    }
    /* by bytes */
    OK(aclrtHostRegisterV2(p + 10, 10, PINNED));
    FAILS(REGISTERED, aclrtHostRegisterV2(p + 19, 1, PINNED));
    OK(aclrtHostRegisterV2(p + 20, 1, PINNED));
    OK(aclrtHostRegisterV2(p, 10, PINNED));
}
END_TEST

START_TEST(what_the_library_gave_out)
{
    static const uint32_t flags[] = {PINNED, MAPPED, PINNED | MAPPED};
    char *device = device_new(2 * PAGE);
    void *host, *freed, *managed, *at;

    OK(aclrtMallocHost(&host, 2 * PAGE));
    OK(aclrtMallocHost(&freed, PAGE));
    OK(aclrtFreeHost(freed));
    FAILS(PARAM, aclrtHostRegisterV2(device, PAGE, PINNED));
    FAILS(PARAM, aclrtHostRegisterV2(device, PAGE, MAPPED));
    FAILS(PARAM, aclrtHostRegisterV2(freed, PAGE, PINNED));
    FAILS(PARAM, aclrtHostRegisterV2(freed, PAGE, MAPPED));
    FAILS(PARAM, aclrtHostRegisterV2(host, 64 * PAGE, MAPPED));
    for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++) {
        OK(aclrtHostRegisterV2(host, PAGE, flags[i]));
        FAILS(REGISTERED, aclrtHostRegisterV2(host, PAGE, flags[i]));
        OK(aclrtHostRegisterV2((char *)host + PAGE, PAGE, flags[i]));
        FAILS(REGISTERED, aclrtHostRegisterV2(host, 2 * PAGE, flags[i]));
        OK(aclrtHostGetDevicePointer(host, &at, 0));
        ck_assert_ptr_eq(at, host);
        OK(aclrtHostUnregister((char *)host + PAGE));
        OK(aclrtHostUnregister(host));
        FAILS(NO_START, aclrtHostUnregister(host));
        expect_host(host);
    }
    OK(aclrtMemAllocManaged(&managed, 2 * MIB, ACL_RT_MEM_ATTACH_GLOBAL));
    OK(aclrtHostRegisterV2(managed, PAGE, PINNED));
    OK(aclrtHostUnregister(managed));
    OK(aclrtFreeHost(host));
}
END_TEST

/* A program that frees before it unregisters: the registration is not one of what comes there. */
START_TEST(a_registration_goes_with_memory_of_the_library)
{
    void *host, *again, *at;

    OK(aclrtMallocHost(&host, PAGE));
    OK(aclrtHostRegisterV2(host, PAGE, MAPPED));
    OK(aclrtFreeHost(host));
    FAILS(PARAM, aclrtHostGetDevicePointer(host, &at, 0));
    FAILS(NO_START, aclrtHostUnregister(host));
    for (int i = 0; i < 600; i++) { /* addresses come again */
        OK(aclrtMallocHost(&again, PAGE));
        OK(aclrtHostRegisterV2(again, PAGE, PINNED));
        OK(aclrtFreeHost(again));
    }
    OK(aclrtMemAllocManaged(&host, 2 * MIB, ACL_RT_MEM_ATTACH_GLOBAL));
    OK(aclrtHostRegisterV2((char *)host + PAGE, PAGE, PINNED));
    OK(aclrtHostRegisterV2(host, PAGE, PINNED));
    OK(aclrtFree(host));
    FAILS(NO_START, aclrtHostUnregister(host));
    FAILS(NO_START, aclrtHostUnregister((char *)host + PAGE));
}
END_TEST

/* Its memory was unmapped, and the library maps an allocation there. */
START_TEST(a_new_allocation_is_not_registered)
{
    void *taken = NULL, *at;
    char *mine;

    for (int i = 0; i < 100 && !taken; i++) {
        mine = pages_new(PAGE);
        OK(aclrtHostRegisterV2(mine, PAGE, PINNED));
        munmap(mine, PAGE);
        OK(aclrtMallocHost(&taken, PAGE));
        if (taken == mine)
            break;
        taken = NULL; /* a page of the same kind lies beside it, and the kernel has joined them */
    }
    ck_assert_ptr_ne(taken, NULL);
    FAILS(PARAM, aclrtHostGetDevicePointer(taken, &at, 0));
    OK(aclrtHostRegisterV2(taken, PAGE, PINNED));
    OK(aclrtHostUnregister(taken));
}
END_TEST

START_TEST(units_that_reach_it)
{
    aclrtHostMemMapCapability c;

    FAILS(NULL_ARG, aclrtHostMemMapCapabilities(99, (aclrtHacType)99, NULL));
    FAILS(ACL_ERROR_RT_INVALID_DEVICEID, aclrtHostMemMapCapabilities(2, (aclrtHacType)99, &c));
    FAILS(ACL_ERROR_RT_INVALID_DEVICEID,
          aclrtHostMemMapCapabilities(UINT32_MAX, ACL_RT_HAC_TYPE_SDMA, &c));
    FAILS(PARAM, aclrtHostMemMapCapabilities(0, (aclrtHacType)10, &c));
    FAILS(PARAM, aclrtHostMemMapCapabilities(0, (aclrtHacType)-1, &c));
    for (int unit = ACL_RT_HAC_TYPE_STARS; unit <= ACL_RT_HAC_TYPE_CCU; unit++) {
        bool there = unit <= ACL_RT_HAC_TYPE_PCIEDMA || unit == ACL_RT_HAC_TYPE_SDMA;

        OK(aclrtHostMemMapCapabilities(1, (aclrtHacType)unit, &c));
        ck_assert_int_eq(c,
                         there ? ACL_RT_HOST_MEM_MAP_SUPPORTED : ACL_RT_HOST_MEM_MAP_NOT_SUPPORTED);
    }
}
END_TEST

/* --- what an address is --- */

START_TEST(any_address_inside_is_host)
{
    char *p = pages_new(4 * PAGE);
    uint32_t flag = _i ? MAPPED : PINNED;
    size_t first = _i ? PAGE : PAGE + 10;

    OK(aclrtHostRegisterV2(p + first, PAGE + 100, flag));
    expect_plain(p + first - 1);
    expect_host(p + first);
    expect_host(p + first + PAGE);
    expect_host(p + first + PAGE + 99);
    expect_plain(p + first + PAGE + 100);
    OK(aclrtHostUnregister(p + first));
    expect_plain(p + first);
}
END_TEST

/* --- copies --- */

static char *pinned_new(size_t size)
{
    char *p = pages_new(size);

    OK(aclrtHostRegisterV2(p, size, PINNED));
    return p;
}

/* What the stream waits for comes from this very thread, after the copies were queued. */
START_TEST(copies_are_queued)
{
    const size_t size = _i ? MIB + 13 : 100;
    char *src = pinned_new(size), *dst = pinned_new(size), *device = device_new(size);
    uint64_t one = 1, *word = (uint64_t *)(void *)device_new(8);

    OK(aclrtValueWait(word, 1, ACL_STREAM_WAIT_VALUE_EQ, stream));
    to_device_async(device, src, size, stream);
    to_host_async(dst, device, size, stream);
    engine_turn(other);
    ck_assert(!idle(stream));
    fill_pattern(src, size, 5); /* before the stream gets there */
    OK(aclrtMemcpy(word, 8, &one, 8, ACL_MEMCPY_HOST_TO_DEVICE));
    await(stream);
    ck_assert(holds_pattern(dst, size, 5));
}
END_TEST

START_TEST(copies_are_in_order)
{
    const size_t size = 200 * KIB;
    char *host = pinned_new(size), *a = device_new(size), *b = device_new(size);
    aclrtEvent gate = stream_hold(stream);

    fill_pattern(host, size, 0);
    for (int i = 0; i < 50; i++) {
        to_device_async(a, host, size, stream);
        OK(aclrtMemsetAsync(a, size, i, 1, stream));
        OK(aclrtMemcpyAsync(b, size, a, size, ACL_MEMCPY_DEVICE_TO_DEVICE, stream));
        OK(aclrtMemsetAsync(a, size, 0xff, size, stream));
        to_host_async(host, b, size, stream);
    }
    ck_assert(!idle(stream));
    stream_let_go(gate);
    await(stream);
    ck_assert_int_eq(host[0], 49);
    host[0] = 0;
    ck_assert(holds_pattern(host, size, 0));
}
END_TEST

/* One copy that cannot begin does not hold those of other streams. */
START_TEST(streams_do_not_wait_for_each_other)
{
    char *host = pinned_new(MIB), *a = device_new(MIB), *b = device_new(MIB);
    aclrtEvent gate = stream_hold(stream);

    fill_pattern(host, MIB, 1);
    to_device_async(a, host, MIB, stream);
    for (int i = 0; i < 20; i++)
        to_device_async(b, host, MIB, other);
    await(other);
    ck_assert(holds_pattern(device_bytes(b, MIB), MIB, 1));
    ck_assert(!idle(stream));
    stream_let_go(gate);
    await(stream);
    ck_assert(holds_pattern(device_bytes(a, MIB), MIB, 1));
}
END_TEST

START_TEST(places_and_kinds)
{
    char *p = pinned_new(MIB), *q = pinned_new(PAGE), *device = device_new(MIB);
    char plain[64] = "plain";

    FAILS(NO, aclrtMemcpyAsync(q, PAGE, p, PAGE, ACL_MEMCPY_HOST_TO_HOST, stream));
    FAILS(NO, aclrtMemcpyAsync(q, PAGE, p, PAGE, ACL_MEMCPY_DEFAULT, stream));
    FAILS(NO, aclrtMemcpyAsync(p, PAGE, plain, 64, ACL_MEMCPY_HOST_TO_HOST, stream));
    FAILS(PARAM, aclrtMemcpyAsync(p, PAGE, plain, 64, ACL_MEMCPY_DEVICE_TO_HOST, stream));
    FAILS(PARAM, aclrtMemcpyAsync(p, PAGE, device, 64, ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE, stream));
    /* a wrong kind of two known places is put right */
    fill_pattern(p, MIB, 3);
    OK(aclrtMemcpyAsync(device, MIB, p, MIB, ACL_MEMCPY_DEVICE_TO_HOST, stream));
    OK(aclrtMemcpyAsync(q, PAGE, device, PAGE, ACL_MEMCPY_DEFAULT, stream));
    await(stream);
    ck_assert(holds_pattern(q, PAGE, 3));
    OK(aclrtMemcpy(p, MIB, q, PAGE, ACL_MEMCPY_HOST_TO_HOST));
    OK(aclrtMemset(p, MIB, 9, MIB));
    OK(aclrtMemsetAsync(q, PAGE, 9, PAGE, stream));
    ck_assert_int_eq(memcmp(p, q, PAGE), 0);
}
END_TEST

/* --- sets --- */

static char *host_new(size_t size)
{
    void *p;

    OK(aclrtMallocHost(&p, size));
    return p;
}

static void set_async(char *p, size_t size, uint32_t word, bool words)
{
    OK(words ? aclrtMemsetD32Async(p, size, word, size / 4, stream)
             : aclrtMemsetAsync(p, size, (int32_t)word, size, stream));
}

static void expect_word(const void *at, uint32_t word)
{
    uint32_t is;

    memcpy(&is, at, sizeof(is));
    ck_assert_uint_eq(is, word);
}

static const struct {
    uint32_t flag; /* 0: aclrtHostRegister */
    bool library;  /* memory of aclrtMallocHost */
} sets_of[] = {
    {0, false},     {PINNED, false}, {MAPPED, false},         {0, true},
    {PINNED, true}, {MAPPED, true},  {PINNED | MAPPED, true}, {PINNED | READONLY, true},
};
#define SETS_OF (int)(sizeof(sets_of) / sizeof(sets_of[0]))

/* A copy before a set has the bytes from before it, one behind it has the set's. */
START_TEST(sets_are_in_order)
{
    const size_t size = 64 * KIB;
    const uint32_t flag = sets_of[_i / 2].flag, word = _i % 2 ? 0x01020304 : 0x55555555;
    char *p = sets_of[_i / 2].library ? host_new(size) : pages_new(size);
    char *before = device_new(size), *after = device_new(size);
    aclrtEvent gate;

    if (flag == 0)
        map_registered(p, size);
    else
        OK(aclrtHostRegisterV2(p, size, flag));
    memset(p, 1, size);
    gate = stream_hold(stream);
    to_device_async(before, p, size, stream);
    set_async(p, size, word, _i % 2);
    to_device_async(after, p, size, stream);
    engine_turn(other);
    ck_assert(!idle(stream));
    expect_word(p, 0x01010101);
    stream_let_go(gate);
    await(stream);
    expect_word(p, word);
    expect_word(p + size - 4, word);
    expect_word(device_bytes(before, size), 0x01010101);
    expect_word(device_bytes(after, size), word);
}
END_TEST

/* Of aclrtMallocHost, and not registered, or not all of it, or not any more. */
START_TEST(sets_of_other_host_memory_are_at_once)
{
    char *p = host_new(2 * PAGE);
    aclrtEvent gate;

    if (_i / 2 != 0)
        OK(aclrtHostRegisterV2(p, PAGE, PINNED));
    if (_i / 2 == 2)
        OK(aclrtHostUnregister(p));
    memset(p, 1, 2 * PAGE);
    gate = stream_hold(stream);
    set_async(p, 2 * PAGE, 0x02020202, _i % 2);
    expect_word(p, 0x02020202);
    stream_let_go(gate);
    await(stream);
}
END_TEST

START_TEST(source_taken_at_the_call)
{
    char *p = pinned_new(MIB), *device = device_new(MIB);
    aclrtEvent gate = stream_hold(stream);

    fill_pattern(p, MIB, 3);
    OK(aclrtMemcpyAsync(device, MIB, p, MIB, ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE, stream));
    memset(p, 0, MIB);
    stream_let_go(gate);
    await(stream);
    ck_assert(holds_pattern(device_bytes(device, MIB), MIB, 3));
}
END_TEST

START_TEST(a_copy_beyond_the_range_is_pageable)
{
    char *p = pages_new(MIB), *device = device_new(MIB);

    OK(aclrtHostRegisterV2(p + PAGE, 2 * PAGE, PINNED));
    fill_pattern(p, MIB, 3);
    to_device_async(device, p + PAGE, MIB - PAGE, stream); /* has waited when it returns */
    ck_assert_int_eq(memcmp(device_bytes(device, MIB), p + PAGE, MIB - PAGE), 0);
    to_device_async(device, p, 3 * PAGE, stream);
    ck_assert(holds_pattern(device_bytes(device, 3 * PAGE), 3 * PAGE, 3));
}
END_TEST

START_TEST(a_copy_lets_a_value_wait_go)
{
    uint64_t *host = (uint64_t *)(void *)pinned_new(MIB);
    uint64_t *word = (uint64_t *)(void *)device_new(MIB);
    const size_t size = _i ? MIB : 8;

    host[0] = 7;
    OK(aclrtValueWait(word, 7, ACL_STREAM_WAIT_VALUE_EQ, other));
    engine_turn(NULL);
    ck_assert(!idle(other));
    to_device_async(word, host, size, stream);
    await(other);
}
END_TEST

/* --- copies beside callbacks --- */

struct note {
    char *device, *host;
    _Atomic int ran;
    int seen;
};

static void note_device(void *arg)
{
    struct note *n = arg;

    OK(aclrtSetCurrentContext(home));
    n->seen = device_byte(n->device);
    n->host[0]++;
    atomic_fetch_add(&n->ran, 1);
}

START_TEST(copies_and_host_functions_are_in_order)
{
    char *host = pinned_new(MIB), *device = device_new(MIB);
    struct note first = {.device = device, .host = host}, second = first;

    host[0] = 40;
    OK(aclrtLaunchHostFunc(stream, note_device, &first));
    to_device_async(device, host, MIB, stream);
    OK(aclrtLaunchHostFunc(stream, note_device, &second));
    to_host_async(host, device, MIB, stream);
    await(stream);
    ck_assert_int_eq(first.seen, 0);
    ck_assert_int_eq(second.seen, 41);
    ck_assert_int_eq(host[0], 41);
}
END_TEST

/* The thread that is to run it looks later: the copy behind it does not wait for that. */
START_TEST(a_copy_overtakes_callbacks_that_do_not_block)
{
    char *host = pinned_new(MIB), *device = device_new(MIB), *hosts = pages_new(PAGE);
    struct note late = {.device = device, .host = hosts}, block = late;

    OK(aclrtSubscribeReport((uint64_t)pthread_self(), stream));
    fill_pattern(host, MIB, 6);
    OK(aclrtLaunchCallback(note_device, &late, ACL_CALLBACK_NO_BLOCK, stream));
    to_device_async(device, host, MIB, stream);
    OK(aclrtMemsetAsync(device, MIB, 3, 1, stream));
    await(stream);
    ck_assert_int_eq(late.ran, 0);
    OK(aclrtLaunchCallback(note_device, &block, ACL_CALLBACK_BLOCK, stream));
    to_device_async(device, host, MIB, stream);
    engine_turn(other);
    ck_assert(!idle(stream));
    while (block.ran == 0)
        OK(aclrtProcessReport(LIMIT_MS));
    await(stream);
    ck_assert_int_eq(late.seen, 3);
    ck_assert_int_eq(block.seen, 3);
    ck_assert(holds_pattern(device_bytes(device, MIB), MIB, 6));
    OK(aclrtUnSubscribeReport((uint64_t)pthread_self(), stream));
}
END_TEST

/* Callbacks before and behind it are dropped with their subscription, and the copy is not. */
START_TEST(a_copy_outlives_a_subscription)
{
    char *host = pinned_new(MIB), *device = device_new(MIB), *hosts = pages_new(PAGE);
    struct note note = {.device = device, .host = hosts};
    aclrtEvent gate = stream_hold(stream);

    fill_pattern(host, MIB, 6);
    OK(aclrtSubscribeReport((uint64_t)pthread_self(), stream));
    OK(aclrtLaunchCallback(note_device, &note, ACL_CALLBACK_BLOCK, stream));
    to_device_async(device, host, MIB, stream);
    OK(aclrtLaunchCallback(note_device, &note, ACL_CALLBACK_BLOCK, stream));
    to_device_async(device, host + 0, MIB / 2, stream);
    OK(aclrtUnSubscribeReport((uint64_t)pthread_self(), stream));
    stream_let_go(gate);
    await(stream);
    ck_assert_int_eq(note.ran, 0);
    ck_assert(holds_pattern(device_bytes(device, MIB), MIB, 6));
}
END_TEST

/* --- copies that are not made --- */

START_TEST(discarded_copies_are_not_made)
{
    char *host = pinned_new(MIB), *device = device_new(MIB);

    fill_pattern(host, MIB, 6);
    stream_hold(stream);
    for (int i = 0; i < 3; i++)
        to_device_async(device, host, MIB, stream);
    stream_end(_i, &stream);
    OK(aclrtHostUnregister(host));
    munmap(host, MIB);
    ck_assert_int_eq(device_byte(device + 1), 0);
    host = pinned_new(MIB);
    fill_pattern(host, MIB, 8);
    to_device_async(device, host, MIB, stream);
    await(stream);
    ck_assert(holds_pattern(device_bytes(device, MIB), MIB, 8));
}
END_TEST

/* At any moment of a copy: it is over when the call returns, or not made. */
START_TEST(discarded_in_the_middle_of_a_copy)
{
    const size_t size = 16 * MIB;
    char *device = device_new(size);

    for (int i = 0; i < 20; i++) {
        char *host = pinned_new(size);

        to_device_async(device, host, size, stream);
        to_device_async(device, host, size, stream);
        stream_end(_i, &stream);
        OK(aclrtHostUnregister(host));
        munmap(host, size);
    }
    engine_turn(stream);
}
END_TEST

/* After a while of up to some 10 us. */
static int32_t refuse_abort(int32_t device, aclrtDeviceTaskAbortStage stage, uint32_t timeout,
                            void *arg)
{
    const int *turns = arg;

    (void)device;
    (void)stage;
    (void)timeout;
    for (volatile int i = 0; i < *turns; i++)
        ;
    return ACL_ERROR_RT_INTERNAL_ERROR;
}

/*
 * Those that wait for the device have been let go by then, and begin again. Of 10 that are large
 * (0), also what they copy; of many small ones (1), at different moments of the copy.
 */
START_TEST(a_refused_abort_leaves_copies)
{
    const size_t size = _i == 0 ? 16 * MIB : 200 * KIB;
    char *host = pinned_new(size), *device = device_new(size);
    int turns = 0;

    OK(aclrtSetDeviceTaskAbortCallback("refuse", refuse_abort, &turns));
    for (int i = 0; i < (_i == 0 ? 10 : 5000); i++) {
        if (_i == 0)
            fill_pattern(host, size, i);
        to_device_async(device, host, size, stream);
        turns = i * 7 % 8000;
        for (volatile int k = 0; k < i * 37 % 60000; k++)
            ;
        ck_assert_int_eq(aclrtDeviceTaskAbort(0, 0), ACL_ERROR_RT_INTERNAL_ERROR);
        await(stream);
        if (_i == 0)
            ck_assert(holds_pattern(device_bytes(device, size), size, i));
    }
    OK(aclrtSetDeviceTaskAbortCallback("refuse", NULL, NULL));
}
END_TEST

START_TEST(a_stopped_stream_makes_none)
{
    char *host = pinned_new(MIB), *device = device_new(MIB);
    aclrtContext context;
    aclrtStream s;

    OK(aclrtCreateContext(&context, 0));
    OK(aclrtSetStreamFailureMode(NULL, ACL_STOP_ON_FAILURE));
    OK(aclrtCreateStream(&s));
    host[0] = 1;
    OK(aclnpudLaunchDelay(1000000, ACL_ERROR_RT_AICORE_EXCEPTION, s));
    to_device_async(device, host, MIB, s);
    FAILS(ACL_ERROR_RT_AICORE_EXCEPTION, aclrtSynchronizeStreamWithTimeout(s, LIMIT_MS));
    ck_assert_int_eq(device_byte(device), 0);
    aclrtDestroyContext(context);
    OK(aclrtSetCurrentContext(home));
    ck_assert_int_eq(device_byte(device), 0);
}
END_TEST

START_TEST(freed_before_its_turn)
{
    char *host = pinned_new(MIB), *device = device_new(MIB);
    aclrtEvent gate = stream_hold(stream);

    to_device_async(device, host, MIB, stream);
    OK(aclrtFree(device));
    stream_let_go(gate);
    FAILS(ACL_ERROR_RT_SYS_DMA, aclrtSynchronizeStreamWithTimeout(stream, LIMIT_MS));
    OK(aclrtHostUnregister(host));
    host = pinned_new(MIB);
    device = device_new(MIB);
    gate = stream_hold(stream);
    fill_pattern(host, MIB, 2);
    to_device_async(device, host, MIB, stream);
    OK(aclrtHostUnregister(host)); /* does not wait, and the memory is there */
    stream_let_go(gate);
    await(stream);
    ck_assert(holds_pattern(device_bytes(device, MIB), MIB, 2));
}
END_TEST

START_TEST(npud_dies_with_copies_queued)
{
    const size_t size = 64 * MIB;
    char *host = pinned_new(size), *device = device_new(size);

    if (_i)
        stream_hold(stream);
    to_device_async(device, host, size, stream);
    to_device_async(device, host, size, stream);
    npud_kill();
    ck_assert_int_ne(aclrtSynchronizeStreamWithTimeout(stream, LIMIT_MS), 0);
    OK(aclrtHostUnregister(host));
    munmap(host, size); /* none is being made */
    FAILS(ACL_ERROR_RT_SOCKET_CLOSE, aclrtDestroyStreamForce(stream));
}
END_TEST

/* The next npud wakes the library's thread again. */
START_TEST(npud_comes_back_with_copies_queued)
{
    char *device = device_new(MIB), *mapped = pages_new(MIB);
    aclrtEvent gate = stream_hold(stream);
    char *host[8];

    map_registered(mapped, MIB);
    for (int i = 0; i < 8; i++) {
        host[i] = pinned_new(MIB);
        fill_pattern(host[i], MIB, (unsigned)i);
        to_device_async(device, host[i], MIB, stream);
    }
    to_host_async(mapped, device, MIB, stream);
    npud_kill_server();
    stream_let_go(gate);
    npud_kill_server();
    await(stream);
    ck_assert(holds_pattern(mapped, MIB, 7));
    OK(aclrtHostUnregister(mapped));
    ck_assert(holds_pattern(mapped, MIB, 7));
}
END_TEST

/* --- memory stays what it was --- */

static const size_t sizes[] = {1, PAGE - 1, PAGE, PAGE + 1, 100 * KIB + 7, 3 * MIB};

/* npud has nothing to do with it. */
START_TEST(contents_are_kept)
{
    const size_t size = sizes[_i];
    size_t pages = (size + PAGE - 1) / PAGE * PAGE;
    char *p = pages_new(pages), *device = device_new(size);
    uint64_t before = npud_ledger().memory;

    fill_pattern(p, pages, 4);
    ck_assert_ptr_eq(map_registered(p, size), p);
    ck_assert_uint_eq(npud_ledger().memory, before);
    expect_host(p + size - 1);
    ck_assert(holds_pattern(p, pages, 4));
    to_device_async(device, p, size, stream);
    await(stream);
    ck_assert(holds_pattern(device_bytes(device, size), size, 4));
    OK(aclrtMemsetAsync(device, size, 1, size, stream));
    to_host_async(p, device, size, stream);
    await(stream);
    for (size_t i = 0; i < size; i++)
        ck_assert_int_eq(p[i], 1);
    p[0] = 2;
    OK(aclrtHostUnregister(p));
    expect_plain(p);
    ck_assert_int_eq(p[0], 2);
    for (size_t i = 1; i < size; i++)
        ck_assert_int_eq(p[i], 1);
    OK(aclrtFree(device));
}
END_TEST

/* Other objects of the heap are on the last page, and the allocator's own words. */
START_TEST(memory_of_a_heap)
{
    char *p[8], *device = device_new(PAGE);

    for (int i = 0; i < 8; i++) {
        ck_assert_int_eq(posix_memalign((void **)&p[i], PAGE, PAGE + 200), 0);
        fill_pattern(p[i], PAGE + 200, (unsigned)i);
        OK(aclrtHostRegisterV2(p[i], PAGE + 200, MAPPED | PINNED));
    }
    for (int i = 0; i < 8; i++) {
        ck_assert(holds_pattern(p[i], PAGE + 200, (unsigned)i));
        to_device_async(device, p[i], PAGE, stream);
        await(stream);
        ck_assert(holds_pattern(device_bytes(device, PAGE), PAGE, (unsigned)i));
        OK(aclrtHostUnregister(p[i]));
        ck_assert(holds_pattern(p[i], PAGE + 200, (unsigned)i));
        free(p[i]);
    }
}
END_TEST

static char global[2 * PAGE] __attribute__((aligned(PAGE)));

START_TEST(memory_of_several_mappings)
{
    char *p = pages_new(6 * PAGE);

    fill_pattern(p, 6 * PAGE, 7);
    madvise(p + PAGE, PAGE, MADV_DONTDUMP);
    madvise(p + 3 * PAGE, PAGE, MADV_DONTDUMP);
    OK(aclrtHostRegisterV2(p, 5 * PAGE, MAPPED));
    ck_assert(holds_pattern(p, 6 * PAGE, 7));
    OK(aclrtHostUnregister(p));
    ck_assert(holds_pattern(p, 6 * PAGE, 7));
    fill_pattern(global, sizeof(global), 8);
    OK(aclrtHostRegisterV2(global, sizeof(global), MAPPED));
    ck_assert(holds_pattern(global, sizeof(global), 8));
    OK(aclrtHostUnregister(global));
    ck_assert(holds_pattern(global, sizeof(global), 8));
}
END_TEST

/* Of each kind, on the one page after the first: it is copied to and from as any other. */
static void make_kind(int kind, char *page, int fd)
{
    switch (kind) {
    case 0: /* private */
        break;
    case 1:
        page_over(page, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1);
        break;
    case 2:
        page_over(page, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd);
        break;
    case 3:
        page_over(page, PROT_READ | PROT_WRITE, MAP_SHARED, fd);
        break;
    }
}

enum { KINDS_OF_MEMORY = 4 };

START_TEST(any_memory_may_be_registered)
{
    const int kind = _i / 2;
    const uint32_t flag = _i % 2 ? MAPPED : PINNED;
    char *p = pages_new(3 * PAGE), *device = device_new(3 * PAGE);
    int fd = memfd_create("file", MFD_CLOEXEC);
    char in_file[PAGE];

    ck_assert_int_eq(ftruncate(fd, PAGE), 0);
    make_kind(kind, p + PAGE, fd);
    fill_pattern(p, 3 * PAGE, 3);
    OK(aclrtHostRegisterV2(p, 3 * PAGE, flag));
    expect_host(p + PAGE);
    ck_assert(holds_pattern(p, 3 * PAGE, 3));
    to_device_async(device, p, 3 * PAGE, stream);
    await(stream);
    ck_assert(holds_pattern(device_bytes(device, 3 * PAGE), 3 * PAGE, 3));
    device_fill_pattern(device, 3 * PAGE, 4);
    to_host_async(p, device, 3 * PAGE, stream);
    await(stream);
    ck_assert(holds_pattern(p, 3 * PAGE, 4));
    if (kind == 3) {
        ck_assert_int_eq(pread(fd, in_file, PAGE, 0), PAGE);
        ck_assert_int_eq(memcmp(in_file, p + PAGE, PAGE), 0);
    }
    OK(aclrtHostUnregister(p));
    ck_assert(holds_pattern(p, 3 * PAGE, 4));
    close(fd);
}
END_TEST

/* Copies from it are all that the program asks for. */
START_TEST(memory_that_cannot_be_written)
{
    char *p = pages_new(PAGE), *device = device_new(PAGE);

    fill_pattern(p, PAGE, 3);
    ck_assert_int_eq(mprotect(p, PAGE, PROT_READ), 0);
    OK(aclrtHostRegisterV2(p, PAGE, MAPPED | READONLY));
    to_device_async(device, p, PAGE, stream);
    await(stream);
    ck_assert(holds_pattern(device_bytes(device, PAGE), PAGE, 3));
    OK(aclrtHostUnregister(p));
}
END_TEST

START_TEST(what_is_not_mapped_or_aligned)
{
    char *p = pages_new(2 * PAGE);

    munmap(p + PAGE, PAGE);
    FAILS(PARAM, aclrtHostRegisterV2(p + 1, PAGE - 1, MAPPED));
    FAILS(PARAM, aclrtHostRegisterV2(p + 2048, 1, MAPPED));
    FAILS(PARAM, aclrtHostRegisterV2(p, 2 * PAGE, MAPPED));
    FAILS(PARAM, aclrtHostRegisterV2(p, 2 * PAGE, PINNED));
    OK(aclrtHostRegisterV2(p + 1, PAGE - 1, PINNED));
}
END_TEST

/* A thread runs on it, and counts there: nothing happens to the thread. */
struct counter {
    _Atomic bool over;
    _Atomic uint64_t counted;
};

static void *count_on_own_stack(void *arg)
{
    struct counter *c = arg;
    volatile uint64_t here = 0;

    while (!atomic_load(&c->over)) {
        here++;
        atomic_store(&c->counted, here);
        sched_yield();
    }
    return NULL;
}

struct join {
    pthread_t thread;
    _Atomic pid_t tid; /* of the thread that joins it */
    _Atomic bool over;
};

static void *join_thread(void *arg)
{
    struct join *j = arg;

    atomic_store(&j->tid, gettid());
    pthread_join(j->thread, NULL);
    atomic_store(&j->over, true);
    return NULL;
}

#define STACK (256 * KIB)

START_TEST(a_thread_whose_stack_it_is)
{
    char *p = pages_new(STACK), *device = device_new(STACK);
    struct counter c = {false, 0};
    struct join join = {.over = false};
    pthread_attr_t attr;
    pthread_t thread, joiner;
    uint64_t before;

    ck_assert_int_eq(pthread_attr_init(&attr), 0);
    ck_assert_int_eq(pthread_attr_setstack(&attr, p, STACK), 0);
    ck_assert_int_eq(pthread_create(&thread, &attr, count_on_own_stack, &c), 0);
    join.thread = thread;
    for (int i = 0; i < 20; i++) {
        OK(aclrtHostRegisterV2(p, STACK, i % 2 ? MAPPED : PINNED));
        to_device_async(device, p, PAGE, stream); /* not of its frames: sanitizers look there */
        await(stream);
        before = atomic_load(&c.counted);
        EVENTUALLY(atomic_load(&c.counted) > before, "the thread stands still");
        OK(aclrtHostUnregister(p));
    }
    /* The kernel wakes who joins it by a word on that stack, which has to be what it was. */
    ck_assert_int_eq(pthread_create(&joiner, NULL, join_thread, &join), 0);
    EVENTUALLY(atomic_load(&join.tid) != 0 && proc_thread_state(getpid(), join.tid) == 'S',
               "the joining thread does not sleep");
    OK(aclrtHostRegisterV2(p, STACK, MAPPED));
    atomic_store(&c.over, true);
    EVENTUALLY(atomic_load(&join.over), "the thread is not joined");
    pthread_join(joiner, NULL);
    OK(aclrtHostUnregister(p));
    pthread_attr_destroy(&attr);
}
END_TEST

/* --- reads of the kernel, and of devices past its cache, while it is registered --- */

#define BLOCK (64 * KIB)

struct reader {
    int fd;
    char *p;
    _Atomic bool over;
    unsigned reads, lost;
};

static void *read_blocks(void *arg)
{
    struct reader *r = arg;

    while (!atomic_load(&r->over)) {
        unsigned block = r->reads++ % 4;

        ck_assert_int_eq(pread(r->fd, r->p, BLOCK, block * (off_t)BLOCK), (ssize_t)BLOCK);
        r->lost += !holds_pattern(r->p, BLOCK, block + 1);
    }
    return NULL;
}

/* A file that is read past the cache where the file system can: the device writes to the pages. */
static int file_of_blocks(void)
{
    char path[] = "/tmp/npud-blocks-XXXXXX", *block = pages_new(BLOCK);
    int fd = mkstemp(path), direct;

    ck_assert_int_ge(fd, 0);
    for (unsigned i = 0; i < 4; i++) {
        fill_pattern(block, BLOCK, i + 1);
        ck_assert_int_eq(write(fd, block, BLOCK), (ssize_t)BLOCK);
    }
    ck_assert_int_eq(fsync(fd), 0);
    direct = open(path, O_RDONLY | O_CLOEXEC | O_DIRECT);
    unlink(path);
    if (direct < 0 || pread(direct, block, BLOCK, 0) != (ssize_t)BLOCK)
        return fd;
    close(fd);
    return direct;
}

START_TEST(reads_see_the_right_bytes)
{
    struct reader r = {.fd = file_of_blocks(), .p = pages_new(BLOCK)};
    pthread_t thread;

    ck_assert_int_eq(pthread_create(&thread, NULL, read_blocks, &r), 0);
    for (int i = 0; i < 500; i++) {
        OK(aclrtHostRegisterV2(r.p, BLOCK, i % 4 ? MAPPED : PINNED));
        OK(aclrtHostUnregister(r.p));
    }
    atomic_store(&r.over, true);
    pthread_join(thread, NULL);
    ck_assert_uint_eq(r.lost, 0);
    close(r.fd);
}
END_TEST

/* In the order of the stream. */
START_TEST(mapped_copies_are_queued)
{
    char *host = pages_new(MIB), *device = device_new(MIB);
    aclrtEvent gate = stream_hold(stream);

    map_registered(host, MIB);
    to_device_async(device + 10, host + 10, MIB - 10, stream);
    to_host_async(host, device, MIB / 2, stream);
    fill_pattern(host, MIB, 5);
    OK(aclrtMemset(device + 9, 1, 77, 1));
    stream_let_go(gate);
    await(stream);
    ck_assert_int_eq(host[9], 77);
    ck_assert_int_eq(memcmp(device_bytes(device, MIB), host, MIB), 0);
    FAILS(NO, aclrtMemcpyAsync(host, 8, host + 8, 8, ACL_MEMCPY_DEFAULT, stream));
}
END_TEST

/* --- threads --- */

#define WRITERS 3
#define ROUNDS  40

/* Ranges side by side, each of its own thread, and copies under way. */
static void *register_and_copy(void *arg)
{
    char *p = arg, *device;
    aclrtStream s;

    OK(aclrtSetDevice(0));
    OK(aclrtCreateStream(&s));
    device = device_new(8 * PAGE);
    for (int i = 0; i < ROUNDS; i++) {
        fill_pattern(p, 8 * PAGE, (unsigned)i);
        OK(aclrtHostRegisterV2(p, 8 * PAGE, i % 2 ? MAPPED : PINNED));
        to_device_async(device, p, 8 * PAGE, s);
        to_host_async(p, device + PAGE, 7 * PAGE, s);
        await(s);
        ck_assert(holds_pattern(device_bytes(device, 8 * PAGE), 8 * PAGE, (unsigned)i));
        OK(aclrtHostUnregister(p));
        ck_assert_int_eq(memcmp(p, device_bytes(device + PAGE, 7 * PAGE), 7 * PAGE), 0);
    }
    OK(aclrtDestroyStream(s));
    return NULL;
}

START_TEST(threads_register_side_by_side)
{
    char *p = pages_new(WRITERS * 8 * PAGE);
    pthread_t threads[WRITERS];

    for (size_t i = 0; i < WRITERS; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, register_and_copy, p + i * 8 * PAGE), 0);
    for (size_t i = 0; i < WRITERS; i++)
        pthread_join(threads[i], NULL);
}
END_TEST

/* Of threads that register the same range, one has it at any time. */
static void *register_the_same(void *arg)
{
    int done = 0;

    OK(aclrtSetDevice(0));
    while (done < ROUNDS) {
        aclError error = aclrtHostRegisterV2(arg, 8 * PAGE, done % 2 ? MAPPED : PINNED);

        ck_assert_msg(error == 0 || error == REGISTERED, "%d", error);
        if (error != 0)
            continue;
        OK(aclrtHostUnregister(arg));
        done++;
    }
    return NULL;
}

START_TEST(threads_register_the_same_range)
{
    char *p = pages_new(8 * PAGE);
    pthread_t threads[WRITERS];

    fill_pattern(p, 8 * PAGE, 1);
    for (size_t i = 0; i < WRITERS; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, register_the_same, p), 0);
    for (size_t i = 0; i < WRITERS; i++)
        pthread_join(threads[i], NULL);
    ck_assert(holds_pattern(p, 8 * PAGE, 1));
    expect_plain(p);
}
END_TEST

/* --- fork --- */

START_TEST(a_child_has_a_copy)
{
    char *p = pages_new(MIB), *device = device_new(MIB);
    pid_t pid;

    fill_pattern(p, MIB, 1);
    OK(aclrtHostRegisterV2(p, MIB, _i % 2 ? MAPPED : PINNED));
    turns_init();
    pid = _i / 2 ? _Fork() : fork_when_quiet(); /* without handlers, or with them */
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        turn_await(&to_child);
        if (!holds_pattern(p, MIB, 1))
            _exit(1);
        fill_pattern(p, MIB, 9);
        turn_tell(&to_parent);
        turn_await(&to_child);
        _exit(holds_pattern(p, MIB, 9) ? 0 : 2);
    }
    fill_pattern(p, MIB / 2, 2);
    to_host_async(p + MIB / 2, device, MIB / 2, stream);
    await(stream);
    turn_tell(&to_child);
    turn_await(&to_parent);
    ck_assert(holds_pattern(p, MIB / 2, 2));
    to_host_async(p, device, MIB, stream);
    await(stream);
    turn_tell(&to_child);
    child_expect_ok(pid);
    ck_assert_int_eq(p[MIB - 1], 0);
    OK(aclrtHostUnregister(p));
}
END_TEST

/* As ordinary memory: the child may fork, and use the library, by itself. */
START_TEST(a_child_of_a_child)
{
    char *p = pages_new(MIB);
    pid_t pid, next;

    fill_pattern(p, MIB, 1);
    map_registered(p, MIB);
    pid = fork_when_quiet();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        fill_pattern(p, MIB, 2);
        next = fork();
        if (next == 0)
            _exit(holds_pattern(p, MIB, 2) ? 0 : 1);
        OK(aclInit(NULL));
        OK(aclrtSetDevice(0));
        FAILS(NO_START, aclrtHostUnregister(p));
        map_registered(p, MIB);
        OK(aclrtHostUnregister(p));
        OK(aclrtResetDevice(0));
        OK(aclFinalize());
        child_expect_ok(next);
        _exit(holds_pattern(p, MIB, 2) ? 0 : 1);
    }
    child_expect_ok(pid);
    ck_assert(holds_pattern(p, MIB, 1));
}
END_TEST

/* --- many ranges --- */

/*
 * From now on a call of the kernel ends the process which a walk of the process's mappings, or a
 * change of them, would make; also in a child.
 */
static void forbid_walks(void)
{
    static const int calls[] = {SYS_openat, SYS_userfaultfd, SYS_mremap, SYS_pipe2, SYS_ioctl};
    enum { N = sizeof(calls) / sizeof(calls[0]) };
    struct sock_filter filter[N + 3] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
    };
    struct sock_fprog program = {.len = N + 3, .filter = filter};

    for (unsigned char i = 0; i < N; i++)
        filter[1 + i] =
            (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)calls[i], N - i, 0);
    filter[N + 1] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    filter[N + 2] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
    ck_assert_int_eq(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
    ck_assert_int_eq(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program), 0);
}

#define RANGES 1000

static int register_and_fork(void *arg)
{
    const uint32_t flag = *(const uint32_t *)arg;
    char *p = pages_new(RANGES * 2 * PAGE);
    pid_t pid;

    OK(aclInit(NULL));
    OK(aclrtSetDevice(0));
    OK(aclrtHostRegisterV2(p, PAGE, flag));
    forbid_walks();
    for (size_t i = 1; i < RANGES; i++)
        OK(aclrtHostRegisterV2(p + i * 2 * PAGE, PAGE, flag));
    fill_pattern(p, PAGE, 1);
    for (int i = 0; i < 3; i++) {
        pid = fork();
        ck_assert_int_ge(pid, 0);
        if (pid == 0)
            _exit(holds_pattern(p, PAGE, 1) ? 0 : 1);
        child_expect_ok(pid);
    }
    for (size_t i = 0; i < RANGES; i++)
        OK(aclrtHostUnregister(p + i * 2 * PAGE));
    return 0;
}

/*
 * Neither a range nor a fork asks the kernel what is where. In a child, which ends without asking
 * it either: the search for leaks would.
 */
START_TEST(many_ranges_and_fork)
{
    uint32_t flag = _i ? MAPPED : PINNED;

    child_expect_ok(child_start(register_and_fork, &flag));
}
END_TEST

/* --- what ends --- */

/* Is the memory private? A child's writes tell. */
static void expect_private(char *p)
{
    pid_t pid;

    p[0] = 1;
    pid = fork_when_quiet();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        p[0] = 2;
        _exit(0);
    }
    child_expect_ok(pid);
    ck_assert_int_eq(p[0], 1);
}

START_TEST(a_reset_leaves_it)
{
    char *p = pages_new(MIB), *q = pages_new(MIB), *device;

    fill_pattern(p, MIB, 1);
    map_registered(p, MIB);
    OK(aclrtHostRegisterV2(q, MIB, PINNED));
    OK(aclrtResetDeviceForce(0));
    ck_assert(holds_pattern(p, MIB, 1));
    expect_host(p);
    expect_host(q);
    OK(aclrtSetDevice(0));
    device = device_new(MIB);
    to_device_async(device, p, MIB, NULL);
    to_host_async(q, device, MIB, NULL);
    await(NULL);
    ck_assert(holds_pattern(q, MIB, 1));
}
END_TEST

START_TEST(finalize_ends_it)
{
    char *p = pages_new(MIB), *q = pages_new(MIB);

    fill_pattern(p, MIB, 1);
    map_registered(p, MIB);
    OK(aclrtHostRegisterV2(q, MIB, PINNED));
    OK(aclrtResetDeviceForce(0));
    OK(aclFinalize());
    ck_assert(holds_pattern(p, MIB, 1));
    expect_plain(p);
    FAILS(NO_START, aclrtHostUnregister(p));
    npud_expect_empty();
    expect_private(p);
    fill_pattern(p, MIB, 2);
    OK(aclInit(NULL));
    OK(aclrtSetDevice(0));
    map_registered(p, MIB);
    map_registered(q, MIB);
    ck_assert(holds_pattern(p, MIB, 2));
}
END_TEST

START_TEST(a_lost_npud_leaves_the_contents)
{
    char *p = pages_new(MIB), *q = pages_new(MIB);

    fill_pattern(p, MIB, 1);
    fill_pattern(q, MIB, 2);
    map_registered(p, MIB);
    map_registered(q, MIB);
    npud_kill();
    EVENTUALLY(aclrtSynchronizeStream(stream) == ACL_ERROR_RT_SOCKET_CLOSE, "npud is not missed");
    ck_assert(holds_pattern(p, MIB, 1));
    fill_pattern(p, MIB, 3);
    OK(aclrtHostUnregister(p));
    FAILS(ACL_ERROR_RT_SOCKET_CLOSE, aclrtHostUnregister(p)); /* there is none any more */
    ck_assert(holds_pattern(p, MIB, 3));
    OK(aclFinalize());
    npud_start(NULL);
    OK(aclInit(NULL));
    OK(aclrtSetDevice(0));
    expect_plain(q);
    ck_assert(holds_pattern(q, MIB, 2));
    map_registered(p, MIB);
    map_registered(q, MIB);
    ck_assert(holds_pattern(q, MIB, 2));
    OK(aclrtResetDevice(0));
    OK(aclFinalize());
    expect_private(p);
    expect_private(q);
}
END_TEST

/* A program that has freed a range, or part of it, without a word keeps what is there now. */
START_TEST(freed_without_unregistering)
{
    char *p = pages_new(4 * PAGE), *q = pages_new(4 * PAGE), *gone = pages_new(PAGE);

    fill_pattern(p, 4 * PAGE, 1);
    map_registered(p, 4 * PAGE);
    map_registered(q, 4 * PAGE);
    map_registered(gone, PAGE);
    munmap(gone, PAGE);
    munmap(p + PAGE, PAGE);
    page_over(p + 2 * PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1);
    for (int i = 0; i < 4; i++)
        page_over(q + i * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1);
    q[0] = 5;
    if (_i) {
        OK(aclrtHostUnregister(p));
        OK(aclrtHostUnregister(q));
        OK(aclrtHostUnregister(gone));
    } else {
        OK(aclrtResetDeviceForce(0));
        OK(aclFinalize());
    }
    ck_assert(holds_pattern(p, PAGE, 1));
    ck_assert_int_eq(p[2 * PAGE], 0);
    ck_assert_int_eq(mprotect(p + PAGE, PAGE, PROT_READ), -1);
    ck_assert_int_eq(q[0], 5);
    expect_private(p);
}
END_TEST

/* --- the suite --- */

static void add_arguments(Suite *s)
{
    TCase *t = suite_case(s, "arguments", 60, set_up_test, npud_teardown);

    tcase_add_test(t, arguments_of_register);
    tcase_add_test(t, arguments_of_register_v2);
    tcase_add_test(t, registering_needs_a_context);
    tcase_add_test(t, unregistering_needs_none);
    tcase_add_test(t, device_pointer);
    tcase_add_loop_test(t, unregister_takes_a_start, 0, 2);
    tcase_add_test(t, ranges_do_not_overlap);
    tcase_add_test(t, what_the_library_gave_out);
    tcase_add_test(t, a_registration_goes_with_memory_of_the_library);
    tcase_add_test(t, a_new_allocation_is_not_registered);
    tcase_add_test(t, units_that_reach_it);
    tcase_add_loop_test(t, any_address_inside_is_host, 0, 2);
}

static void add_pinned(Suite *s)
{
    TCase *t = suite_case(s, "pinned", 120, set_up_test, npud_teardown);

    tcase_add_loop_test(t, copies_are_queued, 0, 2);
    tcase_add_test(t, copies_are_in_order);
    tcase_add_test(t, streams_do_not_wait_for_each_other);
    tcase_add_test(t, places_and_kinds);
    tcase_add_loop_test(t, sets_are_in_order, 0, 2 * SETS_OF);
    tcase_add_loop_test(t, sets_of_other_host_memory_are_at_once, 0, 6);
    tcase_add_test(t, source_taken_at_the_call);
    tcase_add_test(t, a_copy_beyond_the_range_is_pageable);
    tcase_add_loop_test(t, a_copy_lets_a_value_wait_go, 0, 2);
    tcase_add_test(t, copies_and_host_functions_are_in_order);
    tcase_add_test(t, a_copy_overtakes_callbacks_that_do_not_block);
    tcase_add_test(t, a_copy_outlives_a_subscription);
    tcase_add_loop_test(t, discarded_copies_are_not_made, 0, STREAM_ENDS);
    tcase_add_loop_test(t, discarded_in_the_middle_of_a_copy, 0, STREAM_ENDS);
    tcase_add_loop_test(t, a_refused_abort_leaves_copies, 0, 2);
    tcase_add_test(t, a_stopped_stream_makes_none);
    tcase_add_test(t, freed_before_its_turn);
    tcase_add_loop_test(t, npud_dies_with_copies_queued, 0, 2);
    t = suite_case(s, "restart", 120, set_up_restartable, npud_teardown);
    tcase_add_test(t, npud_comes_back_with_copies_queued);
}

static void add_mapped(Suite *s)
{
    const int n = sizeof(sizes) / sizeof(sizes[0]);
    TCase *t = suite_case(s, "mapped", 120, set_up_test, npud_teardown);

    tcase_add_loop_test(t, contents_are_kept, 0, n);
    tcase_add_test(t, memory_of_a_heap);
    tcase_add_test(t, memory_of_several_mappings);
    tcase_add_loop_test(t, any_memory_may_be_registered, 0, 2 * KINDS_OF_MEMORY);
    tcase_add_test(t, memory_that_cannot_be_written);
    tcase_add_test(t, what_is_not_mapped_or_aligned);
    tcase_add_test(t, a_thread_whose_stack_it_is);
    tcase_add_test(t, reads_see_the_right_bytes);
    tcase_add_test(t, mapped_copies_are_queued);
    tcase_add_test(t, threads_register_side_by_side);
    tcase_add_test(t, threads_register_the_same_range);
    t = suite_case(s, "fork", 120, set_up_test, npud_teardown);
    tcase_add_loop_test(t, a_child_has_a_copy, 0, 4);
    tcase_add_test(t, a_child_of_a_child);
    tcase_add_loop_test(t, many_ranges_and_fork, 0, 2);
    t = suite_case(s, "ends", 120, set_up_test, npud_teardown);
    tcase_add_test(t, a_reset_leaves_it);
    tcase_add_test(t, finalize_ends_it);
    tcase_add_test(t, a_lost_npud_leaves_the_contents);
    tcase_add_loop_test(t, freed_without_unregistering, 0, 2);
}

int main(void)
{
    Suite *s = suite_create("registration");

    add_arguments(s);
    add_pinned(s);
    add_mapped(s);
    return run_suite(s);
}
