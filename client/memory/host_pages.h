/*
 * The pages under a range of host memory, exchanged while the program goes on to use it: private
 * ones for such as npud's engine reaches, and back. The contents stay.
 *
 * Other threads that touch the range meanwhile wait (userfaultfd(2)), so that no write of theirs is
 * lost. Where the kernel has no such thing, or forbids it, a write during the exchange may be lost.
 * A system call of another thread that is given such memory waits too if this process may handle
 * faults of the kernel (CAP_SYS_PTRACE, vm.unprivileged_userfaultfd); else it may fail with EFAULT.
 *
 * All ranges are of whole pages.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HOST_PAGE 4096u

enum host_pages_fault {
    HOST_PAGES_FINE,
    HOST_PAGES_ABSENT,   /* part of the range is not mapped */
    HOST_PAGES_OTHER,    /* a file, shared memory, a main stack, or not to be written */
    HOST_PAGES_IN_USE,   /* by the calling thread itself: its stack, or its thread-local memory */
    HOST_PAGES_TOO_MANY, /* mappings */
    HOST_PAGES_FAILED,   /* errno tells why */
};

/** Can the range be exchanged by host_pages_share()? */
enum host_pages_fault host_pages_check(uintptr_t start, size_t size);

/**
 * Put the mapping at `shared`, of the same size, under the range. It is not at `shared` any more
 * then. *id tells host_pages_keep() what was put there.
 */
enum host_pages_fault host_pages_share(uintptr_t start, size_t size, uintptr_t shared,
                                       uint64_t *id);

/**
 * Put private pages under what is still of that id: a program that has freed the range, or mapped
 * something else there, keeps what it has. alone: no other thread is there. Safe in a child of
 * fork().
 */
enum host_pages_fault host_pages_keep(uintptr_t start, size_t size, uint64_t id, bool alone);
