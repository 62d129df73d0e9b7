/*
 * libfake_cuda.so: plays libcuda.so.1 in host memory, so that what npud does with CUDA runs where
 * no GPU is. What its files share; programs see the functions of the driver only.
 *
 * Stricter than the driver: each misuse is an error. Device addresses are numbers that nothing is
 * mapped at. A stream is a thread. An error of a task is fatal, and all later calls answer it.
 *
 * Scripted by the environment:
 *   FAKE_CUDA_DEVICES=n          how many (2)
 *   FAKE_CUDA_MEMORY=bytes       of each device, counted per process (1 GiB)
 *   FAKE_CUDA_PEERS=0            devices do not reach each other's memory
 *   FAKE_CUDA_LIES=1             a set writes other bytes, and all is said to be well
 *   FAKE_CUDA_WITHOUT=a,b        these functions do not exist
 *   FAKE_CUDA_FAIL=a:n:what,...  the nth call of a (0: each): `what` is a number to answer, or
 *                                hang, exit, abort or segv
 *   FAKE_CUDA_FAULT=n:result     the nth task of the process fails, fatally
 *   FAKE_CUDA_LATENCY_US=n       each task takes so much longer
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/executor/cuda_api.h"
#include "tests/gpu/raw/raw_cuda.h"

#define EXPORT __attribute__((visibility("default")))
/* Also checks that the functions are those which npud expects. */
#define DECLARE(name, arguments) EXPORT cuda_result name arguments;
CUDA_FUNCTIONS(DECLARE, DECLARE)
CUDA_RAW_FUNCTIONS(DECLARE)

#define DEVICES     16
#define GRANULARITY (UINT64_C(2) << 20)

struct context {
    int device;
    int retained;
    bool alive;
    _Atomic int error; /* fatal: answered from then on */
};

/** A script's answer to this call: 0, or what the call is to answer. May end the process. */
cuda_result script_call(const char *name);
/** The same for the next task that is executed. */
cuda_result script_task(void);
uint64_t script_number(const char *variable, uint64_t otherwise);

/** What each function begins with: 0, or what it answers. */
cuda_result fake_enter(const char *name, bool needs_context);
/** The calling thread's. */
struct context *fake_context(void);
int fake_devices(void);

#define ENTER(needs_context)                                                                       \
    do {                                                                                           \
        cuda_result result_ = fake_enter(__func__, needs_context);                                 \
        if (result_ != CUDA_SUCCESS)                                                               \
            return result_;                                                                        \
    } while (0)

/** For tests: what a program has not given back. Each file counts its own. */
EXPORT unsigned fake_cuda_left(void);
unsigned fake_memory_left(void);
unsigned fake_streams_left(void);
unsigned fake_modules_left(void);

/** Held for reading while a task touches memory, for writing while mappings change. */
extern pthread_rwlock_t fake_mappings;
/**
 * Where a device reaches these bytes: in device memory it may access, or in registered pages. NULL:
 * nowhere. fake_mappings is held.
 */
void *fake_translate(int device, uint64_t address, uint64_t size);
/** Whether that is device memory which this device may access. Takes fake_mappings. */
bool fake_is_device(int device, uint64_t address, uint64_t size);
/** Whether all of these pages of the host are registered. Takes fake_mappings. */
bool fake_is_registered(const void *pages, uint64_t size);
/** Whether an address is one of those that only devices have. */
bool fake_is_device_address(uint64_t address);

/** Wait for all streams of a context. */
void fake_drain(struct context *context);
/** Of a context that ends: memory that it had. */
void fake_free_all(struct context *context);

/** What a kernel does, in the stream's thread. 0, or a fatal error. */
cuda_result fake_run_kernel(int device, cuda_function function, const void *arguments,
                            size_t bytes);
/** The most dynamic shared memory that a launch of it may ask for. */
unsigned fake_shared_bytes(cuda_function function);
/** How many bytes of arguments it takes. */
size_t fake_argument_bytes(cuda_function function);
bool fake_is_function(const struct context *context, cuda_function function);
