/*
 * CUDA as an executor uses it: the driver API of libcuda.so.1, by device addresses and streams, in
 * the primary contexts.
 *
 * An optional function that the driver lacks is an absent capability: what needs it answers 207000.
 */
#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "acl/error_codes/rt_error_codes.h"
#include "daemon/executor/cuda_context.h"
#include "daemon/executor/cuda_image.h"
#include "daemon/executor/cuda_memory.h"
#include "daemon/executor/cuda_probe.h"
#include "daemon/executor/nvml.h"
#include "proto/util/clock.h"

#define DEFAULT_PATH "libcuda.so.1"

/* Shared memory of a block that a kernel may have without being asked for by an attribute. */
#define SHARED_PLAIN (48u * 1024)

/* How long a thread polls for the end of its lane before it sleeps in the driver: waking up costs
 * tens of microseconds, and most tasks are shorter than that. */
#define POLL_NS (50 * NSEC_PER_USEC)

struct vendor_lane {
    struct vendor_library *library;
    uint32_t device;
    cuda_stream stream;
};

struct binary {
    uint32_t device;
    cuda_module module;
};

/* --- the library --- */

static void find_device(struct vendor_library *library, uint32_t i)
{
    struct cuda_gpu *d = &library->device[i];

    if (library->api.cuDeviceGet(&d->ordinal, (int)i) != CUDA_SUCCESS)
        d->ordinal = (cuda_device)i;
    if (!library->api.cuDeviceGetPCIBusId ||
        library->api.cuDeviceGetPCIBusId(d->bus, sizeof(d->bus), d->ordinal) != CUDA_SUCCESS)
        d->bus[0] = '\0';
    d->granularity = cuda_memory_granularity(library, i);
}

static int32_t start_library(struct vendor_library *library, char *why, size_t why_size)
{
    int n = 0;
    int32_t code = cuda_answer(library, EXECUTOR_DEVICES, "cuInit", library->api.cuInit(0));

    if (code == 0)
        code = cuda_answer(library, EXECUTOR_DEVICES, "cuDeviceGetCount",
                           library->api.cuDeviceGetCount(&n));
    if (code != 0) {
        snprintf(why, why_size, "%s", vendor_text());
        return code;
    }
    library->n = n < 0 ? 0 : n > (int)EXECUTOR_DEVICES ? EXECUTOR_DEVICES : (uint32_t)n;
    for (uint32_t i = 0; i < library->n; i++)
        find_device(library, i);
    return 0;
}

/* The library stays loaded: threads of it may be about to end, and it has things to do at exit. */
static int32_t cuda_open(const char *path, bool nesting, struct vendor_library **library, char *why,
                         size_t why_size)
{
    struct vendor_library *l;
    int32_t code;
    void *dl = dlopen(path && *path ? path : DEFAULT_PATH, RTLD_NOW | RTLD_LOCAL);

    (void)nesting; /* npud itself is no CUDA */
    if (!dl) {
        snprintf(why, why_size, "%s", dlerror());
        return ACL_ERROR_RT_NO_DEVICE;
    }
    l = calloc(1, sizeof(*l));
    if (!l)
        return ACL_ERROR_RT_MEMORY_ALLOCATION;
    pthread_mutex_init(&l->lock, NULL);
    cuda_api_load(&l->api, dl, &l->symbols);
    if (!l->symbols.complete) {
        snprintf(why, why_size, "it is no libcuda that npud can use; it lacks %s",
                 l->symbols.absent);
        code = ACL_ERROR_RT_FEATURE_NOT_SUPPORT;
    } else {
        code = start_library(l, why, why_size);
    }
    if (code != 0) {
        free(l);
        return code;
    }
    l->nvml = nvml_open(path);
    *library = l;
    return 0;
}

static int32_t cuda_gone(struct vendor_library *library, uint32_t device);

static void cuda_close(struct vendor_library *library)
{
    for (uint32_t i = 0; i < library->n; i++)
        cuda_context_end(library, i);
    nvml_close(library->nvml);
    pthread_mutex_destroy(&library->lock);
    free(library);
}

static unsigned cuda_symbols_of(struct vendor_library *library, unsigned *known,
                                const char **absent)
{
    *known = library->symbols.known;
    *absent = library->symbols.absent;
    return library->symbols.found;
}

/* --- devices --- */

static int32_t cuda_device_count(struct vendor_library *library, uint32_t *n)
{
    *n = library->n;
    return 0;
}

