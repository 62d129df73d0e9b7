/* Scalars: a number of the host with its type. */
#pragma once

#include "client/operators/data_type.h"
#include "client/operators/object.h"

struct number {
    const struct data_type *type;
    _Alignas(8) unsigned char bytes[8];
};

double number_real(const struct number *n);
int64_t number_whole(const struct number *n); /* not of a floating type */

/**
 * Copy the number of a scalar, the argument `what`. 0, or an error, with a sentence: the handle is
 * stale, or operators do not know the type. Takes the lock.
 */
aclnnStatus number_read(const char *api, const char *what, const aclScalar *scalar,
                        struct number *number);
