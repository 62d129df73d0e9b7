/*
 * Python functions that the library calls: from a stream (acl.rt.launch_callback) and for a failed
 * task (acl.rt.set_exception_info_callback).
 *
 * They run with the GIL held, on the thread state of the thread that the library calls them on: in
 * acl.rt.process_report that is the thread's own. What they raise goes to sys.unraisablehook.
 *
 * The end of the interpreter: from the first of its exit functions on, nothing is called any more.
 * A thread that is inside the library at that time must not be unwound through the library's
 * frames, which is what CPython 3.11 does to threads that ask for the GIL too late; such a thread
 * stays where it is until the process is gone.
 */
#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>

#include "acl/acl.h"

/**
 * aclrtLaunchCallback. The entry owns references to fn and argument until fn has returned or the
 * library has dropped it; a launch that fails keeps none. -1 with MemoryError set. Caller holds
 * the GIL, here and below.
 */
int callback_launch(PyObject *fn, PyObject *argument, int32_t block, void *stream);

/** aclrtSetExceptionInfoCallback. fn NULL: none. */
int callback_set_exception(PyObject *fn);

/** Let go of what the library has dropped since. Runs destructors of Python objects. */
void callback_let_go(void);

/** 0, or -1 with an exception set. To be called once, when the module is made. */
int callback_init(void);

/** The interpreter is ending (or has ended). Any thread, no GIL. */
int callback_is_over(void);
