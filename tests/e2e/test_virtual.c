/*
 * Virtual memory: addresses, physical memory, and what maps one to the other; copies across
 * borders; access; shareable handles; and what is left behind. Device memory is read by copies
 * only, so that all of it holds for strict devices.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "gate.h"
#include "proto/wire/npud.pb-c.h"
#include "tests/common/moment.h"
#include "tests/common/need.h"

#define MIB  (UINT64_C(1) << 20)
#define GIB  (UINT64_C(1) << 30)
#define TIB  (UINT64_C(1) << 40)
#define UNIT (2 * MIB)
#ifdef __SANITIZE_ADDRESS__ /* the first ones are its own */
#define LOWEST (17 * TIB)
#else
#define LOWEST (16 * TIB)
#endif
#define BAD     ACL_ERROR_RT_PARAM_INVALID
#define INVALID ACL_ERROR_INVALID_PARAM
#define BUSY    ACL_ERROR_RT_DRV_INTERNAL_ERROR
#define STALE   ACL_ERROR_RT_INVALID_HANDLE
#define DENIED  ACL_ERROR_RT_NO_PERMISSION
#define ANY     ACL_RT_VMM_EXPORT_FLAG_DISABLE_PID_VALIDATION

static aclrtStream stream, other;

static void set_up_test(void)
{
    npud_setup();
    streams_open(&stream, &other);
}

static const aclrtPhysicalMemProp on_device = {
    .memAttr = ACL_HBM_MEM_HUGE,
    .location = {.type = ACL_MEM_LOCATION_TYPE_DEVICE},
};
static const aclrtPhysicalMemProp on_second = {
    .memAttr = ACL_HBM_MEM_HUGE,
    .location = {.id = 1, .type = ACL_MEM_LOCATION_TYPE_DEVICE},
};
static const aclrtPhysicalMemProp on_host = {
    .memAttr = ACL_MEM_HUGE,
    .location = {.type = ACL_MEM_LOCATION_TYPE_HOST},
};

static char *reserve(uint64_t size)
{
    void *p;

    OK(aclrtReserveMemAddress(&p, size, 0, NULL, 0));
    return p;
}

static aclrtDrvMemHandle allocate(const aclrtPhysicalMemProp *prop, uint64_t size)
{
    aclrtDrvMemHandle h;

    OK(aclrtMallocPhysical(&h, size, prop, 0));
    return h;
}

static void fill(char *address, int value, uint64_t n)
{
    OK(aclrtMemset(address, n, value, n));
}

/* The first and the last of n bytes. */
static void expect_ends(const char *address, int value, uint64_t n)
{
    unsigned char c[2];

    OK(aclrtMemcpy(&c[0], 1, address, 1, ACL_MEMCPY_DEVICE_TO_HOST));
    OK(aclrtMemcpy(&c[1], 1, address + n - 1, 1, ACL_MEMCPY_DEVICE_TO_HOST));
    ck_assert_uint_eq(c[0], (unsigned char)value);
    ck_assert_uint_eq(c[1], (unsigned char)value);
}

static uint64_t used_on(int device)
{
    size_t left, total;

    OK(aclrtSetDevice(device));
    OK(aclrtGetMemInfo(ACL_HBM_MEM, &left, &total));
    OK(aclrtSetDevice(0));
    return total - left;
}

/* --- addresses --- */

static const struct {
    uint64_t size, alignment, wish, flags;
    aclError code;
} wanted[] = {
    {0, 0, 0, 0, INVALID},
    {UNIT, 0, 0, 2, INVALID},
    {UNIT, 0, 0, UINT64_MAX, INVALID},
    {UNIT - 1, 0, 0, 0, 0},
    {UNIT + 1, 0, 24 * TIB - 2 * UNIT, 0, 0},
    {UNIT + 1, 0, 24 * TIB - UNIT, 0, BAD},
    {UNIT + 4096, 0, 0, 0, 0},
    {1, 0, 0, 0, 0},
    {64 * TIB + UNIT, 0, 0, 0, BAD},
    {UINT64_MAX - UNIT + 1, 0, 0, 0, BAD},
    {UNIT, 3, 0, 0, BAD},
    {UNIT, 2 * GIB, 0, 0, BAD},
    {UNIT, 0, 16 * TIB - UNIT, 0, BAD},
    {UNIT, 0, 24 * TIB, 0, BAD},
    {UNIT, 0, 16 * TIB + 4096, 0, BAD},
    {UNIT, 4 * UNIT, 16 * TIB + UNIT, 0, BAD},
    {UNIT, 0, 1, 0, BAD},
    {UNIT, 0, 0, 0, 0},
    {UNIT, 0, 0, 1, 0},
    {UNIT, 1, 0, 0, 0},
    {UNIT, UNIT, 0, 0, 0},
    {UNIT, GIB, 0, 0, 0},
    {3 * UNIT, 64 * MIB, 0, 0, 0},
    {128 * GIB, 0, 0, 0, 0},
#ifndef __SANITIZE_THREAD__ /* it leaves less */
    {32 * TIB, 0, 0, 0, 0},
    {32 * TIB, GIB, 0, 0, 0},
#ifndef __SANITIZE_ADDRESS__
    {64 * TIB, 0, 0, 0, 0},
    {64 * TIB, GIB, 0, 1, 0},
#endif
#endif
    {UNIT, 0, LOWEST, 0, 0},
    {UNIT, 0, 24 * TIB - UNIT, 0, 0},
    {UNIT, GIB, 20 * TIB, 0, 0},
};

START_TEST(reservations)
{
    void *p;

    FAILS(INVALID, aclrtReserveMemAddress(NULL, UNIT, 0, NULL, 0));
    for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++) {
#ifdef __SANITIZE_THREAD__
        if (wanted[i].wish)
            continue; /* its own memory is there */
#endif
        p = &p;
        ck_assert_msg(aclrtReserveMemAddress(&p, wanted[i].size, wanted[i].alignment,
                                             (void *)wanted[i].wish,
                                             wanted[i].flags) == wanted[i].code,
                      "row %zu: %s", i, aclGetRecentErrMsg());
        if (wanted[i].code != 0) {
            ck_assert_ptr_eq(p, &p);
            continue;
        }
        ck_assert_uint_eq((uintptr_t)p % UNIT, 0);
        if (wanted[i].alignment)
            ck_assert_uint_eq((uintptr_t)p % wanted[i].alignment, 0);
        if (wanted[i].wish)
            ck_assert_uint_eq((uintptr_t)p, wanted[i].wish);
        FAILS(BAD, aclrtReleaseMemAddress((char *)p + UNIT / 2));
        OK(aclrtReleaseMemAddress(p));
        FAILS(BAD, aclrtReleaseMemAddress(p));
    }
    FAILS(INVALID, aclrtReleaseMemAddress(NULL));
    FAILS(BAD, aclrtReleaseMemAddress(&p));
    FAILS(ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
          aclrtReserveMemAddressNoUCMemory(&p, GIB, 0, (void *)(41 * TIB), 0));
}
END_TEST

/* As much as aclrtGetMemInfo calls free, beside other memory: the last unit is there as a whole. */
START_TEST(sizes_are_rounded_up)
{
    aclrtDrvMemHandle h = allocate(&on_device, UNIT);
    size_t bytes, total;
    void *little;
    char *p;

    OK(aclrtMalloc(&little, 100, ACL_MEM_MALLOC_NORMAL_ONLY));
    OK(aclrtGetMemInfo(ACL_HBM_MEM, &bytes, &total));
    ck_assert_uint_ne(bytes % UNIT, 0);
    OK(aclrtReserveMemAddress((void **)&p, bytes, 0, NULL, 1));
    OK(aclrtMapMem(p + bytes / UNIT * UNIT, UNIT, 0, h, 0));
    FAILS(BAD, aclrtMapMem(p + (bytes / UNIT + 1) * UNIT, UNIT, 0, h, 0));
    OK(aclrtMemset(p + bytes / UNIT * UNIT, UNIT, 1, UNIT));
    OK(aclrtUnmapMem(p + bytes / UNIT * UNIT));
    OK(aclrtReleaseMemAddress(p));
    OK(aclrtFreePhysical(h));
    OK(aclrtFree(little));
}
END_TEST

START_TEST(wishes)
{
    void *wish = (void *)(17 * TIB), *p, *q;

#ifdef __SANITIZE_THREAD__
    return; /* its own memory is there */
#endif
    OK(aclrtReserveMemAddress(&p, 4 * UNIT, 0, wish, 0));
    FAILS_SAYING(BUSY, "in use", aclrtReserveMemAddress(&q, UNIT, 0, (char *)wish + UNIT, 0));
    FAILS(BUSY, aclrtReserveMemAddress(&q, UNIT, 0, wish, 0));
    OK(aclrtReserveMemAddress(&q, UNIT, 0, (char *)wish + 4 * UNIT, 0));
    OK(aclrtReleaseMemAddress(p));
    /* What was released can be had again at once. */
    OK(aclrtReserveMemAddress(&p, 4 * UNIT, 0, wish, 0));
    ck_assert_ptr_eq(p, wish);
    OK(aclrtReleaseMemAddress(p));
    OK(aclrtReleaseMemAddress(q));
}
END_TEST

