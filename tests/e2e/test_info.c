/*
 * What the library tells of the system and of devices, and settings that it keeps: tables of what
 * each function answers, its codes and their order.
 *
 * Skipped under TSan: one thread asks one call after the other.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "acl/acl_platform.h"
#include "tests/common/harness.h"

#define NULL_ARGUMENT ACL_ERROR_INVALID_PARAM
#define BAD           ACL_ERROR_RT_PARAM_INVALID
#define NO_DEVICE     ACL_ERROR_RT_INVALID_DEVICEID
#define UNSUPPORTED   ACL_ERROR_RT_FEATURE_NOT_SUPPORT
#define MIB           ((int64_t)1 << 20)
#define HOUR_US       UINT64_C(3600000000)

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))

/* --- numbers of devices --- */

static const struct {
    aclrtDevAttr attr;
    int64_t sim, of_310p;
} numbers[] = {
    {ACL_DEV_ATTR_AICPU_CORE_NUM, 6, 4},
    {ACL_DEV_ATTR_AICORE_CORE_NUM, 24, 8},
    {ACL_DEV_ATTR_CUBE_CORE_NUM, 24, 8},
    {ACL_DEV_ATTR_VECTOR_CORE_NUM, 48, 7},
    {ACL_DEV_ATTR_WARP_SIZE, 0, 0},
    {ACL_DEV_ATTR_MAX_THREAD_PER_VECTOR_CORE, 0, 0},
    {ACL_DEV_ATTR_LOCAL_MEM_PER_VECTOR_CORE, 0, 0},
    {ACL_DEV_ATTR_MAX_BLOCK_DIM_Z, 0, 0},
    {ACL_DEV_ATTR_TOTAL_GLOBAL_MEM_SIZE, 64 * MIB, 64 * MIB},
    {ACL_DEV_ATTR_L2_CACHE_SIZE, 192 * MIB, 16 * MIB},
    {ACL_DEV_ATTR_SMP_ID, 0, 0},
    {ACL_DEV_ATTR_PHY_CHIP_ID, 1, 1},
    {ACL_DEV_ATTR_CUST_OP_PRIVILEGE, 0, 0},
    {ACL_DEV_ATTR_MAINBOARD_ID, 0, 0},
    {ACL_DEV_ATTR_HD_CONNECT_TYPE, ACL_HOST_DEVICE_CONNECT_TYPE_PCIE, 0},
    {ACL_DEV_ATTR_DEVICE_FORM_FACTOR, ACL_DEVICE_FORM_FACTOR_PCIE_CARD, 3},
    {ACL_DEV_ATTR_IS_VIRTUAL, 0, 0},
    {ACL_DEV_ATTR_NPU_ARCH, 2201, 2002},
};

static void start_with_chip(const char *name)
{
    char set[64];
    const char *args[] = {"--devices=2", "--set=sim.memory=64M", set, NULL};

    snprintf(set, sizeof(set), "--set=sim.soc_name=%s", name);
    npud_start(args);
}

START_TEST(numbers_of_a_device)
{
    int64_t value;

    start_with_chip(_i == 0 ? "AscendSim1" : "Ascend310P3");
    for (size_t i = 0; i < LENGTH(numbers); i++) {
        OK(aclrtGetDeviceInfo(1, numbers[i].attr, &value));
        ck_assert_msg(value == (_i == 0 ? numbers[i].sim : numbers[i].of_310p), "%d: %lld",
                      numbers[i].attr, (long long)value);
    }
    OK(aclGetDeviceCapability(0, ACL_DEVICE_INFO_AI_CORE_NUM, &value));
    ck_assert_int_eq(value, _i == 0 ? 24 : 8);
    OK(aclGetDeviceCapability(0, ACL_DEVICE_INFO_VECTOR_CORE_NUM, &value));
    ck_assert_int_eq(value, _i == 0 ? 48 : 7);
    OK(aclGetDeviceCapability(1, ACL_DEVICE_INFO_L2_SIZE, &value));
    ck_assert_int_eq(value, (_i == 0 ? 192 : 16) * MIB);
}
END_TEST

START_TEST(numbers_that_there_are_not)
{
    static const aclrtDevAttr super_pod[] = {ACL_DEV_ATTR_SUPER_POD_DEVICE_ID,
                                             ACL_DEV_ATTR_SUPER_POD_SERVER_ID,
                                             ACL_DEV_ATTR_SUPER_POD_ID};
    static const int unknown[] = {-1, 0, 2, 100, 103, 200, 213, 300, 303, 410, 502, 602};
    int64_t value = 77;

    for (size_t i = 0; i < LENGTH(super_pod); i++)
        FAILS(UNSUPPORTED, aclrtGetDeviceInfo(0, super_pod[i], &value));
    for (size_t i = 0; i < LENGTH(unknown); i++)
        FAILS(BAD, aclrtGetDeviceInfo(0, (aclrtDevAttr)unknown[i], &value));
    FAILS(BAD, aclrtGetDeviceInfo(2, ACL_DEV_ATTR_NPU_ARCH, &value));
    FAILS(BAD, aclrtGetDeviceInfo(UINT32_MAX, ACL_DEV_ATTR_NPU_ARCH, &value));
    FAILS(NULL_ARGUMENT, aclrtGetDeviceInfo(9, (aclrtDevAttr)-1, NULL));
    FAILS(NULL_ARGUMENT, aclGetDeviceCapability(0, ACL_DEVICE_INFO_L2_SIZE, NULL));
    FAILS(NULL_ARGUMENT, aclGetDeviceCapability(2, ACL_DEVICE_INFO_L2_SIZE, &value));
    FAILS(NULL_ARGUMENT, aclGetDeviceCapability(0, ACL_DEVICE_INFO_UNDEFINED, &value));
    FAILS(NULL_ARGUMENT, aclGetDeviceCapability(0, (aclDeviceInfo)3, &value));
    ck_assert_int_eq(value, 77);
}
END_TEST

START_TEST(features)
{
    int32_t value = 77;

    FAILS(NULL_ARGUMENT, aclrtGetDeviceCapability(9, (aclrtDevFeatureType)0, NULL));
    FAILS(BAD, aclrtGetDeviceCapability(9, (aclrtDevFeatureType)0, &value));
    FAILS(BAD, aclrtGetDeviceCapability(0, (aclrtDevFeatureType)22, &value));
    FAILS(NO_DEVICE, aclrtGetDeviceCapability(2, ACL_FEATURE_SYSTEM_MEMQ_EVENT_CROSS_DEV, &value));
    FAILS(NO_DEVICE, aclrtGetDeviceCapability(-1, ACL_FEATURE_SYSTEM_MEMQ_EVENT_CROSS_DEV, &value));
    ck_assert_int_eq(value, 77);
    OK(aclrtGetDeviceCapability(0, ACL_FEATURE_SYSTEM_MEMQ_EVENT_CROSS_DEV, &value));
    ck_assert_int_eq(value, ACL_DEV_FEATURE_NOT_SUPPORT);
    value = 77;
    OK(aclrtGetDeviceCapability(1, ACL_FEATURE_TSCPU_TASK_UPDATE_SUPPORT_AIC_AIV, &value));
    ck_assert_int_eq(value, ACL_DEV_FEATURE_SUPPORT);
}
END_TEST

