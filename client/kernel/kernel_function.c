/* Kernels that programs have looked up: their handles, and what is asked about them. */
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "client/core/error.h"
#include "client/core/handle_error.h"
#include "client/core/handle.h"
#include "client/kernel/kernel.h"
#include "client/runtime/context.h"
#include "client/runtime/session.h"
#include "proto/util/random.h"

#define FUNCTIONS_MAX (1u << 18)

/* Under kernel_lock. */
static struct slots functions;             /* no object: not set up yet */
static struct kernel_function *of_program; /* those without a binary */

struct kernel_function *kernel_function_find(const char *api, const void *handle, int *error)
{
    struct kernel_function *f;
    uint32_t tag;

    *error = handle ? 0 : error_null(api, "funcHandle");
    if (!handle)
        return NULL;
    f = functions.object_size ? handle_get_tag(&functions, HANDLE_FUNCTION, handle, &tag) : NULL;
    if (!f)
        *error = handle_error(ACL_ERROR_RT_INVALID_HANDLE, api, HANDLE_FUNCTION, handle);
    return f;
}

static struct kernel_function *make_function(const aclnpudKernel *kernel)
{
    struct kernel_function *f;
    uint32_t seed = 1;

    if (functions.object_size == 0) {
        random_fill(&seed, sizeof(seed));
        slots_init(&functions, sizeof(*f), FUNCTIONS_MAX, seed);
    }
    f = slots_take(&functions);
    if (!f)
        return NULL;
    f->name = strdup(kernel->name);
    if (!f->name) {
        slots_put(&functions, f);
        return NULL;
    }
    f->session = 0;
    f->devices = 0;
    f->number = 0;
    slots_publish(f);
    return f;
}

/* Kernels of a binary are told apart by their names, those of none by their functions, too. */
static struct kernel_function *find_in_list(struct kernel_function *list, const aclnpudKernel *k)
{
    struct kernel_function *f;

    LL_FOREACH (list, f)
        if (f->kernel.function == k->function && strcmp(f->name, k->name) == 0)
            return f;
    return NULL;
}

struct kernel_function *kernel_function_get(const char *api, struct kernel_binary *binary,
                                            struct kernel_function **list,
                                            const aclnpudKernel *kernel, int *error)
{
    struct context *c = context_get(api, error);
    struct kernel_function *f;

    if (!c)
        return NULL;
    if (!list)
        list = &of_program;
    f = find_in_list(*list, kernel);
    if (!f) {
        f = make_function(kernel);
        if (!f) {
            *error = error_no_memory(api);
            return NULL;
        }
        f->binary = binary;
        LL_PREPEND(*list, f);
    }
    /* A library that was loaded anew has another record at the same address. */
    f->kernel = *kernel;
    f->kernel.name = f->name;
    if (f->session != c->session->serial)
        f->devices = 0;
    f->session = c->session->serial;
    f->devices |= 1u << c->device;
    return f;
}

void kernel_function_end_list(struct kernel_function *list)
{
    struct kernel_function *f;

    LL_FOREACH (list, f)
        slots_unpublish(f);
}

void kernel_function_free_list(struct kernel_function *list)
{
    struct kernel_function *f, *next;

    LL_FOREACH_SAFE (list, f, next) {
        free(f->name);
        f->name = NULL;
        slots_put(&functions, f);
    }
}

static bool is_handle(const void *symbol)
{
    return (uint64_t)(uintptr_t)symbol >> 52 == (HANDLE_MARK << 4 | HANDLE_FUNCTION);
}

struct kernel_function *kernel_function_find_any(const char *api, const void *symbol, int *error)
{
    const aclnpudKernel *k;

    if (!symbol || is_handle(symbol))
        return kernel_function_find(api, symbol, error);
    k = kernel_registry_find(NULL, NULL, 0, symbol);
    if (k)
        return kernel_function_get(api, NULL, NULL, k, error);
    *error = error_set(ACL_ERROR_RT_INVALID_DEVICE_FUNCTION,
                       "%s: this is the address of no kernel: a kernel is a __global__ function "
                       "that was built with ascendc_library() or bisheng",
                       api);
    return NULL;
}