/* A thread knows them as the program's own, until they are reserved. */
START_TEST(addresses_change_hands)
{
    void *wish = (void *)(17 * TIB), *p, *device;

#ifdef __SANITIZE_THREAD__
    return; /* as in wishes */
#endif
    OK(aclrtMalloc(&device, UNIT, ACL_MEM_MALLOC_HUGE_FIRST));
    for (int i = 0; i < 3; i++) {
        p = mmap(wish, UNIT, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        ck_assert_ptr_eq(p, wish);
        for (int k = 0; k < 2; k++)
            OK(aclrtMemcpy(device, UNIT, p, 64, ACL_MEMCPY_HOST_TO_DEVICE));
        ck_assert_int_eq(munmap(p, UNIT), 0);
        OK(aclrtReserveMemAddress(&p, UNIT, 0, wish, 0));
        ck_assert_ptr_eq(p, wish);
        for (int k = 0; k < 2; k++)
            FAILS_SAYING(BAD, "reserved addresses at which nothing is mapped",
                         aclrtMemcpy(device, UNIT, p, 64, ACL_MEMCPY_HOST_TO_DEVICE));
        OK(aclrtReleaseMemAddress(p));
    }
    OK(aclrtFree(device));
}
END_TEST

/* Until there are no addresses left. */
START_TEST(more_addresses_than_there_are)
{
    const struct rlimit least = {512 * GIB, 512 * GIB};
    struct rlimit before;
    void *p[1024];
    int n = 0;
    aclError error;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    return; /* it has 20 TiB by itself */
#endif
    OK(getrlimit(RLIMIT_AS, &before));
    OK(setrlimit(RLIMIT_AS, &(struct rlimit){least.rlim_cur, before.rlim_max}));
    while ((error = aclrtReserveMemAddress(&p[n], 128 * GIB, 0, NULL, 0)) == 0)
        n++;
    OK(setrlimit(RLIMIT_AS, &before));
    ck_assert_int_eq(error, ACL_ERROR_RT_MEMORY_ALLOCATION);
    ck_assert_int_ge(n, 2);
    while (n > 0)
        OK(aclrtReleaseMemAddress(p[--n]));
}
END_TEST

/* --- physical memory --- */

START_TEST(kinds_of_memory)
{
    static const struct {
        aclrtMemAttr attr;
        aclError device, host;
    } kinds[] = {
        {ACL_HBM_MEM_HUGE, 0, INVALID},
        {ACL_HBM_MEM_NORMAL, 0, INVALID},
        {ACL_HBM_MEM_HUGE1G, ACL_ERROR_RT_FEATURE_NOT_SUPPORT, INVALID},
        {ACL_DDR_MEM_HUGE, INVALID, 0},
        {ACL_DDR_MEM_NORMAL, INVALID, 0},
        {ACL_DDR_MEM_P2P_HUGE, INVALID, 0},
        {ACL_DDR_MEM_P2P_NORMAL, INVALID, 0},
        {ACL_MEM_NORMAL, 0, 0},
        {ACL_MEM_HUGE, 0, 0},
        {ACL_MEM_P2P_NORMAL, 0, 0},
        {ACL_MEM_P2P_HUGE, 0, 0},
        {ACL_MEM_HUGE1G, ACL_ERROR_RT_FEATURE_NOT_SUPPORT, INVALID},
        {ACL_MEM_P2P_HUGE1G, ACL_ERROR_RT_FEATURE_NOT_SUPPORT, INVALID},
        {ACL_DDR_MEM, INVALID, INVALID},
        {(aclrtMemAttr)999, INVALID, INVALID},
    };

    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
        for (int host = 0; host < 2; host++) {
            aclError code = host ? kinds[i].host : kinds[i].device;
            aclrtPhysicalMemProp prop = host ? on_host : on_device, got;
            aclrtDrvMemHandle h;
            size_t granularity = 1;

            prop.memAttr = kinds[i].attr;
            for (int option = 0; option < 2; option++)
                ck_assert_int_eq(aclrtMemGetAllocationGranularity(
                                     &prop, (aclrtMemGranularityOptions)option, &granularity),
                                 code);
            ck_assert_uint_eq(granularity, code == 0 ? UNIT : 1);
            ck_assert_int_eq(aclrtMallocPhysical(&h, UNIT, &prop, 0), code);
            if (code != 0)
                continue;
            OK(aclrtMemGetAllocationPropertiesFromHandle(h, &got));
            ck_assert_int_eq(got.memAttr, prop.memAttr);
            ck_assert_int_eq(got.location.type, prop.location.type);
            ck_assert_uint_eq(got.location.id, 0);
            ck_assert_int_eq(got.handleType, ACL_MEM_HANDLE_TYPE_NONE);
            ck_assert_int_eq(got.allocationType, ACL_MEM_ALLOCATION_TYPE_PINNED);
            OK(aclrtFreePhysical(h));
        }
}
END_TEST

static aclrtPhysicalMemProp changed(int what)
{
    aclrtPhysicalMemProp prop = on_device;

    switch (what) {
    case 0:
        prop.handleType = ACL_MEM_HANDLE_TYPE_POSIX;
        break;
    case 1:
        prop.allocationType = (aclrtMemAllocationType)1;
        break;
    case 2:
        prop.location.type = ACL_MEM_LOCATION_TYPE_UNREGISTERED;
        break;
    case 3:
        prop.location.id = 2;
        break;
    case 4:
        prop.location.id = UINT32_MAX;
        break;
    default:
        prop = on_host;
        prop.location.type = ACL_MEM_LOCATION_TYPE_HOST_NUMA;
    }
    return prop;
}

START_TEST(arguments_of_physical_memory)
{
    static const aclError malloc_codes[] = {
        INVALID,
        INVALID,
        INVALID,
        ACL_ERROR_RT_INVALID_DEVICEID,
        ACL_ERROR_RT_INVALID_DEVICEID,
        ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
    };
    aclrtPhysicalMemProp prop = on_device;
    aclrtDrvMemHandle h = NULL;
    size_t n;

    FAILS(INVALID, aclrtMallocPhysical(NULL, UNIT, &prop, 0));
    FAILS(INVALID, aclrtMallocPhysical(&h, UNIT, NULL, 0));
    FAILS(INVALID, aclrtMallocPhysical(&h, 0, &prop, 0));
    FAILS(INVALID, aclrtMallocPhysical(&h, UNIT, &prop, 1));
    FAILS(BAD, aclrtMallocPhysical(&h, UNIT + 1, &prop, 0));
    FAILS(BAD, aclrtMallocPhysical(&h, 4096, &prop, 0));
    for (int i = 0; i < 6; i++) {
        prop = changed(i);
        FAILS(malloc_codes[i], aclrtMallocPhysical(&h, UNIT, &prop, 0));
        /* It does not ask for the types of handle and allocation. */
        ck_assert_int_eq(
            aclrtMemGetAllocationGranularity(&prop, ACL_RT_MEM_ALLOC_GRANULARITY_MINIMUM, &n),
            i < 2 ? 0 : malloc_codes[i]);
    }
    ck_assert_ptr_null(h);
    prop = on_device;
    FAILS(INVALID, aclrtMemGetAllocationGranularity(NULL, 0, &n));
    FAILS(INVALID, aclrtMemGetAllocationGranularity(&prop, 0, NULL));
    FAILS(BAD, aclrtMemGetAllocationGranularity(&prop, ACL_RT_MEM_ALLOC_GRANULARITY_UNDEF, &n));
    FAILS(INVALID, aclrtFreePhysical(NULL));
    FAILS(INVALID, aclrtMemGetAllocationPropertiesFromHandle(NULL, &prop));
    h = allocate(&on_device, UNIT);
    FAILS(INVALID, aclrtMemGetAllocationPropertiesFromHandle(h, NULL));
    OK(aclrtFreePhysical(h));
}
END_TEST

START_TEST(stale_handles)
{
    aclrtDrvMemHandle h = allocate(&on_device, UNIT), next;
    aclrtPhysicalMemProp prop;
    char *p = reserve(UNIT);
    uint64_t number;

    OK(aclrtFreePhysical(h));
    next = allocate(&on_device, UNIT); /* in the same place, maybe */
    for (int i = 0; i < 3; i++) {
        aclrtDrvMemHandle bad = i == 0 ? h : i == 1 ? (void *)stream : (void *)&prop;

        FAILS(STALE, aclrtFreePhysical(bad));
        FAILS(STALE, aclrtMapMem(p, UNIT, 0, bad, 0));
        FAILS(STALE, aclrtMemMapNoAccess(p, UNIT, 0, bad, 0));
        FAILS(STALE, aclrtMemGetAllocationPropertiesFromHandle(bad, &prop));
        FAILS(STALE, aclrtMemExportToShareableHandle(bad, 0, 0, &number));
    }
    OK(aclrtFreePhysical(next));
    OK(aclrtReleaseMemAddress(p));
}
END_TEST

/* Memory is taken and given back to the byte, by the last handle or mapping. */
START_TEST(capacity)
{
    uint64_t used = used_on(0), second = used_on(1);
    aclrtDrvMemHandle h = allocate(&on_device, 3 * UNIT), more, there, on_both;
    size_t left, total;
    char *p = reserve(3 * UNIT);

    ck_assert_uint_eq(used_on(0), used + 3 * UNIT);
    OK(aclrtMapMem(p, 3 * UNIT, 0, h, 0));
    OK(aclrtMemRetainAllocationHandle(p + UNIT + 5, &more));
    ck_assert_ptr_ne(h, more);
    OK(aclrtFreePhysical(h));
    OK(aclrtFreePhysical(more));
    FAILS(STALE, aclrtFreePhysical(more));
    ck_assert_uint_eq(used_on(0), used + 3 * UNIT);
    fill(p, 3, 3 * UNIT);
    OK(aclrtMemRetainAllocationHandle(p, &more));
    OK(aclrtUnmapMem(p));
    ck_assert_uint_eq(used_on(0), used + 3 * UNIT);
    OK(aclrtMapMem(p, 3 * UNIT, 0, more, 0));
    expect_ends(p, 3, 3 * UNIT);
    OK(aclrtFreePhysical(more));
    OK(aclrtUnmapMem(p));
    ck_assert_uint_eq(used_on(0), used);
    there = allocate(&on_second, UNIT);
    on_both = allocate(&on_host, UNIT);
    ck_assert_uint_eq(used_on(0), used);
    ck_assert_uint_eq(used_on(1), second + UNIT);
    OK(aclrtFreePhysical(there));
    OK(aclrtFreePhysical(on_both));
    OK(aclrtGetMemInfo(ACL_HBM_MEM, &left, &total));
    FAILS(ACL_ERROR_RT_MEMORY_ALLOCATION,
          aclrtMallocPhysical(&h, (total / UNIT + 1) * UNIT, &on_device, 0));
    h = allocate(&on_device, left / UNIT * UNIT);
    FAILS(ACL_ERROR_RT_MEMORY_ALLOCATION, aclrtMallocPhysical(&more, UNIT, &on_device, 0));
    OK(aclrtFreePhysical(h));
    ck_assert_uint_eq(used_on(0), used);
}
END_TEST

/* --- mapping --- */

static uint64_t usage_of(const char *name)
{
    aclrtMemUsageInfo users[2];
    size_t n;

    OK(aclrtGetMemUsageInfo(0, users, 2, &n));
    ck_assert_uint_eq(n, 2);
    return users[strcmp(users[0].name, name) != 0].curMemSize;
}

/* Memory of the process, mapped or not, as long as anything has it. */
START_TEST(own_memory_is_counted_as_own)
{
    uint64_t own = usage_of("APP"), others = usage_of("OTHERS");
    aclrtDrvMemHandle handle = allocate(&on_device, 2 * MIB), host = allocate(&on_host, 2 * MIB);
    char *address = reserve(4 * MIB);

    ck_assert_uint_eq(usage_of("APP"), own + 2 * MIB);
    OK(aclrtMapMem(address, 2 * MIB, 0, handle, 0));
    OK(aclrtMapMem(address + 2 * MIB, 2 * MIB, 0, handle, 0));
    OK(aclrtFreePhysical(handle));
    OK(aclrtUnmapMem(address));
    ck_assert_uint_eq(usage_of("APP"), own + 2 * MIB);
    ck_assert_uint_eq(usage_of("OTHERS"), others);
    OK(aclrtUnmapMem(address + 2 * MIB));
    OK(aclrtFreePhysical(host));
    OK(aclrtReleaseMemAddress(address));
    ck_assert_uint_eq(usage_of("APP"), own);
    ck_assert_uint_eq(usage_of("OTHERS"), others);
}
END_TEST

START_TEST(arguments_of_mappings)
{
    aclrtDrvMemHandle h = allocate(&on_device, 2 * UNIT);
    char *p = reserve(4 * UNIT);

    for (int i = 0; i < 2; i++) {
        aclError (*map)(void *, size_t, size_t, aclrtDrvMemHandle, uint64_t) =
            i == 0 ? aclrtMapMem : aclrtMemMapNoAccess;
        const struct {
            void *address;
            size_t size, offset;
            aclrtDrvMemHandle handle;
            uint64_t flags;
            aclError code;
        } rows[] = {
            {NULL, 2 * UNIT, 0, h, 0, INVALID},
            {p, 2 * UNIT, 0, NULL, 0, INVALID},
            {p, 0, 0, h, 0, INVALID},
            {p, 2 * UNIT, 0, h, 1, INVALID},
            {p, UNIT, UNIT, h, 0, BAD},
            {p, UNIT, 0, h, 0, BAD},
            {p, 4 * UNIT, 0, h, 0, BAD},
            {p + 4096, 2 * UNIT, 0, h, 0, BAD},
            {p + 3 * UNIT, 2 * UNIT, 0, h, 0, BAD},
            {p + 4 * UNIT, 2 * UNIT, 0, h, 0, BAD},
            {&stream, 2 * UNIT, 0, h, 0, BAD},
            {(void *)(UINTPTR_MAX - UNIT + 1), 2 * UNIT, 0, h, 0, BAD},
        };

        for (size_t k = 0; k < sizeof(rows) / sizeof(rows[0]); k++)
            ck_assert_msg(map(rows[k].address, rows[k].size, rows[k].offset, rows[k].handle,
                              rows[k].flags) == rows[k].code,
                          "row %zu: %s", k, aclGetRecentErrMsg());
    }
    OK(aclrtFreePhysical(h));
    OK(aclrtReleaseMemAddress(p));
}
END_TEST

START_TEST(one_mapping_of_a_reservation)
{
    aclrtDrvMemHandle h = allocate(&on_device, 2 * UNIT), more;
    aclrtMemLocation location = on_device.location;
    aclrtMemAccessDesc desc = {ACL_RT_MEM_ACCESS_FLAGS_READWRITE, on_second.location, {0}};
    char *p = reserve(4 * UNIT);
    uint64_t flag;

    FAILS(INVALID, aclrtUnmapMem(NULL));
    FAILS(BAD, aclrtUnmapMem(p));
    FAILS(INVALID, aclrtMemRetainAllocationHandle(NULL, &more));
    FAILS(INVALID, aclrtMemRetainAllocationHandle(p, NULL));
    FAILS(BAD, aclrtMemRetainAllocationHandle(p, &more));
    FAILS(BAD, aclrtMemSetAccess(p, 2 * UNIT, &desc, 1));
    FAILS(BAD, aclrtMemGetAccess(p, &location, &flag));
    OK(aclrtMapMem(p + UNIT, 2 * UNIT, 0, h, 0));
    FAILS(BAD, aclrtUnmapMem(p));
    FAILS(BAD, aclrtUnmapMem(p + 2 * UNIT));
    FAILS(BAD, aclrtFree(p + UNIT));
    FAILS(BUSY, aclrtReleaseMemAddress(p));
    FAILS(BAD, aclrtReleaseMemAddress(p + UNIT));
    FAILS(BAD, aclrtIpcMemGetExportKey(p + UNIT, UNIT, (char[65]){0}, 65, 0));
    for (int i = 0; i < 3; i++)
        FAILS(BUSY, aclrtMapMem(p + (uint64_t)i * UNIT, 2 * UNIT, 0, h, 0));
    OK(aclrtUnmapMem(p + UNIT));
    FAILS(BAD, aclrtUnmapMem(p + UNIT));
    OK(aclrtMapMem(p + 2 * UNIT, 2 * UNIT, 0, h, 0)); /* at the border */
    OK(aclrtUnmapMem(p + 2 * UNIT));
    OK(aclrtFreePhysical(h));
    OK(aclrtReleaseMemAddress(p));
    FAILS(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, aclrtMemMapSelectedLink(p, UNIT, p, 0));
    FAILS(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, aclrtMemMapSetLink(h, ACL_RT_MEM_ACCESS_LINK_SIO));
}
END_TEST

/* Which mapping goes first, and where it comes again: the bytes are those of the handle. */
START_TEST(orders)
{
    static const int rows[6][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2},
                                   {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
    aclrtDrvMemHandle h[3];
    char *p = reserve(3 * UNIT);

    for (int i = 0; i < 3; i++) {
        h[i] = allocate(&on_device, UNIT);
        OK(aclrtMapMem(p + (uint64_t)i * UNIT, UNIT, 0, h[i], 0));
        fill(p + (uint64_t)i * UNIT, 10 + i, UNIT);
    }
    for (int a = 0; a < 6; a++)
        for (int b = 0; b < 6; b++) {
            for (int i = 0; i < 3; i++)
                OK(aclrtUnmapMem(p + (uint64_t)rows[a][i] * UNIT));
            for (int i = 0; i < 3; i++)
                OK(aclrtMapMem(p + (uint64_t)i * UNIT, UNIT, 0, h[rows[b][i]], 0));
            for (int i = 0; i < 3; i++)
                expect_ends(p + (uint64_t)i * UNIT, 10 + rows[b][i], UNIT);
        }
    for (int i = 0; i < 3; i++) {
        OK(aclrtFreePhysical(h[i]));
        OK(aclrtUnmapMem(p + (uint64_t)i * UNIT));
    }
    OK(aclrtReleaseMemAddress(p));
}
END_TEST

START_TEST(mapped_twice)
{
    aclrtDrvMemHandle h = allocate(&on_device, UNIT);
    char *p = reserve(2 * UNIT), *q = reserve(UNIT);

    OK(aclrtMapMem(p, UNIT, 0, h, 0));
    OK(aclrtMapMem(p + UNIT, UNIT, 0, h, 0));
    OK(aclrtMapMem(q, UNIT, 0, h, 0));
    OK(aclrtFreePhysical(h));
    fill(p, 1, UNIT);
    expect_ends(p + UNIT, 1, UNIT);
    OK(aclrtMemsetAsync(q, UNIT, 2, UNIT, stream));
    OK(aclrtValueWait(p + UNIT, UINT64_C(0x0202020202020202), ACL_STREAM_WAIT_VALUE_EQ, other));
    OK(aclrtSynchronizeStream(other));
    OK(aclrtSynchronizeStream(stream)); /* which has set the first word, and goes on */
    OK(aclrtUnmapMem(p));
    expect_ends(q, 2, UNIT);
    OK(aclrtUnmapMem(q));
    expect_ends(p + UNIT, 2, UNIT);
    OK(aclrtUnmapMem(p + UNIT));
    ck_assert_uint_eq(used_on(0), 0);
    OK(aclrtReleaseMemAddress(p));
    OK(aclrtReleaseMemAddress(q));
}
END_TEST

/* A write through one mapping wakes who waits at the other. */
/* A copy that has begun from memory that is unmapped then, and let go, comes to its end. */
START_TEST(unmapped_while_it_is_copied)
{
    uint64_t size = 64 * UNIT, used = used_on(0);
    aclrtDrvMemHandle h = allocate(&on_device, size);
    _Atomic unsigned char *first;
    char *p = reserve(size);

    OK(aclrtMapMem(p, size, 0, h, 0));
    OK(aclrtMallocHost((void **)(void *)&first, size));
    fill(p, 0x21, size);
    OK(aclrtMemcpyAsync((void *)first, size, p, size, ACL_MEMCPY_DEVICE_TO_HOST, stream));
    while (atomic_load(first) != 0x21)
        wait_a_moment();
    OK(aclrtUnmapMem(p));
    OK(aclrtFreePhysical(h));
    OK(aclrtSynchronizeStream(stream));
    ck_assert_uint_eq(atomic_load(first + size - 1), 0x21);
    while (used_on(0) != used)
        wait_a_moment();
    OK(aclrtFreeHost((void *)first));
    OK(aclrtReleaseMemAddress(p));
}
END_TEST

START_TEST(waits_are_of_the_memory)
{
    aclrtDrvMemHandle h = allocate(&on_device, UNIT);
    char *p = reserve(2 * UNIT);
    uint64_t word = 1;

    OK(aclrtMapMem(p, UNIT, 0, h, 0));
    OK(aclrtMapMem(p + UNIT, UNIT, 0, h, 0));
    fill(p, 0, UNIT);
    OK(aclrtValueWait(p + 64, 1, ACL_STREAM_WAIT_VALUE_EQ, stream));
    engine_turn(other);
    ck_assert(!idle(stream));
    OK(aclrtMemcpy(p + UNIT + 64, 8, &word, 8, ACL_MEMCPY_HOST_TO_DEVICE));
    OK(aclrtSynchronizeStreamWithTimeout(stream, LIMIT_MS));
    for (int i = 0; i < 2; i++)
        OK(aclrtUnmapMem(p + (uint64_t)i * UNIT));
    OK(aclrtFreePhysical(h));
    OK(aclrtReleaseMemAddress(p));
}
END_TEST

/* --- copies --- */

/* Three mappings in a row, and as many bytes of the host, which are what is there. */
static aclrtDrvMemHandle row_handles[3];
static char *row, *row_bytes;

static void begin_row(const aclrtPhysicalMemProp *prop)
{
    row = reserve(3 * UNIT);
    row_bytes = malloc(3 * UNIT);
    for (uint64_t i = 0; i < 3; i++) {
        row_handles[i] = allocate(prop, UNIT);
        OK(aclrtMapMem(row + i * UNIT, UNIT, 0, row_handles[i], 0));
    }
    for (uint64_t i = 0; i < 3 * UNIT; i++)
        row_bytes[i] = (char)(i * 13 + (i >> 12));
    OK(aclrtMemcpy(row, 3 * UNIT, row_bytes, 3 * UNIT, ACL_MEMCPY_DEFAULT));
}

static void expect_row(void)
{
    char *back = malloc(3 * UNIT);

    OK(aclrtMemcpy(back, 3 * UNIT, row, 3 * UNIT, ACL_MEMCPY_DEFAULT));
    ck_assert(memcmp(row_bytes, back, 3 * UNIT) == 0);
    free(back);
}

static void end_row(void)
{
    for (uint64_t i = 0; i < 3; i++) {
        OK(aclrtUnmapMem(row + i * UNIT));
        OK(aclrtFreePhysical(row_handles[i]));
    }
    OK(aclrtReleaseMemAddress(row));
    free(row_bytes);
}

START_TEST(calls_across_borders)
{
    begin_row(_i == 0 ? &on_device : &on_host);
    expect_row();
    memset(row_bytes + UNIT - 5, 9, UNIT + 10);
    OK(aclrtMemset(row + UNIT - 5, UNIT + 10, 9, UNIT + 10));
    expect_row();
    memmove(row_bytes + UNIT + 1000, row_bytes + 7, UNIT - 1000);
    OK(aclrtMemcpy(row + UNIT + 1000, UNIT, row + 7, UNIT - 1000, ACL_MEMCPY_DEFAULT));
    expect_row();
    end_row();
}
END_TEST

START_TEST(tasks_across_borders)
{
    void *pinned;

    begin_row(&on_device);
    OK(aclrtMallocHost(&pinned, 3 * UNIT));
    memset(row_bytes + 100, 4, 2 * UNIT);
    OK(aclrtMemsetAsync(row + 100, 2 * UNIT, 4, 2 * UNIT, stream));
    OK(aclrtMemcpyAsync(pinned, 3 * UNIT, row, 3 * UNIT, ACL_MEMCPY_DEFAULT, stream));
    OK(aclrtSynchronizeStream(stream));
    ck_assert(memcmp(row_bytes, pinned, 3 * UNIT) == 0);
    expect_row();
    /* From one border to another, and back from the host. */
    memmove(row_bytes + UNIT + 1000, row_bytes + 7, UNIT - 1000);
    OK(aclrtMemcpyAsync(row + UNIT + 1000, UNIT, row + 7, UNIT - 1000, ACL_MEMCPY_DEFAULT, stream));
    memset(pinned, 5, 3 * UNIT);
    memset(row_bytes + UNIT - 1, 5, UNIT + 2);
    OK(aclrtMemcpyAsync(row + UNIT - 1, UNIT + 2, pinned, UNIT + 2, ACL_MEMCPY_DEFAULT, stream));
    OK(aclrtSynchronizeStream(stream));
    expect_row();
    OK(aclrtFreeHost(pinned));
    end_row();
}
END_TEST

START_TEST(holes_are_refused)
{
    aclrtDrvMemHandle h = allocate(&on_device, UNIT);
    char *p = reserve(4 * UNIT), *q = reserve(UNIT), c = 0;

    FAILS_SAYING(BAD, "nothing is mapped", aclrtMemcpy(p, 1, &c, 1, ACL_MEMCPY_HOST_TO_DEVICE));
    OK(aclrtMapMem(p, UNIT, 0, h, 0));
    OK(aclrtMapMem(p + 2 * UNIT, UNIT, 0, h, 0));
    OK(aclrtMapMem(q, UNIT, 0, h, 0));
    fill(p, 6, UNIT);
    FAILS(BAD, aclrtMemset(p, 4 * UNIT, 0, UNIT + 1));
    FAILS(BAD, aclrtMemset(p + UNIT, UNIT, 0, 1));
    FAILS(BAD, aclrtMemset(p + 2 * UNIT, 2 * UNIT, 0, UNIT + 1));
    FAILS(BAD, aclrtMemsetAsync(p + UNIT - 1, UNIT, 0, 2, stream));
    FAILS(BAD, aclrtMemcpyAsync(q, UNIT, p + UNIT - 1, 2, ACL_MEMCPY_DEVICE_TO_DEVICE, stream));
    FAILS(BAD, aclrtMemcpy(&c, 1, p + 3 * UNIT, 1, ACL_MEMCPY_DEVICE_TO_HOST));
    FAILS(BAD, aclrtValueWrite(p + UNIT, 1, 0, stream));
    /* Nothing of a refused call was done. */
    expect_ends(p, 6, UNIT);
    /* A word lies in one mapping. */
    OK(aclrtUnmapMem(q));
    OK(aclrtMapMem(p + UNIT, UNIT, 0, h, 0));
    FAILS(BAD, aclrtReduceAsync(p + UNIT - 32, p, 64, ACL_RT_MEMCPY_SDMA_AUTOMATIC_SUM, ACL_INT32,
                                stream, NULL));
    for (uint64_t i = 0; i < 3; i++)
        OK(aclrtUnmapMem(p + i * UNIT));
    FAILS(BAD, aclrtMemcpy(&c, 1, p, 1, ACL_MEMCPY_DEVICE_TO_HOST));
    OK(aclrtFreePhysical(h));
    OK(aclrtReleaseMemAddress(p));
    OK(aclrtReleaseMemAddress(q));
}
END_TEST

START_TEST(kinds_are_not_mixed)
{
    aclrtDrvMemHandle here = allocate(&on_device, UNIT), there = allocate(&on_second, UNIT),
                      host = allocate(&on_host, UNIT);
    char *p = reserve(2 * UNIT);

    OK(aclrtMapMem(p, UNIT, 0, here, 0));
    FAILS(BAD, aclrtMapMem(p + UNIT, UNIT, 0, host, 0));
    OK(aclrtMapMem(p + UNIT, UNIT, 0, there, 0)); /* of another device is another thing */
    OK(aclrtUnmapMem(p + UNIT));
    OK(aclrtUnmapMem(p));
    OK(aclrtMapMem(p, UNIT, 0, host, 0));
    memset(p, 1, UNIT); /* memory of the host is the program's */
    FAILS(BAD, aclrtMapMem(p + UNIT, UNIT, 0, here, 0));
    OK(aclrtUnmapMem(p));
    OK(aclrtFreePhysical(here));
    OK(aclrtFreePhysical(there));
    OK(aclrtFreePhysical(host));
    OK(aclrtReleaseMemAddress(p));
}
END_TEST

/* Own memory of two devices and an import, and calls on all of it. */
START_TEST(devices_and_imports_lie_side_by_side)
{
    aclrtDrvMemHandle handles[3] = {allocate(&on_device, UNIT), allocate(&on_second, UNIT)}, h;
    char *p = reserve(32 * GIB), *q, bytes[3] = {1, 2, 3};
    uint64_t number;

    h = allocate(&on_device, UNIT);
    OK(aclrtMemExportToShareableHandle(h, 0, ANY, &number));
    OK(aclrtMemImportFromShareableHandle(number, 0, &handles[2]));
    OK(aclrtMalloc((void **)&q, 3 * UNIT, ACL_MEM_MALLOC_HUGE_FIRST));
    for (uint64_t i = 0; i < 3; i++)
        OK(aclrtMapMem(p + i * UNIT, UNIT, 0, handles[i], 0));
    fill(p, 5, 3 * UNIT);
    for (uint64_t i = 0; i < 3; i++)
        expect_ends(p + i * UNIT, 5, UNIT);
    fill(q, 6, 3 * UNIT);
    FAILS(BUSY, aclrtMemcpy(p, 3 * UNIT, q, 3 * UNIT, ACL_MEMCPY_DEVICE_TO_DEVICE)); /* no peers */
    OK(aclrtDeviceEnablePeerAccess(1, 0));
    OK(aclrtMemcpy(p, 3 * UNIT, q, 3 * UNIT, ACL_MEMCPY_DEVICE_TO_DEVICE));
    expect_ends(p, 6, 3 * UNIT);
    expect_ends(p + UNIT, 6, UNIT);
    OK(aclrtMemsetAsync(p, 3 * UNIT, 7, 3 * UNIT, stream));
    OK(aclrtMemcpyAsync(q, 3 * UNIT, p, 3 * UNIT, ACL_MEMCPY_DEVICE_TO_DEVICE, stream));
    OK(aclrtSynchronizeStream(stream));
    for (uint64_t i = 0; i < 3; i++)
        expect_ends(q + i * UNIT, 7, UNIT);
    OK(aclrtMemcpy(p + 2 * UNIT - 1, 3, bytes, 3, ACL_MEMCPY_HOST_TO_DEVICE));
    expect_ends(p + 2 * UNIT - 1, 1, 1);
    expect_ends(p + 2 * UNIT, 2, 1);
    for (uint64_t i = 0; i < 3; i++) {
        OK(aclrtUnmapMem(p + i * UNIT));
        OK(aclrtFreePhysical(handles[i]));
    }
    OK(aclrtFreePhysical(h));
    OK(aclrtReleaseMemAddress(p));
}
END_TEST

/* --- access --- */

static uint64_t access_of(void *address, aclrtMemLocation location)
{
    uint64_t flag = UINT64_MAX;

    OK(aclrtMemGetAccess(address, &location, &flag));
    return flag;
}

START_TEST(arguments_of_access)
{
    aclrtDrvMemHandle h = allocate(&on_device, UNIT);
    aclrtMemAccessDesc desc = {ACL_RT_MEM_ACCESS_FLAGS_READWRITE, on_second.location, {0}};
    aclrtMemAccessDesc bad[] = {
        {ACL_RT_MEM_ACCESS_FLAGS_READ, on_second.location, {0}},
        {ACL_RT_MEM_ACCESS_FLAGS_NONE, on_second.location, {0}},
        {ACL_RT_MEM_ACCESS_FLAGS_READWRITE, {1, ACL_MEM_LOCATION_TYPE_HOST}, {0}},
        {ACL_RT_MEM_ACCESS_FLAGS_READWRITE, {0, ACL_MEM_LOCATION_TYPE_UNREGISTERED}, {0}},
        {ACL_RT_MEM_ACCESS_FLAGS_READWRITE, {9, ACL_MEM_LOCATION_TYPE_DEVICE}, {0}},
    };
    aclrtMemLocation location = on_second.location;
    char *p = reserve(2 * UNIT);
    uint64_t flag;

    OK(aclrtMapMem(p, UNIT, 0, h, 0));
    FAILS(BAD, aclrtMemSetAccess(NULL, UNIT, &desc, 1));
    FAILS(BAD, aclrtMemSetAccess(p, UNIT, NULL, 1));
    FAILS(BAD, aclrtMemSetAccess(p, UNIT, &desc, 0));
    FAILS(BAD, aclrtMemSetAccess(p, UNIT / 2, &desc, 1));
    FAILS(BAD, aclrtMemSetAccess(p + 4096, UNIT, &desc, 1));
    FAILS(BAD, aclrtMemSetAccess(p + UNIT, UNIT, &desc, 1));
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        aclrtMemAccessDesc both[] = {desc, bad[i]};
        aclError error = aclrtMemSetAccess(p, UNIT, both, 2);

        ck_assert_int_eq(error, i < 4 ? BAD : ACL_ERROR_RT_INVALID_DEVICEID);
    }
    ck_assert_uint_eq(access_of(p, location), ACL_RT_MEM_ACCESS_FLAGS_NONE);
    FAILS(INVALID, aclrtMemGetAccess(NULL, &location, &flag));
    FAILS(INVALID, aclrtMemGetAccess(p, NULL, &flag));
    FAILS(INVALID, aclrtMemGetAccess(p, &location, NULL));
    FAILS(BAD, aclrtMemGetAccess(p + UNIT, &location, &flag));
    FAILS(BAD, aclrtMemGetAccess(p, &bad[3].location, &flag));
    FAILS(ACL_ERROR_RT_INVALID_DEVICEID, aclrtMemGetAccess(p, &bad[4].location, &flag));
    OK(aclrtUnmapMem(p));
    OK(aclrtFreePhysical(h));
    OK(aclrtReleaseMemAddress(p));
}
END_TEST

START_TEST(no_access_until_it_is_given)
{
    aclrtDrvMemHandle h = allocate(&on_device, UNIT);
    aclrtMemAccessDesc desc = {ACL_RT_MEM_ACCESS_FLAGS_READWRITE, on_device.location, {0}};
    char *p = reserve(UNIT), c;

    OK(aclrtMemMapNoAccess(p, UNIT, 0, h, 0));
    ck_assert_uint_eq(access_of(p, on_device.location), ACL_RT_MEM_ACCESS_FLAGS_NONE);
    FAILS_SAYING(BAD, "without access", aclrtMemcpy(&c, 1, p, 1, ACL_MEMCPY_DEVICE_TO_HOST));
    FAILS(BAD, aclrtMemset(p, UNIT, 0, UNIT));
    FAILS(BAD, aclrtMemsetAsync(p, UNIT, 0, UNIT, stream));
    FAILS(BAD, aclrtValueWrite(p, 0, 0, stream));
    OK(aclrtMemSetAccess(p, UNIT, &desc, 1));
    OK(aclrtMemSetAccess(p, UNIT, &desc, 1));
    ck_assert_uint_eq(access_of(p + 5, on_device.location), ACL_RT_MEM_ACCESS_FLAGS_READWRITE);
    fill(p, 5, UNIT);
    expect_ends(p, 5, UNIT);
    OK(aclrtUnmapMem(p));
    OK(aclrtMapMem(p, UNIT, 0, h, 0)); /* access was the mapping's */
    ck_assert_uint_eq(access_of(p, on_device.location), ACL_RT_MEM_ACCESS_FLAGS_READWRITE);
    ck_assert_uint_eq(access_of(p, on_host.location), ACL_RT_MEM_ACCESS_FLAGS_NONE);
    OK(aclrtUnmapMem(p));
    OK(aclrtFreePhysical(h));
    OK(aclrtReleaseMemAddress(p));
}
END_TEST

/* Another device reaches a mapping without being a peer of its device. */
START_TEST(access_of_another_device)
{
    aclrtDrvMemHandle h = allocate(&on_second, UNIT);
    aclrtMemAccessDesc desc = {ACL_RT_MEM_ACCESS_FLAGS_READWRITE, on_device.location, {0}};
    char *p = reserve(UNIT);
    int32_t reaches;
    void *own;

    OK(aclrtMalloc(&own, UNIT, ACL_MEM_MALLOC_HUGE_FIRST));
    fill(own, 3, UNIT);
    OK(aclrtMapMem(p, UNIT, 0, h, 0));
    FAILS(BUSY, aclrtMemcpyAsync(p, UNIT, own, UNIT, ACL_MEMCPY_DEVICE_TO_DEVICE, stream));
    FAILS(BUSY, aclrtValueWrite(p, 1, 0, stream));
    OK(aclrtMemSetAccess(p, UNIT, &desc, 1));
    ck_assert_uint_eq(access_of(p, on_device.location), ACL_RT_MEM_ACCESS_FLAGS_READWRITE);
    ck_assert_uint_eq(access_of(p, on_second.location), ACL_RT_MEM_ACCESS_FLAGS_READWRITE);
    OK(aclrtMemcpyAsync(p, UNIT, own, UNIT, ACL_MEMCPY_DEVICE_TO_DEVICE, stream));
    OK(aclrtSynchronizeStream(stream));
    expect_ends(p, 3, UNIT);
    OK(aclrtValueWrite(p, 1, 0, stream));
    OK(aclrtSynchronizeStream(stream));
    OK(aclrtDevicePeerAccessStatus(0, 1, &reaches));
    ck_assert_int_eq(reaches, 0);
    OK(aclrtUnmapMem(p));
    OK(aclrtMapMem(p, UNIT, 0, h, 0));
    FAILS(BUSY, aclrtValueWrite(p, 1, 0, stream));
    OK(aclrtUnmapMem(p));
    OK(aclrtFreePhysical(h));
    OK(aclrtFree(own));
    OK(aclrtReleaseMemAddress(p));
}
END_TEST

/* --- many --- */

/* A handle takes no descriptor of the process. */
START_TEST(handles_need_no_descriptors)
{
    enum { HANDLES = 1000 };
    struct rlimit limit;
    static aclrtDrvMemHandle h[HANDLES];
    char *p = reserve(HANDLES * UNIT);

    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
    if (!need_fds(__func__, 4096))
        return;
    limit.rlim_cur = 256;
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
    for (uint64_t i = 0; i < HANDLES; i++) {
        h[i] = allocate(&on_device, UNIT);
        OK(aclrtMapMem(p + i * UNIT, UNIT, 0, h[i], 0));
    }
    for (uint64_t i = 0; i < HANDLES; i++) {
        uint64_t word = i;

        OK(aclrtMemcpy(p + i * UNIT, 8, &word, 8, ACL_MEMCPY_HOST_TO_DEVICE));
    }
    for (uint64_t i = 0; i < HANDLES; i++) {
        uint64_t word;

        OK(aclrtMemcpy(&word, 8, p + i * UNIT, 8, ACL_MEMCPY_DEVICE_TO_HOST));
        ck_assert_uint_eq(word, i);
        OK(aclrtUnmapMem(p + i * UNIT));
        OK(aclrtFreePhysical(h[i]));
    }
    OK(aclrtReleaseMemAddress(p));
}
END_TEST

static char *busy; /* where threads map and unmap, each in its own place */
static atomic_bool mapping_over;

static void *map_and_unmap(void *arg)
{
    enum { ROUNDS = 200 };
    char *p = busy + (uintptr_t)arg * UNIT;
    aclrtDrvMemHandle h;

    OK(aclrtSetDevice(0));
    for (int i = 0; i < ROUNDS; i++) {
        h = allocate(&on_device, UNIT);
        OK(aclrtMapMem(p, UNIT, 0, h, 0));
        OK(aclrtMemset(p, 64, i, 64));
        expect_ends(p, i, 64);
        OK(aclrtUnmapMem(p));
        OK(aclrtFreePhysical(h));
    }
    return NULL;
}

static void *copy_elsewhere(void *arg)
{
    uint64_t words[64], n = 0;
    char *p = arg;

    OK(aclrtSetDevice(0));
    while (!mapping_over) {
        memset(words, (int)++n, sizeof(words));
        OK(aclrtMemcpy(p, sizeof(words), words, sizeof(words), ACL_MEMCPY_HOST_TO_DEVICE));
        expect_ends(p, (int)n, sizeof(words));
    }
    return NULL;
}

START_TEST(threads)
{
    aclrtDrvMemHandle h = allocate(&on_device, UNIT);
    pthread_t mappers[3], copier;
    char *p;

    busy = reserve(4 * UNIT);
    p = busy + 3 * UNIT;
    OK(aclrtMapMem(p, UNIT, 0, h, 0));
    ck_assert_int_eq(pthread_create(&copier, NULL, copy_elsewhere, p), 0);
    for (uintptr_t i = 0; i < 3; i++)
        ck_assert_int_eq(pthread_create(&mappers[i], NULL, map_and_unmap, (void *)i), 0);
    for (int i = 0; i < 3; i++)
        pthread_join(mappers[i], NULL);
    mapping_over = true;
    pthread_join(copier, NULL);
    OK(aclrtUnmapMem(p));
    OK(aclrtFreePhysical(h));
    OK(aclrtReleaseMemAddress(busy));
}
END_TEST

/* --- what is left behind --- */

/* It stays beyond a reset of its device. */
START_TEST(device_reset)
{
    aclrtDrvMemHandle h = allocate(&on_device, UNIT);
    char *p = reserve(2 * UNIT);

    OK(aclrtMapMem(p, UNIT, 0, h, 0));
    fill(p, 8, UNIT);
    OK(aclrtResetDevice(0));
    OK(aclrtSetDevice(0));
    expect_ends(p, 8, UNIT);
    OK(aclrtMapMem(p + UNIT, UNIT, 0, h, 0));
    expect_ends(p + UNIT, 8, UNIT);
    for (uint64_t i = 0; i < 2; i++)
        OK(aclrtUnmapMem(p + i * UNIT));
    OK(aclrtFreePhysical(h));
    ck_assert_uint_eq(used_on(0), 0);
    OK(aclrtReleaseMemAddress(p));
}
END_TEST

START_TEST(everything_left_behind)
{
    aclrtDrvMemHandle h = allocate(&on_device, UNIT), more;
    char *p = reserve(2 * UNIT);
    uint64_t number;

    OK(aclrtMapMem(p, UNIT, 0, h, 0));
    OK(aclrtMemMapNoAccess(p + UNIT, UNIT, 0, h, 0));
    OK(aclrtMemRetainAllocationHandle(p, &more));
    OK(aclrtMemExportToShareableHandle(h, 0, ANY, &number));
    allocate(&on_host, UNIT);
    OK(aclFinalize());
}
END_TEST

/* --- between processes --- */

static struct shared {
    uint64_t number, listed;
    int32_t pid;
} * shared;

static void set_up_two(void)
{
    npud_setup();
    shared = child_share(sizeof(*shared));
    turns_init();
}

static aclrtDrvMemHandle import_now(uint64_t number)
{
    aclrtDrvMemHandle h;

    OK(aclrtMemImportFromShareableHandle(number, 0, &h));
    return h;
}

static int import_and_write(void *arg)
{
    aclrtPhysicalMemProp prop;
    aclrtDrvMemHandle h, own, again = NULL;
    char *p, *q;

    (void)arg;
    streams_open(&stream, &other);
    OK(aclrtDeviceGetBareTgid(&shared->pid));
    turn_tell(&to_parent);
    turn_await(&to_child);
    FAILS(DENIED, aclrtMemImportFromShareableHandle(shared->listed, 0, &h));
    FAILS(BUSY, aclrtMemImportFromShareableHandle(shared->listed + 1, 0, &h));
    FAILS(BUSY, aclrtMemSetPidToShareableHandle(shared->listed, &shared->pid, 1));
    h = import_now(shared->number);
    OK(aclrtMemGetAllocationPropertiesFromHandle(h, &prop));
    ck_assert_int_eq(prop.location.type, ACL_MEM_LOCATION_TYPE_DEVICE);
    ck_assert_uint_eq(prop.location.id, 0);
    FAILS(BAD, aclrtMemExportToShareableHandle(h, 0, 0, &shared->listed));
    OK(aclrtMemImportFromShareableHandleV2(&shared->number, ACL_MEM_SHARE_HANDLE_TYPE_DEFAULT, 0,
                                           &again));
    p = reserve(2 * UNIT);
    q = reserve(UNIT);
    OK(aclrtMapMem(p, UNIT, 0, h, 0));
    own = allocate(&on_device, UNIT);
    OK(aclrtMapMem(p + UNIT, UNIT, 0, own, 0)); /* beside the import */
    fill(p + UNIT, 1, UNIT);
    expect_ends(p, 1, 2 * UNIT);
    OK(aclrtUnmapMem(p + UNIT));
    OK(aclrtMapMem(q, UNIT, 0, again, 0));
    expect_ends(p, 1, UNIT);
    fill(q, 2, UNIT);
    turn_tell(&to_parent);
    turn_await(&to_child); /* the exporter has freed all that it had */
    expect_ends(p, 2, UNIT);
    OK(aclrtFreePhysical(h));
    OK(aclrtFreePhysical(own));
    OK(aclrtFreePhysical(again));
    expect_ends(p, 2, UNIT);
    OK(aclrtUnmapMem(p));
    expect_ends(q, 2, UNIT);
    FAILS(BUSY, aclrtMemImportFromShareableHandle(shared->number, 0, &h));
    turn_tell(&to_parent);
    turn_await(&to_child);
    OK(aclrtUnmapMem(q));
    return 0;
}

static void *import_without_context(void *arg)
{
    aclrtDrvMemHandle h;

    (void)arg;
    FAILS(ACL_ERROR_RT_CONTEXT_NULL, aclrtMemImportFromShareableHandle(shared->number, 0, &h));
    FAILS(ACL_ERROR_RT_CONTEXT_NULL,
          aclrtMemImportFromShareableHandleV2(&shared->number, ACL_MEM_SHARE_HANDLE_TYPE_DEFAULT, 0,
                                              &h));
    return NULL;
}

static void check_sharing_arguments(aclrtDrvMemHandle fresh)
{
    const aclrtMemSharedHandleType plain = ACL_MEM_SHARE_HANDLE_TYPE_DEFAULT,
                                   fabric = ACL_MEM_SHARE_HANDLE_TYPE_FABRIC,
                                   none = (aclrtMemSharedHandleType)3;
    aclrtMemFabricHandle out;
    uint64_t n = 0, zero = 0;
    int32_t pid = 1000000;
    aclrtDrvMemHandle h;

    FAILS(INVALID, aclrtMemExportToShareableHandle(NULL, 0, 0, &n));
    FAILS(INVALID, aclrtMemExportToShareableHandle(fresh, 0, 0, NULL));
    FAILS(INVALID, aclrtMemExportToShareableHandle(fresh, ACL_MEM_HANDLE_TYPE_POSIX, 0, &n));
    FAILS(BAD, aclrtMemExportToShareableHandle(fresh, 0, 2, &n));
    FAILS(INVALID, aclrtMemExportToShareableHandleV2(NULL, 0, plain, &n));
    FAILS(INVALID, aclrtMemExportToShareableHandleV2(fresh, 0, plain, NULL));
    FAILS(BAD, aclrtMemExportToShareableHandleV2(fresh, 2, plain, &n));
    FAILS(BAD, aclrtMemExportToShareableHandleV2(fresh, 0, none, &n));
    FAILS(INVALID, aclrtMemExportToShareableHandleV2(NULL, 0, fabric, &out));
    FAILS(BAD, aclrtMemExportToShareableHandleV2(fresh, 2, fabric, &out));
    ck_assert_uint_eq(n, 0);
    FAILS(BUSY, aclrtMemSetPidToShareableHandle(zero, &pid, 1));
    FAILS(INVALID, aclrtMemSetPidToShareableHandle(shared->listed, NULL, 1));
    FAILS(INVALID, aclrtMemSetPidToShareableHandle(shared->listed, &pid, 0));
    FAILS(BAD, aclrtMemSetPidToShareableHandle(shared->listed, (int32_t[]){0}, 1));
    FAILS(DENIED, aclrtMemSetPidToShareableHandle(shared->number, &pid, 1));
    FAILS(INVALID, aclrtMemSetPidToShareableHandleV2(NULL, plain, &pid, 1));
    FAILS(INVALID, aclrtMemSetPidToShareableHandleV2(&shared->listed, plain, NULL, 1));
    FAILS(INVALID, aclrtMemSetPidToShareableHandleV2(&shared->listed, plain, &pid, 0));
    FAILS(BAD, aclrtMemSetPidToShareableHandleV2(&shared->listed, none, &pid, 1));
    OK(aclrtMemSetPidToShareableHandleV2(&shared->listed, plain, &pid, 1));
    FAILS(INVALID, aclrtMemImportFromShareableHandle(shared->number, 0, NULL));
    FAILS(ACL_ERROR_RT_INVALID_DEVICEID, aclrtMemImportFromShareableHandle(shared->number, 2, &h));
    FAILS(ACL_ERROR_RT_INVALID_DEVICEID, aclrtMemImportFromShareableHandle(shared->number, -1, &h));
    FAILS(ACL_ERROR_RT_CONTEXT_NULL, aclrtMemImportFromShareableHandle(shared->number, 1, &h));
    FAILS(BUSY, aclrtMemImportFromShareableHandle(zero, 0, &h));
    FAILS(INVALID, aclrtMemImportFromShareableHandleV2(NULL, plain, 0, &h));
    FAILS(INVALID, aclrtMemImportFromShareableHandleV2(&shared->number, plain, 0, NULL));
    FAILS(INVALID, aclrtMemImportFromShareableHandleV2(&shared->number, plain, 1, &h));
    FAILS(BAD, aclrtMemImportFromShareableHandleV2(&shared->number, none, 0, &h));
    memset(&out, 0, sizeof(out));
    FAILS(BUSY, aclrtMemImportFromShareableHandleV2(&out, fabric, 0, &h));
    out.data[100] = 1;
    FAILS(BAD, aclrtMemImportFromShareableHandleV2(&out, fabric, 0, &h));
    FAILS(BAD, aclrtMemSetPidToShareableHandleV2(&out, fabric, &pid, 1));
    thread_call(import_without_context, NULL);
}

START_TEST(shareable_handles)
{
    pid_t pid = child_start(import_and_write, NULL);
    aclrtDrvMemHandle h, listed, fresh;
    char *p;

    streams_open(&stream, &other);
    p = reserve(UNIT);
    h = allocate(&on_device, UNIT);
    listed = allocate(&on_device, UNIT);
    fresh = allocate(&on_device, UNIT);
    OK(aclrtMapMem(p, UNIT, 0, h, 0));
    fill(p, 1, UNIT);
    OK(aclrtMemExportToShareableHandle(h, ACL_MEM_HANDLE_TYPE_NONE, ANY, &shared->number));
    OK(aclrtMemExportToShareableHandleV2(listed, 0, ACL_MEM_SHARE_HANDLE_TYPE_DEFAULT,
                                         &shared->listed));
    FAILS(BUSY, aclrtMemExportToShareableHandle(h, 0, 0, &(uint64_t){0}));
    check_sharing_arguments(fresh);
    OK(aclrtFreePhysical(fresh));
    turn_await(&to_parent);
    turn_tell(&to_child);
    turn_await(&to_parent);
    expect_ends(p, 2, UNIT);
    OK(aclrtUnmapMem(p));
    OK(aclrtFreePhysical(h));
    OK(aclrtFreePhysical(listed));
    ck_assert_uint_eq(used_on(0), 2 * UNIT); /* the child's own, and what was ours */
    turn_tell(&to_child);
    turn_await(&to_parent);
    ck_assert_uint_eq(used_on(0), UNIT);
    turn_tell(&to_child);
    child_expect_ok(pid);
    npud_await_sessions(1);
    ck_assert_uint_eq(used_on(0), 0);
    OK(aclrtReleaseMemAddress(p));
}
END_TEST

static int import_by_fabric(void *arg)
{
    aclrtMemFabricHandle *handle = arg;
    aclrtDrvMemHandle h;
    char *p;

    streams_open(&stream, &other);
    OK(aclrtDeviceGetBareTgid(&shared->pid));
    turn_tell(&to_parent);
    turn_await(&to_child);
    OK(aclrtMemImportFromShareableHandleV2(handle, ACL_MEM_SHARE_HANDLE_TYPE_FABRIC, 0, &h));
    p = reserve(UNIT);
    OK(aclrtMapMem(p, UNIT, 0, h, 0));
    expect_ends(p, 3, UNIT);
    fill(p, 4, UNIT);
    return 0;
}

START_TEST(fabric_handles_within_the_host)
{
    aclrtMemFabricHandle *handle = child_share(sizeof(*handle));
    const aclrtMemSharedHandleType fabric = ACL_MEM_SHARE_HANDLE_TYPE_FABRIC;
    pid_t pid = child_start(import_by_fabric, handle);
    aclrtDrvMemHandle h;
    char *p;

    streams_open(&stream, &other);
    p = reserve(UNIT);
    h = allocate(&on_device, UNIT);
    OK(aclrtMapMem(p, UNIT, 0, h, 0));
    fill(p, 3, UNIT);
    memset(handle, 0xff, sizeof(*handle));
    OK(aclrtMemExportToShareableHandleV2(h, 0, fabric, handle));
    turn_await(&to_parent);
    OK(aclrtMemSetPidToShareableHandleV2(handle, fabric, &shared->pid, 1));
    turn_tell(&to_child);
    child_expect_ok(pid);
    expect_ends(p, 4, UNIT);
    OK(aclrtFreePhysical(h));
    FAILS(BUSY, aclrtMemSetPidToShareableHandleV2(handle, fabric, &shared->pid, 1));
}
END_TEST

/* Whatever else keeps the memory: a mapping, an import, or nothing. */
START_TEST(a_number_goes_with_the_last_handle)
{
    aclrtDrvMemHandle h, more, imported, stale;
    uint64_t number, second;
    char *p;

    streams_open(&stream, &other);
    p = reserve(UNIT);
    h = allocate(&on_device, UNIT);
    OK(aclrtMapMem(p, UNIT, 0, h, 0));
    OK(aclrtMemExportToShareableHandle(h, 0, ANY, &number));
    imported = import_now(number);
    OK(aclrtMemRetainAllocationHandle(p, &more));
    OK(aclrtFreePhysical(h));
    OK(aclrtFreePhysical(import_now(number))); /* `more` is a handle */
    OK(aclrtFreePhysical(more));
    FAILS(BUSY, aclrtMemImportFromShareableHandle(number, 0, &stale));
    FAILS(BUSY, aclrtMemSetPidToShareableHandle(number, &(int32_t){1000000}, 1));
    fill(p, 3, UNIT);
    OK(aclrtMemRetainAllocationHandle(p, &more));
    FAILS(BUSY, aclrtMemImportFromShareableHandle(number, 0, &stale));
    OK(aclrtMemExportToShareableHandle(more, 0, ANY, &second)); /* it has none now */
    ck_assert_uint_ne(second, number);
    OK(aclrtUnmapMem(p));
    OK(aclrtFreePhysical(import_now(second)));
    OK(aclrtFreePhysical(more));
    FAILS(BUSY, aclrtMemImportFromShareableHandle(second, 0, &stale));
    OK(aclrtMapMem(p, UNIT, 0, imported, 0));
    expect_ends(p, 3, UNIT);
    OK(aclrtUnmapMem(p));
    OK(aclrtFreePhysical(imported));
    ck_assert_uint_eq(used_on(0), 0);
}
END_TEST

static pthread_barrier_t both_begin;

static void *export_beside(void *handle)
{
    uint64_t number = 0;

    pthread_barrier_wait(&both_begin);
    if (aclrtMemExportToShareableHandle(handle, 0, ANY, &number) != 0)
        number = 0;
    return (void *)(uintptr_t)number; /* NOLINT(performance-no-int-to-ptr) */
}

/* A mapping keeps the memory, so that an export that comes late finds it. */
START_TEST(a_number_that_comes_late_goes_at_once)
{
    aclrtDrvMemHandle h, stale;
    pthread_t thread;
    void *number;
    char *p;

    streams_open(&stream, &other);
    p = reserve(UNIT);
    pthread_barrier_init(&both_begin, NULL, 2);
    for (int i = 0; i < 200; i++) {
        h = allocate(&on_device, UNIT);
        OK(aclrtMapMem(p, UNIT, 0, h, 0));
        ck_assert_int_eq(pthread_create(&thread, NULL, export_beside, h), 0);
        pthread_barrier_wait(&both_begin);
        for (int k = 0; k < i * 20; k++)
            atomic_thread_fence(memory_order_seq_cst);
        OK(aclrtFreePhysical(h));
        pthread_join(thread, &number);
        if (number)
            FAILS(BUSY, aclrtMemImportFromShareableHandle((uintptr_t)number, 0, &stale));
        OK(aclrtMemRetainAllocationHandle(p, &h)); /* none has stayed in npud */
        OK(aclrtMemExportToShareableHandle(h, 0, ANY, &(uint64_t){0}));
        OK(aclrtFreePhysical(h));
        OK(aclrtUnmapMem(p));
    }
    ck_assert_uint_eq(used_on(0), 0);
}
END_TEST

static int import_when_listed(void *arg)
{
    aclrtDrvMemHandle h;
    char *p;

    (void)arg;
    OK(aclInit(NULL));
    OK(aclrtSetDevice(1));
    OK(aclrtCreateStream(&stream));
    OK(aclrtDeviceGetBareTgid(&shared->pid));
    turn_tell(&to_parent);
    turn_await(&to_child);
    OK(aclrtMemImportFromShareableHandle(shared->listed, 1, &h));
    p = reserve(UNIT);
    OK(aclrtMapMem(p, UNIT, 0, h, 0));
    expect_ends(p, 7, UNIT);
    OK(aclrtMemset(p, UNIT, 9, UNIT));
    turn_tell(&to_parent);
    turn_await(&to_child); /* and is killed meanwhile, or goes on without the exporter */
    expect_ends(p, 9, UNIT);
    return 0;
}

START_TEST(one_of_two_dies)
{
    pid_t pid = child_start(import_when_listed, NULL);
    aclrtDrvMemHandle h;
    char *p;

    streams_open(&stream, &other);
    p = reserve(UNIT);
    h = allocate(&on_device, UNIT);
    OK(aclrtMapMem(p, UNIT, 0, h, 0));
    fill(p, 7, UNIT);
    OK(aclrtMemExportToShareableHandle(h, 0, 0, &shared->listed));
    turn_await(&to_parent);
    OK(aclrtMemSetPidToShareableHandle(shared->listed, &shared->pid, 1));
    turn_tell(&to_child);
    turn_await(&to_parent);
    expect_ends(p, 9, UNIT);
    if (_i == 0) {
        child_kill(pid);
        npud_await_sessions(1);
        expect_ends(p, 9, UNIT);
        ck_assert_uint_eq(used_on(0), UNIT);
    }
    OK(aclrtFreePhysical(h));
    OK(aclrtUnmapMem(p));
    ck_assert_uint_eq(used_on(0), _i == 0 ? 0 : UNIT);
    if (_i == 1) {
        turn_tell(&to_child);
        child_expect_ok(pid);
        npud_await_sessions(1);
        ck_assert_uint_eq(used_on(0), 0);
    }
    OK(aclrtReleaseMemAddress(p));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("virtual");
    TCase *tc = suite_case(suite, "virtual", 120, set_up_test, npud_teardown);

    tcase_add_test(tc, reservations);
    tcase_add_test(tc, sizes_are_rounded_up);
    tcase_add_test(tc, wishes);
    tcase_add_test(tc, addresses_change_hands);
    tcase_add_test(tc, more_addresses_than_there_are);
    tcase_add_test(tc, kinds_of_memory);
    tcase_add_test(tc, arguments_of_physical_memory);
    tcase_add_test(tc, stale_handles);
    tcase_add_test(tc, capacity);
    tcase_add_test(tc, own_memory_is_counted_as_own);
    tcase_add_test(tc, arguments_of_mappings);
    tcase_add_test(tc, one_mapping_of_a_reservation);
    tcase_add_test(tc, orders);
    tcase_add_test(tc, mapped_twice);
    tcase_add_test(tc, unmapped_while_it_is_copied);
    tcase_add_test(tc, waits_are_of_the_memory);
    tcase_add_loop_test(tc, calls_across_borders, 0, 2);
    tcase_add_test(tc, tasks_across_borders);
    tcase_add_test(tc, holes_are_refused);
    tcase_add_test(tc, kinds_are_not_mixed);
    tcase_add_test(tc, devices_and_imports_lie_side_by_side);
    tcase_add_test(tc, arguments_of_access);
    tcase_add_test(tc, no_access_until_it_is_given);
    tcase_add_test(tc, access_of_another_device);
    tcase_add_test(tc, handles_need_no_descriptors);
    tcase_add_test(tc, threads);
    tcase_add_test(tc, device_reset);
    tcase_add_test(tc, everything_left_behind);
    tc = suite_case(suite, "two processes", 60, set_up_two, npud_teardown);
    tcase_add_test(tc, shareable_handles);
    tcase_add_test(tc, fabric_handles_within_the_host);
    tcase_add_test(tc, a_number_goes_with_the_last_handle);
    tcase_add_test(tc, a_number_that_comes_late_goes_at_once);
    tcase_add_loop_test(tc, one_of_two_dies, 0, 2);
    return run_suite(suite);
}
