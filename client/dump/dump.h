/*
 * Dumps (include/acl/acl_dump.h): what is written of kernels that have failed, of tensors that the
 * program gives, and of the arguments of kernels that are launched. What is on is decided by the
 * configuration of aclInit, the environment, aclmdlSetDump and aclopStartDumpArgs; files, or pieces
 * for the program's function, are made by the thread that dumps.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "acl/acl.h"
#include "acl/acl_dump.h"

/** Described in client/core/upcall.h. */
int dump_configure(const char *text);
void dump_unconfigure(void);

/** What is on, bits: 1 << enum acldumpType, and DUMP_ARGS. Relaxed: a call beside a change sees
 * either. */
#define DUMP_ARGS (1u << 16) /* aclopStartDumpArgs */
#define DUMP_EXCEPTION                                                                             \
    (1u << AIC_ERR_BRIEF_DUMP | 1u << AIC_ERR_NORM_DUMP | 1u << AIC_ERR_DETAIL_DUMP)
extern _Atomic uint32_t dump_on;

static inline uint32_t dump_is_on(uint32_t bits)
{
    return atomic_load_explicit(&dump_on, memory_order_relaxed) & bits;
}

/** A kernel that has failed. */
struct dump_failure {
    const char *kernel;     /* its name */
    const char *binary;     /* file that it was loaded from: copied beside; NULL: none */
    int32_t device;         /* as the program numbers it */
    int32_t stream;         /* id */
    uint32_t task;          /* id */
    int32_t code;           /* ACL error code */
    uint32_t block, blocks; /* the one that has failed, of how many */
    const void *address;    /* of the fault; NULL: none is known */
    const void *args;       /* as they were at the launch: memory of the library */
    size_t args_size;
};

/**
 * Write `exception_info.<stream>.<task>.<milliseconds>` about it, if an exception dump is on: what
 * it was, and its arguments; unless the dump is brief, also the memory that words of the arguments
 * are addresses of, to the end of its allocation. In any thread, without locks, also one that the
 * library has made, and before the exception callback is called. What cannot be written is told to
 * nobody. Costs one load when nothing is on.
 */
void dump_kernel_failure_slow(const struct dump_failure *f) __attribute__((cold));
static inline void dump_kernel_failure(const struct dump_failure *f)
{
    if (__builtin_expect(dump_is_on(DUMP_EXCEPTION), 0))
        dump_kernel_failure_slow(f);
}

/**
 * A kernel, or operator, is launched with these arguments: between aclopStartDumpArgs and
 * aclopStopDumpArgs, one file for each name and size, `<path>/<name>.<size>.args`. tensors: that it
 * works on, if they are known; only described. Without locks.
 */
void dump_kernel_args_slow(const char *name, const void *args, size_t size,
                           const acldumpTensorInfo *tensors, size_t n) __attribute__((cold));
static inline void dump_kernel_args(const char *name, const void *args, size_t size,
                                    const acldumpTensorInfo *tensors, size_t n)
{
    if (__builtin_expect(dump_is_on(DUMP_ARGS), 0))
        dump_kernel_args_slow(name, args, size, tensors, n);
}

/** A kernel that runs. */
struct dump_kernel {
    const char *name;
    uint64_t model;     /* id of the graph that it is in; 0: none */
    uint64_t execution; /* of that graph, from 0 */
    uint32_t call;      /* which of the graph's calls it is */
    int32_t device;     /* as the program numbers it */
    int32_t stream;     /* id */
    uint32_t task;      /* id */
    const void *args;
    size_t args_size;
};
enum dump_when { DUMP_INPUT, DUMP_OUTPUT }; /* before it has begun, after it has ended well */

/**
 * A dump of data is on: write what the configuration asks for of this kernel, a file with its
 * arguments and the memory that words of them are addresses of. As dump_kernel_failure() otherwise.
 */
void dump_kernel_data_slow(const struct dump_kernel *k, enum dump_when when) __attribute__((cold));

/* --- within the room --- */

struct cJSON;

/** Does `object`, the `dump` of a configuration, ask for it? model_name "": it has none. */
bool dump_data_has(const struct cJSON *object, const struct dump_kernel *k, const char *model_name,
                   enum dump_when when);

/** Does the one in force? root: of ACL_DUMP_MAX_FILE_PATH_LENGTH. */
bool dump_take_data(const struct dump_kernel *k, const char *model_name, enum dump_when when,
                    char *root, bool *with_bytes);

/** `<root>/extra-info/data-dump/<device>/`, with the slash. False: it does not fit. */
bool dump_exception_folder(int32_t device, char *path, size_t size);

/** The folder of aclopStartDumpArgs, if this name and size come for the first time. */
bool dump_take_args(const char *name, size_t size, char *path, size_t path_size);
