#include "client/python/item_dims.h"

#define DIMS_MAX 128 /* of an item */

acltdtDataItem *item_dims_create(acltdtTensorType kind, const void *dims, size_t n,
                                 aclDataType data_type, void *data, size_t size)
{
    return acltdtCreateDataItem(kind, n > 0 ? dims : NULL, n, data_type, data, size);
}

int item_dims_get(const acltdtDataItem *item, PyObject **dims)
{
    size_t n = acltdtGetDimNumFromItem(item);
    int64_t values[DIMS_MAX] = {0};
    int error = acltdtGetDimsFromItem(item, n > 0 ? values : NULL, n > 0 ? DIMS_MAX : 0);

    *dims = PyList_New(error == ACL_SUCCESS ? (Py_ssize_t)n : 0);
    for (size_t i = 0; *dims && error == ACL_SUCCESS && i < n; i++) {
        PyObject *value = PyLong_FromLongLong(values[i]);

        if (!value)
            Py_CLEAR(*dims);
        else
            PyList_SET_ITEM(*dims, (Py_ssize_t)i, value);
    }
    return error;
}
