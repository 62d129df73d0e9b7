#include "client/memory/virtual.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
#include <utlist.h>

#include "client/check/checked.h"
#include "client/core/error.h"
#include "client/memory/alloc.h"
#include "client/memory/hold.h"
#include "client/memory/physical.h"
#include "client/runtime/device.h"

#define PAGE          4096u
#define RESERVE_MAX   (UINT64_C(64) << 40)
#define ALIGNMENT_MAX (UINT64_C(1) << 30)
/* Where a program may wish for addresses. */
#define WISH_FROM (UINT64_C(16) << 40)
#define WISH_TO   (UINT64_C(24) << 40)

/* Changed under session->lock, and in the map under memory_lock, too. */
struct reservation {
    struct address_range addresses; /* in session->reservations */
    uint64_t number;                /* struct memory: reservation */
    uint32_t mapped;                /* mappings in it, ... */
    bool host; /* ... and whether they are all of the host, or all of devices */
};

/* Of a process: no two reservations have the same. */
static _Atomic uint64_t last_number;

static uintptr_t end_of(const struct address_range *range)
{
    return range->start + range->size;
}

/* Caller holds session->lock, or memory_lock. */
static struct reservation *find_reservation(struct session *s, const void *address)
{
    struct address_range *range = range_map_find(&s->reservations, address);

    return range ? RANGE_OWNER(range, struct reservation, addresses) : NULL;
}

bool virtual_is_reserved(struct session *s, const void *address)
{
    bool reserved;

    if (!atomic_load_explicit(&s->reserves, memory_order_acquire))
        return false;
    memory_lock_to_look(s);
    reserved = find_reservation(s, address) != NULL;
    pthread_rwlock_unlock(&s->memory_lock);
    return reserved;
}

/* --- addresses --- */

/*
 * Not in a forked child, as memory that is mapped there: so the kernel joins what is empty, and the
 * child finds no holes in a reservation that it does not have.
 */
static void *map_nothing(uintptr_t at, size_t size, int flags)
{
    void *p = mmap((void *)at, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | flags,
                   -1, 0);

    if (p != MAP_FAILED)
        madvise(p, size, MADV_DONTFORK);
    return p;
}

/* Reserve where the kernel likes: more than is needed, and what is not aligned is given back. */
static void *reserve_anywhere(size_t size, size_t alignment)
{
    size_t more = alignment - PAGE;
    char *p = map_nothing(0, size + more, 0);
    size_t before;

    if (p == MAP_FAILED)
        return p;
    before = -(uintptr_t)p & (alignment - 1);
    if (before > 0)
        munmap(p, before);
    if (before < more)
        munmap(p + before + size, more - before);
    return p + before;
}

static void *reserve_at(uintptr_t wish, size_t size)
{
    /*
     * The kernel takes a wish that is free. MAP_FIXED_NOREPLACE would say it more clearly, but is
     * none before Linux 4.17, and under the thread sanitizer, which has its own memory there, it
     * becomes address 0.
     */
    void *p = map_nothing(wish, size, 0);

    if (p == MAP_FAILED || (uintptr_t)p == wish)
        return p;
    munmap(p, size);
    errno = EEXIST;
    return MAP_FAILED;
}

static int check_reserve(const char *function, size_t size, size_t alignment, uintptr_t wish,
                         uint64_t flags)
{
    if (size == 0 || flags > 1)
        return error_set(ACL_ERROR_INVALID_PARAM, "%s: size is 0, or flags is above 1", function);
    if (size > RESERVE_MAX)
        return error_set(ACL_ERROR_RT_PARAM_INVALID, "%s: size is %zu, must be 64 TiB at most",
                         function, size);
    if (alignment > ALIGNMENT_MAX || (alignment & (alignment - 1)) != 0)
        return error_set(ACL_ERROR_RT_PARAM_INVALID,
                         "%s: alignment is %zu, must be 0 or a power of two up to 1 GiB", function,
                         alignment);
    if (wish && (wish < WISH_FROM || wish > WISH_TO - size ||
                 wish % (alignment > PHYSICAL_GRANULARITY ? alignment : PHYSICAL_GRANULARITY) != 0))
        return error_set(
            ACL_ERROR_RT_PARAM_INVALID,
            "%s: expectPtr (%p) must be NULL, or aligned to %llu (or alignment) and in "
            "the range from 16 TiB to 24 TiB",
            function, (void *)wish, (unsigned long long)PHYSICAL_GRANULARITY);
    return 0;
}