/* Some words: "CUDA 13.0, driver 580.159.03, compute capability 9.0". */
static void describe_version(struct vendor_library *library, uint32_t device, char *text,
                             size_t size)
{
    const struct cuda_api *api = &library->api;
    cuda_device ordinal = library->device[device].ordinal;
    int version = 0, major = 0, minor = 0;
    char driver[80] = "not known";

    api->cuDriverGetVersion(&version);
    nvml_version(library->nvml, driver, sizeof(driver));
    if (api->cuDeviceGetAttribute) {
        api->cuDeviceGetAttribute(&major, CUDA_ATTRIBUTE_MAJOR, ordinal);
        api->cuDeviceGetAttribute(&minor, CUDA_ATTRIBUTE_MINOR, ordinal);
    }
    snprintf(text, size, "CUDA %d.%d, driver %.20s, compute %d.%d", version / 1000,
             version % 1000 / 10, driver, major, minor);
}

static bool has_kernels(const struct cuda_api *api)
{
    return (api->cuModuleLoadData || api->cuModuleLoadDataEx) && api->cuModuleGetFunction &&
           api->cuModuleUnload && api->cuLaunchKernel;
}

/* A device that reaches the memory of another one directly. */
static bool has_peer(const struct vendor_library *library, uint32_t device)
{
    int can = 0;

    for (uint32_t i = 0; i < library->n && library->api.cuDeviceCanAccessPeer && !can; i++)
        if (i != device &&
            library->api.cuDeviceCanAccessPeer(&can, library->device[device].ordinal,
                                               library->device[i].ordinal) != CUDA_SUCCESS)
            can = 0;
    return can != 0;
}

static uint64_t find_capabilities(struct vendor_library *library, uint32_t device)
{
    uint64_t can = cuda_probe(library, device);

    if (!has_kernels(&library->api))
        can &= ~(uint64_t)EXECUTOR_CAN_KERNEL;
    if (library->device[device].granularity != 0 && has_peer(library, device))
        can |= EXECUTOR_CAN_PEER;
    return can;
}

static int32_t cuda_device_info(struct vendor_library *library, uint32_t device,
                                struct executor_device_info *info)
{
    const struct cuda_api *api = &library->api;
    struct cuda_gpu *d = &library->device[device < EXECUTOR_DEVICES ? device : 0];
    size_t total = 0, left = 0;
    int32_t code = cuda_enter(library, device);

    memset(info, 0, sizeof(*info));
    if (code != 0)
        return code;
    code = CUDA_CALL(library, device, cuDeviceGetName, info->name, sizeof(info->name), d->ordinal);
    if (code == 0)
        code = CUDA_CALL(library, device, cuDeviceTotalMem_v2, &total, d->ordinal);
    if (code != 0)
        return code;
    info->name[sizeof(info->name) - 1] = '\0';
    if (!api->cuMemGetInfo_v2 || api->cuMemGetInfo_v2(&left, &total) != CUDA_SUCCESS)
        left = total;
    if (api->cuDeviceGetUuid_v2)
        api->cuDeviceGetUuid_v2(info->uuid, d->ordinal);
    describe_version(library, device, info->version, sizeof(info->version));
    snprintf(info->bus, sizeof(info->bus), "%s", d->bus);
    info->memory = total;
    info->free = left;
    info->granularity = d->granularity;
    info->capabilities = find_capabilities(library, device);
    return cuda_gone(library, device);
}

static int32_t cuda_device_begin(struct vendor_library *library, uint32_t device)
{
    int32_t code;

    if (device >= library->n)
        return ACL_ERROR_RT_INVALID_DEVICEID;
    code = atomic_load(&library->device[device].gone);
    return code != 0 ? code : cuda_context_begin(library, device);
}

static int32_t cuda_device_end(struct vendor_library *library, uint32_t device)
{
    return device < library->n ? cuda_context_end(library, device) : ACL_ERROR_RT_INVALID_DEVICEID;
}

static int32_t cuda_thread_begin(struct vendor_library *library, uint32_t device)
{
    return cuda_enter(library, device);
}

static int32_t cuda_gone(struct vendor_library *library, uint32_t device)
{
    return device < library->n ? atomic_load(&library->device[device].gone) : 0;
}

static int32_t cuda_health(struct vendor_library *library, uint32_t device,
                           struct executor_health *health)
{
    *health = (struct executor_health){INT32_MIN, INT32_MIN, INT32_MIN, 0};
    if (device >= library->n)
        return ACL_ERROR_RT_INVALID_DEVICEID;
    if (nvml_health(library->nvml, library->device[device].bus, health))
        return 0;
    vendor_set_text("libnvidia-ml.so.1 is not there, or knows nothing of this device");
    return ACL_ERROR_RT_FEATURE_NOT_SUPPORT;
}

/* --- lanes --- */

static int32_t cuda_lane_new(struct vendor_library *library, uint32_t device,
                             struct vendor_lane **lane)
{
    struct vendor_lane *l;
    int32_t code = cuda_enter(library, device);

