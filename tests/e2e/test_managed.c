/*
 * Managed memory: allocation, copies between all places, advice and prefetching as they are given
 * back.
 *
 * Skipped under TSan: the test asks one call after the other.
 */
#include <stdint.h>
#include <string.h>

#include "device_bytes.h"
#include "tests/common/harness.h"
#include "tests/e2e/pattern.h"

#define KIB      ((size_t)1 << 10)
#define MIB      ((size_t)1 << 20)
#define BLOCK    (2 * MIB)
#define GLOBAL   ACL_RT_MEM_ATTACH_GLOBAL
#define NULL_ARG ACL_ERROR_INVALID_PARAM
#define PARAM    ACL_ERROR_RT_PARAM_INVALID
#define UNBOUND  ACL_ERROR_RT_CONTEXT_NULL
#define BAD_ID   ACL_ERROR_RT_INVALID_DEVICEID
#define DEVICE   ACL_MEM_LOCATIONTYPE_DEVICE
#define HOST     ACL_MEM_LOCATIONTYPE_HOST
#define NUMA     ACL_MEM_LOCATIONTYPE_HOST_NUMA
#define CURRENT  ACL_MEM_LOCATIONTYPE_HOST_NUMA_CURRENT

typedef aclrtMemManagedLocation location;

static aclrtStream stream, other;
static unsigned char *managed, *freed; /* four blocks */

static unsigned char *managed_new(size_t size)
{
    void *p;

    OK(aclrtMemAllocManaged(&p, size, GLOBAL));
    return p;
}

static void open_device(void)
{
    streams_open(&stream, &other);
    managed = managed_new(4 * BLOCK);
    freed = managed_new(BLOCK);
    OK(aclrtFree(freed));
}

static void set_up_test(void)
{
    npud_setup();
    open_device();
}

/* --- allocation --- */

START_TEST(sizes_are_rounded_to_blocks)
{
    static const size_t sizes[] = {1, BLOCK - 1, BLOCK, BLOCK + 1, 5 * MIB};

    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        size_t rounded = (sizes[i] + BLOCK - 1) / BLOCK * BLOCK, size = 0;
        uint64_t before = npud_ledger().memory;
        unsigned char *p = managed_new(sizes[i]);

        ck_assert_uint_eq(npud_ledger().memory - before, rounded);
        OK(aclrtMemGetAddressRange(p, NULL, &size));
        ck_assert_uint_eq(size, rounded);
        OK(aclrtMemset(p, rounded, 7, rounded));
        FAILS_SAYING(PARAM, "leave the allocation", aclrtMemset(p, rounded + 1, 7, rounded + 1));
        OK(aclrtFree(p));
        ck_assert_uint_eq(npud_ledger().memory, before);
    }
}
END_TEST

static void *allocate_unbound(void *arg)
{
    void *p;

    (void)arg;
    FAILS(PARAM, aclrtMemAllocManaged(&p, 0, GLOBAL));
    FAILS(UNBOUND, aclrtMemAllocManaged(&p, 1, GLOBAL));
    return NULL;
}

START_TEST(allocation_is_checked)
{
    uint64_t tib = UINT64_C(1) << 40;
    void *p;

    FAILS_SAYING(NULL_ARG, "ptr", aclrtMemAllocManaged(NULL, 1, GLOBAL));
    FAILS_SAYING(NULL_ARG, "flag", aclrtMemAllocManaged(&p, 1, 0));
    FAILS_SAYING(NULL_ARG, "flag", aclrtMemAllocManaged(&p, 0, 2));
    FAILS(PARAM, aclrtMemAllocManaged(&p, 0, GLOBAL));
    FAILS_SAYING(ACL_ERROR_RT_MEMORY_ALLOCATION, "3 TiB",
                 aclrtMemAllocManaged(&p, 3 * tib + 1, GLOBAL));
    FAILS_SAYING(ACL_ERROR_RT_MEMORY_ALLOCATION, "3 TiB",
                 aclrtMemAllocManaged(&p, 3 * tib - 4 * BLOCK + 1, GLOBAL)); /* with `managed` */
    FAILS_SAYING(ACL_ERROR_RT_MEMORY_ALLOCATION, "3 TiB",
                 aclrtMemAllocManaged(&p, UINT64_MAX, GLOBAL));
    thread_call(allocate_unbound, NULL);
}
END_TEST