static int add_reservation(struct session *s, const char *function, struct reservation *r)
{
    bool ok;

    r->number = atomic_fetch_add_explicit(&last_number, 1, memory_order_relaxed) + 1;
    pthread_mutex_lock(&s->lock);
    memory_lock_to_change(s);
    ok = range_map_add(&s->reservations, &r->addresses);
    atomic_store_explicit(&s->reserves, true, memory_order_release);
    pthread_rwlock_unlock(&s->memory_lock);
    pthread_mutex_unlock(&s->lock);
    return ok ? 0 : error_no_memory(function);
}

aclError aclrtReserveMemAddress(void **virPtr, size_t size, size_t alignment, void *expectPtr,
                                uint64_t flags)
{
    CALL_SCOPE;
    size_t aligned = alignment > PHYSICAL_GRANULARITY ? alignment : PHYSICAL_GRANULARITY;
    struct reservation *r;
    struct session *s;
    void *p;
    int error;

    REQUIRE(virPtr);
    RETURN_IF_ERROR(check_reserve(__func__, size, alignment, (uintptr_t)expectPtr, flags));
    s = FIND_OR_RETURN(session_get, __func__);
    /* Programs reserve as much as aclrtGetMemInfo calls free. */
    size = (size + PHYSICAL_GRANULARITY - 1) & ~(size_t)(PHYSICAL_GRANULARITY - 1);
    p = expectPtr ? reserve_at((uintptr_t)expectPtr, size) : reserve_anywhere(size, aligned);
    if (p == MAP_FAILED && errno == EEXIST)
        return error_set(ACL_ERROR_RT_DRV_INTERNAL_ERROR, "%s: addresses from %p on are in use",
                         __func__, expectPtr);
    if (p == MAP_FAILED)
        return error_set(ACL_ERROR_RT_MEMORY_ALLOCATION, "%s: cannot reserve %zu bytes: %m",
                         __func__, size);
    r = calloc(1, sizeof(*r));
    if (r)
        r->addresses = (struct address_range){(uintptr_t)p, size};
    error = r ? add_reservation(s, __func__, r) : error_no_memory(__func__);
    if (error != 0) {
        munmap(p, size);
        free(r);
        return error;
    }
    if (checked_runs())
        checked_object(CHECK_OBJECT, CHECK_OBJECT_ADDRESSES, (uintptr_t)p);
    /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): the map owns r */
    *virPtr = p;
    return 0;
}

/* Caller holds session->lock. Out of the map, if it can go: 0 or an ACL error. */
static int take_reservation(struct session *s, const char *function, const void *address,
                            struct reservation **rp)
{
    struct reservation *r = find_reservation(s, address);

    if (!r || r->addresses.start != (uintptr_t)address)
        return error_set(ACL_ERROR_RT_PARAM_INVALID,
                         "%s: %p is not the start of addresses of aclrtReserveMemAddress", function,
                         address);
    if (r->mapped > 0)
        return error_set(ACL_ERROR_RT_DRV_INTERNAL_ERROR,
                         "%s: %u mappings are there: call aclrtUnmapMem for each first", function,
                         r->mapped);
    memory_lock_to_change(s);
    range_map_remove(&s->reservations, &r->addresses);
    pthread_rwlock_unlock(&s->memory_lock);
    *rp = r;
    return 0;
}

aclError aclrtReleaseMemAddress(void *virPtr)
{
    CALL_SCOPE;
    struct reservation *r = NULL;
    struct session *s;
    int error;

    REQUIRE(virPtr);
    s = FIND_OR_RETURN(session_get, __func__);
    pthread_mutex_lock(&s->lock);
    error = take_reservation(s, __func__, virPtr, &r);
    pthread_mutex_unlock(&s->lock);
    if (error != 0)
        return error;
    if (checked_runs())
        checked_object(CHECK_OBJECT_GONE, CHECK_OBJECT_ADDRESSES, r->addresses.start);
    munmap((void *)r->addresses.start, r->addresses.size);
    free(r);
    return 0;
}

/* --- mapping --- */

static int check_map(const char *function, const void *address, size_t size, size_t offset,
                     uint64_t flags)
{
    if (size == 0 || flags != 0)
        return error_set(ACL_ERROR_INVALID_PARAM, "%s: size is 0, or flags is not", function);
    if (offset != 0)
        return error_set(ACL_ERROR_RT_PARAM_INVALID, "%s: offset is %zu, must be 0", function,
                         offset);
    if ((uintptr_t)address % PHYSICAL_GRANULARITY != 0)
        return error_set(ACL_ERROR_RT_PARAM_INVALID, "%s: virPtr (%p) is not aligned to %llu bytes",
                         function, address, (unsigned long long)PHYSICAL_GRANULARITY);
    return 0;
}

