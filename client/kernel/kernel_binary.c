/*
 * Binaries: shared objects of the host with kernels in them; or, for devices that no process can
 * map, files of any kind that the device's library takes (kernel_image.h).
 *
 * A file is loaded where it is, so that debuggers and profilers find its symbols. What is loaded
 * already, and what comes from memory, is loaded from a memfd: each handle has globals of its own.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utlist.h>

#include "client/callback/exception.h"
#include "client/core/error.h"
#include "client/core/handle_error.h"
#include "client/core/handle.h"
#include "client/kernel/kernel.h"
#include "client/kernel/kernel_file.h"
#include "client/kernel/kernel_image.h"
#include "client/runtime/context.h"
#include "client/runtime/session.h"
#include "proto/util/lift_fd.h"
#include "proto/util/random.h"

#define BINARIES_MAX (1u << 16)
#define IMAGE_MAX    ((size_t)1 << 31)

struct kernel_binary {
    struct slot slot;
    struct kernel_binary *prev, *next; /* loaded, while it has a library */
    void *library;                     /* of dlopen(); NULL: devices have it */
    struct kernel_image *image;        /* the same: else NULL */
    uint32_t refs;                     /* the handle, and launches that have not ended */
    bool cpu;                          /* kernels of a device's CPU: aclrtRegisterCpuFunc() */
    struct kernel_function *functions;
    aclrtOpExceptionCallback callback;
    void *callback_data;
};

/* Under kernel_lock. */
static struct slots binaries; /* no object: not set up yet */
static struct kernel_binary *loaded;

static struct kernel_binary *peek_binary(const void *handle)
{
    uint32_t tag;

    return binaries.object_size ? handle_get_tag(&binaries, HANDLE_BINARY, handle, &tag) : NULL;
}

static struct kernel_binary *find_binary(const char *api, const void *handle, int *error)
{
    struct kernel_binary *b;

    *error = handle ? 0 : error_null(api, "binHandle");
    if (!handle)
        return NULL;
    b = peek_binary(handle);
    if (!b)
        *error = handle_error(ACL_ERROR_RT_INVALID_HANDLE, api, HANDLE_BINARY, handle);
    return b;
}

const struct kernel_image *kernel_binary_image(const struct kernel_binary *binary)
{
    return binary ? binary->image : NULL;
}

aclrtBinHandle kernel_binary_handle(struct kernel_binary *binary)
{
    return handle_of(HANDLE_BINARY, binary);
}

/* --- loading --- */

/* Unlike a dlopen() of this thread that is not of a binary, constructors register for it. */
static void *open_library(struct kernel_binary *b, const char *path)
{
    const struct kernel_binary *outer = kernel_registry_begin(b);
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);

    kernel_registry_begin(outer);
    return library;
}

/* NULL: dlerror() says why, or memory is short. */
static void *open_image(struct kernel_binary *b, const void *image, size_t size)
{
    char path[KERNEL_FILE_PATH];
    int fd = kernel_file_make(image, size, path);
    void *library;

    if (fd < 0)
        return NULL;
    library = open_library(b, path);
    close(fd);
    return library;
}

static struct kernel_binary *take_binary(void)
{
    struct kernel_binary *b;
    uint32_t seed = 1;

    pthread_mutex_lock(&process->kernel_lock);
    if (binaries.object_size == 0) {
        random_fill(&seed, sizeof(seed));
        slots_init(&binaries, sizeof(*b), BINARIES_MAX, seed);
    }
    b = slots_take(&binaries);
    if (b) {
        b->library = NULL;
        b->image = NULL;
        b->refs = 1;
        b->functions = NULL;
        b->callback = NULL;
    }
    pthread_mutex_unlock(&process->kernel_lock);
    return b;
}

static void put_binary(struct kernel_binary *b)
{
    pthread_mutex_lock(&process->kernel_lock);
    kernel_function_free_list(b->functions);
    slots_put(&binaries, b);
    pthread_mutex_unlock(&process->kernel_lock);
}

struct image {
    const char *what; /* for sentences */
    const char *path; /* NULL: it is in memory alone */
    const void *bytes;
    size_t size;
    uint32_t magic; /* 0: none is given */
};

