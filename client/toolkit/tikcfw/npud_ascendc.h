/*
 * npud's part of AscendC, the interface of kernels for vectors: what docs/kernels.md lists. One
 * thread runs a block, and each call has done its work when it returns; so flags and barriers
 * between pipes have nothing to do. Buffers are memory of the block (aclnpudBlockMemory). What npud
 * does not have, and kernels commonly name, is at the end: using it is an error that says so.
 */
#ifndef NPUD_ASCENDC_H
#define NPUD_ASCENDC_H

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "npud_ascendc_types.h"

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

inline int64_t GetBlockIdx() { return npud::block_self()->index; }
inline int64_t GetBlockNum() { return npud::block_self()->num; }
inline int64_t GetSubBlockIdx() { return npud::block_self()->subIndex; }
inline int64_t GetSubBlockNum() { return npud::block_self()->subNum; }
inline int64_t GetTaskRation() { return npud::block_self()->subNum; }

/* --- tensors --- */

template <typename T> class LocalTensor
{
  public:
    using PrimType = T;
    LocalTensor() = default;
    LocalTensor(void *memory, uint32_t size) : data_(static_cast<T *>(memory)), size_(size) {}
    T GetValue(uint32_t index) const { return data_[index]; }
    template <typename Value> void SetValue(uint32_t index, Value value) const
    {
        data_[index] = static_cast<T>(value);
    }
    T &operator()(uint32_t index) const { return data_[index]; }
    LocalTensor operator[](uint32_t offset) const
    {
        return {data_ + offset, offset < size_ ? size_ - offset : 0};
    }
    template <typename Other> LocalTensor<Other> ReinterpretCast() const
    {
        return {data_, static_cast<uint32_t>(size_ * sizeof(T) / sizeof(Other))};
    }
    __ubuf__ T *GetPhyAddr(uint32_t offset = 0) const { return data_ + offset; }
    uint32_t GetSize() const { return size_; }
    uint32_t GetLength() const { return static_cast<uint32_t>(size_ * sizeof(T)); }
    void SetSize(uint32_t size) { size_ = size; }

  private:
    T *data_ = nullptr;
    uint32_t size_ = 0;
};

template <typename T> class GlobalTensor
{
  public:
    using PrimType = T;
    void SetGlobalBuffer(__gm__ T *memory, uint64_t size = 0)
    {
        data_ = memory;
        size_ = size;
    }
    T GetValue(uint64_t index) const { return data_[index]; }
    template <typename Value> void SetValue(uint64_t index, Value value) const
    {
        data_[index] = static_cast<T>(value);
    }
    T &operator()(uint64_t index) const { return data_[index]; }
    GlobalTensor operator[](uint64_t offset) const
    {
        GlobalTensor other;
        other.SetGlobalBuffer(data_ + offset, offset < size_ ? size_ - offset : 0);
        return other;
    }
    const __gm__ T *GetPhyAddr() const { return data_; }
    __gm__ T *GetPhyAddr(uint64_t offset) const { return data_ + offset; }
    uint64_t GetSize() const { return size_; }

  private:
    T *data_ = nullptr;
    uint64_t size_ = 0;
};

/* --- buffers and queues --- */

inline uint32_t npud_round_block(uint64_t bytes)
{
    return static_cast<uint32_t>((bytes + ONE_BLK_SIZE - 1) / ONE_BLK_SIZE * ONE_BLK_SIZE);
}

inline void *npud_allocate(uint64_t bytes)
{
    void *memory = npud::block_memory(bytes ? bytes : 1);
    if (!memory)
        npud::fail("AscendC: buffers are for kernels: this is no thread that runs a kernel\n");
    return memory;
}

