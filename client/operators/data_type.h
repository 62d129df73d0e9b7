/* Types of elements: a row each. Adding one is adding a row. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "acl/acl_base.h"

enum type_class { TYPE_BOOL, TYPE_INTEGER, TYPE_FLOATING };

/**
 * Elements go to and from arrays of double or of int64_t; `stride` is in elements. Floating types
 * have no load_whole, and the others neither load_real nor store_real. What is stored is rounded
 * once.
 */
struct data_type {
    aclDataType id;
    const char *name;
    uint32_t size; /* of an element */
    enum type_class class;
    void (*load_real)(double *to, const void *from, int64_t stride, size_t n);
    void (*load_whole)(int64_t *to, const void *from, int64_t stride, size_t n);
    void (*store_real)(void *to, int64_t stride, const double *from, size_t n);
    void (*store_whole)(void *to, int64_t stride, const int64_t *from, size_t n);
};

/** It is one of aclDataType, whether operators know it or not. */
bool data_type_exists(aclDataType id);

/** NULL: operators do not know it. */
const struct data_type *data_type_find(aclDataType id);

/** The type that values of both become, of two that are known. */
const struct data_type *data_type_promote(const struct data_type *a, const struct data_type *b);

/** The same of a tensor and a scalar. */
const struct data_type *data_type_promote_scalar(const struct data_type *tensor,
                                                 const struct data_type *scalar);

/** Values of the one may become values of the other. */
bool data_type_converts(const struct data_type *from, const struct data_type *to);
