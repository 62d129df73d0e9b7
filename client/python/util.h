/*
 * acl.util: addresses of Python objects, and objects made of addresses. Each returns NULL or -1
 * with an exception set.
 */
#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>

/**
 * A copy of size bytes. The GIL is given away for a big one: what other threads write there
 * meanwhile is in it or not, byte by byte.
 */
PyObject *util_bytes(const void *address, uint64_t size);

/**
 * The address of element 0. Warns that it is deprecated, and if the elements are not in one piece.
 */
int util_numpy_address(PyObject *array, uint64_t *address);

/** The same for *contiguous, which is array itself or a copy of it in one piece. New reference. */
int util_numpy_contiguous(PyObject *array, uint64_t *address, PyObject **contiguous);

/** An array over the memory. type is NumPy's number of a type. */
PyObject *util_numpy_view(void *address, PyObject *shape, int32_t type);
