/* Draws that are the same again for the same numbers. */
#pragma once

#include <stdint.h>

/** The finaliser of splitmix64: each bit of x changes about half of the result's. */
static inline uint64_t mix_bits(uint64_t x)
{
    x += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

/** A draw for a task: its place in its stream, and that among npud's streams. */
static inline uint64_t mix_task(uint64_t seed, uint64_t stream, uint64_t place)
{
    return mix_bits(mix_bits(mix_bits(seed) ^ stream) ^ place);
}
