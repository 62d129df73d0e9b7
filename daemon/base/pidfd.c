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
    char path[32], text[1024], *end;
    unsigned long long start = 0;
    size_t size;
    FILE *f;

    snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    f = fopen(path, "re");
    if (!f)
        return 0;
    size = fread(text, 1, sizeof(text) - 1, f);
    fclose(f);
    text[size] = '\0';
    /* The name, in parentheses, may hold anything. The start is the 20th field behind it. */
    end = strrchr(text, ')');
    for (int field = 0; end && field < 20; field++)
        end = strchr(end + 1, ' ');
    if (end)
        start = strtoull(end + 1, NULL, 10);
    return start;
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
