#include "client/memory/physical.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <utlist.h>

#include "client/core/error.h"
#include "client/core/handle_error.h"
#include "client/core/handle.h"
#include "client/memory/alloc.h"
#include "client/memory/export.h"
#include "client/runtime/context.h"
#include "client/runtime/device.h"

/* --- references and handles --- */

void physical_ref(struct physical *p)
{
    p->refs++;
}

static bool drop_reference(struct physical *p)
{
    struct session *s = p->session;
    bool last;

    pthread_mutex_lock(&s->lock);
    last = --p->refs == 0;
    pthread_mutex_unlock(&s->lock);
    return last;
}

/* What the process uses of the device by it. An import is used by the process that has made it. */
static uint64_t own_bytes(const struct physical *p)
{
    return p->host || p->imported ? 0 : p->size;
}

/* As a checked process writes it down. identity: of the export, or of what was imported. */
static __attribute__((cold, noinline)) void note_physical(enum check_kind kind,
                                                          const struct physical *p,
                                                          uint64_t identity)
{
    struct check_memory record = {
        .r.kind = (uint8_t)kind,
        .name = {p->remote, p->remote_generation},
        .size = p->size,
        .identity = identity,
        .kind = p->host ? CHECK_MEMORY_PINNED : CHECK_MEMORY_PHYSICAL,
        .device = p->device,
        .imported = p->imported,
    };

    checked_write(&record.r, sizeof(record));
}

int physical_unref(struct physical *p, const char *function)
{
    int error;

    if (!drop_reference(p))
        return 0;
    if (checked_runs())
        note_physical(CHECK_MEMORY_GONE, p, 0);
    memory_uncount_use(p->session, p->device, own_bytes(p));
    error = memory_free_remote(p->session, function, p->remote);
    free(p);
    return error;
}

void physical_forget(struct physical *p)
{
    if (p && --p->refs == 0)
        free(p);
}

static int bad_handle(const char *function, const void *handle)
{
    return handle_error(ACL_ERROR_RT_INVALID_HANDLE, function, HANDLE_PHYSICAL, handle);
}

struct physical *physical_get(const char *function, aclrtDrvMemHandle handle, int *error)
{
    struct session *s = session_peek();
    struct physical *p = NULL;
    struct physical_handle *h;

    *error = process_enter();
    if (*error != 0)
        return NULL;
    if (s) {
        pthread_mutex_lock(&s->lock);
        h = handle_get(&s->physicals, HANDLE_PHYSICAL, handle);
        p = h ? h->physical : NULL;
        if (p)
            physical_ref(p);
        pthread_mutex_unlock(&s->lock);
    }
    if (!p)
        *error = s && session_lost(s) ? session_error_lost(function) : bad_handle(function, handle);
    return p;
}

int physical_name(struct physical *p, const char *function, aclrtDrvMemHandle *handle)
{
    struct session *s = p->session;
    struct physical_handle *h;

    pthread_mutex_lock(&s->lock);
    h = slots_take(&s->physicals);
    if (h) {
        h->physical = p;
        p->handles++;
        slots_publish(h);
        *handle = handle_of(HANDLE_PHYSICAL, h);
    }
    pthread_mutex_unlock(&s->lock);
    if (h)
        return 0;
    physical_unref(p, function);
    return error_set(ACL_ERROR_RT_RESOURCE_ALLOC_FAIL,
                     "%s: a process can have %u handles of physical memory: free one first",
                     function, SESSION_MEMS_MAX);
}

static int end_export(struct session *s, const char *function, uint64_t number)
{
    REQUEST(unexport_memory, UNEXPORT_MEMORY, .key = (char *)"", .number = number);

    return session_command(s, function, &request);
}

/* Caller holds session->lock. The number that goes with the last handle; 0: none does. */
static uint64_t end_handle(struct session *s, struct physical_handle *h)
{
    struct physical *p = h->physical;
    uint64_t number = 0;

    slots_unpublish(h);
    slots_put(&s->physicals, h);
    if (--p->handles == 0) {
        number = p->number;
        p->number = 0;
    }
    return number;
}