static bool is_loaded(const char *path)
{
    void *library = dlopen(path, RTLD_NOW | RTLD_NOLOAD);

    if (library)
        dlclose(library);
    return library != NULL;
}

/*
 * Is another binary the same library? Two threads may both have found that it is not loaded. The
 * handle of dlopen() tells. If not, the binary has it.
 */
static bool claim_library(struct kernel_binary *b, void *library)
{
    bool taken = false;
    struct kernel_binary *other;

    pthread_mutex_lock(&process->kernel_lock);
    DL_FOREACH (loaded, other)
        taken |= other->library == library;
    if (!taken) {
        b->library = library;
        DL_APPEND(loaded, b);
    }
    pthread_mutex_unlock(&process->kernel_lock);
    return !taken;
}

/* NULL: dlerror() says why, or memory is short. */
static void *load_library(struct kernel_binary *b, const struct image *image)
{
    void *library = image->path && !is_loaded(image->path) ? open_library(b, image->path) : NULL;

    if (library && claim_library(b, library))
        return library;
    if (library)
        dlclose(library);
    library = open_image(b, image->bytes, image->size);
    if (library)
        claim_library(b, library);
    return library;
}

static void publish_binary(struct kernel_binary *b, aclrtBinHandle *handle)
{
    pthread_mutex_lock(&process->kernel_lock);
    slots_publish(b);
    *handle = kernel_binary_handle(b);
    pthread_mutex_unlock(&process->kernel_lock);
}

/* No process can map the devices that there are: their library runs kernels. */
static bool are_devices_away(const struct session *s)
{
    return s && s->n_devices > 0 && s->device_info[0].away;
}

/*
 * For those: what it is, their library says. Without a session, what is no kernel of the host is
 * reason to ask npud what devices there are.
 */
static bool is_for_devices(const char *api, const struct image *image)
{
    struct session *s = session_peek();
    struct error_saved ignored;
    int error;

    if (s)
        return are_devices_away(s);
    error_save(&ignored);
    if (kernel_file_check(api, image->what, image->bytes, image->size) != 0)
        s = session_get(api, &error);
    error_save_end(&ignored);
    return are_devices_away(s);
}

static int keep_image(const char *api, const struct image *image, bool cpu, aclrtBinHandle *handle)
{
    struct kernel_binary *b;

    if (cpu)
        return error_set(ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
                         "%s: kernels of a device's CPU are not passed on to devices that are not "
                         "simulated",
                         api);
    if (image->size > IMAGE_MAX)
        return kernel_file_refuse(api, image->what, "is larger than 2 GiB");
    b = take_binary();
    if (!b)
        return error_no_memory(api);
    b->cpu = false;
    b->image = kernel_image_new(image->bytes, image->size,
                                image->path ? kernel_file_side_magic(image->path) : image->magic);
    if (!b->image) {
        put_binary(b);
        return error_no_memory(api);
    }
    publish_binary(b, handle);
    return 0;
}

static int load_image(const char *api, const struct image *image, bool cpu, aclrtBinHandle *handle)
{
    struct kernel_binary *b;

    if (is_for_devices(api, image))
        return keep_image(api, image, cpu, handle);
    RETURN_IF_ERROR(kernel_file_check(api, image->what, image->bytes, image->size));
    b = take_binary();
    if (!b)
        return error_no_memory(api);
    b->cpu = cpu;
    dlerror();
    if (!load_library(b, image)) {
        const char *why = dlerror();

        put_binary(b);
        return error_set(ACL_ERROR_RT_PARAM_INVALID, "%s: %s cannot be loaded: %s", api,
                         image->what, why ? why : "no memory or no descriptor is left");
    }
    publish_binary(b, handle);
    return 0;
}

/* --- files --- */

static int file_error(const char *api, const char *path, const char *what)
{
    return error_set(ACL_ERROR_RT_PARAM_INVALID, "%s: %s %s: %s", api, path, what, strerror(errno));
}

