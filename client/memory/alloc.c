#include "client/memory/alloc.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
#include <utlist.h>

#include "acl/acl.h"
#include "client/buffers/segment.h"
#include "client/core/error.h"
#include "client/memory/staging.h"
#include "client/runtime/context.h"
#include "client/runtime/device.h"

#define GUARD 32 /* what the vendor appends, and capacity planning counts */

static struct memory *find_in(void *const *map, const void *address)
{
    struct address_range *range = range_map_find(map, address);

    return range ? RANGE_OWNER(range, struct memory, mapped) : NULL;
}

/* Caller holds memory_lock. The allocation that holds address, or NULL: memory that the runtime
 * does not know (pageable), or freed. */
static struct memory *find_allocation(struct session *s, const void *address)
{
    return find_in(&s->memory, address);
}

/*
 * The same for what was freed. Most addresses of programs are elsewhere: in a heap, or on a stack.
 */
static struct memory *find_freed(struct session *s, const void *address)
{
    if ((uintptr_t)address < s->freed_from || (uintptr_t)address >= s->freed_to)
        return NULL;
    return find_in(&s->freed_map, address);
}

bool memory_look_up(struct session *s, const void *address, struct memory *copy)
{
    struct memory *m;

    pthread_rwlock_rdlock(&s->memory_lock);
    m = find_allocation(s, address);
    if (!m)
        m = find_freed(s, address);
    if (m)
        *copy = *m;
    pthread_rwlock_unlock(&s->memory_lock);
    return m != NULL;
}

static bool add_allocation(struct session *s, struct memory *m)
{
    bool ok;

    pthread_rwlock_wrlock(&s->memory_lock);
    ok = range_map_add(&s->memory, &m->mapped);
    pthread_rwlock_unlock(&s->memory_lock);
    return ok;
}

/* --- what was freed --- */

/*
 * Of addresses: enough for the mistakes of a program that has just freed something, and little for
 * the kernel.
 */
#define FREED_MAX       256
#define FREED_BYTES_MAX ((uint64_t)64 << 30)

static void unmap_list(struct memory *list)
{
    struct memory *m, *next;

    DL_FOREACH_SAFE (list, m, next) {
        munmap((void *)m->mapped.start, m->mapped.size);
        free(m);
    }
}

/* Caller holds memory_lock. */
static void remove_freed(struct session *s, struct memory *m)
{
    DL_DELETE(s->freed, m);
    s->freed_count--;
    s->freed_bytes -= m->mapped.size;
}

/* Give the addresses of those freed longest ago back, until no more than this is left. */
static void trim_freed(struct session *s, size_t count, uint64_t bytes)
{
    struct memory *m, *next, *out = NULL;

    pthread_rwlock_wrlock(&s->memory_lock);
    DL_FOREACH_SAFE (s->freed, m, next) {
        if (s->freed_count <= count && s->freed_bytes <= bytes)
            break;
        remove_freed(s, m);
        range_map_remove(&s->freed_map, &m->mapped);
        DL_APPEND(out, m);
    }
    pthread_rwlock_unlock(&s->memory_lock);
    unmap_list(out);
}

/* Caller holds memory_lock. From the one table to the other. */
static void move_to_freed(struct session *s, struct memory *m)
{
    bool first = s->freed_map == NULL;

    range_map_remove(&s->memory, &m->mapped);
    m->freed = range_map_add(&s->freed_map, &m->mapped);
    if (first || m->mapped.start < s->freed_from)
        s->freed_from = m->mapped.start;
    if (first || m->mapped.start + m->mapped.size > s->freed_to)
        s->freed_to = m->mapped.start + m->mapped.size;
}

/* The memory goes, and its addresses stay, after move_to_freed(). */
static void keep_freed(struct session *s, struct memory *m)
{
    if (!m->freed) { /* without memory for that */
        munmap((void *)m->mapped.start, m->mapped.size);
        free(m);
        return;
    }
    /* At the limit of mappings: then the memory goes with its addresses. */
    if (mmap((void *)m->mapped.start, m->mapped.size, PROT_NONE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) == MAP_FAILED)
        mprotect((void *)m->mapped.start, m->mapped.size, PROT_NONE);
    pthread_rwlock_wrlock(&s->memory_lock);
    DL_APPEND(s->freed, m);
    s->freed_count++;
    s->freed_bytes += m->mapped.size;
    pthread_rwlock_unlock(&s->memory_lock);
    trim_freed(s, FREED_MAX, FREED_BYTES_MAX);
}

/*
 * Take the allocation that begins at address out of the table. NULL: there is none of this kind.
 * *again becomes true: there was one.
 */
