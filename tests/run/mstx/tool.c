/*
 * A tool for mstx: counts what it is told, and prints that when the process ends.
 * MSTX_TEST_FAIL: it fails after it has stored its functions.
 */
#define MSTX_NO_IMPL
#include <mstx/ms_tools_ext.h>

#include <stdio.h>
#include <stdlib.h>

static _Atomic int marks, ranges, ends, domains, domain_marks, heaps, regions;

static void mark(const char *message, aclrtStream stream)
{
    (void)message, (void)stream;
    marks++;
}

static mstxRangeId start(const char *message, aclrtStream stream)
{
    (void)message, (void)stream;
    return (mstxRangeId)++ranges;
}

static void end(mstxRangeId id)
{
    (void)id;
    ends++;
}

static void tool_id(uint64_t *id)
{
    *id = 0x1234;
}

static mstxDomainHandle_t create(const char *name)
{
    (void)name;
    domains++;
    return (mstxDomainHandle_t)&domains;
}

static void destroy(mstxDomainHandle_t domain)
{
    (void)domain;
    domains += 100;
}

static void domain_mark(mstxDomainHandle_t domain, const char *message, aclrtStream stream)
{
    (void)message, (void)stream;
    domain_marks += domain == (mstxDomainHandle_t)&domains;
}

static mstxRangeId domain_start(mstxDomainHandle_t domain, const char *message, aclrtStream stream)
{
    (void)domain;
    return start(message, stream);
}

static void domain_end(mstxDomainHandle_t domain, mstxRangeId id)
{
    (void)domain;
    end(id);
}

static mstxMemHeapHandle_t heap_register(mstxDomainHandle_t domain, mstxMemHeapDesc_t const *desc)
{
    (void)domain, (void)desc;
    heaps++;
    return (mstxMemHeapHandle_t)&heaps;
}

static void heap_unregister(mstxDomainHandle_t domain, mstxMemHeapHandle_t heap)
{
    (void)domain;
    heaps += heap == (mstxMemHeapHandle_t)&heaps ? 100 : 1000;
}

static void regions_register(mstxDomainHandle_t domain, mstxMemRegionsRegisterBatch_t const *desc)
{
    (void)domain;
    for (size_t i = 0; i < desc->regionCount; i++, regions++)
        desc->regionHandleArrayOut[i] = (mstxMemRegionHandle_t)&regions;
}

static void regions_unregister(mstxDomainHandle_t domain,
                               mstxMemRegionsUnregisterBatch_t const *desc)
{
    (void)domain;
    regions += 100 * (int)desc->refCount;
}

static __attribute__((destructor)) void print_counts(void)
{
    printf("marks %d ranges %d ends %d domains %d domain marks %d heaps %d regions %d\n", marks,
           ranges, ends, domains, domain_marks, heaps, regions);
}

#define PUT(position, function)                                                                    \
    do {                                                                                           \
        if ((unsigned)(position) >= size)                                                          \
            return MSTX_FAIL;                                                                      \
        *table[position] = (MstxFuncPointer)(function);                                            \
    } while (0)

int InitInjectionMstx(MstxGetModuleFuncTableFunc getFuncTable);
int InitInjectionMstx(MstxGetModuleFuncTableFunc getFuncTable)
{
    MstxFuncTable table;
    unsigned size;

    if (getFuncTable(MSTX_API_MODULE_SIZE, &table, &size) != MSTX_FAIL ||
        getFuncTable(MSTX_API_MODULE_INVALID, &table, &size) != MSTX_FAIL ||
        getFuncTable(MSTX_API_MODULE_CORE, NULL, &size) != MSTX_FAIL ||
        getFuncTable(MSTX_API_MODULE_CORE, &table, NULL) != MSTX_FAIL)
        abort();
    if (getFuncTable(MSTX_API_MODULE_CORE, &table, &size) != MSTX_SUCCESS)
        return MSTX_FAIL;
    PUT(MSTX_API_CORE_MARK_A, mark);
    PUT(MSTX_API_CORE_RANGE_START_A, start);
    PUT(MSTX_API_CORE_RANGE_END, end);
    PUT(MSTX_API_CORE_GET_TOOL_ID, tool_id);
    if (getFuncTable(MSTX_API_MODULE_CORE_DOMAIN, &table, &size) != MSTX_SUCCESS)
        return MSTX_FAIL;
    PUT(MSTX_API_CORE2_DOMAIN_CREATE_A, create);
    PUT(MSTX_API_CORE2_DOMAIN_DESTROY, destroy);
    PUT(MSTX_API_CORE2_DOMAIN_MARK_A, domain_mark);
    PUT(MSTX_API_CORE2_DOMAIN_RANGE_START_A, domain_start);
    PUT(MSTX_API_CORE2_DOMAIN_RANGE_END, domain_end);
    if (getFuncTable(MSTX_API_MODULE_CORE_MEM, &table, &size) != MSTX_SUCCESS)
        return MSTX_FAIL;
    PUT(MSTX_API_CORE_MEM_HEAP_REGISTER, heap_register);
    PUT(MSTX_API_CORE_MEM_HEAP_UNREGISTER, heap_unregister);
    PUT(MSTX_API_CORE_MEM_REGIONS_REGISTER, regions_register);
    PUT(MSTX_API_CORE_MEM_REGIONS_UNREGISTER, regions_unregister);
    return getenv("MSTX_TEST_FAIL") ? MSTX_FAIL : MSTX_SUCCESS;
}
