/*
 * Allocators that a framework registers for streams: a table of callbacks, which the library keeps
 * and gives back, and never calls.
 */
#include <stdlib.h>
#include <utlist.h>

#include "acl/acl.h"
#include "client/core/error.h"
#include "client/core/handle.h"
#include "client/core/lock_order.h"
#include "client/runtime/stream.h"

/* A descriptor: what aclrtAllocatorDesc points to. */
struct allocator {
    aclrtAllocator object;
    aclrtAllocatorAllocFunc allocate;
    aclrtAllocatorFreeFunc release;
    aclrtAllocatorAllocAdviseFunc allocate_advise;
    aclrtAllocatorGetAddrFromBlockFunc get_address;
};

/* Under allocator_lock of the session. */
struct allocator_entry {
    aclrtStream stream; /* no other stream gets this handle */
    aclrtAllocatorDesc desc;
    struct allocator allocator; /* as the descriptor was when it was registered */
    struct allocator_entry *prev, *next;
};

/* --- descriptors --- */

aclrtAllocatorDesc aclrtAllocatorCreateDesc(void)
{
    CALL_SCOPE;
    struct allocator *a;

    if (process_enter() != 0)
        return NULL;
    a = calloc(1, sizeof(*a));
    if (!a)
        error_no_memory(__func__);
    return a;
}

aclError aclrtAllocatorDestroyDesc(aclrtAllocatorDesc allocatorDesc)
{
    CALL_SCOPE;

    REQUIRE(allocatorDesc);
    free(allocatorDesc);
    return 0;
}

aclError aclrtAllocatorSetObjToDesc(aclrtAllocatorDesc allocatorDesc, aclrtAllocator allocator)
{
    CALL_SCOPE;
    struct allocator *a = allocatorDesc;

    REQUIRE(allocatorDesc);
    REQUIRE(allocator);
    a->object = allocator;
    return 0;
}

aclError aclrtAllocatorSetAllocFuncToDesc(aclrtAllocatorDesc allocatorDesc,
                                          aclrtAllocatorAllocFunc func)
{
    CALL_SCOPE;
    struct allocator *a = allocatorDesc;

    REQUIRE(allocatorDesc);
    REQUIRE(func);
    a->allocate = func;
    return 0;
}

aclError aclrtAllocatorSetFreeFuncToDesc(aclrtAllocatorDesc allocatorDesc,
                                         aclrtAllocatorFreeFunc func)
{
    CALL_SCOPE;
    struct allocator *a = allocatorDesc;

    REQUIRE(allocatorDesc);
    REQUIRE(func);
    a->release = func;
    return 0;
}

aclError aclrtAllocatorSetAllocAdviseFuncToDesc(aclrtAllocatorDesc allocatorDesc,
                                                aclrtAllocatorAllocAdviseFunc func)
{
    CALL_SCOPE;
    struct allocator *a = allocatorDesc;

    REQUIRE(allocatorDesc);
    REQUIRE(func);
    a->allocate_advise = func;
    return 0;
}

aclError aclrtAllocatorSetGetAddrFromBlockFuncToDesc(aclrtAllocatorDesc allocatorDesc,
                                                     aclrtAllocatorGetAddrFromBlockFunc func)
{
    CALL_SCOPE;
    struct allocator *a = allocatorDesc;

    REQUIRE(allocatorDesc);
    REQUIRE(func);
    a->get_address = func;
    return 0;
}

/* --- registrations --- */

static bool is_live(struct session *s, aclrtStream stream)
{
    return handle_get(&s->streams, HANDLE_STREAM, stream) != NULL;
}

/* Caller holds the lock. */
static void drop_entry(struct session *s, struct allocator_entry *e)
{
    DL_DELETE(s->allocators, e);
    free(e);
}

/* Caller holds the lock. Streams come and go: what was registered for those that are gone goes. */
static struct allocator_entry *find_entry(struct session *s, aclrtStream stream)
{
    struct allocator_entry *e, *next, *found = NULL;