static int load_file(const char *api, const char *path, bool cpu, aclrtBinHandle *handle)
{
    struct image image = {.what = path};
    char whole[PATH_MAX];
    struct stat st;
    void *bytes;
    int fd, r;

    image.path = realpath(path, whole);
    fd = image.path ? lift_fd(open(whole, O_RDONLY | O_CLOEXEC)) : -1;
    if (fd < 0 || fstat(fd, &st) < 0) {
        r = file_error(api, path, "cannot be read");
        if (fd >= 0)
            close(fd);
        return r;
    }
    image.size = S_ISREG(st.st_mode) && st.st_size > 0 ? (size_t)st.st_size : 0;
    bytes = image.size > 0 && image.size <= IMAGE_MAX
                ? mmap(NULL, image.size, PROT_READ, MAP_PRIVATE, fd, 0)
                : MAP_FAILED;
    close(fd);
    if (bytes == MAP_FAILED)
        return kernel_file_refuse(api, path, "is no ELF file");
    image.bytes = bytes;
    r = load_image(api, &image, cpu, handle);
    munmap(bytes, image.size);
    return r;
}

/* Kernels of a device's CPU: a list, PATH.json, and the library beside it, PATH.so. */
static int load_cpu_file(const char *api, const char *list, aclrtBinHandle *handle)
{
    const char *dot = strrchr(list, '.');
    char path[PATH_MAX];
    int n;

    if (!dot || strcmp(dot, ".json") != 0)
        return kernel_file_refuse(api, list,
                                  "is no .json file: cpuKernelMode wants the list of kernels");
    if (access(list, R_OK) != 0)
        return file_error(api, list, "cannot be read");
    n = snprintf(path, sizeof(path), "%.*s.so", (int)(dot - list), list);
    if (n < 0 || (size_t)n >= sizeof(path))
        return kernel_file_refuse(api, list, "is too long a path");
    return load_file(api, path, true, handle);
}

aclError aclrtBinaryLoadFromFile(const char *binPath, aclrtBinaryLoadOptions *options,
                                 aclrtBinHandle *binHandle)
{
    CALL_SCOPE;
    struct kernel_load o = {.file = true};

    RETURN_IF_ERROR(process_enter());
    REQUIRE(binPath);
    REQUIRE(binHandle);
    RETURN_IF_ERROR(kernel_file_read_options(__func__, options, &o));
    return o.cpu ? load_cpu_file(__func__, binPath, binHandle)
                 : load_file(__func__, binPath, false, binHandle);
}

static int load_data(const char *api, const void *data, size_t length,
                     const struct kernel_load *options, aclrtBinHandle *handle)
{
    struct image image = {
        .what = "the data", .bytes = data, .size = length, .magic = options->magic};

    if (length == 0)
        return error_set(ACL_ERROR_RT_PARAM_INVALID, "%s: length is 0", api);
    return load_image(api, &image, options->cpu, handle);
}

aclError aclrtBinaryLoadFromData(const void *data, size_t length,
                                 const aclrtBinaryLoadOptions *options, aclrtBinHandle *binHandle)
{
    CALL_SCOPE;
    struct kernel_load o = {.file = false};

    RETURN_IF_ERROR(process_enter());
    REQUIRE(data);
    REQUIRE(binHandle);
    RETURN_IF_ERROR(kernel_file_read_options(__func__, options, &o));
    return load_data(__func__, data, length, &o, binHandle);
}

/* --- unloading --- */

void kernel_binary_ref(struct kernel_binary *binary)
{
    if (binary)
        binary->refs++;
}

/* The library's destructors unregister its kernels, which takes the lock. */
void kernel_binary_unref(struct kernel_binary *binary)
{
    bool last;

    if (!binary)
        return;
    pthread_mutex_lock(&process->kernel_lock);
    last = --binary->refs == 0;
    if (last && binary->library)
        DL_DELETE(loaded, binary);
    pthread_mutex_unlock(&process->kernel_lock);
    if (!last)
        return;
    if (binary->image)
        kernel_image_free(binary->image);
    if (binary->library) {
        kernel_registry_drop_variables(binary);
        dlclose(binary->library);
    }
    put_binary(binary);
}

