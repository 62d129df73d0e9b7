/* The fake's memory: its addresses are numbers, which only translate() turns into places. */
#include "fake.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* Where neither the kernel nor a sanitizer maps anything. */
#define FIRST (UINT64_C(0x402) << 36)
#define END   (UINT64_C(0x412) << 36)
#define LABEL "fake_cuda"

pthread_rwlock_t fake_mappings = PTHREAD_RWLOCK_INITIALIZER;

/* Physical memory: what a handle names. */
struct physical {
    uint64_t handle;
    uint64_t size;
    char *host;
    int fd;
    int device; /* -1: of another process */
    unsigned mappings;
    bool held; /* a handle of it is out */
    bool shareable;
    struct physical *next;
};

struct range {
    uint64_t address, size;
    struct physical *physical; /* NULL: reserved, nothing is mapped */
    struct context *context;   /* of plain memory: whose it is */
    uint32_t access;           /* devices */
    struct range *next;
};

struct registered {
    char *pages;
    uint64_t size;
    struct registered *next;
};

static struct physical *physicals;
static struct range *ranges;
static struct registered *registereds;
static uint64_t next_address = FIRST, next_handle = 0x1000;
static uint64_t used[DEVICES];

static void lock(void)
{
    pthread_rwlock_wrlock(&fake_mappings);
}

static cuda_result unlock(cuda_result result)
{
    pthread_rwlock_unlock(&fake_mappings);
    return result;
}

static uint64_t device_bytes(void)
{
    return script_number("FAKE_CUDA_MEMORY", UINT64_C(1) << 30);
}

/* --- looking things up; the lock is held --- */

static struct range *find_range(uint64_t address, uint64_t size)
{
    struct range *r = ranges;

    while (r && !(address >= r->address && address - r->address < r->size &&
                  size <= r->size - (address - r->address)))
        r = r->next;
    return r;
}

static struct range *find_exactly(uint64_t address, uint64_t size)
{
    struct range *r = find_range(address, size);

    return r && r->address == address && r->size == size ? r : NULL;
}

static struct physical *find_physical(uint64_t handle)
{
    struct physical *p = physicals;

    while (p && !(p->handle == handle && p->held))
        p = p->next;
    return p;
}

static struct registered *find_registered(const void *pages, uint64_t size)
{
    const char *p = pages;
    struct registered *r = registereds;

    while (r && !(p >= r->pages && (uint64_t)(p - r->pages) < r->size &&
                  size <= r->size - (uint64_t)(p - r->pages)))
        r = r->next;
    return r;
}

void *fake_translate(int device, uint64_t address, uint64_t size)
{
    const struct range *r = find_range(address, size);

    if (r && r->physical && r->access >> device & 1)
        return r->physical->host + (address - r->address);
    return find_registered((void *)(uintptr_t)address, size) ? (void *)(uintptr_t)address : NULL;
}

bool fake_is_device_address(uint64_t address)
{
    return address >= FIRST && address < END;
}

bool fake_is_device(int device, uint64_t address, uint64_t size)
{
    bool is;

    pthread_rwlock_rdlock(&fake_mappings);
    is = fake_translate(device, address, size) != NULL;
    pthread_rwlock_unlock(&fake_mappings);
    return is;
}

bool fake_is_registered(const void *pages, uint64_t size)
{
    bool is;

    pthread_rwlock_rdlock(&fake_mappings);
    is = find_registered(pages, size) != NULL;
    pthread_rwlock_unlock(&fake_mappings);
    return is;
}

unsigned fake_memory_left(void)
{
    unsigned n = 0;

    pthread_rwlock_rdlock(&fake_mappings);
    for (const struct physical *p = physicals; p; p = p->next)
        n++;
    for (const struct range *r = ranges; r; r = r->next)
        n++;
    for (const struct registered *r = registereds; r; r = r->next)
        n++;
    pthread_rwlock_unlock(&fake_mappings);
    return n;
}

/* --- physical memory --- */

static struct physical *add_physical(int fd, uint64_t size, int device)
{
    struct physical *p = calloc(1, sizeof(*p));
    char *host = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

