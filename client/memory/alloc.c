#include "client/memory/alloc.h"

#include <search.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <utlist.h>

#include "acl/acl.h"
#include "client/buffers/segment.h"
#include "client/runtime/context.h"
#include "client/runtime/device.h"
#include "client/core/error.h"
#include "client/runtime/stream.h"

#define GUARD 32 /* what the vendor appends, and capacity planning counts */

/*
 * What a program may use of an allocation: the API rounds sizes up, and programs copy whole blocks.
 */
static size_t size_allocated(size_t size)
{
    return (size + 31) & ~(size_t)31;
}

/* --- the table: a tree of ranges, in which overlapping is being equal --- */

static int compare(const void *a, const void *b)
{
    const struct memory *x = a, *y = b;

    if (x->start + x->mapped <= y->start)
        return -1;
    return x->start >= y->start + y->mapped;
}

static struct memory *find_in(void *const *tree, const void *address)
{
    struct memory key = {.start = (uintptr_t)address, .mapped = 1};
    struct memory **node = tfind(&key, tree, compare);

    return node ? *node : NULL;
}

/* Caller holds memory_lock. The allocation that holds address, or NULL: memory that the runtime
 * does not know (pageable), or freed. */
static struct memory *find(struct session *s, const void *address)
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
    return find_in(&s->freed_tree, address);
}

/* A copy of what is at address; false: pageable. */
static bool look_up(struct session *s, const void *address, struct memory *copy)
{
    struct memory *m;

    pthread_rwlock_rdlock(&s->memory_lock);
    m = find(s, address);
    if (!m)
        m = find_freed(s, address);
    if (m)
        *copy = *m;
    pthread_rwlock_unlock(&s->memory_lock);
    return m != NULL;
}

static bool insert(struct session *s, struct memory *m)
{
    bool ok;

    pthread_rwlock_wrlock(&s->memory_lock);
    ok = tsearch(m, &s->memory, compare) != NULL;
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
        munmap((void *)m->start, m->mapped);
        free(m);
    }
}

/* Caller holds memory_lock. */
static void freed_remove(struct session *s, struct memory *m)
{
    DL_DELETE(s->freed, m);
    s->freed_count--;
    s->freed_bytes -= m->mapped;
}

/* Give the addresses of those freed longest ago back, until no more than this is left. */
static void freed_trim(struct session *s, size_t count, uint64_t bytes)
{
    struct memory *m, *next, *out = NULL;

    pthread_rwlock_wrlock(&s->memory_lock);
    DL_FOREACH_SAFE (s->freed, m, next) {
        if (s->freed_count <= count && s->freed_bytes <= bytes)
            break;
        freed_remove(s, m);
        tdelete(m, &s->freed_tree, compare);
        DL_APPEND(out, m);
    }
    pthread_rwlock_unlock(&s->memory_lock);
    unmap_list(out);
}

/* Caller holds memory_lock. From the one table to the other. */
static void move_to_freed(struct session *s, struct memory *m)
{
    bool first = s->freed_tree == NULL;

    tdelete(m, &s->memory, compare);
    m->freed = tsearch(m, &s->freed_tree, compare) != NULL;
    if (first || m->start < s->freed_from)
        s->freed_from = m->start;
    if (first || m->start + m->mapped > s->freed_to)
        s->freed_to = m->start + m->mapped;
}

/* The memory goes, and its addresses stay, after move_to_freed(). */
static void freed_keep(struct session *s, struct memory *m)
{
    if (!m->freed) { /* without memory for that */
        munmap((void *)m->start, m->mapped);
        free(m);
        return;
    }
    /* At the limit of mappings: then the memory goes with its addresses. */
    if (mmap((void *)m->start, m->mapped, PROT_NONE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) == MAP_FAILED)
        mprotect((void *)m->start, m->mapped, PROT_NONE);
    pthread_rwlock_wrlock(&s->memory_lock);
    DL_APPEND(s->freed, m);
    s->freed_count++;
    s->freed_bytes += m->mapped;
    pthread_rwlock_unlock(&s->memory_lock);
    freed_trim(s, FREED_MAX, FREED_BYTES_MAX);
}

