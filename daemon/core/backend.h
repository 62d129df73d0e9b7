/*
 * A backend: what makes devices work. The engine knows streams, events and waiting; a backend knows
 * how bytes move and how long work takes. One table of functions, so that a vendor library can
 * stand beside `sim`.
 *
 * Threads: open() and close() in the control thread; step() only in the engine thread of its
 * device; the rest anywhere.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct config;

struct backend_device_info {
    const char *soc_name; /* lives as long as the backend is open */
    uint64_t memory;      /* bytes */
};

enum work_kind {
    WORK_COPY,
    WORK_SET,
    WORK_DELAY,
    WORK_REDUCE,
};

/** One piece of work, with everything validated and mapped by the engine. Owned by the stream that
 * runs it. */
struct work {
    enum work_kind kind;
    void *dst;
    const void *src;
    uint64_t size;
    uint64_t progress; /* bytes done so far, which the backend counts up */
    /*
     * WORK_REDUCE: where the result of this step is to be put, in place of dst + progress: at most
     * DEVICE_SLICE_MAX bytes.
     */
    void *slice;
    uint64_t delay_ns;
    int32_t result; /* WORK_DELAY: what to fail with, 0: succeed */
    uint8_t value;
    uint32_t reduce; /* WORK_REDUCE: aclrtReduceKind, aclDataType, a pair of proto/util/reduce.h */
    uint32_t type;
};

enum work_state {
    WORK_DONE,  /* *result is the outcome */
    WORK_MORE,  /* call step() again when others have had their turn */
    WORK_UNTIL, /* call step() again at *deadline */
};

struct backend {
    const char *name;
    /** Find the devices. Returns their number and the backend's state, or a negative errno after
     * logging. */
    int (*open)(const struct config *config, void **state);
    void (*close)(void *state);
    void (*device_info)(void *state, uint32_t device, struct backend_device_info *info);
    /** A sealed memfd of size bytes (a multiple of the page size) that is memory of the device. fd
     * or -errno. */
    int (*memory_new)(void *state, uint32_t device, uint64_t size);
    /**
     * Do a bounded amount (at most tens of microseconds) of work. Bytes that are all done may be
     * asked for once more: WORK_DONE with the same result. now: CLOCK_MONOTONIC nanoseconds.
     */
    enum work_state (*step)(void *state, uint32_t device, struct work *work, uint64_t now,
                            uint64_t *deadline, int32_t *result);
};

extern const struct backend backend_sim;

/** The backend called name, or NULL. */
const struct backend *backend_find(const char *name);
