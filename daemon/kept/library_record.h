/* What is kept of a vendor's library (daemon/backend/executor_probe.c). */
#pragma once

#include <stdint.h>

#include "proto/shm/doorbell.h"
#include "proto/wire/executor_message.h"

struct library_record {
    /* kept */
    uint32_t devices;
    uint32_t info_bytes; /* of each below, as the executor's protocol has it */
    struct executor_device_info info[DEVICES_MAX];
    char identity[]; /* which library: compared as it is */
};
