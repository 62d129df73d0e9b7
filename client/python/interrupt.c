#include "client/python/interrupt.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <time.h>

#include "acl/acl_npud.h"

static _Thread_local bool
    known; /* whether the calling thread is the one in which Python runs signal handlers */
static _Thread_local bool main_one; /* it is */
static _Thread_local struct interrupt_scope scope;

/* Signals that have arrived: run their handlers. */
static int run_handlers(void)
{
    if (PyErr_CheckSignals() < 0)
        scope.ending = true;
    return scope.ending;
}

/*
 * The library holds locks, and handlers must not run: only Ctrl-C is asked for, which a look takes
 * away.
 */
static int look_for_interrupt(void)
{
    if (!PyOS_InterruptOccurred())
        return 0;
    PyErr_SetInterrupt();
    return 1;
}

static int32_t check_signals(void *unused, aclnpudInterruptMoment moment)
{
    PyGILState_STATE gil;
    int end;

    (void)unused;
    if (scope.ending)
        return 1;
    /*
     * A call of the library from elsewhere in the program, through ctypes for one: it cannot raise
     * anything.
     */
    if (!scope.in_call || moment == ACLNPUD_INTERRUPT_CALLBACK)
        return 0;
    gil = PyGILState_Ensure();
    end = moment == ACLNPUD_INTERRUPT_LOCKED ? look_for_interrupt() : run_handlers();
    PyGILState_Release(gil);
    return end;
}

/*
 * Python has no public function that tells. signal.signal() asks first whether the thread may
 * handle signals (ValueError: it may not), and then refuses None as a handler (TypeError).
 */
static bool handles_signals(void)
{
    PyObject *type, *value, *traceback, *module, *nothing = NULL;
    bool handles = false;

    PyErr_Fetch(&type, &value, &traceback);
    module = PyImport_ImportModule("signal");
    if (module)
        nothing = PyObject_CallMethod(module, "signal", "iO", SIGINT, Py_None);
    handles = PyErr_ExceptionMatches(PyExc_TypeError);
    PyErr_Clear();
    Py_XDECREF(nothing);
    Py_XDECREF(module);
    PyErr_Restore(type, value, traceback);
    return handles;
}

static void get_to_know(void)
{
    known = true;
    main_one = handles_signals();
    if (main_one)
        aclnpudSetInterruptCheck(check_signals, NULL);
}

struct interrupt_scope interrupt_enter(bool in_call)
{
    struct interrupt_scope outer = scope;

    if (!known)
        get_to_know();
    scope = (struct interrupt_scope){.in_call = in_call};
    return outer;
}

void interrupt_leave(struct interrupt_scope outer)
{
    scope = outer;
}

int interrupt_again(void)
{
    return PyErr_Occurred() || PyErr_CheckSignals() < 0 ? -1 : 0;
}

bool interrupt_ends_call(struct interrupt_scope *outer)
{
    if (!main_one || !outer->in_call || outer->ending || PyErr_ExceptionMatches(PyExc_Exception))
        return false;
    outer->ending = true;
    return true;
}

void interrupt_after_function(struct interrupt_scope *outer)
{
    if (main_one && outer->in_call && !outer->ending && PyErr_CheckSignals() < 0)
        outer->ending = true;
}

static struct timespec slice_end(void)
{
    struct timespec end;

    clock_gettime(CLOCK_MONOTONIC, &end);
    end.tv_nsec += 50000000;
    if (end.tv_nsec >= 1000000000) {
        end.tv_sec++;
        end.tv_nsec -= 1000000000;
    }
    return end;
}

/* A join is not ended by a signal: the main thread looks from time to time. */
int interrupt_join(pthread_t thread)
{
    struct timespec end;
    int error;

    do {
        if (PyErr_CheckSignals() < 0)
            return -1;
        end = slice_end();
        Py_BEGIN_ALLOW_THREADS error =
            main_one ? pthread_clockjoin_np(thread, NULL, CLOCK_MONOTONIC, &end)
                     : pthread_join(thread, NULL);
        Py_END_ALLOW_THREADS
    } while (error == ETIMEDOUT);
    return error;
}

/* The thread that has forked is the main thread of the child. */
static void forget_thread(void)
{
    known = false;
}

int interrupt_init(void)
{
    if (pthread_atfork(NULL, NULL, forget_thread) == 0)
        return 0;
    PyErr_NoMemory();
    return -1;
}
