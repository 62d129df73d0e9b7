/* Devices as programs number them: user ids index ASCEND_RT_VISIBLE_DEVICES, or are npud's numbers
 * when that is not set. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct session;

/** npud's number of user id. 0, or ACL_ERROR_RT_INVALID_DEVICEID with its sentence. */
int device_of_user_id(struct session *s, const char *function, int64_t user_id, uint32_t *device);

/** The same for a call that needs the session, connecting if need be. Errors: session_get() */
int device_get(const char *function, int64_t user_id, struct session **session, uint32_t *device);

/** User id of npud's device; -1 when it is not visible. */
int32_t device_user_id(struct session *s, uint32_t device);

/** The error, with its sentence, of a call on a device that is lost; 0 when it is not. */
int device_check_lost(struct session *s, const char *function, uint32_t device);
