/*
 * Memory: allocation and its limits, what an address is, copies and fills between all places,
 * their order on streams, and what becomes of tasks whose memory is gone.
 *
 * Skipped under TSan: the test asks one call after the other; the threads of npud and of the
 * library meet in the same ways in test_queue, the model and the soak.
 * Runs long: 3 s.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "device_bytes.h"
#include "tests/common/harness.h"
#include "tests/common/moment.h"
#include "tests/e2e/pattern.h"

/* The sanitizers need more addresses than a limit would leave. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#else
#define SANITIZED 0
#endif

#define LIMIT_MS 300000 /* against hanging */
#define KIB      ((size_t)1 << 10)
#define MIB      ((size_t)1 << 20)
#define PARAM    ACL_ERROR_RT_PARAM_INVALID
#define NO       ACL_ERROR_RT_FEATURE_NOT_SUPPORT

static aclrtStream stream, other;

static void open_device(void)
{
    streams_open(&stream, &other);
}

static void set_up_test(void)
{
    npud_setup();
    open_device();
}

/* --- helpers --- */

static void put_pattern(void *at, size_t size, unsigned seed)
{
    void *bytes = malloc(size);

    fill_pattern(bytes, size, seed);
    device_put(at, bytes, size);
    free(bytes);
}

static void *device_new(size_t size)
{
    void *p;

    OK(aclrtMalloc(&p, size, ACL_MEM_MALLOC_HUGE_FIRST));
    return p;
}

static void *pinned_new(size_t size)
{
    void *p;

    OK(aclrtMallocHost(&p, size));
    return p;
}

static aclrtPtrAttributes attributes_of(const void *p)
{
    aclrtPtrAttributes a;

    memset(&a, 0x5a, sizeof(a));
    OK(aclrtPointerGetAttributes(p, &a));
    return a;
}

static size_t query_free(void)
{
    size_t f, t;

    OK(aclrtGetMemInfo(ACL_HBM_MEM, &f, &t));
    return f;
}

/* --- allocation --- */

static aclError malloc_host(void **p, size_t size, aclrtMemMallocPolicy policy)
{
    (void)policy;
    return aclrtMallocHost(p, size);
}

static aclError malloc_with_cfg(void **p, size_t size, aclrtMemMallocPolicy policy)
{
    return aclrtMallocWithCfg(p, size, policy, NULL);
}

static aclError malloc_for_scheduler(void **p, size_t size, aclrtMemMallocPolicy policy)
{
    return aclrtMallocForTaskScheduler(p, size, policy, NULL);
}

static aclError malloc_host_with_cfg(void **p, size_t size, aclrtMemMallocPolicy policy)
{
    (void)policy;
    return aclrtMallocHostWithCfg(p, size, NULL);
}

static const struct {
    aclError (*allocate)(void **p, size_t size, aclrtMemMallocPolicy policy);
    aclError (*release)(void *p);
} allocators[] = {
    {aclrtMalloc, aclrtFree},
    {aclrtMallocAlign32, aclrtFree},
    {aclrtMallocCached, aclrtFree},
    {malloc_host, aclrtFreeHost},
    {malloc_with_cfg, aclrtFree},
    {malloc_for_scheduler, aclrtFreeWithDevSync},
    {malloc_host_with_cfg, aclrtFreeHostWithDevSync},
};

enum { ALLOCATORS = sizeof(allocators) / sizeof(allocators[0]) };

START_TEST(allocations_are_aligned_apart_and_writable)
{
    static const size_t sizes[] = {1, 31, 32, 33, 4095, 4096, 4097, 3 * MIB + 5};
    enum { N = sizeof(sizes) / sizeof(sizes[0]) };
    static unsigned char bytes[3 * MIB + 5];
    size_t before = query_free();
    void *p[N];

    for (unsigned i = 0; i < N; i++) {
        OK(allocators[_i].allocate(&p[i], sizes[i], ACL_MEM_MALLOC_HUGE_FIRST));
        ck_assert_uint_eq((uintptr_t)p[i] % 64, 0);
        fill_pattern(bytes, sizes[i], i);
        device_put(p[i], bytes, sizes[i]);
    }
    for (unsigned i = 0; i < N; i++)
        ck_assert(holds_pattern(device_bytes(p[i], sizes[i]), sizes[i], i));
    for (unsigned i = 0; i < N; i++)
        OK(allocators[_i].release(p[i]));
    ck_assert_uint_eq(query_free(), before);
    ck_assert_uint_eq(npud_ledger().memory, 0);
}
END_TEST

static void *free_elsewhere(void *p)
{
    OK(aclrtFree(p));
    return NULL;
}

/*
 * Sizes count as the API rounds them, and up to them pointers into an allocation are as good as its
 * start.
 */
START_TEST(ranges_stay_within_their_allocation)
{
    static const char says[] = "1000 bytes at offset 0 leave the allocation of 100 bytes";
    char own[1000] = {0}, *p;

    OK(allocators[_i].allocate((void **)&p, 100, ACL_MEM_MALLOC_HUGE_FIRST));
    FAILS_SAYING(PARAM, says, aclrtMemcpy(p, 1000, own, 1000, ACL_MEMCPY_DEFAULT));
    FAILS_SAYING(PARAM, says, aclrtMemcpy(own, 1000, p, 1000, ACL_MEMCPY_DEFAULT));
    FAILS_SAYING(PARAM, says, aclrtMemset(p, 1000, 0, 1000));
    OK(aclrtMemset(p, 128, 7, 128));
    FAILS(PARAM, aclrtMemset(p, 129, 7, 129));
    OK(aclrtMemcpy(p + 96, 32, own, 32, ACL_MEMCPY_DEFAULT));
    FAILS_SAYING(PARAM, "33 bytes at offset 96",
                 aclrtMemcpy(p + 96, 33, own, 33, ACL_MEMCPY_DEFAULT));
    FAILS_SAYING(PARAM, "offset 129", aclrtMemset(p + 129, 1, 0, 1));
    OK(aclrtMemcpy(own, 1000, own + 500, 500, ACL_MEMCPY_DEFAULT));
    OK(allocators[_i].release(p));
}
END_TEST

START_TEST(any_thread_may_free)
{
    pthread_t thread;
    void *p = device_new(KIB);

    ck_assert_int_eq(pthread_create(&thread, NULL, free_elsewhere, p), 0);
    pthread_join(thread, NULL);
    FAILS(PARAM, aclrtFree(p));
    ck_assert_uint_eq(npud_ledger().memory, 0);
}
END_TEST

/* In the next session there is something else at the same address. */
START_TEST(memory_of_the_session_before_is_not_remembered)
{
    void *p = device_new(KIB), *own;

    OK(aclrtMemset(p, KIB, 1, KIB));
    OK(aclrtResetDevice(0));
    OK(aclFinalize());
    own = mmap(p, KIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE,
               -1, 0);
    ck_assert_ptr_eq(own, p);
    OK(aclInit(NULL));
    OK(aclrtSetDevice(0));
    device_new(KIB);
    OK(aclrtMemsetAsync(own, KIB, 7, KIB, NULL));
    ck_assert(all_are(own, KIB, 7));
    OK(aclrtSynchronizeStream(NULL));
    munmap(own, KIB);
}
END_TEST

START_TEST(wrong_frees_change_nothing)
{
    char *p = device_new(8 * KIB), *host = pinned_new(8 * KIB), *heap = malloc(64);

    fill_pattern(host, 8 * KIB, 1);
    device_put(p, host, 8 * KIB);
    FAILS(PARAM, aclrtFree(p + 1));
    FAILS(PARAM, aclrtFree(p + 4 * KIB));
    FAILS(PARAM, aclrtFree(host));
    FAILS(PARAM, aclrtFree(heap));
    FAILS(PARAM, aclrtFree(&p));
    FAILS(PARAM, aclrtFreeHost(p));
    FAILS(PARAM, aclrtFreeHost(host + 1));
    FAILS(PARAM, aclrtFreeHost(heap));
    ck_assert(holds_pattern(device_bytes(p, 8 * KIB), 8 * KIB, 1));
    OK(aclrtFree(p));
    FAILS(PARAM, aclrtFree(p));
    OK(aclrtFreeHost(host));
    FAILS(PARAM, aclrtFreeHost(host));
    free(heap);
    ck_assert_uint_eq(npud_ledger().memory, 0);
}
END_TEST

/* --- forms of allocation --- */

#define NULL_ARG ACL_ERROR_INVALID_PARAM

static void free_any(int allocator, aclError error, void *p)
{
    if (error == 0)
        OK(allocators[allocator].release(p));
}

/* _i: an allocator. Host memory has no policy. */
START_TEST(policies)
{
    bool host = allocators[_i].release == aclrtFreeHost ||
                allocators[_i].release == aclrtFreeHostWithDevSync;

    for (int policy = -1; policy < 10; policy++) {
        bool giant =
            policy == ACL_MEM_MALLOC_HUGE1G_ONLY || policy == ACL_MEM_MALLOC_HUGE1G_ONLY_P2P;
        void *p = NULL;
        aclError error = allocators[_i].allocate(&p, 100, policy);

        ck_assert_msg(error == (giant && !host ? NO : 0), "policy %d: %d", policy, error);
        free_any(_i, error, p);
    }
    FAILS(NULL_ARG, allocators[_i].allocate(NULL, 100, 0));
    for (int policy = 0; policy < 8; policy++) { /* the size first */
        void *p;

        FAILS(NULL_ARG, allocators[_i].allocate(&p, 0, policy));
        FAILS(NULL_ARG, allocators[_i].allocate(&p, SIZE_MAX, policy));
        FAILS(NULL_ARG, allocators[_i].allocate(&p, SIZE_MAX - 63, policy));
    }
    ck_assert_uint_eq(npud_ledger().memory, 0);
}
END_TEST

