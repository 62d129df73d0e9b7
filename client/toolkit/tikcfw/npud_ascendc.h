/*
 * npud's part of AscendC, the interface of kernels for vectors: what docs/kernels.md lists. One
 * thread runs a block, and each call has done its work when it returns; so flags and barriers
 * between pipes have nothing to do. Buffers are memory of the block (aclnpudBlockMemory).
 */
#ifndef NPUD_ASCENDC_H
#define NPUD_ASCENDC_H

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "npud_kernel.h"

/* --- words --- */

// clang-format off
enum pipe_t { PIPE_S, PIPE_V, PIPE_M, PIPE_MTE1, PIPE_MTE2, PIPE_MTE3, PIPE_ALL, PIPE_FIX };
enum event_t {
    EVENT_ID0, EVENT_ID1, EVENT_ID2, EVENT_ID3, EVENT_ID4, EVENT_ID5, EVENT_ID6, EVENT_ID7
};
enum class cache_line_t { SINGLE_CACHE_LINE, ENTIRE_DATA_CACHE };
enum class dcci_dst_t { CACHELINE_ALL, CACHELINE_UB, CACHELINE_OUT, CACHELINE_ATOMIC };

/* The vector half of a block runs; kernels leave the cube half out by these. */
#define ASCEND_IS_AIV constexpr(true)
#define ASCEND_IS_AIC constexpr(false)
// clang-format on

inline void set_flag(pipe_t, pipe_t, int) {}
inline void wait_flag(pipe_t, pipe_t, int) {}
inline void pipe_barrier(pipe_t) {}

/* Memory of the host is coherent; other threads see the stores in order. */
template <typename... Kinds> inline void dcci(const volatile void *, Kinds...)
{
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
}

