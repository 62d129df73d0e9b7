/* A batch in a stream with both directions in it, and a batch that names its bad entry. */
#include "expect.h"

#include <string.h>

int main(void)
{
    aclrtMemcpyBatchAttr attrs[2] = {
        {.dstLoc = {0, ACL_MEM_LOCATION_TYPE_DEVICE}, .srcLoc = {0, ACL_MEM_LOCATION_TYPE_HOST}},
        {.dstLoc = {0, ACL_MEM_LOCATION_TYPE_HOST}, .srcLoc = {0, ACL_MEM_LOCATION_TYPE_DEVICE}},
    };
    void *to[3], *from[3], *host, *a, *b;
    size_t rooms[3] = {256, 256, 256}, sizes[3] = {256, 256, 256}, starts[2] = {0, 2}, bad = 0;
    aclrtStream stream;

    CALL(aclInit(NULL));
    CALL(aclrtSetDevice(0));
    CALL(aclrtCreateStream(&stream));
    CALL(aclrtMallocHost(&host, 1024));
    CALL(aclrtMalloc(&a, 512, ACL_MEM_MALLOC_HUGE_FIRST));
    CALL(aclrtMalloc(&b, 256, ACL_MEM_MALLOC_HUGE_FIRST));
    CALL(aclrtMemset(b, 256, 'b', 256));
    memset(host, 'a', 1024);

    to[0] = a, from[0] = host;
    to[1] = (char *)a + 256, from[1] = (char *)host + 256;
    to[2] = (char *)host + 512, from[2] = b; /* from here on, the second attribute holds */
    CALL(aclrtMemcpyBatchAsync(to, rooms, from, sizes, 3, attrs, starts, 2, &bad, stream));
    CALL(aclrtSynchronizeStream(stream));
    EXPECT(((char *)host)[512] == 'b' && ((char *)host)[767] == 'b' && ((char *)host)[768] == 'a');
    CALL(aclrtMemcpy(host, 1024, a, 512, ACL_MEMCPY_DEVICE_TO_HOST));
    EXPECT(((char *)host)[511] == 'a');

    rooms[1] = 255;
    FAILS(ACL_ERROR_INVALID_PARAM,
          aclrtMemcpyBatchAsync(to, rooms, from, sizes, 3, attrs, starts, 2, &bad, stream));
    EXPECT(bad == 1);
    CALL(aclrtFree(b));
    CALL(aclrtFree(a));
    CALL(aclrtFreeHost(host));
    CALL(aclrtDestroyStream(stream));
    CALL(aclrtResetDevice(0));
    puts("entry 1 has too little room");
    return aclFinalize();
}