START_TEST(policies_with_flags)
{
    static const int flags[] = {0, ACL_MEM_TYPE_LOW_BAND_WIDTH, ACL_MEM_TYPE_HIGH_BAND_WIDTH,
                                ACL_MEM_ACCESS_USER_SPACE_READONLY,
                                ACL_MEM_TYPE_HIGH_BAND_WIDTH | ACL_MEM_ACCESS_USER_SPACE_READONLY};
    void *p;

    for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++) {
        OK(aclrtMallocWithCfg(&p, 100, (aclrtMemMallocPolicy)(flags[i] | 2), NULL));
        OK(aclrtMemset(p, 100, 7, 100));
        OK(aclrtFree(p));
        FAILS_SAYING(NO, "1 GiB",
                     aclrtMallocWithCfg(&p, 100, (aclrtMemMallocPolicy)(flags[i] | 6), NULL));
    }
}
END_TEST

static const aclrtMallocAttribute module = {ACL_RT_MEM_ATTR_MODULE_ID, {.moduleId = 65535}},
                                  device_0 = {ACL_RT_MEM_ATTR_DEVICE_ID, {.deviceId = 0}},
                                  device_1 = {ACL_RT_MEM_ATTR_DEVICE_ID, {.deviceId = 1}},
                                  va_0 = {ACL_RT_MEM_ATTR_VA_FLAG, {.vaFlag = 0}},
                                  va_1 = {ACL_RT_MEM_ATTR_VA_FLAG, {.vaFlag = 1}},
                                  va_2 = {ACL_RT_MEM_ATTR_VA_FLAG, {.vaFlag = 2}},
                                  reserved = {ACL_RT_MEM_ATTR_RSV, {0}}, unknown = {4, {0}},
                                  negative = {-1, {0}};

/* Two attributes, and what the functions for device memory and for host memory answer. */
static const struct {
    const aclrtMallocAttribute *a, *b;
    aclError device, host;
} attributes[] = {
    {&module, NULL, 0, 0},
    {&device_0, NULL, 0, PARAM},
    {&device_1, NULL, PARAM, PARAM},
    {&device_1, &device_0, 0, PARAM}, /* the last one counts */
    {&device_0, &device_1, PARAM, PARAM},
    {&va_0, NULL, PARAM, 0},
    {&va_1, &module, PARAM, 0},
    {&va_2, NULL, PARAM, PARAM},
    {&reserved, NULL, PARAM, PARAM},
    {&module, &unknown, PARAM, PARAM},
    {&negative, NULL, PARAM, PARAM},
};

static void expect_answers(aclrtMallocConfig *cfg, aclError device, aclError host)
{
    void *p = NULL;
    aclError error = aclrtMallocWithCfg(&p, 100, 0, cfg);

    ck_assert_int_eq(error, device);
    free_any(0, error, p);
    error = aclrtMallocForTaskScheduler(&p, 100, 0, cfg);
    ck_assert_int_eq(error, device);
    free_any(0, error, p);
    error = aclrtMallocHostWithCfg(&p, 100, cfg);
    ck_assert_int_eq(error, host);
    free_any(3, error, p);
}

START_TEST(attributes_are_checked)
{
    aclrtMallocAttribute attrs[2];
    aclrtMallocConfig cfg = {.attrs = attrs};

    expect_answers(&cfg, 0, 0);
    cfg.attrs = NULL;
    expect_answers(&cfg, PARAM, PARAM);
    cfg.numAttrs = 1;
    expect_answers(&cfg, NULL_ARG, PARAM);
    cfg.attrs = attrs;
    for (size_t i = 0; i < sizeof(attributes) / sizeof(attributes[0]); i++) {
        attrs[0] = *attributes[i].a;
        attrs[1] = attributes[i].b ? *attributes[i].b : module;
        cfg.numAttrs = attributes[i].b ? 2 : 1;
        expect_answers(&cfg, attributes[i].device, attributes[i].host);
    }
    ck_assert_uint_eq(npud_ledger().memory, 0);
}
END_TEST

static void *allocate_unbound(void *arg)
{
    void *p;

    for (int i = 0; i < ALLOCATORS; i++)
        FAILS(ACL_ERROR_RT_CONTEXT_NULL, allocators[i].allocate(&p, 100, 0));
    FAILS(ACL_ERROR_RT_CONTEXT_NULL, aclrtFreeWithDevSync(arg));
    FAILS(ACL_ERROR_RT_CONTEXT_NULL, aclrtFreeHostWithDevSync(arg));
    return NULL;
}

START_TEST(allocation_needs_a_context)
{
    void *p = device_new(100);

    thread_call(allocate_unbound, p);
    OK(aclrtFree(p));
}
END_TEST

/* What a stream does with the memory is done when it is freed; _i: pinned. */
START_TEST(free_with_synchronise_waits)
{
    aclError (*release)(void *p) = _i ? aclrtFreeHostWithDevSync : aclrtFreeWithDevSync;
    void *p = _i ? pinned_new(KIB) : device_new(KIB), *q = device_new(KIB);

    FAILS(NULL_ARG, release(NULL));
    FAILS(PARAM, release((char *)p + 1));
    OK(aclnpudLaunchDelay(20000, 0, stream));
    OK(aclrtMemcpyAsync(q, KIB, p, KIB, ACL_MEMCPY_DEFAULT, stream));
    OK(release(p));
    OK(aclrtSynchronizeStream(stream));
    FAILS_SAYING(PARAM, "was freed already", release(p));
}
END_TEST

START_TEST(free_with_synchronise_frees_nothing_after_an_error)
{
    void *p = device_new(KIB);

    OK(aclnpudLaunchDelay(0, ACL_ERROR_RT_AICORE_EXCEPTION, stream));
    FAILS(ACL_ERROR_RT_AICORE_EXCEPTION, aclrtFreeWithDevSync(p));
    OK(aclrtMemset(p, KIB, 1, KIB));
    OK(aclrtFreeWithDevSync(p));
}
END_TEST

/* --- limits --- */

enum { CHUNKS = 200 };

/* As much as there is, a MiB at a time. */
static int exhaust_memory(int allocator, void **chunks)
{
    int n = 0;
    aclError error;

    while (n < CHUNKS && (error = allocators[allocator].allocate(&chunks[n], MIB, 0)) == 0)
        n++;
    ck_assert_int_lt(n, CHUNKS);
    ck_assert_int_eq(error, ACL_ERROR_RT_MEMORY_ALLOCATION);
    ck_assert_ptr_nonnull(aclGetRecentErrMsg());
    return n;
}

static void expect_limit(int allocator, int at_least, int at_most)
{
    void *chunks[CHUNKS];
    int first = exhaust_memory(allocator, chunks), second;

    ck_assert_int_ge(first, at_least);
    ck_assert_int_le(first, at_most);
    /* One comes back, one can be had. */
    OK(allocators[allocator].release(chunks[first - 1]));
    OK(allocators[allocator].allocate(&chunks[first - 1], MIB, 0));
    for (int i = 0; i < first; i++)
        OK(allocators[allocator].release(chunks[i]));
    second = exhaust_memory(allocator, chunks);
    ck_assert_int_eq(second, first);
    for (int i = 0; i < second; i++)
        OK(allocators[allocator].release(chunks[i]));
    ck_assert_uint_eq(npud_ledger().memory, 0);
}

START_TEST(device_memory_ends)
{
    static const char *const args[] = {"--set=sim.memory=64M", NULL};

    npud_start(args);
    open_device();
    expect_limit(0, 64, 64);
    expect_limit(1, 64, 64);
}
END_TEST

START_TEST(device_memory_of_a_user_ends)
{
    static const char *const args[] = {"--set=limits.device_memory=16M", NULL};
    void *p;

    npud_start(args);
    open_device();
    expect_limit(1, 16, 16);
    /* All devices together. */
    OK(aclrtMallocAlign32(&p, 10 * MIB, 0));
    OK(aclrtSetDevice(1));
    FAILS(ACL_ERROR_RT_MEMORY_ALLOCATION, aclrtMallocAlign32(&p, 10 * MIB, 0));
    OK(aclrtMallocAlign32(&p, 6 * MIB, 0));
}
END_TEST

START_TEST(host_memory_of_a_user_ends)
{
    static const char *const args[] = {"--set=limits.host_memory=16M", NULL};

    npud_start(args);
    open_device();
    expect_limit(3, 16, 16);
}
END_TEST

START_TEST(more_than_there_is)
{
    static const char *const args[] = {"--set=sim.memory=64M", NULL};
    void *p;

    npud_start(args);
    open_device();
    FAILS(ACL_ERROR_RT_MEMORY_ALLOCATION, aclrtMalloc(&p, 65 * MIB, 0));
    FAILS(ACL_ERROR_RT_MEMORY_ALLOCATION, aclrtMallocAlign32(&p, 64 * MIB + 1, 0));
    OK(aclrtMallocAlign32(&p, 64 * MIB, 0));
    ck_assert_uint_eq(query_free(), 0);
    FAILS(ACL_ERROR_RT_MEMORY_ALLOCATION, aclrtMalloc(&p, 1, 0));
    OK(aclrtMallocHost(&p, 1)); /* is not the device's */
}
END_TEST

