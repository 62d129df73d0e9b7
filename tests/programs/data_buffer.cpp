// Records of addresses and sizes, as operators and models take them.
#include "expect.h"

#include <array>

int main()
{
    std::array<float, 16> data{};
    aclDataBuffer *buffer = aclCreateDataBuffer(data.data(), sizeof(data));

    EXPECT(buffer);
    EXPECT(aclGetDataBufferAddr(buffer) == data.data());
    EXPECT(aclGetDataBufferSizeV2(buffer) == 64 && aclGetDataBufferSize(buffer) == 64);
    CALL(aclUpdateDataBuffer(buffer, data.data() + 8, 32));
    EXPECT(aclGetDataBufferAddr(buffer) == data.data() + 8);
    EXPECT(aclGetDataBufferSizeV2(buffer) == 32);
    CALL(aclDestroyDataBuffer(buffer));
    FAILS(ACL_ERROR_INVALID_PARAM, aclDestroyDataBuffer(nullptr));
    EXPECT(aclGetDataBufferAddr(nullptr) == nullptr && aclGetDataBufferSizeV2(nullptr) == 0);
    puts("made, moved, destroyed");
}
