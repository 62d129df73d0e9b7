/* The table of the vendor's library: libascendcl.so, or what has its interface. */
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "daemon/executor/acl_api.h"
#include "daemon/executor/acl_lane.h"
#include "daemon/executor/acl_memory.h"
#include "daemon/executor/acl_probe.h"
#include "daemon/executor/acl_report.h"
#include "daemon/executor/vendor.h"

static int32_t no_such_device(uint32_t device)
{
    vendor_set_text("no device %u", device);
    return ACL_ERROR_RT_INVALID_DEVICEID;
}

static int32_t acl_device_count(struct vendor_library *l, uint32_t *n)
{
    const int32_t code = ACL_CALL(l, aclrtGetDeviceCount, n);

    if (code == 0 && *n > EXECUTOR_DEVICES)
        *n = EXECUTOR_DEVICES;
    return code;
}

/* Each call counts for the library, and is to be undone. The caller has the lock. */
static int32_t set_device(struct vendor_library *l, uint32_t device)
{
    const int32_t code = ACL_CALL(l, aclrtSetDevice, (int32_t)device);

    if (code == 0)
        l->device[device].sets++;
    return code;
}

/* Devices of one executor reach each other, where they can: no harm if not. */
static void enable_peers(struct vendor_library *l, uint32_t device)
{
    for (uint32_t other = 0; other < EXECUTOR_DEVICES && ACL_HAS(l, aclrtDeviceEnablePeerAccess);
         other++) {
        if (other == device || !l->device[other].begun)
            continue;
        l->call.aclrtDeviceEnablePeerAccess((int32_t)other, 0);
        if (set_device(l, other) == 0)
            l->call.aclrtDeviceEnablePeerAccess((int32_t)device, 0);
        set_device(l, device);
    }
}

static int32_t acl_device_begin(struct vendor_library *l, uint32_t device)
{
    int32_t code;

    if (device >= EXECUTOR_DEVICES)
        return no_such_device(device);
    pthread_mutex_lock(&l->lock);
    code = set_device(l, device);
    if (code == 0 && !l->device[device].begun) {
        enable_peers(l, device);
        l->device[device].begun = true;
        atomic_store(&l->device[device].gone, 0);
    }
    pthread_mutex_unlock(&l->lock);
    return code;
}

static int32_t acl_device_end(struct vendor_library *l, uint32_t device)
{
    struct acl_device *d;
    int32_t code = 0;

    if (device >= EXECUTOR_DEVICES)
        return no_such_device(device);
    d = &l->device[device];
    acl_report_end(l, device);
    pthread_mutex_lock(&l->lock);
    if (ACL_HAS(l, aclrtResetDeviceForce))
        code = ACL_CALL(l, aclrtResetDeviceForce, (int32_t)device);
    else
        for (; d->sets > 0 && code == 0; d->sets--)
            code = ACL_CALL(l, aclrtResetDevice, (int32_t)device);
    d->sets = 0;
    d->begun = false;
    d->way = ACL_WAY_UNKNOWN;
    pthread_mutex_unlock(&l->lock);
    return code;
}

static int32_t acl_thread_begin(struct vendor_library *l, uint32_t device)
{
    int32_t current, code;

    if (device >= EXECUTOR_DEVICES)
        return no_such_device(device);
    if (l->call.aclrtGetDevice(&current) == ACL_SUCCESS && current == (int32_t)device)
        return 0;
    pthread_mutex_lock(&l->lock);
    code = set_device(l, device);
    pthread_mutex_unlock(&l->lock);
    return code;
}

static int32_t acl_gone(struct vendor_library *l, uint32_t device)
{
    return device < EXECUTOR_DEVICES ? atomic_load(&l->device[device].gone) : 0;
}

/* --- what a device is --- */

/* text has the 128 bytes that the library takes for granted. */
static bool package_version(struct vendor_library *l, const char *package, char text[128])
{
    char name[16];

    snprintf(name, sizeof(name), "%s", package);
    return ACL_HAS(l, aclsysGetVersionStr) &&
           l->call.aclsysGetVersionStr(name, text) == ACL_SUCCESS && *text;
}

