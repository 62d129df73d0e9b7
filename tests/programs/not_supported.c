/* One function of each subject that is not supported: none says that it has worked. */
#include "expect.h"

#include <acl/acl_platform.h>
#include <string.h>

#define NOT(call) FAILS(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, call)

int main(void)
{
    const char *sentence;
    char text[64];

    CALL(aclInit(NULL));
    CALL(aclrtSetDevice(0));
    NOT(aclrtSnapShotProcessLock(getpid(), NULL));
    sentence = aclGetRecentErrMsg();
    EXPECT(sentence && strncmp(sentence, "[207000] aclrtSnapShotProcessLock", 33) == 0);
    puts(sentence);
    NOT(aclrtSetGroup(0));
    NOT(aclplatformGetInstructionInfo(ACL_PLATFORM_CORE_TYPE_AI_CORE, "Add", text, sizeof(text)));
    CALL(aclrtResetDevice(0));
    return aclFinalize();
}
