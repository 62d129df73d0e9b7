/* What npud does not have says so, and never that it has worked. */
#include "expect.h"

#include <string.h>

int main(void)
{
    aclrtBinHandle binary;
    const char *sentence;

    CALL(aclInit(NULL));
    CALL(aclrtSetDevice(0));
    FAILS(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, aclrtBinaryLoadFromFile("kernel.o", NULL, &binary));
    sentence = aclGetRecentErrMsg();
    EXPECT(sentence && strstr(sentence, "aclrtBinaryLoadFromFile"));
    printf("%s\n", sentence);
    CALL(aclrtResetDevice(0));
    return aclFinalize();
}
