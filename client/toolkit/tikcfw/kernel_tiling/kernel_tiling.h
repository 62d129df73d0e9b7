/* Kernels include it for structures of operators that npud does not have; a kernel that names one
 * does not compile. */
#ifndef NPUD_KERNEL_TILING_H
#define NPUD_KERNEL_TILING_H

#include "kernel_operator.h"

#endif
