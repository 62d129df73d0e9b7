/* check: race */
/* A registration ends while a copy to the memory is under way. */
#include "check.h"

static _Alignas(4096) char array[BYTES];

int main(void)
{
    void *shared;

    start_device();
    aclrtStream stream = NEW_STREAM();
    void *memory = NEW_MEMORY(BYTES);

    CALL(aclrtHostRegister(array, BYTES, ACL_HOST_REGISTER_MAPPED, &shared));
    /* check: written by */
    CALL(aclrtMemcpyAsync(shared, BYTES, memory, BYTES, ACL_MEMCPY_DEVICE_TO_HOST, stream));
    if (!WRONG)
        CALL(aclrtSynchronizeStream(stream));
    CALL(aclrtHostUnregister(array)); /* check: (unmapped|freed) by */
    /* check: missing must synchronise */
    end_stream(stream);
    CALL(aclrtFree(memory));
    end_device();
}
