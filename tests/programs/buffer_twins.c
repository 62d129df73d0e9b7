/* The same buffers by the names of the runtime. */
#include "expect.h"

#include <string.h>

int main(void)
{
    aclrtMbuf buffer, reference;
    uint32_t count;
    void *data, *same;
    size_t size;

    CALL(aclInit(NULL));
    CALL(aclrtAllocBuf(&buffer, 256));
    CALL(aclrtGetBufData(buffer, &data, &size));
    EXPECT(size == 256);
    strcpy(data, "one block");
    CALL(aclrtSetBufDataLen(buffer, 10));
    CALL(aclrtCopyBufRef(buffer, &reference));
    CALL(aclrtFreeBuf(buffer));
    CALL(aclrtGetBufData(reference, &same, &size));
    EXPECT(strcmp(same, "one block") == 0);
    CALL(aclrtGetBufChainNum(reference, &count));
    EXPECT(count == 1);
    CALL(aclrtFreeBuf(reference));
    FAILS(ACL_ERROR_INVALID_PARAM, aclrtAllocBuf(&buffer, 0));
    puts("two references, one block");
    return aclFinalize();
}
