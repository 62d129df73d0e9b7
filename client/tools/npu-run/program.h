/* Programs that npu-run starts, and what they get from it. */
#pragma once

#include <limits.h>
#include <sys/types.h>

/** As env(1), nohup(1) and timeout(1) have it. */
#define STATUS_OWN_FAILURE 125

/** One that runs. */
struct program {
    pid_t pid;
    int pidfd; /* -1: not started */
};

#define PROGRAM_NULL                                                                               \
    {                                                                                              \
        .pid = -1, .pidfd = -1                                                                     \
    }

/** In the child: 0. In the parent: a pid, or -1 after saying why. */
pid_t program_fork(struct program *program, const char *name);

/** Waits for its end and returns it the way a shell does. */
int program_reap(struct program *program);

/** In the child: the next program has fd under that number. */
void program_pass_fd(int fd, int number);

#define PROGRAM_PATH (PATH_MAX + 32)

/** A program of ours beside this one: a path in *path, or its name, to be looked up in PATH. */
const char *program_find(const char *name, char path[PROGRAM_PATH]);
