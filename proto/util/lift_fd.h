/*
 * Descriptors 0 to 2 are the program's, also when it has closed them: whatever the library opened
 * there would be read and written as standard input, output or error. The kernel gives the lowest
 * number that is free, so each descriptor is lifted where it is made or received.
 */
#pragma once

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/**
 * fd, or a copy of it above 2, and fd is closed. Closed on exec. -1 with errno: fd was -1, or no
 * number is free.
 */
static inline int lift_fd(int fd)
{
    int saved, high;

    if (__builtin_expect(fd > STDERR_FILENO || fd < 0, 1))
        return fd;
    high = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    saved = errno;
    close(fd);
    errno = saved;
    return high;
}

/** fopen(path, "re"), lifted. */
static inline FILE *lift_open(const char *path)
{
    int fd = lift_fd(open(path, O_RDONLY | O_CLOEXEC));
    FILE *f = fd >= 0 ? fdopen(fd, "r") : NULL;

    if (!f && fd >= 0)
        close(fd);
    return f;
}

/**
 * First in main() of a tool: each of 0 to 2 is open from here on, so that no other descriptor gets
 * the number. Of those that were closed, reading and writing fails as before, and they are closed
 * in programs that are started.
 */
static inline void occupy_standard_fds(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0 &&
            open("/dev/null", (fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) | O_CLOEXEC) != fd)
            abort(); /* not even /dev/null: nothing that follows would work */
}
