/* The functions that launch kernels: what each has of its own. */
#include <stdlib.h>
#include <string.h>

#include "client/core/api_call.h"
#include "client/core/error.h"
#include "client/kernel/kernel.h"
#include "client/kernel/kernel_args.h"

int kernel_launch_find(const char *api, const void *func, kernel_find_fn *find,
                       struct kernel_launch *launch, struct kernel_function *copy)
{
    struct kernel_function *f;
    int error;

    pthread_mutex_lock(&process->kernel_lock);
    f = find(api, func, &error);
    if (f) {
        *copy = *f;
        kernel_binary_ref(f->binary);
        launch->kernel = &copy->kernel;
        launch->function = copy;
        launch->binary = f->binary;
    }
    pthread_mutex_unlock(&process->kernel_lock);
    return f ? 0 : error;
}

/* --- by arguments on the device --- */

static int launch_device_args(const char *api, aclrtFuncHandle func, uint32_t blocks,
                              const void *args, size_t size, const aclrtLaunchKernelCfg *cfg,
                              aclrtStream stream)
{
    struct kernel_launch launch = {.blocks = blocks, .device_args = args, .size = size};
    struct kernel_function copy;

    if (!args)
        return error_null(api, "argsData");
    RETURN_IF_ERROR(kernel_config_read(api, cfg, &launch.config));
    if (size == 0)
        return error_set(ACL_ERROR_RT_PARAM_INVALID, "%s: argsSize is 0", api);
    RETURN_IF_ERROR(kernel_launch_find(api, func, kernel_function_find, &launch, &copy));
    return kernel_launch(api, &launch, stream);
}

aclError aclrtLaunchKernel(aclrtFuncHandle funcHandle, uint32_t blockDim, const void *argsData,
                           size_t argsSize, aclrtStream stream)
{
    CALL_SCOPE;

    REQUIRE(funcHandle);
    return launch_device_args(__func__, funcHandle, blockDim, argsData, argsSize, NULL, stream);
}

aclError aclrtLaunchKernelV2(aclrtFuncHandle funcHandle, uint32_t blockDim, const void *argsData,
                             size_t argsSize, aclrtLaunchKernelCfg *cfg, aclrtStream stream)
{
    CALL_SCOPE;

    REQUIRE(funcHandle);
    return launch_device_args(__func__, funcHandle, blockDim, argsData, argsSize, cfg, stream);
}

/* --- by arguments on the host --- */

static int check_blocks(const char *api, uint32_t blocks)
{
    return blocks != 0 ? 0 : error_set(ACL_ERROR_INVALID_PARAM, "%s: numBlocks is 0", api);
}

aclError aclrtLaunchKernelWithConfig(aclrtFuncHandle funcHandle, uint32_t blockDim,
                                     aclrtStream stream, aclrtLaunchKernelCfg *cfg,
                                     aclrtArgsHandle argsHandle, void *reserve)
{
    CALL_SCOPE;
    struct kernel_launch launch = {.blocks = blockDim};
    struct kernel_function copy;

    REQUIRE(funcHandle);
    if (reserve)
        return error_set(ACL_ERROR_INVALID_PARAM, "%s: reserve must be NULL", __func__);
    RETURN_IF_ERROR(check_blocks(__func__, blockDim));
    RETURN_IF_ERROR(kernel_args_use(__func__, argsHandle, &launch));
    RETURN_IF_ERROR(kernel_config_read(__func__, cfg, &launch.config));
    RETURN_IF_ERROR(kernel_launch_find(__func__, funcHandle, kernel_function_find, &launch, &copy));
    return kernel_launch(__func__, &launch, stream);
}

