/* Failures of tasks, seen from the host: failure modes, abort, and the ids of tasks. */
#pragma once

#include <stdint.h>

#include "client/core/lifecycle.h"

struct session;

/**
 * aclrtSetStreamFailureMode() for `function`: handle NULL is the default stream; only bit 0 of mode
 * counts. 0 or 107002, 107003, 107017, 207000.
 */
int stream_set_failure_mode(const char *function, void *handle, uint64_t mode);
/**
 * The mode that is in force for a stream of any context: ACL_CONTINUE_ON_FAILURE or
 * ACL_STOP_ON_FAILURE. Errors: 107002, 107017.
 */
int stream_get_failure_mode(const char *function, void *handle, uint64_t *mode);

extern const struct part failure_part;
