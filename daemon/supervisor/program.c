#include "daemon/supervisor/program.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define PROGRAM_FD_MIN 16 /* above what a child has */

int program_take(struct program **program, int fd)
{
    *program = malloc(sizeof(**program));
    if (!*program)
        return -ENOMEM;
    **program = (struct program){.fd = fd, .users = 1};
    return 0;
}

int program_open(struct program **program, const char *path)
{
    int fd = open(path, O_PATH | O_CLOEXEC), high, r;

    *program = NULL;
    if (fd < 0)
        return -errno;
    high = fcntl(fd, F_DUPFD_CLOEXEC, PROGRAM_FD_MIN);
    r = high < 0 ? -errno : program_take(program, high);
    if (r < 0 && high >= 0)
        close(high);
    close(fd);
    return r;
}

struct program *program_use(struct program *program)
{
    if (program)
        program->users++;
    return program;
}

void program_drop(struct program **program)
{
    struct program *p = *program;

    *program = NULL;
    if (!p || --p->users > 0)
        return;
    close(p->fd);
    free(p);
}

void program_set(struct program **program, struct program *other)
{
    struct program *old = *program;

    *program = program_use(other);
    program_drop(&old);
}

int program_fd(const struct program *program)
{
    return program ? program->fd : -1;
}

void program_path(const struct program *program, char *path, size_t size)
{
    char link[64];
    ssize_t n;

    snprintf(link, sizeof(link), "/proc/self/fd/%d", program_fd(program));
    n = readlink(link, path, size - 1);
    if (n >= 0)
        path[n] = '\0';
    else
        snprintf(path, size, "a program");
}