/* What is free goes down by whole pages, to the last one, and comes back. */
START_TEST(free_bytes_are_exact)
{
    static const char *const args[] = {"--set=sim.memory=1G", NULL};
    static const size_t sizes[] = {1, 4064, 4065, 4096, 5000, MIB, 3 * MIB + 1};
    size_t total, available, left = 1024 * MIB;
    void *p[8];
    int n = 0;

    npud_start(args);
    open_device();
    OK(aclrtGetMemInfo(ACL_HBM_MEM, &available, &total));
    ck_assert_uint_eq(total, left);
    ck_assert_uint_eq(available, left);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        OK(aclrtMalloc(&p[n++], sizes[i], ACL_MEM_MALLOC_HUGE_FIRST));
        left -= (sizes[i] + 4095) / 4096 * 4096;
        ck_assert_uint_eq(query_free(), left);
    }
    FAILS(ACL_ERROR_RT_MEMORY_ALLOCATION, aclrtMallocWithCfg(&p[n], left + 1, 0, NULL));
    FAILS(ACL_ERROR_RT_MEMORY_ALLOCATION, aclrtMalloc(&p[n], left + 1, 0));
    ck_assert_uint_eq(query_free(), left);
    OK(aclrtMallocWithCfg(&p[n++], left, 0, NULL));
    ck_assert_uint_eq(query_free(), 0);
    FAILS(ACL_ERROR_RT_MEMORY_ALLOCATION, aclrtMallocWithCfg(&p[n], 1, 0, NULL));
    while (n > 0)
        OK(aclrtFree(p[--n]));
    ck_assert_uint_eq(query_free(), 1024 * MIB);
}
END_TEST

/* By each function, in one piece, whatever it is that bounds it. */
START_TEST(what_is_free_can_be_had)
{
    static const char *const bounds[][3] = {
        {"--set=sim.memory=64M"},
        {"--set=sim.memory=67112961"}, /* and a part of a page */
        {"--set=limits.device_memory=16M"},
        {"--set=sim.memory=64M", "--set=limits.device_memory=16M"},
    };
    size_t left;
    void *p;

    npud_start(bounds[_i]);
    open_device();
    for (int a = 0; a < ALLOCATORS; a++) {
        if (allocators[a].allocate == malloc_host || allocators[a].allocate == malloc_host_with_cfg)
            continue;
        left = query_free();
        ck_assert_uint_ge(left, 16 * MIB);
        ck_assert_uint_eq(left % 4096, 0);
        OK(allocators[a].allocate(&p, left, ACL_MEM_MALLOC_HUGE_FIRST));
        ck_assert_uint_eq(query_free(), 0);
        OK(allocators[a].release(p));
        ck_assert_uint_eq(query_free(), left);
    }
}
END_TEST

/* --- what an address is --- */

static void expect_location(const void *p, aclrtMemLocationType type, uint32_t id)
{
    aclrtPtrAttributes a = attributes_of(p);

    ck_assert_int_eq(a.location.type, type);
    ck_assert_uint_eq(a.location.id, id);
    ck_assert_uint_gt(a.pageSize, 0);
}

START_TEST(locations)
{
    char *zero = device_new(8 * KIB), *host = pinned_new(8 * KIB), *one, *heap = malloc(64);

    OK(aclrtSetDevice(1));
    one = device_new(8 * KIB);
    for (size_t offset = 0; offset < 8 * KIB; offset += 1023) {
        expect_location(zero + offset, ACL_MEM_LOCATION_TYPE_DEVICE, 0);
        expect_location(one + offset, ACL_MEM_LOCATION_TYPE_DEVICE, 1);
        expect_location(host + offset, ACL_MEM_LOCATION_TYPE_HOST, 0);
    }
    expect_location(heap, ACL_MEM_LOCATION_TYPE_UNREGISTERED, 0);
    expect_location(&heap, ACL_MEM_LOCATION_TYPE_UNREGISTERED, 0);
    expect_location("constant", ACL_MEM_LOCATION_TYPE_UNREGISTERED, 0);
    OK(aclrtFree(zero));
    OK(aclrtFreeHost(host));
    expect_location(zero, ACL_MEM_LOCATION_TYPE_UNREGISTERED, 0);
    expect_location(host, ACL_MEM_LOCATION_TYPE_UNREGISTERED, 0);
    expect_location(one, ACL_MEM_LOCATION_TYPE_DEVICE, 1);
    free(heap);
}
END_TEST

/* --- what is known of memory --- */

/* _i: an allocator. */
START_TEST(ranges_of_addresses)
{
    char *p, *base = NULL;
    size_t size = 0;

    OK(allocators[_i].allocate((void **)&p, 5000, 0));
    for (size_t offset = 0; offset < 8192; offset += 8191) {
        OK(aclrtMemGetAddressRange(p + offset, (void **)&base, &size));
        ck_assert_ptr_eq(base, p);
        ck_assert_uint_eq(size, 8192);
    }
    OK(aclrtMemGetAddressRange(p, NULL, &size));
    OK(aclrtMemGetAddressRange(p, (void **)&base, NULL));
    FAILS(NULL_ARG, aclrtMemGetAddressRange(NULL, (void **)&base, &size));
    FAILS(PARAM, aclrtMemGetAddressRange(p, NULL, NULL));
    FAILS(NULL_ARG, aclrtMemGetAddressRange(NULL, NULL, NULL));
    FAILS_SAYING(PARAM, "is in no allocation",
                 aclrtMemGetAddressRange(&base, (void **)&base, &size));
    OK(allocators[_i].release(p));
    FAILS_SAYING(PARAM, "was freed", aclrtMemGetAddressRange(p, (void **)&base, &size));
}
END_TEST

static aclError export_fd(void *p, size_t size)
{
    int fd;
    aclError error = aclnpudMemExportFd(p, size, 1, &fd);

    if (error == 0) {
        OK(aclnpudMemCloseFd(fd));
        close(fd);
    }
    return error;
}

static aclError export_key(void *p, size_t size)
{
    char key[65];
    aclError error = aclrtIpcMemGetExportKey(p, size, key, sizeof(key), 1);

    if (error == 0)
        OK(aclrtIpcMemClose(key));
    return error;
}

static aclError map_for_peer(void *p, size_t size)
{
    return aclrtMemP2PMap(p, size, 0, 0);
}

static aclError give_hint(void *p, size_t size)
{
    return aclrtCmoAsync(p, size, ACL_RT_CMO_TYPE_PREFETCH, NULL);
}

/* Calls that name memory, and neither read nor write it. */
static aclError (*const naming[])(void *p, size_t size) = {
    export_key, export_fd, map_for_peer, give_hint, aclrtMemFlush, aclrtMemInvalidate,
};

/* What the import is told of, and may write, is what was exported. */
static void import_all(void *p, size_t size)
{
    size_t told;
    char key[65];
    void *q;

    OK(aclrtIpcMemGetExportKey(p, size, key, sizeof(key), 1));
    OK(aclrtIpcMemImportByKey(&q, key, 0));
    OK(aclrtMemGetAddressRange(q, NULL, &told));
    ck_assert_uint_eq(told, size);
    OK(aclrtMemset(q, size, 1, size));
    FAILS(PARAM, aclrtMemset(q, size + 1, 1, size + 1));
    OK(aclrtIpcMemClose(key));
    OK(aclrtIpcMemClose(key));
}

/* Public programs ask for the range of an allocation, and pass it on. */
START_TEST(the_range_of_addresses_names_the_allocation)
{
    static const size_t sizes[] = {1, 32, 100, 4064, 4096, 5000, 65536, MIB, 2 * MIB + 1};

    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        char *p = device_new(sizes[i]), *base;
        size_t size;

        OK(aclrtMemGetAddressRange(p + sizes[i] / 2, (void **)&base, &size));
        for (size_t k = 0; k < sizeof(naming) / sizeof(naming[0]); k++) {
            OK(naming[k](base, size));
            OK(naming[k](base, sizes[i]));
            FAILS(PARAM, naming[k](base, size + 1));
            FAILS(PARAM, naming[k](base, size + 4096));
            if (size - 1 >
                (sizes[i] + 31) / 32 * 32) /* neither what was asked for, nor all of it */
                FAILS(PARAM, naming[k](base, size - 1));
            FAILS(PARAM, naming[k](base + 1, size));
        }
        import_all(base, size);
        OK(aclrtFree(base));
        FAILS(PARAM, export_key(base, size));
    }
}
END_TEST

START_TEST(types_of_addresses)
{
    char *a = device_new(KIB), *b = device_new(KIB), *host = pinned_new(KIB), own;
    void *all[] = {a, a + 100, b}, *some[] = {a, host}, *heap[] = {&own, NULL};
    static const uint32_t wrong[] = {0, 1, 4, 0x20, 0x12 | 0x100, UINT32_MAX};
    uint32_t result = 7;

    OK(aclrtCheckMemType(all, 3, ACL_RT_MEM_TYPE_DEV, &result, 0));
    ck_assert_uint_eq(result, 1);
    OK(aclrtCheckMemType(all, 3, ACL_RT_MEM_TYPE_DEV | ACL_RT_MEM_TYPE_RSVD, &result, 0));
    ck_assert_uint_eq(result, 1);
    OK(aclrtCheckMemType(all, 3, ACL_RT_MEM_TYPE_DVPP | ACL_RT_MEM_TYPE_RSVD, &result, 0));
    ck_assert_uint_eq(result, 0);
    OK(aclrtCheckMemType(some, 1, ACL_RT_MEM_TYPE_DEV, &result, 0));
    ck_assert_uint_eq(result, 1);
    OK(aclrtCheckMemType(some, 2, ACL_RT_MEM_TYPE_DEV, &result, 0));
    ck_assert_uint_eq(result, 0);
    OK(aclrtCheckMemType(heap, 2, ACL_RT_MEM_TYPE_DEV, &result, 0));
    ck_assert_uint_eq(result, 0);
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
        FAILS(PARAM, aclrtCheckMemType(all, 3, wrong[i], &result, 0));
    FAILS(PARAM, aclrtCheckMemType(all, 0, ACL_RT_MEM_TYPE_DEV, &result, 0));
    FAILS(PARAM, aclrtCheckMemType(all, 3, ACL_RT_MEM_TYPE_DEV, &result, 1));
    FAILS(NULL_ARG, aclrtCheckMemType(NULL, 3, ACL_RT_MEM_TYPE_DEV, &result, 0));
    FAILS(NULL_ARG, aclrtCheckMemType(all, 3, ACL_RT_MEM_TYPE_DEV, NULL, 0));
    OK(aclrtFree(b));
    OK(aclrtCheckMemType(all, 3, ACL_RT_MEM_TYPE_DEV, &result, 0));
    ck_assert_uint_eq(result, 0);
}
END_TEST

