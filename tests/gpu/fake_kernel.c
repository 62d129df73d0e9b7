/*
 * The fake's kernels. It compiles no PTX: a kernel does what its name says, and its arguments are
 * counted in the text.
 *   spin(u64 ns)                     takes so long
 *   store(u64 address, u64 value)    writes a word
 *   fault()                          reaches where it must not: fatal
 *   any other                        nothing
 */
#include "fake.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/util/clock.h"

struct function {
    char name[64];
    size_t bytes;    /* of arguments */
    unsigned shared; /* bytes that a launch may ask for */
    struct function *next;
};

struct module {
    struct context *context;
    struct function *functions;
    struct module *next;
};

static struct module *modules, *unloaded;
static pthread_mutex_t modules_lock = PTHREAD_MUTEX_INITIALIZER;

/* The declarations of parameters up to the end of their list: ".param .u64 name". */
static size_t count_bytes(const char *list)
{
    const char *end = strchr(list, ')');
    size_t bytes = 0, size;

    while (end && (list = strstr(list, ".param")) && list < end) {
        list += strlen(".param");
        while (*list && !isdigit((unsigned char)*list))
            list++;
        size = strtoul(list, NULL, 10) / 8;
        if (size)
            bytes = (bytes + size - 1) / size * size + size;
    }
    return bytes;
}

static void add_functions(struct module *m, const char *text)
{
    while ((text = strstr(text, ".entry"))) {
        struct function *f = calloc(1, sizeof(*f));
        const char *list = strchr(text, '(');

        if (!f)
            abort();
        sscanf(text, ".entry %63[A-Za-z0-9_]", f->name);
        f->shared = 48u << 10;
        f->bytes = list ? count_bytes(list) : 0;
        f->next = m->functions;
        m->functions = f;
        text++;
    }
}

EXPORT cuda_result cuModuleLoadDataEx(cuda_module *module, const void *image, unsigned n,
                                      const int *options, void **values)
{
    struct module *m;

    ENTER(true);
    if (memcmp(image, "\177ELF", 4) == 0)
        return CUDA_NO_BINARY_FOR_GPU;
    if (!strstr(image, ".version")) {
        for (unsigned i = 0; i < n; i++)
            if (options[i] == CUDA_JIT_ERROR_LOG)
                snprintf(values[i], 32, "fake ptxas: no .version");
        return 218;
    }
    m = calloc(1, sizeof(*m));
    if (!m)
        abort();
    m->context = fake_context();
    add_functions(m, image);
    pthread_mutex_lock(&modules_lock);
    m->next = modules;
    modules = m;
    pthread_mutex_unlock(&modules_lock);
    *module = m;
    return CUDA_SUCCESS;
}

EXPORT cuda_result cuModuleLoadData(cuda_module *module, const void *image)
{
    ENTER(true);
    return cuModuleLoadDataEx(module, image, 0, NULL, NULL);
}

/* Its functions stay in memory, for launches that are under way. */
EXPORT cuda_result cuModuleUnload(cuda_module module)
{
    struct module **at = &modules, *m = NULL;

    ENTER(true);
    pthread_mutex_lock(&modules_lock);
    while (*at && *at != module)
        at = &(*at)->next;
    if (*at) {
        m = *at;
        *at = m->next;
        m->next = unloaded;
        unloaded = m;
    }
    pthread_mutex_unlock(&modules_lock);
    return m ? CUDA_SUCCESS : CUDA_INVALID_HANDLE;
}

EXPORT cuda_result cuModuleGetFunction(cuda_function *function, cuda_module module,
                                       const char *name)
{
    struct module *m;
    struct function *f = NULL;

    ENTER(true);
    pthread_mutex_lock(&modules_lock);
    m = modules;
    while (m && (m != module || m->context != fake_context()))
        m = m->next;
    if (m)
        for (f = m->functions; f && strcmp(f->name, name) != 0;)
            f = f->next;
    pthread_mutex_unlock(&modules_lock);
    *function = f;
    return f ? CUDA_SUCCESS : m ? CUDA_NOT_FOUND : CUDA_INVALID_HANDLE;
}

bool fake_is_function(const struct context *context, cuda_function function)
{
    bool is = false;

    pthread_mutex_lock(&modules_lock);
    for (struct module *m = modules; m; m = m->next)
        for (struct function *f = m->functions; f; f = f->next)
            is |= f == function && m->context == context;
    pthread_mutex_unlock(&modules_lock);
    return is;
}

EXPORT cuda_result cuFuncSetAttribute(cuda_function function, int attribute, int value)
{
    ENTER(true);
    if (!fake_is_function(fake_context(), function))
        return CUDA_INVALID_HANDLE;
    if (attribute != CUDA_FUNCTION_DYNAMIC_SHARED || value < 0 || value > (227 << 10))
        return CUDA_INVALID_VALUE;
    ((struct function *)function)->shared = (unsigned)value;
    return CUDA_SUCCESS;
}

unsigned fake_shared_bytes(cuda_function function)
{
    return ((struct function *)function)->shared;
}

unsigned fake_modules_left(void)
{
    unsigned n = 0;

    pthread_mutex_lock(&modules_lock);
    for (const struct module *m = modules; m; m = m->next)
        n++;
    pthread_mutex_unlock(&modules_lock);
    return n;
}

size_t fake_argument_bytes(cuda_function function)
{
    return ((struct function *)function)->bytes;
}

static cuda_result run_store(int device, const uint64_t *argument)
{
    _Atomic uint64_t *word;

    pthread_rwlock_rdlock(&fake_mappings);
    word = fake_translate(device, argument[0], sizeof(*word));
    if (word)
        atomic_store(word, argument[1]);
    pthread_rwlock_unlock(&fake_mappings);
    return word ? CUDA_SUCCESS : CUDA_ILLEGAL_ADDRESS;
}

cuda_result fake_run_kernel(int device, cuda_function function, const void *arguments, size_t bytes)
{
    const struct function *f = function;
    uint64_t argument[2] = {0};

    memcpy(argument, arguments, bytes < sizeof(argument) ? bytes : sizeof(argument));
    if (strcmp(f->name, "fault") == 0)
        return CUDA_ILLEGAL_ADDRESS;
    if (strcmp(f->name, "spin") == 0)
        clock_sleep_until(clock_ns() + argument[0]);
    if (strcmp(f->name, "store") == 0)
        return run_store(device, argument);
    return CUDA_SUCCESS;
}
