#include "client/memory/alloc.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <utlist.h>

#include "acl/acl.h"
#include "client/buffers/segment.h"
#include "client/core/error.h"
#include "client/memory/hold.h"
#include "client/memory/imports.h"
#include "client/memory/memory_key.h"
#include "client/memory/physical.h"
#include "client/memory/pool_upcall.h"
#include "client/memory/staging.h"
#include "client/runtime/context.h"
#include "client/runtime/stream.h"

/* Caller holds memory_lock. The memory that holds address, or NULL. */
static struct memory *find_in(void *const *map, const void *address)
{
    struct address_range *range = range_map_find(map, address);

    return range ? RANGE_OWNER(range, struct memory, mapped) : NULL;
}

/*
 * Caller holds memory_lock. What was freed and holds address, or NULL. Most addresses of programs
 * are elsewhere: in a heap, or on a stack.
 */
static struct memory *find_freed(struct session *s, const void *address)
{
    if ((uintptr_t)address < s->freed_from || (uintptr_t)address >= s->freed_to)
        return NULL;
    return find_in(&s->freed_map, address);
}

struct memory *memory_at(struct session *s, const void *address)
{
    return find_in(&s->memory, address);
}

bool memory_search(struct session *s, const void *address, struct memory *copy, uint64_t *changes)
{
    struct memory *m;

    memory_lock_to_look(s);
    m = find_in(&s->memory, address);
    if (!m)
        m = find_freed(s, address);
    if (m)
        memory_copy(copy, m);
    *changes = atomic_load_explicit(&s->memory_changes, memory_order_relaxed);
    pthread_rwlock_unlock(&s->memory_lock);
    return m != NULL;
}

bool memory_look_up(struct session *s, const void *address, struct memory *copy)
{
    uint64_t changes;

    return memory_search(s, address, copy, &changes);
}

bool memory_is_there(struct session *s, const struct memory *copy)
{
    struct memory *m;
    bool there;

    memory_lock_to_look(s);
    m = find_in(&s->memory, (const void *)copy->mapped.start);
    /* It may be freed and still be mapped, for what streams do before (struct memory). */
    there = m && !m->no_access && m->mapped.start == copy->mapped.start &&
            m->mapped.size == copy->mapped.size && m->remote == copy->remote &&
            m->remote_generation == copy->remote_generation &&
            m->remote_offset == copy->remote_offset;
    pthread_rwlock_unlock(&s->memory_lock);
    return there;
}

/* --- pages --- */

#define PAGE          4096u
#define PART_BITS_MAX 24 /* parts that are larger get pages as they are used */

/* If the kernel cannot (before Linux 5.14), npud's engine gets the pages when it comes to them. */
static void touch_pages(const struct memory *m, uint64_t from, uint64_t to)
{
    if (to > m->mapped.size)
        to = m->mapped.size;
    from &= ~(uint64_t)(PAGE - 1);
    madvise((char *)m->mapped.start + from, to - from, MADV_POPULATE_WRITE);
}

static void set_populated(struct session *s, const struct memory *copy, uint64_t parts)
{
    struct memory *m;

    memory_lock_to_change(s);
    m = find_in(&s->memory, (const void *)copy->mapped.start);
    if (m && m->remote == copy->remote && m->remote_generation == copy->remote_generation)
        m->populated |= parts;
    pthread_rwlock_unlock(&s->memory_lock);
}

void memory_populate_parts(struct session *s, const struct memory *copy, uint64_t offset,
                           uint64_t size)
{
    unsigned bits = memory_part_bits(copy);

    if (bits > PART_BITS_MAX) {
        touch_pages(copy, offset, offset + size);
        return;
    }
    touch_pages(copy, offset >> bits << bits, (((offset + size - 1) >> bits) + 1) << bits);
    set_populated(s, copy, memory_parts_of(copy, offset, size));
}

