/* How busy devices are. A simulated device has one engine for all work: npud counts its time. */
#include "acl/acl.h"
#include "client/core/error.h"
#include "client/runtime/device.h"
#include "client/runtime/session.h"

static int ask_usage(struct session *s, const char *function, uint32_t device, int32_t *percent)
{
    REQUEST(mem_info, MEM_INFO, .device = device, .usage = true);
    Npud__Reply *reply = NULL;

    RETURN_IF_ERROR(session_request(s, function, &request, &reply, NULL));
    *percent = (int32_t)reply->mem_info->busy - 1;
    session_reply_free(reply);
    return 0;
}

aclError aclrtGetDeviceUtilizationRate(int32_t deviceId, aclrtUtilizationInfo *utilizationInfo)
{
    CALL_SCOPE;
    int32_t percent = -1;

    REQUIRE(utilizationInfo);
    if (utilizationInfo->utilizationExtend)
        return error_set(ACL_ERROR_INVALID_PARAM,
                         "aclrtGetDeviceUtilizationRate: utilizationExtend must be NULL");
    struct session *s = FIND_OR_RETURN(session_get, __func__);
    uint32_t device;

    /* A device that there is not is no error here: nothing is known of its units. */
    if (device_from_user_id(s, deviceId, &device))
        RETURN_IF_ERROR(ask_usage(s, __func__, device, &percent));
    *utilizationInfo = (aclrtUtilizationInfo){
        .cubeUtilization = percent,
        .vectorUtilization = percent,
        .aicpuUtilization = -1,
        .memoryUtilization = -1,
    };
    return 0;
}
