/* What a device can do, found by doing it: a function that is there may still refuse. */
#pragma once

#include <stdint.h>

struct vendor_library;

/**
 * EXECUTOR_CAN_* of a device that has been begun, by the calling thread, too. Takes some memory and
 * a lane, and gives them back.
 */
uint64_t acl_probe(struct vendor_library *library, uint32_t device);