    if (code != 0)
        return code;
    l = calloc(1, sizeof(*l));
    if (!l)
        return ACL_ERROR_RT_MEMORY_ALLOCATION;
    *l = (struct vendor_lane){library, device, NULL};
    code = CUDA_CALL(library, device, cuStreamCreateWithPriority, &l->stream,
                     CUDA_STREAM_NON_BLOCKING, 0);
    if (code != 0) {
        free(l);
        return code;
    }
    *lane = l;
    return 0;
}

static void cuda_lane_free(struct vendor_lane *lane)
{
    if (!lane)
        return;
    if (cuda_enter_any(lane->library, lane->device))
        lane->library->api.cuStreamDestroy_v2(lane->stream);
    free(lane);
}

/* CUDA has no other lanes: a task that fails breaks the context, and nothing runs any more. */
static int32_t cuda_lane_stop(struct vendor_lane *lane)
{
    return cuda_enter(lane->library, lane->device);
}

static int32_t cuda_copy(struct vendor_lane *lane, uint64_t dst, uint64_t src, uint64_t size,
                         enum vendor_way way)
{
    struct vendor_library *library = lane->library;
    int32_t code = cuda_enter(library, lane->device);

    if (code != 0 || size == 0)
        return code;
    switch (way) {
    case VENDOR_TO_DEVICE:
        return CUDA_CALL(library, lane->device, cuMemcpyHtoDAsync_v2, dst,
                         (const void *)(uintptr_t)src, size, lane->stream);
    case VENDOR_TO_HOST:
        return CUDA_CALL(library, lane->device, cuMemcpyDtoHAsync_v2, (void *)(uintptr_t)dst, src,
                         size, lane->stream);
    case VENDOR_ON_DEVICE:
        return CUDA_CALL(library, lane->device, cuMemcpyDtoDAsync_v2, dst, src, size, lane->stream);
    }
    return cuda_answer_invalid("a copy of no known way");
}

static int32_t cuda_set(struct vendor_lane *lane, uint64_t dst, uint8_t value, uint64_t size)
{
    int32_t code = cuda_enter(lane->library, lane->device);

    if (code != 0 || size == 0)
        return code;
    return CUDA_CALL(lane->library, lane->device, cuMemsetD8Async, dst, value, size, lane->stream);
}

static int32_t cuda_word_write(struct vendor_lane *lane, uint64_t dst, uint64_t value)
{
    int32_t code = cuda_enter(lane->library, lane->device);

    if (code != 0)
        return code;
    return CUDA_CALL(lane->library, lane->device, cuStreamWriteValue64_v2, lane->stream, dst, value,
                     0);
}

static int32_t cuda_word_wait(struct vendor_lane *lane, uint64_t src, uint64_t value)
{
    int32_t code = cuda_enter(lane->library, lane->device);

    if (code != 0)
        return code;
    return CUDA_CALL(lane->library, lane->device, cuStreamWaitValue64_v2, lane->stream, src, value,
                     CUDA_WAIT_VALUE_GEQ);
}

/* --- kernels --- */

/* PTX that does not compile is told of by the compiler's first words. */
static int32_t load_module(struct vendor_library *library, uint32_t device, const void *image,
                           cuda_module *module)
{
    static const int options[] = {CUDA_JIT_ERROR_LOG, CUDA_JIT_ERROR_LOG_BYTES};
    char log[160] = "";
    void *values[] = {log, (void *)(uintptr_t)sizeof(log)};
    int32_t code;

    if (!library->api.cuModuleLoadDataEx)
        return CUDA_CALL(library, device, cuModuleLoadData, module, image);
    code = CUDA_CALL(library, device, cuModuleLoadDataEx, module, image, 2, options, values);
    log[sizeof(log) - 1] = '\0';
    if (code != 0 && log[0] != '\0')
        vendor_set_text("cuModuleLoadDataEx: %s", log);
    return code;
}

static int32_t cuda_binary_load(struct vendor_library *library, uint32_t device, const void *file,
                                uint64_t size, uint32_t magic, void **binary)
{
    int32_t code = cuda_enter(library, device);
    struct binary *b;
    void *image;

    (void)magic;
    if (code != 0)
        return code;
    if (!library->api.cuModuleUnload)
        return cuda_answer_absent("cuModuleUnload");
    image = cuda_image_copy(file, size);
    if (!image)
        return cuda_answer_invalid("no binary of CUDA: PTX, a cubin or a fatbin is wanted");
    b = calloc(1, sizeof(*b));
    code = b ? load_module(library, device, image, &b->module) : ACL_ERROR_RT_MEMORY_ALLOCATION;
    free(image);
    if (code != 0) {
        free(b);
        return code;
    }
    b->device = device;
    *binary = b;
    return 0;
}