template <TPosition position> class TBuf
{
  public:
    template <typename T> LocalTensor<T> Get() const
    {
        return Get<T>(static_cast<uint32_t>(length_ / sizeof(T)));
    }
    template <typename T> LocalTensor<T> Get(uint32_t size) const { return {memory_, size}; }
    template <typename T> LocalTensor<T> GetWithOffset(uint32_t size, uint32_t offset) const
    {
        return {static_cast<char *>(memory_) + offset, size};
    }
    template <typename T> LocalTensor<T> AllocTensor() const { return Get<T>(); }
    template <typename T> void FreeTensor(LocalTensor<T> &) const {}
    uint32_t GetBufLen() const { return length_; }
    void set_memory(void *memory, uint32_t length)
    {
        memory_ = memory;
        length_ = length;
    }

  private:
    void *memory_ = nullptr;
    uint32_t length_ = 0;
};

/* Its buffers are free, taken by AllocTensor() or DeQue(), or queued. */
template <TPosition position, int32_t depth, int32_t mask = 0> class TQue
{
  public:
    template <typename T> LocalTensor<T> AllocTensor()
    {
        for (uint32_t i = 0; i < number_; i++)
            if (!taken_[i]) {
                taken_[i] = true;
                return {memory_[i], static_cast<uint32_t>(length_ / sizeof(T))};
            }
        npud::fail("AscendC: AllocTensor: none of the %u buffers of the queue is free: "
                   "FreeTensor() one first\n",
                   number_);
    }
    template <typename T> bool EnQue(const LocalTensor<T> &tensor)
    {
        if (queued_ == number_)
            npud::fail("AscendC: EnQue: all %u buffers of the queue are in it already\n", number_);
        queue_[(head_ + queued_++) % MAX_BUFFERS] = find(tensor.GetPhyAddr(), "EnQue");
        return true;
    }
    template <typename T> LocalTensor<T> DeQue()
    {
        if (queued_ == 0)
            npud::fail("AscendC: DeQue: the queue is empty: EnQue() a tensor first\n");
        uint32_t i = queue_[head_ % MAX_BUFFERS];
        head_++;
        queued_--;
        return {memory_[i], static_cast<uint32_t>(length_ / sizeof(T))};
    }
    template <typename T> void FreeTensor(const LocalTensor<T> &tensor)
    {
        taken_[find(tensor.GetPhyAddr(), "FreeTensor")] = false;
    }
    bool VacantInQue() const { return queued_ < number_; }
    bool HasTensorInQue() const { return queued_ > 0; }
    int32_t GetTensorCountInQue() const { return static_cast<int32_t>(queued_); }
    bool HasIdleBuffer() const
    {
        return std::find(taken_, taken_ + number_, false) != taken_ + number_;
    }
    void set_memory(void *memory, uint32_t number, uint32_t length)
    {
        if (number > MAX_BUFFERS)
            npud::fail("AscendC: InitBuffer: %u buffers: a queue has %u at most\n", number,
                       MAX_BUFFERS);
        *this = TQue();
        number_ = number;
        length_ = length;
        for (uint32_t i = 0; i < number; i++)
            memory_[i] = static_cast<char *>(memory) + static_cast<size_t>(i) * length;
    }

  private:
    static constexpr uint32_t MAX_BUFFERS = 64;

    uint32_t find(const void *memory, const char *what) const
    {
        for (uint32_t i = 0; i < number_; i++)
            if (memory_[i] == memory && taken_[i])
                return i;
        npud::fail("AscendC: %s: the tensor is from no buffer of this queue, or was freed\n", what);
    }

    void *memory_[MAX_BUFFERS] = {};
    bool taken_[MAX_BUFFERS] = {};
    uint32_t queue_[MAX_BUFFERS] = {};
    uint32_t number_ = 0, length_ = 0, head_ = 0, queued_ = 0;
};

template <TPosition from, TPosition to, int32_t depth, int32_t mask = 0>
using TQueBind = TQue<from, depth, mask>;

