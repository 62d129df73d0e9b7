// The weights of several layers in one call.
#include "expect.h"

#include <acl/acl_rt_api.h>

#include <numeric>
#include <vector>

int main()
{
    std::vector<std::vector<float>> layers;
    std::vector<void *> to, from;
    std::vector<size_t> sizes;

    CALL(aclInit(nullptr));
    CALL(aclrtSetDevice(0));
    for (size_t i = 1; i <= 10; i++) {
        layers.emplace_back(i * 100);
        std::iota(layers.back().begin(), layers.back().end(), static_cast<float>(i));
    }
    for (auto &layer : layers) {
        void *memory = nullptr;
        sizes.push_back(layer.size() * sizeof(float));
        CALL(aclrtMalloc(&memory, sizes.back(), ACL_MEM_MALLOC_HUGE_FIRST));
        to.push_back(memory);
        from.push_back(layer.data());
    }
    aclrtMemcpyBatchAttr up = {};
    up.dstLoc = {0, ACL_MEM_LOCATION_TYPE_DEVICE};
    up.srcLoc = {0, ACL_MEM_LOCATION_TYPE_HOST};
    size_t first = 0, bad = 0;
    CALL(aclrtMemcpyBatch(to.data(), sizes.data(), from.data(), sizes.data(), to.size(), &up,
                          &first, 1, &bad));
    EXPECT(bad == SIZE_MAX);

    std::vector<std::vector<float>> back;
    for (const auto &layer : layers)
        back.emplace_back(layer.size());
    for (size_t i = 0; i < back.size(); i++)
        from[i] = back[i].data();
    aclrtMemcpyBatchAttr down = {};
    down.dstLoc = up.srcLoc;
    down.srcLoc = up.dstLoc;
    CALL(aclrtMemcpyBatch(from.data(), sizes.data(), to.data(), sizes.data(), to.size(), &down,
                          &first, 1)); // the overload for C++ has no index of the failed entry
    EXPECT(back == layers);
    for (void *memory : to)
        CALL(aclrtFree(memory));
    CALL(aclrtResetDevice(0));
    CALL(aclFinalize());
    printf("%zu layers there and back\n", layers.size());
}