/* --- chips --- */

static const struct {
    aclplatformDevInfo item;
    const char *text;
} platform[] = {
    {ACL_PLATFORM_AICORE_CNT, "20"},         {ACL_PLATFORM_AICORE_UB_SIZE, "196608"},
    {ACL_PLATFORM_CUBE_CORE_CNT, "20"},      {ACL_PLATFORM_VECTOR_CORE_CNT, "40"},
    {ACL_PLATFORM_L2_SIZE, "100663296"},     {ACL_PLATFORM_MEMORY_SIZE, "67108864"},
    {ACL_PLATFORM_CUBE_FREQ, "1650"},        {ACL_PLATFORM_VEC_FREQ, "1650"},
    {ACL_PLATFORM_BT_SIZE, "1024"},          {ACL_PLATFORM_L0_A_SIZE, "65536"},
    {ACL_PLATFORM_L0_B_SIZE, "65536"},       {ACL_PLATFORM_L0_C_SIZE, "131072"},
    {ACL_PLATFORM_L1_SIZE, "524288"},        {ACL_PLATFORM_SOC_VERSION, "Ascend910B4"},
    {ACL_PLATFORM_AIC_VERSION, "AIC-C-220"}, {ACL_PLATFORM_NPU_ARCH, "2201"},
    {ACL_PLATFORM_MEMORY_TYPE, "HBM"},
};

START_TEST(platform_items)
{
    char text[64];

    start_with_chip("Ascend910B4");
    for (size_t i = 0; i < LENGTH(platform); i++) {
        uint32_t n = (uint32_t)strlen(platform[i].text);

        OK(aclplatformGetDeviceInfo(platform[i].item, text, n + 1));
        ck_assert_str_eq(text, platform[i].text);
        strcpy(text, "as it was");
        FAILS(NULL_ARGUMENT, aclplatformGetDeviceInfo(platform[i].item, text, n));
        FAILS(NULL_ARGUMENT, aclplatformGetDeviceInfo(platform[i].item, NULL, 64));
        ck_assert_str_eq(text, "as it was");
    }
    FAILS(NULL_ARGUMENT, aclplatformGetDeviceInfo((aclplatformDevInfo)17, text, 64));
    FAILS(NULL_ARGUMENT, aclplatformGetDeviceInfo((aclplatformDevInfo)-1, text, 64));
    FAILS(NULL_ARGUMENT, aclplatformGetDeviceInfo(ACL_PLATFORM_NPU_ARCH, text, 0));
    FAILS(NULL_ARGUMENT, aclplatformGetInstructionInfo(0, NULL, text, 64));
    FAILS(NULL_ARGUMENT, aclplatformGetInstructionInfo(0, "mmad", NULL, 64));
    FAILS(NULL_ARGUMENT, aclplatformGetInstructionInfo(0, "mmad", text, 0));
    FAILS(NULL_ARGUMENT, aclplatformGetInstructionInfo((aclplatformCoreType)2, "mmad", text, 64));
    FAILS(UNSUPPORTED, aclplatformGetInstructionInfo(1, "mmad", text, 64));
}
END_TEST

static const struct {
    const char *own, *other;
    int32_t compatible;
} chips[] = {
    {"Ascend910B4", "Ascend910B4", 1},    {"Ascend910B4", "Ascend910B1", 1},
    {"Ascend910B4", "Ascend910_9391", 1}, {"Ascend910B4", "Ascend910A", 0},
    {"Ascend910B4", "Ascend310P3", 0},    {"Ascend310P1", "Ascend310P3", 1},
    {"Ascend910B4", "AscendSim1", 0},     {"AscendSim1", "AscendSim1", 1},
    {"AscendSim1", "AscendSim2", 0},
};

START_TEST(compatible_chips)
{
    int32_t compatible = 77;

    start_with_chip(chips[_i].own);
    ck_assert_str_eq(aclrtGetSocName(), chips[_i].own);
    OK(aclrtCheckArchCompatibility(chips[_i].other, &compatible));
    ck_assert_int_eq(compatible, chips[_i].compatible);
    FAILS(BAD, aclrtCheckArchCompatibility(NULL, &compatible));
    FAILS(BAD, aclrtCheckArchCompatibility("", &compatible));
    FAILS(BAD, aclrtCheckArchCompatibility(chips[_i].other, NULL));
}
END_TEST

/* Also of memory that a session had: names stay when it ends. */
START_TEST(name_of_the_chip)
{
    const char *without, *first, *second;
    uint64_t count;
    int32_t yes;
    char text[64];

    setenv("NPUD_SOCKET", "/tmp/npud-test-nobody.sock", 1);
    ck_assert_ptr_null(aclrtGetSocName());
    ck_assert_ptr_nonnull(strstr(aclGetRecentErrMsg(), "nobody.sock"));
    FAILS(ACL_ERROR_RT_NO_DEVICE, aclrtCheckArchCompatibility("Ascend310P3", &yes));
    FAILS(ACL_ERROR_RT_NO_DEVICE, aclplatformGetDeviceInfo(ACL_PLATFORM_NPU_ARCH, text, 64));
    setenv("NPUD_SOC_NAME", "", 1);
    ck_assert_ptr_null(aclrtGetSocName());
    aclGetRecentErrMsg();
    setenv("NPUD_SOC_NAME", "Ascend310P3", 1);
    without = aclrtGetSocName();
    ck_assert_str_eq(without, "Ascend310P3");
    ck_assert_ptr_null(aclGetRecentErrMsg());
    OK(aclplatformGetDeviceInfo(ACL_PLATFORM_NPU_ARCH, text, 64));
    ck_assert_str_eq(text, "2002");
    FAILS(ACL_ERROR_RT_NO_DEVICE, aclplatformGetDeviceInfo(ACL_PLATFORM_MEMORY_SIZE, text, 64));
    FAILS(ACL_ERROR_INTERNAL_ERROR,
          aclGetDeviceCapability(0, ACL_DEVICE_INFO_L2_SIZE, (int64_t[1]){0}));
    start_with_chip("Ascend910B2"); /* npud knows better */
    OK(aclInit(NULL));
    first = aclrtGetSocName();
    ck_assert_str_eq(first, "Ascend910B2");
    OK(aclFinalizeReference(&count));
    second = aclrtGetSocName();
    ck_assert_ptr_eq(first, second);
    ck_assert_str_eq(without, "Ascend310P3");
}
END_TEST

/* --- places of devices --- */