static int check_size(const char *function, size_t size, const struct physical *p)
{
    if (size == p->size)
        return 0;
    return error_set(ACL_ERROR_RT_PARAM_INVALID,
                     "%s: size is %zu, and the physical memory has %llu: it is mapped whole",
                     function, size, (unsigned long long)p->size);
}

/* Caller holds session->lock. The reservation that `size` bytes at address may be mapped in. */
static int find_room(struct session *s, const char *function, const void *address, size_t size,
                     const struct physical *p, struct reservation **rp)
{
    struct reservation *r = find_reservation(s, address);
    bool taken;

    if (!r || (uintptr_t)address + size > end_of(&r->addresses))
        return error_set(ACL_ERROR_RT_PARAM_INVALID,
                         "%s: %zu bytes at %p are not within addresses of one "
                         "aclrtReserveMemAddress",
                         function, size, address);
    if (r->mapped > 0 && r->host != p->host)
        return error_set(ACL_ERROR_RT_PARAM_INVALID,
                         "%s: other mappings of this reservation are of %s: reserve addresses for "
                         "each",
                         function, r->host ? "the host" : "devices");
    memory_lock_to_look(s);
    taken = range_map_overlap(&s->memory, (uintptr_t)address, size) != NULL;
    pthread_rwlock_unlock(&s->memory_lock);
    if (taken)
        return error_set(ACL_ERROR_RT_DRV_INTERNAL_ERROR,
                         "%s: something is mapped there already: call aclrtUnmapMem first",
                         function);
    *rp = r;
    return 0;
}

static void begin_mapping(struct reservation *r, struct physical *p)
{
    r->mapped++;
    r->host = p->host;
    physical_ref(p);
}

/* Caller holds session->lock. m is in the table then. */
static int map_at(struct session *s, const char *function, struct memory *m, int fd, int prot)
{
    struct reservation *r;
    int error;

    RETURN_IF_ERROR(
        find_room(s, function, (const void *)m->mapped.start, m->mapped.size, m->physical, &r));
    /* Of a device that is away there is no file, and the reservation stays what is mapped there. */
    if (fd >= 0 && mmap((void *)m->mapped.start, m->mapped.size, m->opaque ? PROT_NONE : prot,
                        MAP_SHARED | MAP_FIXED, fd, 0) == MAP_FAILED)
        return error_set(ACL_ERROR_RT_MEMORY_ALLOCATION, "%s: cannot map %zu bytes: %m", function,
                         m->mapped.size);
    madvise((void *)m->mapped.start, m->mapped.size, MADV_DONTFORK);
    m->reservation = r->number;
    error = memory_add(s, function, m, NULL, NULL);
    if (error == 0)
        begin_mapping(r, m->physical);
    else
        map_nothing(m->mapped.start, m->mapped.size, MAP_FIXED);
    return error;
}

static int fetch_file(const struct physical *p, const char *function, int *fd)
{
    REQUEST(fetch_memory, FETCH_MEMORY, .slot = p->remote, .size = p->size);
    Npud__Reply *reply = NULL;

    RETURN_IF_ERROR(session_request(p->session, function, &request, &reply, fd));
    session_reply_free(reply);
    return 0;
}

static int map_physical(const char *function, void *address, struct physical *p, int prot)
{
    struct session *s = p->session;
    struct memory *m = calloc(1, sizeof(*m));
    int error = 0, fd = -1;

    if (!m)
        return error_no_memory(function);
    *m = (struct memory){.mapped = {(uintptr_t)address, p->size},
                         .size = p->size,
                         .host = p->host,
                         .device = p->device,
                         .home = p->device,
                         .remote = p->remote,
                         .remote_generation = p->remote_generation,
                         .no_access = prot == PROT_NONE,
                         .opaque = memory_is_opaque(s, p->host, p->device),
                         .physical = p};
    if (m->opaque)
        m->populated = UINT64_MAX;
    if (p->host || !s->device_info[p->device].away)
        error = fetch_file(p, function, &fd);
    if (error == 0) {
        pthread_mutex_lock(&s->lock);
        error = map_at(s, function, m, fd, prot);
        pthread_mutex_unlock(&s->lock);
        if (fd >= 0)
            close(fd);
    }
    if (error != 0)
        free(m);
    /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): the table owns m */
    return error;
}

