#include "client/python/event_future.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include "acl/acl_npud.h"
#include "proto/util/lift_fd.h"

/* What both callbacks of a future are bound to: a tuple. */
enum { LOOP, FUTURE, FILE_OBJECT, EVENT };

/* The result, unless the program has cancelled the future before. */
static PyObject *result_set(PyObject *future, int ret)
{
    PyObject *done = PyObject_CallMethod(future, "done", NULL);
    int is = done ? PyObject_IsTrue(done) : -1;

    Py_XDECREF(done);
    if (is < 0)
        return NULL;
    if (is)
        Py_RETURN_NONE;
    return PyObject_CallMethod(future, "set_result", "i", ret);
}

/* The loop has found the descriptor readable. It may do so again before descriptor_drop(). */
static PyObject *outcome_tell(PyObject *waited, PyObject *unused)
{
    void *event = PyLong_AsVoidPtr(PyTuple_GET_ITEM(waited, EVENT));
    aclrtEventRecordedStatus status;

    (void)unused;
    return result_set(PyTuple_GET_ITEM(waited, FUTURE), aclrtQueryEventStatus(event, &status));
}

/*
 * The future is done or cancelled. The descriptor leaves the loop first, because the library has a
 * copy of it, by which an epoll set would keep what is closed.
 */
static PyObject *descriptor_drop(PyObject *waited, PyObject *future)
{
    PyObject *file = PyTuple_GET_ITEM(waited, FILE_OBJECT);
    PyObject *removed =
        PyObject_CallMethod(PyTuple_GET_ITEM(waited, LOOP), "remove_reader", "O", file);

    (void)future;
    if (!removed)
        return NULL;
    Py_DECREF(removed);
    return PyObject_CallMethod(file, "close", NULL);
}

static PyMethodDef outcome_tell_method = {"event_is_complete", outcome_tell, METH_NOARGS, NULL};
static PyMethodDef descriptor_drop_method = {"event_is_over", descriptor_drop, METH_O, NULL};

/* As loop.name(first, bound) or object.name(bound), with the method bound to the tuple. */
static int call_with_method(PyObject *object, const char *name, PyObject *first,
                            PyMethodDef *method, PyObject *waited)
{
    PyObject *bound = PyCFunction_New(method, waited);
    PyObject *result = !bound  ? NULL
                       : first ? PyObject_CallMethod(object, name, "OO", first, bound)
                               : PyObject_CallMethod(object, name, "O", bound);

    Py_XDECREF(bound);
    Py_XDECREF(result);
    return result ? 0 : -1;
}

/* An object that owns an eventfd, so that none is lost with a loop that is dropped. */
static PyObject *descriptor_new(int *fd)
{
    PyObject *io = PyImport_ImportModule("io"), *file = NULL;

    *fd = io ? lift_fd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) : -1;
    if (io && *fd < 0)
        PyErr_SetFromErrno(PyExc_OSError);
    if (*fd >= 0) {
        file = PyObject_CallMethod(io, "FileIO", "is", *fd, "rb");
        if (!file)
            close(*fd);
    }
    Py_XDECREF(io);
    return file;
}

static int record_await(PyObject *loop, PyObject *future, void *event)
{
    PyObject *file, *waited, *result = NULL;
    int fd, ret, error = -1;

    file = descriptor_new(&fd);
    waited = file ? Py_BuildValue("OOON", loop, future, file, PyLong_FromVoidPtr(event)) : NULL;
    if (waited && call_with_method(loop, "add_reader", file, &outcome_tell_method, waited) == 0 &&
        call_with_method(future, "add_done_callback", NULL, &descriptor_drop_method, waited) == 0) {
        Py_BEGIN_ALLOW_THREADS;
        ret = aclnpudEventNotifyFd(event, fd);
        Py_END_ALLOW_THREADS;
        result = ret == ACL_SUCCESS ? Py_NewRef(Py_None) : result_set(future, ret);
        error = result ? 0 : -1;
    }
    Py_XDECREF(result);
    Py_XDECREF(waited);
    Py_XDECREF(file);
    return error;
}

PyObject *event_future(void *event)
{
    PyObject *asyncio = PyImport_ImportModule("asyncio");
    PyObject *loop = asyncio ? PyObject_CallMethod(asyncio, "get_running_loop", NULL) : NULL;
    PyObject *future = loop ? PyObject_CallMethod(loop, "create_future", NULL) : NULL;

    if (future && record_await(loop, future, event) < 0)
        Py_CLEAR(future);
    Py_XDECREF(loop);
    Py_XDECREF(asyncio);
    return future;
}
