/*
 * Python functions that the library calls: from a stream (acl.rt.launch_callback) and for a failed
 * task (acl.rt.set_exception_info_callback).
 *
 * They run with the GIL held, on the thread state of the thread that the library calls them on: in
 * acl.rt.process_report that is the thread's own. What they raise goes to sys.unraisablehook,
 * unless it is to end the call that they run in (interrupt.h).
 *
 * The end of the interpreter: this module's exit function (atexit) lets no thread in any more, and
 * waits for those that are on their way in or out; what is to be called later is dropped. A
 * function that runs has half a second to return; after that it is left behind, as the end of a
 * process does with daemon threads. Such a thread that is inside the library at that time must not
 * be unwound through the library's frames, which is what CPython 3.11 does to threads that ask for
 * the GIL too late; such a thread stays where it is until the process is gone.
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

/**
 * Before a thread that is not Python's takes or gives back the GIL, or uses the interpreter without
 * it. 0: the interpreter is ending (or has ended), and it must not. Otherwise callback_crossed() is
 * to follow; inside 1: the thread runs Python from now on. Any thread.
 */
int callback_cross(void);
void callback_crossed(int inside);

/** Such a thread gives the GIL back. inside as in callback_crossed() when it began. */
void callback_leave(PyGILState_STATE gil, int inside);
