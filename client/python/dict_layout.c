#include "client/python/dict_layout.h"

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "acl/acl.h"
#include "acl/acl_rt_memory_soma.h"

enum kind { I32, U32, U64, U8, TEXT, VALUE, STRUCT }; /* VALUE: a number, or bytes of one */

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
#define NAMED_INNER(struct_, field, nested_, name_)                                                \
    {                                                                                              \
        .name = name_, .offset = offsetof(struct_, field), .kind = STRUCT, .nested = nested_       \
    }
#define INNER(struct_, field, nested_) NAMED_INNER(struct_, field, nested_, #field)
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
static const struct field pool_props[] = {
    FIELD(aclrtMemPoolProps, allocType, I32),
    FIELD(aclrtMemPoolProps, handleType, I32),
    INNER(aclrtMemPoolProps, location, location),
    FIELD(aclrtMemPoolProps, maxSize, U64),
    END,
};
static const struct field random_value[] = {
    FIELD(aclrtRandomParaInfo, isAddr, U8),
    FIELD(aclrtRandomParaInfo, valueOrAddr, VALUE),
    FIELD(aclrtRandomParaInfo, size, U8),
    END,
};
static const struct field dropout[] = {
    INNER(aclrtDropoutBitmaskInfo, dropoutRation, random_value),
    END,
};
static const struct field uniform[] = {
    INNER(aclrtUniformDisInfo, min, random_value),
    INNER(aclrtUniformDisInfo, max, random_value),
    END,
};
static const struct field normal[] = {
    INNER(aclrtNormalDisInfo, mean, random_value),
    INNER(aclrtNormalDisInfo, stddev, random_value),
    END,
};
/* paramInfo is a union, of which programs give the member that funcType names. */
static const struct field distribution[] = {
    FIELD(aclrtRandomNumFuncParaInfo, funcType, I32),
    NAMED_INNER(aclrtRandomNumFuncParaInfo, paramInfo.dropoutBitmaskInfo, dropout,
                "dropoutBitmaskInfo"),
    NAMED_INNER(aclrtRandomNumFuncParaInfo, paramInfo.uniformDisInfo, uniform, "uniformDisInfo"),
    NAMED_INNER(aclrtRandomNumFuncParaInfo, paramInfo.normalDisInfo, normal, "normalDisInfo"),
    END,
};
static const struct field random_task[] = {
    FIELD(aclrtRandomNumTaskInfo, dataType, I32),
    INNER(aclrtRandomNumTaskInfo, randomNumFuncParaInfo, distribution),
    FIELD(aclrtRandomNumTaskInfo, randomParaAddr, U64),
    FIELD(aclrtRandomNumTaskInfo, randomResultAddr, U64),
    FIELD(aclrtRandomNumTaskInfo, randomCounterAddr, U64),
    INNER(aclrtRandomNumTaskInfo, randomSeed, random_value),
    INNER(aclrtRandomNumTaskInfo, randomNum, random_value),
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

#define ONE(struct_, fields_)                                                                      \
    {                                                                                              \
        .text = "a dict with fields of " #struct_, .size = sizeof(struct_), .fields = fields_      \
    }
#define MANY(struct_, fields_)                                                                     \
    {                                                                                              \
        .text = "a list of dicts with fields of " #struct_, .size = sizeof(struct_),               \
        .fields = fields_, .many = true                                                            \
    }

static const struct dict_layout layouts['Z' + 1] = {
    ['A'] = ONE(aclrtPhysicalMemProp, physical),
    ['C'] = {.text = "a list of dicts with fields of aclrtMallocAttribute, or None",
             .size = sizeof(aclrtMallocAttribute),
             .fields = malloc_attribute,
             .many = true,
             .none = true},
    ['E'] = ONE(aclrtMemPoolProps, pool_props),
    ['G'] = MANY(aclrtMemcpyBatchAttr, batch),
    ['J'] = MANY(aclrtMemUsageInfo, usage),
    ['M'] = ONE(aclrtMemManagedLocation, managed_location),
    ['N'] = MANY(aclrtMemManagedLocation, managed_location),
    ['R'] = ONE(aclrtRandomNumTaskInfo, random_task),
    ['T'] = ONE(aclrtUtilizationInfo, utilization),
    ['V'] = ONE(aclCANNPackageVersion, version),
    ['W'] = MANY(aclrtMemAccessDesc, access_desc),
    ['Y'] = ONE(aclrtMemLocation, location),
    ['Z'] = ONE(aclrtPtrAttributes, pointer),
};

const struct dict_layout *dict_layout_find(char letter)
{
    return letter >= 'A' && letter <= 'Z' && layouts[(int)letter].fields ? &layouts[(int)letter]
                                                                         : NULL;
}

/* --- from dicts --- */

static int fields_take(const struct field *fields, PyObject *dict, char *to);

static size_t width_of(enum kind kind)
{
    return kind == U8 ? 1 : kind == U64 || kind == VALUE ? 8 : 4;
}

static int bytes_take(const struct field *f, PyObject *bytes, char *to)
{
    size_t size = (size_t)PyBytes_GET_SIZE(bytes);

    if (size > f->size) {
        PyErr_SetString(PyExc_ValueError, "too many bytes");
        return -1;
    }
    memcpy(to + f->offset, PyBytes_AS_STRING(bytes), size);
    return 0;
}

/* Of an array only zeros can be meant, which is what is left out. */
static int field_take(const struct field *f, PyObject *value, char *to)
{
    uint64_t number;

    if (f->kind == STRUCT)
        return fields_take(f->nested, value, to + f->offset);
    if (f->kind == VALUE && PyBytes_Check(value))
        return bytes_take(f, value, to);
    number = PyLong_AsUnsignedLongLongMask(value);
    if (number == UINT64_MAX && PyErr_Occurred())
        return -1;
    memcpy(to + f->offset, &number,
           width_of(f->kind)); /* little-endian: modulo, as other numbers */
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

int dict_layout_take(const struct dict_layout *layout, PyObject *dict, void *to)
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
    size_t width = width_of(f->kind);
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

PyObject *dict_layout_give(const struct dict_layout *layout, const void *from)
{
    return fields_give(layout->fields, from);
}
