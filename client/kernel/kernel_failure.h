/*
 * Kernels that failed: npud tells a failure by a number; what else is known about it is kept here,
 * for sentences, exception callbacks and dumps. The latest ones are kept, of all sessions.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/kernel/kernel.h"
#include "client/kernel/kernel_run.h"
#include "proto/shm/stream_shm.h"

struct kernel_failed {
    const struct stream_ctrl *ctrl; /* of its stream, which has not heard of it */
    int32_t stream;                 /* its id */
    uint32_t task;                  /* its id */
    uint32_t device;
    int code;
    const struct kernel_run *run;
    const char *name;
    aclrtFuncHandle function; /* or NULL */
    aclrtBinHandle binary;    /* or NULL */
    const void *args;
    size_t size;
};

/** Keep it. All is copied. Before npud hears of it. Any thread. */
void kernel_failure_keep(const struct kernel_failed *failed);

/**
 * upcalls->kernel_failure_text: "kernel add, block 3 of 8: SIGSEGV at address 0x0" of the failure
 * that the stream with this control block told with this word; of_context: of the latest one with
 * this code in the context of the stream. False: that was no kernel, or it is not kept any more.
 */
bool kernel_failure_text(const struct stream_ctrl *ctrl, uint64_t error, bool of_context,
                         char *text, size_t size);

/** upcalls->kernel_failure_tell: call the callback of the binary that the failure is of, if any. */
void kernel_failure_tell(aclrtExceptionInfo *info);
