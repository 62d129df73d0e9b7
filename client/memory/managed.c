/*
 * Managed memory: one address for the host and all devices. It is host memory of npud, which its
 * engines reach whatever their device, so nothing ever moves. What programs advise, and where they
 * prefetch to, is noted for each block of 2 MiB and given back.
 */
#include <stdlib.h>

#include "acl/acl.h"
#include "client/core/error.h"
#include "client/memory/alloc.h"
#include "client/runtime/context.h"
#include "client/runtime/device.h"
#include "client/runtime/stream.h"

#define BLOCK       ((uint64_t)2 << 20)
#define MANAGED_MAX ((uint64_t)3 << 40) /* of a process */

/* Of these two, what aclrtMemManagedGetAttr answers in place of a device id. */
#define ID_HOST (-1)
#define ID_NONE (-2)

struct block {
    aclrtMemManagedLocation preferred, prefetched; /* type ACL_MEM_LOCATIONTYPE_INVALID: none */
    uint64_t devices;                              /* that access it: a bit for each user id */
    bool host;                                     /* accesses it */
    bool read_mostly;
};
_Static_assert(DEVICES_MAX <= 64, "a bit of `devices` for each");

struct managed {
    struct memory memory; /* first: alloc.c frees it */
    struct block blocks[];
};
_Static_assert(offsetof(struct managed, memory) == 0, "alloc.c frees it");

/* --- allocation --- */

static uint64_t managed_bytes(struct session *s)
{
    uint64_t bytes;

    memory_lock_to_look(s);
    bytes = s->managed_bytes;
    pthread_rwlock_unlock(&s->memory_lock);
    return bytes;
}

static int allocate_managed(const char *function, void **ptr, uint64_t size)
{
    struct context *c = FIND_OR_RETURN(context_get, function);
    struct managed *m;
    int error;

    if (size > MANAGED_MAX || managed_bytes(c->session) > MANAGED_MAX - size)
        return error_set(ACL_ERROR_RT_MEMORY_ALLOCATION,
                         "%s: %llu bytes: a process has at most 3 TiB of managed memory: free some",
                         function, (unsigned long long)size);
    size = (size + BLOCK - 1) & ~(BLOCK - 1);
    m = calloc(1, sizeof(*m) + size / BLOCK * sizeof(m->blocks[0]));
    if (!m)
        return error_no_memory(function);
    m->memory.size = size;
    m->memory.host = m->memory.managed = true;
    error = memory_obtain(c, function, &m->memory, ptr);
    if (error != 0)
        free(m);
    /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): the tree owns m */
    return error;
}

aclError aclrtMemAllocManaged(void **ptr, uint64_t size, uint32_t flag)
{
    CALL_SCOPE;

    REQUIRE(ptr);
    if (flag != ACL_RT_MEM_ATTACH_GLOBAL)
        return error_set(ACL_ERROR_INVALID_PARAM,
                         "%s: flag is %u, must be ACL_RT_MEM_ATTACH_GLOBAL", __func__, flag);
    if (size == 0)
        return error_set(ACL_ERROR_RT_PARAM_INVALID, "%s: size is 0", __func__);
    return allocate_managed(__func__, ptr, size);
}

/* --- ranges and locations --- */

/* The blocks of a range. */
struct range {
    struct block *first, *end;
};

/* Caller holds memory_lock, and a session is NULL if there is none. */
static int find_range(struct session *s, const char *function, const void *ptr, uint64_t size,
                      struct range *range)
{
    struct memory *m = s ? memory_at(s, ptr) : NULL;
    struct managed *managed;
    uint64_t offset;

    if (size == 0)
        return error_set(ACL_ERROR_RT_PARAM_INVALID, "%s: size is 0", function);
    if (!m || !m->managed)
        return error_set(ACL_ERROR_RT_PARAM_INVALID,
                         "%s: %p is not in memory of aclrtMemAllocManaged, or it was freed",
                         function, ptr);
    offset = (uintptr_t)ptr - m->mapped.start;
    if (size > m->size - offset)
        return error_set(ACL_ERROR_RT_PARAM_INVALID,
                         "%s: %llu bytes at offset %llu leave the allocation of %zu bytes",
                         function, (unsigned long long)size, (unsigned long long)offset, m->size);
    managed = (struct managed *)(void *)m;
    range->first = &managed->blocks[offset / BLOCK];
    range->end = &managed->blocks[(offset + size - 1) / BLOCK] + 1;
    return 0;
}

