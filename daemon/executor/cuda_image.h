/* Binaries of kernels as programs give them: what the driver can be given without reading past the
 * end, since it is told no size. */
#pragma once

#include <stdint.h>

/**
 * A copy that the driver can load, which the caller frees: PTX gets the NUL that it needs. NULL:
 * the file is none of PTX, cubin (ELF) and fatbin, or says that it is longer than it is. Any
 * thread.
 */
void *cuda_image_copy(const void *file, uint64_t size);