static int map_handle(const char *function, void *address, size_t size, size_t offset,
                      aclrtDrvMemHandle handle, uint64_t flags, int prot)
{
    struct physical *p;
    int error;

    RETURN_IF_ERROR(check_map(function, address, size, offset, flags));
    p = FIND_OR_RETURN(physical_get, function, handle);
    error = check_size(function, size, p);
    if (error == 0)
        error = map_physical(function, address, p, prot);
    physical_unref(p, function);
    return error;
}

aclError aclrtMapMem(void *virPtr, size_t size, size_t offset, aclrtDrvMemHandle handle,
                     uint64_t flags)
{
    CALL_SCOPE;

    REQUIRE(virPtr);
    REQUIRE(handle);
    return map_handle(__func__, virPtr, size, offset, handle, flags, PROT_READ | PROT_WRITE);
}

aclError aclrtMemMapNoAccess(void *virPtr, size_t size, size_t offset, aclrtDrvMemHandle handle,
                             uint64_t flags)
{
    CALL_SCOPE;

    REQUIRE(virPtr);
    REQUIRE(handle);
    return map_handle(__func__, virPtr, size, offset, handle, flags, PROT_NONE);
}

/* Caller holds session->lock. Out of the table, and its addresses are reserved and no more. */
static struct memory *take_mapping(struct session *s, const void *address)
{
    struct memory *m;

    memory_lock_to_change(s);
    m = memory_at(s, address);
    if (m && (!m->physical || m->mapped.start != (uintptr_t)address))
        m = NULL;
    if (m) {
        memory_forget_registered(s, m);
        range_map_remove(&s->memory, &m->mapped);
        if (checked_runs())
            memory_note_mapping(CHECK_UNMAP, m);
        DL_DELETE(s->allocations, m);
    }
    pthread_rwlock_unlock(&s->memory_lock);
    if (!m)
        return NULL;
    hold_await(m->mapped.start, m->mapped.size);
    map_nothing(m->mapped.start, m->mapped.size, MAP_FIXED);
    find_reservation(s, address)->mapped--;
    return m;
}

aclError aclrtUnmapMem(void *virPtr)
{
    CALL_SCOPE;
    struct physical *p;
    struct session *s;
    struct memory *m;

    REQUIRE(virPtr);
    s = FIND_OR_RETURN(session_get, __func__);
    pthread_mutex_lock(&s->lock);
    m = take_mapping(s, virPtr);
    pthread_mutex_unlock(&s->lock);
    if (!m)
        return error_set(ACL_ERROR_RT_PARAM_INVALID,
                         "%s: %p is not the start of what aclrtMapMem "
                         "has mapped",
                         __func__, virPtr);
    p = m->physical;
    free(m);
    return physical_unref(p, __func__);
}

/* --- of a mapping --- */

/* A copy of the mapping that holds address. */
static int look_up_mapping(struct session *s, const char *function, const void *address,
                           struct memory *copy)
{
    if (memory_look_up(s, address, copy) && copy->physical)
        return 0;
    return error_set(ACL_ERROR_RT_PARAM_INVALID, "%s: nothing is mapped at %p by aclrtMapMem",
                     function, address);
}

static int find_mapping(const char *function, const void *address, struct session **sp,
                        struct memory *copy)
{
    *sp = FIND_OR_RETURN(session_get, function);
    return look_up_mapping(*sp, function, address, copy);
}

aclError aclrtMemRetainAllocationHandle(void *virPtr, aclrtDrvMemHandle *handle)
{
    CALL_SCOPE;
    struct memory m;
    struct session *s;
    int error;

    REQUIRE(virPtr);
    REQUIRE(handle);
    s = FIND_OR_RETURN(session_get, __func__);
    /* Locked: the mapping keeps the physical memory until there is a reference. */
    pthread_mutex_lock(&s->lock);
    error = look_up_mapping(s, __func__, virPtr, &m);
    if (error == 0)
        physical_ref(m.physical);
    pthread_mutex_unlock(&s->lock);
    if (error != 0)
        return error;
    return physical_name(m.physical, __func__, handle);
}

