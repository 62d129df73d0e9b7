#include "daemon/executor/cuda_memory.h"

#include <stdlib.h>
#include <string.h>

#include "acl/error_codes/rt_error_codes.h"
#include "daemon/executor/cuda_context.h"

/* `of` of memory. handle: 0 for plain memory. */
struct owned {
    cuda_handle handle;
    bool shareable;
};

/* All that npud needs for memory of its own addresses. */
static bool has_virtual_memory(const struct cuda_api *api)
{
    return api->cuMemGetAllocationGranularity && api->cuMemCreate && api->cuMemRelease &&
           api->cuMemAddressReserve && api->cuMemAddressFree && api->cuMemMap && api->cuMemUnmap &&
           api->cuMemSetAccess;
}

static bool can_share(const struct cuda_api *api)
{
    return api->cuMemExportToShareableHandle && api->cuMemImportFromShareableHandle;
}

static struct cuda_allocation describe_memory(const struct vendor_library *library, uint32_t device)
{
    return (struct cuda_allocation){
        .type = CUDA_ALLOCATION_PINNED,
        .handle_types = can_share(&library->api) ? CUDA_HANDLE_POSIX_FD : 0,
        .location = {CUDA_LOCATION_DEVICE, library->device[device].ordinal}};
}

uint64_t cuda_memory_granularity(struct vendor_library *library, uint32_t device)
{
    struct cuda_allocation memory = describe_memory(library, device);
    size_t granularity = 0;

    if (!has_virtual_memory(&library->api) ||
        library->api.cuMemGetAllocationGranularity(&granularity, &memory,
                                                   CUDA_GRANULARITY_MINIMUM) != CUDA_SUCCESS)
        return 0;
    return granularity;
}

/* Also for the devices that reach it directly, for copies between them. */
static int32_t memory_allow_access(struct vendor_library *library, uint32_t device,
                                   cuda_address address, uint64_t size)
{
    struct cuda_access access[EXECUTOR_DEVICES];
    const struct cuda_gpu *d = &library->device[device];
    size_t n = 0;

    for (uint32_t i = 0; i < library->n; i++) {
        cuda_device peer = library->device[i].ordinal;
        int can = i == device;

        if (!can && library->api.cuDeviceCanAccessPeer &&
            library->api.cuDeviceCanAccessPeer(&can, peer, d->ordinal) != CUDA_SUCCESS)
            can = 0;
        if (can)
            access[n++] = (struct cuda_access){{CUDA_LOCATION_DEVICE, peer}, CUDA_ACCESS_READWRITE};
    }
    return CUDA_CALL(library, device, cuMemSetAccess, address, size, access, n);
}

/* size: whole pages. */
static int32_t memory_map(struct vendor_library *library, uint32_t device, uint64_t size,
                          cuda_handle handle, cuda_address *address)
{
    uint64_t alignment = library->device[device].granularity;
    int32_t code = CUDA_CALL(library, device, cuMemAddressReserve, address, size, alignment, 0, 0);

    if (code != 0)
        return code;
    code = CUDA_CALL(library, device, cuMemMap, *address, size, 0, handle, 0);
    if (code == 0) {
        code = memory_allow_access(library, device, *address, size);
        if (code != 0)
            library->api.cuMemUnmap(*address, size);
    }
    if (code != 0)
        library->api.cuMemAddressFree(*address, size);
    return code;
}

static int32_t memory_create(struct vendor_library *library, uint32_t device, uint64_t size,
                             struct owned *of)
{
    struct cuda_allocation memory = describe_memory(library, device);
    int32_t code = CUDA_CALL(library, device, cuMemCreate, &of->handle, size, &memory, 0);

    of->shareable = memory.handle_types != 0;
    /* Some systems have descriptors switched off. */
    if (of->shareable &&
        (code == ACL_ERROR_RT_FEATURE_NOT_SUPPORT || code == ACL_ERROR_RT_NO_PERMISSION)) {
        of->shareable = false;
        memory.handle_types = 0;
        code = CUDA_CALL(library, device, cuMemCreate, &of->handle, size, &memory, 0);
    }
    return code;
}

/* 0: there is no such number, which is what a sum that is too large comes down to. */
static uint64_t round_up(uint64_t size, uint64_t granularity)
{
    return (size + granularity - 1) / granularity * granularity;
}

static int32_t memory_new_virtual(struct vendor_library *library, uint32_t device, uint64_t size,
                                  struct owned *of, struct vendor_memory *memory)
{
    int32_t code;

    memory->size = round_up(size, library->device[device].granularity);
    if (memory->size == 0)
        return ACL_ERROR_RT_MEMORY_ALLOCATION;
    code = memory_create(library, device, memory->size, of);
    if (code != 0)
        return code;
    code = memory_map(library, device, memory->size, of->handle, &memory->address);
    if (code != 0)
        library->api.cuMemRelease(of->handle);
    return code;
}

int32_t cuda_memory_new(struct vendor_library *library, uint32_t device, uint64_t size,
                        struct vendor_memory *memory)
{
    int32_t code = cuda_enter(library, device);
    struct owned *of;

