#include "client/core/device_limit.h"

#include <stdatomic.h>
#include <stdint.h>

#include "client/core/error.h"
#include "client/core/process.h"

#define KIB    ((size_t)1024)
#define MIB    (1024 * KIB)
#define LIMITS (sizeof(rules) / sizeof(rules[0]))

static const struct {
    size_t least, most;
    size_t unit; /* rounded up to a multiple of it */
    bool raised; /* less than the least is the least, and no error */
} rules[] = {
    [ACL_RT_DEV_LIMIT_SIMT_STACK_SIZE] = {128, UINT32_MAX & ~(size_t)127, 128, true},
    [ACL_RT_DEV_LIMIT_SIMT_DVG_WARP_STACK_SIZE] = {0, UINT32_MAX, 1, false},
    [ACL_RT_DEV_LIMIT_SIMD_STACK_SIZE] = {32 * KIB, UINT32_MAX & ~(16 * KIB - 1), 16 * KIB, true},
    [ACL_RT_DEV_LIMIT_SIMD_PRINTF_FIFO_SIZE_PER_CORE] = {KIB, 64 * MIB, 8, false},
    [ACL_RT_DEV_LIMIT_SIMT_PRINTF_FIFO_SIZE] = {MIB, 64 * MIB, 1, false},
};

static _Atomic size_t limits[LIMITS] = {
    [ACL_RT_DEV_LIMIT_SIMT_STACK_SIZE] = 1152,
    [ACL_RT_DEV_LIMIT_SIMT_DVG_WARP_STACK_SIZE] = 1024,
    [ACL_RT_DEV_LIMIT_SIMD_STACK_SIZE] = 32 * KIB,
    [ACL_RT_DEV_LIMIT_SIMD_PRINTF_FIFO_SIZE_PER_CORE] = 32 * KIB,
    [ACL_RT_DEV_LIMIT_SIMT_PRINTF_FIFO_SIZE] = 2 * MIB,
};

bool device_limit_valid(aclrtDeviceLimit limit, size_t *bytes)
{
    size_t unit = rules[limit].unit;

    if (*bytes < rules[limit].least && rules[limit].raised)
        *bytes = rules[limit].least;
    if (*bytes < rules[limit].least || *bytes > rules[limit].most)
        return false;
    *bytes = (*bytes + unit - 1) / unit * unit;
    return true;
}

void device_limit_set(aclrtDeviceLimit limit, size_t bytes)
{
    atomic_store_explicit(&limits[limit], bytes, memory_order_relaxed);
}

static int check_limit(const char *function, aclrtDeviceLimit limit)
{
    if ((unsigned)limit < LIMITS)
        return 0;
    return error_set(ACL_ERROR_INVALID_PARAM, "%s: there is no limit %d", function, (int)limit);
}

aclError aclrtDeviceSetLimit(aclrtDeviceLimit limit, size_t value)
{
    CALL_SCOPE;
    RETURN_IF_ERROR(check_limit(__func__, limit));
    if (value > UINT32_MAX)
        return error_set(ACL_ERROR_INVALID_PARAM, "aclrtDeviceSetLimit: %zu is more than 32 bits",
                         value);
    if (!device_limit_valid(limit, &value))
        return error_set(ACL_ERROR_RT_PARAM_INVALID,
                         "aclrtDeviceSetLimit: limit %d is %zu bytes, must be %zu to %zu",
                         (int)limit, value, rules[limit].least, rules[limit].most);
    device_limit_set(limit, value);
    return 0;
}

aclError aclrtDeviceGetLimit(aclrtDeviceLimit limit, size_t *value)
{
    CALL_SCOPE;
    REQUIRE(value);
    RETURN_IF_ERROR(check_limit(__func__, limit));
    *value = atomic_load_explicit(&limits[limit], memory_order_relaxed);
    return 0;
}
