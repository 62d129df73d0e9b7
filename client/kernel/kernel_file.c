#include "client/kernel/kernel_file.h"

#include <cjson/cJSON.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "client/core/error.h"
#include "proto/util/lift_fd.h"

#if defined(__x86_64__)
#define HOST_MACHINE EM_X86_64
#elif defined(__aarch64__)
#define HOST_MACHINE EM_AARCH64
#elif defined(__riscv)
#define HOST_MACHINE EM_RISCV
#else
#error "which machine is this?"
#endif

int kernel_file_refuse(const char *api, const char *what, const char *why)
{
    return error_set(ACL_ERROR_RT_PARAM_INVALID, "%s: %s %s", api, what, why);
}

int kernel_file_check(const char *api, const char *what, const void *image, size_t size)
{
    Elf64_Ehdr h;

    if (size < sizeof(h) || memcmp(image, ELFMAG, SELFMAG) != 0)
        return kernel_file_refuse(api, what, "is no ELF file");
    memcpy(&h, image, sizeof(h));
    if (h.e_ident[EI_CLASS] != ELFCLASS64)
        return kernel_file_refuse(api, what, "is an ELF file of 32 bits");
    if (h.e_ident[EI_DATA] != ELFDATA2LSB || h.e_machine != HOST_MACHINE)
        return error_set(ACL_ERROR_RT_PARAM_INVALID,
                         "%s: %s is code for another machine (ELF machine %u, this one is %u): "
                         "kernels run on the host here, so build it for the host, with "
                         "ascendc_library() or ascendc_fatbin_library() of npud's toolkit tree",
                         api, what, h.e_ident[EI_DATA] == ELFDATA2LSB ? h.e_machine : 0u,
                         (unsigned)HOST_MACHINE);
    if (h.e_type != ET_DYN)
        return kernel_file_refuse(api, what,
                                  "is no shared object: link it with -shared, or build it with "
                                  "ascendc_fatbin_library()");
    return 0;
}

/* --- the file beside it: same name, with .json --- */

#define SIDE_MAX (1u << 20)

static bool side_path(const char *path, char *side, size_t size)
{
    const char *name = strrchr(path, '/'), *dot = strrchr(name ? name : path, '.');
    int length = dot ? (int)(dot - path) : (int)strlen(path);
    int n = snprintf(side, size, "%.*s.json", length, path);

    return n > 0 && (size_t)n < size;
}

/* NULL: there is none, or it is no JSON. */
static cJSON *read_side(const char *path)
{
    char side[PATH_MAX], *text = NULL;
    cJSON *root = NULL;
    ssize_t n;
    int fd = -1;

    if (side_path(path, side, sizeof(side)))
        fd = lift_fd(open(side, O_RDONLY | O_CLOEXEC));
    if (fd >= 0)
        text = malloc(SIDE_MAX);
    n = text ? read(fd, text, SIDE_MAX) : 0;
    if (n > 0)
        root = cJSON_ParseWithLength(text, (size_t)n);
    free(text);
    if (fd >= 0)
        close(fd);
    return root;
}

uint32_t kernel_file_side_magic(const char *path)
{
    static const struct {
        const char *name;
        uint32_t magic;
    } names[] = {
        {"RT_DEV_BINARY_MAGIC_ELF", ACL_RT_BINARY_MAGIC_ELF_AICORE},
        {"RT_DEV_BINARY_MAGIC_ELF_AIVEC", ACL_RT_BINARY_MAGIC_ELF_VECTOR_CORE},
        {"RT_DEV_BINARY_MAGIC_ELF_AICUBE", ACL_RT_BINARY_MAGIC_ELF_CUBE_CORE},
    };
    cJSON *root = read_side(path);
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(root, "magic");
    uint32_t magic = 0;

    for (size_t i = 0; cJSON_IsString(item) && i < sizeof(names) / sizeof(names[0]); i++)
        if (strcmp(item->valuestring, names[i].name) == 0)
            magic = names[i].magic;
    cJSON_Delete(root);
    return magic;
}

/* --- a file of the memory --- */

static int write_all(int fd, const char *bytes, size_t size)
{
    while (size > 0) {
        ssize_t n = write(fd, bytes, size);

        if (n < 0 && errno != EINTR)
            return -errno;
        if (n > 0) {
            bytes += n;
            size -= (size_t)n;
        }
    }
    return 0;
}

/*
 * A path of the descriptor that the loader has not seen before: it takes a library for loaded that
 * has the same name, and descriptors come again. "/" and "/." are the bits of a number.
 */
static void name_descriptor(int fd, char *path, size_t size)
{
    static _Atomic uint32_t number;
    uint32_t rest = atomic_fetch_add_explicit(&number, 1, memory_order_relaxed);
    size_t n = (size_t)snprintf(path, size, "/proc/self");

    for (int bit = 0; bit < 32; bit++)
        n += (size_t)snprintf(path + n, size - n, "%s", rest >> bit & 1 ? "/." : "/");
    snprintf(path + n, size - n, "/fd/%d", fd);
}

int kernel_file_make(const void *image, size_t size, char *path)
{
    int fd = lift_fd(memfd_create("npud-kernels", MFD_CLOEXEC | MFD_ALLOW_SEALING));

    if (fd < 0)
        return -1;
    name_descriptor(fd, path, KERNEL_FILE_PATH);
    if (write_all(fd, image, size) == 0 &&
        fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0)
        return fd;
    close(fd);
    return -1;
}

/* --- options --- */

static bool is_magic(uint32_t magic)
{
    return magic == ACL_RT_BINARY_MAGIC_ELF_AICORE ||
           magic == ACL_RT_BINARY_MAGIC_ELF_VECTOR_CORE ||
           magic == ACL_RT_BINARY_MAGIC_ELF_CUBE_CORE;
}

/* NULL, or what is wrong with it. */
static const char *read_option(const aclrtBinaryLoadOption *o, struct kernel_load *options)
{
    switch (o->type) {
    case ACL_RT_BINARY_LOAD_OPT_LAZY_LOAD:
        return o->value.isLazyLoad > 1 ? "isLazyLoad must be 0 or 1" : NULL;
    case ACL_RT_BINARY_LOAD_OPT_MAGIC:
        if (options->file)
            return "the magic of a file is in the JSON file beside it, and no option";
        options->magic = o->value.magic;
        return is_magic(o->value.magic) ? NULL : "magic is none of ACL_RT_BINARY_MAGIC_ELF_*";
    case ACL_RT_BINARY_LOAD_OPT_CPU_KERNEL_MODE:
        options->cpu = true;
        options->cpu_mode = o->value.cpuKernelMode;
        if (options->file)
            return options->cpu_mode == 0 || options->cpu_mode == 1
                       ? NULL
                       : "cpuKernelMode must be 0 or 1 for a file";
        return options->cpu_mode == 2 ? NULL : "cpuKernelMode must be 2 for data";
    default:
        return "its type is not known";
    }
}

int kernel_file_read_options(const char *api, const aclrtBinaryLoadOptions *list,
                             struct kernel_load *options)
{
    if (!list)
        return 0;
    if (!list->options)
        return error_set(ACL_ERROR_RT_PARAM_INVALID, "%s: options->options is NULL", api);
    for (size_t i = 0; i < list->numOpt; i++) {
        const char *wrong = read_option(&list->options[i], options);

        if (wrong)
            return error_set(ACL_ERROR_RT_PARAM_INVALID, "%s: option %zu: %s", api, i, wrong);
    }
    return 0;
}
