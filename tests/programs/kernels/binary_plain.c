/*
 * Kernels of the programs kernel_*, dump_binary, graph_binary and launch_blocking: a plain shared
 * object, with records for some of its functions and none for others.
 */
#include <acl/acl_npud_kernel.h>

#include <string.h>

#define EXPORT __attribute__((visibility("default")))

EXPORT uint32_t scale = 3;

/* Without a record: called with words. z = x + y * (first word of what tiling points to) */
EXPORT void add(const int32_t *x, const int32_t *y, int32_t *z, const uint32_t *tiling)
{
    uint32_t n = tiling[0] / aclnpudBlockSelf()->num, from = aclnpudBlockSelf()->index * n;

    for (uint32_t i = from; i < from + n; i++)
        z[i] = x[i] + y[i] * (int32_t)tiling[1];
}

/* The same, but z = x - y * ... */
static void take_away(const int32_t *x, const int32_t *y, int32_t *z, const uint32_t *tiling)
{
    uint32_t n = tiling[0] / aclnpudBlockSelf()->num, from = aclnpudBlockSelf()->index * n;

    for (uint32_t i = from; i < from + n; i++)
        z[i] = x[i] - y[i] * (int32_t)tiling[1];
}

static void scale_all(int32_t *z, uint64_t n, float by)
{
    for (uint64_t i = aclnpudBlockSelf()->index; i < n; i += aclnpudBlockSelf()->num)
        z[i] = (int32_t)((float)z[i] * by) + (int32_t)scale;
}

static void call_scale_all(const void *function, const void *args)
{
    const uint64_t *words = args;
    float by;

    (void)function;
    memcpy(&by, &words[2], sizeof(by));
    scale_all((int32_t *)words[0], words[1], by);
}

static const aclnpudKernelParam params[] = {{0, 8}, {8, 8}, {16, 4}};

static const aclnpudKernel records[] = {
    {.size = sizeof(records[0]),
     .kind = ACL_KERNEL_TYPE_VECTOR,
     .entry = 77,
     .name = "scale_all",
     .function = (const void *)scale_all,
     .call = call_scale_all,
     .params = params,
     .paramCount = 3,
     .argsSize = 24},
    {.size = sizeof(records[0]),
     .kind = ACL_KERNEL_TYPE_MIX,
     .entry = 78,
     .name = "add_mix",
     .function = (const void *)add},
    {.size = sizeof(records[0]),
     .kind = ACL_KERNEL_TYPE_MIX,
     .entry = 90,
     .name = "take_away",
     .function = (const void *)take_away},
};

/* What a CPU's kernel gets is one block of bytes. */
EXPORT uint32_t run_on_cpu(int32_t *z, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        z[i] = -z[i];
    return 0;
}

static __attribute__((constructor)) void register_kernels(void)
{
    for (size_t i = 0; i < sizeof(records) / sizeof(records[0]); i++)
        aclnpudKernelRegister(&records[i]);
}

static __attribute__((destructor)) void unregister_kernels(void)
{
    for (size_t i = 0; i < sizeof(records) / sizeof(records[0]); i++)
        aclnpudKernelUnregister(&records[i]);
}