START_TEST(it_is_freed_as_device_memory)
{
    unsigned char *p = managed_new(1);
    void *host, *device;

    FAILS(PARAM, aclrtFreeHost(p));
    FAILS(PARAM, aclrtFree(p + 1));
    OK(aclrtFree(p));
    FAILS_SAYING(PARAM, "was freed already", aclrtFree(p));
    FAILS_SAYING(PARAM, "was freed", aclrtMemset(p, 8, 0, 8));
    p = managed_new(1);
    OK(aclrtFreeWithDevSync(p));
    FAILS(PARAM, aclrtFreeWithDevSync(p));
    OK(aclrtMallocHost(&host, 8));
    OK(aclrtMalloc(&device, 8, 0));
    FAILS(PARAM, aclrtFree(host));
    FAILS(PARAM, aclrtFreeHost(device));
}
END_TEST

START_TEST(it_is_what_it_is)
{
    aclrtPtrAttributes a;

    for (size_t offset = 0; offset < 4 * BLOCK; offset += MIB + 1) {
        OK(aclrtPointerGetAttributes(managed + offset, &a));
        ck_assert_int_eq(a.location.type, ACL_MEM_LOCATION_TYPE_MANAGED);
        ck_assert_uint_eq(a.location.id, 0);
    }
    OK(aclrtPointerGetAttributes(freed, &a));
    ck_assert_int_eq(a.location.type, ACL_MEM_LOCATION_TYPE_UNREGISTERED);
}
END_TEST

/* It counts as memory of the host, and stays when a device is reset. */
START_TEST(it_is_of_no_device)
{
    size_t before, after, total;
    unsigned char *p;

    OK(aclrtGetMemInfo(ACL_HBM_MEM, &before, &total));
    p = managed_new(8 * MIB);
    OK(aclrtGetMemInfo(ACL_HBM_MEM, &after, &total));
    ck_assert_uint_eq(before, after);
    fill_pattern(p, 8 * MIB, 1);
    OK(aclrtResetDeviceForce(0));
    OK(aclrtSetDevice(1));
    ck_assert(holds_pattern(p, 8 * MIB, 1));
    OK(aclrtMemset(p, 8 * MIB, 2, 8 * MIB));
    OK(aclrtFree(p));
}
END_TEST

START_TEST(it_counts_against_host_memory)
{
    static const char *const args[] = {"--set=limits.host_memory=16M", NULL};
    void *p;

    npud_start(args);
    open_device();
    OK(aclrtMemAllocManaged(&p, 8 * MIB, GLOBAL)); /* the other 8 MiB are `managed` */
    FAILS(ACL_ERROR_RT_MEMORY_ALLOCATION, aclrtMemAllocManaged(&p, 1, GLOBAL));
    FAILS(ACL_ERROR_RT_MEMORY_ALLOCATION, aclrtMallocHost(&p, 1));
    OK(aclrtMalloc(&p, MIB, 0));
}
END_TEST

/* --- copies and fills --- */

#define SIZE (64 * KIB + 7)

static unsigned char heap[SIZE], bytes[SIZE];

