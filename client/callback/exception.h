/* Callbacks for failed tasks. */
#pragma once

#include <stdint.h>

#include "acl/acl.h"
#include "proto/shm/exception_shm.h"

struct session;

/** What a callback gets a pointer to. */
struct rtExceptionInfo {
    struct exception failure;
    uint32_t device; /* as the program numbers its devices */
};

/** A callback was set that is not of this module: failures are told from now on. 0, or an error. */
int exception_want(const char *function);

/* Described in client/core/upcall.h, through which rooms below call them. */
void exception_drain(struct session *s);
void exception_copier_ended(struct session *s);
