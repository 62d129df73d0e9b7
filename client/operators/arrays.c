/* Arrays of numbers of the host, and lists of tensors and scalars. */
#include <stdlib.h>
#include <string.h>

#include "client/operators/failure.h"
#include "client/operators/object.h"

struct array {
    struct object object;
    uint64_t size;
    unsigned char elements[]; /* of a list: handles */
};

static void *create_array(const char *api, enum object_kind kind, const void *value, uint64_t size,
                          size_t element)
{
    struct array *a;
    size_t bytes;

    if (!value && size > 0) {
        failure_tell(ACLNN_ERR_PARAM_NULLPTR, "%s: value is NULL, and size is %llu", api,
                     (unsigned long long)size);
        return NULL;
    }
    a = __builtin_mul_overflow(size, element, &bytes) || bytes > SIZE_MAX / 2
            ? NULL
            : calloc(1, sizeof(*a) + bytes);
    if (a) {
        a->size = size;
        if (size > 0)
            memcpy(a->elements, value, bytes);
    }
    return object_add(api, a ? &a->object : NULL, kind);
}

static aclnnStatus read_size(const char *api, enum object_kind kind, const void *handle,
                             uint64_t *size)
{
    struct array *a;

    if (!handle || !size)
        return failure_null(api, handle ? "size" : "the array");
    objects_lock();
    a = object_find(api, "the array", handle, kind);
    if (a)
        *size = a->size;
    objects_unlock();
    return a ? ACLNN_SUCCESS : ACLNN_ERR_PARAM_INVALID;
}

/* All of a list must be there when it is made. */
static void *create_list(const char *api, enum object_kind kind, enum object_kind of,
                         const void *value, uint64_t size)
{
    const void *const *elements = value;
    bool all = true;

    objects_lock();
    for (uint64_t i = 0; value && i < size && all; i++)
        all = !elements[i] || object_find(api, "an element", elements[i], of);
    objects_unlock();
    return all ? create_array(api, kind, value, size, sizeof(void *)) : NULL;
}

/* What was destroyed by itself meanwhile is passed over: no other object has its handle. */
static aclnnStatus destroy_list(const char *api, const void *handle, enum object_kind kind,
                                aclnnStatus (*destroy)(const char *, const void *))
{
    struct array *list;

    if (!handle)
        return ACLNN_SUCCESS;
    objects_lock();
    list = object_find(api, "the list", handle, kind);
    if (list)
        object_remove(list);
    objects_unlock();
    if (!list)
        return ACLNN_ERR_PARAM_INVALID;
    for (uint64_t i = 0; i < list->size; i++)
        destroy(api, ((void **)(void *)list->elements)[i]);
    free(list);
    return ACLNN_SUCCESS;
}

#define ARRAY(Name, name, number, kind)                                                            \
    acl##Name *aclCreate##Name(const number *value, uint64_t size)                                 \
    {                                                                                              \
        return create_array(__func__, kind, value, size, sizeof(*value));                          \
    }                                                                                              \
                                                                                                   \
    aclnnStatus aclDestroy##Name(const acl##Name *array)                                           \
    {                                                                                              \
        return object_destroy(__func__, array, kind);                                              \
    }                                                                                              \
                                                                                                   \
    aclnnStatus aclGet##Name##Size(const acl##Name *array, uint64_t *size)                         \
    {                                                                                              \
        return read_size(__func__, kind, array, size);                                             \
    }

ARRAY(IntArray, int_array, int64_t, OBJECT_INT_ARRAY)
ARRAY(FloatArray, float_array, float, OBJECT_FLOAT_ARRAY)
ARRAY(BoolArray, bool_array, bool, OBJECT_BOOL_ARRAY)

static aclnnStatus destroy_tensor(const char *api, const void *handle)
{
    return object_destroy(api, handle, OBJECT_TENSOR);
}

static aclnnStatus destroy_scalar(const char *api, const void *handle)
{
    return object_destroy(api, handle, OBJECT_SCALAR);
}

aclTensorList *aclCreateTensorList(const aclTensor *const *value, uint64_t size)
{
    return create_list(__func__, OBJECT_TENSOR_LIST, OBJECT_TENSOR, value, size);
}

aclScalarList *aclCreateScalarList(const aclScalar *const *value, uint64_t size)
{
    return create_list(__func__, OBJECT_SCALAR_LIST, OBJECT_SCALAR, value, size);
}

aclnnStatus aclDestroyTensorList(const aclTensorList *array)
{
    return destroy_list(__func__, array, OBJECT_TENSOR_LIST, destroy_tensor);
}

aclnnStatus aclDestroyScalarList(const aclScalarList *array)
{
    return destroy_list(__func__, array, OBJECT_SCALAR_LIST, destroy_scalar);
}

aclnnStatus aclGetTensorListSize(const aclTensorList *tensorList, uint64_t *size)
{
    return read_size(__func__, OBJECT_TENSOR_LIST, tensorList, size);
}

aclnnStatus aclGetScalarListSize(const aclScalarList *scalarList, uint64_t *size)
{
    return read_size(__func__, OBJECT_SCALAR_LIST, scalarList, size);
}
