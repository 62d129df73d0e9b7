/*
 * Stream-ordered pools of memory: whose memory it is at which place of a stream, what a pool keeps
 * and gives back, and what it counts.
 */
#include <pthread.h>
#include <string.h>

#include "device_bytes.h"
#include "acl/acl_rt_memory_soma.h"
#include "tests/common/harness.h"

#define BAD   ACL_ERROR_INVALID_PARAM
#define PARAM ACL_ERROR_RT_PARAM_INVALID
#define GONE  ACL_ERROR_RT_INVALID_HANDLE
#define FULL  ACL_ERROR_RT_MEMORY_ALLOCATION
#define MIB   ((size_t)1 << 20)

static aclrtStream stream, other;
static aclrtMemPool pool;

static aclrtMemPool pool_new(uint32_t device, size_t max)
{
    aclrtMemPoolProps props = {
        .allocType = ACL_MEM_ALLOCATION_TYPE_PINNED,
        .location = {.id = device, .type = ACL_MEM_LOCATION_TYPE_DEVICE},
        .maxSize = max,
    };
    aclrtMemPool p;

    OK(aclrtMemPoolCreate(&p, &props));
    return p;
}

static void open_pool(void)
{
    streams_open(&stream, &other);
    pool = pool_new(0, 0);
}

static void set_up_test(void)
{
    npud_setup();
    open_pool();
}

static unsigned char *take(aclrtMemPool from, size_t size, aclrtStream s)
{
    void *p = NULL;

    OK(aclrtMemPoolMallocAsync(&p, size, from, s));
    return p;
}

static void give(void *p, aclrtStream s)
{
    OK(aclrtMemPoolFreeAsync(p, s));
}

static void keep_all(aclrtMemPool p)
{
    uint64_t all = UINT64_MAX;

    OK(aclrtMemPoolSetAttr(p, ACL_RT_MEM_POOL_ATTR_RELEASE_THRESHOLD, &all));
}

static uint64_t number(aclrtMemPool p, aclrtMemPoolAttr attr)
{
    uint64_t value = 12345;

    OK(aclrtMemPoolGetAttr(p, attr, &value));
    return value;
}

static void expect_sizes(aclrtMemPool p, uint64_t used, uint64_t reserved)
{
    ck_assert_uint_eq(number(p, ACL_RT_MEM_POOL_ATTR_USED_MEM_CURRENT), used);
    ck_assert_uint_eq(number(p, ACL_RT_MEM_POOL_ATTR_RESERVED_MEM_CURRENT), reserved);
    ck_assert_uint_eq(npud_ledger().memory, reserved);
}

static void expect_peaks(aclrtMemPool p, uint64_t used, uint64_t reserved)
{
    ck_assert_uint_eq(number(p, ACL_RT_MEM_POOL_ATTR_USED_MEM_HIGH), used);
    ck_assert_uint_eq(number(p, ACL_RT_MEM_POOL_ATTR_RESERVED_MEM_HIGH), reserved);
}

static bool all_are(const unsigned char *p, size_t size, unsigned char value)
{
    for (size_t i = 0; i < size; i++)
        if (p[i] != value)
            return false;
    return true;
}

/* --- the order of a stream --- */

START_TEST(memory_is_as_that_of_malloc)
{
    aclrtPtrAttributes attributes;
    unsigned char *p = take(pool, 1000, stream), local[1000];

    keep_all(pool);
    OK(aclrtMemsetAsync(p, 1000, 7, 1000, stream));
    OK(aclrtSynchronizeStream(stream));
    OK(aclrtMemcpy(local, 1000, p, 1000, ACL_MEMCPY_DEVICE_TO_HOST));
    ck_assert(all_are(local, 1000, 7));
    OK(aclrtPointerGetAttributes(p + 999, &attributes));
    ck_assert_int_eq(attributes.location.type, ACL_MEM_LOCATION_TYPE_DEVICE);
    OK(aclrtMemset(p, 1024, 0, 1024));
    FAILS_SAYING(PARAM, "leave the allocation of 1000 bytes", aclrtMemset(p, 1025, 0, 1025));
    give(p, stream);
    /* A smaller allocation in the same block has its own end. */
    ck_assert_ptr_eq(take(pool, 100, stream), p);
    FAILS_SAYING(PARAM, "leave the allocation of 100 bytes", aclrtMemset(p, 1000, 0, 1000));
}
END_TEST