static void cuda_binary_free(struct vendor_library *library, void *binary)
{
    struct binary *b = binary;

    if (!b)
        return;
    if (cuda_enter_any(library, b->device) && library->api.cuModuleUnload)
        library->api.cuModuleUnload(b->module);
    free(b);
}

static int32_t cuda_find_function(struct vendor_library *library, void *binary, const char *name,
                                  void **function)
{
    const struct binary *b = binary;
    int32_t code = cuda_enter(library, b->device);

    if (code != 0)
        return code;
    return CUDA_CALL(library, b->device, cuModuleGetFunction, function, b->module, name);
}

static int32_t cuda_launch(struct vendor_lane *lane, void *function,
                           const struct vendor_launch *launch)
{
    struct vendor_library *library = lane->library;
    const uint32_t *b = launch->blocks, *t = launch->threads;
    size_t bytes = launch->bytes;
    void *arguments = (void *)(uintptr_t)launch->arguments;
    void *extra[] = {CUDA_LAUNCH_BUFFER, arguments, CUDA_LAUNCH_SIZE, &bytes, CUDA_LAUNCH_END};
    int32_t code = cuda_enter(library, lane->device);

    if (code != 0)
        return code;
    if (launch->n_placeholders > 0 || launch->limit_ns != 0) {
        vendor_set_text("kernels of CUDA have no placeholders in arguments, and no time limit");
        return ACL_ERROR_RT_FEATURE_NOT_SUPPORT;
    }
    if (launch->shared_bytes > INT_MAX)
        return cuda_answer_invalid("a launch with too much shared memory");
    if (launch->shared_bytes > SHARED_PLAIN) {
        code = CUDA_CALL(library, lane->device, cuFuncSetAttribute, function,
                         CUDA_FUNCTION_DYNAMIC_SHARED, (int)launch->shared_bytes);
        if (code != 0)
            return code;
    }
    return CUDA_CALL(library, lane->device, cuLaunchKernel, function, b[0], b[1], b[2], t[0], t[1],
                     t[2], launch->shared_bytes, lane->stream, NULL, bytes ? extra : NULL);
}

/* --- the end of a lane's work --- */

/* Returns early where the lane is over, well or not: cuStreamSynchronize() will say which. */
static void poll_lane(const struct vendor_lane *lane)
{
    const struct cuda_api *api = &lane->library->api;
    uint64_t end;

    if (!api->cuStreamQuery || api->cuStreamQuery(lane->stream) != CUDA_NOT_READY)
        return;
    end = clock_ns() + POLL_NS;
    while (api->cuStreamQuery(lane->stream) == CUDA_NOT_READY && clock_ns() < end)
        ;
}

static int32_t cuda_lane_sync(struct vendor_lane **lane)
{
    struct vendor_lane *l = *lane;
    int32_t code = cuda_enter(l->library, l->device);

    if (code == 0) {
        poll_lane(l);
        code = CUDA_CALL(l->library, l->device, cuStreamSynchronize, l->stream);
    }
    if (cuda_gone(l->library, l->device) != 0) {
        cuda_lane_free(l);
        *lane = NULL;
    }
    return code;
}

/* The lane does wait for it, in CUDA; and it makes no call of the driver either. */
static int32_t cuda_lane_call(struct vendor_lane *lane, void (*run)(void *arg), void *arg)
{
    int32_t code = cuda_enter(lane->library, lane->device);

    if (code != 0)
        return code;
    return CUDA_CALL(lane->library, lane->device, cuLaunchHostFunc, lane->stream, run, arg);
}

const struct vendor vendor_cuda = {
    .name = "cuda",
    .open = cuda_open,
    .close = cuda_close,
    .symbols = cuda_symbols_of,
    .device_count = cuda_device_count,
    .device_info = cuda_device_info,
    .device_begin = cuda_device_begin,
    .device_end = cuda_device_end,
    .thread_begin = cuda_thread_begin,
    .gone = cuda_gone,
    .health = cuda_health,
    .memory_new = cuda_memory_new,
    .memory_free = cuda_memory_free,
    .memory_export = cuda_memory_export,
    .memory_allow = cuda_memory_allow,
    .memory_import = cuda_memory_import,
    .host_attach = cuda_host_attach,
    .host_detach = cuda_host_detach,
    .host_address = cuda_host_address,
    .lane_new = cuda_lane_new,
    .lane_free = cuda_lane_free,
    .lane_stop = cuda_lane_stop,
    .copy = cuda_copy,
    .set = cuda_set,
    .word_write = cuda_word_write,
    .word_wait = cuda_word_wait,
    .binary_load = cuda_binary_load,
    .binary_free = cuda_binary_free,
    .function = cuda_find_function,
    .launch = cuda_launch,
    .lane_sync = cuda_lane_sync,
    .lane_call = cuda_lane_call,
};