/* numa: nodes of the host are locations here, too. */
static int check_location(const char *function, const aclrtMemManagedLocation *location, bool numa)
{
    struct session *s;
    uint32_t device;

    switch (location->type) {
    case ACL_MEM_LOCATIONTYPE_DEVICE:
        return device_get(function, location->id, &s, &device);
    case ACL_MEM_LOCATIONTYPE_HOST:
        return 0;
    case ACL_MEM_LOCATIONTYPE_HOST_NUMA:
        if (numa && location->id >= 0)
            return 0;
        break;
    case ACL_MEM_LOCATIONTYPE_HOST_NUMA_CURRENT:
        if (numa)
            return 0;
        break;
    case ACL_MEM_LOCATIONTYPE_INVALID:
        break;
    }
    return error_set(ACL_ERROR_RT_PARAM_INVALID, "%s: type %d with id %d is no location here",
                     function, (int)location->type, location->id);
}

/* --- advice --- */

static void advise_block(struct block *b, aclrtMemManagedAdviseType advise,
                         const aclrtMemManagedLocation *location)
{
    bool device = location->type == ACL_MEM_LOCATIONTYPE_DEVICE;

    switch (advise) {
    case ACL_MEM_ADVISE_SET_READ_MOSTLY:
    case ACL_MEM_ADVISE_UNSET_READ_MOSTLY:
        b->read_mostly = advise == ACL_MEM_ADVISE_SET_READ_MOSTLY;
        break;
    case ACL_MEM_ADVISE_SET_PREFERRED_LOCATION:
        b->preferred = *location;
        break;
    case ACL_MEM_ADVISE_UNSET_PREFERRED_LOCATION:
        b->preferred = (aclrtMemManagedLocation){0};
        break;
    case ACL_MEM_ADVISE_SET_ACCESSED_BY:
        b->devices |= device ? UINT64_C(1) << location->id : 0;
        b->host |= !device;
        break;
    case ACL_MEM_ADVISE_UNSET_ACCESSED_BY:
        b->devices &= ~(device ? UINT64_C(1) << location->id : 0);
        b->host &= device;
        break;
    }
}

static int check_advice(const char *function, aclrtMemManagedAdviseType advise,
                        const aclrtMemManagedLocation *location)
{
    switch (advise) {
    case ACL_MEM_ADVISE_SET_READ_MOSTLY:
    case ACL_MEM_ADVISE_UNSET_READ_MOSTLY:
    case ACL_MEM_ADVISE_UNSET_PREFERRED_LOCATION:
        return 0; /* for any location */
    case ACL_MEM_ADVISE_SET_PREFERRED_LOCATION:
        return check_location(function, location, true);
    case ACL_MEM_ADVISE_SET_ACCESSED_BY:
    case ACL_MEM_ADVISE_UNSET_ACCESSED_BY:
        return check_location(function, location, false);
    }
    return error_set(ACL_ERROR_RT_PARAM_INVALID, "%s: advise is %d, must be of ACL_MEM_ADVISE_*",
                     function, (int)advise);
}

aclError aclrtMemManagedAdvise(const void *const ptr, uint64_t size,
                               aclrtMemManagedAdviseType advise, aclrtMemManagedLocation location)
{
    CALL_SCOPE;
    struct session *s = session_peek();
    struct range range;
    int error;

    REQUIRE(ptr);
    RETURN_IF_ERROR(process_enter());
    RETURN_IF_ERROR(check_advice(__func__, advise, &location));
    if (!s)
        return find_range(NULL, __func__, ptr, size, &range);
    memory_lock_to_change(s);
    error = find_range(s, __func__, ptr, size, &range);
    if (error == 0)
        for (struct block *b = range.first; b < range.end; b++)
            advise_block(b, advise, &location);
    pthread_rwlock_unlock(&s->memory_lock);
    return error;
}

/* --- attributes --- */

static bool same_location(const aclrtMemManagedLocation *a, const aclrtMemManagedLocation *b)
{
    return a->type == b->type && (a->type != ACL_MEM_LOCATIONTYPE_DEVICE || a->id == b->id);
}

/* What holds for all blocks of the range. */
static struct block sum_up(const struct range *range)
{
    struct block all = *range->first;

    for (const struct block *b = range->first + 1; b < range->end; b++) {
        all.read_mostly &= b->read_mostly;
        all.host &= b->host;
        all.devices &= b->devices;
        if (!same_location(&all.preferred, &b->preferred))
            all.preferred = (aclrtMemManagedLocation){0};
        if (!same_location(&all.prefetched, &b->prefetched))
            all.prefetched = (aclrtMemManagedLocation){0};
    }
    return all;
}

