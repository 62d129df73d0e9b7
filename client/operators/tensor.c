#include "client/operators/tensor.h"

#include <stdlib.h>
#include <string.h>

#include "client/operators/data_type.h"
#include "client/operators/failure.h"

/* --- making --- */

/* Numbers of a shape, none negative, whose product fits. False: a sentence is written. */
static bool copy_sizes(const char *api, const char *what, int64_t *to, const int64_t *from,
                       uint64_t n)
{
    int64_t product = 1;

    if (n > TENSOR_DIMS_MAX || (n > 0 && !from)) {
        failure_tell(ACLNN_ERR_PARAM_INVALID, "%s: %s has %llu numbers%s; at most %d are allowed",
                     api, what, (unsigned long long)n, from ? "" : ", and is NULL",
                     TENSOR_DIMS_MAX);
        return false;
    }
    for (uint64_t i = 0; i < n; i++) {
        to[i] = from[i];
        if (to[i] >= 0 && (to[i] == 0 || !__builtin_mul_overflow(product, to[i], &product)))
            continue;
        failure_tell(ACLNN_ERR_PARAM_INVALID, "%s: %s[%llu] is %lld, which is %s", api, what,
                     (unsigned long long)i, (long long)to[i], to[i] < 0 ? "negative" : "too large");
        return false;
    }
    return true;
}

/* That the last element can be named by a number. */
static bool copy_strides(const char *api, struct tensor *t, const int64_t *stride)
{
    int64_t next = 1, last = t->offset, way;

    for (uint32_t i = t->dims; i-- > 0;) {
        t->stride[i] = stride ? stride[i] : next;
        next *= t->dim[i] > 0 ? t->dim[i] : 1;
        if (t->stride[i] >= 0 && t->offset >= 0 &&
            !__builtin_mul_overflow(t->stride[i], t->dim[i], &way) &&
            !__builtin_add_overflow(last, way, &last) && last < INT64_MAX / 16)
            continue;
        failure_tell(ACLNN_ERR_PARAM_INVALID,
                     "%s: stride[%u] is %lld and offset %lld: none may be negative, or lead beyond "
                     "what can be addressed",
                     api, i, (long long)t->stride[i], (long long)t->offset);
        return false;
    }
    return t->offset >= 0 && t->offset < INT64_MAX / 16
               ? true
               : (failure_tell(ACLNN_ERR_PARAM_INVALID, "%s: offset is %lld", api,
                               (long long)t->offset),
                  false);
}

/* The arguments, in the order of aclCreateTensor. */
struct description {
    const int64_t *dims;
    uint64_t dims_num;
    aclDataType type;
    const int64_t *stride;
    int64_t offset;
    aclFormat format;
    const int64_t *storage;
    uint64_t storage_num;
    void *address;
};

static bool describe(const char *api, struct tensor *t, const struct description *d)
{
    t->type = d->type;
    t->format = d->format;
    t->offset = d->offset;
    t->address = d->address;
    if (!data_type_exists(d->type)) {
        failure_tell(ACLNN_ERR_PARAM_INVALID, "%s: %d is no type of tensors", api, d->type);
        return false;
    }
    if (!copy_sizes(api, "viewDims", t->dim, d->dims, d->dims_num) ||
        !copy_sizes(api, "storageDims", t->storage, d->storage, d->storage_num))
        return false;
    t->dims = (uint32_t)d->dims_num;
    t->storage_dims = (uint32_t)d->storage_num;
    if (t->storage_dims == 0) {
        t->storage_dims = t->dims;
        memcpy(t->storage, t->dim, sizeof(t->dim));
    }
    return copy_strides(api, t, d->stride);
}

aclTensor *aclCreateTensor(const int64_t *viewDims, uint64_t viewDimsNum, aclDataType dataType,
                           const int64_t *stride, int64_t offset, aclFormat format,
                           const int64_t *storageDims, uint64_t storageDimsNum, void *tensorData)
{
    const struct description d = {viewDims, viewDimsNum, dataType,       stride,    offset,
                                  format,   storageDims, storageDimsNum, tensorData};
    struct tensor *t = calloc(1, sizeof(*t));

    if (t && !describe(__func__, t, &d)) {
        free(t);
        return NULL;
    }
    return object_add(__func__, t ? &t->object : NULL, OBJECT_TENSOR);
}

aclnnStatus aclInitTensor(aclTensor *tensor, const int64_t *viewDims, uint64_t viewDimsNum,
                          aclDataType dataType, const int64_t *stride, int64_t offset,
                          aclFormat format, const int64_t *storageDims, uint64_t storageDimsNum,
                          void *tensorDataAddr)
{
    const struct description d = {viewDims, viewDimsNum, dataType,       stride,        offset,
                                  format,   storageDims, storageDimsNum, tensorDataAddr};
    struct tensor *t, other = {0};

    REQUIRE(tensor);
    if (!describe(__func__, &other, &d))
        return ACLNN_ERR_PARAM_INVALID;
    objects_lock();
    t = object_find(__func__, "tensor", tensor, OBJECT_TENSOR);
    if (t) {
        other.object = t->object;
        *t = other;
    }
    objects_unlock();
    return t ? ACLNN_SUCCESS : ACLNN_ERR_PARAM_INVALID;
}

aclnnStatus aclDestroyTensor(const aclTensor *tensor)
{
    return object_destroy(__func__, tensor, OBJECT_TENSOR);
}

/* --- properties --- */

static aclnnStatus copy_tensor(const char *api, const char *what, const aclTensor *tensor,
                               struct tensor *copy)
{
    struct tensor *t;

