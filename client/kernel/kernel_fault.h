/*
 * What ends a kernel from outside of its code: a fault of its own, or another thread that wants it
 * to end. Both are signals to the thread that runs a block, whose handler jumps out of the kernel.
 *
 * The handlers (SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, and SIGURG, which one thread sends to
 * another) are installed when the process runs its first kernel, and stay. A signal that is not of
 * a kernel goes to what was there before, as if the library had no handler.
 * NPUD_KERNEL_FAULTS=core: only SIGURG is taken; a fault of a kernel goes to what was there before,
 * which is a core dump most times.
 *
 * No destructor runs in a kernel that is jumped out of, and a lock that it holds stays taken:
 * what the library calls for a kernel is between kernel_hold_begin() and kernel_hold_end().
 */
#pragma once

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "acl/acl_npud_kernel.h"

struct block_memory;
struct kernel_run;

/** A thread that runs blocks. Only the thread itself and its signal handler write here. */
struct kernel_thread {
    pthread_t id;
    pid_t process;                     /* that it is of: a forked child is another one */
    struct kernel_thread *prev, *next; /* run->threads, under run->lock */
    struct kernel_run *run;            /* NULL: none */
    const _Atomic int *code;           /* of it: not 0: it is to end */
    const void *function;              /* of its kernel */
    aclnpudBlock block;
    struct block_memory *memory; /* of the block */
    sigjmp_buf jump;
    volatile sig_atomic_t inside; /* in the kernel: a signal may jump out */
    volatile sig_atomic_t holds;  /* but not now */
    volatile sig_atomic_t stays;  /* asked to leave this block, it could not */
    /* The fault that it was jumped out for; signal 0: none, another thread wanted it. */
    volatile sig_atomic_t signal;
    volatile uintptr_t address;     /* that could not be used */
    volatile uintptr_t instruction; /* that failed */
    void *alternate_stack;
};

#define KERNEL_INSIST_NS UINT64_C(500000)

extern __thread struct kernel_thread *kernel_thread_current;

/** The run that it is in is to end. The thread is in one. */
static inline bool kernel_thread_shall_end(const struct kernel_thread *t)
{
    return atomic_load_explicit(t->code, memory_order_relaxed) != 0;
}

/** The calling thread's, made on first use, with the signals let through. NULL: no memory. */
struct kernel_thread *kernel_thread_self(void);

/** Install the handlers, once. */
void kernel_fault_prepare(void);

/**
 * Make a thread leave its kernel, if it is inside of one. The thread exists. It stays while it is
 * inside a call of this library, and for a while (KERNEL_INSIST_NS times 2000) if it is in another
 * library than its kernel, where it may hold a lock, as of malloc(): ask again.
 */
void kernel_fault_interrupt(const struct kernel_thread *t);

/** Leave the kernel that the calling thread is inside of, as by this signal. */
void kernel_fault_leave(struct kernel_thread *t, int signal) __attribute__((noreturn));

static inline void kernel_hold_begin(struct kernel_thread *t)
{
    t->holds++;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
}

/** Leaves the kernel if it was to end meanwhile. */
void kernel_hold_end(struct kernel_thread *t);

/** "SIGSEGV" */
const char *kernel_fault_name(int signal);