static int32_t location_id(const aclrtMemManagedLocation *location)
{
    switch (location->type) {
    case ACL_MEM_LOCATIONTYPE_DEVICE:
        return location->id;
    case ACL_MEM_LOCATIONTYPE_INVALID:
        return ID_NONE;
    default:
        return ID_HOST;
    }
}

static void list_accessors(const struct block *all, int32_t *ids, size_t n)
{
    size_t used = 0;

    if (all->host)
        ids[used++] = ID_HOST;
    for (int32_t id = 0; id < 64 && used < n; id++)
        if (all->devices >> id & 1)
            ids[used++] = id;
    while (used < n)
        ids[used++] = ID_NONE;
}

static void tell_attribute(const struct block *all, aclrtMemManagedRangeAttribute attribute,
                           int32_t *data, size_t n)
{
    switch (attribute) {
    case ACL_MEM_RANGE_ATTRIBUTE_READ_MOSTLY:
        *data = all->read_mostly;
        break;
    case ACL_MEM_RANGE_ATTRIBUTE_ACCESSED_BY:
        list_accessors(all, data, n);
        break;
    case ACL_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION:
    case ACL_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_ID:
        *data = location_id(&all->preferred);
        break;
    case ACL_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_TYPE:
        *data = (int32_t)all->preferred.type;
        break;
    case ACL_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION:
    case ACL_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_ID:
        *data = location_id(&all->prefetched);
        break;
    case ACL_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_TYPE:
        *data = (int32_t)all->prefetched.type;
        break;
    }
}

static int check_attribute(const char *function, aclrtMemManagedRangeAttribute attribute,
                           const void *data, size_t size)
{
    bool list = attribute == ACL_MEM_RANGE_ATTRIBUTE_ACCESSED_BY;

    if (!data)
        return error_null(function, "data");
    if (attribute < ACL_MEM_RANGE_ATTRIBUTE_READ_MOSTLY ||
        attribute > ACL_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_ID)
        return error_set(ACL_ERROR_RT_PARAM_INVALID,
                         "%s: attribute %d is unknown, must be of ACL_MEM_RANGE_ATTRIBUTE_*",
                         function, (int)attribute);
    if (list ? size == 0 || size % sizeof(int32_t) != 0 : size != sizeof(int32_t))
        return error_set(ACL_ERROR_RT_PARAM_INVALID,
                         "%s: the data of attribute %d has %zu bytes, must have %s", function,
                         (int)attribute, size, list ? "4 for each device" : "4");
    return 0;
}

static int get_attributes(const char *function, const aclrtMemManagedRangeAttribute *attributes,
                          size_t n, const void *ptr, size_t size, void *const *data,
                          const size_t *sizes)
{
    struct session *s = session_peek();
    struct range range;
    struct block all;
    int error;

    RETURN_IF_ERROR(process_enter());
    for (size_t i = 0; i < n; i++)
        RETURN_IF_ERROR(check_attribute(function, attributes[i], data[i], sizes[i]));
    if (!s)
        return find_range(NULL, function, ptr, size, &range);
    memory_lock_to_look(s);
    error = find_range(s, function, ptr, size, &range);
    if (error == 0)
        all = sum_up(&range);
    pthread_rwlock_unlock(&s->memory_lock);
    if (error != 0)
        return error;
    for (size_t i = 0; i < n; i++)
        tell_attribute(&all, attributes[i], data[i], sizes[i] / sizeof(int32_t));
    return 0;
}

aclError aclrtMemManagedGetAttr(aclrtMemManagedRangeAttribute attribute, const void *ptr,
                                size_t size, void *data, size_t dataSize)
{
    CALL_SCOPE;

    REQUIRE(ptr);
    return get_attributes(__func__, &attribute, 1, ptr, size, &data, &dataSize);
}

aclError aclrtMemManagedGetAttrs(aclrtMemManagedRangeAttribute *attributes, size_t numAttributes,
                                 const void *ptr, size_t size, void **data, size_t *dataSizes)
{
    CALL_SCOPE;

    REQUIRE(attributes);
    REQUIRE(ptr);
    REQUIRE(data);
    REQUIRE(dataSizes);
    if (numAttributes == 0)
        return error_set(ACL_ERROR_RT_PARAM_INVALID, "%s: numAttributes is 0", __func__);
    return get_attributes(__func__, attributes, numAttributes, ptr, size, data, dataSizes);
}

