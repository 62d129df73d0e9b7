/* What operators have in common that compute each element of out from those at its place. */
#pragma once

#include "client/operators/operator.h"

/** to[i] = to[i] op other[i]; alpha is scalar "alpha" of the operator, or 1. */
typedef void elementwise_real_fn(double *to, const double *other, double alpha, size_t n);
typedef void elementwise_whole_fn(int64_t *to, const int64_t *other, int64_t alpha, size_t n);

/** Rules of the row. The second argument is input 1, or, if the row has no such input, scalar 0. */
aclnnStatus elementwise_find_type(struct operator_call *call);
aclnnStatus elementwise_find_shape(struct operator_call *call);
uint64_t elementwise_count(const struct operator_call *call);
uint64_t elementwise_weigh(const struct operator_call *call);

/** What rows of such operators have in common. */
#define ELEMENTWISE_RULES                                                                          \
    .kind = ACL_KERNEL_TYPE_VECTOR, .dims_max = VIEW_DIMS_MAX, .find_type = elementwise_find_type, \
    .find_shape = elementwise_find_shape, .count_pieces = elementwise_count,                       \
    .weigh_piece = elementwise_weigh

/** The body of the row's kernel. Integers are computed as wide as they can be, and wrap around. */
void elementwise_run(const struct operator_call *call, uint64_t first, uint64_t end,
                     elementwise_real_fn *real, elementwise_whole_fn *whole);
