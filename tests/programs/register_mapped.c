/* Memory of mmap that devices reach at its address, with its contents kept on both ways. */
#include "expect.h"

#include <string.h>
#include <sys/mman.h>

int main(void)
{
    const size_t bytes = 1 << 20;
    void *memory, *for_device, *same, *device;
    aclrtPtrAttributes attributes;
    aclrtStream stream;

    memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT(memory != MAP_FAILED);
    strcpy(memory, "written before");
    CALL(aclInit(NULL));
    CALL(aclrtSetDevice(0));
    CALL(aclrtCreateStream(&stream));
    CALL(aclrtMalloc(&device, bytes, ACL_MEM_MALLOC_HUGE_FIRST));
    CALL(aclrtHostRegister(memory, bytes, ACL_HOST_REGISTER_MAPPED, &for_device));
    CALL(aclrtHostGetDevicePointer(memory, &same, 0));
    EXPECT(same == for_device && strcmp(memory, "written before") == 0);
    CALL(aclrtPointerGetAttributes((char *)memory + 5000, &attributes));
    EXPECT(attributes.location.type == ACL_MEM_LOCATION_TYPE_HOST);
    CALL(aclrtMemcpyAsync(device, bytes, for_device, bytes, ACL_MEMCPY_HOST_TO_DEVICE, stream));
    CALL(aclrtSynchronizeStream(stream));
    memset(memory, 0, bytes);
    CALL(aclrtMemcpyAsync(for_device, bytes, device, bytes, ACL_MEMCPY_DEVICE_TO_HOST, stream));
    CALL(aclrtSynchronizeStream(stream));
    CALL(aclrtHostUnregister(memory));
    EXPECT(strcmp(memory, "written before") == 0);
    FAILS(ACL_ERROR_HOST_MEMORY_NOT_REGISTERED, aclrtHostUnregister(memory));
    CALL(aclrtFree(device));
    CALL(aclrtDestroyStream(stream));
    CALL(aclrtResetDevice(0));
    puts(memory);
    munmap(memory, bytes);
    return aclFinalize();
}
