/* What is kept of a process that outlives its session. */
#pragma once

#include <stdint.h>

struct survivor_record {
    /* kept */
    uint64_t session;   /* id of the one that it has outlived */
    uint64_t pidfd_key; /* 0: the session has it, and is still being freed */
    int32_t pid;
    uint32_t uid;
};
