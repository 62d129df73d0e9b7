#include "client/runtime/device.h"

#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "acl/acl.h"
#include "client/runtime/context.h"
#include "client/core/error.h"
#include "client/runtime/session.h"

uint32_t device_visible_count(struct session *s)
{
    return s->visible.set ? s->visible.n : s->n_devices;
}

static int32_t device_or_code(struct session *s, const char *function, int64_t user_id, int code,
                              int *error)
{
    uint32_t n = device_visible_count(s);

    if (user_id >= 0 && user_id < n)
        return s->visible.set ? (int32_t)s->visible.device[user_id] : (int32_t)user_id;
    *error = error_set(
        code,
        "%s: there is no device %lld: devices are numbered from 0, and this process sees "
        "%u of them%s",
        function, (long long)user_id, n, s->visible.set ? " (ASCEND_RT_VISIBLE_DEVICES)" : "");
    return -1;
}

int32_t device_of_user_id(struct session *s, const char *function, int64_t user_id, int *error)
{
    return device_or_code(s, function, user_id, ACL_ERROR_RT_INVALID_DEVICEID, error);
}

int32_t device_get(const char *function, int64_t user_id, struct session **session, int *error)
{
    *session = session_get(function, error);
    return *session ? device_of_user_id(*session, function, user_id, error) : -1;
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

bool device_is_lost(const struct session *s, uint32_t device)
{
    return atomic_load_explicit(&s->page->doorbell[device].mode, memory_order_relaxed) >
           DOORBELL_STRICT;
}

int device_check_lost(struct session *s, const char *function, uint32_t device)
{
    uint32_t mode = atomic_load_explicit(&s->page->doorbell[device].mode, memory_order_relaxed);

    if (mode <= DOORBELL_STRICT)
        return 0;
    return error_set((int)mode, "%s: device %u is lost", function, device);
}

/* --- queries --- */

aclError aclrtGetDeviceCount(uint32_t *count)
{
    CALL_SCOPE;
    int error;
    struct session *s;
    uint32_t n;

    REQUIRE(count);
    s = session_get(__func__, &error);
    if (!s)
        return error;
    n = device_visible_count(s);
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

const char *aclrtGetSocName(void)
{
    CALL_SCOPE;
    int error;
    struct session *s = session_get(__func__, &error);

    return s && s->n_devices > 0 ? s->device_info[0].soc_name : NULL;
}

aclError aclrtQueryDeviceStatus(int32_t deviceId, aclrtDeviceStatus *deviceStatus)
{
    CALL_SCOPE;
    int32_t device;
    int error;
    struct session *s;

    REQUIRE(deviceStatus);
    device = device_get(__func__, deviceId, &s, &error);
    if (device < 0)
        return error;
    /* npud tells the processes that have the device open, in its doorbell. */
    pthread_mutex_lock(&s->lock);
    error = session_open_device(s, __func__, (uint32_t)device);
    pthread_mutex_unlock(&s->lock);
    if (error == 0)
        *deviceStatus = device_is_lost(s, (uint32_t)device) ? ACL_RT_DEVICE_STATUS_ABNORMAL
                                                            : ACL_RT_DEVICE_STATUS_NORMAL;
    return error;
}

aclError aclrtDeviceGetBareTgid(int32_t *pid)
{
    CALL_SCOPE;
    struct session *s = session_peek();
    struct error_kept ignored;
    int error;

    REQUIRE(pid);
    /* Without npud there is no other number, and no process that could ask for it. */
    error_keep(&ignored);
    if (!s)
        s = session_get(__func__, &error);
    error_keep_end(&ignored);
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

    REQUEST(mem_info, MEM_INFO);
    Npud__Reply *reply = NULL;
    struct context *c;
    int error;

    REQUIRE(free);
    REQUIRE(total);
    if ((unsigned)attr > ACL_MEM_P2P_HUGE1G)
        return error_set(ACL_ERROR_RT_INVALID_MEMORY_TYPE, "aclrtGetMemInfo: attr %d is unknown",
                         attr);
    c = context_get(__func__, &error);
    if (!c)
        return error;
    in.device = c->device;
    error = session_request(c->session, __func__, &request, &reply, NULL);
    if (error != 0)
        return error;
    *free = reply->mem_info->free;
    *total = reply->mem_info->total;
    session_reply_free(reply);
    return 0;
}

aclError aclrtDeviceGetUuid(int32_t deviceId, aclrtUuid *uuid)
{
    CALL_SCOPE;
    int error;
    struct session *s;
    int32_t device;

    REQUIRE(uuid);
    device = device_get(__func__, deviceId, &s, &error);
    if (device < 0)
        return error;
    memcpy(uuid->bytes, s->device_info[device].uuid, sizeof(uuid->bytes));
    return 0;
}

/* --- peer access: state of this process, one direction per call --- */

aclError aclrtDeviceCanAccessPeer(int32_t *canAccessPeer, int32_t deviceId, int32_t peerDeviceId)
{
    CALL_SCOPE;
    int error;
    struct session *s;

    if (!canAccessPeer)
        return error_set(ACL_ERROR_RT_PARAM_INVALID,
                         "aclrtDeviceCanAccessPeer: canAccessPeer is NULL");
    s = session_get(__func__, &error);
    if (!s)
        return error;
    if (deviceId == peerDeviceId)
        return error_set(ACL_ERROR_INVALID_PARAM, "aclrtDeviceCanAccessPeer: both ids are %d",
                         deviceId);
    if (device_of_user_id(s, __func__, deviceId, &error) < 0 ||
        device_of_user_id(s, __func__, peerDeviceId, &error) < 0)
        return error;
    *canAccessPeer = 1;
    return 0;
}

static int set_peer(const char *function, int32_t peer_id, bool enable)
{
    int error;
    struct context *c = context_get(function, &error);
    int32_t peer;

    if (!c)
        return error;
    peer = device_of_user_id(c->session, function, peer_id, &error);
    if (peer < 0)
        return error;
    if ((uint32_t)peer == c->device)
        return error_set(ACL_ERROR_INVALID_PARAM, "%s: device %d is the current one", function,
                         peer_id);
    pthread_mutex_lock(&c->session->lock);
    if (enable)
        c->session->devices[c->device].peers |= 1u << peer;
    else
        c->session->devices[c->device].peers &= ~(1u << peer);
    pthread_mutex_unlock(&c->session->lock);
    return 0;
}

aclError aclrtDeviceEnablePeerAccess(int32_t peerDeviceId, uint32_t flags)
{
    CALL_SCOPE;

    if (flags != 0)
        return error_set(ACL_ERROR_FEATURE_UNSUPPORTED,
                         "aclrtDeviceEnablePeerAccess: flags must be 0");
    return set_peer(__func__, peerDeviceId, true);
}

aclError aclrtDeviceDisablePeerAccess(int32_t peerDeviceId)
{
    CALL_SCOPE;

    return set_peer(__func__, peerDeviceId, false);
}

aclError aclrtDevicePeerAccessStatus(int32_t deviceId, int32_t peerDeviceId, int32_t *status)
{
    CALL_SCOPE;
    int error;
    struct session *s;
    int32_t device, peer;

    REQUIRE(status);
    s = session_get(__func__, &error);
    if (!s)
        return error;
    /* No such device is another code here than elsewhere. */
    device = device_or_code(s, __func__, deviceId, ACL_ERROR_RT_PARAM_INVALID, &error);
    peer = device < 0
               ? -1
               : device_or_code(s, __func__, peerDeviceId, ACL_ERROR_RT_PARAM_INVALID, &error);
    if (peer < 0)
        return error;
    *status = s->devices[device].peers >> peer & 1;
    return 0;
}