    if (host == MAP_FAILED || !p)
        abort();
    *p = (struct physical){next_handle++, size, host, fd, device, 0, true, true, physicals};
    physicals = p;
    return p;
}

static struct physical *new_physical(uint64_t size, int device)
{
    int fd;

    if (size > device_bytes() || used[device] > device_bytes() - size)
        return NULL;
    fd = memfd_create(LABEL, MFD_CLOEXEC);
    if (fd < 0 || ftruncate(fd, (off_t)size) != 0)
        return NULL;
    used[device] += size;
    return add_physical(fd, size, device);
}

/* Neither a handle nor a mapping is left. */
static void drop_physical(struct physical *p)
{
    struct physical **at = &physicals;

    if (p->held || p->mappings > 0)
        return;
    while (*at != p)
        at = &(*at)->next;
    *at = p->next;
    munmap(p->host, p->size);
    close(p->fd);
    if (p->device >= 0)
        used[p->device] -= p->size;
    free(p);
}

/* --- ranges of addresses --- */

static struct range *new_range(uint64_t size, uint64_t alignment)
{
    struct range *r = calloc(1, sizeof(*r));

    if (!r)
        abort();
    next_address = (next_address + alignment - 1) / alignment * alignment;
    if (size > END - next_address) {
        free(r);
        return NULL;
    }
    r->address = next_address;
    r->size = size;
    r->next = ranges;
    ranges = r;
    /* Never used twice, and never side by side: what reaches over an end is found. */
    next_address += size + alignment;
    return r;
}

static void drop_range(struct range *r)
{
    struct range **at = &ranges;

    while (*at != r)
        at = &(*at)->next;
    *at = r->next;
    free(r);
}

static void unmap_range(struct range *r)
{
    struct physical *p = r->physical;

    r->physical = NULL;
    r->access = 0;
    p->mappings--;
    drop_physical(p);
}

/* --- plain memory --- */

EXPORT cuda_result cuMemAlloc_v2(cuda_address *address, size_t size)
{
    struct physical *p;
    struct range *r;

    ENTER(true);
    if (size == 0)
        return CUDA_INVALID_VALUE;
    lock();
    p = new_physical((size + 511) / 512 * 512, fake_context()->device);
    if (!p)
        return unlock(CUDA_OUT_OF_MEMORY);
    r = new_range(size, 512);
    if (!r)
        abort();
    p->held = false;
    p->mappings = 1;
    r->physical = p;
    r->context = fake_context();
    r->access = 1u << r->context->device;
    *address = r->address;
    return unlock(CUDA_SUCCESS);
}

EXPORT cuda_result cuMemFree_v2(cuda_address address)
{
    struct range *r;

    ENTER(true);
    fake_drain(fake_context());
    lock();
    r = find_range(address, 1);
    if (!r || r->address != address || !r->context || r->context != fake_context())
        return unlock(CUDA_INVALID_VALUE);
    unmap_range(r);
    drop_range(r);
    return unlock(CUDA_SUCCESS);
}

void fake_free_all(struct context *context)
{
    struct range *next;

    lock();
    for (struct range *r = ranges; r; r = next) {
        next = r->next;
        if (r->context == context) {
            unmap_range(r);
            drop_range(r);
        }
    }
    unlock(CUDA_SUCCESS);
}

EXPORT cuda_result cuDeviceTotalMem_v2(size_t *bytes, cuda_device device)
{
    ENTER(false);
    *bytes = device_bytes();
    return device >= 0 && device < fake_devices() ? CUDA_SUCCESS : CUDA_INVALID_DEVICE;
}

EXPORT cuda_result cuMemGetInfo_v2(size_t *left, size_t *total)
{
    ENTER(true);
    lock();
    *total = device_bytes();
    *left = *total - used[fake_context()->device];
    return unlock(CUDA_SUCCESS);
}

/* --- virtual memory management --- */

static bool is_allocation(const struct cuda_allocation *a)
{
    static const uint8_t none[4];

    return a->type == CUDA_ALLOCATION_PINNED && (a->handle_types & ~CUDA_HANDLE_POSIX_FD) == 0 &&
           a->location.type == CUDA_LOCATION_DEVICE && a->location.id >= 0 &&
           a->location.id < fake_devices() && !a->of_windows &&
           memcmp(a->reserved, none, sizeof(none)) == 0;
}

