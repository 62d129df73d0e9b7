#include "client/python/layout.h"

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "acl/acl.h"

enum kind { I32, U32, U64, TEXT, STRUCT };

struct field {
    const char *name;
    size_t offset, size; /* several numbers are a list */
    const struct field *nested;
    enum kind kind;
};

#define NAMED(struct_, field, kind_, name_)                                                        \
    {                                                                                              \
        .name = name_, .offset = offsetof(struct_, field), .size = sizeof(((struct_ *)0)->field),  \
        .kind = kind_                                                                              \
    }
#define FIELD(struct_, field, kind_) NAMED(struct_, field, kind_, #field)
#define INNER(struct_, field, nested_)                                                             \
    {                                                                                              \
        .name = #field, .offset = offsetof(struct_, field), .kind = STRUCT, .nested = nested_      \
    }
#define END                                                                                        \
    {                                                                                              \
        0                                                                                          \
    }

static const struct field location[] = {
    FIELD(aclrtMemLocation, id, U32),
    FIELD(aclrtMemLocation, type, I32),
    END,
};
static const struct field managed_location[] = {
    FIELD(aclrtMemManagedLocation, type, I32),
    FIELD(aclrtMemManagedLocation, id, I32),
    END,
};
static const struct field physical[] = {
    FIELD(aclrtPhysicalMemProp, handleType, I32), FIELD(aclrtPhysicalMemProp, allocationType, I32),
    FIELD(aclrtPhysicalMemProp, memAttr, I32),    INNER(aclrtPhysicalMemProp, location, location),
    FIELD(aclrtPhysicalMemProp, reserve, U64),    END,
};
/* The value is a union of numbers that begin at the same byte, the largest with 32 bits. */
static const struct field malloc_attribute[] = {
    FIELD(aclrtMallocAttribute, attr, I32),
    NAMED(aclrtMallocAttribute, value.deviceId, U32, "value"),
    END,
};
static const struct field batch[] = {
    INNER(aclrtMemcpyBatchAttr, dstLoc, location),
    INNER(aclrtMemcpyBatchAttr, srcLoc, location),
    END,
};
static const struct field access_desc[] = {
    FIELD(aclrtMemAccessDesc, flags, I32),
    INNER(aclrtMemAccessDesc, location, location),
    END,
};
/* Programs know page_size. */
static const struct field pointer[] = {
    INNER(aclrtPtrAttributes, location, location),
    NAMED(aclrtPtrAttributes, pageSize, U32, "page_size"),
    FIELD(aclrtPtrAttributes, rsv, U32),
    END,
};
static const struct field usage[] = {
    FIELD(aclrtMemUsageInfo, name, TEXT),
    FIELD(aclrtMemUsageInfo, curMemSize, U64),
    FIELD(aclrtMemUsageInfo, memPeakSize, U64),
    END,
};
static const struct field utilization[] = {
    FIELD(aclrtUtilizationInfo, cubeUtilization, I32),
    FIELD(aclrtUtilizationInfo, vectorUtilization, I32),
    FIELD(aclrtUtilizationInfo, aicpuUtilization, I32),
    FIELD(aclrtUtilizationInfo, memoryUtilization, I32),
    END,
};
static const struct field version[] = {
    FIELD(aclCANNPackageVersion, version, TEXT),
    FIELD(aclCANNPackageVersion, majorVersion, TEXT),
    FIELD(aclCANNPackageVersion, minorVersion, TEXT),
    FIELD(aclCANNPackageVersion, releaseVersion, TEXT),
    FIELD(aclCANNPackageVersion, patchVersion, TEXT),
    END,
};

static const struct layout layouts[] = {
    {"a dict with fields of aclrtPhysicalMemProp", sizeof(aclrtPhysicalMemProp), physical, 'A',
     false, false},
    {"a list of dicts with fields of aclrtMallocAttribute, or None", sizeof(aclrtMallocAttribute),
     malloc_attribute, 'C', true, true},
    {"a list of dicts with fields of aclrtMemcpyBatchAttr", sizeof(aclrtMemcpyBatchAttr), batch,
     'G', true, false},
    {"a list of dicts", sizeof(aclrtMemUsageInfo), usage, 'J', true, false},
    {"a dict with fields of aclrtMemManagedLocation", sizeof(aclrtMemManagedLocation),
     managed_location, 'M', false, false},
    {"a list of dicts with fields of aclrtMemManagedLocation", sizeof(aclrtMemManagedLocation),
     managed_location, 'N', true, false},
    {"a dict", sizeof(aclrtUtilizationInfo), utilization, 'T', false, false},
    {"a dict", sizeof(aclCANNPackageVersion), version, 'V', false, false},
    {"a list of dicts with fields of aclrtMemAccessDesc", sizeof(aclrtMemAccessDesc), access_desc,
     'W', true, false},
    {"a dict with fields of aclrtMemLocation", sizeof(aclrtMemLocation), location, 'Y', false,
     false},
    {"a dict", sizeof(aclrtPtrAttributes), pointer, 'Z', false, false},
};

