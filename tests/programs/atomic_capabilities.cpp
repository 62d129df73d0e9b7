// Which atomic operations work between two devices; a reduction is one of them.
#include "expect.h"

#include <array>

int main()
{
    const std::array<aclrtAtomicOperation, 2> wanted = {ACL_RT_ATOMIC_OPERATION_DMA_ADD,
                                                        ACL_RT_ATOMIC_OPERATION_CAS};
    std::array<uint32_t, 2> between = {}, host = {};

    CALL(aclInit(nullptr));
    CALL(aclrtDeviceGetP2PAtomicCapabilities(between.data(), wanted.data(), wanted.size(), 0, 1));
    CALL(aclrtDeviceGetHostAtomicCapabilities(host.data(), wanted.data(), wanted.size(), 0));
    EXPECT(between[0] & ACL_RT_ATOMIC_CAPABILITY_REDUCTION);
    EXPECT(between[1] == 0 && host[1] == 0);
    FAILS(ACL_ERROR_RT_INVALID_DEVICEID,
          aclrtDeviceGetP2PAtomicCapabilities(between.data(), wanted.data(), 2, 0, 0));
    CALL(aclFinalize());
    printf("mask %#x for sums\n", between[0]);
}