EXPORT cuda_result cuMemGetAllocationGranularity(size_t *granularity,
                                                 const struct cuda_allocation *allocation,
                                                 int option)
{
    ENTER(false);
    *granularity = GRANULARITY;
    return is_allocation(allocation) && (option == 0 || option == 1) ? CUDA_SUCCESS
                                                                     : CUDA_INVALID_VALUE;
}

EXPORT cuda_result cuMemCreate(cuda_handle *handle, size_t size,
                               const struct cuda_allocation *allocation, unsigned long long flags)
{
    struct physical *p;

    ENTER(false);
    if (size == 0 || size % GRANULARITY != 0 || flags != 0 || !is_allocation(allocation))
        return CUDA_INVALID_VALUE;
    lock();
    p = new_physical(size, allocation->location.id);
    if (!p)
        return unlock(CUDA_OUT_OF_MEMORY);
    p->shareable = allocation->handle_types & CUDA_HANDLE_POSIX_FD;
    *handle = p->handle;
    return unlock(CUDA_SUCCESS);
}

EXPORT cuda_result cuMemRelease(cuda_handle handle)
{
    struct physical *p;

    ENTER(false);
    lock();
    p = find_physical(handle);
    if (!p)
        return unlock(CUDA_INVALID_VALUE);
    p->held = false;
    drop_physical(p);
    return unlock(CUDA_SUCCESS);
}

EXPORT cuda_result cuMemAddressReserve(cuda_address *address, size_t size, size_t alignment,
                                       cuda_address wish, unsigned long long flags)
{
    struct range *r;

    (void)wish;
    ENTER(false);
    if (size == 0 || size % GRANULARITY != 0 || flags != 0 || (alignment & (alignment - 1)) != 0)
        return CUDA_INVALID_VALUE;
    lock();
    r = new_range(size, alignment > GRANULARITY ? alignment : GRANULARITY);
    if (r)
        *address = r->address;
    return unlock(r ? CUDA_SUCCESS : CUDA_OUT_OF_MEMORY);
}

EXPORT cuda_result cuMemAddressFree(cuda_address address, size_t size)
{
    struct range *r;

    ENTER(false);
    lock();
    r = find_exactly(address, size);
    if (!r || r->physical || r->context)
        return unlock(CUDA_INVALID_VALUE);
    drop_range(r);
    return unlock(CUDA_SUCCESS);
}

EXPORT cuda_result cuMemMap(cuda_address address, size_t size, size_t offset, cuda_handle handle,
                            unsigned long long flags)
{
    struct physical *p;
    struct range *r;

    ENTER(false);
    lock();
    p = find_physical(handle);
    r = find_exactly(address, size);
    if (!p || !r || r->physical || offset != 0 || flags != 0 || size != p->size)
        return unlock(CUDA_INVALID_VALUE);
    r->physical = p;
    p->mappings++;
    return unlock(CUDA_SUCCESS);
}

EXPORT cuda_result cuMemUnmap(cuda_address address, size_t size)
{
    struct range *r;

    ENTER(false);
    lock();
    r = find_exactly(address, size);
    if (!r || !r->physical || r->context)
        return unlock(CUDA_INVALID_VALUE);
    unmap_range(r);
    return unlock(CUDA_SUCCESS);
}

EXPORT cuda_result cuMemSetAccess(cuda_address address, size_t size,
                                  const struct cuda_access *access, size_t n)
{
    struct range *r;

    ENTER(false);
    lock();
    r = find_exactly(address, size);
    if (!r || !r->physical || n == 0)
        return unlock(CUDA_INVALID_VALUE);
    for (size_t i = 0; i < n; i++) {
        if (access[i].location.type != CUDA_LOCATION_DEVICE || access[i].location.id < 0 ||
            access[i].location.id >= fake_devices() ||
            (access[i].location.id != r->physical->device && r->physical->device >= 0 &&
             !script_number("FAKE_CUDA_PEERS", 1)) ||
            access[i].flags != CUDA_ACCESS_READWRITE)
            return unlock(CUDA_INVALID_VALUE);
        r->access |= 1u << access[i].location.id;
    }
    return unlock(CUDA_SUCCESS);
}

