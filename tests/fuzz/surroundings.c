#include "surroundings.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "cost.h"
#include "daemon/base/waitlist.h"
#include "fuzz.h"
#include "kernel.h"
#include "proto/util/clock.h"
#include "wrap.h"

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif

#define LOG_LINE_MAX 2048 /* with all that is before the text */

struct surroundings surroundings;

void surroundings_reset(void)
{
    surroundings = (struct surroundings){
        .now = NSEC_PER_SEC, .tick = NSEC_PER_USEC, .random = 1, .peer_death = -1};
}

WRAP(int, clock_gettime, clockid_t id, struct timespec *ts)
{
    if (!surroundings.on || (id != CLOCK_MONOTONIC && id != CLOCK_THREAD_CPUTIME_ID))
        return __real_clock_gettime(id, ts);
    surroundings.now = cost_clock(surroundings.now + surroundings.tick);
    *ts = timespec_from_ns(surroundings.now);
    return 0;
}

WRAP(ssize_t, getrandom, void *buf, size_t size, unsigned flags)
{
    unsigned char *p = buf;

    if (!surroundings.on)
        return __real_getrandom(buf, size, flags);
    for (size_t i = 0; i < size; i++) {
        surroundings.random = surroundings.random * UINT64_C(6364136223846793005) + 1;
        p[i] = (unsigned char)(surroundings.random >> 56);
    }
    return (ssize_t)size;
}

WRAP(int, getsockopt, int fd, int level, int option, void *value, socklen_t *len)
{
    if (!surroundings.on || level != SOL_SOCKET)
        return __real_getsockopt(fd, level, option, value, len);
    if (option == SO_PEERCRED) {
        struct ucred cred = {.pid = surroundings.peer_pid, .uid = surroundings.peer_uid};

        memcpy(value, &cred, sizeof(cred));
        return 0;
    }
    if (option == SO_PEERPIDFD) {
        int death = fcntl(surroundings.peer_death, F_DUPFD_CLOEXEC, 0);

        memcpy(value, &death, sizeof(death));
        return death < 0 ? -1 : 0;
    }
    return __real_getsockopt(fd, level, option, value, len);
}

/* As on any machine with enough CPUs to spin on. */
WRAP(int, sched_getaffinity, pid_t pid, size_t size, cpu_set_t *set)
{
    if (!surroundings.on)
        return __real_sched_getaffinity(pid, size, set);
    CPU_ZERO_S(size, set);
    for (size_t cpu = 0; cpu < 8; cpu++)
        CPU_SET_S(cpu, size, set);
    return 0;
}

/* Of /proc/PID/task: each process has its watcher, and one thread. */
WRAP(int, stat, const char *path, struct stat *st)
{
    if (!surroundings.on)
        return __real_stat(path, st);
    *st = (struct stat){.st_nlink = 4};
    return 0;
}

static bool is_proc(const char *path)
{
    return strncmp(path, "/proc/", 6) == 0;
}

/* The files that npud reads there: it has its ways without them. libFuzzer writes reproducers. */
WRAP(FILE *, fopen, const char *path, const char *mode)
{
    if (!surroundings.on || !is_proc(path))
        return __real_fopen(path, mode);
    errno = ENOENT;
    return NULL;
}

WRAP(DIR *, opendir, const char *path)
{
    if (!surroundings.on || !is_proc(path))
        return __real_opendir(path);
    errno = ENOENT;
    return NULL;
}

/* A report of npud. */
static ssize_t append_bytes(struct file *file, const void *data, size_t size)
{
    uint64_t end = file->size;

    if (!kernel_resize(file, end + size)) {
        errno = ENOSPC;
        return -1;
    }
    memcpy(kernel_bytes(file) + end, data, size);
    return (ssize_t)size;
}

/* --- the log --- */

/*
 * Read, not printed: one line, and nothing in it that a terminal would obey, whatever name a client
 * has given itself.
 */
WRAP(ssize_t, write, int fd, const void *data, size_t size)
{
    const unsigned char *line = data;

    if (kernel_has(fd))
        return append_bytes(kernel_file(fd), data, size);
    if (!surroundings.on || fd != STDERR_FILENO)
        return __real_write(fd, data, size);
    MUST(size > 0 && size < LOG_LINE_MAX && line[size - 1] == '\n');
    for (size_t i = 0; i + 1 < size; i++)
        MUST(line[i] >= ' ' && line[i] != 0x7f);
    return (ssize_t)size;
}

/* --- others that do something at the wrong moment --- */

WRAP(void, waitlist_add, struct waitlist *list, struct waiter *waiter, uint64_t target)
{
    void (*meanwhile)(void) = surroundings.meanwhile;

    __real_waitlist_add(list, waiter, target);
    surroundings.meanwhile = NULL;
    if (meanwhile)
        meanwhile();
}

/* --- exhaustion --- */

static bool is_refused(int error)
{
    if (!surroundings.on || surroundings.fail == 0 || --surroundings.fail > 0)
        return false;
    errno = error;
    return true;
}

WRAP(void *, malloc, size_t size)
{
    return is_refused(ENOMEM) ? NULL : __real_malloc(size);
}

WRAP(void *, calloc, size_t n, size_t size)
{
    return is_refused(ENOMEM) ? NULL : __real_calloc(n, size);
}

WRAP(void *, realloc, void *p, size_t size)
{
    return is_refused(ENOMEM) ? NULL : __real_realloc(p, size);
}

WRAP(void *, reallocarray, void *p, size_t n, size_t size)
{
    return is_refused(ENOMEM) ? NULL : __real_reallocarray(p, n, size);
}

WRAP(void *, aligned_alloc, size_t align, size_t size)
{
    return is_refused(ENOMEM) ? NULL : __real_aligned_alloc(align, size);
}

WRAP(void *, mmap, void *addr, size_t size, int prot, int flags, int fd, off_t offset)
{
    if (is_refused(ENOMEM))
        return MAP_FAILED;
    if (surroundings.on && (fd < 0 || kernel_has(fd)))
        return kernel_map(fd < 0 ? NULL : kernel_file(fd), size, (uint64_t)offset);
    return __real_mmap(addr, size, prot, flags, fd, offset);
}

WRAP(int, memfd_create, const char *name, unsigned flags)
{
    if (is_refused(EMFILE))
        return -1;
    return surroundings.on ? kernel_open(FILE_MEMORY) : __real_memfd_create(name, flags);
}

WRAP(int, eventfd, unsigned value, int flags)
{
    if (is_refused(EMFILE))
        return -1;
    return surroundings.on ? kernel_open_events(value) : __real_eventfd(value, flags);
}