/* What is counted as memory of the device. A mapping is none: physical.c has counted it. */
static uint64_t device_bytes(const struct memory *m)
{
    return m->host || m->reservation != 0 || m->imported ? 0 : m->mapped.size;
}

/* Caller holds memory_lock. */
static void count_use(struct session *s, uint32_t device, uint64_t bytes)
{
    s->memory_used[device] += bytes;
    if (s->memory_used[device] > s->memory_peak[device])
        s->memory_peak[device] = s->memory_used[device];
}

/* Caller holds memory_lock. */
static void uncount_use(struct session *s, uint32_t device, uint64_t bytes)
{
    assert(s->memory_used[device] >= bytes);
    s->memory_used[device] -= bytes;
}

void memory_count_use(struct session *s, uint32_t device, uint64_t bytes)
{
    memory_lock_alone(s);
    count_use(s, device, bytes);
    pthread_rwlock_unlock(&s->memory_lock);
}

void memory_uncount_use(struct session *s, uint32_t device, uint64_t bytes)
{
    memory_lock_alone(s);
    uncount_use(s, device, bytes);
    pthread_rwlock_unlock(&s->memory_lock);
}

void memory_forget_registered(struct session *s, const struct memory *m)
{
    struct address_range *r;

    while ((r = range_map_overlap(&s->registered_map, m->mapped.start, m->mapped.size))) {
        range_map_remove(&s->registered_map, r);
        free(r);
    }
}

/* As a checked process writes it down. Caller holds memory_lock. */
static __attribute__((cold, noinline)) void note_memory(enum check_kind kind,
                                                        const struct memory *m, const char *key)
{
    struct check_memory record = {
        .r.kind = (uint8_t)kind,
        .name = {m->remote, m->remote_generation},
        .address = m->mapped.start,
        .size = m->size,
        .identity = key ? checked_identity(key) : 0,
        .kind = m->managed ? CHECK_MEMORY_MANAGED
                : m->host  ? CHECK_MEMORY_PINNED
                           : CHECK_MEMORY_DEVICE,
        .device = m->device,
        .imported = m->imported,
    };

    if (m->physical)
        memory_note_mapping(kind == CHECK_MEMORY ? CHECK_MAP : CHECK_UNMAP, m);
    else
        checked_write(&record.r, sizeof(record));
}

void memory_note_mapping(enum check_kind kind, const struct memory *m)
{
    struct check_map record = {
        .r.kind = (uint8_t)kind,
        .name = {m->remote, m->remote_generation},
        .offset = m->remote_offset,
        .address = m->mapped.start,
        .size = m->mapped.size,
    };

    checked_write(&record.r, sizeof(record));
}

void memory_note_gone(const struct memory *m)
{
    note_memory(CHECK_MEMORY_GONE, m, NULL);
}

void memory_open_to_kernels(const struct session *s, const struct memory *m)
{
    const int access = PROT_READ | PROT_WRITE;
    int key;

    if (!memory_is_closable(m))
        return;
    key = memory_key();
    if (key >= 0)
        pkey_mprotect((void *)m->mapped.start, m->mapped.size, access, key);
    else if (s->kernels_open > 0)
        mprotect((void *)m->mapped.start, m->mapped.size, access);
}

/* Caller holds memory_lock. */
static bool add_memory(struct session *s, struct memory *m, const char *key)
{
    if (!range_map_add(&s->memory, &m->mapped))
        return false;
    /* Else a new allocation would be registered where a program has unmapped what it registered. */
    memory_forget_registered(s, m);
    DL_APPEND(s->allocations, m);
    if (checked_runs())
        note_memory(CHECK_MEMORY, m, key);
    memory_open_to_kernels(s, m);
    count_use(s, m->device, device_bytes(m));
    s->managed_bytes += m->managed ? m->size : 0;
    return true;
}

/* Caller holds memory_lock. */
static bool add_import(struct session *s, struct memory *m, const char *key)
{
    m->imported = true;
    if (!imports_add(&s->imports, key, &m->import))
        return false;
    if (add_memory(s, m, key))
        return true;
    imports_remove(&s->imports, &m->import);
    return false;
}

