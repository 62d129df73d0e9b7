// A copy whose addresses are read from variables, with offsets: a step of a ring buffer.
#include "expect.h"

#include <cstring>

int main()
{
    constexpr size_t slot = 64, slots = 4;
    void *ring = nullptr, *out = nullptr;
    aclrtStream stream = nullptr;
    char text[slot] = {}, got[slot] = {};

    CALL(aclInit(nullptr));
    CALL(aclrtSetDevice(0));
    CALL(aclrtCreateStream(&stream));
    CALL(aclrtMalloc(&ring, slots * slot, ACL_MEM_MALLOC_HUGE_FIRST));
    CALL(aclrtMalloc(&out, slot, ACL_MEM_MALLOC_HUGE_FIRST));
    for (size_t i = 0; i < slots; i++) {
        snprintf(text, sizeof(text), "slot %zu", i);
        CALL(aclrtMemcpy(static_cast<char *>(ring) + i * slot, slot, text, slot,
                         ACL_MEMCPY_HOST_TO_DEVICE));
    }
    const void *source = ring;
    CALL(aclrtMemcpyAsyncWithOffset(&out, slot, 0, &source, slot, 2 * slot,
                                    ACL_MEMCPY_INNER_DEVICE_TO_DEVICE, stream));
    CALL(aclrtSynchronizeStream(stream));
    CALL(aclrtMemcpy(got, slot, out, slot, ACL_MEMCPY_DEVICE_TO_HOST));
    EXPECT(std::strcmp(got, "slot 2") == 0);
    FAILS(ACL_ERROR_RT_PARAM_INVALID,
          aclrtMemcpyAsyncWithOffset(&out, slot - 1, 0, &source, slot, 0,
                                     ACL_MEMCPY_INNER_DEVICE_TO_DEVICE, stream));
    CALL(aclrtFree(out));
    CALL(aclrtFree(ring));
    CALL(aclrtDestroyStream(stream));
    CALL(aclrtResetDevice(0));
    CALL(aclFinalize());
    puts(got);
}
