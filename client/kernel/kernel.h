/*
 * Kernels as the library has them: functions that are known by a handle, the binaries that they are
 * in, and launches. A kernel is host code (include/acl/acl_npud_kernel.h), which
 * client/kernel/kernel_run.c runs; docs/kernels.md has the picture.
 *
 * Binaries and functions belong to the process and outlive sessions. process->kernel_lock guards
 * them; the loader is not called under it, as constructors may call the library. A binary that was
 * unloaded stays until the last launch of it has run, and so do the names of its functions.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "acl/acl.h"
#include "acl/acl_npud_kernel.h"
#include "client/core/process.h"
#include "proto/util/slots.h"

struct context;
struct kernel_binary;
struct kernel_image;
struct kernel_launch;
struct session;
struct stream_work;

/** Its handle goes with its binary, or never. */
struct kernel_function {
    struct slot slot;
    aclnpudKernel kernel;
    char *name;                   /* kernel.name */
    struct kernel_binary *binary; /* NULL: of a library that the program is linked with */
    struct kernel_function *next; /* of the binary, or of none */
    uint32_t number;              /* of one that devices have: kernel_image.h */
    /* It may be launched on these devices, where it was looked up, while this session lasts. */
    uint64_t session;
    uint32_t devices;
};

/* --- client/kernel/kernel_registry.c: what compiled libraries have registered --- */

/**
 * What the calling thread registers from here on belongs to the binary, which it loads; NULL: to
 * none. Returns what it belonged to before: a constructor of a binary may load another one.
 */
const struct kernel_binary *kernel_registry_begin(const struct kernel_binary *binary);

/**
 * The kernel of the binary (NULL: of none) with this name, or if that is NULL this entry, or if
 * that is 0 too, of this function (of any binary); NULL: there is none. Under kernel_lock.
 */
const aclnpudKernel *kernel_registry_find(const struct kernel_binary *binary, const char *name,
                                          uint64_t entry, const void *function);

/**
 * The kernels of the binary, in the order in which they were registered: at most so many into the
 * list, which may be NULL if that is 0. Returns how many there are.
 */
size_t kernel_registry_list(const struct kernel_binary *binary, const aclnpudKernel **list,
                            size_t most);

/**
 * The variable of the binary (NULL: of none) with this name, or if that is NULL the one at this
 * address, of any binary. False: there is none. Any locks.
 */
bool kernel_registry_find_variable(const struct kernel_binary *binary, const char *name,
                                   const void *address, aclnpudVariable *variable);

/**
 * Are these bytes in a variable? Then they are used like registered memory
 * (client/memory/registration.h). Any locks.
 */
bool kernel_registry_holds(const void *address, size_t count);

/** The binary has such a variable, if its library has registered none there. False: no memory. */
bool kernel_registry_add_variable(const struct kernel_binary *binary, void *address, size_t bytes);
/** The binary is about to be unloaded: it has no variables any more. */
void kernel_registry_drop_variables(const struct kernel_binary *binary);

/* --- client/kernel/kernel_function.c --- */

/** The function that a handle names. NULL with *error set: 100000, 107017. Under kernel_lock. */
struct kernel_function *kernel_function_find(const char *api, const void *handle, int *error);

/**
 * The same for what is a handle or the address of a kernel: 107044 if it is neither. Under
 * kernel_lock.
 */
struct kernel_function *kernel_function_find_any(const char *api, const void *symbol, int *error);

/**
 * Have use() look at a function, by its handle or its address, that says what its parameters are.
 * 0, what use() returns, those of kernel_function_find_any(), 207000 of a CPU's kernel, or 107000:
 * it does not say. Takes kernel_lock.
 */
int kernel_function_parameters(const char *api, const void *func,
                               int (*use)(const char *api, const struct kernel_function *f,
                                          void *context),
                               void *context);

/**
 * The handle of this kernel in the list of a binary, made on first use, and launchable on the
 * current device. NULL with *error set: no context, no memory. Under kernel_lock.
 */
struct kernel_function *kernel_function_get(const char *api, struct kernel_binary *binary,
                                            struct kernel_function **list,
                                            const aclnpudKernel *kernel, int *error);

