// check: race
// The device is synchronised: but the work is on another device.
#include "check.h"

#include <vector>

int main()
{
    std::vector<char> got(BYTES);

    start_device();
    aclrtStream stream = NEW_STREAM();
    void *memory = NEW_MEMORY(BYTES);

    // check: written by
    CALL(aclrtMemsetAsync(memory, BYTES, 1, BYTES, stream));
    CALL(aclrtSetDevice(WRONG ? 1 : 0));
    CALL(aclrtSynchronizeDevice());
    CALL(aclrtSetDevice(0));
    // check: read by
    CALL(aclrtMemcpy(got.data(), BYTES, memory, BYTES, ACL_MEMCPY_DEVICE_TO_HOST));
    // check: missing must synchronise
    end_stream(stream);
    CALL(aclrtFree(memory));
    if (WRONG)
        CALL(aclrtResetDevice(1));
    end_device();
}