START_TEST(topology)
{
    uint64_t value = 77;

    FAILS(NULL_ARGUMENT, aclrtGetDevicesTopo(9, 9, NULL));
    FAILS(NO_DEVICE, aclrtGetDevicesTopo(2, 0, &value));
    FAILS(NO_DEVICE, aclrtGetDevicesTopo(0, 2, &value));
    ck_assert_uint_eq(value, 77);
    OK(aclrtGetDevicesTopo(0, 1, &value));
    ck_assert_uint_eq(value, ACL_RT_DEVS_TOPOLOGY_PHB);
    OK(aclrtGetDevicesTopo(1, 1, &value));
    ck_assert_uint_eq(value, ACL_RT_DEVS_TOPOLOGY_PHB);
}
END_TEST

START_TEST(bus_ids)
{
    static const char *const unknown[] = {
        "", "fffe:01:00", "fffe:01:00.00", "FFFE:01:00.0", "fffe:03:00.0", "0000:01:00.0"};
    char text[32] = "as it was";
    int32_t device = 77;

    FAILS(NULL_ARGUMENT, aclrtDeviceGetPCIBusId(9, NULL, 0));
    FAILS(BAD, aclrtDeviceGetPCIBusId(0, text, 12));
    FAILS(BAD, aclrtDeviceGetPCIBusId(0, text, -1));
    FAILS(NO_DEVICE, aclrtDeviceGetPCIBusId(2, text, 13));
    FAILS(NO_DEVICE, aclrtDeviceGetPCIBusId(-1, text, 13));
    ck_assert_str_eq(text, "as it was");
    for (int32_t i = 0; i < 2; i++) {
        OK(aclrtDeviceGetPCIBusId(i, text, 13));
        ck_assert_str_eq(text, i ? "fffe:02:00.0" : "fffe:01:00.0");
        OK(aclrtDeviceGetByPCIBusId(text, &device));
        ck_assert_int_eq(device, i);
    }
    device = 77;
    for (size_t i = 0; i < LENGTH(unknown); i++)
        FAILS(BAD, aclrtDeviceGetByPCIBusId(unknown[i], &device));
    FAILS(NULL_ARGUMENT, aclrtDeviceGetByPCIBusId(NULL, &device));
    FAILS(NULL_ARGUMENT, aclrtDeviceGetByPCIBusId(text, NULL));
    ck_assert_int_eq(device, 77);
}
END_TEST

typedef aclError convert_fn(const int32_t from, int32_t *const to);

/* npud has 4 devices, and the program sees 1 and 3 of them. -1: not mappable. */
static const struct {
    convert_fn *convert;
    int32_t result[5];
} conversions[] = {
    {aclrtGetLogicDevIdByUserDevId, {1, 3, -1, -1, -1}},
    {aclrtGetPhyDevIdByUserDevId, {1, 3, -1, -1, -1}},
    {aclrtGetUserDevIdByLogicDevId, {-1, 0, -1, 1, -1}},
    {aclrtGetUserDevIdByPhyDevId, {-1, 0, -1, 1, -1}},
    {aclrtGetLogicDevIdByPhyDevId, {0, 1, 2, 3, -1}},
    {aclrtGetPhyDevIdByLogicDevId, {0, 1, 2, 3, -1}},
};

START_TEST(ids_of_visible_devices)
{
    static const char *const args[] = {"--devices=4", NULL};
    convert_fn *convert = conversions[_i].convert;
    int32_t id = 77, device = 77;
    char text[13];

    setenv("ASCEND_RT_VISIBLE_DEVICES", "1,3", 1);
    npud_start(args);
    FAILS(NULL_ARGUMENT, convert(-1, NULL));
    FAILS(BAD, convert(-1, &id));
    FAILS(BAD, convert(INT32_MIN, &id));
    FAILS(NO_DEVICE, convert(INT32_MAX, &id));
    for (int32_t i = 0; i < 5; i++) {
        id = 77;
        if (conversions[_i].result[i] < 0)
            FAILS(NO_DEVICE, convert(i, &id));
        else
            OK(convert(i, &id));
        ck_assert_int_eq(id, conversions[_i].result[i] < 0 ? 77 : conversions[_i].result[i]);
    }
    OK(aclrtDeviceGetPCIBusId(1, text, 13));
    ck_assert_str_eq(text, "fffe:04:00.0");
    OK(aclrtDeviceGetByPCIBusId(text, &device));
    ck_assert_int_eq(device, 1);
    FAILS(BAD, aclrtDeviceGetByPCIBusId("fffe:01:00.0", &device)); /* hidden */
}
END_TEST

/* --- atomic operations --- */

static const aclrtAtomicOperation operations[] = {
    ACL_RT_ATOMIC_OPERATION_INTEGER_ADD, ACL_RT_ATOMIC_OPERATION_CAS,
    ACL_RT_ATOMIC_OPERATION_DMA_ADD,     ACL_RT_ATOMIC_OPERATION_DMA_MIN,
    ACL_RT_ATOMIC_OPERATION_DMA_MAX,     ACL_RT_ATOMIC_OPERATION_SIMD_SCALAR_EXCH,
};
#define OPERATIONS (uint32_t) LENGTH(operations)

START_TEST(atomic_operations)
{
    uint32_t of_host[OPERATIONS], of_peer[OPERATIONS];

    memset(of_host, 0x55, sizeof(of_host));
    memset(of_peer, 0x55, sizeof(of_peer));
    OK(aclrtDeviceGetHostAtomicCapabilities(of_host, operations, OPERATIONS, 0));
    OK(aclrtDeviceGetP2PAtomicCapabilities(of_peer, operations, OPERATIONS, 0, 1));
    for (uint32_t i = 0; i < OPERATIONS; i++) {
        ck_assert_uint_eq(of_host[i], 0);
        ck_assert_uint_eq(of_peer[i], i >= 2 && i <= 4 ? 0x3f : 0);
    }
}
END_TEST

START_TEST(atomic_errors)
{
    const aclrtAtomicOperation wrong[] = {0, 45}, below[] = {(aclrtAtomicOperation)-1};
    uint32_t result[OPERATIONS] = {77, 77};

    for (int peer = 0; peer < 2; peer++) {
#define ASK(result, operations, count, a, b)                                                       \
    (peer ? aclrtDeviceGetP2PAtomicCapabilities(result, operations, count, a, b)                   \
          : aclrtDeviceGetHostAtomicCapabilities(result, operations, count, a))
        FAILS(BAD, ASK(NULL, operations, 1, 9, 9));
        FAILS(BAD, ASK(result, NULL, 1, 9, 9));
        FAILS(BAD, ASK(result, operations, 0, 9, 9));
        FAILS(BAD, ASK(result, wrong, 2, 9, 9));
        FAILS(BAD, ASK(result, below, 1, 9, 9));
        FAILS(NO_DEVICE, ASK(result, operations, 1, 2, 0));
        FAILS(NO_DEVICE, ASK(result, operations, 1, -1, 0));
        OK(ASK(result + 1, wrong, 1, 0, 1));
    }
    FAILS(NO_DEVICE, aclrtDeviceGetP2PAtomicCapabilities(result, operations, 1, 0, 2));
    FAILS(NO_DEVICE, aclrtDeviceGetP2PAtomicCapabilities(result, operations, 1, 1, 1));
    ck_assert_uint_eq(result[0], 77);
    ck_assert_uint_eq(result[1], 0);
}
END_TEST