aclError aclrtBinaryUnLoad(aclrtBinHandle binHandle)
{
    CALL_SCOPE;
    struct kernel_binary *b;
    int error;

    RETURN_IF_ERROR(process_enter());
    pthread_mutex_lock(&process->kernel_lock);
    b = find_binary(__func__, binHandle, &error);
    if (b) {
        slots_unpublish(b);
        kernel_function_end_list(b->functions);
    }
    pthread_mutex_unlock(&process->kernel_lock);
    kernel_binary_unref(b);
    return error;
}

/* --- the older pair --- */

struct descriptor {
    void *data;
    size_t length;
};

aclrtBinary aclrtCreateBinary(const void *data, size_t dataLen)
{
    CALL_SCOPE;
    struct descriptor *d;

    if (!data) {
        error_null(__func__, "data");
        return NULL;
    }
    d = malloc(sizeof(*d));
    if (!d) {
        error_no_memory(__func__);
        return NULL;
    }
    *d = (struct descriptor){.data = (void *)(uintptr_t)data, .length = dataLen};
    return (aclrtBinary)d;
}

aclError aclrtDestroyBinary(aclrtBinary binary)
{
    CALL_SCOPE;

    REQUIRE(binary);
    free(binary);
    return 0;
}

aclError aclrtBinaryLoad(aclrtBinary binary, aclrtBinHandle *binHandle)
{
    CALL_SCOPE;
    const struct descriptor *d = (const void *)binary;

    REQUIRE(binary);
    REQUIRE(binHandle);
    FIND_OR_RETURN(context_get, __func__);
    return load_data(__func__, d->data, d->length, &(struct kernel_load){.file = false}, binHandle);
}

/* --- symbols. Without locks: the loader has its own, and may run code of the program --- */

/* It stays loaded until kernel_binary_unref(). NULL with *error set. */
static struct kernel_binary *hold_binary(const char *api, const void *handle, int *error)
{
    struct kernel_binary *b;

    pthread_mutex_lock(&process->kernel_lock);
    b = find_binary(api, handle, error);
    kernel_binary_ref(b);
    pthread_mutex_unlock(&process->kernel_lock);
    return b;
}

static struct link_map *map_of(const struct kernel_binary *b)
{
    struct link_map *map = NULL;

    return dlinfo(b->library, RTLD_DI_LINKMAP, &map) == 0 ? map : NULL;
}

/* NULL: there is none at this address. */
static const ElfW(Sym) * symbol_at(const void *address)
{
    const ElfW(Sym) *symbol = NULL;
    Dl_info info;

    return dladdr1(address, &info, (void **)&symbol, RTLD_DL_SYMENT) ? symbol : NULL;
}

/* A symbol of the binary itself, and not of a library that it is linked with; NULL: none. */
static void *find_symbol(const struct kernel_binary *b, const char *name, bool object, size_t *size)
{
    void *address = dlsym(b->library, name);
    const ElfW(Sym) *symbol = address ? symbol_at(address) : NULL;
    struct link_map *map = NULL;
    Dl_info info;

    if (!symbol || !dladdr1(address, &info, (void **)&map, RTLD_DL_LINKMAP) || map != map_of(b) ||
        (ELF64_ST_TYPE(symbol->st_info) == STT_OBJECT) != object)
        return NULL;
    if (size)
        *size = symbol->st_size;
    return address;
}

/* What the file would say, if it were known how: kernels of devices have no such thing here. */
static int check_own(const char *api, const struct kernel_binary *b)
{
    return b->library ? 0
                      : error_set(ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
                                  "%s: the binary is for a device that is not simulated, and npud "
                                  "does not read it",
                                  api);
}

/* The record that the library has registered, or what its symbols tell. The binary is held. */
static int find_kernel(const char *api, const struct kernel_binary *b, const char *name,
                       aclnpudKernel *kernel)
{
    const aclnpudKernel *k = kernel_registry_find(b, name, 0, NULL);

    if (k) {
        *kernel = *k;
        return 0;
    }
    *kernel = (aclnpudKernel){.size = sizeof(*kernel), .name = name};
    kernel->function = find_symbol(b, name, false, NULL);
    if (b->cpu)
        kernel->kind = ACL_KERNEL_TYPE_AICPU;
    if (kernel->function)
        return 0;
    return error_set(ACL_ERROR_RT_PARAM_INVALID,
                     "%s: the binary has no kernel %s: a kernel that is not extern \"C\" has its "
                     "mangled name",
                     api, name);
}

