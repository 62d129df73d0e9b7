/* The forms of beginning and ending: once, counted, and again. */
#include "expect.h"

int main(void)
{
    uint64_t left;

    CALL(aclInit(NULL));
    FAILS(ACL_ERROR_REPEAT_INITIALIZE, aclInit(NULL));
    CALL(aclFinalizeReference(&left));
    EXPECT(left == 1);
    CALL(aclFinalizeReference(&left));
    EXPECT(left == 0);
    FAILS(ACL_ERROR_REPEAT_FINALIZE, aclFinalizeReference(&left));

    CALL(aclInit(NULL));
    CALL(aclrtSetDevice(0));
    CALL(aclrtResetDevice(0));
    CALL(aclFinalize());
    FAILS(ACL_ERROR_REPEAT_FINALIZE, aclFinalize());
    puts("began and ended twice");
    return 0;
}
