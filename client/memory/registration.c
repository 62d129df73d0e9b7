#include "client/memory/registration.h"

#include <stdlib.h>
#include <sys/mman.h>

#include "acl/acl.h"
#include "client/buffers/segment.h"
#include "client/check/checked.h"
#include "client/core/error.h"
#include "client/memory/alloc.h"
#include "client/runtime/context.h"
#include "client/runtime/device.h"
#include "client/core/upcall.h"

#define PAGE 4096u

/* --- the table --- */

/* Most programs have none, and their copies ask nobody. A child has those of its parent. */
static _Atomic bool variables;

void registration_know_variables(void)
{
    /* A thread that uses one has synchronised with the one that has loaded it. */
    atomic_store_explicit(&variables, true, memory_order_relaxed);
}

bool registration_holds(struct session *s, const void *address, size_t count)
{
    struct address_range *r;
    bool holds;

    if (atomic_load_explicit(&variables, memory_order_relaxed) &&
        upcalls->kernel_registry_holds(address, count))
        return true;
    if (!atomic_load_explicit(&s->registers, memory_order_acquire))
        return false;
    memory_lock_to_look(s);
    r = range_map_find(&s->registered_map, address);
    holds = r && count <= r->size - ((uintptr_t)address - r->start);
    pthread_rwlock_unlock(&s->memory_lock);
    return holds;
}

/* Caller holds memory_lock. The registration that begins at address, or NULL. */
static struct address_range *find_start(struct session *s, const void *address)
{
    struct address_range *r = range_map_find(&s->registered_map, address);

    return r && r->start == (uintptr_t)address ? r : NULL;
}

enum found { FOUND_FREE, FOUND_REGISTERED, FOUND_FREED, FOUND_OTHER };

/* Caller holds memory_lock. What is in the range that forbids to register it? */
static enum found find_known(struct session *s, const struct address_range *range)
{
    struct address_range *known;
    struct memory *m;

    if (range_map_overlap(&s->registered_map, range->start, range->size))
        return FOUND_REGISTERED;
    if (range_map_overlap(&s->freed_map, range->start, range->size))
        return FOUND_FREED;
    known = range_map_overlap(&s->memory, range->start, range->size);
    if (!known)
        return FOUND_FREE;
    m = RANGE_OWNER(known, struct memory, mapped);
    if (m->freed)
        return FOUND_FREED;
    return m->host && range->start >= known->start &&
                   range->start + range->size <= known->start + known->size
               ? FOUND_FREE
               : FOUND_OTHER;
}

/* Into the table. *found: what is in its way; FOUND_FREE: no memory. */
static bool add_registration(struct session *s, struct address_range *r, enum found *found)
{
    bool ok = false;

    memory_lock_to_change(s);
    *found = find_known(s, r);
    if (*found == FOUND_FREE) {
        ok = range_map_add(&s->registered_map, r);
        atomic_store_explicit(&s->registers, true, memory_order_release);
    }
    pthread_rwlock_unlock(&s->memory_lock);
    return ok;
}

static int refuse_known(const char *function, const struct address_range *range, enum found found)
{
    void *start = (void *)range->start;

    switch (found) {
    case FOUND_REGISTERED:
        return error_set(ACL_ERROR_HOST_MEMORY_ALREADY_REGISTERED,
                         "%s: part of %zu bytes at %p is registered already: call "
                         "aclrtHostUnregister first",
                         function, range->size, start);
    case FOUND_FREED:
        return error_set(ACL_ERROR_RT_PARAM_INVALID,
                         "%s: part of %zu bytes at %p was freed with aclrtFree or aclrtFreeHost",
                         function, range->size, start);
    case FOUND_OTHER:
        return error_set(ACL_ERROR_RT_PARAM_INVALID,
                         "%s: %zu bytes at %p are device memory, or leave the allocation of "
                         "aclrtMallocHost that they begin in: register host memory alone",
                         function, range->size, start);
    case FOUND_FREE:
        break;
    }
    return error_no_memory(function);
}

/* --- registering --- */

