// Device memory that its owner frees, with copies of whole vectors.
#include "expect.h"

#include <vector>

template <typename T> class device_vector
{
  public:
    explicit device_vector(const std::vector<T> &from) : bytes_(from.size() * sizeof(T))
    {
        CALL(aclrtMalloc(&memory_, bytes_, ACL_MEM_MALLOC_HUGE_FIRST));
        CALL(aclrtMemcpy(memory_, bytes_, from.data(), bytes_, ACL_MEMCPY_HOST_TO_DEVICE));
    }
    device_vector(const device_vector &) = delete;
    ~device_vector()
    {
        CALL(aclrtFree(memory_));
    }
    std::vector<T> to_host() const
    {
        std::vector<T> to(bytes_ / sizeof(T));
        CALL(aclrtMemcpy(to.data(), bytes_, memory_, bytes_, ACL_MEMCPY_DEVICE_TO_HOST));
        return to;
    }

  private:
    size_t bytes_;
    void *memory_ = nullptr;
};

int main()
{
    CALL(aclInit(nullptr));
    CALL(aclrtSetDevice(0));
    {
        const std::vector<double> numbers = {1.5, 2.5, 4};
        const device_vector<double> first(numbers), second({7});
        EXPECT(first.to_host() == numbers);
        EXPECT(second.to_host().at(0) == 7);
    }
    CALL(aclrtResetDevice(0));
    CALL(aclFinalize());
    puts("two vectors");
}