aclError aclrtFreePhysical(aclrtDrvMemHandle handle)
{
    CALL_SCOPE;
    struct session *s = session_peek();
    struct physical_handle *h = NULL;
    struct physical *p = NULL;
    uint64_t number = 0;
    int error, error_of_number = 0;

    REQUIRE(handle);
    RETURN_IF_ERROR(process_enter());
    if (s) {
        pthread_mutex_lock(&s->lock);
        h = handle_get(&s->physicals, HANDLE_PHYSICAL, handle);
        if (h) {
            p = h->physical;
            number = end_handle(s, h);
        }
        pthread_mutex_unlock(&s->lock);
    }
    if (!p)
        return bad_handle(__func__, handle);
    if (number != 0)
        error_of_number = end_export(s, __func__, number);
    error = physical_unref(p, __func__);
    return error != 0 ? error : error_of_number;
}

/* --- what there is --- */

/* The kinds of memory that a program may ask for, and where. */
static const struct kind {
    aclrtMemAttr attr;
    bool device, host;
    bool giant; /* pages of 1 GiB */
} kinds[] = {
    {ACL_HBM_MEM_HUGE, .device = true},
    {ACL_HBM_MEM_NORMAL, .device = true},
    {ACL_HBM_MEM_HUGE1G, .device = true, .giant = true},
    {ACL_DDR_MEM_HUGE, .host = true},
    {ACL_DDR_MEM_NORMAL, .host = true},
    {ACL_DDR_MEM_P2P_HUGE, .host = true},
    {ACL_DDR_MEM_P2P_NORMAL, .host = true},
    {ACL_MEM_NORMAL, .device = true, .host = true},
    {ACL_MEM_HUGE, .device = true, .host = true},
    {ACL_MEM_P2P_NORMAL, .device = true, .host = true},
    {ACL_MEM_P2P_HUGE, .device = true, .host = true},
    {ACL_MEM_HUGE1G, .device = true, .giant = true},
    {ACL_MEM_P2P_HUGE1G, .device = true, .giant = true},
};

static const struct kind *find_kind(aclrtMemAttr attr)
{
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
        if (kinds[i].attr == attr)
            return &kinds[i];
    return NULL;
}

static bool is_host(aclrtMemLocationType type)
{
    return type == ACL_MEM_LOCATION_TYPE_HOST || type == ACL_MEM_LOCATION_TYPE_HOST_NUMA;
}

/* Kind and location, as both functions that take them check them. */
static int check_kind(const char *function, const aclrtPhysicalMemProp *prop)
{
    const struct kind *kind = find_kind(prop->memAttr);
    aclrtMemLocationType type = prop->location.type;
    bool host = is_host(type);

    if (!host && type != ACL_MEM_LOCATION_TYPE_DEVICE)
        return error_set(ACL_ERROR_INVALID_PARAM,
                         "%s: location.type is %d: physical memory is of a device or of the host",
                         function, (int)type);
    if (!kind || !(host ? kind->host : kind->device))
        return error_set(ACL_ERROR_INVALID_PARAM, "%s: memAttr %d is no kind of physical memory %s",
                         function, (int)prop->memAttr, host ? "of the host" : "of a device");
    if (type == ACL_MEM_LOCATION_TYPE_HOST_NUMA)
        return error_set(ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
                         "%s: memory of a chosen NUMA node is not offered: use "
                         "ACL_MEM_LOCATION_TYPE_HOST",
                         function);
    if (kind->giant)
        return error_set(ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
                         "%s: the devices have no pages of 1 GiB: use a kind with pages of 2 MiB",
                         function);
    return 0;
}

aclError aclrtMemGetAllocationGranularity(aclrtPhysicalMemProp *prop,
                                          aclrtMemGranularityOptions option, size_t *granularity)
{
    CALL_SCOPE;
    struct session *s;
    uint32_t device;

    REQUIRE(prop);
    REQUIRE(granularity);
    RETURN_IF_ERROR(check_kind(__func__, prop));
    if (!is_host(prop->location.type))
        RETURN_IF_ERROR(device_get(__func__, prop->location.id, &s, &device));
    if (option != ACL_RT_MEM_ALLOC_GRANULARITY_MINIMUM &&
        option != ACL_RT_MEM_ALLOC_GRANULARITY_RECOMMENDED)
        return error_set(ACL_ERROR_RT_PARAM_INVALID, "%s: there is no option %d", __func__,
                         (int)option);
    *granularity = PHYSICAL_GRANULARITY;
    return 0;
}

/* --- allocating --- */

