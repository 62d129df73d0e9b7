#include "daemon/base/memfd.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILE_MODE (S_IRUSR | S_IWUSR)

int memfd_new_empty(const char *name)
{
    int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING), r;

    if (fd < 0)
        return -errno;
    if (fchmod(fd, FILE_MODE) < 0) {
        r = -errno;
        close(fd);
        return r;
    }
    return fd;
}

/*
 * A hole is made under locks of the file that npud needs to map it, to unmap it and to touch its
 * pages, and a process without CPU time holds them for as long as it likes. For an inode with this
 * flag the kernel refuses holes to everybody; mappings, also new ones, are as without. It takes
 * CAP_LINUX_IMMUTABLE to set and to clear it, and Linux 6.0.
 */
static void refuse_holes(int fd)
{
    static _Atomic bool cannot;
    int flags = FS_IMMUTABLE_FL;

    if (!atomic_load_explicit(&cannot, memory_order_relaxed) &&
        ioctl(fd, FS_IOC_SETFLAGS, &flags) < 0)
        atomic_store_explicit(&cannot, true, memory_order_relaxed);
}

static int seal_size(int fd, uint64_t size)
{
    return ftruncate(fd, (off_t)size) < 0 ||
                   fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0
               ? -errno
               : 0;
}

int memfd_new_own(const char *name, uint64_t size)
{
    int fd = memfd_new_empty(name), r;

    if (fd < 0)
        return fd;
    r = seal_size(fd, size);
    if (r == 0)
        return fd;
    close(fd);
    return r;
}

int memfd_new(const char *name, uint64_t size)
{
    int fd = memfd_new_own(name, size);

    if (fd >= 0)
        refuse_holes(fd);
    return fd;
}

/* Last the flag: with it the kernel changes no mode. */
static int map_new(const char *name, size_t size, mode_t mode, int *fdp, void **mapp)
{
    int fd = memfd_new_own(name, size), r;
    void *map;

    if (fd < 0)
        return fd;
    map = mode != FILE_MODE && fchmod(fd, mode) < 0
              ? MAP_FAILED
              : mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (map == MAP_FAILED) {
        r = -errno;
        close(fd);
        return r;
    }
    refuse_holes(fd);
    *fdp = fd;
    *mapp = map;
    return 0;
}

int memfd_map_new(const char *name, size_t size, int *fdp, void **mapp)
{
    return map_new(name, size, FILE_MODE, fdp, mapp);
}

/* By its mode: through /proc/self/fd a client could open it again, for writing. */
int memfd_read_only_new(const char *name, size_t size, int *fdp, void **mapp)
{
    return map_new(name, size, S_IRUSR, fdp, mapp);
}

int memfd_open_read_only(int fd)
{
    char path[32];
    int r;

    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    r = open(path, O_RDONLY | O_CLOEXEC);
    return r < 0 ? -errno : r;
}
