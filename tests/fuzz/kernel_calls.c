/* Calls with descriptors of kernel.h go there, all others to libc. */
#include "kernel_calls.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <linux/sockios.h>
#include <poll.h>
#include <stdarg.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "fuzz.h"
#include "kernel.h"
#include "surroundings.h"
#include "wrap.h"

#ifndef PIDFS_MAGIC
#define PIDFS_MAGIC 0x50494446
#endif
#ifndef SO_PASSRIGHTS
#define SO_PASSRIGHTS 83
#endif
#ifndef SYS_cachestat
#define SYS_cachestat 451
#endif

static int fail_with(int error)
{
    errno = error;
    return -1;
}

/* --- any descriptor --- */

WRAP(int, close, int fd)
{
    return kernel_has(fd) ? kernel_close(fd) : __real_close(fd);
}

WRAP(int, fcntl, int fd, int command, ...)
{
    va_list list;
    long arg;

    va_start(list, command);
    arg = va_arg(list, long);
    va_end(list);
    if (!kernel_has(fd))
        return __real_fcntl(fd, command, arg);
    return command == F_DUPFD_CLOEXEC ? kernel_dup(fd, false) : 0;
}

WRAP(int, poll, struct pollfd *list, nfds_t n, int timeout)
{
    int ready = 0;

    if (n == 0 || !kernel_has(list[0].fd))
        return __real_poll(list, n, timeout);
    for (nfds_t i = 0; i < n; i++) {
        list[i].revents = kernel_ready(kernel_file(list[i].fd)) & list[i].events;
        ready += list[i].revents != 0;
    }
    return ready;
}

WRAP(int, fstat, int fd, struct stat *st)
{
    if (!kernel_has(fd))
        return __real_fstat(fd, st);
    *st = (struct stat){.st_ino = kernel_file(fd)->serial, .st_size = (off_t)kernel_file(fd)->size};
    return 0;
}

/* Only pidfds are asked. */
WRAP(int, fstatfs, int fd, struct statfs *st)
{
    if (!kernel_has(fd))
        return __real_fstatfs(fd, st);
    *st = (struct statfs){.f_type = PIDFS_MAGIC};
    return 0;
}

static int fd_of_path(const char *path)
{
    static const char directory[] = "/proc/self/fd/";
    int fd;

    if (strncmp(path, directory, sizeof(directory) - 1) != 0)
        return -1;
    fd = atoi(path + sizeof(directory) - 1);
    return kernel_has(fd) ? fd : -1;
}

WRAP(int, open, const char *path, int flags, ...)
{
    int fd = fd_of_path(path);
    va_list list;
    int mode;

    if (fd >= 0)
        return kernel_dup(fd, true);
    if (surroundings.on && strcmp(path, "/dev/null") == 0)
        return kernel_open(FILE_OTHER);
    va_start(list, flags);
    mode = flags & O_CREAT ? va_arg(list, int) : 0;
    va_end(list);
    return __real_open(path, flags, mode);
}

WRAP(ssize_t, readlink, const char *path, char *text, size_t size)
{
    int fd = fd_of_path(path);
    const char *name;

    if (fd < 0)
        return __real_readlink(path, text, size);
    name = kernel_file(fd)->kind == FILE_EVENT ? "anon_inode:[eventfd]" : "socket:[1]";
    if (size > strlen(name))
        size = strlen(name);
    memcpy(text, name, size);
    return (ssize_t)size;
}

/* --- sockets --- */

WRAP(int, socketpair, int domain, int type, int protocol, int pair[2])
{
    return surroundings.on ? kernel_pair(pair) : __real_socketpair(domain, type, protocol, pair);
}

WRAP(ssize_t, sendmsg, int fd, const struct msghdr *msg, int flags)
{
    return kernel_has(fd) ? kernel_send(kernel_file(fd), msg) : __real_sendmsg(fd, msg, flags);
}

WRAP(ssize_t, recvmsg, int fd, struct msghdr *msg, int flags)
{
    return kernel_has(fd) ? kernel_receive(kernel_file(fd), msg, flags)
                          : __real_recvmsg(fd, msg, flags);
}

/* npud looks whether the peer is there. */
WRAP(ssize_t, recv, int fd, void *to, size_t size, int flags)
{
    if (!kernel_has(fd))
        return __real_recv(fd, to, size, flags);
    MUST((flags & MSG_PEEK) && size == 1);
    return kernel_peek(kernel_file(fd), to);
}

WRAP(int, shutdown, int fd, int how)
{
    return kernel_has(fd) ? kernel_shutdown(kernel_file(fd)) : __real_shutdown(fd, how);
}

WRAP(int, setsockopt, int fd, int level, int option, const void *value, socklen_t len)
{
    int number;

    if (!kernel_has(fd))
        return __real_setsockopt(fd, level, option, value, len);
    memcpy(&number, value, sizeof(number));
    if (option == SO_SNDBUF)
        kernel_set_room(kernel_file(fd), number);
    if (option == SO_PASSRIGHTS)
        kernel_file(fd)->takes_fds = number != 0;
    return 0;
}

