/*
 * Physical memory of the virtual memory interface: an allocation of npud that is mapped nowhere by
 * itself. Several handles may lead to it, and it may be mapped several times: it is freed when all
 * handles and mappings are gone.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "acl/acl.h"
#include "proto/util/slots.h"

struct session;

/** What physical memory and its mappings are multiples of. */
#define PHYSICAL_GRANULARITY (UINT64_C(2) << 20)

struct physical {
    struct session *session;
    /* Under session->lock: */
    uint32_t refs;    /* handles, mappings, and calls that use it */
    uint32_t handles; /* of them */
    uint64_t number;  /* by which it was exported, and may be imported as long as there are handles;
                         0: none */
    uint32_t device;
    bool host;
    bool imported;
    uint32_t remote, remote_generation; /* npud's allocation */
    uint64_t size;
    aclrtMemAttr attr;
    aclrtMemLocation location;
};

/** A handle of the program. */
struct physical_handle {
    struct slot slot; /* in session->physicals */
    struct physical *physical;
};

/**
 * The memory that handle names, with a reference. NULL with *error set, and its sentence: there is
 * none.
 */
struct physical *physical_get(const char *function, aclrtDrvMemHandle handle, int *error);

/** One more reference. Under session->lock, by somebody who has one. */
void physical_ref(struct physical *physical);

/** Give a reference back. With the last one npud frees the memory: 0, or its ACL error. */
int physical_unref(struct physical *physical, const char *function);

/** The same when the session is freed: npud frees it by itself. NULL: nothing. */
void physical_forget(struct physical *physical);

/** A new handle for it, which takes a reference over. 0, or an ACL error: then it is given back. */
int physical_name(struct physical *physical, const char *function, aclrtDrvMemHandle *handle);
