#include "client/python/queue_attr.h"

#include <string.h>

static int say_value(PyObject *value, const char *kind)
{
    PyErr_Format(PyExc_TypeError,
                 "acl.tdt.set_queue_attr args parse failed: argument 3 (value) must be %s, and "
                 "this %.200s is not",
                 kind, Py_TYPE(value)->tp_name);
    return -1;
}

int queue_attr_set(acltdtQueueAttr *attr, int32_t type, PyObject *value)
{
    const char *name = NULL;
    Py_ssize_t size = 0;
    uint32_t depth;

    if (type == ACL_TDT_QUEUE_NAME_PTR) {
        if (PyUnicode_Check(value))
            name = PyUnicode_AsUTF8AndSize(value, &size);
        PyErr_Clear();
        if (!name || strlen(name) != (size_t)size)
            return say_value(value, "a str without NUL and surrogates for type 0, the name");
        return acltdtSetQueueAttr(attr, ACL_TDT_QUEUE_NAME_PTR, sizeof(name), &name);
    }
    if (!PyIndex_Check(value))
        return say_value(value, "an int for every type but 0");
    depth = (uint32_t)PyLong_AsUnsignedLongMask(value);
    if (PyErr_Occurred())
        return -1;
    return acltdtSetQueueAttr(attr, (acltdtQueueAttrType)type, sizeof(depth), &depth);
}

int queue_attr_get(const acltdtQueueAttr *attr, int32_t type, PyObject **value)
{
    size_t written = 0;
    union {
        const char *name;
        uint32_t depth;
    } got = {NULL};
    int error = acltdtGetQueueAttr(attr, (acltdtQueueAttrType)type, sizeof(got), &written, &got);

    *value = error == ACL_SUCCESS && type == ACL_TDT_QUEUE_NAME_PTR
                 ? PyUnicode_DecodeUTF8(got.name, (Py_ssize_t)strlen(got.name), "replace")
                 : PyLong_FromUnsignedLong(error == ACL_SUCCESS ? got.depth : 0);
    return error;
}