START_TEST(memory_for_peers)
{
    char *p = device_new(KIB), *host = pinned_new(KIB);

    FAILS_SAYING(ACL_ERROR_RT_DRV_INTERNAL_ERROR, "aclrtDeviceEnablePeerAccess",
                 aclrtMemP2PMap(p, KIB, 1, 0));
    OK(aclrtDeviceEnablePeerAccess(1, 0));
    OK(aclrtMemP2PMap(p, KIB, 1, 0));
    OK(aclrtMemP2PMap(p, KIB, 0, 0));
    FAILS(NULL_ARG, aclrtMemP2PMap(NULL, KIB, 1, 0));
    FAILS(NULL_ARG, aclrtMemP2PMap(p, 0, 1, 0));
    FAILS(NULL_ARG, aclrtMemP2PMap(p, KIB, 1, 1));
    FAILS(ACL_ERROR_RT_INVALID_DEVICEID, aclrtMemP2PMap(p, KIB, 2, 0));
    FAILS(ACL_ERROR_RT_INVALID_DEVICEID, aclrtMemP2PMap(p, KIB, -1, 0));
    FAILS_SAYING(PARAM, "is not device memory", aclrtMemP2PMap(host, KIB, 1, 0));
    FAILS_SAYING(PARAM, "leave the allocation", aclrtMemP2PMap(p, 2 * KIB, 1, 0));
    OK(aclrtFree(p));
    FAILS_SAYING(PARAM, "was freed", aclrtMemP2PMap(p, KIB, 1, 0));
}
END_TEST

static void *maintain_unbound(void *arg)
{
    FAILS(ACL_ERROR_RT_CONTEXT_NULL, aclrtMemFlush(arg, 1));
    FAILS(ACL_ERROR_RT_CONTEXT_NULL, aclrtMemInvalidate(arg, 1));
    FAILS(ACL_ERROR_RT_CONTEXT_NULL, aclrtMemP2PMap(arg, 1, 1, 0));
    return NULL;
}

/* _i: which of the two. */
START_TEST(cached_memory_is_flushed)
{
    aclError (*maintain)(void *p, size_t size) = _i ? aclrtMemInvalidate : aclrtMemFlush;
    char *p, own[8];

    OK(aclrtMallocCached((void **)&p, KIB, 0));
    OK(maintain(p, KIB));
    OK(maintain(p + 100, 1));
    OK(maintain(own, sizeof(own)));
    FAILS(NULL_ARG, maintain(NULL, 1));
    FAILS(NULL_ARG, maintain(p, 0));
    FAILS_SAYING(PARAM, "leave the allocation", maintain(p, KIB + 1));
    thread_call(maintain_unbound, p);
    OK(aclrtFree(p));
    FAILS_SAYING(PARAM, "was freed", maintain(p, 1));
}
END_TEST

static const aclrtMemUsageInfo *find_user(const aclrtMemUsageInfo *users, size_t n,
                                          const char *name)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(users[i].name, name) == 0)
            return &users[i];
    ck_abort_msg("%s is not told of", name);
}

START_TEST(users_of_a_device)
{
    aclrtMemUsageInfo users[4];
    size_t n = 77;
    void *p = device_new(3 * MIB - KIB), *q = device_new(MIB - KIB);

    OK(aclrtFree(q));
    pinned_new(MIB); /* is not the device's */
    OK(aclrtGetMemUsageInfo(0, users, 4, &n));
    ck_assert_uint_eq(n, 2);
    ck_assert_str_eq(users[0].name, "APP");
    ck_assert_uint_eq(users[0].curMemSize, 3 * MIB);
    ck_assert_uint_eq(users[0].memPeakSize, 4 * MIB);
    ck_assert_uint_eq(find_user(users, n, "OTHERS")->curMemSize, 0);
    OK(aclrtGetMemUsageInfo(1, users, 1, &n));
    ck_assert_uint_eq(n, 1);
    ck_assert_uint_eq(users[0].curMemSize, 0);
    OK(aclrtFree(p));
    OK(aclrtGetMemUsageInfo(0, users, 4, &n));
    ck_assert_uint_eq(find_user(users, n, "APP")->curMemSize, 0);
    ck_assert_uint_eq(find_user(users, n, "APP")->memPeakSize, 4 * MIB);
    FAILS(NULL_ARG, aclrtGetMemUsageInfo(0, NULL, 4, &n));
    FAILS(NULL_ARG, aclrtGetMemUsageInfo(0, users, 4, NULL));
    FAILS(PARAM, aclrtGetMemUsageInfo(0, users, 0, &n));
    FAILS(ACL_ERROR_RT_INVALID_DEVICEID, aclrtGetMemUsageInfo(2, users, 4, &n));
    FAILS(ACL_ERROR_RT_INVALID_DEVICEID, aclrtGetMemUsageInfo(-1, users, 4, &n));
}
END_TEST

static int allocate_and_stay(void *arg)
{
    (void)arg;
    session_open();
    device_new(5 * MIB - KIB);
    turn_tell(&to_parent);
    turn_await(&to_child);
    return 0;
}

START_TEST(users_of_a_device_in_other_processes)
{
    aclrtMemUsageInfo user;
    size_t n = 0;
    pid_t child;

    npud_setup();
    turns_init();
    child = child_start(allocate_and_stay, NULL);
    turn_await(&to_parent);
    open_device();
    device_new(3 * MIB - KIB);
    OK(aclrtGetMemUsageInfo(0, &user, 1, &n));
    ck_assert_uint_eq(n, 1);
    ck_assert_str_eq(user.name, "OTHERS"); /* the largest first */
    ck_assert_uint_eq(user.curMemSize, 5 * MIB);
    turn_tell(&to_child);
    child_expect_ok(child);
}
END_TEST

START_TEST(all_kinds_of_device_memory_are_one)
{
    size_t first, total, n, t;

    OK(aclrtGetMemInfo(ACL_DDR_MEM, &first, &total));
    for (int attr = 0; attr < 18; attr++) {
        if (attr == ACL_HBM_MEM_HUGE1G || attr == ACL_HBM_MEM_P2P_HUGE1G ||
            attr == ACL_MEM_HUGE1G || attr == ACL_MEM_P2P_HUGE1G) {
            FAILS_SAYING(NO, "1 GiB", aclrtGetMemInfo(attr, &n, &t));
            continue;
        }
        OK(aclrtGetMemInfo(attr, &n, &t));
        ck_assert_uint_eq(n, first);
        ck_assert_uint_eq(t, total);
    }
}
END_TEST

/* --- copies: places and kinds --- */

enum place { PAGEABLE, PINNED, DEVICE, PLACES };

#define COPY_SIZE (64 * KIB + 7)
static unsigned char source_pageable[COPY_SIZE], target_pageable[COPY_SIZE];
static unsigned char *source[PLACES], *target[PLACES];

static void copy_setup(void)
{
    set_up_test();
    source[PAGEABLE] = source_pageable;
    target[PAGEABLE] = target_pageable;
    source[PINNED] = pinned_new(COPY_SIZE);
    target[PINNED] = pinned_new(COPY_SIZE);
    source[DEVICE] = device_new(COPY_SIZE);
    target[DEVICE] = device_new(COPY_SIZE);
    for (int i = 0; i < PLACES; i++) {
        put_pattern(source[i], COPY_SIZE, (unsigned)i);
        OK(aclrtMemset(target[i], COPY_SIZE, 0, COPY_SIZE));
    }
}

/* The direction is taken from the addresses; kinds 0 to 5 have no influence. */
START_TEST(synchronous_copy)
{
    enum place from = _i / PLACES, to = _i % PLACES;

    for (int kind = 0; kind <= ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE; kind++) {
        OK(aclrtMemset(target[to], COPY_SIZE, 0, COPY_SIZE));
        OK(aclrtMemcpy(target[to], COPY_SIZE, source[from], COPY_SIZE - 1, kind));
        ck_assert(holds_pattern(device_bytes(target[to], COPY_SIZE - 1), COPY_SIZE - 1, from));
        ck_assert_uint_eq(device_byte(target[to] + COPY_SIZE - 1), 0);
    }
    for (int kind = 6; kind < 9; kind++)
        FAILS(ACL_ERROR_INVALID_PARAM,
              aclrtMemcpy(target[to], COPY_SIZE, source[from], COPY_SIZE, kind));
}
END_TEST

