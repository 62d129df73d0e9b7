/*
 * A file of a file system in user space (FUSE) that answers nothing about its contents: a page of
 * it never comes, and closing it never ends. So a process can stay in the kernel, with the locks
 * that it holds there, for as long as it likes. Needs /dev/fuse, and a mount namespace: root, or a
 * user namespace.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct silent_file {
    int fd;                    /* for reading and writing */
    _Atomic uint32_t *reads;   /* how many have asked for a page, and wait; a futex */
    _Atomic uint32_t *flushes; /* how many close a descriptor of it, and wait */
};

/**
 * Make one. The calling process has mounts of its own from now on, has no other thread, and may
 * change its user afterwards. A child of it in the same process group serves the file system until
 * it is killed, or the parent of the calling process has ended: both let all go that wait. False:
 * it cannot be had here.
 */
bool silent_file_open(struct silent_file *file);

/** Does need_lacks() need to say so? Tried in a child. */
bool silent_file_possible(void);
