/* The sentence about a failure: it names the call, and is given once. */
#include "expect.h"

#include <string.h>

int main(void)
{
    const char *sentence;

    CALL(aclInit(NULL));
    EXPECT(aclGetRecentErrMsg() == NULL);
    FAILS(ACL_ERROR_RT_INVALID_DEVICEID, aclrtSetDevice(1000));
    sentence = aclGetRecentErrMsg();
    EXPECT(sentence && strstr(sentence, "aclrtSetDevice"));
    printf("%s\n", sentence);
    EXPECT(aclGetRecentErrMsg() == NULL);
    return aclFinalize();
}
