#include "client/kernel/kernel_call.h"

#include <stdint.h>

/* W8(a, 0): a[0] to a[7] */
#define W8(a, i)                                                                                   \
    (a)[i], (a)[(i) + 1], (a)[(i) + 2], (a)[(i) + 3], (a)[(i) + 4], (a)[(i) + 5], (a)[(i) + 6],    \
        (a)[(i) + 7]
#define W32(a, i) W8(a, i), W8(a, (i) + 8), W8(a, (i) + 16), W8(a, (i) + 24)

#define T8  uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t
#define T32 T8, T8, T8, T8

typedef void call_128(T32, T32, T32, T32);

_Static_assert(KERNEL_WORDS == 128, "as many as call_128 takes");

void kernel_call(const aclnpudKernel *kernel, const void *args)
{
    const uint64_t *a = args;

    if (kernel->call)
        kernel->call(kernel->function, args);
    else
        ((call_128 *)(uintptr_t)kernel->function)(W32(a, 0), W32(a, 32), W32(a, 64), W32(a, 96));
}