/* --- what is in them --- */

/*
 * A kernel of the binary, which may have been unloaded meanwhile. number: of one that devices have.
 */
static int get_numbered(const char *api, const void *binary, const aclnpudKernel *kernel,
                        uint32_t number, aclrtFuncHandle *handle)
{
    struct kernel_function *f = NULL;
    struct kernel_binary *b;
    int error;

    pthread_mutex_lock(&process->kernel_lock);
    b = find_binary(api, binary, &error);
    if (b)
        f = kernel_function_get(api, b, &b->functions, kernel, &error);
    if (f) {
        f->number = number;
        *handle = handle_of(HANDLE_FUNCTION, f);
    }
    pthread_mutex_unlock(&process->kernel_lock);
    return error == ACL_ERROR_RT_CONTEXT_NULL ? ACL_ERROR_RT_PARAM_INVALID : error;
}

static int get_function(const char *api, const void *binary, const aclnpudKernel *kernel,
                        aclrtFuncHandle *handle)
{
    return get_numbered(api, binary, kernel, 0, handle);
}

/* One that the current context's device has, or gets. The binary is held. */
static int get_device_function(const char *api, const void *binary, struct kernel_binary *b,
                               const char *name, aclrtFuncHandle *handle)
{
    aclnpudKernel kernel = {.size = sizeof(kernel), .name = name};
    struct context *c;
    uint32_t number;
    int error;

    c = context_get(api, &error);
    if (!c)
        return error == ACL_ERROR_RT_CONTEXT_NULL ? ACL_ERROR_RT_PARAM_INVALID : error;
    if (!are_devices_away(c->session))
        return error_set(ACL_ERROR_RT_PARAM_INVALID,
                         "%s: the binary was loaded when other devices were there: load it again",
                         api);
    RETURN_IF_ERROR(kernel_image_look_up(api, b->image, c, name, &b->functions, &number));
    return get_numbered(api, binary, &kernel, number, handle);
}

aclError aclrtBinaryGetFunction(aclrtBinHandle binHandle, const char *kernelName,
                                aclrtFuncHandle *funcHandle)
{
    CALL_SCOPE;
    aclnpudKernel kernel;
    struct kernel_binary *b;
    int error;

    REQUIRE(binHandle);
    REQUIRE(kernelName);
    REQUIRE(funcHandle);
    b = FIND_OR_RETURN(hold_binary, __func__, binHandle);
    if (b->image) {
        error = get_device_function(__func__, binHandle, b, kernelName, funcHandle);
    } else {
        error = find_kernel(__func__, b, kernelName, &kernel);
        if (error == 0)
            error = get_function(__func__, binHandle, &kernel, funcHandle);
    }
    kernel_binary_unref(b);
    return error;
}

int kernel_binary_find_entry(const char *api, aclrtBinHandle handle, uint64_t entry,
                             struct kernel_launch *launch)
{
    struct kernel_binary *b = FIND_OR_RETURN(hold_binary, api, handle);
    const aclnpudKernel *k = NULL;

    if (!b->cpu && entry != 0)
        k = kernel_registry_find(b, NULL, entry, NULL);
    if (k) {
        launch->kernel = k;
        launch->binary = b;
        return 0;
    }
    kernel_binary_unref(b);
    return error_set(ACL_ERROR_RT_PARAM_INVALID, "%s: no kernel of the binary has entry %llu", api,
                     (unsigned long long)entry);
}

aclError aclrtBinaryGetFunctionByEntry(aclrtBinHandle binHandle, uint64_t funcEntry,
                                       aclrtFuncHandle *funcHandle)
{
    CALL_SCOPE;
    const aclnpudKernel *k = NULL;
    struct kernel_binary *b;
    int error;

    REQUIRE(binHandle);
    REQUIRE(funcHandle);
    b = FIND_OR_RETURN(hold_binary, __func__, binHandle);
    error = check_own(__func__, b);
    if (error == 0 && !b->cpu && funcEntry != 0)
        k = kernel_registry_find(b, NULL, funcEntry, NULL);
    if (k)
        error = get_function(__func__, binHandle, k, funcHandle);
    else if (error == 0)
        error = error_set(ACL_ERROR_RT_PARAM_INVALID,
                          "aclrtBinaryGetFunctionByEntry: no kernel of the binary has entry %llu",
                          (unsigned long long)funcEntry);
    kernel_binary_unref(b);
    return error;
}

