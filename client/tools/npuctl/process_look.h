/* What a process does when it does not wait in the library: by the states of its threads. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

enum process_state {
    PROCESS_SLEEPS,   /* all threads sleep */
    PROCESS_COMPUTES, /* a thread is on a processor, waits for one, or for a disk */
    PROCESS_STOPPED,  /* by a signal */
    PROCESS_TRACED,   /* by a debugger */
    PROCESS_HIDDEN,   /* /proc does not show it: it has ended, or it is of another namespace */
};

/** Looks at it a few times over some milliseconds, because a thread may run for a moment only. */
enum process_state process_look(pid_t pid);

/** Is it a process of the calling user, as /proc has it? False: it is not, or it is hidden. */
bool process_is_own(pid_t pid);
/** Its name in /proc; empty if that does not show it. */
void process_name(pid_t pid, char *name, size_t size);
