/* The calls on pools of memory: include/acl/acl_rt_memory_soma.h. */
#include <stdlib.h>
#include <string.h>

#include "acl/acl.h"
#include "acl/acl_rt_memory_soma.h"
#include "client/check/checked.h"
#include "client/core/error.h"
#include "client/core/handle_error.h"
#include "client/core/handle.h"
#include "client/core/lock_order.h"
#include "client/memory/pool_blocks.h"
#include "client/runtime/context.h"
#include "client/runtime/device.h"
#include "client/runtime/stream.h"

#define POOLS_MAX 4096

/* --- pools --- */

static int check_props(const char *function, const aclrtMemPoolProps *props)
{
    if (props->allocType != ACL_MEM_ALLOCATION_TYPE_PINNED)
        return error_set(ACL_ERROR_INVALID_PARAM,
                         "%s: allocType is %d, must be ACL_MEM_ALLOCATION_TYPE_PINNED", function,
                         (int)props->allocType);
    if (props->location.type != ACL_MEM_LOCATION_TYPE_DEVICE)
        return error_set(ACL_ERROR_INVALID_PARAM,
                         "%s: location.type is %d, must be ACL_MEM_LOCATION_TYPE_DEVICE", function,
                         (int)props->location.type);
    for (size_t i = 0; i < sizeof(props->reserved); i++)
        if (props->reserved[i] != 0)
            return error_set(ACL_ERROR_INVALID_PARAM, "%s: reserved byte %zu is not 0", function,
                             i);
    if (props->handleType != ACL_MEM_HANDLE_TYPE_NONE)
        return error_set(ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
                         "%s: pools cannot be shared: handleType must be ACL_MEM_HANDLE_TYPE_NONE",
                         function);
    return 0;
}

/* The lock is held. */
static int make_pool(struct context *c, const char *function, const aclrtMemPoolProps *props,
                     uint32_t device, aclrtMemPool *handle)
{
    struct session *s = c->session;
    struct memory_pool *pool;

    if (!context_is_current(c))
        return context_error_gone(function);
    if (!s->pool_index)
        s->pool_index = calloc(1, sizeof(*s->pool_index));
    if (!s->pool_index)
        return error_no_memory(function);
    pool = slots_take(&s->memory_pools);
    if (!pool && !slots_full(&s->memory_pools))
        return error_no_memory(function);
    if (!pool)
        return error_set(ACL_ERROR_RT_RESOURCE_ALLOC_FAIL, "%s: a process can have %d pools",
                         function, POOLS_MAX);
    memset((char *)pool + sizeof(pool->slot), 0, sizeof(*pool) - sizeof(pool->slot));
    pool->state = MEMORY_POOL_USABLE;
    pool->device = device;
    pool->max = props->maxSize == 0 ? UINT64_MAX : props->maxSize;
    for (unsigned i = 0; i < sizeof(pool->reuse) / sizeof(pool->reuse[0]); i++)
        pool->reuse[i] = 1;
    slots_publish(pool);
    *handle = handle_of(HANDLE_MEMORY_POOL, pool);
    if (checked_runs())
        checked_object(CHECK_OBJECT, CHECK_OBJECT_MEMORY_POOL, (uintptr_t)*handle);
    return 0;
}

aclError aclrtMemPoolCreate(aclrtMemPool *memPool, const aclrtMemPoolProps *poolProps)
{
    CALL_SCOPE;
    struct context *c;
    uint32_t device;
    int error;

    REQUIRE(memPool);
    REQUIRE(poolProps);
    RETURN_IF_ERROR(check_props(__func__, poolProps));
    c = FIND_OR_RETURN(context_get, __func__);
    RETURN_IF_ERROR(device_of_user_id(c->session, __func__, poolProps->location.id, &device));
    pthread_mutex_lock(&c->session->memory_pool_lock);
    error = make_pool(c, __func__, poolProps, device, memPool);
    pthread_mutex_unlock(&c->session->memory_pool_lock);
    return error;
}

/* Returns the session with its lock held. NULL with *error set. */
static struct session *lock_pool(const char *function, aclrtMemPool handle,
                                 struct memory_pool **pool, int *error)
{
    struct session *s = session_peek();

