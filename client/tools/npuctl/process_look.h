/* What a process does when it does not wait in the library: by the states of its threads. */
#pragma once

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