aclError aclrtBinaryGetFunctionCount(aclrtBinHandle binHandle, uint32_t *count)
{
    CALL_SCOPE;
    struct kernel_binary *b;
    int error;

    REQUIRE(binHandle);
    REQUIRE(count);
    b = FIND_OR_RETURN(hold_binary, __func__, binHandle);
    error = check_own(__func__, b);
    if (error == 0)
        *count = (uint32_t)kernel_registry_list(b, NULL, 0);
    kernel_binary_unref(b);
    return error;
}

static int compare_names(const void *a, const void *b)
{
    const aclnpudKernel *const *x = a, *const *y = b;

    return strcmp((*x)->name, (*y)->name);
}

/* The binary is held, and its kernels with it. */
static int enumerate(const char *api, aclrtBinHandle handle, const struct kernel_binary *b,
                     aclrtFuncHandle *functions, uint32_t count)
{
    size_t most = kernel_registry_list(b, NULL, 0), n;
    const aclnpudKernel **list = calloc(most + 1, sizeof(const aclnpudKernel *));
    int error = 0;

    if (!list)
        return error_no_memory(api);
    n = kernel_registry_list(b, list, most);
    if (n > most)
        n = most;
    qsort(list, n, sizeof(const aclnpudKernel *), compare_names);
    for (uint32_t i = 0; i < count && error == 0; i++) {
        functions[i] = NULL;
        if (i < n)
            error = get_function(api, handle, list[i], &functions[i]);
    }
    free(list);
    return error;
}

aclError aclrtBinaryEnumerateFunctions(aclrtBinHandle binHandle, aclrtFuncHandle *functions,
                                       uint32_t count)
{
    CALL_SCOPE;
    struct kernel_binary *b;
    int error;

    REQUIRE(binHandle);
    REQUIRE(functions);
    if (count == 0)
        return error_set(ACL_ERROR_RT_PARAM_INVALID, "%s: count is 0", __func__);
    b = FIND_OR_RETURN(hold_binary, __func__, binHandle);
    error = check_own(__func__, b);
    if (error == 0)
        error = enumerate(__func__, binHandle, b, functions, count);
    kernel_binary_unref(b);
    return error;
}

/* The function of this name that was registered before. */
static bool find_registered(struct kernel_binary *b, const char *name, aclnpudKernel *kernel)
{
    struct kernel_function *f;

    pthread_mutex_lock(&process->kernel_lock);
    LL_FOREACH (b->functions, f)
        if (strcmp(f->name, name) == 0)
            break;
    if (f)
        *kernel = f->kernel;
    pthread_mutex_unlock(&process->kernel_lock);
    return f != NULL;
}

/* The binary is held. */
static int register_function(const char *api, aclrtBinHandle handle, struct kernel_binary *b,
                             const char *function, const char *name, aclrtFuncHandle *result)
{
    aclnpudKernel kernel;

    if (!b->cpu)
        return error_set(ACL_ERROR_RT_PARAM_INVALID,
                         "%s: the binary was not loaded with cpuKernelMode", api);
    if (!find_registered(b, name, &kernel)) {
        RETURN_IF_ERROR(find_kernel(api, b, function, &kernel));
        kernel.kind = ACL_KERNEL_TYPE_AICPU;
        kernel.name = name;
    }
    return get_function(api, handle, &kernel, result);
}

aclError aclrtRegisterCpuFunc(aclrtBinHandle handle, const char *funcName, const char *kernelName,
                              aclrtFuncHandle *funcHandle)
{
    CALL_SCOPE;
    struct kernel_binary *b;
    int error;

    REQUIRE(handle);
    REQUIRE(funcName);
    REQUIRE(kernelName);
    REQUIRE(funcHandle);
    b = FIND_OR_RETURN(hold_binary, __func__, handle);
    error = register_function(__func__, handle, b, funcName, kernelName, funcHandle);
    kernel_binary_unref(b);
    return error;
}

