/* The fake's script, its devices and contexts. */
#include "fake.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* --- functions that do not exist --- */

/* A symbol of another name is not found by its own: the last byte of its name changes. */
static void spoil_name(char *names, size_t size, const char *name)
{
    char wanted[128];
    char *found;
    long page = sysconf(_SC_PAGESIZE);
    size_t length = (size_t)snprintf(wanted + 1, sizeof(wanted) - 1, "%s", name) + 2;

    wanted[0] = '\0';
    found = memmem(names, size, wanted, length);
    if (!found)
        abort(); /* a test that takes away what is not there would test nothing */
    found += length - 2;
    mprotect((void *)((uintptr_t)found & ~(uintptr_t)(page - 1)), (size_t)page,
             PROT_READ | PROT_WRITE);
    *found = '!';
}

__attribute__((constructor)) static void take_functions_away(void)
{
    const char *without = getenv("FAKE_CUDA_WITHOUT");
    char list[1024], *rest = list, *name;
    char *names = NULL;
    size_t size = 0;
    Dl_info self;

    if (!without)
        return;
    if (dladdr(_DYNAMIC, &self) == 0)
        abort();
    for (const ElfW(Dyn) *d = _DYNAMIC; d->d_tag != DT_NULL; d++) {
        if (d->d_tag == DT_STRTAB)
            names = (char *)d->d_un.d_ptr;
        if (d->d_tag == DT_STRSZ)
            size = d->d_un.d_val;
    }
    if (names < (char *)self.dli_fbase) /* on riscv64 the loader leaves it as it is in the file */
        names += (uintptr_t)self.dli_fbase;
    snprintf(list, sizeof(list), "%s", without);
    while ((name = strsep(&rest, ",")))
        if (*name)
            spoil_name(names, size, name);
}

/* --- the script --- */

uint64_t script_number(const char *variable, uint64_t otherwise)
{
    const char *value = getenv(variable);

    return value ? strtoull(value, NULL, 10) : otherwise;
}

#define RULES 16

static struct rule {
    char name[64], what[16];
    unsigned nth;
    _Atomic unsigned calls;
} rules[RULES];
static unsigned n_rules;
static pthread_once_t rules_read = PTHREAD_ONCE_INIT;

static void read_rules(void)
{
    const char *text = getenv("FAKE_CUDA_FAIL");
    char list[1024], *rest = list, *one;

    snprintf(list, sizeof(list), "%s", text ? text : "");
    while ((one = strsep(&rest, ",")) && n_rules < RULES) {
        struct rule *r = &rules[n_rules];

        if (*one == '\0')
            continue;
        if (sscanf(one, "%63[^:]:%u:%15s", r->name, &r->nth, r->what) != 3)
            abort();
        n_rules++;
    }
}

static cuda_result do_what(const char *what)
{
    if (strcmp(what, "hang") == 0)
        for (;;)
            pause();
    if (strcmp(what, "exit") == 0)
        exit(3);
    if (strcmp(what, "abort") == 0)
        abort();
    if (strcmp(what, "segv") == 0)
        raise(SIGSEGV);
    return atoi(what);
}

cuda_result script_call(const char *name)
{
    pthread_once(&rules_read, read_rules);
    for (unsigned i = 0; i < n_rules; i++) {
        struct rule *r = &rules[i];

        if (strcmp(r->name, name) != 0)
            continue;
        if (atomic_fetch_add(&r->calls, 1) + 1 == r->nth || r->nth == 0)
            return do_what(r->what);
    }
    return CUDA_SUCCESS;
}

cuda_result script_task(void)
{
    static _Atomic unsigned tasks;
    const char *fault = getenv("FAKE_CUDA_FAULT");
    unsigned nth;
    int result;

    if (fault && sscanf(fault, "%u:%d", &nth, &result) == 2 &&
        atomic_fetch_add(&tasks, 1) + 1 == nth)
        return result;
    return CUDA_SUCCESS;
}

/* --- the library --- */

static _Atomic bool is_initialised;

EXPORT cuda_result cuInit(unsigned flags)
{
    cuda_result result = script_call(__func__);

    if (result != CUDA_SUCCESS || flags != 0)
        return result != CUDA_SUCCESS ? result : CUDA_INVALID_VALUE;
    if (fake_devices() == 0)
        return CUDA_NO_DEVICE;
    atomic_store(&is_initialised, true);
    return CUDA_SUCCESS;
}

EXPORT cuda_result cuDriverGetVersion(int *version)
{
    *version = 12080;
    return script_call(__func__);
}

EXPORT cuda_result cuGetErrorName(cuda_result result, const char **name)
{
    static _Thread_local char text[32];

    snprintf(text, sizeof(text), "FAKE_ERROR_%d", result);
    *name = text;
    return CUDA_SUCCESS;
}

EXPORT cuda_result cuGetErrorString(cuda_result result, const char **text)
{
    *text = result == CUDA_OUT_OF_MEMORY ? "out of memory" : "an error of the fake";
    return CUDA_SUCCESS;
}

