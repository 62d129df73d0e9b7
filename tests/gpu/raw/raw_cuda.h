/*
 * What the raw programs use of CUDA beside what npud uses (daemon/executor/cuda_api.h): its own
 * events between processes, waits and callbacks, for comparison with npud's.
 */
#pragma once

#include "daemon/executor/cuda_api.h"

#define CUDA_RAW_FUNCTIONS(X)                                                                      \
    X(cuCtxSynchronize, (void))                                                                    \
    X(cuEventCreate, (cuda_event * event, unsigned flags))                                         \
    X(cuEventRecord, (cuda_event event, cuda_stream stream))                                       \
    X(cuEventQuery, (cuda_event event))                                                            \
    X(cuEventSynchronize, (cuda_event event))                                                      \
    X(cuEventDestroy_v2, (cuda_event event))                                                       \
    X(cuStreamWaitEvent, (cuda_stream stream, cuda_event event, unsigned flags))                   \
    X(cuIpcGetEventHandle, (struct cuda_ipc_event * handle, cuda_event event))                     \
    X(cuIpcOpenEventHandle, (cuda_event * event, struct cuda_ipc_event handle))                    \
    X(cuMemHostAlloc, (void **pages, size_t size, unsigned flags))                                 \
    X(cuMemFreeHost, (void *pages))

struct raw_api {
    CUDA_RAW_FUNCTIONS(CUDA_MEMBER)
};
