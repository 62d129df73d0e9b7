/*
 * What npud uses of CUDA's driver API: the functions of libcuda.so.1 and the values that go in and
 * out, in declarations of our own. Nothing is linked and no header of CUDA is included; a function
 * that the library lacks is NULL. The numbers are those of the driver's ABI, which never change.
 *
 * Also for tests/gpu, whose raw programs use the same functions without npud.
 */
#pragma once

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef int cuda_result;       /* CUresult */
typedef int cuda_device;       /* CUdevice */
typedef uint64_t cuda_address; /* CUdeviceptr */
typedef uint64_t cuda_handle;  /* CUmemGenericAllocationHandle */
typedef void *cuda_context;
typedef void *cuda_stream;
typedef void *cuda_event;
typedef void *cuda_module;
typedef void *cuda_function;

/** Of these results npud or its tests depend on the value; cuda_code() knows more. */
enum {
    CUDA_SUCCESS = 0,
    CUDA_INVALID_VALUE = 1,
    CUDA_OUT_OF_MEMORY = 2,
    CUDA_NOT_INITIALIZED = 3,
    CUDA_NO_DEVICE = 100,
    CUDA_INVALID_DEVICE = 101,
    CUDA_INVALID_IMAGE = 200,
    CUDA_INVALID_CONTEXT = 201,
    CUDA_NO_BINARY_FOR_GPU = 209,
    CUDA_JIT_COMPILER_NOT_FOUND = 221,
    CUDA_UNSUPPORTED_PTX = 222,
    CUDA_JIT_DISABLED = 223,
    CUDA_INVALID_HANDLE = 400,
    CUDA_NOT_FOUND = 500,
    CUDA_NOT_READY = 600,
    CUDA_ILLEGAL_ADDRESS = 700,
    CUDA_HOST_ALREADY_REGISTERED = 712,
    CUDA_HOST_NOT_REGISTERED = 713,
    CUDA_LAUNCH_FAILED = 719,
    CUDA_NOT_SUPPORTED = 801,
    CUDA_UNKNOWN = 999,
};

enum {
    CUDA_ATTRIBUTE_MAJOR = 75, /* of the compute capability */
    CUDA_ATTRIBUTE_MINOR = 76,

    CUDA_CONTEXT_BLOCKING_SYNC = 4, /* a thread that synchronises sleeps */

    CUDA_STREAM_NON_BLOCKING = 1, /* does not wait for the default stream */

    CUDA_HOST_PORTABLE = 1, /* in all contexts */
    CUDA_HOST_DEVICEMAP = 2,

    CUDA_EVENT_BLOCKING_SYNC = 1,
    CUDA_EVENT_DISABLE_TIMING = 2,
    CUDA_EVENT_INTERPROCESS = 4,

    CUDA_WAIT_VALUE_GEQ = 0,

    CUDA_ALLOCATION_PINNED = 1,
    CUDA_HANDLE_POSIX_FD = 1,
    CUDA_LOCATION_DEVICE = 1,
    CUDA_GRANULARITY_MINIMUM = 0,
    CUDA_ACCESS_READWRITE = 3,

    CUDA_JIT_ERROR_LOG = 5,
    CUDA_JIT_ERROR_LOG_BYTES = 6,

    CUDA_FUNCTION_DYNAMIC_SHARED = 8, /* cuFuncSetAttribute: the most that a launch may ask for */
};

/* Of cuLaunchKernel's last argument: all arguments in one buffer. */
#define CUDA_LAUNCH_END    ((void *)0)
#define CUDA_LAUNCH_BUFFER ((void *)1)
#define CUDA_LAUNCH_SIZE   ((void *)2)

struct cuda_location {
    int type;
    int id;
};

/* CUmemAllocationProp */
struct cuda_allocation {
    int type;
    int handle_types;
    struct cuda_location location;
    void *of_windows;
    uint8_t compression;
    uint8_t rdma;
    uint16_t usage;
    uint8_t reserved[4];
};
static_assert(sizeof(struct cuda_allocation) == 32, "the driver's layout");

/* CUmemAccessDesc */
struct cuda_access {
    struct cuda_location location;
    int flags;
};
static_assert(sizeof(struct cuda_access) == 12, "the driver's layout");

struct cuda_ipc_event {
    char bytes[64];
};

/*
 * The functions: NEEDED(name, arguments), without which there is no device; OPTIONAL(...), each of
 * which may be absent.
 */
