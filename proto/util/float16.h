/*
 * Numbers of 16 bits: IEEE half precision (ACL_FLOAT16) and the upper half of single precision
 * (ACL_BF16). Rounding is to nearest, ties to even. Subnormals, infinities and NaN are as in single
 * precision.
 */
#pragma once

#include <stdint.h>
#include <string.h>

#define FLOAT_MANTISSA_BITS 23
#define HALF_MANTISSA_BITS  10
#define FLOAT_BIAS          127
#define HALF_BIAS           15
#define HALF_INFINITY       0x7C00U
/* Bits by which mantissas differ. */
#define HALF_SHIFT (FLOAT_MANTISSA_BITS - HALF_MANTISSA_BITS)

static inline float float_from_bits(uint32_t bits)
{
    float value;

    memcpy(&value, &bits, sizeof(value));
    return value;
}

static inline uint32_t bits_of_float(float value)
{
    uint32_t bits;

    memcpy(&bits, &value, sizeof(bits));
    return bits;
}

static inline float half_to_float(uint16_t value)
{
    const uint32_t sign = (uint32_t)(value & 0x8000U) << 16;
    uint32_t exponent = (value >> HALF_MANTISSA_BITS) & 0x1FU;
    uint32_t mantissa = value & 0x3FFU;

    if (exponent == 0x1F)
        return float_from_bits(sign | 0x7F800000U | mantissa << HALF_SHIFT);
    if (exponent == 0) {
        if (mantissa == 0)
            return float_from_bits(sign);
        /* Subnormal: every such number is a normal one in single precision. */
        for (exponent = 1; (mantissa & 0x400U) == 0; exponent--)
            mantissa <<= 1;
        mantissa &= 0x3FFU;
    }
    exponent += FLOAT_BIAS - HALF_BIAS; /* wraps below zero and back */
    return float_from_bits(sign | exponent << FLOAT_MANTISSA_BITS | mantissa << HALF_SHIFT);
}

/* Shifts right by 1 to 31 bits, rounding to nearest and ties to even. */
static inline uint32_t shift_rounding(uint32_t bits, unsigned int shift)
{
    const uint32_t rest = bits & ((1U << shift) - 1);
    const uint32_t half = 1U << (shift - 1);
    const uint32_t result = bits >> shift;

    return result + (rest > half || (rest == half && (result & 1U) != 0));
}

static inline uint16_t half_from_float(float value)
{
    const uint32_t bits = bits_of_float(value);
    const uint32_t sign = bits >> 16 & 0x8000U;
    const int exponent = (int)(bits >> FLOAT_MANTISSA_BITS & 0xFFU) - FLOAT_BIAS + HALF_BIAS;
    uint32_t mantissa = bits & 0x7FFFFFU;
    uint32_t half;

    if (exponent == 0xFF - FLOAT_BIAS + HALF_BIAS && mantissa != 0) {
        half = HALF_INFINITY | 0x200U | mantissa >> HALF_SHIFT;
    } else if (exponent >= 0x1F) { /* too large, or infinite */
        half = HALF_INFINITY;
    } else if (exponent > 0) {
        /* A carry out of the mantissa rightly raises the exponent, up to infinity. */
        half = shift_rounding((uint32_t)exponent << FLOAT_MANTISSA_BITS | mantissa, HALF_SHIFT);
    } else if (exponent >= -HALF_MANTISSA_BITS) {
        mantissa |= 1U << FLOAT_MANTISSA_BITS;
        half = shift_rounding(mantissa, (unsigned int)(HALF_SHIFT + 1 - exponent));
    } else { /* below half of the smallest subnormal */
        half = 0;
    }
    return (uint16_t)(sign | half);
}

static inline float bf16_to_float(uint16_t value)
{
    return float_from_bits((uint32_t)value << 16);
}

static inline uint16_t bf16_from_float(float value)
{
    const uint32_t bits = bits_of_float(value);

    if ((bits & 0x7FFFFFFFU) > 0x7F800000U) /* rounding could carry a NaN into the sign */
        return (uint16_t)(bits >> 16 | 0x40U);
    return (uint16_t)shift_rounding(bits, 16);
}
