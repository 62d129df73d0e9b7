/* Events in asyncio: a future that is done when a record is. */
#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>

/**
 * A future of the running loop, whose result is the code that tells of the event's latest record;
 * or at once that of aclnpudEventNotifyFd(), which see. NULL with an exception set: there is no
 * running loop, no descriptor, or no memory. The loop waits for a descriptor of the future's own,
 * which is closed when the future is done or cancelled, or dropped with its loop. Caller holds the
 * GIL.
 */
PyObject *event_future(void *event);
