/*
 * mstx: marks and ranges of a program, and what it tells of its memory, for a tool that is injected
 * into the process. Without a tool the functions do nothing, print nothing, and cost a load and a
 * jump: programs leave them in.
 *
 * Header only: link with the dl library where that is one of its own. Each program and shared
 * library that includes it has functions and a table of its own, so the tool is asked for a table
 * more than once. With MSTX_NO_IMPL a file has declarations only: another file of the program, or
 * libms_tools_ext.so, has the functions.
 *
 * A tool is found by the first call: the library that MSTX_INJECTION_PATH names is loaded; if the
 * variable is not set, or the library cannot be loaded, what the process has loaded already is
 * looked at (so that a preloaded tool works). Its function
 *
 *     int InitInjectionMstx(MstxGetModuleFuncTableFunc getFuncTable);
 *
 * asks getFuncTable for the table of each module, and stores its functions at the positions of the
 * enums below: *table[position] = function. Not 0 from it: there is no tool. A program with more
 * rights than its user has (set-user-ID) loads nothing.
 *
 * npud has such a tool: libnpud_mstx.so, for marks and ranges in its traces and profiles.
 *
 * Threads: any. Calls that come while another thread finds the tool wait for that.
 */
#ifndef MSTX_MS_TOOLS_EXT_H
#define MSTX_MS_TOOLS_EXT_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define MSTX_SUCCESS 0
#define MSTX_FAIL    1

/* What mstxGetToolId() tells. */
#define MSTX_TOOL_INVALID_ID     0x0
#define MSTX_TOOL_MSPROF_ID      0x1000
#define MSTX_TOOL_MSOPPROF_ID    0x1001
#define MSTX_TOOL_MSSANITIZER_ID 0x1002
#define MSTX_TOOL_MSLEAKS_ID     0x1003

/* The same as in acl/acl_base.h: this header needs no other one. */
typedef void *aclrtStream;

/* 0: none. */
typedef uint64_t mstxRangeId;

typedef struct mstxDomainRegistration_st mstxDomainRegistration_t;
typedef mstxDomainRegistration_t *mstxDomainHandle_t;

/* The domain that there is without mstxDomainCreateA(). */
#define globalDomain ((mstxDomainHandle_t)NULL)

/* --- memory --- */

typedef struct mstxMemHeap_st mstxMemHeap_t;
typedef mstxMemHeap_t *mstxMemHeapHandle_t;
typedef struct mstxMemRegion_st mstxMemRegion_t;
typedef mstxMemRegion_t *mstxMemRegionHandle_t;

typedef enum mstxMemHeapUsageType {
    MSTX_MEM_HEAP_USAGE_TYPE_SUB_ALLOCATOR = 0, /* parts of it are handed out as regions */
} mstxMemHeapUsageType;

typedef enum mstxMemType {
    MSTX_MEM_TYPE_VIRTUAL_ADDRESS = 0, /* mstxMemVirtualRangeDesc_t describes it */
} mstxMemType;

typedef struct mstxMemVirtualRangeDesc_t {
    uint32_t deviceId;
    void const *ptr;
    uint64_t size;
} mstxMemVirtualRangeDesc_t;

typedef struct mstxMemHeapDesc_t {
    mstxMemHeapUsageType usage;
    mstxMemType type;
    void const *typeSpecificDesc; /* what type says */
} mstxMemHeapDesc_t;

typedef struct mstxMemRegionsRegisterBatch_t {
    mstxMemHeapHandle_t heap;
    mstxMemType regionType;
    size_t regionCount;
    void const *regionDescArray;                 /* of what regionType says */
    mstxMemRegionHandle_t *regionHandleArrayOut; /* of regionCount */
} mstxMemRegionsRegisterBatch_t;

typedef enum mstxMemRegionRefType {
    MSTX_MEM_REGION_REF_TYPE_POINTER = 0,
    MSTX_MEM_REGION_REF_TYPE_HANDLE = 1,
} mstxMemRegionRefType;

typedef struct mstxMemRegionRef_t {
    mstxMemRegionRefType refType;
    __extension__ union {
        void const *pointer;
        mstxMemRegionHandle_t handle;
    };
} mstxMemRegionRef_t;

typedef struct mstxMemRegionsUnregisterBatch_t {
    size_t refCount;
    mstxMemRegionRef_t const *refArray;
} mstxMemRegionsUnregisterBatch_t;

#define MSTX_MEM_PERMISSIONS_REGION_FLAGS_NONE   0x00
#define MSTX_MEM_PERMISSIONS_REGION_FLAGS_READ   0x01
#define MSTX_MEM_PERMISSIONS_REGION_FLAGS_WRITE  0x02
#define MSTX_MEM_PERMISSIONS_REGION_FLAGS_SHARED 0x04

