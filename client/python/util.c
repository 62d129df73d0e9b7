#include "client/python/util.h"

#include <stddef.h>
#include <string.h>

/* Bytes that are copied faster than the GIL changes hands. */
#define COPY_WITH_GIL (64 * 1024)

PyObject *util_bytes(const void *address, uint64_t size)
{
    PyObject *bytes;

    if (size > PY_SSIZE_T_MAX)
        return PyErr_NoMemory();
    if (size == 0)
        return PyBytes_FromStringAndSize("", 0);
    if (!address) {
        PyErr_SetString(PyExc_ValueError, "acl.util.ptr_to_bytes: a null pointer");
        return NULL;
    }
    bytes = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)size);
    if (!bytes)
        return NULL;
    if (size < COPY_WITH_GIL) {
        memcpy(PyBytes_AS_STRING(bytes), address, size);
    } else {
        Py_BEGIN_ALLOW_THREADS;
        memcpy(PyBytes_AS_STRING(bytes), address, size);
        Py_END_ALLOW_THREADS;
    }
    return bytes;
}

/*
 * --- numpy: used as any Python program would; nothing of it is needed to build or to import acl
 * ---
 */

static PyObject *numpy_get(const char *name)
{
    PyObject *numpy = PyImport_ImportModule("numpy");
    PyObject *attribute = numpy ? PyObject_GetAttrString(numpy, name) : NULL;

    Py_XDECREF(numpy);
    return attribute;
}

static int check_array(PyObject *array)
{
    PyObject *type = numpy_get("ndarray");
    int is = type ? PyObject_IsInstance(array, type) : -1;

    Py_XDECREF(type);
    if (is == 0)
        PyErr_SetString(PyExc_ValueError, "not a numpy.ndarray");
    return is > 0 ? 0 : -1;
}

static int array_address(PyObject *array, uint64_t *address)
{
    PyObject *ctypes = PyObject_GetAttrString(array, "ctypes");
    PyObject *data = ctypes ? PyObject_GetAttrString(ctypes, "data") : NULL;

    if (data)
        *address = PyLong_AsUnsignedLongLong(data);
    Py_XDECREF(ctypes);
    Py_XDECREF(data);
    return PyErr_Occurred() ? -1 : 0;
}

static int array_is_contiguous(PyObject *array)
{
    PyObject *flags = PyObject_GetAttrString(array, "flags");
    PyObject *flag = flags ? PyObject_GetAttrString(flags, "c_contiguous") : NULL;
    int is = flag ? PyObject_IsTrue(flag) : -1;

    Py_XDECREF(flags);
    Py_XDECREF(flag);
    return is;
}

static int warn_user(const char *text)
{
    return PyErr_WarnEx(PyExc_Warning, text, 1);
}

int util_numpy_address(PyObject *array, uint64_t *address)
{
    int contiguous;

    if (check_array(array) < 0 ||
        warn_user("acl.util.numpy_to_ptr is deprecated: use bytes_to_ptr(array.tobytes())") < 0)
        return -1;
    contiguous = array_is_contiguous(array);
    if (contiguous < 0 ||
        (contiguous == 0 &&
         warn_user("acl.util.numpy_to_ptr: the array is not contiguous: its elements "
                   "are not beside each other at this address") < 0))
        return -1;
    return array_address(array, address);
}

int util_numpy_contiguous(PyObject *array, uint64_t *address, PyObject **contiguous)
{
    PyObject *make, *piece;
    int is;

    if (check_array(array) < 0 ||
        warn_user(
            "acl.util.numpy_contiguous_to_ptr is deprecated: use bytes_to_ptr(array.tobytes())") <
            0)
        return -1;
    is = array_is_contiguous(array);
    if (is < 0)
        return -1;
    make = is ? NULL : numpy_get("ascontiguousarray");
    piece = is ? Py_NewRef(array) : make ? PyObject_CallOneArg(make, array) : NULL;
    Py_XDECREF(make);
    if (!piece || array_address(piece, address) < 0) {
        Py_XDECREF(piece);
        return -1;
    }
    *contiguous = piece;
    return 0;
}

/* NumPy's numbers of types, its letters for them, and the sizes in C. */
static const struct type {
    const char *letter;
    size_t size;
} types[] = {
    [0] = {"?", 1},
    [1] = {"b", 1},
    [2] = {"B", 1},
    [3] = {"h", sizeof(short)},
    [4] = {"H", sizeof(short)},
    [5] = {"i", sizeof(int)},
    [6] = {"I", sizeof(int)},
    [7] = {"l", sizeof(long)},
    [8] = {"L", sizeof(long)},
    [9] = {"q", sizeof(long long)},
    [10] = {"Q", sizeof(long long)},
    [11] = {"f", sizeof(float)},
    [12] = {"d", sizeof(double)},
    [23] = {"e", 2},
};

#define N_TYPES (int32_t)(sizeof(types) / sizeof(types[0]))

/* Bytes of an array; -1: not a shape. */
static Py_ssize_t shape_size(PyObject *shape, size_t item)
{
    Py_ssize_t size = (Py_ssize_t)item;

    if (!PyTuple_Check(shape))
        return -1;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(shape); i++) {
        PyObject *number = PyTuple_GET_ITEM(shape, i);
        Py_ssize_t n = PyLong_Check(number) ? PyLong_AsSsize_t(number) : -1;

        if (n < 0 || __builtin_mul_overflow(size, n, &size)) {
            PyErr_Clear();
            return -1;
        }
    }
    return size;
}

static PyObject *view_make(PyObject *memory, PyObject *shape, const char *letter)
{
    PyObject *type = numpy_get("ndarray");
    PyObject *view = type ? PyObject_CallFunction(type, "OsO", shape, letter, memory) : NULL;

    Py_XDECREF(type);
    return view;
}

PyObject *util_numpy_view(void *address, PyObject *shape, int32_t type)
{
    static char nothing[1];
    PyObject *memory, *view;
    Py_ssize_t size;

    if (type < 0 || type >= N_TYPES || !types[type].letter)
        return PyErr_Format(PyExc_ValueError, "acl.util.ptr_to_numpy: %d is no number of a type",
                            type);
    size = shape_size(shape, types[type].size);
    if (size < 0)
        return PyErr_Format(PyExc_ValueError,
                            "acl.util.ptr_to_numpy: the shape must be a tuple of ints");
    if (size > 0 && !address)
        return PyErr_Format(PyExc_ValueError, "acl.util.ptr_to_numpy: a null pointer");
    memory = PyMemoryView_FromMemory(size > 0 ? address : nothing, size, PyBUF_WRITE);
    if (!memory)
        return NULL;
    view = view_make(memory, shape, types[type].letter);
    Py_DECREF(memory);
    return view;
}