EXPORT cuda_result cuMemExportToShareableHandle(void *shareable, cuda_handle handle, int type,
                                                unsigned long long flags)
{
    struct physical *p;
    int fd;

    ENTER(false);
    lock();
    p = find_physical(handle);
    if (!p || !p->shareable || type != CUDA_HANDLE_POSIX_FD || flags != 0)
        return unlock(CUDA_INVALID_VALUE);
    fd = fcntl(p->fd, F_DUPFD_CLOEXEC, 3);
    memcpy(shareable, &fd, sizeof(fd));
    return unlock(fd < 0 ? 304 : CUDA_SUCCESS);
}

/* What a descriptor of the fake's looks like. */
static uint64_t size_behind(int fd)
{
    char path[64], link[64];
    struct stat st;
    ssize_t n;

    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    n = readlink(path, link, sizeof(link) - 1);
    link[n < 0 ? 0 : n] = '\0';
    return strstr(link, "memfd:" LABEL) && fstat(fd, &st) == 0 ? (uint64_t)st.st_size : 0;
}

EXPORT cuda_result cuMemImportFromShareableHandle(cuda_handle *handle, void *shareable, int type)
{
    int fd = (int)(intptr_t)shareable;
    uint64_t size = size_behind(fd);

    ENTER(true);
    if (size == 0 || type != CUDA_HANDLE_POSIX_FD)
        return size == 0 ? CUDA_INVALID_HANDLE : CUDA_INVALID_VALUE;
    lock();
    *handle = add_physical(fcntl(fd, F_DUPFD_CLOEXEC, 3), size, -1)->handle;
    return unlock(CUDA_SUCCESS);
}

/* --- pages of the host --- */

static cuda_result add_registered(void *pages, uint64_t size)
{
    struct registered *r;

    for (r = registereds; r; r = r->next)
        if ((char *)pages < r->pages + r->size && r->pages < (char *)pages + size)
            return CUDA_HOST_ALREADY_REGISTERED;
    r = calloc(1, sizeof(*r));
    if (!r)
        abort();
    *r = (struct registered){pages, size, registereds};
    registereds = r;
    return CUDA_SUCCESS;
}

static cuda_result remove_registered(const void *pages)
{
    struct registered **at = &registereds, *r;

    while (*at && (*at)->pages != pages)
        at = &(*at)->next;
    r = *at;
    if (!r)
        return CUDA_HOST_NOT_REGISTERED;
    *at = r->next;
    free(r);
    return CUDA_SUCCESS;
}

EXPORT cuda_result cuMemHostRegister_v2(void *pages, size_t size, unsigned flags)
{
    ENTER(true);
    if (!pages || size == 0 || (flags & ~15u) || fake_is_device_address((uintptr_t)pages))
        return CUDA_INVALID_VALUE;
    lock();
    return unlock(add_registered(pages, size));
}

EXPORT cuda_result cuMemHostUnregister(void *pages)
{
    ENTER(true);
    lock();
    return unlock(remove_registered(pages));
}

EXPORT cuda_result cuMemHostGetDevicePointer_v2(cuda_address *address, void *pages, unsigned flags)
{
    ENTER(true);
    *address = (uintptr_t)pages;
    return flags == 0 && fake_is_registered(pages, 1) ? CUDA_SUCCESS : CUDA_INVALID_VALUE;
}

EXPORT cuda_result cuMemHostAlloc(void **pages, size_t size, unsigned flags)
{
    ENTER(true);
    (void)flags;
    *pages = aligned_alloc(4096, (size + 4095) / 4096 * 4096);
    if (!*pages)
        return CUDA_OUT_OF_MEMORY;
    lock();
    return unlock(add_registered(*pages, size));
}

EXPORT cuda_result cuMemFreeHost(void *pages)
{
    cuda_result result;

    ENTER(true);
    lock();
    result = remove_registered(pages);
    if (result == CUDA_SUCCESS)
        free(pages);
    return unlock(result);
}