static struct memory *take_allocation(struct session *s, const void *address, bool host,
                                      bool *again)
{
    struct memory *m;

    pthread_rwlock_wrlock(&s->memory_lock);
    m = find_allocation(s, address);
    if (m && (m->mapped.start != (uintptr_t)address || m->host != host))
        m = NULL;
    if (m) {
        move_to_freed(s, m);
    } else {
        m = find_freed(s, address);
        *again = m && m->mapped.start == (uintptr_t)address && m->host == host;
        m = NULL;
    }
    pthread_rwlock_unlock(&s->memory_lock);
    return m;
}

/* --- allocate and free --- */

int memory_free_remote(struct session *s, const char *function, uint32_t slot)
{
    Npud__Request request = NPUD__REQUEST__INIT;
    Npud__Free in = NPUD__FREE__INIT;

    in.slot = slot;
    request.free = &in;
    request.body_case = NPUD__REQUEST__BODY_FREE;
    return session_command(s, function, &request);
}

int memory_allocate_remote(struct context *c, const char *function, struct memory *m, size_t bytes,
                           int *fd)
{
    Npud__Request request = NPUD__REQUEST__INIT;
    Npud__Malloc in = NPUD__MALLOC__INIT;
    Npud__Reply *reply = NULL;
    int error;

    in.kind = m->host ? NPUD__MALLOC__KIND__HOST : NPUD__MALLOC__KIND__DEVICE;
    in.device = c->device;
    in.size = bytes;
    request.malloc = &in;
    request.body_case = NPUD__REQUEST__BODY_MALLOC;
    error = session_request(c->session, function, &request, &reply, fd);
    if (error != 0)
        return error;
    m->remote = reply->malloc->slot;
    m->remote_generation = reply->malloc->generation;
    m->mapped.size = reply->malloc->size;
    session_reply_free(reply);
    return 0;
}

