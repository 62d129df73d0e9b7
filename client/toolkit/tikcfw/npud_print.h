/* What kernels say: lines on the standard output of the program, and assertions. */
#ifndef NPUD_PRINT_H
#define NPUD_PRINT_H

#include "npud_kernel.h"

namespace AscendC
{

/* What printf() takes for a value: a half as a float, block_idx as an integer. */
template <typename T> inline auto npud_printable(T value)
{
    if constexpr (std::is_class_v<T>)
        return +value;
    else
        return value;
}

template <typename... Values> inline int printf(const __gm__ char *format, Values... values)
{
    return npud::print(format, npud_printable(values)...);
}

template <typename Tensor>
inline void DumpTensor(const Tensor &tensor, uint32_t desc, uint32_t count)
{
    aclnpudKernelPrint("DumpTensor: desc=%u, block %u, %u elements\n", desc,
                       npud::block_self()->index, count);
    for (uint32_t i = 0; i < count; i++)
        aclnpudKernelPrint("%g%s", static_cast<double>(tensor.GetValue(i)),
                           i % 8 == 7 || i + 1 == count ? "\n" : " ");
}

} // namespace AscendC

#define PRINTF(...)            ::AscendC::printf(__VA_ARGS__)
#define KERNEL_ERROR           "ERROR"
#define KERNEL_WARN            "WARN"
#define KERNEL_INFO            "INFO"
#define KERNEL_LOG(level, ...) (::AscendC::printf("[%s] ", level), ::AscendC::printf(__VA_ARGS__))
#define ASCENDC_ASSERT(condition, behaviour)                                                       \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            behaviour;                                                                             \
            ::npud::fail("%s:%d: block %u: %s does not hold\n", __FILE__, __LINE__,                \
                         ::npud::block_self()->index, #condition);                                 \
        }                                                                                          \
    } while (0)
#define ASSERT(condition)              ASCENDC_ASSERT(condition, )
#define ascendc_assert(condition, ...) ASCENDC_ASSERT(condition, ::AscendC::printf("" __VA_ARGS__))

#endif
