#include "daemon/base/filled.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "daemon/base/log.h"

#ifndef UFFD_USER_MODE_ONLY
#define UFFD_USER_MODE_ONLY 1
#endif

#define PAGE 4096u

static int uffd = -1;
static struct sigaction action_before; /* of SIGBUS */

_Thread_local volatile uint64_t filled_bytes;

/*
 * In the thread that has touched the page, which then touches it again. What is no page of an
 * allocation ends npud, as without the handler.
 */
static void on_sigbus(int number, siginfo_t *info, void *context)
{
    struct uffdio_zeropage zero = {
        .range = {.start = (uintptr_t)info->si_addr & ~(uintptr_t)(PAGE - 1), .len = PAGE}};
    int saved = errno;

    (void)context;
    /* EEXIST: another thread, or the client, was faster. */
    if (ioctl(uffd, UFFDIO_ZEROPAGE, &zero) == 0)
        filled_bytes += PAGE;
    else if (errno != EEXIST)
        sigaction(number, &action_before, NULL);
    errno = saved;
}

static int open_uffd(void)
{
    struct uffdio_api api = {.api = UFFD_API,
                             .features = UFFD_FEATURE_SIGBUS | UFFD_FEATURE_MISSING_SHMEM};
    /* Of faults of the kernel there are none, and counting them would take a privilege. */
    int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | UFFD_USER_MODE_ONLY), r;

    if (fd < 0)
        return -errno;
    if (ioctl(fd, UFFDIO_API, &api) == 0)
        return fd;
    r = -errno;
    close(fd);
    return r;
}

void filled_init(void)
{
    struct sigaction action = {.sa_sigaction = on_sigbus, .sa_flags = SA_SIGINFO};

    uffd = open_uffd();
    if (uffd >= 0) {
        sigaction(SIGBUS, &action, &action_before);
        return;
    }
    errno = -uffd;
    uffd = -1;
    log_info("no userfaultfd (%m): pages that npud fills for clients are not counted "
             "(limits.filled_memory)");
}

void filled_deinit(void)
{
    if (uffd < 0)
        return;
    sigaction(SIGBUS, &action_before, NULL);
    close(uffd);
    uffd = -1;
}

void filled_watch(void *map, size_t size)
{
    struct uffdio_register range = {.range = {.start = (uintptr_t)map, .len = size},
                                    .mode = UFFDIO_REGISTER_MODE_MISSING};

    if (uffd >= 0)
        ioctl(uffd, UFFDIO_REGISTER, &range);
}

uint64_t filled_take(void)
{
    uint64_t bytes = filled_bytes;

    filled_bytes = 0;
    return bytes;
}
