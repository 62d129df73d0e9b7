#include "daemon/base/memfd.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

int memfd_new_empty(const char *name)
{
    int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING), r;

    if (fd < 0)
        return -errno;
    if (fchmod(fd, S_IRUSR | S_IWUSR) < 0) {
        r = -errno;
        close(fd);
        return r;
    }
    return fd;
}

int memfd_new(const char *name, uint64_t size)
{
    int fd = memfd_new_empty(name);
    int r;

    if (fd < 0)
        return fd;
    if (ftruncate(fd, (off_t)size) < 0 ||
        fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0) {
        r = -errno;
        close(fd);
        return r;
    }
    return fd;
}

int memfd_map_new(const char *name, size_t size, int *fdp, void **mapp)
{
    int fd = memfd_new(name, size);
    void *map;
    int r;

    if (fd < 0)
        return fd;
    map = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (map == MAP_FAILED) {
        r = -errno;
        close(fd);
        return r;
    }
    *fdp = fd;
    *mapp = map;
    return 0;
}

int memfd_open_read_only(int fd)
{
    char path[32];
    int r;

    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    r = open(path, O_RDONLY | O_CLOEXEC);
    return r < 0 ? -errno : r;
}

int memfd_read_only_new(const char *name, size_t size, int *fdp, void **mapp)
{
    int r = memfd_map_new(name, size, fdp, mapp);

    if (r < 0)
        return r;
    /* By its mode: through /proc/self/fd a client could open it again, for writing. */
    if (fchmod(*fdp, S_IRUSR) == 0)
        return 0;
    r = -errno;
    munmap(*mapp, size);
    close(*fdp);
    *fdp = -1;
    return r;
}