/** The functions of a binary that was unloaded: their handles are stale. Under kernel_lock. */
void kernel_function_end_list(struct kernel_function *list);
/** After that, when no launch of them is left. Under kernel_lock. */
void kernel_function_free_list(struct kernel_function *list);

/* --- client/kernel/kernel_binary.c --- */

/** A launch keeps it loaded until kernel_binary_unref(). NULL is ignored. Under kernel_lock. */
void kernel_binary_ref(struct kernel_binary *binary);
/** Without kernel_lock. */
void kernel_binary_unref(struct kernel_binary *binary);

/** Call the exception callback of the binary with this handle, if it has one. Without locks. */
void kernel_binary_tell(aclrtBinHandle handle, aclrtExceptionInfo *info);

/** Its file, if devices have its kernels; NULL: this process runs them, or it is of none. */
const struct kernel_image *kernel_binary_image(const struct kernel_binary *binary);

/** Its handle, for a function of it. */
aclrtBinHandle kernel_binary_handle(struct kernel_binary *binary);

/**
 * The kernel with this entry of the binary with this handle becomes that of the launch, with a
 * reference to the binary. 0, 100000, 107017, or 107000: there is none.
 */
int kernel_binary_find_entry(const char *api, aclrtBinHandle handle, uint64_t entry,
                             struct kernel_launch *launch);

/** Bytes of the code at this address of a library that is loaded; 0: it is not known. */
size_t kernel_code_size(const void *function);

/* --- client/kernel/kernel_config.c --- */

/** What attributes of a launch ask for. */
struct kernel_config {
    uint64_t limit_ns; /* 0: no limit */
    /* Kept to be asked for: they change nothing. */
    uint32_t ubuf_size;
    uint8_t schem_mode, data_dump, profiling;
};

/** Of a launch: cfg NULL is that of the process. 0, or 107000. */
int kernel_config_read(const char *api, const aclrtLaunchKernelCfg *cfg,
                       struct kernel_config *config);
/** One of them. False: none of this id is kept. */
bool kernel_config_get(const struct kernel_config *config, unsigned id,
                       aclrtLaunchKernelAttrValue *value);

/* --- client/kernel/kernel_task.c: launches --- */

/** Threads in a launch of its own kind: what `blocks` and the attributes say does not count. */
struct kernel_simt {
    uint32_t grid[3], threads[3];
    uint32_t shared_bytes;
};

struct kernel_launch {
    const aclnpudKernel *kernel;
    const struct kernel_function *function; /* NULL: it was launched by its record */
    struct kernel_binary *binary;           /* a reference, which a launch takes over; NULL: none */
    uint32_t blocks;
    const struct kernel_simt *simt; /* NULL: blocks of one thread */
    struct kernel_config config;
    const void *args; /* on the host: copied at the launch */
    size_t size;
    const void *device_args; /* or NULL: device memory of this size, read when the kernel begins */
    /* Of args: where the address of other bytes in args stands. Checked by the caller. */
    const aclrtPlaceHolderInfo *placeholders;
    size_t n_placeholders;
};

/**
 * A kernel of a graph with the arguments and attributes of `of`, which is one; the launch says
 * which kernel and how many blocks, and its reference to the binary becomes the new one's. NULL
 * with *error set.
 */
struct stream_work *kernel_task_replace(const struct stream_work *of, const char *api,
                                        struct kernel_launch *launch, int *error);

typedef struct kernel_function *kernel_find_fn(const char *api, const void *func, int *error);

/**
 * What func is becomes that of the launch, with a reference to its binary; copy: room for it. 0, or
 * an error. Takes kernel_lock. In client/kernel/kernel_launch.c.
 */
int kernel_launch_find(const char *api, const void *func, kernel_find_fn *find,
                       struct kernel_launch *launch, struct kernel_function *copy);

/**
 * Launch. 0, or an ACL error: 107000 for a number of blocks, those of a stream, 107017 on a device
 * where the function was not looked up. The reference to the binary is given back in each case.
 */
int kernel_launch(const char *api, const struct kernel_launch *launch, aclrtStream stream);
