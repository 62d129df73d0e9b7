/* Which of npud's devices the program is to see: ASCEND_RT_VISIBLE_DEVICES. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "proto/shm/doorbell.h"

struct visible {
    bool set; /* the variable is; else all devices are visible */
    uint32_t n;
    uint32_t device[DEVICES_MAX]; /* npud's numbers, ascending */
};

/** Read the variable, for a npud with so many devices. All of v is zero. */
void visible_read(struct visible *v, uint32_t n_devices);
