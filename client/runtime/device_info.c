/* What a device is: numbers about its chip, its memory, its place in the host, and its features. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "acl/acl.h"
#include "acl/acl_platform.h"
#include "client/core/error.h"
#include "client/runtime/chip.h"
#include "client/runtime/device.h"
#include "client/runtime/session.h"

/* --- one number --- */

struct number {
    enum {
        IS_CONSTANT,
        IS_OF_CHIP,
        IS_MEMORY,
        IS_INDEX, /* npud's number of the device */
        IS_MISSING,
        IS_TEXT, /* a string of struct chip */
        IS_NAME, /* of the chip */
    } kind;
    size_t at; /* of the member in struct chip; or the constant */
};

#define CONSTANT(value)                                                                            \
    {                                                                                              \
        IS_CONSTANT, (value)                                                                       \
    }
#define OF_CHIP(member)                                                                            \
    {                                                                                              \
        IS_OF_CHIP, offsetof(struct chip, member)                                                  \
    }
#define TEXT(member)                                                                               \
    {                                                                                              \
        IS_TEXT, offsetof(struct chip, member)                                                     \
    }

struct attribute {
    aclrtDevAttr attr;
    struct number number;
};

static const struct attribute attributes[] = {
    {ACL_DEV_ATTR_AICPU_CORE_NUM, OF_CHIP(device_cpus)},
    {ACL_DEV_ATTR_AICORE_CORE_NUM, OF_CHIP(cube_cores)},
    {ACL_DEV_ATTR_CUBE_CORE_NUM, OF_CHIP(cube_cores)},
    {ACL_DEV_ATTR_VECTOR_CORE_NUM, OF_CHIP(vector_cores)},
    {ACL_DEV_ATTR_WARP_SIZE, CONSTANT(0)}, /* no chip here has SIMT, which these are about */
    {ACL_DEV_ATTR_MAX_THREAD_PER_VECTOR_CORE, CONSTANT(0)},
    {ACL_DEV_ATTR_UBUF_PER_VECTOR_CORE, CONSTANT(0)},
    {ACL_DEV_ATTR_MAX_GRID_DIM_X, CONSTANT(0)},
    {ACL_DEV_ATTR_MAX_GRID_DIM_Y, CONSTANT(0)},
    {ACL_DEV_ATTR_MAX_GRID_DIM_Z, CONSTANT(0)},
    {ACL_DEV_ATTR_MAX_BLOCK_PER_GRID, CONSTANT(0)},
    {ACL_DEV_ATTR_MAX_THREADS_PER_BLOCK, CONSTANT(0)},
    {ACL_DEV_ATTR_MAX_BLOCK_DIM_X, CONSTANT(0)},
    {ACL_DEV_ATTR_MAX_BLOCK_DIM_Y, CONSTANT(0)},
    {ACL_DEV_ATTR_MAX_BLOCK_DIM_Z, CONSTANT(0)},
    {ACL_DEV_ATTR_TOTAL_GLOBAL_MEM_SIZE, {IS_MEMORY, 0}},
    {ACL_DEV_ATTR_L2_CACHE_SIZE, OF_CHIP(l2_bytes)},
    {ACL_DEV_ATTR_SMP_ID, CONSTANT(0)}, /* one host, and so one image */
    {ACL_DEV_ATTR_PHY_CHIP_ID, {IS_INDEX, 0}},
    {ACL_DEV_ATTR_SUPER_POD_DEVICE_ID, {IS_MISSING, 0}},
    {ACL_DEV_ATTR_SUPER_POD_SERVER_ID, {IS_MISSING, 0}},
    {ACL_DEV_ATTR_SUPER_POD_ID, {IS_MISSING, 0}},
    {ACL_DEV_ATTR_CUST_OP_PRIVILEGE, CONSTANT(0)},
    {ACL_DEV_ATTR_MAINBOARD_ID, CONSTANT(0)},
    {ACL_DEV_ATTR_HD_CONNECT_TYPE, CONSTANT(ACL_HOST_DEVICE_CONNECT_TYPE_PCIE)},
    {ACL_DEV_ATTR_DEVICE_FORM_FACTOR, CONSTANT(ACL_DEVICE_FORM_FACTOR_PCIE_CARD)},
    {ACL_DEV_ATTR_IS_VIRTUAL, CONSTANT(0)}, /* not a part of another device */
    {ACL_DEV_ATTR_NPU_ARCH, OF_CHIP(arch)},
};

static const struct attribute *find_attribute(aclrtDevAttr attr)
{
    for (size_t i = 0; i < sizeof(attributes) / sizeof(attributes[0]); i++)
        if (attributes[i].attr == attr)
            return &attributes[i];
    return NULL;
}

