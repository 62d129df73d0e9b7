#include "daemon/executor/acl_memory.h"

#include <stdlib.h>
#include <string.h>

#include "daemon/executor/acl_api.h"

/* Large pages of the device: what aclrtMalloc gives in whole ones, and VMM by default. */
#define PAGE        (UINT64_C(2) << 20)
#define HOST_PAGE   UINT64_C(4096)
#define KEY_BYTES   65 /* of a key for importers, with its end */
#define NUMBER_AT   8  /* in a token that begins with 0, as no key does */
#define ROUND(n, m) (((n) + (m)-1) / (m) * (m))

/* How a piece of memory is given back, and what it was exported as. */
struct acl_memory {
    aclrtDrvMemHandle handle; /* NULL: by aclrtMalloc, or by a key */
    void *address;
    bool imported, exported;
    bool aligned; /* else other memory may be in its first page */
    char key[KEY_BYTES];
    uint64_t number; /* shareable handle */
};

/* --- physical memory that is mapped --- */

static aclrtPhysicalMemProp memory_kind(uint32_t device)
{
    return (aclrtPhysicalMemProp){
        .handleType = ACL_MEM_HANDLE_TYPE_NONE,
        .allocationType = ACL_MEM_ALLOCATION_TYPE_PINNED,
        .memAttr = ACL_HBM_MEM_HUGE,
        .location = {.id = device, .type = ACL_MEM_LOCATION_TYPE_DEVICE},
    };
}

/* Addresses for it. After an error nothing of that is left; the handle is the caller's. */
static int32_t map_handle(struct vendor_library *l, struct acl_memory *m, uint64_t size)
{
    int32_t code = ACL_CALL(l, aclrtReserveMemAddress, &m->address, size, 0, NULL, 0);

    if (code != 0)
        return code;
    code = ACL_CALL(l, aclrtMapMem, m->address, size, 0, m->handle, 0);
    if (code != 0 && ACL_HAS(l, aclrtReleaseMemAddress))
        l->call.aclrtReleaseMemAddress(m->address);
    return code;
}

static void free_handle(struct vendor_library *l, struct acl_memory *m)
{
    if (ACL_HAS(l, aclrtFreePhysical))
        l->call.aclrtFreePhysical(m->handle);
    m->handle = NULL;
}

static void unmap_handle(struct vendor_library *l, struct acl_memory *m)
{
    if (ACL_HAS(l, aclrtUnmapMem))
        l->call.aclrtUnmapMem(m->address);
    free_handle(l, m);
    if (ACL_HAS(l, aclrtReleaseMemAddress))
        l->call.aclrtReleaseMemAddress(m->address);
}

static int32_t new_physical(struct vendor_library *l, uint32_t device, uint64_t size,
                            struct acl_memory *m)
{
    const aclrtPhysicalMemProp kind = memory_kind(device);
    int32_t code = ACL_CALL(l, aclrtMallocPhysical, &m->handle, size, &kind, 0);

    if (code != 0)
        return code;
    m->aligned = true;
    code = map_handle(l, m, size);
    if (code != 0)
        free_handle(l, m);
    return code;
}

static int32_t export_number(struct vendor_library *l, struct acl_memory *m)
{
    if (ACL_HAS(l, aclrtMemExportToShareableHandleV2))
        return ACL_CALL(l, aclrtMemExportToShareableHandleV2, m->handle,
                        ACL_RT_VMM_EXPORT_FLAG_DEFAULT, ACL_MEM_SHARE_HANDLE_TYPE_DEFAULT,
                        &m->number);
    return ACL_CALL(l, aclrtMemExportToShareableHandle, m->handle, ACL_MEM_HANDLE_TYPE_NONE,
                    ACL_RT_VMM_EXPORT_FLAG_DEFAULT, &m->number);
}

static int32_t import_number(struct vendor_library *l, uint32_t device, struct acl_memory *m)
{
    /* Of the first kind, as it names the device. */
    if (ACL_HAS(l, aclrtMemImportFromShareableHandle))
        return ACL_CALL(l, aclrtMemImportFromShareableHandle, m->number, (int32_t)device,
                        &m->handle);
    return ACL_CALL(l, aclrtMemImportFromShareableHandleV2, &m->number,
                    ACL_MEM_SHARE_HANDLE_TYPE_DEFAULT, 0, &m->handle);
}

/* --- which of the two ways --- */

static size_t physical_granularity(struct vendor_library *l, uint32_t device)
{
    aclrtPhysicalMemProp kind = memory_kind(device);
    size_t bytes = 0;

    if (ACL_HAS(l, aclrtMemGetAllocationGranularity) &&
        l->call.aclrtMemGetAllocationGranularity(&kind, ACL_RT_MEM_ALLOC_GRANULARITY_MINIMUM,
                                                 &bytes) == ACL_SUCCESS &&
        bytes > 0)
        return bytes;
    return PAGE;
}