static int check_placeholders(const char *api, const aclrtPlaceHolderInfo *list, size_t n,
                              size_t size)
{
    if (n > 0 && !list)
        return error_set(ACL_ERROR_RT_PARAM_INVALID,
                         "%s: placeHolderArray is NULL, and placeHolderNum is %zu", api, n);
    for (size_t i = 0; i < n; i++)
        if (list[i].addrOffset >= size || size - list[i].addrOffset < sizeof(uint64_t) ||
            list[i].dataOffset >= size)
            return error_set(ACL_ERROR_RT_PARAM_INVALID,
                             "%s: placeholder %zu (address at %u, data at %u) is outside of the "
                             "%zu bytes of arguments",
                             api, i, list[i].addrOffset, list[i].dataOffset, size);
    return 0;
}

aclError aclrtLaunchKernelWithHostArgs(aclrtFuncHandle funcHandle, uint32_t blockDim,
                                       aclrtStream stream, aclrtLaunchKernelCfg *cfg,
                                       void *hostArgs, size_t argsSize,
                                       aclrtPlaceHolderInfo *placeHolderArray,
                                       size_t placeHolderNum)
{
    CALL_SCOPE;
    struct kernel_launch launch = {.blocks = blockDim,
                                   .args = hostArgs,
                                   .size = argsSize,
                                   .placeholders = placeHolderArray,
                                   .n_placeholders = placeHolderNum};
    struct kernel_function copy;

    REQUIRE(funcHandle);
    REQUIRE(hostArgs);
    if (argsSize == 0)
        return error_set(ACL_ERROR_RT_PARAM_INVALID, "%s: argsSize is 0", __func__);
    RETURN_IF_ERROR(check_placeholders(__func__, placeHolderArray, placeHolderNum, argsSize));
    RETURN_IF_ERROR(kernel_config_read(__func__, cfg, &launch.config));
    RETURN_IF_ERROR(kernel_launch_find(__func__, funcHandle, kernel_function_find, &launch, &copy));
    return kernel_launch(__func__, &launch, stream);
}

/* --- by pointers to arguments --- */

struct gather {
    void **args;
    unsigned char *bytes; /* malloc'd */
    size_t size;
};

/* Under kernel_lock. */
static int gather_args(const char *api, const struct kernel_function *f, void *context)
{
    struct gather *g = context;

    if (f->kernel.paramCount > 0 && !g->args)
        return error_set(ACL_ERROR_RT_PARAM_INVALID,
                         "%s: args is NULL, and the kernel has %u parameters", api,
                         f->kernel.paramCount);
    g->size = f->kernel.argsSize;
    g->bytes = calloc(1, g->size + 1);
    if (!g->bytes)
        return error_no_memory(api);
    for (uint32_t i = 0; i < f->kernel.paramCount; i++) {
        if (!g->args[i])
            return error_set(ACL_ERROR_RT_PARAM_INVALID, "%s: args[%u] is NULL", api, i);
        memcpy(g->bytes + f->kernel.params[i].offset, g->args[i], f->kernel.params[i].size);
    }
    return 0;
}

aclError aclrtLaunchKernelWithArgsArray(void *func, uint32_t blockDim, aclrtStream stream,
                                        aclrtLaunchKernelCfg *cfg, void **args)
{
    CALL_SCOPE;
    struct kernel_launch launch = {.blocks = blockDim};
    struct kernel_function copy;
    struct gather g = {.args = args};
    int error;

    REQUIRE(func);
    RETURN_IF_ERROR(check_blocks(__func__, blockDim));
    RETURN_IF_ERROR(kernel_config_read(__func__, cfg, &launch.config));
    error = kernel_function_parameters(__func__, func, gather_args, &g);
    if (error == 0)
        error = kernel_launch_find(__func__, func, kernel_function_find_any, &launch, &copy);
    if (error == 0) {
        launch.args = g.bytes;
        launch.size = g.size;
        error = kernel_launch(__func__, &launch, stream);
    }
    free(g.bytes);
    return error;
}

/* --- SIMT: kernels of devices may be such, and none of the host --- */

static int refuse_simt(const char *api, const struct kernel_function *f)
{
    return error_set(ACL_ERROR_RT_PARAM_INVALID,
                     "%s: the kernel %s is not one of SIMT: launch it with "
                     "aclrtLaunchKernelWithHostArgs",
                     api, f->name);
}