static int check_range(const char *function, struct session *s, const struct address_range *range,
                       bool map)
{
    uintptr_t first = range->start & ~(uintptr_t)(PAGE - 1);
    struct segment_place buffer;
    void *start = (void *)range->start;

    if (range->size > SIZE_MAX - PAGE - range->start)
        return error_set(ACL_ERROR_RT_PARAM_INVALID, "%s: size %zu at %p is too large", function,
                         range->size, start);
    if (map && range->start != first)
        return error_set(ACL_ERROR_RT_PARAM_INVALID,
                         "%s: ptr %p is not aligned to %u bytes: allocate with aligned_alloc or "
                         "mmap",
                         function, start, PAGE);
    if (segment_locate(s, start, &buffer))
        return error_set(ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
                         "%s: %p is in a shared buffer, which cannot be registered", function,
                         start);
    /* Does nothing, but for telling that all of it is mapped. */
    if (msync((void *)first, range->start + range->size - first, MS_ASYNC) != 0)
        return error_set(ACL_ERROR_RT_PARAM_INVALID,
                         "%s: not all of %zu bytes at %p is memory of this process", function,
                         range->size, start);
    return 0;
}

static int register_range(struct context *c, const char *function,
                          const struct address_range *range, bool map)
{
    struct address_range *r;
    enum found found;

    RETURN_IF_ERROR(check_range(function, c->session, range, map));
    r = calloc(1, sizeof(*r));
    if (!r)
        return error_no_memory(function);
    *r = *range;
    if (add_registration(c->session, r, &found)) {
        if (checked_runs())
            checked_range(CHECK_REGISTER, (const void *)range->start, range->size);
        /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): the map owns r */
        return 0;
    }
    free(r);
    return refuse_known(function, range, found);
}

static int check_arguments(const char *function, const void *p, uint64_t size)
{
    if (!p)
        return error_null(function, "ptr");
    if (size == 0)
        return error_set(ACL_ERROR_INVALID_PARAM, "%s: size is 0", function);
    return 0;
}

aclError aclrtHostRegister(void *ptr, uint64_t size, aclrtHostRegisterType type, void **devPtr)
{
    CALL_SCOPE;
    const struct address_range range = {.start = (uintptr_t)ptr, .size = size};
    struct context *c;

    RETURN_IF_ERROR(check_arguments(__func__, ptr, size));
    REQUIRE(devPtr);
    if (((unsigned)type & ~(unsigned)ACL_HOST_REGISTER_READONLY) != 0)
        return error_set(ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
                         "%s: type is %#x: use ACL_HOST_REGISTER_MAPPED, alone or with "
                         "ACL_HOST_REGISTER_READONLY; npud has no I/O memory",
                         __func__, (unsigned)type);
    c = FIND_OR_RETURN(context_get, __func__);
    RETURN_IF_ERROR(register_range(c, __func__, &range, true));
    *devPtr = ptr;
    return 0;
}

aclError aclrtHostRegisterV2(void *ptr, uint64_t size, uint32_t flag)
{
    CALL_SCOPE;
    const uint32_t uses = ACL_HOST_REG_MAPPED | ACL_HOST_REG_PINNED;
    const uint32_t all = uses | ACL_HOST_REG_IOMEMORY | ACL_HOST_REG_READONLY;
    const struct address_range range = {.start = (uintptr_t)ptr, .size = size};
    struct context *c;

    RETURN_IF_ERROR(check_arguments(__func__, ptr, size));
    if ((flag & ~all) != 0 || (flag & (uses | ACL_HOST_REG_IOMEMORY)) == 0)
        return error_set(ACL_ERROR_RT_PARAM_INVALID,
                         "%s: flag is %#x: use ACL_HOST_REG_PINNED, ACL_HOST_REG_MAPPED or both",
                         __func__, flag);
    if (flag & ACL_HOST_REG_IOMEMORY)
        return error_set(ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
                         "%s: flag has ACL_HOST_REG_IOMEMORY, and npud has no I/O memory",
                         __func__);
    c = FIND_OR_RETURN(context_get, __func__);
    return register_range(c, __func__, &range, flag & ACL_HOST_REG_MAPPED);
}

