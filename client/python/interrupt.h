/*
 * Signals while the main thread is in the library. Python runs signal handlers in the main thread,
 * between two steps of the interpreter: here they run between two sleeps of the library, or, where
 * it holds locks, after it has let go of them.
 *
 * What a handler raises, KeyboardInterrupt for one, stays set as the thread's exception until the
 * call has ended, and is what the caller gets.
 */
#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <pthread.h>
#include <stdbool.h>

/* What the calling thread is in. */
struct interrupt_scope {
    /* a call of this module, and not a Python function that the library has called in it */
    bool in_call;
    bool ending; /* an exception is set, which the call is going to give to its caller */
};

/**
 * A call into the library begins, or (in_call false) a Python function that the library calls.
 * Returns what the thread was in before, for interrupt_leave(). Caller holds the GIL, here and
 * below.
 */
struct interrupt_scope interrupt_enter(bool in_call);
void interrupt_leave(struct interrupt_scope outer);

/**
 * The call returned ACLNPUD_ERROR_INTERRUPTED. 0: no handler has raised anything, make it again; -1
 * with an exception set.
 */
int interrupt_again(void);

/**
 * Does what a Python function has raised, which the library has called in `outer`, end that call?
 * KeyboardInterrupt, SystemExit and such do, in the main thread; the exception stays set then.
 */
bool interrupt_ends_call(struct interrupt_scope *outer);

/**
 * A Python function has returned, which the library has called in `outer`. Runs handlers, as many
 * functions may follow in one call; what a handler raises ends that call, and stays set then.
 */
void interrupt_after_function(struct interrupt_scope *outer);

/**
 * pthread_join(), and its result; -1 with an exception set: a signal handler has raised it, and the
 * thread goes on. Without the GIL meanwhile.
 */
int interrupt_join(pthread_t thread);

/** 0, or -1 with an exception set. To be called once, when the module is made. */
int interrupt_init(void);
