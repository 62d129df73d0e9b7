/*
 * AscendC: what is computed with vectors, and what kernels say. Included by npud_ascendc.h, in its
 * namespace. `count` elements from the begin of each tensor; or repeats of 256 bytes each, of which
 * a mask says which elements are computed.
 */
#ifndef NPUD_ASCENDC_VECTOR_H
#define NPUD_ASCENDC_VECTOR_H

/* Which elements of a repeat are computed: the first so many, or those whose bits are set. */
struct NpudMask {
    uint64_t bits[2] = {};
    uint64_t count = 0;
    NpudMask(uint64_t number) : count(number) {}
    NpudMask(const uint64_t *mask) : bits{mask[0], mask[1]} {}
    bool has(uint32_t i) const { return count ? i < count : bits[i / 64 % 2] >> i % 64 & 1; }
};

/* The element i of a repeat, by steps in blocks of 32 bytes. */
template <typename T>
inline size_t npud_repeat_index(uint32_t repeat, uint32_t i, size_t block_step, size_t repeat_step)
{
    constexpr size_t per_block = ONE_BLK_SIZE / sizeof(T);
    return (repeat * repeat_step + i / per_block * block_step) * per_block + i % per_block;
}

/* Integers wrap around as those of the device do. */
template <typename T, typename Compute> inline T npud_compute_wrapping(T a, T b, Compute compute)
{
    if constexpr (std::is_integral_v<T>)
        return static_cast<T>(compute(static_cast<uint64_t>(a), static_cast<uint64_t>(b)));
    else
        return static_cast<T>(compute(a, b));
}

template <typename T, typename Compute>
inline void npud_compute_count(const LocalTensor<T> &dst, const LocalTensor<T> &src0,
                               const LocalTensor<T> &src1, int32_t count, Compute compute)
{
    for (int32_t i = 0; i < count; i++)
        dst(i) = compute(src0(i), src1(i));
}

template <typename T, typename Compute>
inline void npud_compute_repeats(const LocalTensor<T> &dst, const LocalTensor<T> &src0,
                                 const LocalTensor<T> &src1, const NpudMask &mask, uint32_t repeats,
                                 const BinaryRepeatParams &p, Compute compute)
{
    for (uint32_t repeat = 0; repeat < repeats; repeat++)
        for (uint32_t i = 0; i < ONE_REPEAT_BYTE_SIZE / sizeof(T); i++)
            if (mask.has(i))
                dst(npud_repeat_index<T>(repeat, i, p.dstBlkStride, p.dstRepStride)) = compute(
                    src0(npud_repeat_index<T>(repeat, i, p.src0BlkStride, p.src0RepStride)),
                    src1(npud_repeat_index<T>(repeat, i, p.src1BlkStride, p.src1RepStride)));
}

inline BinaryRepeatParams npud_binary_params(const UnaryRepeatParams &p)
{
    uint8_t src = static_cast<uint8_t>(p.srcBlkStride);
    return {static_cast<uint8_t>(p.dstBlkStride),
            src,
            src,
            p.dstRepStride,
            p.srcRepStride,
            p.srcRepStride};
}

#define NPUD_VECTOR template <typename T, bool setMask = true> inline void
#define NPUD_OF(T)  const LocalTensor<T> &

