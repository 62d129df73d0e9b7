/* The typed forms that the C++ headers add to the memory functions, against a real npud. */
#include "acl/acl.h"
#include "acl/acl_rt_api.h"

#include <cstdint>
#include <cstdio>
#include <cstdlib>

extern "C" {
#include "tests/common/harness.h"
}

struct sample {
    double value;
    std::uint32_t count;
};

static void open_session()
{
    npud_setup();
    OK(aclInit(nullptr));
    OK(aclrtSetDevice(0));
}

START_TEST(typed_allocations)
{
    aclrtMallocAttribute attr = {ACL_RT_MEM_ATTR_DEVICE_ID, {}};
    aclrtMallocConfig cfg = {&attr, 1};
    sample *device = nullptr, *host = nullptr, *managed = nullptr;
    std::size_t before, after, total;

    OK(aclrtGetMemInfo(ACL_HBM_MEM, &before, &total));
    OK(aclrtMalloc(&device, 4096)); /* the policy has a default */
    OK(aclrtGetMemInfo(ACL_HBM_MEM, &after, &total));
    ck_assert_uint_eq(before - after, 4096); /* no guard */
    OK(aclrtFree(device));
    OK(aclrtMalloc(&device, 4096, ACL_MEM_MALLOC_NORMAL_ONLY));
    OK(aclrtFree(device));
    OK(aclrtMalloc(&device, 4096, ACL_MEM_MALLOC_HUGE_FIRST, &cfg));
    attr.value.deviceId = 1;
    sample *other = device;
    FAILS(ACL_ERROR_RT_PARAM_INVALID, aclrtMalloc(&other, 4096, ACL_MEM_MALLOC_HUGE_FIRST, &cfg));
    ck_assert_ptr_eq(other, device);
    OK(aclrtMallocHost(&host, 4096));
    OK(aclrtMemAllocManaged(&managed, 4096));
    host[1].count = 7;
    OK(aclrtMemcpy(device, 4096, host, 4096, ACL_MEMCPY_HOST_TO_DEVICE));
    OK(aclrtMemcpy(managed, 4096, device, 4096, ACL_MEMCPY_DEFAULT));
    ck_assert_uint_eq(managed[1].count, 7);
    FAILS(ACL_ERROR_INVALID_PARAM, aclrtMalloc(static_cast<sample **>(nullptr), 4096));
    FAILS(ACL_ERROR_INVALID_PARAM, aclrtMalloc(&other, 0));
    OK(aclrtFree(device));
    OK(aclrtFree(managed));
    OK(aclrtFreeHost(host));
}
END_TEST

static std::uint32_t word_at(const std::uint32_t *device)
{
    std::uint32_t word;

    OK(aclrtMemcpy(&word, sizeof(word), device, sizeof(word), ACL_MEMCPY_DEVICE_TO_HOST));
    return word;
}

/* Without failIndex. */
START_TEST(batches)
{
    std::uint32_t *device = nullptr, *host = nullptr;
    std::size_t size = 64, zero = 0;
    aclrtMemcpyBatchAttr attr = {};

    OK(aclrtMalloc(&device, size));
    OK(aclrtMallocHost(&host, size));
    attr.dstLoc.type = ACL_MEM_LOCATION_TYPE_DEVICE;
    host[3] = 9;
    void *dst = device, *src = host;
    OK(aclrtMemcpyBatch(&dst, &size, &src, &size, 1, &attr, &zero, 1));
    ck_assert_uint_eq(word_at(&device[3]), 9);
    host[3] = 10;
    OK(aclrtMemcpyBatchAsync(&dst, &size, &src, &size, 1, &attr, &zero, 1, nullptr));
    OK(aclrtSynchronizeStream(nullptr));
    ck_assert_uint_eq(word_at(&device[3]), 10);
}
END_TEST

int main()
{
    Suite *s = suite_create("memory (C++)");
    TCase *t = suite_case(s, "forms", 60, open_session, npud_teardown);

    tcase_add_test(t, typed_allocations);
    tcase_add_test(t, batches);
    return run_suite(s);
}
