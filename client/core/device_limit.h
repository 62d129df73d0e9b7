/*
 * Limits of kernels: bytes of their stacks and of what they print. Of the process, set by acl.json
 * and by aclrtDeviceSetLimit; the later one counts. Nothing here runs kernels: they are kept.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "acl/acl.h"

/** Can it be as many bytes? Where it is a matter of rounding up, that is done. */
bool device_limit_valid(aclrtDeviceLimit limit, size_t *bytes);

/** bytes: a valid one. */
void device_limit_set(aclrtDeviceLimit limit, size_t bytes);
