/*
 * Exports that a program passes on as a descriptor, over sockets of its own: a sealed memfd that
 * holds the key. npud is sent none of them.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "acl/acl.h"
#include "acl/acl_npud.h"
#include "client/core/api_call.h"
#include "client/core/error.h"
#include "client/memory/export.h"
#include "client/memory/ipc_memory.h"
#include "proto/util/lift_fd.h"

#define SEALS (F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE)

/* A memfd with the key, its NUL included; or -1. */
static int make_key_file(const char *key)
{
    int fd = lift_fd(memfd_create("npud-memory-key", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    int saved;

    if (fd >= 0 && write(fd, key, EXPORT_KEY_SIZE) == EXPORT_KEY_SIZE &&
        fcntl(fd, F_ADD_SEALS, SEALS) == 0)
        return fd;
    saved = errno;
    if (fd >= 0)
        close(fd);
    errno = saved;
    return -1;
}

/* Sealed, so that the key is what the exporter wrote, and reading it never waits. */
static int read_key_file(const char *function, int fd, char *key)
{
    int seals = fcntl(fd, F_GET_SEALS);

    if (seals >= 0 && (seals & SEALS) == SEALS &&
        pread(fd, key, EXPORT_KEY_SIZE, 0) == EXPORT_KEY_SIZE && key[EXPORT_KEY_SIZE - 1] == '\0')
        return 0;
    return error_set(ACL_ERROR_RT_PARAM_INVALID,
                     "%s: descriptor %d is not one of aclnpudMemExportFd", function, fd);
}

aclError aclnpudMemExportFd(void *devPtr, size_t size, uint64_t flags, int *fd)
{
    CALL_SCOPE;
    char key[EXPORT_KEY_SIZE];

    REQUIRE(devPtr);
    REQUIRE(fd);
    RETURN_IF_ERROR(ipc_memory_export(__func__, devPtr, size, key, sizeof(key), flags));
    *fd = make_key_file(key);
    if (*fd >= 0)
        return 0;
    error_set(ACL_ERROR_RT_RESOURCE_ALLOC_FAIL, "%s: cannot make a descriptor: %m", __func__);
    ipc_memory_close(__func__, key);
    return ACL_ERROR_RT_RESOURCE_ALLOC_FAIL;
}

aclError aclnpudMemImportFd(void **devPtr, int fd, uint64_t flags)
{
    CALL_SCOPE;
    char key[EXPORT_KEY_SIZE];

    REQUIRE(devPtr);
    RETURN_IF_ERROR(read_key_file(__func__, fd, key));
    return ipc_memory_import(__func__, devPtr, key, flags);
}

aclError aclnpudMemCloseFd(int fd)
{
    CALL_SCOPE;
    char key[EXPORT_KEY_SIZE];

    RETURN_IF_ERROR(read_key_file(__func__, fd, key));
    return ipc_memory_close(__func__, key);
}