/* To and from memory of any kind, of either device, in the order of the stream. */
START_TEST(copies_reach_it)
{
    unsigned char *second = managed_new(SIZE);
    void *places[] = {heap, NULL, NULL, second};

    if (_i == 1)
        OK(aclrtSetDevice(1));
    OK(aclrtMallocHost(&places[1], SIZE));
    OK(aclrtMalloc(&places[2], SIZE, 0));
    for (unsigned i = 0; i < 4; i++) {
        fill_pattern(bytes, SIZE, i);
        device_put(places[i], bytes, SIZE);
        OK(aclnpudLaunchDelay(1000, 0, NULL));
        OK(aclrtMemcpyAsync(managed, SIZE, places[i], SIZE, ACL_MEMCPY_DEFAULT, NULL));
        memset(second == places[i] ? heap : second, 0, SIZE);
        OK(aclrtMemcpyAsync(managed + BLOCK, SIZE, managed, SIZE, ACL_MEMCPY_DEVICE_TO_DEVICE,
                            NULL));
        OK(aclrtMemsetAsync(managed, SIZE, 0, SIZE, NULL));
        OK(aclrtSynchronizeStream(NULL));
        ck_assert(all_are(managed, SIZE, 0));
        OK(aclrtMemset(places[i], SIZE, 0, SIZE));
        OK(aclrtMemcpyAsync(places[i], SIZE, managed + BLOCK, SIZE, ACL_MEMCPY_DEFAULT, NULL));
        OK(aclrtSynchronizeStream(NULL));
        ck_assert(holds_pattern(device_bytes(places[i], SIZE), SIZE, i));
    }
}
END_TEST

/* Both kinds of memory at once: a buffered copy may take it, or go there. */
START_TEST(all_kinds_of_copies_fit)
{
    void *device, *host;

    OK(aclrtMalloc(&device, SIZE, 0));
    OK(aclrtMallocHost(&host, SIZE));
    fill_pattern(host, SIZE, 3);
    for (int kind = 0; kind <= ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE; kind++) {
        OK(aclrtMemset(device, SIZE, 0, SIZE));
        OK(aclrtMemcpyAsync(managed, SIZE, host, SIZE, kind, stream));
        OK(aclrtMemcpyAsync(device, SIZE, managed, SIZE, kind, stream));
        OK(aclrtSynchronizeStream(stream));
        ck_assert(holds_pattern(device_bytes(device, SIZE), SIZE, 3));
    }
    FAILS(PARAM,
          aclrtMemcpyAsync(managed, SIZE, device, SIZE, ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE, stream));
}
END_TEST

START_TEST(fills_wait_for_their_turn)
{
    aclrtEvent gate;

    memset(managed, 0, SIZE);
    gate = stream_hold(stream);
    OK(aclrtMemsetAsync(managed, SIZE, 5, SIZE, stream));
    ck_assert(all_are(managed, SIZE, 0));
    stream_let_go(gate);
    OK(aclrtSynchronizeStream(stream));
    ck_assert(all_are(managed, SIZE, 5));
}
END_TEST

START_TEST(what_goes_before_its_task_is_an_error)
{
    unsigned char *p = managed_new(SIZE);
    aclrtEvent gate = stream_hold(stream);

    OK(aclrtMemcpyAsync(managed, SIZE, p, SIZE, ACL_MEMCPY_DEFAULT, stream));
    OK(aclrtFree(p));
    stream_let_go(gate);
    FAILS(ACL_ERROR_RT_SYS_DMA, aclrtSynchronizeStream(stream));
}
END_TEST

START_TEST(words_of_it_are_not_waited_for)
{
    FAILS_SAYING(PARAM, "is not device memory", aclrtValueWait(managed, 1, 0, stream));
    FAILS_SAYING(PARAM, "is not device memory", aclrtValueWrite(managed, 1, 0, stream));
}
END_TEST

/* --- advice --- */

enum attribute {
    MOSTLY = ACL_MEM_RANGE_ATTRIBUTE_READ_MOSTLY,
    PREFERRED = ACL_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION,
    ACCESSED = ACL_MEM_RANGE_ATTRIBUTE_ACCESSED_BY,
    PREFERRED_TYPE = ACL_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_TYPE,
    PREFERRED_ID = ACL_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_ID,
    PREFETCHED = ACL_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION,
    PREFETCHED_TYPE = ACL_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_TYPE,
    PREFETCHED_ID = ACL_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_ID,
};

