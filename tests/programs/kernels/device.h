/* A device with a stream, and arrays on it: what the programs here have in common. */
#pragma once

#include "expect.h"

#include <cstdint>
#include <vector>

/* A launch, which may have commas outside of parentheses. */
#define LAUNCHED(...) CALL((__VA_ARGS__))

struct Device {
    aclrtStream stream = nullptr;
    Device()
    {
        CALL(aclInit(nullptr));
        CALL(aclrtSetDevice(0));
        CALL(aclrtCreateStream(&stream));
    }
    ~Device()
    {
        CALL(aclrtDestroyStream(stream));
        CALL(aclrtResetDevice(0));
        CALL(aclFinalize());
    }
    void wait()
    {
        CALL(aclrtSynchronizeStream(stream));
    }
};

template <typename T> class Array
{
  public:
    explicit Array(const std::vector<T> &values) : size_(values.size() * sizeof(T))
    {
        CALL(aclrtMalloc(&memory_, size_, ACL_MEM_MALLOC_HUGE_FIRST));
        CALL(aclrtMemcpy(memory_, size_, values.data(), size_, ACL_MEMCPY_HOST_TO_DEVICE));
    }
    ~Array()
    {
        CALL(aclrtFree(memory_));
    }
    Array(const Array &) = delete;
    Array &operator=(const Array &) = delete;
    T *data() const
    {
        return static_cast<T *>(memory_);
    }
    uint8_t *bytes() const
    {
        return static_cast<uint8_t *>(memory_);
    }
    std::vector<T> read() const
    {
        std::vector<T> values(size_ / sizeof(T));
        CALL(aclrtMemcpy(values.data(), size_, memory_, size_, ACL_MEMCPY_DEVICE_TO_HOST));
        return values;
    }

  private:
    void *memory_ = nullptr;
    size_t size_;
};

inline std::vector<float> count_up(size_t size)
{
    std::vector<float> values(size);
    for (size_t i = 0; i < size; i++)
        values[i] = static_cast<float>(i);
    return values;
}