START_TEST(freed_memory_is_refused)
{
    aclrtPtrAttributes attributes;
    unsigned char *p = take(pool, 1000, stream), local[1000];
    aclrtEvent gate = stream_hold(stream);

    give(p, stream);
    for (int i = 0; i < 2; i++) { /* while the pool has it, and when npud has it again */
        FAILS_SAYING(PARAM, "was freed", aclrtMemset(p, 1, 0, 1));
        FAILS_SAYING(PARAM, "was freed", aclrtMemsetAsync(p, 1, 0, 1, stream));
        FAILS_SAYING(PARAM, "was freed",
                     aclrtMemcpy(local, 8, p + 500, 8, ACL_MEMCPY_DEVICE_TO_HOST));
        FAILS_SAYING(PARAM, "freed already", aclrtMemPoolFreeAsync(p, stream));
        FAILS_SAYING(PARAM, "freed already", aclrtFree(p));
        OK(aclrtPointerGetAttributes(p, &attributes));
        ck_assert_int_eq(attributes.location.type, ACL_MEM_LOCATION_TYPE_UNREGISTERED);
        expect_sizes(pool, 0, i == 0 ? 4096 : 0);
        stream_let_go(gate);
        OK(aclrtSynchronizeStream(stream));
        expect_sizes(pool, 0, 0);
    }
}
END_TEST

/* What the thread has seen of it before does not hold for the next allocation, nor for none. */
START_TEST(memory_that_is_lent_again_has_the_new_size)
{
    unsigned char *p = take(pool, 1000, stream);

    keep_all(pool);
    OK(aclrtMemset(p, 1000, 1, 1000));
    give(p, stream);
    FAILS_SAYING(PARAM, "was freed", aclrtMemset(p, 1000, 0, 1000));
    ck_assert_ptr_eq(take(pool, 500, stream), p);
    OK(aclrtMemset(p, 500, 2, 500));
    FAILS_SAYING(PARAM, "leave the allocation of 500 bytes", aclrtMemset(p, 1000, 2, 1000));
    give(p, stream);
}
END_TEST

/* Another process would have it while the pool gives it out again. */
START_TEST(memory_of_a_pool_is_not_exported)
{
    char key[65];
    void *p = take(pool, MIB, stream);

    FAILS_SAYING(PARAM, "is not the start of device memory",
                 aclrtIpcMemGetExportKey(p, MIB, key, sizeof(key), 0));
    keep_all(pool);
    give(p, stream);
    FAILS(PARAM, aclrtIpcMemGetExportKey(p, MIB, key, sizeof(key), 0));
}
END_TEST

/* What is used again on the same stream is not what the work before it sees. */
START_TEST(the_same_stream_has_it_again_at_once)
{
    unsigned char *first = take(pool, MIB, stream), *second, *a, *b;
    aclrtEvent gate = stream_hold(stream);

    OK(aclrtMalloc((void **)&a, MIB, ACL_MEM_MALLOC_HUGE_FIRST));
    OK(aclrtMalloc((void **)&b, MIB, ACL_MEM_MALLOC_HUGE_FIRST));
    OK(aclrtMemsetAsync(first, MIB, 1, MIB, stream));
    OK(aclrtMemcpyAsync(a, MIB, first, MIB, ACL_MEMCPY_DEVICE_TO_DEVICE, stream));
    give(first, stream);
    second = take(pool, MIB, stream);
    ck_assert_ptr_eq(second, first);
    OK(aclrtMemsetAsync(second, MIB, 2, MIB, stream));
    OK(aclrtMemcpyAsync(b, MIB, second, MIB, ACL_MEMCPY_DEVICE_TO_DEVICE, stream));
    stream_let_go(gate);
    OK(aclrtSynchronizeStream(stream));
    ck_assert(all_are(device_bytes(a, MIB), MIB, 1));
    ck_assert(all_are(device_bytes(b, MIB), MIB, 2));
}
END_TEST

START_TEST(other_streams_have_it_when_it_is_passed)
{
    unsigned char *first = take(pool, MIB, stream), *second;
    aclrtEvent gate = stream_hold(stream);

    keep_all(pool);
    give(first, stream);
    second = take(pool, MIB, other);
    ck_assert_ptr_ne(second, first);
    expect_sizes(pool, MIB, 2 * MIB);
    stream_let_go(gate);
    OK(aclrtSynchronizeStream(stream));
    ck_assert_ptr_eq(take(pool, MIB, other), first);
    /* Freed on the one stream, it is not the other's, whatever stream it was allocated for. */
    gate = stream_hold(stream);
    give(first, stream);
    ck_assert_ptr_ne(take(pool, MIB, other), first);
    ck_assert_ptr_eq(take(pool, MIB, stream), first);
    stream_let_go(gate);
}
END_TEST

START_TEST(only_the_same_stream_without_the_permission)
{
    int32_t off = 0;
    unsigned char *p = take(pool, MIB, stream);

    keep_all(pool);
    OK(aclrtMemPoolSetAttr(pool, ACL_RT_MEM_POOL_REUSE_ALLOW_OPPORTUNISTIC, &off));
    give(p, stream);
    OK(aclrtSynchronizeStream(stream));
    ck_assert_ptr_ne(take(pool, MIB, other), p);
    ck_assert_ptr_eq(take(pool, MIB, stream), p);
}
END_TEST