    *error = process_enter();
    if (*error != 0)
        return NULL;
    if (s && session_lost(s)) {
        *error = session_error_lost(function);
        return NULL;
    }
    if (s) {
        pthread_mutex_lock(&s->memory_pool_lock);
        *pool = handle_get(&s->memory_pools, HANDLE_MEMORY_POOL, handle);
        if (*pool)
            return s;
        pthread_mutex_unlock(&s->memory_pool_lock);
    }
    *error = handle_error(ACL_ERROR_RT_INVALID_HANDLE, function, HANDLE_MEMORY_POOL, handle);
    return NULL;
}

/* Each call ends so. */
static void unlock_pools(struct session *s, const char *function, struct memory_pool *pool)
{
    pool_blocks_settle(s, function, pool);
    pthread_mutex_unlock(&s->memory_pool_lock);
}

aclError aclrtMemPoolDestroy(aclrtMemPool memPool)
{
    CALL_SCOPE;
    struct memory_pool *pool;
    struct session *s;

    REQUIRE(memPool);
    s = FIND_OR_RETURN(lock_pool, __func__, memPool, &pool);
    slots_unpublish(pool);
    pool->state = MEMORY_POOL_DESTROYED;
    pool->threshold = 0;
    if (checked_runs())
        checked_object(CHECK_OBJECT_GONE, CHECK_OBJECT_MEMORY_POOL, (uintptr_t)memPool);
    unlock_pools(s, __func__, pool);
    return 0;
}

aclError aclrtMemPoolTrimTo(aclrtMemPool memPool, size_t minBytesToKeep)
{
    CALL_SCOPE;
    struct memory_pool *pool;
    struct session *s;

    REQUIRE(memPool);
    s = FIND_OR_RETURN(lock_pool, __func__, memPool, &pool);
    pool_blocks_trim(s, __func__, pool, minBytesToKeep);
    unlock_pools(s, __func__, pool);
    return 0;
}

/* --- attributes --- */

/* NULL: the attribute is no such number. */
static int32_t *find_switch(struct memory_pool *pool, aclrtMemPoolAttr attr)
{
    if (attr > ACL_RT_MEM_POOL_REUSE_ALLOW_INTERNAL_DEPENDENCIES)
        return NULL;
    return &pool->reuse[attr - ACL_RT_MEM_POOL_REUSE_FOLLOW_EVENT_DEPENDENCIES];
}

static uint64_t *find_number(struct memory_pool *pool, aclrtMemPoolAttr attr)
{
    switch (attr) {
    case ACL_RT_MEM_POOL_ATTR_RELEASE_THRESHOLD:
        return &pool->threshold;
    case ACL_RT_MEM_POOL_ATTR_RESERVED_MEM_CURRENT:
        return &pool->reserved.now;
    case ACL_RT_MEM_POOL_ATTR_RESERVED_MEM_HIGH:
        return &pool->reserved.high;
    case ACL_RT_MEM_POOL_ATTR_USED_MEM_CURRENT:
        return &pool->used.now;
    default:
        return &pool->used.high;
    }
}

static int check_attr(const char *function, aclrtMemPoolAttr attr)
{
    if (attr >= ACL_RT_MEM_POOL_REUSE_FOLLOW_EVENT_DEPENDENCIES &&
        attr <= ACL_RT_MEM_POOL_ATTR_USED_MEM_HIGH)
        return 0;
    return error_set(ACL_ERROR_INVALID_PARAM, "%s: there is no attribute %d", function, (int)attr);
}

static int set_switch(const char *function, int32_t *is_on, const void *value)
{
    int32_t on;

    memcpy(&on, value, sizeof(on));
    if (on != 0 && on != 1)
        return error_set(ACL_ERROR_RT_PARAM_INVALID, "%s: the switch is %d, must be 0 or 1",
                         function, on);
    *is_on = on;
    return 0;
}

