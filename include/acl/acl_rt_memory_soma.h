/* Stream-ordered memory pools: allocation and free take effect in stream order; experimental. */
#ifndef ACL_ACL_RT_MEMORY_SOMA_H
#define ACL_ACL_RT_MEMORY_SOMA_H

#include <stddef.h>

#include "acl_base.h"
#include "acl_rt.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * A pool keeps device memory of one device, and gives it out and takes it back in the order of
 * streams. "Stream codes" are those of acl_rt.h, but here a stream is never NULL.
 */
typedef void *aclrtMemPool;

/*
 * Attributes. The first three are switches, an int32_t, and 1 at first. The others are bytes, a
 * uint64_t, and 0 at first. Memory counts in the blocks that the pool has got from npud: whole
 * pages, and for an allocation at most twice its size.
 */
typedef enum aclrtMemPoolAttr {
    /* kept for the program: a pool needs no permission for it, as it never makes a stream wait */
    ACL_RT_MEM_POOL_REUSE_FOLLOW_EVENT_DEPENDENCIES = 1,
    /* memory that was freed on a stream which has passed the place is for all streams */
    ACL_RT_MEM_POOL_REUSE_ALLOW_OPPORTUNISTIC = 2,
    ACL_RT_MEM_POOL_REUSE_ALLOW_INTERNAL_DEPENDENCIES = 3, /* as the first */
    /* while the pool reserves more, each call on any pool gives idle memory of it back */
    ACL_RT_MEM_POOL_ATTR_RELEASE_THRESHOLD = 4,
    ACL_RT_MEM_POOL_ATTR_RESERVED_MEM_CURRENT = 5, /* read only */
    ACL_RT_MEM_POOL_ATTR_RESERVED_MEM_HIGH = 6,    /* the most; set to 0 it begins anew */
    ACL_RT_MEM_POOL_ATTR_USED_MEM_CURRENT = 7,     /* what the program has; read only */
    ACL_RT_MEM_POOL_ATTR_USED_MEM_HIGH = 8,        /* the most; set to 0 it begins anew */
} aclrtMemPoolAttr;

/*
 * What a pool is of. The reference names the members and not their layout: this one is npud's.
 * All but location and maxSize is 0.
 */
typedef struct aclrtMemPoolProps {
    aclrtMemAllocationType allocType; /* ACL_MEM_ALLOCATION_TYPE_PINNED */
    aclrtMemHandleType handleType;    /* ACL_MEM_HANDLE_TYPE_NONE: pools cannot be shared */
    aclrtMemLocation location;        /* a device: ACL_MEM_LOCATION_TYPE_DEVICE and its id */
    size_t maxSize;                   /* bytes that the pool may reserve; 0: no limit */
    unsigned char reserved[32];
} aclrtMemPoolProps;

/*
 * A new pool, which reserves nothing yet. It goes when its device is reset, with all its memory.
 * Needs a context. Errors: NULL, another type or location, or a reserved byte set, 100000; bad
 * device 107001; another handleType 207000; 207005.
 */
ACL_FUNC_VISIBILITY aclError aclrtMemPoolCreate(aclrtMemPool *memPool,
                                                const aclrtMemPoolProps *poolProps);

/*
 * The handle ends at once. What the program has of the pool stays its own until it frees it, and
 * goes back to npud then. Needs no context, as the calls on attributes and TrimTo. Errors: NULL
 * 100000; no pool, or gone, 107017.
 */
ACL_FUNC_VISIBILITY aclError aclrtMemPoolDestroy(const aclrtMemPool memPool);

/* Errors: NULL or unknown attr 100000; bad value, or read only, 107000; no pool 107017. */
ACL_FUNC_VISIBILITY aclError aclrtMemPoolSetAttr(aclrtMemPool memPool, aclrtMemPoolAttr attr,
                                                 void *value);
ACL_FUNC_VISIBILITY aclError aclrtMemPoolGetAttr(aclrtMemPool memPool, aclrtMemPoolAttr attr,
                                                 void *value);

/*
 * Device memory for what comes later in the stream: the address is there at once, and the call
 * waits for nothing. It is as memory of aclrtMalloc: other streams and copies without a stream may
 * use it once they are ordered behind this place in the stream. It may have old content. Idle
 * memory of the pool is taken first: what was freed on the same stream, or on another one that has
 * passed the place. If npud has none left, all pools give their idle memory back, and aclrtMalloc
 * does that too. It cannot be exported to other processes. size 0 succeeds and leaves ptr as it is.
 * Errors: NULL 100000; no pool 107017; a stream of another device 107003; no memory, or more than
 * maxSize, 207001; stream codes.
 */
ACL_FUNC_VISIBILITY aclError aclrtMemPoolMallocAsync(void **ptr, size_t size, aclrtMemPool memPool,
                                                     aclrtStream stream);

/*
 * Frees memory for what comes later in the stream, any stream of the current context; from the call
 * on, calls with an address in it are refused. aclrtFree frees it too, at once and back to npud.
 * Errors: NULL, 100000; no such memory, or freed already, 107000; stream codes.
 */
ACL_FUNC_VISIBILITY aclError aclrtMemPoolFreeAsync(void *ptr, aclrtStream stream);

/*
 * Gives idle memory back until the pool reserves no more than this. What was freed on a stream that
 * has not come to the place stays. Errors: NULL 100000; no pool 107017.
 */
ACL_FUNC_VISIBILITY aclError aclrtMemPoolTrimTo(aclrtMemPool memPool, size_t minBytesToKeep);

#ifdef __cplusplus
}
#endif

#endif
