/*
 * Processes without libcheck, for benchmarks and for the crowd, which both tests and benchmarks
 * use. Processes of a test are children or actors: tests/common/child.h, tests/common/actor.h.
 */
#pragma once

#include <stdbool.h>
#include <stdio.h>
#include <sys/types.h>

/**
 * Fork a process that runs fn(arg), exits with its result, and dies with the thread that has called
 * this. -1 with errno: there is none.
 */
pid_t process_start(int (*fn)(void *arg), void *arg);
/** Wait for its end: its status, as of waitpid(). */
int process_end(pid_t pid);

/** Another program, with pipes for its input and its output. */
struct piped {
    pid_t pid;
    FILE *to, *from;
};
/**
 * exec(arg) runs in the new process and replaces its program; status 127 if it returns. False with
 * errno: there is none.
 */
bool piped_start(struct piped *p, void (*exec)(void *arg), void *arg);
/** Close both pipes, and wait for its end as process_end(). */
int piped_end(struct piped *p);