static int32_t attribute_of(size_t offset, size_t size, enum attribute attribute)
{
    int32_t value = 77;

    OK(aclrtMemManagedGetAttr((aclrtMemManagedRangeAttribute)attribute, managed + offset, size,
                              &value, sizeof(value)));
    return value;
}

static void advise(size_t offset, size_t size, aclrtMemManagedAdviseType type, int kind, int id)
{
    OK(aclrtMemManagedAdvise(managed + offset, size, type,
                             (location){.type = (aclrtMemManagedLocationType)kind, .id = id}));
}

static void expect_accessors(size_t offset, size_t size, int32_t a, int32_t b, int32_t c)
{
    int32_t ids[3] = {77, 77, 77};

    OK(aclrtMemManagedGetAttr((aclrtMemManagedRangeAttribute)ACCESSED, managed + offset, size, ids,
                              sizeof(ids)));
    ck_assert_int_eq(ids[0], a);
    ck_assert_int_eq(ids[1], b);
    ck_assert_int_eq(ids[2], c);
}

START_TEST(nothing_was_advised)
{
    ck_assert_int_eq(attribute_of(0, 1, MOSTLY), 0);
    ck_assert_int_eq(attribute_of(0, 1, PREFERRED), -2);
    ck_assert_int_eq(attribute_of(0, 1, PREFERRED_TYPE), ACL_MEM_LOCATIONTYPE_INVALID);
    ck_assert_int_eq(attribute_of(0, 1, PREFERRED_ID), -2);
    ck_assert_int_eq(attribute_of(0, 1, PREFETCHED), -2);
    ck_assert_int_eq(attribute_of(0, 1, PREFETCHED_TYPE), ACL_MEM_LOCATIONTYPE_INVALID);
    ck_assert_int_eq(attribute_of(0, 1, PREFETCHED_ID), -2);
    expect_accessors(0, 1, -2, -2, -2);
}
END_TEST

/* Advice holds for whole blocks, and for a range if it holds for all of it. */
START_TEST(advice_holds_for_blocks)
{
    advise(BLOCK + 5, BLOCK, ACL_MEM_ADVISE_SET_READ_MOSTLY, 0, 0); /* blocks 1 and 2 */
    for (size_t block = 0; block < 4; block++)
        ck_assert_int_eq(attribute_of(block * BLOCK + 9, 1, MOSTLY), block == 1 || block == 2);
    ck_assert_int_eq(attribute_of(BLOCK, 2 * BLOCK, MOSTLY), 1);
    ck_assert_int_eq(attribute_of(BLOCK, 2 * BLOCK + 1, MOSTLY), 0);
    ck_assert_int_eq(attribute_of(BLOCK - 1, 2, MOSTLY), 0);
    advise(2 * BLOCK, 1, ACL_MEM_ADVISE_UNSET_READ_MOSTLY, 99, -7);
    ck_assert_int_eq(attribute_of(BLOCK, 2 * BLOCK, MOSTLY), 0);
    ck_assert_int_eq(attribute_of(BLOCK, BLOCK, MOSTLY), 1);
}
END_TEST