static int set_number(const char *function, struct memory_pool *pool, aclrtMemPoolAttr attr,
                      const void *value)
{
    uint64_t number;

    memcpy(&number, value, sizeof(number));
    switch (attr) {
    case ACL_RT_MEM_POOL_ATTR_RELEASE_THRESHOLD:
        pool->threshold = number;
        return 0;
    case ACL_RT_MEM_POOL_ATTR_RESERVED_MEM_CURRENT:
    case ACL_RT_MEM_POOL_ATTR_USED_MEM_CURRENT:
        return error_set(ACL_ERROR_RT_PARAM_INVALID, "%s: attribute %d can only be read", function,
                         (int)attr);
    default:
        if (number != 0)
            return error_set(ACL_ERROR_RT_PARAM_INVALID,
                             "%s: the peak can only be set to 0: then it begins anew", function);
        if (attr == ACL_RT_MEM_POOL_ATTR_RESERVED_MEM_HIGH)
            pool->reserved.high = pool->reserved.now;
        else
            pool->used.high = pool->used.now;
        return 0;
    }
}

aclError aclrtMemPoolSetAttr(aclrtMemPool memPool, aclrtMemPoolAttr attr, void *value)
{
    CALL_SCOPE;
    struct memory_pool *pool;
    struct session *s;
    int32_t *is_on;
    int error;

    REQUIRE(memPool);
    REQUIRE(value);
    RETURN_IF_ERROR(check_attr(__func__, attr));
    s = FIND_OR_RETURN(lock_pool, __func__, memPool, &pool);
    is_on = find_switch(pool, attr);
    error = is_on ? set_switch(__func__, is_on, value) : set_number(__func__, pool, attr, value);
    unlock_pools(s, __func__, pool);
    return error;
}

aclError aclrtMemPoolGetAttr(aclrtMemPool memPool, aclrtMemPoolAttr attr, void *value)
{
    CALL_SCOPE;
    struct memory_pool *pool;
    struct session *s;
    int32_t *is_on;

    REQUIRE(memPool);
    REQUIRE(value);
    RETURN_IF_ERROR(check_attr(__func__, attr));
    s = FIND_OR_RETURN(lock_pool, __func__, memPool, &pool);
    pool_blocks_trim(s, __func__, pool, pool->threshold);
    is_on = find_switch(pool, attr);
    if (is_on)
        memcpy(value, is_on, sizeof(*is_on));
    else
        memcpy(value, find_number(pool, attr), sizeof(uint64_t));
    pthread_mutex_unlock(&s->memory_pool_lock);
    return 0;
}

aclError aclrtMemPoolMallocAsync(void **ptr, size_t size, aclrtMemPool memPool, aclrtStream stream)
{
    CALL_SCOPE;
    struct memory_pool *pool;
    struct session *session;
    struct stream *s;
    int error;

    if (size == 0)
        return 0;
    REQUIRE(ptr);
    REQUIRE(memPool);
    REQUIRE(stream);
    if (size > SIZE_MAX / 2)
        return error_set(ACL_ERROR_INVALID_PARAM, "%s: size %zu is too large", __func__, size);
    s = FIND_OR_RETURN(stream_lock, __func__, stream);
    error = stream_check(s, __func__);
    session = error == 0 ? lock_pool(__func__, memPool, &pool, &error) : NULL;
    if (session) {
        error = pool_blocks_take(pool, s, __func__, size, ptr);
        unlock_pools(session, __func__, pool);
    }
    stream_unlock(s);
    return error;
}

aclError aclrtMemPoolFreeAsync(void *ptr, aclrtStream stream)
{
    CALL_SCOPE;
    struct memory_pool *pool = NULL;
    struct stream *s;
    int error;

    REQUIRE(ptr);
    REQUIRE(stream);
    s = FIND_OR_RETURN(stream_lock, __func__, stream);
    error = stream_check(s, __func__);
    if (error == 0) {
        pthread_mutex_lock(&s->session->memory_pool_lock);
        error = pool_blocks_put(s, __func__, ptr, &pool);
        unlock_pools(s->session, __func__, pool);
    }
    stream_unlock(s);
    return error;
}

/* --- the session --- */

static void init_pools(struct session *s, uint32_t seed)
{
    lock_init(&s->memory_pool_lock, LOCK_MEMORY_POOLS);
    slots_init(&s->memory_pools, sizeof(struct memory_pool), POOLS_MAX, seed);
}

static void free_pools(struct session *s)
{
    pool_blocks_free_all(s);
    free(s->pool_index);
    slots_deinit(&s->memory_pools);
}

const struct part memory_pool_part = {.session_init = init_pools, .session_free = free_pools};