#define NPUD_BINARY(Name, expression)                                                              \
    template <typename T> inline T npud_compute_##Name(T a, T b)                                   \
    {                                                                                              \
        return static_cast<T>(expression);                                                         \
    }                                                                                              \
    NPUD_VECTOR Name(NPUD_OF(T) dst, NPUD_OF(T) src0, NPUD_OF(T) src1, int32_t count)              \
    {                                                                                              \
        npud_compute_count(dst, src0, src1, count, npud_compute_##Name<T>);                        \
    }                                                                                              \
    NPUD_VECTOR Name(NPUD_OF(T) dst, NPUD_OF(T) src0, NPUD_OF(T) src1, const NpudMask &mask,       \
                     uint8_t repeats, const BinaryRepeatParams &params)                            \
    {                                                                                              \
        npud_compute_repeats(dst, src0, src1, mask, repeats, params, npud_compute_##Name<T>);      \
    }
NPUD_BINARY(Add, npud_compute_wrapping(a, b, [](auto x, auto y) { return x + y; }))
NPUD_BINARY(Sub, npud_compute_wrapping(a, b, [](auto x, auto y) { return x - y; }))
NPUD_BINARY(Mul, npud_compute_wrapping(a, b, [](auto x, auto y) { return x * y; }))
NPUD_BINARY(Div, a / b)
NPUD_BINARY(Max, a < b ? b : a)
NPUD_BINARY(Min, b < a ? b : a)
NPUD_BINARY(And, a &b)
NPUD_BINARY(Or, a | b)

#define NPUD_UNARY(Name, expression)                                                               \
    template <typename T> inline T npud_compute_##Name(T a, T)                                     \
    {                                                                                              \
        return static_cast<T>(expression);                                                         \
    }                                                                                              \
    NPUD_VECTOR Name(NPUD_OF(T) dst, NPUD_OF(T) src, int32_t count)                                \
    {                                                                                              \
        npud_compute_count(dst, src, src, count, npud_compute_##Name<T>);                          \
    }                                                                                              \
    NPUD_VECTOR Name(NPUD_OF(T) dst, NPUD_OF(T) src, const NpudMask &mask, uint8_t repeats,        \
                     const UnaryRepeatParams &params)                                              \
    {                                                                                              \
        npud_compute_repeats(dst, src, src, mask, repeats, npud_binary_params(params),             \
                             npud_compute_##Name<T>);                                              \
    }
NPUD_UNARY(Exp, std::exp(+a))
NPUD_UNARY(Ln, std::log(+a))
NPUD_UNARY(Sqrt, std::sqrt(+a))
NPUD_UNARY(Rsqrt, 1 / std::sqrt(+a))
NPUD_UNARY(Reciprocal, 1 / +a)
NPUD_UNARY(Abs, a < T(0) ? T(-a) : a)
NPUD_UNARY(Relu, a < T(0) ? T(0) : a)
NPUD_UNARY(Not, ~a)
NPUD_UNARY(Tanh, std::tanh(+a))
NPUD_UNARY(Sin, std::sin(+a))
NPUD_UNARY(Cos, std::cos(+a))
NPUD_UNARY(Sigmoid, 1 / (1 + std::exp(-a)))

#define NPUD_SCALAR(Name, expression)                                                              \
    template <typename T> inline T npud_compute_##Name(T a, T b)                                   \
    {                                                                                              \
        return static_cast<T>(expression);                                                         \
    }                                                                                              \
    NPUD_VECTOR Name(NPUD_OF(T) dst, NPUD_OF(T) src, const std::common_type_t<T> &scalar,          \
                     int32_t count)                                                                \
    {                                                                                              \
        npud_compute_count(dst, src, src, count,                                                   \
                           [&](T a, T) { return npud_compute_##Name<T>(a, scalar); });             \
    }                                                                                              \
    NPUD_VECTOR Name(NPUD_OF(T) dst, NPUD_OF(T) src, const std::common_type_t<T> &scalar,          \
                     const NpudMask &mask, uint8_t repeats, const UnaryRepeatParams &params)       \
    {                                                                                              \
        npud_compute_repeats(dst, src, src, mask, repeats, npud_binary_params(params),             \
                             [&](T a, T) { return npud_compute_##Name<T>(a, scalar); });           \
    }
NPUD_SCALAR(Adds, npud_compute_Add(a, b))
NPUD_SCALAR(Muls, npud_compute_Mul(a, b))
NPUD_SCALAR(Maxs, npud_compute_Max(a, b))
NPUD_SCALAR(Mins, npud_compute_Min(a, b))
NPUD_SCALAR(LeakyRelu, a < T(0) ? T(a * b) : a)
NPUD_SCALAR(ShiftLeft, a << b)
NPUD_SCALAR(ShiftRight, a >> b)
#undef NPUD_BINARY
#undef NPUD_UNARY
#undef NPUD_SCALAR

template <typename T, typename U>
inline void Axpy(const LocalTensor<T> &dst, const LocalTensor<U> &src,
                 const std::common_type_t<U> &scalar, int32_t count)
{
    for (int32_t i = 0; i < count; i++)
        dst(i) = static_cast<T>(dst(i) + static_cast<T>(src(i)) * static_cast<T>(scalar));
}

template <typename T, bool setMask = true>
inline void Duplicate(const LocalTensor<T> &dst, const std::common_type_t<T> &scalar, int32_t count)
{
    std::fill_n(dst.GetPhyAddr(), count, scalar);
}

template <typename T>
inline void CreateVecIndex(const LocalTensor<T> &dst, const std::common_type_t<T> &first,
                           uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        dst(i) = static_cast<T>(first + static_cast<T>(i));
}

inline double npud_round_number(double value, RoundMode mode)
{
    switch (mode) {
    case RoundMode::CAST_FLOOR:
        return std::floor(value);
    case RoundMode::CAST_CEIL:
        return std::ceil(value);
    case RoundMode::CAST_ROUND:
        return std::round(value);
    case RoundMode::CAST_TRUNC:
        return std::trunc(value);
    default:
        return std::nearbyint(value);
    }
}

/* To integers by the mode, at most to the ends of their range; to halves to nearest even. */
template <typename To, typename From> inline To npud_cast_number(From value, RoundMode mode)
{
    if constexpr (std::is_integral_v<To> && !std::is_integral_v<From>) {
        double number = npud_round_number(static_cast<double>(value), mode);
        if (number >= static_cast<double>(std::numeric_limits<To>::max()))
            return std::numeric_limits<To>::max();
        return number > static_cast<double>(std::numeric_limits<To>::min())
                   ? static_cast<To>(number)
               : number == number ? std::numeric_limits<To>::min()
                                  : To(0);
    } else if constexpr (std::is_same_v<To, From> && !std::is_integral_v<To>) {
        return static_cast<To>(npud_round_number(static_cast<double>(value), mode));
    } else {
        if (!std::is_integral_v<To> && mode > RoundMode::CAST_RINT && sizeof(To) < sizeof(From))
            npud::fail("AscendC: Cast: npud rounds to half and bfloat16_t by CAST_NONE and "
                       "CAST_RINT alone\n");
        return static_cast<To>(value);
    }
}

template <typename To, typename From, bool setMask = true>
inline void Cast(const LocalTensor<To> &dst, const LocalTensor<From> &src, RoundMode mode,
                 uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        dst(i) = npud_cast_number<To, From>(src(i), mode);
}

/* --- reductions: one number to dst, and behind it, if asked for, the bits of its index --- */

template <typename T, bool setMask = true>
inline void ReduceSum(const LocalTensor<T> &dst, const LocalTensor<T> &src, const LocalTensor<T> &,
                      int32_t count)
{
    T sum = T(0);
    for (int32_t i = 0; i < count; i++)
        sum = npud_compute_Add<T>(sum, src(i));
    dst(0) = sum;
}

template <typename T, typename Better>
inline void npud_reduce_best(const LocalTensor<T> &dst, const LocalTensor<T> &src, int32_t count,
                             bool with_index, Better better)
{
    uint32_t best = 0;
    for (int32_t i = 1; i < count; i++)
        if (better(src(i), src(best)))
            best = static_cast<uint32_t>(i);
    dst(0) = src(best);
    if (with_index)
        std::memcpy(dst.GetPhyAddr(1), &best, std::min(sizeof(T), sizeof best));
}

template <typename T>
inline void ReduceMax(const LocalTensor<T> &dst, const LocalTensor<T> &src, const LocalTensor<T> &,
                      int32_t count, bool calIndex = false)
{
    npud_reduce_best(dst, src, count, calIndex, [](T a, T b) { return a > b; });
}

template <typename T>
inline void ReduceMin(const LocalTensor<T> &dst, const LocalTensor<T> &src, const LocalTensor<T> &,
                      int32_t count, bool calIndex = false)
{
    npud_reduce_best(dst, src, count, calIndex, [](T a, T b) { return a < b; });
}

/* --- comparisons: a bit for each npud_element, the first the lowest of a byte --- */

template <typename T> inline T npud_element(const LocalTensor<T> &from, uint32_t i)
{
    return from(i);
}
template <typename T> inline T npud_element(const T &scalar, uint32_t) { return scalar; }

template <typename T, typename Bits, typename Second>
inline void CompareScalar(const LocalTensor<Bits> &dst, const LocalTensor<T> &src, Second second,
                          CMPMODE mode, uint32_t count)
{
    uint8_t *bytes = reinterpret_cast<uint8_t *>(dst.GetPhyAddr());
    for (uint32_t i = 0; i < count; i++) {
        T a = src(i), b = npud_element<T>(second, i);
        const bool results[] = {a<b, a> b, a == b, a <= b, a >= b, a != b};
        uint8_t bit = static_cast<uint8_t>(1U << i % 8), other = bytes[i / 8] & ~bit;
        bytes[i / 8] = results[static_cast<uint8_t>(mode)] ? other | bit : other;
    }
}

template <typename T, typename Bits>
inline void Compare(const LocalTensor<Bits> &dst, const LocalTensor<T> &src0,
                    const LocalTensor<T> &src1, CMPMODE mode, uint32_t count)
{
    CompareScalar(dst, src0, src1, mode, count);
}

template <typename T, typename Bits, typename Second>
inline void Select(const LocalTensor<T> &dst, const LocalTensor<Bits> &mask,
                   const LocalTensor<T> &src0, const Second &src1, SELMODE, uint32_t count)
{
    const uint8_t *bytes = reinterpret_cast<const uint8_t *>(mask.GetPhyAddr());
    for (uint32_t i = 0; i < count; i++)
        dst(i) = bytes[i / 8] >> i % 8 & 1 ? src0(i) : npud_element<T>(src1, i);
}

/* --- waiting --- */

template <HardEvent event> inline void SetFlag(int32_t) {}
template <HardEvent event> inline void WaitFlag(int32_t) {}
template <pipe_t pipe> inline void PipeBarrier() {}
inline void InitSocState() {}
inline void SyncAll() { npud::block_sync(); }
template <bool isAIVOnly> inline void SyncAll() { npud::block_sync(); }
template <bool isAIVOnly = true, typename T>
inline void SyncAll(const GlobalTensor<T> &, const LocalTensor<int32_t> &, int32_t = 0)
{
    npud::block_sync();
}
template <typename T, CacheLine line, DcciDst to = DcciDst::CACHELINE_ALL>
inline void DataCacheCleanAndInvalid(const GlobalTensor<T> &)
{
    dcci(nullptr);
}

/* The whole workspace is the program's: npud needs no part of it. */
inline __gm__ uint8_t *GetUserWorkspace(GM_ADDR workspace) { return workspace; }

/* --- what kernels say --- */

/* What printf() takes for a value. */
template <typename T> inline auto npud_printable(T value)
{
    if constexpr (std::is_same_v<T, half> || std::is_same_v<T, bfloat16_t>)
        return static_cast<double>(value);
    else if constexpr (std::is_class_v<T>)
        return static_cast<int64_t>(value);
    else
        return value;
}

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-security"
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
template <typename... Values> inline int printf(const __gm__ char *format, Values... values)
{
    return aclnpudKernelPrint(format, npud_printable(values)...);
}
#pragma GCC diagnostic pop

template <typename Tensor>
inline void DumpTensor(const Tensor &tensor, uint32_t desc, uint32_t count)
{
    aclnpudKernelPrint("DumpTensor: desc=%u, block %u, %u elements\n", desc,
                       npud::block_self()->index, count);
    for (uint32_t i = 0; i < count; i++)
        aclnpudKernelPrint("%g%s", static_cast<double>(tensor.GetValue(i)),
                           i % 8 == 7 || i + 1 == count ? "\n" : " ");
}

/* --- what npud lacks --- */

template <typename...> inline constexpr bool npud_never = false;

#define NPUD_LACKS(name)                                                                           \
    template <typename... Template, typename... Arguments> inline void name(Arguments...)          \
    {                                                                                              \
        static_assert(npud_never<Arguments...>,                                                    \
                      "npud's AscendC has no " #name                                               \
                      ": docs/kernels.md lists what it has; write a loop over GetValue() and "     \
                      "SetValue(), or leave the kernel out");                                      \
    }
NPUD_LACKS(Mmad)
NPUD_LACKS(LoadData)
NPUD_LACKS(Fixpipe)
NPUD_LACKS(Gather)
NPUD_LACKS(Scatter)
NPUD_LACKS(Transpose)
NPUD_LACKS(Broadcast)
NPUD_LACKS(Brcb)
NPUD_LACKS(WholeReduceSum)
NPUD_LACKS(WholeReduceMax)
NPUD_LACKS(BlockReduceSum)
NPUD_LACKS(Sort)
NPUD_LACKS(SoftMax)
NPUD_LACKS(CrossCoreSetFlag)
NPUD_LACKS(CrossCoreWaitFlag)
#undef NPUD_LACKS

#define PRINTF(...)            ::AscendC::printf(__VA_ARGS__)
#define KERNEL_ERROR           "ERROR"
#define KERNEL_WARN            "WARN"
#define KERNEL_INFO            "INFO"
#define KERNEL_LOG(level, ...) (::AscendC::printf("[%s] ", level), ::AscendC::printf(__VA_ARGS__))
#define ASCENDC_ASSERT(condition, behaviour)                                                       \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            behaviour;                                                                             \
            ::npud::fail("%s:%d: block %u: %s does not hold\n", __FILE__, __LINE__,                \
                         ::npud::block_self()->index, #condition);                                 \
        }                                                                                          \
    } while (0)
#define ASSERT(condition)              ASCENDC_ASSERT(condition, )
#define ascendc_assert(condition, ...) ASCENDC_ASSERT(condition, ::AscendC::printf("" __VA_ARGS__))

#endif