START_TEST(preferred_locations)
{
    static const struct {
        int type, id, told;
    } rows[] = {{DEVICE, 1, 1}, {DEVICE, 0, 0}, {HOST, 5, -1}, {NUMA, 3, -1}, {CURRENT, -9, -1}};

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        advise(0, 4 * BLOCK, ACL_MEM_ADVISE_SET_PREFERRED_LOCATION, rows[i].type, rows[i].id);
        ck_assert_int_eq(attribute_of(0, 4 * BLOCK, PREFERRED), rows[i].told);
        ck_assert_int_eq(attribute_of(0, 4 * BLOCK, PREFERRED_ID), rows[i].told);
        ck_assert_int_eq(attribute_of(0, 4 * BLOCK, PREFERRED_TYPE), rows[i].type);
    }
    advise(BLOCK, 1, ACL_MEM_ADVISE_SET_PREFERRED_LOCATION, DEVICE, 1);
    ck_assert_int_eq(attribute_of(0, 4 * BLOCK, PREFERRED), -2);
    ck_assert_int_eq(attribute_of(0, 4 * BLOCK, PREFERRED_TYPE), ACL_MEM_LOCATIONTYPE_INVALID);
    advise(0, 4 * BLOCK, ACL_MEM_ADVISE_UNSET_PREFERRED_LOCATION, 99, 0);
    ck_assert_int_eq(attribute_of(BLOCK, 1, PREFERRED), -2);
}
END_TEST

START_TEST(accessors)
{
    advise(0, 2 * BLOCK, ACL_MEM_ADVISE_SET_ACCESSED_BY, DEVICE, 1);
    advise(0, BLOCK, ACL_MEM_ADVISE_SET_ACCESSED_BY, HOST, 0);
    advise(0, BLOCK, ACL_MEM_ADVISE_SET_ACCESSED_BY, DEVICE, 0);
    expect_accessors(0, BLOCK, -1, 0, 1);
    expect_accessors(0, 2 * BLOCK, 1, -2, -2);
    expect_accessors(0, 3 * BLOCK, -2, -2, -2);
    ck_assert_int_eq(attribute_of(0, BLOCK, ACCESSED), -1); /* as many as there is room for */
    advise(0, 4 * BLOCK, ACL_MEM_ADVISE_UNSET_ACCESSED_BY, HOST, 0);
    advise(0, 4 * BLOCK, ACL_MEM_ADVISE_UNSET_ACCESSED_BY, DEVICE, 1);
    expect_accessors(0, BLOCK, 0, -2, -2);
}
END_TEST

START_TEST(advice_is_checked)
{
    static const struct {
        int advice, type, id;
        aclError expected;
    } rows[] = {
        {ACL_MEM_ADVISE_SET_PREFERRED_LOCATION, DEVICE, 2, BAD_ID},
        {ACL_MEM_ADVISE_SET_PREFERRED_LOCATION, DEVICE, -1, BAD_ID},
        {ACL_MEM_ADVISE_SET_PREFERRED_LOCATION, 0, 0, PARAM},
        {ACL_MEM_ADVISE_SET_PREFERRED_LOCATION, 5, 0, PARAM},
        {ACL_MEM_ADVISE_SET_PREFERRED_LOCATION, NUMA, -1, PARAM},
        {ACL_MEM_ADVISE_SET_ACCESSED_BY, DEVICE, 2, BAD_ID},
        {ACL_MEM_ADVISE_SET_ACCESSED_BY, DEVICE, 64, BAD_ID},
        {ACL_MEM_ADVISE_SET_ACCESSED_BY, NUMA, 0, PARAM},
        {ACL_MEM_ADVISE_UNSET_ACCESSED_BY, CURRENT, 0, PARAM},
        {ACL_MEM_ADVISE_UNSET_ACCESSED_BY, DEVICE, 2, BAD_ID},
        {6, HOST, 0, PARAM},
        {-1, HOST, 0, PARAM},
    };
    location host = {.type = HOST};
    unsigned char own;

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        FAILS(rows[i].expected,
              aclrtMemManagedAdvise(managed, BLOCK, (aclrtMemManagedAdviseType)rows[i].advice,
                                    (location){.type = rows[i].type, .id = rows[i].id}));
    FAILS(NULL_ARG, aclrtMemManagedAdvise(NULL, 1, 0, host));
    FAILS(PARAM, aclrtMemManagedAdvise(managed, 0, 0, host));
    FAILS_SAYING(PARAM, "leave the allocation",
                 aclrtMemManagedAdvise(managed + 1, 4 * BLOCK, 0, host));
    FAILS(PARAM, aclrtMemManagedAdvise(managed, UINT64_MAX, 0, host));
    FAILS_SAYING(PARAM, "aclrtMemAllocManaged", aclrtMemManagedAdvise(&own, 1, 0, host));
    FAILS_SAYING(PARAM, "aclrtMemAllocManaged", aclrtMemManagedAdvise(freed, 1, 0, host));
    ck_assert_int_eq(attribute_of(0, 4 * BLOCK, MOSTLY), 0);
}
END_TEST

