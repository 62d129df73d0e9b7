#include "daemon/base/pidfd.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "proto/util/proc_stat.h"

#ifndef PIDFS_MAGIC
#define PIDFS_MAGIC 0x50494446
#endif

int pidfd_open_process(int32_t pid)
{
    int pidfd = (int)syscall(SYS_pidfd_open, pid, 0);

    return pidfd < 0 ? -errno : pidfd;
}

bool pidfd_alive(int pidfd)
{
    struct pollfd p = {.fd = pidfd, .events = POLLIN};

    return pidfd >= 0 && poll(&p, 1, 0) == 0;
}

/* When the process started, in clock ticks. 0: there is none, or npud may not look. */
static uint64_t process_start(int32_t pid)
{
    char path[32], text[1024];
    const char *field;

    snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    field = proc_stat_read(path, text, sizeof(text));
    /* It is the 20th, after the blank that is found last. */
    for (int i = 1; field && i < 20; i++)
        field = strchr(field + 1, ' ');
    return field ? strtoull(field, NULL, 10) : 0;
}

uint64_t pidfd_of(int32_t pid, int pidfd)
{
    struct statfs fs;
    struct stat st;

    if (fstatfs(pidfd, &fs) == 0 && fs.f_type == PIDFS_MAGIC && fstat(pidfd, &st) == 0)
        return st.st_ino;
    return process_start(pid);
}

uint64_t pidfd_now(int32_t pid)
{
    int pidfd = pidfd_open_process(pid);
    uint64_t identity;

    if (pidfd < 0)
        return 0;
    identity = pidfd_of(pid, pidfd);
    close(pidfd);
    return identity;
}
