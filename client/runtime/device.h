/* Devices as programs number them: user ids index ASCEND_RT_VISIBLE_DEVICES, or are npud's numbers
 * when that is not set. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct session;

/** How many devices the program sees. 0: the variable selects none. */
uint32_t device_visible_count(struct session *s);

/** npud's number of user id, or -1 with ACL_ERROR_RT_INVALID_DEVICEID stored as *error. */
int32_t device_of_user_id(struct session *s, const char *function, int64_t user_id, int *error);

/**
 * The same for a call that needs the session too, connecting if need be: *session is set, or -1
 * with *error as of session_get().
 */
int32_t device_get(const char *function, int64_t user_id, struct session **session, int *error);

/** User id of npud's device; -1 when it is not visible. */
int32_t device_user_id(struct session *s, uint32_t device);

/** The error, with its sentence, of a call on a device that is lost; 0 when it is not. */
int device_check_lost(struct session *s, const char *function, uint32_t device);
/** Without an error. The device is open in the session. */
bool device_is_lost(const struct session *s, uint32_t device);
