#include "client/python/callback.h"

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "acl/acl_npud.h"

/* --- in and out of Python --- */

static atomic_bool over; /* an exit function of the interpreter has run */

int callback_is_over(void)
{
    return atomic_load(&over) || !Py_IsInitialized();
}

/* pthread_exit() in a frame above the library's: see callback.h. */
static void stay(void *unused)
{
    (void)unused;
    for (;;)
        pause();
}

/* Whether Python still runs, and then the GIL is held. */
static int enter(PyGILState_STATE *gil)
{
    if (callback_is_over())
        return 0;
    *gil = PyGILState_Ensure();
    return 1;
}

/* new reference to argument: stolen */
static void call(PyObject *fn, PyObject *argument)
{
    PyObject *result = argument ? PyObject_CallOneArg(fn, argument) : NULL;

    if (!result)
        PyErr_WriteUnraisable(fn);
    Py_XDECREF(result);
    Py_XDECREF(argument);
}

/* --- callbacks in streams --- */

struct launched {
    PyObject *fn, *argument;
    struct launched *next; /* in dropped */
};

/*
 * What will not run. The library drops it in the middle of a call and under locks of its own, where no Python may run. So it is
 * collected: by a thread of Python until its call returns, and for other threads in one list for whoever comes first.
 */
static _Thread_local struct launched *dropped_here;
static _Atomic(struct launched *) dropped_elsewhere;

static void launched_free(struct launched *l)
{
    Py_DECREF(l->fn);
    Py_DECREF(l->argument);
    PyMem_RawFree(l);
}

static void list_free(struct launched *l)
{
    for (struct launched *next; l; l = next) {
        next = l->next;
        launched_free(l);
    }
}

/* Destructors may call into the library, and come here again. */
void callback_let_go(void)
{
    struct launched *l = dropped_here;

    dropped_here = NULL;
    list_free(l);
    if (atomic_load_explicit(&dropped_elsewhere, memory_order_relaxed))
        list_free(atomic_exchange(&dropped_elsewhere, NULL));
}

static int let_go_later(void *unused)
{
    (void)unused;
    callback_let_go();
    return 0;
}

static void drop(void *arg)
{
    struct launched *l = arg;

    if (!callback_is_over() && PyGILState_GetThisThreadState()) {
        l->next = dropped_here;
        dropped_here = l;
        return;
    }
    l->next = atomic_load(&dropped_elsewhere);
    while (!atomic_compare_exchange_weak(&dropped_elsewhere, &l->next, l))
        ;
    /* In the main thread, if no call into the library comes first. No room in its list of calls: one will come. */
    if (!callback_is_over())
        (void)Py_AddPendingCall(let_go_later, NULL);
}

static void run(void *arg)
{
    struct launched *l = arg;
    PyGILState_STATE gil;

    pthread_cleanup_push(stay, NULL);
    if (enter(&gil)) {
        Py_INCREF(l->argument);
        call(l->fn, l->argument);
        launched_free(l);
        PyGILState_Release(gil);
    }
    pthread_cleanup_pop(0);
}

int callback_launch(PyObject *fn, PyObject *argument, int32_t block, void *stream)
{
    struct launched *l = PyMem_RawMalloc(sizeof(*l));
    int error;

    if (!l) {
        PyErr_NoMemory();
        return -1;
    }
    *l = (struct launched){.fn = Py_NewRef(fn), .argument = Py_NewRef(argument)};
    Py_BEGIN_ALLOW_THREADS error =
        aclnpudLaunchCallbackWithDrop(run, drop, l, (aclrtCallbackBlockType)block, stream);
    Py_END_ALLOW_THREADS if (error != ACL_SUCCESS) launched_free(l);
    callback_let_go();
    return error;
}

/* --- failed tasks --- */

static PyObject *exception_fn; /* guarded by the GIL */

static void on_exception(aclrtExceptionInfo *info)
{
    PyGILState_STATE gil;

    pthread_cleanup_push(stay, NULL);
    if (enter(&gil)) {
        PyObject *fn = exception_fn;

        if (fn) {
            Py_INCREF(fn);
            call(fn, PyLong_FromVoidPtr(info));
            Py_DECREF(fn);
        }
        PyGILState_Release(gil);
    }
    pthread_cleanup_pop(0);
}

/*
 * Without the GIL two threads may hand their setting to the library in another order than they wrote exception_fn in. Whoever
 * was last there looks again, and so the two agree in the end.
 */
int callback_set_exception(PyObject *fn)
{
    PyObject *old = exception_fn;
    int wanted, error;

    exception_fn = Py_XNewRef(fn);
    do {
        wanted = exception_fn != NULL;
        Py_BEGIN_ALLOW_THREADS error = aclrtSetExceptionInfoCallback(wanted ? on_exception : NULL);
        Py_END_ALLOW_THREADS
    } while (error == ACL_SUCCESS && wanted != (exception_fn != NULL));
    Py_XDECREF(old);
    return error;
}

/* --- the end --- */

static PyObject *exiting(PyObject *self, PyObject *unused)
{
    (void)self;
    (void)unused;
    atomic_store(&over, true);
    Py_RETURN_NONE;
}

static PyMethodDef exit_method = {"_end_of_callbacks", exiting, METH_NOARGS, NULL};

int callback_init(void)
{
    PyObject *function = PyCFunction_New(&exit_method, NULL);
    PyObject *module = PyImport_ImportModule("atexit");
    PyObject *done =
        module && function ? PyObject_CallMethod(module, "register", "O", function) : NULL;

    Py_XDECREF(function);
    Py_XDECREF(module);
    Py_XDECREF(done);
    return done ? 0 : -1;
}
