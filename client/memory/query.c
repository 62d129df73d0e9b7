/* What is known of addresses, and of the memory of a device. */
#include <string.h>

#include "acl/acl.h"
#include "client/buffers/segment.h"
#include "client/core/error.h"
#include "client/core/upcall.h"
#include "client/memory/alloc.h"
#include "client/memory/place.h"
#include "client/memory/registration.h"
#include "client/runtime/context.h"
#include "client/runtime/device.h"

aclError aclrtPointerGetAttributes(const void *ptr, aclrtPtrAttributes *attributes)
{
    CALL_SCOPE;
    struct session *s = session_peek();
    struct segment_place buffer;
    struct memory m;

    REQUIRE(ptr);
    REQUIRE(attributes);
    RETURN_IF_ERROR(process_enter());
    *attributes = (aclrtPtrAttributes){.pageSize = 4096};
    attributes->location.type = ACL_MEM_LOCATION_TYPE_UNREGISTERED;
    if (s && memory_look_up(s, ptr, &m) && !m.freed) {
        attributes->location.type = m.managed ? ACL_MEM_LOCATION_TYPE_MANAGED
                                    : m.host  ? ACL_MEM_LOCATION_TYPE_HOST
                                              : ACL_MEM_LOCATION_TYPE_DEVICE;
        attributes->location.id = m.host ? 0 : (uint32_t)device_user_id(s, m.device);
    } else if (s && upcalls->kernel_registry_holds(ptr, 1)) {
        /* of each device: that of the calling thread, if it has one */
        struct context *c = context_peek(thread_self());

        attributes->location.type = ACL_MEM_LOCATION_TYPE_DEVICE;
        attributes->location.id = c ? (uint32_t)device_user_id(s, c->device) : 0;
    } else if (s && (segment_locate(s, ptr, &buffer) || registration_holds(s, ptr, 1))) {
        /* of no device, and for every device to copy from and to */
        attributes->location.type = ACL_MEM_LOCATION_TYPE_HOST;
    }
    return 0;
}

aclError aclrtMemGetAddressRange(void *ptr, void **pbase, size_t *psize)
{
    CALL_SCOPE;
    struct session *s = session_peek();
    struct memory m;

    REQUIRE(ptr);
    if (!pbase && !psize)
        return error_set(ACL_ERROR_RT_PARAM_INVALID, "%s: pbase and psize are both NULL", __func__);
    RETURN_IF_ERROR(process_enter());
    if (!s || !memory_look_up(s, ptr, &m))
        return error_set(ACL_ERROR_RT_PARAM_INVALID, "%s: %p is in no allocation of this process",
                         __func__, ptr);
    if (m.freed)
        return error_set(ACL_ERROR_RT_PARAM_INVALID,
                         "%s: %p is in memory that was freed: it was an allocation of %zu bytes",
                         __func__, ptr, m.size);
    if (pbase)
        *pbase = (void *)m.mapped.start;
    if (psize)
        *psize = m.mapped.size;
    return 0;
}

/* --- kinds of device memory --- */

#define MEM_TYPES (ACL_RT_MEM_TYPE_DEV | ACL_RT_MEM_TYPE_DVPP | ACL_RT_MEM_TYPE_RSVD)

/* All device memory is of one type here; none is reserved, or of a video unit. */
static bool is_device_memory(struct session *s, const void *address)
{
    struct memory m;

    return s && memory_look_up(s, address, &m) && !m.freed && !m.host;
}

aclError aclrtCheckMemType(void **addrList, uint32_t size, uint32_t memType, uint32_t *checkResult,
                           uint32_t reserve)
{
    CALL_SCOPE;
    struct session *s = session_peek();

    REQUIRE(addrList);
    REQUIRE(checkResult);
    if (size == 0 || reserve != 0)
        return error_set(ACL_ERROR_RT_PARAM_INVALID,
                         "%s: size is %u and reserve %u: must be 1 at "
                         "least, and 0",
                         __func__, size, reserve);
    if (memType == 0 || (memType & ~MEM_TYPES) != 0)
        return error_set(ACL_ERROR_RT_PARAM_INVALID,
                         "%s: memType is 0x%x, must be of ACL_RT_MEM_TYPE_*", __func__, memType);
    RETURN_IF_ERROR(process_enter());
    *checkResult = (memType & ACL_RT_MEM_TYPE_DEV) != 0;
    for (uint32_t i = 0; i < size && *checkResult; i++)
        *checkResult = is_device_memory(s, addrList[i]);
    return 0;
}