/* The stream is destroyed, and what it had freed is any stream's. */
START_TEST(a_stream_that_is_gone_has_passed)
{
    unsigned char *p = take(pool, MIB, stream);

    keep_all(pool);
    stream_hold(stream);
    give(p, stream);
    ck_assert_ptr_ne(take(pool, MIB, other), p);
    OK(aclrtDestroyStreamForce(stream));
    ck_assert_ptr_eq(take(pool, MIB, other), p);
}
END_TEST

/* --- what a pool keeps --- */

START_TEST(without_a_threshold_idle_memory_goes_back)
{
    unsigned char *p = take(pool, MIB, stream), *q = take(pool, 3 * MIB, stream);
    aclrtEvent gate;

    expect_sizes(pool, 4 * MIB, 4 * MIB);
    give(p, stream);
    expect_sizes(pool, 3 * MIB, 3 * MIB);
    gate = stream_hold(stream);
    give(q, stream);
    expect_sizes(pool, 0, 3 * MIB);
    OK(aclrtMemPoolTrimTo(pool, 0));
    expect_sizes(pool, 0, 3 * MIB);
    stream_let_go(gate);
    OK(aclrtSynchronizeStream(stream));
    expect_sizes(pool, 0, 0);
    expect_peaks(pool, 4 * MIB, 4 * MIB);
}
END_TEST

/* Each call gives back of some other pools, so that they end whichever pool is used. */
START_TEST(other_pools_have_their_turns)
{
    enum { POOLS = 40 };
    aclrtMemPool pools[POOLS];
    unsigned char *p[POOLS];
    aclrtEvent gate;

    for (int i = 0; i < POOLS; i++) {
        pools[i] = pool_new(0, 0);
        p[i] = take(pools[i], MIB, stream);
    }
    gate = stream_hold(stream);
    for (int i = 0; i < POOLS; i++) {
        give(p[i], stream);
        if (i % 2)
            OK(aclrtMemPoolDestroy(pools[i]));
    }
    for (int i = 0; i < POOLS; i++)
        give(take(pool, MIB, other), other);
    ck_assert_uint_eq(npud_ledger().memory, POOLS * MIB);
    stream_let_go(gate);
    OK(aclrtSynchronizeStream(stream));
    for (int i = 0; i < POOLS; i++)
        give(take(pool, MIB, other), other);
    ck_assert_uint_eq(npud_ledger().memory, 0);
}
END_TEST

START_TEST(a_threshold_keeps_idle_memory)
{
    uint64_t threshold = 3 * MIB;
    unsigned char *p[4];

    OK(aclrtMemPoolSetAttr(pool, ACL_RT_MEM_POOL_ATTR_RELEASE_THRESHOLD, &threshold));
    ck_assert_uint_eq(number(pool, ACL_RT_MEM_POOL_ATTR_RELEASE_THRESHOLD), threshold);
    for (int i = 0; i < 4; i++)
        p[i] = take(pool, MIB, stream);
    for (int i = 0; i < 4; i++)
        give(p[i], stream);
    expect_sizes(pool, 0, 3 * MIB);
    ck_assert_ptr_eq(take(pool, MIB, stream), p[1]); /* the first one freed went back */
    OK(aclrtMemPoolTrimTo(pool, 2 * MIB));
    expect_sizes(pool, MIB, 2 * MIB);
    OK(aclrtMemPoolTrimTo(pool, 0));
    expect_sizes(pool, MIB, MIB);
    give(p[1], stream);
    expect_sizes(pool, 0, MIB);
    threshold = MIB - 1;
    OK(aclrtMemPoolSetAttr(pool, ACL_RT_MEM_POOL_ATTR_RELEASE_THRESHOLD, &threshold));
    expect_sizes(pool, 0, 0);
}
END_TEST

START_TEST(blocks_are_of_about_the_size)
{
    unsigned char *large = take(pool, 8 * MIB, stream), *small = take(pool, 5000, stream);

    keep_all(pool);
    give(large, stream);
    give(small, stream);
    ck_assert_ptr_eq(take(pool, 8192, stream), small); /* two pages */
    ck_assert_ptr_ne(take(pool, 4 * MIB - 4096, stream), large);
    ck_assert_ptr_eq(take(pool, 4 * MIB, stream), large);
    expect_sizes(pool, 12 * MIB + 4096, 12 * MIB + 4096);
}
END_TEST

