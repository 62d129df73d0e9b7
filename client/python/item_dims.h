/* The dimensions of data items, which are lists here. */
#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "acl/acl_tdt.h"

/** acltdtCreateDataItem, with a list that may be empty. Any thread. */
acltdtDataItem *item_dims_create(acltdtTensorType kind, const void *dims, size_t n,
                                 aclDataType data_type, void *data, size_t size);

/**
 * acltdtGetDimsFromItem. Holds the GIL. *dims: a new reference, empty after an error; NULL with an
 * exception.
 */
int item_dims_get(const acltdtDataItem *item, PyObject **dims);
