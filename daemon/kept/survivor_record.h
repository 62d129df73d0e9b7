/* What is kept of a process that outlives its session. */
#pragma once

#include <stdint.h>

struct survivor_record {
    uint64_t session; /* id of the session that was */
    uint64_t pidfd_key; /* 0: the session is still being freed, and has it */
    uint32_t uid;
    int32_t pid;
};
