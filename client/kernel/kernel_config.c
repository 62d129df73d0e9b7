/* Attributes of a launch. */
#include "client/core/error.h"
#include "client/kernel/kernel.h"
#include "client/runtime/op_limit.h"
#include "proto/util/clock.h"

enum { GIVEN_ENGINE = 1, GIVEN_OFFSET = 2, GIVEN_TIMEOUT = 4, GIVEN_TIMEOUT_US = 8 };

/*
 * What a kernel on the host has no use for is checked and ignored: all blocks that fit are there at
 * once, whatever the schedule mode is.
 */
static const char *read_value(const aclrtLaunchKernelAttr *a, struct kernel_config *config,
                              unsigned *given)
{
    const aclrtLaunchKernelAttrValue *v = &a->value;

    switch (a->id) {
    case ACL_RT_LAUNCH_KERNEL_ATTR_SCHEM_MODE:
        config->schem_mode = v->schemMode;
        return v->schemMode > 1 ? "schemMode must be 0 or 1" : NULL;
    case ACL_RT_LAUNCH_KERNEL_ATTR_DYN_UBUF_SIZE:
        config->ubuf_size = v->dynUBufSize;
        return NULL;
    case ACL_RT_LAUNCH_KERNEL_ATTR_ENGINE_TYPE:
        *given |= GIVEN_ENGINE;
        return (unsigned)v->engineType > 1 ? "engineType must be 0 or 1" : NULL;
    case ACL_RT_LAUNCH_KERNEL_ATTR_BLOCKDIM_OFFSET:
        *given |= GIVEN_OFFSET;
        return NULL;
    case ACL_RT_LAUNCH_KERNEL_ATTR_BLOCK_TASK_PREFETCH:
        return v->isBlockTaskPrefetch > 1 ? "isBlockTaskPrefetch must be 0 or 1" : NULL;
    case ACL_RT_LAUNCH_KERNEL_ATTR_DATA_DUMP:
        config->data_dump = v->isDataDump;
        return v->isDataDump > 1 ? "isDataDump must be 0 or 1" : NULL;
    case ACL_RT_LAUNCH_KERNEL_ATTR_TIMEOUT:
        *given |= GIVEN_TIMEOUT;
        config->limit_ns = (uint64_t)v->timeout * NSEC_PER_SEC;
        return NULL;
    case ACL_RT_LAUNCH_KERNEL_ATTR_TIMEOUT_US: {
        uint64_t us = (uint64_t)v->timeoutUs.timeoutHigh << 32 | v->timeoutUs.timeoutLow;

        *given |= GIVEN_TIMEOUT_US;
        config->limit_ns = us > INT64_MAX / NSEC_PER_USEC ? 0 : us * NSEC_PER_USEC;
        return NULL;
    }
    case ACL_RT_LAUNCH_KERNEL_ATTR_ENABLE_PROFILING:
        config->profiling = v->enableProfiling;
        return v->enableProfiling > 1 ? "enableProfiling must be 0 or 1" : NULL;
    default:
        return "its id is not known";
    }
}

/* What goes together, and what does not. */
static const char *check_given(unsigned given)
{
    if ((given & GIVEN_TIMEOUT) && (given & GIVEN_TIMEOUT_US))
        return "TIMEOUT and TIMEOUT_US are given";
    if (!(given & GIVEN_ENGINE) != !(given & GIVEN_OFFSET))
        return "ENGINE_TYPE and BLOCKDIM_OFFSET go together";
    return NULL;
}

int kernel_config_read(const char *api, const aclrtLaunchKernelCfg *cfg,
                       struct kernel_config *config)
{
    const char *wrong;
    unsigned given = 0;

    *config = (struct kernel_config){.limit_ns = op_limit_ns()};
    if (!cfg)
        return 0;
    if (!cfg->attrs)
        return error_set(ACL_ERROR_RT_PARAM_INVALID, "%s: cfg->attrs is NULL", api);
    for (size_t i = 0; i < cfg->numAttrs; i++) {
        wrong = read_value(&cfg->attrs[i], config, &given);
        if (wrong)
            return error_set(ACL_ERROR_RT_PARAM_INVALID, "%s: attribute %zu of cfg: %s", api, i,
                             wrong);
    }
    wrong = check_given(given);
    return wrong ? error_set(ACL_ERROR_RT_PARAM_INVALID, "%s: in cfg, %s", api, wrong) : 0;
}

static void get_timeout(uint64_t ns, bool in_us, aclrtLaunchKernelAttrValue *value)
{
    uint64_t us = ns / NSEC_PER_USEC, seconds = ns / NSEC_PER_SEC + (ns % NSEC_PER_SEC != 0);

    if (in_us)
        value->timeoutUs = (aclrtTimeoutUs){(uint32_t)us, (uint32_t)(us >> 32)};
    else
        value->timeout = seconds > UINT16_MAX ? UINT16_MAX : (uint16_t)seconds;
}

bool kernel_config_get(const struct kernel_config *config, unsigned id,
                       aclrtLaunchKernelAttrValue *value)
{
    aclrtLaunchKernelAttrValue v = {.rsv = {0}};

    switch (id) {
    case ACL_RT_LAUNCH_KERNEL_ATTR_SCHEM_MODE:
        v.schemMode = config->schem_mode;
        break;
    case ACL_RT_LAUNCH_KERNEL_ATTR_DYN_UBUF_SIZE:
        v.dynUBufSize = config->ubuf_size;
        break;
    case ACL_RT_LAUNCH_KERNEL_ATTR_DATA_DUMP:
        v.isDataDump = config->data_dump;
        break;
    case ACL_RT_LAUNCH_KERNEL_ATTR_TIMEOUT:
    case ACL_RT_LAUNCH_KERNEL_ATTR_TIMEOUT_US:
        get_timeout(config->limit_ns, id == ACL_RT_LAUNCH_KERNEL_ATTR_TIMEOUT_US, &v);
        break;
    case ACL_RT_LAUNCH_KERNEL_ATTR_ENABLE_PROFILING:
        v.enableProfiling = config->profiling;
        break;
    default:
        return false;
    }
    *value = v;
    return true;
}
