// A segment that grows: many addresses are reserved, and memory comes chunk by chunk. Tensors lie
// across the borders of the chunks.
#include "expect.h"

#include <numeric>
#include <vector>

class segment
{
  public:
    segment(int device, size_t most)
    {
        properties_.handleType = ACL_MEM_HANDLE_TYPE_NONE;
        properties_.allocationType = ACL_MEM_ALLOCATION_TYPE_PINNED;
        properties_.memAttr = ACL_HBM_MEM_HUGE;
        properties_.location = {static_cast<uint32_t>(device), ACL_MEM_LOCATION_TYPE_DEVICE};
        CALL(aclrtMemGetAllocationGranularity(&properties_,
                                              ACL_RT_MEM_ALLOC_GRANULARITY_RECOMMENDED, &chunk_));
        CALL(aclrtReserveMemAddress(&start_, most, 0, nullptr, 1));
    }
    segment(const segment &) = delete;
    ~segment()
    {
        while (!handles_.empty())
            shrink();
        CALL(aclrtReleaseMemAddress(start_));
    }
    void grow()
    {
        aclrtDrvMemHandle handle = nullptr;
        CALL(aclrtMallocPhysical(&handle, chunk_, &properties_, 0));
        CALL(aclrtMapMem(at(size()), chunk_, 0, handle, 0));
        handles_.push_back(handle);
    }
    void shrink()
    {
        CALL(aclrtUnmapMem(at(size() - chunk_)));
        CALL(aclrtFreePhysical(handles_.back()));
        handles_.pop_back();
    }
    char *at(size_t offset) const
    {
        return static_cast<char *>(start_) + offset;
    }
    size_t chunk() const
    {
        return chunk_;
    }
    size_t size() const
    {
        return handles_.size() * chunk_;
    }

  private:
    aclrtPhysicalMemProp properties_ = {};
    size_t chunk_ = 0;
    void *start_ = nullptr;
    std::vector<aclrtDrvMemHandle> handles_;
};

int main()
{
    std::vector<int> in(1 << 19), out(in.size()); // 2 MiB
    const size_t bytes = in.size() * sizeof(int);
    size_t free_before = 0, free_now = 0, total = 0;

    std::iota(in.begin(), in.end(), 1);
    CALL(aclInit(nullptr));
    CALL(aclrtSetDevice(0));
    CALL(aclrtGetMemInfo(ACL_HBM_MEM, &free_before, &total));
    {
        segment pool(0, 1ULL << 30);
        pool.grow();
        char *tensor = pool.at(pool.chunk() - bytes / 2); // half of it is not there yet
        FAILS(ACL_ERROR_RT_PARAM_INVALID,
              aclrtMemcpy(tensor, bytes, in.data(), bytes, ACL_MEMCPY_HOST_TO_DEVICE));
        pool.grow();
        CALL(aclrtMemcpy(tensor, bytes, in.data(), bytes, ACL_MEMCPY_HOST_TO_DEVICE));
        pool.grow();
        CALL(aclrtMemcpy(pool.at(pool.chunk()), bytes, tensor, bytes / 2,
                         ACL_MEMCPY_DEVICE_TO_DEVICE));
        CALL(aclrtMemcpy(tensor, bytes, in.data(), bytes, ACL_MEMCPY_HOST_TO_DEVICE));
        CALL(aclrtMemcpy(out.data(), bytes, tensor, bytes, ACL_MEMCPY_DEVICE_TO_HOST));
        EXPECT(in == out);
        CALL(aclrtGetMemInfo(ACL_HBM_MEM, &free_now, &total));
        EXPECT(free_before - free_now == pool.size());
        pool.shrink();
    }
    CALL(aclrtGetMemInfo(ACL_HBM_MEM, &free_now, &total));
    EXPECT(free_now == free_before);
    CALL(aclrtResetDevice(0));
    CALL(aclFinalize());
    printf("a tensor of %zu bytes across a border\n", bytes);
}