static uint64_t number_of_chip(const struct chip *chip, size_t at)
{
    uint64_t value;

    memcpy(&value, (const char *)chip + at, sizeof(value));
    return value;
}

static int64_t number_of_device(const struct session *s, uint32_t device,
                                const struct number *number)
{
    switch (number->kind) {
    case IS_OF_CHIP:
        return (int64_t)number_of_chip(chip_of_device(s, device), number->at);
    case IS_MEMORY:
        return (int64_t)s->device_info[device].memory;
    case IS_INDEX:
        return device;
    default:
        return (int64_t)number->at;
    }
}

aclError aclrtGetDeviceInfo(uint32_t deviceId, aclrtDevAttr attr, int64_t *value)
{
    CALL_SCOPE;
    const struct attribute *row = find_attribute(attr);
    uint32_t device;

    REQUIRE(value);
    if (!row)
        return error_set(ACL_ERROR_RT_PARAM_INVALID,
                         "aclrtGetDeviceInfo: there is no attribute %d: pass one of aclrtDevAttr",
                         (int)attr);
    struct session *s = FIND_OR_RETURN(session_get, __func__);

    RETURN_IF_ERROR(device_or_code(s, __func__, deviceId, ACL_ERROR_RT_PARAM_INVALID, &device));
    if (row->number.kind == IS_MISSING)
        return error_set(ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
                         "aclrtGetDeviceInfo: attribute %d: the device is in no super pod",
                         (int)attr);
    *value = number_of_device(s, device, &row->number);
    return 0;
}

/* --- of the chip --- */

static int find_chip_number(aclDeviceInfo item, struct number *number)
{
    static const struct number items[] = {
        [ACL_DEVICE_INFO_AI_CORE_NUM] = OF_CHIP(cube_cores),
        [ACL_DEVICE_INFO_VECTOR_CORE_NUM] = OF_CHIP(vector_cores),
        [ACL_DEVICE_INFO_L2_SIZE] = OF_CHIP(l2_bytes),
    };

    if ((unsigned)item >= sizeof(items) / sizeof(items[0]))
        return error_set(ACL_ERROR_INVALID_PARAM, "aclGetDeviceCapability: there is no item %d",
                         (int)item);
    *number = items[item];
    return 0;
}

aclError aclGetDeviceCapability(uint32_t deviceId, aclDeviceInfo deviceInfo, int64_t *value)
{
    CALL_SCOPE;
    struct error_saved saved;
    struct number number;
    struct session *s;
    uint32_t device;
    int error;

    REQUIRE(value);
    RETURN_IF_ERROR(find_chip_number(deviceInfo, &number));
    error_save(&saved);
    s = session_get(__func__, &error);
    error_save_end(&saved);
    if (!s)
        return error_set(ACL_ERROR_INTERNAL_ERROR, "%s", saved.sentence);
    RETURN_IF_ERROR(device_or_code(s, __func__, deviceId, ACL_ERROR_INVALID_PARAM, &device));
    *value = number_of_device(s, device, &number);
    return 0;
}

/* --- features --- */

aclError aclrtGetDeviceCapability(int32_t deviceId, aclrtDevFeatureType devFeatureType,
                                  int32_t *value)
{
    CALL_SCOPE;
    struct session *s;
    uint32_t device;

    REQUIRE(value);
    if (devFeatureType != ACL_FEATURE_TSCPU_TASK_UPDATE_SUPPORT_AIC_AIV &&
        devFeatureType != ACL_FEATURE_SYSTEM_MEMQ_EVENT_CROSS_DEV)
        return error_set(ACL_ERROR_RT_PARAM_INVALID,
                         "aclrtGetDeviceCapability: there is no feature %d", (int)devFeatureType);
    RETURN_IF_ERROR(device_get(__func__, deviceId, &s, &device));
    *value = devFeatureType == ACL_FEATURE_TSCPU_TASK_UPDATE_SUPPORT_AIC_AIV
                 ? ACL_DEV_FEATURE_SUPPORT
                 : ACL_DEV_FEATURE_NOT_SUPPORT;
    return 0;
}

aclError aclrtCheckArchCompatibility(const char *socVersion, int32_t *canCompatible)
{
    CALL_SCOPE;
    const struct chip *other, *own;
    const char *name;

    REQUIRE_OR(ACL_ERROR_RT_PARAM_INVALID, socVersion);
    REQUIRE_OR(ACL_ERROR_RT_PARAM_INVALID, canCompatible);
    if (!socVersion[0])
        return error_set(ACL_ERROR_RT_PARAM_INVALID,
                         "aclrtCheckArchCompatibility: the name of the chip is empty");
    name = FIND_OR_RETURN(chip_name, __func__);
    own = chip_of(name);
    other = chip_of(socVersion);
    /* Of a chip without a row of its own nothing is known but its name. */
    *canCompatible =
        strcmp(name, socVersion) == 0 || (other->prefix[0] && other->arch == own->arch);
    return 0;
}

