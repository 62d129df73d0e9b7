/*
 * What the raw programs share. Each measures one thing with CUDA's driver alone, prints it as a
 * line of JSON, and exits with 0; with 77 where there is no GPU; with 1 when CUDA fails.
 *
 * NPUD_TEST_CUDA: another library than libcuda.so.1, as tests/gpu/libfake_cuda.so. RAW_SHORT=1: a
 * few rounds only, to try the program.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "proto/util/clock.h"
#include "tests/gpu/raw/raw_cuda.h"

#define RAW_NO_GPU 77

struct raw {
    struct cuda_api cu;
    struct raw_api more;
    cuda_context context;
    cuda_stream stream;
    cuda_function nop, spin;
};

/** A call that must go well; else the program says which has failed, and exits with 1. */
#define MUST(call)                                                                                 \
    do {                                                                                           \
        cuda_result result_ = (call);                                                              \
        if (result_ != CUDA_SUCCESS)                                                               \
            raw_fail(#call, result_);                                                              \
    } while (0)
_Noreturn void raw_fail(const char *call, int result);

/** Load the library. Exits with 77 where there is none or no GPU. Not before a fork() whose child
 * uses CUDA: the driver does not survive it. */
void raw_load(struct raw *raw);
/** The same, and a context, a stream and two kernels. */
void raw_begin(struct raw *raw);
/** A launch of spin: a kernel that takes so long; of nop: one that takes no time. */
void raw_spin(struct raw *raw, uint64_t ns);
void raw_nop(struct raw *raw);

/** Rounds to measure: n, or a few. */
unsigned raw_rounds(unsigned n);
/** Sorts; the value below which `percent` of them are. */
uint64_t raw_percentile(uint64_t *values, unsigned n, unsigned percent);

/** New memory, all zero, that children share. */
void *raw_share(size_t size);
/** A child that runs fn(arg), exits with its result, and dies with this process. */
pid_t raw_fork(int (*fn)(void *arg), void *arg);
/** Wait for it: 0, or the exit status; -1 if it was killed. */
int raw_reap(pid_t pid);
/** Until n processes have come here. word: shared, 0 at first. */
void raw_meet(_Atomic unsigned *word, unsigned n);
/** Until *word is at least that. Busy: what is measured must not be the kernel's waking up. */
void raw_await(_Atomic uint64_t *word, uint64_t value);
