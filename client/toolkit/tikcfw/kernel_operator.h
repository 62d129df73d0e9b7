/* What kernels include: words of kernels, and npud's part of the interface AscendC. */
#ifndef NPUD_KERNEL_OPERATOR_H
#define NPUD_KERNEL_OPERATOR_H

#include "npud_kernel.h"
#include "npud_print.h"
#include "npud_ascendc.h"

#endif
