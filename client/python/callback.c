#include "client/python/callback.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <time.h>
#include <unistd.h>

#include "acl/acl_npud.h"
#include "client/python/interrupt.h"

/* --- in and out of Python --- */

/*
 * The gate between the library's threads and the interpreter. A thread that is on its way in or out
 * uses what the end of the interpreter takes away, so that waits for it; a function that runs is
 * given GRACE_MS.
 */
#define GRACE_MS 500

static struct gate {
    pthread_mutex_t lock;
    pthread_cond_t moved;
    unsigned crossing; /* threads on their way in or out */
    unsigned inside;   /* threads that run Python functions */
    bool over;         /* an exit function of the interpreter has run */
} gate = {.lock = PTHREAD_MUTEX_INITIALIZER, .moved = PTHREAD_COND_INITIALIZER};

static _Thread_local struct gate mine; /* the calling thread's part of these */

/* From one state of the calling thread to another: how many more cross, and are inside. */
static void gate_move(int crossing, int inside)
{
    mine.crossing += (unsigned)crossing;
    mine.inside += (unsigned)inside;
    gate.crossing += (unsigned)crossing;
    gate.inside += (unsigned)inside;
    if (gate.over)
        pthread_cond_broadcast(&gate.moved);
}

int callback_cross(void)
{
    int may;

    pthread_mutex_lock(&gate.lock);
    may = !gate.over;
    if (may)
        gate_move(1, 0);
    pthread_mutex_unlock(&gate.lock);
    return may;
}

void callback_crossed(int inside)
{
    pthread_mutex_lock(&gate.lock);
    gate_move(-1, inside);
    pthread_mutex_unlock(&gate.lock);
}

/* pthread_exit() in a frame above the library's: see callback.h. */
static void stay_forever(void *unused)
{
    (void)unused;
    for (;;)
        pause();
}

/* Whether Python still runs, and then the GIL is held. */
static int enter_python(PyGILState_STATE *gil)
{
    if (!callback_cross())
        return 0;
    *gil = PyGILState_Ensure();
    callback_crossed(1);
    return 1;
}

/* Also when the gate is closed: the one that closes it needs the GIL, which this thread has. */
void callback_leave(PyGILState_STATE gil, int inside)
{
    pthread_mutex_lock(&gate.lock);
    gate_move(1, -inside);
    pthread_mutex_unlock(&gate.lock);
    PyGILState_Release(gil);
    callback_crossed(0);
}

/* new reference to argument: stolen */
static void call_function(PyObject *fn, PyObject *argument)
{
    struct interrupt_scope outer = interrupt_enter(false);
    PyObject *type, *value, *trace, *result;

    /* What ends the call that we are in, if anything does. */
    PyErr_Fetch(&type, &value, &trace);
    result = argument ? PyObject_CallOneArg(fn, argument) : NULL;
    if (!result && !interrupt_ends_call(&outer))
        PyErr_WriteUnraisable(fn);
    interrupt_after_function(&outer);
    if (type)
        PyErr_Restore(type, value, trace);
    Py_XDECREF(result);
    Py_XDECREF(argument);
    interrupt_leave(outer);
}

/* --- callbacks in streams --- */

struct launched {
    PyObject *fn, *argument;
    struct launched *next; /* in dropped */
};

/*
 * What will not run. The library drops it in the middle of a call and under locks of its own, where
 * no Python may run. So it is collected: by a thread of Python until its call returns, and for
 * other threads in one list for the thread that comes first.
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

static void drop_launched(void *arg)
{
    struct launched *l = arg;

    /* The interpreter has ended, and its objects with it. */
    if (!callback_cross())
        return;
    if (PyGILState_GetThisThreadState()) {
        l->next = dropped_here;
        dropped_here = l;
    } else {
        l->next = atomic_load(&dropped_elsewhere);
        while (!atomic_compare_exchange_weak(&dropped_elsewhere, &l->next, l))
            ;
        /*
         * In the main thread, if no call into the library comes first. No room in its list of
         * calls: one will come.
         */
        (void)Py_AddPendingCall(let_go_later, NULL);
    }
    callback_crossed(0);
}