/* --- attributes --- */

START_TEST(several_attributes)
{
    aclrtMemManagedRangeAttribute attributes[] = {(aclrtMemManagedRangeAttribute)MOSTLY,
                                                  (aclrtMemManagedRangeAttribute)ACCESSED,
                                                  (aclrtMemManagedRangeAttribute)PREFERRED};
    int32_t mostly = 77, ids[2] = {77, 77}, preferred = 77;
    void *data[] = {&mostly, ids, &preferred};
    size_t sizes[] = {4, 8, 4};

    advise(0, BLOCK, ACL_MEM_ADVISE_SET_READ_MOSTLY, 0, 0);
    advise(0, BLOCK, ACL_MEM_ADVISE_SET_ACCESSED_BY, DEVICE, 1);
    OK(aclrtMemManagedGetAttrs(attributes, 3, managed, BLOCK, data, sizes));
    ck_assert_int_eq(mostly, 1);
    ck_assert_int_eq(ids[0], 1);
    ck_assert_int_eq(ids[1], -2);
    ck_assert_int_eq(preferred, -2);
    FAILS(NULL_ARG, aclrtMemManagedGetAttrs(NULL, 3, managed, BLOCK, data, sizes));
    FAILS(NULL_ARG, aclrtMemManagedGetAttrs(attributes, 3, NULL, BLOCK, data, sizes));
    FAILS(NULL_ARG, aclrtMemManagedGetAttrs(attributes, 3, managed, BLOCK, NULL, sizes));
    FAILS(NULL_ARG, aclrtMemManagedGetAttrs(attributes, 3, managed, BLOCK, data, NULL));
    FAILS(PARAM, aclrtMemManagedGetAttrs(attributes, 0, managed, BLOCK, data, sizes));
    data[2] = NULL;
    mostly = 77;
    FAILS(NULL_ARG, aclrtMemManagedGetAttrs(attributes, 3, managed, BLOCK, data, sizes));
    ck_assert_int_eq(mostly, 77); /* nothing was written */
}
END_TEST

START_TEST(attributes_are_checked)
{
    static const struct {
        int attribute;
        size_t size;
    } wrong[] = {{0, 4},        {9, 4},         {-1, 4},           {MOSTLY, 0},
                 {MOSTLY, 1},   {MOSTLY, 8},    {PREFERRED, 0},    {ACCESSED, 0},
                 {ACCESSED, 3}, {ACCESSED, 10}, {PREFETCHED_ID, 8}};
    aclrtMemManagedRangeAttribute mostly = (aclrtMemManagedRangeAttribute)MOSTLY;
    int32_t data[4];

    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
        FAILS(PARAM, aclrtMemManagedGetAttr((aclrtMemManagedRangeAttribute)wrong[i].attribute,
                                            managed, 1, data, wrong[i].size));
    FAILS(NULL_ARG, aclrtMemManagedGetAttr(mostly, NULL, 1, data, 4));
    FAILS(NULL_ARG, aclrtMemManagedGetAttr(mostly, managed, 1, NULL, 4));
    FAILS(PARAM, aclrtMemManagedGetAttr(mostly, managed, 0, data, 4));
    FAILS(PARAM, aclrtMemManagedGetAttr(mostly, managed, 4 * BLOCK + 1, data, 4));
    FAILS(PARAM, aclrtMemManagedGetAttr(mostly, freed, 1, data, 4));
    FAILS(PARAM, aclrtMemManagedGetAttr(mostly, data, 1, data, 4));
}
END_TEST

