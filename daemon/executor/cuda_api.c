#include "daemon/executor/cuda_api.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "acl/error_codes/rt_error_codes.h"

/* A pointer to a function is no pointer to an object in C: POSIX has them alike. */
static void find_symbol(void *dl, const char *name, void *member, bool needed,
                        struct cuda_symbols *symbols)
{
    void *symbol = dlsym(dl, name);
    size_t used = strlen(symbols->absent);

    memcpy(member, &symbol, sizeof(symbol));
    symbols->known++;
    if (symbol) {
        symbols->found++;
        return;
    }
    if (needed)
        symbols->complete = false;
    snprintf(symbols->absent + used, sizeof(symbols->absent) - used, "%s%s", used ? " " : "", name);
}

void cuda_api_load(struct cuda_api *api, void *dl, struct cuda_symbols *symbols)
{
    memset(symbols, 0, sizeof(*symbols));
    symbols->complete = true;
#define FIND_NEEDED(name, arguments)   find_symbol(dl, #name, &api->name, true, symbols);
#define FIND_OPTIONAL(name, arguments) find_symbol(dl, #name, &api->name, false, symbols);
    CUDA_FUNCTIONS(FIND_NEEDED, FIND_OPTIONAL)
}

/* FATAL: the driver answers this to every later call of the process. */
enum { FINE, FATAL };