START_TEST(max_size_is_a_limit)
{
    aclrtMemPool limited = pool_new(0, 4 * MIB);
    unsigned char *p = take(limited, 3 * MIB, stream), *q;
    aclrtEvent gate;
    void *none = &gate;

    keep_all(limited);
    FAILS_SAYING(FULL, "may reserve 4194304",
                 aclrtMemPoolMallocAsync(&none, MIB + 1, limited, stream));
    ck_assert_ptr_eq(none, &gate);
    q = take(limited, MIB, stream);
    FAILS(FULL, aclrtMemPoolMallocAsync(&none, 1, limited, stream));
    FAILS(FULL, aclrtMemPoolMallocAsync(&none, 5 * MIB, limited, stream));
    gate = stream_hold(stream);
    give(p, stream);
    /* Too large for what is asked, and not passed yet. */
    FAILS(FULL, aclrtMemPoolMallocAsync(&none, MIB, limited, stream));
    stream_let_go(gate);
    OK(aclrtSynchronizeStream(stream));
    ck_assert_ptr_ne(take(limited, MIB, stream), p);
    expect_sizes(limited, 2 * MIB, 2 * MIB);
    give(q, stream);
}
END_TEST

START_TEST(free_gives_it_back_at_once)
{
    unsigned char *p = take(pool, MIB, stream), *q = take(pool, MIB, stream);

    keep_all(pool);
    OK(aclrtFree(p));
    expect_sizes(pool, MIB, MIB);
    FAILS_SAYING(PARAM, "freed already", aclrtFree(p));
    FAILS_SAYING(PARAM, "freed already", aclrtMemPoolFreeAsync(p, stream));
    FAILS_SAYING(PARAM, "was freed", aclrtMemset(p, 1, 0, 1));
    FAILS(PARAM, aclrtFree(q + 1));
    FAILS(PARAM, aclrtFreeHost(q));
    give(q, stream);
    expect_sizes(pool, 0, MIB);
}
END_TEST

/* --- when memory is short --- */

static void start_small(void)
{
    static const char *const args[] = {"--set=sim.memory=64M", NULL};

    npud_start(args);
    open_pool();
    keep_all(pool);
}

static aclError from_malloc(void **p, size_t size)
{
    return aclrtMallocAlign32(p, size, ACL_MEM_MALLOC_HUGE_FIRST);
}

static aclrtMemPool second;

static aclError from_second_pool(void **p, size_t size)
{
    return aclrtMemPoolMallocAsync(p, size, second, other);
}

static aclError from_same_pool(void **p, size_t size)
{
    return aclrtMemPoolMallocAsync(p, size, pool, other);
}

static aclError (*const takers[])(void **p, size_t size) = {from_malloc, from_second_pool,
                                                            from_same_pool};

START_TEST(pools_make_room)
{
    unsigned char *held, *idle, *busy;
    aclrtEvent gate;
    void *p;

    start_small();
    second = pool_new(0, 0);
    held = take(pool, 10 * MIB, stream);
    idle = take(pool, 30 * MIB, stream);
    busy = take(pool, 20 * MIB, stream);
    give(idle, stream);
    OK(aclrtSynchronizeStream(stream));
    gate = stream_hold(stream);
    give(busy, stream);
    expect_sizes(pool, 10 * MIB, 60 * MIB);
    FAILS(FULL, takers[_i](&p, 35 * MIB)); /* that is more than becomes free */
    expect_sizes(pool, 10 * MIB, 30 * MIB);
    aclrtGetLastError(ACL_RT_THREAD_LEVEL);
    busy = take(pool, 20 * MIB, stream); /* has made no room */
    OK(takers[_i](&p, 34 * MIB));
    ck_assert_uint_eq(npud_ledger().memory, 64 * MIB);
    OK(aclrtMemset(held, 10 * MIB, 1, 10 * MIB));
    stream_let_go(gate);
    OK(aclrtSynchronizeStream(stream));
    npud_teardown();
}
END_TEST

/* What failed at first is no error of a call that succeeds. */
START_TEST(room_is_made_silently)
{
    void *p;

    start_small();
    give(take(pool, 60 * MIB, stream), stream);
    OK(aclrtSynchronizeStream(stream));
    expect_sizes(pool, 0, 60 * MIB);
    OK(from_malloc(&p, 64 * MIB));
    ck_assert_int_eq(aclrtPeekAtLastError(ACL_RT_THREAD_LEVEL), 0);
    ck_assert_ptr_null(aclGetRecentErrMsg());
    OK(aclrtFree(p));
    FAILS(FULL, from_malloc(&p, 65 * MIB));
    /* Pinned memory is not the device's. */
    give(take(pool, 60 * MIB, stream), stream);
    OK(aclrtMallocHost(&p, MIB));
    OK(aclrtFreeHost(p));
    expect_sizes(pool, 0, 60 * MIB);
    npud_teardown();
}
END_TEST

/* --- ends --- */