/* --- prefetching --- */

START_TEST(prefetches_are_noted)
{
    location device = {.type = DEVICE, .id = 1}, node = {.type = NUMA, .id = 0};

    OK(aclrtMemManagedPrefetchAsync(managed, 4 * BLOCK, device, 0, stream));
    ck_assert_int_eq(attribute_of(0, 4 * BLOCK, PREFETCHED), 1);
    ck_assert_int_eq(attribute_of(0, 4 * BLOCK, PREFETCHED_ID), 1);
    ck_assert_int_eq(attribute_of(0, 4 * BLOCK, PREFETCHED_TYPE), DEVICE);
    OK(aclrtMemManagedPrefetchAsync(managed + BLOCK, 1, node, 0, NULL));
    ck_assert_int_eq(attribute_of(0, 4 * BLOCK, PREFETCHED), -2);
    ck_assert_int_eq(attribute_of(BLOCK, 1, PREFETCHED), -1);
    ck_assert_int_eq(attribute_of(BLOCK, 1, PREFETCHED_TYPE), NUMA);
    ck_assert_int_eq(attribute_of(0, BLOCK, PREFERRED), -2); /* is something else */
    OK(aclrtSynchronizeStream(stream));
}
END_TEST

static void *prefetch_unbound(void *arg)
{
    (void)arg;
    FAILS(UNBOUND, aclrtMemManagedPrefetchAsync(managed, BLOCK, (location){.type = HOST}, 0, NULL));
    return NULL;
}

START_TEST(prefetches_are_checked)
{
    location host = {.type = HOST}, far = {.type = DEVICE, .id = 2}, none = {0};
    aclrtStream gone;

    OK(aclrtCreateStream(&gone));
    OK(aclrtDestroyStream(gone));
    FAILS(NULL_ARG, aclrtMemManagedPrefetchAsync(NULL, BLOCK, host, 0, stream));
    FAILS(NULL_ARG, aclrtMemManagedPrefetchAsync(managed, BLOCK, host, 1, stream));
    FAILS(PARAM, aclrtMemManagedPrefetchAsync(managed, 0, host, 0, stream));
    FAILS(PARAM, aclrtMemManagedPrefetchAsync(managed, BLOCK, none, 0, stream));
    FAILS(BAD_ID, aclrtMemManagedPrefetchAsync(managed, BLOCK, far, 0, stream));
    FAILS(PARAM, aclrtMemManagedPrefetchAsync(managed, 4 * BLOCK + 1, host, 0, stream));
    FAILS(PARAM, aclrtMemManagedPrefetchAsync(freed, 1, host, 0, stream));
    FAILS(ACL_ERROR_RT_INVALID_HANDLE, aclrtMemManagedPrefetchAsync(managed, BLOCK, host, 0, gone));
    thread_call(prefetch_unbound, NULL);
    ck_assert_int_eq(attribute_of(0, 4 * BLOCK, PREFETCHED), -2);
}
END_TEST

START_TEST(batches_of_prefetches)
{
    const void *ptrs[] = {managed, managed + BLOCK, managed + 2 * BLOCK, managed + 3 * BLOCK};
    size_t sizes[] = {1, BLOCK, 1, 1}, indexes[] = {0, 3};
    location locations[] = {{.type = DEVICE, .id = 1}, {.type = HOST}};

    OK(aclrtMemManagedPrefetchBatchAsync(ptrs, sizes, 4, locations, indexes, 2, 0, stream));
    for (size_t block = 0; block < 4; block++)
        ck_assert_int_eq(attribute_of(block * BLOCK, 1, PREFETCHED), block < 3 ? 1 : -1);
}
END_TEST

