/*
 * The 16-bit floating-point types of kernels: half (IEEE) and bfloat16_t. They store 16 bits, and
 * are computed with as float, rounded to nearest even when they are stored. Compilers of the host
 * have such types of their own, but not all, and not all for C++.
 */
#ifndef NPUD_HALF_H
#define NPUD_HALF_H

#include <cstdint>
#include <cstring>
#include <type_traits>

namespace npud
{

inline uint32_t float_bits(float value)
{
    uint32_t bits;
    std::memcpy(&bits, &value, sizeof bits);
    return bits;
}

inline float bits_float(uint32_t bits)
{
    float value;
    std::memcpy(&value, &bits, sizeof value);
    return value;
}

struct HalfBits {
    /* 11 bits of precision; below 2^-14 fewer. */
    static uint16_t store(float value)
    {
        uint32_t bits = float_bits(value), sign = bits >> 16 & 0x8000, rest = bits & 0x7fffffff;
        if (rest > 0x7f800000)
            return static_cast<uint16_t>(sign | 0x7e00);
        if (rest >= 0x477ff000)
            return static_cast<uint16_t>(sign | 0x7c00);
        if (rest <
            0x38800000) /* Adding 0.5 puts the last bit of a small half at that of a float. */
            return static_cast<uint16_t>(sign |
                                         (float_bits(bits_float(rest) + 0.5F) - float_bits(0.5F)));
        return static_cast<uint16_t>(sign | (rest - 0x38000000 + 0xfff + (rest >> 13 & 1)) >> 13);
    }
    static float load(uint16_t bits)
    {
        uint32_t sign = static_cast<uint32_t>(bits & 0x8000) << 16, rest = bits & 0x7fff;
        if (rest >= 0x7c00)
            return bits_float(sign | 0x7f800000 | rest << 13);
        float value = bits_float((rest << 13) + 0x38000000);
        if (rest < 0x400)
            value = bits_float((rest << 13) + 0x38800000) - bits_float(0x38800000);
        return bits_float(float_bits(value) | sign);
    }
};

struct BfloatBits {
    static uint16_t store(float value)
    {
        uint32_t bits = float_bits(value);
        if ((bits & 0x7fffffff) > 0x7f800000)
            return static_cast<uint16_t>(bits >> 16 | 0x40);
        return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
    }
    static float load(uint16_t bits) { return bits_float(static_cast<uint32_t>(bits) << 16); }
};

template <typename Bits> struct SmallFloat {
    uint16_t bits;

    SmallFloat() = default;
    template <typename T, typename = std::enable_if_t<std::is_arithmetic_v<T>>>
    SmallFloat(T value) : bits(Bits::store(static_cast<float>(value)))
    {
    }
    template <typename Other>
    explicit SmallFloat(SmallFloat<Other> value) : SmallFloat(static_cast<float>(value))
    {
    }
    operator float() const { return Bits::load(bits); }
    SmallFloat &operator+=(float value) { return *this = *this + value; }
    SmallFloat &operator-=(float value) { return *this = *this - value; }
    SmallFloat &operator*=(float value) { return *this = *this * value; }
    SmallFloat &operator/=(float value) { return *this = *this / value; }
};

} // namespace npud

using half = npud::SmallFloat<npud::HalfBits>;
using bfloat16_t = npud::SmallFloat<npud::BfloatBits>;

#endif
