#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "client/core/process.h"
#include "client/kernel/kernel.h"
#include "client/memory/registration.h"

/* One that is registered. Records stay where the library that they are in has them. */
struct known {
    struct known *prev, *next;
    const aclnpudKernel *record;
    const struct kernel_binary *binary; /* NULL: of none */
};

/* A variable that is registered, or that a binary was asked for. */
struct variable {
    struct variable *prev, *next;
    const aclnpudVariable *record;
    const struct kernel_binary *binary; /* NULL: of none */
    aclnpudVariable own;                /* the record, if it is the library's */
};

/*
 * Under process->known_lock, the innermost of all: constructors of libraries take it, and the
 * loader holds a lock of its own around them.
 */
static struct known *known;
static struct variable *variables;
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

size_t kernel_registry_list(const struct kernel_binary *binary, const aclnpudKernel **list,
                            size_t most)
{
    struct known *k;
    size_t n = 0;

    pthread_mutex_lock(&process->known_lock);
    DL_FOREACH (known, k) {
        if (k->binary != binary)
            continue;
        if (n < most)
            list[n] = k->record;
        n++;
    }
    pthread_mutex_unlock(&process->known_lock);
    return n;
}

/* --- variables --- */

static bool is_usable_variable(const aclnpudVariable *v)
{
    return v && v->size >= sizeof(*v) && v->name && v->address && v->bytes > 0;
}

/* Under known_lock. */
static struct variable *find_variable(const aclnpudVariable *record)
{
    struct variable *v;

    DL_FOREACH (variables, v)
        if (v->record == record)
            return v;
    return NULL;
}

/* Under known_lock. NULL: no memory. */
static struct variable *add_variable(const aclnpudVariable *record,
                                     const struct kernel_binary *binary)
{
    struct variable *v = calloc(1, sizeof(*v));

    if (!v)
        return NULL;
    v->record = record;
    v->binary = binary;
    DL_APPEND(variables, v);
    registration_know_variables();
    return v;
}

void aclnpudVariableRegister(const aclnpudVariable *variable)
{
    if (!is_usable_variable(variable))
        return;
    pthread_mutex_lock(&process->known_lock);
    if (!find_variable(variable))
        add_variable(variable, loading);
    pthread_mutex_unlock(&process->known_lock);
}

void aclnpudVariableUnregister(const aclnpudVariable *variable)
{
    struct variable *v;

    pthread_mutex_lock(&process->known_lock);
    v = find_variable(variable);
    if (v)
        DL_DELETE(variables, v);
    pthread_mutex_unlock(&process->known_lock);
    free(v);
}

static bool is_variable(const struct variable *v, const struct kernel_binary *binary,
                        const char *name, const void *address)
{
    if (name)
        return v->binary == binary && strcmp(v->record->name, name) == 0;
    return v->record->address == address;
}

bool kernel_registry_find_variable(const struct kernel_binary *binary, const char *name,
                                   const void *address, aclnpudVariable *variable)
{
    struct variable *v;

    pthread_mutex_lock(&process->known_lock);
    DL_FOREACH (variables, v)
        if (is_variable(v, binary, name, address))
            break;
    if (v)
        *variable = *v->record;
    pthread_mutex_unlock(&process->known_lock);
    return v != NULL;
}

/* Under known_lock. */
static bool has_bytes(const void *address, size_t count)
{
    struct variable *v;

    DL_FOREACH (variables, v) {
        size_t offset = (uintptr_t)address - (uintptr_t)v->record->address;

        if (offset < v->record->bytes && count <= v->record->bytes - offset)
            return true;
    }
    return false;
}

bool kernel_registry_holds(const void *address, size_t count)
{
    bool holds;

    pthread_mutex_lock(&process->known_lock);
    holds = has_bytes(address, count);
    pthread_mutex_unlock(&process->known_lock);
    return holds;
}

bool kernel_registry_add_variable(const struct kernel_binary *binary, void *address, size_t bytes)
{
    struct variable *v;
    bool holds;

    pthread_mutex_lock(&process->known_lock);
    holds = has_bytes(address, bytes);
    v = holds ? NULL : add_variable(NULL, binary);
    if (v) {
        v->own = (aclnpudVariable){sizeof(v->own), 0, "", address, bytes};
        v->record = &v->own;
    }
    pthread_mutex_unlock(&process->known_lock);
    return holds || v;
}

void kernel_registry_drop_variables(const struct kernel_binary *binary)
{
    struct variable *v, *next;

    pthread_mutex_lock(&process->known_lock);
    DL_FOREACH_SAFE (variables, v, next)
        if (v->binary == binary) {
            DL_DELETE(variables, v);
            free(v);
        }
    pthread_mutex_unlock(&process->known_lock);
}
