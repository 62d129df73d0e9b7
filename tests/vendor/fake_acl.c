/*
 * A library with what npud needs of the vendor's, and nothing more: memory of the host, copies at
 * the call. FAKE_ACL in the environment says what copies to the device do: segv, exit, hang, or
 * lies, which copies wrong bytes. With LAZY it has some more functions, which do nothing.
 */
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "acl/acl.h"

static _Thread_local int32_t device = -1;
static char thing; /* what handles point to */

aclError aclInit(const char *config)
{
    (void)config;
    return ACL_SUCCESS;
}

aclError aclrtGetDeviceCount(uint32_t *count)
{
    *count = 1;
    return ACL_SUCCESS;
}

aclError aclrtSetDevice(int32_t id)
{
    device = id;
    return id == 0 ? ACL_SUCCESS : ACL_ERROR_RT_INVALID_DEVICEID;
}

aclError aclrtGetDevice(int32_t *id)
{
    *id = device;
    return device < 0 ? ACL_ERROR_RT_CONTEXT_NULL : ACL_SUCCESS;
}

aclError aclrtResetDevice(int32_t id)
{
    (void)id;
    return ACL_SUCCESS;
}

aclError aclrtGetCurrentContext(aclrtContext *context)
{
    *context = &thing;
    return ACL_SUCCESS;
}

aclError aclrtSetCurrentContext(aclrtContext context)
{
    device = 0;
    return context == &thing ? ACL_SUCCESS : ACL_ERROR_RT_CONTEXT_NULL;
}

aclError aclrtMalloc(void **address, size_t size, aclrtMemMallocPolicy policy)
{
    (void)policy;
    *address = malloc(size);
    return *address ? ACL_SUCCESS : ACL_ERROR_RT_MEMORY_ALLOCATION;
}

aclError aclrtFree(void *address)
{
    free(address);
    return ACL_SUCCESS;
}

aclError aclrtCreateStream(aclrtStream *stream)
{
    *stream = &thing;
    return ACL_SUCCESS;
}

aclError aclrtDestroyStream(aclrtStream stream)
{
    return stream == &thing ? ACL_SUCCESS : ACL_ERROR_RT_INVALID_HANDLE;
}

aclError aclrtSynchronizeStream(aclrtStream stream)
{
    return stream == &thing ? ACL_SUCCESS : ACL_ERROR_RT_INVALID_HANDLE;
}

static void misbehave(const char *how)
{
    if (strcmp(how, "segv") == 0)
        raise(SIGSEGV);
    if (strcmp(how, "exit") == 0)
        exit(3);
    while (strcmp(how, "hang") == 0)
        pause();
}

aclError aclrtMemcpyAsync(void *dst, size_t room, const void *src, size_t count,
                          aclrtMemcpyKind kind, aclrtStream stream)
{
    const char *how = getenv("FAKE_ACL");

    if (stream != &thing || room < count)
        return ACL_ERROR_RT_PARAM_INVALID;
    memcpy(dst, src, count);
    if (!how || kind != ACL_MEMCPY_HOST_TO_DEVICE)
        return ACL_SUCCESS;
    misbehave(how);
    if (count > 100)
        ((char *)dst)[100] ^= 1;
    return ACL_SUCCESS;
}

#ifdef LAZY
/* They are there, and say that all is well, or that the chip cannot. */
aclError aclrtMemsetAsync(void *address, size_t room, int32_t value, size_t count,
                          aclrtStream stream)
{
    (void)address;
    (void)room;
    (void)value;
    (void)count;
    (void)stream;
    return ACL_SUCCESS;
}

aclError aclrtValueWrite(void *address, uint64_t value, uint32_t flag, aclrtStream stream)
{
    (void)address;
    (void)value;
    (void)flag;
    (void)stream;
    return ACL_SUCCESS;
}

aclError aclrtHostRegisterV2(void *pages, uint64_t size, uint32_t flag)
{
    (void)pages;
    (void)size;
    (void)flag;
    return ACL_ERROR_RT_FEATURE_NOT_SUPPORT;
}

aclError aclrtMallocPhysical(aclrtDrvMemHandle *handle, size_t size,
                             const aclrtPhysicalMemProp *kind, uint64_t flags)
{
    (void)handle;
    (void)size;
    (void)kind;
    (void)flags;
    return ACL_ERROR_RT_FEATURE_NOT_SUPPORT;
}
#endif