int memory_add(struct session *s, const char *function, struct memory *m, const char *key,
               const struct context *c)
{
    bool lives, ok;

    memory_lock_to_change(s);
    lives = !c || context_is_current(c);
    ok = lives && (key ? add_import(s, m, key) : add_memory(s, m, NULL));
    pthread_rwlock_unlock(&s->memory_lock);
    if (ok)
        return 0;
    return lives ? error_no_memory(function) : context_error_gone(function);
}

/* Does the reset of its device free it? */
static bool goes_with_device(const struct memory *m)
{
    return !m->host && !m->physical;
}

/* --- what was freed --- */

/*
 * Of addresses: enough for the mistakes of a program that has just freed something, and little for
 * the kernel.
 */
#define FREED_MAX       256
#define FREED_BYTES_MAX ((uint64_t)64 << 30)

void memory_unmap(const struct memory *m)
{
    /* Addresses of a reservation are given back with it. */
    if (!m->physical)
        munmap((void *)m->mapped.start, m->mapped.size);
}

static void delete_memory(struct memory *m)
{
    physical_forget(m->physical);
    free(m);
}

static void unmap_list(struct memory *list)
{
    struct memory *m, *next;

    DL_FOREACH_SAFE (list, m, next) {
        memory_unmap(m);
        delete_memory(m);
    }
}

/* Caller holds memory_lock. From the table into the list. */
static void take_freed(struct session *s, struct memory *m, struct memory **list)
{
    range_map_remove(&s->freed_map, &m->mapped);
    assert(s->freed_count > 0 && s->freed_bytes >= m->mapped.size);
    DL_DELETE(s->freed, m);
    s->freed_count--;
    s->freed_bytes -= m->mapped.size;
    DL_APPEND(*list, m);
}

/* Give the addresses of those freed longest ago back, until no more than this is left. */
static void trim_freed(struct session *s, size_t count, uint64_t bytes)
{
    struct memory *m, *next, *out = NULL;

    memory_lock_to_change(s);
    DL_FOREACH_SAFE (s->freed, m, next) {
        if (s->freed_count <= count && s->freed_bytes <= bytes)
            break;
        take_freed(s, m, &out);
    }
    pthread_rwlock_unlock(&s->memory_lock);
    unmap_list(out);
}

/*
 * The device has these addresses for other memory now: those that were freed give way, as kernels
 * of the device know memory by its addresses alone.
 */
static void give_freed_back(struct session *s, uintptr_t start, size_t size)
{
    struct memory *m, *next, *out = NULL;

    memory_lock_to_change(s);
    if (range_map_overlap(&s->freed_map, start, size))
        DL_FOREACH_SAFE (s->freed, m, next)
            if (m->mapped.start < start + size && start < m->mapped.start + m->mapped.size)
                take_freed(s, m, &out);
    pthread_rwlock_unlock(&s->memory_lock);
    unmap_list(out);
}

/* Caller holds memory_lock. No allocation any more, but still in the table. */
static void end_allocation(struct session *s, struct memory *m)
{
    DL_DELETE(s->allocations, m);
    uncount_use(s, m->device, device_bytes(m));
    s->managed_bytes -= m->managed ? m->size : 0;
    if (m->import.import)
        imports_remove(&s->imports, &m->import);
}

/* Caller holds memory_lock. From the one table to the other, after end_allocation(). */
static void change_table(struct session *s, struct memory *m)
{
    bool first = s->freed_map == NULL;

    memory_forget_registered(s, m);
    range_map_remove(&s->memory, &m->mapped);
    m->freed = range_map_add(&s->freed_map, &m->mapped);
    if (first || m->mapped.start < s->freed_from)
        s->freed_from = m->mapped.start;
    if (first || m->mapped.start + m->mapped.size > s->freed_to)
        s->freed_to = m->mapped.start + m->mapped.size;
}