static const struct {
    int16_t result;
    int16_t fatal;
    int32_t code;
} codes[] = {
    {1, FINE, ACL_ERROR_RT_PARAM_INVALID},
    {2, FINE, ACL_ERROR_RT_MEMORY_ALLOCATION},
    {3, FINE, ACL_ERROR_RT_DEV_SETUP_ERROR},  /* not initialised */
    {4, FATAL, ACL_ERROR_RT_DEV_SETUP_ERROR}, /* the driver is being shut down */
    {34, FINE, ACL_ERROR_RT_DEV_SETUP_ERROR}, /* a stub library */
    {36, FINE, ACL_ERROR_RT_FEATURE_NOT_SUPPORT},
    {46, FINE, ACL_ERROR_RT_DEV_SETUP_ERROR}, /* busy, or for one process only */
    {100, FINE, ACL_ERROR_RT_NO_DEVICE},
    {101, FINE, ACL_ERROR_RT_INVALID_DEVICEID},
    {102, FINE, ACL_ERROR_RT_NO_PERMISSION}, /* no license */
    {200, FINE, ACL_ERROR_RT_PARAM_INVALID}, /* no image of a kernel */
    {201, FINE, ACL_ERROR_RT_CONTEXT_NULL},
    {205, FINE, ACL_ERROR_RT_DRV_INTERNAL_ERROR},
    {206, FINE, ACL_ERROR_RT_DRV_INTERNAL_ERROR},
    {208, FINE, ACL_ERROR_RT_DRV_INTERNAL_ERROR},
    {209, FINE, ACL_ERROR_RT_FEATURE_NOT_SUPPORT}, /* a binary for other GPUs */
    {214, FATAL, ACL_ERROR_RT_HBM_MULTI_BIT_ECC_ERROR},
    {215, FINE, ACL_ERROR_RT_FEATURE_NOT_SUPPORT},
    {217, FINE, ACL_ERROR_RT_LINK_TYPE_NOT_SUPPORTED},
    {218, FINE, ACL_ERROR_RT_PARAM_INVALID}, /* PTX that does not compile */
    {220, FATAL, ACL_ERROR_RT_LINK_ERROR},
    {221, FINE, ACL_ERROR_RT_FEATURE_NOT_SUPPORT}, /* no compiler of PTX */
    {222, FINE, ACL_ERROR_RT_FEATURE_NOT_SUPPORT}, /* PTX of a newer version */
    {223, FINE, ACL_ERROR_RT_FEATURE_NOT_SUPPORT}, /* compiling is switched off */
    {226, FATAL, ACL_ERROR_RT_DEVICE_MEM_ERROR},   /* contained: memory of this process is bad */
    {304, FINE, ACL_ERROR_RT_DRV_INTERNAL_ERROR},  /* a call of the system failed */
    {400, FINE, ACL_ERROR_RT_INVALID_HANDLE},
    {500, FINE, ACL_ERROR_RT_SYMBOL_NOT_FOUND},
    {600, FINE, ACL_ERROR_RT_STREAM_NOT_COMPLETE},
    {700, FATAL, ACL_ERROR_RT_AICORE_EXCEPTION},   /* illegal address */
    {701, FINE, ACL_ERROR_RT_RESOURCE_ALLOC_FAIL}, /* more than the device has for one launch */
    {702, FATAL, ACL_ERROR_RT_AICORE_TIMEOUT},
    {704, FINE, ACL_ERROR_RT_REPEATED_INIT},
    {705, FINE, ACL_ERROR_RT_LINK_TYPE_NOT_SUPPORTED},
    {709, FATAL, ACL_ERROR_RT_CONTEXT_NULL},          /* the context is destroyed */
    {710, FATAL, ACL_ERROR_RT_AICORE_TRAP_EXCEPTION}, /* an assertion of a kernel */
    {712, FINE, ACL_ERROR_HOST_MEMORY_ALREADY_REGISTERED},
    {713, FINE, ACL_ERROR_HOST_MEMORY_NOT_REGISTERED},
    {714, FATAL, ACL_ERROR_RT_AICORE_EXCEPTION},      /* stack */
    {715, FATAL, ACL_ERROR_RT_AICORE_TRAP_EXCEPTION}, /* illegal instruction */
    {716, FATAL, ACL_ERROR_RT_AICORE_EXCEPTION},      /* misaligned address */
    {717, FATAL, ACL_ERROR_RT_AICORE_EXCEPTION},      /* address space */
    {718, FATAL, ACL_ERROR_RT_AICORE_EXCEPTION},      /* program counter */
    {719, FATAL, ACL_ERROR_RT_AICORE_EXCEPTION},      /* any other end of a kernel */
    {720, FINE, ACL_ERROR_RT_RESOURCE_ALLOC_FAIL},
    {721, FATAL, ACL_ERROR_RT_AICORE_EXCEPTION}, /* tensor memory left behind */
    {800, FINE, ACL_ERROR_RT_NO_PERMISSION},
    {801, FINE, ACL_ERROR_RT_FEATURE_NOT_SUPPORT},
    {802, FINE, ACL_ERROR_RT_DEV_SETUP_ERROR}, /* system not ready: the fabric manager, for one */
    {803, FINE, ACL_ERROR_RT_DEV_SETUP_ERROR}, /* library and kernel module of two versions */
    {804, FINE, ACL_ERROR_RT_DEV_SETUP_ERROR},
    {805, FINE, ACL_ERROR_RT_DEV_SETUP_ERROR}, /* MPS: no connection */
    {806, FATAL, ACL_ERROR_RT_SOCKET_CLOSE},   /* MPS: its server does not answer */
    {807, FINE, ACL_ERROR_RT_DEV_SETUP_ERROR}, /* MPS: its server recovers from a fault */
    {808, FINE, ACL_ERROR_RT_RESOURCE_ALLOC_FAIL},
    {809, FINE, ACL_ERROR_RT_RESOURCE_ALLOC_FAIL},
    {810, FATAL, ACL_ERROR_RT_SOCKET_CLOSE}, /* MPS: it has ended this client */
    {909, FINE, ACL_ERROR_RT_TIMEOUT},
    {911, FATAL, ACL_ERROR_RT_SUSPECT_REMOTE_ERROR}, /* a device elsewhere failed */
    {999, FINE, ACL_ERROR_RT_INTERNAL_ERROR},        /* cuda_answer() finds out */
};

static size_t find_code(cuda_result result)
{
    size_t i = 0;

    while (i < sizeof(codes) / sizeof(codes[0]) && codes[i].result != result)
        i++;
    return i;
}

int32_t cuda_code(cuda_result result)
{
    size_t i = find_code(result);

    if (result == CUDA_SUCCESS)
        return 0;
    return i < sizeof(codes) / sizeof(codes[0]) ? codes[i].code : ACL_ERROR_RT_DRV_INTERNAL_ERROR;
}

bool cuda_is_fatal(cuda_result result)
{
    size_t i = find_code(result);

    return i < sizeof(codes) / sizeof(codes[0]) && codes[i].fatal;
}