/* --- prefetching --- */

struct prefetch {
    const char *function;
    const void *const *ptrs;
    const size_t *sizes;
    size_t n;
    const aclrtMemManagedLocation *locations;
    const size_t *indexes; /* of the range that each location begins with */
    size_t n_locations;
};

static int check_prefetch(const struct prefetch *p, uint64_t flags)
{
    if (flags != 0)
        return error_set(ACL_ERROR_INVALID_PARAM, "%s: flags is 0x%llx, must be 0", p->function,
                         (unsigned long long)flags);
    for (size_t i = 0; i < p->n; i++)
        if (!p->ptrs[i])
            return error_null(p->function, "ptr");
    for (size_t k = 0; k < p->n_locations; k++) {
        if (k == 0 ? p->indexes[0] != 0
                   : p->indexes[k] <= p->indexes[k - 1] || p->indexes[k] >= p->n)
            return error_set(ACL_ERROR_RT_PARAM_INVALID,
                             "%s: prefetchLocIdxs[%zu] is %zu: they begin with 0, rise, and are "
                             "below count",
                             p->function, k, p->indexes[k]);
        RETURN_IF_ERROR(check_location(p->function, &p->locations[k], true));
    }
    return 0;
}

/* Caller holds memory_lock. Nothing is noted before all ranges are known to be good. */
static int note_prefetch(struct session *s, const struct prefetch *p)
{
    struct range range;
    size_t k = 0;

    for (size_t i = 0; i < p->n; i++)
        RETURN_IF_ERROR(find_range(s, p->function, p->ptrs[i], p->sizes[i], &range));
    for (size_t i = 0; i < p->n; i++) {
        if (k + 1 < p->n_locations && i == p->indexes[k + 1])
            k++;
        if (find_range(s, p->function, p->ptrs[i], p->sizes[i], &range) == 0)
            for (struct block *b = range.first; b < range.end; b++)
                b->prefetched = p->locations[k];
    }
    return 0;
}

/* Nothing moves, so there is no task. */
static int prefetch_ranges(const struct prefetch *p, uint64_t flags, aclrtStream stream)
{
    struct stream *s;
    int error;

    RETURN_IF_ERROR(check_prefetch(p, flags));
    s = FIND_OR_RETURN(stream_lock, p->function, stream);
    error = stream_check(s, p->function);
    if (error == 0) {
        memory_lock_to_change(s->session);
        error = note_prefetch(s->session, p);
        pthread_rwlock_unlock(&s->session->memory_lock);
    }
    if (error == 0)
        stream_count_implicit(s);
    stream_unlock(s);
    return error;
}

aclError aclrtMemManagedPrefetchAsync(const void *ptr, size_t size,
                                      aclrtMemManagedLocation location, uint32_t flags,
                                      aclrtStream stream)
{
    CALL_SCOPE;
    static const size_t zero;
    struct prefetch p = {.function = __func__,
                         .ptrs = &ptr,
                         .sizes = &size,
                         .n = 1,
                         .locations = &location,
                         .indexes = &zero,
                         .n_locations = 1};

    REQUIRE(ptr);
    return prefetch_ranges(&p, flags, stream);
}

aclError aclrtMemManagedPrefetchBatchAsync(const void **ptrs, size_t *sizes, size_t count,
                                           aclrtMemManagedLocation *prefetchLocs,
                                           size_t *prefetchLocIdxs, size_t numPrefetchLocs,
                                           uint64_t flags, aclrtStream stream)
{
    CALL_SCOPE;
    struct prefetch p = {.function = __func__,
                         .ptrs = ptrs,
                         .sizes = sizes,
                         .n = count,
                         .locations = prefetchLocs,
                         .indexes = prefetchLocIdxs,
                         .n_locations = numPrefetchLocs};

    REQUIRE(ptrs);
    REQUIRE(sizes);
    REQUIRE(prefetchLocs);
    REQUIRE(prefetchLocIdxs);
    if (count == 0 || numPrefetchLocs == 0 || numPrefetchLocs > count)
        return error_set(ACL_ERROR_RT_PARAM_INVALID,
                         "%s: %zu ranges and %zu locations: must be 1 at least, and no more "
                         "locations than ranges",
                         __func__, count, numPrefetchLocs);
    return prefetch_ranges(&p, flags, stream);
}