/* --- how busy a device is --- */

static int32_t busy_percent(int32_t device)
{
    aclrtUtilizationInfo info = {7, 7, 7, 7, NULL};

    OK(aclrtGetDeviceUtilizationRate(device, &info));
    ck_assert_int_eq(info.cubeUtilization, info.vectorUtilization);
    ck_assert_int_eq(info.aicpuUtilization, -1);
    ck_assert_int_eq(info.memoryUtilization, -1);
    ck_assert_ptr_null(info.utilizationExtend);
    ck_assert(info.cubeUtilization >= -1 && info.cubeUtilization <= 100);
    return info.cubeUtilization;
}

START_TEST(device_that_does_nothing)
{
    aclrtUtilizationInfo info = {7, 7, 7, 7, (aclrtUtilizationExtendInfo *)&info};

    FAILS(NULL_ARGUMENT, aclrtGetDeviceUtilizationRate(0, NULL));
    FAILS(NULL_ARGUMENT, aclrtGetDeviceUtilizationRate(0, &info));
    ck_assert_int_eq(info.cubeUtilization, 7);
    ck_assert_int_eq(busy_percent(0), 0);
    ck_assert_int_eq(busy_percent(2), -1);
    ck_assert_int_eq(busy_percent(-1), -1);
}
END_TEST

/* Two delays count once; when they are discarded, the device does nothing. */
START_TEST(delays_are_work)
{
    aclrtStream one, two;

    streams_open(&one, &two);
    OK(aclnpudLaunchDelay(HOUR_US, 0, one));
    OK(aclnpudLaunchDelay(HOUR_US, 0, two));
    EVENTUALLY(busy_percent(0) == 100, "the device does not become busy");
    ck_assert_int_eq(busy_percent(1), 0);
    OK(aclrtStreamAbort(one));
    EVENTUALLY(busy_percent(0) == 100, "the other delay does not count");
    OK(aclrtDestroyStreamForce(two));
    EVENTUALLY(busy_percent(0) == 0, "the device stays busy");
}
END_TEST

START_TEST(finished_delays_are_over)
{
    aclrtStream one, two;

    streams_open(&one, &two);
    for (int i = 0; i < 50; i++)
        OK(aclnpudLaunchDelay(1000, 0, i % 2 ? one : two));
    OK(aclrtSynchronizeStream(one));
    OK(aclrtSynchronizeStream(two));
    EVENTUALLY(busy_percent(0) == 0, "the device stays busy");
}
END_TEST

static aclrtStream copier;
static void *copied[2];

static void copy_megabytes(void)
{
    for (int i = 0; i < 8; i++)
        OK(aclrtMemcpyAsync(copied[0], 8 * MIB, copied[1], 8 * MIB, ACL_MEMCPY_DEVICE_TO_DEVICE,
                            copier));
    OK(aclrtSynchronizeStream(copier));
}

START_TEST(copies_are_work)
{
    aclrtStream other;

    streams_open(&copier, &other);
    for (int i = 0; i < 2; i++)
        OK(aclrtMalloc(&copied[i], 8 * MIB, ACL_MEM_MALLOC_HUGE_FIRST));
    EVENTUALLY((copy_megabytes(), busy_percent(0) >= 10), "copies are not counted");
    EVENTUALLY(busy_percent(0) == 0, "the device stays busy");
}
END_TEST

/* --- faults --- */

START_TEST(fault_of_a_device)
{
    aclrtErrorInfo info;

    memset(&info, 0x55, sizeof(info));
    FAILS(NULL_ARGUMENT, aclrtGetErrorVerbose(9, NULL));
    FAILS(NO_DEVICE, aclrtGetErrorVerbose(2, &info));
    FAILS(NO_DEVICE, aclrtGetErrorVerbose(-1, &info));
    ck_assert_int_eq(info.tryRepair, 0x55);
    OK(aclrtGetErrorVerbose(0, &info)); /* never set */
    ck_assert_int_eq(info.errorType, ACL_RT_NO_ERROR);
    ck_assert_int_eq(info.tryRepair + info.hasDetail, 0);
    FAILS(NULL_ARGUMENT, aclrtRepairError(9, NULL));
    FAILS(NO_DEVICE, aclrtRepairError(2, &info));
    FAILS(ACL_ERROR_RT_DEV_SETUP_ERROR, aclrtRepairError(0, &info));
    OK(aclrtSetDevice(0));
    OK(aclrtRepairError(0, &info));
    npuctl_says("inject lose-device --device 0", 0, "");
    OK(aclrtGetErrorVerbose(0, &info));
    ck_assert_int_eq(info.errorType, ACL_RT_ERROR_OTHERS);
    ck_assert_int_eq(info.tryRepair + info.hasDetail, 0);
    FAILS(BAD, aclrtRepairError(0, &info));
    info.errorType = ACL_RT_ERROR_L2;
    FAILS(BAD, aclrtRepairError(0, &info));
    info.errorType = ACL_RT_ERROR_MEMORY;
    FAILS(UNSUPPORTED, aclrtRepairError(0, &info));
    npuctl_says("inject clear", 0, "");
    OK(aclrtGetErrorVerbose(0, &info));
    ck_assert_int_eq(info.errorType, ACL_RT_NO_ERROR);
}
END_TEST

START_TEST(memory_faults)
{
    aclrtMemUceInfo array[21] = {{0}};
    size_t n = 77;

    FAILS(NULL_ARGUMENT, aclrtGetMemUceInfo(9, NULL, 21, &n));
    FAILS(NULL_ARGUMENT, aclrtGetMemUceInfo(9, array, 21, NULL));
    FAILS(NO_DEVICE, aclrtGetMemUceInfo(2, array, 21, &n));
    ck_assert_uint_eq(n, 77);
    OK(aclrtGetMemUceInfo(0, array, 0, &n));
    ck_assert_uint_eq(n, 0);
    FAILS(NULL_ARGUMENT, aclrtMemUceRepair(9, NULL, 1));
    FAILS(NULL_ARGUMENT, aclrtMemUceRepair(9, array, 21));
    FAILS(NO_DEVICE, aclrtMemUceRepair(2, array, 20));
    FAILS(UNSUPPORTED, aclrtMemUceRepair(0, array, 20));
    array[19].reserved[UCE_INFO_RESERVED_SIZE - 1] = 1;
    FAILS(NULL_ARGUMENT, aclrtMemUceRepair(9, array, 20));
    FAILS(UNSUPPORTED, aclrtMemUceRepair(0, array, 19));
}
END_TEST

