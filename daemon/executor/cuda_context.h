/*
 * The library of CUDA as its table has it: devices, their contexts, and what the driver answers. An
 * error after which the driver refuses all work of the process makes a device "gone": from then on
 * cuda_enter() answers that error, and only what gives things back still goes to the driver.
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "daemon/executor/cuda_api.h"
#include "daemon/executor/vendor.h"

struct nvml;

struct cuda_gpu {
    cuda_device ordinal;
    char bus[32];
    uint64_t granularity; /* 0: no memory that can be shared */
    cuda_context context; /* NULL: not begun */
    /* Which of all contexts that there ever were; 0: none. A thread keeps the one that it is in. */
    _Atomic uint64_t generation;
    _Atomic int32_t gone;
};

struct vendor_library {
    struct cuda_api api;
    struct cuda_symbols symbols;
    struct nvml *nvml;
    pthread_mutex_t lock; /* contexts coming and going */
    uint32_t n;
    struct cuda_gpu device[EXECUTOR_DEVICES];
};

/** Calls a function of the driver, if it has it: 0 or an ACL error, with its text. */
#define CUDA_CALL(library, device, name, ...)                                                      \
    ((library)->api.name                                                                           \
         ? cuda_answer((library), (device), #name, (library)->api.name(__VA_ARGS__))               \
         : cuda_answer_absent(#name))

/**
 * What a result means, as an ACL error; keeps the driver's words for vendor_text(). device: whose
 * context it concerns, or EXECUTOR_DEVICES.
 */
int32_t cuda_answer(struct vendor_library *library, uint32_t device, const char *name,
                    cuda_result result);
/** 207000: the library has no function of that name. */
int32_t cuda_answer_absent(const char *name);
/** 107000, with that text. */
int32_t cuda_answer_invalid(const char *text);

/** Begin and end the device's context. Any thread; one that is in it is not in it afterwards. */
int32_t cuda_context_begin(struct vendor_library *library, uint32_t device);
int32_t cuda_context_end(struct vendor_library *library, uint32_t device);

/** Make the device's context the thread's, if it is not. 0, or why not. Any thread. */
int32_t cuda_enter(struct vendor_library *library, uint32_t device);
/** For giving things back: also when the device is gone. Whether there is a context. */
bool cuda_enter_any(struct vendor_library *library, uint32_t device);
/** Of the first device that has been begun: for what concerns all contexts. */
int32_t cuda_enter_first(struct vendor_library *library, uint32_t *device);
