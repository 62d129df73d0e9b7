// check: race
// Each context has a default stream of its own.
#include "check.h"

int main()
{
    CALL(aclInit(nullptr));
    aclrtContext first = NEW(aclrtContext, aclrtCreateContext, 0);
    aclrtContext second = NEW(aclrtContext, aclrtCreateContext, 0);
    void *memory = NEW_MEMORY(BYTES);

    CALL(aclrtSetCurrentContext(first));
    // check: written by
    CALL(aclrtMemsetAsync(memory, BYTES, 1, BYTES, nullptr));
    if (WRONG)
        CALL(aclrtSetCurrentContext(second));
    // check: written by
    CALL(aclrtMemsetAsync(memory, BYTES, 2, BYTES, nullptr));
    // check: missing must wait for an event that is recorded after the write
    CALL(aclrtSynchronizeStream(nullptr));
    CALL(aclrtSetCurrentContext(first));
    CALL(aclrtSynchronizeStream(nullptr));
    CALL(aclrtFree(memory));
    CALL(aclrtDestroyContext(second));
    CALL(aclrtDestroyContext(first));
    CALL(aclFinalize());
}
