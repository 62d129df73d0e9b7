/*
 * Settings of the process and of contexts that are for kernels. Nothing here runs any: they are
 * kept and given back.
 */
#include <stdatomic.h>

#include "acl/acl.h"
#include "client/core/error.h"
#include "client/runtime/context.h"

/* --- options --- */

#define OPTIONS (ACL_OPT_ENABLE_KERNEL_EARLY_START + 1)

static _Atomic int64_t process_options[OPTIONS];

/* options: how many there are where it is to be set. */
static int check_option(const char *function, aclSysParamOpt opt, unsigned options)
{
    if ((unsigned)opt < options)
        return 0;
    return error_set(ACL_ERROR_INVALID_PARAM, "%s: opt is %d, must be 0 to %u", function, (int)opt,
                     options - 1);
}

static int check_option_value(const char *function, aclSysParamOpt opt, int64_t value)
{
    int64_t last = opt == ACL_OPT_DETERMINISTIC ? 3 : 1;

    if (value >= 0 && value <= last)
        return 0;
    return error_set(ACL_ERROR_RT_PARAM_INVALID, "%s: option %d takes 0 to %lld, not %lld",
                     function, (int)opt, (long long)last, (long long)value);
}

aclError aclrtSetSysParamOpt(aclSysParamOpt opt, int64_t value)
{
    CALL_SCOPE;
    RETURN_IF_ERROR(check_option(__func__, opt, OPTIONS));
    RETURN_IF_ERROR(check_option_value(__func__, opt, value));
    atomic_store_explicit(&process_options[opt], value, memory_order_relaxed);
    return 0;
}

aclError aclrtGetSysParamOpt(aclSysParamOpt opt, int64_t *value)
{
    CALL_SCOPE;
    REQUIRE(value);
    RETURN_IF_ERROR(check_option(__func__, opt, OPTIONS));
    *value = atomic_load_explicit(&process_options[opt], memory_order_relaxed);
    return 0;
}

aclError aclrtCtxSetSysParamOpt(aclSysParamOpt opt, int64_t value)
{
    CALL_SCOPE;
    RETURN_IF_ERROR(check_option(__func__, opt, CONTEXT_OPTIONS));
    RETURN_IF_ERROR(check_option_value(__func__, opt, value));
    struct context *c = FIND_OR_RETURN(context_get, __func__);

    atomic_store_explicit(&c->option[opt], (uint8_t)(value + 1), memory_order_relaxed);
    return 0;
}

aclError aclrtCtxGetSysParamOpt(aclSysParamOpt opt, int64_t *value)
{
    CALL_SCOPE;
    REQUIRE(value);
    RETURN_IF_ERROR(check_option(__func__, opt, CONTEXT_OPTIONS));
    struct context *c = FIND_OR_RETURN(context_get, __func__);
    uint8_t option = atomic_load_explicit(&c->option[opt], memory_order_relaxed);

    if (option == 0)
        return error_set(ACL_ERROR_RT_SYSPARAMOPT_NOT_SET,
                         "aclrtCtxGetSysParamOpt: option %d was not set in this context: call "
                         "aclrtCtxSetSysParamOpt first",
                         (int)opt);
    *value = option - 1;
    return 0;
}

/* --- arithmetic --- */

static _Atomic int overflow_mode = ACL_RT_OVERFLOW_MODE_INFNAN;

aclError aclrtSetDeviceSatMode(aclrtFloatOverflowMode mode)
{
    CALL_SCOPE;

    if (mode != ACL_RT_OVERFLOW_MODE_SATURATION && mode != ACL_RT_OVERFLOW_MODE_INFNAN)
        return error_set(ACL_ERROR_RT_PARAM_INVALID,
                         "aclrtSetDeviceSatMode: mode is %d, must be 0 (saturation) or 1 (Inf/NaN)",
                         (int)mode);
    atomic_store_explicit(&overflow_mode, (int)mode, memory_order_relaxed);
    return 0;
}

aclError aclrtGetDeviceSatMode(aclrtFloatOverflowMode *mode)
{
    CALL_SCOPE;
    REQUIRE(mode);
    *mode = (aclrtFloatOverflowMode)atomic_load_explicit(&overflow_mode, memory_order_relaxed);
    return 0;
}

/* --- parts of a device that a simulated one has not --- */

aclError aclrtSetTsDevice(aclrtTsId tsId)
{
    CALL_SCOPE;

    if (tsId == ACL_TS_ID_AICORE || tsId == ACL_TS_ID_AIVECTOR)
        return 0;
    return error_set(ACL_ERROR_INVALID_PARAM,
                     "aclrtSetTsDevice: tsId is %d, must be 0 (AI core) or 1 (vector)", (int)tsId);
}

aclError aclrtDeviceL2CacheFlush(void *rsv)
{
    CALL_SCOPE;

    if (rsv)
        return error_set(ACL_ERROR_INVALID_PARAM, "aclrtDeviceL2CacheFlush: rsv must be NULL");
    FIND_OR_RETURN(context_get, __func__);
    return 0;
}
