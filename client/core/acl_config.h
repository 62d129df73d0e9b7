/* acl.json: the configuration that aclInit reads. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/**
 * Read the file at path ("" or NULL: no configuration). 0 with *text, what it says, freed by the
 * caller; or an ACL error with its sentence; then nothing has changed.
 */
int acl_config_load(const char *path, char **text);

struct cJSON;

/**
 * Another file of the same form, for another function: 0 with *root, what it says, freed by the
 * caller; NULL: nothing. Or ACL_ERROR_INVALID_FILE or ACL_ERROR_PARSE_FILE with its sentence.
 */
int acl_config_parse_file(const char *function, const char *path, struct cJSON **root);

/** User id of the device that threads without a context use, or -1. */
int32_t acl_config_default_device(void);

/** aclInit has failed after the load: as if it had not been. */
void acl_config_undo(void);

/** After aclFinalize: the default device is not in force any more. */
void acl_config_disable(void);
