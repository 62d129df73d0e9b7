/*
 * One kernel that runs: its blocks, on threads. The thread of the lane (client/callback/
 * kernel_lane.h) is one of them, unless the kernel has a time limit, which it then watches.
 *
 * At most KERNEL_BLOCKS_AT_ONCE blocks are in the kernel at once, each on a thread of its own, so
 * that they may wait for each other. A thread that comes to a launch wakes the next one before its
 * first block, and takes block after block: of blocks that are short few threads are woken, of
 * blocks that wait all.
 *
 * The first failure counts. It makes the other blocks leave the kernel; those that have not begun
 * do not begin.
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "acl/acl_npud_kernel.h"

#define KERNEL_BLOCKS_AT_ONCE 128u

struct kernel_thread;

struct kernel_failure {
    int signal;        /* 0: another thread has ended it, or: */
    bool thread_ended; /* by the kernel itself */
    uint32_t block;
    uintptr_t address, instruction;
};

/** The caller fills in the first part, all else zero. */
struct kernel_run {
    const aclnpudKernel *kernel;
    const void *args; /* as kernel_call() wants them */
    uint32_t blocks;
    uint64_t limit_ns; /* how long it may take; 0: for ever */

    pid_t process;
    _Atomic int code;      /* 0, or the ACL error that it fails with */
    _Atomic uint32_t next; /* block to begin */

    pthread_mutex_t lock;
    pthread_cond_t left;           /* a thread has left */
    struct kernel_thread *threads; /* that are in it, under lock */
    uint32_t started;              /* threads for it, the leader among them; under lock */
    uint32_t inside;               /* of those, how many have not left; under lock */
    bool short_of_threads;         /* no more could be made; under lock */
    bool insisted;                 /* a thread waits until all have left, and asks; under lock */
    struct kernel_failure failure; /* once code is not 0; under lock */

    /* aclnpudBlockSync() */
    _Atomic bool syncs;        /* some block has called it */
    _Atomic uint32_t returned; /* blocks */
    _Atomic uint32_t round;    /* futex */
    uint32_t arrived;          /* blocks, in this round; under lock */
};

/**
 * Run it, on the calling thread and others, until all blocks have ended: run->code says how. The
 * lock and the condition are made and destroyed by the caller.
 */
void kernel_run(struct kernel_run *run);

/**
 * Make it end with this code, unless it has ended or fails already. Any thread. Called again, it
 * asks the threads again that could not leave at that moment (kernel_fault_interrupt()).
 */
void kernel_run_end(struct kernel_run *run, int code);