static int map_allocation(struct context *c, const char *function, struct memory *m, int fd)
{
    void *p = mmap(NULL, m->mapped.size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

    if (p == MAP_FAILED) {
        trim_freed(c->session, 0, 0); /* the process may be at a limit of addresses or mappings */
        p = mmap(NULL, m->mapped.size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    }
    close(fd);
    if (p == MAP_FAILED)
        return error_set(ACL_ERROR_RT_MEMORY_ALLOCATION, "%s: cannot map %zu bytes: %m", function,
                         m->mapped.size);
    m->mapped.start = (uintptr_t)p;
    if (add_allocation(c->session, m))
        return 0;
    munmap(p, m->mapped.size);
    return error_set(ACL_ERROR_RT_MEMORY_ALLOCATION, "%s: out of memory", function);
}

static int allocate_memory(const char *function, void **pointer, size_t size, size_t guard,
                           bool host)
{
    int error, fd = -1;
    struct context *c;
    struct memory *m;

    if (size == 0)
        return error_set(ACL_ERROR_INVALID_PARAM, "%s: size is 0", function);
    if (size > SIZE_MAX - 64)
        return error_set(ACL_ERROR_INVALID_PARAM, "%s: size %zu is too large", function, size);
    c = context_get(function, &error);
    if (!c)
        return error;
    m = calloc(1, sizeof(*m));
    if (!m)
        return error_set(ACL_ERROR_RT_MEMORY_ALLOCATION, "%s: out of memory", function);
    m->size = size;
    m->host = host;
    m->device = c->device;
    error = memory_allocate_remote(c, function, m, memory_size_allocated(size) + guard, &fd);
    if (error == 0) {
        error = map_allocation(c, function, m, fd);
        if (error != 0)
            memory_free_remote(c->session, function, m->remote);
    }
    if (error != 0) {
        free(m);
        return error;
    }
    /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): the tree owns m */
    *pointer = (void *)m->mapped.start;
    return 0;
}

static int free_memory(const char *function, void *pointer, bool host)
{
    int error = process_enter();
    struct session *s = session_peek();
    struct memory *m = NULL;
    bool again = false;

    if (error != 0)
        return error;
    if (s)
        m = take_allocation(s, pointer, host, &again);
    if (again)
        return error_set(ACL_ERROR_RT_PARAM_INVALID, "%s: the memory at %p was freed already",
                         function, pointer);
    if (!m)
        return error_set(ACL_ERROR_RT_PARAM_INVALID,
                         "%s: %p is not the start of an allocation of %s", function, pointer,
                         host ? "aclrtMallocHost" : "aclrtMalloc");
    error = memory_free_remote(s, function, m->remote);
    keep_freed(s, m);
    return error;
}

/* A walk cannot remove: collect first. */
struct memory_list {
    size_t n;
    struct memory *entry[];
};

struct collect {
    struct memory_list *list; /* NULL: only count */
    size_t n;
    bool all;
    uint32_t device;
};

static void collect_one(struct address_range *range, void *arg)
{
    struct collect *c = arg;
    struct memory *m = RANGE_OWNER(range, struct memory, mapped);

    if (!c->all && (m->host || m->device != c->device))
        return;
    if (c->list)
        c->list->entry[c->n] = m;
    c->n++;
}

static struct memory_list *take_all(struct session *s, bool all, uint32_t device)
{
    struct collect c = {.all = all, .device = device};

    pthread_rwlock_wrlock(&s->memory_lock);
    range_map_walk(&s->memory, collect_one, &c);
    c.list = calloc(1, sizeof(*c.list) + c.n * sizeof(struct memory *));
    c.n = 0;
    if (c.list) {
        range_map_walk(&s->memory, collect_one, &c);
        c.list->n = c.n;
        for (size_t i = 0; i < c.n; i++) {
            if (all)
                range_map_remove(&s->memory, &c.list->entry[i]->mapped);
            else
                move_to_freed(s, c.list->entry[i]);
        }
    }
    pthread_rwlock_unlock(&s->memory_lock);
    return c.list;
}

struct memory_list *memory_take_device(struct session *s, uint32_t device)
{
    return take_all(s, false, device);
}

aclError aclrtMalloc(void **devPtr, size_t size, aclrtMemMallocPolicy policy)
{
    CALL_SCOPE;

    REQUIRE(devPtr);
    (void)policy; /* pages of the simulated device are the host's */
    return allocate_memory(__func__, devPtr, size, GUARD, false);
}

aclError aclrtMallocAlign32(void **devPtr, size_t size, aclrtMemMallocPolicy policy)
{
    CALL_SCOPE;

    REQUIRE(devPtr);
    (void)policy;
    return allocate_memory(__func__, devPtr, size, 0, false);
}

aclError aclrtMallocCached(void **devPtr, size_t size, aclrtMemMallocPolicy policy)
{
    CALL_SCOPE;

    REQUIRE(devPtr);
    (void)policy;
    return allocate_memory(__func__, devPtr, size, GUARD, false);
}

aclError aclrtFree(void *devPtr)
{
    CALL_SCOPE;

    REQUIRE(devPtr);
    return free_memory(__func__, devPtr, false);
}

aclError aclrtMallocHost(void **hostPtr, size_t size)
{
    CALL_SCOPE;

    REQUIRE(hostPtr);
    return allocate_memory(__func__, hostPtr, size, 0, true);
}

aclError aclrtFreeHost(void *hostPtr)
{
    CALL_SCOPE;

    REQUIRE(hostPtr);
    return free_memory(__func__, hostPtr, true);
}

aclError aclrtPointerGetAttributes(const void *ptr, aclrtPtrAttributes *attributes)
{
    CALL_SCOPE;
    int error = process_enter();
    struct session *s = session_peek();
    struct segment_place buffer;
    struct memory m;

    REQUIRE(ptr);
    REQUIRE(attributes);
    if (error != 0)
        return error;
    *attributes = (aclrtPtrAttributes){.pageSize = 4096};
    attributes->location.type = ACL_MEM_LOCATION_TYPE_UNREGISTERED;
    if (s && memory_look_up(s, ptr, &m) && !m.freed) {
        attributes->location.type =
            m.host ? ACL_MEM_LOCATION_TYPE_HOST : ACL_MEM_LOCATION_TYPE_DEVICE;
        attributes->location.id = m.host ? 0 : (uint32_t)device_user_id(s, m.device);
    } else if (s && segment_locate(s, ptr, &buffer)) {
        /* of no device, and for every device to copy from and to */
        attributes->location.type = ACL_MEM_LOCATION_TYPE_HOST;
    }
    return 0;
}

void memory_release(struct session *s, const char *function, struct memory_list *list)
{
    if (!list)
        return;
    for (size_t i = 0; i < list->n; i++) {
        memory_free_remote(s, function, list->entry[i]->remote);
        keep_freed(s, list->entry[i]);
    }
    free(list);
    staging_trim(s, function, 0);
}

static void unmap_all(struct session *s)
{
    struct memory_list *list = take_all(s, true, 0);

    staging_forget_all(s);
    for (size_t i = 0; list && i < list->n; i++) {
        munmap((void *)list->entry[i]->mapped.start, list->entry[i]->mapped.size);
        free(list->entry[i]);
    }
    free(list);
    trim_freed(s, 0, 0);
}

const struct part memory_part = {.session_free = unmap_all};