    DL_FOREACH_SAFE (s->allocators, e, next)
        if (!is_live(s, e->stream))
            drop_entry(s, e);
        else if (e->stream == stream)
            found = e;
    return found;
}

static int check_desc(const char *function, const struct allocator *a)
{
    const char *missing = !a->object        ? "object"
                          : !a->allocate    ? "function to allocate"
                          : !a->release     ? "function to free"
                          : !a->get_address ? "function for the address of a block"
                                            : NULL;

    if (!missing)
        return 0;
    return error_set(ACL_ERROR_INVALID_PARAM, "%s: allocatorDesc has no %s: set it first", function,
                     missing);
}

aclError aclrtAllocatorRegister(aclrtStream stream, aclrtAllocatorDesc allocatorDesc)
{
    CALL_SCOPE;
    struct allocator_entry *e, *old;
    struct session *session;

    REQUIRE(stream);
    REQUIRE(allocatorDesc);
    RETURN_IF_ERROR(check_desc(__func__, allocatorDesc));
    session = FIND_OR_RETURN(stream_find_anywhere, __func__, stream)->session;
    e = malloc(sizeof(*e));
    if (!e)
        return error_no_memory(__func__);
    *e = (struct allocator_entry){.stream = stream,
                                  .desc = allocatorDesc,
                                  .allocator = *(const struct allocator *)allocatorDesc};
    pthread_mutex_lock(&session->allocator_lock);
    old = find_entry(session, stream);
    if (old)
        drop_entry(session, old);
    DL_APPEND(session->allocators, e);
    pthread_mutex_unlock(&session->allocator_lock);
    return 0;
}

aclError aclrtAllocatorGetByStream(aclrtStream stream, aclrtAllocatorDesc *allocatorDesc,
                                   aclrtAllocator *allocator, aclrtAllocatorAllocFunc *allocFunc,
                                   aclrtAllocatorFreeFunc *freeFunc,
                                   aclrtAllocatorAllocAdviseFunc *allocAdviseFunc,
                                   aclrtAllocatorGetAddrFromBlockFunc *getAddrFromBlockFunc)
{
    CALL_SCOPE;
    struct session *s = session_peek();
    struct allocator_entry *e = NULL;

    REQUIRE(stream);
    REQUIRE(allocatorDesc);
    REQUIRE(allocator);
    REQUIRE(allocFunc);
    REQUIRE(freeFunc);
    REQUIRE(allocAdviseFunc);
    REQUIRE(getAddrFromBlockFunc);
    RETURN_IF_ERROR(process_enter());
    if (s) {
        pthread_mutex_lock(&s->allocator_lock);
        e = find_entry(s, stream);
        if (e) {
            *allocatorDesc = e->desc;
            *allocator = e->allocator.object;
            *allocFunc = e->allocator.allocate;
            *freeFunc = e->allocator.release;
            *allocAdviseFunc = e->allocator.allocate_advise;
            *getAddrFromBlockFunc = e->allocator.get_address;
        }
        pthread_mutex_unlock(&s->allocator_lock);
    }
    if (e)
        return 0;
    return error_set(ACL_ERROR_INVALID_PARAM,
                     "aclrtAllocatorGetByStream: no allocator is registered for stream %p", stream);
}

aclError aclrtAllocatorUnregister(aclrtStream stream)
{
    CALL_SCOPE;
    struct session *s = session_peek();
    struct allocator_entry *e;

    REQUIRE(stream);
    RETURN_IF_ERROR(process_enter());
    if (!s)
        return 0;
    pthread_mutex_lock(&s->allocator_lock);
    e = find_entry(s, stream);
    if (e)
        drop_entry(s, e);
    pthread_mutex_unlock(&s->allocator_lock);
    return 0;
}

/* --- the session --- */

static void init_lock(struct session *s, uint32_t seed)
{
    (void)seed;
    lock_init(&s->allocator_lock, LOCK_ALLOCATORS);
}

static void free_all(struct session *s)
{
    struct allocator_entry *e, *next;

    DL_FOREACH_SAFE (s->allocators, e, next)
        free(e);
}

const struct part allocator_part = {.session_init = init_lock, .session_free = free_all};
