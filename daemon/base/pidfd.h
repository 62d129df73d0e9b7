/* Processes: which one has a pid at this moment, and whether it is still that one. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/**
 * A pidfd of the process that has pid now (the caller closes it), or -errno; -ESRCH: there is none.
 */
int pidfd_open_process(int32_t pid);

/** Has the process of this pidfd not ended? As the kernel knows it now. -1: no process. */
bool pidfd_alive(int pidfd);

/**
 * What tells a process from a later one with the same pid: the inode of its pidfd (since Linux
 * 6.9), or else the time when it started. 0: unknown.
 */
uint64_t pidfd_of(int32_t pid, int pidfd);

/** The same of the process that has pid now. 0: there is none, or it is unknown. */
uint64_t pidfd_now(int32_t pid);