/*
 * By doing it once. Physical memory is of use if it can be exported, too: what aclrtMalloc makes
 * may still be shared by a key. An error of another kind, as when memory is short, decides nothing.
 */
static int32_t find_way(struct vendor_library *l, uint32_t device, struct acl_device *d)
{
    struct acl_memory trial = {0};
    int32_t code;

    d->granularity = physical_granularity(l, device);
    code = new_physical(l, device, d->granularity, &trial);
    if (code == 0) {
        code = export_number(l, &trial);
        unmap_handle(l, &trial);
    }
    if (code == ACL_ERROR_RT_MEMORY_ALLOCATION)
        return code;
    d->way = code == 0 ? ACL_WAY_PHYSICAL : ACL_WAY_PLAIN;
    return 0;
}

static int32_t way_of(struct vendor_library *l, uint32_t device, enum acl_way *way)
{
    struct acl_device *d = &l->device[device];
    int32_t code = 0;

    pthread_mutex_lock(&l->lock);
    if (d->way == ACL_WAY_UNKNOWN)
        code = find_way(l, device, d);
    *way = d->way;
    pthread_mutex_unlock(&l->lock);
    return code;
}

uint64_t acl_memory_granularity(struct vendor_library *l, uint32_t device)
{
    enum acl_way way;

    return way_of(l, device, &way) == 0 && way == ACL_WAY_PHYSICAL ? l->device[device].granularity
                                                                   : PAGE;
}

/* --- new and free --- */

static int32_t new_plain(struct vendor_library *l, uint64_t size, struct acl_memory *m)
{
    int32_t code;

    /* aclrtMalloc adds 32 bytes, and so another page. */
    if (ACL_HAS(l, aclrtMallocAlign32))
        code = ACL_CALL(l, aclrtMallocAlign32, &m->address, size, ACL_MEM_MALLOC_HUGE_FIRST);
    else
        code = ACL_CALL(l, aclrtMalloc, &m->address, size, ACL_MEM_MALLOC_HUGE_FIRST);
    m->aligned = (uintptr_t)m->address % HOST_PAGE == 0;
    return code;
}

/* *memory from m, which is copied. */
static int32_t keep(struct vendor_memory *memory, const struct acl_memory *m, uint32_t device,
                    uint64_t size)
{
    struct acl_memory *kept = malloc(sizeof(*kept));

    if (!kept) {
        vendor_set_text("out of memory on the host");
        return ACL_ERROR_RT_MEMORY_ALLOCATION;
    }
    *kept = *m;
    *memory = (struct vendor_memory){
        .address = (uintptr_t)m->address,
        .size = size,
        .device = device,
        .imported = m->imported,
        .of = kept,
    };
    return 0;
}

static void give_back(struct vendor_library *l, struct acl_memory *m)
{
    if (m->handle)
        unmap_handle(l, m);
    else if (m->imported)
        l->call.aclrtIpcMemClose(m->key);
    else {
        if (m->exported && ACL_HAS(l, aclrtIpcMemClose))
            l->call.aclrtIpcMemClose(m->key);
        l->call.aclrtFree(m->address);
    }
}

int32_t acl_memory_new(struct vendor_library *l, uint32_t device, uint64_t size,
                       struct vendor_memory *memory)
{
    struct acl_memory m = {0};
    enum acl_way way;
    uint64_t page, whole;
    int32_t code = way_of(l, device, &way);

    if (code != 0)
        return code;
    page = way == ACL_WAY_PHYSICAL ? l->device[device].granularity : PAGE;
    if (size == 0 || size > UINT64_MAX / 2) {
        vendor_set_text("no memory has %llu bytes", (unsigned long long)size);
        return ACL_ERROR_RT_PARAM_INVALID;
    }
    whole = ROUND(size, page);
    code = way == ACL_WAY_PHYSICAL ? new_physical(l, device, whole, &m) : new_plain(l, whole, &m);
    if (code != 0)
        return code;
    code = keep(memory, &m, device, whole);
    if (code != 0)
        give_back(l, &m);
    return code;
}

void acl_memory_free(struct vendor_library *l, struct vendor_memory *memory)
{
    give_back(l, memory->of);
    free(memory->of);
    *memory = (struct vendor_memory){0};
}

/* --- sharing --- */

static int32_t export_key(struct vendor_library *l, struct acl_memory *m, uint64_t size)
{
    if (!m->aligned) {
        vendor_set_text("other memory is in the same page");
        return ACL_ERROR_RT_FEATURE_NOT_SUPPORT;
    }
    return ACL_CALL(l, aclrtIpcMemGetExportKey, m->address, size, m->key, sizeof(m->key),
                    ACL_RT_IPC_MEM_EXPORT_FLAG_DEFAULT);
}