START_TEST(a_destroyed_pool_leaves_what_the_program_has)
{
    unsigned char *p = take(pool, MIB, stream), *q = take(pool, MIB, stream),
                  *idle = take(pool, MIB, stream);
    uint64_t value;
    void *none;

    keep_all(pool);
    give(idle, stream);
    OK(aclrtSynchronizeStream(stream));
    OK(aclrtMemPoolDestroy(pool));
    ck_assert_uint_eq(npud_ledger().memory, 2 * MIB);
    FAILS(GONE, aclrtMemPoolDestroy(pool));
    FAILS(GONE, aclrtMemPoolMallocAsync(&none, 1, pool, stream));
    FAILS(GONE, aclrtMemPoolTrimTo(pool, 0));
    FAILS(GONE, aclrtMemPoolGetAttr(pool, ACL_RT_MEM_POOL_ATTR_USED_MEM_HIGH, &value));
    FAILS(GONE, aclrtMemPoolSetAttr(pool, ACL_RT_MEM_POOL_ATTR_USED_MEM_HIGH, &value));
    OK(aclrtMemsetAsync(p, MIB, 1, MIB, stream));
    OK(aclrtSynchronizeStream(stream));
    give(p, stream);
    ck_assert_uint_eq(npud_ledger().memory, MIB);
    OK(aclrtFree(q));
    ck_assert_uint_eq(npud_ledger().memory, 0);
    ck_assert_ptr_ne(pool_new(0, 0), pool);
    FAILS(GONE, aclrtMemPoolTrimTo(pool, 0));
}
END_TEST

/* What was freed on a stream that has not come there goes with a later call. */
START_TEST(a_destroyed_pool_waits_for_no_stream)
{
    unsigned char *p = take(pool, MIB, stream);
    aclrtMemPool next = pool_new(0, 0);
    aclrtEvent gate = stream_hold(stream);

    OK(aclrtMemsetAsync(p, MIB, 1, MIB, stream));
    give(p, stream);
    OK(aclrtMemPoolDestroy(pool));
    ck_assert_uint_eq(npud_ledger().memory, MIB);
    stream_let_go(gate);
    OK(aclrtSynchronizeStream(stream)); /* the fill has had its memory */
    OK(aclrtMemPoolTrimTo(next, 0));
    ck_assert_uint_eq(npud_ledger().memory, 0);
}
END_TEST

START_TEST(a_reset_ends_pools_of_the_device)
{
    aclrtMemPool elsewhere = pool_new(1, 0);
    aclrtStream on_one;
    unsigned char *p = take(pool, MIB, stream), *q;

    keep_all(pool);
    give(take(pool, 2 * MIB, stream), stream);
    OK(aclrtSetDevice(1));
    OK(aclrtCreateStream(&on_one));
    q = take(elsewhere, MIB, on_one);
    OK(aclrtResetDevice(0));
    ck_assert_uint_eq(npud_ledger().memory, MIB);
    FAILS(GONE, aclrtMemPoolTrimTo(pool, 0));
    FAILS_SAYING(PARAM, "freed already", aclrtMemPoolFreeAsync(p, on_one));
    expect_sizes(elsewhere, MIB, MIB);
    give(q, on_one);
    OK(aclrtResetDevice(1));
    FAILS(GONE, aclrtMemPoolTrimTo(elsewhere, 0));
    ck_assert_uint_eq(npud_ledger().memory, 0);
    OK(aclrtSetDevice(0));
    OK(aclrtCreateStream(&stream));
    FAILS(GONE, aclrtMemPoolMallocAsync((void **)&p, 1, pool, stream));
    OK(aclrtMemPoolDestroy(pool_new(0, 0)));
}
END_TEST

START_TEST(pools_end_with_the_session)
{
    keep_all(pool);
    take(pool, MIB, stream);
    give(take(pool, MIB, stream), stream);
    session_close();
    npud_expect_empty();
    FAILS(GONE, aclrtMemPoolTrimTo(pool, 0));
    session_open();
    FAILS(GONE, aclrtMemPoolTrimTo(pool, 0));
    OK(aclrtMemPoolDestroy(pool_new(0, 0)));
}
END_TEST

START_TEST(a_restart_changes_nothing)
{
    unsigned char *p, *q;
    aclrtEvent gate;

    npud_start_restartable(NULL);
    open_pool();
    p = take(pool, MIB, stream);
    q = take(pool, MIB, stream);
    gate = stream_hold(stream);
    OK(aclrtMemsetAsync(p, MIB, 1, MIB, stream));
    give(q, stream);
    npud_kill_server();
    expect_sizes(pool, MIB, 2 * MIB);
    ck_assert_ptr_eq(take(pool, MIB, stream), q);
    OK(aclrtMemcpyAsync(q, MIB, p, MIB, ACL_MEMCPY_DEVICE_TO_DEVICE, stream));
    stream_let_go(gate);
    OK(aclrtSynchronizeStream(stream));
    ck_assert(all_are(device_bytes(q, MIB), MIB, 1));
    give(p, stream);
    give(q, stream);
    expect_sizes(pool, 0, 0);
    npud_teardown();
}
END_TEST

/* --- threads --- */