/* From 8 MiB on bytes move in another way. */
START_TEST(large_copies_at_odd_addresses)
{
    enum { SIZE = (8 << 20) + 4099, BESIDE = 64 };
    unsigned char *host = pinned_new(SIZE + BESIDE), *back = pinned_new(SIZE + BESIDE);
    unsigned char *device = device_new(SIZE + BESIDE);
    bool is_async = _i != 0;

    fill_pattern(host + 3, SIZE, 1);
    memset(back, 7, SIZE + BESIDE);
    OK(aclrtMemset(device, SIZE + BESIDE, 9, SIZE + BESIDE));
    if (is_async) {
        OK(aclrtMemcpyAsync(device + 18, SIZE, host + 3, SIZE, ACL_MEMCPY_HOST_TO_DEVICE, stream));
        OK(aclrtMemcpyAsync(back + 33, SIZE, device + 18, SIZE, ACL_MEMCPY_DEVICE_TO_HOST, stream));
        OK(aclrtSynchronizeStream(stream));
    } else {
        OK(aclrtMemcpy(device + 18, SIZE, host + 3, SIZE, ACL_MEMCPY_HOST_TO_DEVICE));
        OK(aclrtMemcpy(back + 33, SIZE, device + 18, SIZE, ACL_MEMCPY_DEVICE_TO_HOST));
    }
    ck_assert(holds_pattern(back + 33, SIZE, 1));
    ck_assert(all_are(back, 33, 7));
    ck_assert(all_are(back + 33 + SIZE, BESIDE - 33, 7));
    ck_assert(all_are(device_bytes(device, 18), 18, 9));
    ck_assert(all_are(device_bytes(device + 18 + SIZE, BESIDE - 18), BESIDE - 18, 9));
}
END_TEST

#define EITHER (-1) /* the reference leaves it open: 207000, or the copy is made */

/* What aclrtMemcpyAsync answers, by kind: H2H, H2D, D2H, D2D, DEFAULT, HOST_TO_BUF_TO_DEVICE. */
static const struct {
    enum place from, to;
    int expected[6];
} asynchronous[] = {
    {PAGEABLE, DEVICE, {PARAM, 0, PARAM, 0, 0, 0}},
    {DEVICE, PAGEABLE, {PARAM, PARAM, 0, 0, 0, PARAM}},
    {PINNED, PAGEABLE, {NO, PARAM, EITHER, PARAM, NO, PARAM}},
    {PAGEABLE, PINNED, {NO, EITHER, PARAM, PARAM, NO, PARAM}},
    {PAGEABLE, PAGEABLE, {NO, EITHER, EITHER, EITHER, NO, PARAM}},
    {PINNED, PINNED, {NO, NO, NO, NO, NO, PARAM}},
    {PINNED, DEVICE, {0, 0, 0, 0, 0, 0}},
    {DEVICE, PINNED, {0, 0, 0, 0, 0, PARAM}},
    {DEVICE, DEVICE, {0, 0, 0, 0, 0, PARAM}},
};

START_TEST(asynchronous_copy)
{
    enum place from = asynchronous[_i].from, to = asynchronous[_i].to;

    for (int kind = 0; kind <= ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE; kind++) {
        int expected = asynchronous[_i].expected[kind], error;

        OK(aclrtMemset(target[to], COPY_SIZE, 0, COPY_SIZE));
        error = aclrtMemcpyAsync(target[to], COPY_SIZE, source[from], COPY_SIZE - 1, kind, stream);
        ck_assert_msg(error == expected || (expected == EITHER && (error == 0 || error == NO)),
                      "%d to %d, kind %d: %d, expected %d", from, to, kind, error, expected);
        OK(aclrtSynchronizeStream(stream));
        ck_assert(error != 0 ||
                  holds_pattern(device_bytes(target[to], COPY_SIZE - 1), COPY_SIZE - 1, from));
        ck_assert(error == 0 || all_are(device_bytes(target[to], COPY_SIZE), COPY_SIZE, 0));
        ck_assert_uint_eq(device_byte(target[to] + COPY_SIZE - 1), 0);
    }
}
END_TEST

/* --- order --- */

START_TEST(copy_waits_for_its_turn)
{
    aclrtEvent gate = stream_hold(stream);

    OK(aclrtMemcpyAsync(target[DEVICE], COPY_SIZE, source[PINNED], COPY_SIZE,
                        ACL_MEMCPY_HOST_TO_DEVICE, stream));
    OK(aclrtMemcpyAsync(target[PINNED], COPY_SIZE, target[DEVICE], COPY_SIZE,
                        ACL_MEMCPY_DEVICE_TO_HOST, stream));
    FAILS(ACL_ERROR_RT_STREAM_SYNC_TIMEOUT, aclrtSynchronizeStreamWithTimeout(stream, 10));
    ck_assert(all_are(device_bytes(target[PINNED], COPY_SIZE), COPY_SIZE, 0));
    ck_assert(all_are(device_bytes(target[DEVICE], COPY_SIZE), COPY_SIZE, 0));
    /* The source is read when the stream gets there. */
    put_pattern(source[PINNED], COPY_SIZE, 77);
    stream_let_go(gate);
    OK(aclrtSynchronizeStream(stream));
    ck_assert(holds_pattern(device_bytes(target[PINNED], COPY_SIZE), COPY_SIZE, 77));
}
END_TEST

START_TEST(event_orders_copies_of_two_streams)
{
    aclrtEvent copied;

    OK(aclrtCreateEventExWithFlag(&copied, ACL_EVENT_SYNC));
    for (unsigned round = 0; round < 50; round++) {
        put_pattern(source[PINNED], COPY_SIZE, round);
        OK(aclnpudLaunchDelay(round * 20, 0, stream));
        OK(aclrtMemcpyAsync(target[DEVICE], COPY_SIZE, source[PINNED], COPY_SIZE,
                            ACL_MEMCPY_HOST_TO_DEVICE, stream));
        OK(aclrtRecordEvent(copied, stream));
        OK(aclrtStreamWaitEvent(other, copied));
        OK(aclrtMemcpyAsync(target[PINNED], COPY_SIZE, target[DEVICE], COPY_SIZE,
                            ACL_MEMCPY_DEVICE_TO_HOST, other));
        OK(aclrtSynchronizeStream(other));
        ck_assert(holds_pattern(device_bytes(target[PINNED], COPY_SIZE), COPY_SIZE, round));
    }
}
END_TEST

START_TEST(synchronised_event_makes_the_copy_visible)
{
    aclrtEvent copied;

    OK(aclrtCreateEvent(&copied));
    for (unsigned round = 0; round < 50; round++) {
        put_pattern(source[DEVICE], COPY_SIZE, round);
        OK(aclrtMemcpyAsync(target[PINNED], COPY_SIZE, source[DEVICE], COPY_SIZE,
                            ACL_MEMCPY_DEVICE_TO_HOST, stream));
        OK(aclrtRecordEvent(copied, stream));
        OK(aclrtSynchronizeEvent(copied));
        ck_assert(holds_pattern(device_bytes(target[PINNED], COPY_SIZE), COPY_SIZE, round));
    }
}
END_TEST

/*
 * A pageable side makes the call wait for what is on the stream; when it returns the copy is made.
 */
START_TEST(pageable_copy_comes_after_what_is_on_the_stream)
{
    uint64_t start = now_ns();

    OK(aclnpudLaunchDelay(30000, 0, stream));
    OK(aclrtMemcpyAsync(target[DEVICE], COPY_SIZE, source[PINNED], COPY_SIZE,
                        ACL_MEMCPY_HOST_TO_DEVICE, stream));
    OK(aclrtMemcpyAsync(target[PAGEABLE], COPY_SIZE, target[DEVICE], COPY_SIZE,
                        ACL_MEMCPY_DEVICE_TO_HOST, stream));
    ck_assert_uint_ge(now_ns() - start, 30000000);
    ck_assert(holds_pattern(device_bytes(target[PAGEABLE], COPY_SIZE), COPY_SIZE, PINNED));
}
END_TEST

START_TEST(pageable_copy_leaves_failures_to_the_next_synchronise)
{
    OK(aclnpudLaunchDelay(0, ACL_ERROR_RT_AICORE_EXCEPTION, stream));
    OK(aclrtMemcpyAsync(target[DEVICE], COPY_SIZE, source[PAGEABLE], COPY_SIZE,
                        ACL_MEMCPY_HOST_TO_DEVICE, stream));
    ck_assert(holds_pattern(device_bytes(target[DEVICE], COPY_SIZE), COPY_SIZE, PAGEABLE));
    FAILS(ACL_ERROR_RT_AICORE_EXCEPTION, aclrtSynchronizeStream(stream));
}
END_TEST

/*
 * The source is the caller's again when the call returns, though the copy keeps its place in the
 * stream.
 */
START_TEST(buffered_copy_captures_its_source)
{
    for (int from = PAGEABLE; from <= PINNED; from++) {
        OK(aclrtMemsetAsync(target[DEVICE], COPY_SIZE, 0x11, COPY_SIZE, stream));
        OK(aclrtMemcpyAsync(target[DEVICE], COPY_SIZE, source[from], COPY_SIZE,
                            ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE, stream));
        OK(aclrtMemset(source[from], COPY_SIZE, 0x22, COPY_SIZE));
        OK(aclrtSynchronizeStream(stream));
        ck_assert(
            holds_pattern(device_bytes(target[DEVICE], COPY_SIZE), COPY_SIZE, (unsigned)from));
    }
}
END_TEST

/* The copy is asynchronous: the thread that calls it may also be the one that opens the gate. */
static void *buffered_copy(void *arg)
{
    (void)arg;
    OK(aclrtSetDevice(0));
    OK(aclrtMemcpyAsync(target[DEVICE], COPY_SIZE, source[PINNED], COPY_SIZE,
                        ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE, NULL));
    OK(aclrtMemset(source[PINNED], COPY_SIZE, 0x22, COPY_SIZE));
    return NULL;
}

START_TEST(buffered_copy_does_not_wait)
{
    struct timespec limit;
    aclrtEvent gate = stream_hold(NULL);
    pthread_t thread;

    pthread_create(&thread, NULL, buffered_copy, NULL);
    clock_gettime(CLOCK_REALTIME, &limit);
    limit.tv_sec += 5;
    ck_assert_msg(pthread_timedjoin_np(thread, NULL, &limit) == 0, "blocked by the stream");
    ck_assert(all_are(device_bytes(target[DEVICE], COPY_SIZE), COPY_SIZE, 0));
    OK(aclrtRecordEvent(gate, stream));
    OK(aclrtSynchronizeStreamWithTimeout(NULL, LIMIT_MS));
    ck_assert(holds_pattern(device_bytes(target[DEVICE], COPY_SIZE), COPY_SIZE, PINNED));
}
END_TEST