EXPORT unsigned fake_cuda_left(void)
{
    return fake_memory_left() + fake_streams_left() + fake_modules_left();
}

/* --- devices --- */

int fake_devices(void)
{
    uint64_t n = script_number("FAKE_CUDA_DEVICES", 2);

    return n > DEVICES ? DEVICES : (int)n;
}

static bool is_device(cuda_device device)
{
    return device >= 0 && device < fake_devices();
}

EXPORT cuda_result cuDeviceGetCount(int *n)
{
    ENTER(false);
    *n = fake_devices();
    return CUDA_SUCCESS;
}

EXPORT cuda_result cuDeviceGet(cuda_device *device, int i)
{
    ENTER(false);
    *device = i;
    return is_device(i) ? CUDA_SUCCESS : CUDA_INVALID_DEVICE;
}

EXPORT cuda_result cuDeviceGetName(char *name, int size, cuda_device device)
{
    ENTER(false);
    snprintf(name, (size_t)size, "Fake GPU %d", device);
    return is_device(device) ? CUDA_SUCCESS : CUDA_INVALID_DEVICE;
}

EXPORT cuda_result cuDeviceGetAttribute(int *value, int attribute, cuda_device device)
{
    ENTER(false);
    if (!is_device(device))
        return CUDA_INVALID_DEVICE;
    *value = attribute == CUDA_ATTRIBUTE_MAJOR ? 9 : 0;
    return CUDA_SUCCESS;
}

EXPORT cuda_result cuDeviceGetUuid_v2(void *uuid, cuda_device device)
{
    ENTER(false);
    memset(uuid, 0x40 + device, 16);
    return is_device(device) ? CUDA_SUCCESS : CUDA_INVALID_DEVICE;
}

EXPORT cuda_result cuDeviceGetPCIBusId(char *bus, int size, cuda_device device)
{
    ENTER(false);
    snprintf(bus, (size_t)size, "0000:%02x:00.0", 0x10 + device);
    return is_device(device) ? CUDA_SUCCESS : CUDA_INVALID_DEVICE;
}

EXPORT cuda_result cuDeviceCanAccessPeer(int *can, cuda_device device, cuda_device peer)
{
    ENTER(false);
    if (!is_device(device) || !is_device(peer))
        return CUDA_INVALID_DEVICE;
    *can = device != peer && script_number("FAKE_CUDA_PEERS", 1);
    return CUDA_SUCCESS;
}

/* --- contexts --- */

static struct context contexts[DEVICES];
static pthread_mutex_t contexts_lock = PTHREAD_MUTEX_INITIALIZER;
static _Thread_local struct context *current;

struct context *fake_context(void)
{
    return current;
}

cuda_result fake_enter(const char *name, bool needs_context)
{
    cuda_result result = script_call(name);

    if (result != CUDA_SUCCESS)
        return result;
    if (!atomic_load(&is_initialised))
        return CUDA_NOT_INITIALIZED;
    if (!needs_context)
        return CUDA_SUCCESS;
    if (!current || !current->alive)
        return CUDA_INVALID_CONTEXT;
    return atomic_load(&current->error);
}

EXPORT cuda_result cuDevicePrimaryCtxSetFlags_v2(cuda_device device, unsigned flags)
{
    ENTER(false);
    if (flags & ~31u)
        return CUDA_INVALID_VALUE;
    return is_device(device) ? CUDA_SUCCESS : CUDA_INVALID_DEVICE;
}

EXPORT cuda_result cuDevicePrimaryCtxRetain(cuda_context *context, cuda_device device)
{
    ENTER(false);
    if (!is_device(device))
        return CUDA_INVALID_DEVICE;
    pthread_mutex_lock(&contexts_lock);
    contexts[device].device = device;
    contexts[device].alive = true;
    contexts[device].retained++;
    *context = &contexts[device];
    pthread_mutex_unlock(&contexts_lock);
    return CUDA_SUCCESS;
}

EXPORT cuda_result cuDevicePrimaryCtxRelease_v2(cuda_device device)
{
    struct context *c;
    bool last;

    ENTER(false);
    if (!is_device(device) || !contexts[device].alive)
        return is_device(device) ? CUDA_INVALID_CONTEXT : CUDA_INVALID_DEVICE;
    c = &contexts[device];
    pthread_mutex_lock(&contexts_lock);
    last = --c->retained == 0;
    pthread_mutex_unlock(&contexts_lock);
    if (last) {
        fake_drain(c);
        fake_free_all(c);
        c->alive = false;
    }
    return CUDA_SUCCESS;
}

EXPORT cuda_result cuCtxSetCurrent(cuda_context context)
{
    struct context *c = context;

    ENTER(false);
    if (c && !c->alive)
        return CUDA_INVALID_CONTEXT;
    current = c;
    return CUDA_SUCCESS;
}

EXPORT cuda_result cuCtxSynchronize(void)
{
    ENTER(true);
    fake_drain(current);
    return atomic_load(&current->error);
}
