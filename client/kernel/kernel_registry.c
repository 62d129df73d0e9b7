#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "client/core/lifecycle.h"
#include "client/core/process.h"
#include "client/kernel/kernel.h"

/* One that is registered. Records stay where the library that they are in has them. */
struct known {
    struct known *prev, *next;
    const aclnpudKernel *record;
    const struct kernel_binary *binary; /* NULL: of none */
};

pthread_mutex_t kernel_lock = PTHREAD_MUTEX_INITIALIZER;
/*
 * Of `known`, and the innermost of all: constructors of libraries take it, and the loader holds a
 * lock of its own around them, which dlsym() takes, under kernel_lock.
 */
static pthread_mutex_t known_lock = PTHREAD_MUTEX_INITIALIZER;
static struct known *known;
static __thread const struct kernel_binary *loading;

void kernel_registry_begin(struct kernel_binary *binary)
{
    loading = binary;
}

void kernel_registry_end(void)
{
    loading = NULL;
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
    pthread_mutex_lock(&known_lock);
    k = find_record(kernel) ? NULL : calloc(1, sizeof(*k));
    if (k) {
        k->record = kernel;
        k->binary = loading;
        DL_APPEND(known, k);
    }
    pthread_mutex_unlock(&known_lock);
}

void aclnpudKernelUnregister(const aclnpudKernel *kernel)
{
    struct known *k;

    pthread_mutex_lock(&known_lock);
    k = find_record(kernel);
    if (k)
        DL_DELETE(known, k);
    pthread_mutex_unlock(&known_lock);
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

    pthread_mutex_lock(&known_lock);
    DL_FOREACH (known, k)
        if ((any || k->binary == binary) && is_meant(k, name, entry, function))
            break;
    pthread_mutex_unlock(&known_lock);
    return k ? k->record : NULL;
}

/* What is registered stays: the child has the same libraries. */
static void renew_locks(void)
{
    pthread_mutex_init(&kernel_lock, NULL);
    pthread_mutex_init(&known_lock, NULL);
}

const struct part kernel_registry_part = {.fork_child = renew_locks};
