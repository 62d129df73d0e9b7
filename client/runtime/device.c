#include "client/runtime/device.h"

#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "acl/acl.h"
#include "client/runtime/context.h"
#include "client/core/error.h"
#include "client/runtime/session.h"

/* 0: the variable selects none. */
static uint32_t visible_count(const struct session *s)
{
    return s->visible.set ? s->visible.n : s->n_devices;
}

bool device_from_user_id(const struct session *s, int64_t user_id, uint32_t *device)
{
    if (user_id < 0 || user_id >= visible_count(s))
        return false;
    *device = s->visible.set ? s->visible.device[user_id] : (uint32_t)user_id;
    return true;
}

int device_or_code(struct session *s, const char *function, int64_t user_id, int code,
                   uint32_t *device)
{
    if (device_from_user_id(s, user_id, device))
        return 0;
    return error_set(
        code,
        "%s: there is no device %lld: devices are numbered from 0, and this process sees "
        "%u of them%s",
        function, (long long)user_id, visible_count(s),
        s->visible.set ? " (ASCEND_RT_VISIBLE_DEVICES)" : "");
}

int device_of_user_id(struct session *s, const char *function, int64_t user_id, uint32_t *device)
{
    return device_or_code(s, function, user_id, ACL_ERROR_RT_INVALID_DEVICEID, device);
}

int device_get(const char *function, int64_t user_id, struct session **session, uint32_t *device)
{
    *session = FIND_OR_RETURN(session_get, function);
    return device_of_user_id(*session, function, user_id, device);
}

int32_t device_user_id(struct session *s, uint32_t device)
{
    if (!s->visible.set)
        return (int32_t)device;
    for (uint32_t i = 0; i < s->visible.n; i++)
        if (s->visible.device[i] == device)
            return (int32_t)i;
    return -1;
}

/* --- lost --- */

uint32_t device_loss(const struct session *s, uint32_t device)
{
    uint32_t mode = atomic_load_explicit(&s->page->doorbell[device].mode, memory_order_relaxed);

    return mode > DOORBELL_STRICT ? mode : 0;
}

int device_check_lost(struct session *s, const char *function, uint32_t device)
{
    uint32_t code = device_loss(s, device);

    if (code == 0)
        return 0;
    return error_set((int)code, "%s: device %u is lost", function, device);
}

/* --- open --- */

bool device_is_open(const struct session *s, uint32_t device)
{
    return session_has_device(s, device);
}

int device_check_open(struct session *s, const char *function, int32_t user_id, uint32_t device)
{
    bool open;

    pthread_mutex_lock(&s->lock);
    open = device_is_open(s, device);
    pthread_mutex_unlock(&s->lock);
    return open ? 0 : device_error_closed(function, user_id);
}

int device_error_closed(const char *function, int32_t user_id)
{
    return error_set(ACL_ERROR_RT_DEV_SETUP_ERROR, "%s: device %d is not open: call aclrtSetDevice",
                     function, user_id);
}

/* --- queries --- */

aclError aclrtGetDeviceCount(uint32_t *count)
{
    CALL_SCOPE;
    REQUIRE(count);
    uint32_t n;
    struct session *s = FIND_OR_RETURN(session_get, __func__);

    n = visible_count(s);
    if (n == 0)
        return error_set(ACL_ERROR_RT_NO_DEVICE,
                         "aclrtGetDeviceCount: ASCEND_RT_VISIBLE_DEVICES selects no device "
                         "(ascending numbers below %u)",
                         s->n_devices);
    *count = n;
    return 0;
}

aclError aclrtGetRunMode(aclrtRunMode *runMode)
{
    CALL_SCOPE;

    REQUIRE(runMode);
    *runMode = ACL_HOST;
    return 0;
}

aclError aclrtQueryDeviceStatus(int32_t deviceId, aclrtDeviceStatus *deviceStatus)
{
    CALL_SCOPE;
    struct session *s;
    uint32_t device;
    int error;

    REQUIRE(deviceStatus);
    RETURN_IF_ERROR(device_get(__func__, deviceId, &s, &device));
    /* npud tells the processes that have the device open, in its doorbell. */
    pthread_mutex_lock(&s->lock);
    error = session_open_device(s, __func__, device);
    pthread_mutex_unlock(&s->lock);
    if (error == 0)
        *deviceStatus = device_loss(s, device) != 0 ? ACL_RT_DEVICE_STATUS_ABNORMAL
                                                    : ACL_RT_DEVICE_STATUS_NORMAL;
    return error;
}

aclError aclrtDeviceGetBareTgid(int32_t *pid)
{
    CALL_SCOPE;
    struct session *s = session_peek();
    struct error_saved ignored;
    int error;

    REQUIRE(pid);
    /* Without npud there is no other number, and no process that could ask for it. */
    error_save(&ignored);
    if (!s)
        s = session_get(__func__, &error);
    error_save_end(&ignored);
    *pid = s ? s->pid : getpid();
    return 0;
}

