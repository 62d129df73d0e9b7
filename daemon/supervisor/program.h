/*
 * A program to start: O_PATH, so that it can still be started when its file has been replaced. The
 * supervisor and each child that was started from it use it, and the last user closes it: which of
 * them ends first is up to the order of requests and deaths.
 */
#pragma once

#include <stddef.h>

struct program {
    int fd;
    unsigned users;
};

/** The program at a path, with one user. 0 or -errno. */
int program_open(struct program **program, const char *path);

/** That of a descriptor, which it takes over, with one user. 0 or -ENOMEM. */
int program_take(struct program **program, int fd);

/** One more user. NULL is no program, here and below. */
struct program *program_use(struct program *program);

/** One user less. `*program` is NULL then. */
void program_drop(struct program **program);

/** `*program` becomes another one, which gets one more user. */
void program_set(struct program **program, struct program *other);

/** Its descriptor, or -1. */
int program_fd(const struct program *program);

/** Where its file is now, for a sentence: "PATH (deleted)" if it was replaced. */
void program_path(const struct program *program, char *path, size_t size);