enum { THREADS = 4, TURNS = 200, PIECE = 3 * 4096 };

/* What a thread has in the order of its stream is not another one's. */
static void *use_pool(void *arg)
{
    unsigned char tag = *(unsigned char *)arg, *pinned;
    aclrtStream own;

    OK(aclrtSetDevice(0));
    OK(aclrtCreateStream(&own));
    OK(aclrtMallocHost((void **)&pinned, PIECE));
    for (int i = 0; i < TURNS; i++) {
        unsigned char *p = take(pool, (size_t)(1 + i % 3) * 4096, own);

        OK(aclrtMemsetAsync(p, 4096, tag, 4096, own));
        OK(aclrtMemcpyAsync(pinned, PIECE, p, 4096, ACL_MEMCPY_DEVICE_TO_HOST, own));
        if (i % 7 == 0)
            OK(aclrtSynchronizeStream(own));
        if (i % 11 == 0) {
            OK(aclrtSynchronizeStream(own));
            OK(aclrtFree(p));
        } else {
            give(p, own);
        }
        if (i % 7 == 0)
            ck_assert(all_are(pinned, 4096, tag));
    }
    OK(aclrtSynchronizeStream(own));
    ck_assert(all_are(pinned, 4096, tag));
    OK(aclrtFreeHost(pinned));
    OK(aclrtDestroyStream(own));
    return NULL;
}