/* Caller holds memory_lock. */
static void move_to_freed(struct session *s, struct memory *m)
{
    if (checked_runs())
        memory_note_gone(m);
    end_allocation(s, m);
    change_table(s, m);
}

/* The memory goes, and its addresses stay, after move_to_freed(). */
static void keep_freed(struct session *s, struct memory *m)
{
    hold_await(m->mapped.start, m->mapped.size);
    if (!m->freed) { /* without memory for that */
        memory_unmap(m);
        delete_memory(m);
        return;
    }
    /* At the limit of mappings: then the memory goes with its addresses. */
    if (mmap((void *)m->mapped.start, m->mapped.size, PROT_NONE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) == MAP_FAILED)
        mprotect((void *)m->mapped.start, m->mapped.size, PROT_NONE);
    memory_lock_to_change(s);
    DL_APPEND(s->freed, m);
    s->freed_count++;
    s->freed_bytes += m->mapped.size;
    pthread_rwlock_unlock(&s->memory_lock);
    trim_freed(s, FREED_MAX, FREED_BYTES_MAX);
}

/* Is it what aclrtFreeHost frees, or else aclrtFree, when given this address? */
static bool is_freed_by(const struct memory *m, const void *address, bool host)
{
    return m->mapped.start == (uintptr_t)address && (m->host && !m->managed) == host &&
           !m->physical && !m->imported;
}

/*
 * Take the allocation that begins at address out of the table. NULL: there is none of this kind.
 * *again becomes true: there was one.
 */
static struct memory *take_allocation(struct session *s, const void *address, bool host,
                                      bool *again)
{
    struct memory *m;

    memory_lock_to_change(s);
    m = find_in(&s->memory, address);
    if (m && !is_freed_by(m, address, host))
        m = NULL;
    if (m && m->freed) { /* and a pool has it, or its device is being reset */
        *again = true;
        m = NULL;
    } else if (m) {
        move_to_freed(s, m);
    } else {
        m = find_freed(s, address);
        *again = m && is_freed_by(m, address, host);
        m = NULL;
    }
    pthread_rwlock_unlock(&s->memory_lock);
    return m;
}

struct memory *memory_take_import(struct session *s, const char *key)
{
    struct import_entry *oldest;
    struct memory *m = NULL;

    memory_lock_to_change(s);
    oldest = imports_find(s->imports, key);
    if (oldest) {
        m = (struct memory *)((char *)oldest - offsetof(struct memory, import));
        move_to_freed(s, m);
    }
    pthread_rwlock_unlock(&s->memory_lock);
    return m;
}

/* Does aclrtMalloc() have it, and so many bytes of it? */
static bool is_own(const struct memory *m, const void *address, size_t size)
{
    return m->mapped.start == (uintptr_t)address && !m->host && !m->physical && !m->imported &&
           !m->block && !m->freed &&
           (size <= memory_size_allocated(m->size) || memory_is_whole(m, address, size));
}

int memory_find_own(struct session *s, const char *function, const void *address, size_t size,
                    struct memory *copy)
{
    if (memory_look_up(s, address, copy) && is_own(copy, address, size))
        return 0;
    return error_set(ACL_ERROR_RT_PARAM_INVALID,
                     "%s: %p is not the start of device memory that this process has "
                     "allocated with aclrtMalloc, or that has less than %zu bytes",
                     function, address, size);
}

/* --- allocate and free --- */

int memory_free_remote(struct session *s, const char *function, uint32_t slot)
{
    REQUEST(free, FREE, .slot = slot);

    return session_command(s, function, &request);
}

/*
 * Of a strict device, at the addresses that npud has given: a wish, which the kernel takes unless
 * something of the program's own is there. A program that uses one faults, unless a kernel runs
 * (kernel_access.h). Of a device that is away there is nothing to map: the addresses are taken, so
 * that nothing else has them.
 */