aclError aclrtGetFuncBySymbol(const void *symbol, aclrtFuncHandle *funcHandle)
{
    CALL_SCOPE;
    struct kernel_function *f;
    int error = 0;

    REQUIRE(symbol);
    REQUIRE(funcHandle);
    pthread_mutex_lock(&process->kernel_lock);
    f = is_handle(symbol) ? NULL : kernel_function_find_any(__func__, symbol, &error);
    if (is_handle(symbol))
        error =
            error_set(ACL_ERROR_RT_INVALID_DEVICE_FUNCTION,
                      "aclrtGetFuncBySymbol: this is a handle, and not the address of a kernel");
    if (f)
        *funcHandle = handle_of(HANDLE_FUNCTION, f);
    pthread_mutex_unlock(&process->kernel_lock);
    return f ? 0 : error;
}

/* --- questions --- */

/* A copy of what the handle names. 0, or the error of kernel_function_find(). */
static int copy_function(const char *api, const void *handle, struct kernel_function *copy)
{
    const struct kernel_function *f;
    int error = 0;

    pthread_mutex_lock(&process->kernel_lock);
    f = kernel_function_find(api, handle, &error);
    if (f)
        *copy = *f;
    pthread_mutex_unlock(&process->kernel_lock);
    return f ? 0 : ERROR_NOT_ZERO(error);
}

static bool is_cpu(const struct kernel_function *f)
{
    return f->kernel.kind == ACL_KERNEL_TYPE_AICPU;
}

static int refuse_cpu(const char *api, int code)
{
    return error_set(code, "%s: this is a kernel of the device's CPU, which has no such thing",
                     api);
}

aclError aclrtGetFunctionName(aclrtFuncHandle funcHandle, uint32_t maxLen, char *name)
{
    CALL_SCOPE;
    struct kernel_function *f;
    int error = 0;

    REQUIRE(name);
    pthread_mutex_lock(&process->kernel_lock);
    f = kernel_function_find(__func__, funcHandle, &error);
    if (f && strlen(f->name) < maxLen)
        strcpy(name, f->name);
    else if (f)
        error = error_set(ACL_ERROR_RT_PARAM_INVALID,
                          "aclrtGetFunctionName: the name takes %zu bytes, and maxLen is %u",
                          strlen(f->name) + 1, maxLen);
    pthread_mutex_unlock(&process->kernel_lock);
    return error;
}

/* A kernel of a cube or of both has its code there, one of a vector core only on that. */
static bool runs_on_cube(const struct kernel_function *f)
{
    return f->kernel.kind != ACL_KERNEL_TYPE_VECTOR;
}

static bool runs_on_vector(const struct kernel_function *f)
{
    return f->kernel.kind == ACL_KERNEL_TYPE_VECTOR || f->kernel.kind == ACL_KERNEL_TYPE_MIX;
}

aclError aclrtGetFunctionAddr(aclrtFuncHandle funcHandle, void **aicAddr, void **aivAddr)
{
    CALL_SCOPE;
    struct kernel_function f;
    void *code;

    REQUIRE(aicAddr);
    REQUIRE(aivAddr);
    RETURN_IF_ERROR(copy_function(__func__, funcHandle, &f));
    if (is_cpu(&f))
        return refuse_cpu(__func__, ACL_ERROR_RT_PARAM_INVALID);
    code = (void *)(uintptr_t)f.kernel.function;
    *aicAddr = runs_on_cube(&f) ? code : NULL;
    *aivAddr = runs_on_vector(&f) ? code : NULL;
    return 0;
}

aclError aclrtGetFunctionSize(aclrtFuncHandle funcHandle, size_t *aicSize, size_t *aivSize)
{
    CALL_SCOPE;
    struct kernel_function f;
    size_t size;

    REQUIRE(aicSize);
    REQUIRE(aivSize);
    RETURN_IF_ERROR(copy_function(__func__, funcHandle, &f));
    if (is_cpu(&f))
        return refuse_cpu(__func__, ACL_ERROR_RT_PARAM_INVALID);
    size = kernel_code_size(f.kernel.function);
    *aicSize = runs_on_cube(&f) ? size : 0;
    *aivSize = runs_on_vector(&f) ? size : 0;
    return 0;
}

aclError aclrtFunctionGetBinary(aclrtFuncHandle funcHandle, aclrtBinHandle *binHandle)
{
    CALL_SCOPE;
    struct kernel_function f;

    REQUIRE(binHandle);
    RETURN_IF_ERROR(copy_function(__func__, funcHandle, &f));
    *binHandle = f.binary ? kernel_binary_handle(f.binary) : NULL;
    return 0;
}

