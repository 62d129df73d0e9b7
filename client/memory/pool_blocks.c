#include "client/memory/pool_blocks.h"

#include <assert.h>
#include <stdlib.h>
#include <utlist.h>

#include "acl/acl.h"
#include "acl/acl_rt_memory_soma.h"
#include "client/core/error.h"
#include "client/memory/pool_upcall.h"
#include "client/runtime/context.h"
#include "client/runtime/device.h"

#define PAGE ((size_t)4096)

static void add_size(struct memory_size *size, uint64_t bytes)
{
    size->now += bytes;
    if (size->high < size->now)
        size->high = size->now;
}

static void subtract_size(struct memory_size *size, uint64_t bytes)
{
    assert(size->now >= bytes);
    size->now -= bytes;
}

static uint64_t block_bytes(const struct pool_block *b)
{
    return b->memory->mapped.size;
}

/* The program has it. */
static void begin_use(struct pool_block *b)
{
    b->used = true;
    DL_APPEND(b->pool->held, b);
    add_size(&b->pool->used, block_bytes(b));
}

static void end_use(struct pool_block *b)
{
    b->used = false;
    DL_DELETE(b->pool->held, b);
    subtract_size(&b->pool->used, block_bytes(b));
}

/* --- giving memory back; the lock is held --- */

/* The block ends; its memory does not. */
static void forget_block(struct session *s, struct pool_block *b)
{
    subtract_size(&b->pool->reserved, block_bytes(b));
    if (b->used)
        end_use(b);
    else
        pool_index_remove(s->pool_index, b);
    memory_set_block(s, b->memory, NULL);
    free(b);
}

/* Of what is known to be ready. */
static bool trim_ready(struct session *s, const char *function, struct memory_pool *pool,
                       uint64_t bytes)
{
    struct memory *m;
    bool any = false;

    while (pool->reserved.now > bytes && pool->ready) {
        /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): what was freed is off the list */
        m = pool->ready->memory;
        forget_block(s, pool->ready);
        memory_give_back(s, function, m);
        any = true;
    }
    return any;
}

bool pool_blocks_trim(struct session *s, const char *function, struct memory_pool *pool,
                      uint64_t bytes)
{
    pool_index_look(s->pool_index, POOL_INDEX_ALL);
    return trim_ready(s, function, pool, bytes);
}

static void end_if_empty(struct session *s, struct memory_pool *pool)
{
    if (pool->state != MEMORY_POOL_DESTROYED || pool_index_any(pool) || pool->held)
        return;
    pool_index_forget(s->pool_index, pool);
    pool->state = MEMORY_POOL_ABSENT;
    slots_put(&s->memory_pools, pool);
}

/* The next pool from *cursor on (start with 0), destroyed ones too; NULL: there are no more. */
static struct memory_pool *next_pool(struct session *s, uint32_t *cursor)
{
    struct memory_pool *pool;

    while (*cursor < s->memory_pools.end) {
        pool = slots_at(&s->memory_pools, (*cursor)++);
        if (pool && pool->state != MEMORY_POOL_ABSENT)
            return pool;
    }
    return NULL;
}

static void settle_pool(struct session *s, const char *function, struct memory_pool *pool)
{
    trim_ready(s, function, pool, pool->threshold);
    end_if_empty(s, pool);
}

#define SETTLED_AT_ONCE 2

void pool_blocks_settle(struct session *s, const char *function, struct memory_pool *pool)
{
    struct memory_pool *other;

    if (s->pool_index)
        pool_index_look(s->pool_index, POOL_INDEX_FEW);
    if (pool)
        settle_pool(s, function, pool);
    for (int i = 0; i < SETTLED_AT_ONCE && s->pool_index; i++) {
        other = pool_index_next(s->pool_index);
        if (!other)
            return;
        settle_pool(s, function, other);
    }
}