static void *map_somewhere(const struct memory *m, int fd)
{
    void *wish = m->opaque ? (void *)m->mapped.start : NULL;
    int protection = m->opaque ? PROT_NONE : PROT_READ | PROT_WRITE;
    int flags = fd >= 0 ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    void *p = mmap(wish, m->mapped.size, protection, flags, fd, 0);

    /* A forked child's stores would be ours, and its mapping would keep what we free. */
    if (p != MAP_FAILED)
        madvise(p, m->mapped.size, MADV_DONTFORK);
    return p;
}

int memory_map(struct session *s, const char *function, struct memory *m, int fd)
{
    void *p;

    if (m->opaque && m->mapped.start != 0)
        give_freed_back(s, m->mapped.start, m->mapped.size);
    p = map_somewhere(m, fd);
    if (p == MAP_FAILED) {
        trim_freed(s, 0, 0); /* the process may be at a limit of addresses or mappings */
        p = map_somewhere(m, fd);
    }
    if (fd >= 0)
        close(fd);
    if (p == MAP_FAILED)
        return error_set(ACL_ERROR_RT_MEMORY_ALLOCATION, "%s: cannot map %zu bytes: %m", function,
                         m->mapped.size);
    m->mapped.start = (uintptr_t)p;
    return 0;
}

int memory_allocate(struct context *c, const char *function, struct memory *m, size_t bytes)
{
    REQUEST(malloc, MALLOC, .device = c->device, .size = bytes,
            .kind = m->host ? NPUD__MALLOC__KIND__HOST : NPUD__MALLOC__KIND__DEVICE);
    struct session *session = c->session; /* c may end meanwhile */
    Npud__Reply *reply = NULL;
    int error, fd = -1;

    RETURN_IF_ERROR(session_request(session, function, &request, &reply, &fd));
    m->device = m->home = in.device;
    m->opaque = memory_is_opaque(session, m->host, in.device);
    if (m->opaque)
        m->populated = UINT64_MAX; /* npud does that */
    m->remote = reply->malloc->slot;
    m->remote_generation = reply->malloc->generation;
    m->mapped = (struct address_range){reply->malloc->address, reply->malloc->size};
    session_reply_free(reply);
    error = memory_map(session, function, m, fd);
    if (error != 0)
        memory_free_remote(session, function, m->remote);
    return error;
}

int memory_obtain(struct context *c, const char *function, struct memory *m, void **address)
{
    struct session *session = c->session;
    void *start;
    int error;

    RETURN_IF_ERROR(memory_allocate(c, function, m, memory_size_allocated(m->size)));
    start = (void *)m->mapped.start;
    /* The program's thread works in c, or c is that of a stream which it has locked there. */
    error = memory_add(session, function, m, NULL, goes_with_device(m) ? c : NULL);
    if (error == 0) {
        *address = start;
        return 0;
    }
    memory_unmap(m);
    memory_free_remote(session, function, m->remote);
    return error;
}

struct memory *memory_make(struct context *c, const char *function, size_t size, bool host,
                           void **address, int *error)
{
    struct memory *m = calloc(1, sizeof(*m));

    if (!m) {
        *error = error_no_memory(function);
        return NULL;
    }
    m->size = size;
    m->host = host;
    *error = memory_obtain(c, function, m, address);
    if (*error == 0)
        return m;
    free(m);
    return NULL;
}

int memory_new(const char *function, void **pointer, size_t size, bool host)
{
    struct context *c = FIND_OR_RETURN(context_get, function);

    return pool_blocks_new_memory(c, function, size, host, pointer);
}

int memory_drop(struct session *s, const char *function, struct memory *m)
{
    int error = memory_free_remote(s, function, m->remote);

    keep_freed(s, m);
    return error;
}

/* What frees memory that the other of the two functions does not; NULL: that one does. */
static const char *free_otherwise(const struct memory *m, bool host)
{
    if (m->imported)
        return "was imported: call aclrtIpcMemClose with its key";
    if (m->physical)
        return "was mapped: call aclrtUnmapMem and aclrtFreePhysical";
    if (host && m->managed)
        return "is managed memory: call aclrtFree";
    if (host && !m->host)
        return "is device memory: call aclrtFree";
    if (!host && m->host && !m->managed)
        return "is pinned host memory: call aclrtFreeHost";
    return NULL;
}

