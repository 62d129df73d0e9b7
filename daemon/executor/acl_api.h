/*
 * What npud uses of the vendor's library: the functions of libascendcl.so, found by name when it is
 * opened. Nothing is linked; the headers of include/acl are the ABI. A function that the library
 * lacks is NULL.
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "acl/acl.h"
#include "proto/wire/executor_message.h"

/** X(name, whether nothing works without it) */
#define ACL_API(X)                                                                                 \
    X(aclInit, true)                                                                               \
    X(aclFinalize, false)                                                                          \
    X(aclGetRecentErrMsg, false)                                                                   \
    X(aclsysGetVersionStr, false)                                                                  \
    X(aclrtGetVersion, false)                                                                      \
    X(aclrtGetDeviceCount, true)                                                                   \
    X(aclrtSetDevice, true)                                                                        \
    X(aclrtGetDevice, true)                                                                        \
    X(aclrtResetDevice, true)                                                                      \
    X(aclrtResetDeviceForce, false)                                                                \
    X(aclrtGetSocName, false)                                                                      \
    X(aclrtGetMemInfo, false)                                                                      \
    X(aclrtDeviceGetUuid, false)                                                                   \
    X(aclrtDeviceGetPCIBusId, false)                                                               \
    X(aclrtDeviceCanAccessPeer, false)                                                             \
    X(aclrtDeviceEnablePeerAccess, false)                                                          \
    X(aclrtDeviceDisablePeerAccess, false)                                                         \
    X(aclrtQueryDeviceStatus, false)                                                               \
    X(aclrtGetDeviceUtilizationRate, false)                                                        \
    X(aclrtGetErrorVerbose, false)                                                                 \
    X(aclrtCreateContext, false)                                                                   \
    X(aclrtDestroyContext, false)                                                                  \
    X(aclrtGetCurrentContext, true)                                                                \
    X(aclrtSetCurrentContext, true)                                                                \
    X(aclrtMalloc, true)                                                                           \
    X(aclrtMallocAlign32, false)                                                                   \
    X(aclrtFree, true)                                                                             \
    X(aclrtMemGetAllocationGranularity, false)                                                     \
    X(aclrtMallocPhysical, false)                                                                  \
    X(aclrtFreePhysical, false)                                                                    \
    X(aclrtReserveMemAddress, false)                                                               \
    X(aclrtReleaseMemAddress, false)                                                               \
    X(aclrtMapMem, false)                                                                          \
    X(aclrtUnmapMem, false)                                                                        \
    X(aclrtMemExportToShareableHandle, false)                                                      \
    X(aclrtMemExportToShareableHandleV2, false)                                                    \
    X(aclrtMemSetPidToShareableHandle, false)                                                      \
    X(aclrtMemSetPidToShareableHandleV2, false)                                                    \
    X(aclrtMemImportFromShareableHandle, false)                                                    \
    X(aclrtMemImportFromShareableHandleV2, false)                                                  \
    X(aclrtIpcMemGetExportKey, false)                                                              \
    X(aclrtIpcMemSetImportPid, false)                                                              \
    X(aclrtIpcMemImportByKey, false)                                                               \
    X(aclrtIpcMemClose, false)                                                                     \
    X(aclrtHostRegister, false)                                                                    \
    X(aclrtHostRegisterV2, false)                                                                  \
    X(aclrtHostGetDevicePointer, false)                                                            \
    X(aclrtHostUnregister, false)                                                                  \
    X(aclrtCreateStream, true)                                                                     \
    X(aclrtCreateStreamWithConfig, false)                                                          \
    X(aclrtDestroyStream, true)                                                                    \
    X(aclrtDestroyStreamForce, false)                                                              \
    X(aclrtSetStreamFailureMode, false)                                                            \
    X(aclrtSynchronizeStream, true)                                                                \
    X(aclrtStreamAbort, false)                                                                     \
    X(aclrtMemcpyAsync, true)                                                                      \
    X(aclrtMemsetAsync, false)                                                                     \
    X(aclrtReduceAsync, false)                                                                     \
    X(aclrtValueWrite, false)                                                                      \
    X(aclrtValueWait, false)                                                                       \
    X(aclrtSubscribeReport, false)                                                                 \
    X(aclrtUnSubscribeReport, false)                                                               \
    X(aclrtProcessReport, false)                                                                   \
    X(aclrtLaunchCallback, false)                                                                  \
    X(aclrtBinaryLoadFromData, false)                                                              \
    X(aclrtBinaryUnLoad, false)                                                                    \
    X(aclrtBinaryGetFunction, false)                                                               \
    X(aclrtLaunchKernelWithHostArgs, false)

/** The functions, by their names. */
struct acl_calls {
#define X(name, required) __typeof__(&(name)) name;
    ACL_API(X)
#undef X
};

/** How memory of a device is made, once that is known. */
enum acl_way {
    ACL_WAY_UNKNOWN,
    ACL_WAY_PHYSICAL, /* physical memory that is mapped, and is shared by a number */
    ACL_WAY_PLAIN,    /* aclrtMalloc, shared by a key if at all */
};

struct acl_device {
    enum acl_way way;
    size_t granularity; /* of ACL_WAY_PHYSICAL */
    uint32_t sets;      /* calls of aclrtSetDevice that have not been undone */
    bool begun;
    struct acl_report *report; /* NULL: none is needed yet */
    _Atomic int32_t gone;      /* see vendor.gone() */
};

struct vendor_library {
    struct acl_calls call;
    unsigned known, found;
    char *absent;         /* names with a blank between them */
    bool initialised;     /* by us */
    pthread_mutex_t lock; /* of `device`, but for `gone` */
    struct acl_device device[EXECUTOR_DEVICES];
};

/** vendor.open(), close() and symbols() */
int32_t acl_open(const char *path, bool nesting, struct vendor_library **library, char *why,
                 size_t why_size);
void acl_close(struct vendor_library *library);
unsigned acl_symbols(struct vendor_library *library, unsigned *known, const char **absent);

/**
 * code, which a function of the library has just answered to this thread. If it is an error, what
 * the library says about it becomes the thread's vendor_text().
 */
int32_t acl_said(struct vendor_library *library, const char *function, aclError code);

/** 207000, and says that the library has no such function. */
int32_t acl_lacks(const char *function);

/** Call a function: what it answers, or 207000 if the library lacks it. */
#define ACL_CALL(library, function, ...)                                                           \
    ((library)->call.function                                                                      \
         ? acl_said((library), #function, (library)->call.function(__VA_ARGS__))                   \
         : acl_lacks(#function))

/** The library has the function. */
#define ACL_HAS(library, function) ((library)->call.function != NULL)
