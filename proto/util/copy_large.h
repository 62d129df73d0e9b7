/*
 * Copies that are larger than what caches keep. Stores that go past the caches do not read first
 * what they overwrite, and leave the caches to others. From the first byte to the last: four pages
 * in turn were a fifth faster on some Xeons, and on AMD EPYC a third as fast as memcpy() (7.3 GB/s
 * beside 20.9, and 26.1 in order; 64 MiB). Where the processor has no such stores, or it is not
 * known whether they help (arm64), these are copies like others.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/**
 * From so many bytes on. What the same processor reads at once, and is then copied over again, only
 * gains from twice as many on: it was still in the caches. docs/performance.md has figures.
 */
#define COPY_LARGE (UINT64_C(8) << 20)

/**
 * Part of such a copy, or all of it, as memmove() does. What the thread stores afterwards is seen
 * after the bytes.
 */
void copy_large(void *dst, const void *src, size_t n);