/* --- settings --- */

START_TEST(options_of_the_process)
{
    int64_t value = 77;

    for (int opt = 0; opt < 4; opt++) {
        int64_t last = opt == ACL_OPT_DETERMINISTIC ? 3 : 1;

        OK(aclrtGetSysParamOpt((aclSysParamOpt)opt, &value));
        ck_assert_int_eq(value, 0);
        for (int64_t v = last; v >= 0; v--) {
            OK(aclrtSetSysParamOpt((aclSysParamOpt)opt, v));
            OK(aclrtGetSysParamOpt((aclSysParamOpt)opt, &value));
            ck_assert_int_eq(value, v);
        }
        FAILS(BAD, aclrtSetSysParamOpt((aclSysParamOpt)opt, -1));
        FAILS(BAD, aclrtSetSysParamOpt((aclSysParamOpt)opt, last + 1));
        FAILS(BAD, aclrtSetSysParamOpt((aclSysParamOpt)opt, INT64_MAX));
    }
    FAILS(NULL_ARGUMENT, aclrtSetSysParamOpt((aclSysParamOpt)4, 9));
    FAILS(NULL_ARGUMENT, aclrtSetSysParamOpt((aclSysParamOpt)-1, 9));
    FAILS(NULL_ARGUMENT, aclrtGetSysParamOpt((aclSysParamOpt)4, &value));
    FAILS(NULL_ARGUMENT, aclrtGetSysParamOpt(ACL_OPT_DETERMINISTIC, NULL));
}
END_TEST

START_TEST(options_of_a_context)
{
    aclrtContext first, second;
    int64_t value = 77;

    FAILS(NULL_ARGUMENT, aclrtCtxSetSysParamOpt((aclSysParamOpt)3, 9));
    FAILS(BAD, aclrtCtxSetSysParamOpt(ACL_OPT_DETERMINISTIC, 4));
    FAILS(BAD, aclrtCtxSetSysParamOpt(ACL_OPT_STRONG_CONSISTENCY, 2));
    FAILS(ACL_ERROR_RT_CONTEXT_NULL, aclrtCtxSetSysParamOpt(ACL_OPT_DETERMINISTIC, 3));
    FAILS(NULL_ARGUMENT, aclrtCtxGetSysParamOpt((aclSysParamOpt)3, NULL));
    FAILS(NULL_ARGUMENT, aclrtCtxGetSysParamOpt((aclSysParamOpt)3, &value));
    FAILS(ACL_ERROR_RT_CONTEXT_NULL, aclrtCtxGetSysParamOpt(ACL_OPT_DETERMINISTIC, &value));
    OK(aclrtCreateContext(&first, 0));
    for (int opt = 0; opt < 3; opt++)
        FAILS(ACL_ERROR_RT_SYSPARAMOPT_NOT_SET,
              aclrtCtxGetSysParamOpt((aclSysParamOpt)opt, &value));
    OK(aclrtCtxSetSysParamOpt(ACL_OPT_DETERMINISTIC, 3));
    OK(aclrtCtxSetSysParamOpt(ACL_OPT_ENABLE_DEBUG_KERNEL, 0));
    ck_assert_int_eq(value, 77);
    OK(aclrtCtxGetSysParamOpt(ACL_OPT_DETERMINISTIC, &value));
    ck_assert_int_eq(value, 3);
    OK(aclrtCtxGetSysParamOpt(ACL_OPT_ENABLE_DEBUG_KERNEL, &value));
    ck_assert_int_eq(value, 0);
    OK(aclrtGetSysParamOpt(ACL_OPT_DETERMINISTIC, &value)); /* the process has its own */
    ck_assert_int_eq(value, 0);
    OK(aclrtDestroyContext(first));
    OK(aclrtCreateContext(&second, 0)); /* in its place */
    FAILS(ACL_ERROR_RT_SYSPARAMOPT_NOT_SET, aclrtCtxGetSysParamOpt(ACL_OPT_DETERMINISTIC, &value));
}
END_TEST

START_TEST(arithmetic_mode)
{
    aclrtFloatOverflowMode mode = ACL_RT_OVERFLOW_MODE_UNDEF;

    OK(aclrtGetDeviceSatMode(&mode));
    ck_assert_int_eq(mode, ACL_RT_OVERFLOW_MODE_INFNAN);
    for (int i = 0; i < 2; i++) {
        OK(aclrtSetDeviceSatMode((aclrtFloatOverflowMode)i));
        OK(aclrtGetDeviceSatMode(&mode));
        ck_assert_int_eq(mode, i);
    }
    FAILS(BAD, aclrtSetDeviceSatMode(ACL_RT_OVERFLOW_MODE_UNDEF));
    FAILS(BAD, aclrtSetDeviceSatMode((aclrtFloatOverflowMode)-1));
    FAILS(NULL_ARGUMENT, aclrtGetDeviceSatMode(NULL));
    OK(aclrtGetDeviceSatMode(&mode));
    ck_assert_int_eq(mode, 1);
}
END_TEST

static const struct {
    aclrtDeviceLimit limit;
    size_t usual;
    struct {
        size_t set, get; /* get 0: refused */
    } tries[6];
} limits[] = {
    {ACL_RT_DEV_LIMIT_SIMT_STACK_SIZE, 1152, {{0, 128}, {128, 128}, {129, 256}, {1152, 1152}}},
    {ACL_RT_DEV_LIMIT_SIMT_DVG_WARP_STACK_SIZE,
     1024,
     {{1, 1}, {4097, 4097}, {UINT32_MAX, UINT32_MAX}}},
    {ACL_RT_DEV_LIMIT_SIMD_STACK_SIZE,
     32768,
     {{0, 32768}, {32769, 49152}, {65536, 65536}, {UINT32_MAX, 0}}},
    {ACL_RT_DEV_LIMIT_SIMD_PRINTF_FIFO_SIZE_PER_CORE,
     32768,
     {{1023, 0}, {1024, 1024}, {1025, 1032}, {64 << 20, 64 << 20}, {(64 << 20) + 1, 0}}},
    {ACL_RT_DEV_LIMIT_SIMT_PRINTF_FIFO_SIZE,
     2 << 20,
     {{(1 << 20) - 1, 0}, {1 << 20, 1 << 20}, {64 << 20, 64 << 20}, {(64 << 20) + 1, 0}}},
};