/* Not by registration.h, which is above. */
static bool is_registered(struct session *s, const void *address)
{
    bool found;

    memory_lock_to_look(s);
    found = range_map_find(&s->registered_map, address) != NULL;
    pthread_rwlock_unlock(&s->memory_lock);
    return found;
}

/* It is not what this function frees. */
static int refuse_free(struct session *s, const char *function, const void *pointer, bool host)
{
    struct memory m;
    bool found = s && memory_look_up(s, pointer, &m) && !m.freed;
    const char *instead = found ? free_otherwise(&m, host) : NULL;
    struct segment_place buffer;

    if (instead)
        return error_set(ACL_ERROR_RT_PARAM_INVALID, "%s: the memory at %p %s", function, pointer,
                         instead);
    if (found)
        return error_set(ACL_ERROR_RT_PARAM_INVALID,
                         "%s: %p is inside of an allocation: pass its beginning, %p", function,
                         pointer, (void *)m.mapped.start);
    if (s && segment_locate(s, pointer, &buffer))
        return error_set(ACL_ERROR_RT_PARAM_INVALID,
                         "%s: %p is in a shared buffer: call acltdtFreeBuf with the buffer",
                         function, pointer);
    if (s && is_registered(s, pointer))
        return error_set(ACL_ERROR_RT_PARAM_INVALID,
                         "%s: the memory at %p is the program's own, and registered: call "
                         "aclrtHostUnregister, and free it as it was allocated",
                         function, pointer);
    return error_set(ACL_ERROR_RT_PARAM_INVALID,
                     "%s: %p is not the start of an allocation of %s: memory of malloc() is freed "
                     "by free(), and nothing is freed twice",
                     function, pointer, host ? "aclrtMallocHost" : "aclrtMalloc");
}

int memory_free(const char *function, void *pointer, bool host)
{
    struct session *s = session_peek();
    struct memory *m = NULL;
    bool again = false;

    RETURN_IF_ERROR(process_enter());
    if (s)
        m = take_allocation(s, pointer, host, &again);
    if (again && checked_runs())
        checked_refused(CHECK_FREED, pointer, 0, 0, 0);
    if (again)
        return error_set(ACL_ERROR_RT_PARAM_INVALID, "%s: the memory at %p was freed already",
                         function, pointer);
    if (!m)
        return refuse_free(s, function, pointer, host);
    pool_blocks_detach(s, m);
    return memory_drop(s, function, m);
}

/* --- memory of pools --- */

void memory_set_block(struct session *s, struct memory *m, struct pool_block *block)
{
    memory_lock_to_change(s);
    m->block = block;
    pthread_rwlock_unlock(&s->memory_lock);
}

void memory_lend(struct session *s, struct memory *m, size_t size)
{
    memory_lock_to_change(s);
    m->size = size;
    m->freed = false;
    pthread_rwlock_unlock(&s->memory_lock);
}

struct memory *memory_return(struct session *s, const void *address, bool *again)
{
    struct memory *m;

    memory_lock_to_change(s);
    m = find_in(&s->memory, address);
    if (!m)
        m = find_freed(s, address);
    *again = m && m->freed && m->mapped.start == (uintptr_t)address;
    if (m && (m->freed || !m->block || m->mapped.start != (uintptr_t)address))
        m = NULL;
    if (m)
        m->freed = true;
    pthread_rwlock_unlock(&s->memory_lock);
    return m;
}

void memory_give_back(struct session *s, const char *function, struct memory *m)
{
    memory_lock_to_change(s);
    move_to_freed(s, m);
    pthread_rwlock_unlock(&s->memory_lock);
    memory_drop(s, function, m);
}

