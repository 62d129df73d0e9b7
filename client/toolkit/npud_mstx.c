/*
 * libnpud_mstx.so: a tool for mstx (mstx/ms_tools_ext.h). With MSTX_INJECTION_PATH naming it, marks
 * and ranges of a program stand in traces of npud (npu-run --trace, npuctl trace), and in its
 * profile while stamps are collected (acl/acl_prof.h).
 *
 * Those of a domain have its name before theirs. What it is told of memory goes nowhere.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "acl/acl_npud.h"
#define MSTX_NO_IMPL
#include "mstx/ms_tools_ext.h"

#define TEXT_MAX 256

/* A range that nothing hears of: programs take 0 for a failure. */
#define UNHEARD UINT64_MAX

struct mstxDomainRegistration_st {
    struct mstxDomainRegistration_st *next;
    _Atomic int gone; /* it was destroyed, and not made again */
    char name[];
};

static struct {
    pthread_mutex_t lock;
    struct mstxDomainRegistration_st *all; /* domains stay: programs may come with old handles */
} domains = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void mark(const char *message, aclrtStream stream)
{
    if (message && message[0])
        aclnpudTraceMarkInStream(message, stream);
}

static mstxRangeId start(const char *message, aclrtStream stream)
{
    uint64_t id = 0;

    (void)stream;
    if (!message || !message[0] || aclnpudTraceRangeStart(message, &id) != 0)
        return 0;
    return id != 0 ? id : UNHEARD;
}

static void end(mstxRangeId id)
{
    if (id != 0 && id != UNHEARD)
        aclnpudTraceRangeStop(id);
}

static void tool_id(uint64_t *id)
{
    if (id)
        *id = MSTX_TOOL_MSPROF_ID;
}

/* --- domains --- */

static struct mstxDomainRegistration_st *find_domain(const char *name)
{
    struct mstxDomainRegistration_st *d = domains.all;

    while (d && strcmp(d->name, name) != 0)
        d = d->next;
    if (d)
        return d;
    d = calloc(1, sizeof(*d) + strlen(name) + 1);
    if (!d)
        return NULL;
    strcpy(d->name, name);
    d->next = domains.all;
    domains.all = d;
    return d;
}

static mstxDomainHandle_t create_domain(const char *name)
{
    struct mstxDomainRegistration_st *d = NULL;

    if (!name || !name[0])
        return NULL;
    pthread_mutex_lock(&domains.lock);
    d = find_domain(name);
    if (d)
        d->gone = 0;
    pthread_mutex_unlock(&domains.lock);
    return d;
}

static void destroy_domain(mstxDomainHandle_t domain)
{
    if (domain)
        domain->gone = 1;
}

/* The text of a message of the domain; NULL: it tells nothing. */
static const char *text_of(mstxDomainHandle_t domain, const char *message, char text[TEXT_MAX])
{
    if (!domain)
        return message;
    if (domain->gone || !message || !message[0])
        return NULL;
    snprintf(text, TEXT_MAX, "%s: %s", domain->name, message);
    return text;
}

static void mark_in_domain(mstxDomainHandle_t domain, const char *message, aclrtStream stream)
{
    char text[TEXT_MAX];

    mark(text_of(domain, message, text), stream);
}

static mstxRangeId start_in_domain(mstxDomainHandle_t domain, const char *message,
                                   aclrtStream stream)
{
    char text[TEXT_MAX];

    return start(text_of(domain, message, text), stream);
}

static void end_in_domain(mstxDomainHandle_t domain, mstxRangeId id)
{
    (void)domain;
    end(id);
}

/* --- injection --- */

static const struct {
    MstxFuncModule module;
    unsigned position;
    MstxFuncPointer function;
} functions[] = {
    {MSTX_API_MODULE_CORE, MSTX_API_CORE_MARK_A, (MstxFuncPointer)mark},
    {MSTX_API_MODULE_CORE, MSTX_API_CORE_RANGE_START_A, (MstxFuncPointer)start},
    {MSTX_API_MODULE_CORE, MSTX_API_CORE_RANGE_END, (MstxFuncPointer)end},
    {MSTX_API_MODULE_CORE, MSTX_API_CORE_GET_TOOL_ID, (MstxFuncPointer)tool_id},
    {MSTX_API_MODULE_CORE_DOMAIN, MSTX_API_CORE2_DOMAIN_CREATE_A, (MstxFuncPointer)create_domain},
    {MSTX_API_MODULE_CORE_DOMAIN, MSTX_API_CORE2_DOMAIN_DESTROY, (MstxFuncPointer)destroy_domain},
    {MSTX_API_MODULE_CORE_DOMAIN, MSTX_API_CORE2_DOMAIN_MARK_A, (MstxFuncPointer)mark_in_domain},
    {MSTX_API_MODULE_CORE_DOMAIN, MSTX_API_CORE2_DOMAIN_RANGE_START_A,
     (MstxFuncPointer)start_in_domain},
    {MSTX_API_MODULE_CORE_DOMAIN, MSTX_API_CORE2_DOMAIN_RANGE_END, (MstxFuncPointer)end_in_domain},
};

__attribute__((visibility("default"))) int InitInjectionMstx(MstxGetModuleFuncTableFunc getTable);

int InitInjectionMstx(MstxGetModuleFuncTableFunc getTable)
{
    MstxFuncTable table;
    unsigned size;

    for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++) {
        if (!getTable || getTable(functions[i].module, &table, &size) != MSTX_SUCCESS)
            return MSTX_FAIL;
        if (functions[i].position < size)
            *table[functions[i].position] = functions[i].function;
    }
    return MSTX_SUCCESS;
}
