#include "daemon/base/own_fds.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

/* More than npud can have at once: most descriptors have a mapping, and 65,530 is their default. */
#define FDS_RESERVED 131072

void own_fds_occupy_standard(void)
{
    for (int fd = 0; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_RDWR) < 0)
            abort(); /* not even /dev/null: nothing that follows would work */
}

uint64_t own_fds_raise_limit(void)
{
    struct rlimit r;

    if (getrlimit(RLIMIT_NOFILE, &r) < 0)
        return UINT64_MAX;
    r.rlim_cur = r.rlim_max;
    setrlimit(RLIMIT_NOFILE, &r);
    return r.rlim_max;
}

void own_fds_reserve(uint64_t fds)
{
    int last = (int)(fds < FDS_RESERVED ? fds : FDS_RESERVED) - 1;
    int high = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, last);

    if (high >= 0)
        close(high);
}
