#include "daemon/executor/cuda_context.h"

#include "acl/error_codes/rt_error_codes.h"

/* Which context the thread is in; contexts are counted, because their addresses come again. */
static _Thread_local uint64_t current_generation;
static _Atomic uint64_t generations;

/* --- what the driver answers --- */

static void keep_text(const struct vendor_library *library, const char *name, cuda_result result)
{
    const char *error = NULL, *text = NULL;

    if (library->api.cuGetErrorName)
        library->api.cuGetErrorName(result, &error);
    if (library->api.cuGetErrorString)
        library->api.cuGetErrorString(result, &text);
    if (error)
        vendor_set_text("%s: %s%s%s", name, error, text ? ": " : "", text ? text : "");
    else
        vendor_set_text("%s: error %d of CUDA", name, result);
}

/* Of a result that may mean anything: a broken context refuses this, too. */
static bool is_context_broken(const struct vendor_library *library)
{
    size_t left, total;

    return library->api.cuMemGetInfo_v2 &&
           library->api.cuMemGetInfo_v2(&left, &total) != CUDA_SUCCESS;
}

int32_t cuda_answer(struct vendor_library *library, uint32_t device, const char *name,
                    cuda_result result)
{
    int32_t none = 0;

    if (result == CUDA_SUCCESS)
        return 0;
    keep_text(library, name, result);
    if (device < EXECUTOR_DEVICES &&
        (cuda_is_fatal(result) || (result == CUDA_UNKNOWN && is_context_broken(library))))
        atomic_compare_exchange_strong(&library->device[device].gone, &none, cuda_code(result));
    return cuda_code(result);
}

int32_t cuda_answer_absent(const char *name)
{
    vendor_set_text("%s: this libcuda does not have it", name);
    return ACL_ERROR_RT_FEATURE_NOT_SUPPORT;
}

int32_t cuda_answer_invalid(const char *text)
{
    vendor_set_text("%s", text);
    return ACL_ERROR_RT_PARAM_INVALID;
}

/* --- contexts --- */

int32_t cuda_enter(struct vendor_library *library, uint32_t device)
{
    struct cuda_gpu *d = &library->device[device < EXECUTOR_DEVICES ? device : 0];
    uint64_t generation;
    int32_t code;

    if (device >= library->n)
        return ACL_ERROR_RT_INVALID_DEVICEID;
    code = atomic_load_explicit(&d->gone, memory_order_relaxed);
    if (code != 0) {
        vendor_set_text("device %u was lost to this process by an earlier error", device);
        return code;
    }
    generation = atomic_load_explicit(&d->generation, memory_order_acquire);
    if (generation == 0)
        return ACL_ERROR_RT_CONTEXT_NULL;
    if (generation == current_generation)
        return 0;
    code = CUDA_CALL(library, device, cuCtxSetCurrent, d->context);
    current_generation = code == 0 ? generation : 0;
    return code;
}

bool cuda_enter_any(struct vendor_library *library, uint32_t device)
{
    struct cuda_gpu *d = &library->device[device];

    if (atomic_load(&d->gone) == 0)
        return cuda_enter(library, device) == 0;
    return atomic_load(&d->generation) != 0 && library->api.cuCtxSetCurrent(d->context) == 0;
}

int32_t cuda_enter_first(struct vendor_library *library, uint32_t *device)
{
    for (*device = 0; *device < library->n; ++*device)
        if (atomic_load(&library->device[*device].generation) != 0)
            return cuda_enter(library, *device);
    return ACL_ERROR_RT_CONTEXT_NULL;
}

static int32_t begin_context(struct vendor_library *library, uint32_t device)
{
    struct cuda_gpu *d = &library->device[device];
    int32_t code;

    if (d->context)
        return 0;
    /* Where the driver is too old to be asked, threads that wait spin as it thinks fit. */
    if (library->api.cuDevicePrimaryCtxSetFlags_v2)
        library->api.cuDevicePrimaryCtxSetFlags_v2(d->ordinal, CUDA_CONTEXT_BLOCKING_SYNC);
    code = CUDA_CALL(library, device, cuDevicePrimaryCtxRetain, &d->context, d->ordinal);
    if (code == 0)
        atomic_store_explicit(&d->generation, atomic_fetch_add(&generations, 1) + 1,
                              memory_order_release);
    else
        d->context = NULL;
    return code;
}

int32_t cuda_context_begin(struct vendor_library *library, uint32_t device)
{
    int32_t code;

    pthread_mutex_lock(&library->lock);
    code = begin_context(library, device);
    pthread_mutex_unlock(&library->lock);
    return code != 0 ? code : cuda_enter(library, device);
}

int32_t cuda_context_end(struct vendor_library *library, uint32_t device)
{
    struct cuda_gpu *d = &library->device[device];
    int32_t code = 0;

    pthread_mutex_lock(&library->lock);
    if (d->context) {
        atomic_store(&d->generation, 0);
        library->api.cuCtxSetCurrent(NULL);
        current_generation = 0;
        code = CUDA_CALL(library, device, cuDevicePrimaryCtxRelease_v2, d->ordinal);
        d->context = NULL;
    }
    pthread_mutex_unlock(&library->lock);
    return code;
}