START_TEST(batches_of_prefetches_are_checked)
{
    const void *ptrs[] = {managed, managed + BLOCK, freed};
    size_t sizes[] = {1, 1, 1}, zero[] = {0, 0}, one[] = {1}, far[] = {0, 2};
    location host[] = {{.type = HOST}, {.type = HOST}}, none[] = {{0}};

#define BATCH(n, l, i, k, flags)                                                                   \
    aclrtMemManagedPrefetchBatchAsync(ptrs, sizes, n, l, i, k, flags, stream)
    FAILS(NULL_ARG, aclrtMemManagedPrefetchBatchAsync(NULL, sizes, 2, host, zero, 1, 0, stream));
    FAILS(NULL_ARG, aclrtMemManagedPrefetchBatchAsync(ptrs, NULL, 2, host, zero, 1, 0, stream));
    FAILS(NULL_ARG, BATCH(2, NULL, zero, 1, 0));
    FAILS(NULL_ARG, BATCH(2, host, NULL, 1, 0));
    FAILS(NULL_ARG, BATCH(2, host, zero, 1, 1));
    FAILS(PARAM, BATCH(0, host, zero, 1, 0));
    FAILS(PARAM, BATCH(2, host, zero, 0, 0));
    FAILS(PARAM, BATCH(1, host, zero, 2, 0));
    FAILS(PARAM, BATCH(2, host, one, 1, 0));
    FAILS(PARAM, BATCH(2, host, zero, 2, 0));
    FAILS(PARAM, BATCH(2, host, far, 2, 0));
    FAILS(PARAM, BATCH(2, none, zero, 1, 0));
    FAILS(PARAM, BATCH(3, host, zero, 1, 0)); /* the last one was freed */
    ptrs[2] = NULL;
    FAILS(NULL_ARG, BATCH(3, host, zero, 1, 0));
    ck_assert_int_eq(attribute_of(0, 4 * BLOCK, PREFETCHED), -2);
    OK(BATCH(2, host, zero, 1, 0));
#undef BATCH
}
END_TEST

/* --- */

static void add_memory(Suite *s)
{
    TCase *t = suite_case(s, "memory", 60, set_up_test, npud_teardown);

    tcase_add_test(t, sizes_are_rounded_to_blocks);
    tcase_add_test(t, allocation_is_checked);
    tcase_add_test(t, it_is_freed_as_device_memory);
    tcase_add_test(t, it_is_what_it_is);
    tcase_add_test(t, it_is_of_no_device);
    tcase_add_loop_test(t, copies_reach_it, 0, 2);
    tcase_add_test(t, all_kinds_of_copies_fit);
    tcase_add_test(t, fills_wait_for_their_turn);
    tcase_add_test(t, what_goes_before_its_task_is_an_error);
    tcase_add_test(t, words_of_it_are_not_waited_for);
    t = suite_case(s, "limits", 60, NULL, npud_teardown);
    tcase_add_test(t, it_counts_against_host_memory);
}

static void add_advice(Suite *s)
{
    TCase *t = suite_case(s, "advice", 60, set_up_test, npud_teardown);

    tcase_add_test(t, nothing_was_advised);
    tcase_add_test(t, advice_holds_for_blocks);
    tcase_add_test(t, preferred_locations);
    tcase_add_test(t, accessors);
    tcase_add_test(t, advice_is_checked);
    tcase_add_test(t, several_attributes);
    tcase_add_test(t, attributes_are_checked);
    tcase_add_test(t, prefetches_are_noted);
    tcase_add_test(t, prefetches_are_checked);
    tcase_add_test(t, batches_of_prefetches);
    tcase_add_test(t, batches_of_prefetches_are_checked);
}

int main(void)
{
    Suite *s = suite_create("managed");

    add_memory(s);
    add_advice(s);
    return run_suite(s);
}
