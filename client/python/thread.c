#include "client/python/thread.h"

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdbool.h>

#include "client/python/callback.h"
#include "client/python/interrupt.h"

struct thread {
    pthread_t id;
    PyObject *fn, *argument; /* until fn has returned */
    PyObject *failure;       /* class of what fn raised */
    sem_t begun;
    bool joining;
    struct thread *next; /* in threads */
};

/*
 * All that were not joined. The number of such a thread is not given out again. Guarded by the
 * GIL.
 */
static struct thread *threads;

/*
 * The thread itself has set the exception. SystemExit ends it quietly, as it does a thread of
 * threading.
 */
static void note_failure(struct thread *t)
{
    if (PyErr_ExceptionMatches(PyExc_SystemExit)) {
        PyErr_Clear();
        return;
    }
    t->failure = Py_NewRef(PyErr_Occurred());
    PyErr_PrintEx(0);
}

static void *thread_main(void *arg)
{
    struct thread *t = arg;
    PyGILState_STATE gil;
    PyObject *result;

    if (!callback_cross()) {
        sem_post(&t->begun);
        return NULL;
    }
    gil = PyGILState_Ensure();
    callback_crossed(0);
    sem_post(&t->begun);
    result = t->argument == Py_None ? PyObject_CallNoArgs(t->fn)
                                    : PyObject_CallOneArg(t->fn, t->argument);
    if (!result)
        note_failure(t);
    Py_XDECREF(result);
    Py_CLEAR(t->fn);
    Py_CLEAR(t->argument);
    callback_leave(gil, 0);
    return NULL;
}

static struct thread *thread_new(PyObject *fn, PyObject *argument)
{
    struct thread *t = PyMem_RawCalloc(1, sizeof(*t));

    if (!t) {
        PyErr_NoMemory();
        return NULL;
    }
    t->fn = Py_NewRef(fn);
    t->argument = Py_NewRef(argument);
    sem_init(&t->begun, 0, 0);
    return t;
}

static void thread_free(struct thread *t)
{
    Py_XDECREF(t->fn);
    Py_XDECREF(t->argument);
    Py_XDECREF(t->failure);
    sem_destroy(&t->begun);
    PyMem_RawFree(t);
}

int thread_start(PyObject *fn, PyObject *argument, uint64_t *id)
{
    struct thread *t = thread_new(fn, argument);
    int error;

    if (!t)
        return -1;
    error = pthread_create(&t->id, NULL, thread_main, t);
    if (error != 0) {
        thread_free(t);
        return error;
    }
    t->next = threads;
    threads = t;
    *id = (uint64_t)t->id;
    /* Otherwise the interpreter could end between our return and its first step. */
    Py_BEGIN_ALLOW_THREADS;
    while (sem_wait(&t->begun) < 0 && errno == EINTR)
        ;
    Py_END_ALLOW_THREADS;
    return 0;
}

static void thread_unlink(struct thread *t)
{
    struct thread **p = &threads;

    while (*p != t)
        p = &(*p)->next;
    *p = t->next;
}

/* The result of thread_stop, after the join. */
static int thread_result(const struct thread *t)
{
    if (!t->failure)
        return 0;
    PyErr_Format(PyExc_RuntimeError, "acl.util.stop_thread: the thread ended with %s",
                 ((PyTypeObject *)t->failure)->tp_name);
    return -1;
}

int thread_stop(uint64_t id)
{
    struct thread *t = threads;
    int error;

    while (t && (uint64_t)t->id != id)
        t = t->next;
    if (!t)
        return ESRCH;
    if (pthread_equal(t->id, pthread_self()))
        return EDEADLK;
    if (t->joining)
        return EINVAL;
    t->joining = true;
    error = interrupt_join(t->id);
    t->joining = false;
    if (error != 0)
        return error;
    thread_unlink(t);
    error = thread_result(t);
    thread_free(t);
    return error;
}

/*
 * No thread but the one that forked is in a child; references of the others stay with their frames.
 */
static void forget_all(void)
{
    threads = NULL;
}

int thread_init(void)
{
    if (pthread_atfork(NULL, NULL, forget_all) == 0)
        return 0;
    PyErr_NoMemory();
    return -1;
}
