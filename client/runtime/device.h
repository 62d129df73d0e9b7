/* Devices as programs number them: user ids index ASCEND_RT_VISIBLE_DEVICES, or are npud's numbers
 * when that is not set. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct session;

/** npud's number of user id. 0, or ACL_ERROR_RT_INVALID_DEVICEID with its sentence. */
int device_of_user_id(struct session *s, const char *function, int64_t user_id, uint32_t *device);

/** The same with another code for a number that no device has. */
int device_or_code(struct session *s, const char *function, int64_t user_id, int code,
                   uint32_t *device);

/** The same without an error. False: no device has that number. */
bool device_from_user_id(const struct session *s, int64_t user_id, uint32_t *device);

/**
 * device_of_user_id() for a call that needs the session, connecting if need be. Errors: as
 * session_get().
 */
int device_get(const char *function, int64_t user_id, struct session **session, uint32_t *device);

/** User id of npud's device; -1 when it is not visible. */
int32_t device_user_id(struct session *s, uint32_t device);

/** The error, with its sentence, of a call on a device that is lost; 0 when it is not. */
int device_check_lost(struct session *s, const char *function, uint32_t device);

/** The error with which the device is lost, for processes that have opened it; 0: it is not. */
uint32_t device_loss(const struct session *s, uint32_t device);

/** Does the program hold the device, by its set count or a context? Caller holds session->lock. */
bool device_is_open(const struct session *s, uint32_t device);

/** 0, or ACL_ERROR_RT_DEV_SETUP_ERROR with its sentence: the program does not hold the device. */
int device_check_open(struct session *s, const char *function, int32_t user_id, uint32_t device);
/** That error. */
int device_error_closed(const char *function, int32_t user_id) __attribute__((cold));