WRAP(int, ioctl, int fd, unsigned long request, void *value)
{
    const struct file *file;
    int unread;

    if (!kernel_has(fd))
        return __real_ioctl(fd, request, value);
    if (request == FS_IOC_SETFLAGS)
        return fail_with(EPERM); /* as without CAP_LINUX_IMMUTABLE */
    MUST(request == SIOCOUTQ);
    file = kernel_file(fd);
    unread = file->peer ? (int)file->peer->queued : 0;
    memcpy(value, &unread, sizeof(unread));
    return 0;
}

/* --- eventfds and epoll sets --- */

WRAP(int, eventfd_write, int fd, eventfd_t value)
{
    struct file *file;

    if (!kernel_has(fd))
        return __real_eventfd_write(fd, value);
    file = kernel_file(fd);
    if (value > UINT64_MAX - 1 - file->count)
        return fail_with(EAGAIN);
    file->count += value;
    file->changes++;
    return 0;
}

WRAP(int, eventfd_read, int fd, eventfd_t *value)
{
    struct file *file;

    if (!kernel_has(fd))
        return __real_eventfd_read(fd, value);
    file = kernel_file(fd);
    if (file->count == 0)
        return fail_with(EAGAIN);
    *value = file->count;
    file->count = 0;
    file->changes++;
    return 0;
}

/* An eventfd cannot be read like that. */
WRAP(ssize_t, preadv2, int fd, const struct iovec *iov, int n, off_t offset, int flags)
{
    return kernel_has(fd) ? fail_with(EOPNOTSUPP) : __real_preadv2(fd, iov, n, offset, flags);
}

WRAP(int, epoll_create1, int flags)
{
    return surroundings.on ? kernel_open(FILE_EPOLL) : __real_epoll_create1(flags);
}

WRAP(int, epoll_ctl, int set, int op, int fd, struct epoll_event *event)
{
    if (!kernel_has(set))
        return __real_epoll_ctl(set, op, fd, event);
    return kernel_has(fd) ? kernel_watch(kernel_file(set), op, kernel_file(fd), event)
                          : fail_with(EBADF);
}

WRAP(int, epoll_wait, int set, struct epoll_event *events, int max, int timeout)
{
    return kernel_has(set) ? kernel_look(kernel_file(set), events, max)
                           : __real_epoll_wait(set, events, max, timeout);
}

/* --- memory --- */

WRAP(int, ftruncate, int fd, off_t size)
{
    if (!kernel_has(fd))
        return __real_ftruncate(fd, size);
    return kernel_resize(kernel_file(fd), (uint64_t)size) ? 0 : fail_with(ENOMEM);
}

WRAP(int, fchmod, int fd, mode_t mode)
{
    return kernel_has(fd) ? 0 : __real_fchmod(fd, mode);
}

WRAP(int, munmap, void *at, size_t size)
{
    if (!kernel_is_mapped(at))
        return __real_munmap(at, size);
    kernel_unmap(at, size);
    return 0;
}

WRAP(int, fallocate, int fd, int mode, off_t offset, off_t size)
{
    struct file *file;

    if (!kernel_has(fd))
        return __real_fallocate(fd, mode, offset, size);
    file = kernel_file(fd);
    MUST(mode & FALLOC_FL_PUNCH_HOLE);
    kernel_clear(file, (uint64_t)offset, (uint64_t)size);
    return 0;
}

WRAP(ssize_t, pread, int fd, void *to, size_t size, off_t offset)
{
    if (!kernel_has(fd))
        return __real_pread(fd, to, size, offset);
    memcpy(to, kernel_bytes(kernel_file(fd)) + offset, size);
    return (ssize_t)size;
}

/* --- without a function in libc --- */

static long open_process(pid_t pid)
{
    int fd = surroundings.find_process ? surroundings.find_process(pid) : -1;

    return fd < 0 ? fail_with(ESRCH) : kernel_dup(fd, false);
}

/* As __wrap_mincore(): of what is not resident, nothing is swapped out. */
static long answer_cachestat(uint64_t counts[5])
{
    memset(counts, 0, 5 * sizeof(*counts));
    return 0;
}

long __real_syscall(long number, ...);

#define CALL_ARGS 5 /* in registers, so that all of them can be read; the futex calls have more */

static long answer_call(long number, const long arg[CALL_ARGS])
{
    switch (number) {
    case SYS_futex: /* nobody sleeps */
        return 0;
    case SYS_pidfd_open:
        return open_process((pid_t)arg[0]);
    case SYS_userfaultfd:
        return fail_with(ENOSYS);
    case SYS_cachestat:
        return answer_cachestat((uint64_t *)arg[2]);
    default:
        return __real_syscall(number, arg[0], arg[1], arg[2], arg[3], arg[4]);
    }
}

WRAP(long, syscall, long number, ...)
{
    long arg[CALL_ARGS];
    va_list list;

    va_start(list, number);
    for (int i = 0; i < CALL_ARGS; i++)
        arg[i] = va_arg(list, long);
    va_end(list);
    if (!surroundings.on)
        return __real_syscall(number, arg[0], arg[1], arg[2], arg[3], arg[4]);
    return answer_call(number, arg);
}
