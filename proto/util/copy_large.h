/*
 * Copies that are larger than what caches keep. Stores that go past the caches do not read first
 * what they overwrite, and leave the caches to others. From the first byte to the last: several
 * pages in turn are slow on some processors (docs/performance.md has figures, (f)). Where the
 * processor has no such stores, or it is not known whether they help (arm64), these are copies like
 * others.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/**
 * From so many bytes on. What the same processor reads at once, and is then copied over again, only
 * gains from twice as many on: it was still in the caches.
 */
#define COPY_LARGE (UINT64_C(8) << 20)

/**
 * Part of such a copy, or all of it, as memmove() does. What the thread stores afterwards is seen
 * after the bytes.
 */
void copy_large(void *dst, const void *src, size_t n);