/* --- reach --- */

aclError aclrtMemP2PMap(void *devPtr, size_t size, int32_t dstDevId, uint64_t flags)
{
    CALL_SCOPE;
    struct context *c;
    struct place at;
    uint32_t device;

    REQUIRE(devPtr);
    if (size == 0 || flags != 0)
        return error_set(ACL_ERROR_INVALID_PARAM,
                         "%s: size is %zu and flags 0x%llx: must be 1 at "
                         "least, and 0",
                         __func__, size, (unsigned long long)flags);
    c = FIND_OR_RETURN(context_get, __func__);
    RETURN_IF_ERROR(device_of_user_id(c->session, __func__, dstDevId, &device));
    /* The engine of a device maps what its tasks use: within reach is all that there is to do. */
    return place_find_device(c->session, __func__, device, "devPtr", devPtr,
                             place_named(c->session, devPtr, size), &at);
}

/* --- caches --- */

/* Host and devices see the same pages: nothing is to be written back, or to be dropped. */
static int check_cached(const char *function, const void *p, size_t size)
{
    struct context *c;

    if (!p)
        return error_null(function, "devPtr");
    if (size == 0)
        return error_set(ACL_ERROR_INVALID_PARAM, "%s: size is 0", function);
    c = FIND_OR_RETURN(context_get, function);
    return place_check(c->session, function, "devPtr", p, place_named(c->session, p, size));
}

aclError aclrtMemFlush(void *devPtr, size_t size)
{
    CALL_SCOPE;

    return check_cached(__func__, devPtr, size);
}

aclError aclrtMemInvalidate(void *devPtr, size_t size)
{
    CALL_SCOPE;

    return check_cached(__func__, devPtr, size);
}

/* --- which process uses how much of a device --- */

enum { USERS = 2 };

static void count_users(struct session *s, uint32_t device, uint64_t used, aclrtMemUsageInfo *users)
{
    aclrtMemUsageInfo app = {.name = "APP"}, others = {.name = "OTHERS"};

    memory_lock_to_look(s);
    app.curMemSize = s->memory_used[device];
    app.memPeakSize = s->memory_peak[device];
    pthread_rwlock_unlock(&s->memory_lock);
    /* Another thread may have allocated or freed since npud was asked. */
    others.curMemSize = used > app.curMemSize ? used - app.curMemSize : 0;
    others.memPeakSize = others.curMemSize;
    users[0] = app.curMemSize >= others.curMemSize ? app : others;
    users[1] = app.curMemSize >= others.curMemSize ? others : app;
}

aclError aclrtGetMemUsageInfo(int32_t deviceId, aclrtMemUsageInfo *memUsageInfo, size_t inputNum,
                              size_t *outputNum)
{
    CALL_SCOPE;
    aclrtMemUsageInfo users[USERS];
    Npud__Reply *reply = NULL;
    struct session *s;
    uint32_t device;

    REQUIRE(memUsageInfo);
    REQUIRE(outputNum);
    if (inputNum == 0)
        return error_set(ACL_ERROR_RT_PARAM_INVALID, "%s: inputNum is 0", __func__);
    RETURN_IF_ERROR(device_get(__func__, deviceId, &s, &device));
    REQUEST(mem_info, MEM_INFO, .device = device);

    RETURN_IF_ERROR(session_request(s, __func__, &request, &reply, NULL));
    count_users(s, device, reply->mem_info->total - reply->mem_info->free, users);
    session_reply_free(reply);
    *outputNum = inputNum < USERS ? inputNum : USERS;
    memcpy(memUsageInfo, users, *outputNum * sizeof(users[0]));
    return 0;
}
