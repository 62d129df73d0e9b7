/* acl.util.start_thread and stop_thread: native threads that run a Python function. */
#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>

/**
 * Start a thread that calls fn(argument), or fn() when argument is None. *id is its pthread_t. 0,
 * or the error number of the creation; -1 with an exception set. Returns when the thread has begun.
 * It is like a daemon thread of threading: the end of the interpreter does not wait for it. Caller
 * holds the GIL, here and below.
 */
int thread_start(PyObject *fn, PyObject *argument, uint64_t *id);

/**
 * Wait for the end of a thread from thread_start. 0, or an error number: ESRCH for no such thread
 * (joined already, or of the parent of this process), EINVAL when another thread waits for it
 * already, EDEADLK for the caller itself. -1 with RuntimeError set when fn has raised.
 */
int thread_stop(uint64_t id);

/** 0, or -1 with an exception set. To be called once, when the module is made. */
int thread_init(void);
