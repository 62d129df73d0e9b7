/* A text that goes to the device, across it, and back. */
#include "expect.h"

#include <string.h>

int main(void)
{
    const char text[] = "round trip";
    char got[sizeof(text)], again[sizeof(text)];
    void *first, *second;

    CALL(aclInit(NULL));
    CALL(aclrtSetDevice(0));
    CALL(aclrtMalloc(&first, 64, ACL_MEM_MALLOC_HUGE_FIRST));
    CALL(aclrtMalloc(&second, 64, ACL_MEM_MALLOC_HUGE_FIRST));
    CALL(aclrtMemcpy(first, 64, text, sizeof(text), ACL_MEMCPY_HOST_TO_DEVICE));
    CALL(aclrtMemcpy(second, 64, first, sizeof(text), ACL_MEMCPY_DEVICE_TO_DEVICE));
    CALL(aclrtMemcpy(got, sizeof(got), second, sizeof(text), ACL_MEMCPY_DEVICE_TO_HOST));
    EXPECT(strcmp(got, text) == 0);
    CALL(aclrtMemcpy(again, sizeof(again), got, sizeof(text), ACL_MEMCPY_HOST_TO_HOST));
    EXPECT(strcmp(again, text) == 0);
    CALL(aclrtMemcpy(first, 64, "by default", sizeof(text), ACL_MEMCPY_DEFAULT));
    CALL(aclrtMemcpy(got, sizeof(got), first, sizeof(text), ACL_MEMCPY_DEFAULT));
    EXPECT(strcmp(got, "by default") == 0);
    FAILS(ACL_ERROR_RT_PARAM_INVALID,
          aclrtMemcpy(got, 4, first, sizeof(text), ACL_MEMCPY_DEVICE_TO_HOST));
    FAILS(ACL_ERROR_INVALID_PARAM, aclrtMemcpy(got, 4, NULL, 4, ACL_MEMCPY_DEVICE_TO_HOST));
    CALL(aclrtFree(first));
    CALL(aclrtFree(second));
    CALL(aclrtResetDevice(0));
    puts(again);
    return aclFinalize();
}
