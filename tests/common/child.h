/*
 * Children: processes of a test that run one function from beginning to end, and take turns with
 * the test. Processes that take orders are actors: tests/common/actor.h.
 */
#pragma once

#include <stddef.h>
#include <sys/types.h>

/** New memory, all zero, that children started from now on share with their parent. */
void *child_share(size_t size);
/** A child process that runs fn(arg) and exits with its result. Fork before the library is used. */
pid_t child_start(int (*fn)(void *arg), void *arg);
/**
 * fork(), with a sanitizer as soon as the other threads of this process sleep. Those of gcc 12 do
 * not look after their locks: a child hangs if a thread, such as one that the library has just
 * started, was in their allocator. child_start() forks like this.
 */
pid_t fork_when_quiet(void);
/** One that does nothing until it is killed. */
pid_t child_start_idle(void);
/** In a group of its own, with all that it starts: for child_kill_group(). */
pid_t child_start_group(int (*fn)(void *arg));
/** Kill all of its group with SIGKILL, and reap it. */
void child_kill_group(pid_t pid);
/** Wait for its end and reap it: its status, as of waitpid(). */
int child_reap(pid_t pid);
/** The same, and assert that it exited with 0. Fails at once when another child has failed. */
void child_expect_ok(pid_t pid);
/** Stop it with SIGSTOP: when this returns, none of its threads runs any more. */
void child_stop(pid_t pid);
/** Kill it with SIGKILL and reap it. Asserts that no child has failed before. */
void child_kill(pid_t pid);
/**
 * Assert that no child has failed: exited with another status than 0, or died by another signal
 * than SIGKILL. For loops that wait for what children bring about.
 */
void child_expect_none_failed(void);

/**
 * A pipe to take turns with: turn_tell() on one side lets turn_await() on the other return. Make it
 * before forking. The wait ends at once, as a failure of the test, when a child of the waiting
 * process has failed, or when all of them have ended.
 */
struct turn {
    int fd[2];
};
void turn_init(struct turn *t);
void turn_tell(struct turn *t);
void turn_await(struct turn *t);

/** The turns of a test with one child. turns_init() makes both. */
extern struct turn to_child, to_parent;
void turns_init(void);