/*
 * A copy on the stream, whose source is taken now. Its pages are never touched before: only npud's
 * ledger matters.
 */
static void copy_buffered(void *dst, size_t size)
{
    void *src = mmap(NULL, size, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    ck_assert_ptr_ne(src, MAP_FAILED);
    OK(aclrtMemcpyAsync(dst, size, src, size, ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE, stream));
    munmap(src, size);
}

START_TEST(buffers_of_copies_go_with_the_device)
{
    for (int i = 0; i < 5; i++)
        copy_buffered(target[DEVICE], COPY_SIZE);
    OK(aclrtFreeHost(source[PINNED]));
    OK(aclrtFreeHost(target[PINNED]));
    OK(aclrtResetDeviceForce(0));
    ck_assert_uint_eq(npud_ledger().memory, 0);
    OK(aclrtSetDevice(0));
    OK(aclrtCreateStream(&stream));
    copy_buffered(device_new(MIB), MIB);
    OK(aclrtSynchronizeStream(stream));
}
END_TEST

/* Each copy is larger than all before it, so no buffer is used again. */
START_TEST(idle_buffers_of_copies_are_bounded)
{
    uint64_t before;
    void *dst = device_new(80 * MIB);

    before = npud_ledger().memory;
    for (size_t size = 10 * MIB; size <= 80 * MIB; size += 10 * MIB) {
        copy_buffered(dst, size);
        OK(aclrtSynchronizeStream(stream));
        ck_assert_uint_le(npud_ledger().memory - before, size < 64 * MIB ? 64 * MIB : size);
    }
}
END_TEST

/* What is in flight is never taken away, however much it is. */
START_TEST(busy_buffers_of_copies_stay)
{
    enum { N = 5 };
    char *dst[N];
    aclrtEvent gate;

    for (int i = 0; i < N; i++)
        dst[i] = device_new(20 * MIB);
    gate = stream_hold(stream);
    for (int i = 0; i < N; i++) {
        char *src = malloc(20 * MIB);

        OK(aclrtMemset(src, 20 * MIB, i + 1, 20 * MIB));
        OK(aclrtMemcpyAsync(dst[i], 20 * MIB, src, 20 * MIB, ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE,
                            stream));
        free(src);
    }
    stream_let_go(gate);
    OK(aclrtSynchronizeStream(stream));
    for (int i = 0; i < N; i++)
        ck_assert(all_are(device_bytes(dst[i], 20 * MIB), 20 * MIB, (unsigned char)(i + 1)));
}
END_TEST

/* A synchronous copy is not ordered after anything. */
START_TEST(synchronous_copy_does_not_wait)
{
    aclrtEvent gate = stream_hold(NULL);

    OK(aclrtMemcpy(target[DEVICE], COPY_SIZE, source[PAGEABLE], COPY_SIZE,
                   ACL_MEMCPY_HOST_TO_DEVICE));
    ck_assert(holds_pattern(device_bytes(target[DEVICE], COPY_SIZE), COPY_SIZE, PAGEABLE));
    OK(aclrtRecordEvent(gate, stream));
}
END_TEST

/* --- fills --- */

START_TEST(fills_take_the_low_8_bits)
{
    static const struct {
        int32_t value;
        unsigned char byte;
    } rows[] = {{0, 0},        {1, 1}, {255, 255}, {256, 0}, {-1, 255}, {0x12345678, 0x78},
                {INT32_MIN, 0}};

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        for (int place = 0; place < PLACES; place++) {
            OK(aclrtMemset(target[place], COPY_SIZE, 0x33, COPY_SIZE));
            OK(aclrtMemset(target[place] + 1, COPY_SIZE, rows[i].value, COPY_SIZE - 2));
            ck_assert(all_are(device_bytes(target[place] + 1, COPY_SIZE - 2), COPY_SIZE - 2,
                              rows[i].byte));
            OK(aclrtMemsetAsync(target[place] + 1, COPY_SIZE, rows[i].value + 1, COPY_SIZE - 2,
                                stream));
            OK(aclrtSynchronizeStream(stream));
            ck_assert(all_are(device_bytes(target[place] + 1, COPY_SIZE - 2), COPY_SIZE - 2,
                              (unsigned char)(rows[i].byte + 1)));
            ck_assert_uint_eq(device_byte(target[place]), 0x33);
            ck_assert_uint_eq(device_byte(target[place] + COPY_SIZE - 1), 0x33);
        }
}
END_TEST

START_TEST(fill_waits_for_its_turn)
{
    aclrtEvent gate = stream_hold(stream);

    OK(aclrtMemsetAsync(target[DEVICE], COPY_SIZE, 0x44, COPY_SIZE, stream));
    OK(aclrtMemsetAsync(target[PINNED], COPY_SIZE, 0x44, COPY_SIZE, stream)); /* at once */
    ck_assert(all_are(device_bytes(target[PINNED], COPY_SIZE), COPY_SIZE, 0x44));
    FAILS(ACL_ERROR_RT_STREAM_SYNC_TIMEOUT, aclrtSynchronizeStreamWithTimeout(stream, 10));
    ck_assert(all_are(device_bytes(target[DEVICE], COPY_SIZE), COPY_SIZE, 0));
    stream_let_go(gate);
    OK(aclrtSynchronizeStream(stream));
    ck_assert(all_are(device_bytes(target[DEVICE], COPY_SIZE), COPY_SIZE, 0x44));
}
END_TEST

/* --- against a model: random copies and fills of random ranges, synchronous and not --- */

#define MODEL_SIZE (20 * KIB)
static unsigned char model[PLACES][MODEL_SIZE], model_pageable[MODEL_SIZE];
static unsigned char *real[PLACES];

static uint32_t random_below(uint32_t n)
{
    static uint64_t x = 88172645463325252u;

    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    return (uint32_t)(x >> 20) % n;
}

static void random_fill(bool async)
{
    uint32_t place = random_below(PLACES), at = random_below(MODEL_SIZE);
    uint32_t size = 1 + random_below((uint32_t)MODEL_SIZE - at);
    int value = (int)random_below(256);

    /* Host memory is filled at once: not before what is on the stream. */
    if (async && place != DEVICE)
        OK(aclrtSynchronizeStream(stream));
    if (async)
        OK(aclrtMemsetAsync(real[place] + at, size, value, size, stream));
    else
        OK(aclrtMemset(real[place] + at, size, value, size));
    memset(model[place] + at, value, size);
}

static void random_copy(bool async)
{
    uint32_t from = random_below(PLACES);
    uint32_t to = async && from != DEVICE ? DEVICE : random_below(PLACES);
    uint32_t size = 1 + random_below((uint32_t)MODEL_SIZE / 2);
    /* Ranges in the same place must not overlap: from the lower half to the upper. */
    uint32_t src = random_below((uint32_t)MODEL_SIZE / 2 - size + 1);
    uint32_t dst = (uint32_t)MODEL_SIZE / 2 + random_below((uint32_t)MODEL_SIZE / 2 - size + 1);

    if (async)
        OK(aclrtMemcpyAsync(real[to] + dst, size, real[from] + src, size, ACL_MEMCPY_DEFAULT,
                            stream));
    else
        OK(aclrtMemcpy(real[to] + dst, size, real[from] + src, size, ACL_MEMCPY_DEFAULT));
    memcpy(model[to] + dst, model[from] + src, size);
}

START_TEST(random_operations_follow_the_model)
{
    real[PAGEABLE] = model_pageable;
    real[PINNED] = pinned_new(MODEL_SIZE);
    real[DEVICE] = device_new(MODEL_SIZE);
    for (int i = 0; i < PLACES; i++) {
        OK(aclrtMemset(real[i], MODEL_SIZE, 0, MODEL_SIZE));
        memset(model[i], 0, MODEL_SIZE);
    }
    for (int round = 0; round < 2000; round++) {
        bool async = random_below(4) != 0;

        if (!async)
            OK(aclrtSynchronizeStream(stream));
        if (random_below(3))
            random_copy(async);
        else
            random_fill(async);
        if (random_below(20) == 0) {
            OK(aclrtSynchronizeStream(stream));
            for (int i = 0; i < PLACES; i++)
                ck_assert_mem_eq(device_bytes(real[i], MODEL_SIZE), model[i], MODEL_SIZE);
        }
    }
}
END_TEST

/* --- large ones --- */

START_TEST(large_copies)
{
    size_t size = 64 * MIB;
    unsigned char *a = device_new(size), *b = device_new(size), *host = pinned_new(size);

    fill_pattern(host, size, 5);
    OK(aclrtMemcpyAsync(a, size, host, size, ACL_MEMCPY_HOST_TO_DEVICE, stream));
    OK(aclrtMemcpyAsync(b, size, a, size, ACL_MEMCPY_DEVICE_TO_DEVICE, stream));
    OK(aclrtMemsetAsync(a, size, 0x66, size, stream));
    OK(aclrtSynchronizeStream(stream));
    ck_assert(all_are(device_bytes(a, size), size, 0x66));
    ck_assert(holds_pattern(device_bytes(b, size), size, 5));
    memset(host, 0, size);
    OK(aclrtMemcpyAsync(host, size, b, size, ACL_MEMCPY_DEVICE_TO_HOST, stream));
    OK(aclrtSynchronizeStream(stream));
    ck_assert(holds_pattern(host, size, 5));
    OK(aclrtMemcpy(a, size, host, size, ACL_MEMCPY_HOST_TO_DEVICE));
    ck_assert_mem_eq(device_bytes(a, size), device_bytes(b, size), size);
}
END_TEST

/*
 * A large copy goes in slices: another stream of the device gets its turn long before the copy is
 * done.
 */
START_TEST(large_copy_does_not_hold_up_others)
{
    size_t size = 512 * MIB;
    void *a = device_new(size), *b = device_new(size);
    aclrtEvent gate, done;
    aclrtStreamStatus status;

    OK(aclrtCreateEventExWithFlag(&done, ACL_EVENT_SYNC));
    gate = stream_hold(stream);
    OK(aclrtMemcpyAsync(b, size, a, size, ACL_MEMCPY_DEVICE_TO_DEVICE, stream));
    OK(aclrtStreamWaitEvent(other, gate));
    for (int i = 0; i < 3; i++)
        OK(aclnpudLaunchDelay(0, 0, other));
    OK(aclrtRecordEvent(done, other));
    stream_let_go(gate);
    OK(aclrtSynchronizeEvent(done));
    OK(aclrtStreamQuery(stream, &status));
    ck_assert_int_eq(status, ACL_STREAM_STATUS_NOT_READY);
    OK(aclrtSynchronizeStream(stream));
}
END_TEST

/* --- memory that is gone --- */

/*
 * _i: which of target and source is freed; 2 neither; 3 one that has nothing to do with it; 4 the
 * target of a fill.
 */
START_TEST(task_whose_memory_was_freed_fails)
{
    void *a = device_new(COPY_SIZE), *b = device_new(COPY_SIZE), *c = device_new(COPY_SIZE);
    void *freed[] = {a, b, NULL, c, a};
    bool fails = _i != 2 && _i != 3;
    aclrtEvent gate = stream_hold(stream);
    aclError error;

    if (_i == 4)
        OK(aclrtMemsetAsync(a, COPY_SIZE, 1, COPY_SIZE, stream));
    else
        OK(aclrtMemcpyAsync(a, COPY_SIZE, b, COPY_SIZE, ACL_MEMCPY_DEVICE_TO_DEVICE, stream));
    OK(aclrtMemcpyAsync(target[PINNED], COPY_SIZE, source[DEVICE], COPY_SIZE,
                        ACL_MEMCPY_DEVICE_TO_HOST, stream));
    OK(aclnpudLaunchDelay(0, 0, other));
    if (freed[_i])
        OK(aclrtFree(freed[_i]));
    /* What takes the place of the old allocation is not what the task meant. */
    OK(aclrtMemset(device_new(COPY_SIZE), COPY_SIZE, 0x77, COPY_SIZE));
    stream_let_go(gate);
    error = aclrtSynchronizeStream(stream);
    ck_assert_msg((error != 0) == fails, "%d", error);
    ck_assert_int_eq(aclGetRecentErrMsg() != NULL, fails);
    ck_assert(holds_pattern(device_bytes(target[PINNED], COPY_SIZE), COPY_SIZE,
                            DEVICE)); /* the tasks after it are executed */
    OK(aclrtSynchronizeStream(stream));
    OK(aclrtSynchronizeStream(other));
}
END_TEST

/*
 * A copy that has begun when memory of it is freed comes to its end, and then the memory goes. _i:
 * the source; both.
 */
START_TEST(work_that_has_begun_is_done)
{
    size_t size = 128 * MIB, left = query_free();
    _Atomic unsigned char *first = pinned_new(size);
    void *from = device_new(size), *to = (void *)first;

    OK(aclrtMemset(from, size, 0x21, size));
    OK(aclrtMemcpyAsync(to, size, from, size, ACL_MEMCPY_DEVICE_TO_HOST, stream));
    while (atomic_load(first) != 0x21)
        wait_a_moment();
    OK(aclrtFree(from));
    if (_i)
        OK(aclrtFreeHost(to));
    FAILS_SAYING(PARAM, "was freed", aclrtMemset(from, KIB, 0, KIB));
    OK(aclrtSynchronizeStream(stream));
    if (!_i)
        ck_assert(all_are(device_bytes(to, size), size, 0x21));
    while (query_free() != left)
        wait_a_moment();
}
END_TEST

START_TEST(freed_pinned_memory_fails_too)
{
    aclrtEvent gate = stream_hold(stream);

    OK(aclrtMemcpyAsync(target[DEVICE], COPY_SIZE, source[PINNED], COPY_SIZE,
                        ACL_MEMCPY_HOST_TO_DEVICE, stream));
    OK(aclrtFreeHost(source[PINNED]));
    pinned_new(COPY_SIZE);
    stream_let_go(gate);
    ck_assert_int_ne(aclrtSynchronizeStream(stream), 0);
    ck_assert(all_are(device_bytes(target[DEVICE], COPY_SIZE), COPY_SIZE, 0));
}
END_TEST

START_TEST(freed_after_the_task_is_fine)
{
    for (int i = 0; i < 100; i++) {
        void *p = device_new(COPY_SIZE);

        OK(aclrtMemcpyAsync(p, COPY_SIZE, source[PINNED], COPY_SIZE, ACL_MEMCPY_DEFAULT, stream));
        OK(aclrtSynchronizeStream(stream));
        ck_assert(holds_pattern(device_bytes(p, COPY_SIZE), COPY_SIZE, PINNED));
        OK(aclrtFree(p));
        if (i == 0)
            FAILS_SAYING(PARAM, "is in memory that was freed: it was an allocation of",
                         aclrtMemcpyAsync(p, COPY_SIZE, source[PINNED], COPY_SIZE,
                                          ACL_MEMCPY_HOST_TO_DEVICE, stream));
    }
    OK(aclrtSynchronizeStream(stream));
}
END_TEST

static aclError any_free(void *p, bool pinned)
{
    return pinned ? aclrtFreeHost(p) : aclrtFree(p);
}

/*
 * Calls that read and write by themselves; _i: pinned. Addresses of the program's own stay as they
 * are.
 */
START_TEST(freed_memory_is_a_named_error)
{
    char *p = _i ? pinned_new(COPY_SIZE) : device_new(COPY_SIZE), own[64] = {0};

    OK(any_free(p, _i));
    FAILS_SAYING(PARAM, "devPtr: ", aclrtMemset(p, 64, 0, 64));
    FAILS_SAYING(PARAM, "is in memory that was freed: it was an allocation of",
                 aclrtMemset(p + 100, 64, 0, 64));
    FAILS_SAYING(PARAM, "dst: ", aclrtMemcpy(p, 64, own, 64, ACL_MEMCPY_DEFAULT));
    FAILS_SAYING(PARAM, "src: ", aclrtMemcpy(own, 64, p, 64, ACL_MEMCPY_DEFAULT));
    FAILS_SAYING(PARAM, "was freed already", any_free(p, _i));
    OK(aclrtMemset(own, 64, 0, 64));
}
END_TEST

START_TEST(memory_that_a_reset_has_freed_is_a_named_error)
{
    char *p = device_new(COPY_SIZE);

    OK(aclrtResetDeviceForce(0));
    OK(aclrtSetDevice(0));
    FAILS_SAYING(PARAM, "is in memory that was freed", aclrtMemset(p, 64, 0, 64));
}
END_TEST

static bool is_mapped(void *p)
{
    unsigned char resident;

    return mincore(p, 1, &resident) == 0;
}

/* --- what a thread remembers of memory that it has used --- */

static void *reset_elsewhere(void *p)
{
    (void)p;
    OK(aclrtResetDeviceForce(0));
    return NULL;
}

/* Others free it: the thread learns of that in its next call. _i: with a reset of the device. */
START_TEST(memory_that_another_thread_frees_is_not_remembered)
{
    char *p = device_new(COPY_SIZE);
    pthread_t thread;

    OK(aclrtMemset(p, 64, 1, 64));
    OK(aclrtMemset(p + 64, 64, 1, 64));
    ck_assert_int_eq(pthread_create(&thread, NULL, _i ? reset_elsewhere : free_elsewhere, p), 0);
    pthread_join(thread, NULL);
    if (_i)
        OK(aclrtSetDevice(0));
    FAILS_SAYING(PARAM, "is in memory that was freed", aclrtMemset(p, 64, 0, 64));
    FAILS_SAYING(PARAM, "is in memory that was freed",
                 aclrtMemsetAsync(p + 64, 64, 0, 64, _i ? NULL : stream));
}
END_TEST

/* Of more allocations than it remembers, it uses the right ones. _i: of a few more, of many. */
START_TEST(memory_of_many_allocations)
{
    enum { N = 40, CALLS = 2000 };
    int n = _i ? N : 7;
    unsigned char *p[N];

    for (int i = 0; i < n; i++)
        p[i] = device_new(4 * KIB);
    for (int i = 0; i < CALLS; i++)
        OK(aclrtMemsetAsync(p[i * 3 % n] + i, 1, i, 1, stream));
    OK(aclrtSynchronizeStream(stream));
    for (int i = 0; i < CALLS; i++)
        ck_assert_uint_eq(*(unsigned char *)device_bytes(p[i * 3 % n] + i, 1), i & 0xff);
}
END_TEST

/* Their addresses are kept for a while, their memory is not. */
START_TEST(addresses_of_freed_memory_are_given_back)
{
    size_t before = query_free();
    void *first = device_new(MIB), *last = NULL;

    OK(aclrtFree(first));
    ck_assert(is_mapped(first));
    for (int i = 0; i < 256; i++) {
        last = device_new(MIB);
        OK(aclrtFree(last));
    }
    ck_assert(!is_mapped(first));
    ck_assert(is_mapped(last));
    ck_assert_uint_eq(query_free(), before);
}
END_TEST

/* A process with little room for addresses. */
START_TEST(addresses_of_freed_memory_are_given_back_at_a_limit)
{
    struct rlimit limit;
    size_t used = 0;
    FILE *f = fopen("/proc/self/statm", "r");

    ck_assert_ptr_nonnull(f);
    ck_assert_int_eq(fscanf(f, "%zu", &used), 1);
    fclose(f);
    limit.rlim_cur = limit.rlim_max = used * 4096 + 64 * MIB;
    ck_assert_int_eq(setrlimit(RLIMIT_AS, &limit), 0);
    for (int i = 0; i < 20; i++)
        OK(aclrtFree(device_new(8 * MIB)));
}
END_TEST

/* In the middle of a copy: it ends with an error or has been quick enough; nothing else suffers. */
START_TEST(freed_in_the_middle_of_a_copy)
{
    size_t size = 64 * MIB;

    for (int i = 0; i < 5; i++) {
        void *a = device_new(size), *b = device_new(size);
        aclError error;

        OK(aclrtMemcpyAsync(b, size, a, size, ACL_MEMCPY_DEVICE_TO_DEVICE, stream));
        if (i > 0)
            ck_assert_int_ne(aclrtSynchronizeStreamWithTimeout(stream, i), PARAM);
        OK(aclrtFree(i % 2 ? a : b));
        error = aclrtSynchronizeStream(stream);
        ck_assert_int_ne(error, ACL_ERROR_RT_SOCKET_CLOSE);
        OK(aclrtFree(i % 2 ? b : a));
    }
    OK(aclnpudLaunchDelay(0, 0, stream));
    OK(aclrtSynchronizeStream(stream));
}
END_TEST

/* --- peers --- */

static unsigned char *near, *far;

static void peer_setup(void)
{
    set_up_test();
    near = device_new(COPY_SIZE);
    OK(aclrtSetDevice(1));
    far = device_new(COPY_SIZE);
    OK(aclrtSetDevice(0));
    put_pattern(near, COPY_SIZE, 1);
    put_pattern(far, COPY_SIZE, 2);
}

/* Which error is open; that there is one, and that nothing was copied, is not. */
static void expect_no_access(void)
{
    ck_assert_int_ne(aclrtMemcpy(far, COPY_SIZE, near, COPY_SIZE, ACL_MEMCPY_DEVICE_TO_DEVICE), 0);
    ck_assert_ptr_nonnull(strstr(aclGetRecentErrMsg(), "aclrtDeviceEnablePeerAccess"));
    ck_assert_int_ne(aclrtMemcpy(near, COPY_SIZE, far, COPY_SIZE, ACL_MEMCPY_DEVICE_TO_DEVICE), 0);
    if (aclrtMemcpyAsync(far, COPY_SIZE, near, COPY_SIZE, ACL_MEMCPY_DEVICE_TO_DEVICE, stream) == 0)
        ck_assert_int_ne(aclrtSynchronizeStream(stream), 0);
    ck_assert(holds_pattern(device_bytes(near, COPY_SIZE), COPY_SIZE, 1));
    ck_assert(holds_pattern(device_bytes(far, COPY_SIZE), COPY_SIZE, 2));
}

START_TEST(peer_copy_needs_access)
{
    expect_no_access();
    OK(aclrtDeviceEnablePeerAccess(1, 0));
    OK(aclrtMemcpy(far, COPY_SIZE, near, COPY_SIZE, ACL_MEMCPY_DEVICE_TO_DEVICE));
    ck_assert(holds_pattern(device_bytes(far, COPY_SIZE), COPY_SIZE, 1));
    put_pattern(far, COPY_SIZE, 3);
    OK(aclrtMemcpyAsync(near, COPY_SIZE, far, COPY_SIZE, ACL_MEMCPY_DEVICE_TO_DEVICE, stream));
    OK(aclrtSynchronizeStream(stream));
    ck_assert(holds_pattern(device_bytes(near, COPY_SIZE), COPY_SIZE, 3));
    put_pattern(near, COPY_SIZE, 1);
    put_pattern(far, COPY_SIZE, 2);
    OK(aclrtDeviceDisablePeerAccess(1));
    expect_no_access();
}
END_TEST

START_TEST(host_copies_need_no_access)
{
    unsigned char *host = pinned_new(COPY_SIZE);

    OK(aclrtMemcpy(host, COPY_SIZE, far, COPY_SIZE, ACL_MEMCPY_DEVICE_TO_HOST));
    ck_assert(holds_pattern(host, COPY_SIZE, 2));
    OK(aclrtMemcpy(far, COPY_SIZE, near, 0, ACL_MEMCPY_DEVICE_TO_DEVICE));
}
END_TEST

/* --- */

static void add_allocation(Suite *s)
{
    TCase *t = suite_case(s, "allocation", 120, set_up_test, npud_teardown);

    tcase_add_loop_test(t, allocations_are_aligned_apart_and_writable, 0, ALLOCATORS);
    tcase_add_loop_test(t, ranges_stay_within_their_allocation, 0, ALLOCATORS);
    tcase_add_test(t, any_thread_may_free);
    tcase_add_test(t, memory_of_the_session_before_is_not_remembered);
    tcase_add_test(t, wrong_frees_change_nothing);
    tcase_add_loop_test(t, policies, 0, ALLOCATORS);
    tcase_add_test(t, policies_with_flags);
    tcase_add_test(t, attributes_are_checked);
    tcase_add_test(t, allocation_needs_a_context);
    tcase_add_loop_test(t, free_with_synchronise_waits, 0, 2);
    tcase_add_test(t, free_with_synchronise_frees_nothing_after_an_error);
    tcase_add_test(t, locations);
    tcase_add_test(t, large_copies);
    tcase_add_test(t, large_copy_does_not_hold_up_others);
    t = suite_case(s, "limits", 120, NULL, npud_teardown);
    tcase_add_test(t, device_memory_ends);
    tcase_add_test(t, device_memory_of_a_user_ends);
    tcase_add_test(t, host_memory_of_a_user_ends);
    tcase_add_test(t, more_than_there_is);
    tcase_add_test(t, free_bytes_are_exact);
    tcase_add_loop_test(t, what_is_free_can_be_had, 0, 4);
    tcase_add_test(t, users_of_a_device_in_other_processes);
}

static void add_queries(Suite *s)
{
    TCase *t = suite_case(s, "queries", 120, set_up_test, npud_teardown);

    tcase_add_loop_test(t, ranges_of_addresses, 0, ALLOCATORS);
    tcase_add_test(t, the_range_of_addresses_names_the_allocation);
    tcase_add_test(t, types_of_addresses);
    tcase_add_test(t, memory_for_peers);
    tcase_add_loop_test(t, cached_memory_is_flushed, 0, 2);
    tcase_add_test(t, users_of_a_device);
    tcase_add_test(t, all_kinds_of_device_memory_are_one);
}

static void add_copies(Suite *s)
{
    TCase *t = suite_case(s, "copies", 120, copy_setup, npud_teardown);

    tcase_add_loop_test(t, synchronous_copy, 0, PLACES * PLACES);
    tcase_add_loop_test(t, large_copies_at_odd_addresses, 0, 2);
    tcase_add_loop_test(t, asynchronous_copy, 0,
                        (int)(sizeof(asynchronous) / sizeof(asynchronous[0])));
    tcase_add_test(t, copy_waits_for_its_turn);
    tcase_add_test(t, event_orders_copies_of_two_streams);
    tcase_add_test(t, synchronised_event_makes_the_copy_visible);
    tcase_add_test(t, pageable_copy_comes_after_what_is_on_the_stream);
    tcase_add_test(t, pageable_copy_leaves_failures_to_the_next_synchronise);
    tcase_add_test(t, buffered_copy_captures_its_source);
    tcase_add_test(t, buffered_copy_does_not_wait);
    tcase_add_test(t, buffers_of_copies_go_with_the_device);
    tcase_add_test(t, idle_buffers_of_copies_are_bounded);
    tcase_add_test(t, busy_buffers_of_copies_stay);
    tcase_add_test(t, synchronous_copy_does_not_wait);
    tcase_add_test(t, fills_take_the_low_8_bits);
    tcase_add_test(t, fill_waits_for_its_turn);
    tcase_add_test(t, random_operations_follow_the_model);
}

static void add_gone(Suite *s)
{
    TCase *t = suite_case(s, "memory that is gone", 120, copy_setup, npud_teardown);

    tcase_add_loop_test(t, task_whose_memory_was_freed_fails, 0, 5);
    tcase_add_loop_test(t, work_that_has_begun_is_done, 0, 2);
    tcase_add_test(t, freed_pinned_memory_fails_too);
    tcase_add_test(t, freed_after_the_task_is_fine);
    tcase_add_loop_test(t, freed_memory_is_a_named_error, 0, 2);
    tcase_add_test(t, memory_that_a_reset_has_freed_is_a_named_error);
    tcase_add_loop_test(t, memory_that_another_thread_frees_is_not_remembered, 0, 2);
    tcase_add_loop_test(t, memory_of_many_allocations, 0, 2);
    tcase_add_test(t, addresses_of_freed_memory_are_given_back);
    if (!SANITIZED)
        tcase_add_test(t, addresses_of_freed_memory_are_given_back_at_a_limit);
    tcase_add_test(t, freed_in_the_middle_of_a_copy);
    t = suite_case(s, "peers", 120, peer_setup, npud_teardown);
    tcase_add_test(t, peer_copy_needs_access);
    tcase_add_test(t, host_copies_need_no_access);
}

static Suite *make_suite(void)
{
    Suite *s = suite_create("memory");

    add_allocation(s);
    add_queries(s);
    add_copies(s);
    add_gone(s);
    return s;
}

int main(void)
{
    return run_suite(make_suite());
}