static void say_version(struct vendor_library *l, char *text, size_t size)
{
    char runtime[128] = "", driver[128] = "";
    int32_t major = 0, minor = 0, patch = 0;

    if (package_version(l, "runtime", runtime)) {
        const bool known = package_version(l, "driver", driver);

        snprintf(text, size, "runtime %.20s, driver %.20s", runtime, known ? driver : "not known");
        return;
    }
    if (ACL_HAS(l, aclrtGetVersion) &&
        l->call.aclrtGetVersion(&major, &minor, &patch) == ACL_SUCCESS)
        snprintf(text, size, "interface %d.%d.%d", (int)major, (int)minor, (int)patch);
}

static void say_memory(struct vendor_library *l, struct executor_device_info *info)
{
    size_t free_bytes = 0, all = 0;

    if (ACL_CALL(l, aclrtGetMemInfo, ACL_HBM_MEM, &free_bytes, &all) == 0) {
        info->memory = all;
        info->free = free_bytes;
    }
}

static int32_t acl_device_info(struct vendor_library *l, uint32_t device,
                               struct executor_device_info *info)
{
    const char *name = ACL_HAS(l, aclrtGetSocName) ? l->call.aclrtGetSocName() : NULL;
    aclrtUuid uuid;
    int32_t code;

    *info = (struct executor_device_info){0};
    code = acl_thread_begin(l, device);
    if (code != 0)
        return code;
    snprintf(info->name, sizeof(info->name), "%s", name ? name : "not known");
    say_version(l, info->version, sizeof(info->version));
    if (ACL_CALL(l, aclrtDeviceGetPCIBusId, (int32_t)device, info->bus, sizeof(info->bus)) != 0)
        info->bus[0] = '\0';
    if (ACL_CALL(l, aclrtDeviceGetUuid, (int32_t)device, &uuid) == 0)
        memcpy(info->uuid, uuid.bytes, sizeof(info->uuid));
    say_memory(l, info);
    info->granularity = acl_memory_granularity(l, device);
    info->capabilities = acl_probe(l, device);
    return 0;
}

static uint32_t memory_errors(struct vendor_library *l, uint32_t device)
{
    aclrtErrorInfo info = {0};

    if (ACL_CALL(l, aclrtGetErrorVerbose, (int32_t)device, &info) != 0 ||
        info.errorType != ACL_RT_ERROR_MEMORY || !info.hasDetail)
        return 0;
    return (uint32_t)info.detail.uceInfo.arraySize;
}

/* The library says nothing about heat and power. */
static int32_t acl_health(struct vendor_library *l, uint32_t device, struct executor_health *health)
{
    aclrtUtilizationInfo use = {.cubeUtilization = -1, .vectorUtilization = -1};
    int32_t code = ACL_CALL(l, aclrtGetDeviceUtilizationRate, (int32_t)device, &use);

    if (code != 0)
        return code;
    *health = (struct executor_health){
        .temperature = INT32_MIN,
        .power = INT32_MIN,
        .busy = use.cubeUtilization > use.vectorUtilization ? use.cubeUtilization
                                                            : use.vectorUtilization,
        .errors = memory_errors(l, device),
    };
    if (health->busy < 0)
        health->busy = INT32_MIN;
    return 0;
}

const struct vendor vendor_acl = {
    .name = "acl",
    .open = acl_open,
    .close = acl_close,
    .symbols = acl_symbols,
    .device_count = acl_device_count,
    .device_info = acl_device_info,
    .device_begin = acl_device_begin,
    .device_end = acl_device_end,
    .thread_begin = acl_thread_begin,
    .gone = acl_gone,
    .health = acl_health,
    .memory_new = acl_memory_new,
    .memory_free = acl_memory_free,
    .memory_export = acl_memory_export,
    .memory_allow = acl_memory_allow,
    .memory_import = acl_memory_import,
    .host_attach = acl_host_attach,
    .host_detach = acl_host_detach,
    .host_address = acl_host_address,
    .lane_new = acl_lane_new,
    .lane_free = acl_lane_free,
    .lane_stop = acl_lane_stop,
    .copy = acl_copy,
    .set = acl_set,
    .reduce = acl_reduce,
    .word_write = acl_word_write,
    .word_wait = acl_word_wait,
    .binary_load = acl_binary_load,
    .binary_free = acl_binary_free,
    .function = acl_function,
    .launch = acl_launch,
    .lane_sync = acl_lane_sync,
    .lane_abort = acl_lane_abort,
    .lane_call = acl_lane_call,
};