namespace AscendC
{

// clang-format off
enum class TPosition : uint8_t {
    GM, A1, A2, B1, B2, C1, C2, CO1, CO2, VECIN, VECOUT, VECCALC, LCM, SPM, SHM, TSCM, MAX
};
using QuePosition = TPosition;
using TEventID = int32_t;
using CacheLine = cache_line_t;
using DcciDst = dcci_dst_t;
enum class Hardware : uint8_t { GM, UB, L1, L0A, L0B, L0C, BIAS, FIXBUF, MAX };
enum class HardEvent : uint8_t {
    MTE2_MTE1, MTE1_MTE2, MTE1_M, M_MTE1, MTE2_V, V_MTE2, MTE3_V, V_MTE3, M_V, V_M, V_V, MTE3_MTE1,
    MTE1_MTE3, MTE1_V, MTE2_M, M_MTE2, V_MTE1, M_FIX, FIX_M, MTE3_MTE2, MTE2_MTE3, S_V, V_S, S_MTE2,
    MTE2_S, S_MTE3, MTE3_S, MTE2_FIX, FIX_MTE2, FIX_S, M_S, FIX_MTE3, FIX_V, MAX
};
enum class RoundMode {
    CAST_NONE, CAST_RINT, CAST_FLOOR, CAST_CEIL, CAST_ROUND, CAST_TRUNC, CAST_ODD
};
enum class CMPMODE : uint8_t { LT, GT, EQ, LE, GE, NE };
enum class SELMODE : uint8_t { VSEL_CMPMASK_SPR, VSEL_TENSOR_SCALAR_MODE, VSEL_TENSOR_TENSOR_MODE };
// clang-format on

constexpr uint32_t ONE_BLK_SIZE = 32;
constexpr uint32_t ONE_REPEAT_BYTE_SIZE = 256;

/* Of copies: lengths and gaps in blocks of 32 bytes. */
struct DataCopyParams {
    uint16_t blockCount = 1, blockLen = 0, srcStride = 0, dstStride = 0;
};
/* Of padded copies, which take DataCopyParams as well: lengths and gaps in bytes on the side of
 * global memory, gaps in blocks of 32 bytes on the other. */
struct DataCopyExtParams {
    uint16_t blockCount = 1;
    uint32_t blockLen = 0, srcStride = 0, dstStride = 0, rsv = 0;
};
template <typename T> struct DataCopyPadExtParams {
    bool isPad = false;
    uint8_t leftPadding = 0, rightPadding = 0;
    T paddingValue = T(0);
};
using DataCopyPadParams = DataCopyPadExtParams<uint64_t>; /* the bits of an element */
/* Of repeats: steps in blocks of 32 bytes. */
struct BinaryRepeatParams {
    uint8_t dstBlkStride = 1, src0BlkStride = 1, src1BlkStride = 1;
    uint8_t dstRepStride = 8, src0RepStride = 8, src1RepStride = 8;
};
struct UnaryRepeatParams {
    uint16_t dstBlkStride = 1, srcBlkStride = 1;
    uint8_t dstRepStride = 8, srcRepStride = 8;
    operator BinaryRepeatParams() const
    {
        uint8_t dst = static_cast<uint8_t>(dstBlkStride), src = static_cast<uint8_t>(srcBlkStride);
        return {dst, src, src, dstRepStride, srcRepStride, srcRepStride};
    }
};

inline int64_t GetBlockIdx() { return npud::block_self()->index; }
inline int64_t GetBlockNum() { return npud::block_self()->num; }
inline int64_t GetSubBlockIdx() { return npud::block_self()->subIndex; }
inline int64_t GetSubBlockNum() { return npud::block_self()->subNum; }
inline int64_t GetTaskRation() { return npud::block_self()->subNum; }

/* --- tensors --- */

template <typename Tensor, typename T, typename Size> class NpudTensor
{
  public:
    using PrimType = T;
    NpudTensor() = default;
    NpudTensor(void *memory, Size size) : data_(static_cast<T *>(memory)), size_(size) {}
    T GetValue(Size index) const { return data_[index]; }
    template <typename V> void SetValue(Size index, V v) const { data_[index] = static_cast<T>(v); }
    T &operator()(Size index) const { return data_[index]; }
    Tensor operator[](Size offset) const
    {
        return {data_ + offset, offset < size_ ? size_ - offset : 0};
    }
    T *GetPhyAddr(Size offset = 0) const { return data_ + offset; }
    Size GetSize() const { return size_; }

  protected:
    T *data_ = nullptr;
    Size size_ = 0;
};

template <typename T> class LocalTensor : public NpudTensor<LocalTensor<T>, T, uint32_t>
{
  public:
    using NpudTensor<LocalTensor, T, uint32_t>::NpudTensor;
    template <typename Other> LocalTensor<Other> ReinterpretCast() const
    {
        return {this->data_, static_cast<uint32_t>(GetLength() / sizeof(Other))};
    }
    uint32_t GetLength() const { return static_cast<uint32_t>(this->size_ * sizeof(T)); }
    void SetSize(uint32_t size) { this->size_ = size; }
};

template <typename T> class GlobalTensor : public NpudTensor<GlobalTensor<T>, T, uint64_t>
{
  public:
    using NpudTensor<GlobalTensor, T, uint64_t>::NpudTensor;
    void SetGlobalBuffer(__gm__ T *memory, uint64_t size = 0) { *this = {memory, size}; }
};

/* --- buffers and queues --- */

inline uint32_t npud_round_block(uint64_t n) { return static_cast<uint32_t>((n + 31) / 32 * 32); }

inline char *npud_allocate(uint64_t bytes)
{
    void *memory = npud::block_memory(bytes ? bytes : 1);
    if (!memory)
        npud::fail("AscendC: buffers are for kernels: this is no thread that runs a kernel\n");
    return static_cast<char *>(memory);
}

/* Its buffers are free, taken by AllocTensor() or DeQue(), or queued. */
template <TPosition position, int32_t depth, int32_t mask = 0> class TQue
{
  public:
    template <typename T> LocalTensor<T> AllocTensor()
    {
        uint32_t i = static_cast<uint32_t>(std::find(taken_, taken_ + number_, false) - taken_);
        if (i == number_)
            npud::fail("AscendC: AllocTensor: all %u buffers are taken: FreeTensor() one\n", i);
        taken_[i] = true;
        return tensor<T>(i);
    }
    template <typename T> bool EnQue(const LocalTensor<T> &tensor)
    {
        if (queued_ == number_)
            npud::fail("AscendC: EnQue: all %u buffers of the queue are in it already\n", number_);
        queue_[static_cast<uint8_t>(head_ + queued_++)] = find(tensor.GetPhyAddr(), "EnQue");
        return true;
    }
    template <typename T> LocalTensor<T> DeQue()
    {
        if (queued_ == 0)
            npud::fail("AscendC: DeQue: the queue is empty: EnQue() a tensor first\n");
        queued_--;
        return tensor<T>(queue_[head_++]);
    }
    template <typename T> void FreeTensor(const LocalTensor<T> &tensor)
    {
        taken_[find(tensor.GetPhyAddr(), "FreeTensor")] = false;
    }
    bool VacantInQue() const { return queued_ < number_; }
    bool HasTensorInQue() const { return queued_ > 0; }
    int32_t GetTensorCountInQue() const { return static_cast<int32_t>(queued_); }
    bool HasIdleBuffer() const { return std::count(taken_, taken_ + number_, false) > 0; }
    void set_memory(char *memory, uint8_t number, uint32_t length)
    {
        *this = TQue();
        memory_ = memory;
        number_ = number;
        length_ = length;
    }

  protected:
    template <typename T> LocalTensor<T> tensor(uint32_t i) const
    {
        return {memory_ + size_t{i} * length_, static_cast<uint32_t>(length_ / sizeof(T))};
    }
    uint8_t find(const void *memory, const char *what) const
    {
        for (uint8_t i = 0; i < number_; i++)
            if (memory_ + size_t{i} * length_ == memory && taken_[i])
                return i;
        npud::fail("AscendC: %s: the tensor is from no buffer of this queue, or was freed\n", what);
    }

    char *memory_ = nullptr;
    bool taken_[256] = {};
    uint8_t queue_[256] = {}, head_ = 0; /* a ring of indices */
    uint32_t number_ = 0, length_ = 0, queued_ = 0;
};

template <TPosition from, TPosition to, int32_t depth, int32_t mask = 0>
using TQueBind = TQue<from, depth, mask>;

template <TPosition position = TPosition::LCM> class TBuf : public TQue<position, 1>
{
  public:
    template <typename T> LocalTensor<T> Get(uint32_t size) const { return {this->memory_, size}; }
    template <typename T> LocalTensor<T> Get() const { return this->template tensor<T>(0); }
    template <typename T> LocalTensor<T> GetWithOffset(uint32_t size, uint32_t offset) const
    {
        return {this->memory_ + offset, size};
    }
    uint32_t GetBufLen() const { return this->length_; }
};

class TPipe
{
  public:
    template <typename Queue> bool InitBuffer(Queue &queue, uint8_t number, uint32_t length)
    {
        length = npud_round_block(length);
        queue.set_memory(npud_allocate(uint64_t{number} * length), number, length);
        return true;
    }
    template <TPosition position> bool InitBuffer(TBuf<position> &buffer, uint32_t length)
    {
        return InitBuffer(buffer, 1, length);
    }
    template <HardEvent event> TEventID AllocEventID() { return EVENT_ID0; }
    template <HardEvent event> void ReleaseEventID(TEventID) {}
    template <HardEvent event> TEventID FetchEventID() { return EVENT_ID0; }
    TEventID FetchEventID(HardEvent) { return EVENT_ID0; }
    void Init() {}
    void Reset() {}
    void Destroy() {}
};

inline TPipe npud_pipe;
inline TPipe *GetTPipePtr() { return &npud_pipe; }

template <Hardware hardware = Hardware::UB> class LocalMemAllocator
{
  public:
    template <typename T> LocalTensor<T> Alloc(uint32_t size)
    {
        return {npud_allocate(npud_round_block(size * sizeof(T))), size};
    }
    template <typename T, uint32_t size> LocalTensor<T> Alloc() { return Alloc<T>(size); }
    template <TPosition, typename T> LocalTensor<T> Alloc(uint32_t size) { return Alloc<T>(size); }
    template <TPosition, typename T, uint32_t n> LocalTensor<T> Alloc() { return Alloc<T>(n); }
};

/* --- copies --- */

enum NpudAtomic { NPUD_ATOMIC_NONE, NPUD_ATOMIC_ADD, NPUD_ATOMIC_MAX, NPUD_ATOMIC_MIN };
template <typename T> inline void SetAtomicAdd() { npud::block_state.atomic = NPUD_ATOMIC_ADD; }
template <typename T> inline void SetAtomicMax() { npud::block_state.atomic = NPUD_ATOMIC_MAX; }
template <typename T> inline void SetAtomicMin() { npud::block_state.atomic = NPUD_ATOMIC_MIN; }
inline void SetAtomicNone() { npud::block_state.atomic = NPUD_ATOMIC_NONE; }

template <typename T> inline void npud_store_atomic(T *to, T value)
{
    T was, next;
    __atomic_load(to, &was, __ATOMIC_RELAXED);
    do {
        if (npud::block_state.atomic == NPUD_ATOMIC_ADD)
            next = static_cast<T>(was + value);
        else
            next = (npud::block_state.atomic == NPUD_ATOMIC_MAX) == (was > value) ? was : value;
    } while (
        !__atomic_compare_exchange(to, &was, &next, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
}

template <typename T> inline void npud_load_local(T *to, const T *from, size_t count)
{
    std::memmove(to, from, count * sizeof(T));
}

template <typename T> inline void npud_store_global(T *to, const T *from, size_t count)
{
    if (npud::block_state.atomic == NPUD_ATOMIC_NONE)
        npud_load_local(to, from, count);
    else
        for (size_t i = 0; i < count; i++)
            npud_store_atomic(to + i, from[i]);
}

/* copy() copies the elements of one block; strides are in bytes, from begin to begin. */
template <typename T, typename Copy>
inline void npud_copy_blocks(T *to, size_t to_stride, const T *from, size_t from_stride,
                             size_t blocks, size_t bytes, Copy copy)
{
    for (size_t i = 0; i < blocks; i++)
        copy(reinterpret_cast<T *>(reinterpret_cast<char *>(to) + i * to_stride),
             reinterpret_cast<const T *>(reinterpret_cast<const char *>(from) + i * from_stride),
             bytes / sizeof(T));
}

#define NPUD_COPY(To, From, copy)                                                                  \
    template <typename T>                                                                          \
    inline void DataCopy(const To<T> &dst, const From<T> &src, uint32_t count)                     \
    {                                                                                              \
        copy(dst.GetPhyAddr(), src.GetPhyAddr(), count);                                           \
    }                                                                                              \
    template <typename T>                                                                          \
    inline void DataCopy(const To<T> &dst, const From<T> &src, const DataCopyParams &params)       \
    {                                                                                              \
        size_t bytes = size_t{params.blockLen} * ONE_BLK_SIZE;                                     \
        npud_copy_blocks(dst.GetPhyAddr(), bytes + size_t{params.dstStride} * ONE_BLK_SIZE,        \
                         src.GetPhyAddr(), bytes + size_t{params.srcStride} * ONE_BLK_SIZE,        \
                         params.blockCount, bytes, copy<T>);                                       \
    }
NPUD_COPY(LocalTensor, GlobalTensor, npud_load_local)
NPUD_COPY(LocalTensor, LocalTensor, npud_load_local)
NPUD_COPY(GlobalTensor, LocalTensor, npud_store_global)

/* Each block begins at a multiple of 32 bytes of local memory; what fills it up is the padding. */
template <typename T, typename Params = DataCopyExtParams, typename Pad = DataCopyPadExtParams<T>>
inline void DataCopyPad(const LocalTensor<T> &dst, const GlobalTensor<T> &src, const Params &params,
                        const Pad &pad)
{
    size_t left = pad.isPad ? pad.leftPadding : 0, right = pad.isPad ? pad.rightPadding : 0;
    size_t bytes = npud_round_block(params.blockLen + (left + right) * sizeof(T));
    T value;
    std::memcpy(&value, &pad.paddingValue, sizeof value);
    npud_copy_blocks(dst.GetPhyAddr(), bytes + size_t{params.dstStride} * ONE_BLK_SIZE,
                     src.GetPhyAddr(), size_t{params.blockLen} + params.srcStride,
                     params.blockCount, params.blockLen, [&](T *to, const T *from, size_t count) {
                         T *end = to + (pad.isPad ? left + count + right : bytes / sizeof(T));
                         npud_load_local(std::fill_n(to, left, value), from, count);
                         std::fill(to + left + count, end, value);
                     });
}

template <typename T, typename Params = DataCopyExtParams>
inline void DataCopyPad(const GlobalTensor<T> &dst, const LocalTensor<T> &src, const Params &params)
{
    npud_copy_blocks(dst.GetPhyAddr(), size_t{params.blockLen} + params.dstStride, src.GetPhyAddr(),
                     npud_round_block(params.blockLen) + size_t{params.srcStride} * ONE_BLK_SIZE,
                     params.blockCount, params.blockLen, npud_store_global<T>);
}

/* --- what is computed: the first `count` elements, or repeats of 256 bytes each --- */

/* Which elements of a repeat are computed: the first so many, or those whose bits are set. */
struct NpudMask {
    uint64_t bits[2] = {};
    uint64_t count = 0;
    NpudMask(uint64_t number) : count(number) {}
    NpudMask(const uint64_t *mask) : bits{mask[0], mask[1]} {}
    bool has(uint32_t i) const { return count ? i < count : bits[i / 64 % 2] >> i % 64 & 1; }
};

/* compute(the index in dst, in the first source, in the second) for each element of repeats. */
template <typename T, typename Compute>
inline void npud_repeat(const NpudMask &mask, uint32_t repeats, const BinaryRepeatParams &p,
                        Compute compute)
{
    constexpr uint32_t in_block = ONE_BLK_SIZE / sizeof(T);
    for (uint32_t repeat = 0; repeat < repeats; repeat++)
        for (uint32_t i = 0; i < ONE_REPEAT_BYTE_SIZE / sizeof(T); i++) {
            auto at = [&](uint32_t block_step, uint32_t repeat_step) {
                return (repeat * repeat_step + i / in_block * block_step) * in_block + i % in_block;
            };
            if (mask.has(i))
                compute(at(p.dstBlkStride, p.dstRepStride), at(p.src0BlkStride, p.src0RepStride),
                        at(p.src1BlkStride, p.src1RepStride));
        }
}

#define NPUD_OF(T)  const LocalTensor<T> &
#define NPUD_NUMBER const std::common_type_t<T> & /* which does not say what T is */
#define NPUD_VECTOR template <typename T, bool setMask = true> inline void

/* A second operand: of a tensor, or a number. */
template <typename T> inline T npud_element(NPUD_OF(T) tensor, uint32_t i) { return tensor(i); }
template <typename T> inline T npud_element(const T &number, uint32_t) { return number; }

/* Integers wrap around as those of the device do: with W(a) for a. */
#define NPUD_COMPUTE(Name, sources, second, Params, expression)                                    \
    template <typename T> inline T npud_compute_##Name(T a, [[maybe_unused]] T b)                  \
    {                                                                                              \
        using W [[maybe_unused]] = std::conditional_t<std::is_integral_v<T>, uint64_t, T>;         \
        return static_cast<T>(expression);                                                         \
    }                                                                                              \
    NPUD_VECTOR Name(NPUD_OF(T) dst, sources, int32_t count)                                       \
    {                                                                                              \
        for (uint32_t i = 0; static_cast<int32_t>(i) < count; i++)                                 \
            dst(i) = npud_compute_##Name<T>(x(i), npud_element<T>(second, i));                     \
    }                                                                                              \
    NPUD_VECTOR Name(NPUD_OF(T) dst, sources, const NpudMask &mask, uint8_t repeats,               \
                     const Params &params)                                                         \
    {                                                                                              \
        npud_repeat<T>(mask, repeats, params, [&](uint32_t to, uint32_t i, uint32_t j) {           \
            dst(to) = npud_compute_##Name<T>(x(i), npud_element<T>(second, j));                    \
        });                                                                                        \
    }
#define NPUD_COMMA ,
#define NPUD_BINARY(Name, expression)                                                              \
    NPUD_COMPUTE(Name, NPUD_OF(T) x NPUD_COMMA NPUD_OF(T) y, y, BinaryRepeatParams, expression)
#define NPUD_UNARY(Name, expression)                                                               \
    NPUD_COMPUTE(Name, NPUD_OF(T) x, x, UnaryRepeatParams, expression)
#define NPUD_SCALAR(Name, expression)                                                              \
    NPUD_COMPUTE(Name, NPUD_OF(T) x NPUD_COMMA NPUD_NUMBER y, y, UnaryRepeatParams, expression)
// clang-format off
NPUD_BINARY(Add, W(a) + W(b));            NPUD_SCALAR(Adds, W(a) + W(b));
NPUD_BINARY(Sub, W(a) - W(b));            NPUD_BINARY(Div, a / b);
NPUD_BINARY(Mul, W(a) * W(b));            NPUD_SCALAR(Muls, W(a) * W(b));
NPUD_BINARY(Max, a < b ? b : a);          NPUD_SCALAR(Maxs, a < b ? b : a);
NPUD_BINARY(Min, b < a ? b : a);          NPUD_SCALAR(Mins, b < a ? b : a);
NPUD_BINARY(And, a & b);                  NPUD_SCALAR(ShiftLeft, a << b);
NPUD_BINARY(Or, a | b);                   NPUD_SCALAR(ShiftRight, a >> b);
NPUD_UNARY(Not, ~a);                      NPUD_UNARY(Abs, a < T(0) ? T(-a) : a);
NPUD_UNARY(Relu, a < T(0) ? T(0) : a);    NPUD_SCALAR(LeakyRelu, a < T(0) ? T(a * b) : a);
NPUD_UNARY(Exp, std::exp(+a));            NPUD_UNARY(Ln, std::log(+a));
NPUD_UNARY(Sqrt, std::sqrt(+a));          NPUD_UNARY(Rsqrt, 1 / std::sqrt(+a));
NPUD_UNARY(Sin, std::sin(+a));            NPUD_UNARY(Cos, std::cos(+a));
NPUD_UNARY(Tanh, std::tanh(+a));          NPUD_UNARY(Sigmoid, 1 / (1 + std::exp(-a)));
NPUD_UNARY(Reciprocal, 1 / +a);
// clang-format on
#undef NPUD_COMMA

template <typename T, typename U>
inline void Axpy(NPUD_OF(T) dst, NPUD_OF(U) src, const std::common_type_t<U> &scalar, int32_t count)
{
    for (int32_t i = 0; i < count; i++)
        dst(i) = static_cast<T>(dst(i) + static_cast<T>(src(i)) * static_cast<T>(scalar));
}

NPUD_VECTOR Duplicate(NPUD_OF(T) dst, NPUD_NUMBER scalar, int32_t count)
{
    std::fill_n(dst.GetPhyAddr(), count, scalar);
}

NPUD_VECTOR Duplicate(NPUD_OF(T) dst, NPUD_NUMBER scalar, const NpudMask &mask, uint8_t repeats,
                      uint16_t block_step, uint8_t repeat_step)
{
    npud_repeat<T>(mask, repeats, UnaryRepeatParams{block_step, 1, repeat_step, 8},
                   [&](uint32_t to, uint32_t, uint32_t) { dst(to) = scalar; });
}

template <typename T> inline void CreateVecIndex(NPUD_OF(T) dst, NPUD_NUMBER first, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        dst(i) = static_cast<T>(first + static_cast<T>(i));
}

inline double npud_round(double value, RoundMode mode)
{
    constexpr double (*modes[])(double) = {nearbyint, nearbyint, floor,    ceil,
                                           round,     trunc,     nearbyint};
    return modes[static_cast<size_t>(mode)](value);
}

/* To integers by the mode, at most to the ends of their range; to halves to nearest even. */
template <typename To, typename From> inline To npud_cast(From value, RoundMode mode)
{
    using Limits = std::numeric_limits<To>;
    if constexpr (std::is_integral_v<To> && !std::is_integral_v<From>) {
        double number = npud_round(static_cast<double>(value), mode);
        if (number >= static_cast<double>(Limits::max()))
            return Limits::max();
        if (number > static_cast<double>(Limits::min()))
            return static_cast<To>(number);
        return number == number ? Limits::min() : To(0);
    } else if constexpr (std::is_same_v<To, From> && !std::is_integral_v<To>) {
        return static_cast<To>(npud_round(static_cast<double>(value), mode));
    }
    if (!std::is_integral_v<To> && mode > RoundMode::CAST_RINT && sizeof(To) < sizeof(From))
        npud::fail("AscendC: Cast: to half and bfloat16_t by CAST_NONE and CAST_RINT alone\n");
    return static_cast<To>(value);
}

template <typename To, typename From, bool setMask = true>
inline void Cast(NPUD_OF(To) dst, NPUD_OF(From) src, RoundMode mode, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        dst(i) = npud_cast<To>(src(i), mode);
}

/* --- reductions: one number to dst, and behind it, if asked for, the bits of its index --- */

NPUD_VECTOR ReduceSum(NPUD_OF(T) dst, NPUD_OF(T) src, NPUD_OF(T), int32_t count)
{
    T sum = T(0);
    for (int32_t i = 0; i < count; i++)
        sum = npud_compute_Add<T>(sum, src(i));
    dst(0) = sum;
}

#define NPUD_REDUCE_BEST(Name, better)                                                             \
    template <typename T>                                                                          \
    inline void Name(NPUD_OF(T) dst, NPUD_OF(T) src, NPUD_OF(T), int32_t count,                    \
                     bool index = false)                                                           \
    {                                                                                              \
        const T *begin = src.GetPhyAddr();                                                         \
        const T *best = std::better##_element(begin, begin + count);                               \
        uint32_t i = static_cast<uint32_t>(best - begin);                                          \
        dst(0) = *best;                                                                            \
        if (index)                                                                                 \
            std::memcpy(dst.GetPhyAddr(1), &i, std::min(sizeof(T), sizeof i));                     \
    }
NPUD_REDUCE_BEST(ReduceMax, max)
NPUD_REDUCE_BEST(ReduceMin, min)

/* --- comparisons: a bit for each element, the first the lowest of a byte --- */

template <typename T, typename Bits, typename Second>
inline void CompareScalar(NPUD_OF(Bits) dst, NPUD_OF(T) src, Second second, CMPMODE mode,
                          uint32_t count)
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
inline void Compare(NPUD_OF(Bits) dst, NPUD_OF(T) src0, NPUD_OF(T) src1, CMPMODE mode,
                    uint32_t count)
{
    CompareScalar(dst, src0, src1, mode, count);
}

template <typename T, typename Bits, typename Second>
inline void Select(NPUD_OF(T) dst, NPUD_OF(Bits) mask, NPUD_OF(T) src0, const Second &src1, SELMODE,
                   uint32_t count)
{
    const uint8_t *bytes = reinterpret_cast<const uint8_t *>(mask.GetPhyAddr());
    for (uint32_t i = 0; i < count; i++)
        dst(i) = bytes[i / 8] >> i % 8 & 1 ? src0(i) : npud_element<T>(src1, i);
}

/* --- waiting --- */

template <HardEvent event> inline void SetFlag(TEventID) {}
template <HardEvent event> inline void WaitFlag(TEventID) {}
template <pipe_t pipe> inline void PipeBarrier() {}
inline void InitSocState() {}
/* What else needs memory for it, which may be passed, does not here. */
template <bool isAIVOnly = true, typename... Workspace> inline void SyncAll(const Workspace &...)
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

/* --- what npud lacks, and kernels commonly name: using it is an error that says so --- */

template <typename...> inline constexpr bool npud_never = false;

#define NPUD_LACKS(name)                                                                           \
    template <typename... Template, typename... Arguments> inline void name(Arguments...)          \
    {                                                                                              \
        static_assert(npud_never<Arguments...>,                                                    \
                      "npud's AscendC has no " #name                                               \
                      ": docs/kernels.md lists what it has; write a loop over GetValue() and "     \
                      "SetValue(), or leave the kernel out");                                      \
    }
// clang-format off
NPUD_LACKS(Mmad) NPUD_LACKS(LoadData) NPUD_LACKS(Fixpipe) NPUD_LACKS(Gather) NPUD_LACKS(Scatter)
NPUD_LACKS(Transpose) NPUD_LACKS(Broadcast) NPUD_LACKS(Brcb) NPUD_LACKS(WholeReduceSum)
NPUD_LACKS(WholeReduceMax) NPUD_LACKS(WholeReduceMin) NPUD_LACKS(BlockReduceSum)
NPUD_LACKS(RepeatReduceSum) NPUD_LACKS(PairReduceSum) NPUD_LACKS(Sort) NPUD_LACKS(SoftMax)
NPUD_LACKS(CrossCoreSetFlag) NPUD_LACKS(CrossCoreWaitFlag) NPUD_LACKS(BlockReduceMax)
NPUD_LACKS(SetMaskCount) NPUD_LACKS(SetMaskNorm) NPUD_LACKS(GatherMask) NPUD_LACKS(Power)
NPUD_LACKS(Sum) NPUD_LACKS(Mean) NPUD_LACKS(TopK) NPUD_LACKS(MrgSort) NPUD_LACKS(LayerNorm)
// clang-format on

} // namespace AscendC

#endif
