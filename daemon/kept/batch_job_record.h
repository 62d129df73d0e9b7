/* What is kept of a job of a scheduler. */
#pragma once

#include <stdint.h>

#include "daemon/base/cgroup.h"

struct batch_job_record {
    /* kept */
    uint64_t number;
    uint64_t memory_max; /* of its control group; UINT64_MAX: none */
    uint32_t uid;
    uint32_t unused;
    char path[CGROUP_PATH_MAX]; /* as much of it as the path needs, with its zero byte */
};
