/*
 * A device's library as an executor uses it: one table of functions for each, acl.c and cuda.c,
 * which are all that knows a library. Sizes, addresses and ACL codes; no type of ACL or CUDA.
 *
 * A function that is NULL, or answers 207000, is one that the library has not: its capability is
 * absent. All return 0 or an ACL error (acl/error_codes/rt_error_codes.h): of CUDA the one that
 * means the same. What went wrong in the library's words: vendor_text().
 *
 * Threads: open() and close() alone; the rest from any thread, each lane from one at a time but for
 * lane_abort(). A thread calls thread_begin() for a device before anything on it. Any may block,
 * and any may never return: the executor is built so that npud does not wait for it.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/shm/executor_shm.h"
#include "proto/wire/executor_message.h"

struct vendor_library; /* the table's */
struct vendor_lane;    /* a queue of the device */

/** Memory of a device. `of` is the table's: how it is to be given back. */
struct vendor_memory {
    uint64_t address;
    uint64_t size; /* what there is: at least what was asked for */
    uint32_t device;
    bool imported;
    void *of;
};

/** What another executor can import. */
struct vendor_token {
    char bytes[EXECUTOR_TOKEN_BYTES];
    int fd; /* -1: none; else the receiver closes it */
};

enum vendor_way { VENDOR_TO_DEVICE, VENDOR_TO_HOST, VENDOR_ON_DEVICE };

struct vendor_launch {
    uint32_t blocks[3], threads[3];
    uint32_t shared_bytes;
    const void *arguments;
    uint32_t bytes;
    const struct executor_placeholder *placeholders; /* within the arguments */
    uint32_t n_placeholders;
    bool batch;        /* it begins when all of its blocks can */
    uint64_t limit_ns; /* 0: it may take for ever */
};

struct vendor {
    const char *name;

    /**
     * Load the library at path and set it up. nesting: it may be npud's own. why: what is wrong, in
     * a sentence, if it fails.
     */
    int32_t (*open)(const char *path, bool nesting, struct vendor_library **library, char *why,
                    size_t why_size);
    void (*close)(struct vendor_library *library);
    /** Symbols that it has, of those that the table knows. *absent: names, until close(). */
    unsigned (*symbols)(struct vendor_library *library, unsigned *known, const char **absent);

    int32_t (*device_count)(struct vendor_library *library, uint32_t *n);
    /** capabilities: found by doing, so it may take a while and some memory. After device_begin. */
    int32_t (*device_info)(struct vendor_library *library, uint32_t device,
                           struct executor_device_info *info);
    int32_t (*device_begin)(struct vendor_library *library, uint32_t device);
    /** Memory, lanes and binaries of the device have been given back before. */
    int32_t (*device_end)(struct vendor_library *library, uint32_t device);
    int32_t (*thread_begin)(struct vendor_library *library, uint32_t device);
    /**
     * Whether the device is lost to this process for good, because of an error after which the
     * library refuses all work: 0, or the code that every call on it answers from then on. Only a
     * new process has the device again. What was made is still to be given back.
     */
    int32_t (*gone)(struct vendor_library *library, uint32_t device);
    int32_t (*health)(struct vendor_library *library, uint32_t device,
                      struct executor_health *health);

    /** Memory in whole pages of its own, which can be exported if the library can share. */
    int32_t (*memory_new)(struct vendor_library *library, uint32_t device, uint64_t size,
                          struct vendor_memory *memory);
    void (*memory_free)(struct vendor_library *library, struct vendor_memory *memory);
    int32_t (*memory_export)(struct vendor_library *library, struct vendor_memory *memory,
                             struct vendor_token *token);
    int32_t (*memory_allow)(struct vendor_library *library, struct vendor_memory *memory,
                            const struct vendor_token *token, int32_t pid);
    int32_t (*memory_import)(struct vendor_library *library, uint32_t device, uint64_t size,
                             const struct vendor_token *token, struct vendor_memory *memory);

    /** Make the library know pages that are mapped here, so that the device copies from them. */
    int32_t (*host_attach)(struct vendor_library *library, void *pages, uint64_t size);
    void (*host_detach)(struct vendor_library *library, void *pages);
    /** The address of attached pages for word_write(), which then writes the host's word. */
    int32_t (*host_address)(struct vendor_library *library, void *pages, uint64_t *address);

    int32_t (*lane_new)(struct vendor_library *library, uint32_t device, struct vendor_lane **lane);
    void (*lane_free)(struct vendor_lane *lane);
    /**
     * For an idle lane: nothing behind a task that fails is done from now on, and what is given to
     * the lane may be refused with the same error. After an error of lane_sync() the lane is gone.
     */
    int32_t (*lane_stop)(struct vendor_lane *lane);
    int32_t (*copy)(struct vendor_lane *lane, uint64_t dst, uint64_t src, uint64_t size,
                    enum vendor_way way);
    int32_t (*set)(struct vendor_lane *lane, uint64_t dst, uint8_t value, uint64_t size);
    /** kind and type of proto/util/reduce.h. src and dst on the device. */
    int32_t (*reduce)(struct vendor_lane *lane, uint64_t dst, uint64_t src, uint64_t size,
                      uint8_t kind, uint8_t type);
    int32_t (*word_write)(struct vendor_lane *lane, uint64_t dst, uint64_t value);
    /** The lane stays at this task until the 8 bytes at src, as a number, are at least value. */
    int32_t (*word_wait)(struct vendor_lane *lane, uint64_t src, uint64_t value);
    /** magic: what its kernels are for (ACL_RT_BINARY_MAGIC_*), if the file does not say. */
    int32_t (*binary_load)(struct vendor_library *library, uint32_t device, const void *file,
                           uint64_t size, uint32_t magic, void **binary);
    void (*binary_free)(struct vendor_library *library, void *binary);
    int32_t (*function)(struct vendor_library *library, void *binary, const char *name,
                        void **function);
    int32_t (*launch)(struct vendor_lane *lane, void *function, const struct vendor_launch *launch);
    /**
     * Wait until all of the lane is over: 0, or the error of the first task since the last call
     * that has failed. After an error the lane is as new, or gone: *lane is NULL then.
     */
    int32_t (*lane_sync)(struct vendor_lane **lane);
    /**
     * End what the lane does, from another thread. A lane_sync() that begins later does not tell of
     * it. The lane must not be freed meanwhile, nor by lane_sync().
     */
    int32_t (*lane_abort)(struct vendor_lane *lane);
    /**
     * Call run(arg), in a thread of the library's, when the lane gets there; the lane does not wait
     * for it. run must not use the table. Only a lane that is not freed before makes the call.
     */
    int32_t (*lane_call)(struct vendor_lane *lane, void (*run)(void *arg), void *arg);
};

extern const struct vendor vendor_acl, vendor_cuda;

/** By name: "acl" or "cuda". NULL: there is none. */
const struct vendor *vendor_find(const char *name);

/** What the library has last told this thread, or "". Until the thread's next call of it. */
const char *vendor_text(void);
/** For the tables: keep that for this thread. */
void vendor_set_text(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
