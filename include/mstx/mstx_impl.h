/* What the functions of ms_tools_ext.h do, which includes this: not to be included otherwise. */
#ifndef MSTX_MSTX_IMPL_H
#define MSTX_MSTX_IMPL_H

#ifdef __cplusplus
} /* the headers of the system are no part of it */
#endif
#include <dlfcn.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/auxv.h>
#ifdef __cplusplus
extern "C" {
#endif

/* One of each program or shared library, of however many files have it. */
#define MSTX_ONE __attribute__((weak))

/* Room behind the last position, for tools that know of more. */
#define MSTX_POSITIONS 16

enum { MSTX_UNKNOWN, MSTX_IN_SEARCH, MSTX_KNOWN };

struct mstxTools {
    int state; /* MSTX_UNKNOWN ...; atomic */
    MstxFuncPointer functions[MSTX_API_MODULE_SIZE][MSTX_POSITIONS];
    MstxFuncPointer *places[MSTX_API_MODULE_SIZE][MSTX_POSITIONS];
};

MSTX_ONE struct mstxTools mstxTools;
/* The calling thread is what searches: a tool that calls mstx meanwhile finds no tool. */
MSTX_ONE __thread int mstxInSearch;

int mstxGetModuleFuncTable(MstxFuncModule module, MstxFuncTable *outTable, unsigned int *outSize);
void mstxFindTool(void);

MSTX_ONE int mstxGetModuleFuncTable(MstxFuncModule module, MstxFuncTable *outTable,
                                    unsigned int *outSize)
{
    static const unsigned int sizes[MSTX_API_MODULE_SIZE] = {
        0, MSTX_API_CORE_SIZE, MSTX_API_CORE2_SIZE, MSTX_API_CORE_MEM_SIZE};

    if ((int)module <= MSTX_API_MODULE_INVALID || (int)module >= MSTX_API_MODULE_SIZE ||
        !outTable || !outSize)
        return MSTX_FAIL;
    for (int i = 0; i < MSTX_POSITIONS; i++)
        mstxTools.places[module][i] = &mstxTools.functions[module][i];
    *outTable = mstxTools.places[module];
    *outSize = sizes[module];
    return MSTX_SUCCESS;
}

/* The thread that changes the state to IN_SEARCH does it; the others wait for it. */
MSTX_ONE void mstxFindTool(void)
{
    const char *path = getauxval(AT_SECURE) ? NULL : getenv("MSTX_INJECTION_PATH");
    int expected = MSTX_UNKNOWN;
    MstxInitInjectionFunc init = NULL;
    void *tool = NULL;

    if (!__atomic_compare_exchange_n(&mstxTools.state, &expected, MSTX_IN_SEARCH, 0,
                                     __ATOMIC_ACQUIRE, __ATOMIC_ACQUIRE)) {
        while (!mstxInSearch && __atomic_load_n(&mstxTools.state, __ATOMIC_ACQUIRE) != MSTX_KNOWN)
            sched_yield();
        return;
    }
    mstxInSearch = 1;
    if (path && path[0])
        tool = dlopen(path, RTLD_LAZY | RTLD_LOCAL);
    /* Without a library: in what the process has loaded. */
    *(void **)(void *)&init = dlsym(tool, "InitInjectionMstx");
    if (init && init(mstxGetModuleFuncTable) != MSTX_SUCCESS)
        for (int module = 0; module < MSTX_API_MODULE_SIZE; module++)
            for (int i = 0; i < MSTX_POSITIONS; i++)
                mstxTools.functions[module][i] = NULL;
    mstxInSearch = 0;
    __atomic_store_n(&mstxTools.state, MSTX_KNOWN, __ATOMIC_RELEASE);
}

/* The tool's function, or NULL. */
#define MSTX_FUNCTION(type, module, position)                                                      \
    ((__atomic_load_n(&mstxTools.state, __ATOMIC_ACQUIRE) == MSTX_KNOWN ? (void)0                  \
                                                                        : mstxFindTool()),         \
     mstxInSearch ? (type)NULL : (type)mstxTools.functions[module][position])

MSTX_ONE void mstxMarkA(const char *message, aclrtStream stream)
{
    typedef void (*function)(const char *, aclrtStream);
    function f = MSTX_FUNCTION(function, MSTX_API_MODULE_CORE, MSTX_API_CORE_MARK_A);

    if (f)
        f(message, stream);
}

MSTX_ONE mstxRangeId mstxRangeStartA(const char *message, aclrtStream stream)
{
    typedef mstxRangeId (*function)(const char *, aclrtStream);
    function f = MSTX_FUNCTION(function, MSTX_API_MODULE_CORE, MSTX_API_CORE_RANGE_START_A);

    return f ? f(message, stream) : 0;
}

MSTX_ONE void mstxRangeEnd(mstxRangeId id)
{
    typedef void (*function)(mstxRangeId);
    function f = MSTX_FUNCTION(function, MSTX_API_MODULE_CORE, MSTX_API_CORE_RANGE_END);

    if (f)
        f(id);
}

MSTX_ONE void mstxGetToolId(uint64_t *id)
{
    typedef void (*function)(uint64_t *);
    function f = MSTX_FUNCTION(function, MSTX_API_MODULE_CORE, MSTX_API_CORE_GET_TOOL_ID);

    if (id)
        *id = MSTX_TOOL_INVALID_ID;
    if (f)
        f(id);
}

MSTX_ONE mstxDomainHandle_t mstxDomainCreateA(const char *name)
{
    typedef mstxDomainHandle_t (*function)(const char *);
    function f =
        MSTX_FUNCTION(function, MSTX_API_MODULE_CORE_DOMAIN, MSTX_API_CORE2_DOMAIN_CREATE_A);

    return f ? f(name) : NULL;
}

MSTX_ONE void mstxDomainDestroy(mstxDomainHandle_t domain)
{
    typedef void (*function)(mstxDomainHandle_t);
    function f =
        MSTX_FUNCTION(function, MSTX_API_MODULE_CORE_DOMAIN, MSTX_API_CORE2_DOMAIN_DESTROY);

    if (f)
        f(domain);
}

MSTX_ONE void mstxDomainMarkA(mstxDomainHandle_t domain, const char *message, aclrtStream stream)
{
    typedef void (*function)(mstxDomainHandle_t, const char *, aclrtStream);
    function f = MSTX_FUNCTION(function, MSTX_API_MODULE_CORE_DOMAIN, MSTX_API_CORE2_DOMAIN_MARK_A);

    if (f)
        f(domain, message, stream);
}

MSTX_ONE mstxRangeId mstxDomainRangeStartA(mstxDomainHandle_t domain, const char *message,
                                           aclrtStream stream)
{
    typedef mstxRangeId (*function)(mstxDomainHandle_t, const char *, aclrtStream);
    function f =
        MSTX_FUNCTION(function, MSTX_API_MODULE_CORE_DOMAIN, MSTX_API_CORE2_DOMAIN_RANGE_START_A);

    return f ? f(domain, message, stream) : 0;
}

MSTX_ONE void mstxDomainRangeEnd(mstxDomainHandle_t domain, mstxRangeId id)
{
    typedef void (*function)(mstxDomainHandle_t, mstxRangeId);
    function f =
        MSTX_FUNCTION(function, MSTX_API_MODULE_CORE_DOMAIN, MSTX_API_CORE2_DOMAIN_RANGE_END);

    if (f)
        f(domain, id);
}

MSTX_ONE mstxMemHeapHandle_t mstxMemHeapRegister(mstxDomainHandle_t domain,
                                                 mstxMemHeapDesc_t const *desc)
{
    typedef mstxMemHeapHandle_t (*function)(mstxDomainHandle_t, mstxMemHeapDesc_t const *);
    function f = MSTX_FUNCTION(function, MSTX_API_MODULE_CORE_MEM, MSTX_API_CORE_MEM_HEAP_REGISTER);

    return f ? f(domain, desc) : NULL;
}

MSTX_ONE void mstxMemHeapUnregister(mstxDomainHandle_t domain, mstxMemHeapHandle_t heap)
{
    typedef void (*function)(mstxDomainHandle_t, mstxMemHeapHandle_t);
    function f =
        MSTX_FUNCTION(function, MSTX_API_MODULE_CORE_MEM, MSTX_API_CORE_MEM_HEAP_UNREGISTER);

    if (f)
        f(domain, heap);
}

MSTX_ONE void mstxMemRegionsRegister(mstxDomainHandle_t domain,
                                     mstxMemRegionsRegisterBatch_t const *desc)
{
    typedef void (*function)(mstxDomainHandle_t, mstxMemRegionsRegisterBatch_t const *);
    function f =
        MSTX_FUNCTION(function, MSTX_API_MODULE_CORE_MEM, MSTX_API_CORE_MEM_REGIONS_REGISTER);

    if (f)
        f(domain, desc);
}

MSTX_ONE void mstxMemRegionsUnregister(mstxDomainHandle_t domain,
                                       mstxMemRegionsUnregisterBatch_t const *desc)
{
    typedef void (*function)(mstxDomainHandle_t, mstxMemRegionsUnregisterBatch_t const *);
    function f =
        MSTX_FUNCTION(function, MSTX_API_MODULE_CORE_MEM, MSTX_API_CORE_MEM_REGIONS_UNREGISTER);

    if (f)
        f(domain, desc);
}

MSTX_ONE void mstxMemPermissionsAssign(mstxDomainHandle_t domain,
                                       mstxMemPermissionsAssignBatch_t const *desc)
{
    typedef void (*function)(mstxDomainHandle_t, mstxMemPermissionsAssignBatch_t const *);
    function f =
        MSTX_FUNCTION(function, MSTX_API_MODULE_CORE_MEM, MSTX_API_CORE_MEM_PERMISSIONS_ASSIGN);

    if (f)
        f(domain, desc);
}

#endif
