/*
 * What mstx gives with a tool, and without: usage: program tool|none. Also compiled as C++, with
 * MSTX_NO_IMPL, and linked from two files.
 */
#include <mstx/ms_tools_ext.h>
#include <mstx/ms_tools_ext_mem.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPECT(truth)                                                                              \
    do {                                                                                           \
        if (!(truth)) {                                                                            \
            fprintf(stderr, "line %d: not so: %s\n", __LINE__, #truth);                            \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

static void *mark_ten_times(void *arg)
{
    for (int i = 0; i < 10; i++)
        mstxMarkA("from a thread", arg);
    return NULL;
}

/* The first calls, by several threads at once. */
static void begin_beside(void)
{
    pthread_t threads[4];

    for (int i = 0; i < 4; i++)
        EXPECT(pthread_create(&threads[i], NULL, mark_ten_times, NULL) == 0);
    for (int i = 0; i < 4; i++)
        EXPECT(pthread_join(threads[i], NULL) == 0);
}

static void try_memory(int tool)
{
    char pool[64];
    mstxMemVirtualRangeDesc_t range = {0, pool, sizeof(pool)};
    mstxMemHeapDesc_t heap = {MSTX_MEM_HEAP_USAGE_TYPE_SUB_ALLOCATOR, MSTX_MEM_TYPE_VIRTUAL_ADDRESS,
                              &range};
    mstxMemHeapHandle_t handle = mstxMemHeapRegister(globalDomain, &heap);
    mstxMemRegionHandle_t regions[1] = {NULL};
    mstxMemRegionsRegisterBatch_t batch = {handle, MSTX_MEM_TYPE_VIRTUAL_ADDRESS, 1, &range,
                                           regions};
    mstxMemRegionRef_t reference;
    mstxMemRegionsUnregisterBatch_t back = {1, &reference};
    mstxMemPermissionsAssignBatch_t rights = {0, NULL};

    EXPECT((handle != NULL) == tool);
    mstxMemRegionsRegister(globalDomain, &batch);
    EXPECT((regions[0] != NULL) == tool);
    reference.refType = MSTX_MEM_REGION_REF_TYPE_HANDLE;
    reference.handle = regions[0];
    mstxMemPermissionsAssign(globalDomain, &rights);
    mstxMemRegionsUnregister(globalDomain, &back);
    mstxMemHeapUnregister(globalDomain, handle);
}

int main(int argc, char **argv)
{
    int tool = argc > 1 && strcmp(argv[1], "tool") == 0;
    mstxDomainHandle_t domain;
    mstxRangeId one, two;
    uint64_t id = 7;

    begin_beside();
    mstxMarkA("mark", NULL);
    mstxGetToolId(&id);
    EXPECT(id == (tool ? 0x1234 : MSTX_TOOL_INVALID_ID));
    one = mstxRangeStartA("one", NULL);
    two = mstxRangeStartA("two", NULL);
    EXPECT(tool ? one != 0 && two != 0 && one != two : one == 0 && two == 0);
    mstxRangeEnd(one); /* ranges may cross */
    mstxRangeEnd(two);
    domain = mstxDomainCreateA("domain");
    EXPECT((domain != NULL) == tool);
    EXPECT(domain == mstxDomainCreateA("domain"));
    mstxDomainMarkA(domain, "mark", NULL);
    one = mstxDomainRangeStartA(domain, "in a domain", NULL);
    EXPECT((one != 0) == tool);
    mstxDomainRangeEnd(domain, one);
    mstxDomainDestroy(domain);
    try_memory(tool);
    return 0;
}
