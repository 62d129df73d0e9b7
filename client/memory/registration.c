#include "client/memory/registration.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <utlist.h>

#include "acl/acl.h"
#include "client/buffers/segment.h"
#include "client/core/error.h"
#include "client/memory/shared_range.h"
#include "client/runtime/context.h"
#include "client/runtime/device.h"
#include "client/runtime/upcall.h"

struct registration {
    struct address_range range;
    bool mapped; /* with MAPPED */
    /* Not: a thread begins or ends it, and it counts for overlaps alone. Under memory_lock */
    bool ready;
    bool shared;                      /* its pages are npud's */
    struct memory memory;             /* then: what they are of */
    struct shared_range pages;        /* the same */
    struct registration *prev, *next; /* session->registered */
};

static size_t whole_pages(size_t size)
{
    return (size + HOST_PAGE - 1) & ~(size_t)(HOST_PAGE - 1);
}

/* --- the table --- */

/* Caller holds memory_lock. */
static struct registration *find_registration(struct session *s, const void *address)
{
    struct address_range *range = range_map_find(&s->registered_map, address);

    return range ? RANGE_OWNER(range, struct registration, range) : NULL;
}

enum registration_kind registration_look_up(struct session *s, const void *address, size_t count,
                                            struct memory *memory)
{
    enum registration_kind kind = REGISTRATION_NONE;
    struct registration *r;

    if (!atomic_load_explicit(&s->registers, memory_order_acquire))
        return REGISTRATION_NONE;
    pthread_rwlock_rdlock(&s->memory_lock);
    r = find_registration(s, address);
    if (r)
        kind = REGISTRATION_PART;
    if (r && r->ready && count <= r->range.size - ((uintptr_t)address - r->range.start)) {
        kind = r->shared ? REGISTRATION_MAPPED : REGISTRATION_PINNED;
        *memory = r->memory;
    }
    pthread_rwlock_unlock(&s->memory_lock);
    return kind;
}

static void set_ready(struct session *s, struct registration *r)
{
    memory_lock_to_change(s);
    r->ready = true;
    pthread_rwlock_unlock(&s->memory_lock);
}

static void remove_registration(struct session *s, struct registration *r)
{
    memory_lock_to_change(s);
    range_map_remove(&s->registered_map, &r->range);
    DL_DELETE(s->registered, r);
    pthread_rwlock_unlock(&s->memory_lock);
    free(r);
}

enum found { FOUND_FREE, FOUND_REGISTERED, FOUND_PINNED, FOUND_FREED, FOUND_OTHER };

/* Caller holds memory_lock. What is in the range that the library knows? */
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
    return m->host && range->start >= known->start &&
                   range->start + range->size <= known->start + known->size
               ? FOUND_PINNED
               : FOUND_OTHER;
}

