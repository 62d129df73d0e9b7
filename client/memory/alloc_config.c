/*
 * What an allocation may ask for; and allocations with attributes: aclrtMallocWithCfg and the like.
 * The attributes are checked; none changes what the program gets, because all memory of a simulated
 * device is of one kind, and has the same address for the host and the device.
 */
#include "acl/acl.h"
#include "client/core/error.h"
#include "client/memory/alloc.h"
#include "client/runtime/context.h"
#include "client/runtime/device.h"

#define BIT(attribute) (1u << (attribute))
#define DEVICE_KNOWS   (BIT(ACL_RT_MEM_ATTR_MODULE_ID) | BIT(ACL_RT_MEM_ATTR_DEVICE_ID))
#define HOST_KNOWS     (BIT(ACL_RT_MEM_ATTR_MODULE_ID) | BIT(ACL_RT_MEM_ATTR_VA_FLAG))

#define POLICY_PAGES 0xff /* the rest are flags */

int memory_check_request(const char *function, size_t size, aclrtMemMallocPolicy policy)
{
    if (size == 0)
        return error_set(ACL_ERROR_INVALID_PARAM, "%s: size is 0", function);
    if (size > SIZE_MAX - 64)
        return error_set(ACL_ERROR_INVALID_PARAM, "%s: size %zu is too large", function, size);
    if (policy == ACL_MEM_MALLOC_HUGE1G_ONLY || policy == ACL_MEM_MALLOC_HUGE1G_ONLY_P2P)
        return error_set(ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
                         "%s: policy %d asks for pages of 1 GiB, which the device does not have: "
                         "use ACL_MEM_MALLOC_HUGE_FIRST",
                         function, (int)policy);
    return 0;
}

static int check_attribute(const char *function, size_t i, const aclrtMallocAttribute *a,
                           unsigned known)
{
    if ((unsigned)a->attr > ACL_RT_MEM_ATTR_VA_FLAG || (known & BIT(a->attr)) == 0)
        return error_set(ACL_ERROR_RT_PARAM_INVALID,
                         "%s: cfg->attrs[%zu] has attribute %d, which this function does not take",
                         function, i, (int)a->attr);
    if (a->attr == ACL_RT_MEM_ATTR_VA_FLAG && a->value.vaFlag > 1)
        return error_set(ACL_ERROR_RT_PARAM_INVALID,
                         "%s: cfg->attrs[%zu] has vaFlag %u, must be 0 or 1", function, i,
                         a->value.vaFlag);
    return 0;
}

/* *device becomes the last one that is asked for; NULL: no attribute names any. */
static int check_config(const char *function, const aclrtMallocConfig *cfg, unsigned known,
                        const uint32_t **device)
{
    *device = NULL;
    if (!cfg)
        return 0;
    /* The codes are those of the reference, which has the outer one for device memory alone. */
    if (!cfg->attrs)
        return error_set(cfg->numAttrs != 0 && (known & BIT(ACL_RT_MEM_ATTR_DEVICE_ID))
                             ? ACL_ERROR_INVALID_PARAM
                             : ACL_ERROR_RT_PARAM_INVALID,
                         "%s: cfg->attrs is NULL: pass NULL as cfg for no attributes", function);
    for (size_t i = 0; i < cfg->numAttrs; i++) {
        RETURN_IF_ERROR(check_attribute(function, i, &cfg->attrs[i], known));
        if (cfg->attrs[i].attr == ACL_RT_MEM_ATTR_DEVICE_ID)
            *device = &cfg->attrs[i].value.deviceId;
    }
    return 0;
}

static int check_device(const char *function, const uint32_t *device)
{
    struct context *c = FIND_OR_RETURN(context_get, function);
    int32_t current = device_user_id(c->session, c->device);

    if (!device || (current >= 0 && *device == (uint32_t)current))
        return 0;
    return error_set(ACL_ERROR_RT_PARAM_INVALID,
                     "%s: attribute DEVICE_ID is %u and the current device is %d: call "
                     "aclrtSetDevice first",
                     function, *device, (int)current);
}

static int allocate_with(const char *function, void **pointer, size_t size, int policy,
                         const aclrtMallocConfig *cfg)
{
    const uint32_t *device;

    RETURN_IF_ERROR(
        memory_check_request(function, size, (aclrtMemMallocPolicy)(policy & POLICY_PAGES)));
    RETURN_IF_ERROR(check_config(function, cfg, DEVICE_KNOWS, &device));
    RETURN_IF_ERROR(check_device(function, device));
    return memory_new(function, pointer, size, false);
}

aclError aclrtMallocWithCfg(void **devPtr, size_t size, aclrtMemMallocPolicy policy,
                            aclrtMallocConfig *cfg)
{
    CALL_SCOPE;

    REQUIRE(devPtr);
    return allocate_with(__func__, devPtr, size, (int)policy, cfg);
}

aclError aclrtMallocForTaskScheduler(void **devPtr, size_t size, aclrtMemMallocPolicy policy,
                                     aclrtMallocConfig *cfg)
{
    CALL_SCOPE;

    REQUIRE(devPtr);
    return allocate_with(__func__, devPtr, size, (int)policy, cfg);
}

aclError aclrtMallocHostWithCfg(void **ptr, uint64_t size, aclrtMallocConfig *cfg)
{
    CALL_SCOPE;
    const uint32_t *device;

    REQUIRE(ptr);
    RETURN_IF_ERROR(memory_check_request(__func__, size, ACL_MEM_MALLOC_HUGE_FIRST));
    RETURN_IF_ERROR(check_config(__func__, cfg, HOST_KNOWS, &device));
    return memory_new(__func__, ptr, size, true);
}
