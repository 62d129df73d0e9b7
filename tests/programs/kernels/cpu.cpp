// RUN_MODE cpu: a kernel runs without a device, and without npud.
#include "tikicpulib.h"

#include <cstdio>

extern "C" __global__ __aicore__ void sum_blocks(GM_ADDR x, GM_ADDR sums, GM_ADDR all);

int main()
{
    uint8_t *x = (uint8_t *)AscendC::GmAlloc(8 * 512 * sizeof(float));
    uint8_t *sums = (uint8_t *)AscendC::GmAlloc(8 * sizeof(float));
    uint8_t *all = (uint8_t *)AscendC::GmAlloc(sizeof(float));

    for (int i = 0; i < 8 * 512; i++)
        ((float *)x)[i] = static_cast<float>(i % 3);
    AscendC::SetKernelMode(KernelMode::AIV_MODE);
    ICPU_RUN_KF(sum_blocks, 8, x, sums, all);
    bool right = *(float *)all == 4095 && ((float *)sums)[1] == 512;
    AscendC::GmFree(x);
    AscendC::GmFree(sums);
    AscendC::GmFree(all);
    return right ? 0 : 1;
}