/*
 * Take the allocation that begins at address out of the table. NULL: there is none of this kind.
 * *again becomes true: there was one.
 */
static struct memory *take(struct session *s, const void *address, bool host, bool *again)
{
    struct memory *m;

    pthread_rwlock_wrlock(&s->memory_lock);
    m = find(s, address);
    if (m && (m->start != (uintptr_t)address || m->host != host))
        m = NULL;
    if (m) {
        move_to_freed(s, m);
    } else {
        m = find_freed(s, address);
        *again = m && m->start == (uintptr_t)address && m->host == host;
        m = NULL;
    }
    pthread_rwlock_unlock(&s->memory_lock);
    return m;
}

/* --- allocate and free --- */

static int free_remote(struct session *s, const char *function, uint32_t slot)
{
    Npud__Request request = NPUD__REQUEST__INIT;
    Npud__Free in = NPUD__FREE__INIT;

    in.slot = slot;
    request.free = &in;
    request.body_case = NPUD__REQUEST__BODY_FREE;
    return session_command(s, function, &request);
}

static int allocate_remote(struct context *c, const char *function, struct memory *m, size_t bytes,
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
    m->mapped = reply->malloc->size;
    session_reply_free(reply);
    return 0;
}

static int map(struct context *c, const char *function, struct memory *m, int fd)
{
    void *p = mmap(NULL, m->mapped, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

    if (p == MAP_FAILED) {
        freed_trim(c->session, 0, 0); /* the process may be at a limit of addresses or mappings */
        p = mmap(NULL, m->mapped, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    }
    close(fd);
    if (p == MAP_FAILED)
        return error_set(ACL_ERROR_RT_MEMORY_ALLOCATION, "%s: cannot map %zu bytes: %m", function,
                         m->mapped);
    m->start = (uintptr_t)p;
    if (insert(c->session, m))
        return 0;
    munmap(p, m->mapped);
    return error_set(ACL_ERROR_RT_MEMORY_ALLOCATION, "%s: out of memory", function);
}

static int allocate(const char *function, void **pointer, size_t size, size_t guard, bool host)
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
    error = allocate_remote(c, function, m, size_allocated(size) + guard, &fd);
    if (error == 0) {
        error = map(c, function, m, fd);
        if (error != 0)
            free_remote(c->session, function, m->remote);
    }
    if (error != 0) {
        free(m);
        return error;
    }
    /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): the tree owns m */
    *pointer = (void *)m->start;
    return 0;
}

static int release(const char *function, void *pointer, bool host)
{
    int error = process_enter();
    struct session *s = session_peek();
    struct memory *m = NULL;
    bool again = false;

    if (error != 0)
        return error;
    if (s)
        m = take(s, pointer, host, &again);
    if (again)
        return error_set(ACL_ERROR_RT_PARAM_INVALID, "%s: the memory at %p was freed already",
                         function, pointer);
    if (!m)
        return error_set(ACL_ERROR_RT_PARAM_INVALID,
                         "%s: %p is not the start of an allocation of %s", function, pointer,
                         host ? "aclrtMallocHost" : "aclrtMalloc");
    error = free_remote(s, function, m->remote);
    freed_keep(s, m);
    return error;
}

/* twalk() cannot delete: collect first. */
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

