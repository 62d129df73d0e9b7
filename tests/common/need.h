/*
 * What a test needs of the machine beyond the ordinary. Where it is missing, the test says so by
 * name and ends as passed; the runner of all tests repeats these lines at its end.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <linux/fs.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

/** Always false: "SKIPPED test: needs what". check's START_TEST makes test_fn of the name. */
static inline bool need_lacks(const char *test, const char *what)
{
    const char *end = strstr(test, "_fn");

    printf("SKIPPED %.*s: needs %s\n", (int)(end ? end - test : (ptrdiff_t)strlen(test)), test,
           what);
    fflush(stdout);
    return false;
}

/** May a process have n descriptors? npud raises its own soft limit to the hard one. */
static inline bool need_fds(const char *test, rlim_t n)
{
    struct rlimit limit;
    char what[64];

    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_max >= n)
        return true;
    snprintf(what, sizeof(what), "ulimit -Hn %llu", (unsigned long long)n);
    return need_lacks(test, what);
}

/** Raises the soft limit of this process to n descriptors, if it may. */
static inline bool need_own_fds(const char *test, rlim_t n)
{
    struct rlimit limit;

    if (!need_fds(test, n) || getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return false;
    if (limit.rlim_cur < n) {
        limit.rlim_cur = n;
        return setrlimit(RLIMIT_NOFILE, &limit) == 0;
    }
    return true;
}

/** A server that nothing but the test ends (tests/common/chaos.h): why says for what. */
static inline bool need_one_server(const char *test, const char *why)
{
    const char *chaos = getenv("NPUD_CHAOS");
    char what[160];

    if (!chaos || atof(chaos) <= 0)
        return true;
    snprintf(what, sizeof(what), "one and the same server, without NPUD_CHAOS: %s", why);
    return need_lacks(test, what);
}

/** Something that an emulator of processors (qemu-user) does not do as the machine does. */
static inline bool need_no_emulator(const char *test, const char *what)
{
    return !getenv("NPUD_EMULATED") || need_lacks(test, what);
}

/** To run programs as several users. */
static inline bool need_root(const char *test)
{
    return geteuid() == 0 || need_lacks(test, "root, to have a second user");
}

/** To tell the kernel that a memfd gets no holes: what npud does where it may. */
static inline bool need_flags_of_files(const char *test)
{
    int fd = memfd_create("need", MFD_CLOEXEC), flags = FS_IMMUTABLE_FL, r;

    r = ioctl(fd, FS_IOC_SETFLAGS, &flags);
    close(fd);
    return r == 0 || need_lacks(test, "CAP_LINUX_IMMUTABLE and Linux 6.0");
}
