/*
 * Control groups of version 2: which one a process is in. Files of the kernel, which may make the
 * caller wait for its locks: not for the control thread.
 */
#pragma once

#include <stdint.h>
#include <sys/types.h>

#define CGROUP_PATH_MAX 4096 /* bytes, with the zero byte */

/**
 * The control group of a job that the process with this pid is in, or is below: the first
 * components of its path, which one of the patterns is for. patterns: as [jobs] cgroups, each with
 * as many components as it is to match. root: of the host's /proc, "" for npud's own. 0 with an
 * empty path: the process is in no job. -errno: its control group cannot be read.
 *
 * The caller makes sure that the pid was still that of its process afterwards.
 */
int cgroup_find_batch_job(const char *root, const char *patterns, pid_t pid,
                          char path[CGROUP_PATH_MAX]);

/** memory.max of a control group; UINT64_MAX: it has none. -errno: it cannot be read. */
int cgroup_memory_max(const char *root, const char *path, uint64_t *most);
