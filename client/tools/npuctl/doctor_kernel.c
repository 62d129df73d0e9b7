/* What npud and the library ask of the kernel: each is tried, not read from a version. */
#include <errno.h>
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <linux/membarrier.h>
#include <linux/userfaultfd.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "client/tools/npuctl/doctor_check.h"
#include "proto/util/lift_fd.h"

#ifndef UFFD_USER_MODE_ONLY
#define UFFD_USER_MODE_ONLY 1
#endif

#define DESCRIPTORS_LEAST 256   /* a process with some streams, and its own files */
#define MAPPINGS_DEFAULT  65530 /* the kernel's */

/* The end of a check that has tried something: errno is that of the attempt. */
static enum verdict tell_attempt(struct finding *f, bool works, enum verdict without,
                                 const char *what, const char *loss)
{
    if (works)
        return finding_say(f, VERDICT_OK, "%s", what);
    return finding_say(f, without, "%s: %s: %s", what, strerror(errno), loss);
}

/* Closes fd, and keeps errno. */
static bool close_tried(int fd)
{
    int saved = errno;

    if (fd >= 0)
        close(fd);
    errno = saved;
    return fd >= 0;
}

enum verdict check_memory_files(const struct host *host, struct finding *f)
{
    int fd = lift_fd(memfd_create("npuctl-doctor", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    bool works = fd >= 0 && ftruncate(fd, 1) == 0 &&
                 fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) == 0;

    (void)host;
    close_tried(fd);
    return tell_attempt(f, works, VERDICT_FAIL, "memory files with seals",
                        "npud shares memory by them");
}

enum verdict check_process_handles(const struct host *host, struct finding *f)
{
    (void)host;
    return tell_attempt(f, close_tried(lift_fd(pidfd_open(getpid(), 0))), VERDICT_FAIL,
                        "handles of processes", "npud knows its clients by them");
}

enum verdict check_barriers(const struct host *host, struct finding *f)
{
    bool works = syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0;

    (void)host;
    return tell_attempt(f, works, VERDICT_WARN, "barriers among the threads of a process",
                        "locks are slower, and rings of destroyed queues stay mapped");
}

enum verdict check_page_faults(const struct host *host, struct finding *f)
{
    bool works =
        close_tried(lift_fd((int)syscall(SYS_userfaultfd, O_CLOEXEC | UFFD_USER_MODE_ONLY)));

    (void)host;
    return tell_attempt(f, works, VERDICT_WARN, "page faults that npud sees",
                        "limits.filled_memory does not count, all else works");
}

enum verdict check_own_memory(const struct host *host, struct finding *f)
{
    char from = 1, to = 0;
    struct iovec here = {&to, 1}, there = {&from, 1};
    bool works = process_vm_readv(getpid(), &here, 1, &there, 1, 0) == 1;

    (void)host;
    return tell_attempt(f, works, VERDICT_WARN, "a process reads its own memory",
                        "dumps of tensors are not written");
}

enum verdict check_async_io(const struct host *host, struct finding *f)
{
    aio_context_t context = 0;
    bool works = syscall(SYS_io_setup, 1L, &context) == 0;

    (void)host;
    if (works)
        syscall(SYS_io_destroy, context);
    return tell_attempt(f, works, VERDICT_WARN, "asynchronous input and output",
                        "a full event descriptor holds up others of its process");
}

enum verdict check_mappings(const struct host *host, struct finding *f)
{
    unsigned long long max = 0;
    FILE *file = lift_open("/proc/sys/vm/max_map_count");
    bool known = file && fscanf(file, "%llu", &max) == 1;

    (void)host;
    if (file)
        fclose(file);
    if (!known)
        return finding_say(f, VERDICT_SKIP, "vm.max_map_count cannot be read");
    return finding_say(f, max < MAPPINGS_DEFAULT ? VERDICT_WARN : VERDICT_OK,
                       "vm.max_map_count is %llu: npud has one mapping or more for each session, "
                       "event and allocation",
                       max);
}

enum verdict check_descriptors(const struct host *host, struct finding *f)
{
    struct rlimit limit;

    (void)host;
    if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
        return finding_say(f, VERDICT_SKIP, "RLIMIT_NOFILE: %s", strerror(errno));
    return finding_say(f, limit.rlim_cur < DESCRIPTORS_LEAST ? VERDICT_WARN : VERDICT_OK,
                       "a program started here may have %llu files open",
                       (unsigned long long)limit.rlim_cur);
}
