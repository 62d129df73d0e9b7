/* What a GPU can do, found by doing it: a function that is there may still refuse. */
#pragma once

#include <stdint.h>

struct vendor_library;

/**
 * EXECUTOR_CAN_* of a device that has been begun. Takes a few pages of memory and a lane, and gives
 * them back; some milliseconds, or more where PTX has to be compiled. EXECUTOR_CAN_KERNEL is also
 * set where PTX, which it tries, is not supported. The device may be gone afterwards.
 */
uint64_t cuda_probe(struct vendor_library *library, uint32_t device);
