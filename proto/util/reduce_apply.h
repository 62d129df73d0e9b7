/*
 * Reductions in host memory: what the simulated DMA engine does with TASK_REDUCE, and the library
 * with memory of the program's that is registered.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/**
 * dst[i] = dst[i] op src[i] for `bytes` bytes of whole elements, both aligned to them; a pair that
 * reduce_offered(). Integers wrap around; float sums are rounded to nearest, ties to even, and
 * overflow to infinity; MAX and MIN with a NaN are NaN; EQUAL is 1 or 0 in the type.
 */
void reduce_apply(void *dst, const void *src, size_t bytes, uint32_t kind, uint32_t type);
