// Kernels in plain C++, with a function of the host beside each that launches it.
#include "plain_kernels.h"
#include "kernel_operator.h"

#if __NPU_ARCH__ != 3510
#error "CMAKE_ASC_ARCHITECTURES is not what the project says"
#endif

#define LAUNCH(kernel, ...) kernel<<<1, nullptr, stream>>>(__VA_ARGS__)

extern "C" __global__ __aicore__ void saxpy(__gm__ float *y, __gm__ const float *x, float a,
                                            uint32_t size)
{
    for (uint32_t i = block_idx; i < size; i += block_num)
        y[i] = a * x[i] + y[i];
}

extern "C" __global__ __aicore__ void mix_all(__gm__ double *out, Mix mix, double by, bool negate)
{
    double value = mix.factor * by + mix.shift + mix.offsets[get_block_idx()];
    out[get_block_idx()] = negate ? -value : value;
}

extern "C" __global__ __aicore__ void nothing()
{
}

namespace first
{
namespace
{
__global__ __aicore__ void hidden(__gm__ int *out)
{
    out[0] = 1 << 4;
}
} // namespace

__global__ __aicore__ void seen(__gm__ int *out)
{
    out[1] = 2;
}

namespace second
{
template <typename T> struct Of {
    template <int add> static __global__ __aicore__ void member(__gm__ T *out)
    {
        out[2] = add;
    }
};
} // namespace second
} // namespace first

int launch_saxpy(uint32_t blocks, void *stream, float *y, const float *x, float a, uint32_t size)
{
    return saxpy<<<blocks, nullptr, stream>>>(y, x, a, size); // not this one: k<<<1, 2, 3>>>(4)
}

int launch_mix(uint32_t blocks, void *stream, double *out, Mix mix, double by, bool negate)
{
    // clang-format off
    return mix_all<<<
        blocks,
        nullptr,
        stream>>>
        (out,
         mix, by, negate);
    // clang-format on
}

int launch_nothing(void *stream)
{
    return LAUNCH(nothing);
}

int launch_in_namespaces(void *stream, int *out)
{
    const char *text = R"(none in<<<here, is, a>>>(launch))";
    void (*pointer)(int *) = first::seen;
    if (int code = ::first::hidden<<<1, 0, stream>>>(out))
        return code;
    // clang-format off
    if (int code = (text ? pointer : nullptr)<<<(1 << 1) >> 1, nullptr, stream>>>(out))
        return code;
    // clang-format on
    return static_cast<int>(
        LAUNCH((first::second::Of<int>::member<static_cast<int>(sizeof(int))>), out));
}
