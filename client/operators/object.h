/*
 * What programs name by handles: tensors, scalars, arrays, lists, executors. A handle is a number
 * that no other object of the process ever has, so a stale one is found out.
 */
#pragma once

#include <stdint.h>
#include <uthash.h>

#include "aclnn/acl_meta.h"

enum object_kind {
    OBJECT_TENSOR,
    OBJECT_SCALAR,
    OBJECT_INT_ARRAY,
    OBJECT_FLOAT_ARRAY,
    OBJECT_BOOL_ARRAY,
    OBJECT_TENSOR_LIST,
    OBJECT_SCALAR_LIST,
    OBJECT_EXECUTOR,
};

/** The first member of each object, which is from malloc(). */
struct object {
    uint64_t handle;
    enum object_kind kind;
    UT_hash_handle hh;
};

/** Between these two, what object_find() finds stays. The lock is free in a forked child. */
void objects_lock(void);
void objects_unlock(void);

/**
 * The handle of a new object, which the table owns from now on. NULL, and a sentence: memory is
 * short, and the object was freed; the object itself may be NULL, too. Takes the lock.
 */
void *object_add(const char *api, struct object *o, enum object_kind kind);

/** Under the lock. NULL, and a sentence: there is none of this kind, `what` names the argument. */
void *object_find(const char *api, const char *what, const void *handle, enum object_kind kind);

/** Under the lock: out of the table. The object is the caller's then, to free. */
void object_remove(void *object);

/**
 * The body of a function that destroys: NULL does nothing and gives 0, a stale handle
 * ACLNN_ERR_PARAM_INVALID. Takes the lock.
 */
aclnnStatus object_destroy(const char *api, const void *handle, enum object_kind kind);
