#include "daemon/base/fence.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <unistd.h>

int fence_take(int fd)
{
    char path[32];
    int own, r = 0;

    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    own = open(path, O_RDWR | O_CLOEXEC);
    if (own < 0)
        return -errno;
    while (flock(own, LOCK_EX) < 0 && r == 0)
        r = errno == EINTR ? 0 : -errno;
    if (r == 0)
        return own;
    close(own);
    return r;
}
