/* The two attributes of queues, whose values are of different types. Both hold the GIL. */
#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>

#include "acl/acl_tdt_queue.h"

/** acltdtSetQueueAttr. -1 with TypeError set for a value of another type. */
int queue_attr_set(acltdtQueueAttr *attr, int32_t type, PyObject *value);

/** acltdtGetQueueAttr. *value: a new reference, 0 after an error; NULL with an exception set. */
int queue_attr_get(const acltdtQueueAttr *attr, int32_t type, PyObject **value);
