/*
 * RUN_MODE cpu: kernels without a device, on threads of the program. ICPU_RUN_KF() returns when all
 * blocks have returned.
 */
#ifndef NPUD_TIKICPULIB_H
#define NPUD_TIKICPULIB_H

#ifndef ASCENDC_CPU_DEBUG
#define ASCENDC_CPU_DEBUG 1
#endif
#include "kernel_operator.h"

#define ICPU_RUN_KF(kernel, blocks, ...)                                                           \
    ::npud::cpu_run(kernel, static_cast<uint32_t>(blocks), ##__VA_ARGS__)
#define ICPU_SET_TILING_KEY(key) (::npud::cpu_tiling_key = static_cast<int64_t>(key))
#define TILING_KEY_IS(key)       (::npud::cpu_tiling_key == static_cast<int64_t>(key))

enum class KernelMode { MIX_MODE, AIC_MODE, AIV_MODE, MIX_AIC_1_1 };

namespace AscendC
{

/* Zeroed, aligned to 64; nullptr if there is no memory. */
inline void *GmAlloc(size_t size)
{
    size = (size + 63) / 64 * 64;
    void *memory = std::aligned_alloc(64, size ? size : 64);
    if (memory)
        std::memset(memory, 0, size);
    return memory;
}

inline void GmFree(void *memory) { std::free(memory); }

/* Cube and vector halves of a block are one thread in any mode. */
inline void SetKernelMode(::KernelMode) {}

} // namespace AscendC

#endif