static int check_request(const char *function, size_t size, const aclrtPhysicalMemProp *prop,
                         uint64_t flags)
{
    if (size == 0 || flags != 0)
        return error_set(ACL_ERROR_INVALID_PARAM, "%s: size is 0, or flags is not", function);
    if (prop->handleType != ACL_MEM_HANDLE_TYPE_NONE ||
        prop->allocationType != ACL_MEM_ALLOCATION_TYPE_PINNED)
        return error_set(ACL_ERROR_INVALID_PARAM,
                         "%s: handleType must be NONE and allocationType PINNED", function);
    RETURN_IF_ERROR(check_kind(function, prop));
    if (size % PHYSICAL_GRANULARITY != 0)
        return error_set(ACL_ERROR_RT_PARAM_INVALID,
                         "%s: size is %zu, must be a multiple of %llu "
                         "(aclrtMemGetAllocationGranularity)",
                         function, size, (unsigned long long)PHYSICAL_GRANULARITY);
    return 0;
}

/* The device on whose account it is, open: for memory of the host any that the program sees. */
static int open_device(const char *function, const aclrtPhysicalMemProp *prop, struct session **sp,
                       uint32_t *device)
{
    int64_t id = is_host(prop->location.type) ? 0 : (int64_t)prop->location.id;
    int error;

    RETURN_IF_ERROR(device_get(function, id, sp, device));
    pthread_mutex_lock(&(*sp)->lock);
    error = session_open_device(*sp, function, *device);
    pthread_mutex_unlock(&(*sp)->lock);
    return error;
}

/* p gets its memory. */
static int allocate_remote(struct physical *p, const char *function, uint64_t size)
{
    REQUEST(malloc, MALLOC, .device = p->device, .size = size,
            .kind = p->host ? NPUD__MALLOC__KIND__HOST : NPUD__MALLOC__KIND__DEVICE);
    Npud__Reply *reply = NULL;
    int fd = -1;

    RETURN_IF_ERROR(session_request(p->session, function, &request, &reply, &fd));
    if (fd >= 0)
        close(fd); /* it is fetched when it is mapped: a descriptor for each would be too many */
    p->remote = reply->malloc->slot;
    p->remote_generation = reply->malloc->generation;
    session_reply_free(reply);
    p->size = size;
    if (checked_runs())
        note_physical(CHECK_MEMORY, p, 0);
    memory_count_use(p->session, p->device, own_bytes(p));
    return 0;
}

aclError aclrtMallocPhysical(aclrtDrvMemHandle *handle, size_t size,
                             const aclrtPhysicalMemProp *prop, uint64_t flags)
{
    CALL_SCOPE;
    struct physical *p;
    struct session *s;
    uint32_t device;
    int error;

    REQUIRE(handle);
    REQUIRE(prop);
    RETURN_IF_ERROR(check_request(__func__, size, prop, flags));
    RETURN_IF_ERROR(open_device(__func__, prop, &s, &device));
    p = calloc(1, sizeof(*p));
    if (!p)
        return error_no_memory(__func__);
    *p = (struct physical){.session = s,
                           .refs = 1,
                           .device = device,
                           .host = is_host(prop->location.type),
                           .attr = prop->memAttr,
                           .location = prop->location};
    if (p->host)
        p->location.id = 0;
    error = allocate_remote(p, __func__, size);
    if (error != 0) {
        free(p);
        return error;
    }
    /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): the handle owns p */
    return physical_name(p, __func__, handle);
}

aclError aclrtMemGetAllocationPropertiesFromHandle(aclrtDrvMemHandle handle,
                                                   aclrtPhysicalMemProp *prop)
{
    CALL_SCOPE;
    struct physical *p;

    REQUIRE(handle);
    REQUIRE(prop);
    p = FIND_OR_RETURN(physical_get, __func__, handle);
    *prop = (aclrtPhysicalMemProp){.handleType = ACL_MEM_HANDLE_TYPE_NONE,
                                   .allocationType = ACL_MEM_ALLOCATION_TYPE_PINNED,
                                   .memAttr = p->attr,
                                   .location = p->location};
    return physical_unref(p, __func__);
}

/* --- sharing --- */

/* It goes with the last handle, which another thread may have freed meanwhile. */
static int keep_number(struct physical *p, const char *function, const void *handle,
                       uint64_t number)
{
    struct session *s = p->session;
    bool kept;

    pthread_mutex_lock(&s->lock);
    kept = p->handles > 0;
    if (kept)
        p->number = number;
    pthread_mutex_unlock(&s->lock);
    if (kept)
        return 0;
    end_export(s, function, number);
    return bad_handle(function, handle);
}

