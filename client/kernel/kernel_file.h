/* Files of binaries: what they are, and with what options they are loaded. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "acl/acl.h"

/** 107000, with a sentence: what (a path, or "the data") is not as it must be. */
int kernel_file_refuse(const char *api, const char *what, const char *why);
/** An ELF shared object of this machine? 0, or an error that says what it is instead. */
int kernel_file_check(const char *api, const char *what, const void *image, size_t size);

/**
 * What the JSON file beside a file says that its kernels are for (ACL_RT_BINARY_MAGIC_*). 0: there
 * is none, or it does not say.
 */
uint32_t kernel_file_side_magic(const char *path);

#define KERNEL_FILE_PATH 128
/** A sealed file with these bytes, and a path of it. -1: no memory or no descriptor is left. */
int kernel_file_make(const void *image, size_t size, char *path);

/** What options ask for. The caller says whether it is a file, or data. */
struct kernel_load {
    bool file;
    bool cpu;
    int cpu_mode;
    uint32_t magic;
};

/** 0, or 107000. */
int kernel_file_read_options(const char *api, const aclrtBinaryLoadOptions *list,
                             struct kernel_load *options);
