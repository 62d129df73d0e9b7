/*
 * A program to start: O_PATH, so that it can still be started when its file has been replaced. The
 * supervisor and each child that was started from it use it, and the last user closes it: which of
 * them ends first is up to the order of requests and deaths.
 */
#pragma once

#include <stddef.h>

struct executable {
    int fd;
    unsigned users;
};

/** The program at a path, with one user. 0 or -errno. */
int executable_open(struct executable **program, const char *path);

/** That of a descriptor, which it takes over, with one user. 0 or -ENOMEM. */
int executable_take(struct executable **program, int fd);

/** One more user. NULL is no program, here and below. */
struct executable *executable_use(struct executable *program);

/** One user less. `*program` is NULL then. */
void executable_drop(struct executable **program);

/** `*program` becomes another one, which gets one more user. */
void executable_set(struct executable **program, struct executable *other);

/** Its descriptor, or -1. */
int executable_fd(const struct executable *program);

/** Where its file is now, for a sentence: "PATH (deleted)" if it was replaced. */
void executable_path(const struct executable *program, char *path, size_t size);