static int export_physical(const char *function, aclrtDrvMemHandle handle, uint64_t flags,
                           uint64_t *number)
{
    struct physical *p = FIND_OR_RETURN(physical_get, function, handle);
    struct export_name name;
    int error;

    error = export_memory(p->session, function, p->remote, p->size,
                          flags == ACL_RT_VMM_EXPORT_FLAG_DISABLE_PID_VALIDATION, true, &name);
    if (error == 0 && checked_runs())
        note_physical(CHECK_EXPORT, p, name.number);
    if (error == 0)
        error = keep_number(p, function, handle, name.number);
    if (error == 0)
        *number = name.number;
    physical_unref(p, function);
    return error;
}

static int check_flags(const char *function, uint64_t flags)
{
    if (flags <= ACL_RT_VMM_EXPORT_FLAG_DISABLE_PID_VALIDATION)
        return 0;
    return error_set(ACL_ERROR_RT_PARAM_INVALID, "%s: flags are 0x%llx, must be 0 or 1", function,
                     (unsigned long long)flags);
}

/*
 * Within the host a fabric handle is as good as a number, which it begins with; zeros follow. There
 * is no fabric to other hosts.
 */
static int check_share_type(const char *function, aclrtMemSharedHandleType type)
{
    if (type == ACL_MEM_SHARE_HANDLE_TYPE_DEFAULT || type == ACL_MEM_SHARE_HANDLE_TYPE_FABRIC)
        return 0;
    return error_set(ACL_ERROR_RT_PARAM_INVALID, "%s: there is no shareType %d", function,
                     (int)type);
}

static void write_shareable(void *shareable, aclrtMemSharedHandleType type, uint64_t number)
{
    if (type == ACL_MEM_SHARE_HANDLE_TYPE_FABRIC)
        memset(shareable, 0, sizeof(aclrtMemFabricHandle));
    memcpy(shareable, &number, sizeof(number));
}

static int read_shareable(const char *function, const void *shareable,
                          aclrtMemSharedHandleType type, uint64_t *number)
{
    aclrtMemFabricHandle wanted, handle;

    memcpy(number, shareable, sizeof(*number));
    if (type == ACL_MEM_SHARE_HANDLE_TYPE_DEFAULT)
        return 0;
    memcpy(&handle, shareable, sizeof(handle));
    write_shareable(&wanted, type, *number);
    if (memcmp(&handle, &wanted, sizeof(wanted)) == 0)
        return 0;
    return error_set(ACL_ERROR_RT_PARAM_INVALID, "%s: this is no fabric handle of this host",
                     function);
}

aclError aclrtMemExportToShareableHandle(aclrtDrvMemHandle handle, aclrtMemHandleType handleType,
                                         uint64_t flags, uint64_t *shareableHandle)
{
    CALL_SCOPE;

    REQUIRE(handle);
    REQUIRE(shareableHandle);
    if (handleType != ACL_MEM_HANDLE_TYPE_NONE)
        return error_set(ACL_ERROR_INVALID_PARAM, "%s: handleType must be NONE", __func__);
    RETURN_IF_ERROR(check_flags(__func__, flags));
    return export_physical(__func__, handle, flags, shareableHandle);
}

aclError aclrtMemExportToShareableHandleV2(aclrtDrvMemHandle handle, uint64_t flags,
                                           aclrtMemSharedHandleType shareType,
                                           void *shareableHandle)
{
    CALL_SCOPE;
    uint64_t number;

    REQUIRE(handle);
    REQUIRE(shareableHandle);
    RETURN_IF_ERROR(check_flags(__func__, flags));
    RETURN_IF_ERROR(check_share_type(__func__, shareType));
    RETURN_IF_ERROR(export_physical(__func__, handle, flags, &number));
    write_shareable(shareableHandle, shareType, number);
    return 0;
}

static int allow_number(const char *function, uint64_t number, const int32_t *pid, size_t n)
{
    struct export_name name = {.number = number};
    struct session *s = FIND_OR_RETURN(session_get, function);

    return export_allow(s, function, &name, pid, n);
}

static int check_pids(const char *function, const int32_t *pid, size_t n)
{
    if (pid && n > 0)
        return 0;
    return error_set(ACL_ERROR_INVALID_PARAM, "%s: pid is NULL, or pidNum 0", function);
}

