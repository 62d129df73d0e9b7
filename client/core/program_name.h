/*
 * What tells this process from others in what npud prints, and in files of traces, profiles and
 * checks: "train", "python3 train.py", or what the program calls itself by prctl(PR_SET_NAME).
 *
 * The process says it, and npud does not read /proc/PID: that is another one's in another PID
 * namespace, hidden by hidepid=2 from the user npud, and /proc/PID/cmdline may wait for a lock of
 * the client's. It is what the process is called when its session begins: a name that changes
 * later would cost a system call per request to notice.
 */
#pragma once

#include <stddef.h>

#define PROGRAM_NAME_MAX 64 /* bytes, with the last, as npud keeps them */

/**
 * The name, cut to size. The first of these: the name of the main thread, if the program has set
 * one; for an interpreter, its own and that of its script or module; program_invocation_short_name.
 * Opens one descriptor at a time; without any it is the last of these. Any thread.
 */
void program_name(char *name, size_t size);