aclError aclrtMalloc(void **devPtr, size_t size, aclrtMemMallocPolicy policy)
{
    CALL_SCOPE;

    REQUIRE(devPtr);
    RETURN_IF_ERROR(memory_check_request(__func__, size, policy));
    return memory_new(__func__, devPtr, size, false);
}

aclError aclrtMallocAlign32(void **devPtr, size_t size, aclrtMemMallocPolicy policy)
{
    CALL_SCOPE;

    REQUIRE(devPtr);
    RETURN_IF_ERROR(memory_check_request(__func__, size, policy));
    return memory_new(__func__, devPtr, size, false);
}

aclError aclrtMallocCached(void **devPtr, size_t size, aclrtMemMallocPolicy policy)
{
    CALL_SCOPE;

    REQUIRE(devPtr);
    RETURN_IF_ERROR(memory_check_request(__func__, size, policy));
    return memory_new(__func__, devPtr, size, false);
}

aclError aclrtFree(void *devPtr)
{
    CALL_SCOPE;

    REQUIRE(devPtr);
    return memory_free(__func__, devPtr, false);
}

aclError aclrtFreeWithDevSync(void *devPtr)
{
    CALL_SCOPE;

    REQUIRE(devPtr);
    RETURN_IF_ERROR(stream_synchronize_device(__func__, -1));
    return memory_free(__func__, devPtr, false);
}

aclError aclrtMallocHost(void **hostPtr, size_t size)
{
    CALL_SCOPE;

    REQUIRE(hostPtr);
    RETURN_IF_ERROR(memory_check_request(__func__, size, ACL_MEM_MALLOC_HUGE_FIRST));
    return memory_new(__func__, hostPtr, size, true);
}

aclError aclrtFreeHost(void *hostPtr)
{
    CALL_SCOPE;

    REQUIRE(hostPtr);
    return memory_free(__func__, hostPtr, true);
}

aclError aclrtFreeHostWithDevSync(void *hostPtr)
{
    CALL_SCOPE;

    REQUIRE(hostPtr);
    RETURN_IF_ERROR(stream_synchronize_device(__func__, -1));
    return memory_free(__func__, hostPtr, true);
}

/* --- a device, or the session, goes --- */

struct memory_list memory_take_device(struct session *s, uint32_t device)
{
    struct memory_list list = {.taken = true};
    struct memory *m, *next;

    pool_blocks_forget_device(s, device);
    memset(s->devices[device].areas, 0, sizeof(s->devices[device].areas)); /* some of them */
    memory_lock_to_change(s);
    DL_FOREACH_SAFE (s->allocations, m, next)
        if (goes_with_device(m) && m->home == device) {
            end_allocation(s, m);
            m->freed = true;
            DL_APPEND(list.first, m);
        }
    pthread_rwlock_unlock(&s->memory_lock);
    return list;
}

bool memory_has_of_device(struct session *s, uint32_t device)
{
    struct memory *m;

    memory_lock_to_look(s);
    DL_FOREACH (s->allocations, m)
        if (!m->host && m->device == device)
            break;
    pthread_rwlock_unlock(&s->memory_lock);
    return m != NULL;
}

void memory_release(struct session *s, const char *function, struct memory_list list)
{
    struct memory *m, *next;

    if (!list.taken)
        return;
    DL_FOREACH_SAFE (list.first, m, next) {
        memory_lock_to_change(s);
        if (checked_runs()) /* not before: tasks of the device's streams have used it until now */
            memory_note_gone(m);
        change_table(s, m);
        pthread_rwlock_unlock(&s->memory_lock);
        memory_drop(s, function, m);
    }
    staging_trim(s, function, 0);
}

static void unmap_all(struct session *s)
{
    staging_forget_all(s);
    imports_clear(&s->imports);
    range_map_clear(&s->memory);
    range_map_clear(&s->freed_map);
    unmap_list(s->allocations);
    unmap_list(s->freed);
}

const struct part memory_part = {.session_free = unmap_all};