aclError aclrtDeviceGetStreamPriorityRange(int32_t *leastPriority, int32_t *greatestPriority)
{
    CALL_SCOPE;

    if (leastPriority)
        *leastPriority = 7;
    if (greatestPriority)
        *greatestPriority = 0;
    return 0;
}

aclError aclrtGetMemInfo(aclrtMemAttr attr, size_t *free, size_t *total)
{
    CALL_SCOPE;
    Npud__Reply *reply = NULL;

    REQUIRE(free);
    REQUIRE(total);
    if ((unsigned)attr > ACL_MEM_P2P_HUGE1G)
        return error_set(ACL_ERROR_RT_INVALID_MEMORY_TYPE, "aclrtGetMemInfo: attr %d is unknown",
                         attr);
    struct context *c = FIND_OR_RETURN(context_get, __func__);
    if (attr == ACL_HBM_MEM_HUGE1G || attr == ACL_HBM_MEM_P2P_HUGE1G || attr == ACL_MEM_HUGE1G ||
        attr == ACL_MEM_P2P_HUGE1G)
        return error_set(ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
                         "%s: attr %d: the device has no pages of 1 GiB: ask for ACL_HBM_MEM",
                         __func__, (int)attr);
    REQUEST(mem_info, MEM_INFO, .device = c->device);

    RETURN_IF_ERROR(session_request(c->session, __func__, &request, &reply, NULL));
    *free = reply->mem_info->free;
    *total = reply->mem_info->total;
    session_reply_free(reply);
    return 0;
}

aclError aclrtDeviceGetUuid(int32_t deviceId, aclrtUuid *uuid)
{
    CALL_SCOPE;
    struct session *s;
    uint32_t device;

    REQUIRE(uuid);
    RETURN_IF_ERROR(device_get(__func__, deviceId, &s, &device));
    memcpy(uuid->bytes, s->device_info[device].uuid, sizeof(uuid->bytes));
    return 0;
}

/* --- peer access: state of this process, one direction per call --- */

aclError aclrtDeviceCanAccessPeer(int32_t *canAccessPeer, int32_t deviceId, int32_t peerDeviceId)
{
    CALL_SCOPE;
    REQUIRE_OR(ACL_ERROR_RT_PARAM_INVALID, canAccessPeer);
    uint32_t device;
    struct session *s = FIND_OR_RETURN(session_get, __func__);

    if (deviceId == peerDeviceId)
        return error_set(ACL_ERROR_INVALID_PARAM, "aclrtDeviceCanAccessPeer: both ids are %d",
                         deviceId);
    RETURN_IF_ERROR(device_of_user_id(s, __func__, deviceId, &device));
    RETURN_IF_ERROR(device_of_user_id(s, __func__, peerDeviceId, &device));
    *canAccessPeer = 1;
    return 0;
}

static int set_peer_device(const char *function, int32_t peer_id, bool enable)
{
    struct context *c = FIND_OR_RETURN(context_get, function);
    uint32_t peer;

    RETURN_IF_ERROR(device_of_user_id(c->session, function, peer_id, &peer));
    if (peer == c->device)
        return error_set(
            ACL_ERROR_INVALID_PARAM,
            "%s: device %d is the current one, which reaches its own memory anyway: pass "
            "another one",
            function, peer_id);
    pthread_mutex_lock(&c->session->lock);
    if (enable)
        c->session->devices[c->device].peer_devices |= 1u << peer;
    else
        c->session->devices[c->device].peer_devices &= ~(1u << peer);
    pthread_mutex_unlock(&c->session->lock);
    return 0;
}

aclError aclrtDeviceEnablePeerAccess(int32_t peerDeviceId, uint32_t flags)
{
    CALL_SCOPE;

    if (flags != 0)
        return error_set(ACL_ERROR_FEATURE_UNSUPPORTED,
                         "aclrtDeviceEnablePeerAccess: flags must be 0");
    return set_peer_device(__func__, peerDeviceId, true);
}

aclError aclrtDeviceDisablePeerAccess(int32_t peerDeviceId)
{
    CALL_SCOPE;

    return set_peer_device(__func__, peerDeviceId, false);
}

aclError aclrtDevicePeerAccessStatus(int32_t deviceId, int32_t peerDeviceId, int32_t *status)
{
    CALL_SCOPE;
    REQUIRE(status);
    uint32_t device, peer;
    struct session *s = FIND_OR_RETURN(session_get, __func__);

    /* No such device is another code here than elsewhere. */
    RETURN_IF_ERROR(device_or_code(s, __func__, deviceId, ACL_ERROR_RT_PARAM_INVALID, &device));
    RETURN_IF_ERROR(device_or_code(s, __func__, peerDeviceId, ACL_ERROR_RT_PARAM_INVALID, &peer));
    *status = s->devices[device].peer_devices >> peer & 1;
    return 0;
}
