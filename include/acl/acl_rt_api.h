/* Overloads for C++: shorter calls that forward to the C functions and export no symbol. */
#ifndef ACL_ACL_RT_API_H
#define ACL_ACL_RT_API_H

#include "acl_rt.h"

#ifdef __cplusplus

#include <type_traits>

/* With a limit in milliseconds; for the wait of a stream, in seconds. */
static inline aclError aclrtSynchronizeDevice(int32_t timeout)
{
    return aclrtSynchronizeDeviceWithTimeout(timeout);
}

static inline aclError aclrtSynchronizeStream(aclrtStream stream, int32_t timeout)
{
    return aclrtSynchronizeStreamWithTimeout(stream, timeout);
}

static inline aclError aclrtSynchronizeEvent(aclrtEvent event, int32_t timeout)
{
    return aclrtSynchronizeEventWithTimeout(event, timeout);
}

static inline aclError aclrtStreamWaitEvent(aclrtStream stream, aclrtEvent event, int32_t timeout)
{
    return aclrtStreamWaitEventWithTimeout(stream, event, timeout);
}

static inline aclError aclrtCreateStream(aclrtStream *stream, uint32_t priority, uint32_t flag)
{
    return aclrtCreateStreamWithConfig(stream, priority, flag);
}

static inline aclError aclrtCreateEvent(aclrtEvent *event, uint32_t flag)
{
    return aclrtCreateEventExWithFlag(event, flag);
}

/* Microseconds. */
static inline aclError aclrtSetOpExecuteTimeOut(uint64_t timeout, uint64_t *actualTimeout)
{
    return aclrtSetOpExecuteTimeOutV2(timeout, actualTimeout);
}

/* Typed pointers, without a cast by the caller. */
template <typename T>
static inline aclError aclrtMalloc(T **devPtr, size_t size,
                                   aclrtMemMallocPolicy policy = ACL_MEM_MALLOC_HUGE_FIRST,
                                   aclrtMallocConfig *cfg = nullptr)
{
    void *p = nullptr;
    const aclError ret = aclrtMallocWithCfg(devPtr == nullptr ? nullptr : &p, size, policy, cfg);
    if (ret == ACL_SUCCESS) {
        *devPtr = static_cast<T *>(p);
    }
    return ret;
}

template <typename T>
static inline aclError aclrtMallocHost(T **hostPtr, uint64_t size, aclrtMallocConfig *cfg = nullptr)
{
    void *p = nullptr;
    const aclError ret = aclrtMallocHostWithCfg(hostPtr == nullptr ? nullptr : &p, size, cfg);
    if (ret == ACL_SUCCESS) {
        *hostPtr = static_cast<T *>(p);
    }
    return ret;
}

template <typename T>
static inline aclError aclrtMemAllocManaged(T **ptr, uint64_t size,
                                            uint32_t flag = ACL_RT_MEM_ATTACH_GLOBAL)
{
    void *p = nullptr;
    const aclError ret = aclrtMemAllocManaged(ptr == nullptr ? nullptr : &p, size, flag);
    if (ret == ACL_SUCCESS) {
        *ptr = static_cast<T *>(p);
    }
    return ret;
}

/*
 * Variables of kernels by their names: what is no array and no pointer. An array is its address
 * anyway; a variable that is a pointer is named by its address, because a pointer is that of a
 * variable to the functions of C.
 */
template <typename T>
using aclnpudVariableName =
    typename std::enable_if<!std::is_convertible<const T &, const void *>::value, aclError>::type;

template <typename T> static inline const void *aclnpudVariableAddress(const T &symbol)
{
    return &reinterpret_cast<const char &>(
        const_cast<const typename std::remove_cv<T>::type &>(symbol));
}

template <typename T>
static inline aclnpudVariableName<T> aclrtGetSymbolAddress(const T &symbol, void **devPtr)
{
    return aclrtGetSymbolAddress(aclnpudVariableAddress(symbol), devPtr);
}

template <typename T>
static inline aclnpudVariableName<T> aclrtGetSymbolSize(const T &symbol, size_t *size)
{
    return aclrtGetSymbolSize(aclnpudVariableAddress(symbol), size);
}

template <typename T>
static inline aclnpudVariableName<T> aclrtMemcpyFromSymbol(void *dst, size_t dstMax,
                                                           const T &symbol, size_t count,
                                                           size_t offset, aclrtMemcpyKind kind)
{
    return aclrtMemcpyFromSymbol(dst, dstMax, aclnpudVariableAddress(symbol), count, offset, kind);
}

template <typename T>
static inline aclnpudVariableName<T> aclrtMemcpyFromSymbolAsync(void *dst, size_t dstMax,
                                                                const T &symbol, size_t count,
                                                                size_t offset, aclrtMemcpyKind kind,
                                                                aclrtStream stream)
{
    return aclrtMemcpyFromSymbolAsync(dst, dstMax, aclnpudVariableAddress(symbol), count, offset,
                                      kind, stream);
}

template <typename T>
static inline aclnpudVariableName<T> aclrtMemcpyToSymbol(const T &symbol, const void *src,
                                                         size_t count, size_t offset,
                                                         aclrtMemcpyKind kind)
{
    return aclrtMemcpyToSymbol(aclnpudVariableAddress(symbol), src, count, offset, kind);
}

template <typename T>
static inline aclnpudVariableName<T> aclrtMemcpyToSymbolAsync(const T &symbol, const void *src,
                                                              size_t count, size_t offset,
                                                              aclrtMemcpyKind kind,
                                                              aclrtStream stream)
{
    return aclrtMemcpyToSymbolAsync(aclnpudVariableAddress(symbol), src, count, offset, kind,
                                    stream);
}

/* Batches without the index of the failed entry, and registration by flags. */
static inline aclError aclrtMemcpyBatch(void **dsts, size_t *destMaxs, void **srcs, size_t *sizes,
                                        size_t numBatches, aclrtMemcpyBatchAttr *attrs,
                                        size_t *attrsIndexes, size_t numAttrs)
{
    return aclrtMemcpyBatchV2(dsts, destMaxs, srcs, sizes, numBatches, attrs, attrsIndexes,
                              numAttrs);
}

static inline aclError aclrtMemcpyBatchAsync(void **dsts, size_t *destMaxs, void **srcs,
                                             size_t *sizes, size_t numBatches,
                                             aclrtMemcpyBatchAttr *attrs, size_t *attrsIndexes,
                                             size_t numAttrs, aclrtStream stream)
{
    return aclrtMemcpyBatchAsyncV2(dsts, destMaxs, srcs, sizes, numBatches, attrs, attrsIndexes,
                                   numAttrs, stream);
}

static inline aclError aclrtHostRegister(void *ptr, uint64_t size, uint32_t flag)
{
    return aclrtHostRegisterV2(ptr, size, flag);
}

#endif

#endif