START_TEST(limits_of_kernels)
{
    aclrtDeviceLimit limit = limits[_i].limit;
    size_t value = 77, last = limits[_i].usual;

    OK(aclrtDeviceGetLimit(limit, &value));
    ck_assert_uint_eq(value, last);
    for (int i = 0; i < 6 && (limits[_i].tries[i].set || limits[_i].tries[i].get); i++) {
        if (limits[_i].tries[i].get != 0)
            OK(aclrtDeviceSetLimit(limit, last = limits[_i].tries[i].set));
        else
            FAILS(BAD, aclrtDeviceSetLimit(limit, limits[_i].tries[i].set));
        if (limits[_i].tries[i].get != 0)
            last = limits[_i].tries[i].get;
        OK(aclrtDeviceGetLimit(limit, &value));
        ck_assert_uint_eq(value, last);
    }
    FAILS(NULL_ARGUMENT, aclrtDeviceSetLimit(limit, (size_t)UINT32_MAX + 1));
    FAILS(NULL_ARGUMENT, aclrtDeviceGetLimit(limit, NULL));
    FAILS(NULL_ARGUMENT, aclrtDeviceSetLimit((aclrtDeviceLimit)5, 4096));
    FAILS(NULL_ARGUMENT, aclrtDeviceGetLimit((aclrtDeviceLimit)5, &value));
    FAILS(NULL_ARGUMENT, aclrtDeviceGetLimit((aclrtDeviceLimit)-1, &value));
}
END_TEST

START_TEST(parts_that_a_simulated_device_has_not)
{
    aclrtGroupInfo *groups = aclrtCreateGroupInfo();
    uint32_t count = 77;
    size_t size = 77;
    int value = 77;

    OK(aclrtSetTsDevice(ACL_TS_ID_AICORE));
    OK(aclrtSetTsDevice(ACL_TS_ID_AIVECTOR));
    FAILS(NULL_ARGUMENT, aclrtSetTsDevice(ACL_TS_ID_RESERVED));
    FAILS(NULL_ARGUMENT, aclrtSetTsDevice((aclrtTsId)-1));
    FAILS(NULL_ARGUMENT, aclrtDeviceL2CacheFlush(&value));
    FAILS(ACL_ERROR_RT_CONTEXT_NULL, aclrtDeviceL2CacheFlush(NULL));
    OK(aclrtSetDevice(0));
    OK(aclrtDeviceL2CacheFlush(NULL));
    FAILS(NULL_ARGUMENT, aclrtGetGroupCount(NULL));
    OK(aclrtGetGroupCount(&count));
    ck_assert_uint_eq(count, 0);
    FAILS(UNSUPPORTED, aclrtSetGroup(0));
    FAILS(NULL_ARGUMENT, aclrtGetAllGroupInfo(NULL));
    OK(aclrtGetAllGroupInfo(groups));
    FAILS(NULL_ARGUMENT,
          aclrtGetGroupInfoDetail(groups, 0, ACL_GROUP_GROUPID_INT, &value, sizeof(value), &size));
    FAILS(NULL_ARGUMENT,
          aclrtGetGroupInfoDetail(NULL, 0, ACL_GROUP_GROUPID_INT, &value, sizeof(value), &size));
    FAILS(NULL_ARGUMENT,
          aclrtGetGroupInfoDetail(groups, 0, ACL_GROUP_GROUPID_INT, NULL, sizeof(value), &size));
    FAILS(NULL_ARGUMENT,
          aclrtGetGroupInfoDetail(groups, 0, ACL_GROUP_GROUPID_INT, &value, sizeof(value), NULL));
    ck_assert_int_eq(value, 77);
    OK(aclrtDestroyGroupInfo(groups));
    FAILS(NULL_ARGUMENT, aclrtDestroyGroupInfo(NULL));
}
END_TEST

/* --- versions --- */

static char home[64];

static void write_version(const char *package, const char *text)
{
    char path[256];
    FILE *f;

    snprintf(path, sizeof(path), "mkdir -p %s/share/info/%s", home, package);
    ck_assert_int_eq(system(path), 0);
    snprintf(path, sizeof(path), "%s/share/info/%s/version.info", home, package);
    f = fopen(path, "w");
    ck_assert_ptr_nonnull(f);
    fputs(text, f);
    fclose(f);
}