class TPipe
{
  public:
    template <TPosition position, int32_t depth, int32_t mask>
    bool InitBuffer(TQue<position, depth, mask> &queue, uint8_t number, uint32_t length)
    {
        length = npud_round_block(length);
        queue.set_memory(npud_allocate(static_cast<uint64_t>(number) * length), number, length);
        return true;
    }
    template <TPosition position> bool InitBuffer(TBuf<position> &buffer, uint32_t length)
    {
        buffer.set_memory(npud_allocate(npud_round_block(length)), npud_round_block(length));
        return true;
    }
    template <HardEvent event> TEventID AllocEventID() { return EVENT_ID0; }
    template <HardEvent event> void ReleaseEventID(TEventID) {}
    TEventID FetchEventID(HardEvent) { return EVENT_ID0; }
    template <HardEvent event> TEventID FetchEventID() { return EVENT_ID0; }
    void Init() {}
    void Reset() {}
    void Destroy() {}
};

inline TPipe *GetTPipePtr()
{
    static TPipe pipe;
    return &pipe;
}

template <Hardware hardware> class LocalMemAllocator
{
  public:
    template <typename T, uint32_t size> LocalTensor<T> Alloc() { return Alloc<T>(size); }
    template <typename T> LocalTensor<T> Alloc(uint32_t size)
    {
        return {npud_allocate(npud_round_block(size * sizeof(T))), size};
    }
    template <TPosition position, typename T, uint32_t size> LocalTensor<T> Alloc()
    {
        return Alloc<T>(size);
    }
    template <TPosition position, typename T> LocalTensor<T> Alloc(uint32_t size)
    {
        return Alloc<T>(size);
    }
};

/* --- copies --- */

enum NpudAtomic { NPUD_ATOMIC_NONE, NPUD_ATOMIC_ADD, NPUD_ATOMIC_MAX, NPUD_ATOMIC_MIN };

template <typename T> inline void SetAtomicAdd() { npud::block_state.atomic = NPUD_ATOMIC_ADD; }
template <typename T> inline void SetAtomicMax() { npud::block_state.atomic = NPUD_ATOMIC_MAX; }
template <typename T> inline void SetAtomicMin() { npud::block_state.atomic = NPUD_ATOMIC_MIN; }
inline void SetAtomicNone() { npud::block_state.atomic = NPUD_ATOMIC_NONE; }

