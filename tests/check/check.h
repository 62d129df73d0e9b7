/*
 * What the pairs of this folder share; README.md says how they are written. A pair is compiled
 * twice, with -DWRONG=1 and -DWRONG=0. What the macros here make has the line of the program that
 * uses them.
 */
#pragma once

#include "tests/programs/expect.h"

#include <acl/acl_npud.h>
#include <acl/acl_rt_memory_soma.h>

#ifndef WRONG
#define WRONG 0
#endif

enum { BYTES = 4096, KEY = 65, CHUNK = 2 << 20 };

static inline void start_device(void)
{
    CALL(aclInit(NULL));
    CALL(aclrtSetDevice(0));
}

static inline void end_device(void)
{
    CALL(aclrtResetDevice(0));
    CALL(aclFinalize());
}

/** Waits for all that the stream has, which orders it before what the program does next. */
static inline void end_stream(aclrtStream stream)
{
    CALL(aclrtSynchronizeStream(stream));
    CALL(aclrtDestroyStream(stream));
}

static inline void end_streams(aclrtStream first, aclrtStream second)
{
    CALL(aclrtSynchronizeStream(first));
    end_stream(second);
    end_stream(first);
}

/* The value that a function stores at its first argument, and then has the other arguments. */
#define NEW(type, function, ...)                                                                   \
    ({                                                                                             \
        type made_here;                                                                            \
        CALL(function(&made_here __VA_OPT__(, ) __VA_ARGS__));                                     \
        made_here;                                                                                 \
    })
#define NEW_STREAM()     NEW(aclrtStream, aclrtCreateStream)
#define NEW_EVENT(flag)  NEW(aclrtEvent, aclrtCreateEventExWithFlag, flag)
#define NEW_LEVEL(flag)  NEW(aclrtEvent, aclrtCreateEventWithFlag, flag)
#define NEW_NOTIFY()     NEW(aclrtNotify, aclrtCreateNotify, ACL_NOTIFY_DEFAULT)
#define NEW_HOST(bytes)  NEW(void *, aclrtMallocHost, bytes)
#define NEW_BLANK(bytes) NEW(void *, aclrtMalloc, bytes, ACL_MEM_MALLOC_HUGE_FIRST)

/* Device memory that was written, by a call that returns when it is done. */
#define NEW_MEMORY(bytes)                                                                          \
    ({                                                                                             \
        void *memory_here = NEW_BLANK(bytes);                                                      \
        CALL(aclrtMemset(memory_here, bytes, 0, bytes));                                           \
        memory_here;                                                                               \
    })

static inline aclrtMemPool make_pool(void)
{
    aclrtMemPoolProps properties = {};

    properties.allocType = ACL_MEM_ALLOCATION_TYPE_PINNED;
    properties.location.type = ACL_MEM_LOCATION_TYPE_DEVICE;
    return NEW(aclrtMemPool, aclrtMemPoolCreate, &properties);
}

static inline aclrtDrvMemHandle make_physical(void)
{
    aclrtPhysicalMemProp properties = {};

    properties.memAttr = ACL_HBM_MEM_HUGE;
    properties.location.type = ACL_MEM_LOCATION_TYPE_DEVICE;
    return NEW(aclrtDrvMemHandle, aclrtMallocPhysical, CHUNK, &properties, 0);
}

/** Maps all of the memory at addresses of its own, until unmap_physical(). */
static inline void *map_physical(aclrtDrvMemHandle handle)
{
    void *at = NEW(void *, aclrtReserveMemAddress, CHUNK, 0, NULL, 0);

    CALL(aclrtMapMem(at, CHUNK, 0, handle, 0));
    return at;
}

static inline void unmap_physical(void *at)
{
    CALL(aclrtUnmapMem(at));
    CALL(aclrtReleaseMemAddress(at));
}