    *memory = (struct vendor_memory){.device = device, .size = size};
    if (code != 0)
        return code;
    if (size == 0)
        return cuda_answer_invalid("memory of no size");
    of = calloc(1, sizeof(*of));
    if (!of)
        return ACL_ERROR_RT_MEMORY_ALLOCATION;
    if (library->device[device].granularity != 0)
        code = memory_new_virtual(library, device, size, of, memory);
    else
        code = CUDA_CALL(library, device, cuMemAlloc_v2, &memory->address, size);
    if (code != 0) {
        free(of);
        return code;
    }
    memory->of = of;
    return 0;
}

void cuda_memory_free(struct vendor_library *library, struct vendor_memory *memory)
{
    struct owned *of = memory->of;
    bool is_there;

    if (!of)
        return;
    is_there = cuda_enter_any(library, memory->device);
    if (of->handle == 0 && is_there)
        library->api.cuMemFree_v2(memory->address);
    if (of->handle != 0) { /* outlives the context */
        library->api.cuMemUnmap(memory->address, memory->size);
        library->api.cuMemAddressFree(memory->address, memory->size);
        library->api.cuMemRelease(of->handle);
    }
    free(of);
    memory->of = NULL;
}

int32_t cuda_memory_export(struct vendor_library *library, struct vendor_memory *memory,
                           struct vendor_token *token)
{
    const struct owned *of = memory->of;
    int32_t code = cuda_enter(library, memory->device);

    memset(token, 0, sizeof(*token));
    token->fd = -1;
    if (code != 0)
        return code;
    if (!of->shareable) {
        vendor_set_text("this driver has no memory that can be shared by a descriptor");
        return ACL_ERROR_RT_FEATURE_NOT_SUPPORT;
    }
    return CUDA_CALL(library, memory->device, cuMemExportToShareableHandle, &token->fd, of->handle,
                     CUDA_HANDLE_POSIX_FD, 0);
}

/* The one who has the descriptor may import it: npud gives it to the right one only. */
int32_t cuda_memory_allow(struct vendor_library *library, struct vendor_memory *memory,
                          const struct vendor_token *token, int32_t pid)
{
    (void)library;
    (void)memory;
    (void)token;
    (void)pid;
    return 0;
}

static int32_t import_handle(struct vendor_library *library, uint32_t device, uint64_t size, int fd,
                             struct vendor_memory *memory)
{
    struct owned *of = calloc(1, sizeof(*of));
    int32_t code;

    if (!of)
        return ACL_ERROR_RT_MEMORY_ALLOCATION;
    memory->size = size;
    of->shareable = true;
    code = CUDA_CALL(library, device, cuMemImportFromShareableHandle, &of->handle,
                     (void *)(uintptr_t)(unsigned)fd, CUDA_HANDLE_POSIX_FD);
    if (code == 0) {
        code = memory_map(library, device, size, of->handle, &memory->address);
        if (code != 0)
            library->api.cuMemRelease(of->handle);
    }
    if (code != 0) {
        free(of);
        return code;
    }
    memory->of = of;
    return 0;
}

/*
 * size: as its maker was asked for it, which has made whole pages of that. The descriptor stays the
 * caller's.
 */
int32_t cuda_memory_import(struct vendor_library *library, uint32_t device, uint64_t size,
                           const struct vendor_token *token, struct vendor_memory *memory)
{
    int32_t code = cuda_enter(library, device);

    *memory = (struct vendor_memory){.device = device, .imported = true};
    if (code != 0)
        return code;
    if (library->device[device].granularity == 0 || !can_share(&library->api))
        return cuda_answer_absent("cuMemImportFromShareableHandle");
    size = round_up(size, library->device[device].granularity);
    if (size == 0 || token->fd < 0)
        return cuda_answer_invalid("memory to import: a size that none has, or no descriptor");
    return import_handle(library, device, size, token->fd, memory);
}

/* --- pages of the host --- */

int32_t cuda_host_attach(struct vendor_library *library, void *pages, uint64_t size)
{
    uint32_t device;
    int32_t code = cuda_enter_first(library, &device);

    if (code != 0)
        return code;
    if (!library->api.cuMemHostUnregister)
        return cuda_answer_absent("cuMemHostUnregister");
    return CUDA_CALL(library, device, cuMemHostRegister_v2, pages, size,
                     CUDA_HOST_PORTABLE | CUDA_HOST_DEVICEMAP);
}

void cuda_host_detach(struct vendor_library *library, void *pages)
{
    uint32_t device;

    if (cuda_enter_first(library, &device) == 0)
        library->api.cuMemHostUnregister(pages);
}

int32_t cuda_host_address(struct vendor_library *library, void *pages, uint64_t *address)
{
    uint32_t device;
    int32_t code = cuda_enter_first(library, &device);

    if (code != 0)
        return code;
    return CUDA_CALL(library, device, cuMemHostGetDevicePointer_v2, address, pages, 0);
}