    if (!tensor)
        return failure_null(api, what);
    objects_lock();
    t = object_find(api, what, tensor, OBJECT_TENSOR);
    if (t)
        *copy = *t;
    objects_unlock();
    return t ? ACLNN_SUCCESS : ACLNN_ERR_PARAM_INVALID;
}

static aclnnStatus give_numbers(const char *api, const int64_t *from, uint64_t n, int64_t **to,
                                uint64_t *num)
{
    int64_t *copy = malloc((n > 0 ? n : 1) * sizeof(*copy));

    if (!copy)
        return failure_tell(ACLNN_ERR_INNER_NULLPTR, "%s: out of memory", api);
    memcpy(copy, from, n * sizeof(*copy));
    *to = copy;
    *num = n;
    return ACLNN_SUCCESS;
}

aclnnStatus aclGetViewShape(const aclTensor *tensor, int64_t **viewDims, uint64_t *viewDimsNum)
{
    struct tensor t;

    REQUIRE(viewDims);
    REQUIRE(viewDimsNum);
    RETURN_IF_FAILED(copy_tensor(__func__, "tensor", tensor, &t));
    return give_numbers(__func__, t.dim, t.dims, viewDims, viewDimsNum);
}

aclnnStatus aclGetStorageShape(const aclTensor *tensor, int64_t **storageDims,
                               uint64_t *storageDimsNum)
{
    struct tensor t;

    REQUIRE(storageDims);
    REQUIRE(storageDimsNum);
    RETURN_IF_FAILED(copy_tensor(__func__, "tensor", tensor, &t));
    return give_numbers(__func__, t.storage, t.storage_dims, storageDims, storageDimsNum);
}

aclnnStatus aclGetViewStrides(const aclTensor *tensor, int64_t **stridesValue, uint64_t *stridesNum)
{
    struct tensor t;

    REQUIRE(stridesValue);
    REQUIRE(stridesNum);
    RETURN_IF_FAILED(copy_tensor(__func__, "tensor", tensor, &t));
    return give_numbers(__func__, t.stride, t.dims, stridesValue, stridesNum);
}

#define GETTER(function, type, result, member)                                                     \
    aclnnStatus function(const aclTensor *tensor, type *result)                                    \
    {                                                                                              \
        struct tensor t;                                                                           \
                                                                                                   \
        REQUIRE(result);                                                                           \
        RETURN_IF_FAILED(copy_tensor(__func__, "tensor", tensor, &t));                             \
        *result = t.member;                                                                        \
        return ACLNN_SUCCESS;                                                                      \
    }

GETTER(aclGetViewOffset, int64_t, offset, offset)
GETTER(aclGetFormat, aclFormat, format, format)
GETTER(aclGetDataType, aclDataType, dataType, type)
GETTER(aclGetRawTensorAddr, void *, addr, address)

aclnnStatus aclSetRawTensorAddr(aclTensor *tensor, void *addr)
{
    struct tensor *t;

    REQUIRE(tensor);
    objects_lock();
    t = object_find(__func__, "tensor", tensor, OBJECT_TENSOR);
    if (t)
        t->address = addr;
    objects_unlock();
    return t ? ACLNN_SUCCESS : ACLNN_ERR_PARAM_INVALID;
}

/* --- for operators --- */

/* Layouts that strides describe. The names of their dimensions say nothing to an operator. */
static bool format_is_plain(aclFormat format)
{
    static const aclFormat plain[] = {ACL_FORMAT_UNDEFINED, ACL_FORMAT_NCHW, ACL_FORMAT_NHWC,
                                      ACL_FORMAT_ND,        ACL_FORMAT_HWCN, ACL_FORMAT_NDHWC,
                                      ACL_FORMAT_NCDHW,     ACL_FORMAT_NC,   ACL_FORMAT_NCL};

    for (size_t i = 0; i < sizeof(plain) / sizeof(plain[0]); i++)
        if (plain[i] == format)
            return true;
    return false;
}

/*
 * The offset does not count: some programs give the storage behind it, others all. An empty view
 * needs none.
 */
static bool fits_into_storage(const struct tensor *t)
{
    int64_t last = 0, size = 1;

    for (uint32_t i = 0; i < t->dims; i++) {
        if (t->dim[i] == 0)
            return true;
        last += (t->dim[i] - 1) * t->stride[i];
    }
    for (uint32_t i = 0; i < t->storage_dims; i++)
        size *= t->storage[i];
    return last < size;
}

aclnnStatus tensor_view(const char *api, const char *what, const aclTensor *tensor,
                        uint32_t dims_max, struct view *view)
{
    struct tensor t;

    RETURN_IF_FAILED(copy_tensor(api, what, tensor, &t));
    if (t.dims > dims_max)
        return failure_tell(ACLNN_ERR_PARAM_INVALID, "%s: %s has %u dimensions, %u are allowed",
                            api, what, t.dims, dims_max);
    if (!format_is_plain(t.format))
        return failure_tell(ACLNN_ERR_PARAM_INVALID,
                            "%s: %s has format %d, a layout that npud does not know; convert it to "
                            "ACL_FORMAT_ND",
                            api, what, t.format);
    if (!fits_into_storage(&t))
        return failure_tell(ACLNN_ERR_PARAM_INVALID,
                            "%s: the strides of %s lead out of its storage: compare viewDims and "
                            "stride with storageDims",
                            api, what);
    *view = (struct view){.address = t.address, .offset = t.offset, .type = t.type, .dims = t.dims};
    memcpy(view->dim, t.dim, sizeof(view->dim));
    memcpy(view->stride, t.stride, sizeof(view->stride));
    return ACLNN_SUCCESS;
}
