/*
 * Kernels that are host code: how a compiled kernel tells npud's library what it is, and what code
 * inside a kernel may ask. Programs rarely use this themselves: ascendc_library() of the toolkit
 * tree's CMake files writes the calls, and aclrtLaunchKernel*() launch what aclrtBinaryLoad*() has
 * loaded. All names begin with aclnpud; npud adds them to the common interface.
 *
 * A kernel runs in the process that launches it, on threads of the library, in the order of its
 * stream: a debugger, a sanitizer and a profiler see it like any other function.
 */
#ifndef ACL_ACL_NPUD_KERNEL_H
#define ACL_ACL_NPUD_KERNEL_H

#include "acl_rt.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Where a parameter lies in the block of arguments, in bytes. */
typedef struct aclnpudKernelParam {
    uint32_t offset;
    uint32_t size;
} aclnpudKernelParam;

/*
 * A kernel. Arguments are one block of bytes: each parameter begins at a multiple of 8, in the
 * order of the declaration, and takes its size, rounded up to 8.
 */
typedef struct aclnpudKernel {
    uint32_t size;        /* sizeof(aclnpudKernel): it may grow with versions */
    aclrtKernelType kind; /* decides the codes of its failures */
    uint64_t entry;       /* what aclrtBinaryGetFunctionByEntry() looks for; 0: none */
    /* What aclrtBinaryGetFunction() looks for, and what traces and failures show. */
    const char *name;
    const void *function; /* what aclrtGetFuncBySymbol() looks for */
    /*
     * Calls the function for one block, with arguments from the block `args`, which all blocks of a
     * launch share and none may write. NULL: the function takes integers and pointers alone, and is
     * called with the 8-byte words of args, at most 128.
     */
    void (*call)(const void *function, const void *args);
    const aclnpudKernelParam *params; /* NULL: not known */
    uint32_t paramCount;
    uint32_t argsSize; /* of all parameters; 0 if they are not known */
} aclnpudKernel;

/*
 * Make the kernel known: by a constructor of the library or program that has it. The record and
 * what it points to stay until aclnpudKernelUnregister(), which a destructor calls. What is
 * registered while aclrtBinaryLoad*() loads a binary belongs to that binary. Any thread; neither
 * needs aclInit. A second registration of the same record, and the end of one that is not
 * registered, change nothing. Without memory the kernel stays unknown.
 */
ACL_FUNC_VISIBILITY void aclnpudKernelRegister(const aclnpudKernel *kernel);
ACL_FUNC_VISIBILITY void aclnpudKernelUnregister(const aclnpudKernel *kernel);

/* A variable of kernels: with __gm__, outside of functions. */
typedef struct aclnpudVariable {
    uint32_t size;     /* sizeof(aclnpudVariable): it may grow with versions */
    uint32_t readOnly; /* 1: it is const, and aclrtMemcpyToSymbol() refuses to write it */
    const char *name;  /* what aclrtBinaryGetGlobal() looks for if there is no such symbol */
    void *address;     /* what the functions for symbols look for */
    size_t bytes;
} aclnpudVariable;

/*
 * Make the variable known, as kernels are made known: the functions for symbols find it by its
 * address, and to copies, fills and words it is memory of each device. Without memory, and with a
 * name or an address that is NULL or 0 bytes, it stays unknown.
 */
ACL_FUNC_VISIBILITY void aclnpudVariableRegister(const aclnpudVariable *variable);
ACL_FUNC_VISIBILITY void aclnpudVariableUnregister(const aclnpudVariable *variable);

/*
 * Launch a kernel, registered or not: the record is copied, but for what it points to. What
 * `<<<blocks, l2, stream>>>` becomes. `size` bytes of arguments are copied before the call returns;
 * args may be NULL if size is 0. Asynchronous; a failure shows at the next synchronise. stream
 * NULL is the default stream of the current context.
 * Errors: kernel, its name or its function NULL 100000; blocks 0 or above 65535, or args NULL with
 * a size, 107000; no context 107002; stream of another context 107003; stale or wrong stream
 * handle 107017; no memory or no thread 207001.
 */
ACL_FUNC_VISIBILITY aclError aclnpudLaunchKernel(const aclnpudKernel *kernel, uint32_t blocks,
                                                 const void *args, size_t size, aclrtStream stream);

/* --- inside a kernel. None of these needs a context, and none fails --- */

/* The block that the calling thread runs. Outside a kernel: index 0 of 1. */
typedef struct aclnpudBlock {
    uint32_t index;    /* GetBlockIdx() */
    uint32_t num;      /* GetBlockNum() */
    uint32_t subIndex; /* always 0: cube and vector halves of a block are one thread */
    uint32_t subNum;   /* always 1 */
} aclnpudBlock;

/* Valid in the calling thread until the block ends. */
ACL_FUNC_VISIBILITY const aclnpudBlock *aclnpudBlockSelf(void);

/*
 * Wait until all blocks of the launch have come here as often as this one. At most 128 blocks may
 * wait for each other: in a launch of more, the kernel fails as by a trap. A block that returns
 * counts as having come. Outside a kernel: returns at once.
 */
ACL_FUNC_VISIBILITY void aclnpudBlockSync(void);

/*
 * Zeroed memory of the block, aligned to 64, freed when the block ends, however it ends. If there
 * is none, the kernel fails as by a trap. Outside a kernel: NULL.
 */
ACL_FUNC_VISIBILITY void *aclnpudBlockMemory(size_t size);

/*
 * printf() to the standard output of the program, whole lines of blocks unmixed: what
 * AscendC::printf() is. A kernel that is ended, ends before or after it and never inside. Returns
 * what printf() returns. Works outside of kernels, too.
 */
ACL_FUNC_VISIBILITY int aclnpudKernelPrint(const char *format, ...)
    __attribute__((format(printf, 1, 2)));

#ifdef __cplusplus
}
#endif

#endif