/* --- addresses --- */

struct extent {
    ElfW(Addr) base;
    size_t size;
};

static int measure_object(struct dl_phdr_info *info, size_t size, void *data)
{
    struct extent *e = data;

    (void)size;
    if (info->dlpi_addr != e->base)
        return 0;
    for (int i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_LOAD)
            e->size = info->dlpi_phdr[i].p_vaddr + info->dlpi_phdr[i].p_memsz;
    return 1;
}

aclError aclrtBinaryGetDevAddress(aclrtBinHandle binHandle, void **binAddr, size_t *binSize)
{
    CALL_SCOPE;
    struct extent extent = {0};
    struct kernel_binary *b;
    struct link_map *map = NULL;
    int error;

    REQUIRE(binHandle);
    REQUIRE(binAddr);
    REQUIRE(binSize);
    b = FIND_OR_RETURN(hold_binary, __func__, binHandle);
    error = check_own(__func__, b);
    if (error == 0)
        map = map_of(b);
    if (map) {
        extent.base = map->l_addr;
        dl_iterate_phdr(measure_object, &extent);
        *binAddr = (void *)map->l_addr;
        *binSize = extent.size;
    }
    kernel_binary_unref(b);
    return error;
}

size_t kernel_code_size(const void *function)
{
    const ElfW(Sym) *symbol = symbol_at(function);

    return symbol ? symbol->st_size : 0;
}

/*
 * A symbol, or a variable that is registered: one that is static has no symbol. Copies find what
 * was asked for. The binary is held.
 */
static int find_global(const char *api, const struct kernel_binary *b, const char *name,
                       void **address, size_t *size)
{
    aclnpudVariable v;

    *address = find_symbol(b, name, true, size);
    if (!*address && kernel_registry_find_variable(b, name, NULL, &v)) {
        *address = v.address;
        *size = v.bytes;
        return 0;
    }
    if (!*address)
        return error_set(ACL_ERROR_RT_PARAM_INVALID, "%s: the binary has no global object %s", api,
                         name);
    return kernel_registry_add_variable(b, *address, *size) ? 0 : error_no_memory(api);
}

aclError aclrtBinaryGetGlobal(aclrtBinHandle binHandle, const char *name, void **dptr, size_t *size)
{
    CALL_SCOPE;
    struct kernel_binary *b;
    void *address;
    size_t bytes;
    int error;

    REQUIRE(binHandle);
    REQUIRE(name);
    if (!dptr && !size)
        return error_set(ACL_ERROR_INVALID_PARAM, "%s: dptr and size are NULL", __func__);
    b = FIND_OR_RETURN(hold_binary, __func__, binHandle);
    error = check_own(__func__, b);
    if (error == 0)
        error = find_global(__func__, b, name, &address, &bytes);
    kernel_binary_unref(b);
    if (error != 0)
        return error;
    if (dptr)
        *dptr = address;
    if (size)
        *size = bytes;
    return 0;
}

/* --- failures --- */

aclError aclrtBinarySetExceptionCallback(aclrtBinHandle binHandle,
                                         aclrtOpExceptionCallback callback, void *userData)
{
    CALL_SCOPE;
    struct kernel_binary *b;
    int error;

    REQUIRE(binHandle);
    REQUIRE(callback);
    pthread_mutex_lock(&process->kernel_lock);
    b = find_binary(__func__, binHandle, &error);
    if (b) {
        b->callback = callback;
        b->callback_data = userData;
    }
    pthread_mutex_unlock(&process->kernel_lock);
    return error != 0 ? error : exception_want(__func__);
}

void kernel_binary_tell(aclrtBinHandle handle, aclrtExceptionInfo *info)
{
    aclrtOpExceptionCallback callback = NULL;
    struct kernel_binary *b;
    void *data = NULL;

    pthread_mutex_lock(&process->kernel_lock);
    b = peek_binary(handle);
    if (b) {
        callback = b->callback;
        data = b->callback_data;
    }
    pthread_mutex_unlock(&process->kernel_lock);
    if (callback)
        callback(info, data);
}