/* Add it to the table, where it is not ready yet. *found: what was in its way, or would be. */
static bool add_registration(struct session *s, struct registration *r, bool pin, enum found *found)
{
    bool ok = true;

    memory_lock_to_change(s);
    *found = find_known(s, &r->range);
    if (*found == FOUND_FREE || (*found == FOUND_PINNED && !pin)) {
        ok = range_map_add(&s->registered_map, &r->range);
        if (ok)
            DL_APPEND(s->registered, r);
        else
            *found = FOUND_FREE;
        atomic_store_explicit(&s->registers, true, memory_order_release);
    } else {
        ok = false;
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
    case FOUND_PINNED:
        return error_set(ACL_ERROR_HOST_MEMORY_ALREADY_REGISTERED,
                         "%s: %p is memory of aclrtMallocHost, which is pinned already: use it as "
                         "it is",
                         function, start);
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

/* --- checks --- */

static int check_range(const char *function, struct session *s, const struct address_range *range,
                       bool map)
{
    uintptr_t first = range->start & ~(uintptr_t)(HOST_PAGE - 1);
    struct segment_place buffer;
    void *start = (void *)range->start;

    if (range->size > SIZE_MAX - HOST_PAGE - range->start)
        return error_set(ACL_ERROR_RT_PARAM_INVALID, "%s: size %zu at %p is too large", function,
                         range->size, start);
    if (map && range->start != first)
        return error_set(ACL_ERROR_RT_PARAM_INVALID,
                         "%s: ptr %p is not aligned to %u bytes: allocate with aligned_alloc or "
                         "mmap",
                         function, start, HOST_PAGE);
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

static int refuse_pages(const char *function, const struct registration *r,
                        enum host_pages_fault fault)
{
    static const char *const why[] = {
        [HOST_PAGES_ABSENT] = "is not all mapped",
        [HOST_PAGES_OTHER] = "is not all private anonymous memory that can be read and written, "
                             "as of malloc: use ACL_HOST_REG_PINNED, or aclrtMallocHost",
        [HOST_PAGES_IN_USE] = "is the stack of this thread, or holds its thread-local memory: "
                              "allocate the memory",
        [HOST_PAGES_TOO_MANY] = "consists of too many mappings: allocate it in one piece",
    };

    if (fault == HOST_PAGES_FAILED)
        return error_set(ACL_ERROR_RT_MEMORY_ALLOCATION,
                         "%s: the pages of %zu bytes at %p cannot be exchanged: %m", function,
                         r->range.size, (void *)r->range.start);
    return error_set(fault == HOST_PAGES_ABSENT ? ACL_ERROR_RT_PARAM_INVALID
                                                : ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
                     "%s: the range of %zu bytes at %p %s", function, r->range.size,
                     (void *)r->range.start, why[fault]);
}

/* --- registering --- */

/* Memory of npud's takes the place of the range's own. */
static int exchange_memory(struct context *c, const char *function, struct registration *r)
{
    size_t size = whole_pages(r->range.size);
    enum host_pages_fault fault = host_pages_check(r->range.start, size);
    int error;

    if (fault != HOST_PAGES_FINE)
        return refuse_pages(function, r, fault);
    r->memory = (struct memory){.size = size, .host = true};
    RETURN_IF_ERROR(memory_allocate(c, function, &r->memory, size));
    r->pages = (struct shared_range){.start = r->range.start, .size = size};
    fault = shared_range_begin(&r->pages, r->memory.mapped.start);
    if (fault != HOST_PAGES_FINE) {
        error = refuse_pages(function, r, fault);
        memory_unmap(&r->memory);
        memory_free_remote(c->session, function, r->memory.remote);
        return error;
    }
    r->memory.mapped.start = r->range.start;
    r->memory.populated = UINT64_MAX; /* all of it was copied to */
    r->shared = true;
    return 0;
}

static int register_range(struct context *c, const char *function,
                          const struct address_range *range, bool pin, bool map)
{
    struct registration *r;
    enum found found;
    int error;

    RETURN_IF_ERROR(check_range(function, c->session, range, map));
    r = calloc(1, sizeof(*r));
    if (!r)
        return error_no_memory(function);
    r->range = *range;
    r->mapped = map;
    if (!add_registration(c->session, r, pin, &found)) {
        free(r);
        return refuse_known(function, range, found);
    }
    error = map && found == FOUND_FREE ? exchange_memory(c, function, r) : 0;
    if (error != 0) {
        remove_registration(c->session, r);
        return error;
    }
    set_ready(c->session, r);
    return 0;
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
    RETURN_IF_ERROR(register_range(c, __func__, &range, false, true));
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
    return register_range(c, __func__, &range, flag & ACL_HOST_REG_PINNED,
                          flag & ACL_HOST_REG_MAPPED);
}

aclError aclrtHostGetDevicePointer(void *pHost, void **pDevice, uint32_t flag)
{
    CALL_SCOPE;
    struct session *s = session_peek();
    struct registration *r;
    bool found = false;

    REQUIRE(pHost);
    REQUIRE(pDevice);
    if (flag != 0)
        return error_set(ACL_ERROR_INVALID_PARAM, "%s: flag is %u, must be 0", __func__, flag);
    RETURN_IF_ERROR(process_enter());
    if (s) {
        pthread_rwlock_rdlock(&s->memory_lock);
        r = find_registration(s, pHost);
        found = r && r->ready && r->mapped && r->range.start == (uintptr_t)pHost;
        pthread_rwlock_unlock(&s->memory_lock);
    }
    if (!found)
        return error_set(ACL_ERROR_RT_PARAM_INVALID,
                         "%s: %p is not the start of memory that was registered with MAPPED",
                         __func__, pHost);
    *pDevice = pHost;
    return 0;
}

/* --- unregistering --- */

/* Caller holds memory_lock. The calling thread ends it, and no other one does. */
static struct registration *take_registration(struct registration *r)
{
    if (!r || !r->ready)
        return NULL;
    r->ready = false;
    return r;
}

/* False: its pages cannot be exchanged, and it stays. */
static bool end_pages(struct session *s, const char *function, struct registration *r, int *error)
{
    enum host_pages_fault fault = r->shared ? shared_range_end(&r->pages) : HOST_PAGES_FINE;

    *error = 0;
    if (fault == HOST_PAGES_FINE)
        return true;
    *error = refuse_pages(function, r, fault);
    set_ready(s, r);
    return false;
}

aclError aclrtHostUnregister(void *ptr)
{
    CALL_SCOPE;
    struct session *s = session_peek();
    struct registration *r = NULL;
    int error;

    REQUIRE(ptr);
    RETURN_IF_ERROR(process_enter());
    if (s) {
        memory_lock_to_change(s);
        r = find_registration(s, ptr);
        r = r && r->range.start == (uintptr_t)ptr ? take_registration(r) : NULL;
        pthread_rwlock_unlock(&s->memory_lock);
    }
    if (!r)
        return error_set(ACL_ERROR_HOST_MEMORY_NOT_REGISTERED,
                         "%s: %p is not the start of registered memory", __func__, ptr);
    if (!r->shared)
        stream_work_await(s); /* npud may have ended in the middle of the program's last copy */
    if (!end_pages(s, __func__, r, &error))
        return error;
    if (r->shared)
        error = memory_free_remote(s, __func__, r->memory.remote);
    remove_registration(s, r);
    return error;
}

static struct registration *take_any(struct session *s)
{
    struct registration *r;

    memory_lock_to_change(s);
    DL_FOREACH (s->registered, r)
        if (r->ready)
            break;
    r = take_registration(r);
    pthread_rwlock_unlock(&s->memory_lock);
    return r;
}

/*
 * npud frees what the session has by itself. Pages that cannot be exchanged stay what they are: the
 * memory of a process that is mapped there, and of no other one.
 */
static void end_all(struct session *s)
{
    struct registration *r;

    while ((r = take_any(s)))
        if (!r->shared || shared_range_end(&r->pages) == HOST_PAGES_FINE)
            remove_registration(s, r);
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