START_TEST(threads_share_a_pool)
{
    unsigned char tags[THREADS];
    pthread_t threads[THREADS];
    uint64_t some = (uint64_t)_i * 8 * 4096;

    OK(aclrtMemPoolSetAttr(pool, ACL_RT_MEM_POOL_ATTR_RELEASE_THRESHOLD, &some));
    for (int i = 0; i < THREADS; i++) {
        tags[i] = (unsigned char)(i + 1);
        ck_assert_int_eq(pthread_create(&threads[i], NULL, use_pool, &tags[i]), 0);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    ck_assert_uint_eq(number(pool, ACL_RT_MEM_POOL_ATTR_USED_MEM_CURRENT), 0);
    OK(aclrtMemPoolTrimTo(pool, 0));
    expect_sizes(pool, 0, 0);
}
END_TEST

/* --- arguments --- */

START_TEST(properties)
{
    const aclrtMemPoolProps good = {.location = {0, ACL_MEM_LOCATION_TYPE_DEVICE}};
    aclrtMemPoolProps props[8];
    aclrtMemPool p = &p;

    for (int i = 0; i < 8; i++)
        props[i] = good;
    props[0].allocType = (aclrtMemAllocationType)1;
    props[1].location.type = ACL_MEM_LOCATION_TYPE_HOST;
    props[2].location.type = (aclrtMemLocationType)9;
    props[3].reserved[0] = 1;
    props[4].reserved[31] = 1;
    props[5].location.id = 2;
    props[6].location.id = UINT32_MAX;
    props[7].handleType = ACL_MEM_HANDLE_TYPE_POSIX;
    FAILS(BAD, aclrtMemPoolCreate(NULL, &good));
    FAILS(BAD, aclrtMemPoolCreate(&p, NULL));
    for (int i = 0; i < 5; i++)
        FAILS(BAD, aclrtMemPoolCreate(&p, &props[i]));
    FAILS(ACL_ERROR_RT_INVALID_DEVICEID, aclrtMemPoolCreate(&p, &props[5]));
    FAILS(ACL_ERROR_RT_INVALID_DEVICEID, aclrtMemPoolCreate(&p, &props[6]));
    FAILS(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, aclrtMemPoolCreate(&p, &props[7]));
    ck_assert_ptr_eq(p, &p);
}
END_TEST

static void *create_without_context(void *arg)
{
    const aclrtMemPoolProps good = {.location = {0, ACL_MEM_LOCATION_TYPE_DEVICE}};
    aclrtMemPool p;
    void *memory;

    (void)arg;
    FAILS(ACL_ERROR_RT_CONTEXT_NULL, aclrtMemPoolCreate(&p, &good));
    FAILS(ACL_ERROR_RT_CONTEXT_NULL, aclrtMemPoolMallocAsync(&memory, 1, pool, stream));
    FAILS(ACL_ERROR_RT_CONTEXT_NULL, aclrtMemPoolFreeAsync(&p, stream));
    OK(aclrtMemPoolTrimTo(pool, 0)); /* a matter of the pool alone */
    return NULL;
}

START_TEST(allocation_errors)
{
    aclrtContext context;
    aclrtStream gone;
    void *p = &p, *plain;

    OK(aclrtMemPoolMallocAsync(&p, 0, pool, stream));
    ck_assert_ptr_eq(p, &p);
    OK(aclrtMemPoolMallocAsync(NULL, 0, NULL, NULL));
    FAILS(BAD, aclrtMemPoolMallocAsync(NULL, 1, pool, stream));
    FAILS(BAD, aclrtMemPoolMallocAsync(&p, 1, NULL, stream));
    FAILS(BAD, aclrtMemPoolMallocAsync(&p, 1, pool, NULL));
    FAILS(BAD, aclrtMemPoolMallocAsync(&p, SIZE_MAX, pool, stream));
    FAILS(GONE, aclrtMemPoolMallocAsync(&p, 1, &p, stream));
    FAILS(GONE, aclrtMemPoolMallocAsync(&p, 1, stream, stream));
    FAILS(GONE, aclrtMemPoolMallocAsync(&p, 1, pool, pool));
    FAILS(FULL, aclrtMemPoolMallocAsync(&p, SIZE_MAX / 4, pool, stream));
    ck_assert_ptr_eq(p, &p);
    OK(aclrtCreateStream(&gone));
    OK(aclrtDestroyStream(gone));
    FAILS(GONE, aclrtMemPoolMallocAsync(&p, 1, pool, gone));
    FAILS(BAD, aclrtMemPoolFreeAsync(NULL, stream));
    FAILS(BAD, aclrtMemPoolFreeAsync(&p, NULL));
    FAILS_SAYING(PARAM, "not the start", aclrtMemPoolFreeAsync(&p, stream));
    OK(aclrtMalloc(&plain, 64, 0));
    FAILS_SAYING(PARAM, "not the start", aclrtMemPoolFreeAsync(plain, stream));
    p = take(pool, 64, stream);
    FAILS_SAYING(PARAM, "not the start", aclrtMemPoolFreeAsync((char *)p + 32, stream));
    FAILS(GONE, aclrtMemPoolFreeAsync(p, gone));
    OK(aclrtCreateContext(&context, 0));
    FAILS(ACL_ERROR_RT_STREAM_CONTEXT, aclrtMemPoolFreeAsync(p, stream));
    FAILS(ACL_ERROR_RT_STREAM_CONTEXT, aclrtMemPoolMallocAsync(&p, 1, pool, stream));
    OK(aclrtDestroyContext(context));
    thread_call(create_without_context, NULL);
    OK(aclrtSetDevice(1));
    OK(aclrtCreateStream(&gone));
    FAILS_SAYING(ACL_ERROR_RT_STREAM_CONTEXT, "of device 1, and the pool of device 0",
                 aclrtMemPoolMallocAsync(&p, 1, pool, gone));
    give(p, gone); /* a stream of another device can have used it */
    ck_assert_uint_eq(number(pool, ACL_RT_MEM_POOL_ATTR_USED_MEM_CURRENT), 0);
}
END_TEST

static const struct {
    aclrtMemPoolAttr attr;
    uint64_t value;
    aclError error;
} settings[] = {
    {(aclrtMemPoolAttr)0, 0, BAD},
    {(aclrtMemPoolAttr)9, 0, BAD},
    {(aclrtMemPoolAttr)-1, 0, BAD},
    {ACL_RT_MEM_POOL_REUSE_FOLLOW_EVENT_DEPENDENCIES, 0, 0},
    {ACL_RT_MEM_POOL_REUSE_FOLLOW_EVENT_DEPENDENCIES, 2, PARAM},
    {ACL_RT_MEM_POOL_REUSE_ALLOW_OPPORTUNISTIC, 0, 0},
    {ACL_RT_MEM_POOL_REUSE_ALLOW_INTERNAL_DEPENDENCIES, 0, 0},
    {ACL_RT_MEM_POOL_REUSE_ALLOW_INTERNAL_DEPENDENCIES, UINT32_MAX, PARAM},
    {ACL_RT_MEM_POOL_ATTR_RELEASE_THRESHOLD, UINT64_MAX, 0},
    {ACL_RT_MEM_POOL_ATTR_RESERVED_MEM_CURRENT, 0, PARAM},
    {ACL_RT_MEM_POOL_ATTR_RESERVED_MEM_HIGH, 0, 0},
    {ACL_RT_MEM_POOL_ATTR_RESERVED_MEM_HIGH, 1, PARAM},
    {ACL_RT_MEM_POOL_ATTR_USED_MEM_CURRENT, 0, PARAM},
    {ACL_RT_MEM_POOL_ATTR_USED_MEM_HIGH, 0, 0},
    {ACL_RT_MEM_POOL_ATTR_USED_MEM_HIGH, UINT64_MAX, PARAM},
};

START_TEST(attributes_can_be_set)
{
    aclrtMemPoolAttr attr = settings[_i].attr;
    uint64_t value = settings[_i].value, is = UINT64_MAX - 1;
    bool number_of_switch = attr <= ACL_RT_MEM_POOL_REUSE_ALLOW_INTERNAL_DEPENDENCIES;

    ck_assert_int_eq(aclrtMemPoolSetAttr(pool, attr, &value), settings[_i].error);
    if (settings[_i].error == BAD) {
        FAILS(BAD, aclrtMemPoolGetAttr(pool, attr, &is));
        return;
    }
    OK(aclrtMemPoolGetAttr(pool, attr, &is));
    if (number_of_switch) /* an int32_t, and what is behind it stays */
        ck_assert_uint_eq(is >> 32, UINT32_MAX);
    if (number_of_switch)
        is &= UINT32_MAX;
    ck_assert_uint_eq(is, settings[_i].error == 0 ? value : number_of_switch);
    FAILS(BAD, aclrtMemPoolSetAttr(NULL, attr, &value));
    FAILS(BAD, aclrtMemPoolSetAttr(pool, attr, NULL));
    FAILS(BAD, aclrtMemPoolGetAttr(NULL, attr, &value));
    FAILS(BAD, aclrtMemPoolGetAttr(pool, attr, NULL));
    FAILS(GONE, aclrtMemPoolSetAttr(&value, attr, &value));
    FAILS(GONE, aclrtMemPoolGetAttr(stream, attr, &value));
}
END_TEST

START_TEST(peaks_begin_anew)
{
    uint64_t zero = 0;
    unsigned char *p = take(pool, 2 * MIB, stream);

    keep_all(pool);
    give(take(pool, 3 * MIB, stream), stream);
    expect_peaks(pool, 5 * MIB, 5 * MIB);
    OK(aclrtMemPoolSetAttr(pool, ACL_RT_MEM_POOL_ATTR_USED_MEM_HIGH, &zero));
    expect_peaks(pool, 2 * MIB, 5 * MIB);
    OK(aclrtMemPoolTrimTo(pool, 0));
    OK(aclrtMemPoolSetAttr(pool, ACL_RT_MEM_POOL_ATTR_RESERVED_MEM_HIGH, &zero));
    expect_peaks(pool, 2 * MIB, 2 * MIB);
    give(p, stream);
    expect_peaks(pool, 2 * MIB, 2 * MIB);
}
END_TEST

START_TEST(null_and_no_pool)
{
    FAILS(BAD, aclrtMemPoolDestroy(NULL));
    FAILS(BAD, aclrtMemPoolTrimTo(NULL, 0));
    FAILS(GONE, aclrtMemPoolDestroy(&pool));
    FAILS(GONE, aclrtMemPoolTrimTo(stream, 0));
}
END_TEST

#define COUNT(array) (int)(sizeof(array) / sizeof((array)[0]))

int main(void)
{
    Suite *s = suite_create("memory_pool");
    TCase *order = suite_case(s, "order", 60, set_up_test, npud_teardown);
    TCase *keeping = suite_case(s, "keeping", 60, set_up_test, npud_teardown);
    TCase *own = suite_case(s, "own npud", 60, NULL, NULL);
    TCase *ends = suite_case(s, "ends", 60, set_up_test, npud_teardown);
    TCase *arguments = suite_case(s, "arguments", 60, set_up_test, npud_teardown);

    tcase_add_test(order, memory_is_as_that_of_malloc);
    tcase_add_test(order, freed_memory_is_refused);
    tcase_add_test(order, memory_that_is_lent_again_has_the_new_size);
    tcase_add_test(order, memory_of_a_pool_is_not_exported);
    tcase_add_test(order, the_same_stream_has_it_again_at_once);
    tcase_add_test(order, other_streams_have_it_when_it_is_passed);
    tcase_add_test(order, only_the_same_stream_without_the_permission);
    tcase_add_test(order, a_stream_that_is_gone_has_passed);
    tcase_add_loop_test(order, threads_share_a_pool, 0, 2);
    tcase_add_test(keeping, without_a_threshold_idle_memory_goes_back);
    tcase_add_test(keeping, other_pools_have_their_turns);
    tcase_add_test(keeping, a_threshold_keeps_idle_memory);
    tcase_add_test(keeping, blocks_are_of_about_the_size);
    tcase_add_test(keeping, max_size_is_a_limit);
    tcase_add_test(keeping, free_gives_it_back_at_once);
    tcase_add_loop_test(own, pools_make_room, 0, COUNT(takers));
    tcase_add_test(own, room_is_made_silently);
    tcase_add_test(own, a_restart_changes_nothing);
    tcase_add_test(ends, a_destroyed_pool_leaves_what_the_program_has);
    tcase_add_test(ends, a_destroyed_pool_waits_for_no_stream);
    tcase_add_test(ends, a_reset_ends_pools_of_the_device);
    tcase_add_test(ends, pools_end_with_the_session);
    tcase_add_test(arguments, properties);
    tcase_add_test(arguments, allocation_errors);
    tcase_add_loop_test(arguments, attributes_can_be_set, 0, COUNT(settings));
    tcase_add_test(arguments, peaks_begin_anew);
    tcase_add_test(arguments, null_and_no_pool);
    return run_suite(s);
}