aclError aclrtGetDevicesTopo(uint32_t deviceId, uint32_t otherDeviceId, uint64_t *value)
{
    CALL_SCOPE;
    struct session *s;
    uint32_t device;

    REQUIRE(value);
    RETURN_IF_ERROR(device_get(__func__, deviceId, &s, &device));
    RETURN_IF_ERROR(device_of_user_id(s, __func__, otherDeviceId, &device));
    *value = ACL_RT_DEVS_TOPOLOGY_PHB; /* all memory is the host's */
    return 0;
}

/* --- what a platform is --- */

static const struct number platform_items[] = {
    [ACL_PLATFORM_AICORE_CNT] = OF_CHIP(cube_cores),
    [ACL_PLATFORM_AICORE_UB_SIZE] = OF_CHIP(ub_bytes),
    [ACL_PLATFORM_CUBE_CORE_CNT] = OF_CHIP(cube_cores),
    [ACL_PLATFORM_VECTOR_CORE_CNT] = OF_CHIP(vector_cores),
    [ACL_PLATFORM_L2_SIZE] = OF_CHIP(l2_bytes),
    [ACL_PLATFORM_MEMORY_SIZE] = {IS_MEMORY, 0},
    [ACL_PLATFORM_CUBE_FREQ] = OF_CHIP(mhz),
    [ACL_PLATFORM_VEC_FREQ] = OF_CHIP(mhz),
    [ACL_PLATFORM_BT_SIZE] = OF_CHIP(bt_bytes),
    [ACL_PLATFORM_L0_A_SIZE] = OF_CHIP(l0_a_bytes),
    [ACL_PLATFORM_L0_B_SIZE] = OF_CHIP(l0_b_bytes),
    [ACL_PLATFORM_L0_C_SIZE] = OF_CHIP(l0_c_bytes),
    [ACL_PLATFORM_L1_SIZE] = OF_CHIP(l1_bytes),
    [ACL_PLATFORM_SOC_VERSION] = {IS_NAME, 0},
    [ACL_PLATFORM_AIC_VERSION] = TEXT(aic_version),
    [ACL_PLATFORM_NPU_ARCH] = OF_CHIP(arch),
    [ACL_PLATFORM_MEMORY_TYPE] = TEXT(memory_type),
};

/* Of the chip, which may be known where no npud is; but memory is a device's, for npud to say. */
static int print_item(const struct number *item, const char *name, char *text, size_t size)
{
    const struct chip *chip = chip_of(name);
    uint64_t value = number_of_chip(chip, item->at);
    const char *string;

    if (item->kind == IS_NAME || item->kind == IS_TEXT) {
        memcpy(&string, (const char *)chip + item->at, sizeof(string));
        snprintf(text, size, "%s", item->kind == IS_NAME ? name : string);
        return 0;
    }
    if (item->kind == IS_MEMORY)
        value = (FIND_OR_RETURN(session_get, "aclplatformGetDeviceInfo"))->device_info[0].memory;
    snprintf(text, size, "%" PRIu64, value);
    return 0;
}

aclError aclplatformGetDeviceInfo(aclplatformDevInfo infoType, char *value, uint32_t maxLen)
{
    CALL_SCOPE;
    const char *name;
    char text[64];

    REQUIRE(value);
    if ((unsigned)infoType >= sizeof(platform_items) / sizeof(platform_items[0]))
        return error_set(ACL_ERROR_INVALID_PARAM, "aclplatformGetDeviceInfo: there is no item %d",
                         (int)infoType);
    name = FIND_OR_RETURN(chip_name, __func__);
    RETURN_IF_ERROR(print_item(&platform_items[infoType], name, text, sizeof(text)));
    if (strlen(text) >= maxLen)
        return error_set(ACL_ERROR_INVALID_PARAM,
                         "aclplatformGetDeviceInfo: maxLen is %u, and the value takes %zu bytes",
                         maxLen, strlen(text) + 1);
    strcpy(value, text);
    return 0;
}

aclError aclplatformGetInstructionInfo(aclplatformCoreType type, const char *instruction,
                                       char *value, uint32_t maxLen)
{
    CALL_SCOPE;
    REQUIRE(instruction);
    REQUIRE(value);
    if ((unsigned)type > ACL_PLATFORM_CORE_TYPE_VECTOR_CORE || maxLen == 0)
        return error_set(ACL_ERROR_INVALID_PARAM,
                         "aclplatformGetInstructionInfo: type is %d (0 or 1), maxLen is %u (at "
                         "least 1)",
                         (int)type, maxLen);
    return error_set(ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
                     "aclplatformGetInstructionInfo: a simulated core has no instructions");
}