template <typename T> inline void npud_store_atomic(T *to, T value)
{
    using Word = std::conditional_t<
        sizeof(T) == 1, uint8_t,
        std::conditional_t<sizeof(T) == 2, uint16_t,
                           std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>>>;
    static_assert(sizeof(T) == sizeof(Word), "AscendC: atomic stores are of numbers");
    Word *word = reinterpret_cast<Word *>(to);
    Word was = __atomic_load_n(word, __ATOMIC_RELAXED), next;
    do {
        T old, result = value;
        std::memcpy(&old, &was, sizeof old);
        if (npud::block_state.atomic == NPUD_ATOMIC_ADD)
            result = static_cast<T>(old + value);
        else if ((npud::block_state.atomic == NPUD_ATOMIC_MAX) == (old > value))
            result = old;
        std::memcpy(&next, &result, sizeof next);
    } while (
        !__atomic_compare_exchange_n(word, &was, next, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
}

template <typename T> inline void npud_store_global(T *to, const T *from, size_t count)
{
    if (npud::block_state.atomic == NPUD_ATOMIC_NONE)
        std::memmove(to, from, count * sizeof(T));
    else
        for (size_t i = 0; i < count; i++)
            npud_store_atomic(to + i, from[i]);
}

/* `load` copies count elements of one block; strides are in bytes, from begin to begin. */
template <typename T, typename Copy>
inline void npud_copy_blocks(T *to, size_t to_stride, const T *from, size_t from_stride,
                             size_t blocks, size_t bytes, Copy copy)
{
    for (size_t i = 0; i < blocks; i++)
        copy(reinterpret_cast<T *>(reinterpret_cast<char *>(to) + i * to_stride),
             reinterpret_cast<const T *>(reinterpret_cast<const char *>(from) + i * from_stride),
             bytes / sizeof(T));
}

template <typename T> inline void npud_load_local(T *to, const T *from, size_t count)
{
    std::memmove(to, from, count * sizeof(T));
}

#define NPUD_COPY(To, From, copy)                                                                  \
    template <typename T>                                                                          \
    inline void DataCopy(const To<T> &dst, const From<T> &src, uint32_t count)                     \
    {                                                                                              \
        copy(dst.GetPhyAddr(0), src.GetPhyAddr(0), count);                                         \
    }                                                                                              \
    template <typename T>                                                                          \
    inline void DataCopy(const To<T> &dst, const From<T> &src, const DataCopyParams &params)       \
    {                                                                                              \
        size_t bytes = size_t{params.blockLen} * ONE_BLK_SIZE;                                     \
        npud_copy_blocks(dst.GetPhyAddr(0), bytes + size_t{params.dstStride} * ONE_BLK_SIZE,       \
                         src.GetPhyAddr(0), bytes + size_t{params.srcStride} * ONE_BLK_SIZE,       \
                         params.blockCount, bytes, copy<T>);                                       \
    }
NPUD_COPY(LocalTensor, GlobalTensor, npud_load_local)
NPUD_COPY(LocalTensor, LocalTensor, npud_load_local)
NPUD_COPY(GlobalTensor, LocalTensor, npud_store_global)
#undef NPUD_COPY

/* Each block begins at a multiple of 32 bytes of local memory; what fills it up is the padding. */
template <typename T>
inline void DataCopyPad(const LocalTensor<T> &dst, const GlobalTensor<T> &src,
                        const DataCopyExtParams &params, const DataCopyPadExtParams<T> &pad)
{
    size_t left = pad.isPad ? pad.leftPadding : 0, right = pad.isPad ? pad.rightPadding : 0;
    size_t bytes = npud_round_block(params.blockLen + (left + right) * sizeof(T));
    npud_copy_blocks(dst.GetPhyAddr(0), bytes + size_t{params.dstStride} * ONE_BLK_SIZE,
                     src.GetPhyAddr(0), size_t{params.blockLen} + params.srcStride,
                     params.blockCount, params.blockLen, [&](T *to, const T *from, size_t count) {
                         std::fill(to, to + left, pad.paddingValue);
                         npud_load_local(to + left, from, count);
                         std::fill(to + left + count,
                                   to + (pad.isPad ? left + count + right : bytes / sizeof(T)),
                                   pad.paddingValue);
                     });
}

template <typename T>
inline void DataCopyPad(const GlobalTensor<T> &dst, const LocalTensor<T> &src,
                        const DataCopyExtParams &params)
{
    npud_copy_blocks(dst.GetPhyAddr(0), size_t{params.blockLen} + params.dstStride,
                     src.GetPhyAddr(0),
                     npud_round_block(params.blockLen) + size_t{params.srcStride} * ONE_BLK_SIZE,
                     params.blockCount, params.blockLen, npud_store_global<T>);
}

template <typename T>
inline void DataCopyPad(const LocalTensor<T> &dst, const GlobalTensor<T> &src,
                        const DataCopyParams &params, const DataCopyPadParams &pad)
{
    DataCopyPadExtParams<T> other = {pad.isPad, pad.leftPadding, pad.rightPadding, T{}};
    std::memcpy(&other.paddingValue, &pad.paddingValue, std::min(sizeof(T), sizeof(uint64_t)));
    DataCopyPad(dst, src,
                DataCopyExtParams{params.blockCount, params.blockLen, params.srcStride,
                                  params.dstStride, 0},
                other);
}

template <typename T>
inline void DataCopyPad(const GlobalTensor<T> &dst, const LocalTensor<T> &src,
                        const DataCopyParams &params)
{
    DataCopyPad(dst, src,
                DataCopyExtParams{params.blockCount, params.blockLen, params.srcStride,
                                  params.dstStride, 0});
}

#include "npud_ascendc_vector.h"

} // namespace AscendC

#endif