aclError aclrtGetFunctionAttribute(aclrtFuncHandle funcHandle, aclrtFuncAttribute attrType,
                                   int64_t *attrValue)
{
    CALL_SCOPE;
    struct kernel_function f;

    REQUIRE(attrValue);
    RETURN_IF_ERROR(copy_function(__func__, funcHandle, &f));
    switch (attrType) {
    case ACL_FUNC_ATTR_KERNEL_TYPE:
        *attrValue = f.kernel.kind;
        return 0;
    case ACL_FUNC_ATTR_KERNEL_RATIO:
        if (is_cpu(&f))
            return refuse_cpu(__func__, ACL_ERROR_RT_PARAM_INVALID);
        /* One thread stands for the cube and for the vector core of a block. */
        *attrValue = (runs_on_cube(&f) ? 1 << 16 : 0) | (runs_on_vector(&f) ? 1 : 0);
        return 0;
    case ACL_FUNC_ATTR_KERNEL_SCHED_MODE:
        *attrValue = 0;
        return 0;
    default:
        return error_set(ACL_ERROR_RT_PARAM_INVALID,
                         "aclrtGetFunctionAttribute: attrType is %d, must be 1 to 3",
                         (int)attrType);
    }
}

/* Does the record say what its parameters are? 0, or an error. */
static int check_parameters(const char *api, const struct kernel_function *f)
{
    if (is_cpu(f))
        return refuse_cpu(api, ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
    if (f->kernel.call)
        return 0;
    return error_set(ACL_ERROR_RT_PARAM_INVALID,
                     "%s: the binary does not say which parameters the kernel has: build it with "
                     "ascendc_fatbin_library()",
                     api);
}

int kernel_function_parameters(const char *api, const void *func,
                               int (*use)(const char *api, const struct kernel_function *f,
                                          void *context),
                               void *context)
{
    struct kernel_function *f;
    int error = 0;

    pthread_mutex_lock(&process->kernel_lock);
    f = kernel_function_find_any(api, func, &error);
    if (f)
        error = check_parameters(api, f);
    if (error == 0)
        error = use(api, f, context);
    pthread_mutex_unlock(&process->kernel_lock);
    return error;
}

static int tell_count(const char *api, const struct kernel_function *f, void *context)
{
    (void)api;
    *(size_t *)context = f->kernel.paramCount;
    return 0;
}

aclError aclrtFunctionGetParamCount(const void *func, size_t *paramCount)
{
    CALL_SCOPE;

    REQUIRE(paramCount);
    return kernel_function_parameters(__func__, func, tell_count, paramCount);
}

struct param_question {
    size_t index, *offset, *size;
};

static int tell_param(const char *api, const struct kernel_function *f, void *context)
{
    const struct param_question *q = context;

    if (q->index >= f->kernel.paramCount)
        return error_set(ACL_ERROR_RT_PARAM_INVALID,
                         "%s: paramIndex is %zu, and the kernel has %u parameters", api, q->index,
                         f->kernel.paramCount);
    if (q->offset)
        *q->offset = f->kernel.params[q->index].offset;
    if (q->size)
        *q->size = f->kernel.params[q->index].size;
    return 0;
}

aclError aclrtFunctionGetParamInfo(const void *func, size_t paramIndex, size_t *paramOffset,
                                   size_t *paramSize)
{
    CALL_SCOPE;
    struct param_question q = {.index = paramIndex, .offset = paramOffset, .size = paramSize};

    if (!paramOffset && !paramSize)
        return error_set(ACL_ERROR_RT_PARAM_INVALID,
                         "aclrtFunctionGetParamInfo: paramOffset and paramSize are NULL");
    return kernel_function_parameters(__func__, func, tell_param, &q);
}

aclError aclrtFunctionGetAvailDynUbufPerBlock(void *func, uint32_t blockDim, size_t *dynUbufSize)
{
    CALL_SCOPE;
    struct kernel_function *f;
    int error = 0;

    REQUIRE(dynUbufSize);
    if (blockDim != 0)
        return error_set(ACL_ERROR_INVALID_PARAM,
                         "aclrtFunctionGetAvailDynUbufPerBlock: flags is %u, must be 0", blockDim);
    pthread_mutex_lock(&process->kernel_lock);
    f = kernel_function_find_any(__func__, func, &error);
    pthread_mutex_unlock(&process->kernel_lock);
    if (!f)
        return error;
    *dynUbufSize = 0; /* no kernel here is one of SIMT */
    return 0;
}