static bool trim_all(struct session *s, const char *function)
{
    struct memory_pool *pool;
    bool any = false;

    for (uint32_t cursor = 0; (pool = next_pool(s, &cursor));)
        any |= pool_blocks_trim(s, function, pool, 0);
    return any;
}

static bool trim_all_locking(struct session *s, const char *function)
{
    bool any;

    pthread_mutex_lock(&s->memory_pool_lock);
    any = trim_all(s, function);
    pthread_mutex_unlock(&s->memory_pool_lock);
    return any;
}

typedef bool trim_fn(struct session *s, const char *function);

static struct memory *allocate_or_trim(struct context *c, const char *function, size_t size,
                                       trim_fn *trim, void **address, int *error)
{
    struct error_saved saved;
    struct memory *m;

    error_save(&saved);
    m = memory_make(c, function, size, false, address, error);
    error_save_end(&saved);
    if (m)
        return m;
    if (*error == ACL_ERROR_RT_MEMORY_ALLOCATION && trim(c->session, function))
        return memory_make(c, function, size, false, address, error);
    *error = error_tell(&saved, *error);
    return NULL;
}

/* --- for other modules --- */

int pool_blocks_new_memory(struct context *c, const char *function, size_t size, bool host,
                           void **address)
{
    int error = 0;

    if (host)
        memory_make(c, function, size, true, address, &error);
    else
        allocate_or_trim(c, function, size, trim_all_locking, address, &error);
    return error;
}

void pool_blocks_detach(struct session *s, struct memory *m)
{
    struct memory_pool *pool;

    pthread_mutex_lock(&s->memory_pool_lock);
    if (m->block) {
        pool = m->block->pool;
        forget_block(s, m->block);
        end_if_empty(s, pool);
    }
    pthread_mutex_unlock(&s->memory_pool_lock);
}

void pool_blocks_forget_device(struct session *s, uint32_t device)
{
    struct memory_pool *pool;
    struct pool_block *b;

    pthread_mutex_lock(&s->memory_pool_lock);
    for (uint32_t cursor = 0; (pool = next_pool(s, &cursor));) {
        if (pool->device != device)
            continue;
        while ((b = pool_index_any(pool)))
            forget_block(s, b);
        while (pool->held)
            /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): what was freed is off the list */
            forget_block(s, pool->held);
        pool->state = MEMORY_POOL_DESTROYED;
        end_if_empty(s, pool);
    }
    pthread_mutex_unlock(&s->memory_pool_lock);
}

/* --- allocating; the lock is held --- */

/*
 * The smallest that fits, if it is not more than twice as large. Of a stream that is gone, all
 * places are passed: the next one with this ctrl is as good.
 */
static struct pool_block *find_fit(struct memory_pool *pool, const struct stream *s, size_t bytes)
{
    bool any = pool->reuse[ACL_RT_MEM_POOL_REUSE_ALLOW_OPPORTUNISTIC - 1] != 0;
    struct pool_block *b = pool_index_find(s->session->pool_index, pool, s->ctrl, bytes, any);

    return b && block_bytes(b) / 2 <= bytes ? b : NULL;
}

#define LOOKS 64u /* before npud is asked for memory */

static struct pool_block *find_block(struct memory_pool *pool, const struct stream *s, size_t bytes)
{
    struct pool_block *b = find_fit(pool, s, bytes);

    if (b)
        return b;
    pool_index_look(s->session->pool_index, LOOKS);
    return find_fit(pool, s, bytes);
}