static int check_simt(const char *api, dim3 grid, dim3 block)
{
    if (grid.x != 0 && grid.y != 0 && grid.z != 0 && block.x != 0 && block.y != 0 && block.z != 0)
        return 0;
    return error_set(ACL_ERROR_RT_PARAM_INVALID, "%s: a component of gridDim or blockDim is 0",
                     api);
}

aclError aclrtLaunchSIMTKernelWithArgsArray(void *func, dim3 gridDim, dim3 blockDim,
                                            size_t dynUBufSize, aclrtStream stream,
                                            aclrtLaunchKernelCfg *cfg, void **args)
{
    CALL_SCOPE;
    struct kernel_config config;
    struct kernel_function *f;
    int error;

    (void)dynUBufSize;
    (void)stream;
    (void)args;
    REQUIRE(func);
    RETURN_IF_ERROR(kernel_config_read(__func__, cfg, &config));
    RETURN_IF_ERROR(check_simt(__func__, gridDim, blockDim));
    pthread_mutex_lock(&process->kernel_lock);
    f = kernel_function_find_any(__func__, func, &error);
    if (f)
        error = refuse_simt(__func__, f);
    pthread_mutex_unlock(&process->kernel_lock);
    return error;
}

aclError aclrtLaunchSIMTKernelWithHostArgs(void *func, dim3 gridDim, dim3 blockDim,
                                           size_t dynUBufSize, aclrtStream stream,
                                           aclrtLaunchKernelCfg *cfg, void *hostArgs,
                                           size_t argsSize, aclrtPlaceHolderInfo *placeHolderArray,
                                           size_t placeHolderNum)
{
    CALL_SCOPE;
    struct kernel_simt simt = {.grid = {gridDim.x, gridDim.y, gridDim.z},
                               .threads = {blockDim.x, blockDim.y, blockDim.z},
                               .shared_bytes = (uint32_t)dynUBufSize};
    struct kernel_launch launch = {.blocks = 1,
                                   .simt = &simt,
                                   .args = hostArgs,
                                   .size = argsSize,
                                   .placeholders = placeHolderArray,
                                   .n_placeholders = placeHolderNum};
    struct kernel_function copy = {.name = NULL};
    int error;

    REQUIRE(func);
    REQUIRE(hostArgs);
    if (argsSize == 0)
        return error_set(ACL_ERROR_INVALID_PARAM, "%s: argsSize is 0", __func__);
    RETURN_IF_ERROR(check_placeholders(__func__, placeHolderArray, placeHolderNum, argsSize));
    RETURN_IF_ERROR(kernel_config_read(__func__, cfg, &launch.config));
    RETURN_IF_ERROR(check_simt(__func__, gridDim, blockDim));
    if (dynUBufSize > UINT32_MAX)
        return error_set(ACL_ERROR_RT_PARAM_INVALID, "%s: dynUBufSize is %zu, must be at most %u",
                         __func__, dynUBufSize, UINT32_MAX);
    RETURN_IF_ERROR(kernel_launch_find(__func__, func, kernel_function_find_any, &launch, &copy));
    if (kernel_binary_image(launch.binary))
        return kernel_launch(__func__, &launch, stream);
    error = refuse_simt(__func__, &copy);
    kernel_binary_unref(launch.binary);
    return error;
}

/* --- by a record --- */

aclError aclnpudLaunchKernel(const aclnpudKernel *kernel, uint32_t blocks, const void *args,
                             size_t size, aclrtStream stream)
{
    CALL_SCOPE;
    struct kernel_launch launch = {.kernel = kernel, .blocks = blocks, .args = args, .size = size};

    REQUIRE(kernel);
    REQUIRE(kernel->name);
    REQUIRE(kernel->function);
    if (size > 0 && !args)
        return error_set(ACL_ERROR_RT_PARAM_INVALID, "%s: args is NULL, and size is %zu", __func__,
                         size);
    RETURN_IF_ERROR(kernel_config_read(__func__, NULL, &launch.config));
    return kernel_launch(__func__, &launch, stream);
}
