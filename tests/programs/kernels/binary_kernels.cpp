// Kernels of a binary that a program loads.
#include "kernel_operator.h"

struct Pair {
    float a;
    int64_t b;
};

extern "C" {
__gm__ uint32_t added[1] = {40};
}

namespace counters
{
static __gm__ int32_t calls = 100;
}

extern "C" __global__ __vector__ void fill(__gm__ double *out, float a, Pair pair, uint8_t c)
{
    out[block_idx] = a + pair.a + static_cast<double>(pair.b) + c + added[0];
}

__global__ __aicore__ void other(__gm__ int *out, int by)
{
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIC_ONLY);
    *out += by;
    counters::calls++;
}