static struct pool_block *make_block(struct memory_pool *pool, struct stream *s,
                                     const char *function, size_t size, size_t bytes, int *error)
{
    struct pool_block *b;
    void *address;

    if (bytes > pool->max - pool->reserved.now)
        pool_blocks_trim(s->session, function, pool, bytes < pool->max ? pool->max - bytes : 0);
    if (bytes > pool->max - pool->reserved.now) {
        *error = error_set(ACL_ERROR_RT_MEMORY_ALLOCATION,
                           "%s: %zu bytes: the pool reserves %llu and may reserve %llu: free some, "
                           "or make a pool with a larger maxSize",
                           function, size, (unsigned long long)pool->reserved.now,
                           (unsigned long long)pool->max);
        return NULL;
    }
    b = calloc(1, sizeof(*b));
    if (!b) {
        *error = error_no_memory(function);
        return NULL;
    }
    b->memory = allocate_or_trim(s->context, function, size, trim_all, &address, error);
    if (!b->memory) {
        free(b);
        return NULL;
    }
    b->pool = pool;
    memory_set_block(s->session, b->memory, b);
    add_size(&pool->reserved, block_bytes(b));
    return b;
}

/* As a checked process writes it down: in the order of the stream. */
static __attribute__((cold, noinline)) void note_pool(enum check_kind kind, const struct stream *s,
                                                      const struct memory *m)
{
    struct check_pool record = {
        .r.kind = (uint8_t)kind,
        .stream = stream_checked_name(s),
        .name = {m->remote, m->remote_generation},
        .address = m->mapped.start,
        .size = m->size,
    };

    checked_write(&record.r, sizeof(record));
}

int pool_blocks_take(struct memory_pool *pool, struct stream *s, const char *function, size_t size,
                     void **pointer)
{
    size_t bytes = (memory_size_allocated(size) + PAGE - 1) & ~(PAGE - 1);
    struct pool_block *b;

    if (pool->device != s->device)
        return error_set(ACL_ERROR_RT_STREAM_CONTEXT,
                         "%s: the stream is of device %d, and the pool of device %d", function,
                         device_user_id(s->session, s->device),
                         device_user_id(s->session, pool->device));
    b = find_block(pool, s, bytes);
    if (b) {
        pool_index_remove(s->session->pool_index, b);
        memory_lend(s->session, b->memory, size);
    } else {
        b = FIND_OR_RETURN(make_block, pool, s, function, size, bytes);
    }
    begin_use(b);
    if (checked_runs())
        note_pool(CHECK_POOL_ALLOC, s, b->memory);
    *pointer = (void *)b->memory->mapped.start;
    return 0;
}

/* --- freeing --- */

/* The stream is locked, so that all that uses the block is before its tail. */
int pool_blocks_put(struct stream *s, const char *function, void *pointer,
                    struct memory_pool **pool)
{
    bool again = false;
    struct memory *m = memory_return(s->session, pointer, &again);
    struct pool_block *b;

    if (again && checked_runs())
        checked_refused(CHECK_FREED, pointer, 0, 0, 0);
    if (again)
        return error_set(ACL_ERROR_RT_PARAM_INVALID, "%s: the memory at %p was freed already",
                         function, pointer);
    if (!m)
        return error_set(ACL_ERROR_RT_PARAM_INVALID,
                         "%s: %p is not the start of an allocation of aclrtMemPoolMallocAsync: "
                         "memory of aclrtMalloc is freed by aclrtFree",
                         function, pointer);
    b = m->block;
    b->freed = (struct point){.ctrl = s->ctrl, .position = s->tail};
    end_use(b);
    if (!pool_index_add(s->session->pool_index, b)) { /* then the program has it still */
        begin_use(b);
        memory_lend(s->session, m, m->size);
        return error_no_memory(function);
    }
    if (checked_runs())
        note_pool(CHECK_POOL_FREE, s, m);
    *pool = b->pool;
    return 0;
}

void pool_blocks_free_all(struct session *s)
{
    struct memory_pool *pool;
    struct pool_block *b, *next;

    for (uint32_t cursor = 0; (pool = next_pool(s, &cursor));) {
        while ((b = pool_index_any(pool))) {
            pool_index_remove(s->pool_index, b);
            free(b);
        }
        DL_FOREACH_SAFE (pool->held, b, next)
            free(b);
    }
}