#define CUDA_FUNCTIONS(NEEDED, OPTIONAL)                                                           \
    NEEDED(cuInit, (unsigned flags))                                                               \
    NEEDED(cuDriverGetVersion, (int *version))                                                     \
    NEEDED(cuDeviceGetCount, (int *n))                                                             \
    NEEDED(cuDeviceGet, (cuda_device * device, int i))                                             \
    NEEDED(cuDeviceGetName, (char *name, int size, cuda_device device))                            \
    NEEDED(cuDeviceTotalMem_v2, (size_t * bytes, cuda_device device))                              \
    NEEDED(cuDevicePrimaryCtxRetain, (cuda_context * context, cuda_device device))                 \
    NEEDED(cuDevicePrimaryCtxRelease_v2, (cuda_device device))                                     \
    NEEDED(cuCtxSetCurrent, (cuda_context context))                                                \
    NEEDED(cuMemAlloc_v2, (cuda_address * address, size_t size))                                   \
    NEEDED(cuMemFree_v2, (cuda_address address))                                                   \
    NEEDED(cuStreamCreateWithPriority, (cuda_stream * stream, unsigned flags, int priority))       \
    NEEDED(cuStreamDestroy_v2, (cuda_stream stream))                                               \
    NEEDED(cuStreamSynchronize, (cuda_stream stream))                                              \
    NEEDED(cuMemcpyHtoDAsync_v2,                                                                   \
           (cuda_address dst, const void *src, size_t size, cuda_stream stream))                   \
    NEEDED(cuMemcpyDtoHAsync_v2, (void *dst, cuda_address src, size_t size, cuda_stream stream))   \
    NEEDED(cuMemcpyDtoDAsync_v2,                                                                   \
           (cuda_address dst, cuda_address src, size_t size, cuda_stream stream))                  \
    OPTIONAL(cuGetErrorName, (cuda_result result, const char **name))                              \
    OPTIONAL(cuGetErrorString, (cuda_result result, const char **text))                            \
    OPTIONAL(cuDeviceGetAttribute, (int *value, int attribute, cuda_device device))                \
    OPTIONAL(cuDeviceGetUuid_v2, (void *uuid, cuda_device device))                                 \
    OPTIONAL(cuDeviceGetPCIBusId, (char *bus, int size, cuda_device device))                       \
    OPTIONAL(cuDeviceCanAccessPeer, (int *can, cuda_device device, cuda_device peer))              \
    OPTIONAL(cuDevicePrimaryCtxSetFlags_v2, (cuda_device device, unsigned flags))                  \
    OPTIONAL(cuMemGetInfo_v2, (size_t * left, size_t * total))                                     \
    OPTIONAL(cuMemGetAllocationGranularity,                                                        \
             (size_t * granularity, const struct cuda_allocation *allocation, int option))         \
    OPTIONAL(cuMemCreate, (cuda_handle * handle, size_t size,                                      \
                           const struct cuda_allocation *allocation, unsigned long long flags))    \
    OPTIONAL(cuMemRelease, (cuda_handle handle))                                                   \
    OPTIONAL(cuMemAddressReserve, (cuda_address * address, size_t size, size_t alignment,          \
                                   cuda_address wish, unsigned long long flags))                   \
    OPTIONAL(cuMemAddressFree, (cuda_address address, size_t size))                                \
    OPTIONAL(cuMemMap, (cuda_address address, size_t size, size_t offset, cuda_handle handle,      \
                        unsigned long long flags))                                                 \
    OPTIONAL(cuMemUnmap, (cuda_address address, size_t size))                                      \
    OPTIONAL(cuMemSetAccess,                                                                       \
             (cuda_address address, size_t size, const struct cuda_access *access, size_t n))      \
    OPTIONAL(cuMemExportToShareableHandle,                                                         \
             (void *shareable, cuda_handle handle, int type, unsigned long long flags))            \
    OPTIONAL(cuMemImportFromShareableHandle, (cuda_handle * handle, void *shareable, int type))    \
    OPTIONAL(cuMemHostRegister_v2, (void *pages, size_t size, unsigned flags))                     \
    OPTIONAL(cuMemHostUnregister, (void *pages))                                                   \
    OPTIONAL(cuMemHostGetDevicePointer_v2, (cuda_address * address, void *pages, unsigned flags))  \
    OPTIONAL(cuMemsetD8Async,                                                                      \
             (cuda_address dst, unsigned char value, size_t n, cuda_stream stream))                \
    OPTIONAL(cuStreamQuery, (cuda_stream stream))                                                  \
    OPTIONAL(cuStreamWriteValue64_v2,                                                              \
             (cuda_stream stream, cuda_address dst, uint64_t value, unsigned flags))               \
    OPTIONAL(cuStreamWaitValue64_v2,                                                               \
             (cuda_stream stream, cuda_address address, uint64_t value, unsigned flags))           \
    OPTIONAL(cuLaunchHostFunc, (cuda_stream stream, void (*run)(void *arg), void *arg))            \
    OPTIONAL(cuModuleLoadData, (cuda_module * module, const void *image))                          \
    OPTIONAL(cuModuleLoadDataEx, (cuda_module * module, const void *image, unsigned n,             \
                                  const int *options, void **values))                              \
    OPTIONAL(cuModuleUnload, (cuda_module module))                                                 \
    OPTIONAL(cuModuleGetFunction,                                                                  \
             (cuda_function * function, cuda_module module, const char *name))                     \
    OPTIONAL(cuFuncSetAttribute, (cuda_function function, int attribute, int value))               \
    OPTIONAL(cuLaunchKernel,                                                                       \
             (cuda_function function, unsigned blocks_x, unsigned blocks_y, unsigned blocks_z,     \
              unsigned threads_x, unsigned threads_y, unsigned threads_z, unsigned shared_bytes,   \
              cuda_stream stream, void **arguments, void **extra))

#define CUDA_MEMBER(name, arguments) cuda_result(*name) arguments;
struct cuda_api {
    CUDA_FUNCTIONS(CUDA_MEMBER, CUDA_MEMBER)
};

/** What cuda_api_load() has found. */
struct cuda_symbols {
    unsigned known, found;
    bool complete;     /* all that are needed */
    char absent[2048]; /* names, with blanks between them */
};

/** Fills in what the library has. dl: of dlopen(). */
void cuda_api_load(struct cuda_api *api, void *dl, struct cuda_symbols *symbols);

/** The ACL error that means the same as a result of CUDA; 0 for success. */
int32_t cuda_code(cuda_result result);
/** Whether the context is broken for good after this result: only a new process has a new one. */
bool cuda_is_fatal(cuda_result result);
