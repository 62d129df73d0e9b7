/* How a kernel is called with a block of arguments. */
#pragma once

#include "acl/acl_npud_kernel.h"

#define KERNEL_WORDS 128u

/**
 * Call it for the block that the calling thread is at. Without kernel->call, args are KERNEL_WORDS
 * words: a function ignores those behind its own, on all processors that npud runs on.
 */
void kernel_call(const aclnpudKernel *kernel, const void *args);