static void make_home(void)
{
    strcpy(home, "/tmp/npud-test-home.XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(home));
    setenv("ASCEND_HOME_PATH", home, 1);
}

static void remove_home(void)
{
    char command[96];

    snprintf(command, sizeof(command), "rm -r %s", home);
    ck_assert_int_eq(system(command), 0);
}

static const struct {
    const char *version;
    int32_t number; /* -1: malformed */
} versions[] = {
    {"8.5.0", 80500000},
    {"0.0.0", 0},
    {"8.3.12", 80312000},
    {"8.5.0.alpha001", 80499701},
    {"8.5.1-beta.2", 80500802},
    {"8.3.RC1", 80299901},
    {"8.3.0.rc", 80299900},
    {"10.99.99", 109999000},
    {"", -1},
    {"8", -1},
    {"8.5", -1},
    {"8.5.", -1},
    {"8.5.0.", -1},
    {"8.5.0.gamma1", -1},
    {"8.5.0.1", -1},
    {"8.100.0", -1},
    {"8.5.0.alpha1x", -1},
    {"8.5.0 ", -1},
    {"200.0.0", -1},
    {"v8.5.0", -1},
    {"8.5.0.alpha-", -1},
    {"99999999999.0.0", -1},
};

START_TEST(version_numbers)
{
    char line[64], text[128];
    int32_t number = 77;

    snprintf(line, sizeof(line), "x=1\nVersion=%s\nVersion=9.9.9\n", versions[_i].version);
    write_version("some", line);
    OK(aclsysGetVersionStr((char[]){"some"}, text));
    ck_assert_str_eq(text, versions[_i].version);
    if (versions[_i].number < 0) {
        FAILS(ACL_ERROR_INTERNAL_ERROR, aclsysGetVersionNum((char[]){"some"}, &number));
        ck_assert_int_eq(number, 77);
    } else {
        OK(aclsysGetVersionNum((char[]){"some"}, &number));
        ck_assert_int_eq(number, versions[_i].number);
    }
}
END_TEST

static char *name_of_package(const char *name)
{
    static char copy[512];

    snprintf(copy, sizeof(copy), "%s", name);
    return copy;
}

START_TEST(packages_are_found)
{
    char long_name[400], text[128];
    int32_t number = 77;

    write_version("with-dash", "Version=1.2.3\n");
    write_version("with_bar", "Version=1.2.4");
    write_version("empty", "version=1.2.5\n#Version=2\n");
    memset(long_name, 'x', sizeof(long_name));
    long_name[399] = '\0';
    OK(aclsysGetVersionStr(name_of_package("with-dash"), text));
    ck_assert_str_eq(text, "1.2.3");
    OK(aclsysGetVersionStr(name_of_package("with_dash"), text));
    ck_assert_str_eq(text, "1.2.3");
    OK(aclsysGetVersionStr(name_of_package("with-bar"), text));
    ck_assert_str_eq(text, "1.2.4");
    FAILS(ACL_ERROR_INVALID_FILE, aclsysGetVersionStr(name_of_package("none"), text));
    FAILS(ACL_ERROR_INVALID_FILE, aclsysGetVersionStr(name_of_package("empty"), text));
    FAILS(ACL_ERROR_INVALID_FILE, aclsysGetVersionStr(name_of_package("../info/with_bar"), text));
    FAILS(ACL_ERROR_INVALID_FILE, aclsysGetVersionStr(name_of_package(long_name), text));
    FAILS(ACL_ERROR_INVALID_FILE, aclsysGetVersionNum(name_of_package("none"), &number));
    ck_assert_str_eq(text, "1.2.4");
    FAILS(NULL_ARGUMENT, aclsysGetVersionStr(NULL, text));
    FAILS(NULL_ARGUMENT, aclsysGetVersionStr(name_of_package("none"), NULL));
    FAILS(NULL_ARGUMENT, aclsysGetVersionNum(NULL, &number));
    FAILS(NULL_ARGUMENT, aclsysGetVersionNum(name_of_package("none"), NULL));
    unsetenv("ASCEND_HOME_PATH");
    FAILS(ACL_ERROR_INVALID_FILE, aclsysGetVersionStr(name_of_package("with_bar"), text));
    ck_assert_int_eq(number, 77);
}
END_TEST

START_TEST(parts_of_a_version)
{
    aclCANNPackageVersion version;

    memset(&version, 0x55, sizeof(version));
    write_version("runtime", "Version=8.5.0.alpha001\n");
    write_version("toolkit", "Version=8.5\n");
    FAILS(NULL_ARGUMENT, aclsysGetCANNVersion((aclCANNPackageName)8, NULL));
    FAILS(NULL_ARGUMENT, aclsysGetCANNVersion((aclCANNPackageName)8, &version));
    FAILS(NULL_ARGUMENT, aclsysGetCANNVersion((aclCANNPackageName)-1, &version));
    FAILS(ACL_ERROR_INVALID_FILE, aclsysGetCANNVersion(ACL_PKG_NAME_HCCL, &version));
    ck_assert_int_eq(version.version[0], 0x55);
    OK(aclsysGetCANNVersion(ACL_PKG_NAME_RUNTIME, &version));
    ck_assert_str_eq(version.version, "8.5.0.alpha001");
    ck_assert_str_eq(version.majorVersion, "8");
    ck_assert_str_eq(version.minorVersion, "5");
    ck_assert_str_eq(version.releaseVersion, "0");
    ck_assert_str_eq(version.patchVersion, "alpha001");
    OK(aclsysGetCANNVersion(ACL_PKG_NAME_TOOLKIT, &version));
    ck_assert_str_eq(version.minorVersion, "5");
    ck_assert_str_eq(version.releaseVersion, "");
}
END_TEST

START_TEST(attributes_of_the_installation)
{
    const aclCannAttr *list = NULL;
    int32_t value = 77;
    size_t n = 0;

    FAILS(NULL_ARGUMENT, aclGetCannAttributeList(NULL, &n));
    FAILS(NULL_ARGUMENT, aclGetCannAttributeList(&list, NULL));
    OK(aclGetCannAttributeList(&list, &n));
    ck_assert_uint_eq(n, 2);
    for (size_t i = 0; i < n; i++) {
        OK(aclGetCannAttribute(list[i], &value));
        ck_assert_int_eq(value, 1);
    }
    OK(aclGetCannAttribute(ACL_CANN_ATTR_JIT_COMPILE, &value));
    ck_assert_int_eq(value, 0);
    FAILS(NULL_ARGUMENT, aclGetCannAttribute(ACL_CANN_ATTR_UNDEFINED, &value));
    FAILS(NULL_ARGUMENT, aclGetCannAttribute((aclCannAttr)3, &value));
    FAILS(NULL_ARGUMENT, aclGetCannAttribute(ACL_CANN_ATTR_BF16, NULL));
}
END_TEST

/* --- callbacks of aclInit and aclFinalize; no npud needed --- */

static char calls[256]; /* a letter for each */
static char init_text[64];
static aclError answer; /* of the callbacks that fail */

static void note_call(const char *letter)
{
    strcat(calls, letter);
}

static aclError on_init(const char *text, size_t n, void *data)
{
    note_call(data);
    ck_assert_uint_eq(n, strlen(text));
    snprintf(init_text, sizeof(init_text), "%s", text);
    ck_assert_int_eq(aclInit(NULL), ACL_ERROR_REPEAT_INITIALIZE); /* may use the API */
    OK(aclFinalizeReference(NULL));
    return 0;
}

static aclError on_init_again(const char *text, size_t n, void *data)
{
    (void)text;
    (void)n;
    note_call(data);
    return answer;
}

static aclError on_finalize(void *data)
{
    note_call(data);
    ck_assert_int_eq(aclFinalize(), ACL_ERROR_INTERNAL_ERROR);
    ck_assert_int_eq(aclInit(NULL), ACL_ERROR_INTERNAL_ERROR);
    return 0;
}

static aclError on_finalize_again(void *data)
{
    note_call(data);
    return answer;
}

static void expect_calls(const char *letters)
{
    ck_assert_str_eq(calls, letters);
    calls[0] = '\0';
}

static void register_all(void)
{
    static const char *const letters[] = {"m", "e", "b", "c", "t", "q", "d", "r"};

    for (int type = 0; type < 8; type++) {
        OK(aclInitCallbackRegister((aclRegisterCallbackType)type, on_init,
                                   (void *)(uintptr_t)letters[type]));
        OK(aclFinalizeCallbackRegister((aclRegisterCallbackType)type, on_finalize,
                                       (void *)(uintptr_t)letters[type]));
    }
    OK(aclInitCallbackRegister(ACL_REG_TYPE_OTHER, on_init, "1"));
    OK(aclInitCallbackRegister(ACL_REG_TYPE_OTHER, on_init_again, "2"));
    OK(aclFinalizeCallbackRegister(ACL_REG_TYPE_OTHER, on_finalize, "1"));
    OK(aclFinalizeCallbackRegister(ACL_REG_TYPE_OTHER, on_finalize_again, "2"));
}

START_TEST(callbacks_have_an_order)
{
    register_all();
    expect_calls("");
    OK(aclInit(NULL));
    expect_calls("md12");
    ck_assert_str_eq(init_text, "");
    ck_assert_int_eq(aclInit(NULL), ACL_ERROR_REPEAT_INITIALIZE);
    OK(aclFinalizeReference(NULL));
    expect_calls("");
    OK(aclFinalizeReference(NULL));
    expect_calls("cmd12");
    OK(aclInit(""));
    expect_calls("md12");
    OK(aclFinalize());
    expect_calls("cmd12");
    FAILS(ACL_ERROR_REPEAT_FINALIZE, aclFinalize());
    expect_calls("");
}
END_TEST

START_TEST(callbacks_see_the_configuration)
{
    static const char text[] = "{ \"StackSize\": {\"aicore_stack_size\": 32769} }\n";
    char path[96];
    size_t stack;
    FILE *f;

    make_home();
    snprintf(path, sizeof(path), "%s/acl.json", home);
    f = fopen(path, "w");
    ck_assert_ptr_nonnull(f);
    fputs(text, f);
    fclose(f);
    register_all();
    OK(aclInit(path));
    expect_calls("med12");
    ck_assert_str_eq(init_text, text);
    OK(aclrtDeviceGetLimit(ACL_RT_DEV_LIMIT_SIMD_STACK_SIZE, &stack));
    ck_assert_uint_eq(stack, 49152);
    init_text[0] = '\0';
    OK(aclInitCallbackUnRegister(ACL_REG_TYPE_ACL_MODEL, on_init));
    OK(aclInitCallbackRegister(ACL_REG_TYPE_ACL_MODEL, on_init, "n")); /* called at once */
    ck_assert_str_eq(init_text, text);
    answer = 4711; /* which is ignored */
    OK(aclInitCallbackRegister(ACL_REG_TYPE_OTHER, on_init_again, "3"));
    expect_calls("n3");
    answer = 0;
    OK(aclFinalize());
    expect_calls("cmd12");
    OK(aclInit(path));
    expect_calls("ned123");
    OK(aclFinalize());
    remove_home();
}
END_TEST

START_TEST(callbacks_may_fail)
{
    uint64_t n = 77;

    register_all();
    OK(aclInitCallbackRegister(ACL_REG_TYPE_OTHER, on_init, "3"));
    answer = 4711;
    FAILS(4711, aclInit(NULL));
    expect_calls("md12");
    FAILS(ACL_ERROR_REPEAT_FINALIZE, aclFinalizeReference(&n));
    answer = 0;
    OK(aclInit(NULL));
    expect_calls("md123");
    answer = 4712;
    FAILS(4712, aclFinalize());
    expect_calls("cmd12");
    ck_assert_int_eq(aclInit(NULL), ACL_ERROR_REPEAT_INITIALIZE); /* still initialised */
    FAILS(4712, aclFinalize());
    answer = 0;
    calls[0] = '\0';
    OK(aclFinalize());
    expect_calls("cmd12");
}
END_TEST

START_TEST(callback_errors)
{
    aclRegisterCallbackType unknown = (aclRegisterCallbackType)8;

    FAILS(NULL_ARGUMENT, aclInitCallbackRegister(ACL_REG_TYPE_OTHER, NULL, NULL));
    FAILS(NULL_ARGUMENT, aclInitCallbackUnRegister(ACL_REG_TYPE_OTHER, NULL));
    FAILS(NULL_ARGUMENT, aclFinalizeCallbackRegister(ACL_REG_TYPE_OTHER, NULL, NULL));
    FAILS(NULL_ARGUMENT, aclFinalizeCallbackUnRegister(ACL_REG_TYPE_OTHER, NULL));
    FAILS(NULL_ARGUMENT, aclInitCallbackRegister(unknown, on_init, "x"));
    FAILS(NULL_ARGUMENT, aclFinalizeCallbackRegister(unknown, on_finalize, "x"));
    FAILS(ACL_ERROR_INTERNAL_ERROR, aclInitCallbackUnRegister(ACL_REG_TYPE_OTHER, on_init));
    FAILS(ACL_ERROR_INTERNAL_ERROR, aclFinalizeCallbackUnRegister(ACL_REG_TYPE_OTHER, on_finalize));
    OK(aclInitCallbackRegister(ACL_REG_TYPE_ACL_MODEL, on_init, "x"));
    FAILS(ACL_ERROR_INTERNAL_ERROR,
          aclInitCallbackRegister(ACL_REG_TYPE_ACL_MODEL, on_init_again, "y"));
    FAILS(ACL_ERROR_INTERNAL_ERROR,
          aclInitCallbackUnRegister(ACL_REG_TYPE_ACL_MODEL, on_init_again));
    OK(aclInitCallbackUnRegister(ACL_REG_TYPE_ACL_MODEL, on_init));
    OK(aclInitCallbackRegister(ACL_REG_TYPE_ACL_MODEL, on_init_again, "y"));
    OK(aclInit(NULL));
    expect_calls("y");
    OK(aclFinalize());
}
END_TEST

/* --- suite --- */

static void add_devices(Suite *s)
{
    TCase *t = suite_case(s, "chips", 60, NULL, npud_teardown);

    tcase_add_loop_test(t, numbers_of_a_device, 0, 2);
    tcase_add_test(t, platform_items);
    tcase_add_loop_test(t, compatible_chips, 0, (int)LENGTH(chips));
    tcase_add_test(t, name_of_the_chip);
    tcase_add_loop_test(t, ids_of_visible_devices, 0, (int)LENGTH(conversions));
    t = suite_case(s, "devices", 60, npud_setup, npud_teardown);
    tcase_add_test(t, numbers_that_there_are_not);
    tcase_add_test(t, features);
    tcase_add_test(t, topology);
    tcase_add_test(t, bus_ids);
    tcase_add_test(t, atomic_operations);
    tcase_add_test(t, atomic_errors);
    tcase_add_test(t, device_that_does_nothing);
    tcase_add_test(t, delays_are_work);
    tcase_add_test(t, finished_delays_are_over);
    tcase_add_test(t, copies_are_work);
    tcase_add_test(t, fault_of_a_device);
    tcase_add_test(t, memory_faults);
    tcase_add_test(t, options_of_a_context);
    tcase_add_test(t, parts_that_a_simulated_device_has_not);
}

static void add_process(Suite *s)
{
    TCase *t = suite_case(s, "settings", 0, NULL, NULL);

    tcase_add_test(t, options_of_the_process);
    tcase_add_test(t, arithmetic_mode);
    tcase_add_loop_test(t, limits_of_kernels, 0, (int)LENGTH(limits));
    tcase_add_test(t, attributes_of_the_installation);
    t = suite_case(s, "versions", 0, make_home, remove_home);
    tcase_add_loop_test(t, version_numbers, 0, (int)LENGTH(versions));
    tcase_add_test(t, packages_are_found);
    tcase_add_test(t, parts_of_a_version);
    t = suite_case(s, "callbacks", 0, NULL, NULL);
    tcase_add_test(t, callbacks_have_an_order);
    tcase_add_test(t, callbacks_see_the_configuration);
    tcase_add_test(t, callbacks_may_fail);
    tcase_add_test(t, callback_errors);
}

static Suite *make_suite(void)
{
    Suite *s = suite_create("info");

    add_devices(s);
    add_process(s);
    return s;
}

int main(void)
{
    return run_suite(make_suite());
}