const struct layout *layout_find(char letter)
{
    for (size_t i = 0; i < sizeof(layouts) / sizeof(layouts[0]); i++)
        if (layouts[i].letter == letter)
            return &layouts[i];
    return NULL;
}

/* --- from dicts --- */

static int fields_take(const struct field *fields, PyObject *dict, char *to);

/* Of an array only zeros can be meant, which is what is left out. */
static int field_take(const struct field *f, PyObject *value, char *to)
{
    size_t width = f->kind == U64 ? 8 : 4;
    uint64_t number;

    if (f->kind == STRUCT)
        return fields_take(f->nested, value, to + f->offset);
    number = PyLong_AsUnsignedLongLongMask(value);
    if (number == UINT64_MAX && PyErr_Occurred())
        return -1;
    memcpy(to + f->offset, &number, width); /* little-endian: modulo, as other numbers */
    return 0;
}

static int fields_take(const struct field *fields, PyObject *dict, char *to)
{
    Py_ssize_t known = 0;
    int error = 0;

    if (!PyDict_Check(dict)) {
        PyErr_SetString(PyExc_ValueError, "not a dict");
        return -1;
    }
    for (const struct field *f = fields; f->name && error == 0; f++) {
        PyObject *value = PyDict_GetItemString(dict, f->name);

        if (!value)
            continue;
        known++;
        Py_INCREF(value); /* its __index__ may change the dict */
        error = field_take(f, value, to);
        Py_DECREF(value);
    }
    if (error == 0 && known != PyDict_Size(dict)) {
        PyErr_SetString(PyExc_ValueError, "other fields");
        return -1;
    }
    return error;
}

int layout_take(const struct layout *layout, PyObject *dict, void *to)
{
    return fields_take(layout->fields, dict, to);
}

/* --- to dicts --- */

static PyObject *fields_give(const struct field *fields, const char *from);

static PyObject *number_give(enum kind kind, const char *at)
{
    uint64_t u64;
    uint32_t u32;
    int32_t i32;

    switch (kind) {
    case I32:
        memcpy(&i32, at, sizeof(i32));
        return PyLong_FromLong(i32);
    case U32:
        memcpy(&u32, at, sizeof(u32));
        return PyLong_FromUnsignedLong(u32);
    default:
        memcpy(&u64, at, sizeof(u64));
        return PyLong_FromUnsignedLongLong(u64);
    }
}

static PyObject *list_give(const struct field *f, const char *at)
{
    size_t width = f->kind == U64 ? 8 : 4;
    PyObject *list = PyList_New(0), *number;

    for (size_t i = 0; list && i < f->size; i += width) {
        number = number_give(f->kind, at + i);
        if (!number || PyList_Append(list, number) < 0)
            Py_CLEAR(list);
        Py_XDECREF(number);
    }
    return list;
}

static PyObject *field_give(const struct field *f, const char *from)
{
    const char *at = from + f->offset;

    if (f->kind == STRUCT)
        return fields_give(f->nested, at);
    if (f->kind == TEXT)
        return PyUnicode_DecodeUTF8(at, (Py_ssize_t)strnlen(at, f->size), "replace");
    return f->size > 8 ? list_give(f, at) : number_give(f->kind, at);
}

static PyObject *fields_give(const struct field *fields, const char *from)
{
    PyObject *dict = PyDict_New();

    for (const struct field *f = fields; f->name && dict; f++) {
        /* Not PyDict_SetItemString(): it would intern and forget the name at each call. */
        PyObject *name = PyUnicode_FromString(f->name);
        PyObject *value = name ? field_give(f, from) : NULL;

        if (!value || PyDict_SetItem(dict, name, value) < 0)
            Py_CLEAR(dict);
        Py_XDECREF(name);
        Py_XDECREF(value);
    }
    return dict;
}

PyObject *layout_give(const struct layout *layout, const void *from)
{
    return fields_give(layout->fields, from);
}