static void run_launched(void *arg)
{
    struct launched *l = arg;
    PyGILState_STATE gil;

    pthread_cleanup_push(stay_forever, NULL);
    if (enter_python(&gil)) {
        Py_INCREF(l->argument);
        call_function(l->fn, l->argument);
        launched_free(l);
        callback_leave(gil, 1);
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
    Py_BEGIN_ALLOW_THREADS;
    error = aclnpudLaunchCallbackWithDrop(run_launched, drop_launched, l,
                                          (aclrtCallbackBlockType)block, stream);
    Py_END_ALLOW_THREADS;
    if (error != ACL_SUCCESS)
        launched_free(l);
    callback_let_go();
    return error;
}

/* --- failed tasks --- */

static PyObject *exception_fn; /* guarded by the GIL */

static void on_exception(aclrtExceptionInfo *info)
{
    PyGILState_STATE gil;

    pthread_cleanup_push(stay_forever, NULL);
    if (enter_python(&gil)) {
        PyObject *fn = exception_fn;

        if (fn) {
            Py_INCREF(fn);
            call_function(fn, PyLong_FromVoidPtr(info));
            Py_DECREF(fn);
        }
        callback_leave(gil, 1);
    }
    pthread_cleanup_pop(0);
}

/*
 * Without the GIL two threads may hand their setting to the library in another order than they
 * wrote exception_fn in. The thread that was last there looks again, so the two agree in the end.
 */
int callback_set_exception(PyObject *fn)
{
    PyObject *old = exception_fn;
    int wanted, error;

    exception_fn = Py_XNewRef(fn);
    do {
        wanted = exception_fn != NULL;
        Py_BEGIN_ALLOW_THREADS;
        error = aclrtSetExceptionInfoCallback(wanted ? on_exception : NULL);
        Py_END_ALLOW_THREADS;
    } while (error == ACL_SUCCESS && wanted != (exception_fn != NULL));
    Py_XDECREF(old);
    return error;
}

/* --- the end --- */

static struct timespec grace_end(void)
{
    struct timespec end;

    clock_gettime(CLOCK_MONOTONIC, &end);
    end.tv_sec += (end.tv_nsec + GRACE_MS * 1000000L) / 1000000000L;
    end.tv_nsec = (end.tv_nsec + GRACE_MS * 1000000L) % 1000000000L;
    return end;
}

static void gate_close(void)
{
    struct timespec end = grace_end();
    int late = 0;

    pthread_mutex_lock(&gate.lock);
    gate.over = true;
    while (late != ETIMEDOUT && gate.inside > mine.inside)
        late = pthread_cond_clockwait(&gate.moved, &gate.lock, CLOCK_MONOTONIC, &end);
    /* These have the GIL, or get it. */
    while (gate.crossing > 0)
        pthread_cond_wait(&gate.moved, &gate.lock);
    pthread_mutex_unlock(&gate.lock);
}

static PyObject *close_at_exit(PyObject *self, PyObject *unused)
{
    (void)self;
    (void)unused;
    Py_BEGIN_ALLOW_THREADS;
    gate_close();
    Py_END_ALLOW_THREADS;
    Py_RETURN_NONE;
}

/* In a child there is only the thread that has forked. */
static void forget_others(void)
{
    pthread_mutex_init(&gate.lock, NULL);
    pthread_cond_init(&gate.moved, NULL);
    gate.crossing = mine.crossing;
    gate.inside = mine.inside;
}

static PyMethodDef exit_method = {"_end_of_callbacks", close_at_exit, METH_NOARGS, NULL};

int callback_init(void)
{
    PyObject *function = PyCFunction_New(&exit_method, NULL);
    PyObject *module = PyImport_ImportModule("atexit");
    PyObject *done =
        module && function ? PyObject_CallMethod(module, "register", "O", function) : NULL;

    if (done && pthread_atfork(NULL, NULL, forget_others) != 0) {
        PyErr_NoMemory();
        Py_CLEAR(done);
    }
    Py_XDECREF(function);
    Py_XDECREF(module);
    Py_XDECREF(done);
    return done ? 0 : -1;
}
