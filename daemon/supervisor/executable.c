#include "daemon/supervisor/executable.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define PROGRAM_FD_MIN 16 /* above what a child has */

int executable_take(struct executable **program, int fd)
{
    *program = malloc(sizeof(**program));
    if (!*program)
        return -ENOMEM;
    **program = (struct executable){.fd = fd, .users = 1};
    return 0;
}

int executable_open(struct executable **program, const char *path)
{
    int fd = open(path, O_PATH | O_CLOEXEC), high, r;

    *program = NULL;
    if (fd < 0)
        return -errno;
    high = fcntl(fd, F_DUPFD_CLOEXEC, PROGRAM_FD_MIN);
    r = high < 0 ? -errno : executable_take(program, high);
    if (r < 0 && high >= 0)
        close(high);
    close(fd);
    return r;
}

struct executable *executable_use(struct executable *program)
{
    if (program)
        program->users++;
    return program;
}

void executable_drop(struct executable **program)
{
    struct executable *p = *program;

    *program = NULL;
    if (!p || --p->users > 0)
        return;
    close(p->fd);
    free(p);
}

void executable_set(struct executable **program, struct executable *other)
{
    struct executable *old = *program;

    *program = executable_use(other);
    executable_drop(&old);
}

int executable_fd(const struct executable *program)
{
    return program ? program->fd : -1;
}

void executable_path(const struct executable *program, char *path, size_t size)
{
    char link[64];
    ssize_t n;

    snprintf(link, sizeof(link), "/proc/self/fd/%d", executable_fd(program));
    n = readlink(link, path, size - 1);
    if (n >= 0)
        path[n] = '\0';
    else
        snprintf(path, size, "a program");
}
