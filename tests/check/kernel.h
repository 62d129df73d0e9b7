/* A kernel that uses memory, as far as anybody knows. */
#pragma once

#include "check.h"

#include <acl/acl_npud_kernel.h>

static inline void use_memory(uint64_t address)
{
    (void)address;
}

static inline void launch_use(void *memory, aclrtStream stream)
{
    const uint64_t args[] = {(uintptr_t)memory};
    const aclnpudKernel kernel = {.size = sizeof(kernel),
                                  .kind = ACL_KERNEL_TYPE_AICORE,
                                  .name = "use_memory",
                                  .function = (const void *)(uintptr_t)use_memory};

    CALL(aclnpudLaunchKernel(&kernel, 1, args, sizeof(args), stream));
}
