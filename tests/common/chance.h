/* Chance from a seed, the same on every machine: splitmix64. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

static inline uint64_t draw_random(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);

    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

/** One of 0 .. n - 1. */
static inline unsigned draw_below(uint64_t *state, unsigned n)
{
    return (unsigned)(draw_random(state) % n);
}

/** True in so many of a hundred cases. */
static inline bool draw_chance(uint64_t *state, unsigned percent)
{
    return draw_below(state, 100) < percent;
}
