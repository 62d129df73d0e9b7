/* Tensors: views of device memory. */
#pragma once

#include "client/operators/object.h"
#include "client/operators/view.h"

#define TENSOR_DIMS_MAX 25

struct tensor {
    struct object object;
    aclDataType type;
    aclFormat format;
    uint32_t dims, storage_dims;
    int64_t dim[TENSOR_DIMS_MAX], stride[TENSOR_DIMS_MAX], storage[TENSOR_DIMS_MAX];
    int64_t offset;
    void *address;
};

/**
 * Copy what an operator must know of the tensor, which is its argument `what`. 0, or an error, with
 * a sentence: the handle is stale, there are more than dims_max dimensions, the layout is not that
 * of the strides, or the view leaves its storage. Takes the lock.
 */
aclnnStatus tensor_view(const char *api, const char *what, const aclTensor *tensor,
                        uint32_t dims_max, struct view *view);