/* May it be given this right? *device: npud's number, or -1 for the host. */
static int check_access(struct session *s, const char *function, const aclrtMemAccessDesc *desc,
                        int32_t *device)
{
    uint32_t index;

    if (desc->flags != ACL_RT_MEM_ACCESS_FLAGS_READWRITE)
        return error_set(ACL_ERROR_RT_PARAM_INVALID,
                         "%s: flags are %d, must be ACL_RT_MEM_ACCESS_FLAGS_READWRITE", function,
                         (int)desc->flags);
    *device = -1;
    if (desc->location.type == ACL_MEM_LOCATION_TYPE_HOST && desc->location.id == 0)
        return 0;
    if (desc->location.type != ACL_MEM_LOCATION_TYPE_DEVICE)
        return error_set(ACL_ERROR_RT_PARAM_INVALID,
                         "%s: a location is a device, or the host with id 0", function);
    RETURN_IF_ERROR(device_of_user_id(s, function, desc->location.id, &index));
    *device = (int32_t)index;
    return 0;
}

/* Somebody may use it from now on; the mapping was there a moment ago. */
static int grant(struct session *s, const char *function, const void *address, uint32_t devices,
                 bool host)
{
    struct memory *m;
    int error = 0;

    memory_lock_to_change(s);
    m = memory_at(s, address);
    if (m && m->physical) {
        if (m->no_access && !m->opaque &&
            mprotect((void *)m->mapped.start, m->mapped.size, PROT_READ | PROT_WRITE) < 0)
            error = errno;
        m->no_access &= error != 0;
        if (m->opaque && error == 0)
            memory_open_to_kernels(s, m);
        m->access |= devices;
        m->host_access |= host;
    }
    pthread_rwlock_unlock(&s->memory_lock);
    if (error == 0)
        return 0;
    errno = error;
    return error_set(ACL_ERROR_RT_MEMORY_ALLOCATION, "%s: cannot give access: %m", function);
}

aclError aclrtMemSetAccess(void *virPtr, size_t size, aclrtMemAccessDesc *desc, size_t count)
{
    CALL_SCOPE;
    uint32_t access = 0;
    bool host = false;
    int32_t device;
    struct session *s;
    struct memory m;

    REQUIRE_OR(ACL_ERROR_RT_PARAM_INVALID, virPtr);
    REQUIRE_OR(ACL_ERROR_RT_PARAM_INVALID, desc);
    RETURN_IF_ERROR(find_mapping(__func__, virPtr, &s, &m));
    if (count == 0 || m.mapped.start != (uintptr_t)virPtr || m.mapped.size != size)
        return error_set(ACL_ERROR_RT_PARAM_INVALID,
                         "%s: count is 0, or %zu bytes at %p are not what one aclrtMapMem has "
                         "mapped",
                         __func__, size, virPtr);
    for (size_t i = 0; i < count; i++) {
        RETURN_IF_ERROR(check_access(s, __func__, &desc[i], &device));
        if (device < 0)
            host = true;
        else
            access |= 1u << device;
    }
    return grant(s, __func__, virPtr, access, host);
}

aclError aclrtMemGetAccess(void *virPtr, aclrtMemLocation *location, uint64_t *flag)
{
    CALL_SCOPE;
    struct session *s;
    struct memory m;
    uint32_t device;
    bool may;

    REQUIRE(virPtr);
    REQUIRE(location);
    REQUIRE(flag);
    RETURN_IF_ERROR(find_mapping(__func__, virPtr, &s, &m));
    if (location->type == ACL_MEM_LOCATION_TYPE_HOST) {
        may = m.host_access || (m.host && !m.no_access);
    } else if (location->type == ACL_MEM_LOCATION_TYPE_DEVICE) {
        RETURN_IF_ERROR(device_of_user_id(s, __func__, location->id, &device));
        may = (m.access >> device & 1) || (!m.host && device == m.device && !m.no_access);
    } else {
        return error_set(ACL_ERROR_RT_PARAM_INVALID, "%s: a location is a device or the host",
                         __func__);
    }
    *flag = may ? ACL_RT_MEM_ACCESS_FLAGS_READWRITE : ACL_RT_MEM_ACCESS_FLAGS_NONE;
    return 0;
}

/* --- life --- */

static void free_reservation(void *range)
{
    struct reservation *r = RANGE_OWNER(range, struct reservation, addresses);

    munmap((void *)r->addresses.start, r->addresses.size);
    free(r);
}

/* What was mapped there has gone with the rest of the memory. */
static void free_reservations(struct session *s)
{
    range_map_clear_with(&s->reservations, free_reservation);
}

const struct part virtual_part = {.session_free = free_reservations};
