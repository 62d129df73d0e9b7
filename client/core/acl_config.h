/* acl.json: the configuration that aclInit reads. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/**
 * Read the file at path ("" or NULL: no configuration). 0 with *text, what it says, freed by the
 * caller; or an ACL error with its sentence; then nothing has changed.
 */
int acl_config_load(const char *path, char **text);

/** User id of the device that threads without a context use, or -1. */
int32_t acl_config_default_device(void);

/** aclInit has failed after the load: as if it had not been. */
void acl_config_undo(void);

/** After aclFinalize: the default device is not in force any more. */
void acl_config_disable(void);