aclError aclrtMemSetPidToShareableHandle(uint64_t shareableHandle, int32_t *pid, size_t pidNum)
{
    CALL_SCOPE;

    RETURN_IF_ERROR(check_pids(__func__, pid, pidNum));
    return allow_number(__func__, shareableHandle, pid, pidNum);
}

aclError aclrtMemSetPidToShareableHandleV2(void *shareableHandle,
                                           aclrtMemSharedHandleType shareType, int32_t *pid,
                                           size_t pidNum)
{
    CALL_SCOPE;
    uint64_t number;

    REQUIRE(shareableHandle);
    RETURN_IF_ERROR(check_pids(__func__, pid, pidNum));
    RETURN_IF_ERROR(check_share_type(__func__, shareType));
    RETURN_IF_ERROR(read_shareable(__func__, shareableHandle, shareType, &number));
    return allow_number(__func__, number, pid, pidNum);
}

/* User id of a device that the program may not see. */
static uint32_t location_id(struct session *s, const struct imported *in)
{
    return in->host ? 0 : (uint32_t)device_user_id(s, in->device);
}

static int import_number(struct session *s, const char *function, uint64_t number,
                         aclrtDrvMemHandle *handle)
{
    struct export_name name = {.number = number};
    struct physical *p = calloc(1, sizeof(*p));
    struct imported in;
    int error;

    if (!p)
        return error_no_memory(function);
    error = export_import(s, function, &name, &in);
    if (error != 0) {
        free(p);
        return error;
    }
    if (in.fd >= 0)
        close(in.fd); /* as in allocate_remote() */
    *p = (struct physical){
        .session = s,
        .refs = 1,
        .device = in.device,
        .host = in.host,
        .imported = true,
        .remote = in.remote,
        .remote_generation = in.remote_generation,
        .size = in.exported,
        .attr = in.host ? ACL_MEM_HUGE : ACL_HBM_MEM_HUGE,
        .location = {.id = location_id(s, &in),
                     .type = in.host ? ACL_MEM_LOCATION_TYPE_HOST : ACL_MEM_LOCATION_TYPE_DEVICE}};
    if (checked_runs())
        note_physical(CHECK_MEMORY, p, number);
    /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): the handle owns p */
    return physical_name(p, function, handle);
}

aclError aclrtMemImportFromShareableHandle(uint64_t shareableHandle, int32_t deviceId,
                                           aclrtDrvMemHandle *handle)
{
    CALL_SCOPE;
    struct session *s;
    struct context *c;
    uint32_t device;

    REQUIRE(handle);
    RETURN_IF_ERROR(device_get(__func__, deviceId, &s, &device));
    c = FIND_OR_RETURN(context_get, __func__);
    if (c->device != device)
        return error_set(ACL_ERROR_RT_CONTEXT_NULL,
                         "%s: the current context is not one of device %d: call aclrtSetDevice(%d)",
                         __func__, deviceId, deviceId);
    return import_number(c->session, __func__, shareableHandle, handle);
}

aclError aclrtMemImportFromShareableHandleV2(void *shareableHandle,
                                             aclrtMemSharedHandleType shareType, uint64_t flags,
                                             aclrtDrvMemHandle *handle)
{
    CALL_SCOPE;
    struct context *c;
    uint64_t number;

    REQUIRE(shareableHandle);
    REQUIRE(handle);
    if (flags != 0)
        return error_set(ACL_ERROR_INVALID_PARAM, "%s: flags must be 0", __func__);
    RETURN_IF_ERROR(check_share_type(__func__, shareType));
    c = FIND_OR_RETURN(context_get, __func__);
    RETURN_IF_ERROR(read_shareable(__func__, shareableHandle, shareType, &number));
    return import_number(c->session, __func__, number, handle);
}

/* --- life --- */

static void init_handles(struct session *s, uint32_t seed)
{
    slots_init(&s->physicals, sizeof(struct physical_handle), SESSION_MEMS_MAX, seed);
}

/* Mappings have gone with the rest of the memory. */
static void free_handles(struct session *s)
{
    struct physical_handle *h;

    slots_foreach (&s->physicals, i, h)
        physical_forget(h->physical);
    slots_deinit(&s->physicals);
}

const struct part physical_part = {.session_init = init_handles, .session_free = free_handles};