aclError aclrtHostGetDevicePointer(void *pHost, void **pDevice, uint32_t flag)
{
    CALL_SCOPE;
    struct session *s = session_peek();
    bool found = false;

    REQUIRE(pHost);
    REQUIRE(pDevice);
    if (flag != 0)
        return error_set(ACL_ERROR_INVALID_PARAM, "%s: flag is %u, must be 0", __func__, flag);
    RETURN_IF_ERROR(process_enter());
    if (s) {
        memory_lock_to_look(s);
        found = find_start(s, pHost) != NULL;
        pthread_rwlock_unlock(&s->memory_lock);
    }
    if (!found)
        return error_set(
            ACL_ERROR_RT_PARAM_INVALID,
            "%s: %p is not the start of registered memory: pass what aclrtHostRegister "
            "was given",
            __func__, pHost);
    *pDevice = pHost;
    return 0;
}

/* --- the end --- */

aclError aclrtHostUnregister(void *ptr)
{
    CALL_SCOPE;
    struct session *s = session_peek();
    struct address_range *r = NULL;

    REQUIRE(ptr);
    RETURN_IF_ERROR(process_enter());
    if (s) {
        memory_lock_to_change(s);
        r = find_start(s, ptr);
        if (r)
            range_map_remove(&s->registered_map, r);
        if (r && checked_runs())
            checked_range(CHECK_UNREGISTER, ptr, r->size);
        pthread_rwlock_unlock(&s->memory_lock);
    }
    if (!r)
        return error_set(
            ACL_ERROR_HOST_MEMORY_NOT_REGISTERED,
            "%s: %p is not the start of registered memory: pass what aclrtHostRegister "
            "was given",
            __func__, ptr);
    free(r);
    upcalls->stream_work_await(
        s); /* the program may unmap it now, and a task may be in the middle of it */
    return 0;
}

static void end_all(struct session *s)
{
    memory_lock_to_change(s);
    range_map_clear_with(&s->registered_map, free);
    pthread_rwlock_unlock(&s->memory_lock);
    upcalls->stream_work_await(s);
}

const struct part registration_part = {.session_forget = end_all};

/* --- what can reach it --- */

/* npud's devices have the engines that copy and the cores that compute, and no more. */
aclError aclrtHostMemMapCapabilities(uint32_t deviceId, aclrtHacType hacType,
                                     aclrtHostMemMapCapability *capabilities)
{
    CALL_SCOPE;
    static const aclrtHostMemMapCapability units[] = {
        [ACL_RT_HAC_TYPE_STARS] = ACL_RT_HOST_MEM_MAP_SUPPORTED,
        [ACL_RT_HAC_TYPE_AICPU] = ACL_RT_HOST_MEM_MAP_SUPPORTED,
        [ACL_RT_HAC_TYPE_AIC] = ACL_RT_HOST_MEM_MAP_SUPPORTED,
        [ACL_RT_HAC_TYPE_AIV] = ACL_RT_HOST_MEM_MAP_SUPPORTED,
        [ACL_RT_HAC_TYPE_PCIEDMA] = ACL_RT_HOST_MEM_MAP_SUPPORTED,
        [ACL_RT_HAC_TYPE_SDMA] = ACL_RT_HOST_MEM_MAP_SUPPORTED,
        [ACL_RT_HAC_TYPE_CCU] = ACL_RT_HOST_MEM_MAP_NOT_SUPPORTED, /* the last one */
    };
    struct session *s;
    uint32_t device;

    REQUIRE(capabilities);
    RETURN_IF_ERROR(device_get(__func__, deviceId, &s, &device));
    if ((unsigned)hacType >= sizeof(units) / sizeof(units[0]))
        return error_set(ACL_ERROR_RT_PARAM_INVALID,
                         "%s: hacType is %d, must be ACL_RT_HAC_TYPE_STARS to "
                         "ACL_RT_HAC_TYPE_CCU",
                         __func__, (int)hacType);
    *capabilities = units[hacType];
    return 0;
}
