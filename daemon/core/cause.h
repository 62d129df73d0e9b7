/*
 * Why npud refuses something. A module that has the objects returns a cause; the handler of the
 * request makes the ACL error and the sentence of it, by the table in core/causes.inc.
 */
#pragma once

#include <errno.h>

#define FAULT(cause, ...) cause,
#define LIMIT(cause, ...) cause,
#define USER(cause, ...)  cause,
enum cause {
    CAUSE_NONE, /* not refused */
#include "daemon/core/causes.inc"
    CAUSE_COUNT
};
#undef FAULT
#undef LIMIT
#undef USER

/** Why a call of npud has failed that made a descriptor or mapped memory. error: negative errno */
static inline enum cause cause_of_errno(int error)
{
    return error == -EMFILE || error == -ENFILE ? CAUSE_DESCRIPTORS : CAUSE_MEMORY;
}

/** The same for a file of memory that was to be made for a client. */
static inline enum cause cause_of_file(int error)
{
    return cause_of_errno(error) == CAUSE_DESCRIPTORS ? CAUSE_FILE_DESCRIPTORS : CAUSE_FILE_MEMORY;
}

/**
 * Why a backend has refused what was asked of a device (core/backend.h). 0: it has not;
 * -EINPROGRESS: the device is at it; -EOWNERDEAD: what did its work has ended; -ENOEXEC: it does
 * not start; -EUSERS: no uid is free for it; -EDQUOT: the user has as many of these as it may,
 * -ENOSPC: as many mappings, -EMLINK: as many descriptors; -ENXIO: its library does not open it;
 * -ENODATA: the device has no more memory; -EOPNOTSUPP: it cannot share.
 */
enum cause cause_of_device(int error);

/** Why user_charge_files() has refused; fds: for want of descriptors. */
static inline enum cause cause_of_files(int error, enum cause fds)
{
    return error == 0 ? CAUSE_NONE : error == -ENOSPC ? CAUSE_USER_MAPPINGS : fds;
}
