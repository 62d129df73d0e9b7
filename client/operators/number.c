#include "client/operators/number.h"

#include <stdlib.h>
#include <string.h>

#include "client/operators/failure.h"

struct scalar {
    struct object object;
    aclDataType type;
    unsigned char bytes[16]; /* ACL_COMPLEX128 */
};

double number_real(const struct number *n)
{
    double value;

    if (n->type->class != TYPE_FLOATING)
        return (double)number_whole(n);
    n->type->load_real(&value, n->bytes, 1, 1);
    return value;
}

int64_t number_whole(const struct number *n)
{
    int64_t value;

    n->type->load_whole(&value, n->bytes, 1, 1);
    return value;
}

aclScalar *aclCreateScalar(void *value, aclDataType dataType)
{
    size_t size = aclDataTypeSize(dataType);
    struct scalar *s;

    if (!value || !data_type_exists(dataType) || size == 0 || size > sizeof(s->bytes)) {
        failure_tell(value ? ACLNN_ERR_PARAM_INVALID : ACLNN_ERR_PARAM_NULLPTR,
                     value ? "%s: %d is no type of scalars" : "%s: value is NULL", __func__,
                     dataType);
        return NULL;
    }
    s = calloc(1, sizeof(*s));
    if (s) {
        s->type = dataType;
        memcpy(s->bytes, value, size);
    }
    return object_add(__func__, s ? &s->object : NULL, OBJECT_SCALAR);
}

aclnnStatus aclDestroyScalar(const aclScalar *scalar)
{
    return object_destroy(__func__, scalar, OBJECT_SCALAR);
}

aclnnStatus number_read(const char *api, const char *what, const aclScalar *scalar,
                        struct number *number)
{
    aclDataType type = ACL_DT_UNDEFINED;
    struct scalar *s;

    objects_lock();
    s = object_find(api, what, scalar, OBJECT_SCALAR);
    if (s) {
        type = s->type;
        memcpy(number->bytes, s->bytes, sizeof(number->bytes));
    }
    objects_unlock();
    if (!s)
        return ACLNN_ERR_PARAM_INVALID;
    number->type = data_type_find(type);
    return number->type ? ACLNN_SUCCESS
                        : failure_tell(ACLNN_ERR_PARAM_INVALID,
                                       "%s: %s has type %d, which the operator does not take", api,
                                       what, type);
}
