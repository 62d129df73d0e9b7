#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "client/core/process.h"
#include "client/kernel/kernel.h"

/* One that is registered. Records stay where the library that they are in has them. */
struct known {
    struct known *prev, *next;
    const aclnpudKernel *record;
    const struct kernel_binary *binary; /* NULL: of none */
};

/*
 * Under process->known_lock, the innermost of all: constructors of libraries take it, and the
 * loader holds a lock of its own around them.
 */
static struct known *known;
static __thread const struct kernel_binary *loading;

const struct kernel_binary *kernel_registry_begin(const struct kernel_binary *binary)
{
    const struct kernel_binary *outer = loading;

    loading = binary;
    return outer;
}

static struct known *find_record(const aclnpudKernel *record)
{
    struct known *k;

    DL_FOREACH (known, k)
        if (k->record == record)
            return k;
    return NULL;
}

/* A record of an older interface has no less than what there was at first. */
static bool is_usable(const aclnpudKernel *k)
{
    return k && k->size >= sizeof(*k) && k->name && k->function;
}

void aclnpudKernelRegister(const aclnpudKernel *kernel)
{
    struct known *k;

    if (!is_usable(kernel))
        return;
    pthread_mutex_lock(&process->known_lock);
    k = find_record(kernel) ? NULL : calloc(1, sizeof(*k));
    if (k) {
        k->record = kernel;
        k->binary = loading;
        DL_APPEND(known, k);
    }
    pthread_mutex_unlock(&process->known_lock);
}

void aclnpudKernelUnregister(const aclnpudKernel *kernel)
{
    struct known *k;

    pthread_mutex_lock(&process->known_lock);
    k = find_record(kernel);
    if (k)
        DL_DELETE(known, k);
    pthread_mutex_unlock(&process->known_lock);
    free(k);
}

static bool is_meant(const struct known *k, const char *name, uint64_t entry, const void *function)
{
    if (name)
        return strcmp(k->record->name, name) == 0;
    return entry != 0 ? k->record->entry == entry : k->record->function == function;
}

const aclnpudKernel *kernel_registry_find(const struct kernel_binary *binary, const char *name,
                                          uint64_t entry, const void *function)
{
    bool any = !name && entry == 0;
    struct known *k;

    pthread_mutex_lock(&process->known_lock);
    DL_FOREACH (known, k)
        if ((any || k->binary == binary) && is_meant(k, name, entry, function))
            break;
    pthread_mutex_unlock(&process->known_lock);
    return k ? k->record : NULL;
}
