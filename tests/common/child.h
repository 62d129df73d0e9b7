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
 * fork(), as soon as the other threads of this process sleep. The sanitizers of gcc 12 do not look
 * after their locks: a child hangs if a thread, such as one that the library has just started, was
 * in its allocator.
 */
pid_t fork_when_quiet(void);
/** Wait for it and assert that it exited with 0. */
void child_expect_ok(pid_t pid);
/** Kill it with SIGKILL and reap it. */
void child_kill(pid_t pid);

/**
 * A pipe to take turns with: turn_tell() on one side lets turn_await() on the other return. Make it
 * before forking.
 */
struct turn {
    int fd[2];
};
void turn_init(struct turn *t);
void turn_tell(struct turn *t);
void turn_await(struct turn *t);
