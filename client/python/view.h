/*
 * Memory of the library that Python reads and writes in place, through the buffer protocol.
 *
 * A view is known from its making until the last memoryview (or array) over it is gone. As long as
 * it is known, this module refuses the calls that would end its memory, with a BufferError: what
 * ends device memory refuses for every view of device memory, because a key or a device does not
 * tell which addresses go.
 */
#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdbool.h>
#include <stdint.h>

#include "client/python/invoke.h"

/**
 * A memoryview. NULL with an exception set: ValueError for what is not memory of the library, or
 * can not be read by this process. Holds the GIL, here and below.
 */
PyObject *view_memory(void *address, uint64_t size);

/** bf_getbuffer over that memory: -1 with an exception set. */
int view_fill(void *address, uint64_t size, Py_buffer *buffer, int flags);

/** Does a call that ends memory (row->flags) end that of a view? BufferError is set then. */
bool view_refuses(const struct row *row, void *argument);

/** Where the bytes of a shared buffer are. 0: it is none. */
uint64_t view_buffer_range(void *buf, void **address);

/** How many bytes the allocation at address has from there. 0: it is none. */
uint64_t view_allocation_size(void *address);

/** 0, or -1 with an exception set. To be called once, when the module is made. */
int view_init(void);