/* What is exported once stays so: a handle cannot be exported again. */
int32_t acl_memory_export(struct vendor_library *l, struct vendor_memory *memory,
                          struct vendor_token *token)
{
    struct acl_memory *m = memory->of;
    int32_t code = 0;

    if (m->imported) {
        vendor_set_text("what was imported is its maker's to export");
        return ACL_ERROR_RT_PARAM_INVALID;
    }
    if (!m->exported)
        code = m->handle ? export_number(l, m) : export_key(l, m, memory->size);
    if (code != 0)
        return code;
    m->exported = true;
    *token = (struct vendor_token){.fd = -1};
    if (m->handle)
        memcpy(token->bytes + NUMBER_AT, &m->number, sizeof(m->number));
    else
        memcpy(token->bytes, m->key, EXECUTOR_TOKEN_BYTES);
    return 0;
}

int32_t acl_memory_allow(struct vendor_library *l, struct vendor_memory *memory,
                         const struct vendor_token *token, int32_t pid)
{
    struct acl_memory *m = memory->of;

    (void)token;
    if (!m->exported) {
        vendor_set_text("it has not been exported");
        return ACL_ERROR_RT_PARAM_INVALID;
    }
    if (!m->handle)
        return ACL_CALL(l, aclrtIpcMemSetImportPid, m->key, &pid, 1);
    if (ACL_HAS(l, aclrtMemSetPidToShareableHandle))
        return ACL_CALL(l, aclrtMemSetPidToShareableHandle, m->number, &pid, 1);
    return ACL_CALL(l, aclrtMemSetPidToShareableHandleV2, &m->number,
                    ACL_MEM_SHARE_HANDLE_TYPE_DEFAULT, &pid, 1);
}

/* The exporter may have another device, and old drivers know no peers. */
static int32_t import_key(struct vendor_library *l, struct acl_memory *m)
{
    int32_t code = ACL_CALL(l, aclrtIpcMemImportByKey, &m->address, m->key,
                            ACL_RT_IPC_MEM_IMPORT_FLAG_ENABLE_PEER_ACCESS);

    if (code == ACL_ERROR_RT_FEATURE_NOT_SUPPORT)
        code = ACL_CALL(l, aclrtIpcMemImportByKey, &m->address, m->key,
                        ACL_RT_IPC_MEM_IMPORT_FLAG_DEFAULT);
    return code;
}

static int32_t import_and_map(struct vendor_library *l, uint32_t device, uint64_t size,
                              struct acl_memory *m)
{
    int32_t code = import_number(l, device, m);

    if (code != 0)
        return code;
    code = map_handle(l, m, size);
    if (code != 0)
        free_handle(l, m);
    return code;
}

int32_t acl_memory_import(struct vendor_library *l, uint32_t device, uint64_t size,
                          const struct vendor_token *token, struct vendor_memory *memory)
{
    struct acl_memory m = {.imported = true};
    int32_t code;

    /* What was exported is in whole pages of the device. */
    size = ROUND(size, acl_memory_granularity(l, device));
    if (token->bytes[0] == '\0') {
        memcpy(&m.number, token->bytes + NUMBER_AT, sizeof(m.number));
        code = import_and_map(l, device, size, &m);
    } else {
        memcpy(m.key, token->bytes, EXECUTOR_TOKEN_BYTES); /* the rest is the end of the text */
        code = import_key(l, &m);
    }
    if (code != 0)
        return code;
    code = keep(memory, &m, device, size);
    if (code != 0)
        give_back(l, &m);
    return code;
}

/* --- pages of the host --- */

/* MAPPED, for words that the device writes; where that is refused, what copies need is enough. */
int32_t acl_host_attach(struct vendor_library *l, void *pages, uint64_t size)
{
    static const uint32_t flags[] = {ACL_HOST_REG_MAPPED | ACL_HOST_REG_PINNED, ACL_HOST_REG_MAPPED,
                                     ACL_HOST_REG_PINNED};
    void *address;
    int32_t code = ACL_ERROR_RT_FEATURE_NOT_SUPPORT;

    for (size_t i = 0; i < 3 && code != 0 && ACL_HAS(l, aclrtHostRegisterV2); i++)
        code = ACL_CALL(l, aclrtHostRegisterV2, pages, size, flags[i]);
    if (code != 0 && ACL_HAS(l, aclrtHostRegister))
        code = ACL_CALL(l, aclrtHostRegister, pages, size, ACL_HOST_REGISTER_MAPPED, &address);
    return code;
}

void acl_host_detach(struct vendor_library *l, void *pages)
{
    if (ACL_HAS(l, aclrtHostUnregister))
        l->call.aclrtHostUnregister(pages);
}

int32_t acl_host_address(struct vendor_library *l, void *pages, uint64_t *address)
{
    void *seen = NULL;
    const int32_t code = ACL_CALL(l, aclrtHostGetDevicePointer, pages, &seen, 0);

    *address = (uintptr_t)seen;
    return code;
}