typedef struct mstxMemPermissionsAssignRegionsDesc_t {
    uint32_t flags;
    mstxMemRegionRef_t region;
} mstxMemPermissionsAssignRegionsDesc_t;

typedef struct mstxMemPermissionsAssignBatch_t {
    size_t regionCount;
    mstxMemPermissionsAssignRegionsDesc_t const *regionDescArray;
} mstxMemPermissionsAssignBatch_t;

/* --- functions; what they give without a tool --- */

/* A moment on the host; with a stream also in its order. */
void mstxMarkA(const char *message, aclrtStream stream);
/* A range: 0 without a tool. Ranges may cross, and any thread may end one. */
mstxRangeId mstxRangeStartA(const char *message, aclrtStream stream);
void mstxRangeEnd(mstxRangeId id);
/* *id: which tool there is, MSTX_TOOL_*; MSTX_TOOL_INVALID_ID without one. */
void mstxGetToolId(uint64_t *id);

/* A named group of marks, the same for the same name; NULL without a tool. */
mstxDomainHandle_t mstxDomainCreateA(const char *name);
void mstxDomainDestroy(mstxDomainHandle_t domain);
void mstxDomainMarkA(mstxDomainHandle_t domain, const char *message, aclrtStream stream);
mstxRangeId mstxDomainRangeStartA(mstxDomainHandle_t domain, const char *message,
                                  aclrtStream stream);
void mstxDomainRangeEnd(mstxDomainHandle_t domain, mstxRangeId id);

/* A pool of memory, and parts that are handed out of it. Without a tool NULL, and the array of
 * handles stays as it is. */
mstxMemHeapHandle_t mstxMemHeapRegister(mstxDomainHandle_t domain, mstxMemHeapDesc_t const *desc);
void mstxMemHeapUnregister(mstxDomainHandle_t domain, mstxMemHeapHandle_t heap);
void mstxMemRegionsRegister(mstxDomainHandle_t domain, mstxMemRegionsRegisterBatch_t const *desc);
void mstxMemRegionsUnregister(mstxDomainHandle_t domain,
                              mstxMemRegionsUnregisterBatch_t const *desc);
void mstxMemPermissionsAssign(mstxDomainHandle_t domain,
                              mstxMemPermissionsAssignBatch_t const *desc);

/* --- for tools --- */

typedef enum MstxFuncModule {
    MSTX_API_MODULE_INVALID = 0,
    MSTX_API_MODULE_CORE = 1,
    MSTX_API_MODULE_CORE_DOMAIN = 2,
    MSTX_API_MODULE_CORE_MEM = 3,
    MSTX_API_MODULE_SIZE,
} MstxFuncModule;

typedef enum MstxImplCoreFuncId {
    MSTX_API_CORE_INVALID = 0,
    MSTX_API_CORE_MARK_A = 1,
    MSTX_API_CORE_RANGE_START_A = 2,
    MSTX_API_CORE_RANGE_END = 3,
    MSTX_API_CORE_GET_TOOL_ID = 4,
    MSTX_API_CORE_SIZE,
} MstxImplCoreFuncId;

typedef enum MstxImplCoreDomainFuncId {
    MSTX_API_CORE2_INVALID = 0,
    MSTX_API_CORE2_DOMAIN_CREATE_A = 1,
    MSTX_API_CORE2_DOMAIN_DESTROY = 2,
    MSTX_API_CORE2_DOMAIN_MARK_A = 3,
    MSTX_API_CORE2_DOMAIN_RANGE_START_A = 4,
    MSTX_API_CORE2_DOMAIN_RANGE_END = 5,
    MSTX_API_CORE2_SIZE,
} MstxImplCoreDomainFuncId;

typedef enum MstxImplCoreMemFuncId {
    MSTX_API_CORE_MEM_INVALID = 0,
    MSTX_API_CORE_MEM_HEAP_REGISTER = 1,
    MSTX_API_CORE_MEM_HEAP_UNREGISTER = 2,
    MSTX_API_CORE_MEM_REGIONS_REGISTER = 3,
    MSTX_API_CORE_MEM_REGIONS_UNREGISTER = 4,
    MSTX_API_CORE_MEM_PERMISSIONS_ASSIGN = 5,
    MSTX_API_CORE_MEM_SIZE,
} MstxImplCoreMemFuncId;

typedef void (*MstxFuncPointer)(void);
typedef MstxFuncPointer **MstxFuncTable;
/* 0 with the module's table and the number of its positions, 0 among them; 1: no such module, or
 * outTable or outSize is NULL. */
typedef int (*MstxGetModuleFuncTableFunc)(MstxFuncModule module, MstxFuncTable *outTable,
                                          unsigned int *outSize);
typedef int (*MstxInitInjectionFunc)(MstxGetModuleFuncTableFunc getFuncTable);

#ifndef MSTX_NO_IMPL
#include "mstx_impl.h"
#endif

#ifdef __cplusplus
}
#endif

#endif