static void collect_one(const void *node, VISIT visit, void *arg)
{
    struct collect *c = arg;
    struct memory *m = *(struct memory *const *)node;

    if (visit != preorder && visit != leaf)
        return;
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
    twalk_r(s->memory, collect_one, &c);
    c.list = calloc(1, sizeof(*c.list) + c.n * sizeof(struct memory *));
    c.n = 0;
    if (c.list) {
        twalk_r(s->memory, collect_one, &c);
        c.list->n = c.n;
        for (size_t i = 0; i < c.n; i++) {
            if (all)
                tdelete(c.list->entry[i], &s->memory, compare);
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
    return allocate(__func__, devPtr, size, GUARD, false);
}

aclError aclrtMallocAlign32(void **devPtr, size_t size, aclrtMemMallocPolicy policy)
{
    CALL_SCOPE;

    REQUIRE(devPtr);
    (void)policy;
    return allocate(__func__, devPtr, size, 0, false);
}

aclError aclrtMallocCached(void **devPtr, size_t size, aclrtMemMallocPolicy policy)
{
    CALL_SCOPE;

    REQUIRE(devPtr);
    (void)policy;
    return allocate(__func__, devPtr, size, GUARD, false);
}

aclError aclrtFree(void *devPtr)
{
    CALL_SCOPE;

    REQUIRE(devPtr);
    return release(__func__, devPtr, false);
}

aclError aclrtMallocHost(void **hostPtr, size_t size)
{
    CALL_SCOPE;

    REQUIRE(hostPtr);
    return allocate(__func__, hostPtr, size, 0, true);
}

aclError aclrtFreeHost(void *hostPtr)
{
    CALL_SCOPE;

    REQUIRE(hostPtr);
    return release(__func__, hostPtr, true);
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
    if (s && look_up(s, ptr, &m) && !m.freed) {
        attributes->location.type =
            m.host ? ACL_MEM_LOCATION_TYPE_HOST : ACL_MEM_LOCATION_TYPE_DEVICE;
        attributes->location.id = m.host ? 0 : (uint32_t)device_user_id(s, m.device);
    } else if (s && segment_locate(s, ptr, &buffer)) {
        /* of no device, and for every device to copy from and to */
        attributes->location.type = ACL_MEM_LOCATION_TYPE_HOST;
    }
    return 0;
}

/* --- copies --- */

enum place {
    PAGEABLE,
    PINNED,
    DEVICE,
    BUFFER, /* a shared one: host memory, or a device's, as one likes */
};

struct side {
    enum place place;
    struct memory memory; /* of PINNED and DEVICE */
    uint64_t offset;
};

static int classify_buffer(const char *function, const void *address, size_t count,
                           const char *name, const struct segment_place *at)
{
    struct mbuf *m = &at->view->mbufs[at->block];
    enum mbuf_state state = mbuf_state(atomic_load_explicit(&m->word, memory_order_acquire));
    uint64_t room = atomic_load_explicit(&m->room, memory_order_relaxed);

    if (state == MBUF_FREE || state == MBUF_CACHED)
        return error_set(ACL_ERROR_RT_PARAM_INVALID,
                         "%s: %s: %p is in the data of a buffer that was freed", function, name,
                         address);
    if (room > at->view->stride)
        room = at->view->stride;
    if (at->offset > room || count > room - at->offset)
        return error_set(ACL_ERROR_RT_PARAM_INVALID,
                         "%s: %s: %zu bytes at offset %llu leave the buffer of %llu bytes",
                         function, name, count, (unsigned long long)at->offset,
                         (unsigned long long)room);
    return 0;
}

static int classify(struct session *s, const char *function, const void *address, size_t count,
                    const char *name, struct side *side)
{
    struct segment_place buffer;
    size_t room;

    *side = (struct side){.place = PAGEABLE};
    if (!look_up(s, address, &side->memory)) {
        if (!segment_locate(s, address, &buffer))
            return 0;
        side->place = BUFFER;
        return classify_buffer(function, address, count, name, &buffer);
    }
    side->place = side->memory.host ? PINNED : DEVICE;
    side->offset = (uintptr_t)address - side->memory.start;
    if (__builtin_expect(side->memory.freed, 0))
        return error_set(
            ACL_ERROR_RT_PARAM_INVALID,
            "%s: %s: %p is in memory that was freed: it was an allocation of %zu bytes", function,
            name, address, side->memory.size);
    room = size_allocated(side->memory.size);
    if (__builtin_expect(side->offset > room || count > room - side->offset, 0))
        return error_set(ACL_ERROR_RT_PARAM_INVALID,
                         "%s: %s: %zu bytes at offset %llu leave the allocation of %zu bytes",
                         function, name, count, (unsigned long long)side->offset,
                         side->memory.size);
    return 0;
}

/* Reaching another device's memory must have been allowed, as on hardware. */
static int check_reach(struct session *s, const char *function, uint32_t a, uint32_t b)
{
    if (a == b || (s->devices[a].peers >> b & 1) || (s->devices[b].peers >> a & 1))
        return 0;
    return error_set(
        ACL_ERROR_RT_DRV_INTERNAL_ERROR,
        "%s: devices %u and %u cannot reach each other: call aclrtDeviceEnablePeerAccess first",
        function, b, a);
}

static int check_peers(struct session *s, const char *function, const struct side *dst,
                       const struct side *src)
{
    if (dst->place != DEVICE || src->place != DEVICE)
        return 0;
    return check_reach(s, function, dst->memory.device, src->memory.device);
}

int memory_device_place(struct session *s, const char *function, uint32_t device, const char *name,
                        const void *address, uint64_t size, struct memory_place *place)
{
    struct side side;
    int error = classify(s, function, address, size, name, &side);

    if (error == 0 && side.place != DEVICE)
        error = error_set(ACL_ERROR_RT_PARAM_INVALID, "%s: %s (%p) is not device memory", function,
                          name, address);
    if (error == 0)
        error = check_reach(s, function, device, side.memory.device);
    *place = (struct memory_place){side.memory.remote, side.memory.remote_generation, side.offset};
    return error;
}

/*
 * This thread has written there by itself, and streams may wait for a word of it
 * (proto/shm/doorbell.h). The fence: either npud sees what we wrote, or we see that somebody waits.
 */
static int written(struct session *s, const char *function, const struct side *to, size_t count)
{
    Npud__Request request = NPUD__REQUEST__INIT;
    Npud__MemoryWritten in = NPUD__MEMORY_WRITTEN__INIT;

    KILL_POINT(MEMORY_WRITTEN);
    if (to->place != DEVICE)
        return 0;
    atomic_thread_fence(memory_order_seq_cst);
    if (atomic_load_explicit(&s->page->value_waiters, memory_order_relaxed) == 0)
        return 0;
    in.slot = to->memory.remote;
    in.generation = to->memory.remote_generation;
    in.offset = to->offset;
    in.size = count;
    request.memory_written = &in;
    request.body_case = NPUD__REQUEST__BODY_MEMORY_WRITTEN;
    return session_command(s, function, &request);
}

int memory_check(struct session *s, const char *function, const char *name, const void *address,
                 size_t size)
{
    struct side side;

    return classify(s, function, address, size, name, &side);
}

int memory_written(struct session *s, const char *function, const void *address, size_t size)
{
    struct side side;
    int error = classify(s, function, address, size, "memory", &side);

    return error != 0 ? error : written(s, function, &side, size);
}

/* What both copy functions check, in the reference's order. -1: go on. */
static int check_copy(const char *function, void *dst, size_t dest_max, const void *src,
                      size_t count, aclrtMemcpyKind kind)
{
    if (count == 0)
        return 0;
    if (!dst || !src)
        return error_null(function, dst ? "src" : "dst");
    if ((unsigned)kind > ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE)
        return error_set(ACL_ERROR_INVALID_PARAM, "%s: kind is %d, must be 0 to %d here", function,
                         (int)kind, ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE);
    if (count > dest_max)
        return error_set(ACL_ERROR_RT_PARAM_INVALID, "%s: count %zu is more than destMax %zu",
                         function, count, dest_max);
    return dst == src ? 0 : -1;
}

static int find_sides(struct session *s, const char *function, void *dst, const void *src,
                      size_t count, struct side *to, struct side *from)
{
    int error = classify(s, function, dst, count, "dst", to);

    if (error == 0)
        error = classify(s, function, src, count, "src", from);
    return error != 0 ? error : check_peers(s, function, to, from);
}

aclError aclrtMemcpy(void *dst, size_t destMax, const void *src, size_t count, aclrtMemcpyKind kind)
{
    CALL_SCOPE;
    int error = check_copy(__func__, dst, destMax, src, count, kind);
    struct context *c;
    struct side to = {0}, from = {0};

    if (error >= 0)
        return error;
    c = context_get(__func__, &error);
    if (!c)
        return error;
    error = find_sides(c->session, __func__, dst, src, count, &to, &from);
    if (error != 0)
        return error;
    /* overlapping ranges are the program's mistake, but must not be undefined */
    memmove(dst, src, count);
    return written(c->session, __func__, &to, count);
}

/* The kinds that a pair with a pageable side accepts; others are known by their addresses, whatever
 * kind says. */
static bool kind_fits(enum place from, enum place to, aclrtMemcpyKind kind)
{
    static const struct {
        enum place from, to;
        uint32_t kinds; /* bits */
    } rows[] = {
        {PAGEABLE, DEVICE, 1u << ACL_MEMCPY_HOST_TO_DEVICE | 1u << ACL_MEMCPY_DEVICE_TO_DEVICE},
        {DEVICE, PAGEABLE, 1u << ACL_MEMCPY_DEVICE_TO_HOST | 1u << ACL_MEMCPY_DEVICE_TO_DEVICE},
        {PINNED, PAGEABLE, 1u << ACL_MEMCPY_HOST_TO_HOST | 1u << ACL_MEMCPY_DEVICE_TO_HOST},
        {PAGEABLE, PINNED, 1u << ACL_MEMCPY_HOST_TO_HOST | 1u << ACL_MEMCPY_HOST_TO_DEVICE},
        {PAGEABLE, PAGEABLE, 0xf},
    };

    if (kind == ACL_MEMCPY_DEFAULT || from == BUFFER || to == BUFFER)
        return true;
    if (kind == ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE)
        return from != DEVICE && to == DEVICE;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if (rows[i].from == from && rows[i].to == to)
            return rows[i].kinds >> kind & 1;
    return true;
}

static int submit_copy(struct stream *s, const char *function, const struct side *to,
                       const struct side *from, size_t count)
{
    struct task task = {
        .op = TASK_COPY, .object = to->memory.remote, .generation = to->memory.remote_generation};

    task.copy.dst_offset = to->offset;
    task.copy.src = from->memory.remote;
    task.copy.src_generation = from->memory.remote_generation;
    task.copy.src_offset = from->offset;
    task.copy.size = count;
    return stream_submit(s, function, &task);
}

/*
 * The engine cannot reach it. A buffer it must not: who frees it, or sends it on, would have to
 * wait for the engine.
 */
static bool by_hand(enum place place)
{
    return place == PAGEABLE || place == BUFFER;
}

/*
 * The engine cannot reach pageable memory: wait for what is on the stream, then copy here, with the
 * stream locked so that nothing comes in between. A failure that the wait meets stays for the next
 * synchronise call.
 */
static int copy_pageable(struct stream *s, const char *function, void *dst, const void *src,
                         size_t count, const struct side *to)
{
    int error = stream_drain(s, function);

    if (error != 0)
        return error;
    memmove(dst, src, count);
    return written(s->session, function, to, count);
}

/*
 * ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE: the source is taken now, the copy runs in its turn. Buffers are
 * pinned memory of this library's own, used again when the stream that they were for has passed
 * the copy.
 */
struct staging {
    struct memory memory;
    struct stream_ctrl *ctrl;
    uint64_t position;
    struct staging *prev,
        *next; /* session->staging: used longest ago first, so the first are the likeliest to be idle */
};

/*
 * So much is kept for coming copies, or a single buffer that is larger. What is in flight may be
 * more: as much as the streams hold tasks for.
 */
#define STAGING_KEPT ((size_t)64 << 20)

/* The stream that it was for has passed the copy. */
static bool staging_idle(const struct staging *b)
{
    return atomic_load_explicit(&b->ctrl->done, memory_order_acquire) >= b->position;
}

/* Caller holds staging_lock. */
static void staging_remove(struct session *session, struct staging *b)
{
    DL_DELETE(session->staging, b);
    session->staging_bytes -= b->memory.mapped;
}

static void staging_add(struct session *session, struct staging *b)
{
    pthread_mutex_lock(&session->staging_lock);
    DL_APPEND(session->staging, b);
    session->staging_bytes += b->memory.mapped;
    pthread_mutex_unlock(&session->staging_lock);
}

/*
 * Free idle buffers until no more than this many bytes are left in all, or only such as are in use.
 */
static void staging_trim(struct session *session, const char *function, size_t bytes)
{
    struct staging *b, *next, *freed = NULL;

    pthread_mutex_lock(&session->staging_lock);
    DL_FOREACH_SAFE (session->staging, b, next)
        if (session->staging_bytes > bytes && staging_idle(b)) {
            staging_remove(session, b);
            LL_PREPEND(freed, b);
        }
    pthread_mutex_unlock(&session->staging_lock);
    LL_FOREACH_SAFE (freed, b, next) {
        free_remote(session, function, b->memory.remote);
        munmap((void *)b->memory.start, b->memory.mapped);
        free(b);
    }
}

static struct staging *staging_find(struct session *session, size_t count)
{
    struct staging *b;

    pthread_mutex_lock(&session->staging_lock);
    DL_FOREACH (session->staging, b)
        if (b->memory.mapped >= count && staging_idle(b))
            break;
    if (b)
        staging_remove(session, b);
    pthread_mutex_unlock(&session->staging_lock);
    return b;
}

static struct staging *staging_new(struct stream *s, const char *function, size_t count, int *error)
{
    struct staging *b = calloc(1, sizeof(*b));
    void *p;
    int fd = -1;

    if (!b) {
        *error = error_set(ACL_ERROR_RT_MEMORY_ALLOCATION, "%s: out of memory", function);
        return NULL;
    }
    b->memory = (struct memory){.size = count, .host = true, .device = s->device};
    *error = allocate_remote(s->context, function, &b->memory, count, &fd);
    if (*error != 0) {
        free(b);
        return NULL;
    }
    p = mmap(NULL, b->memory.mapped, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (p != MAP_FAILED) {
        b->memory.start = (uintptr_t)p;
        return b;
    }
    *error = error_set(ACL_ERROR_RT_MEMORY_ALLOCATION, "%s: cannot map %zu bytes: %m", function,
                       b->memory.mapped);
    free_remote(s->session, function, b->memory.remote);
    free(b);
    return NULL;
}

static int copy_buffered(struct stream *s, const char *function, const struct side *to,
                         const void *src, size_t count)
{
    struct session *session = s->session;
    struct side from = {.place = PINNED};
    struct staging *b = staging_find(session, count);
    int error = 0;

    staging_trim(session, function, count < STAGING_KEPT ? STAGING_KEPT - count : 0);
    if (!b)
        b = staging_new(s, function, count, &error);
    if (!b)
        return error;
    memcpy((void *)b->memory.start, src, count);
    from.memory = b->memory;
    error = submit_copy(s, function, to, &from, count);
    b->ctrl = s->ctrl;
    b->position = s->tail;
    staging_add(session, b);
    return error;
}

void memory_release(struct session *s, const char *function, struct memory_list *list)
{
    if (!list)
        return;
    for (size_t i = 0; i < list->n; i++) {
        free_remote(s, function, list->entry[i]->remote);
        freed_keep(s, list->entry[i]);
    }
    free(list);
    staging_trim(s, function, 0);
}

static void unmap_all(struct session *s)
{
    struct memory_list *list = take_all(s, true, 0);
    struct staging *b, *next;

    for (b = s->staging; b; b = next) {
        next = b->next;
        munmap((void *)b->memory.start, b->memory.mapped);
        free(b);
    }
    s->staging = NULL;
    s->staging_bytes = 0;
    for (size_t i = 0; list && i < list->n; i++) {
        munmap((void *)list->entry[i]->start, list->entry[i]->mapped);
        free(list->entry[i]);
    }
    free(list);
    freed_trim(s, 0, 0);
}

const struct part memory_part = {.session_free = unmap_all};

static const char *place_name(enum place place)
{
    return place == DEVICE   ? "device memory"
           : place == BUFFER ? "a shared buffer"
           : place == PINNED ? "memory of aclrtMallocHost"
                             : "neither device memory nor of aclrtMallocHost, or freed";
}

static int copy_async(struct stream *s, const char *function, void *dst, const void *src,
                      size_t count, aclrtMemcpyKind kind)
{
    struct side to = {0}, from = {0};
    int error = find_sides(s->session, function, dst, src, count, &to, &from);

    if (error != 0)
        return error;
    if (!kind_fits(from.place, to.place, kind))
        return error_set(ACL_ERROR_RT_PARAM_INVALID,
                         "%s: kind %d does not fit the two addresses: dst is %s, src is %s",
                         function, kind, place_name(to.place), place_name(from.place));
    if (to.place < DEVICE && from.place < DEVICE)
        return error_set(
            ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
            "%s: there is no asynchronous copy from host to host memory: use aclrtMemcpy",
            function);
    if (kind == ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE && to.place == DEVICE)
        return copy_buffered(s, function, &to, src, count);
    if (by_hand(to.place) || by_hand(from.place))
        return copy_pageable(s, function, dst, src, count, &to);
    return submit_copy(s, function, &to, &from, count);
}

aclError aclrtMemcpyAsync(void *dst, size_t destMax, const void *src, size_t count,
                          aclrtMemcpyKind kind, aclrtStream stream)
{
    CALL_SCOPE;
    int error = check_copy(__func__, dst, destMax, src, count, kind);
    struct stream *s;

    if (error >= 0)
        return error;
    s = stream_lock(__func__, stream, &error);
    if (!s)
        return error;
    error = copy_async(s, __func__, dst, src, count, kind);
    stream_unlock(s);
    return error;
}

/* --- set --- */

static int check_set(const char *function, void *p, size_t max, size_t count)
{
    if (count == 0)
        return 0;
    if (!p)
        return error_null(function, "devPtr");
    if (count > max)
        return error_set(ACL_ERROR_RT_PARAM_INVALID, "%s: count %zu is more than maxCount %zu",
                         function, count, max);
    return -1;
}

aclError aclrtMemset(void *devPtr, size_t maxCount, int32_t value, size_t count)
{
    CALL_SCOPE;
    int error = check_set(__func__, devPtr, maxCount, count);
    struct context *c;
    struct side side;

    if (error >= 0)
        return error;
    c = context_get(__func__, &error);
    if (!c)
        return error;
    error = classify(c->session, __func__, devPtr, count, "devPtr", &side);
    if (error != 0)
        return error;
    memset(devPtr, value, count);
    return written(c->session, __func__, &side, count);
}

aclError aclrtMemsetAsync(void *devPtr, size_t maxCount, int32_t value, size_t count,
                          aclrtStream stream)
{
    CALL_SCOPE;
    int error = check_set(__func__, devPtr, maxCount, count);
    struct task task = {.op = TASK_SET};
    struct stream *s;
    struct side side;

    if (error >= 0)
        return error;
    s = stream_lock(__func__, stream, &error);
    if (!s)
        return error;
    error = classify(s->session, __func__, devPtr, count, "devPtr", &side);
    if (error == 0 && side.place == BUFFER)
        error = stream_drain(s, __func__); /* in its turn, as on a device */
    else if (error == 0)
        error = stream_check(s, __func__);
    if (error == 0 && side.place != DEVICE) {
        memset(devPtr, value, count); /* host memory is filled at once, as the reference has it */
    } else if (error == 0) {
        task.object = side.memory.remote;
        task.generation = side.memory.remote_generation;
        task.set.offset = side.offset;
        task.set.size = count;
        task.set.value = (uint8_t)value;
        error = stream_submit(s, __func__, &task);
    }
    stream_unlock(s);
    return error;
}
