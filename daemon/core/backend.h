/*
 * A backend: what makes devices work. The engine knows streams, events and waiting; a backend knows
 * how bytes move and how long work takes. One table of functions, so that a vendor library can
 * stand beside `sim`.
 *
 * Memory is the backend's: no other module knows where it is, or whether npud can read it at all.
 * Work names it by handle and offset.
 *
 * Threads: open(), close() and the making and freeing of memory in the control thread; step() only
 * in the engine thread of its device; the rest anywhere.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct backend_memory;
struct backend_space;
struct config;
struct user;

struct backend_device_info {
    const char *soc_name; /* lives as long as the backend is open */
    uint64_t memory;      /* bytes */
    bool strict;          /* clients cannot map its memory */
};

enum work_kind {
    WORK_COPY,
    WORK_SET,
    WORK_DELAY,
    WORK_REDUCE,
};

/** A place in memory. */
struct work_place {
    struct backend_memory *memory;
    uint64_t offset;
};

/** One piece of work, within the memory that it names. Owned by the stream that runs it. */
struct work {
    struct work_place dst, src;
    uint64_t size;
    uint64_t progress; /* bytes done so far, which the backend counts up; kept by the engine */
    /*
     * WORK_REDUCE: where the result of this step is to be put, in place of dst + progress: at most
     * DEVICE_SLICE_MAX bytes.
     */
    void *slice;
    uint64_t delay_ns; /* WORK_DELAY */
    uint64_t ready_ns; /* the backend's, zeroed: when bytes are moved; lost when npud ends */
    int32_t result;    /* WORK_DELAY: what to fail with, 0: succeed */
    uint8_t kind;      /* enum work_kind */
    uint8_t value;
    uint8_t reduce; /* WORK_REDUCE: aclrtReduceKind, aclDataType, a pair of proto/util/reduce.h */
    uint8_t type;
};

enum work_state {
    WORK_DONE,    /* *result is the outcome */
    WORK_MORE,    /* call step() again when others have had their turn */
    WORK_PENDING, /* it is under way: call step() again at *deadline */
};

/** What a stream waits for in a word of memory: the flags of aclrtValueWait(). */
enum word_condition { WORD_GEQ, WORD_EQ, WORD_AND, WORD_NOR, WORD_CONDITIONS };

struct backend {
    const char *name;
    /** Find the devices. Returns their number and the backend's state, or a negative errno after
     * logging. */
    int (*open)(const struct config *config, void **state);
    void (*close)(void *state);
    void (*device_info)(void *state, uint32_t device, struct backend_device_info *info);

    /** Memory of the device, `size` bytes (a multiple of the page size). 0 or -errno. */
    int (*memory_new)(void *state, uint32_t device, uint64_t size, struct backend_memory **memory);
    /**
     * Make a sealed memfd usable by work of the device: pinned memory of the host, or what
     * memory_new() of an npud before has made (device_memory). It is the memory's then. NULL: no
     * memory, and fd is still the caller's.
     */
    struct backend_memory *(*memory_attach)(void *state, uint32_t device, int fd, uint64_t size,
                                            bool device_memory);
    /** No engine uses it any more. user: whose it was (deferred_close_free_memory()). */
    void (*memory_free)(void *state, struct backend_memory *memory, const struct user *user);
    /**
     * What npud notes, in bytes, which are charged: of an address as long as it is given out, and
     * of a session from its first one on. 0: the device has no addresses.
     */
    uint64_t (*address_bytes)(void *state);
    uint64_t (*space_bytes)(void *state);
    /**
     * The device's address, for a session that is to have so many bytes of it: what its program
     * takes for a pointer. 0: the device has none, and the library maps the memory where it likes.
     * *space: the session's addresses, NULL so far if it has none. -errno;
     * -ENOSPC: they are used up.
     */
    int (*address_new)(void *state, struct backend_space **space, uint32_t device, uint64_t size,
                       uint64_t *address);
    /** 0: nothing. */
    void (*address_free)(struct backend_space *space, uint32_t device, uint64_t address);
    /** An npud before has given it out. False: no memory, or it cannot be. */
    bool (*address_note)(void *state, struct backend_space **space, uint32_t device,
                         uint64_t address, uint64_t size);
    /** The session has no address any more. NULL: it had none. */
    void (*space_free)(struct backend_space *space);
    /** Its file, which stays the memory's. */
    int (*memory_file)(const struct backend_memory *memory);
    /** Can it be used? It may be made usable by that; false: npud has not the means for it. */
    bool (*memory_usable)(struct backend_memory *memory);

    /**
     * Do a bounded amount (at most tens of microseconds) of work, in usable memory. Bytes that are
     * all done may be asked for once more: WORK_DONE with the same result. now: CLOCK_MONOTONIC
     * nanoseconds.
     */
    enum work_state (*step)(void *state, uint32_t device, struct work *work, uint64_t now,
                            uint64_t *deadline, int32_t *result);

    /*
     * Words, which are aligned, in usable memory. A thread that sees what word_write() has written
     * sees what came before it; word_holds() is the other side of that.
     */
    uint64_t (*word_read)(struct work_place at);
    void (*word_write)(struct work_place at, uint64_t value);
    bool (*word_holds)(struct work_place at, enum word_condition condition, uint64_t value);
    /** Copy `words` words from there, each read once. */
    void (*words_read)(struct work_place at, uint64_t *to, unsigned words);
    /** Put the result of a slice of WORK_REDUCE where it belongs. */
    void (*slice_put)(struct work_place at, const void *slice, uint64_t size);
};

extern const struct backend backend_sim;

/** The backend called name, or NULL. */
const struct backend *backend_find(const char *name);
